/* loom_map_erase_if: which values lie in a range, what is left of the table, and what it costs later lookups. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <string.h>

#include "engines/open/open_layout.h"

/* ---- Numbers and ranges -------------------------------------------------------------------------------- */

enum { KINDS = 3, MOST_EDGES = 20 };

/* Number `kind` of the width under test: unsigned, signed, float. */
static loom_number number_of(const test_run *t, unsigned kind)
{
    return (loom_number)((t->value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32) + kind);
}

/* Values at which some kind of number ends, changes its sign, or is special. The last two are NaNs, of both signs. */
static uint64_t edges(const test_run *t, uint64_t values[MOST_EDGES])
{
    static const uint64_t narrow[] = {0,          1,          2,          0x7ffffffe, 0x7fffffff, 0x80000000,
                                      0x80000001, 0xfffffffe, 0xffffffff, 0x7f800000, 0xff800000, 0x7f7fffff,
                                      0xff7fffff, 0x3f800000, 0xbf800000, 0x00800000, 0x7f800001, 0xffc00000};
    static const uint64_t wide[] = {0,
                                    1,
                                    2,
                                    UINT64_MAX / 2 - 1,
                                    UINT64_MAX / 2,
                                    UINT64_MAX / 2 + 1,
                                    UINT64_MAX / 2 + 2,
                                    UINT64_MAX - 1,
                                    UINT64_MAX,
                                    0x7ff0000000000000,
                                    0xfff0000000000000,
                                    0x7fefffffffffffff,
                                    0xffefffffffffffff,
                                    0x3ff0000000000000,
                                    0xbff0000000000000,
                                    0x00000000ffffffff,
                                    0x7ff0000000000001,
                                    0xfff8000000000000};
    const uint64_t count = sizeof wide / sizeof wide[0];
    memcpy(values, t->value_bytes == 8 ? wide : narrow, sizeof wide);
    return count;
}

static int is_nan_of(const test_run *t, unsigned kind, uint64_t bits)
{
    const uint64_t infinity = t->value_bytes == 8 ? 0x7ff0000000000000 : 0x7f800000;
    const uint64_t sign = UINT64_C(1) << (8 * t->value_bytes - 1);
    return kind == 2 && (bits & ~sign) > infinity;
}

/* All ranges between two of these values, and those without a bound. */
TEST_EACH(test_open_erase_if_every_number_and_range, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t values[MOST_EDGES] = {0}, count = edges(t, values);
    loom_map *map = make_map(t, context, 3 * count);
    batch b = make_batch(t, 3 * count);
    fill_distinct(&b, 3, 0);
    for (uint64_t i = 0; i < b.n; i++) /* the special keys 0 and all ones among them */
        set_pair(&b, i, i == 1 ? 0 : i == 4 ? UINT64_MAX : batch_key(&b, i), values[i % count]);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (uint64_t from = 0; from <= count; from++)
            for (uint64_t to = 0; to <= count; to++) { /* `count`: no bound */
                if ((from < count && is_nan_of(t, kind, values[from])) ||
                    (to < count && is_nan_of(t, kind, values[to])))
                    continue;
                test_note("number %d from 0x%llx (%d) to 0x%llx (%d)", number_of(t, kind),
                          (unsigned long long)values[from], from < count, (unsigned long long)values[to], to < count);
                model m = make_model(t, map, b.n);
                model_build(&m, &b, LOOM_KEEP);
                model_erase_if(&m, number_of(t, kind), from < count ? &values[from] : NULL,
                               to < count ? &values[to] : NULL);
                model_compare(&m);
                model_find(&m, &b);
                free_model(&m);
            }
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Without bounds all pairs go, except NaNs. An empty range, and a range without values, leave the table alone. */
TEST_EACH(test_open_erase_if_everything_and_nothing, .threads = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 20000, 3000), five = 5, four = 4, far = UINT64_MAX;
    model m = make_model(t, make_map(t, context, n), n);
    batch b = make_batch(t, n);
    fill_distinct(&b, 9, 0);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, batch_key(&b, i), i % 1000);
    CHECK_EQ(model_erase_if(&m, number_of(t, 0), NULL, NULL).keys, 0); /* an empty table */
    for (unsigned round = 0; round < KINDS; round++) {
        CHECK_EQ(model_insert(&m, &b, LOOM_KEEP).ok, n);
        CHECK_EQ(model_erase_if(&m, number_of(t, 0), &five, &four).ok, 0);
        CHECK_EQ(model_erase_if(&m, number_of(t, 0), &far, &far).ok, 0);
        CHECK_EQ(model_erase_if(&m, number_of(t, 0), &five, &five).ok, n / 1000);
        model_compare(&m);
        CHECK_EQ(model_erase_if(&m, number_of(t, round), NULL, NULL).exists, 0);
        CHECK_EQ(map_size(m.map), 0);
        model_find(&m, &b);
        model_compare(&m);
    }
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* ---- Keys ---------------------------------------------------------------------------------------------- */

