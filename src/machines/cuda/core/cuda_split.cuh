/* Splits records on a GPU, for any engine that works by partition. A functor gives each record a bin, and the split
 * scatters the records into one region of memory for each bin, in one streaming pass. The host's split is core/split.h.
 *
 * A thread block takes a tile of records and counts them by bin in shared memory. It reserves room in each bin's region
 * with one addition, sorts the tile by bin in shared memory and writes it out, so that neighbouring lanes write
 * neighbouring records of a region. Nothing is counted beforehand: a region has room for the mean and some deviations
 * (core/split_plan.h), and records without room go to a spill list. If the spill list is full, too, the split has
 * *given up*: the count of spilled records is larger than the list, the remaining blocks do nothing, and later kernels
 * process the whole batch another way. So no batch, however skewed, can overflow anything.
 *
 * A record has up to three columns, each an array of its own:
 *   head    the key; if key and value have 4 bytes each, the pair
 *   tail    a value that is not part of the head
 *   index   the record's place in the batch
 *
 * Memory traffic: each column is read once and written once. */
#ifndef LOOM_CUDA_SPLIT_CUH
#define LOOM_CUDA_SPLIT_CUH

#include "core/split_plan.h"

#include <cuda_runtime.h>
#include <stdint.h>
#include <type_traits>

enum { SPLIT_THREADS = 512, SPLIT_MOST_BINS = LOOM__SPLIT_MOST_BINS, SPLIT_FILL_STRIDE = LOOM__SPLIT_FILL_STRIDE };

struct no_column {
};

/* The columns that records are read from or written to. */
template <class head, class tail> struct split_columns {
    head *heads;
    tail *tails;     /* of type no_column: unused */
    uint32_t *index; /* NULL: not wanted */
};

/* `packed`: a head is a key and a value of 4 bytes each. On the spill list they become two arrays, one behind the
 * other. */
