/* Bulk calls on tables with a board of tickets. Their keys go to the table one by one; only calls in order have further
 * steps (cuda_rows_in_order.cu). cuda_open.cu tells more about calls. */
#include "machines/cuda/rows/cuda_rows_order.cuh"
#include "machines/cuda/tickets/cuda_board.cuh"

namespace
{

cudaError_t launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    return cuda_board_run(board_of(call->view), batch, call->op, call->finish, stream);
}

cuda_map_call call_on(loom__machine *machine, const void *any_view, const loom__batch *batch, cuda_op op)
{
    const loom__ticket_view *view = board_of(any_view);
    cuda_map_call call = cuda_map_call_of(machine, view, SLOT_TAG, view->totals, batch, op, launch);
    call.row_key_bytes = view->key_bytes;
    call.row_value_bytes = view->value_bytes;
    call.may_finish = true;
    return call;
}

loom_status run(loom__machine *machine, const void *view, const loom__batch *batch, cuda_op op)
{
    cuda_map_call call = call_on(machine, view, batch, op);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    return cuda_run_call(&call);
}

loom_status find(loom__machine *machine, const void *view, const loom__batch *batch)
{
    return run(machine, view, batch, OP_FIND);
}

loom_status write(loom__machine *machine, const void *view, const loom__batch *batch)
{
    return run(machine, view, batch, (cuda_op)batch->write);
}

/* ---- insertions in bulk ---- */

cudaError_t insert_kept(const void *view, const cuda_batch *batch, cudaStream_t stream)
{
    return cuda_board_run(board_of(view), batch, OP_KEEP, NULL, stream);
}

cudaError_t locate(const void *view, const void *keys, uint64_t n, uint64_t *slots, cudaStream_t stream)
{
    return cuda_board_locate(board_of(view), keys, n, slots, stream);
}

cuda_ordered_table ordered(const void *any_view)
{
    const loom__ticket_view *view = board_of(any_view);
    const uint64_t slots = (uint64_t)view->partitions * view->slots;
    return {view, slots, view->values, view->stride, view->value_bytes, NULL, insert_kept, locate, cuda_board_clear};
}

loom_status insert_bulk(loom__machine *machine, const void *view, const loom__batch *batch)
{
    cuda_map_call call = call_on(machine, view, batch, (cuda_op)batch->write);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    RETURN_ERROR_IF(batch->captured, LOOM_UNSUPPORTED,
                    "the stream is being captured into a graph, which cannot hold builds of tables with tickets, or "
                    "insertions in order; make the call outside of the capture");
    if (call.goes_in_order() && batch->n > 0) {
        const cuda_ordered_table table = ordered(view);
        return cuda_rows_insert_in_order(&call, &table);
    }
    RETURN_IF_FAILED(cuda_try_stage(&call));
    if (call.batch.replace) {
        RETURN_IF_FAILED(cuda_board_clear(machine, view, batch->stream));
        call.batch.replace = 0;
    }
    return cuda_run_call(&call);
}

uint64_t bulk_bytes(loom__machine *machine, const void *view, uint64_t n, uint32_t flags, int with_status)
{
    const cuda_ordered_table table = ordered(view);
    (void)with_status;
    return flags & LOOM_IN_ORDER && n > 0 ? cuda_rows_order_bytes((const cuda_state *)machine, &table, n) : 0;
}

/* ---- growth ---- */

loom_status refill(loom__machine *machine, const void *from, const void *to, uint64_t *refused, loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(cuda_board_clear(machine, to, given));
    ON_DEVICE((cuda_state *)machine);
    /* The new table's size is not set yet. Until then, its field counts the refused keys. */
    unsigned long long *counter = (unsigned long long *)&board_of(to)->totals->size;
    CUDA_TRY(cuda_board_move(board_of(from), board_of(to), counter, stream));
    CUDA_TRY(cudaMemcpyAsync(refused, counter, sizeof *refused, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

} // namespace

const loom__map_kernels cuda_tickets_kernels = {
    cuda_board_clear,
    cuda_board_reset_totals,
    find,
    write,
    insert_bulk,
    bulk_bytes,
    NULL, /* bulk_pays */
    refill,
    cuda_board_retrieve,
    cuda_board_survey,
    cuda_board_upkeep,
    NULL, /* fold_size: users' kernels cannot write */
    cuda_board_count_accesses,
    NULL, /* erase_if: the core's own way */
    NULL, /* find_all, erase_pairs: multimaps */
    NULL,
    0,
    NULL, /* host_array_bytes: rows pass through staging buffers */
    NULL, /* zero_free: kernels take no memory */
};
