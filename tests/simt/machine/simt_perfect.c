#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_run
#endif
#include "simt/machine/simt_perfect.h"

#include "engines/perfect/perfect_ops.h"
#include "simt/machine/simt_items.h"

static const loom_status status_of_outcome[] = {
    [PERFECT_AGAIN] = LOOM_INTERNAL,   [PERFECT_DONE] = LOOM_OK,       [PERFECT_WAS_THERE] = LOOM_EXISTS,
    [PERFECT_ABSENT] = LOOM_NOT_FOUND, [PERFECT_OVERFLOW] = LOOM_FULL, [PERFECT_NO_ROOM] = LOOM_FULL,
};

typedef struct told {
    perfect_outcome outcome;
    lane_truth reports; /* this lane writes the answer down */
} told;

/* The table is at rest: loads of its lines are not coherent. */
LOOM_LANE told find(loom__slot_kind kind, const simt_perfect_call *call, lane_group group, const perfect_seek *seek,
                    uint64_t *value, lane_truth active)
{
    perfect_look look = perfect_find(kind, 0, group, seek, active);
    *value = 0;
    if (look.mine && kind == SLOT_PAIR_4_4)
        *value = look.pair >> 32;
    if (look.mine && slot_values_apart(kind))
        *value = slot_load_value(kind, perfect_value(kind, &call->view, seek->partition, seek->bucket, look.slot));
    return (told){look.found ? PERFECT_DONE : PERFECT_ABSENT, look.found ? look.mine : lane_leads(group)};
}

LOOM_LANE told insert(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, const simt_perfect_call *call,
                      lane_group group, const perfect_seek *seek, uint64_t *value, lane_truth active)
{
    lane_truth tells;
    perfect_outcome outcome = perfect_insert_turn(kind, mode, rule, 1, group, &call->view, seek, value, active, &tells);
    return (told){outcome, outcome == PERFECT_OVERFLOW ? lane_leads(group) : tells};
}

/* In: *value is that of the item. Out: on the lane that reports, *value is the value found. */
LOOM_LANE told turn(loom__slot_kind kind, const simt_perfect_call *call, lane_group group, const perfect_seek *seek,
                    uint64_t *value, lane_truth active)
{
    switch (call->op) {
    case SIMT_MAP_FIND:
        return find(kind, call, group, seek, value, active);
    case SIMT_MAP_ERASE:
        return (told){perfect_erase(kind, 1, group, &call->view, seek, active), lane_leads(group)};
    case SIMT_MAP_KEEP:
        return insert(kind, SLOT_KEEP, LOOM__ADD, call, group, seek, value, active);
    default:
        break;
    }
    if (slot_value_bytes(kind) != 0) {
        if (call->op == SIMT_MAP_UPDATE)
            return (told){perfect_update(kind, 1, group, &call->view, seek, *value, active), lane_leads(group)};
        if (call->op == SIMT_MAP_OVERWRITE)
            return insert(kind, SLOT_OVERWRITE, LOOM__ADD, call, group, seek, value, active);
        if (call->op == SIMT_MAP_FETCH)
            return insert(kind, SLOT_FETCH, LOOM__ADD, call, group, seek, value, active);
        if (call->op == SIMT_MAP_COMBINE)
            return insert(kind, SLOT_COMBINE, call->rule, call, group, seek, value, active);
    }
    simt_fail("the case asks for what is not for sets, or not for groups");
    return (told){PERFECT_AGAIN, 0};
}

/* Each lane loads the word of codes itself. On a GPU the lanes of a group load the same word, in one access. */
LOOM_LANE void run(loom__slot_kind kind, const simt_perfect_call *call)
{
    const loom__perfect_view *view = &call->view;
    lane_group group = lane_own_group();
    simt_items own;
    simt_items_share(&own, call->op, call->items, call->n, call->groups);
    perfect_seek seek;
    for (int begin = 1;;) {
        if (begin) {
            const uint64_t key = simt_items_begin(&own)->key;
            seek = own.active ? perfect_seek_key(kind, view, key) : perfect_start(kind, view, key);
        }
        if (!lane_going(group, own.active))
            break;
        uint64_t value = own.item->value;
        told answer = turn(kind, call, group, &seek, &value, own.active);
        begin = own.active && answer.outcome != PERFECT_AGAIN;
        if (!begin)
            continue;
        if (answer.reports)
            simt_items_answer(&own, status_of_outcome[answer.outcome], value);
        simt_items_next(&own);
    }
    simt_items_add_size(&own, view->totals);
}

void SIMT_PERFECT_KERNEL(void *argument)
{
    const simt_perfect_call *call = argument;
#define CALL(kind) run(kind, call)
    SLOT_FOR_KIND(call->view.kind, CALL)
#undef CALL
}
