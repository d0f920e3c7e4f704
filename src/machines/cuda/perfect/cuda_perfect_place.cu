/* Writes whole partitions of a perfect table, once their codes are known (cuda_perfect_codes.cu). A thread block reads
 * the records of one partition, puts each into the bucket that its code names, in shared memory, and writes the
 * partition out. No data moves twice: after a split, n pairs of p bytes and a table of t bytes cost n p + t bytes of
 * traffic.
 *
 * A record takes the next place of its bucket from a counter. Equal keys share a bucket: once all records are placed,
 * all but one of the equal keys are removed. A record that finds its bucket full is left over, as are all records of a
 * spoiled partition. In calls that want statuses, the block instead inserts each record as an ordinary key
 * (perfect_ops.h), in shared memory. */
#define CUDA_LANES 1
#define CUDA_SHARED_TABLE
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_ops.h"
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/core/cuda_partition.cuh"
#include "machines/cuda/perfect/cuda_perfect.cuh"
#include "machines/cuda/perfect/cuda_perfect_bulk.cuh"

namespace
{

enum {
    PLACE_THREADS = 1024,
    PLACE_BLOCKS = 2,   /* per multiprocessor */
    LEFTOVER_SHARE = 64 /* one record in this many may be left over, and those of four partitions */
};

template <loom__slot_kind kind> struct place_work {
    loom__perfect_view view;
    bulk_regions<kind> records;
    perfect_leftovers left;
    uint8_t *status; /* NULL: not wanted */
    cuda_counts *counts;
    int overwrite;
};

/* One block's part of the work. */
template <loom__slot_kind kind> struct place_block {
    unsigned char *lines;
    uint32_t *taken; /* places taken in each bucket, 16 bits each */
    typename bulk_columns<kind>::arrays records;
    uint32_t count;
    uint64_t empty;
};

/* All threads of the block: make an empty partition. */
template <loom__slot_kind kind>
__device__ __forceinline__ void begin_partition(const loom__perfect_view &view, const place_block<kind> &block)
{
    constexpr uint32_t quarters = PERFECT_LINE_BYTES / 16;
    const uint32_t stride = perfect_line_stride(kind) / 16, buckets = perfect_buckets(view.subrange);
    const uint64_t word = slot_stride(kind) == 4 ? block.empty << 32 | block.empty : block.empty;
    const uint4 keys = make_uint4((uint32_t)word, (uint32_t)(word >> 32), (uint32_t)word, (uint32_t)(word >> 32));
    for (uint32_t i = threadIdx.x; i < view.partition_bytes / 16; i += blockDim.x)
        ((uint4 *)block.lines)[i] = i < buckets * stride && i % stride < quarters ? keys : make_uint4(0, 0, 0, 0);
    for (uint32_t i = threadIdx.x; i < (buckets + 1) / 2; i += blockDim.x)
        block.taken[i] = 0;
}

template <loom__slot_kind kind>
__device__ __forceinline__ typename bulk_columns<kind>::head *head_at(unsigned char *lines, uint32_t bucket,
                                                                      uint32_t slot)
{
    return (typename bulk_columns<kind>::head *)(perfect_line(kind, lines, bucket) + slot * slot_stride(kind));
}

template <loom__slot_kind kind>
__device__ __forceinline__ typename bulk_columns<kind>::value *
value_at(const loom__perfect_view &view, unsigned char *lines, uint32_t bucket, uint32_t slot)
{
    return (typename bulk_columns<kind>::value *)perfect_value(kind, &view, lines, bucket, slot);
}

template <loom__slot_kind kind>
__device__ __forceinline__ void put(const loom__perfect_view &view, unsigned char *lines, uint32_t bucket,
                                    uint32_t slot, typename bulk_columns<kind>::head one, uint64_t value)
{
    *head_at<kind>(lines, bucket, slot) = one;
    if constexpr (bulk_columns<kind>::has_tail)
        *value_at<kind>(view, lines, bucket, slot) = (typename bulk_columns<kind>::value)value;
}

template <loom__slot_kind kind>
__device__ __forceinline__ void leave(const perfect_leftovers &left, const place_block<kind> &block, uint32_t i)
{
    typedef bulk_columns<kind> columns;
    const typename columns::head one = block.records.heads[i];
    const uint32_t at = atomicAdd(left.count, 1u);
    if (at >= left.room)
        return; /* the host sees from the count that not all records fit */
    ((typename columns::key *)left.keys)[at] = (typename columns::key)columns::key_of(one);
    if constexpr (columns::packed || columns::has_tail)
        ((typename columns::value *)left.values)[at] =
            (typename columns::value)columns::value_of(one, block.records, i);
    if (left.index != NULL)
        left.index[at] = block.records.index[i];
}

template <loom__slot_kind kind>
__device__ __forceinline__ perfect_seek seek_record(const loom__perfect_view &view,
                                                    typename bulk_columns<kind>::head one)
{
    perfect_seek seek = perfect_start(kind, &view, bulk_columns<kind>::key_of(one));
    perfect_settle(&view, &seek, __ldg((const unsigned long long *)perfect_word_of(&view, &seek)));
    return seek;
}

/* Puts each record into the next place of its bucket. Returns how many are left over. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t place_all(const place_work<kind> &work, const place_block<kind> &block)
{
    typedef bulk_columns<kind> columns;
    typedef typename columns::head head;
    constexpr uint32_t at_once = 16 / sizeof(head);
    uint32_t left = 0, first = threadIdx.x * at_once;
    uint4 coming = bulk_load_heads(block.records.heads, first, block.count); /* while earlier records are placed */
    for (; first < block.count; first += PLACE_THREADS * at_once) {
        head some[at_once];
        *(uint4 *)some = coming;
        coming = bulk_load_heads(block.records.heads, first + PLACE_THREADS * at_once, block.count);
#pragma unroll
        for (uint32_t k = 0; k < at_once; k++) {
            const uint32_t i = first + k;
            if (i >= block.count)
                break;
            const uint32_t bucket = seek_record<kind>(work.view, some[k]).bucket,
                           slot = take_place(block.taken, bucket);
            if (slot < perfect_slots(kind)) {
                put<kind>(work.view, block.lines, bucket, slot, some[k],
                          columns::has_tail ? columns::value_of(some[k], block.records, i) : 0);
            } else {
                leave<kind>(work.left, block, i);
                left++;
            }
        }
    }
    return left;
}

