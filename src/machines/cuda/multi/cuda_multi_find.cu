/* Looks up lists: find_counts, find_all.
 *
 * One lookup per key in the directory writes its handle. Counts come from the handles. For all values, a scan turns
 * the handles' counts into offsets, and then the lists are copied (cuda_copy_lists.cuh).
 *
 * Bytes moved for a key of 4 bytes with 8 values of 4 bytes: 4 for the key, 64 for the line of the directory, 3 * 8 for
 * the handle (written once, read twice), 2 * 8 for the offset, 2 * 32 for the list, which most often begins inside of a
 * sector, 32 for the copy: 204 bytes, 25.5 for each value. An H200 copies 4.0 TB/s, so that 157 G values/s is the
 * limit. Measured, 2026-11-18: 85 and 99, before and after keys and handles shared a line. Before, 0.38 of 0.73 ms were
 * the lookups, 0.05 the scan, 0.30 the copy. */
#include "machines/cuda/core/cuda_copy_wide.cuh"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"

#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace
{

struct list_length {
    const uint64_t *handles;
    uint64_t n, limit;
    __device__ __forceinline__ uint64_t operator()(uint64_t i) const
    {
        const uint64_t count = i < n ? list_count(handles[i]) : 0;
        return count < limit ? count : limit;
    }
};

typedef thrust::transform_iterator<list_length, thrust::counting_iterator<uint64_t>> length_iterator;

length_iterator lengths_of(const list_length &lengths)
{
    return length_iterator(thrust::counting_iterator<uint64_t>(0), lengths);
}

/* Handles become counts. */
__global__ void __launch_bounds__(MULTI_THREADS) count_kernel(uint64_t *handles, uint64_t n)
{
    if (multi_item() < n)
        handles[multi_item()] = list_count(handles[multi_item()]);
}

template <class value_type> struct answers {
    typedef value_type value;
    const unsigned char *heap;
    const uint64_t *handles, *offsets; /* [n], [n + 1] */
    value *values;
    uint64_t n, room;
    __device__ __forceinline__ copied_list list(uint64_t i) const
    {
        if (offsets[n] > room)
            return {};
        return {handles[i], 0, offsets[i + 1] - offsets[i], offsets[i]};
    }
    __device__ __forceinline__ void put(uint64_t, uint64_t at, value one) const
    {
        __stcs(values + at, one);
    }
};

/* The same for values that are neither 4 nor 8 bytes wide. */
struct wide_answers {
    const unsigned char *heap;
    const uint64_t *handles, *offsets;
    unsigned char *to;
    uint64_t n, room;
    __device__ __forceinline__ copied_list list(uint64_t i) const
    {
        if (offsets[n] > room)
            return {};
        return {handles[i], 0, offsets[i + 1] - offsets[i], offsets[i]};
    }
};

/* Writes the result: the counts of the lookup, and TOO_SMALL if more than `room` values are needed. */
__global__ void finish_lists_kernel(const cuda_finish finish, const uint64_t *needed, uint64_t room)
{
    finish_counts(finish);
    if (threadIdx.x == 0 && *needed > room)
        finish.result->status = LOOM_TOO_SMALL;
}

/* A query whose arrays are on the device. */
struct query_work {
    cuda_map_call *call; /* the lookup in the directory */
    const loom__multi_view *view;
    const loom__list_query *query;
    cuda_device_array keys, answers, status, values; /* answers: offsets or counts */
    cuda_workspace scratch;
    uint64_t needed;

    uint64_t *offsets() const
    {
        return (uint64_t *)answers.at;
    }
};

cudaError_t find_handles(const query_work *work, uint64_t *handles)
{
    const cuda_map_call *call = work->call;
    cuda_batch batch = cuda_directory_batch(call->cuda, work->keys.at, work->query->n);
    batch.found_values = handles;
    batch.status = (uint8_t *)work->status.at;
    batch.counts = call->counts();
    if (batch.n == 0)
        return cudaSuccess;
    return cuda_directory_launch(call->cuda, work->view, &batch, OP_FIND, call->stream);
}

loom_status find_counts(query_work *work)
{
    const uint64_t n = work->query->n;
    uint64_t *counts = (uint64_t *)work->answers.at;
    CUDA_TRY(find_handles(work, counts));
    if (n > 0)
        count_kernel<<<multi_blocks(n), MULTI_THREADS, 0, work->call->stream>>>(counts, n);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

template <class value> cudaError_t copy_answers(const query_work *work, const uint64_t *handles, long_lists *queue)
{
    const loom__list_query *query = work->query;
    const answers<value> lists = {work->view->heap,         handles,  work->offsets(),
                                  (value *)work->values.at, query->n, query->room};
    return copy_lists_by(work->call->cuda, lists, multi_is_chain(work->view) != 0, query->n, queue, work->call->stream);
}

cudaError_t copy_wide_answers(const query_work *work, const uint64_t *handles, long_lists *queue)
{
    const loom__list_query *query = work->query;
    const wide_answers lists = {work->view->heap, handles,    work->offsets(), (unsigned char *)work->values.at,
                                query->n,         query->room};
    return copy_wide_lists(work->call->cuda, lists, query->n, (uint32_t)work->view->value_bytes, queue,
                           work->call->stream);
}

/* The values go to an array of the caller's on the device, or to temporary memory, for which the device must first tell
 * how many there are. */
loom_status find_lists(query_work *work)
{
    const loom__list_query *query = work->query;
    cuda_state *cuda = work->call->cuda;
    cudaStream_t stream = work->call->stream;
    const uint64_t n = query->n;
    const list_length none = {};
    size_t scan_bytes = 0;
    CUDA_TRY(cub::DeviceScan::ExclusiveSum(NULL, scan_bytes, lengths_of(none), (uint64_t *)NULL, n + 1, stream));
    const uint64_t queue_at = cuda_aligned(n * sizeof(uint64_t)), scan_at = queue_at + cuda_aligned(sizeof(long_lists));
    const uint64_t bytes = scan_at + scan_bytes;
    work->scratch = cuda_take_workspace(&cuda->base, bytes, (loom_stream)stream, NULL);
    RETURN_ERROR_IF(work->scratch.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; ask for fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    uint64_t *handles = (uint64_t *)work->scratch.at;
    long_lists *queue = (long_lists *)(work->scratch.at + queue_at);
    CUDA_TRY(empty_queue(queue, stream)); /* first: the device is idle, and waits for the launch of the lookups */
    CUDA_TRY(find_handles(work, handles));
    CUDA_TRY(cub::DeviceScan::ExclusiveSum(work->scratch.at + scan_at, scan_bytes,
                                           lengths_of({handles, n, query->limit}), work->offsets(), n + 1, stream));
    cuda_place place = PLACE_NONE;
    RETURN_IF_FAILED(cuda_locate(cuda, "values", query->values, &place));
    const bool staged = place == PLACE_PINNED || place == PLACE_PAGEABLE;
    if (staged || query->needed != NULL) {
        CUDA_TRY(
            cudaMemcpyAsync(&work->needed, work->offsets() + n, sizeof work->needed, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    if (query->values == NULL || (staged && (work->needed > query->room || work->needed == 0)))
        return LOOM_OK;
    RETURN_IF_FAILED(cuda_bring_array(cuda, "values", query->values,
                                      staged ? work->needed * work->view->value_bytes : 0, false, stream,
                                      &work->values));
    CUDA_TRY(work->view->value_bytes == 4   ? copy_answers<uint32_t>(work, handles, queue)
             : work->view->value_bytes == 8 ? copy_answers<uint64_t>(work, handles, queue)
                                            : copy_wide_answers(work, handles, queue));
    return cuda_take_array_home(&work->values, stream);
}

loom_status run_query(query_work *work)
{
    const loom__list_query *query = work->query;
    cuda_map_call *call = work->call;
    const bool counts = query->offsets == NULL;
    void *answers = counts ? query->counts : query->offsets;
    const uint64_t n = query->n, key_bytes = call->key_bytes();
    RETURN_IF_FAILED(cuda_bring_array(call->cuda, "keys", query->keys, n * key_bytes, true, call->stream, &work->keys));
    RETURN_IF_FAILED(cuda_bring_array(call->cuda, counts ? "counts" : "offsets", answers,
                                      (n + !counts) * sizeof(uint64_t), false, call->stream, &work->answers));
    RETURN_IF_FAILED(cuda_bring_array(call->cuda, "status", query->status, n, false, call->stream, &work->status));
    RETURN_IF_FAILED(counts ? find_counts(work) : find_lists(work));
    const cuda_finish finish = cuda_finish_of(call, false);
    if (!counts && query->values != NULL)
        finish_lists_kernel<<<1, COUNT_COPIES, 0, call->stream>>>(finish, work->offsets() + n, query->room);
    else
        CUDA_TRY(cuda_launch_finish(finish, call->stream));
    CUDA_TRY(cudaGetLastError());
    RETURN_IF_FAILED(cuda_take_array_home(&work->answers, call->stream));
    RETURN_IF_FAILED(cuda_take_array_home(&work->status, call->stream));
    call->arrays.staged = work->keys.own.at != NULL || work->answers.own.at != NULL || work->values.own.at != NULL ||
                          work->status.own.at != NULL;
    RETURN_IF_FAILED(cuda_hand_over(&call->batch, &call->arrays, call->ticket, call->place));
    if (query->needed != NULL)
        *query->needed = work->needed;
    return LOOM_OK;
}

} // namespace

loom_status cuda_multi_find_all(loom__machine *machine, const void *any_view, const loom__list_query *query)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    loom__batch batch = {};
    batch.keys = query->keys;
    batch.n = query->n;
    batch.result = query->result;
    batch.stream = query->stream;
    cuda_map_call call = cuda_multi_call_on(machine, view, &batch, OP_FIND, NULL);
    query_work work = {};
    work.call = &call;
    work.view = view;
    work.query = query;
    call.size = NULL;
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate(call.cuda, "result", batch.result, &call.place));
    const loom_status status = cuda_with_ticket(&call, &work.scratch, [&] { return run_query(&work); });
    cuda_drop_array(call.cuda, &work.keys, call.stream);
    cuda_drop_array(call.cuda, &work.answers, call.stream);
    cuda_drop_array(call.cuda, &work.status, call.stream);
    cuda_drop_array(call.cuda, &work.values, call.stream);
    return status;
}
