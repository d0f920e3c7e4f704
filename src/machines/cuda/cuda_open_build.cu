/* Insertion by partition on a GPU: split the batch (cuda_split.cuh), then give each partition to one block, which fills it in
 * shared memory and writes it out whole.
 *
 * A direct insertion reads and writes a random line of memory for each key. Here everything streams. For n pairs of p bytes and
 * a table of t bytes the bytes moved are, with two passes of splitting, 4 n p + n p + t into an empty table (t more into a
 * filled one). The first pass of a build writes into the table's own memory, which holds nothing yet.
 *
 * How a block fills an empty partition: each key takes the next place of its home bucket from a counter; keys that come
 * when the bucket is full are set aside, each warp's at the beginning of what it has read already, and then inserted as any
 * key is (open_ops.h), in shared memory. Equal keys that arrived in the same home bucket are still there twice; they are found
 * as the partition is written out, when four lanes hold the bucket. No more records than slots: so no key is refused for
 * an equal one. Partitions that hold keys already, or get more records than they have slots, and calls that want statuses,
 * have each record inserted as any key is. */
#define CUDA_LANES 1
#define CUDA_SHARED_TABLE
#define LOOM_LANES_HEADER "machines/cuda/cuda_lanes.cuh"
#include "engines/open/open_items.h"
#include "machines/cuda/cuda_open_bulk.cuh"
#include "machines/cuda/cuda_state.cuh"

