/* Counts the k-mers of a text: how often each sequence of k letters occurs in a genome. Every lane takes one position,
 * packs its k letters into 2 bits each, and adds one to their count. Then a kernel visits all counts. */
#include "check.h"

#include <loom/device.cuh>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 21 };

/* Packs the k-mer at a position. Returns false if a letter is none of A, C, G and T. */
__host__ __device__ bool pack(const char *text, uint64_t *packed)
{
    uint64_t bits = 0;
    bool sound = true;
    for (int i = 0; i < K; i++) {
        char letter = text[i];
        uint32_t code = letter >> 1 & 3; /* A 0, C 1, T 2, G 3 */
        sound = sound && (letter == 'A' || letter == 'C' || letter == 'G' || letter == 'T');
        bits = bits << 2 | code;
    }
    *packed = bits;
    return sound;
}

__global__ void count(const loom_map_view view, const char *text, uint64_t positions)
{
    loom::table<uint64_t, uint32_t, LOOM_VIEW_ACCUMULATE> counts(view);
    uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, kmer = 0;
    bool wanted = at < positions && pack(text + at, &kmer);
    counts.accumulate(kmer, 1, wanted);
}

/* Counts the k-mers that occur once, twice, …, `most` times or more. */
__global__ void sum_up(const loom_map_view view, unsigned long long *times, uint32_t most)
{
    loom::table<uint64_t, uint32_t, LOOM_VIEW_FIND> counts(view);
    counts.for_each([=](uint64_t, uint32_t n) { atomicAdd(&times[n < most ? n : most], 1ull); });
}

int main()
{
    const uint64_t letters = 4000000, positions = letters - K + 1;
    const uint32_t most = 9;
    char *text;
    unsigned long long *times;
    CUDA(cudaMallocManaged(&text, letters));
    CUDA(cudaMallocManaged(&times, (most + 1) * sizeof *times));
    for (uint32_t n = 0; n <= most; n++)
        times[n] = 0;
    /* A text with repeats: a third of it copies the letters 100,000 positions before. Some letters are unknown. */
    uint64_t random = 88172645463325252u;
    for (uint64_t i = 0; i < letters; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        text[i] = i % 300000 >= 200000 ? text[i - 100000] : i % 5003 == 0 ? 'N' : "ACGT"[random >> 62];
    }

    loom_context *context;
    loom_map *counts;
    loom_map_view view;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_COUNTER;
    config.key_bytes = 8;
    config.value_bytes = 4;
    config.capacity = positions;
    LOOM(loom_context_create(&with, &context));
    LOOM(loom_map_create(context, &config, &counts));

    LOOM(loom_map_view_begin(counts, LOOM_VIEW_ACCUMULATE, &view, NULL));
    count<<<(unsigned)((positions + 255) / 256), 256>>>(view, text, positions);
    CUDA(cudaGetLastError());
    LOOM(loom_map_view_end(counts, &view, NULL));
    LOOM(loom_map_view_begin(counts, LOOM_VIEW_FIND, &view, NULL));
    sum_up<<<256, 256>>>(view, times, most);
    CUDA(cudaGetLastError());
    LOOM(loom_map_view_end(counts, &view, NULL));
    CUDA(cudaDeviceSynchronize());

    unsigned long long different = 0, counted = 0, sound = 0;
    uint64_t packed, size;
    for (uint32_t n = 1; n <= most; n++) {
        printf("%12llu k-mers occur %s%u times\n", times[n], n == most ? "at least " : "", n);
        different += times[n];
        counted += n * times[n];
    }
    for (uint64_t i = 0; i < positions; i++)
        sound += pack(text + i, &packed);
    LOOM(loom_map_size(counts, &size, NULL));
    printf("%llu different ones at %llu positions\n", different, sound);
    loom_map_destroy(counts);
    loom_context_destroy(context);
    if (size != different || counted != sound || times[most] != 0 || times[2] == 0) {
        fprintf(stderr, "wrong: counts disagree\n");
        return 1;
    }
    return 0;
}
