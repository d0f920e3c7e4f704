/* Maps: creation and reports. Bulk calls: map_bulk.c; cursors: map_cursor.c; files: save_load.c; durable maps:
 * map_durable.c; device views: views.c. */
#include "api/map.h"
#include "api/struct_size.h"
#include "core/error.h"
#include "durable/durable.h"

#include <math.h>
#include <string.h>

/* Checks the fields that only some engines support. */
static loom_status check_options(loom_context *context, const loom__engine *engine, const loom_map_config *config)
{
    RETURN_ERROR_IF(config->concurrent_reads > 1, LOOM_INVALID_ARGUMENT, "concurrent_reads = %u: it is 0 or 1",
                    config->concurrent_reads);
    if (config->concurrent_reads)
        RETURN_IF_FAILED(context->machine->ops->supports(context->machine, LOOM_FEATURE_CONCURRENT_READS));
    RETURN_ERROR_IF(config->concurrent_reads && !(engine->options & LOOM__OPTION_CONCURRENT_READS), LOOM_UNSUPPORTED,
                    "concurrent_reads = 1: lookups in a table of the %s engine wait for writers; set 0, or use another "
                    "engine",
                    engine->name);
    RETURN_ERROR_IF(config->keys_per_cell != 0 && !(engine->options & LOOM__OPTION_KEYS_PER_CELL),
                    LOOM_INVALID_ARGUMENT, "keys_per_cell = %g: tables of the %s engine have no cells; set 0",
                    config->keys_per_cell, engine->name);
    RETURN_ERROR_IF((config->values != 0 || config->most_values_per_key != 0) &&
                        !(engine->options & LOOM__OPTION_LISTS),
                    LOOM_INVALID_ARGUMENT,
                    "values = %llu, most_values_per_key = %llu: only keys of multimaps have many values "
                    "(LOOM_TYPE_MULTIMAP); set 0",
                    (unsigned long long)config->values, (unsigned long long)config->most_values_per_key);
    RETURN_ERROR_IF((config->string_bytes != 0 || config->most_key_bytes != 0 || config->most_value_bytes != 0) &&
                        !(engine->options & LOOM__OPTION_STRINGS),
                    LOOM_INVALID_ARGUMENT,
                    "string_bytes = %llu, most_key_bytes = %llu, most_value_bytes = %llu: only tables of the rows "
                    "engine have byte strings (LOOM_VARIABLE); set 0",
                    (unsigned long long)config->string_bytes, (unsigned long long)config->most_key_bytes,
                    (unsigned long long)config->most_value_bytes);
    RETURN_ERROR_IF(
        config->layout != LOOM_LAYOUT_DEFAULT && !(engine->options & LOOM__OPTION_LAYOUT), LOOM_INVALID_ARGUMENT,
        "layout = %d: only tables of the rows engine (LOOM_ENGINE_ROWS) have a choice of layouts; set 0, or "
        "use that engine",
        (int)config->layout);
    RETURN_ERROR_IF(config->row_place != LOOM_ROWS_ON_DEVICE && !(engine->options & LOOM__OPTION_ROW_PLACE),
                    LOOM_INVALID_ARGUMENT,
                    "row_place = %d: only maps, sets and counters of the engines rows and tickets (LOOM_ENGINE_ROWS, "
                    "LOOM_ENGINE_TICKETS) have rows that may lie in host memory; set 0, or use one of these engines",
                    (int)config->row_place);
    RETURN_ERROR_IF(config->ticket_bits != 0 && !(engine->options & LOOM__OPTION_TICKETS), LOOM_INVALID_ARGUMENT,
                    "ticket_bits = %u: tables of the %s engine have no tickets; set 0, or use LOOM_ENGINE_TICKETS",
                    config->ticket_bits, engine->name);
    RETURN_ERROR_IF((config->first_bucket != 0 || config->bucket_growth != 0) &&
                        !(engine->options & LOOM__OPTION_BUCKETS),
                    LOOM_INVALID_ARGUMENT,
                    "first_bucket = %llu, bucket_growth = %g: only lists of the chain engine are made of buckets "
                    "(LOOM_ENGINE_CHAIN, for multimaps); set 0",
                    (unsigned long long)config->first_bucket, config->bucket_growth);
    return LOOM_OK;
}

