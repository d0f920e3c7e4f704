/* Counts the outcomes of the keys that a thread block inserted into an open table. Included after the lane
 * algorithms. */
#ifndef LOOM_CUDA_OPEN_COUNTS_CUH
#define LOOM_CUDA_OPEN_COUNTS_CUH

#include "machines/cuda/core/cuda_outcomes.cuh"

__device__ __forceinline__ void count_outcome(outcome_counts *counts, open_outcome outcome)
{
    counts->ok += outcome == OPEN_DONE;
    counts->exists += outcome == OPEN_WAS_THERE;
    counts->full += outcome == OPEN_NO_ROOM;
}

#endif
