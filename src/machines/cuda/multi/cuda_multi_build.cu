/* Builds a multimap by partition, or inserts into one. The batch is split by partition of the directory
 * (cuda_split_passes.cuh). Then one thread block per partition makes the partition in shared memory and the lists of
 * its keys in the heap:
 *   1. count   Each pair looks for its key from its home bucket on, and takes the first free slot if the key is not
 *              there, by a CAS. Tags, one byte of the hash for each slot, say which slots to look at. Slots of a bucket
 *              are taken in one fixed sequence and never given back, and all pairs of a key try the same slots in that
 *              sequence. So a key gets one slot, whoever comes first. The pair adds one to the slot's count, and leaves
 *              the number of the slot in place of its key.
 *   2. place   The counts are summed up, and one addition takes a place in the heap for all lists of the partition.
 *   3. store   Each pair takes the next place of its list, and stores its value there. A single value of 4 bytes goes
 *              into the handle. Values go through shared memory if all of the partition fit there, and are then written
 *              in one piece: single stores of 4 bytes to random places of the heap cost as much as all the rest.
 *   4. finish  Counts and places become handles, and the partition is written out.
 * So a pair is looked up once. Values of a key come in any order; builds in order go by runs (cuda_multi_insert.cu),
 * and so do batches whose pairs are too unevenly distributed for the split.
 *
 * While it is being made, a slot's value holds the count in its lower half; in its upper half the next place of the
 * list, relative to the partition's first, or the single value.
 *
 * Bytes moved for a pair of p bytes with a value of v bytes and r values per key: the split 2 p or 4 p, counting p and
 * 4 for the slot, storing p + v, and 12.8 / 0.8 / r for the directory. With p = 8, r = 8 and two passes of the split
 * these are 58 bytes. At the speed of a copy, 4.0 TB/s, that is 69 G pairs/s.
 *
 * Measured on an H200, 2^26 pairs of 4 + 4 bytes, r = 8, 2026-11-18: 0.71 ms for the split, 1.05 ms for this kernel,
 * in all 35 to 37 G pairs/s. The kernel first took 3.4 ms. What helped:
 *   - Lanes that find their key come together again before the next pair (try_bucket), and pairs whose home bucket is
 *     full wait until the end of a round: 23 of 32 lanes work instead of 8. 1.8 ms.
 *   - Values go through shared memory. Stores of 4 bytes to random places take 0.9 ms: each is an access to the L2
 *     cache. Partitions are small enough for that (choose_smaller in engines/multi/multi.c). 1.1 ms.
 *   - Tags instead of keys, four to a word, and slot numbers without a division. 1.0 ms, bound by instructions: 0.7
 *     for each cycle of a scheduler.
 *   - Lanes of a warp share late pairs (count_pairs), since keys of 4 bytes leave home three times as often as before
 *     (five slots to a line). With r = 8 builds of 4 + 4 bytes went from 31.9 to 34.1 G pairs/s, 2026-11-19; with r = 1
 *     from 20.5 to 21.0.
 * Four or three thread blocks on an SM, with partitions of half or two thirds of the size, are as fast. With r = 1,
 * where most pairs claim a slot, the kernel takes 1.7 ms.
 *
 * Inserts into a table that holds pairs (`adds`) take the same steps, with these differences:
 *   0. load    The block loads its partition, and makes the tags from its keys. A slot's value holds the length of its
 *              list in the upper half. The handles stay in global memory until the partition is written out.
 *   1. count   Slots of erased keys are free, so a key of the table may lie behind a free slot. If the key's filter bit
 *              is set in its home bucket, the pair first looks for the key, as far as the bits lead, and then claims a
 *              slot from the home bucket on. Pairs of a new key all find nothing and try the same slots in the same
 *              sequence, and keys of the table do not move. So a key still has one slot.
 *   2. place   Each list that gets values takes a new place, for its old and its new values, without room behind them.
 *              This holds for lists with room behind them, too: then all lists of the partition are written in one
 *              piece. Other lists stay.
 *   3. store   The old values are copied in front of the new ones, by several lanes for each list. With values in
 *              shared memory, the copies arrive while new values are stored. Otherwise lists of more than MOVED_PIECE
 *              values go to a queue, and a second kernel copies them with all blocks.
 *
 * Bytes moved for a pair of an insert, if the table has t times as many pairs as the batch and all lists get values:
 * the split 2 p or 4 p, counting p and 4, storing p + v, old values 2 t v, the directory 2 t * 12.8 / 0.8 / r. With p =
 * 8, r = 8, t = 4 and two passes of the split these are 105 bytes. At the speed of a copy that is 38 G pairs/s. */
#define CUDA_LANES 1
#include "machines/cuda/open/cuda_open_partition.cuh"

#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"
#include "machines/cuda/multi/cuda_multi_build.cuh"

#include <cuda_pipeline.h>

