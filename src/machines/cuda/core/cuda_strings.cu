/* Byte strings (core/machine.h): references to the strings of a batch, and strings copied one behind the other.
 *
 * References. A thread makes one. Offsets in host memory pass through staging buffers.
 *
 * Places are sums of lengths. Each thread block sums the lengths of its strings, one block sums up the sums, and each
 * block then writes the places of its strings.
 *
 * Copies. Eight lanes copy a string, one aligned word of the destination each. A string of a table begins at a multiple
 * of 8 bytes and goes anywhere. If the destination is in host memory, its bytes pass through a staging buffer, one
 * window of the destination after the other. */
#include "core/word_loads.h"
#include "engines/open/open_rows.h"
#include "machines/cuda/core/cuda_call.cuh"

#include <cub/block/block_scan.cuh>

namespace
{

enum {
    THREADS = 256,
    EACH = 8, /* strings of a thread, of those that are placed */
    PLACED = THREADS * EACH,
    MOST_BLOCKS = 1 << 16,
    SUM_THREADS = 1024,
    COPY_LANES = 8
};

unsigned blocks_for(uint64_t n, uint64_t each)
{
    const uint64_t blocks = (n + each - 1) / each;
    return blocks < MOST_BLOCKS ? (unsigned)blocks : (unsigned)MOST_BLOCKS;
}

/* ---- references ---- */

struct refer_call {
    uint64_t base, n, most;
    loom__string *to;
    loom__strings_told *told; /* on the device */
};

/* Adds a number of each thread of the block to *sum. All threads call this. */
__device__ __forceinline__ void add_of_block(uint64_t *sum, uint64_t mine)
{
    for (int distance = 16; distance > 0; distance /= 2)
        mine += __shfl_xor_sync(0xffffffffu, (unsigned long long)mine, distance);
    if (threadIdx.x % 32 == 0 && mine > 0)
        atomicAdd((unsigned long long *)sum, (unsigned long long)mine);
}

/* Strings first .. first + count - 1; offsets[0] is where the first of them begins. */
__global__ void __launch_bounds__(THREADS)
    refer_kernel(const refer_call call, const uint64_t *__restrict__ offsets, uint64_t first, uint64_t count)
{
    uint64_t bytes = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t begin = offsets[i], end = offsets[i + 1], length = end - begin;
        if (end < begin)
            atomicMin((unsigned long long *)&call.told->falling, (unsigned long long)(first + i));
        if (call.to != NULL)
            *(ulonglong2 *)(call.to + first + i) = make_ulonglong2(call.base + begin, length);
        bytes += length <= call.most ? open_piece_of(length) : 0;
        if (first + i == 0)
            call.told->begin = begin;
        if (first + i + 1 == call.n)
            call.told->end = end;
    }
    add_of_block(&call.told->bytes, bytes);
}

cudaError_t refer_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                        cudaStream_t stream)
{
    const refer_call *call = (const refer_call *)argument;
    refer_kernel<<<blocks_for(count, THREADS), THREADS, 0, stream>>>(*call, (const uint64_t *)at[CALL_KEYS], first,
                                                                     count);
    return cudaGetLastError();
}

