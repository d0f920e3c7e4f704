/* What the figures of `loom bench stadium --figure` measure on one table: operations of one kind (stadium_apart.c), and
 * slices of interleaved ones (stadium_slices.c). Each function returns the median of the times of the repetitions, in
 * seconds, after one that warms up. Every repetition is checked. NAN: there is no time, and the row says why. */
#ifndef STADIUM_MEASURE_H
#define STADIUM_MEASURE_H

#include "bench_twin.h"
#include "stadium_table.h"

/* ---- Common -------------------------------------------------------------------------------------------------- */

typedef struct stadium_op {
    loom_status (*prepare)(void *work); /* before each repetition, untimed */
    loom_status (*call)(void *work);
    void (*check)(void *work, bench_row *row); /* after each repetition, untimed */
} stadium_op;

double stadium_time(stadium_table *table, const stadium_op *op, void *work, bench_row *row);

/* Tells in the row that a call failed, or that the machine does not have it and the row is left out. */
void stadium_tell(const stadium_table *table, loom_status status, bench_row *row);

/* Whether query i asks for a key that is present, if so many per cent do. */
bool stadium_is_present(uint64_t i, double hit);

/* ---- Operations of one kind ------------------------------------------------------------------------------------ */

typedef struct stadium_pairs {
    bench_session *session;
    uint64_t n;
    uint32_t key_bytes, value_bytes;
    double hit;                                      /* of the queries, in per cent */
    bench_twin keys, values, queries, found, status; /* [n] each */
} stadium_pairs;

/* Makes n pairs. False: no memory; stadium_pairs_free is still fine. */
bool stadium_pairs_new(bench_session *session, uint64_t n, uint32_t key_bytes, uint32_t value_bytes,
                       stadium_pairs *pairs);
void stadium_pairs_free(stadium_pairs *pairs);

/* Makes n queries: query i asks for key i, or for an absent one. */
loom_status stadium_pairs_ask(stadium_pairs *pairs, double hit);

/* All pairs into the empty table; all queries; both, one after the other; erasing all keys that the queries name. Calls
 * have `batch` keys. */
double stadium_time_insert(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row);
double stadium_time_find(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row);
double stadium_time_both(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row);
double stadium_time_erase(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row);

/* All pairs into the empty table, in `parts` calls; part p begins at stadium_part_begin(n, parts, p). False: there are no
 * times, and the row says why. */
bool stadium_time_parts(stadium_pairs *pairs, stadium_table *table, uint32_t parts, double *seconds, bench_row *row);
uint64_t stadium_part_begin(uint64_t n, uint32_t parts, uint32_t part);

/* ---- Slices of interleaved operations -------------------------------------------------------------------------- */

/* Each slice is a batch of 2 * half rows: groups of 32 rows that insert and of 32 rows that look up, in turn. A lookup
 * asks for a key that the slice before inserted, or for an absent one. Half a slice is inserted before the first, so
 * that it, too, has keys to ask for. */
typedef struct stadium_slices {
    bench_session *session;
    uint64_t half, count;
    uint32_t key_bytes, value_bytes;
    double hit;
    bench_twin first_keys, first_values;        /* [half] */
    bench_twin operations, keys, values, found; /* [2 * half * count] */
} stadium_slices;

/* Rounds a number of keys, and of rows of a slice, to what slices can have: *rows becomes a multiple of 64, and *n at
 * least two halves of it. */
void stadium_slices_round(uint64_t *n, uint64_t *rows);

/* Makes the slices that insert n keys, both as rounded. False: no memory; stadium_slices_free is still fine. */
bool stadium_slices_new(bench_session *session, uint64_t n, uint64_t rows, uint32_t key_bytes, uint32_t value_bytes,
                        double hit, stadium_slices *slices);
void stadium_slices_free(stadium_slices *slices);

uint64_t stadium_slices_rows(const stadium_slices *slices); /* of all */
double stadium_time_slices(stadium_slices *slices, stadium_table *table, bench_row *row);

#endif
