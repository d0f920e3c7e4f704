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

/* Sums up what launch(at, count, sum, stream) adds for some keys, which lie on the device: an engine's `count_accesses`.
 * Keys elsewhere pass through a staging buffer. */
template <class launch_type>
loom_status cuda_count_accesses(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n,
                                uint64_t *accesses, loom_stream given, launch_type launch)
{
    cuda_state *cuda = (cuda_state *)machine;
    cuda_place place;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &place));
    const uint64_t per_chunk = place == PLACE_DEVICE ? n : STAGE_BYTES / key_bytes;
    return cuda_sum_up(
        machine, (unsigned long long *)accesses, given,
        [&](const cuda_stage *stage, unsigned long long *sum, cudaStream_t stream) -> loom_status {
            for (uint64_t first = 0; first < n; first += per_chunk) {
                const uint64_t count = n - first < per_chunk ? n - first : per_chunk;
                const void *at = (const unsigned char *)keys + first * key_bytes;
                if (place != PLACE_DEVICE) {
                    CUDA_TRY(cudaMemcpyAsync(stage->device[0], at, count * key_bytes, cudaMemcpyHostToDevice, stream));
                    at = stage->device[0];
                }
                CUDA_TRY(launch(at, count, sum, stream));
            }
            return LOOM_OK;
        });
}

/* Element `at` of an array that may be missing. */
inline void *cuda_element(void *array, uint64_t at, uint64_t width)
{
    return array != NULL ? (unsigned char *)array + at * width : NULL;
}

/* Retrieves pairs into arrays that may lie anywhere: here(stage, keys, values, room, &got) copies pairs into arrays on
 * the device, and waits. Arrays that are not on the device pass through staging buffers: keys through one, values
 * through the other. */
template <class here_type>
loom_status cuda_retrieve_chunks(cuda_state *cuda, uint32_t key_bytes, uint32_t value_bytes, void *keys, void *values,
                                 uint64_t room, uint64_t *got, cudaStream_t stream, here_type here)
{
    cuda_place keys_at, values_at;
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &keys_at));
    RETURN_IF_FAILED(cuda_locate(cuda, "values", values, &values_at));
    ON_STAGE(cuda);
    const bool keys_pass = keys_at != PLACE_DEVICE;
    const bool values_pass = values != NULL && values_at != PLACE_DEVICE && value_bytes > 0;
    const uint64_t key_room = keys_pass ? STAGE_BYTES / (uint64_t)key_bytes : UINT64_MAX;
    const uint64_t value_room = values_pass ? STAGE_BYTES / (uint64_t)value_bytes : UINT64_MAX;
    const uint64_t per_chunk = key_room < value_room ? key_room : value_room;
    uint64_t got_now;
    RETURN_ERROR_IF(
        per_chunk == 0, LOOM_UNSUPPORTED,
        "a pair of %u + %u bytes does not pass through the staging buffer of %d bytes; retrieve into arrays "
        "on the device",
        key_bytes, value_bytes, (int)STAGE_BYTES);
    *got = 0;
    do { /* each round brings pairs, or is the last */
        const uint64_t left = room - *got < per_chunk ? room - *got : per_chunk;
        void *to_keys = cuda_element(keys, *got, key_bytes), *to_values = cuda_element(values, *got, value_bytes);
        void *device_keys = keys_pass ? stage->device[0] : to_keys;
        void *device_values = values_pass ? stage->device[1] : to_values;
        RETURN_IF_FAILED(here(stage, device_keys, device_values, left, &got_now));
        if (keys_pass)
            CUDA_TRY(cudaMemcpyAsync(to_keys, device_keys, got_now * key_bytes, cudaMemcpyDeviceToHost, stream));
        if (values_pass)
            CUDA_TRY(cudaMemcpyAsync(to_values, device_values, got_now * value_bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        *got += got_now;
    } while (got_now > 0 && *got < room);
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
