#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_ROWS_KERNEL
#define SIMT_ROWS_KERNEL simt_rows_run
#endif
#include "simt/machine/simt_rows.h"

#include "engines/open/open_items.h"
#include "simt/machine/simt_items.h"

static const loom_status status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL, [OPEN_NO_BYTES] = LOOM_FULL,
};

LOOM_LANE open_answer erase_by_slot(int shared, lane_group group, const loom__open_view *view, open_walk *walk,
                                    lane_truth active)
{
    const open_look look = open_find_turn(SLOT_TAG, shared, group, view, walk, active);
    const uint64_t bucket = loom__multiply_wide(walk->partition_index, view->buckets) + walk->bucket;
    lane_truth erased = 0;
    if (look.mine)
        erased = open_erase_located(shared, view, bucket * open_slots(SLOT_TAG) + look.slot);
    erased = lane_some(lane_poll(group, erased));
    const open_answer answer = {erased                        ? OPEN_DONE
                                : look.found || !look.further ? OPEN_ABSENT
                                                              : OPEN_GO_ON,
                                lane_leads(group)};
    if (answer.outcome == OPEN_GO_ON)
        open_advance(view, walk);
    return answer;
}

/* value[0] is the address of the item's value, value[1] that of a found one. */
LOOM_LANE open_answer turn(int shared, const simt_rows_call *call, lane_group group, open_walk *walk, uint64_t *value,
                           lane_truth active)
{
    const loom__open_view *view = &call->view.lines;
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    if (call->op == SIMT_MAP_FIND) {
        unsigned char *to = (unsigned char *)(uintptr_t)value[1];
        const open_found found =
            call->lookup == SIMT_ROWS_TAKE            ? open_find_taking(shared, group, view, walk, to, active)
            : call->lookup == SIMT_ROWS_READ_TOGETHER ? open_find_together(shared, group, view, walk, to, active)
                                                      : open_find_row_of(kind, shared, group, view, walk, to, active);
        const open_answer answer = {found.settled ? found.found ? OPEN_DONE : OPEN_ABSENT : OPEN_GO_ON, found.reports};
        return answer;
    }
    if (call->op == SIMT_MAP_ERASE && call->by_slot)
        return erase_by_slot(shared, group, view, walk, active);
    if (call->op == SIMT_MAP_ERASE)
        return open_erase_item(kind, shared, group, view, walk, active);
    if (call->op == SIMT_MAP_UPDATE)
        return open_update_item(kind, shared, group, view, walk, value[0], active);
    return open_insert_item(kind, simt_slot_mode(call->op), call->rule, shared, group, view, walk, value, active);
}

LOOM_LANE void run(int shared, const simt_rows_call *call)
{
    static const uint64_t nobody[SIMT_ROWS_MOST_KEY / 8]; /* the key of a group without one */
    const loom__rows_view *rows = &call->view;
    const int together = call->op == SIMT_MAP_FIND && call->lookup == SIMT_ROWS_READ_TOGETHER;
    lane_group group = lane_own_group();
    simt_items own;
    simt_items_share(&own, call->op, call->items, call->n, call->groups);
    open_walk walk;
    for (int begin = 1;;) {
        if (begin) {
            const uint64_t key = simt_items_begin(&own)->key;
            walk = open_start((loom__slot_kind)rows->lines.kind, &rows->lines,
                              key != 0 ? key : (uint64_t)(uintptr_t)nobody);
            walk.staged = call->staged;
        }
        if (!lane_going(group, own.active))
            break;
        uint64_t given[SIMT_ROWS_MOST_VALUE / 8], found[SIMT_ROWS_MOST_VALUE / 8] = {0};
        uint64_t value[2] = {(uint64_t)(uintptr_t)given, (uint64_t)(uintptr_t)found};
        if (together && own.active)
            value[1] = (uint64_t)(uintptr_t)call->together[own.index];
        const int strings = (rows->variable & LOOM__VARIABLE_VALUES) != 0;
        const uint32_t given_bytes = simt_rows_value_bytes(rows, own.item->value);
        const loom__string string = {(uint64_t)(uintptr_t)given, given_bytes};
        simt_rows_make_value(own.item->value, given_bytes, (unsigned char *)given);
        if (strings)
            value[0] = (uint64_t)(uintptr_t)&string;
        const open_answer answer = turn(shared, call, group, &walk, value, own.active);
        begin = own.active && answer.outcome != OPEN_GO_ON;
        if (call->staged)
            open_store_together((loom__slot_kind)rows->lines.kind, shared, group, &rows->lines, &walk, value[0],
                                own.active ? answer.outcome : OPEN_GO_ON);
        if (!begin)
            continue;
        if (answer.reports) {
            const int stored = call->op == SIMT_MAP_FETCH && answer.outcome == OPEN_DONE;
            uint32_t found_bytes = rows->value_bytes;
            if (together && answer.outcome == OPEN_DONE)
                memcpy(found, call->together[own.index], sizeof found);
            if (strings) { /* reads what it refers to; without an answer, the empty string */
                const loom__string there = {found[0], found[1]};
                found_bytes = (uint32_t)there.length;
                if (found_bytes > SIMT_ROWS_MOST_VALUE)
                    simt_fail("a value has %u bytes", found_bytes);
                else
                    lane_read_bytes((unsigned char *)found, (const unsigned char *)(uintptr_t)there.at, found_bytes);
            }
            simt_items_answer(&own, status_of_outcome[answer.outcome],
                              simt_rows_number((const unsigned char *)(stored ? given : found), found_bytes));
        }
        simt_items_next(&own);
    }
    simt_items_add_size(&own, rows->lines.totals);
}

void SIMT_ROWS_KERNEL(void *argument)
{
    const simt_rows_call *call = argument;
    if (call->shared == OPEN_UNREAD)
        run(OPEN_UNREAD, call);
    else if (call->shared == OPEN_MIXED)
        run(OPEN_MIXED, call);
    else
        run(OPEN_SHARED, call);
}
