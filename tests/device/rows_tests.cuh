/* Tables with rows in kernels, for groups of LOOM_LANES lanes; part of device_tests.cuh. Kernels write, in each form
 * and with keys that come several times; host calls, which have tests of their own, read, and the other way round. */
namespace
{

/* Keys and values of any width: `count` words. */
template <class word, uint32_t count> struct words_of {
    word at[count];
};

template <class type> __host__ __device__ type row_key(uint32_t i)
{
    type key;
    for (auto &word : key.at) {
        word = (std::remove_reference_t<decltype(word)>)spread(i, uint64_t{});
        i += 0x10001; /* words of a key differ */
    }
    return key;
}

/* All words are equal: a value that is a mixture of two shows itself. */
template <class type> __host__ __device__ type row_value(uint32_t i)
{
    type value{};
    if constexpr (std::is_class_v<type> && loom::detail::width<type>::bytes != 0)
        for (auto &word : value.at)
            word = (std::remove_reference_t<decltype(word)>)(i * 7 + 1);
    else if constexpr (!std::is_class_v<type>)
        value = (type)(i * 7 + 1);
    return value;
}

template <class type> __host__ __device__ bool same(const type &a, const type &b)
{
    const unsigned char *x = (const unsigned char *)&a, *y = (const unsigned char *)&b;
    for (size_t i = 0; i < sizeof(type); i++)
        if (x[i] != y[i])
            return false;
    return true;
}

template <class key, class value> struct rows_fixture {
    static constexpr bool is_set = loom::detail::width<value>::bytes == 0;
    loom_context *context = nullptr;
    loom_map *map = nullptr;
    uint32_t n;
    shared_array<key> keys;
    shared_array<value> values, found;
    shared_array<uint8_t> status;
    shared_array<unsigned long long> counts;

    rows_fixture(uint32_t count, loom_layout layout, uint64_t capacity)
        : n(count), keys(count), values(count), found(count), status(count), counts(4)
    {
        loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
        with.machine = LOOM_MACHINE_CUDA;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = is_set ? LOOM_TYPE_SET : LOOM_TYPE_MAP;
        config.engine = LOOM_ENGINE_ROWS;
        config.key_bytes = sizeof(key);
        config.value_bytes = loom::detail::width<value>::bytes;
        config.capacity = capacity;
        config.layout = is_set ? LOOM_LAYOUT_DEFAULT : layout;
        REQUIRE_OK(loom_context_create(&with, &context));
        REQUIRE_OK(loom_map_create(context, &config, &map));
        for (uint32_t i = 0; i < n; i++) {
            keys.at[i] = row_key<key>(i);
            values.at[i] = row_value<value>(i);
        }
    }
    ~rows_fixture()
    {
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    rows_fixture(const rows_fixture &) = delete;

    void insert_by_host(uint32_t first, uint32_t end)
    {
        REQUIRE_OK(loom_map_insert(map, keys.at + first, is_set ? nullptr : (void *)(values.at + first), end - first,
                                   LOOM_KEEP, NULL, NULL, NULL));
    }
    /* Exactly the keys for which there(i) says so are in the table, with their values, by the host. */
    template <class predicate> void require(predicate there)
    {
        uint64_t size, wanted = 0;
        REQUIRE_OK(loom_map_verify(map, NULL));
        REQUIRE_OK(loom_map_size(map, &size, NULL));
        REQUIRE_OK(loom_map_find(map, keys.at, n, is_set ? nullptr : (void *)found.at, NULL, status.at, NULL, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
        for (uint32_t i = 0; i < n; i++) {
            REQUIRE(status.at[i] == (there(i) ? LOOM_OK : LOOM_NOT_FOUND));
            REQUIRE(is_set || !there(i) || same(found.at[i], values.at[i]));
            wanted += there(i);
        }
        REQUIRE(size == wanted);
    }
    template <class kernel, class... arguments>
    void run(loom_view_access access, kernel launched, uint32_t items, arguments... others)
    {
        loom_map_view view;
        const uint32_t blocks = (items + BLOCK - 1) / BLOCK;
        for (int i = 0; i < 4; i++)
            counts.at[i] = 0;
        REQUIRE_OK(loom_map_view_begin(map, access, &view, NULL));
        launched<<<blocks, shaped ? dim3(4, 8, BLOCK / 32) : dim3(BLOCK)>>>(view, keys.at, values.at, found.at, n,
                                                                            counts.at, others...);
        REQUIRE_CUDA(cudaGetLastError());
        REQUIRE_OK(loom_map_view_end(map, &view, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
    }
};

/* Numbers and sets are passed by value, wide values by address. */
template <class value>
constexpr bool by_value = sizeof(value) == 4 || sizeof(value) == 8 || loom::detail::width<value>::bytes == 0;

/* counts[0]: stored as new; [1]: wrong answers. Keys 0 .. n - 1, each twice; odd ones by groups. */
template <class key, class value, loom_view_access access>
__global__ void rows_insert_kernel(const loom_map_view view, const key *keys, const value *values, value *, uint32_t n,
                                   unsigned long long *counts)
{
    loom::row_table<key, value, access> table(view);
    const uint32_t item = own_item(), i = item % n;
    const bool active = item < 2 * n && i % 2 == 0;
    loom_status status;
    if constexpr (by_value<value>)
        status = table.insert(keys[i], values[i], active);
    else
        status = table.insert(keys[i], &values[i], active);
    if (active && status == LOOM_OK)
        atomicAdd(&counts[0], 1ull);
    if (active && status != LOOM_OK && status != LOOM_EXISTS)
        atomicAdd(&counts[1], 1ull);
    const uint32_t of_group = item / LOOM_LANES;
    for (uint32_t k = of_group; k < 2 * n && of_group < (2 * n + LOOM_LANES - 1) / LOOM_LANES;
         k += (2 * n + LOOM_LANES - 1) / LOOM_LANES) {
        const uint32_t j = k % n;
        if (j % 2 == 0)
            continue;
        if constexpr (by_value<value>)
            status = table.group_insert(keys[j], values[j]);
        else
            status = table.group_insert(keys[j], &values[j]);
        if (item % LOOM_LANES == 0 && status == LOOM_OK)
            atomicAdd(&counts[0], 1ull);
        if (status != LOOM_OK && status != LOOM_EXISTS)
            atomicAdd(&counts[1], 1ull);
    }
}

/* Keys from `first` to `end` are there. counts[0]: visited; [1]: wrong answers. */
template <class key, class value>
__global__ void rows_find_kernel(const loom_map_view view, const key *keys, const value *values, value *found,
                                 uint32_t n, unsigned long long *counts, uint32_t first, uint32_t end)
{
    loom::row_table<key, value, LOOM_VIEW_FIND> table(view);
    const uint32_t item = own_item(), i = item < n ? item : 0;
    const bool active = item < n, there = i >= first && i < end;
    bool wrong = table.contains(keys[i], active) != (active && there);
    if constexpr (by_value<value>) {
        const loom::found<value> one = table.find(keys[i], active);
        wrong |= active && one.status != (there ? LOOM_OK : LOOM_NOT_FOUND);
        if constexpr (loom::detail::width<value>::bytes != 0)
            wrong |= active && there && !same(one.value, values[i]);
    } else {
        const loom_status status = table.find(keys[i], &found[i], active);
        wrong |= active && status != (there ? LOOM_OK : LOOM_NOT_FOUND);
        wrong |= active && there && !same(found[i], values[i]);
        value own; /* other lanes of a group cannot write it */
        const loom_status to_own = table.find(keys[i], &own, active);
        wrong |= active && to_own != (LOOM_LANES > 1 ? LOOM_INVALID_ARGUMENT : status);
        wrong |= LOOM_LANES == 1 && active && there && !same(own, values[i]);
        const void *at = table.value_of(keys[i], active);
        wrong |= (at != NULL) != (active && there);
        for (uint32_t b = 0; b < sizeof(value) && at != NULL; b++)
            wrong |= ((const unsigned char *)at)[b] != ((const unsigned char *)&values[i])[b];
    }
    __syncwarp();
    const uint32_t of_group = item / LOOM_LANES;
    for (uint32_t k = of_group; k < n && of_group % 3 != 1; k += n / (1 + of_group % 5) + 1) {
        const bool here = k >= first && k < end;
        wrong |= table.group_contains(keys[k]) != here;
        if constexpr (by_value<value>)
            wrong |= table.group_find(keys[k]).status != (here ? LOOM_OK : LOOM_NOT_FOUND);
        else
            wrong |= (table.group_value_of(keys[k]) != NULL) != here;
    }
    if (wrong)
        atomicAdd(&counts[1], 1ull);
    table.for_each([&](const key &, auto) { atomicAdd(&counts[0], 1ull); });
}

/* Few keys get many values, beside lookups and find_or_insert. counts[1]: mixtures, and keys that were missed. */
template <class key, class value>
__global__ void rows_assign_kernel(const loom_map_view view, const key *keys, const value *values, value *found,
                                   uint32_t n, unsigned long long *counts, uint32_t few)
{
    loom::row_table<key, value, LOOM_VIEW_INSERT> table(view);
    const uint32_t item = own_item(), i = item < n ? item : 0, k = i % few;
    const bool active = item < n, writes = active && i / 32 % 2 == 0;
    bool wrong = false;
    if constexpr (by_value<value>) {
        loom_status status = table.insert_or_assign(keys[k], values[i], writes);
        wrong |= writes && status != LOOM_EXISTS;
        status = table.find(keys[k], active && !writes).status;
        wrong |= active && status != LOOM_OK;
        const loom::found<value> one = table.find_or_insert(keys[k], values[i], active);
        wrong |= active && (one.status != LOOM_EXISTS || (one.value - 1) % 7 != 0);
    } else {
        loom_status status = table.insert_or_assign(keys[k], &values[i], writes);
        wrong |= writes && status != LOOM_EXISTS;
        status = table.find(keys[k], &found[i], active && !writes);
        wrong |= active && !writes && status != LOOM_OK;
        status = table.find_or_insert(keys[k], &values[i], &found[i], active);
        wrong |= active && status != LOOM_EXISTS;
        for (uint32_t b = 1; b < sizeof(found[i].at) / sizeof(found[i].at[0]); b++)
            wrong |= active && found[i].at[b] != found[i].at[0];
    }
    wrong |= table.contains(keys[k], active) != active;
    if (wrong)
        atomicAdd(&counts[1], 1ull);
}

/* Erases even keys. counts[0]: erased; [1]: wrong answers. */
template <class key, class value, loom_view_access access>
__global__ void rows_erase_kernel(const loom_map_view view, const key *keys, const value *, value *, uint32_t n,
                                  unsigned long long *counts)
{
    loom::row_table<key, value, access> table(view);
    const uint32_t item = own_item(), i = item % n;
    const bool active = item < 2 * n && i % 2 == 0;
    const loom_status status = table.erase(keys[i], active);
    if (active && status == LOOM_OK)
        atomicAdd(&counts[0], 1ull);
    if (active && status != LOOM_OK && status != LOOM_NOT_FOUND)
        atomicAdd(&counts[1], 1ull);
    if (table.contains(keys[i], active))
        atomicAdd(&counts[1], 1ull);
    if (table.contains(keys[i | 1], item < n && (i | 1) < n) != (item < n && (i | 1) < n))
        atomicAdd(&counts[1], 1ull);
}

/* Erases all keys whose first word is odd. */
template <class key, class value>
__global__ void rows_erase_if_kernel(const loom_map_view view, const key *, const value *, value *, uint32_t,
                                     unsigned long long *counts)
{
    loom::row_table<key, value, LOOM_VIEW_ERASE> table(view);
    const uint64_t erased = table.erase_if([](const key &one, auto) { return one.at[0] % 2 == 1; });
    atomicAdd(&counts[0], (unsigned long long)erased);
}

/* Keys come and go at the same time: every item inserts its key, looks it up and, if its number is odd, erases it. */
template <class key, class value>
__global__ void rows_mixed_kernel(const loom_map_view view, const key *keys, const value *values, value *, uint32_t n,
                                  unsigned long long *counts)
{
    loom::row_table<key, value, LOOM_VIEW_MIXED> table(view);
    const uint32_t item = own_item(), i = item < n ? item : 0;
    const bool active = item < n;
    loom_status status;
    if constexpr (by_value<value>)
        status = table.insert(keys[i], values[i], active);
    else
        status = table.insert(keys[i], &values[i], active);
    bool wrong = active && status != LOOM_OK;
    wrong |= table.contains(keys[i], active) != active;
    status = table.erase(keys[i], active && i % 2 == 1);
    wrong |= active && i % 2 == 1 && status != LOOM_OK;
    wrong |= table.contains(keys[i], active) != (active && i % 2 == 0);
    if (wrong)
        atomicAdd(&counts[1], 1ull);
}

template <class key, class number>
__global__ void rows_accumulate_kernel(const loom_map_view view, const key *keys, const number *, number *, uint32_t n,
                                       unsigned long long *counts, uint32_t few)
{
    loom::row_table<key, number, LOOM_VIEW_ACCUMULATE> table(view);
    const uint32_t item = own_item(), i = item < n ? item : 0;
    const loom_status status = table.accumulate(keys[i % few], (number)(i + 1), item < n);
    const bool is_there = table.contains(keys[i % few], item < n);
    if (item < n && status == LOOM_OK)
        atomicAdd(&counts[0], 1ull);
    if (item < n && (status == LOOM_FULL || !is_there))
        atomicAdd(&counts[1], 1ull);
}

template <class key, class value> void test_rows_views(loom_layout layout)
{
    const uint32_t n = 12000, capacity = 2 * n;
    rows_fixture<key, value> f(n, layout, capacity);
    f.run(LOOM_VIEW_FIND, rows_find_kernel<key, value>, n, 0u, 0u);
    REQUIRE(f.counts.at[0] == 0 && f.counts.at[1] == 0);
    f.run(LOOM_VIEW_INSERT, rows_insert_kernel<key, value, LOOM_VIEW_INSERT>, 2 * n);
    REQUIRE(f.counts.at[0] == n && f.counts.at[1] == 0);
    f.require([](uint32_t) { return true; });
    f.run(LOOM_VIEW_FIND, rows_find_kernel<key, value>, n, 0u, n);
    REQUIRE(f.counts.at[0] == n && f.counts.at[1] == 0);
    f.run(LOOM_VIEW_ERASE, rows_erase_kernel<key, value, LOOM_VIEW_ERASE>, 2 * n);
    REQUIRE(f.counts.at[0] == n / 2 && f.counts.at[1] == 0);
    f.require([](uint32_t i) { return i % 2 == 1; });
    uint32_t odd = 0;
    for (uint32_t i = 1; i < n; i += 2)
        odd += f.keys.at[i].at[0] % 2;
    f.run(LOOM_VIEW_ERASE, rows_erase_if_kernel<key, value>, n);
    REQUIRE(f.counts.at[0] == odd);
    f.require([&](uint32_t i) { return i % 2 == 1 && f.keys.at[i].at[0] % 2 == 0; });
    REQUIRE_OK(loom_map_clear(f.map, NULL, NULL));

    f.run(LOOM_VIEW_MIXED, rows_mixed_kernel<key, value>, n);
    REQUIRE(f.counts.at[1] == 0);
    f.require([](uint32_t i) { return i % 2 == 0; });
    f.insert_by_host(0, n); /* in slots that the view retired, too */
    f.run(LOOM_VIEW_MIXED, rows_erase_kernel<key, value, LOOM_VIEW_MIXED>, 2 * n);
    REQUIRE(f.counts.at[0] == n / 2 && f.counts.at[1] == 0);
    f.require([](uint32_t i) { return i % 2 == 1; });
    REQUIRE_OK(loom_map_clear(f.map, NULL, NULL));
    f.insert_by_host(n / 3, n);
    f.run(LOOM_VIEW_FIND, rows_find_kernel<key, value>, n, n / 3, n);
    REQUIRE(f.counts.at[0] == n - n / 3 && f.counts.at[1] == 0);
    if constexpr (loom::detail::width<value>::bytes != 0) {
        REQUIRE_OK(loom_map_clear(f.map, NULL, NULL));
        f.insert_by_host(0, 50);
        f.run(LOOM_VIEW_INSERT, rows_assign_kernel<key, value>, n, 50u);
        REQUIRE(f.counts.at[1] == 0);
        REQUIRE_OK(loom_map_verify(f.map, NULL));
    }
}

template <class key, class number> void test_rows_accumulate()
{
    const uint32_t n = 12000, few = 500;
    rows_fixture<key, number> f(n, LOOM_LAYOUT_APART, n);
    f.run(LOOM_VIEW_ACCUMULATE, rows_accumulate_kernel<key, number>, n, few);
    REQUIRE(f.counts.at[0] == few && f.counts.at[1] == 0);
    REQUIRE_OK(loom_map_find(f.map, f.keys.at, few, f.found.at, NULL, NULL, NULL, NULL));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    for (uint32_t k = 0; k < few; k++) {
        uint64_t sum = 0;
        for (uint32_t i = k; i < n; i += few)
            sum += i + 1;
        REQUIRE(f.found.at[k] == (number)sum);
    }
}

/* Views that do not fit, and tables that lend none. */
void test_rows_refused()
{
    typedef words_of<uint64_t, 2> key;
    typedef words_of<uint64_t, 3> value;
    rows_fixture<key, value> f(100, LOOM_LAYOUT_TOGETHER, 100);
    loom_map_view view;
    REQUIRE(loom_map_view_begin(f.map, LOOM_VIEW_ACCUMULATE, &view, NULL) == LOOM_UNSUPPORTED);
    REQUIRE_OK(loom_supports(f.context, LOOM_TYPE_MAP, LOOM_ENGINE_ROWS, LOOM_FEATURE_WRITING_VIEWS));
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &view, NULL));
    require_refused<loom::perfect_table<uint32_t, uint32_t>>(view, LOOM_INVALID_ARGUMENT);
    require_refused<loom::row_table<uint32_t, uint32_t, LOOM_VIEW_FIND>>(view, LOOM_INVALID_ARGUMENT);
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
}

void test_rows()
{
    test_rows_views<words_of<uint64_t, 2>, words_of<uint64_t, 3>>(LOOM_LAYOUT_TOGETHER);
    test_rows_views<words_of<uint64_t, 4>, words_of<uint32_t, 33>>(LOOM_LAYOUT_APART);
    test_rows_views<words_of<uint32_t, 3>, uint32_t>(LOOM_LAYOUT_TOGETHER);
    test_rows_views<words_of<uint64_t, 2>, uint64_t>(LOOM_LAYOUT_APART);
    test_rows_views<words_of<uint8_t, 33>, words_of<uint8_t, 7>>(LOOM_LAYOUT_APART);
    test_rows_views<words_of<uint64_t, 32>, loom::none>(LOOM_LAYOUT_DEFAULT);
    test_rows_accumulate<words_of<uint32_t, 3>, uint32_t>();
    test_rows_accumulate<words_of<uint64_t, 2>, uint64_t>();
}

} // namespace
