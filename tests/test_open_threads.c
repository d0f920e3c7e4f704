/* Several host threads on one handle: readers share, writers exclude, destroying waits; fork. */
#define _GNU_SOURCE 1
#include "harness/map_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 8 };

typedef struct worker {
    test_run *t;
    loom_map *map;
    loom_context *context;
    uint64_t number;
    test_random random;
    uint64_t rounds;
    uint64_t ok; /* out: statuses of OK */
    uint64_t erased;
    atomic_int *stop;
    atomic_int *ready;
} worker;

/* Runs one function in each of several threads, with one worker each. */
static void run_threads(worker *workers, int count, void *(*const *functions)(void *))
{
    pthread_t threads[MOST_THREADS];
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, functions[i], &workers[i]), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static worker make_worker(test_run *t, loom_map *map, uint64_t number, uint64_t rounds)
{
    worker w;
    memset(&w, 0, sizeof w);
    w.t = t;
    w.map = map;
    w.number = number;
    w.rounds = rounds;
    w.random.state = random_u64(&t->random);
    return w;
}

/* ---- Readers -------------------------------------------------------------------------------------------- */

#define READER_KEYS 2000

static int count_pairs(void *user, const void *keys, const void *values, uint64_t n)
{
    (void)keys, (void)values;
    *(uint64_t *)user += n;
    return 0;
}

static void *read_everything(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, READER_KEYS), absent = make_batch(w->t, 200);
    fill_distinct(&b, 1, 0);
    fill_distinct(&absent, 1, 1 << 26);
    for (uint64_t i = 0; i < w->rounds; i++) {
        check_all_found(w->map, &b);
        check_none_found(w->map, &absent);
        CHECK_EQ(map_size(w->map), READER_KEYS);
        switch ((i + w->number) % 6) {
        case 0: {
            batch all = retrieve(w->map, b.key_bytes, b.value_bytes);
            CHECK_EQ(all.n, READER_KEYS);
            free_batch(&all);
            break;
        }
        case 1: {
            loom_map *clone = NULL;
            CHECK_OK(loom_map_clone(w->map, &clone, NULL));
            check_all_found(clone, &b);
            loom_map_destroy(clone);
            break;
        }
        case 2: {
            char name[32];
            snprintf(name, sizeof name, "reader_%d", (int)w->number);
            CHECK_OK(loom_map_save(w->map, test_path(w->t, name), NULL));
            break;
        }
        case 3:
            CHECK_EQ(map_stats(w->map).size, READER_KEYS);
            checked_verify(w->map);
            break;
        case 4: {
            loom_cursor *cursor = NULL;
            uint64_t got = 0, sum = 0;
            batch chunk = make_batch(w->t, 300);
            CHECK_OK(loom_map_cursor_open(w->map, &cursor, NULL, NULL));
            do {
                CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, 300, &got, NULL));
                sum += got;
            } while (got);
            CHECK_EQ(sum, READER_KEYS);
            loom_cursor_close(cursor);
            free_batch(&chunk);
            break;
        }
        case 5: {
            uint64_t sum = 0;
            CHECK_OK(loom_map_for_each(w->map, count_pairs, &sum, NULL, NULL));
            CHECK_EQ(sum, READER_KEYS);
            break;
        }
        }
    }
    free_batch(&b);
    free_batch(&absent);
    return NULL;
}

TEST_EACH_KIND(test_open_threads_readers_only, .threads = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, READER_KEYS);
    batch b = make_batch(t, READER_KEYS);
    worker workers[4];
    void *(*functions[4])(void *) = {read_everything, read_everything, read_everything, read_everything};
    fill_distinct(&b, 1, 0);
    checked_insert(map, &b, LOOM_KEEP);
    for (int i = 0; i < 4; i++)
        workers[i] = make_worker(t, map, (uint64_t)i, test_scaled(t, 20, 5));
    run_threads(workers, 4, functions);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Settings -------------------------------------------------------------------------------------------- */

#define SET_LIMIT ((uint64_t)1 << 40)

