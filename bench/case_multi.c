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
 * order. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_case.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_progress.h"
#include "bench_timer.h"
#include "bench_zipf.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MORE_DIVISOR = 4 /* `insert` adds n / 4 pairs */, APPEND_CALLS = 64, GROWN_ROOM = 8 };

typedef struct multi_array {
    void *host, *near;
    uint64_t bytes;
} multi_array;

typedef struct multi_bench {
    bench_session *session;
    loom_map *map;
    uint64_t n, more, distinct, asked; /* pairs, pairs of `insert`, keys, keys of a query */
    uint32_t key_bytes, value_bytes;
    multi_array keys, values;     /* [n + more] */
    multi_array queries, offsets; /* [n] and [n + 1]; counts lie in the offsets, too */
    multi_array found;            /* [n + more] */
    uint32_t *counts;             /* [distinct] values that the key has, without and with those of `insert` */
    uint64_t *sums;               /* [distinct] of these values */
    bench_clock clock;
    double load;
} multi_bench;

/* ---- arrays ---- */

static bool make_array(const multi_bench *bench, multi_array *array, uint64_t count, uint64_t bytes)
{
    *array = (multi_array){.host = bench_array_new(count, bytes), .bytes = count * bytes};
    return array->host && bench_near_new(bench->session, LOOM_ARRAY_MACHINE, array->host, array->bytes, &array->near);
}

static void free_array(const multi_bench *bench, multi_array *array)
{
    bench_near_free(bench->session, LOOM_ARRAY_MACHINE, array->host, array->near, array->bytes);
    bench_array_free(array->host);
}

static loom_status send(const multi_bench *bench, const multi_array *array)
{
    return bench_near_copy(bench->session, array->near, array->host, array->bytes);
}

static loom_status fetch(const multi_bench *bench, const multi_array *array)
{
    return bench_near_copy(bench->session, array->host, array->near, array->bytes);
}

static bool make_arrays(multi_bench *bench)
{
    const uint64_t all = bench->n + bench->more;
    bench->counts = bench_array_new(bench->distinct, sizeof *bench->counts);
    bench->sums = bench_array_new(bench->distinct, sizeof *bench->sums);
    return bench->counts && bench->sums && make_array(bench, &bench->keys, all, bench->key_bytes) &&
           make_array(bench, &bench->values, all, bench->value_bytes) &&
           make_array(bench, &bench->queries, bench->n, bench->key_bytes) &&
           make_array(bench, &bench->offsets, bench->n + 1, sizeof(uint64_t)) &&
           make_array(bench, &bench->found, all, bench->value_bytes);
}

static void free_arrays(multi_bench *bench)
{
    free_array(bench, &bench->keys);
    free_array(bench, &bench->values);
    free_array(bench, &bench->queries);
    free_array(bench, &bench->offsets);
    free_array(bench, &bench->found);
    bench_array_free(bench->counts);
    bench_array_free(bench->sums);
}

static void expect(multi_bench *bench, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        const uint64_t key = bench_index_of(bench_get(bench->keys.host, i, bench->key_bytes), bench->key_bytes);
        bench->counts[key]++;
        bench->sums[key] += bench_get(bench->values.host, i, bench->value_bytes);
    }
}

static loom_status make_pairs(multi_bench *bench, uint64_t values_per_key)
{
    const double skew = bench->session->options->skew;
    bench_draw order, zipf;
    bench_draw_init(&order, bench->n, 0, BENCH_SEED);
    bench_draw_init(&zipf, bench->distinct, skew, BENCH_SEED + 1);
    for (uint64_t i = 0; i < bench->n + bench->more; i++) {
        const uint64_t pair = bench_draw_index(&order),
                       key = skew > 0 ? bench_draw_index(&zipf) : pair / values_per_key;
        bench_put(bench->keys.host, i, bench->key_bytes,
                  bench_key_of(key < bench->distinct ? key : bench->distinct - 1, bench->key_bytes));
        bench_put(bench->values.host, i, bench->value_bytes, bench_value_of(i, 0, bench->value_bytes));
    }
    loom_status status = send(bench, &bench->keys);
    return status == LOOM_OK ? send(bench, &bench->values) : status;
}

