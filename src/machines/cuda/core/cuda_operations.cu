/* Batches that mix operations (core/machine.h, core/operations.h).
 *
 * Rows by kind. A thread block counts the kinds of LOOM__KIND_BLOCK rows, one scan over all counts says where the rows
 * of each block and kind go, and each block moves its elements. It does not store where rows go: whoever brings answers
 * back reads the operations again, a byte for each row instead of the four of a row number. A thread keeps its rows'
 * kinds and its counts in registers. Bringing answers back writes parts of 32-byte sectors, which DRAM reads first.
 *
 * Sequences. The effects of all rows are scanned at once, so a key that half of the rows have takes no longer than many
 * keys. A scan moves 64 bytes for each row, and answers read 32. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_call.cuh"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 16 };

unsigned blocks_for(uint64_t n)
{
    const uint64_t blocks = (n + THREADS - 1) / THREADS;
    return blocks < MOST_BLOCKS ? (unsigned)blocks : (unsigned)MOST_BLOCKS;
}

/* Runs work(memory) with temporary memory of the device. */
template <class work_type>
loom_status with_memory(loom__machine *machine, uint64_t bytes, loom_stream stream, const char *doing, work_type work)
{
    const cuda_workspace own = cuda_take_workspace(machine, bytes, stream, NULL);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY, "%llu bytes of temporary memory could not be had",
                    (unsigned long long)bytes);
    const cudaError_t error = cuda_step(work(own.at));
    cuda_give_workspace(machine, &own, stream);
    return cuda_status(error, doing);
}

/* ---- rows by kind ---- */

enum { THREAD_ROWS = 16, KIND_BITS = 3, ROW_BITS = 12 };
static_assert(THREAD_ROWS * THREADS == LOOM__KIND_BLOCK, "a thread block takes one block of rows");
static_assert(LOOM__KIND_BLOCK == 1 << ROW_BITS && ROW_BITS + KIND_BITS <= 16, "a row and its kind in 16 bits");
static_assert(LOOM__KINDS < 1 << KIND_BITS, "one number is left for rows that are not there");

/* The kinds of a thread's rows, a byte each. */
struct thread_kinds {
    uint32_t words[THREAD_ROWS / 4];

    __device__ __forceinline__ uint32_t of(int row) const
    {
        return words[row / 4] >> row % 4 * 8 & 0xffu;
    }
};

/* Counts by kind, 16 bits each: a block has no more rows than that. */
struct kind_counts {
    uint64_t low, high;

    __device__ __forceinline__ uint32_t of(uint32_t kind) const
    {
        return (uint32_t)((kind < 4 ? low : high) >> kind % 4 * 16) & 0xffffu;
    }
    __device__ __forceinline__ void add(uint32_t kind, uint64_t count)
    {
        const uint64_t more = count << kind % 4 * 16;
        low += kind < 4 ? more : 0;
        high += kind < 4 ? 0 : more;
    }
};

struct add_counts {
    __device__ __forceinline__ kind_counts operator()(const kind_counts &a, const kind_counts &b) const
    {
        return {a.low + b.low, a.high + b.high};
    }
};

typedef cub::BlockScan<kind_counts, THREADS> kind_scan;

/* Reads 16 rows at once. All of them are there, and `operations` is aligned. */
__device__ __forceinline__ thread_kinds read_wide(const uint8_t *operations, uint64_t first)
{
    static_assert(THREAD_ROWS == sizeof(uint4), "one load");
    const uint4 four = __ldcs((const uint4 *)(operations + first));
    return {{four.x, four.y, four.z, four.w}};
}

__device__ __forceinline__ thread_kinds read_bytes(const uint8_t *operations, uint64_t n, uint64_t first)
{
    thread_kinds kinds = {};
#pragma unroll
    for (int w = 0; w < THREAD_ROWS / 4; w++)
#pragma unroll
        for (int b = 0; b < 4; b++)
            if (first + 4 * w + b < n)
                kinds.words[w] |= (uint32_t)operations[first + 4 * w + b] << 8 * b;
    return kinds;
}

