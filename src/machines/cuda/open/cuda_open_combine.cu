/* Accumulates a batch in which each key occurs many times. Rows are split by the hash of their keys (cuda_split.cuh). A
 * thread block takes all rows of a range of hashes, combines rows with equal keys in shared memory, and gives the table
 * one value for each key.
 *
 * A row that goes to the table by itself reads a random line and changes a random value, at best in the L2 cache. For
 * 100 M rows of 4 + 8 bytes this takes 1.9 ms in a loop that does nothing else. Here rows are read, written and read
 * again sequentially: 3.6 GB, which take 0.85 ms at the speed of a copy. Where values are sums of 4-byte numbers, rows
 * have 4 + 4 bytes, and the total is 2.4 GB. Numbers are widened only on their way into shared memory.
 *
 * If one thread block can hold all keys of the table, the batch needs no split. Further blocks share the rows of the
 * spill, or the whole batch if the split gave up or there is none. A block holds as many keys as have places and sends
 * its other rows to the table one by one. Hence a batch in which half of the rows have one key does no harm. Rows with
 * the key that marks a free place also go to the table one by one. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/open/open_ops.h"
#include "machines/cuda/core/cuda_merge.cuh"
#include "machines/cuda/open/cuda_open_bulk.cuh"
#include "machines/cuda/open/cuda_open_counts.cuh"

namespace
{

enum {
    THREADS = 1024,
    UNROLLED = 4,
    ROW = 4,                  /* keys that a lane reads at once */
    BLOCKS = 1,               /* thread blocks per SM */
    BINS = 256,               /* ranges of hashes */
    PLACES_BYTES = 192 << 10, /* shared memory for keys and values */
    PROBES = 64,              /* places that a key tries before it goes to the table by itself */
    SLICES = 4,               /* thread blocks per SM for rows that were not split */
    NO_PLACE = 0x7fffffff,    /* result of a search that finds none */
    LEAST_ROWS = 1 << 16,
    LEAST_ROWS_PER_SLOT = 4 /* of the table; with fewer rows, most keys are too rare for combining to pay */
};

/* What a row has beside its key. ONES: nothing, which counts as one. NARROW: a number of 4 bytes, widened to a value of
 * 8. WIDE: a number as wide as the value. */
enum combine_brought { ONES, NARROW, WIDE };

/* The combine rule. SUMS: integers are added. OTHERS: the batch says which rule. */
enum combine_what { SUMS, OTHERS };

combine_brought brought_by(const cuda_batch *batch)
{
    return batch->values == NULL ? ONES : batch->widening != LOOM__WIDEN_NOT ? NARROW : WIDE;
}

/* The kind of the split's records. They hold a row's own number and not the widened value, since records are written
 * and read again. */
__host__ __device__ constexpr loom__slot_kind record_kind(loom__slot_kind kind, combine_brought brought)
{
    const bool wide_key = kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8;
    return brought == WIDE   ? kind
           : brought == ONES ? (wide_key ? SLOT_KEY_8 : SLOT_KEY_4)
                             : (wide_key ? SLOT_KEY_8_VALUE_4 : SLOT_PAIR_4_4);
}

template <class value> __device__ __forceinline__ value neutral_value(loom__combine_rule rule)
{
    constexpr int bits = 8 * sizeof(value);
    const value top = (value)1 << (bits - 1), infinity = (value)(bits == 32 ? 0x7f800000u : 0x7ff0000000000000u);
    switch (rule) {
    case LOOM__MIN_UNSIGNED:
        return (value) ~(value)0;
    case LOOM__MIN_SIGNED:
        return (value)(top - 1);
    case LOOM__MAX_SIGNED:
    case LOOM__ADD_FLOAT: /* -0.0: the sum of -0.0 and any x is x */
        return top;
    case LOOM__MIN_FLOAT:
        return infinity;
    case LOOM__MAX_FLOAT:
        return infinity | top;
    default:
        return 0;
    }
}

/* Combines a value in shared memory. Shared memory adds 32 bits at a time, so the halves of a sum are added separately.
 * A sum is read only after all threads have added, so the carry may come late. */
