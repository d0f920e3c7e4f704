/* Bulk calls on an open table: arrays where kernels can reach them, kernels, results.
 *
 * A call whose arrays are in device or managed memory goes in the caller's stream, and returns before the work is done if its
 * result, too, is where the device can write it. One with host arrays waits for its end; they come in chunks (cuda_call.cu).
 * Only those of a call in order come whole (cuda_in_order.cu). */
#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/open/cuda_open_bulk.cuh"

namespace
{

enum {
    /* From here on going by partition is faster, measured on an H200 (docs/performance.md): this many keys, and into tables
     * that hold keys one for so many slots (at load 0.8 from one for 16 on, at 0.53 from one for 10). */
    LEAST_BY_PARTITION = 1 << 18,
    SLOTS_BY_PARTITION = 10
};

cuda_launch *launcher(const cuda_state *cuda)
{
    switch (cuda->lanes) {
    case 1:
        return cuda_open_launch_1;
    case 4:
        return cuda_open_launch_4;
    case 8:
        return cuda_open_launch_8;
    default:
        return cuda_open_launch_2;
    }
}

/* ---- arrays ---- */

loom_status locate_arrays(const cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                          cuda_call_arrays *arrays)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    return cuda_locate_arrays(cuda, slot_key_bytes(kind), slot_value_bytes(kind), batch, arrays);
}

/* A call whose arrays are staged, for its chunks. */
struct chunked_call {
    const cuda_state *cuda;
    const loom__open_view *view;
    const loom__batch *batch;
    cuda_op op;
    cuda_counts *counts;
    const bulk_plan *plan; /* of a split */
    unsigned char *workspace;
};

cudaError_t work_on_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                          cudaStream_t stream)
{
    const chunked_call *call = (const chunked_call *)argument;
    const cuda_batch batch = cuda_batch_of(call->cuda, at, count, call->batch, call->counts);
    (void)first;
    return launcher(call->cuda)(call->view, &batch, call->op, stream);
}

cudaError_t split_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                        cudaStream_t stream)
{
    const chunked_call *call = (const chunked_call *)argument;
    const cuda_batch batch = cuda_batch_of(call->cuda, at, count, call->batch, NULL);
    const bulk_target target = open_bulk_target(call->view);
    return cuda_bulk_split(&target, &batch, first, call->plan, call->workspace, stream);
}

loom_status run_staged(cuda_state *cuda, const loom__open_view *view, const cuda_call_arrays *arrays,
                       const loom__batch *batch, cuda_op op, cuda_counts *counts, cudaStream_t stream)
{
    chunked_call call = {cuda, view, batch, op, counts, NULL, NULL};
    return cuda_run_staged(cuda, arrays, batch->n, work_on_chunk, &call, true, stream);
}

/* Chunks are split as they arrive, and that is all: there is nothing to bring home. */
loom_status split_staged(cuda_state *cuda, const loom__open_view *view, const cuda_call_arrays *arrays,
                         const loom__batch *batch, const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    chunked_call call = {cuda, view, batch, (cuda_op)batch->write, NULL, plan, workspace};
    return cuda_run_staged(cuda, arrays, batch->n, split_chunk, &call, false, stream);
}

/* ---- calls ---- */

cuda_batch whole_batch(const cuda_state *cuda, const cuda_call_arrays *arrays, const loom__batch *batch,
                       cuda_counts *counts)
{
    void *at[CALL_ARRAYS];
    arrays->addresses(at);
    return cuda_batch_of(cuda, at, batch->n, batch, counts);
}

cuda_finish finish_of(const loom__open_view *view, const loom__batch *batch, cuda_op op, const cuda_slot *slot,
                      cuda_place place)
{
    return {
        slot->counts, &view->totals->size, place == PLACE_PAGEABLE ? slot->result : batch->result, batch->n, op, false,
        NULL};
}

/* What was counted becomes the result, where the caller wants it; waits if it must. */
loom_status finish(const loom__open_view *view, const loom__batch *batch, cuda_op op, const cuda_call_arrays *arrays,
                   cuda_slot *slot, cuda_place place, bool replaced = false)
{
    cuda_finish how = finish_of(view, batch, op, slot, place);
    how.replaced = replaced;
    CUDA_TRY(cuda_launch_finish(how, (cudaStream_t)batch->stream));
    return cuda_hand_over(batch, arrays, slot, place);
}

