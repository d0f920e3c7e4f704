/* The case `map`: the bulk operations on a map, set or counter of each load. Each row is checked and compared with a
 * limit measured at the footprint of the same table.
 *
 *   share = rate * accesses / limit           find: random reads of 64 bytes; insert: random CAS, since a key leaves a
 *                                             mark in every bucket that it passes; others: both, as far as they do both
 *   share = bytes moved / time / bandwidth    build: copy
 * With --skew or --hot only builds have a limit and a share: frequent keys lie in caches, or threads wait for each
 * other at them, and no limit measured here applies. */
#include "bench_axes.h"
#include "bench_case.h"
#include "bench_parse.h"
#include "bench_progress.h"
#include "bench_timer.h"
#include "map_bench.h"
#include "table_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static loom_map_config config_of(const map_bench *bench, uint64_t capacity, double growth)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = bench->key_bytes;
    config.value_bytes = bench->value_bytes;
    config.type = bench->session->options->type;
    config.capacity = capacity;
    config.max_load = bench->max_load;
    config.growth = growth;
    config.engine = bench->session->options->engine;
    config.row_place = bench->session->options->row_place;
    config.concurrent_reads = bench->session->options->concurrent_reads;
    return config;
}

loom_status map_make_table(map_bench *bench, uint64_t capacity, double growth)
{
    const loom_map_config config = config_of(bench, capacity, growth);
    bench->holds = MAP_HOLDS_OTHER;
    loom_map_destroy(bench->map);
    bench->map = NULL;
    return loom_map_create(bench->session->context, &config, &bench->map);
}

static void take_workspace_back(map_bench *bench)
{
    loom_array_destroy(bench->session->context, LOOM_ARRAY_MACHINE, bench->workspace, bench->workspace_bytes);
    bench->workspace = NULL;
    bench->workspace_bytes = 0;
}

/* Lends the table what a build of all keys takes. Otherwise each build allocates and releases its temporary memory; a
 * device keeps some of it, but not the tens of gigabytes of the largest builds. */
static loom_status lend_workspace(map_bench *bench)
{
    const loom_map_config config = config_of(bench, bench->n, 0);
    loom_memory memory = LOOM_MEMORY_INIT;
    loom_status status = loom_map_memory_required(bench->session->context, &config, &memory);
    if (status != LOOM_OK || memory.build_bytes == 0)
        return status;
    status = loom_array_create(bench->session->context, LOOM_ARRAY_MACHINE, memory.build_bytes, &bench->workspace);
    if (status != LOOM_OK)
        return status;
    bench->workspace_bytes = memory.build_bytes;
    return loom_map_set_workspace(bench->map, bench->workspace, memory.build_bytes);
}

/* Tables are measured as made; only `grow` and the operations with --from grow them. */
static loom_status make_first_table(map_bench *bench, loom_stats *stats)
{
    loom_status status = map_make_table(bench, bench->n, 0);
    if (status == LOOM_OK && bench->session->options->workspace)
        status = lend_workspace(bench);
    if (status == LOOM_OK)
        status = loom_map_stats(bench->map, stats, NULL);
    if (status == LOOM_OK)
        status = loom_map_memory_used(bench->map, &bench->footprint);
    bench->slots = stats->slots;
    return status;
}

static double count_accesses(map_bench *bench, bench_row *row)
{
    uint64_t accesses = 0;
    if (loom_map_count_accesses(bench->map, bench->keys, bench->count, &accesses, NULL) != LOOM_OK)
        bench_row_fail(row, "count_accesses: %s", loom_last_error());
    return (double)accesses / (double)bench->count;
}

/* Notes options that have no column. */
static void note_options(const map_bench *bench, bench_row *row)
{
    if (row->hot > 0)
        bench_row_note(row, "hot %g", row->hot);
    if (bench->session->options->concurrent_reads)
        bench_row_note(row, "concurrent reads");
    if (bench->workspace_bytes > 0)
        bench_row_note(row, "workspace %.3f MB", (double)bench->workspace_bytes * 1e-6);
}

/* Notes how the table took the keys: a table is made to refuse none, except those of `refuse`. */
static void note_contents(map_bench *bench, const map_op *op, bench_row *row)
{
    loom_stats stats = LOOM_STATS_INIT;
    if (!(op->traits & MAP_OP_FILLS))
        return;
    if (loom_map_stats(bench->map, &stats, NULL) != LOOM_OK) {
        bench_row_fail(row, "stats: %s", loom_last_error());
        return;
    }
    const uint64_t wanted = op->keys_held(bench);
    row->refused = stats.size < wanted ? wanted - stats.size : 0;
    row->load = stats.load; /* the table may have grown since it was made */
    if (op->traits & MAP_OP_PER_FROM)
        bench_row_note(row, "from capacity %" PRIu64, (uint64_t)((double)bench->n * bench->from));
    else if (op->traits & MAP_OP_ADDS)
        bench_row_note(row, "from load %.3f", (double)(wanted - bench->operations) / (double)stats.slots);
    if (stats.code_bytes == 0)
        return;
    row->code_bytes = stats.code_bytes;
    row->stashed = stats.stashed;
    bench_row_note(row, "%" PRIu64 " keys refused, %" PRIu64 " stashed, codes %.3f MB", row->refused, row->stashed,
                   (double)row->code_bytes * 1e-6);
}

