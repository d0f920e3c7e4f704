/* Steps 4 to 6 of an insertion (cuda_perfect.cuh). In step 4 owners of partitions make room in full buckets
 * (perfect_room.h) for the items that earlier steps have left. Step 5 reseeds partitions, and step 6 inserts late
 * and abandoned items.
 *
 * A thread block of one warp owns a partition: no other block works on it, and the step before is over. Its four groups
 * insert an item each, where there is room. Then, item after item, all groups make room, and the first group inserts.
 * The table stays in global memory. The scratch is in shared memory: 5 KB, and 2 bytes for each bucket, so that a
 * multiprocessor works on some twenty partitions of 1729 buckets at once.
 *
 * 1 % more keys into a table of 10^8, H200: the remaining items take 0.03 ms at load 0.53, 0.09 ms at 0.8. The time
 * goes into plans: for each, one warp executes some thousand instructions and dozens of loads, one after the other.
 *
 * Once a partition is exhausted, its lanes refuse 32 noted items at once, and leave its list to step 6, where all
 * groups refuse items side by side. Before, the owner walked the list and refused one item at a time, at 0.7 to 1.8 µs
 * each: 6.8 s for 10^7 keys of one partition. For operations whose keys only an owner may store (perfect_may_claim), it
 * still walks the list. */
#define CUDA_LANES 8
#define CUDA_OWNED_TABLE
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_room.h"
#include "machines/cuda/perfect/cuda_perfect_items.cuh"

