/* What tables of maps, sets and counters share: the number of keys they may hold, building, resizing, lending to users'
 * kernels, loading from files. */
#include "core/error.h"
#include "core/memory.h"
#include "core/table.h"

#include <string.h>

static const loom__map_kernels *kernels_of(const loom__table *table)
{
    return table->kernels;
}

/* ---- making ---- */

static int is_usual_width(uint32_t bytes)
{
    return bytes == 4 || bytes == 8;
}

const loom__engine *loom__map_engine_of(const loom_map_config *config)
{
    const uint32_t value_bytes = config->value_bytes;
    const int usual = is_usual_width(config->key_bytes) && (value_bytes == 0 || is_usual_width(value_bytes));
    const int asks = !usual || config->row_place != LOOM_ROWS_ON_DEVICE;
    const loom__engine *wide =
        config->engine == LOOM_ENGINE_DEFAULT && asks ? loom__engine_of_widths(config->type) : NULL;
    return wide != NULL ? wide : loom__engine_of(config->type, config->engine);
}

loom_status loom__map_check_widths(const loom__engine *engine, loom_type type, uint32_t key_bytes, uint32_t value_bytes,
                                   loom_status status)
{
    const int has_values = type != LOOM_TYPE_SET;
    if (engine->check_widths != NULL)
        return engine->check_widths(type, key_bytes, value_bytes, status);
    if (is_usual_width(key_bytes) && (!has_values || is_usual_width(value_bytes)))
        return LOOM_OK;
    const loom__engine *wide = loom__engine_of_widths(type);
    if (status == LOOM_INVALID_ARGUMENT && wide != NULL)
        RETURN_IF_FAILED(wide->check_widths(type, key_bytes, value_bytes, status));
    const int is_config = status == LOOM_INVALID_ARGUMENT;
    const loom_status refusal = is_config ? LOOM_UNSUPPORTED : status;
    const char *way = is_config ? "; set engine to 0, and the library takes an engine that has them" : "";
    RETURN_ERROR_IF(loom__variable_columns(key_bytes, value_bytes) != 0, refusal,
                    "key_bytes or value_bytes is LOOM_VARIABLE: tables of the %s engine have no byte strings%s",
                    engine->name, way);
    return loom__fail(refusal,
                      "key_bytes = %u, value_bytes = %u: tables of the %s engine have no widths but 4 and 8 bytes%s",
                      key_bytes, value_bytes, engine->name, way);
}

/* The description of the table that a complete config asks for. */
static loom_status describe(loom__machine *machine, const loom_map_config *config, uint64_t seed, loom__description *is)
{
    const loom__engine *engine = loom__engine_of(config->type, config->engine);
    RETURN_IF_FAILED(loom__table_offered(machine, engine));
    *is = (loom__description){
        .type = config->type,
        .engine = engine->id,
        .key_bytes = config->key_bytes,
        .value_bytes = config->value_bytes,
        .capacity = config->capacity,
        .seed = seed,
        .max_load = config->max_load,
    };
    is->layout_version = loom__engine_layout_of(engine, is);
    return engine->choose(machine, config, is);
}