template <class value> __device__ __forceinline__ void combine_in_place(value *at, loom__combine_rule rule, value with)
{
    if (sizeof(value) == 4 || rule != LOOM__ADD) {
        merge_values(at, rule, with);
        return;
    }
    uint32_t *halves = (uint32_t *)at, low = (uint32_t)with, high = (uint32_t)((uint64_t)with >> 32);
    high += atomicAdd(halves, low) > ~low;
    if (high != 0)
        atomicAdd(halves + 1, high);
}

/* Returns the key's place in this row of places, or NO_PLACE. Places lie in rows of four, and a lane reads a row at
 * once. */
template <class key> __device__ __forceinline__ uint32_t place_in_row(const key *row, key sought)
{
    key there[ROW];
#pragma unroll
    for (int i = 0; i < (int)(sizeof(key) * ROW / 16); i++)
        ((uint4 *)there)[i] = ((const uint4 *)row)[i];
    uint32_t at = NO_PLACE;
#pragma unroll
    for (int i = 0; i < ROW; i++)
        at = there[i] == sought ? i : at;
    return at;
}

/* A hash table in shared memory: keys and their combined values. */
template <loom__slot_kind kind, combine_brought brought, combine_what what> struct combine_table {
    static constexpr loom__slot_kind slot = kind;
    static constexpr bool ones = brought == ONES, sums = what == SUMS;
    typedef bulk_columns<record_kind(kind, brought)> columns;
    typedef typename bulk_columns<kind>::key key;
    typedef typename bulk_columns<kind>::value value;
    typedef std::conditional_t<brought == NARROW, uint32_t, value> number;
    static constexpr uint32_t places = PLACES_BYTES / (sizeof(key) + sizeof(value)) / ROW * ROW;
    key *keys; /* [places], aligned to rows */
    value *values;
    key free; /* marks a free place */
    loom__combine_rule rule;
    loom__seed seed;
    loom__widening widening;
    bool *missed; /* set if some row found no place */

    __device__ __forceinline__ uint32_t first_place(key one) const
    {
        uint32_t lower = (uint32_t)loom__hash_key(one, sizeof(key), seed);
        return loom__multiply_high(lower, places / ROW) * ROW;
    }
    __device__ __forceinline__ value value_of(number one) const
    {
        if constexpr (brought != NARROW)
            return one;
        else
            return sums ? loom__widen_whole(widening, one) : loom__widen(widening, one);
    }
    __device__ __forceinline__ bool may_stay(key one, value with) const
    {
        return one != free && (sums || may_merge(rule, with));
    }
    /* Returns the key's place, or NO_PLACE. With `takes`, a key without a place takes a free one. A key goes to the
     * first free place from the beginning of its row on, so the first free place ends a search. */
    __device__ __forceinline__ uint32_t find_place(uint32_t first, key sought, bool takes) const
    {
        typedef std::conditional_t<sizeof(key) == 8, unsigned long long, unsigned> word;
        uint32_t at = first;
        for (int probe = 0; probe < PROBES; probe++) {
            key there = *(volatile key *)(keys + at);
            if (there == sought)
                return at;
            if (there == free) {
                if (!takes)
                    return NO_PLACE;
                there = (key)atomicCAS((word *)(keys + at), (word)free, (word)sought);
                if (there == free || there == sought)
                    return at;
            }
            at = at + 1 < places ? at + 1 : 0;
        }
        return NO_PLACE;
    }
};

template <class table_type> struct combine_work {
    loom__open_view view;
    cuda_batch batch;
    split_regions_of<typename table_type::columns> records;
    uint32_t bins; /* 0: nothing was split */
};

/* Combines rows next, next + THREADS and so on. Most keys are already in their row of places, so all keys are searched
 * for there before anything waits. A stale read only causes a second search. Numbers are widened after all of them have
 * been read: a branch in between would make each read wait for the one before. */
