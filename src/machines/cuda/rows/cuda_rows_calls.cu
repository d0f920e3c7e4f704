/* Bulk calls on tables with rows. Their keys go to the table one by one; only calls in order have further steps
 * (cuda_rows_in_order.cu). cuda_open.cu tells more about calls. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"

namespace
{

const loom__rows_view *rows_of(const void *view)
{
    return static_cast<const loom__rows_view *>(view);
}

/* A lookup in any table with rows. Where values alone are strings, they are found as references of rows. */
cudaError_t launch_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                        cudaStream_t stream)
{
    if (view->variable & LOOM__VARIABLE_KEYS)
        return cuda_strings_find(view, batch, finish, stream);
    RETURN_IF_CUDA_FAILED(cuda_rows_find(view, batch, finish, stream));
    return view->variable != 0 && batch->found_values != NULL
               ? cuda_resolve_strings(batch->found_values, batch->n, view->heap, stream)
               : cudaSuccess;
}

cudaError_t launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    return call->op == OP_FIND ? launch_find(rows_of(call->view), batch, call->finish, stream)
                               : cuda_rows_write(rows_of(call->view), batch, call->op, call->finish, stream);
}

/* Whether rows can be reached in several ways. */
bool has_routes(const loom__rows_view *rows, const loom__batch *batch)
{
    return rows->in_host_memory && rows->variable == 0 && !batch->captured;
}

