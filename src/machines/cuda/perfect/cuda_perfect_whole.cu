/* Reads or writes whole perfect tables: clear, erase_if, survey, refill. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_room.h"
#include "engines/perfect/perfect_survey.h"
#include "machines/cuda/core/cuda_erase_if.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/perfect/cuda_perfect.cuh"

namespace
{

enum { THREADS = 256, REFILL_ITEMS = 1 << 22 };

/* ---- clear ---- */

/* One block for each partition. */
template <loom__slot_kind kind> __global__ void __launch_bounds__(THREADS) clear_kernel(const loom__perfect_view view)
{
    const perfect_owner owner = perfect_own(&view, blockIdx.x, lane_own_team(), lane_own_group(), 1);
    perfect_empty_partition(kind, &owner, 0);
    if (threadIdx.x == 0)
        view.marks[blockIdx.x] = PERFECT_UNMARKED;
}

/* ---- erase_if ---- */

/* Erasures leave codes as they are (P3). The wear is the number of erased keys. */
struct perfect_erasures {
    loom__perfect_view view;

    template <loom__slot_kind kind>
    __device__ __forceinline__ uint32_t slot_emptied(uint32_t, uint32_t, uint32_t, uint64_t) const
    {
        return 1;
    }
    __device__ __forceinline__ void partition_emptied(uint32_t partition, uint32_t wear) const
    {
        perfect_repay(1, &view, partition, wear);
    }
};

/* ---- survey ---- */

/* One block for each partition. */
template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS) survey_kernel(const loom__perfect_view view, perfect_sums *total)
{
    __shared__ perfect_sums block;
    perfect_sums own = {};
    const lane_group alone = lane_own_group();
    const uint32_t buckets = perfect_buckets(view.subrange);
    const uint64_t *words = view.codes + (uint64_t)blockIdx.x * view.words;
    if (threadIdx.x == 0)
        block = perfect_sums{};
    __syncthreads();
    for (uint32_t number = threadIdx.x; number < buckets; number += THREADS)
        perfect_survey_bucket(kind, alone, &view, blockIdx.x, number, &own);
    const uint64_t first = ~((uint64_t)blockIdx.x * buckets);
    for (uint32_t i = threadIdx.x; i < view.words; i += THREADS) /* P3; reported at the partition's first bucket */
        if (perfect_salt(words[i]) != perfect_salt(words[0]) && first > own.lowest_bad_inverted)
            own.lowest_bad_inverted = first;
    add_to(&block.size, own.size);
    add_to(&block.stashed, own.stashed);
    keep_larger(&block.lowest_bad_inverted, own.lowest_bad_inverted);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    add_to(&total->size, block.size);
    add_to(&total->stashed, block.stashed);
    keep_larger(&total->fullest, block.size);
    keep_larger(&total->lowest_bad_inverted, block.lowest_bad_inverted);
}

/* ---- refill ---- */

/* Gathers the pairs in a run of slots, in no particular sequence. One lane for each slot. */
template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS) gather_kernel(const loom__table_slots given, uint64_t first, uint64_t count,
                                                         void *keys, void *values, uint32_t *length)
{
    loom__table_slots table = given;
    table.kind = kind; /* a literal for the compiler */
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint32_t lane = threadIdx.x % 32;
    uint64_t key = 0, value = 0;
    bool holds = false;
    if (i < count) {
        const uint64_t bucket = (first + i) / table.slots;
        holds = loom__slot_holds(&table, (uint32_t)(bucket / table.buckets), (uint32_t)(bucket % table.buckets),
                                 (uint32_t)((first + i) % table.slots), &key, &value) != 0;
    }
    const uint32_t holding = __ballot_sync(CUDA_FULL_MASK, holds);
    uint32_t at = 0;
    if (lane == 0 && holding != 0)
        at = atomicAdd(length, (uint32_t)__popc(holding));
    at = __shfl_sync(CUDA_FULL_MASK, at, 0) + __popc(holding & ((1u << lane) - 1));
    if (!holds)
        return;
    put_number(slot_key_bytes(kind), keys, at, key);
    put_number(slot_value_bytes(kind), values, at, value);
}

/* The beginning of a refill's memory; keys, values and lists follow. */
struct refill_memory {
    cuda_counts counts[COUNT_COPIES];
    uint32_t length; /* pairs of this chunk */
};

