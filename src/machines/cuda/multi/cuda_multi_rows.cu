/* Multimaps whose keys lie in rows: steps on their directory. A key is known by the number of its slot, counted over
 * the table (cuda_rows_locate), once it is in the directory. So a batch is sorted by slots, and handles are read and
 * written where they are. */
#include "machines/cuda/multi/cuda_multi.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"

namespace
{

__device__ __forceinline__ uint64_t *handle_at(const loom__rows_view &rows, uint64_t slot)
{
    return (uint64_t *)(rows.values + slot * rows.value_stride);
}

/* Keys that are not there have numbers of their own: sorted, they are many short runs, not a long one. */
__device__ __forceinline__ bool is_absent(uint64_t slot)
{
    return slot >> 63 != 0;
}

__global__ void __launch_bounds__(MULTI_THREADS) number_absent_kernel(uint64_t *slots, uint64_t n)
{
    const uint64_t i = multi_item();
    if (i < n && slots[i] == CUDA_NO_SLOT)
        slots[i] = ~i;
}

__global__ void __launch_bounds__(MULTI_THREADS) read_handles_kernel(const loom__rows_view rows, const uint64_t *slots,
                                                                     uint64_t n, uint64_t *handles, uint8_t *status)
{
    const uint64_t i = multi_item();
    if (i >= n)
        return;
    const bool absent = is_absent(slots[i]);
    const uint64_t handle = absent ? 0 : *handle_at(rows, slots[i]);
    handles[i] = handle;
    if (status != NULL)
        status[i] = absent ? LOOM_FULL : handle == 0 ? LOOM_OK : LOOM_EXISTS;
}

__global__ void __launch_bounds__(MULTI_THREADS)
    write_handles_kernel(const loom__rows_view rows, const uint64_t *slots, uint64_t n, const uint64_t *handles)
{
    const uint64_t i = multi_item();
    if (i < n && !is_absent(slots[i]))
        *handle_at(rows, slots[i]) = handles[i];
}

} // namespace

cudaError_t cuda_directory_launch(const cuda_state *cuda, const loom__multi_view *view, const cuda_batch *batch,
                                  cuda_op op, cudaStream_t stream)
{
    if (!multi_has_rows(view))
        return cuda_open_launch(cuda, &view->directory, batch, op, NULL, stream);
    return op == OP_FIND ? cuda_rows_find(multi_rows(view), batch, NULL, stream)
                         : cuda_rows_write(multi_rows(view), batch, op, NULL, stream);
}

const loom__map_kernels *cuda_directory_kernels(const loom__multi_view *view)
{
    return multi_has_rows(view) ? &cuda_rows_kernels : &cuda_open_kernels;
}

cudaError_t cuda_read_handles(const loom__multi_view *view, const uint64_t *slots, uint64_t n, uint64_t *handles,
                              uint8_t *status, cudaStream_t stream)
{
    read_handles_kernel<<<multi_blocks(n), MULTI_THREADS, 0, stream>>>(*multi_rows(view), slots, n, handles, status);
    return cudaGetLastError();
}

cudaError_t cuda_write_handles(const loom__multi_view *view, const uint64_t *slots, uint64_t n, const uint64_t *handles,
                               cudaStream_t stream)
{
    write_handles_kernel<<<multi_blocks(n), MULTI_THREADS, 0, stream>>>(*multi_rows(view), slots, n, handles);
    return cudaGetLastError();
}

cudaError_t cuda_insert_keys(const cuda_state *cuda, const loom__multi_view *view, const void *keys, uint64_t n,
                             uint64_t *slots, cudaStream_t stream)
{
    cuda_batch batch = cuda_directory_batch(cuda, keys, n);
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(slots, 0, n * sizeof *slots, stream));
    batch.values = slots; /* handles of zero */
    RETURN_IF_CUDA_FAILED(cuda_directory_launch(cuda, view, &batch, OP_KEEP, stream));
    return cuda_locate_keys(view, keys, n, slots, stream);
}

cudaError_t cuda_locate_keys(const loom__multi_view *view, const void *keys, uint64_t n, uint64_t *slots,
                             cudaStream_t stream)
{
    RETURN_IF_CUDA_FAILED(cuda_rows_locate(multi_rows(view), keys, n, slots, stream));
    number_absent_kernel<<<multi_blocks(n), MULTI_THREADS, 0, stream>>>(slots, n);
    return cudaGetLastError();
}

cudaError_t cuda_erase_located(const loom__multi_view *view, const uint64_t *slots, uint64_t n, cudaStream_t stream)
{
    return cuda_rows_erase_slots(multi_rows(view), slots, n, stream);
}
