/* Many host threads that call the cuda machine at the same time. */
#include "harness/cuda_arrays.h"
#include "harness/map_model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void run_threads(int count, void *(*work)(void *), void *arguments, size_t bytes)
{
    pthread_t *threads = test_allocate((size_t)count * sizeof *threads);
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (char *)arguments + (size_t)i * bytes), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    free(threads);
}

typedef struct caller {
    loom_context *context;
    uint64_t number, rounds;
} caller;

static void *make_calls(void *argument)
{
    const caller *c = argument;
    uint64_t n = 100000;
    loom_map *map = map_of(c->context, 4, 4, n, 0);
    batch b = make_batch_of(4, 4, n);
    fill_distinct(&b, c->number, 0);
    test_note("thread %llu", (unsigned long long)c->number);
    for (uint64_t round = 0; round < c->rounds; round++) {
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
        check_all_found(map, &b);
        CHECK_EQ(checked_erase(map, &b).ok, n);
    }
    free_batch(&b);
    loom_map_destroy(map);
    return NULL;
}

/* More threads call than the context has tickets. Calls that hold a ticket run. The other calls wait until one of these
 * ends. Each thread has a table of its own and arrays on the host, and all arrays pass through the same staging memory,
 * one call after the other. */
TEST(test_cuda_callers_more_than_calls_in_flight, .timeout_seconds = 180)
{
    need_cuda();
    enum { THREADS = 100 };
    loom_context *context = cuda_context_create(t, 0);
    caller callers[THREADS];
    for (int i = 0; i < THREADS; i++)
        callers[i] = (caller){context, (uint64_t)i, test_scaled(t, 5, 2)};
    run_threads(THREADS, make_calls, callers, sizeof callers[0]);
    loom_context_destroy(context);
}

/* ---- Lookups together ---- */

enum { TABLES = 2, STORED = 200000, ASKED = 2 * STORED };

/* What the threads share: tables of both engines with the first STORED of ASKED keys. */
typedef struct shared_tables {
    loom_context *context;
    loom_map *maps[TABLES];
    batch keys[TABLES];
    placed placed_keys[TABLES];
} shared_tables;

typedef struct asker {
    const shared_tables *tables;
    uint64_t number, rounds;
    loom_stream own; /* NULL: the default stream */
} asker;

/* Rows `first` to `first + n` of the batch. */
static void check_rows(const batch *b, uint64_t first, uint64_t n, const unsigned char *values, const uint8_t *status)
{
    for (uint64_t i = 0; i < n; i++) {
        const int stored = first + i < STORED;
        CHECK_EQ(status[i], stored ? LOOM_OK : LOOM_NOT_FOUND);
        if (stored)
            CHECK_EQ(memcmp(values + i * b->value_bytes, (const char *)b->values + (first + i) * b->value_bytes,
                            b->value_bytes),
                     0);
    }
}

/* Each thread has arrays of its own, which are overwritten before each call and read at once after it. */
static void *ask(void *argument)
{
    static const uint64_t sizes[] = {1, 31, 1000, 1024, 5000, 70000, 140000};
    const asker *a = argument;
    const shared_tables *s = a->tables;
    uint64_t state = a->number * 0x9e3779b97f4a7c15u + 1;
    unsigned char *unwritten = test_allocate(ASKED * 8), *values = test_allocate(ASKED * 8);
    uint8_t *status = test_allocate(ASKED);
    void *found, *told; /* on the device */
    memset(unwritten, 0xee, ASKED * 8);
    CHECK_OK(loom_array_create(s->context, LOOM_ARRAY_MACHINE, ASKED * 8, &found));
    CHECK_OK(loom_array_create(s->context, LOOM_ARRAY_MACHINE, ASKED, &told));
    for (uint64_t round = 0; round < a->rounds; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int which = (int)(state >> 33) % TABLES;
        const batch *b = &s->keys[which];
        const uint64_t n = sizes[(state >> 40) % (sizeof sizes / sizeof sizes[0])], first = (state >> 17) % (ASKED - n);
        const char *keys = (const char *)s->placed_keys[which].at + first * b->key_bytes;
        test_note("thread %llu, round %llu: %llu keys", (unsigned long long)a->number, (unsigned long long)round,
                  (unsigned long long)n);
        CHECK_OK(loom_array_copy(s->context, found, unwritten, n * b->value_bytes, a->own));
        CHECK_OK(loom_array_copy(s->context, told, unwritten, n, a->own));
        CHECK_OK(loom_map_find(s->maps[which], keys, n, found, NULL, told, NULL, a->own));
        CHECK_OK(loom_array_copy(s->context, values, found, n * b->value_bytes, a->own));
        CHECK_OK(loom_array_copy(s->context, status, told, n, a->own));
        check_rows(b, first, n, values, status);
    }
    loom_array_destroy(s->context, LOOM_ARRAY_MACHINE, found, ASKED * 8);
    loom_array_destroy(s->context, LOOM_ARRAY_MACHINE, told, ASKED);
    free(unwritten);
    free(values);
    free(status);
    return NULL;
}

