/* Wrong arguments of the calls that create and describe objects: each call returns a status code and sets a sentence.
 * test_api_arrays.c tests the wrong arguments of bulk calls. */
#include "harness/counting_allocator.h"
#include "harness/map_fixture.h"

#include <math.h>
#include <string.h>

/* ---- Contexts ------------------------------------------------------------------------------------------- */

static void check_context_refused(const loom_context_config *config, loom_status wanted, loom_status or_else)
{
    loom_context *const untouched = (loom_context *)(uintptr_t)0x1234;
    loom_context *context = untouched;
    CHECK_REFUSED_EITHER(loom_context_create(config, &context), wanted, or_else);
    CHECK(context == untouched || context == NULL);
}

TEST(test_api_context_create_struct_size)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    static const size_t sizes[] = {0, 1, 7, sizeof config + 1, sizeof config + 8, 4 * sizeof config, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        /* The struct is followed by memory of its own: a library that believed the size would read only this memory. */
        struct {
            loom_context_config config;
            unsigned char rest[3 * sizeof(loom_context_config)];
        } grown;
        memset(&grown, i & 1 ? 0 : 0xff, sizeof grown);
        grown.config = config;
        grown.config.struct_size = sizes[i];
        test_note("struct_size %zu", sizes[i]);
        check_context_refused(&grown.config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    }
}

static void *allocate_nothing(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    (void)user, (void)bytes, (void)alignment, (void)kind, (void)stream;
    return NULL;
}

static void release_nothing(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user, (void)memory, (void)bytes, (void)kind, (void)stream;
}

