/* Multimaps on the cuda machine: the list of calls, lookups of one value per key, and what the other files share. */
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/multi/cuda_chain_views.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"

namespace
{

const loom__multi_view *view_of(const void *any_view)
{
    return static_cast<const loom__multi_view *>(any_view);
}

/* ---- one value per key ---- */

const uint64_t MOST_AT_ONCE = 1 << 24; /* keys that a launch looks up: it has memory for their handles */

/* Of a chain, the first value of the newest piece, which its handle knows. */
__global__ void __launch_bounds__(MULTI_THREADS)
    first_values_kernel(const loom__multi_view view, const uint64_t *handles, uint64_t n, void *values, uint64_t absent)
{
    const uint64_t i = multi_item();
    if (i >= n)
        return;
    const uint32_t bytes = (uint32_t)view.value_bytes;
    const uint64_t handle = handles[i];
    const uint64_t value = list_count(handle) == 0 ? absent
                           : list_in_heap(handle)  ? multi_load_value(view.heap, list_first(handle), bytes)
                                                   : list_one_value(handle);
    put_number(bytes, values, i, value);
}

/* The same for values that are no numbers: 1 << shift lanes for each. */
template <class word>
__global__ void __launch_bounds__(MULTI_THREADS)
    first_wide_kernel(const loom__multi_view view, const uint64_t *handles, uint64_t n, unsigned char *values,
                      uint64_t absent, uint32_t shift)
{
    const uint64_t i = multi_item() >> shift, bytes = view.value_bytes;
    const uint32_t lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
    if (i >= n)
        return;
    const uint64_t handle = handles[i];
    unsigned char *to = values + i * bytes;
    if (list_count(handle) > 0)
        multi_copy_words<word>(to, multi_value_at(&view, list_first(handle)), bytes, lane, lanes);
    else
        for (uint64_t at = lane; at < bytes; at += lanes)
            to[at] = at < sizeof absent ? (unsigned char)(absent >> 8 * at) : 0;
}

cudaError_t launch_first_values(const loom__multi_view *view, const uint64_t *handles, const cuda_batch *batch,
                                cudaStream_t stream)
{
    if (multi_has_numbers(view)) {
        first_values_kernel<<<multi_blocks(batch->n), MULTI_THREADS, 0, stream>>>(*view, handles, batch->n,
                                                                                  batch->found_values, batch->absent);
        return cudaGetLastError();
    }
    const multi_words words =
        multi_words_for((uintptr_t)view->heap | (uintptr_t)batch->found_values, view->value_bytes);
    auto kernel = words.word == 16  ? first_wide_kernel<uint4>
                  : words.word == 8 ? first_wide_kernel<uint64_t>
                  : words.word == 4 ? first_wide_kernel<uint32_t>
                                    : first_wide_kernel<uint8_t>;
    kernel<<<multi_blocks(batch->n << words.shift), MULTI_THREADS, 0, stream>>>(
        *view, handles, batch->n, (unsigned char *)batch->found_values, batch->absent, words.shift);
    return cudaGetLastError();
}

cudaError_t launch_find(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    const loom__multi_view *view = view_of(call->view);
    loom__machine *machine = &call->cuda->base;
    cuda_batch look = *batch;
    if (batch->found_values == NULL)
        return cuda_directory_launch(call->cuda, view, batch, OP_FIND, stream);
    const cuda_workspace handles = cuda_take_workspace(machine, batch->n * sizeof(uint64_t), (loom_stream)stream, NULL);
    if (handles.at == NULL)
        return cudaErrorMemoryAllocation;
    look.found_values = handles.at;
    look.absent = 0;
    cudaError_t error = cuda_directory_launch(call->cuda, view, &look, OP_FIND, stream);
    if (error == cudaSuccess)
        error = launch_first_values(view, (const uint64_t *)handles.at, batch, stream);
    cuda_give_workspace(machine, &handles, (loom_stream)stream);
    return error;
}

loom_status refuse_capture(const loom__batch *batch)
{
    RETURN_ERROR_IF(batch->captured, LOOM_UNSUPPORTED,
                    "the stream is being captured into a graph, and calls on multimaps allocate memory; make the call "
                    "outside of the capture");
    return LOOM_OK;
}

loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    cuda_map_call call = cuda_multi_call_on(machine, view_of(any_view), batch, OP_FIND, launch_find);
    call.most = MOST_AT_ONCE;
    RETURN_IF_FAILED(refuse_capture(batch));
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    return cuda_run_call(&call);
}

