/* Counts beyond 2^31, on a device with enough memory: one call gets more keys than a signed 32-bit number can count. */
#include "harness/cuda_driver.h"
#include "harness/filter_fixture.h"
#include "harness/map_fixture.h"

#include <stdlib.h>

enum { PIECE = 1 << 24 };

static const uint64_t many = ((uint64_t)1 << 31) + 12345;

/* Multiplies by an odd factor: different i give different keys, and consecutive keys are far apart. */
static uint32_t key_number(uint64_t i)
{
    return (uint32_t)i * 2654435761u;
}

static uint32_t value_number(uint64_t i)
{
    return key_number(i) ^ 0x5bd1e995u;
}

static loom_context *context_with_memory(test_run *t, uint64_t bytes)
{
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    CHECK_OK(loom_context_describe(context, &info));
    if (info.memory_bytes < bytes)
        test_skip("the device has %llu bytes of memory, the test wants %llu", (unsigned long long)info.memory_bytes,
                  (unsigned long long)bytes);
    return context;
}

static uint32_t *numbers_on_device(loom_context *context, uint32_t (*number)(uint64_t))
{
    uint32_t *device = cuda_memory_create(CUDA_DEVICE, many * sizeof *device);
    uint32_t *piece = test_allocate(PIECE * sizeof *piece);
    for (uint64_t first = 0; first < many; first += PIECE) {
        uint64_t count = many - first < PIECE ? many - first : PIECE;
        for (uint64_t i = 0; i < count; i++)
            piece[i] = number(first + i);
        CHECK_OK(loom_array_copy(context, device + first, piece, count * sizeof *piece, NULL));
    }
    free(piece);
    return device;
}

static void check_numbers(loom_context *context, const uint32_t *device, uint32_t (*number)(uint64_t))
{
    uint32_t *piece = test_allocate(PIECE * sizeof *piece);
    for (uint64_t first = 0; first < many; first += PIECE) {
        uint64_t count = many - first < PIECE ? many - first : PIECE;
        CHECK_OK(loom_array_copy(context, piece, device + first, count * sizeof *piece, NULL));
        for (uint64_t i = 0; i < count; i++)
            CHECK_EQ(piece[i], number(first + i));
    }
    free(piece);
}

/* Builds by partition in two slices and in one, inserts the same keys again by partition and directly, then finds all
 * keys and erases all but 7, each in one call. */
TEST(test_cuda_map_of_more_than_2_31_keys, .timeout_seconds = 300)
{
    loom_context *context = context_with_memory(t, (uint64_t)100 << 30);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = many;
    loom_map *map = make_map_from(context, &config);
    uint32_t *keys = numbers_on_device(context, key_number), *values = numbers_on_device(context, value_number);
    cuda_set_slice(context, ((uint64_t)1 << 30) + (1 << 20));
    CHECK_OK(loom_map_build(map, keys, values, many, LOOM_BY_PARTITION, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), many);
    cuda_set_slice(context, 0);
    CHECK_OK(loom_map_build(map, keys, values, many, LOOM_BY_PARTITION, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), many);
    CHECK_OK(loom_map_insert(map, keys, values, many, LOOM_KEEP | LOOM_BY_PARTITION, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), many);
    CHECK_OK(loom_map_insert(map, keys, values, many, LOOM_KEEP | LOOM_DIRECTLY, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), many);
    cuda_memory_destroy(CUDA_DEVICE, values);
    values = cuda_memory_create(CUDA_DEVICE, many * sizeof *values);
    CHECK_OK(loom_map_find(map, keys, many, values, NULL, NULL, NULL, NULL));
    check_numbers(context, values, value_number);
    CHECK_OK(loom_map_erase(map, keys, many - 7, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), 7);
    cuda_memory_destroy(CUDA_DEVICE, keys);
    cuda_memory_destroy(CUDA_DEVICE, values);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST(test_cuda_perfect_map_of_more_than_2_31_keys, .timeout_seconds = 300)
{
    loom_context *context = context_with_memory(t, (uint64_t)100 << 30);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.engine = LOOM_ENGINE_PERFECT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = many;
    loom_map *map = make_map_from(context, &config);
    uint32_t *keys = numbers_on_device(context, key_number), *values = numbers_on_device(context, value_number);
    CHECK_OK(loom_map_build(map, keys, values, many, LOOM_BY_PARTITION, NULL, NULL, NULL));
    CHECK_EQ(map_size(map), many);
    cuda_memory_destroy(CUDA_DEVICE, values);
    values = cuda_memory_create(CUDA_DEVICE, many * sizeof *values);
    CHECK_OK(loom_map_find(map, keys, many, values, NULL, NULL, NULL, NULL));
    check_numbers(context, values, value_number);
    cuda_memory_destroy(CUDA_DEVICE, keys);
    cuda_memory_destroy(CUDA_DEVICE, values);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Inserts the keys by partition and directly. All keys are found, and the estimate from the bits is right within 1
 * %. */
TEST(test_cuda_filter_of_more_than_2_31_keys, .timeout_seconds = 300)
{
    loom_context *context = context_with_memory(t, (uint64_t)40 << 30);
    static const uint32_t ways[] = {LOOM_BY_PARTITION, LOOM_DIRECTLY};
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    config.key_bytes = 4;
    config.capacity = many;
    config.false_positive_rate = 0.01;
    uint32_t *keys = numbers_on_device(context, key_number);
    for (uint32_t way = 0; way < 2; way++) {
        loom_filter *filter = make_filter_from(context, &config);
        loom_filter_report report = LOOM_FILTER_REPORT_INIT;
        loom_result *result = cuda_memory_create(CUDA_PINNED, sizeof *result);
        CHECK_OK(loom_filter_insert(filter, keys, many, ways[way], NULL, NULL, NULL));
        CHECK_OK(loom_filter_contains(filter, keys, many, NULL, result, NULL));
        CHECK_OK(loom_filter_stats(filter, &report, NULL)); /* waits */
        CHECK_EQ(result->ok, many);
        CHECK(report.estimated_keys > 0.99 * (double)many && report.estimated_keys < 1.01 * (double)many);
        cuda_memory_destroy(CUDA_PINNED, result);
        loom_filter_destroy(filter);
    }
    cuda_memory_destroy(CUDA_DEVICE, keys);
    loom_context_destroy(context);
}
