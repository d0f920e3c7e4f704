/* Bulk calls on an open table. A call brings its arrays where kernels can reach them, launches kernels and reports
 * results.
 *
 * If a call's arrays are in device or managed memory, its work goes into the caller's stream. The call returns before
 * the work is done if the device can write the result, too. A call with host arrays waits until its work is done. Host
 * arrays come in chunks (cuda_call.cu). Only calls in order need host arrays whole (cuda_in_order.cu).
 *
 * Batches that go by partition, are sorted or have their rows combined are cut into slices of at most
 * cuda_state.slice_keys keys. The first slice of a build replaces the table's contents, the others insert. Slices
 * follow each other in the stream and share one workspace. Counts add up until the last slice reports them. A key that
 * one slice refused is refused by the later slices: its partition is full. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/open/cuda_open_bulk.cuh"

namespace
{

enum {
    /* Insertion by partition pays from LEAST_BY_PARTITION keys on, and from one key per SLOTS_BY_PARTITION slots of the
     * table on. Measured on an H200 (docs/performance.md), going by partition is faster from one key per 16 slots on at
     * load 0.8, from one per 10 on at load 0.53. */
    LEAST_BY_PARTITION = 1 << 18,
    SLOTS_BY_PARTITION = 10,
    LEAST_WAVES = 5 /* of a low-memory build: five waves take 1.7 bytes per pair of 4 + 4; more are slower */
};

const loom__open_view *view_of(const cuda_map_call *call)
{
    return static_cast<const loom__open_view *>(call->view);
}

/* ---- calls ---- */

/* Accumulates rows with many equal keys. The call's arrays are on the device. *done = false: nothing was done, and the
 * caller sends the rows to the table one by one. */
cudaError_t combine(const cuda_map_call *call, cudaStream_t stream, bool *done)
{
    const loom__open_view *view = view_of(call);
    const uint64_t n = call->batch.n, each = loom__slice_items(n, call->cuda->slice_keys);
    loom__machine *machine = &call->cuda->base;
    bulk_plan plan;
    cuda_workspace own = {};
    cudaError_t error = cudaSuccess;
    cuda_batch batch = cuda_slice_of(call, 0, each).whole();
    *done = batch.status == NULL && cuda_open_combine_plan(call->cuda, view, &batch, &plan);
    if (*done && plan.bytes > 0) {
        own = cuda_take_workspace(machine, plan.bytes, stream, NULL); /* temporary: accumulations may overlap */
        *done = own.at != NULL;
    }
    for (uint64_t first = 0; *done && first < n && error == cudaSuccess; first += each) {
        batch = cuda_slice_of(call, first, each).whole();
        error = cuda_step(cuda_open_combine(call->cuda, view, &batch, &plan, own.at, stream));
    }
    cuda_give_workspace(machine, &own, stream);
    return error;
}

cudaError_t launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    if (call->op == OP_COMBINE && !call->arrays.staged) {
        bool done;
        cudaError_t error = combine(call, stream, &done);
        if (done)
            return error;
    }
    return cuda_open_launch(call->cuda, view_of(call), batch, call->op, call->finish, stream);
}

cudaError_t launch_parts(const cuda_map_call *call, cuda_parts *parts, cudaStream_t stream)
{
    return cuda_open_launch_parts(view_of(call), parts, stream);
}

cuda_map_call call_on(loom__machine *machine, const loom__open_view *view, const loom__batch *batch, cuda_op op)
{
    cuda_map_call call = cuda_map_call_on(machine, view, batch, op, launch);
    call.may_finish = op != OP_COMBINE; /* which may have other kernels */
    call.launch_parts = call.cuda->lanes == 0 ? launch_parts : NULL;
    return call;
}

loom_status run(loom__machine *machine, const void *any_view, const loom__batch *batch, cuda_op op)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_map_call call = call_on(machine, view, batch, op);
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

/* In a low-memory build, the second pass of the split and the filling of partitions run in waves. A wave takes some
 * coarse regions, splits them into one region per partition, and builds those partitions. Coarse regions lie at the end
 * of the table's memory. After the waves up to coarse region e, the table is written up to partition e << shift, and
 * the records still to be read begin with coarse region e. True: the written part of the table never reaches records
 * that are still to be read. */
bool waves_keep_apart(const loom__open_view *view, const bulk_plan *plan)
{
    const uint64_t written_each = (uint64_t)view->partition_bytes << plan->shift;
    for (uint64_t e = plan->per_wave; e < plan->coarse; e += plan->per_wave)
        if (e * written_each > plan->coarse_at + e * plan->coarse_bytes)
            return false;
    return true;
}

/* Chooses how many coarse regions go in one wave. False: there are too few coarse regions, or too many records for the
 * table's memory. */
