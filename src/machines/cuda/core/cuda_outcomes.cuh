/* Counts the outcomes of keys that a thread block inserts, for any engine. */
#ifndef LOOM_CUDA_OUTCOMES_CUH
#define LOOM_CUDA_OUTCOMES_CUH

#include "machines/cuda/core/cuda_state.cuh"

/* Counts of one thread. They may be negative; their sums over the block are not. */
struct outcome_counts {
    int32_t ok, exists, full;
};

/* Sums the counts of a warp's lanes, and adds the sum to *to with one atomic. */
template <class number> __device__ __forceinline__ void add_count(unsigned long long *to, number mine)
{
    number sum = __reduce_add_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0 && sum != 0)
        atomicAdd(to, (unsigned long long)(long long)sum);
}

/* Adds the counts of all threads to the counts of the call. */
__device__ __forceinline__ void tell_counts(cuda_counts *call, const outcome_counts &counts)
{
    cuda_counts *to = call + blockIdx.x % COUNT_COPIES;
    add_count(&to->ok, counts.ok);
    add_count(&to->exists, counts.exists);
    add_count(&to->full, counts.full);
}

#endif
