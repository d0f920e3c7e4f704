/* The timed calls of the library: parts of an array, --batch keys at a time. */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include "bench_case.h"

/* One call, with n keys from `at` on. */
typedef loom_status (*bench_call)(void *work, uint64_t at, uint64_t n, loom_result *result);

/* Calls with the keys from `begin` to `end`, `batch` at a time, and waits for the last call.
 *   results   [BENCH_RESULTS] in the machine's memory, used in turn without waiting for calls; NULL: waits for each */
loom_status bench_call_in_batches(loom_context *context, bench_call call, void *work, uint64_t begin, uint64_t end,
                                  uint64_t batch, loom_result *results);

/* Makes `results` for bench_call_in_batches if --wait says so, otherwise NULL. False: no memory. */
bool bench_results_new(const bench_session *session, loom_result **results);
void bench_results_free(const bench_session *session, loom_result *results);

#endif
