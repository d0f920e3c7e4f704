/* The rows engine as the core sees it: maps, sets and counters whose keys have 1 to 256 bytes and whose values have up
 * to 65,536; or whose keys, values or both are byte strings, in a heap.
 *
 * "Stadium Hashing" (Khorasani, Belviranli, Gupta, Bhuyan, PACT 2015) contributes the split of a table into a dense
 * board of tickets, which a lookup reads first, and the keys and values behind it, of any width. Here the board is an
 * open table (engines/open): lines of 28 tags, probed and claimed as the keys of any open table. Differences:
 *   - A ticket of the paper says that a slot is taken, and holds up to 7 bits of the key. A tag has 16 bits, so a
 *     lookup hardly ever reads the row of another key.
 *   - The overflow filter ends the search for an absent key, and probe sequences stay in their partition.
 *   - Keys are erased, and their slots used again.
 *
 * The layout is in engines/open/open_rows.h, the algorithms and their invariants are in open_ops.h: wherever they speak
 * of rows. A lookup reads a line of tags, and then the row of a key that is found. An absent key costs no row.
 * Simulated: 1.02, 1.06 and 1.11 lines for a present key and 1.01, 1.04 and 1.09 for an absent one at load 0.8, 0.9 and
 * 0.95.
 *
 * How machines keep many keys in flight, and what was measured: machines/cpu/rows/cpu_rows_simd.h,
 * machines/cuda/rows/cuda_rows_find.cu, cuda_rows_write.cuh, cuda_strings_find.cu; and for rows in host memory
 * cuda_row_routes.cu.
 *
 * An entry takes 2.29 bytes of the lines and its row, both divided by the load factor: 16 + 8 bytes at load 0.8 take
 * 32.9 bytes.
 *
 * The key and the value of a row lie together, or keys and values lie in two regions (loom_layout). Together, a key
 * that is found costs a line and a row. Apart, it costs one more access if its value is asked for; but rows have no
 * padding, and what reads keys alone passes over no values: contains, rows with another key of the same tag, growth
 * that hashes keys.
 *
 * Rows may lie in host memory (loom_row_place), and so may the heap. The lines stay where the machine works: they are
 * the paper's ticket board. They answer a lookup of an absent key without a row, and an insertion reads a row only
 * where a tag matches. The paper never looks, and so stores equal keys twice.
 *
 * Partitions have as many slots as the load factor needs (open_shape.c), but otherwise no more than ROWS_CACHED_BYTES
 * hold: a thread fills one partition, lines and rows, in its L2 cache. Rows of more than some 600 bytes pass that. */
#include "engines/rows/rows.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/table.h"
#include "engines/open/open.h"
#include "engines/open/open_rows.h"

#include <stddef.h>

enum {
    ROWS_LAYOUT_VERSION = 1,
    ROWS_CACHED_BYTES = 1 << 19,    /* half of a server core's L2 cache */
    ROWS_MOST_UNIT_BYTES = 1 << 30, /* rows of a partition: read, checked and written together */
    ROWS_REGION = 2,     /* behind the lines and the state; then the values, if they lie apart; then the heap, if any */
    HEAP_UNIT = 1 << 16, /* bytes saved and checked together */
    LEAST_HEAP = 64,     /* bytes: a region has some */
    LONGEST_STRING = 1 << 30,
    DEFAULT_MOST_KEY_BYTES = 4096,
    DEFAULT_MOST_VALUE_BYTES = 65536
};

static const uint64_t MOST_HEAP_BYTES = (uint64_t)1 << 48;

/* The parameters of a table. The first three are those of tables with strings; otherwise 0. LAYOUT is 0: keys and
 * values together; or 1: apart. ROW_PLACE is a loom_row_place. */
enum { HEAP_BYTES, MOST_KEY_BYTES, MOST_VALUE_BYTES, LAYOUT, ROW_PLACE, PARAMETERS };

_Static_assert(offsetof(loom__rows_view, heap) <= sizeof((loom_map_view *)0)->table,
               "a device view has room for all that tables without strings need");
_Static_assert(sizeof(loom__rows_view) <= LOOM__VIEW_WORDS * sizeof(uint64_t), "a table has room for its view");

/* ---- shape ---- */

static uint32_t variable_columns(const loom__description *is)
{
    return loom__variable_columns(is->key_bytes, is->value_bytes);
}

