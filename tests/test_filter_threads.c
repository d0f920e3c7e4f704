/* Several host threads on one filter. Insertions and queries overlap. A call that changes or reads the whole filter
 * waits its turn. */
#define _GNU_SOURCE 1
#include "harness/filter_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 3, READERS = 3, STEP = 257 };

/* What the threads share: writer w has inserted its keys 0 .. done[w] - 1. It raises done[w] only after its call has
 * ended. */
typedef struct shared {
    test_run *t;
    loom_filter *filter;
    uint64_t keys; /* of each writer */
    _Atomic uint64_t done[WRITERS];
    _Atomic int writing;
    _Atomic uint64_t asked;
} shared;

typedef struct worker {
    shared *all;
    uint32_t number;
    test_random random;
} worker;

static void fill_step(batch *b, uint32_t writer, uint64_t first)
{
    fill_distinct(b, 1000 + ((uint64_t)writer << 28), first);
}

static void *insert_steps(void *argument)
{
    worker *w = argument;
    shared *s = w->all;
    batch b = make_batch(s->t, STEP);
    for (uint64_t first = 0; first < s->keys; first += STEP) {
        fill_step(&b, w->number, first);
        /* Some insertions go by partition: these calls run alone. */
        CHECK_OK(loom_filter_insert(s->filter, b.keys, b.n, first / STEP % 11 == 7 ? LOOM_BY_PARTITION : 0, NULL, NULL,
                                    NULL));
        atomic_store(&s->done[w->number], first + STEP);
    }
    atomic_fetch_sub(&s->writing, 1);
    free_batch(&b);
    return NULL;
}

static void *query_steps(void *argument)
{
    worker *w = argument;
    shared *s = w->all;
    batch b = make_batch(s->t, STEP);
    int last;
    do {
        last = atomic_load(&s->writing) == 0; /* one more round after the last insertion */
        for (uint32_t writer = 0; writer < WRITERS; writer++) {
            const uint64_t done = atomic_load(&s->done[writer]);
            if (done == 0)
                continue;
            fill_step(&b, writer,
                      random_below(&w->random, 2) ? done - STEP : random_below(&w->random, done / STEP) * STEP);
            check_all_in(s->filter, &b);
            atomic_fetch_add(&s->asked, STEP);
        }
    } while (!last);
    free_batch(&b);
    return NULL;
}

static void run(worker *workers, int count, void *(*const *functions)(void *))
{
    pthread_t threads[WRITERS + READERS + 1];
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, functions[i], &workers[i]), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void *use_whole(void *argument)
{
    worker *w = argument;
    shared *s = w->all;
    uint64_t last = 0;
    while (atomic_load(&s->writing) > 0) {
        loom_filter *clone = NULL, *like = NULL;
        loom_filter_report report = filter_report(s->filter);
        CHECK_GE(report.bits_set, last); /* F1 */
        last = report.bits_set;
        CHECK_OK(loom_filter_clone(s->filter, &clone, NULL));
        CHECK_GE(filter_report(clone).bits_set, last);
        CHECK_OK(loom_filter_create_like(s->filter, &like));
        CHECK_OK(loom_filter_merge(like, clone, NULL));
        CHECK_OK(loom_filter_merge(s->filter, like, NULL)); /* adds no bits, but writes */
        loom_filter_destroy(clone);
        loom_filter_destroy(like);
    }
    return NULL;
}

/* If the insertion of a key ends before a query begins, the query finds the key, whatever other threads insert
 * meanwhile. */
static void insert_and_query(test_run *t, uint32_t probes, uint64_t bytes, int with_whole)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_sized_config(t, bytes, probes);
    shared all;
    worker workers[WRITERS + READERS + 1];
    void *(*functions[WRITERS + READERS + 1])(void *);
    memset(&all, 0, sizeof all);
    all.t = t;
    all.filter = make_filter_from(context, &config);
    all.keys = test_scaled(t, 200, 60) * STEP;
    atomic_init(&all.writing, WRITERS);
    for (uint32_t i = 0; i < WRITERS + READERS + 1; i++) {
        workers[i] = (worker){&all, i, {random_u64(&t->random)}};
        functions[i] = i < WRITERS ? insert_steps : i < WRITERS + READERS ? query_steps : use_whole;
    }
    test_note("%u probes, %llu bytes", probes, (unsigned long long)bytes);
    run(workers, WRITERS + READERS + (with_whole ? 1 : 0), functions);
    CHECK_GT(atomic_load(&all.asked), 0);
    /* No bits were lost: one thread alone sets the same bits. */
    loom_filter *alone = make_filter_from(context, &config);
    batch b = make_batch(t, STEP);
    for (uint32_t writer = 0; writer < WRITERS; writer++)
        for (uint64_t first = 0; first < all.keys; first += STEP) {
            fill_step(&b, writer, first);
            CHECK_OK(loom_filter_insert(alone, b.keys, b.n, 0, NULL, NULL, NULL));
        }
    check_same_bits(t, all.filter, alone);
    free_batch(&b);
    loom_filter_destroy(alone);
    loom_filter_destroy(all.filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_threads_insert_and_contains, .threads = 1, .long_tier = 1, .timeout_seconds = 180)
{
    for (int p = 0; p < FILTER_PROBES; p++)
        insert_and_query(t, filter_probes[p], p % 2 ? 1 << 13 : 1 << 20, 0); /* small: many meet in the same words */
}