/* Makes kinds of operations. Rows that are not there get a number above all kinds. */
__device__ __forceinline__ void tell_kinds(thread_kinds *kinds, uint64_t n, uint64_t first)
{
#pragma unroll
    for (int w = 0; w < THREAD_ROWS / 4; w++) {
        kinds->words[w] = __vminu4(kinds->words[w], LOOM__OPERATIONS * 0x01010101u);
        const uint64_t there = n > first + 4 * w ? n - first - 4 * w : 0;
        if (there < 4)
            kinds->words[w] |= 0xffffffffu << 8 * there;
    }
}

__device__ __forceinline__ kind_counts count_kinds(const thread_kinds &kinds)
{
    kind_counts counts = {};
#pragma unroll
    for (uint32_t kind = 0; kind < LOOM__KINDS; kind++) {
        uint32_t bits = 0;
#pragma unroll
        for (int w = 0; w < THREAD_ROWS / 4; w++)
            bits += __popc(__vcmpeq4(kinds.words[w], kind * 0x01010101u));
        counts.add(kind, bits / 8);
    }
    return counts;
}

enum { WARP_READS = LOOM__KIND_BLOCK / (32 * THREAD_ROWS) };

/* A warp counts a block of rows. `places` and `totals` may be NULL. places[kind * blocks + block]: how many rows of the
 * block are of this kind. */
