/* Every key value is legal. Internal patterns mark empty slots, and a key may be equal to one of them. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <string.h>

#include "engines/open/open_layout.h"

static const uint64_t special_keys[] = {
    0,
    1,
    2,
    UINT64_C(0x7f),
    UINT64_C(0x80),
    UINT64_C(0xff),
    UINT64_C(0x7fff),
    UINT64_C(0x8000),
    UINT64_C(0xffff),
    UINT64_C(0x7fffffff),
    UINT64_C(0x80000000),
    UINT64_C(0x80000001),
    UINT64_C(0xfffffffe),
    UINT64_C(0xffffffff),
    UINT64_C(0xdeadbeef),
    UINT64_C(0xa5a5a5a5),
    UINT64_C(0x5a5a5a5a),
    UINT64_C(0x55555555),
    UINT64_C(0xaaaaaaaa),
    /* beyond 4 bytes */
    UINT64_C(0x100000000),
    UINT64_C(0x7fffffffffffffff),
    UINT64_C(0x8000000000000000),
    UINT64_C(0x8000000000000001),
    UINT64_C(0xfffffffffffffffe),
    UINT64_C(0xffffffffffffffff),
    UINT64_C(0xffffffff00000000),
    UINT64_C(0x8000000080000000),
    UINT64_C(0x5555555555555555),
    UINT64_C(0xaaaaaaaaaaaaaaaa),
};

static batch special_batch(test_run *t)
{
    uint64_t n = t->key_bytes == 8 ? sizeof special_keys / sizeof special_keys[0] : 19;
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, special_keys[i], special_keys[n - 1 - i]); /* special values, too */
    return b;
}

TEST_EACH_KIND(test_open_insert_special_keys, .every_engine = 1)
{
    for (uint64_t capacity = 0; capacity <= 1000; capacity = capacity * 3 + 29) {
        loom_context *context = make_context(t);
        loom_map *map = make_map(t, context, capacity < 29 ? 29 : capacity);
        batch b = special_batch(t);
        check_none_found(map, &b);
        CHECK_EQ(checked_erase(map, &b).not_found, b.n);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        check_contents(map, &b);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).exists, b.n);
        CHECK_EQ(checked_erase(map, &b).ok, b.n);
        check_none_found(map, &b);
        CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, b.n);
        check_contents(map, &b);
        CHECK_OK(loom_map_clear(map, NULL, NULL));
        check_none_found(map, &b);
        CHECK_EQ(checked_insert(map, &b, LOOM_OVERWRITE | LOOM_IN_ORDER).ok, b.n);
        check_contents(map, &b);
        free_batch(&b);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}

/* One special key alone, in a table of its own, with every special value. */
TEST_EACH(test_open_insert_special_values, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 1);
    batch b = special_batch(t), one = make_batch(t, 1);
    for (uint64_t i = 0; i < b.n; i++)
        for (uint64_t j = 0; j < b.n; j++) {
            set_pair(&one, 0, batch_key(&b, i), batch_value(&b, j));
            CHECK_EQ(checked_insert(map, &one, LOOM_KEEP).ok, 1);
            check_contents(map, &one);
            CHECK_EQ(checked_erase(map, &one).ok, 1);
            check_none_found(map, &b);
        }
    free_batch(&b);
    free_batch(&one);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* All keys below 2^16: together in a table that holds them all, and one after the other in the smallest table. */
TEST_EACH(test_open_insert_all_low_keys)
{
    uint64_t n = 1 << 16;
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, n), *tiny = make_map(t, context, 1);
    batch b = make_batch(t, n), one = make_batch(t, 1);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, i, value_for(i, b.value_bytes));
    check_none_found(map, &b);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
    check_contents(map, &b);
    CHECK_EQ(checked_erase(map, &b).ok, n);
    check_none_found(map, &b);
    for (uint64_t i = 0; i < n; i += test_scaled(t, 1, 16)) {
        set_pair(&one, 0, i, ~i);
        CHECK_OK(loom_map_insert(tiny, one.keys, one.values, 1, LOOM_KEEP, one.status, NULL, NULL));
        CHECK_EQ(one.status[0], LOOM_OK);
        CHECK_OK(loom_map_find(tiny, one.keys, 1, one.values, NULL, one.status, NULL, NULL));
        CHECK_EQ(one.status[0], LOOM_OK);
        CHECK_EQ(batch_value(&one, 0), cut_word(~i, one.value_bytes));
        CHECK_OK(loom_map_erase(tiny, one.keys, 1, one.status, NULL, NULL));
        CHECK_EQ(one.status[0], LOOM_OK);
    }
    CHECK_EQ(map_size(tiny), 0);
    free_batch(&b);
    free_batch(&one);
    loom_map_destroy(map);
    loom_map_destroy(tiny);
    loom_context_destroy(context);
}

/* Keys equal to the patterns of empty and retired slots, computed as the table does: the only keys that could be
 * mistaken for empty slots. */
