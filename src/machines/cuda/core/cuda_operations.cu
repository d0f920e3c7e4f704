/* Batches that mix operations (core/machine.h, core/operations.h).
 *
 * Rows by kind. A warp counts the kinds of LOOM__KIND_BLOCK rows, one scan over all counts says where the rows of each
 * block and kind go, and warps move the elements. Nobody stores where rows go: whoever brings answers back reads the
 * operations again, a byte for each row instead of the four of a row number. Bringing answers back writes parts of
 * 32-byte sectors, which DRAM reads first.
 *
 * Sequences. The effects of all rows are scanned at once, so a key that half of the rows have takes no longer than many
 * keys. A scan moves 64 bytes for each row, and answers read 32. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_call.cuh"

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

enum {
    WARPS = THREADS / 32,
    LANE_READS = LOOM__KIND_BLOCK / (32 * sizeof(uint4)), /* of 16 operations, of each lane */
    MOST_AT_ONCE = 8,                                     /* rows of a lane that are moved at once */
    NO_KIND = 7                                           /* of rows that are not there */
};
static_assert((int)LOOM__KINDS <= (int)NO_KIND, "kinds have 3 bits");
static_assert(LOOM__KIND_BLOCK % (32 * sizeof(uint4)) == 0 && LOOM__KIND_BLOCK % (32 * MOST_AT_ONCE) == 0,
              "whole steps");

/* The block of rows that a warp takes. */
struct warp_rows {
    uint64_t block, begin;
    uint32_t lane;

    __device__ __forceinline__ warp_rows()
        : block((uint64_t)blockIdx.x * WARPS + threadIdx.x / 32), begin(block * LOOM__KIND_BLOCK),
          lane(threadIdx.x % 32)
    {
    }
    /* The first of the 16 rows that this lane reads in step i. */
    __device__ __forceinline__ uint64_t first(int i) const
    {
        return begin + (i * 32 + lane) * sizeof(uint4);
    }
};

/* Kinds of four rows, from `first` on, of their operations. */
__device__ __forceinline__ uint32_t four_kinds(uint32_t operations, uint64_t n, uint64_t first)
{
    const uint32_t kinds = __vminu4(operations, LOOM__OPERATIONS * 0x01010101u);
    if (first + 4 <= n)
        return kinds;
    const uint32_t absent = first < n ? 0xffffffffu << 8 * (uint32_t)(n - first) : 0xffffffffu;
    return (kinds & ~absent) | (NO_KIND * 0x01010101u & absent);
}

/* Reads the kinds of this lane's rows. */
__device__ __forceinline__ void read_kinds(const uint8_t *operations, uint64_t n, const warp_rows &own,
                                           uint4 kinds[LANE_READS])
{
    if (own.begin + LOOM__KIND_BLOCK <= n && (uintptr_t)operations % sizeof(uint4) == 0) {
#pragma unroll
        for (int i = 0; i < LANE_READS; i++)
            kinds[i] = __ldcs((const uint4 *)(operations + own.first(i)));
    } else {
#pragma unroll
        for (int i = 0; i < LANE_READS; i++) {
            uint32_t words[4] = {};
#pragma unroll
            for (uint32_t b = 0; b < sizeof(uint4); b++)
                if (own.first(i) + b < n)
                    words[b / 4] |= (uint32_t)operations[own.first(i) + b] << b % 4 * 8;
            kinds[i] = {words[0], words[1], words[2], words[3]};
        }
    }
#pragma unroll
    for (int i = 0; i < LANE_READS; i++)
        kinds[i] = {four_kinds(kinds[i].x, n, own.first(i)), four_kinds(kinds[i].y, n, own.first(i) + 4),
                    four_kinds(kinds[i].z, n, own.first(i) + 8), four_kinds(kinds[i].w, n, own.first(i) + 12)};
}

/* Counts of a warp by kind: even[0] has kinds 0 and 4, even[1] 2 and 6; odd[0] 1 and 5, odd[1] 3 and 7. */
struct kind_counts {
    uint32_t even[2], odd[2];

