/* Brings the arrays of a bulk call to where kernels can reach them, for any engine.
 *
 * Kernels use arrays in device or managed memory directly. Host arrays pass through the two buffers of a stage in
 * chunks. One chunk is copied while a kernel works on the other. */
#include "machines/cuda/core/cuda_call.cuh"

#include "core/call_parts.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

#include <string.h>

enum { BUSY_WARPS = 48 /* warps that keep a multiprocessor busy */ };

loom_status cuda_locate_arrays(const cuda_state *cuda, uint32_t key_bytes, uint32_t value_bytes,
                               const loom__batch *batch, cuda_call_arrays *arrays)
{
    const uint32_t number_bytes = loom__number_bytes(batch->widening, value_bytes);
    const char *found = batch->values != NULL ? "found" : "values";
    const bool adds = batch->added != NULL;
    const uint64_t n = batch->n;
    *arrays =
        cuda_call_arrays{{{"keys", (void *)batch->keys, key_bytes, n, false, false, PLACE_NONE},
                          {"values", (void *)batch->values, number_bytes, n, false, false, PLACE_NONE},
                          {found, batch->found_values, value_bytes, n, true, false, PLACE_NONE},
                          {adds ? "added" : "found", adds ? batch->added : batch->found, 1, n, true, false, PLACE_NONE},
                          {"status", batch->status, 1, n, true, false, PLACE_NONE}},
                         false};
    return cuda_locate_all(cuda, arrays);
}

loom_status cuda_locate_all(const cuda_state *cuda, cuda_call_arrays *arrays)
{
    arrays->staged = false;
    for (cuda_call_array &array : arrays->all) {
        RETURN_IF_FAILED(cuda_locate(cuda, array.name, array.at, &array.place));
        arrays->staged = arrays->staged || array.staged();
    }
    return LOOM_OK;
}

cuda_batch cuda_batch_of(const cuda_state *cuda, void *const at[CALL_ARRAYS], uint64_t n, const loom__batch *batch,
                         cuda_counts *counts)
{
    uint8_t *found = (uint8_t *)at[CALL_FOUND], *status = (uint8_t *)at[CALL_STATUS];
    const uint32_t tile = cuda_tile_of(cuda, n);
    return {at[CALL_KEYS], at[CALL_VALUES], at[CALL_FOUND_VALUES], found,  status,        n,
            tile,          batch->rule,     batch->widening,       counts, batch->absent, batch->read_beside};
}

uint32_t cuda_tile_of(const cuda_state *cuda, uint64_t n)
{
    uint64_t share = n / ((uint64_t)cuda->multiprocessors * BUSY_WARPS) + 1;
    return share < TILE_ITEMS ? (uint32_t)(share + 31) / 32 * 32 : (uint32_t)TILE_ITEMS;
}

/* ---- host arrays ---- */

namespace
{

/* One chunk in one buffer. */
struct chunk {
    uint64_t first, count;
    void *on_device[CALL_ARRAYS];
    unsigned char *pinned[CALL_ARRAYS]; /* a pinned array itself, or the buffer of a pageable array */
};

struct staged_call {
    cuda_state *cuda;
    const cuda_stage *stage;
    const cuda_call_arrays *arrays;
    cuda_chunk_work *work;
    void *argument;
    bool writes_back, one_at_a_time;
    uint64_t n, per_chunk;
    cuda_workspace whole[CALL_ARRAYS]; /* copies of whole arrays that are staged */
    chunk chunks[STAGE_BUFFERS];