static void *change_settings(void *argument)
{
    worker *w = argument;
    for (uint64_t i = 0; i < w->rounds; i++) {
        CHECK_OK(loom_map_set_growth(w->map, i % 2 ? 2 : 4));
        CHECK_OK(loom_map_set_memory_limit(w->map, i % 2 ? 0 : SET_LIMIT));
    }
    return NULL;
}

static void *read_settings(void *argument)
{
    worker *w = argument;
    for (uint64_t i = 0; i < w->rounds; i++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        CHECK_OK(loom_map_get_config(w->map, &config));
        CHECK(config.growth == 2 || config.growth == 4);
        CHECK(config.memory_limit == 0 || config.memory_limit == SET_LIMIT);
    }
    return NULL;
}

/* Only the thread sanitizer can see a race here: the numbers alone would hardly be torn. */
TEST_EACH_KIND(test_open_threads_change_settings, .threads = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 100);
    config.growth = 2;
    loom_map *map = make_map_from(context, &config);
    worker workers[3];
    void *(*const functions[])(void *) = {change_settings, read_settings, read_settings};
    for (int i = 0; i < 3; i++)
        workers[i] = make_worker(t, map, (uint64_t)i, 500);
    run_threads(workers, 3, functions);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Readers and one writer ------------------------------------------------------------------------------ */

#define VERSIONED_KEYS 1500

/* The value of key i after round r. A reader can compute the round from it. A torn value gives no valid round. */
static uint64_t versioned_value(uint64_t key, uint64_t round)
{
    return (uint32_t)(mix_u64(key) << 12) ^ (uint32_t)round;
}

static void *write_rounds(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, VERSIONED_KEYS);
    fill_distinct(&b, 1, 0);
    for (uint64_t round = 1; round <= w->rounds; round++) {
        for (uint64_t i = 0; i < b.n; i++)
            set_word(b.values, b.value_bytes, i, versioned_value(batch_key(&b, i), round));
        uint32_t flags = LOOM_OVERWRITE | (round % 5 == 0 ? LOOM_IN_ORDER : 0);
        if (round % 7 == 0)
            CHECK_EQ(checked_build(w->map, &b, flags).ok, b.n);
        else
            CHECK_EQ(checked_insert(w->map, &b, flags).exists, b.n);
    }
    atomic_store(w->stop, 1);
    free_batch(&b);
    return NULL;
}

/* A call that writes runs alone: a call that reads sees all changes of a round, or none. */
static void *read_rounds(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, VERSIONED_KEYS);
    uint64_t last = 0, seen = 0;
    fill_distinct(&b, 1, 0);
    do {
        CHECK_EQ(checked_find(w->map, &b).ok, b.n);
        uint64_t round = batch_value(&b, 0) ^ versioned_value(batch_key(&b, 0), 0);
        CHECK_LE(round, w->rounds);
        CHECK_GE(round, last);
        for (uint64_t i = 0; i < b.n; i++)
            CHECK_EQ(batch_value(&b, i), versioned_value(batch_key(&b, i), round));
        seen += round != last;
        last = round;
    } while (!atomic_load(w->stop));
    w->ok = seen;
    free_batch(&b);
    return NULL;
}

/* This is also a test of fairness: readers call without a pause, and end only after the writer has made all its
 * calls. */
TEST_EACH(test_open_threads_readers_and_writer, .threads = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, VERSIONED_KEYS);
    atomic_int stop;
    batch b = make_batch(t, VERSIONED_KEYS);
    worker workers[4];
    void *(*functions[4])(void *) = {write_rounds, read_rounds, read_rounds, read_rounds};
    atomic_init(&stop, 0);
    fill_distinct(&b, 1, 0);
    for (uint64_t i = 0; i < b.n; i++)
        set_word(b.values, b.value_bytes, i, versioned_value(batch_key(&b, i), 0));
    checked_insert(map, &b, LOOM_KEEP);
    for (int i = 0; i < 4; i++) {
        workers[i] = make_worker(t, map, (uint64_t)i, test_scaled(t, 200, 40));
        workers[i].stop = &stop;
    }
    run_threads(workers, 4, functions);
    checked_verify(map);
    CHECK_EQ(map_size(map), VERSIONED_KEYS);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Writers -------------------------------------------------------------------------------------------- */

