/* The device interface, loom/device.cuh, for groups of LOOM_LANES lanes. Kernels work on a table through views. Then
 * host calls, which have tests of their own, read the table. The including file sets LOOM_LANES. */
#include "device/require.cuh"

#include <loom/device.cuh>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace
{

/* Memory that both sides see. */
template <class element> struct shared_array {
    element *at = nullptr;
    explicit shared_array(size_t n)
    {
        REQUIRE_CUDA(cudaMallocManaged(&at, n * sizeof(element)));
        memset((void *)at, 0, n * sizeof(element));
    }
    ~shared_array()
    {
        cudaFree(at);
    }
    shared_array(const shared_array &) = delete;
};

/* Bijections of words: keys that look random, differ, and are known again. */
__host__ __device__ uint32_t spread(uint32_t i, uint32_t)
{
    i = (i ^ i >> 16) * 0x7feb352du;
    i = (i ^ i >> 15) * 0x846ca68bu;
    return i ^ i >> 16;
}
__host__ __device__ uint64_t spread(uint32_t i, uint64_t)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}
template <class key> __host__ __device__ key key_of(uint32_t i)
{
    return spread(i, key{});
}
template <class value> __host__ __device__ value value_of(uint32_t i)
{
    if constexpr (loom::detail::width<value>::bytes == 0)
        return value{};
    else
        return (value)(i * 7 + 1);
}

enum { BLOCK = 128 };
bool shaped; /* blocks have three dimensions, grids two */

