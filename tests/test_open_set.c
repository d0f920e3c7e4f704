/* Sets: keys without values. TEST_EACH_KIND tests what sets share with maps. This file tests what only sets have: their
 * layout, what they refuse, their flags, their files. It also compares all operations with an array of flags. */
#include "harness/file_surgery.h"
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

/* ---- Layout --------------------------------------------------------------------------------------------- */

TEST_EACH_SET(test_open_set_layout)
{
    loom_context *context = make_context(t);
    static const uint64_t capacities[] = {0, 1, 7, 14, 15, 100, 5000, 100000};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        loom_map *set = make_map(t, context, capacities[i]), *second = NULL;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        loom_stats stats = map_stats(set);
        test_note("capacity %llu", (unsigned long long)capacities[i]);
        CHECK_EQ(stats.type, LOOM_TYPE_SET);
        CHECK_EQ(stats.value_bytes, 0);
        CHECK_EQ(stats.slots_per_bucket, t->key_bytes == 4 ? 14 : 7);
        CHECK_GE(stats.slots, capacities[i]);
        if (capacities[i] >= 5000) /* 64 bytes a bucket, and little beside */
            CHECK_LE(stats.memory_bytes, stats.slots / stats.slots_per_bucket * 64 + 8192);
        CHECK_OK(loom_map_get_config(set, &config));
        CHECK_EQ(config.type, LOOM_TYPE_SET);
        CHECK_EQ(config.value_bytes, 0);
        CHECK_OK(loom_map_create(context, &config, &second));
        CHECK_EQ(map_stats(second).slots, stats.slots);
        loom_map_destroy(second);
        loom_map_destroy(set);
    }
    loom_context_destroy(context);
}

/* Type and width of the values must agree. */
TEST(test_open_set_config_contradictions)
{
    static const struct {
        loom_type type;
        uint32_t value_bytes;
        int right;
    } configs[] = {
        {LOOM_TYPE_SET, 0, 1},     {LOOM_TYPE_SET, 4, 0},     {LOOM_TYPE_SET, 8, 0},     {LOOM_TYPE_SET, 1, 0},
        {LOOM_TYPE_MAP, 0, 0},     {LOOM_TYPE_MAP, 4, 1},     {LOOM_TYPE_DEFAULT, 0, 0}, {LOOM_TYPE_DEFAULT, 8, 1},
        {LOOM_TYPE_COUNTER, 0, 0}, {LOOM_TYPE_COUNTER, 4, 1}, {LOOM_TYPE_COUNTER, 8, 1}, {LOOM_TYPE_COUNTER, 2, 0},
    };
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++)
        for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4) {
            loom_map_config config = LOOM_MAP_CONFIG_INIT;
            loom_memory memory = LOOM_MEMORY_INIT;
            loom_map *map = NULL;
            config.key_bytes = key_bytes;
            config.value_bytes = configs[i].value_bytes;
            config.type = configs[i].type;
            config.capacity = 10;
            test_note("type %d, %u + %u bytes", (int)config.type, key_bytes, config.value_bytes);
            if (configs[i].right) {
                CHECK_OK(loom_map_memory_required(context, &config, &memory));
                CHECK_OK(loom_map_create(context, &config, &map));
                loom_map_destroy(map);
            } else {
                CHECK_REFUSED(loom_map_memory_required(context, &config, &memory), LOOM_INVALID_ARGUMENT);
                CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
                CHECK(map == NULL);
            }
        }
    loom_context_destroy(context);
}

/* ---- Edges ---------------------------------------------------------------------------------------------- */