__global__ void __launch_bounds__(THREADS)
    count_kernel(const uint8_t *operations, uint64_t n, uint32_t *places, unsigned long long *totals)
{
    __shared__ uint32_t sums[LOOM__KINDS];
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t block = (uint64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, blocks = loom__kind_blocks(n);
    const uint64_t first = block * LOOM__KIND_BLOCK + lane * THREAD_ROWS;
    thread_kinds kinds[WARP_READS];
    if (threadIdx.x < LOOM__KINDS)
        sums[threadIdx.x] = 0;
    if ((block + 1) * LOOM__KIND_BLOCK <= n && (uintptr_t)operations % sizeof(uint4) == 0) {
#pragma unroll
        for (int i = 0; i < WARP_READS; i++) /* all at once */
            kinds[i] = read_wide(operations, first + i * 32 * THREAD_ROWS);
    } else {
#pragma unroll
        for (int i = 0; i < WARP_READS; i++)
            kinds[i] = read_bytes(operations, n, first + i * 32 * THREAD_ROWS);
    }
    kind_counts counts = {};
#pragma unroll
    for (int i = 0; i < WARP_READS; i++) {
        tell_kinds(&kinds[i], n, first + i * 32 * THREAD_ROWS);
        counts = add_counts{}(counts, count_kinds(kinds[i]));
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        counts = add_counts{}(counts, {__shfl_xor_sync(0xffffffffu, counts.low, distance),
                                       __shfl_xor_sync(0xffffffffu, counts.high, distance)});
    if (places != NULL && lane < LOOM__KINDS && block < blocks)
        places[lane * blocks + block] = counts.of(lane);
    __syncthreads();
    if (lane < LOOM__KINDS)
        atomicAdd(sums + lane, counts.of(lane));
    __syncthreads();
    if (totals != NULL && threadIdx.x < LOOM__KINDS && sums[threadIdx.x] > 0)
        atomicAdd(totals + threadIdx.x, (unsigned long long)sums[threadIdx.x]);
}

/* The rows of a block in the order of their kinds. */
struct block_rows {
    uint16_t rows[LOOM__KIND_BLOCK]; /* a row's place in the block, and above it its kind */
    uint32_t starts[LOOM__KINDS + 1];
    uint64_t homes[LOOM__KINDS]; /* entry `at` of rows goes to homes[its kind] + at */
};

/* Moves the elements of a block's rows, in units that make up an element. */
template <class unit, bool put, bool one_unit>
__device__ __forceinline__ void move_units(const block_rows &block, const loom__kind_column &column, uint64_t begin)
{
    const uint32_t units = one_unit ? 1 : column.width / (uint32_t)sizeof(unit), all = block.starts[LOOM__KINDS];
    unit *to = (unit *)column.to;
    const unit *from = (const unit *)column.from;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < all * units; i += THREADS) {
        const uint32_t at = one_unit ? i : i / units, within = one_unit ? 0 : i % units;
        const uint32_t entry = block.rows[at], kind = entry >> ROW_BITS;
        if (!(column.kinds >> kind & 1))
            continue;
        const uint64_t row = begin + (entry & (LOOM__KIND_BLOCK - 1)), home = block.homes[kind] + at;
        to[(put ? row : home) * units + within] = from[(put ? home : row) * units + within];
    }
}

template <class unit, bool put>
__device__ __forceinline__ void move_as(const block_rows &block, const loom__kind_column &column, uint64_t begin)
{
    if (column.width == sizeof(unit))
        move_units<unit, put, true>(block, column, begin);
    else
        move_units<unit, put, false>(block, column, begin);
}

struct kind_columns {
    loom__kind_column at[LOOM__KIND_COLUMNS];
    uint32_t count;
};

enum { CACHE_LINE = 128, MOST_PREFETCHED = 16 /* bytes of an element */ };

/* Elements come from memory while the block finds out where they go. */
__device__ __forceinline__ void prefetch_elements(const loom__kind_column &column, uint64_t begin, uint64_t rows)
{
    const unsigned char *from = (const unsigned char *)column.from + begin * column.width;
    if (column.width <= MOST_PREFETCHED)
        for (uint32_t at = threadIdx.x * CACHE_LINE; at < rows * column.width; at += THREADS * CACHE_LINE)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
}

template <bool put>
__global__ void __launch_bounds__(THREADS)
    move_kernel(const __grid_constant__ loom__kind_order order, const __grid_constant__ kind_columns columns)
{
    __shared__ typename kind_scan::TempStorage storage;
    __shared__ block_rows block;
    const uint64_t begin = (uint64_t)blockIdx.x * LOOM__KIND_BLOCK;
    kind_counts before, all;
    const uint64_t first = begin + threadIdx.x * THREAD_ROWS, n = order.n;
    const bool wide = first + THREAD_ROWS <= n && (uintptr_t)order.operations % sizeof(uint4) == 0;
    thread_kinds kinds = wide ? read_wide(order.operations, first) : read_bytes(order.operations, n, first);
    if (!put)
        for (uint32_t c = 0; c < columns.count; c++)
            prefetch_elements(columns.at[c], begin, n - begin < LOOM__KIND_BLOCK ? n - begin : LOOM__KIND_BLOCK);
    tell_kinds(&kinds, n, first);
    kind_scan(storage).ExclusiveScan(count_kinds(kinds), before, kind_counts{}, add_counts{}, all);
    if (threadIdx.x <= LOOM__KINDS) {
        uint32_t start = 0;
        for (uint32_t kind = 0; kind < threadIdx.x; kind++)
            start += all.of(kind);
        block.starts[threadIdx.x] = start;
        if (threadIdx.x < LOOM__KINDS)
            block.homes[threadIdx.x] = loom__kind_home(&order, threadIdx.x, blockIdx.x) - start;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        const uint32_t kind = kinds.of(i);
        if (kind < LOOM__KINDS) {
            block.rows[block.starts[kind] + before.of(kind)] =
                (uint16_t)(kind << ROW_BITS | (threadIdx.x * THREAD_ROWS + i));
            before.add(kind, 1);
        }
    }
    __syncthreads();
    for (uint32_t c = 0; c < columns.count; c++) {
        const loom__kind_column &column = columns.at[c];
        const uint32_t unit = loom__widest_word((uintptr_t)column.to | (uintptr_t)column.from | column.width);
        if (unit == 16)
            move_as<uint4, put>(block, column, begin);
        else if (unit == 8)
            move_as<uint64_t, put>(block, column, begin);
        else if (unit == 4)
            move_as<uint32_t, put>(block, column, begin);
        else
            move_as<uint8_t, put>(block, column, begin);
    }
}

cudaError_t scan_bytes(uint64_t count, size_t *bytes)
{
    return cub::DeviceScan::ExclusiveSum(NULL, *bytes, (uint32_t *)NULL, (uint32_t *)NULL, (int64_t)count);
}

/* `scratch`: for the scan, unless places is NULL. */
cudaError_t count_all(const uint8_t *operations, uint64_t n, uint32_t *places, unsigned long long *totals,
                      void *scratch, size_t scratch_bytes, uint64_t counts[LOOM__KINDS], cudaStream_t stream)
{
    const size_t bytes = LOOM__KINDS * sizeof *totals;
    if (counts != NULL)
        RETURN_IF_CUDA_FAILED(cudaMemsetAsync(totals, 0, bytes, stream));
    count_kernel<<<blocks_for(32 * loom__kind_blocks(n)), THREADS, 0, stream>>>(operations, n, places,
                                                                                counts != NULL ? totals : NULL);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    if (places != NULL)
        RETURN_IF_CUDA_FAILED(cub::DeviceScan::ExclusiveSum(scratch, scratch_bytes, places, places,
                                                            (int64_t)loom__kind_places(n), stream));
    if (counts == NULL)
        return cudaSuccess;
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(counts, totals, bytes, cudaMemcpyDeviceToHost, stream));
    return cudaStreamSynchronize(stream);
}