    __device__ __forceinline__ uint32_t of(uint32_t kind) const
    {
        const uint32_t some = kind % 2 ? odd[kind / 2 % 2] : even[kind / 2 % 2];
        return kind < 4 ? some & 0xffffu : some >> 16;
    }
};

/* Adds the kinds of eight rows to a word with 4 bits for each kind. */
__device__ __forceinline__ uint32_t eight_kinds(uint32_t four, uint32_t other_four)
{
    uint32_t counts = 0;
#pragma unroll
    for (int b = 0; b < 4; b++)
        counts += (1u << ((four >> 8 * b & 7) * 4)) + (1u << ((other_four >> 8 * b & 7) * 4));
    return counts;
}

__device__ __forceinline__ kind_counts count_kinds(const uint4 kinds[LANE_READS])
{
    static_assert(LANE_READS * sizeof(uint4) <= 255 && LOOM__KIND_BLOCK < 1 << 16, "no count overflows");
    uint32_t even = 0, odd = 0; /* 8 bits for each kind */
#pragma unroll
    for (int i = 0; i < LANE_READS; i++) {
        const uint32_t a = eight_kinds(kinds[i].x, kinds[i].y), b = eight_kinds(kinds[i].z, kinds[i].w);
        even += (a & 0x0f0f0f0fu) + (b & 0x0f0f0f0fu);
        odd += (a >> 4 & 0x0f0f0f0fu) + (b >> 4 & 0x0f0f0f0fu);
    }
    kind_counts counts;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        counts.even[half] = __reduce_add_sync(0xffffffffu, even >> 8 * half & 0x00ff00ffu);
        counts.odd[half] = __reduce_add_sync(0xffffffffu, odd >> 8 * half & 0x00ff00ffu);
    }
    return counts;
}

/* A warp counts a block of rows. `places` and `totals` may be NULL. places[kind * blocks + block]: how many rows of the
 * block are of this kind. */
__global__ void __launch_bounds__(THREADS)
    count_kernel(const uint8_t *operations, uint64_t n, uint32_t *places, unsigned long long *totals)
{
    __shared__ uint32_t sums[LOOM__KINDS];
    const warp_rows own;
    const uint64_t blocks = loom__kind_blocks(n);
    uint4 kinds[LANE_READS];
    if (threadIdx.x < LOOM__KINDS)
        sums[threadIdx.x] = 0;
    read_kinds(operations, n, own, kinds);
    const kind_counts counts = count_kinds(kinds);
    if (places != NULL && own.lane < LOOM__KINDS && own.block < blocks)
        places[own.lane * blocks + own.block] = counts.of(own.lane);
    if (totals == NULL)
        return;
    __syncthreads();
    if (own.lane < LOOM__KINDS)
        atomicAdd(sums + own.lane, counts.of(own.lane));
    __syncthreads();
    if (threadIdx.x < LOOM__KINDS && sums[threadIdx.x] > 0)
        atomicAdd(totals + threadIdx.x, (unsigned long long)sums[threadIdx.x]);
}

/* Some rows of a lane: their kinds, and where they go. Their numbers are `row`, row + 32 and so on. */
template <int at_once> struct moving_rows {
    uint64_t row;
    uint32_t kinds[at_once], homes[at_once];
};

/* `next` of lane k: where the next row of kind k goes. All lanes of the warp call this. */
template <int at_once>
__device__ __forceinline__ void find_homes(moving_rows<at_once> *rows, uint32_t lane, uint32_t *next)
{
    const uint32_t below = (1u << lane) - 1;
#pragma unroll
    for (int u = 0; u < at_once; u++) {
        const uint32_t kind = rows->kinds[u];
        uint32_t bits[3];
#pragma unroll
        for (int b = 0; b < 3; b++)
            bits[b] = __ballot_sync(0xffffffffu, kind >> b & 1);
        auto lanes_of = [&](uint32_t other) {
            uint32_t lanes = 0xffffffffu;
#pragma unroll
            for (int b = 0; b < 3; b++)
                lanes &= bits[b] ^ ((other >> b & 1) - 1);
            return lanes;
        };
        rows->homes[u] = __shfl_sync(0xffffffffu, *next, kind) + __popc(lanes_of(kind) & below);
        *next += __popc(lanes_of(lane));
    }
}

