/* Checks of what the operations of the case `filter` did and answered. */
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_threads.h"
#include "filter_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

/* ---- The rate of false positives ---------------------------------------------------------------------- */

/* The standard deviation of the rates of a filter's blocks, over their mean: 0.2 with 4 bits per key, 2.4 with 24. In
 * filters of some thousand blocks the overall rate therefore varies by percents from one filter to the next. The number
 * of keys in a block has a Poisson distribution, and i keys leave a share of (1 - probes / 512)^i of its bits clear. */
static double spread_of_blocks(const filter_bench *bench)
{
    const double mean = (double)bench->n / (double)bench->shape.blocks, probes = bench->shape.probes;
    const double width = 12 * sqrt(mean) + 40; /* terms beyond it do not count */
    double sum = 0, squares = 0;
    for (double i = floor(fmax(0, mean - width)); i <= mean + width; i++) {
        const double rate = pow(-expm1(i * log1p(-probes / 512)), probes);
        const double weight = exp(i * log(mean) - mean - lgamma(i + 1));
        sum += weight * rate;
        squares += weight * rate * rate;
    }
    return sqrt(fmax(0, squares / (sum * sum) - 1));
}

/* Whether this many of `absent` keys may be found. The noise has two parts: that of counting, at least one key; and
 * that of the filter, whose blocks have different rates. */
static void check_rate(const filter_bench *bench, bench_row *row, uint64_t positives, uint64_t absent)
{
    const double expected = bench->shape.designed_rate * (double)absent;
    const double of_filter = expected * spread_of_blocks(bench) / sqrt((double)bench->shape.blocks);
    const double noise = sqrt(fmax(expected, 1) + of_filter * of_filter);
    if (fabs((double)positives - expected) > BENCH_RATE_TOLERANCE * expected + BENCH_RATE_DEVIATIONS * noise)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " absent keys were found, a rate of %.3g; by theory it is %.3g",
                       positives, absent, (double)positives / (double)absent, bench->shape.designed_rate);
}

/* ---- Answers ------------------------------------------------------------------------------------------ */

typedef struct answers {
    const filter_bench *bench;
    _Atomic uint64_t absent, positives; /* absent keys, and how many of them were found */
    _Atomic uint64_t lost, unanswered;
} answers;

static void judge_range(void *work, uint64_t begin, uint64_t end)
{
    answers *all = work;
    const filter_bench *bench = all->bench;
    const uint8_t *found = bench->found.host;
    uint64_t absent = 0, positives = 0, lost = 0, unanswered = 0;
    for (uint64_t at = begin; at < end; at++) {
        const uint64_t key = bench_get(bench->queries.host, at, bench->key_bytes);
        const bool present = bench_index_of(key, bench->key_bytes) < bench->n;
        absent += !present;
        unanswered += found[at] > 1;
        positives += !present && found[at] == 1;
        lost += present && found[at] == 0;
    }
    atomic_fetch_add(&all->absent, absent);
    atomic_fetch_add(&all->positives, positives);
    atomic_fetch_add(&all->lost, lost);
    atomic_fetch_add(&all->unanswered, unanswered);
}

void filter_check_answers(filter_bench *bench, bench_row *row)
{
    answers all = {.bench = bench};
    bench_in_parallel(bench->queries.count, BENCH_GRAIN, judge_range, &all);
    if (all.unanswered > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " answers are neither 0 nor 1", all.unanswered,
                       bench->queries.count);
    if (all.lost > 0)
        bench_row_fail(row, "%" PRIu64 " keys that were inserted are not found", all.lost);
    check_rate(bench, row, all.positives, all.absent);
}

/* ---- Contents ----------------------------------------------------------------------------------------- */

/* How many of the keys are found; fails the row if the lookup fails. */
static uint64_t count_found(const filter_bench *bench, bench_row *row, const filter_array *keys)
{
    loom_result result = {0};
    loom_status status = loom_filter_contains(bench->filter, keys->near, keys->count, NULL, &result, NULL);
    if (status != LOOM_OK || result.status != LOOM_OK)
        bench_row_fail(row, "contains: %s", loom_last_error());
    else if (result.ok + result.not_found != keys->count)
        bench_row_fail(row, "contains: %" PRIu64 " found and %" PRIu64 " not found are not %" PRIu64 " keys", result.ok,
                       result.not_found, keys->count);
    return result.ok;
}

void filter_check_contents(filter_bench *bench, bench_row *row)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    if (loom_filter_stats(bench->filter, &report, NULL) != LOOM_OK)
        bench_row_fail(row, "stats: %s", loom_last_error());
    else if (report.bits_set != bench->bits_set)
        bench_row_fail(row, "%" PRIu64 " bits are set instead of %" PRIu64, report.bits_set, bench->bits_set);
    const uint64_t present = count_found(bench, row, &bench->present);
    if (present != bench->n)
        bench_row_fail(row, "%" PRIu64 " keys that were inserted are not found", bench->n - present);
    const uint64_t positives = count_found(bench, row, &bench->absent);
    check_rate(bench, row, positives, bench->absent.count);
    row->fp_measured = (double)positives / (double)bench->absent.count;
    row->fp_stats = report.false_positive_rate;
}
