/* The bytes of a filter, and the view struct through which algorithms see it.
 *
 * A filter is an array of blocks of 64 bytes, all zero at first, and nothing else. A block has four quarters of 16
 * bytes. A quarter has four words of 32 bits. Blocks come in partitions that fit the shared memory of a GPU and the L2
 * cache of a CPU. All partitions have FILTER_PARTITION_BLOCKS blocks, except that a single partition may be smaller. */
#ifndef LOOM_FILTER_LAYOUT_H
#define LOOM_FILTER_LAYOUT_H

#include "core/hash.h"
#include "core/hash_bytes.h"
#include "loom/loom.h"

enum {
    FILTER_LAYOUT_VERSION = 1,
    FILTER_BLOCK_BYTES = 64,
    FILTER_BLOCK_BITS = 512,
    FILTER_BLOCK_WORDS = 8, /* words of 64 bits, half a quarter each */
    FILTER_QUARTERS = 4,
    FILTER_PARTITION_SHIFT = 10,
    FILTER_PARTITION_BLOCKS = 1 << FILTER_PARTITION_SHIFT, /* 64 KiB: three per Hopper SM */
    FILTER_PARTITION_BYTES = FILTER_PARTITION_BLOCKS * FILTER_BLOCK_BYTES,
    FILTER_MOST_PARTITIONS = (1 << (32 - FILTER_PARTITION_SHIFT)) - 1, /* 32 bits of the hash choose a block */
    FILTER_MOST_KEY_BYTES = 256
};

#define FILTER_DEFAULT_PROBES     8
#define FILTER_LEAST_RATE         1e-9
#define FILTER_LARGEST_RATE       0.5
#define FILTER_DEFAULT_RATE       0.001
#define FILTER_LEAST_BITS_PER_KEY 1
#define FILTER_MOST_BITS_PER_KEY  512     /* a block for each key */
#define FILTER_SAME_BITS          0x1p-32 /* the chance that two keys of one block have equal lower hashes */

/* The view struct: plain numbers, passed by value, the same on every machine. */
typedef struct loom__filter_view {
    unsigned char *base; /* block 0; aligned to a block */
    uint32_t blocks;
    uint32_t each; /* bits that a key sets in each quarter: 1 to 4 */
    uint32_t key_bytes;
    uint32_t reserved;
    loom__seed seed;
} loom__filter_view;

/* ---- Keys of other widths than 4 and 8 bytes ----
 *
 * Such a key has the hash of its bytes (core/hash_bytes.h), and a stand-in: the key of 8 bytes that has the same hash.
 * The stand-in costs six multiplications. In return, all algorithms below know keys of 4 and 8 bytes only: splits and
 * sorts move 8 bytes in place of the key. */

LOOM_BOTH int filter_has_stand_ins(uint32_t key_bytes)
{
    return key_bytes != 4 && key_bytes != 8;
}

/* `alignment` is as loom__hash_bytes_aligned takes it. */
LOOM_LANE uint64_t filter_stand_in(const void *key, uint32_t key_bytes, uint32_t alignment, loom__seed seed)
{
    return loom__key_of_hash(loom__hash_bytes_aligned(key, key_bytes, alignment, seed), seed);
}

/* The view struct for calls that pass stand-ins. */
LOOM_BOTH loom__filter_view filter_view_of_stand_ins(const loom__filter_view *view)
{
    loom__filter_view made = *view;
    made.key_bytes = 8;
    return made;
}

/* ---- Blocks ---- */

/* A key's block, and the hash bits that choose its bits there (filter_ops.h). */
typedef struct filter_key {
    uint32_t block;
    uint32_t lower; /* lower half of its hash */
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

/* The number of blocks of each partition. */
LOOM_BOTH uint32_t filter_partition_blocks(uint32_t blocks)
{
    return blocks < FILTER_PARTITION_BLOCKS ? blocks : (uint32_t)FILTER_PARTITION_BLOCKS;
}

LOOM_BOTH uint64_t filter_bytes(uint32_t blocks)
{
    return (uint64_t)blocks * FILTER_BLOCK_BYTES;
}

/* Calls `CALL(key_bytes, each)` with literals. */
#define FILTER_FOR_WIDTH(key_bytes, each, CALL) \
    do {                                        \
        if ((key_bytes) == 4)                   \
            CALL(4, each);                      \
        else                                    \
            CALL(8, each);                      \
    } while (0)
#define FILTER_FOR_EACH(key_bytes, each, CALL) \
    switch (each) {                            \
    case 1:                                    \
        FILTER_FOR_WIDTH(key_bytes, 1, CALL);  \
        break;                                 \
    case 2:                                    \
        FILTER_FOR_WIDTH(key_bytes, 2, CALL);  \
        break;                                 \
    case 3:                                    \
        FILTER_FOR_WIDTH(key_bytes, 3, CALL);  \
        break;                                 \
    default:                                   \
        FILTER_FOR_WIDTH(key_bytes, 4, CALL);  \
    }

/* ---- Shape: chosen once, when a filter is made (filter_shape.c) ---- */

/* Chooses the number of blocks, and how many bits a key sets: 4, 8, 12 or 16. INVALID_ARGUMENT with a sentence if no
 * shape fits the config. */
loom_status loom__filter_choose_shape(const loom_filter_config *config, uint32_t *blocks, uint32_t *probes);

/* The false-positive rate expected with `keys` keys. */
double loom__filter_rate(double keys, double blocks, uint32_t probes);

/* Estimates how many different keys set `bits_set` bits. */
double loom__filter_estimate(uint64_t bits_set, uint32_t blocks, uint32_t probes);

#endif