/* Elements of one unit. */
template <class unit, bool put, int at_once>
__device__ __forceinline__ void move_whole(const loom__kind_column &column, const moving_rows<at_once> &rows)
{
    unit *to = (unit *)column.to, elements[at_once];
    const unit *from = (const unit *)column.from;
#pragma unroll
    for (int u = 0; u < at_once; u++)
        if (column.kinds >> rows.kinds[u] & 1)
            elements[u] = __ldcs(from + (put ? rows.homes[u] : rows.row + 32 * u));
#pragma unroll
    for (int u = 0; u < at_once; u++)
        if (column.kinds >> rows.kinds[u] & 1)
            to[put ? rows.row + 32 * u : rows.homes[u]] = elements[u];
}

/* Elements of several units, which all lanes move together. */
template <class unit, bool put>
__device__ __forceinline__ void move_pieces(const loom__kind_column &column, const moving_rows<1> &rows, uint32_t lane)
{
    const uint32_t units = column.width / (uint32_t)sizeof(unit);
    unit *to = (unit *)column.to;
    const unit *from = (const unit *)column.from;
    const uint64_t first = rows.row - lane;
    for (uint32_t i = lane; i < 32 * units; i += 32) {
        const uint32_t of = i / units, within = i % units; /* which lane's row */
        const uint32_t kind = __shfl_sync(0xffffffffu, rows.kinds[0], of);
        const uint64_t home = __shfl_sync(0xffffffffu, rows.homes[0], of), row = first + of;
        if (column.kinds >> kind & 1)
            to[(put ? row : home) * units + within] = from[(put ? home : row) * units + within];
    }
}

/* Elements of 1, 4 and 8 bytes are moved several at a time. */
__host__ __device__ __forceinline__ bool is_narrow(const loom__kind_column &column)
{
    return column.width == 1 || ((column.width == 4 || column.width == 8) &&
                                 ((uintptr_t)column.to | (uintptr_t)column.from) % column.width == 0);
}

template <bool put, int at_once>
__device__ __forceinline__ void move_column(const loom__kind_column &column, const moving_rows<at_once> &rows,
                                            uint32_t lane)
{
    if constexpr (at_once > 1) {
        if (column.width == 8)
            move_whole<uint64_t, put>(column, rows);
        else if (column.width == 4)
            move_whole<uint32_t, put>(column, rows);
        else
            move_whole<uint8_t, put>(column, rows);
    } else {
        const uint32_t unit = loom__widest_word((uintptr_t)column.to | (uintptr_t)column.from | column.width);
        if (unit == 16)
            move_pieces<uint4, put>(column, rows, lane);
        else if (unit == 8)
            move_pieces<uint64_t, put>(column, rows, lane);
        else if (unit == 4)
            move_pieces<uint32_t, put>(column, rows, lane);
        else
            move_pieces<uint8_t, put>(column, rows, lane);
    }
}

struct kind_columns {
    loom__kind_column at[LOOM__KIND_COLUMNS];
    uint32_t count;
};

enum { CACHE_LINE = 128, MOST_PREFETCHED = 16 /* bytes of an element */ };

/* Elements come from memory while the warp reads its operations. */
__device__ __forceinline__ void prefetch_elements(const loom__kind_column &column, const warp_rows &own, uint64_t n)
{
    const uint64_t rows = own.begin >= n ? 0 : n - own.begin < LOOM__KIND_BLOCK ? n - own.begin : LOOM__KIND_BLOCK;
    const unsigned char *from = (const unsigned char *)column.from + own.begin * column.width;
    if (column.width <= MOST_PREFETCHED)
        for (uint32_t at = own.lane * CACHE_LINE; at < rows * column.width; at += 32 * CACHE_LINE)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
}