TEST_EACH_KIND(test_open_insert_keys_equal_to_empty_patterns)
{
    for (uint64_t seed = 0; seed < test_scaled(t, 300, 60); seed++) {
        loom_context *context = make_context_with(t, 1, seed);
        uint64_t capacity = random_below(&t->random, 60);
        loom_map *map = make_map(t, context, capacity < 4 ? 4 : capacity);
        loom_stats stats = map_stats(map);
        loom__open_shape shape;
        memset(&shape, 0, sizeof shape);
        shape.kind = slot_kind_of(t->key_bytes, t->value_bytes);
        shape.partitions = (uint32_t)stats.partitions;
        shape.buckets = (uint32_t)stats.buckets_per_partition;
        loom__open_view view = loom__open_view_make(&shape, seed);
        batch b = make_batch(t, 4), filler = make_batch(t, stats.slots * 2);
        for (uint64_t i = 0; i < 2; i++) {
            set_pair(&b, i, view.empty[i], 0); /* empty slots have a value of zeros, too */
            set_pair(&b, 2 + i, view.retired[i], 0);
        }
        test_note("seed %llu, patterns 0x%llx, 0x%llx, retired 0x%llx, 0x%llx", (unsigned long long)seed,
                  (unsigned long long)view.empty[0], (unsigned long long)view.empty[1],
                  (unsigned long long)view.retired[0], (unsigned long long)view.retired[1]);
        for (uint64_t i = 0; i < 4; i++)
            for (uint64_t j = 0; j < i; j++)
                CHECK_NE(batch_key(&b, i), batch_key(&b, j));
        check_none_found(map, &b);
        CHECK_EQ(checked_erase(map, &b).not_found, 4);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 4);
        check_contents(map, &b);
        /* The same with the rest of the table full. */
        fill_distinct(&filler, random_u64(&t->random), 0);
        CHECK_GT(checked_insert(map, &filler, LOOM_KEEP).full, 0);
        checked_verify(map);
        check_all_found(map, &b);
        CHECK_EQ(checked_erase(map, &b).ok, 4);
        check_none_found(map, &b);
        CHECK_EQ(checked_insert(map, &b, LOOM_OVERWRITE).ok, 4);
        CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, 4);
        check_contents(map, &b);
        free_batch(&b);
        free_batch(&filler);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}

/* Looks up millions of keys in an empty table: none may be found, not even the empty pattern. */
TEST_EACH_KIND(test_open_contains_sweep_of_empty_tables)
{
    enum { CHUNK = 1 << 16 };
    uint64_t total = test_scaled(t, 1 << 22, 1 << 19);
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    loom_map *fresh = make_map(t, context, 4), *cleared = make_map(t, context, 500),
             *emptied = make_map(t, context, 64);
    batch b = make_batch(t, 500), keys = make_batch(t, CHUNK);
    fill_distinct(&b, 8, 0);
    checked_insert(cleared, &b, LOOM_KEEP);
    CHECK_OK(loom_map_clear(cleared, NULL, NULL));
    b.n = 64;
    checked_insert(emptied, &b, LOOM_KEEP);
    checked_erase(emptied, &b);
    b.n = 500;
    loom_map *const maps[] = {fresh, cleared, emptied};
    /* From 0, from the top, and from somewhere. */
    uint64_t starts[] = {0, 0 - total / 4, random_u64(&t->random), UINT64_C(0x80000000)};
    for (size_t s = 0; s < 4; s++)
        for (uint64_t done = 0; done < total / 4; done += CHUNK) {
            for (uint64_t i = 0; i < CHUNK; i++)
                set_word(keys.keys, keys.key_bytes, i, starts[s] + done + i);
            for (size_t m = 0; m < 3; m++) {
                loom_result result;
                CHECK_OK(loom_map_contains(maps[m], keys.keys, CHUNK, NULL, NULL, &result, NULL));
                if (result.ok)
                    FAIL("table %zu, empty, contains one of the keys from 0x%llx on", m,
                         (unsigned long long)(starts[s] + done));
            }
        }
    for (size_t m = 0; m < 3; m++) {
        checked_verify(maps[m]);
        loom_map_destroy(maps[m]);
    }
    free_batch(&b);
    free_batch(&keys);
    loom_context_destroy(context);
}

/* A million different keys of several structures in one table. */
TEST_EACH(test_open_insert_million_keys, .long_tier = 1, .every_engine = 1)
{
    uint64_t n = test_scaled(t, 1 << 20, 1 << 15);
    loom_context *context = make_context_with(t, 2, random_u64(&t->random));
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n);
    /* A quarter each: from 0 up, from the top down, around the sign bit, and every third number from 2^40 or 2^30
     * up. */
    uint64_t quarter = n / 4, sign = b.key_bytes == 8 ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    for (uint64_t i = 0; i < quarter; i++) {
        set_pair(&b, 4 * i, i, i);
        set_pair(&b, 4 * i + 1, UINT64_MAX - i, i + 1);
        set_pair(&b, 4 * i + 2, sign - quarter / 2 + i, i + 2);
        set_pair(&b, 4 * i + 3, (b.key_bytes == 8 ? UINT64_C(1) << 40 : UINT64_C(1) << 30) + i * 3, i + 3);
    }
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
    check_all_found(map, &b);
    checked_verify(map);
    CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, n);
    check_contents(map, &b);
    CHECK_EQ(checked_erase(map, &b).ok, n);
    CHECK_EQ(map_size(map), 0);
    check_none_found(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
