/* Sizes of filters: the smallest, the borders of blocks and partitions, and impossible ones. Also rates and numbers of
 * probes. */
#include "harness/filter_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_refused(loom_context *context, const loom_filter_config *config, const char *word)
{
    loom_filter *const untouched = (loom_filter *)(uintptr_t)0x1234;
    loom_filter *filter = untouched;
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_REFUSED(loom_filter_create(context, config, &filter), LOOM_INVALID_ARGUMENT);
    CHECK(filter == untouched);
    if (strstr(loom_last_error(), word) == NULL)
        FAIL("\"%s\" does not speak of %s", loom_last_error(), word);
    CHECK_REFUSED(loom_filter_memory_required(context, config, &memory), LOOM_INVALID_ARGUMENT);
    CHECK_EQ(memory.table_bytes, 0);
}

/* A filter of any size takes keys. Unless it is tiny, it rejects nearly all other keys. */
static void use_filter(test_run *t, loom_context *context, const loom_filter_config *config, uint64_t keys,
                       uint64_t blocks)
{
    loom_filter *filter = make_filter_from(context, config);
    batch b = make_batch(t, keys);
    loom_filter_report report = filter_report(filter);
    CHECK_EQ(report.blocks, blocks);
    CHECK_EQ(report.bits_set, 0);
    CHECK_EQ(report.capacity, config->capacity);
    CHECK_EQ(report.key_bytes, config->key_bytes);
    CHECK(report.estimated_keys == 0);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_filter_contains(context, filter, &b).ok, 0); /* an empty filter finds nothing */
    checked_filter_insert(context, filter, &b, 0);
    check_all_in(filter, &b);
    CHECK_GE(filter_report(filter).bits_set, report.probes);
    loom_filter_destroy(filter);
    free_batch(&b);
}

TEST_EACH_FILTER(test_filter_create_bytes_at_borders)
{
    static const struct {
        uint64_t bytes, blocks;
    } sizes[] = {{1, 1},        {63, 1},       {64, 1},        {65, 2},        {128, 2},        {65535, 1024},
                 {65536, 1024}, {65537, 2048}, {131072, 2048}, {131073, 3072}, {1 << 20, 16384}};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int p = 0; p < FILTER_PROBES; p++)
            for (int with_capacity = 0; with_capacity < 2; with_capacity++) {
                loom_filter_config config = make_sized_config(t, sizes[i].bytes, filter_probes[p]);
                config.capacity = with_capacity ? 100 : 0;
                test_note("%llu bytes, %u probes", (unsigned long long)sizes[i].bytes, filter_probes[p]);
                use_filter(t, context, &config, 50, sizes[i].blocks);
            }
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_create_capacity_small)
{
    loom_context *context = make_context(t);
    for (uint64_t capacity = 1; capacity <= 300; capacity += capacity < 8 ? 1 : 97)
        for (int p = -1; p < FILTER_PROBES; p++) {
            loom_filter_config config = make_filter_config(t, capacity, p < 0 ? 0 : filter_probes[p]);
            loom_filter *filter = make_filter_from(context, &config);
            loom_filter_report report = filter_report(filter);
            test_note("capacity %llu, probes %u", (unsigned long long)capacity, config.probes);
            CHECK_EQ(report.capacity, capacity);
            CHECK(report.probes % 4 == 0 && report.probes >= 4 && report.probes <= 16);
            CHECK(p < 0 || report.probes == filter_probes[p]);
            CHECK(report.designed_rate <= 0.001);
            loom_filter_destroy(filter);
            use_filter(t, context, &config, capacity, report.blocks);
        }
    loom_context_destroy(context);
}

/* A filter keeps the requested rate, and is not much larger than needed. */
TEST_EACH_FILTER(test_filter_create_rates)
{
    static const double rates[] = {1e-9, 1e-6, 1e-4, 0.001, 0.01, 0.1, 0.5};
    loom_context *context = make_context(t);
    uint64_t last_blocks[FILTER_PROBES + 1] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        for (int p = FILTER_PROBES - 1; p >= -1; p--) {
            loom_filter_config config = make_filter_config(t, 10000, p < 0 ? 0 : filter_probes[p]);
            config.false_positive_rate = rates[i];
            test_note("rate %g, probes %u", rates[i], config.probes);
            loom_filter *filter = make_filter_from(context, &config);
            loom_filter_report report = filter_report(filter);
            CHECK(report.designed_rate > 0 && report.designed_rate <= rates[i]);
            CHECK_LE(report.blocks, last_blocks[p + 1]); /* a higher rate needs no more blocks */
            last_blocks[p + 1] = report.blocks;
            loom_filter_destroy(filter);
            config.false_positive_rate = 0;
            config.bytes = (report.blocks <= 1024 ? report.blocks - report.blocks / 64 - 1 : report.blocks - 1024) * 64;
            filter = make_filter_from(context, &config);
            CHECK(filter_report(filter).designed_rate > rates[i]); /* a smaller filter misses the rate */
            loom_filter_destroy(filter);
        }
    loom_context_destroy(context);
}

