/* Splitting: records are dealt into regions of memory by a number that a functor gives for each, streaming.
 *
 * A block takes a tile of records, counts them by bin in shared memory, asks for room in each bin's region with one addition,
 * puts the tile in the order of bins in shared memory and writes it out, so that neighbouring lanes write neighbouring
 * records of a region. Nothing is counted beforehand: a region has room for what a bin gets on average and some deviations
 * more (split_room), and what finds no room goes to a spill list. If that is full, too, the split has *given up*: the count
 * of spilled records is larger than the list, the rest of the blocks do nothing, and whoever comes next takes another way.
 * So no batch, however skewed, can overflow anything.
 *
 * A record has up to three columns, each an array of its own: a head (the key; with its value where both are of 4 bytes), a
 * tail (a value that does not fit there), and its place in the batch.
 *
 * What it must move: each column read and written once. */
#ifndef LOOM_CUDA_SPLIT_CUH
#define LOOM_CUDA_SPLIT_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <type_traits>

enum {
    SPLIT_THREADS = 512,
    SPLIT_ITEMS = 16, /* of a thread */
    SPLIT_TILE = SPLIT_THREADS * SPLIT_ITEMS,
    SPLIT_MOST_BINS = 1024, /* two for each thread */
    SPLIT_FILL_STRIDE = 8   /* counters lie in sectors of their own */
};

struct no_column {
};

/* Where records go, and where they come from. */
template <class head, class tail> struct split_columns {
    head *heads;
    tail *tails;     /* not used: no_column */
    uint32_t *index; /* NULL: nobody asks */
};

/* `packed`: a head is two words of 4 bytes, which spill into two arrays, one behind the other. */
template <class head, class tail, bool packed> struct split_regions {
    split_columns<head, tail> to;
    uint32_t *fill; /* [regions * SPLIT_FILL_STRIDE]: records that wanted to go there; zero at first */
    uint32_t room;  /* of each region */
    split_columns<head, tail> spill;
    uint32_t *spilled; /* records that wanted to go there; zero at first */
    uint32_t spill_room;

    __device__ __forceinline__ uint32_t count(uint32_t region) const
    {
        uint32_t wanted = fill[(size_t)region * SPLIT_FILL_STRIDE];
        return wanted < room ? wanted : room;
    }
    __device__ __forceinline__ void spill_head(uint32_t at, head one) const
    {
        if constexpr (packed) {
            ((uint32_t *)spill.heads)[at] = (uint32_t)one;
            ((uint32_t *)spill.heads)[spill_room + at] = (uint32_t)(one >> 32);
        } else {
            spill.heads[at] = one;
        }
    }
    __device__ __forceinline__ bool gave_up() const
    {
        return *(volatile uint32_t *)spilled > spill_room;
    }
};

/* Bytes of shared memory that a split into so many bins takes. */
template <class head, class tail> constexpr size_t split_shared_bytes(uint32_t bins)
{
    size_t wide = sizeof(head) > sizeof(tail) ? sizeof(head) : sizeof(tail);
    return SPLIT_TILE * wide + bins * 2 * sizeof(uint32_t) + (SPLIT_THREADS / 32 + 1) * sizeof(uint32_t);
}

/* Exclusive sums over counts[0 .. bins), in place; all threads of the block. `sums` has a place for each warp. */
__device__ __forceinline__ void split_scan(uint32_t *counts, uint32_t bins, uint32_t *sums)
{
    uint32_t bin = 2 * threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t a = bin < bins ? counts[bin] : 0, b = bin + 1 < bins ? counts[bin + 1] : 0, sum = a + b;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        uint32_t other = __shfl_up_sync(0xffffffffu, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        uint32_t whole = lane < SPLIT_THREADS / 32 ? sums[lane] : 0;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            uint32_t other = __shfl_up_sync(0xffffffffu, whole, distance);
            whole += lane >= distance ? other : 0;
        }
        if (lane < SPLIT_THREADS / 32)
            sums[lane] = whole;
    }
    __syncthreads();
    uint32_t before = (warp > 0 ? sums[warp - 1] : 0) + sum - a - b;
    if (bin < bins)
        counts[bin] = before;
    if (bin + 1 < bins)
        counts[bin + 1] = before + a;
    __syncthreads();
}

/* One tile. `read_head(i)`, `read_tail(i)` and `read_index(i)` give the columns of its records 0 .. count - 1, each asked for
 * once; `bin_of(head)` is below `bins`, whose regions begin with `first_region`. All threads of the block. */
