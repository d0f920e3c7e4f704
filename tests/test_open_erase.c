/* Erase: no tombstones, no duplicates, and a table whose keys are replaced many times. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <string.h>

TEST_EACH_KIND(test_open_erase_present_and_absent, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 4000;
    loom_map *map = make_map(t, context, n);
    model m = make_model(t, map, n);
    batch in = make_batch(t, n), mixed = make_batch(t, n);
    fill_distinct(&in, 21, 0);
    fill_distinct(&mixed, 21, n / 2); /* half of these keys are in the table */
    model_insert(&m, &in, LOOM_KEEP);
    model_erase(&m, &mixed);
    CHECK_EQ(map_size(map), n / 2);
    model_compare(&m);
    model_erase(&m, &mixed);
    CHECK_EQ(map_size(map), n / 2);
    model_insert(&m, &mixed, LOOM_KEEP);
    model_compare(&m);
    model_erase(&m, &in);
    model_erase(&m, &mixed);
    CHECK_EQ(map_size(map), 0);
    model_compare(&m);
    free_model(&m);
    free_batch(&in);
    free_batch(&mixed);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Among equal keys in the batch, one gets LOOM_OK. */
TEST_EACH_KIND(test_open_erase_equal_keys, .long_tier = 1, .threads = 1, .every_engine = 1)
{
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        loom_context *context = make_context_with(t, threads, random_u64(&t->random));
        uint64_t keys = 500, n = test_scaled(t, 30000, 6000);
        loom_map *map = make_map(t, context, keys);
        model m = make_model(t, map, keys);
        batch in = make_batch(t, keys), out = make_batch(t, n);
        fill_distinct(&in, 4, 0);
        for (int round = 0; round < 4; round++) {
            model_insert(&m, &in, LOOM_KEEP);
            for (uint64_t i = 0; i < n; i++) /* half is one key, the rest is drawn from twice as many as there are */
                set_word(out.keys, out.key_bytes, i,
                         distinct_key(out.key_bytes, 4, i & 1 ? 0 : random_below(&t->random, 2 * keys)));
            model_erase(&m, &out);
            model_compare(&m);
        }
        free_model(&m);
        free_batch(&in);
        free_batch(&out);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}

static void insert_one(loom_map *map, batch *one, uint64_t key, uint64_t value, uint32_t flags, loom_status wanted)
{
    set_pair(one, 0, key, value);
    CHECK_OK(loom_map_insert(map, one->keys, one->values, 1, flags, one->status, NULL, NULL));
    CHECK_EQ(one->status[0], wanted);
}

static void erase_one(loom_map *map, batch *one, uint64_t key, loom_status wanted)
{
    set_pair(one, 0, key, 0);
    CHECK_OK(loom_map_erase(map, one->keys, 1, one->status, NULL, NULL));
    CHECK_EQ(one->status[0], wanted);
}

/* Tables that put a key into the first free slot they see store a key twice in this sequence: insert k1, insert k2
 * behind it, erase k1, insert k2 again. In a tiny table all pairs of keys share buckets. Other keys keep the table
 * nearly full: probe sequences are long. */
