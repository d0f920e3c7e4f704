/* The case `filter`: inserts and lookups in filters of each size. Each row is checked, gives the rate of false
 * positives, and is compared with a limit measured at the footprint of the same filter.
 *
 *   share = rate / limit                      contains: random reads of 64 bytes; insert: random CAS, one block per key
 *   share = bytes moved / time / bandwidth    bulk: copy */
#include "bench_axes.h"
#include "bench_calls.h"
#include "bench_parse.h"
#include "bench_progress.h"
#include "filter_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bench_row new_row(const filter_bench *bench, const char *op)
{
    bench_row row = bench_row_new(bench_case_filter.name, bench->session->info.machine_name, op);
    row.of_filter = true;
    row.key_bytes = bench->key_bytes;
    row.n = bench->n;
    return row;
}

/* Makes the filter and records how many bits all keys set. By partition they must set as many as directly. If the keys
 * cannot go that way, the operation `bulk` fails and says why. */
static loom_status make_filter(filter_bench *bench, uint64_t bytes)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    config.key_bytes = bench->key_bytes;
    config.capacity = bench->n;
    config.bytes = bytes;
    bench->filled = false;
    bench->trouble[0] = 0;
    loom_status status = loom_filter_create(bench->session->context, &config, &bench->filter);
    if (status == LOOM_OK)
        status = filter_fill(bench, LOOM_DIRECTLY);
    if (status == LOOM_OK)
        status = loom_filter_stats(bench->filter, &bench->shape, NULL);
    bench->bits_set = bench->shape.bits_set;
    if (status != LOOM_OK || filter_fill(bench, LOOM_BY_PARTITION) != LOOM_OK)
        return status;
    status = loom_filter_stats(bench->filter, &report, NULL);
    if (status == LOOM_OK && report.bits_set != bench->bits_set)
        snprintf(bench->trouble, sizeof bench->trouble, "%" PRIu64 " bits are set directly, %" PRIu64 " by partition",
                 bench->bits_set, report.bits_set);
    return status;
}

static uint64_t keys_of(const filter_bench *bench, const filter_op *op)
{
    return op->per_hit ? bench->queries.count : bench->n;
}

static uint64_t batch_of(const filter_bench *bench, const filter_op *op)
{
    const uint64_t keys = keys_of(bench, op), batch = bench->session->options->batch;
    return op->whole || keys < batch ? keys : batch;
}

static loom_status run_op(filter_bench *bench, const filter_op *op)
{
    bench->clock = (bench_clock){0};
    bench_clock_start(&bench->clock);
    const loom_status status =
        op->whole ? op->call(bench, 0, keys_of(bench, op), NULL)
                  : bench_call_in_batches(bench->session->context, op->call, bench, 0, keys_of(bench, op),
                                          batch_of(bench, op), bench->near_results);
    bench_clock_stop(&bench->clock);
    return status;
}

/* One warm-up, then the median of the repetitions. The answers of every repetition are checked, the filter after the
 * last. NAN: it could not be run. */
static double time_op(filter_bench *bench, const filter_op *op, bench_row *row)
{
    double samples[BENCH_MAX_REPEAT], wall = 0, cpu = 0;
    const uint64_t repeat = bench->session->options->repeat;
    for (uint64_t round = 0; round <= repeat; round++) {
        if (op->reset(bench) != LOOM_OK) {
            bench_row_fail(row, "before %s: %s", op->name, loom_last_error());
            return NAN;
        }
        const loom_status status = run_op(bench, op);
        if (status != LOOM_OK) {
            bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
            return NAN;
        }
        if (op->per_hit && filter_fetch_answers(bench) != LOOM_OK)
            bench_row_fail(row, "answers: %s", loom_last_error());
        else if (op->per_hit)
            filter_check_answers(bench, row);
        if (round == 0)
            continue;
        samples[round - 1] = bench->clock.wall;
        wall += bench->clock.wall;
        cpu += bench->clock.cpu;
    }
    bench->filled = true;
    bench_note_run(bench->session, row, keys_of(bench, op) != bench->n ? keys_of(bench, op) : 0, cpu / wall);
    filter_check_contents(bench, row);
    return bench_median(samples, repeat);
}

