/* How fast rows in host memory are reached: measured when the first large batch comes to a table that is large enough,
 * and again for a table MUCH_LARGER times as large. Takes some 20 ms. */
#include "machines/cuda/core/cuda_measure.cuh"
#include "machines/cuda/core/cuda_row_staging.cuh"

namespace
{

const uint64_t LEAST_BYTES = 64 << 20, ROW = 16, APART = 512;
const uint64_t COPIED_BYTES = 64 << 20, LEAST_COPIED_BYTES = 4 << 20; /* the latter if the call's memory has a bound */

enum {
    THREADS = 256,
    RANDOM_ROWS = 1 << 18,
    ORDERED_ROWS = 1 << 22,
    GATHERED_ROWS = 1 << 22, /* with 2^20, waking 16 threads took half of the time */
    TASK_ROWS = 1 << 14,
    AHEAD = 32, /* rows that a host thread prefetches */
    MUCH_LARGER = 4
};

/* Where row i of the measurement lies: anywhere, or in order, `apart` rows from the one before on average. */
__device__ __forceinline__ uint64_t place_of(uint64_t i, uint64_t rows, uint64_t apart)
{
    return apart > 0 ? (i * apart + cuda_random_place(i, apart)) % rows : cuda_random_place(i, rows);
}

__global__ void __launch_bounds__(THREADS) read_kernel(const ulonglong2 *rows, uint64_t count, uint64_t in_memory,
                                                       uint64_t apart, ulonglong2 *to, uint64_t room)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        to[i % room] = rows[place_of(i, in_memory, apart)];
}

/* Seconds of work(), once it has run before. */
template <class work_type> cudaError_t time_of(work_type work, cudaStream_t stream, double *seconds)
{
    for (int i = 0; i < 2; i++) {
        const double begin = cuda_seconds();
        RETURN_IF_CUDA_FAILED(work());
        RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(stream));
        *seconds = cuda_seconds() - begin;
    }
    return cudaSuccess;
}

cudaError_t measure(cuda_state *cuda, const unsigned char *rows, uint64_t bytes, const cuda_workspace &device,
                    unsigned char *host, cudaStream_t stream, loom__row_rates *rates)
{
    const uint64_t in_memory = bytes / ROW;
    double seconds;
    auto read = [&](uint64_t count, uint64_t apart) {
        read_kernel<<<(unsigned)(count / THREADS), THREADS, 0, stream>>>(
            (const ulonglong2 *)rows, count, in_memory, apart, (ulonglong2 *)device.at, device.bytes / ROW);
        return cudaGetLastError();
    };
    RETURN_IF_CUDA_FAILED(time_of([&] { return read(RANDOM_ROWS, 0); }, stream, &seconds));
    rates->random = RANDOM_ROWS / seconds;
    RETURN_IF_CUDA_FAILED(time_of([&] { return read(ORDERED_ROWS, APART / ROW); }, stream, &seconds));
    rates->ordered = ORDERED_ROWS / seconds;
    RETURN_IF_CUDA_FAILED(time_of(
        [&] { return cudaMemcpyAsync(device.at, rows, device.bytes, cudaMemcpyDefault, stream); }, stream, &seconds));
    rates->copied = (double)device.bytes / seconds;
    cuda_random_gather task = {rows, host, in_memory, TASK_ROWS, ROW, AHEAD};
    RETURN_IF_CUDA_FAILED(time_of(
        [&] {
            cuda->host->ops->host_parallel(cuda->host, GATHERED_ROWS / TASK_ROWS, cuda_gather_at_random, &task);
            return cudaSuccess;
        },
        stream, &seconds));
    rates->gathered = GATHERED_ROWS / seconds;
    return cudaSuccess;
}

/* Leaves the rates as they are if memory is short. `copied`: bytes. */
void measure_once(cuda_row_staging *staging, uint64_t copied, const unsigned char *rows, uint64_t bytes)
{
    cuda_state *cuda = staging->cuda;
    const loom_allocator *allocator = &cuda->base.allocator;
    cudaStream_t stream = NULL;
    loom__row_rates rates;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    const cuda_workspace device = staging->take(copied, stream);
    void *host =
        allocator->allocate(allocator->user, GATHERED_ROWS * ROW, LOOM_WORKSPACE_ALIGNMENT, LOOM_MEMORY_HOST, NULL);
    if (device.at != NULL && host != NULL &&
        measure(cuda, rows, bytes, device, (unsigned char *)host, stream, &rates) == cudaSuccess)
        cuda->rates = rates;
    if (host != NULL)
        allocator->release(allocator->user, host, GATHERED_ROWS * ROW, LOOM_MEMORY_HOST, NULL);
    staging->give(device, stream);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaGetLastError(); /* if a step failed, the device is lost; the next step reports it */
}

} // namespace

loom__row_rates cuda_row_rates(cuda_row_staging *staging, const unsigned char *rows, uint64_t bytes)
{
    cuda_state *cuda = staging->cuda;
    const uint64_t left = staging->left() / ROW * ROW, copied = left < COPIED_BYTES ? left : COPIED_BYTES;
    pthread_mutex_lock(&cuda->rates_lock);
    if (bytes >= LEAST_BYTES && bytes / MUCH_LARGER >= cuda->rates_bytes && copied >= LEAST_COPIED_BYTES) {
        measure_once(staging, copied, rows, bytes);
        cuda->rates_bytes = bytes;
    }
    const loom__row_rates rates = cuda->rates;
    pthread_mutex_unlock(&cuda->rates_lock);
    return rates;
}
