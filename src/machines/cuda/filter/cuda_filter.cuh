/* Filters on the cuda machine: declarations that their files share.
 *
 *   cuda_filter_lanes.cuh  kernels for one width of lane groups; compiled by cuda_filter_{1,2,4,8}.cu
 *   cuda_filter_bulk.cu    insertion by partition
 *   cuda_filter_scan.cu    reads or writes whole filters: clear, merge, survey
 *   cuda_filter.cu         calls: stages arrays, launches kernels, returns results */
#ifndef LOOM_CUDA_FILTER_CUH
#define LOOM_CUDA_FILTER_CUH

#include "core/kernels.h"
#include "engines/filter/filter_layout.h"
#include "machines/cuda/core/cuda_split_passes.cuh"
#include "machines/cuda/core/cuda_state.cuh"

template <uint32_t key_bytes> struct key_of_width {
    typedef uint32_t type;
};
template <> struct key_of_width<8> {
    typedef uint64_t type;
};

/* One batch as kernels see it: arrays on the device. */
typedef struct cuda_filter_batch {
    const void *keys;
    uint8_t *found; /* may be NULL */
    uint64_t n;
    uint32_t tile;       /* items per warp */
    cuda_counts *counts; /* `ok` counts the keys found; NULL: not wanted */
    bool beyond_cache;   /* the filter does not stay in the L2 cache */
} cuda_filter_batch;

typedef enum cuda_filter_op { FILTER_INSERT, FILTER_CONTAINS } cuda_filter_op;

/* Launches the batch with groups of one width. With a `rest`, inserts the keys left over from its split. */
typedef cudaError_t cuda_filter_launch(const cuda_state *cuda, const loom__filter_view *view,
                                       const cuda_filter_batch *batch, cuda_filter_op op, const cuda_spill *rest,
                                       cudaStream_t stream);
cuda_filter_launch cuda_filter_launch_1, cuda_filter_launch_2, cuda_filter_launch_4, cuda_filter_launch_8;

/* Insertion by partition. The plan is false if the kernels cannot do it. Calls, in one stream: split_begin; split, once
 * or for each piece of the batch, which starts at `first`; fill. A launch with the rest inserts the keys that have
 * spilled. */
bool cuda_filter_bulk_plan(const cuda_state *cuda, const loom__filter_view *view, uint64_t n, split_plan *plan);
cudaError_t cuda_filter_bulk_split(const loom__filter_view *view, const split_plan *plan, unsigned char *workspace,
                                   const void *keys, uint64_t n, uint64_t first, cudaStream_t stream);
cudaError_t cuda_filter_bulk_fill(const loom__filter_view *view, const split_plan *plan, unsigned char *workspace,
                                  cudaStream_t stream);
cuda_spill cuda_filter_bulk_rest(const loom__filter_view *view, const split_plan *plan, unsigned char *workspace);

loom_status cuda_filter_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status cuda_filter_merge(loom__machine *machine, const void *any_to, const void *any_from, loom_stream stream);
loom_status cuda_filter_survey(loom__machine *machine, const void *any_view, loom__filter_survey *survey,
                               loom_stream stream);

extern const loom__filter_kernels cuda_filter_kernels;

#endif
