/* Could the operations of a concurrent run have answered what they did? Checked key by key. There must be an order
 * of the operations on a key in which each gives the answer it gave, no operation comes before one that had ended
 * when it began, and the last leaves what the table holds. Keys do not influence each other, except that they share
 * slots: the callers check the answers LOOM_FULL. */
#ifndef LOOM_SIM_HISTORY_H
#define LOOM_SIM_HISTORY_H

#include "core/combine.h"
#include "simt/machine/simt_map.h"

enum { SIM_MOST_OPERATIONS = 16 /* on one key in one run */ };

typedef struct sim_state {
    int present;
    uint64_t value;
} sim_state;

typedef struct sim_operation {
    simt_map_op op;
    uint64_t value; /* given; of a find: found */
    loom_status status;
    uint64_t began, ended;
    uint64_t found; /* find or insert, erase_if: the value in the answer */
    loom__combine_rule
        rule;             /* accumulate; all operations on a key have the same, so that their order does not matter */
    uint32_t value_bytes; /* accumulate */
} sim_operation;

/* Returns 1 if there is an order like this. */
int sim_history_possible(const sim_operation *operations, uint32_t count, sim_state before, sim_state after);

#endif
