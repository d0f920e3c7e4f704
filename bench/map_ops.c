#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_zipf.h"
#include "map_bench.h"

#include <string.h>

/* ---- Inputs ------------------------------------------------------------------------------------------- */

/* `count` draws from the keys of the table; equal keys carry equal values, so whichever wins is right. */
static void draw_present(map_bench *bench, uint64_t count)
{
    bench_draw draw;
    bench_draw_init(&draw, bench->n, bench->session->options->skew, BENCH_SEED);
    memset(bench->marked, 0, (size_t)bench->n);
    bench->count = count;
    bench->distinct = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = bench_draw_index(&draw);
        bench_put(bench->keys, i, bench->key_bytes, bench_key_of(index, bench->key_bytes));
        bench_put(bench->values, i, bench->value_bytes, bench_value_of(index, 0, bench->value_bytes));
        bench->distinct += !bench->marked[index];
        bench->marked[index] = 1;
    }
}

static void make_all(map_bench *bench, double hit)
{
    (void)hit;
    draw_present(bench, bench->n);
}

static void make_erased(map_bench *bench, double hit)
{
    (void)hit;
    draw_present(bench, (bench->n + BENCH_ERASE_DIVISOR - 1) / BENCH_ERASE_DIVISOR);
}

static void make_sums(map_bench *bench, double hit)
{
    make_all(bench, hit);
    memset(bench->times, 0, (size_t)bench->n * sizeof *bench->times);
    for (uint64_t i = 0; i < bench->count; i++)
        bench->times[bench_index_of(bench_get(bench->keys, i, bench->key_bytes), bench->key_bytes)]++;
}

/* All keys; those of even index will be there (reset_half), hence about half of the entries also if they are skewed. */
static void make_half_present(map_bench *bench, double hit)
{
    make_all(bench, hit);
    for (uint64_t i = 0; i < bench->n; i += 2) {
        bench->distinct += !bench->marked[i];
        bench->marked[i] = 1;
    }
}

static void make_updates(map_bench *bench, double hit)
{
    make_all(bench, hit);
    for (uint64_t i = 0; i < bench->count; i++) {
        const uint64_t index = bench_index_of(bench_get(bench->keys, i, bench->key_bytes), bench->key_bytes);
        bench_put(bench->values, i, bench->value_bytes, bench_value_of(index, 1, bench->value_bytes));
    }
}

/* Hits and misses follow each other at random, so that no branch predictor can learn the order. */
static void make_queries(map_bench *bench, double hit)
{
    bench_draw draw, coin;
    bench_draw_init(&draw, bench->n, bench->session->options->skew, BENCH_SEED);
    bench_draw_init(&coin, 1, 0, BENCH_SEED + 1);
    bench->count = bench->session->options->queries;
    for (uint64_t i = 0; i < bench->count; i++) {
        const bool present = bench_draw_unit(&coin) * 100 < hit;
        const uint64_t index = bench_draw_index(&draw) + (present ? 0 : bench->n);
        bench_put(bench->keys, i, bench->key_bytes, bench_key_of(index, bench->key_bytes));
    }
}

/* ---- The state before each repetition ----------------------------------------------------------------- */

static loom_status reset_empty(map_bench *bench)
{
    bench->filled = false;
    return loom_map_clear(bench->map, NULL, NULL);
}

static loom_status reset_filled(map_bench *bench)
{
    if (bench->filled)
        return LOOM_OK;
    const loom_status status =
        loom_map_build(bench->map, bench->base_keys, bench->base_values, bench->n, LOOM_KEEP, NULL, NULL, NULL);
    bench->filled = status == LOOM_OK;
    return status;
}

/* So that the answers of one repetition cannot pass for those of the next. */
static loom_status spoil_answers(map_bench *bench)
{
    memset(bench->found, 0xa5, (size_t)(bench->count * bench->value_bytes));
    memset(bench->status, 0xa5, (size_t)bench->count);
    return map_bench_send_answers(bench);
}

static loom_status reset_half(map_bench *bench)
{
    const loom_status status = spoil_answers(bench);
    bench->filled = false;
    return status != LOOM_OK ? status
                             : loom_map_build(bench->map, bench->half_keys, bench->half_values, bench->half_count,
                                              LOOM_KEEP, NULL, NULL, NULL);
}

