/* Tables made with LOOM_MAP_CONFIG_INIT grow automatically, for new keys only. */
#include "core/hash.h"
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"
#include "harness/reference_map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static loom_map_config growing_config(const test_run *t, uint64_t capacity)
{
    static const loom_map_config defaults = LOOM_MAP_CONFIG_INIT;
    loom_map_config config = make_config(t, capacity);
    config.growth = defaults.growth;
    return config;
}

static loom_map *make_growing(const test_run *t, loom_context *context, uint64_t capacity)
{
    loom_map_config config = growing_config(t, capacity);
    return make_map_from(context, &config);
}

static loom_map_config config_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config;
}

/* ---- Keys that come ------------------------------------------------------------------------------------- */

/* One call inserts many more keys than the table was made for, with and without statuses and result. */
TEST_EACH_KIND(test_open_growth_is_the_default)
{
    loom_context *context = make_context(t);
    for (int way = 0; way < 6; way++) {
        uint64_t capacity = way % 2 ? 0 : 1000, n = test_scaled(t, 100000, 20000);
        loom_map *map = make_growing(t, context, capacity);
        batch b = make_batch(t, n);
        fill_distinct(&b, random_u64(&t->random), 0);
        test_note("way %d", way);
        if (way < 2)
            CHECK_EQ(checked_insert(map, &b, LOOM_OVERWRITE).ok, n);
        else if (way < 4)
            CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_KEEP, NULL, NULL, NULL));
        else
            CHECK_OK(loom_map_build(map, b.keys, b.values, n, LOOM_KEEP, NULL, NULL, NULL));
        check_contents(map, &b);
        checked_verify(map);
        CHECK_GE(config_of(map).capacity, n);
        CHECK_LE(config_of(map).capacity, 2 * n);
        CHECK_NEAR(config_of(map).growth, 2, 0);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* A batch that exceeds the capacity by a little would fit into the free slots. The table must grow all the same. */
TEST_EACH_KIND(test_open_growth_leaves_no_table_overfull)
{
    loom_context *context = make_context(t);
    uint64_t salt = random_u64(&t->random), n = 0;
    loom_map *map = make_growing(t, context, 3000);
    for (int i = 0; i < 60; i++) {
        batch b = make_batch(t, 1 + random_below(&t->random, 300));
        fill_distinct(&b, salt, n);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        n += b.n;
        CHECK_GE(config_of(map).capacity, n);
        CHECK_LE(config_of(map).capacity, n < 3000 ? 3000 : 2 * n);
        free_batch(&b);
    }
    CHECK_EQ(map_size(map), n);
    checked_verify(map);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* In a batch in order, the first or the last of equal keys wins, although growth inserts the rows at different
 * times. */
TEST_EACH(test_open_growth_in_order, .cpu_only = 1)
{
    loom_context *context = make_context(t);
    uint64_t keys = 5000, n = 40000, salt = random_u64(&t->random);
    batch b = make_batch(t, n), wanted = make_batch(t, keys);
    for (int way = 0; way < 4; way++) {
        uint32_t flags = LOOM_IN_ORDER | (way % 2 ? LOOM_OVERWRITE : LOOM_KEEP);
        loom_map *map = make_growing(t, context, 200);
        test_note("way %d", way);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t key = i < keys ? i : random_below(&t->random, keys);
            set_pair(&b, i, distinct_key(t->key_bytes, salt, key), i);
            if (i < keys || flags & LOOM_OVERWRITE)
                set_pair(&wanted, key, distinct_key(t->key_bytes, salt, key), i);
        }
        if (way < 2)
            CHECK_EQ(checked_insert(map, &b, flags).ok, keys);
        else
            CHECK_EQ(checked_build(map, &b, flags).ok, keys);
        check_contents(map, &wanted);
        loom_map_destroy(map);
    }
    free_batch(&b);
    free_batch(&wanted);
    loom_context_destroy(context);
}

/* ---- Rows of keys that are there ------------------------------------------------------------------------ */

