/* Threads of a context. Several calls may use the pool at the same time; each shares its tasks with whoever is idle. */
#ifndef LOOM_CPU_POOL_H
#define LOOM_CPU_POOL_H

#include "loom/loom.h"

typedef struct loom__pool loom__pool;
typedef void (*loom__task)(void *argument, uint64_t index);

/* Threads beside the calling one; fewer if the system gives no more (0 is enough). NULL: out of memory. */
loom__pool *loom__pool_create(const loom_allocator *allocator, uint32_t helpers);
void loom__pool_destroy(loom__pool *pool);

/* Runs task(argument, 0 .. tasks - 1), in any order, on the calling thread and the pool's; waits for all. */
void loom__pool_run(loom__pool *pool, uint64_t tasks, loom__task task, void *argument);

#endif