static loom_status reset_answers(map_bench *bench)
{
    const loom_status status = spoil_answers(bench);
    return status == LOOM_OK ? reset_filled(bench) : status;
}

/* ---- What is timed ------------------------------------------------------------------------------------ */

/* A call without a loom_result has happened when it returns, on every machine. With --wait last calls get one, in turn from
 * a few, and the run ends by fetching those of the last calls; what went wrong in an earlier one shows in the checks. */

static loom_result *result_at(const map_bench *bench, uint64_t at)
{
    return bench->near_results ? bench->near_results + at / bench->batch % BENCH_RESULTS : NULL;
}

static loom_status wait_for_last(const map_bench *bench, loom_status status)
{
    loom_result results[BENCH_RESULTS];
    if (!bench->near_results || status != LOOM_OK)
        return status;
    status = loom_array_copy(bench->session->context, results, bench->near_results, sizeof results, NULL);
    const uint64_t calls = (bench->count + bench->batch - 1) / bench->batch;
    for (uint64_t i = 0; i < calls && i < BENCH_RESULTS && status == LOOM_OK; i++)
        status = (loom_status)results[i].status;
    return status;
}

static uint64_t batch_at(const map_bench *bench, uint64_t at)
{
    return bench->count - at < bench->batch ? bench->count - at : bench->batch;
}

static loom_status run_build(map_bench *bench)
{
    return loom_map_build(bench->map, bench->near_keys, bench->near_values, bench->count, LOOM_KEEP, NULL, NULL, NULL);
}

static loom_status run_insert(map_bench *bench)
{
    loom_status status = LOOM_OK;
    for (uint64_t at = 0; at < bench->count && status == LOOM_OK; at += bench->batch)
        status = loom_map_insert(bench->map, bench_at(bench->near_keys, at, bench->key_bytes),
                                 bench_at(bench->near_values, at, bench->value_bytes), batch_at(bench, at), LOOM_KEEP,
                                 NULL, result_at(bench, at), NULL);
    return wait_for_last(bench, status);
}

static loom_status run_find(map_bench *bench)
{
    loom_status status = LOOM_OK;
    for (uint64_t at = 0; at < bench->count && status == LOOM_OK; at += bench->batch)
        status = loom_map_find(bench->map, bench_at(bench->near_keys, at, bench->key_bytes), batch_at(bench, at),
                               bench_at(bench->near_found, at, bench->value_bytes), bench_at(bench->near_status, at, 1),
                               result_at(bench, at), NULL);
    return wait_for_last(bench, status);
}

static loom_status run_find_or_insert(map_bench *bench)
{
    loom_status status = LOOM_OK;
    for (uint64_t at = 0; at < bench->count && status == LOOM_OK; at += bench->batch)
        status = loom_map_find_or_insert(bench->map, bench_at(bench->near_keys, at, bench->key_bytes),
                                         bench_at(bench->near_values, at, bench->value_bytes), batch_at(bench, at),
                                         bench_at(bench->near_found, at, bench->value_bytes), NULL,
                                         result_at(bench, at), NULL);
    return wait_for_last(bench, status);
}

static loom_status run_update(map_bench *bench)
{
    loom_status status = LOOM_OK;
    bench->filled = false;
    for (uint64_t at = 0; at < bench->count && status == LOOM_OK; at += bench->batch)
        status = loom_map_update(bench->map, bench_at(bench->near_keys, at, bench->key_bytes),
                                 bench_at(bench->near_values, at, bench->value_bytes), batch_at(bench, at), NULL,
                                 result_at(bench, at), NULL);
    return wait_for_last(bench, status);
}

static loom_status run_accumulate(map_bench *bench)
{
    loom_status status = LOOM_OK;
    const loom_number number = bench->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64;
    for (uint64_t at = 0; at < bench->count && status == LOOM_OK; at += bench->batch)
        status = loom_map_accumulate(bench->map, bench_at(bench->near_keys, at, bench->key_bytes),
                                     bench_at(bench->near_values, at, bench->value_bytes), batch_at(bench, at),
                                     LOOM_COMBINE_ADD, number, NULL, result_at(bench, at), NULL);
    return wait_for_last(bench, status);
}

