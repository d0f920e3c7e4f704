/* The case `multi`: multimaps, by the number of values that a key has. Rates are in pairs. Every repetition is checked:
 * each key has as many values as it was given, and their sum is right.
 *
 *   build        n pairs into the empty table
 *   counts       loom_map_find_counts of every key
 *   find_all     all values of every key, by one call with room
 *   find_twice   the same by two calls, the first of which only counts
 *   find_paper   as find_all, but n keys are asked for, most of which are absent if keys have many values: the
 *                queries of D. Juenger et al., "WarpCore" (figure 7)
 *   insert       a quarter more, of the same keys, in one call
 *   append       n pairs in 64 calls, into a new table that has ample room and does not move: lists grow
 *   find_grown   as find_all, of the lists that `append` leaves
 *
 * Pair j belongs to key j / values_per_key (with --skew: to a key drawn by Zipf's law), and pairs come in a scattered
 * order. With --skew real each key's number of values is drawn from a log-normal distribution (bench_axes.h).
 *
 * With --sweep: figure 7 of the same paper, build and find_paper by values per key, at load factor 0.8 with keys drawn
 * uniformly; then the same with the numbers of --skew real. A table has capacity for the keys that were drawn. On a GPU
 * each width of lane groups has its rows. `append` and `find_grown` are measured, too, if --ops names them: only there
 * does the size of buckets matter, since a build makes lists of one piece. */
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_progress.h"
#include "bench_threads.h"
#include "multi_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MORE_DIVISOR = 4 /* `insert` adds n / 4 pairs */, APPEND_CALLS = 64, GROWN_ROOM = 8 };

/* ---- operations ---- */

static loom_status call_build(multi_bench *bench)
{
    return loom_map_build(bench->map, bench->keys.near, bench->values.near, bench->n, 0, NULL, NULL, NULL);
}

static loom_status call_insert(multi_bench *bench)
{
    return loom_map_insert(bench->map, bench_at(bench->keys.near, bench->n, bench->key_bytes),
                           bench_at(bench->values.near, bench->n, bench->value_bytes), bench->more, 0, NULL, NULL,
                           NULL);
}

static loom_status call_append(multi_bench *bench)
{
    loom_status status = LOOM_OK;
    for (uint64_t i = 0; i < APPEND_CALLS && status == LOOM_OK; i++) {
        const uint64_t from = bench->n * i / APPEND_CALLS, to = bench->n * (i + 1) / APPEND_CALLS;
        status =
            loom_map_insert(bench->map, bench_at(bench->keys.near, from, bench->key_bytes),
                            bench_at(bench->values.near, from, bench->value_bytes), to - from, 0, NULL, NULL, NULL);
    }
    return status;
}

static loom_status call_counts(multi_bench *bench)
{
    return loom_map_find_counts(bench->map, bench->queries.near, bench->asked, bench->offsets.near, NULL, NULL, NULL);
}

static loom_status call_find_all(multi_bench *bench)
{
    return loom_map_find_all(bench->map, bench->queries.near, bench->asked, 0, bench->offsets.near, bench->found.near,
                             bench->n + bench->more, NULL, NULL, NULL);
}

static loom_status call_find_twice(multi_bench *bench)
{
    uint64_t needed;
    const loom_status status = loom_map_find_all(bench->map, bench->queries.near, bench->asked, 0, bench->offsets.near,
                                                 NULL, 0, &needed, NULL, NULL);
    return status != LOOM_OK ? status : call_find_all(bench);
}

typedef struct multi_op {
    const char *name;
    loom_status (*call)(multi_bench *bench);
    bool finds, inserts, of_paper;
    bool of_figure; /* --sweep has it */
    bool grown;     /* in a new table, whose lists grow from call to call */
} multi_op;

static const multi_op multi_ops[] = {
    {.name = "build", .call = call_build, .of_figure = true},
    {.name = "counts", .call = call_counts},
    {.name = "find_all", .call = call_find_all, .finds = true},
    {.name = "find_twice", .call = call_find_twice, .finds = true},
    {.name = "find_paper", .call = call_find_all, .finds = true, .of_paper = true, .of_figure = true},
    {.name = "insert", .call = call_insert, .inserts = true},
    {.name = "append", .call = call_append, .grown = true},
    {.name = "find_grown", .call = call_find_all, .finds = true, .grown = true},
    {0},
};

/* ---- rows ---- */

