/* Whole tables with a board of tickets: clear, survey, depths of partitions, upkeep, pairs copied out. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/tickets/ticket_upkeep.h"
#include "machines/cuda/core/cuda_retrieve.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/tickets/cuda_board.cuh"

namespace
{

enum { THREADS = 256 };

uint64_t slots_of(const loom__ticket_view *view)
{
    return (uint64_t)view->partitions * view->slots;
}

/* ---- depths ---- */

/* A lane works on one row. */
__global__ void __launch_bounds__(THREADS) depths_kernel(const __grid_constant__ loom__ticket_view view)
{
    const uint64_t number = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint32_t partition = (uint32_t)(number / view.slots);
    if (partition >= view.partitions)
        return;
    const uint32_t depth = ticket_depth_of(&view, partition, (uint32_t)(number % view.slots));
    if (depth > 0)
        atomicMax(&view.depths[partition], depth);
}

/* ---- survey ---- */

__device__ __forceinline__ void add_sums(ticket_sums *to, const ticket_sums &from)
{
    add_to(&to->size, from.size);
    add_to(&to->displaced, from.displaced);
    add_to(&to->accesses, from.accesses);
    keep_larger(&to->fullest, from.fullest);
    keep_larger(&to->longest, from.longest);
    keep_larger(&to->lowest_bad_inverted, from.lowest_bad_inverted);
    add_to(&to->miss_1024ths, from.miss_1024ths);
}

/* A block works on one partition, a lane on one slot at a time. */
__global__ void __launch_bounds__(THREADS)
    survey_kernel(const __grid_constant__ loom__ticket_view view, ticket_sums *total)
{
    __shared__ ticket_sums block;
    __shared__ uint32_t free_tickets;
    ticket_sums own = {};
    uint32_t own_free = 0;
    if (threadIdx.x == 0) {
        block = ticket_sums{};
        free_tickets = 0;
    }
    __syncthreads();
    for (uint32_t slot = threadIdx.x; slot < view.slots; slot += THREADS)
        own_free += ticket_survey_slot(&view, blockIdx.x, slot, &own);
    add_sums(&block, own);
    atomicAdd(&free_tickets, own_free);
    __syncthreads();
    if (threadIdx.x == 0) {
        ticket_survey_end(&view, blockIdx.x, free_tickets, &block);
        add_sums(total, block);
    }
}

/* ---- upkeep ---- */

/* A warp works on one partition. All lanes count; if the partition is worn, one of them puts it in order. */
__global__ void __launch_bounds__(32) upkeep_kernel(const __grid_constant__ loom__ticket_view view)
{
    const uint32_t retired =
        __reduce_add_sync(CUDA_FULL_MASK, (uint32_t)ticket_count(&view, blockIdx.x, threadIdx.x, 32, TICKET_AVAILABLE));
    if (threadIdx.x == 0 && ticket_is_worn(&view, retired))
        ticket_put_in_order(&view, blockIdx.x);
}

/* ---- retrieve ---- */

/* The table as cuda_retrieve.cuh wants it: each ticket is a bucket with one slot. */
struct board_slots {
    loom__ticket_view view;
    uint32_t partitions, buckets, slots;
};

board_slots slots_to_retrieve(const loom__ticket_view *view)
{
    return {*view, view->partitions, view->slots, 1};
}

__device__ __forceinline__ int cuda_slot_holds(const board_slots &table, uint32_t partition, uint32_t bucket, uint32_t,
                                               uint64_t *, uint64_t *)
{
    return (ticket_load(&table.view, partition, bucket) & TICKET_STATE) == TICKET_ACCESS;
}

__global__ void __launch_bounds__(RETRIEVE_THREADS)
    count_kernel(const __grid_constant__ board_slots table, const loom__position from, unsigned long long *counts)
{
    count_pairs(table, from, counts);
}

