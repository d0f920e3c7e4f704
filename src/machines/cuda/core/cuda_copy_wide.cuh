/* Copies many lists of values that are neither 4 nor 8 bytes wide. cuda_copy_lists.cuh is for those that are.
 *
 * A warp copies a list, piece by piece. The values of a piece lie side by side before and after, so neighbouring lanes
 * copy neighbouring words. Lists of more than WIDE_LONG bytes are queued, and then copied by all thread blocks.
 *
 * A type `lists` says which lists there are:
 *   heap, to         where the values are, and where they go
 *   copied_list list(uint64_t i) const       list i of n; all its values lie in the heap */
#ifndef LOOM_CUDA_COPY_WIDE_CUH
#define LOOM_CUDA_COPY_WIDE_CUH

#include "core/call_parts.h"
#include "machines/cuda/core/cuda_copy_lists.cuh"

enum { WIDE_LONG = 1 << 16, WIDE_BLOCKS = 8 /* on one multiprocessor */ };

/* One of `lanes` lanes copies its share of a list. */
template <class word, class lists>
__device__ __forceinline__ void copy_wide_list(const lists &work, const copied_list &list, uint32_t bytes,
                                               uint64_t lane, uint64_t lanes)
{
    const uint64_t words = bytes / sizeof(word), end = list.first + list.count;
    if (list.count == 0)
        return;
    loom__list_piece piece = list_newest_piece(work.heap, bytes, list.handle);
    for (;; piece = list_older_piece(work.heap, bytes, &piece)) { /* ends at the piece that has value list.first */
        const uint64_t piece_end = piece.before + piece.count;
        const uint64_t from = list.first > piece.before ? list.first : piece.before;
        const uint64_t until = end < piece_end ? end : piece_end;
        const word *source = (const word *)work.heap + (piece.place + from - piece.before) * words;
        word *to = (word *)work.to + (list.to + from - list.first) * words;
        const uint64_t all = until > from ? (until - from) * words : 0;
#pragma unroll 4
        for (uint64_t at = lane; at < all; at += lanes)
            to[at] = source[at];
        if (piece.before <= list.first)
            return;
    }
}

template <class word, class lists>
__global__ void __launch_bounds__(COPY_THREADS)
    copy_wide_kernel(const lists work, uint64_t n, uint32_t bytes, long_lists *queue)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t warps = (uint64_t)gridDim.x * (COPY_THREADS / 32);
    for (uint64_t i = (uint64_t)blockIdx.x * (COPY_THREADS / 32) + threadIdx.x / 32; i < n; i += warps) {
        const copied_list list = work.list(i);
        if (list.count * bytes > WIDE_LONG) {
            uint32_t place = 0;
            if (lane == 0)
                place = atomicAdd(&queue->count, 1u);
            place = __shfl_sync(0xffffffffu, place, 0);
            if (place < long_lists::ROOM) {
                if (lane == 0)
                    queue->list[place] = i;
                continue;
            }
        }
        copy_wide_list<word>(work, list, bytes, lane, 32);
    }
}

template <class word, class lists>
__global__ void __launch_bounds__(COPY_THREADS)
    copy_long_wide_kernel(const lists work, uint32_t bytes, const long_lists *queue)
{
    const uint32_t room = long_lists::ROOM, count = queue->count < room ? queue->count : room;
    const uint64_t lane = (uint64_t)blockIdx.x * COPY_THREADS + threadIdx.x, lanes = (uint64_t)gridDim.x * COPY_THREADS;
    for (uint32_t i = 0; i < count; i++)
        copy_wide_list<word>(work, work.list(queue->list[i]), bytes, lane, lanes);
}

template <class word, class lists>
cudaError_t copy_wide_by(const cuda_state *cuda, const lists &work, uint64_t n, uint32_t bytes, long_lists *queue,
                         cudaStream_t stream)
{
    const uint64_t most = (uint64_t)cuda->multiprocessors * WIDE_BLOCKS * 16, warps = COPY_THREADS / 32;
    const uint64_t blocks = (n + warps - 1) / warps;
    copy_wide_kernel<word>
        <<<(unsigned)(blocks < most ? blocks : most), COPY_THREADS, 0, stream>>>(work, n, bytes, queue);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    copy_long_wide_kernel<word>
        <<<(unsigned)cuda->multiprocessors * WIDE_BLOCKS, COPY_THREADS, 0, stream>>>(work, bytes, queue);
    return cudaGetLastError();
}

/* Copies lists 0 .. n - 1 of values of `bytes` bytes. `queue` is on the device, and need not be empty. */
template <class lists>
cudaError_t copy_wide_lists(const cuda_state *cuda, const lists &work, uint64_t n, uint32_t bytes, long_lists *queue,
                            cudaStream_t stream)
{
    const uint32_t word = loom__widest_word((uintptr_t)work.heap | (uintptr_t)work.to | bytes);
    if (n == 0)
        return cudaSuccess;
    RETURN_IF_CUDA_FAILED(empty_queue(queue, stream));
    auto copy = word == 16  ? copy_wide_by<uint4, lists>
                : word == 8 ? copy_wide_by<uint64_t, lists>
                : word == 4 ? copy_wide_by<uint32_t, lists>
                            : copy_wide_by<uint8_t, lists>;
    return copy(cuda, work, n, bytes, queue, stream);
}

#endif