/* A table made for exactly its keys does not grow, however many rows repeat them, and in any order. */
TEST_EACH_KIND(test_open_growth_not_for_rows)
{
    loom_context *context = make_context(t);
    uint64_t keys = 2000, n = test_scaled(t, 200000, 40000), salt = random_u64(&t->random);
    batch b = make_batch(t, n);
    for (int order = 0; order < 2; order++) {
        loom_map *map = make_growing(t, context, keys);
        for (uint64_t i = 0; i < n; i++)
            set_pair(&b, i, distinct_key(t->key_bytes, salt, order ? i % keys : i / (n / keys)), 1);
        for (int round = 0; round < 2; round++) {
            CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_OVERWRITE, NULL, NULL, NULL));
            CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).exists, n);
            CHECK_EQ(checked_build(map, &b, LOOM_KEEP).ok, keys);
            if (t->value_bytes == 0)
                continue;
            CHECK_EQ(checked_count(map, &b).exists, n);
            CHECK_OK(loom_map_clear(map, NULL, NULL));
            CHECK_OK(loom_map_count(map, b.keys, n, NULL, NULL, NULL));
            CHECK_OK(loom_map_find_or_insert(map, b.keys, b.values, n, NULL, NULL, NULL, NULL));
        }
        CHECK_EQ(map_size(map), keys);
        CHECK_EQ(config_of(map).capacity, keys);
        loom_map_destroy(map);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

/* Among new keys, one key has nearly all rows. The table must not reserve room for as many keys as rows. */
TEST_EACH(test_open_growth_not_for_one_key)
{
    loom_context *context = make_context(t);
    uint64_t keys = 4000, n = test_scaled(t, 400000, 100000), salt = random_u64(&t->random);
    loom_map *map = make_growing(t, context, 1000);
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, i < keys - 1 ? distinct_key(t->key_bytes, salt, i) : ~UINT64_C(0), 1);
    loom_result result = checked_count(map, &b);
    CHECK_LE(result.ok, keys);
    CHECK_GE(result.ok, keys - 1); /* a 4-byte key may be all ones by chance */
    CHECK_LE(config_of(map).capacity, 4 * keys);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Against a model ------------------------------------------------------------------------------------ */

enum { MODEL_ADD, MODEL_COUNT, MODEL_MIN, MODEL_FETCH, MODEL_OPERATIONS };

static loom_status call_model(loom_map *map, int operation, const batch *b, void *found, uint8_t *status,
                              loom_result *result)
{
    loom_number number = b->value_bytes == 4 ? LOOM_NUMBER_U32 : LOOM_NUMBER_U64;
    switch (operation) {
    case MODEL_ADD:
        return loom_map_accumulate(map, b->keys, b->values, b->n, LOOM_COMBINE_ADD, number, status, result, NULL);
    case MODEL_COUNT:
        return loom_map_count(map, b->keys, b->n, status, result, NULL);
    case MODEL_MIN:
        return loom_map_accumulate(map, b->keys, b->values, b->n, LOOM_COMBINE_MIN, number, status, result, NULL);
    default:
        return loom_map_find_or_insert(map, b->keys, b->values, b->n, found, status, result, NULL);
    }
}

/* Applies one row to the model. With MODEL_FETCH a stored value does not change. */
static void put_model(reference_map *model, int operation, uint64_t key, uint64_t value, uint32_t value_bytes)
{
    uint64_t old;
    if (operation == MODEL_COUNT)
        value = 1;
    if (reference_get(model, key, &old)) {
        if (operation == MODEL_ADD || operation == MODEL_COUNT)
            value += old;
        else if (operation == MODEL_FETCH || value > old)
            value = old;
    }
    reference_put(model, key, cut_word(value, value_bytes));
}

/* Rows of `keys` keys. A few keys have many rows, and most have few. */
static void fill_rows(test_run *t, batch *b, uint64_t salt, uint64_t keys)
{
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t bound = 1 + random_below(&t->random, keys);
        uint64_t key = distinct_key(b->key_bytes, salt, random_below(&t->random, bound));
        set_pair(b, i, key, value_for(key, b->value_bytes) % 1000);
    }
}

