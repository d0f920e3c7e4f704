/* The case `threads`: several host threads call one table at the same time. Each thread looks up keys of its own, one
 * batch after the other, and waits for each call. A row tells the rate of all threads together, and how long calls
 * took: the median, the 99th percentile and the longest.
 *
 *   find                with arrays in the machine's memory
 *   find_pinned         with arrays in pinned host memory
 *   find_host           with arrays in ordinary host memory; on the cpu machine all three are the same
 *   find_beside_save    while another thread saves the table again and again
 *   find_beside_insert  while another thread overwrites values by the same values */
#include "bench_axes.h"
#include "bench_case.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_progress.h"
#include "bench_timer.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIND, FIND_PINNED, FIND_HOST, FIND_BESIDE_SAVE, FIND_BESIDE_INSERT, OPS };

static const char *const op_names[OPS] = {"find", "find_pinned", "find_host", "find_beside_save", "find_beside_insert"};

#define SECONDS_PER_ROW 0.2
#define MOST_TIMES      (1u << 18) /* of a thread: later calls take the places of earlier ones */

typedef struct shared {
    bench_session *session;
    loom_map *map;
    uint64_t n, batch;
    int op;
    uint32_t key_bytes, value_bytes;
    char path[256]; /* where the table is saved */
    pthread_barrier_t start;
    atomic_bool stop;
} shared;

typedef struct caller {
    shared *all;
    uint32_t number;
    void *keys, *values, *near_keys, *near_values;
    float *times; /* [MOST_TIMES] seconds of each call */
    uint64_t calls;
    double longest;
    char trouble[128]; /* "": none */
} caller;

/* ---- The threads -------------------------------------------------------------------------------------- */

static void note_trouble(caller *own, const char *what)
{
    if (!own->trouble[0])
        snprintf(own->trouble, sizeof own->trouble, "%s: %.90s", what, loom_last_error());
}

static uint64_t index_of(const caller *own, uint64_t i)
{
    return bench_mix64(own->number * UINT64_C(0x9e3779b97f4a7c15) + i) % own->all->n;
}

static void *find_again_and_again(void *argument)
{
    caller *own = argument;
    shared *all = own->all;
    pthread_barrier_wait(&all->start);
    while (!atomic_load(&all->stop)) {
        const double begun = bench_seconds();
        if (loom_map_find(all->map, own->near_keys, all->batch, own->near_values, NULL, NULL, NULL, NULL) != LOOM_OK)
            note_trouble(own, "find");
        const double took = bench_seconds() - begun;
        own->times[own->calls++ % MOST_TIMES] = (float)took;
        own->longest = took > own->longest ? took : own->longest;
    }
    return NULL;
}

/* The thread beside them. */
static void *work_beside(void *argument)
{
    caller *own = argument;
    shared *all = own->all;
    pthread_barrier_wait(&all->start);
    while (!atomic_load(&all->stop)) {
        const loom_status status = all->op == FIND_BESIDE_SAVE
                                       ? loom_map_save(all->map, all->path, NULL)
                                       : loom_map_insert(all->map, own->near_keys, own->near_values, all->batch,
                                                         LOOM_OVERWRITE, NULL, NULL, NULL);
        if (status != LOOM_OK)
            note_trouble(own, all->op == FIND_BESIDE_SAVE ? "save" : "insert");
        own->calls++;
    }
    return NULL;
}

/* ---- One row ------------------------------------------------------------------------------------------ */

static bool is_near(const shared *all)
{
    return all->op != FIND_HOST;
}

static loom_array_place place_of(const shared *all)
{
    return all->op == FIND_PINNED ? LOOM_ARRAY_PINNED : LOOM_ARRAY_MACHINE;
}

static bool make_caller(shared *all, uint32_t number, caller *made)
{
    const bench_session *session = all->session;
    const uint64_t key_array = all->batch * all->key_bytes, value_array = all->batch * all->value_bytes;
    *made = (caller){.all = all, .number = number};
    made->keys = malloc(key_array);
    made->values = calloc(1, value_array);
    made->times = malloc(MOST_TIMES * sizeof *made->times);
    if (!made->keys || !made->values || !made->times)
        return false;
    for (uint64_t i = 0; i < all->batch; i++) {
        bench_put(made->keys, i, all->key_bytes, bench_key_of(index_of(made, i), all->key_bytes));
        bench_put(made->values, i, all->value_bytes, bench_value_of(index_of(made, i), 0, all->value_bytes));
    }
    made->near_keys = made->keys;
    made->near_values = made->values;
    return !is_near(all) || (bench_near_new(session, place_of(all), made->keys, key_array, &made->near_keys) &&
                             bench_near_new(session, place_of(all), made->values, value_array, &made->near_values) &&
                             bench_near_copy(session, made->near_keys, made->keys, key_array) == LOOM_OK &&
                             bench_near_copy(session, made->near_values, made->values, value_array) == LOOM_OK);
}

