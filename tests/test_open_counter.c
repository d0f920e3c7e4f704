/* Counters, and loom_map_count on any map: how often each key came. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

static loom_map *make_counter(test_run *t, loom_context *context, uint64_t capacity)
{
    loom_map_config config = make_config(t, capacity);
    config.type = LOOM_TYPE_COUNTER;
    loom_map *counter = make_map_from(context, &config);
    CHECK_EQ(map_stats(counter).type, LOOM_TYPE_COUNTER);
    return counter;
}

/* Draws a number below `keys`. Small numbers come more often: the bound of the draw is halved with probability 1/2,
 * again and again. */
static uint64_t skewed(test_run *t, uint64_t keys)
{
    uint64_t bound = keys;
    while (bound > 2 && random_u64(&t->random) & 1)
        bound /= 2;
    return random_below(&t->random, bound);
}

/* The table holds these counts and no other keys. */
static void check_counts(loom_map *map, const test_run *t, uint64_t salt, const uint64_t *counts, uint64_t keys)
{
    batch all = make_batch(t, keys);
    uint64_t different = 0;
    for (uint64_t i = 0; i < keys; i++)
        set_pair(&all, i, distinct_key(t->key_bytes, salt, i), 0);
    checked_find(map, &all);
    for (uint64_t i = 0; i < keys; i++) {
        test_note("key %llu of %llu", (unsigned long long)i, (unsigned long long)keys);
        CHECK_EQ(all.status[i], counts[i] ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_EQ(batch_value(&all, i), cut_word(counts[i], t->value_bytes)); /* 0 for keys that never came */
        different += counts[i] > 0;
    }
    test_note("%s", "");
    CHECK_EQ(map_size(map), different);
    checked_verify(map);
    free_batch(&all);
}

TEST_EACH(test_open_count_skewed_keys, .every_engine = 1)
{
    enum { KEYS = 5000 };
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 100000, 30000), salt = random_u64(&t->random), counts[KEYS] = {0};
    loom_map *counter = make_counter(t, context, KEYS);
    batch b = make_batch(t, n);
    for (int round = 0; round < 3; round++) {
        uint64_t new = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t which = skewed(t, KEYS);
            new += counts[which]++ == 0;
            set_pair(&b, i, distinct_key(b.key_bytes, salt, which), 0);
        }
        loom_result result = checked_count(counter, &b);
        CHECK_EQ(result.ok, new); /* the first entry of each key */
        CHECK_EQ(result.exists, n - new);
        check_counts(counter, t, salt, counts, KEYS);
    }
    free_batch(&b);
    loom_map_destroy(counter);
    loom_context_destroy(context);
}

/* One key has half of the entries, or all of them: every thread and lane works on this key. */
TEST_EACH(test_open_count_one_key_half_of_the_batch)
{
    enum { KEYS = 3000 };
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 100000, 30000), salt = random_u64(&t->random), counts[KEYS] = {0};
    loom_map *counter = make_counter(t, context, KEYS);
    batch b = make_batch(t, n);
    for (int round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t which = random_below(&t->random, KEYS);
            if (round == 0 ? i & 1 : round == 1 ? i < n / 2 : round == 2) /* every other entry; the first half; all */
                which = 17;
            counts[which]++;
            set_pair(&b, i, distinct_key(b.key_bytes, salt, which), 0);
        }
        checked_count(counter, &b);
        check_counts(counter, t, salt, counts, KEYS);
    }
    CHECK_GT(counts[17], 2 * n - 1);
    free_batch(&b);
    loom_map_destroy(counter);
    loom_context_destroy(context);
}

/* Counts are unsigned numbers of value_bytes and wrap around modulo 2^32 or 2^64. The carry changes neither other slots
 * of the bucket nor the key, which shares a word with a count of 4 bytes. */
