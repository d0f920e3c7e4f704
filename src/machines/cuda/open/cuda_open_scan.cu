/* Clear, erase_if and survey, which write or read whole tables, and the count of accesses. In whole tables a thread
 * block works on one partition. A lane surveys one bucket at a time, or counts the accesses of one key. */
#define CUDA_LANES 1
#include "machines/cuda/open/cuda_open_partition.cuh"

#include "engines/open/open_survey.h"
#include "machines/cuda/core/cuda_erase_if.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/open/cuda_open_views.cuh"

namespace
{

enum { THREADS = 256 };

/* ---- clear ---- */

template <loom__slot_kind kind> __global__ void clear_kernel(const loom__open_view view)
{
    const uint32_t partition = blockIdx.x, bytes = view.partition_bytes;
    begin_partition<kind>((uint4 *)(view.base + (uint64_t)partition * bytes), NULL, bytes,
                          open_empty(&view, partition));
    if (threadIdx.x == 0) {
        view.marks[partition] = OPEN_UNMARKED;
        view.stale[partition] = 0;
        view.retired_slots[partition] = 0;
    }
}

/* ---- erase_if ---- */

struct open_erasures {
    loom__open_view view;

    template <loom__slot_kind kind>
    __device__ __forceinline__ uint32_t slot_emptied(uint32_t partition, uint32_t bucket, uint32_t slot,
                                                     uint64_t key) const
    {
        return open_slot_emptied(kind, OPEN_SHARED, &view, partition, bucket, slot, key);
    }
    __device__ __forceinline__ void partition_emptied(uint32_t partition, uint32_t wear) const
    {
        open_partition_emptied(OPEN_SHARED, &view, partition, wear);
    }
};

/* ---- survey ---- */

__device__ __forceinline__ void add_sums(open_sums *to, const open_sums &from)
{
    add_to(&to->size, from.size);
    add_to(&to->displaced, from.displaced);
    add_to(&to->accesses, from.accesses);
    add_to(&to->filter_bits, from.filter_bits);
    keep_larger(&to->fullest, from.fullest);
    keep_larger(&to->longest, from.longest);
    keep_larger(&to->lowest_bad_inverted, from.lowest_bad_inverted);
    add_to(&to->string_bytes, from.string_bytes);
    add_to(&to->in_heap, from.in_heap);
    keep_larger(&to->heap_end, from.heap_end);
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    survey_kernel(const __grid_constant__ typename open_view_of<kind>::type given, open_sums *total)
{
    const loom__open_view &view = *open_lines(&given);
    __shared__ open_sums block;
    open_sums own = {};
    lane_group alone = lane_own_group();
    if (threadIdx.x == 0)
        block = open_sums{};
    bool sound = true;
    if (kind == SLOT_STRING)
        for (uint32_t number = threadIdx.x; number < view.buckets; number += THREADS)
            sound = open_survey_strings(kind, &view, blockIdx.x, number, &own) && sound;
    if (__syncthreads_and(sound))
        for (uint32_t number = threadIdx.x; number < view.buckets; number += THREADS)
            open_survey_bucket(kind, alone, &view, blockIdx.x, number, &own);
    add_sums(&block, own);
    __syncthreads();
    if (threadIdx.x == 0) {
        block.fullest = block.size;
        add_sums(total, block);
    }
}

/* ---- accesses ---- */

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    accesses_kernel(const __grid_constant__ typename open_view_of<kind>::type given, const void *keys, uint64_t n,
                    unsigned long long *sum)
{
    const loom__open_view &view = *open_lines(&given);
    uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t accesses = 0;
    if (index < n) {
        lane_group alone = lane_own_group();
        uint64_t key;
        if constexpr (kind == SLOT_TAG || kind == SLOT_STRING)
            key = (uint64_t)(uintptr_t)((const unsigned char *)keys + index * given.key_bytes);
        else
            key = slot_key_bytes(kind) == 4 ? ((const uint32_t *)keys)[index] : ((const uint64_t *)keys)[index];
        accesses = open_count_accesses(kind, alone, &view, key);
    }
    accesses = __reduce_add_sync(CUDA_FULL_MASK, accesses);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, (unsigned long long)accesses);
}

} // namespace

loom_status cuda_open_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                   loom_stream given)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(cuda_check_bytes(view));
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(view->totals, totals, sizeof *totals, cudaMemcpyHostToDevice, stream));
    static_assert(OPEN_UNMARKED == 0, "one memset: `added`, marks, stale counts and counts of retired slots");
    const size_t bytes = (size_t)((char *)(view->retired_slots + view->partitions) - (char *)view->added);
    CUDA_TRY(cudaMemsetAsync(view->added, 0, bytes, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

loom_status cuda_open_clear(loom__machine *machine, const void *any_view, loom_stream given)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(cuda_check_bytes(view));
    ON_DEVICE((cuda_state *)machine);
#define CALL(kind) clear_kernel<kind><<<view->partitions, THREADS, 0, stream>>>(*view)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemsetAsync(&view->totals->size, 0, sizeof view->totals->size, stream));
    return LOOM_OK;
}

loom_status cuda_open_erase_if(loom__machine *machine, const void *any_view, const loom__value_range *range,
                               loom_result *result, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    return cuda_erase_if<open_erasures>(machine, view, open_table_slots(view), range, result, stream);
}

loom_status cuda_open_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    open_sums sums;
    const loom_status status =
        cuda_sum_up(machine, &sums, stream, [&](const cuda_stage *, open_sums *on_device, cudaStream_t in) {
#define CALL(kind) survey_kernel<kind><<<view->partitions, THREADS, 0, in>>>(*open_view_as<kind>(view), on_device)
            OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
            return LOOM_OK;
        });
    RETURN_IF_FAILED(status);
    *survey = open_survey_of(view, &sums);
    return LOOM_OK;
}

loom_status cuda_open_count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                                     uint64_t *accesses, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    const uint32_t key_bytes = slot_has_tag(kind) ? open_rows_of(view)->key_bytes : slot_key_bytes(kind);
    return cuda_count_accesses(
        machine, keys, key_bytes, n, accesses, stream,
        [&](const void *at, uint64_t count, unsigned long long *sum, cudaStream_t in) -> cudaError_t {
            const unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
#define CALL(kind) accesses_kernel<kind><<<blocks, THREADS, 0, in>>>(*open_view_as<kind>(view), at, count, sum)
            OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
            return cudaGetLastError();
        });
}