static void check_model(loom_map *map, reference_map *model, uint32_t key_bytes, uint32_t value_bytes)
{
    batch all = make_batch_of(key_bytes, value_bytes, reference_size(model));
    uint64_t position = 0, key, value, i = 0;
    while (reference_next(model, &position, &key, &value))
        set_pair(&all, i++, key, value);
    check_contents(map, &all);
    free_batch(&all);
}

TEST_EACH(test_open_growth_against_a_model, .long_tier = 1, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t rounds = test_scaled(t, 40, 12);
    for (uint64_t round = 0; round < rounds; round++) {
        int operation = (int)(round % MODEL_OPERATIONS), told = (int)(round / MODEL_OPERATIONS % 2);
        uint64_t salt = random_u64(&t->random);
        loom_map *map = make_growing(t, context, random_below(&t->random, 2000));
        reference_map *model = reference_create();
        test_note("round %llu", (unsigned long long)round);
        for (int call = 0; call < 4; call++) {
            batch b = make_batch(t, 1 + random_below(&t->random, 60000));
            void *found = test_allocate(b.n * b.value_bytes);
            uint64_t before = reference_size(model), ok = 0;
            loom_result result = {.status = -1};
            fill_rows(t, &b, salt, 1 + random_below(&t->random, 30000));
            CHECK_OK(call_model(map, operation, &b, told ? found : NULL, told ? b.status : NULL, &result));
            for (uint64_t i = 0; i < b.n; i++) {
                put_model(model, operation, batch_key(&b, i), batch_value(&b, i), b.value_bytes);
                CHECK(!told || b.status[i] == LOOM_OK || b.status[i] == LOOM_EXISTS);
                ok += told && b.status[i] == LOOM_OK;
                if (told && operation == MODEL_FETCH)
                    CHECK_EQ(get_word(found, b.value_bytes, i), batch_value(&b, i));
            }
            CHECK_EQ(result.status, LOOM_OK);
            CHECK_EQ(result.keys, b.n);
            CHECK_EQ(result.ok, reference_size(model) - before);
            CHECK_EQ(result.ok + result.exists, b.n);
            if (told)
                CHECK_EQ(ok, result.ok);
            free(found);
            free_batch(&b);
        }
        check_model(map, model, t->key_bytes, t->value_bytes);
        checked_verify(map);
        reference_destroy(model);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* ---- Short of memory ------------------------------------------------------------------------------------ */

/* The table was given `first`, which may be NULL, and then b. Every row was combined exactly once, or refused. If one
 * row of a key was refused, all were. `result` and `status` are those of b. */
static void check_outcome(loom_map *map, int operation, const batch *first, const batch *b, const void *found,
                          const uint8_t *status, const loom_result *result)
{
    reference_map *model = reference_create(), *sums = reference_create();
    batch stored = retrieve(map, b->key_bytes, b->value_bytes);
    uint64_t refused = 0;
    for (uint64_t i = 0; i < stored.n; i++)
        reference_put(model, batch_key(&stored, i), 0);
    free_batch(&stored);
    for (uint64_t i = 0; first != NULL && i < first->n; i++)
        put_model(sums, operation, batch_key(first, i), batch_value(first, i), first->value_bytes);
    const uint64_t before = reference_size(sums);
    for (uint64_t i = 0; i < b->n; i++) {
        int there = reference_get(model, batch_key(b, i), NULL);
        refused += !there;
        if (status != NULL)
            CHECK_EQ(status[i] == LOOM_FULL, !there);
        if (there)
            put_model(sums, operation, batch_key(b, i), batch_value(b, i), b->value_bytes);
        if (status != NULL && operation == MODEL_FETCH)
            CHECK_EQ(get_word(found, b->value_bytes, i), there ? batch_value(b, i) : 0);
    }
    CHECK_EQ(result->full, refused);
    CHECK_EQ(result->status, refused > 0 ? LOOM_FULL : LOOM_OK);
    CHECK_EQ(result->ok, reference_size(model) - before);
    CHECK_EQ(result->ok + result->exists + result->full, b->n);
    check_model(map, sums, b->key_bytes, b->value_bytes);
    checked_verify(map);
    reference_destroy(sums);
    reference_destroy(model);
}

static uint64_t bytes_of(loom_map *map)
{
    const loom_stats stats = map_stats(map);
    return stats.memory_bytes + stats.host_bytes;
}

/* Gives b to a table that was given `first` before. Makes each request for memory fail, one run at a time; in every run
 * request number `also` fails, too, if it is not 0. Returns the number of requests, and in *short_of the number of runs
 * in which keys were refused. */
static uint64_t fail_each(test_run *t, loom_context *context, counting_allocator *counter, const batch *first, batch *b,
                          int way, uint64_t also, uint64_t *short_of)
{
    const int operation = way % MODEL_OPERATIONS, told = way / MODEL_OPERATIONS;
    uint64_t requests = 1;
    void *found = test_allocate(b->n * b->value_bytes);
    *short_of = 0;
    for (uint64_t failing = 0; failing <= requests; failing++) { /* in the first run only `also` fails */
        loom_map *map = make_growing(t, context, 300);
        loom_result result = {.status = -1};
        if (first != NULL)
            CHECK_OK(call_model(map, operation, first, NULL, NULL, &result));
        uint64_t bytes = counting_bytes(counter), before = counting_requests(counter);
        const uint64_t used = bytes_of(map);
        test_note("way %d, requests %llu and %llu fail", way, (unsigned long long)also, (unsigned long long)failing);
        test_poison_last_error();
        counting_fail_at_both(counter, also, failing);
        CHECK_OK(call_model(map, operation, b, told ? found : NULL, told ? b->status : NULL, &result));
        counting_fail_at(counter, 0);
        if (failing == 0)
            requests = counting_requests(counter) - before;
        CHECK_EQ(counting_bytes(counter), bytes - used + bytes_of(map)); /* no other memory is held */
        if (result.status == LOOM_FULL) {
            CHECK(strstr(loom_last_error(), "bytes") != NULL);
            ++*short_of;
        }
        check_outcome(map, operation, first, b, found, told ? b->status : NULL, &result);
        loom_map_destroy(map);
    }
    free(found);
    return requests;
}

/* The table grows before the batch comes. If one request fails, the batch goes to the small table, and the table grows
 * for the refused rows. If another request fails then, keys are refused. */
TEST_EACH(test_open_growth_nth_allocation_fails, .long_tier = 1, .every_engine = 1, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    batch b = make_batch(t, 40000);
    fill_rows(t, &b, random_u64(&t->random), 5000);
    uint32_t first, end;
    test_sample(t, 2 * MODEL_OPERATIONS, &first, &end);
    for (uint32_t way = first; way < end; way++) {
        uint64_t short_of;
        CHECK_GE(fail_each(t, context, counter, NULL, &b, (int)way, 0, &short_of), 2);
        CHECK_EQ(short_of, 0);
        CHECK_GE(fail_each(t, context, counter, NULL, &b, (int)way, 1, &short_of), 4);
        CHECK_GE(short_of, 3);
    }
    free_batch(&b);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* Nearly all rows have one of a few keys, which the table has. A sample of the rows finds next to no new key, so the
 * table does not grow beforehand. It grows for the refused rows. */
TEST_EACH(test_open_growth_nth_allocation_fails_later, .long_tier = 1, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    batch first = make_batch(t, 20), b = make_batch(t, 80000);
    const uint64_t salt = random_u64(&t->random);
    for (uint64_t i = 0; i < first.n; i++)
        set_pair(&first, i, distinct_key(b.key_bytes, salt, i), i + 1);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, salt, i % 80 == 0 ? 100 + i : i % first.n), i + 1);
    for (int way = 0; way < (t->short_tier ? 1 : 2); way++) {
        uint64_t short_of;
        CHECK_GE(fail_each(t, context, counter, &first, &b, way * MODEL_OPERATIONS, 0, &short_of), 5);
        CHECK_GE(short_of, 3);
    }
    free_batch(&first);
    free_batch(&b);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* The peak memory of growth is as loom.h states it. */
TEST_EACH(test_open_growth_peak_memory, .cpu_only = 1)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    const uint64_t n = 50000, some = 8192;
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    for (int told = 0; told < 2; told++) {
        loom_map *map = make_growing(t, context, 10000);
        uint64_t before, after;
        CHECK_OK(loom_map_memory_used(map, &before));
        uint64_t others = counting_bytes(counter) - before;
        counting_reset_peak(counter);
        CHECK_OK(loom_map_insert(map, b.keys, b.values, n, LOOM_KEEP, told ? b.status : NULL, NULL, NULL));
        CHECK_OK(loom_map_memory_used(map, &after));
        const loom_map_config config = growing_config(t, n);
        loom_memory memory = LOOM_MEMORY_INIT;
        CHECK_OK(loom_map_memory_required(context, &config, &memory));
        const uint64_t temporary = told ? memory.status_bytes : memory.build_bytes;
        CHECK_LE(counting_peak(counter), others + before + after + temporary + some);
        loom_map_destroy(map);
    }
    free_batch(&b);
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* All keys belong to one partition, whatever the size of the table. Growth ends, and the keys are refused. */
TEST(test_open_growth_ends_for_keys_that_collide)
{
    enum { KEYS = 60000 };
    loom_context *context = make_context_with(t, 2, 12345);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = 1000;
    loom_map *map = make_map_from(context, &config);
    loom__seed seed = loom__seed_expand(map_stats(map).seed);
    batch b = make_batch_of(4, 4, KEYS);
    uint64_t found = 0;
    for (uint64_t key = 0; found < KEYS; key++)
        if (loom__hash_partition(loom__hash_key(key, 4, seed), 256) == 0)
            set_pair(&b, found++, key, key);
    loom_result result = checked_insert(map, &b, LOOM_KEEP);
    CHECK_GT(result.full, 0);
    CHECK_EQ(result.ok + result.full, KEYS);
    CHECK_LE(config_of(map).capacity, 4 * KEYS);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, KEYS, LOOM_KEEP, NULL, NULL, NULL), LOOM_FULL);
    CHECK(strstr(loom_last_error(), "one partition") != NULL);
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- What went on ---------------------------------------------------------------------------------------- */

static loom_activity activity_of(loom_map *map)
{
    loom_activity activity = LOOM_ACTIVITY_INIT;
    CHECK_OK(loom_map_activity(map, &activity, NULL));
    return activity;
}

TEST_EACH_KIND(test_open_activity_counts, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_growing(t, context, 100), *clone;
    batch few = make_batch(t, 50), many = make_batch(t, 300000); /* by partition from 2^18 on */
    fill_distinct(&few, 1, 0);
    fill_distinct(&many, 2, 0);
    loom_activity now = activity_of(map);
    CHECK_EQ(now.calls | now.keys | now.growths | now.upkeeps | now.last_route, 0);
    CHECK_OK(loom_map_insert(map, few.keys, few.values, few.n, LOOM_DIRECTLY, NULL, NULL, NULL));
    now = activity_of(map);
    CHECK_EQ(now.calls, 1);
    CHECK_EQ(now.keys, 50);
    CHECK_EQ(now.growths, 0);
    CHECK_EQ(now.last_route, LOOM_ROUTE_DIRECTLY);
    CHECK_OK(loom_map_insert(map, many.keys, many.values, many.n, LOOM_DIRECTLY, NULL, NULL, NULL));
    now = activity_of(map);
    CHECK_EQ(now.growths, 1);
    CHECK(now.growth_seconds > 0);
    CHECK_OK(loom_map_contains(map, many.keys, many.n, NULL, NULL, NULL, NULL));
    CHECK_EQ(activity_of(map).keys, 50 + 2 * 300000);
    CHECK_EQ(activity_of(map).calls, 3);
    CHECK_OK(loom_map_build(map, many.keys, many.values, many.n, LOOM_KEEP, NULL, NULL, NULL));
    const int directly = t->machine == LOOM_MACHINE_CUDA &&
                         (t->table->engine == LOOM_ENGINE_ROWS || t->table->engine == LOOM_ENGINE_TICKETS);
    CHECK_EQ(activity_of(map).last_route, directly ? LOOM_ROUTE_DIRECTLY : LOOM_ROUTE_BY_PARTITION);
    CHECK_EQ(activity_of(map).growths, 1);
    CHECK_REFUSED(loom_map_erase(map, NULL, 5, NULL, NULL, NULL), LOOM_INVALID_ARGUMENT); /* it does not run */
    CHECK_EQ(activity_of(map).calls, 4);
    CHECK_EQ(activity_of(map).keys, 50 + 3 * 300000);
    CHECK_OK(loom_map_contains(map, few.keys, 1, NULL, NULL, NULL, NULL)); /* calls with one key, and without any */
    CHECK_OK(loom_map_erase(map, few.keys, 1, NULL, NULL, NULL));
    CHECK_OK(loom_map_contains(map, few.keys, 0, NULL, NULL, NULL, NULL));
    CHECK_EQ(activity_of(map).calls, 7);
    CHECK_EQ(activity_of(map).keys, 52 + 3 * 300000);
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    CHECK_EQ(activity_of(clone).calls, 0);
    CHECK_REFUSED(loom_map_activity(NULL, &now, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_activity(map, NULL, NULL), LOOM_INVALID_ARGUMENT);
    loom_map_destroy(clone);
    loom_map_destroy(map);
    free_batch(&few);
    free_batch(&many);
    loom_context_destroy(context);
}

static void note_growth(void *user, loom_log_level level, const char *text)
{
    if (level == LOOM_LOG_WARNING && strstr(text, "times in one call") != NULL)
        ++*(int *)user;
}

/* Half of the rows have keys that the table has. A sample of rows then predicts half of the new keys, and the table
 * grows twice. The second time is logged. */
TEST_EACH(test_open_activity_logs_growth, .every_engine = 1, .cpu_only = 1)
{
    int warnings = 0;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = t->simd;
    config.threads = 2;
    config.log = note_growth;
    config.log_user = &warnings;
    CHECK_OK(loom_context_create(&config, &context));
    loom_map *map = make_growing(t, context, 100);
    batch few = make_batch(t, 20), b = make_batch(t, 100000);
    fill_distinct(&few, 1, 0);
    CHECK_OK(loom_map_count(map, few.keys, few.n, NULL, NULL, NULL));
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, 1, i % 2 ? i : i / 2 % 20), 1);
    CHECK_OK(loom_map_count(map, b.keys, b.n, NULL, NULL, NULL));
    CHECK_EQ(activity_of(map).growths, 2);
    CHECK_EQ(warnings, 1);
    CHECK_OK(loom_map_count(map, b.keys, b.n, NULL, NULL, NULL));
    CHECK_EQ(warnings, 1);
    loom_map_destroy(map);
    free_batch(&few);
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- Threads -------------------------------------------------------------------------------------------- */

enum { THREADS = 4 };

typedef struct inserter {
    const test_run *t;
    loom_map *map;
    uint64_t salt, first, batches, batch_size;
} inserter;

static void *insert_some(void *argument)
{
    const inserter *own = argument;
    for (uint64_t i = 0; i < own->batches; i++) {
        batch b = make_batch(own->t, own->batch_size);
        fill_distinct(&b, own->salt, own->first + i * own->batch_size);
        loom_result result = {.status = -1};
        CHECK_OK(loom_map_insert(own->map, b.keys, b.values, b.n, LOOM_KEEP, b.status, &result, NULL));
        CHECK_EQ(result.ok, b.n);
        for (uint64_t k = 0; k < b.n; k++)
            CHECK_EQ(b.status[k], LOOM_OK);
        check_all_found(own->map, &b);
        free_batch(&b);
    }
    return NULL;
}

static void run_inserters(test_run *t, loom_map *map, int threads, uint64_t batches, uint64_t batch_size)
{
    pthread_t handles[THREADS];
    inserter all[THREADS];
    uint64_t salt = random_u64(&t->random), each = batches * batch_size;
    for (int i = 0; i < threads; i++) {
        all[i] = (inserter){t, map, salt, (uint64_t)i * each, batches, batch_size};
        CHECK_EQ(pthread_create(&handles[i], NULL, insert_some, &all[i]), 0);
    }
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_join(handles[i], NULL), 0);
    batch b = make_batch(t, (uint64_t)threads * each);
    fill_distinct(&b, salt, 0);
    check_contents(map, &b);
    CHECK_GE(config_of(map).capacity, b.n);
    checked_verify(map);
    free_batch(&b);
}

