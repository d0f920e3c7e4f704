/* The case `group`: what a group-by costs. The keys of n rows are those of so many groups (--groups), drawn uniformly, or
 * by Zipf's law (--skew).
 *
 *   count      the rows of each group: loom_map_count
 *   aggregate  the sum and the minimum of its values, and the count: three calls for each batch, one for each of three
 *              tables
 *
 * A table is made for a share of the groups (--from) and grows. With a share of 1 it is made for all groups and does not
 * grow. All rows come in one call, or --batch rows at a time. Rates are in rows. In every repetition the tables are new,
 * and afterwards the results of every group are compared with those that follow from the rows. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_calls.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_parse.h"
#include "bench_progress.h"
#include "bench_threads.h"
#include "bench_timer.h"
#include "bench_zipf.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

/* The tables of `aggregate`; `count` has the first. */
enum { COUNTS, SUMS, LEASTS, TABLES };

static const struct {
    const char *name;
    int tables;
} ops[] = {{"count", COUNTS + 1}, {"aggregate", TABLES}};

enum { OPS = sizeof ops / sizeof *ops, AGGREGATE = 1 };

typedef struct group_totals {
    uint64_t count, sum, least;
} group_totals;

typedef struct group_bench {
    bench_session *session;
    uint64_t rows, groups;
    uint64_t present; /* groups that have rows */
    uint64_t at_once; /* groups that a check looks up at once */
    uint32_t key_bytes, value_bytes;
    double load, from;
    int tables; /* of the operation */
    loom_map *table[TABLES];
    void *keys, *values; /* [rows]; values only for `aggregate` */
    void *near_keys, *near_values;
    loom_result *near_results;
    group_totals *totals; /* [groups] */
    void *asked, *found;  /* [at_once] of a check */
    uint8_t *status;      /* likewise */
} group_bench;

/* ---- Rows --------------------------------------------------------------------------------------------- */

static void draw_keys(void *work, uint64_t begin, uint64_t end)
{
    const group_bench *bench = work;
    const double skew = bench->session->options->skew;
    bench_draw draw;
    bench_draw_init(&draw, bench->groups, skew, BENCH_SEED);
    bench_draw_from(&draw, begin);
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t group =
            skew > 0 ? bench_draw_index(&draw) : (uint64_t)(bench_draw_unit(&draw) * (double)bench->groups);
        bench_put(bench->keys, i, bench->key_bytes, bench_key_of(group, bench->key_bytes));
    }
}

static uint64_t value_of(const group_bench *bench, uint64_t row)
{
    return bench_value_of(row, 0, bench->value_bytes);
}

static void make_values(void *work, uint64_t begin, uint64_t end)
{
    const group_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->values, i, bench->value_bytes, value_of(bench, i));
}

/* By one thread: several would wait for each other at the totals of few groups. */
static void add_up(group_bench *bench)
{
    for (uint64_t group = 0; group < bench->groups; group++)
        bench->totals[group] = (group_totals){.least = UINT64_MAX};
    bench->present = 0;
    for (uint64_t i = 0; i < bench->rows; i++) {
        const uint64_t value = value_of(bench, i);
        group_totals *group =
            &bench->totals[bench_index_of(bench_get(bench->keys, i, bench->key_bytes), bench->key_bytes)];
        bench->present += group->count++ == 0;
        group->sum += value;
        group->least = value < group->least ? value : group->least;
    }
}

/* ---- Calls -------------------------------------------------------------------------------------------- */

static loom_status accumulate(const group_bench *bench, int table, loom_combine combine, uint64_t at, uint64_t n,
                              loom_result *result)
{
    return loom_map_accumulate(bench->table[table], bench_at(bench->near_keys, at, bench->key_bytes),
                               bench_at(bench->near_values, at, bench->value_bytes), n, combine,
                               bench->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64, NULL, result, NULL);
}

/* The calls of a batch have one result: an error of the first ones shows in the checks. */
static loom_status call(void *work, uint64_t at, uint64_t n, loom_result *result)
{
    const group_bench *bench = work;
    loom_status status = LOOM_OK;
    if (bench->tables > SUMS)
        status = accumulate(bench, SUMS, LOOM_COMBINE_ADD, at, n, result);
    if (bench->tables > LEASTS && status == LOOM_OK)
        status = accumulate(bench, LEASTS, LOOM_COMBINE_MIN, at, n, result);
    if (status == LOOM_OK)
        status = loom_map_count(bench->table[COUNTS], bench_at(bench->near_keys, at, bench->key_bytes), n, NULL, result,
                                NULL);
    return status;
}