loom_status loom__map_table_measure(loom__machine *machine, const loom_map_config *config, loom_memory *memory)
{
    const loom__engine *engine = loom__engine_of(config->type, config->engine);
    loom__description is;
    loom__table table;
    RETURN_IF_FAILED(describe(machine, config, 0, &is));
    RETURN_IF_FAILED(loom__table_plan(machine, engine, &is, 0, &table));
    memory->table_bytes = loom__table_bytes(&table);
    memory->host_bytes = loom__table_host_bytes(&table);
    const loom__map_kernels *kernels = kernels_of(&table);
    const uint64_t n = config->values > config->capacity ? config->values : config->capacity; /* pairs of a build */
    const uint32_t variable = loom__variable_columns(is.key_bytes, is.value_bytes);
    const uint64_t columns = (variable & LOOM__VARIABLE_KEYS ? 1 : 0) + (variable & LOOM__VARIABLE_VALUES ? 1 : 0);
    const uint64_t references = n * columns * sizeof(loom__string);
    if (kernels->host_array_bytes != NULL)
        memory->host_array_bytes = kernels->host_array_bytes(machine, table.view, n);
    if (machine->ops->reaches != NULL && columns > 0)
        memory->host_array_bytes += loom__brought_bytes(config->string_bytes, columns);
    if (kernels->bulk_bytes == NULL)
        return LOOM_OK;
    memory->build_bytes = kernels->bulk_bytes(machine, table.view, n, LOOM_KEEP, 0);
    memory->status_bytes = kernels->bulk_bytes(machine, table.view, n, LOOM_KEEP, 1);
    memory->order_bytes = kernels->bulk_bytes(machine, table.view, n, LOOM_IN_ORDER, 1);
    memory->low_memory_bytes = kernels->bulk_bytes(machine, table.view, n, LOOM_LOW_MEMORY, 0);
    memory->build_bytes += references;
    memory->status_bytes += references;
    memory->order_bytes += references;
    memory->low_memory_bytes += references;
    return LOOM_OK;
}

loom_status loom__map_table_create(loom__machine *machine, const loom_map_config *config, uint64_t seed,
                                   loom__table **made)
{
    loom__description is;
    RETURN_IF_FAILED(describe(machine, config, seed, &is));
    return loom__table_make_empty(machine, loom__engine_of(config->type, config->engine), &is, config->concurrent_reads,
                                  made);
}

int loom__map_table_has_strings(const loom__table *table)
{
    return loom__variable_columns(table->is.key_bytes, table->is.value_bytes) != 0;
}

loom__room loom__map_table_room(const loom__table *table)
{
    if (!(table->engine->options & (LOOM__OPTION_LISTS | LOOM__OPTION_STRINGS)))
        return (loom__room){table->is.capacity, 0}; /* insertions of one key ask for it */
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    table->engine->tell_config(table, &config);
    return (loom__room){table->is.capacity, config.values + config.string_bytes}; /* one of them is 0 */
}

loom_map_config loom__map_table_config(const loom__table *table, loom__room room)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    if (table->engine->options & (LOOM__OPTION_LISTS | LOOM__OPTION_STRINGS | LOOM__OPTION_LAYOUT |
                                  LOOM__OPTION_ROW_PLACE | LOOM__OPTION_TICKETS))
        table->engine->tell_config(table, &config); /* what the new table keeps: layout, row_place, and so on */
    config.key_bytes = table->is.key_bytes;
    config.value_bytes = table->is.value_bytes;
    config.max_load = table->is.max_load;
    config.type = table->is.type;
    config.engine = table->engine->id;
    config.capacity = room.capacity;
    if (loom__map_table_has_strings(table))
        config.string_bytes = room.values;
    else
        config.values = room.values;
    return config;
}

/* ---- how many keys ---- */