TEST_EACH(test_open_count_wraps_around)
{
    loom_context *context = make_context(t);
    loom_map *counter = make_counter(t, context, 40);
    batch start = make_batch(t, 40), b = make_batch(t, 7 * 40);
    fill_distinct(&start, random_u64(&t->random), 0);
    for (uint64_t i = 0; i < start.n; i++) /* every other count is five below the end */
        set_pair(&start, i, batch_key(&start, i), i & 1 ? UINT64_MAX - 4 : 100);
    CHECK_EQ(checked_insert(counter, &start, LOOM_KEEP).ok, start.n);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, batch_key(&start, i % 40), 0);
    CHECK_EQ(checked_count(counter, &b).exists, b.n); /* 0 is a count like any other: the key is there */
    for (uint64_t i = 0; i < start.n; i++)
        set_pair(&start, i, batch_key(&start, i), i & 1 ? 2 : 107);
    check_contents(counter, &start);
    /* At exactly 2^32 or 2^64 the count is 0, and the key stays. */
    batch one = make_batch(t, 1);
    set_pair(&one, 0, batch_key(&start, 0), UINT64_MAX);
    CHECK_EQ(checked_update(counter, &one).ok, 1);
    CHECK_EQ(checked_count(counter, &one).exists, 1);
    CHECK_EQ(checked_find(counter, &one).ok, 1);
    CHECK_EQ(batch_value(&one, 0), 0);
    CHECK_EQ(checked_count(counter, &one).exists, 1);
    CHECK_EQ(checked_find(counter, &one).ok, 1);
    CHECK_EQ(batch_value(&one, 0), 1);
    CHECK_EQ(map_size(counter), start.n);
    free_batch(&one);
    free_batch(&start);
    free_batch(&b);
    loom_map_destroy(counter);
    loom_context_destroy(context);
}

/* Counting to 2^32 from 0 would take minutes. The count starts at -n / 2 instead, and one batch makes it wrap
 * around. */
TEST_EACH(test_open_count_wraps_around_in_parallel, .threads = 1)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 100000, 40000);
    loom_map *counter = make_counter(t, context, 2);
    batch one = make_batch(t, 1), b = make_batch(t, n);
    set_pair(&one, 0, 12345, 0 - n / 2);
    CHECK_EQ(checked_insert(counter, &one, LOOM_KEEP).ok, 1);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, 12345, 0);
    CHECK_EQ(checked_count(counter, &b).exists, n);
    CHECK_EQ(checked_find(counter, &one).ok, 1);
    CHECK_EQ(batch_value(&one, 0), n - n / 2);
    CHECK_EQ(map_size(counter), 1);
    free_batch(&one);
    free_batch(&b);
    loom_map_destroy(counter);
    loom_context_destroy(context);
}

/* On a plain map, loom_map_count accumulates ones. It mixes with all other calls. */
TEST_EACH(test_open_count_on_a_map)
{
    loom_context *context = make_context(t);
    uint64_t n = 8000;
    model m = make_model(t, make_map(t, context, n), n), ones = make_model(t, make_map(t, context, n), n);
    batch b = make_batch(t, n), some = make_batch(t, n / 4);
    fill_distinct(&some, 5, n / 2);
    model_insert(&m, &some, LOOM_KEEP);
    model_insert(&ones, &some, LOOM_KEEP);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, distinct_key(b.key_bytes, 5, random_below(&t->random, n)), 1);
        model_accumulate(&ones, &b, LOOM_COMBINE_ADD, 0);
        model_count(&m, &b);
        model_compare(&m);
        check_same_contents(m.map, ones.map, t->key_bytes, t->value_bytes);
        model_erase(&m, &some); /* erased keys start again with 1 */
        model_erase(&ones, &some);
    }
    CHECK_EQ(map_stats(m.map).type, LOOM_TYPE_MAP);
    free_batch(&b);
    free_batch(&some);
    loom_map_destroy(m.map);
    loom_map_destroy(ones.map);
    free_model(&m);
    free_model(&ones);
    loom_context_destroy(context);
}

