/* Merges equal keys of a thread block before they reach the table. Otherwise a key that makes up a large part of a
 * batch would make all lanes wait for each other at one address.
 *
 * A small table in shared memory names the owner of a key: the first item with that key. The other items give the owner
 * their values to combine, or drop them where any value may win. Two different keys that fall into one place of the
 * small table are not merged; the only cost is the missed chance. */
#ifndef LOOM_CUDA_MERGE_CUH
#define LOOM_CUDA_MERGE_CUH

#include "core/combine.h"
#include "machines/cuda/core/cuda_tile.cuh"

#include <type_traits>

enum {
    MERGE_PLACES = 2048, /* twice the items of a thread block */
    MERGE_SHIFT = 64 - 11,
    MERGED = 0xfe /* stands in place of a status */
};

static_assert(MERGE_PLACES == 1 << (64 - MERGE_SHIFT), "the upper bits of a product choose a place");

struct merge_table {
    uint32_t owners[MERGE_PLACES]; /* an item of the thread block, or NOBODY */
    static constexpr uint32_t NOBODY = 0xffffffffu;
};

/* A NaN as owner would hide the smallest or largest number of the items merged with it, so a NaN goes to the table
 * alone. */
template <class word> __device__ __forceinline__ bool may_merge(loom__combine_rule rule, word value)
{
    if (rule != LOOM__MIN_FLOAT && rule != LOOM__MAX_FLOAT)
        return true;
    return sizeof(word) == 4 ? !isnan(__uint_as_float((uint32_t)value))
                             : !isnan(__longlong_as_double((long long)value));
}

template <class word> __device__ __forceinline__ void merge_values(word *at, loom__combine_rule rule, word value)
{
    typedef std::conditional_t<sizeof(word) == 4, uint32_t, unsigned long long> number; /* as the atomics take it */
    number *there = (number *)at;
    if (rule == LOOM__ADD) {
        atomicAdd(there, (number)value);
        return;
    }
    for (number seen = *there;;) { /* each failed CAS means that another item has given its value */
        number wanted = sizeof(word) == 4 ? loom__combine_4(rule, (uint32_t)seen, (uint32_t)value)
                                          : (number)loom__combine_8(rule, seen, value);
        number old = atomicCAS(there, seen, wanted);
        if (old == seen)
            return;
        seen = old;
    }
}

/* All threads of the block call this after they have read their tiles of `items` items. Afterwards an item whose status
 * is MERGED has its owner in tile->owner. */
template <bool combines, class tile_type>
__device__ __forceinline__ void merge_equal(tile_type *tiles, merge_table *table, const tile_range &range,
                                            uint32_t items, loom__combine_rule rule)
{
    uint32_t warp = threadIdx.x / 32;
    tile_type *tile = &tiles[warp];
    for (uint32_t i = threadIdx.x; i < MERGE_PLACES; i += blockDim.x)
        table->owners[i] = merge_table::NOBODY;
    __syncthreads();
    for (uint32_t first = 0; first < items; first += 32) {
        uint32_t item = first + range.lane, mine = warp * TILE_ITEMS + item;
        tile->status[item] = 0;
        if (item >= range.count || (combines && !may_merge(rule, tile->values[item])))
            continue;
        uint32_t *place = &table->owners[(uint64_t)tile->keys[item] * 0x9e3779b97f4a7c15u >> MERGE_SHIFT];
        uint32_t owner = atomicCAS(place, (uint32_t)merge_table::NOBODY, mine);
        if (owner == merge_table::NOBODY || tiles[owner / TILE_ITEMS].keys[owner % TILE_ITEMS] != tile->keys[item])
            continue;
        if (combines)
            merge_values(&tiles[owner / TILE_ITEMS].values[owner % TILE_ITEMS], rule, tile->values[item]);
        tile->owner[item] = (uint16_t)owner;
        tile->status[item] = MERGED;
    }
    __syncthreads();
}

/* All threads of the block call this when the owners have their statuses. A merged item gets `stored` if its owner has
 * OK, otherwise its owner's status. */
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
