/* Durable maps in a directory: what is written comes back, whatever the call was, with every engine. */
#include "harness/counting_allocator.h"
#include "harness/durable_fixture.h"
#include "harness/map_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- every call, every engine ---- */

static loom_map *open_like(const test_run *t, loom_context *context, uint64_t capacity, uint32_t commit_by_itself)
{
    const loom_map_config config = make_config(t, capacity);
    const loom_durable_config durable = durable_config(commit_by_itself);
    loom_map *map = NULL;
    CHECK_OK(loom_map_open(context, test_path(t, test_simd_name(t->simd)), &config, &durable, &map));
    return map;
}

static void write_something(model *m, uint64_t universe)
{
    test_run *t = m->t;
    batch b = random_batch(t, universe, universe);
    uint64_t kind = random_below(&t->random, 11);
    const int applies = t->engine != LOOM_ENGINE_PERFECT;
    if (t->value_bytes == 0 && kind > 4 && kind < 10)
        kind = 1; /* calls that sets do not have */
    test_note("kind %llu, %llu keys", (unsigned long long)kind, (unsigned long long)b.n);
    if (kind == 0)
        model_build(m, &b, LOOM_OVERWRITE);
    else if (kind <= 2)
        model_insert(m, &b, kind == 1 ? LOOM_KEEP : LOOM_OVERWRITE);
    else if (kind == 3)
        model_erase(m, &b);
    else if (kind == 4)
        model_clear(m);
    else if (kind == 5)
        model_find_or_insert(m, &b);
    else if (kind == 6)
        model_update(m, &b);
    else if (kind == 7)
        model_accumulate(m, &b, (loom_combine)random_below(&t->random, 3), 0);
    else if (kind == 8)
        model_count(m, &b);
    else if (kind == 9)
        model_erase_if_random(m);
    else if (applies)
        model_apply(m, &b);
    free_batch(&b);
}

/* Opened again after every few calls, the map is the one that was closed. */
TEST_EACH_KIND(test_open_durable_comes_back_after_every_call, .every_engine = 1, .cpu_only = 1, .leak_check = 1)
{
    enum { UNIVERSE = 60 };
    loom_context *context = make_context(t);
    model m = make_model(t, open_like(t, context, 2 * UNIVERSE, 1), 2 * UNIVERSE);
    const uint64_t rounds = test_scaled(t, 30, 10);
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t calls = random_below(&t->random, 6); calls > 0; calls--)
            write_something(&m, UNIVERSE);
        loom_map_destroy(m.map);
        m.map = open_like(t, context, round % 2 ? 0 : 2 * UNIVERSE, 1);
        model_compare(&m);
        checked_verify(m.map);
        if (round % 2) { /* the model's table does not grow */
            loom_map_destroy(m.map);
            m.map = open_like(t, context, 2 * UNIVERSE, 1);
        }
    }
    loom_map_destroy(m.map);
    free_model(&m);
    loom_context_destroy(context);
}

/* Keys of 16 bytes and values of 100, with the engines that have them. */
TEST(test_durable_wide_rows)
{
    static const loom_engine engines[] = {LOOM_ENGINE_ROWS, LOOM_ENGINE_TICKETS};
    enum { N = 700 };
    loom_context *context = make_context_with(t, 2, 5);
    const char *path = test_path(t, "map");
    unsigned char(*keys)[16] = test_allocate(N * 16), (*values)[100] = test_allocate(N * 100),
             (*got)[100] = test_allocate(N * 100);
    for (uint64_t i = 0; i < N; i++) {
        memset(keys[i], (int)i, 16);
        memcpy(keys[i] + 3, &i, sizeof i);
        memset(values[i], (int)(i * 7 + 1), 100);
    }
    for (int round = 0; round < 4; round++) { /* another engine each time: files know none */
        loom_map_config config = durable_map_config();
        const loom_durable_config durable = durable_config(1);
        loom_map *map = NULL;
        config.key_bytes = 16;
        config.value_bytes = 100;
        config.engine = engines[round % 2];
        CHECK_OK(loom_map_open(context, path, &config, &durable, &map));
        CHECK_EQ(map_size(map), (uint64_t)round * N / 4);
        CHECK_OK(loom_map_find(map, keys, (uint64_t)round * N / 4, got, NULL, NULL, NULL, NULL));
        CHECK_BYTES(got, values, (uint64_t)round * (N / 4) * 100);
        CHECK_OK(loom_map_insert(map, keys[round * N / 4], values[round * N / 4], N / 4, LOOM_KEEP, NULL, NULL, NULL));
        loom_map_destroy(map);
    }
    free(keys);
    free(values);
    free(got);
    loom_context_destroy(context);
}

