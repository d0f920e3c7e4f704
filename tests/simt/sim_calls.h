/* The calls of a scenario whose items lie in rows: which operations they are, how they are launched and judged, and
 * what a report says of them. For tables with rows (sim_rows.c) and boards of tickets (sim_tickets.c). */
#ifndef LOOM_SIM_CALLS_H
#define LOOM_SIM_CALLS_H

#include "simt/sim_case.h"
#include "simt/sim_history.h"

typedef struct sim_call {
    simt_map_op op;
    loom__combine_rule rule; /* accumulate */
    uint32_t stream;
    uint32_t n, groups;          /* groups share out the items */
    uint32_t of[SIM_MOST_ITEMS]; /* the key of each item */
    simt_map_item items[SIM_MOST_ITEMS];
    simt_call *launched;
} sim_call;

/* An operation of a set SIM_…, drawn at random. */
simt_map_op sim_draw_op(uint32_t from);

/* Draws which keys the call asks for, out of the first `hot`. Item i gets the next number, from *written on, as its
 * value, and key_of(key) as its key. */
void sim_draw_items(sim_call *call, uint32_t hot, uint64_t (*key_of)(uint32_t key), uint64_t *written);

void sim_launch(sim_call *call, simt_open_kernel *kernel, void *argument, uint32_t warps_per_block);

/* Insertions of mixed calls that stored a new key: each took a slot. */
uint32_t sim_slots_taken(const sim_call *calls, uint32_t count);

/* What a table looks like to the verdict on one key. */
typedef struct sim_verdict {
    const sim_call *calls;
    uint32_t call_count;
    uint32_t value_bytes; /* of accumulations */
    int has_room;         /* the partition had room all the time, so that no refusal is right */
    int mixed;
    int (*is_excused)(const simt_map_item *item); /* a refusal that is right for another reason; NULL: none is */
} sim_verdict;

/* Fails the run if no order of the calls explains what was answered for the key. */
void sim_judge_key(const sim_verdict *verdict, uint32_t key, sim_state before, sim_state after);

/* Reports the calls, with what their keys held before and after. */
void sim_tell_calls(const sim_options *options, const sim_call *calls, uint32_t count, const sim_state *before,
                    const sim_state *after);

#endif
