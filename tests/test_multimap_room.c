/* Room for the values of multimaps: tables that refuse values or grow, memory limits, and what churn costs. */
#include "harness/multimap_model.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bytes_of(loom_context *context, const loom_map_config *config)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_OK(loom_map_memory_required(context, config, &memory));
    return memory.table_bytes;
}

static uint64_t memory_used(loom_map *map)
{
    uint64_t bytes = UINT64_MAX;
    CHECK_OK(loom_map_memory_used(map, &bytes));
    return bytes;
}

static loom_map_config config_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config;
}

/* `keys` keys with `each` values, the rows of a key side by side. */
static batch regular_rows(test_run *t, uint64_t salt, uint64_t first_key, uint64_t keys, uint64_t each)
{
    batch b = make_batch(t, keys * each);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, salt, first_key + i / each), mix_u64(salt + i));
    return b;
}

/* ---- Tables that do not grow ---------------------------------------------------------------------------- */

/* A build of as many values as the table was made for fits, however they are spread over the keys. */
TEST_EACH_MULTIMAP(test_multimap_room_for_what_it_was_made_for)
{
    static const uint64_t each[] = {1, 2, 3, 5, 7, 100, 1000};
    loom_context *context = make_multimap_context(t);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const uint64_t keys = 1 + 1000 / each[i];
        const loom_map_config config = make_multimap_config(t, keys, keys * each[i]);
        multimap_model m = make_multimap_model(t, context, &config);
        batch b = regular_rows(t, random_u64(&t->random), 0, keys, each[i]);
        test_note("%llu keys with %llu values", (unsigned long long)keys, (unsigned long long)each[i]);
        for (int again = 0; again < 3; again++) { /* what was there before leaves nothing behind */
            CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, b.n);
            multimap_compare(&m);
            if (again == 1)
                multimap_clear(&m);
        }
        free_batch(&b);
        end_multimap_model(&m);
    }
    loom_context_destroy(context);
}

/* One key gets more values than there is room for. A value of 4 bytes needs no room if it is alone. */
TEST_EACH_MULTIMAP(test_multimap_room_too_small_for_one_key)
{
    static const uint64_t rooms[] = {0, 1, 2, 3, 5, 16, 99};
    loom_context *context = make_multimap_context(t);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        for (uint64_t more = 1; more <= 50; more += 49) { /* one too few, and many */
            const loom_map_config config = make_multimap_config(t, 10, rooms[i]);
            multimap_model m = make_multimap_model(t, context, &config);
            const uint64_t without_room = t->value_bytes == 4;
            const uint64_t fit = rooms[i] > without_room ? rooms[i] : without_room;
            batch b = regular_rows(t, random_u64(&t->random), 0, 1, fit + more);
            test_note("room for %llu values, %llu come", (unsigned long long)rooms[i], (unsigned long long)b.n);
            CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, fit);
            multimap_compare(&m);
            multimap_clear(&m);
            CHECK_GE(multimap_insert(&m, &b, LOOM_KEEP).full, more);
            multimap_find(&m, &b);
            multimap_compare(&m);
            CHECK_GE(multimap_insert(&m, &b, LOOM_KEEP).full, more); /* now it is known to be full */
            multimap_compare(&m);
            multimap_erase(&m, &b);
            CHECK_EQ(map_size(m.map), 0);
            multimap_compare(&m);
            free_batch(&b);
            end_multimap_model(&m);
        }
    loom_context_destroy(context);
}

