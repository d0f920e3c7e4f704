/* Reads or writes whole tables, for any engine: sums over a table, pairs copied out. cuda_erase_if.cuh erases pairs. */
#ifndef LOOM_CUDA_WHOLE_CUH
#define LOOM_CUDA_WHOLE_CUH

#include "machines/cuda/core/cuda_state.cuh"

__device__ __forceinline__ void add_to(uint64_t *sum, uint64_t mine)
{
    atomicAdd((unsigned long long *)sum, (unsigned long long)mine);
}

__device__ __forceinline__ void keep_larger(uint64_t *largest, uint64_t mine)
{
    atomicMax((unsigned long long *)largest, (unsigned long long)mine);
}

/* Stores a key or a value of 4 or 8 bytes in an array. With 0 bytes it stores nothing. */
__device__ __forceinline__ void put_number(uint32_t bytes, void *array, uint64_t at, uint64_t number)
{
    if (bytes == 4)
        ((uint32_t *)array)[at] = (uint32_t)number;
    else if (bytes == 8)
        ((uint64_t *)array)[at] = number;
}

/* Kernels number the lines of a table, 64 bytes each, with 32 bits. */
template <class view_type> loom_status cuda_check_bytes(const view_type *view)
{
    RETURN_ERROR_IF((uint64_t)view->partitions * view->partition_bytes / 64 > UINT32_MAX, LOOM_UNSUPPORTED,
                    "the cuda machine has tables of up to 256 GiB; make several");
    return LOOM_OK;
}

/* Calls launch(stage, sums, stream), which adds to sums on the device. These sums are zero before. Takes a
 * stage, and waits for the sums. */
template <class sums_type, class launch_type>
loom_status cuda_sum_up(loom__machine *machine, sums_type *sums, loom_stream given, launch_type launch)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    ON_DEVICE(cuda);
    ON_STAGE(cuda);
    sums_type *on_device = (sums_type *)stage->scratch;
    CUDA_TRY(cudaMemsetAsync(on_device, 0, sizeof *on_device, stream));
    RETURN_IF_FAILED(launch(stage, on_device, stream));
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemcpyAsync(sums, on_device, sizeof *sums, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

/* An engine's `retrieve`. */
template <class view_type, loom__table_slots (*slots_of)(const view_type *view)>
loom_status cuda_retrieve_from(loom__machine *machine, const void *view, loom__position *position, void *keys,
                               void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__table_slots table = slots_of(static_cast<const view_type *>(view));
    return cuda_retrieve((cuda_state *)machine, &table, position, keys, values, room, got, (cudaStream_t)stream);
}

#endif