static void free_caller(caller *own)
{
    const shared *all = own->all;
    bench_near_free(all->session, place_of(all), own->keys, own->near_keys, all->batch * all->key_bytes);
    bench_near_free(all->session, place_of(all), own->values, own->near_values, all->batch * all->value_bytes);
    free(own->keys);
    free(own->values);
    free(own->times);
}

/* The answers of the last call. */
static void check_answers(caller *own, bench_row *row)
{
    const shared *all = own->all;
    if (own->trouble[0]) {
        bench_row_fail(row, "%s", own->trouble);
        return;
    }
    if (bench_near_copy(all->session, own->values, own->near_values, all->batch * all->value_bytes) != LOOM_OK)
        bench_row_fail(row, "answers: %s", loom_last_error());
    for (uint64_t i = 0; i < all->batch && !bench_row_failed(row); i++)
        if (bench_get(own->values, i, all->value_bytes) != bench_value_of(index_of(own, i), 0, all->value_bytes))
            bench_row_fail(row, "thread %u: a wrong value", (unsigned)own->number);
}

static int compare_times(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* How long calls took, over all threads. */
static void tell_times(const caller *callers, uint32_t count, bench_row *row)
{
    uint64_t used = 0, at = 0;
    double longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        used += callers[i].calls < MOST_TIMES ? callers[i].calls : MOST_TIMES;
        longest = callers[i].longest > longest ? callers[i].longest : longest;
    }
    float *times = malloc((used + 1) * sizeof *times);
    if (!times || used == 0) {
        bench_row_fail(row, times ? "no call came to its end" : "no memory");
        free(times);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t own = callers[i].calls < MOST_TIMES ? callers[i].calls : MOST_TIMES;
        memcpy(times + at, callers[i].times, own * sizeof *times);
        at += own;
    }
    qsort(times, used, sizeof *times, compare_times);
    row->callers = count;
    row->median_us = 1e6 * (double)times[used / 2];
    row->p99_us = 1e6 * (double)times[used - 1 - used / 100];
    row->longest_us = 1e6 * longest;
    bench_row_note(row, "%u callers, %.1f µs, 99 %% within %.1f, longest %.0f", (unsigned)count, row->median_us,
                   row->p99_us, row->longest_us);
    free(times);
}

/* Runs `count` threads, and one more beside them if the operation has one. Returns the seconds. */
static double run_threads(shared *all, caller *callers, uint32_t count, bool beside, bench_row *row)
{
    pthread_t handles[BENCH_MOST_CALLERS + 1];
    const struct timespec while_they_run = {.tv_nsec = (long)(SECONDS_PER_ROW * 1e9)};
    uint32_t started = 0;
    const uint32_t wanted = count + beside;
    atomic_store(&all->stop, false);
    pthread_barrier_init(&all->start, NULL, wanted + 1);
    for (; started < wanted; started++)
        if (pthread_create(&handles[started], NULL, started < count ? find_again_and_again : work_beside,
                           &callers[started]) != 0)
            break;
    if (started < wanted) { /* the others wait at the barrier for ever: nothing can be measured any more */
        fprintf(stderr, "loom: %u threads could not be started\n", (unsigned)wanted);
        exit(1);
    }
    pthread_barrier_wait(&all->start);
    const double begun = bench_seconds();
    nanosleep(&while_they_run, NULL);
    atomic_store(&all->stop, true);
    for (uint32_t i = 0; i < wanted; i++)
        pthread_join(handles[i], NULL);
    const double seconds = bench_seconds() - begun;
    pthread_barrier_destroy(&all->start);
    if (beside && callers[count].calls == 0)
        bench_row_fail(row, "the thread beside made no call");
    return seconds;
}

