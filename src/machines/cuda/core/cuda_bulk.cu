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
    cuda_for_kind(kind, [&](auto literal) {
        typedef bulk_columns<literal()> columns;
        request->head_bytes = sizeof(typename columns::head);
        request->tail_bytes = columns::has_tail ? sizeof(typename columns::value) : 0;
    });
}

cudaError_t cuda_bulk_split(const bulk_target *target, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                            unsigned char *workspace, cudaStream_t stream)
{
    return cuda_for_kind(target->kind, [&](auto kind) {
        return split_batch<bulk_columns<kind()>>(plan, workspace, target->base, {batch->keys, batch->values, batch->n},
                                                 first, partition_of_head<kind()>{target->seed, target->partitions},
                                                 stream);
    });
}

cudaError_t cuda_bulk_split_further(const bulk_target *target, const bulk_plan *plan, unsigned char *workspace,
                                    uint32_t wave, cudaStream_t stream)
{
    return cuda_for_kind(target->kind, [&](auto kind) {
        return split_further<bulk_columns<kind()>>(plan, workspace, target->base, wave,
                                                   partition_of_head<kind()>{target->seed, target->partitions}, stream);
    });
}

cuda_spill cuda_bulk_spill(loom__slot_kind kind, const bulk_plan *plan, unsigned char *workspace)
{
    return cuda_for_kind(kind, [&](auto literal) {
        typedef bulk_columns<literal()> columns;
        const auto regions = split_fine_regions<columns>(plan, workspace, 0);
        const void *values = regions.spill.tails;
        if (columns::packed)
            values = (const uint32_t *)regions.spill.heads + regions.spill_room;
        return cuda_spill{regions.spilled, regions.spill_room, regions.spill.heads, values};
    });
}
