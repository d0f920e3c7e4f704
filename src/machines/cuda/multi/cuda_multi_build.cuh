/* Builds of multimaps by partition (cuda_multi_build.cu). */
#ifndef LOOM_CUDA_MULTI_BUILD_CUH
#define LOOM_CUDA_MULTI_BUILD_CUH

#include "engines/multi/multi_layout.h"
#include "machines/cuda/core/cuda_bulk.cuh"

/* Plans the split of n pairs of this kind by partition of the directory. False: the kernels cannot do it. */
bool cuda_multi_plan_build(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs, uint64_t n,
                           bulk_plan *plan);

/* Builds directory and lists from the split records, and adds to all totals and counts. The heap has room for n values.
 * Call this after the whole split. If records have spilled, the kernels do nothing. */
cudaError_t cuda_multi_build(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                             const bulk_plan *plan, unsigned char *workspace, cuda_counts *counts, cudaStream_t stream);

#endif
