/* Copies pairs out of a table of any engine. One kernel counts the occupied slots in each run of buckets. A second
 * kernel copies each pair to the place that the counts give. One lane works on one bucket. For rows of any width, the
 * second kernel only lists where the rows lie; then several lanes gather each row.
 *
 * An engine whose slots are not those of loom__table_slots has a struct of its own in its place, with the members
 * `partitions`, `buckets` and `slots`, and the functions cuda_slot_holds and cuda_slot_row. */
#ifndef LOOM_CUDA_RETRIEVE_CUH
#define LOOM_CUDA_RETRIEVE_CUH

#include "core/table_slots.h"
#include "machines/cuda/core/cuda_whole.cuh"

#include <cub/block/block_scan.cuh>
#include <string.h>

enum { RETRIEVE_THREADS = 256 };

/* RETRIEVE_SEGMENT: buckets of one thread block. RETRIEVE_WINDOW: segments counted at once. RETRIEVE_LISTED: rows gathered
 * at once. */
const uint64_t RETRIEVE_SEGMENT = RETRIEVE_THREADS, RETRIEVE_WINDOW = 1 << 15, RETRIEVE_LISTED = 1 << 16;

struct retrieve_end { /* position of the first pair without room; `reached`: there is one */
    unsigned long long bucket;
    uint32_t slot, reached;
};

static_assert(RETRIEVE_WINDOW * sizeof(unsigned long long) + sizeof(retrieve_end) +
                      RETRIEVE_LISTED * sizeof(uint64_t) <=
                  SCRATCH_BYTES,
              "they share the scratch");

/* ---- kernels ---- */

__device__ __forceinline__ int cuda_slot_holds(const loom__table_slots &table, uint32_t partition, uint32_t bucket,
                                               uint32_t slot, uint64_t *key, uint64_t *value)
{
    return loom__slot_holds(&table, partition, bucket, slot, key, value);
}

__device__ __forceinline__ uint64_t cuda_slot_row(const loom__table_slots &table, uint32_t partition, uint32_t bucket,
                                                  uint32_t slot)
{
    return loom__slot_row(&table, partition, bucket, slot);
}

/* Finds the lane's bucket, and counts the bucket's pairs from the position on. */
template <class table_type>
__device__ __forceinline__ uint32_t pairs_of_lane(const table_type &table, const loom__position &from,
                                                  uint32_t *first_slot, uint64_t *number)
{
    *number = from.bucket + (uint64_t)blockIdx.x * RETRIEVE_SEGMENT + threadIdx.x;
    *first_slot = *number == from.bucket ? from.slot : 0;
    if (*number >= (uint64_t)table.partitions * table.buckets)
        return 0;
    const uint32_t partition = (uint32_t)(*number / table.buckets), bucket = (uint32_t)(*number % table.buckets);
    uint32_t count = 0;
    uint64_t key, value; /* unused, so the compiler loads neither */
    for (uint32_t slot = *first_slot; slot < table.slots; slot++)
        count += cuda_slot_holds(table, partition, bucket, slot, &key, &value) != 0;
    return count;
}

