/* The steps of a bulk call on a map or set that all engines share. */
#include "machines/cuda/core/cuda_map_call.cuh"

namespace
{

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

/* A stream behind all that the default stream waits for: its own work, and that of all streams which are ordered with
 * it. Two threads may get the same stream. */
cudaError_t take_find_stream(cuda_state *cuda, cudaStream_t *stream)
{
    const uint32_t next = __atomic_fetch_add(&cuda->next_find_stream, 1, __ATOMIC_RELAXED);
    const cuda_find_stream *own = &cuda->find_streams[next % FIND_STREAMS];
    *stream = own->stream;
    RETURN_IF_CUDA_FAILED(cudaEventRecord(own->behind, NULL));
    return cudaStreamWaitEvent(own->stream, own->behind, 0);
}

/* Runs a lookup without a result, and waits. Lookups in the default stream would run one after the other, whatever
 * thread they come from. So if another such lookup is under way, this one goes to another stream. */
loom_status run_and_wait(cuda_map_call *call)
{
    cuda_state *cuda = call->cuda;
    const bool on_device = !call->arrays.staged && call->batch.n > 0;
    const bool beside = __atomic_fetch_add(&cuda->waited_finds, 1, __ATOMIC_RELAXED) > 0;
    loom_status status = LOOM_OK;
    if (on_device && beside && call->stream == NULL)
        status = cuda_status(cuda_step(take_find_stream(cuda, &call->stream)), "ordering a lookup");
    if (status == LOOM_OK)
        status = cuda_run_items(call);
    if (on_device) { /* after a failure, too: later calls on the table do not wait for that other stream */
        const cudaError_t error = cudaStreamSynchronize(call->stream);
        status = status == LOOM_OK ? cuda_status(cuda_step(error), "waiting for a lookup") : status;
    }
    __atomic_fetch_sub(&cuda->waited_finds, 1, __ATOMIC_RELAXED);
    return status;
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
    RETURN_IF_FAILED(cuda_locate_arrays(call->cuda, slot_key_bytes(call->kind), slot_value_bytes(call->kind),
                                        &call->batch, &call->arrays));
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
    return {call->ticket->counts, call->size, result, call->batch.n, call->op, replaced, call->outcome, NULL};
}

loom_status cuda_finish_call(const cuda_map_call *call, bool replaced)
{
    CUDA_TRY(cuda_launch_finish(cuda_finish_of(call, replaced), call->stream));
    return cuda_hand_over(&call->batch, &call->arrays, call->ticket, call->place);
}

loom_status cuda_run_call(cuda_map_call *call)
{
    const cuda_workspace none = {};
    if (!is_uncounted(call))
        return cuda_with_ticket(call, &none, [&] {
            RETURN_IF_FAILED(cuda_run_items(call));
            return cuda_finish_call(call);
        });
    RETURN_IF_FAILED(run_and_wait(call));
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
