/* The tour, inside: for each case of the list (cases/table_cases.h) every operation on one table (tour_read.c, tour_write.c,
 * tour_whole.c; filters: tour_filter.c) or on small ones of their own (tour_small.c), each answer checked against a plain
 * reference (tour_check.c), the table of results (cmd_tour.c).
 *
 * The reference is an array by key index (bench_keys.h): the round whose value the key has, or that it is absent. */
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
    double seconds;  /* 0: it has no rate */
    char wrong[200]; /* "": every answer was right */
} tour_cell;

typedef struct tour {
    loom_context *context;
    const table_case *table;
    loom_type type;
    loom_map *map;                   /* … or, if the type is LOOM_TYPE_FILTER, */
    loom_filter *filter;             /* this */
    uint32_t key_bytes, value_bytes; /* value_bytes is 0 in sets and filters; arrays of values are NULL then */
    uint64_t n;                      /* keys that the table is made for; indices 0 to n - 1 */
    uint8_t *rounds;                 /* [2n] the reference; indices from n on are always absent */
    void *all_keys;                  /* [2n] by index */
    uint8_t *seen;                   /* [n] scratch */
    uint64_t seed;                   /* of the hash of `map` */
    const char *directory;           /* for files */

    /* The batch at hand, and the answers to it; all [n]. */
    void *keys, *values;
    uint8_t *batch_rounds;
    void *found_values;
    uint8_t *status, *found;

    loom_status created; /* what making `map` and the arrays came to */
    char trouble[200];   /* … if not LOOM_OK: why */
    tour_cell *cell;     /* of the operation at hand */
    uint64_t answers;    /* checked so far */
} tour;

typedef struct tour_step {
    const char *name;
    void (*run)(tour *t);
    loom_feature needs; /* 0: nothing that a table might not offer; otherwise the step is left out there */
} tour_step;

/* In this order: each goes on from the table that the one before left. Ended by a name of NULL. */
extern const tour_step tour_build_steps[];
extern const tour_step tour_read_steps[];
extern const tour_step tour_whole_steps[];
extern const tour_step tour_write_steps[];
extern const tour_step tour_small_steps[];
extern const tour_step tour_filter_steps[]; /* the only ones of filters */

/* ---- tour_check.c ------------------------------------------------------------------------------------- */

/* Notes what was wrong; the first reason stays. */
__attribute__((format(printf, 2, 3))) void tour_wrong(tour *t, const char *format, ...);

/* Whether the call succeeded; if not, that is what was wrong. */
bool tour_did(tour *t, loom_status status, const char *call);

/* Notes that the operations took from `begun` until now. */
void tour_took(tour *t, double begun, uint64_t operations);

/* Element `at` of the batch. */
void tour_put(tour *t, uint64_t at, uint64_t index, uint32_t round);
uint64_t tour_index(const tour *t, uint64_t at);

/* `count` elements with the indices from `first` on. */
void tour_fill(tour *t, uint64_t first, uint64_t count, uint32_t round);

/* Writes nonsense to `found_values`, `status` and `found`, so that an answer that was never written cannot pass. */
void tour_spoil_answers(tour *t);

/* A config of tables like the one at hand. */
loom_map_config tour_config(const tour *t, uint64_t capacity);

/* `found_values` (NULL: not asked for) and `status` answer a lookup of the batch. */
void tour_check_lookup(tour *t, uint64_t count, const void *found_values, const loom_result *result);

/* Does to the reference what inserting the batch, one after the other, with these flags does, and checks statuses
 * (NULL: not asked for) and result against it. */
void tour_apply_insert(tour *t, uint64_t count, uint32_t flags, const uint8_t *status, const loom_result *result);

/* The same for giving its values to those of its keys that are there. */
void tour_apply_update(tour *t, uint64_t count, const uint8_t *status, const loom_result *result);

/* The same for erasing it. */
void tour_apply_erase(tour *t, uint64_t count, const uint8_t *status, const loom_result *result);

/* A pair that the table gave out: known, with the right value, not seen before (`seen`). */
void tour_check_pair(tour *t, uint64_t key, uint64_t value);
uint64_t tour_expected_size(const tour *t);

/* The whole table against the whole reference: all 2n lookups, the size, the layout. */
void tour_check_table(tour *t, loom_map *map);

#endif
