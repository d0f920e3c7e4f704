#include "table_cases.h"

#include <string.h>

/* ---- Forms --------------------------------------------------------------------------------------------- */

/* The forms of maps, sets and counters of 4 and 8 bytes, and those of multimaps. */
#define MAP_FORMS                                                                                                      \
    {LOOM_TYPE_MAP, 4, 4}, {LOOM_TYPE_MAP, 8, 8}, {LOOM_TYPE_MAP, 4, 8}, {LOOM_TYPE_MAP, 8, 4}, {LOOM_TYPE_SET, 4, 0}, \
        {LOOM_TYPE_SET, 8, 0}, {LOOM_TYPE_COUNTER, 4, 4}, {LOOM_TYPE_COUNTER, 8, 8}, {LOOM_TYPE_COUNTER, 4, 8},        \
    {                                                                                                                  \
        LOOM_TYPE_COUNTER, 8, 4                                                                                        \
    }
/* Multimaps have all widths. 16 + 12 bytes stand for all but 4 and 8; tests/test_multimap_widths.c has others. */
#define MULTIMAP_FORMS                                                                                              \
    {LOOM_TYPE_MULTIMAP, 4, 4}, {LOOM_TYPE_MULTIMAP, 8, 8}, {LOOM_TYPE_MULTIMAP, 4, 8}, {LOOM_TYPE_MULTIMAP, 8, 4}, \
    {                                                                                                               \
        LOOM_TYPE_MULTIMAP, 16, 12                                                                                  \
    }

static const table_form open_forms[] = {MAP_FORMS, MULTIMAP_FORMS, {LOOM_TYPE_DEFAULT, 0, 0}};
static const table_form chain_forms[] = {MULTIMAP_FORMS, {LOOM_TYPE_DEFAULT, 0, 0}};
static const table_form perfect_forms[] = {MAP_FORMS, {LOOM_TYPE_DEFAULT, 0, 0}};
/* The rows engine has all widths. The list has those that the tests of every engine know; tests/test_rows_widths.c has
 * others. */
static const table_form rows_forms[] = {MAP_FORMS, {LOOM_TYPE_DEFAULT, 0, 0}};
/* Rows in host memory: few forms, since the cpu machine does with them what it does with other rows. */
static const table_form stadium_forms[] = {
    {LOOM_TYPE_MAP, 8, 8}, {LOOM_TYPE_SET, 8, 0}, {LOOM_TYPE_COUNTER, 8, 8}, {LOOM_TYPE_DEFAULT, 0, 0}};
/* The same algorithms at all widths, as in the rows engine: few forms. tests/test_rows_widths.c has others. */
static const table_form ticket_forms[] = {
    {LOOM_TYPE_MAP, 8, 8}, {LOOM_TYPE_SET, 4, 0}, {LOOM_TYPE_COUNTER, 8, 8}, {LOOM_TYPE_DEFAULT, 0, 0}};
/* Filters have keys of all widths. 16 bytes stand for all widths but 4 and 8; tests/test_filter_widths.c has others. */
static const table_form filter_forms[] = {
    {LOOM_TYPE_FILTER, 4, 0}, {LOOM_TYPE_FILTER, 8, 0}, {LOOM_TYPE_FILTER, 16, 0}, {LOOM_TYPE_DEFAULT, 0, 0}};

/* ---- Partition sizes ------------------------------------------------------------------------------------ */

/* Open tables: the next prime, up to 3499. */
static uint32_t prime_size(uint32_t about)
{
    for (uint32_t size = about < 2 ? 2 : about; size < 3499; size++) {
        uint32_t divisor = 2;
        while (divisor * divisor <= size && size % divisor != 0)
            divisor++;
        if (divisor * divisor > size)
            return size;
    }
    return 3499;
}

/* Tables of tickets: a slot has the place of a bucket, and a partition has at least 17. Seven slots make a bucket of an
 * open table. */
static uint32_t prime_of_slots(uint32_t about)
{
    return prime_size(7 * about < 17 ? 17 : 7 * about);
}