namespace
{

enum {
    UNROLLED = 4,
    HALF_THREADS = 640, /* of a block that shares its multiprocessor with another one */
};

/* Records of a thread in each pass of the split, and blocks on one multiprocessor; as measured. */
template <loom__open_kind kind> struct split_shape {
    static constexpr int batch_items = bulk_columns<kind>::has_tail ? 12 : 16, batch_blocks = 2;
    static constexpr int region_items = batch_items, region_blocks = 2;
};

/* ---- splitting ---- */

template <loom__open_kind kind> struct partition_of_head {
    loom__seed seed;
    uint32_t partitions, shift, mask;
    __device__ __forceinline__ uint32_t operator()(typename bulk_columns<kind>::head one) const
    {
        uint64_t hash = loom__hash_key(bulk_columns<kind>::key_of(one), open_key_bytes(kind), seed);
        return loom__hash_partition(hash, partitions) >> shift & mask;
    }
};

/* Heads of a batch: keys, or keys with their values. */
template <loom__open_kind kind> struct batch_head_reader {
    typedef bulk_columns<kind> columns;
    const typename columns::key *keys;
    const uint32_t *values; /* of pairs */
    template <int some> __device__ __forceinline__ void many(uint32_t i, typename columns::head *to) const
    {
        typename columns::key some_keys[some];
        split_load<some>(keys + i, some_keys);
        uint32_t some_values[some] = {};
        if constexpr (columns::packed)
            split_load<some>(values + i, some_values);
#pragma unroll
        for (int k = 0; k < some; k++)
            to[k] = some_keys[k] | (columns::packed ? (uint64_t)some_values[k] << 32 : 0);
    }
};

template <loom__open_kind kind, bool with_index>
__global__ void __launch_bounds__(SPLIT_THREADS, split_shape<kind>::batch_blocks)
    split_batch_kernel(const cuda_batch batch, uint64_t batch_first, const bulk_regions<kind> out, uint32_t bins,
                       const partition_of_head<kind> bin_of)
{
    typedef bulk_columns<kind> columns;
    constexpr int items = split_shape<kind>::batch_items;
    constexpr uint32_t tile = SPLIT_THREADS * items;
    const uint64_t first = (uint64_t)blockIdx.x * tile;
    const uint32_t count = batch.n - first < tile ? (uint32_t)(batch.n - first) : tile;
    const bool aligned = ((uintptr_t)batch.keys | (uintptr_t)batch.values) % 16 == 0;
    const batch_head_reader<kind> heads = {(const typename columns::key *)batch.keys + first,
                                           (const uint32_t *)batch.values + first};
    const split_place_reader places = {(uint32_t)(batch_first + first)};
    if constexpr (columns::has_tail) {
        const split_array_reader<typename columns::tail> tails = {(const typename columns::tail *)batch.values + first};
        split_tile<items, columns::batch_neighbours, with_index>(out, 0, bins, count, aligned, heads, tails, places,
                                                                 bin_of);
    } else {
        split_tile<items, columns::batch_neighbours, with_index>(out, 0, bins, count, aligned, heads, split_no_reader(),
                                                                 places, bin_of);
    }
}

/* The second pass: one row of blocks to a coarse region. */
template <loom__open_kind kind, bool with_index>
__global__ void __launch_bounds__(SPLIT_THREADS, split_shape<kind>::region_blocks)
    split_region_kernel(const bulk_regions<kind> from, const bulk_regions<kind> out, uint32_t bins,
                        const partition_of_head<kind> bin_of)
{
    typedef bulk_columns<kind> columns;
    constexpr int items = split_shape<kind>::region_items;
    constexpr uint32_t tile = SPLIT_THREADS * items;
    const uint32_t region = blockIdx.y, begin = blockIdx.x * tile, whole = from.count(region);
    if (begin >= whole)
        return;
    const size_t first = (size_t)region * from.room + begin;
    const uint32_t count = whole - begin < tile ? whole - begin : tile;
    const split_array_reader<typename columns::head> heads = {from.to.heads + first};
    const split_array_reader<uint32_t> index = {from.to.index + first};
    if constexpr (columns::has_tail) {
        const split_array_reader<typename columns::tail> tails = {from.to.tails + first};
        split_tile<items, columns::neighbours, with_index>(out, region * bins, bins, count, true, heads, tails, index,
                                                           bin_of);
    } else {
        split_tile<items, columns::neighbours, with_index>(out, region * bins, bins, count, true, heads,
                                                           split_no_reader(), index, bin_of);
    }
}

/* ---- building ---- */

template <loom__open_kind kind> struct build_work {
    loom__open_view view;
    bulk_regions<kind> records;
    int replace, overwrite;
    uint8_t *status; /* NULL: nobody asks */
    cuda_counts *counts;
};

/* A partition with no keys, or as it is. All threads of the block. */
template <loom__open_kind kind>
__device__ __forceinline__ void begin_partition(uint4 *to, const uint4 *from, uint32_t bytes, uint64_t empty,
                                                uint32_t buckets)
{
    uint64_t word = open_key_bytes(kind) == 8 ? empty : kind == OPEN_PAIR_4_4 ? empty : empty << 32 | empty;
    for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
        if (from != NULL) {
            to[i] = from[i];
            continue;
        }
        uint32_t in_bucket = i * 16 % open_line_stride(kind);
        bool keys = kind == OPEN_KEY_8_VALUE_4 ? i * 16 < buckets * OPEN_LINE_BYTES : in_bucket < OPEN_LINE_BYTES;
        uint64_t low = keys ? word : 0, high = keys && in_bucket < OPEN_WORD_OFFSET - 8 ? word : 0;
        to[i] = make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
    }
}

struct build_counts {
    int32_t ok, exists, full;
};

template <loom__open_kind kind>
__device__ __forceinline__ open_outcome insert_record(const loom__open_view *own, open_mode mode, uint64_t key,
                                                      uint64_t value)
{
    open_walk walk = open_start(kind, own, key);
    lane_truth tells;
    for (;;) { /* bounded as every insertion is */
        open_outcome outcome =
            open_insert_turn(kind, mode, LOOM__ADD, OPEN_SHARED, lane_own_group(), own, &walk, &value, 1, &tells);
        if (outcome != OPEN_GO_ON)
            return outcome;
    }
}

__device__ __forceinline__ void count_outcome(build_counts *counts, open_outcome outcome)
{
    counts->ok += outcome == OPEN_DONE;
    counts->exists += outcome == OPEN_WAS_THERE;
    counts->full += outcome == OPEN_NO_ROOM;
}