template <class key, class value> struct fixture {
    static constexpr bool is_set = loom::detail::width<value>::bytes == 0;
    loom_context *context = nullptr;
    loom_map *map = nullptr;
    uint32_t n;
    shared_array<key> keys;
    shared_array<uint64_t> values; /* of either width */
    shared_array<uint8_t> status;

    fixture(uint32_t count, uint64_t capacity, loom_engine engine = LOOM_ENGINE_OPEN)
        : n(count), keys(count + 1), values(count + 1), status(count + 1)
    {
        loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
        with.machine = LOOM_MACHINE_CUDA;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = is_set ? LOOM_TYPE_SET : LOOM_TYPE_MAP;
        config.key_bytes = sizeof(key);
        config.value_bytes = loom::detail::width<value>::bytes;
        config.capacity = capacity;
        config.engine = engine;
        REQUIRE_OK(loom_context_create(&with, &context));
        REQUIRE_OK(loom_map_create(context, &config, &map));
        for (uint32_t i = 0; i < n; i++)
            keys.at[i] = key_of<key>(i);
    }
    ~fixture()
    {
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    fixture(const fixture &) = delete;

    value *array()
    {
        return is_set ? nullptr : (value *)values.at;
    }
    void insert_by_host(uint32_t count)
    {
        for (uint32_t i = 0; i < count && !is_set; i++)
            array()[i] = value_of<value>(i);
        REQUIRE_OK(loom_map_insert(map, keys.at, array(), count, LOOM_KEEP, NULL, NULL, NULL));
    }
    uint64_t size()
    {
        uint64_t size;
        REQUIRE_OK(loom_map_size(map, &size, NULL));
        return size;
    }
    /* Statuses and values of all keys, by the host. */
    void look_up()
    {
        REQUIRE_OK(loom_map_verify(map, NULL));
        REQUIRE_OK(loom_map_find(map, keys.at, n, array(), NULL, status.at, NULL, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
    }
    template <class kernel, class... arguments>
    void run(loom_view_access access, kernel launched, uint32_t items, arguments... others)
    {
        loom_map_view view;
        uint32_t blocks = (items + BLOCK - 1) / BLOCK, rows = shaped ? (blocks % 5 == 0 ? 5 : blocks) : 1;
        REQUIRE_OK(loom_map_view_begin(map, access, &view, NULL));
        launched<<<dim3(blocks / rows, rows), shaped ? dim3(4, 8, BLOCK / 32) : dim3(BLOCK)>>>(view, keys.at, items,
                                                                                               others...);
        REQUIRE_CUDA(cudaGetLastError());
        REQUIRE_OK(loom_map_view_end(map, &view, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
    }
};

/* By threads as the hardware counts them, so that items of a warp are neighbours. */
__device__ __forceinline__ uint32_t own_item()
{
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    return (blockIdx.y * gridDim.x + blockIdx.x) * BLOCK + thread;
}

/* ---- what the compiler refuses: values that were meant as `active`, and the other way round ---- */

template <class... arguments> struct list {
};
template <class table, class given, class = void> struct inserts_by : std::false_type {
};
template <class table, class... arguments>
struct inserts_by<table, list<arguments...>,
                  std::void_t<decltype(std::declval<const table &>().insert(std::declval<arguments>()...))>>
    : std::true_type {
};
template <class table, class given, class = void> struct inserts_by_group : std::false_type {
};
template <class table, class... arguments>
struct inserts_by_group<table, list<arguments...>,
                        std::void_t<decltype(std::declval<const table &>().group_insert(std::declval<arguments>()...))>>
    : std::true_type {
};
/* The other functions with values: insert_or_assign, find_or_insert, accumulate, and their group forms. */
template <class table, class value, class = void> struct writes : std::false_type {
};
template <class table, class value>
struct writes<table, value,
              std::void_t<decltype(std::declval<const table &>().insert_or_assign(0, std::declval<value>()))>>
    : std::true_type {
};
template <class table, class value, class = void> struct fetches : std::false_type {
};
template <class table, class value>
struct fetches<table, value,
               std::void_t<decltype(std::declval<const table &>().find_or_insert(0, std::declval<value>()))>>
    : std::true_type {
};
template <class table, class value, class = void> struct adds : std::false_type {
};
template <class table, class value>
struct adds<table, value, std::void_t<decltype(std::declval<const table &>().accumulate(0, std::declval<value>()))>>
    : std::true_type {
};
template <class table, class value, class = void> struct adds_by_group : std::false_type {
};
template <class table, class value>
struct adds_by_group<table, value,
                     std::void_t<decltype(std::declval<const table &>().template group_accumulate<LOOM_COMBINE_MAX>(
                         0, std::declval<value>()))>> : std::true_type {
};

template <class number> struct refusals {
    using map = loom::table<uint32_t, number, LOOM_VIEW_INSERT>;
    using counter = loom::table<uint32_t, number, LOOM_VIEW_ACCUMULATE>;
    using set = loom::table<number, loom::none, LOOM_VIEW_MIXED>;

    static_assert(inserts_by<map, list<uint32_t, number>>::value && inserts_by<map, list<int, int, bool>>::value);
    static_assert(!inserts_by<map, list<uint32_t>>::value, "a map's key needs a value");
    static_assert(!inserts_by<map, list<uint32_t, bool>>::value, "which a bool is not");
    static_assert(!inserts_by<map, list<uint32_t, bool, number>>::value);
    static_assert(!inserts_by<map, list<uint32_t, bool &, bool>>::value);
    static_assert(inserts_by_group<map, list<uint32_t, number>>::value);
    static_assert(!inserts_by_group<map, list<uint32_t>>::value);
    static_assert(!inserts_by_group<map, list<uint32_t, bool>>::value);

    static_assert(inserts_by<set, list<number>>::value && inserts_by<set, list<int, bool>>::value);
    static_assert(inserts_by<set, list<number, loom::none, bool>>::value && inserts_by<set, list<int, bool &>>::value);
    static_assert(!inserts_by<set, list<number, number>>::value, "a set has no values");
    static_assert(!inserts_by<set, list<number, int>>::value && !inserts_by<set, list<number, void *>>::value);
    static_assert(!inserts_by<set, list<number, number, bool>>::value);
    static_assert(!inserts_by<set, list<number, bool, bool>>::value);
    static_assert(inserts_by_group<set, list<number>>::value && inserts_by_group<set, list<number, loom::none>>::value);
    static_assert(!inserts_by_group<set, list<number, number>>::value);
    static_assert(!inserts_by_group<set, list<number, bool>>::value);

    static_assert(writes<map, int>::value && !writes<map, bool>::value);
    static_assert(fetches<map, int>::value && !fetches<map, bool>::value);
    static_assert(adds<counter, int>::value && !adds<counter, bool>::value);
    static_assert(adds_by_group<counter, int>::value && !adds_by_group<counter, bool>::value);
};
template struct refusals<uint32_t>;
template struct refusals<uint64_t>;

/* ---- insert: every key twice in the grid; odd ones by groups, in diverging code ---- */

template <class key, class value>
__global__ void insert_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *stored)
{
    loom::table<key, value, LOOM_VIEW_INSERT> table(view);
    uint32_t item = own_item(), half = n / 2;
    bool active = item < n;
    uint32_t i = active ? item % half : 0;
    loom_status told;
    if constexpr (loom::detail::width<value>::bytes == 0)
        told = table.insert(keys[i], active);
    else
        told = table.insert(keys[i], value_of<value>(i), active);
    if (active && told == LOOM_OK)
        atomicAdd(stored, 1ull);
    if (!table.contains(keys[i], active) && active)
        atomicAdd(stored, 1ull << 32);
    uint32_t shared_item = item / LOOM_LANES; /* one for a group */
    if (shared_item < half && shared_item % 3 == 1) {
        uint32_t other = half + shared_item;
        told = table.group_insert(keys[other], value_of<value>(other));
        if (told == LOOM_OK && item % LOOM_LANES == 0)
            atomicAdd(stored, 1ull);
        if (!table.group_contains(keys[other]))
            atomicAdd(stored, 1ull << 32);
    }
}

template <class key, class value> void test_insert()
{
    uint32_t n = 40000, half = n / 2;
    fixture<key, value> f(n, n);
    shared_array<unsigned long long> stored(1);
    f.run(LOOM_VIEW_INSERT, insert_kernel<key, value>, n, stored.at);
    uint32_t by_groups = 0;
    for (uint32_t i = 0; i < half && i < (n + BLOCK - 1) / BLOCK * BLOCK / LOOM_LANES; i++)
        by_groups += i % 3 == 1;
    REQUIRE(stored.at[0] == half + by_groups);
    REQUIRE(f.size() == half + by_groups);
    f.look_up();
    for (uint32_t i = 0; i < n; i++) {
        bool there = i < half || ((i - half) % 3 == 1 && i - half < (n + BLOCK - 1) / BLOCK * BLOCK / LOOM_LANES);
        REQUIRE(f.status.at[i] == (there ? LOOM_OK : LOOM_NOT_FOUND));
        if constexpr (!fixture<key, value>::is_set)
            REQUIRE(f.array()[i] == (there ? value_of<value>(i) : value{}));
    }
}

/* ---- find, find_or_insert, insert_or_assign ---- */

template <class key, class value>
__global__ void find_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *wrong,
                            uint32_t present)
{
    loom::table<key, value, LOOM_VIEW_FIND> table(view);
    uint32_t item = own_item();
    bool active = item < n;
    uint32_t i = active ? item : 0;
    auto one = table.find(keys[i], active);
    bool bad = active && one.status != (i < present ? LOOM_OK : LOOM_NOT_FOUND);
    if constexpr (loom::detail::width<value>::bytes != 0)
        bad = bad || (active && one.value != (i < present ? value_of<value>(i) : value{}));
    uint32_t of_group = item / LOOM_LANES;
    if (of_group < n && of_group % 2 == 0) {
        auto other = table.group_find(keys[of_group]);
        bad = bad || other.status != (of_group < present ? LOOM_OK : LOOM_NOT_FOUND);
        if constexpr (loom::detail::width<value>::bytes != 0)
            bad = bad || other.value != (of_group < present ? value_of<value>(of_group) : value{});
    }
    if (bad)
        atomicAdd(wrong, 1ull);
    table.for_each([&](key, value) { atomicAdd(wrong + 1, 1ull); });
}

template <class key, class value>
__global__ void fetch_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *wrong,
                             uint32_t present)
{
    loom::table<key, value, LOOM_VIEW_INSERT> table(view);
    uint32_t item = own_item();
    bool active = item < n;
    uint32_t i = active ? item / 2 : 0; /* every key from two lanes */
    auto one = table.find_or_insert(keys[i], value_of<value>(i), active);
    if (active && (one.value != value_of<value>(i) || (one.status == LOOM_OK && i < present)))
        atomicAdd(wrong, 1ull);
    uint32_t of_group = item / LOOM_LANES;
    if (of_group < n / 2 && of_group % 2 == 0) {
        auto other = table.group_find_or_insert(keys[of_group], value_of<value>(of_group));
        if (other.value != value_of<value>(of_group))
            atomicAdd(wrong, 1ull);
    }
    if (table.insert_or_assign(keys[i], value_of<value>(i), active) != (active ? LOOM_EXISTS : LOOM_OK))
        atomicAdd(wrong, 1ull);
    if (of_group < n / 2 && table.group_insert_or_assign(keys[of_group], value_of<value>(of_group)) > LOOM_EXISTS)
        atomicAdd(wrong, 1ull);
}

template <class key, class value> void test_find()
{
    uint32_t n = 30000, present = n / 3;
    fixture<key, value> f(n, n);
    shared_array<unsigned long long> wrong(2);
    f.insert_by_host(present);
    f.run(LOOM_VIEW_FIND, find_kernel<key, value>, n, wrong.at, present);
    REQUIRE(wrong.at[0] == 0);
    REQUIRE(wrong.at[1] == present);
    if constexpr (!fixture<key, value>::is_set) {
        f.run(LOOM_VIEW_INSERT, fetch_kernel<key, value>, n, wrong.at, present);
        REQUIRE(wrong.at[0] == 0);
        REQUIRE(f.size() == n / 2);
        f.look_up();
        for (uint32_t i = 0; i < n; i++)
            REQUIRE(f.status.at[i] == (i < n / 2 ? LOOM_OK : LOOM_NOT_FOUND));
    }
}

/* ---- hash ---- */

template <class key>
__global__ void hash_kernel(const key *keys, uint32_t n, uint64_t seed, const uint64_t *wanted,
                            unsigned long long *wrong)
{
    const uint32_t item = own_item();
    if (item < n && loom::hash(keys[item], seed) != wanted[item])
        atomicAdd(wrong, 1ull);
}

/* Kernels and the host compute the same hashes. */
template <class key> void test_hash()
{
    const uint32_t n = 10000;
    fixture<key, loom::none> f(n, n);
    shared_array<uint64_t> hashes(n);
    shared_array<unsigned long long> wrong(1);
    loom_stats stats = LOOM_STATS_INIT;
    REQUIRE_OK(loom_map_stats(f.map, &stats, NULL));
    const uint64_t seeds[] = {0, 1, UINT64_MAX, stats.seed};
    for (uint64_t seed : seeds) {
        REQUIRE_OK(loom_hash(f.context, f.keys.at, sizeof(key), n, seed, hashes.at, NULL));
        hash_kernel<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(f.keys.at, n, seed, hashes.at, wrong.at);
        REQUIRE_CUDA(cudaGetLastError());
        REQUIRE_CUDA(cudaDeviceSynchronize());
        REQUIRE(wrong.at[0] == 0);
    }
}

/* ---- accumulate ---- */

template <class key, class value, loom_combine combine>
__global__ void accumulate_kernel(const loom_map_view view, const key *keys, uint32_t n, uint32_t groups)
{
    loom::table<key, value, LOOM_VIEW_ACCUMULATE> table(view);
    uint32_t item = own_item();
    bool active = item < n;
    table.template accumulate<combine>(keys[active ? item % groups : 0], (value)(item % 1000), active);
    uint32_t of_group = item / LOOM_LANES;
    if (of_group < groups)
        table.template group_accumulate<combine>(keys[of_group], (value)500);
}

template <class key, class value, loom_combine combine> void test_accumulate()
{
    uint32_t n = 60000, groups = 1700; /* fewer than groups of lanes, so that each gets its 500 */
    fixture<key, value> f(n, groups);
    f.run(LOOM_VIEW_ACCUMULATE, accumulate_kernel<key, value, combine>, n, groups);
    REQUIRE(f.size() == groups);
    f.look_up();
    std::vector<uint64_t> expected(groups);
    for (uint32_t i = 0; i < groups; i++)
        expected[i] = 500;
    for (uint32_t item = 0; item < n; item++) {
        uint64_t *sum = &expected[item % groups], one = item % 1000;
        *sum = combine == LOOM_COMBINE_ADD   ? *sum + one
               : combine == LOOM_COMBINE_MIN ? (*sum < one ? *sum : one)
                                             : (*sum > one ? *sum : one);
    }
    for (uint32_t i = 0; i < groups; i++)
        REQUIRE(f.array()[i] == (value)expected[i]);
}

/* ---- erase, and all at once ---- */

template <class key, class value>
__global__ void erase_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *erased)
{
    loom::table<key, value, LOOM_VIEW_ERASE> table(view);
    uint32_t item = own_item();
    bool active = item < n;
    loom_status told = table.erase(keys[active ? item / 2 * 2 : 0], active); /* even ones, each from two lanes */
    if (active && told == LOOM_OK)
        atomicAdd(erased, 1ull);
    uint32_t of_group = item / LOOM_LANES;
    if (of_group < n && of_group % 4 == 1 && table.group_erase(keys[of_group]) == LOOM_OK && item % LOOM_LANES == 0)
        atomicAdd(erased, 1ull);
}

template <class key, class value> void test_erase()
{
    uint32_t n = 30000;
    fixture<key, value> f(n, n);
    shared_array<unsigned long long> erased(1);
    f.insert_by_host(n);
    f.run(LOOM_VIEW_ERASE, erase_kernel<key, value>, n, erased.at);
    f.look_up();
    uint32_t there = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t groups = (n + BLOCK - 1) / BLOCK * BLOCK / LOOM_LANES;
        bool gone = i % 2 == 0 || (i % 4 == 1 && i < groups);
        REQUIRE(f.status.at[i] == (gone ? LOOM_NOT_FOUND : LOOM_OK));
        there += !gone;
    }
    REQUIRE(f.size() == there);
    REQUIRE(erased.at[0] == n - there);
}

