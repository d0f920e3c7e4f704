/* Windows: partitions that lie together, and whose rows pass the link between host memory and a buffer on the device in
 * one piece for each array of rows. Kernels work on a window through a view whose rows lie in the buffer. */
#ifndef LOOM_CUDA_ROW_WINDOWS_CUH
#define LOOM_CUDA_ROW_WINDOWS_CUH

#include "machines/cuda/rows/cuda_rows_engine.cuh"

/* The arrays of a table's rows: one, or keys and values apart. */
struct row_arrays {
    struct {
        unsigned char *at; /* of partition 0 */
        uint64_t partition_bytes;
    } all[2];
    int count;
    uint64_t partition_bytes; /* of all arrays */
};

inline row_arrays row_arrays_of(const loom__rows_view *view)
{
    const uint64_t rows = (uint64_t)view->lines.buckets * open_slots(SLOT_TAG);
    row_arrays arrays = {
        {{view->rows, rows * view->key_stride}, {view->values, rows * view->value_stride}}, view->apart ? 2 : 1, 0};
    for (int i = 0; i < arrays.count; i++)
        arrays.partition_bytes += arrays.all[i].partition_bytes;
    return arrays;
}

/* Bytes of the buffer for array i of a window with so many partitions. */
inline uint64_t window_buffer_bytes(const row_arrays &arrays, int i, uint64_t partitions)
{
    return i < arrays.count ? partitions * arrays.all[i].partition_bytes + CUDA_WINDOW_ALIGNMENT : 0;
}

struct row_window {
    loom__rows_view view; /* whose rows lie in the buffers */
    int count;
    struct {
        unsigned char *buffer, *home;
        uint64_t bytes;
    } pieces[2];
};

/* The window of `partitions` partitions from `first` on, with buffers of window_buffer_bytes. */
inline row_window row_window_of(const loom__rows_view *table, const row_arrays &arrays, uint64_t first,
                                uint64_t partitions, unsigned char *const buffers[2])
{
    row_window window = {*table, arrays.count, {}};
    for (int i = 0; i < arrays.count; i++) {
        const uint64_t at = first * arrays.all[i].partition_bytes;
        unsigned char *home = arrays.all[i].at + at;
        /* Kernels choose the width of their accesses by the address of the first row. */
        unsigned char *buffer = buffers[i] + (uintptr_t)home % CUDA_WINDOW_ALIGNMENT;
        window.pieces[i] = {buffer, home, partitions * arrays.all[i].partition_bytes};
        if (i == 0) {
            window.view.rows = buffer - at;
            window.view.values = window.view.rows + (table->values - table->rows);
        } else {
            window.view.values = buffer - at;
        }
    }
    return window;
}

/* Copies the rows between the buffers and their home. */
inline cudaError_t window_copy(const row_window &window, bool comes, cudaStream_t stream)
{
    for (int i = 0; i < window.count; i++)
        RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(comes ? window.pieces[i].buffer : window.pieces[i].home,
                                              comes ? window.pieces[i].home : window.pieces[i].buffer,
                                              window.pieces[i].bytes, cudaMemcpyDefault, stream));
    return cudaSuccess;
}

inline cudaError_t window_bring(const row_window &window, cudaStream_t stream)
{
    return window_copy(window, true, stream);
}

inline cudaError_t window_take_home(const row_window &window, cudaStream_t stream)
{
    return window_copy(window, false, stream);
}

/* In place of window_bring, if the window has no keys. */
inline cudaError_t window_zero(const row_window &window, cudaStream_t stream)
{
    for (int i = 0; i < window.count; i++)
        RETURN_IF_CUDA_FAILED(cudaMemsetAsync(window.pieces[i].buffer, 0, window.pieces[i].bytes, stream));
    return cudaSuccess;
}

/* ---- windows under way ---- */

enum { ROW_STREAMS = LOOM__ROW_SETS /* one window comes, one is worked on, one goes */ };

/* Three streams, which begin after the work of a given stream. Windows come in the first one, kernels work in the
 * second, and windows go home in the third. With a stream for each window, the copies of three windows shared the link,
 * ended together, and left it idle while three windows were worked on: an eighth of the time. */
struct row_pipeline {
    cudaStream_t streams[ROW_STREAMS];
    cudaEvent_t brought[ROW_STREAMS], worked[ROW_STREAMS], home[ROW_STREAMS]; /* by the set of buffers */
};

inline cudaError_t row_pipeline_begin(row_pipeline *pipeline, cudaStream_t after)
{
    cudaEvent_t begun;
    RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
    cudaError_t error = cudaEventRecord(begun, after);
    for (int i = 0; i < ROW_STREAMS && error == cudaSuccess; i++) {
        error = cudaStreamCreateWithFlags(&pipeline->streams[i], cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaStreamWaitEvent(pipeline->streams[i], begun, 0);
        for (cudaEvent_t *event : {&pipeline->brought[i], &pipeline->worked[i], &pipeline->home[i]})
            if (error == cudaSuccess)
                error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    }
    cudaEventDestroy(begun);
    return error;
}

/* Waits for all work. Returns the first error: `error`, or a later one. What was never made is NULL. */
inline cudaError_t row_pipeline_end(row_pipeline *pipeline, cudaError_t error)
{
    for (cudaStream_t stream : pipeline->streams) {
        const cudaError_t last = stream != NULL ? cudaStreamSynchronize(stream) : cudaSuccess;
        error = error == cudaSuccess ? last : error;
    }
    for (int i = 0; i < ROW_STREAMS; i++) {
        if (pipeline->streams[i] != NULL)
            cudaStreamDestroy(pipeline->streams[i]);
        for (cudaEvent_t event : {pipeline->brought[i], pipeline->worked[i], pipeline->home[i]})
            if (event != NULL)
                cudaEventDestroy(event);
    }
    *pipeline = row_pipeline{};
    return error;
}

/* One window, in buffers of set k: bring(stream), work(stream), take_home(stream). Waits on the device until the window
 * that had these buffers is home; an event that was never recorded counts as reached. */
template <class bring_type, class work_type, class home_type>
cudaError_t row_pipeline_pass(const row_pipeline &pipeline, uint32_t k, bring_type bring, work_type work,
                              home_type take_home)
{
    cudaStream_t in = pipeline.streams[0], middle = pipeline.streams[1], out = pipeline.streams[2];
    RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(in, pipeline.home[k], 0));
    RETURN_IF_CUDA_FAILED(bring(in));
    RETURN_IF_CUDA_FAILED(cudaEventRecord(pipeline.brought[k], in));
    RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(middle, pipeline.brought[k], 0));
    RETURN_IF_CUDA_FAILED(work(middle));
    RETURN_IF_CUDA_FAILED(cudaEventRecord(pipeline.worked[k], middle));
    RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(out, pipeline.worked[k], 0));
    RETURN_IF_CUDA_FAILED(take_home(out));
    return cudaEventRecord(pipeline.home[k], out);
}

#endif