/* Many keys, and room for all of their values but one, half of them, or none. The others are stored. */
TEST_EACH_MULTIMAP(test_multimap_room_too_small_for_many_keys)
{
    enum { KEYS = 40 };
    loom_context *context = make_multimap_context(t);
    for (uint64_t each = 1; each <= 5; each++)
        for (int way = 0; way < 4; way++) {
            const uint64_t all = KEYS * each, rooms[] = {all - 1, all / 2, 1, 0}, room = rooms[way];
            const loom_map_config config = make_multimap_config(t, KEYS, room);
            multimap_model m = make_multimap_model(t, context, &config);
            const uint64_t alone = t->value_bytes == 4 ? KEYS : 0; /* values that lie beside their keys */
            batch b = regular_rows(t, random_u64(&t->random), 0, KEYS, each);
            test_note("%llu values of each key, room for %llu", (unsigned long long)each, (unsigned long long)room);
            const uint64_t built = multimap_build(&m, &b, LOOM_KEEP).ok;
            CHECK_LE(built, room + alone);
            CHECK_GE(built + each, room); /* at most one list did not fit behind the others */
            if (each == 1 && alone)
                CHECK_EQ(built, all);
            multimap_find(&m, &b);
            multimap_compare(&m);
            multimap_clear(&m);
            CHECK_LE(multimap_insert(&m, &b, LOOM_KEEP).ok, room + alone);
            multimap_find(&m, &b);
            multimap_compare(&m);
            multimap_compare_cursor(&m, 3);
            /* Room for all: a second attempt stores what was refused, and only that. */
            batch rest = make_batch(t, b.n);
            rest.n = 0;
            for (uint64_t i = 0; i < b.n; i++)
                if (b.status[i] == LOOM_FULL)
                    set_pair(&rest, rest.n++, batch_key(&b, i), batch_value(&b, i));
            CHECK_OK(loom_map_reserve_values(m.map, 4 * all + 100, NULL));
            CHECK_EQ(multimap_insert(&m, &rest, LOOM_KEEP).ok, rest.n);
            CHECK_EQ(map_size(m.map), all);
            multimap_compare(&m);
            free_batch(&rest);
            free_batch(&b);
            end_multimap_model(&m);
        }
    loom_context_destroy(context);
}

/* More keys than the directory has slots for: a refused key leaves no list behind. */
TEST_EACH_MULTIMAP(test_multimap_room_too_few_slots)
{
    loom_context *context = make_multimap_context(t);
    const loom_map_config config = make_multimap_config(t, 50, 100000);
    multimap_model m = make_multimap_model(t, context, &config);
    const uint64_t slots = map_stats(m.map).slots, salt = random_u64(&t->random);
    for (uint64_t each = 1; each <= 4; each++) {
        batch b = regular_rows(t, salt, each << 20, 2 * slots, each);
        CHECK_GE(multimap_build(&m, &b, LOOM_KEEP).full, slots * each);
        CHECK_GE(m.distinct, 50);
        multimap_compare(&m);
        CHECK_GT(multimap_insert(&m, &b, LOOM_KEEP).full, 0); /* keys that are there get further values */
        multimap_compare(&m);
        free_batch(&b);
    }
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* ---- Tables that grow ------------------------------------------------------------------------------------- */

/* Few keys with many values let the heap grow, and many keys with one value the directory. */
TEST_EACH_MULTIMAP(test_multimap_room_grows, .long_tier = 1, .threads = 1)
{
    const uint64_t n = test_scaled(t, 40000, 6000), keys[] = {1, 30, n / 10, n};
    loom_context *context = make_multimap_context(t);
    for (size_t i = 0; i < 4; i++)
        for (int way = 0; way < 3; way++) {
            loom_map_config config = make_multimap_config(t, way == 2 ? 100 : 0, way == 2 ? 100 : 0);
            config.growth = 2;
            multimap_model m = make_multimap_model(t, context, &config);
            batch b = make_batch(t, n);
            for (uint64_t j = 0; j < n; j++)
                set_pair(&b, j, distinct_key(b.key_bytes, 3, random_below(&t->random, keys[i])), j);
            test_note("%llu keys, way %d", (unsigned long long)keys[i], way);
            if (way == 0)
                CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, n);
            else if (way == 1)
                multimap_insert_bare(&m, &b, LOOM_KEEP);
            else
                CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, n);
            multimap_compare(&m);
            /* Growth follows the contents: no table for many times as many values or keys. */
            const loom_map_config grown = config_of(m.map);
            CHECK_LE(grown.capacity, 3 * m.distinct + 500);
            CHECK_LE(grown.values, 4 * n + 500);
            CHECK_EQ(bytes_of(context, &grown), memory_used(m.map)); /* an equal table can be created */
            loom_map_config smallest = grown;
            smallest.capacity = m.distinct;
            smallest.values = n;
            smallest.buckets_per_partition = 0;
            CHECK_OK(loom_map_shrink(m.map, NULL));
            CHECK_LE(memory_used(m.map), bytes_of(context, &smallest));
            multimap_compare(&m);
            free_batch(&b);
            end_multimap_model(&m);
        }
    loom_context_destroy(context);
}

