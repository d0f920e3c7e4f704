/* Calls on a filter, as in cuda_open.cu. Arrays on the device are used where they are. If the device can also write the
 * result, the call returns before the work is done.
 *
 * Keys of other widths than 4 and 8 bytes: kernels that go directly hash each key where they read it. Before a split or
 * a sort, all keys are replaced by their stand-ins (filter_layout.h) in temporary memory. From there on the call is one
 * on keys of 8 bytes. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

namespace
{

/* From this many keys on, insertion by partition is faster, measured on an H200 (docs/performance.md). There must also
 * be at least one key for each block, since the whole filter is read and written. */
enum { LEAST_BY_PARTITION = 1 << 22 };

const loom__filter_view *view_of(const cuda_map_call *call)
{
    return static_cast<const loom__filter_view *>(call->view);
}

/* Four lanes test a block together; eight lanes set its bits. */
cuda_filter_launch *launcher(const cuda_map_call *call)
{
    const uint32_t chosen = call->op == OP_FIND ? 4 : 8;
    switch (call->cuda->lanes != 0 ? call->cuda->lanes : chosen) {
    case 1:
        return cuda_filter_launch_1;
    case 2:
        return cuda_filter_launch_2;
    case 4:
        return cuda_filter_launch_4;
    default:
        return cuda_filter_launch_8;
    }
}

cudaError_t launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    return launcher(call)(call->cuda, view_of(call), batch, call->op, NULL, stream);
}

/* A filter takes keys as a set does, but keeps no size. The kind is that of stand-ins, if keys have them. */
cuda_map_call call_on(loom__machine *machine, const void *any_view, const loom__batch *batch, cuda_op op)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    cuda_map_call call = {};
    call.cuda = (cuda_state *)machine;
    call.view = view;
    call.kind = slot_kind_of(view->key_bytes, 0);
    call.launch = launch;
    call.most = UINT64_MAX;
    call.batch = *batch;
    call.op = op;
    call.stream = (cudaStream_t)batch->stream;
    return call;
}

loom_status locate(cuda_map_call *call)
{
    RETURN_IF_FAILED(cuda_locate_call(call));
    call->arrays.all[CALL_KEYS].width = view_of(call)->key_bytes;
    return LOOM_OK;
}

/* ---- stand-ins ---- */

uint64_t stand_in_bytes(const loom__filter_view *view, uint64_t n)
{
    return filter_has_stand_ins(view->key_bytes) ? cuda_aligned(n * sizeof(uint64_t)) : 0;
}

/* Replaces the keys of a located call by stand-ins in `room`, and its view by *view. Does nothing if keys have none.
 * Waits for keys that lie on the host. */
loom_status replace_keys(cuda_map_call *call, loom__filter_view *view, unsigned char *room)
{
    cuda_call_array *keys = &call->arrays.all[CALL_KEYS];
    const loom__filter_view *own = view_of(call);
    if (!filter_has_stand_ins(own->key_bytes))
        return LOOM_OK;
    RETURN_IF_FAILED(cuda_filter_stand_ins(call->cuda, own, keys, (uint64_t *)room, call->stream));
    *view = filter_view_of_stand_ins(own);
    call->view = view;
    call->batch.keys = keys->at = room;
    keys->width = sizeof(uint64_t);
    keys->place = PLACE_DEVICE;
    call->arrays.staged = false;
    for (const cuda_call_array &array : call->arrays.all)
        call->arrays.staged = call->arrays.staged || array.staged();
    return LOOM_OK;
}

loom_status contains(loom__machine *machine, const void *view, const loom__batch *batch)
{
    cuda_map_call call = call_on(machine, view, batch, OP_FIND);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(locate(&call));
    return cuda_run_call(&call);
}

/* ---- by partition ---- */

uint64_t slice_keys(const cuda_state *cuda, uint64_t n)
{
    return loom__slice_items(n, cuda->slice_keys);
}

