/* Calls on a filter in the lane simulator. */
#ifndef LOOM_SIMT_FILTER_H
#define LOOM_SIMT_FILTER_H

#include "engines/filter/filter_layout.h"

typedef struct simt_filter_item {
    uint64_t key;
    int inserts;           /* or asks */
    uint64_t *flag;        /* for calls that tell: set after an insertion, read before a query */
    uint64_t began, ended; /* steps: of the group's first lane, of its last */
    uint32_t answers;      /* leaders that have come to the end of it */
    int heard, found;      /* a query: was the flag set; is the key there, perhaps */
    int added;             /* an insertion: was the key new, if the call tells that */
} simt_filter_item;

typedef struct simt_filter_call {
    loom__filter_view view;
    simt_filter_item *items;
    uint32_t n, groups; /* groups share out the items */
    int tells;          /* while the call runs, groups tell each other which keys they have inserted */
    int tells_new;      /* insertions tell which keys were new */
} simt_filter_call;

/* A kernel; `argument` is a simt_filter_call. With a plant (tests/simt/plants.cmake) it has another name,
 * SIMT_FILTER_KERNEL. */
typedef void simt_filter_kernel(void *argument);
simt_filter_kernel simt_filter_run;
#ifdef SIMT_FILTER_KERNEL
simt_filter_kernel SIMT_FILTER_KERNEL;
#endif

#endif
