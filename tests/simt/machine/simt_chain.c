#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_CHAIN_KERNEL
#define SIMT_CHAIN_KERNEL simt_chain_run
#endif
#include "simt/machine/simt_chain.h"

#include "engines/chain/chain_ops.h"
#include "simt/machine/simt_items.h"

/* What a lane adds to the totals of the lists. */
typedef struct list_change {
    uint64_t pairs, in_heap;
} list_change;

/* An erasure first finds the key's handle, so that the lists can be counted, and then erases the key. */
typedef struct item_walk {
    chain_walk append;
    open_walk open;
    lane_truth erases; /* the handle was found: the walk erases the key */
    lane_truth counts; /* the value was appended: the walk counts the key's values */
    uint64_t handle;   /* on the lane that saw it; otherwise 0 */
} item_walk;

static item_walk start(loom__slot_kind kind, const loom__multi_view *view, uint64_t key)
{
    item_walk walk;
    walk.append = chain_start(kind, view, key);
    walk.open = walk.append.open;
    walk.erases = walk.counts = 0;
    walk.handle = 0;
    return walk;
}

/* Each returns whether the item is done; the same on all lanes of the group. */

/* Counts the values of a key to which this group has appended. */
LOOM_LANE int count_after(loom__slot_kind kind, const simt_chain_call *call, lane_group group, item_walk *walk,
                          simt_items *own, lane_truth counts)
{
    const open_found found = open_find_item(kind, OPEN_SHARED, group, &call->view.directory, &walk->open, counts);
    if (!counts || !found.settled)
        return 0;
    const uint64_t count = found.found ? list_count(found.value) : 0;
    if (found.reports && count <= own->item->found)
        simt_fail("a group has appended value %llu of a key, and counts %llu", (unsigned long long)own->item->found,
                  (unsigned long long)count);
    return 1;
}

LOOM_LANE int append(loom__slot_kind kind, const simt_chain_call *call, lane_group group, item_walk *walk,
                     simt_items *own, list_change *change)
{
    const lane_truth counts = own->active & walk->counts;
    const chain_answer answer = chain_append_item(kind, OPEN_SHARED, group, &call->view, &walk->append,
                                                  own->item->value, own->active & !walk->counts);
    if (call->counts && count_after(kind, call, group, walk, own, counts))
        return 1;
    own->size_change += answer.new_key;
    if (answer.outcome == CHAIN_GO_ON)
        return 0;
    if (answer.reports)
        simt_item_answer(own->item, answer.outcome == CHAIN_DONE ? LOOM_OK : LOOM_FULL, answer.told.number);
    if (answer.reports && answer.outcome == CHAIN_DONE) {
        change->pairs++;
        change->in_heap += answer.told.in_heap;
    }
    walk->counts = call->counts && answer.outcome == CHAIN_DONE;
    return !walk->counts;
}

/* Reads a list, from its newest piece to its oldest. */
LOOM_LANE void read_list(const simt_chain_call *call, uint64_t handle, uint64_t *values)
{
    const loom__multi_view *view = &call->view;
    if (list_count(handle) > SIMT_CHAIN_MOST_VALUES) {
        simt_fail("a list of %llu values", (unsigned long long)list_count(handle));
        return;
    }
    if (!list_in_heap(handle)) {
        values[0] = list_one_value(handle);
        return;
    }
    loom__list_piece piece = chain_newest_piece(view, handle);
    for (;; piece = chain_older_piece(view, &piece)) {
        if (piece.before + piece.count > list_count(handle) || piece.place + piece.count > view->room) {
            simt_fail("a piece of %llu values behind %llu others, at %llu", (unsigned long long)piece.count,
                      (unsigned long long)piece.before, (unsigned long long)piece.place);
            return;
        }
        for (uint64_t i = 0; i < piece.count; i++)
            values[piece.before + i] = chain_load_value(view, piece.place + i);
        if (!piece.linked)
            return;
    }
}

LOOM_LANE int find(loom__slot_kind kind, const simt_chain_call *call, lane_group group, item_walk *walk,
                   simt_items *own)
{
    const open_found found = open_find_item(kind, OPEN_SHARED, group, &call->view.directory, &walk->open, own->active);
    if (!own->active || !found.settled)
        return 0;
    if (found.reports) {
        const uint64_t count = found.found ? list_count(found.value) : 0; /* a key without values counts as absent */
        if (count > 0 && call->op == SIMT_MAP_FIND_ALL)
            read_list(call, found.value, call->values[own->index]);
        simt_item_answer(own->item, count > 0 ? LOOM_OK : LOOM_NOT_FOUND, count);
    }
    return 1;
}

LOOM_LANE int erase(loom__slot_kind kind, const simt_chain_call *call, lane_group group, item_walk *walk,
                    simt_items *own, list_change *change)
{
    const loom__open_view *view = &call->view.directory;
    const lane_truth finds = own->active & !walk->erases;
    const open_found found = open_find_item(kind, OPEN_SHARED, group, view, &walk->open, finds);
    const open_answer answer =
        open_erase_item(kind, OPEN_SHARED, group, view, &walk->append.open, own->active & walk->erases);
    if (finds && found.settled) {
        walk->handle = found.reports && found.found ? found.value : 0;
        walk->erases = 1;
        return 0;
    }
    if (!own->active || finds || answer.outcome == OPEN_GO_ON)
        return 0;
    if (answer.reports)
        simt_item_answer(own->item, answer.outcome == OPEN_DONE ? LOOM_OK : LOOM_NOT_FOUND, 0);
    if (answer.reports && answer.outcome == OPEN_DONE)
        own->size_change--;
    if (answer.outcome == OPEN_DONE) { /* no list changes while keys are erased: the handle is still the key's */
        change->pairs -= list_count(walk->handle);
        change->in_heap -= list_in_heap(walk->handle) ? list_count(walk->handle) : 0;
    }
    return 1;
}

LOOM_LANE void run(loom__slot_kind kind, const simt_chain_call *call)
{
    const loom__multi_view *view = &call->view;
    lane_group group = lane_own_group();
    simt_items own;
    list_change change = {0, 0};
    item_walk walk;
    simt_items_share(&own, call->op, call->items, call->n, call->groups);
    for (int begin = 1;;) {
        if (begin)
            walk = start(kind, view, simt_items_begin(&own)->key);
        if (!lane_going(group, own.active))
            break;
        begin = call->op == SIMT_MAP_APPEND  ? append(kind, call, group, &walk, &own, &change)
                : call->op == SIMT_MAP_ERASE ? erase(kind, call, group, &walk, &own, &change)
                                             : find(kind, call, group, &walk, &own);
        if (begin)
            simt_items_next(&own);
    }
    simt_items_add_size(&own, view->directory.totals);
    if (change.pairs != 0)
        simt_add(&view->lists->pairs, change.pairs, SIMT_HERE);
    if (change.in_heap != 0)
        simt_add(&view->lists->in_heap, change.in_heap, SIMT_HERE);
}

void SIMT_CHAIN_KERNEL(void *argument)
{
    const simt_chain_call *call = argument;
    if (call->view.directory.kind == SLOT_KEY_4_VALUE_8)
        run(SLOT_KEY_4_VALUE_8, call);
    else
        run(SLOT_KEY_8_VALUE_8, call);
}
