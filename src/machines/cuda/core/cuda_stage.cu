/* Staging memory for host arrays on their way to and from the device. Allocated for the first host array, kept until
 * the context is destroyed, used by one call at a time. */
#include "machines/cuda/core/cuda_state.cuh"

loom_status cuda_stage_create(cuda_state *cuda)
{
    pthread_mutex_init(&cuda->stage.lock, NULL);
    return LOOM_OK;
}

static void free_memory(cuda_state *cuda)
{
    cuda_stage *stage = &cuda->stage;
    for (int i = 0; i < STAGE_BUFFERS; i++) {
        if (stage->stream[i] != NULL) {
            cudaStreamSynchronize(stage->stream[i]);
            cudaStreamDestroy(stage->stream[i]);
        }
        if (stage->done[i] != NULL)
            cudaEventDestroy(stage->done[i]);
        cudaFree(stage->device[i]);
        cudaFreeHost(stage->pinned[i]);
        stage->stream[i] = NULL;
        stage->done[i] = NULL;
        stage->device[i] = stage->pinned[i] = NULL;
    }
    if (stage->begun != NULL)
        cudaEventDestroy(stage->begun);
    cudaFree(stage->scratch);
    stage->begun = NULL;
    stage->scratch = NULL;
    stage->ready = 0;
}

static cudaError_t allocate_memory(cuda_stage *stage)
{
    cudaError_t error = cudaMalloc(&stage->scratch, SCRATCH_BYTES);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&stage->begun, cudaEventDisableTiming);
    for (int i = 0; i < STAGE_BUFFERS && error == cudaSuccess; i++) {
        error = cudaMalloc(&stage->device[i], STAGE_BYTES);
        if (error == cudaSuccess)
            error = cudaMallocHost(&stage->pinned[i], STAGE_BYTES);
        if (error == cudaSuccess)
            error = cudaStreamCreateWithFlags(&stage->stream[i], cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&stage->done[i], cudaEventDisableTiming);
    }
    return error;
}

loom_status cuda_stage_enter(cuda_state *cuda)
{
    pthread_mutex_lock(&cuda->stage.lock);
    if (cuda->stage.ready)
        return LOOM_OK;
    cudaError_t error = allocate_memory(&cuda->stage);
    if (error == cudaSuccess) {
        cuda->stage.ready = 1;
        return LOOM_OK;
    }
    free_memory(cuda);
    pthread_mutex_unlock(&cuda->stage.lock);
    return cuda_failed(error, "allocating memory to stage host arrays");
}

void cuda_stage_leave(cuda_state *cuda)
{
    pthread_mutex_unlock(&cuda->stage.lock);
}

void cuda_stage_destroy(cuda_state *cuda)
{
    free_memory(cuda);
    pthread_mutex_destroy(&cuda->stage.lock);
}
