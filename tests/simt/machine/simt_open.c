#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_OPEN_KERNEL
#define SIMT_OPEN_KERNEL simt_open_run
#endif
#include "simt/machine/simt_open.h"

#include "engines/open/open_items.h"

static const loom_status status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL,
};

/* `*value` goes in as the item's, and comes out, on the lane that reports, as what was found. `shared` is a literal, as it is on
 * every machine: OPEN_SHARED or OPEN_MIXED. Finds may do with less and ask the call. */
LOOM_LANE open_answer turn(loom__slot_kind kind, int shared, const simt_open_call *call, lane_group group,
                           open_walk *walk, uint64_t *value, lane_truth active)
{
    const loom__open_view *view = &call->view;
    switch (call->op) {
    case SIMT_MAP_FIND: {
        open_found found = call->shared != OPEN_ALONE ? open_find_item(kind, shared, group, view, walk, active)
                                                      : open_find_item(kind, OPEN_ALONE, group, view, walk, active);
        open_answer answer = {found.settled ? found.found ? OPEN_DONE : OPEN_ABSENT : OPEN_GO_ON, found.reports};
        *value = found.value;
        return answer;
    }
    case SIMT_MAP_ERASE:
        return open_erase_item(kind, shared, group, view, walk, active);
    case SIMT_MAP_KEEP:
        return open_insert_item(kind, SLOT_KEEP, LOOM__ADD, shared, group, view, walk, value, active);
    default:
        break;
    }
    if (slot_value_bytes(kind) != 0 && call->op == SIMT_MAP_FETCH)
        return open_insert_item(kind, SLOT_FETCH, LOOM__ADD, shared, group, view, walk, value, active);
    if (slot_value_bytes(kind) != 0 && shared == OPEN_SHARED) {
        if (call->op == SIMT_MAP_UPDATE)
            return open_update_item(kind, shared, group, view, walk, *value, active);
        if (call->op == SIMT_MAP_COMBINE)
            return open_insert_item(kind, SLOT_COMBINE, call->how, shared, group, view, walk, value, active);
        if (call->op == SIMT_MAP_OVERWRITE)
            return open_insert_item(kind, SLOT_OVERWRITE, LOOM__ADD, shared, group, view, walk, value, active);
    }
    simt_fail("the case asks for what is not for sets, or not for mixed batches");
    return (open_answer){OPEN_GO_ON, 0};
}

/* Items are shared out to groups as on a GPU (cuda_open_lanes.cuh): the group's number, then on by the number of groups. A
 * group that is done with one begins the next while the others of its warp go on. */
LOOM_LANE void run(loom__slot_kind kind, int shared, const simt_open_call *call)
{
    const loom__open_view *view = &call->view;
    lane_group group = lane_own_group();
    simt_map_item none = {0, 0, 0, LOOM_OK}, *item = &none;
    uint32_t index = simt.current->index / group.lanes, stored = 0, erased = 0;
    lane_truth active = index < call->groups && index < call->n;
    open_walk walk;
    for (int begin = 1;;) {
        if (begin) {
            item = active ? &call->items[index] : &none;
            simt.current->item = active ? index : UINT32_MAX;
            walk = open_start(kind, view, item->key);
        }
        if (!lane_going(group, active))
            break;
        uint64_t value = item->value;
        open_answer answer = turn(kind, shared, call, group, &walk, &value, active);
        begin = active && answer.outcome != OPEN_GO_ON;
        if (!begin)
            continue;
        if (answer.reports) {
            if (item->status != LOOM_INTERNAL)
                simt_fail("item %u is answered twice", index);
            item->status = status_of_outcome[answer.outcome];
            item->found = answer.outcome == OPEN_NO_ROOM ? 0 : value;
            stored += answer.outcome == OPEN_DONE && call->op >= SIMT_MAP_KEEP && call->op <= SIMT_MAP_COMBINE;
            erased += answer.outcome == OPEN_DONE && call->op == SIMT_MAP_ERASE;
        }
        index += call->groups;
        active = index < call->n;
    }
    if (call->op == SIMT_MAP_FIND)
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
#define CALL(kind) call->shared == OPEN_MIXED ? run(kind, OPEN_MIXED, call) : run(kind, OPEN_SHARED, call)
    SLOT_FOR_KIND(call->view.kind, CALL)
#undef CALL
}