namespace
{

enum {
    LEAST_LOAD = 3,             /* one slot in so many has a key, also where few keys have many values */
    STORED = 8,                 /* pairs that it stores */
    FEW_LATE = 16,              /* lanes of a warp with a late pair, which wait for the next round */
    LIST_LANES = 4,             /* lanes that copy a list, */
    FEW_VALUES = 64,            /*   up to so many values; a warp copies longer ones */
    NUMBERED = MULTI_TAG_BYTES, /* numbers of slots for each bucket, also in buckets with fewer slots */
    BUCKETS_OF_WARP = 32 / NUMBERED
};

const uint32_t REFUSED = UINT32_MAX;   /* in place of a slot's number */
const uint32_t IN_HANDLE = UINT32_MAX; /* in place of a list's next place: the value goes into the handle */

template <loom__slot_kind pairs> struct build_work {
    loom__multi_view view;
    bulk_regions<pairs> records;
    uint32_t staged; /* values for which a thread block has shared memory */
    cuda_counts *counts;
    moved_pieces *moved; /* adds */
};

template <loom__slot_kind pairs>
constexpr loom__slot_kind directory_of = sizeof(typename widths<pairs>::key) == 4 ? SLOT_KEY_4_VALUE_8
                                                                                  : SLOT_KEY_8_VALUE_8;

template <class key> __device__ __forceinline__ key swap_key(void *at, key from, key to)
{
    if constexpr (sizeof(key) == 4)
        return atomicCAS((uint32_t *)at, from, to);
    else
        return (key)atomicCAS((unsigned long long *)at, (unsigned long long)from, (unsigned long long)to);
}

/* ---- 1. count ---- */

/* The partition that a thread block makes. */
struct build_block {
    unsigned char *lines, *tags; /* in shared memory */
    loom__open_view view;
    uint64_t empty;
    volatile uint32_t *full; /* a pair has looked at all buckets: no slot is free any more */
};

/* Where a key may be. */
struct key_walk {
    uint32_t bucket, step, bit;
    uint8_t tag; /* not 0 */
};

template <loom__slot_kind kind> __device__ __forceinline__ key_walk start_walk(const build_block &block, uint64_t key)
{
    const uint64_t hash = loom__hash_key(key, slot_key_bytes(kind), block.view.seed);
    const uint32_t lower = (uint32_t)hash, buckets = block.view.buckets;
    const uint8_t tag = (uint8_t)(hash >> 32);
    return {loom__hash_bucket(lower, buckets), loom__hash_step(lower, buckets), open_filter_bit(kind, lower),
            (uint8_t)(tag + (tag == 0))};
}

/* The tags of a bucket, a byte for each slot. */
template <loom__slot_kind kind> struct bucket_tags {
    static constexpr int words = MULTI_TAG_BYTES / 4; /* a directory has up to 7 slots in a bucket */
    uint32_t word[words];

    __device__ __forceinline__ bucket_tags(const build_block &block, uint32_t bucket)
    {
        const volatile uint32_t *at = (const volatile uint32_t *)(block.tags + bucket * MULTI_TAG_BYTES);
        word[0] = at[0], word[1] = at[1];
    }
    /* A set of slots with this tag, and perhaps some others: subtracting from a byte that is equal borrows from the
     * byte above. Each slot is a bit, in a sequence that slot_of knows. */
    __device__ __forceinline__ uint32_t alike(uint8_t tag) const
    {
        uint32_t set = 0;
#pragma unroll
        for (int i = 0; i < words; i++) {
            const uint32_t differs = word[i] ^ tag * 0x01010101u;
            set |= ((differs - 0x01010101u) & ~differs & 0x80808080u) >> (7 - i);
        }
        const int last = open_slots(kind) - 1; /* the bytes behind it stand for no slot */
        return last % 4 == 3 ? set : set & ~((0xffffff00u << last % 4 * 8 & 0x01010101u) << last / 4);
    }
    static __device__ __forceinline__ uint32_t slot_of(uint32_t bit)
    {
        return bit % 8 * 4 + bit / 8;
    }
};

/* The number of a slot in its partition: NUMBERED for each bucket. */
__device__ __forceinline__ uint32_t slot_number(uint32_t bucket, uint32_t slot)
{
    return bucket * NUMBERED + slot;
}

/* The two halves of a slot's value. */
template <loom__slot_kind kind> __device__ __forceinline__ uint32_t *halves_of(unsigned char *lines, uint32_t number)
{
    return (uint32_t *)value_at<kind>(lines, number / NUMBERED, number % NUMBERED);
}

/* Adds: makes tags, and puts the length of each list in place of its handle. Returns whether this thread saw a free
 * slot. */
template <loom__slot_kind kind> __device__ __forceinline__ bool take_over_slots(const build_block &block)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr uint32_t tag_bytes = MULTI_TAG_BYTES;
    const uint32_t buckets = block.view.buckets;
    bool any_free = false;
    for (uint32_t i = threadIdx.x; i < buckets * tag_bytes; i += blockDim.x) {
        const uint32_t bucket = i / tag_bytes, slot = i % tag_bytes;
        uint8_t tag = 0;
        if (slot < open_slots(kind)) {
            const key one = *(const key *)(block.lines + bucket * open_line_stride(kind) + slot * sizeof(key));
            uint64_t *handle = (uint64_t *)value_at<kind>(block.lines, bucket, slot);
            const bool is_free = one == (key)block.empty;
            if (!is_free)
                tag = start_walk<kind>(block, one).tag;
            any_free |= is_free;
            *handle = list_count(*handle) << 32;
        }
        block.tags[i] = tag;
    }
    return any_free;
}

