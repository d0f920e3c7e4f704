/* Durable maps: opening, and what writing calls tell the durable side. Journal, snapshots and recovery: src/durable. */
#include "api/map_durable.h"
#include "api/struct_size.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

/* ---- what may be durable ---- */

/* Writes end inside the gate only on machines whose calls have ended when they return. Elsewhere the keys of a batch
 * may still be on their way when the call looks them up. */
loom_status loom__map_check_durable(const loom__machine *machine, loom_type type)
{
    RETURN_ERROR_IF(type == LOOM_TYPE_FILTER, LOOM_UNSUPPORTED,
                    "a filter cannot be durable; save it (loom_filter_save), or keep its keys in a durable set");
    RETURN_ERROR_IF(type == LOOM_TYPE_MULTIMAP, LOOM_UNSUPPORTED,
                    "a multimap cannot be durable yet; use a map, a set or a counter, or save it (loom_map_save)");
    RETURN_ERROR_IF(machine->ops->order_create != NULL, LOOM_UNSUPPORTED,
                    "durable maps are not yet offered on the %s machine; use a context for LOOM_MACHINE_CPU",
                    machine->ops->name);
    return LOOM_OK;
}

static loom_status check_widths(const loom_map_config *config)
{
    RETURN_ERROR_IF(config->key_bytes == LOOM_VARIABLE || config->value_bytes == LOOM_VARIABLE, LOOM_UNSUPPORTED,
                    "a map of byte strings cannot be durable yet; use keys and values of fixed widths, or save the map "
                    "(loom_map_save)");
    return LOOM_OK;
}

static loom_status complete_durable_config(const loom_durable_config *given, loom_durable_config *config)
{
    static const uint64_t usual_bytes = (uint64_t)64 << 20, least = LEAST_RING_BLOCKS * DURABLE_BLOCK,
                          most = (uint64_t)MOST_RING_BLOCKS * DURABLE_BLOCK;
    if (given != NULL)
        RETURN_IF_FAILED(loom__struct_in(&loom__struct_durable_config, config, given));
    RETURN_ERROR_IF((unsigned)config->medium > LOOM_MEDIUM_FILE, LOOM_INVALID_ARGUMENT,
                    "medium = %d: LOOM_MEDIUM_FILE is known to this version", (int)config->medium);
    RETURN_ERROR_IF(config->commit_by_itself > 1 || config->accept_loss > 1 || config->reserved != 0,
                    LOOM_INVALID_ARGUMENT,
                    "commit_by_itself = %u, accept_loss = %u, reserved = %u: the first two are 0 or 1, the last is 0",
                    config->commit_by_itself, config->accept_loss, config->reserved);
    if (config->journal_bytes == 0)
        config->journal_bytes = usual_bytes;
    RETURN_ERROR_IF(
        config->journal_bytes % DURABLE_BLOCK != 0 || config->journal_bytes < least || config->journal_bytes > most,
        LOOM_INVALID_ARGUMENT, "journal_bytes = %llu: it is a multiple of %d from %llu to %llu, or 0",
        (unsigned long long)config->journal_bytes, DURABLE_BLOCK, (unsigned long long)least, (unsigned long long)most);
    return LOOM_OK;
}

/* ---- opening ---- */

static loom_status put(void *map, const void *keys, const void *values, uint64_t n)
{
    return loom_map_insert(map, keys, values, n, LOOM_OVERWRITE, NULL, NULL, NULL);
}

static loom_status erase(void *map, const void *keys, uint64_t n)
{
    return loom_map_erase(map, keys, n, NULL, NULL, NULL);
}

static loom_status clear(void *map)
{
    return loom_map_clear(map, NULL, NULL);
}

static loom_status erase_range(void *map, loom_number number, const void *least, const void *most)
{
    return loom_map_erase_if(map, number, least, most, NULL, NULL);
}

