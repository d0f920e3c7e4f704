/* Staging memory for host arrays on their way to and from the device, and scratch memory for scans of whole tables. The
 * first call that needs either allocates both. The memory is kept until the context is destroyed. One call at a time
 * uses it. */
#include "machines/cuda/core/cuda_state.cuh"

void cuda_stage_free(cuda_stage *stage)
{
    for (int i = 0; i < STAGE_BUFFERS; i++) {
        if (stage->stream[i] != NULL) {
            cudaStreamSynchronize(stage->stream[i]);
            cudaStreamDestroy(stage->stream[i]);
        }
        if (stage->done[i] != NULL)
            cudaEventDestroy(stage->done[i]);
        cudaFree(stage->device[i]);
        cudaFreeHost(stage->pinned[i]);
    }
    if (stage->begun != NULL)
        cudaEventDestroy(stage->begun);
    cudaFree(stage->scratch);
    *stage = cuda_stage{};
}

static cudaError_t allocate_memory(cuda_stage *stage)
{
    RETURN_IF_CUDA_FAILED(cudaMalloc(&stage->scratch, SCRATCH_BYTES));
    RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&stage->begun, cudaEventDisableTiming));
    for (int i = 0; i < STAGE_BUFFERS; i++) {
        RETURN_IF_CUDA_FAILED(cudaMalloc(&stage->device[i], STAGE_BYTES));
        RETURN_IF_CUDA_FAILED(cudaMallocHost(&stage->pinned[i], STAGE_BYTES));
        RETURN_IF_CUDA_FAILED(cudaStreamCreateWithFlags(&stage->stream[i], cudaStreamNonBlocking));
        RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&stage->done[i], cudaEventDisableTiming));
    }
    stage->ready = 1;
    return cudaSuccess;
}

cuda_stage_scope::cuda_stage_scope(cuda_state *cuda) : lock(&cuda->stage_lock), status(LOOM_OK)
{
    pthread_mutex_lock(lock);
    if (cuda->stage.ready)
        return;
    const cudaError_t error = allocate_memory(&cuda->stage);
    if (error != cudaSuccess)
        cuda_stage_free(&cuda->stage);
    status = cuda_status(error, "allocating memory to stage host arrays");
}

cuda_stage_scope::~cuda_stage_scope()
{
    pthread_mutex_unlock(lock);
}