static uint64_t blocks_of(loom_context *context, const loom_filter_config *config)
{
    loom_filter *filter = make_filter_from(context, config);
    const uint64_t blocks = filter_report(filter).blocks;
    loom_filter_destroy(filter);
    return blocks;
}

/* Without a size the rate is 0.001. */
TEST(test_filter_create_default_rate)
{
    loom_context *context = make_context(t);
    for (uint64_t capacity = 1; capacity < 100000; capacity = capacity * 7 + 1) {
        loom_filter_config config = make_filter_config(t, capacity, 0), given = config;
        given.false_positive_rate = 0.001;
        CHECK_EQ(blocks_of(context, &config), blocks_of(context, &given));
    }
    loom_context_destroy(context);
}

/* So many bits for each key of the capacity, rounded up to blocks, above a partition to partitions. */
TEST_EACH_FILTER(test_filter_create_bits_per_key)
{
    static const struct {
        uint64_t capacity;
        double bits;
        uint64_t blocks;
    } sizes[] = {{1, 1, 1},           {512, 1, 1},       {513, 1, 2},       {1, 512, 1},         {7, 512, 7},
                 {100, 10.24, 2},     {100, 10.25, 3},   {1000, 12.5, 25},  {65536, 8, 1024},    {65537, 8, 2048},
                 {65536, 8.25, 2048}, {43690, 12, 1024}, {43691, 12, 2048}, {100000, 16.5, 4096}};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int p = -1; p < FILTER_PROBES; p++) {
            loom_filter_config config = make_filter_config(t, sizes[i].capacity, p < 0 ? 0 : filter_probes[p]);
            config.bits_per_key = sizes[i].bits;
            test_note("%llu keys, %g bits each, %u probes", (unsigned long long)sizes[i].capacity, sizes[i].bits,
                      config.probes);
            use_filter(t, context, &config, 1, sizes[i].blocks);
            /* The same size in bytes makes the same filter. */
            loom_filter_config same = config;
            same.bits_per_key = 0;
            same.bytes = sizes[i].blocks * 64;
            loom_filter *filter = make_filter_from(context, &config), *other = make_filter_from(context, &same);
            const loom_filter_report one = filter_report(filter), two = filter_report(other);
            CHECK_EQ(one.probes, two.probes);
            CHECK(one.designed_rate == two.designed_rate);
            loom_filter_destroy(filter);
            loom_filter_destroy(other);
        }
    loom_context_destroy(context);
}

/* A config with two sizes is refused. The sentence names both fields. */
TEST_EACH_FILTER(test_filter_create_two_sizes_refused)
{
    static const char *const names[] = {"false_positive_rate", "bits_per_key", "bytes"};
    static const double odd[] = {0.001, -1, (double)NAN};
    loom_context *context = make_context(t);
    for (int a = 0; a < 3; a++)
        for (int b = a + 1; b < 3; b++)
            for (int i = 0; i < 3; i++)
                for (uint64_t capacity = 0; capacity <= 100; capacity += 100) {
                    loom_filter_config config = make_filter_config(t, capacity, 0);
                    config.false_positive_rate = a == 0 ? odd[i] : 0;
                    config.bits_per_key = b == 1 || a == 1 ? 8 : 0;
                    config.bytes = b == 2 ? 4096 : 0;
                    test_note("%s and %s", names[a], names[b]);
                    check_refused(context, &config, names[a]);
                    check_refused(context, &config, names[b]);
                }
    loom_context_destroy(context);
}