#define SHARED_KEYS 3000

static void *insert_subsets(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, 400);
    loom_result result;
    for (uint64_t round = 0; round < w->rounds; round++) {
        for (uint64_t i = 0; i < b.n; i++) {
            uint64_t key = distinct_key(b.key_bytes, 3, random_below(&w->random, SHARED_KEYS));
            set_pair(&b, i, key, value_for(key, b.value_bytes));
        }
        CHECK_OK(loom_map_insert(w->map, b.keys, b.values, b.n, round % 4 == 3 ? LOOM_IN_ORDER : (uint32_t)(round % 2),
                                 b.status, &result, NULL));
        CHECK_EQ(result.full, 0);
        w->ok += result.ok;
    }
    free_batch(&b);
    return NULL;
}

static void *erase_subsets(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, 400);
    loom_result result;
    for (uint64_t round = 0; round < w->rounds; round++) {
        for (uint64_t i = 0; i < b.n; i++)
            set_word(b.keys, b.key_bytes, i, distinct_key(b.key_bytes, 3, random_below(&w->random, SHARED_KEYS)));
        CHECK_OK(loom_map_erase(w->map, b.keys, b.n, b.status, &result, NULL));
        w->erased += result.ok;
    }
    free_batch(&b);
    return NULL;
}

static void *check_while_written(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, SHARED_KEYS);
    fill_distinct(&b, 3, 0);
    for (uint64_t round = 0; round < w->rounds; round++) {
        CHECK_OK(loom_map_verify(w->map, NULL));
        checked_find(w->map, &b);
        for (uint64_t i = 0; i < b.n; i++)
            if (b.status[i] == LOOM_OK)
                CHECK_EQ(batch_value(&b, i), value_for(batch_key(&b, i), b.value_bytes));
    }
    free_batch(&b);
    return NULL;
}

/* The sum of the counts that the threads got is the size of the table. */
static void race(test_run *t, void *(*const *functions)(void *), int count, uint64_t rounds)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, SHARED_KEYS);
    worker workers[MOST_THREADS];
    uint64_t ok = 0, erased = 0;
    for (int i = 0; i < count; i++)
        workers[i] = make_worker(t, map, (uint64_t)i, rounds);
    run_threads(workers, count, functions);
    for (int i = 0; i < count; i++) {
        ok += workers[i].ok;
        erased += workers[i].erased;
    }
    CHECK_EQ(map_size(map), ok - erased);
    checked_verify(map);
    batch all = retrieve(map, t->key_bytes, t->value_bytes);
    for (uint64_t i = 0; i < all.n; i++)
        CHECK_EQ(batch_value(&all, i), value_for(batch_key(&all, i), t->value_bytes));
    check_all_found(map, &all);
    free_batch(&all);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_threads_writers_same_handle, .threads = 1)
{
    void *(*functions[4])(void *) = {insert_subsets, insert_subsets, insert_subsets, insert_subsets};
    race(t, functions, 4, test_scaled(t, 100, 20));
}

TEST_EACH_KIND(test_open_threads_insert_against_erase, .threads = 1, .every_engine = 1)
{
    void *(*functions[4])(void *) = {insert_subsets, erase_subsets, insert_subsets, erase_subsets};
    race(t, functions, 4, test_scaled(t, 200, 40));
}

TEST_EACH_KIND(test_open_threads_insert_erase_and_readers, .threads = 1)
{
    void *(*functions[4])(void *) = {insert_subsets, erase_subsets, check_while_written, check_while_written};
    race(t, functions, 4, test_scaled(t, 100, 20));
}

static void *count_subsets(void *argument)
{
    worker *w = argument;
    batch b = make_batch(w->t, 400);
    loom_result result;
    for (uint64_t round = 0; round < w->rounds; round++) {
        for (uint64_t i = 0; i < b.n; i++)
            set_word(b.keys, b.key_bytes, i, distinct_key(b.key_bytes, 3, random_below(&w->random, SHARED_KEYS)));
        CHECK_OK(loom_map_count(w->map, b.keys, b.n, b.status, &result, NULL));
        CHECK_EQ(result.full, 0);
        w->ok += result.ok;
    }
    free_batch(&b);
    return NULL;
}

