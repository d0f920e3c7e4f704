/* The arrays of the case `map`, in host memory and in the machine's memory. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_calls.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_threads.h"
#include "map_bench.h"

/* ---- Arrays near the machine -------------------------------------------------------------------------- */

typedef struct near_array {
    void **near, *host;
    uint64_t bytes; /* of an element; 0: there is no such array */
    uint64_t count;
} near_array;

enum { NEAR_ARRAYS = 4, NEAR_INPUTS = 2 /* the first of them; the others are answers */ };

static void list_near(map_bench *bench, near_array list[NEAR_ARRAYS])
{
    list[0] = (near_array){&bench->near_keys, bench->keys, bench->key_bytes, bench->most};
    list[1] = (near_array){&bench->near_values, bench->values, bench->value_bytes, bench->most};
    list[2] = (near_array){&bench->near_found, bench->found, bench->value_bytes, bench->answers};
    list[3] = (near_array){&bench->near_status, bench->status, 1, bench->answers};
}

static void free_near(map_bench *bench)
{
    near_array list[NEAR_ARRAYS];
    list_near(bench, list);
    for (int i = 0; i < NEAR_ARRAYS; i++)
        bench_near_free(bench->session, LOOM_ARRAY_MACHINE, list[i].host, *list[i].near, list[i].count * list[i].bytes);
    bench_results_free(bench->session, bench->near_results);
}

static bool make_near(map_bench *bench)
{
    near_array list[NEAR_ARRAYS];
    list_near(bench, list);
    for (int i = 0; i < NEAR_ARRAYS; i++)
        if (!bench_near_new(bench->session, LOOM_ARRAY_MACHINE, list[i].host, list[i].count * list[i].bytes,
                            list[i].near))
            return false;
    return bench_results_new(bench->session, &bench->near_results);
}

/* Copies the elements from `begin` to `end` of the arrays first_array to end_array - 1 of the list. */
static loom_status move_near(map_bench *bench, int first_array, int end_array, uint64_t begin, uint64_t end, bool fetch)
{
    near_array list[NEAR_ARRAYS];
    loom_status status = LOOM_OK;
    list_near(bench, list);
    for (int i = first_array; i < end_array && status == LOOM_OK; i++) {
        const uint32_t bytes = (uint32_t)list[i].bytes;
        void *near = bench_at(*list[i].near, begin, bytes), *host = bench_at(list[i].host, begin, bytes);
        status = bench_near_copy(bench->session, fetch ? host : near, fetch ? near : host, (end - begin) * bytes);
    }
    return status;
}

loom_status map_send_input(map_bench *bench, uint64_t begin, uint64_t end)
{
    return move_near(bench, 0, NEAR_INPUTS, begin, end, false);
}

loom_status map_send_answers(map_bench *bench)
{
    return move_near(bench, NEAR_INPUTS, NEAR_ARRAYS, 0, bench->count, false);
}

loom_status map_fetch_answers(map_bench *bench)
{
    return move_near(bench, NEAR_INPUTS, NEAR_ARRAYS, 0, bench->count, true);
}

/* ---- All arrays --------------------------------------------------------------------------------------- */

static void put_pair(const map_bench *bench, void *keys, void *values, uint64_t at, uint64_t index)
{
    bench_put(keys, at, bench->key_bytes, bench_key_of(index, bench->key_bytes));
    bench_put(values, at, bench->value_bytes, bench_value_of(index, 0, bench->value_bytes));
}

static void fill_base(void *work, uint64_t begin, uint64_t end)
{
    const map_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        put_pair(bench, bench->base_keys, bench->base_values, i, i);
}

static void fill_half(void *work, uint64_t begin, uint64_t end)
{
    const map_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        put_pair(bench, bench->half_keys, bench->half_values, i, 2 * i);
}

/* False: no memory. No elements, or elements of 0 bytes, have no array. */
static bool make_array(void **array, uint64_t n, uint64_t bytes)
{
    *array = n * bytes > 0 ? bench_array_new(n, bytes) : NULL;
    return *array || n * bytes == 0;
}

bool map_make_arrays(map_bench *bench, uint32_t traits)
{
    const uint64_t n = bench->n, key_bytes = bench->key_bytes, value_bytes = bench->value_bytes;
    void *marked = NULL, *times = NULL, *status = NULL;
    bench->base_count = traits & MAP_OP_ON_FULL ? n : 0;
    bench->half_count = traits & MAP_OP_ON_HALF ? (n + 1) / 2 : 0;
    bench->answers = traits & (MAP_OP_ANSWERS | MAP_OP_STATUSES) ? bench->most : 0;
    bench->checked = n < BENCH_CHECKED_AT_ONCE ? n : BENCH_CHECKED_AT_ONCE;
    const uint64_t room = bench->answers > bench->checked ? bench->answers : bench->checked;
    const bool made =
        make_array(&bench->base_keys, bench->base_count, key_bytes) &&
        make_array(&bench->base_values, bench->base_count, value_bytes) &&
        make_array(&bench->half_keys, bench->half_count, key_bytes) &&
        make_array(&bench->half_values, bench->half_count, value_bytes) &&
        make_array(&bench->checked_keys, bench->checked, key_bytes) &&
        make_array(&bench->keys, bench->most, key_bytes) && make_array(&bench->values, bench->most, value_bytes) &&
        make_array(&bench->found, room, value_bytes) && make_array(&status, room, 1) && make_array(&marked, n, 1) &&
        make_array(&times, traits & MAP_OP_COUNTS ? n : 0, sizeof *bench->times);
    bench->marked = marked;
    bench->times = times;
    bench->status = status;
    if (!made || !make_near(bench))
        return false;
    bench_in_parallel(bench->base_count, BENCH_GRAIN, fill_base, bench);
    bench_in_parallel(bench->half_count, BENCH_GRAIN, fill_half, bench);
    return true;
}

void map_free_arrays(map_bench *bench)
{
    free_near(bench);
    bench_array_free(bench->base_keys);
    bench_array_free(bench->base_values);
    bench_array_free(bench->half_keys);
    bench_array_free(bench->half_values);
    bench_array_free(bench->checked_keys);
    bench_array_free(bench->keys);
    bench_array_free(bench->values);
    bench_array_free(bench->marked);
    bench_array_free(bench->times);
    bench_array_free(bench->found);
    bench_array_free(bench->status);
}