TEST_EACH_FILTER(test_filter_threads_whole_filter_beside, .threads = 1, .timeout_seconds = 180)
{
    insert_and_query(t, 8, 1 << 16, 1);
    insert_and_query(t, 12, 1 << 12, 1);
}

/* ---- The same keys, inserted by several at once ---- */

typedef struct adder {
    test_run *t;
    loom_filter *filter;
    batch b;
    uint64_t step;
} adder;

static void *add_all(void *argument)
{
    adder *a = argument;
    for (uint64_t first = 0; first < a->b.n; first += a->step) {
        const uint64_t n = a->b.n - first < a->step ? a->b.n - first : a->step;
        const unsigned char *keys = (const unsigned char *)a->b.keys + first * a->b.key_bytes;
        const uint32_t flags = first / a->step % 2 ? LOOM_IN_ORDER : 0;
        CHECK_OK(loom_filter_insert(a->filter, keys, n, flags, a->b.found + first, NULL, NULL));
    }
    return NULL;
}

/* At least one thread is told that a key is new. Together they are told so at most once for each bit that is set. The
 * filter is so large that there are no false positives. */
TEST_EACH_FILTER(test_filter_threads_tell_new_keys, .threads = 1)
{
    enum { ADDERS = 4 };
    for (int p = 0; p < FILTER_PROBES; p++) {
        const uint64_t n = test_scaled(t, 60000, 6000), salt = random_u64(&t->random);
        loom_context *context = make_context(t);
        loom_filter_config config = make_sized_config(t, 64 * n, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config);
        adder adders[ADDERS];
        pthread_t threads[ADDERS];
        uint64_t told = 0, untold = 0;
        for (int i = 0; i < ADDERS; i++) {
            adders[i] = (adder){t, filter, make_batch(t, n), 97 + (uint64_t)i};
            fill_distinct(&adders[i].b, salt, 0);
            memset(adders[i].b.found, 0xee, n);
        }
        for (int i = 0; i < ADDERS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, add_all, &adders[i]), 0);
        for (int i = 0; i < ADDERS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        for (uint64_t key = 0; key < n; key++) {
            uint64_t here = 0;
            for (int i = 0; i < ADDERS; i++) {
                CHECK_LE(adders[i].b.found[key], 1);
                here += adders[i].b.found[key];
            }
            told += here;
            untold += here == 0;
        }
        CHECK_LE(untold, p == 0 ? n / 1000 : 0);
        CHECK_LE(told, filter_report(filter).bits_set);
        for (int i = 0; i < ADDERS; i++)
            free_batch(&adders[i].b);
        loom_filter_destroy(filter);
        loom_context_destroy(context);
    }
}

/* ---- The capacity, passed by several at once ---- */

static void *insert_all(void *argument)
{
    worker *w = argument;
    shared *s = w->all;
    batch b = make_batch(s->t, STEP);
    for (uint64_t first = 0; first < s->keys; first += STEP) {
        loom_result result;
        fill_step(&b, w->number, first);
        CHECK_OK(loom_filter_insert(s->filter, b.keys, b.n, 0, NULL, &result, NULL));
        CHECK(result.status == LOOM_OK || result.status == LOOM_OVERFILLED);
        CHECK_EQ(result.ok, STEP);
    }
    free_batch(&b);
    return NULL;
}

/* Threads count bits while others insert. In the end, the filter reports LOOM_OVERFILLED as it would with one
 * thread. */
TEST_EACH_FILTER(test_filter_threads_pass_the_capacity, .threads = 1)
{
    for (int overfilled = 0; overfilled < 2; overfilled++) {
        loom_context *context = make_context(t);
        shared all;
        worker workers[WRITERS];
        void *(*functions[WRITERS])(void *) = {insert_all, insert_all, insert_all};
        batch b = make_batch(t, STEP);
        memset(&all, 0, sizeof all);
        all.t = t;
        all.keys = 40 * STEP;
        loom_filter_config config = make_filter_config(t, overfilled ? 20 * STEP : WRITERS * all.keys, 0);
        all.filter = make_filter_from(context, &config);
        for (uint32_t round = 0; round < 3; round++) { /* later rounds repeat the keys */
            for (uint32_t i = 0; i < WRITERS; i++)
                workers[i] = (worker){&all, i, {0}};
            run(workers, WRITERS, functions);
            fill_step(&b, round % WRITERS, 0);
            CHECK_EQ(checked_filter_insert(NULL, all.filter, &b, 0).status, overfilled ? LOOM_OVERFILLED : LOOM_OK);
        }
        const double keys = (double)(WRITERS * all.keys);
        CHECK_NEAR(filter_report(all.filter).estimated_keys, keys, 0.05 * keys);
        free_batch(&b);
        loom_filter_destroy(all.filter);
        loom_context_destroy(context);
    }
}
