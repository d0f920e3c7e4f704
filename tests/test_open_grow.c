/* Tables that change their size: reserve, shrink, and automatic growth. */
#include "core/hash.h"
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

static uint64_t capacity_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config.capacity;
}

static loom_map *make_growing(test_run *t, loom_context *context, uint64_t capacity, double growth)
{
    loom_map_config config = make_config(t, capacity);
    config.growth = growth;
    return make_map_from(context, &config);
}

/* Resizes by many factors: the contents stay, and lookups cost what they cost in a new table. */
TEST_EACH_KIND(test_open_resize_keeps_contents, .threads = 1, .every_engine = 1, .long_tier = 1)
{
    static const double factors[] = {1.01, 2, 3.7, 0.5, 10, 0.11};
    loom_context *context = make_context(t);
    uint64_t n = test_scaled(t, 60000, 10000);
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    checked_insert(map, &b, LOOM_KEEP);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        uint64_t wanted = (uint64_t)((double)n * factors[i]), before = capacity_of(map);
        test_note("factor %g", factors[i]);
        CHECK_OK(loom_map_reserve(map, wanted, NULL));
        CHECK_EQ(capacity_of(map), wanted > before ? wanted : before);
        check_contents(map, &b);
        checked_verify(map);
        if (factors[i] < 1) {
            CHECK_OK(loom_map_shrink(map, NULL));
            CHECK_EQ(capacity_of(map), n);
            check_contents(map, &b);
            checked_verify(map);
        }
    }
    loom_stats grown = map_stats(map);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    checked_insert(map, &b, LOOM_KEEP);
    CHECK_NEAR(grown.accesses_per_hit, map_stats(map).accesses_per_hit, 0.1);
    /* Keys of the table are found, erased and inserted again, as in any table. */
    CHECK_EQ(checked_erase(map, &b).ok, n);
    CHECK_OK(loom_map_shrink(map, NULL));
    CHECK_EQ(map_size(map), 0);
    CHECK_OK(loom_map_reserve(map, n, NULL));
    CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, n);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A table has more slots than its capacity and may hold more keys. Reserving room for fewer keys than it holds does
 * nothing. */
TEST_EACH_KIND(test_open_reserve_less_than_held, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t made_for = 50000;
    loom_map *map = make_growing(t, context, made_for, 0);
    uint64_t n = map_stats(map).slots - map_stats(map).slots / 100;
    batch all = make_batch(t, n), held;
    fill_distinct(&all, random_u64(&t->random), 0);
    uint64_t ok = checked_insert(map, &all, LOOM_KEEP).ok;
    CHECK_GT(ok, made_for + 2);
    held = retrieve(map, t->key_bytes, t->value_bytes);
    const uint64_t fewer[] = {0, made_for, made_for + 1, (made_for + ok) / 2, ok - 1};
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
        test_note("%llu keys, room for %llu", (unsigned long long)ok, (unsigned long long)fewer[i]);
        CHECK_OK(loom_map_reserve(map, fewer[i], NULL));
        CHECK_EQ(capacity_of(map), made_for);
    }
    check_contents(map, &held);
    /* After a reserve for the number of stored keys, any keys of this number fit. */
    CHECK_OK(loom_map_reserve(map, ok, NULL));
    CHECK_EQ(capacity_of(map), ok);
    check_contents(map, &held);
    CHECK_OK(loom_map_reserve(map, n, NULL));
    CHECK_EQ(checked_insert(map, &all, LOOM_KEEP).full, 0);
    check_contents(map, &all);
    free_batch(&held);
    free_batch(&all);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A table that was made for no keys takes all keys, in batches of any size. */