/* Rows with many equal keys; not done: they had better go to the table one by one. */
loom_status combine(cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, cudaStream_t stream,
                    bool *done)
{
    bulk_plan plan;
    cuda_workspace own = {};
    cuda_combine_way way = batch->status != NULL ? COMBINE_NOT : cuda_open_combine_way(cuda, view, batch, &plan);
    if (way == COMBINE_SPLIT)
        own = cuda_take_workspace(&cuda->base, plan.bytes, stream, NULL); /* calls that accumulate may overlap */
    *done = way == COMBINE_SLICES || own.at != NULL;
    if (!*done)
        return LOOM_OK;
    cudaError_t error = cuda_step(cuda_open_combine(cuda, view, batch, own.at != NULL ? &plan : NULL, own.at, stream));
    cuda_give_workspace(&cuda->base, &own, stream);
    return error == cudaSuccess ? LOOM_OK : cuda_failed(error, "combining rows");
}

loom_status run_counted(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch, cuda_op op,
                        const cuda_call_arrays *arrays, cuda_slot *slot)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    if (arrays->staged) {
        RETURN_IF_FAILED(run_staged(cuda, view, arrays, batch, op, slot->counts, stream));
    } else if (batch->n > 0) {
        cuda_batch whole = whole_batch(cuda, arrays, batch, slot->counts);
        bool done = false;
        if (op == OP_COMBINE)
            RETURN_IF_FAILED(combine(cuda, view, &whole, stream, &done));
        if (!done)
            CUDA_TRY(launcher(cuda)(view, &whole, op, stream));
    }
    return finish(view, batch, op, arrays, slot, place);
}

loom_status run(loom__machine *machine, const loom__open_view *view, const loom__batch *batch, cuda_op op)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_call_arrays arrays;
    cuda_slot *slot;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(locate_arrays(cuda, view, batch, &arrays));
    if (op == OP_FIND && batch->uncounted) { /* `result` is the library's own, and only its status is looked at */
        if (arrays.staged) {
            RETURN_IF_FAILED(run_staged(cuda, view, &arrays, batch, op, NULL, stream));
        } else if (batch->n > 0) {
            cuda_batch whole = whole_batch(cuda, &arrays, batch, NULL);
            CUDA_TRY(launcher(cuda)(view, &whole, op, stream));
            CUDA_TRY(cudaStreamSynchronize(stream));
        }
        batch->result->status = LOOM_OK;
        return LOOM_OK;
    }
    RETURN_IF_FAILED(cuda_take_slot(cuda, stream, &slot));
    loom_status status = run_counted(cuda, view, batch, op, &arrays, slot);
    cuda_give_slot(cuda, stream, slot, status == LOOM_OK);
    return status;
}

loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    return run(machine, view, batch, OP_FIND);
}

loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    return run(machine, view, batch, (cuda_op)batch->write);
}

/* ---- by partition ---- */

