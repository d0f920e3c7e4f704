/* Arrays of a batch in the machine's memory, on the host, or some in each. On the cuda machine the path of a bulk call
 * depends on the placement. On the cpu machine all arrays lie in host memory. */
#ifndef LOOM_TESTS_PLACED_BATCH_H
#define LOOM_TESTS_PLACED_BATCH_H

#include "map_fixture.h"

typedef struct placement {
    const char *name;
    int keys, values; /* 1: where the machine works; 0: on the host. The result goes with the keys */
    int status;       /* 1: there are statuses, where the machine works; 0: there are none */
    uint32_t shift;   /* elements that the arrays begin behind an aligned address */
} placement;

enum { PLACEMENTS = 5, PLACED_STATUS = 3 /* the first of those with statuses */ };
extern const placement placements[PLACEMENTS];

typedef struct placed_batch {
    loom_context *context;
    const placement *where;
    uint64_t n;
    void *keys, *values; /* values: NULL for sets */
    uint8_t *status;     /* NULL: none */
    loom_result *result;
    void *pieces[4];
    size_t bytes[4];
} placed_batch;

/* A copy of the batch's keys and values; statuses and result are unwritten. */
placed_batch place_batch(loom_context *context, const batch *b, const placement *where);
/* Waits, copies the statuses, if there are any, to b->status, and frees the arrays. Checks what must hold for the
 * result of any call that inserts, and returns the result. */
loom_result take_back_batch(placed_batch *p, batch *b);

#endif
