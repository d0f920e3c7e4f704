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
#include "machines/cuda/cuda_open_bulk.cuh"
#include "engines/open/open_items.h"
#include "machines/cuda/cuda_state.cuh"

namespace
{

enum { UNROLLED = 4 };

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

template <loom__open_kind kind>
__global__ void __launch_bounds__(SPLIT_THREADS)
    split_batch_kernel(const cuda_batch batch, uint64_t batch_first, const bulk_regions<kind> out, uint32_t bins,
                       const partition_of_head<kind> bin_of)
{
    typedef bulk_columns<kind> columns;
    uint64_t first = (uint64_t)blockIdx.x * SPLIT_TILE;
    uint32_t count = batch.n - first < SPLIT_TILE ? (uint32_t)(batch.n - first) : (uint32_t)SPLIT_TILE;
    split_tile(
        out, 0, bins, count, [&](uint32_t i) { return columns::read_head(batch, first + i); },
        [&](uint32_t i) { return columns::read_tail(batch, first + i); },
        [&](uint32_t i) { return (uint32_t)(batch_first + first + i); }, bin_of);
}

/* The second pass: one row of blocks to a coarse region. */
template <loom__open_kind kind>
__global__ void __launch_bounds__(SPLIT_THREADS)
    split_region_kernel(const bulk_regions<kind> from, const bulk_regions<kind> out, uint32_t bins,
                        const partition_of_head<kind> bin_of)
{
    uint32_t region = blockIdx.y, begin = blockIdx.x * SPLIT_TILE, whole = from.count(region);
    if (begin >= whole)
        return;
    size_t first = (size_t)region * from.room + begin;
    uint32_t count = whole - begin < SPLIT_TILE ? whole - begin : (uint32_t)SPLIT_TILE;
    split_tile(
        out, region * bins, bins, count, [&](uint32_t i) { return from.to.heads[first + i]; },
        [&](uint32_t i) { return from.to.tails[first + i]; }, [&](uint32_t i) { return from.to.index[first + i]; },
        bin_of);
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
    uint64_t word = open_key_bytes(kind) == 8 ? empty
                    : kind == OPEN_PAIR_4_4   ? empty
                                              : empty << 32 | empty;
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
    uint32_t ok, exists, full;
};

template <loom__open_kind kind>
__device__ __forceinline__ open_outcome insert_record(const loom__open_view *own, open_mode mode, uint64_t key,
                                                      uint64_t value)
{
    open_walk walk = open_start(kind, own, key);
    lane_truth tells;
    for (;;) { /* bounded as every insertion is */
        open_outcome outcome = open_insert_turn(kind, mode, LOOM__ADD, OPEN_SHARED, lane_own_group(), own, &walk,
                                                &value, 1, &tells);
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
        open_outcome outcome = work.overwrite
                                   ? insert_record<kind>(own, OPEN_OVERWRITE, columns::key_of(one), value)
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
        unsigned char *at = lines + open_value_offset(kind, buckets) + bucket * open_value_stride(kind) +
                            slot * open_value_bytes(kind);
        if (open_value_bytes(kind) == 8)
            *(uint64_t *)at = value;
        else
            *(uint32_t *)at = (uint32_t)value;
    }
}

/* The records of an empty partition, not more than it has slots. `taken` are two counters to a word, zero. All threads of the
 * block, which wait for each other. */
template <loom__open_kind kind>
__device__ __forceinline__ void fill_partition(const build_work<kind> &work, const loom__open_view *own,
                                               unsigned char *lines, uint32_t *taken, size_t first, uint32_t count,
                                               build_counts *counts)
{
    typedef bulk_columns<kind> columns;
    typedef typename columns::head head;
    const uint32_t buckets = own->buckets, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const uint32_t share = (count + warps * 32 - 1) / (warps * 32) * 32, begin = threadIdx.x / 32 * share;
    const uint32_t end = begin + share < count ? begin + share : count;
    uint32_t late = 0;
    for (uint32_t next = begin; next < end; next += 32 * UNROLLED) {
        head ones[UNROLLED];
        uint64_t values[UNROLLED];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            uint32_t i = next + 32 * k + lane;
            if (i < end) {
                ones[k] = work.records.to.heads[first + i];
                values[k] = open_values_apart(kind) ? columns::value_of(ones[k], work.records.to, first + i) : 0;
            }
        }
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            bool there = next + 32 * k + lane < end, is_late = false;
            if (there) {
                uint32_t lower = (uint32_t)loom__hash_key(columns::key_of(ones[k]), open_key_bytes(kind), own->seed);
                uint32_t bucket = loom__hash_bucket(lower, buckets), half = bucket % 2 * 16;
                uint32_t slot = atomicAdd(&taken[bucket / 2], 1u << half) >> half & 0xffff;
                is_late = slot >= open_slots(kind);
                if (!is_late)
                    place<kind>(lines, buckets, bucket, slot, ones[k], values[k]);
            }
            uint32_t lates = __ballot_sync(CUDA_FULL_MASK, is_late);
            if (is_late) {
                size_t to = first + begin + late + __popc(lates & ((1u << lane) - 1));
                work.records.to.heads[to] = ones[k];
                columns::set_tail(work.records.to, to, values[k]);
            }
            late += __popc(lates);
        }
    }
    __syncthreads();
    if (open_values_apart(kind)) {
        for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x) {
            uint32_t keys = taken[bucket / 2] >> bucket % 2 * 16 & 0xffff;
            *(uint64_t *)(lines + bucket * open_line_stride(kind) + OPEN_WORD_OFFSET) =
                ((uint64_t)1 << (keys < open_slots(kind) ? keys : open_slots(kind))) - 1;
        }
        __syncthreads();
    }
    counts->ok += (end > begin ? end - begin : 0) * (lane == 0);
    for (uint32_t i = lane; i < late; i += 32) {
        head one = work.records.to.heads[first + begin + i];
        uint64_t value = columns::value_of(one, work.records.to, first + begin + i);
        if (insert_record<kind>(own, OPEN_KEEP, columns::key_of(one), value) == OPEN_WAS_THERE) {
            counts->ok--;
            counts->exists++;
        }
    }
    __syncthreads();
}

