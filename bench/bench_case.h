/* Cases: what `loom bench` can measure. A new one is a file case_<name>.c and a line in the table of bench_case.c. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "bench_limits.h"
#include "bench_options.h"
#include "bench_report.h"

#include <loom/loom.h>

/* What the cases of one run share. */
typedef struct bench_session {
    const bench_options *options; /* settled for the case that runs */
    loom_context *context;
    loom_context_info info;
    bench_limits limits;
    bench_report report;
    const char *figure; /* what the rows to come show together; NULL: nothing in particular */
} bench_session;

struct bench_case {
    const char *name;
    const char *summary;
    const char *(*op_name)(size_t index);            /* for --ops, in the order they run; gives NULL after the last */
    bool (*op_is_for)(size_t index, loom_type type); /* NULL: each is for tables of every type */
    bool (*op_runs)(const bench_options *options, size_t index); /* whether these options have it run */
    uint32_t (*op_uses)(size_t index);                           /* bits of bench_use, beyond those of the case */
    uint32_t uses;                                               /* bits of bench_use, whichever operations run */
    uint32_t sweep_sets;                 /* … of these two: those that --sweep sets by itself */
    loom_type type;                      /* of its tables: --engine names an engine that has it; 0: it has none */
    loom_engine engine;                  /* of its tables without --engine */
    void (*run)(bench_session *session); /* adds rows; what goes wrong is a row that fails */
    uint64_t n_on_device;                /* --n there, if not asked for; 0: as on the cpu machine */
};

const bench_case *bench_case_find(const char *name);
const bench_case *bench_case_at(size_t index); /* NULL after the last */
const char *bench_case_name_at(size_t index);  /* likewise */
bool bench_case_has_engine(const bench_case *named, loom_engine engine);

/* Runs the cases that the options name. The exit code: 0; 1 if a row failed, a file could not be written, or there
 * was no such machine (`error` then has a sentence, else it is ""). */
int bench_run(const bench_options *options, char error[256]);

/* The context that the options ask for, and its description; *context is NULL if there is none. */
loom_status bench_make_context(const bench_options *options, loom_context **context, loom_context_info *info);

/* The rate of a limit, for this row: notes its name there, and fails it if there is none. */
double bench_limit_rate(bench_session *session, loom_limit_kind kind, uint32_t access_bytes, uint64_t footprint,
                        bench_row *row);

/* Notes what was asked for beyond the columns, and which share of their cores the threads had.
 *   queries   keys of the operation, if they are not as many as the table's; else 0
 *   cores     that were busy, on average, in the timed repetitions */
void bench_note_run(const bench_session *session, bench_row *row, uint64_t queries, double cores);

extern const bench_case bench_case_limits;
extern const bench_case bench_case_map;
extern const bench_case bench_case_perfect;
extern const bench_case bench_case_filter;

#endif