/* Every record inserted as any key is. */
template <loom__open_kind kind>
__device__ __forceinline__ void insert_all(const build_work<kind> &work, const loom__open_view *own, size_t first,
                                           uint32_t count, build_counts *counts)
{
    typedef bulk_columns<kind> columns;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        typename columns::head one = work.records.to.heads[first + i];
        uint64_t value = columns::value_of(one, work.records.to, first + i);
        open_outcome outcome = work.overwrite ? insert_record<kind>(own, OPEN_OVERWRITE, columns::key_of(one), value)
                                              : insert_record<kind>(own, OPEN_KEEP, columns::key_of(one), value);
        count_outcome(counts, outcome);
        if (work.status != NULL)
            work.status[work.records.to.index[first + i]] = outcome == OPEN_DONE        ? LOOM_OK
                                                            : outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                                                                        : LOOM_FULL;
    }
}

template <loom__open_kind kind>
__device__ __forceinline__ void place(unsigned char *lines, uint32_t buckets, uint32_t bucket, uint32_t slot,
                                      typename bulk_columns<kind>::head one, uint64_t value)
{
    unsigned char *line = lines + bucket * open_line_stride(kind);
    *(typename bulk_columns<kind>::head *)(line + slot * open_slot_stride(kind)) = one;
    if (open_values_apart(kind)) {
        unsigned char *at =
            lines + open_value_offset(kind, buckets) + bucket * open_value_stride(kind) + slot * open_value_bytes(kind);
        if (open_value_bytes(kind) == 8)
            *(uint64_t *)at = value;
        else
            *(uint32_t *)at = (uint32_t)value;
    }
}

/* Takes the next place of a bucket; `taken` has two counters to a word. */
__device__ __forceinline__ uint32_t take_place(uint32_t *taken, uint32_t bucket)
{
    uint32_t half = bucket % 2 * 16;
    return atomicAdd(&taken[bucket / 2], 1u << half) >> half & 0xffff;
}

/* Sets the bit in a bucket's word; tells whether it was set before. */
__device__ __forceinline__ bool set_bit(unsigned char *line, uint32_t bit)
{
    uint32_t *half = (uint32_t *)(line + OPEN_WORD_OFFSET) + bit / 32, one = 1u << bit % 32;
    return (atomicOr(half, one) & one) != 0;
}

/* One warp's part of a partition's records: [begin, end), of which the first `late` are those that were set aside. */
struct warp_share {
    uint32_t begin, end, late;
};

/* Sets a record aside, at the beginning of the warp's share, where all have been read already. All lanes of the warp. */
template <loom__open_kind kind>
__device__ __forceinline__ void set_aside(const typename bulk_columns<kind>::arrays &records, size_t first,
                                          uint32_t *late, bool aside, typename bulk_columns<kind>::head one,
                                          uint64_t value)
{
    uint32_t all = __ballot_sync(CUDA_FULL_MASK, aside), lane = threadIdx.x % 32;
    if (aside) {
        size_t to = first + *late + __popc(all & ((1u << lane) - 1));
        records.heads[to] = one;
        bulk_columns<kind>::set_tail(records, to, value);
    }
    *late += __popc(all);
}

/* Step 1: keys go home; those that come when the bucket is full are set aside. */
template <loom__open_kind kind>
__device__ __forceinline__ void place_at_home(const typename bulk_columns<kind>::arrays &records, size_t first,
                                              const loom__open_view *own, unsigned char *lines, uint32_t *taken,
                                              warp_share *share)
{
    typedef bulk_columns<kind> columns;
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t next = share->begin; next < share->end; next += 32 * UNROLLED) {
        typename columns::head ones[UNROLLED];
        uint64_t values[UNROLLED];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            uint32_t i = next + 32 * k + lane;
            if (i < share->end) {
                ones[k] = records.heads[first + i];
                values[k] = open_values_apart(kind) ? columns::value_of(ones[k], records, first + i) : 0;
            }
        }
        __syncwarp(); /* all have read what those that are set aside may take the place of */
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            bool is_late = false;
            if (next + 32 * k + lane < share->end) {
                uint32_t lower = (uint32_t)loom__hash_key(columns::key_of(ones[k]), open_key_bytes(kind), own->seed);
                uint32_t bucket = loom__hash_bucket(lower, own->buckets), slot = take_place(taken, bucket);
                is_late = slot >= open_slots(kind);
                if (!is_late)
                    place<kind>(lines, own->buckets, bucket, slot, ones[k], values[k]);
            }
            set_aside<kind>(records, first + share->begin, &share->late, is_late, ones[k], values[k]);
        }
    }
}

