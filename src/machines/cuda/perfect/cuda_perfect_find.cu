/* Lookups in perfect tables: chooses the kernel, and manages the codes in the L2 cache.
 *
 * Lines pass through the L2 cache; codes are read from it (cuda_perfect_lanes.cuh). A large batch also marks codes as
 * the last to be evicted. On an H200, 10^8 lookups at load 0.9 then take 2.86 ms instead of 2.90. Marked codes would
 * stay in the cache after their last use: lookups in a table of 21 MB took 3 % longer afterwards. So the call resets
 * the priority of the codes at its end. The reset takes 3 µs, as much as 10^7 lookups gain. So only batches of several
 * times 10^7 lookups mark codes. Host arrays arrive in smaller chunks. */
#include "machines/cuda/perfect/cuda_perfect.cuh"

namespace
{

enum {
    THREADS = 256,
    CACHE_LINE = 128,
    LEAST_TO_KEEP = 1 << 25 /* lookups per batch; a batch of tests/test_cuda_perfect.c is larger */
};

uint64_t code_bytes(const loom__perfect_view *view)
{
    return (uint64_t)view->partitions * view->words * 8;
}

/* Codes larger than half of the cache would only evict each other. */
bool keeps_codes(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n)
{
    return n >= LEAST_TO_KEEP && code_bytes(view) <= cuda->base.cache_bytes / 2;
}

__global__ void release_kernel(const unsigned char *first_line, uint32_t lines)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < lines)
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(first_line + (uint64_t)i * CACHE_LINE)
                     : "memory");
}

cudaError_t release_codes(const loom__perfect_view *view, cudaStream_t stream)
{
    const uintptr_t codes = (uintptr_t)view->codes, before = codes % CACHE_LINE;
    const uint32_t lines = (uint32_t)((before + code_bytes(view) + CACHE_LINE - 1) / CACHE_LINE);
    release_kernel<<<(lines + THREADS - 1) / THREADS, THREADS, 0, stream>>>((const unsigned char *)(codes - before),
                                                                            lines);
    return cudaGetLastError();
}

} // namespace

cudaError_t cuda_perfect_launch_find(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *batch,
                                     const cuda_finish *finish, cudaStream_t stream)
{
    cuda_perfect_launch *find = cuda->lanes == 1   ? cuda_perfect_launch_1
                                : cuda->lanes == 2 ? cuda_perfect_launch_2
                                : cuda->lanes == 8 ? cuda_perfect_launch_8
                                                   : cuda_perfect_launch_4;
    const bool keeps = keeps_codes(cuda, view, batch->n);
    const cudaError_t error = find(view, batch, keeps, finish, stream);
    return error == cudaSuccess && keeps ? release_codes(view, stream) : error;
}
