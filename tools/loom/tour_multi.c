/* The steps of the tour on a multimap. Key i of t->lists keys may have the values number 0 to MOST - 1 (bench_keys.h:
 * rounds). The reference has a bit for each number. Keys from t->lists on are always absent. A batch has at most n
 * pairs. */
#define _POSIX_C_SOURCE 200809L
#include "bench_keys.h"
#include "bench_timer.h"
#include "tour.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 7 /* numbers of the first batch: key i has 1 + i % 7 of them */, MOST = 12 };

static uint64_t value_of(const tour *t, uint64_t key, uint32_t number)
{
    return bench_value_of(key, number, t->value_bytes);
}

static uint64_t count_bits(uint64_t bits)
{
    return (uint64_t)__builtin_popcountll(bits);
}

static uint64_t expected_pairs(const tour *t)
{
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < t->lists; i++)
        pairs += count_bits(t->numbers[i]);
    return pairs;
}

static uint64_t expected_keys(const tour *t)
{
    uint64_t keys = 0;
    for (uint64_t i = 0; i < t->lists; i++)
        keys += t->numbers[i] != 0;
    return keys;
}

/* Whether key i has the number in the first batch. */
static bool is_first(uint64_t key, uint32_t number)
{
    return number <= key % FIRST;
}

/* ---- batches ---- */

/* The pairs of numbers first .. end - 1 that `wanted` says, number by number: a key's values come far apart. Returns
 * how many there are. */
static uint64_t fill_numbers(tour *t, uint32_t first, uint32_t end, bool (*wanted)(uint64_t key, uint32_t number))
{
    uint64_t count = 0;
    for (uint32_t number = first; number < end; number++)
        for (uint64_t key = 0; key < t->lists && count < t->n; key++)
            if (wanted(key, number))
                tour_put(t, count++, key, number);
    return count;
}

static void apply_batch(tour *t, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        t->numbers[tour_index(t, i)] |= (uint16_t)(1u << t->batch_rounds[i]);
}

static void fill_keys(tour *t, uint64_t first, uint64_t count)
{
    tour_fill(t, first, count, 0);
    tour_spoil_answers(t);
}

/* ---- checks ---- */

/* Takes a value out of the numbers that are left; false: it is none of them. Two numbers may have equal values. */
static bool take_value(const tour *t, uint64_t key, uint64_t value, uint16_t *left)
{
    for (uint32_t number = 0; number < MOST; number++)
        if (*left >> number & 1 && value_of(t, key, number) == value) {
            *left = (uint16_t)(*left & ~(1u << number));
            return true;
        }
    return false;
}

/* Compares the list of a key, in `found_values` from `at` on. `in_order`: by number. */
static void check_list(tour *t, uint64_t key, uint64_t at, uint64_t count, bool in_order)
{
    uint16_t left = key < t->lists ? t->numbers[key] : 0;
    t->answers++;
    if (count != count_bits(left)) {
        tour_wrong(t, "the key of index %" PRIu64 " has %" PRIu64 " values instead of %" PRIu64, key, count,
                   count_bits(left));
        return;
    }
    for (uint64_t i = at; i < at + count; i++) {
        const uint64_t value = bench_get(t->found_values, i, t->value_bytes);
        const uint32_t next = (uint32_t)__builtin_ctz(left | 1u << MOST);
        if ((in_order && value != value_of(t, key, next)) || !take_value(t, key, value, &left))
            tour_wrong(t, "the key of index %" PRIu64 " has a wrong value", key);
    }
}

/* The lists of keys first .. first + lists - 1. */
static void check_lists(tour *t, loom_map *map, uint64_t first, bool in_order)
{
    uint64_t needed = 0;
    const void *keys = bench_at(t->all_keys, first, t->key_bytes);
    memset(t->offsets, 0xa5, (size_t)((t->lists + 1) * sizeof *t->offsets));
    tour_spoil_answers(t);
    if (!tour_did(t, loom_map_find_all(map, keys, t->lists, 0, t->offsets, t->found_values, t->n, &needed, NULL, NULL),
                  "find_all"))
        return;
    for (uint64_t i = 0; i < t->lists; i++)
        check_list(t, first + i, t->offsets[i], t->offsets[i + 1] - t->offsets[i], in_order);
    if (t->offsets[t->lists] != needed)
        tour_wrong(t, "find_all needs %" PRIu64 " values and gave %" PRIu64, needed, t->offsets[t->lists]);
}

