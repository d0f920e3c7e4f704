/* Builds and inserts of multimaps by partition: which batches take this way, and the steps on the host. The batch is
 * split by partition of the directory (cuda_split_passes.cuh), and then one thread block makes each partition with its
 * lists (cuda_multi_build.cu). All other batches go by runs (cuda_multi_insert.cu). */
#include "machines/cuda/core/cuda_heavy.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"
#include "machines/cuda/multi/cuda_multi_build.cuh"
#include "machines/cuda/open/cuda_open_bulk.cuh"

namespace
{

enum {
    LEAST_BY_PARTITION = 1 << 16,
    /* An insert by partition loads and stores the whole directory, and moves all lists that get values. By the bytes
     * moved, at 3 TB/s, this takes 10 ps for each slot and 3 ps for each old value of 4 bytes. A new pair takes 30 ps,
     * as in builds. By runs a pair takes 200 ps, as measured. So one pair for 16 slots pays. One for 32 old values
     * would pay, too. But each insert uses up as much of the heap as it moves, and when the heap is at its end, the
     * whole table moves. With one pair for 8 values, inserts into a table with ample room seldom move it. */
    SLOTS_FOR_A_PAIR = 16,
    VALUES_FOR_A_PAIR = 8
};

/* Whether a batch may go by partition: without statuses, in any order, and with no limit for a list. */
bool may_go_by_partition(const cuda_map_call *call, const loom__multi_view *view)
{
    const loom__batch *batch = &call->batch;
    return batch->write == LOOM__WRITE_KEEP && batch->status == NULL && !call->asks(LOOM_IN_ORDER | LOOM_DIRECTLY) &&
           (batch->n >= LEAST_BY_PARTITION || call->asks(LOOM_BY_PARTITION)) && view->most >= LIST_MOST_VALUES;
}

/* Whether an insert goes by partition: it pays, or is asked for, and the heap surely has room for all lists at new
 * places. No list can become too long then, and the places of a partition fit 32 bits. *before: the table's totals, for
 * which the host waits. */
loom_status adds_by_partition(const cuda_map_call *call, const loom__multi_view *view, loom__multi_totals *before,
                              bool *goes)
{
    const uint64_t n = call->batch.n;
    const bool asked = call->asks(LOOM_BY_PARTITION);
    *goes = false;
    if (multi_is_chain(view) || (!asked && n < bulk_slots(&view->directory) / SLOTS_FOR_A_PAIR))
        return LOOM_OK;
    CUDA_TRY(cudaMemcpyAsync(before, view->lists, sizeof *before, cudaMemcpyDeviceToHost, call->stream));
    CUDA_TRY(cudaStreamSynchronize(call->stream));
    const uint64_t all = before->pairs + n;
    *goes = all <= LIST_MOST_VALUES && multi_room(all) <= view->room - before->used &&
            (asked || n >= before->pairs / VALUES_FOR_A_PAIR);
    return LOOM_OK;
}

/* One thread runs this. If no record spilled, the table begins anew. */
__global__ void begin_build_kernel(const loom__multi_view view, const uint32_t *spilled)
{
    if (*spilled > 0)
        return;
    *view.lists = loom__multi_totals{};
    view.directory.totals->size = 0;
}

/* Builds or, with the totals `before` the call, inserts by partition. *done = false: the split gave up, or some records
 * spilled; the table is unchanged. The host waits once, at the end: the kernels do nothing if records spilled. */
loom_status run_build(cuda_map_call *call, const loom__multi_view *view, const bulk_plan *plan,
                      unsigned char *workspace, const loom__multi_totals *before, bool *done)
{
    const loom__batch *batch = &call->batch;
    const bulk_target target = {NULL, view->directory.seed, view->directory.partitions, call->kind};
    cudaStream_t stream = call->stream;
    const uint32_t *spilled_at = cuda_bulk_spill(call->kind, plan, workspace).spilled;
    uint32_t spilled;
    uint64_t stored;
    CUDA_TRY(split_begin(plan, workspace, stream));
    RETURN_IF_FAILED(cuda_split_items(call, &target, plan, workspace));
    CUDA_TRY(cuda_bulk_split_further(&target, plan, workspace, 0, stream));
    if (before != NULL) {
        moved_pieces *moved = (moved_pieces *)(workspace + cuda_aligned(plan->bytes));
        CUDA_TRY(cuda_multi_add(call->cuda, view, call->kind, plan, workspace, batch->n, before->pairs, moved,
                                call->counts(), stream));
    } else {
        begin_build_kernel<<<1, 1, 0, stream>>>(*view, spilled_at);
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cuda_multi_build(call->cuda, view, call->kind, plan, workspace, call->counts(), stream));
    }
    CUDA_TRY(cuda_launch_finish(cuda_finish_of(call, false), stream));
    CUDA_TRY(cudaMemcpyAsync(&spilled, spilled_at, sizeof spilled, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaMemcpyAsync(&stored, &view->lists->pairs, sizeof stored, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    *done = spilled == 0;
    if (!*done)
        return LOOM_OK;
    loom__batch_goes(batch, LOOM_ROUTE_BY_PARTITION);
    if (batch->keys_refused != NULL)
        *batch->keys_refused = batch->n - (stored - (before != NULL ? before->pairs : 0));
    return cuda_hand_over(batch, &call->arrays, call->ticket, call->place);
}

/* Bytes of the workspace. */
uint64_t partition_bytes(const loom__multi_view *view, const bulk_plan *plan, bool adds)
{
    return adds ? cuda_aligned(plan->bytes) + cuda_multi_moved_bytes(view) : plan->bytes;
}

} // namespace

loom_status cuda_multi_try_partition(cuda_map_call *call, const loom__multi_view *view, bool *done)
{
    const bool adds = !call->batch.replace;
    const uint64_t n = call->batch.n;
    loom__multi_totals before;
    bulk_plan plan;
    bool goes = n <= view->room, heavy;
    *done = false;
    if (!may_go_by_partition(call, view))
        return LOOM_OK;
    if (adds)
        RETURN_IF_FAILED(adds_by_partition(call, view, &before, &goes));
    if (!goes || !cuda_multi_plan_build(call->cuda, view, call->kind, n, &plan))
        return LOOM_OK;
    if (!adds && plan.fine_room > LIST_LARGE_FROM) /* a LARGE list takes more than its values */
        return LOOM_OK;
    const uint64_t spare = plan.fine_room - n / view->directory.partitions;
    RETURN_IF_FAILED(cuda_has_heavy_keys(call->cuda, call->batch.keys, slot_key_bytes(call->kind), n, 2 * spare,
                                         call->stream, &heavy));
    if (heavy)
        return LOOM_OK;
    const cuda_workspace own =
        cuda_take_workspace(&call->cuda->base, partition_bytes(view, &plan, adds), call->batch.stream, &call->batch);
    if (own.at == NULL)
        return LOOM_OK;
    return cuda_with_ticket(call, &own,
                            [&] { return run_build(call, view, &plan, own.at, adds ? &before : NULL, done); });
}

uint64_t cuda_multi_partition_bytes(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                                    uint64_t n)
{
    bulk_plan plan;
    return cuda_multi_plan_build(cuda, view, pairs, n, &plan) ? partition_bytes(view, &plan, true) : 0;
}
