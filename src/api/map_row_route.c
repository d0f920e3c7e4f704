/* How calls reach rows in host memory: what the last one did, and what the next ones shall do. */
#include "api/map.h"
#include "api/struct_size.h"
#include "core/error.h"
#include "core/row_plan.h"

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

/* OK, or INVALID_ARGUMENT and a sentence: whether rows of the table can be on their way in so much memory. */
static loom_status check_staging(const loom__table *table, uint64_t bytes)
{
    const uint32_t key_bytes = loom__row_width(table->is.key_bytes),
                   value_bytes = loom__row_width(table->is.value_bytes);
    const uint64_t least = loom__row_least_staging(key_bytes, value_bytes),
                   item = loom__row_item_bytes(key_bytes, value_bytes), step = loom__row_least_step(item);
    RETURN_ERROR_IF(
        bytes != 0 && bytes < least, LOOM_INVALID_ARGUMENT,
        "bytes = %llu: rows on their way from host memory take at least %llu, of which %llu hold %d steps of "
        "%llu rows with %llu bytes each; allow as many, or 0 to let the library choose",
        (unsigned long long)bytes, (unsigned long long)least, (unsigned long long)(LOOM__ROW_SETS * step * item),
        (int)LOOM__ROW_SETS, (unsigned long long)step, (unsigned long long)item);
    return LOOM_OK;
}

loom_status loom_map_set_row_staging(loom_map *map, uint64_t bytes)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    loom__gate_enter(&map->handle.gate, 1);
    loom__table *table = map->handle.table;
    const int in_host_memory = loom__table_host_bytes(table) > 0;
    const loom_status status = in_host_memory ? check_staging(table, bytes) : LOOM_OK;
    if (in_host_memory && status == LOOM_OK)
        loom__table_set_row_staging(table, bytes);
    loom__gate_leave(&map->handle.gate, 1);
    RETURN_ERROR_IF(
        !in_host_memory && bytes != 0, LOOM_UNSUPPORTED,
        "bytes = %llu: the table has no rows in host memory (LOOM_ROWS_IN_HOST_MEMORY), and none that are on "
        "their way from there; set 0",
        (unsigned long long)bytes);
    return status;
}
