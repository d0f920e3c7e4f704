#include "cuda_driver.h"

#include "api/context.h"
#include "machines/cuda/core/cuda_trial.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

loom_context *cuda_context_create(test_run *t, uint32_t lanes)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CUDA;
    config.lanes = lanes;
    config.fixed_seed = 1;
    config.seed = random_u64(&t->random);
    CHECK_OK(loom_context_create(&config, &context));
    return context;
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

void cuda_run_faulty_kernel(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry faulty()\n{\n    trap;\n}\n";
    typedef int (*load_module)(void **module, const void *image);
    typedef int (*get_function)(void **function, void *module, const char *name);
    typedef int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra);
    void *module, *kernel;
    CHECK_EQ(((load_module)(uintptr_t)function("cuModuleLoadData"))(&module, ptx), 0);
    CHECK_EQ(((get_function)(uintptr_t)function("cuModuleGetFunction"))(&kernel, module, "faulty"), 0);
    CHECK_EQ(((launch)(uintptr_t)function("cuLaunchKernel"))(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
}

void *cuda_module_function(const char *name)
{
    static void *module;
    if (!module) {
        /* The module is loaded already. Here it is found again by its name. */
        const char *given = getenv("LOOM_CUDA_MODULE");
        char path[1024];
        ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
        CHECK(length > 0);
        path[length] = 0;
        snprintf(strrchr(path, '/'), 64, "/../lib/libloom_cuda.so.%d", LOOM_VERSION_MAJOR);
        module = dlopen(given ? given : path, RTLD_NOW | RTLD_NOLOAD);
        if (!module)
            FAIL("the module is not loaded: %s", dlerror());
    }
    void *found = dlsym(module, name);
    if (!found)
        FAIL("the module has no %s", name);
    return found;
}

void cuda_lose_device(uint64_t steps)
{
    ((cuda_lose_device_function *)(uintptr_t)cuda_module_function(CUDA_LOSE_DEVICE))(steps);
}

void cuda_set_slice(loom_context *context, uint64_t keys)
{
    ((cuda_set_slice_function *)(uintptr_t)cuda_module_function(CUDA_SET_SLICE))(context->machine, keys);
}

void cuda_set_row_buffers(loom_context *context, uint64_t bytes, uint64_t keys)
{
    ((cuda_set_row_buffers_function *)(uintptr_t)cuda_module_function(CUDA_SET_ROW_BUFFERS))(context->machine, bytes,
                                                                                             keys);
}
