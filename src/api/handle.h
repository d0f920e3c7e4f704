/* What all table handles share: the context, the order of calls, the lent device views. It is the first member of each
 * handle.
 *
 * Calls that may not overlap are kept apart in two ways. The gate does it among the host's threads, from entering to
 * leaving. The order does it for work that is still in flight when a call has left. Device views need a third: their
 * kernels begin and end without a call, so calls that they may not overlap are refused while a view is lent. */
#ifndef LOOM_API_HANDLE_H
#define LOOM_API_HANDLE_H

#include "api/context.h"
#include "core/gate.h"

enum { LOOM__MOST_VIEWS = 16 /* of a table lent at once; view.h says so */ };

typedef struct loom__handle {
    loom_context *context; /* held */
    int concurrent_reads;
    /* The owner sets these two before the first call. With shares_inserts, inserts enter the gate as readers, as finds
     * do, and a READ, which needs a table at rest, enters as a writer. Such a handle has concurrent_reads. */
    int shares_inserts;
    const char *view_end;                    /* the call that ends a view, for error messages */
    loom__access lent_as;                    /* what the kernels of lent device views do */
    uint32_t lent;                           /* how many are lent. All three change only inside the gate, as a writer */
    uint64_t lent_serials[LOOM__MOST_VIEWS]; /* of the lent views: the first `lent`, in any order */
    loom__gate gate;                         /* orders host threads during calls */
    loom__order *order;                      /* orders work in flight after calls return; NULL on machines without */
} loom__handle;

/* Holds the context. After a failure there is nothing to end. */
loom_status loom__handle_begin(loom__handle *handle, loom_context *context, int concurrent_reads);

/* Waits for the calls that have begun, and for work in flight on the table. If device views are lent, warns and waits
 * for all that runs on the machine. Then destroy the table, then free the handle. The returned context is still held:
 * release it last. */
loom_context *loom__handle_end(loom__handle *handle);

/* OK if the stream belongs to the machine and is not being captured. */
loom_status loom__handle_check_stream(const loom__handle *handle, loom_stream stream);

/* Whether a call in this stream becomes part of a graph. */
int loom__handle_is_captured(const loom__handle *handle, loom_stream stream);

/* ---- calls ---- */

/* Enclose whatever a call does to the table. Entering waits for, or orders the call behind, the calls that it may not
 * overlap. After a failure there is nothing to leave. Leaving is the last access: the handle may be destroyed from then
 * on. */
loom_status loom__handle_enter(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_leave(loom__handle *handle, loom__access access, loom_stream stream);

/* Entering in two halves, for a call that looks at the table before it knows its access: the gate, then `admit`, which
 * leaves the gate if it fails. Both accesses must pass the gate the same way, as a reader or as a writer. */
void loom__handle_enter_gate(loom__handle *handle, loom__access access);
void loom__handle_leave_gate(loom__handle *handle, loom__access access);
loom_status loom__handle_admit(loom__handle *handle, loom__access access, loom_stream stream);

/* The order of calls alone, inside the gate. They do nothing on machines without one. */
loom_status loom__handle_order_begin(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_order_end(loom__handle *handle, loom__access access, loom_stream stream);

/* OK, or IN_USE and a sentence if a device view is lent that a call with this access may not overlap. Inside the
 * gate. */
loom_status loom__handle_check_views(const loom__handle *handle, loom__access access);

/* ---- device views: all but the first inside the gate, as a writer ---- */

/* What the kernels of a view with this access do, or INVALID_ARGUMENT and a sentence. */
loom_status loom__handle_view_access(loom_view_access asked, loom__access *access);

/* OK, or IN_USE and a sentence if no view with this access may be lent now. */
loom_status loom__handle_check_lend(const loom__handle *handle, loom__access access);

/* After that check: orders the view's kernels behind earlier calls, and records the view as lent. */
loom_status loom__handle_lend(loom__handle *handle, loom__access access, uint64_t *serial, loom_stream stream);

/* Index of a view in the list, or INVALID_ARGUMENT and a sentence. */
loom_status loom__handle_find_lent(const loom__handle *handle, uint64_t serial, loom__access access, uint32_t *at);

/* Ending a view takes two steps, since work between them may fail. loom__handle_pass: later calls wait for the view's
 * kernels. loom__handle_given_back: the view is no longer lent. */
loom_status loom__handle_pass(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_given_back(loom__handle *handle, uint32_t at);

#endif
