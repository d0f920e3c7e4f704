/* Calls on a perfect table in the lane simulator. */
#ifndef LOOM_SIMT_PERFECT_H
#define LOOM_SIMT_PERFECT_H

#include "core/combine.h"
#include "engines/perfect/perfect_layout.h"
#include "simt/machine/simt_map.h"

struct perfect_scratch; /* perfect_cells.h */

typedef struct simt_perfect_call {
    simt_map_op op;
    loom__combine_rule rule; /* accumulate */
    simt_map_op inserts;     /* which insertion it is that gives other codes to cells */
    loom__perfect_view view;
    simt_map_item *items; /* LOOM_FULL: an insertion that is left to the partition's owner, or that the owner refused */
    uint32_t n, groups;   /* groups share out the items */
    /* making room, in partition 0, which all keys are of: */
    struct perfect_scratch *scratch;
    uint32_t most_moves, tries;     /* of a plan for a key; 0 tries: as perfect_make_room has them */
    int plans;                      /* 0: none, as if all had failed */
    int anew;                       /* reseeds where plans fail */
    void (*at_rest)(uint32_t item); /* called by one lane when an item is done, while the others wait */
    /* inserting many keys at once, into partition 0: */
    unsigned char *memory;    /* of the team */
    uint32_t most[3], rounds; /* perfect_repair_limits: suspects, moves, troubles */
    const void *keys;         /* of the items, as a batch has them */
    uint32_t *coming; /* [n], outside of the table: the items that come; in the end the left ones come first … */
    uint32_t left;    /* … this is their number … */
    int planned;      /* … if a plan was carried out */
} simt_perfect_call;

/* A kernel; `argument` is a simt_perfect_call. With a plant (tests/simt/plants.cmake) one of them has another name,
 * SIMT_PERFECT_KERNEL. */
typedef void simt_perfect_kernel(void *argument);
simt_perfect_kernel simt_perfect_run, simt_perfect_room, simt_perfect_recode, simt_perfect_repair;
#ifdef SIMT_PERFECT_KERNEL
simt_perfect_kernel SIMT_PERFECT_KERNEL;
#endif

#endif
