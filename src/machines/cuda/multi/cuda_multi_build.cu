/* Builds a multimap by partition. The batch is split by partition of the directory (cuda_split_passes.cuh). Then one
 * thread block per partition makes the partition in shared memory and the lists of its keys in the heap:
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
 * 4 for the slot, storing p + v, and 13.7 / 0.8 / r for the directory. With p = 8, r = 8 and two passes of the split
 * these are 58 bytes. At the speed of a copy, 4.0 TB/s, that is 69 G pairs/s.
 *
 * Measured on an H200, 2^26 pairs of 4 + 4 bytes, r = 8, 2026-11-18: 0.70 ms for the split, 1.0 ms for this kernel, in
 * all 37 G pairs/s. The kernel first took 3.4 ms. What helped:
 *   - Lanes that find their key come together again before the next pair (try_bucket), and pairs whose home bucket is
 *     full wait until the end of a round: 23 of 32 lanes work instead of 8. 1.8 ms.
 *   - Values go through shared memory. Stores of 4 bytes to random places take 0.9 ms: each is an access to the L2
 *     cache. Partitions are small enough for that (choose_smaller in engines/multi/multi.c). 1.1 ms.
 *   - Tags instead of keys, four to a word, and slot numbers without a division. 1.0 ms, bound by instructions: 0.7
 *     for each cycle of a scheduler.
 * Four or three thread blocks on an SM, with partitions of half or two thirds of the size, are as fast. With r = 1,
 * where most pairs claim a slot, the kernel takes 1.6 ms. */
#define CUDA_LANES 1
#include "machines/cuda/open/cuda_open_partition.cuh"

#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"
#include "machines/cuda/multi/cuda_multi_build.cuh"

