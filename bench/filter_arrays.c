/* The arrays of the case `filter`, in host memory and in the machine's memory, and the keys in them. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_calls.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_threads.h"
#include "bench_zipf.h"
#include "filter_bench.h"

static bool make_array(const filter_bench *bench, filter_array *array, uint64_t count, uint64_t bytes)
{
    *array = (filter_array){.host = bench_array_new(count, bytes), .count = count, .bytes = bytes};
    return array->host && bench_near_new(bench->session, LOOM_ARRAY_MACHINE, array->host, count * bytes, &array->near);
}

static void free_array(const filter_bench *bench, filter_array *array)
{
    bench_near_free(bench->session, LOOM_ARRAY_MACHINE, array->host, array->near, array->count * array->bytes);
    bench_array_free(array->host);
}

static loom_status send(const filter_bench *bench, const filter_array *array)
{
    return bench_near_copy(bench->session, array->near, array->host, array->count * array->bytes);
}

static void fill_present(void *work, uint64_t begin, uint64_t end)
{
    const filter_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->present.host, i, bench->key_bytes, bench_key_of(i, bench->key_bytes));
}

static void fill_absent(void *work, uint64_t begin, uint64_t end)
{
    const filter_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        bench_put(bench->absent.host, i, bench->key_bytes, bench_key_of(bench->n + i, bench->key_bytes));
}

bool filter_make_arrays(filter_bench *bench)
{
    const bench_options *options = bench->session->options;
    if (!make_array(bench, &bench->present, bench->n, bench->key_bytes) ||
        !make_array(bench, &bench->absent, options->absent, bench->key_bytes) ||
        !make_array(bench, &bench->queries, options->queries, bench->key_bytes) ||
        !make_array(bench, &bench->found, options->queries, 1) ||
        !bench_results_new(bench->session, &bench->near_results))
        return false;
    bench_in_parallel(bench->n, BENCH_GRAIN, fill_present, bench);
    bench_in_parallel(bench->absent.count, BENCH_GRAIN, fill_absent, bench);
    return send(bench, &bench->present) == LOOM_OK && send(bench, &bench->absent) == LOOM_OK;
}

void filter_free_arrays(filter_bench *bench)
{
    free_array(bench, &bench->present);
    free_array(bench, &bench->absent);
    free_array(bench, &bench->queries);
    free_array(bench, &bench->found);
    bench_results_free(bench->session, bench->near_results);
}

typedef struct query_work {
    const filter_bench *bench;
    bench_draw draw;
    double hit;
} query_work;

static void make_queries_range(void *work, uint64_t begin, uint64_t end)
{
    const query_work *input = work;
    const filter_bench *bench = input->bench;
    bench_draw draw = input->draw, coin;
    bench_draw_init(&coin, 1, 0, BENCH_SEED + 1);
    bench_draw_from(&coin, begin);
    bench_draw_from(&draw, begin);
    for (uint64_t i = begin; i < end; i++) {
        const bool present = bench_draw_unit(&coin) * 100 < input->hit;
        const uint64_t index = bench_draw_index(&draw) + (present ? 0 : bench->n);
        bench_put(bench->queries.host, i, bench->key_bytes, bench_key_of(index, bench->key_bytes));
    }
}

/* Hits and misses alternate at random, as for maps (map_input.c). */
loom_status filter_make_queries(filter_bench *bench, double hit)
{
    query_work work = {.bench = bench, .hit = hit};
    bench_draw_init(&work.draw, bench->n, 0, BENCH_SEED);
    bench_in_parallel(bench->queries.count, BENCH_GRAIN, make_queries_range, &work);
    return send(bench, &bench->queries);
}

loom_status filter_spoil_answers(filter_bench *bench)
{
    bench_fill(bench->found.host, 0xa5, bench->found.count);
    return send(bench, &bench->found);
}

loom_status filter_fetch_answers(filter_bench *bench)
{
    return bench_near_copy(bench->session, bench->found.host, bench->found.near, bench->found.count);
}