/* Keys equal to the patterns of empty and retired slots: they are pairs like others, and come and go with their values.
 * Slots that are empty are no pairs, although they have values of zero. */
TEST_EACH(test_open_erase_if_keys_equal_to_empty_patterns)
{
    for (uint64_t seed = 0; seed < test_scaled(t, 100, 20); seed++) {
        loom_context *context = make_context_with(t, 1, seed);
        const uint64_t zero = 0, one = 1;
        model m = make_model(t, make_map(t, context, 30), 30);
        loom_stats stats = map_stats(m.map);
        loom__open_shape shape = {slot_kind_of(t->key_bytes, t->value_bytes), (uint32_t)stats.partitions,
                                  (uint32_t)stats.buckets_per_partition};
        loom__open_view view = loom__open_view_make(&shape, seed);
        const uint64_t keys[] = {view.empty[0], view.empty[1], view.retired[0], view.retired[1], 0, UINT64_MAX};
        batch b = make_batch(t, 6);
        for (uint64_t i = 0; i < 6; i++)
            set_pair(&b, i, keys[i], i % 2);
        const uint64_t stored = model_insert(&m, &b, LOOM_OVERWRITE).ok;
        uint64_t erased = model_erase_if(&m, number_of(t, 0), &zero, &zero).ok;
        model_compare(&m);
        model_find(&m, &b);
        erased += model_erase_if(&m, number_of(t, 0), &one, NULL).ok;
        model_compare(&m);
        CHECK_EQ(erased, stored);
        model_insert(&m, &b, LOOM_KEEP);
        model_compare(&m);
        free_batch(&b);
        loom_map_destroy(m.map);
        free_model(&m);
        loom_context_destroy(context);
    }
}

/* ---- Full, grown, saved tables -------------------------------------------------------------------------- */

/* The table is so full that it refuses keys, and knows it. After erase_if there is room again, and probe sequences are
 * as they should be. */
TEST_EACH(test_open_erase_if_full_table, .long_tier = 1, .threads = 1, .every_engine = 1)
{
    static const double loads[] = {0.95, 0.8, 0.5};
    for (int i = 0; i < 3; i++) {
        loom_context *context = make_context(t);
        const uint64_t n = test_scaled(t, 10000, 2000), few = 5, third = 333;
        loom_map_config config = make_config(t, n);
        config.max_load = loads[i];
        config.buckets_per_partition = table_case_partition_size(t->table, 127);
        model m = make_model(t, make_map_from(context, &config), n);
        batch b = make_batch(t, map_stats(m.map).slots * 5 / 4);
        fill_distinct(&b, random_u64(&t->random), 0);
        for (uint64_t j = 0; j < b.n; j++)
            set_pair(&b, j, batch_key(&b, j), j % 1000);
        CHECK_GT(model_insert(&m, &b, LOOM_KEEP).full, 0);
        /* A few: too few for upkeep, which would remove the marks of full partitions by itself. */
        CHECK_GT(model_erase_if(&m, number_of(t, 0), NULL, &few).ok, 0);
        checked_verify(m.map);
        model_insert(&m, &b, LOOM_KEEP);
        checked_verify(m.map);
        const uint64_t erased = model_erase_if(&m, number_of(t, 0), NULL, &third).ok;
        CHECK_GT(erased, n / 4);
        checked_verify(m.map);
        model_find(&m, &b);
        CHECK_GE(model_insert(&m, &b, LOOM_KEEP).ok, erased * 9 / 10);
        model_compare(&m);
        batch out = copy_batch(&b);
        model_erase(&m, &out);
        CHECK_EQ(map_size(m.map), 0);
        model_compare(&m);
        free_batch(&out);
        free_batch(&b);
        loom_map_destroy(m.map);
        free_model(&m);
        loom_context_destroy(context);
    }
}

