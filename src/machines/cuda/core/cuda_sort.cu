#include "machines/cuda/core/cuda_sort.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 12 };

template <class mate> __global__ void __launch_bounds__(THREADS) number_kernel(mate *positions, uint64_t n)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS)
        positions[i] = (mate)i;
}

template <class key, class mate> cudaError_t bytes_for(uint64_t n, size_t *bytes)
{
    cub::DoubleBuffer<key> keys;
    cub::DoubleBuffer<mate> mates;
    return cub::DeviceRadixSort::SortPairs(NULL, *bytes, keys, mates, (uint32_t)n);
}

} // namespace

cudaError_t cuda_sort_bytes(uint32_t key_bytes, uint32_t mate_bytes, uint64_t n, size_t *bytes)
{
    return key_bytes == 4
               ? (mate_bytes == 4 ? bytes_for<uint32_t, uint32_t>(n, bytes) : bytes_for<uint32_t, uint64_t>(n, bytes))
               : (mate_bytes == 4 ? bytes_for<uint64_t, uint32_t>(n, bytes) : bytes_for<uint64_t, uint64_t>(n, bytes));
}

template <class key, class mate>
loom_status cuda_sort_keys(const void *from, const void *with, uint64_t n, const cuda_sort_buffers<key, mate> &buffers,
                           cudaStream_t stream, cuda_sorted<key, mate> *sorted)
{
    cub::DoubleBuffer<key> keys(buffers.keys[0], buffers.keys[1]);
    cub::DoubleBuffer<mate> mates(buffers.mates[0], buffers.mates[1]);
    const uint64_t wanted = (n + THREADS - 1) / THREADS, most = MOST_BLOCKS, blocks = wanted < most ? wanted : most;
    size_t bytes = buffers.scratch_bytes;
    CUDA_TRY(cudaMemcpyAsync(keys.Current(), from, n * sizeof(key), cudaMemcpyDefault, stream));
    if (with != NULL)
        CUDA_TRY(cudaMemcpyAsync(mates.Current(), with, n * sizeof(mate), cudaMemcpyDefault, stream));
    else
        number_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(mates.Current(), n);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(buffers.scratch, bytes, keys, mates, (uint32_t)n, 0, (int)sizeof(key) * 8,
                                             stream));
    *sorted = {keys.Current(), mates.Current(), keys.Alternate(), mates.Alternate()};
    return LOOM_OK;
}

#define SORT(key, mate)                                                                                             \
    template loom_status cuda_sort_keys(const void *, const void *, uint64_t, const cuda_sort_buffers<key, mate> &, \
                                        cudaStream_t, cuda_sorted<key, mate> *)
SORT(uint32_t, uint32_t);
SORT(uint32_t, uint64_t);
SORT(uint64_t, uint32_t);
SORT(uint64_t, uint64_t);
