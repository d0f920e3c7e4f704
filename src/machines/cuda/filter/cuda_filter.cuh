/* Filters on the cuda machine: declarations that their files share.
 *
 *   cuda_filter_lanes.cuh  kernels for one width of lane groups; compiled by cuda_filter_{1,2,4,8}.cu
 *   cuda_filter_bulk.cu    insertion by partition
 *   cuda_filter_stand_ins.cu  stand-ins of keys of other widths than 4 and 8 bytes
 *   cuda_filter_scan.cu    reads or writes whole filters: clear, merge, survey
 *   cuda_filter.cu         calls: stages arrays, launches kernels, returns results */
#ifndef LOOM_CUDA_FILTER_CUH
#define LOOM_CUDA_FILTER_CUH

#include "engines/filter/filter_layout.h"
#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_split_passes.cuh"
#include "machines/cuda/core/cuda_state.cuh"

/* Launches the batch with groups of one width; op is OP_FIND (contains) or OP_KEEP (insert). With a `spill`, inserts
 * the keys left over from a split of the batch, or any other list whose length only the device knows. An insertion
 * whose batch has a `found` or a `status` array tells there which keys were new, and counts `ok` and `exists`. If keys
 * have stand-ins, there is no spill: a list of stand-ins comes with the view of stand-ins. */
typedef cudaError_t cuda_filter_launch(const cuda_state *cuda, const loom__filter_view *view, const cuda_batch *batch,
                                       cuda_op op, const cuda_spill *spill, cudaStream_t stream);
cuda_filter_launch cuda_filter_launch_1, cuda_filter_launch_2, cuda_filter_launch_4, cuda_filter_launch_8;

/* Inserts the keys of a split batch, except those that have spilled. Does nothing if the split gave up. */
cudaError_t cuda_filter_fill(const loom__filter_view *view, const split_plan *plan, unsigned char *workspace,
                             cudaStream_t stream);

/* Writes the stand-ins of all keys of the array to the device. Waits for keys that lie on the host. */
loom_status cuda_filter_stand_ins(cuda_state *cuda, const loom__filter_view *view, const cuda_call_array *keys,
                                  uint64_t *stand_ins, cudaStream_t stream);

loom_status cuda_filter_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status cuda_filter_merge(loom__machine *machine, const void *any_to, const void *any_from, loom_stream stream);
loom_status cuda_filter_survey(loom__machine *machine, const void *any_view, loom__filter_survey *survey,
                               loom_stream stream);

extern const loom__filter_kernels cuda_filter_kernels;

#endif
