/* The life of a map, and what it tells about itself. Bulk calls: map_bulk.c; cursors: map_cursor.c; files: map_file.c; device
 * views: map_view.c. */
#include "api/map.h"
#include "api/check.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

static int is_width(uint32_t bytes)
{
    return bytes == 4 || bytes == 8;
}

const loom__map_engine *loom__map_engine_of(uint32_t engine)
{
    return engine == LOOM_ENGINE_OPEN ? &loom__open_map : engine == LOOM_ENGINE_PERFECT ? &loom__perfect_map : NULL;
}

/* Checks what the user gave and fills in what was left open. */
static loom_status complete_config(loom_context *context, const loom_map_config *given, loom_map_config *config)
{
    RETURN_ERROR_IF(context == NULL || given == NULL, LOOM_INVALID_ARGUMENT, "context or config is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_map_config", given->struct_size, sizeof *given));
    *config = *given;
    RETURN_ERROR_IF(!is_width(config->key_bytes), LOOM_INVALID_ARGUMENT, "key_bytes = %u: keys have 4 or 8 bytes",
                    config->key_bytes);
    RETURN_ERROR_IF((unsigned)config->type > LOOM_TYPE_COUNTER, LOOM_INVALID_ARGUMENT,
                    "type %d is not known to this version", (int)config->type);
    if (config->type == LOOM_TYPE_DEFAULT)
        config->type = LOOM_TYPE_MAP;
    if (config->type == LOOM_TYPE_SET)
        RETURN_ERROR_IF(config->value_bytes != 0, LOOM_INVALID_ARGUMENT,
                        "value_bytes = %u: a set has no values; 0, or LOOM_TYPE_MAP", config->value_bytes);
    else
        RETURN_ERROR_IF(!is_width(config->value_bytes), LOOM_INVALID_ARGUMENT,
                        "value_bytes = %u: values have 4 or 8 bytes (for keys alone: LOOM_TYPE_SET)",
                        config->value_bytes);
    const int load_is_open = config->max_load == 0;
    if (load_is_open)
        config->max_load = LOOM__DEFAULT_LOAD;
    RETURN_ERROR_IF(!(config->max_load > 0 && config->max_load <= LOOM__LARGEST_LOAD), LOOM_INVALID_ARGUMENT,
                    "max_load = %g: it must be above 0 and at most %g", config->max_load, LOOM__LARGEST_LOAD);
    RETURN_ERROR_IF(config->engine != LOOM_ENGINE_DEFAULT && loom__map_engine_of(config->engine) == NULL,
                    LOOM_INVALID_ARGUMENT, "engine %d is not one of maps, or not known to this version",
                    (int)config->engine);
    if (config->engine == LOOM_ENGINE_DEFAULT)
        config->engine = LOOM_ENGINE_OPEN;
    RETURN_IF_FAILED(loom__map_check_growth(config->growth));
    RETURN_ERROR_IF(config->concurrent_reads > 1, LOOM_INVALID_ARGUMENT, "concurrent_reads = %u: it is 0 or 1",
                    config->concurrent_reads);
    if (config->concurrent_reads)
        RETURN_IF_FAILED(context->machine->ops->supports(context->machine, LOOM_FEATURE_CONCURRENT_READS));
    RETURN_ERROR_IF(config->engine != LOOM_ENGINE_PERFECT && config->keys_per_cell != 0, LOOM_INVALID_ARGUMENT,
                    "keys_per_cell = %g: only perfect tables have cells; 0, or LOOM_ENGINE_PERFECT",
                    config->keys_per_cell);
    return loom__map_limit_config(context, load_is_open, config);
}

loom_status loom_map_memory_required(loom_context *context, const loom_map_config *given, loom_memory *memory)
{
    loom_map_config config;
    RETURN_IF_FAILED(complete_config(context, given, &config));
    RETURN_ERROR_IF(memory == NULL, LOOM_INVALID_ARGUMENT, "memory is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_memory", memory->struct_size, sizeof *memory));
    return loom__map_measure(context, &config, memory);
}

loom_status loom__map_wrap(loom_context *context, const loom__map_engine *engine, loom__table *table, loom_map **made)
{
    loom__machine *machine = context->machine;
    loom__map_image image;
    uint32_t slots;
    uint64_t bytes;
    engine->describe(table, &image, &slots, &bytes);
    loom_map *map = loom__allocate(&machine->allocator, sizeof *map, LOOM_MEMORY_HOST, NULL);
    loom_status status = LOOM_OUT_OF_MEMORY;
    if (map != NULL) {
        memset(map, 0, sizeof *map);
        status = loom__handle_begin(&map->handle, context, (int)image.concurrent_reads);
    }
    if (status != LOOM_OK) {
        loom__release(&machine->allocator, map, sizeof *map, LOOM_MEMORY_HOST, NULL);
        engine->destroy(table);
        return status;
    }
    map->handle.view_end = "loom_map_view_end";
    map->engine = engine;
    map->table = table;
    map->key_bytes = image.key_bytes;
    map->value_bytes = image.value_bytes;
    map->type = image.type;
    map->limited_at = UINT64_MAX;
    *made = map;
    return LOOM_OK;
}