/* All threads of the grid share the table. Of keys with an odd number, erase erases some at the same time. */
template <class key, class value, loom_view_access access>
__global__ void erase_if_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *erased,
                                unsigned long long *wrong, uint32_t third)
{
    loom::table<key, value, access> table(view);
    uint32_t item = own_item();
    bool active = item < n && item % 6 == 0;
    loom_status told = table.erase(keys[item < n ? item : 0], active);
    uint64_t mine = table.erase_if([&](key k, value v) {
        if constexpr (loom::detail::width<value>::bytes != 0) {
            if (key_of<key>((uint32_t)((v - 1) / 7)) != k)
                atomicAdd(wrong, 1ull);
            return (v - 1) / 7 % 3 == third;
        } else {
            return k % 3 == third;
        }
    });
    mine += active && told == LOOM_OK;
    if (mine > 0)
        atomicAdd(erased, (unsigned long long)mine);
}

template <class key, class value, loom_view_access access> void test_erase_if()
{
    uint32_t n = 30000;
    fixture<key, value> f(n, n);
    shared_array<unsigned long long> erased(1), wrong(1);
    f.insert_by_host(n);
    for (uint32_t third = 0; third < 3; third++) {
        f.run(access, erase_if_kernel<key, value, access>, n, erased.at, wrong.at, third);
        f.look_up();
        uint64_t there = 0;
        for (uint32_t i = 0; i < n; i++) {
            bool in = (f.is_set ? (uint32_t)(f.keys.at[i] % 3) : i % 3) <= third || i % 6 == 0;
            REQUIRE(f.status.at[i] == (in ? LOOM_NOT_FOUND : LOOM_OK));
            there += !in;
        }
        REQUIRE(f.size() == there);
        REQUIRE(erased.at[0] == n - there);
        REQUIRE(wrong.at[0] == 0);
    }
}

