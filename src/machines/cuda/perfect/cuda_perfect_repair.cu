/* Many keys inserted into a partition at once: those whose buckets are full (cuda_perfect.cuh). A block owns the partition, plans in
 * shared memory where everything will lie, without touching the table, and rewrites only what changes:
 *   1. count     keys of the table, by cell and turn, and of each bucket; then those that come, as if they had found room.
 *   2. repair    codes, as in a build (cuda_perfect_codes.cuh), which begins with those that are there.
 *   3. withdraw  a key that comes, and whose bucket is still too full, is left to others. If a bucket is too full then, too, or
 *                something does not fit, the plan is dropped, nothing was changed, and all of them are left.
 *   4. move      keys of cells whose codes have changed are lifted out of their buckets; codes are written; the keys are put back,
 *                where there is room for each of them; then those that come.
 * So nothing is lost whatever happens: what cannot be planned is not begun. Keys that are left are for
 * cuda_perfect_room.cu, which pays at once where a partition gets fewer than PERFECT_LEAST_COMING; and cuda_perfect_recode.cu
 * comes before, where partitions get PERFECT_MOST_BESIDE on average, or fewer.
 *
 * Suspects are looked for where they can be: in buckets that are too full, among cells that have moved, and those that get keys.
 *
 * What it must move: each crowded partition is read once, since buckets and cells are counted whole, and some ten buckets for each key
 * that comes. 10^6 keys into a table of 10^8 on an H200, load 0.9: 0.9 GB, 0.2 ms at the speed of a copy; it takes 1.2 ms, at load 0.8
 * 0.74. Counting the table's keys is half of its instructions at 0.8; warps wait for each other at barriers for a third of the
 * time, with five blocks to a multiprocessor. When all cells were considered in each round it took 1.4 and 0.86. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "machines/cuda/core/cuda_bulk.cuh"
#include "machines/cuda/perfect/cuda_perfect_codes.cuh"
#include "machines/cuda/perfect/cuda_perfect_items.cuh"

namespace
{

enum { MOST_BLOCKS = 1024, REPAIR_ROUNDS = 20, UNROLLED = 4 };

enum coming_state : uint8_t { COMES, LEFT };

/* How much is listed, at most; beyond that all cells are considered, or the plan is dropped. */
__host__ __device__ inline uint32_t most_suspects(uint32_t subrange)
{
    return subrange <= PERFECT_PREFERRED_SUBRANGE ? 256 : 384;
}

__host__ __device__ inline uint32_t most_moves(uint32_t subrange)
{
    return subrange <= PERFECT_PREFERRED_SUBRANGE ? 384 : 768;
}

__host__ __device__ inline uint32_t most_troubles(uint32_t subrange)
{
    return most_moves(subrange) / 3;
}

/* Behind the memory for codes: */
struct repair_memory {
    uint32_t moves, troubles, changes, lifted, room, sum;
    uint32_t unused[2];
    /* then [most_moves] cells that have moved, some of them twice; in the end those whose codes change, with their former codes: cell << 4 |
     * code; then [most_troubles] buckets that are too full; then a bit for each cell */
};

__host__ __device__ inline uint32_t repair_memory_bytes(uint32_t subrange, uint32_t words)
{
    return (uint32_t)sizeof(repair_memory) + 4 * (most_moves(subrange) + most_troubles(subrange)) + (words + 1) / 2 * 4;
}

/* A key that was lifted out of its bucket, with its value. They lie where the counters were. */
struct lifted_key {
    uint64_t key, value;
};

template <loom__slot_kind kind> struct repair_block {
    codes_block codes;
    repair_memory *own;
    uint32_t *moved, *troubled, *bits;
    uint8_t *states; /* of each key that comes; where the suspects were */
    const uint32_t *coming;
    uint32_t count;
    uint32_t partition;
    unsigned char *lines;
    uint64_t *words;
    uint64_t empty;
};

