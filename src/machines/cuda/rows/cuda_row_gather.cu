/* Lookups in tables with rows in host memory: the host's threads gather the rows.
 *
 * Host threads read rows at random some 15 times as fast as the device does over its link (core/row_plan.h). The keys
 * of a lookup pass in chunks through the two buffers of a stage:
 *   1. the numbers of the rows go to the host,
 *   2. the host's threads copy these rows into the buffer, one behind the other,
 *   3. the buffer goes to the device,
 *   4. a kernel compares the keys, and copies values to the caller's array.
 * While the threads gather one chunk, the other chunk is on the link or in the kernel.
 *
 * The context keeps stages for other calls. Their memory on the device counts all the same, so a call with little memory
 * takes a small stage. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"

#include <string.h>

namespace
{

enum {
    THREADS = 256,
    TASK_ROWS = 2048, /* rows that a host thread gathers at a time */
    AHEAD = 32        /* rows ahead that it prefetches */
};

/* A gathered row: its key, or key and value together, then a value that lies apart. */
struct gathered_row {
    uint32_t first_bytes;  /* of the first piece */
    uint32_t second_bytes; /* of the second; 0: there is none */
    uint32_t value_at;
    uint32_t bytes;
};

gathered_row gathered_row_of(const loom__rows_view *view, const cuda_batch *batch)
{
    const bool values = batch->found_values != NULL && view->value_bytes > 0;
    gathered_row row = {view->key_stride, 0, (uint32_t)(view->values - view->rows), 0};
    if (view->apart || view->value_bytes == 0) {
        row.second_bytes = values ? view->value_stride : 0;
        row.value_at = row.first_bytes;
    }
    row.bytes = row.first_bytes + row.second_bytes;
    return row;
}

struct gather_task {
    const loom__rows_view *view;
    gathered_row row;
    const uint64_t *numbers;
    unsigned char *to;
    uint64_t count;
};

/* Copies pieces of `bytes` bytes; a literal for the usual widths. */
inline __attribute__((always_inline)) void gather_pieces(const gather_task *task, const unsigned char *from,
                                                         uint64_t stride, uint32_t at, size_t bytes, uint64_t first,
                                                         uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        if (i + AHEAD < end) {
            const unsigned char *ahead = from + task->numbers[i + AHEAD] * stride;
            __builtin_prefetch(ahead, 0, 0);
            if (bytes > 64)
                __builtin_prefetch(ahead + 64, 0, 0);
        }
        memcpy(task->to + i * task->row.bytes + at, from + task->numbers[i] * stride, bytes);
    }
}

void gather_column(const gather_task *task, const unsigned char *from, uint64_t stride, uint32_t at, uint32_t bytes,
                   uint64_t first, uint64_t end)
{
    switch (bytes) {
    case 8:
        return gather_pieces(task, from, stride, at, 8, first, end);
    case 16:
        return gather_pieces(task, from, stride, at, 16, first, end);
    case 24:
        return gather_pieces(task, from, stride, at, 24, first, end);
    case 32:
        return gather_pieces(task, from, stride, at, 32, first, end);
    default:
        return gather_pieces(task, from, stride, at, bytes, first, end);
    }
}

void gather_rows(void *argument, uint64_t index)
{
    const gather_task *task = (const gather_task *)argument;
    const uint64_t first = index * TASK_ROWS, left = task->count - first;
    const uint64_t end = first + (left < TASK_ROWS ? left : (uint64_t)TASK_ROWS);
    gather_column(task, task->view->rows, task->view->key_stride, 0, task->row.first_bytes, first, end);
    if (task->row.second_bytes > 0)
        gather_column(task, task->view->values, task->view->value_stride, task->row.first_bytes, task->row.second_bytes,
                      first, end);
}

/* The widths that a settling kernel needs, in words. */
struct settle_words {
    uint32_t row, key, value_at, value, shift; /* 1 << shift lanes compare a row */
};