/* In order, the batch may turn out not to be one for this way: *gave_up, then the table has no keys, and nothing was told. */
loom_status run_by_partition(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                             const cuda_call_arrays *arrays, const bulk_wish *wish, const bulk_plan *plan,
                             unsigned char *workspace, cuda_slot *slot, bool *gave_up)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const cuda_op op = (cuda_op)batch->write;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    cuda_batch whole = whole_batch(cuda, arrays, batch, slot->counts);
    const bulk_target target = open_bulk_target(view);
    cuda_rest rest = cuda_bulk_rest(target.kind, plan, workspace);
    uint32_t spilled = 0;
    CUDA_TRY(split_begin(plan, workspace, stream));
    if (arrays->staged)
        RETURN_IF_FAILED(split_staged(cuda, view, arrays, batch, plan, workspace, stream));
    else if (batch->n > 0) /* a grid has blocks */
        CUDA_TRY(cuda_bulk_split(&target, &whole, 0, plan, workspace, stream));
    CUDA_TRY(cuda_open_bulk_build(cuda, view, &whole, plan, workspace, wish, op == OP_OVERWRITE, stream));
    if (arrays->staged || wish->in_order) {
        CUDA_TRY(cudaMemcpyAsync(&spilled, rest.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    *gave_up = wish->in_order && spilled > rest.room;
    if (*gave_up)
        return LOOM_OK;
    if (!wish->in_order && !arrays->staged &&
        batch->n > 0) { /* the last block of the last kernel tells: one launch less */
        cuda_finish how = finish_of(view, batch, op, slot, place);
        how.replaced = batch->replace != 0;
        how.arrived = split_arrived(workspace);
        CUDA_TRY(cuda_open_launch_rest(cuda, view, &whole, &rest, op == OP_OVERWRITE, &how, stream));
        return cuda_hand_over(batch, arrays, slot, place);
    }
    if (arrays->staged && spilled > rest.room) /* the split gave up */
        RETURN_IF_FAILED(run_staged(cuda, view, arrays, batch, op, slot->counts, stream));
    else if (!wish->in_order)
        CUDA_TRY(cuda_open_launch_rest(cuda, view, &whole, &rest, op == OP_OVERWRITE, NULL, stream));
    return finish(view, batch, op, arrays, slot, place, batch->replace != 0);
}

/* As direct insertion, but for the way: the table is cleared, and the keys are inserted one by one. */
loom_status insert_directly(loom__machine *machine, const loom__open_view *view, const loom__batch *batch, bool staged)
{
    cuda_place place; /* what may fail comes before the table is cleared */
    RETURN_IF_FAILED(cuda_locate((cuda_state *)machine, "result", batch->result, &place));
    if (batch->replace && staged) {
        RETURN_IF_FAILED(cuda_stage_enter((cuda_state *)machine));
        cuda_stage_leave((cuda_state *)machine);
    }
    if (batch->replace)
        RETURN_IF_FAILED(cuda_open_clear(machine, view, batch->stream));
    return write(machine, view, batch);
}

/* ---- in order ---- */

struct open_winners {
    cuda_state *cuda;
    const loom__open_view *view;
};

loom_status clear_for_winners(const void *argument, cudaStream_t stream)
{
    const open_winners *into = (const open_winners *)argument;
    return cuda_open_clear(&into->cuda->base, into->view, stream);
}

loom_status insert_winners(const void *argument, const cuda_batch *batch, const cuda_rest *winners, bool overwrite,
                           cudaStream_t stream)
{
    const open_winners *into = (const open_winners *)argument;
    CUDA_TRY(cuda_open_launch_rest(into->cuda, into->view, batch, winners, overwrite, NULL, stream));
    return LOOM_OK;
}

loom_status run_in_order(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                         const cuda_call_arrays *arrays, const cuda_order_plan *plan, unsigned char *workspace,
                         cuda_slot *slot)
{
    const cuda_op op = (cuda_op)batch->write;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    cuda_batch whole = whole_batch(cuda, arrays, batch, slot->counts);
    const open_winners into = {cuda, view};
    const cuda_order_table table = {(loom__slot_kind)view->kind, batch->replace ? clear_for_winners : NULL,
                                    insert_winners, &into};
    RETURN_IF_FAILED(
        cuda_insert_in_order(cuda, &table, &whole, plan, workspace, op == OP_OVERWRITE, (cudaStream_t)batch->stream));
    return finish(view, batch, op, arrays, slot, place);
}

bulk_wish wish_for(const loom__open_view *view, uint64_t n, uint32_t flags, bool replace, bool with_status)
{
    bulk_wish wish = {};
    wish.n = n;
    wish.keys = bulk_slots(view);
    wish.in_order = (flags & LOOM_IN_ORDER) != 0;
    wish.with_index = with_status || wish.in_order;
    wish.replace = replace;
    wish.low_memory = replace && (flags & LOOM_LOW_MEMORY) != 0 && !wish.in_order;
    return wish;
}

loom_status clear_counts(const cuda_slot *slot, cudaStream_t stream)
{
    CUDA_TRY(cudaMemsetAsync(slot->counts, 0, COUNT_BYTES, stream));
    return LOOM_OK;
}

/* By partition if that can be, otherwise sorted. There is memory for both: after giving up one cannot go back. */
loom_status insert_in_order(loom__machine *machine, const loom__open_view *view, const loom__batch *batch,
                            const cuda_call_arrays *arrays)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const bool asked = (batch->flags & LOOM_BY_PARTITION) != 0;
    const bulk_wish wish = wish_for(view, batch->n, batch->flags, batch->replace != 0, false);
    bulk_plan fast;
    cuda_order_plan plan;
    cuda_slot *slot;
    if (batch->n == 0)
        return insert_directly(machine, view, batch, arrays->staged);
    RETURN_ERROR_IF(
        batch->n > CUDA_ORDER_MOST, LOOM_UNSUPPORTED,
        "n = %llu: the cuda machine inserts at most 2^31 keys at once in order (LOOM_IN_ORDER); insert them "
        "in several calls",
        (unsigned long long)batch->n);
    bool by_partition = batch->replace && batch->status == NULL && batch->values != NULL && batch->n <= wish.keys &&
                        (asked || batch->n >= LEAST_BY_PARTITION) && cuda_open_bulk_plan(cuda, view, &wish, &fast);
    CUDA_TRY(cuda_plan_in_order((loom__slot_kind)view->kind, batch->n, arrays->all[CALL_VALUES].staged(),
                                arrays->all[CALL_STATUS].staged(), &plan));
    const uint64_t bytes = by_partition && fast.bytes > plan.bytes ? fast.bytes : plan.bytes;
    const cuda_workspace own = cuda_take_workspace(machine, bytes, stream, batch);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    loom_status status = cuda_take_slot(cuda, stream, &slot);
    if (status == LOOM_OK) {
        bool sorts = !by_partition;
        if (by_partition)
            status = run_by_partition(cuda, view, batch, arrays, &wish, &fast, own.at, slot, &sorts);
        if (status == LOOM_OK && by_partition && sorts) /* what was counted by then is counted again */
            status = clear_counts(slot, stream);
        if (status == LOOM_OK && sorts)
            status = run_in_order(cuda, view, batch, arrays, &plan, own.at, slot);
        cuda_give_slot(cuda, stream, slot, status == LOOM_OK);
    }
    if (status != LOOM_OK && arrays->staged)
        cudaStreamSynchronize(stream); /* a copy of the caller's arrays may be under way */
    cuda_give_workspace(machine, &own, stream);
    return status;
}

/* ---- into a graph ---- */

/* A build whose stream is being captured: nothing waits, nothing is allocated, and all that it changes lies in the table, the
 * caller's workspace and the result, so that the graph may be replayed. What calls share between them is not used: counts lie
 * at the end of the workspace. */
loom_status capture_build(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                          const cuda_call_arrays *arrays)
{
    const bulk_wish wish = wish_for(view, batch->n, batch->flags, true, batch->status != NULL);
    bulk_plan plan;
    cuda_place place;
    bool gave_up;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    RETURN_ERROR_IF(arrays->staged || place == PLACE_PAGEABLE || batch->flags & (LOOM_IN_ORDER | LOOM_DIRECTLY) ||
                        !cuda_open_bulk_plan(cuda, view, &wish, &plan),
                    LOOM_UNSUPPORTED,
                    "the stream is being captured into a graph: there a build goes by partition, neither in order nor "
                    "directly, and has its arrays and its result where the device reaches them; change that, or build "
                    "outside of the capture");
    const uint64_t bytes = plan.bytes + COUNT_BYTES;
    RETURN_ERROR_IF(
        batch->workspace == NULL || batch->workspace_bytes < bytes, LOOM_OUT_OF_MEMORY,
        "the stream is being captured into a graph, which needs a workspace of %llu bytes; give the table one "
        "(loom_map_set_workspace)",
        (unsigned long long)bytes);
    cuda_slot slot = {};
    slot.counts = (cuda_counts *)((unsigned char *)batch->workspace + plan.bytes);
    RETURN_IF_FAILED(clear_counts(&slot, (cudaStream_t)batch->stream));
    return run_by_partition(cuda, view, batch, arrays, &wish, &plan, (unsigned char *)batch->workspace, &slot,
                            &gave_up);
}

/* ---- all of them ---- */

loom_status insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    cuda_call_arrays arrays;
    bulk_plan plan;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(locate_arrays(cuda, view, batch, &arrays)); /* before anything is cleared */
    if (batch->captured)
        return capture_build(cuda, view, batch, &arrays);
    const bool ordered = batch->values != NULL || batch->status != NULL; /* of a set, only statuses tell */
    if (batch->flags & LOOM_IN_ORDER && ordered)
        return insert_in_order(machine, view, batch, &arrays);
    const bool asked = batch->flags & LOOM_BY_PARTITION,
               staged_status = batch->status != NULL && arrays.all[CALL_STATUS].staged();
    const bulk_wish wish =
        wish_for(view, batch->n, batch->flags & ~(uint32_t)LOOM_IN_ORDER, batch->replace != 0, batch->status != NULL);
    const bool possible = cuda_open_bulk_plan(cuda, view, &wish, &plan) && !staged_status;
    RETURN_ERROR_IF(
        asked && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): it has too many keys, a status array in host "
        "memory, or the table's partitions do not fit the device's shared memory; insert directly");
    if (!possible || batch->flags & LOOM_DIRECTLY || (!asked && batch->n < LEAST_BY_PARTITION))
        return insert_directly(machine, view, batch, arrays.staged);
    const cuda_workspace own = cuda_take_workspace(machine, plan.bytes, batch->stream, batch);
    RETURN_ERROR_IF(own.at == NULL && asked, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert directly, or free other memory",
                    (unsigned long long)plan.bytes);
    if (own.at == NULL)
        return insert_directly(machine, view, batch, arrays.staged);
    cuda_slot *slot;
    bool gave_up;
    loom_status status = cuda_take_slot(cuda, (cudaStream_t)batch->stream, &slot);
    if (status == LOOM_OK) {
        status = run_by_partition(cuda, view, batch, &arrays, &wish, &plan, own.at, slot, &gave_up);
        cuda_give_slot(cuda, (cudaStream_t)batch->stream, slot, status == LOOM_OK);
    }
    cuda_give_workspace(machine, &own, batch->stream);
    return status;
}

