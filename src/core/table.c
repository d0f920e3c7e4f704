#include "core/table.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

#include <assert.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- regions ---- */

void loom__table_add_region_at(loom__table *table, loom__place place, loom__section section, uint64_t bytes,
                               uint64_t unit)
{
    assert(table->region_count < LOOM__MOST_REGIONS && bytes > 0 && unit > 0 && unit <= INT32_MAX);
    assert(place == LOOM__PLACE_DEVICE || table->region_count > 0); /* loom__table_wait reads the first region */
    loom__region *region = &table->regions[table->region_count++];
    *region = (loom__region){.section = section, .place = place, .bytes = bytes, .unit = unit};
    table->sections += section != LOOM__SECTION_NONE;
    if (place >= LOOM__PLACES)
        return; /* loom__table_plan refuses it */
    region->at = aligned(table->bytes[place]);
    table->bytes[place] = region->at + bytes;
}

void loom__table_add_region(loom__table *table, loom__section section, uint64_t bytes, uint64_t unit)
{
    loom__table_add_region_at(table, LOOM__PLACE_DEVICE, section, bytes, unit);
}

void loom__table_add_state(loom__table *table, uint64_t more_bytes)
{
    table->state = table->region_count;
    loom__table_add_region(table, LOOM__SECTION_NONE, sizeof(loom__totals) + more_bytes, sizeof(loom__totals));
}

unsigned char *loom__table_state(const loom__table *table)
{
    return table->totals == NULL ? NULL : (unsigned char *)(table->totals + 1);
}

static const loom_memory_kind memory_kinds[LOOM__PLACES] = {LOOM_MEMORY_TABLE, LOOM_MEMORY_PINNED};

static loom_status allocate(loom__table *table, loom_stream stream)
{
    for (int p = 0; p < LOOM__PLACES; p++) {
        if (table->bytes[p] == 0)
            continue;
        table->memory[p] = loom__allocate(&table->machine->allocator, table->bytes[p], memory_kinds[p], stream);
        if (table->memory[p] == NULL)
            return LOOM_OUT_OF_MEMORY;
    }
    return LOOM_OK;
}

loom_status loom__region_read(loom__table *table, const loom__region *region, uint64_t at, void *host, uint64_t bytes,
                              loom_stream stream)
{
    return table->machine->ops->read_table(table->machine, host, region->memory + at, bytes, stream);
}

loom_status loom__region_write(loom__table *table, const loom__region *region, uint64_t at, const void *host,
                               uint64_t bytes, loom_stream stream)
{
    return table->machine->ops->write_table(table->machine, region->memory + at, host, bytes, stream);
}

/* ---- tables ---- */

static const void *kernels_of(const loom__machine *machine, const loom__engine *engine)
{
    return engine->kernels != NULL ? engine->kernels(machine) : machine->ops->kernels(machine, engine->id);
}

loom_status loom__table_offered(loom__machine *machine, const loom__engine *engine)
{
    RETURN_ERROR_IF(kernels_of(machine, engine) == NULL, LOOM_UNSUPPORTED,
                    "the %s machine does not offer the %s engine; use another engine, or the cpu machine",
                    machine->ops->name, engine->name);
    return LOOM_OK;
}

/* Gives the regions their memory if it is allocated already. Sets the engine's view struct and the address of the
 * totals. */
static void attach(loom__table *table)
{
    for (uint32_t i = 0; i < table->region_count; i++) {
        loom__region *region = &table->regions[i];
        unsigned char *memory = table->memory[region->place];
        region->memory = memory != NULL ? memory + region->at : NULL;
    }
    if (table->state < table->region_count)
        table->totals = (loom__totals *)(void *)table->regions[table->state].memory;
    memset(table->view, 0, sizeof table->view);
    table->engine->attach(table);
}