/* Several lanes of the grid erase and insert each key at the same time. Some keys are only erased, some only inserted.
 * The outcomes are summed up for each key. */
template <class key, class value>
__global__ void mixed_kernel(const loom_map_view view, const key *keys, uint32_t n, int *stored, uint32_t count,
                             unsigned long long *wrong)
{
    loom::table<key, value, LOOM_VIEW_MIXED> table(view);
    uint32_t item = own_item();
    bool active = item < n;
    uint32_t i = active ? item % count : 0, turn = item / count;
    bool inserts = turn % 2 == 0 && i % 4 != 1, erases = turn % 2 == 1 && i % 4 != 2;
    loom_status told = table.insert(keys[i], value_of<value>(i), active && inserts);
    if (active && inserts && told == LOOM_OK)
        atomicAdd(&stored[i], 1);
    if (told == LOOM_FULL)
        atomicAdd(wrong, 1ull);
    told = table.erase(keys[i], active && erases);
    if (active && erases && told == LOOM_OK)
        atomicAdd(&stored[i], -1);
    auto seen = table.find(keys[i], active);
    if constexpr (loom::detail::width<value>::bytes != 0) {
        if (active && seen.status == LOOM_OK && seen.value != value_of<value>(i))
            atomicAdd(wrong, 1ull);
        auto fetched = table.find_or_insert(keys[i], value_of<value>(i), active && i % 8 == 0);
        if (active && i % 8 == 0) {
            if (fetched.value != value_of<value>(i))
                atomicAdd(wrong, 1ull);
            if (fetched.status == LOOM_OK)
                atomicAdd(&stored[i], 1);
        }
    }
    if (i % 16 == 3 && active && LOOM_LANES == 1) { /* lanes are groups: diverging code */
        if (table.group_erase(keys[i]) == LOOM_OK)
            atomicAdd(&stored[i], -1);
        if (table.group_insert(keys[i], value_of<value>(i)) == LOOM_OK)
            atomicAdd(&stored[i], 1);
    }
}

