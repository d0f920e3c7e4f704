/* A map on a GPU that takes its memory from the driver's stream-ordered pool (cudaMallocAsync). The arrays of keys and
 * values are on the device, and the result arrives in stream order. */
#include "check.h"

#include <loom/loom.h>

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    void *memory = NULL;
    (void)user;
    if (kind == LOOM_MEMORY_HOST)
        return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (kind == LOOM_MEMORY_PINNED) /* rows in host memory (config.row_place) */
        return cudaMallocHost(&memory, bytes) == cudaSuccess ? memory : NULL;
    /* The pool aligns to 256 bytes. Every stream may use the memory once the allocation has happened in this one. */
    if (cudaMallocAsync(&memory, bytes, (cudaStream_t)stream) != cudaSuccess)
        return NULL;
    return cudaStreamSynchronize((cudaStream_t)stream) == cudaSuccess ? memory : NULL;
}

static void release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user;
    (void)bytes;
    if (kind == LOOM_MEMORY_HOST)
        free(memory);
    else if (kind == LOOM_MEMORY_PINNED)
        cudaFreeHost(memory);
    else
        cudaFreeAsync(memory, (cudaStream_t)stream);
}

__global__ void make_pairs(uint32_t *keys, uint32_t *values, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        keys[i] = i * 2654435761u; /* an odd factor: all different */
        values[i] = i;
    }
}

int main(void)
{
    const uint32_t n = 1 << 24;
    uint32_t *keys, *values;
    loom_result *result; /* pinned: the device writes it, the host reads it */
    cudaStream_t stream;
    loom_context_config context_config = LOOM_CONTEXT_CONFIG_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_context *context;
    loom_map *map;

    context_config.machine = LOOM_MACHINE_CUDA;
    context_config.allocator.allocate = allocate;
    context_config.allocator.release = release;
    LOOM(loom_context_create(&context_config, &context));
    config.key_bytes = config.value_bytes = 4;
    config.capacity = n;
    LOOM(loom_map_create(context, &config, &map));

    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc(&keys, n * 4ul));
    CUDA(cudaMalloc(&values, n * 4ul));
    CUDA(cudaMallocHost(&result, sizeof *result));
    make_pairs<<<n / 256, 256, 0, stream>>>(keys, values, n);
    LOOM(loom_map_insert(map, keys, values, n, LOOM_KEEP, NULL, result, stream)); /* returns at once */
    LOOM(loom_map_find(map, keys, n, values, NULL, NULL, result, stream));        /* after the insert: same stream */
    CUDA(cudaStreamSynchronize(stream));
    printf("%llu of %llu keys found\n", (unsigned long long)result->ok, (unsigned long long)result->keys);
    int right = result->ok == n;

    loom_map_destroy(map);
    loom_context_destroy(context);
    cudaFree(keys);
    cudaFree(values);
    cudaFreeHost(result);
    cudaStreamDestroy(stream);
    return right ? 0 : 1;
}