loom_status loom_map_create(loom_context *context, const loom_map_config *given, loom_map **made)
{
    loom_map_config config;
    loom__table *table;
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "map is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(complete_config(context, given, &config));
    const loom__map_engine *engine = loom__map_engine_of(config.engine);
    RETURN_IF_FAILED(engine->create(context->machine, &config, loom__context_seed(context), &table));
    RETURN_IF_FAILED(loom__map_wrap(context, engine, table, made));
    (*made)->growth = config.growth;
    (*made)->memory_limit = config.memory_limit;
    return LOOM_OK;
}

void loom_map_destroy(loom_map *map)
{
    if (map == NULL)
        return;
    loom_context *context = loom__handle_end(&map->handle);
    map->engine->destroy(map->table);
    loom__release(&context->machine->allocator, map, sizeof *map, LOOM_MEMORY_HOST, NULL);
    loom__context_release(context);
}

loom_status loom_map_set_workspace(loom_map *map, void *workspace, size_t bytes)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    RETURN_ERROR_IF((workspace == NULL) != (bytes == 0), LOOM_INVALID_ARGUMENT,
                    "a workspace has memory and bytes, or neither to take it back");
    RETURN_ERROR_IF((uintptr_t)workspace % LOOM_WORKSPACE_ALIGNMENT != 0, LOOM_INVALID_ARGUMENT,
                    "workspace: it must be aligned to %d bytes", LOOM_WORKSPACE_ALIGNMENT);
    loom__gate_enter_writer(&map->handle.gate);
    map->workspace = workspace;
    map->workspace_bytes = bytes;
    loom__gate_leave_writer(&map->handle.gate);
    return LOOM_OK;
}

loom_status loom__map_check(loom_map *map, loom_stream stream)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    return loom__handle_check_stream(&map->handle, stream);
}

loom_status loom__map_check_values(const loom_map *map, const char *name, const void *values)
{
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET && values != NULL, LOOM_INVALID_ARGUMENT,
                    "a set has no values; pass NULL for %s", name);
    return LOOM_OK;
}

/* While views are out the table stays where it is: the call then refuses keys, as one without growth. */
loom_status loom__map_enter_inserting(loom_map *map, loom__access *access, int builds, loom__batch *batch, int *grows)
{
    loom__handle_enter_gate(&map->handle, *access);
    int fits = builds ? batch->n <= loom__map_capacity(map) : map->engine->surely_fits(map->table, batch->n);
    *grows = map->growth > 0 && map->handle.lent == 0 && !fits;
    batch->workspace = map->workspace;
    batch->workspace_bytes = map->workspace_bytes;
    batch->by_partition = !builds && map->handle.lent == 0 && map->engine->goes_by_partition(map->table, batch);
    if (*grows || batch->by_partition)
        *access = LOOM__ACCESS_ALONE;
    return loom__handle_admit(&map->handle, *access, batch->stream);
}

/* A failure is not the call's, which is done: a device that is lost will say so again. */
void loom__map_leave_written(loom_map *map, loom__access access, loom_stream stream)
{
    loom__handle *handle = &map->handle;
    if (handle->lent == 0 && map->engine->wants_upkeep(map->table)) { /* with views out it waits for the next time */
        loom__handle_order_end(handle, access, stream);
        if (loom__handle_order_begin(handle, LOOM__ACCESS_ALONE, stream) == LOOM_OK) {
            (void)map->engine->upkeep(map->table, stream);
            loom__handle_order_end(handle, LOOM__ACCESS_ALONE, stream);
        }
        loom__handle_leave_gate(handle, access);
        return;
    }
    loom__handle_leave(handle, access, stream);
}

