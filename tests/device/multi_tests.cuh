/* Lookups in multimaps in kernels, for groups of LOOM_LANES lanes; part of device_tests.cuh. The host fills the tables
 * by bulk calls, which have tests of their own. Kernels look up every key, present and absent, in each form. */
namespace
{

/* Key i has so many values: value_of(i) + 0, 1, 2, … Every seventh key is absent, one key has many. */
__host__ __device__ uint32_t values_of_key(uint32_t i)
{
    return i == 5 ? 5000 : i % 7;
}

__host__ __device__ uint64_t sum_of_values(uint64_t first, uint64_t count)
{
    return count * first + count * (count - 1) / 2;
}

/* What was visited of one key. */
struct visited {
    unsigned long long count, sum;
};

enum { MULTI_COUNT, MULTI_CONTAINS, MULTI_FIND, MULTI_IDLE, MULTI_GROUP, MULTI_KEY, MULTI_FINDINGS };

__device__ __forceinline__ void note(visited *of_key, uint64_t value)
{
    atomicAdd(&of_key->count, 1ull);
    atomicAdd(&of_key->sum, (unsigned long long)value);
}

template <class key, class value>
__global__ void multi_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *wrong,
                             uint32_t filled, visited *by_warp, visited *by_group, visited *by_grid)
{
    loom::multi_table<key, value> table(view);
    const uint32_t item = own_item();
    const bool active = item < n;
    const uint32_t i = active ? item : 0, count = i < filled ? values_of_key(i) : 0;
    if (table.count(keys[i], active) != (active ? count : 0) || table.status() != LOOM_OK)
        atomicAdd(&wrong[MULTI_COUNT], 1ull);
    if (table.contains(keys[i], active) != (active && count > 0))
        atomicAdd(&wrong[MULTI_CONTAINS], 1ull);
    const loom::found<value> one = table.find(keys[i], active);
    if (active && (one.status != (count > 0 ? LOOM_OK : LOOM_NOT_FOUND) ||
                   (count > 0 ? (uint64_t)one.value - (uint64_t)value_of<value>(i) >= count : one.value != value{})))
        atomicAdd(&wrong[MULTI_FIND], 1ull);

    /* Some lanes idle. */
    const bool asks = active && item * 0x9e3779b9u >> 30 != 0;
    if (table.count(keys[i], asks) != (asks ? count : 0))
        atomicAdd(&wrong[MULTI_IDLE], 1ull);
    table.for_each_of(
        keys[i], i,
        [&](uint64_t number, key with, value found) {
            if (keys[number] != with)
                atomicAdd(&wrong[MULTI_KEY], 1ull);
            note(&by_warp[number], found);
        },
        asks);

    /* Groups apart, each in a loop of its own length. */
    const uint32_t of_group = item / LOOM_LANES, groups = n / LOOM_LANES;
    for (uint32_t k = of_group; k < n && of_group < groups; k += groups) {
        const uint32_t there = k < filled ? values_of_key(k) : 0;
        if (table.group_count(keys[k]) != there || table.group_contains(keys[k]) != (there > 0) ||
            table.group_find(keys[k]).status != (there > 0 ? LOOM_OK : LOOM_NOT_FOUND))
            atomicAdd(&wrong[MULTI_GROUP], 1ull);
        table.group_for_each_of(keys[k], [&](value found) { note(&by_group[k], found); });
    }
    table.for_each([&](key, value found) { note(by_grid, found); });
}

