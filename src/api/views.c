/* Maps and filters lent to users' kernels. */
#include "api/filter.h"
#include "api/map.h"
#include "core/error.h"

#include <stdatomic.h>
#include <string.h>

/* What the kernels of a device view do to the table. */
static loom_status access_of(loom_view_access asked, loom__access *access)
{
    static const loom__access all[] = {
        [LOOM_VIEW_FIND] = LOOM__ACCESS_READ, /* loads of its kernels are not coherent: nothing may write */
        [LOOM_VIEW_INSERT] = LOOM__ACCESS_INSERT, [LOOM_VIEW_ACCUMULATE] = LOOM__ACCESS_ACCUMULATE,
        [LOOM_VIEW_ERASE] = LOOM__ACCESS_ERASE,   [LOOM_VIEW_MIXED] = LOOM__ACCESS_ALONE,
    };
    RETURN_ERROR_IF(asked < LOOM_VIEW_FIND || asked > LOOM_VIEW_MIXED, LOOM_INVALID_ARGUMENT,
                    "access %d is not known to this version", (int)asked);
    *access = all[asked];
    return LOOM_OK;
}

/* Serial numbers of views are unique over all tables: a view of a destroyed table is not mistaken for a view of a table
 * that reuses its memory. */
static uint64_t next_serial(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* Orders the begin or the end of a view with the calls on the table. Earlier calls are over when the view's kernels
 * begin. No call that the kernels may not overlap comes before the view ends (loom__handle_check_views). */
static loom_status pass(loom__handle *handle, loom__access access, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_order_begin(handle, access, stream));
    loom__handle_order_end(handle, 0, stream);
    return LOOM_OK;
}

/* Before the first view that writes. Its kernels may look keys up, and calls that write without lookups beside them may
 * be in flight (batch.read_beside): the kernels come after these. */
static loom_status prepare(loom__handle *handle, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_order_begin(handle, LOOM__ACCESS_ALONE, stream));
    const loom_status status = loom__map_table_prepare_view(handle->table, stream);
    loom__handle_order_end(handle, 0, stream);
    return status;
}

/* Fills in a view and records it as lent. The caller is inside the gate, as a writer. */
static loom_status begin(loom__handle *handle, loom_view_access asked, loom_map_view *view, loom_stream stream)
{
    loom__access access = LOOM__ACCESS_ALONE;
    *view = (loom_map_view){.access = asked};
    RETURN_IF_FAILED(access_of(asked, &access));
    /* Further views of the same access are allowed. This includes mixed views, although a mixed view overlaps no
     * call. */
    if (handle->lent == 0 || handle->lent_as != access)
        RETURN_IF_FAILED(loom__handle_check_views(handle, access));
    RETURN_ERROR_IF(handle->lent == LOOM__MOST_VIEWS, LOOM_IN_USE,
                    "%d device views of the table are lent, and there may be no more at once; give one back (%s), or "
                    "pass one view to several kernels",
                    LOOM__MOST_VIEWS, handle->view_end);
    RETURN_IF_FAILED(loom__table_lend(handle->table, view));
    if (handle->lent == 0 && !handle->is_filter && access != LOOM__ACCESS_READ)
        RETURN_IF_FAILED(prepare(handle, stream));
    RETURN_IF_FAILED(pass(handle, access, stream));
    view->serial = next_serial();
    handle->lent_as = access;
    handle->lent_serials[handle->lent++] = view->serial;
    return LOOM_OK;
}

/* Updates the size and, after mixed views, frees retired slots. Ordered behind the view's kernels, with the table
 * alone. */
static loom_status take_back(loom__handle *handle, const loom_map_view *view, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_order_begin(handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = loom__map_table_take_back(handle->table, view->access == LOOM_VIEW_MIXED, stream);
    loom__handle_order_end(handle, 0, stream);
    return status;
}

/* Ends a view: it is no longer lent, and later calls wait for its kernels. After a failure the view is still lent, and
 * the caller may end it again. The caller is inside the gate, as a writer. */
static loom_status end(loom__handle *handle, const loom_map_view *view, loom_stream stream)
{
    loom__access access = LOOM__ACCESS_ALONE;
    loom_map_view own = {.access = view->access};
    uint32_t at = 0;
    RETURN_IF_FAILED(access_of(view->access, &access));
    while (at < handle->lent && handle->lent_serials[at] != view->serial)
        at++;
    RETURN_ERROR_IF(at == handle->lent || handle->lent_as != access, LOOM_INVALID_ARGUMENT,
                    "no such view of this table is lent; each is given back once, to the table that lent it");
    RETURN_IF_FAILED(loom__table_lend(handle->table, &own));
    RETURN_ERROR_IF(own.generation != view->generation || memcmp(own.table, view->table, sizeof own.table) != 0,
                    LOOM_INVALID_ARGUMENT, "the view is not as it was lent; give back the one that was filled in");
    RETURN_IF_FAILED(pass(handle, access, stream));
    if (!handle->is_filter && access != LOOM__ACCESS_READ && handle->lent == 1) /* the last view does this for all */
        RETURN_IF_FAILED(take_back(handle, view, stream));
    handle->lent_serials[at] = handle->lent_serials[--handle->lent];
    handle->generation += access != LOOM__ACCESS_READ;
    return LOOM_OK;
}

loom_status loom_map_view_begin(loom_map *map, loom_view_access asked, loom_map_view *view, loom_stream stream)
{
    loom_map_view made;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL; pass where it is to go");
    RETURN_ERROR_IF(map->durable != NULL && asked != LOOM_VIEW_FIND, LOOM_UNSUPPORTED,
                    "a durable map lends no view that writes: nobody would commit what its kernels change; use the "
                    "bulk calls");
    loom__gate_enter(&map->handle.gate, 1);
    loom_status status = begin(&map->handle, asked, &made, stream);
    if (status == LOOM_OK)
        *view = made;
    loom__gate_leave(&map->handle.gate, 1);
    return status;
}

loom_status loom_map_view_end(loom_map *map, const loom_map_view *view, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL");
    loom__gate_enter(&map->handle.gate, 1);
    loom_status status = end(&map->handle, view, stream);
    loom__gate_leave(&map->handle.gate, 1);
    return status;
}

loom_status loom_filter_view_begin(loom_filter *filter, loom_filter_view *view, loom_stream stream)
{
    loom_map_view made;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL; pass where it is to go");
    loom__gate_enter(&filter->handle.gate, 1);
    loom_status status = begin(&filter->handle, LOOM_VIEW_INSERT, &made, stream);
    if (status == LOOM_OK) {
        *view = (loom_filter_view){.layout = made.layout, .key_bytes = made.key_bytes, .serial = made.serial};
        memcpy(view->filter, made.table, sizeof view->filter);
    }
    loom__gate_leave(&filter->handle.gate, 1);
    return status;
}

/* Nobody knows how many keys the kernels inserted, so the next insertion counts bits. */
loom_status loom_filter_view_end(loom_filter *filter, const loom_filter_view *view, loom_stream stream)
{
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL");
    loom_map_view whole = {.access = LOOM_VIEW_INSERT, .serial = view->serial};
    memcpy(whole.table, view->filter, sizeof view->filter);
    loom__gate_enter(&filter->handle.gate, 1);
    loom_status status = end(&filter->handle, &whole, stream);
    if (status == LOOM_OK && filter->handle.table->is.capacity > 0)
        atomic_store(&filter->next_count, 0);
    loom__gate_leave(&filter->handle.gate, 1);
    return status;
}
