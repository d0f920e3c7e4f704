/* Batches that go into an open table by partition: plans and kernels. */
#ifndef LOOM_CUDA_OPEN_BULK_CUH
#define LOOM_CUDA_OPEN_BULK_CUH

#include "engines/open/open_layout.h"
#include "machines/cuda/core/cuda_bulk.cuh"

enum {
    BULK_STATIC_BYTES = 1024,          /* shared memory of a kernel besides a partition and its counters, at most */
    BULK_HALF_BYTES = 113 * 1024 - 256 /* shared memory of a thread block if two run on one Hopper SM */
};

/* Shared memory of a thread block: a partition, and a counter of 16 bits for each bucket. */
inline uint32_t bulk_shared_bytes(const loom__open_view *view)
{
    return view->partition_bytes + (view->buckets + 1) / 2 * 4;
}

inline uint64_t bulk_slots(const loom__open_view *view)
{
    return (uint64_t)view->partitions * view->buckets * open_slots((loom__slot_kind)view->kind);
}

/* How a thread block fills a partition. INTO_EMPTY starts from an empty partition. INTO_FILLED starts from a partition
 * that may hold keys. IN_ORDER starts from an empty partition and honours LOOM_IN_ORDER. */
enum build_way { INTO_EMPTY, INTO_FILLED, IN_ORDER };

/* The split has one part per partition. A build into an empty table may use the table's memory as spare memory. */
struct open_plan : bulk_plan {
    build_way way;
};

inline bulk_target open_bulk_target(const loom__open_view *view)
{
    return {view->base, view->seed, view->partitions, (loom__slot_kind)view->kind};
}

/* Runs the second pass of the split, if there is one, fills the partitions and counts outcomes. Call this after
 * split_begin and cuda_bulk_split. The arrays are on the device. Spilled records are left to cuda_open_launch_spill. A
 * build in order may give up. It then sets the count of spilled records above the spill's room. */
cudaError_t cuda_open_bulk_build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                 const open_plan *plan, unsigned char *workspace, bool overwrite, cudaStream_t stream);

/* Plans how a batch with many equal keys is accumulated. False: the caller sends the rows to the table one by one.
 * plan->bytes = 0: there is no split. */
bool cuda_open_combine_plan(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                            bulk_plan *plan);

/* Accumulates a planned batch and counts outcomes. `workspace` is NULL without a split. The arrays are on the
 * device. */
cudaError_t cuda_open_combine(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                              const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);

#endif