TEST_EACH_KIND(test_open_growth_takes_all, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = test_scaled(t, 200000, 30000), salt = random_u64(&t->random);
    loom_map *map = make_growing(t, context, 0, 1.5 + (double)random_below(&t->random, 300) / 100);
    batch all = make_batch(t, n);
    fill_distinct(&all, salt, 0);
    for (uint64_t done = 0; done < n;) {
        uint64_t left = n - done, size = 1 + random_below(&t->random, left < 50000 ? left : 50000);
        batch some = make_batch(t, size);
        fill_distinct(&some, salt, done);
        CHECK_EQ(checked_insert(map, &some, LOOM_KEEP).ok, size);
        CHECK_EQ(checked_insert(map, &some, LOOM_OVERWRITE).exists, size);
        done += size;
        free_batch(&some);
    }
    check_contents(map, &all);
    checked_verify(map);
    CHECK_GE(capacity_of(map), n);
    CHECK_LE(capacity_of(map), 6 * n);
    free_batch(&all);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Repeated rows do not make a table grow. Sums stay right although growth divides the batch into parts. */
TEST_EACH_KIND(test_open_growth_of_few_keys)
{
    if (t->value_bytes == 0)
        return;
    loom_context *context = make_context(t);
    uint64_t keys = 3000, rows = 60000, salt = random_u64(&t->random);
    loom_map *map = make_growing(t, context, 1000, 2);
    batch b = make_batch(t, rows), counted = make_batch(t, keys);
    for (uint64_t i = 0; i < rows; i++)
        set_pair(&b, i, distinct_key(t->key_bytes, salt, i % keys), 1);
    for (uint64_t i = 0; i < keys; i++)
        set_pair(&counted, i, distinct_key(t->key_bytes, salt, i), 2 * rows / keys);
    loom_result result =
        checked_accumulate(map, &b, LOOM_COMBINE_ADD, t->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64);
    CHECK_EQ(result.ok, keys);
    CHECK_EQ(result.exists, rows - keys);
    result = checked_count(map, &b);
    CHECK_EQ(result.exists, rows);
    check_contents(map, &counted);
    CHECK_LE(capacity_of(map), 8000);
    free_batch(&b);
    free_batch(&counted);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Growth divides a batch into parts. The numbers of a part begin at the right address, although numbers are narrower
 * than values. */
TEST_EACH(test_open_growth_narrow_numbers)
{
    if (t->value_bytes != 8)
        return;
    loom_context *context = make_context(t);
    uint64_t keys = 20000, rows = 60000, salt = random_u64(&t->random);
    loom_map *map = make_growing(t, context, 1000, 2);
    batch b = make_batch_of(t->key_bytes, 4, rows), wanted = make_batch(t, keys);
    for (uint64_t i = 0; i < keys; i++)
        set_pair(&wanted, i, distinct_key(t->key_bytes, salt, i), 0);
    for (uint64_t i = 0; i < rows; i++) {
        set_pair(&b, i, batch_key(&wanted, i % keys), i);
        set_word(wanted.values, 8, i % keys, batch_value(&wanted, i % keys) + LOOM_COUNTED(i));
    }
    loom_result result = checked_accumulate(map, &b, LOOM_COMBINE_ADD_AND_COUNT, LOOM_NUMBER_U32);
    CHECK_EQ(result.ok, keys);
    CHECK_EQ(result.exists, rows - keys);
    check_contents(map, &wanted);
    free_batch(&b);
    free_batch(&wanted);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_growth_of_a_build, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_growing(t, context, 100, 2);
    batch b = make_batch(t, 20000);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, 20000);
    check_contents(map, &b);
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A build, or an insertion into an empty table, takes the size that its keys need, however little was missing. */
TEST_EACH_KIND(test_open_growth_of_a_build_is_exact, .every_engine = 1)
{
    static const double shares[] = {0, 0.3, 0.9, 0.99};
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 30000, 10000);
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    for (size_t i = 0; i < 2 * sizeof shares / sizeof *shares; i++) {
        loom_map *map = make_growing(t, context, (uint64_t)((double)n * shares[i / 2]), 2);
        test_note("from %g of the keys, %s", shares[i / 2], i % 2 ? "inserted" : "built");
        CHECK_EQ((i % 2 ? checked_insert(map, &b, LOOM_KEEP) : checked_build(map, &b, LOOM_KEEP)).ok, n);
        CHECK_EQ(capacity_of(map), n);
        check_contents(map, &b);
        loom_map_destroy(map);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

/* After batches that bring no new key, the library looks at no batch beforehand. New keys are stored all the same. */
TEST_EACH_KIND(test_open_growth_after_batches_without_new_keys, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 20000, 5000);
    batch all = make_batch(t, 6 * n);
    fill_distinct(&all, random_u64(&t->random), 0);
    batch old = all; /* its first rows; the arrays are those of `all` */
    old.n = n;
    loom_map *map = make_growing(t, context, n, 2);
    CHECK_EQ(checked_insert(map, &old, LOOM_KEEP).ok, n);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(checked_insert(map, &old, LOOM_KEEP).exists, n);
        CHECK_EQ(capacity_of(map), n);
    }
    CHECK_EQ(checked_insert(map, &all, LOOM_KEEP).ok, 5 * n);
    CHECK_GE(capacity_of(map), 6 * n);
    check_contents(map, &all);
    free_batch(&all);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* There is memory for half of the growth: keys that fit are stored, the others are refused, and the sentence names the
 * missing bytes. */
TEST_EACH_KIND(test_open_growth_short_of_memory, .every_engine = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    loom_map *map = make_growing(t, context, 1000, 2);
    batch b = make_batch(t, 30000);
    fill_distinct(&b, random_u64(&t->random), 0);
    counting_limit(counter, counting_bytes(counter) + 100000);
    loom_result result = checked_insert(map, &b, LOOM_KEEP);
    CHECK_GT(result.full, 0);
    CHECK_GE(result.ok, 1000);
    CHECK_EQ(result.ok + result.full, 30000);
    CHECK_EQ(map_size(map), result.ok);
    checked_verify(map);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL), LOOM_FULL);
    CHECK(strstr(loom_last_error(), "could not grow") != NULL && strstr(loom_last_error(), "bytes") != NULL);
    CHECK_REFUSED(loom_map_reserve(map, 1000000, NULL), LOOM_OUT_OF_MEMORY);
    checked_verify(map);
    counting_limit(counter, UINT64_MAX);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).full, 0);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    CHECK_EQ(counting_bytes(counter), 0);
    counting_destroy(counter);
}

