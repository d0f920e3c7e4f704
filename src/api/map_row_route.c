/* How calls reach rows in host memory: what the last one did, and what the next ones shall do. */
#include "api/map.h"
#include "api/struct_size.h"
#include "core/error.h"

/* UNSUPPORTED and a sentence if there is nothing to choose. */
static loom_status check_has_routes(loom_map *map)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    const loom__machine *machine = map->handle.context->machine;
    loom__gate_enter(&map->handle.gate, 0);
    const uint64_t bytes = loom__table_host_bytes(map->handle.table);
    const uint32_t options = map->handle.table->engine->options;
    loom__gate_leave(&map->handle.gate, 0);
    RETURN_ERROR_IF(machine->ops->pinned_create == NULL, LOOM_UNSUPPORTED,
                    "the %s machine works in host memory: there is one way to rows that lie there", machine->ops->name);
    RETURN_ERROR_IF(bytes == 0, LOOM_UNSUPPORTED,
                    "the table has no rows in host memory (LOOM_ROWS_IN_HOST_MEMORY): there is one way to reach them");
    RETURN_ERROR_IF(
        options & LOOM__OPTION_TICKETS, LOOM_UNSUPPORTED,
        "calls on tables of the tickets engine reach rows in host memory directly; tables of the rows engine "
        "(LOOM_ENGINE_ROWS) have other ways");
    return LOOM_OK;
}

void loom__map_note_explanation(loom_map *map, const loom_explanation *explained)
{
    pthread_mutex_lock(&map->explained_lock);
    map->explained = *explained;
    pthread_mutex_unlock(&map->explained_lock);
}

loom_status loom_map_explain(loom_map *map, loom_explanation *explanation)
{
    RETURN_IF_FAILED(check_has_routes(map));
    RETURN_ERROR_IF(explanation == NULL, LOOM_INVALID_ARGUMENT, "explanation is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_explanation, explanation));
    pthread_mutex_lock(&map->explained_lock);
    const loom_explanation own = map->explained;
    pthread_mutex_unlock(&map->explained_lock);
    loom__struct_out(explanation, &own);
    return LOOM_OK;
}

loom_status loom_map_set_row_route(loom_map *map, loom_row_route route)
{
    RETURN_IF_FAILED(check_has_routes(map));
    RETURN_ERROR_IF((unsigned)route > LOOM_ROW_ROUTE_STREAMED, LOOM_INVALID_ARGUMENT,
                    "route = %d is not known to this version", (int)route);
    loom__gate_enter(&map->handle.gate, 1);
    map->row_route = route;
    loom__gate_leave(&map->handle.gate, 1);
    return LOOM_OK;
}