/* The number of the key's slot in this bucket; NOWHERE if the key is not there. If the lane `claims`, the key then gets
 * a slot, unless the bucket is full.
 * All lanes of the warp call this, those without a key with active = false. The barriers bring them together again:
 * without them the compiler lets each lane go its own way to the end of the round, and 8 of 32 lanes work. */
const uint32_t NOWHERE = UINT32_MAX - 1;

template <loom__slot_kind kind, class key>
__device__ __forceinline__ uint32_t try_bucket(const build_block &block, const key_walk &walk, key sought, bool active,
                                               bool claims)
{
    unsigned char *line = block.lines + walk.bucket * open_line_stride(kind);
    const bucket_tags<kind> tags(block, walk.bucket);
    uint32_t number = NOWHERE;
    for (uint32_t alike = active ? tags.alike(walk.tag) : 0; alike != 0; alike &= alike - 1) {
        const uint32_t slot = tags.slot_of(__ffs(alike) - 1);
        if (*(const volatile key *)(line + slot * sizeof(key)) == sought) {
            number = slot_number(walk.bucket, slot);
            break;
        }
    }
    __syncwarp();
    for (uint32_t free = active && claims && number == NOWHERE ? tags.alike(0) : 0; free != 0; free &= free - 1) {
        const uint32_t slot = tags.slot_of(__ffs(free) - 1);
        const key there = swap_key<key>(line + slot * sizeof(key), (key)block.empty, sought);
        if (there == (key)block.empty)
            block.tags[slot_number(walk.bucket, slot)] = walk.tag;
        if (there == (key)block.empty || there == sought) {
            number = slot_number(walk.bucket, slot);
            break;
        }
    }
    __syncwarp();
    return number;
}

/* The nth set bit of a word, counted from 0. The word has more set bits than that. */
__device__ __forceinline__ uint32_t nth_bit(uint32_t word, uint32_t nth)
{
    uint32_t at = 0;
#pragma unroll
    for (uint32_t width = 16; width > 0; width /= 2) {
        const uint32_t below = __popc(word >> at & ((1u << width) - 1));
        at += nth >= below ? width : 0;
        nth -= nth >= below ? below : 0;
    }
    return at;
}

/* Pairs that a thread counts in a round: their keys fit its registers. */
template <class key, bool adds> constexpr int COUNTED = sizeof(key) == 4 ? (adds ? 6 : 8) : 4;

/* The pairs of a warp's round that did not find their key at home: a bit for each lane and each of its pairs. */
template <int counted> struct late_pairs {
    uint32_t lanes[counted], taken, all;

    /* The place of the nth late pair in the round: its number among the pairs of one thread, and the lane. */
    __device__ __forceinline__ uint32_t place(uint32_t nth, uint32_t *lane) const
    {
        uint32_t k = 0, word = lanes[0];
#pragma unroll
        for (int next = 1; next < counted; next++) {
            const uint32_t before = __popc(word);
            const bool is_behind = k + 1 == (uint32_t)next && nth >= before;
            nth -= is_behind ? before : 0;
            word = is_behind ? lanes[next] : word;
            k += is_behind;
        }
        *lane = nth_bit(word, nth);
        return k;
    }
};

/* A late pair on its way from bucket to bucket. */
template <class key> struct late_walk {
    uint32_t i, depth; /* the pair; depth 0: this lane has none */
    key one;
    key_walk at;
    bool seeks; /* adds: the key may be in the table, further on */
};

/* Pairs whose home bucket is full, with `adds` also pairs whose filter bit is set there, are late: they wait until the
 * warp has looked for all pairs of the round at home. Then each lane that has no pair takes the next one, whichever lane
 * found it. A round ends when all its late pairs are taken and less than half of the lanes have one: these go on in the
 * next round. All lanes of a warp take part in a search. Returns how many pairs this thread refused. */
