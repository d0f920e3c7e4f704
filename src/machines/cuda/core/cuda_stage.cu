/* Staging memory for host arrays on their way to and from the device, and scratch memory for scans of whole tables.
 *
 * A call that needs a stage takes a free one. A stage gets its memory when it is first taken, and keeps it until the
 * context is destroyed. So a program with one thread has one stage, and a program whose threads make small calls at the
 * same time has a small stage for each. */
#include "machines/cuda/core/cuda_state.cuh"

static void free_stage(cuda_stage *stage)
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

void cuda_stages_free(cuda_state *cuda)
{
    for (cuda_stage &stage : cuda->stages)
        free_stage(&stage);
}

static cudaError_t allocate_stage(cuda_stage *stage, bool small)
{
    stage->bytes = small ? SMALL_STAGE_BYTES : STAGE_BYTES;
    if (!small)
        RETURN_IF_CUDA_FAILED(cudaMalloc(&stage->scratch, SCRATCH_BYTES));
    RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&stage->begun, cudaEventDisableTiming));
    for (int i = 0; i < STAGE_BUFFERS; i++) {
        RETURN_IF_CUDA_FAILED(cudaMalloc(&stage->device[i], stage->bytes));
        RETURN_IF_CUDA_FAILED(cudaMallocHost(&stage->pinned[i], stage->bytes));
        RETURN_IF_CUDA_FAILED(cudaStreamCreateWithFlags(&stage->stream[i], cudaStreamNonBlocking));
        RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&stage->done[i], cudaEventDisableTiming));
    }
    stage->ready = 1;
    return cudaSuccess;
}

/* The stages of one size that are free: the first one with memory, otherwise the first one. NULL: all are taken.
 * *ready counts those with memory, taken or not. The caller holds the lock. */
static cuda_stage *find_free_stage(cuda_state *cuda, bool small, int *ready)
{
    cuda_stage *first = cuda->stages + (small ? LARGE_STAGES : 0), *found = NULL;
    *ready = 0;
    for (int i = 0; i < (small ? SMALL_STAGES : LARGE_STAGES); i++) {
        cuda_stage *stage = first + i;
        *ready += stage->ready;
        if (!stage->taken && (found == NULL || stage->ready > found->ready))
            found = stage;
    }
    return found;
}

/* If memory for a further stage cannot be had, the call waits for one that has memory. Without any, a call that would
 * do with a small stage takes a large one. Allocates under the lock: two first callers must not each take half of the
 * memory that is left. */
cuda_stage_scope::cuda_stage_scope(cuda_state *cuda_, bool small) : cuda(cuda_), stage(NULL), status(LOOM_OK)
{
    bool short_of_memory = false;
    pthread_mutex_lock(&cuda->stages_lock);
    while (stage == NULL && status == LOOM_OK) {
        int ready;
        cuda_stage *found = find_free_stage(cuda, small, &ready);
        if (found == NULL || (short_of_memory && !found->ready)) {
            pthread_cond_wait(&cuda->stage_given, &cuda->stages_lock); /* ends: a call gives its stage back */
            continue;
        }
        const cudaError_t error = found->ready ? cudaSuccess : allocate_stage(found, small);
        if (error == cudaSuccess) {
            found->taken = 1;
            stage = found;
            continue;
        }
        free_stage(found);
        short_of_memory = ready > 0;
        if (ready == 0 && !small)
            status = cuda_status(error, "allocating memory to stage host arrays");
        if (ready == 0 && small) {
            cudaGetLastError();
            small = false;
        }
    }
    pthread_mutex_unlock(&cuda->stages_lock);
}

cuda_stage_scope::~cuda_stage_scope()
{
    if (stage == NULL)
        return;
    pthread_mutex_lock(&cuda->stages_lock);
    stage->taken = 0;
    pthread_cond_broadcast(&cuda->stage_given);
    pthread_mutex_unlock(&cuda->stages_lock);
}