static void check_multimap(tour *t, loom_map *map, bool in_order)
{
    uint64_t size = 0, distinct = 0;
    check_lists(t, map, 0, in_order);
    check_lists(t, map, t->lists, in_order);
    if (tour_did(t, loom_map_size(map, &size, NULL), "size") &&
        tour_did(t, loom_map_distinct(map, &distinct, NULL), "distinct") &&
        (size != expected_pairs(t) || distinct != expected_keys(t)))
        tour_wrong(t, "the table has %" PRIu64 " pairs of %" PRIu64 " keys instead of %" PRIu64 " of %" PRIu64, size,
                   distinct, expected_pairs(t), expected_keys(t));
    tour_did(t, loom_map_verify(map, NULL), "verify");
}

static void check_counted(tour *t, const char *what, uint64_t count, uint64_t expected)
{
    t->answers++;
    if (count != expected)
        tour_wrong(t, "the result counts %" PRIu64 " %s instead of %" PRIu64, count, what, expected);
}

/* ---- steps that write ---- */

static void build(tour *t, uint32_t flags)
{
    loom_result result = {0};
    const uint64_t count = fill_numbers(t, 0, FIRST, is_first);
    const double begun = bench_seconds();
    const loom_status status = loom_map_build(t->map, t->keys, t->values, count, flags, NULL, &result, NULL);
    tour_took(t, begun, count);
    memset(t->numbers, 0, (size_t)(t->lists * sizeof *t->numbers));
    if (!tour_did(t, status, "build"))
        return;
    apply_batch(t, count);
    check_counted(t, "ok", result.ok, count);
    check_multimap(t, t->map, flags & LOOM_IN_ORDER);
}

static void step_build(tour *t)
{
    build(t, LOOM_KEEP);
}

static void step_build_in_order(tour *t)
{
    build(t, LOOM_KEEP | LOOM_IN_ORDER);
}

static bool is_of_some(uint64_t key, uint32_t number)
{
    return key % (number - FIRST + 2) == 0;
}

/* More values for some keys, in order, and a call for each number: lists grow. */
static void step_insert(tour *t)
{
    double seconds = 0;
    uint64_t pairs = 0;
    for (uint32_t number = FIRST; number < MOST; number++) {
        loom_result result = {0};
        const uint64_t count = fill_numbers(t, number, number + 1, is_of_some);
        memset(t->status, 0xa5, (size_t)t->n);
        const double begun = bench_seconds();
        const loom_status status =
            loom_map_insert(t->map, t->keys, t->values, count, LOOM_KEEP | LOOM_IN_ORDER, t->status, &result, NULL);
        seconds += bench_seconds() - begun;
        pairs += count;
        if (!tour_did(t, status, "insert"))
            return;
        apply_batch(t, count);
        check_counted(t, "ok", result.ok, count);
        for (uint64_t i = 0; i < count; i++)
            if (t->status[i] != LOOM_OK)
                tour_wrong(t, "a pair got the status %s", loom_status_name(t->status[i]));
    }
    t->cell->seconds = seconds;
    t->cell->operations = pairs;
    check_multimap(t, t->map, true);
}

static bool is_even(uint64_t key, uint32_t number)
{
    return (key + number) % 2 == 0;
}

/* Some of these pairs are in the table, the others never were or are of absent keys. */
static void step_erase_pairs(tour *t)
{
    loom_result result = {0};
    uint64_t erased = 0;
    const uint64_t count = fill_numbers(t, 1, FIRST, is_even);
    memset(t->status, 0xa5, (size_t)t->n);
    const double begun = bench_seconds();
    const loom_status status = loom_map_erase_pairs(t->map, t->keys, t->values, count, t->status, &result, NULL);
    tour_took(t, begun, count);
    if (!tour_did(t, status, "erase_pairs"))
        return;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t key = tour_index(t, i);
        const bool there = take_value(t, key, value_of(t, key, t->batch_rounds[i]), &t->numbers[key]);
        t->answers++;
        erased += there;
        if (t->status[i] != (there ? LOOM_OK : LOOM_NOT_FOUND))
            tour_wrong(t, "a pair of the key of index %" PRIu64 " got %s", key, loom_status_name(t->status[i]));
    }
    check_counted(t, "ok", result.ok, erased);
    check_multimap(t, t->map, true);
}

