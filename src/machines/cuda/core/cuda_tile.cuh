/* Tiles: the keys that one warp takes, and their answers.
 *
 * A tile's arrays lie in shared memory while the warp works on them. A lane reads and writes the batch in pieces of 16
 * bytes, so a warp asks the L2 cache for four lines at a time. In an earlier design, lane groups read keys and wrote
 * answers one by one. Every 16 keys or answers then cost a request, and lookups had to share the cache with those
 * requests. */
#ifndef LOOM_CUDA_TILE_CUH
#define LOOM_CUDA_TILE_CUH

#include <stdint.h>

enum { TILE_ITEMS = 128 }; /* most items. A lane moves at least 16 bytes of each array, 4 of statuses */

/* One lane's place in its warp's tile. */
struct tile_range {
    uint64_t first; /* first item of the tile in the batch */
    uint32_t count;
    uint32_t lane;

    __device__ __forceinline__ tile_range(uint64_t n, uint32_t items, uint64_t block = blockIdx.x)
    {
        uint64_t warp = block * (blockDim.x / 32) + threadIdx.x / 32;
        first = warp * items;
        count = first >= n ? 0 : n - first < items ? (uint32_t)(n - first) : items;
        lane = threadIdx.x % 32;
    }
};

__device__ __forceinline__ bool tile_is_wide(const tile_range &range, const void *array)
{
    return range.count == TILE_ITEMS && (uintptr_t)array % 16 == 0;
}

/* `tile` is shared memory, aligned to 16 bytes. */
template <class element>
__device__ __forceinline__ void tile_read(element *tile, const tile_range &range, const element *array)
{
    if (tile_is_wide(range, array)) {
        const uint4 *from = (const uint4 *)(array + range.first);
#pragma unroll
        for (int i = 0; i < (int)(TILE_ITEMS * sizeof(element) / 512); i++)
            ((uint4 *)tile)[range.lane + 32 * i] = __ldcs(from + range.lane + 32 * i);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < TILE_ITEMS; i += 32)
            tile[range.lane + i] = range.lane + i < range.count ? array[range.first + range.lane + i] : 0;
    }
}

/* Reads numbers of 4 bytes and stores `widen(number)` in the tile. */
template <class element, class widener>
__device__ __forceinline__ void tile_read_widened(element *tile, const tile_range &range, const uint32_t *array,
                                                  widener widen)
{
    if (tile_is_wide(range, array)) {
        static_assert(TILE_ITEMS == 4 * 32, "four numbers for each lane");
        const uint4 four = __ldcs((const uint4 *)(array + range.first) + range.lane);
        element *to = tile + 4 * range.lane;
        to[0] = widen(four.x);
        to[1] = widen(four.y);
        to[2] = widen(four.z);
        to[3] = widen(four.w);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < TILE_ITEMS; i += 32)
            tile[range.lane + i] = range.lane + i < range.count ? widen(array[range.first + range.lane + i]) : 0;
    }
}

template <class element>
__device__ __forceinline__ void tile_write(const element *tile, const tile_range &range, element *array)
{
    if (tile_is_wide(range, array)) {
        if (sizeof(element) == 1) {
            __stcs((uint32_t *)(array + range.first) + range.lane, ((const uint32_t *)tile)[range.lane]);
        } else {
            uint4 *to = (uint4 *)(array + range.first);
#pragma unroll
            for (int i = 0; i < (int)(TILE_ITEMS * sizeof(element) / 512); i++)
                __stcs(to + range.lane + 32 * i, ((const uint4 *)tile)[range.lane + 32 * i]);
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < TILE_ITEMS; i += 32)
            if (range.lane + i < range.count)
                array[range.first + range.lane + i] = tile[range.lane + i];
    }
}

/* How many of this lane's four items have the status `wanted`. */
__device__ __forceinline__ uint32_t tile_count(const uint8_t *status, const tile_range &range, uint32_t wanted)
{
    uint32_t four = ((const uint32_t *)status)[range.lane], first = 4 * range.lane;
    uint32_t items = range.count >= first + 4 ? 0xffffffffu
                     : range.count <= first   ? 0
                                              : (1u << 8 * (range.count - first)) - 1;
    return __popc(__vcmpeq4(four, wanted * 0x01010101u) & items) / 8;
}

#endif
