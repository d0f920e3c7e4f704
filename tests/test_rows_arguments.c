/* What tables of the rows engine refuse, and which tables have rows by themselves. */
#include "harness/map_fixture.h"

static loom_map_config rows_config(uint32_t key_bytes, uint32_t value_bytes, uint64_t capacity)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = value_bytes > 0 ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.engine = LOOM_ENGINE_ROWS;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = capacity;
    return config;
}

static void check_refused_widths(loom_context *context, loom_type type, uint32_t key_bytes, uint32_t value_bytes)
{
    loom_map_config config = rows_config(key_bytes, value_bytes, 10);
    loom_map *map = NULL;
    config.type = type;
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
}

TEST(test_rows_refuses_other_widths)
{
    loom_context *context = make_context(t);
    check_refused_widths(context, LOOM_TYPE_MAP, 0, 8);
    check_refused_widths(context, LOOM_TYPE_MAP, 257, 8);
    check_refused_widths(context, LOOM_TYPE_MAP, 8, 0);
    check_refused_widths(context, LOOM_TYPE_MAP, 8, 65537);
    check_refused_widths(context, LOOM_TYPE_SET, 257, 0);
    check_refused_widths(context, LOOM_TYPE_SET, 8, 4);
    check_refused_widths(context, LOOM_TYPE_COUNTER, 8, 16);
    check_refused_widths(context, LOOM_TYPE_MULTIMAP, 16, 8);
    loom_context_destroy(context);
}

TEST(test_rows_wide_values_are_no_numbers)
{
    loom_context *context = make_context(t);
    loom_map_config config = rows_config(16, 16, 10);
    const uint64_t key[2] = {1, 2}, value[2] = {3, 4}, absent[2] = {5, 6};
    uint64_t found[2];
    loom_map *map = make_map_from(context, &config);
    CHECK_REFUSED(loom_map_count(map, key, 1, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_accumulate(map, key, value, 1, LOOM_COMBINE_ADD, LOOM_NUMBER_U64, NULL, NULL, NULL),
                  LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_find(map, key, 1, found, absent, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_EQ(map_size(map), 0);
    config.concurrent_reads = 1;
    loom_map *other = NULL;
    CHECK_REFUSED(loom_map_create(context, &config, &other), LOOM_UNSUPPORTED);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Without a choice of engine, widths that open tables do not have get rows. */
TEST(test_rows_is_the_default_of_other_widths)
{
    loom_context *context = make_context(t);
    static const uint32_t widths[][2] = {{16, 8}, {8, 12}, {3, 0}, {4, 4}, {8, 0}};
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        loom_map_config config = rows_config(widths[w][0], widths[w][1], 100);
        config.engine = LOOM_ENGINE_DEFAULT;
        loom_map *map = make_map_from(context, &config);
        CHECK_EQ(map_stats(map).engine, w < 3 ? LOOM_ENGINE_ROWS : LOOM_ENGINE_OPEN);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}
