/* Equal keys of a block become one before the table is touched, so that a key which makes up a large part of a batch does
 * not have all lanes wait for each other at one address.
 *
 * Every item looks for an owner of its key in a small table in shared memory; the first one of a key owns it, the others
 * give it their values to combine, or leave it to the owner's where any value may win. Two keys that fall into one place of that table are not merged, which costs nothing but the
 * chance. */
#ifndef LOOM_CUDA_MERGE_CUH
#define LOOM_CUDA_MERGE_CUH

#include "core/combine.h"
#include "machines/cuda/core/cuda_tile.cuh"

enum {
    MERGE_PLACES = 2048, /* twice as many as a block has items */
    MERGE_SHIFT = 64 - 11,
    MERGED = 0xfe /* instead of a status */
};

static_assert(MERGE_PLACES == 1 << (64 - MERGE_SHIFT), "the upper bits of a product choose a place");

struct merge_table {
    uint32_t owners[MERGE_PLACES]; /* an item of the block, or NOBODY */
    static constexpr uint32_t NOBODY = 0xffffffffu;
};

/* A NaN would hide the smallest or largest number among those that it owned: it goes to the table alone. */
__device__ __forceinline__ bool may_merge(loom__how how, uint32_t value)
{
    return (how != LOOM__MIN_FLOAT && how != LOOM__MAX_FLOAT) || !isnan(__uint_as_float(value));
}

__device__ __forceinline__ bool may_merge(loom__how how, uint64_t value)
{
    return (how != LOOM__MIN_FLOAT && how != LOOM__MAX_FLOAT) || !isnan(__longlong_as_double((long long)value));
}

__device__ __forceinline__ void merge_values(uint32_t *at, loom__how how, uint32_t value)
{
    if (how == LOOM__ADD) {
        atomicAdd(at, value);
        return;
    }
    for (uint32_t seen = *at;;) { /* a swap fails only when another item has given its value */
        uint32_t old = atomicCAS(at, seen, loom__combine_4(how, seen, value));
        if (old == seen)
            return;
        seen = old;
    }
}

__device__ __forceinline__ void merge_values(uint64_t *at, loom__how how, uint64_t value)
{
    unsigned long long *there = (unsigned long long *)at;
    if (how == LOOM__ADD) {
        atomicAdd(there, (unsigned long long)value);
        return;
    }
    for (unsigned long long seen = *there;;) {
        unsigned long long old = atomicCAS(there, seen, (unsigned long long)loom__combine_8(how, seen, value));
        if (old == seen)
            return;
        seen = old;
    }
}

/* All threads of the block call this, after they have read their tiles of `items` items. An item whose status is MERGED
 * afterwards has its owner in tile->owner. */
template <bool combines, class tile_type>
__device__ __forceinline__ void merge_equal(tile_type *tiles, merge_table *table, const tile_range &range,
                                            uint32_t items, loom__how how)
{
    uint32_t warp = threadIdx.x / 32;
    tile_type *tile = &tiles[warp];
    for (uint32_t i = threadIdx.x; i < MERGE_PLACES; i += blockDim.x)
        table->owners[i] = merge_table::NOBODY;
    __syncthreads();
    for (uint32_t first = 0; first < items; first += 32) {
        uint32_t item = first + range.lane, mine = warp * TILE_ITEMS + item;
        tile->status[item] = 0;
        if (item >= range.count || (combines && !may_merge(how, tile->values[item])))
            continue;
        uint32_t *place = &table->owners[(uint64_t)tile->keys[item] * 0x9e3779b97f4a7c15u >> MERGE_SHIFT];
        uint32_t owner = atomicCAS(place, (uint32_t)merge_table::NOBODY, mine);
        if (owner == merge_table::NOBODY || tiles[owner / TILE_ITEMS].keys[owner % TILE_ITEMS] != tile->keys[item])
            continue;
        if (combines)
            merge_values(&tiles[owner / TILE_ITEMS].values[owner % TILE_ITEMS], how, tile->values[item]);
        tile->owner[item] = (uint16_t)owner;
        tile->status[item] = MERGED;
    }
    __syncthreads();
}

/* All threads of the block call this when the owners have their statuses: the others get `stored` if their owner has OK,
 * otherwise the same as their owner. */
template <class tile_type>
__device__ __forceinline__ void merge_tell(tile_type *tiles, const tile_range &range, uint32_t items,
                                           loom_status stored)
{
    tile_type *tile = &tiles[threadIdx.x / 32];
    __syncthreads();
    for (uint32_t first = 0; first < items; first += 32) {
        uint32_t item = first + range.lane;
        if (item < range.count && tile->status[item] == MERGED) {
            uint32_t owner = tile->owner[item];
            uint8_t told = tiles[owner / TILE_ITEMS].status[owner % TILE_ITEMS];
            tile->status[item] = told == LOOM_OK ? (uint8_t)stored : told;
        }
    }
    __syncwarp();
}

#endif