static loom__slot_kind kind_of(const loom__description *is)
{
    return variable_columns(is) != 0 ? SLOT_STRING : SLOT_TAG;
}

static uint32_t is_apart(const loom__description *is)
{
    return is->parameters[LAYOUT] != 0;
}

static loom__place place_of(const loom__description *is)
{
    return is->parameters[ROW_PLACE] == LOOM_ROWS_IN_HOST_MEMORY ? LOOM__PLACE_HOST : LOOM__PLACE_DEVICE;
}

/* Bytes of a row in the region of rows, and in that of values: 0 if there is no such region. */
static uint32_t row_bytes_of(const loom__description *is)
{
    return open_row_key_stride(variable_columns(is), loom__row_width(is->key_bytes), loom__row_width(is->value_bytes),
                               is_apart(is));
}

static uint32_t value_bytes_of(const loom__description *is)
{
    return is_apart(is) ? loom__row_width(is->value_bytes) : 0;
}

static uint64_t rows_of_bucket(uint32_t row_bytes)
{
    return (uint64_t)open_slots(SLOT_TAG) * row_bytes;
}

static loom_status check_widths(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status)
{
    RETURN_ERROR_IF((key_bytes < 1 || key_bytes > ROWS_MOST_KEY_BYTES) && key_bytes != LOOM_VARIABLE, status,
                    "key_bytes = %u: keys have 1 to %d bytes, or are strings (LOOM_VARIABLE)", key_bytes,
                    ROWS_MOST_KEY_BYTES);
    RETURN_ERROR_IF(type == LOOM_TYPE_MAP && (value_bytes < 1 || value_bytes > ROWS_MOST_VALUE_BYTES) &&
                        value_bytes != LOOM_VARIABLE,
                    status,
                    "value_bytes = %u: values have 1 to %d bytes, or are strings (LOOM_VARIABLE); for keys alone: "
                    "LOOM_TYPE_SET",
                    value_bytes, ROWS_MOST_VALUE_BYTES);
    RETURN_ERROR_IF(type == LOOM_TYPE_COUNTER && value_bytes != 4 && value_bytes != 8, status,
                    "value_bytes = %u: counts have 4 or 8 bytes", value_bytes);
    return LOOM_OK;
}

/* Checks the layout, the place of rows and the numbers about strings, of a config or a file. */
static loom_status check_numbers(const loom__description *is, loom_status status)
{
    const uint64_t *of = is->parameters;
    const uint32_t variable = variable_columns(is);
    RETURN_ERROR_IF(of[LAYOUT] > 1, status, "the layout of a table has number 0 or 1, not %llu",
                    (unsigned long long)of[LAYOUT]);
    RETURN_ERROR_IF(of[ROW_PLACE] > LOOM_ROWS_IN_HOST_MEMORY, status,
                    "row_place = %llu is not known to this version; it is LOOM_ROWS_ON_DEVICE or "
                    "LOOM_ROWS_IN_HOST_MEMORY",
                    (unsigned long long)of[ROW_PLACE]);
    RETURN_ERROR_IF(
        of[LAYOUT] == 1 && is->value_bytes == 0, status,
        "LOOM_LAYOUT_APART: a set has keys alone, and nothing that could lie apart from them; set layout to "
        "0");
    RETURN_ERROR_IF(variable == 0 && of[HEAP_BYTES] != 0, status,
                    "string_bytes = %llu: neither keys nor values are strings (LOOM_VARIABLE); set 0",
                    (unsigned long long)of[HEAP_BYTES]);
    RETURN_ERROR_IF(of[HEAP_BYTES] > MOST_HEAP_BYTES || of[HEAP_BYTES] % OPEN_PIECE_ALIGNMENT != 0, status,
                    "string_bytes = %llu: a table has room for at most %llu", (unsigned long long)of[HEAP_BYTES],
                    (unsigned long long)MOST_HEAP_BYTES);
    RETURN_ERROR_IF(((variable & LOOM__VARIABLE_KEYS) != 0) != (of[MOST_KEY_BYTES] != 0) ||
                        of[MOST_KEY_BYTES] > LONGEST_STRING,
                    status, "most_key_bytes = %llu: it is for keys that are strings (LOOM_VARIABLE), and at most %d",
                    (unsigned long long)of[MOST_KEY_BYTES], LONGEST_STRING);
    RETURN_ERROR_IF(((variable & LOOM__VARIABLE_VALUES) != 0) != (of[MOST_VALUE_BYTES] != 0) ||
                        of[MOST_VALUE_BYTES] > LONGEST_STRING,
                    status,
                    "most_value_bytes = %llu: it is for values that are strings (LOOM_VARIABLE), and at most %d",
                    (unsigned long long)of[MOST_VALUE_BYTES], LONGEST_STRING);
    return LOOM_OK;
}