/* After a repetition: the table is whole and has every pair. Looks all keys up if the operation did not. */
static void check(multi_bench *bench, const multi_op *op, bench_row *row)
{
    uint64_t pairs = 0;
    const uint64_t expected = bench->n + (op->inserts ? bench->more : 0);
    if (loom_map_size(bench->map, &pairs, NULL) != LOOM_OK || loom_map_verify(bench->map, NULL) != LOOM_OK)
        bench_row_fail(row, "%s", loom_last_error());
    else if (pairs != expected)
        bench_row_fail(row, "%" PRIu64 " pairs instead of %" PRIu64, pairs, expected);
    const bool counts_only = op->call == call_counts;
    if (!op->finds && !counts_only && call_find_all(bench) != LOOM_OK)
        bench_row_fail(row, "find_all: %s", loom_last_error());
    multi_check_lists(bench, row, counts_only);
}

static loom_status make_map(multi_bench *bench, bool grown)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = bench->session->options->engine;
    config.key_bytes = bench->key_bytes;
    config.value_bytes = bench->value_bytes;
    config.capacity = bench->distinct;
    config.values = bench->n;
    if (grown) {
        config.values *= GROWN_ROOM;
        config.growth = 0;
    }
    config.max_load = bench->load;
    config.first_bucket = bench->session->options->first_bucket;
    config.bucket_growth = bench->session->options->bucket_growth;
    return loom_map_create(bench->context, &config, &bench->map);
}

static loom_status reset(multi_bench *bench, const multi_op *op)
{
    bench_fill(bench->found.host, 0xa5, bench->found.bytes);
    bench_fill(bench->offsets.host, 0xa5, bench->offsets.bytes);
    loom_status status = multi_send(bench, &bench->found);
    if (status == LOOM_OK)
        status = multi_send(bench, &bench->offsets);
    if (status == LOOM_OK && op->grown) {
        loom_map_destroy(bench->map);
        bench->map = NULL;
        status = make_map(bench, true);
        return status == LOOM_OK && op->finds ? call_append(bench) : status;
    }
    if (status == LOOM_OK && op->call == call_build)
        return loom_map_clear(bench->map, NULL, NULL);
    return status == LOOM_OK ? call_build(bench) : status;
}

/* One warm-up, then the median of the repetitions in *seconds. A call that fails ends it. */
static loom_status time_op(multi_bench *bench, const multi_op *op, bench_row *row, double *seconds)
{
    double samples[BENCH_MAX_REPEAT], wall = 0, cpu = 0;
    const uint64_t repeat = bench->session->options->repeat;
    for (uint64_t round = 0; round <= repeat; round++) {
        loom_status status = reset(bench, op);
        bench->clock = (bench_clock){0};
        bench_clock_start(&bench->clock);
        if (status == LOOM_OK)
            status = op->call(bench);
        bench_clock_stop(&bench->clock);
        if (status != LOOM_OK)
            return status;
        check(bench, op, row);
        if (round == 0)
            continue;
        samples[round - 1] = bench->clock.wall;
        wall += bench->clock.wall;
        cpu += bench->clock.cpu;
    }
    bench_note_run(bench->session, row, 0, cpu / wall);
    *seconds = bench_median(samples, repeat);
    return LOOM_OK;
}

static bench_row new_row(const multi_bench *bench, const char *op)
{
    const bench_options *options = bench->session->options;
    bench_row row = bench_row_new(bench_case_multi.name, bench->session->info.machine_name, op);
    row.key_bytes = bench->key_bytes;
    row.value_bytes = bench->value_bytes;
    row.n = bench->n;
    row.values_per_key = bench->values_per_key;
    row.drawn = multi_spread_name(bench->spread);
    row.skew = bench->spread == MULTI_ZIPF ? options->skew : bench->spread == MULTI_EVEN ? 0 : NAN;
    row.lanes = options->lanes;
    row.figure = bench->session->figure;
    return row;
}

/* Adds a row that failed, unless --sweep met what the machine does not offer: then a line says so. */
static void add_failed(multi_bench *bench, bench_row *row, loom_status status)
{
    const bench_options *options = bench->session->options;
    if (options->sweep && status == LOOM_UNSUPPORTED) {
        bench_progress_hide();
        printf("%s, %s: left out. %s\n", bench_engine_name(options->engine, LOOM_ROWS_ON_DEVICE), row->op,
               loom_last_error());
        return;
    }
    bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
    bench_report_add(&bench->session->report, row);
}

