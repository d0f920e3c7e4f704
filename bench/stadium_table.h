/* A table that `loom bench stadium --figure` measures: a map of the library, or the cuckoo reference. The same calls for
 * both; arrays lie where the machine works. */
#ifndef STADIUM_TABLE_H
#define STADIUM_TABLE_H

#include "bench_case.h"
#include "cuckoo_reference.h"

/* In the order of the rows of a figure. The reference comes first: the others are compared with it. */
typedef enum stadium_kind {
    STADIUM_CUCKOO,
    STADIUM_TICKETS_1, /* bits of a ticket */
    STADIUM_TICKETS_2,
    STADIUM_TICKETS_4,
    STADIUM_TICKETS_8,
    STADIUM_ROWS, /* lines of tags of 16 bits */
    STADIUM_OPEN, /* keys in the table itself: no board */
    STADIUM_KINDS
} stadium_kind;

/* What is asked of a table. */
typedef struct stadium_form {
    stadium_kind kind;
    loom_row_place place;
    uint32_t key_bytes, value_bytes;
    uint64_t n; /* keys */
    double load;
} stadium_form;

typedef struct stadium_table {
    bench_session *session;
    stadium_form form;
    loom_map *map;        /* NULL: the reference */
    cuckoo_table *cuckoo; /* NULL: a map */
    uint64_t slots;
    char why[192]; /* a sentence about the last failure */
} stadium_table;

/* Creates an empty table that does not grow. UNSUPPORTED: this machine has no such table. */
loom_status stadium_table_make(bench_session *session, const stadium_form *form, stadium_table *table);
void stadium_table_free(stadium_table *table);

/* OK, or UNSUPPORTED. */
loom_status stadium_table_offers(stadium_table *table, loom_feature feature);

/* Calls. A failed one leaves its sentence in `why`.
 *   keys      [n], different ones; insertions and apply: those that are inserted are absent
 *   found     [n] of value_bytes; 0 for absent keys
 *   status    [n]: LOOM_OK or LOOM_NOT_FOUND
 *   operations
 *             [n]: LOOM_APPLY_INSERT or LOOM_APPLY_FIND. No key of a batch has both: the reference inserts first, and a
 *             map chooses the order */
loom_status stadium_clear(stadium_table *table);
loom_status stadium_insert(stadium_table *table, const void *keys, const void *values, uint64_t n);
loom_status stadium_find(stadium_table *table, const void *keys, uint64_t n, void *found);
loom_status stadium_erase(stadium_table *table, const void *keys, uint64_t n, uint8_t *status);
loom_status stadium_apply(stadium_table *table, const uint8_t *operations, const void *keys, const void *values,
                          uint64_t n, void *found);
loom_status stadium_size(stadium_table *table, uint64_t *size);

/* A row of the files for an operation on this table. */
bench_row stadium_row(const stadium_form *form, const bench_session *session, const char *op);

#endif