/* ---- rows by hash ---- */

__global__ void __launch_bounds__(THREADS) number_kernel(uint32_t *rows, uint64_t n)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS)
        rows[i] = (uint32_t)i;
}

cudaError_t sort_pairs(uint64_t *hashes, uint32_t *rows, uint64_t n, uint64_t *other_hashes, uint32_t *other_rows,
                       void *scratch, size_t scratch_bytes, cudaStream_t stream)
{
    cub::DoubleBuffer<uint64_t> keys(hashes, other_hashes);
    cub::DoubleBuffer<uint32_t> mates(rows, other_rows);
    number_kernel<<<blocks_for(n), THREADS, 0, stream>>>(rows, n);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(
        cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, mates, (uint32_t)n, 0, 64, stream));
    if (keys.Current() != hashes)
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(hashes, keys.Current(), n * sizeof *hashes, cudaMemcpyDefault, stream));
    if (mates.Current() != rows)
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(rows, mates.Current(), n * sizeof *rows, cudaMemcpyDefault, stream));
    return cudaStreamSynchronize(stream);
}

/* ---- rows by key ---- */

__device__ __forceinline__ bool same_bytes(const unsigned char *a, const unsigned char *b, uint32_t bytes)
{
    uint32_t i = 0;
    if ((((uintptr_t)a | (uintptr_t)b) & 3) == 0)
        for (; i + 4 <= bytes; i += 4)
            if (*(const uint32_t *)(a + i) != *(const uint32_t *)(b + i))
                return false;
    for (; i < bytes; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* begins[i] = 1 if a key begins at place i > 0. */
__global__ void __launch_bounds__(THREADS)
    begin_kernel(const uint64_t *hashes, const uint32_t *rows, const unsigned char *keys, uint32_t key_bytes,
                 uint64_t n, uint32_t *begins, uint32_t *collide)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS) {
        const bool same_hash = i > 0 && hashes[i] == hashes[i - 1];
        if (same_hash &&
            !same_bytes(keys + (uint64_t)rows[i] * key_bytes, keys + (uint64_t)rows[i - 1] * key_bytes, key_bytes))
            *collide = 1;
        begins[i] = i > 0 && !same_hash;
    }
}

__global__ void __launch_bounds__(THREADS)
    first_kernel(const uint32_t *groups, const uint32_t *rows, uint64_t n, uint32_t *firsts)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS)
        if (i == 0 || groups[i] != groups[i - 1])
            firsts[groups[i]] = rows[i];
}

/* ---- sequences ---- */

struct join_effects {
    __device__ __forceinline__ loom__effect operator()(const loom__effect &first, const loom__effect &second) const
    {
        return loom__join_effects(&first, &second);
    }
};

__device__ __forceinline__ bool begins_key(const loom__sequences &all, uint64_t i)
{
    return i == 0 || all.groups[i] != all.groups[i - 1];
}