/* What the table takes. Tables of `append` have more room than their lists need; it is left out. */
static void note_stats(const multi_bench *bench, const multi_op *op, bench_row *row)
{
    loom_stats stats = LOOM_STATS_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    if (loom_map_stats(bench->map, &stats, NULL) != LOOM_OK || loom_map_get_config(bench->map, &config) != LOOM_OK)
        return;
    row->engine = bench_engine_name(stats.engine, LOOM_ROWS_ON_DEVICE);
    row->load = stats.load;
    row->density = stats.density;
    if (op->grown)
        row->density *=
            (double)stats.memory_bytes / ((double)stats.memory_bytes - (double)stats.values_free * stats.value_bytes);
    bench_row_note(row, "%g values per key, density %.3f%s", bench->values_per_key, row->density,
                   op->grown ? " without the free part of the heap" : "");
    if (stats.engine == LOOM_ENGINE_CHAIN) {
        row->first_bucket = config.first_bucket;
        row->bucket_growth = config.bucket_growth;
        bench_row_note(row, "buckets from %" PRIu64 " on, growth %.3g", (uint64_t)config.first_bucket,
                       config.bucket_growth);
    }
}

static void measure(multi_bench *bench, const multi_op *op)
{
    bench_row row = new_row(bench, op->name);
    double seconds = NAN;
    multi_expect(bench, bench->n + (op->inserts ? bench->more : 0));
    loom_status status = multi_make_queries(bench, op->of_paper ? bench->n : bench->range);
    bench_progress("multi %s with %g values per key", op->name, bench->values_per_key);
    if (status == LOOM_OK)
        status = time_op(bench, op, &row, &seconds);
    if (status != LOOM_OK) {
        add_failed(bench, &row, status);
        return;
    }
    row.mops = (double)(op->inserts ? bench->more : bench->n) / seconds * 1e-6;
    row.batch = op->inserts ? bench->more : op->finds || op->call == call_counts ? bench->asked : bench->n;
    note_stats(bench, op, &row);
    bench_report_add(&bench->session->report, &row);
}

static bool op_runs(const bench_options *options, size_t index)
{
    const multi_op *op = &multi_ops[index];
    return bench_options_wants(options, op->name) &&
           (!options->sweep || op->of_figure || (op->grown && options->op_count > 0));
}

static void run_tables(multi_bench *bench)
{
    const bench_options *options = bench->session->options;
    for (size_t i = 0; i < options->loads.count; i++) {
        bench->load = options->loads.at[i];
        const loom_status status = make_map(bench, false);
        if (status != LOOM_OK) {
            bench_row row = new_row(bench, "create");
            add_failed(bench, &row, status);
            continue;
        }
        for (size_t op = 0; multi_ops[op].name; op++)
            if (op_runs(options, op))
                measure(bench, &multi_ops[op]);
        loom_map_destroy(bench->map);
        bench->map = NULL;
    }
}

/* Makes pairs, and calls `run` with them. */
static void with_pairs(bench_session *session, multi_spread spread, uint64_t values_per_key, uint64_t more,
                       void (*run)(multi_bench *bench))
{
    multi_bench bench;
    if (multi_make_input(&bench, session, spread, values_per_key, more)) {
        run(&bench);
    } else {
        bench_row row = new_row(&bench, "pairs");
        bench_row_fail(&row, "there is no memory for the pairs of the benchmark; ask for a smaller --n");
        bench_report_add(&session->report, &row);
    }
    multi_free_input(&bench);
}

/* ---- --sweep ---- */

/* The tables of the figure. WarpCore's bucket lists begin with one value and grow by 1.1, or all buckets have as many
 * values as a key has on average. */
static const struct variant {
    loom_engine engine;
    double bucket_growth;
    bool first_is_mean;
} variants[] = {{LOOM_ENGINE_OPEN, 0, false}, {LOOM_ENGINE_CHAIN, 1.1, false}, {LOOM_ENGINE_CHAIN, 1.0, true}};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void run_variants(multi_bench *bench, const bench_options *asked)
{
    bench_session *session = bench->session;
    const bench_options *before = session->options;
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        bench_options options = *before;
        if (asked->engine != LOOM_ENGINE_DEFAULT && asked->engine != variants[i].engine)
            continue;
        options.engine = variants[i].engine;
        options.bucket_growth = variants[i].bucket_growth;
        options.first_bucket = variants[i].first_is_mean                 ? (uint64_t)bench->values_per_key
                               : variants[i].engine == LOOM_ENGINE_CHAIN ? 1
                                                                         : 0;
        session->options = &options;
        run_tables(bench);
    }
    session->options = before;
}

