#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_ROWS_KERNEL
#define SIMT_ROWS_KERNEL simt_rows_upkeep
#endif
#include "simt/machine/simt_rows.h"

#include "engines/open/open_upkeep.h"

/* All lanes of the call work on one partition after the other, as in simt_open_upkeep.c. */
void SIMT_ROWS_KERNEL(void *argument)
{
    const simt_rows_call *call = argument;
    const open_scratch scratch = {call->list, call->room, call->away};
    const loom__open_view *view = &call->view.lines;
    lane_team team = lane_own_team();
    lane_group alone = lane_own_group();
    if (alone.lanes != 1 || simt.config.turn_together)
        simt_fail("in upkeep every lane is a group, and turns by itself");
    simt.current->item = 0;
    for (uint32_t partition = 0; partition < view->partitions; partition++)
        open_put_in_order(SLOT_TAG, OPEN_SHARED, view, partition, call->order, team, alone, &scratch);
}
