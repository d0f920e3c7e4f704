/* Turns the counts of a call into its result. */
#ifndef LOOM_CUDA_FINISH_CUH
#define LOOM_CUDA_FINISH_CUH

#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/core/cuda_state.cuh"

static_assert(COUNT_COPIES == 32, "one lane for each");

/* Writes the result, and adds to the table's size. One lane runs this. */
__device__ __forceinline__ void tell_result(const cuda_finish &finish, unsigned long long ok, unsigned long long exists,
                                            unsigned long long not_found, unsigned long long full,
                                            unsigned long long too_long = 0)
{
    const bool erases = finish.op == OP_ERASE || finish.op == OP_ERASE_IF;
    if (finish.replaced)
        *finish.size = ok;
    else if (finish.size != NULL && finish.op != OP_FIND && finish.op != OP_UPDATE && ok > 0)
        atomicAdd((unsigned long long *)finish.size, erases ? 0 - ok : ok);
    loom_result told = {};
    told.status = full > 0 ? LOOM_FULL : too_long > 0 ? LOOM_TOO_LONG : finish.outcome;
    told.keys = finish.op == OP_ERASE_IF ? ok + exists : finish.n; /* only the table knows its pairs */
    told.ok = ok;
    told.exists = exists;
    told.not_found = finish.op == OP_FIND ? finish.n - ok : not_found; /* lookups count found keys */
    told.full = full;
    told.too_long = too_long;
    *finish.result = told;
}

/* Sums the copies, clears them for the next call, and writes the result. One warp runs this after all counting. */
__device__ __forceinline__ void finish_counts(const cuda_finish &finish)
{
    cuda_counts *copy = finish.counts + threadIdx.x;
    unsigned long long ok = __ldcg(&copy->ok), exists = __ldcg(&copy->exists), not_found = __ldcg(&copy->not_found);
    unsigned long long full = __ldcg(&copy->full), too_long = __ldcg(&copy->too_long);
    *copy = cuda_counts{};
    for (int distance = COUNT_COPIES / 2; distance > 0; distance /= 2) {
        ok += __shfl_xor_sync(0xffffffffu, ok, distance);
        exists += __shfl_xor_sync(0xffffffffu, exists, distance);
        not_found += __shfl_xor_sync(0xffffffffu, not_found, distance);
        full += __shfl_xor_sync(0xffffffffu, full, distance);
        too_long += __shfl_xor_sync(0xffffffffu, too_long, distance);
    }
    if (threadIdx.x == 0)
        tell_result(finish, ok, exists, not_found, full, too_long);
}

/* The last block of a kernel to arrive finishes the call. All threads of each block call this after counting. */
__device__ __forceinline__ void finish_last(const cuda_finish &finish)
{
    __shared__ bool last;
    __threadfence(); /* orders this thread's counts before the arrival of its block */
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(finish.arrived, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x < COUNT_COPIES) {
        __threadfence(); /* orders the arrivals of all blocks before the reads of the counts */
        finish_counts(finish);
    }
}

/* In a small call, the counts of a warp and its arrival go into one word, by one atomic addition. What that addition
 * returns tells the last warp the sums of all counts. With counts and arrivals in different words, warps would need
 * fences between them, and the last warp would have to read the counts: three more waits for memory. */
enum {
    PACKED_BITS = 15,                 /* of a count */
    PACKED_ARRIVALS = 3 * PACKED_BITS /* the bits above count warps */
};

static_assert(MOST_TO_PACK < 1 << PACKED_BITS && MOST_TO_PACK < 1 << (64 - PACKED_ARRIVALS), "no field overflows");

/* Whether the keys that an operation did not change count as not found. Otherwise they count as existing. */
__host__ __device__ constexpr bool counts_not_found(cuda_op op)
{
    return op == OP_ERASE || op == OP_UPDATE;
}

/* Counts of one lane. */
struct lane_counts {
    uint32_t ok, exists_or_not_found, full;
};

/* All lanes of all warps of the kernel call this. */
__device__ __forceinline__ void finish_packed(const cuda_finish &finish, const lane_counts &mine)
{
    const uint32_t ok = __reduce_add_sync(0xffffffffu, mine.ok), full = __reduce_add_sync(0xffffffffu, mine.full);
    const uint32_t other = __reduce_add_sync(0xffffffffu, mine.exists_or_not_found), mask = (1u << PACKED_BITS) - 1;
    const uint32_t warps = gridDim.x * (blockDim.x / 32);
    if (threadIdx.x % 32 != 0)
        return;
    unsigned long long sum = ok | (unsigned long long)other << PACKED_BITS |
                             (unsigned long long)full << 2 * PACKED_BITS | 1ull << PACKED_ARRIVALS;
    sum += atomicAdd(finish.packed, sum);
    if (sum >> PACKED_ARRIVALS != warps)
        return;
    *finish.packed = 0;
    const bool not_found = counts_not_found(finish.op);
    const unsigned long long others = sum >> PACKED_BITS & mask;
    tell_result(finish, sum & mask, not_found ? 0 : others, not_found ? others : 0, sum >> 2 * PACKED_BITS & mask);
}

/* Adds the counts of all lanes of a warp to those of the call. */
template <cuda_op op> __device__ __forceinline__ void add_counts(const cuda_batch &batch, const lane_counts &mine)
{
    cuda_counts *counts = batch.counts + blockIdx.x % COUNT_COPIES;
    add_count(&counts->ok, mine.ok);
    if (op == OP_FIND) /* finish_counts derives the keys not found */
        return;
    add_count(counts_not_found(op) ? &counts->not_found : &counts->exists, mine.exists_or_not_found);
    add_count(&counts->full, mine.full);
}

/* The end of a kernel: counts, and finishes the call if the kernel should. All threads call this. */
template <cuda_op op>
__device__ __forceinline__ void count_and_finish(const cuda_batch &batch, const cuda_finish &finish,
                                                 const lane_counts &mine)
{
    if (finish.packed != NULL) {
        finish_packed(finish, mine);
        return;
    }
    if (batch.counts != NULL)
        add_counts<op>(batch, mine);
    if (finish.counts != NULL)
        finish_last(finish);
}

/* The last of the part's thread blocks rings its bell. All threads of each block call this. */
__device__ __forceinline__ void ring_last(const cuda_part &part, uint32_t blocks)
{
    __threadfence(); /* orders this thread's answers before the arrival of its block */
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(part.arrived, 1u) == blocks - 1) {
        *part.arrived = 0;
        __threadfence_system(); /* orders the answers of all blocks before the number */
        *(volatile uint32_t *)part.rung = part.number;
    }
}

#endif