static void destroy_tables(group_bench *bench)
{
    for (int i = 0; i < TABLES; i++) {
        loom_map_destroy(bench->table[i]);
        bench->table[i] = NULL;
    }
}

static uint64_t capacity_of(const group_bench *bench)
{
    return (uint64_t)((double)bench->groups * bench->from);
}

static bool grows(const group_bench *bench)
{
    return bench->from < 1;
}

static loom_status make_tables(group_bench *bench)
{
    const bench_options *options = bench->session->options;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_status status = LOOM_OK;
    config.key_bytes = bench->key_bytes;
    config.value_bytes = bench->value_bytes;
    config.engine = options->engine;
    config.row_place = options->row_place;
    config.capacity = capacity_of(bench);
    config.max_load = bench->load;
    config.growth = grows(bench) ? 2 : 0;
    destroy_tables(bench);
    for (int i = 0; i < bench->tables && status == LOOM_OK; i++)
        status = loom_map_create(bench->session->context, &config, &bench->table[i]);
    return status;
}

/* ---- Checks ------------------------------------------------------------------------------------------- */

typedef struct check_work {
    const group_bench *bench;
    int table;
    uint64_t first; /* group of the first key looked up */
    _Atomic uint64_t wrong;
} check_work;

static void ask(void *work, uint64_t begin, uint64_t end)
{
    const check_work *all = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(all->bench->asked, i, all->bench->key_bytes, bench_key_of(all->first + i, all->bench->key_bytes));
}

/* Groups without rows are absent, and their value is 0. */
static uint64_t total_of(const group_bench *bench, int table, uint64_t group)
{
    const group_totals *of = &bench->totals[group];
    const uint64_t total = of->count == 0 ? 0 : table == COUNTS ? of->count : table == SUMS ? of->sum : of->least;
    return bench->value_bytes == 4 ? total & UINT32_MAX : total;
}

static void compare(void *work, uint64_t begin, uint64_t end)
{
    check_work *all = work;
    const group_bench *bench = all->bench;
    uint64_t wrong = 0;
    for (uint64_t i = begin; i < end; i++)
        wrong += bench->status[i] != (bench->totals[all->first + i].count > 0 ? LOOM_OK : LOOM_NOT_FOUND) ||
                 bench_get(bench->found, i, bench->value_bytes) != total_of(bench, all->table, all->first + i);
    atomic_fetch_add(&all->wrong, wrong);
}

static void check_table(group_bench *bench, int table, bench_row *row)
{
    check_work all = {.bench = bench, .table = table};
    uint64_t size = 0;
    if (loom_map_size(bench->table[table], &size, NULL) != LOOM_OK)
        bench_row_fail(row, "size: %s", loom_last_error());
    else if (size != bench->present)
        bench_row_fail(row, "%" PRIu64 " groups instead of %" PRIu64, size, bench->present);
    for (; all.first < bench->groups && !bench_row_failed(row); all.first += bench->at_once) {
        const uint64_t left = bench->groups - all.first, some = left < bench->at_once ? left : bench->at_once;
        bench_in_parallel(some, BENCH_GRAIN, ask, &all);
        bench_fill(bench->found, 0xa5, some * bench->value_bytes);
        bench_fill(bench->status, 0xa5, some);
        if (loom_map_find(bench->table[table], bench->asked, some, bench->found, NULL, bench->status, NULL, NULL) !=
            LOOM_OK)
            bench_row_fail(row, "find: %s", loom_last_error());
        bench_in_parallel(some, BENCH_GRAIN, compare, &all);
    }
    if (all.wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " groups have a wrong %s", (uint64_t)all.wrong, bench->groups,
                       table == COUNTS ? "count"
                       : table == SUMS ? "sum"
                                       : "minimum");
}

/* ---- Rows of results ---------------------------------------------------------------------------------- */

