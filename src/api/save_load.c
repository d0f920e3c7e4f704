/* Saves and loads maps and filters. The bytes: core/table_file.c. */
#include "api/filter.h"
#include "api/map.h"
#include "core/error.h"
#include "core/table_file.h"

loom_status loom_map_save(loom_map *map, const char *path, loom_stream stream)
{
    uint64_t size;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__map_table_size(map->handle.table, &size, stream);
    if (status == LOOM_OK)
        status = loom__table_file_save(map->handle.table, size, path, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_filter_save(loom_filter *filter, const char *path, loom_stream stream)
{
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    const uint64_t given = atomic_load(&filter->given), size = given < INT64_MAX ? given : INT64_MAX;
    loom_status status = loom__table_file_save(filter->handle.table, size, path, stream);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

/* Finds the engine of a described table. Fails if the table is not of the wanted type: a filter if `filter`, otherwise
 * a map, set or counter. */
static loom_status engine_of(const loom__description *is, const char *path, int filter, const loom__engine **engine)
{
    const int is_map = (is->type >= LOOM_TYPE_MAP && is->type < LOOM_TYPE_FILTER) || is->type == LOOM_TYPE_MULTIMAP;
    RETURN_ERROR_IF(filter && is_map, LOOM_UNSUPPORTED,
                    "%s holds a map, a set, a counter or a multimap; load it with loom_map_load", path);
    RETURN_ERROR_IF(!filter && is->type == LOOM_TYPE_FILTER, LOOM_UNSUPPORTED,
                    "%s holds a filter; load it with loom_filter_load", path);
    RETURN_ERROR_IF((!is_map && is->type != LOOM_TYPE_FILTER) ||
                        (is_map && (is->type == LOOM_TYPE_SET) != (is->value_bytes == 0)),
                    LOOM_BAD_FILE, "the header of %s holds values that no %s has", path, filter ? "filter" : "map");
    *engine = is->engine == LOOM_ENGINE_DEFAULT ? NULL : loom__engine_of(is->type, is->engine);
    RETURN_ERROR_IF(*engine == NULL, LOOM_UNSUPPORTED, "%s holds a %s of engine %u, which this version does not have",
                    path, filter ? "filter" : "table", is->engine);
    return LOOM_OK;
}

static loom_status check_map(const loom__description *is, const char *path, const loom__engine *engine)
{
    RETURN_ERROR_IF(!(is->max_load >= LOOM__SMALLEST_LOAD && is->max_load <= loom__engine_largest_load(engine)),
                    LOOM_BAD_FILE, "the header of %s holds a load factor that no map has", path);
    return loom__map_check_widths(engine, is->type, is->key_bytes, is->value_bytes, LOOM_BAD_FILE);
}

/* A filter always has concurrent reads. Files do not store whether a map had them; a loaded map has none. */
static loom_status load_table(loom__machine *machine, loom__table_file *file, int filter, loom__table **table,
                              loom_stream stream)
{
    const loom__engine *engine = NULL;
    RETURN_IF_FAILED(engine_of(&file->is, file->path, filter, &engine));
    if (!filter)
        RETURN_IF_FAILED(check_map(&file->is, file->path, engine));
    RETURN_IF_FAILED(loom__table_file_load(file, machine, engine, filter != 0, table, stream));
    loom_status status = filter ? LOOM_OK : loom__map_table_restored(*table, file->path, stream);
    if (status != LOOM_OK)
        loom__table_destroy(*table);
    return status;
}

static loom_status load(loom_context *context, const char *path, int filter, loom__table **table, loom_stream stream)
{
    loom__machine *machine = context->machine;
    loom__table_file file;
    RETURN_IF_FAILED(machine->ops->check_stream(machine, stream));
    RETURN_IF_FAILED(loom__table_file_open(machine, path, &file));
    loom_status status = load_table(machine, &file, filter, table, stream);
    loom__table_file_close(&file);
    return status;
}

loom_status loom_map_load(loom_context *context, const char *path, loom_map **map, loom_stream stream)
{
    static const loom_map_config defaults = LOOM_MAP_CONFIG_INIT; /* files do not store the growth */
    loom__table *table;
    RETURN_ERROR_IF(context == NULL || map == NULL, LOOM_INVALID_ARGUMENT, "context or map is NULL");
    RETURN_IF_FAILED(load(context, path, 0, &table, stream));
    return loom__map_wrap(context, table, defaults.growth, 0, map);
}

loom_status loom_filter_load(loom_context *context, const char *path, loom_filter **filter, loom_stream stream)
{
    loom__table *table;
    RETURN_ERROR_IF(context == NULL || filter == NULL, LOOM_INVALID_ARGUMENT, "context or filter is NULL");
    RETURN_IF_FAILED(load(context, path, 1, &table, stream));
    /* Bounded, because calls add further keys to it. */
    const uint64_t given = table->is.size < INT64_MAX ? table->is.size : INT64_MAX;
    return loom__filter_wrap(context, table, given, filter);
}
