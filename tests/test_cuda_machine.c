/* What only the cuda machine has: arrays in several kinds of memory, groups of several widths, and calls in order. The
 * tests of test_cuda_*.c are skipped where there is no CUDA device. The tests of the map itself (TEST_EACH) run on the
 * cuda machine, too. */
#include "harness/cuda_arrays.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arrays ---- */

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
