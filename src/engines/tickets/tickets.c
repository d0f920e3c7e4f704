/* The ticket engine as the core sees it: maps, sets and counters whose rows, of any width, have a ticket each on a dense
 * board. The layout is in ticket_layout.h, the algorithms and their invariants in ticket_ops.h, the order of worn
 * partitions in ticket_upkeep.h.
 *
 * A table takes more keys than its capacity until one finds no ticket within its reach. Partitions of up to TICKET_REACH
 * slots are then full to the last slot, as the whole table of the paper may be; larger ones to 0.99 or so.
 *
 * A slot takes its row and ticket_bits + 1 bits of the board: 1.14 bytes for tickets of 8 bits. Tables of the rows
 * engine, whose lines of tags are a board, too, take 2.29 bytes and read fewer rows in vain. */
#include "engines/tickets/tickets.h"
#include "core/error.h"
#include "core/partitions.h"
#include "engines/open/open.h"
#include "engines/rows/rows.h"
#include "engines/tickets/ticket_layout.h"

#include <math.h>

enum {
    TICKETS_LAYOUT_VERSION = 1,
    TICKETS_CACHED_BYTES = 1 << 19,    /* of a partition: half of a server core's L2 cache */
    TICKETS_MOST_UNIT_BYTES = 1 << 30, /* rows of a partition: read, checked and written together */
    TICKETS_LEAST_SLOTS = 17,          /* of a partition: with fewer, a table that takes all keys is far too large */
    TICKETS_MOST_SLOTS = 65521,        /* the largest prime below 2^16 */
    TICKETS_LEAST_CACHED = 1009,       /* slots of a partition, though its rows pass the cache: fewer fill unevenly */
    LEAST_PARTITIONS = 2,              /* as other tables */
    TICKETS_MOST_PARTITIONS = 1 << 28, /* likewise */
    DEFAULT_TICKET_BITS = 8,
    BOARD_REGION = 0,
    ROWS_REGION = 2 /* behind the board and the state */
};

/* The parameters of a table. ROW_PLACE is a loom_row_place. */
enum { TICKET_BITS, ROW_PLACE, PARAMETERS };

_Static_assert(sizeof(loom__ticket_view) <= LOOM__VIEW_WORDS * sizeof(uint64_t), "a table has room for its view");

/* ---- shape ---- */

static loom_status check_widths(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status)
{
    RETURN_ERROR_IF(key_bytes == LOOM_VARIABLE || value_bytes == LOOM_VARIABLE,
                    status == LOOM_INVALID_ARGUMENT ? LOOM_UNSUPPORTED : status,
                    "LOOM_VARIABLE: tables of the tickets engine have no byte strings; the rows engine has");
    return loom__rows_engine.check_widths(type, key_bytes, value_bytes, status);
}

static uint32_t row_bytes_of(const loom__description *is)
{
    return open_row_bytes(is->key_bytes, is->value_bytes);
}

/* Checks the parameters, of a config or a file. */
static loom_status check_numbers(const loom__description *is, loom_status status)
{
    const uint64_t bits = is->parameters[TICKET_BITS], place = is->parameters[ROW_PLACE];
    RETURN_ERROR_IF(bits != 1 && bits != 2 && bits != 4 && bits != 8, status,
                    "ticket_bits = %llu: tickets have 1, 2, 4 or 8 bits", (unsigned long long)bits);
    RETURN_ERROR_IF(place > LOOM_ROWS_IN_HOST_MEMORY, status,
                    "row_place = %llu is not known to this version; it is LOOM_ROWS_ON_DEVICE or "
                    "LOOM_ROWS_IN_HOST_MEMORY",
                    (unsigned long long)place);
    return LOOM_OK;
}

static uint32_t most_slots(uint32_t row_bytes)
{
    const uint32_t fitting = TICKETS_MOST_UNIT_BYTES / row_bytes;
    return fitting < TICKETS_MOST_SLOTS ? fitting : TICKETS_MOST_SLOTS;
}

static int is_slot_count(uint32_t slots, uint32_t row_bytes)
{
    return slots >= TICKETS_LEAST_SLOTS && slots <= most_slots(row_bytes) && loom__open_is_prime(slots);
}

static uint32_t prime_from(double number)
{
    uint32_t prime = number > TICKETS_LEAST_SLOTS ? (uint32_t)number : TICKETS_LEAST_SLOTS;
    while (!loom__open_is_prime(prime))
        prime++;
    return prime;
}

/* Slots of a partition: as many as the cache holds, so that a thread fills a partition there. A table of fewer slots has
 * two partitions, with as many slots as surely take the keys that may fall into each. */
static uint32_t choose_slots(const loom_map_config *config, uint32_t row_bytes)
{
    const double keys = (double)config->capacity, load = config->max_load, most = most_slots(row_bytes);
    const double cached = fmin(most, fmax(TICKETS_LEAST_CACHED, TICKETS_CACHED_BYTES / (row_bytes + 1)));
    uint32_t slots = prime_from(fmin(ceil(keys / load / LEAST_PARTITIONS), cached));
    while (slots < cached &&
           loom__partitions_needed(keys, load, slots, slots, LEAST_PARTITIONS, LEAST_PARTITIONS) > LEAST_PARTITIONS)
        slots = prime_from(slots + slots / 64 + 1);
    while (slots > most || !loom__open_is_prime(slots)) /* the next prime may be too large for a row's width */
        slots--;
    return slots;
}

