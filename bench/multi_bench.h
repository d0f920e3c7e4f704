/* What the files of the case `multi` share. */
#ifndef MULTI_BENCH_H
#define MULTI_BENCH_H

#include "bench_case.h"
#include "bench_timer.h"

/* How pairs are dealt to keys. */
typedef enum multi_spread {
    MULTI_EVEN,    /* each key has as many values as any other */
    MULTI_ZIPF,    /* each pair's key is drawn by Zipf's law (--skew) */
    MULTI_UNIFORM, /* each pair's key is drawn uniformly */
    MULTI_REAL     /* --skew real: numbers of values as in real data */
} multi_spread;

/* An array and its copy in the machine's memory. */
typedef struct multi_array {
    void *host, *near;
    uint64_t bytes;
} multi_array;

typedef struct multi_bench {
    bench_session *session;
    loom_context *context; /* of the tables; that of the session has the arrays */
    loom_map *map;
    multi_spread spread;
    double values_per_key; /* on average */
    uint64_t n, more;      /* pairs, and pairs of `insert` */
    uint64_t range;        /* keys have indices below; */
    uint64_t distinct;     /*   so many are made for: the capacity of tables */
    uint64_t asked;        /* keys of the query that `queries` has; 0: none yet */
    uint64_t expected;     /* pairs that `counts` and `sums` include */
    uint32_t key_bytes, value_bytes;
    multi_array keys, values;     /* [n + more] */
    multi_array queries, offsets; /* [n] and [n + 1]; counts lie in the offsets, too */
    multi_array found;            /* [n + more] */
    uint32_t *counts;             /* [range] values that the key has */
    uint64_t *sums;               /* [range] of these values */
    bench_clock clock;
    double load;
} multi_bench;

/* Makes arrays and pairs. False: there is no memory; multi_free_input must be called all the same.
 *   values_per_key   on average; MULTI_REAL has its own
 *   more             pairs beyond n */
bool multi_make_input(multi_bench *bench, bench_session *session, multi_spread spread, uint64_t values_per_key,
                      uint64_t more);
void multi_free_input(multi_bench *bench);

/* Asks for `asked` keys in a scattered order; those from `range` on are absent. */
loom_status multi_make_queries(multi_bench *bench, uint64_t asked);

/* Counts and adds up the values of each key, for the first `pairs` pairs. */
void multi_expect(multi_bench *bench, uint64_t pairs);

/* Compares the lists in `found`, or only the counts in `offsets`, with what the keys were given. */
void multi_check_lists(multi_bench *bench, bench_row *row, bool counts_only);

loom_status multi_send(const multi_bench *bench, const multi_array *array);

/* For the column `drawn` of the files. */
const char *multi_spread_name(multi_spread spread);

#endif