loom_status refer(cuda_state *cuda, const cuda_call_arrays *arrays, refer_call *call, loom__strings_told *told,
                  cudaStream_t stream)
{
    const loom__strings_told none = {0, UINT64_MAX, 0, 0};
    CUDA_TRY(cudaMemcpyAsync(call->told, &none, sizeof none, cudaMemcpyDefault, stream));
    RETURN_IF_FAILED(cuda_run_arrays(cuda, arrays, call->n, refer_chunk, call, false, stream));
    CUDA_TRY(cudaMemcpyAsync(told, call->told, sizeof *told, cudaMemcpyDefault, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

/* ---- places ---- */

__device__ __forceinline__ uint64_t length_of(const loom__string *strings, uint64_t n, uint64_t i)
{
    return i < n ? strings[i].length : 0;
}

/* sums[b] = the lengths of block b's strings. */
__global__ void __launch_bounds__(THREADS) sum_lengths_kernel(const loom__string *strings, uint64_t n, uint64_t *sums)
{
    const uint64_t first = (uint64_t)blockIdx.x * PLACED + threadIdx.x;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < EACH; i++)
        sum += length_of(strings, n, first + i * THREADS);
    add_of_block(&sums[blockIdx.x], sum);
}

/* One thread block. Each sum becomes `at` and the sums before it. */
__global__ void __launch_bounds__(SUM_THREADS) sum_up_kernel(uint64_t *sums, uint64_t blocks, uint64_t at)
{
    typedef cub::BlockScan<uint64_t, SUM_THREADS> scan;
    __shared__ typename scan::TempStorage storage;
    for (uint64_t first = 0; first < blocks; first += SUM_THREADS) {
        const uint64_t i = first + threadIdx.x;
        uint64_t before, all;
        scan(storage).ExclusiveSum(i < blocks ? sums[i] : 0, before, all);
        if (i < blocks)
            sums[i] = at + before;
        at += all;
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS) place_kernel(const loom__string *strings, uint64_t n, const uint64_t *sums,
                                                        uint64_t room, uint64_t *places, loom__places_told *told)
{
    typedef cub::BlockScan<uint64_t, THREADS> scan;
    __shared__ typename scan::TempStorage storage;
    const uint64_t first = (uint64_t)blockIdx.x * PLACED;
    uint64_t at = sums[blockIdx.x], fitting = 0;
    for (uint32_t i = 0; i < EACH; i++) {
        const uint64_t string = first + i * THREADS + threadIdx.x, length = length_of(strings, n, string);
        uint64_t before, all;
        scan(storage).ExclusiveSum(length, before, all);
        __syncthreads(); /* before the storage is used again */
        const uint64_t end = at + before + length;
        if (string < n) {
            places[string] = at + before;
            fitting += end <= room;
        }
        if (string + 1 == n)
            places[n] = told->end = end;
        at += all;
    }
    add_of_block(&told->fitting, fitting);
}

cudaError_t place(const loom__string *strings, uint64_t n, uint64_t at, uint64_t room, uint64_t *places,
                  loom__places_told *told, uint64_t *sums, cudaStream_t stream)
{
    const uint64_t blocks = (n + PLACED - 1) / PLACED;
    const loom__places_told none = {at, 0};
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(told, &none, sizeof none, cudaMemcpyDefault, stream));
    if (n == 0)
        return cudaMemcpyAsync(places, &told->end, sizeof *places, cudaMemcpyDefault, stream);
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(sums, 0, blocks * sizeof *sums, stream));
    sum_lengths_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(strings, n, sums);
    sum_up_kernel<<<1, SUM_THREADS, 0, stream>>>(sums, blocks, at);
    place_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(strings, n, sums, room, places, told);
    return cudaGetLastError();
}

/* ---- copies ---- */

/* Copies the part of each string that lies in the window from `begin` to `end` of the destination. `to` is where the
 * window begins. */
__global__ void __launch_bounds__(THREADS)
    copy_kernel(const loom__string *__restrict__ strings, uint64_t n, const uint64_t *__restrict__ places,
                unsigned char *to, uint64_t begin, uint64_t end)
{
    const uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS / COPY_LANES;
    const uint32_t lane = (uint32_t)thread % COPY_LANES;
    for (uint64_t i = thread / COPY_LANES; i < n; i += stride) {
        const uint64_t place = places[i], place_end = place + strings[i].length;
        const uint64_t first = place > begin ? place : begin, last = place_end < end ? place_end : end;
        if (first >= last)
            continue;
        const unsigned char *from = (const unsigned char *)strings[i].at + (first - place);
        unsigned char *there = to + (first - begin);
        const uint64_t bytes = last - first;
        /* Up to the first aligned word of the destination, its words, and the rest. */
        const uint64_t away = (0 - (uintptr_t)there) % 8, head = away < bytes ? away : bytes;
        const uint64_t words = (bytes - head) / 8, tail = head + 8 * words;
        for (uint64_t b = lane; b < head; b += COPY_LANES)
            there[b] = from[b];
        for (uint64_t w = lane; w < words; w += COPY_LANES)
            *(uint64_t *)(there + head + 8 * w) = loom__load_word(from + head + 8 * w);
        for (uint64_t b = tail + lane; b < bytes; b += COPY_LANES)
            there[b] = from[b];
    }
}

cudaError_t launch_copy(const loom__string *strings, uint64_t n, const uint64_t *places, unsigned char *to,
                        uint64_t begin, uint64_t end, cudaStream_t stream)
{
    copy_kernel<<<blocks_for(n, THREADS / COPY_LANES), THREADS, 0, stream>>>(strings, n, places, to, begin, end);
    return cudaGetLastError();
}

loom_status copy_to_host(cuda_state *cuda, const loom__string *strings, uint64_t n, const uint64_t *places,
                         unsigned char *to, cudaStream_t stream)
{
    uint64_t begin, end;
    CUDA_TRY(cudaMemcpyAsync(&begin, places, sizeof begin, cudaMemcpyDefault, stream));
    CUDA_TRY(cudaMemcpyAsync(&end, places + n, sizeof end, cudaMemcpyDefault, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    ON_STAGE(cuda);
    for (uint64_t first = begin, next; first < end; first = next) {
        next = end - first < stage->bytes ? end : first + stage->bytes;
        CUDA_TRY(launch_copy(strings, n, places, stage->device[0], first, next, stream));
        CUDA_TRY(cudaMemcpyAsync(to + first, stage->device[0], next - first, cudaMemcpyDeviceToHost, stream));
    }
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

/* ---- references of rows ---- */

__global__ void __launch_bounds__(THREADS) resolve_kernel(open_stored *references, uint64_t n, uint64_t heap)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS) {
        const open_stored stored = references[i];
        *(loom__string *)&references[i] = {heap + stored.at, stored.length};
    }
}

} // namespace

cudaError_t cuda_resolve_strings(void *references, uint64_t n, const unsigned char *heap, cudaStream_t stream)
{
    if (n > 0)
        resolve_kernel<<<blocks_for(n, THREADS), THREADS, 0, stream>>>((open_stored *)references, n, (uintptr_t)heap);
    return cudaGetLastError();
}

loom_status cuda_reaches(loom__machine *machine, const char *name, const void *array, int *reached)
{
    const cuda_state *cuda = (const cuda_state *)machine;
    cuda_place place;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, name, array, &place));
    *reached = place == PLACE_DEVICE;
    return LOOM_OK;
}

