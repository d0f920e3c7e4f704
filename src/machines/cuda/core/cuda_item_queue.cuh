/* Gives the items of a warp's tile to its groups of lanes. Included after the lane primitives. */
#ifndef LOOM_CUDA_ITEM_QUEUE_CUH
#define LOOM_CUDA_ITEM_QUEUE_CUH

#include "machines/cuda/core/cuda_lanes.cuh"

enum { GROUPS = 32 / CUDA_LANES /* groups of a warp */ };

/* Hands out items 0, 1, 2, … of a tile to the groups of a warp. A group that is done gets the next one, so that groups
 * whose keys lie deep do not hold up the others. All lanes of the warp call `next` together. */
struct item_queue {
    uint32_t given; /* the same in all lanes */

    __device__ __forceinline__ item_queue() : given(GROUPS) {}
    __device__ __forceinline__ uint32_t first() const
    {
        return threadIdx.x % 32 / CUDA_LANES;
    }
    /* The item after `item`, if the group is done with that. */
    __device__ __forceinline__ uint32_t next(lane_group group, uint32_t item, bool done)
    {
        const uint32_t asking = __ballot_sync(CUDA_FULL_MASK, done & lane_leads(group));
        const uint32_t before = asking & ((group.mask & (0 - group.mask)) - 1); /* groups of lower lanes */
        const uint32_t following = done ? given + __popc(before) : item;
        given += __popc(asking);
        return following;
    }
};

#endif
