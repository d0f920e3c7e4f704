/* Multimaps as the core sees them: shapes, regions, sizes; and the engine whose lists lie in one piece. The directory
 * is an open table (engines/open), with rows (engines/rows) for keys that have neither 4 nor 8 bytes. Bulk work is in
 * the machines. */
#include "engines/multi/multi.h"
#include "core/error.h"
#include "core/table.h"
#include "engines/multi/multi_layout.h"
#include "engines/open/open.h"
#include "engines/rows/rows.h"

_Static_assert(sizeof(loom__multi_view) <= sizeof(((loom_map_view *)0)->table), "device views have room for it");
_Static_assert(sizeof(loom__wide_multi_view) <= LOOM__VIEW_WORDS * sizeof(uint64_t), "a table has room for its view");

enum {
    HEAP_UNIT = 1 << 16,          /* bytes saved and checked together */
    MULTI_SHARED_BYTES = 115000,  /* shared memory of a thread block, if two run on a multiprocessor of a Hopper GPU */
    MULTI_CACHED_BYTES = 1 << 19, /* cpu machine: half of a core's L2 cache; a batch comes beside it */
    LEAST_BUCKETS = 5,            /* choose_smaller: partitions are no smaller; */
    MUCH_BYTES = 1 << 20,         /*   heaps that are worth it; */
    MARGIN = 5,                   /*   partitions may have a fifth more values than the mean; */
    LITTLE_SHARE = 32             /*   the directory may take one in so many bytes of the heap */
};

static loom__slot_kind directory_kind(const loom__table *table)
{
    return multi_directory_kind(table->is.key_bytes);
}

/* Bytes of a directory's row; 0: it has none. */
static uint32_t row_bytes_of(const loom__description *is)
{
    return multi_directory_kind(is->key_bytes) == SLOT_TAG ? open_row_bytes(is->key_bytes, MULTI_HANDLE_BYTES) : 0;
}

static const void *kernels(const loom__machine *machine)
{
    return machine->ops->kernels(machine, LOOM__KERNELS_MULTI);
}

loom_status loom__multi_supports(loom__machine *machine, loom_type type, loom_feature feature)
{
    (void)type;
    switch (feature) {
    case LOOM_FEATURE_FIND_OR_INSERT:
    case LOOM_FEATURE_UPDATE:
    case LOOM_FEATURE_ACCUMULATE:
        return loom__fail(LOOM_UNSUPPORTED,
                          "a key of a multimap has many values, and the call is about one; use a map");
    case LOOM_FEATURE_ERASE_IF:
    case LOOM_FEATURE_LISTS:
        return LOOM_OK;
    default:
        return machine->ops->supports(machine, feature);
    }
}

loom_status loom__multi_check_widths(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status)
{
    (void)type;
    RETURN_ERROR_IF(loom__variable_columns(key_bytes, value_bytes) != 0,
                    status == LOOM_INVALID_ARGUMENT ? LOOM_UNSUPPORTED : status,
                    "key_bytes or value_bytes is LOOM_VARIABLE: byte strings are keys and values of maps, sets and "
                    "counters; for several values of a string, give each string a number in a map, and store the "
                    "values under it (examples/inverted_index.c)");
    RETURN_ERROR_IF(key_bytes < 1 || key_bytes > ROWS_MOST_KEY_BYTES, status,
                    "key_bytes = %u: keys of multimaps have 1 to %d bytes", key_bytes, ROWS_MOST_KEY_BYTES);
    RETURN_ERROR_IF(value_bytes < 1 || value_bytes > ROWS_MOST_VALUE_BYTES, status,
                    "value_bytes = %u: values of multimaps have 1 to %d bytes (for keys alone: LOOM_TYPE_SET)",
                    value_bytes, ROWS_MOST_VALUE_BYTES);
    return LOOM_OK;
}

/* Checks the numbers that all multimaps have. */
static loom_status check_numbers(const loom__engine *engine, uint64_t values, uint64_t most, loom_status status)
{
    RETURN_ERROR_IF(values > engine->most_values, status,
                    "values = %llu: a multimap of the %s engine has room for at most %llu; split the keys over several "
                    "tables",
                    (unsigned long long)values, engine->name, (unsigned long long)engine->most_values);
    RETURN_ERROR_IF(most > LIST_MOST_VALUES, status, "most_values_per_key = %llu: a key has at most %d values",
                    (unsigned long long)most, (int)LIST_MOST_VALUES);
    return LOOM_OK;
}

static const double HIGH_LOAD = 0.92;

static uint32_t prime_up_to(uint32_t most)
{
    while (!loom__open_is_prime(most))
        most--;
    return most;
}

