/* Grouping by key with a hash table: SELECT key, SUM(amount), COUNT(*) … GROUP BY key, for 100 million rows. For
 * comparison, the program also groups by sorting with CUB. Usage: example_group_by [rows] [groups]
 *
 * Keys and amounts have 4 bytes. The sum and the count of a group are one number of 64 bits, so a single addition
 * updates both (LOOM_COMBINE_ADD_AND_COUNT). This works for groups of up to 2^24 - 1 rows with a sum below 2^40. For
 * larger groups, accumulate into two tables. */
#include "check.h"

#include <loom/device.cuh>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <thrust/iterator/transform_iterator.h>

struct add {
    __host__ __device__ uint64_t operator()(uint64_t a, uint64_t b) const
    {
        return a + b;
    }
};

struct counted {
    __host__ __device__ uint64_t operator()(uint32_t amount) const
    {
        return LOOM_COUNTED(amount);
    }
};

__host__ __device__ uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__global__ void make_rows(uint32_t *keys, uint32_t *amounts, uint64_t n, uint32_t groups)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        keys[i] = mix(mix((uint32_t)i) % groups);
        amounts[i] = (uint32_t)(i % 1000);
    }
}

/* Each lane takes a row. */
__global__ void group_rows(const loom_map_view view, const uint32_t *keys, const uint32_t *amounts, uint64_t n)
{
    loom::table<uint32_t, uint64_t, LOOM_VIEW_ACCUMULATE> groups(view);
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool active = i < n;
    groups.accumulate(active ? keys[i] : 0, LOOM_COUNTED(active ? amounts[i] : 0), active);
}

template <class work> static double best_of(int times, work timed)
{
    cudaEvent_t begin, end;
    double best = 1e30;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    for (int i = 0; i < times; i++) {
        float ms;
        CUDA(cudaEventRecord(begin));
        timed();
        CUDA(cudaEventRecord(end));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&ms, begin, end));
        best = ms < best ? ms : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000000;
    const uint32_t groups = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000000;
    const unsigned blocks = (unsigned)((n + 255) / 256);
    uint32_t *keys, *amounts, *sorted_keys, *sorted_amounts, *unique;
    uint64_t *sums, *count;
    CUDA(cudaMalloc(&keys, n * 4));
    CUDA(cudaMalloc(&amounts, n * 4));
    CUDA(cudaMalloc(&sorted_keys, n * 4));
    CUDA(cudaMalloc(&sorted_amounts, n * 4));
    CUDA(cudaMalloc(&unique, n * 4));
    CUDA(cudaMalloc(&sums, n * 8));
    CUDA(cudaMallocManaged(&count, sizeof *count));
    make_rows<<<blocks, 256>>>(keys, amounts, n, groups);

    /* With a table: by a kernel of our own, and by the library's call. */
    loom_context *context;
    loom_map *map;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 4;
    config.value_bytes = 8;
    config.capacity = groups;
    config.growth = 0; /* there are no more groups, so no call needs to wait and count keys */
    LOOM(loom_context_create(&with, &context));
    LOOM(loom_map_create(context, &config, &map));
    loom_result *result;
    CUDA(cudaMalloc(&result, sizeof *result));
    double by_view = best_of(5, [&] {
        loom_map_view view;
        LOOM(loom_map_clear(map, result, NULL));
        LOOM(loom_map_view_begin(map, LOOM_VIEW_ACCUMULATE, &view, NULL));
        group_rows<<<blocks, 256>>>(view, keys, amounts, n);
        LOOM(loom_map_view_end(map, &view, NULL));
    });
    double by_call = best_of(5, [&] {
        LOOM(loom_map_clear(map, result, NULL));
        LOOM(loom_map_accumulate(map, keys, amounts, n, LOOM_COMBINE_ADD_AND_COUNT, LOOM_NUMBER_U32, NULL, result,
                                 NULL));
    });

    /* By sorting: the pairs are sorted by key, then neighbours with equal keys are combined. Amounts are widened to 64
     * bits as they are read. */
    const auto wide = thrust::make_transform_iterator(sorted_amounts, counted());
    size_t sort_bytes = 0, reduce_bytes = 0;
    void *temporary;
    CUDA(cub::DeviceRadixSort::SortPairs(NULL, sort_bytes, keys, sorted_keys, amounts, sorted_amounts, n));
    CUDA(cub::DeviceReduce::ReduceByKey(NULL, reduce_bytes, sorted_keys, unique, wide, sums, count, add(), n));
    size_t bytes = sort_bytes > reduce_bytes ? sort_bytes : reduce_bytes;
    CUDA(cudaMalloc(&temporary, bytes));
    double by_sort = best_of(5, [&] {
        CUDA(cub::DeviceRadixSort::SortPairs(temporary, sort_bytes, keys, sorted_keys, amounts, sorted_amounts, n));
        CUDA(cub::DeviceReduce::ReduceByKey(temporary, reduce_bytes, sorted_keys, unique, wide, sums, count, add(), n));
    });

    /* Checks that both agree: every group of the sorted version is in the table with the same sum and count. */
    uint64_t size, different = *count, wrong = 0;
    uint64_t *ours = (uint64_t *)malloc(different * 8), *theirs = (uint64_t *)malloc(different * 8);
    LOOM(loom_map_size(map, &size, NULL));
    LOOM(loom_map_find(map, unique, different, ours, NULL, NULL, NULL, NULL));
    CUDA(cudaMemcpy(theirs, sums, different * 8, cudaMemcpyDeviceToHost));
    for (uint64_t i = 0; i < different; i++)
        wrong += ours[i] != theirs[i];
    printf("%llu rows, %llu groups\n", (unsigned long long)n, (unsigned long long)different);
    printf("table, kernel of our own   %8.3f ms  %6.1f G rows/s\n", by_view, (double)n / by_view * 1e-6);
    printf("table, loom_map_accumulate %8.3f ms  %6.1f G rows/s\n", by_call, (double)n / by_call * 1e-6);
    printf("sorted with CUB            %8.3f ms  %6.1f G rows/s\n", by_sort, (double)n / by_sort * 1e-6);
    printf("%.2f times as fast as sorting\n", by_sort / (by_view < by_call ? by_view : by_call));
    loom_map_destroy(map);
    loom_context_destroy(context);
    if (wrong != 0 || size != different) {
        fprintf(stderr, "wrong: %llu of %llu groups differ\n", (unsigned long long)wrong,
                (unsigned long long)different);
        return 1;
    }
    return 0;
}
