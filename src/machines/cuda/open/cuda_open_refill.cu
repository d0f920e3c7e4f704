/* Fills a table with the keys of another one. Each partition is filled by one thread block in shared memory, from the
 * few source partitions whose keys can fall into it. The block reads these source partitions twice: first for keys that
 * find room at home, then for the others. Therefore a refill needs no memory beside the new table. */
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
                const uint64_t hash = loom__hash_key(key, slot_key_bytes(kind), work.to.seed);
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

template <loom__slot_kind kind>
__global__ void __maxnreg__(PARTITION_REGISTERS) refill_kernel(const refill_work<kind> work)
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
    if (keys > buckets * open_slots(kind)) { /* more keys than slots: nothing is written */
        if (threadIdx.x == 0)
            atomicAdd(work.refused, (unsigned long long)keys);
        return;
    }
    /* Places the keys that found their home bucket full. Meanwhile keys from elsewhere may fill a home bucket and raise
     * its counter, too. A key that already has a place at home is found there and left alone. */
    visit_keys(work, partition, [&](typename columns::head one, uint64_t value, uint32_t lower) {
        uint32_t bucket = loom__hash_bucket(lower, buckets);
        unsigned char *line = lines + bucket * open_line_stride(kind);
        if (places_taken(taken, bucket) <= open_slots(kind) || holds<kind>(line, columns::key_of(one)))
            return;
        const uint32_t bit = open_filter_bit(kind, lower), step = loom__hash_step(lower, buckets);
        for (;;) { /* some slot is free: at most `buckets` rounds */
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
        (void)finish_bucket<kind>(lines, buckets, bucket, places_taken(taken, bucket), empty,
                                  [](uint32_t, uint32_t) { return false; });
    write_partition<false>(work.to.base + (uint64_t)partition * bytes, lines, bytes);
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
