/* Statistics, accesses and config of a table, and the costs that the header promises. */
#include "harness/map_fixture.h"

#include <string.h>

static uint64_t accesses_of(loom_map *map, const void *keys, uint64_t n)
{
    uint64_t accesses = UINT64_MAX;
    CHECK_OK(loom_map_count_accesses(map, keys, n, &accesses, NULL));
    return accesses;
}

TEST_EACH_KIND(test_open_stats_of_an_empty_table)
{
    loom_context *context = make_context_with(t, 2, 4711);
    for (uint64_t capacity = 0; capacity < 100000; capacity = capacity * 7 + 1) {
        loom_map *map = make_map(t, context, capacity);
        loom_stats stats = map_stats(map);
        uint64_t used = 0;
        CHECK_EQ(stats.struct_size, sizeof stats);
        CHECK_EQ(stats.engine, LOOM_ENGINE_OPEN);
        CHECK_EQ(stats.key_bytes, t->key_bytes);
        CHECK_EQ(stats.value_bytes, t->value_bytes);
        CHECK_EQ(stats.type, t->value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET);
        CHECK_EQ(stats.reserved, 0);
        CHECK_EQ(stats.capacity, capacity);
        CHECK_EQ(stats.size, 0);
        CHECK_EQ(stats.seed, 4711);
        CHECK_GE(stats.partitions, 2);
        CHECK_EQ(stats.slots, stats.partitions * stats.buckets_per_partition * stats.slots_per_bucket);
        CHECK_GE(stats.slots * 8, capacity * 10); /* load 0.8 */
        CHECK_EQ(stats.fullest_partition, 0);
        CHECK_EQ(stats.displaced, 0);
        CHECK_NEAR(stats.load, 0.0, 0.0);
        CHECK_NEAR(stats.accesses_per_miss, 1.0, 1e-12);
        CHECK_OK(loom_map_memory_used(map, &used));
        CHECK_EQ(stats.memory_bytes, used);
        CHECK_GE(used, stats.slots * (t->key_bytes + t->value_bytes));
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* The statistics of the table agree with the accesses counted key by key. */
TEST_EACH_KIND(test_open_stats_agree_with_accesses)
{
    loom_context *context = make_context(t);
    static const uint64_t sizes[] = {1, 10, 100, 3000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int by_build = 0; by_build < 2; by_build++) {
            uint64_t n = sizes[s], displaced = 0, longest = 0, total = 0;
            loom_map_config config = make_config(t, n);
            config.max_load = 0.95;
            loom_map *map = make_map_from(context, &config);
            batch b = make_batch(t, n);
            fill_distinct(&b, random_u64(&t->random), 0);
            if (by_build)
                checked_build(map, &b, LOOM_KEEP);
            else
                checked_insert(map, &b, LOOM_KEEP);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t accesses = accesses_of(map, (const unsigned char *)b.keys + i * b.key_bytes, 1);
                CHECK_GE(accesses, 1);
                displaced += accesses > 1;
                longest = accesses > longest ? accesses : longest;
                total += accesses;
            }
            loom_stats stats = map_stats(map);
            CHECK_EQ(accesses_of(map, b.keys, n), total);
            CHECK_EQ(stats.size, n);
            CHECK_EQ(stats.displaced, displaced);
            CHECK_EQ(stats.longest_chain, longest);
            CHECK_NEAR(stats.load, (double)n / (double)stats.slots, 1e-12);
            CHECK_NEAR(stats.accesses_per_hit, (double)total / (double)n, 1e-9);
            CHECK_GE(stats.fullest_partition * stats.partitions, n);
            CHECK_LE(stats.fullest_partition, stats.slots / stats.partitions);
            free_batch(&b);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

/* accesses_per_miss agrees with the measured cost of absent keys, also after churn. */
TEST_EACH_KIND(test_open_stats_misses_as_expected)
{
    loom_context *context = make_context(t);
    uint64_t n = test_scaled(t, 100000, 20000), m = 200000;
    loom_map_config config = make_config(t, n);
    config.max_load = 0.9;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, n), absent = make_batch(t, m);
    fill_distinct(&b, 1, 0);
    checked_insert(map, &b, LOOM_KEEP);
    fill_distinct(&absent, 1, 1 << 28);
    for (int round = 0; round < 3; round++) {
        double measured = (double)accesses_of(map, absent.keys, m) / (double)m;
        loom_stats stats = map_stats(map);
        test_note("round %d: %g expected, %g measured", round, stats.accesses_per_miss, measured);
        CHECK_NEAR(stats.accesses_per_miss - 1, measured - 1, 0.02 + (measured - 1) * 0.15);
        /* Replaces half of the keys. */
        b.n = n / 2;
        fill_distinct(&b, 1, (uint64_t)round * (n / 2));
        CHECK_EQ(checked_erase(map, &b).ok, b.n);
        fill_distinct(&b, 1, n + (uint64_t)round * (n / 2));
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        b.n = n;
    }
    free_batch(&b);
    free_batch(&absent);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* The header's COSTS: 1.1 accesses per hit at load 0.8, 1.25 at 0.9, and 1.01 and 1.03 per miss; 9.2 bytes per slot for
 * 4 + 4 bytes. Deterministic up to the seed, and the margins are many standard deviations wide. */
TEST(test_open_stats_promised_costs)
{
    static const struct {
        double load, hit, miss;
    } promised[] = {{0.8, 1.13, 1.015}, {0.9, 1.265, 1.03}};
    t->key_bytes = t->value_bytes = 4;
    loom_context *context = make_context(t);
    for (int i = 0; i < 2; i++)
        for (int by_build = 0; by_build < 2; by_build++) {
            uint64_t n = test_scaled(t, 1 << 20, 1 << 17);
            loom_map_config config = make_config(t, n);
            config.max_load = promised[i].load;
            loom_map *map = make_map_from(context, &config);
            loom_stats stats = map_stats(map);
            /* Fills the table to exactly the promised load. */
            uint64_t keys = (uint64_t)((double)stats.slots * promised[i].load);
            CHECK_GE(keys, n);
            CHECK_LE(keys, n + n / 8);
            batch b = make_batch(t, keys);
            fill_distinct(&b, random_u64(&t->random), 0);
            if (by_build)
                checked_build(map, &b, LOOM_KEEP);
            else
                checked_insert(map, &b, LOOM_KEEP);
            stats = map_stats(map);
            test_note("load %g, %g per hit, %g per miss", stats.load, stats.accesses_per_hit, stats.accesses_per_miss);
            CHECK(stats.accesses_per_hit >= 1.0 && stats.accesses_per_hit <= promised[i].hit);
            CHECK(stats.accesses_per_miss >= 1.0 && stats.accesses_per_miss <= promised[i].miss);
            CHECK((double)stats.memory_bytes / (double)stats.slots <= 9.25);
            free_batch(&b);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

/* ---- The config ----------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_get_config_makes_an_equal_table, .every_engine = 1)
{
    loom_context *context = make_context(t);
    static const struct {
        uint64_t capacity;
        double load;
        uint32_t buckets;
    } configs[] = {{0, 0, 0},        {1, 0, 0},        {100, 0.5, 0},     {1000, 0.95, 0}, {5000, 0.3, 113},
                   {20000, 0.9, 17}, {300000, 0.8, 0}, {200000, 0.95, 0}, {77, 0.01, 0},   {1234, 0.7, 3449}};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        loom_map_config config = make_config(t, configs[i].capacity), got = LOOM_MAP_CONFIG_INIT;
        config.max_load = configs[i].load;
        config.buckets_per_partition = configs[i].buckets;
        test_note("config %zu", i);
        loom_map *map = make_map_from(context, &config);
        CHECK_OK(loom_map_get_config(map, &got));
        CHECK_EQ(got.struct_size, sizeof got);
        CHECK_EQ(got.key_bytes, t->key_bytes);
        CHECK_EQ(got.value_bytes, t->value_bytes);
        CHECK_EQ(got.type, t->value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET);
        CHECK_EQ(got.capacity, configs[i].capacity);
        if (configs[i].load > 0)
            CHECK_NEAR(got.max_load, configs[i].load, 0);
        loom_map *second = make_map_from(context, &got);
        loom_stats a = map_stats(map), b = map_stats(second);
        CHECK_EQ(a.slots, b.slots);
        CHECK_EQ(a.partitions, b.partitions);
        CHECK_EQ(a.buckets_per_partition, b.buckets_per_partition);
        CHECK_EQ(a.memory_bytes, b.memory_bytes);
        loom_map_destroy(map);
        loom_map_destroy(second);
    }
    loom_context_destroy(context);
}
