/* Retrieves all pairs: at once, in chunks, and by visits. Also clones. */
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <pthread.h>
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

TEST_EACH_KIND(test_open_retrieve_all_sizes, .every_engine = 1)
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

/* With more room than pairs, the rest of the arrays is not written. Values are optional. */
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

TEST_EACH_KIND(test_open_retrieve_all_too_small)
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
        /* With a result, the outcome may be in the result, as for other bulk calls. */
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

/* A table of many buckets is retrieved in several stretches. It has few keys, to be quick. */
TEST_EACH_KIND(test_open_retrieve_all_many_buckets, .threads = 1)
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

TEST_EACH_KIND(test_open_cursor_chunk_sizes, .every_engine = 1)
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

/* Chunks of varying length, without values, with two cursors at the same time and lookups in between. */
TEST_EACH_KIND(test_open_cursor_mixed_use)
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
        /* Calls that read do not disturb a cursor. */
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

/* After any call that writes to the table, its cursors return LOOM_CHANGED, now and later. */
TEST_EACH_KIND(test_open_cursor_changed)
{
    loom_context *context = make_context(t);
    for (int writer = 0; writer < (t->value_bytes ? 10 : 6); writer++) { /* the last calls are not for sets */
        model m = make_filled(t, context, 200, 100);
        loom_cursor *cursor = NULL;
        uint64_t got = 0;
        batch chunk = make_batch(t, 10), new = make_batch(t, 5);
        fill_distinct(&new, 0x1234567, 1 << 20);
        CHECK_OK(loom_map_cursor_open(m.map, &cursor, NULL, NULL));
        if (writer & 1) { /* half of the writes come before the first chunk */
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
        case 9:
            model_count(&m, &new);
            break;
        }
        for (int again = 0; again < 3; again++)
            CHECK_REFUSED(loom_cursor_next(cursor, chunk.keys, chunk.values, 10, &got, NULL), LOOM_CHANGED);
        loom_cursor_close(cursor);
        model_compare_cursor(&m, 9); /* a new cursor works */
        free_batch(&chunk);
        free_batch(&new);
        loom_map_destroy(m.map);
        free_model(&m);
    }
    loom_context_destroy(context);
}

/* ---- Visits --------------------------------------------------------------------------------------------- */

/* What a visitor counts and does. */
typedef struct visitor {
    model *m;
    reference_map *seen;
    pthread_t thread;
    uint64_t calls, pairs;
    uint64_t stop_at;  /* returns `answer` from this call on; 0: never */
    uint64_t write_at; /* writes in this call; 0: never */
    int answer, writer, depth;
} visitor;

static visitor make_visitor(model *m)
{
    return (visitor){.m = m, .seen = reference_create(), .thread = pthread_self()};
}

/* A write from within a visit. */
static void write_while_visiting(visitor *v, const void *keys, const void *values)
{
    loom_map *map = v->m->map;
    batch new = make_batch(v->m->t, 1);
    fill_distinct(&new, 0x1234567, 1 << 20);
    switch (v->writer) {
    case 0:
        CHECK_OK(loom_map_insert(map, new.keys, new.values, 1, LOOM_KEEP, NULL, NULL, NULL));
        break;
    case 1: /* an existing key: nothing changes, but the cursor cannot know */
        CHECK_OK(loom_map_insert(map, keys, values, 1, LOOM_KEEP, NULL, NULL, NULL));
        break;
    case 2:
        CHECK_OK(loom_map_erase(map, keys, 1, NULL, NULL, NULL));
        break;
    case 3:
        CHECK_OK(loom_map_clear(map, NULL, NULL));
        break;
    case 4:
        CHECK_OK(loom_map_build(map, new.keys, new.values, 1, LOOM_KEEP, NULL, NULL, NULL));
        break;
    case 5:
        CHECK_OK(loom_map_count(map, keys, 1, NULL, NULL, NULL));
        break;
    }
    free_batch(&new);
}

/* Every pair is in the reference and is visited once, on the calling thread. Sets have no values. */
static int visit(void *user, const void *keys, const void *values, uint64_t n)
{
    visitor *v = user;
    uint32_t key_bytes = v->m->key_bytes, value_bytes = v->m->value_bytes;
    CHECK(pthread_equal(pthread_self(), v->thread));
    CHECK_GT(n, 0);
    CHECK(keys != NULL);
    CHECK((values == NULL) == (value_bytes == 0));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t wanted = 0, key = get_word(keys, key_bytes, i);
        if (!reference_get(v->m->reference, key, &wanted))
            FAIL("key 0x%llx is visited but was never stored", (unsigned long long)key);
        CHECK_EQ(get_word(values, value_bytes, i), wanted);
        if (!reference_put(v->seen, key, 0))
            FAIL("key 0x%llx is visited twice", (unsigned long long)key);
    }
    v->pairs += n;
    v->calls++;
    if (v->calls == v->write_at)
        write_while_visiting(v, keys, values);
    return v->stop_at && v->calls >= v->stop_at ? v->answer : 0;
}

TEST_EACH_KIND(test_open_for_each_sizes, .every_engine = 1)
{
    static const uint64_t sizes[] = {0, 1, 2, 7, 100, 4095, 4096, 4097, 20000};
    loom_context *context = make_context(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        model m = make_filled(t, context, sizes[i] + 10, sizes[i]);
        visitor v = make_visitor(&m);
        int stopped = -1;
        test_note("%llu keys", (unsigned long long)sizes[i]);
        CHECK_OK(loom_map_for_each(m.map, visit, &v, &stopped, NULL));
        CHECK_EQ(stopped, 0);
        CHECK_EQ(v.pairs, sizes[i]);
        CHECK_LE(v.calls, sizes[i] / 1000 + 1); /* a visit gets some thousand pairs */
        if (sizes[i] == 0)
            CHECK_EQ(v.calls, 0);
        model_compare(&m);
        reference_destroy(v.seen);
        loom_map_destroy(m.map);
        free_model(&m);
    }
    loom_context_destroy(context);
}

