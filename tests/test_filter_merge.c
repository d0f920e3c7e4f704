/* Merging two filters gives the filter that inserting the keys of both would give. Filters of different shapes or seeds
 * are refused. */
#include "harness/filter_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TEST_EACH_FILTER(test_filter_merge_is_union, .threads = 1, .long_tier = 1, .timeout_seconds = 120)
{
    static const uint64_t sizes[] = {64, 65537, 3 << 20};
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++)
        for (size_t s = 0; s < (p == 1 ? 3 : 2); s++) { /* few sizes, since saves sync their files */
            loom_filter_config config = make_sized_config(t, sizes[s], filter_probes[p]);
            loom_filter *a = make_filter_from(context, &config), *b = NULL, *both = make_filter_from(context, &config);
            batch keys_a = make_batch(t, 1 + sizes[s] / 50), keys_b = make_batch(t, 1 + sizes[s] / 70);
            const uint64_t salt = random_u64(&t->random);
            test_note("%llu bytes, %u probes", (unsigned long long)sizes[s], filter_probes[p]);
            CHECK_OK(loom_filter_create_like(a, &b));
            fill_distinct(&keys_a, salt, 0);
            fill_distinct(&keys_b, salt, keys_a.n / 2); /* some of these keys are in both */
            checked_filter_insert(context, a, &keys_a, 0);
            checked_filter_insert(context, b, &keys_b, 0);
            checked_filter_insert(context, both, &keys_a, 0);
            checked_filter_insert(context, both, &keys_b, 0);
            loom_filter *old_b = NULL;
            CHECK_OK(loom_filter_clone(b, &old_b, NULL));
            CHECK_OK(loom_filter_merge(a, b, NULL));
            check_same_bits(t, a, both);
            check_same_bits(t, b, old_b); /* the source of a merge does not change */
            check_all_in(a, &keys_a);
            check_all_in(a, &keys_b);
            CHECK_OK(loom_filter_merge(a, b, NULL)); /* merging again changes nothing */
            check_same_bits(t, a, both);
            loom_filter *empty = NULL;
            CHECK_OK(loom_filter_create_like(a, &empty));
            CHECK_OK(loom_filter_merge(a, empty, NULL));
            check_same_bits(t, a, both);
            CHECK_OK(loom_filter_merge(empty, a, NULL));
            check_same_bits(t, empty, both);
            loom_filter *all[] = {a, b, both, old_b, empty};
            for (size_t i = 0; i < 5; i++)
                loom_filter_destroy(all[i]);
            free_batch(&keys_a);
            free_batch(&keys_b);
        }
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_merge_with_itself)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 1000, 0);
    loom_filter *filter = make_filter_from(context, &config), *twin = NULL;
    batch b = make_batch(t, 1000);
    fill_distinct(&b, 1, 0);
    checked_filter_insert(context, filter, &b, 0);
    CHECK_OK(loom_filter_clone(filter, &twin, NULL));
    CHECK_OK(loom_filter_merge(filter, filter, NULL));
    check_same_bits(t, filter, twin);
    free_batch(&b);
    loom_filter_destroy(twin);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

/* A filter and its loaded copy can be merged. So can two filters of equal configs with a fixed seed. */
TEST_EACH_FILTER(test_filter_merge_with_loaded)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 1000, 0);
    loom_filter *filter = make_filter_from(context, &config), *loaded = NULL,
                *equal = make_filter_from(context, &config);
    batch b = make_batch(t, 1000);
    fill_distinct(&b, 1, 0);
    checked_filter_insert(context, filter, &b, 0);
    CHECK_OK(loom_filter_save(filter, test_path(t, "file"), NULL));
    CHECK_OK(loom_filter_load(context, test_path(t, "file"), &loaded, NULL));
    CHECK_OK(loom_filter_merge(equal, loaded, NULL));
    check_same_bits(t, equal, filter);
    CHECK_OK(loom_filter_merge(loaded, equal, NULL));
    check_same_bits(t, loaded, filter);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_filter_destroy(loaded);
    loom_filter_destroy(equal);
    loom_context_destroy(context);
}

static void check_different(test_run *t, loom_filter *a, loom_filter *b, const char *word)
{
    loom_filter *old = NULL;
    CHECK_OK(loom_filter_clone(a, &old, NULL));
    for (int turn = 0; turn < 2; turn++) {
        CHECK_REFUSED(loom_filter_merge(turn ? b : a, turn ? a : b, NULL), LOOM_INVALID_ARGUMENT);
        if (strstr(loom_last_error(), word) == NULL)
            FAIL("\"%s\" does not speak of %s", loom_last_error(), word);
    }
    check_same_bits(t, a, old);
    loom_filter_destroy(old);
}

