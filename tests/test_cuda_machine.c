/* What only the cuda machine has: arrays in several kinds of memory, streams, results that come later, and failures of
 * the device. The tests are skipped where there is no CUDA device. The tests of the map itself (TEST_EACH) run on the
 * cuda machine, too. */
#include "harness/cuda_driver.h"
#include "harness/map_fixture.h"
#include "harness/map_model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static loom_map *map_of(loom_context *context, uint32_t key_bytes, uint32_t value_bytes, uint64_t capacity,
                        uint32_t concurrent_reads)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.type = value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.capacity = capacity;
    config.growth = 0;
    config.concurrent_reads = concurrent_reads;
    return make_map_from(context, &config);
}

/* ---- Arrays ---- */

/* The arrays of one call, each in some kind of memory; kind 3 is plain host memory. */
typedef struct placed {
    int kind;
    void *at;
    size_t bytes;
} placed;

static placed place(loom_context *context, int kind, const void *from, size_t bytes)
{
    placed p = {kind, kind == 3 ? test_allocate(bytes) : cuda_memory_create((cuda_memory)kind, bytes), bytes};
    CHECK_OK(loom_array_copy(context, p.at, from, bytes, NULL));
    return p;
}

static void take_back(loom_context *context, placed *p, void *to)
{
    if (to)
        CHECK_OK(loom_array_copy(context, to, p->at, p->bytes, NULL));
    if (p->kind == 3)
        free(p->at);
    else
        cuda_memory_destroy((cuda_memory)p->kind, p->at);
}

/* Keys, values and status in every combination of memory kinds. Calls with mixed kinds have more keys than a chunk. */
TEST(test_cuda_arrays_in_every_memory, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 50000;
    batch b = make_batch_of(4, 8, n);
    fill_distinct(&b, 5, 0);
    for (int which = 0; which < 64; which++) {
        loom_map *map = map_of(context, 4, 8, n, 0);
        placed keys = place(context, which % 4, b.keys, n * 4), values = place(context, which / 4 % 4, b.values, n * 8);
        memset(b.status, 0xee, n);
        placed status = place(context, which / 16, b.status, n);
        test_note("keys %d, values %d, status %d", which % 4, which / 4 % 4, which / 16);
        CHECK_OK(loom_map_insert(map, keys.at, values.at, n / 2, LOOM_KEEP, status.at, NULL, NULL));
        CHECK_OK(loom_map_insert(map, keys.at, values.at, n, LOOM_KEEP, status.at, NULL, NULL));
        CHECK_OK(loom_array_copy(context, b.status, status.at, n, NULL));
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(b.status[i], i < n / 2 ? LOOM_EXISTS : LOOM_OK);
        batch got = make_batch_of(4, 8, n);
        memset(got.values, 0, n * 8);
        CHECK_OK(loom_array_copy(context, values.at, got.values, n * 8, NULL));
        CHECK_OK(loom_map_find(map, keys.at, n, values.at, NULL, status.at, NULL, NULL));
        take_back(context, &values, got.values);
        CHECK_BYTES(got.values, b.values, n * 8);
        take_back(context, &keys, NULL);
        take_back(context, &status, NULL);
        free_batch(&got);
        checked_verify(map);
        loom_map_destroy(map);
    }
    free_batch(&b);
    loom_context_destroy(context);
}

/* Host arrays of many chunks. */
TEST(test_cuda_arrays_of_many_chunks, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 5000000;
    loom_map *map = map_of(context, 8, 8, n, 0);
    batch b = make_batch_of(8, 8, n);
    fill_distinct(&b, 9, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
    check_all_found(map, &b);
    CHECK_EQ(checked_contains(map, &b).ok, n);
    batch all = retrieve(map, 8, 8);
    CHECK_EQ(all.n, n);
    CHECK_EQ(checked_erase(map, &all).ok, n);
    CHECK_EQ(map_size(map), 0);
    free_batch(&all);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- Memory ---- */

/* The stream of the last request for device memory, and the number of requests. */
typedef struct stream_seen {
    loom_stream stream;
    uint64_t requests;
} stream_seen;

static void *seen_allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    stream_seen *seen = user;
    if (kind == LOOM_MEMORY_HOST)
        return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    seen->stream = stream;
    seen->requests++;
    return cuda_memory_create(CUDA_DEVICE, bytes);
}

static void seen_release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user;
    (void)bytes;
    (void)stream;
    if (kind == LOOM_MEMORY_HOST)
        free(memory);
    else
        cuda_memory_destroy(CUDA_DEVICE, memory);
}

