/* Edge capacities. A table made for n keys holds any n keys. Tables that are exactly full. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

static uint64_t slots_in_bucket(loom_map *map)
{
    return map_stats(map).slots_per_bucket;
}

static loom_map *make_loaded_map(test_run *t, loom_context *context, uint64_t capacity, double load)
{
    loom_map_config config = make_config(t, capacity);
    config.max_load = load;
    return make_map_from(context, &config);
}

/* Fills a table with n keys, by a build or by insertions, and finds all of them. */
static void fill_and_check(test_run *t, loom_context *context, uint64_t n, double load, uint64_t salt, int by_build)
{
    loom_map *map = make_loaded_map(t, context, n, load);
    batch b = make_batch(t, n);
    fill_distinct(&b, salt, 0);
    test_note("capacity %llu, load %g, salt 0x%llx, %s", (unsigned long long)n, load, (unsigned long long)salt,
              by_build ? "build" : "insert");
    loom_result result = by_build ? checked_build(map, &b, LOOM_KEEP) : checked_insert(map, &b, LOOM_KEEP);
    CHECK_EQ(result.full, 0);
    CHECK_EQ(result.ok, n);
    check_contents(map, &b);
    loom_map_destroy(map);
    free_batch(&b);
}

TEST_EACH_KIND(test_open_create_edge_capacities, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *probe = make_map(t, context, 1);
    uint64_t bucket = slots_in_bucket(probe);
    loom_map_destroy(probe);
    const uint64_t capacities[] = {0,    1,    2,    bucket - 1, bucket, bucket + 1, 2 * bucket, 2 * bucket + 1,
                                   3,    5,    7,    8,          11,     13,         16,         17,
                                   31,   63,   64,   65,         127,    251,        256,        509,
                                   1021, 1023, 1024, 1025,       4093,   65536,      65537,      100003};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0] - test_scaled(t, 0, 4); i++)
        for (int by_build = 0; by_build < 2; by_build++) {
            fill_and_check(t, context, capacities[i], 0, random_u64(&t->random), by_build);
            fill_and_check(t, context, capacities[i], 0.95, random_u64(&t->random), by_build);
            fill_and_check(t, context, capacities[i], 0.3, random_u64(&t->random), by_build);
        }
    loom_context_destroy(context);
}

/* A table for no keys is still a table: it finds nothing, erases nothing, may take a few keys, and refuses the rest. */
TEST_EACH_KIND(test_open_create_capacity_zero, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 0);
    model m = make_model(t, map, 0);
    batch b = make_batch(t, 5000);
    fill_distinct(&b, random_u64(&t->random), 0);
    model_find(&m, &b);
    model_erase(&m, &b);
    model_compare(&m);
    model_compare_cursor(&m, 10);
    CHECK_GT(model_insert(&m, &b, LOOM_KEEP).full, 0);
    model_compare(&m);
    CHECK_GT(model_build(&m, &b, LOOM_KEEP | LOOM_IN_ORDER).full, 0);
    model_compare(&m);
    model_clear(&m);
    model_compare(&m);
    free_model(&m);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Any n keys fit into a table made for n: all small capacities, and many seeds. The calls have neither status array nor
 * result, as in most programs. */
TEST_EACH(test_open_insert_any_n_keys_fit, .long_tier = 1, .timeout_seconds = 120)
{
    uint64_t seeds = test_scaled(t, 12, 2);
    for (uint64_t s = 0; s < seeds; s++) {
        loom_context *context = make_context_with(t, 1, random_u64(&t->random));
        for (uint64_t n = 1; n <= 300; n++) {
            uint64_t salt = random_u64(&t->random);
            double load = s % 3 == 0 ? 0 : s % 3 == 1 ? 0.95 : 0.9;
            loom_map *map = make_loaded_map(t, context, n, load);
            batch b = make_batch(t, n);
            fill_distinct(&b, salt, 0);
            test_note("%llu keys, load %g", (unsigned long long)n, load);
            if (s & 1)
                CHECK_OK(loom_map_build(map, b.keys, b.values, n, LOOM_KEEP, NULL, NULL, NULL));
            else
                CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_KEEP, NULL, NULL, NULL));
            CHECK_EQ(map_size(map), n);
            check_all_found(map, &b);
            loom_map_destroy(map);
            free_batch(&b);
        }
        loom_context_destroy(context);
    }
}

