#include "machines/cuda/core/cuda_sort.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 12 };

__global__ void __launch_bounds__(THREADS) number_kernel(uint32_t *positions, uint64_t n)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS)
        positions[i] = (uint32_t)i;
}

template <class key> cudaError_t bytes_for(uint64_t n, size_t *bytes)
{
    cub::DoubleBuffer<key> keys;
    cub::DoubleBuffer<uint32_t> positions;
    return cub::DeviceRadixSort::SortPairs(NULL, *bytes, keys, positions, (uint32_t)n);
}

} // namespace

cudaError_t cuda_sort_bytes(uint32_t key_bytes, uint64_t n, size_t *bytes)
{
    return key_bytes == 4 ? bytes_for<uint32_t>(n, bytes) : bytes_for<uint64_t>(n, bytes);
}

template <class key>
loom_status cuda_sort_keys(const void *from, uint64_t n, const cuda_sort_buffers<key> &buffers, cudaStream_t stream,
                           cuda_sorted<key> *sorted)
{
    cub::DoubleBuffer<key> keys(buffers.keys[0], buffers.keys[1]);
    cub::DoubleBuffer<uint32_t> positions(buffers.positions[0], buffers.positions[1]);
    const uint64_t wanted = (n + THREADS - 1) / THREADS, most = MOST_BLOCKS, blocks = wanted < most ? wanted : most;
    size_t bytes = buffers.scratch_bytes;
    CUDA_TRY(cudaMemcpyAsync(keys.Current(), from, n * sizeof(key), cudaMemcpyDefault, stream));
    number_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(positions.Current(), n);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(buffers.scratch, bytes, keys, positions, (uint32_t)n, 0,
                                             (int)sizeof(key) * 8, stream));
    *sorted = {keys.Current(), positions.Current(), keys.Alternate(), positions.Alternate()};
    return LOOM_OK;
}

template loom_status cuda_sort_keys(const void *, uint64_t, const cuda_sort_buffers<uint32_t> &, cudaStream_t,
                                    cuda_sorted<uint32_t> *);
template loom_status cuda_sort_keys(const void *, uint64_t, const cuda_sort_buffers<uint64_t> &, cudaStream_t,
                                    cuda_sorted<uint64_t> *);