static loom_status run_op(map_bench *bench, const map_op *op)
{
    bench->clock = (bench_clock){0};
    bench->calls = op->traits & MAP_OP_WHOLE ? 1 : 0;
    if (op->run)
        return op->run(bench);
    bench_clock_start(&bench->clock);
    const loom_status status = op->traits & MAP_OP_WHOLE ? op->call(bench, 0, bench->count, NULL)
                                                         : map_call_in_batches(bench, op->call, 0, bench->count);
    bench_clock_stop(&bench->clock);
    return status;
}

/* One warm-up, then the median of the repetitions; every repetition is checked. NAN: it could not be run. */
static double time_op(map_bench *bench, const map_op *op, bench_row *row)
{
    double samples[BENCH_MAX_REPEAT], wall = 0, cpu = 0;
    const uint64_t repeat = bench->session->options->repeat;
    for (uint64_t round = 0; round <= repeat; round++) {
        if (op->reset(bench) != LOOM_OK) {
            bench_row_fail(row, "before %s: %s", op->name, loom_last_error());
            return NAN;
        }
        if (round == 0 && op->accesses == MAP_ACCESSES_BEFORE)
            row->accesses = count_accesses(bench, row);
        const loom_status status = run_op(bench, op);
        if (status != LOOM_OK) {
            bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
            note_contents(bench, op, row);
            return NAN;
        }
        if ((op->traits & MAP_OP_ANSWERS) && map_fetch_answers(bench) != LOOM_OK)
            bench_row_fail(row, "answers: %s", loom_last_error());
        op->check(bench, row);
        if (round == 0)
            continue;
        samples[round - 1] = bench->clock.wall;
        wall += bench->clock.wall;
        cpu += bench->clock.cpu;
    }
    note_options(bench, row);
    note_contents(bench, op, row);
    bench_note_run(bench->session, row, bench->session->options->queries != bench->n ? bench->count : 0, cpu / wall);
    if (op->accesses == MAP_ACCESSES_AFTER)
        row->accesses = count_accesses(bench, row);
    if (op->check_all)
        op->check_all(bench, row);
    return bench_median(samples, repeat);
}

typedef struct limits_of_op {
    double copy, reads, swaps; /* those that the operation is compared with; others NAN */
    double answered;           /* reads as lookups do them, with keys and answers; NAN: no such lookup */
} limits_of_op;

static double get_limit(map_bench *bench, loom_limit_kind kind, uint32_t access_bytes, bench_row *row)
{
    return bench_limit_rate(bench->session, kind, access_bytes, bench->footprint, row);
}

/* Whether the operation moves what LOOM_LIMIT_ANSWERED_READ moves. */
static bool answers_reads(const map_bench *bench, const map_op *op)
{
    return op->limit == MAP_LIMIT_READS && (op->traits & MAP_OP_ANSWERS) && bench->key_bytes == 4 &&
           bench->value_bytes == 4 && bench->session->info.machine != LOOM_MACHINE_CPU;
}

static void get_limits(map_bench *bench, const map_op *op, limits_of_op *limits, bench_row *row)
{
    *limits = (limits_of_op){NAN, NAN, NAN, NAN};
    if (op->limit == MAP_LIMIT_COPY)
        limits->copy = get_limit(bench, LOOM_LIMIT_COPY, 0, row);
    if (bench->session->options->skew > 0 || bench->session->options->hot > 0)
        return;
    const bool mixed = op->limit == MAP_LIMIT_LAST_SWAPS || op->limit == MAP_LIMIT_HALF_SWAPS;
    if (answers_reads(bench, op))
        limits->answered = get_limit(bench, LOOM_LIMIT_ANSWERED_READ, 0, row);
    if (op->limit == MAP_LIMIT_READS || mixed)
        limits->reads = get_limit(bench, LOOM_LIMIT_RANDOM_READ, 64, row);
    if (op->limit == MAP_LIMIT_SWAPS || mixed)
        limits->swaps = get_limit(bench, LOOM_LIMIT_RANDOM_CAS, 0, row);
    if (mixed && !isnan(limits->swaps))
        snprintf(row->limit_name, sizeof row->limit_name, "reads and cas");
}

