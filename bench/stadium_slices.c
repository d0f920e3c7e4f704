/* Figures of `loom bench stadium`: slices of interleaved operations, a mixed batch each. */
#include "bench_keys.h"
#include "bench_threads.h"
#include "stadium_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

enum { GROUP = 32 }; /* neighbouring rows of one operation: a warp */

/* ---- Rows ------------------------------------------------------------------------------------------------------ */

/* What a row does: the insertion, or the lookup, of this number. */
typedef struct slice_row {
    bool inserts;
    uint64_t number; /* among all of its kind */
    uint64_t slice;
} slice_row;

static slice_row row_at(const stadium_slices *slices, uint64_t at)
{
    const uint64_t slice = at / (2 * slices->half), within = at % (2 * slices->half), group = within / GROUP;
    return (slice_row){group % 2 == 0, slice * slices->half + group / 2 * GROUP + within % GROUP, slice};
}

static uint64_t keys_of(const stadium_slices *slices)
{
    return (slices->count + 1) * slices->half;
}

/* Indexes of keys: the first half slice has 0 to half - 1. */
static uint64_t index_at(const stadium_slices *slices, const slice_row *row)
{
    if (row->inserts)
        return slices->half + row->number;
    if (!stadium_is_present(row->number, slices->hit))
        return keys_of(slices) + row->number;
    return row->slice * slices->half + bench_mix64(row->number + 0x5555) % slices->half;
}

static void make_rows(void *work, uint64_t begin, uint64_t end)
{
    const stadium_slices *slices = work;
    for (uint64_t at = begin; at < end; at++) {
        const slice_row row = row_at(slices, at);
        const uint64_t index = index_at(slices, &row),
                       value = row.inserts ? bench_value_of(index, 0, slices->value_bytes) : 0;
        ((uint8_t *)slices->operations.host)[at] = row.inserts ? LOOM_APPLY_INSERT : LOOM_APPLY_FIND;
        bench_put(slices->keys.host, at, slices->key_bytes, bench_key_of(index, slices->key_bytes));
        bench_put(slices->values.host, at, slices->value_bytes, value);
    }
}

static void make_first(void *work, uint64_t begin, uint64_t end)
{
    const stadium_slices *slices = work;
    for (uint64_t i = begin; i < end; i++) {
        bench_put(slices->first_keys.host, i, slices->key_bytes, bench_key_of(i, slices->key_bytes));
        bench_put(slices->first_values.host, i, slices->value_bytes, bench_value_of(i, 0, slices->value_bytes));
    }
}

void stadium_slices_round(uint64_t *n, uint64_t *rows)
{
    const uint64_t most = *rows < *n ? *rows : *n;
    *rows = most < 2 * GROUP ? 2 * GROUP : most / (2 * GROUP) * (2 * GROUP);
    const uint64_t half = *rows / 2, halves = *n / half;
    *n = (halves < 2 ? 2 : halves) * half;
}

static loom_status send_all(const stadium_slices *slices)
{
    const bench_twin *const twins[] = {&slices->first_keys, &slices->first_values, &slices->operations, &slices->keys,
                                       &slices->values};
    loom_status status = LOOM_OK;
    for (size_t i = 0; i < sizeof twins / sizeof *twins && status == LOOM_OK; i++)
        status = bench_twin_send(slices->session, twins[i]);
    return status;
}

bool stadium_slices_new(bench_session *session, uint64_t n, uint64_t rows, uint32_t key_bytes, uint32_t value_bytes,
                        double hit, stadium_slices *slices)
{
    *slices = (stadium_slices){.session = session,
                               .half = rows / 2,
                               .count = n / (rows / 2) - 1,
                               .key_bytes = key_bytes,
                               .value_bytes = value_bytes,
                               .hit = hit};
    const uint64_t all = stadium_slices_rows(slices);
    if (!bench_twin_new(session, &slices->first_keys, slices->half, key_bytes) ||
        !bench_twin_new(session, &slices->first_values, slices->half, value_bytes) ||
        !bench_twin_new(session, &slices->operations, all, 1) ||
        !bench_twin_new(session, &slices->keys, all, key_bytes) ||
        !bench_twin_new(session, &slices->values, all, value_bytes) ||
        !bench_twin_new(session, &slices->found, all, value_bytes))
        return false;
    bench_in_parallel(slices->half, BENCH_GRAIN, make_first, slices);
    bench_in_parallel(all, BENCH_GRAIN, make_rows, slices);
    return send_all(slices) == LOOM_OK;
}