static uint64_t sum_up_to_most(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int inserts(const loom__batch *batch)
{
    return batch->write != LOOM__WRITE_ERASE && batch->write != LOOM__WRITE_UPDATE;
}

/* Counts the keys that may wear partitions. Erasures wear partitions. Insertions wear a partition only if it refuses
 * keys. No key is refused before the table holds its capacity, except keys whose hashes were made to collide; those
 * keys wear a few partitions, not the whole table. */
static void note_work(loom__table *table, const loom__batch *batch)
{
    if (inserts(batch))
        table->most = sum_up_to_most(table->most, batch->n);
    table->most_string_bytes = sum_up_to_most(table->most_string_bytes, batch->string_bytes);
    if (batch->write == LOOM__WRITE_ERASE || (inserts(batch) && table->most > table->is.capacity))
        table->worn = sum_up_to_most(table->worn, batch->n);
}

int loom__map_table_surely_fits(const loom__table *table, uint64_t n, uint64_t string_bytes)
{
    const uint64_t heap = string_bytes > 0 ? loom__map_table_room(table).values : 0;
    if (string_bytes > 0 && (table->most_string_bytes > heap || string_bytes > heap - table->most_string_bytes))
        return 0;
    return !table->replayed && table->most <= table->is.capacity && n <= table->is.capacity - table->most;
}

loom_status loom__map_table_size(loom__table *table, uint64_t *keys, loom_stream stream)
{
    return table->machine->ops->read_table(table->machine, keys, &table->totals->size, sizeof *keys, stream);
}

loom_status loom__map_table_pairs(loom__table *table, uint64_t *pairs, loom_stream stream)
{
    const uint64_t *at = table->engine->pairs_at != NULL ? table->engine->pairs_at(table) : &table->totals->size;
    return table->machine->ops->read_table(table->machine, pairs, at, sizeof *pairs, stream);
}

loom_status loom__map_table_values(loom__table *table, uint64_t *values, loom_stream stream)
{
    uint64_t used;
    *values = 0;
    if (table->engine->count_bytes != NULL)
        return table->engine->count_bytes(table, &used, values, stream);
    if (table->engine->values_at == NULL)
        return LOOM_OK;
    return table->machine->ops->read_table(table->machine, values, table->engine->values_at(table), sizeof *values,
                                           stream);
}

loom_status loom__map_table_stashed(loom__table *table, uint64_t *cells, loom_stream stream)
{
    *cells = 0;
    if (!table->engine->stashes)
        return LOOM_OK;
    return table->machine->ops->read_table(table->machine, cells, &table->totals->stashed, sizeof *cells, stream);
}

loom_status loom__map_table_recount(loom__table *table, uint64_t *keys, loom_stream stream)
{
    uint64_t live;
    RETURN_IF_FAILED(loom__map_table_size(table, keys, stream));
    table->most = *keys;
    if (table->engine->count_bytes != NULL)
        return table->engine->count_bytes(table, &table->most_string_bytes, &live, stream);
    return LOOM_OK;
}

/* ---- batches ---- */

loom_status loom__map_table_build(loom__table *table, const loom__batch *batch)
{
    const loom__map_kernels *kernels = kernels_of(table);
    loom__batch whole = *batch;
    whole.replace = 1;
    table->free_is_zero = 0;
    RETURN_IF_FAILED(
        (kernels->insert_bulk != NULL ? kernels->insert_bulk : kernels->write)(table->machine, table->view, &whole));
    table->replayed |= batch->captured != 0;
    table->most = table->worn = table->most_string_bytes = 0;
    note_work(table, batch);
    return LOOM_OK;
}

loom_status loom__map_table_find(loom__table *table, const loom__batch *batch)
{
    return kernels_of(table)->find(table->machine, table->view, batch);
}

loom_status loom__map_table_write(loom__table *table, const loom__batch *batch)
{
    const loom__map_kernels *kernels = kernels_of(table);
    const int asked = (batch->flags & (LOOM_IN_ORDER | LOOM_BY_PARTITION)) != 0 || batch->by_partition;
    table->free_is_zero &= !inserts(batch); /* an insertion that finds too little room writes there, too */
    const loom_status status = (asked && kernels->insert_bulk != NULL ? kernels->insert_bulk : kernels->write)(
        table->machine, table->view, batch);
    table->replayed |= status == LOOM_OK && batch->captured != 0;
    if (status == LOOM_OK)
        note_work(table, batch);
    else if (inserts(batch)) /* a lost device may have stored some keys: the table no longer counts as empty */
        table->most = sum_up_to_most(table->most, batch->n);
    return status;
}

/* Whether an insertion goes by partition although its flags do not ask for it. If a partition surely has slots for all
 * stored and new keys, counters assign the slots. Otherwise the partition is filled key by key, which is no faster than
 * direct insertion. */
static int goes_by_partition(const loom__table *table, const loom__batch *batch)
{
    const uint32_t ways = LOOM_BY_PARTITION | LOOM_IN_ORDER | LOOM_DIRECTLY;
    const uint64_t slots = loom__table_slots_in_all(table);
    const loom__map_kernels *kernels = kernels_of(table);
    if ((batch->write != LOOM__WRITE_KEEP && batch->write != LOOM__WRITE_OVERWRITE) || batch->flags & ways ||
        batch->status != NULL || table->replayed || table->most > slots || batch->n > slots - table->most)
        return 0;
    return kernels->bulk_pays != NULL && kernels->bulk_pays(table->machine, table->view, batch->n);
}

loom__access loom__map_table_access(const loom__table *table, loom__batch *batch, loom__access asked)
{
    batch->by_partition = (uint32_t)goes_by_partition(table, batch);
    const loom__access access = table->engine->moves_keys || batch->by_partition ? LOOM__ACCESS_ALONE : asked;
    batch->fresh = access == LOOM__ACCESS_ALONE && table->most == 0 && !table->replayed;
    return access;
}

/* ---- erase_if ---- */

/* Keeps the pairs whose values lie in the range, and returns how many there are. *of_last: those of the key that came
 * last. */
static uint64_t keep_in_range(const loom__value_range *range, unsigned char *keys, unsigned char *values, uint64_t n,
                              uint32_t key_bytes, uint32_t value_bytes, uint64_t *of_last)
{
    const unsigned char *last = keys + (n - 1) * key_bytes;
    uint64_t kept = 0;
    *of_last = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = 0;
        memcpy(&value, values + i * value_bytes, value_bytes);
        if (!loom__value_in_range(range, value))
            continue;
        *of_last += memcmp(keys + i * key_bytes, last, key_bytes) == 0;
        memmove(keys + kept * key_bytes, keys + i * key_bytes, key_bytes);
        memmove(values + kept++ * value_bytes, &value, value_bytes);
    }
    return kept;
}