/* The smallest tables up to their last slot, one key at a time and by build, and one key more. */
TEST_EACH_SET(test_open_set_exactly_full_plus_one)
{
    loom_context *context = make_context(t);
    uint64_t bucket = t->key_bytes == 4 ? 14 : 7;
    const uint64_t capacities[] = {0, 1, bucket - 1, bucket, bucket + 1, 2 * bucket, 100};
    for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++) {
        loom_map *set = make_map(t, context, capacities[c]);
        uint64_t slots = map_stats(set).slots, salt = random_u64(&t->random), tried = 0;
        batch one = make_batch(t, 1), all = make_batch(t, slots), more = make_batch(t, 3 * slots);
        test_note("capacity %llu, %llu slots", (unsigned long long)capacities[c], (unsigned long long)slots);
        for (uint64_t used = 0; used < slots; tried++) { /* ends when random keys have reached every partition */
            fill_distinct(&one, salt, tried);
            loom_result result = checked_insert(set, &one, LOOM_KEEP);
            CHECK(result.ok == 1 || used >= capacities[c]);
            if (result.ok)
                set_pair(&all, used++, batch_key(&one, 0), 0);
            CHECK_LT(tried, 100 * (slots + 50));
        }
        check_contents(set, &all);
        CHECK_NEAR(map_stats(set).load, 1.0, 1e-12);
        fill_distinct(&one, salt, tried);
        CHECK_EQ(checked_insert(set, &one, LOOM_KEEP).full, 1);
        CHECK_REFUSED(loom_map_insert(set, one.keys, NULL, 1, LOOM_OVERWRITE, one.status, NULL, NULL), LOOM_FULL);
        CHECK_EQ(one.status[0], LOOM_FULL);
        CHECK_EQ(checked_contains(set, &one).not_found, 1);
        CHECK_EQ(checked_insert(set, &all, LOOM_OVERWRITE).exists, slots);
        /* An erased key fits again. */
        set_pair(&one, 0, batch_key(&all, slots / 2), 0);
        CHECK_EQ(checked_erase(set, &one).ok, 1);
        CHECK_EQ(checked_contains(set, &one).not_found, 1);
        CHECK_EQ(checked_insert(set, &one, LOOM_KEEP).ok, 1);
        check_contents(set, &all);
        CHECK_EQ(checked_build(set, &all, LOOM_KEEP).ok, slots);
        check_contents(set, &all);
        fill_distinct(&more, salt, 0);
        loom_result built = checked_build(set, &more, LOOM_KEEP);
        CHECK_GE(built.ok, capacities[c]);
        CHECK_EQ(built.ok + built.full, more.n);
        CHECK_EQ(checked_contains(set, &more).ok, built.ok);
        checked_verify(set);
        free_batch(&one);
        free_batch(&all);
        free_batch(&more);
        loom_map_destroy(set);
    }
    loom_context_destroy(context);
}

/* ---- What a set refuses --------------------------------------------------------------------------------- */

