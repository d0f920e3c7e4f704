/* Finds the codes of a partition's cells, one thread block per partition, from all of its records at once
 * (perfect_codes.h). All threads wait for each other between steps:
 *   1. count     each record adds one to a counter of its cell, for both Φ.
 *   2. sort      cells by size, largest first: the largest are the hardest to place.
 *   3. deal      each cell takes the Δ, with Φ = 0, whose buckets are emptiest by the sum of their squared fills. Each
 *                Δ costs one dot product of packed bytes. 256 cells choose at once, and some choose the same bucket: at
 *                load 0.9 some 60 keys of 12,400 are then too many. If cells chose one after the other, it would be 20.
 *   4. repair    2 to 3 rounds at load 0.9, 4 at 0.95, 8 at 0.97; at most MOST_ROUNDS. If at most FEW_TROUBLES
 *                threads still see an overfull bucket, the block starts again with another salt; it tries at most
 *                MOST_SALTS. At load 0.9 this happens in none or one partition of a table of 10^8 keys.
 * Keys that are still too many at the end are left over when the partition is written, and are inserted as ordinary
 * keys. Inserting one key costs a twentieth of the time of the whole build, since the steps of an insertion run one
 * after the other. Partitions that cannot be counted are *spoiled*: all their records are left over.
 *
 * Time, 10^8 pairs of 4 + 4 bytes at load 0.9 on an H200: a block executes about 149,000 warp instructions: 21,000 in
 * step 1, 8,000 in step 2, 28,000 in step 3 and 91,000 in step 4. Of the last, 51,000 list suspects in 3.5 rounds.
 * Warps wait only for their turn to issue. Registers for five blocks on a multiprocessor are better than for four; more
 * blocks do not fit shared memory. The loop that lists suspects costs twice as much if lanes run ahead of others, so
 * lanes must wait for each other there. */
#define CUDA_LANES        4
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_repair.h"
#include "machines/cuda/perfect/cuda_perfect_bulk.cuh"

namespace
{

enum {
    UNROLLED = 4,
    MOST_ROUNDS = 16,
    MOST_SALTS = 3,
    FEW_TROUBLES = 4, /* if no more threads see overfull buckets, another salt may help; more: probably equal keys */
    CLASSES = 16      /* of cells, by size; cells of class 0 have this many keys or more */
};

__host__ __device__ inline uint32_t suspects_in(uint32_t subrange)
{
    return subrange <= PERFECT_PREFERRED_SUBRANGE ? 384 : 512;
}

/* ---- 1: count ---- */

/* All threads: count the records. Returns how many this thread has counted. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t count_records(const perfect_codes &block, loom__seed seed,
                                                  const typename bulk_columns<kind>::head *heads, uint32_t count)
{
    typedef typename bulk_columns<kind>::head head;
    constexpr uint32_t at_once = 16 / sizeof(head);
    uint32_t counted = 0;
    for (uint32_t first = 0; first < count; first += blockDim.x * at_once * UNROLLED) {
        head some[UNROLLED][at_once];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            const uint32_t i = first + (k * blockDim.x + threadIdx.x) * at_once;
            if (i < count)
                *(uint4 *)some[k] = bulk_load_heads(heads, i, count);
        }
#pragma unroll
        for (int k = 0; k < UNROLLED; k++)
#pragma unroll
            for (uint32_t j = 0; j < at_once; j++)
                if (first + (k * blockDim.x + threadIdx.x) * at_once + j < count) {
                    const uint64_t key = bulk_columns<kind>::key_of(some[k][j]);
                    perfect_count_key(
                        &block,
                        perfect_place_of((uint32_t)loom__hash_key(key, slot_key_bytes(kind), seed), block.words));
                    counted++;
                }
    }
    return counted;
}

/* ---- 2: sort ---- */

/* [words * 16] cells, the largest first. The array lies in the memory of bids and suspects. */
__device__ __forceinline__ uint16_t *order_of(const perfect_codes &block)
{
    return (uint16_t *)block.bids;
}

/* All threads: sort the cells that have keys, the largest first. Returns their number. `places` has CLASSES + 1
 * words. */
__device__ __forceinline__ uint32_t sort_cells(const perfect_codes &block, uint32_t *places)
{
    const uint32_t cells = block.words * 16, lane = threadIdx.x % 32;
    if (threadIdx.x <= CLASSES)
        places[threadIdx.x] = 0;
    __syncthreads();
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t first = threadIdx.x - lane; first < cells; first += blockDim.x) {
            const uint32_t cell = first + lane,
                           size = cell < cells ? perfect_sum_of_counters(*perfect_counts_of(&block, 0, cell)) : 0;
            const uint32_t which = size < CLASSES ? CLASSES - size : 0; /* CLASSES: no keys */
            const uint32_t peers = __match_any_sync(0xffffffffu, which), before = __popc(peers & ((1u << lane) - 1));
            uint32_t at = 0;
            if (before == 0)
                at = atomicAdd(&places[which], (uint32_t)__popc(peers));
            at = __shfl_sync(0xffffffffu, at, __ffs((int)peers) - 1);
            if (pass == 1 && which < CLASSES)
                order_of(block)[at + before] = (uint16_t)cell;
        }
        __syncthreads();
        if (pass == 0 && threadIdx.x < 32) {
            const uint32_t mine = lane < CLASSES ? places[lane] : 0;
            uint32_t sum = mine;
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const uint32_t other = __shfl_up_sync(0xffffffffu, sum, distance);
                sum += lane >= (uint32_t)distance ? other : 0;
            }
            if (lane < CLASSES)
                places[lane] = sum - mine;
        }
        __syncthreads();
    }
    return places[CLASSES - 1]; /* the end of the last class that has keys */
}

