#include "core/gate.h"

void loom__gate_init(loom__gate *gate)
{
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->moved, NULL);
    gate->arrived = gate->admitted = gate->readers = 0;
    gate->writer = 0;
}

void loom__gate_destroy(loom__gate *gate)
{
    pthread_cond_destroy(&gate->moved);
    pthread_mutex_destroy(&gate->lock);
}

void loom__gate_enter(loom__gate *gate, int writes)
{
    pthread_mutex_lock(&gate->lock);
    uint64_t ticket = gate->arrived++;
    while (gate->admitted != ticket || gate->writer || (writes && gate->readers > 0))
        pthread_cond_wait(&gate->moved, &gate->lock);
    gate->admitted++;
    if (writes) {
        gate->writer = 1;
    } else {
        gate->readers++;
        pthread_cond_broadcast(&gate->moved); /* the next caller may be a reader, too */
    }
    pthread_mutex_unlock(&gate->lock);
}

void loom__gate_leave(loom__gate *gate, int writes)
{
    pthread_mutex_lock(&gate->lock);
    if (writes)
        gate->writer = 0;
    else
        gate->readers--;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}