/* The lowest third of all values. */
static void step_erase_if(tour *t)
{
    loom_result result = {0};
    uint64_t most;
    const uint64_t before = expected_pairs(t), third = (t->value_bytes == 4 ? UINT32_MAX : UINT64_MAX) / 3;
    bench_put(&most, 0, t->value_bytes, third);
    for (uint64_t key = 0; key < t->lists; key++)
        for (uint32_t number = 0; number < MOST; number++)
            if (value_of(t, key, number) <= third)
                t->numbers[key] = (uint16_t)(t->numbers[key] & ~(1u << number));
    const double begun = bench_seconds();
    const loom_status status =
        loom_map_erase_if(t->map, t->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, &most, &result, NULL);
    tour_took(t, begun, before);
    if (!tour_did(t, status, "erase_if"))
        return;
    check_counted(t, "keys", result.keys, before);
    check_counted(t, "ok", result.ok, before - expected_pairs(t));
    check_multimap(t, t->map, true);
}

/* Half of the keys were given values; some of these have none by now. */
static void step_erase(tour *t)
{
    loom_result result = {0};
    uint64_t there = 0;
    fill_keys(t, t->lists / 2, t->lists);
    const double begun = bench_seconds();
    const loom_status status = loom_map_erase(t->map, t->keys, t->lists, t->status, &result, NULL);
    tour_took(t, begun, t->lists);
    if (!tour_did(t, status, "erase"))
        return;
    for (uint64_t key = t->lists / 2; key < t->lists; key++) {
        there += t->numbers[key] != 0;
        t->numbers[key] = 0;
    }
    check_counted(t, "ok", result.ok, there);
    check_multimap(t, t->map, true);
}

static void step_clear(tour *t)
{
    const double begun = bench_seconds();
    const loom_status status = loom_map_clear(t->map, NULL, NULL);
    tour_took(t, begun, expected_pairs(t));
    memset(t->numbers, 0, (size_t)(t->lists * sizeof *t->numbers));
    if (tour_did(t, status, "clear"))
        check_multimap(t, t->map, true);
}

/* ---- steps that read ---- */

/* Half of the keys were never in the table. A key that has values is answered with one of them. */
static void step_find(tour *t)
{
    loom_result result = {0};
    uint64_t there = 0;
    fill_keys(t, t->lists / 2, t->lists);
    const double begun = bench_seconds();
    const loom_status status =
        loom_map_find(t->map, t->keys, t->lists, t->found_values, NULL, t->status, &result, NULL);
    tour_took(t, begun, t->lists);
    if (!tour_did(t, status, "find"))
        return;
    for (uint64_t i = 0; i < t->lists; i++) {
        const uint64_t key = tour_index(t, i);
        uint16_t left = key < t->lists ? t->numbers[key] : 0;
        const bool present = left != 0;
        t->answers++;
        there += present;
        if (t->status[i] != (present ? LOOM_OK : LOOM_NOT_FOUND) ||
            (present && !take_value(t, key, bench_get(t->found_values, i, t->value_bytes), &left)))
            tour_wrong(t, "the key of index %" PRIu64 " has a wrong answer", key);
    }
    check_counted(t, "ok", result.ok, there);
}

static void step_counts(tour *t)
{
    fill_keys(t, t->lists / 2, t->lists);
    memset(t->offsets, 0xa5, (size_t)((t->lists + 1) * sizeof *t->offsets));
    const double begun = bench_seconds();
    const loom_status status = loom_map_find_counts(t->map, t->keys, t->lists, t->offsets, t->status, NULL, NULL);
    tour_took(t, begun, t->lists);
    if (!tour_did(t, status, "find_counts"))
        return;
    for (uint64_t i = 0; i < t->lists; i++) {
        const uint64_t key = tour_index(t, i), count = key < t->lists ? count_bits(t->numbers[key]) : 0;
        t->answers++;
        if (t->offsets[i] != count || t->status[i] != (count > 0 ? LOOM_OK : LOOM_NOT_FOUND))
            tour_wrong(t, "the key of index %" PRIu64 " counts %" PRIu64 " values instead of %" PRIu64, key,
                       t->offsets[i], count);
    }
}

/* The rate is that of one call with room; then all lists are checked. */
static void step_find_all(tour *t)
{
    const uint64_t pairs = expected_pairs(t);
    const double begun = bench_seconds();
    const loom_status status =
        loom_map_find_all(t->map, t->all_keys, t->lists, 0, t->offsets, t->found_values, t->n, NULL, NULL, NULL);
    tour_took(t, begun, pairs);
    if (tour_did(t, status, "find_all"))
        check_multimap(t, t->map, false);
    t->answers++;
    if (pairs > 1 && loom_map_find_all(t->map, t->all_keys, t->lists, 0, t->offsets, t->found_values, pairs - 1, NULL,
                                       NULL, NULL) != LOOM_TOO_SMALL)
        tour_wrong(t, "find_all took an array that is too small");
}

