/* Lookups that are waited for. They wait without the driver; and those of several threads in the default stream share a
 * launch.
 *
 * A launch and a wait for a stream each take the driver's lock. Sixteen threads that do both spend their time there: on
 * an H200 they made hardly more lookups of 1,024 keys a second than one thread (docs/performance.md). So a small lookup
 * takes a *bell*. The last thread block of the lookup rings it: it writes a number into host memory, where the thread
 * is looking.
 *
 * Lookups in the default stream would also run one after the other. A thread puts such a lookup into a list. If no
 * other thread is launching, it launches kernels for the lookups in the list: a *round* for up to MOST_PARTS lookups in
 * one table. While MOST_ROUNDS rounds are in flight it waits, and meanwhile the list grows: a kernel for sixteen
 * lookups takes little longer than a kernel for one. A thread launches at most MOST_LAUNCHES rounds. Then the next
 * thread in the list that looks around takes over.
 *
 * Order. A lookup runs in its own stream, after everything that the stream waits for. When its bell rings, the lookup
 * has read what it reads from the table, and its answers are visible to the host and to all work that is launched
 * later, in any stream. */
#include "machines/cuda/core/cuda_map_call.cuh"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_KEYS = 1 << 17,       /* of a lookup with a bell: a larger one keeps the device busy by itself */
    MOST_HOST_BYTES = 1 << 17, /* of a lookup with host arrays and a bell */
    MOST_LAUNCHES = 4,         /* by one thread */
    LOOKS = 1000,  /* a thread looks so often whether its lookup is done, before it lets other threads run, */
    YIELDS = 1000, /* and so often then, before it waits for the stream: perhaps the stream has other work */
    NAP = 20       /* microseconds */
};

/* A lookup whose thread waits for it. */
struct cuda_lookup {
    cuda_map_call *call;
    cuda_batch batch;
    cuda_bell *bell;
    uint32_t listed;   /* nobody has launched it yet */
    cudaError_t error; /* of the launch; set before `listed` is cleared */
    cuda_lookup *next;
};

