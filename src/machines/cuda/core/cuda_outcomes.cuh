/* What became of the keys that a block inserted, whichever the engine. */
#ifndef LOOM_CUDA_OUTCOMES_CUH
#define LOOM_CUDA_OUTCOMES_CUH

#include "machines/cuda/core/cuda_state.cuh"

/* One thread's; they may be negative, all of a block's together are not. */
struct outcome_counts {
    int32_t ok, exists, full;
};

__device__ __forceinline__ void add_up(unsigned long long *to, int32_t mine)
{
    int32_t sum = __reduce_add_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0 && sum != 0)
        atomicAdd(to, (unsigned long long)(long long)sum);
}

/* Adds the counts of all threads to the call's. */
__device__ __forceinline__ void tell_counts(cuda_counts *call, const outcome_counts &counts)
{
    cuda_counts *to = call + blockIdx.x % COUNT_COPIES;
    add_up(&to->ok, counts.ok);
    add_up(&to->exists, counts.exists);
    add_up(&to->full, counts.full);
}

#endif