template <loom__slot_kind pairs, bool adds>
__device__ __forceinline__ uint32_t count_pairs(const build_block &block,
                                                const typename bulk_columns<pairs>::arrays &records, uint32_t count)
{
    typedef bulk_columns<pairs> columns;
    typedef typename widths<pairs>::key key;
    constexpr loom__slot_kind kind = directory_of<pairs>;
    constexpr int counted = COUNTED<key, adds>;
    const uint32_t buckets = block.view.buckets, lane = threadIdx.x % 32, step = blockDim.x * counted;
    uint32_t refused = 0;
    auto settle = [&](uint32_t i, uint32_t slot) {
        *(uint32_t *)&records.heads[i] = slot;
        if (slot != REFUSED)
            atomicAdd(halves_of<kind>(block.lines, slot), 1u);
        refused += slot == REFUSED;
        if (slot == REFUSED)
            *block.full = 1;
    };
    late_walk<key> late = {};
    for (uint32_t first = 0; first < count; first += step) { /* the same for all lanes */
        const uint32_t begin = first + threadIdx.x;
        key ones[counted];
        late_pairs<counted> waiting;
        waiting.taken = waiting.all = 0;
#pragma unroll
        for (int k = 0; k < counted; k++)
            ones[k] = begin + k * blockDim.x < count ? (key)columns::key_of(records.heads[begin + k * blockDim.x]) : 0;
#pragma unroll
        for (int k = 0; k < counted; k++) {
            const uint32_t i = begin + k * blockDim.x;
            const key_walk home = start_walk<kind>(block, ones[k]);
            const bool claims = !adds || !has_bit<kind>(block.lines + home.bucket * open_line_stride(kind), home.bit);
            const uint32_t slot = try_bucket<kind, key>(block, home, ones[k], i < count, claims);
            if (slot != NOWHERE)
                settle(i, slot);
            waiting.lanes[k] = __ballot_sync(CUDA_FULL_MASK, i < count && slot == NOWHERE);
            waiting.all += __popc(waiting.lanes[k]);
        }
        const bool is_last = first + step >= count;
        for (;;) { /* at most `buckets` turns for each pair, with `adds` twice as many */
            const uint32_t idle = __ballot_sync(CUDA_FULL_MASK, late.depth == 0);
            const uint32_t nth = waiting.taken + __popc(idle & ((1u << lane) - 1));
            if (late.depth == 0 && nth < waiting.all) {
                uint32_t of_lane;
                const uint32_t k = waiting.place(nth, &of_lane);
                late.i = begin - lane + of_lane + k * blockDim.x;
                late.one = (key)columns::key_of(records.heads[late.i]);
                late.at = start_walk<kind>(block, late.one);
                late.depth = 1;
                late.seeks = adds && has_bit<kind>(block.lines + late.at.bucket * open_line_stride(kind), late.at.bit);
            }
            waiting.taken += __popc(idle);
            waiting.taken = waiting.taken < waiting.all ? waiting.taken : waiting.all;
            const int busy = __popc(__ballot_sync(CUDA_FULL_MASK, late.depth != 0));
            if (busy == 0 || (!is_last && waiting.taken == waiting.all && busy < FEW_LATE))
                break;
            unsigned char *line = block.lines + late.at.bucket * open_line_stride(kind);
            bool last = late.depth + 1 >= buckets, begins_anew = false;
            if (adds && late.seeks && late.depth != 0) {
                late.seeks = has_bit<kind>(line, late.at.bit) && late.depth < buckets;
                begins_anew = !late.seeks;
                if (begins_anew)
                    late.at = start_walk<kind>(block, late.one);
                late.at.bucket += late.seeks ? late.at.step : 0;
                late.at.bucket -= late.at.bucket >= buckets ? buckets : 0;
                last = false;
            } else if (late.depth != 0 && *block.full &&
                       !has_bit<kind>(line, late.at.bit)) { /* no free slot, and the key is not further on */
                last = true;
            } else if (late.depth != 0) {
                (void)set_bit<kind>(line, late.at.bit);
                late.at.bucket += late.at.step;
                late.at.bucket -= late.at.bucket >= buckets ? buckets : 0;
            }
            __syncwarp();
            const uint32_t slot =
                try_bucket<kind, key>(block, late.at, late.one, late.depth != 0, !adds || !late.seeks);
            if (slot != NOWHERE || (late.depth != 0 && last)) {
                settle(late.i, slot != NOWHERE ? slot : REFUSED);
                late.depth = 0;
            } else if (late.depth != 0) {
                late.depth = adds && begins_anew ? 1 : late.depth + 1;
            }
            __syncwarp();
        }
    }
    return refused;
}

/* ---- 2. place ---- */