/* If the config names no number of probes, the library chooses the best one. */
TEST(test_filter_create_probes_chosen)
{
    loom_context *context = make_context(t);
    for (uint64_t bits = 2; bits <= 40; bits++) {
        loom_filter_config config = make_sized_config(t, 1 << 17, 0);
        config.capacity = (UINT64_C(8) << 17) / bits;
        loom_filter *filter = make_filter_from(context, &config);
        const loom_filter_report chosen = filter_report(filter);
        loom_filter_destroy(filter);
        for (int p = 0; p < FILTER_PROBES; p++) {
            config.probes = filter_probes[p];
            filter = make_filter_from(context, &config);
            CHECK(filter_report(filter).designed_rate >= chosen.designed_rate);
            loom_filter_destroy(filter);
        }
    }
    loom_filter_config config = make_sized_config(t, 1 << 17, 0);
    loom_filter *filter = make_filter_from(context, &config);
    CHECK_EQ(filter_report(filter).probes, 8); /* the default without a capacity */
    CHECK(filter_report(filter).designed_rate == 0);
    loom_filter_destroy(filter);
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_create_refused)
{
    static const double rates[] = {-1, 0.99e-9, 0.500001, 1, 2, (double)NAN, (double)INFINITY, -(double)INFINITY};
    static const double bits[] = {0.99, -1, -16, 512.01, 1e300, (double)NAN, (double)INFINITY, -(double)INFINITY};
    static const uint32_t probes[] = {1, 2, 3, 5, 7, 9, 15, 17, 20, 32, UINT32_MAX - 3};
    static const uint32_t widths[] = {0, 257, 512, 65536, UINT32_MAX};
    loom_context *context = make_context(t);
    loom_filter_config config = make_filter_config(t, 0, 0);
    check_refused(context, &config, "capacity");
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        config = make_filter_config(t, 100, 0);
        config.false_positive_rate = rates[i];
        test_note("rate %g", rates[i]);
        check_refused(context, &config, "false_positive_rate");
    }
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        config = make_filter_config(t, 100, 0);
        config.bits_per_key = bits[i];
        test_note("%g bits", bits[i]);
        check_refused(context, &config, "bits_per_key");
    }
    config = make_filter_config(t, 0, 0);
    config.bits_per_key = 8;
    check_refused(context, &config, "capacity");
    for (int with_bytes = 0; with_bytes < 2; with_bytes++) {
        config = make_filter_config(t, 100, 0);
        config.bytes = with_bytes ? 4096 : 0;
        for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
            config.probes = probes[i];
            test_note("probes %u", probes[i]);
            check_refused(context, &config, "probes");
        }
        config.probes = 0;
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            config.key_bytes = widths[i];
            test_note("key_bytes %u", widths[i]);
            check_refused(context, &config, "key_bytes");
        }
    }
    loom_context_destroy(context);
}

TEST_EACH_FILTER(test_filter_create_absurd_sizes)
{
    static const uint64_t capacities[] = {UINT64_C(1) << 45, UINT64_C(1) << 63, UINT64_MAX};
    static const uint64_t bytes[] = {(UINT64_C(1) << 38) + 1, UINT64_C(1) << 39, UINT64_C(1) << 63, UINT64_MAX};
    loom_context *context = make_context(t);
    for (int p = -1; p < FILTER_PROBES; p++) {
        for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
            loom_filter_config config = make_filter_config(t, capacities[i], p < 0 ? 0 : filter_probes[p]);
            config.false_positive_rate = 1e-9;
            check_refused(context, &config, "blocks");
            config.false_positive_rate = 0;
            config.bits_per_key = 512;
            check_refused(context, &config, "blocks");
        }
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            loom_filter_config config = make_sized_config(t, bytes[i], p < 0 ? 0 : filter_probes[p]);
            check_refused(context, &config, "blocks");
        }
        /* The bytes decide: a huge capacity neither makes the filter larger nor overflows. */
        loom_filter_config config = make_sized_config(t, 64, p < 0 ? 0 : filter_probes[p]);
        config.capacity = UINT64_MAX;
        use_filter(t, context, &config, 3, 1);
        loom_filter *filter = make_filter_from(context, &config);
        CHECK(filter_report(filter).designed_rate == 1);
        loom_filter_destroy(filter);
    }
    /* The largest filter that is allowed. The test asks only for its memory. */
    loom_memory memory = LOOM_MEMORY_INIT;
    loom_filter_config config = make_sized_config(t, (UINT64_C(1) << 38) - 65536, 8);
    CHECK_OK(loom_filter_memory_required(context, &config, &memory));
    CHECK_GE(memory.table_bytes, config.bytes);
    CHECK_LT(memory.table_bytes, config.bytes + 65536);
    loom_context_destroy(context);
}