TEST(test_api_context_create_wrong_fields)
{
    const loom_context_config good = LOOM_CONTEXT_CONFIG_INIT;
    loom_context_config config = good;
    config.machine = (loom_machine)3;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config.machine = (loom_machine)-1;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config = good;
    config.simd = (loom_simd)4;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config = good;
    config.fixed_seed = 2;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config = good;
    config.lanes = 3;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config = good;
    config.threads = UINT32_MAX;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_OUT_OF_MEMORY);
    config = good;
    config.allocator.allocate = allocate_nothing;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config = good;
    config.allocator.release = release_nothing;
    check_context_refused(&config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config.allocator.allocate = allocate_nothing;
    config.allocator.release = release_nothing;
    check_context_refused(&config, LOOM_OUT_OF_MEMORY, LOOM_OUT_OF_MEMORY);
    CHECK_REFUSED(loom_context_create(&good, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_context_create(NULL, NULL), LOOM_INVALID_ARGUMENT);
}

TEST(test_api_context_describe_wrong_arguments)
{
    loom_context *context = make_context(t);
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    CHECK_REFUSED(loom_context_describe(NULL, &info), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_context_describe(context, NULL), LOOM_INVALID_ARGUMENT);
    info.struct_size = 0;
    CHECK_REFUSED(loom_context_describe(context, &info), LOOM_INVALID_ARGUMENT);
    info.struct_size = sizeof info + 8;
    CHECK_REFUSED(loom_context_describe(context, &info), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}

/* ---- Map configs ---------------------------------------------------------------------------------------- */

/* Create and memory_required refuse the same configs, for the same reason. */
static void check_config_refused(loom_context *context, const loom_map_config *config, loom_status wanted)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_REFUSED(loom_map_create(context, config, &map), wanted);
    CHECK(map == untouched);
    CHECK_REFUSED(loom_map_memory_required(context, config, &memory), wanted);
}

#define INVALID(context, config) check_config_refused(context, config, LOOM_INVALID_ARGUMENT)

TEST(test_api_map_create_struct_size)
{
    loom_context *context = make_context(t);
    static const size_t sizes[] = {0, 1, 7, sizeof(loom_map_config) + 1, sizeof(loom_map_config) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct {
            loom_map_config config;
            unsigned char rest[64];
        } grown;
        memset(&grown, i & 1 ? 0 : 0xff, sizeof grown);
        grown.config = make_config(t, 10);
        grown.config.struct_size = sizes[i];
        test_note("struct_size %zu", sizes[i]);
        INVALID(context, &grown.config);
    }
    loom_context_destroy(context);
}

/* Widths that some engine has, and the chosen one does not, are UNSUPPORTED. Widths that no table has are invalid. */
TEST(test_api_map_create_widths)
{
    loom_context *context = make_context(t);
    static const uint32_t widths[] = {0,  1,  2,   3,   5,     6,     7,           9,
                                      12, 16, 256, 257, 65536, 65537, 0x80000004u, LOOM_VARIABLE};
    static const loom_engine engines[] = {LOOM_ENGINE_OPEN, LOOM_ENGINE_PERFECT}; /* the default follows the widths */
    for (size_t i = 0; i < sizeof widths / sizeof widths[0] * 2; i++) {
        loom_map_config config = make_config(t, 10);
        const uint32_t width = widths[i / 2];
        const int is_string = width == LOOM_VARIABLE;
        const int is_key = is_string || (width >= 1 && width <= 256);
        const int is_value = is_string || (width >= 1 && width <= 65536);
        test_note("engine %d, width %u", (int)engines[i % 2], width);
        config.engine = engines[i % 2];
        config.key_bytes = width;
        check_config_refused(context, &config, is_key ? LOOM_UNSUPPORTED : LOOM_INVALID_ARGUMENT);
        if (is_key)
            CHECK(strstr(loom_last_error(), is_string ? "LOOM_VARIABLE" : "4 and 8 bytes") != NULL);
        config.key_bytes = 4;
        config.value_bytes = width;
        check_config_refused(context, &config, is_value ? LOOM_UNSUPPORTED : LOOM_INVALID_ARGUMENT);
        config.type = LOOM_TYPE_SET;
        config.key_bytes = width;
        config.value_bytes = 0;
        check_config_refused(context, &config, is_key ? LOOM_UNSUPPORTED : LOOM_INVALID_ARGUMENT);
    }
    loom_context_destroy(context);
}

TEST(test_api_map_create_loads)
{
    loom_context *context = make_context(t);
    const double wrong[] = {0.9500001, 0.951, 1.0,         1.5,    1e300,  -1e-300, -0.5,  -INFINITY,
                            +INFINITY, -NAN,  (double)NAN, 5e-324, 1e-300, 1e-9,    0.001, 0.00999};
    const double right[] = {0.0, 0.01, 0.1, 0.5, 0.8, 0.95};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        loom_map_config config = make_config(t, 1000);
        config.max_load = wrong[i];
        test_note("load %g", wrong[i]);
        INVALID(context, &config);
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        loom_map_config config = make_config(t, 1000);
        config.max_load = right[i];
        test_note("load %g", right[i]);
        loom_map *map = make_map_from(context, &config);
        loom_stats stats = map_stats(map);
        CHECK(1000.0 / (double)stats.slots <= (right[i] == 0.0 ? 0.8 : right[i]));
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

TEST(test_api_map_create_other_fields)
{
    loom_context *context = make_context(t);
    const loom_map_config good = make_config(t, 10);
    loom_map_config config = good;
    loom_map *map = NULL;
    config.engine = (loom_engine)2;
    INVALID(context, &config);
    config.engine = (loom_engine)-1;
    INVALID(context, &config);
    config = good;
    config.concurrent_reads = 2;
    INVALID(context, &config);
    config = good;
    config.type = (loom_type)4;
    INVALID(context, &config);
    config.type = (loom_type)-1;
    INVALID(context, &config);
    INVALID(context, NULL);
    INVALID(NULL, &good);
    CHECK_REFUSED(loom_map_create(context, &good, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_map_create(context, &good, &map));
    loom_map_destroy(map);
    loom_map_destroy(NULL);
    loom_context_destroy(context);
}

static int is_prime(uint32_t n)
{
    if (n < 2)
        return 0;
    for (uint32_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return 0;
    return 1;
}

/* The library accepts primes up to 3499, and 0, with which it chooses the number itself. */
TEST(test_api_map_create_buckets_per_partition)
{
    loom_context *context = make_context_with(t, 1, 1);
    for (uint32_t buckets = 1; buckets <= 3600; buckets++) {
        loom_map_config config = make_config(t, 10);
        config.buckets_per_partition = buckets;
        test_note("%u buckets in a partition", buckets);
        if (is_prime(buckets) && buckets <= 3499) {
            loom_memory memory = LOOM_MEMORY_INIT;
            CHECK_OK(loom_map_memory_required(context, &config, &memory));
            CHECK_GE(memory.table_bytes, 2 * 64 * (uint64_t)buckets);
            if (buckets < 100 || buckets > 3400) {
                loom_map *map = make_map_from(context, &config);
                CHECK_EQ(map_stats(map).buckets_per_partition, buckets);
                loom_map_destroy(map);
            }
        } else {
            INVALID(context, &config);
        }
    }
    loom_map_config config = make_config(t, 10);
    config.buckets_per_partition = UINT32_MAX;
    INVALID(context, &config);
    config.buckets_per_partition = 1000003; /* prime, but too large */
    INVALID(context, &config);
    loom_context_destroy(context);
}

/* Capacities whose bytes overflow 64 bits, or exceed the address space, are refused. They do not wrap around to small
 * tables. */
TEST(test_api_map_create_capacity_overflows)
{
    loom_context *context = make_context_with(t, 1, 1);
    for (unsigned shift = 55; shift < 64; shift++)
        for (uint32_t width = 4; width <= 8; width += 4)
            for (int64_t around = -1; around <= 1; around++) {
                loom_map_config config = make_config(t, (UINT64_C(1) << shift) + (uint64_t)around);
                loom_map *map = NULL;
                config.key_bytes = config.value_bytes = width;
                test_note("capacity 2^%u%+d, width %u", shift, (int)around, width);
                CHECK_REFUSED_EITHER(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT,
                                     LOOM_OUT_OF_MEMORY);
                CHECK(map == NULL);
            }
    loom_map_config config = make_config(t, UINT64_MAX);
    loom_map *map = NULL;
    CHECK_REFUSED_EITHER(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT, LOOM_OUT_OF_MEMORY);
    config.max_load = 1e-300;
    config.capacity = 1000;
    CHECK_REFUSED_EITHER(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT, LOOM_OUT_OF_MEMORY);
    config.max_load = 5e-324;
    config.capacity = 1;
    CHECK_REFUSED_EITHER(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT, LOOM_OUT_OF_MEMORY);
    CHECK(map == NULL);
    loom_context_destroy(context);
}

/* Tables of more than 2^31 and 2^32 keys: loom_map_memory_required computes their bytes without allocating them.
 * loom_map_create is refused on a machine with less memory. */
TEST(test_api_map_capacity_beyond_32_bits)
{
    counting_allocator *counter = counting_create();
    loom_context *context = make_counting_context(t, counter, 1);
    uint64_t last = 0;
    for (unsigned shift = 28; shift <= 38; shift++) {
        loom_map_config config = make_config(t, UINT64_C(1) << shift);
        loom_memory memory = LOOM_MEMORY_INIT;
        loom_map *map = NULL;
        config.key_bytes = config.value_bytes = 4;
        test_note("2^%u keys", shift);
        CHECK_OK(loom_map_memory_required(context, &config, &memory));
        CHECK_GE(memory.table_bytes, config.capacity * 8);
        CHECK_LE(memory.table_bytes, config.capacity * 13);
        CHECK_GT(memory.build_bytes, 0);
        CHECK_GE(memory.status_bytes, config.capacity);
        CHECK_GT(memory.table_bytes, last);
        last = memory.table_bytes;
        counting_limit(counter, 1 << 20);
        CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_OUT_OF_MEMORY);
        counting_limit(counter, 0);
        CHECK(map == NULL);
    }
    loom_context_destroy(context);
    counting_destroy(counter);
}

/* ---- Structs that the library fills in -------------------------------------------------------------------- */

TEST(test_api_map_filled_structs_wrong_arguments)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    loom_map_config config = make_config(t, 100);
    uint64_t bytes = 0;
    static const size_t wrong[] = {0, 1, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        loom_stats stats = LOOM_STATS_INIT;
        loom_memory memory = LOOM_MEMORY_INIT;
        loom_map_config got = LOOM_MAP_CONFIG_INIT;
        test_note("struct_size %zu", wrong[i]);
        stats.struct_size = memory.struct_size = got.struct_size = wrong[i];
        CHECK_REFUSED(loom_map_stats(map, &stats, NULL), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_map_memory_required(context, &config, &memory), LOOM_INVALID_ARGUMENT);
        CHECK_REFUSED(loom_map_get_config(map, &got), LOOM_INVALID_ARGUMENT);
        CHECK_EQ(stats.slots + memory.table_bytes + got.capacity, 0);
    }
    loom_stats stats = LOOM_STATS_INIT;
    CHECK_REFUSED(loom_map_stats(NULL, &stats, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_stats(map, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_memory_required(context, &config, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_memory_used(map, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_memory_used(NULL, &bytes), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_get_config(map, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_get_config(NULL, &config), LOOM_INVALID_ARGUMENT);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
