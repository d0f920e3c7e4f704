/* Writes to tables with byte strings. */
#define CUDA_ROWS_KIND SLOT_STRING
#include "machines/cuda/rows/cuda_rows_write.cuh"

cudaError_t cuda_strings_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op,
                               const cuda_finish *finish, bool empty_values, cudaStream_t stream)
{
    return launch_write(view, batch, op, finish, empty_values, stream);
}

cudaError_t cuda_strings_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                                cudaStream_t stream)
{
    return launch_locate(view, keys, n, slots, stream);
}

cudaError_t cuda_strings_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                              cudaStream_t stream)
{
    return launch_move(from, to, cuda_moved_whole(from, to), refused, stream);
}