TEST_EACH_MULTIMAP(test_multimap_reserve_and_shrink)
{
    const uint64_t n = 2000;
    loom_context *context = make_multimap_context(t);
    const loom_map_config config = make_multimap_config(t, 0, 0);
    multimap_model m = make_multimap_model(t, context, &config);
    batch b = regular_rows(t, random_u64(&t->random), 0, n / 4, 4);
    CHECK_OK(loom_map_reserve(m.map, n / 4, NULL));
    CHECK_OK(loom_map_reserve_values(m.map, n, NULL));
    CHECK_EQ(config_of(m.map).capacity, n / 4);
    CHECK_GE(config_of(m.map).values, n);
    CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, n);
    multimap_compare(&m);
    const uint64_t before = memory_used(m.map);
    CHECK_OK(loom_map_reserve_values(m.map, 10, NULL)); /* less than it has: nothing happens */
    CHECK_EQ(memory_used(m.map), before);
    CHECK_OK(loom_map_reserve_values(m.map, 10 * n, NULL));
    CHECK_GT(memory_used(m.map), before);
    CHECK_EQ(config_of(m.map).capacity, n / 4); /* each of the two keeps the other */
    multimap_compare(&m);
    CHECK_OK(loom_map_reserve(m.map, 10 * n, NULL));
    CHECK_GE(config_of(m.map).values, 10 * n);
    multimap_compare(&m);
    b.n = n / 2;
    multimap_erase(&m, &b);
    CHECK_OK(loom_map_shrink(m.map, NULL));
    CHECK_LE(memory_used(m.map), before);
    CHECK_EQ(map_stats(m.map).values_unused, 0);
    multimap_compare(&m);
    multimap_clear(&m);
    CHECK_OK(loom_map_shrink(m.map, NULL));
    multimap_compare(&m);
    CHECK_REFUSED_EITHER(loom_map_reserve_values(m.map, UINT64_MAX, NULL), LOOM_INVALID_ARGUMENT, LOOM_OUT_OF_MEMORY);
    multimap_compare(&m);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* ---- Memory limits ----------------------------------------------------------------------------------------- */

/* The table grows as far as its limit allows, and refuses further rows. It never takes more than its limit. */
TEST_EACH_MULTIMAP(test_multimap_limit_ends_growth)
{
    const uint64_t n = test_scaled(t, 8000, 2500), each[] = {1, 3, 200};
    loom_context *context = make_multimap_context(t);
    for (int i = 0; i < 3; i++) {
        loom_map_config config = make_multimap_config(t, n / each[i], n);
        const uint64_t salt = random_u64(&t->random);
        uint64_t refused = 0;
        config.growth = 2;
        config.memory_limit = 3 * bytes_of(context, &config);
        multimap_model m = make_multimap_model(t, context, &config);
        for (uint64_t part = 0; part < 12; part++) {
            batch b = regular_rows(t, salt, part * (n / each[i]), n / each[i], each[i]);
            test_note("%llu values of each key, part %llu", (unsigned long long)each[i], (unsigned long long)part);
            const uint64_t full = multimap_insert(&m, &b, LOOM_KEEP).full;
            CHECK_LE(memory_used(m.map), config.memory_limit);
            if (part == 0)
                CHECK_EQ(full, 0);
            if (full && !refused)
                CHECK_GT(memory_used(m.map), config.memory_limit / 2);
            multimap_find_all(&m, &b, 2);
            refused += full;
            free_batch(&b);
        }
        CHECK_GT(refused, 0);
        multimap_compare(&m);
        CHECK_REFUSED(loom_map_reserve_values(m.map, 100 * n, NULL), LOOM_OUT_OF_MEMORY);
        CHECK_REFUSED(loom_map_reserve(m.map, 100 * n, NULL), LOOM_OUT_OF_MEMORY);
        CHECK_EQ(config_of(m.map).memory_limit, config.memory_limit);
        multimap_clone(&m);
        multimap_compare(&m);
        CHECK_OK(loom_map_set_memory_limit(m.map, 0)); /* the table grows again */
        m.grows = 1;
        batch more = regular_rows(t, salt, 100 * n, n / each[i], each[i]);
        CHECK_EQ(multimap_insert(&m, &more, LOOM_KEEP).ok, more.n);
        multimap_compare(&m);
        free_batch(&more);
        end_multimap_model(&m);
    }
    loom_context_destroy(context);
}

