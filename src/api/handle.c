#include "api/handle.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

loom_status loom__handle_create(loom_context *context, loom__table *table, size_t bytes, loom__handle **made)
{
    loom__machine *machine = context->machine;
    loom__handle *handle = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_HOST, NULL);
    loom_status status = handle != NULL ? LOOM_OK : LOOM_OUT_OF_MEMORY;
    if (handle != NULL)
        memset(handle, 0, bytes);
    if (handle != NULL && machine->ops->order_create != NULL)
        status = machine->ops->order_create(machine, (int)table->concurrent_reads, &handle->order);
    if (status != LOOM_OK) {
        loom__release(&machine->allocator, handle, bytes, LOOM_MEMORY_HOST, NULL);
        loom__table_destroy(table);
        return status;
    }
    handle->context = context;
    handle->table = table;
    handle->bytes = bytes;
    handle->is_filter = table->is.type == LOOM_TYPE_FILTER;
    handle->view_end = handle->is_filter ? "loom_filter_view_end" : "loom_map_view_end";
    loom__gate_init(&handle->gate);
    loom__context_hold(context);
    *made = handle;
    return LOOM_OK;
}

void loom__handle_destroy(loom__handle *handle)
{
    loom_context *context = handle->context;
    const loom__machine_ops *ops = context->machine->ops;
    loom__gate_enter(&handle->gate, 1); /* after every call that has begun */
    loom__gate_leave(&handle->gate, 1);
    loom__gate_destroy(&handle->gate);
    if (handle->lent > 0) { /* kernels that no call knows of may use the table */
        loom__context_log(context, LOOM_LOG_WARNING,
                          "a table is destroyed while %u device views of it are lent: it waits for all that runs on "
                          "the device; give views back first (%s)",
                          handle->lent, handle->view_end);
        if (ops->drain != NULL)
            ops->drain(context->machine);
    }
    if (handle->order != NULL)
        ops->order_destroy(handle->order);
    loom__table_destroy(handle->table);
    loom__release(&context->machine->allocator, handle, handle->bytes, LOOM_MEMORY_HOST, NULL);
    loom__context_release(context);
}

uint64_t loom__handle_bytes(const loom__handle *handle)
{
    return loom__table_bytes(handle->table) + handle->bytes;
}

loom_status loom__handle_check_stream(const loom__handle *handle, loom_stream stream)
{
    loom__machine *machine = handle->context->machine;
    return machine->ops->check_stream(machine, stream);
}

/* ---- calls ---- */

/* Whether a call with this access has the gate alone. Calls that share the gate may overlap. In a filter a READ may not
 * overlap inserts, so it enters alone. */
static int enters_alone(const loom__handle *handle, loom__access access)
{
    return access != LOOM__ACCESS_FIND && access != (handle->is_filter ? LOOM__ACCESS_INSERT : LOOM__ACCESS_READ);
}

void loom__handle_enter_gate(loom__handle *handle, loom__access access)
{
    loom__gate_enter(&handle->gate, enters_alone(handle, access));
}

void loom__handle_leave_gate(loom__handle *handle, loom__access access)
{
    loom__gate_leave(&handle->gate, enters_alone(handle, access));
}

loom_status loom__handle_order_begin(loom__handle *handle, loom__access access, loom_stream stream)
{
    return handle->order == NULL ? LOOM_OK : handle->context->machine->ops->order_begin(handle->order, access, stream);
}

void loom__handle_order_end(loom__handle *handle, int ended, loom_stream stream)
{
    if (handle->order != NULL)
        handle->context->machine->ops->order_end(handle->order, ended, stream);
}

/* A lent view counts as a call in flight that never ends. */
loom_status loom__handle_check_views(const loom__handle *handle, loom__access access)
{
    const int concurrent_reads = (int)handle->table->concurrent_reads;
    RETURN_ERROR_IF(handle->lent > 0 && !loom__may_overlap(access, handle->lent_as, concurrent_reads), LOOM_IN_USE,
                    "%u device views of the table are lent that this call may not overlap; give them back (%s)",
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
    loom__handle_order_end(handle, 0, stream);
    loom__handle_leave_gate(handle, access);
}

void loom__handle_leave_ended(loom__handle *handle, loom__access access, loom_stream stream)
{
    loom__handle_order_end(handle, 1, stream);
    loom__handle_leave_gate(handle, access);
}

loom_status loom__handle_tell(loom__handle *handle, const loom_result *outcome, loom_result *result, loom_stream stream)
{
    loom__machine *machine = handle->context->machine;
    if (result == NULL)
        return loom__table_wait(handle->table, stream);
    return machine->ops->write_table(machine, result, outcome, sizeof *outcome, stream);
}
