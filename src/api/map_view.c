/* Tables lent to kernels of users. */
#include "api/map.h"
#include "core/error.h"

#include <string.h>

static loom_status access_of(loom_view_access asked, loom__access *access)
{
    *access = LOOM__ACCESS_ALONE;
    static const loom__access all[] = {
        [LOOM_VIEW_FIND] = LOOM__ACCESS_READ, /* its loads are not coherent: nobody may write */
        [LOOM_VIEW_INSERT] = LOOM__ACCESS_INSERT, [LOOM_VIEW_ACCUMULATE] = LOOM__ACCESS_ACCUMULATE,
        [LOOM_VIEW_ERASE] = LOOM__ACCESS_ERASE,   [LOOM_VIEW_MIXED] = LOOM__ACCESS_ALONE,
    };
    RETURN_ERROR_IF(asked < LOOM_VIEW_FIND || asked > LOOM_VIEW_MIXED, LOOM_INVALID_ARGUMENT,
                    "access %d is not known to this version", (int)asked);
    *access = all[asked];
    return LOOM_OK;
}

/* The order of calls knows a view by its two ends: what comes before the first is over when the view's kernels begin, and
 * nothing that they may not overlap comes before the last (loom__map_check_views). */
static loom_status pass(loom_map *map, loom__access access, loom_stream stream)
{
    const loom__machine_ops *ops = map->context->machine->ops;
    if (map->order == NULL)
        return LOOM_OK;
    RETURN_IF_FAILED(ops->order_begin(map->order, access, stream));
    ops->order_end(map->order, access, stream);
    return LOOM_OK;
}

loom_status loom_map_view_begin(loom_map *map, loom_view_access asked, loom_map_view *view, loom_stream stream)
{
    loom__access access;
    loom_map_view made = {.access = asked};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL; pass where it is to go");
    RETURN_IF_FAILED(access_of(asked, &access));
    loom__gate_enter_writer(&map->gate);
    /* Further views of the same access go on, mixed ones too, which go with no call. */
    loom_status status = map->lent > 0 && map->lent_as == access ? LOOM_OK : loom__map_check_views(map, access);
    if (status == LOOM_OK)
        status = map->engine->lend(map->table, &made);
    if (status == LOOM_OK)
        status = pass(map, access, stream);
    if (status == LOOM_OK) {
        map->lent_as = access;
        map->lent++;
        *view = made;
    }
    loom__gate_leave_writer(&map->gate);
    return status;
}

/* Behind the view's kernels, alone: sizes and freed slots. */
static loom_status take_back(loom_map *map, const loom_map_view *view, loom_stream stream)
{
    const loom__machine_ops *ops = map->context->machine->ops;
    if (map->order != NULL)
        RETURN_IF_FAILED(ops->order_begin(map->order, LOOM__ACCESS_ALONE, stream));
    loom_status status = map->engine->take_back(map->table, view, stream);
    if (map->order != NULL)
        ops->order_end(map->order, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_map_view_end(loom_map *map, const loom_map_view *view, loom_stream stream)
{
    loom__access access;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(view == NULL, LOOM_INVALID_ARGUMENT, "view is NULL");
    RETURN_IF_FAILED(access_of(view->access, &access));
    loom__gate_enter_writer(&map->gate);
    loom_map_view own = {.access = view->access};
    loom_status status = LOOM_OK;
    if (map->lent == 0 || map->lent_as != access)
        status = loom__fail(LOOM_INVALID_ARGUMENT, "no such view of this table is out; each is given back once");
    if (status == LOOM_OK)
        status = map->engine->lend(map->table, &own);
    /* A generation alone does not tell tables apart that have the same seed, as clones do. */
    if (status == LOOM_OK &&
        (own.generation != view->generation || memcmp(own.table, view->table, sizeof own.table) != 0))
        status = loom__fail(LOOM_INVALID_ARGUMENT, "the view is of another table, or of this one before it changed");
    if (status == LOOM_OK)
        status = pass(map, access, stream); /* whatever comes next waits for the kernels */
    if (status == LOOM_OK) {
        map->lent--;
        if (access != LOOM__ACCESS_READ) {
            map->generation++;
            /* With others still out, the last one does it for all. */
            status = map->lent == 0 ? take_back(map, view, stream) : LOOM_OK;
        }
    }
    loom__gate_leave_writer(&map->gate);
    return status;
}
