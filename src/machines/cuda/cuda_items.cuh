/* The items of a bulk call as kernels of tables have them, whichever the engine: widths, tiles, counts. */
#ifndef LOOM_CUDA_ITEMS_CUH
#define LOOM_CUDA_ITEMS_CUH

#include "core/slot_kind.h"
#include "machines/cuda/cuda_state.cuh"
#include "machines/cuda/cuda_tile.cuh"

template <bool wide> struct word {
    typedef uint32_t type;
};
template <> struct word<true> {
    typedef uint64_t type;
};
template <loom__slot_kind kind> struct widths {
    typedef typename word<kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8 || kind == SLOT_KEY_8>::type key;
    typedef typename word<kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_8>::type value; /* sets: not used */
};

/* Adds up what the lanes of a warp counted. */
__device__ __forceinline__ void add_count(unsigned long long *to, uint32_t mine)
{
    uint32_t sum = __reduce_add_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0 && sum > 0)
        atomicAdd(to, (unsigned long long)sum);
}

__device__ __forceinline__ cuda_counts *own_counts(const cuda_batch &batch)
{
    return batch.counts + blockIdx.x % COUNT_COPIES;
}

/* An answer takes the place of its key where it fits there: shared memory is taken from the L1 cache. */
template <class key, class value> struct find_tile {
    __align__(16) key keys[TILE_ITEMS];
    value own_values[TILE_ITEMS];
    uint32_t lines[TILE_ITEMS]; /* where their keys are looked for first, by their distance from the table's first */
    uint8_t status[TILE_ITEMS]; /* before, in open tables: filter bits */
    uint8_t late[TILE_ITEMS];   /* open tables: items that were not settled at home */
    __device__ __forceinline__ value *values()
    {
        return own_values;
    }
};
template <class word> struct find_tile<word, word> {
    __align__(16) word keys[TILE_ITEMS];
    uint32_t lines[TILE_ITEMS];
    uint8_t status[TILE_ITEMS];
    uint8_t late[TILE_ITEMS];
    __device__ __forceinline__ word *values()
    {
        return keys;
    }
};

/* Which calls make equal keys of a block one: those whose items wait for each other at one key. The others find a key that
 * is there by reading. */
__host__ __device__ constexpr bool merges(cuda_op op)
{
    return op == OP_COMBINE || op == OP_OVERWRITE || op == OP_UPDATE;
}

__host__ __device__ constexpr bool takes_values(loom__slot_kind kind, cuda_op op)
{
    return op != OP_ERASE && kind != SLOT_KEY_4 && kind != SLOT_KEY_8;
}

#endif
