/* Step 2 of an insertion (cuda_perfect.cuh). Lane groups work side by side on keys whose buckets were full, and give
 * cells other codes to make room (perfect_recode.h). Items of all partitions come in any sequence. A group that has
 * finished an item takes the next one from a counter. If partitions have more than PERFECT_MOST_BESIDE items on
 * average, all items are left to step 3, which then costs less.
 *
 * 1 % more keys into a table of 10^8 at load 0.8, H200: 163,000 keys meet full buckets, and each cell tried costs 16
 * lines of 64 bytes. With 1.6 cells per key, as counted before the last change below, that is 0.27 GB, or 0.1 ms of
 * random reads. The step takes 0.37 ms: 145 million warp instructions, 1.7 in each cycle of a multiprocessor. Earlier
 * versions repaired whole partitions (0.70 ms), or let the owners of partitions try 16 keys at once (0.32 ms, and 0.40
 * for the rest). What helped, in this sequence, with the figures before each change:
 *   - Groups of a warp take their turns together; the compiler had serialised them (1.07 ms, 343 million instructions).
 *   - No more blocks than run at once, and a counter: otherwise lanes were idle 38 % of the time. Codes are judged in
 *     packed bytes: judging was 17 % of the time, reading cells 38 %, copies by single lanes 20 % (0.66 ms, 253
 *     million).
 *   - Codes are judged by the slots that are free before the cell leaves its own, since other codes fail (0.50 ms, 183
 *     million). */
#define CUDA_LANES 8
#define CUDA_OWNED_TABLE
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_recode.h"
#include "machines/cuda/perfect/cuda_perfect_items.cuh"

namespace
{

enum {
    THREADS = 128,
    GROUPS = THREADS / CUDA_LANES, /* per block */
    BLOCKS = 8,                    /* per multiprocessor … */
    MOST_BLOCKS = 132 * BLOCKS     /* … of 132, as on an H200: more blocks would only wait */
};

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS, BLOCKS) recode_kernel(const __grid_constant__ cuda_perfect_chunk chunk)
{
    const loom__perfect_view &view = chunk.view;
    const cuda_perfect_lists &lists = chunk.lists;
    const uint32_t pending = lists.counters->pending;
    outcome_counts counts = {};
    if (pending > lists.most_pending) { /* leaves all items to the owners of their partitions */
        for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < pending; i += gridDim.x * THREADS) {
            const uint32_t index = lists.pending[i];
            const perfect_seek seek = perfect_start(kind, &view, key_of<kind>(chunk.batch, index));
            lists.next[index] = note_item(lists, seek.partition_index, index);
        }
        return;
    }
    const lane_group group = lane_own_group();
    uint32_t next = blockIdx.x * GROUPS + threadIdx.x / CUDA_LANES, index = 0;
    perfect_owner owner = perfect_own(&view, 0, lane_own_team(), group, 1); /* for groups without an item */
    perfect_beside beside = {};
    uint64_t value = 0;
    lane_truth active = false, begins = true;
    for (;;) { /* a group that has finished an item begins its next one while the others of the warp continue */
        if (begins) {
            active = next < pending;
            if (active) {
                index = lists.pending[next];
                beside.seek = perfect_start(kind, &view, key_of<kind>(chunk.batch, index));
                beside.turn = 0;
                value = value_of<kind>(chunk, index);
                owner = perfect_own(&view, beside.seek.partition_index, lane_own_team(), group, 1);
            }
        }
        if (!lane_going(group, active))
            break;
        const perfect_outcome outcome =
            perfect_insert_beside(kind, mode_of(chunk.op), chunk.batch.rule, &owner, &beside, &value, active);
        begins = active && outcome != PERFECT_AGAIN;
        if (begins && lane_leads(group)) {
            if (outcome == PERFECT_OVERFLOW)
                lists.next[index] = note_item(lists, owner.partition_index, index);
            else
                tell_item<kind>(chunk, index, outcome, value, &counts);
        }
        uint32_t item = 0; /* a counter hands out items, since they take different times */
        if (begins && lane_leads(group))
            item = gridDim.x * GROUPS + atomicAdd(&lists.counters->recoded, 1u);
        item = (uint32_t)lane_sum(group, item);
        next = begins ? item : next;
    }
    __syncwarp();
    if (chunk.batch.counts != NULL)
        tell_counts(chunk.batch.counts, counts);
}

} // namespace

cudaError_t cuda_perfect_launch_recode(const cuda_perfect_chunk *chunk, cudaStream_t stream)
{
    const uint64_t all = (chunk->batch.n + GROUPS - 1) / GROUPS;
    const unsigned blocks = all < MOST_BLOCKS ? (unsigned)all : (unsigned)MOST_BLOCKS;
#define CALL(kind) recode_kernel<kind><<<blocks, THREADS, 0, stream>>>(*chunk)
    SLOT_FOR_KIND(chunk->view.kind, CALL)
#undef CALL
    return cudaGetLastError();
}