/* One warm-up, then the median of the repetitions. NAN: it could not be run. */
static double time_calls(group_bench *bench, bench_row *row)
{
    const bench_session *session = bench->session;
    double samples[BENCH_MAX_REPEAT];
    bench_clock all = {0};
    for (uint64_t round = 0; round <= session->options->repeat; round++) {
        bench_clock clock = {0};
        loom_status status = make_tables(bench);
        bench_clock_start(&clock);
        if (status == LOOM_OK)
            status =
                bench_call_in_batches(session->context, call, bench, 0, bench->rows, row->batch, bench->near_results);
        bench_clock_stop(&clock);
        if (status != LOOM_OK) {
            bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
            return NAN;
        }
        for (int i = 0; i < bench->tables; i++)
            check_table(bench, i, row);
        if (round == 0)
            continue;
        samples[round - 1] = clock.wall;
        all.wall += clock.wall;
        all.cpu += clock.cpu;
    }
    bench_note_run(session, row, 0, all.cpu / all.wall);
    return bench_median(samples, session->options->repeat);
}

static bench_row new_row(const group_bench *bench, const char *op)
{
    const bench_options *options = bench->session->options;
    bench_row row = bench_row_new(bench_case_group.name, bench->session->info.machine_name, op);
    row.engine = bench_engine_name(options->engine, options->row_place);
    row.key_bytes = bench->key_bytes;
    row.value_bytes = bench->value_bytes;
    row.n = bench->rows;
    row.groups = bench->groups;
    row.load = bench->load;
    row.skew = options->skew;
    row.batch = options->batch < bench->rows ? options->batch : bench->rows;
    row.lanes = options->lanes;
    return row;
}

static void measure(group_bench *bench, int op)
{
    bench_row row = new_row(bench, ops[op].name);
    loom_stats stats = LOOM_STATS_INIT;
    row.from = bench->from;
    bench->tables = ops[op].tables;
    bench_progress("group: %s, %" PRIu64 " groups", row.op, bench->groups);
    bench_row_note(&row, "%" PRIu64 " groups, capacity %" PRIu64 "%s", bench->groups, capacity_of(bench),
                   grows(bench) ? " at first" : "");
    const double seconds = time_calls(bench, &row);
    if (!isnan(seconds) && loom_map_stats(bench->table[COUNTS], &stats, NULL) != LOOM_OK)
        bench_row_fail(&row, "stats: %s", loom_last_error());
    if (!isnan(seconds)) {
        const uint64_t values = (uint64_t)bench->tables - 1; /* of a row that are read; the count needs none */
        row.engine = bench_engine_name(stats.engine, bench->session->options->row_place);
        row.load = stats.load;
        row.mops = (double)bench->rows / seconds * 1e-6;
        row.gbps = row.mops * (double)((values + 1) * bench->key_bytes + values * bench->value_bytes) * 1e-3;
        bench_row_note(&row, "%.4g s", seconds);
        bench_note_calls(bench->session, &row, (bench->rows + row.batch - 1) / row.batch * (uint64_t)bench->tables,
                         seconds);
    }
    destroy_tables(bench);
    bench_report_add(&bench->session->report, &row);
}

/* ---- The case ----------------------------------------------------------------------------------------- */

/* All operations on the rows of so many groups. */
static void measure_groups(group_bench *bench, const bench_list *loads, const bench_list *from)
{
    bench_progress("group: making %.1f M rows of %" PRIu64 " groups", (double)bench->rows * 1e-6, bench->groups);
    bench_in_parallel(bench->rows, BENCH_GRAIN, draw_keys, bench);
    add_up(bench);
    if (bench_near_copy(bench->session, bench->near_keys, bench->keys, bench->rows * bench->key_bytes) != LOOM_OK) {
        bench_row row = new_row(bench, "keys");
        bench_row_fail(&row, "%s", loom_last_error());
        bench_report_add(&bench->session->report, &row);
        return;
    }
    for (size_t i = 0; i < loads->count; i++) {
        for (int op = 0; op < OPS; op++) {
            for (size_t j = 0; j < from->count && bench_options_wants(bench->session->options, ops[op].name); j++) {
                bench->load = loads->at[i];
                bench->from = from->at[j];
                measure(bench, op);
            }
        }
    }
}