/* The allocator gets the stream of the call that needs the memory. */
TEST(test_cuda_allocator_gets_the_stream)
{
    need_cuda();
    stream_seen seen = {0};
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context;
    loom_map *copy, *loaded;
    loom_stream stream = cuda_stream_create();
    config.machine = LOOM_MACHINE_CUDA;
    config.allocator = (loom_allocator){seen_allocate, seen_release, &seen};
    CHECK_OK(loom_context_create(&config, &context));
    loom_map *map = map_of(context, 4, 4, 1000, 0);
    CHECK_EQ(seen.requests, 1);
    CHECK(seen.stream == NULL);
    CHECK_OK(loom_map_clone(map, &copy, stream));
    CHECK_EQ(seen.requests, 2);
    CHECK(seen.stream == stream);
    CHECK_OK(loom_map_save(map, test_path(t, "map"), NULL));
    seen.stream = NULL;
    CHECK_OK(loom_map_load(context, test_path(t, "map"), &loaded, stream));
    CHECK_EQ(seen.requests, 3);
    CHECK(seen.stream == stream);
    loom_map_destroy(loaded);
    loom_map_destroy(copy);
    loom_map_destroy(map);
    loom_context_destroy(context);
    cuda_stream_destroy(stream);
}

/* ---- Lanes ---- */

TEST(test_cuda_lanes_agree, .timeout_seconds = 180)
{
    static const uint32_t widths[6][2] = {{4, 4}, {4, 8}, {8, 4}, {8, 8}, {4, 0}, {8, 0}};
    need_cuda();
    for (uint32_t lanes = 1; lanes <= 8; lanes *= 2)
        for (int w = 0; w < 6; w++)
            for (uint32_t concurrent = 0; concurrent < 2; concurrent++) {
                loom_context *context = cuda_context_create(t, lanes);
                uint64_t n = test_scaled(t, 20000, 600);
                loom_map *map = map_of(context, widths[w][0], widths[w][1], n, concurrent);
                batch b = make_batch_of(widths[w][0], widths[w][1], n), half = b;
                test_note("%u lanes, %u + %u bytes, concurrent_reads %u", lanes, widths[w][0], widths[w][1],
                          concurrent);
                fill_distinct(&b, 3, 0);
                CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, n);
                check_contents(map, &b);
                half.n = n / 2;
                CHECK_EQ(checked_erase(map, &half).ok, n / 2);
                check_none_found(map, &half);
                CHECK_EQ(checked_insert(map, &b, LOOM_OVERWRITE).ok, n / 2);
                check_contents(map, &b);
                checked_verify(map);
                free_batch(&b);
                loom_map_destroy(map);
                loom_context_destroy(context);
            }
}

/* ---- Streams ---- */

/* Calls on one table from several streams that do not wait for each other. The handle puts the calls in order. The
 * results lie on the device and are written in stream order. */
TEST(test_cuda_streams_conflicting_calls_are_ordered, .timeout_seconds = 180)
{
    need_cuda();
    enum { STREAMS = 4, ROUNDS = 40 };
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 100000;
    loom_map *map = map_of(context, 4, 4, n, 0);
    batch b = make_batch_of(4, 4, n);
    fill_distinct(&b, 1, 0);
    placed keys = place(context, CUDA_DEVICE, b.keys, n * 4), values = place(context, CUDA_DEVICE, b.values, n * 4);
    loom_stream streams[STREAMS];
    loom_result *results = cuda_memory_create(CUDA_PINNED, 4 * ROUNDS * sizeof *results);
    memset(results, 0xee, 4 * ROUNDS * sizeof *results);
    for (int i = 0; i < STREAMS; i++)
        streams[i] = cuda_stream_create();
    placed found = place(context, CUDA_DEVICE, b.values, n * 4);
    for (int i = 0; i < ROUNDS; i++) {
        loom_result *r = results + 4 * i;
        CHECK_OK(loom_map_insert(map, keys.at, values.at, n, LOOM_KEEP, NULL, r, streams[i % STREAMS]));
        CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r + 1, streams[(i + 1) % STREAMS]));
        CHECK_OK(loom_map_erase(map, keys.at, n, NULL, r + 2, streams[(i + 2) % STREAMS]));
        CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r + 3, streams[(i + 3) % STREAMS]));
    }
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_wait(streams[i]);
    for (int i = 0; i < ROUNDS; i++) {
        test_note("round %d", i);
        CHECK_EQ(results[4 * i].ok, n);
        CHECK_EQ(results[4 * i + 1].ok, n);
        CHECK_EQ(results[4 * i + 2].ok, n);
        CHECK_EQ(results[4 * i + 3].ok, 0);
        CHECK_EQ(results[4 * i + 3].not_found, n);
    }
    CHECK_EQ(map_size(map), 0);
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_destroy(streams[i]);
    cuda_memory_destroy(CUDA_PINNED, results);
    take_back(context, &found, NULL);
    take_back(context, &keys, NULL);
    take_back(context, &values, NULL);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* erase_if runs alone and in order with the calls of other streams. Its result may lie in any memory. The bound is read
 * before the call returns: it changes right afterwards. */