/* All pairs, each once. Numbers that were given out are taken out of the reference, and put back. */
static void step_retrieve_all(tour *t)
{
    uint64_t count = 0;
    uint16_t *left = t->numbers + t->lists;
    memcpy(left, t->numbers, (size_t)(t->lists * sizeof *left));
    const double begun = bench_seconds();
    const loom_status status = loom_map_retrieve_all(t->map, t->keys, t->found_values, t->n, &count, NULL, NULL);
    tour_took(t, begun, count);
    if (!tour_did(t, status, "retrieve_all"))
        return;
    check_counted(t, "pairs", count, expected_pairs(t));
    for (uint64_t i = 0; i < count && i < t->n; i++) {
        const uint64_t key = tour_index(t, i);
        t->answers++;
        if (key >= t->lists || !take_value(t, key, bench_get(t->found_values, i, t->value_bytes), &left[key]))
            tour_wrong(t, "a pair was given out that the table does not have");
    }
}

static void step_stats(tour *t)
{
    loom_stats stats = LOOM_STATS_INIT;
    const double begun = bench_seconds();
    const loom_status status = loom_map_stats(t->map, &stats, NULL);
    tour_took(t, begun, expected_pairs(t));
    if (!tour_did(t, status, "stats"))
        return;
    check_counted(t, "pairs", stats.size, expected_pairs(t));
    check_counted(t, "keys", stats.distinct, expected_keys(t));
    t->answers++;
    if (stats.density <= 0 || stats.density > 1 || stats.values_free + stats.values_unused > stats.values_room)
        tour_wrong(t, "stats has density %g", stats.density);
}

/* ---- copies and files ---- */

static void step_clone(tour *t)
{
    loom_map *clone;
    const double begun = bench_seconds();
    const loom_status status = loom_map_clone(t->map, &clone, NULL);
    tour_took(t, begun, expected_pairs(t));
    if (!tour_did(t, status, "clone"))
        return;
    check_multimap(t, clone, false);
    tour_did(t, loom_map_erase(clone, t->all_keys, t->lists, NULL, NULL, NULL), "erase");
    loom_map_destroy(clone);
    check_multimap(t, t->map, false);
}

static void step_save_load(tour *t)
{
    char path[512];
    loom_map *loaded = NULL;
    snprintf(path, sizeof path, "%s/multimap_%u_%u.loom", t->directory, (unsigned)t->key_bytes,
             (unsigned)t->value_bytes);
    const double begun = bench_seconds();
    loom_status status = loom_map_save(t->map, path, NULL);
    if (status == LOOM_OK)
        status = loom_map_load(t->context, path, &loaded, NULL);
    tour_took(t, begun, expected_pairs(t));
    unlink(path);
    if (!tour_did(t, status, "save, load"))
        return;
    check_multimap(t, loaded, false);
    loom_map_destroy(loaded);
}

const tour_step tour_multi_steps[] = {
    {.name = "build", .run = step_build},
    {.name = "find one, half there", .run = step_find},
    {.name = "find_counts, half there", .run = step_counts},
    {.name = "find_all", .run = step_find_all},
    {.name = "retrieve_all", .run = step_retrieve_all, .needs = LOOM_FEATURE_RETRIEVE_ALL},
    {.name = "stats", .run = step_stats},
    {.name = "clone", .run = step_clone, .needs = LOOM_FEATURE_CLONE},
    {.name = "save and load", .run = step_save_load, .needs = LOOM_FEATURE_SAVE},
    {.name = "build in order", .run = step_build_in_order, .needs = LOOM_FEATURE_INSERT_IN_ORDER},
    {.name = "insert more, in order", .run = step_insert, .needs = LOOM_FEATURE_INSERT_IN_ORDER},
    {.name = "find_all, grown lists", .run = step_find_all},
    {.name = "save and load, grown", .run = step_save_load, .needs = LOOM_FEATURE_SAVE},
    {.name = "erase_pairs", .run = step_erase_pairs, .needs = LOOM_FEATURE_ERASE},
    {.name = "erase_if, a third", .run = step_erase_if, .needs = LOOM_FEATURE_ERASE_IF},
    {.name = "erase, half there", .run = step_erase, .needs = LOOM_FEATURE_ERASE},
    {.name = "clear", .run = step_clear},
    {0},
};
