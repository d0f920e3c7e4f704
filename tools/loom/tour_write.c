/* The steps of the tour that write. A round numbers the successive values of a key. */
#include "bench_keys.h"
#include "bench_timer.h"
#include "tour.h"

#include <inttypes.h>
#include <string.h>

/* Writes the batch by one timed call, then checks statuses, result and the whole table against the reference. A build
 * is fastest without a status array, so the plain build has none. */
static void write_batch(tour *t, uint64_t count, uint32_t flags, bool build, bool want_status)
{
    loom_result result;
    uint8_t *status = want_status ? t->status : NULL;
    memset(t->status, 0xa5, (size_t)t->n);
    const double begun = bench_seconds();
    const loom_status did = build ? loom_map_build(t->map, t->keys, t->values, count, flags, status, &result, NULL)
                                  : loom_map_insert(t->map, t->keys, t->values, count, flags, status, &result, NULL);
    tour_took(t, begun, count);
    if (build)
        memset(t->rounds, TOUR_ABSENT, (size_t)t->n);
    if (!tour_did(t, did, build ? "build" : "insert"))
        return;
    tour_apply_insert(t, count, flags, status, &result);
    tour_check_table(t, t->map);
}

static void step_build(tour *t)
{
    tour_fill(t, 0, t->n, 0);
    write_batch(t, t->n, LOOM_KEEP, true, false);
}

/* Half of the batch is in the table, half never was. */
static void step_erase(tour *t)
{
    loom_result result;
    tour_fill(t, t->n / 2, t->n, 0);
    memset(t->status, 0xa5, (size_t)t->n);
    const double begun = bench_seconds();
    const loom_status status = loom_map_erase(t->map, t->keys, t->n, t->status, &result, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "erase"))
        return;
    tour_apply_erase(t, t->n, t->status, &result);
    tour_check_table(t, t->map);
}

/* The erased half is new; the other half exists and keeps its values. */
static void step_insert_keep(tour *t)
{
    tour_fill(t, 0, t->n, 1);
    write_batch(t, t->n, LOOM_KEEP, false, true);
}

static void step_insert_overwrite(tour *t)
{
    tour_fill(t, 0, t->n, 2);
    write_batch(t, t->n, LOOM_OVERWRITE, false, true);
}

/* Erases the pairs with values from a third to two thirds of all values, in one call without keys. */
static void step_erase_if(tour *t)
{
    loom_result result;
    uint64_t bounds[2], erased = 0;
    const uint64_t ones = t->value_bytes == 4 ? UINT32_MAX : UINT64_MAX, before = tour_expected_size(t);
    bench_put(&bounds[0], 0, t->value_bytes, ones / 3);
    bench_put(&bounds[1], 0, t->value_bytes, ones / 3 * 2);
    for (uint64_t i = 0; i < t->n; i++) {
        const uint64_t value = t->rounds[i] == TOUR_ABSENT ? 0 : bench_value_of(i, t->rounds[i], t->value_bytes);
        if (t->rounds[i] == TOUR_ABSENT || value < ones / 3 || value > ones / 3 * 2)
            continue;
        t->rounds[i] = TOUR_ABSENT;
        erased++;
    }
    const double begun = bench_seconds();
    const loom_status status = loom_map_erase_if(t->map, t->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64,
                                                 &bounds[0], &bounds[1], &result, NULL);
    tour_took(t, begun, before);
    if (!tour_did(t, status, "erase_if"))
        return;
    t->answers++;
    if (result.status != LOOM_OK || result.keys != before || result.ok != erased || result.exists != before - erased)
        tour_wrong(t, "the result counts %" PRIu64 " of %" PRIu64 " pairs erased instead of %" PRIu64 " of %" PRIu64,
                   result.ok, result.keys, erased, before);
    tour_check_table(t, t->map);
}

/* Erases the keys of index n / 2 and above, untimed. */
static bool erase_upper_half(tour *t)
{
    tour_fill(t, t->n / 2, t->n - t->n / 2, 0);
    if (!tour_did(t, loom_map_erase(t->map, t->keys, t->n - t->n / 2, NULL, NULL, NULL), "erase"))
        return false;
    tour_apply_erase(t, t->n - t->n / 2, NULL, NULL);
    return true;
}

/* Half of the keys are present and their values are returned; the others are inserted and returned as well. */
static void step_find_or_insert(tour *t)
{
    loom_result result;
    if (!erase_upper_half(t))
        return;
    tour_fill(t, 0, t->n, 3);
    tour_spoil_answers(t);
    const double begun = bench_seconds();
    const loom_status status =
        loom_map_find_or_insert(t->map, t->keys, t->values, t->n, t->found_values, t->status, &result, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "find_or_insert"))
        return;
    tour_apply_insert(t, t->n, LOOM_KEEP, t->status, &result);
    for (uint64_t i = 0; i < t->n; i++)
        if (bench_get(t->found_values, i, t->value_bytes) != bench_value_of(i, t->rounds[i], t->value_bytes))
            tour_wrong(t, "the key of index %" PRIu64 " was told with a wrong value", i);
    tour_check_table(t, t->map);
}

