/* What the device interface costs: a user's kernels run operations on pairs of 4 + 4 bytes, in both forms, beside the
 * library's own call in the same run.
 *
 *   loom_device_bench [keys] [load]     10^8 and 0.8 without arguments
 *
 * Rows: the operation, what runs it, G operations per second (the best of three). The right answers of our own kernels
 * are counted, and a wrong number ends the program. `loom bench map` checks the library's calls. */
#include "examples/check.h"

#include <loom/device.cuh>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint32_t word;
enum { THREADS = 256 };

/* A bijection of 32-bit words. */
__host__ __device__ word key_of(uint64_t i)
{
    word x = (word)i;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__global__ void make_keys(word *keys, uint64_t n, uint64_t first)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        keys[i] = key_of(first + i);
}

__device__ void count(unsigned long long *sum, bool mine)
{
    uint32_t votes = __ballot_sync(__activemask(), mine);
    if (votes != 0 && threadIdx.x % 32 == (uint32_t)__ffs((int)votes) - 1)
        atomicAdd(&sum[blockIdx.x % 32 * 16], (unsigned long long)__popc(votes)); /* 32 lines: no waiting at one */
}

enum operation { INSERT, FIND, ACCUMULATE, ERASE, MIXED };

template <loom_view_access access> using pairs = loom::table<word, word, access>;

/* By whole warps: every lane brings a key. */
template <operation op, loom_view_access access>
__global__ void by_warps(const loom_map_view view, const word *keys, uint64_t n, unsigned long long *ok)
{
    pairs<access> table(view);
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool active = i < n, good = false;
    word key = active ? keys[i] : 0;
    if constexpr (op == INSERT)
        good = table.insert(key, ~key, active) == LOOM_OK;
    if constexpr (op == FIND) {
        auto one = table.find(key, active);
        good = one.status == LOOM_OK && one.value == ~key;
    }
    if constexpr (op == ACCUMULATE)
        good = table.accumulate(key, 1, active) == LOOM_EXISTS;
    if constexpr (op == ERASE)
        good = table.erase(key, active) == LOOM_OK;
    if constexpr (op == MIXED) { /* even warps insert the first half of the keys, odd ones erase the second */
        bool inserts = i / 32 % 2 == 0;
        uint64_t half = (i / 64 * 32 + i % 32), at = inserts ? half : n / 2 + half;
        active = half < n / 2;
        key = active ? keys[at] : 0;
        loom_status told = inserts ? table.insert(key, ~key, active) : table.erase(key, active);
        good = told == LOOM_OK;
    }
    count(ok, active && good);
}

/* By single groups of lanes: LOOM_LANES lanes to a key. */
template <operation op, loom_view_access access>
__global__ void by_groups(const loom_map_view view, const word *keys, uint64_t n, unsigned long long *ok)
{
    pairs<access> table(view);
    uint64_t i = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / LOOM_LANES;
    bool good = false;
    if (i < n) {
        word key = keys[i];
        if constexpr (op == INSERT)
            good = table.group_insert(key, ~key) == LOOM_OK;
        if constexpr (op == FIND) {
            auto one = table.group_find(key);
            good = one.status == LOOM_OK && one.value == ~key;
        }
        if constexpr (op == ACCUMULATE)
            good = table.group_accumulate(key, 1) == LOOM_EXISTS;
        if constexpr (op == ERASE)
            good = table.group_erase(key) == LOOM_OK;
    }
    count(ok, good && threadIdx.x % LOOM_LANES == 0);
}

struct bench {
    loom_map *map;
    uint64_t n;
    word *keys, *values;
    unsigned long long *ok; /* [32 * 16] */
    loom_result *result;
    cudaEvent_t begin, end;
};

