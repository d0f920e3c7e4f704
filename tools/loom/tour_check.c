#include "bench_keys.h"
#include "bench_timer.h"
#include "tour.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tour_wrong(tour *t, const char *format, ...)
{
    va_list arguments;
    if (t->cell->wrong[0])
        return;
    va_start(arguments, format);
    vsnprintf(t->cell->wrong, sizeof t->cell->wrong, format, arguments);
    va_end(arguments);
}

bool tour_did(tour *t, loom_status status, const char *call)
{
    if (status != LOOM_OK)
        tour_wrong(t, "%s: %s: %s", call, loom_status_name(status), loom_last_error());
    return status == LOOM_OK;
}

void tour_took(tour *t, double begun, uint64_t operations)
{
    t->cell->seconds = bench_seconds() - begun;
    t->cell->operations = operations;
}

void tour_put(tour *t, uint64_t at, uint64_t index, uint32_t round)
{
    bench_put(t->keys, at, t->key_bytes, bench_key_of(index, t->key_bytes));
    bench_put(t->values, at, t->value_bytes, bench_value_of(index, round, t->value_bytes));
    t->batch_rounds[at] = (uint8_t)round;
}

uint64_t tour_index(const tour *t, uint64_t at)
{
    return bench_index_of(bench_get(t->keys, at, t->key_bytes), t->key_bytes);
}

void tour_fill(tour *t, uint64_t first, uint64_t count, uint32_t round)
{
    for (uint64_t i = 0; i < count; i++)
        tour_put(t, i, first + i, round);
}

void tour_spoil_answers(tour *t)
{
    if (t->found_values)
        memset(t->found_values, 0xa5, (size_t)(t->n * t->value_bytes));
    memset(t->status, 0xa5, (size_t)t->n);
    memset(t->found, 0xa5, (size_t)t->n);
}

loom_map_config tour_config(const tour *t, uint64_t capacity)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = t->type;
    config.engine = t->table->engine;
    config.row_place = t->table->row_place;
    config.key_bytes = t->key_bytes;
    config.value_bytes = t->value_bytes;
    config.capacity = capacity;
    return config;
}

static void check_status(tour *t, uint64_t index, uint8_t status, loom_status expected)
{
    t->answers++;
    if (status != expected)
        tour_wrong(t, "the key of index %" PRIu64 " got %s instead of %s", index, loom_status_name(status),
                   loom_status_name(expected));
}

static void check_count(tour *t, const char *what, uint64_t count, uint64_t expected)
{
    t->answers++;
    if (count != expected)
        tour_wrong(t, "the result counts %" PRIu64 " %s instead of %" PRIu64, count, what, expected);
}

/* Checks the result of the batch as a whole. */
static void check_result(tour *t, const loom_result *result, const loom_result *expected)
{
    if (!result)
        return;
    if (result->status != expected->status)
        tour_wrong(t, "the result says %s", loom_status_name((loom_status)result->status));
    check_count(t, "keys", result->keys, expected->keys);
    check_count(t, "ok", result->ok, expected->ok);
    check_count(t, "exists", result->exists, expected->exists);
    check_count(t, "not_found", result->not_found, expected->not_found);
    check_count(t, "full", result->full, expected->full);
}

/* Checks one answer of a lookup; NULL: no values were asked for. */
static inline void check_answer(tour *t, uint64_t at, uint64_t index, const void *found_values, loom_result *expected)
{
    const uint8_t round = t->rounds[index];
    const bool present = round != TOUR_ABSENT;
    check_status(t, index, t->status[at], present ? LOOM_OK : LOOM_NOT_FOUND);
    expected->ok += present;
    expected->not_found += !present;
    if (found_values &&
        bench_get(found_values, at, t->value_bytes) != (present ? bench_value_of(index, round, t->value_bytes) : 0))
        tour_wrong(t, "the key of index %" PRIu64 " has a wrong value", index);
}

