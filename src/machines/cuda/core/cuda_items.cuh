/* The items of a bulk call as kernels of tables have them, whichever the engine: widths, tiles, counts. */
#ifndef LOOM_CUDA_ITEMS_CUH
#define LOOM_CUDA_ITEMS_CUH

#include "core/slot_kind.h"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

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

/* One warp: the values of its tile, as the call brings them; without any, ones to count with. */
template <loom__slot_kind kind, cuda_op op, class tile_type>
__device__ __forceinline__ void read_values(tile_type *tile, const tile_range &range, const cuda_batch &batch)
{
    typedef typename widths<kind>::value value;
    if (op == OP_COMBINE && sizeof(value) == 8 && batch.widening != LOOM__WIDEN_NOT)
        tile_read_widened(tile->values, range, (const uint32_t *)batch.values,
                          [&](uint32_t number) { return (value)loom__widen(batch.widening, number); });
    else if (op != OP_COMBINE || batch.values != NULL)
        tile_read(tile->values, range, (const value *)batch.values);
    else
        tile_fill(tile->values, range, (value)1);
}

/* One warp, when its tile has all answers of a lookup: to where the call wants them. */
template <loom__slot_kind kind, class tile_type>
__device__ __forceinline__ void tell_found(tile_type *tile, const tile_range &range, const cuda_batch &batch,
                                           bool wants_values)
{
    typedef typename widths<kind>::value value;
    if (wants_values)
        tile_write(tile->values(), range, (value *)batch.found_values);
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    if (batch.counts != NULL) {
        cuda_counts *counts = own_counts(batch);
        add_count(&counts->ok, tile_count(tile->status, range, LOOM_OK));
        add_count(&counts->not_found, tile_count(tile->status, range, LOOM_NOT_FOUND));
    }
    if (batch.found != NULL) {
        __syncwarp();
        tile_flip(tile->status, range);
        __syncwarp();
        tile_write(tile->status, range, batch.found);
    }
}

#endif