/* The table has all counts of all threads. */
TEST_EACH(test_open_threads_count_same_handle, .threads = 1, .every_engine = 1)
{
    enum { THREADS = 4 };
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, SHARED_KEYS);
    config.type = LOOM_TYPE_COUNTER;
    loom_map *counter = make_map_from(context, &config);
    worker workers[THREADS];
    void *(*functions[THREADS])(void *) = {count_subsets, count_subsets, count_subsets, count_subsets};
    uint64_t rounds = test_scaled(t, 100, 20), ok = 0, sum = 0;
    for (int i = 0; i < THREADS; i++)
        workers[i] = make_worker(t, counter, (uint64_t)i, rounds);
    run_threads(workers, THREADS, functions);
    for (int i = 0; i < THREADS; i++)
        ok += workers[i].ok;
    CHECK_EQ(map_size(counter), ok);
    batch all = retrieve(counter, t->key_bytes, t->value_bytes);
    for (uint64_t i = 0; i < all.n; i++)
        sum += batch_value(&all, i);
    CHECK_EQ(sum, THREADS * rounds * 400);
    checked_verify(counter);
    free_batch(&all);
    loom_map_destroy(counter);
    loom_context_destroy(context);
}

/* ---- Several tables on one context -------------------------------------------------------------------------- */

static void *use_own_table(void *argument)
{
    worker *w = argument;
    uint64_t n = 3000;
    for (uint64_t round = 0; round < w->rounds; round++) {
        loom_map *map = make_map(w->t, w->context, n);
        batch b = make_batch(w->t, n);
        fill_distinct(&b, w->number * 1000 + round, 0);
        CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, n);
        check_contents(map, &b);
        b.n = n / 2;
        CHECK_EQ(checked_erase(map, &b).ok, n / 2);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP | LOOM_IN_ORDER).ok, n / 2);
        b.n = n;
        check_contents(map, &b);
        free_batch(&b);
        loom_map_destroy(map);
    }
    return NULL;
}

TEST_EACH_KIND(test_open_threads_tables_of_one_context, .threads = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    worker workers[4];
    void *(*functions[4])(void *) = {use_own_table, use_own_table, use_own_table, use_own_table};
    for (int i = 0; i < 4; i++) {
        workers[i] = make_worker(t, NULL, (uint64_t)i, test_scaled(t, 15, 3));
        workers[i].context = context;
    }
    run_threads(workers, 4, functions);
    loom_context_destroy(context);
}

/* ---- Destroying waits -------------------------------------------------------------------------------------- */

/* An allocator that holds the calling thread for a while at the n-th request. It is the only way to know from outside
 * that a call has begun. */
typedef struct holding_allocator {
    atomic_int countdown; /* 1: the next request is held; 0 or less: none is */
    atomic_int inside;    /* a call is being held */
    atomic_int left;      /* the held call was let go */
} holding_allocator;

static void *hold_and_allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    holding_allocator *h = user;
    void *memory = NULL;
    (void)kind, (void)stream;
    if (atomic_fetch_sub(&h->countdown, 1) == 1) {
        struct timespec wait = {0, 40 * 1000 * 1000};
        atomic_store(&h->inside, 1);
        nanosleep(&wait, NULL); /* a destroy that does not wait would return meanwhile */
        atomic_store(&h->left, 1);
    }
    return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) == 0 ? memory : NULL;
}

static void free_held(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user, (void)kind, (void)stream;
    memset(memory, 0x5a, bytes);
    free(memory);
}

typedef struct held_call {
    test_run *t;
    loom_map *map;
    int kind;
    atomic_int done;
    loom_map *clone;
    batch b;
} held_call;

enum { HELD_BUILD, HELD_INSERT, HELD_CLONE, HELD_SAVE, HELD_KINDS };

