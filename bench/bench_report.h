/* Rows of results: a table printed to stdout as they come, and CSV and JSON files with the same columns. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* An empty count, where 0 has a meaning. */
#define BENCH_NO_COUNT UINT64_MAX

/* A column without meaning for a row is left empty: NULL or "" in text, 0 in counts, BENCH_NO_COUNT in counts that may
 * be 0, NAN in numbers. */
typedef struct bench_row {
    const char *case_name;
    const char *engine;
    const char *machine;
    char op[32];
    uint64_t key_bytes;
    uint64_t value_bytes;
    uint64_t n;      /* keys in the table; bytes of the array in the case `limits`, rows in the case `group` */
    double load;     /* keys / slots, as measured */
    double hit;      /* percent */
    double skew;     /* Zipf exponent */
    uint64_t batch;  /* keys per call */
    double mops;     /* million operations per second, median */
    double gbps;     /* bytes that the operation must move / time, 10^9 per second */
    double accesses; /* buckets read per operation */
    double limit;    /* M per second for random accesses, GB/s for copying */
    double share;    /* of the limit */
    char check[160]; /* "ok"; or "FAIL: " and what was wrong; or "left out", and the note says why */
    char limit_name[32];
    double hot; /* share of the entries that are one key; not printed */

    /* Filters. */
    bool of_filter;      /* prints the columns below instead of those that only other tables have */
    double bits_per_key; /* bits of memory per key */
    uint64_t probes;     /* bits that a key sets */
    double fp_measured;  /* false positives / absent keys looked up */
    double fp_theory;    /* the same, expected of such a filter */
    double fp_stats;     /* the same, expected from its bits */

    /* Operations that insert into a map; printed in the note. */
    uint64_t refused;    /* keys that found no room */
    uint64_t code_bytes; /* perfect tables: loom_stats.code_bytes */
    uint64_t stashed;    /* perfect tables: loom_stats.stashed */

    uint64_t lanes;     /* per group, if given */
    const char *figure; /* what the neighbouring rows show together */

    /* Processor time / (wall time * threads) of the timed repetitions. 1: every thread had a core all the time. Less:
     * threads waited for cores that others used, or there was too little work for all of them. More: reading the
     * processor-time clock takes a microsecond or a few of processor time that wall time does not include
     * (bench_timer.c); the number says little where a repetition takes less than some 100 µs. Nothing is cut off: a
     * long repetition with more than 1.01 is an error of the benchmark. Empty
     *   on the cuda machine, whose host threads only wait for the device,
     *   in the case `limits`, where one call of the library tries one thread and all of them in turn. */
    double core_share;
    double from; /* first capacity, as a share of n, or of `groups`; NAN: not an operation of growth */

    /* The case `threads`; printed in the note. */
    uint64_t callers;                     /* host threads that call at the same time */
    double median_us, p99_us, longest_us; /* of calls */

    /* Multimaps; printed in the note. */
    double values_per_key;
    double density;        /* loom_stats.density */
    const char *drawn;     /* how pairs were dealt to keys: even, zipf, uniform or real (multi_bench.h) */
    uint64_t first_bucket; /* chain engine: of the config */
    double bucket_growth;

    double bytes_per_entry; /* the case `widths`: memory of the table / keys; printed in the note */
    uint64_t groups;        /* the case `group`: different keys of the rows; printed in the note */
    double call_us;         /* microseconds per call, on average; printed in the note with --batch */

    /* The case `stadium` with --figure. */
    uint64_t ticket_bits;  /* tickets engine; printed in the note */
    const char *row_place; /* where rows were asked to lie: machine or host */

    char note[192]; /* printed only: no column of the files */
} bench_row;

/* A row with every column empty and `check` "ok". */
bench_row bench_row_new(const char *case_name, const char *machine, const char *op);

/* Records an error; the first one stays. */
__attribute__((format(printf, 2, 3))) void bench_row_fail(bench_row *row, const char *format, ...);
bool bench_row_failed(const bench_row *row);

/* Adds to the row's note. */
__attribute__((format(printf, 2, 3))) void bench_row_note(bench_row *row, const char *format, ...);

typedef struct bench_report {
    FILE *csv, *json;
    const char *csv_path, *json_path;
    uint64_t rows, failed;
    bool titled, titled_for_filters; /* whether the next rows have a title above them, and which */
} bench_report;

/* Opens the files; paths may be NULL. A path that cannot be written fails before the work, not after it. False: `error`
 * has a sentence. */
bool bench_report_open(bench_report *report, const char *csv_path, const char *json_path, char error[256]);
void bench_report_add(bench_report *report, const bench_row *row);

/* Prints a line above the next rows, which get a title of their own. */
void bench_report_heading(bench_report *report, const char *text);

/* False: a file could not be written to its end; `error` has a sentence. */
bool bench_report_close(bench_report *report, char error[256]);

#endif
