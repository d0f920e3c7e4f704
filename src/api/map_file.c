/* Maps to and from files: which headers maps have, and which contents. The bytes: core/table_file.c. */
#include "api/map.h"
#include "core/error.h"
#include "core/table_file.h"

/* ---- save ---- */

static loom_status save_table(loom_map *map, const char *path, loom_stream stream)
{
    loom__map_image image;
    uint32_t slots;
    uint64_t bytes;
    map->engine->describe(map->table, &image, &slots, &bytes);
    RETURN_IF_FAILED(map->engine->size(map->table, &image.size, stream));
    const loom__file_header header = {
        .type = image.type,
        .engine = image.engine,
        .layout_version = image.layout_version,
        .key_bytes = image.key_bytes,
        .value_bytes = image.value_bytes,
        .partitions = image.partitions,
        .buckets = image.buckets,
        .partition_bytes = image.partition_bytes,
        .capacity = image.capacity,
        .size = image.size,
        .seed = image.seed,
        .max_load = image.max_load,
        .reserved = {image.words, image.further_pieces},
    };
    return loom__table_file_save(map->handle.context->machine, &header, map->engine->partition(map->table, 0), path,
                                 stream);
}

loom_status loom_map_save(loom_map *map, const char *path, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = save_table(map, path, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

/* ---- load ---- */

static loom_status check_header(const loom__file_header *header, const char *path)
{
    RETURN_ERROR_IF(header->type == LOOM_TYPE_FILTER, LOOM_UNSUPPORTED,
                    "%s holds a filter; load it with loom_filter_load", path);
    RETURN_ERROR_IF(
        header->type < 1 || header->type > FILE_MOST_TYPES || (header->key_bytes != 4 && header->key_bytes != 8) ||
            (header->type == LOOM_TYPE_SET) != (header->value_bytes == 0) ||
            (header->value_bytes != 0 && header->value_bytes != 4 && header->value_bytes != 8) ||
            !(header->max_load > 0 && header->max_load <= LOOM__LARGEST_LOAD) ||
            (header->engine != LOOM_ENGINE_PERFECT && (header->reserved[0] != 0 || header->reserved[1] != 0)) ||
            header->reserved[2] != 0,
        LOOM_BAD_FILE, "the header of %s holds values that no map has", path);
    RETURN_ERROR_IF(loom__map_engine_of(header->engine) == NULL, LOOM_UNSUPPORTED,
                    "%s holds a table of engine %u, which this version does not have", path, header->engine);
    return LOOM_OK;
}

/* Checksums tell damage, not malice: a table that was loaded must also keep the layout's invariants, or lookups in it
 * would quietly be wrong. */
static loom_status check_contents(const loom__map_engine *engine, loom__table *table, uint64_t size, const char *path,
                                  loom_stream stream)
{
    loom__survey survey;
    RETURN_IF_FAILED(engine->survey(table, &survey, stream));
    RETURN_ERROR_IF(survey.first_bad != UINT64_MAX || survey.size != size, LOOM_BAD_FILE,
                    "the contents of %s are not a table: %llu keys instead of %llu, or keys out of place", path,
                    (unsigned long long)survey.size, (unsigned long long)size);
    return LOOM_OK;
}

static loom_status load_table(loom_context *context, loom__table_file *file, loom__table **table, loom_stream stream)
{
    const loom__file_header *header = &file->header;
    RETURN_IF_FAILED(check_header(header, file->path));
    const loom__map_engine *engine = loom__map_engine_of(header->engine);
    loom__map_image image = {
        .engine = header->engine,
        .layout_version = header->layout_version,
        .key_bytes = header->key_bytes,
        .value_bytes = header->value_bytes,
        .partitions = header->partitions,
        .buckets = header->buckets,
        .partition_bytes = header->partition_bytes,
        .capacity = header->capacity,
        .size = header->size,
        .seed = header->seed,
        .max_load = header->max_load,
        .words = header->reserved[0],
        .further_pieces = header->reserved[1],
        .type = (loom_type)header->type,
    };
    RETURN_IF_FAILED(engine->restore(context->machine, &image, table, stream));
    loom_status status = loom__table_file_read(file, context->machine, engine->partition(*table, 0), stream);
    if (status == LOOM_OK)
        status = engine->restored(*table, header->size, stream);
    if (status == LOOM_OK)
        status = check_contents(engine, *table, header->size, file->path, stream);
    if (status != LOOM_OK)
        engine->destroy(*table);
    return status;
}

loom_status loom_map_load(loom_context *context, const char *path, loom_map **map, loom_stream stream)
{
    loom__table_file file;
    loom__table *table;
    RETURN_ERROR_IF(context == NULL || map == NULL, LOOM_INVALID_ARGUMENT, "context or map is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    RETURN_IF_FAILED(loom__table_file_open(path, &file));
    loom_status status = load_table(context, &file, &table, stream);
    const loom__map_engine *engine = loom__map_engine_of(file.header.engine);
    loom__table_file_close(&file);
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(loom__map_wrap(context, engine, table, map));
    static const loom_map_config defaults = LOOM_MAP_CONFIG_INIT;
    (*map)->growth = defaults.growth; /* files do not tell it */
    return LOOM_OK;
}