/* Makes the table and fills it. It may grow meanwhile, whatever the config says: what was committed had room once. */
static loom_status recover(loom_context *context, loom__durable *durable, loom_map_config *config, int accept_loss,
                           loom_map **made)
{
    static const loom_map_config defaults = LOOM_MAP_CONFIG_INIT;
    loom__table *table;
    loom_map *map;
    if (config->capacity < durable->snapshot.pairs)
        config->capacity = durable->snapshot.pairs;
    RETURN_IF_FAILED(loom__map_table_create(context->machine, config, loom__context_seed(context), &table));
    RETURN_IF_FAILED(loom__map_wrap(context, table, config->growth > 0 ? config->growth : defaults.growth, 0, &map));
    const loom__replay_target target = {map, put, erase, clear, erase_range};
    loom_status status = loom__durable_recover(durable, &target, accept_loss);
    if (status == LOOM_OK && durable->counts.lost_commits > 0)
        status = loom__durable_checkpoint(durable, map->handle.table);
    if (status != LOOM_OK) {
        loom_map_destroy(map);
        return status;
    }
    map->growth = config->growth;
    map->memory_limit = config->memory_limit;
    map->durable = durable;
    *made = map;
    return LOOM_OK;
}

loom_status loom__map_open_on(loom_context *context, loom__disk *disk, const loom_map_config *given,
                              const loom_durable_config *durable_config, loom_map **made)
{
    const loom__durable_form form = {given->type, given->key_bytes, given->value_bytes};
    loom_map_config config = *given;
    loom__durable *durable;
    RETURN_IF_FAILED(loom__durable_open(&context->machine->allocator, disk, &form, durable_config, &durable));
    const loom_status status = recover(context, durable, &config, (int)durable_config->accept_loss, made);
    if (status != LOOM_OK)
        loom__durable_close(durable);
    return status;
}

loom_status loom_map_open(loom_context *context, const char *path, const loom_map_config *given,
                          const loom_durable_config *given_durable, loom_map **made)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_durable_config durable_config = LOOM_DURABLE_CONFIG_INIT;
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "map is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(loom__map_complete_config(context, given, &config));
    RETURN_IF_FAILED(complete_durable_config(given_durable, &durable_config));
    RETURN_IF_FAILED(loom__map_check_durable(context->machine, config.type));
    RETURN_IF_FAILED(check_widths(&config));
    const loom_allocator *allocator = &context->machine->allocator;
    loom__directory *directory = loom__allocate(allocator, sizeof *directory, LOOM_MEMORY_HOST, NULL);
    if (directory == NULL)
        return LOOM_OUT_OF_MEMORY;
    const loom_status status = loom__directory_open(directory, path, 0);
    if (status != LOOM_OK) {
        loom__release(allocator, directory, sizeof *directory, LOOM_MEMORY_HOST, NULL);
        return status;
    }
    directory->allocator = allocator;
    return loom__map_open_on(context, &directory->disk, &config, &durable_config, made);
}

/* ---- writing calls ---- */

loom_status loom__map_check_durable_writes(const loom_map *map)
{
    return loom__durable_check_writes(map->durable);
}

/* The effects are complete: commits them if the map commits by itself. */
static void commit_by_itself(loom_map *map, loom__logged *logged)
{
    loom__durable *durable = map->durable;
    if (!durable->commit_by_itself)
        return;
    logged->status = loom__durable_commit(durable, map->handle.table, &logged->epoch);
    if (logged->status != LOOM_OK)
        return;
    loom__durable_hold(durable);
    logged->durable = durable;
}

void loom__map_log_batch(loom_map *map, int built, loom_status status, const loom__batch *batch, loom__logged *logged)
{
    loom__durable *durable = map->durable;
    if (durable == NULL)
        return;
    if (built && status == LOOM_OK)
        loom__effects_clear(&durable->effects);
    else if (built)
        loom__effects_give_up(&durable->effects);
    loom__effects_gather(&durable->effects, map->handle.table, &durable->pairs, batch->keys, batch->n, batch->stream);
    commit_by_itself(map, logged);
}