/* A thread or a block of threads builds one partition at a time, with the lists of its keys. On a GPU the partition,
 * its tags and all its values should fit the shared memory of a thread block. So partitions are smaller than those of
 * maps, the smaller the more values a key has. A directory of few keys with many values each has more partitions than
 * its keys need, as long as it takes little memory beside the values.
 *
 * On a CPU a partition should fit a core's cache, and there should be one for each thread. Smaller ones make builds a
 * little faster, but not insertions: a batch of 2^16 pairs has few for each. Two cores of a Neoverse V1, 2^22 pairs of
 * 4 + 4 bytes, 8, 64 and 1,024 values per key, M pairs/s:
 *
 *   bytes    append in 64 calls   build
 *   115000   37   38   64         82   105   112
 *   2^19     44   49   78         81    96   104
 *   2^20     45   50   77         81    92   102
 */
static loom_status choose_smaller(loom__machine *machine, loom_map_config *directory, uint64_t heap_bytes,
                                  loom__description *is)
{
    const loom__slot_kind kind = multi_directory_kind(directory->key_bytes);
    const uint64_t bucket_bytes = open_partition_bytes(kind, 1) + MULTI_TAG_BYTES;
    const uint64_t counted = heap_bytes < MUCH_BYTES ? 0 : heap_bytes + heap_bytes / MARGIN;
    const uint64_t buckets = (uint64_t)is->partitions * is->buckets;
    uint64_t shared = machine->ops->id == LOOM_MACHINE_CPU ? MULTI_CACHED_BYTES : MULTI_SHARED_BYTES;
    if (is->max_load > HIGH_LOAD) /* which needs large partitions: then an SM has one thread block */
        shared *= 2;
    const uint64_t fit = shared / (bucket_bytes + counted / buckets);
    if (fit >= is->buckets)
        return LOOM_OK;
    directory->buckets_per_partition = prime_up_to(fit > LEAST_BUCKETS ? (uint32_t)fit : LEAST_BUCKETS);
    RETURN_IF_FAILED(loom__open_choose(machine, directory, is));
    const uint64_t partition = open_partition_bytes(kind, is->buckets);
    const uint64_t wanted = counted / (shared - is->buckets * bucket_bytes),
                   most = heap_bytes / LITTLE_SHARE / partition;
    const uint64_t more = wanted < most ? wanted : most;
    if (more > is->partitions && more < OPEN_MOST_PARTITIONS)
        is->partitions = (uint32_t)more;
    return LOOM_OK;
}

loom_status loom__multi_choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    loom_map_config directory = *(const loom_map_config *)any_config;
    RETURN_IF_FAILED(check_numbers(loom__engine_of(directory.type, directory.engine), directory.values,
                                   directory.most_values_per_key, LOOM_INVALID_ARGUMENT));
    is->parameters[MULTI_VALUES] = directory.values;
    is->parameters[MULTI_MOST] = directory.most_values_per_key;
    const int numbers = directory.value_bytes == 4 || directory.value_bytes == 8; /* others go to the heap directly */
    const uint64_t heap_bytes = numbers ? directory.values * directory.value_bytes : 0;
    directory.value_bytes = MULTI_HANDLE_BYTES;
    if (row_bytes_of(is) > 0)
        return loom__rows_choose_sized(&directory, SLOT_TAG, row_bytes_of(is), is);
    RETURN_IF_FAILED(loom__open_choose(machine, &directory, is));
    if (directory.buckets_per_partition != 0)
        return LOOM_OK;
    return choose_smaller(machine, &directory, heap_bytes, is);
}

uint32_t loom__multi_layout_of(const loom__description *is)
{
    const int narrow = row_bytes_of(is) == 0 && open_has_narrow_word(multi_directory_kind(is->key_bytes));
    return narrow ? MULTI_NARROW_VERSION : MULTI_LAYOUT_VERSION;
}

loom_status loom__multi_check(const loom__description *is)
{
    RETURN_IF_FAILED(check_numbers(loom__engine_of(is->type, is->engine), is->parameters[MULTI_VALUES],
                                   is->parameters[MULTI_MOST], LOOM_BAD_FILE));
    return row_bytes_of(is) > 0 ? loom__rows_check_sized(is, row_bytes_of(is)) : loom__open_engine.check(is);
}

void loom__multi_lay_out(loom__table *table)
{
    const uint64_t bytes = multi_room(table->is.parameters[MULTI_VALUES]) * table->is.value_bytes;
    loom__open_lay_out(table, directory_kind(table), sizeof(loom__multi_totals));
    if (row_bytes_of(&table->is) > 0)
        loom__rows_add_region(table, LOOM__PLACE_DEVICE, row_bytes_of(&table->is));
    loom__table_add_region(table, LOOM__SECTION_VALUES, bytes > 0 ? bytes : OPEN_LINE_BYTES, HEAP_UNIT);
}

