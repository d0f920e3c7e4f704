#include "bench_case.h"

#include "bench_axes.h"
#include "bench_progress.h"

#include <stdio.h>
#include <string.h>

static const bench_case *const cases[] = {&bench_case_limits, &bench_case_map};

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

int bench_run(const bench_options *options, char error[256])
{
    bench_session session = {.options = options, .info = LOOM_CONTEXT_INFO_INIT};
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = options->machine;
    config.threads = options->threads;
    config.lanes = options->lanes;
    config.fixed_seed = 1;
    config.seed = BENCH_SEED;
    error[0] = 0;
    if (loom_context_create(&config, &session.context) != LOOM_OK) {
        snprintf(error, 256, "%s", loom_last_error());
        return 1;
    }
    if (loom_context_describe(session.context, &session.info) != LOOM_OK) {
        snprintf(error, 256, "%s", loom_last_error());
        loom_context_destroy(session.context);
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
        options->cases[i]->run(&session);
    bench_progress_stop();
    const bool written = bench_report_close(&session.report, error);
    bench_limits_free(&session.limits);
    loom_context_destroy(session.context);
    return session.report.failed > 0 || !written;
}