/* The sum of the numbers of all threads before this one, and of all. All threads of the block call this. */
__device__ __forceinline__ uint32_t sum_before(uint32_t mine, uint32_t *all)
{
    __shared__ uint32_t sums[32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    uint32_t sum = mine;
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = __shfl_up_sync(CUDA_FULL_MASK, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    uint32_t of_warps = lane < warps ? sums[lane] : 0;
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = __shfl_up_sync(CUDA_FULL_MASK, of_warps, distance);
        of_warps += lane >= distance ? other : 0;
    }
    *all = __shfl_sync(CUDA_FULL_MASK, of_warps, 31);
    const uint32_t before = __shfl_sync(CUDA_FULL_MASK, of_warps, (int)warp - 1);
    return (warp > 0 ? before : 0) + sum - mine;
}

/* What a list takes of the heap. A LARGE one begins at a multiple of a unit. */
__device__ __forceinline__ uint32_t list_takes(uint32_t count, bool has_ones)
{
    return has_ones && count == 1 ? 0 : count + (list_kind_for(count) == LIST_LARGE ? LIST_LARGE_UNIT - 1 : 0);
}

/* The values of a list that takes a place. */
template <bool adds> __device__ __forceinline__ uint32_t placed_values(const uint32_t *halves)
{
    return adds && halves[0] > 0 ? halves[0] + halves[1] : halves[0];
}

/* Adds: clears what a LARGE list takes before and behind its values, since it goes into files. The list takes `takes`
 * values from `place` on, and begins at `first`. */
__device__ void clear_padding(const loom__multi_view &view, uint64_t place, uint32_t takes, uint64_t first,
                              uint32_t count)
{
    for (uint64_t at = place; at < first; at++)
        put_number((uint32_t)view.value_bytes, view.heap, at, 0);
    for (uint64_t at = first + count; at < place + takes; at++)
        put_number((uint32_t)view.value_bytes, view.heap, at, 0);
}

/* Returns the partition's place in the heap, and how many values it takes. All threads of the block call this. */
template <loom__slot_kind kind, bool adds>
__device__ __forceinline__ uint64_t place_lists(unsigned char *lines, const loom__multi_view &view, uint32_t *taken)
{
    __shared__ uint64_t base;
    const uint32_t buckets = view.directory.buckets, slots = buckets * open_slots(kind);
    const uint32_t each = (slots + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * each;
    const uint32_t end = begin + each < slots ? begin + each : slots;
    const uint32_t first = slot_number(begin / open_slots(kind), begin % open_slots(kind));
    auto after = [](uint32_t number) {
        return number % NUMBERED == open_slots(kind) - 1 ? (number / NUMBERED + 1) * NUMBERED : number + 1;
    };
    const bool has_ones = multi_has_ones(&view);
    uint32_t mine = 0, all;
    for (uint32_t slot = begin, number = first; slot < end; slot++, number = after(number))
        mine += list_takes(placed_values<adds>(halves_of<kind>(lines, number)), has_ones);
    uint32_t at = sum_before(mine, &all);
    if (threadIdx.x == 0)
        base = all > 0 ? atomicAdd((unsigned long long *)&view.lists->used, (unsigned long long)all) : 0;
    __syncthreads();
    for (uint32_t slot = begin, number = first; slot < end; slot++, number = after(number)) {
        uint32_t *halves = halves_of<kind>(lines, number);
        const uint32_t count = placed_values<adds>(halves), takes = list_takes(count, has_ones);
        if (takes > 0) {
            const uint32_t first = at + (uint32_t)multi_padding(list_kind_for(count), base + at);
            if (adds && takes > count)
                clear_padding(view, base + at, takes, base + first, count);
            halves[1] = adds ? first + halves[1] : first; /* behind the old values */
        } else if (adds && count > 0) {
            halves[1] = IN_HANDLE;
        }
        at += takes;
    }
    *taken = all;
    return base;
}

/* ---- 3. store ---- */

/* Adds: copies one value to shared memory, or within the heap. */
template <bool stages, class value> __device__ __forceinline__ void copy_value(value *to, const value *from)
{
    if constexpr (stages)
        __pipeline_memcpy_async(to, from, sizeof(value));
    else
        *to = *from;
}

/* Adds: copies the old values of the lists that get new ones. `before` is the partition in global memory. With
 * `stages` they go to shared memory, and arrive later. Whole warps call this: a bucket has
 * NUMBERED of its lanes. */
template <loom__slot_kind kind, bool stages, class value>
__device__ __forceinline__ void copy_old_values(unsigned char *lines, unsigned char *before, uint32_t buckets,
                                                const value *heap, value *to, uint64_t base, moved_pieces *moved)
{
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t number = threadIdx.x; number < (buckets + BUCKETS_OF_WARP - 1) / BUCKETS_OF_WARP * 32;
         number += blockDim.x) {
        const uint32_t *halves = halves_of<kind>(lines, number);
        const bool exists = number % NUMBERED < open_slots(kind) && number / NUMBERED < buckets;
        const bool grows = exists && halves[0] > 0;
        const uint64_t old = grows ? *(const uint64_t *)halves_of<kind>(before, number) : 0;
        const uint64_t first = list_first(old);
        uint32_t count = (uint32_t)list_count(old);
        const uint32_t place = grows ? halves[1] - count : 0;
        if (list_kind(old) == LIST_ONE) {
            to[place] = (value)list_one_value(old);
            count = 0;
        }
        for (uint32_t longer = __ballot_sync(CUDA_FULL_MASK, count > FEW_VALUES); longer != 0; longer &= longer - 1) {
            const int source = __ffs(longer) - 1;
            const uint64_t from = __shfl_sync(CUDA_FULL_MASK, first, source);
            const uint32_t all = __shfl_sync(CUDA_FULL_MASK, count, source),
                           at = __shfl_sync(CUDA_FULL_MASK, place, source);
            if (!stages && all > MOVED_PIECE) {
                const uint32_t pieces = (all + MOVED_PIECE - 1) / MOVED_PIECE;
                uint32_t begin = lane == 0 ? atomicAdd(&moved->count, pieces) : 0;
                begin = __shfl_sync(CUDA_FULL_MASK, begin, 0);
                for (uint32_t i = lane; i < pieces; i += 32) {
                    const uint32_t done = i * MOVED_PIECE;
                    moved->pieces[begin + i] = {from + done, base + at + done,
                                                all - done < MOVED_PIECE ? all - done : MOVED_PIECE};
                }
            } else {
#pragma unroll 4
                for (uint32_t i = lane; i < all; i += 32)
                    copy_value<stages>(to + at + i, heap + from + i);
            }
        }
        count = count > FEW_VALUES ? 0 : count;
#pragma unroll
        for (int step = 0; step < LIST_LANES; step++) {
            const int source = step * (32 / LIST_LANES) + (int)lane / LIST_LANES;
            const uint64_t from = __shfl_sync(CUDA_FULL_MASK, first, source);
            const uint32_t all = __shfl_sync(CUDA_FULL_MASK, count, source),
                           at = __shfl_sync(CUDA_FULL_MASK, place, source);
            for (uint32_t i = lane % LIST_LANES; i < all; i += LIST_LANES)
                copy_value<stages>(to + at + i, heap + from + i);
        }
    }
}

/* Stores the values from `to` on. */
template <loom__slot_kind pairs, bool adds>
__device__ __forceinline__ void store_pairs(unsigned char *lines, const typename bulk_columns<pairs>::arrays &records,
                                            uint32_t count, typename bulk_columns<pairs>::value *to)
{
    typedef bulk_columns<pairs> columns;
    typedef typename columns::value value;
    constexpr loom__slot_kind kind = directory_of<pairs>;
    for (uint32_t first = 0; first < count; first += blockDim.x * STORED) {
        uint32_t slot[STORED];
        value ones[STORED];
#pragma unroll
        for (int k = 0; k < STORED; k++) {
            const uint32_t i = first + k * blockDim.x + threadIdx.x;
            slot[k] = REFUSED;
            if (i < count) {
                const typename columns::head head = records.heads[i];
                slot[k] = (uint32_t)head;
                ones[k] = (value)columns::value_of(head, records, i);
            }
        }
#pragma unroll
        for (int k = 0; k < STORED; k++) {
            if (slot[k] == REFUSED)
                continue;
            uint32_t *halves = halves_of<kind>(lines, slot[k]);
            if (sizeof(value) == 4 && halves[0] == 1 && (!adds || halves[1] == IN_HANDLE))
                halves[1] = (uint32_t)ones[k];
            else
                to[atomicAdd(&halves[1], 1u)] = ones[k];
        }
    }
}

/* ---- 4. finish ---- */

struct list_counts {
    uint64_t keys, in_heap;
};

/* Adds: makes the handle of a list. `more` new values have come, and the list ends at `end`. Counts what becomes more,
 * modulo 2^64. */
__device__ __forceinline__ uint64_t longer_list(uint64_t old, uint32_t more, uint32_t end, bool has_ones, uint64_t base,
                                                list_counts *counts)
{
    const uint64_t old_count = list_count(old), count = old_count + more;
    const bool one = has_ones && count == 1;
    if (more == 0)
        return old;
    counts->keys += old == 0;
    counts->in_heap += (one ? 0 : count) - (list_in_heap(old) ? old_count : 0);
    return one ? list_of_one(end) : list_make(list_kind_for(count), base + end - count, count, 1);
}

/* NUMBERED lanes work on a bucket. `before`, with `adds`: the partition in global memory. */
template <loom__slot_kind kind, bool adds>
__device__ __forceinline__ list_counts finish_lists(unsigned char *lines, unsigned char *before,
                                                    const loom__multi_view &view, uint64_t base)
{
    const uint32_t buckets = view.directory.buckets;
    const bool has_ones = multi_has_ones(&view);
    list_counts counts = {};
    for (uint32_t number = threadIdx.x; number < (buckets + BUCKETS_OF_WARP - 1) / BUCKETS_OF_WARP * 32;
         number += blockDim.x) { /* whole warps */
        uint32_t *halves = halves_of<kind>(lines, number);
        const bool exists = number % NUMBERED < open_slots(kind) && number / NUMBERED < buckets;
        const uint32_t count = exists ? halves[0] : 0, last = exists ? halves[1] : 0;
        const bool one = has_ones && count == 1;
        if (adds && exists)
            *(uint64_t *)halves =
                longer_list(*(const uint64_t *)halves_of<kind>(before, number), count, last, has_ones, base, &counts);
        else if (!adds && count > 0)
            *(uint64_t *)halves =
                one ? list_of_one(last) : list_make(list_kind_for(count), base + last - count, count, 1);
        const uint32_t all_ready = __ballot_sync(CUDA_FULL_MASK, count > 0);
        const uint32_t ready = all_ready >> threadIdx.x % 32 / NUMBERED * NUMBERED & ((1u << NUMBERED) - 1);
        if (number % NUMBERED == 0 && ready != 0)
            set_ready<kind>(lines + number / NUMBERED * open_line_stride(kind), ready);
        if (!adds) {
            counts.keys += count > 0;
            counts.in_heap += one ? 0 : count;
        }
    }
    return counts;
}

template <loom__slot_kind pairs, bool adds>
__global__ void __maxnreg__(PARTITION_REGISTERS) build_kernel(const build_work<pairs> work)
{
    typedef typename bulk_columns<pairs>::value value;
    constexpr loom__slot_kind kind = directory_of<pairs>;
    extern __shared__ __align__(128) unsigned char lines[];
    const loom__open_view &directory = work.view.directory;
    const uint32_t partition = blockIdx.x, bytes = directory.partition_bytes;
    const uint32_t count = work.records.count(blockIdx.x);
    if (*work.records.spilled > 0) /* the batch goes another way */
        return;
    if (adds && count == 0)
        return;
    const uint64_t empty = open_empty(&directory, partition);
    const typename bulk_columns<pairs>::arrays records = work.records.at(blockIdx.x);
    auto in_table = [&] { return directory.base + (uint64_t)partition * bytes; };
    begin_partition<kind>((uint4 *)lines, adds ? (const uint4 *)in_table() : NULL, bytes, empty);
    __shared__ uint32_t full;
    const build_block block = {lines, lines + bytes, directory, empty, &full};
    bool was_full = false;
    if constexpr (adds) {
        __syncthreads();
        was_full = !__syncthreads_or(take_over_slots<kind>(block));
    }
    if (threadIdx.x == 0)
        full = was_full;
    for (uint32_t i = threadIdx.x; !adds && i < directory.buckets * bucket_tags<kind>::words; i += blockDim.x)
        ((uint32_t *)block.tags)[i] = 0;
    __syncthreads();
    const uint32_t refused = count_pairs<pairs, adds>(block, records, count);
    uint32_t taken;
    __syncthreads();
    const uint64_t base = place_lists<kind, adds>(lines, work.view, &taken);
    value *heap = (value *)work.view.heap + base, *staged = (value *)(block.tags + directory.buckets * MULTI_TAG_BYTES);
    __syncthreads();
    if (taken <= work.staged) {
        if constexpr (adds) {
            copy_old_values<kind, true>(lines, in_table(), directory.buckets, (const value *)work.view.heap, staged,
                                        base, work.moved);
            __pipeline_commit();
            __syncthreads();
        }
        store_pairs<pairs, adds>(lines, records, count, staged);
        if constexpr (adds)
            __pipeline_wait_prior(0);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < taken; i += blockDim.x)
            heap[i] = staged[i];
    } else {
        if constexpr (adds) {
            copy_old_values<kind, false>(lines, in_table(), directory.buckets, (const value *)work.view.heap, heap,
                                         base, work.moved);
            __syncthreads();
        }
        store_pairs<pairs, adds>(lines, records, count, heap);
    }
    __syncthreads();
    const list_counts lists = finish_lists<kind, adds>(lines, in_table(), work.view, base);
    write_partition<false>(in_table(), lines, bytes);
    if (!adds && threadIdx.x == 0) {
        directory.marks[partition] = full ? OPEN_FULL : OPEN_UNMARKED;
        directory.stale[partition] = 0;
        directory.retired_slots[partition] = 0;
    }
    if (adds && threadIdx.x == 0 && full) {
        directory.marks[partition] = OPEN_FULL;
        if (!was_full) /* refused pairs have left filter bits in all buckets: upkeep is due */
            directory.stale[partition] = open_most_stale(&directory) + 1;
    }
    const uint32_t own = threadIdx.x == 0 ? count : 0;
    multi_add(&directory.totals->size, lists.keys);
    multi_add(&work.view.lists->in_heap, lists.in_heap);
    multi_add(&work.view.lists->pairs, (uint64_t)own - refused);
    tell_counts(work.counts, {(int32_t)(own - refused), 0, (int32_t)refused});
}