/* Half of the batch is in the table, half never was. */
static void step_update(tour *t)
{
    loom_result result;
    tour_fill(t, t->n / 2, t->n, 4);
    memset(t->status, 0xa5, (size_t)t->n);
    const double begun = bench_seconds();
    const loom_status status = loom_map_update(t->map, t->keys, t->values, t->n, t->status, &result, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "update"))
        return;
    tour_apply_update(t, t->n, t->status, &result);
    tour_check_table(t, t->map);
}

/* What the row of key `index` does in a mixed batch. */
static uint8_t operation_of(const tour *t, uint64_t index)
{
    static const uint8_t of_maps[] = {LOOM_APPLY_FIND, LOOM_APPLY_INSERT, LOOM_APPLY_OVERWRITE, LOOM_APPLY_ERASE,
                                      LOOM_APPLY_UPDATE};
    return of_maps[index % (t->value_bytes > 0 ? 5 : 4)];
}

/* Checks the answer to the row of key `index`, and does the same to the reference. */
static void check_applied(tour *t, uint64_t index, uint32_t round)
{
    const uint8_t operation = operation_of(t, index);
    const bool there = t->rounds[index] != TOUR_ABSENT;
    const bool stores = operation == LOOM_APPLY_INSERT || operation == LOOM_APPLY_OVERWRITE;
    const uint8_t wanted = stores ? (there ? LOOM_EXISTS : LOOM_OK) : (there ? LOOM_OK : LOOM_NOT_FOUND);
    t->answers++;
    if (t->status[index] != wanted)
        tour_wrong(t, "the row of index %" PRIu64 " got the status %s", index, loom_status_name(t->status[index]));
    if (operation == LOOM_APPLY_FIND && t->value_bytes > 0 &&
        bench_get(t->found_values, index, t->value_bytes) !=
            (there ? bench_value_of(index, t->rounds[index], t->value_bytes) : 0))
        tour_wrong(t, "the key of index %" PRIu64 " was found with a wrong value", index);
    if (operation == LOOM_APPLY_ERASE)
        t->rounds[index] = TOUR_ABSENT;
    else if (operation == LOOM_APPLY_OVERWRITE || (operation == LOOM_APPLY_INSERT && !there) ||
             (operation == LOOM_APPLY_UPDATE && there))
        t->rounds[index] = (uint8_t)round;
}

/* Half of the keys are present. Each row does something else than the row before. */
static void step_apply(tour *t)
{
    const uint32_t round = 6;
    if (!erase_upper_half(t))
        return;
    tour_fill(t, 0, t->n, round);
    tour_spoil_answers(t);
    for (uint64_t i = 0; i < t->n; i++)
        t->seen[i] = operation_of(t, i);
    const double begun = bench_seconds();
    const loom_status status =
        loom_map_apply(t->map, t->seen, t->keys, t->values, t->n, 0, t->found_values, t->status, NULL, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "apply"))
        return;
    for (uint64_t i = 0; i < t->n; i++)
        check_applied(t, i, round);
    tour_check_table(t, t->map);
}

/* The number added to a present key yields its value of the next round; sums wrap around. */
static void step_accumulate(tour *t)
{
    loom_result result;
    if (!erase_upper_half(t))
        return;
    tour_fill(t, 0, t->n, 5);
    for (uint64_t i = 0; i < t->n; i++)
        if (t->rounds[i] != TOUR_ABSENT)
            bench_put(t->values, i, t->value_bytes,
                      bench_value_of(i, 5, t->value_bytes) - bench_value_of(i, t->rounds[i], t->value_bytes));
    memset(t->status, 0xa5, (size_t)t->n);
    const double begun = bench_seconds();
    const loom_status status =
        loom_map_accumulate(t->map, t->keys, t->values, t->n, LOOM_COMBINE_ADD,
                            t->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, t->status, &result, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "accumulate"))
        return;
    tour_apply_insert(t, t->n, LOOM_OVERWRITE, t->status, &result);
    tour_check_table(t, t->map);
}

enum { EQUAL_KEYS = 4 };

static uint64_t different_keys(const tour *t)
{
    return (t->n + EQUAL_KEYS - 1) / EQUAL_KEYS;
}

/* Every key occurs about four times, far apart, each time with another value. */
static void fill_equal_keys(tour *t, uint32_t first_round)
{
    const uint64_t different = different_keys(t);
    for (uint64_t i = 0; i < t->n; i++)
        tour_put(t, i, i % different, first_round + (uint32_t)(i / different));
}