template <class table_type, class reader>
__device__ __forceinline__ void combine_some(const table_type &table, uint64_t next, uint64_t rows, reader read,
                                             outcome_counts *counts)
{
    typename table_type::key keys[UNROLLED];
    typename table_type::number numbers[UNROLLED];
    uint32_t first[UNROLLED], at[UNROLLED];
#pragma unroll
    for (int k = 0; k < UNROLLED; k++) {
        keys[k] = table.free;
        if (next + k * THREADS < rows)
            read(next + k * THREADS, &keys[k], &numbers[k]);
    }
#pragma unroll
    for (int k = 0; k < UNROLLED; k++) {
        first[k] = table.first_place(keys[k]);
        at[k] = place_in_row(table.keys + first[k], keys[k]);
    }
#pragma unroll
    for (int k = 0; k < UNROLLED; k++) {
        if (next + k * THREADS >= rows)
            continue;
        const typename table_type::value value = table.value_of(numbers[k]);
        uint32_t own = at[k] != NO_PLACE ? first[k] + at[k] : (uint32_t)NO_PLACE;
        if (!table.may_stay(keys[k], value))
            own = NO_PLACE;
        else if (own == NO_PLACE)
            own = table.find_place(first[k], keys[k], true);
        if (own != NO_PLACE)
            combine_in_place(table.values + own, table.rule, value);
        else
            *table.missed = true;
        counts->exists += own != NO_PLACE;
    }
}

/* Combines rows 0 .. rows - 1, then sends the results to the table. `read(i, &key, &number)` reads row i. All threads
 * of the block call this. */
template <class table_type, class reader>
__device__ __forceinline__ void combine_rows(const combine_work<table_type> &work, uint64_t rows, reader read,
                                             outcome_counts *counts)
{
    typedef typename table_type::key key;
    typedef typename table_type::value value;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ bool missed, refused;
    key *keys = (key *)memory;
    value *values = (value *)(keys + table_type::places);
    const key free = (key)work.view.empty[0];
    const loom__combine_rule rule = table_type::sums ? LOOM__ADD : work.batch.rule;
    for (uint32_t i = threadIdx.x; i < table_type::places; i += THREADS) {
        keys[i] = free;
        values[i] = neutral_value<value>(rule);
    }
    auto send = [&](key one, value with) {
        return open_insert_alone(table_type::slot, SLOT_COMBINE, rule, OPEN_SHARED, lane_own_group(), &work.view, one,
                                 with);
    };
    if (threadIdx.x == 0)
        missed = refused = false;
    __syncthreads();
    const table_type table = {keys, values, free, rule, work.view.seed, work.batch.widening, &missed};
    for (uint64_t next = threadIdx.x; next < rows; next += THREADS * UNROLLED)
        combine_some(table, next, rows, read, counts);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < table_type::places; i += THREADS) {
        if (keys[i] == free)
            continue;
        open_outcome outcome = send(keys[i], values[i]);
        values[i] = outcome == OPEN_NO_ROOM;
        counts->ok += outcome == OPEN_DONE; /* the key was new: its first row counts as ok */
        counts->exists -= outcome == OPEN_DONE;
        if (outcome == OPEN_NO_ROOM)
            refused = true;
    }
    __syncthreads();
    /* A second pass, if needed: sends rows without a place one by one, and counts the rows of refused keys. */
    for (uint64_t i = threadIdx.x; (missed || refused) && i < rows; i += THREADS) {
        key one;
        typename table_type::number number;
        read(i, &one, &number);
        const value with = table.value_of(number);
        uint32_t at = NO_PLACE;
        if (table.may_stay(one, with))
            at = table.find_place(table.first_place(one), one, false);
        if (at == NO_PLACE) {
            count_outcome(counts, send(one, with));
        } else if (values[at] != 0) {
            counts->full++;
            counts->exists--;
        }
    }
}