static void measure(filter_bench *bench, const filter_op *op, double hit)
{
    bench_session *session = bench->session;
    bench_row row = new_row(bench, op->name);
    const uint64_t footprint = bench->shape.memory_bytes;
    row.engine = bench_engine_name(bench->shape.engine, LOOM_ROWS_ON_DEVICE);
    row.hit = hit;
    row.batch = batch_of(bench, op);
    row.bits_per_key = 512.0 * (double)bench->shape.blocks / (double)bench->n;
    row.probes = bench->shape.probes;
    row.fp_theory = bench->shape.designed_rate;
    if (bench->trouble[0])
        bench_row_fail(&row, "%s", bench->trouble);
    if (op->per_hit && filter_make_queries(bench, hit) != LOOM_OK)
        bench_row_fail(&row, "keys: %s", loom_last_error());

    const bool copies = op->limit == LOOM_LIMIT_COPY;
    const double limit =
        bench_limit_rate(session, op->limit, op->limit == LOOM_LIMIT_RANDOM_READ ? 64 : 0, footprint, &row);
    bench_progress("filter %s with %.1f bits per key", op->name, row.bits_per_key);
    const double seconds = time_op(bench, op, &row);
    if (!isnan(seconds)) {
        row.mops = (double)keys_of(bench, op) / seconds * 1e-6;
        row.gbps = op->bytes(bench) / seconds * 1e-9;
        row.accesses = copies ? NAN : 1;
        row.limit = limit * (copies ? 1e-9 : 1e-6);
        row.share = (copies ? row.gbps : row.mops) / row.limit;
    }
    bench_report_add(&session->report, &row);
}

static void run_size(filter_bench *bench, uint64_t bytes)
{
    const bench_options *options = bench->session->options;
    bench->shape = (loom_filter_report)LOOM_FILTER_REPORT_INIT;
    bench_progress("filter: making one of %.1f MiB", (double)bytes / (1 << 20));
    if (make_filter(bench, bytes) != LOOM_OK) {
        bench_row row = new_row(bench, "create");
        bench_row_fail(&row, "%s", loom_last_error());
        bench_report_add(&bench->session->report, &row);
    } else {
        for (const filter_op *op = filter_ops; op->name; op++) {
            for (size_t i = 0; bench_options_wants(options, op->name) && i < (op->per_hit ? options->hits.count : 1);
                 i++)
                measure(bench, op, op->per_hit ? options->hits.at[i] : NAN);
        }
    }
    loom_filter_destroy(bench->filter);
    bench->filter = NULL;
}

static void run_filter(bench_session *session)
{
    const bench_options *options = session->options;
    filter_bench bench = {.session = session, .n = options->n, .key_bytes = options->key_bytes};
    bench_progress("filter: making %.1f M keys", (double)(options->n + options->absent) * 1e-6);
    if (!filter_make_arrays(&bench)) {
        bench_row row = new_row(&bench, "keys");
        bench_row_fail(&row, "there is no memory for the keys of the benchmark; ask for a smaller --n, --queries or "
                             "--absent");
        bench_report_add(&session->report, &row);
    } else if (options->bytes > 0) {
        run_size(&bench, options->bytes);
    } else {
        for (size_t i = 0; i < options->bits_per_key.count; i++)
            run_size(&bench, (uint64_t)ceil((double)bench.n * options->bits_per_key.at[i] / 8));
    }
    filter_free_arrays(&bench);
}

static const char *op_name(size_t index)
{
    return filter_ops[index].name;
}

static bool op_runs(const bench_options *options, size_t index)
{
    return bench_options_wants(options, filter_ops[index].name);
}

static uint32_t op_uses(size_t index)
{
    const filter_op *op = &filter_ops[index];
    return (op->per_hit ? BENCH_USES_HIT | BENCH_USES_QUERIES : 0u) |
           (op->whole ? 0u : BENCH_USES_BATCH | BENCH_USES_WAIT);
}

const bench_case bench_case_filter = {.name = "filter",
                                      .summary = "inserting into filters and asking them",
                                      .op_name = op_name,
                                      .op_runs = op_runs,
                                      .op_uses = op_uses,
                                      .uses = BENCH_USES_LIMITS | BENCH_USES_ENGINE | BENCH_USES_LANES | BENCH_USES_N |
                                              BENCH_USES_ABSENT | BENCH_USES_BITS_PER_KEY | BENCH_USES_BYTES |
                                              BENCH_USES_KEY_BYTES | BENCH_USES_OPS | BENCH_USES_REPEAT,
                                      .type = LOOM_TYPE_FILTER,
                                      .any_width = BENCH_USES_KEY_BYTES,
                                      .run = run_filter,
                                      .n_on_device = BENCH_DEFAULT_FILTER_N_ON_DEVICE};