/* Is the key in this full line? Lanes begin with different quarters, which lie in different banks. */
template <loom__open_kind kind> __device__ __forceinline__ bool holds(const unsigned char *line, uint64_t sought)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int apart = bulk_columns<kind>::slot_stride / sizeof(key), slots = 16 / bulk_columns<kind>::slot_stride;
    bool found = false;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t part = (threadIdx.x + k) % 4;
        uint4 quarter = *(const uint4 *)(line + part * 16);
        const key *keys = (const key *)&quarter;
#pragma unroll
        for (int i = 0; i < slots; i++)
            found |= keys[i * apart] == (key)sought && part * slots + i < open_slots(kind);
    }
    return found;
}

/* Step 2: those that were set aside take the next place on their chains. Who finds its bit set at home may have an equal key
 * further on, and is set aside once more. Returns how many were found at home. */
template <loom__open_kind kind>
__device__ __forceinline__ uint32_t place_on_chain(const typename bulk_columns<kind>::arrays &records, size_t first,
                                                   const loom__open_view *own, unsigned char *lines, uint32_t *taken,
                                                   warp_share *share)
{
    typedef bulk_columns<kind> columns;
    const uint32_t lane = threadIdx.x % 32, all = share->late;
    uint32_t equal = 0;
    share->late = 0;
    __syncwarp(); /* others have written what this lane reads */
    for (uint32_t next = 0; next < all; next += 32) {
        bool suspect = false;
        typename columns::head one = {};
        uint64_t value = 0;
        if (next + lane < all) {
            one = records.heads[first + share->begin + next + lane];
            value = columns::value_of(one, records, first + share->begin + next + lane);
            const uint64_t key = columns::key_of(one);
            open_walk walk = open_start(kind, own, key);
            const uint32_t bit = open_filter_bit(kind, walk.lower), step = loom__hash_step(walk.lower, own->buckets);
            const bool at_home = holds<kind>(lines + walk.bucket * open_line_stride(kind), key);
            equal += at_home;
            if (!at_home) {
                suspect = set_bit(lines + walk.bucket * open_line_stride(kind), bit);
                for (uint32_t bucket = walk.bucket;
                     !suspect;) { /* a slot is free somewhere: at most `buckets` rounds */
                    bucket += step;
                    bucket -= bucket >= own->buckets ? own->buckets : 0;
                    uint32_t slot = take_place(taken, bucket);
                    if (slot < open_slots(kind)) {
                        place<kind>(lines, own->buckets, bucket, slot, one, value);
                        break;
                    }
                    (void)set_bit(lines + bucket * open_line_stride(kind), bit);
                }
            }
        }
        __syncwarp();
        set_aside<kind>(records, first + share->begin, &share->late, suspect, one, value);
    }
    return equal;
}

/* The slot's key goes, with its value. */
template <loom__open_kind kind>
__device__ __forceinline__ void empty_slot(unsigned char *lines, uint32_t buckets, uint32_t bucket, uint32_t slot,
                                           uint64_t empty)
{
    place<kind>(lines, buckets, bucket, slot, (typename bulk_columns<kind>::head)empty, 0);
    if (open_values_apart(kind))
        *(uint64_t *)(lines + bucket * open_line_stride(kind) + OPEN_WORD_OFFSET) &= ~((uint64_t)1 << slot);
}

/* Step 3, one bucket, which belongs to this lane: values are ready, and of equal keys one remains. Returns how many went. */
template <loom__open_kind kind>
__device__ __forceinline__ uint32_t finish_bucket(unsigned char *lines, uint32_t buckets, uint32_t bucket,
                                                  uint32_t taken, uint64_t empty)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int stride = bulk_columns<kind>::slot_stride, words = OPEN_LINE_BYTES / stride;
    constexpr uint64_t NOBODYS = 0x9e3779b97f4a7c15u; /* not seldom a key or a word only by chance */
    unsigned char *line = lines + bucket * open_line_stride(kind);
    if (open_values_apart(kind))
        *(uint64_t *)(line + OPEN_WORD_OFFSET) |=
            ((uint64_t)1 << (taken < open_slots(kind) ? taken : open_slots(kind))) - 1;
    /* Quarters in an order in which neighbouring lanes read from different banks. The filter word may look like a key, and
     * what stands for empty slots, too: then there is one more look, and that is all. */
    key keys[words];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint4 quarter = *(const uint4 *)(line + (bucket / 2 + k) % 4 * 16);
        const key *parts = (const key *)&quarter;
