/* The operations of the case `filter`: what each starts from, calls and moves. */
#include "bench_keys.h"
#include "filter_bench.h"

/* ---- The state before each repetition ----------------------------------------------------------------- */

static loom_status reset_empty(filter_bench *bench)
{
    bench->filled = false;
    return loom_filter_clear(bench->filter, NULL, NULL);
}

loom_status filter_fill(filter_bench *bench, uint32_t flags)
{
    loom_status status = reset_empty(bench);
    if (status == LOOM_OK)
        status = loom_filter_insert(bench->filter, bench->present.near, bench->n, flags, NULL, NULL, NULL);
    bench->filled = status == LOOM_OK;
    return status;
}

/* The last call wakes a machine that was idle while answers were checked, as in map_ops.c. */
static loom_status reset_answers(filter_bench *bench)
{
    loom_status status = filter_spoil_answers(bench);
    if (status == LOOM_OK && !bench->filled)
        status = filter_fill(bench, 0);
    return status != LOOM_OK
               ? status
               : loom_filter_contains(bench->filter, bench->queries.near, bench->queries.count, NULL, NULL, NULL);
}

/* ---- Calls -------------------------------------------------------------------------------------------- */

static loom_status call_insert(void *work, uint64_t at, uint64_t n, loom_result *result)
{
    const filter_bench *bench = work;
    return loom_filter_insert(bench->filter, bench_at(bench->present.near, at, bench->key_bytes), n, LOOM_DIRECTLY,
                              NULL, result, NULL);
}

static loom_status call_bulk(void *work, uint64_t at, uint64_t n, loom_result *result)
{
    const filter_bench *bench = work;
    return loom_filter_insert(bench->filter, bench_at(bench->present.near, at, bench->key_bytes), n, LOOM_BY_PARTITION,
                              NULL, result, NULL);
}

static loom_status call_contains(void *work, uint64_t at, uint64_t n, loom_result *result)
{
    const filter_bench *bench = work;
    return loom_filter_contains(bench->filter, bench_at(bench->queries.near, at, bench->key_bytes), n,
                                bench_at(bench->found.near, at, 1), result, NULL);
}

/* ---- Bytes -------------------------------------------------------------------------------------------- */

/* Bytes that an operation must move, for the column `gbps`:
 *   insert     the key read, its block read and written back
 *   bulk       the keys read and written by each pass that splits them (one pass up to 1024 partitions of 64 KiB,
 *              otherwise two), then read again; the filter read and written. Keys of other widths than 4 and 8 bytes
 *              are read once, and 8 bytes of each are written and take their place
 *   contains   the key and its block read, one byte of answer written */

enum { BLOCK = 64, PARTITION_BLOCKS = 1024, MOST_IN_ONE_PASS = 1024 };

static double bytes_of_insert(const filter_bench *bench)
{
    return (double)bench->n * (bench->key_bytes + 2 * BLOCK);
}

static double bytes_of_bulk(const filter_bench *bench)
{
    const uint64_t partitions = (bench->shape.blocks + PARTITION_BLOCKS - 1) / PARTITION_BLOCKS;
    const double passes = partitions <= MOST_IN_ONE_PASS ? 1 : 2;
    const double narrow = bench->key_bytes <= 8 ? bench->key_bytes : 8;
    const double replaced = bench->key_bytes <= 8 ? 0 : bench->key_bytes + narrow;
    return ((2 * passes + 1) * narrow + replaced) * (double)bench->n + 2.0 * BLOCK * (double)bench->shape.blocks;
}

static double bytes_of_contains(const filter_bench *bench)
{
    return (double)bench->queries.count * (bench->key_bytes + BLOCK + 1);
}

/* ---- The operations ----------------------------------------------------------------------------------- */

const filter_op filter_ops[] = {
    {.name = "insert",
     .limit = LOOM_LIMIT_RANDOM_CAS,
     .reset = reset_empty,
     .call = call_insert,
     .bytes = bytes_of_insert},
    {.name = "bulk",
     .whole = true,
     .limit = LOOM_LIMIT_COPY,
     .reset = reset_empty,
     .call = call_bulk,
     .bytes = bytes_of_bulk},
    {.name = "contains",
     .per_hit = true,
     .limit = LOOM_LIMIT_RANDOM_READ,
     .reset = reset_answers,
     .call = call_contains,
     .bytes = bytes_of_contains},
    {0},
};
