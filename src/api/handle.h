/* What the handles of all tables have: the context, the order of calls, the device views that are out. It is the first member
 * of each.
 *
 * Two things keep calls apart that may not overlap. The gate does among the host's threads, from entering to leaving; the order
 * does for work that is still under way when a call has left. Views are a third: their kernels begin and end without a call,
 * so that calls which they may not overlap are refused while they are out. */
#ifndef LOOM_API_HANDLE_H
#define LOOM_API_HANDLE_H

#include "api/context.h"
#include "core/gate.h"

enum { LOOM__MOST_VIEWS = 16 /* of a table out at once; view.h says so */ };

typedef struct loom__handle {
    loom_context *context; /* held */
    int concurrent_reads;
    /* The owner sets these two before the first call. Inserts that share are readers of the gate, as finds are, and a READ,
     * which is of a table at rest, is a writer; such a handle has concurrent_reads. */
    int shares_inserts;
    const char *view_end; /* the name of the call that gives a view back, for sentences */
    loom__access lent_as; /* while a device view is out: what its kernels do … */
    uint32_t lent;        /* … and how many of them are out. All three change only inside the gate, as a writer */
    uint64_t lent_serials[LOOM__MOST_VIEWS]; /* which: the first `lent`, in any order */
    loom__gate gate;                         /* covers what host threads do at the same time … */
    loom__order *order; /* … and this what is still under way when they return; NULL where nothing is */
} loom__handle;

/* Holds the context. After a failure there is nothing to end. */
loom_status loom__handle_begin(loom__handle *handle, loom_context *context, int concurrent_reads);

/* Waits for the calls that have begun, and for what is under way in the table; if views are out, which it warns of, for all
 * that runs on the machine. Then the table may go, then the handle's memory. The context, which is returned, is still held:
 * its release comes last. */
loom_context *loom__handle_end(loom__handle *handle);

/* OK if the stream is one of the machine's, and not being captured. */
loom_status loom__handle_check_stream(const loom__handle *handle, loom_stream stream);

/* Is a call in this stream to become part of a graph? */
int loom__handle_is_captured(const loom__handle *handle, loom_stream stream);

/* ---- calls ---- */

/* Around whatever a call does to the table: waits for, or is ordered behind, the calls that it may not overlap. After a
 * failure there is nothing to leave. Leaving is the last touch: the handle may be destroyed from there on. */
loom_status loom__handle_enter(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_leave(loom__handle *handle, loom__access access, loom_stream stream);

/* Entering in two halves, for a call that looks at the table before it knows its access: the gate, then the rest, which leaves
 * the gate if it fails. The second access must pass the gate as the first did, as a reader or as a writer. */
void loom__handle_enter_gate(loom__handle *handle, loom__access access);
void loom__handle_leave_gate(loom__handle *handle, loom__access access);
loom_status loom__handle_admit(loom__handle *handle, loom__access access, loom_stream stream);

/* The order alone, inside the gate. They do nothing on machines without one. */
loom_status loom__handle_order_begin(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_order_end(loom__handle *handle, loom__access access, loom_stream stream);

/* OK, or IN_USE and a sentence, if a device view is out that a call with this access may not overlap. Inside the gate. */
loom_status loom__handle_check_views(const loom__handle *handle, loom__access access);

/* ---- device views: all inside the gate, as a writer, but for the first ---- */

/* What the kernels of such a view do, or INVALID_ARGUMENT and a sentence. */
loom_status loom__handle_view_access(loom_view_access asked, loom__access *access);

/* OK, or IN_USE and a sentence, if no view with this access may be lent now. */
loom_status loom__handle_check_lend(const loom__handle *handle, loom__access access);

/* After that check: puts a view's kernels in order behind the calls before, and notes that it is out. */
loom_status loom__handle_lend(loom__handle *handle, loom__access access, uint64_t *serial, loom_stream stream);

/* Where in the list a view stands, or INVALID_ARGUMENT and a sentence. */
loom_status loom__handle_find_lent(const loom__handle *handle, uint64_t serial, loom__access access, uint32_t *at);

/* Giving back is two steps, for what may fail between them: whatever comes next waits for the view's kernels; the view is no
 * longer out. */
loom_status loom__handle_pass(loom__handle *handle, loom__access access, loom_stream stream);
void loom__handle_given_back(loom__handle *handle, uint32_t at);

#endif