namespace
{

enum { TEAM = 32, GROUPS = TEAM / CUDA_LANES, MOST_OWNERS = 4096, LATE_THREADS = 256, MOST_SCRATCH_BYTES = 48 << 10 };

static_assert(sizeof(perfect_scratch) + (PERFECT_SUBRANGES * PERFECT_MOST_SUBRANGE + 2) / 2 * sizeof(uint32_t) <=
                  MOST_SCRATCH_BYTES,
              "a block has this much shared memory without opting in");

/* ---- owners ---- */

/* All lanes: make a scratch in the block's shared memory. */
__device__ __forceinline__ perfect_scratch *open_scratch(const loom__perfect_view &view, unsigned char *spare)
{
    extern __shared__ __align__(16) unsigned char memory[];
    perfect_scratch *scratch = (perfect_scratch *)memory;
    const uint32_t bytes = perfect_scratch_bytes(view.subrange);
    for (uint32_t i = threadIdx.x; i < (bytes + 15) / 16; i += blockDim.x)
        ((uint4 *)memory)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (threadIdx.x == 0)
        scratch->spare = spare;
    __syncthreads();
    return scratch;
}

/* All lanes: the first group inserts the item; its first lane gets the value. */
template <loom__slot_kind kind>
__device__ __forceinline__ perfect_outcome insert_owned(const cuda_perfect_chunk &chunk, const perfect_owner &owner,
                                                        perfect_scratch *scratch, uint32_t index, uint64_t *value)
{
    if (perfect_group(&owner) == 0) {
        const perfect_outcome outcome =
            insert_item<kind>(chunk, owner.alone, 0, index, value); /* not shared: it may store any key */
        if (lane_leads(owner.alone))
            lane_team_store_4(&scratch->room, outcome);
    }
    lane_team_wait(owner.team);
    const perfect_outcome outcome = (perfect_outcome)lane_team_load_4(&scratch->room);
    lane_team_wait(owner.team);
    return outcome;
}

/* All lanes: groups insert the lanes' items. A lane has at most one item, `entry` (0: none), and gets the outcome of
 * its own item. Of equal keys, the first is inserted before the others, and stores the value that they find. Different
 * keys claim their slots by swaps, so they do not disturb each other. Codes do not change. */
template <loom__slot_kind kind>
__device__ __forceinline__ perfect_outcome insert_together(const cuda_perfect_chunk &chunk, const perfect_owner &owner,
                                                           uint32_t entry, uint64_t *value)
{
    const uint32_t items = __ballot_sync(CUDA_FULL_MASK, entry != 0), below = (1u << threadIdx.x) - 1;
    const uint32_t teller = threadIdx.x % GROUPS * CUDA_LANES; /* first lane of the group with this lane's item */
    perfect_outcome outcome = PERFECT_AGAIN;
    bool first = false;
    if (entry != 0)
        first = (__match_any_sync(items, (unsigned long long)key_of<kind>(chunk.batch, entry - 1)) & below) == 0;
    __syncwarp();
    const uint32_t firsts = __ballot_sync(CUDA_FULL_MASK, first);
    for (int round = 0; round < 2; round++) {
        const uint32_t now = round == 0 ? firsts : items & ~firsts;
        for (uint32_t from = 0; from < TEAM; from += GROUPS) {
            const uint32_t mine = from + perfect_group(&owner);
            const uint32_t taken = __shfl_sync(CUDA_FULL_MASK, entry, mine);
            perfect_outcome became = PERFECT_AGAIN;
            uint64_t its_value = 0;
            if ((now >> from & ((1u << GROUPS) - 1)) == 0)
                continue; /* the same on all lanes */
            if (now >> mine & 1)
                became = insert_item<kind>(chunk, owner.alone, 0, taken - 1, &its_value);
            __syncwarp();
            const uint32_t told = __shfl_sync(CUDA_FULL_MASK, (uint32_t)became, teller);
            const uint64_t told_value = __shfl_sync(CUDA_FULL_MASK, (unsigned long long)its_value, teller);
            if (threadIdx.x - from < GROUPS && (now >> threadIdx.x & 1)) {
                outcome = (perfect_outcome)told;
                *value = told_value;
            }
        }
        lane_team_wait(owner.team);
    }
    return outcome;
}

/* The source of a partition's items: noted items first, then the partition's list. The lanes of a block take items
 * together. */
struct item_source {
    const uint32_t *items;
    uint32_t count, at; /* of noted items */
    uint32_t next;      /* of the list: entry, 0 at its end */
};

__device__ __forceinline__ bool has_items(const item_source &source)
{
    return source.at < source.count || source.next != 0;
}

/* All lanes: take one item each. Returns its index plus one; 0: none. */
__device__ __forceinline__ uint32_t take_items(item_source *source, const cuda_perfect_lists &lists)
{
    uint32_t mine = 0;
    if (source->at < source->count) {
        if (source->at + threadIdx.x < source->count)
            mine = source->items[source->at + threadIdx.x] + 1;
        source->at += TEAM;
        return mine;
    }
    for (uint32_t i = 0; i < TEAM && source->next != 0; i++) {
        mine = i == threadIdx.x ? source->next : mine;
        source->next = lists.next[source->next - 1] & ~CUDA_PERFECT_LISTED;
    }
    __syncwarp(); /* all lanes have read `next` */
    if (mine != 0)
        lists.next[mine - 1] = 0;
    return mine;
}

/* All lanes: put items in front of a list that begins with `first`. `items`: the lanes that put one. Returns the new
 * first entry. */
__device__ __forceinline__ uint32_t put_on_list(const cuda_perfect_lists &lists, uint32_t entry, uint32_t items,
                                                uint32_t first)
{
    const uint32_t below = items & ((1u << threadIdx.x) - 1);
    const uint32_t other = __shfl_sync(CUDA_FULL_MASK, entry, below != 0 ? 31 - __clz((int)below) : 0);
    if (items >> threadIdx.x & 1)
        lists.next[entry - 1] = (below != 0 ? other : first) | CUDA_PERFECT_LISTED;
    const uint32_t last = __shfl_sync(CUDA_FULL_MASK, entry, items != 0 ? 31 - __clz((int)items) : 0);
    return items != 0 ? last : first;
}

/* Whether groups side by side may store keys that are absent. If so, no owner must walk the list of a partition that
 * is exhausted: an entry takes a lane some 0.7 µs, since each is read after the one before. */
template <loom__slot_kind kind> __device__ __forceinline__ bool may_abandon(const cuda_perfect_chunk &chunk)
{
    return perfect_may_claim(kind, mode_of(chunk.op), 1) != 0;
}

/* The state of a partition whose items are inserted; the same on all lanes. */
struct owner_state {
    bool exhausted; /* nothing moves any more: keys whose buckets are full are refused */
    bool puts_off;  /* the items that remain become the partition's list */
};

/* All lanes: insert items whose buckets are full, one at a time. `full`: the lanes with these items; `entry`: the
 * lane's item. With `anew`, where plans fail, the lanes reseed the partition. Without `anew`, if plans fail and
 * reseeding may help, the lanes stop. Returns the lanes whose items are left: their partition is exhausted and no cell
 * has moved since they were tried, or the owner puts them off. */
template <loom__slot_kind kind, bool anew>
__device__ __forceinline__ uint32_t insert_full(const cuda_perfect_chunk &chunk, perfect_owner *owner,
                                                perfect_scratch *scratch, uint32_t entry, uint32_t full,
                                                owner_state *state, outcome_counts *counts)
{
    bool moved = false; /* cells have moved since the items were tried */
    while (full != 0 && !state->puts_off && (moved || !state->exhausted)) {
        const uint32_t index = __shfl_sync(CUDA_FULL_MASK, entry, __ffs((int)full) - 1) - 1;
        const uint64_t key = key_of<kind>(chunk.batch, index);
        uint64_t value = 0;
        perfect_outcome outcome = PERFECT_OVERFLOW;
        if (moved)
            outcome = insert_owned<kind>(chunk, *owner, scratch, index, &value);
        if (outcome == PERFECT_OVERFLOW && !state->exhausted) {
            if (perfect_make_room(kind, owner, scratch, key) ||
                (anew && perfect_make_room_anew(kind, owner, scratch, key))) {
                moved = true;
                outcome = insert_owned<kind>(chunk, *owner, scratch, index, &value);
            } else if (!anew && perfect_may_reseed(kind, owner, scratch)) {
                state->puts_off = true;
                continue;
            } else {
                state->exhausted = true;
                perfect_exhaust(owner);
            }
        }
        if (lane_team_rank(owner->team) == 0)
            tell_item<kind>(chunk, index, outcome, value, counts);
        full &= full - 1;
    }
    return full;
}

/* All lanes of a block that owns the partition: insert its items. `anew`: as in insert_full. */
template <loom__slot_kind kind, bool anew>
__device__ __forceinline__ void insert_items(const cuda_perfect_chunk &chunk, uint32_t partition,
                                             perfect_scratch *scratch, outcome_counts *counts)
{
    const loom__perfect_view &view = chunk.view;
    const cuda_perfect_lists &lists = chunk.lists;
    const uint32_t noted = lists.counts[partition];
    item_source source = {lists.items + (uint64_t)partition * lists.room, noted < lists.room ? noted : lists.room, 0,
                          lists.heads[partition]};
    uint32_t left = 0; /* the list of remaining items */
    perfect_owner owner = perfect_own(&view, partition, lane_own_team(), lane_group_apart(threadIdx.x % 32), 1);
    owner_state state = {perfect_mark_in(perfect_effort_of(&owner)) != PERFECT_UNMARKED, false};
    while (has_items(source) && !state.puts_off) { /* each item is listed once */
        if (state.exhausted && source.at >= source.count && may_abandon<kind>(chunk)) {
            if (threadIdx.x == 0)
                lists.counters->abandoned = 1;
            break;
        }
        const uint32_t mine = take_items(&source, lists);
        uint64_t value = 0;
        const perfect_outcome outcome = insert_together<kind>(chunk, owner, mine, &value);
        uint32_t full = __ballot_sync(CUDA_FULL_MASK, outcome == PERFECT_OVERFLOW);
        if (mine != 0 && outcome != PERFECT_OVERFLOW)
            tell_item<kind>(chunk, mine - 1, outcome, value, counts);
        full = insert_full<kind, anew>(chunk, &owner, scratch, mine, full, &state, counts);
        if (state.puts_off)
            left = put_on_list(lists, mine, full, source.next);
        else if (full >> threadIdx.x & 1)
            tell_item<kind>(chunk, mine - 1, PERFECT_OVERFLOW, 0, counts);
    }
    while (state.puts_off && source.at < source.count) {
        const uint32_t mine = take_items(&source, lists);
        left = put_on_list(lists, mine, __ballot_sync(CUDA_FULL_MASK, mine != 0), left);
    }
    if (threadIdx.x == 0) {
        lists.counts[partition] = 0;
        lists.heads[partition] = left;
        if (left != 0)
            lists.left_over[atomicAdd(&lists.counters->left_over, 1u)] = partition;
    }
}

/* Blocks per multiprocessor. In step 4 they bound the registers of a thread to 96 or 128. */
__host__ __device__ constexpr int room_blocks(loom__slot_kind kind, bool anew)
{
    return anew ? 1 : kind == SLOT_PAIR_4_4 || kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8 ? 20 : 16;
}

/* Step 4; with `anew` step 5, which has one block for each spare copy of a partition. */
template <loom__slot_kind kind, bool anew>
__global__ void __launch_bounds__(TEAM, room_blocks(kind, anew))
    room_kernel(const __grid_constant__ cuda_perfect_chunk chunk)
{
    const cuda_perfect_lists &lists = chunk.lists;
    const uint32_t count = anew ? lists.counters->left_over : lists.counters->touched;
    if (blockIdx.x >= count)
        return;
    perfect_scratch *scratch = open_scratch(chunk.view, anew ? lists.spare + blockIdx.x * lists.spare_bytes : NULL);
    outcome_counts counts = {};
    for (uint32_t i = blockIdx.x; i < count; i = anew ? i + gridDim.x : next_item(&lists.counters->rooms)) {
        const uint32_t partition = anew ? lists.left_over[i] : lists.touched[i];
        if (lists.counts[partition] != 0 || lists.heads[partition] != 0) /* step 3 has not inserted all */
            insert_items<kind, anew>(chunk, partition, scratch, &counts);
        __syncthreads();
    }
    if (chunk.batch.counts != NULL)
        tell_counts(chunk.batch.counts, counts);
}

/* ---- late and abandoned items ---- */

/* One group inserts an item, as in step 1. */
template <loom__slot_kind kind>
__device__ __forceinline__ void insert_again(const cuda_perfect_chunk &chunk, lane_group group, uint64_t index,
                                             outcome_counts *counts)
{
    uint64_t value;
    const perfect_outcome outcome = insert_item<kind>(chunk, group, 1, index, &value);
    if (lane_leads(group))
        tell_item<kind>(chunk, index, outcome, value, counts);
}

/* Step 6, with the same blocks as step 1. A group inserts one item at a time. All groups take abandoned items; groups
 * of the block that has seen them take late ones. */
template <loom__slot_kind kind>
__global__ void __launch_bounds__(LATE_THREADS) late_kernel(const __grid_constant__ cuda_perfect_chunk chunk)
{
    enum { LATE_GROUPS = LATE_THREADS / CUDA_LANES };
    const cuda_batch &batch = chunk.batch;
    const cuda_perfect_lists &lists = chunk.lists;
    const bool late = lists.counters->late != 0 && lists.late_blocks[blockIdx.x] != 0;
    const uint32_t abandoned = lists.counters->abandoned != 0 ? lists.counters->pending : 0; /* among so many */
    if (!late && abandoned == 0)
        return;
    const uint64_t n = perfect_chunk_items(batch, lists), items = batch.tile * PERFECT_WRITE_WARPS;
    const uint64_t first = blockIdx.x * items, end = !late ? first : n - first < items ? n : first + items;
    const lane_group group = lane_group_apart(threadIdx.x % 32);
    outcome_counts counts = {};
    for (uint32_t i = blockIdx.x * LATE_GROUPS + threadIdx.x / CUDA_LANES; i < abandoned; i += gridDim.x * LATE_GROUPS)
        if (lists.next[lists.pending[i]] & CUDA_PERFECT_LISTED) /* a pending item is not late */
            insert_again<kind>(chunk, group, lists.pending[i], &counts);
    for (uint64_t index = first + threadIdx.x / CUDA_LANES; index < end; index += LATE_GROUPS)
        if (lists.next[index] == CUDA_PERFECT_LATE)
            insert_again<kind>(chunk, group, index, &counts);
    __syncwarp();
    if (batch.counts != NULL)
        tell_counts(batch.counts, counts);
}

template <loom__slot_kind kind> void launch(const cuda_perfect_chunk &chunk, cudaStream_t stream)
{
    const uint32_t scratch = (perfect_scratch_bytes(chunk.view.subrange) + 15) / 16 * 16;
    const uint32_t items = chunk.batch.tile * PERFECT_WRITE_WARPS, partitions = chunk.view.partitions;
    const unsigned blocks = (unsigned)((chunk.batch.n + items - 1) / items);
    const unsigned owners = partitions < MOST_OWNERS ? partitions : (unsigned)MOST_OWNERS;
    room_kernel<kind, false><<<owners, TEAM, scratch, stream>>>(chunk);
    room_kernel<kind, true><<<chunk.lists.spares, TEAM, scratch, stream>>>(chunk);
    late_kernel<kind><<<blocks, LATE_THREADS, 0, stream>>>(chunk);
}

} // namespace

cudaError_t cuda_perfect_launch_room(const cuda_perfect_chunk *chunk, cudaStream_t stream)
{
#define CALL(kind) launch<kind>(*chunk, stream)
    SLOT_FOR_KIND(chunk->view.kind, CALL)
#undef CALL
    return cudaGetLastError(); /* of any of the three launches */
}