TEST_EACH_FILTER(test_filter_merge_different_refused)
{
    loom_context *context = make_context_with(t, 2, 5), *other_context = make_context_with(t, 2, 5);
    const loom_filter_config config = make_sized_config(t, 4096, 8);
    loom_filter *filter = make_filter_from(context, &config), *other;
    batch b = make_batch(t, 100);
    fill_distinct(&b, 1, 0);
    checked_filter_insert(context, filter, &b, 0);
    loom_filter_config changed = config;
    changed.bytes = 4096 + 64;
    other = make_filter_from(context, &changed);
    check_different(t, filter, other, "blocks");
    loom_filter_destroy(other);
    changed = config;
    changed.probes = 12;
    other = make_filter_from(context, &changed);
    check_different(t, filter, other, "bits");
    loom_filter_destroy(other);
    changed = config;
    changed.key_bytes = config.key_bytes + 4;
    other = make_filter_from(context, &changed);
    check_different(t, filter, other, "bytes");
    loom_filter_destroy(other);
    other = make_filter_from(other_context, &config);
    check_different(t, filter, other, "contexts");
    loom_filter_destroy(other);
    loom_context_destroy(other_context);
    /* A filter with another seed, loaded from a file. */
    other_context = make_context_with(t, 2, 6);
    other = make_filter_from(other_context, &config);
    CHECK_OK(loom_filter_save(other, test_path(t, "file"), NULL));
    loom_filter_destroy(other);
    loom_context_destroy(other_context);
    CHECK_OK(loom_filter_load(context, test_path(t, "file"), &other, NULL));
    check_different(t, filter, other, "seed");
    loom_filter_destroy(other);
    check_all_in(filter, &b);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

/* Filters with random seeds cannot be merged. Filters made by loom_filter_create_like can. */
TEST_EACH_FILTER(test_filter_merge_random_seeds)
{
    loom_context_config settings = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    settings.machine = t->machine;
    settings.simd = t->simd;
    CHECK_OK(loom_context_create(&settings, &context));
    loom_filter_config config = make_filter_config(t, 100, 0);
    loom_filter *a = make_filter_from(context, &config), *b = make_filter_from(context, &config), *like = NULL;
    CHECK_NE(filter_report(a).seed, filter_report(b).seed);
    check_different(t, a, b, "seed");
    CHECK_OK(loom_filter_create_like(a, &like));
    CHECK_EQ(filter_report(a).seed, filter_report(like).seed);
    CHECK_OK(loom_filter_merge(a, like, NULL));
    loom_filter_destroy(a);
    loom_filter_destroy(b);
    loom_filter_destroy(like);
    loom_context_destroy(context);
}

/* ---- Both ways at the same time ---- */

typedef struct merger {
    loom_filter *to, *from;
    uint64_t rounds;
} merger;

static void *merge_rounds(void *argument)
{
    merger *m = argument;
    for (uint64_t i = 0; i < m->rounds; i++)
        CHECK_OK(loom_filter_merge(m->to, m->from, NULL));
    return NULL;
}

/* Threads merge a into b, b into a, both into c and c into both, at the same time. No deadlock occurs. */
TEST_EACH_FILTER(test_filter_merge_crosswise_threads, .threads = 1, .timeout_seconds = 120)
{
    enum { FILTERS = 3, THREADS = 6 };
    loom_context *context = make_context(t);
    loom_filter_config config = make_sized_config(t, 1 << 16, 8);
    loom_filter *filters[FILTERS];
    batch b[FILTERS];
    merger mergers[THREADS];
    pthread_t threads[THREADS];
    int used = 0;
    for (uint64_t i = 0; i < FILTERS; i++) {
        filters[i] = make_filter_from(context, &config);
        b[i] = make_batch(t, 500);
        fill_distinct(&b[i], 7, 500 * i);
        checked_filter_insert(context, filters[i], &b[i], 0);
    }
    for (int to = 0; to < FILTERS; to++)
        for (int from = 0; from < FILTERS; from++)
            if (to != from)
                mergers[used++] = (merger){filters[to], filters[from], test_scaled(t, 300, 50)};
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, merge_rounds, &mergers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < FILTERS; i++)
        for (int j = 0; j < FILTERS; j++)
            check_all_in(filters[i], &b[j]);
    for (int i = 0; i < FILTERS; i++) {
        check_same_bits(t, filters[0], filters[i]);
        free_batch(&b[i]);
    }
    for (int i = 0; i < FILTERS; i++)
        loom_filter_destroy(filters[i]);
    loom_context_destroy(context);
}
