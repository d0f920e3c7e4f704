/* Turns with their answers, for machines whose lane groups turn together: the lane simulator and GPUs. All lanes of a warp
 * call these together; a group without a key comes along with active = 0. A group whose key is settled takes its next one
 * while the others go on with theirs. (A CPU takes turns in another order: cpu_open_simd.h.) */
#ifndef LOOM_OPEN_ITEMS_H
#define LOOM_OPEN_ITEMS_H

#include "engines/open/open_ops.h"

typedef struct open_answer {
    open_outcome outcome; /* the same on all lanes of the group; GO_ON: not settled yet */
    int reports;          /* this lane of the group tells it */
    uint64_t value;       /* find, on the lane that reports: the value, or 0 */
} open_answer;

LOOM_LANE open_answer open_find_item(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                     open_walk *walk, int active)
{
    open_answer answer;
    uint64_t value = 0;
    open_look look = open_find_turn(kind, shared, group, view, walk, active);
    int holds = (int)look.mine, found = (int)look.found;
    if (look.mine)
        holds = open_read_value(kind, shared, view, walk, look.slot, look.pair, &value);
    if (shared && kind != OPEN_PAIR_4_4)
        found = lane_some(lane_poll(group, holds)); /* the key was seen, but was its value ready? */
    answer.outcome = found ? OPEN_DONE : look.further & ~look.found ? OPEN_GO_ON : OPEN_ABSENT;
    answer.reports = found ? holds : lane_leads(group);
    answer.value = found ? value : 0;
    if (answer.outcome == OPEN_GO_ON)
        open_advance(view, walk);
    return answer;
}

LOOM_LANE open_answer open_insert_item(loom__open_kind kind, int overwrite, int shared, lane_group group,
                                       const loom__open_view *view, open_walk *walk, uint64_t value, int active)
{
    open_answer answer;
    answer.outcome = open_insert_turn(kind, overwrite, shared, group, view, walk, value, active);
    answer.reports = lane_leads(group);
    answer.value = 0;
    return answer;
}

LOOM_LANE open_answer open_erase_item(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                      open_walk *walk, int active)
{
    open_answer answer;
    answer.outcome = open_erase_turn(kind, shared, group, view, walk, active);
    answer.reports = lane_leads(group);
    answer.value = 0;
    return answer;
}

#endif
