/* What the device interface costs: a user's kernels run operations on pairs of 4 + 4 bytes, in both forms, beside the
 * library's own call in the same run.
 *
 *   loom_device_bench [keys] [load] [values]     10^8, 0.8 and 8 without arguments
 *
 * Appends go to a chain multimap. Each key gets its values one by one, with all other keys in between: `values` of
 * them, the pairs in all are `keys`. The last rows append to lists that a build has made.
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

/* Appends value i to key i % different. */
__global__ void __launch_bounds__(THREADS, 4)
    append_by_warps(const loom_map_view view, const word *keys, uint64_t different, uint64_t n, unsigned long long *ok)
{
    loom::multi_table<word, word, LOOM_VIEW_INSERT> table(view);
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool active = i < n;
    bool good = table.insert(active ? keys[i % different] : 0, (word)i, active) == LOOM_OK;
    count(ok, active && good);
}

__global__ void __launch_bounds__(THREADS, 4)
    append_by_groups(const loom_map_view view, const word *keys, uint64_t different, uint64_t n, unsigned long long *ok)
{
    loom::multi_table<word, word, LOOM_VIEW_INSERT> table(view);
    uint64_t i = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / LOOM_LANES;
    bool good = i < n && table.group_insert(keys[i % different], (word)i) == LOOM_OK;
    count(ok, good && threadIdx.x % LOOM_LANES == 0);
}

/* Counts the values that are as they were appended. */
__global__ void visit_by_warps(const loom_map_view view, const word *keys, uint64_t different, unsigned long long *ok)
{
    loom::multi_table<word, word> table(view);
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    bool active = i < different;
    unsigned long long good = 0;
    table.for_each_of(
        active ? keys[i] : 0, i, [&](uint64_t number, word, word value) { good += value % different == number; },
        active);
    for (int distance = 16; distance > 0; distance /= 2)
        good += __shfl_xor_sync(0xffffffffu, good, distance);
    if (threadIdx.x % 32 == 0 && good != 0)
        atomicAdd(&ok[blockIdx.x % 32 * 16], good);
}

__global__ void make_append_rows(word *keys, word *values, const word *from, uint64_t different, uint64_t n)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        keys[i] = from[i % different];
        values[i] = (word)i;
    }
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

/* `n` appends to `different` keys. */
static void bench_appends(loom_context *context, bench *b, uint64_t different, uint64_t n, double load)
{
    loom_map *open_map = b->map;
    const unsigned blocks = (unsigned)((n + THREADS - 1) / THREADS),
                   of_groups = (unsigned)((n * LOOM_LANES + THREADS - 1) / THREADS);
    word *rows, *values;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.type = LOOM_TYPE_MULTIMAP;
    config.engine = LOOM_ENGINE_CHAIN;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = different;
    config.values = 5 * n; /* built lists, and buckets of appended values with links */
    config.max_load = load;
    config.growth = 0;
    LOOM(loom_map_create(context, &config, &b->map));
    CUDA(cudaMalloc(&rows, n * sizeof(word)));
    CUDA(cudaMalloc(&values, n * sizeof(word)));
    make_append_rows<<<blocks, THREADS>>>(rows, values, b->keys, different, n);
    CUDA(cudaDeviceSynchronize());
    auto empty = [&] { LOOM(loom_map_clear(b->map, NULL, NULL)); };
    auto build = [&] { LOOM(loom_map_build(b->map, rows, values, n, LOOM_KEEP, NULL, NULL, NULL)); };
    auto by_warps = [&] {
        loom_map_view view;
        LOOM(loom_map_view_begin(b->map, LOOM_VIEW_INSERT, &view, NULL));
        append_by_warps<<<blocks, THREADS>>>(view, b->keys, different, n, b->ok);
        LOOM(loom_map_view_end(b->map, &view, NULL));
    };
    auto by_groups = [&] {
        loom_map_view view;
        LOOM(loom_map_view_begin(b->map, LOOM_VIEW_INSERT, &view, NULL));
        append_by_groups<<<of_groups, THREADS>>>(view, b->keys, different, n, b->ok);
        LOOM(loom_map_view_end(b->map, &view, NULL));
    };
    auto visit = [&] {
        loom_map_view view;
        LOOM(loom_map_view_begin(b->map, LOOM_VIEW_FIND, &view, NULL));
        visit_by_warps<<<(unsigned)((different + THREADS - 1) / THREADS), THREADS>>>(view, b->keys, different, b->ok);
        LOOM(loom_map_view_end(b->map, &view, NULL));
    };
    auto grown = [&] { empty(), by_warps(); };
    printf("%llu values of %llu keys, chain engine\n", (unsigned long long)n, (unsigned long long)different);
    row(b, "append", "the library", n, UINT64_MAX, empty,
        [&] { LOOM(loom_map_insert(b->map, rows, values, n, LOOM_KEEP, NULL, NULL, NULL)); });
    row(b, "append", "warps", n, n, empty, by_warps);
    row(b, "append", "groups", n, n, empty, by_groups);
    row(b, "visit grown", "warps", n, n, grown, visit);
    row(b, "visit built", "warps", n, n, build, visit);
    row(b, "append built", "warps", n, n, build, by_warps);
    LOOM(loom_map_verify(b->map, NULL));
    CUDA(cudaFree(rows));
    CUDA(cudaFree(values));
    loom_map_destroy(b->map);
    b->map = open_map;
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
    uint64_t values = argc > 3 ? strtoull(argv[3], NULL, 10) : 8;
    bench_appends(context, &b, n / values, n, config.max_load);
    loom_map_destroy(b.map);
    loom_context_destroy(context);
    return 0;
}
