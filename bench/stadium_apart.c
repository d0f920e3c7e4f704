/* Figures of `loom bench stadium`: operations of one kind, and the times of all. */
#include "bench_keys.h"
#include "bench_threads.h"
#include "bench_timer.h"
#include "stadium_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Common -------------------------------------------------------------------------------------------------- */

void stadium_tell(const stadium_table *table, loom_status status, bench_row *row)
{
    const char *why = table->why[0] ? table->why : loom_last_error(); /* of an array of the benchmark */
    if (status == LOOM_UNSUPPORTED) {
        snprintf(row->check, sizeof row->check, "left out");
        bench_row_note(row, "%s", why);
    } else {
        bench_row_fail(row, "%s: %s", loom_status_name(status), why);
    }
}

double stadium_time(stadium_table *table, const stadium_op *op, void *work, bench_row *row)
{
    double samples[BENCH_MAX_REPEAT], wall = 0, cpu = 0;
    const uint64_t repeat = table->session->options->repeat;
    for (uint64_t round = 0; round <= repeat; round++) {
        bench_clock clock = {0};
        loom_status status = op->prepare(work);
        bench_clock_start(&clock);
        if (status == LOOM_OK)
            status = op->call(work);
        bench_clock_stop(&clock);
        if (status != LOOM_OK) {
            stadium_tell(table, status, row);
            return NAN;
        }
        op->check(work, row);
        if (round == 0)
            continue;
        samples[round - 1] = clock.wall;
        wall += clock.wall;
        cpu += clock.cpu;
    }
    bench_note_run(table->session, row, 0, cpu / wall);
    return bench_median(samples, repeat);
}

bool stadium_is_present(uint64_t i, double hit)
{
    return (double)(bench_mix64(i) % 1000) < 10 * hit;
}

/* ---- Pairs and queries ----------------------------------------------------------------------------------------- */

static uint64_t asked_for(const stadium_pairs *pairs, uint64_t i)
{
    return stadium_is_present(i, pairs->hit) ? i : pairs->n + i;
}

static void make_pairs(void *work, uint64_t begin, uint64_t end)
{
    const stadium_pairs *pairs = work;
    for (uint64_t i = begin; i < end; i++) {
        bench_put(pairs->keys.host, i, pairs->key_bytes, bench_key_of(i, pairs->key_bytes));
        bench_put(pairs->values.host, i, pairs->value_bytes, bench_value_of(i, 0, pairs->value_bytes));
    }
}

static void make_queries(void *work, uint64_t begin, uint64_t end)
{
    const stadium_pairs *pairs = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(pairs->queries.host, i, pairs->key_bytes, bench_key_of(asked_for(pairs, i), pairs->key_bytes));
}

bool stadium_pairs_new(bench_session *session, uint64_t n, uint32_t key_bytes, uint32_t value_bytes,
                       stadium_pairs *pairs)
{
    *pairs = (stadium_pairs){.session = session, .n = n, .key_bytes = key_bytes, .value_bytes = value_bytes};
    if (!bench_twin_new(session, &pairs->keys, n, key_bytes) ||
        !bench_twin_new(session, &pairs->values, n, value_bytes) ||
        !bench_twin_new(session, &pairs->queries, n, key_bytes) ||
        !bench_twin_new(session, &pairs->found, n, value_bytes) || !bench_twin_new(session, &pairs->status, n, 1))
        return false;
    bench_in_parallel(n, BENCH_GRAIN, make_pairs, pairs);
    return bench_twin_send(session, &pairs->keys) == LOOM_OK && bench_twin_send(session, &pairs->values) == LOOM_OK;
}

void stadium_pairs_free(stadium_pairs *pairs)
{
    bench_twin_free(pairs->session, &pairs->keys);
    bench_twin_free(pairs->session, &pairs->values);
    bench_twin_free(pairs->session, &pairs->queries);
    bench_twin_free(pairs->session, &pairs->found);
    bench_twin_free(pairs->session, &pairs->status);
}