loom_status cuda_refer_strings(loom__machine *machine, const uint64_t *offsets, uint64_t base, uint64_t n,
                               uint64_t most, loom__string *to, loom__strings_told *told, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cuda_call_arrays arrays = {};
    arrays.all[CALL_KEYS] = {"offsets", (void *)offsets, sizeof *offsets, n + 1, false, false, PLACE_NONE};
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate_all(cuda, &arrays));
    const cuda_workspace own = cuda_take_workspace(machine, sizeof *told, given, NULL);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY, "%zu bytes of temporary memory could not be had", sizeof *told);
    refer_call call = {base, n, most, to, (loom__strings_told *)own.at};
    const loom_status status = refer(cuda, &arrays, &call, told, (cudaStream_t)given);
    cuda_give_workspace(machine, &own, given);
    return status;
}

loom_status cuda_place_strings(loom__machine *machine, const loom__string *strings, uint64_t n, uint64_t at,
                               uint64_t room, uint64_t *places, loom__places_told *told, loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    cuda_layout all = {0};
    const uint64_t told_at = all.add(sizeof *told), sums_at = all.add((n / PLACED + 1) * sizeof(uint64_t));
    ON_DEVICE((cuda_state *)machine);
    const cuda_workspace own = cuda_take_workspace(machine, all.bytes, given, NULL);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY, "%llu bytes of temporary memory could not be had",
                    (unsigned long long)all.bytes);
    loom__places_told *on_device = (loom__places_told *)(own.at + told_at);
    cudaError_t error =
        cuda_step(place(strings, n, at, room, places, on_device, (uint64_t *)(own.at + sums_at), stream));
    if (error == cudaSuccess)
        error = cuda_step(cudaMemcpyAsync(told, on_device, sizeof *told, cudaMemcpyDefault, stream));
    if (error == cudaSuccess)
        error = cuda_step(cudaStreamSynchronize(stream));
    cuda_give_workspace(machine, &own, given);
    return cuda_status(error, "placing byte strings");
}

loom_status cuda_copy_strings(loom__machine *machine, const loom__string *strings, uint64_t n, const uint64_t *places,
                              void *to, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    cuda_place place;
    if (n == 0)
        return LOOM_OK;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "bytes", to, &place));
    if (place != PLACE_DEVICE)
        return copy_to_host(cuda, strings, n, places, (unsigned char *)to, stream);
    CUDA_TRY(launch_copy(strings, n, places, (unsigned char *)to, 0, UINT64_MAX, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}
