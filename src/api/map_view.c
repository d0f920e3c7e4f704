/* Tables lent to kernels of users. */
#include "api/map.h"
#include "core/error.h"

#include <stdatomic.h>
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

/* Of all tables, so that a view of one that is gone is not taken for one of a table that has got its memory. */
static uint64_t next_serial(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
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
    if (status == LOOM_OK && map->lent == LOOM__MOST_VIEWS)
        status = loom__fail(LOOM_IN_USE,
                            "%d device views of the table are out, and there may be no more at once; give one back "
                            "(loom_map_view_end), or pass one view to several kernels",
                            LOOM__MOST_VIEWS);
    if (status == LOOM_OK)
        status = map->engine->lend(map->table, &made);
    if (status == LOOM_OK)
        status = pass(map, access, stream);
    if (status == LOOM_OK) {
        made.serial = next_serial();
        map->lent_as = access;
        map->lent_serials[map->lent++] = made.serial;
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

/* Where in the list the view stands, or INVALID_ARGUMENT and a sentence. */
static loom_status find_lent(loom_map *map, const loom_map_view *view, loom__access access, uint32_t *at)
{
    loom_map_view own = {.access = view->access};
    *at = 0;
    while (*at < map->lent && map->lent_serials[*at] != view->serial)
        ++*at;
    RETURN_ERROR_IF(*at == map->lent || map->lent_as != access, LOOM_INVALID_ARGUMENT,
                    "no such view of this table is out; each is given back once, to the table it was taken of");
    RETURN_IF_FAILED(map->engine->lend(map->table, &own));
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
    RETURN_IF_FAILED(access_of(view->access, &access));
    loom__gate_enter_writer(&map->gate);
    loom_status status = find_lent(map, view, access, &at);
    if (status == LOOM_OK)
        status = pass(map, access, stream); /* whatever comes next waits for the kernels */
    /* The last one does it for all. If that fails the view is still out, and may be given back again. */
    if (status == LOOM_OK && access != LOOM__ACCESS_READ && map->lent == 1)
        status = take_back(map, view, stream);
    if (status == LOOM_OK) {
        map->lent_serials[at] = map->lent_serials[--map->lent];
        if (access != LOOM__ACCESS_READ)
            map->generation++;
    }
    loom__gate_leave_writer(&map->gate);
    return status;
}
