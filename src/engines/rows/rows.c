/* The rows engine as the core sees it: maps, sets and counters whose keys have 1 to 256 bytes and whose values have up
 * to 65,536.
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
 * of SLOT_TAG. A lookup reads a line of tags, and then the row of a key that is found. An absent key costs no row.
 * Simulated: 1.02, 1.06 and 1.11 lines for a present key and 1.01, 1.04 and 1.09 for an absent one at load 0.8, 0.9 and
 * 0.95.
 *
 * An entry takes 2.29 bytes of the lines and its row, both divided by the load factor: 16 + 8 bytes at load 0.8 take
 * 32.9 bytes.
 *
 * Partitions have as many slots as the load factor needs (open_shape.c), but otherwise no more than ROWS_CACHED_BYTES
 * hold: a thread fills one partition, lines and rows, in its L2 cache. Rows of more than some 600 bytes pass that. */
#include "engines/rows/rows.h"
#include "core/error.h"
#include "core/table.h"
#include "engines/open/open.h"
#include "engines/open/open_rows.h"

enum {
    ROWS_LAYOUT_VERSION = 1,
    ROWS_MOST_KEY_BYTES = 256,
    ROWS_MOST_VALUE_BYTES = 65536,
    ROWS_CACHED_BYTES = 1 << 19,    /* half of a server core's L2 cache */
    ROWS_MOST_UNIT_BYTES = 1 << 30, /* rows of a partition: read, checked and written together */
    ROWS_REGION = 2                 /* behind the lines and the state */
};

_Static_assert(sizeof(loom__rows_view) <= LOOM__VIEW_WORDS * sizeof(uint64_t), "a table has room for its view");

/* ---- shape ---- */

static uint64_t rows_of_bucket(const loom__description *is)
{
    return (uint64_t)open_slots(SLOT_TAG) * open_row_bytes(is->key_bytes, is->value_bytes);
}

static loom_status check_widths(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status)
{
    RETURN_ERROR_IF(key_bytes < 1 || key_bytes > ROWS_MOST_KEY_BYTES, status, "key_bytes = %u: keys have 1 to %d bytes",
                    key_bytes, ROWS_MOST_KEY_BYTES);
    RETURN_ERROR_IF(type == LOOM_TYPE_MAP && (value_bytes < 1 || value_bytes > ROWS_MOST_VALUE_BYTES), status,
                    "value_bytes = %u: values have 1 to %d bytes (for keys alone: LOOM_TYPE_SET)", value_bytes,
                    ROWS_MOST_VALUE_BYTES);
    RETURN_ERROR_IF(type == LOOM_TYPE_COUNTER && value_bytes != 4 && value_bytes != 8, status,
                    "value_bytes = %u: counts have 4 or 8 bytes", value_bytes);
    return LOOM_OK;
}

static uint32_t most_buckets(const loom__description *is)
{
    const uint64_t fitting = ROWS_MOST_UNIT_BYTES / rows_of_bucket(is);
    return fitting < OPEN_MOST_BUCKETS ? (uint32_t)fitting : OPEN_MOST_BUCKETS;
}

static loom_status choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    const loom_map_config *config = any_config;
    const uint64_t cached = ROWS_CACHED_BYTES / (OPEN_LINE_BYTES + rows_of_bucket(is));
    (void)machine;
    RETURN_ERROR_IF(config->buckets_per_partition > most_buckets(is), LOOM_INVALID_ARGUMENT,
                    "buckets_per_partition = %u: with rows of this width a partition has at most %u",
                    config->buckets_per_partition, most_buckets(is));
    return loom__open_choose_sized(config, SLOT_TAG, most_buckets(is), cached > 0 ? (uint32_t)cached : 1, is);
}

static loom_status check(const loom__description *is)
{
    RETURN_IF_FAILED(loom__open_engine.check(is));
    RETURN_ERROR_IF(is->buckets > most_buckets(is), LOOM_BAD_FILE,
                    "the file speaks of partitions of %u buckets with rows of %u bytes, which no table has",
                    is->buckets, open_row_bytes(is->key_bytes, is->value_bytes));
    return LOOM_OK;
}

/* ---- memory ---- */

static void lay_out(loom__table *table)
{
    const uint64_t unit = table->is.buckets * rows_of_bucket(&table->is);
    loom__open_lay_out(table, SLOT_TAG, 0);
    loom__table_add_region(table, LOOM__SECTION_ROWS, table->is.partitions * unit, unit);
}

static void attach(loom__table *table)
{
    loom__rows_view *view = (loom__rows_view *)(void *)table->view;
    const uint32_t key_bytes = table->is.key_bytes, value_bytes = table->is.value_bytes;
    (void)loom__open_attach(table, SLOT_TAG);
    view->rows = table->regions[ROWS_REGION].memory;
    view->key_bytes = key_bytes;
    view->value_bytes = value_bytes;
    view->row_bytes = open_row_bytes(key_bytes, value_bytes);
    view->value_offset = open_row_value_offset(key_bytes, value_bytes);
}

/* Lines wear as those of any open table. */
static uint64_t upkeep_after(const loom__table *table)
{
    return loom__open_engine.upkeep_after(table);
}

static loom_status restored(loom__table *table, loom_stream stream)
{
    return loom__open_engine.restored(table, stream);
}

const loom__engine loom__rows_engine = {
    .id = LOOM_ENGINE_ROWS,
    .name = "rows",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET | 1 << LOOM_TYPE_COUNTER,
    .layout_version = ROWS_LAYOUT_VERSION,
    .check_widths = check_widths,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .restored = restored,
    .upkeep_after = upkeep_after,
};
