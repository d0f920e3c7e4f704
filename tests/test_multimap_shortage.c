/* Multimaps whose room for values runs short: as much is stored as fits, nothing is wasted for what is refused, and
 * room that becomes free is used again. Widths are 8 + 8 bytes: every value lies in the heap. */
#include "engines/multi/multi_layout.h"
#include "harness/counting_allocator.h"
#include "harness/multimap_model.h"

#include <stdlib.h>
#include <string.h>

static loom_engine engine_under_test;

/* Runs the body for each engine of multimaps. */
#define TEST_ENGINES(name)                                                          \
    static void name##_body(test_run *t);                                           \
    TEST(name)                                                                      \
    {                                                                               \
        static const loom_engine engines[] = {LOOM_ENGINE_OPEN, LOOM_ENGINE_CHAIN}; \
        for (int i = 0; i < 2; i++) {                                               \
            engine_under_test = engines[i];                                         \
            test_note("engine %d", (int)engines[i]);                                \
            name##_body(t);                                                         \
        }                                                                           \
    }                                                                               \
    static void name##_body(test_run *t)

static loom_map_config config_for(uint64_t capacity, uint64_t values, double growth)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.engine = engine_under_test;
    config.type = LOOM_TYPE_MULTIMAP;
    config.key_bytes = config.value_bytes = 8;
    config.capacity = capacity;
    config.values = values;
    config.growth = growth;
    return config;
}

static loom_map *map_of(loom_context *context, const loom_map_config *config)
{
    loom_map *map;
    CHECK_OK(loom_map_create(context, config, &map));
    return map;
}

/* Inserts n pairs; pair i has key first + i % keys. */
static loom_result insert(loom_map *map, uint64_t first, uint64_t keys, uint64_t n)
{
    uint64_t *key = test_allocate(n * sizeof *key), *value = test_allocate(n * sizeof *value);
    loom_result result = {0};
    for (uint64_t i = 0; i < n; i++) {
        key[i] = first + i % keys;
        value[i] = i;
    }
    CHECK_OK(loom_map_insert(map, key, value, n, 0, NULL, &result, NULL));
    CHECK_OK(loom_map_verify(map, NULL));
    CHECK_EQ(result.ok + result.full, n);
    free(key);
    free(value);
    return result;
}

static uint64_t bytes_for(loom_context *context, const loom_map_config *config)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_OK(loom_map_memory_required(context, config, &memory));
    return memory.table_bytes;
}

static uint64_t capacity_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config.capacity;
}

