/* How the groups of a call share its items out, and answer them; the same for every engine. As on a GPU
 * (cuda_open_lanes.cuh), group g takes the items g, g + groups, g + 2 * groups, … A group that is done with an item
 * begins its next one, while the other groups of its warp go on. */
#ifndef LOOM_SIMT_ITEMS_H
#define LOOM_SIMT_ITEMS_H

#include "core/slot_ops.h"
#include "core/totals.h"
#include "simt/machine/simt_map.h"

typedef struct simt_items {
    simt_map_op op;
    simt_map_item *all, none, *item; /* item: the group's current one; `none` after its last */
    uint32_t n, groups, index;
    lane_truth active;
    uint64_t size_change; /* by the items that this lane has answered */
} simt_items;

LOOM_LANE void simt_items_share(simt_items *own, simt_map_op op, simt_map_item *items, uint32_t n, uint32_t groups)
{
    const uint32_t index = simt.current->index / simt.config.group_lanes;
    *own = (simt_items){.op = op, .all = items, .n = n, .groups = groups, .index = index};
    own->none.status = LOOM_OK;
    own->active = index < groups && index < n;
}

LOOM_LANE const simt_map_item *simt_items_begin(simt_items *own)
{
    own->item = own->active ? &own->all[own->index] : &own->none;
    simt.current->item = own->active ? own->index : UINT32_MAX;
    return own->item;
}

LOOM_LANE void simt_items_next(simt_items *own)
{
    own->index += own->groups;
    own->active = own->index < own->n;
}

/* `found`: the value in the answer. LOOM_FULL has none. */
LOOM_LANE void simt_item_answer(simt_map_item *item, loom_status status, uint64_t found)
{
    if (item->status != LOOM_INTERNAL)
        simt_fail("the item with key %#llx is answered twice", (unsigned long long)item->key);
    item->status = status;
    item->found = status == LOOM_FULL ? 0 : found;
}

/* On the lane that reports. */
LOOM_LANE void simt_items_answer(simt_items *own, loom_status status, uint64_t found)
{
    simt_item_answer(own->item, status, found);
    if (status == LOOM_OK && ((own->op >= SIMT_MAP_KEEP && own->op <= SIMT_MAP_COMBINE) || own->op == SIMT_MAP_RESERVE))
        own->size_change++;
    if (status == LOOM_OK && (own->op == SIMT_MAP_ERASE || own->op == SIMT_MAP_ERASE_IF))
        own->size_change--;
}

/* Updates the size of the table: a sum over the warp, which one lane adds. */
LOOM_LANE void simt_items_add_size(const simt_items *own, loom__totals *totals)
{
    if (own->op == SIMT_MAP_FIND)
        return;
    uint64_t change = own->size_change;
    for (uint32_t distance = simt.config.warp_lanes / 2; distance > 0; distance /= 2)
        change += simt_shuffle(simt_warp_mask(), change, simt.current->in_warp ^ distance, SIMT_HERE);
    if (simt.current->in_warp == 0 && change != 0)
        simt_add(&totals->size, change, SIMT_HERE);
}

/* What an insertion of this kind does with the value of a key that exists. */
LOOM_LANE slot_mode simt_slot_mode(simt_map_op op)
{
    return op == SIMT_MAP_OVERWRITE ? SLOT_OVERWRITE
           : op == SIMT_MAP_FETCH   ? SLOT_FETCH
           : op == SIMT_MAP_COMBINE ? SLOT_COMBINE
                                    : SLOT_KEEP;
}

#endif
