/* One key from its start to its end, for machines whose lane groups turn together: the lane simulator and GPUs. All lanes
 * of a warp call these together; a group without a key comes along with active = 0. (A CPU takes turns by itself, in
 * another order: cpu_open_simd.h.) */
#ifndef LOOM_OPEN_ITEMS_H
#define LOOM_OPEN_ITEMS_H

#include "engines/open/open_ops.h"

typedef struct open_answer {
    open_outcome outcome; /* the same on all lanes of the group */
    int reports;          /* this lane of the group tells it */
    uint64_t value;       /* find: on the lane that reports */
} open_answer;

LOOM_LANE open_answer open_find_item(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                     uint64_t key, int active)
{
    open_answer answer = {OPEN_ABSENT, 0, 0};
    open_walk walk = open_start(kind, view, key);
    int going = active, found = 0, holds = 0;
    while (lane_going(group, going)) { /* at most view->buckets turns */
        open_look look = open_find_turn(kind, shared, group, view, &walk, going);
        if (look.mine)
            holds = open_read_value(kind, shared, view, &walk, look.slot, look.pair, &answer.value);
        found |= (int)look.found;
        going &= (int)(look.further & ~look.found);
        if (going)
            open_advance(view, &walk);
    }
    if (shared && kind != OPEN_PAIR_4_4)
        found = lane_some(lane_poll(group, holds)); /* the key was seen, but was its value ready? */
    if (found)
        answer.outcome = OPEN_DONE;
    answer.reports = active && (found ? holds : lane_leads(group));
    return answer;
}

LOOM_LANE open_answer open_insert_item(loom__open_kind kind, int overwrite, int shared, lane_group group,
                                       const loom__open_view *view, uint64_t key, uint64_t value, int active)
{
    open_answer answer = {OPEN_GO_ON, active && lane_leads(group), 0};
    open_walk walk = open_start(kind, view, key);
    int going = active;
    /* A turn goes one bucket further, begins anew once, follows a slot that was just filled, or waits for a value that
     * another group is storing. */
    while (lane_going(group, going)) {
        open_outcome outcome = open_insert_turn(kind, overwrite, shared, group, view, &walk, value, going);
        if (going)
            answer.outcome = outcome;
        going &= outcome == OPEN_GO_ON;
    }
    return answer;
}

LOOM_LANE open_answer open_erase_item(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                      uint64_t key, int active)
{
    open_answer answer = {OPEN_GO_ON, active && lane_leads(group), 0};
    open_walk walk = open_start(kind, view, key);
    int going = active;
    while (lane_going(group, going)) { /* at most view->buckets turns */
        open_outcome outcome = open_erase_turn(kind, shared, group, view, &walk, going);
        if (going)
            answer.outcome = outcome;
        going &= outcome == OPEN_GO_ON;
    }
    return answer;
}

#endif
