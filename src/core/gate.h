/* The lock of a handle. Readers share it, a writer has it alone, and both enter in the order of arrival. No caller
 * starves, and a destroy waits for the calls that began before it. */
#ifndef LOOM_CORE_GATE_H
#define LOOM_CORE_GATE_H

#include <pthread.h>
#include <stdint.h>

typedef struct loom__gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t arrived;  /* arrival numbers handed out */
    uint64_t admitted; /* callers admitted; the caller with this arrival number is next */
    uint64_t readers;  /* inside */
    int writer;        /* inside */
} loom__gate;

void loom__gate_init(loom__gate *gate);
void loom__gate_destroy(loom__gate *gate);
/* Enter and leave as a writer if `writes`, otherwise as a reader. */
void loom__gate_enter(loom__gate *gate, int writes);
void loom__gate_leave(loom__gate *gate, int writes);

#endif
