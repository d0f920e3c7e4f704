/* All pairs at once and in chunks; clones. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

static model make_filled(test_run *t, loom_context *context, uint64_t capacity, uint64_t keys)
{
    model m = make_model(t, make_map(t, context, capacity), capacity);
    batch b = make_batch(t, keys);
    fill_distinct(&b, random_u64(&t->random), 0);
    model_insert(&m, &b, LOOM_KEEP);
    free_batch(&b);
    return m;
}

TEST_EACH(test_open_retrieve_all_sizes)
{
    static const uint64_t sizes[] = {0, 1, 2, 7, 8, 100, 1000, 30000};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        model m = make_filled(t, context, sizes[i] + 10, sizes[i]);
        test_note("%llu keys", (unsigned long long)sizes[i]);
        model_compare(&m);
        loom_map_destroy(m.map);
        free_model(&m);
    }
    loom_context_destroy(context);
}

/* More room than pairs: the rest of the arrays is left alone. Values may be left out. */
TEST_EACH(test_open_retrieve_all_room_and_optional_values)
{
    loom_context *context = make_context(t);
    uint64_t n = 500, room = 800, count = 0;
    model m = make_filled(t, context, n, n);
    batch all = make_batch(t, room), keys = make_batch(t, room);
    loom_result result;
    memset(all.keys, 0xab, room * all.key_bytes);
    memset(all.values, 0xab, room * all.value_bytes);
    memset(&result, 0xee, sizeof result);
    CHECK_OK(loom_map_retrieve_all(m.map, all.keys, all.values, room, &count, &result, NULL));
    CHECK_EQ(count, n);
    CHECK_EQ(result.status, LOOM_OK);
    uint64_t untouched = all.key_bytes == 4 ? UINT64_C(0xabababab) : UINT64_C(0xabababababababab);
    for (uint64_t i = n; i < room; i++)
        CHECK_EQ(batch_key(&all, i), untouched);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t wanted = 0;
        CHECK(reference_get(m.reference, batch_key(&all, i), &wanted));
        CHECK_EQ(batch_value(&all, i), wanted);
    }
    count = 0;
    CHECK_OK(loom_map_retrieve_all(m.map, keys.keys, NULL, n, &count, NULL, NULL));
    CHECK_EQ(count, n);
    CHECK_BYTES(keys.keys, all.keys, n * keys.key_bytes); /* the table did not change, so neither does the order */
    free_batch(&all);
    free_batch(&keys);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

TEST_EACH(test_open_retrieve_all_too_small)
{
    loom_context *context = make_context(t);
    uint64_t n = 300;
    model m = make_filled(t, context, n, n);
    static const uint64_t rooms[] = {1, 2, 150, 298, 299};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        batch all = make_batch(t, n), same = make_batch(t, n);
        uint64_t count = 0;
        loom_result result;
        test_note("room for %llu", (unsigned long long)rooms[i]);
        CHECK_REFUSED(loom_map_retrieve_all(m.map, all.keys, all.values, rooms[i], &count, NULL, NULL), LOOM_TOO_SMALL);
        CHECK_EQ(count, n);
        count = 0;
        CHECK_REFUSED(loom_map_retrieve_all(m.map, all.keys, NULL, rooms[i], &count, NULL, NULL), LOOM_TOO_SMALL);
        CHECK_EQ(count, n);
        /* With a result the outcome may be in the result, as for other bulk calls. */
        memset(&result, 0, sizeof result);
        loom_status status = loom_map_retrieve_all(m.map, all.keys, all.values, rooms[i], &count, &result, NULL);
        CHECK(status == LOOM_TOO_SMALL || (status == LOOM_OK && result.status == LOOM_TOO_SMALL));
        CHECK_BYTES(all.keys, same.keys, n * all.key_bytes); /* nothing was written */
        CHECK_BYTES(all.values, same.values, n * all.value_bytes);
        free_batch(&all);
        free_batch(&same);
    }
    model_compare(&m);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* A table of many buckets, so that retrieving proceeds in several stretches; few keys, so that it is quick. */
