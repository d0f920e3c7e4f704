/* Insertion by partition on a GPU. The batch is split by partition (cuda_split.cuh). Then one thread block per
 * partition fills the partition in shared memory and writes it out whole.
 *
 * A direct insertion reads and writes a random line of memory for each key. Here all accesses are sequential. Let there
 * be n pairs of p bytes and a table of t bytes. Two passes of the split move 4 n p bytes, and filling an empty table
 * moves n p + t bytes. Filling a table that holds keys moves t more. The first pass of a build writes into the table's
 * own memory, which holds nothing yet. A build of 10^8 pairs of 4 + 4 bytes at load 0.8 on an H200 moves 5.1 GB, which
 * takes 1.2 ms at the speed of a copy. Measured: 1.78 ms.
 *
 * How a block fills a partition, with a barrier after each step:
 *   0. begin   Starts from an empty partition, or from the existing one. Keys of an existing partition move to the
 *              first slots of their buckets, and counters begin behind them.
 *   1. home    Each key takes the next place of its home bucket from a counter. Keys that find the bucket full, or
 *              their filter bit set there, are set aside. Each warp stores the keys that it sets aside over records
 *              that it has read already.
 *   2. chain   Keys that were set aside look for an equal key at home, set their filter bits and take the next place on
 *              their probe sequences. If a key's bit was already set at home, an equal key may lie further on: the key
 *              is set aside once more. If the bit was not set, no equal key lies further on: it would have set the same
 *              bit in the same bucket.
 *   3. finish  One lane per bucket sets ready bits and removes equal keys that took places of one home bucket in step
 *              1. Of equal keys, the one in the lowest slot stays. If one of them was in the partition before, it has
 *              the lowest slot.
 *   4. rest    Keys set aside in step 2 look for an equal key along their sequence as far as their bit is set, 1.07
 *              buckets. At load 0.95 they are 3 % of the keys set aside in step 1. Keys that find no equal key take
 *              places as in step 2. Then each of these keys searches its sequence again, from behind home to the first
 *              slot with an equal key. The key in that slot stays; the other equal keys leave again. Their places stay
 *              taken and their bits set. Both are harmless, and rare: they require a different key that has set the
 *              same bit.
 * These steps run only if keys and records together do not exceed the slots. Then no key is refused because of an equal
 * one, and every search ends. In partitions that get more records, and in calls that want statuses, each record is
 * inserted in shared memory as any key is (open_ops.h).
 *
 * At load 0.95 a partition has 3491 buckets, and its thread block has an SM for itself. The time per partition is 1.8
 * µs for step 0, then 10.9, 13.2, 2.4 and 6.5 for steps 1 to 4, and 5.0 to write the partition out. 13 of 100 keys are
 * set aside. They walk 2.9 buckets on average, the last ones of a warp 14. For this reason several counters are read at
 * once. An earlier step 4 inserted keys as any key is, by 64-bit CAS, and took 14.0 µs for 100 keys. Prefetching
 * records into the L2 cache ahead of their block made no difference.
 *
 * Builds in order (IN_ORDER) differ. A slot's value is at first the place of its record in the region. Where two equal
 * keys meet, their places in the batch decide which one stays; records have a column for them. Records do not move.
 * When a record is set aside, only its place is stored, in the table's memory of this partition, which is not needed
 * yet. One more step follows:
 *   5. values  Each slot takes its value from the region. A region of 12,000 records is still in the L2 cache if not
 *              too many thread blocks run. Two blocks per SM, which are better otherwise, make 10^8 pairs take 0.3 ms
 *              longer. Taking values from the batch itself would cost a random access for each key: 2.3 ms. */
#define CUDA_LANES 1
#define CUDA_SHARED_TABLE
#include "machines/cuda/open/cuda_open_partition.cuh"

#include "machines/cuda/open/cuda_open_counts.cuh"

