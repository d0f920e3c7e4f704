/* Cases: what `loom bench` can measure. A new one is a file case_<name>.c and a line in the table of bench_case.c. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "bench_limits.h"
#include "bench_options.h"
#include "bench_report.h"

#include <loom/loom.h>

/* What the cases of one run share. */
typedef struct bench_session {
    const bench_options *options;
    loom_context *context;
    loom_context_info info;
    bench_limits limits;
    bench_report report;
} bench_session;

struct bench_case {
    const char *name;
    const char *summary;
    const char *(*op_name)(size_t index);            /* for --ops, in the order they run; gives NULL after the last */
    bool (*op_is_for)(size_t index, loom_type type); /* NULL: each is for tables of every type */
    void (*run)(bench_session *session);             /* adds rows; what goes wrong is a row that fails */
};

const bench_case *bench_case_find(const char *name);
const bench_case *bench_case_at(size_t index); /* NULL after the last */

/* Runs the cases that the options name. The exit code: 0; 1 if a row failed, a file could not be written, or there
 * was no such machine (`error` then has a sentence, else it is ""). */
int bench_run(const bench_options *options, char error[256]);

extern const bench_case bench_case_limits;
extern const bench_case bench_case_map;

#endif
