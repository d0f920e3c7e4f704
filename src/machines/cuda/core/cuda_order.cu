/* Orders the calls on one table across streams.
 *
 * Calls that may overlap form a *phase*. A call that may not join the current phase opens the next one and waits, in
 * its stream, for every call of the previous phase. A call that joins the current phase also waits for the previous
 * phase, whose calls waited for all earlier phases. So a lookup that joins the phase of an erasure has ended before a
 * later insertion begins, as open_ops.h requires. The host waits for the device here only if a phase has more than
 * KEPT_STREAMS streams.
 *
 * The lock is held for the bookkeeping alone, not while a call launches its work and waits for it. Calls that join a
 * phase run beside each other. A call that opens a phase waits on the host until every call of the current phase has
 * come to its end, where it records its event. Callers pass in the order of arrival: a call that waits to open a phase
 * is not overtaken by calls that would join the current one. */
#include "machines/cuda/core/cuda_kept_streams.h"
#include "machines/cuda/core/cuda_state.cuh"

typedef struct phase {
    kept_streams streams;
    cudaEvent_t events[KEPT_STREAMS]; /* recorded after the last call of each stream */
} phase;

struct loom__order {
    cuda_state *cuda;
    int concurrent_reads;
    pthread_mutex_t lock;
    pthread_cond_t moved;       /* signalled when `admitted` or `inside` changes */
    uint64_t arrived, admitted; /* arrival numbers handed out, and callers admitted, as in core/gate.h */
    uint32_t inside;            /* calls of the current phase between begin and end */
    loom__access writes;        /* how the current phase writes; READ: it does not write */
    phase at_hand, before;
};

loom_status cuda_order_create(loom__machine *machine, int concurrent_reads, loom__order **made)
{
    cuda_state *cuda = (cuda_state *)machine;
    ON_DEVICE(cuda);
    loom__order *order =
        (loom__order *)machine->allocator.allocate(machine->allocator.user, sizeof *order, 64, LOOM_MEMORY_HOST, NULL);
    RETURN_ERROR_IF(order == NULL, LOOM_OUT_OF_MEMORY, "%zu bytes of host memory could not be had", sizeof *order);
    *order = loom__order{};
    order->cuda = cuda;
    order->concurrent_reads = concurrent_reads;
    order->writes = LOOM__ACCESS_READ;
    pthread_mutex_init(&order->lock, NULL);
    pthread_cond_init(&order->moved, NULL);
    for (phase *p : {&order->at_hand, &order->before})
        for (int i = 0; i < KEPT_STREAMS; i++) {
            cudaError_t error = cudaEventCreateWithFlags(&p->events[i], cudaEventDisableTiming);
            if (error != cudaSuccess) {
                p->events[i] = NULL;
                cuda_order_destroy(order);
                return cuda_status(error, "making events for a table");
            }
        }
    *made = order;
    return LOOM_OK;
}

void cuda_order_destroy(loom__order *order)
{
    cuda_device_scope scope(order->cuda);
    for (phase *p : {&order->before, &order->at_hand})
        for (int i = 0; i < KEPT_STREAMS; i++) {
            if (p->events[i] == NULL || scope.status != LOOM_OK)
                continue;
            if (i < p->streams.count)
                cudaEventSynchronize(p->events[i]);
            cudaEventDestroy(p->events[i]);
        }
    const loom_allocator *allocator = &order->cuda->base.allocator;
    pthread_cond_destroy(&order->moved);
    pthread_mutex_destroy(&order->lock);
    allocator->release(allocator->user, order, sizeof *order, LOOM_MEMORY_HOST, NULL);
}

static cudaError_t wait_for(const phase *p, cudaStream_t stream)
{
    unsigned long long id = 0;
    cudaError_t error = p->streams.count > 0 ? cudaStreamGetId(stream, &id) : cudaSuccess;
    for (int i = 0; i < p->streams.count && error == cudaSuccess; i++)
        if (p->streams.ids[i] != id)
            error = cudaStreamWaitEvent(stream, p->events[i], 0);
    return error;
}

/* Enters a call into its phase. The caller holds the lock. */
static cudaError_t enter_phase(loom__order *order, loom__access access, int joins, cudaStream_t stream)
{
    const cudaError_t error = cuda_step(wait_for(joins ? &order->before : &order->at_hand, stream));
    if (error != cudaSuccess) /* nothing has changed: the next call waits for the same calls */
        return error;
    if (!joins) {
        phase old = order->before;
        order->before = order->at_hand;
        order->at_hand = old;
        order->at_hand.streams.count = 0;
        order->writes = LOOM__ACCESS_READ;
    }
    if (access != LOOM__ACCESS_FIND)
        order->writes = access;
    order->inside++;
    return cudaSuccess;
}

loom_status cuda_order_begin(loom__order *order, loom__access access, loom_stream given)
{
    ON_DEVICE(order->cuda);
    int joins;
    pthread_mutex_lock(&order->lock);
    const uint64_t arrival = order->arrived++;
    for (;;) {
        joins = loom__may_overlap(access, order->writes, order->concurrent_reads);
        if (order->admitted == arrival && (joins || order->inside == 0))
            break;
        pthread_cond_wait(&order->moved, &order->lock);
    }
    const cudaError_t error = enter_phase(order, access, joins, (cudaStream_t)given);
    order->admitted++;
    pthread_cond_broadcast(&order->moved);
    pthread_mutex_unlock(&order->lock);
    return cuda_status(error, "waiting for earlier calls on the table");
}

void cuda_order_end(loom__order *order, int ended, loom_stream given)
{
    cuda_device_scope scope(order->cuda);
    cudaStream_t stream = (cudaStream_t)given;
    phase *p = &order->at_hand; /* no other phase begins while this call is inside */
    unsigned long long id = 0;
    int evicts;
    pthread_mutex_lock(&order->lock);
    if (ended) {
        order->before.streams.count = 0; /* this call's work waited for the phase before: it has ended, too */
    } else {
        /* If one of these calls fails, the device is lost; the next step reports it. */
        cudaStreamGetId(stream, &id);
        int place = kept_streams_place(&p->streams, id, &evicts);
        if (evicts) /* more streams than events: wait for the oldest call */
            cudaEventSynchronize(p->events[place]);
        cudaEventRecord(p->events[place], stream);
    }
    order->inside--;
    pthread_cond_broadcast(&order->moved);
    pthread_mutex_unlock(&order->lock);
}