/* All threads: codes as they are. */
__device__ __forceinline__ void read_codes(const codes_block &block, const uint64_t *words)
{
    for (uint32_t i = threadIdx.x; i < block.words; i += blockDim.x) {
        const uint64_t word = words[i];
        uint32_t four[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            four[k] = lower_bytes((uint32_t)(word >> 16 * k));
        four[3] &= 0x00ffffffu; /* the salt is no code */
        ((uint4 *)block.m.codes)[i] = make_uint4(four[0], four[1], four[2], four[3]);
    }
}

template <loom__slot_kind kind>
__device__ __forceinline__ perfect_place place_of_key(const loom__perfect_view &view, uint64_t key)
{
    return perfect_place_of((uint32_t)loom__hash_key(key, slot_key_bytes(kind), view.seed), view.words);
}

/* All threads: the keys of the table, the stash's excepted, whose cells stay where they are. Returns how many this one has
 * counted. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t count_table(const loom__perfect_view &view, const repair_block<kind> &block)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int stride = bulk_columns<kind>::slot_stride, slots = 16 / stride; /* of a quarter of a line */
    const uint32_t quarters = 4 * PERFECT_SUBRANGES * view.subrange, lane = threadIdx.x % 32;
    uint32_t counted = 0;
    for (uint32_t first = threadIdx.x - lane; first < quarters; first += UNROLLED * blockDim.x) {
        uint4 loaded[UNROLLED];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            const uint32_t i = first + k * blockDim.x + lane;
            if (i < quarters)
                loaded[k] = __ldcs((const uint4 *)(perfect_line(kind, block.lines, i / 4) + i % 4 * 16));
        }
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            const uint32_t i = first + k * blockDim.x + lane;
            const key *keys = (const key *)&loaded[k];
            uint32_t used = 0;
#pragma unroll
            for (int slot = 0; slot < slots; slot++) {
                const key one = keys[slot * (int)(stride / sizeof(key))];
                if (i < quarters && one != (key)block.empty) {
                    count_key(block.codes, place_of_key<kind>(view, one));
                    used++;
                }
            }
            counted += used;
            __syncwarp();
            used += __shfl_xor_sync(0xffffffffu, used, 1);
            used += __shfl_xor_sync(0xffffffffu, used, 2);
            if (i < quarters && i % 4 == 0)
                ((uint8_t *)block.codes.m.fills)[i / 4] = (uint8_t)used;
        }
    }
    return counted;
}

/* The bucket of a key that comes, as codes are now; UINT32_MAX: the stash. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t planned_bucket(const repair_block<kind> &block, perfect_place place)
{
    const uint32_t code = block.codes.m.codes[perfect_cell(place)] & 15;
    if (code == PERFECT_STASHED)
        return UINT32_MAX;
    return perfect_bucket(place, code, block.codes.salt, block.codes.subrange);
}

/* All threads: the keys that come, as if there were room. Returns how many this one has counted. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t count_coming(const loom__perfect_view &view, const cuda_batch &batch,
                                                 const repair_block<kind> &block)
{
    uint32_t counted = 0;
    for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x) {
        const perfect_place place = place_of_key<kind>(view, key_of<kind>(batch, block.coming[i]));
        const uint32_t bucket = planned_bucket(block, place);
        if (bucket == UINT32_MAX)
            continue;
        count_key(block.codes, place);
        counted++;
        add_keys(block.codes, bucket, 1);
    }
    return counted;
}

/* All threads: what comes to a bucket that is too full is left. */
template <loom__slot_kind kind>
__device__ __forceinline__ void withdraw(const loom__perfect_view &view, const cuda_batch &batch,
                                         const repair_block<kind> &block)
{
    for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x) {
        const uint32_t bucket = planned_bucket(block, place_of_key<kind>(view, key_of<kind>(batch, block.coming[i])));
        const bool left = bucket == UINT32_MAX || fill_of(block.codes, bucket) > perfect_slots(kind);
        block.states[i] = left ? LEFT : COMES;
        if (left && bucket != UINT32_MAX)
            add_keys(block.codes, bucket, UINT32_MAX);
    }
    __syncthreads();
}

/* All threads: no cell has been marked. */
template <loom__slot_kind kind> __device__ __forceinline__ void clear_bits(const repair_block<kind> &block)
{
    for (uint32_t i = threadIdx.x; i < (block.codes.words + 1) / 2; i += blockDim.x)
        block.bits[i] = 0;
}

