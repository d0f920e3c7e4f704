/* Device memory comes from two pools. Between calls they keep some memory that nobody uses, which saves unmapping it
 * and mapping it again: giving 0.6 GB back takes a millisecond, in which a GPU inserts 10^7 keys. If an allocation
 * fails, they give up what they keep.
 *   temporary  in stream order. Otherwise every build would wait for the device. Keeps up to 1 / TEMPORARY_SHARE of the
 *              device's memory
 *   tables     tables and arrays: usable at once in any stream, and given back when the device is idle, as with
 *              cudaMalloc and cudaFree. Keeps up to 1 / TABLE_SHARE of the device's memory beside what is in use
 *
 * Pinned memory for rows consists of huge pages, where the system has them: the host's threads gather rows at random,
 * and with pages of 4 KiB they would wait for page tables. */
#include "machines/cuda/core/cuda_state.cuh"

#include <stdlib.h>
#include <sys/mman.h>

enum { TEMPORARY_SHARE = 32, TABLE_SHARE = 64 };

/* ---- pinned memory ---- */

const size_t HUGE_PAGE = 2 << 20, PAGE = 4096, TOUCHED_BYTES = 64 << 20;

static size_t whole_pages(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

struct touched_memory {
    volatile unsigned char *at;
    size_t bytes;
};

/* Makes the system provide the pages of one piece. */
static void touch_piece(void *argument, uint64_t index)
{
    const touched_memory *memory = (const touched_memory *)argument;
    const size_t begin = index * TOUCHED_BYTES, left = memory->bytes - begin;
    for (size_t at = 0; at < (left < TOUCHED_BYTES ? left : TOUCHED_BYTES); at += PAGE)
        memory->at[begin + at] = 0;
}

/* Whether memory of so many bytes is registered. Kernels must reach registered memory by the host's addresses. */
static bool is_registered(const cuda_state *cuda, size_t bytes)
{
    int same_addresses = 0;
    return bytes >= HUGE_PAGE &&
           cudaDeviceGetAttribute(&same_addresses, cudaDevAttrCanUseHostPointerForRegisteredMem, cuda->device) ==
               cudaSuccess &&
           same_addresses != 0;
}

/* All host threads provide the pages, which takes most of the time. */
static void *allocate_pinned(const cuda_state *cuda, size_t bytes)
{
    void *memory = NULL;
    const size_t all = whole_pages(bytes);
    if (!is_registered(cuda, bytes))
        return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped) == cudaSuccess ? memory
                                                                                                         : NULL;
    if (posix_memalign(&memory, HUGE_PAGE, all) != 0)
        return NULL;
    madvise(memory, all, MADV_HUGEPAGE);
    touched_memory touched = {(unsigned char *)memory, all};
    cuda->host->ops->host_parallel(cuda->host, (all + TOUCHED_BYTES - 1) / TOUCHED_BYTES, touch_piece, &touched);
    if (cudaHostRegister(memory, all, cudaHostRegisterPortable | cudaHostRegisterMapped) == cudaSuccess)
        return memory;
    free(memory);
    return NULL;
}

/* Waits for the device, whose kernels may use the memory. */
static void release_pinned(const cuda_state *cuda, void *memory, size_t bytes)
{
    const cuda_device_scope scope(cuda);
    cudaDeviceSynchronize();
    if (!is_registered(cuda, bytes)) {
        cudaFreeHost(memory);
    } else {
        cudaHostUnregister(memory);
        free(memory);
    }
    cudaGetLastError(); /* if one of these failed, the device is lost; the next step reports it */
}

/* ---- device memory ---- */

static cudaError_t allocate_table(const cuda_state *cuda, void **memory, size_t bytes)
{
    RETURN_IF_CUDA_FAILED(cudaMallocFromPoolAsync(memory, bytes, cuda->tables, cuda->memory_stream));
    return cudaStreamSynchronize(cuda->memory_stream);
}