static uint32_t most_buckets(uint32_t row_bytes)
{
    const uint64_t fitting = ROWS_MOST_UNIT_BYTES / rows_of_bucket(row_bytes);
    return fitting < OPEN_MOST_BUCKETS ? (uint32_t)fitting : OPEN_MOST_BUCKETS;
}

loom_status loom__rows_choose_sized(const loom_map_config *config, loom__slot_kind kind, uint32_t row_bytes,
                                    loom__description *is)
{
    const uint64_t cached = ROWS_CACHED_BYTES / (OPEN_LINE_BYTES + rows_of_bucket(row_bytes));
    RETURN_ERROR_IF(config->buckets_per_partition > most_buckets(row_bytes), LOOM_INVALID_ARGUMENT,
                    "buckets_per_partition = %u: with rows of this width a partition has at most %u",
                    config->buckets_per_partition, most_buckets(row_bytes));
    return loom__open_choose_sized(config, kind, most_buckets(row_bytes), cached > 0 ? (uint32_t)cached : 1, is);
}

static loom_status choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    const loom_map_config *config = any_config;
    const uint32_t variable = variable_columns(is);
    RETURN_ERROR_IF((unsigned)config->layout > LOOM_LAYOUT_APART, LOOM_INVALID_ARGUMENT,
                    "layout = %d is not known to this version; it is LOOM_LAYOUT_TOGETHER, LOOM_LAYOUT_APART, or 0",
                    (int)config->layout);
    is->parameters[LAYOUT] = config->layout == LOOM_LAYOUT_APART;
    is->parameters[ROW_PLACE] = (uint64_t)config->row_place;
    (void)machine;
    is->parameters[HEAP_BYTES] =
        config->string_bytes < MOST_HEAP_BYTES ? open_piece_of(config->string_bytes) : config->string_bytes;
    is->parameters[MOST_KEY_BYTES] = config->most_key_bytes;
    is->parameters[MOST_VALUE_BYTES] = config->most_value_bytes;
    if (variable & LOOM__VARIABLE_KEYS && config->most_key_bytes == 0)
        is->parameters[MOST_KEY_BYTES] = DEFAULT_MOST_KEY_BYTES;
    if (variable & LOOM__VARIABLE_VALUES && config->most_value_bytes == 0)
        is->parameters[MOST_VALUE_BYTES] = DEFAULT_MOST_VALUE_BYTES;
    RETURN_IF_FAILED(check_numbers(is, LOOM_INVALID_ARGUMENT));
    return loom__rows_choose_sized(config, kind_of(is), row_bytes_of(is) + value_bytes_of(is), is);
}

loom_status loom__rows_check_sized(const loom__description *is, uint32_t row_bytes)
{
    RETURN_IF_FAILED(loom__open_engine.check(is));
    RETURN_ERROR_IF(is->buckets > most_buckets(row_bytes), LOOM_BAD_FILE,
                    "the file speaks of partitions of %u buckets with rows of %u bytes, which no table has",
                    is->buckets, row_bytes);
    return LOOM_OK;
}

static loom_status check(const loom__description *is)
{
    RETURN_IF_FAILED(check_numbers(is, LOOM_BAD_FILE));
    return loom__rows_check_sized(is, row_bytes_of(is) + value_bytes_of(is));
}

/* ---- memory ---- */

static uint64_t heap_bytes(const loom__table *table)
{
    const uint64_t bytes = table->is.parameters[HEAP_BYTES];
    return bytes > LEAST_HEAP ? bytes : LEAST_HEAP;
}

static void add_rows(loom__table *table, loom__place place, loom__section section, uint32_t row_bytes)
{
    const uint64_t unit = table->is.buckets * rows_of_bucket(row_bytes);
    loom__table_add_region_at(table, place, section, table->is.partitions * unit, unit);
}

