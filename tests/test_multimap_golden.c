/* Golden files of multimaps: written once, with the lists described below, and loaded by every later version. After a
 * change of the layout, with a new layout version: `loom_tests --write-golden-multimaps tests/data`. */
#include "harness/multimap_model.h"

#include <stdio.h>
#include <string.h>

enum { KEYS = 40, GOLDEN_SEED = 0x5eed };

/* Key i has i values, and a third of the keys one more, which came later. */
static uint64_t values_of(uint64_t i)
{
    return i + (i % 3 == 0);
}

static uint64_t value_of(uint64_t i, uint64_t number)
{
    return i * 1000003 + number;
}

static void golden_multimap_path(char *path, size_t room, const char *directory, loom_engine engine, uint32_t key_bytes,
                                 uint32_t value_bytes)
{
    CHECK_LT(snprintf(path, room, "%s/golden_%s_%u_%u.loom", directory,
                      engine == LOOM_ENGINE_CHAIN ? "chain" : "multimap", key_bytes, value_bytes),
             room);
}

static void put(void *array, uint32_t bytes, uint64_t at, uint64_t number)
{
    memcpy((char *)array + at * bytes, &number, bytes);
}

/* Inserts the values that each key had first, or those that came late. */
static void insert_lists(loom_map *map, uint32_t key_bytes, uint32_t value_bytes, int late)
{
    uint64_t keys[KEYS * KEYS], values[KEYS * KEYS], n = 0;
    for (uint64_t i = 0; i < KEYS; i++)
        for (uint64_t number = late ? i : 0; number < (late ? values_of(i) : i); number++, n++) {
            put(keys, key_bytes, n, i);
            put(values, value_bytes, n, value_of(i, number));
        }
    CHECK_OK(loom_map_insert(map, keys, values, n, 0, NULL, NULL, NULL));
}

static void write_golden_multimap(loom_context *context, loom_engine engine, uint32_t key_bytes, uint32_t value_bytes,
                                  const char *directory)
{
    char path[512];
    loom_map *map;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.capacity = KEYS;
    config.values = 2000;
    config.most_values_per_key = 100;
    config.engine = engine;
    if (engine == LOOM_ENGINE_CHAIN) {
        config.first_bucket = 3;
        config.bucket_growth = 1.25;
    }
    CHECK_OK(loom_map_create(context, &config, &map));
    insert_lists(map, key_bytes, value_bytes, 0);
    insert_lists(map, key_bytes, value_bytes, 1);
    golden_multimap_path(path, sizeof path, directory, engine, key_bytes, value_bytes);
    CHECK_OK(loom_map_save(map, path, NULL));
    printf("%s\n", path);
    loom_map_destroy(map);
}

TEST_MODE(write_golden_multimaps, "--write-golden-multimaps")
{
    loom_context *context;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.threads = 1;
    config.fixed_seed = 1;
    config.seed = GOLDEN_SEED;
    CHECK_OK(loom_context_create(&config, &context));
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
        for (uint32_t value_bytes = 4; value_bytes <= 8; value_bytes += 4) {
            write_golden_multimap(context, LOOM_ENGINE_OPEN, key_bytes, value_bytes, argument);
            write_golden_multimap(context, LOOM_ENGINE_CHAIN, key_bytes, value_bytes, argument);
        }
    loom_context_destroy(context);
    return 0;
}

TEST_EACH_MULTIMAP(test_multimap_golden)
{
    char path[512];
    uint64_t keys[KEYS], offsets[KEYS + 1], values[KEYS * KEYS], needed;
    loom_context *context = make_multimap_context(t);
    loom_map *map;
    golden_multimap_path(path, sizeof path, t->data, t->table->engine, t->key_bytes, t->value_bytes);
    CHECK_OK(loom_map_load(context, path, &map, NULL));
    CHECK_OK(loom_map_verify(map, NULL));
    for (uint64_t i = 0; i < KEYS; i++)
        put(keys, t->key_bytes, i, i);
    CHECK_OK(loom_map_find_all(map, keys, KEYS, 0, offsets, values, KEYS * KEYS, &needed, NULL, NULL));
    for (uint64_t i = 0; i < KEYS; i++) {
        CHECK_EQ(offsets[i + 1] - offsets[i], values_of(i));
        for (uint64_t number = 0; number < values_of(i); number++) {
            uint64_t value = 0;
            memcpy(&value, (char *)values + (offsets[i] + number) * t->value_bytes, t->value_bytes);
            CHECK_EQ(value, value_of(i, number));
        }
    }
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    CHECK_EQ(config.most_values_per_key, 100);
    CHECK_EQ(config.engine, t->table->engine);
    CHECK_EQ(config.first_bucket, t->table->engine == LOOM_ENGINE_CHAIN ? 3 : 0);
    CHECK_NEAR(config.bucket_growth, t->table->engine == LOOM_ENGINE_CHAIN ? 1.25 : 0, 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