/* The same, until only a tenth is left. Then the table takes as many keys as it was made for. */
TEST_EACH(test_open_erase_if_full_table_is_as_good_as_new, .threads = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 10000, 3000), salt = random_u64(&t->random), least = 100;
    loom_map_config config = make_config(t, n);
    config.max_load = 0.95;
    config.buckets_per_partition = table_case_partition_size(t->table, 127);
    model m = make_model(t, make_map_from(context, &config), n);
    batch b = make_batch(t, map_stats(m.map).slots * 5 / 4), others = make_batch(t, n);
    fill_distinct(&b, salt, 0);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, batch_key(&b, i), i % 1000);
    fill_distinct(&others, salt, b.n);
    CHECK_GT(model_insert(&m, &b, LOOM_KEEP).full, 0);
    others.n -= model_erase_if(&m, number_of(t, 0), &least, NULL).exists;
    CHECK_EQ(model_insert(&m, &others, LOOM_KEEP).ok, others.n);
    CHECK_EQ(map_size(m.map), n);
    model_compare(&m);
    free_batch(&b);
    free_batch(&others);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH(test_open_erase_if_after_growth_and_in_copies, .every_engine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 20000, 4000);
    loom_map_config config = make_config(t, n / 50);
    config.growth = 2;
    model m = make_model(t, make_map_from(context, &config), n / 50);
    batch b = make_batch(t, n);
    fill_distinct(&b, 77, 0);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, batch_key(&b, i), i);
    for (uint64_t part = 0; part < 5; part++) {
        const uint64_t least = part * n / 5, most = least + n / 10 - 1;
        m.capacity = 0;
        model_insert(&m, &b, LOOM_KEEP);
        model_erase_if(&m, number_of(t, 0), &least, &most);
        CHECK_EQ(map_size(m.map), n - n / 10);
        if (part == 1)
            model_clone(&m);
        if (part == 2)
            model_save_and_load(&m, context);
        if (part == 3)
            CHECK_OK(loom_map_shrink(m.map, NULL));
        if (part == 4)
            CHECK_OK(loom_map_reserve(m.map, 3 * n, NULL));
        model_compare(&m);
        model_find(&m, &b);
    }
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* ---- Over time ------------------------------------------------------------------------------------------ */

/* A window of time: each step stores a tenth of new keys with a time stamp, and erases what is older than the window.
 * The table stays as cheap to read as a table that was just built: upkeep runs after erase_if, too. */
TEST_EACH(test_open_erase_if_expiry, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 30000, 5000), each = n / 10, salt = random_u64(&t->random);
    loom_map_config config = make_config(t, n);
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config), *fresh = make_map_from(context, &config);
    batch come = make_batch(t, each), all = make_batch(t, n - each);
    for (uint64_t now = 0; now < 60; now++) {
        const uint64_t old = now - 9;
        loom_result result = {0};
        fill_distinct(&come, salt, now * each);
        for (uint64_t i = 0; i < each; i++)
            set_pair(&come, i, batch_key(&come, i), now);
        CHECK_EQ(checked_insert(map, &come, LOOM_KEEP).ok, each);
        if (now < 9)
            continue;
        uint64_t bound;
        set_word(&bound, t->value_bytes, 0, old);
        result = checked_erase_if(map, number_of(t, 0), NULL, &bound);
        CHECK_EQ(result.ok, each);
        CHECK_EQ(result.exists, n - each);
    }
    fill_distinct(&all, salt, 51 * each);
    for (uint64_t i = 0; i < all.n; i++)
        set_pair(&all, i, batch_key(&all, i), 51 + i / each);
    check_contents(map, &all);
    CHECK_EQ(checked_build(fresh, &all, LOOM_KEEP).ok, all.n);
    const loom_stats worn = map_stats(map), built = map_stats(fresh);
    test_note("%.4f buckets per hit, %.4f fresh; %.4f per miss", worn.accesses_per_hit, built.accesses_per_hit,
              worn.accesses_per_miss);
    /* One of five tickets is free, and a search passes those that are not. */
    CHECK(worn.accesses_per_miss < (t->engine == LOOM_ENGINE_TICKETS ? 6 : 1.1));
    CHECK(worn.accesses_per_hit <= built.accesses_per_hit * 1.2);
    free_batch(&come);
    free_batch(&all);
    loom_map_destroy(map);
    loom_map_destroy(fresh);
    loom_context_destroy(context);
}

