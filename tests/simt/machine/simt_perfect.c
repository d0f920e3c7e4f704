#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_PERFECT_KERNEL
#define SIMT_PERFECT_KERNEL simt_perfect_run
#endif
#include "simt/machine/simt_perfect.h"

#include "engines/perfect/perfect_ops.h"

static const loom_status status_of_outcome[] = {
    [PERFECT_AGAIN] = LOOM_INTERNAL,   [PERFECT_DONE] = LOOM_OK,       [PERFECT_WAS_THERE] = LOOM_EXISTS,
    [PERFECT_ABSENT] = LOOM_NOT_FOUND, [PERFECT_OVERFLOW] = LOOM_FULL, [PERFECT_NO_ROOM] = LOOM_FULL,
};

typedef struct told {
    perfect_outcome outcome;
    lane_truth reports; /* this lane writes the answer down */
} told;

/* A table at rest: its lines are read by loads that are not coherent. */
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

LOOM_LANE told insert(loom__slot_kind kind, slot_mode mode, loom__combine_rule how, const simt_perfect_call *call,
                      lane_group group, const perfect_seek *seek, uint64_t *value, lane_truth active)
{
    lane_truth tells;
    perfect_outcome outcome = perfect_insert_turn(kind, mode, how, 1, group, &call->view, seek, value, active, &tells);
    return (told){outcome, outcome == PERFECT_OVERFLOW ? lane_leads(group) : tells};
}

/* `*value` goes in as the item's, and comes out, on the lane that reports, as what was found. */
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
            return insert(kind, SLOT_COMBINE, call->how, call, group, seek, value, active);
    }
    simt_fail("the case asks for what is not for sets, or not for groups");
    return (told){PERFECT_AGAIN, 0};
}

/* Items are shared out to groups as in simt_open.c: a group that is done with one begins the next while the others of its warp
 * go on. Each lane reads the word of codes for itself: that is one access on a GPU, where it is the same for all of them. */
LOOM_LANE void run(loom__slot_kind kind, const simt_perfect_call *call)
{
    const loom__perfect_view *view = &call->view;
    lane_group group = lane_own_group();
    simt_map_item none = {0, 0, 0, LOOM_OK}, *item = &none;
    uint32_t index = simt.current->index / group.lanes, stored = 0, erased = 0;
    lane_truth active = index < call->groups && index < call->n;
    perfect_seek seek;
    for (int begin = 1;;) {
        if (begin) {
            item = active ? &call->items[index] : &none;
            simt.current->item = active ? index : UINT32_MAX;
            seek = active ? perfect_seek_key(kind, view, item->key) : perfect_start(kind, view, item->key);
        }
        if (!lane_going(group, active))
            break;
        uint64_t value = item->value;
        told answer = turn(kind, call, group, &seek, &value, active);
        begin = active && answer.outcome != PERFECT_AGAIN;
        if (!begin)
            continue;
        if (answer.reports) {
            if (item->status != LOOM_INTERNAL)
                simt_fail("item %u is answered twice", index);
            item->status = status_of_outcome[answer.outcome];
            item->found = answer.outcome == PERFECT_OVERFLOW ? 0 : value;
            stored += answer.outcome == PERFECT_DONE && call->op >= SIMT_MAP_KEEP && call->op <= SIMT_MAP_COMBINE;
            erased += answer.outcome == PERFECT_DONE && call->op == SIMT_MAP_ERASE;
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

void SIMT_PERFECT_KERNEL(void *argument)
{
    const simt_perfect_call *call = argument;
#define CALL(kind) run(kind, call)
    SLOT_FOR_KIND(call->view.kind, CALL)
#undef CALL
}