template <class table_type>
__global__ void __launch_bounds__(THREADS, BLOCKS) combine_kernel(const combine_work<table_type> work)
{
    typedef typename table_type::columns columns;
    typedef typename table_type::key key;
    typedef typename table_type::number number;
    const bool gave_up = work.bins == 0 || work.records.gave_up();
    outcome_counts counts = {};
    if (blockIdx.x < work.bins) { /* the rows of one region */
        const uint32_t rows = gave_up ? 0 : work.records.count(blockIdx.x);
        const typename columns::arrays records = work.records.at(blockIdx.x);
        if (rows == 0)
            return;
        combine_rows(
            work, rows,
            [&](uint64_t i, key *one, number *with) {
                typename columns::head head = records.heads[i];
                *one = (key)columns::key_of(head);
                *with = table_type::ones ? (number)1 : (number)columns::value_of(head, records, i);
            },
            &counts);
    } else { /* a share of the rows that were not split */
        const uint64_t all = gave_up ? work.batch.n : *work.records.spilled;
        const uint64_t slices = gridDim.x - work.bins, slice = blockIdx.x - work.bins;
        const uint64_t first = all / slices * slice + (slice < all % slices ? slice : all % slices);
        const uint64_t rows = all / slices + (slice < all % slices);
        const key *keys = gave_up ? (const key *)work.batch.keys : (const key *)work.records.spill.heads;
        const number *numbers = gave_up           ? (const number *)work.batch.values
                                : columns::packed ? (const number *)work.records.spill.heads + work.records.spill_room
                                                  : (const number *)work.records.spill.tails;
        if (rows == 0)
            return;
        combine_rows(
            work, rows,
            [&](uint64_t i, key *one, number *with) {
                *one = keys[first + i];
                *with = table_type::ones ? (number)1 : numbers[first + i];
            },
            &counts);
    }
    tell_counts(work.batch.counts, counts);
}

template <loom__slot_kind kind, combine_brought brought, combine_what what>
cudaError_t launch(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, const bulk_plan *plan,
                   unsigned char *workspace, cudaStream_t stream)
{
    typedef combine_table<kind, brought, what> table_type;
    auto kernel = combine_kernel<table_type>;
    combine_work<table_type> work = {*view, *batch, {}, 0};
    if (workspace != NULL) {
        work.records = split_fine_regions<typename table_type::columns>(plan, workspace, 0);
        work.bins = BINS;
    }
    cudaError_t error = allow_shared(kernel, PLACES_BYTES);
    if (error != cudaSuccess)
        return error;
    kernel<<<work.bins + (unsigned)cuda->multiprocessors * SLICES, THREADS, PLACES_BYTES, stream>>>(work);
    return cudaGetLastError();
}

template <loom__slot_kind kind>
cudaError_t launch_kind(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                        const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    const combine_brought brought = brought_by(batch);
    const bool sums = batch->rule == LOOM__ADD;
    if constexpr (kind == SLOT_KEY_4 || kind == SLOT_KEY_8) {
        return cudaErrorInvalidValue; /* sets have no values to accumulate */
    } else {
        if constexpr (bulk_columns<kind>::wide_value) {
            if (brought == NARROW && sums)
                return launch<kind, NARROW, SUMS>(cuda, view, batch, plan, workspace, stream);
            if (brought == NARROW)
                return launch<kind, NARROW, OTHERS>(cuda, view, batch, plan, workspace, stream);
        }
        if (brought == ONES)
            return launch<kind, ONES, SUMS>(cuda, view, batch, plan, workspace, stream);
        if (sums)
            return launch<kind, WIDE, SUMS>(cuda, view, batch, plan, workspace, stream);
        return launch<kind, WIDE, OTHERS>(cuda, view, batch, plan, workspace, stream);
    }
}

} // namespace

bool cuda_open_combine_plan(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                            bulk_plan *plan)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    const uint32_t places = PLACES_BYTES / (slot_key_bytes(kind) + slot_value_bytes(kind));
    const uint64_t slots = bulk_slots(view);
    *plan = bulk_plan{};
    if (batch->n < LEAST_ROWS || batch->n / LEAST_ROWS_PER_SLOT < slots ||
        cuda->shared_bytes < PLACES_BYTES + BULK_STATIC_BYTES)
        return false;
    if (slots <= places / 2)
        return true;
    split_request split = {};
    split.n = batch->n;
    split.keys = slots;
    split.parts = BINS;
    cuda_bulk_columns(record_kind(kind, brought_by(batch)), &split);
    return slots / BINS <= places / 4 * 3 && split_plan_passes(&split, plan);
}

cudaError_t cuda_open_combine(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                              const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    if (workspace != NULL) {
        const loom__slot_kind records = record_kind((loom__slot_kind)view->kind, brought_by(batch));
        const bulk_target target = {view->base, view->seed, BINS, records};
        error = split_begin(plan, workspace, stream);
        if (error == cudaSuccess)
            error = cuda_bulk_split(&target, batch, 0, plan, workspace, stream);
    }
    if (error != cudaSuccess)
        return error;
#define CALL(kind) error = launch_kind<kind>(cuda, view, batch, plan, workspace, stream)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}
