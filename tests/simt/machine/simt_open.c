#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_OPEN_KERNEL
#define SIMT_OPEN_KERNEL simt_open_run
#endif
#include "simt/machine/simt_open.h"

#include "engines/open/open_items.h"
#include "simt/machine/simt_items.h"

static const loom_status status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL,
};

/* A condition that holds for one key. The leader reads all slots of the key's partition, as a lane of a user's kernel
 * reads all slots of the table. *value, on the leader: the value with which the condition was asked. */
LOOM_LANE open_answer scan(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                           const open_walk *walk, uint64_t *value, lane_truth active)
{
    lane_truth erased = 0;
    open_walk here = *walk;
    *value = 0;
    if (active && lane_leads(group))
        for (here.bucket = 0; here.bucket < view->buckets && !erased; here.bucket++)
            for (uint32_t slot = 0; slot < open_slots(kind) && !erased; slot++) {
                uint64_t key, pair, found = 0;
                if (!open_read_slot(kind, shared, view, &here, slot, &key, &found, &pair) || key != walk->key)
                    continue;
                erased = open_erase_slot(kind, shared, view, &here, slot, key, pair);
                *value = found;
            }
    erased = lane_some(lane_poll(group, erased));
    open_answer answer = {erased ? OPEN_DONE : OPEN_ABSENT, lane_leads(group)};
    return answer;
}

/* In: *value is that of the item. Out: on the lane that reports, *value is the value found. `shared` is a literal,
 * as on every machine: OPEN_SHARED, OPEN_MIXED or OPEN_UNREAD. Only a find looks at call->shared, which may ask for
 * less. */
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
    case SIMT_MAP_ERASE_IF:
        return scan(kind, shared, group, view, walk, value, active);
    case SIMT_MAP_KEEP:
        return open_insert_item(kind, SLOT_KEEP, LOOM__ADD, shared, group, view, walk, value, active);
    default:
        break;
    }
    if (slot_value_bytes(kind) != 0 && call->op == SIMT_MAP_FETCH)
        return open_insert_item(kind, SLOT_FETCH, LOOM__ADD, shared, group, view, walk, value, active);
    if (slot_value_bytes(kind) == 8 && shared != OPEN_MIXED && call->op == SIMT_MAP_RESERVE)
        return open_insert_item(kind, SLOT_RESERVE, LOOM__ADD, shared, group, view, walk, value, active);
    if (slot_value_bytes(kind) != 0 && shared != OPEN_MIXED) {
        if (call->op == SIMT_MAP_UPDATE)
            return open_update_item(kind, shared, group, view, walk, *value, active);
        if (call->op == SIMT_MAP_COMBINE)
            return open_insert_item(kind, SLOT_COMBINE, call->rule, shared, group, view, walk, value, active);
        if (call->op == SIMT_MAP_OVERWRITE)
            return open_insert_item(kind, SLOT_OVERWRITE, LOOM__ADD, shared, group, view, walk, value, active);
    }
    simt_fail("the case asks for what is not for sets, or not for mixed batches");
    return (open_answer){OPEN_GO_ON, 0};
}

/* What a thread of the cpu machine does first. GO_ON: the key needs turns. */
LOOM_LANE open_outcome settle_at_home(loom__slot_kind kind, int shared, const simt_open_call *call, lane_group group,
                                      const open_walk *walk, uint64_t *value)
{
    const loom__open_view *view = &call->view;
    if (!call->at_home || shared == OPEN_MIXED || call->op < SIMT_MAP_KEEP || call->op > SIMT_MAP_FETCH)
        return OPEN_GO_ON;
    return open_settle_at_home(kind, simt_slot_mode(call->op), shared, group, open_line(kind, walk, walk->bucket),
                               open_empty(view, walk->partition_index), walk->key, open_filter_bit(kind, walk->lower),
                               value);
}

LOOM_LANE void run(loom__slot_kind kind, int shared, const simt_open_call *call)
{
    const loom__open_view *view = &call->view;
    lane_group group = lane_own_group();
    simt_items own;
    simt_items_share(&own, call->op, call->items, call->n, call->groups);
    open_walk walk;
    for (int begin = 1;;) {
        if (begin)
            walk = open_start(kind, view, simt_items_begin(&own)->key);
        if (!lane_going(group, own.active))
            break;
        uint64_t value = own.item->value;
        if (begin && own.active) {
            const open_outcome outcome = settle_at_home(kind, shared, call, group, &walk, &value);
            if (outcome != OPEN_GO_ON) {
                simt_items_answer(&own, status_of_outcome[outcome], value);
                simt_items_next(&own);
                continue;
            }
        }
        open_answer answer = turn(kind, shared, call, group, &walk, &value, own.active);
        begin = own.active && answer.outcome != OPEN_GO_ON;
        if (!begin)
            continue;
        if (answer.reports)
            simt_items_answer(&own, status_of_outcome[answer.outcome], value);
        simt_items_next(&own);
    }
    simt_items_add_size(&own, view->totals);
}

void SIMT_OPEN_KERNEL(void *argument)
{
    const simt_open_call *call = argument;
#define CALL(kind)                                               \
    call->shared == OPEN_MIXED    ? run(kind, OPEN_MIXED, call)  \
    : call->shared == OPEN_UNREAD ? run(kind, OPEN_UNREAD, call) \
                                  : run(kind, OPEN_SHARED, call)
    SLOT_FOR_KIND(call->view.kind, CALL)
#undef CALL
}