/* Marks a cell; true: it was not before. */
template <loom__slot_kind kind>
__device__ __forceinline__ bool mark_cell(const repair_block<kind> &block, uint32_t cell)
{
    const uint32_t bit = 1u << cell % 32;
    return (atomicOr(&block.bits[cell / 32], bit) & bit) == 0;
}

/* Who can be a suspect: a cell with keys in a bucket that is too full, as the table stands; one that has moved; one that gets a key.
 * All others have their keys elsewhere. */
template <loom__slot_kind kind> struct near_cells {
    static constexpr uint32_t slots = PERFECT_LINE_BYTES / bulk_columns<kind>::slot_stride;
    const loom__perfect_view &view;
    const cuda_batch &batch;
    const repair_block<kind> &block;

    __device__ __forceinline__ void consider(repair_state *state, uint32_t cell, uint32_t wanted) const
    {
        if (mark_cell(block, cell))
            consider_cell<slots>(block.codes, state, cell, wanted);
    }

    /* All threads: buckets that are too full. */
    __device__ __forceinline__ void list_troubles() const
    {
        const uint32_t most = most_troubles(view.subrange);
        for (uint32_t four = threadIdx.x; four < whole_words(PERFECT_SUBRANGES * view.subrange) / 4; four += blockDim.x)
            for (uint32_t above = above_of(block.codes.m.fills[four], slots); above != 0; above &= above - 1) {
                const uint32_t at = atomicAdd(&block.own->troubles, 1u);
                if (at < most)
                    block.troubled[at] = 4 * four + (__ffs((int)above) - 1) / 8;
            }
    }

    __device__ __forceinline__ void list(const codes_block &codes, repair_state *state) const
    {
        const uint32_t wanted = state->wanted;
        if (threadIdx.x == 0)
            block.own->troubles = 0;
        clear_bits(block);
        __syncthreads();
        list_troubles();
        __syncthreads();
        const uint32_t troubles = block.own->troubles, moves = block.own->moves;
        if (troubles > most_troubles(view.subrange) || moves > most_moves(view.subrange)) {
            all_cells<slots>().list(codes, state);
            return;
        }
        for (uint32_t i = threadIdx.x; i < troubles * slots; i += blockDim.x) {
            const uint64_t key = slot_key(kind, perfect_line(kind, block.lines, block.troubled[i / slots]), i % slots);
            if (key != block.empty)
                consider(state, perfect_cell(place_of_key<kind>(view, key)), wanted);
        }
        for (uint32_t i = threadIdx.x; i < moves; i += blockDim.x)
            consider(state, block.moved[i], wanted);
        for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x)
            consider(state, perfect_cell(place_of_key<kind>(view, key_of<kind>(batch, block.coming[i]))), wanted);
        __syncthreads();
    }

    __device__ __forceinline__ void moved(uint32_t cell) const
    {
        const uint32_t at = atomicAdd(&block.own->moves, 1u);
        if (at < most_moves(view.subrange))
            block.moved[at] = cell;
    }
};

/* All threads: of the cells that have moved, those whose codes change. False: there were too many, or there is no room for their keys. */
template <loom__slot_kind kind> __device__ __forceinline__ bool list_changes(const repair_block<kind> &block)
{
    const codes_block &codes = block.codes;
    const uint32_t moves = block.own->moves;
    if (moves > most_moves(codes.subrange))
        return false;
    clear_bits(block);
    __syncthreads();
    for (uint32_t first = 0; first < moves; first += blockDim.x) {
        const uint32_t i = first + threadIdx.x, cell = i < moves ? block.moved[i] : 0;
        __syncthreads(); /* all have been read that may be written over */
        if (i >= moves || !mark_cell(block, cell))
            continue;
        const uint32_t before = perfect_code(block.words[cell / 16], cell % 16);
        if (before == (codes.m.codes[cell] & 15u))
            continue;
        atomicAdd(&block.own->room, sum_of_counters(*counts_of(codes, 0, cell)));
        block.moved[atomicAdd(&block.own->changes, 1u)] = cell << 4 | before;
    }
    __syncthreads();
    return block.own->room * sizeof(lifted_key) <= 2 * codes.words * 16 * sizeof(uint32_t);
}

