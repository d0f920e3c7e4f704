/* Copies pairs out of a table of any engine. One kernel counts the occupied slots in each run of buckets. A second
 * kernel copies each pair to the place that the counts give. One lane works on one bucket. For rows of any width, the
 * second kernel only lists where the rows lie; then several lanes gather each row. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_whole.cuh"

#include <cub/block/block_scan.cuh>
#include <string.h>

namespace
{

enum { THREADS = 256 };

/* SEGMENT: buckets of one thread block. WINDOW: segments counted at once. LISTED: rows gathered at once. */
const uint64_t SEGMENT = THREADS, WINDOW = 1 << 15;
const uint64_t LISTED = 1 << 16;

struct retrieve_end { /* position of the first pair without room; `reached`: there is one */
    unsigned long long bucket;
    uint32_t slot, reached;
};

static_assert(WINDOW * sizeof(unsigned long long) + sizeof(retrieve_end) + LISTED * sizeof(uint64_t) <= SCRATCH_BYTES,
              "they share the scratch");

/* The same table, with its kind as a literal. */
template <loom__slot_kind kind> __device__ __forceinline__ loom__table_slots of_kind(const loom__table_slots &given)
{
    loom__table_slots table = given;
    table.kind = kind;
    return table;
}

/* Finds the lane's bucket, and counts the bucket's pairs from the position on. */
__device__ __forceinline__ uint32_t pairs_of_lane(const loom__table_slots &table, const loom__position &from,
                                                  uint32_t *first_slot, uint64_t *number)
{
    *number = from.bucket + (uint64_t)blockIdx.x * SEGMENT + threadIdx.x;
    *first_slot = *number == from.bucket ? from.slot : 0;
    if (*number >= (uint64_t)table.partitions * table.buckets)
        return 0;
    const uint32_t partition = (uint32_t)(*number / table.buckets), bucket = (uint32_t)(*number % table.buckets);
    uint32_t count = 0;
    uint64_t key, value; /* unused, so the compiler loads neither */
    for (uint32_t slot = *first_slot; slot < table.slots; slot++)
        count += loom__slot_holds(&table, partition, bucket, slot, &key, &value) != 0;
    return count;
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    count_kernel(const loom__table_slots given, const loom__position from, unsigned long long *counts)
{
    const loom__table_slots table = of_kind<kind>(given);
    __shared__ uint32_t total;
    uint32_t first_slot;
    uint64_t number;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    atomicAdd(&total, pairs_of_lane(table, from, &first_slot, &number));
    __syncthreads();
    if (threadIdx.x == 0)
        counts[blockIdx.x] = total;
}

/* Calls visit(rank, partition, bucket, slot, key, value) for each pair of the lane's bucket for which there is room.
 * Stores the position of the first pair without room. All threads of the block call this. */
template <class visitor>
__device__ __forceinline__ void visit_pairs(const loom__table_slots &table, const loom__position &from,
                                            const unsigned long long *offsets, uint64_t room, retrieve_end *end,
                                            visitor visit)
{
    typedef cub::BlockScan<uint32_t, THREADS> scan;
    __shared__ typename scan::TempStorage storage;
    uint32_t first_slot, before;
    uint64_t number;
    uint32_t count = pairs_of_lane(table, from, &first_slot, &number);
    scan(storage).ExclusiveSum(count, before);
    if (count == 0)
        return;
    const uint32_t partition = (uint32_t)(number / table.buckets), bucket = (uint32_t)(number % table.buckets);
    uint64_t rank = offsets[blockIdx.x] + before;
    for (uint32_t slot = first_slot; slot < table.slots; slot++) {
        uint64_t key, value;
        if (!loom__slot_holds(&table, partition, bucket, slot, &key, &value))
            continue;
        if (rank < room) {
            visit(rank, partition, bucket, slot, key, value);
        } else if (rank == room) {
            end->bucket = number;
            end->slot = slot;
            end->reached = 1;
        }
        rank++;
    }
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    copy_kernel(const loom__table_slots given, const loom__position from, const unsigned long long *offsets, void *keys,
                void *values, uint64_t room, retrieve_end *end)
{
    visit_pairs(of_kind<kind>(given), from, offsets, room, end,
                [&](uint64_t rank, uint32_t, uint32_t, uint32_t, uint64_t key, uint64_t value) {
                    put_number(slot_key_bytes(kind), keys, rank, key);
                    if (values != NULL)
                        put_number(slot_value_bytes(kind), values, rank, value);
                });
}

/* For a table with rows: lists the numbers of the rows. Also copies the keys, unless the rows hold them. */
template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    list_kernel(const loom__table_slots given, const loom__position from, const unsigned long long *offsets, void *keys,
                uint64_t *rows, uint64_t room, retrieve_end *end)
{
    const loom__table_slots table = of_kind<kind>(given);
    visit_pairs(table, from, offsets, room, end,
                [&](uint64_t rank, uint32_t partition, uint32_t bucket, uint32_t slot, uint64_t key, uint64_t) {
                    rows[rank] = loom__slot_row(&table, partition, bucket, slot);
                    if (table.row_key_bytes == 0) /* otherwise the row holds it */
                        put_number(slot_key_bytes(kind), keys, rank, key);
                });
}

/* Copies the first `count` pairs of some segments; `count` is at most `room`. offsets[i] is the number of pairs before
 * segment i. */
cudaError_t launch_copy(const loom__table_slots *table, const loom__position &from, const unsigned long long *offsets,
                        uint64_t segments, void *keys, void *values, uint64_t room, uint64_t count, uint64_t *rows,
                        retrieve_end *end, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)segments;
    if (!loom__slots_have_rows(table)) {
        cuda_for_any_kind(table->kind, [&](auto kind) {
            copy_kernel<kind()><<<blocks, THREADS, 0, stream>>>(*table, from, offsets, keys, values, room, end);
        });
        return cudaGetLastError();
    }
    cuda_for_any_kind(table->kind, [&](auto kind) {
        list_kernel<kind()><<<blocks, THREADS, 0, stream>>>(*table, from, offsets, keys, rows, room, end);
    });
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(
        cuda_gather_rows(keys, table->rows, table->row_key_bytes, table->row_key_stride, rows, count, stream));
    if (table->row_variable & LOOM__VARIABLE_KEYS)
        RETURN_IF_CUDA_FAILED(cuda_resolve_strings(keys, count, table->heap, stream));
    if (values == NULL)
        return cudaSuccess;
    RETURN_IF_CUDA_FAILED(cuda_gather_rows(values, table->row_values, table->row_value_bytes, table->row_value_stride,
                                           rows, count, stream));
    return table->row_variable & LOOM__VARIABLE_VALUES ? cuda_resolve_strings(values, count, table->heap, stream)
                                                       : cudaSuccess;
}

/* Copies into arrays on the device. The caller has the stage. Waits for the device. */
loom_status retrieve_here(const cuda_stage *stage, const loom__table_slots *table, loom__position *position, void *keys,
                          void *values, uint64_t room, uint64_t *got, cudaStream_t stream)
{
    unsigned long long *counts = (unsigned long long *)stage->scratch;
    retrieve_end *end = (retrieve_end *)(counts + WINDOW), reached;
    uint64_t *rows = (uint64_t *)(end + 1);
    const bool listed = loom__slots_have_rows(table) != 0;
    unsigned long long *on_host = (unsigned long long *)stage->pinned[0];
    const uint64_t buckets = (uint64_t)table->partitions * table->buckets, slots = table->slots;
    uint64_t passed = 0; /* segments of the round before, if all its pairs had room */
    *got = 0;
    while (position->bucket < buckets && *got < room) { /* each round passes a window or ends */
        const uint64_t left = listed && room - *got > LISTED ? LISTED : room - *got;
        /* Do not count many more pairs than fit; but a table that holds few has many segments without any. */
        const uint64_t fitting = left / slots / SEGMENT * 2 + 1, useful = fitting > passed * 2 ? fitting : passed * 2;
        uint64_t segments = (buckets - position->bucket + SEGMENT - 1) / SEGMENT;
        segments = segments < WINDOW ? segments : WINDOW;
        segments = segments < useful ? segments : useful;
        uint64_t bytes = segments * sizeof *counts, total = 0;
        cuda_for_any_kind(table->kind, [&](auto kind) {
            count_kernel<kind()><<<(unsigned)segments, THREADS, 0, stream>>>(*table, *position, counts);
        });
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cudaMemcpyAsync(on_host, counts, bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        for (uint64_t i = 0; i < segments; i++) {
            uint64_t count = on_host[i];
            on_host[i] = total;
            total += count;
        }
        CUDA_TRY(cudaMemcpyAsync(counts, on_host, bytes, cudaMemcpyHostToDevice, stream));
        CUDA_TRY(cudaMemsetAsync(end, 0, sizeof *end, stream));
        const uint64_t now = total < left ? total : left;
        CUDA_TRY(launch_copy(table, *position, counts, segments, cuda_element(keys, *got, loom__slots_key_bytes(table)),
                             cuda_element(values, *got, loom__slots_value_bytes(table)), left, now, rows, end, stream));
        CUDA_TRY(cudaMemcpyAsync(on_host, end, sizeof *end, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        memcpy(&reached, on_host, sizeof reached);
        *got += now;
        passed = reached.reached ? 0 : segments;
        if (reached.reached) {
            position->bucket = reached.bucket;
            position->slot = reached.slot;
        } else {
            position->bucket += segments * SEGMENT;
            position->bucket = position->bucket < buckets ? position->bucket : buckets;
            position->slot = 0;
        }
    }
    return LOOM_OK;
}

} // namespace

loom_status cuda_retrieve(cuda_state *cuda, const loom__table_slots *table, loom__position *position, void *keys,
                          void *values, uint64_t room, uint64_t *got, cudaStream_t stream)
{
    const uint32_t key_bytes = loom__slots_key_bytes(table), value_bytes = loom__slots_value_bytes(table);
    ON_DEVICE(cuda);
    return cuda_retrieve_chunks(
        cuda, key_bytes, value_bytes, keys, values, room, got, stream,
        [&](const cuda_stage *stage, void *to_keys, void *to_values, uint64_t left, uint64_t *now) {
            return retrieve_here(stage, table, position, to_keys, to_values, left, now, stream);
        });
}
