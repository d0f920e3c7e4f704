/* The options of a benchmark run. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench_parse.h"

#include <loom/loom.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_case bench_case;

enum { BENCH_MAX_REPEAT = 1000 };

/* Options that some cases or operations do not use, as bits. The others belong to the session: --machine, --threads,
 * --csv and --json. */
typedef enum bench_use {
    BENCH_USES_ENGINE = 1 << 0,
    BENCH_USES_TYPE = 1 << 1,
    BENCH_USES_LANES = 1 << 2,
    BENCH_USES_N = 1 << 3,
    BENCH_USES_QUERIES = 1 << 4,
    BENCH_USES_ABSENT = 1 << 5,
    BENCH_USES_BITS_PER_KEY = 1 << 6,
    BENCH_USES_BYTES = 1 << 7,
    BENCH_USES_LOAD = 1 << 8,
    BENCH_USES_HIT = 1 << 9,
    BENCH_USES_SKEW = 1 << 10,
    BENCH_USES_MORE = 1 << 11,
    BENCH_USES_HOT = 1 << 12,
    BENCH_USES_BATCH = 1 << 13,
    BENCH_USES_WAIT = 1 << 14,
    BENCH_USES_CONCURRENT_READS = 1 << 15,
    BENCH_USES_KEY_BYTES = 1 << 16,
    BENCH_USES_VALUE_BYTES = 1 << 17,
    BENCH_USES_OPS = 1 << 18,
    BENCH_USES_REPEAT = 1 << 19,
    BENCH_USES_SWEEP = 1 << 20,
    BENCH_USES_FROM = 1 << 21,
    BENCH_USES_CALLERS = 1 << 22,
    BENCH_USES_VALUES_PER_KEY = 1 << 23,
    BENCH_USES_FIRST_BUCKET = 1 << 24,
    BENCH_USES_BUCKET_GROWTH = 1 << 25,
    BENCH_USES_LAYOUT = 1 << 26,
    BENCH_USES_WORKSPACE = 1 << 27,
    BENCH_USES_LIMITS = 1 << 28,
    BENCH_USES_GROUPS = 1 << 29,
    BENCH_USES_TICKET_BITS = 1 << 30
} bench_use;

/* The last of these bits, which no constant of an enumeration can have. */
#define BENCH_USES_FIGURE (UINT32_C(1) << 31)

typedef struct bench_options {
    uint32_t given; /* bits of bench_use: options that were there. The others have the defaults of bench_axes.h */
    const bench_case *cases[BENCH_MAX_VALUES];
    size_t case_count;
    loom_machine machine;
    loom_engine engine;
    loom_type type;
    uint32_t threads; /* 0: all */
    uint32_t lanes;   /* of a group; 0: the library chooses */
    uint64_t n;       /* this and the next two: 0 until settled, unless given */
    uint64_t queries; /* lookups of a find */
    uint64_t absent;  /* absent keys, to count a filter's false positives */
    bench_list loads;
    bench_list hits;           /* percent */
    bench_list from;           /* first capacities of tables that grow, as shares of n */
    bench_list callers;        /* host threads that call at the same time */
    bench_list bits_per_key;   /* sizes of filters */
    bench_list values_per_key; /* multimaps */
    bench_list groups;         /* different keys of the rows of a group-by */
    loom_row_place row_place;  /* of tables of the rows engine; --engine sets it, too */
    loom_layout layout;        /* the same tables */
    uint32_t ticket_bits;      /* of tables of the tickets engine; 0: the library chooses */
    uint64_t first_bucket;     /* multimaps of the chain engine; 0: the library chooses */
    double bucket_growth;      /* the same */
    uint64_t bytes;            /* size of one filter, instead of bits_per_key; 0: not given */
    double skew;               /* Zipf exponent, or BENCH_SKEW_REAL */
    double more;               /* share of the keys that `extend` and others insert */
    double hot;                /* share of the entries that are one key, 0 to 1 */
    uint64_t batch;            /* keys per call; 0 until settled */
    bool waits_for_last;       /* waits only for the last call */
    bool concurrent_reads;
    bool workspace; /* tables are lent a workspace for builds */
    bool no_limits; /* limits are not measured, and rows have no share */
    uint32_t key_bytes;
    uint32_t value_bytes;           /* 0: a set */
    char ops[BENCH_MAX_VALUES][64]; /* as long as an item of a list */
    size_t op_count;                /* 0: all */
    uint64_t repeat;
    bool sweep;                       /* the cases `perfect` and `multi`: all their figures */
    const char *figure;               /* the case `stadium`: one word of bench_stadium_figure_at; NULL: none */
    const char *csv_path, *json_path; /* NULL: none */
} bench_options;

/* Fills in what the arguments say, and the defaults of bench_axes.h for the rest. Refuses an option that nothing in the
 * run uses: its user expects a difference. False: `error` has a sentence. */
bool bench_options_parse(bench_options *options, int argc, char **argv, char error[256]);

/* Fills in what depends on the case and the machine and was not given: n, what follows from n, and `absent`. */
void bench_options_settle(bench_options *options, uint64_t n, uint64_t absent);

/* Whether --ops names this operation, or there was no --ops. */
bool bench_options_wants(const bench_options *options, const char *op);

#endif
