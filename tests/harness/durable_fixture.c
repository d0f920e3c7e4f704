#include "durable_fixture.h"

#include <stdlib.h>

loom_durable_config durable_config(uint32_t commit_by_itself)
{
    loom_durable_config config = LOOM_DURABLE_CONFIG_INIT;
    config.commit_by_itself = commit_by_itself;
    config.journal_bytes = LEAST_JOURNAL;
    return config;
}

loom_map_config durable_map_config(void)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.capacity = 100;
    return config;
}

loom_map *durable_open(loom_context *context, const char *path, uint32_t commit_by_itself)
{
    const loom_map_config config = durable_map_config();
    const loom_durable_config durable = durable_config(commit_by_itself);
    loom_map *map = NULL;
    CHECK_OK(loom_map_open(context, path, &config, &durable, &map));
    CHECK(map != NULL);
    return map;
}

loom_durability durability_of(loom_map *map)
{
    loom_durability told = LOOM_DURABILITY_INIT;
    CHECK_OK(loom_map_durability(map, &told));
    return told;
}

void put_keys(loom_map *map, uint64_t first, uint64_t n, uint64_t value)
{
    uint64_t *keys = test_allocate(n * sizeof *keys), *values = test_allocate(n * sizeof *values);
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = first + i;
        values[i] = value;
    }
    CHECK_OK(loom_map_insert(map, keys, values, n, LOOM_OVERWRITE, NULL, NULL, NULL));
    free(keys);
    free(values);
}

void check_keys(loom_map *map, uint64_t n, uint64_t value)
{
    uint64_t *keys = test_allocate((n + 1) * sizeof *keys), *values = test_allocate((n + 1) * sizeof *values);
    CHECK_EQ(map_size(map), n);
    for (uint64_t i = 0; i < n; i++)
        keys[i] = i;
    CHECK_OK(loom_map_find(map, keys, n, values, NULL, NULL, NULL, NULL));
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(values[i], value);
    CHECK_OK(loom_map_verify(map, NULL));
    free(keys);
    free(values);
}