/* A warp moves a block of rows, a row for each lane at a time. Votes on the three bits of kinds tell a lane how many of
 * the lanes below have its kind. */
template <bool put, int at_once>
__global__ void __launch_bounds__(THREADS, 4)
    move_kernel(const __grid_constant__ loom__kind_order order, const __grid_constant__ kind_columns columns)
{
    __shared__ uint4 shared_kinds[WARPS][LOOM__KIND_BLOCK / sizeof(uint4)];
    const warp_rows own;
    uint4 *all_kinds = shared_kinds[threadIdx.x / 32], kinds[LANE_READS];
    if (own.begin >= order.n)
        return;
    if (!put)
        for (uint32_t c = 0; c < columns.count; c++)
            prefetch_elements(columns.at[c], own, order.n);
    read_kinds(order.operations, order.n, own, kinds);
#pragma unroll
    for (int i = 0; i < LANE_READS; i++)
        all_kinds[i * 32 + own.lane] = kinds[i];
    uint32_t next = own.lane < LOOM__KINDS ? (uint32_t)loom__kind_home(&order, own.lane, own.block) : 0;
    __syncwarp();
    for (uint32_t first = 0; first < LOOM__KIND_BLOCK; first += 32 * at_once) {
        moving_rows<at_once> rows;
        rows.row = own.begin + first + own.lane;
#pragma unroll
        for (int u = 0; u < at_once; u++)
            rows.kinds[u] = ((const uint8_t *)all_kinds)[first + 32 * u + own.lane];
        find_homes(&rows, own.lane, &next);
        for (uint32_t c = 0; c < columns.count; c++)
            move_column<put, at_once>(columns.at[c], rows, own.lane);
    }
}

unsigned blocks_for_kinds(uint64_t n)
{
    return (unsigned)((loom__kind_blocks(n) + WARPS - 1) / WARPS);
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
    count_kernel<<<blocks_for_kinds(n), THREADS, 0, stream>>>(operations, n, places, counts != NULL ? totals : NULL);
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

cudaError_t run_all(const loom__sequences &all, unsigned long long *counts, void *scratch, size_t scratch_bytes,
                    uint64_t *told, cudaStream_t stream)
{
    const size_t bytes = LOOM__APPLIED_STATUSES * sizeof *counts;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(counts, 0, bytes, stream));
    if (all.multimap)
        RETURN_IF_CUDA_FAILED(cudaMemsetAsync(all.erased, 0, all.keys * sizeof *all.erased, stream));
    effect_kernel<<<blocks_for(all.n), THREADS, 0, stream>>>(all, all.effects);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cub::DeviceScan::InclusiveScan(scratch, scratch_bytes, all.effects, all.effects,
                                                         join_effects{}, (int64_t)all.n, stream));
    answer_kernel<<<blocks_for(all.n), THREADS, 0, stream>>>(all, all.effects, counts);
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
    bool narrow = true;
    for (uint32_t i = 0; i < count; i++) {
        some.at[i] = columns[i];
        narrow = narrow && is_narrow(columns[i]);
    }
    auto kernel = narrow ? (put ? move_kernel<true, MOST_AT_ONCE> : move_kernel<false, MOST_AT_ONCE>)
                         : (put ? move_kernel<true, 1> : move_kernel<false, 1>);
    kernel<<<blocks_for_kinds(order->n), THREADS, 0, (cudaStream_t)given>>>(*order, some);
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
    const uint64_t counts_at = layout.add(LOOM__APPLIED_STATUSES * sizeof(uint64_t)), scratch_at = layout.add(scratch);
    return with_memory(machine, layout.bytes, given, "running operations in order", [&](unsigned char *memory) {
        return run_all(*all, (unsigned long long *)(memory + counts_at), memory + scratch_at, scratch, counts,
                       (cudaStream_t)given);
    });
}
