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

void loom__gate_enter_reader(loom__gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    uint64_t ticket = gate->arrived++;
    while (gate->admitted != ticket || gate->writer)
        pthread_cond_wait(&gate->moved, &gate->lock);
    gate->readers++;
    gate->admitted++;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

void loom__gate_enter_writer(loom__gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    uint64_t ticket = gate->arrived++;
    while (gate->admitted != ticket || gate->writer || gate->readers > 0)
        pthread_cond_wait(&gate->moved, &gate->lock);
    gate->writer = 1;
    gate->admitted++;
    pthread_mutex_unlock(&gate->lock);
}

void loom__gate_leave_reader(loom__gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->readers--;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

void loom__gate_leave_writer(loom__gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->writer = 0;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}
