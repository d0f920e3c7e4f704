/* The case `stadium`: maps whose rows lie in host memory, with arrays where the machine works.
 *
 *   build    n pairs into the empty table
 *   insert   the same, by loom_map_insert
 *   find     a batch of keys, of which so many per cent are in the table; batches of several sizes, or --batch
 *   routes   the same, all keys present, by each way to reach rows in turn: "find ordered" and so on
 *   grow     moves the full table into one for half as many keys more; once
 *
 * "Stadium Hashing" (Khorasani, Belviranli, Gupta, Bhuyan, PACT 2015) measures tables in host memory in its figures 16
 * to 19, with a GPU that reaches each row by itself: that is the route `direct`.
 *
 * Every repetition is checked: each key has its value and absent keys have none; after insertions, of a sample of keys.
 * The note tells which way a lookup went and how long the plan thought that it would take (loom_map_explain).
 *
 *   share of build and insert   bytes of the pairs / time / bandwidth of copying to host memory
 *   share of find               rate / the better of two limits: rows that the device reads in order of their
 *                               addresses, rows that host threads gather. With absent keys it may exceed 1: they need
 *                               no row
 * --engine rows measures the same table with its rows where the machine works.
 * --figure measures an experiment of that paper instead, with tables of its own (stadium_figures.c). */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_case.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_parse.h"
#include "bench_progress.h"
#include "bench_threads.h"
#include "bench_timer.h"
#include "stadium_figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct stadium_bench {
    bench_session *session;
    loom_map *map;
    uint64_t n;     /* keys of the table */
    uint64_t batch; /* of the lookup; at most `room` */
    uint64_t room;  /* of the arrays of lookups */
    double hit, load;
    uint32_t key_bytes, value_bytes;
    loom_row_place place;
    bool full;        /* the table has its n keys */
    double most_rows; /* per second that can be reached in host memory; 0: not measured yet; NAN: no limit */
    char most_rows_name[32];
    void *keys, *values;   /* [n] where the machine works; on the cpu machine in host memory */
    void *queries, *found; /* [room] on the host */
    uint8_t *status;       /* [room] on the host */
    void *near_queries, *near_found, *near_status;
    loom_stats stats;
} stadium_bench;

/* ---- pairs and queries ------------------------------------------------------------------------------------ */

typedef struct pair_work {
    const stadium_bench *bench;
    void *array;
    uint64_t first; /* index of element 0 */
    bool values;
} pair_work;

static void make_elements(void *argument, uint64_t begin, uint64_t end)
{
    const pair_work *work = argument;
    const stadium_bench *bench = work->bench;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t index = work->first + i;
        if (work->values)
            bench_put(work->array, i, bench->value_bytes, bench_value_of(index, 0, bench->value_bytes));
        else
            bench_put(work->array, i, bench->key_bytes, bench_key_of(index, bench->key_bytes));
    }
}

/* An array of n keys or values where the machine works, through a small one on the host. NULL: no memory. */
static void *make_array(const stadium_bench *bench, bool values)
{
    const uint32_t width = values ? bench->value_bytes : bench->key_bytes;
    const uint64_t some = bench->n < BENCH_CHECKED_AT_ONCE ? bench->n : BENCH_CHECKED_AT_ONCE;
    void *array = NULL, *part = bench_array_new(some, width);
    if (loom_array_create(bench->session->context, LOOM_ARRAY_MACHINE, bench->n * width, &array) != LOOM_OK)
        array = NULL;
    bool made = array && part;
    for (uint64_t first = 0; first < bench->n && made; first += some) {
        const uint64_t count = bench->n - first < some ? bench->n - first : some;
        pair_work work = {bench, part, first, values};
        bench_in_parallel(count, BENCH_GRAIN, make_elements, &work);
        made = loom_array_copy(bench->session->context, bench_at(array, first, width), part, count * width, NULL) ==
               LOOM_OK;
    }
    bench_array_free(part);
    if (!made)
        loom_array_destroy(bench->session->context, LOOM_ARRAY_MACHINE, array, bench->n * width);
    return made ? array : NULL;
}

static bool is_present(const stadium_bench *bench, uint64_t i)
{
    return (double)(bench_mix64(i) % 1000) < 10 * bench->hit;
}

/* Query i asks for a key anywhere in the table, or for a key that is absent. */
static uint64_t asked_for(const stadium_bench *bench, uint64_t i)
{
    return is_present(bench, i) ? bench_mix64(i + 0x5555) % bench->n : bench->n + i;
}