void stadium_slices_free(stadium_slices *slices)
{
    bench_twin_free(slices->session, &slices->first_keys);
    bench_twin_free(slices->session, &slices->first_values);
    bench_twin_free(slices->session, &slices->operations);
    bench_twin_free(slices->session, &slices->keys);
    bench_twin_free(slices->session, &slices->values);
    bench_twin_free(slices->session, &slices->found);
}

uint64_t stadium_slices_rows(const stadium_slices *slices)
{
    return 2 * slices->half * slices->count;
}

/* ---- Times ----------------------------------------------------------------------------------------------------- */

typedef struct slices_work {
    stadium_slices *slices;
    stadium_table *table;
    _Atomic uint64_t wrong; /* of a check */
} slices_work;

static loom_status prepare(void *argument)
{
    const slices_work *work = argument;
    const stadium_slices *slices = work->slices;
    loom_status status = stadium_clear(work->table);
    if (status == LOOM_OK)
        status = stadium_insert(work->table, slices->first_keys.near, slices->first_values.near, slices->half);
    return status == LOOM_OK ? bench_twin_spoil(slices->session, &slices->found) : status;
}

static loom_status call_slices(void *argument)
{
    const slices_work *work = argument;
    const stadium_slices *slices = work->slices;
    const uint64_t rows = 2 * slices->half;
    loom_status status = LOOM_OK;
    for (uint64_t slice = 0; slice < slices->count && status == LOOM_OK; slice++) {
        const uint64_t at = slice * rows;
        status = stadium_apply(work->table, bench_at(slices->operations.near, at, 1),
                               bench_at(slices->keys.near, at, slices->key_bytes),
                               bench_at(slices->values.near, at, slices->value_bytes), rows,
                               bench_at(slices->found.near, at, slices->value_bytes));
    }
    return status;
}

static void compare(void *argument, uint64_t begin, uint64_t end)
{
    slices_work *work = argument;
    const stadium_slices *slices = work->slices;
    uint64_t wrong = 0;
    for (uint64_t at = begin; at < end; at++) {
        const slice_row row = row_at(slices, at);
        const uint64_t index = index_at(slices, &row);
        const bool present = index < keys_of(slices);
        const uint64_t value = present ? bench_value_of(index, 0, slices->value_bytes) : 0;
        wrong += !row.inserts && !bench_holds(slices->found.host, at, slices->value_bytes, value);
    }
    atomic_fetch_add(&work->wrong, wrong);
}

static void check(void *argument, bench_row *row)
{
    slices_work *work = argument;
    const stadium_slices *slices = work->slices;
    const uint64_t all = stadium_slices_rows(slices);
    uint64_t size = 0;
    work->wrong = 0;
    if (stadium_size(work->table, &size) != LOOM_OK)
        bench_row_fail(row, "%s", work->table->why);
    else if (size != keys_of(slices))
        bench_row_fail(row, "%" PRIu64 " keys instead of %" PRIu64, size, keys_of(slices));
    if (bench_twin_fetch(slices->session, &slices->found) != LOOM_OK)
        bench_row_fail(row, "answers: %s", loom_last_error());
    bench_in_parallel(all, BENCH_GRAIN, compare, work);
    if (work->wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " answers are wrong", (uint64_t)work->wrong, all / 2);
}

double stadium_time_slices(stadium_slices *slices, stadium_table *table, bench_row *row)
{
    static const stadium_op op = {prepare, call_slices, check};
    slices_work work = {.slices = slices, .table = table};
    const loom_status offered = stadium_table_offers(table, LOOM_FEATURE_APPLY);
    if (offered == LOOM_OK)
        return stadium_time(table, &op, &work, row);
    stadium_tell(table, offered, row);
    return NAN;
}
