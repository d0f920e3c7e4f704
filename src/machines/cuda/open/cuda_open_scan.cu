/* Operations that read or write whole tables: clear, survey; and the count of accesses. One thread block works on one
 * partition or one run of buckets, one lane on one bucket or key. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/open/open_survey.h"
#include "machines/cuda/core/cuda_whole.cuh"

namespace
{

enum { THREADS = 256 };

/* ---- clear ---- */

template <loom__slot_kind kind> __global__ void clear_kernel(const loom__open_view view)
{
    uint32_t partition = blockIdx.x, stride = open_line_stride(kind) / 8;
    uint64_t empty = open_empty(&view, partition);
    uint64_t pattern = slot_stride(kind) == 4 ? empty << 32 | empty : empty;
    uint64_t *words = (uint64_t *)(view.base + (uint64_t)partition * view.partition_bytes);
    uint32_t lines_end = view.buckets * stride, count = view.partition_bytes / 8;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS)
        words[i] = i < lines_end && i % stride < 7 ? pattern : 0;
    if (threadIdx.x == 0) {
        view.marks[partition] = OPEN_UNMARKED;
        view.stale[partition] = 0;
        view.retired_slots[partition] = 0;
    }
}

/* ---- survey ---- */

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS) survey_kernel(const loom__open_view view, open_sums *total)
{
    __shared__ open_sums block;
    open_sums own = {};
    lane_group alone = lane_own_group();
    if (threadIdx.x == 0)
        block = open_sums{};
    __syncthreads();
    for (uint32_t number = threadIdx.x; number < view.buckets; number += THREADS)
        open_survey_bucket(kind, alone, &view, blockIdx.x, number, &own);
    add_to(&block.size, own.size);
    add_to(&block.displaced, own.displaced);
    add_to(&block.accesses, own.accesses);
    add_to(&block.filter_bits, own.filter_bits);
    keep_larger(&block.longest, own.longest);
    keep_larger(&block.lowest_bad_inverted, own.lowest_bad_inverted);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    add_to(&total->size, block.size);
    add_to(&total->displaced, block.displaced);
    add_to(&total->accesses, block.accesses);
    add_to(&total->filter_bits, block.filter_bits);
    keep_larger(&total->fullest, block.size);
    keep_larger(&total->longest, block.longest);
    keep_larger(&total->lowest_bad_inverted, block.lowest_bad_inverted);
}

/* ---- accesses ---- */

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    accesses_kernel(const loom__open_view view, const void *keys, uint64_t n, unsigned long long *sum)
{
    uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t accesses = 0;
    if (index < n) {
        lane_group alone = lane_own_group();
        uint64_t key = slot_key_bytes(kind) == 4 ? ((const uint32_t *)keys)[index] : ((const uint64_t *)keys)[index];
        accesses = open_count_accesses(kind, alone, &view, key);
    }
    accesses = __reduce_add_sync(CUDA_FULL_MASK, accesses);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, (unsigned long long)accesses);
}

loom_status count_here(cuda_state *cuda, const loom__open_view *view, const void *keys, cuda_place place, uint64_t n,
                       unsigned long long *sum, cudaStream_t stream)
{
    uint64_t key_bytes = slot_key_bytes((loom__slot_kind)view->kind);
    uint64_t per_chunk = place == PLACE_DEVICE ? n : STAGE_BYTES / key_bytes;
    for (uint64_t first = 0; first < n; first += per_chunk) {
        uint64_t count = n - first < per_chunk ? n - first : per_chunk;
        const void *at = (const unsigned char *)keys + first * key_bytes;
        if (place != PLACE_DEVICE) {
            CUDA_TRY(cudaMemcpyAsync(cuda->stage.device[0], at, count * key_bytes, cudaMemcpyHostToDevice, stream));
            at = cuda->stage.device[0];
        }
        unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
#define CALL(kind) accesses_kernel<kind><<<blocks, THREADS, 0, stream>>>(*view, at, count, sum)
        SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
        CUDA_TRY(cudaGetLastError());
    }
    return LOOM_OK;
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
    CUDA_TRY(cudaMemsetAsync(view->marks, OPEN_UNMARKED, view->partitions * sizeof *view->marks, stream));
    CUDA_TRY(cudaMemsetAsync(view->stale, 0, view->partitions * sizeof *view->stale, stream));
    CUDA_TRY(cudaMemsetAsync(view->retired_slots, 0, view->partitions * sizeof *view->retired_slots, stream));
    CUDA_TRY(cudaMemsetAsync(view->added, 0, OPEN_ADDED_COPIES * sizeof *view->added, stream));
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

loom_status cuda_open_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    open_sums sums;
    const loom_status status =
        cuda_sum_up(machine, &sums, stream, [&](cuda_state *, open_sums *on_device, cudaStream_t in) {
#define CALL(kind) survey_kernel<kind><<<view->partitions, THREADS, 0, in>>>(*view, on_device)
            SLOT_FOR_KIND(view->kind, CALL)
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
    cuda_state *cuda = (cuda_state *)machine;
    cuda_place place;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &place));
    return cuda_sum_up(machine, (unsigned long long *)accesses, stream,
                       [&](cuda_state *, unsigned long long *sum, cudaStream_t in) {
                           return count_here(cuda, view, keys, place, n, sum, in);
                       });
}