TEST_EACH_KIND(test_open_erase_then_insert_stores_once, .every_engine = 1)
{
    enum { KEYS = 12 };
    loom_context *context = make_context(t);
    for (int filled = 0; filled < 3; filled++) {
        loom_map *map = make_map(t, context, filled ? 20 : 2);
        uint64_t slots = map_stats(map).slots, salt = random_u64(&t->random);
        batch one = make_batch(t, 1), filler = make_batch(t, slots);
        fill_distinct(&filler, salt, 100);
        if (filled) {
            /* Fills the table, then erases some of the keys. */
            checked_insert(map, &filler, LOOM_KEEP);
            filler.n = filled == 1 ? 3 * slots / 4 : slots / 4;
            checked_erase(map, &filler);
            /* Every partition keeps two free slots: the table holds more keys than its capacity. */
            while (map_stats(map).fullest_partition + 2 > slots / map_stats(map).partitions) {
                CHECK_LT(filler.n, slots);
                filler.n++;
                checked_erase(map, &filler);
            }
            filler.n = slots;
        }
        uint64_t others = map_size(map);
        for (uint64_t a = 0; a < KEYS; a++)
            for (uint64_t b = 0; b < KEYS; b++) {
                uint64_t k1 = distinct_key(t->key_bytes, salt, a), k2 = distinct_key(t->key_bytes, salt, b);
                if (a == b)
                    continue;
                test_note("keys 0x%llx and 0x%llx, filling %d", (unsigned long long)k1, (unsigned long long)k2, filled);
                insert_one(map, &one, k1, 1, LOOM_KEEP, LOOM_OK);
                insert_one(map, &one, k2, 2, LOOM_KEEP, LOOM_OK);
                erase_one(map, &one, k1, LOOM_OK);
                insert_one(map, &one, k2, 3, LOOM_KEEP, LOOM_EXISTS);
                CHECK_EQ(map_size(map), others + 1);
                insert_one(map, &one, k2, 4, LOOM_OVERWRITE, LOOM_EXISTS);
                checked_verify(map);
                set_pair(&one, 0, k2, 4);
                check_all_found(map, &one);
                erase_one(map, &one, k2, LOOM_OK);
                erase_one(map, &one, k2, LOOM_NOT_FOUND);
                set_pair(&one, 0, k2, 4);
                check_none_found(map, &one);
                CHECK_EQ(map_size(map), others);
            }
        free_batch(&one);
        free_batch(&filler);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* Replaces all keys several times at load 0.9. Every lookup stays right, and misses stay cheap. */
TEST_EACH_KIND(test_open_erase_churn, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = test_scaled(t, 12000, 2000), batch_size = n / 10, salt = random_u64(&t->random);
    loom_map_config config = make_config(t, n);
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config);
    batch all = make_batch(t, n);
    fill_distinct(&all, salt, 0);
    CHECK_EQ(checked_build(map, &all, LOOM_KEEP).ok, n);
    /* A window moves over an endless sequence of keys: each step erases the oldest tenth and inserts new keys. */
    for (uint64_t first = 0; first < 6 * n; first += batch_size) {
        batch gone = make_batch(t, batch_size), come = make_batch(t, batch_size);
        fill_distinct(&gone, salt, first);
        fill_distinct(&come, salt, first + n);
        test_note("after %llu keys", (unsigned long long)first);
        CHECK_EQ(checked_erase(map, &gone).ok, batch_size);
        CHECK_EQ(checked_insert(map, &come, LOOM_KEEP).ok, batch_size);
        CHECK_EQ(map_size(map), n);
        check_none_found(map, &gone);
        check_all_found(map, &come);
        free_batch(&gone);
        free_batch(&come);
    }
    fill_distinct(&all, salt, 6 * n);
    check_contents(map, &all);
    free_batch(&all);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* The same in a small table that is kept full, one key at a time: freed slots are used again. */
TEST_EACH_KIND(test_open_erase_churn_full_table)
{
    loom_context *context = make_context_with(t, 1, random_u64(&t->random));
    loom_map *map = make_map(t, context, 50);
    uint64_t slots = map_stats(map).slots, rounds = test_scaled(t, 20000, 3000), full = 0;
    batch one = make_batch(t, 1);
    reference_map *reference = reference_create();
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t key = random_below(&t->random, 3 * slots);
        set_pair(&one, 0, key, i);
        if (random_u64(&t->random) % 5 < 3) {
            loom_status outcome = loom_map_insert(map, one.keys, one.values, 1, LOOM_OVERWRITE, one.status, NULL, NULL);
            CHECK_STATUS(outcome, one.status[0] == LOOM_FULL ? LOOM_FULL : LOOM_OK);
            if (one.status[0] == LOOM_FULL) {
                CHECK(!reference_get(reference, key, NULL));
                CHECK_GE(reference_size(reference), 50);
                full++;
            } else {
                CHECK_EQ(one.status[0],
                         reference_put(reference, key, cut_word(i, t->value_bytes)) ? LOOM_OK : LOOM_EXISTS);
            }
        } else {
            CHECK_OK(loom_map_erase(map, one.keys, 1, one.status, NULL, NULL));
            CHECK_EQ(one.status[0], reference_remove(reference, key) ? LOOM_OK : LOOM_NOT_FOUND);
        }
        if (i % 256 == 0)
            checked_verify(map);
    }
    CHECK_GT(full, 0);
    CHECK_EQ(map_size(map), reference_size(reference));
    for (uint64_t key = 0; key < 3 * slots; key++) {
        uint64_t wanted = 0;
        int there = reference_get(reference, key, &wanted);
        set_pair(&one, 0, key, 0);
        CHECK_OK(loom_map_find(map, one.keys, 1, one.values, NULL, one.status, NULL, NULL));
        CHECK_EQ(one.status[0], there ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_EQ(batch_value(&one, 0), there ? wanted : 0);
    }
    reference_destroy(reference);
    free_batch(&one);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
