/* Threads inside one call. A batch that is long enough to be divided repeats the same keys: threads come to the same
 * slots at the same moment. */
#include "harness/map_fixture.h"

#include <stdlib.h>
#include <string.h>

/* The keys repeat after PERIOD rows. A thread takes 16,384 keys at once, and PERIOD is a multiple of this: all pieces
 * begin with the same key. */
enum { PERIOD = 1 << 14, COPIES = 4 };

/* Repeats `different` keys. The value contains the number of the copy. */
static void fill_periodic(batch *b, uint64_t salt, uint64_t different, uint64_t round)
{
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t which = i % PERIOD % different;
        set_pair(b, i, distinct_key(b->key_bytes, salt, which), which << 16 ^ round << 8 ^ i / PERIOD);
    }
}

/* Exactly one copy of each key got LOOM_OK. */
static void check_one_ok_each(const batch *b, uint64_t different)
{
    uint8_t *told = test_allocate(different);
    memset(told, 0, different);
    for (uint64_t i = 0; i < b->n; i++)
        if (b->status[i] == LOOM_OK) {
            uint64_t which = i % PERIOD % different;
            if (told[which])
                FAIL("key %llu was told OK twice", (unsigned long long)which);
            told[which] = 1;
        }
    for (uint64_t i = 0; i < different; i++)
        CHECK_EQ(told[i], 1);
    free(told);
}

/* Every key is there once, with one of the values given for it in this round. */
static void check_values(loom_map *map, const batch *b, uint64_t different)
{
    batch got = make_batch_of(b->key_bytes, b->value_bytes, different);
    memcpy(got.keys, b->keys, different * b->key_bytes);
    CHECK_EQ(checked_find(map, &got).ok, different);
    for (uint64_t i = 0; i < different; i++) {
        uint64_t value = batch_value(&got, i);
        CHECK_EQ(value >> 8, batch_value(b, i) >> 8);
        CHECK_LT(value & 255, COPIES);
    }
    free_batch(&got);
    CHECK_EQ(map_size(map), different);
    checked_verify(map);
}

TEST_EACH(test_open_parallel_equal_keys_in_step, .threads = 1, .long_tier = 1)
{
    static const uint64_t numbers[] = {PERIOD, 1000, 16};
    for (uint32_t threads = 2; threads <= 4; threads += 2) {
        loom_context *context = make_context_with(t, threads, random_u64(&t->random));
        batch b = make_batch(t, PERIOD * COPIES), kept = make_batch(t, PERIOD);
        for (uint64_t round = 0; round < test_scaled(t, 12, 3); round++) {
            uint64_t different = numbers[round % 3], salt = random_u64(&t->random);
            loom_map_config config = make_config(t, different);
            config.max_load = 0.95;
            loom_map *map = make_map_from(context, &config);
            test_note("%llu different keys, %u threads", (unsigned long long)different, threads);
            /* Inserts new keys. */
            fill_periodic(&b, salt, different, round);
            CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, different);
            check_one_ok_each(&b, different);
            check_values(map, &b, different);
            /* The value is that of the copy with LOOM_OK. */
            for (uint64_t i = 0; i < b.n; i++)
                if (b.status[i] == LOOM_OK)
                    set_pair(&kept, i % PERIOD % different, batch_key(&b, i), batch_value(&b, i));
            kept.n = different;
            check_all_found(map, &kept);
            /* Overwrites existing keys. */
            fill_periodic(&b, salt, different, round + 1);
            CHECK_EQ(checked_insert(map, &b, LOOM_OVERWRITE).exists, b.n);
            check_values(map, &b, different);
            CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).exists, b.n);
            /* Erases the keys and inserts them again. */
            CHECK_EQ(checked_erase(map, &b).ok, different);
            check_one_ok_each(&b, different);
            CHECK_EQ(map_size(map), 0);
            checked_verify(map);
            CHECK_EQ(checked_insert(map, &b, LOOM_OVERWRITE).ok, different);
            check_one_ok_each(&b, different);
            check_values(map, &b, different);
            kept.n = PERIOD;
            loom_map_destroy(map);
        }
        free_batch(&b);
        free_batch(&kept);
        loom_context_destroy(context);
    }
}

/* More keys than there is room for, from several threads at once: each partition ends exactly full, and every key with
 * LOOM_OK is stored. */
TEST_EACH(test_open_parallel_full_table, .threads = 1)
{
    loom_context *context = make_context_with(t, 4, random_u64(&t->random));
    for (uint64_t round = 0; round < test_scaled(t, 6, 2); round++) {
        loom_map *map = make_map(t, context, round & 1 ? 200 : 20);
        loom_stats stats = map_stats(map);
        batch b = make_batch(t, PERIOD * COPIES);
        fill_periodic(&b, random_u64(&t->random), PERIOD, round);
        loom_result result = checked_insert(map, &b, round & 2 ? LOOM_OVERWRITE : LOOM_KEEP);
        CHECK_EQ(result.ok, stats.slots); /* every partition is full: thousands of keys belong to each */
        CHECK_EQ(result.exists % (COPIES - 1), 0);
        CHECK_EQ(result.exists, stats.slots * (COPIES - 1));
        CHECK_EQ(map_size(map), stats.slots);
        checked_verify(map);
        batch got = copy_batch(&b);
        checked_find(map, &got);
        for (uint64_t i = 0; i < b.n; i++)
            CHECK_EQ(got.status[i] == LOOM_OK, b.status[i] != LOOM_FULL);
        free_batch(&got);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* Lookups of long batches of different keys, by all threads. Small batches, which one thread handles, give the same
 * answers. */
TEST_EACH(test_open_parallel_long_batches, .threads = 1)
{
    uint64_t n = PERIOD * COPIES + 12345;
    batch b = make_batch(t, n), absent = make_batch(t, n);
    fill_distinct(&b, 11, 0);
    fill_distinct(&absent, 11, 1 << 24);
    for (uint32_t threads = 1; threads <= 4; threads += t->quick ? 2 : 1) {
        loom_context *context = make_context_with(t, threads, random_u64(&t->random));
        loom_map *map = make_map(t, context, n);
        uint64_t one = 0, total = 0;
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
        check_contents(map, &b);
        check_none_found(map, &absent);
        CHECK_OK(loom_map_count_accesses(map, b.keys, n, &total, NULL));
        for (uint64_t i = 0, part = 0; i < n; i += 5000) { /* small batches are handled by one thread */
            uint64_t count = n - i < 5000 ? n - i : 5000;
            CHECK_OK(loom_map_count_accesses(map, (const char *)b.keys + i * b.key_bytes, count, &part, NULL));
            one += part;
        }
        CHECK_EQ(total, one);
        CHECK_EQ(checked_erase(map, &b).ok, n);
        checked_verify(map);
        CHECK_EQ(map_size(map), 0);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    free_batch(&b);
    free_batch(&absent);
}