template <class key, class value> void test_mixed()
{
    uint32_t count = 3000, n = count * 16;
    fixture<key, value> f(count, count * 40); /* room: slots that were freed come back only afterwards */
    f.insert_by_host(count / 2);
    shared_array<int> stored(count);
    shared_array<unsigned long long> wrong(1);
    for (int round = 0; round < 5; round++) {
        std::vector<int> before(count);
        f.look_up();
        for (uint32_t i = 0; i < count; i++) {
            before[i] = f.status.at[i] == LOOM_OK;
            stored.at[i] = 0;
        }
        f.run(LOOM_VIEW_MIXED, mixed_kernel<key, value>, n, stored.at, count, wrong.at);
        REQUIRE(wrong.at[0] == 0);
        f.look_up();
        uint64_t there = 0;
        for (uint32_t i = 0; i < count; i++) {
            REQUIRE(before[i] + stored.at[i] == (f.status.at[i] == LOOM_OK ? 1 : 0));
            there += f.status.at[i] == LOOM_OK;
        }
        REQUIRE(f.size() == there);
    }
}

/* ---- views that do not fit ---- */

__global__ void refused_kernel(const loom_map_view view, loom_status *told)
{
    loom::table<uint32_t, uint32_t, LOOM_VIEW_INSERT> table(view);
    loom_status one = table.insert(threadIdx.x, 1), other = table.group_insert(threadIdx.x / LOOM_LANES, 1);
    if (threadIdx.x == 0) {
        told[0] = table.status();
        told[1] = one;
        told[2] = other;
    }
}

