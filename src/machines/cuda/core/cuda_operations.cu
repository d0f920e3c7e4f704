/* Batches that mix operations (core/machine.h, core/operations.h).
 *
 * Rows by operation. A thread block counts the operations of BLOCK_ROWS rows, one scan over all counts says where the
 * rows of each block and operation go, and each block writes its row numbers from shared memory, side by side. Reads 2
 * bytes and writes 4 for each row.
 *
 * Sequences. The effects of all rows are scanned at once, so a key that half of the rows have takes no longer than many
 * keys. A scan moves 64 bytes for each row, and answers read 32. */
#include "machines/cuda/core/cuda_call.cuh"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 16, KINDS = LOOM__OPERATIONS + 1 };

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

/* ---- rows by operation ---- */

enum { THREAD_ROWS = 16, BLOCK_ROWS = THREADS * THREAD_ROWS };

/* Counts of the kinds of a block's rows, 16 bits each. */
struct kind_counts {
    uint64_t words[2];

    __device__ __forceinline__ uint32_t of(uint32_t kind) const
    {
        return (uint32_t)(words[kind / 4] >> kind % 4 * 16) & 0xffffu;
    }
    __device__ __forceinline__ void add(uint32_t kind)
    {
        words[kind / 4] += (uint64_t)1 << kind % 4 * 16;
    }
};

struct add_counts {
    __device__ __forceinline__ kind_counts operator()(const kind_counts &a, const kind_counts &b) const
    {
        return {{a.words[0] + b.words[0], a.words[1] + b.words[1]}};
    }
};

typedef cub::BlockScan<kind_counts, THREADS> kind_scan;

__device__ __forceinline__ uint32_t kind_of(uint32_t operation)
{
    return operation < LOOM__OPERATIONS ? operation : (uint32_t)LOOM__OPERATIONS;
}

/* Reads the operations of a thread's rows, which begin at row `first`, and counts them. Returns how many there are. */
__device__ __forceinline__ uint32_t read_kinds(const uint8_t *operations, uint64_t n, uint64_t first,
                                               uint8_t kinds[THREAD_ROWS], kind_counts *counts)
{
    const uint32_t count = first >= n ? 0 : n - first < THREAD_ROWS ? (uint32_t)(n - first) : (uint32_t)THREAD_ROWS;
    *counts = {};
    if (count == THREAD_ROWS && (uintptr_t)operations % sizeof(uint4) == 0) {
        static_assert(THREAD_ROWS == sizeof(uint4), "one load");
        *(uint4 *)kinds = __ldcs((const uint4 *)(operations + first));
    } else {
        for (uint32_t i = 0; i < count; i++)
            kinds[i] = operations[first + i];
    }
#pragma unroll
    for (uint32_t i = 0; i < THREAD_ROWS; i++)
        if (i < count) {
            kinds[i] = (uint8_t)kind_of(kinds[i]);
            counts->add(kinds[i]);
        }
    return count;
}

/* places[kind * blocks + block] = how many rows of the block are of this kind. */
__global__ void __launch_bounds__(THREADS) count_kernel(const uint8_t *operations, uint64_t n, uint32_t *places)
{
    __shared__ typename kind_scan::TempStorage storage;
    alignas(16) uint8_t kinds[THREAD_ROWS];
    kind_counts mine, before, all;
    read_kinds(operations, n, ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * THREAD_ROWS, kinds, &mine);
    kind_scan(storage).ExclusiveScan(mine, before, kind_counts{}, add_counts{}, all);
    if (threadIdx.x < KINDS)
        places[(uint64_t)threadIdx.x * gridDim.x + blockIdx.x] = all.of(threadIdx.x);
}

