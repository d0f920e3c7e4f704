/* The buckets of the chain engine: their sizes, the fields of the config that choose them, and files whose links lie.
 * */
#include "harness/file_surgery.h"
#include "harness/multimap_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static loom_map_config chain_config(uint32_t value_bytes, uint64_t first_bucket, double bucket_growth)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = LOOM_ENGINE_CHAIN;
    config.key_bytes = 8;
    config.value_bytes = value_bytes;
    config.capacity = 10;
    config.first_bucket = first_bucket;
    config.bucket_growth = bucket_growth;
    return config;
}

static void check_refused(loom_context *context, const loom_map_config *config, const char *field)
{
    loom_map *map = NULL;
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_REFUSED(loom_map_create(context, config, &map), LOOM_INVALID_ARGUMENT);
    CHECK(map == NULL);
    CHECK(strstr(loom_last_error(), field) != NULL);
    CHECK_REFUSED(loom_map_memory_required(context, config, &memory), LOOM_INVALID_ARGUMENT);
}

TEST(test_chain_buckets_config)
{
    static const double growths[] = {1, 1.1, 1.25, 2, 8};
    static const uint64_t firsts[] = {1, 2, 7, 32768};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 4; j++) {
            loom_map_config config = chain_config(8, firsts[j], growths[i]), got = LOOM_MAP_CONFIG_INIT;
            loom_map *map = make_map_from(context, &config);
            CHECK_OK(loom_map_get_config(map, &got));
            CHECK_EQ(got.engine, LOOM_ENGINE_CHAIN);
            CHECK_EQ(got.first_bucket, firsts[j]);
            CHECK_NEAR(got.bucket_growth, growths[i], 1.0 / 8192);
            loom_map_destroy(map);
        }
    static const double bad_growths[] = {0.99, 8.01, -1, INFINITY, NAN};
    for (size_t i = 0; i < 5; i++) {
        const loom_map_config config = chain_config(8, 1, bad_growths[i]);
        check_refused(context, &config, "bucket_growth");
    }
    loom_map_config config = chain_config(8, 32769, 1);
    check_refused(context, &config, "first_bucket");
    config.first_bucket = UINT64_MAX;
    check_refused(context, &config, "first_bucket");
    config = chain_config(8, 0, 0);
    config.values = UINT64_C(1) << 33; /* links do not reach so far */
    check_refused(context, &config, "chain engine");
    config = chain_config(8, 0, 0);
    config.type = LOOM_TYPE_MAP;
    check_refused(context, &config, "engine");
    for (int field = 0; field < 2; field++) { /* lists of the open engine have no buckets */
        config = chain_config(8, field ? 0 : 4, field ? 1.5 : 0);
        config.engine = LOOM_ENGINE_OPEN;
        check_refused(context, &config, "LOOM_ENGINE_CHAIN");
        config.type = LOOM_TYPE_MAP;
        check_refused(context, &config, "LOOM_ENGINE_CHAIN");
    }
    loom_context_destroy(context);
}

static uint64_t heap_used(loom_map *map)
{
    const loom_stats stats = map_stats(map);
    return stats.values_room - stats.values_free;
}

static void insert_same(loom_map *map, uint64_t key, uint64_t n)
{
    uint64_t *keys = test_allocate(n * sizeof *keys), *values = test_allocate(n * sizeof *values);
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = key;
        values[i] = i;
    }
    CHECK_OK(loom_map_insert(map, keys, values, n, 0, NULL, NULL, NULL));
    CHECK_OK(loom_map_verify(map, NULL));
    free(keys);
    free(values);
}

/* A list that grows one value at a time takes a bucket when all buckets are full, and at no other time. Each bucket is
 * as large as the config says. Each bucket except the first has a link of 8 bytes. */