static bool make_arrays(group_bench *bench, uint64_t most_groups)
{
    bench_session *session = bench->session;
    const bool values = bench_options_wants(session->options, ops[AGGREGATE].name);
    bench->at_once = most_groups < BENCH_CHECKED_AT_ONCE ? most_groups : BENCH_CHECKED_AT_ONCE;
    bench->keys = bench_array_new(bench->rows, bench->key_bytes);
    bench->values = values ? bench_array_new(bench->rows, bench->value_bytes) : NULL;
    bench->totals = bench_array_new(most_groups, sizeof *bench->totals);
    bench->asked = bench_array_new(bench->at_once, bench->key_bytes);
    bench->found = bench_array_new(bench->at_once, bench->value_bytes);
    bench->status = bench_array_new(bench->at_once, 1);
    if (!bench->keys || (values && !bench->values) || !bench->totals || !bench->asked || !bench->found ||
        !bench->status ||
        !bench_near_new(session, LOOM_ARRAY_MACHINE, bench->keys, bench->rows * bench->key_bytes, &bench->near_keys) ||
        !bench_results_new(session, &bench->near_results))
        return false;
    if (!values)
        return true;
    bench_in_parallel(bench->rows, BENCH_GRAIN, make_values, bench);
    const uint64_t bytes = bench->rows * bench->value_bytes;
    return bench_near_new(session, LOOM_ARRAY_MACHINE, bench->values, bytes, &bench->near_values) &&
           bench_near_copy(session, bench->near_values, bench->values, bytes) == LOOM_OK;
}

static void free_arrays(group_bench *bench)
{
    bench_session *session = bench->session;
    bench_near_free(session, LOOM_ARRAY_MACHINE, bench->keys, bench->near_keys, bench->rows * bench->key_bytes);
    bench_near_free(session, LOOM_ARRAY_MACHINE, bench->values, bench->near_values, bench->rows * bench->value_bytes);
    bench_results_free(session, bench->near_results);
    bench_array_free(bench->keys);
    bench_array_free(bench->values);
    bench_array_free(bench->totals);
    bench_array_free(bench->asked);
    bench_array_free(bench->found);
    bench_array_free(bench->status);
}

static void run_group(bench_session *session)
{
    static const bench_list usual_loads = BENCH_LIST(BENCH_GROUP_LOAD), usual_from = BENCH_LIST(BENCH_GROUP_FROM);
    const bench_options *options = session->options;
    group_bench bench = {.session = session,
                         .rows = options->n,
                         .key_bytes = options->given & BENCH_USES_KEY_BYTES ? options->key_bytes : 8,
                         .value_bytes = options->given & BENCH_USES_VALUE_BYTES ? options->value_bytes : 8};
    double most_groups = 1;
    for (size_t i = 0; i < options->groups.count; i++)
        most_groups = fmax(most_groups, options->groups.at[i]);
    if (make_arrays(&bench, (uint64_t)most_groups)) {
        for (size_t i = 0; i < options->groups.count; i++) {
            bench.groups = (uint64_t)options->groups.at[i];
            measure_groups(&bench, options->given & BENCH_USES_LOAD ? &options->loads : &usual_loads,
                           options->given & BENCH_USES_FROM ? &options->from : &usual_from);
        }
    } else {
        bench_row row = new_row(&bench, "rows");
        bench_row_fail(&row, "there is no memory for the rows; ask for a smaller --n or fewer --groups");
        bench_report_add(&session->report, &row);
    }
    free_arrays(&bench);
}

static const char *op_name(size_t index)
{
    return index < OPS ? ops[index].name : NULL;
}

static bool op_runs(const bench_options *options, size_t index)
{
    return bench_options_wants(options, ops[index].name);
}

static uint32_t op_uses(size_t index)
{
    (void)index;
    return 0;
}

const bench_case bench_case_group = {
    .name = "group",
    .summary = "rows grouped by their keys: counted, or aggregated, in tables of known and of unknown size",
    .op_name = op_name,
    .op_runs = op_runs,
    .op_uses = op_uses,
    .type = LOOM_TYPE_MAP,
    .uses = BENCH_USES_ENGINE | BENCH_USES_LANES | BENCH_USES_N | BENCH_USES_GROUPS | BENCH_USES_FROM |
            BENCH_USES_LOAD | BENCH_USES_SKEW | BENCH_USES_BATCH | BENCH_USES_WAIT | BENCH_USES_KEY_BYTES |
            BENCH_USES_VALUE_BYTES | BENCH_USES_OPS | BENCH_USES_REPEAT,
    .run = run_group,
    .n_usual = BENCH_GROUP_ROWS};
