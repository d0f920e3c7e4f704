/* Rows of results: a table for people on stdout as they come, and CSV and JSON files with the same columns. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Where 0 says something, a count without meaning is this. */
#define BENCH_NO_COUNT UINT64_MAX

/* A column that has no meaning for a row is left empty: NULL or "" in text, 0 in counts, BENCH_NO_COUNT in those that may be 0,
 * NAN in numbers. */
typedef struct bench_row {
    const char *case_name;
    const char *engine;
    const char *machine;
    char op[32];
    uint64_t key_bytes;
    uint64_t value_bytes;
    uint64_t n;      /* keys in the table; bytes of the array in the case `limits` */
    double load;     /* keys / slots, as it was */
    double hit;      /* percent */
    double skew;     /* Zipf exponent */
    uint64_t batch;  /* keys per call */
    double mops;     /* million operations per second, median */
    double gbps;     /* bytes the operation must move / time, 10^9 per second */
    double accesses; /* buckets read per operation */
    double limit;    /* M per second for random accesses, GB/s for copying */
    double share;    /* of the limit */
    char check[160]; /* "ok", or "FAIL: " and what was wrong */
    char limit_name[32];
    double hot; /* share of the entries that are one key; not in the table for people */

    /* Of filters. */
    bool of_filter;      /* which columns people are shown: those below, or those that only other tables have */
    double bits_per_key; /* bits of memory for each key */
    uint64_t probes;     /* bits that a key sets */
    double fp_measured;  /* false positives / absent keys asked for, */
    double fp_theory;    /* … as expected of such a filter, */
    double fp_stats;     /* … as follows from its bits */

    /* Of what brings keys to a map; people read them in the note. */
    uint64_t refused;    /* keys that found no room */
    uint64_t code_bytes; /* perfect tables: loom_stats.code_bytes */
    uint64_t stashed;    /* … loom_stats.stashed */

    uint64_t lanes;     /* of a group, if asked for */
    const char *figure; /* what the rows around this one show together */

    /* Processor time / (wall time * threads) of the timed repetitions. 1: every thread had a core all the time. Less:
     * threads waited for cores that others used, or there was too little work for all of them. More: reading the clock
     * of processor time takes a microsecond or a few of it, which wall time is free of (bench_timer.c), so that the
     * number says little where a repetition takes less than some 100 µs. Nothing is cut off: a long repetition with
     * more than 1.01 is an error of the benchmark. Empty
     *   on the cuda machine, whose host threads only wait for the device,
     *   in the case `limits`, where one call of the library tries one thread and all of them in turn. */
    double core_share;

    char note[192]; /* for people only: no column of the files */
} bench_row;

/* A row with every column empty and `check` "ok". */
bench_row bench_row_new(const char *case_name, const char *machine, const char *op);

/* Notes what was wrong; the first reason stays. */
__attribute__((format(printf, 2, 3))) void bench_row_fail(bench_row *row, const char *format, ...);
bool bench_row_failed(const bench_row *row);

/* Adds to the row's note. */
__attribute__((format(printf, 2, 3))) void bench_row_note(bench_row *row, const char *format, ...);

typedef struct bench_report {
    FILE *csv, *json;
    const char *csv_path, *json_path;
    uint64_t rows, failed;
    bool titled, titled_for_filters; /* whether rows to come have a title above them, and which */
} bench_report;

/* Opens the files (paths may be NULL), so that a path that cannot be written fails before the work, not after it.
 * False: `error` has a sentence. */
bool bench_report_open(bench_report *report, const char *csv_path, const char *json_path, char error[256]);
void bench_report_add(bench_report *report, const bench_row *row);

/* A line for people above rows to come, which get a title of their own. */
void bench_report_heading(bench_report *report, const char *text);

/* False: a file could not be written to its end; `error` has a sentence. */
bool bench_report_close(bench_report *report, char error[256]);

#endif
