/* Splits a batch in one pass or two (cuda_split.cuh) into one region for each part, for records of any engine:
 * workspace and kernels. core/split_plan.h plans the passes.
 *
 * A type `columns` describes a record:
 *   key                type: a key of the batch
 *   head               type: a key or a pair, by which records are split
 *   tail               type: a value that is not part of the head; no_column if there are none
 *   packed             a head is a key and a value of 4 bytes each
 *   has_tail           there are values, and they are tails
 *   neighbours         records of a region that a thread reads at once: 16 bytes of the widest column at most
 *   batch_neighbours   the same for records of a batch, where pairs are not packed yet
 * A functor on the device, `uint32_t operator()(head) const`, gives the part of a head: a number below the number of
 * parts. */
#ifndef LOOM_CUDA_SPLIT_PASSES_CUH
#define LOOM_CUDA_SPLIT_PASSES_CUH

#include "machines/cuda/core/cuda_split.cuh"
#include "machines/cuda/core/cuda_state.cuh"

/* ---- Plans ---- */

typedef loom__split_request split_request;
typedef loom__split_plan split_plan;

/* Makes a plan with one wave. Returns false if the kernels cannot split the batch. */
inline bool split_plan_passes(const split_request *request, split_plan *plan)
{
    return loom__split_make_plan(request, plan) != 0;
}

/* A counter in the workspace by which a kernel finds its last thread block. split_begin sets it to zero. The counter
 * lies beside the count of spilled records. */
inline uint32_t *split_arrived(unsigned char *workspace)
{
    static_assert(SPLIT_FILL_STRIDE > 1, "room beside it");
    return (uint32_t *)workspace + 1;
}

/* ---- Regions ---- */

template <class columns> using split_columns_of = split_columns<typename columns::head, typename columns::tail>;
template <class columns>
using split_regions_of = split_regions<typename columns::head, typename columns::tail, columns::packed>;

template <class columns> split_columns_of<columns> split_arrays(unsigned char *at, uint64_t records, bool with_index)
{
    split_columns_of<columns> arrays = {(typename columns::head *)at, NULL, NULL};
    at += loom__split_column_bytes(records, sizeof(typename columns::head));
    if constexpr (columns::has_tail) {
        arrays.tails = (typename columns::tail *)at;
        at += loom__split_column_bytes(records, sizeof(typename columns::tail));
    }
    if (with_index)
        arrays.index = (uint32_t *)at;
    return arrays;
}

/* The regions of a plan. split_fine_regions returns the regions of the parts in one wave, split_coarse_regions those of
 * the first of two passes. */
template <class columns>
split_regions_of<columns> split_fine_regions(const split_plan *plan, unsigned char *workspace, uint32_t wave)
{
    uint32_t *spilled = (uint32_t *)workspace, *fill = spilled + SPLIT_FILL_STRIDE;
    return split_regions_of<columns>{
        split_arrays<columns>(workspace + plan->fine_at, plan->fine_room, plan->with_index),
        plan->fine_bytes,
        fill + (size_t)wave * loom__split_fine_per_wave(plan) * SPLIT_FILL_STRIDE,
        plan->fine_room,
        split_arrays<columns>(workspace + plan->spill_at, plan->spill_room, false),
        spilled,
        plan->spill_room};
}

template <class columns>
split_regions_of<columns> split_coarse_regions(const split_plan *plan, unsigned char *workspace, unsigned char *spare)
{
    split_regions_of<columns> regions = split_fine_regions<columns>(plan, workspace, 0);
    unsigned char *base = (plan->coarse_in_spare ? spare : workspace) + plan->coarse_at;
    regions.to = split_arrays<columns>(base, plan->coarse_room, plan->with_index);
    regions.stride = plan->coarse_bytes;
    regions.fill += (size_t)plan->fine * SPLIT_FILL_STRIDE;
    regions.room = plan->coarse_room;
    return regions;
}