/* ---- 3: deal ---- */

template <uint32_t slots> __device__ __forceinline__ uint32_t badness(uint32_t fill)
{
    constexpr uint32_t scale = slots == 8 ? 0 : 2; /* squares of 16 would not fit a byte */
    return fill >= slots ? 255 : fill * fill >> scale;
}

/* Whether one of the 4-bit counters is above 8. */
__device__ __forceinline__ bool has_above_8(uint32_t counts)
{
    const uint32_t rest = (counts & 0x77777777u) + 0x77777777u; /* highest bit: a lower bit of the counter is set */
    return (rest & counts & 0x88888888u) != 0;
}

template <uint32_t slots> __device__ __forceinline__ void deal_cell(const perfect_codes &block, uint32_t cell)
{
    uint32_t counts = *perfect_counts_of(&block, 0, cell), mapping = 0;
    if (slots == 8 && has_above_8(counts)) { /* no Δ would work; happens to one cell in ten million */
        counts = *perfect_counts_of(&block, 1, cell);
        mapping = 1;
    }
    uint32_t buckets[PERFECT_SUBRANGES];
    perfect_eight bad = {};
#pragma unroll
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++) {
        buckets[i] = perfect_bucket_in(cell, block.salt, mapping, i, block.subrange);
        perfect_put_byte(&bad, i, badness<slots>(perfect_fill(&block, buckets[i])));
    }
    const perfect_eight keys = perfect_eight_of(counts);
    uint32_t best = 0xffffffffu;
#pragma unroll
    for (uint32_t offset = 0; offset < PERFECT_SUBRANGES; offset++) {
        const perfect_eight met = perfect_rotated_back(bad, offset);
        const uint32_t cost = __dp4a(keys.low, met.low, __dp4a(keys.high, met.high, 0u));
        if (offset < 7 || mapping == 0)                          /* the last code is the stash's */
            best = min(best, cost << 3 | ((offset - cell) & 7)); /* ties fall differently for each cell */
    }
    const uint32_t code = ((best + cell) & 7) | mapping << 3, placed = perfect_rotated_counts(counts, code);
    block.codes[cell] = (uint8_t)code;
#pragma unroll
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++)
        if (perfect_nibble(placed, i) != 0)
            (void)perfect_add_fill(&block, buckets[i], perfect_nibble(placed, i));
}

