/* Maps lent to users' kernels. */
#include "api/map.h"
#include "core/error.h"

#include <string.h>

loom_status loom_map_view_begin(loom_map *map, loom_view_access asked, loom_map_view *view, loom_stream stream)
{
    loom__access access;
    loom_map_view made = {.access = asked};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL; pass where it is to go");
    RETURN_IF_FAILED(loom__handle_view_access(asked, &access));
    loom__gate_enter_writer(&map->handle.gate);
    loom_status status = loom__handle_check_lend(&map->handle, access);
    if (status == LOOM_OK)
        status = loom__map_table_lend(map->table, &made);
    if (status == LOOM_OK)
        status = loom__handle_lend(&map->handle, access, &made.serial, stream);
    if (status == LOOM_OK)
        *view = made;
    loom__gate_leave_writer(&map->handle.gate);
    return status;
}

/* Updates the size and frees retired slots, alone, behind the view's kernels. */
static loom_status take_back(loom_map *map, const loom_map_view *view, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_order_begin(&map->handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = loom__map_table_take_back(map->table, view, stream);
    loom__handle_order_end(&map->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

/* Index of the view in the list, or INVALID_ARGUMENT and a sentence. */
static loom_status find_lent(loom_map *map, const loom_map_view *view, loom__access access, uint32_t *at)
{
    loom_map_view own = {.access = view->access};
    RETURN_IF_FAILED(loom__handle_find_lent(&map->handle, view->serial, access, at));
    RETURN_IF_FAILED(loom__map_table_lend(map->table, &own));
    RETURN_ERROR_IF(own.generation != view->generation || memcmp(own.table, view->table, sizeof own.table) != 0,
                    LOOM_INVALID_ARGUMENT, "the view is not as it was lent; give back the one that was filled in");
    return LOOM_OK;
}

loom_status loom_map_view_end(loom_map *map, const loom_map_view *view, loom_stream stream)
{
    loom__access access;
    uint32_t at;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL");
    RETURN_IF_FAILED(loom__handle_view_access(view->access, &access));
    loom__gate_enter_writer(&map->handle.gate);
    loom_status status = find_lent(map, view, access, &at);
    if (status == LOOM_OK)
        status = loom__handle_pass(&map->handle, access, stream);
    /* The last view does this for all. If it fails, the view is still lent and may be ended again. */
    if (status == LOOM_OK && access != LOOM__ACCESS_READ && map->handle.lent == 1)
        status = take_back(map, view, stream);
    if (status == LOOM_OK) {
        loom__handle_given_back(&map->handle, at);
        if (access != LOOM__ACCESS_READ)
            map->generation++;
    }
    loom__gate_leave_writer(&map->handle.gate);
    return status;
}