loom_status stadium_pairs_ask(stadium_pairs *pairs, double hit)
{
    pairs->hit = hit;
    bench_in_parallel(pairs->n, BENCH_GRAIN, make_queries, pairs);
    return bench_twin_send(pairs->session, &pairs->queries);
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

typedef struct apart_work {
    stadium_pairs *pairs;
    stadium_table *table;
    uint64_t batch;
    _Atomic uint64_t wrong; /* of a check */
} apart_work;

/* One call with the keys from `at` on. */
typedef loom_status (*part_function)(apart_work *work, uint64_t at, uint64_t n);

static loom_status insert_part(apart_work *work, uint64_t at, uint64_t n)
{
    const stadium_pairs *pairs = work->pairs;
    return stadium_insert(work->table, bench_at(pairs->keys.near, at, pairs->key_bytes),
                          bench_at(pairs->values.near, at, pairs->value_bytes), n);
}

static loom_status find_part(apart_work *work, uint64_t at, uint64_t n)
{
    const stadium_pairs *pairs = work->pairs;
    return stadium_find(work->table, bench_at(pairs->queries.near, at, pairs->key_bytes), n,
                        bench_at(pairs->found.near, at, pairs->value_bytes));
}

static loom_status erase_part(apart_work *work, uint64_t at, uint64_t n)
{
    const stadium_pairs *pairs = work->pairs;
    return stadium_erase(work->table, bench_at(pairs->queries.near, at, pairs->key_bytes), n,
                         bench_at(pairs->status.near, at, 1));
}

static loom_status in_batches(apart_work *work, part_function call)
{
    const uint64_t n = work->pairs->n;
    loom_status status = LOOM_OK;
    for (uint64_t at = 0; at < n && status == LOOM_OK; at += work->batch)
        status = call(work, at, n - at < work->batch ? n - at : work->batch);
    return status;
}

static loom_status call_insert(void *work)
{
    return in_batches(work, insert_part);
}

static loom_status call_find(void *work)
{
    return in_batches(work, find_part);
}

static loom_status call_both(void *work)
{
    const loom_status status = call_insert(work);
    return status == LOOM_OK ? call_find(work) : status;
}

static loom_status call_erase(void *work)
{
    return in_batches(work, erase_part);
}

/* ---- Before the clock starts ----------------------------------------------------------------------------------- */

static loom_status prepare_empty(void *work)
{
    return stadium_clear(((apart_work *)work)->table);
}

/* Answers that nobody writes. */
static loom_status prepare_answers(void *work)
{
    const stadium_pairs *pairs = ((apart_work *)work)->pairs;
    const loom_status status = bench_twin_spoil(pairs->session, &pairs->found);
    return status == LOOM_OK ? bench_twin_spoil(pairs->session, &pairs->status) : status;
}

static loom_status prepare_empty_and_answers(void *work)
{
    const loom_status status = prepare_empty(work);
    return status == LOOM_OK ? prepare_answers(work) : status;
}

static loom_status prepare_full(void *work)
{
    const loom_status status = prepare_empty_and_answers(work);
    return status == LOOM_OK ? call_insert(work) : status;
}

/* ---- Checks ---------------------------------------------------------------------------------------------------- */

static void check_size(apart_work *work, uint64_t expected, bench_row *row)
{
    uint64_t size = 0;
    const loom_status status = stadium_size(work->table, &size);
    if (status != LOOM_OK)
        bench_row_fail(row, "%s", work->table->why);
    else if (size != expected)
        bench_row_fail(row, "%" PRIu64 " keys instead of %" PRIu64, size, expected);
}

static void compare_found(void *argument, uint64_t begin, uint64_t end)
{
    apart_work *work = argument;
    const stadium_pairs *pairs = work->pairs;
    uint64_t wrong = 0;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t value = stadium_is_present(i, pairs->hit) ? bench_value_of(i, 0, pairs->value_bytes) : 0;
        wrong += !bench_holds(pairs->found.host, i, pairs->value_bytes, value);
    }
    atomic_fetch_add(&work->wrong, wrong);
}

static void compare_status(void *argument, uint64_t begin, uint64_t end)
{
    apart_work *work = argument;
    const stadium_pairs *pairs = work->pairs;
    const uint8_t *status = pairs->status.host;
    uint64_t wrong = 0;
    for (uint64_t i = begin; i < end; i++)
        wrong += status[i] != (stadium_is_present(i, pairs->hit) ? LOOM_OK : LOOM_NOT_FOUND);
    atomic_fetch_add(&work->wrong, wrong);
}

/* Fetches the answers and looks at each. */
static void check_answers(apart_work *work, const bench_twin *answers, bench_range_function compare, bench_row *row)
{
    const stadium_pairs *pairs = work->pairs;
    work->wrong = 0;
    if (bench_twin_fetch(pairs->session, answers) != LOOM_OK) {
        bench_row_fail(row, "answers: %s", loom_last_error());
        return;
    }
    bench_in_parallel(pairs->n, BENCH_GRAIN, compare, work);
    if (work->wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " answers are wrong", (uint64_t)work->wrong, pairs->n);
}