static loom_status run_erase(map_bench *bench)
{
    loom_status status = LOOM_OK;
    bench->filled = false;
    for (uint64_t at = 0; at < bench->count && status == LOOM_OK; at += bench->batch)
        status = loom_map_erase(bench->map, bench_at(bench->near_keys, at, bench->key_bytes), batch_at(bench, at), NULL,
                                result_at(bench, at), NULL);
    return wait_for_last(bench, status);
}

/* ---- Checks ------------------------------------------------------------------------------------------- */

static void check_filled(map_bench *bench, bench_row *row)
{
    map_check_size(bench, row, bench->distinct);
}

static void check_all_there(map_bench *bench, bench_row *row)
{
    map_check_size(bench, row, bench->n);
}

static void check_erased(map_bench *bench, bench_row *row)
{
    map_check_size(bench, row, bench->n - bench->distinct);
}

static void check_marked_present(map_bench *bench, bench_row *row)
{
    map_check_contents(bench, row, 1);
}

static void check_marked_absent(map_bench *bench, bench_row *row)
{
    map_check_contents(bench, row, 0);
}

static uint64_t hold_distinct(const map_bench *bench)
{
    return bench->distinct;
}

static uint64_t hold_all(const map_bench *bench)
{
    return bench->n;
}

/* ---- Bytes -------------------------------------------------------------------------------------------- */

/* What an operation cannot do without moving, the column `gbps`:
 *   build    the pairs read once and the table written once
 *   find     the key read, 64 bytes for each access, the value and one byte of status written
 *   insert   the pair read, 64 bytes for each access, and the last bucket written back; accumulate and update likewise
 *   find_or_insert  the pair read, a value written, 64 bytes for each access, half of the last buckets written back
 *   erase    the key read, 64 bytes for each access, and the last bucket written back */

enum { BUCKET = 64 };

static double bytes_of_build(const map_bench *bench, double accesses)
{
    (void)accesses;
    return (double)bench->count * (bench->key_bytes + bench->value_bytes) + (double)bench->footprint;
}

static double bytes_of_find(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + BUCKET * accesses + bench->value_bytes + 1);
}

static double bytes_of_insert(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + bench->value_bytes + BUCKET * (accesses + 1));
}

static double bytes_of_find_or_insert(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + 2 * bench->value_bytes + BUCKET * (accesses + 0.5));
}

static double bytes_of_erase(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + BUCKET * (accesses + 1));
}

/* ---- The operations ----------------------------------------------------------------------------------- */

/* `insert` is the direct way, into an empty table: one random access after the other. `build` is its rival.
 * `find_or_insert` finds half of its keys; `accumulate` adds up in an empty table. */
const map_op map_ops[] = {
    {"build", false, false, true, MAP_ACCESSES_NONE, MAP_LIMIT_COPY, make_all, reset_empty, run_build, check_filled,
     check_marked_present, hold_distinct, bytes_of_build},
    {"insert", false, false, false, MAP_ACCESSES_AFTER, MAP_LIMIT_SWAPS, make_all, reset_empty, run_insert,
     check_filled, check_marked_present, hold_distinct, bytes_of_insert},
    {"find_or_insert", false, true, false, MAP_ACCESSES_AFTER, MAP_LIMIT_HALF_SWAPS, make_half_present, reset_half,
     run_find_or_insert, map_check_told, check_marked_present, hold_distinct, bytes_of_find_or_insert},
    {"accumulate", false, false, false, MAP_ACCESSES_AFTER, MAP_LIMIT_SWAPS, make_sums, reset_empty, run_accumulate,
     check_filled, map_check_sums, hold_distinct, bytes_of_insert},
    {"update", false, false, false, MAP_ACCESSES_BEFORE, MAP_LIMIT_LAST_SWAPS, make_updates, reset_filled, run_update,
     check_all_there, map_check_updated, hold_all, bytes_of_insert},
    {"find", true, true, false, MAP_ACCESSES_BEFORE, MAP_LIMIT_READS, make_queries, reset_answers, run_find,
     map_check_found, NULL, hold_all, bytes_of_find},
    {"erase", false, false, false, MAP_ACCESSES_BEFORE, MAP_LIMIT_LAST_SWAPS, make_erased, reset_filled, run_erase,
     check_erased, check_marked_absent, hold_all, bytes_of_erase},
    {0},
};
