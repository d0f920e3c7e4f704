/* erase_if for any engine: one kernel reads every slot once, and makes the slots empty whose values lie in the range.
 *
 * A thread block works on one partition, a lane on one slot at a time: neighbouring lanes read neighbouring slots. A
 * bucket has a power of two of lanes, so a lane finds its slot without a division: 8, or 16 if keys of 4 bytes lie side
 * by side. Open tables of 4 + 8 bytes leave 11 of their 16 lanes idle. Each lane reads AHEAD
 * slots before it acts on the first, which keeps enough loads in flight. Nothing else touches the table, and no two
 * lanes touch the same slot.
 *
 * `engine_type` completes the erasures. It has these members, for the device:
 *   uint32_t slot_emptied<kind>(partition, bucket, slot, key)   for each slot; returns the wear
 *   void partition_emptied(partition, wear)                     once for each partition that lost keys; `wear` is the
 *                                                               sum. All slots are empty by then */
#ifndef LOOM_CUDA_ERASE_IF_CUH
#define LOOM_CUDA_ERASE_IF_CUH

#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_outcomes.cuh"

enum { ERASE_IF_THREADS = 256, ERASE_IF_AHEAD = 4 };

/* One slot as a lane has read it. */
struct seen_slot {
    uint64_t key, value;
    bool holds;
};

/* Reads the key or, in pairs of 4 + 4 bytes, the pair. */
template <loom__slot_kind kind>
__device__ __forceinline__ seen_slot see_key(const loom__table_slots &table, uint32_t partition, uint32_t bucket,
                                             uint32_t slot, uint64_t empty, bool is_one)
{
    seen_slot seen = {empty, 0, false};
    if (is_one) {
        const unsigned char *at = loom__slot_key_at(&table, partition, bucket, slot);
        seen.key = loom__slot_number(at, kind == SLOT_PAIR_4_4 ? 8 : slot_key_bytes(kind));
        if (kind == SLOT_PAIR_4_4) {
            seen.value = seen.key >> 32;
            seen.key = (uint32_t)seen.key;
        }
    }
    seen.holds = seen.key != empty;
    return seen;
}

template <loom__slot_kind kind, class engine_type>
__global__ void __launch_bounds__(ERASE_IF_THREADS)
    erase_if_kernel(const loom__table_slots given, const engine_type engine, const loom__value_range range,
                    cuda_counts *counts)
{
    __shared__ uint32_t block_erased, block_wear;
    loom__table_slots table = given;
    table.kind = kind;                                      /* a literal for the compiler */
    const uint32_t lanes = slot_stride(kind) == 4 ? 16 : 8; /* of a bucket; a line has 64 bytes */
    const uint32_t partition = blockIdx.x, end = table.buckets * lanes;
    const uint64_t empty = loom__slots_empty(&table, partition);
    uint32_t held = 0, erased = 0, wear = 0;
    if (threadIdx.x == 0)
        block_erased = block_wear = 0;
    __syncthreads();
    for (uint32_t first = threadIdx.x; first < end; first += ERASE_IF_THREADS * ERASE_IF_AHEAD) {
        seen_slot seen[ERASE_IF_AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < ERASE_IF_AHEAD; i++) {
            const uint32_t at = first + i * ERASE_IF_THREADS;
            seen[i] =
                see_key<kind>(table, partition, at / lanes, at % lanes, empty, at < end && at % lanes < table.slots);
        }
#pragma unroll
        for (uint32_t i = 0; i < ERASE_IF_AHEAD && kind != SLOT_PAIR_4_4; i++) {
            const uint32_t at = first + i * ERASE_IF_THREADS;
            if (seen[i].holds)
                seen[i].value = loom__slot_number(loom__slot_value_at(&table, partition, at / lanes, at % lanes),
                                                  slot_value_bytes(kind));
        }
#pragma unroll
        for (uint32_t i = 0; i < ERASE_IF_AHEAD; i++) {
            const uint32_t at = first + i * ERASE_IF_THREADS;
            held += seen[i].holds;
            if (!seen[i].holds || !loom__value_in_range(&range, seen[i].value))
                continue;
            loom__slot_empty_out(&table, partition, at / lanes, at % lanes);
            wear += engine.template slot_emptied<kind>(partition, at / lanes, at % lanes, seen[i].key);
            erased++;
        }
    }
    const uint32_t warp_erased = __reduce_add_sync(0xffffffffu, erased),
                   warp_wear = __reduce_add_sync(0xffffffffu, wear);
    if (threadIdx.x % 32 == 0 && warp_erased > 0) {
        atomicAdd(&block_erased, warp_erased);
        atomicAdd(&block_wear, warp_wear);
    }
    tell_counts(counts, {(int32_t)erased, (int32_t)(held - erased), 0});
    __syncthreads();
    if (threadIdx.x == 0 && block_erased > 0)
        engine.partition_emptied(partition, block_wear);
}

/* An engine's `erase_if`. Waits only if the device cannot write the result. */
template <class engine_type, class view_type>
loom_status cuda_erase_if(loom__machine *machine, const view_type *view, const loom__table_slots &table,
                          const loom__value_range *range, loom_result *result, loom_stream stream)
{
    const cuda_workspace none = {};
    loom__batch batch = {};
    batch.result = result;
    batch.stream = stream;
    cuda_map_call call = cuda_map_call_on(machine, view, &batch, OP_ERASE_IF, NULL);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    return cuda_with_ticket(&call, &none, [&] {
        cuda_for_kind(table.kind, [&](auto kind) {
            if constexpr (kind() != SLOT_KEY_4 && kind() != SLOT_KEY_8) /* sets have no values */
                erase_if_kernel<kind(), engine_type><<<table.partitions, ERASE_IF_THREADS, 0, call.stream>>>(
                    table, engine_type{*view}, *range, call.counts());
        });
        CUDA_TRY(cudaGetLastError());
        return cuda_finish_call(&call);
    });
}

#endif