static void make_queries(void *argument, uint64_t begin, uint64_t end)
{
    const stadium_bench *bench = argument;
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->queries, i, bench->key_bytes, bench_key_of(asked_for(bench, i), bench->key_bytes));
}

/* ---- calls -------------------------------------------------------------------------------------------------- */

static loom_status call_build(stadium_bench *bench)
{
    return loom_map_build(bench->map, bench->keys, bench->values, bench->n, LOOM_KEEP, NULL, NULL, NULL);
}

static loom_status call_insert(stadium_bench *bench)
{
    return loom_map_insert(bench->map, bench->keys, bench->values, bench->n, LOOM_KEEP, NULL, NULL, NULL);
}

static loom_status call_find(stadium_bench *bench)
{
    return loom_map_find(bench->map, bench->near_queries, bench->batch, bench->near_found, NULL, bench->near_status,
                         NULL, NULL);
}

enum { BUILD, INSERT, FIND, ROUTES, GROW };

static const char *const op_names[] = {"build", "insert", "find", "routes", "grow", NULL};

/* ---- checks ------------------------------------------------------------------------------------------------- */

typedef struct check_work {
    const stadium_bench *bench;
    _Atomic uint64_t wrong;
} check_work;

static void check_answers(void *argument, uint64_t begin, uint64_t end)
{
    check_work *work = argument;
    const stadium_bench *bench = work->bench;
    uint64_t wrong = 0;
    for (uint64_t i = begin; i < end; i++) {
        const bool present = is_present(bench, i);
        const uint64_t value = present ? bench_value_of(asked_for(bench, i), 0, bench->value_bytes) : 0;
        wrong += bench->status[i] != (present ? LOOM_OK : LOOM_NOT_FOUND) ||
                 !bench_holds(bench->found, i, bench->value_bytes, value);
    }
    atomic_fetch_add(&work->wrong, wrong);
}

static void check_found(stadium_bench *bench, bench_row *row)
{
    check_work work = {.bench = bench};
    if (bench_near_copy(bench->session, bench->found, bench->near_found, bench->batch * bench->value_bytes) !=
            LOOM_OK ||
        bench_near_copy(bench->session, bench->status, bench->near_status, bench->batch) != LOOM_OK) {
        bench_row_fail(row, "answers: %s", loom_last_error());
        return;
    }
    bench_in_parallel(bench->batch, BENCH_GRAIN, check_answers, &work);
    if (work.wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " answers are wrong", (uint64_t)work.wrong, bench->batch);
}

/* Sends the queries, and spoils the answers. */
static bool prepare_queries(stadium_bench *bench, uint64_t batch, double hit, bench_row *row)
{
    bench->batch = batch;
    bench->hit = hit;
    bench_in_parallel(batch, BENCH_GRAIN, make_queries, bench);
    bench_fill(bench->found, 0xa5, batch * bench->value_bytes);
    bench_fill(bench->status, 0xa5, batch);
    if (bench_near_copy(bench->session, bench->near_queries, bench->queries, batch * bench->key_bytes) == LOOM_OK &&
        bench_near_copy(bench->session, bench->near_found, bench->found, batch * bench->value_bytes) == LOOM_OK &&
        bench_near_copy(bench->session, bench->near_status, bench->status, batch) == LOOM_OK)
        return true;
    bench_row_fail(row, "queries: %s", loom_last_error());
    return false;
}

