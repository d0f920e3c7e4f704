/* Turns the counts of a call into its result. */
#ifndef LOOM_CUDA_FINISH_CUH
#define LOOM_CUDA_FINISH_CUH

#include "machines/cuda/core/cuda_state.cuh"

static_assert(COUNT_COPIES == 32, "one lane for each");

/* Sums the copies, clears them for the next call, and writes the result. One warp runs this after all counting. */
__device__ __forceinline__ void finish_counts(const cuda_finish &finish)
{
    cuda_counts *copy = finish.counts + threadIdx.x;
    cuda_counts mine = {__ldcg(&copy->ok), __ldcg(&copy->exists), __ldcg(&copy->not_found), __ldcg(&copy->full), {}};
    *copy = cuda_counts{};
    for (int distance = COUNT_COPIES / 2; distance > 0; distance /= 2) {
        mine.ok += __shfl_xor_sync(0xffffffffu, mine.ok, distance);
        mine.exists += __shfl_xor_sync(0xffffffffu, mine.exists, distance);
        mine.not_found += __shfl_xor_sync(0xffffffffu, mine.not_found, distance);
        mine.full += __shfl_xor_sync(0xffffffffu, mine.full, distance);
    }
    if (threadIdx.x != 0)
        return;
    const bool erases = finish.op == OP_ERASE || finish.op == OP_ERASE_IF;
    if (finish.replaced)
        *finish.size = mine.ok;
    else if (finish.size != NULL && finish.op != OP_FIND && finish.op != OP_UPDATE && mine.ok > 0)
        atomicAdd((unsigned long long *)finish.size, erases ? 0 - mine.ok : mine.ok);
    loom_result told = {};
    told.status = mine.full > 0 ? LOOM_FULL : finish.outcome;
    told.keys = finish.op == OP_ERASE_IF ? mine.ok + mine.exists : finish.n; /* only the table knows its pairs */
    told.ok = mine.ok;
    told.exists = mine.exists;
    told.not_found = finish.op == OP_FIND ? finish.n - mine.ok : mine.not_found; /* lookups count found keys */
    told.full = mine.full;
    *finish.result = told;
}

/* The last block of a kernel to arrive finishes the call. All threads of each block call this after counting. */
__device__ __forceinline__ void finish_last(const cuda_finish &finish)
{
    __shared__ bool last;
    __threadfence(); /* orders this thread's counts before the arrival of its block */
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(finish.arrived, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x < COUNT_COPIES) {
        __threadfence(); /* orders the arrivals of all blocks before the reads of the counts */
        finish_counts(finish);
    }
}

#endif