TEST_EACH_MULTIMAP(test_multimap_limit_too_small_to_create)
{
    loom_context *context = make_multimap_context(t);
    loom_map_config config = make_multimap_config(t, 10, 100000);
    loom_map *map = NULL;
    config.memory_limit = bytes_of(context, &config);
    loom_map_destroy(make_map_from(context, &config));
    config.memory_limit /= 2;
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_OUT_OF_MEMORY);
    CHECK(map == NULL);
    loom_context_destroy(context);
}

/* ---- Churn --------------------------------------------------------------------------------------------------- */

/* Keys are erased and come again with other values, in three ways. Memory that lists leave is used again. */
TEST_EACH_MULTIMAP(test_multimap_churn_takes_no_more_memory, .long_tier = 1, .timeout_seconds = 120)
{
    const uint64_t keys = test_scaled(t, 2000, 300), rounds = test_scaled(t, 200, 40);
    for (int way = 0; way < 3; way++) {
        loom_context *context = make_multimap_context(t);
        loom_map_config config = make_multimap_config(t, keys, 5 * keys);
        config.growth = 2;
        multimap_model m = make_multimap_model(t, context, &config);
        const uint64_t salt = random_u64(&t->random);
        batch b = regular_rows(t, salt, 0, keys, 5);
        CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, b.n);
        const uint64_t first = memory_used(m.map);
        for (uint64_t round = 0; round < rounds; round++) {
            const uint64_t from = random_below(&t->random, keys / 2);
            const uint64_t each = way == 1 ? 3 : 5;
            batch part = regular_rows(t, salt, from, keys / 2, each);
            test_note("way %d, round %llu", way, (unsigned long long)round);
            if (way == 0) /* keys as a whole */
                multimap_erase(&m, &part);
            for (uint64_t i = 0; way == 1 && i < part.n; i++) { /* some values of each key */
                const value_list *list = multimap_list(&m, batch_key(&part, i));
                set_pair(&part, i, batch_key(&part, i), list->values[i % each]);
            }
            if (way == 1)
                multimap_erase_pairs(&m, &part);
            if (way == 2) /* all keys; others come instead */
                multimap_erase(&m, &b);
            for (uint64_t i = 0; i < part.n; i++)
                set_pair(&part, i, batch_key(&part, i), random_u64(&t->random));
            if (way == 2) {
                free_batch(&b);
                b = regular_rows(t, salt, (round + 1) * keys, keys, 5);
                CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
            } else {
                CHECK_EQ(multimap_insert(&m, &part, LOOM_KEEP).ok, part.n);
            }
            CHECK_EQ(map_size(m.map), 5 * keys);
            CHECK_LE(memory_used(m.map), 5 * first);
            free_batch(&part);
        }
        multimap_compare(&m);
        CHECK_OK(loom_map_shrink(m.map, NULL));
        CHECK_LE(memory_used(m.map), first);
        multimap_compare(&m);
        free_batch(&b);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* ---- Sizes and statistics -------------------------------------------------------------------------------------- */

TEST_EACH_MULTIMAP(test_multimap_memory_required_and_config)
{
    static const uint64_t sizes[] = {0, 1, 7, 1000, 20000};
    loom_context *context = make_multimap_context(t);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            loom_map_config config = make_multimap_config(t, sizes[i], sizes[j]);
            config.most_values_per_key = j % 2 ? 10 + i : 0;
            config.growth = 1.5;
            config.max_load = 0.7;
            test_note("%llu keys, %llu values", (unsigned long long)sizes[i], (unsigned long long)sizes[j]);
            loom_map *map = make_map_from(context, &config);
            CHECK_EQ(memory_used(map), bytes_of(context, &config));
            const loom_map_config got = config_of(map);
            CHECK_EQ(got.type, LOOM_TYPE_MULTIMAP);
            CHECK_EQ(got.key_bytes, t->key_bytes);
            CHECK_EQ(got.value_bytes, t->value_bytes);
            CHECK_EQ(got.capacity, sizes[i]);
            CHECK_EQ(got.values, sizes[j]);
            CHECK_EQ(got.most_values_per_key, config.most_values_per_key);
            CHECK_NEAR(got.growth, 1.5, 0);
            CHECK_NEAR(got.max_load, 0.7, 0);
            loom_map *again = make_map_from(context, &got); /* an equal table */
            const loom_map_config same = config_of(again);
            CHECK_BYTES(&same, &got, sizeof same);
            CHECK_EQ(memory_used(again), memory_used(map));
            loom_map_destroy(again);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

static void check_stats(multimap_model *m)
{
    const loom_stats stats = map_stats(m->map);
    const double bytes = (double)(m->distinct * m->key_bytes + m->size * m->value_bytes);
    CHECK_EQ(stats.type, LOOM_TYPE_MULTIMAP);
    CHECK_EQ(stats.key_bytes, m->key_bytes);
    CHECK_EQ(stats.value_bytes, m->value_bytes);
    CHECK_EQ(stats.size, m->size);
    CHECK_EQ(stats.distinct, m->distinct);
    CHECK_EQ(stats.memory_bytes, memory_used(m->map));
    CHECK(stats.density >= 0 && stats.density <= 1);
    CHECK_NEAR(stats.density, bytes / (double)stats.memory_bytes, 1e-9);
    CHECK_NEAR(stats.load, (double)m->distinct / (double)stats.slots, 1e-9);
    CHECK_EQ(stats.values_room, config_of(m->map).values);
    CHECK_LE(stats.values_free + stats.values_unused, stats.values_room);
    /* What is neither free nor unused is taken by values. */
    const uint64_t taken = stats.values_room - stats.values_free - stats.values_unused;
    CHECK_LE(taken, m->size);
    CHECK_GE(taken + (m->value_bytes == 4 ? m->distinct : 0), m->size);
}

TEST_EACH_MULTIMAP(test_multimap_stats)
{
    loom_context *context = make_multimap_context(t);
    const loom_map_config config = make_multimap_config(t, 300, 5000);
    multimap_model m = make_multimap_model(t, context, &config);
    check_stats(&m);
    batch b = regular_rows(t, 5, 0, 300, 3), hot = regular_rows(t, 5, 7, 1, 77);
    multimap_build(&m, &b, LOOM_KEEP);
    check_stats(&m);
    CHECK_EQ(map_stats(m.map).longest_list, 3);
    CHECK_EQ(map_stats(m.map).values_unused, 0); /* a build leaves no room between lists */
    CHECK_EQ(multimap_insert(&m, &hot, LOOM_KEEP).ok, 77);
    CHECK_EQ(map_stats(m.map).longest_list, 80);
    CHECK_GT(map_stats(m.map).values_unused, 0); /* the list moved */
    check_stats(&m);
    b.n = 299;
    multimap_erase_pairs(&m, &b);
    check_stats(&m);
    hot.n = 1;
    multimap_erase(&m, &hot);
    CHECK_EQ(map_stats(m.map).longest_list, 3);
    check_stats(&m);
    multimap_clear(&m);
    check_stats(&m);
    CHECK_EQ(map_stats(m.map).longest_list, 0);
    CHECK_EQ(map_stats(m.map).values_free, map_stats(m.map).values_room);
    free_batch(&b);
    free_batch(&hot);
    end_multimap_model(&m);
    loom_context_destroy(context);
}