namespace
{

cuda_bell *take_bell(cuda_together *together)
{
    cuda_bell *bell = NULL;
    pthread_mutex_lock(&together->lock);
    if (together->free_bells > 0)
        bell = together->free[--together->free_bells];
    pthread_mutex_unlock(&together->lock);
    return bell;
}

void give_bell(cuda_together *together, cuda_bell *bell)
{
    pthread_mutex_lock(&together->lock);
    together->free[together->free_bells++] = bell;
    pthread_mutex_unlock(&together->lock);
}

cuda_part part_of(const cuda_lookup *lookup)
{
    const cuda_bell *bell = lookup->bell;
    return {lookup->batch, bell->arrived, bell->rung, bell->number};
}

/* Whether the bell has rung for this number, or for a later one. */
bool has_rung_for(const cuda_bell *bell, uint32_t number)
{
    return (int32_t)(__atomic_load_n(bell->rung, __ATOMIC_ACQUIRE) - number) >= 0;
}

bool has_rung(const cuda_bell *bell)
{
    return has_rung_for(bell, bell->number);
}

bool is_listed(const cuda_lookup *lookup)
{
    return __atomic_load_n(&lookup->listed, __ATOMIC_ACQUIRE) != 0;
}

void pause_briefly(void)
{
#if defined(__x86_64__)
    asm volatile("pause" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

/* Takes the first lookup out of the list, and others in the same table. The caller holds the lock. */
uint32_t take_lookups(cuda_together *together, cuda_lookup *taken[MOST_PARTS])
{
    uint32_t count = 0;
    cuda_lookup *before = NULL;
    for (cuda_lookup *at = together->first, *next; at != NULL && count < MOST_PARTS; at = next) {
        next = at->next;
        if (count > 0 && at->call->view != taken[0]->call->view) {
            before = at;
            continue;
        }
        taken[count++] = at;
        (before != NULL ? before->next : together->first) = next;
        together->last = next == NULL ? before : together->last;
    }
    return count;
}

/* The threads of the lookups keep them until `listed` is cleared. */
void launch_lookups(cuda_lookup *const lookups[], uint32_t count)
{
    cuda_parts parts;
    parts.count = count;
    for (uint32_t i = 0; i < count; i++)
        parts.part[i] = part_of(lookups[i]);
    const cudaError_t error = lookups[0]->call->launch_parts(lookups[0]->call, &parts, NULL);
    for (uint32_t i = 0; i < count; i++) {
        lookups[i]->error = error;
        __atomic_store_n(&lookups[i]->listed, 0, __ATOMIC_RELEASE);
    }
}

/* Waits for a place among the rounds in flight, but not for long: perhaps the stream has other work. */
void wait_for_a_round(const cuda_together *together)
{
    const auto *oldest = &together->rounds[together->next_round % MOST_ROUNDS];
    for (int i = 0; i < LOOKS && oldest->bell != NULL && !has_rung_for(oldest->bell, oldest->number); i++)
        pause_briefly();
}

/* Launches what is in the list, if no other thread does. The caller holds the lock, which is free meanwhile. */
void launch_from_list(cuda_together *together)
{
    cuda_lookup *lookups[MOST_PARTS];
    if (together->launching)
        return;
    __atomic_store_n(&together->launching, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < MOST_LAUNCHES && together->first != NULL; i++) {
        pthread_mutex_unlock(&together->lock);
        wait_for_a_round(together);
        pthread_mutex_lock(&together->lock);
        const uint32_t count = take_lookups(together, lookups);
        const cuda_bell *bell = lookups[0]->bell;
        together->rounds[together->next_round++ % MOST_ROUNDS] = {bell, bell->number};
        pthread_mutex_unlock(&together->lock);
        launch_lookups(lookups, count);
        pthread_mutex_lock(&together->lock);
    }
    __atomic_store_n(&together->launching, 0, __ATOMIC_RELAXED);
}

/* Puts the lookup into the list and returns when it is launched. */
cudaError_t launch_together(cuda_together *together, cuda_lookup *own)
{
    own->listed = 1;
    pthread_mutex_lock(&together->lock);
    (together->first != NULL ? together->last->next : together->first) = own;
    together->last = own;
    launch_from_list(together);
    pthread_mutex_unlock(&together->lock);
    for (int i = 0; is_listed(own); i++) { /* ends: the thread that launches stops, and then this thread may launch */
        if (!__atomic_load_n(&together->launching, __ATOMIC_RELAXED)) {
            pthread_mutex_lock(&together->lock);
            launch_from_list(together);
            pthread_mutex_unlock(&together->lock);
        } else if (i < LOOKS) {
            pause_briefly();
        } else if (i < LOOKS + YIELDS) {
            sched_yield();
        } else {
            usleep(NAP); /* the other thread may have a lower priority */
        }
    }
    return own->error;
}

cudaError_t launch_by_itself(cuda_lookup *own)
{
    cuda_parts parts;
    parts.count = 1;
    parts.part[0] = part_of(own);
    return own->call->launch_parts(own->call, &parts, own->call->stream);
}

/* Waits for the bell, at most as long as the stream has work. */
cudaError_t wait_for_bell(const cuda_bell *bell, cudaStream_t stream)
{
    for (int i = 0; i < LOOKS + YIELDS; i++) {
        if (has_rung(bell))
            return cudaSuccess;
        if (i < LOOKS)
            pause_briefly();
        else
            sched_yield();
    }
    const cudaError_t error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess && !has_rung(bell))
        cudaDeviceSynchronize(); /* nothing is left running: the stream may have refused to be waited for */
    return has_rung(bell) ? cudaSuccess : error != cudaSuccess ? error : cudaErrorUnknown;
}

loom_status find_without_bell(cuda_map_call *call)
{
    loom_status status = cuda_run_items(call);
    if (!call->arrays.staged && call->batch.n > 0) { /* after a failure, too: nothing is left running */
        const cudaError_t error = cudaStreamSynchronize(call->stream);
        status = status == LOOM_OK ? cuda_status(cuda_step(error), "waiting for a lookup") : status;
    }
    return status;
}

/* Bytes of the arrays that are staged, each at a multiple of 256. */
uint64_t staged_bytes(const cuda_map_call *call)
{
    uint64_t bytes = 0;
    for (const cuda_call_array &array : call->arrays.all)
        bytes += array.staged() ? cuda_aligned(array.width * call->batch.n) : 0;
    return bytes;
}

/* Whether a kernel of the lookup can ring. */
bool can_ring(const cuda_map_call *call)
{
    const uint64_t n = call->batch.n;
    return n > 0 && n <= MOST_KEYS && call->launch_parts != NULL && call->cuda->may_ring &&
           (!call->arrays.staged || staged_bytes(call) <= MOST_HOST_BYTES);
}

/* Gives the bell back. */
loom_status find_with_bell(cuda_map_call *call, cuda_bell *bell, const cuda_batch &batch)
{
    cuda_together *together = &call->cuda->together;
    cuda_lookup own = {call, batch, bell, 0, cudaSuccess, NULL};
    bell->number++;
    cudaError_t error = call->stream == NULL ? launch_together(together, &own) : launch_by_itself(&own);
    if (error == cudaSuccess)
        error = wait_for_bell(bell, call->stream);
    else
        __atomic_store_n(bell->rung, bell->number, __ATOMIC_RELAXED); /* it was not launched */
    if (has_rung(bell))                                               /* otherwise the device is lost */
        give_bell(together, bell);
    return cuda_status(cuda_step(error), "looking keys up");
}

/* The kernel reads the keys of a few host arrays from pinned memory, and writes the answers there. Copies to the device
 * and back would take six calls of the driver. */
loom_status find_in_pinned_memory(cuda_map_call *call, cuda_bell *bell)
{
    const uint64_t n = call->batch.n;
    const cuda_stage_scope scope(call->cuda, true);
    if (scope.status != LOOM_OK) {
        give_bell(&call->cuda->together, bell);
        return scope.status;
    }
    void *at[CALL_ARRAYS];
    unsigned char *pinned = scope.stage->pinned[0];
    call->arrays.addresses(at);
    for (int i = 0; i < CALL_ARRAYS; i++) {
        const cuda_call_array &array = call->arrays.all[i];
        if (!array.staged())
            continue;
        at[i] = pinned;
        pinned += cuda_aligned(array.width * n);
        if (!array.written)
            memcpy(at[i], array.at, array.width * n);
    }
    RETURN_IF_FAILED(find_with_bell(call, bell, cuda_batch_of(call->cuda, at, n, &call->batch, NULL)));
    for (int i = 0; i < CALL_ARRAYS; i++) {
        const cuda_call_array &array = call->arrays.all[i];
        if (array.staged() && array.written)
            memcpy(array.at, at[i], array.width * n);
    }
    return LOOM_OK;
}

} // namespace

loom_status cuda_find_and_wait(cuda_map_call *call)
{
    cuda_bell *bell = can_ring(call) ? take_bell(&call->cuda->together) : NULL;
    if (bell == NULL)
        return find_without_bell(call);
    return call->arrays.staged ? find_in_pinned_memory(call, bell) : find_with_bell(call, bell, call->whole());
}

/* ---- bells ---- */

cudaError_t cuda_together_create(cuda_together *together)
{
    const size_t bytes = MOST_BELLS * CUDA_BELL_BYTES;
    unsigned char *host, *device;
    pthread_mutex_init(&together->lock, NULL);
    RETURN_IF_CUDA_FAILED(cudaHostAlloc(&together->host_memory, bytes, cudaHostAllocMapped));
    RETURN_IF_CUDA_FAILED(cudaMalloc(&together->device_memory, bytes));
    RETURN_IF_CUDA_FAILED(cudaMemset(together->device_memory, 0, bytes));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(NULL));
    host = (unsigned char *)together->host_memory;
    device = (unsigned char *)together->device_memory;
    for (uint32_t i = 0; i < MOST_BELLS; i++) {
        cuda_bell *bell = &together->bells[i];
        bell->rung = (uint32_t *)(host + i * CUDA_BELL_BYTES);
        bell->arrived = (uint32_t *)(device + i * CUDA_BELL_BYTES);
        bell->number = *bell->rung = 0;
        together->free[together->free_bells++] = bell;
    }
    return cudaSuccess;
}

void cuda_together_destroy(cuda_together *together)
{
    cudaFree(together->device_memory);
    cudaFreeHost(together->host_memory);
    pthread_mutex_destroy(&together->lock);
}
