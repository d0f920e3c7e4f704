/* Bulk calls on an open table: arrays where kernels can reach them, kernels, results.
 *
 * A call whose arrays are in device or managed memory goes in the caller's stream, and returns before the work is done if its
 * result, too, is where the device can write it. One with host arrays waits for its end; they come in chunks (cuda_call.cu).
 * Only those of a call in order come whole (cuda_in_order.cu).
 *
 * Batches go by partition, are sorted, and have their rows combined, in slices of cuda_state.slice_keys keys at most: the first slice of a
 * build replaces the table's contents, the others insert. Turns follow each other in the stream and use the same memory; counts
 * add up until the last one tells them. A key that was refused in one slice is refused in those behind it: its partition is full. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
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

const loom__open_view *view_of(const cuda_map_call *call)
{
    return static_cast<const loom__open_view *>(call->view);
}

/* ---- calls ---- */

/* Rows with many equal keys, of a call whose arrays are on the device; not done: they had better go to the table one by one. */
cudaError_t combine(const cuda_map_call *call, const cuda_batch *all, cudaStream_t stream, bool *done)
{
    const loom__open_view *view = view_of(call);
    const uint64_t each = loom__slice_items(all->n, call->cuda->slice_keys);
    loom__machine *machine = &call->cuda->base;
    bulk_plan plan;
    cuda_workspace own = {};
    cudaError_t error = cudaSuccess;
    cuda_batch batch = cuda_slice_of(call, 0, each).whole();
    cuda_combine_way way = batch.status != NULL ? COMBINE_NOT : cuda_open_combine_way(call->cuda, view, &batch, &plan);
    if (way == COMBINE_SPLIT)
        own = cuda_take_workspace(machine, plan.bytes, stream, NULL); /* calls that accumulate may overlap */
    *done = way == COMBINE_SLICES || own.at != NULL;
    for (uint64_t first = 0; *done && first < all->n && error == cudaSuccess; first += each) {
        batch = cuda_slice_of(call, first, each).whole();
        error = cuda_step(cuda_open_combine(call->cuda, view, &batch, own.at != NULL ? &plan : NULL, own.at, stream));
    }
    cuda_give_workspace(machine, &own, stream);
    return error;
}

cudaError_t launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    bool done = false;
    if (call->op == OP_COMBINE && !call->arrays.staged) {
        cudaError_t error = combine(call, batch, stream, &done);
        if (done)
            return error;
    }
    return launcher(call->cuda)(view_of(call), batch, call->op, stream);
}

loom_status run(loom__machine *machine, const void *any_view, const loom__batch *batch, cuda_op op)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_map_call call = cuda_map_call_on(machine, view, batch, op, launch);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    return cuda_run_call(&call);
}

loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    return run(machine, any_view, batch, OP_FIND);
}

loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    return run(machine, any_view, batch, (cuda_op)batch->write);
}

/* ---- by partition ---- */

bulk_request request_for(const loom__open_view *view, uint64_t n, uint32_t flags, bool replace, bool with_status)
{
    bulk_request request = {};
    request.n = n;
    request.keys = bulk_slots(view);
    request.in_order = (flags & LOOM_IN_ORDER) != 0;
    request.with_index = with_status || request.in_order;
    request.replace = replace;
    request.low_memory = replace && (flags & LOOM_LOW_MEMORY) != 0 && !request.in_order;
    return request;
}

/* A batch by partition, not in order: the first slice, and what further ones have in common. */
struct bulk_slices {
    uint64_t each; /* keys of a slice, the last one excepted */
    bulk_request request[2];
    bulk_plan plan[2];
    uint64_t bytes; /* of the workspace, which all slices use */
};

/* False if that is beyond the kernels. With little memory there is one slice: the table's own memory, which is free then, is free but once. */
bool plan_slices(const cuda_state *cuda, const loom__open_view *view, uint64_t n, uint32_t flags, bool replace,
                 bool with_status, bulk_slices *slices)
{
    slices->each = loom__slice_items(n, cuda->slice_keys);
    for (int i = 0; i < 2; i++) {
        slices->request[i] =
            request_for(view, slices->each, flags & ~(uint32_t)LOOM_IN_ORDER, replace && i == 0, with_status);
        slices->plan[i] = bulk_plan{};
    }
    if (!cuda_open_bulk_plan(cuda, view, &slices->request[0], &slices->plan[0]))
        return false;
    slices->bytes = slices->plan[0].bytes;
    if (slices->each == n)
        return true;
    if (slices->request[0].low_memory || !cuda_open_bulk_plan(cuda, view, &slices->request[1], &slices->plan[1]))
        return false;
    slices->bytes = slices->plan[1].bytes > slices->bytes ? slices->plan[1].bytes : slices->bytes;
    return true;
}