#pragma unroll
        for (int i = 0; i < words / 4; i++) {
            key one = parts[i * (int)(stride / sizeof(key))];
            keys[k * (words / 4) + i] = one == (key)empty ? (key)(NOBODYS + k * (words / 4) + i) : one;
        }
    }
    bool suspect = false;
#pragma unroll
    for (int i = 1; i < words; i++)
#pragma unroll
        for (int j = 0; j < i; j++)
            suspect = suspect || keys[i] == keys[j];
    uint32_t went = 0;
    for (uint32_t i = 1; suspect && i < open_slots(kind); i++) {
        key one = *(const key *)(line + i * stride);
        for (uint32_t j = 0; j < i && one != (key)empty; j++)
            if (*(const key *)(line + j * stride) == one) {
                empty_slot<kind>(lines, buckets, bucket, i, empty);
                went++;
                break;
            }
    }
    return went;
}

/* The records of an empty partition, not more than it has slots. `taken`: zero. All threads of the block, which wait for each
 * other. */
template <loom__open_kind kind>
__device__ __forceinline__ void fill_partition(const build_work<kind> &work, const loom__open_view *own,
                                               unsigned char *lines, uint32_t *taken, size_t first, uint32_t count,
                                               uint64_t empty, build_counts *counts)
{
    typedef bulk_columns<kind> columns;
    const typename columns::arrays &records = work.records.to;
    const uint32_t buckets = own->buckets, warps = blockDim.x / 32;
    const uint32_t each = (count + warps * 32 - 1) / (warps * 32) * 32, begin = threadIdx.x / 32 * each;
    warp_share share = {begin < count ? begin : count, begin + each < count ? begin + each : count, 0};
    place_at_home<kind>(records, first, own, lines, taken, &share);
    __syncthreads();
    uint32_t equal = place_on_chain<kind>(records, first, own, lines, taken, &share);
    __syncthreads();
    for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x)
        equal += finish_bucket<kind>(lines, buckets, bucket, taken[bucket / 2] >> bucket % 2 * 16 & 0xffff, empty);
    __syncthreads();
    for (uint32_t i = threadIdx.x % 32; i < share.late; i += 32) {
        typename columns::head one = records.heads[first + share.begin + i];
        uint64_t value = columns::value_of(one, records, first + share.begin + i);
        equal += insert_record<kind>(own, OPEN_KEEP, columns::key_of(one), value) == OPEN_WAS_THERE;
    }
    counts->exists += (int32_t)equal;
    counts->ok += (int32_t)((threadIdx.x == 0 ? count : 0) - equal);
}

