/* LOOM_OVERFILLED: reported when the number of different keys passes the capacity by more than the error of the
 * estimate. The keys are in the filter all the same. */
#include "harness/filter_fixture.h"

#include <stdlib.h>
#include <string.h>

/* A number of keys that is always reported. The header allows a sixty-fourth and four square roots of the capacity, and
 * the rest covers the error of the estimate. */
static uint64_t surely_above(uint64_t capacity)
{
    uint64_t root = 1;
    while (root * root < capacity)
        root++;
    return capacity + capacity / 64 + 4 * root + capacity / 20 + 10;
}

/* Up to the capacity all is well. Beyond it, the result or the call reports LOOM_OVERFILLED. */
static void overfill(test_run *t, loom_context *context, uint64_t capacity, uint32_t probes, uint32_t flags)
{
    loom_filter_config config = make_filter_config(t, capacity, probes);
    loom_filter *filter = make_filter_from(context, &config);
    const uint64_t above = surely_above(capacity);
    batch all = make_batch(t, above), first = make_batch(t, capacity), rest = make_batch(t, above - capacity);
    const uint64_t salt = random_u64(&t->random);
    test_note("capacity %llu, %u probes, flags %u", (unsigned long long)capacity, probes, flags);
    fill_distinct(&all, salt, 0);
    fill_distinct(&first, salt, 0);
    fill_distinct(&rest, salt, capacity);
    CHECK_EQ(checked_filter_insert(context, filter, &first, flags).status, LOOM_OK);
    CHECK_OK(loom_filter_insert(filter, first.keys, first.n, flags, NULL, NULL, NULL)); /* repeated keys */
    CHECK_EQ(checked_filter_insert(context, filter, &first, flags).status, LOOM_OK);
    /* With a result, the call succeeds and the result reports LOOM_OVERFILLED. Without a result, the call returns it
     * and sets a sentence. */
    CHECK_EQ(checked_filter_insert(context, filter, &rest, flags).status, LOOM_OVERFILLED);
    check_all_in(filter, &all);
    CHECK_REFUSED(loom_filter_insert(filter, rest.keys, 1, flags, NULL, NULL, NULL), LOOM_OVERFILLED);
    CHECK(strstr(loom_last_error(), "loom_filter_stats") != NULL);
    CHECK_EQ(checked_filter_insert(context, filter, &first, flags).status, LOOM_OVERFILLED); /* it still is */
    CHECK(filter_report(filter).estimated_keys > (double)capacity);
    /* loom_filter_clear ends the state. */
    CHECK_OK(loom_filter_clear(filter, NULL, NULL));
    CHECK_EQ(checked_filter_insert(context, filter, &first, flags).status, LOOM_OK);
    CHECK_REFUSED(loom_filter_insert(filter, rest.keys, rest.n, flags, NULL, NULL, NULL), LOOM_OVERFILLED);
    check_all_in(filter, &all);
    loom_filter_destroy(filter);
    free_batch(&all);
    free_batch(&first);
    free_batch(&rest);
}

TEST_EACH_FILTER(test_filter_overfilled_told, .timeout_seconds = 120)
{
    static const uint64_t capacities[] = {1, 7, 100, 5000, 60000};
    static const uint32_t flags[] = {0, LOOM_DIRECTLY, LOOM_BY_PARTITION};
    loom_context *context = make_context(t);
    for (int p = -1; p < FILTER_PROBES; p++)
        for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
            overfill(t, context, capacities[i], p < 0 ? 0 : filter_probes[p], flags[(i + (size_t)(p + 1)) % 3]);
    loom_context_destroy(context);
}

/* With small batches the report begins soon after the capacity and a sixty-fourth, and does not stop afterwards. */
TEST_EACH_FILTER(test_filter_overfilled_small_batches)
{
    loom_context *context = make_context(t);
    const uint64_t capacity = 20000, step = 100;
    loom_filter_config config = make_filter_config(t, capacity, 0);
    loom_filter *filter = make_filter_from(context, &config);
    batch b = make_batch(t, step);
    uint64_t told_at = 0;
    for (uint64_t given = 0; given < 24000; given += step) {
        fill_distinct(&b, 77, given);
        const int overfilled = checked_filter_insert(NULL, filter, &b, 0).status == LOOM_OVERFILLED;
        if (overfilled && told_at == 0)
            told_at = given + step;
        CHECK_EQ(overfilled, told_at != 0);
    }
    /* The report may begin after 20000 + 312 + 566 keys. The estimate is right within 1 %, and bits are counted only
     * every 313 keys. */
    CHECK_GT(told_at, 20400);
    CHECK_LT(told_at, 21600);
    free_batch(&b);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_overfilled_never_by_repeated_keys)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 3000, 0);
    loom_filter *filter = make_filter_from(context, &config);
    batch b = make_batch(t, 3000), hot = make_batch(t, 50000);
    fill_distinct(&b, 2, 0);
    for (uint64_t i = 0; i < hot.n; i++)
        set_pair(&hot, i, batch_key(&b, i % 5), 0);
    for (int round = 0; round < 20; round++) {
        CHECK_OK(
            loom_filter_insert(filter, round % 3 ? b.keys : hot.keys, round % 3 ? b.n : hot.n, 0, NULL, NULL, NULL));
        CHECK_EQ(checked_filter_insert(context, filter, &b, 0).status, LOOM_OK);
    }
    CHECK_NEAR(filter_report(filter).estimated_keys, 3000, 60);
    free_batch(&b);
    free_batch(&hot);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_overfilled_never_without_capacity)
{
    loom_context *context = make_context(t);
    for (int p = 0; p < FILTER_PROBES; p++) {
        loom_filter_config config = make_sized_config(t, 640, filter_probes[p]);
        loom_filter *filter = make_filter_from(context, &config), *like = NULL;
        batch b = make_batch(t, 20000);
        fill_distinct(&b, 2, 0);
        CHECK_OK(loom_filter_insert(filter, b.keys, b.n, 0, NULL, NULL, NULL));
        CHECK_EQ(checked_filter_insert(context, filter, &b, LOOM_BY_PARTITION).status, LOOM_OK);
        CHECK_OK(loom_filter_create_like(filter, &like));
        CHECK_OK(loom_filter_merge(like, filter, NULL));
        CHECK_OK(loom_filter_insert(like, b.keys, b.n, 0, NULL, NULL, NULL));
        loom_filter_destroy(filter);
        loom_filter_destroy(like);
        free_batch(&b);
    }
    loom_context_destroy(context);
}

