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

void map_check_sums(map_bench *bench, bench_row *row)
{
    uint64_t wrong = 0, where = 0;
    memset(bench->found, 0xa5, (size_t)(bench->n * bench->value_bytes));
    if (loom_map_find(bench->map, bench->base_keys, bench->n, bench->found, bench->status, NULL, NULL) != LOOM_OK) {
        bench_row_fail(row, "find: %s", loom_last_error());
        return;
    }
    for (uint64_t i = 0; i < bench->n; i++) {
        uint64_t wanted = bench->times[i] * bench_value_of(i, 0, bench->value_bytes);
        if (bench->value_bytes == 4)
            wanted &= UINT32_MAX;
        const loom_status status = bench->times[i] > 0 ? LOOM_OK : LOOM_NOT_FOUND;
        if ((bench->status[i] != status || bench_get(bench->found, i, bench->value_bytes) != wanted) && wrong++ == 0)
            where = i;
    }
    report_wrong(row, "a sum is wrong", where, wrong, bench->n);
    if (loom_map_verify(bench->map, NULL) != LOOM_OK)
        bench_row_fail(row, "verify: %s", loom_last_error());
}

void map_check_contents(map_bench *bench, bench_row *row, uint8_t present_mark)
{
    check_range(bench, row, bench->base_keys, 0, bench->n, bench->marked, present_mark);
    check_range(bench, row, bench->absent_keys, bench->n, bench->absent_count, NULL, 0);
    if (loom_map_verify(bench->map, NULL) != LOOM_OK)
        bench_row_fail(row, "verify: %s", loom_last_error());
}
