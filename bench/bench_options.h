/* What a run of the benchmark was asked for. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench_parse.h"

#include <loom/loom.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_case bench_case;

enum { BENCH_MAX_REPEAT = 1000 };

typedef struct bench_options {
    const bench_case *cases[BENCH_MAX_VALUES];
    size_t case_count;
    loom_machine machine;
    loom_engine engine;
    loom_type type;
    uint32_t threads; /* 0: all */
    uint32_t lanes;   /* of a group; 0: the library chooses */
    uint64_t n;       /* this and the next two: 0 until settled, unless asked for */
    uint64_t queries; /* lookups of a find */
    uint64_t absent;  /* keys that a filter's false positives are counted with */
    bench_list loads;
    bench_list hits;         /* percent */
    bench_list bits_per_key; /* sizes of filters */
    uint64_t bytes;          /* the one size of a filter, instead of these; 0: not asked for */
    double skew;
    double more;         /* the share of keys that `extend` inserts */
    double hot;          /* the share of entries that are one key, 0 to 1 */
    uint64_t batch;      /* keys per call; 0 until settled */
    bool waits_for_last; /* not for every call */
    bool concurrent_reads;
    uint32_t key_bytes;
    uint32_t value_bytes;           /* 0: a set */
    char ops[BENCH_MAX_VALUES][64]; /* as long as a piece of a list */
    size_t op_count;                /* 0: all */
    uint64_t repeat;
    bool sweep;                       /* the case `perfect`: all its figures */
    const char *csv_path, *json_path; /* NULL: none */
} bench_options;

/* Fills in what the arguments say and the defaults of bench_axes.h for the rest. False: `error` has a sentence. */
bool bench_options_parse(bench_options *options, int argc, char **argv, char error[256]);

/* Fills in what depends on the case and the machine, if it was not asked for: n, and what follows from it, and `absent`. */
void bench_options_settle(bench_options *options, uint64_t n, uint64_t absent);

/* Whether --ops names this operation, or there was no --ops. */
bool bench_options_wants(const bench_options *options, const char *op);

#endif