void loom__rows_add_region(loom__table *table, loom__place place, uint32_t row_bytes)
{
    add_rows(table, place, LOOM__SECTION_ROWS, row_bytes);
}

static void lay_out(loom__table *table)
{
    const int strings = kind_of(&table->is) == SLOT_STRING;
    loom__open_lay_out(table, kind_of(&table->is), strings ? sizeof(loom__string_totals) : 0);
    const loom__place place = place_of(&table->is);
    loom__rows_add_region(table, place, row_bytes_of(&table->is));
    if (is_apart(&table->is))
        add_rows(table, place, LOOM__SECTION_ROW_VALUES, value_bytes_of(&table->is));
    if (strings)
        loom__table_add_region_at(table, place, LOOM__SECTION_STRINGS, heap_bytes(table), HEAP_UNIT);
}

static void attach(loom__table *table)
{
    loom__rows_view *view = (loom__rows_view *)(void *)table->view;
    const loom__description *is = &table->is;
    unsigned char *more = loom__open_attach(table, kind_of(is));
    open_set_rows(view, variable_columns(is), loom__row_width(is->key_bytes), loom__row_width(is->value_bytes),
                  is_apart(is), table->regions[ROWS_REGION].memory, table->regions[ROWS_REGION + 1].memory);
    view->in_host_memory = place_of(is) == LOOM__PLACE_HOST;
    view->staging_bytes = table->row_staging;
    if (kind_of(is) != SLOT_STRING)
        return;
    view->heap = table->regions[ROWS_REGION + 1 + is_apart(is)].memory;
    view->heap_room = is->parameters[HEAP_BYTES];
    view->strings = (loom__string_totals *)(void *)more;
    view->most_key_bytes = (uint32_t)is->parameters[MOST_KEY_BYTES];
    view->most_value_bytes = (uint32_t)is->parameters[MOST_VALUE_BYTES];
}

/* ---- strings ---- */

/* Reads how many bytes of the heap were given out, and how many of them hold no string. */
static loom_status read_strings(loom__table *table, uint64_t *used, uint64_t *unused, loom_stream stream)
{
    const loom__rows_view *view = (const loom__rows_view *)(const void *)table->view;
    loom__string_totals totals;
    RETURN_IF_FAILED(table->machine->ops->read_table(table->machine, &totals, view->strings, sizeof totals, stream));
    *used = totals.used < view->heap_room ? totals.used : view->heap_room;
    *unused = 0;
    for (int i = 0; i < OPEN_UNUSED_COPIES; i++)
        *unused += totals.unused[i].bytes;
    return LOOM_OK;
}

static loom_status count_bytes(loom__table *table, uint64_t *used, uint64_t *live, loom_stream stream)
{
    uint64_t unused;
    *used = *live = 0;
    if (kind_of(&table->is) != SLOT_STRING)
        return LOOM_OK;
    RETURN_IF_FAILED(read_strings(table, used, &unused, stream));
    *live = unused < *used ? *used - unused : 0;
    return LOOM_OK;
}

/* Bytes of the heap behind its used part are undefined in memory, and zero in files. */
static loom_status used_bytes(loom__table *table, const loom__region *region, uint64_t *bytes, loom_stream stream)
{
    uint64_t live;
    *bytes = region->bytes;
    return region->section == LOOM__SECTION_STRINGS ? count_bytes(table, bytes, &live, stream) : LOOM_OK;
}

static void tell_config(const loom__table *table, loom_map_config *config)
{
    config->layout = is_apart(&table->is) ? LOOM_LAYOUT_APART : LOOM_LAYOUT_TOGETHER;
    config->row_place = (loom_row_place)table->is.parameters[ROW_PLACE];
    config->string_bytes = table->is.parameters[HEAP_BYTES];
    config->most_key_bytes = table->is.parameters[MOST_KEY_BYTES];
    config->most_value_bytes = table->is.parameters[MOST_VALUE_BYTES];
}

static void tell_stats(const loom__table *table, loom_stats *stats)
{
    stats->string_room = table->is.parameters[HEAP_BYTES];
}

static loom_status supports(loom__machine *machine, loom_type type, loom_feature feature)
{
    (void)type;
    return feature == LOOM_FEATURE_STRINGS ? LOOM_OK : machine->ops->supports(machine, feature);
}