/* Plans how a slice is split. False: the kernels cannot split it. The plan assumes that all keys differ: if many are
 * equal, records spill, and the split may give up. */
bool plan_slice(const cuda_state *cuda, const loom__filter_view *view, uint64_t keys, split_plan *plan)
{
    split_request request = {};
    request.n = request.keys = keys;
    request.parts = filter_partitions(view->blocks);
    request.head_bytes = view->key_bytes == 4 ? 4 : 8; /* a key, or its stand-in */
    return FILTER_PARTITION_BYTES <= cuda->shared_bytes && split_plan_passes(&request, plan);
}

/* Temporary memory for slices of `keys` keys. */
uint64_t bytes_by_partition(const loom__filter_view *view, uint64_t keys, const split_plan *plan)
{
    const uint64_t stand_ins = stand_in_bytes(view, keys);
    return stand_ins > 0 ? cuda_aligned(plan->bytes) + stand_ins : plan->bytes;
}

/* The plan's memory lies at the beginning of the workspace, stand-ins behind it. */
loom_status insert_slice(cuda_map_call *slice, const split_plan *plan, unsigned char *workspace)
{
    loom__filter_view of_stand_ins;
    RETURN_IF_FAILED(replace_keys(slice, &of_stand_ins, workspace + cuda_aligned(plan->bytes)));
    const loom__filter_view *view = view_of(slice);
    const bulk_target target = {NULL, view->seed, filter_partitions(view->blocks), slice->kind};
    const cuda_spill spill = cuda_bulk_spill(slice->kind, plan, workspace);
    const cuda_batch whole = slice->whole();
    cudaStream_t stream = slice->stream;
    CUDA_TRY(split_begin(plan, workspace, stream));
    RETURN_IF_FAILED(cuda_split_items(slice, &target, plan, workspace));
    CUDA_TRY(cuda_bulk_split_further(&target, plan, workspace, 0, stream));
    CUDA_TRY(cuda_filter_fill(view, plan, workspace, stream));
    if (slice->arrays.staged) { /* the batch is not on the device any more */
        uint32_t spilled = 0;
        CUDA_TRY(cudaMemcpyAsync(&spilled, spill.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        if (spilled > spill.room)
            return cuda_run_items(slice);
    }
    CUDA_TRY(launcher(slice)(slice->cuda, view, &whole, slice->op, &spill, stream));
    return LOOM_OK;
}

/* ---- which keys are new ---- */

loom_status insert_winners(const void *argument, const cuda_batch *batch, const cuda_spill *winners, bool overwrite,
                           cudaStream_t stream)
{
    const cuda_map_call *call = (const cuda_map_call *)argument;
    (void)overwrite;
    CUDA_TRY(launcher(call)(call->cuda, view_of(call), batch, call->op, winners, stream));
    return LOOM_OK;
}

/* Of equal keys only the first is inserted. The filter then reports the others. Keys with equal stand-ins count as
 * equal: they have the same bits. */
loom_status insert_in_order(cuda_map_call *call)
{
    const cuda_in_order_table table = {cuda_filter_clear, insert_winners, NULL, call};
    cuda_in_order_plan plan;
    loom__filter_view of_stand_ins;
    RETURN_IF_FAILED(cuda_plan_in_order(call, &plan));
    const uint64_t bytes = plan.bytes + stand_in_bytes(view_of(call), call->batch.n);
    const cuda_workspace own = cuda_take_workspace(&call->cuda->base, bytes, call->stream, NULL);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    const bool staged = call->arrays.staged;
    loom_status status = replace_keys(call, &of_stand_ins, own.at + plan.bytes);
    call->arrays.staged = staged; /* a call with host arrays waits, and it had some */
    if (status != LOOM_OK) {
        cuda_give_workspace(&call->cuda->base, &own, call->stream);
        return status;
    }
    return cuda_insert_in_order(call, &table, &plan, &own);
}

loom_status insert_and_tell(cuda_map_call *call)
{
    RETURN_IF_FAILED(locate(call));
    return call->asks(LOOM_IN_ORDER) && call->batch.n > 0 ? insert_in_order(call) : cuda_run_call(call);
}

/* ---- all insertions ---- */

/* Inserts by partition if the batch asks for it and there is memory for it, otherwise directly. */
loom_status insert_items(const cuda_map_call *call)
{
    const uint64_t n = call->batch.n, each = slice_keys(call->cuda, n);
    split_plan plan;
    cuda_workspace own;
    if (!call->batch.by_partition || n == 0)
        return cuda_run_items(call);
    const bool possible = plan_slice(call->cuda, view_of(call), each, &plan);
    RETURN_ERROR_IF(
        call->asks(LOOM_BY_PARTITION) && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): the filter has too many partitions, or a block of the "
        "device has less than 64 KiB of shared memory; insert directly");
    if (!possible)
        return cuda_run_items(call);
    RETURN_IF_FAILED(cuda_take_for_partitions(call, bytes_by_partition(view_of(call), each, &plan), &own));
    if (own.at == NULL)
        return cuda_run_items(call);
    loom_status status = LOOM_OK;
    for (uint64_t first = 0; first < n && status == LOOM_OK; first += each) { /* slices share the workspace */
        cuda_map_call slice = cuda_slice_of(call, first, each);
        status = insert_slice(&slice, &plan, own.at);
    }
    if (status != LOOM_OK && call->arrays.staged)
        cudaStreamSynchronize(call->stream);
    cuda_give_workspace(&call->cuda->base, &own, call->stream);
    return status;
}

__global__ void tell_kernel(loom_result *result, const loom_result told)
{
    *result = told;
}

loom_status insert(loom__machine *machine, const void *view, const loom__batch *batch, loom_status outcome)
{
    cuda_map_call call = call_on(machine, view, batch, OP_KEEP);
    cuda_ticket ticket = {}; /* nothing is counted: the ticket only holds the result */
    loom_result told = {};
    told.status = outcome;
    told.keys = told.ok = batch->n;
    ticket.result = &told;
    call.outcome = outcome;
    ON_DEVICE(call.cuda);
    if (batch->added != NULL)
        return insert_and_tell(&call);
    RETURN_IF_FAILED(locate(&call));
    RETURN_IF_FAILED(insert_items(&call));
    if (call.place != PLACE_PAGEABLE)
        tell_kernel<<<1, 1, 0, call.stream>>>(batch->result, told);
    CUDA_TRY(cudaGetLastError());
    return cuda_hand_over(batch, &call.arrays, &ticket, call.place);
}

/* Slices, not batches, are compared with the filter: each slice reads and writes the whole filter. */
int bulk_pays(loom__machine *machine, const void *view, uint64_t n)
{
    return n >= LEAST_BY_PARTITION &&
           slice_keys((cuda_state *)machine, n) >= static_cast<const loom__filter_view *>(view)->blocks;
}

uint64_t bulk_bytes(loom__machine *machine, const void *view, uint64_t n)
{
    const cuda_state *cuda = (cuda_state *)machine;
    const loom__filter_view *own = static_cast<const loom__filter_view *>(view);
    const uint64_t keys = slice_keys(cuda, n);
    split_plan plan;
    return plan_slice(cuda, own, keys, &plan) ? bytes_by_partition(own, keys, &plan) : 0;
}

uint64_t order_bytes(loom__machine *machine, const void *view, uint64_t n)
{
    const loom__filter_view *own = static_cast<const loom__filter_view *>(view);
    const uint64_t bytes = cuda_in_order_bytes((cuda_state *)machine, slot_kind_of(own->key_bytes, 0), n);
    return bytes > 0 ? bytes + stand_in_bytes(own, n) : 0;
}

} // namespace

const loom__filter_kernels cuda_filter_kernels = {
    cuda_filter_clear, insert, contains, bulk_pays, bulk_bytes, order_bytes, cuda_filter_merge, cuda_filter_survey,
};
