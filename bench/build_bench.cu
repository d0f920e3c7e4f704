/* What builds cost besides their kernels: calls that wait, calls that do not, and replays of a graph.
 *
 *   loom_build_bench [load]     0.8 without an argument
 *
 * Rows: the number of keys, then G keys per second of a call without a result, of calls in a row with a result on the
 * device, and of replays in a row of a captured build. Each figure is a median. After each measurement the size of the
 * table is checked. */
#include "examples/check.h"

#include <loom/loom.h>

#include <algorithm>
#include <chrono>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 9, IN_A_ROW = 20 };

__global__ void make_keys(uint32_t *keys, uint64_t n)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        keys[i] = (uint32_t)i * 2654435761u;
}

/* Seconds that `work` takes, `times` of it, until all of it is done: the median of some rounds. */
template <class work_type> static double seconds(int times, work_type work)
{
    double samples[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        CUDA(cudaDeviceSynchronize());
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < times; i++)
            work();
        CUDA(cudaDeviceSynchronize());
        if (round >= 0)
            samples[round] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
    }
    std::sort(samples, samples + ROUNDS);
    return samples[ROUNDS / 2];
}

static void check_size(loom_map *map, uint64_t n, const char *after)
{
    uint64_t size = 0;
    LOOM(loom_map_size(map, &size, NULL));
    if (size != n) {
        fprintf(stderr, "%llu keys instead of %llu after %s\n", (unsigned long long)size, (unsigned long long)n, after);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    loom_context *context;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    LOOM(loom_context_create(&with, &context));
    printf("%10s %12s %12s %12s   G keys/s, pairs of 4 + 4 bytes\n", "keys", "waiting", "in a row", "graph");
    for (int bits = 14; bits <= 24; bits += bits < 20 ? 2 : 1) {
        const uint64_t n = (uint64_t)1 << bits;
        uint32_t *keys;
        loom_map *map;
        loom_result *result;
        void *workspace;
        loom_memory memory = LOOM_MEMORY_INIT;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = config.value_bytes = 4;
        config.capacity = n;
        config.max_load = argc > 1 ? atof(argv[1]) : 0.8;
        config.growth = 0;
        LOOM(loom_map_memory_required(context, &config, &memory));
        LOOM(loom_map_create(context, &config, &map));
        LOOM(loom_array_create(context, LOOM_ARRAY_MACHINE, memory.build_bytes, &workspace));
        LOOM(loom_map_set_workspace(map, workspace, memory.build_bytes));
        CUDA(cudaMalloc(&keys, n * sizeof *keys));
        CUDA(cudaMalloc(&result, sizeof *result));
        make_keys<<<(unsigned)((n + 255) / 256), 256>>>(keys, n);
        CUDA(cudaDeviceSynchronize());

        double waiting = seconds(1, [&] { LOOM(loom_map_build(map, keys, keys, n, LOOM_KEEP, NULL, NULL, NULL)); });
        check_size(map, n, "calls that wait");
        double in_a_row =
            seconds(IN_A_ROW, [&] { LOOM(loom_map_build(map, keys, keys, n, LOOM_KEEP, NULL, result, NULL)); });
        check_size(map, n, "calls in a row");
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        CUDA(cudaStreamCreate(&stream));
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        LOOM(loom_map_build(map, keys, keys, n, LOOM_KEEP, NULL, result, stream));
        CUDA(cudaStreamEndCapture(stream, &graph));
        CUDA(cudaGraphInstantiate(&ready, graph, 0));
        double replayed = seconds(IN_A_ROW, [&] { CUDA(cudaGraphLaunch(ready, stream)); });
        check_size(map, n, "replays");
        printf("%10llu %12.2f %12.2f %12.2f\n", (unsigned long long)n, (double)n / waiting * 1e-9,
               (double)n / in_a_row * 1e-9, (double)n / replayed * 1e-9);
        CUDA(cudaGraphExecDestroy(ready));
        CUDA(cudaGraphDestroy(graph));
        CUDA(cudaStreamDestroy(stream));
        loom_map_destroy(map);
        loom_array_destroy(context, LOOM_ARRAY_MACHINE, workspace, memory.build_bytes);
        CUDA(cudaFree(keys));
        CUDA(cudaFree(result));
    }
    loom_context_destroy(context);
    return 0;
}