namespace
{

enum { UNROLLED = 4, LOOKED_AHEAD = 4 };

template <loom__slot_kind kind> struct build_work {
    loom__open_view view;
    bulk_regions<kind> records;
    uint32_t first; /* the partition of the first region */
    int overwrite;
    int again;       /* 1: runs only if the split gave up; empties all partitions and clears the counts */
    uint8_t *status; /* NULL: not wanted */
    cuda_counts *counts;
};

/* One thread block's part of the work. */
template <loom__slot_kind kind> struct build_block {
    loom__open_view own; /* the table, with this partition in shared memory */
    unsigned char *lines;
    uint32_t *taken;
    typename bulk_columns<kind>::arrays records;
    uint32_t count;
    uint64_t empty;
    bool overwrite;
    uint32_t *aside; /* IN_ORDER: places of records set aside */
};

/* Inserts every record as any key is inserted. */
template <loom__slot_kind kind>
__device__ __forceinline__ void insert_all(const build_block<kind> &block, uint8_t *status, outcome_counts *counts)
{
    typedef bulk_columns<kind> columns;
    for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x) {
        typename columns::head one = block.records.heads[i];
        const uint64_t key = columns::key_of(one), value = columns::value_of(one, block.records, i);
        const lane_group alone = lane_own_group();
        open_outcome outcome =
            block.overwrite
                ? open_insert_alone(kind, SLOT_OVERWRITE, LOOM__ADD, OPEN_SHARED, alone, &block.own, key, value)
                : open_insert_alone(kind, SLOT_KEEP, LOOM__ADD, OPEN_SHARED, alone, &block.own, key, value);
        count_outcome(counts, outcome);
        if (status != NULL)
            status[block.records.index[i]] = outcome == OPEN_DONE        ? LOOM_OK
                                             : outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                                                         : LOOM_FULL;
    }
}

/* One warp's records of a partition: [begin, end). The records set aside lie in the first `late` places. */
struct warp_share {
    uint32_t begin, end, late;
};

/* One record, and its place in its region. */
template <loom__slot_kind kind> struct build_record {
    typename bulk_columns<kind>::head head;
    uint64_t value;
    uint32_t at;

    __device__ __forceinline__ uint64_t key() const
    {
        return bulk_columns<kind>::key_of(head);
    }
};

/* A key's probe sequence. */
struct chain_walk {
    uint32_t home, step, bit;

    __device__ __forceinline__ uint32_t after(uint32_t bucket, uint32_t buckets) const
    {
        bucket += step;
        return bucket >= buckets ? bucket - buckets : bucket;
    }
};

struct chain_place {
    uint32_t bucket, slot;
};

template <loom__slot_kind kind>
__device__ __forceinline__ chain_walk start_chain(const build_block<kind> &block, uint64_t key)
{
    const uint32_t lower = (uint32_t)loom__hash_key(key, slot_key_bytes(kind), block.own.seed);
    return {loom__hash_bucket(lower, block.own.buckets), loom__hash_step(lower, block.own.buckets),
            open_filter_bit(kind, lower)};
}

template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ build_record<kind> late_record(const build_block<kind> &block, uint32_t i)
{
    const uint32_t at = way == IN_ORDER ? block.aside[i] : i;
    const typename bulk_columns<kind>::head head = block.records.heads[at];
    return {head, way == IN_ORDER ? 0 : bulk_columns<kind>::value_of(head, block.records, at), at};
}

/* Stores the record at the beginning of the warp's share, over records that were read already, if `aside`. All lanes of
 * the warp call this. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ void set_aside(const build_block<kind> &block, warp_share *share, bool aside,
                                          const build_record<kind> &one)
{
    const uint32_t all = __ballot_sync(CUDA_FULL_MASK, aside), lane = threadIdx.x % 32;
    const uint32_t to = share->begin + share->late + __popc(all & ((1u << lane) - 1));
    if (aside && way == IN_ORDER)
        block.aside[to] = one.at;
    if (aside && way != IN_ORDER) {
        block.records.heads[to] = one.head;
        bulk_columns<kind>::set_tail(block.records, to, one.value);
    }
    share->late += __popc(all);
}

/* Whether the record at `b` replaces the record at `a`. Both have equal keys. */
template <loom__slot_kind kind>
__device__ __forceinline__ bool comes_instead(const build_block<kind> &block, uint32_t a, uint32_t b)
{
    const uint32_t first = block.records.index[a], second = block.records.index[b];
    return block.overwrite ? second > first : second < first;
}