/* Takes equal keys out of a bucket, of which this lane holds a quarter and the lanes beside it the rest: of two the one in the
 * higher slot. Returns the slots that this lane has emptied, as bits. All lanes of the warp. */
template <loom__open_kind kind>
__device__ __forceinline__ uint32_t drop_equal(uint4 *quarter, uint64_t empty)
{
    constexpr int slots = 16 / bulk_columns<kind>::slot_stride;
    const uint32_t own = threadIdx.x % 4, first = own * slots;
    uint64_t words[2] = {(uint64_t)quarter->y << 32 | quarter->x, (uint64_t)quarter->w << 32 | quarter->z};
    auto key = [](const uint64_t *from, int slot) -> uint64_t {
        if (kind == OPEN_PAIR_4_4)
            return (uint32_t)from[slot];
        if (slots == 2)
            return from[slot];
        return (uint32_t)(from[slot / 2] >> slot % 2 * 32);
    };
    uint32_t dropped = 0;
#pragma unroll
    for (int distance = 0; distance < 4; distance++) {
        uint64_t others[2] = {words[0], words[1]};
        if (distance > 0) {
            others[0] = __shfl_xor_sync(CUDA_FULL_MASK, words[0], distance);
            others[1] = __shfl_xor_sync(CUDA_FULL_MASK, words[1], distance);
        }
        uint32_t other_first = (own ^ distance) * slots;
#pragma unroll
        for (int i = 0; i < slots; i++) {
#pragma unroll
            for (int j = 0; j < slots; j++)
                if (other_first + j < first + i && first + i < open_slots(kind) && key(words, i) == key(others, j) &&
                    key(words, i) != empty)
                    dropped |= 1u << i;
        }
    }
    uint32_t *parts = (uint32_t *)quarter;
#pragma unroll
    for (int i = 0; i < slots; i++) {
        if (!(dropped >> i & 1))
            continue;
        if (slots == 4) {
            parts[i] = (uint32_t)empty;
        } else {
            parts[2 * i] = (uint32_t)empty;
            parts[2 * i + 1] = (uint32_t)(empty >> 32); /* of a pair: the value, zero */
        }
    }
    return dropped << first;
}

/* Four lanes to a line: equal keys go, and the line is written. All threads of the block. */
template <loom__open_kind kind>
__device__ __forceinline__ void write_lines(unsigned char *to, unsigned char *lines, uint32_t buckets, uint64_t empty,
                                            build_counts *counts)
{
    const uint32_t per_round = blockDim.x / 4, part = threadIdx.x % 4;
    for (uint32_t round = 0; round < buckets; round += per_round) {
        uint32_t bucket = round + threadIdx.x / 4;
        bool there = bucket < buckets;
        uint32_t at = (there ? bucket : 0) * open_line_stride(kind) + part * 16;
        uint4 quarter = *(const uint4 *)(lines + at);
        uint32_t dropped = drop_equal<kind>(&quarter, empty);
        if (open_values_apart(kind)) {
            uint32_t all = dropped | __shfl_xor_sync(CUDA_FULL_MASK, dropped, 1);
            all |= __shfl_xor_sync(CUDA_FULL_MASK, all, 2);
            if (part == 3)
                quarter.z &= ~all; /* their values are not ready */
            if (there)
                for (uint32_t left = dropped; left != 0; left &= left - 1) {
                    uint32_t slot = (uint32_t)__ffs((int)left) - 1;
                    unsigned char *value = lines + open_value_offset(kind, buckets) +
                                           bucket * open_value_stride(kind) + slot * open_value_bytes(kind);
                    for (uint32_t i = 0; i < open_value_bytes(kind); i += 4)
                        *(uint32_t *)(value + i) = 0;
                }
        }
        if (there) {
            *(uint4 *)(to + at) = quarter;
            counts->ok -= __popc(dropped);
            counts->exists += __popc(dropped);
        }
    }
}

