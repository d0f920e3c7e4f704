/* Cases: what `loom bench` can measure. A new one is a file case_<name>.c and a line in the table of bench_case.c. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "bench_limits.h"
#include "bench_options.h"
#include "bench_report.h"

#include <loom/loom.h>

/* What the cases of one run share. */
typedef struct bench_session {
    const bench_options *options; /* settled for the running case */
    loom_context *context;
    loom_context_info info;
    bench_limits limits;
    bench_report report;
    const char *figure; /* what the next rows show together; NULL: nothing in particular */
} bench_session;

struct bench_case {
    const char *name;
    const char *summary;
    const char *(*op_name)(size_t index);            /* for --ops, in the order they run; NULL after the last */
    bool (*op_is_for)(size_t index, loom_type type); /* NULL: all are for tables of every type */
    bool (*op_runs)(const bench_options *options, size_t index); /* whether these options run it */
    uint32_t (*op_uses)(size_t index);                           /* bits of bench_use, beyond those of the case */
    uint32_t uses;                                               /* bits of bench_use for all operations */
    uint32_t sweep_sets;                                         /* the bits of both that --sweep sets itself */
    uint32_t (*figure_uses)(const char *figure); /* bits of bench_use with --figure, all of them; NULL: no figures */
    uint32_t any_width; /* BENCH_USES_KEY_BYTES, _VALUE_BYTES: of those also other widths than 4 and 8 */
    loom_type type;     /* of its tables: --engine names an engine that has it; 0: no tables */
    loom_engine engine; /* of its tables without --engine */
    void (*run)(bench_session *session); /* adds rows; an error is a row that fails */
    uint64_t n_usual;                    /* default of --n; 0: BENCH_DEFAULT_N */
    uint64_t n_on_device;                /* the same on a device; 0: as on the cpu machine */
    uint64_t n_of_sweep;                 /* the same with --sweep; 0: as without it */
};

const bench_case *bench_case_find(const char *name);
const bench_case *bench_case_at(size_t index); /* NULL after the last */
const char *bench_case_name_at(size_t index);  /* likewise */
bool bench_case_has_engine(const bench_case *named, loom_engine engine);

/* The words of --figure, an option of the case `stadium`; NULL after the last. */
const char *bench_stadium_figure_at(size_t index);

/* Runs the cases that the options name. Returns the exit code: 0, or 1 if a row failed, a file could not be written, or
 * the machine is missing. In the last two cases `error` has a sentence; otherwise it is "". */
int bench_run(const bench_options *options, char error[256]);

/* The context that the options ask for, and its description; *context is NULL after a failure. */
loom_status bench_make_context(const bench_options *options, loom_context **context, loom_context_info *info);

/* The rate of a limit for this row. Notes the limit's name there, and fails the row if there is none. */
double bench_limit_rate(bench_session *session, loom_limit_kind kind, uint32_t access_bytes, uint64_t footprint,
                        bench_row *row);

/* Notes options that have no column, and which share of their cores the threads had.
 *   queries   keys of the operation, if not as many as the table's; otherwise 0
 *   cores     busy on average in the timed repetitions */
void bench_note_run(const bench_session *session, bench_row *row, uint64_t queries, double cores);

/* Sets row->call_us, and notes it with --batch: `calls` took so many seconds. */
void bench_note_calls(const bench_session *session, bench_row *row, uint64_t calls, double seconds);

extern const bench_case bench_case_limits;
extern const bench_case bench_case_map;
extern const bench_case bench_case_perfect;
extern const bench_case bench_case_filter;
extern const bench_case bench_case_multi;
extern const bench_case bench_case_threads;
extern const bench_case bench_case_widths;
extern const bench_case bench_case_stadium;
extern const bench_case bench_case_group;

#endif