void test_refused()
{
    fixture<uint32_t, uint32_t> f(64, 1000);
    shared_array<loom_status> told(3);
    loom_map_view view, bent;
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_INSERT, &view, NULL));
    for (int fault = 0; fault < 4; fault++) {
        bent = view;
        bent.layout += fault == 0;
        bent.access = fault == 1 ? LOOM_VIEW_ERASE : bent.access;
        bent.value_bytes = fault == 2 ? 8 : bent.value_bytes;
        bent.generation += fault == 3;
        refused_kernel<<<1, 32>>>(bent, told.at);
        REQUIRE_CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < 3; i++)
            REQUIRE(told.at[i] == (fault == 3 ? LOOM_CHANGED : LOOM_INVALID_ARGUMENT));
    }
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE(f.size() == 0);
}

/* ---- a table destroyed while a kernel works with a view of it ---- */

struct watched_memory {
    cudaStream_t stream;
    int released, while_running;
};

void *allocate_watched(void *, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream)
{
    void *memory = nullptr;
    if (kind == LOOM_MEMORY_HOST)
        return posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, bytes) == 0 ? memory
                                                                                                          : nullptr;
    return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}

/* Allocators may reuse memory at once: memory that they get back is not in use any more. */
void release_watched(void *user, void *memory, size_t, loom_memory_kind kind, loom_stream)
{
    watched_memory *watched = (watched_memory *)user;
    if (kind == LOOM_MEMORY_HOST) {
        free(memory);
        return;
    }
    watched->released++;
    watched->while_running += cudaStreamQuery(watched->stream) == cudaErrorNotReady;
    cudaFree(memory);
}

