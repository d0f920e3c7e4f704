/* Insertions into multimaps that hold pairs already, with LOOM_BY_PARTITION. The open engine on the cuda machine then
 * loads each partition with its lists, and moves the lists that get values (cuda_multi_build.cu). Other machines and
 * engines insert as always. */
#include "harness/multimap_model.h"

#include <stdlib.h>

static const uint32_t FLAGS = LOOM_KEEP | LOOM_BY_PARTITION;

static multimap_model make_table(test_run *t, loom_context *context, uint64_t capacity, uint64_t values, double growth)
{
    loom_map_config config = make_multimap_config(t, capacity, values);
    config.growth = growth;
    return make_multimap_model(t, context, &config);
}

/* Whether the last insertion went by partition. */
static int went_by_partition(const multimap_model *m)
{
    loom_activity activity = LOOM_ACTIVITY_INIT;
    CHECK_OK(loom_map_activity(m->map, &activity, NULL));
    return activity.last_route == LOOM_ROUTE_BY_PARTITION;
}

static int goes_by_partition(const test_run *t)
{
    return t->machine == LOOM_MACHINE_CUDA && t->engine == LOOM_ENGINE_OPEN;
}

/* n rows of random keys from `first` to `first + keys` - 1. */
static batch random_rows(test_run *t, uint64_t salt, uint64_t first, uint64_t keys, uint64_t n)
{
    batch b = make_batch(t, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, salt, first + random_below(&t->random, keys)),
                 random_u64(&t->random));
    return b;
}

/* `each` rows of every key. */
static batch regular_rows(test_run *t, uint64_t salt, uint64_t keys, uint64_t each)
{
    batch b = make_batch(t, keys * each);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, salt, i % keys), mix_u64(salt + i));
    return b;
}

/* Old and new keys, which get none, one or several values. In between keys and pairs are erased, so that keys of the
 * table lie behind free slots. */
