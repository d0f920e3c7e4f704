/* Keys and values given to the operations of the case `map`. */
#include "bench_axes.h"
#include "bench_keys.h"
#include "bench_threads.h"
#include "bench_zipf.h"
#include "map_bench.h"

#include <stdatomic.h>

/* The key that --hot repeats. */
enum { HOT_INDEX = 0 };

/* The most frequent indices, by Zipf's law or --hot. Each range first counts them by itself: threads that all add to
 * the same few counters would wait for each other. */
enum { OFTEN = 1024 };

typedef struct map_input {
    map_bench *bench;
    bench_draw draw;
    bool each_once;  /* every index comes once: no need to record them in draw order, a walk all over memory */
    bool plain;      /* each key once, without --skew and --hot */
    bool counted;    /* `times` is wanted */
    bool repeated;   /* each of n / BENCH_REPEATS keys comes BENCH_REPEATS times */
    uint32_t rounds; /* values have the rounds 1 to this in turn; 0: round 0 */
    double hit;      /* percent; queries only */
    double hot;      /* share of entries that are HOT_INDEX */
    _Atomic uint64_t distinct;
} map_input;

/* Spreads the hot entries evenly: an entry is hot if the number of hot entries so far goes up there. */
static bool is_hot(const map_input *input, uint64_t at)
{
    return (uint64_t)((double)(at + 1) * input->hot) > (uint64_t)((double)at * input->hot);
}

/* Draws for every entry, so that entries that are not hot are the same as without --hot. */
static uint64_t next_index(const map_input *input, bench_draw *draw, uint64_t at)
{
    const uint64_t index = bench_draw_index(draw);
    if (input->repeated)
        return index % ((input->bench->n + BENCH_REPEATS - 1) / BENCH_REPEATS);
    return is_hot(input, at) ? HOT_INDEX : index;
}

/* Whether no other thread can have this index: with skew 0 no two draws are equal, and HOT_INDEX is below OFTEN. Plain
 * writes are then enough, which the processor can do for many indices at the same time; an atomic change waits for
 * each. */
static bool is_alone(const map_input *input, uint64_t index)
{
    return input->draw.skew == 0 && index >= OFTEN && !input->repeated;
}

/* If all marks are equal, any thread may write one. Frequent indices are mostly marked already: they are only read, so
 * that threads do not take their cache lines from each other. */
static void mark(const map_input *input, uint64_t index, uint32_t round)
{
    uint8_t *marks = &input->bench->marked[index];
    const uint8_t bit = (uint8_t)(1u << round);
    if (index >= OFTEN && (input->rounds == 0 || is_alone(input, index)))
        __atomic_store_n(marks, bit, __ATOMIC_RELAXED);
    else if ((__atomic_load_n(marks, __ATOMIC_RELAXED) & bit) == 0)
        __atomic_fetch_or(marks, bit, __ATOMIC_RELAXED);
}

static void add_times(const map_input *input, uint64_t index, uint32_t times)
{
    uint32_t *sum = &input->bench->times[index];
    if (is_alone(input, index))
        *sum += times;
    else
        __atomic_fetch_add(sum, times, __ATOMIC_RELAXED);
}

static void make_range(void *work, uint64_t begin, uint64_t end)
{
    const map_input *input = work;
    map_bench *bench = input->bench;
    bench_draw draw = input->draw;
    uint32_t often[OFTEN] = {0};
    bench_draw_from(&draw, begin);
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t index = next_index(input, &draw, i);
        const uint32_t round = input->rounds ? 1 + (uint32_t)(i % input->rounds) : 0;
        bench_put(bench->keys, i, bench->key_bytes, bench_key_of(index, bench->key_bytes));
        bench_put(bench->values, i, bench->value_bytes, bench_value_of(index, round, bench->value_bytes));
        const uint64_t noted = input->each_once ? i : index;
        mark(input, noted, round);
        if (input->counted && noted < OFTEN)
            often[noted]++;
        else if (input->counted)
            add_times(input, noted, 1);
    }
    for (uint64_t i = 0; i < OFTEN && input->counted; i++)
        if (often[i] > 0)
            add_times(input, i, often[i]);
}

static void count_marked(void *work, uint64_t begin, uint64_t end)
{
    map_input *input = work;
    uint64_t distinct = 0;
    for (uint64_t i = begin; i < end; i++)
        distinct += input->bench->marked[i] != 0;
    atomic_fetch_add(&input->distinct, distinct);
}