/* Copies the pieces of long lists. */
template <class value>
__global__ void __launch_bounds__(MULTI_THREADS) copy_moved_kernel(value *heap, const moved_pieces *moved)
{
    const uint32_t pieces = moved->count;
    for (uint32_t i = blockIdx.x; i < pieces; i += gridDim.x) {
        const moved_piece piece = moved->pieces[i];
#pragma unroll 8
        for (uint32_t at = threadIdx.x; at < piece.count; at += MULTI_THREADS)
            heap[piece.to + at] = heap[piece.from + at];
    }
}

/* Shared memory of a thread block: a partition, its tags, and room for values. */
uint32_t least_shared(const loom__open_view *directory)
{
    return directory->partition_bytes + directory->buckets * MULTI_TAG_BYTES;
}

/* Two thread blocks share an SM, if the partition allows it. Values get what is left, but no more than a partition has
 * if its records fill their region. */
uint32_t shared_with_values(const cuda_state *cuda, const loom__open_view *directory, uint64_t value_bytes)
{
    const uint32_t least = least_shared(directory), most = (uint32_t)cuda->shared_bytes - BULK_STATIC_BYTES;
    const uint32_t half = BULK_HALF_BYTES, room = least <= half ? half : most;
    const uint64_t wanted = least + value_bytes;
    return (uint32_t)(wanted < room ? wanted : room);
}