/* Removes equal keys from a bucket that only this lane touches; of equal keys the one in the lowest slot remains.
 * Afterwards the keys still fill the lowest slots. Returns how many keys were removed. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t drop_equal(const loom__perfect_view &view, const place_block<kind> &block,
                                               uint32_t bucket, uint32_t taken)
{
    typedef bulk_columns<kind> columns;
    typedef typename columns::head head;
    uint32_t left = taken;
    for (uint32_t i = 1; i < left; i++) {
        const uint64_t key = columns::key_of(*head_at<kind>(block.lines, bucket, i));
        bool equal = false;
        for (uint32_t j = 0; j < i; j++)
            equal |= columns::key_of(*head_at<kind>(block.lines, bucket, j)) == key;
        if (!equal)
            continue;
        left--;
        uint64_t value = 0;
        if constexpr (columns::has_tail)
            value = *value_at<kind>(view, block.lines, bucket, left);
        put<kind>(view, block.lines, bucket, i, *head_at<kind>(block.lines, bucket, left), value);
        put<kind>(view, block.lines, bucket, left, (head)block.empty, 0);
        i--; /* the key moved here may also be equal to another */
    }
    return taken - left;
}

/* Whether two keys of the bucket look equal. Free slots, which hold equal keys, count as different keys. Reads the
 * quarters of the line in a sequence in which neighbouring lanes use different banks. */
template <loom__slot_kind kind>
__device__ __forceinline__ bool looks_equal(const place_block<kind> &block, uint32_t bucket)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int stride = bulk_columns<kind>::slot_stride, slots = PERFECT_LINE_BYTES / stride;
    constexpr uint64_t NOBODYS = 0x9e3779b97f4a7c15u; /* a real key with this value only costs one more look */
    const unsigned char *line = perfect_line(kind, block.lines, bucket);
    key keys[slots];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint4 quarter = load_quarter(line + (bucket / 2 + k) % 4 * 16);
        const key *parts = (const key *)&quarter;
#pragma unroll
        for (int i = 0; i < slots / 4; i++) {
            const key one = parts[i * (int)(stride / sizeof(key))];
            keys[k * (slots / 4) + i] = one == (key)block.empty ? (key)(NOBODYS + k * (slots / 4) + i) : one;
        }
    }
    bool equal = false;
#pragma unroll
    for (int i = 1; i < slots; i++)
#pragma unroll
        for (int j = 0; j < i; j++)
            equal = equal || keys[i] == keys[j];
    return equal;
}

/* Inserts every record as an ordinary key and reports its status. */
template <loom__slot_kind kind>
__device__ __forceinline__ void insert_all(const place_work<kind> &work, const place_block<kind> &block,
                                           outcome_counts *counts)
{
    typedef bulk_columns<kind> columns;
    for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x) {
        const typename columns::head one = block.records.heads[i];
        perfect_seek seek = seek_record<kind>(work.view, one);
        uint64_t value = columns::value_of(one, block.records, i);
        seek.partition = block.lines;
        const perfect_outcome outcome =
            work.overwrite
                ? perfect_insert_alone(kind, SLOT_OVERWRITE, LOOM__ADD, 1, lane_own_group(), &work.view, &seek, &value)
                : perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, 1, lane_own_group(), &work.view, &seek, &value);
        counts->ok += outcome == PERFECT_DONE;
        counts->exists += outcome == PERFECT_WAS_THERE;
        if (outcome == PERFECT_OVERFLOW)
            leave<kind>(work.left, block, i);
        else
            work.status[block.records.index[i]] = outcome == PERFECT_DONE ? LOOM_OK : LOOM_EXISTS;
    }
}