/* places: as above, scanned. */
__global__ void __launch_bounds__(THREADS)
    place_kernel(const uint8_t *operations, uint64_t n, const uint32_t *places, uint32_t *rows)
{
    __shared__ typename kind_scan::TempStorage storage;
    __shared__ uint32_t sorted[BLOCK_ROWS], starts[KINDS + 1], homes[KINDS];
    alignas(16) uint8_t kinds[THREAD_ROWS];
    kind_counts mine, before, all;
    const uint64_t block_first = (uint64_t)blockIdx.x * BLOCK_ROWS;
    const uint64_t first = block_first + (uint64_t)threadIdx.x * THREAD_ROWS;
    const uint32_t count = read_kinds(operations, n, first, kinds, &mine);
    kind_scan(storage).ExclusiveScan(mine, before, kind_counts{}, add_counts{}, all);
    if (threadIdx.x <= KINDS) {
        uint32_t start = 0;
        for (uint32_t kind = 0; kind < threadIdx.x && kind < KINDS; kind++)
            start += all.of(kind);
        starts[threadIdx.x] = start;
        if (threadIdx.x < KINDS)
            homes[threadIdx.x] = places[(uint64_t)threadIdx.x * gridDim.x + blockIdx.x] - start;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < THREAD_ROWS; i++)
        if (i < count) {
            sorted[starts[kinds[i]] + before.of(kinds[i])] = (uint32_t)(first + i);
            before.add(kinds[i]);
        }
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < starts[KINDS]; at += THREADS) {
        uint32_t kind = 0;
#pragma unroll
        for (uint32_t k = 1; k < KINDS; k++)
            kind += at >= starts[k];
        rows[homes[kind] + at] = sorted[at];
    }
}

cudaError_t scan_bytes(uint64_t count, size_t *bytes)
{
    return cub::DeviceScan::ExclusiveSum(NULL, *bytes, (uint32_t *)NULL, (uint32_t *)NULL, (int64_t)count);
}

cudaError_t sort_rows(const uint8_t *operations, uint64_t n, uint32_t *places, void *scratch, size_t scratch_bytes,
                      uint32_t *rows, uint64_t counts[KINDS], cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((n + BLOCK_ROWS - 1) / BLOCK_ROWS);
    uint32_t starts[KINDS + 1];
    count_kernel<<<blocks, THREADS, 0, stream>>>(operations, n, places);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cub::DeviceScan::ExclusiveSum(scratch, scratch_bytes, places, places,
                                                        (int64_t)((uint64_t)KINDS * blocks), stream));
    if (rows != NULL)
        place_kernel<<<blocks, THREADS, 0, stream>>>(operations, n, places, rows);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cudaMemcpy2DAsync(starts, sizeof *starts, places, (size_t)blocks * sizeof *places,
                                            sizeof *starts, KINDS, cudaMemcpyDeviceToHost, stream));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(stream));
    starts[KINDS] = (uint32_t)n;
    for (uint32_t kind = 0; kind < KINDS; kind++)
        counts[kind] = starts[kind + 1] - starts[kind];
    return cudaSuccess;
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

loom_status cuda_sort_operations(loom__machine *machine, const uint8_t *operations, uint64_t n, uint32_t *rows,
                                 uint64_t counts[KINDS], loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    const uint64_t places = (n + BLOCK_ROWS - 1) / BLOCK_ROWS * KINDS;
    cuda_place place;
    size_t scratch = 0;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "operations", operations, &place));
    CUDA_TRY(scan_bytes(places, &scratch));
    const bool brought = place != PLACE_DEVICE;
    cuda_layout layout = {0};
    const uint64_t places_at = layout.add(places * sizeof(uint32_t)), scratch_at = layout.add(scratch),
                   copy_at = layout.add(brought ? n : 0);
    return with_memory(machine, layout.bytes, given, "sorting operations", [&](unsigned char *memory) {
        const uint8_t *from = brought ? memory + copy_at : operations;
        if (brought)
            RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(memory + copy_at, operations, n, cudaMemcpyDefault, stream));
        return sort_rows(from, n, (uint32_t *)(memory + places_at), memory + scratch_at, scratch, rows, counts, stream);
    });
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
