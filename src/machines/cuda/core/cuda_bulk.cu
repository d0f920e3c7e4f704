/* Batches split by partition, in one pass or two. */
#include "machines/cuda/core/cuda_bulk.cuh"

namespace
{

template <loom__slot_kind kind> struct partition_of_head {
    loom__seed seed;
    uint32_t partitions;
    __device__ __forceinline__ uint32_t operator()(typename bulk_columns<kind>::head one) const
    {
        uint64_t hash = loom__hash_key(bulk_columns<kind>::key_of(one), slot_key_bytes(kind), seed);
        return loom__hash_partition(hash, partitions);
    }
};

} // namespace

void cuda_bulk_columns(loom__slot_kind kind, split_request *request)
{
#define CALL(kind)                                          \
    request->head_bytes = sizeof(bulk_columns<kind>::head); \
    request->tail_bytes = bulk_columns<kind>::has_tail ? sizeof(bulk_columns<kind>::value) : 0
    SLOT_FOR_KIND(kind, CALL)
#undef CALL
}

cudaError_t cuda_bulk_split(const bulk_target *target, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                            unsigned char *workspace, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind)                                                                                               \
    error = split_batch<bulk_columns<kind>>(plan, workspace, target->base, batch->keys, batch->values, batch->n, \
                                            first, partition_of_head<kind>{target->seed, target->partitions}, stream)
    SLOT_FOR_KIND(target->kind, CALL)
#undef CALL
    return error;
}

cudaError_t cuda_bulk_split_further(const bulk_target *target, const bulk_plan *plan, unsigned char *workspace,
                                    uint32_t wave, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind)                                                                 \
    error = split_further<bulk_columns<kind>>(plan, workspace, target->base, wave, \
                                              partition_of_head<kind>{target->seed, target->partitions}, stream)
    SLOT_FOR_KIND(target->kind, CALL)
#undef CALL
    return error;
}

template <loom__slot_kind kind> static cuda_spill spill_of(const bulk_plan *plan, unsigned char *workspace)
{
    const bulk_regions<kind> regions = split_fine_regions<bulk_columns<kind>>(plan, workspace, 0);
    cuda_spill spill = {regions.spilled, regions.spill_room, regions.spill.heads, regions.spill.tails};
    if (bulk_columns<kind>::packed)
        spill.values = (const uint32_t *)regions.spill.heads + regions.spill_room;
    return spill;
}

cuda_spill cuda_bulk_spill(loom__slot_kind kind, const bulk_plan *plan, unsigned char *workspace)
{
    cuda_spill spill = {};
#define CALL(kind) spill = spill_of<kind>(plan, workspace)
    SLOT_FOR_KIND(kind, CALL)
#undef CALL
    return spill;
}
