/* Batches whose keys all belong to one partition of a perfect table, far more than it holds: what is stored and what is
 * refused. On a GPU most of them are refused side by side (cuda_perfect_room.cu). */
#include "harness/map_fixture.h"

#include "core/hash.h"

#include <stdlib.h>

enum { CAPACITY = 20000, EQUAL_EVERY = 7 };

/* Different keys of partition 0, and after some of them the same key again. */
static batch make_keys_of_partition(test_run *t, loom_map *map, uint64_t n)
{
    const loom_stats stats = map_stats(map);
    const loom__seed seed = loom__seed_expand(stats.seed);
    const uint64_t salt = random_u64(&t->random);
    batch b = make_batch(t, n);
    for (uint64_t i = 0, next = 0; i < n; i++) {
        uint64_t key = i % EQUAL_EVERY == EQUAL_EVERY - 1 ? batch_key(&b, i - EQUAL_EVERY / 2) : 0;
        while (i % EQUAL_EVERY != EQUAL_EVERY - 1) {
            key = distinct_key(t->key_bytes, salt, next++);
            if (loom__hash_partition(loom__hash_key(key, t->key_bytes, seed), (uint32_t)stats.partitions) == 0)
                break;
        }
        set_pair(&b, i, key, value_for(key, t->value_bytes));
    }
    return b;
}

/* The keys that the table holds, without repetitions, or those that it refused. `contained`: whether it holds each. */
static batch keys_that_are(const batch *b, const uint8_t *contained, int there)
{
    batch some = make_batch_of(b->key_bytes, b->value_bytes, b->n);
    some.n = 0;
    for (uint64_t i = 0; i < b->n; i++)
        if (contained[i] == there && i % EQUAL_EVERY != EQUAL_EVERY - 1) {
            some.n++;
            set_pair(&some, some.n - 1, batch_key(b, i), batch_value(b, i));
        }
    return some;
}

/* A refused key is absent, and all others are there, once, with their values. Returns the keys that are there. */
static batch check_statuses(loom_map *map, const batch *b)
{
    batch copy = copy_batch(b);
    checked_contains(map, &copy);
    for (uint64_t i = 0; i < b->n; i++)
        CHECK_EQ(copy.found[i], b->status[i] != LOOM_FULL);
    batch stored = keys_that_are(b, copy.found, 1);
    check_contents(map, &stored);
    checked_verify(map);
    free_batch(&copy);
    return stored;
}

TEST_EACH_KIND(test_perfect_insert_keys_of_one_partition, .timeout_seconds = 120)
{
    loom_context *context = make_context(t);
    t->engine = LOOM_ENGINE_PERFECT;
    loom_map *map = make_map(t, context, CAPACITY);
    batch b = make_keys_of_partition(t, map, test_scaled(t, 400000, 60000));
    const uint64_t slots = map_stats(map).slots / map_stats(map).partitions;
    for (uint32_t round = 0; round < 2; round++) { /* in the second round the partition is exhausted from the start */
        const loom_result result = checked_insert(map, &b, LOOM_DIRECTLY);
        batch stored = check_statuses(map, &b);
        CHECK(stored.n <= slots && stored.n > slots / 10 * 9);
        CHECK_EQ(result.ok, round == 0 ? stored.n : 0);
        CHECK_EQ(result.ok + result.exists + result.full, b.n);
        free_batch(&stored);
    }
    if (t->value_bytes != 0) { /* groups that run side by side must not store these keys, if values lie apart */
        void *found = calloc(b.n, t->value_bytes);
        CHECK_EQ(checked_find_or_insert(map, &b, found).ok, 0);
        batch stored = check_statuses(map, &b);
        free_batch(&stored);
        free(found);
    }
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Erases about half of the stored keys, by their number or by their values. Returns how many. */
static uint64_t erase_half(test_run *t, loom_map *map, batch *stored, int by_value)
{
    const uint64_t most = cut_word(UINT64_MAX, t->value_bytes) / 2;
    const uint32_t most_4 = (uint32_t)most;
    if (by_value && t->value_bytes == 4)
        return checked_erase_if(map, LOOM_NUMBER_U32, NULL, &most_4).ok;
    if (by_value && t->value_bytes == 8)
        return checked_erase_if(map, LOOM_NUMBER_U64, NULL, &most).ok;
    stored->n /= 2;
    return checked_erase(map, stored).ok;
}

/* After many keys have left, others are stored, up to a load of 0.9. A partition that is still marked would refuse some
 * of them. */
TEST_EACH_KIND(test_perfect_insert_after_refusal, .timeout_seconds = 120)
{
    loom_context *context = make_context(t);
    t->engine = LOOM_ENGINE_PERFECT;
    loom_map *map = make_map(t, context, CAPACITY);
    batch b = make_keys_of_partition(t, map, test_scaled(t, 400000, 60000));
    const uint64_t slots = map_stats(map).slots / map_stats(map).partitions;
    for (uint32_t round = 0; round < 3; round++) {
        checked_insert(map, &b, LOOM_DIRECTLY);
        batch stored = check_statuses(map, &b);
        const uint64_t before = stored.n, gone = erase_half(t, map, &stored, round == 1);
        CHECK(gone > before / 3);
        for (uint64_t i = 0; i < b.n; i++)
            b.found[i] = b.status[i] != LOOM_FULL;
        batch refused = keys_that_are(&b, b.found, 0);
        CHECK(refused.n > gone);
        refused.n = slots * 9 / 10 - (before - gone);
        CHECK_EQ(checked_insert(map, &refused, LOOM_DIRECTLY).ok, refused.n);
        CHECK_EQ(map_size(map), before - gone + refused.n);
        checked_verify(map);
        free_batch(&refused);
        free_batch(&stored);
    }
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