/* The partition from shared memory to where it belongs. */
__device__ __forceinline__ void write_partition(unsigned char *to, unsigned char *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* what this thread wrote is there for the copy */
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"((uint32_t)__cvta_generic_to_shared(from)), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
#else
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

/* `mine` may be negative, all of a block's together are not. */
__device__ __forceinline__ void add_up(unsigned long long *to, int32_t mine)
{
    int32_t sum = __reduce_add_sync(CUDA_FULL_MASK, mine);
    if (threadIdx.x % 32 == 0 && sum != 0)
        atomicAdd(to, (unsigned long long)(long long)sum);
}

/* One block to a partition. Shared memory: the partition, then its counters. */
template <loom__open_kind kind> __global__ void __launch_bounds__(1024) build_kernel(const build_work<kind> work)
{
    extern __shared__ __align__(128) unsigned char lines[];
    __shared__ uint32_t mark, stale;
    const uint32_t partition = blockIdx.x, bytes = work.view.partition_bytes, buckets = work.view.buckets;
    const bool gave_up = work.records.gave_up();
    const uint32_t count = gave_up ? 0 : work.records.count(partition);
    const uint64_t empty = open_empty(&work.view, partition);
    unsigned char *there = work.view.base + (uint64_t)partition * bytes;
    if (count == 0 && !work.replace)
        return;
    begin_partition<kind>((uint4 *)lines, work.replace ? NULL : (const uint4 *)there, bytes, empty, buckets);
    uint32_t *taken = (uint32_t *)(lines + bytes);
    const bool fills = work.replace && work.status == NULL && count <= buckets * open_slots(kind);
    if (fills)
        for (uint32_t i = threadIdx.x; i < (buckets + 1) / 2; i += blockDim.x)
            taken[i] = 0;
    if (threadIdx.x == 0) {
        mark = work.replace ? (uint32_t)OPEN_UNMARKED : work.view.marks[partition];
        stale = work.replace ? 0 : work.view.stale[partition];
    }
    __syncthreads();
    loom__open_view own = work.view;
    own.base = lines - (uint64_t)partition * bytes;
    own.marks = &mark - partition;
    own.stale = &stale - partition;
    build_counts counts = {};
    size_t first = (size_t)partition * work.records.room;
    if (fills)
        fill_partition<kind>(work, &own, lines, taken, first, count, empty, &counts);
    else
        insert_all<kind>(work, &own, first, count, &counts);
    write_partition(there, lines, bytes);
    if (threadIdx.x == 0) {
        work.view.marks[partition] = mark;
        work.view.stale[partition] = stale;
    }
    cuda_counts *to = work.counts + blockIdx.x % COUNT_COPIES;
    add_up(&to->ok, counts.ok);
    add_up(&to->exists, counts.exists);
    add_up(&to->full, counts.full);
}

/* ---- refilling ---- */

/* A partition filled from another table: the keys of those of its partitions that may fall into this one. They are all
 * different, so a key is where it belongs when it has found a place. */
template <loom__open_kind kind> struct refill_work {
    loom__open_view from, to;
    unsigned long long *refused;
};

/* Calls visit(head, value, lower half of the hash) for each key of the partition. All threads of the block. */
template <loom__open_kind kind, class visitor>
__device__ __forceinline__ void visit_keys(const refill_work<kind> &work, uint32_t partition, visitor visit)
{
    typedef bulk_columns<kind> columns;
    constexpr uint32_t slots = 16 / columns::slot_stride; /* of a quarter */
    uint32_t first, last;
    open_sources(partition, work.to.partitions, work.from.partitions, &first, &last);
    for (uint32_t source = first; source <= last; source++) {
        const unsigned char *there = work.from.base + (uint64_t)source * work.from.partition_bytes;
        const uint64_t empty = open_empty(&work.from, source);
        for (uint32_t i = threadIdx.x; i < work.from.buckets * 4; i += blockDim.x) {
            const uint32_t bucket = i / 4, part = i % 4;
            const uint4 quarter = *(const uint4 *)(there + (size_t)bucket * open_line_stride(kind) + part * 16);
            const typename columns::head *heads = (const typename columns::head *)&quarter;
#pragma unroll
            for (uint32_t k = 0; k < slots; k++) {
                const uint32_t slot = part * slots + k;
                const uint64_t key = columns::key_of(heads[k]);
                if (slot >= open_slots(kind) || key == empty)
                    continue;
                const uint64_t hash = loom__hash_key(key, open_key_bytes(kind), work.to.seed);
                if (loom__hash_partition(hash, work.to.partitions) != partition)
                    continue;
                uint64_t value = 0;
                if constexpr (columns::has_tail)
                    value = *(const typename columns::tail *)(there + open_value_offset(kind, work.from.buckets) +
                                                              (size_t)bucket * open_value_stride(kind) +
                                                              slot * sizeof(typename columns::tail));
                visit(heads[k], value, (uint32_t)hash);
            }
        }
    }
}

template <loom__open_kind kind> __global__ void __launch_bounds__(1024) refill_kernel(const refill_work<kind> work)
{
    typedef bulk_columns<kind> columns;
    extern __shared__ __align__(128) unsigned char lines[];
    __shared__ uint32_t keys;
    const uint32_t partition = blockIdx.x, bytes = work.to.partition_bytes, buckets = work.to.buckets;
    const uint64_t empty = open_empty(&work.to, partition);
    uint32_t *taken = (uint32_t *)(lines + bytes), mine = 0;
    begin_partition<kind>((uint4 *)lines, NULL, bytes, empty, buckets);
    for (uint32_t i = threadIdx.x; i < (buckets + 1) / 2; i += blockDim.x)
        taken[i] = 0;
    if (threadIdx.x == 0)
        keys = 0;
    __syncthreads();
    visit_keys(work, partition, [&](typename columns::head one, uint64_t value, uint32_t lower) {
        const uint32_t bucket = loom__hash_bucket(lower, buckets), slot = take_place(taken, bucket);
        if (slot < open_slots(kind))
            place<kind>(lines, buckets, bucket, slot, one, value);
        mine++;
    });
    atomicAdd(&keys, mine);
    __syncthreads();
    if (keys > buckets * open_slots(kind)) { /* not even all slots together suffice */
        if (threadIdx.x == 0)
            atomicAdd(work.refused, (unsigned long long)keys);
        return;
    }
    /* Those that came when their bucket was full. Others may fill it further now; who is there already is found. */
    visit_keys(work, partition, [&](typename columns::head one, uint64_t value, uint32_t lower) {
        uint32_t bucket = loom__hash_bucket(lower, buckets);
        unsigned char *line = lines + bucket * open_line_stride(kind);
        if ((*(volatile uint32_t *)&taken[bucket / 2] >> bucket % 2 * 16 & 0xffff) <= open_slots(kind) ||
            holds<kind>(line, columns::key_of(one)))
            return;
        const uint32_t bit = open_filter_bit(kind, lower), step = loom__hash_step(lower, buckets);
        for (;;) { /* a slot is free somewhere: at most `buckets` rounds */
            (void)set_bit(lines + bucket * open_line_stride(kind), bit);
            bucket += step;
            bucket -= bucket >= buckets ? buckets : 0;
            const uint32_t slot = take_place(taken, bucket);
            if (slot < open_slots(kind)) {
                place<kind>(lines, buckets, bucket, slot, one, value);
                return;
            }
        }
    });
    __syncthreads();
    for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x)
        (void)finish_bucket<kind>(lines, buckets, bucket, taken[bucket / 2] >> bucket % 2 * 16 & 0xffff, empty);
    write_partition(work.to.base + (uint64_t)partition * bytes, lines, bytes);
}

