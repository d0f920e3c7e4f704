/* Bulk calls, whatever the engine: arrays where kernels can reach them.
 *
 * Arrays in device or managed memory are used as they are. Host arrays travel in chunks through two buffers, so that one chunk
 * is copied while the other is worked on. */
#include "machines/cuda/core/cuda_call.cuh"

#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

#include <string.h>

enum { BUSY_WARPS = 48 /* of a multiprocessor that has enough to do */ };

loom_status cuda_locate_arrays(const cuda_state *cuda, uint32_t key_bytes, uint32_t value_bytes,
                               const loom__batch *batch, cuda_call_arrays *arrays)
{
    uint32_t number_bytes = loom__number_bytes(batch->widening, value_bytes);
    *arrays =
        cuda_call_arrays{{{"keys", (void *)batch->keys, key_bytes, 0, PLACE_NONE},
                          {"values", (void *)batch->values, number_bytes, 0, PLACE_NONE},
                          {batch->values != NULL ? "found" : "values", batch->found_values, value_bytes, 1, PLACE_NONE},
                          {"found", batch->found, 1, 1, PLACE_NONE},
                          {"status", batch->status, 1, 1, PLACE_NONE}},
                         false,
                         0};
    for (cuda_call_array &array : arrays->all) {
        RETURN_IF_FAILED(cuda_locate(cuda, array.name, array.at, &array.place));
        if (array.staged()) {
            arrays->staged = true;
            arrays->staged_bytes += array.width;
        }
    }
    return LOOM_OK;
}

cuda_batch cuda_batch_of(const cuda_state *cuda, void *const at[CALL_ARRAYS], uint64_t n, const loom__batch *batch,
                         cuda_counts *counts)
{
    return cuda_batch{at[CALL_KEYS],
                      at[CALL_VALUES],
                      at[CALL_FOUND_VALUES],
                      (uint8_t *)at[CALL_FOUND],
                      (uint8_t *)at[CALL_STATUS],
                      n,
                      cuda_tile_of(cuda, n),
                      batch->how,
                      batch->widening,
                      counts};
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
    unsigned char *pinned[CALL_ARRAYS]; /* of pageable arrays */
};

struct staged_call {
    cuda_state *cuda;
    const cuda_call_arrays *arrays;
    cuda_chunk_work *work;
    void *argument;
    bool writes_back, in_turn;
    uint64_t n, per_chunk;
    chunk chunks[STAGE_BUFFERS];
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

/* By all host threads: one alone is slower than the link. */
void copy_on_host(cuda_state *cuda, void *to, const void *from, size_t bytes)
{
    host_copy copy = {(unsigned char *)to, (const unsigned char *)from, bytes};
    cuda->host->ops->host_parallel(cuda->host, (bytes + HOST_PIECE - 1) / HOST_PIECE, copy_piece, &copy);
}

cudaError_t launch_chunk(staged_call *call, int buffer, uint64_t first)
{
    cuda_stage *stage = &call->cuda->stage;
    cudaStream_t stream = stage->stream[buffer];
    chunk *c = &call->chunks[buffer];
    c->first = first;
    c->count = call->n - first < call->per_chunk ? call->n - first : call->per_chunk;
    uint64_t offset = 0;
    for (int i = 0; i < CALL_ARRAYS; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        unsigned char *there = (unsigned char *)array->at + first * array->width;
        c->on_device[i] = array->at != NULL ? there : NULL;
        if (!array->staged())
            continue;
        c->on_device[i] = stage->device[buffer] + offset;
        c->pinned[i] = array->place == PLACE_PINNED ? there : stage->pinned[buffer] + offset;
        offset += (call->per_chunk * array->width + 255) / 256 * 256;
        if (array->written)
            continue;
        if (array->place == PLACE_PAGEABLE)
            copy_on_host(call->cuda, c->pinned[i], there, c->count * array->width);
        cudaError_t error =
            cudaMemcpyAsync(c->on_device[i], c->pinned[i], c->count * array->width, cudaMemcpyHostToDevice, stream);
        if (error != cudaSuccess)
            return error;
    }
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < STAGE_BUFFERS && error == cudaSuccess && call->in_turn; i++)
        if (i != buffer) /* of an earlier chunk, or of a call that is long over */
            error = cudaStreamWaitEvent(stream, stage->done[i], 0);
    if (error == cudaSuccess)
        error = call->work(call->argument, c->on_device, first, c->count, stream);
    for (int i = 0; i < CALL_ARRAYS && error == cudaSuccess && call->writes_back; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        if (array->staged() && array->written)
            error =
                cudaMemcpyAsync(c->pinned[i], c->on_device[i], c->count * array->width, cudaMemcpyDeviceToHost, stream);
    }
    return error == cudaSuccess ? cudaEventRecord(stage->done[buffer], stream) : error;
}

/* Waits for a chunk and brings its answers home. */
cudaError_t finish_chunk(staged_call *call, int buffer)
{
    chunk *c = &call->chunks[buffer];
    if (c->count == 0)
        return cudaSuccess;
    cudaError_t error = cudaEventSynchronize(call->cuda->stage.done[buffer]);
    for (int i = 0; i < CALL_ARRAYS && error == cudaSuccess && call->writes_back; i++) {
        const cuda_call_array *array = &call->arrays->all[i];
        if (array->place == PLACE_PAGEABLE && array->written)
            copy_on_host(call->cuda, (unsigned char *)array->at + c->first * array->width, c->pinned[i],
                         c->count * array->width);
    }
    c->count = 0;
    return error;
}

cudaError_t run_chunks(staged_call *call, cudaStream_t stream)
{
    cuda_stage *stage = &call->cuda->stage;
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
        cudaStreamSynchronize(stage->stream[i]); /* a kernel may have been launched whose end nobody waited for */
    return error;
}

} // namespace

loom_status cuda_run_staged(cuda_state *cuda, const cuda_call_arrays *arrays, uint64_t n, cuda_chunk_work *work,
                            void *argument, bool writes_back, cudaStream_t stream, bool in_turn)
{
    staged_call call = {};
    call.cuda = cuda;
    call.arrays = arrays;
    call.work = work;
    call.argument = argument;
    call.writes_back = writes_back;
    call.in_turn = in_turn;
    call.n = n;
    call.per_chunk = (STAGE_BYTES - CALL_ARRAYS * 256) / arrays->staged_bytes / 512 * 512;
    RETURN_IF_FAILED(cuda_stage_enter(cuda));
    cudaError_t error = cuda_step(run_chunks(&call, stream));
    cuda_stage_leave(cuda);
    return error == cudaSuccess ? LOOM_OK : cuda_failed(error, "working on a batch of host arrays");
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

loom_status cuda_hand_over(const loom__batch *batch, const cuda_call_arrays *arrays, const cuda_slot *slot,
                           cuda_place place)
{
    if (place != PLACE_PAGEABLE && !arrays->staged)
        return LOOM_OK;
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)batch->stream));
    if (place == PLACE_PAGEABLE)
        *batch->result = *slot->result;
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