TEST(test_cuda_erase_if_in_streams, .timeout_seconds = 180)
{
    need_cuda();
    enum { STREAMS = 3, ROUNDS = 12, KINDS = 4 };
    loom_context *context = cuda_context_create(t, 0);
    const uint64_t n = 200000;
    batch b = make_batch_of(4, 8, n);
    fill_distinct(&b, 1, 0);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, batch_key(&b, i), i);
    placed keys = place(context, CUDA_DEVICE, b.keys, n * 4), values = place(context, CUDA_DEVICE, b.values, n * 8);
    placed found = place(context, CUDA_DEVICE, b.values, n * 8);
    loom_stream streams[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        streams[i] = cuda_stream_create();
    for (int engine = 0; engine < 2; engine++) {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = 4;
        config.value_bytes = 8;
        config.capacity = n;
        config.growth = 0;
        config.engine = engine ? LOOM_ENGINE_PERFECT : LOOM_ENGINE_OPEN;
        loom_map *map = make_map_from(context, &config);
        loom_result told[KINDS][2 * ROUNDS];
        memset(told, 0xee, sizeof told);
        placed results[KINDS];
        for (int kind = 0; kind < KINDS; kind++)
            results[kind] = place(context, kind, told[kind], sizeof told[kind]);
        CHECK_OK(loom_map_build(map, keys.at, values.at, n, LOOM_KEEP, NULL, NULL, streams[0]));
        for (int round = 0; round < ROUNDS; round++) {
            loom_result *r = (loom_result *)results[round % KINDS].at + 2 * round;
            uint64_t least = (uint64_t)round * 1000, most = least + 99;
            CHECK_OK(loom_map_erase_if(map, LOOM_NUMBER_U64, &least, &most, r, streams[round % STREAMS]));
            least = 0;
            most = UINT64_MAX;
            CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r + 1, streams[(round + 1) % STREAMS]));
        }
        for (int i = 0; i < STREAMS; i++)
            cuda_stream_wait(streams[i]);
        for (int kind = 0; kind < KINDS; kind++)
            take_back(context, &results[kind], told[kind]);
        for (int round = 0; round < ROUNDS; round++) {
            const loom_result *r = told[round % KINDS] + 2 * round;
            test_note("engine %d, round %d", engine, round);
            CHECK_EQ(r[0].status, LOOM_OK);
            CHECK_EQ(r[0].keys, n - 100 * (uint64_t)round);
            CHECK_EQ(r[0].ok, 100);
            CHECK_EQ(r[0].exists, r[0].keys - 100);
            CHECK_EQ(r[0].not_found | r[0].full, 0);
            CHECK_EQ(r[1].ok, r[0].exists);
        }
        CHECK_EQ(map_size(map), n - 100 * ROUNDS);
        checked_verify(map);
        loom_map_destroy(map);
    }
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_destroy(streams[i]);
    take_back(context, &found, NULL);
    take_back(context, &keys, NULL);
    take_back(context, &values, NULL);
    free_batch(&b);
    loom_context_destroy(context);
}

/* Lookups on more streams than the machine keeps events for. The next call that writes still waits for all of them. */
TEST(test_cuda_streams_more_than_are_kept, .timeout_seconds = 180)
{
    need_cuda();
    enum { STREAMS = 40, ROUNDS = 10, CALLS = 2 * STREAMS + 2 };
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 50000;
    loom_map *map = map_of(context, 4, 4, n, 0);
    batch b = make_batch_of(4, 4, n);
    fill_distinct(&b, 1, 0);
    placed keys = place(context, CUDA_DEVICE, b.keys, n * 4), values = place(context, CUDA_DEVICE, b.values, n * 4);
    placed found = place(context, CUDA_DEVICE, b.values, n * 4);
    loom_result *results = cuda_memory_create(CUDA_PINNED, CALLS * ROUNDS * sizeof *results);
    loom_stream streams[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        streams[i] = cuda_stream_create();
    for (int round = 0; round < ROUNDS; round++) {
        loom_result *r = results + CALLS * round;
        CHECK_OK(loom_map_insert(map, keys.at, values.at, n, LOOM_KEEP, NULL, r++, streams[round]));
        for (int i = 0; i < STREAMS; i++)
            CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r++, streams[i]));
        CHECK_OK(loom_map_erase(map, keys.at, n, NULL, r++, streams[round + 1]));
        for (int i = 0; i < STREAMS; i++)
            CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r++, streams[i]));
    }
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_wait(streams[i]);
    for (int i = 0; i < CALLS * ROUNDS; i++) {
        test_note("call %d", i);
        CHECK_EQ(results[i].ok, i % CALLS <= STREAMS + 1 ? n : 0);
    }
    CHECK_EQ(map_size(map), 0);
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_destroy(streams[i]);
    cuda_memory_destroy(CUDA_PINNED, results);
    take_back(context, &found, NULL);
    take_back(context, &keys, NULL);
    take_back(context, &values, NULL);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Lookups run beside insertions and erasures of other keys. Every lookup finds the keys that stay in the table. */