__global__ void __launch_bounds__(THREADS) effect_kernel(const loom__sequences all, loom__effect *effects)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < all.n; i += (uint64_t)gridDim.x * THREADS) {
        const loom__effect effect = loom__effect_at(&all, i);
        effects[i] = begins_key(all, i)
                         ? loom__effect_to(loom__effect_on(&effect, loom__held_before(&all, all.groups[i])))
                         : effect;
        if (all.multimap && all.operations[all.rows[i]] == LOOM_APPLY_ERASE)
            atomicMax(&all.erased[all.groups[i]], (uint32_t)i + 1);
    }
}

/* effects[i]: scanned, so both of its halves are what the key holds after the row at place i. */
__global__ void __launch_bounds__(THREADS)
    answer_kernel(const loom__sequences all, const loom__effect *effects, unsigned long long *counts)
{
    __shared__ uint32_t told[LOOM__APPLIED_STATUSES];
    if (threadIdx.x < LOOM__APPLIED_STATUSES)
        told[threadIdx.x] = 0;
    __syncthreads();
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < all.n; i += (uint64_t)gridDim.x * THREADS) {
        const uint32_t group = all.groups[i];
        const loom__holding before = begins_key(all, i) ? loom__held_before(&all, group) : effects[i - 1].if_there;
        atomicAdd(&told[loom__answer_row(&all, i, before)], 1u);
        if (i + 1 == all.n || all.groups[i + 1] != group)
            loom__settle_key(&all, group, effects[i].if_there);
        if (all.multimap)
            loom__settle_row(&all, i);
    }
    __syncthreads();
    if (threadIdx.x < LOOM__APPLIED_STATUSES && told[threadIdx.x] > 0)
        atomicAdd(counts + threadIdx.x, (unsigned long long)told[threadIdx.x]);
}

cudaError_t run_all(const loom__sequences &all, loom__effect *effects, unsigned long long *counts, void *scratch,
                    size_t scratch_bytes, uint64_t *told, cudaStream_t stream)
{
    const size_t bytes = LOOM__APPLIED_STATUSES * sizeof *counts;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(counts, 0, bytes, stream));
    if (all.multimap)
        RETURN_IF_CUDA_FAILED(cudaMemsetAsync(all.erased, 0, all.keys * sizeof *all.erased, stream));
    effect_kernel<<<blocks_for(all.n), THREADS, 0, stream>>>(all, effects);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cub::DeviceScan::InclusiveScan(scratch, scratch_bytes, effects, effects, join_effects{},
                                                         (int64_t)all.n, stream));
    answer_kernel<<<blocks_for(all.n), THREADS, 0, stream>>>(all, effects, counts);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(told, counts, bytes, cudaMemcpyDeviceToHost, stream));
    return cudaStreamSynchronize(stream);
}

} // namespace

loom_status cuda_count_operations(loom__machine *machine, const uint8_t *operations, uint64_t n, uint32_t *places,
                                  uint64_t counts[LOOM__KINDS], loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    cuda_place place;
    size_t scratch = 0;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "operations", operations, &place));
    if (places != NULL)
        CUDA_TRY(scan_bytes(loom__kind_places(n), &scratch));
    const bool brought = place != PLACE_DEVICE;
    cuda_layout layout = {0};
    const uint64_t totals_at = layout.add(LOOM__KINDS * sizeof(uint64_t)), scratch_at = layout.add(scratch),
                   copy_at = layout.add(brought ? n : 0);
    return with_memory(machine, layout.bytes, given, "counting operations", [&](unsigned char *memory) {
        if (brought)
            RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(memory + copy_at, operations, n, cudaMemcpyDefault, stream));
        return count_all(brought ? memory + copy_at : operations, n, places, (unsigned long long *)(memory + totals_at),
                         memory + scratch_at, scratch, counts, stream);
    });
}

