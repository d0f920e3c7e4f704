/* Operations that read or write whole filters: clear, merge, survey. All accesses stream. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/filter/filter_ops.h"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

namespace
{

enum { THREADS = 256, BLOCKS_PER_MULTIPROCESSOR = 8 };

/* Merges four words of 32 bits at a time. */
__global__ void __launch_bounds__(THREADS) merge_kernel(uint4 *to, const uint4 *from, uint64_t n)
{
    const uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        const uint4 a = to[i], b = __ldcs(from + i);
        to[i] = make_uint4(a.x | b.x, a.y | b.y, a.z | b.z, a.w | b.w);
    }
}

/* Insertions may run at the same time. A thread reads whole blocks. The lanes of a warp read neighbouring blocks, and
 * the lines of these blocks stay in the cache until they are read. */
__global__ void __launch_bounds__(THREADS) survey_kernel(const loom__filter_view view, loom__filter_survey *sums)
{
    const uint64_t step = (uint64_t)gridDim.x * THREADS;
    loom__filter_survey mine = {};
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < view.blocks; i += step) {
        uint64_t words[FILTER_BLOCK_WORDS];
#pragma unroll
        for (int k = 0; k < FILTER_BLOCK_WORDS; k += 2)
            lane_load_two(filter_block(&view, (uint32_t)i) + 8 * k, 1, FILTER_BLOCK_BYTES, &words[k], &words[k + 1]);
        mine.false_positive_rate += filter_survey_block(view.each, words, &mine.bits_set);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        mine.bits_set += __shfl_xor_sync(CUDA_FULL_MASK, mine.bits_set, distance);
        mine.false_positive_rate += __shfl_xor_sync(CUDA_FULL_MASK, mine.false_positive_rate, distance);
    }
    if (threadIdx.x % 32 == 0) {
        add_to(&sums->bits_set, mine.bits_set);
        atomicAdd(&sums->false_positive_rate, mine.false_positive_rate);
    }
}

unsigned blocks_for(const cuda_state *cuda, uint64_t items)
{
    const uint64_t needed = (items + THREADS - 1) / THREADS;
    const uint64_t most = (uint64_t)cuda->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    return (unsigned)(needed < most ? needed : most);
}

} // namespace

loom_status cuda_filter_clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemsetAsync(view->base, 0, filter_bytes(view->blocks), (cudaStream_t)stream));
    return LOOM_OK;
}

loom_status cuda_filter_merge(loom__machine *machine, const void *any_to, const void *any_from, loom_stream stream)
{
    const loom__filter_view *to = static_cast<const loom__filter_view *>(any_to);
    const loom__filter_view *from = static_cast<const loom__filter_view *>(any_from);
    cuda_state *cuda = (cuda_state *)machine;
    const uint64_t n = filter_bytes(to->blocks) / sizeof(uint4);
    ON_DEVICE(cuda);
    merge_kernel<<<blocks_for(cuda, n), THREADS, 0, (cudaStream_t)stream>>>((uint4 *)to->base,
                                                                            (const uint4 *)from->base, n);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

loom_status cuda_filter_survey(loom__machine *machine, const void *any_view, loom__filter_survey *survey,
                               loom_stream stream)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    RETURN_IF_FAILED(
        cuda_sum_up(machine, survey, stream, [&](const cuda_stage *, loom__filter_survey *sums, cudaStream_t in) {
            survey_kernel<<<blocks_for((const cuda_state *)machine, view->blocks), THREADS, 0, in>>>(*view, sums);
            return LOOM_OK;
        }));
    survey->false_positive_rate /= view->blocks;
    return LOOM_OK;
}
