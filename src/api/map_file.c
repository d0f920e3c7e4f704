/* Saves and loads maps. The bytes: core/table_file.c. */
#include "api/map.h"
#include "core/error.h"
#include "core/table_file.h"

loom_status loom_map_save(loom_map *map, const char *path, loom_stream stream)
{
    uint64_t size;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__map_table_size(map->table, &size, stream);
    if (status == LOOM_OK)
        status = loom__table_file_save(map->table, size, path, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

static loom_status check_is_map(const loom__description *is, const char *path, const loom__engine **engine)
{
    RETURN_ERROR_IF(is->type == LOOM_TYPE_FILTER, LOOM_UNSUPPORTED, "%s holds a filter; load it with loom_filter_load",
                    path);
    RETURN_ERROR_IF(is->type < LOOM_TYPE_MAP || is->type > LOOM_TYPE_COUNTER ||
                        (is->type == LOOM_TYPE_SET) != (is->value_bytes == 0),
                    LOOM_BAD_FILE, "the header of %s holds values that no map has", path);
    *engine = is->engine == LOOM_ENGINE_DEFAULT ? NULL : loom__engine_of(is->type, is->engine);
    RETURN_ERROR_IF(*engine == NULL, LOOM_UNSUPPORTED,
                    "%s holds a table of engine %u, which this version does not have", path, is->engine);
    RETURN_ERROR_IF(!(is->max_load >= LOOM__SMALLEST_LOAD && is->max_load <= loom__engine_largest_load(*engine)),
                    LOOM_BAD_FILE, "the header of %s holds a load factor that no map has", path);
    return loom__map_check_widths(*engine, is->type, is->key_bytes, is->value_bytes, LOOM_BAD_FILE);
}

static loom_status load_table(loom_context *context, loom__table_file *file, loom__table **table, loom_stream stream)
{
    const loom__engine *engine = NULL;
    RETURN_IF_FAILED(check_is_map(&file->is, file->path, &engine));
    RETURN_IF_FAILED(loom__table_file_load(file, context->machine, engine, 0, table, stream));
    loom_status status = loom__map_table_restored(*table, file->path, stream);
    if (status != LOOM_OK)
        loom__table_destroy(*table);
    return status;
}

loom_status loom_map_load(loom_context *context, const char *path, loom_map **map, loom_stream stream)
{
    loom__table_file file;
    loom__table *table;
    RETURN_ERROR_IF(context == NULL || map == NULL, LOOM_INVALID_ARGUMENT, "context or map is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    RETURN_IF_FAILED(loom__table_file_open(context->machine, path, &file));
    loom_status status = load_table(context, &file, &table, stream);
    loom__table_file_close(&file);
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(loom__map_wrap(context, table, map));
    static const loom_map_config defaults = LOOM_MAP_CONFIG_INIT;
    (*map)->growth = defaults.growth; /* files do not store it */
    return LOOM_OK;
}
