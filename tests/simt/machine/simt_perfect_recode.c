#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_recode
#endif
#include "simt/machine/simt_perfect.h"

#include "engines/perfect/perfect_recode.h"

static slot_mode mode_of(simt_map_op op)
{
    return op == SIMT_MAP_OVERWRITE ? SLOT_OVERWRITE
           : op == SIMT_MAP_FETCH   ? SLOT_FETCH
           : op == SIMT_MAP_COMBINE ? SLOT_COMBINE
                                    : SLOT_KEEP;
}

/* Items are shared out to groups; one that is done with an item begins its next one while the others of its warp go on. The kind is no
 * literal here: one copy of what is long, instead of six. */
void SIMT_PERFECT_KERNEL(void *argument)
{
    const simt_perfect_call *call = argument;
    const loom__slot_kind kind = (loom__slot_kind)call->view.kind;
    const lane_group group = lane_own_group();
    const perfect_owner owner = perfect_own(&call->view, 0, lane_own_team(), group, 1);
    simt_map_item none = {0, 0, 0, LOOM_OK}, *item = &none;
    perfect_beside beside = {0};
    uint32_t index = simt.current->index / group.lanes;
    lane_truth active = index < call->groups && index < call->n;
    uint64_t value = 0;
    for (int begins = 1;;) {
        if (begins && active) {
            item = &call->items[index];
            simt.current->item = index;
            value = item->value;
            perfect_begin_beside(kind, &call->view, &owner, item->key, &beside);
        }
        if (!lane_going(group, active))
            break;
        const perfect_outcome outcome = perfect_insert_beside(kind, mode_of(call->inserts), call->how, &call->view,
                                                              &owner, &beside, &value, active);
        begins = active && outcome != PERFECT_AGAIN;
        if (!begins)
            continue;
        if (lane_leads(group)) {
            if (item->status != LOOM_INTERNAL)
                simt_fail("item %u is answered twice", index);
            item->status = outcome == PERFECT_DONE ? LOOM_OK : outcome == PERFECT_WAS_THERE ? LOOM_EXISTS : LOOM_FULL;
            item->found = outcome == PERFECT_OVERFLOW ? 0 : value;
        }
        index += call->groups;
        active = index < call->n;
    }
}
