/* The steps of the tour that only read, on a table that holds about half or all of its keys. */
#include "bench_keys.h"
#include "bench_timer.h"
#include "bench_zipf.h"
#include "tour.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* n lookups in scattered order; about this share has an index that may be in the table. */
static void make_queries(tour *t, double share_of_hits)
{
    bench_draw draw, coin;
    bench_draw_init(&draw, t->n, 0, 1);
    bench_draw_init(&coin, 1, 0, 2);
    for (uint64_t i = 0; i < t->n; i++) {
        const uint64_t index = bench_draw_index(&draw);
        tour_put(t, i, bench_draw_unit(&coin) < share_of_hits ? index : index + t->n, 0);
    }
    tour_spoil_answers(t);
}

static void find(tour *t, double share_of_hits)
{
    loom_result result;
    make_queries(t, share_of_hits);
    const double begun = bench_seconds();
    const loom_status status = loom_map_find(t->map, t->keys, t->n, t->found_values, NULL, t->status, &result, NULL);
    tour_took(t, begun, t->n);
    if (tour_did(t, status, "find"))
        tour_check_lookup(t, t->n, t->found_values, &result);
}

static void step_find_present(tour *t)
{
    find(t, 1);
}

static void step_find_half(tour *t)
{
    find(t, 0.5);
}

static void step_find_absent(tour *t)
{
    find(t, 0);
}

static void step_contains(tour *t)
{
    loom_result result;
    make_queries(t, 0.5);
    const double begun = bench_seconds();
    const loom_status status = loom_map_contains(t->map, t->keys, t->n, t->found, t->status, &result, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "contains"))
        return;
    tour_check_lookup(t, t->n, NULL, &result);
    for (uint64_t i = 0; i < t->n; i++) {
        if (t->found[i] != (t->rounds[tour_index(t, i)] != TOUR_ABSENT))
            tour_wrong(t, "found is %u for the key of index %" PRIu64, (unsigned)t->found[i], tour_index(t, i));
    }
}

static void step_size(tour *t)
{
    uint64_t size = 0;
    t->answers++;
    if (tour_did(t, loom_map_size(t->map, &size, NULL), "size") && size != tour_expected_size(t))
        tour_wrong(t, "%" PRIu64 " instead of %" PRIu64, size, tour_expected_size(t));
}

/* The statistics and a count over all keys must give the same cost of a lookup. */
static void step_stats(tour *t)
{
    loom_stats stats = LOOM_STATS_INIT;
    const double begun = bench_seconds();
    const loom_status status = loom_map_stats(t->map, &stats, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "stats"))
        return;
    t->answers++;
    if (stats.size != tour_expected_size(t) || stats.capacity != t->n || stats.slots < t->n ||
        stats.key_bytes != t->key_bytes || stats.value_bytes != t->value_bytes)
        tour_wrong(t, "stats has size %" PRIu64 ", capacity %" PRIu64 ", slots %" PRIu64, stats.size, stats.capacity,
                   stats.slots);
    if (fabs(stats.load - (double)stats.size / (double)stats.slots) > 1e-9)
        tour_wrong(t, "stats has load %g", stats.load);

    uint64_t accesses = 0, present = 0;
    for (uint64_t i = 0; i < t->n; i++) {
        if (t->rounds[i] != TOUR_ABSENT)
            tour_put(t, present++, i, 0);
    }
    if (!tour_did(t, loom_map_count_accesses(t->map, t->keys, present, &accesses, NULL), "count_accesses"))
        return;
    t->answers++;
    if (fabs((double)accesses - stats.accesses_per_hit * (double)present) > 1e-6 * (double)present)
        tour_wrong(t, "stats has %.6f accesses per hit, counting gives %.6f", stats.accesses_per_hit,
                   (double)accesses / (double)present);
}

static void step_memory(tour *t)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_memory memory = LOOM_MEMORY_INIT;
    uint64_t used = 0;
    if (!tour_did(t, loom_map_get_config(t->map, &config), "get_config") ||
        !tour_did(t, loom_map_memory_required(t->context, &config, &memory), "memory_required") ||
        !tour_did(t, loom_map_memory_used(t->map, &used), "memory_used"))
        return;
    t->answers += 2;
    if (config.key_bytes != t->key_bytes || config.value_bytes != t->value_bytes || config.capacity != t->n)
        tour_wrong(t, "get_config gives another config than the table was made with");
    if (used > memory.table_bytes)
        tour_wrong(t, "the table uses %" PRIu64 " bytes, memory_required says %" PRIu64, used, memory.table_bytes);
}

