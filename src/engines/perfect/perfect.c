/* The perfect engine as the core sees it: the tables that it can make, and where their parts lie. perfect_layout.h
 * describes the bytes, and perfect_shape.c chooses the sizes. The algorithms are in perfect_ops.h, perfect_recode.h,
 * perfect_repair.h and perfect_room.h. perfect_effort.h bounds their work. The machines do bulk work. */
#include "engines/perfect/perfect.h"
#include "core/error.h"
#include "core/table.h"
#include "engines/perfect/perfect_layout.h"

_Static_assert(sizeof(loom__perfect_view) <= sizeof(((loom_map_view *)0)->table), "device views have room for it");

enum { WORDS = 0 /* index of the parameter that holds the words of codes per partition */ };

static loom__perfect_shape shape_of(const loom__description *is)
{
    const loom__slot_kind kind = slot_kind_of(is->key_bytes, is->value_bytes);
    return (loom__perfect_shape){
        .kind = kind,
        .partitions = is->partitions,
        .subrange = is->buckets / PERFECT_SUBRANGES,
        .words = (uint32_t)is->parameters[WORDS],
        .slots = (uint64_t)is->partitions * is->buckets * perfect_slots(kind),
    };
}

static loom_status choose(loom__machine *machine, const void *config, loom__description *is)
{
    loom__perfect_shape shape;
    RETURN_IF_FAILED(loom__perfect_choose_shape(config, machine->cache_bytes, &shape));
    is->partitions = shape.partitions;
    is->buckets = perfect_buckets(shape.subrange);
    is->parameters[WORDS] = shape.words;
    return LOOM_OK;
}

static loom_status check(const loom__description *is)
{
    RETURN_ERROR_IF(is->partitions < PERFECT_LEAST_PARTITIONS || is->partitions > PERFECT_MOST_PARTITIONS ||
                        is->buckets < perfect_buckets(1) || is->buckets > perfect_buckets(PERFECT_MOST_SUBRANGE) ||
                        is->buckets % PERFECT_SUBRANGES != 1,
                    LOOM_BAD_FILE, "the file speaks of %u partitions of %u buckets, which no perfect table has",
                    is->partitions, is->buckets);
    RETURN_ERROR_IF(is->parameters[WORDS] == 0 || is->parameters[WORDS] > PERFECT_MOST_WORDS, LOOM_BAD_FILE,
                    "the file speaks of %llu words of codes in a partition, which no perfect table has",
                    (unsigned long long)is->parameters[WORDS]);
    return LOOM_OK;
}

/* In a file, one unit of the codes is the codes of one partition. In memory, the marks of all partitions follow the
 * totals. */
static void lay_out(loom__table *table)
{
    const loom__perfect_shape shape = shape_of(&table->is);
    const uint64_t bytes = perfect_partition_bytes(shape.kind, shape.subrange), code_bytes = shape.words * 8ull;
    table->slots_per_bucket = perfect_slots(shape.kind);
    loom__table_add_region(table, LOOM__SECTION_PARTITIONS, shape.partitions * bytes, bytes);
    loom__table_add_region(table, LOOM__SECTION_CODES, shape.partitions * code_bytes, code_bytes);
    loom__table_add_state(table, (uint64_t)shape.partitions * sizeof(uint32_t));
}

static void attach(loom__table *table)
{
    const loom__perfect_shape shape = shape_of(&table->is);
    loom__perfect_view *view = (loom__perfect_view *)(void *)table->view;
    *view = loom__perfect_view_make(&shape, table->is.seed);
    view->base = table->regions[0].memory;
    view->codes = (uint64_t *)(void *)table->regions[1].memory;
    view->totals = table->totals;
    view->marks = (uint32_t *)(void *)loom__table_state(table);
}

static void tell_config(const loom__table *table, loom_map_config *config)
{
    const loom__perfect_shape shape = shape_of(&table->is);
    config->keys_per_cell = loom__perfect_keys_per_cell(&shape, table->is.max_load);
}

static void tell_stats(const loom__table *table, loom_stats *stats)
{
    stats->code_bytes = table->regions[1].bytes;
}

const loom__engine loom__perfect_engine = {
    .id = LOOM_ENGINE_PERFECT,
    .name = "perfect",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET | 1 << LOOM_TYPE_COUNTER,
    .layout_version = PERFECT_LAYOUT_VERSION,
    .parameters = 1,
    .options = LOOM__OPTION_KEYS_PER_CELL,
    .view_layout = LOOM_PERFECT_VIEW_LAYOUT,
    .stashes = 1,
    .moves_keys = 1,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .tell_config = tell_config,
    .tell_stats = tell_stats,
};