template <class word>
__global__ void __launch_bounds__(THREADS)
    settle_kernel(const word *rows, const cuda_sought_rows sought, uint64_t count, const settle_words words,
                  const __grid_constant__ cuda_batch batch, const cuda_sought_rows left)
{
    const uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x, i = thread >> words.shift;
    const uint32_t lanes = 1u << words.shift, lane = (uint32_t)thread & (lanes - 1), own = threadIdx.x % 32;
    const uint32_t together = (lanes == 32 ? 0xffffffffu : (1u << lanes) - 1) << (own & ~(lanes - 1));
    const bool active = i < count;
    const uint64_t item = active ? sought.items[i] : 0;
    const word *row = rows + (active ? i : 0) * words.row, *key = (const word *)batch.keys + item * words.key;
    word *value = (word *)batch.found_values + item * words.value;
    bool differs = false;
    for (uint32_t w = lane; w < words.key; w += lanes)
        differs = differs || row[w] != key[w];
    const bool other = (__ballot_sync(0xffffffffu, differs) & together) != 0;
    if (active && other && lane == 0) {
        const unsigned long long at = atomicAdd(left.count, 1ull);
        left.items[at] = (uint32_t)item;
        left.rows[at] = sought.rows[i];
    }
    for (uint32_t w = lane; w < words.value && active && !other; w += lanes)
        value[w] = row[words.value_at + w];
    if (batch.counts != NULL)
        add_count(&batch.counts[blockIdx.x % COUNT_COPIES].ok, (uint32_t)(active && !other && lane == 0));
}

template <class word>
cudaError_t launch_settle(const loom__rows_view *view, const cuda_batch *batch, const gathered_row *row,
                          const unsigned char *rows, const cuda_sought_rows &sought, uint64_t count,
                          const cuda_sought_rows &left, cudaStream_t stream)
{
    const bool values = batch->found_values != NULL && view->value_bytes > 0;
    settle_words words = {(uint32_t)(row->bytes / sizeof(word)), (uint32_t)(view->key_bytes / sizeof(word)),
                          (uint32_t)(row->value_at / sizeof(word)),
                          values ? (uint32_t)(view->value_bytes / sizeof(word)) : 0, 0};
    const uint32_t widest = words.key > words.value ? words.key : words.value;
    while (1u << words.shift < loom__row_lanes(widest))
        words.shift++;
    const uint64_t threads = count << words.shift;
    settle_kernel<word><<<(unsigned)((threads + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
        (const word *)rows, sought, count, words, *batch, left);
    return cudaGetLastError();
}

struct gather_call {
    cuda_state *cuda;
    const loom__rows_view *view;
    const cuda_batch *batch;
    const cuda_sought_rows *sought, *left;
    const cuda_stage *stage;
    gathered_row row;
    uint64_t count, each; /* keys in all, and of a chunk */
};

/* Items of chunk `index`. */
uint64_t chunk_count(const gather_call &call, uint64_t index)
{
    const uint64_t left = call.count - index * call.each;
    return left < call.each ? left : call.each;
}

cudaError_t fetch_numbers(const gather_call &call, uint64_t index)
{
    const int buffer = (int)(index % STAGE_BUFFERS);
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(call.stage->pinned[buffer], call.sought->rows + index * call.each,
                                          chunk_count(call, index) * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                                          call.stage->stream[buffer]));
    return cudaEventRecord(call.stage->done[buffer], call.stage->stream[buffer]);
}