/* Copies all pairs out, some at a time, and erases those in the range: their keys, or in multimaps the pairs. */
static loom_status erase_in_one_pass(loom__table *table, const loom__value_range *range, unsigned char *keys,
                                     unsigned char *values, uint64_t at_once, uint64_t *erased, loom_stream stream)
{
    const loom__map_kernels *kernels = kernels_of(table);
    const int lists = kernels->erase_pairs != NULL;
    loom__position position = {0};
    loom_result result = {0};
    loom__batch batch = {.keys = keys, .write = LOOM__WRITE_ERASE, .result = &result, .stream = stream};
    uint64_t got, of_last;
    if (lists)
        batch.values = values;
    *erased = 0;
    for (;;) { /* ends: each round passes a pair */
        RETURN_IF_FAILED(loom__map_table_retrieve(table, &position, keys, values, at_once, &got, stream));
        if (got == 0)
            return LOOM_OK;
        batch.n = keep_in_range(range, keys, values, got, loom__row_width(table->is.key_bytes), table->is.value_bytes,
                                &of_last);
        if (batch.n == 0)
            continue;
        RETURN_IF_FAILED((lists ? kernels->erase_pairs : kernels->write)(table->machine, table->view, &batch));
        *erased += result.ok;
        if (lists) /* the list at which the position stands is shorter now */
            position.value -= of_last < position.value ? of_last : position.value;
    }
}

/* For engines without an erase_if of their own. Erasing a key may move other keys to slots that the pass has left
 * behind, so passes follow each other until one erases nothing. If a call fails, pairs that were erased stay so. */
