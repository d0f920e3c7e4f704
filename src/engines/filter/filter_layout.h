/* The bytes of a filter, and a filter as algorithms see it.
 *
 * A filter is an array of blocks of 64 bytes, zero at first; nothing else. A block is four quarters of 16 bytes, a quarter four
 * words of 32 bits. Blocks come in partitions, each of which fits the shared memory of a GPU and the L2 cache of a CPU: all
 * of FILTER_PARTITION_BLOCKS, but for a filter that has only one, which may be smaller. */
#ifndef LOOM_FILTER_LAYOUT_H
#define LOOM_FILTER_LAYOUT_H

#include "core/hash.h"
#include "loom/loom.h"

enum {
    FILTER_LAYOUT_VERSION = 1,
    FILTER_BLOCK_BYTES = 64,
    FILTER_BLOCK_BITS = 512,
    FILTER_BLOCK_WORDS = 8, /* of 64 bits: half a quarter each */
    FILTER_QUARTERS = 4,
    FILTER_PARTITION_SHIFT = 10,
    FILTER_PARTITION_BLOCKS = 1 << FILTER_PARTITION_SHIFT, /* 64 KiB: three to a Hopper multiprocessor */
    FILTER_PARTITION_BYTES = FILTER_PARTITION_BLOCKS * FILTER_BLOCK_BYTES,
    FILTER_MOST_PARTITIONS = (1 << (32 - FILTER_PARTITION_SHIFT)) - 1 /* blocks are chosen by 32 bits */
};

#define FILTER_DEFAULT_PROBES 8
#define FILTER_LEAST_RATE     1e-9
#define FILTER_LARGEST_RATE   0.5
#define FILTER_SAME_BITS      0x1p-32 /* the chance that two keys of one block have the same bits by their hashes */

/* Plain numbers, passed by value, the same on every machine. */
typedef struct loom__filter_view {
    unsigned char *base; /* block 0; aligned to a block */
    uint32_t blocks;
    uint32_t each; /* bits that a key sets in each quarter: 1 to 4 */
    uint32_t key_bytes;
    uint32_t reserved;
    loom__seed seed;
} loom__filter_view;

/* Which bits of which block a key has: filter_ops.h. */
typedef struct filter_key {
    uint32_t block;
    uint32_t lower; /* half of its hash */
} filter_key;

LOOM_LANE filter_key filter_start(const loom__filter_view *view, uint32_t key_bytes, uint64_t key)
{
    const uint64_t hash = loom__hash_key(key, key_bytes, view->seed);
    const filter_key sought = {loom__multiply_high((uint32_t)(hash >> 32), view->blocks), (uint32_t)hash};
    return sought;
}

LOOM_LANE unsigned char *filter_block(const loom__filter_view *view, uint32_t block)
{
    return view->base + loom__multiply_wide(block, FILTER_BLOCK_BYTES);
}

LOOM_BOTH uint32_t filter_partitions(uint32_t blocks)
{
    return (blocks - 1) / FILTER_PARTITION_BLOCKS + 1;
}

LOOM_BOTH uint64_t filter_bytes(uint32_t blocks)
{
    return (uint64_t)blocks * FILTER_BLOCK_BYTES;
}

/* Calls `CALL(key_bytes, each)` with literals. */
#define FILTER_FOR_EACH(key_bytes, each, CALL)   \
    do {                                         \
        switch ((each)*2 + ((key_bytes) == 8)) { \
        case 2:                                  \
            CALL(4, 1);                          \
            break;                               \
        case 3:                                  \
            CALL(8, 1);                          \
            break;                               \
        case 4:                                  \
            CALL(4, 2);                          \
            break;                               \
        case 5:                                  \
            CALL(8, 2);                          \
            break;                               \
        case 6:                                  \
            CALL(4, 3);                          \
            break;                               \
        case 7:                                  \
            CALL(8, 3);                          \
            break;                               \
        case 8:                                  \
            CALL(4, 4);                          \
            break;                               \
        default:                                 \
            CALL(8, 4);                          \
            break;                               \
        }                                        \
    } while (0)

/* ---- Shape: chosen once, when a filter is made (filter_shape.c) ---- */

typedef struct loom__filter_shape {
    uint32_t key_bytes;
    uint32_t probes; /* 4, 8, 12 or 16 */
    uint32_t blocks;
    uint64_t capacity;    /* 0: unknown */
    double designed_rate; /* with so many keys; 0: unknown */
} loom__filter_shape;

/* INVALID_ARGUMENT with a sentence if the config has no shape. */
loom_status loom__filter_choose_shape(const loom_filter_config *config, loom__filter_shape *shape);

/* Could loom__filter_choose_shape have made so many blocks? */
int loom__filter_is_shape(uint64_t blocks, uint64_t probes);

/* The rate expected with `keys` keys. */
double loom__filter_rate(double keys, double blocks, uint32_t probes);

/* Different keys that leave so many bits set. */
double loom__filter_estimate(uint64_t bits_set, uint32_t blocks, uint32_t probes);

#endif