/* ---- launches ---- */

/* The most that any launch asks for: so host threads may set it at the same time. */
template <class kernel_type> cudaError_t allow_shared(kernel_type kernel, size_t most)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
}

template <loom__open_kind kind> size_t split_bytes(int items, uint32_t bins)
{
    return split_shared_bytes<typename bulk_columns<kind>::head, typename bulk_columns<kind>::tail>(items, bins);
}

template <loom__open_kind kind>
cudaError_t split(const loom__open_view *view, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                  unsigned char *workspace, cudaStream_t stream)
{
    bulk_regions<kind> out = plan->coarse > 0 ? bulk_coarse_regions<kind>(plan, workspace, view->base)
                                              : bulk_fine_regions<kind>(plan, workspace);
    const uint32_t bins = plan->coarse > 0 ? plan->coarse : plan->fine;
    const partition_of_head<kind> bin_of = {view->seed, view->partitions, plan->shift, 0xffffffffu};
    auto kernel = plan->with_index ? split_batch_kernel<kind, true> : split_batch_kernel<kind, false>;
    cudaError_t error = allow_shared(kernel, split_bytes<kind>(split_shape<kind>::batch_items, SPLIT_MOST_BINS));
    if (error != cudaSuccess)
        return error;
    const uint32_t tile = SPLIT_THREADS * split_shape<kind>::batch_items;
    kernel<<<(unsigned)((batch->n + tile - 1) / tile), SPLIT_THREADS,
             split_bytes<kind>(split_shape<kind>::batch_items, bins), stream>>>(*batch, first, out, bins, bin_of);
    return cudaGetLastError();
}

