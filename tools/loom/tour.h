/* The internals of the tour. For each case of the list (cases/table_cases.h) it runs every operation, on one table
 * (tour_read.c, tour_write.c, tour_whole.c; filters: tour_filter.c; multimaps: tour_multi.c) or on small tables of its
 * own (tour_small.c). It
 * checks each answer against a plain reference (tour_check.c) and prints a table of results (cmd_tour.c).
 *
 * The reference is an array by key index (bench_keys.h). It holds the round whose value the key has, or TOUR_ABSENT. */
#ifndef TOUR_H
#define TOUR_H

#include <loom/loom.h>
#include <stdbool.h>
#include <stdint.h>

#include "table_cases.h"

enum { TOUR_ABSENT = 0xff };

/* What one operation did on one table. */
typedef struct tour_cell {
    uint64_t operations;
    double seconds;  /* 0: no rate */
    char wrong[200]; /* "": all answers were right */
} tour_cell;

typedef struct tour {
    loom_context *context;
    const table_case *table;
    loom_type type;
    loom_map *map;                   /* unless the type is LOOM_TYPE_FILTER */
    loom_filter *filter;             /* if the type is LOOM_TYPE_FILTER */
    uint32_t key_bytes, value_bytes; /* value_bytes is 0 in sets and filters, and arrays of values are NULL */
    uint64_t n;                      /* keys that the table is made for: indices 0 to n - 1 */
    uint8_t *rounds;                 /* [2n] the reference; indices from n on are always absent */
    void *all_keys;                  /* [2n] by index */
    uint8_t *seen;                   /* [n] scratch */
    uint64_t seed;                   /* of the hash of `map` */
    const char *directory;           /* for files */

    /* Multimaps. Their reference is not `rounds`. */
    uint64_t lists;    /* keys that may have values: indices 0 to lists - 1 */
    uint16_t *numbers; /* [2 * lists] a bit for each value of the key; the second half is scratch */
    uint64_t *offsets; /* [lists + 1] */

    /* The current batch and its answers; all [n]. */
    void *keys, *values;
    uint8_t *batch_rounds;
    void *found_values;
    uint8_t *status, *found;

    loom_status created; /* outcome of making `map` and the arrays */
    char trouble[200];   /* why, if not LOOM_OK */
    tour_cell *cell;     /* of the current operation */
    uint64_t answers;    /* checked so far */
} tour;

typedef struct tour_step {
    const char *name;
    void (*run)(tour *t);
    loom_feature needs; /* the step is left out where a table does not offer this; 0: it always runs */
} tour_step;

/* In this order: each step continues with the table that the one before left. Ended by a name of NULL. */
extern const tour_step tour_build_steps[];
extern const tour_step tour_read_steps[];
extern const tour_step tour_whole_steps[];
extern const tour_step tour_write_steps[];
extern const tour_step tour_small_steps[];
extern const tour_step tour_filter_steps[]; /* the only steps of filters */
extern const tour_step tour_multi_steps[];  /* the only steps of multimaps */

/* ---- tour_check.c ------------------------------------------------------------------------------------- */

/* Records an error; the first one stays. */
__attribute__((format(printf, 2, 3))) void tour_wrong(tour *t, const char *format, ...);

/* Whether the call succeeded; if not, records that as the error. */
bool tour_did(tour *t, loom_status status, const char *call);

/* Records that the operations took from `begun` until now. */
void tour_took(tour *t, double begun, uint64_t operations);

/* Write and read element `at` of the batch. */
void tour_put(tour *t, uint64_t at, uint64_t index, uint32_t round);
uint64_t tour_index(const tour *t, uint64_t at);

/* Writes `count` elements with the indices from `first` on. */
void tour_fill(tour *t, uint64_t first, uint64_t count, uint32_t round);

/* Writes nonsense to `found_values`, `status` and `found`, so that an answer that was never written cannot pass. */
void tour_spoil_answers(tour *t);

/* The config of a table like the current one. */
loom_map_config tour_config(const tour *t, uint64_t capacity);

/* Checks a lookup of the batch: `found_values` (NULL: not asked for) and `status`. */
void tour_check_lookup(tour *t, uint64_t count, const void *found_values, const loom_result *result);

/* Inserts the batch into the reference, one key after the other, with these flags. Checks statuses (NULL: not asked
 * for) and result against it. */
void tour_apply_insert(tour *t, uint64_t count, uint32_t flags, const uint8_t *status, const loom_result *result);

/* The same for an update: present keys get the batch's values. */
void tour_apply_update(tour *t, uint64_t count, const uint8_t *status, const loom_result *result);

/* The same for an erase of the batch. */
void tour_apply_erase(tour *t, uint64_t count, const uint8_t *status, const loom_result *result);

/* Checks a pair that the table returned: known, with the right value, not seen before (`seen`). */
void tour_check_pair(tour *t, uint64_t key, uint64_t value);
uint64_t tour_expected_size(const tour *t);

/* Checks the whole table against the whole reference: all 2n lookups, the size, the layout. */
void tour_check_table(tour *t, loom_map *map);

#endif