loom_status cuda_move_by_kind(loom__machine *machine, const loom__kind_order *order, const loom__kind_column *columns,
                              uint32_t count, int put, loom_stream given)
{
    ON_DEVICE((cuda_state *)machine);
    kind_columns some = {{}, count};
    for (uint32_t i = 0; i < count; i++)
        some.at[i] = columns[i];
    auto kernel = put ? move_kernel<true> : move_kernel<false>;
    kernel<<<(unsigned)loom__kind_blocks(order->n), THREADS, 0, (cudaStream_t)given>>>(*order, some);
    return cuda_status(cuda_step(cudaGetLastError()), "moving rows by their operations");
}

loom_status cuda_sort_hashes(loom__machine *machine, uint64_t *hashes, uint64_t n, uint32_t *rows, loom_stream given)
{
    cub::DoubleBuffer<uint64_t> keys;
    cub::DoubleBuffer<uint32_t> mates;
    size_t scratch = 0;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(NULL, scratch, keys, mates, (uint32_t)n, 0, 64));
    cuda_layout layout = {0};
    const uint64_t hashes_at = layout.add(n * sizeof *hashes), rows_at = layout.add(n * sizeof *rows),
                   scratch_at = layout.add(scratch);
    return with_memory(machine, layout.bytes, given, "sorting rows", [&](unsigned char *memory) {
        return sort_pairs(hashes, rows, n, (uint64_t *)(memory + hashes_at), (uint32_t *)(memory + rows_at),
                          memory + scratch_at, scratch, (cudaStream_t)given);
    });
}

loom_status cuda_group_rows(loom__machine *machine, const uint64_t *hashes, const uint32_t *rows, const void *keys,
                            uint32_t key_bytes, uint64_t n, uint32_t *groups, uint32_t *firsts, uint64_t *distinct,
                            int *collide, loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    size_t scratch = 0;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(scan_bytes(n, &scratch));
    cuda_layout layout = {0};
    const uint64_t collide_at = layout.add(sizeof(uint32_t)), scratch_at = layout.add(scratch);
    return with_memory(machine, layout.bytes, given, "bringing equal keys together", [&](unsigned char *memory) {
        uint32_t *collided = (uint32_t *)(memory + collide_at), last = 0, told = 0;
        RETURN_IF_CUDA_FAILED(cudaMemsetAsync(collided, 0, sizeof *collided, stream));
        begin_kernel<<<blocks_for(n), THREADS, 0, stream>>>(hashes, rows, (const unsigned char *)keys, key_bytes, n,
                                                            groups, collided);
        RETURN_IF_CUDA_FAILED(cudaGetLastError());
        RETURN_IF_CUDA_FAILED(
            cub::DeviceScan::InclusiveSum(memory + scratch_at, scratch, groups, groups, (int64_t)n, stream));
        first_kernel<<<blocks_for(n), THREADS, 0, stream>>>(groups, rows, n, firsts);
        RETURN_IF_CUDA_FAILED(cudaGetLastError());
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(&last, groups + n - 1, sizeof last, cudaMemcpyDeviceToHost, stream));
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(&told, collided, sizeof told, cudaMemcpyDeviceToHost, stream));
        RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(stream));
        *distinct = (uint64_t)last + 1;
        *collide = (int)told;
        return cudaSuccess;
    });
}

loom_status cuda_run_sequences(loom__machine *machine, const loom__sequences *all,
                               uint64_t counts[LOOM__APPLIED_STATUSES], loom_stream given)
{
    size_t scratch = 0;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cub::DeviceScan::InclusiveScan(NULL, scratch, (loom__effect *)NULL, (loom__effect *)NULL, join_effects{},
                                            (int64_t)all->n));
    cuda_layout layout = {0};
    const uint64_t effects_at = layout.add(all->n * sizeof(loom__effect)),
                   counts_at = layout.add(LOOM__APPLIED_STATUSES * sizeof(uint64_t)), scratch_at = layout.add(scratch);
    return with_memory(machine, layout.bytes, given, "running operations in order", [&](unsigned char *memory) {
        return run_all(*all, (loom__effect *)(memory + effects_at), (unsigned long long *)(memory + counts_at),
                       memory + scratch_at, scratch, counts, (cudaStream_t)given);
    });
}