static loom_status check_view(const loom__table *table, uint32_t access)
{
    const uint32_t value_bytes = table->is.value_bytes;
    RETURN_ERROR_IF(kind_of(&table->is) == SLOT_STRING, LOOM_UNSUPPORTED,
                    "tables with byte strings (LOOM_VARIABLE) have no device views; use the bulk calls");
    RETURN_ERROR_IF(access == LOOM_VIEW_ACCUMULATE && value_bytes != 4 && value_bytes != 8, LOOM_UNSUPPORTED,
                    "value_bytes = %u: only numbers of 4 or 8 bytes are accumulated", value_bytes);
    return LOOM_OK;
}

/* Lines wear as those of any open table. */
static uint64_t upkeep_after(const loom__table *table)
{
    return loom__open_engine.upkeep_after(table);
}

static loom_status zero_bytes(loom__machine *machine, unsigned char *memory, uint64_t bytes, loom_stream stream)
{
    static const unsigned char zeros[HEAP_UNIT];
    for (uint64_t at = 0; at < bytes; at += HEAP_UNIT) {
        const uint64_t part = bytes - at < HEAP_UNIT ? bytes - at : HEAP_UNIT;
        RETURN_IF_FAILED(machine->ops->write_table(machine, memory + at, zeros, (size_t)part, stream));
    }
    return LOOM_OK;
}

/* A survey that also tells whether pieces overlap: a bucket with one that does is bad. It takes 1 / 64 of the heap as
 * temporary memory. */
static loom_status survey_pieces(loom__table *table, loom__survey *survey, loom_stream stream)
{
    loom__rows_view *view = (loom__rows_view *)(void *)table->view;
    const loom_allocator *allocator = &table->machine->allocator;
    const uint64_t bytes = (view->heap_room / OPEN_PIECE_ALIGNMENT / 64 + 1) * sizeof *view->piece_map;
    loom_status status;
    view->piece_map = loom__allocate(allocator, (size_t)bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (view->piece_map == NULL)
        return LOOM_OUT_OF_MEMORY;
    status = zero_bytes(table->machine, (unsigned char *)view->piece_map, bytes, stream);
    if (status == LOOM_OK)
        status = loom__map_table_survey(table, survey, stream);
    loom__release(allocator, view->piece_map, (size_t)bytes, LOOM_MEMORY_TEMPORARY, stream);
    view->piece_map = NULL;
    return status;
}

/* Strings of a loaded table are counted by a survey. Two keys that share bytes would lose them together: overwriting
 * the one changes the other. */
static loom_status restored(loom__table *table, loom_stream stream)
{
    const loom__rows_view *view = (const loom__rows_view *)(const void *)table->view;
    loom__string_totals totals = {0};
    loom__survey survey;
    RETURN_IF_FAILED(loom__open_engine.restored(table, stream));
    if (kind_of(&table->is) != SLOT_STRING)
        return LOOM_OK;
    RETURN_IF_FAILED(table->machine->ops->write_table(table->machine, view->strings, &totals, sizeof totals, stream));
    RETURN_IF_FAILED(survey_pieces(table, &survey, stream));
    RETURN_ERROR_IF(survey.first_bad != UINT64_MAX, LOOM_BAD_FILE,
                    "the file holds no table with strings: in bucket %llu strings lie over others or outside of the "
                    "heap, or a key is out of place",
                    (unsigned long long)survey.first_bad);
    totals.used = survey.heap_end;
    totals.unused[0].bytes = survey.heap_end - survey.in_heap;
    return table->machine->ops->write_table(table->machine, view->strings, &totals, sizeof totals, stream);
}

const loom__engine loom__rows_engine = {
    .id = LOOM_ENGINE_ROWS,
    .name = "rows",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET | 1 << LOOM_TYPE_COUNTER,
    .layout_version = ROWS_LAYOUT_VERSION,
    .parameters = PARAMETERS,
    .options = LOOM__OPTION_STRINGS | LOOM__OPTION_LAYOUT | LOOM__OPTION_ROW_PLACE,
    .view_layout = LOOM_ROWS_VIEW_LAYOUT,
    .check_view = check_view,
    .most_values = (uint64_t)1 << 48,
    .supports = supports,
    .check_widths = check_widths,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .restored = restored,
    .upkeep_after = upkeep_after,
    .tell_config = tell_config,
    .tell_stats = tell_stats,
    .count_bytes = count_bytes,
    .used_bytes = used_bytes,
};