/* All threads: the keys of those cells leave their buckets. */
template <loom__slot_kind kind>
__device__ __forceinline__ void lift_keys(const loom__perfect_view &view, const repair_block<kind> &block,
                                          lifted_key *lifted)
{
    constexpr uint32_t slots = PERFECT_LINE_BYTES / bulk_columns<kind>::slot_stride, reach = PERFECT_SUBRANGES * slots;
    for (uint32_t i = threadIdx.x; i < block.own->changes * reach; i += blockDim.x) {
        const uint32_t change = block.moved[i / reach], cell = change >> 4, mapping = change >> 3 & 1;
        const uint32_t number = i % reach / slots, slot = i % slots;
        const uint32_t bucket = perfect_bucket_in(cell, block.codes.salt, mapping, number, view.subrange);
        unsigned char *line = perfect_line(kind, block.lines, bucket);
        const uint64_t pair = kind == SLOT_PAIR_4_4 ? lane_load_8((const uint64_t *)line + slot) : 0;
        const uint64_t key = kind == SLOT_PAIR_4_4 ? (uint32_t)pair : slot_key(kind, line, slot);
        if (key == block.empty || perfect_cell(place_of_key<kind>(view, key)) != cell)
            continue;
        const uint32_t at = atomicAdd(&block.own->lifted, 1u); /* below `room`: they were counted */
        lifted[at] = {key, perfect_take_slot(kind, &view, block.lines, bucket, slot, pair, block.empty)};
    }
    __syncthreads();
}

/* All threads: codes as they are to be. */
__device__ __forceinline__ void write_codes(const codes_block &block, uint64_t *words)
{
    for (uint32_t i = threadIdx.x; i < block.words; i += blockDim.x)
        words[i] = packed_codes(block, i) | (uint64_t)block.salt << 60;
    __syncthreads();
}

/* All threads: steps 2 and 3. False: the plan is dropped. */
template <loom__slot_kind kind>
__device__ __forceinline__ bool plan(const loom__perfect_view &view, const cuda_batch &batch,
                                     const repair_block<kind> &block, repair_state *state)
{
    constexpr uint32_t slots = PERFECT_LINE_BYTES / bulk_columns<kind>::slot_stride;
    repair<slots>(block.codes, state, REPAIR_ROUNDS, near_cells<kind>{view, batch, block});
    __syncthreads();
    withdraw(view, batch, block);
    if (look_for_trouble<slots>(block.codes, state) != 0)
        return false;
    return list_changes(block);
}

/* All threads: step 4. */
template <loom__slot_kind kind>
__device__ __forceinline__ void carry_out(const loom__perfect_view &view, const cuda_batch &batch, cuda_op op,
                                          const repair_block<kind> &block, outcome_counts *counts)
{
    const lane_group alone = lane_own_group();
    lifted_key *lifted = (lifted_key *)block.codes.m.counts;
    lift_keys(view, block, lifted);
    write_codes(block.codes, block.words);
    for (uint32_t i = threadIdx.x; i < block.own->lifted; i += blockDim.x) {
        perfect_seek seek = perfect_seek_key(kind, &view, lifted[i].key);
        uint64_t value = lifted[i].value;
        (void)perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, 1, alone, &view, &seek, &value);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x) {
        if (block.states[i] == LEFT)
            continue;
        const uint32_t index = block.coming[i];
        perfect_seek seek = perfect_seek_key(kind, &view, key_of<kind>(batch, index));
        uint64_t value = value_of<kind>(batch, op, index);
        const perfect_outcome outcome =
            perfect_insert_alone(kind, mode_of(op), batch.how, 1, alone, &view, &seek, &value);
        if (outcome == PERFECT_OVERFLOW) /* not for one of many to store (perfect_may_claim) */
            block.states[i] = LEFT;
        else
            tell_item<kind>(batch, op, index, outcome, value, counts);
    }
}

