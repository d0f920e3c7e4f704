#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_FILTER_KERNEL
#define SIMT_FILTER_KERNEL simt_filter_run
#endif
#include "simt/machine/simt_filter.h"

#include "engines/filter/filter_ops.h"

/* Groups share the items out as on a GPU (cuda_filter_lanes.cuh): group g takes the items g, g + groups, g + 2 *
 * groups, … Unlike there, some items insert while others query, as in users' kernels (device.cuh). A call that tells
 * has the joins of device.cuh, and one lane speaks for its group. */
LOOM_LANE void run(uint32_t key_bytes, uint32_t each, const simt_filter_call *call)
{
    const lane_group group = lane_own_group();
    const uint32_t own = simt.current->index / group.lanes;
    for (uint32_t first = 0; first < call->n; first += call->groups) { /* as often on every lane */
        const uint32_t index = first + own;
        const lane_truth active = own < call->groups && index < call->n;
        simt_filter_item none = {0}, *item = active ? &call->items[index] : &none;
        const lane_truth inserts = active && item->inserts, asks = active && !item->inserts;
        const filter_key sought = filter_start(&call->view, key_bytes, item->key);
        unsigned char *at = filter_block(&call->view, sought.block);
        simt.current->item = active ? index : UINT32_MAX;
        if (item->began == 0)
            item->began = simt.steps;
        if (call->tells) {
            if (asks && lane_leads(group)) {
                item->heard = lane_load_8(item->flag) != 0;
                lane_acquire(1);
            }
            lane_join(group, 1); /* what one lane has heard holds for all of them */
        }
        lane_truth added = 0;
        if (call->tells_new) { /* the same on every lane */
            const lane_truth clear = inserts && filter_add(each, group, at, sought.lower);
            added = lane_some(lane_poll(group, clear));
        } else if (inserts) {
            filter_set(each, 1, group, at, sought.lower);
        }
        lane_line line;
        filter_take(group, &line, at, asks);
        const lane_truth found = filter_agree(each, group, &line, sought.lower);
        item->ended = simt.steps;
        if (call->tells) {
            lane_join(group, 1); /* what any lane has set comes before what one of them tells */
            if (inserts && lane_leads(group)) {
                lane_release(1);
                lane_store_8(item->flag, 1);
            }
        }
        if (lane_leads(group)) {
            item->found = found != 0;
            item->added = added != 0;
            item->answers++;
        }
    }
}

void SIMT_FILTER_KERNEL(void *argument)
{
    const simt_filter_call *call = argument;
#define CALL(key_bytes, each) run(key_bytes, each, call)
    FILTER_FOR_EACH(call->view.key_bytes, call->view.each, CALL);
#undef CALL
}
