/* Calls in CUDA graphs: captured once, replayed with other keys; and what is refused while a stream is being
 * captured. */
#include "device/require.cuh"

#include <loom/loom.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

namespace
{

enum { KEYS = 50021 };

struct fixture {
    loom_context *context = nullptr;
    loom_map *map = nullptr;
    uint32_t *keys, *values;
    loom_result *result;
    void *workspace = nullptr;
    uint64_t bytes = 0;
    cudaStream_t stream;

    fixture()
    {
        loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
        with.machine = LOOM_MACHINE_CUDA;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        loom_memory memory = LOOM_MEMORY_INIT;
        config.key_bytes = config.value_bytes = 4;
        config.capacity = KEYS;
        REQUIRE(loom_context_create(&with, &context) == LOOM_OK);
        REQUIRE(loom_map_create(context, &config, &map) == LOOM_OK);
        REQUIRE(loom_map_memory_required(context, &config, &memory) == LOOM_OK);
        bytes = memory.build_bytes;
        REQUIRE(loom_array_create(context, LOOM_ARRAY_MACHINE, bytes, &workspace) == LOOM_OK);
        REQUIRE(cudaMallocManaged(&keys, KEYS * sizeof *keys) == cudaSuccess);
        REQUIRE(cudaMallocManaged(&values, KEYS * sizeof *values) == cudaSuccess);
        REQUIRE(cudaMallocManaged(&result, sizeof *result) == cudaSuccess);
        REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
    }
    ~fixture()
    {
        loom_map_destroy(map);
        loom_array_destroy(context, LOOM_ARRAY_MACHINE, workspace, bytes);
        loom_context_destroy(context);
        cudaFree(keys);
        cudaFree(values);
        cudaFree(result);
        cudaStreamDestroy(stream);
    }
    loom_status build(loom_result *to, uint32_t flags)
    {
        return loom_map_build(map, keys, values, KEYS, flags, NULL, to, stream);
    }
    loom_status insert(const uint32_t *from, loom_result *to, uint32_t flags)
    {
        return loom_map_insert(map, from, values, KEYS, flags, NULL, to, stream);
    }
};

/* Every key `times` times, all different from those of other rounds. */
void fill(fixture *f, uint32_t round, uint32_t times)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        f->keys[i] = (round * KEYS + i / times) * 2654435761u;
        f->values[i] = round ^ f->keys[i];
    }
}

void check(fixture *f, uint32_t round, uint32_t times)
{
    const uint32_t different = (KEYS + times - 1) / times;
    uint64_t size = 0;
    uint32_t *found = (uint32_t *)malloc(KEYS * sizeof *found);
    REQUIRE(f->result->status == LOOM_OK && f->result->ok == different && f->result->exists == KEYS - different);
    REQUIRE(loom_map_verify(f->map, NULL) == LOOM_OK);
    REQUIRE(loom_map_size(f->map, &size, NULL) == LOOM_OK && size == different);
    REQUIRE(loom_map_find(f->map, f->keys, KEYS, found, NULL, NULL, NULL, NULL) == LOOM_OK);
    for (uint32_t i = 0; i < KEYS; i++)
        REQUIRE(found[i] == (round ^ f->keys[i]));
    free(found);
}

