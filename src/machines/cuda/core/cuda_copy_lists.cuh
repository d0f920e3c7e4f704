/* Copies many lists of values, each of any length, with all threads busy.
 *
 * A thread block takes up to COPY_LISTS neighbouring lists, sums up their lengths and shares their values out evenly
 * among its threads. Neighbouring lanes copy neighbouring values, each lane COPY_UNROLLED values of a warp's stretch,
 * and find the list of each value by a binary search in shared memory. Where lists are longer than a warp, a lane's
 * next value lies in the same list or a few further on, which takes fewer steps to find. So lists of one value and of a
 * thousand take about the same time per value. Few lists are shared out among more blocks, each with fewer of them.
 * Lists of more than COPY_LONG values are queued, and then copied by all blocks together, part by part.
 *
 * Lists that are chains of pieces (core/list_pieces.h) take rounds: in each round a block copies the next older piece
 * of all its lists, until none is left. A piece takes the part of a list above. A thread loads the link that the next
 * round needs before it copies this round's values.
 *
 * A type `lists` says which lists there are:
 *   value            type: of 4 or 8 bytes
 *   heap             where the values are
 *   copied_list list(uint64_t i) const       list i of n
 *   void put(uint64_t i, uint64_t at, value one) const      stores value `at` - list(i).to of list i */
#ifndef LOOM_CUDA_COPY_LISTS_CUH
#define LOOM_CUDA_COPY_LISTS_CUH

#include "core/list_pieces.h"
#include "machines/cuda/core/cuda_state.cuh"

#include <cub/block/block_scan.cuh>

struct copied_list {
    uint64_t handle;
    uint64_t first, count; /* the values that are copied */
    uint64_t to;           /* the place of the first of them */
};

/* Values that lie side by side. */
struct copied_piece {
    const void *from; /* NULL: the piece is the value `one` alone */
    uint64_t to;      /* the place of the first value */
    uint32_t count; /* below 2^30, as in lists. 64 bits would cost the kernel for chains registers: 47 instead of 40 */
    uint32_t one;
};

/* What is left of a chain. Its values `first` .. `until` - 1 are copied, and value `first` goes to `to`. */
struct copied_rest {
    uint64_t place, link; /* of the next piece, and in front of it; 0: it has no link */
    uint64_t to;
    uint32_t end; /* values in the next piece and in all older ones */
    uint32_t first, until;

    __device__ __forceinline__ bool any() const
    {
        return end > first;
    }
};

/* Pieces for the second kernel. */
struct long_lists {
    enum { ROOM = 1 << 12 };
    uint32_t count; /* may be larger than ROOM; zero at first */
    uint64_t list[ROOM];
    copied_piece piece[ROOM];
};

/* Goes on to another piece of a chain: starts to load its link. */
template <class value>
__device__ __forceinline__ void go_to_piece(const unsigned char *heap, uint64_t place, uint64_t end, int linked,
                                            copied_rest *rest)
{
    rest->place = place;
    rest->end = (uint32_t)end;
    rest->link = linked && rest->any() ? list_link_at(heap, sizeof(value), place) : 0;
}

/* Takes the next piece of a chain. It may have none of the values that are copied. */
template <class value> __device__ __forceinline__ copied_piece next_piece(const unsigned char *heap, copied_rest *rest)
{
    const uint64_t link = rest->link;
    const uint32_t before = (uint32_t)list_link_before(link);
    const uint32_t begin = rest->first > before ? rest->first : before;
    const uint32_t end = rest->until < rest->end ? rest->until : rest->end;
    const copied_piece piece = {(const value *)heap + (rest->place + (begin - before)),
                                rest->to + (begin - rest->first), end > begin ? end - begin : 0, 0};
    go_to_piece<value>(heap, list_link_place(link), before, list_link_linked(link), rest);
    return piece;
}

/* Takes the first piece of a list: all of it, unless it is a chain. */
template <class value, bool chain>
__device__ __forceinline__ copied_piece first_piece(const unsigned char *heap, const copied_list &list,
                                                    copied_rest *rest)
{
    const uint64_t handle = list.handle;
    if (!chain || !list_in_heap(handle) || list.count == 0)
        return {list_in_heap(handle) ? (const value *)heap + (list_first(handle) + list.first) : NULL, list.to,
                (uint32_t)list.count, list_one_value(handle)};
    rest->to = list.to;
    rest->first = (uint32_t)list.first;
    rest->until = (uint32_t)(list.first + list.count);
    go_to_piece<value>(heap, list_first(handle), list_count(handle), list_is_linked(handle), rest);
    return next_piece<value>(heap, rest);
}

enum { COPY_THREADS = 256, COPY_LISTS = 256, COPY_UNROLLED = 4, COPY_LONG = 1 << 15 };

/* The last list that begins at value `at` or before it. */
__device__ __forceinline__ uint32_t copy_list_of(const uint32_t *begin, uint32_t at)
{
    uint32_t low = 0;
#pragma unroll
    for (uint32_t step = COPY_LISTS / 2; step > 0; step /= 2)
        low += begin[low + step] <= at ? step : 0;
    return low;
}

