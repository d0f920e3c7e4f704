/* What only the cuda machine does with perfect tables: long batches of lookups, and builds that try several salts. */
#include "harness/cuda_driver.h"
#include "harness/file_surgery.h"
#include "harness/map_fixture.h"

#include <stdlib.h>

#include "engines/perfect/perfect_layout.h"

static loom_map *perfect_map(loom_context *context, uint64_t capacity, double load, uint32_t buckets)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.engine = LOOM_ENGINE_PERFECT;
    config.capacity = capacity;
    config.max_load = load;
    config.buckets_per_partition = buckets;
    config.growth = 0;
    return make_map_from(context, &config);
}

/* ---- Long batches ---- */

enum {
    KEYS = 100000,
    LOOKUPS = (1 << 25) + 77
}; /* batches this long keep codes in the L2 cache (cuda_perfect_find.cu) */

/* The key of lookup i. Half of the lookups find their key. */
static uint32_t sought(uint64_t i)
{
    return (uint32_t)(i % (2 * KEYS)) * 2654435761u;
}

static void check_long_find(loom_map *map, loom_context *context, const uint32_t *keys, uint32_t *values,
                            uint8_t *status, uint32_t *got_values, uint8_t *got_status)
{
    CHECK_OK(loom_map_find(map, keys, LOOKUPS, values, NULL, status, NULL, NULL));
    CHECK_OK(loom_array_copy(context, got_values, values, LOOKUPS * sizeof *got_values, NULL));
    CHECK_OK(loom_array_copy(context, got_status, status, LOOKUPS, NULL));
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        const int there = i % (2 * KEYS) < KEYS;
        CHECK_EQ(got_status[i], there ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_EQ(got_values[i], there ? ~sought(i) : 0);
    }
}

TEST(test_cuda_perfect_find_in_long_batches, .timeout_seconds = 180)
{
    need_cuda();
    static const uint32_t lanes[] = {1, 2, 4, 8};
    uint32_t *host = test_allocate(LOOKUPS * sizeof *host), *inverse = test_allocate(KEYS * sizeof *inverse);
    uint8_t *host_status = test_allocate(LOOKUPS);
    for (int i = 0; i < 4; i++) {
        loom_context *context = cuda_context_create(t, lanes[i]);
        uint32_t *keys = cuda_memory_create(CUDA_DEVICE, LOOKUPS * sizeof *keys);
        uint32_t *values = cuda_memory_create(CUDA_DEVICE, LOOKUPS * sizeof *values);
        uint8_t *status = cuda_memory_create(CUDA_DEVICE, LOOKUPS);
        loom_map *map = perfect_map(context, KEYS, 0.9, 0);
        for (uint64_t at = 0; at < LOOKUPS; at++)
            host[at] = sought(at);
        for (uint64_t at = 0; at < KEYS; at++)
            inverse[at] = ~host[at];
        CHECK_OK(loom_array_copy(context, keys, host, LOOKUPS * sizeof *host, NULL));
        CHECK_OK(loom_map_build(map, host, inverse, KEYS / 2, LOOM_KEEP, NULL, NULL, NULL));
        CHECK_OK(loom_map_contains(map, keys, LOOKUPS, NULL, status, NULL, NULL));
        CHECK_OK(loom_array_copy(context, host_status, status, LOOKUPS, NULL));
        for (uint64_t at = 0; at < LOOKUPS; at++)
            CHECK_EQ(host_status[at], at % (2 * KEYS) < KEYS / 2 ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_OK(loom_map_insert(map, host, inverse, KEYS, LOOM_KEEP, NULL, NULL, NULL)); /* codes change behind it */
        check_long_find(map, context, keys, values, status, host, host_status);
        loom_map_destroy(map);
        cuda_memory_destroy(CUDA_DEVICE, keys);
        cuda_memory_destroy(CUDA_DEVICE, values);
        cuda_memory_destroy(CUDA_DEVICE, status);
        loom_context_destroy(context);
    }
    free(host);
    free(inverse);
    free(host_status);
}

/* ---- Builds ---- */

static uint32_t partitions_with_other_salts(const test_run *t, loom_map *map)
{
    const char *path = test_path(t, "file");
    uint32_t others = 0;
    size_t bytes;
    CHECK_OK(loom_map_save(map, path, NULL));
    unsigned char *file = test_read_file(path, &bytes);
    const surgery_head header = surgery_header(file);
    const uint64_t *codes = (const uint64_t *)surgery_unit(file, bytes, 1, 0);
    CHECK(codes != NULL);
    for (uint32_t i = 0; i < header.table.partitions; i++)
        others += perfect_salt(codes[i * header.table.parameters[0]]) != 0;
    free(file);
    return others;
}

/* The partitions are so full that the first salt often fails: in about 30 of 480 partitions no codes place all keys.
 * The build then tries other salts. Insertions get the keys that the build left over and hardly ever reseed, so salts
 * other than 0 come from the build. Some keys may be refused. */
TEST(test_cuda_perfect_build_tries_other_salts)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    loom_map *map = perfect_map(context, 1500000, 0.9, 433);
    loom_result result = {0};
    batch b = make_batch_of(4, 4, map_stats(map).slots * 93 / 100);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_OK(loom_map_build(map, b.keys, b.values, b.n, LOOM_KEEP | LOOM_BY_PARTITION, NULL, &result, NULL));
    CHECK_GT(partitions_with_other_salts(t, map), 5);
    CHECK_EQ(map_size(map), result.ok);
    CHECK_EQ(result.ok + result.full, b.n);
    CHECK(result.full < b.n / 1000);
    CHECK_EQ(checked_contains(map, &b).ok, result.ok);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