static void *make_held_call(void *argument)
{
    held_call *c = argument;
    switch (c->kind) {
    case HELD_BUILD:
        CHECK_OK(loom_map_build(c->map, c->b.keys, c->b.values, c->b.n, LOOM_KEEP, c->b.status, NULL, NULL));
        break;
    case HELD_INSERT:
        CHECK_OK(loom_map_insert(c->map, c->b.keys, c->b.values, c->b.n, LOOM_IN_ORDER, c->b.status, NULL, NULL));
        break;
    case HELD_CLONE:
        CHECK_OK(loom_map_clone(c->map, &c->clone, NULL));
        break;
    case HELD_SAVE:
        CHECK_OK(loom_map_save(c->map, test_path(c->t, "held"), NULL));
        break;
    }
    atomic_store(&c->done, 1);
    return NULL;
}

/* Destroys a table while a call on it is held at its n-th request for memory. Returns 0 if the call made fewer
 * requests. */
static int destroy_during(test_run *t, loom_context *context, holding_allocator *h, int kind, int request)
{
    held_call call = {.t = t, .map = make_map(t, context, 20000), .kind = kind, .b = make_batch(t, 20000)};
    pthread_t thread;
    fill_distinct(&call.b, 8, 0);
    if (kind == HELD_CLONE || kind == HELD_SAVE)
        checked_insert(call.map, &call.b, LOOM_KEEP);
    test_note("kind %d, held at request %d", kind, request);
    atomic_store(&h->inside, 0);
    atomic_store(&h->left, 0);
    atomic_store(&h->countdown, request);
    CHECK_EQ(pthread_create(&thread, NULL, make_held_call, &call), 0);
    while (!atomic_load(&h->inside) && !atomic_load(&call.done)) {
        struct timespec wait = {0, 200 * 1000};
        nanosleep(&wait, NULL);
    }
    int held = atomic_load(&h->inside);
    if (held) {
        loom_map_destroy(call.map);
        CHECK(atomic_load(&h->left)); /* destroy waited until the held call was let go */
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    atomic_store(&h->countdown, 0);
    if (call.clone) {
        check_contents(call.clone, &call.b);
        loom_map_destroy(call.clone);
    }
    if (!held)
        loom_map_destroy(call.map);
    free_batch(&call.b);
    return held;
}

TEST_EACH(test_open_destroy_waits_for_calls_in_flight, .threads = 1)
{
    holding_allocator h;
    atomic_init(&h.countdown, 0);
    atomic_init(&h.inside, 0);
    atomic_init(&h.left, 0);
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = t->simd;
    config.threads = 2;
    config.allocator.allocate = hold_and_allocate;
    config.allocator.release = free_held;
    config.allocator.user = &h;
    CHECK_OK(loom_context_create(&config, &context));
    for (int kind = 0; kind < HELD_KINDS; kind++) {
        int request = 1;
        while (request < 20 && destroy_during(t, context, &h, kind, request))
            request++;
        CHECK_GT(request, 1); /* each of these allocates */
    }
    loom_context_destroy(context);
}

/* ---- fork ----------------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_fork_child_uses_table, .threads = 1, .cpu_only = 1, .alone = 1)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = 20000;
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n / 2), more = make_batch(t, n / 2);
    fill_distinct(&b, 1, 0);
    fill_distinct(&more, 1, n / 2);
    checked_build(map, &b, LOOM_KEEP); /* starts the threads of the pool */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_contents(map, &b);
        CHECK_EQ(checked_insert(map, &more, LOOM_KEEP | LOOM_IN_ORDER).ok, n / 2);
        check_all_found(map, &more);
        CHECK_EQ(checked_erase(map, &b).ok, n / 2);
        check_contents(map, &more);
        loom_map *second = make_map(t, context, n);
        checked_build(second, &b, LOOM_KEEP);
        check_contents(second, &b);
        CHECK_OK(loom_map_save(second, test_path(t, "child"), NULL));
        loom_map_destroy(second);
        loom_map_destroy(map);
        loom_context_destroy(context);
        _exit(42);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
    /* The table of the parent has not changed, and its threads still work. */
    check_contents(map, &b);
    CHECK_EQ(checked_build(map, &more, LOOM_KEEP).ok, n / 2);
    check_contents(map, &more);
    free_batch(&b);
    free_batch(&more);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