/* After an insertion: the size, and a sample of keys, half of them absent. */
static void check_table(stadium_bench *bench, bench_row *row)
{
    uint64_t size = 0;
    const uint64_t sample = bench->room < BENCH_CHECKED_AT_ONCE ? bench->room : BENCH_CHECKED_AT_ONCE;
    if (loom_map_size(bench->map, &size, NULL) != LOOM_OK)
        bench_row_fail(row, "%s", loom_last_error());
    else if (size != bench->n)
        bench_row_fail(row, "%" PRIu64 " keys instead of %" PRIu64, size, bench->n);
    else if (!prepare_queries(bench, sample, 50, row))
        return;
    else if (call_find(bench) != LOOM_OK)
        bench_row_fail(row, "%s", loom_last_error());
    else
        check_found(bench, row);
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

static const char *route_name(loom_row_route route)
{
    static const char *const names[] = {"chosen", "direct", "ordered", "gathered", "streamed"};
    return names[route];
}

static bench_row new_row(const stadium_bench *bench, const char *op)
{
    bench_row row = bench_row_new(bench_case_stadium.name, bench->session->info.machine_name, op);
    row.engine = bench_engine_name(LOOM_ENGINE_ROWS, bench->place);
    row.key_bytes = bench->key_bytes;
    row.value_bytes = bench->value_bytes;
    row.n = bench->n;
    row.load = bench->stats.slots > 0 ? (double)bench->n / (double)bench->stats.slots : bench->load;
    row.lanes = bench->session->options->lanes;
    return row;
}

static void note_explanation(const stadium_bench *bench, bench_row *row)
{
    loom_explanation told = LOOM_EXPLANATION_INIT;
    if (loom_map_explain(bench->map, &told) == LOOM_OK)
        bench_row_note(row, "%s, %" PRIu64 " rows, expected %.2g s, took %.2g s", route_name(told.route), told.rows,
                       told.estimate[told.route], told.seconds);
}

/* The median of the repetitions, after one that warms up. NAN: a call failed. */
static double time_calls(stadium_bench *bench, loom_status (*call)(stadium_bench *), bench_row *row)
{
    double samples[BENCH_MAX_REPEAT];
    const bool finds = call == call_find;
    /* Inserting into a table that is larger than a device takes seconds: once is enough to warm up and to check. */
    const uint64_t repeat = bench->session->options->repeat, rounds = repeat + (repeat > 1 || finds);
    for (uint64_t round = 0; round < rounds; round++) {
        bench_clock clock = {0};
        loom_status status = finds ? LOOM_OK : loom_map_clear(bench->map, NULL, NULL);
        bench_clock_start(&clock);
        if (status == LOOM_OK)
            status = call(bench);
        bench_clock_stop(&clock);
        if (status != LOOM_OK) {
            bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
            return NAN;
        }
        if (finds)
            check_found(bench, row);
        samples[round % BENCH_MAX_REPEAT] = clock.wall;
    }
    return bench_median(samples + (rounds - repeat), repeat);
}

static void measure_insertion(stadium_bench *bench, int op)
{
    bench_row row = new_row(bench, op_names[op]);
    const double copy = bench->place == LOOM_ROWS_IN_HOST_MEMORY && bench->session->info.machine != LOOM_MACHINE_CPU
                            ? bench_limit_rate(bench->session, LOOM_LIMIT_TO_HOST_COPY, 0, BENCH_LIMIT_LINK, &row)
                            : NAN;
    bench_progress("stadium %s", op_names[op]);
    const double seconds =
        bench_row_failed(&row) ? NAN : time_calls(bench, op == BUILD ? call_build : call_insert, &row);
    bench->full = !isnan(seconds);
    if (bench->full) {
        row.mops = (double)bench->n / seconds * 1e-6;
        row.gbps = row.mops * (bench->key_bytes + bench->value_bytes) * 1e-3;
        row.limit = copy * 1e-9;
        row.share = row.gbps / row.limit;
        note_explanation(bench, &row);
        check_table(bench, &row);
    }
    row.batch = bench->n;
    bench_report_add(&bench->session->report, &row);
}

/* Measures, once, how many rows can be reached in host memory. */
static void find_limit(stadium_bench *bench, bench_row *row)
{
    const uint64_t bytes = bench->stats.host_bytes;
    if (bench->most_rows == 0 && (bytes == 0 || bench->session->info.machine == LOOM_MACHINE_CPU)) {
        bench->most_rows = NAN;
    } else if (bench->most_rows == 0) {
        const double ordered =
            bench_limit_rate(bench->session, LOOM_LIMIT_HOST_ORDERED_READ, BENCH_STADIUM_ROW, bytes, row);
        const double gathered = bench_limit_rate(bench->session, LOOM_LIMIT_HOST_GATHER, BENCH_STADIUM_ROW, bytes, row);
        bench->most_rows = ordered > gathered ? ordered : gathered;
        bench_limit_name(ordered > gathered ? LOOM_LIMIT_HOST_ORDERED_READ : LOOM_LIMIT_HOST_GATHER, BENCH_STADIUM_ROW,
                         bench->most_rows_name);
    }
    snprintf(row->limit_name, sizeof row->limit_name, "%s", bench->most_rows_name);
}

static void measure_find(stadium_bench *bench, uint64_t batch, double hit, loom_row_route route)
{
    char name[32];
    snprintf(name, sizeof name, "find%s%s", route != LOOM_ROW_ROUTE_NONE ? " " : "",
             route != LOOM_ROW_ROUTE_NONE ? route_name(route) : "");
    bench_row row = new_row(bench, name);
    row.hit = hit;
    row.batch = batch;
    if (!bench->full)
        bench->full = call_build(bench) == LOOM_OK;
    if (!bench->full)
        bench_row_fail(&row, "%s", loom_last_error());
    find_limit(bench, &row);
    bench_progress("stadium %s, %.0f %% hits, %" PRIu64 " keys", name, hit, batch);
    if (route != LOOM_ROW_ROUTE_NONE && loom_map_set_row_route(bench->map, route) != LOOM_OK)
        bench_row_fail(&row, "%s", loom_last_error());
    const double seconds =
        bench_row_failed(&row) || !prepare_queries(bench, batch, hit, &row) ? NAN : time_calls(bench, call_find, &row);
    if (!isnan(seconds)) {
        row.mops = (double)batch / seconds * 1e-6;
        row.limit = bench->most_rows * 1e-6;
        row.share = row.mops / row.limit;
        note_explanation(bench, &row);
    }
    if (route != LOOM_ROW_ROUTE_NONE)
        loom_map_set_row_route(bench->map, LOOM_ROW_ROUTE_NONE);
    bench_report_add(&bench->session->report, &row);
}

/* The table moves once: it is larger afterwards. */
static void measure_growth(stadium_bench *bench)
{
    bench_row row = new_row(bench, op_names[GROW]);
    bench_clock clock = {0};
    if (!bench->full)
        bench->full = call_build(bench) == LOOM_OK;
    bench_progress("stadium %s", op_names[GROW]);
    bench_clock_start(&clock);
    if (!bench->full || loom_map_reserve(bench->map, bench->n + bench->n / 2, NULL) != LOOM_OK)
        bench_row_fail(&row, "%s", loom_last_error());
    bench_clock_stop(&clock);
    if (!bench_row_failed(&row)) {
        row.mops = (double)bench->n / clock.wall * 1e-6;
        check_table(bench, &row);
    }
    row.batch = bench->n;
    bench_report_add(&bench->session->report, &row);
}

/* ---- the case ----------------------------------------------------------------------------------------------- */

static void free_arrays(stadium_bench *bench)
{
    bench_session *session = bench->session;
    loom_array_destroy(session->context, LOOM_ARRAY_MACHINE, bench->keys, bench->n * bench->key_bytes);
    loom_array_destroy(session->context, LOOM_ARRAY_MACHINE, bench->values, bench->n * bench->value_bytes);
    bench_near_free(session, LOOM_ARRAY_MACHINE, bench->queries, bench->near_queries, bench->room * bench->key_bytes);
    bench_near_free(session, LOOM_ARRAY_MACHINE, bench->found, bench->near_found, bench->room * bench->value_bytes);
    bench_near_free(session, LOOM_ARRAY_MACHINE, bench->status, bench->near_status, bench->room);
    bench_array_free(bench->queries);
    bench_array_free(bench->found);
    bench_array_free(bench->status);
}

static bool make_arrays(stadium_bench *bench)
{
    bench_session *session = bench->session;
    bench_progress("stadium: making %" PRIu64 " pairs", bench->n);
    bench->keys = make_array(bench, false);
    bench->values = make_array(bench, true);
    bench->queries = bench_array_new(bench->room, bench->key_bytes);
    bench->found = bench_array_new(bench->room, bench->value_bytes);
    bench->status = bench_array_new(bench->room, 1);
    return bench->keys && bench->values && bench->queries && bench->found && bench->status &&
           bench_near_new(session, LOOM_ARRAY_MACHINE, bench->queries, bench->room * bench->key_bytes,
                          &bench->near_queries) &&
           bench_near_new(session, LOOM_ARRAY_MACHINE, bench->found, bench->room * bench->value_bytes,
                          &bench->near_found) &&
           bench_near_new(session, LOOM_ARRAY_MACHINE, bench->status, bench->room, &bench->near_status);
}

static bool make_table(stadium_bench *bench)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = bench->key_bytes;
    config.value_bytes = bench->value_bytes;
    config.engine = LOOM_ENGINE_ROWS;
    config.row_place = bench->place;
    config.capacity = bench->n;
    config.max_load = bench->load;
    config.growth = 0;
    bench_progress("stadium: making the table");
    bench->stats = (loom_stats)LOOM_STATS_INIT;
    return loom_map_create(bench->session->context, &config, &bench->map) == LOOM_OK &&
           loom_map_stats(bench->map, &bench->stats, NULL) == LOOM_OK;
}

