/* The size of the cells of perfect tables: chosen for the cache of a device, or by the caller. */
#include "harness/map_fixture.h"

#include <math.h>

#include "engines/perfect/perfect_layout.h"

enum { CACHE_BYTES = 60 << 20 };

static loom__perfect_shape shape_of(const loom_map_config *config, uint64_t cache_bytes)
{
    loom__perfect_shape shape;
    CHECK_OK(loom__perfect_choose_shape(config, cache_bytes, &shape));
    return shape;
}

static void check_same_shape(loom__perfect_shape a, loom__perfect_shape b)
{
    CHECK_EQ(a.words, b.words);
    CHECK_EQ(a.slots, b.slots);
}

/* Large tables have larger cells, hence fewer codes. Other tables, and tables at high loads, keep small cells. Both
 * kinds are equally full. */
TEST_EACH_KIND(test_perfect_create_cells_for_a_cache, .cpu_only = 1)
{
    static const double loads[] = {0.3, 0.53, 0.8, 0.85, 0.9, 0.95};
    static const uint32_t sizes[] = {0, 433, 129}; /* of partitions */
    for (uint32_t i = 0; i < sizeof loads / sizeof *loads; i++)
        for (uint32_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            loom_map_config config = make_config(t, 600000000);
            config.max_load = loads[i];
            config.buckets_per_partition = sizes[j];
            test_note("load %g, %u buckets", loads[i], sizes[j]);
            const loom__perfect_shape any = shape_of(&config, 0), large = shape_of(&config, CACHE_BYTES);
            const uint64_t codes = (uint64_t)any.partitions * any.words;
            const uint64_t fewer = (uint64_t)large.partitions * large.words;
            CHECK((double)large.slots < 1.003 * (double)any.slots);
            if (loads[i] > 0.8)
                check_same_shape(large, any);
            else if (sizes[j] == 0)
                CHECK(fewer < codes * 9 / 10);
            check_same_shape(shape_of(&config, UINT64_C(1) << 40), any);
            config.capacity = 100000000;
            check_same_shape(shape_of(&config, CACHE_BYTES), shape_of(&config, 0));
        }
}

/* At load 0.9 the usual partitions leave no room for larger cells. A table that asks for larger cells gets larger
 * partitions. */
TEST(test_perfect_create_partitions_for_larger_cells)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = 400000000;
    config.max_load = 0.9;
    const loom__perfect_shape any = shape_of(&config, 0), large = shape_of(&config, CACHE_BYTES);
    check_same_shape(large, any);
    CHECK_EQ(any.subrange, PERFECT_PREFERRED_SUBRANGE);
    config.keys_per_cell = 4.75;
    const loom__perfect_shape asked = shape_of(&config, 0);
    CHECK_GT(asked.subrange, PERFECT_PREFERRED_SUBRANGE);
    CHECK((double)asked.partitions * asked.words < 0.85 * any.partitions * any.words);
    CHECK((double)config.capacity / (double)asked.slots > 0.898);
}

/* The config of a table makes an equal table, even if the table is small and has few cells. */
TEST_EACH_KIND(test_perfect_create_from_own_config, .cpu_only = 1)
{
    static const double loads[] = {0.1, 0.53, 0.8, 0.95}, cells[] = {0, 0.7, 5, 12};
    for (uint64_t capacity = 1; capacity < 400000000; capacity += capacity * 2 / 3 + 1)
        for (uint32_t i = 0; i < 16; i++) {
            loom_map_config config = make_config(t, capacity);
            config.max_load = loads[i % 4];
            config.keys_per_cell = cells[i / 4];
            test_note("%llu keys, load %g, %g to a cell", (unsigned long long)capacity, loads[i % 4], cells[i / 4]);
            const loom__perfect_shape shape = shape_of(&config, CACHE_BYTES);
            config.buckets_per_partition = perfect_buckets(shape.subrange);
            config.keys_per_cell = loom__perfect_keys_per_cell(&shape, config.max_load);
            check_same_shape(shape_of(&config, CACHE_BYTES), shape);
        }
}

TEST_EACH_KIND(test_perfect_create_keys_per_cell)
{
    static const double cells[] = {0.5, 2, 3.3, 5, 8, 12}, wrong[] = {12.01, -4, NAN, INFINITY};
    t->engine = LOOM_ENGINE_PERFECT;
    loom_context *context = make_context(t);
    batch b = make_batch(t, test_scaled(t, 20000, 4000));
    fill_distinct(&b, random_u64(&t->random), 0);
    for (uint32_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        loom_map_config config = make_config(t, b.n), got = LOOM_MAP_CONFIG_INIT;
        config.keys_per_cell = cells[i];
        test_note("%g keys per cell", cells[i]);
        loom_map *map = make_map_from(context, &config);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        check_contents(map, &b);
        CHECK_OK(loom_map_get_config(map, &got));
        const double words = (double)map_stats(map).code_bytes / 8 / (double)map_stats(map).partitions;
        CHECK(got.keys_per_cell <= cells[i] && got.keys_per_cell > cells[i] * (1 - 1 / words));
        loom_map *like = make_map_from(context, &got);
        CHECK_EQ(map_stats(like).code_bytes, map_stats(map).code_bytes);
        CHECK_EQ(map_stats(like).slots, map_stats(map).slots);
        loom_map_destroy(like);
        loom_map_destroy(map);
    }
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        loom_map_config config = make_config(t, b.n);
        loom_map *map = NULL;
        config.keys_per_cell = wrong[i];
        CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    }
    loom_map_config open = make_config(t, b.n);
    loom_map *map = NULL;
    open.engine = LOOM_ENGINE_OPEN;
    open.keys_per_cell = 4;
    CHECK_REFUSED(loom_map_create(context, &open, &map), LOOM_INVALID_ARGUMENT);
    free_batch(&b);
    loom_context_destroy(context);
}