/* Asks for `asked` keys in a scattered order; those from `distinct` on are absent. */
static loom_status make_queries(multi_bench *bench, uint64_t asked)
{
    bench_draw order;
    bench_draw_init(&order, asked, 0, BENCH_SEED + 2);
    bench->asked = asked;
    for (uint64_t i = 0; i < asked; i++)
        bench_put(bench->queries.host, i, bench->key_bytes, bench_key_of(bench_draw_index(&order), bench->key_bytes));
    return send(bench, &bench->queries);
}

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
    bool grown; /* in a new table, whose lists grow from call to call */
} multi_op;

static const multi_op multi_ops[] = {
    {.name = "build", .call = call_build},
    {.name = "counts", .call = call_counts},
    {.name = "find_all", .call = call_find_all, .finds = true},
    {.name = "find_twice", .call = call_find_twice, .finds = true},
    {.name = "find_paper", .call = call_find_all, .finds = true, .of_paper = true},
    {.name = "insert", .call = call_insert, .inserts = true},
    {.name = "append", .call = call_append, .grown = true},
    {.name = "find_grown", .call = call_find_all, .finds = true, .grown = true},
    {0},
};

/* ---- checks ---- */

static uint64_t values_sum(const multi_bench *bench, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    for (uint64_t at = from; at < to; at++)
        sum += bench_get(bench->found.host, at, bench->value_bytes);
    return sum;
}

/* Compares the lists in `found`, or only the counts, with what the keys were given. */
static void check_lists(multi_bench *bench, bench_row *row, bool counts_only)
{
    uint64_t *offsets = bench->offsets.host, wrong = 0;
    if (fetch(bench, &bench->offsets) != LOOM_OK || fetch(bench, &bench->found) != LOOM_OK) {
        bench_row_fail(row, "answers: %s", loom_last_error());
        return;
    }
    for (uint64_t i = 0; i < bench->asked; i++) {
        const uint64_t key = bench_index_of(bench_get(bench->queries.host, i, bench->key_bytes), bench->key_bytes);
        const uint64_t count = key < bench->distinct ? bench->counts[key] : 0;
        if (counts_only)
            wrong += offsets[i] != count;
        else
            wrong += offsets[i + 1] - offsets[i] != count ||
                     (count > 0 && values_sum(bench, offsets[i], offsets[i + 1]) != bench->sums[key]);
    }
    if (wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " keys have wrong values", wrong, bench->asked);
}

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
    check_lists(bench, row, counts_only);
}

/* ---- rows ---- */

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
    return loom_map_create(bench->session->context, &config, &bench->map);
}

static loom_status reset(multi_bench *bench, const multi_op *op)
{
    memset(bench->found.host, 0xa5, bench->found.bytes);
    memset(bench->offsets.host, 0xa5, bench->offsets.bytes);
    loom_status status = send(bench, &bench->found);
    if (status == LOOM_OK)
        status = send(bench, &bench->offsets);
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

/* One warm-up, then the median of the repetitions. NAN: it could not be run. */
static double time_op(multi_bench *bench, const multi_op *op, bench_row *row)
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
        if (status != LOOM_OK) {
            bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
            return NAN;
        }
        check(bench, op, row);
        if (round == 0)
            continue;
        samples[round - 1] = bench->clock.wall;
        wall += bench->clock.wall;
        cpu += bench->clock.cpu;
    }
    bench_note_run(bench->session, row, 0, cpu / wall);
    return bench_median(samples, repeat);
}

static bench_row new_row(const multi_bench *bench, const char *op, double values_per_key)
{
    bench_row row = bench_row_new(bench_case_multi.name, bench->session->info.machine_name, op);
    row.key_bytes = bench->key_bytes;
    row.value_bytes = bench->value_bytes;
    row.n = bench->n;
    row.values_per_key = values_per_key;
    row.skew = bench->session->options->skew;
    return row;
}