/* The directory's rows lie in the region before the heap. */
static void attach_rows(loom__table *table)
{
    loom__wide_multi_view *view = (loom__wide_multi_view *)(void *)table->view;
    loom__rows_view *rows = &view->rows;
    *rows = (loom__rows_view){.lines = view->list_view.directory};
    open_set_rows(rows, 0, table->is.key_bytes, MULTI_HANDLE_BYTES, 0, table->regions[table->region_count - 2].memory,
                  NULL);
}

void loom__multi_attach(loom__table *table)
{
    loom__multi_view *view = (loom__multi_view *)(void *)table->view;
    view->lists = (loom__multi_totals *)(void *)loom__open_attach(table, directory_kind(table));
    view->heap = table->regions[table->region_count - 1].memory;
    view->room = multi_room(table->is.parameters[MULTI_VALUES]);
    view->most = table->is.parameters[MULTI_MOST] > 0 ? (uint32_t)table->is.parameters[MULTI_MOST] : LIST_MOST_VALUES;
    view->value_bytes = table->is.value_bytes;
    view->first_bucket = (uint16_t)table->is.parameters[MULTI_FIRST_BUCKET];
    view->bucket_growth = (uint16_t)table->is.parameters[MULTI_BUCKET_GROWTH];
    if (multi_has_rows(view))
        attach_rows(table);
}

/* The directory wears as any open table. */
uint64_t loom__multi_upkeep_after(const loom__table *table)
{
    return loom__open_engine.upkeep_after(table);
}

/* Counts the lists of a loaded table. Until then the whole heap counts as used. */
loom_status loom__multi_restored(loom__table *table, loom_stream stream)
{
    const loom__multi_view *view = (const loom__multi_view *)(const void *)table->view;
    loom__multi_totals totals = {.used = view->room};
    loom__machine *machine = table->machine;
    loom__survey survey;
    RETURN_IF_FAILED(loom__open_engine.restored(table, stream));
    RETURN_IF_FAILED(machine->ops->write_table(machine, view->lists, &totals, sizeof totals, stream));
    RETURN_IF_FAILED(loom__map_table_survey(table, &survey, stream));
    totals = (loom__multi_totals){.pairs = survey.pairs, .used = survey.heap_end, .in_heap = survey.in_heap};
    return machine->ops->write_table(machine, view->lists, &totals, sizeof totals, stream);
}

const uint64_t *loom__multi_pairs_at(const loom__table *table)
{
    return &((const loom__multi_view *)(const void *)table->view)->lists->pairs;
}

const uint64_t *loom__multi_values_at(const loom__table *table)
{
    return &((const loom__multi_view *)(const void *)table->view)->lists->in_heap;
}

/* Bytes of the heap behind its used part are undefined in memory, and zero in files. */
loom_status loom__multi_used_bytes(loom__table *table, const loom__region *region, uint64_t *bytes, loom_stream stream)
{
    const loom__multi_view *view = (const loom__multi_view *)(const void *)table->view;
    uint64_t used;
    *bytes = region->bytes;
    if (region->section != LOOM__SECTION_VALUES)
        return LOOM_OK;
    RETURN_IF_FAILED(table->machine->ops->read_table(table->machine, &used, &view->lists->used, sizeof used, stream));
    *bytes = used * view->value_bytes;
    return LOOM_OK;
}

void loom__multi_tell_config(const loom__table *table, loom_map_config *config)
{
    config->values = table->is.parameters[MULTI_VALUES];
    config->most_values_per_key = table->is.parameters[MULTI_MOST];
}

void loom__multi_tell_stats(const loom__table *table, loom_stats *stats)
{
    stats->values_room = ((const loom__multi_view *)(const void *)table->view)->room;
}

const loom__engine loom__multi_engine = {
    .id = LOOM_ENGINE_OPEN,
    .name = "open",
    .types = 1 << LOOM_TYPE_MULTIMAP,
    .layout_version = MULTI_LAYOUT_VERSION,
    .layout_of = loom__multi_layout_of,
    .view_layout = LOOM_MULTI_VIEW_LAYOUT,
    .parameters = 2,
    .options = LOOM__OPTION_LISTS,
    .moves_keys = 1,
    .view_refusal =
        "kernels may only look keys up in this multimap (LOOM_VIEW_FIND): a list in one piece moves when it "
        "grows; use LOOM_ENGINE_CHAIN, whose lists kernels append to, or insert with the bulk calls",
    .most_values = MULTI_MOST_ROOM,
    .supports = loom__multi_supports,
    .check_widths = loom__multi_check_widths,
    .choose = loom__multi_choose,
    .check = loom__multi_check,
    .lay_out = loom__multi_lay_out,
    .attach = loom__multi_attach,
    .restored = loom__multi_restored,
    .upkeep_after = loom__multi_upkeep_after,
    .tell_config = loom__multi_tell_config,
    .tell_stats = loom__multi_tell_stats,
    .kernels = kernels,
    .pairs_at = loom__multi_pairs_at,
    .values_at = loom__multi_values_at,
    .used_bytes = loom__multi_used_bytes,
};