/* One warp: what kernels of users have added. */
__global__ void fold_kernel(loom__totals *totals, loom__open_added *added)
{
    unsigned long long keys = added[threadIdx.x].keys;
    added[threadIdx.x].keys = 0;
    if (keys != 0)
        atomicAdd((unsigned long long *)&totals->size, keys);
}

static_assert(OPEN_ADDED_COPIES == 32, "one lane for each");

loom_status fold_size(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    ON_DEVICE((cuda_state *)machine);
    fold_kernel<<<1, OPEN_ADDED_COPIES, 0, (cudaStream_t)stream>>>(view->totals, view->added);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

int bulk_pays(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    (void)machine;
    return n >= LEAST_BY_PARTITION && n >= bulk_slots(view) / SLOTS_BY_PARTITION;
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    bulk_plan plan; /* of small batches, too: LOOM_BY_PARTITION may be asked for */
    cuda_order_plan order = {};
    const cuda_device_scope scope((cuda_state *)machine);
    const bulk_wish wish = wish_for(view, n, flags, true, with_status != 0);
    const uint64_t bytes =
        cuda_open_bulk_plan((cuda_state *)machine, view, &wish, &plan) ? plan.bytes + COUNT_BYTES : 0; /* captured */
    if (!(flags & LOOM_IN_ORDER))
        return bytes;
    if (scope.status != LOOM_OK || n == 0 || n > CUDA_ORDER_MOST)
        return 0;
    if (cuda_plan_in_order((loom__slot_kind)view->kind, n, false, false, &order) != cudaSuccess)
        cudaGetLastError(); /* the call that needs the memory will tell */
    return order.bytes > bytes ? order.bytes : bytes;
}

} // namespace

const loom__map_kernels cuda_open_kernels = {
    cuda_open_clear,
    cuda_open_reset_totals,
    find,
    write,
    insert_bulk,
    bulk_bytes,
    bulk_pays,
    cuda_open_refill,
    cuda_open_retrieve,
    cuda_open_survey,
    cuda_open_upkeep,
    fold_size,
    cuda_open_count_accesses,
};