/* In a full table many keys lie outside their home buckets. */
TEST_EACH_KIND(test_open_resize_of_full_tables, .threads = 1, .every_engine = 1, .long_tier = 1)
{
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    const uint64_t n = test_scaled(t, 30000, 10000);
    loom_map_config config = make_config(t, n);
    config.max_load = 0.95;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    checked_insert(map, &b, LOOM_KEEP);
    static const double factors[] = {1.001, 1.3, 2.1, 4, 40};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        test_note("factor %g", factors[i]);
        CHECK_OK(loom_map_reserve(map, (uint64_t)((double)n * factors[i]), NULL));
        check_contents(map, &b);
        checked_verify(map);
        CHECK_OK(loom_map_shrink(map, NULL));
        if (factors[i] > 1.2) /* otherwise the table may not become smaller */
            CHECK_EQ(capacity_of(map), n);
        check_contents(map, &b);
        checked_verify(map);
    }
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* All keys belong to one of many partitions, which has no room for them. The table stays as it was. */
TEST_EACH_KIND(test_open_resize_of_keys_that_collide)
{
    enum { KEYS = 4000, CAPACITY = 20000 };
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, CAPACITY);
    const loom__seed seed = loom__seed_expand(map_stats(map).seed);
    batch b = make_batch(t, KEYS);
    uint64_t found = 0;
    for (uint64_t key = 0; found < KEYS; key++)
        if (loom__hash_partition(loom__hash_key(key, t->key_bytes, seed), 1024) == 700)
            set_pair(&b, found++, key, key);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, KEYS);
    CHECK_REFUSED(loom_map_reserve(map, 500000, NULL), LOOM_FULL);
    CHECK(strstr(loom_last_error(), "one partition") != NULL);
    CHECK_EQ(capacity_of(map), CAPACITY);
    check_contents(map, &b);
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* While a table moves, memory holds the old and the new table, and little else. */
TEST_EACH_KIND(test_open_resize_peak_memory)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    loom_map *map = make_map(t, context, 20000);
    batch b = make_batch(t, 20000);
    uint64_t before, after;
    fill_distinct(&b, random_u64(&t->random), 0);
    checked_insert(map, &b, LOOM_KEEP);
    CHECK_OK(loom_map_memory_used(map, &before));
    uint64_t others = counting_bytes(counter) - before;
    counting_reset_peak(counter);
    CHECK_OK(loom_map_reserve(map, 40000, NULL));
    CHECK_OK(loom_map_memory_used(map, &after));
    CHECK_EQ(counting_bytes(counter), others + after);
    CHECK_LE(counting_peak(counter), others + before + after + 4096);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
    counting_destroy(counter);
}

TEST(test_open_growth_config)
{
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL;
    config.key_bytes = config.value_bytes = 4;
    static const double wrong[] = {-1, 0.5, 1, 16.5, 1e300};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.growth = wrong[i];
        CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    }
    config.growth = 2;
    config.capacity = 10;
    map = make_map_from(context, &config);
    loom_map *clone = NULL;
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    batch b = make_batch_of(4, 4, 5000);
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(clone, &b, LOOM_KEEP).ok, 5000); /* a clone grows, too */
    CHECK_EQ(map_size(map), 0);                              /* the original does not */
    loom_map_config got = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(clone, &got));
    CHECK_NEAR(got.growth, 2, 0);
    CHECK_REFUSED(loom_map_reserve(NULL, 1, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_shrink(NULL, NULL), LOOM_INVALID_ARGUMENT);
    free_batch(&b);
    loom_map_destroy(clone);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A cursor returns LOOM_CHANGED after its table has moved. */
TEST(test_open_resize_ends_cursors)
{
    loom_context *context = make_context(t);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = 100;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch_of(4, 4, 100);
    fill_distinct(&b, 7, 0);
    checked_insert(map, &b, LOOM_KEEP);
    loom_cursor *cursor = NULL;
    uint64_t got;
    CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
    CHECK_OK(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL));
    CHECK_OK(loom_map_reserve(map, 10000, NULL));
    CHECK_REFUSED(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), LOOM_CHANGED);
    loom_cursor_close(cursor);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