static void set_count(map_bench *bench, uint64_t count)
{
    bench->count = bench->operations = bench->longest_call = count;
}

static void start_draws(map_bench *bench, map_input *input)
{
    input->bench = bench;
    input->hot = input->plain ? 0 : bench->session->options->hot;
    bench_draw_init(&input->draw, bench->n, input->plain ? 0 : bench->session->options->skew, BENCH_SEED);
}

/* `count` draws, at most n, from the keys of the table. */
static void make_draws(map_bench *bench, map_input *input, uint64_t count)
{
    start_draws(bench, input);
    input->each_once = input->draw.skew == 0 && input->hot == 0 && !input->repeated && count == bench->n;
    if (input->each_once && input->rounds > 1)
        input->rounds = 1; /* no equal keys could come with different values */
    if (input->counted)
        bench_fill(bench->times, 0, bench->n * sizeof *bench->times);
    set_count(bench, count);
    bench_in_parallel(count, BENCH_GRAIN, make_range, input);
    bench_in_parallel(bench->n, BENCH_GRAIN, count_marked, input);
    bench->distinct = input->distinct;
}

static void make_marked_draws(map_bench *bench, uint64_t count)
{
    map_input input = {0};
    bench_fill(bench->marked, 0, bench->n);
    make_draws(bench, &input, count);
}

void map_make_all(map_bench *bench, double hit)
{
    (void)hit;
    make_marked_draws(bench, bench->n);
}

void map_make_plain(map_bench *bench, double hit)
{
    map_input input = {.plain = true};
    (void)hit;
    bench_fill(bench->marked, 0, bench->n);
    make_draws(bench, &input, bench->n);
}

void map_make_repeated(map_bench *bench, double hit)
{
    map_input input = {.plain = true, .repeated = true};
    (void)hit;
    bench_fill(bench->marked, 0, bench->n);
    make_draws(bench, &input, bench->n);
}

void map_make_erased(map_bench *bench, double hit)
{
    (void)hit;
    make_marked_draws(bench, (bench->n + BENCH_ERASE_DIVISOR - 1) / BENCH_ERASE_DIVISOR);
}

void map_make_counted(map_bench *bench, double hit)
{
    map_input input = {.counted = true};
    (void)hit;
    bench_fill(bench->marked, 0, bench->n);
    make_draws(bench, &input, bench->n);
}

void map_make_new_values(map_bench *bench, double hit)
{
    map_input input = {.rounds = MAP_NEW_ROUNDS};
    (void)hit;
    bench_fill(bench->marked, 0, bench->n);
    make_draws(bench, &input, bench->n);
}

static void mark_even(void *work, uint64_t begin, uint64_t end)
{
    map_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        bench->marked[i] = i % 2 == 0;
}

/* Keys of even index will be present, hence about half of the entries, also if they are skewed. The hot key is one of
 * them. */
void map_make_half_present(map_bench *bench, double hit)
{
    map_input input = {0};
    (void)hit;
    bench_in_parallel(bench->n, BENCH_GRAIN, mark_even, bench);
    make_draws(bench, &input, bench->n);
}

static void make_queries_range(void *work, uint64_t begin, uint64_t end)
{
    const map_input *input = work;
    const map_bench *bench = input->bench;
    bench_draw draw = input->draw, coin;
    bench_draw_init(&coin, 1, 0, BENCH_SEED + 1);
    bench_draw_from(&coin, begin);
    bench_draw_from(&draw, begin);
    for (uint64_t i = begin; i < end; i++) {
        const bool present = bench_draw_unit(&coin) * 100 < input->hit;
        const uint64_t index = next_index(input, &draw, i) + (present ? 0 : bench->n);
        bench_put(bench->keys, i, bench->key_bytes, bench_key_of(index, bench->key_bytes));
    }
}

/* Hits and misses alternate at random, so that no branch predictor can learn their order. Among hits the hot key is a
 * present one, among misses an absent one. */
void map_make_expired(map_bench *bench, double hit)
{
    map_make_plain(bench, hit);
    bench->distinct = 0;
    for (uint64_t i = 0; i < bench->n; i++) {
        bench->marked[i] = bench_value_of(i, 0, bench->value_bytes) <= map_expired(bench->value_bytes);
        bench->distinct += bench->marked[i];
    }
}

void map_make_queries(map_bench *bench, double hit)
{
    map_input input = {.hit = hit};
    start_draws(bench, &input);
    set_count(bench, bench->session->options->queries);
    bench_in_parallel(bench->count, BENCH_GRAIN, make_queries_range, &input);
}
