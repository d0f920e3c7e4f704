/* The cuda machine and its module. */
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const loom__services *cuda_services;

/* ---- errors ---- */

uint64_t cuda_steps_until_lost;

cudaError_t cuda_step(cudaError_t error)
{
    if (cuda_steps_until_lost == 1)
        return cudaErrorLaunchFailure; /* every later step fails, too */
    if (cuda_steps_until_lost > 1)
        cuda_steps_until_lost--;
    return error;
}

loom_status cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return LOOM_OK;
    cudaGetLastError(); /* clears the error, if it can be cleared */
    if (error == cudaErrorMemoryAllocation)
        return loom__fail(LOOM_OUT_OF_MEMORY,
                          "the device has no memory left (%s); make tables for fewer keys or free "
                          "other memory of the device",
                          what);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorInitializationError)
        return loom__fail(LOOM_NO_MACHINE, "no CUDA device can be used here: %s", cudaGetErrorString(error));
    int lost = cudaPeekAtLastError() != cudaSuccess;
    return loom__fail(LOOM_DEVICE, "the device reported '%s' (%s)%s", cudaGetErrorString(error), what,
                      lost ? "; it stays so for this process: an earlier kernel failed, perhaps one of your own. Save "
                             "nothing from the device, and start anew"
                           : "");
}

cuda_device_scope::cuda_device_scope(const cuda_state *cuda) : before(-1), status(LOOM_OK)
{
    if (cuda->process != getpid()) {
        status =
            loom__fail(LOOM_DEVICE, "this process was forked from the one that made the context, and CUDA cannot be "
                                    "used in it; make contexts after the fork");
        return;
    }
    cudaError_t error = cudaGetDevice(&before);
    if (error == cudaSuccess && before != cuda->device)
        error = cudaSetDevice(cuda->device);
    status = cuda_status(error, "choosing the device");
}

cuda_device_scope::~cuda_device_scope()
{
    int now;
    if (before >= 0 && cudaGetDevice(&now) == cudaSuccess && now != before)
        cudaSetDevice(before);
}

loom_status cuda_locate(const cuda_state *cuda, const char *name, const void *at, cuda_place *place)
{
    cudaPointerAttributes attributes;
    *place = PLACE_NONE;
    if (at == NULL)
        return LOOM_OK;
    cudaError_t error = cudaPointerGetAttributes(&attributes, at);
    if (error == cudaErrorInvalidValue) { /* older drivers report this for plain host memory */
        cudaGetLastError();
        *place = PLACE_PAGEABLE;
        return LOOM_OK;
    }
    CUDA_TRY(error);
    const bool managed = attributes.type == cudaMemoryTypeManaged, device = attributes.type == cudaMemoryTypeDevice;
    RETURN_ERROR_IF(device && attributes.device != cuda->device, LOOM_INVALID_ARGUMENT,
                    "%s lies on device %d, the context works on device %d; copy it there first (cudaMemcpyPeer)", name,
                    attributes.device, cuda->device);
    *place = device || managed ? PLACE_DEVICE : attributes.type == cudaMemoryTypeHost ? PLACE_PINNED : PLACE_PAGEABLE;
    return LOOM_OK;
}

/* ---- the machine ---- */

extern const loom__machine_ops cuda_machine;

const uint64_t ROW_STAGING_BYTES = (uint64_t)1 << 30;

static loom_status present(void)
{
    int devices = 0;
    RETURN_IF_FAILED(cuda_status(cudaGetDeviceCount(&devices), "looking for devices"));
    RETURN_ERROR_IF(devices == 0, LOOM_NO_MACHINE, "there is a driver for NVIDIA GPUs, but no GPU");
    return LOOM_OK;
}