static loom_status erase_if_directly(loom__table *table, const loom__value_range *range, loom_result *result,
                                     loom_stream stream)
{
    enum { KEYS_AT_ONCE = 1 << 13, PAIRS_AT_ONCE = 1 << 16 /* each erase_pairs splits or sorts its batch */ };
    const loom_allocator *allocator = &table->machine->allocator;
    const uint64_t at_once = kernels_of(table)->erase_pairs != NULL ? PAIRS_AT_ONCE : KEYS_AT_ONCE;
    const uint64_t key_bytes = loom__row_width(table->is.key_bytes);
    const uint64_t bytes = at_once * (key_bytes + table->is.value_bytes);
    loom_result told = {.status = LOOM_OK};
    uint64_t erased;
    RETURN_IF_FAILED(loom__map_table_pairs(table, &told.keys, stream));
    unsigned char *keys = loom__allocate(allocator, bytes, LOOM_MEMORY_HOST, NULL);
    if (keys == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status;
    do {
        status = erase_in_one_pass(table, range, keys, keys + at_once * key_bytes, at_once, &erased, stream);
        told.ok += erased;
    } while (status == LOOM_OK && erased > 0);
    loom__release(allocator, keys, bytes, LOOM_MEMORY_HOST, NULL);
    RETURN_IF_FAILED(status);
    told.exists = told.keys - told.ok;
    return table->machine->ops->write_table(table->machine, result, &told, sizeof told, stream);
}

loom_status loom__map_table_erase_if(loom__table *table, const loom__value_range *range, loom_result *result,
                                     loom_stream stream)
{
    const loom__map_kernels *kernels = kernels_of(table);
    RETURN_IF_FAILED(kernels->erase_if != NULL ? kernels->erase_if(table->machine, table->view, range, result, stream)
                                               : erase_if_directly(table, range, result, stream));
    /* All keys may be gone: only the machine knows how many. */
    table->worn = sum_up_to_most(table->worn, table->replayed ? UINT64_MAX : table->most);
    return LOOM_OK;
}

/* ---- upkeep ---- */

int loom__map_table_wants_upkeep(const loom__table *table)
{
    return table->engine->upkeep_after != NULL && kernels_of(table)->upkeep != NULL &&
           table->worn > table->engine->upkeep_after(table);
}

loom_status loom__map_table_upkeep(loom__table *table, loom_stream stream)
{
    table->worn = 0;
    return kernels_of(table)->upkeep(table->machine, table->view, 0, stream);
}

/* ---- device views ---- */

loom_status loom__map_table_prepare_view(loom__table *table, loom_stream stream)
{
    const loom__map_kernels *kernels = kernels_of(table);
    if (kernels->zero_free == NULL || table->free_is_zero)
        return LOOM_OK;
    RETURN_IF_FAILED(kernels->zero_free(table->machine, table->view, stream));
    table->free_is_zero = 1;
    return LOOM_OK;
}

loom_status loom__map_table_take_back(loom__table *table, int sweep, loom_stream stream)
{
    const loom__map_kernels *kernels = kernels_of(table);
    RETURN_IF_FAILED(kernels->fold_size(table->machine, table->view, stream));
    table->most = UINT64_MAX; /* no call counted the new keys */
    return kernels->upkeep != NULL ? kernels->upkeep(table->machine, table->view, sweep, stream) : LOOM_OK;
}

/* ---- another size ---- */

/* Refills a table whose partitions cannot be filled whole. Copies pairs out to temporary arrays and inserts them. */
static loom_status refill_directly(loom__table *from, loom__table *to, uint64_t keys, uint64_t *refused,
                                   loom_stream stream)
{
    enum { MOST_BYTES = 1 << 24, ALIGNED = 64 /* in pairs: the values then begin at a multiple of 64 bytes, too */ };
    const loom_allocator *allocator = &from->machine->allocator;
    const uint64_t key_bytes = loom__row_width(from->is.key_bytes), value_bytes = loom__row_width(from->is.value_bytes);
    const uint64_t most = MOST_BYTES / (key_bytes + value_bytes) / ALIGNED * ALIGNED + ALIGNED;
    const uint64_t at_once = keys < most ? keys / ALIGNED * ALIGNED + ALIGNED : most;
    const uint64_t bytes = at_once * (key_bytes + value_bytes);
    unsigned char *pairs = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (pairs == NULL)
        return LOOM_OUT_OF_MEMORY;
    void *values = value_bytes != 0 ? pairs + at_once * key_bytes : NULL;
    loom__position position = {0};
    loom_result result = {0};
    loom__batch batch = {
        .keys = pairs, .values = values, .write = LOOM__WRITE_KEEP, .result = &result, .stream = stream};
    loom_status status = loom__table_clear(to, stream);
    do {
        if (status == LOOM_OK)
            status = loom__map_table_retrieve(from, &position, pairs, values, at_once, &batch.n, stream);
        if (status == LOOM_OK && batch.n > 0)
            status = kernels_of(to)->write(to->machine, to->view, &batch);
    } while (status == LOOM_OK && batch.n > 0 && result.full == 0);
    loom__release(allocator, pairs, bytes, LOOM_MEMORY_TEMPORARY, stream);
    *refused = result.full;
    return status;
}

static loom_status refill(loom__table *from, loom__table *to, uint64_t keys, loom_stream stream)
{
    const loom__map_kernels *kernels = kernels_of(from);
    uint64_t refused = 0;
    loom_status status = LOOM_UNSUPPORTED;
    if (from->engine->stashes) /* a refill adds to the number of stashed cells, so it needs one */
        RETURN_IF_FAILED(loom__table_set_totals(to, 0, stream));
    if (kernels->refill != NULL)
        status = kernels->refill(from->machine, from->view, to->view, &refused, stream);
    if (status == LOOM_UNSUPPORTED)
        status = refill_directly(from, to, keys, &refused, stream);
    RETURN_IF_FAILED(status);
    RETURN_ERROR_IF(
        refused > 0, LOOM_FULL,
        "%llu keys did not fit a table for %llu, since too many fell into one partition (their hashes are very "
        "unlucky, or made so); make it larger",
        (unsigned long long)keys, (unsigned long long)to->is.capacity);
    RETURN_IF_FAILED(loom__map_table_stashed(to, &to->stashed, stream));
    return loom__table_set_totals(to, keys, stream);
}

/* Makes a table like this one with other room; its contents are undefined. */
static loom_status make_resized(const loom__table *table, loom__room room, loom__table **made, loom_stream stream)
{
    const loom_map_config config = loom__map_table_config(table, room);
    loom__description is;
    RETURN_IF_FAILED(describe(table->machine, &config, table->is.seed, &is));
    RETURN_IF_FAILED(loom__table_make(table->machine, table->engine, &is, table->concurrent_reads, made, stream));
    loom__table_set_row_staging(*made, table->row_staging);
    return LOOM_OK;
}

/* If status is OK, `made` takes the place of `table`. Destroys the other one. Returns `status`. */
static loom_status replace_table(loom__table *table, loom__table *made, loom_status status, loom_stream stream)
{
    if (status == LOOM_OK) {
        loom__table old = *table;
        *table = *made;
        *made = old;
    } else {
        (void)loom__table_wait(made, stream); /* kernels that ran before the failure may still write to it */
    }
    loom__table_destroy(made);
    return status;
}

loom_status loom__map_table_resize(loom__table *table, loom__room room, loom_stream stream)
{
    loom__table *made;
    uint64_t keys, values, stashed;
    RETURN_IF_FAILED(loom__map_table_size(table, &keys, stream));
    RETURN_IF_FAILED(loom__map_table_values(table, &values, stream));
    RETURN_IF_FAILED(loom__map_table_stashed(table, &stashed, stream));
    if (room.values < values) /* a heap has a little more room than it was made for */
        room.values = values;
    RETURN_IF_FAILED(make_resized(table, room, &made, stream));
    loom_status status;
    made->stashed = stashed;
    if (keys > 0)
        status = refill(table, made, keys, stream);
    else if ((status = loom__table_clear(made, stream)) == LOOM_OK)
        status = loom__table_set_totals(made, 0, stream);
    made->most = keys;
    made->most_string_bytes = values; /* packed */
    return replace_table(table, made, status, stream);
}

loom_status loom__map_table_build_resized(loom__table *table, loom__room room, const loom__batch *batch)
{
    loom__table *made;
    uint64_t stashed;
    RETURN_IF_FAILED(loom__map_table_stashed(table, &stashed, batch->stream));
    RETURN_IF_FAILED(make_resized(table, room, &made, batch->stream));
    made->stashed = stashed;
    loom_status status = loom__table_set_totals(made, 0, batch->stream);
    if (status == LOOM_OK)
        status = loom__map_table_build(made, batch);
    return replace_table(table, made, status, batch->stream);
}

/* ---- lists ---- */

loom_status loom__map_table_find_all(loom__table *table, const loom__list_query *query)
{
    return kernels_of(table)->find_all(table->machine, table->view, query);
}

int loom__map_table_tries_builds(const loom__table *table)
{
    return kernels_of(table)->tries_builds;
}

loom_status loom__map_table_erase_pairs(loom__table *table, const loom__batch *batch)
{
    RETURN_IF_FAILED(kernels_of(table)->erase_pairs(table->machine, table->view, batch));
    table->worn = sum_up_to_most(table->worn, batch->n);
    return LOOM_OK;
}

/* ---- whole tables ---- */

loom_status loom__map_table_retrieve(loom__table *table, loom__position *position, void *keys, void *values,
                                     uint64_t room, uint64_t *got, loom_stream stream)
{
    return kernels_of(table)->retrieve(table->machine, table->view, position, keys, values, room, got, stream);
}

loom_status loom__map_table_survey(loom__table *table, loom__survey *survey, loom_stream stream)
{
    *survey = (loom__survey){0};
    RETURN_IF_FAILED(kernels_of(table)->survey(table->machine, table->view, survey, stream));
    if (table->engine->pairs_at == NULL)
        survey->pairs = survey->size;
    return LOOM_OK;
}

loom_status loom__map_table_count_accesses(loom__table *table, const void *keys, uint64_t n, uint64_t *accesses,
                                           loom_stream stream)
{
    const loom__map_kernels *kernels = kernels_of(table);
    RETURN_ERROR_IF(kernels->count_accesses == NULL, LOOM_UNSUPPORTED, "the %s engine does not count its accesses",
                    table->engine->name);
    return kernels->count_accesses(table->machine, table->view, keys, n, accesses, stream);
}

loom_status loom__map_table_restored(loom__table *table, const char *path, loom_stream stream)
{
    loom__survey survey;
    const uint64_t size = table->is.size;
    RETURN_IF_FAILED(loom__table_set_totals(table, size, stream));
    table->most = size;
    table->most_string_bytes = UINT64_MAX; /* until a call counts them */
    if (table->engine->restored != NULL)
        RETURN_IF_FAILED(table->engine->restored(table, stream));
    RETURN_IF_FAILED(loom__map_table_survey(table, &survey, stream));
    /* Checksums detect damage, not malice. Lookups in a table without its invariants would be silently wrong. */
    RETURN_ERROR_IF(survey.first_bad != UINT64_MAX || survey.size != size, LOOM_BAD_FILE,
                    "the contents of %s are not a table: %llu keys instead of %llu, or keys out of place", path,
                    (unsigned long long)survey.size, (unsigned long long)size);
    RETURN_ERROR_IF(survey.overlaps_unknown != 0, LOOM_OUT_OF_MEMORY,
                    "there is no memory to check %s: a bit for each value for which it has room", path);
    return LOOM_OK;
}