/* Merging equal keys does not overfill a filter. Merging different keys may: the call then returns LOOM_OVERFILLED, the
 * filter has all keys, and later insertions return LOOM_OVERFILLED, too. */
TEST_EACH_FILTER(test_filter_overfilled_by_merge)
{
    loom_context *context = make_context(t);
    const uint64_t capacity = 10000;
    loom_filter_config config = make_filter_config(t, capacity, 0);
    loom_filter *a = make_filter_from(context, &config), *b = NULL;
    batch keys_a = make_batch(t, 8000), keys_b = make_batch(t, 8000);
    CHECK_OK(loom_filter_create_like(a, &b));
    fill_distinct(&keys_a, 1, 0);
    fill_distinct(&keys_b, 1, 8000);
    CHECK_OK(loom_filter_insert(a, keys_a.keys, keys_a.n, 0, NULL, NULL, NULL));
    CHECK_OK(loom_filter_insert(b, keys_a.keys, keys_a.n, 0, NULL, NULL, NULL));
    CHECK_OK(loom_filter_merge(a, b, NULL)); /* the same keys */
    CHECK_OK(loom_filter_clear(b, NULL, NULL));
    CHECK_OK(loom_filter_insert(b, keys_b.keys, keys_b.n, 0, NULL, NULL, NULL));
    CHECK_REFUSED(loom_filter_merge(a, b, NULL), LOOM_OVERFILLED);
    check_all_in(a, &keys_a);
    check_all_in(a, &keys_b);
    CHECK_REFUSED(loom_filter_insert(a, keys_a.keys, 1, 0, NULL, NULL, NULL), LOOM_OVERFILLED);
    CHECK_OK(
        loom_filter_insert(b, keys_b.keys, keys_b.n, 0, NULL, NULL, NULL)); /* the other filter is not overfilled */
    CHECK_OK(loom_filter_clear(a, NULL, NULL));
    CHECK_OK(loom_filter_merge(a, b, NULL));
    free_batch(&keys_a);
    free_batch(&keys_b);
    loom_filter_destroy(a);
    loom_filter_destroy(b);
    loom_context_destroy(context);
}

/* Clones and loaded filters know how full they are. */
TEST_EACH_FILTER(test_filter_overfilled_clone_and_file)
{
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 5000, 0);
    loom_filter *filter = make_filter_from(context, &config), *clone = NULL, *loaded = NULL, *like = NULL;
    batch b = make_batch(t, 8000);
    fill_distinct(&b, 1, 0);
    CHECK_REFUSED(loom_filter_insert(filter, b.keys, b.n, 0, NULL, NULL, NULL), LOOM_OVERFILLED);
    CHECK_OK(loom_filter_clone(filter, &clone, NULL));
    CHECK_OK(loom_filter_create_like(filter, &like));
    CHECK_OK(loom_filter_save(filter, test_path(t, "file"), NULL));
    CHECK_OK(loom_filter_load(context, test_path(t, "file"), &loaded, NULL));
    CHECK_REFUSED(loom_filter_insert(clone, b.keys, 1, 0, NULL, NULL, NULL), LOOM_OVERFILLED);
    CHECK_REFUSED(loom_filter_insert(loaded, b.keys, 1, 0, NULL, NULL, NULL), LOOM_OVERFILLED);
    CHECK_OK(loom_filter_insert(like, b.keys, 1, 0, NULL, NULL, NULL));
    loom_filter_destroy(filter);
    loom_filter_destroy(clone);
    loom_filter_destroy(loaded);
    loom_filter_destroy(like);
    free_batch(&b);
    loom_context_destroy(context);
}