static loom_status make_state(const loom_context_config *config, cuda_state *cuda)
{
    int devices;
    CUDA_TRY(cudaGetDeviceCount(&devices));
    RETURN_ERROR_IF(config->device < -1 || config->device >= devices, LOOM_NO_MACHINE, "device %d: there are %d",
                    config->device, devices);
    if (config->device >= 0)
        cuda->device = config->device;
    else
        CUDA_TRY(cudaGetDevice(&cuda->device));
    ON_DEVICE(cuda);
    CUDA_TRY(cudaDeviceGetAttribute(&cuda->multiprocessors, cudaDevAttrMultiProcessorCount, cuda->device));
    CUDA_TRY(cudaDeviceGetAttribute(&cuda->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->device));
    int l2_bytes;
    CUDA_TRY(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, cuda->device));
    int concurrent;
    CUDA_TRY(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, cuda->device));
    cuda->may_ring = concurrent != 0;
    cuda->base.cache_bytes = (uint64_t)l2_bytes;
    loom_context_config host = *config;
    host.machine = LOOM_MACHINE_CPU;
    host.device = -1;
    host.allocator = cuda->base.allocator;
    RETURN_IF_FAILED(cuda_services->cpu->open(&host, &cuda->host));
    if (config->allocator.allocate == NULL)
        CUDA_TRY(cuda_pools_create(cuda));
    CUDA_TRY(cuda_tickets_create(cuda));
    CUDA_TRY(cuda_together_create(&cuda->together));
    return LOOM_OK;
}

static void close_machine(loom__machine *machine)
{
    cuda_state *cuda = (cuda_state *)machine;
    loom_allocator allocator = machine->allocator;
    {
        cuda_device_scope scope(cuda);
        if (scope.status == LOOM_OK) {
            pthread_mutex_destroy(&cuda->rates_lock);
            cuda_tickets_destroy(cuda);
            cuda_stages_free(cuda);
            pthread_cond_destroy(&cuda->stage_given);
            pthread_mutex_destroy(&cuda->stages_lock);
            cuda_together_destroy(&cuda->together);
            cuda_pools_destroy(cuda);
        }
    }
    if (cuda->host != NULL)
        cuda_services->cpu->close(cuda->host);
    allocator.release(allocator.user, cuda, sizeof *cuda, LOOM_MEMORY_HOST, NULL);
}

static loom_status open_machine(const loom_context_config *config, loom__machine **machine)
{
    const loom_allocator *allocator = config->allocator.allocate != NULL ? &config->allocator : &cuda_own_allocator;
    cuda_state *cuda = (cuda_state *)allocator->allocate(allocator->user, sizeof *cuda, 64, LOOM_MEMORY_HOST, NULL);
    RETURN_ERROR_IF(cuda == NULL, LOOM_OUT_OF_MEMORY, "%zu bytes of host memory could not be had", sizeof *cuda);
    *cuda = cuda_state{};
    pthread_mutex_init(&cuda->tickets_lock, NULL);
    pthread_cond_init(&cuda->ticket_given, NULL);
    pthread_mutex_init(&cuda->stages_lock, NULL);
    pthread_cond_init(&cuda->stage_given, NULL);
    cuda->base.ops = &cuda_machine;
    cuda->base.allocator = *allocator;
    if (allocator == &cuda_own_allocator)
        cuda->base.allocator.user = cuda;
    cuda->process = getpid();
    cuda->lanes = config->lanes;
    cuda->slice_keys = LOOM__SPLIT_MOST_RECORDS;
    pthread_mutex_init(&cuda->rates_lock, NULL);
    cuda->rates = LOOM__USUAL_ROW_RATES;
    cuda->row_staging_bytes = ROW_STAGING_BYTES;
    cuda->row_chunk = UINT64_MAX;
    loom_status status = make_state(config, cuda);
    if (status != LOOM_OK)
        close_machine(&cuda->base);
    else
        *machine = &cuda->base;
    return status;
}

static void describe(loom__machine *machine, loom_context_info *info)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaDeviceProp properties;
    cuda->host->ops->describe(cuda->host, info);
    info->machine = LOOM_MACHINE_CUDA;
    info->huge_page_bytes = 0;
    snprintf(info->machine_name, sizeof info->machine_name, "%s", machine->ops->name);
    cuda_device_scope scope(cuda);
    const bool answers = scope.status == LOOM_OK && cudaGetDeviceProperties(&properties, cuda->device) == cudaSuccess;
    const char *name = answers ? properties.name : "a device that does not answer";
    snprintf(info->device_name, sizeof info->device_name, "%.95s", name);
    info->memory_bytes = answers ? properties.totalGlobalMem : 0;
}

