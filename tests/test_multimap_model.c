/* All operations of multimaps in random order against a model. */
#include "harness/multimap_model.h"

enum { HOT_KEYS = 4, SHORT_BATCH = 300 };

/* A few keys have many values: two of them are the special keys 0 and all ones. The others come from a universe. */
static uint64_t random_key(test_run *t, uint64_t universe)
{
    static const uint64_t hot[HOT_KEYS] = {0, UINT64_MAX, 12345, UINT64_C(0x8000000080000000)};
    if (random_below(&t->random, 3) == 0)
        return hot[random_below(&t->random, HOT_KEYS)];
    return distinct_key(t->key_bytes, 5, random_below(&t->random, universe));
}

/* Sometimes with few different values: then equal pairs are frequent. */
static batch random_rows(test_run *t, uint64_t universe, uint64_t longest)
{
    const int few_values = random_below(&t->random, 3) == 0;
    const uint64_t bound = random_below(&t->random, 4) ? longest / 6 + 2 : longest + 1;
    batch b = make_batch(t, random_below(&t->random, bound));
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, random_key(t, universe), few_values ? random_below(&t->random, 5) : random_u64(&t->random));
    return b;
}

/* Replaces most rows by pairs of the table. A pair may be drawn more often than the table has it. */
static void aim_at_pairs(const multimap_model *m, batch *b)
{
    for (uint64_t i = 0; i < b->n && m->used > 0; i++) {
        const value_list *list = &m->lists[random_below(&m->t->random, m->used)];
        if (list->count > 0 && random_below(&m->t->random, 4) > 0)
            set_pair(b, i, list->key, list->values[random_below(&m->t->random, list->count)]);
    }
}

/* A value of the table, or any number. */
static uint64_t random_bound(const multimap_model *m)
{
    const value_list *list = m->used > 0 ? &m->lists[random_below(&m->t->random, m->used)] : NULL;
    return list && list->count > 0 ? list->values[random_below(&m->t->random, list->count)] : mix_u64(m->size);
}

static void erase_random_range(multimap_model *m)
{
    if (!multimap_has_ranges(m))
        return;
    const uint64_t a = random_bound(m), b = random_below(&m->t->random, 4) ? random_bound(m) : a;
    const number_range range = random_range(&m->t->random, m->value_bytes, a, b);
    multimap_erase_if(m, &range);
}

static uint32_t random_flags(test_run *t)
{
    return random_below(&t->random, 2) ? LOOM_KEEP : LOOM_KEEP | LOOM_IN_ORDER;
}

/* Returns 0 if the operation is none of these. */
static int write_step(multimap_model *m, batch *b, uint64_t op)
{
    test_run *t = m->t;
    if (op < 26) {
        multimap_insert(m, b, random_flags(t));
    } else if (op < 32) {
        if (m->grows && (m->most == 0 || t->machine == LOOM_MACHINE_CPU))
            multimap_insert_bare(m, b, random_flags(t));
    } else if (op < 38) {
        multimap_erase(m, b);
    } else if (op < 42) {
        erase_random_range(m);
    } else if (op < 52) {
        aim_at_pairs(m, b);
        multimap_erase_pairs(m, b);
    } else if (op < 56) {
        multimap_build(m, b, random_flags(t));
    } else if (op < 57) {
        multimap_clear(m);
    } else {
        return 0;
    }
    return 1;
}

/* Calls that move or copy the table. Too many keys may collide in one partition of the new table: then the table stays
 * as it is. */
static int move_step(multimap_model *m, loom_context *context, uint64_t op)
{
    test_run *t = m->t;
    loom_status status = LOOM_OK;
    if (op < 60)
        multimap_clone(m);
    else if (op < 61)
        multimap_save_and_load(m, context);
    else if (op < 64)
        status = loom_map_shrink(m->map, NULL);
    else if (op < 66)
        status = loom_map_reserve(m->map, random_below(&t->random, 2 * m->distinct + 10), NULL);
    else if (op < 69)
        status = loom_map_reserve_values(m->map, random_below(&t->random, 2 * m->size + 10), NULL);
    else
        return 0;
    CHECK(status == LOOM_OK || status == LOOM_FULL);
    multimap_compare(m);
    return 1;
}

static void read_step(multimap_model *m, const batch *b, uint64_t op)
{
    test_run *t = m->t;
    if (op < 78)
        multimap_find(m, b);
    else if (op < 88)
        multimap_find_all(m, b,
                          b->n > SHORT_BATCH || random_below(&t->random, 3) ? 1 + random_below(&t->random, 20) : 0);
    else if (op < 92)
        multimap_compare_cursor(m, 1 + random_below(&t->random, 50));
    else if (op < 94)
        multimap_compare_visits(m);
    else
        multimap_compare(m);
}

