/* Calls on one table from several streams of a CUDA device, and results that come later. */
#include "harness/cuda_arrays.h"
#include "harness/map_model.h"

#include <stdlib.h>
#include <string.h>

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

/* Rows in host memory: a batch that goes directly is still under way in one stream when a larger one is streamed in
 * another. Streaming takes whole windows of rows to the device and back, so it must wait, or the rows that the first
 * batch wrote meanwhile are lost. */
TEST(test_cuda_streams_and_streamed_rows, .timeout_seconds = 180)
{
    need_cuda();
    enum { SMALL = 20000, LARGE = 100000, ROUNDS = 8, DELAYS = 30, DELAYING = 1 << 21 };
    loom_context *context = cuda_context_create(t, 0);
    const uint64_t n = SMALL + LARGE;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.capacity = n;
    config.growth = 0;
    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    loom_map *map = make_map_from(context, &config), *other = map_of(context, 8, 8, DELAYING, 0);
    batch b = make_batch_of(8, 8, DELAYING);
    fill_distinct(&b, 1, 0);
    placed keys = place(context, CUDA_DEVICE, b.keys, DELAYING * 8);
    placed values = place(context, CUDA_DEVICE, b.values, DELAYING * 8);
    placed found = place(context, CUDA_DEVICE, b.values, DELAYING * 8);
    loom_result *results = cuda_memory_create(CUDA_PINNED, 4 * sizeof *results);
    loom_stream first = cuda_stream_create(), second = cuda_stream_create();
    uint64_t *answers = test_allocate(n * sizeof *answers);
    const unsigned char *large_keys = (unsigned char *)keys.at + SMALL * 8;
    const unsigned char *large_values = (unsigned char *)values.at + SMALL * 8;
    for (int round = 0; round < ROUNDS; round++) {
        test_note("round %d", round);
        for (int i = 0; i < DELAYS; i++)
            CHECK_OK(loom_map_find(other, keys.at, DELAYING, found.at, NULL, NULL, results + 2, first));
        CHECK_OK(loom_map_set_row_route(map, LOOM_ROW_ROUTE_DIRECT));
        CHECK_OK(loom_map_insert(map, keys.at, values.at, SMALL, LOOM_KEEP, NULL, results, first));
        CHECK_OK(loom_map_set_row_route(map, LOOM_ROW_ROUTE_STREAMED));
        CHECK_OK(loom_map_insert(map, large_keys, large_values, LARGE, LOOM_KEEP, NULL, results + 1, second));
        cuda_stream_wait(first);
        cuda_stream_wait(second);
        CHECK_EQ(results[0].ok, SMALL);
        CHECK_EQ(results[1].ok, LARGE);
        loom_result result = {0};
        CHECK_OK(loom_map_find(map, keys.at, n, found.at, NULL, NULL, &result, NULL));
        CHECK_EQ(result.ok, n);
        CHECK_OK(loom_array_copy(context, answers, found.at, n * 8, NULL));
        CHECK_BYTES(answers, b.values, n * 8);
        checked_verify(map);
        CHECK_OK(loom_map_clear(map, NULL, NULL));
    }
    cuda_stream_destroy(first);
    cuda_stream_destroy(second);
    cuda_memory_destroy(CUDA_PINNED, results);
    take_back(context, &found, NULL);
    take_back(context, &keys, NULL);
    take_back(context, &values, NULL);
    free_batch(&b);
    free(answers);
    loom_map_destroy(map);
    loom_map_destroy(other);
    loom_context_destroy(context);
}
