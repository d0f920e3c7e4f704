/* Fills a table with the keys of another one. Each partition is filled by one thread block in shared memory, from the
 * few source partitions whose keys can fall into it. Keys that find no room at home wait in the memory of the new
 * partition, which the block writes last. Therefore a refill needs no memory beside the new table. */
#define CUDA_LANES 1
#define CUDA_SHARED_TABLE
#include "machines/cuda/open/cuda_open_partition.cuh"

namespace
{

/* All keys are different, so a key that has taken a place keeps the place. */
template <loom__slot_kind kind> struct refill_work {
    loom__open_view from, to;
    unsigned long long *refused;
};

enum { QUARTERS_AT_ONCE = 4 }; /* loads in flight of each thread */

/* Keys of a partition that wait, in the memory where the partition will be written. There is room for as many keys as
 * the partition has slots; more cannot be stored anyway. */
template <loom__slot_kind kind> struct waiting_keys {
    typedef bulk_columns<kind> columns;
    typename columns::head *heads;
    typename columns::tail *tails;
    uint32_t room;

    __device__ __forceinline__ waiting_keys(const loom__open_view &to, uint32_t partition)
    {
        unsigned char *at = to.base + (uint64_t)partition * to.partition_bytes;
        room = to.buckets * open_slots(kind);
        heads = (typename columns::head *)at;
        tails = (typename columns::tail *)(at + ((size_t)room * sizeof(typename columns::head) + 7) / 8 * 8);
    }
    __device__ __forceinline__ void put(uint32_t i, typename columns::head head, uint64_t value) const
    {
        if (i >= room)
            return;
        heads[i] = head;
        if constexpr (columns::has_tail)
            tails[i] = (typename columns::tail)value;
    }
    __device__ __forceinline__ uint64_t value(uint32_t i) const
    {
        if constexpr (columns::has_tail)
            return tails[i];
        return 0;
    }
};

/* Calls visit(head, value, lower half of the hash) for each key that belongs to the partition of the new table. All
 * threads of the block call this. */
template <loom__slot_kind kind, class visitor>
__device__ __forceinline__ void visit_keys(const refill_work<kind> &work, uint32_t partition, visitor visit)
{
    typedef bulk_columns<kind> columns;
    constexpr uint32_t slots = 16 / columns::slot_stride; /* slots in a quarter of a line */
    uint32_t first, last;
    loom__hash_sources(partition, work.to.partitions, work.from.partitions, &first, &last);
    for (uint32_t source = first; source <= last; source++) {
        const unsigned char *there = work.from.base + (uint64_t)source * work.from.partition_bytes;
        const uint64_t empty = open_empty(&work.from, source);
        const uint32_t quarters = work.from.buckets * 4;
        auto look_at = [&](uint32_t i, const uint4 &quarter) {
            const uint32_t bucket = i / 4, part = i % 4;
            const typename columns::head *heads = (const typename columns::head *)&quarter;
#pragma unroll
            for (uint32_t k = 0; k < slots; k++) {
                const uint32_t slot = part * slots + k;
                const uint64_t key = columns::key_of(heads[k]);
                if (slot >= open_slots(kind) || key == empty)
                    continue;
                const uint64_t hash = loom__hash_key(key, slot_key_bytes(kind), work.to.seed);
                if (loom__hash_partition(hash, work.to.partitions) != partition)
                    continue;
                uint64_t value = 0;
                if constexpr (columns::has_tail)
                    value = *(const typename columns::tail *)(there + (size_t)bucket * open_line_stride(kind) +
                                                              open_value_place(kind, slot));
                visit(heads[k], value, (uint32_t)hash);
            }
        };
        for (uint32_t begin = threadIdx.x; begin < quarters; begin += QUARTERS_AT_ONCE * blockDim.x) {
            uint4 read[QUARTERS_AT_ONCE];
#pragma unroll
            for (uint32_t k = 0; k < QUARTERS_AT_ONCE; k++) {
                const uint32_t i = begin + k * blockDim.x;
                if (i < quarters)
                    read[k] = *(const uint4 *)(there + (size_t)(i / 4) * open_line_stride(kind) + i % 4 * 16);
            }
#pragma unroll
            for (uint32_t k = 0; k < QUARTERS_AT_ONCE; k++)
                if (begin + k * blockDim.x < quarters)
                    look_at(begin + k * blockDim.x, read[k]);
        }
    }
}

template <loom__slot_kind kind>
__global__ void __maxnreg__(PARTITION_REGISTERS) refill_kernel(const refill_work<kind> work)
{
    typedef bulk_columns<kind> columns;
    extern __shared__ __align__(128) unsigned char lines[];
    __shared__ uint32_t keys, late;
    const uint32_t partition = blockIdx.x, bytes = work.to.partition_bytes, buckets = work.to.buckets;
    const uint64_t empty = open_empty(&work.to, partition);
    uint32_t *taken = (uint32_t *)(lines + bytes), mine = 0;
    begin_partition<kind>((uint4 *)lines, NULL, bytes, empty);
    for (uint32_t i = threadIdx.x; i < (buckets + 1) / 2; i += blockDim.x)
        taken[i] = 0;
    const waiting_keys<kind> waiting(work.to, partition);
    if (threadIdx.x == 0)
        keys = late = 0;
    __syncthreads();
    visit_keys(work, partition, [&](typename columns::head one, uint64_t value, uint32_t lower) {
        const uint32_t bucket = loom__hash_bucket(lower, buckets), slot = take_place(taken, bucket);
        if (slot < open_slots(kind))
            place<kind>(lines, bucket, slot, one, value);
        else
            waiting.put(atomicAdd(&late, 1u), one, value);
        mine++;
    });
    atomicAdd(&keys, mine);
    __syncthreads();
    if (keys > buckets * open_slots(kind)) { /* more keys than slots: nothing is written */
        if (threadIdx.x == 0)
            atomicAdd(work.refused, (unsigned long long)keys);
        return;
    }
    for (uint32_t i = threadIdx.x; i < late; i += blockDim.x) {
        const typename columns::head one = waiting.heads[i];
        const uint32_t lower = (uint32_t)loom__hash_key(columns::key_of(one), slot_key_bytes(kind), work.to.seed);
        const uint32_t bit = open_filter_bit(kind, lower), step = loom__hash_step(lower, buckets);
        uint32_t bucket = loom__hash_bucket(lower, buckets), slot;
        do { /* some slot is free: at most `buckets` rounds */
            (void)set_bit<kind>(lines + bucket * open_line_stride(kind), bit);
            bucket += step;
            bucket -= bucket >= buckets ? buckets : 0;
            slot = take_place(taken, bucket);
        } while (slot >= open_slots(kind));
        place<kind>(lines, bucket, slot, one, waiting.value(i));
    }
    __syncthreads();
    for (uint32_t bucket = threadIdx.x; bucket < buckets; bucket += blockDim.x)
        (void)finish_bucket<kind>(lines, bucket, places_taken(taken, bucket), empty,
                                  [](uint32_t, uint32_t) { return false; });
    write_partition<true>(work.to.base + (uint64_t)partition * bytes, lines, bytes); /* over keys that waited there */
}

template <loom__slot_kind kind>
cudaError_t refill(const cuda_state *cuda, const loom__open_view *from, const loom__open_view *to,
                   unsigned long long *refused, cudaStream_t stream)
{
    const refill_work<kind> work = {*from, *to, refused};
    cudaError_t error = allow_shared(refill_kernel<kind>, (size_t)cuda->shared_bytes - BULK_STATIC_BYTES);
    if (error != cudaSuccess)
        return error;
    refill_kernel<kind><<<to->partitions, partition_threads(to), bulk_shared_bytes(to), stream>>>(work);
    return cudaGetLastError();
}

} // namespace

loom_status cuda_open_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                             loom_stream stream)
{
    const loom__open_view *from = static_cast<const loom__open_view *>(any_from);
    const loom__open_view *to = static_cast<const loom__open_view *>(any_to);
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t on = (cudaStream_t)stream;
    ON_DEVICE(cuda);
    if (bulk_shared_bytes(to) + BULK_STATIC_BYTES > (uint32_t)cuda->shared_bytes)
        return LOOM_UNSUPPORTED;
    /* The new table's size is not set yet. Until then, its field counts the keys of partitions that have more keys than
     * slots. */
    unsigned long long *counter = (unsigned long long *)&to->totals->size;
    CUDA_TRY(cudaMemsetAsync(counter, 0, sizeof *counter, on));
    cudaError_t error = cudaSuccess;
#define CALL(kind) error = refill<kind>(cuda, from, to, counter, on)
    SLOT_FOR_KIND(to->kind, CALL)
#undef CALL
    CUDA_TRY(error);
    CUDA_TRY(cudaMemcpyAsync(refused, counter, sizeof *refused, cudaMemcpyDeviceToHost, on));
    CUDA_TRY(cudaStreamSynchronize(on));
    return LOOM_OK;
}