bool choose_waves(const loom__open_view *view, bulk_plan *plan)
{
    if (!plan->coarse_in_spare)
        return false;
    plan->per_wave = plan->coarse / LEAST_WAVES;
    while (plan->per_wave > 0 && !waves_keep_apart(view, plan))
        plan->per_wave--;
    plan->bytes = plan->fine_at + loom__split_fine_per_wave(plan) * plan->fine_bytes;
    return plan->per_wave > 0;
}

/* Plans how n records are split by partition. False: the kernels cannot do it. `low_memory` requires INTO_EMPTY. */
bool plan_build(const cuda_state *cuda, const loom__open_view *view, uint64_t n, build_way way, bool with_status,
                bool low_memory, open_plan *plan)
{
    split_request split = {};
    split.n = n;
    split.keys = bulk_slots(view);
    split.parts = view->partitions;
    cuda_bulk_columns((loom__slot_kind)view->kind, &split);
    split.with_index = with_status || way == IN_ORDER;
    split.two_passes = low_memory;
    split.spare_bytes = way == INTO_FILLED ? 0 : (uint64_t)view->partitions * view->partition_bytes;
    *plan = open_plan{};
    plan->way = way;
    return bulk_shared_bytes(view) + BULK_STATIC_BYTES <= (uint32_t)cuda->shared_bytes &&
           split_plan_passes(&split, plan) && (!low_memory || choose_waves(view, plan));
}

/* A batch that goes by partition, not in order. */
struct bulk_slices {
    uint64_t each;     /* keys of a slice; the last slice may have fewer */
    open_plan plan[2]; /* of the first slice, and of the others */
    uint64_t bytes;    /* of the workspace, which all slices use */
};

/* Plans all slices. False: the kernels cannot do it. A low-memory build must be one slice, since the table's own memory
 * is free only for the first. */
bool plan_slices(const cuda_state *cuda, const loom__open_view *view, uint64_t n, uint32_t flags, bool replace,
                 bool with_status, bulk_slices *slices)
{
    const bool low_memory = replace && (flags & LOOM_LOW_MEMORY) != 0;
    const uint64_t each = loom__slice_items(n, cuda->slice_keys);
    open_plan *first = &slices->plan[0], *others = &slices->plan[1];
    slices->each = each;
    if (!plan_build(cuda, view, each, replace ? INTO_EMPTY : INTO_FILLED, with_status, low_memory, first))
        return false;
    slices->bytes = first->bytes;
    if (each == n)
        return true;
    if (low_memory || !plan_build(cuda, view, each, INTO_FILLED, with_status, false, others))
        return false;
    slices->bytes = others->bytes > first->bytes ? others->bytes : first->bytes;
    return true;
}

/* Runs one slice. With a `finish`, the last block of the last kernel reports the call's result. A slice in order may
 * give up. Then *gave_up is true, and the table has no keys. */
