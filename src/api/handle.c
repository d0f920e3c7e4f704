#include "api/handle.h"
#include "core/error.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

loom_status loom__handle_begin(loom__handle *handle, loom_context *context, int concurrent_reads)
{
    loom__machine *machine = context->machine;
    loom__order *order = NULL;
    if (machine->ops->order_create != NULL)
        RETURN_IF_FAILED(machine->ops->order_create(machine, concurrent_reads, &order));
    memset(handle, 0, sizeof *handle);
    handle->context = context;
    handle->concurrent_reads = concurrent_reads;
    handle->order = order;
    loom__gate_init(&handle->gate);
    loom__context_hold(context);
    return LOOM_OK;
}

loom_context *loom__handle_end(loom__handle *handle)
{
    loom_context *context = handle->context;
    const loom__machine_ops *ops = context->machine->ops;
    loom__gate_enter_writer(&handle->gate); /* after every call that has begun */
    loom__gate_leave_writer(&handle->gate);
    loom__gate_destroy(&handle->gate);
    if (handle->lent > 0) { /* kernels that no call knows of may use the table */
        loom__context_log(context, LOOM_LOG_WARNING,
                          "a table is destroyed while %u device views of it are out: it waits for all that runs on the "
                          "device; give views back first (%s)",
                          handle->lent, handle->view_end);
        if (ops->drain != NULL)
            ops->drain(context->machine);
    }
    if (handle->order != NULL)
        ops->order_destroy(handle->order);
    return context;
}

loom_status loom__handle_check_stream(const loom__handle *handle, loom_stream stream)
{
    loom__machine *machine = handle->context->machine;
    return machine->ops->check_stream(machine, stream);
}

int loom__handle_is_captured(const loom__handle *handle, loom_stream stream)
{
    loom__machine *machine = handle->context->machine;
    return machine->ops->is_captured != NULL && machine->ops->is_captured(machine, stream);
}

/* ---- calls ---- */

/* Whether a call with this access shares the gate. All that share it may overlap. A READ may not overlap inserts. */
static int shares_gate(const loom__handle *handle, loom__access access)
{
    assert(!handle->shares_inserts || handle->concurrent_reads);
    return access == LOOM__ACCESS_FIND || access == (handle->shares_inserts ? LOOM__ACCESS_INSERT : LOOM__ACCESS_READ);
}

void loom__handle_enter_gate(loom__handle *handle, loom__access access)
{
    if (shares_gate(handle, access))
        loom__gate_enter_reader(&handle->gate);
    else
        loom__gate_enter_writer(&handle->gate);
}

void loom__handle_leave_gate(loom__handle *handle, loom__access access)
{
    if (shares_gate(handle, access))
        loom__gate_leave_reader(&handle->gate);
    else
        loom__gate_leave_writer(&handle->gate);
}

loom_status loom__handle_order_begin(loom__handle *handle, loom__access access, loom_stream stream)
{
    return handle->order == NULL ? LOOM_OK : handle->context->machine->ops->order_begin(handle->order, access, stream);
}

void loom__handle_order_end(loom__handle *handle, loom__access access, loom_stream stream)
{
    if (handle->order != NULL)
        handle->context->machine->ops->order_end(handle->order, access, stream);
}

/* A lent view counts as a call in flight that never ends. */
loom_status loom__handle_check_views(const loom__handle *handle, loom__access access)
{
    RETURN_ERROR_IF(handle->lent > 0 && !loom__may_overlap(access, handle->lent_as, handle->concurrent_reads),
                    LOOM_IN_USE,
                    "%u device views of the table are out that this call may not overlap; give them back (%s)",
                    handle->lent, handle->view_end);
    return LOOM_OK;
}

loom_status loom__handle_admit(loom__handle *handle, loom__access access, loom_stream stream)
{
    loom_status status = loom__handle_check_views(handle, access);
    if (status == LOOM_OK)
        status = loom__handle_order_begin(handle, access, stream);
    if (status != LOOM_OK)
        loom__handle_leave_gate(handle, access);
    return status;
}

loom_status loom__handle_enter(loom__handle *handle, loom__access access, loom_stream stream)
{
    loom__handle_enter_gate(handle, access);
    return loom__handle_admit(handle, access, stream);
}

void loom__handle_leave(loom__handle *handle, loom__access access, loom_stream stream)
{
    loom__handle_order_end(handle, access, stream);
    loom__handle_leave_gate(handle, access);
}

/* ---- device views ---- */

loom_status loom__handle_view_access(loom_view_access asked, loom__access *access)
{
    *access = LOOM__ACCESS_ALONE;
    static const loom__access all[] = {
        [LOOM_VIEW_FIND] = LOOM__ACCESS_READ, /* its loads are not coherent: nothing may write */
        [LOOM_VIEW_INSERT] = LOOM__ACCESS_INSERT, [LOOM_VIEW_ACCUMULATE] = LOOM__ACCESS_ACCUMULATE,
        [LOOM_VIEW_ERASE] = LOOM__ACCESS_ERASE,   [LOOM_VIEW_MIXED] = LOOM__ACCESS_ALONE,
    };
    RETURN_ERROR_IF(asked < LOOM_VIEW_FIND || asked > LOOM_VIEW_MIXED, LOOM_INVALID_ARGUMENT,
                    "access %d is not known to this version", (int)asked);
    *access = all[asked];
    return LOOM_OK;
}

/* Unique over all tables, so that a view of a destroyed table is not taken for one of a table that reuses its
 * memory. */
static uint64_t next_serial(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* Calls are ordered with the two ends of a view. Earlier calls are over when the view's kernels begin. No call that the
 * kernels may not overlap comes before the view ends (loom__handle_check_views). */
loom_status loom__handle_pass(loom__handle *handle, loom__access access, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_order_begin(handle, access, stream));
    loom__handle_order_end(handle, access, stream);
    return LOOM_OK;
}

loom_status loom__handle_check_lend(const loom__handle *handle, loom__access access)
{
    /* Further views of the same access are allowed, mixed ones too, although those overlap no call. */
    if (handle->lent == 0 || handle->lent_as != access)
        RETURN_IF_FAILED(loom__handle_check_views(handle, access));
    RETURN_ERROR_IF(handle->lent == LOOM__MOST_VIEWS, LOOM_IN_USE,
                    "%d device views of the table are out, and there may be no more at once; give one back (%s), or "
                    "pass one view to several kernels",
                    LOOM__MOST_VIEWS, handle->view_end);
    return LOOM_OK;
}

loom_status loom__handle_lend(loom__handle *handle, loom__access access, uint64_t *serial, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_pass(handle, access, stream));
    *serial = next_serial();
    handle->lent_as = access;
    handle->lent_serials[handle->lent++] = *serial;
    return LOOM_OK;
}

loom_status loom__handle_find_lent(const loom__handle *handle, uint64_t serial, loom__access access, uint32_t *at)
{
    *at = 0;
    while (*at < handle->lent && handle->lent_serials[*at] != serial)
        ++*at;
    RETURN_ERROR_IF(*at == handle->lent || handle->lent_as != access, LOOM_INVALID_ARGUMENT,
                    "no such view of this table is out; each is given back once, to the table it was taken of");
    return LOOM_OK;
}

void loom__handle_given_back(loom__handle *handle, uint32_t at)
{
    handle->lent_serials[at] = handle->lent_serials[--handle->lent];
}
