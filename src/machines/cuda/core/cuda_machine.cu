/* The cuda machine and its module. */
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

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

/* ---- tickets ---- */

/* Returns NULL if all tickets are taken. The caller holds the lock. */
static cuda_ticket *find_free_ticket(cuda_state *cuda)
{
    for (uint32_t i = 0; i < COUNT_TICKETS; i++) {
        cuda_ticket *next = &cuda->tickets[cuda->next_ticket++ % COUNT_TICKETS];
        if (!next->taken)
            return next;
    }
    return NULL;
}

static void put_ticket_back(cuda_state *cuda, cuda_ticket *ticket)
{
    pthread_mutex_lock(&cuda->tickets_lock);
    ticket->taken = 0;
    pthread_cond_signal(&cuda->ticket_given);
    pthread_mutex_unlock(&cuda->tickets_lock);
}

loom_status cuda_take_ticket(cuda_state *cuda, cudaStream_t stream, cuda_ticket **taken)
{
    cuda_ticket *ticket;
    pthread_mutex_lock(&cuda->tickets_lock);
    while ((ticket = find_free_ticket(cuda)) == NULL) /* ends: a call gives its ticket back when it returns */
        pthread_cond_wait(&cuda->ticket_given, &cuda->tickets_lock);
    ticket->taken = 1;
    pthread_mutex_unlock(&cuda->tickets_lock);
    unsigned long long id = 0;
    cudaError_t error = cudaStreamGetId(stream, &id);
    if (error == cudaSuccess && ticket->stream != id)
        error = cudaStreamWaitEvent(stream, ticket->free, 0);
    if (error == cudaSuccess && ticket->unclear)
        error = cuda_step(cudaMemsetAsync(ticket->counts, 0, COUNT_BYTES, stream));
    if (error != cudaSuccess) {
        put_ticket_back(cuda, ticket);
        return cuda_status(error, "waiting for an earlier call");
    }
    ticket->stream = id;
    ticket->unclear = 0;
    *taken = ticket;
    return LOOM_OK;
}

void cuda_give_ticket(cuda_state *cuda, cudaStream_t stream, cuda_ticket *ticket, int counted)
{
    ticket->unclear = !counted;
    /* If this fails the device is lost; the next step reports it. */
    cudaEventRecord(ticket->free, stream);
    put_ticket_back(cuda, ticket);
}

static cudaError_t make_tickets(cuda_state *cuda)
{
    size_t bytes = (size_t)COUNT_BYTES * COUNT_TICKETS;
    RETURN_IF_CUDA_FAILED(cudaMalloc(&cuda->ticket_memory, bytes));
    RETURN_IF_CUDA_FAILED(cudaMemset(cuda->ticket_memory, 0, bytes));
    RETURN_IF_CUDA_FAILED(cudaMallocHost(&cuda->ticket_results, sizeof(loom_result) * COUNT_TICKETS));
    for (int i = 0; i < COUNT_TICKETS; i++) {
        cuda->tickets[i].counts = cuda->ticket_memory + i * COUNT_COPIES;
        cuda->tickets[i].result = cuda->ticket_results + i;
        RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&cuda->tickets[i].free, cudaEventDisableTiming));
    }
    return cudaSuccess;
}

static void free_tickets(cuda_state *cuda)
{
    for (int i = 0; i < COUNT_TICKETS; i++)
        if (cuda->tickets[i].free != NULL)
            cudaEventDestroy(cuda->tickets[i].free);
    cudaFree(cuda->ticket_memory);
    cudaFreeHost(cuda->ticket_results);
    pthread_cond_destroy(&cuda->ticket_given);
    pthread_mutex_destroy(&cuda->tickets_lock);
}

/* ---- streams ---- */

static cudaError_t make_find_streams(cuda_state *cuda)
{
    for (cuda_find_stream &one : cuda->find_streams) {
        RETURN_IF_CUDA_FAILED(cudaStreamCreateWithFlags(&one.stream, cudaStreamNonBlocking));
        RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&one.behind, cudaEventDisableTiming));
    }
    return cudaSuccess;
}

static void free_find_streams(cuda_state *cuda)
{
    for (cuda_find_stream &one : cuda->find_streams) {
        if (one.stream != NULL)
            cudaStreamDestroy(one.stream);
        if (one.behind != NULL)
            cudaEventDestroy(one.behind);
    }
}

/* ---- memory ---- */

static void *allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    void *memory = NULL;
    const cuda_state *cuda = (const cuda_state *)user;
    if (kind == LOOM_MEMORY_HOST)
        return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) == 0 ? memory
                                                                                                            : NULL;
    /* device memory is aligned to at least 256 bytes */
    cudaError_t error = kind == LOOM_MEMORY_TEMPORARY && cuda->temporary != NULL
                            ? cudaMallocFromPoolAsync(&memory, bytes, cuda->temporary, (cudaStream_t)stream)
                            : cudaMalloc(&memory, bytes);
    if (error == cudaSuccess)
        return memory;
    cudaGetLastError();
    return NULL;
}

