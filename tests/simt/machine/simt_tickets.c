#define LOOM_LANES_HEADER "simt/machine/simt_lanes.h"
#ifndef SIMT_TICKETS_KERNEL
#define SIMT_TICKETS_KERNEL simt_tickets_run
#endif
#include "simt/machine/simt_tickets.h"

#include "engines/tickets/ticket_ops.h"
#include "simt/machine/simt_items.h"
#include "simt/machine/simt_rows.h"

static const loom_status status_of_outcome[] = {
    [TICKET_GO_ON] = LOOM_INTERNAL,      [TICKET_DONE] = LOOM_OK,      [TICKET_WAS_THERE] = LOOM_EXISTS,
    [TICKET_NOT_THERE] = LOOM_NOT_FOUND, [TICKET_NO_ROOM] = LOOM_FULL,
};

/* value[0] is the address of the item's value, value[1] that of a found one. */
LOOM_LANE ticket_outcome turn(int shared, int waits, const simt_tickets_call *call, ticket_walk *walk,
                              const uint64_t *value)
{
    switch (call->op) {
    case SIMT_MAP_FIND:
        return ticket_find_turn(shared, waits, &call->view, walk, (unsigned char *)(uintptr_t)value[1]);
    case SIMT_MAP_ERASE:
        return ticket_erase_turn(shared, waits, &call->view, walk);
    case SIMT_MAP_UPDATE:
        return ticket_update_turn(shared, &call->view, walk, value);
    default:
        return ticket_insert_turn(simt_slot_mode(call->op), call->rule, shared, &call->view, walk, value);
    }
}

LOOM_LANE void run(int shared, int waits, const simt_tickets_call *call)
{
    const loom__ticket_view *view = &call->view;
    simt_items own;
    simt_items_share(&own, call->op, call->items, call->n, call->groups);
    while (own.active) {
        const unsigned char *key = (const unsigned char *)(uintptr_t)simt_items_begin(&own)->key;
        uint64_t given[SIMT_TICKETS_MOST_VALUE / 8], found[SIMT_TICKETS_MOST_VALUE / 8] = {0};
        const uint64_t value[2] = {(uint64_t)(uintptr_t)given, (uint64_t)(uintptr_t)found};
        ticket_walk walk = ticket_start(view, key);
        ticket_outcome outcome;
        simt_rows_make_value(own.item->value, view->value_bytes, (unsigned char *)given);
        do
            outcome = turn(shared, waits, call, &walk, value);
        while (outcome == TICKET_GO_ON);
        const int stored = call->op == SIMT_MAP_FETCH && outcome == TICKET_DONE;
        simt_items_answer(&own, status_of_outcome[outcome],
                          simt_rows_number((const unsigned char *)(stored ? given : found), view->value_bytes));
        simt_items_next(&own);
    }
    simt_items_add_size(&own, view->totals);
}

void SIMT_TICKETS_KERNEL(void *argument)
{
    const simt_tickets_call *call = argument;
    if (call->shared == TICKET_MIXED && call->waits)
        run(TICKET_MIXED, 1, call);
    else if (call->shared == TICKET_MIXED)
        run(TICKET_MIXED, 0, call);
    else if (call->waits)
        run(TICKET_SHARED, 1, call);
    else
        run(TICKET_SHARED, 0, call);
}
