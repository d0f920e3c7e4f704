/* Splits a batch by partition (core/split.h), for any engine. Each thread takes a chunk of the batch. */
#include "machines/cpu/core/cpu_split.h"

typedef struct split_work {
    loom__split split;
    loom__seed seed;
    uint32_t key_bytes, value_bytes;
} split_work;

LOOM_LANE uint32_t partition_of(const split_work *work, uint64_t key, uint32_t key_bytes)
{
    return loom__hash_partition(loom__hash_key(key, key_bytes, work->seed), work->split.bins);
}

LOOM_LANE uint32_t partition_of_4(const void *work, uint64_t key)
{
    return partition_of(work, key, 4);
}

LOOM_LANE uint32_t partition_of_8(const void *work, uint64_t key)
{
    return partition_of(work, key, 8);
}

static void count_chunk(void *argument, uint64_t chunk)
{
    const split_work work = *(const split_work *)argument; /* in registers: stores to the counts cannot alias it */
    if (work.key_bytes == 4)
        loom__split_count(&work.split, chunk, 4, partition_of_4, &work);
    else
        loom__split_count(&work.split, chunk, 8, partition_of_8, &work);
}

/* Widths are literals: the compiler specialises the loop for each pair of them. */
static void scatter_chunk(void *argument, uint64_t chunk)
{
    const split_work work = *(const split_work *)argument;
#define SCATTER(key_width, value_width)                                 \
    if (work.key_bytes == key_width && work.value_bytes == value_width) \
    loom__split_scatter(&work.split, chunk, key_width, value_width, partition_of_##key_width, &work)
    SCATTER(4, 0);
    SCATTER(4, 4);
    SCATTER(4, 8);
    SCATTER(8, 0);
    SCATTER(8, 4);
    SCATTER(8, 8);
#undef SCATTER
}

void loom__cpu_split(loom__pool *pool, const loom__split *split, loom__seed seed, uint32_t key_bytes,
                     uint32_t value_bytes)
{
    split_work work = {*split, seed, key_bytes, value_bytes};
    loom__pool_run(pool, split->chunks, count_chunk, &work);
    loom__split_sum_up(split);
    loom__pool_run(pool, split->chunks, scatter_chunk, &work);
}