cuda_map_call call_on(loom__machine *machine, const void *view, const loom__batch *batch, cuda_op op)
{
    const loom__rows_view *rows = rows_of(view);
    cuda_map_call call = cuda_map_call_on(machine, &rows->lines, batch, op, launch);
    call.row_key_bytes = rows->key_bytes;
    call.row_value_bytes = rows->value_bytes;
    call.may_finish = op == OP_FIND || rows->variable == 0; /* strings that are too long have a count of their own */
    if (has_routes(rows, batch)) {
        call.launch = cuda_rows_by_route;
        call.may_finish = false;
        call.one_at_a_time = true;
    }
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

/* Runs body(), a call that inserts or updates. Then tells which rows were refused for lack of bytes, if the caller
 * asks. */
template <class body_type>
loom_status count_no_bytes(loom__machine *machine, const void *view, const loom__batch *batch, body_type body)
{
    loom__string_totals *totals = rows_of(view)->strings;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    uint64_t told[3];
    static_assert(sizeof told == offsetof(loom__string_totals, padding) - offsetof(loom__string_totals, refused_rows),
                  "three numbers");
    if (rows_of(view)->variable == 0 || batch->no_bytes == NULL)
        return body();
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemsetAsync(&totals->refused_rows, 0, sizeof told, stream));
    RETURN_IF_FAILED(body());
    CUDA_TRY(cudaMemcpyAsync(told, &totals->refused_rows, sizeof told, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    *batch->no_bytes = {told[0], told[1], told[2]};
    return LOOM_OK;
}

loom_status write(loom__machine *machine, const void *view, const loom__batch *batch)
{
    return count_no_bytes(machine, view, batch, [&] { return run(machine, view, batch, (cuda_op)batch->write); });
}

/* ---- whole tables ---- */

/* Clears all but the rows. */
loom_status clear_tags(loom__machine *machine, const loom__rows_view *view, loom_stream given)
{
    const loom__open_view *lines = &view->lines;
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(cuda_check_bytes(lines));
    ON_DEVICE((cuda_state *)machine);
    static_assert(OPEN_UNMARKED == 0, "one memset: `added`, marks, stale counts and counts of retired slots");
    const size_t state_bytes = (size_t)((char *)(lines->retired_slots + lines->partitions) - (char *)lines->added);
    CUDA_TRY(cudaMemsetAsync(lines->base, 0, (size_t)lines->partitions * lines->partition_bytes, stream));
    CUDA_TRY(cudaMemsetAsync(lines->added, 0, state_bytes, stream));
    CUDA_TRY(cudaMemsetAsync(&lines->totals->size, 0, sizeof lines->totals->size, stream));
    if (view->variable != 0)
        CUDA_TRY(cudaMemsetAsync(view->strings, 0, sizeof *view->strings, stream));
    return LOOM_OK;
}

loom_status clear(loom__machine *machine, const void *view, loom_stream given)
{
    RETURN_IF_FAILED(clear_tags(machine, rows_of(view), given));
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cuda_rows_clear(rows_of(view), (cudaStream_t)given));
    return LOOM_OK;
}

loom_status survey(loom__machine *machine, const void *view, loom__survey *told, loom_stream given)
{
    const loom__rows_view *rows = rows_of(view);
    RETURN_IF_FAILED(cuda_open_survey(machine, view, told, given));
    if (rows->variable == 0)
        return LOOM_OK;
    cudaStream_t stream = (cudaStream_t)given;
    uint64_t used;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(&used, &rows->strings->used, sizeof used, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    told->heap_used = used < rows->heap_room ? used : rows->heap_room;
    return LOOM_OK;
}

loom_status refill(loom__machine *machine, const void *from, const void *to, uint64_t *refused, loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    const bool by_window = rows_of(to)->in_host_memory && rows_of(to)->variable == 0;
    bool moved = false;
    RETURN_IF_FAILED(clear_tags(machine, rows_of(to), given));
    ON_DEVICE((cuda_state *)machine);
    /* The new table's size is not set yet. Until then, its field counts the refused keys. */
    unsigned long long *counter = (unsigned long long *)&rows_of(to)->lines.totals->size;
    if (by_window)
        CUDA_TRY(cuda_rows_move_by_window((cuda_state *)machine, rows_of(from), rows_of(to), counter, &moved, stream));
    if (!moved) {
        CUDA_TRY(cuda_rows_clear(rows_of(to), stream));
        CUDA_TRY(cuda_rows_move(rows_of(from), rows_of(to), counter, stream));
    }
    CUDA_TRY(cudaMemcpyAsync(refused, counter, sizeof *refused, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

/* ---- insertions in bulk ---- */

loom_status insert_directly(cuda_map_call *call)
{
    RETURN_IF_FAILED(cuda_try_stage(call));
    const bool whole = !call->arrays.staged && call->batch.n > 0; /* the work has one launch, which knows the route */
    if (call->batch.replace && whole && has_routes(rows_of(call->view), &call->batch)) {
        RETURN_IF_FAILED(clear_tags(&call->cuda->base, rows_of(call->view), call->stream));
    } else if (call->batch.replace) {
        RETURN_IF_FAILED(clear(&call->cuda->base, call->view, call->stream));
        call->batch.replace = 0;
    }
    return cuda_run_call(call);
}

cudaError_t insert_kept(const void *view, const cuda_batch *batch, cudaStream_t stream)
{
    const loom__rows_view *rows = rows_of(view);
    return cuda_rows_write(rows, batch, OP_KEEP, NULL, stream, (rows->variable & LOOM__VARIABLE_VALUES) != 0);
}

cudaError_t locate(const void *view, const void *keys, uint64_t n, uint64_t *slots, cudaStream_t stream)
{
    return cuda_rows_locate(rows_of(view), keys, n, slots, stream);
}

cuda_ordered_table ordered(const void *view)
{
    const loom__rows_view *rows = rows_of(view);
    const uint64_t slots = (uint64_t)rows->lines.partitions * rows->lines.buckets * open_slots(SLOT_TAG);
    const loom__rows_view *strings = rows->variable & LOOM__VARIABLE_VALUES ? rows : NULL;
    return {view, slots, rows->values, rows->value_stride, rows->value_bytes, strings, insert_kept, locate, clear};
}

loom_status insert_batch(loom__machine *machine, const void *view, const loom__batch *batch)
{
    cuda_map_call call = call_on(machine, view, batch, (cuda_op)batch->write);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    RETURN_ERROR_IF(batch->captured, LOOM_UNSUPPORTED,
                    "the stream is being captured into a graph, which cannot hold builds of tables with rows, or "
                    "insertions in order; make the call outside of the capture");
    if (call.goes_in_order() && batch->n > 0) {
        const cuda_ordered_table table = ordered(view);
        return cuda_rows_insert_in_order(&call, &table);
    }
    return insert_directly(&call);
}

loom_status insert_bulk(loom__machine *machine, const void *view, const loom__batch *batch)
{
    return count_no_bytes(machine, view, batch, [&] { return insert_batch(machine, view, batch); });
}

uint64_t bulk_bytes(loom__machine *machine, const void *view, uint64_t n, uint32_t flags, int with_status)
{
    const cuda_ordered_table table = ordered(view);
    (void)with_status;
    return flags & LOOM_IN_ORDER && n > 0 ? cuda_rows_order_bytes((const cuda_state *)machine, &table, n) : 0;
}

} // namespace

const loom__map_kernels cuda_rows_kernels = {
    clear,
    cuda_open_reset_totals,
    find,
    write,
    insert_bulk,
    bulk_bytes,
    NULL, /* bulk_pays */
    refill,
    cuda_retrieve_from<loom__rows_view, open_rows_table_slots>,
    survey,
    cuda_open_upkeep,
    cuda_open_fold_size,
    cuda_open_count_accesses,
    NULL, /* erase_if: the core's own way */
    NULL, /* find_all, erase_pairs: multimaps */
    NULL,
    0,
    NULL, /* host_array_bytes: rows pass through staging buffers */
    NULL, /* zero_free: kernels take no memory */
};