    /* Whether the array is staged chunk by chunk. */
    bool in_chunks(int i) const
    {
        return arrays->all[i].staged() && !arrays->all[i].whole;
    }
    bool comes_home(int i) const
    {
        return writes_back && in_chunks(i) && arrays->all[i].written;
    }
    /* Elements that follow the element of the last item, as in offsets[n + 1]. */
    uint32_t more(int i) const
    {
        return (uint32_t)(arrays->all[i].count - n);
    }
    /* Bytes of the elements that a chunk reaches, and of those that it copies back. */
    uint64_t bytes(int i, const chunk &c) const
    {
        return (c.count + more(i)) * arrays->all[i].width;
    }
    uint64_t bytes_home(int i, const chunk &c) const
    {
        return c.first + c.count == n ? bytes(i, c) : c.count * arrays->all[i].width;
    }
};

struct host_copy {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
};

const size_t HOST_PIECE = 1 << 20;

void copy_piece(void *argument, uint64_t index)
{
    const host_copy *copy = (const host_copy *)argument;
    size_t begin = index * HOST_PIECE, left = copy->bytes - begin;
    memcpy(copy->to + begin, copy->from + begin, left < HOST_PIECE ? left : HOST_PIECE);
}

/* All host threads copy: one thread is slower than the link. A small array is not worth waking them. */
void copy_on_host(cuda_state *cuda, void *to, const void *from, size_t bytes)
{
    if (bytes <= HOST_PIECE) {
        memcpy(to, from, bytes);
        return;
    }
    host_copy copy = {(unsigned char *)to, (const unsigned char *)from, bytes};
    cuda->host->ops->host_parallel(cuda->host, (bytes + HOST_PIECE - 1) / HOST_PIECE, copy_piece, &copy);
}

cudaError_t launch_chunk(staged_call *call, int buffer, uint64_t first)
{
    const cuda_stage *stage = call->stage;
    cudaStream_t stream = stage->stream[buffer];
    chunk *c = &call->chunks[buffer];
    c->first = first;
    c->count = call->n - first < call->per_chunk ? call->n - first : call->per_chunk;
    uint64_t offset = 0;
    for (int i = 0; i < CALL_ARRAYS; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        if (array->at == NULL || array->whole) {
            c->on_device[i] = call->whole[i].at != NULL ? (void *)call->whole[i].at : array->at;
            continue;
        }
        unsigned char *there = (unsigned char *)array->at + first * array->width;
        c->on_device[i] = there;
        if (!array->staged())
            continue;
        c->on_device[i] = stage->device[buffer] + offset;
        c->pinned[i] = array->place == PLACE_PINNED ? there : stage->pinned[buffer] + offset;
        offset += loom__chunk_column_bytes({array->width, call->more(i)}, call->per_chunk);
        if (array->written)
            continue;
        const uint64_t bytes = call->bytes(i, *c);
        if (array->place == PLACE_PAGEABLE)
            copy_on_host(call->cuda, c->pinned[i], there, bytes);
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(c->on_device[i], c->pinned[i], bytes, cudaMemcpyHostToDevice, stream));
    }
    for (int i = 0; i < STAGE_BUFFERS && call->one_at_a_time; i++)
        if (i != buffer) /* an event of an earlier chunk, or of an earlier call that has ended */
            RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(stream, stage->done[i], 0));
    RETURN_IF_CUDA_FAILED(call->work(call->argument, c->on_device, first, c->count, stream));
    for (int i = 0; i < CALL_ARRAYS; i++)
        if (call->comes_home(i))
            RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(c->pinned[i], c->on_device[i], call->bytes_home(i, *c),
                                                  cudaMemcpyDeviceToHost, stream));
    return cudaEventRecord(stage->done[buffer], stream);
}

/* Waits for a chunk, and copies its answers to pageable arrays. */
cudaError_t finish_chunk(staged_call *call, int buffer)
{
    chunk *c = &call->chunks[buffer];
    if (c->count == 0)
        return cudaSuccess;
    const cudaError_t error = cudaEventSynchronize(call->stage->done[buffer]);
    for (int i = 0; i < CALL_ARRAYS && error == cudaSuccess; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        if (call->comes_home(i) && array->place == PLACE_PAGEABLE)
            copy_on_host(call->cuda, (unsigned char *)array->at + c->first * array->width, c->pinned[i],
                         call->bytes_home(i, *c));
    }
    c->count = 0;
    return error;
}

cudaError_t run_chunks(staged_call *call, cudaStream_t stream)
{
    const cuda_stage *stage = call->stage;
    cudaError_t error = cudaEventRecord(stage->begun, stream);
    for (int i = 0; i < STAGE_BUFFERS && error == cudaSuccess; i++)
        error = cudaStreamWaitEvent(stage->stream[i], stage->begun, 0);
    int buffer = 0;
    for (uint64_t first = 0; first < call->n && error == cudaSuccess; first += call->per_chunk) {
        error = finish_chunk(call, buffer);
        if (error == cudaSuccess)
            error = launch_chunk(call, buffer, first);
        buffer = (buffer + 1) % STAGE_BUFFERS;
    }
    for (int i = 0; i < STAGE_BUFFERS; i++) {
        cudaError_t last = finish_chunk(call, (buffer + i) % STAGE_BUFFERS);
        error = error == cudaSuccess ? last : error;
    }
    for (int i = 0; i < STAGE_BUFFERS && error != cudaSuccess; i++)
        cudaStreamSynchronize(stage->stream[i]); /* a kernel that was launched before the error may still run */
    return error;
}

/* Copies each staged whole array to temporary memory, even if the work only writes to the array: the work need not
 * write every element, and all elements are copied back. */
