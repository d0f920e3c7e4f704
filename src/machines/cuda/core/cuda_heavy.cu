/* Looks for heavy keys in a sample.
 *
 * One thread block draws SAMPLE keys, spread over the batch, and counts them in COUNTERS counters by their hashes. Keys
 * that all come equally often fill the counters evenly: with one key for each on average, none reaches 16 among 10^9
 * samples. A key that makes up one row in 512 reaches 16 in every second sample, one in 256 in nearly every one.
 *
 * The sample's reads are independent of each other. So the kernel takes about three waits for memory, and the whole
 * function, with the copy to the host, about 20 µs. */
#include "machines/cuda/core/cuda_heavy.cuh"

namespace
{

enum { THREADS = 1024, EACH = 8, SAMPLE = THREADS * EACH, COUNTERS = SAMPLE, SURE = 16 };

template <class word>
__global__ void __launch_bounds__(THREADS)
    sample_kernel(const word *keys, uint64_t n, const loom__seed seed, uint32_t *most)
{
    __shared__ uint32_t counts[COUNTERS];
    __shared__ uint32_t largest;
    word drawn[EACH];
    const uint64_t stride = n / SAMPLE;
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) { /* one key of each stride, at a changing place: the batch may be periodic */
        const uint32_t i = k * THREADS + threadIdx.x;
        drawn[k] = keys[i * stride + loom__hash_key(i, 4, seed) % stride];
        counts[i] = 0;
    }
    if (threadIdx.x == 0)
        largest = 0;
    __syncthreads();
    uint32_t mine = 0;
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t counter = (uint32_t)(loom__hash_key(drawn[k], sizeof(word), seed) % COUNTERS);
        const uint32_t count = atomicAdd(&counts[counter], 1u) + 1;
        mine = count > mine ? count : mine;
    }
    mine = __reduce_max_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0)
        atomicMax(&largest, mine);
    __syncthreads();
    if (threadIdx.x == 0)
        *most = largest;
}

} // namespace

loom_status cuda_has_heavy_keys(cuda_state *cuda, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t least,
                                cudaStream_t stream, bool *found)
{
    cuda_place place;
    uint32_t most = 0;
    *found = false;
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &place));
    if (place != PLACE_DEVICE || n < SAMPLE)
        return LOOM_OK;
    const cuda_workspace own = cuda_take_workspace(&cuda->base, sizeof most, (loom_stream)stream, NULL);
    if (own.at == NULL)
        return LOOM_OK;
    const loom__seed seed = loom__seed_expand(0);
    if (key_bytes == 4)
        sample_kernel<<<1, THREADS, 0, stream>>>((const uint32_t *)keys, n, seed, (uint32_t *)own.at);
    else
        sample_kernel<<<1, THREADS, 0, stream>>>((const uint64_t *)keys, n, seed, (uint32_t *)own.at);
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(&most, own.at, sizeof most, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    cuda_give_workspace(&cuda->base, &own, (loom_stream)stream);
    *found = error == cudaSuccess && most >= SURE && n / SAMPLE * most >= least;
    return cuda_status(cuda_step(error), "sampling the keys of a batch");
}
