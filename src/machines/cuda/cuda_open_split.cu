/* Batches of the open engine split by partition, in one pass or two. */
#include "machines/cuda/cuda_open_bulk.cuh"

namespace
{

/* Records of a thread in each pass of the split, and blocks on one multiprocessor; as measured. Batches so small that their
 * tiles would leave places for blocks empty have smaller ones. */
template <loom__open_kind kind> struct split_shape {
    static constexpr int batch_items = bulk_columns<kind>::has_tail ? 12 : 16, batch_blocks = 2;
    static constexpr int region_items = batch_items, region_blocks = 2;
    static constexpr int small_items = 8;
};

template <loom__open_kind kind> struct partition_of_head {
    loom__seed seed;
    uint32_t partitions, shift, mask;
    __device__ __forceinline__ uint32_t operator()(typename bulk_columns<kind>::head one) const
    {
        uint64_t hash = loom__hash_key(bulk_columns<kind>::key_of(one), open_key_bytes(kind), seed);
        return loom__hash_partition(hash, partitions) >> shift & mask;
    }
};

/* Heads of a batch: keys, or keys with their values. */
template <loom__open_kind kind> struct batch_head_reader {
    typedef bulk_columns<kind> columns;
    const typename columns::key *keys;
    const uint32_t *values; /* of pairs */
    template <int some> __device__ __forceinline__ void many(uint32_t i, typename columns::head *to) const
    {
        typename columns::key some_keys[some];
        split_load<some>(keys + i, some_keys);
        uint32_t some_values[some] = {};
        if constexpr (columns::packed)
            split_load<some>(values + i, some_values);
#pragma unroll
        for (int k = 0; k < some; k++)
            to[k] = some_keys[k] | (columns::packed ? (uint64_t)some_values[k] << 32 : 0);
    }
};

template <loom__open_kind kind, bool with_index, int items>
__global__ void __launch_bounds__(SPLIT_THREADS, split_shape<kind>::batch_blocks)
    split_batch_kernel(const cuda_batch batch, uint64_t batch_first, const bulk_regions<kind> out, uint32_t bins,
                       const partition_of_head<kind> bin_of)
{
    typedef bulk_columns<kind> columns;
    constexpr uint32_t tile = SPLIT_THREADS * items;
    const uint64_t first = (uint64_t)blockIdx.x * tile;
    const uint32_t count = batch.n - first < tile ? (uint32_t)(batch.n - first) : tile;
    const bool aligned = ((uintptr_t)batch.keys | (uintptr_t)batch.values) % 16 == 0;
    const batch_head_reader<kind> heads = {(const typename columns::key *)batch.keys + first,
                                           (const uint32_t *)batch.values + first};
    const split_place_reader places = {(uint32_t)(batch_first + first)};
    if constexpr (columns::has_tail) {
        const split_array_reader<typename columns::tail> tails = {(const typename columns::tail *)batch.values + first};
        split_tile<items, columns::batch_neighbours, with_index>(out, 0, bins, count, aligned, heads, tails, places,
                                                                 bin_of);
    } else {
        split_tile<items, columns::batch_neighbours, with_index>(out, 0, bins, count, aligned, heads, split_no_reader(),
                                                                 places, bin_of);
    }
}

/* The second pass: one row of blocks to a coarse region, from `first_region` on; the regions of partitions are this turn's. */
template <loom__open_kind kind, bool with_index>
__global__ void __launch_bounds__(SPLIT_THREADS, split_shape<kind>::region_blocks)
    split_region_kernel(const bulk_regions<kind> from, uint32_t first_region, const bulk_regions<kind> out,
                        uint32_t bins, const partition_of_head<kind> bin_of)
{
    typedef bulk_columns<kind> columns;
    constexpr int items = split_shape<kind>::region_items;
    constexpr uint32_t tile = SPLIT_THREADS * items;
    const uint32_t region = first_region + blockIdx.y, begin = blockIdx.x * tile, whole = from.count(region);
    if (begin >= whole)
        return;
    const uint32_t count = whole - begin < tile ? whole - begin : tile, first_bin = blockIdx.y * bins;
    const typename columns::arrays columns_of_region = from.at(region);
    const split_array_reader<typename columns::head> heads = {columns_of_region.heads + begin};
    const split_array_reader<uint32_t> index = {columns_of_region.index + begin};
    if constexpr (columns::has_tail) {
        const split_array_reader<typename columns::tail> tails = {columns_of_region.tails + begin};
        split_tile<items, columns::neighbours, with_index>(out, first_bin, bins, count, true, heads, tails, index,
                                                           bin_of);
    } else {
        split_tile<items, columns::neighbours, with_index>(out, first_bin, bins, count, true, heads, split_no_reader(),
                                                           index, bin_of);
    }
}

template <loom__open_kind kind> size_t split_bytes(int items, uint32_t bins)
{
    return split_shared_bytes<typename bulk_columns<kind>::head, typename bulk_columns<kind>::tail>(items, bins);
}

template <loom__open_kind kind, int items>
cudaError_t split(const loom__open_view *view, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                  unsigned char *workspace, cudaStream_t stream)
{
    bulk_regions<kind> out = plan->coarse > 0 ? bulk_coarse_regions<kind>(plan, workspace, view->base)
                                              : bulk_fine_regions<kind>(plan, workspace, 0);
    const uint32_t bins = plan->coarse > 0 ? plan->coarse : plan->fine;
    const partition_of_head<kind> bin_of = {view->seed, view->partitions, plan->shift, 0xffffffffu};
    auto kernel = plan->with_index ? split_batch_kernel<kind, true, items> : split_batch_kernel<kind, false, items>;
    cudaError_t error = allow_shared(kernel, split_bytes<kind>(items, SPLIT_MOST_BINS));
    if (error != cudaSuccess)
        return error;
    const uint32_t tile = SPLIT_THREADS * items;
    kernel<<<(unsigned)((batch->n + tile - 1) / tile), SPLIT_THREADS, split_bytes<kind>(items, bins), stream>>>(
        *batch, first, out, bins, bin_of);
    return cudaGetLastError();
}

/* So many records, and the tiles are small. */
enum { SMALL_BATCH = 1 << 21 };

template <loom__open_kind kind>
cudaError_t split_by_size(const loom__open_view *view, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                          unsigned char *workspace, cudaStream_t stream)
{
    return batch->n <= SMALL_BATCH
               ? split<kind, split_shape<kind>::small_items>(view, batch, first, plan, workspace, stream)
               : split<kind, split_shape<kind>::batch_items>(view, batch, first, plan, workspace, stream);
}

template <loom__open_kind kind>
cudaError_t split_further(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace, uint32_t turn,
                          cudaStream_t stream)
{
    auto kernel = plan->with_index ? split_region_kernel<kind, true> : split_region_kernel<kind, false>;
    const uint32_t bins = 1u << plan->shift, tile = SPLIT_THREADS * split_shape<kind>::region_items;
    const partition_of_head<kind> bin_of = {view->seed, view->partitions, 0, bins - 1};
    const uint32_t first = turn * plan->per_turn, left = plan->coarse - first;
    const dim3 grid((plan->coarse_room + tile - 1) / tile, left < plan->per_turn ? left : plan->per_turn);
    cudaError_t error = allow_shared(kernel, split_bytes<kind>(split_shape<kind>::region_items, SPLIT_MOST_BINS));
    if (error != cudaSuccess)
        return error;
    kernel<<<grid, SPLIT_THREADS, split_bytes<kind>(split_shape<kind>::region_items, bins), stream>>>(
        bulk_coarse_regions<kind>(plan, workspace, view->base), first, bulk_fine_regions<kind>(plan, workspace, turn),
        bins, bin_of);
    return cudaGetLastError();
}

} // namespace

cudaError_t cuda_open_bulk_begin(const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    return cudaMemsetAsync(workspace, 0, plan->counter_bytes, stream);
}

cudaError_t cuda_open_bulk_split(const loom__open_view *view, const cuda_batch *batch, uint64_t first,
                                 const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = split_by_size<kind>(view, batch, first, plan, workspace, stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}

cudaError_t cuda_open_bulk_split_further(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace,
                                         uint32_t turn, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    if (plan->coarse == 0)
        return error;
#define CALL(kind) error = split_further<kind>(view, plan, workspace, turn, stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}

template <loom__open_kind kind> static cuda_rest rest_of(const bulk_plan *plan, unsigned char *workspace)
{
    const bulk_regions<kind> regions = bulk_fine_regions<kind>(plan, workspace, 0);
    cuda_rest rest = {regions.spilled, regions.spill_room, regions.spill.heads, regions.spill.tails};
    if (bulk_columns<kind>::packed)
        rest.values = (const uint32_t *)regions.spill.heads + regions.spill_room;
    return rest;
}

cuda_rest cuda_open_bulk_rest(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace)
{
    cuda_rest rest = {};
#define CALL(kind) rest = rest_of<kind>(plan, workspace)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return rest;
}
