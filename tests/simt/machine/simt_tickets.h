/* Calls on a table with a board of tickets in the lane simulator. */
#ifndef LOOM_SIMT_TICKETS_H
#define LOOM_SIMT_TICKETS_H

#include "core/combine.h"
#include "engines/tickets/ticket_layout.h"
#include "simt/machine/simt_map.h"

enum { SIMT_TICKETS_MOST_KEY = 16, SIMT_TICKETS_MOST_VALUE = 24 }; /* bytes */

/* Items hold the address of their key. Values are as in simt_rows.h. */
typedef struct simt_tickets_call {
    simt_map_op op;
    int shared;              /* TICKET_SHARED or TICKET_MIXED (ticket_ops.h) */
    int waits;               /* lookups and erasures wait for busy tickets, or pass them */
    loom__combine_rule rule; /* accumulate */
    loom__ticket_view view;
    simt_map_item *items;
    uint32_t n, groups; /* lanes share out the items */
} simt_tickets_call;

/* A kernel; `argument` is a simt_tickets_call. With a plant (tests/simt/plants.cmake) it has another name,
 * SIMT_TICKETS_KERNEL. */
typedef void simt_tickets_kernel(void *argument);
simt_tickets_kernel simt_tickets_run;
#ifdef SIMT_TICKETS_KERNEL
simt_tickets_kernel SIMT_TICKETS_KERNEL;
#endif

#endif
