#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_OPEN_KERNEL
#define SIMT_OPEN_KERNEL simt_open_upkeep
#endif
#include "simt/machine/simt_open.h"

#include "engines/open/open_upkeep.h"

/* All lanes of the call work on one partition after the other, like a thread block on a GPU. */
void SIMT_OPEN_KERNEL(void *argument)
{
    const simt_open_call *call = argument;
    const open_scratch scratch = {call->list, call->room, call->away};
    lane_team team = lane_own_team();
    lane_group alone = lane_own_group();
    if (alone.lanes != 1 || simt.config.turn_together)
        simt_fail("in upkeep every lane is a group, and turns by itself");
    simt.current->item = 0;
    for (uint32_t partition = 0; partition < call->view.partitions; partition++) {
#define CALL(kind) open_put_in_order(kind, OPEN_SHARED, &call->view, partition, call->order, team, alone, &scratch)
        SLOT_FOR_KIND(call->view.kind, CALL)
#undef CALL
    }
}
