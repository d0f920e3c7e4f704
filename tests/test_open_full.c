/* Full partitions: new keys are refused without reading the whole partition, and only while it is full. */
#include "harness/map_fixture.h"

#include <stdlib.h>

/* Inserts batches until every slot is taken. Returns the number of slots. */
static uint64_t fill_up(test_run *t, loom_map *map, uint64_t salt, uint64_t batch_size)
{
    uint64_t slots = map_stats(map).slots;
    for (uint64_t first = 0; map_size(map) < slots; first += batch_size) {
        batch b = make_batch(t, batch_size);
        fill_distinct(&b, salt, first);
        checked_insert(map, &b, LOOM_KEEP);
        free_batch(&b);
    }
    return slots;
}

TEST_EACH_KIND(test_open_insert_full_partition_marked_then_freed)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 2000);
    uint64_t salt = random_u64(&t->random), slots = fill_up(t, map, salt, 1000);
    batch more = make_batch(t, 500), all = retrieve(map, t->key_bytes, t->value_bytes);
    CHECK_EQ(all.n, slots);
    fill_distinct(&more, salt + 1, 0);
    loom_result refused = checked_insert(map, &more, LOOM_KEEP);
    CHECK_EQ(refused.full + refused.exists, 500); /* 4-byte keys may already exist by chance */
    /* Each freed slot takes exactly one key, although its partition was marked full. */
    for (uint64_t i = 0; i < 200; i++) {
        batch one = make_batch(t, 1);
        set_pair(&one, 0, batch_key(&all, i), batch_value(&all, i));
        CHECK_EQ(checked_erase(map, &one).ok, 1);
        CHECK_EQ(checked_insert(map, &one, LOOM_KEEP).ok, 1);
        free_batch(&one);
    }
    CHECK_EQ(map_size(map), slots);
    /* Existing keys of a marked partition can be overwritten, wherever they lie on their probe sequence. */
    CHECK_EQ(checked_insert(map, &all, LOOM_OVERWRITE).exists, slots);
    check_contents(map, &all);
    /* Clones and cleared tables have the marks that their contents require. */
    loom_map *clone = NULL;
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    CHECK_EQ(checked_erase(clone, &all).ok, slots);
    CHECK_EQ(checked_insert(clone, &all, LOOM_KEEP).ok, slots);
    loom_map_destroy(clone);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    CHECK_EQ(checked_insert(map, &all, LOOM_KEEP).ok, slots);
    checked_verify(map);
    free_batch(&all);
    free_batch(&more);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* If each refusal visited every bucket of the partition, they would take minutes, and the time-out would end the test.
 * The time-out measures nothing else. */
TEST(test_open_insert_many_refused, .timeout_seconds = 30)
{
    loom_context *context = make_context_with(t, 1, random_u64(&t->random));
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = 30000;
    config.growth = 0;
    loom_map *map = make_map_from(context, &config);
    uint64_t n = test_scaled(t, 3000000, 300000);
    batch b = make_batch_of(4, 4, n);
    fill_distinct(&b, random_u64(&t->random), 0);
    loom_result result = checked_insert(map, &b, LOOM_KEEP);
    CHECK_EQ(result.ok + result.full, n);
    CHECK_EQ(map_size(map), map_stats(map).slots);
    checked_verify(map);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A table with the smallest max_load can grow. Smaller loads are refused for any capacity. */
TEST_EACH_KIND(test_open_create_tiny_max_load, .every_engine = 1)
{
    static const double loads[] = {0.00999, 1e-3, 1e-9, 1e-100, 1e-300, 1e-308, 5e-324};
    static const uint64_t capacities[] = {0, 1, 15, 1000, UINT64_MAX};
    loom_context *context = make_context(t);
    loom_map_config config = make_config(t, 0);
    loom_memory memory = LOOM_MEMORY_INIT;
    loom_map *map = NULL;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        for (size_t j = 0; j < sizeof capacities / sizeof *capacities; j++) {
            config.capacity = capacities[j];
            config.max_load = loads[i];
            test_note("max_load %g, capacity %llu", loads[i], (unsigned long long)capacities[j]);
            CHECK_REFUSED(loom_map_memory_required(context, &config, &memory), LOOM_INVALID_ARGUMENT);
            CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
        }
    config.capacity = 0;
    config.max_load = 0.01;
    config.growth = 2;
    map = make_map_from(context, &config);
    batch b = make_batch(t, 3000);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    CHECK_GE(map_stats(map).slots, 100 * b.n);
    check_contents(map, &b);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_retrieve_all_no_room_at_all)
{
    loom_context *context = make_context(t);
    loom_map *map = make_map(t, context, 10);
    batch b = make_batch(t, 10);
    uint64_t count = 0;
    fill_distinct(&b, 3, 0);
    CHECK_OK(loom_map_retrieve_all(map, b.keys, b.values, 0, &count, NULL, NULL));
    checked_insert(map, &b, LOOM_KEEP);
    CHECK_REFUSED(loom_map_retrieve_all(map, b.keys, b.values, 0, &count, NULL, NULL), LOOM_TOO_SMALL);
    CHECK_EQ(count, 10);
    CHECK_OK(loom_map_retrieve_all(map, NULL, NULL, 0, &count, NULL, NULL));
    CHECK_EQ(count, 10);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Several threads insert few keys many times into tables that become full meanwhile. A full partition stays full for
 * the rest of the call. The rows of a key get one LOOM_OK and otherwise LOOM_EXISTS, or all of them get LOOM_FULL. */
TEST_EACH_KIND(test_open_insert_overfull_equal_keys_in_parallel, .threads = 1)
{
    enum { ENTRIES = 1 << 16, KEYS = 64 };
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    uint64_t rounds = test_scaled(t, 40, 5);
    for (uint64_t round = 0; round < rounds; round++) {
        loom_map *map = make_map(t, context, 1 + random_below(&t->random, 30));
        batch b = make_batch(t, ENTRIES);
        uint64_t salt = random_u64(&t->random), counts[KEYS][4] = {{0}};
        uint8_t *which = test_allocate(ENTRIES);
        for (uint64_t i = 0; i < ENTRIES; i++) {
            /* Every range of 16,384 entries that a thread draws begins with the same keys. */
            which[i] = (uint8_t)(i % 16384 < KEYS ? i % 16384 : random_below(&t->random, KEYS));
            set_pair(&b, i, distinct_key(t->key_bytes, salt, which[i]), i);
        }
        checked_insert(map, &b, round % 2 ? LOOM_OVERWRITE : LOOM_KEEP);
        for (uint64_t i = 0; i < ENTRIES; i++)
            counts[which[i]][b.status[i] & 3]++;
        for (int key = 0; key < KEYS; key++) {
            test_note("round %llu, key %d: %llu OK, %llu EXISTS, %llu FULL", (unsigned long long)round, key,
                      (unsigned long long)counts[key][LOOM_OK], (unsigned long long)counts[key][LOOM_EXISTS],
                      (unsigned long long)counts[key][LOOM_FULL]);
            CHECK_LE(counts[key][LOOM_OK], 1);
            CHECK_EQ(counts[key][counts[key][LOOM_OK] ? LOOM_FULL : LOOM_EXISTS], 0);
        }
        checked_verify(map);
        free(which);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}
