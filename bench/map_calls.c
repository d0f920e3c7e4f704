/* The timed calls, in batches. */
#include "bench_calls.h"
#include "bench_keys.h"
#include "map_bench.h"

typedef struct one_call {
    map_bench *bench;
    map_call call;
} one_call;

static loom_status do_call(void *work, uint64_t at, uint64_t n, loom_result *result)
{
    const one_call *one = work;
    return one->call(one->bench, at, n, result);
}

loom_status map_call_in_batches(map_bench *bench, map_call call, uint64_t begin, uint64_t end)
{
    one_call one = {bench, call};
    bench->calls += (end - begin + bench->batch - 1) / bench->batch;
    return bench_call_in_batches(bench->session->context, do_call, &one, begin, end, bench->batch, bench->near_results);
}

static void *keys_at(const map_bench *bench, uint64_t at)
{
    return bench_at(bench->near_keys, at, bench->key_bytes);
}

static void *values_at(const map_bench *bench, uint64_t at)
{
    return bench_at(bench->near_values, at, bench->value_bytes);
}

static void *found_at(const map_bench *bench, uint64_t at)
{
    return bench_at(bench->near_found, at, bench->value_bytes);
}

loom_status map_call_build(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_build(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_KEEP, NULL, result, NULL);
}

/* ---- build, in other ways ---- */

loom_status map_call_build_low_memory(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_build(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_KEEP | LOOM_LOW_MEMORY, NULL,
                          result, NULL);
}

loom_status map_call_build_in_order(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_build(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_KEEP | LOOM_IN_ORDER, NULL,
                          result, NULL);
}

loom_status map_call_build_with_status(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_build(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_KEEP,
                          bench_at(bench->near_status, at, 1), result, NULL);
}

loom_status map_call_insert(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_insert(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_KEEP | LOOM_DIRECTLY, NULL,
                           result, NULL);
}

loom_status map_call_insert_any_way(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_insert(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_KEEP, NULL, result, NULL);
}

/* Doubles the capacity, whatever the keys. */
loom_status map_call_grow(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    (void)at;
    (void)n;
    (void)result;
    return loom_map_reserve(bench->map, 2 * bench->n, NULL);
}

/* ---- extend, insert_more, more_from: the last of n keys, as many as --more says ---- */

static uint64_t extension_begin(const map_bench *bench)
{
    return bench->n - (uint64_t)((double)bench->n * bench->session->options->more);
}

void map_make_extension(map_bench *bench, double hit)
{
    map_make_plain(bench, hit);
    bench->operations = bench->longest_call = bench->n - extension_begin(bench);
}

loom_status map_reset_extension(map_bench *bench)
{
    bench->holds = MAP_HOLDS_OTHER;
    return map_call_build(bench, 0, extension_begin(bench), NULL);
}

static loom_status extend(map_bench *bench, uint32_t flags)
{
    const uint64_t at = extension_begin(bench);
    bench_clock_start(&bench->clock);
    const loom_status status = loom_map_insert(bench->map, keys_at(bench, at), values_at(bench, at), bench->n - at,
                                               LOOM_KEEP | flags, NULL, NULL, NULL);
    bench_clock_stop(&bench->clock);
    return status;
}

loom_status map_run_extension(map_bench *bench)
{
    return extend(bench, LOOM_DIRECTLY);
}

loom_status map_run_extension_by_partition(map_bench *bench)
{
    return extend(bench, LOOM_BY_PARTITION);
}

loom_status map_run_extension_any_way(map_bench *bench)
{
    bench_clock_start(&bench->clock);
    const loom_status status = map_call_in_batches(bench, map_call_insert_any_way, extension_begin(bench), bench->n);
    bench_clock_stop(&bench->clock);
    return status;
}

loom_status map_call_find_or_insert(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_find_or_insert(bench->map, keys_at(bench, at), values_at(bench, at), n, found_at(bench, at), NULL,
                                   result, NULL);
}

loom_status map_call_accumulate(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_accumulate(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_COMBINE_ADD,
                               bench->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, result, NULL);
}

loom_status map_call_count(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_count(bench->map, keys_at(bench, at), n, NULL, result, NULL);
}

loom_status map_call_update(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_update(bench->map, keys_at(bench, at), values_at(bench, at), n, NULL, result, NULL);
}

loom_status map_call_overwrite(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_insert(bench->map, keys_at(bench, at), values_at(bench, at), n, LOOM_OVERWRITE | LOOM_DIRECTLY,
                           NULL, result, NULL);
}

loom_status map_call_find(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_find(bench->map, keys_at(bench, at), n, found_at(bench, at), NULL,
                         bench_at(bench->near_status, at, 1), result, NULL);
}

loom_status map_call_find_alone(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_find(bench->map, keys_at(bench, at), n, found_at(bench, at), NULL, NULL, result, NULL);
}

loom_status map_call_erase(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_erase(bench->map, keys_at(bench, at), n, NULL, result, NULL);
}

loom_status map_call_erase_if(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    uint64_t most[1];
    (void)at, (void)n;
    bench_put(most, 0, bench->value_bytes, map_expired(bench->value_bytes));
    return loom_map_erase_if(bench->map, bench->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, most,
                             result, NULL);
}
