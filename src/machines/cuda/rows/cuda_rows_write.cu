/* Writes to tables with rows of any width. Calls on tables with byte strings go on to cuda_strings_write.cu. */
#define CUDA_ROWS_KIND SLOT_TAG
#include "machines/cuda/rows/cuda_rows_write.cuh"

namespace
{

/* A lane erases one key. Others may erase keys of the same line. */
__global__ void __launch_bounds__(THREADS)
    erase_slots_kernel(const __grid_constant__ loom__rows_view view, const uint64_t *slots, uint64_t n)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        (void)open_erase_located(OPEN_SHARED, &view.lines, slots[i]);
}

} // namespace

cudaError_t cuda_rows_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op, const cuda_finish *finish,
                            cudaStream_t stream, bool empty_values)
{
    return view->variable != 0 ? cuda_strings_write(view, batch, op, finish, empty_values, stream)
                               : launch_write(view, batch, op, finish, false, stream);
}

cudaError_t cuda_rows_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                             cudaStream_t stream)
{
    return (view->variable != 0 ? cuda_strings_locate : launch_locate)(view, keys, n, slots, stream);
}

cudaError_t cuda_rows_clear(const loom__rows_view *view, cudaStream_t stream)
{
    const uint64_t rows = (uint64_t)view->lines.partitions * view->lines.buckets * open_slots(SLOT_TAG);
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(view->rows, 0, rows * view->key_stride, stream));
    return view->apart ? cudaMemsetAsync(view->values, 0, rows * view->value_stride, stream) : cudaSuccess;
}

cudaError_t cuda_rows_erase_slots(const loom__rows_view *view, const uint64_t *slots, uint64_t n, cudaStream_t stream)
{
    erase_slots_kernel<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*view, slots, n);
    return cudaGetLastError();
}

cudaError_t cuda_rows_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                           cudaStream_t stream)
{
    return from->variable != 0 ? cuda_strings_move(from, to, refused, stream)
                               : launch_move(from, to, cuda_moved_whole(from, to), refused, stream);
}

cudaError_t cuda_rows_move_range(const loom__rows_view *from, const loom__rows_view *to, const cuda_moved_range &range,
                                 unsigned long long *refused, cudaStream_t stream)
{
    return launch_move(from, to, range, refused, stream);
}