/* ---- All of it ---- */

template <loom__slot_kind kind> struct codes_work {
    loom__perfect_view view;
    bulk_regions<kind> records;
    uint8_t *spoiled; /* [partitions] */
};

enum { SPOILED = 0xffffffff }; /* in place of the number of threads that see overfull buckets */

/* All threads: find codes with the block's salt. Returns how many threads see overfull buckets, or SPOILED. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t find_codes(const codes_work<kind> &work, const perfect_codes &block,
                                               uint32_t partition, uint32_t *places)
{
    constexpr uint32_t slots = PERFECT_LINE_BYTES / bulk_columns<kind>::slot_stride;
    const uint32_t count = work.records.count(partition);
    if (count > 2 * perfect_buckets(block.subrange) * slots)
        return SPOILED;
    perfect_clear_counters(&block);
    __syncthreads();
    const uint32_t mine = count_records<kind>(block, work.view.seed, work.records.at(partition).heads, count);
    __syncthreads();
    if (!perfect_all_counted(&block, mine, &places[0]))
        return SPOILED;
    __syncthreads();
    const uint32_t used = sort_cells(block, places);
    for (uint32_t i = threadIdx.x; i < used; i += blockDim.x)
        deal_cell<slots>(block, order_of(block)[i]);
    __syncthreads();
    return perfect_repair_codes(kind, &block, lane_own_group(), NULL, 0, MOST_ROUNDS);
}

/* All threads: find codes with other salts, until one works. Returns that salt, or the last one. Not inlined, since it
 * is rarely called; and here the salt is not a literal. */
template <loom__slot_kind kind>
__device__ __noinline__ uint32_t find_codes_again(const codes_work<kind> &work, perfect_codes block, uint32_t partition,
                                                  uint32_t *places)
{
    for (;;) {
        block.salt++;
        __syncthreads();
        if (find_codes<kind>(work, block, partition, places) == 0 || block.salt + 1 == MOST_SALTS)
            return block.salt;
    }
}

template <loom__slot_kind kind>
__global__ void __maxnreg__(CODES_REGISTERS) codes_kernel(const __grid_constant__ codes_work<kind> work)
{
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ uint32_t places[CLASSES + 1];
    __shared__ perfect_round round;
    const uint32_t words = work.view.words, partition = blockIdx.x;
    const perfect_codes block = perfect_lay_out_codes(memory, &round, work.view.subrange, words, 0,
                                                      suspects_in(work.view.subrange), lane_own_team());
    if (work.records.gave_up())
        return;
    const uint32_t troubles = find_codes<kind>(work, block, partition, places);
    uint64_t salt = 0;
    if (troubles > 0 && troubles <= FEW_TROUBLES)
        salt = find_codes_again<kind>(work, block, partition, places);
    __syncthreads();
    uint64_t *to = work.view.codes + (uint64_t)partition * words;
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
        to[i] = troubles == SPOILED ? 0 : perfect_packed_codes(&block, i) | salt << 60;
    if (threadIdx.x == 0) {
        work.spoiled[partition] = troubles == SPOILED;
        work.view.marks[partition] = PERFECT_UNMARKED;
    }
}

} // namespace

uint32_t cuda_perfect_codes_bytes(const loom__perfect_view *view)
{
    return perfect_codes_bytes(view->subrange, view->words, suspects_in(view->subrange));
}

cudaError_t cuda_perfect_bulk_codes(const cuda_state *cuda, const loom__perfect_view *view,
                                    const perfect_bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    const uint32_t shared = cuda_perfect_codes_bytes(view), threads = codes_threads(shared);
    uint8_t *spoiled = cuda_perfect_leftovers(plan, workspace).spoiled;
    cudaError_t error = cudaSuccess;
#define CALL(kind)                                                                                      \
    error =                                                                                             \
        launch_shared(codes_kernel<kind>, perfect_most_shared(cuda), view->partitions, threads, shared, \
                      {*view, split_fine_regions<bulk_columns<kind>>(&plan->split, workspace, 0), spoiled}, stream)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return error;
}