template <class key, class value> struct multi_fixture {
    loom_context *context = nullptr;
    loom_map *map = nullptr;
    uint32_t n;
    shared_array<key> keys;
    uint32_t filled = 0;

    explicit multi_fixture(uint32_t count, loom_engine engine = LOOM_ENGINE_OPEN) : n(count), keys(count)
    {
        loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
        with.machine = LOOM_MACHINE_CUDA;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = LOOM_TYPE_MULTIMAP;
        config.engine = engine;
        config.key_bytes = sizeof(key);
        config.value_bytes = sizeof(value);
        REQUIRE_OK(loom_context_create(&with, &context));
        REQUIRE_OK(loom_map_create(context, &config, &map));
        for (uint32_t i = 0; i < n; i++)
            keys.at[i] = key_of<key>(i);
    }
    ~multi_fixture()
    {
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    multi_fixture(const multi_fixture &) = delete;

    /* Gives keys up to `to` their values. */
    void fill(uint32_t to)
    {
        std::vector<key> pair_keys;
        std::vector<value> pair_values;
        for (; filled < to; filled++)
            for (uint32_t j = 0; j < values_of_key(filled); j++) {
                pair_keys.push_back(key_of<key>(filled));
                pair_values.push_back(value_of<value>(filled) + j);
            }
        REQUIRE_OK(
            loom_map_insert(map, pair_keys.data(), pair_values.data(), pair_keys.size(), LOOM_KEEP, NULL, NULL, NULL));
    }
    void check()
    {
        shared_array<unsigned long long> wrong(MULTI_FINDINGS);
        shared_array<visited> by_warp(n), by_group(n), by_grid(1);
        const uint32_t blocks = (n + BLOCK - 1) / BLOCK;
        loom_map_view view;
        uint64_t pairs = 0, sum = 0;
        REQUIRE_OK(loom_map_view_begin(map, LOOM_VIEW_FIND, &view, NULL));
        multi_kernel<key, value><<<dim3(blocks), shaped ? dim3(4, 8, BLOCK / 32) : dim3(BLOCK)>>>(
            view, keys.at, n, wrong.at, filled, by_warp.at, by_group.at, by_grid.at);
        REQUIRE_CUDA(cudaGetLastError());
        REQUIRE_OK(loom_map_view_end(map, &view, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < MULTI_FINDINGS; i++)
            REQUIRE(wrong.at[i] == 0);
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t count = i < filled ? values_of_key(i) : 0;
            const uint64_t all = count > 0 ? sum_of_values((uint64_t)value_of<value>(i), count) : 0;
            const bool asked = i * 0x9e3779b9u >> 30 != 0;
            REQUIRE(by_warp.at[i].count == (asked ? count : 0) && by_warp.at[i].sum == (asked ? all : 0));
            REQUIRE(by_group.at[i].count == count && by_group.at[i].sum == all);
            pairs += count;
            sum += all;
        }
        REQUIRE(by_grid.at[0].count == pairs && by_grid.at[0].sum == sum);
    }
};

/* Empty, with some keys, grown, and with keys erased. While a view is out, calls that write are refused. */
template <class key, class value> void test_multi(loom_engine engine = LOOM_ENGINE_OPEN)
{
    multi_fixture<key, value> f(20000, engine);
    const key one_key = key_of<key>(1);
    const value one_value = value_of<value>(1);
    loom_map_view view;
    f.check();
    f.fill(100);
    f.check();
    f.fill(f.n - 100);
    f.check();
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &view, NULL));
    REQUIRE(loom_map_insert(f.map, &one_key, &one_value, 1, LOOM_KEEP, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_erase(f.map, &one_key, 1, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE_OK(loom_map_clear(f.map, NULL, NULL));
    f.filled = 0;
    f.check();
}

template <class table_type> __global__ void refused_lists(const loom_map_view view, uint32_t *told)
{
    table_type table(view);
    bool any = table.contains(threadIdx.x) || table.count(threadIdx.x) != 0;
    table.for_each_of(threadIdx.x, 0, [&](uint64_t, auto, auto) { any = true; });
    table.for_each([&](auto, auto) { any = true; });
    if (__any_sync(0xffffffffu, any) || table.find(threadIdx.x).status != table.status())
        atomicAdd(&told[1], 1u);
    told[0] = table.status();
}

template <class table_type> void require_no_lists(const loom_map_view &view)
{
    shared_array<uint32_t> told(2);
    refused_lists<table_type><<<1, 32>>>(view, told.at);
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE(told.at[0] == LOOM_INVALID_ARGUMENT && told.at[1] == 0);
}

void test_multi_refused()
{
    multi_fixture<uint32_t, uint32_t> f(64);
    fixture<uint32_t, uint32_t> other(64, 1000);
    loom_map_view view, of_map;
    f.fill(64);
    other.insert_by_host(64);
    for (int access = LOOM_VIEW_INSERT; access <= LOOM_VIEW_MIXED; access++)
        REQUIRE(loom_map_view_begin(f.map, (loom_view_access)access, &view, NULL) == LOOM_UNSUPPORTED);
    REQUIRE_OK(loom_supports(f.context, LOOM_TYPE_MULTIMAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_VIEWS));
    REQUIRE(loom_supports(f.context, LOOM_TYPE_MULTIMAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_WRITING_VIEWS) ==
            LOOM_UNSUPPORTED);
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &view, NULL));
    REQUIRE_OK(loom_map_view_begin(other.map, LOOM_VIEW_FIND, &of_map, NULL));
    require_refused<loom::table<uint32_t, uint32_t, LOOM_VIEW_FIND>>(view, LOOM_INVALID_ARGUMENT);
    require_refused<loom::table<uint32_t, uint64_t, LOOM_VIEW_FIND>>(view, LOOM_INVALID_ARGUMENT);
    require_no_lists<loom::multi_table<uint32_t, uint32_t>>(of_map);
    require_no_lists<loom::multi_table<uint32_t, uint64_t>>(view);
    require_no_lists<loom::multi_table<uint64_t, uint32_t>>(view);
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE_OK(loom_map_view_end(other.map, &of_map, NULL));
}

} // namespace
