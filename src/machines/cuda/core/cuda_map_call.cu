/* The steps of a bulk call on a map or set that all engines share. */
#include "machines/cuda/core/cuda_map_call.cuh"

namespace
{

enum { MOST_TO_FINISH = 1 << 17 };

/* Whether the call is a lookup whose `result` belongs to the library. The library reads only the status of that
 * result. */
bool is_uncounted(const cuda_map_call *call)
{
    return call->op == OP_FIND && call->batch.uncounted;
}

cudaError_t launch_items(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                         cudaStream_t stream)
{
    const cuda_map_call *call = (const cuda_map_call *)argument;
    (void)first;
    for (uint64_t done = 0; done < count; done += call->most) {
        void *here[CALL_ARRAYS];
        for (int i = 0; i < CALL_ARRAYS; i++)
            here[i] = at[i] != NULL ? (unsigned char *)at[i] + done * call->arrays.all[i].width : NULL;
        const uint64_t now = count - done < call->most ? count - done : call->most;
        const cuda_batch batch = cuda_batch_of(call->cuda, here, now, &call->batch, call->counts());
        RETURN_IF_CUDA_FAILED(call->launch(call, &batch, stream));
    }
    return cudaSuccess;
}

/* Whether the kernel that works on the items also writes the result. The blocks of a large batch would wait for each
 * other when they arrive at the end. */
bool finishes_itself(const cuda_map_call *call)
{
    const uint64_t n = call->batch.n;
    return call->may_finish && !call->arrays.staged && n > 0 && n <= MOST_TO_FINISH && n <= call->most;
}

struct split_work {
    const cuda_map_call *call;
    const bulk_target *target;
    const bulk_plan *plan;
    unsigned char *workspace;
};

cudaError_t split_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                        cudaStream_t stream)
{
    const split_work *work = (const split_work *)argument;
    const cuda_batch batch = cuda_batch_of(work->call->cuda, at, count, &work->call->batch, NULL);
    return cuda_bulk_split(work->target, &batch, first, work->plan, work->workspace, stream);
}

} // namespace

loom_status cuda_locate_call(cuda_map_call *call)
{
    RETURN_IF_FAILED(
        cuda_locate_arrays(call->cuda, call->key_bytes(), call->value_bytes(), &call->batch, &call->arrays));
    return is_uncounted(call) ? LOOM_OK : cuda_locate(call->cuda, "result", call->batch.result, &call->place);
}

loom_status cuda_try_stage(const cuda_map_call *call)
{
    return call->batch.replace && call->arrays.staged ? cuda_stage_scope(call->cuda).status : LOOM_OK;
}

cuda_map_call cuda_slice_of(const cuda_map_call *call, uint64_t first, uint64_t each)
{
    cuda_map_call slice = *call;
    const uint64_t n = call->batch.n;
    slice.batch.n = n - first < each ? n - first : each;
    slice.batch.replace = call->batch.replace && first == 0;
    slice.arrays = call->arrays.part(n, first, slice.batch.n);
    return slice;
}

loom_status cuda_run_items(const cuda_map_call *call, bool one_at_a_time)
{
    return cuda_run_arrays(call->cuda, &call->arrays, call->batch.n, launch_items, (void *)call, true, call->stream,
                           one_at_a_time);
}

loom_status cuda_split_items(const cuda_map_call *call, const bulk_target *target, const bulk_plan *plan,
                             unsigned char *workspace)
{
    split_work work = {call, target, plan, workspace};
    return cuda_run_arrays(call->cuda, &call->arrays, call->batch.n, split_chunk, &work, false, call->stream);
}

cuda_finish cuda_finish_of(const cuda_map_call *call, bool replaced)
{
    loom_result *result = call->place == PLACE_PAGEABLE ? call->ticket->result : call->batch.result;
    return {call->ticket->counts,          NULL, call->size, result, call->batch.n, call->op, replaced, call->outcome,
            &call->ticket->counts->arrived};
}

loom_status cuda_finish_call(const cuda_map_call *call, bool replaced)
{
    CUDA_TRY(cuda_launch_finish(cuda_finish_of(call, replaced), call->stream));
    return cuda_hand_over(&call->batch, &call->arrays, call->ticket, call->place);
}

namespace
{

/* Runs all items and writes the result. The call has a ticket. */
loom_status run_counted(cuda_map_call *call)
{
    cuda_finish finish = cuda_finish_of(call, false);
    const bool itself = finishes_itself(call);
    finish.packed = call->batch.n <= MOST_TO_PACK ? &call->ticket->counts->packed : NULL;
    call->finish = itself ? &finish : NULL;
    RETURN_IF_FAILED(cuda_run_items(call, call->one_at_a_time));
    return itself ? cuda_hand_over(&call->batch, &call->arrays, call->ticket, call->place) : cuda_finish_call(call);
}

/* The call neither waits nor allocates, and its kernels change only the table, the caller's arrays, workspace and
 * result. So the graph may be replayed. The counts lie in the workspace instead of in a ticket, because later calls use
 * the same tickets. */
loom_status capture_call(cuda_map_call *call)
{
    const loom__batch *batch = &call->batch;
    RETURN_ERROR_IF(
        call->arrays.staged || call->place == PLACE_PAGEABLE, LOOM_UNSUPPORTED,
        "the stream is being captured into a graph: there the arrays and the result of a call lie where the "
        "device reaches them; move them, or make the call outside of the capture");
    if (is_uncounted(call))
        return cuda_run_items(call);
    RETURN_ERROR_IF(
        batch->workspace == NULL || batch->workspace_bytes < COUNT_BYTES, LOOM_OUT_OF_MEMORY,
        "the stream is being captured into a graph, where a call with a result needs a workspace of %d bytes; give the "
        "table one (loom_map_set_workspace)",
        (int)COUNT_BYTES);
    cuda_ticket ticket = {};
    ticket.counts = (cuda_counts *)batch->workspace;
    call->ticket = &ticket;
    RETURN_IF_FAILED(cuda_clear_counts(call));
    return run_counted(call);
}

} // namespace

loom_status cuda_run_call(cuda_map_call *call)
{
    const cuda_workspace none = {};
    if (call->batch.captured)
        return capture_call(call);
    if (!is_uncounted(call))
        return cuda_with_ticket(call, &none, [&] { return run_counted(call); });
    RETURN_IF_FAILED(cuda_find_and_wait(call));
    call->batch.result->status = LOOM_OK;
    return LOOM_OK;
}

loom_status cuda_clear_counts(const cuda_map_call *call)
{
    CUDA_TRY(cudaMemsetAsync(call->ticket->counts, 0, COUNT_BYTES, call->stream));
    return LOOM_OK;
}

loom_status cuda_take_for_partitions(const cuda_map_call *call, uint64_t bytes, cuda_workspace *own)
{
    *own = cuda_take_workspace(&call->cuda->base, bytes, call->stream, &call->batch);
    RETURN_ERROR_IF(
        own->at == NULL && call->asks(LOOM_BY_PARTITION), LOOM_OUT_OF_MEMORY,
        "%llu bytes of temporary memory could not be had; go directly (LOOM_DIRECTLY), or free other memory",
        (unsigned long long)bytes);
    return LOOM_OK;
}
