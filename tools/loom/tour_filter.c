/* The steps of the tour on a filter. The filter holds the keys of index 0 to n - 1, or none; `rounds` is not used. */
#define _POSIX_C_SOURCE 200809L
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_timer.h"
#include "tour.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether false positives exceed the rate that the filter's own bits give by more than a tolerance and some standard
 * deviations. */
static bool too_many(uint64_t positives, uint64_t absent, double rate)
{
    const double expected = rate * (double)absent;
    return (double)positives > expected * (1 + BENCH_RATE_TOLERANCE) + BENCH_RATE_DEVIATIONS * sqrt(fmax(expected, 1));
}

/* Looks up the n keys from index `first` on; *positives gets the number found. */
static bool ask(tour *t, loom_filter *filter, uint64_t first, uint64_t *positives)
{
    loom_result result = {0};
    tour_spoil_answers(t);
    const void *keys = bench_at(t->all_keys, first, t->key_bytes);
    const double begun = bench_seconds();
    const loom_status status = loom_filter_contains(filter, keys, t->n, t->found, &result, NULL);
    tour_took(t, begun, t->n);
    *positives = 0;
    if (!tour_did(t, status, "contains"))
        return false;
    for (uint64_t i = 0; i < t->n; i++) {
        t->answers++;
        *positives += t->found[i];
        if (t->found[i] > 1)
            tour_wrong(t, "found is %u for the key of index %" PRIu64, (unsigned)t->found[i], first + i);
    }
    if (result.ok != *positives || result.not_found != t->n - *positives || result.keys != t->n)
        tour_wrong(t, "%" PRIu64 " keys are found, and the result counts %" PRIu64, *positives, result.ok);
    return true;
}

/* All n keys are found, and few of n others. */
static void check_filter(tour *t, loom_filter *filter)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    uint64_t there, others;
    if (!tour_did(t, loom_filter_stats(filter, &report, NULL), "stats") || !ask(t, filter, 0, &there) ||
        !ask(t, filter, t->n, &others))
        return;
    if (there != t->n)
        tour_wrong(t, "%" PRIu64 " keys that were inserted are not found", t->n - there);
    if (too_many(others, t->n, report.false_positive_rate))
        tour_wrong(t, "%" PRIu64 " of %" PRIu64 " absent keys are found, at a rate of %g", others, t->n,
                   report.false_positive_rate);
}

/* Excludes the time of checking from the step's time. */
static void check_untimed(tour *t, loom_filter *filter)
{
    const tour_cell cell = *t->cell;
    check_filter(t, filter);
    t->cell->seconds = cell.seconds;
    t->cell->operations = cell.operations;
}

static void insert(tour *t, uint32_t flags)
{
    loom_result result = {0};
    if (!tour_did(t, loom_filter_clear(t->filter, NULL, NULL), "clear"))
        return;
    const double begun = bench_seconds();
    const loom_status status = loom_filter_insert(t->filter, t->all_keys, t->n, flags, NULL, &result, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "insert"))
        return;
    if (result.status != LOOM_OK || result.keys != t->n || result.ok != t->n)
        tour_wrong(t, "the result says %s, and counts %" PRIu64 " of %" PRIu64 " keys",
                   loom_status_name((loom_status)result.status), result.ok, t->n);
    check_untimed(t, t->filter);
}

static void step_insert_directly(tour *t)
{
    insert(t, LOOM_DIRECTLY);
}

static void step_insert(tour *t)
{
    insert(t, 0);
}

/* Inserts all keys. t->found tells which were new. *fresh gets their number. */
static bool add(tour *t, uint64_t *fresh)
{
    loom_result result = {0};
    tour_spoil_answers(t);
    const double begun = bench_seconds();
    const loom_status status = loom_filter_insert(t->filter, t->all_keys, t->n, 0, t->found, &result, NULL);
    tour_took(t, begun, t->n);
    *fresh = 0;
    if (!tour_did(t, status, "insert"))
        return false;
    for (uint64_t i = 0; i < t->n; i++) {
        t->answers++;
        *fresh += t->found[i];
        if (t->found[i] > 1)
            tour_wrong(t, "added is %u for the key of index %" PRIu64, (unsigned)t->found[i], i);
    }
    if (result.ok != *fresh || result.exists != t->n - *fresh || result.keys != t->n)
        tour_wrong(t, "%" PRIu64 " keys are new, and the result counts %" PRIu64, *fresh, result.ok);
    return true;
}

static void step_insert_and_tell(tour *t)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    uint64_t fresh, again;
    if (!tour_did(t, loom_filter_clear(t->filter, NULL, NULL), "clear") || !add(t, &fresh) || !add(t, &again) ||
        !tour_did(t, loom_filter_stats(t->filter, &report, NULL), "stats"))
        return;
    if (too_many(t->n - fresh, t->n, report.false_positive_rate))
        tour_wrong(t, "of %" PRIu64 " keys only %" PRIu64 " are new to an empty filter", t->n, fresh);
    if (again > 0)
        tour_wrong(t, "%" PRIu64 " keys are new that were inserted before", again);
    check_untimed(t, t->filter);
}