loom_status run_slice(const cuda_map_call *slice, const open_plan *plan, unsigned char *workspace,
                      const cuda_finish *finish, bool *gave_up)
{
    const loom__open_view *view = view_of(slice);
    const bool staged = slice->arrays.staged, in_order = plan->way == IN_ORDER;
    cudaStream_t stream = slice->stream;
    cuda_batch whole = slice->whole();
    const bulk_target target = open_bulk_target(view);
    cuda_spill spill = cuda_bulk_spill(target.kind, plan, workspace);
    uint32_t spilled = 0;
    CUDA_TRY(split_begin(plan, workspace, stream));
    RETURN_IF_FAILED(cuda_split_items(slice, &target, plan, workspace));
    CUDA_TRY(cuda_open_bulk_build(slice->cuda, view, &whole, plan, workspace, slice->overwrites(), stream));
    if (staged || in_order) {
        CUDA_TRY(cudaMemcpyAsync(&spilled, spill.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    if (in_order) {
        *gave_up = spilled > spill.room;
        return LOOM_OK;
    }
    if (staged && spilled > spill.room) /* the split gave up */
        return cuda_run_items(slice);
    CUDA_TRY(cuda_open_launch_spill(slice->cuda, view, &whole, &spill, slice->overwrites(), finish, stream));
    return LOOM_OK;
}

loom_status run_by_partition(const cuda_map_call *call, const bulk_slices *slices, unsigned char *workspace)
{
    const uint64_t n = call->batch.n;
    const bool at_last = !call->arrays.staged && n > 0; /* the last kernel reports the result: one launch less */
    cuda_finish finish = cuda_finish_of(call, call->batch.replace != 0);
    finish.arrived = split_arrived(workspace);
    uint64_t first = 0;
    do { /* a build without keys has one slice, too */
        const cuda_map_call slice = cuda_slice_of(call, first, slices->each);
        const open_plan *plan = &slices->plan[first > 0];
        first += slice.batch.n;
        RETURN_IF_FAILED(run_slice(&slice, plan, workspace, first == n && at_last ? &finish : NULL, NULL));
    } while (first < n);
    return at_last ? cuda_hand_over(&call->batch, &call->arrays, call->ticket, call->place)
                   : cuda_finish_call(call, call->batch.replace != 0);
}

/* Inserts the keys one by one. A build clears the table first. */
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
    open_plan plan; /* of the build by partition */
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
    return run_slice(slice, &work->plan, work->workspace, NULL, gave_up);
}

/* Tries to build by partition, and sorts if this is not possible or the build gives up. The workspace has room for both
 * ways: a build that gave up has already emptied the table, so the sort must not fail for lack of memory. */
loom_status insert_in_order(cuda_map_call *call)
{
    const loom__batch *batch = &call->batch;
    const loom__open_view *view = view_of(call);
    cuda_in_order_plan plan;
    if (batch->n == 0)
        return insert_directly(call);
    RETURN_IF_FAILED(cuda_plan_in_order(call, &plan));
    order_work work = {call, {}, NULL};
    const bool by_partition = batch->replace && batch->status == NULL && batch->values != NULL &&
                              plan.each <= bulk_slots(view) &&
                              (call->asks(LOOM_BY_PARTITION) || batch->n >= LEAST_BY_PARTITION) &&
                              plan_build(call->cuda, view, plan.each, IN_ORDER, false, false, &work.plan);
    const uint64_t bytes = by_partition && work.plan.bytes > plan.bytes ? work.plan.bytes : plan.bytes;
    const cuda_workspace own = cuda_take_workspace(&call->cuda->base, bytes, call->stream, batch);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    work.workspace = own.at;
    loom__batch_goes(batch, by_partition ? LOOM_ROUTE_BY_PARTITION : LOOM_ROUTE_IN_ORDER);
    const cuda_in_order_table table = {cuda_open_clear, insert_winners, by_partition ? build_first_slice : NULL, &work};
    return cuda_insert_in_order(call, &table, &plan, &own);
}

/* ---- into a graph ---- */

/* A build whose stream is being captured. The call neither waits nor allocates. The build changes only the table, the
 * caller's workspace and the result, so that the graph may be replayed. The counts lie at the end of the workspace
 * instead of in a ticket, because later calls use the same tickets. */
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

/* ---- all insertions in bulk ---- */

loom_status insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_map_call call = call_on(machine, view, batch, (cuda_op)batch->write);
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
    loom__batch_goes(batch, LOOM_ROUTE_BY_PARTITION);
    return cuda_with_ticket(&call, &own, [&] { return run_by_partition(&call, &slices, own.at); });
}

/* Adds the counts of users' kernels to the table's size. Runs as one warp. */
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
    const uint64_t each = loom__slice_items(n, ((cuda_state *)machine)->slice_keys); /* keys per pass over the table */
    return n >= LEAST_BY_PARTITION && each >= bulk_slots(view) / SLOTS_BY_PARTITION;
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    bulk_slices slices; /* small batches have them, too: a caller may ask for LOOM_BY_PARTITION */
    open_plan fast;
    if (!(flags & LOOM_IN_ORDER)) /* COUNT_BYTES: for captured builds */
        return plan_slices(cuda, view, n, flags, true, with_status != 0, &slices) ? slices.bytes + COUNT_BYTES : 0;
    const uint64_t order = cuda_in_order_bytes(cuda, (loom__slot_kind)view->kind, n);
    const bool possible =
        order > 0 && plan_build(cuda, view, cuda_in_order_slice(cuda, n), IN_ORDER, with_status != 0, false, &fast);
    const uint64_t bytes = possible ? fast.bytes + COUNT_BYTES : 0;
    return order > bytes ? order : bytes;
}

uint64_t host_array_bytes(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    return cuda_in_order_host_bytes((const cuda_state *)machine, (loom__slot_kind)view->kind, n);
}

} // namespace

cudaError_t cuda_open_launch(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, cuda_op op,
                             const cuda_finish *finish, cudaStream_t stream)
{
    cuda_launch *const launch_items = cuda->lanes == 1   ? cuda_open_launch_1
                                      : cuda->lanes == 4 ? cuda_open_launch_4
                                      : cuda->lanes == 8 ? cuda_open_launch_8
                                                         : cuda_open_launch_2;
    return launch_items(view, batch, op, finish, stream);
}

loom_status cuda_open_fold_size(loom__machine *machine, const void *view, loom_stream stream)
{
    return fold_size(machine, view, stream);
}

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
    cuda_open_erase_if,
    NULL, /* find_all, erase_pairs: multimaps */
    NULL,
    0,
    host_array_bytes,
    NULL, /* zero_free: kernels take no memory */
};