static void check_found(void *argument, bench_row *row)
{
    apart_work *work = argument;
    check_answers(work, &work->pairs->found, compare_found, row);
}

/* Looks the queries up: those of present keys have the values that were inserted. */
static void check_inserted(void *argument, bench_row *row)
{
    apart_work *work = argument;
    check_size(work, work->pairs->n, row);
    if (prepare_answers(work) != LOOM_OK || call_find(work) != LOOM_OK)
        bench_row_fail(row, "%s", work->table->why);
    else
        check_found(work, row);
}

static void check_both(void *argument, bench_row *row)
{
    apart_work *work = argument;
    check_size(work, work->pairs->n, row);
    check_found(work, row);
}

static void check_erased(void *argument, bench_row *row)
{
    apart_work *work = argument;
    uint64_t erased = 0;
    for (uint64_t i = 0; i < work->pairs->n; i++)
        erased += stadium_is_present(i, work->pairs->hit);
    check_size(work, work->pairs->n - erased, row);
    check_answers(work, &work->pairs->status, compare_status, row);
}

/* ---- Times ----------------------------------------------------------------------------------------------------- */

static double time_op(stadium_pairs *pairs, stadium_table *table, uint64_t batch, const stadium_op *op, bench_row *row)
{
    apart_work work = {.pairs = pairs, .table = table, .batch = batch};
    return stadium_time(table, op, &work, row);
}

double stadium_time_insert(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row)
{
    static const stadium_op op = {prepare_empty, call_insert, check_inserted};
    return time_op(pairs, table, batch, &op, row);
}

double stadium_time_find(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row)
{
    static const stadium_op op = {prepare_answers, call_find, check_found};
    apart_work fill = {.pairs = pairs, .table = table, .batch = pairs->n};
    const loom_status status = prepare_full(&fill);
    if (status == LOOM_OK)
        return time_op(pairs, table, batch, &op, row);
    stadium_tell(table, status, row);
    return NAN;
}

double stadium_time_both(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row)
{
    static const stadium_op op = {prepare_empty_and_answers, call_both, check_both};
    return time_op(pairs, table, batch, &op, row);
}

double stadium_time_erase(stadium_pairs *pairs, stadium_table *table, uint64_t batch, bench_row *row)
{
    static const stadium_op op = {prepare_full, call_erase, check_erased};
    const loom_status offered = stadium_table_offers(table, LOOM_FEATURE_ERASE);
    if (offered == LOOM_OK)
        return time_op(pairs, table, batch, &op, row);
    stadium_tell(table, offered, row);
    return NAN;
}

/* ---- Parts ----------------------------------------------------------------------------------------------------- */

uint64_t stadium_part_begin(uint64_t n, uint32_t parts, uint32_t part)
{
    return n / parts * part + n % parts * part / parts;
}

/* Inserts part by part; samples[part * repeat + round] gets the time of each, unless there are no samples. */
static loom_status insert_parts(apart_work *work, uint32_t parts, double *samples, uint64_t repeat)
{
    loom_status status = prepare_empty(work);
    for (uint32_t part = 0; part < parts && status == LOOM_OK; part++) {
        const uint64_t begin = stadium_part_begin(work->pairs->n, parts, part),
                       end = stadium_part_begin(work->pairs->n, parts, part + 1);
        bench_clock clock = {0};
        bench_clock_start(&clock);
        status = insert_part(work, begin, end - begin);
        bench_clock_stop(&clock);
        if (samples)
            samples[part * repeat] = clock.wall;
    }
    return status;
}

bool stadium_time_parts(stadium_pairs *pairs, stadium_table *table, uint32_t parts, double *seconds, bench_row *row)
{
    apart_work work = {.pairs = pairs, .table = table, .batch = pairs->n};
    const uint64_t repeat = pairs->session->options->repeat;
    double *samples = malloc(parts * repeat * sizeof *samples);
    loom_status status = samples ? LOOM_OK : LOOM_OUT_OF_MEMORY;
    for (uint64_t round = 0; round <= repeat && status == LOOM_OK; round++) {
        status = insert_parts(&work, parts, round > 0 ? samples + (round - 1) : NULL, repeat);
        if (status == LOOM_OK)
            check_inserted(&work, row);
    }
    for (uint32_t part = 0; part < parts && status == LOOM_OK; part++)
        seconds[part] = bench_median(samples + part * repeat, repeat);
    free(samples);
    if (status != LOOM_OK)
        stadium_tell(table, status, row);
    return status == LOOM_OK;
}
