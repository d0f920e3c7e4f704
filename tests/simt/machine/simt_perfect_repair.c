#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_repair
#endif
#include "simt/machine/simt_perfect.h"

#include "engines/perfect/perfect_repair.h"
#include "simt/machine/simt_items.h"

/* Groups insert the items for which there is room now. */
static void insert_coming(loom__slot_kind kind, const simt_perfect_call *call, const perfect_repair *repair)
{
    const perfect_owner *owner = &repair->owner;
    for (uint32_t i = perfect_group(owner); i < repair->count; i += perfect_groups(owner)) {
        if (perfect_is_left(repair, i))
            continue;
        simt_map_item *item = &call->items[lane_load_4(repair->coming + i)];
        const perfect_seek seek = perfect_seek_key(kind, &call->view, item->key);
        const slot_mode mode = simt_slot_mode(call->inserts);
        uint64_t value = item->value;
        const perfect_outcome outcome =
            perfect_insert_alone(kind, mode, call->rule, 1, owner->alone, &call->view, &seek, &value);
        if (outcome == PERFECT_OVERFLOW) {
            if (perfect_may_claim(kind, mode, 1))
                simt_fail("room was planned for item %u, but there is none", i);
            perfect_leave(repair, i);
        } else if (lane_leads(owner->alone)) {
            simt_item_answer(item, outcome == PERFECT_DONE ? LOOM_OK : LOOM_EXISTS, value);
        }
    }
}

/* All lanes of the call insert all items at once, like the thread block that owns the partition. Here the kind is
 * not a literal: the long functions are compiled once instead of six times. */
void SIMT_PERFECT_KERNEL(void *argument)
{
    simt_perfect_call *call = argument;
    const loom__slot_kind kind = (loom__slot_kind)call->view.kind;
    const lane_group alone = lane_own_group();
    const perfect_owner owner = perfect_own(&call->view, 0, lane_own_team(), alone, 1);
    if (simt.config.turn_together)
        simt_fail("in a team every group turns by itself");
    perfect_repair repair = perfect_begin_repair(owner, alone, call->memory,
                                                 (perfect_repair_limits){call->most[0], call->most[1], call->most[2]});
    repair.keys = call->keys;
    repair.coming = call->coming;
    repair.count = call->n;
    if (!perfect_plan_repair(kind, &repair, call->rounds))
        return;
    perfect_carry_out_repair(kind, &repair);
    insert_coming(kind, call, &repair);
    const uint32_t left = perfect_keep_left(&repair);
    if (lane_team_rank(owner.team) == 0) {
        call->planned = 1;
        call->left = left;
    }
}