/* Erasing all pairs but a few, by value, leaves no filter bits that slow lookups down. */
TEST_EACH(test_open_erase_if_nearly_everything_is_followed_by_upkeep)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 30000, 8000);
    uint64_t one;
    loom_map_config config = make_config(t, n);
    config.max_load = 0.95;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, n);
    fill_distinct(&b, 1, 0);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, batch_key(&b, i), i % 100 == 0 ? 2 : 1);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
    set_word(&one, t->value_bytes, 0, 1);
    CHECK_EQ(checked_erase_if(map, number_of(t, 0), NULL, &one).exists, n / 100);
    CHECK(map_stats(map).accesses_per_miss < 1.01);
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Types, arguments, cursors ---------------------------------------------------------------------------- */

/* Deduplication: what was counted once goes. Every engine has counters of the widths of maps. */
TEST_EACH(test_open_erase_if_counted_once, .every_engine = 1)
{
    loom_context *context = make_context(t);
    const uint64_t n = test_scaled(t, 9000, 3000);
    uint64_t one, expected = 0;
    loom_map_config config = make_config(t, n);
    config.type = LOOM_TYPE_COUNTER;
    loom_map *map = make_map_from(context, &config);
    model m = make_model(t, map, n);
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(t->key_bytes, 6, random_below(&t->random, n)), 0);
    model_count(&m, &b);
    uint64_t position = 0, key, value;
    while (reference_next(m.reference, &position, &key, &value))
        expected += value > 1;
    set_word(&one, t->value_bytes, 0, 1);
    CHECK_EQ(model_erase_if(&m, number_of(t, 0), NULL, &(uint64_t){1}).exists, expected);
    model_compare(&m);
    model_count(&m, &b); /* all keys are there again */
    model_compare(&m);
    CHECK_OK(loom_map_erase_if(map, number_of(t, 0), &one, &one, NULL, NULL)); /* without a result */
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH(test_open_erase_if_wrong_arguments, .every_engine = 1)
{
    loom_context *context = make_context(t);
    model m = make_model(t, make_map(t, context, 100), 100);
    batch b = make_batch(t, 100);
    uint64_t values[MOST_EDGES] = {0}, count = edges(t, values), bound;
    const int other = t->value_bytes == 8 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64;
    fill_distinct(&b, 2, 0);
    model_insert(&m, &b, LOOM_KEEP);
    CHECK_REFUSED(loom_map_erase_if(NULL, number_of(t, 0), NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    for (int kind = 0; kind < KINDS; kind++) /* of the other width */
        CHECK_REFUSED(loom_map_erase_if(m.map, (loom_number)(other + kind), NULL, NULL, NULL, NULL),
                      LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase_if(m.map, (loom_number)6, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_erase_if(m.map, (loom_number)-1, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    for (uint64_t i = count - 2; i < count; i++) {
        set_word(&bound, t->value_bytes, 0, values[i]);
        CHECK_REFUSED(loom_map_erase_if(m.map, number_of(t, 2), &bound, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_map_erase_if(m.map, number_of(t, 2), NULL, &bound, NULL, NULL), LOOM_INVALID_ARGUMENT);
    }
    model_compare(&m);
    free_batch(&b);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH_SET(test_open_erase_if_set_has_no_values, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    batch b = make_batch(t, 100);
    fill_distinct(&b, 2, 0);
    checked_insert(map, &b, LOOM_KEEP);
    for (int number = LOOM_NUMBER_U32; number <= LOOM_NUMBER_F64; number++)
        CHECK_REFUSED(loom_map_erase_if(map, (loom_number)number, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* erase_if counts as a call that writes, even if it erases nothing. A call that was refused does not. */
TEST_EACH(test_open_erase_if_ends_cursors, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    batch b = make_batch(t, 100);
    loom_cursor *cursor = NULL;
    uint64_t got = 0, bounds[2] = {0};
    fill_distinct(&b, 2, 0);
    checked_insert(map, &b, LOOM_KEEP);
    CHECK_OK(loom_map_cursor_open(map, &cursor, NULL, NULL));
    CHECK_OK(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL));
    CHECK_REFUSED(loom_map_erase_if(map, (loom_number)6, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL));
    set_word(bounds, t->value_bytes, 0, 1); /* above the upper bound, which is 0 */
    CHECK_EQ(checked_erase_if(map, number_of(t, 0), bounds, bounds + 1).ok, 0);
    CHECK_REFUSED(loom_cursor_next(cursor, b.keys, b.values, 10, &got, NULL), LOOM_CHANGED);
    loom_cursor_close(cursor);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
