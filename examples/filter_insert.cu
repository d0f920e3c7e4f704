/* A user's kernel with loom/device.cuh: it reads rows, keeps some of them and inserts these into a table, in one pass
 * over the data. It writes no intermediate array. A row that is filtered out costs only one read. */
#include "check.h"

#include <loom/device.cuh>

#include <cuda_runtime.h>
#include <stdio.h>

struct row {
    uint32_t product, price;
};

/* Stores the products that were sold for `least` or more, each with one such price. */
__global__ void keep_dear(const loom_map_view view, const row *rows, uint64_t n, uint32_t least)
{
    loom::table<uint32_t, uint32_t, LOOM_VIEW_INSERT> dear(view);
    uint64_t threads = (uint64_t)gridDim.x * blockDim.x, begin = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    /* insert() needs all lanes of a warp together, so all lanes make the same number of rounds. */
    for (uint64_t base = begin - threadIdx.x % 32; base < n; base += threads) {
        uint64_t i = base + threadIdx.x % 32;
        row one = i < n ? rows[i] : row{0, 0};
        dear.insert(one.product, one.price, i < n && one.price >= least);
    }
}

int main()
{
    const uint64_t n = 10000000;
    const uint32_t products = 200000, least = 900;
    row *rows;
    loom_context *context;
    loom_map *dear;
    loom_map_view view;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = products;
    LOOM(loom_context_create(&with, &context));
    LOOM(loom_map_create(context, &config, &dear));
    CUDA(cudaMallocManaged(&rows, n * sizeof *rows));
    for (uint64_t i = 0; i < n; i++) { /* prices 0 to 999; the prices of one product are within 100 of each other */
        uint32_t product = (uint32_t)(i * 2654435761u % products);
        rows[i] = row{product, product % 901 + (uint32_t)(i / products % 100)};
    }

    LOOM(loom_map_view_begin(dear, LOOM_VIEW_INSERT, &view, NULL));
    keep_dear<<<1024, 256>>>(view, rows, n, least);
    CUDA(cudaGetLastError());
    LOOM(loom_map_view_end(dear, &view, NULL));

    /* The host counts the same products, to compare. */
    uint64_t expected = 0, size;
    for (uint32_t product = 0; product < products; product++) {
        bool sold = false;
        for (uint64_t i = 0; i < n / products && !sold; i++)
            sold = product % 901 + i % 100 >= least;
        expected += sold;
    }
    LOOM(loom_map_size(dear, &size, NULL));
    printf("%llu of %u products were sold for %u or more\n", (unsigned long long)size, products, least);
    loom_map_destroy(dear);
    loom_context_destroy(context);
    cudaFree(rows);
    if (size != expected) {
        fprintf(stderr, "wrong: the host counted another number\n");
        return 1;
    }
    return 0;
}