void test_replays()
{
    fixture f;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    fill(&f, 1, 1);
    REQUIRE(loom_map_set_workspace(f.map, f.workspace, f.bytes) == LOOM_OK);
    REQUIRE(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(f.build(f.result, LOOM_KEEP) == LOOM_OK);
    REQUIRE(cudaStreamEndCapture(f.stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
    uint64_t size = 1;
    REQUIRE(loom_map_size(f.map, &size, NULL) == LOOM_OK && size == 0); /* nothing has run */
    for (uint32_t round = 1; round <= 6; round++) {
        fill(&f, round, round % 3 + 1);
        REQUIRE(cudaGraphLaunch(ready, f.stream) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
        check(&f, round, round % 3 + 1);
    }
    for (uint32_t i = 0; i < KEYS; i++) /* so skewed that the split gives up */
        f.keys[i] = 7, f.values[i] = 7 ^ f.keys[i];
    REQUIRE(cudaGraphLaunch(ready, f.stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
    REQUIRE(f.result->ok == 1 && f.result->exists == KEYS - 1);
    REQUIRE(loom_map_verify(f.map, NULL) == LOOM_OK);
    /* Afterwards the table is one like any other, and grows. */
    fill(&f, 9, 1);
    REQUIRE(loom_map_insert(f.map, f.keys, f.values, KEYS, LOOM_KEEP, NULL, NULL, f.stream) == LOOM_OK);
    REQUIRE(loom_map_size(f.map, &size, NULL) == LOOM_OK && size == KEYS + 1);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
}

/* Two rounds' keys fit, so the third is refused in part: a table does not grow for a captured insert. */
void test_small_calls(loom_engine engine)
{
    enum { FEW = 1000, ROUNDS = 12 };
    fixture f;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    uint32_t *found, stored = 0;
    uint8_t *present;
    loom_result *results;
    loom_map *map = nullptr;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    const bool inserts = engine == LOOM_ENGINE_OPEN;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = ROUNDS / 2 * FEW;
    config.engine = engine;
    REQUIRE(loom_map_create(f.context, &config, &map) == LOOM_OK);
    REQUIRE(loom_map_set_workspace(map, f.workspace, 2048) == LOOM_OK);
    REQUIRE(cudaMallocManaged(&found, FEW * sizeof *found) == cudaSuccess);
    REQUIRE(cudaMallocManaged(&present, FEW) == cudaSuccess);
    REQUIRE(cudaMallocManaged(&results, 3 * sizeof *results) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    if (inserts)
        REQUIRE(loom_map_insert(map, f.keys, f.values, FEW, LOOM_KEEP, NULL, &results[0], f.stream) == LOOM_OK);
    else
        REQUIRE(loom_map_insert(map, f.keys, f.values, FEW, LOOM_KEEP, NULL, &results[0], f.stream) ==
                LOOM_UNSUPPORTED);
    REQUIRE(loom_map_find(map, f.keys, FEW, found, NULL, NULL, &results[1], f.stream) == LOOM_OK);
    REQUIRE(loom_map_contains(map, f.keys, FEW, present, NULL, NULL, f.stream) == LOOM_OK); /* without a result */
    REQUIRE(cudaStreamEndCapture(f.stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
    uint64_t size = 1;
    REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK && size == 0); /* nothing has run */
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        fill(&f, round, 1);
        if (!inserts && round % 2 == 0)
            REQUIRE(loom_map_insert(map, f.keys, f.values, FEW, LOOM_KEEP, NULL, NULL, NULL) == LOOM_OK);
        REQUIRE(cudaGraphLaunch(ready, f.stream) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
        const uint32_t ok = inserts ? (uint32_t)results[0].ok : round % 2 == 0 ? (uint32_t)FEW : 0;
        if (inserts)
            REQUIRE(results[0].ok + results[0].full == FEW && (results[0].full == 0 || round > ROUNDS / 2) &&
                    results[0].status == (results[0].full > 0 ? LOOM_FULL : LOOM_OK));
        REQUIRE(results[1].ok == ok && results[1].not_found == FEW - ok);
        for (uint32_t i = 0, there = 0; i < FEW; i++) {
            there += present[i];
            REQUIRE(found[i] == (present[i] ? round ^ f.keys[i] : 0));
            REQUIRE(i + 1 < FEW || there == ok);
        }
        stored += ok;
        REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK && size == stored);
    }
    REQUIRE(!inserts || results[0].full > 0);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(cudaGraphExecDestroy(ready) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    if (inserts) { /* the library knows that the graph may have added keys: the table grows for the next insert */
        fill(&f, 100, 1);
        REQUIRE(loom_map_insert(map, f.keys, f.values, KEYS, LOOM_KEEP, NULL, NULL, NULL) == LOOM_OK);
        REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK && size == stored + KEYS);
    }
    loom_map_destroy(map);
    cudaFree(found);
    cudaFree(present);
    cudaFree(results);
}

void test_refusals()
{
    fixture f;
    cudaGraph_t graph;
    uint32_t *on_host = (uint32_t *)malloc(KEYS * sizeof *on_host);
    fill(&f, 1, 1);
    REQUIRE(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(f.build(f.result, LOOM_KEEP) == LOOM_OUT_OF_MEMORY); /* no workspace */
    REQUIRE(f.insert(f.keys, f.result, LOOM_KEEP) == LOOM_OUT_OF_MEMORY);
    REQUIRE(loom_map_find(f.map, f.keys, KEYS, f.values, NULL, NULL, f.result, f.stream) == LOOM_OUT_OF_MEMORY);
    REQUIRE(loom_map_set_workspace(f.map, f.workspace, 4096) == LOOM_OK);
    REQUIRE(f.build(f.result, LOOM_KEEP) == LOOM_OUT_OF_MEMORY); /* too small */
    REQUIRE(loom_map_set_workspace(f.map, f.workspace, f.bytes) == LOOM_OK);
    REQUIRE(f.build(NULL, LOOM_KEEP) == LOOM_INVALID_ARGUMENT);
    REQUIRE(f.build(f.result, LOOM_IN_ORDER) == LOOM_UNSUPPORTED);
    REQUIRE(f.build(f.result, LOOM_DIRECTLY) == LOOM_UNSUPPORTED);
    REQUIRE(loom_map_build(f.map, on_host, f.values, KEYS, LOOM_KEEP, NULL, f.result, f.stream) == LOOM_UNSUPPORTED);
    REQUIRE(f.insert(f.keys, NULL, LOOM_KEEP) == LOOM_INVALID_ARGUMENT);
    REQUIRE(f.insert(f.keys, f.result, LOOM_IN_ORDER) == LOOM_UNSUPPORTED);
    REQUIRE(f.insert(f.keys, f.result, LOOM_BY_PARTITION) == LOOM_UNSUPPORTED);
    REQUIRE(f.insert(on_host, f.result, LOOM_KEEP) == LOOM_UNSUPPORTED);
    REQUIRE(loom_map_find(f.map, on_host, KEYS, f.values, NULL, NULL, f.result, f.stream) == LOOM_UNSUPPORTED);
    REQUIRE(loom_map_erase(f.map, f.keys, KEYS, NULL, f.result, f.stream) == LOOM_UNSUPPORTED);
    REQUIRE(cudaStreamEndCapture(f.stream, &graph) == cudaSuccess); /* none of that has spoilt it */
    size_t nodes = 1;
    REQUIRE(cudaGraphGetNodes(graph, NULL, &nodes) == cudaSuccess && nodes == 0);
    cudaGraphDestroy(graph);
    REQUIRE(f.build(f.result, LOOM_KEEP) == LOOM_OK);
    REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
    check(&f, 1, 1);
    free(on_host);
}

} // namespace

int graph_tests()
{
    test_replays();
    test_small_calls(LOOM_ENGINE_OPEN);
    test_small_calls(LOOM_ENGINE_PERFECT);
    test_refusals();
    printf("graphs: 4 tests\n");
    return 4;
}