TEST(test_cuda_streams_concurrent_reads, .timeout_seconds = 180)
{
    static const uint32_t widths[4][2] = {{4, 4}, {4, 8}, {8, 4}, {8, 8}};
    need_cuda();
    enum { ROUNDS = 30 };
    for (int w = 0; w < 4; w++) {
        loom_context *context = cuda_context_create(t, 0);
        uint64_t n = 200000;
        uint32_t key_bytes = widths[w][0], value_bytes = widths[w][1];
        loom_map *map = map_of(context, key_bytes, value_bytes, 2 * n, 1);
        batch stays = make_batch_of(key_bytes, value_bytes, n), goes = make_batch_of(key_bytes, value_bytes, n);
        fill_distinct(&stays, 1, 0);
        fill_distinct(&goes, 1, n);
        CHECK_EQ(checked_insert(map, &stays, LOOM_KEEP).ok, n);
        placed keys = place(context, CUDA_DEVICE, stays.keys, n * key_bytes);
        placed found = place(context, CUDA_DEVICE, stays.values, n * value_bytes);
        placed other = place(context, CUDA_DEVICE, goes.keys, n * key_bytes);
        placed other_values = place(context, CUDA_DEVICE, goes.values, n * value_bytes);
        loom_stream writer = cuda_stream_create(), reader = cuda_stream_create();
        loom_result *results = cuda_memory_create(CUDA_PINNED, 4 * ROUNDS * sizeof *results);
        for (int i = 0; i < ROUNDS; i++) {
            loom_result *r = results + 4 * i;
            CHECK_OK(loom_map_insert(map, other.at, other_values.at, n, LOOM_KEEP, NULL, r, writer));
            CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r + 1, reader));
            CHECK_OK(loom_map_erase(map, other.at, n, NULL, r + 2, writer));
            CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, r + 3, reader));
        }
        cuda_stream_wait(writer);
        cuda_stream_wait(reader);
        for (int i = 0; i < 4 * ROUNDS; i++)
            CHECK_EQ(results[i].ok, n);
        batch got = make_batch_of(key_bytes, value_bytes, n);
        take_back(context, &found, got.values);
        CHECK_BYTES(got.values, stays.values, n * value_bytes);
        check_contents(map, &stays);
        checked_verify(map);
        take_back(context, &keys, NULL);
        take_back(context, &other, NULL);
        take_back(context, &other_values, NULL);
        cuda_memory_destroy(CUDA_PINNED, results);
        cuda_stream_destroy(writer);
        cuda_stream_destroy(reader);
        free_batch(&got);
        free_batch(&stays);
        free_batch(&goes);
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
}

/* ---- Host threads ---- */

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
TEST(test_cuda_threads_more_than_calls_in_flight, .timeout_seconds = 180)
{
    need_cuda();
    enum { THREADS = 100 };
    loom_context *context = cuda_context_create(t, 0);
    pthread_t threads[THREADS];
    caller callers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){context, (uint64_t)i, test_scaled(t, 5, 2)};
        CHECK_EQ(pthread_create(&threads[i], NULL, make_calls, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    loom_context_destroy(context);
}

/* ---- Files ---- */

TEST(test_cuda_files_travel_between_machines)
{
    static const uint32_t widths[6][2] = {{4, 4}, {4, 8}, {8, 4}, {8, 8}, {4, 0}, {8, 0}};
    need_cuda();
    for (int w = 0; w < 6; w++) {
        loom_context *gpu = cuda_context_create(t, 0), *cpu = make_context_with(t, 2, 1);
        uint32_t key_bytes = widths[w][0], value_bytes = widths[w][1];
        uint64_t n = 30000;
        batch b = make_batch_of(key_bytes, value_bytes, n);
        fill_distinct(&b, 4, 0);
        loom_map *on_gpu = map_of(gpu, key_bytes, value_bytes, n, 0), *on_cpu = NULL, *back = NULL;
        const char *path = test_path(t, "table");
        CHECK_EQ(checked_insert(on_gpu, &b, LOOM_KEEP).ok, n);
        CHECK_OK(loom_map_save(on_gpu, path, NULL));
        CHECK_OK(loom_map_load(cpu, path, &on_cpu, NULL));
        check_contents(on_cpu, &b);
        checked_verify(on_cpu);
        CHECK_OK(loom_map_save(on_cpu, path, NULL));
        CHECK_OK(loom_map_load(gpu, path, &back, NULL));
        check_contents(back, &b);
        checked_verify(back);
        check_same_contents(on_cpu, back, key_bytes, value_bytes);
        loom_map_destroy(on_gpu);
        loom_map_destroy(on_cpu);
        loom_map_destroy(back);
        free_batch(&b);
        loom_context_destroy(gpu);
        loom_context_destroy(cpu);
    }
}

/* ---- Failures ---- */

TEST(test_cuda_out_of_memory_leaves_all_usable)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL, *small = map_of(context, 4, 4, 1000, 0);
    config.key_bytes = config.value_bytes = 8;
    config.capacity = UINT64_C(100000000000);
    CHECK_REFUSED(loom_map_create(context, &config, &map), LOOM_OUT_OF_MEMORY);
    batch b = make_batch_of(4, 4, 1000);
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(small, &b, LOOM_KEEP).ok, 1000);
    check_contents(small, &b);
    free_batch(&b);
    loom_map_destroy(small);
    loom_context_destroy(context);
}