/* The same for structured keys, which a weak hash would pile up in few partitions. */
TEST_EACH(test_open_insert_structured_keys_fit, .long_tier = 1, .every_engine = 1, .timeout_seconds = 120)
{
    uint64_t n = test_scaled(t, 200000, 20000);
    loom_context *context = make_context(t);
    batch b = make_batch(t, n);
    for (int family = 0; family < 12; family++) {
        loom_map *map = make_loaded_map(t, context, n, family & 1 ? 0.95 : 0.8);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t key = i;
            switch (family) {
            case 1:
                key = i << 8;
                break;
            case 2:
                key = i << 12;
                break;
            case 3:
                key = b.key_bytes == 8 ? i << 32 : i << 14;
                break;
            case 4:
                key = b.key_bytes == 8 ? i << 46 : i << 10;
                break;
            case 5:
                key = b.key_bytes == 8 ? i << 32 | i : i << 4;
                break;
            case 6:
                key = UINT64_MAX - i;
                break;
            case 7:
                key = i * 1747;
                break;
            case 8:
                key = b.key_bytes == 8 ? i * UINT64_C(0x100000001) * 3 : i * 4096 + 1;
                break;
            case 9:
                key = b.key_bytes == 8 ? i << 32 | (i ^ 1) : i * 8;
                break;
            case 10:
                key = 0x8000 + 48 * i;
                break;
            case 11:
                key = b.key_bytes == 8 ? i << 32 | (uint32_t)~i : i * 16;
                break;
            }
            set_pair(&b, i, key, i);
        }
        test_note("family %d", family);
        loom_result result = family % 4 < 2 ? checked_build(map, &b, LOOM_KEEP) : checked_insert(map, &b, LOOM_KEEP);
        CHECK_EQ(result.ok, n);
        CHECK_EQ(result.full, 0);
        check_all_found(map, &b);
        checked_verify(map);
        loom_map_destroy(map);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_insert_any_n_keys_fit_medium, .long_tier = 1, .every_engine = 1)
{
    uint64_t rounds = test_scaled(t, 20, 3);
    for (uint64_t round = 0; round < rounds; round++) {
        loom_context *context = make_context(t);
        uint64_t n = 300 + random_below(&t->random, test_scaled(t, 30000, 5000));
        fill_and_check(t, context, n, round & 1 ? 0.95 : 0, random_u64(&t->random), (int)(round >> 1 & 1));
        loom_context_destroy(context);
    }
}

/* Any n keys fit for every partition size that the user asks for. */
TEST_EACH_KIND(test_open_create_partition_sizes)
{
    static const uint32_t sizes[] = {2, 3, 5, 7, 11, 31, 127, 509, 1747, 3499};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint64_t n = 1; n <= test_scaled(t, 20000, 2000); n = n * 5 + 3) {
            loom_map_config config = make_config(t, n);
            config.buckets_per_partition = sizes[i];
            config.max_load = 0.95;
            test_note("%u buckets in a partition, %llu keys", sizes[i], (unsigned long long)n);
            loom_map *map = make_map_from(context, &config);
            CHECK_EQ(map_stats(map).buckets_per_partition, sizes[i]);
            CHECK_GE(map_stats(map).partitions, 2);
            batch b = make_batch(t, n);
            fill_distinct(&b, random_u64(&t->random), 0);
            loom_result result = i & 1 ? checked_build(map, &b, LOOM_KEEP) : checked_insert(map, &b, LOOM_KEEP);
            CHECK_EQ(result.ok, n);
            check_contents(map, &b);
            loom_map_destroy(map);
            free_batch(&b);
        }
    loom_context_destroy(context);
}

/* ---- Exactly full --------------------------------------------------------------------------------------- */

/* Inserts random keys until every slot is taken. Each refused key must be absent. A random key belongs to a given
 * partition with probability 1 / partitions: the last free slot is found far sooner than the bound of the loop. */
static void fill_to_the_last_slot(model *m, uint64_t slots, uint32_t flags)
{
    uint64_t salt = random_u64(&m->t->random), thrown = 0;
    loom_stats stats = map_stats(m->map);
    uint64_t most = (slots + 200) * (stats.partitions + 1) * 20;
    while (map_size(m->map) < slots) {
        batch b = make_batch_of(m->key_bytes, m->value_bytes, 1 + slots / 2);
        fill_distinct(&b, salt, thrown);
        thrown += b.n;
        loom_result result = model_insert(m, &b, flags);
        CHECK_LE(map_size(m->map), slots);
        CHECK_EQ(result.ok + result.full + result.exists, b.n);
        free_batch(&b);
        CHECK_LT(thrown, most);
    }
}