TEST_EACH_KIND(test_open_for_each_stopping_early)
{
    static const int answers[] = {1, 7, -1, -0x7fffffff - 1};
    loom_context *context = make_context(t);
    model m = make_filled(t, context, 20000, 20000);
    for (uint64_t at = 1; at <= 3; at++)
        for (int i = 0; i < 4; i++) {
            visitor v = make_visitor(&m);
            int stopped = 99;
            v.stop_at = at;
            v.answer = answers[i];
            test_note("%d at call %llu", answers[i], (unsigned long long)at);
            CHECK_OK(loom_map_for_each(m.map, visit, &v, i == 2 ? NULL : &stopped, NULL)); /* `stopped` is optional */
            CHECK_EQ(v.calls, at);
            CHECK_LT(v.pairs, 20000);
            CHECK(stopped == (i == 2 ? 99 : answers[i]));
            reference_destroy(v.seen);
        }
    visitor v = make_visitor(&m); /* afterwards, a full run visits all pairs */
    CHECK_OK(loom_map_for_each(m.map, visit, &v, NULL, NULL));
    CHECK_EQ(v.pairs, 20000);
    reference_destroy(v.seen);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* If the visitor writes to the table, no further pair is visited and the call returns LOOM_CHANGED, for every call that
 * writes. */
TEST_EACH_KIND(test_open_for_each_changed)
{
    loom_context *context = make_context(t);
    for (int writer = 0; writer < (t->value_bytes ? 6 : 5); writer++)
        for (int late = 0; late < 2; late++) {
            uint64_t n = late ? 100 : 10000; /* one visit, or several */
            model m = make_filled(t, context, n + 10, n);
            visitor v = make_visitor(&m);
            int stopped = 99;
            v.writer = writer;
            v.write_at = 1;
            test_note("writer %d, %llu keys", writer, (unsigned long long)n);
            CHECK_REFUSED(loom_map_for_each(m.map, visit, &v, &stopped, NULL), LOOM_CHANGED);
            CHECK_EQ(v.calls, 1);
            CHECK_EQ(stopped, 0);
            checked_verify(m.map);
            reference_destroy(v.seen);
            loom_map_destroy(m.map);
            free_model(&m);
        }
    /* A visitor that writes and stops gets no error: it has all pairs that it asked for. */
    model m = make_filled(t, context, 110, 100);
    visitor v = make_visitor(&m);
    int stopped = 0;
    v.write_at = v.stop_at = 1;
    v.answer = 5;
    CHECK_OK(loom_map_for_each(m.map, visit, &v, &stopped, NULL));
    CHECK_EQ(stopped, 5);
    reference_destroy(v.seen);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* Makes every call that reads from within a visit, including another loom_map_for_each: the table is not locked during
 * a visit. */
static int read_while_visiting(void *user, const void *keys, const void *values, uint64_t n)
{
    visitor *v = user;
    model *m = v->m;
    batch b = make_batch_of(m->key_bytes, m->value_bytes, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, get_word(keys, m->key_bytes, i), get_word(values, m->value_bytes, i));
    check_all_found(m->map, &b);
    CHECK_EQ(map_stats(m->map).size, reference_size(m->reference));
    checked_verify(m->map);
    if (v->depth < 2) {
        visitor inner = make_visitor(m);
        inner.depth = v->depth + 1;
        CHECK_OK(loom_map_for_each(m->map, read_while_visiting, &inner, NULL, NULL));
        CHECK_EQ(inner.pairs, reference_size(m->reference));
        reference_destroy(inner.seen);
        model_compare_cursor(m, 1000);
    }
    for (uint64_t i = 0; i < n; i++) /* the visited pairs stay valid meanwhile */
        CHECK_EQ(batch_key(&b, i), get_word(keys, m->key_bytes, i));
    free_batch(&b);
    v->pairs += n;
    return 0;
}

TEST_EACH_KIND(test_open_for_each_nested_reads)
{
    loom_context *context = make_context(t);
    uint64_t n = test_scaled(t, 5000, 4200);
    model m = make_filled(t, context, n, n);
    visitor v = make_visitor(&m);
    CHECK_OK(loom_map_for_each(m.map, read_while_visiting, &v, NULL, NULL));
    CHECK_EQ(v.pairs, n);
    model_compare(&m);
    reference_destroy(v.seen);
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* ---- Clones --------------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_clone_is_equal_and_independent, .threads = 1, .every_engine = 1)
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
        /* The clone has the same shape and seed, hence the same order. */
        batch a = retrieve(m.map, t->key_bytes, t->value_bytes), b = retrieve(twin.map, t->key_bytes, t->value_bytes);
        CHECK_BYTES(a.keys, b.keys, a.n * a.key_bytes);
        loom_stats x = map_stats(m.map), y = map_stats(twin.map);
        CHECK_EQ(x.slots, y.slots);
        CHECK_EQ(x.partitions, y.partitions);
        CHECK_EQ(x.capacity, y.capacity);
        CHECK_EQ(x.seed, y.seed);
        CHECK_EQ(x.displaced, y.displaced);
        CHECK_EQ(x.memory_bytes, y.memory_bytes);
        /* A change to the clone does not show in the original, nor the other way round. */
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