/* What does not lie in lines: rows of values. */
template <loom__open_kind kind>
__device__ __forceinline__ void write_values(uint4 *to, const uint4 *from, uint32_t bytes, uint32_t buckets)
{
    for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
        bool keys = kind == OPEN_KEY_8_VALUE_4 ? i * 16 < buckets * OPEN_LINE_BYTES
                                               : i * 16 % open_line_stride(kind) < OPEN_LINE_BYTES;
        if (!keys)
            to[i] = from[i];
    }
}

__device__ __forceinline__ void add_up(unsigned long long *to, uint32_t mine)
{
    uint32_t sum = __reduce_add_sync(CUDA_FULL_MASK, mine);
    if (threadIdx.x % 32 == 0 && sum != 0)
        atomicAdd(to, (unsigned long long)sum);
}

/* One block to a partition. Shared memory: the partition, then its counters. */
template <loom__open_kind kind>
__global__ void __launch_bounds__(1024) build_kernel(const build_work<kind> work)
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
    if (fills) {
        fill_partition<kind>(work, &own, lines, taken, first, count, &counts);
        write_lines<kind>(there, lines, buckets, empty, &counts);
        __syncthreads();
        if (open_values_apart(kind))
            write_values<kind>((uint4 *)there, (const uint4 *)lines, bytes, buckets);
    } else {
        insert_all<kind>(work, &own, first, count, &counts);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x)
            ((uint4 *)there)[i] = ((const uint4 *)lines)[i];
    }
    if (threadIdx.x == 0) {
        work.view.marks[partition] = mark;
        work.view.stale[partition] = stale;
    }
    cuda_counts *to = work.counts + blockIdx.x % COUNT_COPIES;
    add_up(&to->ok, counts.ok);
    add_up(&to->exists, counts.exists);
    add_up(&to->full, counts.full);
}

/* ---- launches ---- */

/* The most that any launch asks for: so host threads may set it at the same time. */
template <class kernel_type> cudaError_t allow_shared(kernel_type kernel, size_t most)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
}

template <loom__open_kind kind> size_t split_bytes(uint32_t bins)
{
    return split_shared_bytes<typename bulk_columns<kind>::head, typename bulk_columns<kind>::tail>(bins);
}

template <loom__open_kind kind>
cudaError_t split(const loom__open_view *view, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                  unsigned char *workspace, cudaStream_t stream)
{
    bulk_regions<kind> out = plan->coarse > 0 ? bulk_coarse_regions<kind>(plan, workspace, view->base)
                                              : bulk_fine_regions<kind>(plan, workspace);
    const uint32_t bins = plan->coarse > 0 ? plan->coarse : plan->fine;
    const partition_of_head<kind> bin_of = {view->seed, view->partitions, plan->shift, 0xffffffffu};
    cudaError_t error = allow_shared(split_batch_kernel<kind>, split_bytes<kind>(SPLIT_MOST_BINS));
    if (error != cudaSuccess)
        return error;
    split_batch_kernel<kind><<<(unsigned)((batch->n + SPLIT_TILE - 1) / SPLIT_TILE), SPLIT_THREADS,
                               split_bytes<kind>(bins), stream>>>(*batch, first, out, bins, bin_of);
    return cudaGetLastError();
}

template <loom__open_kind kind>
cudaError_t build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, const bulk_plan *plan,
                  unsigned char *workspace, bool replace, bool overwrite, cudaStream_t stream)
{
    const bulk_regions<kind> fine = bulk_fine_regions<kind>(plan, workspace);
    cudaError_t error = allow_shared(split_region_kernel<kind>, split_bytes<kind>(SPLIT_MOST_BINS));
    if (error == cudaSuccess)
        error = allow_shared(build_kernel<kind>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES);
    if (error != cudaSuccess)
        return error;
    if (plan->coarse > 0) {
        const uint32_t bins = 1u << plan->shift;
        const partition_of_head<kind> bin_of = {view->seed, view->partitions, 0, bins - 1};
        const dim3 grid((plan->coarse_room + SPLIT_TILE - 1) / SPLIT_TILE, plan->coarse);
        split_region_kernel<kind><<<grid, SPLIT_THREADS, split_bytes<kind>(bins), stream>>>(
            bulk_coarse_regions<kind>(plan, workspace, view->base), fine, bins, bin_of);
    }
    const build_work<kind> work = {*view, fine, replace, overwrite, batch->status, batch->counts};
    const uint32_t bytes = bulk_shared_bytes(view);
    build_kernel<kind><<<view->partitions, bytes > BULK_HALF_BYTES ? 1024 : 512, bytes, stream>>>(work);
    return cudaGetLastError();
}

} // namespace

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