/* Counts the pairs of each thread block. All threads of the block call this. */
template <class table_type>
__device__ __forceinline__ void count_pairs(const table_type &table, const loom__position &from,
                                            unsigned long long *counts)
{
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
template <class table_type, class visitor>
__device__ __forceinline__ void visit_pairs(const table_type &table, const loom__position &from,
                                            const unsigned long long *offsets, uint64_t room, retrieve_end *end,
                                            visitor visit)
{
    typedef cub::BlockScan<uint32_t, RETRIEVE_THREADS> scan;
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
        if (!cuda_slot_holds(table, partition, bucket, slot, &key, &value))
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

/* ---- the call ---- */

/* A table to retrieve from. */
struct retrieve_shape {
    uint64_t buckets; /* in all */
    uint32_t slots;   /* of a bucket */
    bool listed;      /* rows are listed, and then gathered */
    uint32_t key_bytes, value_bytes;
};

/* What the two steps work on: some segments from a position on. */
struct retrieve_window {
    loom__position from;
    unsigned segments;
    unsigned long long *counts; /* [segments] the first step stores counts; for the second, pairs before each segment */
    /* The second step: */
    void *keys, *values;
    uint64_t room, count; /* it copies the first `count` pairs, at most `room` */
    uint64_t *rows;       /* [room] memory for a list */
    retrieve_end *end;
};

/* Copies into arrays on the device. count(window) and copy(window) launch the two steps. The caller has the stage. Waits
 * for the device. */
template <class counter, class copier>
loom_status retrieve_here(const cuda_stage *stage, const retrieve_shape &shape, loom__position *position, void *keys,
                          void *values, uint64_t room, uint64_t *got, cudaStream_t stream, counter count, copier copy)
{
    unsigned long long *counts = (unsigned long long *)stage->scratch;
    retrieve_end *end = (retrieve_end *)(counts + RETRIEVE_WINDOW), reached;
    uint64_t *rows = (uint64_t *)(end + 1);
    unsigned long long *on_host = (unsigned long long *)stage->pinned[0];
    const uint64_t buckets = shape.buckets;
    uint64_t passed = 0; /* segments of the round before, if all its pairs had room */
    *got = 0;
    while (position->bucket < buckets && *got < room) { /* each round passes a window or ends */
        const uint64_t left = shape.listed && room - *got > RETRIEVE_LISTED ? RETRIEVE_LISTED : room - *got;
        /* Do not count many more pairs than fit; but a table that holds few has many segments without any. */
        const uint64_t fitting = left / shape.slots / RETRIEVE_SEGMENT * 2 + 1,
                       useful = fitting > passed * 2 ? fitting : passed * 2;
        uint64_t segments = (buckets - position->bucket + RETRIEVE_SEGMENT - 1) / RETRIEVE_SEGMENT;
        segments = segments < RETRIEVE_WINDOW ? segments : RETRIEVE_WINDOW;
        segments = segments < useful ? segments : useful;
        uint64_t bytes = segments * sizeof *counts, total = 0;
        retrieve_window window = {*position, (unsigned)segments, counts, NULL, NULL, left, 0, rows, end};
        count(window);
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cudaMemcpyAsync(on_host, counts, bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        for (uint64_t i = 0; i < segments; i++) {
            uint64_t pairs = on_host[i];
            on_host[i] = total;
            total += pairs;
        }
        CUDA_TRY(cudaMemcpyAsync(counts, on_host, bytes, cudaMemcpyHostToDevice, stream));
        CUDA_TRY(cudaMemsetAsync(end, 0, sizeof *end, stream));
        const uint64_t now = total < left ? total : left;
        window.keys = cuda_element(keys, *got, shape.key_bytes);
        window.values = cuda_element(values, *got, shape.value_bytes);
        window.count = now;
        CUDA_TRY(copy(window));
        CUDA_TRY(cudaMemcpyAsync(on_host, end, sizeof *end, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        memcpy(&reached, on_host, sizeof reached);
        *got += now;
        passed = reached.reached ? 0 : segments;
        if (reached.reached) {
            position->bucket = reached.bucket;
            position->slot = reached.slot;
        } else {
            position->bucket += segments * RETRIEVE_SEGMENT;
            position->bucket = position->bucket < buckets ? position->bucket : buckets;
            position->slot = 0;
        }
    }
    return LOOM_OK;
}

/* The same with arrays that may lie anywhere. */
template <class counter, class copier>
loom_status cuda_retrieve_by(cuda_state *cuda, const retrieve_shape &shape, loom__position *position, void *keys,
                             void *values, uint64_t room, uint64_t *got, cudaStream_t stream, counter count,
                             copier copy)
{
    ON_DEVICE(cuda);
    return cuda_retrieve_chunks(
        cuda, shape.key_bytes, shape.value_bytes, keys, values, room, got, stream,
        [&](const cuda_stage *stage, void *to_keys, void *to_values, uint64_t left, uint64_t *now) {
            return retrieve_here(stage, shape, position, to_keys, to_values, left, now, stream, count, copy);
        });
}

#endif