static int count_visited(void *user, const void *keys, const void *values, uint64_t n)
{
    (void)keys, (void)values;
    *(uint64_t *)user += n;
    return 0;
}

/* The calls on a table while the device fails. The calls before `LOST_COUNT` leave the inserted keys in the table. */
enum {
    LOST_CREATE,
    LOST_INSERT,
    LOST_FIND,
    LOST_HASH,
    LOST_SIZE,
    LOST_UPDATE,
    LOST_FIND_OR_INSERT,
    LOST_ACCUMULATE,
    LOST_INSERT_IN_ORDER,
    LOST_FOR_EACH,
    LOST_VIEW_FIND,
    LOST_VIEW_FIND_END,
    LOST_VIEW,
    LOST_VIEW_AGAIN,
    LOST_VIEW_END,
    LOST_VIEW_AGAIN_END,
    LOST_SAVE,
    LOST_CLONE,
    LOST_VERIFY,
    LOST_COUNT,
    LOST_BUILD_IN_ORDER,
    LOST_ERASE_IF,
    LOST_ERASE,
    LOST_CALLS
};

typedef struct lost_run {
    loom_map *map, *clone;
    loom_map_view found, views[2];
    loom_status statuses[LOST_CALLS];
    uint64_t size, visited;
} lost_run;

static loom_status make_lost_call(loom_context *context, lost_run *run, int call, batch *b, batch *got,
                                  const char *path)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_map *map = run->map;
    loom_result result;
    config.key_bytes = b->key_bytes;
    config.value_bytes = b->value_bytes;
    config.capacity = b->n;
    if (call != LOST_CREATE && map == NULL)
        return LOOM_DEVICE;
    switch (call) {
    case LOST_CREATE:
        return loom_map_create(context, &config, &run->map);
    case LOST_INSERT:
        return loom_map_insert(map, b->keys, b->values, b->n, LOOM_KEEP, b->status, &result, NULL);
    case LOST_FIND:
        return loom_map_find(map, b->keys, b->n, got->values, NULL, got->status, NULL, NULL);
    case LOST_HASH:
        return loom_hash(context, b->keys, b->key_bytes, b->n, 1, got->values, NULL);
    case LOST_SIZE:
        return loom_map_size(map, &run->size, NULL);
    case LOST_UPDATE:
        return loom_map_update(map, b->keys, b->values, b->n, got->status, &result, NULL);
    case LOST_FIND_OR_INSERT:
        return loom_map_find_or_insert(map, b->keys, b->values, b->n, got->values, got->status, NULL, NULL);
    case LOST_ACCUMULATE: /* the maximum of two equal numbers: values stay */
        return loom_map_accumulate(map, b->keys, b->values, b->n, LOOM_COMBINE_MAX, LOOM_NUMBER_U64, got->status, NULL,
                                   NULL);
    case LOST_INSERT_IN_ORDER:
        return loom_map_insert(map, b->keys, b->values, b->n, LOOM_OVERWRITE | LOOM_IN_ORDER, got->status, NULL, NULL);
    case LOST_FOR_EACH:
        return loom_map_for_each(map, count_visited, &run->visited, NULL, NULL);
    /* If view_begin failed, there is no view to end: the step counts as LOOM_DEVICE. */
    case LOST_VIEW_FIND:
        return loom_map_view_begin(map, LOOM_VIEW_FIND, &run->found, NULL);
    case LOST_VIEW_FIND_END:
        return run->statuses[LOST_VIEW_FIND] ? LOOM_DEVICE : loom_map_view_end(map, &run->found, NULL);
    case LOST_VIEW:
    case LOST_VIEW_AGAIN:
        return loom_map_view_begin(map, LOOM_VIEW_MIXED, &run->views[call - LOST_VIEW], NULL);
    case LOST_VIEW_END:
    case LOST_VIEW_AGAIN_END:
        return run->statuses[call - 2] ? LOOM_DEVICE : loom_map_view_end(map, &run->views[call - LOST_VIEW_END], NULL);
    case LOST_SAVE:
        return loom_map_save(map, path, NULL);
    case LOST_CLONE:
        return loom_map_clone(map, &run->clone, NULL);
    case LOST_VERIFY:
        return loom_map_verify(map, NULL);
    case LOST_COUNT:
        return loom_map_count(map, b->keys, b->n, NULL, &result, NULL);
    case LOST_BUILD_IN_ORDER:
        return loom_map_build(map, b->keys, b->values, b->n, LOOM_IN_ORDER, got->status, &result, NULL);
    case LOST_ERASE_IF:
        return loom_map_erase_if(map, LOOM_NUMBER_U64, &(uint64_t){1}, &(uint64_t){0}, &result, NULL);
    default:
        return loom_map_erase(map, b->keys, b->n, NULL, NULL, NULL);
    }
}