TEST_EACH_SET(test_open_set_values_refused)
{
    loom_context *context = make_context(t);
    loom_map *set = make_map(t, context, 100);
    batch b = make_batch(t, 50);
    uint64_t values[50] = {0}, count = 0;
    loom_cursor *cursor = NULL;
    fill_distinct(&b, 3, 0);
    CHECK_EQ(checked_insert(set, &b, LOOM_KEEP).ok, 50);
    CHECK_OK(loom_map_cursor_open(set, &cursor, NULL, NULL));
#define INVALID(call) CHECK_REFUSED(call, LOOM_INVALID_ARGUMENT)
    INVALID(loom_map_insert(set, b.keys, values, 50, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_insert(set, b.keys, values, 50, LOOM_OVERWRITE | LOOM_IN_ORDER, NULL, NULL, NULL));
    INVALID(loom_map_build(set, b.keys, values, 50, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_find(set, b.keys, 50, values, NULL, NULL, NULL, NULL));
    INVALID(loom_map_find(set, b.keys, 50, NULL, values, NULL, NULL, NULL));
    INVALID(loom_map_retrieve_all(set, b.keys, values, 50, &count, NULL, NULL));
    INVALID(loom_cursor_next(cursor, b.keys, values, 50, &count, NULL));
    /* A set still needs keys. */
    INVALID(loom_map_insert(set, NULL, NULL, 50, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_build(set, NULL, NULL, 50, LOOM_KEEP, NULL, NULL, NULL));
    INVALID(loom_map_find(set, NULL, 50, NULL, NULL, NULL, NULL, NULL));
    INVALID(loom_map_insert(set, b.keys, NULL, 50, 32, NULL, NULL, NULL));
#undef INVALID
    for (int i = 0; i < 50; i++)
        CHECK_EQ(values[i], 0);
    CHECK_OK(loom_cursor_next(cursor, b.keys, NULL, 50, &count, NULL)); /* no refused call has disturbed the cursor */
    CHECK_EQ(count, 50);
    loom_cursor_close(cursor);
    check_contents(set, &b);
    free_batch(&b);
    loom_map_destroy(set);
    loom_context_destroy(context);
}

TEST_EACH_SET(test_open_set_calls_on_values_unsupported, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *set = make_map(t, context, 100);
    batch b = make_batch(t, 50), more = make_batch(t, 50);
    uint64_t values[50] = {0}, found[50] = {0};
    loom_result result;
    fill_distinct(&b, 3, 0);
    fill_distinct(&more, 3, 50);
    CHECK_EQ(checked_insert(set, &b, LOOM_KEEP).ok, 50);
#define UNSUPPORTED(call) CHECK_REFUSED(call, LOOM_UNSUPPORTED)
    for (uint64_t n = 0; n <= 50; n += 50) { /* with arrays, and without */
        void *keys = n ? more.keys : NULL, *v = n ? values : NULL;
        UNSUPPORTED(loom_map_find_or_insert(set, keys, v, n, found, more.status, &result, NULL));
        UNSUPPORTED(loom_map_find_or_insert(set, keys, NULL, n, NULL, NULL, NULL, NULL));
        UNSUPPORTED(loom_map_update(set, keys, v, n, NULL, NULL, NULL));
        UNSUPPORTED(loom_map_update(set, keys, NULL, n, NULL, NULL, NULL));
        UNSUPPORTED(loom_map_accumulate(set, keys, v, n, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, NULL, NULL, NULL));
        UNSUPPORTED(loom_map_accumulate(set, keys, NULL, n, LOOM_COMBINE_MAX, LOOM_NUMBER_U64, NULL, NULL, NULL));
        UNSUPPORTED(loom_map_count(set, keys, n, NULL, NULL, NULL));
        UNSUPPORTED(loom_map_count(set, keys, n, more.status, &result, NULL));
    }
#undef UNSUPPORTED
    check_contents(set, &b);
    check_none_found(set, &more);
    free_batch(&b);
    free_batch(&more);
    loom_map_destroy(set);
    loom_context_destroy(context);
}

/* ---- Flags ---------------------------------------------------------------------------------------------- */

/* Sets accept all flags. In order, the first of equal keys gets LOOM_OK. */
TEST_EACH_SET(test_open_set_flags)
{
    loom_context *context = make_context(t);
    uint64_t n = 3000;
    batch b = make_batch(t, 2 * n);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, 9, i % n), 0);
    for (uint32_t flags = 0; flags < 4; flags++)
        for (int by_build = 0; by_build < 2; by_build++) {
            loom_map *set = make_map(t, context, n);
            test_note("flags %u, %s", flags, by_build ? "build" : "insert");
            loom_result result = by_build ? checked_build(set, &b, flags) : checked_insert(set, &b, flags);
            CHECK_EQ(result.ok, n);
            CHECK_EQ(result.exists, n);
            for (uint64_t i = 0; i < n; i++)
                CHECK_NE(b.status[i], b.status[n + i]);
            for (uint64_t i = 0; i < n && (flags & LOOM_IN_ORDER); i++)
                CHECK_EQ(b.status[i], LOOM_OK);
            b.n = n;
            check_contents(set, &b);
            b.n = 2 * n;
            loom_map_destroy(set);
        }
    free_batch(&b);
    loom_context_destroy(context);
}

/* Several threads or lanes insert and erase few keys many times. One entry stores each key, and one erases it. */
TEST_EACH_SET(test_open_set_equal_keys_many_threads, .threads = 1)
{
    enum { KEYS = 64 };
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t n = test_scaled(t, 100000, 40000);
    loom_map *set = make_map(t, context, KEYS);
    batch b = make_batch(t, n);
    for (int round = 0; round < 4; round++) {
        uint64_t stored[KEYS] = {0}, salt = random_u64(&t->random);
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, distinct_key(b.key_bytes, salt, i % KEYS), 0);
        CHECK_EQ(checked_insert(set, &b, round & 1 ? LOOM_OVERWRITE : LOOM_KEEP).ok, KEYS);
        for (uint64_t i = 0; i < n; i++)
            stored[i % KEYS] += b.status[i] == LOOM_OK;
        for (int i = 0; i < KEYS; i++)
            CHECK_EQ(stored[i], 1);
        checked_verify(set);
        CHECK_EQ(checked_contains(set, &b).ok, n);
        CHECK_EQ(checked_erase(set, &b).ok, KEYS);
        for (uint64_t i = 0; i < n; i++)
            stored[i % KEYS] -= b.status[i] == LOOM_OK;
        for (int i = 0; i < KEYS; i++)
            CHECK_EQ(stored[i], 0);
        checked_verify(set);
    }
    free_batch(&b);
    loom_map_destroy(set);
    loom_context_destroy(context);
}

/* ---- All operations against an array of flags ---------------------------------------------------------------- */