/* The most accesses per second that the hardware could do, of the operation's kinds of access. */
static double access_limit(const map_op *op, const limits_of_op *limits, double accesses)
{
    switch (op->limit) {
    case MAP_LIMIT_READS:
        return limits->reads;
    case MAP_LIMIT_SWAPS:
        return limits->swaps;
    case MAP_LIMIT_HALF_SWAPS:
        return 2 / (1 / limits->reads + 1 / limits->swaps);
    case MAP_LIMIT_NONE:
    case MAP_LIMIT_COPY:
        return NAN;
    case MAP_LIMIT_LAST_SWAPS:
        break;
    }
    return accesses / ((accesses - 1) / limits->reads + 1 / limits->swaps);
}

static const char *type_name(const map_bench *bench)
{
    return table_type_name(bench->session->options->type);
}

static void measure(map_bench *bench, const map_op *op, double hit, const loom_stats *stats)
{
    bench_session *session = bench->session;
    bench_row row = bench_row_new(type_name(bench), session->info.machine_name, op->name);
    char what[64], hits[24] = "";
    if (!isnan(hit))
        snprintf(hits, sizeof hits, ", %.0f %% hits", hit);
    snprintf(what, sizeof what, "%s %s%s", type_name(bench), op->name, hits);

    bench_progress("%s: making keys", what);
    op->make_input(bench, hit);
    if (map_send_input(bench, 0, bench->count) != LOOM_OK)
        bench_row_fail(&row, "keys: %s", loom_last_error());
    row.engine = bench_engine_name(stats->engine, bench->session->options->row_place);
    row.key_bytes = bench->key_bytes;
    row.value_bytes = bench->value_bytes;
    row.n = bench->n;
    row.load = (double)op->keys_held(bench) / (double)bench->slots;
    row.hit = hit;
    row.from = bench->from;
    row.skew = op->traits & MAP_OP_PLAIN_KEYS ? 0 : session->options->skew;
    row.hot = op->traits & MAP_OP_PLAIN_KEYS ? 0 : session->options->hot;
    row.lanes = session->options->lanes;
    row.figure = session->figure;
    row.batch = (op->traits & MAP_OP_WHOLE) || bench->longest_call < bench->batch ? bench->longest_call : bench->batch;

    limits_of_op limits;
    get_limits(bench, op, &limits, &row);

    bench_progress("%s at load %.2f", what, row.load);
    const double seconds = time_op(bench, op, &row);
    if (!isnan(seconds)) {
        const double bytes = op->bytes(bench, row.accesses);
        row.mops = (double)bench->operations / seconds * 1e-6;
        bench_note_calls(session, &row, bench->calls, seconds);
        row.gbps = bytes / seconds * 1e-9;
        if (op->limit == MAP_LIMIT_COPY) {
            row.limit = limits.copy * 1e-9;
            row.share = row.gbps / row.limit;
        } else {
            row.limit = access_limit(op, &limits, row.accesses) * 1e-6;
            row.share = row.mops * row.accesses / row.limit;
        }
        if (!isnan(limits.answered))
            bench_row_note(&row, "%.3f of answered reads, %.1f G/s", row.mops * row.accesses * 1e6 / limits.answered,
                           limits.answered * 1e-9);
    }
    bench_report_add(&session->report, &row);
}

static bool is_for(const map_op *op, loom_type type)
{
    return type != LOOM_TYPE_SET || (op->traits & MAP_OP_SETS);
}

static const char *name_to_ask_for(const map_op *op)
{
    return op->asked_as ? op->asked_as : op->name;
}

static bool is_wanted(const map_op *op, const bench_options *options)
{
    if (options->op_count == 0 && (op->traits & MAP_OP_IF_ASKED))
        return false;
    return bench_options_wants(options, name_to_ask_for(op)) && is_for(op, options->type);
}

static bool is_offered(const bench_session *session, const map_op *op)
{
    const bench_options *options = session->options;
    return loom_supports(session->context, options->type, options->engine, op->needs) == LOOM_OK;
}

/* Names the operations that a set does not have, unless --ops was given: then they were refused before. Names those
 * that the engine or the machine does not offer. */
static void say_what_is_left_out(const bench_session *session)
{
    const bench_options *options = session->options;
    const char *before = "left out, since a set has no values: ";
    for (const map_op *op = map_ops; op->name && options->op_count == 0; op++) {
        if (is_for(op, options->type))
            continue;
        printf("%s%s", before, op->name);
        before = ", ";
    }
    if (before[0] == ',')
        printf("\n");
    for (const map_op *op = map_ops; op->name; op++) {
        if (is_wanted(op, options) && !is_offered(session, op))
            printf("left out: %s (%s)\n", op->name, loom_last_error());
    }
}

