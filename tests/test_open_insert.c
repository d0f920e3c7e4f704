/* Insert and build: LOOM_KEEP and LOOM_OVERWRITE, equal keys in a batch, LOOM_IN_ORDER, and how outcomes are
 * reported. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

#define FLAGS_ALL 4 /* KEEP, OVERWRITE, each with and without IN_ORDER */

TEST_EACH(test_open_insert_keep_and_overwrite, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 5000;
    loom_map *map = make_map(t, context, n);
    batch old = make_batch(t, n), new = make_batch(t, n);
    fill_distinct(&old, 5, 0);
    fill_distinct(&new, 5, 0);
    for (uint64_t i = 0; i < n; i++)
        set_word(new.values, new.value_bytes, i, ~batch_value(&old, i));
    CHECK_EQ(checked_insert(map, &old, LOOM_KEEP).ok, n);
    CHECK_EQ(checked_insert(map, &new, LOOM_KEEP).exists, n);
    check_contents(map, &old);
    CHECK_EQ(checked_insert(map, &new, LOOM_OVERWRITE).exists, n);
    check_contents(map, &new);
    CHECK_EQ(checked_insert(map, &old, LOOM_KEEP | LOOM_IN_ORDER).exists, n);
    check_contents(map, &new);
    CHECK_EQ(checked_insert(map, &old, LOOM_OVERWRITE | LOOM_IN_ORDER).exists, n);
    check_contents(map, &old);
    free_batch(&old);
    free_batch(&new);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Insert adds the batch to the table; build replaces the contents. */
TEST_EACH_KIND(test_open_build_replaces_contents, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 3000;
    loom_map *map = make_map(t, context, 2 * n);
    batch first = make_batch(t, n), second = make_batch(t, n), both = make_batch(t, 2 * n);
    fill_distinct(&both, 17, 0);
    fill_distinct(&first, 17, 0);
    fill_distinct(&second, 17, n);
    for (uint32_t flags = 0; flags < FLAGS_ALL; flags++) {
        CHECK_EQ(checked_build(map, &first, flags).ok, n);
        check_contents(map, &first);
        CHECK_EQ(checked_build(map, &second, flags).ok, n);
        check_contents(map, &second);
        check_none_found(map, &first);
        CHECK_EQ(checked_insert(map, &first, flags).ok, n);
        check_contents(map, &both);
    }
    free_batch(&first);
    free_batch(&second);
    free_batch(&both);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Equal keys in one batch ------------------------------------------------------------------------------ */

/* Fills a batch with equal keys in one of six patterns. The model computes the right outcome. */
static void fill_with_duplicates(test_run *t, batch *b, int pattern)
{
    uint64_t salt = random_u64(&t->random), few = 1 + random_below(&t->random, 20);
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t which = i;
        switch (pattern) {
        case 0: /* half of the batch is one key */
            which = random_u64(&t->random) & 1 ? 0 : i;
            break;
        case 1: /* each key twice, side by side */
            which = i / 2;
            break;
        case 2: /* each key twice, far apart */
            which = i % (b->n / 2 + 1);
            break;
        case 3: /* a handful of keys */
            which = random_below(&t->random, few);
            break;
        case 4: /* nothing but one key */
            which = 7;
            break;
        case 5: /* random with some duplicates */
            which = random_below(&t->random, b->n);
            break;
        }
        set_pair(b, i, distinct_key(b->key_bytes, salt, which), random_u64(&t->random));
    }
}

TEST_EACH_KIND(test_open_insert_equal_keys, .long_tier = 1, .every_engine = 1)
{
    for (int pattern = 0; pattern < 6; pattern++)
        for (uint32_t flags = 0; flags < FLAGS_ALL; flags++) {
            loom_context *context = make_context(t);
            uint64_t n = 1 + random_below(&t->random, test_scaled(t, 6000, 1500));
            loom_map *map = make_map(t, context, 3 * n);
            model m = make_model(t, map, 3 * n);
            batch b = make_batch(t, n);
            test_note("pattern %d, flags %u, %llu keys", pattern, flags, (unsigned long long)n);
            for (int round = 0; round < 3; round++) {
                fill_with_duplicates(t, &b, pattern);
                model_insert(&m, &b, flags);
                /* The same rows in another order: now all keys exist. */
                for (uint64_t i = 0; i < n; i++)
                    set_word(b.values, b.value_bytes, i, random_u64(&t->random));
                CHECK_EQ(model_insert(&m, &b, flags).exists, n);
            }
            model_compare(&m);
            free_model(&m);
            free_batch(&b);
            loom_map_destroy(map);
            loom_context_destroy(context);
        }
}

TEST_EACH_KIND(test_open_build_equal_keys, .every_engine = 1)
{
    for (int pattern = 0; pattern < 6; pattern++)
        for (uint32_t flags = 0; flags < FLAGS_ALL; flags++) {
            loom_context *context = make_context(t);
            uint64_t n = 1 + random_below(&t->random, test_scaled(t, 6000, 1500));
            loom_map *map = make_map(t, context, n);
            model m = make_model(t, map, n);
            batch b = make_batch(t, n);
            test_note("pattern %d, flags %u, %llu keys", pattern, flags, (unsigned long long)n);
            for (int round = 0; round < 3; round++) {
                fill_with_duplicates(t, &b, pattern);
                model_build(&m, &b, flags);
                model_compare(&m);
            }
            free_model(&m);
            free_batch(&b);
            loom_map_destroy(map);
            loom_context_destroy(context);
        }
}

static uint64_t count_different(const batch *b)
{
    reference_map *seen = reference_create();
    for (uint64_t i = 0; i < b->n; i++)
        reference_put(seen, batch_key(b, i), 0);
    uint64_t different = reference_size(seen);
    reference_destroy(seen);
    return different;
}

/* A large batch of equal keys: many threads work on one key. */
TEST_EACH(test_open_insert_equal_keys_many_threads, .threads = 1, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 8, random_u64(&t->random));
    uint64_t n = test_scaled(t, 100000, 20000);
    batch b = make_batch(t, n);
    for (int pattern = 0; pattern < 6; pattern++)
        for (uint32_t flags = 0; flags < FLAGS_ALL; flags++) {
            loom_map *map = make_map(t, context, n);
            fill_with_duplicates(t, &b, pattern);
            test_note("pattern %d, flags %u", pattern, flags);
            if (pattern == 0 || pattern == 5) { /* two patterns only: the model is slow */
                model m = make_model(t, map, n);
                model_insert(&m, &b, flags);
                model_compare(&m);
                free_model(&m);
            } else {
                loom_result result = checked_insert(map, &b, flags);
                CHECK_EQ(result.ok, count_different(&b));
                CHECK_EQ(result.exists, n - result.ok);
                checked_verify(map);
            }
            loom_map_destroy(map);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- How an outcome is told ------------------------------------------------------------------------------- */

/* Calls have the same effect with and without status array and result. */
TEST_EACH_KIND(test_open_insert_optional_outputs)
{
    loom_context *context = make_context(t);
    uint64_t n = 2000;
    batch b = make_batch(t, n);
    fill_distinct(&b, 1, 0);
    for (unsigned outputs = 0; outputs < 4; outputs++)
        for (uint32_t flags = 0; flags < FLAGS_ALL; flags++) {
            loom_map *map = make_map(t, context, n);
            loom_result result;
            uint8_t *status = outputs & 1 ? b.status : NULL;
            loom_result *out = outputs & 2 ? &result : NULL;
            test_note("outputs %u, flags %u", outputs, flags);
            CHECK_OK(loom_map_insert(map, b.keys, b.values, n / 2, flags, status, out, NULL));
            if (out)
                CHECK_EQ(result.ok, n / 2);
            CHECK_OK(loom_map_insert(map, b.keys, b.values, n, flags, status, out, NULL));
            for (uint64_t i = 0; status && i < n; i++)
                CHECK_EQ(status[i], i < n / 2 ? LOOM_EXISTS : LOOM_OK);
            if (out) {
                CHECK_EQ(result.ok, n - n / 2);
                CHECK_EQ(result.exists, n / 2);
            }
            check_contents(map, &b);
            CHECK_OK(loom_map_build(map, b.keys, b.values, n, flags, status, out, NULL));
            check_contents(map, &b);
            CHECK_OK(loom_map_find(map, b.keys, n, b.values, NULL, status, out, NULL));
            if (out)
                CHECK_EQ(result.ok, n);
            fill_distinct(&b, 1, 0);
            CHECK_OK(loom_map_contains(map, b.keys, n, outputs ? b.found : NULL, status, out, NULL));
            CHECK_OK(loom_map_erase(map, b.keys, n, status, out, NULL));
            if (out) {
                CHECK_EQ(result.keys, n);
                CHECK_EQ(result.ok, n);
            }
            CHECK_EQ(map_size(map), 0);
            loom_map_destroy(map);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

/* With a result, the call returns LOOM_OK and the result says LOOM_FULL. Without a result, the call returns LOOM_FULL,
 * with a sentence. */
TEST_EACH_KIND(test_open_insert_full_with_and_without_result, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    batch b = make_batch(t, 5000);
    fill_distinct(&b, 1, 0);
    for (uint32_t flags = 0; flags < FLAGS_ALL; flags++)
        for (int by_build = 0; by_build < 2; by_build++) {
            loom_status (*call)(loom_map *, const void *, const void *, uint64_t, uint32_t, uint8_t *, loom_result *,
                                loom_stream) = by_build ? loom_map_build : loom_map_insert;
            loom_map *map = make_map(t, context, 100);
            loom_result result;
            memset(&result, 0xee, sizeof result);
            test_note("flags %u, %s", flags, by_build ? "build" : "insert");
            CHECK_OK(call(map, b.keys, b.values, b.n, flags, NULL, &result, NULL));
            CHECK_EQ(result.status, LOOM_FULL);
            CHECK_GT(result.full, 0);
            CHECK_GE(result.ok, 100);
            CHECK_EQ(result.ok + result.full, b.n);
            uint64_t size = map_size(map);
            CHECK_EQ(size, result.ok);
            CHECK_OK(loom_map_clear(map, NULL, NULL));
            CHECK_REFUSED(call(map, b.keys, b.values, b.n, flags, NULL, NULL, NULL), LOOM_FULL);
            CHECK_EQ(map_size(map), size); /* a partition fills up to its last slot */
            CHECK_OK(loom_map_clear(map, NULL, NULL));
            CHECK_REFUSED(call(map, b.keys, b.values, b.n, flags, b.status, NULL, NULL), LOOM_FULL);
            uint64_t full = 0;
            for (uint64_t i = 0; i < b.n; i++)
                full += b.status[i] == LOOM_FULL;
            CHECK_EQ(full, b.n - size);
            loom_map_destroy(map);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

/* loom_map_clear writes a result, and so do calls that read. */
TEST_EACH_KIND(test_open_clear_result_and_contents, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 20000;
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n);
    loom_result result;
    fill_distinct(&b, 3, 0);
    for (int round = 0; round < 3; round++) {
        checked_insert(map, &b, LOOM_KEEP);
        memset(&result, 0xee, sizeof result);
        CHECK_OK(loom_map_clear(map, round ? &result : NULL, NULL));
        if (round)
            CHECK_EQ(result.status, LOOM_OK);
        CHECK_EQ(map_size(map), 0);
        check_none_found(map, &b);
        checked_verify(map);
        loom_stats stats = map_stats(map);
        CHECK_EQ(stats.displaced, 0);
        CHECK_NEAR(stats.accesses_per_miss, 1.0, 1e-12);
    }
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Batches of lengths around the sizes of prefetching rings and thread blocks. */
TEST_EACH_KIND(test_open_insert_batch_lengths, .every_engine = 1)
{
    loom_context *context = make_context(t);
    static const uint64_t around[] = {24, 32, 64, 128, 256, 512, 1024};
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++)
        for (uint64_t n = around[i] - 2; n <= around[i] + 2; n++) {
            loom_map *map = make_map(t, context, n);
            batch b = make_batch(t, n);
            fill_distinct(&b, random_u64(&t->random), 0);
            test_note("%llu keys", (unsigned long long)n);
            CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
            check_contents(map, &b);
            CHECK_EQ(checked_erase(map, &b).ok, n);
            CHECK_EQ(checked_build(map, &b, LOOM_OVERWRITE).ok, n);
            check_contents(map, &b);
            free_batch(&b);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

/* With a fixed seed, two runs give the same table, including the order of retrieved pairs. */
TEST_EACH_KIND(test_open_build_fixed_seed_reproducible, .cpu_only = 1)
{
    uint64_t seed = random_u64(&t->random), n = test_scaled(t, 50000, 8000);
    batch b = make_batch(t, n), all[2];
    fill_distinct(&b, 9, 0);
    for (int by_build = 0; by_build < 2; by_build++) {
        for (int run = 0; run < 2; run++) {
            loom_context *context = make_context_with(t, by_build ? 3 : 1, seed);
            loom_map *map = make_map(t, context, n);
            if (by_build)
                checked_build(map, &b, LOOM_KEEP);
            else
                checked_insert(map, &b, LOOM_KEEP);
            all[run] = retrieve(map, t->key_bytes, t->value_bytes);
            loom_map_destroy(map);
            loom_context_destroy(context);
        }
        CHECK_EQ(all[0].n, all[1].n);
        CHECK_BYTES(all[0].keys, all[1].keys, n * t->key_bytes);
        CHECK_BYTES(all[0].values, all[1].values, n * t->value_bytes);
        free_batch(&all[0]);
        free_batch(&all[1]);
    }
    /* Another seed gives another order. */
    loom_context *context = make_context_with(t, 1, seed);
    loom_context *other = make_context_with(t, 1, seed + 1);
    loom_map *map = make_map(t, context, n), *second = make_map(t, other, n);
    checked_build(map, &b, LOOM_KEEP);
    checked_build(second, &b, LOOM_KEEP);
    all[0] = retrieve(map, t->key_bytes, t->value_bytes);
    all[1] = retrieve(second, t->key_bytes, t->value_bytes);
    CHECK(memcmp(all[0].keys, all[1].keys, n * t->key_bytes) != 0);
    check_same_contents(map, second, t->key_bytes, t->value_bytes);
    free_batch(&all[0]);
    free_batch(&all[1]);
    free_batch(&b);
    loom_map_destroy(map);
    loom_map_destroy(second);
    loom_context_destroy(context);
    loom_context_destroy(other);
}

TEST_EACH_KIND(test_open_build_thread_counts_agree, .every_engine = 1, .cpu_only = 1)
{
    static const uint32_t threads[] = {1, 2, 3, 8};
    uint64_t n = test_scaled(t, 60000, 8000), seed = random_u64(&t->random);
    loom_context *contexts[4];
    loom_map *maps[4];
    batch b = make_batch(t, n), half = make_batch(t, n / 2), doubled = make_batch(t, n);
    fill_distinct(&b, 2, 0);
    fill_distinct(&half, 2, n / 4);
    fill_distinct(&doubled, 2, n / 2);
    for (int i = 0; i < 4; i++) {
        contexts[i] = make_context_with(t, threads[i], seed);
        maps[i] = make_map(t, contexts[i], 2 * n);
        checked_build(maps[i], &b, LOOM_OVERWRITE | LOOM_IN_ORDER);
        checked_erase(maps[i], &half);
        checked_insert(maps[i], &doubled, LOOM_KEEP);
        checked_verify(maps[i]);
        check_same_contents(maps[0], maps[i], t->key_bytes, t->value_bytes);
    }
    for (int i = 0; i < 4; i++) {
        loom_map_destroy(maps[i]);
        loom_context_destroy(contexts[i]);
    }
    free_batch(&b);
    free_batch(&half);
    free_batch(&doubled);
}