/* A long batch has each hot key thousands of times. Then only the first values of its keys are compared, and all values
 * of the table's keys, each once. */
static void check_written(multimap_model *m, const batch *b)
{
    multimap_find_all(m, b, b->n > SHORT_BATCH ? 3 : 0);
    if (b->n > SHORT_BATCH)
        multimap_compare(m);
}

static void random_step(multimap_model *m, loom_context *context, uint64_t universe, uint64_t longest)
{
    test_run *t = m->t;
    batch b = random_rows(t, universe, longest);
    const uint64_t op = random_below(&t->random, 100);
    test_note("operation %llu, %llu rows, %llu pairs of %llu keys in the table", (unsigned long long)op,
              (unsigned long long)b.n, (unsigned long long)m->size, (unsigned long long)m->distinct);
    if (write_step(m, &b, op))
        check_written(m, &b);
    else if (!move_step(m, context, op))
        read_step(m, &b, op);
    multimap_check_counts(m);
    free_batch(&b);
}

/* Keys and values that the table is made for: none, a few, or more than the batches have. */
static loom_map_config random_config(test_run *t, int grows)
{
    static const uint64_t sizes[] = {0, 1, 10, 60, 400};
    static const double loads[] = {0, 0, 0.5, 0.9};
    static const uint32_t buckets[] = {0, 0, 2, 31};
    loom_map_config config = make_multimap_config(t, sizes[random_below(&t->random, 5)], 0);
    config.values = sizes[random_below(&t->random, 5)] * (1 + random_below(&t->random, 4));
    config.max_load = loads[random_below(&t->random, 4)];
    config.buckets_per_partition = table_case_partition_size(t->table, buckets[random_below(&t->random, 4)]);
    config.growth = grows ? 2 : 0;
    if (random_below(&t->random, 4) == 0)
        config.most_values_per_key = 1 + random_below(&t->random, 30);
    if (t->engine == LOOM_ENGINE_CHAIN) {
        static const double growths[] = {0, 1, 1.1, 3};
        config.first_bucket = random_below(&t->random, 6);
        config.bucket_growth = growths[random_below(&t->random, 4)];
    }
    return config;
}

static void random_tables(test_run *t, int grows)
{
    const uint64_t tables = test_scaled(t, 24, 3), steps = test_scaled(t, 150, 40);
    for (uint64_t table = 0; table < tables; table++) {
        loom_context *context = make_multimap_context(t);
        const loom_map_config config = random_config(t, grows);
        multimap_model m = make_multimap_model(t, context, &config);
        const uint64_t universe = 1 + random_below(&t->random, 300);
        for (uint64_t step = 0; step < steps; step++)
            random_step(&m, context, universe, SHORT_BATCH);
        multimap_compare(&m);
        multimap_compare_cursor(&m, 7);
        multimap_compare_visits(&m);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

TEST_EACH_MULTIMAP(test_multimap_model_random_operations_growing, .long_tier = 1, .timeout_seconds = 180,
                   .leak_check = 1)
{
    random_tables(t, 1);
}

/* Without growth rows are refused. Exactly the rows that were told so are absent. */
TEST_EACH_MULTIMAP(test_multimap_model_random_operations_full, .long_tier = 1, .timeout_seconds = 180)
{
    random_tables(t, 0);
}

/* The same with batches that several threads share, and with more keys than one partition holds. */
TEST_EACH_MULTIMAP(test_multimap_model_random_operations_large, .long_tier = 1, .threads = 1, .timeout_seconds = 180)
{
    const uint64_t steps = test_scaled(t, 60, 8), n = test_scaled(t, 60000, 6000);
    loom_context *context = make_multimap_context(t);
    loom_context_destroy(context);
    context = make_context_with(t, 3, random_u64(&t->random));
    loom_map_config config = make_multimap_config(t, n / 10, n / 10);
    config.growth = 2;
    multimap_model m = make_multimap_model(t, context, &config);
    batch b = random_rows(t, n, n);
    multimap_build(&m, &b, LOOM_KEEP);
    free_batch(&b);
    for (uint64_t step = 0; step < steps; step++)
        random_step(&m, context, n, n);
    multimap_compare(&m);
    end_multimap_model(&m);
    loom_context_destroy(context);
}