/* All rows of an operation. */
static void measure_all(map_bench *bench, const map_op *op, const loom_stats *stats)
{
    const bench_options *options = bench->session->options;
    const bool per_hit = op->traits & MAP_OP_PER_HIT, per_from = op->traits & MAP_OP_PER_FROM;
    const size_t rows = per_hit ? options->hits.count : per_from ? options->from.count : 1;
    for (size_t i = 0; i < rows; i++) {
        bench->from = per_from ? options->from.at[i] : NAN;
        measure(bench, op, per_hit ? options->hits.at[i] : NAN, stats);
    }
}

static void run_load(map_bench *bench, double load)
{
    const bench_options *options = bench->session->options;
    loom_stats stats = LOOM_STATS_INIT;
    bench_progress("%s: making a table for load %.2f", type_name(bench), load);
    bench->max_load = load;
    if (make_first_table(bench, &stats) != LOOM_OK) {
        bench_row row = bench_row_new(type_name(bench), bench->session->info.machine_name, "create");
        row.n = bench->n;
        row.load = load;
        row.lanes = options->lanes;
        row.figure = bench->session->figure;
        bench_row_fail(&row, "%s", loom_last_error());
        bench_report_add(&bench->session->report, &row);
    } else {
        for (const map_op *op = map_ops; op->name; op++) {
            if (!is_wanted(op, options) || !is_offered(bench->session, op))
                continue;
            if ((op->traits & MAP_OP_AFTER_CHURN) && bench->holds != MAP_HOLDS_CHURNED)
                continue; /* the row of the churn has failed and says why */
            measure_all(bench, op, &stats);
        }
    }
    loom_map_destroy(bench->map);
    bench->map = NULL;
    take_workspace_back(bench);
}

/* The traits of all operations of the run. */
static uint32_t traits_of_run(const bench_session *session)
{
    uint32_t traits = 0;
    for (const map_op *op = map_ops; op->name; op++)
        if (is_wanted(op, session->options) && is_offered(session, op))
            traits |= op->traits;
    return traits;
}

void map_run(bench_session *session)
{
    const bench_options *options = session->options;
    map_bench bench = {.session = session,
                       .n = options->n,
                       .most = options->queries > options->n ? options->queries : options->n,
                       .key_bytes = options->key_bytes,
                       .value_bytes = options->value_bytes,
                       .batch = options->batch};
    say_what_is_left_out(session);
    bench_progress("%s: making %.1f M keys", type_name(&bench), (double)options->n * 1e-6);
    if (map_make_arrays(&bench, traits_of_run(session))) {
        for (size_t i = 0; i < options->loads.count; i++)
            run_load(&bench, options->loads.at[i]);
    } else {
        bench_row row = bench_row_new(type_name(&bench), session->info.machine_name, "keys");
        row.n = options->n;
        row.figure = session->figure;
        bench_row_fail(&row, "there is no memory for the keys of the benchmark; ask for a smaller --n or --queries");
        bench_report_add(&session->report, &row);
    }
    map_free_arrays(&bench);
}

const char *map_op_name(size_t index)
{
    return map_ops[index].name ? name_to_ask_for(&map_ops[index]) : NULL;
}

bool map_op_is_for(size_t index, loom_type type)
{
    return is_for(&map_ops[index], type);
}

bool map_op_runs(const bench_options *options, size_t index)
{
    return is_wanted(&map_ops[index], options);
}

uint32_t map_op_uses(size_t index)
{
    const uint32_t traits = map_ops[index].traits;
    return (traits & MAP_OP_PER_HIT ? BENCH_USES_HIT | BENCH_USES_QUERIES : 0u) |
           (traits & MAP_OP_QUERIES ? BENCH_USES_QUERIES : 0u) |
           (traits & MAP_OP_PLAIN_KEYS ? 0u : BENCH_USES_SKEW | BENCH_USES_HOT) |
           (traits & MAP_OP_WHOLE ? 0u : BENCH_USES_BATCH | BENCH_USES_WAIT) |
           (traits & MAP_OP_ADDS ? BENCH_USES_MORE : 0u) | (traits & MAP_OP_PER_FROM ? BENCH_USES_FROM : 0u);
}

const bench_case bench_case_map = {.name = "map",
                                   .summary = "the bulk operations on a map, set or counter",
                                   .op_name = map_op_name,
                                   .op_is_for = map_op_is_for,
                                   .op_runs = map_op_runs,
                                   .op_uses = map_op_uses,
                                   .uses = MAP_USES,
                                   .type = LOOM_TYPE_MAP,
                                   .run = map_run};
