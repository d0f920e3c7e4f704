/* Tables with a memory limit: their shape, and how far they grow. */
#include "harness/map_fixture.h"

static uint64_t bytes_of(loom_context *context, const loom_map_config *config)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    CHECK_OK(loom_map_memory_required(context, config, &memory));
    return memory.table_bytes;
}

static loom_map_config config_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config;
}

static void check_refused(loom_context *context, const loom_map_config *config)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    loom_map *map = NULL;
    CHECK_REFUSED(loom_map_memory_required(context, config, &memory), LOOM_OUT_OF_MEMORY);
    CHECK_REFUSED(loom_map_create(context, config, &map), LOOM_OUT_OF_MEMORY);
    CHECK(map == NULL);
}

/* If the config leaves max_load to the library, the memory limit decides about the load. */
TEST_EACH_KIND(test_open_limit_makes_tables_fuller, .long_tier = 1, .every_engine = 1)
{
    const uint64_t n = test_scaled(t, 200000, 100000);
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, n);
    const uint64_t usual = bytes_of(context, &config);
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    for (uint64_t percent = 92; percent <= 100; percent += 4) {
        uint64_t used;
        config.memory_limit = usual * percent / 100;
        test_note("%llu %% of what it would take", (unsigned long long)percent);
        CHECK(bytes_of(context, &config) <= config.memory_limit);
        loom_map *map = make_map_from(context, &config);
        CHECK_OK(loom_map_memory_used(map, &used));
        CHECK(used <= config.memory_limit);
        CHECK_EQ(config_of(map).memory_limit, config.memory_limit);
        if (percent == 100)
            CHECK(config_of(map).max_load == 0.8);
        else
            CHECK(config_of(map).max_load > 0.8 && config_of(map).max_load <= 0.95);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
        check_all_found(map, &b);
        loom_map_destroy(map);
    }
    config.memory_limit = usual / 2; /* no load is high enough */
    check_refused(context, &config);
    config.memory_limit = 1;
    check_refused(context, &config);
    config.memory_limit = usual - 1; /* the caller's own load is not changed */
    config.max_load = 0.8;
    check_refused(context, &config);
    config.memory_limit = usual;
    CHECK_EQ(bytes_of(context, &config), usual);
    free_batch(&b);
    loom_context_destroy(context);
}

/* Moves the stored pairs to the front of the batch and drops the others. */
static void keep_stored(batch *b)
{
    uint64_t stored = 0;
    for (uint64_t i = 0; i < b->n; i++)
        if (b->status[i] == LOOM_OK)
            set_pair(b, stored++, batch_key(b, i), batch_value(b, i));
    b->n = stored;
}

/* A table grows as far as its limit allows, for any batch. Further keys are refused, and everything else stays as it
 * is. */
TEST_EACH_KIND(test_open_limit_ends_growth, .long_tier = 1, .every_engine = 1)
{
    const uint64_t n = test_scaled(t, 30000, 10000);
    for (uint32_t times = 2; times <= 8; times += 3) {
        loom_context *context = make_context(t);
        loom_map_config config = make_config(t, n);
        loom_map *clone = NULL;
        uint64_t used;
        test_note("%u times as many keys", times);
        config.growth = 2;
        config.memory_limit = bytes_of(context, &config) * 3;
        loom_map *map = make_map_from(context, &config);
        batch b = make_batch(t, times * n);
        fill_distinct(&b, random_u64(&t->random), 0);
        const loom_result result = checked_insert(map, &b, LOOM_KEEP);
        CHECK_EQ(map_size(map), result.ok);
        CHECK_OK(loom_map_memory_used(map, &used));
        CHECK(used <= config.memory_limit);
        if (times == 2) {
            CHECK_EQ(result.full, 0);
        } else {
            CHECK_GT(result.full, 0);
            CHECK(config_of(map).capacity > 2 * n && result.ok > 2 * n);
            CHECK(used > config.memory_limit * 9 / 10);
            CHECK_GT(checked_insert(map, &b, LOOM_KEEP).full, 0); /* now the table is known to be at its limit */
            CHECK_EQ(config_of(map).memory_limit, config.memory_limit);
            for (uint64_t i = 0; i < b.n; i++)
                b.status[i] = b.status[i] == LOOM_EXISTS ? LOOM_OK : b.status[i];
        }
        keep_stored(&b);
        check_contents(map, &b);
        CHECK_REFUSED(loom_map_reserve(map, 16 * n, NULL), LOOM_OUT_OF_MEMORY);
        CHECK_OK(loom_map_clone(map, &clone, NULL));
        CHECK_EQ(config_of(clone).memory_limit, config.memory_limit);
        CHECK_REFUSED(loom_map_reserve(clone, 16 * n, NULL), LOOM_OUT_OF_MEMORY);
        check_contents(clone, &b);
        loom_map_destroy(clone);
        loom_map_destroy(map);
        free_batch(&b);
        loom_context_destroy(context);
    }
}

