#include "core/table.h"
#include "core/error.h"
#include "core/memory.h"

#include <assert.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- regions ---- */

void loom__table_add_region(loom__table *table, loom__section section, uint64_t bytes, uint64_t unit)
{
    assert(table->region_count < LOOM__MOST_REGIONS && bytes > 0 && unit > 0 && unit <= INT32_MAX);
    table->regions[table->region_count++] =
        (loom__region){.section = section, .place = LOOM__PLACE_DEVICE, .bytes = bytes, .unit = unit};
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

/* Regions of one place share one allocation, and its last region is not rounded up. */
static uint64_t bytes_of(const loom__table *table, loom__place place)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < table->region_count; i++)
        if (table->regions[i].place == place)
            bytes = aligned(bytes) + table->regions[i].bytes;
    return bytes;
}

static loom_memory_kind kind_of(loom__place place)
{
    return place == LOOM__PLACE_DEVICE ? LOOM_MEMORY_TABLE : LOOM_MEMORY_HOST;
}

static const loom__place offered_places[] = {LOOM__PLACE_DEVICE, LOOM__PLACE_HOST};
enum { OFFERED_PLACES = sizeof offered_places / sizeof offered_places[0] };

static void release(loom__table *table)
{
    for (int p = 0; p < OFFERED_PLACES; p++) {
        const loom__place place = offered_places[p];
        unsigned char *memory = NULL;
        for (uint32_t i = table->region_count; i-- > 0;)
            if (table->regions[i].place == place)
                memory = table->regions[i].memory;
        loom__release(&table->machine->allocator, memory, bytes_of(table, place), kind_of(place), NULL);
    }
}

static loom_status allocate(loom__table *table, loom_stream stream)
{
    for (int p = 0; p < OFFERED_PLACES; p++) {
        const loom__place place = offered_places[p];
        const uint64_t bytes = bytes_of(table, place);
        unsigned char *memory = NULL;
        if (bytes > 0)
            memory = loom__allocate(&table->machine->allocator, bytes, kind_of(place), stream);
        if (bytes > 0 && memory == NULL) {
            release(table);
            return LOOM_OUT_OF_MEMORY;
        }
        uint64_t at = 0;
        for (uint32_t i = 0; i < table->region_count; i++)
            if (table->regions[i].place == place) {
                table->regions[i].memory = memory + aligned(at);
                at = aligned(at) + table->regions[i].bytes;
            }
    }
    return LOOM_OK;
}

loom_status loom__region_read(loom__table *table, const loom__region *region, uint64_t at, void *host, uint64_t bytes,
                              loom_stream stream)
{
    if (region->place != LOOM__PLACE_HOST)
        return table->machine->ops->read_table(table->machine, host, region->memory + at, bytes, stream);
    memcpy(host, region->memory + at, bytes);
    return LOOM_OK;
}

loom_status loom__region_write(loom__table *table, const loom__region *region, uint64_t at, const void *host,
                               uint64_t bytes, loom_stream stream)
{
    if (region->place != LOOM__PLACE_HOST)
        return table->machine->ops->write_table(table->machine, region->memory + at, host, bytes, stream);
    memcpy(region->memory + at, host, bytes);
    return LOOM_OK;
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

/* Sets the engine's view and the address of the totals. */
static void attach(loom__table *table)
{
    if (table->state < table->region_count)
        table->totals = (loom__totals *)(void *)table->regions[table->state].memory;
    memset(table->view, 0, sizeof table->view);
    table->engine->attach(table);
}

loom_status loom__table_plan(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table *table)
{
    RETURN_IF_FAILED(loom__table_offered(machine, engine));
    memset(table, 0, sizeof *table);
    table->engine = engine;
    table->machine = machine;
    table->kernels = kernels_of(machine, engine);
    table->is = *is;
    table->concurrent_reads = concurrent_reads;
    table->state = LOOM__MOST_REGIONS;
    engine->lay_out(table);
    for (uint32_t i = 0; i < table->region_count; i++)
        RETURN_ERROR_IF(table->regions[i].place != LOOM__PLACE_DEVICE && table->regions[i].place != LOOM__PLACE_HOST,
                        LOOM_UNSUPPORTED, "the %s engine wants memory in a place that this version does not offer",
                        engine->name);
    attach(table);
    return LOOM_OK;
}

uint64_t loom__table_bytes(const loom__table *table)
{
    uint64_t bytes = sizeof *table;
    for (int p = 0; p < OFFERED_PLACES; p++)
        bytes += bytes_of(table, offered_places[p]);
    return bytes;
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
    if (status == LOOM_OK)
        status = allocate(table, stream);
    if (status != LOOM_OK) {
        loom__release(&machine->allocator, table, sizeof *table, LOOM_MEMORY_HOST, NULL);
        return status;
    }
    attach(table);
    *made = table;
    return LOOM_OK;
}

void loom__table_destroy(loom__table *table)
{
    const loom_allocator *allocator = &table->machine->allocator;
    release(table);
    loom__release(allocator, table, sizeof *table, LOOM_MEMORY_HOST, NULL);
}

loom_status loom__table_clone(loom__table *table, loom__table **made, loom_stream stream)
{
    loom__machine *machine = table->machine;
    loom__table *twin;
    RETURN_IF_FAILED(loom__table_make(machine, table->engine, &table->is, table->concurrent_reads, &twin, stream));
    loom_status status = LOOM_OK;
    for (uint32_t i = 0; i < table->region_count && status == LOOM_OK; i++) {
        const loom__region *from = &table->regions[i], *to = &twin->regions[i];
        if (from->place == LOOM__PLACE_HOST)
            memcpy(to->memory, from->memory, from->bytes);
        else
            status = machine->ops->copy_table(machine, to->memory, from->memory, from->bytes, stream);
    }
    twin->most = table->replayed ? UINT64_MAX : table->most; /* until a call counts the keys */
    twin->worn = table->worn;
    if (status != LOOM_OK)
        loom__table_destroy(twin);
    else
        *made = twin;
    return status;
}
