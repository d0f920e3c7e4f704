#include "bench_calls.h"

#include "bench_axes.h"

/* A call without a loom_result is done when it returns, on every machine. With --wait last, calls use a few results in
 * turn, and the run ends by fetching them. An error of an earlier call shows in the checks. */
static loom_status wait_for_last(loom_context *context, const loom_result *near_results, uint64_t calls)
{
    loom_result results[BENCH_RESULTS];
    loom_status status = loom_array_copy(context, results, near_results, sizeof results, NULL);
    for (uint64_t i = 0; i < calls && i < BENCH_RESULTS && status == LOOM_OK; i++)
        status = (loom_status)results[i].status;
    return status;
}

loom_status bench_call_in_batches(loom_context *context, bench_call call, void *work, uint64_t begin, uint64_t end,
                                  uint64_t batch, loom_result *results)
{
    loom_status status = LOOM_OK;
    uint64_t calls = 0;
    for (uint64_t at = begin; at < end && status == LOOM_OK; at += batch, calls++)
        status = call(work, at, end - at < batch ? end - at : batch, results ? results + calls % BENCH_RESULTS : NULL);
    return results && status == LOOM_OK ? wait_for_last(context, results, calls) : status;
}

bool bench_results_new(const bench_session *session, loom_result **results)
{
    void *made = NULL;
    if (session->options->waits_for_last &&
        loom_array_create(session->context, LOOM_ARRAY_MACHINE, BENCH_RESULTS * sizeof(loom_result), &made) != LOOM_OK)
        return false;
    *results = made;
    return true;
}

void bench_results_free(const bench_session *session, loom_result *results)
{
    if (results)
        loom_array_destroy(session->context, LOOM_ARRAY_MACHINE, results, BENCH_RESULTS * sizeof *results);
}