__global__ void slow_kernel(const loom_map_view view, unsigned long long *stored)
{
    loom::table<uint32_t, uint32_t, LOOM_VIEW_INSERT> table(view);
    for (int i = 0; i < 200; i++) {
        __nanosleep(1000000); /* at least half of it: a tenth of a second in all */
        if (table.insert(i * 32 + threadIdx.x, 1) == LOOM_OK)
            atomicAdd(stored, 1ull);
    }
}

void test_destroyed()
{
    watched_memory watched = {};
    shared_array<unsigned long long> stored(1);
    loom_context *context;
    loom_map *map;
    loom_map_view view;
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CUDA;
    with.allocator.allocate = allocate_watched;
    with.allocator.release = release_watched;
    with.allocator.user = &watched;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = 10000;
    REQUIRE_CUDA(cudaStreamCreateWithFlags(&watched.stream, cudaStreamNonBlocking));
    REQUIRE_OK(loom_context_create(&with, &context));
    REQUIRE_OK(loom_map_create(context, &config, &map));
    REQUIRE_OK(loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, watched.stream));
    slow_kernel<<<1, 32, 0, watched.stream>>>(view, stored.at);
    REQUIRE_CUDA(cudaGetLastError());
    loom_map_destroy(map);
    REQUIRE(watched.released == 1);
    REQUIRE(watched.while_running == 0);
    REQUIRE(stored.at[0] == 200 * 32);
    loom_context_destroy(context);
    REQUIRE_CUDA(cudaStreamDestroy(watched.stream));
}

} // namespace

#include "device/filter_tests.cuh"
#include "device/perfect_tests.cuh"
#include "device/rows_tests.cuh"

#include "device/multi_tests.cuh"

#include "device/append_tests.cuh"

extern bool tables_may_move;

namespace
{

int passed;

void pass(const char *name)
{
    printf("ok device-%s-lanes-%d\n", name, LOOM_LANES);
    passed++;
}

template <class key, class value> void test_perfect(const char *widths)
{
    test_perfect_find<key, value>();
    test_perfect_after_writes<key, value>();
    pass(widths);
}

template <class key, class value> void test_appends()
{
    test_append<key, value>();
    test_append_without_room<key, value>();
    test_append_leaves_clean_files<key, value>();
}

template <class key, class value> void test_widths(const char *widths)
{
    test_insert<key, value>();
    test_find<key, value>();
    test_erase<key, value>();
    test_erase_if<key, value, LOOM_VIEW_ERASE>();
    test_erase_if<key, value, LOOM_VIEW_MIXED>();
    test_mixed<key, value>();
    pass(widths);
}

} // namespace

