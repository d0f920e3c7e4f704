/* Inserts by runs (cuda_multi_insert.cu): the arrays that all steps share, and the last step on pairs, which stores
 * their values. */
#ifndef LOOM_CUDA_MULTI_RUNS_CUH
#define LOOM_CUDA_MULTI_RUNS_CUH

#include "core/list_pieces.h"
#include "machines/cuda/multi/cuda_multi.cuh"

#include <type_traits>

namespace
{

/* Sums over all runs, on the device. */
struct run_sums {
    uint64_t runs;
    uint64_t taken;         /* values of the heap that lists take elsewhere */
    uint64_t large;         /* LARGE lists that take a place */
    uint64_t moving;        /* lists in the heap that move */
    uint64_t needed;        /* values that the changed lists take in a packed heap */
    uint64_t rows_refused;  /* pairs for whose keys the directory has no room */
    uint64_t stored;        /* pairs */
    uint64_t in_heap;       /* how much the values in the heap become more, modulo 2^64 */
    uint64_t keys;          /* likewise for keys of the directory */
    uint64_t without_value; /* new keys that are erased again */
};

/* Where the steps find their data. Arrays of runs have as many elements as there are runs. */
struct run_arrays {
    const uint32_t *positions; /* [n] of the sorted pairs in the batch; NULL: the values are sorted, too */
    const uint32_t *run_of;    /* [n] number of the run, from 1 on */
    const uint32_t *begin;     /* [runs + 1] the first pair of each run */
    uint64_t *old, *handles;   /* before and after the call */
    uint64_t *places;          /* what a list takes; then where it begins, behind the used part; then unused */
    uint8_t *status;           /* of the key in the directory */
    const void *values;        /* [n] of the batch, or sorted */
    uint64_t runs, n;
    run_sums *sums;

    /* Where the value of a sorted pair is. */
    __device__ __forceinline__ uint64_t position(uint64_t i) const
    {
        return positions != NULL ? positions[i] : i;
    }

    __device__ __forceinline__ uint64_t length(uint64_t run) const
    {
        return begin[run + 1] - begin[run];
    }
};

/* Stands for the type of values that are neither 4 nor 8 bytes wide. */
struct wide_value {
};

template <class value> constexpr bool is_wide()
{
    return std::is_same<value, wide_value>::value;
}

/* ---- 5. store ---- */

enum { STORED = 4 /* pairs that a thread stores, with their loads in flight together */ };

/* A call gives a chain one bucket at most, so a place is in the newest piece or in the one before. */
template <class value, bool chain>
__global__ void __launch_bounds__(MULTI_THREADS)
    store_kernel(const loom__multi_view view, const run_arrays work, uint8_t *status)
{
    const uint64_t first = (uint64_t)blockIdx.x * MULTI_THREADS * STORED + threadIdx.x;
    uint32_t runs[STORED];
    uint64_t handles[STORED], numbers[STORED], places[STORED];
    value values[STORED];
#pragma unroll
    for (int k = 0; k < STORED; k++) {
        const uint64_t i = first + k * MULTI_THREADS;
        runs[k] = i < work.n ? work.run_of[i] - 1 : 0;
    }
#pragma unroll
    for (int k = 0; k < STORED; k++) {
        const uint64_t i = first + k * MULTI_THREADS;
        if (i >= work.n)
            continue;
        handles[k] = work.handles[runs[k]];
        numbers[k] = list_count(work.old[runs[k]]) + (i - work.begin[runs[k]]);
        values[k] = ((const value *)work.values)[work.position(i)];
    }
#pragma unroll
    for (int k = 0; k < STORED; k++) /* a loop of its own: no link is read behind a store */
        if (first + k * MULTI_THREADS < work.n)
            places[k] = chain ? list_place_of(view.heap, sizeof(value), handles[k], numbers[k])
                              : list_first(handles[k]) + numbers[k];
#pragma unroll
    for (int k = 0; k < STORED; k++) {
        const uint64_t i = first + k * MULTI_THREADS;
        if (i >= work.n)
            return;
        const bool stored = numbers[k] < list_count(handles[k]);
        if (stored && list_in_heap(handles[k]))
            ((value *)view.heap)[places[k]] = values[k];
        if (status != NULL)
            status[work.position(i)] = stored ? LOOM_OK : LOOM_FULL;
    }
}

/* The same for values that are neither 4 nor 8 bytes wide: 1 << shift lanes for each pair. */
template <class word, bool chain>
__global__ void __launch_bounds__(MULTI_THREADS)
    store_wide_kernel(const loom__multi_view view, const run_arrays work, uint8_t *status, uint32_t shift)
{
    const uint64_t i = multi_item() >> shift, bytes = view.value_bytes;
    const uint32_t lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
    if (i >= work.n)
        return;
    const uint32_t run = work.run_of[i] - 1;
    const uint64_t handle = work.handles[run], number = list_count(work.old[run]) + (i - work.begin[run]);
    const bool stored = number < list_count(handle);
    if (stored) {
        const uint64_t place = chain ? list_place_of(view.heap, bytes, handle, number) : list_first(handle) + number;
        multi_copy_words<word>(multi_value_at(&view, place),
                               (const unsigned char *)work.values + work.position(i) * bytes, bytes, lane, lanes);
    }
    if (status != NULL && lane == 0)
        status[work.position(i)] = stored ? LOOM_OK : LOOM_FULL;
}

template <class value>
cudaError_t store_pairs(const loom__multi_view *view, const run_arrays *work, uint8_t *status, cudaStream_t stream)
{
    auto store = multi_is_chain(view) ? store_kernel<value, true> : store_kernel<value, false>;
    store<<<multi_blocks((work->n + STORED - 1) / STORED), MULTI_THREADS, 0, stream>>>(*view, *work, status);
    return cudaGetLastError();
}

template <>
cudaError_t store_pairs<wide_value>(const loom__multi_view *view, const run_arrays *work, uint8_t *status,
                                    cudaStream_t stream)
{
    const multi_words words = multi_words_for((uintptr_t)view->heap | (uintptr_t)work->values, view->value_bytes);
    const bool chain = multi_is_chain(view) != 0;
    auto store = words.word == 16  ? (chain ? store_wide_kernel<uint4, true> : store_wide_kernel<uint4, false>)
                 : words.word == 8 ? (chain ? store_wide_kernel<uint64_t, true> : store_wide_kernel<uint64_t, false>)
                 : words.word == 4 ? (chain ? store_wide_kernel<uint32_t, true> : store_wide_kernel<uint32_t, false>)
                                   : (chain ? store_wide_kernel<uint8_t, true> : store_wide_kernel<uint8_t, false>);
    store<<<multi_blocks(work->n << words.shift), MULTI_THREADS, 0, stream>>>(*view, *work, status, words.shift);
    return cudaGetLastError();
}

} // namespace

#endif