/* ---- writing ---- */

loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    RETURN_IF_FAILED(refuse_capture(batch));
    switch (batch->write) {
    case LOOM__WRITE_KEEP:
        return cuda_multi_insert(machine, any_view, batch);
    case LOOM__WRITE_ERASE:
        return cuda_multi_erase(machine, any_view, batch);
    default:
        return loom__fail(LOOM_UNSUPPORTED,
                          "a key of a multimap has many values, and the call is about one; use a map");
    }
}

/* ---- whole tables ---- */

loom_status clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__multi_view *view = view_of(any_view);
    RETURN_IF_FAILED(cuda_directory_kernels(view)->clear(machine, multi_directory(view), stream));
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemsetAsync(view->lists, 0, sizeof *view->lists, (cudaStream_t)stream));
    return LOOM_OK;
}

loom_status reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals, loom_stream stream)
{
    return cuda_open_reset_totals(machine, multi_directory(view_of(any_view)), totals, stream);
}

loom_status upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream)
{
    return cuda_open_upkeep(machine, multi_directory(view_of(any_view)), sweep, stream);
}

loom_status count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                           uint64_t *accesses, loom_stream stream)
{
    return cuda_open_count_accesses(machine, multi_directory(view_of(any_view)), keys, n, accesses, stream);
}

} // namespace

/* ---- arrays as a whole ---- */

loom_status cuda_bring_array(cuda_state *cuda, const char *name, const void *array, uint64_t bytes, bool comes,
                             cudaStream_t stream, cuda_device_array *brought)
{
    cuda_place place;
    *brought = {(void *)array, (void *)array, bytes, {}};
    RETURN_IF_FAILED(cuda_locate(cuda, name, array, &place));
    if (place == PLACE_NONE || place == PLACE_DEVICE || bytes == 0)
        return LOOM_OK;
    brought->own = cuda_take_workspace(&cuda->base, bytes, (loom_stream)stream, NULL);
    brought->at = brought->own.at;
    RETURN_ERROR_IF(brought->at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had for a copy of %s, which lies in host memory",
                    (unsigned long long)bytes, name);
    if (comes)
        CUDA_TRY(cudaMemcpyAsync(brought->at, array, bytes, cudaMemcpyHostToDevice, stream));
    return LOOM_OK;
}

loom_status cuda_take_array_home(const cuda_device_array *array, cudaStream_t stream)
{
    if (array->own.at != NULL)
        CUDA_TRY(cudaMemcpyAsync(array->home, array->at, array->bytes, cudaMemcpyDeviceToHost, stream));
    return LOOM_OK;
}

void cuda_drop_array(cuda_state *cuda, cuda_device_array *array, cudaStream_t stream)
{
    cuda_give_workspace(&cuda->base, &array->own, (loom_stream)stream);
    array->own = {};
}

const loom__map_kernels cuda_multi_kernels = {
    clear,
    reset_totals,
    find,
    write,
    write,
    cuda_multi_bulk_bytes,
    NULL, /* bulk_pays: `write` chooses itself */
    cuda_multi_refill,
    cuda_multi_retrieve,
    cuda_multi_survey,
    upkeep,
    cuda_chain_fold_size,
    count_accesses,
    NULL, /* erase_if */
    cuda_multi_find_all,
    cuda_multi_erase_pairs,
    1, /* tries_builds */
    cuda_multi_host_array_bytes,
    cuda_chain_zero_free,
};
