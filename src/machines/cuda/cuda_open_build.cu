/* Insertion by partition on a GPU: split the batch (cuda_split.cuh), then give each partition to one block, which fills it in
 * shared memory and writes it out whole.
 *
 * A direct insertion reads and writes a random line of memory for each key. Here everything streams. For n pairs of p bytes and
 * a table of t bytes the bytes moved are, with two passes of splitting, 4 n p + n p + t into an empty table (t more into a
 * filled one). The first pass of a build writes into the table's own memory, which holds nothing yet. 10^8 pairs of 4 + 4 bytes
 * at load 0.8 on an H200: 5.1 GB, 1.2 ms at the speed of a copy; measured 1.83.
 *
 * How a block fills an empty partition, all threads waiting for each other after each step:
 *   1. home    each key takes the next place of its home bucket from a counter; keys that come when the bucket is full are set
 *              aside, each warp's at the beginning of what it has read already.
 *   2. chain   those look for their key at home, set their filter bits and take the next place on their chains. A key whose bit
 *              was set at home before may have an equal one further on: it is set aside once more. One whose bit was not has
 *              none: an equal key would have set the same bit in the same bucket.
 *   3. finish  each bucket by one lane: ready bits; equal keys that took places of one home bucket in step 1.
 *   4. rest    what was set aside in step 2 is inserted as any key is (open_ops.h), in shared memory.
 * No more records than slots, so no key is refused for an equal one, and every chain ends. Partitions that hold keys already, or get
 * more records than they have slots, and calls that want statuses, have each record inserted as any key is. */
#define CUDA_LANES 1
#define CUDA_SHARED_TABLE
#include "machines/cuda/cuda_open_partition.cuh"

#include "machines/cuda/cuda_open_counts.cuh"

namespace
{

enum { UNROLLED = 4 };

template <loom__open_kind kind> struct build_work {
    loom__open_view view;
    bulk_regions<kind> records;
    int replace, overwrite;
    uint8_t *status; /* NULL: nobody asks */
    cuda_counts *counts;
};

template <loom__open_kind kind>
__device__ __forceinline__ open_outcome insert_record(const loom__open_view *own, open_mode mode, uint64_t key,
                                                      uint64_t value)
{
    return open_insert_alone(kind, mode, LOOM__ADD, OPEN_SHARED, lane_own_group(), own, key, value);
}

/* Every record inserted as any key is. */
template <loom__open_kind kind>
__device__ __forceinline__ void insert_all(const build_work<kind> &work, const loom__open_view *own, size_t first,
                                           uint32_t count, outcome_counts *counts)
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

/* The records of an empty partition, not more than it has slots. `taken`: zero. All threads of the block, which wait for each
 * other. */
template <loom__open_kind kind>
__device__ __forceinline__ void fill_partition(const build_work<kind> &work, const loom__open_view *own,
                                               unsigned char *lines, uint32_t *taken, size_t first, uint32_t count,
                                               uint64_t empty, outcome_counts *counts)
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
    outcome_counts counts = {};
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
    tell_counts(work.counts, counts);
}

template <loom__open_kind kind>
cudaError_t build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, const bulk_plan *plan,
                  unsigned char *workspace, bool replace, bool overwrite, cudaStream_t stream)
{
    const build_work<kind> work = {
        *view, bulk_fine_regions<kind>(plan, workspace), replace, overwrite, batch->status, batch->counts};
    cudaError_t error = allow_shared(build_kernel<kind>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES);
    if (error != cudaSuccess)
        return error;
    build_kernel<kind><<<view->partitions, partition_threads(view), bulk_shared_bytes(view), stream>>>(work);
    return cudaGetLastError();
}

} // namespace

cudaError_t cuda_open_bulk_build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                 const bulk_plan *plan, unsigned char *workspace, bool replace, bool overwrite,
                                 cudaStream_t stream)
{
    cudaError_t error = cuda_open_bulk_split_further(view, plan, workspace, stream);
    if (error != cudaSuccess)
        return error;
#define CALL(kind) error = build<kind>(cuda, view, batch, plan, workspace, replace, overwrite, stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}
