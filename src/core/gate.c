#include "core/gate.h"

enum {
    GATE_WRITER = 1, /* a writer is inside */
    GATE_QUEUED = 2, /* callers wait */
    GATE_READER = 4
};

void loom__gate_init(loom__gate *gate)
{
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->moved, NULL);
    atomic_init(&gate->state, 0);
    gate->arrived = gate->admitted = 0;
}

void loom__gate_destroy(loom__gate *gate)
{
    pthread_mutex_lock(&gate->lock); /* a caller that has left may still hold it */
    pthread_mutex_unlock(&gate->lock);
    pthread_cond_destroy(&gate->moved);
    pthread_mutex_destroy(&gate->lock);
}

/* Enters unless a caller inside prevents it, or one of the `hindrances`. The loop ends: each failed CAS means that
 * another caller entered or left, or began to wait. */
static int try_to_enter(loom__gate *gate, int writes, uint64_t hindrances)
{
    uint64_t seen = atomic_load_explicit(&gate->state, memory_order_relaxed);
    do {
        if (seen & (GATE_WRITER | hindrances) || (writes && seen >= GATE_READER))
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&gate->state, &seen, seen + (writes ? GATE_WRITER : GATE_READER),
                                                    memory_order_acquire, memory_order_relaxed));
    return 1;
}

static void enter_in_turn(loom__gate *gate, int writes)
{
    pthread_mutex_lock(&gate->lock);
    const uint64_t ticket = gate->arrived++;
    atomic_fetch_or_explicit(&gate->state, GATE_QUEUED, memory_order_relaxed);
    while (gate->admitted != ticket || !try_to_enter(gate, writes, 0))
        pthread_cond_wait(&gate->moved, &gate->lock);
    if (++gate->admitted == gate->arrived)
        atomic_fetch_and_explicit(&gate->state, ~(uint64_t)GATE_QUEUED, memory_order_relaxed);
    else
        pthread_cond_broadcast(&gate->moved); /* the next caller may be a reader, too */
    pthread_mutex_unlock(&gate->lock);
}

void loom__gate_enter(loom__gate *gate, int writes)
{
    if (!try_to_enter(gate, writes, GATE_QUEUED))
        enter_in_turn(gate, writes);
}

void loom__gate_leave(loom__gate *gate, int writes)
{
    const uint64_t own = writes ? GATE_WRITER : GATE_READER;
    uint64_t seen = atomic_load_explicit(&gate->state, memory_order_relaxed);
    while (!(seen & GATE_QUEUED))
        if (atomic_compare_exchange_weak_explicit(&gate->state, &seen, seen - own, memory_order_release,
                                                  memory_order_relaxed))
            return;
    pthread_mutex_lock(&gate->lock);
    atomic_fetch_sub_explicit(&gate->state, own, memory_order_release);
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}