static unsigned long long counted(bench *b)
{
    unsigned long long host[32 * 16], sum = 0;
    CUDA(cudaMemcpy(host, b->ok, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        sum += host[16 * i];
    return sum;
}

/* The best of three. `prepare` brings the table into its state, `work` is timed, `good` answers are expected. */
template <class before, class work>
static void row(bench *b, const char *name, const char *by, uint64_t items, uint64_t good, before prepare, work timed)
{
    float best = 1e30f;
    for (int i = 0; i < 3; i++) {
        float ms;
        prepare();
        CUDA(cudaMemset(b->ok, 0, 32 * 16 * sizeof *b->ok));
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaEventRecord(b->begin));
        timed();
        CUDA(cudaEventRecord(b->end));
        CUDA(cudaEventSynchronize(b->end));
        CUDA(cudaEventElapsedTime(&ms, b->begin, b->end));
        best = ms < best ? ms : best;
        if (good != UINT64_MAX && counted(b) != good) {
            fprintf(stderr, "%s by %s: %llu good answers instead of %llu\n", name, by, counted(b),
                    (unsigned long long)good);
            exit(1);
        }
    }
    printf("%-12s %-14s %6.2f G/s\n", name, by, (double)items / best * 1e-6);
    fflush(stdout);
}

template <operation op, loom_view_access access> static void run_warps(bench *b, const word *keys, uint64_t n)
{
    loom_map_view view;
    LOOM(loom_map_view_begin(b->map, access, &view, NULL));
    by_warps<op, access><<<(unsigned)((n + THREADS - 1) / THREADS), THREADS>>>(view, keys, n, b->ok);
    LOOM(loom_map_view_end(b->map, &view, NULL));
}

template <operation op, loom_view_access access> static void run_groups(bench *b, const word *keys, uint64_t n)
{
    loom_map_view view;
    LOOM(loom_map_view_begin(b->map, access, &view, NULL));
    by_groups<op, access><<<(unsigned)((n * LOOM_LANES + THREADS - 1) / THREADS), THREADS>>>(view, keys, n, b->ok);
    LOOM(loom_map_view_end(b->map, &view, NULL));
}

int main(int argc, char **argv)
{
    bench b = {};
    const uint64_t n = b.n = argc > 1 ? strtoull(argv[1], NULL, 10) / 64 * 64 : 100000000 / 64 * 64;
    loom_context *context;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = n;
    config.max_load = argc > 2 ? atof(argv[2]) : 0.8;
    config.growth = 0;
    LOOM(loom_context_create(&with, &context));
    LOOM(loom_map_create(context, &config, &b.map));
    CUDA(cudaMalloc(&b.keys, 2 * n * sizeof(word)));
    CUDA(cudaMalloc(&b.values, 2 * n * sizeof(word)));
    CUDA(cudaMalloc(&b.ok, 32 * 16 * sizeof *b.ok));
    CUDA(cudaMalloc(&b.result, sizeof *b.result));
    CUDA(cudaEventCreate(&b.begin));
    CUDA(cudaEventCreate(&b.end));
    make_keys<<<(unsigned)((2 * n + 255) / 256), 256>>>(b.keys, 2 * n, 0);
    CUDA(cudaDeviceSynchronize());
    const word *absent = b.keys + n;
    auto empty = [&] { LOOM(loom_map_clear(b.map, NULL, NULL)); };
    auto made = [&] { empty(), run_warps<INSERT, LOOM_VIEW_INSERT>(&b, b.keys, n); };
    auto nothing = [] {};

    printf("%llu pairs of 4 + 4 bytes, load %.2f, groups of %d lanes\n", (unsigned long long)n, config.max_load,
           LOOM_LANES);
    row(&b, "insert", "the library", n, UINT64_MAX, empty,
        [&] { LOOM(loom_map_insert(b.map, b.keys, b.values, n, LOOM_KEEP | LOOM_DIRECTLY, NULL, b.result, NULL)); });
    row(&b, "insert", "warps", n, n, empty, [&] { run_warps<INSERT, LOOM_VIEW_INSERT>(&b, b.keys, n); });
    row(&b, "insert", "groups", n, n, empty, [&] { run_groups<INSERT, LOOM_VIEW_INSERT>(&b, b.keys, n); });
    made();
    row(&b, "find hit", "the library", n, UINT64_MAX, nothing,
        [&] { LOOM(loom_map_find(b.map, b.keys, n, b.values, NULL, NULL, b.result, NULL)); });
    row(&b, "find hit", "warps", n, n, nothing, [&] { run_warps<FIND, LOOM_VIEW_FIND>(&b, b.keys, n); });
    row(&b, "find hit", "groups", n, n, nothing, [&] { run_groups<FIND, LOOM_VIEW_FIND>(&b, b.keys, n); });
    row(&b, "find miss", "the library", n, UINT64_MAX, nothing,
        [&] { LOOM(loom_map_find(b.map, absent, n, b.values, NULL, NULL, b.result, NULL)); });
    row(&b, "find miss", "warps", n, 0, nothing, [&] { run_warps<FIND, LOOM_VIEW_FIND>(&b, absent, n); });
    row(&b, "find miss", "groups", n, 0, nothing, [&] { run_groups<FIND, LOOM_VIEW_FIND>(&b, absent, n); });
    row(&b, "accumulate", "the library", n, UINT64_MAX, nothing,
        [&] { LOOM(loom_map_count(b.map, b.keys, n, NULL, b.result, NULL)); });
    row(&b, "accumulate", "warps", n, n, nothing, [&] { run_warps<ACCUMULATE, LOOM_VIEW_ACCUMULATE>(&b, b.keys, n); });
    row(&b, "accumulate", "groups", n, n, nothing,
        [&] { run_groups<ACCUMULATE, LOOM_VIEW_ACCUMULATE>(&b, b.keys, n); });
    row(&b, "erase half", "the library", n / 2, UINT64_MAX, made,
        [&] { LOOM(loom_map_erase(b.map, b.keys, n / 2, NULL, b.result, NULL)); });
    row(&b, "erase half", "warps", n / 2, n / 2, made, [&] { run_warps<ERASE, LOOM_VIEW_ERASE>(&b, b.keys, n / 2); });
    row(&b, "erase half", "groups", n / 2, n / 2, made, [&] { run_groups<ERASE, LOOM_VIEW_ERASE>(&b, b.keys, n / 2); });
    /* A twentieth comes and as many go: in one kernel, sweep included, and by two calls, one after the other. */
    uint64_t some = n / 20 / 64 * 64;
    auto most = [&] { /* the keys but the first ones, which will come */
                      empty();
                      run_warps<INSERT, LOOM_VIEW_INSERT>(&b, b.keys + some, n - some);
    };
    row(&b, "both", "one kernel", 2 * some, 2 * some, most,
        [&] { run_warps<MIXED, LOOM_VIEW_MIXED>(&b, b.keys, 2 * some); });
    row(&b, "both", "two calls", 2 * some, UINT64_MAX, most, [&] {
        LOOM(loom_map_erase(b.map, b.keys + some, some, NULL, b.result, NULL));
        LOOM(loom_map_insert(b.map, b.keys, b.values, some, LOOM_KEEP, NULL, b.result, NULL));
    });
    LOOM(loom_map_verify(b.map, NULL));
    loom_map_destroy(b.map);
    loom_context_destroy(context);
    return 0;
}