/* All threads: items that are left move to the front of those noted. */
template <loom__slot_kind kind>
__device__ __forceinline__ void keep_left(const cuda_perfect_lists &lists, const repair_block<kind> &block)
{
    uint32_t *items = lists.items + (uint64_t)block.partition * lists.room;
    if (threadIdx.x == 0)
        block.own->lifted = 0;
    __syncthreads();
    for (uint32_t first = 0; first < block.count; first += blockDim.x) {
        const uint32_t i = first + threadIdx.x, index = i < block.count ? items[i] : 0;
        const bool left = i < block.count && block.states[i] == LEFT;
        __syncthreads(); /* all have been read that may be written over */
        if (left)
            items[atomicAdd(&block.own->lifted, 1u)] = index;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        lists.counts[block.partition] = block.own->lifted;
}

/* All threads of a block that owns the partition. */
template <loom__slot_kind kind>
__device__ __forceinline__ void insert_at_once(const loom__perfect_view &view, const cuda_batch &batch, cuda_op op,
                                               const cuda_perfect_lists &lists, uint32_t partition,
                                               unsigned char *memory, repair_state *state, outcome_counts *counts)
{
    const uint32_t wanted = lists.counts[partition];
    repair_block<kind> block;
    block.count = wanted < lists.room ? wanted : lists.room;
    block.coming = lists.items + (uint64_t)partition * lists.room;
    block.partition = partition;
    block.lines = view.base + (uint64_t)partition * view.partition_bytes;
    block.words = view.codes + (uint64_t)partition * view.words;
    block.empty = perfect_empty(&view, partition);
    block.codes = {lay_out(memory, view.subrange, view.words), view.subrange, view.words, perfect_salt(block.words[0]),
                   most_suspects(view.subrange)};
    block.own = (repair_memory *)(memory + codes_shared_bytes(view.subrange, view.words, block.codes.suspects));
    block.moved = (uint32_t *)(block.own + 1);
    block.troubled = block.moved + most_moves(view.subrange);
    block.bits = block.troubled + most_troubles(view.subrange);
    block.states = (uint8_t *)block.codes.m.suspects;
    if (view.marks[partition] != PERFECT_UNMARKED)
        return;
    clear_counters(block.codes, memory);
    if (threadIdx.x == 0)
        *block.own = repair_memory{};
    __syncthreads();
    read_codes(block.codes, block.words);
    uint32_t mine = count_table(view, block);
    __syncthreads();
    mine += count_coming(view, batch, block);
    __syncthreads();
    if (!all_counted(block.codes, mine, &block.own->sum) || !plan(view, batch, block, state))
        return;
    carry_out(view, batch, op, block, counts);
    keep_left(lists, block);
}

template <loom__slot_kind kind>
__global__ void __maxnreg__(CODES_REGISTERS)
    repair_kernel(const loom__perfect_view view, const cuda_batch batch, cuda_op op, const cuda_perfect_lists lists)
{
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ repair_state state;
    const uint32_t crowded = lists.counters->crowded;
    outcome_counts counts = {};
    for (uint32_t i = blockIdx.x; i < crowded; i = next_turn(&lists.counters->repairs))
        insert_at_once<kind>(view, batch, op, lists, lists.crowded[i], memory, &state, &counts);
    if (batch.counts != NULL && blockIdx.x < crowded)
        tell_counts(batch.counts, counts);
}

template <loom__slot_kind kind>
cudaError_t launch(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op, const cuda_perfect_lists *lists,
                   cudaStream_t stream)
{
    cudaError_t error = allow_shared(repair_kernel<kind>, lists->most_bytes);
    if (error != cudaSuccess)
        return error;
    const unsigned blocks = view->partitions < MOST_BLOCKS ? view->partitions : (unsigned)MOST_BLOCKS;
    repair_kernel<kind>
        <<<blocks, codes_threads(lists->repair_bytes), lists->repair_bytes, stream>>>(*view, *batch, op, *lists);
    return cudaGetLastError();
}

static_assert(2 * 256 * sizeof(bid) >= PERFECT_MOST_COMING, "a state for each, where the suspects were");

} // namespace

uint32_t cuda_perfect_repair_bytes(const loom__perfect_view *view)
{
    return codes_shared_bytes(view->subrange, view->words, most_suspects(view->subrange)) +
           repair_memory_bytes(view->subrange, view->words);
}

cudaError_t cuda_perfect_launch_repair(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                       const cuda_perfect_lists *lists, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = launch<kind>(view, batch, op, lists, stream)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}
