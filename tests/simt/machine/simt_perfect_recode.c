#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_recode
#endif
#include "simt/machine/simt_perfect.h"

#include "engines/perfect/perfect_recode.h"
#include "simt/machine/simt_items.h"

/* Here the kind is not a literal: the long functions are compiled once instead of six times. */
void SIMT_PERFECT_KERNEL(void *argument)
{
    const simt_perfect_call *call = argument;
    const loom__slot_kind kind = (loom__slot_kind)call->view.kind;
    const lane_group group = lane_own_group();
    const perfect_owner owner = perfect_own(&call->view, 0, lane_own_team(), group, 1);
    perfect_beside beside = {0};
    simt_items own;
    simt_items_share(&own, call->inserts, call->items, call->n, call->groups);
    uint64_t value = 0;
    for (int begins = 1;;) {
        if (begins)
            simt_items_begin(&own);
        if (begins && own.active) {
            value = own.item->value;
            beside.seek = perfect_start(kind, &call->view, own.item->key);
            beside.turn = 0;
        }
        if (!lane_going(group, own.active))
            break;
        const perfect_outcome outcome =
            perfect_insert_beside(kind, simt_slot_mode(call->inserts), call->rule, &owner, &beside, &value, own.active);
        begins = own.active && outcome != PERFECT_AGAIN;
        if (!begins)
            continue;
        if (lane_leads(group))
            simt_items_answer(&own,
                              outcome == PERFECT_DONE        ? LOOM_OK
                              : outcome == PERFECT_WAS_THERE ? LOOM_EXISTS
                                                             : LOOM_FULL,
                              value);
        simt_items_next(&own);
    }
}
