/* The list of cases: the tables that hashloom has, one entry for each engine. The differential tests, `loom bench` and
 * `loom tour` go over this list: one entry of table_cases.c adds an engine to all three.
 *
 * An entry says what cannot be asked at run time. loom_supports says what a table offers on a machine. This header uses
 * only the public header, since the tool is built on that alone. */
#ifndef TABLE_CASES_H
#define TABLE_CASES_H

#include <loom/loom.h>
#include <stddef.h>
#include <stdint.h>

/* One type of table with one pair of widths. */
typedef struct table_form {
    loom_type type;
    uint32_t key_bytes;
    uint32_t value_bytes; /* 0: keys only */
} table_form;

typedef struct table_case {
    const char *name; /* loom bench --engine NAME, loom tour --engine NAME, test_NAME_… */
    loom_engine engine;
    loom_row_place row_place;
    const table_form *forms; /* all forms of the engine, grouped by type, ended by a type of 0 */
    double largest_load;     /* highest loom_map_config.max_load; filters: 0 */
    /* A valid loom_map_config.buckets_per_partition near `about`. NULL: the library chooses. */
    uint32_t (*partition_size)(uint32_t about);
    int one_access; /* every lookup reads exactly one bucket, at the cost of loom_stats.code_bytes */

    /* For the tests. */
    int order_without_memory;     /* LOOM_IN_ORDER inserts succeed without temporary memory */
    uint64_t golden_map_capacity; /* of the golden files in tests/data; 0: none */
    uint64_t golden_set_capacity;
    int since_format_2; /* the engine has no golden files of format 1 */
    int partial;        /* lacks operations of its types: only tests that ask loom_supports run for it */
} table_case;

/* In the order of the list; NULL after the last. LOOM_ENGINE_DEFAULT means the first case that has the type. */
const table_case *table_case_at(size_t index);
const table_case *table_case_find(const char *name);                       /* NULL: none */
const table_case *table_case_of(loom_engine engine, loom_row_place place); /* never LOOM_ENGINE_DEFAULT; NULL: none */
const table_case *table_case_default(loom_type type);

int table_case_has(const table_case *c, loom_type type);

/* A loom_map_config.buckets_per_partition that the engine accepts, near `about`; 0 stays 0. */
uint32_t table_case_partition_size(const table_case *c, uint32_t about);

/* "map", "set", "counter", "filter", "multimap". */
const char *table_type_name(loom_type type);

/* Appends a case for an engine that the program registers itself. Call it before the first use of the list, from one
 * thread; `added` must stay valid. 0: its name is taken or the list is full. */
int table_case_add(const table_case *added);

#endif