static void measure(shared *all, uint32_t count)
{
    bench_session *session = all->session;
    const bool beside = all->op == FIND_BESIDE_SAVE || all->op == FIND_BESIDE_INSERT;
    caller callers[BENCH_MOST_CALLERS + 1] = {0};
    bench_row row = bench_row_new("threads", session->info.machine_name, op_names[all->op]);
    loom_stats stats = LOOM_STATS_INIT;
    uint32_t made = 0;
    uint64_t calls = 0;
    row.key_bytes = all->key_bytes;
    row.value_bytes = all->value_bytes;
    row.n = all->n;
    row.batch = all->batch;
    row.hit = 100;
    if (loom_map_stats(all->map, &stats, NULL) != LOOM_OK)
        bench_row_fail(&row, "stats: %s", loom_last_error());
    row.engine = bench_engine_name(stats.engine, all->session->options->row_place);
    row.load = stats.load;
    bench_progress("threads: %s, %u callers, batches of %llu", op_names[all->op], (unsigned)count,
                   (unsigned long long)all->batch);
    for (; made < count + beside && !bench_row_failed(&row); made++)
        if (!make_caller(all, made, &callers[made]))
            bench_row_fail(&row, "no memory for the keys");
    if (!bench_row_failed(&row)) {
        const double seconds = run_threads(all, callers, count, beside, &row);
        for (uint32_t i = 0; i < count; i++) {
            check_answers(&callers[i], &row);
            calls += callers[i].calls;
        }
        if (beside && callers[count].trouble[0])
            bench_row_fail(&row, "%s", callers[count].trouble);
        row.mops = (double)(calls * all->batch) / seconds * 1e-6;
        tell_times(callers, count, &row);
    }
    for (uint32_t i = 0; i < made; i++)
        free_caller(&callers[i]);
    bench_report_add(&session->report, &row);
}

/* ---- The case ----------------------------------------------------------------------------------------- */

static bool fill_table(shared *all)
{
    caller filler;
    const uint64_t batch = all->batch;
    all->batch = all->n;
    bool filled = make_caller(all, 0, &filler);
    if (filled) {
        for (uint64_t i = 0; i < all->n; i++) {
            bench_put(filler.keys, i, all->key_bytes, bench_key_of(i, all->key_bytes));
            bench_put(filler.values, i, all->value_bytes, bench_value_of(i, 0, all->value_bytes));
        }
        filled = loom_map_build(all->map, filler.keys, filler.values, all->n, LOOM_KEEP, NULL, NULL, NULL) == LOOM_OK;
    }
    free_caller(&filler);
    all->batch = batch;
    return filled;
}

static void run_threads_case(bench_session *session)
{
    static const uint64_t batches[] = {BENCH_THREADS_BATCHES};
    const bench_options *options = session->options;
    const bool given = options->batch < options->n; /* otherwise it is the default, all keys */
    shared all = {.session = session,
                  .n = options->n,
                  .key_bytes = options->key_bytes,
                  .value_bytes = options->value_bytes ? options->value_bytes : BENCH_DEFAULT_VALUE_BYTES};
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = all.key_bytes;
    config.value_bytes = all.value_bytes;
    config.capacity = all.n;
    config.engine = options->engine;
    config.row_place = options->row_place;
    config.concurrent_reads = options->concurrent_reads;
    const char *directory = getenv("TMPDIR");
    snprintf(all.path, sizeof all.path, "%s/loom-bench-%ld.loom", directory ? directory : "/tmp", (long)getpid());
    all.op = FIND_HOST; /* the filling arrays */
    if (loom_map_create(session->context, &config, &all.map) != LOOM_OK || !fill_table(&all)) {
        bench_row row = bench_row_new("threads", session->info.machine_name, "build");
        bench_row_fail(&row, "%s", loom_last_error());
        bench_report_add(&session->report, &row);
        loom_map_destroy(all.map);
        return;
    }
    for (all.op = 0; all.op < OPS; all.op++) {
        if (!bench_options_wants(options, op_names[all.op]))
            continue;
        for (size_t b = 0; b < (given ? 1 : sizeof batches / sizeof *batches); b++)
            for (size_t c = 0; c < options->callers.count; c++) {
                all.batch = given ? options->batch : batches[b];
                measure(&all, (uint32_t)options->callers.at[c]);
            }
    }
    unlink(all.path);
    loom_map_destroy(all.map);
}

static const char *op_name(size_t index)
{
    return index < OPS ? op_names[index] : NULL;
}

static bool op_runs(const bench_options *options, size_t index)
{
    return bench_options_wants(options, op_names[index]);
}

static uint32_t op_uses(size_t index)
{
    (void)index;
    return 0;
}

const bench_case bench_case_threads = {
    .name = "threads",
    .summary = "lookups by several host threads in one table: rate and times of calls",
    .op_name = op_name,
    .op_runs = op_runs,
    .op_uses = op_uses,
    .uses = BENCH_USES_ENGINE | BENCH_USES_N | BENCH_USES_BATCH | BENCH_USES_CONCURRENT_READS | BENCH_USES_KEY_BYTES |
            BENCH_USES_VALUE_BYTES | BENCH_USES_OPS | BENCH_USES_CALLERS,
    .type = LOOM_TYPE_MAP,
    .run = run_threads_case};