loom_status loom__map_complete_config(loom_context *context, const loom_map_config *given, loom_map_config *config)
{
    RETURN_ERROR_IF(context == NULL || given == NULL, LOOM_INVALID_ARGUMENT, "context or config is NULL");
    RETURN_IF_FAILED(loom__struct_in(&loom__struct_map_config, config, given));
    RETURN_ERROR_IF((unsigned)config->type > LOOM_TYPE_MULTIMAP || config->type == LOOM_TYPE_FILTER,
                    LOOM_INVALID_ARGUMENT, "type %d is not known to this version", (int)config->type);
    if (config->type == LOOM_TYPE_DEFAULT)
        config->type = LOOM_TYPE_MAP;
    const loom__engine *engine = loom__map_engine_of(config);
    RETURN_ERROR_IF(engine == NULL, LOOM_INVALID_ARGUMENT, "engine %d is not one of maps, or not known to this version",
                    (int)config->engine);
    config->engine = engine->id;
    RETURN_ERROR_IF(config->type == LOOM_TYPE_SET && config->value_bytes != 0, LOOM_INVALID_ARGUMENT,
                    "value_bytes = %u: a set has no values; 0, or LOOM_TYPE_MAP", config->value_bytes);
    RETURN_IF_FAILED(
        loom__map_check_widths(engine, config->type, config->key_bytes, config->value_bytes, LOOM_INVALID_ARGUMENT));
    const int load_is_open = config->max_load == 0;
    const double largest = loom__engine_largest_load(engine);
    if (load_is_open)
        config->max_load = fmin(LOOM__DEFAULT_LOAD, largest);
    RETURN_ERROR_IF(!(config->max_load >= LOOM__SMALLEST_LOAD && config->max_load <= largest), LOOM_INVALID_ARGUMENT,
                    "max_load = %g: it must be from %g to %g; 0 lets the library choose", config->max_load,
                    LOOM__SMALLEST_LOAD, largest);
    RETURN_IF_FAILED(loom__map_check_growth(config->growth));
    RETURN_IF_FAILED(check_options(context, engine, config));
    return loom__map_limit_config(context, load_is_open, config);
}

loom_status loom_map_memory_required(loom_context *context, const loom_map_config *given, loom_memory *memory)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_memory own = LOOM_MEMORY_INIT;
    RETURN_IF_FAILED(loom__map_complete_config(context, given, &config));
    RETURN_ERROR_IF(memory == NULL, LOOM_INVALID_ARGUMENT, "memory is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_memory, memory));
    RETURN_IF_FAILED(loom__map_measure(context, &config, &own));
    loom__struct_out(memory, &own);
    return LOOM_OK;
}

loom_status loom__map_wrap(loom_context *context, loom__table *table, double growth, uint64_t memory_limit,
                           loom_map **made)
{
    loom__handle *handle;
    RETURN_IF_FAILED(loom__handle_create(context, table, sizeof **made, &handle));
    loom_map *map = (loom_map *)handle;
    map->key_bytes = loom__row_width(table->is.key_bytes);
    map->value_bytes = loom__row_width(table->is.value_bytes);
    map->variable = loom__variable_columns(table->is.key_bytes, table->is.value_bytes);
    if (map->variable != 0) {
        const loom_map_config config = loom__map_table_config(table, loom__map_table_room(table));
        map->most_key_bytes = config.most_key_bytes;
        map->most_value_bytes = config.most_value_bytes;
    }
    map->type = table->is.type;
    map->growth = growth;
    map->memory_limit = memory_limit;
    map->limited_at = UINT64_MAX;
    map->has_routes = loom__table_host_bytes(table) > 0 && map->variable == 0 &&
                      !(table->engine->options & LOOM__OPTION_TICKETS) && /* their kernels reach rows directly */
                      context->machine->ops->pinned_create != NULL;       /* it does not work in host memory */
    map->explained = (loom_explanation)LOOM_EXPLANATION_INIT;
    pthread_mutex_init(&map->explained_lock, NULL);
    *made = map;
    return LOOM_OK;
}

loom_status loom_map_create(loom_context *context, const loom_map_config *given, loom_map **made)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom__table *table;
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "map is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(loom__map_complete_config(context, given, &config));
    RETURN_IF_FAILED(loom__map_table_create(context->machine, &config, loom__context_seed(context), &table));
    return loom__map_wrap(context, table, config.growth, config.memory_limit, made);
}

void loom_map_destroy(loom_map *map)
{
    if (map == NULL)
        return;
    if (map->durable != NULL) {
        /* After every call that has begun. Those that wait for a sync are left: loom__durable_close waits for them. */
        loom__gate_enter(&map->handle.gate, 1);
        loom__gate_leave(&map->handle.gate, 1);
        loom__durable_close(map->durable);
    }
    loom__handle_destroy(&map->handle);
}

