/* Perfect tables built by partition: split the batch (cuda_bulk.cuh), find the codes of each partition (cuda_perfect_codes.cu),
 * write it whole (cuda_perfect_place.cu). Records for which no bucket has room are left over; whoever builds inserts them. */
#ifndef LOOM_CUDA_PERFECT_BULK_CUH
#define LOOM_CUDA_PERFECT_BULK_CUH

#include "engines/perfect/perfect_layout.h"
#include "machines/cuda/core/cuda_bulk.cuh"

enum { PERFECT_STATIC_BYTES = 1024 /* shared memory that kernels have besides what they ask for, at most */ };

/* Records that are left over, with their places in the batch, if anybody asks for those. */
struct perfect_leftovers {
    uint32_t *count; /* that wanted to be here; zero at first */
    uint32_t room;
    void *keys, *values;
    uint32_t *index; /* NULL: nobody asks */
    uint8_t *status; /* [room] for whoever inserts them, if there is an index */
};

struct perfect_bulk_plan {
    bulk_plan split;
    uint32_t leftover_room;
    uint64_t spoiled_at, count_at, keys_at, values_at, index_at, status_at, bytes; /* behind the split's memory */
};

/* Shared memory that finding codes takes. */
uint32_t cuda_perfect_codes_bytes(const loom__perfect_view *view);

/* False if it is beyond the kernels. `with_index`: statuses are told. */
bool cuda_perfect_bulk_plan(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n, bool with_index,
                            perfect_bulk_plan *plan);

inline bulk_target perfect_bulk_target(const loom__perfect_view *view)
{
    return {view->base, view->seed, view->partitions, (loom__slot_kind)view->kind};
}

/* Spoiled: the codes of such a partition could not be found; all its records are left over. */
inline uint8_t *perfect_spoiled(const perfect_bulk_plan *plan, unsigned char *workspace)
{
    return workspace + plan->spoiled_at;
}

perfect_leftovers cuda_perfect_leftovers(const perfect_bulk_plan *plan, unsigned char *workspace);

/* In this order, in one stream: cuda_perfect_bulk_begin; cuda_bulk_split; cuda_bulk_split_further; codes; place, which counts. */
cudaError_t cuda_perfect_bulk_begin(const perfect_bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);
cudaError_t cuda_perfect_bulk_codes(const cuda_state *cuda, const loom__perfect_view *view,
                                    const perfect_bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);
cudaError_t cuda_perfect_bulk_place(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *batch,
                                    const perfect_bulk_plan *plan, unsigned char *workspace, bool overwrite,
                                    cudaStream_t stream);

#endif
