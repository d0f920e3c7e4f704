/* The internals of the case `filter`: one filter of one size (case_filter.c), the arrays and inputs (filter_arrays.c),
 * the operations (filter_ops.c), and the checks (filter_check.c).
 *
 * Indices 0 to n - 1 (bench_keys.h) are the inserted keys; those from n on never are. */
#ifndef BENCH_FILTER_BENCH_H
#define BENCH_FILTER_BENCH_H

#include "bench_case.h"
#include "bench_timer.h"

#include <loom/loom.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct filter_array {
    void *host, *near; /* near: in the machine's memory (bench_near.h) */
    uint64_t count, bytes;
} filter_array;

typedef struct filter_bench {
    bench_session *session;
    loom_filter *filter;
    loom_filter_report shape; /* as it was made */
    uint64_t n;
    uint32_t key_bytes;
    bool filled;       /* holds all keys, and no others */
    uint64_t bits_set; /* when filled, whether directly or by partition */
    char trouble[96];  /* an error of this filter, whatever the operation; "": none */

    filter_array present; /* the n inserted keys */
    filter_array absent;  /* keys never inserted, to count false positives */
    filter_array queries; /* keys of `contains`, some of them present */
    filter_array found;   /* answers of `contains` */
    loom_result *near_results;
    bench_clock clock; /* of this repetition */
} filter_bench;

typedef struct filter_op {
    const char *name;
    bool per_hit; /* one row for each --hit; has answers */
    bool whole;   /* one call for all keys, whatever --batch says */
    loom_limit_kind limit;
    loom_status (*reset)(filter_bench *bench); /* before each repetition, outside the timer */
    loom_status (*call)(void *bench, uint64_t at, uint64_t n, loom_result *result); /* the timed call */
    double (*bytes)(const filter_bench *bench);                                     /* that a repetition must move */
} filter_op;

extern const filter_op filter_ops[]; /* in the order they run, ended by a name of NULL */

/* ---- Arrays (filter_arrays.c) ---- */

/* Makes all arrays, and fills `present` and `absent`. False: no memory; free them all the same. */
bool filter_make_arrays(filter_bench *bench);
void filter_free_arrays(filter_bench *bench);

/* Fills `queries`, `hit` percent of them present. */
loom_status filter_make_queries(filter_bench *bench, double hit);

/* Writes nonsense to `found`, so that an answer that is never written cannot pass. */
loom_status filter_spoil_answers(filter_bench *bench);
loom_status filter_fetch_answers(filter_bench *bench);

/* ---- Operations (filter_ops.c) ---- */

/* Inserts all keys into the empty filter, in the way that the flags say. */
loom_status filter_fill(filter_bench *bench, uint32_t flags);

/* ---- Checks (filter_check.c): errors go to the row ---- */

/* Checks the answers in `found`: every present key is found, and not too many others. */
void filter_check_answers(filter_bench *bench, bench_row *row);

/* Checks the filter after an operation: its bits, all keys, and the rate of false positives, which also goes to the
 * row. */
void filter_check_contents(filter_bench *bench, bench_row *row);

#endif