loom_status loom_map_set_workspace(loom_map *map, void *workspace, size_t bytes)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    RETURN_ERROR_IF((workspace == NULL) != (bytes == 0), LOOM_INVALID_ARGUMENT,
                    "a workspace has memory and bytes, or neither to take it back");
    RETURN_ERROR_IF((uintptr_t)workspace % LOOM_WORKSPACE_ALIGNMENT != 0, LOOM_INVALID_ARGUMENT,
                    "workspace: it must be aligned to %d bytes", LOOM_WORKSPACE_ALIGNMENT);
    loom__gate_enter(&map->handle.gate, 1);
    map->workspace = workspace;
    map->workspace_bytes = bytes;
    loom__gate_leave(&map->handle.gate, 1);
    return LOOM_OK;
}

loom_status loom__map_check(loom_map *map, loom_stream stream)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    return loom__handle_check_stream(&map->handle, stream);
}

loom_status loom__map_check_values(const loom_map *map, const void *values)
{
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET && values != NULL, LOOM_INVALID_ARGUMENT,
                    "a set has no values; pass NULL for values");
    return LOOM_OK;
}

loom_status loom__map_check_has_lists(const loom_map *map)
{
    RETURN_ERROR_IF(
        map->type != LOOM_TYPE_MULTIMAP, LOOM_UNSUPPORTED,
        "keys of this table have one value at most; use a multimap (LOOM_TYPE_MULTIMAP), or find and erase");
    return LOOM_OK;
}