/* A batch that does not fit: stored keys have the right counts, and all other keys get LOOM_FULL. */
TEST_EACH(test_open_count_full)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 40000, 6000);
    model m = make_model(t, make_counter(t, context, 1000), 1000);
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, 3, i % 4000), 1);
    model_count(&m, &b);
    CHECK_GE(map_size(m.map), 1000);
    model_count(&m, &b); /* keys of the table are still counted */
    CHECK_REFUSED(loom_map_count(m.map, b.keys, n, NULL, NULL, NULL), LOOM_FULL);
    CHECK_REFUSED(loom_map_count(m.map, b.keys, n, b.status, NULL, NULL), LOOM_FULL);
    loom_result result;
    memset(&result, 0xee, sizeof result);
    CHECK_OK(loom_map_count(m.map, b.keys, n, NULL, &result, NULL));
    CHECK_EQ(result.status, LOOM_FULL);
    CHECK_EQ(result.exists + result.full, n);
    checked_verify(m.map);
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH(test_open_count_optional_outputs)
{
    loom_context *context = make_context(t);
    loom_map *counter = make_counter(t, context, 100);
    batch b = make_batch(t, 100);
    loom_result result;
    fill_distinct(&b, 4, 0);
    for (unsigned outputs = 0; outputs < 4; outputs++) {
        memset(&result, 0xee, sizeof result);
        memset(b.status, 0xee, b.n);
        test_note("outputs %u", outputs);
        CHECK_OK(
            loom_map_count(counter, b.keys, b.n, outputs & 1 ? b.status : NULL, outputs & 2 ? &result : NULL, NULL));
        for (uint64_t i = 0; i < b.n; i++)
            CHECK_EQ(b.status[i], outputs & 1 ? LOOM_EXISTS : 0xee);
        if (outputs & 2)
            CHECK_EQ(result.exists, 100);
    }
    /* Batches of no keys. */
    batch none = make_batch(t, 0);
    CHECK_EQ(checked_count(counter, &none).keys, 0);
    CHECK_OK(loom_map_count(counter, NULL, 0, NULL, NULL, NULL));
    CHECK_OK(loom_map_count(counter, NULL, 0, NULL, &result, NULL));
    CHECK_EQ(result.keys, 0);
    CHECK_EQ(result.status, LOOM_OK);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, batch_key(&b, i), 4);
    check_contents(counter, &b);
    free_batch(&none);
    free_batch(&b);
    loom_map_destroy(counter);
    loom_context_destroy(context);
}

/* A counter keeps its type through clones, files and configs, and continues to count. */
TEST_EACH(test_open_counter_keeps_its_type, .every_engine = 1)
{
    loom_context *context = make_context(t), *other = make_context(t);
    uint64_t n = 2000;
    loom_map *counter = make_counter(t, context, n), *clone = NULL, *loaded = NULL, *same = NULL;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    batch b = make_batch(t, n);
    fill_distinct(&b, 8, 0);
    CHECK_EQ(checked_count(counter, &b).ok, n);
    CHECK_OK(loom_map_clone(counter, &clone, NULL));
    CHECK_EQ(checked_count(clone, &b).exists, n);
    CHECK_OK(loom_map_save(clone, test_path(t, "counter"), NULL));
    CHECK_OK(loom_map_load(other, test_path(t, "counter"), &loaded, NULL));
    CHECK_EQ(checked_count(loaded, &b).exists, n);
    CHECK_OK(loom_map_get_config(loaded, &config));
    CHECK_EQ(config.type, LOOM_TYPE_COUNTER);
    CHECK_EQ(config.value_bytes, t->value_bytes);
    CHECK_OK(loom_map_create(other, &config, &same));
    loom_map *const all[] = {same, counter, clone, loaded};
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(map_stats(all[i]).type, LOOM_TYPE_COUNTER);
        for (uint64_t j = 0; j < n; j++)
            set_pair(&b, j, batch_key(&b, j), i);
        if (i > 0)
            check_contents(all[i], &b);
        loom_map_destroy(all[i]);
    }
    free_batch(&b);
    loom_context_destroy(context);
    loom_context_destroy(other);
}

/* Counters support all calls of maps. */
TEST_EACH(test_open_counter_random_operations, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t capacity = 800;
    model m = make_model(t, make_counter(t, context, capacity), capacity);
    for (uint64_t step = 0; step < test_scaled(t, 120, 40); step++) {
        batch b = make_batch(t, random_below(&t->random, 600));
        for (uint64_t i = 0; i < b.n; i++)
            set_pair(&b, i, distinct_key(b.key_bytes, 5, skewed(t, capacity)), random_below(&t->random, 50));
        switch (random_below(&t->random, 8)) {
        case 0:
            model_insert(&m, &b, (uint32_t)random_below(&t->random, 4));
            break;
        case 1:
            model_erase(&m, &b);
            break;
        case 2:
            model_update(&m, &b);
            break;
        case 3:
            model_find_or_insert(&m, &b);
            break;
        case 4:
            model_find(&m, &b);
            break;
        default:
            model_count(&m, &b);
        }
        checked_verify(m.map);
        free_batch(&b);
    }
    model_compare(&m);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}
