/* The operation `refuse`: keys of one partition, many more than it holds, in one call. The hash of a table is public
 * (loom_hash), so such keys are found by hashing one index after the other.
 *
 * A key has the status OK or FULL, and is then present or absent: loom_map_find must tell the same of every key. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_threads.h"
#include "map_bench.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Keys of a partition ------------------------------------------------------------------------------ */

/* Keys of successive indices, some of which belong to the partition. */
typedef struct candidates {
    uint32_t key_bytes;
    uint64_t first_index;
    void *keys;       /* [BENCH_CANDIDATES] */
    uint64_t *hashes; /* likewise */
} candidates;

static void make_candidates(void *work, uint64_t begin, uint64_t end)
{
    const candidates *some = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(some->keys, i, some->key_bytes, bench_key_of(some->first_index + i, some->key_bytes));
}

/* Adds those of partition 0 to the input, which gets `wanted` keys at most. */
static void take_candidates(map_bench *bench, const candidates *some, uint64_t partitions, uint64_t wanted)
{
    for (uint64_t i = 0; i < BENCH_CANDIDATES && bench->count < wanted; i++) {
        if ((some->hashes[i] >> 32) * partitions >> 32 != 0)
            continue;
        bench_put(bench->keys, bench->count, bench->key_bytes, bench_get(some->keys, i, bench->key_bytes));
        bench_put(bench->values, bench->count++, bench->value_bytes,
                  bench_value_of(some->first_index + i, 0, bench->value_bytes));
    }
}

static bool find_keys(map_bench *bench, candidates *some, const loom_stats *stats, uint64_t wanted)
{
    const uint64_t end = bench->key_bytes == 4 ? UINT64_C(1) << 32 : UINT64_MAX - BENCH_CANDIDATES;
    for (; bench->count < wanted && some->first_index < end; some->first_index += BENCH_CANDIDATES) {
        bench_in_parallel(BENCH_CANDIDATES, BENCH_GRAIN, make_candidates, some);
        if (loom_hash(bench->session->context, some->keys, bench->key_bytes, BENCH_CANDIDATES, stats->seed,
                      some->hashes, NULL) != LOOM_OK)
            return false;
        take_candidates(bench, some, stats->partitions, wanted);
    }
    return true;
}

/* As many keys as --queries says, otherwise BENCH_REFUSED_TIMES what the partition has slots for, but at most n. */
void map_make_refused(map_bench *bench, double hit)
{
    loom_stats stats = LOOM_STATS_INIT;
    candidates some = {bench->key_bytes, 0, bench_array_new(BENCH_CANDIDATES, bench->key_bytes),
                       bench_array_new(BENCH_CANDIDATES, sizeof *some.hashes)};
    (void)hit;
    bench->count = 0;
    bench->trouble[0] = 0;
    if (!some.keys || !some.hashes || loom_map_stats(bench->map, &stats, NULL) != LOOM_OK) {
        snprintf(bench->trouble, sizeof bench->trouble, "there is no memory for keys of one partition");
    } else {
        const bench_options *options = bench->session->options;
        const uint64_t many = BENCH_REFUSED_TIMES * (stats.slots / stats.partitions);
        const uint64_t wanted = options->given & BENCH_USES_QUERIES ? options->queries : many;
        if (!find_keys(bench, &some, &stats, wanted < bench->most ? wanted : bench->most))
            snprintf(bench->trouble, sizeof bench->trouble, "hash: %.80s", loom_last_error());
    }
    bench->operations = bench->longest_call = bench->distinct = bench->count;
    bench_array_free(some.keys);
    bench_array_free(some.hashes);
}

/* ---- The call and its check --------------------------------------------------------------------------- */

/* By the way that takes key after key, also into an empty table. */
loom_status map_call_refused(map_bench *bench, uint64_t at, uint64_t n, loom_result *result)
{
    const loom_status status =
        loom_map_insert(bench->map, bench_at(bench->near_keys, at, bench->key_bytes),
                        bench_at(bench->near_values, at, bench->value_bytes), n, LOOM_KEEP | LOOM_DIRECTLY,
                        bench_at(bench->near_status, at, 1), result, NULL);
    return status == LOOM_FULL ? LOOM_OK : status;
}

/* Whether the key has a status that it may have, and was found accordingly. */
static bool is_right(const map_bench *bench, uint64_t at, uint8_t found_status)
{
    const uint64_t index = bench_index_of(bench_get(bench->keys, at, bench->key_bytes), bench->key_bytes);
    const bool stored = bench->status[at] == LOOM_OK;
    return (stored || bench->status[at] == LOOM_FULL) && found_status == (stored ? LOOM_OK : LOOM_NOT_FOUND) &&
           bench_get(bench->found, at, bench->value_bytes) ==
               (stored ? bench_value_of(index, 0, bench->value_bytes) : 0);
}

void map_check_refused(map_bench *bench, bench_row *row)
{
    uint8_t *statuses = bench_array_new(bench->count, 1);
    uint64_t stored = 0, wrong = 0;
    if (bench->trouble[0] || !statuses) {
        bench_row_fail(row, "%s", statuses ? bench->trouble : "there is no memory for the check");
    } else if (loom_map_find(bench->map, bench->keys, bench->count, bench->found, NULL, statuses, NULL, NULL) !=
               LOOM_OK) {
        bench_row_fail(row, "find: %s", loom_last_error());
    } else {
        for (uint64_t i = 0; i < bench->count; i++) {
            stored += bench->status[i] == LOOM_OK;
            wrong += !is_right(bench, i, statuses[i]);
        }
        if (wrong > 0)
            bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " keys are not where their statuses say", wrong,
                           bench->count);
        map_check_size(bench, row, stored);
    }
    bench_array_free(statuses);
}

void map_check_all_refused(map_bench *bench, bench_row *row)
{
    bench_row_note(row, "%" PRIu64 " keys of one partition, %" PRIu64 " stored", bench->count,
                   bench->count - row->refused);
    map_check_layout(bench, row);
}
