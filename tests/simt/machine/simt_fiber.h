/* Coroutines: a stack each, and a switch of a few nanoseconds. Nothing here knows of lanes. */
#ifndef LOOM_SIMT_FIBER_H
#define LOOM_SIMT_FIBER_H

#include <stddef.h>

typedef struct simt_fiber {
    void *stack_pointer; /* where it stands, while another one runs */
    unsigned char *stack;
    size_t stack_bytes; /* 0: the thread's own stack, not left yet */
} simt_fiber;

/* A fiber that will run entry() when it is first switched to. entry must not return. The stack may have been used
 * before, by a fiber that was given up half way. */
void simt_fiber_prepare(simt_fiber *fiber, unsigned char *stack, size_t stack_bytes, void (*entry)(void));

/* Leaves `from`, which is running, and goes on with `to`. `for_good`: `from` will be prepared before it runs again. */
void simt_fiber_switch(simt_fiber *from, simt_fiber *to, int for_good);

#endif