enum { UNIVERSE = 1200 };

/* Key number i of the universe: small numbers, their complements, and scattered numbers. */
static uint64_t universe_key(const test_run *t, uint64_t i)
{
    uint64_t key = i < 100 ? i : i < 200 ? 0 - (i - 99) : UINT64_C(0x9e3779b97f4a7c15) * i >> (64 - 8 * t->key_bytes);
    return cut_word(key, t->key_bytes);
}

typedef struct flagged {
    test_run *t;
    loom_context *context;
    loom_map *set;
    uint8_t there[UNIVERSE];
    uint64_t size;
} flagged;

static uint64_t number_of(const flagged *f, uint64_t key)
{
    for (uint64_t i = 0; i < UNIVERSE; i++)
        if (universe_key(f->t, i) == key)
            return i;
    FAIL("key 0x%llx was never stored", (unsigned long long)key);
}

/* The batch has each key of the set once. */
static void check_flagged(flagged *f, const batch *keys, uint64_t n)
{
    uint8_t seen[UNIVERSE] = {0};
    CHECK_EQ(n, f->size);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = number_of(f, batch_key(keys, i));
        CHECK(f->there[number] && !seen[number]);
        seen[number] = 1;
    }
}

static void put_flagged(flagged *f, batch *b, const uint64_t *numbers, uint32_t flags, int by_build)
{
    loom_result result = by_build ? checked_build(f->set, b, flags) : checked_insert(f->set, b, flags);
    if (by_build) {
        memset(f->there, 0, sizeof f->there);
        f->size = 0;
    }
    CHECK_EQ(result.full, 0); /* the set was made for the universe */
    uint64_t stored[UNIVERSE] = {0};
    for (uint64_t i = 0; i < b->n; i++)
        stored[numbers[i]] += b->status[i] == LOOM_OK;
    for (uint64_t i = 0; i < b->n; i++) {
        CHECK_EQ(stored[numbers[i]], !f->there[numbers[i]]);
        f->size += b->status[i] == LOOM_OK;
    }
    for (uint64_t i = 0; i < b->n; i++)
        f->there[numbers[i]] = 1;
}

static void erase_flagged(flagged *f, batch *b, const uint64_t *numbers)
{
    uint64_t erased[UNIVERSE] = {0};
    f->size -= checked_erase(f->set, b).ok;
    for (uint64_t i = 0; i < b->n; i++)
        erased[numbers[i]] += b->status[i] == LOOM_OK;
    for (uint64_t i = 0; i < b->n; i++)
        CHECK_EQ(erased[numbers[i]], f->there[numbers[i]]);
    for (uint64_t i = 0; i < b->n; i++)
        f->there[numbers[i]] = 0;
}

static void read_by_cursor(flagged *f, uint64_t room)
{
    loom_cursor *cursor = NULL;
    batch all = make_batch(f->t, UNIVERSE + room), chunk = make_batch(f->t, room);
    uint64_t taken = 0, got = 0, count = 0;
    CHECK_OK(loom_map_cursor_open(f->set, &cursor, &count, NULL));
    CHECK_EQ(count, f->size);
    do {
        CHECK_OK(loom_cursor_next(cursor, chunk.keys, NULL, room, &got, NULL));
        CHECK_LE(taken + got, UNIVERSE);
        for (uint64_t i = 0; i < got; i++)
            set_pair(&all, taken++, batch_key(&chunk, i), 0);
    } while (got);
    loom_cursor_close(cursor);
    check_flagged(f, &all, taken);
    free_batch(&all);
    free_batch(&chunk);
}

static void replace_set(flagged *f, loom_map *by)
{
    loom_map_destroy(f->set);
    f->set = by;
    CHECK_EQ(map_stats(by).type, LOOM_TYPE_SET);
}

