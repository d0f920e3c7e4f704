#include "bench_keys.h"
#include "map_bench.h"

#include <inttypes.h>
#include <string.h>

/* One answer of a find: NULL if it is right, else what is wrong. */
static const char *judge(const map_bench *bench, uint64_t at, uint64_t index, bool present)
{
    const uint64_t value = bench_get(bench->found, at, bench->value_bytes);
    if (!present && bench->status[at] != LOOM_NOT_FOUND)
        return "an absent key was found";
    if (!present)
        return value == 0 ? NULL : "an absent key has a value";
    if (bench->status[at] != LOOM_OK)
        return "a key was not found";
    return value == bench_value_of(index, 0, bench->value_bytes) ? NULL : "a key has a wrong value";
}

static void report_wrong(bench_row *row, const char *first, uint64_t index, uint64_t wrong, uint64_t of)
{
    if (wrong > 0)
        bench_row_fail(row, "%s (key of index %" PRIu64 "), %" PRIu64 " of %" PRIu64 " answers wrong", first, index,
                       wrong, of);
}

void map_check_found(map_bench *bench, bench_row *row)
{
    const char *first = NULL;
    uint64_t wrong = 0, first_index = 0;
    for (uint64_t i = 0; i < bench->count; i++) {
        const uint64_t index = bench_index_of(bench_get(bench->keys, i, bench->key_bytes), bench->key_bytes);
        const char *reason = judge(bench, i, index, index < bench->n);
        if (reason && wrong++ == 0) {
            first = reason;
            first_index = index;
        }
    }
    report_wrong(row, first, first_index, wrong, bench->count);
}

void map_check_size(map_bench *bench, bench_row *row, uint64_t expected)
{
    uint64_t size = 0;
    if (loom_map_size(bench->map, &size, NULL) != LOOM_OK)
        bench_row_fail(row, "size: %s", loom_last_error());
    else if (size != expected)
        bench_row_fail(row, "the table has %" PRIu64 " keys instead of %" PRIu64, size, expected);
}

/* Finds `count` keys of successive indices and judges the answers; marks tell which are to be there, NULL: none. */
static void check_range(map_bench *bench, bench_row *row, const void *keys, uint64_t first_index, uint64_t count,
                        const uint8_t *marks, uint8_t present_mark)
{
    const char *first = NULL;
    uint64_t wrong = 0, where = 0;
    /* So that an answer that was never written cannot pass. */
    memset(bench->found, 0xa5, (size_t)(count * bench->value_bytes));
    memset(bench->status, 0xa5, (size_t)count);
    if (loom_map_find(bench->map, keys, count, bench->found, bench->status, NULL, NULL) != LOOM_OK) {
        bench_row_fail(row, "find: %s", loom_last_error());
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const char *reason = judge(bench, i, first_index + i, marks && marks[i] == present_mark);
        if (reason && wrong++ == 0) {
            first = reason;
            where = first_index + i;
        }
    }
    report_wrong(row, first, where, wrong, count);
}

void map_check_told(map_bench *bench, bench_row *row)
{
    uint64_t wrong = 0, where = 0;
    for (uint64_t i = 0; i < bench->count; i++) {
        const uint64_t index = bench_index_of(bench_get(bench->keys, i, bench->key_bytes), bench->key_bytes);
        const bool right =
            bench_get(bench->found, i, bench->value_bytes) == bench_value_of(index, 0, bench->value_bytes);
        if (!right && wrong++ == 0)
            where = index;
    }
    report_wrong(row, "a key was told with a wrong value", where, wrong, bench->count);
    map_check_size(bench, row, bench->distinct);
}

/* Finds all keys; `wanted` is what each should have, or that it should be absent. */
static void check_values(map_bench *bench, bench_row *row, const char *what,
                         bool (*wanted)(const map_bench *bench, uint64_t index, uint64_t *value))
{
    uint64_t wrong = 0, where = 0;
    memset(bench->found, 0xa5, (size_t)(bench->n * bench->value_bytes));
    memset(bench->status, 0xa5, (size_t)bench->n);
    if (loom_map_find(bench->map, bench->base_keys, bench->n, bench->found, bench->status, NULL, NULL) != LOOM_OK) {
        bench_row_fail(row, "find: %s", loom_last_error());
        return;
    }
    for (uint64_t i = 0; i < bench->n; i++) {
        uint64_t value = 0;
        const loom_status status = wanted(bench, i, &value) ? LOOM_OK : LOOM_NOT_FOUND;
        if ((bench->status[i] != status || bench_get(bench->found, i, bench->value_bytes) != value) && wrong++ == 0)
            where = i;
    }
    report_wrong(row, what, where, wrong, bench->n);
    if (loom_map_verify(bench->map, NULL) != LOOM_OK)
        bench_row_fail(row, "verify: %s", loom_last_error());
}

static bool updated_value(const map_bench *bench, uint64_t index, uint64_t *value)
{
    *value = bench_value_of(index, bench->marked[index], bench->value_bytes);
    return true;
}

void map_check_updated(map_bench *bench, bench_row *row)
{
    check_values(bench, row, "a key was not updated, or was without being asked for", updated_value);
}

static bool summed_value(const map_bench *bench, uint64_t index, uint64_t *value)
{
    *value = bench->times[index] * bench_value_of(index, 0, bench->value_bytes);
    if (bench->value_bytes == 4)
        *value &= UINT32_MAX;
    return bench->times[index] > 0;
}

void map_check_sums(map_bench *bench, bench_row *row)
{
    check_values(bench, row, "a sum is wrong", summed_value);
}

void map_check_contents(map_bench *bench, bench_row *row, uint8_t present_mark)
{
    check_range(bench, row, bench->base_keys, 0, bench->n, bench->marked, present_mark);
    check_range(bench, row, bench->absent_keys, bench->n, bench->absent_count, NULL, 0);
    if (loom_map_verify(bench->map, NULL) != LOOM_OK)
        bench_row_fail(row, "verify: %s", loom_last_error());
}
