/* The calls that are timed, in batches. */
#include "bench_axes.h"
#include "bench_keys.h"
#include "map_bench.h"

/* A call without a loom_result has happened when it returns, on every machine. With --wait last calls get one, in turn from
 * a few, and the run ends by fetching those of the last calls; what went wrong in an earlier one shows in the checks. */
static loom_status wait_for_last(const map_bench *bench, uint64_t calls)
{
    loom_result results[BENCH_RESULTS];
    loom_status status = loom_array_copy(bench->session->context, results, bench->near_results, sizeof results, NULL);
    for (uint64_t i = 0; i < calls && i < BENCH_RESULTS && status == LOOM_OK; i++)
        status = (loom_status)results[i].status;
    return status;
}

loom_status map_call_in_batches(map_bench *bench, map_call call, uint64_t begin, uint64_t end)
{
    loom_status status = LOOM_OK;
    uint64_t calls = 0;
    for (uint64_t at = begin; at < end && status == LOOM_OK; at += bench->batch, calls++)
        status = call(bench, at, end - at < bench->batch ? end - at : bench->batch,
                      bench->near_results ? bench->near_results + calls % BENCH_RESULTS : NULL);
    return bench->near_results && status == LOOM_OK ? wait_for_last(bench, calls) : status;
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

/* By twice, whatever the keys. */
loom_status map_call_grow(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    (void)at;
    (void)n;
    (void)result;
    return loom_map_reserve(bench->map, 2 * bench->n, NULL);
}

/* ---- extend: of n keys the last ones, as many as --more says ---- */

static uint64_t extension_begin(const map_bench *bench)
{
    return bench->n - (uint64_t)((double)bench->n * bench->session->options->more);
}

void map_make_extension(map_bench *bench, double hit)
{
    map_make_all(bench, hit);
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
    map_clock_start(bench);
    const loom_status status = loom_map_insert(bench->map, keys_at(bench, at), values_at(bench, at), bench->n - at,
                                               LOOM_KEEP | flags, NULL, NULL, NULL);
    map_clock_stop(bench);
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
    return loom_map_find(bench->map, keys_at(bench, at), n, found_at(bench, at), bench_at(bench->near_status, at, 1),
                         result, NULL);
}

loom_status map_call_erase(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    return loom_map_erase(bench->map, keys_at(bench, at), n, NULL, result, NULL);
}
