/* The pairs of the case `multi`, its queries, and the check of their answers. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_progress.h"
#include "bench_threads.h"
#include "bench_zipf.h"
#include "multi_bench.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *multi_spread_name(multi_spread spread)
{
    static const char *const names[] = {"even", "zipf", "uniform", "real"};
    return names[spread];
}

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

loom_status multi_send(const multi_bench *bench, const multi_array *array)
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
    bench->counts = bench_array_new(bench->range, sizeof *bench->counts);
    bench->sums = bench_array_new(bench->range, sizeof *bench->sums);
    return bench->counts && bench->sums && make_array(bench, &bench->keys, all, bench->key_bytes) &&
           make_array(bench, &bench->values, all, bench->value_bytes) &&
           make_array(bench, &bench->queries, bench->n, bench->key_bytes) &&
           make_array(bench, &bench->offsets, bench->n + 1, sizeof(uint64_t)) &&
           make_array(bench, &bench->found, all, bench->value_bytes);
}

void multi_free_input(multi_bench *bench)
{
    free_array(bench, &bench->keys);
    free_array(bench, &bench->values);
    free_array(bench, &bench->queries);
    free_array(bench, &bench->offsets);
    free_array(bench, &bench->found);
    bench_array_free(bench->counts);
    bench_array_free(bench->sums);
}

/* ---- pairs ---- */

/* The numbers of values of MULTI_REAL: BENCH_REAL_MOST, or less as a log-normal distribution has it. */
static uint64_t draw_real(bench_draw *draw)
{
    const double radius = sqrt(-2 * log1p(-bench_draw_unit(draw))), angle = 2 * acos(-1) * bench_draw_unit(draw);
    const double count = floor(exp(BENCH_REAL_MU + BENCH_REAL_SIGMA * radius * cos(angle)));
    return count < 1 ? 1 : count > BENCH_REAL_MOST ? BENCH_REAL_MOST : (uint64_t)count;
}

/* How many keys n pairs of MULTI_REAL have. */
static uint64_t count_real(uint64_t n)
{
    uint64_t keys = 0;
    bench_draw draw;
    bench_draw_init(&draw, n, 0, BENCH_SEED + 1);
    for (uint64_t pairs = 0; pairs < n; keys++)
        pairs += draw_real(&draw);
    return keys;
}

static void put_key(multi_bench *bench, uint64_t at, uint64_t index)
{
    bench_put(bench->keys.host, at, bench->key_bytes, bench_key_of(index, bench->key_bytes));
}

/* A key's pairs lie far apart. The pairs of `insert` have the keys of the first ones. */
static void deal_real(multi_bench *bench)
{
    bench_draw draw, order;
    bench_draw_init(&draw, bench->n, 0, BENCH_SEED + 1);
    bench_draw_init(&order, bench->n, 0, BENCH_SEED);
    uint64_t pair = 0;
    for (uint64_t key = 0; key < bench->range; key++) {
        for (uint64_t left = draw_real(&draw); left > 0 && pair < bench->n; left--, pair++)
            put_key(bench, bench_draw_index(&order), key);
    }
    for (uint64_t i = 0; i < bench->more; i++)
        bench_put(bench->keys.host, bench->n + i, bench->key_bytes, bench_get(bench->keys.host, i, bench->key_bytes));
}

static void deal_range(void *work, uint64_t begin, uint64_t end)
{
    multi_bench *bench = work;
    const bool even = bench->spread == MULTI_EVEN, uniform = bench->spread == MULTI_UNIFORM;
    bench_draw draw;
    bench_draw_init(&draw, even ? bench->n : bench->range, even || uniform ? 0 : bench->session->options->skew,
                    BENCH_SEED + !even);
    bench_draw_from(&draw, begin);
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t key = uniform ? (uint64_t)(bench_draw_unit(&draw) * (double)bench->range)
                             : even  ? bench_draw_index(&draw) / (uint64_t)bench->values_per_key
                                     : bench_draw_index(&draw);
        put_key(bench, i, key < bench->range ? key : bench->range - 1);
    }
}

static void make_values(void *work, uint64_t begin, uint64_t end)
{
    multi_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->values.host, i, bench->value_bytes, bench_value_of(i, 0, bench->value_bytes));
}

static uint64_t count_keys(const multi_bench *bench)
{
    uint64_t keys = 0;
    for (uint64_t i = 0; i < bench->range; i++)
        keys += bench->counts[i] > 0;
    return keys;
}