int TEST_NAME()
{
    test_widths<uint32_t, uint32_t>("4-4");
    test_widths<uint32_t, uint64_t>("4-8");
    test_widths<uint64_t, uint32_t>("8-4");
    test_widths<uint64_t, uint64_t>("8-8");
    test_widths<uint32_t, loom::none>("set-4");
    test_widths<uint64_t, loom::none>("set-8");
    test_accumulate<uint32_t, uint32_t, LOOM_COMBINE_ADD>();
    test_accumulate<uint32_t, int32_t, LOOM_COMBINE_MIN>();
    test_accumulate<uint32_t, float, LOOM_COMBINE_ADD>();
    test_accumulate<uint64_t, uint64_t, LOOM_COMBINE_ADD>();
    test_accumulate<uint64_t, double, LOOM_COMBINE_MAX>();
    pass("accumulate");
    test_hash<uint32_t>();
    test_hash<uint64_t>();
    pass("hash");
    test_perfect<uint32_t, uint32_t>("perfect-4-4");
    test_perfect<uint32_t, uint64_t>("perfect-4-8");
    test_perfect<uint64_t, uint32_t>("perfect-8-4");
    test_perfect<uint64_t, uint64_t>("perfect-8-8");
    test_perfect<uint32_t, loom::none>("perfect-set-4");
    test_perfect<uint64_t, loom::none>("perfect-set-8");
    test_rows();
    pass("rows");
    if (tables_may_move) {
        test_multi<uint32_t, uint32_t>();
        test_multi<uint32_t, uint64_t>();
        test_multi<uint64_t, uint32_t>();
        test_multi<uint64_t, uint64_t>();
        pass("multi");
        test_multi<uint32_t, uint32_t>(LOOM_ENGINE_CHAIN);
        test_multi<uint64_t, uint64_t>(LOOM_ENGINE_CHAIN);
        pass("chain");
        test_appends<uint32_t, uint32_t>();
        test_appends<uint32_t, uint64_t>();
        test_appends<uint64_t, uint32_t>();
        test_appends<uint64_t, uint64_t>();
        pass("append");
    }
    if (LOOM_LANES == 4) { /* not where compute-sanitizer runs: many appends to one key take long there */
        test_append_long<uint32_t, uint32_t>();
        test_append_long<uint64_t, uint64_t>();
        pass("append-long");
    }
    test_filter_fresh();
    test_filter<uint32_t>();
    pass("filter-4");
    test_filter<uint64_t>();
    pass("filter-8");
    test_filter<key_16>();
    test_filter_strings<key_12>();
    test_filter_strings<key_33>();
    test_filter_strings<key_256>();
    pass("filter-strings");
    shaped = true;
    test_filter<uint64_t>();
    pass("shaped-filter-8");
    test_widths<uint32_t, uint32_t>("shaped-4-4");
    test_widths<uint64_t, loom::none>("shaped-set-8");
    test_perfect<uint32_t, uint32_t>("shaped-perfect-4-4");
    test_perfect<uint64_t, uint32_t>("shaped-perfect-8-4");
    test_accumulate<uint32_t, uint32_t, LOOM_COMBINE_ADD>();
    pass("shaped-accumulate");
    if (tables_may_move) {
        test_multi<uint32_t, uint32_t>();
        pass("shaped-multi");
        test_appends<uint32_t, uint32_t>();
        pass("shaped-append");
    }
    shaped = false;
    test_refused();
    test_perfect_refused();
    test_rows_refused();
    test_multi_refused();
    test_append_refused();
    test_filter_refused<uint32_t, uint64_t>();
    test_filter_refused<uint64_t, uint32_t>();
    test_filter_refused<key_16, key_12>();
    test_filter_refused<key_16, uint64_t>();
    pass("refused");
    test_destroyed();
    pass("destroyed");
    return passed;
}