cudaError_t settle_chunk(const gather_call &call, uint64_t index)
{
    const int buffer = (int)(index % STAGE_BUFFERS);
    const uint64_t count = chunk_count(call, index), at = cuda_aligned(call.each * sizeof(uint64_t));
    cudaStream_t stream = call.stage->stream[buffer];
    RETURN_IF_CUDA_FAILED(cudaEventSynchronize(call.stage->done[buffer]));
    gather_task task = {call.view, call.row, (const uint64_t *)call.stage->pinned[buffer],
                        call.stage->pinned[buffer] + at, count};
    call.cuda->host->ops->host_parallel(call.cuda->host, (count + TASK_ROWS - 1) / TASK_ROWS, gather_rows, &task);
    unsigned char *rows = call.stage->device[buffer];
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(rows, task.to, count * call.row.bytes, cudaMemcpyHostToDevice, stream));
    const uint64_t together = (uintptr_t)call.batch->keys | call.view->key_bytes | call.row.bytes | call.row.value_at |
                              (uintptr_t)call.batch->found_values |
                              (call.batch->found_values != NULL ? call.view->value_bytes : 0);
    const uint32_t word = loom__widest_word(together);
    auto launch = word >= 8 ? launch_settle<uint64_t> : word == 4 ? launch_settle<uint32_t> : launch_settle<uint8_t>;
    const uint64_t first = index * call.each;
    return launch(call.view, call.batch, &call.row, rows,
                  {call.sought->items + first, call.sought->rows + first, call.sought->count}, count, *call.left,
                  stream);
}

cudaError_t gather_chunks(const gather_call &call, cudaStream_t stream)
{
    const uint64_t chunks = (call.count + call.each - 1) / call.each;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(call.left->count, 0, sizeof *call.left->count, stream));
    RETURN_IF_CUDA_FAILED(cudaEventRecord(call.stage->begun, stream));
    for (int i = 0; i < STAGE_BUFFERS; i++)
        RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(call.stage->stream[i], call.stage->begun, 0));
    for (uint64_t i = 0; i < STAGE_BUFFERS && i < chunks; i++)
        RETURN_IF_CUDA_FAILED(fetch_numbers(call, i));
    for (uint64_t i = 0; i < chunks; i++) {
        RETURN_IF_CUDA_FAILED(settle_chunk(call, i));
        if (i + STAGE_BUFFERS < chunks)
            RETURN_IF_CUDA_FAILED(fetch_numbers(call, i + STAGE_BUFFERS));
    }
    for (int i = 0; i < STAGE_BUFFERS; i++)
        RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(call.stage->stream[i]));
    return cudaSuccess;
}

/* Bytes of a stage on the device. */
uint64_t stage_bytes(bool small)
{
    return small ? (uint64_t)STAGE_BUFFERS * SMALL_STAGE_BYTES : (uint64_t)STAGE_BUFFERS * STAGE_BYTES + SCRATCH_BYTES;
}

} // namespace

bool cuda_rows_may_gather(const cuda_row_staging &staging)
{
    return staging.left() >= stage_bytes(true);
}

cudaError_t cuda_rows_gather(cuda_row_staging *staging, const loom__rows_view *view, const cuda_batch *batch,
                             const cuda_sought_rows *sought, uint64_t count, const cuda_sought_rows *left, bool *begun,
                             cudaStream_t stream)
{
    const gathered_row row = gathered_row_of(view, batch);
    cuda_state *cuda = staging->cuda;
    const bool small = staging->left() < stage_bytes(false);
    *begun = cuda_rows_may_gather(*staging);
    if (!*begun)
        return cudaSuccess;
    const cuda_stage_scope scope(cuda, small);
    *begun = scope.status == LOOM_OK;
    if (!*begun)
        return cudaSuccess;
    staging->count(stage_bytes(small));
    gather_call call = {cuda, view, batch, sought, left, scope.stage, row, count, 0};
    call.each = (scope.stage->bytes - LOOM__CHUNK_ALIGNMENT) / (sizeof(uint64_t) + row.bytes);
    if (call.each > cuda->row_chunk)
        call.each = cuda->row_chunk;
    const cudaError_t error = gather_chunks(call, stream);
    for (int i = 0; i < STAGE_BUFFERS && error != cudaSuccess; i++)
        cudaStreamSynchronize(scope.stage->stream[i]);
    staging->uncount(stage_bytes(small));
    return error;
}