__global__ void __launch_bounds__(RETRIEVE_THREADS)
    list_kernel(const __grid_constant__ board_slots table, const loom__position from, const unsigned long long *offsets,
                uint64_t *rows, uint64_t room, retrieve_end *end)
{
    visit_pairs(table, from, offsets, room, end,
                [&](uint64_t rank, uint32_t partition, uint32_t slot, uint32_t, uint64_t, uint64_t) {
                    rows[rank] = loom__multiply_wide(partition, table.buckets) + slot;
                });
}

cudaError_t launch_copy(const loom__ticket_view *view, const retrieve_window &of, cudaStream_t stream)
{
    list_kernel<<<of.segments, RETRIEVE_THREADS, 0, stream>>>(slots_to_retrieve(view), of.from, of.counts, of.rows,
                                                              of.room, of.end);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(
        cuda_gather_rows(of.keys, view->rows, view->key_bytes, view->stride, of.rows, of.count, stream));
    if (of.values == NULL)
        return cudaSuccess;
    return cuda_gather_rows(of.values, view->values, view->value_bytes, view->stride, of.rows, of.count, stream);
}

} // namespace

/* Rows of free tickets may hold anything, except memory of others: files hold them, too. */
loom_status cuda_board_clear(loom__machine *machine, const void *any_view, loom_stream given)
{
    const loom__ticket_view *view = board_of(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(
        cudaMemsetAsync(view->board, 0xff, view->partitions * view->partition_words * sizeof *view->board, stream));
    CUDA_TRY(cudaMemsetAsync(view->rows, 0, slots_of(view) * view->stride, stream));
    CUDA_TRY(cudaMemsetAsync(view->depths, 0, view->partitions * sizeof *view->depths, stream));
    CUDA_TRY(cudaMemsetAsync(&view->totals->size, 0, sizeof view->totals->size, stream));
    return LOOM_OK;
}

/* Depths follow from the rows. A table without keys may have memory that nobody has written yet. */
loom_status cuda_board_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                    loom_stream given)
{
    const loom__ticket_view *view = board_of(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(view->totals, totals, sizeof *totals, cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaMemsetAsync(view->depths, 0, view->partitions * sizeof *view->depths, stream));
    if (totals->size > 0) {
        depths_kernel<<<(unsigned)((slots_of(view) + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*view);
        CUDA_TRY(cudaGetLastError());
    }
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

loom_status cuda_board_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream)
{
    const loom__ticket_view *view = board_of(any_view);
    ticket_sums sums;
    RETURN_IF_FAILED(
        cuda_sum_up(machine, &sums, stream, [&](const cuda_stage *, ticket_sums *on_device, cudaStream_t in) {
            survey_kernel<<<view->partitions, THREADS, 0, in>>>(*view, on_device);
            return LOOM_OK;
        }));
    *survey = ticket_survey_of(view, &sums);
    return LOOM_OK;
}

loom_status cuda_board_upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream)
{
    const loom__ticket_view *view = board_of(any_view);
    (void)sweep;
    ON_DEVICE((cuda_state *)machine);
    upkeep_kernel<<<view->partitions, 32, 0, (cudaStream_t)stream>>>(*view);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

loom_status cuda_board_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                void *values, uint64_t room, uint64_t *got, loom_stream given)
{
    const loom__ticket_view *view = board_of(any_view);
    cudaStream_t stream = (cudaStream_t)given;
    const retrieve_shape shape = {slots_of(view), 1, true, view->key_bytes, view->value_bytes};
    return cuda_retrieve_by((cuda_state *)machine, shape, position, keys, values, room, got, stream,
                            [&](const retrieve_window &of) {
                                count_kernel<<<of.segments, RETRIEVE_THREADS, 0, stream>>>(slots_to_retrieve(view),
                                                                                           of.from, of.counts);
                            },
                            [&](const retrieve_window &of) { return launch_copy(view, of, stream); });
}

loom_status cuda_board_count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                                      uint64_t *accesses, loom_stream stream)
{
    const loom__ticket_view *view = board_of(any_view);
    return cuda_count_accesses(machine, keys, view->key_bytes, n, accesses, stream,
                               [&](const void *at, uint64_t count, unsigned long long *sum, cudaStream_t in) {
                                   return cuda_board_accesses(view, at, count, sum, in);
                               });
}