template <class head, class tail, bool packed, class head_reader, class tail_reader, class index_reader, class chooser>
__device__ __forceinline__ void split_tile(const split_regions<head, tail, packed> &out, uint32_t first_region, uint32_t bins,
                                           uint32_t count, head_reader read_head, tail_reader read_tail,
                                           index_reader read_index, chooser bin_of)
{
    constexpr bool has_tail = sizeof(tail) > 1;
    constexpr uint32_t NOWHERE = 0xffffffffu, SPILLED = 0x80000000u;
    extern __shared__ __align__(16) unsigned char split_memory[];
    __shared__ bool idle;
    constexpr size_t wide = has_tail && sizeof(tail) > sizeof(head) ? sizeof(tail) : sizeof(head);
    uint32_t *offsets = (uint32_t *)(split_memory + SPLIT_TILE * wide), *shifts = offsets + bins, *sums = shifts + bins;
    for (uint32_t bin = threadIdx.x; bin < bins; bin += SPLIT_THREADS)
        offsets[bin] = 0;
    if (threadIdx.x == 0)
        idle = out.gave_up();
    head heads[SPLIT_ITEMS];
    uint32_t at[SPLIT_ITEMS]; /* bin and rank in it, then the place in the tile */
#pragma unroll
    for (int k = 0; k < SPLIT_ITEMS; k++) {
        uint32_t i = threadIdx.x + k * SPLIT_THREADS;
        if (i < count)
            heads[k] = read_head(i);
    }
    __syncthreads();
    if (idle)
        return;
#pragma unroll
    for (int k = 0; k < SPLIT_ITEMS; k++) {
        if (threadIdx.x + k * SPLIT_THREADS < count) {
            uint32_t bin = bin_of(heads[k]);
            at[k] = bin << 16 | atomicAdd(&offsets[bin], 1u);
        }
    }
    __syncthreads();
    uint32_t wanted[SPLIT_MOST_BINS / SPLIT_THREADS];
#pragma unroll
    for (int k = 0; k < SPLIT_MOST_BINS / SPLIT_THREADS; k++) {
        uint32_t bin = threadIdx.x + k * SPLIT_THREADS;
        wanted[k] = bin < bins ? offsets[bin] : 0;
        if (wanted[k] > 0) /* where the region's next records go */
            wanted[k] = atomicAdd(&out.fill[(size_t)(first_region + bin) * SPLIT_FILL_STRIDE], wanted[k]);
    }
    __syncthreads();
    split_scan(offsets, bins, sums);
#pragma unroll
    for (int k = 0; k < SPLIT_MOST_BINS / SPLIT_THREADS; k++) {
        uint32_t bin = threadIdx.x + k * SPLIT_THREADS;
        if (bin < bins)
            shifts[bin] = wanted[k] - offsets[bin]; /* modulo 2^32 */
    }
#pragma unroll
    for (int k = 0; k < SPLIT_ITEMS; k++) {
        if (threadIdx.x + k * SPLIT_THREADS < count) {
            at[k] = offsets[at[k] >> 16] + (at[k] & 0xffff);
            ((head *)split_memory)[at[k]] = heads[k];
        }
    }
    __syncthreads();
    uint32_t to[SPLIT_ITEMS]; /* of the tile's records in their new order */
#pragma unroll
    for (int k = 0; k < SPLIT_ITEMS; k++) {
        uint32_t place = threadIdx.x + k * SPLIT_THREADS;
        if (place >= count)
            continue;
        head one = ((const head *)split_memory)[place];
        uint32_t bin = bin_of(one), in_region = place + shifts[bin];
        if (in_region < out.room) {
            to[k] = (first_region + bin) * out.room + in_region;
            out.to.heads[to[k]] = one;
        } else {
            uint32_t spilled = atomicAdd(out.spilled, 1u);
            to[k] = spilled < out.spill_room ? spilled | SPILLED : NOWHERE;
            if (spilled < out.spill_room)
                out.spill_head(spilled, one);
        }
    }
    auto move_column = [&](auto *column, auto *spill_column, auto read) {
        typedef typename std::remove_pointer<decltype(column)>::type element;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SPLIT_ITEMS; k++) {
            uint32_t i = threadIdx.x + k * SPLIT_THREADS;
            if (i < count)
                ((element *)split_memory)[at[k]] = read(i);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SPLIT_ITEMS; k++) {
            uint32_t place = threadIdx.x + k * SPLIT_THREADS;
            if (place >= count || to[k] == NOWHERE)
                continue;
            element one = ((const element *)split_memory)[place];
            if (to[k] & SPILLED)
                spill_column[to[k] ^ SPILLED] = one;
            else
                column[to[k]] = one;
        }
    };
    if constexpr (has_tail)
        move_column(out.to.tails, out.spill.tails, read_tail);
    if (out.to.index != NULL)
        move_column(out.to.index, out.spill.index, read_index);
}

#endif