/* IN_ORDER: the word of a slot that holds its record's place in the region. Places have 32 bits; the other half of a
 * wide value stays zero. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t *record_place(const build_block<kind> &block, uint32_t bucket, uint32_t slot)
{
    return bulk_columns<kind>::packed ? (uint32_t *)head_at<kind>(block.lines, bucket, slot) + 1
                                      : (uint32_t *)value_at<kind>(block.lines, bucket, slot);
}

/* Handles a record whose key is already in the bucket. Other lanes may handle records of the same key at the same
 * time. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ void meet_equal(const build_block<kind> &block, uint32_t bucket,
                                           const build_record<kind> &one)
{
    if (way == INTO_EMPTY || (way == INTO_FILLED && !block.overwrite))
        return;
    const uint32_t slot = slot_of<kind>(block.lines, bucket, one.key());
    if constexpr (way == INTO_FILLED) {
        place<kind>(block.lines, bucket, slot, one.head, one.value);
    } else if constexpr (way == IN_ORDER) {
        uint32_t *at = record_place(block, bucket, slot);
        for (uint32_t there = *(volatile uint32_t *)at, seen; comes_instead(block, there, one.at); there = seen)
            if ((seen = atomicCAS(at, there, one.at)) == there)
                break;
    }
}

/* Stores a record in a slot. IN_ORDER stores the record's place instead of its value. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ void place_record(const build_block<kind> &block, const chain_place &at,
                                             const build_record<kind> &one)
{
    typename bulk_columns<kind>::head head = one.head;
    if constexpr (way == IN_ORDER && bulk_columns<kind>::packed)
        head = (uint32_t)head | (uint64_t)one.at << 32;
    place<kind>(block.lines, at.bucket, at.slot, head, way == IN_ORDER ? one.at : one.value);
}

/* Step 1: keys go home. Keys that find the bucket full, or their filter bit set there, are set aside. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ void place_at_home(const build_block<kind> &block, warp_share *share)
{
    typedef bulk_columns<kind> columns;
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t next = share->begin; next < share->end; next += 32 * UNROLLED) {
        build_record<kind> ones[UNROLLED];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            const uint32_t i = next + 32 * k + lane;
            ones[k].at = i;
            if (i < share->end) {
                ones[k].head = block.records.heads[i];
                ones[k].value =
                    columns::has_tail && way != IN_ORDER ? columns::value_of(ones[k].head, block.records, i) : 0;
            }
        }
        __syncwarp(); /* all lanes have read the records that set_aside may overwrite */
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            bool is_late = false;
            if (next + 32 * k + lane < share->end) {
                const chain_walk walk = start_chain<kind>(block, ones[k].key());
                if (way == INTO_FILLED)
                    is_late = has_bit<kind>(block.lines + walk.home * open_line_stride(kind), walk.bit);
                if (!is_late) {
                    const chain_place at = {walk.home, take_place(block.taken, walk.home)};
                    is_late = at.slot >= open_slots(kind);
                    if (!is_late)
                        place_record<kind, way>(block, at, ones[k]);
                }
            }
            set_aside<kind, way>(block, share, is_late, ones[k]);
        }
    }
}

/* Places a record at the next free place on its probe sequence behind home, and sets its filter bit in each bucket that
 * it passes. Counters only grow: a bucket that looks full is full. Reading several counters at once is faster than
 * adding to one after the other. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ chain_place place_on_chain(const build_block<kind> &block, const chain_walk &walk,
                                                      const build_record<kind> &one)
{
    const uint32_t buckets = block.own.buckets;
    chain_place at = {walk.home, 0};
    for (;;) { /* some slot is free: at most `buckets` rounds */
        uint32_t next[LOOKED_AHEAD], taken[LOOKED_AHEAD];
#pragma unroll
        for (int k = 0; k < LOOKED_AHEAD; k++) {
            next[k] = walk.after(k > 0 ? next[k - 1] : at.bucket, buckets);
            taken[k] = places_taken(block.taken, next[k]);
        }
#pragma unroll
        for (int k = 0; k < LOOKED_AHEAD; k++) {
            at.bucket = next[k];
            if (taken[k] < open_slots(kind)) {
                at.slot = take_place(block.taken, at.bucket);
                if (at.slot < open_slots(kind)) {
                    place_record<kind, way>(block, at, one);
                    return at;
                }
            }
            (void)set_bit<kind>(block.lines + at.bucket * open_line_stride(kind), walk.bit);
        }
    }
}

