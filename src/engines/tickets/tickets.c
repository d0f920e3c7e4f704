/* The ticket engine as the core sees it: maps, sets and counters whose rows, of any width, have a ticket each on a dense
 * board. The layout is in ticket_layout.h, the algorithms and their invariants in ticket_ops.h, the order of worn
 * partitions in ticket_upkeep.h.
 *
 * An entry takes its row and ticket_bits + 1 bits of the board, divided by the load factor: 1.1 bytes for tickets of 8
 * bits. Tables of the rows engine, whose lines of tags are a board, too, take 2.3 bytes and read fewer rows in vain. */
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
    TICKETS_MOST_SLOTS = 65521,        /* the largest prime below 2^16 */
    TICKETS_LEAST_CACHED = 1009,       /* slots of a partition, though its rows pass the cache: fewer fill unevenly */
    TICKETS_MOST_PARTITIONS = 1 << 30,
    BOARD_REGION = 0,
    ROWS_REGION = 2 /* behind the board and the state */
};

enum { TICKET_BITS, PARAMETERS };

_Static_assert(sizeof(loom__ticket_view) <= LOOM__VIEW_WORDS * sizeof(uint64_t), "a table has room for its view");

/* ---- shape ---- */

static loom_status check_widths(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status)
{
    RETURN_ERROR_IF(key_bytes == LOOM_VARIABLE || value_bytes == LOOM_VARIABLE, status,
                    "LOOM_VARIABLE: tables of the tickets engine have no byte strings; the rows engine has");
    return loom__rows_engine.check_widths(type, key_bytes, value_bytes, status);
}

static uint32_t row_bytes_of(const loom__description *is)
{
    return open_row_bytes(is->key_bytes, is->value_bytes);
}

static int is_ticket_width(uint64_t bits)
{
    return bits == 1 || bits == 2 || bits == 4 || bits == 8;
}

static uint32_t most_slots(uint32_t row_bytes)
{
    const uint32_t fitting = TICKETS_MOST_UNIT_BYTES / row_bytes;
    return fitting < TICKETS_MOST_SLOTS ? fitting : TICKETS_MOST_SLOTS;
}

static uint32_t prime_from(double number)
{
    uint32_t prime = number > 2 ? (uint32_t)number : 2;
    while (!loom__open_is_prime(prime))
        prime++;
    return prime;
}

/* Slots of a partition: as many as the cache holds, so that a thread fills a partition there. A table of fewer has one
 * partition. */
static uint32_t choose_slots(const loom_map_config *config, uint32_t row_bytes)
{
    const double all = ceil((double)config->capacity / config->max_load), most = most_slots(row_bytes);
    const double cached = fmin(most, fmax(TICKETS_LEAST_CACHED, TICKETS_CACHED_BYTES / (row_bytes + 1)));
    uint32_t slots = prime_from(fmin(all, cached));
    while (slots > most || !loom__open_is_prime(slots)) /* the next prime may be too large for a row's width */
        slots--;
    return slots;
}

loom_status loom__tickets_choose(const loom_map_config *config, uint32_t ticket_bits, loom__description *is)
{
    const uint32_t row_bytes = row_bytes_of(is), asked = config->buckets_per_partition;
    RETURN_ERROR_IF(asked != 0 && (asked > most_slots(row_bytes) || !loom__open_is_prime(asked)), LOOM_INVALID_ARGUMENT,
                    "buckets_per_partition = %u: it is 0 or a prime up to %u, rows of a partition", asked,
                    most_slots(row_bytes));
    const uint32_t slots = asked != 0 ? asked : choose_slots(config, row_bytes);
    const double partitions =
        loom__partitions_needed((double)config->capacity, config->max_load, slots, slots, 1, TICKETS_MOST_PARTITIONS);
    RETURN_ERROR_IF(partitions > TICKETS_MOST_PARTITIONS, LOOM_INVALID_ARGUMENT,
                    "capacity %llu is beyond what a table of the tickets engine can address; split the keys over "
                    "several tables",
                    (unsigned long long)config->capacity);
    is->partitions = (uint32_t)partitions;
    is->buckets = slots;
    is->parameters[TICKET_BITS] = ticket_bits;
    return LOOM_OK;
}

static loom_status choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    (void)machine;
    return loom__tickets_choose(any_config, TICKET_DEFAULT_BITS, is);
}

static loom_status check(const loom__description *is)
{
    RETURN_ERROR_IF(!is_ticket_width(is->parameters[TICKET_BITS]), LOOM_BAD_FILE,
                    "the file speaks of tickets of %llu bits, which no table has",
                    (unsigned long long)is->parameters[TICKET_BITS]);
    RETURN_ERROR_IF(is->partitions < 1 || is->partitions > TICKETS_MOST_PARTITIONS ||
                        is->buckets > most_slots(row_bytes_of(is)) || !loom__open_is_prime(is->buckets),
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
    loom__table_add_region(table, LOOM__SECTION_ROWS, partitions * rows, rows);
}

static void attach(loom__table *table)
{
    const loom__description *is = &table->is;
    loom__ticket_view *view = (loom__ticket_view *)(void *)table->view;
    *view = (loom__ticket_view){.partitions = is->partitions, .seed = loom__seed_expand(is->seed)};
    ticket_set_board(view, (uint32_t)is->parameters[TICKET_BITS], is->buckets);
    ticket_set_rows(view, is->key_bytes, is->value_bytes, table->regions[ROWS_REGION].memory);
    view->board = (uint64_t *)(void *)table->regions[BOARD_REGION].memory;
    view->totals = table->totals;
    view->depths = (uint32_t *)(void *)loom__table_state(table);
}

/* Erased keys leave retired tickets, which searches pass. */
static uint64_t upkeep_after(const loom__table *table)
{
    return loom__table_slots_in_all(table) / 16 + 1;
}

const loom__engine loom__tickets_engine = {
    .id = LOOM__ENGINE_TICKETS,
    .name = "tickets",
    .types = 1 << LOOM_TYPE_MAP | 1 << LOOM_TYPE_SET | 1 << LOOM_TYPE_COUNTER,
    .layout_version = TICKETS_LAYOUT_VERSION,
    .parameters = PARAMETERS,
    .check_widths = check_widths,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .upkeep_after = upkeep_after,
};