TEST(test_chain_buckets_sizes)
{
    static const double growths[] = {1, 1.25, 1.5, 2, 8};
    static const uint64_t firsts[] = {1, 2, 8};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 3; j++) {
            loom_map_config config = chain_config(8, firsts[j], growths[i]);
            config.values = 4000;
            config.growth = 0;
            loom_map *map = make_map_from(context, &config);
            uint64_t used = 0, room = 0;
            insert_same(map, 1, 1); /* the table does not count as empty any more: the rest is no build */
            const uint64_t before = heap_used(map);
            for (uint64_t count = 0; count < 300; count++) {
                if (count == room) {
                    const uint64_t more = firsts[j] + (uint64_t)ceil((growths[i] - 1) * (double)count);
                    used += more + (count > 0);
                    room += more;
                }
                insert_same(map, 2, 1);
                test_note("first bucket %llu, growth %g, %llu values", (unsigned long long)firsts[j], growths[i],
                          (unsigned long long)count + 1);
                CHECK_EQ(heap_used(map) - before, used);
            }
            insert_same(map, 3, 100 + firsts[j]); /* many at once: one bucket, which is full */
            CHECK_EQ(heap_used(map) - before, used + 100 + firsts[j]);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

/* Lists cross the count from which their buckets begin at multiples, with small buckets and in small steps. */
TEST_EACH_MULTIMAP(test_multimap_buckets_of_long_lists, .long_tier = 1, .timeout_seconds = 300)
{
    static const uint64_t steps[] = {1000, 70000, 300000};
    for (uint64_t i = 0; i < test_scaled(t, 3, 1); i++)
        for (int two = 0; two < 2; two++) { /* one list, or two that grow by turns */
            loom_context *context = make_multimap_context(t);
            loom_map_config config = make_multimap_config(t, 10, 0);
            config.growth = 2;
            if (t->engine == LOOM_ENGINE_CHAIN) {
                config.first_bucket = 3;
                config.bucket_growth = two ? 1.1 : 1;
            }
            multimap_model m = make_multimap_model(t, context, &config);
            batch b = make_batch(t, steps[i]);
            for (uint64_t done = i == 0 ? (1 << 19) - 5000 : 0; done < (1 << 19) + 400000; done += steps[i]) {
                batch first = make_batch(t, done == (1 << 19) - 5000 ? done : 0);
                for (uint64_t j = 0; j < first.n; j++)
                    set_pair(&first, j, 5, random_u64(&t->random));
                for (uint64_t j = 0; j < b.n; j++)
                    set_pair(&b, j, two && j % 2 ? 6 : 5, random_u64(&t->random));
                multimap_insert(&m, &first, LOOM_KEEP);
                CHECK_EQ(multimap_insert(&m, &b, LOOM_KEEP).ok, b.n);
                free_batch(&first);
                if (i == 0 && done > (1 << 19) + 20000)
                    break;
            }
            multimap_compare(&m);
            b.n = 100;
            multimap_erase_pairs(&m, &b); /* the last values */
            multimap_save_and_load(&m, context);
            CHECK_OK(loom_map_shrink(m.map, NULL));
            multimap_compare(&m);
            free_batch(&b);
            end_multimap_model(&m);
            loom_context_destroy(context);
        }
}

/* A table of some chains of many small buckets. */
static multimap_model make_chains(test_run *t, loom_context *context)
{
    loom_map_config config = make_multimap_config(t, 20, 600);
    config.growth = 0;
    config.first_bucket = t->engine == LOOM_ENGINE_CHAIN ? 1 : 0;
    config.bucket_growth = t->engine == LOOM_ENGINE_CHAIN ? 1.25 : 0;
    multimap_model m = make_multimap_model(t, context, &config);
    batch b = make_batch(t, 6);
    for (uint64_t i = 0; i < 40; i++) {
        for (uint64_t j = 0; j < b.n; j++)
            set_pair(&b, j, random_below(&t->random, 12), random_u64(&t->random));
        multimap_insert(&m, &b, LOOM_KEEP);
    }
    free_batch(&b);
    return m;
}

/* Calls all readers, and writers that follow the links, on a table of a file that lied. */
static void use(loom_map *map, const test_run *t)
{
    uint64_t offsets[33], needed = 0;
    batch some = make_batch(t, 32), found = make_batch(t, 2000);
    for (uint64_t i = 0; i < 32; i++)
        set_pair(&some, i, i, 0);
    CHECK_OK(loom_map_verify(map, NULL));
    CHECK_OK(loom_map_find_all(map, some.keys, 32, 0, offsets, found.values, 2000, &needed, NULL, NULL));
    batch all = retrieve(map, t->key_bytes, t->value_bytes);
    CHECK_EQ(all.n, map_size(map));
    CHECK_OK(loom_map_erase_pairs(map, some.keys, found.values, 32, NULL, &(loom_result){0}, NULL));
    CHECK_OK(loom_map_erase_pairs(map, all.keys, all.values, all.n / 2, NULL, &(loom_result){0}, NULL));
    CHECK_OK(loom_map_verify(map, NULL));
    CHECK_OK(loom_map_reserve_values(map, 10000, NULL));
    CHECK_OK(loom_map_verify(map, NULL));
    free_batch(&all);
    free_batch(&some);
    free_batch(&found);
}

/* Bits of handles and links are changed, and the checksums are right. Such a file is refused, or its table is sound. */
TEST_EACH_MULTIMAP(test_multimap_file_lies, .long_tier = 1)
{
    loom_context *context = make_multimap_context(t);
    multimap_model m = make_chains(t, context);
    const char *path = test_path(t, "chains.loom");
    size_t bytes;
    uint64_t refused = 0;
    CHECK_OK(loom_map_save(m.map, path, NULL));
    unsigned char *file = test_read_file(path, &bytes);
    const uint64_t trials = test_scaled(t, 4000, 200);
    for (uint64_t i = 0; i < trials; i++) {
        loom_map *map = NULL;
        const uint32_t section = i % 2;
        const loom__file_section where = surgery_header(file).sections[section];
        unsigned char *unit = file + where.at;
        const uint64_t at = random_below(&t->random, where.bytes), bit = random_below(&t->random, 8);
        test_note("bit %llu of byte %llu of section %u", (unsigned long long)bit, (unsigned long long)at, section);
        unit[at] ^= (unsigned char)(1u << bit);
        surgery_sign(file, bytes);
        test_write_file(path, file, bytes);
        unit[at] ^= (unsigned char)(1u << bit);
        const loom_status status = loom_map_load(context, path, &map, NULL);
        if (status == LOOM_OK)
            use(map, t);
        else
            CHECK_STATUS(status, LOOM_BAD_FILE);
        refused += status != LOOM_OK;
        loom_map_destroy(map);
    }
    CHECK_GT(refused, 0);
    CHECK_LT(refused, trials); /* the checksums are right: changed values are not refused */
    free(file);
    end_multimap_model(&m);
    loom_context_destroy(context);
}