/* Perfect tables: a stash bucket and a multiple of eight, up to 3497. */
static uint32_t eights_and_one(uint32_t about)
{
    const uint32_t size = about / 8 * 8 + 9;
    return size < 3497 ? size : 3497;
}

/* ---- The list ------------------------------------------------------------------------------------------- */

static const table_case own_cases[] = {
    {.name = "open",
     .engine = LOOM_ENGINE_OPEN,
     .forms = open_forms,
     .largest_load = 0.95,
     .partition_size = prime_size,
     .golden_map_capacity = 360,
     .golden_set_capacity = 300}, /* fewer than the keys inserted, so that some are displaced */
    {.name = "perfect",
     .engine = LOOM_ENGINE_PERFECT,
     .forms = perfect_forms,
     .largest_load = 0.95,
     .partition_size = eights_and_one,
     .one_access = 1,
     .order_without_memory = 1,
     .golden_map_capacity = 250, /* even fewer, so that cells have many different codes */
     .golden_set_capacity = 250},
    {.name = "chain",
     .engine = LOOM_ENGINE_CHAIN,
     .forms = chain_forms,
     .largest_load = 0.95,
     .partition_size = prime_size},
    {.name = "rows",
     .engine = LOOM_ENGINE_ROWS,
     .forms = rows_forms,
     .largest_load = 0.95,
     .partition_size = prime_size,
     .golden_map_capacity = 190, /* small partitions, so that some keys are displaced */
     .golden_set_capacity = 190,
     .since_format_2 = 1},
    {.name = "stadium",
     .engine = LOOM_ENGINE_ROWS,
     .row_place = LOOM_ROWS_IN_HOST_MEMORY,
     .forms = stadium_forms,
     .largest_load = 0.95,
     .partition_size = prime_size,
     .golden_map_capacity = 190,
     .golden_set_capacity = 190,
     .since_format_2 = 1},
    {.name = "tickets",
     .engine = LOOM_ENGINE_TICKETS,
     .forms = ticket_forms,
     .largest_load = 0.95,
     .partition_size = prime_of_slots,
     .golden_map_capacity = 340,
     .golden_set_capacity = 340,
     .since_format_2 = 1},
    {.name = "bloom", .engine = LOOM_ENGINE_BLOOM, .forms = filter_forms, .one_access = 1},
};

enum { OWN_CASES = sizeof own_cases / sizeof *own_cases, MOST_ADDED = 8 };

static const table_case *added_cases[MOST_ADDED];
static size_t added_count;

const table_case *table_case_at(size_t index)
{
    if (index < OWN_CASES)
        return &own_cases[index];
    return index - OWN_CASES < added_count ? added_cases[index - OWN_CASES] : NULL;
}

int table_case_add(const table_case *added)
{
    if (added_count == MOST_ADDED || table_case_find(added->name))
        return 0;
    added_cases[added_count++] = added;
    return 1;
}

const table_case *table_case_find(const char *name)
{
    const table_case *c;
    for (size_t i = 0; (c = table_case_at(i)) != NULL && strcmp(c->name, name) != 0;)
        i++;
    return c;
}

const table_case *table_case_of(loom_engine engine, loom_row_place place)
{
    const table_case *c;
    for (size_t i = 0; (c = table_case_at(i)) != NULL && (c->engine != engine || c->row_place != place);)
        i++;
    return c;
}

const table_case *table_case_default(loom_type type)
{
    const table_case *c;
    for (size_t i = 0; (c = table_case_at(i)) != NULL && !table_case_has(c, type);)
        i++;
    return c;
}

int table_case_has(const table_case *c, loom_type type)
{
    const table_form *form = c->forms;
    while (form->type && form->type != type)
        form++;
    return form->type != LOOM_TYPE_DEFAULT;
}

uint32_t table_case_partition_size(const table_case *c, uint32_t about)
{
    return about && c->partition_size ? c->partition_size(about) : 0;
}

const char *table_type_name(loom_type type)
{
    static const char *const names[] = {"default", "map", "set", "counter", "filter", "multimap"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : "unknown";
}
