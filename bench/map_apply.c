/* The operations `apply`, `apply_in_order` and `apply_apart`: a batch that inserts keys of odd index, which are absent,
 * and looks up keys of even index, which are present. `apply_apart` does the same with a call for the insertions and
 * one for the lookups, whose rows lie side by side; it is what mixed batches are compared with. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_threads.h"
#include "map_bench.h"

#include <stdlib.h>

/* ---- mixed ---- */

typedef struct mix {
    const map_bench *bench;
    uint8_t *operations;
} mix;

static bool is_inserted(const map_bench *bench, uint64_t at)
{
    return bench_index_of(bench_get(bench->keys, at, bench->key_bytes), bench->key_bytes) % 2 != 0;
}

static void make_operations(void *work, uint64_t begin, uint64_t end)
{
    const mix *all = work;
    for (uint64_t i = begin; i < end; i++)
        all->operations[i] = is_inserted(all->bench, i) ? LOOM_APPLY_INSERT : LOOM_APPLY_FIND;
}

static loom_status apply(map_bench *bench, const uint8_t *operations, uint32_t flags)
{
    loom_status status = LOOM_OK;
    bench_clock_start(&bench->clock);
    for (uint64_t at = 0, n; at < bench->count && status == LOOM_OK; at += n, bench->calls++) {
        n = bench->count - at < bench->batch ? bench->count - at : bench->batch;
        status = loom_map_apply(bench->map, operations + at, bench_at(bench->near_keys, at, bench->key_bytes),
                                bench_at(bench->near_values, at, bench->value_bytes), n, flags,
                                bench_at(bench->near_found, at, bench->value_bytes), NULL, NULL, NULL);
    }
    bench_clock_stop(&bench->clock);
    return status;
}

static loom_status run_mixed(map_bench *bench, uint32_t flags)
{
    mix all = {bench, malloc(bench->count)};
    void *near = NULL;
    loom_status status = LOOM_OUT_OF_MEMORY;
    if (all.operations == NULL)
        return status;
    bench_in_parallel(bench->count, BENCH_GRAIN, make_operations, &all);
    if (bench_near_new(bench->session, LOOM_ARRAY_MACHINE, all.operations, bench->count, &near)) {
        status = bench_near_copy(bench->session, near, all.operations, bench->count);
        if (status == LOOM_OK)
            status = apply(bench, near, flags);
    }
    bench_near_free(bench->session, LOOM_ARRAY_MACHINE, all.operations, near, bench->count);
    free(all.operations);
    return status;
}

loom_status map_run_apply(map_bench *bench)
{
    return run_mixed(bench, 0);
}

loom_status map_run_apply_in_order(map_bench *bench)
{
    return run_mixed(bench, LOOM_IN_ORDER);
}

/* ---- apart ---- */

static void exchange(map_bench *bench, uint64_t a, uint64_t b)
{
    const uint64_t key = bench_get(bench->keys, a, bench->key_bytes);
    const uint64_t value = bench_get(bench->values, a, bench->value_bytes);
    bench_put(bench->keys, a, bench->key_bytes, bench_get(bench->keys, b, bench->key_bytes));
    bench_put(bench->values, a, bench->value_bytes, bench_get(bench->values, b, bench->value_bytes));
    bench_put(bench->keys, b, bench->key_bytes, key);
    bench_put(bench->values, b, bench->value_bytes, value);
}

/* As map_make_half_present, with the rows that are inserted in front. */
void map_make_apart(map_bench *bench, double hit)
{
    map_make_half_present(bench, hit);
    uint64_t inserted = 0;
    for (uint64_t i = 0; i < bench->count; i++)
        if (is_inserted(bench, i))
            exchange(bench, i, inserted++);
    bench->inserted = inserted;
}

loom_status map_run_apart(map_bench *bench)
{
    bench_clock_start(&bench->clock);
    loom_status status = map_call_in_batches(bench, map_call_insert_any_way, 0, bench->inserted);
    if (status == LOOM_OK)
        status = map_call_in_batches(bench, map_call_find_alone, bench->inserted, bench->count);
    bench_clock_stop(&bench->clock);
    return status;
}