/* `values`: those that a partition writes, on the safe side. */
template <loom__slot_kind pairs, bool adds>
cudaError_t build(const cuda_state *cuda, const loom__multi_view *view, const bulk_plan *plan, unsigned char *workspace,
                  uint64_t values, moved_pieces *moved, cuda_counts *counts, cudaStream_t stream)
{
    const loom__open_view *directory = &view->directory;
    const uint32_t shared = shared_with_values(cuda, directory, values * view->value_bytes);
    const build_work<pairs> work = {*view, split_fine_regions<bulk_columns<pairs>>(plan, workspace, 0),
                                    (uint32_t)((shared - least_shared(directory)) / view->value_bytes), counts, moved};
    RETURN_IF_CUDA_FAILED(allow_shared(build_kernel<pairs, adds>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES));
    build_kernel<pairs, adds><<<directory->partitions, threads_for_shared(shared), shared, stream>>>(work);
    return cudaGetLastError();
}

template <loom__slot_kind pairs>
cudaError_t add(const cuda_state *cuda, const loom__multi_view *view, const bulk_plan *plan, unsigned char *workspace,
                uint64_t n, uint64_t stored, moved_pieces *moved, cuda_counts *counts, cudaStream_t stream)
{
    typedef typename bulk_columns<pairs>::value value;
    enum { MARGIN = 4, BLOCKS = 8 /* on one multiprocessor */ };
    const uint64_t mean = (stored + n) / view->directory.partitions + 1;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(&moved->count, 0, sizeof moved->count, stream));
    RETURN_IF_CUDA_FAILED(
        (build<pairs, true>(cuda, view, plan, workspace, mean + mean / MARGIN, moved, counts, stream)));
    if (stored <= MOVED_PIECE)
        return cudaSuccess;
    copy_moved_kernel<<<(unsigned)cuda->multiprocessors * BLOCKS, MULTI_THREADS, 0, stream>>>((value *)view->heap,
                                                                                              moved);
    return cudaGetLastError();
}

} // namespace

