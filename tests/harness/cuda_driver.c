#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdint.h>

typedef int (*create_stream)(void **stream, unsigned flags);
typedef int (*of_stream)(void *stream);
typedef int (*allocate_device)(uint64_t *memory, size_t bytes);
typedef int (*allocate_managed)(uint64_t *memory, size_t bytes, unsigned flags);
typedef int (*allocate_host)(void **memory, size_t bytes, unsigned flags);
typedef int (*free_device)(uint64_t memory);
typedef int (*free_host)(void *memory);

static void *driver;
static loom_context *keeper; /* keeps the device's primary context alive and current */

static void *function(const char *name)
{
    void *found = dlsym(driver, name);
    if (!found)
        FAIL("the driver has no %s", name);
    return found;
}

void need_cuda(void)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    if (loom_machine_present(LOOM_MACHINE_CUDA) != LOOM_OK)
        SKIP("%s", loom_last_error());
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        FAIL("%s", dlerror());
    config.machine = LOOM_MACHINE_CUDA;
    if (!keeper)
        CHECK_OK(loom_context_create(&config, &keeper));
}

loom_stream cuda_stream_create(void)
{
    void *stream = NULL;
    CHECK_EQ(((create_stream)(uintptr_t)function("cuStreamCreate"))(&stream, 1), 0); /* 1: independent of stream 0 */
    return stream;
}

void cuda_stream_destroy(loom_stream stream)
{
    CHECK_EQ(((of_stream)(uintptr_t)function("cuStreamDestroy_v2"))(stream), 0);
}

void cuda_stream_wait(loom_stream stream)
{
    CHECK_EQ(((of_stream)(uintptr_t)function("cuStreamSynchronize"))(stream), 0);
}

void *cuda_memory_create(cuda_memory kind, size_t bytes)
{
    uint64_t device = 0;
    void *host = NULL;
    switch (kind) {
    case CUDA_DEVICE:
        CHECK_EQ(((allocate_device)(uintptr_t)function("cuMemAlloc_v2"))(&device, bytes), 0);
        return (void *)(uintptr_t)device;
    case CUDA_MANAGED:
        CHECK_EQ(((allocate_managed)(uintptr_t)function("cuMemAllocManaged"))(&device, bytes, 1), 0);
        return (void *)(uintptr_t)device;
    case CUDA_PINNED:
        CHECK_EQ(((allocate_host)(uintptr_t)function("cuMemHostAlloc"))(&host, bytes, 0), 0);
        return host;
    }
    return NULL;
}

void cuda_memory_destroy(cuda_memory kind, void *memory)
{
    if (kind == CUDA_PINNED)
        CHECK_EQ(((free_host)(uintptr_t)function("cuMemFreeHost"))(memory), 0);
    else
        CHECK_EQ(((free_device)(uintptr_t)function("cuMemFree_v2"))((uint64_t)(uintptr_t)memory), 0);
}