static void measure_lookups(stadium_bench *bench, const bench_list *hits)
{
    static const uint64_t batches[] = {BENCH_STADIUM_BATCHES};
    const bench_options *options = bench->session->options;
    const bool given = (options->given & BENCH_USES_BATCH) != 0;
    for (size_t i = 0; i < (given ? 1 : sizeof batches / sizeof *batches); i++) {
        const uint64_t batch = given ? options->batch : batches[i];
        if (batch > bench->room)
            break;
        for (size_t h = 0; h < hits->count && bench_options_wants(options, op_names[FIND]); h++)
            measure_find(bench, batch, hits->at[h], LOOM_ROW_ROUTE_NONE);
        if (!bench_options_wants(options, op_names[ROUTES]) || bench->place == LOOM_ROWS_ON_DEVICE ||
            bench->session->info.machine == LOOM_MACHINE_CPU)
            continue;
        for (loom_row_route route = LOOM_ROW_ROUTE_DIRECT; route <= LOOM_ROW_ROUTE_STREAMED; route++)
            measure_find(bench, batch, 100, route);
    }
}

static void run_stadium(bench_session *session)
{
    static const bench_list usual_hits = BENCH_LIST(BENCH_STADIUM_HITS);
    const bench_options *options = session->options;
    if (options->figure) {
        stadium_run_figure(session);
        return;
    }
    stadium_bench bench = {.session = session,
                           .n = options->n,
                           .room = BENCH_STADIUM_MOST_BATCH,
                           .load = options->given & BENCH_USES_LOAD ? options->loads.at[0] : BENCH_STADIUM_LOAD,
                           .key_bytes = options->given & BENCH_USES_KEY_BYTES ? options->key_bytes : 8,
                           .value_bytes = options->given & BENCH_USES_VALUE_BYTES ? options->value_bytes : 8,
                           .place = options->given & BENCH_USES_ENGINE ? options->row_place : LOOM_ROWS_IN_HOST_MEMORY};
    if (options->given & BENCH_USES_BATCH)
        bench.room = options->batch;
    if (!(options->given & BENCH_USES_BATCH) && bench.room > bench.n)
        bench.room = bench.n;
    if (make_arrays(&bench) && make_table(&bench)) {
        for (int op = BUILD; op <= INSERT; op++)
            if (bench_options_wants(options, op_names[op]))
                measure_insertion(&bench, op);
        measure_lookups(&bench, options->given & BENCH_USES_HIT ? &options->hits : &usual_hits);
        if (bench_options_wants(options, op_names[GROW]))
            measure_growth(&bench);
    } else {
        bench_row row = new_row(&bench, "create");
        bench_row_fail(&row, "%s; or ask for a smaller --n", loom_last_error());
        bench_report_add(&session->report, &row);
    }
    loom_map_destroy(bench.map);
    free_arrays(&bench);
}