static void measure(multi_bench *bench, const multi_op *op, double values_per_key)
{
    bench_row row = new_row(bench, op->name, values_per_key);
    loom_stats stats = LOOM_STATS_INIT;
    memset(bench->counts, 0, bench->distinct * sizeof *bench->counts);
    memset(bench->sums, 0, bench->distinct * sizeof *bench->sums);
    expect(bench, 0, bench->n + (op->inserts ? bench->more : 0));
    if (make_queries(bench, op->of_paper ? bench->n : bench->distinct) != LOOM_OK)
        bench_row_fail(&row, "keys: %s", loom_last_error());
    bench_progress("multi %s with %g values per key", op->name, values_per_key);
    const double seconds = time_op(bench, op, &row);
    if (!isnan(seconds))
        row.mops = (double)(op->inserts ? bench->more : bench->n) / seconds * 1e-6;
    row.batch = op->inserts ? bench->more : op->finds || op->call == call_counts ? bench->asked : bench->n;
    if (loom_map_stats(bench->map, &stats, NULL) == LOOM_OK) {
        row.engine = bench_engine_name(stats.engine);
        row.load = stats.load;
        row.density = stats.density;
        if (op->grown) {
            row.density *= (double)stats.memory_bytes /
                           ((double)stats.memory_bytes - (double)stats.values_free * stats.value_bytes);
            bench_row_note(&row, "%g values per key, density %.3f without the free part of the heap", values_per_key,
                           row.density);
        } else {
            bench_row_note(&row, "%g values per key, density %.3f", values_per_key, stats.density);
        }
    }
    bench_report_add(&bench->session->report, &row);
}

static void run_tables(multi_bench *bench, double values_per_key)
{
    const bench_options *options = bench->session->options;
    for (size_t i = 0; i < options->loads.count; i++) {
        bench->load = options->loads.at[i];
        if (make_map(bench, false) != LOOM_OK) {
            bench_row row = new_row(bench, "create", values_per_key);
            bench_row_fail(&row, "%s", loom_last_error());
            bench_report_add(&bench->session->report, &row);
            continue;
        }
        for (const multi_op *op = multi_ops; op->name; op++)
            if (bench_options_wants(options, op->name))
                measure(bench, op, values_per_key);
        loom_map_destroy(bench->map);
        bench->map = NULL;
    }
}

static void run_multi(bench_session *session)
{
    const bench_options *options = session->options;
    for (size_t i = 0; i < options->values_per_key.count; i++) {
        const uint64_t each = (uint64_t)options->values_per_key.at[i];
        multi_bench bench = {.session = session,
                             .n = options->n,
                             .more = options->n / MORE_DIVISOR,
                             .distinct = (options->n + each - 1) / each,
                             .key_bytes = options->key_bytes,
                             .value_bytes = options->value_bytes};
        bench_progress("multi: making %.1f M pairs", (double)options->n * 1e-6);
        if (make_arrays(&bench) && make_pairs(&bench, each) == LOOM_OK) {
            run_tables(&bench, (double)each);
        } else {
            bench_row row = new_row(&bench, "pairs", (double)each);
            bench_row_fail(&row, "there is no memory for the pairs of the benchmark; ask for a smaller --n");
            bench_report_add(&session->report, &row);
        }
        free_arrays(&bench);
    }
}

static const char *op_name(size_t index)
{
    return multi_ops[index].name;
}

static bool op_runs(const bench_options *options, size_t index)
{
    return bench_options_wants(options, multi_ops[index].name);
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
                                     .uses = BENCH_USES_N | BENCH_USES_LOAD | BENCH_USES_SKEW | BENCH_USES_KEY_BYTES |
                                             BENCH_USES_VALUE_BYTES | BENCH_USES_OPS | BENCH_USES_REPEAT |
                                             BENCH_USES_VALUES_PER_KEY | BENCH_USES_ENGINE | BENCH_USES_FIRST_BUCKET |
                                             BENCH_USES_BUCKET_GROWTH,
                                     .run = run_multi};