TEST_EACH_MULTIMAP(test_multimap_partition_in_many_calls, .long_tier = 1, .threads = 1, .timeout_seconds = 120)
{
    static const double loads[] = {0, 0.5, 0.95};
    const uint64_t keys = test_scaled(t, 40000, 6000), rounds = test_scaled(t, 12, 6);
    for (int i = 0; i < 3; i++) {
        loom_context *context = make_multimap_context(t);
        if (!context)
            return;
        loom_map_config config = make_multimap_config(t, keys, 64 * keys);
        config.growth = 2;
        config.max_load = loads[i];
        multimap_model m = make_multimap_model(t, context, &config);
        const uint64_t salt = random_u64(&t->random);
        uint64_t by_partition = 0;
        for (uint64_t round = 0; round < rounds; round++) {
            const uint64_t first = round % 3 == 2 ? keys / 2 : 0;
            batch b =
                random_rows(t, salt, first, first + round < rounds / 2 ? keys / 2 : keys - first, 1 + keys * 2 / 3);
            test_note("load %g, round %llu", loads[i], (unsigned long long)round);
            if (round % 2)
                multimap_insert_bare(&m, &b, FLAGS);
            else
                CHECK_EQ(multimap_insert_untold(&m, &b, FLAGS).ok, b.n);
            by_partition += round > 0 && went_by_partition(&m);
            multimap_compare(&m);
            free_batch(&b);
            b = random_rows(t, salt, 0, keys, keys / 5);
            multimap_erase(&m, &b);
            free_batch(&b);
            b = random_rows(t, salt, 0, keys, keys / 9);
            for (uint64_t j = 0; j < b.n && m.used > 0; j++) {
                const value_list *list = &m.lists[random_below(&t->random, m.used)];
                if (list->count > 0)
                    set_pair(&b, j, list->key, list->values[random_below(&t->random, list->count)]);
            }
            multimap_erase_pairs(&m, &b);
            free_batch(&b);
        }
        if (goes_by_partition(t))
            CHECK_GT(by_partition, 0); /* a batch goes another way if its rows are too unevenly distributed */
        multimap_compare(&m);
        multimap_save_and_load(&m, context);
        multimap_compare(&m);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}

/* Long lists, which are copied in pieces, and lists that become LARGE or are LARGE already (list_handle.h), among many
 * short ones. */
TEST_EACH_MULTIMAP(test_multimap_partition_long_lists, .long_tier = 1, .threads = 1, .timeout_seconds = 300)
{
    static const uint64_t lengths[] = {1,
                                       2,
                                       63,
                                       64,
                                       65,
                                       4095,
                                       4096,
                                       4097,
                                       8193,
                                       20000,
                                       (1 << 15),
                                       (1 << 15) + 1,
                                       100000,
                                       0,
                                       (1 << 19) - 1,
                                       1 << 19,
                                       (1 << 19) + 1,
                                       1 << 20};
    const uint64_t long_keys = test_scaled(t, 18, 16), others = 3000;
    loom_context *context = make_multimap_context(t);
    if (!context)
        return;
    uint64_t n = 0;
    for (uint64_t i = 0; i < long_keys; i++)
        n += lengths[i];
    const uint64_t salt = random_u64(&t->random);
    multimap_model m = make_table(t, context, long_keys + others, 8 * (n + 10 * others), 2);
    batch b = make_batch(t, n + others);
    for (uint64_t i = 0; i < others; i++)
        set_pair(&b, i, distinct_key(b.key_bytes, salt, long_keys + i), random_u64(&t->random));
    for (uint64_t i = 0, at = others; i < long_keys; at += lengths[i++])
        for (uint64_t j = 0; j < lengths[i]; j++)
            set_pair(&b, at + j, distinct_key(b.key_bytes, salt, i), mix_u64(at + j));
    CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
    free_batch(&b);
    int by_partition = 0;
    for (int round = 0; round < 3; round++) {
        b = regular_rows(t, salt, long_keys + (round == 1 ? 0 : others), 1 + (uint64_t)round);
        test_note("round %d", round);
        CHECK_EQ(multimap_insert_untold(&m, &b, FLAGS).ok, b.n);
        by_partition += went_by_partition(&m);
        multimap_compare(&m);
        free_batch(&b);
    }
    if (goes_by_partition(t))
        CHECK_GT(by_partition, 0);
    multimap_save_and_load(&m, context);
    multimap_compare(&m);
    CHECK_OK(loom_map_shrink(m.map, NULL));
    multimap_compare(&m);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* The heap has just enough room for all lists at new places, or one value less. Half of the lists move, so that
 * there is room for these in any case. */
TEST_EACH_MULTIMAP(test_multimap_partition_room_for_values)
{
    const uint64_t keys = 2000, stored = 2 * keys, n = keys;
    for (uint64_t less = 0; less < 2; less++)
        for (int grows = 0; grows < 2; grows++) {
            loom_context *context = make_multimap_context(t);
            if (!context)
                return;
            multimap_model m = make_table(t, context, keys, 2 * stored + n - less, grows ? 2 : 0);
            const uint64_t salt = random_u64(&t->random);
            batch b = regular_rows(t, salt, keys, 2), more = regular_rows(t, salt, keys / 2, 2);
            CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, stored);
            CHECK_EQ(multimap_insert_untold(&m, &more, FLAGS).ok, n);
            if (goes_by_partition(t))
                CHECK_EQ(went_by_partition(&m), !less);
            multimap_compare(&m);
            for (int again = 0; again < 3; again++) /* the heap is at its end: lists move, or the table grows */
                if (grows)
                    CHECK_EQ(multimap_insert_untold(&m, &more, FLAGS).ok, n);
            multimap_compare(&m);
            free_batch(&b);
            free_batch(&more);
            end_multimap_model(&m);
            loom_context_destroy(context);
        }
}

/* The directory has no slot for some keys: they are refused with all their pairs, and keys of the table get theirs. */
TEST_EACH_MULTIMAP(test_multimap_partition_full_directory)
{
    loom_context *context = make_multimap_context(t);
    if (!context)
        return;
    multimap_model m = make_table(t, context, 3000, 1000000, 0);
    const uint64_t slots = map_stats(m.map).slots, salt = random_u64(&t->random);
    batch some = random_rows(t, salt, 0, 1000, 1000);
    CHECK_EQ(multimap_build(&m, &some, LOOM_KEEP).ok, some.n);
    for (int round = 0; round < 6; round++) {
        batch b = random_rows(t, salt, 0, 2 * slots, 3 * slots);
        test_note("round %d", round);
        CHECK_GT(multimap_insert_untold(&m, &b, FLAGS).full, 0);
        if (goes_by_partition(t))
            CHECK(went_by_partition(&m));
        multimap_compare(&m);
        b.n = round % 2 ? slots / 10 : 0;
        multimap_erase(&m, &b);
        free_batch(&b);
    }
    multimap_erase(&m, &some);
    CHECK_GT(multimap_insert_untold(&m, &some, FLAGS).ok, 0); /* other keys have taken slots of erased ones */
    multimap_compare(&m);
    free_batch(&some);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* Tables that begin without room grow in all respects. */
TEST_EACH_MULTIMAP(test_multimap_partition_grows, .long_tier = 1, .threads = 1)
{
    const uint64_t n = test_scaled(t, 20000, 4000);
    for (uint64_t capacity = 0; capacity <= 100; capacity += 50) {
        loom_context *context = make_multimap_context(t);
        if (!context)
            return;
        multimap_model m = make_table(t, context, capacity, 5 * capacity, 2);
        const uint64_t salt = random_u64(&t->random);
        for (uint64_t round = 0; round < 6; round++) {
            batch b = random_rows(t, salt, 0, round % 2 ? n : n / 8, n);
            test_note("capacity %llu, round %llu", (unsigned long long)capacity, (unsigned long long)round);
            multimap_insert_bare(&m, &b, FLAGS);
            multimap_compare(&m);
            free_batch(&b);
        }
        batch none = make_batch(t, 0);
        multimap_insert_bare(&m, &none, FLAGS);
        multimap_compare(&m);
        free_batch(&none);
        end_multimap_model(&m);
        loom_context_destroy(context);
    }
}