/* ---- Kernels ---- */

/* Records per thread in each pass of the split, and thread blocks per SM, as measured. Small batches have smaller
 * tiles, since larger ones would leave SMs without blocks. */
template <class columns> struct split_shape {
    static constexpr int items = columns::has_tail ? 12 : 16, small_items = 8, blocks = 2;
};

/* Up to this many records, tiles are small. */
enum { SPLIT_SMALL_BATCH = 1 << 21 };

/* The bin of a part. In a single pass it is the part itself. In the first of two passes it is the part's coarse region,
 * in the second the part's place in that region. */
template <class part_of> struct split_bin_of {
    part_of part;
    uint32_t shift, mask;
    template <class head> __device__ __forceinline__ uint32_t operator()(head one) const
    {
        return part(one) >> shift & mask;
    }
};

/* Reads heads of a batch: keys, or keys with their values. */
template <class columns> struct split_batch_reader {
    const typename columns::key *keys;
    const uint32_t *values; /* used only if heads are pairs */
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

/* Some records of a batch. They travel in a struct, because separate arguments make kernels longer and cost
 * registers. */
struct split_piece {
    const void *keys, *values; /* [n] on the device; values may be NULL */
    uint64_t n;
};

template <class columns, bool with_index, int items, class chooser>
__global__ void __launch_bounds__(SPLIT_THREADS, split_shape<columns>::blocks)
    split_batch_kernel(const split_piece piece, uint64_t batch_first, const split_regions_of<columns> out,
                       uint32_t bins, const chooser bin_of)
{
    constexpr uint32_t tile = SPLIT_THREADS * items;
    const uint64_t first = (uint64_t)blockIdx.x * tile;
    const uint32_t count = piece.n - first < tile ? (uint32_t)(piece.n - first) : tile;
    const bool aligned = ((uintptr_t)piece.keys | (uintptr_t)piece.values) % 16 == 0;
    const split_batch_reader<columns> heads = {(const typename columns::key *)piece.keys + first,
                                               (const uint32_t *)piece.values + first};
    const split_place_reader places = {(uint32_t)(batch_first + first)};
    const split_array_reader<typename columns::tail> tails = {(const typename columns::tail *)piece.values + first};
    split_tile<items, columns::batch_neighbours, with_index>(out, 0, bins, count, aligned, heads, tails, places,
                                                             bin_of);
}

/* The second pass. Each coarse region, from `first_region` on, has one row of thread blocks. `out`: the regions of
 * this wave's parts. */
template <class columns, bool with_index, class chooser>
__global__ void __launch_bounds__(SPLIT_THREADS, split_shape<columns>::blocks)
    split_region_kernel(const split_regions_of<columns> from, uint32_t first_region,
                        const split_regions_of<columns> out, uint32_t bins, const chooser bin_of)
{
    constexpr int items = split_shape<columns>::items;
    constexpr uint32_t tile = SPLIT_THREADS * items;
    const uint32_t region = first_region + blockIdx.y, begin = blockIdx.x * tile, whole = from.count(region);
    if (begin >= whole)
        return;
    const uint32_t count = whole - begin < tile ? whole - begin : tile, first_bin = blockIdx.y * bins;
    const split_columns_of<columns> columns_of_region = from.at(region);
    const split_array_reader<typename columns::head> heads = {columns_of_region.heads + begin};
    const split_array_reader<uint32_t> index = {columns_of_region.index + begin};
    const split_array_reader<typename columns::tail> tails = {columns_of_region.tails + begin};
    split_tile<items, columns::neighbours, with_index>(out, first_bin, bins, count, true, heads, tails, index, bin_of);
}

/* ---- Passes ---- */

/* `most` is the most shared memory that any launch of the kernel asks for. All host threads set the same number, so
 * several may set it at the same time. */
template <class kernel_type> cudaError_t allow_shared(kernel_type kernel, size_t most)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
}

