/* The items of a bulk call in kernels of any engine: widths, tiles, counts. */
#ifndef LOOM_CUDA_ITEMS_CUH
#define LOOM_CUDA_ITEMS_CUH

#include "core/slot_kind.h"
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

template <loom__slot_kind kind> struct widths {
    static constexpr bool wide_value = kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_8;
    static constexpr bool wide_key = kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8 || kind == SLOT_KEY_8;
    typedef std::conditional_t<wide_key, uint64_t, uint32_t> key;
    typedef std::conditional_t<wide_value, uint64_t, uint32_t> value; /* sets: not used */
};

__device__ __forceinline__ cuda_counts *own_counts(const cuda_batch &batch)
{
    return batch.counts + blockIdx.x % COUNT_COPIES;
}

/* The part that this thread block looks up. */
__device__ __forceinline__ uint32_t part_of_block(const cuda_parts &parts)
{
    uint32_t part = 0;
    while (blockIdx.x >= parts.first_block[part + 1])
        part++;
    return part;
}

/* The tile of a lookup. If values are as wide as keys, a found value overwrites its key: less shared memory leaves more
 * L1 cache. */
template <class key, class value> struct find_tile {
    __align__(16) key keys[TILE_ITEMS];
    value own_values[TILE_ITEMS];
    uint32_t lines[TILE_ITEMS]; /* number of the line that is searched first */
    uint8_t status[TILE_ITEMS]; /* open tables: at first, the number of the key's filter bit */
    uint8_t late[TILE_ITEMS];   /* open tables: items that their first line did not settle */
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

/* Whether a call merges the equal keys of a thread block. Otherwise all items with the same key would write to one
 * address and wait for each other. In calls that do not merge, an item whose key is in the table only reads, except for
 * the item that erases the key. */
__host__ __device__ constexpr bool merges(cuda_op op)
{
    return op == OP_COMBINE || op == OP_OVERWRITE || op == OP_UPDATE;
}

__host__ __device__ constexpr bool takes_values(loom__slot_kind kind, cuda_op op)
{
    return op != OP_ERASE && kind != SLOT_KEY_4 && kind != SLOT_KEY_8;
}

/* One warp reads the values of its tile. If a call that combines has no values, the tile gets ones, which count the
 * keys. */
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
#pragma unroll
        for (uint32_t i = 0; i < TILE_ITEMS; i += 32)
            tile->values[range.lane + i] = 1;
}

/* One warp writes what a lookup found to the arrays of the call, except for values. The tile has a status for each
 * item. Returns how many of this lane's items were found. */
template <class tile_type>
__device__ __forceinline__ uint32_t tell_statuses(tile_type *tile, const tile_range &range, const cuda_batch &batch)
{
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    const uint32_t found = tile_count(tile->status, range, LOOM_OK);
    if (batch.found != NULL) {
        __syncwarp();
        ((uint32_t *)tile->status)[range.lane] ^= 0x01010101u; /* OK becomes 1, NOT_FOUND 0 */
        __syncwarp();
        tile_write(tile->status, range, batch.found);
    }
    return found;
}

/* The same, with values. */
template <loom__slot_kind kind, class tile_type>
__device__ __forceinline__ uint32_t tell_found(tile_type *tile, const tile_range &range, const cuda_batch &batch,
                                               bool wants_values)
{
    typedef typename widths<kind>::value value;
    if (wants_values)
        tile_write(tile->values(), range, (value *)batch.found_values);
    return tell_statuses(tile, range, batch);
}

#endif