TEST_EACH(test_open_retrieve_all_many_buckets)
{
    loom_context *context = make_context(t);
    loom_map *probe = make_map(t, context, 1);
    uint64_t capacity = 120000 * map_stats(probe).slots_per_bucket;
    loom_map_destroy(probe);
    model m = make_filled(t, context, capacity, 20000);
    CHECK_GT(map_stats(m.map).slots / map_stats(m.map).slots_per_bucket, 140000);
    model_compare(&m);
    model_compare_cursor(&m, 6000);
    if (!t->quick) {
        model_compare_cursor(&m, 100);
        model_compare_cursor(&m, 20000);
        model_compare_cursor(&m, 25000);
    }
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* ---- Cursors -------------------------------------------------------------------------------------------- */

TEST_EACH(test_open_cursor_chunk_sizes)
{
    loom_context *context = make_context(t);
    static const uint64_t sizes[] = {0, 1, 6, 7, 8, 50, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        model m = make_filled(t, context, sizes[i] + 3, sizes[i]);
        static const uint64_t rooms[] = {1, 2, 7, 64, 999, 1000, 1001, 100000};
        for (size_t r = 0; r < sizeof rooms / sizeof rooms[0]; r++) {
            test_note("%llu keys in chunks of %llu", (unsigned long long)sizes[i], (unsigned long long)rooms[r]);
            model_compare_cursor(&m, rooms[r]);
        }
        loom_map_destroy(m.map);
        free_model(&m);
    }
    model m = make_filled(t, context, 50000, 50000);
    model_compare_cursor(&m, 777);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* Chunks of changing length, without values, two cursors side by side, reads in between. */
TEST_EACH(test_open_cursor_mixed_use)
{
    loom_context *context = make_context(t);
    uint64_t n = 2000, done[2] = {0, 0}, got = 0, sum[2] = {0, 0}, wanted = 0, position = 0, key, value;
    model m = make_filled(t, context, n, n);
    loom_cursor *cursors[2];
    batch chunk = make_batch(t, 100), probe = make_batch(t, 10);
    fill_distinct(&probe, 1, 0);
    while (reference_next(m.reference, &position, &key, &value))
        wanted += mix_u64(key);
    CHECK_OK(loom_map_cursor_open(m.map, &cursors[0], NULL, NULL));
    CHECK_OK(loom_map_cursor_open(m.map, &cursors[1], NULL, NULL));
    int ended[2] = {0, 0};
    while (!ended[0] || !ended[1]) {
        int c = (int)(random_u64(&t->random) & 1);
        uint64_t room = 1 + random_below(&t->random, 100);
        CHECK_OK(loom_cursor_next(cursors[c], chunk.keys, c ? NULL : chunk.values, room, &got, NULL));
        CHECK_LE(got, room);
        for (uint64_t i = 0; i < got; i++) {
            sum[c] += mix_u64(batch_key(&chunk, i));
            if (!c) {
                CHECK(reference_get(m.reference, batch_key(&chunk, i), &value));
                CHECK_EQ(batch_value(&chunk, i), value);
            }
        }
        done[c] += got;
        CHECK_LE(done[c], n);
        ended[c] |= got == 0;
        /* Readers do not disturb it. */
        model_find(&m, &probe);
        map_stats(m.map);
        checked_verify(m.map);
    }
    for (int c = 0; c < 2; c++) {
        CHECK_EQ(done[c], n);
        CHECK_EQ(sum[c], wanted);
        loom_cursor_close(cursors[c]);
    }
    free_batch(&chunk);
    free_batch(&probe);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* A table that was written tells so, whichever call wrote it, and the cursor stays so. */
TEST_EACH(test_open_cursor_changed)
{
    loom_context *context = make_context(t);
    for (int writer = 0; writer < 9; writer++) {
        model m = make_filled(t, context, 200, 100);
        loom_cursor *cursor = NULL;
        uint64_t got = 0;
        batch chunk = make_batch(t, 10), new = make_batch(t, 5);
        fill_distinct(&new, 0x1234567, 1 << 20);
        CHECK_OK(loom_map_cursor_open(m.map, &cursor, NULL, NULL));
        if (writer & 1) { /* also before the first chunk */
            CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, 10, &got, NULL));
            CHECK_GT(got, 0);
        }
        test_note("writer %d", writer);
        switch (writer) {
        case 0:
            model_insert(&m, &new, LOOM_KEEP);
            break;
        case 1: { /* a key that is there */
            batch all = retrieve(m.map, t->key_bytes, t->value_bytes);
            all.n = 1;
            model_erase(&m, &all);
            free_batch(&all);
            break;
        }
        case 2:
            model_clear(&m);
            break;
        case 3:
            model_build(&m, &new, LOOM_KEEP);
            break;
        case 4: { /* overwriting changes values, so it is a change */
            batch all = retrieve(m.map, t->key_bytes, t->value_bytes);
            set_word(all.values, all.value_bytes, 0, 77);
            model_insert(&m, &all, LOOM_OVERWRITE);
            free_batch(&all);
            break;
        }
        case 5:
            model_insert(&m, &new, LOOM_KEEP | LOOM_IN_ORDER);
            break;
        case 6:
            model_find_or_insert(&m, &new);
            break;
        case 7:
            model_update(&m, &new);
            break;
        case 8:
            model_accumulate(&m, &new, LOOM_COMBINE_MAX, 1);
            break;
        }
        for (int again = 0; again < 3; again++)
            CHECK_REFUSED(loom_cursor_next(cursor, chunk.keys, chunk.values, 10, &got, NULL), LOOM_CHANGED);
        loom_cursor_close(cursor);
        model_compare_cursor(&m, 9); /* another one works */
        free_batch(&chunk);
        free_batch(&new);
        loom_map_destroy(m.map);
        free_model(&m);
    }
    loom_context_destroy(context);
}

/* ---- Clones --------------------------------------------------------------------------------------------- */

TEST_EACH(test_open_clone_is_equal_and_independent)
{
    loom_context *context = make_context(t);
    static const uint64_t sizes[] = {0, 1, 500, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t n = sizes[i];
        model m = make_filled(t, context, n + 100, n);
        model twin = make_model(t, NULL, n + 100);
        CHECK_OK(loom_map_clone(m.map, &twin.map, NULL));
        CHECK(twin.map != NULL && twin.map != m.map);
        reference_destroy(twin.reference);
        twin.reference = reference_copy(m.reference);
        model_compare(&twin);
        /* same shape and seed, so the same order */
        batch a = retrieve(m.map, t->key_bytes, t->value_bytes), b = retrieve(twin.map, t->key_bytes, t->value_bytes);
        CHECK_BYTES(a.keys, b.keys, a.n * a.key_bytes);
        loom_stats x = map_stats(m.map), y = map_stats(twin.map);
        CHECK_EQ(x.slots, y.slots);
        CHECK_EQ(x.partitions, y.partitions);
        CHECK_EQ(x.capacity, y.capacity);
        CHECK_EQ(x.seed, y.seed);
        CHECK_EQ(x.displaced, y.displaced);
        CHECK_EQ(x.memory_bytes, y.memory_bytes);
        /* What is done to one is not seen in the other. */
        batch other = make_batch(t, 100);
        fill_distinct(&other, 99, 1 << 25);
        model_insert(&twin, &other, LOOM_KEEP);
        model_find(&m, &other);
        model_erase(&m, &a);
        CHECK_EQ(map_size(m.map), 0);
        model_compare(&twin);
        model_insert(&m, &other, LOOM_OVERWRITE);
        model_clear(&twin);
        model_compare(&m);
        /* The clone outlives the original. */
        loom_map_destroy(m.map);
        model_insert(&twin, &a, LOOM_KEEP);
        model_compare(&twin);
        loom_map_destroy(twin.map);
        free_batch(&a);
        free_batch(&b);
        free_batch(&other);
        free_model(&m);
        free_model(&twin);
    }
    loom_context_destroy(context);
}