bool cuda_multi_plan_build(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs, uint64_t n,
                           bulk_plan *plan)
{
    const loom__open_view *directory = &view->directory;
    split_request split = {};
    split.n = n;
    split.keys = bulk_slots(directory) / LEAST_LOAD; /* fewer different keys: regions differ more */
    split.parts = directory->partitions;
    cuda_bulk_columns(pairs, &split);
    return least_shared(directory) + BULK_STATIC_BYTES <= (uint32_t)cuda->shared_bytes &&
           split_plan_passes(&split, plan);
}

cudaError_t cuda_multi_build(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                             const bulk_plan *plan, unsigned char *workspace, cuda_counts *counts, cudaStream_t stream)
{
    const uint64_t most = plan->fine_room;
    switch (pairs) {
    case SLOT_PAIR_4_4:
        return build<SLOT_PAIR_4_4, false>(cuda, view, plan, workspace, most, NULL, counts, stream);
    case SLOT_KEY_4_VALUE_8:
        return build<SLOT_KEY_4_VALUE_8, false>(cuda, view, plan, workspace, most, NULL, counts, stream);
    case SLOT_KEY_8_VALUE_4:
        return build<SLOT_KEY_8_VALUE_4, false>(cuda, view, plan, workspace, most, NULL, counts, stream);
    default:
        return build<SLOT_KEY_8_VALUE_8, false>(cuda, view, plan, workspace, most, NULL, counts, stream);
    }
}

uint64_t cuda_multi_moved_bytes(const loom__multi_view *view)
{
    return sizeof(moved_pieces) + view->room / MOVED_PIECE * sizeof(moved_piece);
}

cudaError_t cuda_multi_add(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                           const bulk_plan *plan, unsigned char *workspace, uint64_t n, uint64_t stored,
                           moved_pieces *moved, cuda_counts *counts, cudaStream_t stream)
{
    switch (pairs) {
    case SLOT_PAIR_4_4:
        return add<SLOT_PAIR_4_4>(cuda, view, plan, workspace, n, stored, moved, counts, stream);
    case SLOT_KEY_4_VALUE_8:
        return add<SLOT_KEY_4_VALUE_8>(cuda, view, plan, workspace, n, stored, moved, counts, stream);
    case SLOT_KEY_8_VALUE_4:
        return add<SLOT_KEY_8_VALUE_4>(cuda, view, plan, workspace, n, stored, moved, counts, stream);
    default:
        return add<SLOT_KEY_8_VALUE_8>(cuda, view, plan, workspace, n, stored, moved, counts, stream);
    }
}