static shared_tables make_tables(test_run *t)
{
    static const uint32_t widths[TABLES][2] = {{4, 4}, {8, 8}};
    shared_tables s = {.context = cuda_context_create(t, 0)};
    for (int i = 0; i < TABLES; i++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.engine = i == 0 ? LOOM_ENGINE_OPEN : LOOM_ENGINE_PERFECT;
        config.key_bytes = widths[i][0];
        config.value_bytes = widths[i][1];
        config.capacity = STORED;
        s.maps[i] = make_map_from(s.context, &config);
        s.keys[i] = make_batch_of(widths[i][0], widths[i][1], ASKED);
        fill_distinct(&s.keys[i], 1, 0);
        CHECK_OK(loom_map_build(s.maps[i], s.keys[i].keys, s.keys[i].values, STORED, LOOM_KEEP, NULL, NULL, NULL));
        s.placed_keys[i] = place(s.context, CUDA_DEVICE, s.keys[i].keys, (size_t)ASKED * widths[i][0]);
    }
    return s;
}

static void free_tables(shared_tables *s)
{
    for (int i = 0; i < TABLES; i++) {
        take_back(s->context, &s->placed_keys[i], NULL);
        free_batch(&s->keys[i]);
        loom_map_destroy(s->maps[i]);
    }
    loom_context_destroy(s->context);
}

/* Every third thread has a stream of its own. */
static void run_askers(int count, const shared_tables *s, uint64_t rounds)
{
    asker *askers = test_allocate((size_t)count * sizeof *askers);
    for (int i = 0; i < count; i++)
        askers[i] = (asker){s, (uint64_t)i, rounds, i % 3 == 0 ? cuda_stream_create() : NULL};
    run_threads(count, ask, askers, sizeof *askers);
    for (int i = 0; i < count; i += 3)
        cuda_stream_destroy(askers[i].own);
    free(askers);
}

/* Threads look keys up in two tables at once, most of them in the default stream, where lookups share launches. Every
 * lookup has its own answers when it returns. */
TEST(test_cuda_callers_look_up_together, .timeout_seconds = 180)
{
    need_cuda();
    shared_tables s = make_tables(t);
    run_askers(24, &s, test_scaled(t, 200, 20));
    free_tables(&s);
}

/* More lookups at once than there are bells; a lookup without one waits for its stream. */
TEST(test_cuda_callers_more_than_bells, .timeout_seconds = 180)
{
    need_cuda();
    shared_tables s = make_tables(t);
    run_askers(90, &s, test_scaled(t, 30, 5));
    free_tables(&s);
}

/* A lookup comes after what its stream waits for. The keys of each lookup are written by a copy in its stream just
 * before, and the table has them from an insertion in another stream. */
TEST(test_cuda_callers_lookups_come_after_their_stream, .timeout_seconds = 180)
{
    need_cuda();
    const uint64_t n = 20000, rounds = test_scaled(t, 60, 10);
    loom_context *context = cuda_context_create(t, 0);
    loom_map *map = map_of(context, 4, 4, n * rounds, 0);
    loom_stream streams[2] = {NULL, cuda_stream_create()};
    batch b = make_batch_of(4, 4, n * rounds);
    fill_distinct(&b, 1, 0);
    placed keys = place(context, CUDA_DEVICE, b.keys, n * rounds * 4);
    placed values = place(context, CUDA_DEVICE, b.values, n * rounds * 4);
    placed asked = place(context, CUDA_DEVICE, b.keys, n * 4), found = place(context, CUDA_DEVICE, b.values, n * 4);
    placed result = place(context, CUDA_DEVICE, &(loom_result){.status = LOOM_OK}, sizeof(loom_result));
    uint32_t *got = test_allocate(n * 4);
    for (uint64_t round = 0; round < rounds; round++) {
        loom_stream writer = streams[round % 2], reader = streams[round / 2 % 2];
        const char *these = (const char *)keys.at + round * n * 4;
        CHECK_OK(loom_map_insert(map, these, (const char *)values.at + round * n * 4, n, LOOM_KEEP, NULL, result.at,
                                 writer));
        CHECK_OK(loom_array_copy(context, asked.at, these, n * 4, reader));
        CHECK_OK(loom_map_find(map, asked.at, n, found.at, NULL, NULL, NULL, reader));
        CHECK_OK(loom_array_copy(context, got, found.at, n * 4, reader));
        test_note("round %llu", (unsigned long long)round);
        CHECK_EQ(memcmp(got, (const char *)b.values + round * n * 4, n * 4), 0);
    }
    placed *all[] = {&keys, &values, &asked, &found, &result};
    for (int i = 0; i < 5; i++)
        take_back(context, all[i], NULL);
    free(got);
    free_batch(&b);
    cuda_stream_destroy(streams[1]);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