loom_status refill(cuda_state *cuda, const loom__perfect_view *from, const loom__perfect_view *to,
                   const cuda_perfect_plan *plan, unsigned char *memory, uint64_t *refused, cudaStream_t stream)
{
    const loom__table_slots table = perfect_table_slots(from);
    const uint64_t slots = (uint64_t)table.partitions * table.buckets * table.slots;
    const uint32_t key_bytes = slot_key_bytes(table.kind), value_bytes = slot_value_bytes(table.kind);
    refill_memory *shared = (refill_memory *)memory;
    unsigned char *keys = memory + cuda_aligned(sizeof *shared), *values = keys + cuda_aligned(plan->items * key_bytes);
    unsigned char *behind = values + cuda_aligned(plan->items * value_bytes);
    cuda_perfect_lists lists;
    cuda_counts counts[COUNT_COPIES];
    CUDA_TRY(cudaMemsetAsync(shared, 0, sizeof *shared, stream));
    CUDA_TRY(cuda_perfect_open_lists(cuda, to, plan, behind, &lists, stream));
    lists.length = &shared->length;
    lists.most_pending = 0; /* pairs arrive partition by partition, many for each */
    for (uint64_t first = 0; first < slots; first += plan->items) {
        const uint64_t count = slots - first < plan->items ? slots - first : plan->items;
        const unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
        cuda_batch batch = {};
        batch.keys = keys;
        batch.values = value_bytes != 0 ? values : NULL;
        batch.n = count;
        batch.tile = cuda_tile_of(cuda, count);
        batch.counts = shared->counts;
        CUDA_TRY(cudaMemsetAsync(&shared->length, 0, sizeof shared->length, stream));
#define CALL(kind) \
    gather_kernel<kind><<<blocks, THREADS, 0, stream>>>(table, first, count, keys, values, &shared->length)
        SLOT_FOR_KIND(table.kind, CALL)
#undef CALL
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cuda_perfect_insert(to, &batch, OP_KEEP, &lists, stream));
    }
    CUDA_TRY(cudaMemcpyAsync(counts, shared->counts, sizeof counts, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    *refused = 0;
    for (int i = 0; i < COUNT_COPIES; i++)
        *refused += counts[i].full;
    return LOOM_OK;
}

} // namespace

loom_status cuda_perfect_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                      loom_stream given)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(cuda_check_bytes(view));
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(view->totals, totals, sizeof *totals, cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaMemsetAsync(view->marks, PERFECT_UNMARKED, view->partitions * sizeof *view->marks, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

loom_status cuda_perfect_clear(loom__machine *machine, const void *any_view, loom_stream given)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(cuda_check_bytes(view));
    ON_DEVICE((cuda_state *)machine);
#define CALL(kind) clear_kernel<kind><<<view->partitions, THREADS, 0, stream>>>(*view)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemsetAsync(&view->totals->size, 0, sizeof view->totals->size, stream));
    return LOOM_OK;
}

loom_status cuda_perfect_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                                loom_stream stream)
{
    const loom__perfect_view *from = static_cast<const loom__perfect_view *>(any_from);
    const loom__perfect_view *to = static_cast<const loom__perfect_view *>(any_to);
    cuda_state *cuda = (cuda_state *)machine;
    const loom__slot_kind kind = (loom__slot_kind)from->kind;
    const uint64_t slots = (uint64_t)from->partitions * perfect_buckets(from->subrange) * perfect_slots(kind);
    cuda_perfect_plan plan;
    cuda_workspace own;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_perfect_clear(machine, to, stream));
    RETURN_IF_FAILED(cuda_perfect_take_lists(machine, to, slots < REFILL_ITEMS ? slots : (uint64_t)REFILL_ITEMS,
                                             cuda_aligned(sizeof(refill_memory)) + 512,
                                             slot_key_bytes(kind) + slot_value_bytes(kind), NULL, stream, &plan, &own));
    loom_status status = refill(cuda, from, to, &plan, own.at, refused, (cudaStream_t)stream);
    cuda_give_workspace(machine, &own, stream);
    return status;
}

loom_status cuda_perfect_erase_if(loom__machine *machine, const void *any_view, const loom__value_range *range,
                                  loom_result *result, loom_stream stream)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    return cuda_erase_if<perfect_erasures>(machine, view, perfect_table_slots(view), range, result, stream);
}

loom_status cuda_perfect_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    perfect_sums sums;
    const loom_status status =
        cuda_sum_up(machine, &sums, stream, [&](const cuda_stage *, perfect_sums *on_device, cudaStream_t in) {
#define CALL(kind) survey_kernel<kind><<<view->partitions, THREADS, 0, in>>>(*view, on_device)
            SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
            return LOOM_OK;
        });
    RETURN_IF_FAILED(status);
    *survey = perfect_survey_of(&sums);
    return LOOM_OK;
}