/* One block per partition. Shared memory: the partition, then its counters. */
template <loom__slot_kind kind, bool tells>
__global__ void __launch_bounds__(PLACE_THREADS, PLACE_BLOCKS) place_kernel(const place_work<kind> work)
{
    extern __shared__ __align__(128) unsigned char lines[];
    const uint32_t partition = blockIdx.x, bytes = work.view.partition_bytes;
    const uint32_t buckets = perfect_buckets(work.view.subrange);
    if (work.records.gave_up())
        return;
    const place_block<kind> block = {lines, (uint32_t *)(lines + bytes), work.records.at(partition),
                                     work.records.count(partition), perfect_empty(&work.view, partition)};
    begin_partition<kind>(work.view, block);
    __syncthreads();
    outcome_counts counts = {};
    if (work.left.spoiled[partition]) {
        for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x)
            leave<kind>(work.left, block, i);
    } else if constexpr (tells) {
        insert_all<kind>(work, block, &counts);
    } else {
        counts.ok = (threadIdx.x == 0 ? (int32_t)block.count : 0) - (int32_t)place_all<kind>(work, block);
        __syncthreads();
        for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x)
            if (looks_equal<kind>(block, bucket)) {
                const uint32_t taken = places_taken(block.taken, bucket);
                counts.exists += (int32_t)drop_equal<kind>(work.view, block, bucket, min(taken, perfect_slots(kind)));
            }
        counts.ok -= counts.exists;
    }
    write_partition<false>(work.view.base + (uint64_t)partition * bytes, lines, bytes);
    tell_counts(work.counts, counts);
}

uint32_t place_shared_bytes(const loom__perfect_view *view)
{
    return view->partition_bytes + (perfect_buckets(view->subrange) + 1) / 2 * 4;
}

perfect_leftovers lay_out_leftovers(const perfect_bulk_plan *plan, array_cutter *memory)
{
    const uint32_t room = plan->leftover_room;
    perfect_leftovers left = {};
    left.room = room;
    left.count = memory->cut<uint32_t>(1);
    left.spoiled = memory->cut<uint8_t>(plan->partitions);
    left.keys = memory->cut<unsigned char>((uint64_t)room * slot_key_bytes(plan->kind));
    left.values = memory->cut<unsigned char>((uint64_t)room * slot_value_bytes(plan->kind));
    if (plan->split.with_index) {
        left.index = memory->cut<uint32_t>(room);
        left.status = memory->cut<uint8_t>(room);
    }
    return left;
}

} // namespace

bool cuda_perfect_bulk_plan(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n, bool with_index,
                            perfect_bulk_plan *plan)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    const uint32_t slots = perfect_buckets(view->subrange) * perfect_slots(kind); /* of a partition */
    const uint32_t most = perfect_most_shared(cuda);
    split_request request = {};
    *plan = perfect_bulk_plan{};
    request.n = n;
    request.keys = (uint64_t)view->partitions * slots;
    request.parts = view->partitions;
    cuda_bulk_columns(kind, &request);
    request.with_index = with_index;
    request.spare_bytes = (uint64_t)view->partitions * view->partition_bytes;
    if (place_shared_bytes(view) > most || cuda_perfect_codes_bytes(view) > most ||
        !split_plan_passes(&request, &plan->split))
        return false;
    plan->kind = kind;
    plan->partitions = view->partitions;
    plan->leftover_room = (uint32_t)(n / LEFTOVER_SHARE + 4 * slots); /* n is below 2^32 */
    array_cutter memory = {NULL, cuda_aligned(plan->split.bytes)};
    (void)lay_out_leftovers(plan, &memory);
    plan->bytes = memory.bytes;
    return true;
}

perfect_leftovers cuda_perfect_leftovers(const perfect_bulk_plan *plan, unsigned char *workspace)
{
    array_cutter memory = {workspace, cuda_aligned(plan->split.bytes)};
    return lay_out_leftovers(plan, &memory);
}

cudaError_t cuda_perfect_bulk_place(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *batch,
                                    const perfect_bulk_plan *plan, unsigned char *workspace, bool overwrite,
                                    cudaStream_t stream)
{
    const perfect_leftovers left = cuda_perfect_leftovers(plan, workspace);
    cudaError_t error = cudaSuccess;
#define CALL(kind)                                                                                              \
    error = launch_shared(batch->status != NULL ? place_kernel<kind, true> : place_kernel<kind, false>,         \
                          perfect_most_shared(cuda), view->partitions, PLACE_THREADS, place_shared_bytes(view), \
                          {*view, split_fine_regions<bulk_columns<kind>>(&plan->split, workspace, 0), left,     \
                           batch->status, batch->counts, overwrite},                                            \
                          stream)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}