static loom_status choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    const loom_map_config *config = any_config;
    const uint32_t row_bytes = row_bytes_of(is), asked = config->buckets_per_partition;
    (void)machine;
    is->parameters[TICKET_BITS] = config->ticket_bits != 0 ? config->ticket_bits : DEFAULT_TICKET_BITS;
    is->parameters[ROW_PLACE] = (uint64_t)config->row_place;
    RETURN_IF_FAILED(check_numbers(is, LOOM_INVALID_ARGUMENT));
    RETURN_ERROR_IF(asked != 0 && !is_slot_count(asked, row_bytes), LOOM_INVALID_ARGUMENT,
                    "buckets_per_partition = %u: it is 0 or a prime from %d to %u, the slots of a partition", asked,
                    TICKETS_LEAST_SLOTS, most_slots(row_bytes));
    const uint32_t slots = asked != 0 ? asked : choose_slots(config, row_bytes);
    const double partitions = loom__partitions_needed((double)config->capacity, config->max_load, slots, slots,
                                                      LEAST_PARTITIONS, TICKETS_MOST_PARTITIONS);
    RETURN_ERROR_IF(partitions > TICKETS_MOST_PARTITIONS, LOOM_INVALID_ARGUMENT,
                    "capacity %llu is beyond what a table of the tickets engine can address; split the keys over "
                    "several tables",
                    (unsigned long long)config->capacity);
    is->partitions = (uint32_t)partitions;
    is->buckets = slots;
    return LOOM_OK;
}

static loom_status check(const loom__description *is)
{
    RETURN_IF_FAILED(check_numbers(is, LOOM_BAD_FILE));
    RETURN_ERROR_IF(is->partitions < LEAST_PARTITIONS || is->partitions > TICKETS_MOST_PARTITIONS ||
                        !is_slot_count(is->buckets, row_bytes_of(is)),
                    LOOM_BAD_FILE, "the file speaks of %u partitions of %u rows, which no table of tickets has",
                    is->partitions, is->buckets);
    return LOOM_OK;
}

/* ---- memory ---- */

static void lay_out(loom__table *table)
{
    loom__ticket_view view;
    const uint64_t partitions = table->is.partitions, rows = table->is.buckets * (uint64_t)row_bytes_of(&table->is);
    ticket_set_board(&view, (uint32_t)table->is.parameters[TICKET_BITS], table->is.buckets);
    table->slots_per_bucket = 1;
    loom__table_add_region(table, LOOM__SECTION_PARTITIONS, partitions * view.partition_words * sizeof(uint64_t),
                           view.partition_words * sizeof(uint64_t));
    loom__table_add_state(table, partitions * sizeof(uint32_t));
    loom__table_add_region_at(
        table, table->is.parameters[ROW_PLACE] == LOOM_ROWS_IN_HOST_MEMORY ? LOOM__PLACE_HOST : LOOM__PLACE_DEVICE,
        LOOM__SECTION_ROWS, partitions * rows, rows);
}

static void attach(loom__table *table)
{
    const loom__description *is = &table->is;
    loom__ticket_view *view = (loom__ticket_view *)(void *)table->view;
    *view = (loom__ticket_view){.partitions = is->partitions, .seed = loom__seed_expand(is->seed)};
    ticket_set_board(view, (uint32_t)is->parameters[TICKET_BITS], is->buckets);
    ticket_set_rows(view, is->key_bytes, is->value_bytes, table->regions[ROWS_REGION].memory);
    if (is->parameters[ROW_PLACE] == LOOM_ROWS_IN_HOST_MEMORY)
        view->word_values = 0;
    view->board = (uint64_t *)(void *)table->regions[BOARD_REGION].memory;
    view->totals = table->totals;
    view->depths = (uint32_t *)(void *)loom__table_state(table);
}

static void tell_config(const loom__table *table, loom_map_config *config)
{
    config->ticket_bits = (uint32_t)table->is.parameters[TICKET_BITS];
    config->row_place = (loom_row_place)table->is.parameters[ROW_PLACE];
}

/* Erased keys leave retired tickets, which searches pass. */
static uint64_t upkeep_after(const loom__table *table)
{
    return loom__table_slots_in_all(table) / 16 + 1;
}

/* Files hold retired tickets, and do not tell how many. The next call that may wear partitions looks. */
static loom_status restored(loom__table *table, loom_stream stream)
{
    (void)stream;
    table->worn = upkeep_after(table);
    return LOOM_OK;
}

const loom__engine loom__tickets_engine = {
    .id = LOOM_ENGINE_TICKETS,
    .name = "tickets",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET | 1 << LOOM_TYPE_COUNTER,
    .layout_version = TICKETS_LAYOUT_VERSION,
    .parameters = PARAMETERS,
    .options = LOOM__OPTION_ROW_PLACE | LOOM__OPTION_TICKETS,
    .check_widths = check_widths,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .restored = restored,
    .upkeep_after = upkeep_after,
    .tell_config = tell_config,
};