static void flagged_step(flagged *f)
{
    test_run *t = f->t;
    uint64_t n = random_below(&t->random, 400), range = 1 + random_below(&t->random, UNIVERSE);
    uint64_t *numbers = test_allocate(n * sizeof *numbers), op = random_below(&t->random, 20);
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++) { /* from part of the universe: keys repeat */
        numbers[i] = random_below(&t->random, range);
        set_pair(&b, i, universe_key(t, numbers[i]), 0);
    }
    test_note("operation %llu, %llu keys of %llu, %llu in the set", (unsigned long long)op, (unsigned long long)n,
              (unsigned long long)range, (unsigned long long)f->size);
    if (op < 5) {
        put_flagged(f, &b, numbers, (uint32_t)random_below(&t->random, 4), 0);
    } else if (op < 9) {
        erase_flagged(f, &b, numbers);
    } else if (op < 11) {
        checked_find(f->set, &b);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(b.status[i], f->there[numbers[i]] ? LOOM_OK : LOOM_NOT_FOUND);
    } else if (op < 13) {
        checked_contains(f->set, &b);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(b.found[i], f->there[numbers[i]]);
    } else if (op < 14) {
        put_flagged(f, &b, numbers, (uint32_t)random_below(&t->random, 4), 1);
    } else if (op < 15 && n < 100) {
        CHECK_OK(loom_map_clear(f->set, NULL, NULL));
        memset(f->there, 0, sizeof f->there);
        f->size = 0;
    } else if (op < 16) {
        loom_map *clone = NULL;
        CHECK_OK(loom_map_clone(f->set, &clone, NULL));
        replace_set(f, clone);
    } else if (op < 17) {
        loom_map *loaded = NULL;
        CHECK_OK(loom_map_save(f->set, test_path(t, "set"), NULL));
        CHECK_OK(loom_map_load(f->context, test_path(t, "set"), &loaded, NULL));
        replace_set(f, loaded);
    } else if (op < 18) {
        read_by_cursor(f, 1 + random_below(&t->random, 300));
    } else {
        batch all = retrieve(f->set, t->key_bytes, 0);
        check_flagged(f, &all, all.n);
        free_batch(&all);
    }
    CHECK_EQ(map_size(f->set), f->size);
    checked_verify(f->set);
    free(numbers);
    free_batch(&b);
}

TEST_EACH_SET(test_open_set_model_random_operations, .every_engine = 1, .leak_check = 1)
{
    for (uint64_t table = 0; table < test_scaled(t, 6, 2); table++) {
        flagged f = {.t = t, .context = make_context(t)};
        loom_map_config config = make_config(t, UNIVERSE);
        config.max_load = table & 1 ? 0.95 : 0;
        f.set = make_map_from(f.context, &config);
        for (uint64_t step = 0; step < test_scaled(t, 150, 60); step++)
            flagged_step(&f);
        loom_map_destroy(f.set);
        loom_context_destroy(f.context);
    }
}

/* ---- Files ---------------------------------------------------------------------------------------------- */

TEST_EACH_SET(test_open_set_save_round_trip)
{
    loom_context *context = make_context(t), *other = make_context(t);
    static const uint64_t sizes[] = {0, 1, 14, 1000, 30000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t n = sizes[i];
        loom_map *set = make_map(t, context, n), *loaded = NULL;
        batch b = make_batch(t, n);
        size_t bytes;
        fill_distinct(&b, random_u64(&t->random), 0);
        CHECK_EQ(checked_build(set, &b, LOOM_KEEP).ok, n);
        CHECK_OK(loom_map_save(set, test_path(t, "set"), NULL));
        CHECK_OK(loom_map_load(other, test_path(t, "set"), &loaded, NULL));
        CHECK_EQ(map_stats(loaded).type, LOOM_TYPE_SET);
        CHECK_EQ(map_stats(loaded).value_bytes, 0);
        check_contents(loaded, &b);
        /* The fields that docs/format.md prescribes for sets. */
        unsigned char *file = test_read_file(test_path(t, "set"), &bytes);
        surgery_head header = surgery_header(file);
        CHECK_EQ(header.table.type, 2);
        CHECK_EQ(header.table.value_bytes, 0);
        CHECK_EQ(header.table.key_bytes, t->key_bytes);
        CHECK_EQ(header.sections[0].unit, 64 * (uint64_t)header.table.buckets);
        CHECK_EQ(map_stats(set).slots,
                 (uint64_t)header.table.partitions * header.table.buckets * (t->key_bytes == 4 ? 14 : 7));
        /* The loaded table is a set: it accepts keys and no values. */
        uint64_t value = 0;
        if (n > 0) {
            CHECK_REFUSED(loom_map_find(loaded, b.keys, 1, &value, NULL, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT);
            CHECK_EQ(checked_erase(loaded, &b).ok, n);
            CHECK_EQ(checked_insert(loaded, &b, LOOM_KEEP).ok, n);
        }
        free(file);
        free_batch(&b);
        loom_map_destroy(set);
        loom_map_destroy(loaded);
    }
    loom_context_destroy(context);
    loom_context_destroy(other);
}
