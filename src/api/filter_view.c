/* Filters lent to users' kernels. */
#include "api/filter.h"
#include "core/error.h"

#include <string.h>

static loom_filter_view view_of(const loom_filter *filter)
{
    const loom__table *table = filter->table;
    loom_filter_view view = {.layout = table->engine->view_layout, .key_bytes = table->is.key_bytes};
    _Static_assert(sizeof view.filter <= sizeof table->view, "all of it is there");
    memcpy(view.filter, table->view, sizeof view.filter);
    return view;
}

loom_status loom_filter_view_begin(loom_filter *filter, loom_filter_view *view, loom_stream stream)
{
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL; pass where it is to go");
    loom__machine *machine = filter->table->machine;
    RETURN_IF_FAILED(machine->ops->supports(machine, LOOM_FEATURE_VIEWS));
    loom_filter_view made = view_of(filter);
    loom__gate_enter_writer(&filter->handle.gate);
    loom_status status = loom__handle_check_lend(&filter->handle, LOOM__ACCESS_INSERT);
    if (status == LOOM_OK)
        status = loom__handle_lend(&filter->handle, LOOM__ACCESS_INSERT, &made.serial, stream);
    if (status == LOOM_OK)
        *view = made;
    loom__gate_leave_writer(&filter->handle.gate);
    return status;
}

/* Nobody knows how many keys the kernels inserted, so the next insertion counts bits. */
loom_status loom_filter_view_end(loom_filter *filter, const loom_filter_view *view, loom_stream stream)
{
    uint32_t at;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL");
    loom_filter_view own = view_of(filter);
    loom__gate_enter_writer(&filter->handle.gate);
    loom_status status = loom__handle_find_lent(&filter->handle, view->serial, LOOM__ACCESS_INSERT, &at);
    if (status == LOOM_OK && memcmp(own.filter, view->filter, sizeof own.filter) != 0)
        status =
            loom__fail(LOOM_INVALID_ARGUMENT, "the view is not as it was lent; give back the one that was filled in");
    if (status == LOOM_OK)
        status = loom__handle_pass(&filter->handle, LOOM__ACCESS_INSERT, stream);
    if (status == LOOM_OK) {
        loom__handle_given_back(&filter->handle, at);
        if (filter->table->is.capacity > 0)
            atomic_store(&filter->next_count, 0);
    }
    loom__gate_leave_writer(&filter->handle.gate);
    return status;
}