/* A batch that does not fit as a whole leaves no trace in the heap before its pairs are refused one by one. */
TEST_ENGINES(test_multimap_shortage_stores_what_fits)
{
    loom_context *context = make_context(t);
    const loom_map_config config = config_for(1000, 1000, 0);
    loom_map *map = map_of(context, &config);
    CHECK_EQ(insert(map, 0, 501, 1002).ok, 1000);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_ENGINES(test_multimap_shortage_grows_to_the_limit)
{
    loom_context *context = make_context(t);
    loom_map_config config = config_for(2000, 100000, 2);
    config.memory_limit = bytes_for(context, &config);
    config.values = 10;
    loom_map *map = map_of(context, &config);
    uint64_t used;
    const uint64_t ok = insert(map, 0, 1, 1).ok + insert(map, 10, 1000, 150000).ok;
    CHECK_LT(95000, ok);
    CHECK_OK(loom_map_memory_used(map, &used));
    CHECK(used <= config.memory_limit);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Pairs without room for values do not make the directory larger. */
TEST_ENGINES(test_multimap_shortage_of_values_leaves_the_directory)
{
    loom_context *context = make_context(t);
    loom_map_config config = config_for(1000, 1000, 2);
    config.memory_limit = bytes_for(context, &config) + 8 * 10000;
    loom_map *map = map_of(context, &config);
    insert(map, 0, 600, 600);
    CHECK_LT(5000, insert(map, 10000, 300, 30000).ok);
    CHECK_EQ(capacity_of(map), 1000);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A heap has some room for the padding of large lists, which short lists may have taken. */
TEST_ENGINES(test_multimap_shortage_more_values_than_it_was_made_for)
{
    loom_context *context = make_context(t);
    const loom_map_config config = config_for(20000, LIST_LARGE_FROM + 1, 2);
    loom_map *map = map_of(context, &config);
    CHECK_EQ(insert(map, 1, 1, LIST_LARGE_FROM + 1).full, 0);
    CHECK_EQ(insert(map, 100, 2047, 4094).full, 0);
    CHECK_OK(loom_map_reserve(map, 200000, NULL));
    CHECK_EQ(insert(map, 1000000, 40000, 40000).full, 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A table that could not grow within its limit can after its values took less. */
TEST_ENGINES(test_multimap_shortage_ends_when_it_shrinks)
{
    loom_context *context = make_context(t);
    loom_map_config config = config_for(1000, 100000, 2);
    config.memory_limit = bytes_for(context, &config);
    loom_map *map = map_of(context, &config);
    uint64_t *keys = test_allocate(1000 * sizeof *keys);
    insert(map, 0, 1000, 50000);
    insert(map, 5000, 500, 500);
    for (uint64_t i = 0; i < 1000; i++)
        keys[i] = i;
    CHECK_OK(loom_map_erase(map, keys, 1000, NULL, NULL, NULL));
    CHECK_OK(loom_map_shrink(map, NULL));
    CHECK_EQ(insert(map, 20000, 2000, 2000).full, 0);
    free(keys);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Rows of a key that has all the values it may have need no room. */
TEST_ENGINES(test_multimap_shortage_not_for_refused_rows)
{
    loom_context *context = make_context(t);
    loom_map_config config = config_for(100, 1000, 0);
    config.most_values_per_key = 400;
    loom_map *map = map_of(context, &config);
    CHECK_EQ(insert(map, 1, 1, 500).ok, 400);
    CHECK_EQ(insert(map, 2, 1, 180).ok, 180);
    CHECK_EQ(insert(map, 3, 1, 20).ok, 20);
    CHECK_EQ(insert(map, 1, 1, 1).ok, 0);
    CHECK_EQ(insert(map, 4, 1, 20).ok, 20);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Erased space is used again, also where the table must not grow. */
TEST_ENGINES(test_multimap_shortage_erased_values_make_room)
{
    loom_context *context = make_context(t);
    const loom_map_config config = config_for(100, 1000, 0);
    loom_map *map = map_of(context, &config);
    for (uint64_t round = 0; round < 20; round++) {
        const uint64_t key = round;
        CHECK_EQ(insert(map, key, 1, 900).full, 0);
        CHECK_OK(loom_map_erase(map, &key, 1, NULL, NULL, NULL));
    }
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A handle of a kind that never counts so far could be raised beyond its bits. */
TEST(test_multimap_shortage_of_bits_in_a_handle)
{
    const loom__multi_view view = {.value_bytes = 8, .room = (uint64_t)1 << 30};
    CHECK(multi_is_sound(&view, view.room, list_make(LIST_SHORT, 0, LIST_LARGE_FROM, 0)));
    CHECK(!multi_is_sound(&view, view.room, list_make(LIST_SHORT, 0, LIST_LARGE_FROM + 1, 0)));
    CHECK(multi_is_sound(&view, view.room, list_make(LIST_LARGE, 0, LIST_LARGE_FROM + 1, 0)));
    CHECK(!multi_is_sound(&view, 100, list_make(LIST_SHORT, 100, 1, 1)));
    CHECK(!multi_is_sound(&view, 100, list_make(LIST_SHORT, 90, 9, 0)));
    CHECK(!multi_is_sound(&view, 100, list_of_one(1))); /* only values of 4 bytes */
    CHECK(!multi_is_sound(&view, 100, list_make(LIST_SHORT, 0, 1, 1) | LIST_TOUCHED));
    CHECK(!multi_is_sound(&view, 100, list_make(LIST_SHORT, 0, 0, 1)));
}

/* The temporary memory that loom_map_memory_required tells is enough for a build that allocates nothing. */
TEST_ENGINES(test_multimap_shortage_workspace)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 2);
    for (uint64_t n = 1000; n <= 100000; n *= 100) {
        const loom_map_config config = config_for(n / 3 + 1, n, 0);
        loom_map *map = map_of(context, &config);
        loom_memory memory = LOOM_MEMORY_INIT;
        CHECK_OK(loom_map_memory_required(context, &config, &memory));
        uint64_t *keys = test_allocate(n * sizeof *keys);
        for (uint64_t i = 0; i < n; i++)
            keys[i] = i / 3;
        void *workspace = aligned_alloc(64, (memory.build_bytes + 63) / 64 * 64);
        CHECK(workspace != NULL);
        CHECK_OK(loom_map_set_workspace(map, workspace, (memory.build_bytes + 63) / 64 * 64));
        const uint64_t requests = counting_requests(counter);
        CHECK_OK(loom_map_build(map, keys, keys, n, 0, NULL, NULL, NULL));
        CHECK_EQ(counting_requests(counter), requests);
        CHECK_OK(loom_map_verify(map, NULL));
        loom_map_destroy(map);
        free(workspace);
        free(keys);
    }
    loom_context_destroy(context);
    counting_destroy(counter);
}
