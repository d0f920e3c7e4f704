/* Calls that multimaps do not have, calls that only multimaps have, and configs that are refused. */
#include "harness/multimap_model.h"

#include <stdlib.h>
#include <string.h>

/* The calls that give a key one value, or ask for its one value, are refused. They change nothing. */
TEST_EACH_MULTIMAP(test_multimap_calls_of_maps)
{
    loom_context *context = make_multimap_context(t);
    const loom_number number = t->value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32;
    loom_map_config config = make_multimap_config(t, 100, 100);
    multimap_model m = make_multimap_model(t, context, &config);
    batch b = make_batch(t, 100);
    for (uint64_t i = 0; i < b.n; i++)
        set_pair(&b, i, i % 40, i);
    CHECK_EQ(multimap_build(&m, &b, LOOM_KEEP).ok, b.n);
    void *found = test_allocate(b.n * b.value_bytes);
    for (uint64_t n = 1; n <= b.n; n += b.n - 1) {
        static const uint32_t flags[] = {LOOM_OVERWRITE, LOOM_OVERWRITE | LOOM_IN_ORDER};
        for (int i = 0; i < 2; i++) {
            CHECK_REFUSED(loom_map_insert(m.map, b.keys, b.values, n, flags[i], b.status, NULL, NULL),
                          LOOM_UNSUPPORTED);
            CHECK_REFUSED(loom_map_build(m.map, b.keys, b.values, n, flags[i], NULL, NULL, NULL), LOOM_UNSUPPORTED);
        }
        CHECK_REFUSED(loom_map_find_or_insert(m.map, b.keys, b.values, n, found, NULL, NULL, NULL), LOOM_UNSUPPORTED);
        CHECK_REFUSED(loom_map_update(m.map, b.keys, b.values, n, NULL, NULL, NULL), LOOM_UNSUPPORTED);
        CHECK_REFUSED(loom_map_accumulate(m.map, b.keys, b.values, n, LOOM_COMBINE_ADD, number, NULL, NULL, NULL),
                      LOOM_UNSUPPORTED);
        CHECK_REFUSED(loom_map_count(m.map, b.keys, n, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    }
    multimap_compare(&m);
    static const loom_feature absent[] = {LOOM_FEATURE_FIND_OR_INSERT, LOOM_FEATURE_UPDATE, LOOM_FEATURE_ACCUMULATE,
                                          LOOM_FEATURE_MERGE};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MULTIMAP, t->engine, absent[i]), LOOM_UNSUPPORTED);
    static const loom_feature offered[] = {LOOM_FEATURE_BUILD, LOOM_FEATURE_INSERT,  LOOM_FEATURE_INSERT_IN_ORDER,
                                           LOOM_FEATURE_FIND,  LOOM_FEATURE_ERASE,   LOOM_FEATURE_RETRIEVE_ALL,
                                           LOOM_FEATURE_SAVE,  LOOM_FEATURE_CLONE,   LOOM_FEATURE_GROW,
                                           LOOM_FEATURE_LISTS, LOOM_FEATURE_ERASE_IF};
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++)
        CHECK_OK(loom_supports(context, LOOM_TYPE_MULTIMAP, t->engine, offered[i]));
    free(found);
    free_batch(&b);
    end_multimap_model(&m);
    loom_context_destroy(context);
}

/* Maps and sets have no lists. Each key counts once. */
TEST_EACH_KIND(test_open_lists_are_for_multimaps, .every_engine = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 100);
    batch b = make_batch(t, 100);
    uint64_t offsets[101], counts[100], needed = 77;
    fill_distinct(&b, 2, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 100);
    CHECK_REFUSED(loom_map_find_counts(map, b.keys, b.n, counts, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_find_all(map, b.keys, b.n, 0, offsets, NULL, 0, &needed, NULL, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_erase_pairs(map, b.keys, b.values ? b.values : b.keys, b.n, NULL, NULL, NULL),
                  LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_reserve_values(map, 1000, NULL), LOOM_UNSUPPORTED);
    CHECK_EQ(needed, 77);
    const loom_type type = t->value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    CHECK_REFUSED(loom_supports(context, type, t->engine, LOOM_FEATURE_LISTS), LOOM_UNSUPPORTED);
    CHECK_EQ(map_distinct(map), 100);
    const loom_stats stats = map_stats(map);
    CHECK_EQ(stats.distinct, 100);
    CHECK_EQ(stats.values_room | stats.values_free | stats.values_unused, 0);
    CHECK_NEAR(stats.density, 100.0 * (t->key_bytes + t->value_bytes) / (double)(stats.memory_bytes + stats.host_bytes),
               1e-9);
    check_contents(map, &b);
    CHECK_EQ(checked_erase(map, &b).ok, 100);
    CHECK_EQ(map_distinct(map), 0);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

static void check_config_refused(loom_context *context, const loom_map_config *config, loom_status wanted,
                                 loom_status or_else)
{
    loom_memory memory = LOOM_MEMORY_INIT;
    loom_map *map = NULL;
    CHECK_REFUSED_EITHER(loom_map_create(context, config, &map), wanted, or_else);
    CHECK(map == NULL);
    CHECK_REFUSED_EITHER(loom_map_memory_required(context, config, &memory), wanted, or_else);
}

/* The fields for values are 0 in other tables. */
TEST_EACH_KIND(test_open_lists_config_of_other_tables, .every_engine = 1)
{
    loom_context *context = make_context(t);
    for (int field = 0; field < 2; field++)
        for (int counter = 0; counter < (t->value_bytes ? 2 : 1); counter++) {
            loom_map_config config = make_config(t, 10);
            config.type = counter ? LOOM_TYPE_COUNTER : config.type;
            loom_map_destroy(make_map_from(context, &config));
            *(field ? &config.most_values_per_key : &config.values) = 1;
            check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
            CHECK(strstr(loom_last_error(), field ? "most_values_per_key" : "values") != NULL);
        }
    loom_context_destroy(context);
}

TEST_EACH_MULTIMAP(test_multimap_config_refused)
{
    loom_context *context = make_multimap_context(t);
    const loom_map_config good = make_multimap_config(t, 10, 10);
    loom_map_config config = good;
    config.value_bytes = 0; /* there must be values */
    check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_UNSUPPORTED);
    config = good;
    config.value_bytes = 65537;
    check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_UNSUPPORTED);
    config.value_bytes = LOOM_VARIABLE;
    check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_UNSUPPORTED);
    static const uint32_t no_keys[] = {0, 257, LOOM_VARIABLE};
    for (int i = 0; i < 3; i++) {
        config = good;
        config.key_bytes = no_keys[i];
        check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_UNSUPPORTED);
    }
    config = good;
    config.engine = LOOM_ENGINE_PERFECT;
    check_config_refused(context, &config, LOOM_UNSUPPORTED, LOOM_INVALID_ARGUMENT);
    config = good;
    config.engine = LOOM_ENGINE_BLOOM;
    check_config_refused(context, &config, LOOM_UNSUPPORTED, LOOM_INVALID_ARGUMENT);
    config = good;
    config.values = UINT64_MAX;
    check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_OUT_OF_MEMORY);
    config = good;
    config.most_values_per_key = UINT64_C(1) << 30; /* more than a key can have */
    check_config_refused(context, &config, LOOM_INVALID_ARGUMENT, LOOM_INVALID_ARGUMENT);
    config.most_values_per_key--;
    loom_map_destroy(make_map_from(context, &config));
    config = good;
    config.engine = t->table->engine;
    loom_map_destroy(make_map_from(context, &config));
    loom_context_destroy(context);
}