static void release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    const cuda_state *cuda = (const cuda_state *)user;
    (void)bytes;
    if (kind == LOOM_MEMORY_HOST)
        free(memory);
    else if (kind == LOOM_MEMORY_TEMPORARY && cuda->temporary != NULL)
        cudaFreeAsync(memory, (cudaStream_t)stream);
    else
        cudaFree(memory);
}

/* Temporary memory comes from a pool, in stream order. Without a pool every build would wait for the device. Between
 * calls the pool keeps up to 1 / KEPT_SHARE of the device's memory, which saves mapping that memory again. */
static cudaError_t make_pool(cuda_state *cuda)
{
    enum { KEPT_SHARE = 32 };
    int pools = 0;
    size_t free_bytes, total;
    RETURN_IF_CUDA_FAILED(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, cuda->device));
    if (!pools)
        return cudaSuccess;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = cuda->device;
    RETURN_IF_CUDA_FAILED(cudaMemPoolCreate(&cuda->temporary, &properties));
    RETURN_IF_CUDA_FAILED(cudaMemGetInfo(&free_bytes, &total));
    uint64_t kept = total / KEPT_SHARE;
    return cudaMemPoolSetAttribute(cuda->temporary, cudaMemPoolAttrReleaseThreshold, &kept);
}

static const loom_allocator own_allocator = {allocate, release, NULL};

/* ---- the machine ---- */

extern const loom__machine_ops cuda_machine;

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
    cuda->base.cache_bytes = (uint64_t)l2_bytes;
    loom_context_config host = *config;
    host.machine = LOOM_MACHINE_CPU;
    host.device = -1;
    host.allocator = cuda->base.allocator;
    RETURN_IF_FAILED(cuda_services->cpu->open(&host, &cuda->host));
    if (config->allocator.allocate == NULL)
        CUDA_TRY(make_pool(cuda));
    CUDA_TRY(make_tickets(cuda));
    CUDA_TRY(make_find_streams(cuda));
    return LOOM_OK;
}

static void close_machine(loom__machine *machine)
{
    cuda_state *cuda = (cuda_state *)machine;
    loom_allocator allocator = machine->allocator;
    {
        cuda_device_scope scope(cuda);
        if (scope.status == LOOM_OK) {
            free_tickets(cuda);
            cuda_stages_free(cuda);
            pthread_cond_destroy(&cuda->stage_given);
            pthread_mutex_destroy(&cuda->stages_lock);
            free_find_streams(cuda);
            if (cuda->temporary != NULL)
                cudaMemPoolDestroy(cuda->temporary);
        }
    }
    if (cuda->host != NULL)
        cuda_services->cpu->close(cuda->host);
    allocator.release(allocator.user, cuda, sizeof *cuda, LOOM_MEMORY_HOST, NULL);
}

static loom_status open_machine(const loom_context_config *config, loom__machine **machine)
{
    const loom_allocator *allocator = config->allocator.allocate != NULL ? &config->allocator : &own_allocator;
    cuda_state *cuda = (cuda_state *)allocator->allocate(allocator->user, sizeof *cuda, 64, LOOM_MEMORY_HOST, NULL);
    RETURN_ERROR_IF(cuda == NULL, LOOM_OUT_OF_MEMORY, "%zu bytes of host memory could not be had", sizeof *cuda);
    *cuda = cuda_state{};
    pthread_mutex_init(&cuda->tickets_lock, NULL);
    pthread_cond_init(&cuda->ticket_given, NULL);
    pthread_mutex_init(&cuda->stages_lock, NULL);
    pthread_cond_init(&cuda->stage_given, NULL);
    cuda->base.ops = &cuda_machine;
    cuda->base.allocator = *allocator;
    if (allocator == &own_allocator)
        cuda->base.allocator.user = cuda;
    cuda->process = getpid();
    cuda->lanes = config->lanes;
    cuda->slice_keys = SPLIT_MOST_RECORDS;
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
    return engine == LOOM_ENGINE_OPEN      ? (const void *)&cuda_open_kernels
           : engine == LOOM_ENGINE_PERFECT ? (const void *)&cuda_perfect_kernels
           : engine == LOOM_ENGINE_BLOOM   ? (const void *)&cuda_filter_kernels
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
        "the stream is being captured into a graph, which only loom_map_build supports; make the call outside of "
        "the capture");
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
    cuda_select_rows,
    cuda_move_rows<false>,
    cuda_move_rows<true>,
    cuda_sketch_keys,
    host_parallel,
    cuda_measure_limit,
    cuda_hash_keys,
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
