/* Items of an insertion after its first step (cuda_perfect.cuh): where they come from, and how their results are
 * reported. */
#ifndef LOOM_CUDA_PERFECT_ITEMS_CUH
#define LOOM_CUDA_PERFECT_ITEMS_CUH

#include "engines/perfect/perfect_ops.h"
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/perfect/cuda_perfect.cuh"

/* All threads: return the number of the block's next task, after its first. A counter, zero at first, hands out tasks,
 * since they take different times. */
__device__ __forceinline__ uint32_t next_item(uint32_t *counter)
{
    __shared__ uint32_t item;
    __syncthreads();
    if (threadIdx.x == 0)
        item = gridDim.x + atomicAdd(counter, 1u);
    __syncthreads();
    return item;
}

/* Notes an item for the owner of its partition. Returns what belongs into lists.next: if the item goes into the
 * partition's list, the entry that follows it there; otherwise 0. */
__device__ __forceinline__ uint32_t note_item(const cuda_perfect_lists &lists, uint32_t partition, uint32_t index)
{
    const uint32_t at = atomicAdd(&lists.counts[partition], 1u);
    if (at == 0)
        lists.touched[atomicAdd(&lists.counters->touched, 1u)] = partition;
    if (at + 1 == lists.least)
        lists.crowded[atomicAdd(&lists.counters->crowded, 1u)] = partition;
    if (at >= lists.room)
        return atomicExch(&lists.heads[partition], index + 1) | CUDA_PERFECT_LISTED;
    lists.items[(uint64_t)partition * lists.room + at] = index;
    return 0;
}

__device__ __forceinline__ slot_mode mode_of(cuda_op op)
{
    return op == OP_OVERWRITE ? SLOT_OVERWRITE
           : op == OP_FETCH   ? SLOT_FETCH
           : op == OP_COMBINE ? SLOT_COMBINE
                              : SLOT_KEEP;
}

template <loom__slot_kind kind> __device__ __forceinline__ uint64_t key_of(const cuda_batch &batch, uint64_t index)
{
    return slot_key_bytes(kind) == 4 ? ((const uint32_t *)batch.keys)[index] : ((const uint64_t *)batch.keys)[index];
}

/* Without values every key has the value 1, which counters add up. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint64_t value_of(const cuda_perfect_chunk &chunk, uint64_t index)
{
    const cuda_batch &batch = chunk.batch;
    if (slot_value_bytes(kind) == 0 || batch.values == NULL)
        return 1;
    if (chunk.op == OP_COMBINE && slot_value_bytes(kind) == 8 && batch.widening != LOOM__WIDEN_NOT)
        return loom__widen(batch.widening, ((const uint32_t *)batch.values)[index]);
    return slot_value_bytes(kind) == 4 ? ((const uint32_t *)batch.values)[index]
                                       : ((const uint64_t *)batch.values)[index];
}

/* The group inserts an item, if its bucket has room. *value gets the item's value, or with OP_FETCH what the table
 * holds. `shared`: as in perfect_insert_alone. */
template <loom__slot_kind kind>
__device__ __forceinline__ perfect_outcome insert_item(const cuda_perfect_chunk &chunk, lane_group alone, int shared,
                                                       uint64_t index, uint64_t *value)
{
    const perfect_seek seek = perfect_seek_key(kind, &chunk.view, key_of<kind>(chunk.batch, index));
    *value = value_of<kind>(chunk, index);
    return perfect_insert_alone(kind, mode_of(chunk.op), chunk.batch.rule, shared, alone, &chunk.view, &seek, value);
}

/* One lane: reports the outcome of an item, and with OP_FETCH the value that the table holds. OVERFLOW: the item is
 * refused. */
template <loom__slot_kind kind>
__device__ __forceinline__ void tell_item(const cuda_perfect_chunk &chunk, uint64_t index, perfect_outcome outcome,
                                          uint64_t value, outcome_counts *counts)
{
    const cuda_batch &batch = chunk.batch;
    counts->ok += outcome == PERFECT_DONE;
    counts->exists += outcome == PERFECT_WAS_THERE;
    counts->full += outcome == PERFECT_OVERFLOW;
    if (batch.status != NULL)
        batch.status[index] = outcome == PERFECT_DONE        ? LOOM_OK
                              : outcome == PERFECT_WAS_THERE ? LOOM_EXISTS
                                                             : LOOM_FULL;
    if (chunk.op == OP_FETCH && batch.found_values != NULL)
        put_number(slot_value_bytes(kind), batch.found_values, index, outcome == PERFECT_OVERFLOW ? 0 : value);
}

#endif