static void step_verify(tour *t)
{
    const double begun = bench_seconds();
    const loom_status status = loom_map_verify(t->map, NULL);
    tour_took(t, begun, t->n);
    t->answers++;
    tour_did(t, status, "verify");
}

static void check_pairs(tour *t, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        tour_check_pair(t, bench_get(t->keys, i, t->key_bytes), bench_get(t->found_values, i, t->value_bytes));
}

static void step_retrieve_all(tour *t)
{
    uint64_t counted = 0, count = 0;
    if (!tour_did(t, loom_map_retrieve_all(t->map, NULL, NULL, 0, &counted, NULL, NULL), "retrieve_all (count)"))
        return;
    if (counted != tour_expected_size(t)) {
        tour_wrong(t, "retrieve_all counts %" PRIu64 " pairs instead of %" PRIu64, counted, tour_expected_size(t));
        return;
    }
    if (counted > 1 &&
        loom_map_retrieve_all(t->map, t->keys, t->found_values, counted - 1, &count, NULL, NULL) != LOOM_TOO_SMALL)
        tour_wrong(t, "retrieve_all took arrays that are too small");
    const double begun = bench_seconds();
    const loom_status status = loom_map_retrieve_all(t->map, t->keys, t->found_values, t->n, &count, NULL, NULL);
    tour_took(t, begun, count);
    if (!tour_did(t, status, "retrieve_all"))
        return;
    if (count != counted)
        tour_wrong(t, "retrieve_all gave %" PRIu64 " pairs after it counted %" PRIu64, count, counted);
    memset(t->seen, 0, (size_t)t->n);
    check_pairs(t, count < t->n ? count : t->n);
}

static void step_cursor(tour *t)
{
    const uint64_t room = t->n / 7 + 1;
    loom_cursor *cursor;
    uint64_t promised = 0, given = 0, got = 0;
    double seconds = 0;
    if (!tour_did(t, loom_map_cursor_open(t->map, &cursor, &promised, NULL), "cursor_open"))
        return;
    memset(t->seen, 0, (size_t)t->n);
    do { /* ends: every round but the last returns pairs, and too many pairs are an error */
        const double begun = bench_seconds();
        const loom_status status = loom_cursor_next(cursor, t->keys, t->found_values, room, &got, NULL);
        seconds += bench_seconds() - begun;
        if (!tour_did(t, status, "cursor_next") || got > room)
            break;
        given += got;
        check_pairs(t, got);
    } while (got > 0 && given <= promised);
    loom_cursor_close(cursor);
    t->cell->operations = given;
    t->cell->seconds = seconds;
    if (given != promised || given != tour_expected_size(t))
        tour_wrong(t, "the cursor promised %" PRIu64 " pairs and gave %" PRIu64, promised, given);
}

/* A cursor must report that its table was written. The key is erased and inserted again: the contents stay. */
static void step_cursor_changed(tour *t)
{
    loom_cursor *cursor;
    uint64_t got = 0;
    if (!tour_did(t, loom_map_cursor_open(t->map, &cursor, NULL, NULL), "cursor_open"))
        return;
    tour_did(t, loom_cursor_next(cursor, t->keys, t->found_values, 1, &got, NULL), "cursor_next");
    tour_put(t, 0, 0, t->rounds[0]);
    tour_did(t, loom_map_erase(t->map, t->keys, 1, NULL, NULL, NULL), "erase");
    tour_did(t, loom_map_insert(t->map, t->keys, t->values, 1, LOOM_KEEP, NULL, NULL, NULL), "insert");
    t->answers++;
    const loom_status status = loom_cursor_next(cursor, t->keys, t->found_values, 1, &got, NULL);
    if (status != LOOM_CHANGED)
        tour_wrong(t, "the cursor answered %s after a write", loom_status_name(status));
    loom_cursor_close(cursor);
}

const tour_step tour_read_steps[] = {
    {.name = "find, all there", .run = step_find_present},
    {.name = "find, half there", .run = step_find_half},
    {.name = "find, none there", .run = step_find_absent},
    {.name = "contains, half there", .run = step_contains},
    {.name = "size", .run = step_size},
    {.name = "stats, count_accesses", .run = step_stats},
    {.name = "memory, config", .run = step_memory},
    {.name = "verify", .run = step_verify},
    {.name = "retrieve_all", .run = step_retrieve_all, .needs = LOOM_FEATURE_RETRIEVE_ALL},
    {.name = "cursor", .run = step_cursor, .needs = LOOM_FEATURE_RETRIEVE_ALL},
    {.name = "cursor, table changed", .run = step_cursor_changed, .needs = LOOM_FEATURE_RETRIEVE_ALL},
    {0},
};