/* Erases the equal keys, so that the first of them is new. */
static bool erase_equal_keys(tour *t)
{
    tour_fill(t, 0, different_keys(t), 0);
    if (!tour_did(t, loom_map_erase(t->map, t->keys, different_keys(t), NULL, NULL, NULL), "erase"))
        return false;
    tour_apply_erase(t, different_keys(t), NULL, NULL);
    return true;
}

/* Any one of equal keys may win: exactly one of them is new, and the value is one of theirs. Copies the winner's value
 * into the reference. */
static void accept_any_winner(tour *t, uint32_t first_round)
{
    const uint64_t different = different_keys(t);
    memset(t->seen, 0, (size_t)different);
    for (uint64_t i = 0; i < t->n; i++) {
        t->answers++;
        t->seen[i % different] = (uint8_t)(t->seen[i % different] + (t->status[i] == LOOM_OK));
        if (t->status[i] != LOOM_OK && t->status[i] != LOOM_EXISTS)
            tour_wrong(t, "a key got the status %s", loom_status_name(t->status[i]));
    }
    if (!tour_did(t, loom_map_find(t->map, t->keys, different, t->found_values, NULL, t->status, NULL, NULL), "find"))
        return;
    for (uint64_t i = 0; i < different; i++) {
        const uint64_t value = bench_get(t->found_values, i, t->value_bytes);
        if (t->seen[i] != 1)
            tour_wrong(t, "%u of the equal keys of index %" PRIu64 " were new", (unsigned)t->seen[i], i);
        for (uint64_t at = i; at < t->n; at += different) {
            const uint32_t round = first_round + (uint32_t)(at / different);
            if (value == bench_value_of(i, round, t->value_bytes))
                t->rounds[i] = (uint8_t)round;
        }
        if (t->rounds[i] == TOUR_ABSENT)
            tour_wrong(t, "the key of index %" PRIu64 " has a value that nobody gave it", i);
    }
}

static void step_insert_equal_keys(tour *t)
{
    const uint32_t first_round = 10;
    if (!erase_equal_keys(t))
        return;
    fill_equal_keys(t, first_round);
    memset(t->status, 0xa5, (size_t)t->n);
    const double begun = bench_seconds();
    const loom_status status = loom_map_insert(t->map, t->keys, t->values, t->n, LOOM_KEEP, t->status, NULL, NULL);
    tour_took(t, begun, t->n);
    if (!tour_did(t, status, "insert"))
        return;
    accept_any_winner(t, first_round);
    tour_check_table(t, t->map);
}

static void step_insert_keep_in_order(tour *t)
{
    if (!erase_equal_keys(t))
        return;
    fill_equal_keys(t, 20);
    write_batch(t, t->n, LOOM_KEEP | LOOM_IN_ORDER, false, true);
}

static void step_insert_overwrite_in_order(tour *t)
{
    fill_equal_keys(t, 30);
    write_batch(t, t->n, LOOM_OVERWRITE | LOOM_IN_ORDER, false, true);
}

static void step_build_in_order(tour *t)
{
    fill_equal_keys(t, 40);
    write_batch(t, t->n, LOOM_OVERWRITE | LOOM_IN_ORDER, true, true);
}

static void step_clear(tour *t)
{
    const double begun = bench_seconds();
    const loom_status status = loom_map_clear(t->map, NULL, NULL);
    tour_took(t, begun, tour_expected_size(t));
    if (!tour_did(t, status, "clear"))
        return;
    memset(t->rounds, TOUR_ABSENT, (size_t)t->n);
    tour_check_table(t, t->map);
}

const tour_step tour_build_steps[] = {{.name = "build", .run = step_build}, {.name = NULL}};

const tour_step tour_write_steps[] = {
    {.name = "erase, half there", .run = step_erase, .needs = LOOM_FEATURE_ERASE},
    {.name = "erase_if, a third", .run = step_erase_if, .needs = LOOM_FEATURE_ERASE_IF},
    {.name = "insert keep", .run = step_insert_keep},
    {.name = "insert overwrite", .run = step_insert_overwrite},
    {.name = "find_or_insert, half", .run = step_find_or_insert, .needs = LOOM_FEATURE_FIND_OR_INSERT},
    {.name = "update, half there", .run = step_update, .needs = LOOM_FEATURE_UPDATE},
    {.name = "accumulate, half there", .run = step_accumulate, .needs = LOOM_FEATURE_ACCUMULATE},
    {.name = "apply, half there", .run = step_apply, .needs = LOOM_FEATURE_APPLY},
    {.name = "insert, equal keys", .run = step_insert_equal_keys},
    {.name = "insert keep in order", .run = step_insert_keep_in_order, .needs = LOOM_FEATURE_INSERT_IN_ORDER},
    {.name = "insert overw. in order", .run = step_insert_overwrite_in_order, .needs = LOOM_FEATURE_INSERT_IN_ORDER},
    {.name = "build in order", .run = step_build_in_order, .needs = LOOM_FEATURE_INSERT_IN_ORDER},
    {.name = "clear", .run = step_clear},
    {0},
};
