/* The case `filter`, inside: one filter of one size (case_filter.c), the arrays and inputs (filter_arrays.c), the operations
 * (filter_ops.c), and the checks of what they did (filter_check.c).
 *
 * Indices 0 to n - 1 (bench_keys.h) are the keys that are inserted; those from n on never are. */
#ifndef BENCH_FILTER_BENCH_H
#define BENCH_FILTER_BENCH_H

#include "bench_case.h"
#include "bench_timer.h"

#include <loom/loom.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct filter_array {
    void *host, *near; /* near: where the machine works (bench_near.h) */
    uint64_t count, bytes;
} filter_array;

typedef struct filter_bench {
    bench_session *session;
    loom_filter *filter;
    loom_filter_report shape; /* as it was made */
    uint64_t n;
    uint32_t key_bytes;
    bool filled;       /* it holds all keys, and no other */
    uint64_t bits_set; /* then, as inserting directly and by partition left it */
    char trouble[96];  /* what is wrong with this filter, whatever the operation; "": nothing */

    filter_array present; /* the n keys that are inserted */
    filter_array absent;  /* keys that are not, to count false positives with */
    filter_array queries; /* keys of `contains`, some of them present, */
    filter_array found;   /* … and its answers */
    loom_result *near_results;
    bench_clock clock; /* of this repetition */
} filter_bench;

typedef struct filter_op {
    const char *name;
    bool per_hit; /* one row for each --hit; it has answers */
    bool whole;   /* one call for all keys, whatever --batch says */
    loom_limit_kind limit;
    loom_status (*reset)(filter_bench *bench); /* before each repetition, outside the timer */
    loom_status (*call)(void *bench, uint64_t at, uint64_t n, loom_result *result); /* what is timed */
    double (*bytes)(const filter_bench *bench);                                     /* that a repetition must move */
} filter_op;

extern const filter_op filter_ops[]; /* in the order they run, ended by a name of NULL */

/* ---- Arrays (filter_arrays.c) ---- */

/* Makes all arrays, and fills `present` and `absent`. False: there is no memory; free them all the same. */
bool filter_make_arrays(filter_bench *bench);
void filter_free_arrays(filter_bench *bench);

/* Fills `queries`, `hit` percent of them present. */
loom_status filter_make_queries(filter_bench *bench, double hit);

/* Writes nonsense to `found`, so that an answer that is never written cannot pass. */
loom_status filter_spoil_answers(filter_bench *bench);
loom_status filter_fetch_answers(filter_bench *bench);

/* ---- Operations (filter_ops.c) ---- */

/* Inserts all keys into the empty filter, by the way that the flags say. */
loom_status filter_fill(filter_bench *bench, uint32_t flags);

/* ---- Checks (filter_check.c): what is wrong goes to the row ---- */

/* The answers in `found`: no key that is present is absent, and not too many others are found. */
void filter_check_answers(filter_bench *bench, bench_row *row);

/* The filter as an operation left it: its bits, all keys, and the rate of false positives, which goes to the row, too. */
void filter_check_contents(filter_bench *bench, bench_row *row);

#endif
