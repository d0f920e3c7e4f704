/* Golden files of multimaps, with the lists described below: the library must read them, and write the same bytes, for
 * ever. `loom_tests --write-golden-multimaps tests/data` writes them anew; tests/test_file_golden.c says when. */
#include "harness/multimap_model.h"

#include <stdio.h>
#include <stdlib.h>

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

/* Inserts the values that each key had first, or those that came late. */
static void insert_lists(loom_map *map, uint32_t key_bytes, uint32_t value_bytes, int late)
{
    batch b = make_batch_of(key_bytes, value_bytes, KEYS * KEYS);
    uint64_t n = 0;
    for (uint64_t i = 0; i < KEYS; i++)
        for (uint64_t number = late ? i : 0; number < (late ? values_of(i) : i); number++, n++)
            set_pair(&b, n, i, value_of(i, number));
    CHECK_OK(loom_map_insert(map, b.keys, b.values, n, 0, NULL, NULL, NULL));
    free_batch(&b);
}

/* A table whose lists grew: it has links, room behind values, and unused values. The outcome does not depend on
 * SIMD. */
static loom_map *make_golden_multimap(loom_context *context, loom_engine engine, uint32_t key_bytes,
                                      uint32_t value_bytes)
{
    loom_map *map = NULL;
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
    return map;
}

static loom_context *make_golden_context(loom_simd simd)
{
    loom_context *context = NULL;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = simd;
    config.threads = 1; /* threads that fill partitions side by side take places of the heap in any order */
    config.fixed_seed = 1;
    config.seed = GOLDEN_SEED;
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

TEST_MODE(write_golden_multimaps, "--write-golden-multimaps")
{
    static const uint32_t widths[][2] = {{4, 4}, {4, 8}, {8, 4}, {8, 8}, {16, 12}};
    static const loom_engine engines[] = {LOOM_ENGINE_OPEN, LOOM_ENGINE_CHAIN};
    loom_context *context = make_golden_context(LOOM_SIMD_SCALAR);
    for (size_t i = 0; i < 2 * (sizeof widths / sizeof *widths); i++) {
        const uint32_t *of = widths[i / 2];
        char path[512];
        loom_map *map = make_golden_multimap(context, engines[i % 2], of[0], of[1]);
        golden_multimap_path(path, sizeof path, argument, engines[i % 2], of[0], of[1]);
        CHECK_OK(loom_map_save(map, path, NULL));
        printf("%s\n", path);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
    return 0;
}

TEST_EACH_MULTIMAP(test_multimap_save_golden_bytes, .cpu_only = 1)
{
    char path[512];
    size_t wanted_bytes, bytes;
    golden_multimap_path(path, sizeof path, t->data, t->table->engine, t->key_bytes, t->value_bytes);
    loom_context *context = make_golden_context(t->simd);
    loom_map *map = make_golden_multimap(context, t->table->engine, t->key_bytes, t->value_bytes);
    const char *made = test_path(t, "made");
    CHECK_OK(loom_map_save(map, made, NULL));
    void *wanted = test_read_file(path, &wanted_bytes), *got = test_read_file(made, &bytes);
    CHECK_EQ(bytes, wanted_bytes);
    CHECK_BYTES(got, wanted, bytes);
    free(got);
    free(wanted);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH_MULTIMAP(test_multimap_load_golden_file)
{
    char path[512];
    uint64_t offsets[KEYS + 1], needed;
    batch b = make_batch(t, KEYS), all = make_batch(t, KEYS * KEYS);
    loom_context *context = make_multimap_context(t);
    loom_map *map;
    golden_multimap_path(path, sizeof path, t->data, t->table->engine, t->key_bytes, t->value_bytes);
    CHECK_OK(loom_map_load(context, path, &map, NULL));
    CHECK_OK(loom_map_verify(map, NULL));
    for (uint64_t i = 0; i < KEYS; i++)
        set_pair(&b, i, i, 0);
    CHECK_OK(loom_map_find_all(map, b.keys, KEYS, 0, offsets, all.values, all.n, &needed, NULL, NULL));
    for (uint64_t i = 0; i < KEYS; i++) {
        CHECK_EQ(offsets[i + 1] - offsets[i], values_of(i));
        for (uint64_t number = 0; number < values_of(i); number++)
            CHECK_EQ(batch_value(&all, offsets[i] + number), value_of(i, number));
    }
    free_batch(&b);
    free_batch(&all);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    CHECK_EQ(config.most_values_per_key, 100);
    CHECK_EQ(config.engine, t->table->engine);
    CHECK_EQ(config.first_bucket, t->table->engine == LOOM_ENGINE_CHAIN ? 3 : 0);
    CHECK_NEAR(config.bucket_growth, t->table->engine == LOOM_ENGINE_CHAIN ? 1.25 : 0, 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