/* Step 2: keys that were set aside take the next place on their probe sequences. A key that finds its bit set at home
 * may have an equal key further on, and is set aside once more. Returns how many equal keys were found at home. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ uint32_t place_late(const build_block<kind> &block, warp_share *share)
{
    const uint32_t lane = threadIdx.x % 32, all = share->late;
    uint32_t equal = 0;
    share->late = 0;
    __syncwarp();                   /* other lanes have written what this lane reads */
    build_record<kind> coming = {}; /* read while the records before it find their places */
    if (lane < all)
        coming = late_record<kind, way>(block, share->begin + lane);
    for (uint32_t next = 0; next < all; next += 32) {
        bool suspect = false;
        const build_record<kind> one = coming;
        if (next + 32 + lane < all)
            coming = late_record<kind, way>(block, share->begin + next + 32 + lane);
        if (next + lane < all) {
            const chain_walk walk = start_chain<kind>(block, one.key());
            unsigned char *home = block.lines + walk.home * open_line_stride(kind);
            if (holds<kind>(home, one.key())) {
                equal++;
                meet_equal<kind, way>(block, walk.home, one);
            } else if (!(suspect = set_bit<kind>(home, walk.bit))) {
                (void)place_on_chain<kind, way>(block, walk, one);
            }
        }
        __syncwarp();
        set_aside<kind, way>(block, share, suspect, one);
    }
    return equal;
}

/* Step 4: places keys that were set aside twice, 32 of each warp at a time. Returns how many of them had an equal key.
 * All threads of the block call this function, which has barriers. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ uint32_t place_suspects(const build_block<kind> &block, const warp_share &share)
{
    const uint32_t buckets = block.own.buckets;
    uint32_t equal = 0;
    for (uint32_t i = threadIdx.x % 32; __syncthreads_or(i < share.late); i += 32) {
        const bool mine = i < share.late;
        build_record<kind> one = {};
        chain_walk walk = {};
        bool absent = mine;
        if (mine) {
            one = late_record<kind, way>(block, share.begin + i);
            walk = start_chain<kind>(block, one.key());
            uint32_t bucket = walk.home;
            /* No equal key is at home. An equal key further on has set the bit in each bucket before its own. */
            for (uint32_t round = 1; round < buckets; round++) {
                if (!has_bit<kind>(block.lines + bucket * open_line_stride(kind), walk.bit))
                    break;
                bucket = walk.after(bucket, buckets);
                if (holds<kind>(block.lines + bucket * open_line_stride(kind), one.key())) {
                    meet_equal<kind, way>(block, bucket, one);
                    absent = false;
                    break;
                }
            }
        }
        __syncthreads();
        chain_place at = {};
        if (absent) {
            at = place_on_chain<kind, way>(block, walk, one);
            if (slot_values_apart(kind))
                (void)set_bit<kind>(block.lines + at.bucket * open_line_stride(kind), at.slot); /* its value is ready */
        }
        __syncthreads();
        if (absent) { /* of equal keys placed together, all find the first on their sequence, and that one stays */
            uint32_t bucket = walk.after(walk.home, buckets);
            for (uint32_t round = 1; round < buckets; round++) { /* ends: this lane placed the key */
                if (holds<kind>(block.lines + bucket * open_line_stride(kind), one.key()))
                    break;
                bucket = walk.after(bucket, buckets);
            }
            if (bucket != at.bucket || slot_of<kind>(block.lines, bucket, one.key()) != at.slot) {
                meet_equal<kind, way>(block, bucket, one);
                empty_slot<kind>(block.lines, at.bucket, at.slot, block.empty);
                absent = false;
            }
        }
        equal += mine && !absent;
    }
    return equal;
}