/* Several threads insert many batches while the table moves again and again. */
TEST_EACH_KIND(test_open_growth_with_threads, .threads = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_growing(t, context, 100);
    run_inserters(t, map, THREADS, test_scaled(t, 100, 20), 1 + random_below(&t->random, 400));
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Two threads insert one batch each. Each batch fits alone, but not both. */
TEST_EACH_KIND(test_open_growth_of_two_that_fit_alone, .threads = 1)
{
    loom_context *context = make_context(t);
    uint64_t rounds = test_scaled(t, 50, 10);
    for (uint64_t round = 0; round < rounds; round++) {
        loom_map *map = make_growing(t, context, 5000);
        run_inserters(t, map, 2, 1, 4000);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* ---- Tables from elsewhere ------------------------------------------------------------------------------ */

TEST_EACH_KIND(test_open_growth_of_loaded_and_cloned, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 2000), *loaded = NULL, *clone = NULL;
    batch half = make_batch(t, 2000), all = make_batch(t, 20000);
    const char *path = test_path(t, "table.loom");
    fill_distinct(&half, 5, 0);
    fill_distinct(&all, 5, 0);
    checked_insert(map, &half, LOOM_KEEP);
    CHECK_OK(loom_map_save(map, path, NULL));
    CHECK_OK(loom_map_load(context, path, &loaded, NULL)); /* saved by a table without growth */
    CHECK_NEAR(config_of(loaded).growth, 2, 0);
    CHECK_OK(loom_map_set_growth(loaded, 3));
    CHECK_OK(loom_map_clone(loaded, &clone, NULL));
    CHECK_NEAR(config_of(clone).growth, 3, 0);
    CHECK_EQ(checked_insert(loaded, &all, LOOM_KEEP).ok, 18000);
    check_contents(loaded, &all);
    CHECK_EQ(checked_insert(clone, &half, LOOM_OVERWRITE).exists, 2000);
    CHECK_EQ(config_of(clone).capacity, 2000);
    batch one = make_batch(t, 1);
    fill_distinct(&one, 5, 2000);
    CHECK_EQ(checked_insert(clone, &one, LOOM_KEEP).ok, 1);
    CHECK_EQ(config_of(clone).capacity, 6000);
    CHECK_EQ(checked_insert(clone, &all, LOOM_KEEP).ok, 17999);
    check_contents(clone, &all);
    CHECK_GT(checked_insert(map, &all, LOOM_KEEP).full, 0);
    free_batch(&one);
    free_batch(&half);
    free_batch(&all);
    loom_map_destroy(clone);
    loom_map_destroy(loaded);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_set_growth)
{
    static const double wrong[] = {-1, 0.5, 1, 16.5, 1e300};
    loom_context *context = make_context(t);
    loom_map *map = make_growing(t, context, 1000);
    batch b = make_batch(t, 30000);
    fill_distinct(&b, random_u64(&t->random), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_REFUSED(loom_map_set_growth(map, wrong[i]), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_set_growth(NULL, 2), LOOM_INVALID_ARGUMENT);
    CHECK_NEAR(config_of(map).growth, 2, 0);
    CHECK_OK(loom_map_set_growth(map, 0));
    CHECK_NEAR(config_of(map).growth, 0, 0);
    CHECK_GT(checked_insert(map, &b, LOOM_KEEP).full, 0);
    CHECK_EQ(config_of(map).capacity, 1000);
    CHECK_OK(loom_map_set_growth(map, 16));
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).full, 0);
    check_contents(map, &b);
    CHECK_GE(config_of(map).capacity, 30000);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