namespace
{

enum {
    LEAST_LOAD = 3, /* one slot in so many has a key, also where few keys have many values */
    COUNTED = 8,    /* pairs that a thread counts in a round */
    STORED = 8      /* pairs that it stores */
};

const uint32_t REFUSED = UINT32_MAX; /* in place of a slot's number */

template <loom__slot_kind pairs> struct build_work {
    loom__multi_view view;
    bulk_regions<pairs> records;
    uint32_t staged; /* values for which a thread block has shared memory */
    cuda_counts *counts;
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
    static constexpr int words = kind == SLOT_KEY_4_VALUE_8 ? 4 : 2; /* multi_tag_bytes / 4 */
    uint32_t word[words];

    __device__ __forceinline__ bucket_tags(const build_block &block, uint32_t bucket)
    {
        const unsigned char *at = block.tags + bucket * words * 4;
        if constexpr (words == 4) {
            const uint4 all = load_quarter(at);
            word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
        } else {
            word[0] = ((const volatile uint32_t *)at)[0], word[1] = ((const volatile uint32_t *)at)[1];
        }
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

/* The number of a slot in its partition: 16 for each bucket. */
__device__ __forceinline__ uint32_t slot_number(uint32_t bucket, uint32_t slot)
{
    return bucket * 16 + slot;
}

/* The two halves of a slot's value. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t *halves_of(unsigned char *lines, uint32_t buckets, uint32_t number)
{
    return (uint32_t *)value_at<kind>(lines, buckets, number / 16, number % 16);
}

/* The number of the key's slot in this bucket, which is claimed if the key is not there; NOWHERE if the bucket is full.
 * All lanes of the warp call this, those without a key with active = false. The barriers bring them together again:
 * without them the compiler lets each lane go its own way to the end of the round, and 8 of 32 lanes work. */
const uint32_t NOWHERE = UINT32_MAX - 1;

template <loom__slot_kind kind, class key>
__device__ __forceinline__ uint32_t try_bucket(const build_block &block, const key_walk &walk, key sought, bool active)
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
    for (uint32_t free = active && number == NOWHERE ? tags.alike(0) : 0; free != 0; free &= free - 1) {
        const uint32_t slot = tags.slot_of(__ffs(free) - 1);
        const key there = swap_key<key>(line + slot * sizeof(key), (key)block.empty, sought);
        if (there == (key)block.empty)
            block.tags[walk.bucket * bucket_tags<kind>::words * 4 + slot] = walk.tag;
        if (there == (key)block.empty || there == sought) {
            number = slot_number(walk.bucket, slot);
            break;
        }
    }
    __syncwarp();
    return number;
}

/* Pairs whose home bucket is full are left for the end of each round, since all lanes of a warp take part in a search.
 * Returns how many of this thread's pairs were refused. */
template <loom__slot_kind pairs>
__device__ __forceinline__ uint32_t count_pairs(const build_block &block,
                                                const typename bulk_columns<pairs>::arrays &records, uint32_t count)
{
    typedef bulk_columns<pairs> columns;
    typedef typename widths<pairs>::key key;
    constexpr loom__slot_kind kind = directory_of<pairs>;
    const uint32_t buckets = block.view.buckets;
    uint32_t refused = 0;
    auto settle = [&](uint32_t i, uint32_t slot) {
        *(uint32_t *)&records.heads[i] = slot;
        if (slot != REFUSED)
            atomicAdd(halves_of<kind>(block.lines, buckets, slot), 1u);
        refused += slot == REFUSED;
        if (slot == REFUSED)
            *block.full = 1;
    };
    for (uint32_t first = 0; first < count; first += blockDim.x * COUNTED) { /* the same for all lanes */
        const uint32_t begin = first + threadIdx.x;
        key ones[COUNTED];
        uint32_t late = 0; /* a bit for each pair that did not find its key at home */
#pragma unroll
        for (int k = 0; k < COUNTED; k++)
            ones[k] = begin + k * blockDim.x < count ? (key)columns::key_of(records.heads[begin + k * blockDim.x]) : 0;
#pragma unroll
        for (int k = 0; k < COUNTED; k++) {
            const uint32_t i = begin + k * blockDim.x;
            const uint32_t slot = try_bucket<kind, key>(block, start_walk<kind>(block, ones[k]), ones[k], i < count);
            if (slot != NOWHERE)
                settle(i, slot);
            late |= (uint32_t)(i < count && slot == NOWHERE) << k;
            __syncwarp();
        }
        key_walk walk = {};
        key one = 0;
        uint32_t i = 0, depth = 0; /* 0: no pair */
        for (;;) {                 /* at most `buckets` turns for each pair */
            if (depth == 0 && late != 0) {
                i = begin + (__ffs(late) - 1) * blockDim.x;
                late &= late - 1;
                one = (key)columns::key_of(records.heads[i]);
                walk = start_walk<kind>(block, one);
                depth = 1;
            }
            if (!__any_sync(CUDA_FULL_MASK, depth != 0))
                break;
            unsigned char *line = block.lines + walk.bucket * open_line_stride(kind);
            bool last = depth + 1 >= buckets;
            if (depth != 0 && *block.full &&
                !has_bit(line, walk.bit)) { /* no free slot, and the key is not further on */
                last = true;
            } else if (depth != 0) {
                (void)set_bit(line, walk.bit);
                walk.bucket += walk.step;
                walk.bucket -= walk.bucket >= buckets ? buckets : 0;
            }
            __syncwarp();
            const uint32_t slot = try_bucket<kind, key>(block, walk, one, depth != 0);
            if (slot != NOWHERE || (depth != 0 && last)) {
                settle(i, slot != NOWHERE ? slot : REFUSED);
                depth = 0;
            } else if (depth != 0) {
                depth++;
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

/* Returns the partition's place in the heap, and how many values it takes. All threads of the block call this. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint64_t place_lists(unsigned char *lines, const loom__multi_view &view, uint32_t *taken)
{
    __shared__ uint64_t base;
    const uint32_t buckets = view.directory.buckets, slots = buckets * open_slots(kind);
    const uint32_t each = (slots + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * each;
    const uint32_t end = begin + each < slots ? begin + each : slots;
    const uint32_t first = slot_number(begin / open_slots(kind), begin % open_slots(kind));
    auto after = [](uint32_t number) {
        return number % 16 == open_slots(kind) - 1 ? number / 16 * 16 + 16 : number + 1;
    };
    const bool has_ones = multi_has_ones(&view);
    uint32_t mine = 0, all;
    for (uint32_t slot = begin, number = first; slot < end; slot++, number = after(number))
        mine += list_takes(halves_of<kind>(lines, buckets, number)[0], has_ones);
    uint32_t at = sum_before(mine, &all);
    if (threadIdx.x == 0)
        base = all > 0 ? atomicAdd((unsigned long long *)&view.lists->used, (unsigned long long)all) : 0;
    __syncthreads();
    for (uint32_t slot = begin, number = first; slot < end; slot++, number = after(number)) {
        uint32_t *halves = halves_of<kind>(lines, buckets, number);
        const uint32_t takes = list_takes(halves[0], has_ones);
        if (takes > 0)
            halves[1] = at + (uint32_t)multi_padding(list_kind_for(halves[0]), base + at);
        at += takes;
    }
    *taken = all;
    return base;
}

/* ---- 3. store ---- */

/* Stores the values from `to` on. */
template <loom__slot_kind pairs>
__device__ __forceinline__ void store_pairs(unsigned char *lines, uint32_t buckets,
                                            const typename bulk_columns<pairs>::arrays &records, uint32_t count,
                                            typename bulk_columns<pairs>::value *to)
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
            uint32_t *halves = halves_of<kind>(lines, buckets, slot[k]);
            if (sizeof(value) == 4 && halves[0] == 1)
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

/* Half a warp works on a bucket. */
template <loom__slot_kind kind>
__device__ __forceinline__ list_counts finish_lists(unsigned char *lines, const loom__multi_view &view, uint64_t base)
{
    const uint32_t buckets = view.directory.buckets;
    const bool has_ones = multi_has_ones(&view);
    list_counts counts = {};
    for (uint32_t number = threadIdx.x; number < (buckets + 1) / 2 * 32; number += blockDim.x) { /* whole warps */
        uint32_t *halves = halves_of<kind>(lines, buckets, number);
        const bool exists = number % 16 < open_slots(kind) && number / 16 < buckets;
        const uint32_t count = exists ? halves[0] : 0, last = exists ? halves[1] : 0;
        const bool one = has_ones && count == 1;
        if (count > 0)
            *(uint64_t *)halves =
                one ? list_of_one(last) : list_make(list_kind_for(count), base + last - count, count, 1);
        const uint32_t ready = __ballot_sync(CUDA_FULL_MASK, count > 0) >> threadIdx.x % 32 / 16 * 16 & 0xffff;
        if (number % 16 == 0 && ready != 0)
            *(uint32_t *)(lines + number / 16 * open_line_stride(kind) + OPEN_WORD_OFFSET) |= ready;
        counts.keys += count > 0;
        counts.in_heap += one ? 0 : count;
    }
    return counts;
}

template <loom__slot_kind pairs>
__global__ void __maxnreg__(PARTITION_REGISTERS) build_kernel(const build_work<pairs> work)
{
    typedef typename bulk_columns<pairs>::value value;
    constexpr loom__slot_kind kind = directory_of<pairs>;
    constexpr uint32_t tag_bytes = bucket_tags<kind>::words * 4;
    extern __shared__ __align__(128) unsigned char lines[];
    const loom__open_view &directory = work.view.directory;
    const uint32_t partition = blockIdx.x, bytes = directory.partition_bytes;
    const uint32_t count = work.records.count(blockIdx.x);
    if (*work.records.spilled > 0) /* the batch goes another way */
        return;
    const uint64_t empty = open_empty(&directory, partition);
    const typename bulk_columns<pairs>::arrays records = work.records.at(blockIdx.x);
    begin_partition<kind>((uint4 *)lines, NULL, bytes, empty, directory.buckets);
    __shared__ uint32_t full;
    const build_block block = {lines, lines + bytes, directory, empty, &full};
    if (threadIdx.x == 0)
        full = 0;
    for (uint32_t i = threadIdx.x; i < directory.buckets * bucket_tags<kind>::words; i += blockDim.x)
        ((uint32_t *)block.tags)[i] = 0;
    __syncthreads();
    const uint32_t refused = count_pairs<pairs>(block, records, count);
    uint32_t taken;
    __syncthreads();
    const uint64_t base = place_lists<kind>(lines, work.view, &taken);
    value *heap = (value *)work.view.heap + base, *staged = (value *)(block.tags + directory.buckets * tag_bytes);
    __syncthreads();
    if (taken <= work.staged) {
        store_pairs<pairs>(lines, directory.buckets, records, count, staged);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < taken; i += blockDim.x)
            heap[i] = staged[i];
    } else {
        store_pairs<pairs>(lines, directory.buckets, records, count, heap);
    }
    __syncthreads();
    const list_counts lists = finish_lists<kind>(lines, work.view, base);
    write_partition<false>(directory.base + (uint64_t)partition * bytes, lines, bytes);
    if (threadIdx.x == 0) {
        directory.marks[partition] = full ? OPEN_FULL : OPEN_UNMARKED;
        directory.stale[partition] = 0;
        directory.retired_slots[partition] = 0;
    }
    const uint32_t own = threadIdx.x == 0 ? count : 0;
    multi_add(&directory.totals->size, lists.keys);
    multi_add(&work.view.lists->in_heap, lists.in_heap);
    multi_add(&work.view.lists->pairs, (uint64_t)own - refused);
    tell_counts(work.counts, {(int32_t)(own - refused), 0, (int32_t)refused});
}

/* Shared memory of a thread block: a partition, its tags, and room for values. */
uint32_t least_shared(const loom__open_view *directory)
{
    return directory->partition_bytes + directory->buckets * multi_tag_bytes((loom__slot_kind)directory->kind);
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

template <loom__slot_kind pairs>
cudaError_t build(const cuda_state *cuda, const loom__multi_view *view, const bulk_plan *plan, unsigned char *workspace,
                  cuda_counts *counts, cudaStream_t stream)
{
    const loom__open_view *directory = &view->directory;
    const uint32_t shared = shared_with_values(cuda, directory, plan->fine_room * view->value_bytes);
    const build_work<pairs> work = {*view, split_fine_regions<bulk_columns<pairs>>(plan, workspace, 0),
                                    (uint32_t)((shared - least_shared(directory)) / view->value_bytes), counts};
    RETURN_IF_CUDA_FAILED(allow_shared(build_kernel<pairs>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES));
    build_kernel<pairs><<<directory->partitions, threads_for_shared(shared), shared, stream>>>(work);
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
    switch (pairs) {
    case SLOT_PAIR_4_4:
        return build<SLOT_PAIR_4_4>(cuda, view, plan, workspace, counts, stream);
    case SLOT_KEY_4_VALUE_8:
        return build<SLOT_KEY_4_VALUE_8>(cuda, view, plan, workspace, counts, stream);
    case SLOT_KEY_8_VALUE_4:
        return build<SLOT_KEY_8_VALUE_4>(cuda, view, plan, workspace, counts, stream);
    default:
        return build<SLOT_KEY_8_VALUE_8>(cuda, view, plan, workspace, counts, stream);
    }
}