/* `each`: lists per thread block. */
template <class lists, bool chain>
__global__ void __launch_bounds__(COPY_THREADS)
    copy_lists_kernel(const lists work, uint64_t n, uint32_t each, long_lists *queue)
{
    typedef typename lists::value value;
    typedef cub::BlockScan<uint32_t, COPY_THREADS> scan;
    __shared__ typename scan::TempStorage storage;
    __shared__ uint32_t begin[COPY_LISTS + 1];
    __shared__ const value *from[COPY_LISTS];
    __shared__ uint64_t to[COPY_LISTS];
    __shared__ value ones[COPY_LISTS];
    static_assert(COPY_LISTS == COPY_THREADS && (uint64_t)COPY_LISTS * COPY_LONG < UINT32_MAX, "one for each thread");
    const uint64_t first = (uint64_t)blockIdx.x * each, mine = first + threadIdx.x;
    copied_piece own = {};
    copied_rest rest = {};
    if (threadIdx.x < each && mine < n)
        own = first_piece<value, chain>(work.heap, work.list(mine), &rest);
    for (;;) {                  /* one round, or as many as the longest chain has pieces */
        bool left_over = false; /* a long piece for which the queue has no room */
        if (own.count > COPY_LONG) {
            const uint32_t place = atomicAdd(&queue->count, 1u);
            left_over = place >= long_lists::ROOM;
            if (!left_over) {
                queue->list[place] = mine;
                queue->piece[place] = own;
            }
        }
        const uint32_t count = own.count > COPY_LONG ? 0 : own.count;
        uint32_t before, all;
        scan(storage).ExclusiveSum(count, before, all);
        begin[threadIdx.x] = before;
        from[threadIdx.x] = own.from != NULL ? (const value *)own.from : &ones[threadIdx.x];
        to[threadIdx.x] = own.to;
        ones[threadIdx.x] = own.one;
        if (threadIdx.x == 0)
            begin[COPY_LISTS] = all;
        const bool any_left_over = __syncthreads_or(left_over);
        const bool are_long = all >= each * 32;
        const uint32_t begin_of_lane = threadIdx.x / 32 * 32 * COPY_UNROLLED + threadIdx.x % 32;
        for (uint32_t next = begin_of_lane; next < all; next += COPY_THREADS * COPY_UNROLLED) {
            value some[COPY_UNROLLED];
            uint32_t list[COPY_UNROLLED], low = 0;
#pragma unroll
            for (int k = 0; k < COPY_UNROLLED; k++) {
                const uint32_t at = next + k * 32;
                if (at >= all)
                    continue;
                if (k == 0 || !are_long)
                    low = copy_list_of(begin, at);
                else
                    while (begin[low + 1] <= at) /* ends: begin[COPY_LISTS] is `all` */
                        low++;
                list[k] = low;
                some[k] = from[low][at - begin[low]];
            }
#pragma unroll
            for (int k = 0; k < COPY_UNROLLED; k++) {
                const uint32_t at = next + k * 32;
                if (at < all)
                    work.put(first + list[k], to[list[k]] + (at - begin[list[k]]), some[k]);
            }
        }
        for (uint32_t i = 0; any_left_over && i < each; i++) {
            __shared__ uint32_t left;
            if (threadIdx.x == i)
                left = left_over ? own.count : 0;
            __syncthreads();
            for (uint32_t at = threadIdx.x; at < left; at += COPY_THREADS)
                work.put(first + i, to[i] + at, from[i][at]);
            __syncthreads();
        }
        if (!chain || !__syncthreads_or(rest.any()))
            return;
        own = rest.any() ? next_piece<value>(work.heap, &rest) : copied_piece{};
    }
}

template <class lists>
__global__ void __launch_bounds__(COPY_THREADS) copy_long_lists_kernel(const lists work, const long_lists *queue)
{
    typedef typename lists::value value;
    const uint32_t room = long_lists::ROOM, count = queue->count < room ? queue->count : room;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t list = queue->list[i];
        const copied_piece own = queue->piece[i];
        const uint32_t parts = (own.count + COPY_LONG - 1) / COPY_LONG;
        for (uint32_t part = (blockIdx.x + i) % gridDim.x; part < parts; part += gridDim.x) {
            const uint32_t end = (part + 1) * COPY_LONG < own.count ? (part + 1) * COPY_LONG : own.count;
#pragma unroll 4
            for (uint32_t at = part * COPY_LONG + threadIdx.x; at < end; at += COPY_THREADS)
                work.put(list, own.to + at, ((const value *)own.from)[at]);
        }
    }
}

inline cudaError_t empty_queue(long_lists *queue, cudaStream_t stream)
{
    return cudaMemsetAsync(&queue->count, 0, sizeof queue->count, stream);
}

/* Copies lists 0 .. n - 1. `queue` is on the device, and empty. `chain`: lists may have several pieces. */
template <class lists>
cudaError_t copy_lists_by(const cuda_state *cuda, const lists &work, bool chain, uint64_t n, long_lists *queue,
                          cudaStream_t stream)
{
    enum { LONG_BLOCKS = 8 /* on one multiprocessor */, LEAST_LISTS = 8 };
    const uint64_t blocks = (uint64_t)cuda->multiprocessors * LONG_BLOCKS * 4; /* the last ones keep few waiting */
    uint32_t each = COPY_LISTS;
    if (n == 0)
        return cudaSuccess;
    while (each > LEAST_LISTS && n / each < blocks)
        each /= 2;
    auto copy = chain ? copy_lists_kernel<lists, true> : copy_lists_kernel<lists, false>;
    copy<<<(unsigned)((n + each - 1) / each), COPY_THREADS, 0, stream>>>(work, n, each, queue);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    copy_long_lists_kernel<<<(unsigned)cuda->multiprocessors * LONG_BLOCKS, COPY_THREADS, 0, stream>>>(work, queue);
    return cudaGetLastError();
}

/* The same with a queue that need not be empty. */
template <class lists>
cudaError_t copy_lists(const cuda_state *cuda, const lists &work, bool chain, uint64_t n, long_lists *queue,
                       cudaStream_t stream)
{
    RETURN_IF_CUDA_FAILED(empty_queue(queue, stream));
    return copy_lists_by(cuda, work, chain, n, queue, stream);
}

#endif
