/* Step 3 of an insertion (cuda_perfect.cuh). Thread blocks own one crowded partition after the other, and insert many
 * keys into a partition at once (perfect_repair.h). Keys that are left go to cuda_perfect_room.cu. Partitions with
 * fewer than PERFECT_LEAST_COMING keys go there directly, since that costs less. cuda_perfect_recode.cu comes first, if
 * partitions get at most PERFECT_MOST_BESIDE keys on average.
 *
 * Least traffic: one read of each crowded partition, since its buckets and cells are counted as a whole, and some ten
 * buckets for each new key. 10^6 keys into a table of 10^8 on an H200, load 0.9: 0.9 GB, 0.2 ms at the speed of a copy.
 * The step takes 1.2 ms, and 0.74 at load 0.8. At 0.8, half of its instructions count the table's keys. Warps wait at
 * barriers for a third of the time, with five blocks per multiprocessor. When the step considered all cells in each
 * round, it took 1.4 and 0.86 ms. All of this was measured when single lanes, not groups of four, put keys back and
 * inserted new ones. */
#define CUDA_LANES        4 /* a lane holds 16 bytes of a line */
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_repair.h"
#include "machines/cuda/perfect/cuda_perfect_bulk.cuh"
#include "machines/cuda/perfect/cuda_perfect_items.cuh"

namespace
{

enum { MOST_BLOCKS = 1024 };

/* All threads, after cells have moved: groups insert the new keys. */
template <loom__slot_kind kind>
__device__ __forceinline__ void insert_coming(const cuda_perfect_chunk &chunk, const perfect_repair &repair,
                                              outcome_counts *counts)
{
    const perfect_owner &owner = repair.owner;
    for (uint32_t i = perfect_group(&owner); i < repair.count; i += perfect_groups(&owner)) {
        if (perfect_is_left(&repair, i))
            continue;
        const uint32_t index = repair.coming[i];
        uint64_t value;
        const perfect_outcome outcome = insert_item<kind>(chunk, owner.alone, 1, index, &value);
        if (outcome == PERFECT_OVERFLOW)
            perfect_leave(&repair, i);
        else if (lane_leads(owner.alone))
            tell_item<kind>(chunk, index, outcome, value, counts);
    }
}

/* All threads of a block that owns the partition: insert its noted items. */
template <loom__slot_kind kind>
__device__ __forceinline__ void insert_at_once(const cuda_perfect_chunk &chunk, uint32_t partition,
                                               unsigned char *memory, outcome_counts *counts)
{
    const loom__perfect_view &view = chunk.view;
    const cuda_perfect_lists &lists = chunk.lists;
    const uint32_t noted = lists.counts[partition];
    const perfect_owner owner = perfect_own(&view, partition, lane_own_team(), lane_group_apart(threadIdx.x % 32), 1);
    perfect_repair repair = perfect_begin_repair(owner, lane_own_group(), memory, perfect_most_repaired(view.subrange));
    repair.keys = chunk.batch.keys;
    repair.coming = lists.items + (uint64_t)partition * lists.room;
    repair.count = noted < lists.room ? noted : lists.room;
    if (!perfect_plan_repair(kind, &repair, PERFECT_REPAIR_ROUNDS))
        return;
    perfect_carry_out_repair(kind, &repair);
    insert_coming<kind>(chunk, repair, counts);
    const uint32_t left = perfect_keep_left(&repair);
    if (threadIdx.x == 0)
        lists.counts[partition] = left;
}

template <loom__slot_kind kind>
__global__ void __maxnreg__(CODES_REGISTERS) repair_kernel(const __grid_constant__ cuda_perfect_chunk chunk)
{
    extern __shared__ __align__(16) unsigned char memory[];
    const cuda_perfect_lists &lists = chunk.lists;
    const uint32_t crowded = lists.counters->crowded;
    outcome_counts counts = {};
    for (uint32_t i = blockIdx.x; i < crowded; i = next_item(&lists.counters->repairs))
        insert_at_once<kind>(chunk, lists.crowded[i], memory, &counts);
    if (chunk.batch.counts != NULL && blockIdx.x < crowded)
        tell_counts(chunk.batch.counts, counts);
}

static_assert(2 * 256 * sizeof(perfect_bid) >= PERFECT_MOST_COMING, "a state for each, where the suspects were");

} // namespace

uint32_t cuda_perfect_repair_bytes(const loom__perfect_view *view)
{
    return perfect_repair_bytes(view->subrange, view->words, perfect_most_repaired(view->subrange));
}

cudaError_t cuda_perfect_launch_repair(const cuda_perfect_chunk *chunk, cudaStream_t stream)
{
    const uint32_t bytes = chunk->lists.repair_bytes, partitions = chunk->view.partitions;
    const unsigned blocks = partitions < MOST_BLOCKS ? partitions : (unsigned)MOST_BLOCKS;
    cudaError_t error = cudaSuccess;
    if (bytes == 0)
        return error;
#define CALL(kind)                                                                                                   \
    error = launch_shared(repair_kernel<kind>, chunk->lists.most_bytes, blocks, codes_threads(bytes), bytes, *chunk, \
                          stream)
    SLOT_FOR_KIND(chunk->view.kind, CALL)
#undef CALL
    return error;
}