/* Step 5: replaces places by values. In packed pairs, whole records replace key and place. */
template <loom__slot_kind kind> __device__ __forceinline__ void take_values(const build_block<kind> &block)
{
    typedef bulk_columns<kind> columns;
    typedef std::conditional_t<columns::packed, typename columns::head, typename columns::value> stored;
    const void *from = columns::packed ? (const void *)block.records.heads : (const void *)block.records.tails;
    const uint32_t slots = block.own.buckets * open_slots(kind);
    for (uint32_t next = threadIdx.x; next < slots; next += blockDim.x * UNROLLED) {
        stored *at[UNROLLED], ones[UNROLLED];
        bool full[UNROLLED];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            const uint32_t i = next + k * blockDim.x, bucket = i / open_slots(kind), slot = i % open_slots(kind);
            full[k] = false;
            if (i < slots) {
                typename columns::head *head = head_at<kind>(block.lines, bucket, slot);
                full[k] = columns::key_of(*head) != block.empty;
                at[k] = columns::packed ? (stored *)head : (stored *)value_at<kind>(block.lines, bucket, slot);
                ones[k] = *at[k];
            }
        }
#pragma unroll
        for (int k = 0; k < UNROLLED; k++)
            if (full[k])
                ones[k] = ((const stored *)from)[(uint32_t)(columns::packed ? (uint64_t)ones[k] >> 32 : ones[k])];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++)
            if (full[k])
                *at[k] = ones[k];
    }
}

/* Fills a partition with no more records than it has free slots. All threads of the block call this function,
 * which has barriers. */
template <loom__slot_kind kind, build_way way>
__device__ __forceinline__ void fill_partition(const build_block<kind> &block, outcome_counts *counts)
{
    const uint32_t buckets = block.own.buckets, warps = blockDim.x / 32, count = block.count;
    const uint32_t each = (count + warps * 32 - 1) / (warps * 32) * 32, begin = threadIdx.x / 32 * each;
    warp_share share = {begin < count ? begin : count, begin + each < count ? begin + each : count, 0};
    place_at_home<kind, way>(block, &share);
    __syncthreads();
    uint32_t equal = place_late<kind, way>(block, &share);
    __syncthreads();
    for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x)
        equal += finish_bucket<kind>(
            block.lines, bucket, places_taken(block.taken, bucket), block.empty, [&](uint32_t a, uint32_t b) {
                if constexpr (way == IN_ORDER)
                    return comes_instead(block, *record_place(block, bucket, a), *record_place(block, bucket, b));
                else
                    return way == INTO_FILLED && block.overwrite;
            });
    __syncthreads();
    equal += place_suspects<kind, way>(block, share);
    if constexpr (way == IN_ORDER) {
        __syncthreads();
        take_values<kind>(block);
    }
    counts->exists += (int32_t)equal;
    counts->ok += (int32_t)((threadIdx.x == 0 ? count : 0) - equal);
}

/* One thread block per partition. Shared memory: the partition, then its counters. */
template <loom__slot_kind kind, build_way way>
__global__ void __maxnreg__(PARTITION_REGISTERS) build_kernel(const build_work<kind> work)
{
    extern __shared__ __align__(128) unsigned char lines[];
    __shared__ uint32_t mark, stale, keys;
    const uint32_t partition = work.first + blockIdx.x, bytes = work.view.partition_bytes;
    const uint32_t buckets = work.view.buckets, slots = buckets * open_slots(kind);
    const bool gave_up = work.records.gave_up(), filled = way == INTO_FILLED;
    if (work.again && !gave_up)
        return;
    uint32_t count = gave_up ? 0 : work.records.count(blockIdx.x);
    unsigned char *there = work.view.base + (uint64_t)partition * bytes;
    if (count == 0 && filled)
        return;
    const uint64_t empty = open_empty(&work.view, partition);
    begin_partition<kind>((uint4 *)lines, filled ? (const uint4 *)there : NULL, bytes, empty);
    uint32_t *taken = (uint32_t *)(lines + bytes);
    for (uint32_t i = threadIdx.x; i < (buckets + 1) / 2 && !filled; i += blockDim.x)
        taken[i] = 0;
    if (threadIdx.x == 0) {
        mark = filled ? work.view.marks[partition] : (uint32_t)OPEN_UNMARKED;
        stale = filled ? work.view.stale[partition] : 0;
        keys = 0;
    }
    __syncthreads();
    if (filled && work.status == NULL) {
        uint32_t mine = 0;
        for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x) {
            const uint32_t there_already = gather_bucket<kind>(lines, bucket, empty);
            ((uint16_t *)taken)[bucket] = (uint16_t)there_already;
            mine += there_already;
        }
        mine = __reduce_add_sync(CUDA_FULL_MASK, mine);
        if (threadIdx.x % 32 == 0)
            atomicAdd(&keys, mine);
        __syncthreads();
    }
    if (way == IN_ORDER && count > slots) { /* marks the split as given up: the batch goes another way */
        atomicMax(work.records.spilled, UINT32_MAX);
        count = 0;
    }
    build_block<kind> block = {
        work.view, lines, taken, work.records.at(blockIdx.x), count, empty, work.overwrite != 0, (uint32_t *)there};
    block.own.base = lines - (uint64_t)partition * bytes;
    block.own.marks = &mark - partition;
    block.own.stale = &stale - partition;
    outcome_counts counts = {};
    if (work.status == NULL && count <= slots - keys)
        fill_partition<kind, way>(block, &counts);
    else if constexpr (way != IN_ORDER)
        insert_all<kind>(block, work.status, &counts);
    write_partition<way == IN_ORDER>(there, lines, bytes);
    if (threadIdx.x == 0) {
        work.view.marks[partition] = mark;
        work.view.stale[partition] = stale;
    }
    if (work.again && threadIdx.x < COUNT_COPIES && blockIdx.x == 0)
        work.counts[threadIdx.x] = cuda_counts{};
    if (!work.again)
        tell_counts(work.counts, counts);
}