static const struct {
    int begun, ended;
} lost_views[] = {
    {LOST_VIEW_FIND, LOST_VIEW_FIND_END}, {LOST_VIEW, LOST_VIEW_END}, {LOST_VIEW_AGAIN, LOST_VIEW_AGAIN_END}};
enum { LOST_VIEWS = sizeof lost_views / sizeof lost_views[0] };

static int is_out(const lost_run *run, int view)
{
    return run->statuses[lost_views[view].begun] == LOOM_OK && run->statuses[lost_views[view].ended] != LOOM_OK;
}

/* Ends the views whose end failed while the device was lost. Until then they are still out. */
static void end_lost_views(lost_run *run)
{
    const loom_map_view *views[LOST_VIEWS] = {&run->found, &run->views[0], &run->views[1]};
    for (int i = 0; i < LOST_VIEWS; i++) {
        if (run->statuses[lost_views[i].begun] != LOOM_OK)
            continue;
        if (is_out(run, i)) {
            CHECK_REFUSED(loom_map_clear(run->map, NULL, NULL), LOOM_IN_USE);
            CHECK_OK(loom_map_view_end(run->map, views[i], NULL));
        }
        CHECK_REFUSED(loom_map_view_end(run->map, views[i], NULL), LOOM_INVALID_ARGUMENT);
    }
}

/* The device is lost at the first step, the second, the third, and so on. Every call reports the loss, and none hangs
 * or crashes. When the device works again, the table holds the stored keys. */
TEST(test_cuda_lost_device_at_every_step, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 3000;
    batch b = make_batch_of(4, 8, n), got = make_batch_of(4, 8, n);
    fill_distinct(&b, 1, 0);
    int finished = 0;
    for (uint64_t steps = 1; !finished; steps++) {
        CHECK_LT(steps, 2000);
        lost_run run;
        memset(&run, 0, sizeof run);
        const char *path = test_path(t, "table");
        cuda_lose_device(steps);
        int lost = 0;
        for (int i = 0; i < LOST_CALLS; i++) {
            test_note("lost at step %llu, call %d", (unsigned long long)steps, i);
            loom_status status = run.statuses[i] = make_lost_call(context, &run, i, &b, &got, path);
            CHECK(status == LOOM_OK || status == LOOM_DEVICE);
            CHECK(!lost || status == LOOM_DEVICE); /* once lost, it stays so */
            lost |= status != LOOM_OK;
        }
        finished = !lost;
        cuda_lose_device(0);
        test_note("lost at step %llu", (unsigned long long)steps);
        if (run.statuses[LOST_FOR_EACH] == LOOM_OK)
            CHECK_EQ(run.visited, n);
        int out = 0;
        for (int i = 0; i < LOST_VIEWS; i++)
            out |= is_out(&run, i);
        if (!out || steps % 2 == 0) { /* in odd rounds the table is destroyed with views out */
            end_lost_views(&run);
            if (run.statuses[LOST_INSERT] == LOOM_OK && run.statuses[LOST_VERIFY] != LOOM_OK)
                check_contents(run.map, &b);
        }
        loom_map_destroy(run.clone);
        loom_map_destroy(run.map);
    }
    free_batch(&b);
    free_batch(&got);
    loom_context_destroy(context);
}

