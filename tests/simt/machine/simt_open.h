/* Calls on an open table in the lane simulator. */
#ifndef LOOM_SIMT_OPEN_H
#define LOOM_SIMT_OPEN_H

#include "core/combine.h"
#include "engines/open/open_layout.h"
#include "simt/machine/simt_map.h"

typedef struct simt_open_call {
    simt_map_op op;
    int shared; /* OPEN_SHARED, OPEN_MIXED or OPEN_UNREAD (open_ops.h); finds also OPEN_ALONE: loads not coherent */
    loom__combine_rule rule; /* accumulate */
    loom__open_view view;
    simt_map_item *items;
    uint32_t n, groups; /* groups share out the items */
    int at_home; /* insertions begin with open_settle_at_home: groups of one lane that take their turns by themselves */
    /* upkeep: */
    int order; /* 0: only retired keys go */
    uint64_t *list;
    uint32_t room, *away; /* of open_upkeep.h */
} simt_open_call;

/* A kernel; `argument` is a simt_open_call. With a plant (tests/simt/plants.cmake) one of them has another name,
 * SIMT_OPEN_KERNEL. */
typedef void simt_open_kernel(void *argument);
simt_open_kernel simt_open_run, simt_open_upkeep;
#ifdef SIMT_OPEN_KERNEL
simt_open_kernel SIMT_OPEN_KERNEL;
#endif

#endif