/* One slice. Tells nothing, unless `how` is there: the last block of the last kernel does. In order, the slice may slice out not to be
 * one for this way: *gave_up, then the table has no keys. */
loom_status run_slice(const cuda_map_call *slice, const bulk_request *request, const bulk_plan *plan,
                      unsigned char *workspace, const cuda_finish *how, bool *gave_up)
{
    const loom__open_view *view = view_of(slice);
    const bool staged = slice->arrays.staged;
    cudaStream_t stream = slice->stream;
    cuda_batch whole = slice->whole();
    const bulk_target target = open_bulk_target(view);
    cuda_spill spill = cuda_bulk_spill(target.kind, plan, workspace);
    uint32_t spilled = 0;
    CUDA_TRY(split_begin(plan, workspace, stream));
    RETURN_IF_FAILED(cuda_split_items(slice, &target, plan, workspace));
    CUDA_TRY(cuda_open_bulk_build(slice->cuda, view, &whole, plan, workspace, request, slice->overwrites(), stream));
    if (staged || request->in_order) {
        CUDA_TRY(cudaMemcpyAsync(&spilled, spill.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    *gave_up = request->in_order && spilled > spill.room;
    if (request->in_order)
        return LOOM_OK;
    if (staged && spilled > spill.room) /* the split gave up */
        return cuda_run_items(slice);
    CUDA_TRY(cuda_open_launch_spill(slice->cuda, view, &whole, &spill, slice->overwrites(), how, stream));
    return LOOM_OK;
}

loom_status run_by_partition(const cuda_map_call *call, const bulk_slices *slices, unsigned char *workspace)
{
    const uint64_t n = call->batch.n;
    const bool at_last = !call->arrays.staged && n > 0; /* the last kernel tells: one launch less */
    bool gave_up;
    cuda_finish how = cuda_finish_of(call, call->batch.replace != 0);
    how.arrived = split_arrived(workspace);
    uint64_t first = 0;
    do { /* a build of no keys has a slice, too */
        const cuda_map_call slice = cuda_slice_of(call, first, slices->each);
        const int which = first > 0;
        first += slice.batch.n;
        RETURN_IF_FAILED(run_slice(&slice, &slices->request[which], &slices->plan[which], workspace,
                                   first == n && at_last ? &how : NULL, &gave_up));
    } while (first < n);
    return at_last ? cuda_hand_over(&call->batch, &call->arrays, call->ticket, call->place)
                   : cuda_finish_call(call, call->batch.replace != 0);
}

/* As direct insertion, but for the way: the table is cleared, and the keys are inserted one by one. */
loom_status insert_directly(cuda_map_call *call)
{
    RETURN_IF_FAILED(cuda_try_stage(call));
    if (call->batch.replace)
        RETURN_IF_FAILED(cuda_open_clear(&call->cuda->base, call->view, call->stream));
    return cuda_run_call(call);
}

/* ---- in order ---- */

struct order_work {
    const cuda_map_call *call;
    bulk_request request; /* by partition, if there is a plan for it */
    bulk_plan fast;
    unsigned char *workspace;
};

loom_status insert_winners(const void *argument, const cuda_batch *batch, const cuda_spill *winners, bool overwrite,
                           cudaStream_t stream)
{
    const cuda_map_call *call = ((const order_work *)argument)->call;
    CUDA_TRY(cuda_open_launch_spill(call->cuda, view_of(call), batch, winners, overwrite, NULL, stream));
    return LOOM_OK;
}

loom_status build_first_slice(const void *argument, const cuda_map_call *slice, bool *gave_up)
{
    const order_work *work = (const order_work *)argument;
    return run_slice(slice, &work->request, &work->fast, work->workspace, NULL, gave_up);
}

/* By partition if that can be, otherwise sorted. There is memory for both: after giving up one cannot go back. */
loom_status insert_in_order(cuda_map_call *call)
{
    const loom__batch *batch = &call->batch;
    cuda_in_order_plan plan;
    if (batch->n == 0)
        return insert_directly(call);
    RETURN_IF_FAILED(cuda_plan_in_order(call, &plan));
    order_work work = {call, request_for(view_of(call), plan.each, batch->flags, batch->replace != 0, false), {}, NULL};
    const bool by_partition = batch->replace && batch->status == NULL && batch->values != NULL &&
                              plan.each <= work.request.keys &&
                              (call->asks(LOOM_BY_PARTITION) || batch->n >= LEAST_BY_PARTITION) &&
                              cuda_open_bulk_plan(call->cuda, view_of(call), &work.request, &work.fast);
    const uint64_t bytes = by_partition && work.fast.bytes > plan.bytes ? work.fast.bytes : plan.bytes;
    const cuda_workspace own = cuda_take_workspace(&call->cuda->base, bytes, call->stream, batch);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    work.workspace = own.at;
    const cuda_in_order_table table = {cuda_open_clear, insert_winners, by_partition ? build_first_slice : NULL, &work};
    return cuda_insert_in_order(call, &table, &plan, &own);
}

/* ---- into a graph ---- */

/* A build whose stream is being captured: nothing waits, nothing is allocated, and all that it changes lies in the table, the
 * caller's workspace and the result, so that the graph may be replayed. What calls share between them is not used: counts lie
 * at the end of the workspace. */
loom_status capture_build(cuda_map_call *call)
{
    const loom__batch *batch = &call->batch;
    bulk_slices slices;
    RETURN_ERROR_IF(
        call->arrays.staged || call->place == PLACE_PAGEABLE || call->asks(LOOM_IN_ORDER | LOOM_DIRECTLY) ||
            !plan_slices(call->cuda, view_of(call), batch->n, batch->flags, true, batch->status != NULL, &slices),
        LOOM_UNSUPPORTED,
        "the stream is being captured into a graph: there a build goes by partition, neither in order nor "
        "directly, and has its arrays and its result where the device reaches them; change that, or build "
        "outside of the capture");
    const uint64_t bytes = slices.bytes + COUNT_BYTES;
    RETURN_ERROR_IF(
        batch->workspace == NULL || batch->workspace_bytes < bytes, LOOM_OUT_OF_MEMORY,
        "the stream is being captured into a graph, which needs a workspace of %llu bytes; give the table one "
        "(loom_map_set_workspace)",
        (unsigned long long)bytes);
    cuda_ticket ticket = {};
    ticket.counts = (cuda_counts *)((unsigned char *)batch->workspace + slices.bytes);
    call->ticket = &ticket;
    RETURN_IF_FAILED(cuda_clear_counts(call));
    return run_by_partition(call, &slices, (unsigned char *)batch->workspace);
}

/* ---- all of them ---- */

loom_status insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_map_call call = cuda_map_call_on(machine, view, batch, (cuda_op)batch->write, launch);
    cuda_workspace own;
    bulk_slices slices;
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call)); /* before anything is cleared */
    if (batch->captured)
        return capture_build(&call);
    if (call.goes_in_order())
        return insert_in_order(&call);
    const bool asked = call.asks(LOOM_BY_PARTITION);
    const bool possible =
        plan_slices(call.cuda, view, batch->n, batch->flags, batch->replace != 0, batch->status != NULL, &slices) &&
        !call.has_staged_status();
    RETURN_ERROR_IF(
        asked && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): it has a status array in host memory, too many keys "
        "for little memory, or the table has too many partitions, or larger ones than the device's shared memory; "
        "insert directly");
    if (!possible || call.asks(LOOM_DIRECTLY) || (!asked && batch->n < LEAST_BY_PARTITION))
        return insert_directly(&call);
    RETURN_IF_FAILED(cuda_take_for_partitions(&call, slices.bytes, &own));
    if (own.at == NULL)
        return insert_directly(&call);
    return cuda_with_ticket(&call, &own, [&] { return run_by_partition(&call, &slices, own.at); });
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
    const uint64_t each =
        loom__slice_items(n, ((cuda_state *)machine)->slice_keys); /* each slice goes through the table */
    return n >= LEAST_BY_PARTITION && each >= bulk_slots(view) / SLOTS_BY_PARTITION;
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    bulk_slices slices; /* of small batches, too: LOOM_BY_PARTITION may be asked for */
    bulk_plan fast;
    if (!(flags & LOOM_IN_ORDER)) /* COUNT_BYTES: of builds that are captured */
        return plan_slices(cuda, view, n, flags, true, with_status != 0, &slices) ? slices.bytes + COUNT_BYTES : 0;
    const uint64_t order = cuda_in_order_bytes(cuda, (loom__slot_kind)view->kind, n);
    const bulk_request request = request_for(view, cuda_in_order_slice(cuda, n), flags, true, with_status != 0);
    const uint64_t bytes = order > 0 && cuda_open_bulk_plan(cuda, view, &request, &fast) ? fast.bytes + COUNT_BYTES : 0;
    return order > bytes ? order : bytes;
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
    cuda_retrieve_from<loom__open_view, open_table_slots>,
    cuda_open_survey,
    cuda_open_upkeep,
    fold_size,
    cuda_open_count_accesses,
};