/* After a user's kernel has failed, the device is unusable. Every call reports an error, and none aborts. */
TEST(test_cuda_faulty_kernel_is_told)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0), *another = NULL;
    loom_map *map = map_of(context, 4, 4, 1000, 0), *lent = map_of(context, 4, 4, 1000, 0), *clone = NULL;
    loom_map_view view, none;
    batch b = make_batch_of(4, 4, 1000);
    uint64_t size;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = LOOM_MACHINE_CUDA;
    fill_distinct(&b, 1, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, 1000);
    CHECK_OK(loom_map_view_begin(lent, LOOM_VIEW_INSERT, &view, NULL));
    cuda_run_faulty_kernel();
    CHECK_REFUSED(loom_map_find(map, b.keys, 1000, b.values, NULL, b.status, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_hash(context, b.keys, 4, 1, 1, &size, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_size(map, &size, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, 1000, LOOM_KEEP, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, 1000, LOOM_IN_ORDER, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_build(map, b.keys, b.values, 1000, LOOM_IN_ORDER, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_erase(map, b.keys, 1000, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_erase_if(map, LOOM_NUMBER_U32, NULL, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_update(map, b.keys, b.values, 1000, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_find_or_insert(map, b.keys, b.values, 1000, NULL, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_accumulate(map, b.keys, b.values, 1000, LOOM_COMBINE_ADD, LOOM_NUMBER_U32, NULL, NULL, NULL),
                  LOOM_DEVICE);
    CHECK_REFUSED(loom_map_count(map, b.keys, 1000, NULL, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_for_each(map, count_visited, &size, NULL, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_INSERT, &none, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_view_end(lent, &view, NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_save(map, test_path(t, "table"), NULL), LOOM_DEVICE);
    CHECK_REFUSED(loom_map_clone(map, &clone, NULL), LOOM_DEVICE);
    CHECK(loom_context_create(&config, &another) != LOOM_OK);
    CHECK_EQ(test_count_entries(t->directory), 0); /* no half-written file either */
    free_batch(&b);
    loom_map_destroy(map);
    loom_map_destroy(lent); /* its view never comes back */
    loom_context_destroy(context);
}

TEST(test_cuda_forked_child_is_told)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    loom_map *map = map_of(context, 4, 4, 1000, 0);
    uint64_t size;
    pid_t child = fork();
    if (child == 0) {
        int right = loom_map_size(map, &size, NULL) == LOOM_DEVICE && strstr(loom_last_error(), "fork") != NULL;
        _exit(right ? 42 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK_OK(loom_map_size(map, &size, NULL));
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- In order ---- */

TEST(test_cuda_in_order_is_offered)
{
    static const loom_type types[] = {LOOM_TYPE_MAP, LOOM_TYPE_SET, LOOM_TYPE_COUNTER};
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    for (int i = 0; i < 3; i++)
        CHECK_OK(loom_supports(context, types[i], LOOM_ENGINE_OPEN, LOOM_FEATURE_INSERT_IN_ORDER));
    CHECK_OK(loom_supports(context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_ASYNCHRONOUS));
    loom_context_destroy(context);
}

/* Every key comes twice, n / 2 rows apart. The first row gets LOOM_OK and the second LOOM_EXISTS. The value is that of
 * the first row, or with LOOM_OVERWRITE that of the second. */
TEST(test_cuda_in_order_arrays_in_every_memory, .timeout_seconds = 180)
{
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 20000, half = n / 2;
    batch b = make_batch_of(8, 4, n), got = make_batch_of(8, 4, half);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(8, 3, i % half), i);
    for (int which = 0; which < 64; which++) {
        loom_map *map = map_of(context, 8, 4, half, 0);
        placed keys = place(context, which % 4, b.keys, n * 8), values = place(context, which / 4 % 4, b.values, n * 4);
        int overwrites = which % 3 == 0;
        memset(b.status, 0xee, n);
        placed status = place(context, which / 16, b.status, n);
        test_note("keys %d, values %d, status %d", which % 4, which / 4 % 4, which / 16);
        CHECK_OK((which % 2 ? loom_map_build : loom_map_insert)(
            map, keys.at, values.at, n, LOOM_IN_ORDER | (overwrites ? LOOM_OVERWRITE : LOOM_KEEP), status.at, NULL,
            NULL));
        take_back(context, &status, b.status);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(b.status[i], i < half ? LOOM_OK : LOOM_EXISTS);
        memcpy(got.keys, b.keys, half * 8);
        checked_find(map, &got);
        for (uint64_t i = 0; i < half; i++)
            CHECK_EQ(batch_value(&got, i), overwrites ? half + i : i);
        take_back(context, &keys, NULL);
        take_back(context, &values, NULL);
        checked_verify(map);
        loom_map_destroy(map);
    }
    free_batch(&b);
    free_batch(&got);
    loom_context_destroy(context);
}

/* Calls in order on several streams that do not wait for each other. Temporary memory is allocated and freed in stream
 * order. */
TEST(test_cuda_in_order_streams, .timeout_seconds = 180)
{
    need_cuda();
    enum { STREAMS = 3, ROUNDS = 30 };
    loom_context *context = cuda_context_create(t, 0);
    uint64_t n = 100000, half = n / 2;
    loom_map *map = map_of(context, 4, 4, n, 0);
    batch b = make_batch_of(4, 4, n);
    for (uint64_t i = 0; i < n; i++)
        set_pair(&b, i, distinct_key(4, 1, i % half), i);
    placed keys = place(context, CUDA_DEVICE, b.keys, n * 4), values = place(context, CUDA_DEVICE, b.values, n * 4);
    memset(b.values, 0, n * 4);
    placed first = place(context, CUDA_DEVICE, b.values, n * 4), last = place(context, CUDA_DEVICE, b.values, n * 4);
    loom_stream streams[STREAMS];
    loom_result *results = cuda_memory_create(CUDA_PINNED, 5 * ROUNDS * sizeof *results);
    memset(results, 0xee, 5 * ROUNDS * sizeof *results);
    for (int i = 0; i < STREAMS; i++)
        streams[i] = cuda_stream_create();
    for (int i = 0; i < ROUNDS; i++) {
        loom_result *r = results + 5 * i;
        CHECK_OK(loom_map_build(map, keys.at, values.at, n, LOOM_IN_ORDER, NULL, r, streams[i % STREAMS]));
        CHECK_OK(loom_map_find(map, keys.at, n, first.at, NULL, NULL, r + 1, streams[(i + 1) % STREAMS]));
        CHECK_OK(loom_map_insert(map, keys.at, values.at, n, LOOM_IN_ORDER | LOOM_OVERWRITE, NULL, r + 2,
                                 streams[(i + 2) % STREAMS]));
        CHECK_OK(loom_map_find(map, keys.at, n, last.at, NULL, NULL, r + 3, streams[i % STREAMS]));
        CHECK_OK(loom_map_erase(map, keys.at, n, NULL, r + 4, streams[(i + 1) % STREAMS]));
    }
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_wait(streams[i]);
    for (int i = 0; i < ROUNDS; i++) {
        test_note("round %d", i);
        CHECK_EQ(results[5 * i].ok, half);
        CHECK_EQ(results[5 * i].exists, half);
        CHECK_EQ(results[5 * i + 1].ok, n);
        CHECK_EQ(results[5 * i + 2].exists, n);
        CHECK_EQ(results[5 * i + 3].ok, n);
        CHECK_EQ(results[5 * i + 4].ok, half);
    }
    take_back(context, &first, b.values);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(batch_value(&b, i), i % half);
    take_back(context, &last, b.values);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(batch_value(&b, i), half + i % half);
    for (int i = 0; i < STREAMS; i++)
        cuda_stream_destroy(streams[i]);
    cuda_memory_destroy(CUDA_PINNED, results);
    take_back(context, &keys, NULL);
    take_back(context, &values, NULL);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* Keys with bits that a wrong sort would take for a sign, or ignore. */
TEST(test_cuda_in_order_special_keys)
{
    static const uint64_t special[] = {UINT64_MAX, 0,         1,        UINT64_C(1) << 63, INT64_MAX,
                                       UINT32_MAX, INT32_MAX, 1u << 31, UINT64_C(1) << 32};
    enum { KEYS = sizeof special / sizeof special[0], TIMES = 50 };
    need_cuda();
    loom_context *context = cuda_context_create(t, 0);
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
        for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
            loom_map *map = map_of(context, key_bytes, 8, 100, 0);
            batch b = make_batch_of(key_bytes, 8, KEYS * TIMES);
            reference_map *wanted = reference_create();
            for (uint64_t i = 0; i < b.n; i++) {
                set_pair(&b, i, special[i % KEYS], i);
                if (flags == LOOM_OVERWRITE || !reference_get(wanted, batch_key(&b, i), NULL))
                    reference_put(wanted, batch_key(&b, i), i);
            }
            CHECK_EQ(checked_insert(map, &b, flags | LOOM_IN_ORDER).ok, reference_size(wanted));
            checked_find(map, &b);
            for (uint64_t i = 0; i < b.n; i++) {
                uint64_t value = 0;
                CHECK(reference_get(wanted, batch_key(&b, i), &value));
                CHECK_EQ(batch_value(&b, i), value);
            }
            reference_destroy(wanted);
            free_batch(&b);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}
