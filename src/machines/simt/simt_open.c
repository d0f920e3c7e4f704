#define LOOM_LANES_HEADER "machines/simt/simt_lanes.h"
#include "machines/simt/simt_open.h"

#include "engines/open/open_items.h"

static const loom_status status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL,
};

/* Items are shared out to groups as a GPU's grid does: the group's number, then on by the number of groups. All groups
 * of a warp make the same number of rounds. */
LOOM_LANE void run(loom__open_kind kind, const simt_open_call *call)
{
    const loom__open_view *view = &call->view;
    lane_group group = lane_own_group();
    uint32_t own = simt.current->index / group.lanes, stored = 0, erased = 0;
    for (uint32_t first = 0; first < call->n; first += call->groups) {
        int active = own < call->groups && first + own < call->n;
        simt_open_item none = {0, 0, LOOM_OK}, *item = active ? &call->items[first + own] : &none;
        simt.current->item = active ? first + own : UINT32_MAX;
        open_answer answer;
        if (call->op == SIMT_OPEN_FIND)
            answer = call->shared ? open_find_item(kind, 1, group, view, item->key, active)
                                  : open_find_item(kind, 0, group, view, item->key, active);
        else if (call->op == SIMT_OPEN_ERASE)
            answer = open_erase_item(kind, 1, group, view, item->key, active);
        else
            answer =
                open_insert_item(kind, call->op == SIMT_OPEN_OVERWRITE, 1, group, view, item->key, item->value, active);
        if (answer.reports) {
            if (call->op == SIMT_OPEN_FIND)
                item->value = answer.outcome == OPEN_DONE ? answer.value : 0;
            item->status = status_of_outcome[answer.outcome];
            stored += answer.outcome == OPEN_DONE && (call->op == SIMT_OPEN_KEEP || call->op == SIMT_OPEN_OVERWRITE);
            erased += answer.outcome == OPEN_DONE && call->op == SIMT_OPEN_ERASE;
        }
    }
    if (call->op == SIMT_OPEN_FIND)
        return;
    /* The table's size: summed over the warp, then added by one lane. */
    uint64_t change = (uint64_t)stored - erased;
    for (uint32_t distance = simt.config.warp_lanes / 2; distance > 0; distance /= 2)
        change += simt_shuffle(simt_warp_mask(), change, simt.current->in_warp ^ distance, SIMT_HERE);
    if (simt.current->in_warp == 0 && change != 0)
        simt_add(&view->totals->size, change, SIMT_HERE);
}

void SIMT_OPEN_KERNEL(void *argument)
{
    const simt_open_call *call = argument;
    switch (call->view.kind) {
    case OPEN_PAIR_4_4:
        run(OPEN_PAIR_4_4, call);
        break;
    case OPEN_KEY_4_VALUE_8:
        run(OPEN_KEY_4_VALUE_8, call);
        break;
    case OPEN_KEY_8_VALUE_4:
        run(OPEN_KEY_8_VALUE_4, call);
        break;
    default:
        run(OPEN_KEY_8_VALUE_8, call);
        break;
    }
}