loom_status take_whole(staged_call *call, cudaStream_t stream)
{
    for (int i = 0; i < CALL_ARRAYS; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        const uint64_t bytes = array->count * array->width;
        if (!array->whole || !array->staged() || bytes == 0)
            continue;
        call->whole[i] = cuda_take_workspace(&call->cuda->base, bytes, (loom_stream)stream, NULL);
        RETURN_ERROR_IF(call->whole[i].at == NULL, LOOM_OUT_OF_MEMORY,
                        "%llu bytes of temporary memory could not be had for a copy of %s, which lies in host memory",
                        (unsigned long long)bytes, array->name);
        CUDA_TRY(cudaMemcpyAsync(call->whole[i].at, array->at, bytes, cudaMemcpyDefault, stream));
    }
    return LOOM_OK;
}

loom_status bring_whole_home(staged_call *call, cudaStream_t stream)
{
    for (int i = 0; i < CALL_ARRAYS && call->writes_back; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        if (call->whole[i].at == NULL || !array->written)
            continue;
        CUDA_TRY(cudaMemcpyAsync(array->at, call->whole[i].at, call->whole[i].bytes, cudaMemcpyDefault, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    return LOOM_OK;
}

loom_status run_staged(staged_call *call, bool small, cudaStream_t stream)
{
    RETURN_IF_FAILED(take_whole(call, stream));
    {
        cuda_stage_scope scope(call->cuda, small);
        RETURN_IF_FAILED(scope.status);
        call->stage = scope.stage;
        RETURN_IF_FAILED(cuda_status(cuda_step(run_chunks(call, stream)), "working on a batch of host arrays"));
    }
    return bring_whole_home(call, stream);
}

} // namespace

loom_status cuda_run_arrays(cuda_state *cuda, const cuda_call_arrays *arrays, uint64_t n, cuda_chunk_work *work,
                            void *argument, bool writes_back, cudaStream_t stream, bool one_at_a_time)
{
    void *at[CALL_ARRAYS];
    if (n == 0) /* a grid needs at least one block */
        return LOOM_OK;
    if (!arrays->staged) {
        arrays->addresses(at);
        return cuda_status(cuda_step(work(argument, at, 0, n, stream)), "working on a batch");
    }
    staged_call call = {cuda, NULL, arrays, work, argument, writes_back, one_at_a_time, n, 0, {}, {}};
    loom__chunk_column columns[CALL_ARRAYS];
    uint32_t staged = 0;
    for (int i = 0; i < CALL_ARRAYS; i++)
        if (call.in_chunks(i))
            columns[staged++] = {arrays->all[i].width, call.more(i)};
    const uint64_t fit = loom__chunk_items(columns, staged, STAGE_BYTES);
    RETURN_ERROR_IF(fit == 0, LOOM_UNSUPPORTED,
                    "the arrays in host memory have more than %d bytes for each key, which do not pass through the "
                    "staging buffer; give arrays on the device",
                    (int)STAGE_BYTES);
    call.per_chunk = fit < n ? fit : n;
    const bool small = loom__chunk_items(columns, staged, SMALL_STAGE_BYTES) >= n;
    loom_status status = run_staged(&call, small, stream);
    for (int i = 0; i < CALL_ARRAYS; i++)
        cuda_give_workspace(&cuda->base, &call.whole[i], (loom_stream)stream);
    return status;
}

/* ---- results ---- */

static __global__ void finish_kernel(const cuda_finish finish)
{
    finish_counts(finish);
}

cudaError_t cuda_launch_finish(const cuda_finish &finish, cudaStream_t stream)
{
    finish_kernel<<<1, COUNT_COPIES, 0, stream>>>(finish);
    return cudaGetLastError();
}

loom_status cuda_hand_over(const loom__batch *batch, const cuda_call_arrays *arrays, const cuda_ticket *ticket,
                           cuda_place place)
{
    if (place != PLACE_PAGEABLE && !arrays->staged)
        return LOOM_OK;
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)batch->stream));
    if (place == PLACE_PAGEABLE)
        *batch->result = *ticket->result;
    return LOOM_OK;
}

/* ---- workspaces ---- */

cuda_workspace cuda_take_workspace(loom__machine *machine, uint64_t bytes, loom_stream stream, const loom__batch *batch)
{
    if (batch != NULL && batch->workspace != NULL && bytes <= batch->workspace_bytes)
        return {(unsigned char *)batch->workspace, bytes, true};
    const loom_allocator *allocator = &machine->allocator;
    return {(unsigned char *)allocator->allocate(allocator->user, bytes, 256, LOOM_MEMORY_TEMPORARY, stream), bytes,
            false};
}

void cuda_give_workspace(loom__machine *machine, const cuda_workspace *given, loom_stream stream)
{
    const loom_allocator *allocator = &machine->allocator;
    if (given->at != NULL && !given->callers)
        allocator->release(allocator->user, given->at, given->bytes, LOOM_MEMORY_TEMPORARY, stream);
}
