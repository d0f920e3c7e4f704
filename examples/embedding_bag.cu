/* Embedding bags in a user's kernel: adds up rows of 512 bytes that are found by ids of 8 bytes. A bag is a list of
 * ids, for example the words of a sentence, and its result is the sum of their rows. The rows stay in the table: the
 * kernel asks where they lie (loom::row_table::value_of) and reads them there. An array of all rows that were looked
 * up, 40 times as large as the result, is never written. */
#include "check.h"

#include <loom/device.cuh>

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 128, BAG_THREADS = 256 };

struct embedding {
    float numbers[NUMBERS];
};

/* One warp for each bag. `missed` counts ids that are not in the table; they add nothing. */
__global__ void __launch_bounds__(BAG_THREADS)
    sum_bags(const loom_map_view view, const uint64_t *ids, const uint64_t *offsets, uint32_t bags, embedding *sums,
             unsigned long long *missed)
{
    loom::row_table<uint64_t, embedding, LOOM_VIEW_FIND> table(view);
    const uint32_t lane = threadIdx.x % 32, bag = (blockIdx.x * BAG_THREADS + threadIdx.x) / 32;
    if (bag >= bags) /* the same for all lanes of the warp */
        return;
    float2 low = {0, 0}, high = {0, 0};
    for (uint64_t first = offsets[bag]; first < offsets[bag + 1]; first += 32) {
        /* Every lane looks one id up; then the warp reads the 32 rows one after the other, 8 bytes for each lane at a
         * time, since rows are aligned to 8 bytes. */
        const bool active = first + lane < offsets[bag + 1];
        const void *own = table.value_of(active ? ids[first + lane] : 0, active);
        if (active && own == NULL)
            atomicAdd(missed, 1ull);
        for (uint32_t found = __ballot_sync(0xffffffffu, own != NULL); found != 0; found &= found - 1) {
            const uint32_t from = __ffs(found) - 1;
            const float2 *row = (const float2 *)__shfl_sync(0xffffffffu, (unsigned long long)own, from);
            const float2 a = row[lane], b = row[lane + 32];
            low = make_float2(low.x + a.x, low.y + a.y);
            high = make_float2(high.x + b.x, high.y + b.y);
        }
    }
    float2 *to = (float2 *)sums[bag].numbers;
    to[lane] = low;
    to[lane + 32] = high;
}

/* Small whole numbers: their sums are exact in any order. */
static float number_of(uint64_t id, int i)
{
    return (float)((id * 31 + (uint64_t)i * 7) % 64);
}

static uint64_t id_of(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

int main()
{
    const uint64_t rows = 100000, most_in_bag = 80;
    const uint32_t bags = 10000;
    uint64_t *ids, *offsets, *bag_ids;
    embedding *table, *sums;
    unsigned long long *missed;
    CUDA(cudaMallocManaged(&ids, rows * sizeof *ids));
    CUDA(cudaMallocManaged(&table, rows * sizeof *table));
    CUDA(cudaMallocManaged(&offsets, (bags + 1) * sizeof *offsets));
    CUDA(cudaMallocManaged(&bag_ids, bags * most_in_bag * sizeof *bag_ids));
    CUDA(cudaMallocManaged(&sums, bags * sizeof *sums));
    CUDA(cudaMallocManaged(&missed, sizeof *missed));
    for (uint64_t row = 0; row < rows; row++) {
        ids[row] = id_of(row);
        for (int i = 0; i < NUMBERS; i++)
            table[row].numbers[i] = number_of(ids[row], i);
    }
    /* Bags of 0 to 80 ids. One id in a hundred has no row. */
    uint64_t random = 88172645463325252u, unknown = 0;
    offsets[0] = 0;
    for (uint32_t bag = 0; bag < bags; bag++) {
        const uint64_t length = bag % (most_in_bag + 1);
        for (uint64_t k = 0; k < length; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const bool known = (random >> 20) % 100 != 0;
            bag_ids[offsets[bag] + k] = id_of((random >> 33) % rows + (known ? 0 : rows));
            unknown += !known;
        }
        offsets[bag + 1] = offsets[bag] + length;
    }
    *missed = 0;

    loom_context *context;
    loom_map *map;
    loom_map_view view;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = sizeof *ids;
    config.value_bytes = sizeof(embedding); /* a width that only the rows engine has: it is the default then */
    config.capacity = rows;
    LOOM(loom_context_create(&with, &context));
    LOOM(loom_map_create(context, &config, &map));
    LOOM(loom_map_insert(map, ids, table, rows, LOOM_KEEP, NULL, NULL, NULL));

    LOOM(loom_map_view_begin(map, LOOM_VIEW_FIND, &view, NULL));
    sum_bags<<<(bags * 32 + BAG_THREADS - 1) / BAG_THREADS, BAG_THREADS>>>(view, bag_ids, offsets, bags, sums, missed);
    CUDA(cudaGetLastError());
    LOOM(loom_map_view_end(map, &view, NULL));
    CUDA(cudaDeviceSynchronize());

    /* The host adds the same rows up, to compare. */
    uint64_t wrong = 0;
    for (uint32_t bag = 0; bag < bags; bag++) {
        embedding expected = {};
        for (uint64_t k = offsets[bag]; k < offsets[bag + 1]; k++) {
            const bool known = bag_ids[k] * 0xf1de83e19937733du < rows; /* the factor undoes id_of */
            for (int i = 0; i < NUMBERS && known; i++)
                expected.numbers[i] += number_of(bag_ids[k], i);
        }
        wrong += memcmp(&expected, &sums[bag], sizeof expected) != 0;
    }
    printf("%u bags of %llu rows of %d bytes; %llu ids have no row\n", bags, (unsigned long long)offsets[bags],
           (int)sizeof(embedding), *missed);
    loom_map_destroy(map);
    loom_context_destroy(context);
    cudaFree(ids);
    cudaFree(table);
    cudaFree(offsets);
    cudaFree(bag_ids);
    cudaFree(sums);
    const bool right = wrong == 0 && *missed == unknown && unknown > 0;
    cudaFree(missed);
    if (!right) {
        fprintf(stderr, "wrong: %llu sums differ from those of the host\n", (unsigned long long)wrong);
        return 1;
    }
    return 0;
}
