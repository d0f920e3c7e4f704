/* Calls on a multimap of the chain engine in the lane simulator. */
#ifndef LOOM_SIMT_CHAIN_H
#define LOOM_SIMT_CHAIN_H

#include "simt/machine/simt_lists.h"

#include "engines/chain/chain_layout.h"
#include "simt/machine/simt_map.h"

enum { SIMT_CHAIN_MOST_VALUES = 64 /* that a lookup may find */ };

typedef struct simt_chain_call {
    simt_map_op op; /* append, count, find_all, erase */
    loom__multi_view view;
    simt_map_item *items;
    uint64_t (*values)[SIMT_CHAIN_MOST_VALUES]; /* [n] find_all */
    uint32_t n, groups;                         /* groups share out the items */
    int counts;                                 /* a group counts the values of its key after each append */
} simt_chain_call;

/* A kernel; `argument` is a simt_chain_call. With a plant (tests/simt/plants.cmake) it has another name,
 * SIMT_CHAIN_KERNEL. */
typedef void simt_chain_kernel(void *argument);
simt_chain_kernel simt_chain_run;
#ifdef SIMT_CHAIN_KERNEL
simt_chain_kernel SIMT_CHAIN_KERNEL;
#endif

#endif
