/* The open engine as the core sees it: which shapes a table may have, and where the parts of a table lie in memory. The
 * algorithms are in open_ops.h, the bytes in open_layout.h, the sizes in open_shape.c. Bulk work is in the machines. */
#include "engines/open/open.h"
#include "core/error.h"
#include "core/table.h"
#include "engines/open/open_layout.h"

_Static_assert(sizeof(loom__open_view) <= sizeof(((loom_map_view *)0)->table), "device views have room for it");

static loom_status check(const loom__description *is)
{
    RETURN_ERROR_IF(is->partitions < OPEN_LEAST_PARTITIONS || is->partitions > OPEN_MOST_PARTITIONS ||
                        is->buckets > OPEN_MOST_BUCKETS || !loom__open_is_prime(is->buckets),
                    LOOM_BAD_FILE, "the file speaks of %u partitions of %u buckets, which no open table has",
                    is->partitions, is->buckets);
    return LOOM_OK;
}

static uint64_t state_bytes(uint64_t partitions)
{
    const uint64_t bytes = OPEN_ADDED_COPIES * sizeof(loom__open_added) + partitions * 3 * sizeof(uint32_t);
    return (bytes + OPEN_LINE_BYTES - 1) / OPEN_LINE_BYTES * OPEN_LINE_BYTES;
}

/* Behind the partitions lie the counts added by device views, the marks, the stale counts and the counts of retired
 * slots. */
void loom__open_lay_out(loom__table *table, loom__slot_kind kind, uint64_t more_bytes)
{
    const uint64_t partitions = table->is.partitions, bytes = open_partition_bytes(kind, table->is.buckets);
    table->slots_per_bucket = open_slots(kind);
    loom__table_add_region(table, LOOM__SECTION_PARTITIONS, partitions * bytes, bytes);
    loom__table_add_state(table, state_bytes(partitions) + more_bytes);
}

static void lay_out(loom__table *table)
{
    loom__open_lay_out(table, slot_kind_of(table->is.key_bytes, table->is.value_bytes), 0);
}

unsigned char *loom__open_attach(loom__table *table, loom__slot_kind kind)
{
    const loom__open_shape shape = {kind, table->is.partitions, table->is.buckets};
    loom__open_view *view = (loom__open_view *)(void *)table->view;
    unsigned char *state = loom__table_state(table);
    *view = loom__open_view_make(&shape, table->is.seed);
    view->concurrent_reads = table->concurrent_reads;
    if (state == NULL)
        return NULL;
    view->base = table->regions[0].memory;
    view->totals = table->totals;
    view->added = (loom__open_added *)(void *)state;
    view->marks = (uint32_t *)(void *)(view->added + OPEN_ADDED_COPIES);
    view->stale = view->marks + shape.partitions;
    view->retired_slots = view->stale + shape.partitions;
    return state + state_bytes(shape.partitions);
}

static void attach(loom__table *table)
{
    (void)loom__open_attach(table, slot_kind_of(table->is.key_bytes, table->is.value_bytes));
}

/* Keys that calls may erase or refuse before upkeep checks the partitions. The check reads one word per partition. No
 * partition needs upkeep before a good part of its keys was erased or refused. */
static uint64_t upkeep_after(const loom__table *table)
{
    const uint64_t partitions = table->is.partitions, slots = loom__table_slots_in_all(table) / partitions;
    return slots / 16 > partitions / 4 ? slots / 16 : partitions / 4;
}

/* A file does not say how many filter bits are stale. Each stale count is therefore set to the largest that needs no
 * upkeep, and the next stale bit triggers upkeep of its partition. Upkeep of a partition reads no more than loading it
 * did. With counts of zero, a table that is repeatedly loaded, changed a little and saved would collect stale bits
 * without end. */
static loom_status restored(loom__table *table, loom_stream stream)
{
    enum { AT_ONCE = 1024 };
    const loom__open_view *view = (const loom__open_view *)(const void *)table->view;
    uint32_t stale[AT_ONCE];
    for (uint32_t i = 0; i < AT_ONCE; i++)
        stale[i] = open_most_stale(view);
    for (uint64_t first = 0; first < view->partitions; first += AT_ONCE) {
        const uint64_t left = view->partitions - first, count = left < AT_ONCE ? left : AT_ONCE;
        RETURN_IF_FAILED(table->machine->ops->write_table(table->machine, view->stale + first, stale,
                                                          count * sizeof *stale, stream));
    }
    table->worn = upkeep_after(table);
    return LOOM_OK;
}

static uint32_t layout_of(const loom__description *is)
{
    return open_has_narrow_word(slot_kind_of(is->key_bytes, is->value_bytes)) ? OPEN_NARROW_VERSION
                                                                              : OPEN_LAYOUT_VERSION;
}

const loom__engine loom__open_engine = {
    .id = LOOM_ENGINE_OPEN,
    .name = "open",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET | 1 << LOOM_TYPE_COUNTER,
    .layout_version = OPEN_LAYOUT_VERSION,
    .layout_of = layout_of,
    .options = LOOM__OPTION_CONCURRENT_READS,
    .view_layout = LOOM_VIEW_LAYOUT,
    .choose = loom__open_choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .restored = restored,
    .upkeep_after = upkeep_after,
};
