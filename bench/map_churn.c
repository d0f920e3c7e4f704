/* The operation `churn`: in a full table, erases the oldest keys and inserts as many new ones, until all keys have been
 * replaced BENCH_TURNOVERS times. A turnover has BENCH_CHURN_PARTS parts, one after the other.
 *
 * The input is a ring of n keys, in order of age. Generation g has the indices (g + 2) n to (g + 3) n - 1: no key comes
 * twice, and the absent keys, n to 2n - 1, never come. The last generation has 0 to n - 1 instead. The table that is
 * left therefore has the keys of a fresh one, and is queried and checked like one. */
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_threads.h"
#include "bench_timer.h"
#include "map_bench.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct part_of_ring {
    map_bench *bench;
    uint64_t begin;
    uint64_t generation;
} part_of_ring;

static uint64_t part_begin(const map_bench *bench, uint64_t part)
{
    return bench->n / BENCH_CHURN_PARTS * part + bench->n % BENCH_CHURN_PARTS * part / BENCH_CHURN_PARTS;
}

static void make_range(void *work, uint64_t begin, uint64_t end)
{
    const part_of_ring *part = work;
    const map_bench *bench = part->bench;
    const uint64_t first_index = part->generation == BENCH_TURNOVERS ? 0 : (part->generation + 2) * bench->n;
    for (uint64_t at = part->begin + begin; at < part->begin + end; at++) {
        const uint64_t index = first_index + at;
        bench_put(bench->keys, at, bench->key_bytes, bench_key_of(index, bench->key_bytes));
        bench_put(bench->values, at, bench->value_bytes, bench_value_of(index, 0, bench->value_bytes));
    }
}

/* Writes keys of a generation to a part of the ring, in host memory and in the machine's memory. */
static loom_status make_generation(map_bench *bench, uint64_t generation, uint64_t begin, uint64_t end)
{
    part_of_ring part = {bench, begin, generation};
    bench_in_parallel(end - begin, BENCH_GRAIN, make_range, &part);
    return map_send_input(bench, begin, end);
}

void map_make_churn(map_bench *bench, double hit)
{
    (void)hit;
    bench->count = bench->distinct = bench->n;
    bench->operations = 2 * BENCH_TURNOVERS * bench->n;
    bench->longest_call = part_begin(bench, BENCH_CHURN_PARTS) - part_begin(bench, BENCH_CHURN_PARTS - 1);
    bench_fill(bench->marked, 1, bench->n);
}

loom_status map_reset_churn(map_bench *bench)
{
    bench->holds = MAP_HOLDS_OTHER;
    const loom_status status = make_generation(bench, 0, 0, bench->n);
    return status == LOOM_OK ? map_call_build(bench, 0, bench->n, NULL) : status;
}

/* Erasures that missed a key and insertions that found one show in the size. */
static loom_status expect_size(map_bench *bench, const char *after, uint64_t expected)
{
    uint64_t size = 0;
    const loom_status status = loom_map_size(bench->map, &size, NULL);
    if (status == LOOM_OK && size != expected && !bench->trouble[0])
        snprintf(bench->trouble, sizeof bench->trouble, "after %s the table has %" PRIu64 " keys instead of %" PRIu64,
                 after, size, expected);
    return status;
}

static loom_status timed_call(map_bench *bench, map_call call, uint64_t begin, uint64_t end)
{
    bench_clock_start(&bench->clock);
    const loom_status status = map_call_in_batches(bench, call, begin, end);
    bench_clock_stop(&bench->clock);
    return status;
}

static loom_status replace_part(map_bench *bench, uint64_t generation, uint64_t begin, uint64_t end)
{
    loom_status status = timed_call(bench, map_call_erase, begin, end);
    if (status == LOOM_OK)
        status = expect_size(bench, "an erasure", bench->n - (end - begin));
    if (status == LOOM_OK)
        status = make_generation(bench, generation, begin, end);
    if (status == LOOM_OK)
        status = timed_call(bench, map_call_insert, begin, end);
    if (status == LOOM_OK)
        status = expect_size(bench, "an insertion", bench->n);
    return status;
}

loom_status map_run_churn(map_bench *bench)
{
    loom_status status = LOOM_OK;
    bench->trouble[0] = 0;
    for (uint64_t generation = 1; generation <= BENCH_TURNOVERS; generation++)
        for (uint64_t part = 0; part < BENCH_CHURN_PARTS && status == LOOM_OK; part++)
            status = replace_part(bench, generation, part_begin(bench, part), part_begin(bench, part + 1));
    if (status == LOOM_OK)
        bench->holds = MAP_HOLDS_CHURNED;
    return status;
}

void map_check_churn(map_bench *bench, bench_row *row)
{
    if (bench->trouble[0])
        bench_row_fail(row, "%s", bench->trouble);
    map_check_size(bench, row, bench->n);
}