bool multi_make_input(multi_bench *bench, bench_session *session, multi_spread spread, uint64_t values_per_key,
                      uint64_t more)
{
    const bench_options *options = session->options;
    const uint64_t n = options->n, rounded_up = (n + values_per_key - 1) / values_per_key;
    *bench = (multi_bench){.session = session,
                           .context = session->context,
                           .spread = spread,
                           .values_per_key = (double)values_per_key,
                           .n = n,
                           .more = more,
                           .key_bytes = options->key_bytes,
                           .value_bytes = options->value_bytes};
    bench_progress("multi: making %.1f M pairs", (double)n * 1e-6);
    if (spread == MULTI_REAL)
        bench->values_per_key = BENCH_REAL_MEAN;
    bench->range = bench->distinct = spread == MULTI_REAL ? count_real(n) : rounded_up;
    if (!make_arrays(bench))
        return false;
    if (spread == MULTI_REAL)
        deal_real(bench);
    else
        bench_in_parallel(n + more, BENCH_GRAIN, deal_range, bench);
    bench_in_parallel(n + more, BENCH_GRAIN, make_values, bench);
    multi_expect(bench, n);
    if (spread == MULTI_UNIFORM)
        bench->distinct = count_keys(bench);
    return multi_send(bench, &bench->keys) == LOOM_OK && multi_send(bench, &bench->values) == LOOM_OK;
}

/* ---- queries and their answers ---- */

static void ask_range(void *work, uint64_t begin, uint64_t end)
{
    multi_bench *bench = work;
    bench_draw order;
    bench_draw_init(&order, bench->asked, 0, BENCH_SEED + 2);
    bench_draw_from(&order, begin);
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->queries.host, i, bench->key_bytes, bench_key_of(bench_draw_index(&order), bench->key_bytes));
}

loom_status multi_make_queries(multi_bench *bench, uint64_t asked)
{
    if (bench->asked == asked)
        return LOOM_OK;
    bench->asked = asked;
    bench_in_parallel(asked, BENCH_GRAIN, ask_range, bench);
    return multi_send(bench, &bench->queries);
}

typedef struct expectation {
    multi_bench *bench;
    uint64_t from;
} expectation;

static void expect_range(void *work, uint64_t begin, uint64_t end)
{
    const expectation *all = work;
    const multi_bench *bench = all->bench;
    for (uint64_t i = all->from + begin; i < all->from + end; i++) {
        const uint64_t key = bench_index_of(bench_get(bench->keys.host, i, bench->key_bytes), bench->key_bytes);
        __atomic_fetch_add(&bench->counts[key], 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&bench->sums[key], bench_get(bench->values.host, i, bench->value_bytes), __ATOMIC_RELAXED);
    }
}

void multi_expect(multi_bench *bench, uint64_t pairs)
{
    if (pairs < bench->expected) {
        memset(bench->counts, 0, bench->range * sizeof *bench->counts);
        memset(bench->sums, 0, bench->range * sizeof *bench->sums);
        bench->expected = 0;
    }
    expectation work = {bench, bench->expected};
    bench_in_parallel(pairs - bench->expected, BENCH_GRAIN, expect_range, &work);
    bench->expected = pairs;
}

typedef struct comparison {
    const multi_bench *bench;
    bool counts_only;
    uint64_t wrong; /* changed by atomic additions */
} comparison;

static bool is_right(const multi_bench *bench, uint64_t key, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    const uint64_t count = key < bench->range ? bench->counts[key] : 0;
    if (from > to || to - from != count || to > bench->n + bench->more)
        return false;
    for (uint64_t at = from; at < to; at++) {
        const uint64_t value = bench_get(bench->found.host, at, bench->value_bytes);
        if (bench->value_bytes > 8 && !bench_holds(bench->found.host, at, bench->value_bytes, value))
            return false;
        sum += value;
    }
    return count == 0 || sum == bench->sums[key];
}

static void compare_range(void *work, uint64_t begin, uint64_t end)
{
    comparison *all = work;
    const multi_bench *bench = all->bench;
    const uint64_t *offsets = bench->offsets.host;
    uint64_t wrong = 0;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t key = bench_index_of(bench_get(bench->queries.host, i, bench->key_bytes), bench->key_bytes);
        if (all->counts_only)
            wrong += offsets[i] != (key < bench->range ? bench->counts[key] : 0);
        else
            wrong += !is_right(bench, key, offsets[i], offsets[i + 1]);
    }
    __atomic_fetch_add(&all->wrong, wrong, __ATOMIC_RELAXED);
}

void multi_check_lists(multi_bench *bench, bench_row *row, bool counts_only)
{
    comparison all = {.bench = bench, .counts_only = counts_only};
    if (fetch(bench, &bench->offsets) != LOOM_OK || fetch(bench, &bench->found) != LOOM_OK) {
        bench_row_fail(row, "answers: %s", loom_last_error());
        return;
    }
    bench_in_parallel(bench->asked, BENCH_GRAIN, compare_range, &all);
    if (all.wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " keys have wrong values", all.wrong, bench->asked);
}