loom_status loom__table_plan(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table *table)
{
    RETURN_IF_FAILED(loom__table_offered(machine, engine));
    *table = (loom__table){.engine = engine,
                           .machine = machine,
                           .kernels = kernels_of(machine, engine),
                           .is = *is,
                           .concurrent_reads = concurrent_reads,
                           .state = LOOM__MOST_REGIONS};
    engine->lay_out(table);
    for (uint32_t i = 0; i < table->region_count; i++)
        RETURN_ERROR_IF(table->regions[i].place >= LOOM__PLACES, LOOM_UNSUPPORTED,
                        "the %s engine wants memory in a place that this version does not offer", engine->name);
    attach(table);
    return LOOM_OK;
}

uint64_t loom__table_bytes(const loom__table *table)
{
    return sizeof *table + table->bytes[LOOM__PLACE_DEVICE];
}

uint64_t loom__table_host_bytes(const loom__table *table)
{
    return table->bytes[LOOM__PLACE_HOST];
}

void loom__table_set_row_staging(loom__table *table, uint64_t bytes)
{
    table->row_staging = bytes;
    attach(table); /* calls read it in the engine's view */
}

uint64_t loom__table_slots_in_all(const loom__table *table)
{
    return (uint64_t)table->is.partitions * table->is.buckets * table->slots_per_bucket;
}