/* Batches larger than the journal, a table that grows, checkpoints by length, and the ring's end. */
TEST(test_durable_batches_of_every_size)
{
    loom_context *context = make_context_with(t, 2, 6);
    loom_map *map = durable_open(context, test_path(t, "map"), 1);
    uint64_t n = 0, checkpoints = 0;
    for (uint64_t round = 1; round <= 40; round++) {
        static const uint64_t sizes[] = {1, 254, 255, 256, 1000, 3000, 3900, 10000};
        n = n > sizes[round % 8] ? n : sizes[round % 8];
        put_keys(map, 0, n, round); /* all keys have the round's value */
        if (round % 5 == 0) {
            checkpoints += durability_of(map).checkpoints;
            loom_map_destroy(map);
            map = durable_open(context, test_path(t, "map"), 1);
            check_keys(map, n, round);
        }
    }
    CHECK_GT(checkpoints, 10);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- commits ---- */

TEST(test_durable_commit_joins_batches)
{
    loom_context *context = make_context_with(t, 1, 7);
    const char *path = test_path(t, "map");
    uint64_t epoch = 99;
    loom_map *map = durable_open(context, path, 0);
    CHECK_EQ(durability_of(map).created, 1);
    CHECK_OK(loom_map_commit(map, &epoch));
    CHECK_EQ(epoch, 0);
    put_keys(map, 0, 10, 1);
    put_keys(map, 0, 20, 2);
    CHECK_GT(durability_of(map).waiting_bytes, 30 * 16);
    CHECK_OK(loom_map_commit(map, &epoch));
    CHECK_EQ(epoch, 1);
    CHECK_EQ(durability_of(map).waiting_bytes, 0);
    CHECK_EQ(durability_of(map).synced, 0);
    CHECK_OK(loom_map_sync(map, 1));
    CHECK_EQ(durability_of(map).synced, 1);
    CHECK_REFUSED(loom_map_sync(map, 2), LOOM_INVALID_ARGUMENT);
    put_keys(map, 0, 30, 3); /* never committed */
    loom_map_destroy(map);

    map = durable_open(context, path, 0);
    check_keys(map, 20, 2);
    CHECK_EQ(durability_of(map).created, 0);
    CHECK_EQ(durability_of(map).torn_bytes, 0);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    CHECK_OK(loom_map_checkpoint(map)); /* commits, too */
    CHECK_EQ(durability_of(map).snapshot, durability_of(map).committed);
    CHECK_EQ(durability_of(map).journal_used, 0);
    CHECK_OK(loom_map_sync(map, UINT64_MAX));
    loom_map_destroy(map);
    map = durable_open(context, path, 0);
    CHECK_EQ(map_size(map), 0);
    CHECK_EQ(durability_of(map).recovered_records, 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* What waits may exceed the journal; then the commit is a checkpoint. */
TEST(test_durable_commit_larger_than_the_journal)
{
    loom_context *context = make_context_with(t, 1, 8);
    loom_map *map = durable_open(context, test_path(t, "map"), 0);
    for (uint64_t i = 0; i < 10; i++)
        put_keys(map, 0, 1000 * (i + 1), 5);
    CHECK_EQ(durability_of(map).waiting_bytes, 0); /* given up: it could not become a record */
    CHECK_OK(loom_map_commit(map, NULL));
    CHECK_EQ(durability_of(map).checkpoints, 1);
    CHECK_EQ(durability_of(map).committed, 1);
    loom_map_destroy(map);
    map = durable_open(context, test_path(t, "map"), 0);
    check_keys(map, 10000, 5);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Calls that change nothing make no record. */
TEST(test_durable_nothing_to_commit)
{
    loom_context *context = make_context_with(t, 1, 9);
    loom_map *map = durable_open(context, test_path(t, "map"), 1);
    uint64_t key = 1, value, epoch;
    put_keys(map, 0, 3, 3);
    CHECK_EQ(durability_of(map).committed, 1);
    CHECK_OK(loom_map_insert(map, NULL, NULL, 0, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_find(map, &key, 1, &value, NULL, NULL, NULL, NULL));
    CHECK_OK(loom_map_reserve(map, 100000, NULL));
    CHECK_OK(loom_map_shrink(map, NULL));
    CHECK_OK(loom_map_commit(map, &epoch));
    CHECK_EQ(epoch, 1);
    CHECK_EQ(durability_of(map).commits, 1);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A batch that is refused in part is logged as far as it was stored. */
TEST(test_durable_full_table)
{
    enum { N = 3000 };
    loom_context *context = make_context_with(t, 1, 10);
    loom_map_config config = durable_map_config();
    const loom_durable_config durable = durable_config(1);
    loom_map *map = NULL;
    batch b = make_batch_of(8, 8, N);
    config.growth = 0;
    CHECK_OK(loom_map_open(context, test_path(t, "map"), &config, &durable, &map));
    fill_distinct(&b, 3, 0);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, N, LOOM_KEEP, NULL, NULL, NULL), LOOM_FULL);
    batch held = retrieve(map, 8, 8);
    CHECK_GT(held.n, 99);
    CHECK_LT(held.n, N);
    loom_map_destroy(map);
    CHECK_OK(loom_map_open(context, test_path(t, "map"), &config, &durable, &map));
    check_contents(map, &held);
    loom_map_destroy(map);
    free_batch(&held);
    free_batch(&b);
    loom_context_destroy(context);
}

/* A clone, a loaded file and a map that was created are not durable. */
TEST(test_durable_others_are_not)
{
    loom_context *context = make_context_with(t, 1, 11);
    loom_map *map = durable_open(context, test_path(t, "map"), 1), *clone = NULL, *loaded = NULL;
    loom_durability told = LOOM_DURABILITY_INIT;
    put_keys(map, 0, 50, 4);
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    CHECK_OK(loom_map_save(map, test_path(t, "file"), NULL));
    CHECK_OK(loom_map_load(context, test_path(t, "file"), &loaded, NULL));
    CHECK_REFUSED(loom_map_commit(clone, NULL), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_sync(clone, 0), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_checkpoint(loaded), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_map_durability(loaded, &told), LOOM_UNSUPPORTED);
    put_keys(clone, 0, 60, 5);
    check_keys(map, 50, 4);
    check_keys(loaded, 50, 4);
    loom_map_destroy(clone);
    loom_map_destroy(loaded);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- threads ---- */

enum { WRITERS = 4 };

typedef struct writer {
    loom_map *map;
    uint64_t number, rounds;
} writer;

/* Each writer counts a key of its own, and one that all share. */
static void *write_on(void *argument)
{
    writer *w = argument;
    for (uint64_t i = 0; i < w->rounds; i++) {
        const uint64_t keys[2] = {1 + w->number, 0};
        CHECK_OK(loom_map_count(w->map, keys, 2, NULL, NULL, NULL));
        if (w->number == 0 && i % 16 == 15)
            CHECK_OK(loom_map_checkpoint(w->map));
        CHECK_OK(loom_map_sync(w->map, UINT64_MAX));
    }
    return NULL;
}

TEST(test_durable_threads_share_syncs, .threads = 1)
{
    loom_context *context = make_context_with(t, 1, 12);
    loom_map *map = durable_open(context, test_path(t, "map"), 1);
    const uint64_t rounds = test_scaled(t, 100, 30);
    pthread_t threads[WRITERS];
    writer writers[WRITERS];
    for (uint64_t i = 0; i < WRITERS; i++) {
        writers[i] = (writer){map, i, rounds};
        CHECK_EQ(pthread_create(&threads[i], NULL, write_on, &writers[i]), 0);
    }
    for (uint64_t i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    const loom_durability told = durability_of(map);
    CHECK_EQ(told.commits, WRITERS * rounds);
    CHECK_EQ(told.synced, told.committed);
    CHECK_LE(told.syncs, told.commits);
    loom_map_destroy(map);
    map = durable_open(context, test_path(t, "map"), 1);
    const uint64_t keys[1 + WRITERS] = {0, 1, 2, 3, 4};
    uint64_t counts[1 + WRITERS];
    CHECK_OK(loom_map_find(map, keys, 1 + WRITERS, counts, NULL, NULL, NULL, NULL));
    CHECK_EQ(counts[0], WRITERS * rounds);
    for (uint64_t i = 1; i <= WRITERS; i++)
        CHECK_EQ(counts[i], rounds);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- memory ---- */

static loom_status open_and_write(loom_context *context, const char *path, int *opened)
{
    const loom_map_config config = durable_map_config();
    const loom_durable_config durable = durable_config(1);
    const uint64_t key = 7, value = 8;
    loom_map *map = NULL;
    *opened = 0;
    loom_status status = loom_map_open(context, path, &config, &durable, &map);
    if (status != LOOM_OK)
        return status;
    *opened = 1;
    status = loom_map_insert(map, &key, &value, 1, LOOM_KEEP, NULL, NULL, NULL);
    loom_map_destroy(map);
    return status;
}

/* The n-th allocation fails. If the map cannot be opened, nothing leaks. If its effects find no memory, the commit is a
 * checkpoint, and nothing is lost. */
TEST(test_durable_nth_allocation_fails)
{
    counting_allocator *c = counting_create();
    loom_context *context = make_counting_context(t, c, 1);
    uint64_t survived = 0;
    int opened;
    for (uint64_t n = 1; n < 60; n++) {
        char name[32];
        snprintf(name, sizeof name, "map_%llu", (unsigned long long)n);
        test_note("allocation %llu", (unsigned long long)n);
        counting_fail_at(c, n);
        const loom_status status = open_and_write(context, test_path(t, name), &opened);
        counting_fail_at(c, 0);
        CHECK(status == LOOM_OK || status == LOOM_OUT_OF_MEMORY);
        loom_map *map = durable_open(context, test_path(t, name), 1);
        CHECK_EQ(map_size(map), status == LOOM_OK);
        survived += status == LOOM_OK;
        loom_map_destroy(map);
    }
    CHECK_GT(survived, 1);
    loom_context_destroy(context);
    counting_destroy(c);
}