template <class head, class tail, bool packed> struct split_regions {
    split_columns<head, tail> to;    /* columns of the first region */
    uint64_t stride;                 /* bytes from one region to the next, all columns included */
    uint32_t *fill;                  /* [regions * SPLIT_FILL_STRIDE]: records meant for each region; zero at first */
    uint32_t room;                   /* records that fit each region */
    split_columns<head, tail> spill; /* has no index: if records have one, spill_room is 0 */
    uint32_t *spilled;               /* records meant for the spill list; zero at first */
    uint32_t spill_room;

    template <class element> __device__ __forceinline__ element *column(element *first, uint32_t region) const
    {
        return (element *)((unsigned char *)first + region * stride);
    }
    __device__ __forceinline__ split_columns<head, tail> at(uint32_t region) const
    {
        return {column(to.heads, region), column(to.tails, region), column(to.index, region)};
    }
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

/* All threads of the block replace counts[0 .. bins) by their exclusive sums. `sums` has a place for each warp. */
__device__ __forceinline__ void split_scan(uint32_t *counts, uint32_t bins, uint32_t *sums)
{
    static_assert(SPLIT_MOST_BINS <= 2 * SPLIT_THREADS, "two bins for each thread");
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

/* Loads neighbouring elements of an array in device memory by one aligned access of 4, 8 or 16 bytes. */
template <int some, class element> __device__ __forceinline__ void split_load(const element *at, element *to)
{
    constexpr int bytes = some * sizeof(element);
    typedef typename std::conditional<bytes == 8, uint2, uint32_t>::type short_piece;
    typedef typename std::conditional<bytes == 16, uint4, short_piece>::type piece_type;
    static_assert(sizeof(piece_type) == bytes, "one load");
    piece_type piece = __ldcs((const piece_type *)at);
#pragma unroll
    for (int i = 0; i < some; i++)
        to[i] = ((const element *)&piece)[i];
}

/* Reads a column from an array. */
template <class element> struct split_array_reader {
    const element *from;
    template <int some> __device__ __forceinline__ void many(uint32_t i, element *to) const
    {
        split_load<some>(from + i, to);
    }
};

/* Gives each record's place in the batch. */
struct split_place_reader {
    uint32_t first;
    template <int some> __device__ __forceinline__ void many(uint32_t i, uint32_t *to) const
    {
#pragma unroll
        for (int k = 0; k < some; k++)
            to[k] = first + i + k;
    }
};

/* The number in the tile of a thread's item k. A thread takes `some` neighbours at a time. */
template <int some> __device__ __forceinline__ uint32_t split_item(int k)
{
    return k / some * some * SPLIT_THREADS + threadIdx.x * some + k % some;
}

/* Reads a column of a tile. `wide`: the tile is complete and aligned. One test of `wide` covers all loads: loads in
 * separate branches would be waited for one after the other, which cost a third. */
template <int items, int some, class element, class reader>
__device__ __forceinline__ void split_read(element (&elements)[items], uint32_t count, bool wide, reader read)
{
    if (wide) {
#pragma unroll
        for (int k = 0; k < items; k += some)
            read.template many<some>(split_item<some>(k), elements + k);
    } else {
#pragma unroll
        for (int k = 0; k < items; k++)
            if (split_item<some>(k) < count)
                read.template many<1>(split_item<some>(k), elements + k);
    }
}

/* One bin of a tile: where its records lie in the sorted tile, and where they go. */
struct split_run {
    uint32_t begin;     /* in the tile; the run ends where the next one begins */
    uint32_t in_region; /* place of the first record in the region; records at places from `room` on spill */
    uint32_t in_spill;  /* place of the first spilled record in the spill list */
};

/* Bytes of shared memory of a split into `bins` bins with `items` records per thread. */
template <class columns> constexpr size_t split_shared_bytes(int items, uint32_t bins)
{
    constexpr size_t head = sizeof(typename columns::head), tail = sizeof(typename columns::tail);
    constexpr size_t widest = head > tail ? head : tail;
    return SPLIT_THREADS * items * widest + (bins + SPLIT_THREADS / 32) * sizeof(uint32_t) +
           (bins + 1) * sizeof(split_run);
}

/* Splits one tile, records 0 .. count - 1, with `items` records per thread. All threads of the block call this. The
 * readers give the columns, each record once: `read.many<some>(i, to)` reads records i .. i + some - 1, with some > 1
 * only if `aligned`. `bin_of(head)` is below `bins`. Bin b goes to region first_region + b.
 *
 * A warp writes the runs of its bins one after the other. Writing the sorted tile straight through would ask the L2
 * cache for a third more pieces of lines, and would need each record's bin once more. */
template <int items, int some, bool with_index, class head, class tail, bool packed, class head_reader,
          class tail_reader, class index_reader, class chooser>
__device__ __forceinline__ void split_tile(const split_regions<head, tail, packed> &out, uint32_t first_region,
                                           uint32_t bins, uint32_t count, bool aligned, head_reader read_heads,
                                           tail_reader read_tails, index_reader read_index, chooser bin_of)
{
    constexpr uint32_t tile = SPLIT_THREADS * items;
    constexpr bool has_tail = !std::is_same<tail, no_column>::value;
    extern __shared__ __align__(16) unsigned char split_memory[];
    __shared__ bool idle;
    /* Shared memory holds one column of the tile, sorted by bin; the counts of bins, later the begins of their runs;
     * and the runs. */
    constexpr size_t widest = has_tail && sizeof(tail) > sizeof(head) ? sizeof(tail) : sizeof(head);
    uint32_t *offsets = (uint32_t *)(split_memory + tile * widest), *sums = offsets + bins;
    split_run *runs = (split_run *)(sums + SPLIT_THREADS / 32); /* [bins + 1] */
    const bool wide = aligned && count == tile;
    for (uint32_t bin = threadIdx.x; bin < bins; bin += SPLIT_THREADS)
        offsets[bin] = 0;
    if (threadIdx.x == 0)
        idle = out.gave_up();
    head heads[items];
    uint32_t at[items]; /* at first the bin and the rank in the bin; later the place in the sorted tile */
    split_read<items, some>(heads, count, wide, read_heads);
    __syncthreads();
    if (idle)
        return;
#pragma unroll
    for (int k = 0; k < items; k++) {
        if (split_item<some>(k) < count) {
            uint32_t bin = bin_of(heads[k]);
            at[k] = bin << 16 | atomicAdd(&offsets[bin], 1u);
        }
    }
    __syncthreads();
    for (uint32_t bin = threadIdx.x; bin < bins; bin += SPLIT_THREADS) {
        const uint32_t mine = offsets[bin];
        uint32_t in_region = 0, in_spill = 0;
        if (mine > 0)
            in_region = atomicAdd(&out.fill[(size_t)(first_region + bin) * SPLIT_FILL_STRIDE], mine);
        runs[bin].in_region = in_region;
        if (in_region + mine > out.room)
            in_spill = atomicAdd(out.spilled, in_region + mine - (in_region > out.room ? in_region : out.room));
        runs[bin].in_spill = in_spill;
    }
    __syncthreads();
    split_scan(offsets, bins, sums);
    for (uint32_t bin = threadIdx.x; bin < bins; bin += SPLIT_THREADS)
        runs[bin].begin = offsets[bin];
    if (threadIdx.x == 0)
        runs[bins].begin = count;
#pragma unroll
    for (int k = 0; k < items; k++) {
        if (split_item<some>(k) < count) {
            at[k] = offsets[at[k] >> 16] + (at[k] & 0xffff);
            ((head *)split_memory)[at[k]] = heads[k];
        }
    }
    __syncthreads();
    auto write_column = [&](auto *column, auto spill) {
        typedef typename std::remove_pointer<decltype(column)>::type element;
        const uint32_t lane = threadIdx.x % 32;
        for (uint32_t bin = threadIdx.x / 32; bin < bins; bin += SPLIT_THREADS / 32) {
            const split_run run = runs[bin];
            const uint32_t length = runs[bin + 1].begin - run.begin;
            element *region = out.column(column, first_region + bin);
            for (uint32_t i = lane; i < length; i += 32) {
                element one = ((const element *)split_memory)[run.begin + i];
                uint32_t place = run.in_region + i, first = run.in_region > out.room ? run.in_region : out.room;
                if (place < out.room)
                    region[place] = one;
                else if (run.in_spill + (place - first) < out.spill_room)
                    spill(run.in_spill + (place - first), one);
            }
        }
    };
    auto next_column = [&](auto *column, auto read, auto spill) {
        typename std::remove_pointer<decltype(column)>::type elements[items];
        split_read<items, some>(elements, count, wide, read);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < items; k++)
            if (split_item<some>(k) < count)
                ((decltype(column))split_memory)[at[k]] = elements[k];
        __syncthreads();
        write_column(column, spill);
    };
    write_column(out.to.heads, [&](uint32_t to, head one) { out.spill_head(to, one); });
    if constexpr (has_tail)
        next_column(out.to.tails, read_tails, [&](uint32_t to, tail one) { out.spill.tails[to] = one; });
    if constexpr (with_index) /* with an index, the spill list has no room */
        next_column(out.to.index, read_index, [](uint32_t, uint32_t) {});
}

#endif