loom_status loom__table_make(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table **made, loom_stream stream)
{
    loom__table *table = loom__allocate(&machine->allocator, sizeof *table, LOOM_MEMORY_HOST, NULL);
    if (table == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status = loom__table_plan(machine, engine, is, concurrent_reads, table);
    if (status != LOOM_OK) {
        loom__release(&machine->allocator, table, sizeof *table, LOOM_MEMORY_HOST, NULL);
        return status;
    }
    status = allocate(table, stream);
    if (status != LOOM_OK) {
        loom__table_destroy(table);
        return status;
    }
    attach(table);
    *made = table;
    return LOOM_OK;
}

void loom__table_destroy(loom__table *table)
{
    const loom_allocator *allocator = &table->machine->allocator;
    for (int p = 0; p < LOOM__PLACES; p++)
        loom__release(allocator, table->memory[p], table->bytes[p], memory_kinds[p], NULL);
    loom__release(allocator, table, sizeof *table, LOOM_MEMORY_HOST, NULL);
}

loom_status loom__table_clone(loom__table *table, loom__table **made, loom_stream stream)
{
    loom__machine *machine = table->machine;
    loom__table *twin;
    RETURN_IF_FAILED(loom__table_make(machine, table->engine, &table->is, table->concurrent_reads, &twin, stream));
    loom__table_set_row_staging(twin, table->row_staging);
    loom_status status = LOOM_OK;
    for (uint32_t i = 0; i < table->region_count && status == LOOM_OK; i++) {
        const loom__region *from = &table->regions[i], *to = &twin->regions[i];
        status = machine->ops->copy_table(machine, to->memory, from->memory, from->bytes, stream);
    }
    if (status == LOOM_OK && table->engine->stashes)
        status =
            machine->ops->write_table(machine, &twin->totals->stashed, &twin->stashed, sizeof twin->stashed, stream);
    twin->most = table->replayed ? UINT64_MAX : table->most; /* until a call counts the keys */
    twin->worn = table->worn;
    twin->most_string_bytes = table->most_string_bytes;
    if (status != LOOM_OK)
        loom__table_destroy(twin);
    else
        *made = twin;
    return status;
}

/* ---- contents ---- */

static int is_number(uint32_t bytes)
{
    return bytes == 4 || bytes == 8;
}

/* A number by which kernels detect a stale device view. Two tables that use the same memory one after the other have
 * different generations if their seeds, capacities or first parameters (multimaps: values) differ. */
static uint64_t generation_of(const loom__table *table)
{
    const uint64_t seed = table->is.seed + (3 + (uint64_t)table->is.engine) * 0x9e3779b97f4a7c15u;
    return loom__mix64(loom__mix64(loom__mix64(seed) + table->is.capacity) + table->is.parameters[0]);
}

loom_status loom__table_wait(loom__table *table, loom_stream stream)
{
    unsigned char first;
    return table->machine->ops->read_table(table->machine, &first, table->regions[0].memory, sizeof first, stream);
}

loom_status loom__table_set_totals(loom__table *table, uint64_t keys, loom_stream stream)
{
    const loom__totals totals = {.size = keys, .generation = generation_of(table), .stashed = table->stashed};
    if (table->totals == NULL || table->is.type == LOOM_TYPE_FILTER)
        return loom__table_wait(table, stream);
    const loom__map_kernels *kernels = table->kernels;
    if (kernels->reset_totals != NULL)
        return kernels->reset_totals(table->machine, table->view, &totals, stream);
    return table->machine->ops->write_table(table->machine, table->totals, &totals, sizeof totals, stream);
}

loom_status loom__table_clear(loom__table *table, loom_stream stream)
{
    table->most = table->worn = table->most_string_bytes = 0;
    table->free_is_zero = 0;
    if (table->is.type == LOOM_TYPE_FILTER)
        return ((const loom__filter_kernels *)table->kernels)->clear(table->machine, table->view, stream);
    return ((const loom__map_kernels *)table->kernels)->clear(table->machine, table->view, stream);
}

loom_status loom__table_make_empty(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                                   uint32_t concurrent_reads, loom__table **made)
{
    loom__table *table;
    RETURN_IF_FAILED(loom__table_make(machine, engine, is, concurrent_reads, &table, NULL));
    loom_status status = loom__table_clear(table, NULL);
    if (status == LOOM_OK)
        status = loom__table_set_totals(table, 0, NULL);
    if (status != LOOM_OK)
        loom__table_destroy(table);
    else
        *made = table;
    return status;
}

loom_status loom__table_lend(loom__table *table, loom_map_view *view)
{
    enum { LENT_BYTES = sizeof view->table }; /* engines with device views have view structs of at most so many */
    const loom__engine *engine = table->engine;
    loom__machine *machine = table->machine;
    const int is_filter = table->is.type == LOOM_TYPE_FILTER;
    const int writes = engine->moves_keys && view->access != LOOM_VIEW_FIND;
    /* Users' kernels may add keys, which fold_size then counts. Tables that move no keys lend all views or none. */
    const int folds = !is_filter && (writes || !engine->moves_keys);
    RETURN_ERROR_IF(engine->view_layout == 0, LOOM_UNSUPPORTED, "the %s engine has no device views", engine->name);
    RETURN_ERROR_IF(table->is.type == LOOM_TYPE_MULTIMAP &&
                        !(is_number(table->is.key_bytes) && is_number(table->is.value_bytes)),
                    LOOM_UNSUPPORTED,
                    "kernels take multimaps with keys and values of 4 or 8 bytes, and this one has %u and %u; use the "
                    "bulk calls",
                    table->is.key_bytes, table->is.value_bytes);
    if (is_filter || engine->moves_keys)
        RETURN_IF_FAILED(machine->ops->supports(machine, LOOM_FEATURE_VIEWS));
    if (writes && !(engine->view_writes >> view->access & 1))
        return loom__engine_refuses_views(engine);
    RETURN_ERROR_IF(folds && ((const loom__map_kernels *)table->kernels)->fold_size == NULL, LOOM_UNSUPPORTED,
                    "the %s machine runs no kernels of users; use the bulk calls", machine->ops->name);
    RETURN_ERROR_IF(view->access == LOOM_VIEW_ACCUMULATE && table->is.type == LOOM_TYPE_SET, LOOM_UNSUPPORTED,
                    "a set has no values to accumulate; use a map or a counter");
    if (engine->check_view != NULL)
        RETURN_IF_FAILED(engine->check_view(table, view->access));
    view->layout = engine->view_layout;
    view->key_bytes = table->is.key_bytes;
    view->value_bytes = table->is.value_bytes;
    view->generation = is_filter ? 0 : generation_of(table);
    _Static_assert((int)LENT_BYTES <= (int)sizeof table->view, "all of it is set");
    memcpy(view->table, table->view, LENT_BYTES);
    return LOOM_OK;
}