static void step_contains_present(tour *t)
{
    uint64_t positives;
    if (ask(t, t->filter, 0, &positives) && positives != t->n)
        tour_wrong(t, "%" PRIu64 " keys that were inserted are not found", t->n - positives);
}

static void step_contains_absent(tour *t)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    uint64_t positives;
    if (tour_did(t, loom_filter_stats(t->filter, &report, NULL), "stats") && ask(t, t->filter, t->n, &positives) &&
        too_many(positives, t->n, report.false_positive_rate))
        tour_wrong(t, "%" PRIu64 " of %" PRIu64 " absent keys are found", positives, t->n);
}

static void step_stats(tour *t)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    const double begun = bench_seconds();
    const loom_status status = loom_filter_stats(t->filter, &report, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "stats"))
        return;
    t->answers += 2;
    if (report.capacity != t->n || report.key_bytes != t->key_bytes || report.engine != t->table->engine)
        tour_wrong(t, "stats has capacity %" PRIu64 " and keys of %u bytes", report.capacity,
                   (unsigned)report.key_bytes);
    if (fabs(report.estimated_keys - (double)t->n) > 0.05 * (double)t->n + 5 * sqrt((double)t->n))
        tour_wrong(t, "stats estimates %.0f keys", report.estimated_keys);
}

static void step_memory(tour *t)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    loom_memory memory = LOOM_MEMORY_INIT;
    uint64_t used = 0;
    if (!tour_did(t, loom_filter_get_config(t->filter, &config), "get_config") ||
        !tour_did(t, loom_filter_memory_required(t->context, &config, &memory), "memory_required") ||
        !tour_did(t, loom_filter_memory_used(t->filter, &used), "memory_used"))
        return;
    t->answers += 2;
    if (config.key_bytes != t->key_bytes || config.capacity != t->n)
        tour_wrong(t, "get_config gives another config than the filter was made with");
    if (used > memory.table_bytes)
        tour_wrong(t, "the filter uses %" PRIu64 " bytes, memory_required says %" PRIu64, used, memory.table_bytes);
}

static void step_merge(tour *t)
{
    loom_filter *like;
    if (!tour_did(t, loom_filter_create_like(t->filter, &like), "create_like"))
        return;
    const double begun = bench_seconds();
    const loom_status status = loom_filter_merge(like, t->filter, NULL);
    tour_took(t, begun, t->n);
    if (tour_did(t, status, "merge"))
        check_untimed(t, like);
    loom_filter_destroy(like);
}

static void step_clone(tour *t)
{
    loom_filter *clone;
    const double begun = bench_seconds();
    const loom_status status = loom_filter_clone(t->filter, &clone, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "clone"))
        return;
    check_untimed(t, clone);
    loom_filter_destroy(clone);
}

static void step_save_and_load(tour *t)
{
    loom_filter *loaded;
    char path[512];
    snprintf(path, sizeof path, "%s/filter_%u.loom", t->directory, (unsigned)t->key_bytes);
    const double begun = bench_seconds();
    loom_status status = loom_filter_save(t->filter, path, NULL);
    if (status == LOOM_OK)
        status = loom_filter_load(t->context, path, &loaded, NULL);
    tour_took(t, begun, t->n);
    unlink(path);
    if (!tour_did(t, status, "save, load"))
        return;
    check_untimed(t, loaded);
    loom_filter_destroy(loaded);
}

static void step_clear(tour *t)
{
    uint64_t positives;
    const double begun = bench_seconds();
    const loom_status status = loom_filter_clear(t->filter, NULL, NULL);
    tour_took(t, begun, t->n);
    const tour_cell cell = *t->cell;
    if (tour_did(t, status, "clear") && ask(t, t->filter, 0, &positives) && positives > 0)
        tour_wrong(t, "%" PRIu64 " keys are found after all went", positives);
    t->cell->seconds = cell.seconds;
}

const tour_step tour_filter_steps[] = {
    {.name = "insert directly", .run = step_insert_directly, .needs = LOOM_FEATURE_INSERT},
    {.name = "insert, tell new keys", .run = step_insert_and_tell, .needs = LOOM_FEATURE_INSERT},
    {.name = "insert", .run = step_insert, .needs = LOOM_FEATURE_INSERT},
    {.name = "contains, all there", .run = step_contains_present, .needs = LOOM_FEATURE_FIND},
    {.name = "contains, none there", .run = step_contains_absent, .needs = LOOM_FEATURE_FIND},
    {.name = "stats", .run = step_stats},
    {.name = "memory, config", .run = step_memory},
    {.name = "merge", .run = step_merge, .needs = LOOM_FEATURE_MERGE},
    {.name = "clone", .run = step_clone, .needs = LOOM_FEATURE_CLONE},
    {.name = "save and load", .run = step_save_and_load, .needs = LOOM_FEATURE_SAVE},
    {.name = "clear", .run = step_clear},
    {0},
};