/* A table made for no keys, with a memory limit, grows. */
TEST_EACH_KIND(test_open_limit_of_a_table_for_no_keys, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 20000), none = make_config(t, 0);
    none.growth = 2;
    none.memory_limit = bytes_of(context, &config);
    loom_map *map = make_map_from(context, &none);
    batch b = make_batch(t, 10000);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    check_contents(map, &b);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}

/* reserve succeeds as long as the limit allows it. shrink always succeeds. */
TEST_EACH_KIND(test_open_limit_of_reserve_and_shrink, .every_engine = 1)
{
    const uint64_t n = 20000;
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, n), larger = make_config(t, 2 * n);
    config.max_load = larger.max_load = 0.8;
    config.memory_limit = bytes_of(context, &larger);
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
    CHECK_OK(loom_map_reserve(map, 2 * n, NULL));
    CHECK_REFUSED(loom_map_reserve(map, 3 * n, NULL), LOOM_OUT_OF_MEMORY);
    check_contents(map, &b);
    CHECK_OK(loom_map_shrink(map, NULL));
    CHECK_EQ(config_of(map).capacity, n);
    check_contents(map, &b);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}

/* A limit is set on a loaded table, raised, and removed. */
TEST_EACH_KIND(test_open_limit_set_later, .every_engine = 1)
{
    const uint64_t n = 5000;
    loom_context *context = make_context(t);
    loom_map_config small = make_config(t, n), medium = make_config(t, 3 * n);
    loom_map *map = NULL, *made = make_map_from(context, &small);
    const char *path = test_path(t, "table.loom");
    batch b = make_batch(t, 10 * n);
    uint64_t used, grown;
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_OK(loom_map_save(made, path, NULL));
    loom_map_destroy(made);
    CHECK_OK(loom_map_load(context, path, &map, NULL));
    CHECK_EQ(config_of(map).memory_limit, 0);
    CHECK_OK(loom_map_memory_used(map, &used));

    CHECK_REFUSED(loom_map_set_memory_limit(NULL, used), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_set_memory_limit(map, used - 1), LOOM_OUT_OF_MEMORY);
    CHECK_EQ(config_of(map).memory_limit, 0);
    CHECK_OK(loom_map_set_memory_limit(map, used)); /* allows the present size and no more */
    CHECK_EQ(config_of(map).memory_limit, used);
    CHECK_GT(checked_insert(map, &b, LOOM_KEEP).full, 0);
    CHECK_OK(loom_map_memory_used(map, &grown));
    CHECK(grown <= used && config_of(map).capacity < 2 * n);
    CHECK_REFUSED(loom_map_reserve(map, 3 * n, NULL), LOOM_OUT_OF_MEMORY);

    const uint64_t limit = bytes_of(context, &medium);
    CHECK_OK(loom_map_set_memory_limit(map, limit)); /* the table tries to grow again */
    CHECK_GT(checked_insert(map, &b, LOOM_KEEP).full, 0);
    CHECK(config_of(map).capacity > 2 * n);
    CHECK_OK(loom_map_memory_used(map, &grown));
    CHECK(grown > used && grown <= limit);
    CHECK_REFUSED(loom_map_set_memory_limit(map, used), LOOM_OUT_OF_MEMORY);
    CHECK_EQ(config_of(map).memory_limit, limit);

    CHECK_OK(loom_map_set_memory_limit(map, 0));
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).full, 0);
    check_contents(map, &b);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}
