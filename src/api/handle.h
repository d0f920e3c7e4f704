/* What maps and filters share: the context, the table, the order of calls, the lent device views. The handle is the
 * first member of both.
 *
 * Calls that may not overlap are kept apart in two ways. The gate keeps the host's threads apart, from entering to
 * leaving. The order keeps apart the work that is still in flight after its call has left. Device views need a third
 * way, because their kernels begin and end without a call: while a view is lent, calls that its kernels may not overlap
 * are refused. */
#ifndef LOOM_API_HANDLE_H
#define LOOM_API_HANDLE_H

#include "api/context.h"
#include "core/gate.h"
#include "core/table.h"

enum { LOOM__MOST_VIEWS = 16 /* device views of one table at once; view.h documents this limit */ };

typedef struct loom__handle {
    loom_context *context; /* held */
    loom__table *table;
    size_t bytes; /* of the map or filter that begins with this handle */
    /* Inserts into a filter enter the gate as readers, as finds do. A READ needs a filter at rest and enters as a
     * writer. */
    int is_filter;
    const char *view_end; /* the call that ends a view, for error messages */
    /* The lent device views. These three members change only inside the gate, as a writer. */
    loom__access lent_as;                    /* what the kernels of lent device views do */
    uint32_t lent;                           /* how many views are lent */
    uint64_t lent_serials[LOOM__MOST_VIEWS]; /* serial numbers of the lent views: the first `lent`, in any sequence */
    uint64_t generation;                     /* counts the calls that may have written; a map's cursors compare it */
    loom__gate gate;                         /* orders host threads during calls */
    loom__order *order; /* orders work in flight after calls return; NULL if calls have ended when they return */
} loom__handle;

/* Makes a map or a filter of `bytes` bytes. All bytes behind the handle are zero. The handle holds the context and owns
 * the table. After a failure the table is destroyed. */
loom_status loom__handle_create(loom_context *context, loom__table *table, size_t bytes, loom__handle **made);

/* Waits for the calls that have begun, and for work in flight on the table. If device views are lent, warns and waits
 * for all that runs on the machine. */
void loom__handle_destroy(loom__handle *handle);

/* Bytes that the table takes, together with its map or filter. */
uint64_t loom__handle_bytes(const loom__handle *handle);

/* OK if the stream belongs to the machine and is not being captured. */
loom_status loom__handle_check_stream(const loom__handle *handle, loom_stream stream);

/* ---- calls ---- */

/* These two enclose all that a call does to the table. Entering waits for the calls that this call may not overlap, or
 * orders this call behind them. After a failure there is nothing to leave. Leaving is the last access: the handle may
 * be destroyed from then on. */
loom_status loom__handle_enter(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_leave(loom__handle *handle, loom__access access, loom_stream stream);

/* Leaves after a call that has waited for its work: no later call need wait for it. */
void loom__handle_leave_ended(loom__handle *handle, loom__access access, loom_stream stream);

/* Entering in two halves, for a call that looks at the table before it knows its access. The first half enters the
 * gate. The second half is `admit`, which leaves the gate if it fails. The accesses passed to both halves must enter
 * the gate the same way, as a reader or as a writer. */
void loom__handle_enter_gate(loom__handle *handle, loom__access access);
void loom__handle_leave_gate(loom__handle *handle, loom__access access);
loom_status loom__handle_admit(loom__handle *handle, loom__access access, loom_stream stream);

/* Begin and end a call in the order of calls, inside the gate. They do nothing on machines without an order. `ended`:
 * the call has waited for its work. */
loom_status loom__handle_order_begin(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_order_end(loom__handle *handle, int ended, loom_stream stream);

/* OK, or IN_USE and a sentence if a device view is lent that a call with this access may not overlap. Call this inside
 * the gate. */
loom_status loom__handle_check_views(const loom__handle *handle, loom__access access);

/* Writes an outcome to the caller's result, which may lie anywhere that the machine can write. Without a result this
 * function waits for the stream's work on the table. */
loom_status loom__handle_tell(loom__handle *handle, const loom_result *outcome, loom_result *result,
                              loom_stream stream);

#endif