void loom__map_log_operations(loom_map *map, const uint8_t *operations, const void *keys, uint64_t n,
                              loom_stream stream, loom__logged *logged)
{
    loom__durable *durable = map->durable;
    if (durable == NULL)
        return;
    loom__effects_gather_operations(&durable->effects, map->handle.table, &durable->pairs, operations, keys, n, stream);
    commit_by_itself(map, logged);
}

void loom__map_log_erase_if(loom_map *map, loom_status status, loom_number number, const void *least, const void *most,
                            loom__logged *logged)
{
    if (map->durable == NULL)
        return;
    if (status == LOOM_OK)
        loom__effects_erase_range(&map->durable->effects, map->value_bytes, number, least, most);
    else
        loom__effects_give_up(&map->durable->effects);
    commit_by_itself(map, logged);
}

void loom__map_log_clear(loom_map *map, loom_status status, loom__logged *logged)
{
    if (map->durable == NULL)
        return;
    if (status == LOOM_OK)
        loom__effects_clear(&map->durable->effects);
    else
        loom__effects_give_up(&map->durable->effects);
    commit_by_itself(map, logged);
}

loom_status loom__logged_wait(const loom__logged *logged, loom_status status)
{
    const loom_status committed =
        logged->durable != NULL ? loom__durable_wait(logged->durable, logged->epoch) : logged->status;
    return status != LOOM_OK ? status : committed;
}

/* ---- the calls of durable.h ---- */

static loom_status check_is_durable(const loom_map *map)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    RETURN_ERROR_IF(map->durable == NULL, LOOM_UNSUPPORTED,
                    "the map is not durable; open it with loom_map_open, or save it (loom_map_save)");
    return LOOM_OK;
}

loom_status loom_map_commit(loom_map *map, uint64_t *epoch)
{
    uint64_t newest;
    RETURN_IF_FAILED(check_is_durable(map));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, NULL));
    const loom_status status = loom__durable_commit(map->durable, map->handle.table, &newest);
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, NULL);
    if (epoch != NULL && status == LOOM_OK)
        *epoch = newest;
    return status;
}

loom_status loom_map_sync(loom_map *map, uint64_t epoch)
{
    RETURN_IF_FAILED(check_is_durable(map));
    loom__durable *durable = map->durable;
    loom__gate_enter(&map->handle.gate, 0);
    loom__durable_hold(durable);
    loom__gate_leave(&map->handle.gate, 0);
    return loom__durable_wait(durable, epoch);
}

loom_status loom_map_checkpoint(loom_map *map)
{
    RETURN_IF_FAILED(check_is_durable(map));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, NULL));
    const loom_status status = loom__durable_checkpoint(map->durable, map->handle.table);
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, NULL);
    return status;
}

loom_status loom_map_durability(loom_map *map, loom_durability *given)
{
    loom_durability told;
    RETURN_IF_FAILED(check_is_durable(map));
    RETURN_ERROR_IF(given == NULL, LOOM_INVALID_ARGUMENT, "durability is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_durability, given));
    loom__gate_enter(&map->handle.gate, 0);
    loom__durable_tell(map->durable, &told);
    loom__gate_leave(&map->handle.gate, 0);
    told.struct_size = sizeof told;
    loom__struct_out(given, &told);
    return LOOM_OK;
}

loom_status loom_durable_check(const char *path, loom_durable_report *given)
{
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    loom__directory directory;
    RETURN_ERROR_IF(given == NULL, LOOM_INVALID_ARGUMENT, "report is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_durable_report, given));
    RETURN_IF_FAILED(loom__directory_open(&directory, path, 1));
    const loom_status status = loom__durable_survey(&directory.disk, &report);
    directory.disk.ops->destroy(&directory.disk);
    loom__struct_out(given, &report);
    return status;
}