static const char *op_name(size_t index)
{
    return op_names[index];
}

static bool op_runs(const bench_options *options, size_t index)
{
    return bench_options_wants(options, op_names[index]);
}

static uint32_t op_uses(size_t index)
{
    return index == FIND ? BENCH_USES_HIT | BENCH_USES_BATCH : index == ROUTES ? BENCH_USES_BATCH : 0;
}

const bench_case bench_case_stadium = {
    .name = "stadium",
    .summary = "maps with rows in host memory: bulk insertions, lookups by batch, ways to reach rows",
    .op_name = op_name,
    .op_runs = op_runs,
    .op_uses = op_uses,
    .type = LOOM_TYPE_MAP,
    .engine = LOOM_ENGINE_ROWS,
    .uses = BENCH_USES_LIMITS | BENCH_USES_N | BENCH_USES_LOAD | BENCH_USES_KEY_BYTES | BENCH_USES_VALUE_BYTES |
            BENCH_USES_OPS | BENCH_USES_REPEAT | BENCH_USES_ENGINE | BENCH_USES_LANES | BENCH_USES_FIGURE,
    .figure_uses = stadium_figure_uses,
    .any_width = BENCH_USES_KEY_BYTES | BENCH_USES_VALUE_BYTES,
    .run = run_stadium};