template <loom__slot_kind kind>
cudaError_t launch(const cuda_state *cuda, const build_work<kind> &work, build_way way, uint32_t partitions,
                   cudaStream_t stream)
{
    const uint32_t most = (uint32_t)cuda->shared_bytes - BULK_STATIC_BYTES;
    uint32_t threads = partition_threads(&work.view), shared = bulk_shared_bytes(&work.view);
    auto kernel = way == INTO_FILLED ? build_kernel<kind, INTO_FILLED> : build_kernel<kind, INTO_EMPTY>;
    if constexpr (kind != SLOT_KEY_4 && kind != SLOT_KEY_8) /* the order of equal keys does not matter in sets */
        if (way == IN_ORDER)
            kernel = build_kernel<kind, IN_ORDER>;
    cudaError_t error = allow_shared(kernel, most);
    if (error != cudaSuccess)
        return error;
    if (way == IN_ORDER && shared <= BULK_HALF_BYTES) { /* takes so much memory that an SM runs one block: see step 5 */
        threads = WHOLE_THREADS;
        shared = BULK_HALF_BYTES + 1 < most ? BULK_HALF_BYTES + 1 : most;
    }
    kernel<<<partitions, threads, shared, stream>>>(work);
    return cudaGetLastError();
}

template <loom__slot_kind kind>
cudaError_t build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, const open_plan *plan,
                  unsigned char *workspace, bool overwrite, cudaStream_t stream)
{
    build_work<kind> work = {*view, {}, 0, overwrite, 0, batch->status, batch->counts};
    const bulk_target target = open_bulk_target(view);
    const uint32_t each = loom__split_fine_per_wave(plan);
    for (uint32_t wave = 0; wave < loom__split_waves(plan); wave++) {
        cudaError_t error = cuda_bulk_split_further(&target, plan, workspace, wave, stream);
        work.records = split_fine_regions<bulk_columns<kind>>(plan, workspace, wave);
        work.first = wave * each;
        const uint32_t left = view->partitions - work.first;
        if (error == cudaSuccess)
            error = launch<kind>(cuda, work, plan->way, left < each ? left : each, stream);
        if (error != cudaSuccess)
            return error;
    }
    if (loom__split_waves(plan) == 1)
        return cudaSuccess;
    work.first = 0; /* empties all partitions if some wave gave up */
    work.again = 1;
    return launch<kind>(cuda, work, INTO_EMPTY, view->partitions, stream);
}

} // namespace

cudaError_t cuda_open_bulk_build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                 const open_plan *plan, unsigned char *workspace, bool overwrite, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = build<kind>(cuda, view, batch, plan, workspace, overwrite, stream)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}