loom_status loom_map_clone(loom_map *map, loom_map **made, loom_stream stream)
{
    loom__table *twin;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "clone is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__table_clone(map->handle.table, &twin, stream);
    if (status == LOOM_OK)
        status = loom__map_wrap(map->handle.context, twin, map->growth, map->memory_limit, made);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

static loom_status tell_number(loom_map *map, loom_status (*count)(loom__table *, uint64_t *, loom_stream),
                               uint64_t *number, loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = count(map->handle.table, number, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_size(loom_map *map, uint64_t *size, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(size == NULL, LOOM_INVALID_ARGUMENT, "size is NULL");
    return tell_number(map, loom__map_table_pairs, size, stream);
}

loom_status loom_map_distinct(loom_map *map, uint64_t *distinct, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(distinct == NULL, LOOM_INVALID_ARGUMENT, "distinct is NULL");
    return tell_number(map, loom__map_table_size, distinct, stream);
}

loom_status loom_map_memory_used(loom_map *map, uint64_t *bytes)
{
    RETURN_ERROR_IF(map == NULL || bytes == NULL, LOOM_INVALID_ARGUMENT, "map or bytes is NULL");
    loom__gate_enter(&map->handle.gate, 0);
    *bytes = loom__handle_bytes(&map->handle);
    loom__gate_leave(&map->handle.gate, 0);
    return LOOM_OK;
}

loom_status loom_map_get_config(loom_map *map, loom_map_config *given)
{
    RETURN_ERROR_IF(map == NULL || given == NULL, LOOM_INVALID_ARGUMENT, "map or config is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_map_config, given));
    loom__gate_enter(&map->handle.gate, 0);
    const loom__table *table = map->handle.table;
    loom_map_config config = loom__map_table_config(table, loom__map_table_room(table));
    config.buckets_per_partition = table->is.buckets;
    config.concurrent_reads = table->concurrent_reads;
    config.growth = map->growth;
    config.memory_limit = map->memory_limit;
    if (table->engine->tell_config != NULL)
        table->engine->tell_config(table, &config);
    loom__gate_leave(&map->handle.gate, 0);
    loom__struct_out(given, &config);
    return LOOM_OK;
}

/* What a table itself counts. */
typedef struct counted_by_table {
    uint64_t keys, pairs;
} counted_by_table;

/* Scans the whole table and reads what the table itself counts, with no write in between. Also fills in the
 * fields of `stats` that do not come from the scan. */
static loom_status survey_of(loom_map *map, loom__survey *survey, counted_by_table *counted, loom_stats *stats,
                             loom_stream stream)
{
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom__table *table = map->handle.table;
    loom_status status = loom__map_table_survey(table, survey, stream);
    if (status == LOOM_OK)
        status = loom__map_table_size(table, &counted->keys, stream);
    if (status == LOOM_OK)
        status = loom__map_table_pairs(table, &counted->pairs, stream);
    stats->engine = table->engine->id;
    stats->key_bytes = table->is.key_bytes;
    stats->value_bytes = table->is.value_bytes;
    stats->slots_per_bucket = table->slots_per_bucket;
    stats->capacity = table->is.capacity;
    stats->slots = loom__table_slots_in_all(table);
    stats->partitions = table->is.partitions;
    stats->buckets_per_partition = table->is.buckets;
    stats->memory_bytes = loom__handle_bytes(&map->handle);
    stats->host_bytes = loom__table_host_bytes(table);
    stats->seed = table->is.seed;
    stats->type = table->is.type;
    if (table->engine->tell_stats != NULL)
        table->engine->tell_stats(table, stats);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_stats(loom_map *map, loom_stats *given, loom_stream stream)
{
    loom_stats stats = LOOM_STATS_INIT;
    loom__survey survey;
    counted_by_table counted;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(given == NULL, LOOM_INVALID_ARGUMENT, "stats is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_stats, given));
    RETURN_IF_FAILED(survey_of(map, &survey, &counted, &stats, stream));
    stats.size = survey.pairs;
    stats.distinct = survey.size;
    const double key_bytes = stats.key_bytes == LOOM_VARIABLE ? 0 : stats.key_bytes;
    const double value_bytes = stats.value_bytes == LOOM_VARIABLE ? 0 : stats.value_bytes;
    stats.density =
        ((double)survey.size * key_bytes + (double)survey.pairs * value_bytes + (double)survey.string_bytes) /
        (double)(stats.memory_bytes + stats.host_bytes);
    stats.longest_list = survey.longest_list;
    if (map->variable != 0) {
        stats.string_bytes = survey.string_bytes;
        stats.string_free = stats.string_room - survey.heap_used;
        stats.string_unused = survey.heap_used - survey.in_heap;
    } else {
        stats.values_free = stats.values_room - survey.heap_used;
        stats.values_unused = survey.heap_used - survey.in_heap;
    }
    stats.fullest_partition = survey.fullest_partition;
    stats.displaced = survey.displaced;
    stats.longest_chain = survey.longest_chain;
    stats.load = (double)survey.size / (double)stats.slots;
    stats.accesses_per_hit = survey.size > 0 ? (double)survey.hit_accesses / (double)survey.size : 1;
    stats.accesses_per_miss = survey.miss_accesses;
    stats.stashed = survey.stashed;
    loom__struct_out(given, &stats);
    return LOOM_OK;
}

loom_status loom_map_activity(loom_map *map, loom_activity *given, loom_stream stream)
{
    loom_activity activity = LOOM_ACTIVITY_INIT;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(given == NULL, LOOM_INVALID_ARGUMENT, "activity is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_activity, given));
    loom__gate_enter(&map->handle.gate, 0);
    const uint64_t single_calls = atomic_load(&map->single_calls);
    activity.calls = single_calls + atomic_load(&map->calls);
    activity.keys = single_calls + atomic_load(&map->keys);
    activity.growths = map->growths;
    activity.growth_seconds = map->growth_seconds;
    activity.upkeeps = map->upkeeps;
    activity.last_route = map->last_route;
    const uint32_t stashes = map->handle.table->engine->stashes;
    loom__gate_leave(&map->handle.gate, 0);
    if (stashes)
        RETURN_IF_FAILED(tell_number(map, loom__map_table_stashed, &activity.stashed_cells, stream));
    loom__struct_out(given, &activity);
    return LOOM_OK;
}

loom_status loom_map_verify(loom_map *map, loom_stream stream)
{
    loom_stats stats = LOOM_STATS_INIT;
    loom__survey survey;
    counted_by_table counted;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(survey_of(map, &survey, &counted, &stats, stream));
    RETURN_ERROR_IF(survey.first_bad != UINT64_MAX, LOOM_INTERNAL,
                    "bucket %llu violates the layout's invariants; keep the table (loom_map_save) and report it",
                    (unsigned long long)survey.first_bad);
    RETURN_ERROR_IF(
        map->variable != 0 && (survey.in_heap > survey.heap_used || survey.heap_end > survey.heap_used), LOOM_INTERNAL,
        "%llu bytes of strings end at byte %llu, and %llu bytes were given out; keep the table "
        "(loom_map_save) and report it",
        (unsigned long long)survey.in_heap, (unsigned long long)survey.heap_end, (unsigned long long)survey.heap_used);
    RETURN_ERROR_IF(survey.size != counted.keys || survey.pairs != counted.pairs, LOOM_INTERNAL,
                    "the table holds %llu keys and %llu pairs but counts %llu and %llu; keep the table "
                    "(loom_map_save) and report it",
                    (unsigned long long)survey.size, (unsigned long long)survey.pairs, (unsigned long long)counted.keys,
                    (unsigned long long)counted.pairs);
    RETURN_ERROR_IF(survey.overlaps_unknown != 0, LOOM_OUT_OF_MEMORY,
                    "there is no memory to look for lists that overlap: a bit for each value; all else is sound");
    return LOOM_OK;
}