static const void *kernels(const loom__machine *machine, uint32_t engine)
{
    (void)machine;
    return engine == LOOM_ENGINE_OPEN                                     ? (const void *)&cuda_open_kernels
           : engine == LOOM_ENGINE_PERFECT                                ? (const void *)&cuda_perfect_kernels
           : engine == LOOM_ENGINE_ROWS                                   ? (const void *)&cuda_rows_kernels
           : engine == LOOM_ENGINE_TICKETS                                ? (const void *)&cuda_tickets_kernels
           : engine == LOOM_ENGINE_BLOOM                                  ? (const void *)&cuda_filter_kernels
           : engine == LOOM__KERNELS_MULTI || engine == LOOM_ENGINE_CHAIN ? (const void *)&cuda_multi_kernels
                                                                          : NULL;
}

static loom_status supports(loom__machine *machine, loom_feature feature)
{
    switch (feature) {
    case LOOM_FEATURE_CONCURRENT_READS:
    case LOOM_FEATURE_ASYNCHRONOUS:
    case LOOM_FEATURE_VIEWS:
    case LOOM_FEATURE_WRITING_VIEWS:
        return LOOM_OK;
    default:
        loom__machine *host = ((cuda_state *)machine)->host;
        return host->ops->supports(host, feature);
    }
}

static int is_captured(loom__machine *machine, loom_stream stream)
{
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cuda_device_scope scope((cuda_state *)machine);
    return scope.status == LOOM_OK && cudaStreamIsCapturing((cudaStream_t)stream, &capture) == cudaSuccess &&
           capture == cudaStreamCaptureStatusActive;
}

static loom_status check_stream(loom__machine *machine, loom_stream stream)
{
    cudaStreamCaptureStatus capture;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaStreamIsCapturing((cudaStream_t)stream, &capture));
    RETURN_ERROR_IF(
        capture != cudaStreamCaptureStatusNone, LOOM_UNSUPPORTED,
        "the stream is being captured into a graph, where only builds, inserts and lookups of maps can go; make the "
        "call outside of the capture");
    return LOOM_OK;
}

static void drain(loom__machine *machine)
{
    cuda_device_scope scope((cuda_state *)machine);
    if (scope.status == LOOM_OK && cudaDeviceSynchronize() != cudaSuccess)
        cudaGetLastError();
}

static loom_status copy(loom__machine *machine, void *to, const void *from, size_t bytes, loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

static loom_status pinned_create(loom__machine *machine, size_t bytes, void **memory)
{
    void *made;
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMallocHost(&made, bytes));
    *memory = made;
    return LOOM_OK;
}

static void pinned_destroy(loom__machine *machine, void *memory)
{
    const cuda_device_scope scope((cuda_state *)machine);
    cudaFreeHost(memory);
    cudaGetLastError(); /* if it failed, the device is lost; the next step reports it */
}

static void host_parallel(loom__machine *machine, uint64_t tasks, void (*task)(void *argument, uint64_t index),
                          void *argument)
{
    loom__machine *host = ((cuda_state *)machine)->host;
    host->ops->host_parallel(host, tasks, task, argument);
}

const loom__machine_ops cuda_machine = {
    LOOM__MACHINE_INTERFACE,
    LOOM_MACHINE_CUDA,
    "cuda",
    present,
    open_machine,
    close_machine,
    describe,
    kernels,
    supports,
    check_stream,
    is_captured,
    cuda_order_create,
    cuda_order_destroy,
    cuda_order_begin,
    cuda_order_end,
    drain,
    copy,
    copy,
    copy,
    pinned_create,
    pinned_destroy,
    cuda_select_rows,
    cuda_move_rows<false>,
    cuda_move_rows<true>,
    cuda_sketch_keys,
    host_parallel,
    cuda_measure_limit,
    cuda_hash_keys,
    cuda_refer_strings,
    cuda_place_strings,
    cuda_copy_strings,
    cuda_reaches,
    cuda_count_operations,
    cuda_move_by_kind,
    cuda_sort_hashes,
    cuda_group_rows,
    cuda_run_sequences,
};

/* ---- the module ---- */

static const loom__machine_ops *attach(const loom__services *services)
{
    cuda_services = services;
    return &cuda_machine;
}

static const loom__module module_table = {LOOM__MACHINE_INTERFACE, LOOM_VERSION, attach};

extern "C" __attribute__((visibility("default"))) const loom__module *
loom__module_entry_(void) __asm__(LOOM__MODULE_SYMBOL);

extern "C" const loom__module *loom__module_entry_(void)
{
    return &module_table;
}