template <loom__open_kind kind>
cudaError_t build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, const bulk_plan *plan,
                  unsigned char *workspace, bool replace, bool overwrite, cudaStream_t stream)
{
    const bulk_regions<kind> fine = bulk_fine_regions<kind>(plan, workspace);
    auto kernel = plan->with_index ? split_region_kernel<kind, true> : split_region_kernel<kind, false>;
    cudaError_t error = allow_shared(kernel, split_bytes<kind>(split_shape<kind>::region_items, SPLIT_MOST_BINS));
    if (error == cudaSuccess)
        error = allow_shared(build_kernel<kind>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES);
    if (error != cudaSuccess)
        return error;
    if (plan->coarse > 0) {
        const uint32_t bins = 1u << plan->shift;
        const partition_of_head<kind> bin_of = {view->seed, view->partitions, 0, bins - 1};
        const uint32_t tile = SPLIT_THREADS * split_shape<kind>::region_items;
        const dim3 grid((plan->coarse_room + tile - 1) / tile, plan->coarse);
        kernel<<<grid, SPLIT_THREADS, split_bytes<kind>(split_shape<kind>::region_items, bins), stream>>>(
            bulk_coarse_regions<kind>(plan, workspace, view->base), fine, bins, bin_of);
    }
    const build_work<kind> work = {*view, fine, replace, overwrite, batch->status, batch->counts};
    const uint32_t bytes = bulk_shared_bytes(view), threads = bytes > BULK_HALF_BYTES ? 1024 : HALF_THREADS;
    build_kernel<kind><<<view->partitions, threads, bytes, stream>>>(work);
    return cudaGetLastError();
}

template <loom__open_kind kind>
cudaError_t refill(const cuda_state *cuda, const loom__open_view *from, const loom__open_view *to,
                   unsigned long long *refused, cudaStream_t stream)
{
    const refill_work<kind> work = {*from, *to, refused};
    const uint32_t bytes = bulk_shared_bytes(to), threads = bytes > BULK_HALF_BYTES ? 1024 : HALF_THREADS;
    cudaError_t error = allow_shared(refill_kernel<kind>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES);
    if (error != cudaSuccess)
        return error;
    refill_kernel<kind><<<to->partitions, threads, bytes, stream>>>(work);
    return cudaGetLastError();
}

} // namespace

loom_status cuda_open_refill(loom__machine *machine, const loom__open_view *from, const loom__open_view *to,
                             uint64_t *refused, loom_stream stream)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t on = (cudaStream_t)stream;
    ON_DEVICE(cuda);
    if (bulk_shared_bytes(to) + BULK_STATIC_BYTES > (uint32_t)cuda->shared_bytes)
        return LOOM_UNSUPPORTED;
    /* The new table's size is not set yet: here keys are counted that find no room. */
    unsigned long long *counter = (unsigned long long *)&to->totals->size;
    CUDA_TRY(cudaMemsetAsync(counter, 0, sizeof *counter, on));
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = refill<kind>(cuda, from, to, counter, on)
    OPEN_FOR_KIND(to->kind, CALL)
#undef CALL
    CUDA_TRY(error);
    CUDA_TRY(cudaMemcpyAsync(refused, counter, sizeof *refused, cudaMemcpyDeviceToHost, on));
    CUDA_TRY(cudaStreamSynchronize(on));
    return LOOM_OK;
}

cudaError_t cuda_open_bulk_begin(const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    return cudaMemsetAsync(workspace, 0, plan->counter_bytes, stream);
}

cudaError_t cuda_open_bulk_split(const loom__open_view *view, const cuda_batch *batch, uint64_t first,
                                 const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = split<kind>(view, batch, first, plan, workspace, stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}

cudaError_t cuda_open_bulk_build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                 const bulk_plan *plan, unsigned char *workspace, bool replace, bool overwrite,
                                 cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = build<kind>(cuda, view, batch, plan, workspace, replace, overwrite, stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}

template <loom__open_kind kind> static cuda_rest rest_of(const bulk_plan *plan, unsigned char *workspace)
{
    const bulk_regions<kind> regions = bulk_fine_regions<kind>(plan, workspace);
    cuda_rest rest = {regions.spilled, regions.spill_room, regions.spill.heads, regions.spill.tails};
    if (bulk_columns<kind>::packed)
        rest.values = (const uint32_t *)regions.spill.heads + regions.spill_room;
    return rest;
}

cuda_rest cuda_open_bulk_rest(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace)
{
    cuda_rest rest = {};
#define CALL(kind) rest = rest_of<kind>(plan, workspace)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return rest;
}