static void exercise_full_table(test_run *t, loom_map *map, uint64_t capacity, uint32_t flags)
{
    model m = make_model(t, map, capacity);
    uint64_t slots = map_stats(map).slots;
    fill_to_the_last_slot(&m, slots, flags);
    model_compare(&m);
    loom_stats stats = map_stats(map);
    CHECK_EQ(stats.size, slots);
    CHECK_EQ(stats.fullest_partition * stats.partitions, slots);
    CHECK_NEAR(stats.load, 1.0, 1e-12);

    /* In a full table every new key is refused, alone and in a batch, with and without a result. */
    batch news = make_batch(t, 100), one = make_batch(t, 1);
    fill_distinct(&news, UINT64_C(0x55aa55aa00000000) ^ slots, 1u << 30);
    model_find(&m, &news);
    loom_result refused = model_insert(&m, &news, flags);
    uint64_t known = refused.exists; /* a new key may be an old one, by chance */
    CHECK_EQ(refused.full + known, 100);
    for (uint64_t i = 0; i < 10; i++) {
        set_pair(&one, 0, batch_key(&news, i), 1);
        if (reference_get(m.reference, batch_key(&news, i), NULL))
            continue;
        CHECK_REFUSED(loom_map_insert(map, one.keys, one.values, 1, flags, NULL, NULL, NULL), LOOM_FULL);
        CHECK_REFUSED(loom_map_insert(map, one.keys, one.values, 1, flags, one.status, NULL, NULL), LOOM_FULL);
        CHECK_EQ(one.status[0], LOOM_FULL);
        CHECK_EQ(model_insert(&m, &one, flags).full, 1);
    }
    model_compare(&m);

    /* Keys of the table can still be overwritten, with the status LOOM_EXISTS. */
    batch all = retrieve(map, t->key_bytes, t->value_bytes);
    for (uint64_t i = 0; i < all.n; i++)
        set_word(all.values, all.value_bytes, i, random_u64(&t->random));
    CHECK_EQ(model_insert(&m, &all, LOOM_OVERWRITE | (flags & LOOM_IN_ORDER)).exists, slots);
    model_compare(&m);

    /* Erased keys make room: the same keys fit again, one by one and then together. */
    for (uint64_t i = 0; i < 20 && i < slots; i++) {
        uint64_t which = random_below(&t->random, slots);
        set_pair(&one, 0, batch_key(&all, which), random_u64(&t->random));
        model_erase(&m, &one);
        CHECK_EQ(one.status[0], LOOM_OK);
        CHECK_EQ(model_insert(&m, &one, flags).ok, 1);
    }
    batch half = make_batch(t, (slots + 1) / 2);
    for (uint64_t i = 0; i < half.n; i++)
        set_pair(&half, i, batch_key(&all, i), batch_value(&all, i));
    model_erase(&m, &half);
    CHECK_EQ(map_size(map), slots - half.n);
    CHECK_EQ(model_insert(&m, &half, flags).ok, half.n);
    CHECK_EQ(map_size(map), slots);
    model_compare(&m);
    model_compare_cursor(&m, 13);

    /* Build over a full table, with more keys than it has slots. */
    batch many = make_batch(t, slots * 2 + 50);
    fill_distinct(&many, random_u64(&t->random), 0);
    CHECK_GT(model_build(&m, &many, flags).full, 0);
    model_compare(&m);
    model_erase(&m, &many);
    CHECK_EQ(map_size(map), 0);
    CHECK_GE(model_insert(&m, &many, flags).ok, capacity);
    model_compare(&m);

    free_batch(&news);
    free_batch(&one);
    free_batch(&all);
    free_batch(&half);
    free_batch(&many);
    free_model(&m);
}

TEST_EACH_KIND(test_open_insert_full_plus_one, .timeout_seconds = 120)
{
    static const uint64_t capacities[] = {0, 1, 2, 7, 8, 13, 50, 100, 300, 1000};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < test_scaled(t, 10, 8); i++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            loom_map *map = make_map(t, context, capacities[i]);
            test_note("capacity %llu, flags %u", (unsigned long long)capacities[i], flags);
            exercise_full_table(t, map, capacities[i], flags);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_insert_full_plus_one_small_partitions)
{
    static const uint32_t buckets[] = {2, 3, 5, 13};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
        loom_map_config config = make_config(t, 10);
        config.buckets_per_partition = buckets[i];
        config.max_load = 0.95;
        loom_map *map = make_map_from(context, &config);
        exercise_full_table(t, map, 10, i & 1 ? LOOM_KEEP : LOOM_OVERWRITE);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* A build of far more keys than there is room for: the stored keys are right, the refused keys are absent. The table is
 * small, because a refused key has looked at every bucket of its partition. */
TEST_EACH_KIND(test_open_build_overfull)
{
    loom_context *context = make_context(t);
    uint64_t capacity = test_scaled(t, 3000, 500);
    for (uint32_t flags = 0; flags < 4; flags++) {
        loom_map *map = make_map(t, context, capacity);
        model m = make_model(t, map, capacity);
        batch b = make_batch(t, capacity * 3);
        fill_distinct(&b, random_u64(&t->random), 0);
        for (uint64_t i = 0; i < b.n; i += 5) /* some keys twice */
            set_word(b.keys, b.key_bytes, i, batch_key(&b, random_below(&t->random, b.n)));
        test_note("flags %u", flags);
        CHECK_GE(model_build(&m, &b, flags).ok, capacity);
        model_compare(&m);
        loom_status status = loom_map_build(map, b.keys, b.values, b.n, flags, NULL, NULL, NULL);
        CHECK_STATUS(status, LOOM_FULL);
        CHECK_GE(map_size(map), capacity);
        checked_verify(map);
        free_model(&m);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}