template <class columns, int items, class part_of>
cudaError_t split_tiles(const split_plan *plan, unsigned char *workspace, unsigned char *spare,
                        const split_piece &piece, uint64_t first, part_of part, cudaStream_t stream)
{
    typedef split_bin_of<part_of> chooser;
    const split_regions_of<columns> out = plan->coarse > 0 ? split_coarse_regions<columns>(plan, workspace, spare)
                                                           : split_fine_regions<columns>(plan, workspace, 0);
    const uint32_t bins = plan->coarse > 0 ? plan->coarse : plan->fine, tile = SPLIT_THREADS * items;
    const chooser bin_of = {part, plan->shift, 0xffffffffu};
    auto kernel = plan->with_index ? split_batch_kernel<columns, true, items, chooser>
                                   : split_batch_kernel<columns, false, items, chooser>;
    RETURN_IF_CUDA_FAILED(allow_shared(kernel, split_shared_bytes<columns>(items, SPLIT_MOST_BINS)));
    const unsigned blocks = (unsigned)((piece.n + tile - 1) / tile);
    kernel<<<blocks, SPLIT_THREADS, split_shared_bytes<columns>(items, bins), stream>>>(piece, first, out, bins,
                                                                                        bin_of);
    return cudaGetLastError();
}

/* Call these functions in one stream and in this sequence: split_begin; split_batch, once or piece by piece; then, in
 * each wave, split_further. Afterwards split_fine_regions returns this wave's regions. None of these functions waits.
 * If more than `spill_room` records have spilled, the split has given up. */
inline cudaError_t split_begin(const split_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    return cudaMemsetAsync(workspace, 0, plan->counter_bytes, stream);
}

/* Splits a piece of the batch, which begins at the place `first` and has at least one record. `spare` is the spare
 * memory, aligned to 256 bytes; ignored unless the plan uses it. Several pieces may be split at the same time,
 * in streams that start after split_begin and end before split_further. */
template <class columns, class part_of>
cudaError_t split_batch(const split_plan *plan, unsigned char *workspace, unsigned char *spare,
                        const split_piece &piece, uint64_t first, part_of part, cudaStream_t stream)
{
    typedef split_shape<columns> shape;
    return piece.n <= SPLIT_SMALL_BATCH
               ? split_tiles<columns, shape::small_items>(plan, workspace, spare, piece, first, part, stream)
               : split_tiles<columns, shape::items>(plan, workspace, spare, piece, first, part, stream);
}

/* Runs the second pass of a wave. Does nothing if the plan has one pass. */
template <class columns, class part_of>
cudaError_t split_further(const split_plan *plan, unsigned char *workspace, unsigned char *spare, uint32_t wave,
                          part_of part, cudaStream_t stream)
{
    typedef split_bin_of<part_of> chooser;
    constexpr int items = split_shape<columns>::items;
    if (plan->coarse == 0)
        return cudaSuccess;
    auto kernel =
        plan->with_index ? split_region_kernel<columns, true, chooser> : split_region_kernel<columns, false, chooser>;
    const uint32_t bins = 1u << plan->shift, tile = SPLIT_THREADS * items;
    const chooser bin_of = {part, 0, bins - 1};
    const uint32_t first = wave * plan->per_wave, left = plan->coarse - first;
    const dim3 grid((plan->coarse_room + tile - 1) / tile, left < plan->per_wave ? left : plan->per_wave);
    RETURN_IF_CUDA_FAILED(allow_shared(kernel, split_shared_bytes<columns>(items, SPLIT_MOST_BINS)));
    const size_t bytes = split_shared_bytes<columns>(items, bins);
    kernel<<<grid, SPLIT_THREADS, bytes, stream>>>(split_coarse_regions<columns>(plan, workspace, spare), first,
                                                   split_fine_regions<columns>(plan, workspace, wave), bins, bin_of);
    return cudaGetLastError();
}

#endif