void tour_check_lookup(tour *t, uint64_t count, const void *found_values, const loom_result *result)
{
    loom_result expected = {.status = LOOM_OK, .keys = count};
    for (uint64_t i = 0; i < count; i++)
        check_answer(t, i, tour_index(t, i), found_values, &expected);
    check_result(t, result, &expected);
}

void tour_apply_insert(tour *t, uint64_t count, uint32_t flags, const uint8_t *status, const loom_result *result)
{
    loom_result expected = {.status = LOOM_OK, .keys = count};
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = tour_index(t, i);
        const bool present = t->rounds[index] != TOUR_ABSENT;
        if (status)
            check_status(t, index, status[i], present ? LOOM_EXISTS : LOOM_OK);
        expected.ok += !present;
        expected.exists += present;
        if (!present || flags & LOOM_OVERWRITE)
            t->rounds[index] = t->batch_rounds[i];
    }
    check_result(t, result, &expected);
}

/* Applies an update or an erase, which only affect present keys. */
static void apply_to_present(tour *t, uint64_t count, bool erase, const uint8_t *status, const loom_result *result)
{
    loom_result expected = {.status = LOOM_OK, .keys = count};
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = tour_index(t, i);
        const bool present = t->rounds[index] != TOUR_ABSENT;
        if (status)
            check_status(t, index, status[i], present ? LOOM_OK : LOOM_NOT_FOUND);
        expected.ok += present;
        expected.not_found += !present;
        if (present)
            t->rounds[index] = erase ? TOUR_ABSENT : t->batch_rounds[i];
    }
    check_result(t, result, &expected);
}

void tour_apply_update(tour *t, uint64_t count, const uint8_t *status, const loom_result *result)
{
    apply_to_present(t, count, false, status, result);
}

void tour_apply_erase(tour *t, uint64_t count, const uint8_t *status, const loom_result *result)
{
    apply_to_present(t, count, true, status, result);
}

void tour_check_pair(tour *t, uint64_t key, uint64_t value)
{
    const uint64_t index = bench_index_of(key, t->key_bytes);
    t->answers++;
    if (index >= t->n || t->rounds[index] == TOUR_ABSENT)
        tour_wrong(t, "the key 0x%" PRIx64 " was given out and is not in the table", key);
    else if (value != bench_value_of(index, t->rounds[index], t->value_bytes))
        tour_wrong(t, "the key of index %" PRIu64 " was given out with a wrong value", index);
    else if (t->seen[index])
        tour_wrong(t, "the key of index %" PRIu64 " was given out twice", index);
    else
        t->seen[index] = 1;
}

uint64_t tour_expected_size(const tour *t)
{
    uint64_t size = 0;
    for (uint64_t i = 0; i < t->n; i++)
        size += t->rounds[i] != TOUR_ABSENT;
    return size;
}

/* Checks the n keys from index `first` on. */
static void check_range(tour *t, loom_map *map, uint64_t first)
{
    loom_result result, expected = {.status = LOOM_OK, .keys = t->n};
    const void *keys = bench_at(t->all_keys, first, t->key_bytes);
    tour_spoil_answers(t);
    if (!tour_did(t, loom_map_find(map, keys, t->n, t->found_values, NULL, t->status, &result, NULL), "find"))
        return;
    for (uint64_t i = 0; i < t->n; i++)
        check_answer(t, i, first + i, t->found_values, &expected);
    check_result(t, &result, &expected);
}

void tour_check_table(tour *t, loom_map *map)
{
    uint64_t size = 0;
    check_range(t, map, 0);
    check_range(t, map, t->n);
    if (tour_did(t, loom_map_size(map, &size, NULL), "size") && size != tour_expected_size(t))
        tour_wrong(t, "the table has %" PRIu64 " keys instead of %" PRIu64, size, tour_expected_size(t));
    tour_did(t, loom_map_verify(map, NULL), "verify");
}