loom_status loom_map_clone(loom_map *map, loom_map **made, loom_stream stream)
{
    loom__table *twin;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "clone is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = map->engine->clone(map->table, &twin, stream);
    if (status == LOOM_OK)
        status = loom__map_wrap(map->handle.context, map->engine, twin, made);
    if (status == LOOM_OK) {
        (*made)->growth = map->growth;
        (*made)->memory_limit = map->memory_limit;
    }
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_size(loom_map *map, uint64_t *size, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(size == NULL, LOOM_INVALID_ARGUMENT, "size is NULL");
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = map->engine->size(map->table, size, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_memory_used(loom_map *map, uint64_t *bytes)
{
    RETURN_ERROR_IF(map == NULL || bytes == NULL, LOOM_INVALID_ARGUMENT, "map or bytes is NULL");
    loom__gate_enter_reader(&map->handle.gate);
    *bytes = loom__map_table_bytes(map);
    loom__gate_leave_reader(&map->handle.gate);
    return LOOM_OK;
}

loom_status loom_map_get_config(loom_map *map, loom_map_config *config)
{
    loom__map_image image;
    uint32_t slots;
    uint64_t bytes;
    RETURN_ERROR_IF(map == NULL || config == NULL, LOOM_INVALID_ARGUMENT, "map or config is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_map_config", config->struct_size, sizeof *config));
    loom__gate_enter_reader(&map->handle.gate);
    map->engine->describe(map->table, &image, &slots, &bytes);
    const double growth = map->growth;
    const uint64_t memory_limit = map->memory_limit;
    loom__gate_leave_reader(&map->handle.gate);
    *config = (loom_map_config)LOOM_MAP_CONFIG_INIT;
    config->key_bytes = image.key_bytes;
    config->value_bytes = image.value_bytes;
    config->capacity = image.capacity;
    config->max_load = image.max_load;
    config->engine = (loom_engine)image.engine;
    config->buckets_per_partition = image.buckets;
    config->concurrent_reads = image.concurrent_reads;
    config->type = image.type;
    config->growth = growth;
    config->memory_limit = memory_limit;
    config->keys_per_cell = image.keys_per_cell;
    return LOOM_OK;
}

static loom_status survey_of(loom_map *map, loom__survey *survey, uint64_t *size, loom__map_image *image,
                             uint32_t *slots_per_bucket, uint64_t *bytes, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    map->engine->describe(map->table, image, slots_per_bucket, bytes);
    loom_status status = map->engine->survey(map->table, survey, stream);
    if (status == LOOM_OK)
        status = map->engine->size(map->table, size, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_stats(loom_map *map, loom_stats *stats, loom_stream stream)
{
    loom__survey survey;
    loom__map_image image;
    uint32_t slots_per_bucket;
    uint64_t size, bytes;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(stats == NULL, LOOM_INVALID_ARGUMENT, "stats is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_stats", stats->struct_size, sizeof *stats));
    RETURN_IF_FAILED(survey_of(map, &survey, &size, &image, &slots_per_bucket, &bytes, stream));
    *stats = (loom_stats)LOOM_STATS_INIT;
    stats->engine = (loom_engine)image.engine;
    stats->key_bytes = image.key_bytes;
    stats->value_bytes = image.value_bytes;
    stats->slots_per_bucket = slots_per_bucket;
    stats->capacity = image.capacity;
    stats->size = survey.size;
    stats->slots = (uint64_t)image.partitions * image.buckets * slots_per_bucket;
    stats->partitions = image.partitions;
    stats->buckets_per_partition = image.buckets;
    stats->fullest_partition = survey.fullest_partition;
    stats->displaced = survey.displaced;
    stats->longest_chain = survey.longest_chain;
    stats->memory_bytes = bytes + sizeof *map;
    stats->seed = image.seed;
    stats->load = (double)survey.size / (double)stats->slots;
    stats->accesses_per_hit = survey.size > 0 ? (double)survey.hit_accesses / (double)survey.size : 1;
    stats->accesses_per_miss = survey.miss_accesses;
    stats->type = image.type;
    stats->code_bytes = image.partitions * image.words * 8;
    stats->stashed = survey.stashed;
    return LOOM_OK;
}

loom_status loom_map_verify(loom_map *map, loom_stream stream)
{
    loom__survey survey;
    loom__map_image image;
    uint32_t slots_per_bucket;
    uint64_t size, bytes;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(survey_of(map, &survey, &size, &image, &slots_per_bucket, &bytes, stream));
    RETURN_ERROR_IF(survey.first_bad != UINT64_MAX, LOOM_INTERNAL,
                    "bucket %llu violates the layout's invariants; keep the table (loom_map_save) and report it",
                    (unsigned long long)survey.first_bad);
    RETURN_ERROR_IF(survey.size != size, LOOM_INTERNAL,
                    "the table holds %llu keys but counts %llu; keep the table (loom_map_save) and report it",
                    (unsigned long long)survey.size, (unsigned long long)size);
    return LOOM_OK;
}