/* Lanes belong to a context, so other lanes need another context. The arrays stay in that of the session. */
static void run_lanes(multi_bench *bench)
{
    static const uint32_t lanes[] = {BENCH_SWEEP_LANES};
    bench_session *session = bench->session;
    const bench_options *asked = session->options;
    if (asked->lanes != 0 || session->info.machine == LOOM_MACHINE_CPU) {
        run_variants(bench, asked);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(lanes); i++) {
        bench_options options = *asked;
        loom_context_info info = LOOM_CONTEXT_INFO_INIT;
        options.lanes = lanes[i];
        session->options = &options;
        const loom_status status = bench_make_context(&options, &bench->context, &info);
        if (status == LOOM_OK) {
            run_variants(bench, asked);
            loom_context_destroy(bench->context);
        } else {
            bench_row row = new_row(bench, "context");
            add_failed(bench, &row, status);
        }
    }
    bench->context = session->context;
    session->options = asked;
}

static void begin_figure(bench_session *session, const char *shows)
{
    bench_report_heading(&session->report, shows);
    session->figure = shows;
}

static void run_sweep(bench_session *session)
{
    static const uint64_t values_per_key[] = {BENCH_SWEEP_VALUES_PER_KEY};
    static const bench_list loads = BENCH_LIST(BENCH_SWEEP_LOAD_OF_WARPCORE);
    const bench_options *asked = session->options;
    bench_options options = *asked;
    options.loads = loads;
    session->options = &options;
    begin_figure(session, "by mean number of values per key (WarpCore figure 7)");
    for (size_t i = 0; i < COUNT_OF(values_per_key); i++)
        with_pairs(session, MULTI_UNIFORM, values_per_key[i], 0, run_lanes);
    begin_figure(session, "numbers of values per key as in real data (not in WarpCore)");
    with_pairs(session, MULTI_REAL, BENCH_REAL_MEAN, 0, run_lanes);
    session->figure = NULL;
    session->options = asked;
}

/* ---- the case ---- */

static void run_multi(bench_session *session)
{
    const bench_options *options = session->options;
    const uint64_t more = options->n / MORE_DIVISOR;
    if (options->sweep)
        run_sweep(session);
    else if (options->skew == BENCH_SKEW_REAL)
        with_pairs(session, MULTI_REAL, BENCH_REAL_MEAN, more, run_tables);
    else
        for (size_t i = 0; i < options->values_per_key.count; i++)
            with_pairs(session, options->skew > 0 ? MULTI_ZIPF : MULTI_EVEN, (uint64_t)options->values_per_key.at[i],
                       more, run_tables);
}

static const char *op_name(size_t index)
{
    return multi_ops[index].name;
}

static uint32_t op_uses(size_t index)
{
    (void)index;
    return 0;
}

const bench_case bench_case_multi = {.name = "multi",
                                     .summary = "multimaps, by values per key",
                                     .op_name = op_name,
                                     .op_runs = op_runs,
                                     .op_uses = op_uses,
                                     .type = LOOM_TYPE_MULTIMAP,
                                     .any_width = BENCH_USES_KEY_BYTES | BENCH_USES_VALUE_BYTES,
                                     .uses = BENCH_USES_N | BENCH_USES_LOAD | BENCH_USES_SKEW | BENCH_USES_KEY_BYTES |
                                             BENCH_USES_VALUE_BYTES | BENCH_USES_OPS | BENCH_USES_REPEAT |
                                             BENCH_USES_VALUES_PER_KEY | BENCH_USES_ENGINE | BENCH_USES_LANES |
                                             BENCH_USES_FIRST_BUCKET | BENCH_USES_BUCKET_GROWTH | BENCH_USES_SWEEP,
                                     .sweep_sets = BENCH_USES_LOAD | BENCH_USES_SKEW | BENCH_USES_VALUES_PER_KEY |
                                                   BENCH_USES_FIRST_BUCKET | BENCH_USES_BUCKET_GROWTH,
                                     .run = run_multi,
                                     .n_of_sweep = BENCH_DEFAULT_MULTI_SWEEP_N};
