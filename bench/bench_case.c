#include "bench_case.h"

#include "bench_axes.h"
#include "bench_progress.h"
#include "table_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const bench_case *const cases[] = {&bench_case_limits, &bench_case_map,     &bench_case_perfect,
                                          &bench_case_filter, &bench_case_multi,   &bench_case_threads,
                                          &bench_case_widths, &bench_case_stadium, &bench_case_group};

const bench_case *bench_case_at(size_t index)
{
    return index < sizeof cases / sizeof *cases ? cases[index] : NULL;
}

const bench_case *bench_case_find(const char *name)
{
    for (size_t i = 0; bench_case_at(i); i++) {
        if (strcmp(name, bench_case_at(i)->name) == 0)
            return bench_case_at(i);
    }
    return NULL;
}

const char *bench_case_name_at(size_t index)
{
    const bench_case *named = bench_case_at(index);
    return named ? named->name : NULL;
}

bool bench_case_has_engine(const bench_case *named, loom_engine engine)
{
    const table_case *table = table_case_of(engine, LOOM_ROWS_ON_DEVICE);
    return table && named->type && table_case_has(table, named->type);
}

double bench_limit_rate(bench_session *session, loom_limit_kind kind, uint32_t access_bytes, uint64_t footprint,
                        bench_row *row)
{
    loom_limit limit = LOOM_LIMIT_INIT;
    if (session->options->no_limits)
        return NAN;
    bench_limit_name(kind, access_bytes, row->limit_name);
    if (bench_limits_get(&session->limits, session->context, kind, access_bytes, footprint, &limit))
        bench_row_fail(row, "limit: %s", loom_last_error());
    return limit.rate;
}

/* On a shared machine a thread may wait for its core. The rate then tells as much of other processes as of the table,
 * and the row says so. */
static void note_core_share(const loom_context_info *info, bench_row *row, double cores)
{
    if (info->machine != LOOM_MACHINE_CPU)
        return;
    row->core_share = cores / info->threads;
    if (row->core_share < BENCH_BUSY_SHARE)
        bench_row_note(row, "threads had %.0f %% of %u cores", 100 * row->core_share, (unsigned)info->threads);
}

void bench_note_run(const bench_session *session, bench_row *row, uint64_t queries, double cores)
{
    const bench_options *options = session->options;
    if (queries > 0)
        bench_row_note(row, "%" PRIu64 " keys asked for", queries);
    if (options->waits_for_last)
        bench_row_note(row, "waited for the last call");
    if (options->lanes)
        bench_row_note(row, "%u lanes", (unsigned)options->lanes);
    note_core_share(&session->info, row, cores);
}

void bench_note_calls(const bench_session *session, bench_row *row, uint64_t calls, double seconds)
{
    row->call_us = seconds * 1e6 / (double)calls;
    if (session->options->given & BENCH_USES_BATCH)
        bench_row_note(row, "%" PRIu64 " call%s of %.2f µs", calls, calls == 1 ? "" : "s", row->call_us);
}

/* Cases have defaults of their own. An engine that only another case has is ignored. */
static void run_case(bench_session *session, const bench_options *asked, const bench_case *named)
{
    const bool device = session->info.machine != LOOM_MACHINE_CPU;
    bench_options options = *asked;
    bench_options_settle(&options,
                         options.sweep && named->n_of_sweep ? named->n_of_sweep
                         : device && named->n_on_device     ? named->n_on_device
                         : named->n_usual                   ? named->n_usual
                                                            : BENCH_DEFAULT_N,
                         device ? BENCH_DEFAULT_ABSENT_ON_DEVICE : BENCH_DEFAULT_ABSENT);
    if (!bench_case_has_engine(named, options.engine))
        options.engine = named->engine;
    session->options = &options;
    named->run(session);
    session->options = NULL;
}

loom_status bench_make_context(const bench_options *options, loom_context **context, loom_context_info *info)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = options->machine;
    config.threads = options->threads;
    config.lanes = options->lanes;
    config.fixed_seed = 1;
    config.seed = BENCH_SEED;
    *context = NULL;
    loom_status status = loom_context_create(&config, context);
    if (status == LOOM_OK)
        status = loom_context_describe(*context, info);
    if (status != LOOM_OK) {
        loom_context_destroy(*context);
        *context = NULL;
    }
    return status;
}

int bench_run(const bench_options *options, char error[256])
{
    bench_session session = {.info = LOOM_CONTEXT_INFO_INIT};
    error[0] = 0;
    if (bench_make_context(options, &session.context, &session.info) != LOOM_OK) {
        snprintf(error, 256, "%s", loom_last_error());
        return 1;
    }
    if (!bench_report_open(&session.report, options->csv_path, options->json_path, error)) {
        loom_context_destroy(session.context);
        return 1;
    }
    printf("%s: %s, %u thread%s, %s\n", session.info.machine_name, session.info.device_name,
           (unsigned)session.info.threads, session.info.threads == 1 ? "" : "s", session.info.simd_name);
    bench_progress_start();
    for (size_t i = 0; i < options->case_count; i++)
        run_case(&session, options, options->cases[i]);
    bench_progress_stop();
    const bool written = bench_report_close(&session.report, error);
    bench_limits_free(&session.limits);
    loom_context_destroy(session.context);
    return session.report.failed > 0 || !written;
}
