/* The threads of a context. Several calls may use the pool at the same time; idle threads help any of them. */
#ifndef LOOM_CPU_POOL_H
#define LOOM_CPU_POOL_H

#include "loom/loom.h"

typedef struct loom__pool loom__pool;
typedef void (*loom__task)(void *argument, uint64_t index);

/* Makes a pool of `helpers` threads, which work beside the calling thread. The pool has fewer threads, or none, if the
 * system gives no more. NULL: out of memory. */
loom__pool *loom__pool_create(const loom_allocator *allocator, uint32_t helpers);
void loom__pool_destroy(loom__pool *pool);

/* Runs task(argument, 0 .. tasks - 1) on the calling thread and the pool's threads, in any sequence, and waits. */
void loom__pool_run(loom__pool *pool, uint64_t tasks, loom__task task, void *argument);

#endif
