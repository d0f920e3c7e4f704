/* Records of the open engine on their way into a table by partition: the memory that they take, and the waves. */
#ifndef LOOM_CUDA_OPEN_BULK_CUH
#define LOOM_CUDA_OPEN_BULK_CUH

#include "engines/open/open_layout.h"
#include "machines/cuda/core/cuda_bulk.cuh"

enum {
    BULK_STATIC_BYTES = 1024, /* shared memory that kernels have besides a partition and its counters, at most */
    BULK_HALF_BYTES = 113 * 1024 - 256 /* what one of two blocks on a Hopper multiprocessor may take */
};

/* What a block takes that has a partition in shared memory, and a counter of 16 bits for each bucket. */
inline uint32_t bulk_shared_bytes(const loom__open_view *view)
{
    return view->partition_bytes + (view->buckets + 1) / 2 * 4;
}

inline uint64_t bulk_slots(const loom__open_view *view)
{
    return (uint64_t)view->partitions * view->buckets * open_slots((loom__slot_kind)view->kind);
}

/* Parts are partitions, spare memory is the table's where its contents go.
 *
 * With little memory the second pass and the build take waves: each takes some coarse regions, splits them into the same
 * regions of partitions, and builds those partitions. Coarse regions lie at the end of the table's memory. When waves have
 * been taken up to coarse region e, the table is written up to its partition e << shift, and what has not been read begins with
 * coarse region e: cuda_open_bulk_plan sees to it that the one is not behind the other. */
/* What a plan is to be for. */
struct bulk_request {
    uint64_t n;    /* records */
    uint64_t keys; /* different ones, about */
    bool with_index;
    bool replace;    /* the table's contents go, and its memory may be used */
    bool in_order;   /* with `replace` and `with_index` alone */
    bool low_memory; /* in waves; with `replace` alone */
};

/* How records are split by partition; false if that is beyond the kernels. */
bool cuda_open_bulk_plan(const cuda_state *cuda, const loom__open_view *view, const bulk_request *request,
                         bulk_plan *plan);

inline bulk_target open_bulk_target(const loom__open_view *view)
{
    return {view->base, view->seed, view->partitions, (loom__slot_kind)view->kind};
}

/* After split_begin and cuda_bulk_split; splits further where there are two passes. The arrays are on the device; build counts.
 * What has spilled is left to cuda_open_launch_spill; in order, a build may find that it has to give up. */
cudaError_t cuda_open_bulk_build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                 const bulk_plan *plan, unsigned char *workspace, const bulk_request *request,
                                 bool overwrite, cudaStream_t stream);

/* Accumulating rows with many equal keys: not so; without a split; with one, for which there is a plan. */
typedef enum cuda_combine_way { COMBINE_NOT, COMBINE_SLICES, COMBINE_SPLIT } cuda_combine_way;
cuda_combine_way cuda_open_combine_way(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                       bulk_plan *plan);

/* `plan` and `workspace`: NULL without a split. Arrays are on the device; counts are counted. */
cudaError_t cuda_open_combine(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                              const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);

#endif
