/* All operations in random order against the reference. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

static void random_step(model *m, loom_context *context, uint64_t universe, uint64_t longest)
{
    test_run *t = m->t;
    batch b = random_batch(t, universe, longest);
    uint64_t op = random_below(&t->random, 100);
    if (op >= 20 && op < 40 && t->value_bytes == 0)
        op = op % 2 ? 0 : 50; /* operations that sets do not have */
    test_note("operation %llu, %llu keys, %llu in the table", (unsigned long long)op, (unsigned long long)b.n,
              (unsigned long long)reference_size(m->reference));
    if (op < 20)
        model_insert(m, &b, (uint32_t)random_below(&t->random, 4));
    else if (op < 28)
        model_find_or_insert(m, &b);
    else if (op < 36)
        model_accumulate(m, &b, (loom_combine)random_below(&t->random, 3), (int)random_below(&t->random, 2));
    else if (op < 40)
        model_update(m, &b);
    else if (op < 56 || (op < 60 && t->value_bytes == 0))
        model_erase(m, &b);
    else if (op < 60)
        model_erase_if_random(m);
    else if (op < 75)
        model_find(m, &b);
    else if (op < 80)
        model_build(m, &b, (uint32_t)random_below(&t->random, 4));
    else if (op < 82)
        model_clear(m);
    else if (op < 86)
        model_clone(m);
    else if (op < 87)
        model_save_and_load(m, context);
    else if (op < 92)
        model_compare_cursor(m, 1 + random_below(&t->random, 50));
    else
        model_compare(m);
    checked_verify(m->map);
    free_batch(&b);
}

TEST_EACH_KIND(test_open_model_random_operations, .long_tier = 1, .every_engine = 1, .timeout_seconds = 180,
               .leak_check = 1)
{
    uint64_t tables = test_scaled(t, 20, 5), steps = test_scaled(t, 150, 60);
    for (uint64_t table = 0; table < tables; table++) {
        loom_context *context = make_context(t);
        uint64_t capacity = random_below(&t->random, table & 1 ? 40 : 1500);
        loom_map_config config = make_config(t, capacity);
        static const double loads[] = {0, 0.95, 0.9, 0.5};
        static const uint32_t buckets[] = {0, 0, 2, 3, 31, 127};
        config.max_load = loads[random_below(&t->random, 4)];
        config.buckets_per_partition = table_case_partition_size(t->table, buckets[random_below(&t->random, 6)]);
        model m = make_model(t, make_map_from(context, &config), capacity);
        uint64_t universe = 10 + random_below(&t->random, 3 * capacity + 10);
        for (uint64_t step = 0; step < steps; step++)
            random_step(&m, context, universe, capacity * 2 + 20);
        model_compare(&m);
        loom_map_destroy(m.map);
        free_model(&m);
        loom_context_destroy(context);
    }
}

/* The same with tables of several partitions of the usual size, and with batches that are split. */
TEST_EACH_KIND(test_open_model_random_operations_large, .threads = 1, .every_engine = 1, .timeout_seconds = 180)
{
    uint64_t steps = test_scaled(t, 40, 12);
    loom_context *context = make_context_with(t, 3, random_u64(&t->random));
    uint64_t capacity = test_scaled(t, 40000, 6000);
    loom_map_config config = make_config(t, capacity);
    config.max_load = 0.9;
    config.buckets_per_partition = table_case_partition_size(t->table, 127);
    model m = make_model(t, make_map_from(context, &config), capacity);
    for (uint64_t step = 0; step < steps; step++)
        random_step(&m, context, capacity, capacity / 2);
    model_compare(&m);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}