/* Waits for the device, whose kernels may use the memory. Gives back what the pool must not keep. */
static void release_table(const cuda_state *cuda, void *memory)
{
    const cuda_device_scope scope(cuda);
    uint64_t used = UINT64_MAX;
    cudaDeviceSynchronize();
    cudaFreeAsync(memory, cuda->memory_stream);
    cudaStreamSynchronize(cuda->memory_stream); /* the pool counts memory as free only then */
    if (cudaMemPoolGetAttribute(cuda->tables, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess)
        cudaMemPoolTrimTo(cuda->tables, used + cuda->kept_bytes);
    cudaGetLastError(); /* if one of these failed, the device is lost; the next step reports it */
}

static cudaError_t allocate_on_device(const cuda_state *cuda, void **memory, size_t bytes, loom_memory_kind kind,
                                      cudaStream_t stream)
{
    if (cuda->tables == NULL)
        return cudaMalloc(memory, bytes);
    if (kind == LOOM_MEMORY_TEMPORARY)
        return cudaMallocFromPoolAsync(memory, bytes, cuda->temporary, stream);
    return allocate_table(cuda, memory, bytes);
}

static void *allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    void *memory = NULL;
    const cuda_state *cuda = (const cuda_state *)user;
    if (kind == LOOM_MEMORY_HOST)
        return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) == 0 ? memory
                                                                                                            : NULL;
    if (kind == LOOM_MEMORY_PINNED) {
        const cuda_device_scope scope(cuda);
        memory = allocate_pinned(cuda, bytes);
        cudaGetLastError(); /* if it failed, the next step need not report it */
        return memory;
    }
    /* device memory is aligned to at least 256 bytes */
    cudaError_t error = allocate_on_device(cuda, &memory, bytes, kind, (cudaStream_t)stream);
    if (error == cudaErrorMemoryAllocation && cuda->tables != NULL) {
        const cuda_device_scope scope(cuda);
        cudaGetLastError();
        cudaDeviceSynchronize(); /* temporary memory whose last call is still in flight counts as used */
        cudaMemPoolTrimTo(cuda->tables, 0);
        cudaMemPoolTrimTo(cuda->temporary, 0);
        error = allocate_on_device(cuda, &memory, bytes, kind, (cudaStream_t)stream);
    }
    if (error == cudaSuccess)
        return memory;
    cudaGetLastError();
    return NULL;
}

static void release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    const cuda_state *cuda = (const cuda_state *)user;
    if (kind == LOOM_MEMORY_HOST) {
        free(memory);
    } else if (kind == LOOM_MEMORY_PINNED) {
        release_pinned(cuda, memory, bytes);
    } else if (cuda->tables == NULL) {
        cudaFree(memory);
    } else if (kind == LOOM_MEMORY_TEMPORARY) {
        cudaFreeAsync(memory, (cudaStream_t)stream);
    } else {
        release_table(cuda, memory);
    }
}

cudaError_t cuda_pools_create(cuda_state *cuda)
{
    int pools = 0;
    size_t free_bytes, total;
    RETURN_IF_CUDA_FAILED(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, cuda->device));
    if (!pools)
        return cudaSuccess;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = cuda->device;
    RETURN_IF_CUDA_FAILED(cudaMemGetInfo(&free_bytes, &total));
    RETURN_IF_CUDA_FAILED(cudaStreamCreateWithFlags(&cuda->memory_stream, cudaStreamNonBlocking));
    RETURN_IF_CUDA_FAILED(cudaMemPoolCreate(&cuda->temporary, &properties));
    uint64_t kept = total / TEMPORARY_SHARE;
    RETURN_IF_CUDA_FAILED(cudaMemPoolSetAttribute(cuda->temporary, cudaMemPoolAttrReleaseThreshold, &kept));
    cuda->kept_bytes = total / TABLE_SHARE;
    RETURN_IF_CUDA_FAILED(cudaMemPoolCreate(&cuda->tables, &properties));
    kept = UINT64_MAX; /* the pool gives memory back when release_table says so */
    return cudaMemPoolSetAttribute(cuda->tables, cudaMemPoolAttrReleaseThreshold, &kept);
}

void cuda_pools_destroy(cuda_state *cuda)
{
    if (cuda->tables != NULL)
        cudaMemPoolDestroy(cuda->tables);
    if (cuda->temporary != NULL)
        cudaMemPoolDestroy(cuda->temporary);
    if (cuda->memory_stream != NULL)
        cudaStreamDestroy(cuda->memory_stream);
}

const loom_allocator cuda_own_allocator = {allocate, release, NULL};
