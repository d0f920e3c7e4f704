/* Appends to chain multimaps in kernels, for groups of LOOM_LANES lanes; part of device_tests.cuh. Every appended value
 * is different, so it tells which append brought it. The statuses say which values must be in the table. Host calls,
 * which have tests of their own, read the table, and so do kernels with a view for lookups. */
#include <algorithm>
#include <unistd.h>

namespace
{

enum { NOT_ASKED = 255 };

/* Which of the items after `by_warps` are appended, each by one group. */
__host__ __device__ bool goes_by_group(uint32_t of_group)
{
    return of_group % 3 == 1;
}

/* Item i appends the value first_value + i to key i % key_count. The first items go by whole warps, and then others by
 * single groups, in diverging code. */
template <class key, class value>
__global__ void append_kernel(const loom_map_view view, const key *keys, uint32_t key_count, uint32_t by_warps,
                              uint32_t by_groups, value first_value, uint8_t *status, unsigned long long *wrong)
{
    loom::multi_table<key, value, LOOM_VIEW_INSERT> table(view);
    const uint32_t item = own_item();
    const bool active = item < by_warps;
    const key own = keys[item % key_count];
    const loom_status told = table.insert(own, (value)(first_value + item), active);
    const bool there = table.contains(own, active);
    const uint64_t count = table.count(own, active);
    if (active)
        status[item] = (uint8_t)told;
    if (active ? told == LOOM_OK && (!there || count == 0) : told != LOOM_OK || there || count != 0)
        atomicAdd(wrong, 1ull);
    const uint32_t of_group = item / LOOM_LANES;
    if (of_group < by_groups && goes_by_group(of_group)) {
        const uint32_t other = by_warps + of_group;
        const key its_key = keys[other % key_count];
        const loom_status told_group = table.group_insert(its_key, (value)(first_value + other));
        if (item % LOOM_LANES == 0)
            status[other] = (uint8_t)told_group;
        if (told_group == LOOM_OK && (table.group_count(its_key) == 0 || !table.group_contains(its_key)))
            atomicAdd(wrong, 1ull);
    }
}

/* Appends values 0, 1, … to one key, all different. */
template <class key, class value>
__global__ void append_long_kernel(const loom_map_view view, const key *keys, uint32_t each, unsigned long long *stored)
{
    loom::multi_table<key, value, LOOM_VIEW_INSERT> table(view);
    const uint32_t item = own_item();
    for (uint32_t i = 0; i < each; i++)
        if (table.insert(keys[0], (value)(item * each + i)) == LOOM_OK)
            atomicAdd(stored, 1ull);
}

/* Reads every list, in each form. */
template <class key, class value>
__global__ void read_lists_kernel(const loom_map_view view, const key *keys, uint32_t n, visited *by_warp,
                                  visited *by_group, visited *by_grid, uint64_t *counts, unsigned long long *wrong)
{
    loom::multi_table<key, value> table(view);
    const uint32_t item = own_item();
    const bool active = item < n;
    const key own = keys[active ? item : 0];
    table.for_each_of(
        own, item, [&](uint64_t number, key, value found) { note(&by_warp[number], found); }, active);
    const uint64_t count = table.count(own, active);
    const bool there = table.contains(own, active);
    const loom::found<value> one = table.find(own, active);
    if (active)
        counts[item] = count;
    if (active && (there != (count > 0) || one.status != (count > 0 ? LOOM_OK : LOOM_NOT_FOUND)))
        atomicAdd(wrong, 1ull);
    const uint32_t of_group = item / LOOM_LANES, groups = (n + LOOM_LANES - 1) / LOOM_LANES;
    for (uint32_t k = of_group; k < n && of_group < groups; k += groups)
        table.group_for_each_of(keys[k], [&](value found) { note(&by_group[k], found); });
    table.for_each([&](key, value found) { note(by_grid, found); });
}

struct chain_shape {
    uint64_t capacity, values; /* the table does not grow */
    uint32_t first_bucket;
    double bucket_growth;
    uint64_t most;
};

template <class key, class value> struct chain_fixture {
    loom_context *context = nullptr;
    loom_map *map = nullptr;
    uint32_t n;
    shared_array<key> keys;
    std::vector<std::vector<value>> model; /* the values of each key */
    uint32_t next_value = 1;
    uint64_t refused = 0; /* by the latest appends */

    chain_fixture(uint32_t key_count, const chain_shape &shape, const loom_allocator &allocator = {})
        : n(key_count), keys(key_count), model(key_count)
    {
        loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
        with.machine = LOOM_MACHINE_CUDA;
        with.allocator = allocator;
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.type = LOOM_TYPE_MULTIMAP;
        config.engine = LOOM_ENGINE_CHAIN;
        config.key_bytes = sizeof(key);
        config.value_bytes = sizeof(value);
        config.capacity = shape.capacity;
        config.values = shape.values;
        config.growth = 0;
        config.first_bucket = shape.first_bucket;
        config.bucket_growth = shape.bucket_growth;
        config.most_values_per_key = shape.most;
        REQUIRE_OK(loom_context_create(&with, &context));
        REQUIRE_OK(loom_map_create(context, &config, &map));
        for (uint32_t i = 0; i < n; i++)
            keys.at[i] = key_of<key>(i);
    }
    ~chain_fixture()
    {
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
    chain_fixture(const chain_fixture &) = delete;

    /* Gives every second key `each` values, by a call of the host. */
    void insert_by_host(uint32_t each)
    {
        std::vector<key> pair_keys;
        std::vector<value> pair_values;
        for (uint32_t i = 0; i < n; i += 2)
            for (uint32_t j = 0; j < each; j++) {
                pair_keys.push_back(keys.at[i]);
                pair_values.push_back((value)next_value);
                model[i].push_back((value)next_value++);
            }
        REQUIRE_OK(
            loom_map_insert(map, pair_keys.data(), pair_values.data(), pair_keys.size(), LOOM_KEEP, NULL, NULL, NULL));
    }
    /* Appends to the first `key_count` keys. Returns how many values were asked for. */
    uint64_t append(uint32_t key_count, uint32_t by_warps, uint32_t by_groups)
    {
        const uint32_t items = by_warps + by_groups, threads = std::max(by_warps, by_groups * LOOM_LANES),
                       blocks = (threads + BLOCK - 1) / BLOCK, rows = shaped && blocks % 5 == 0 ? 5 : 1;
        shared_array<uint8_t> status(items);
        shared_array<unsigned long long> wrong(1);
        loom_map_view view;
        uint64_t asked = 0;
        memset(status.at, NOT_ASKED, items);
        REQUIRE_OK(loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, NULL));
        append_kernel<key, value><<<dim3(blocks / rows, rows), shaped ? dim3(4, 8, BLOCK / 32) : dim3(BLOCK)>>>(
            view, keys.at, key_count, by_warps, by_groups, (value)next_value, status.at, wrong.at);
        REQUIRE_CUDA(cudaGetLastError());
        REQUIRE_OK(loom_map_view_end(map, &view, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
        REQUIRE(wrong.at[0] == 0);
        refused = 0;
        for (uint32_t i = 0; i < items; i++) {
            const bool asks = i < by_warps || goes_by_group(i - by_warps);
            REQUIRE(asks ? status.at[i] == LOOM_OK || status.at[i] == LOOM_FULL : status.at[i] == NOT_ASKED);
            asked += asks;
            refused += status.at[i] == LOOM_FULL;
            if (status.at[i] == LOOM_OK)
                model[i % key_count].push_back((value)(next_value + i));
        }
        next_value += items;
        return asked;
    }
    /* Compares the table with the model: by the host, and by a kernel. */
    void check()
    {
        uint64_t pairs = 0, sum = 0, used = 0, size, distinct, needed = 0;
        std::vector<uint64_t> offsets(n + 1);
        for (std::vector<value> &list : model) {
            std::sort(list.begin(), list.end());
            pairs += list.size();
            used += !list.empty();
        }
        REQUIRE_OK(loom_map_verify(map, NULL));
        REQUIRE_OK(loom_map_size(map, &size, NULL));
        REQUIRE_OK(loom_map_distinct(map, &distinct, NULL));
        REQUIRE(size == pairs && distinct == used);
        std::vector<value> found(pairs + 1);
        REQUIRE_OK(loom_map_find_all(map, keys.at, n, 0, offsets.data(), pairs > 0 ? found.data() : NULL, pairs,
                                     &needed, NULL, NULL));
        REQUIRE(needed == pairs && offsets[n] == pairs);
        for (uint32_t i = 0; i < n; i++) {
            REQUIRE(offsets[i + 1] - offsets[i] == model[i].size());
            std::sort(found.begin() + (ptrdiff_t)offsets[i], found.begin() + (ptrdiff_t)offsets[i + 1]);
            REQUIRE(std::equal(model[i].begin(), model[i].end(), found.begin() + (ptrdiff_t)offsets[i]));
        }

        shared_array<visited> by_warp(n), by_group(n), by_grid(1);
        shared_array<uint64_t> counts(n);
        shared_array<unsigned long long> wrong(1);
        loom_map_view view;
        REQUIRE_OK(loom_map_view_begin(map, LOOM_VIEW_FIND, &view, NULL));
        read_lists_kernel<key, value><<<dim3((n + BLOCK - 1) / BLOCK), shaped ? dim3(4, 8, BLOCK / 32) : dim3(BLOCK)>>>(
            view, keys.at, n, by_warp.at, by_group.at, by_grid.at, counts.at, wrong.at);
        REQUIRE_CUDA(cudaGetLastError());
        REQUIRE_OK(loom_map_view_end(map, &view, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
        REQUIRE(wrong.at[0] == 0);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t all = 0;
            for (value one : model[i])
                all += one;
            REQUIRE(counts.at[i] == model[i].size());
            REQUIRE(by_warp.at[i].count == model[i].size() && by_warp.at[i].sum == all);
            REQUIRE(by_group.at[i].count == model[i].size() && by_group.at[i].sum == all);
            sum += all;
        }
        REQUIRE(by_grid.at[0].count == pairs && by_grid.at[0].sum == sum);
    }
};

/* Many keys, few keys and one key, with and without lists that were there. Calls of the host come in between. */
template <class key, class value> void test_append()
{
    chain_fixture<key, value> f(5000, {20000, 1000000, 0, 0, 0});
    f.check();
    f.append(1, 1, 0);
    f.check();
    f.append(5000, 20000, 10000);
    REQUIRE(f.refused == 0);
    f.check();
    f.append(3, 4000, 2000);
    REQUIRE(f.refused == 0);
    f.check();
    f.insert_by_host(7);
    f.check();
    f.append(5000, 20000, 0);
    f.append(1, 3000, 0);
    f.append(5000, 0, 4000);
    REQUIRE(f.refused == 0);
    f.check();
    REQUIRE_OK(loom_map_clear(f.map, NULL, NULL));
    for (auto &list : f.model)
        list.clear();
    f.append(5000, 10000, 0);
    REQUIRE(f.refused == 0);
    f.check();
    REQUIRE_OK(loom_map_shrink(f.map, NULL)); /* all lists become one piece */
    f.check();

    /* Buckets of one value, and built lists. */
    chain_fixture<key, value> small(2000, {2000, 200000, 1, 1, 0});
    small.insert_by_host(3);
    small.append(2000, 20000, 3000);
    REQUIRE(small.refused == 0);
    small.check();
}

/* A list that becomes LARGE. Few warps: all of them append to one key. */
template <class key, class value> void test_append_long()
{
    enum { BLOCKS = 4, EACH = 1200, ALL = BLOCKS * BLOCK * EACH };
    static_assert(ALL > loom_inner::LIST_LARGE_FROM + 50000, "with several LARGE buckets");
    chain_fixture<key, value> f(1, {100, 4000000, 0, 0, 0});
    shared_array<unsigned long long> stored(1);
    loom_map_view view;
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_INSERT, &view, NULL));
    append_long_kernel<key, value><<<BLOCKS, BLOCK>>>(view, f.keys.at, EACH, stored.at);
    REQUIRE_CUDA(cudaGetLastError());
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE(stored.at[0] == ALL);
    for (uint32_t i = 0; i < ALL; i++)
        f.model[0].push_back((value)i);
    f.check();
}

/* The heap, the directory or the number of values per key is too small. What was refused leaves no trace. */
template <class key, class value> void test_append_without_room()
{
    const bool ones = sizeof(value) == 4; /* a single value lies in the directory */
    const uint64_t link = 8 / sizeof(value);
    /* Two buckets of four values, and one value less than that. */
    for (uint64_t less = 0; less < 2; less++) {
        chain_fixture<key, value> f(1, {100, 4 + link + 4 - less, 4, 1, 0});
        f.append(1, 500, 100);
        REQUIRE(f.model[0].size() == 8 - 4 * less && f.refused > 0);
        f.check();
        const uint64_t more = f.append(1, 100, 0);
        REQUIRE(f.refused == more);
        f.check();
    }
    /* No heap: one value of 4 bytes for each key, and none of 8. The refused keys are gone. */
    chain_fixture<key, value> none(1000, {2000, 0, 0, 0, 0});
    const uint64_t asked = none.append(1000, 3000, 1000);
    REQUIRE(none.refused == asked - (ones ? 1000 : 0));
    none.check();
    none.append(1000, 3000, 0);
    none.check();
    /* A heap for some of the lists. */
    chain_fixture<key, value> some(5000, {10000, 3000, 0, 0, 0});
    some.append(5000, 20000, 5000);
    REQUIRE(some.refused > 0);
    some.check();
    some.append(5000, 20000, 5000);
    some.check();
    /* Large and small buckets at the end of the heap: lists of 64 values and new keys. */
    for (uint32_t more = 100; more < 150; more += 10) {
        chain_fixture<key, value> brim(200, {400, 100 * 64 + more, 0, 0, 0});
        brim.insert_by_host(64);
        brim.append(200, 2000, 200);
        REQUIRE(brim.refused > 0);
        brim.check();
    }
    /* A directory for some of the keys. Their lists still grow. */
    chain_fixture<key, value> crowded(20000, {100, 100000, 0, 0, 0});
    crowded.append(20000, 20000, 5000);
    REQUIRE(crowded.refused > 0);
    crowded.check();
    crowded.append(20000, 20000, 5000);
    crowded.check();
    /* As many values as a key may have. */
    for (uint64_t most = 1; most <= 5; most += 2) {
        chain_fixture<key, value> bound(100, {1000, 100000, 2, 1.5, most});
        bound.insert_by_host(1);
        bound.append(100, 2000, 500);
        REQUIRE(bound.refused > 0);
        for (const std::vector<value> &list : bound.model)
            REQUIRE(list.size() == most);
        bound.check();
    }
}

/* Memory that is full of one byte. */
enum { DIRT = 0xa5 };

void *allocate_dirty(void *, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream)
{
    void *memory = NULL;
    if (kind == LOOM_MEMORY_HOST)
        return posix_memalign(&memory, std::max(alignment, sizeof memory), bytes) == 0 ? memset(memory, DIRT, bytes)
                                                                                       : NULL;
    if (cudaMalloc(&memory, bytes) != cudaSuccess)
        return NULL;
    REQUIRE_CUDA(cudaMemset(memory, DIRT, bytes));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    return memory;
}

void release_dirty(void *, void *memory, size_t, loom_memory_kind kind, loom_stream)
{
    if (kind == LOOM_MEMORY_HOST)
        free(memory);
    else
        cudaFree(memory); /* waits */
}

/* No eight bytes of the table's file are as the memory was before the table had it. */
void require_clean_file(loom_map *map)
{
    char path[] = "/tmp/loom-appends-XXXXXX";
    const int made = mkstemp(path);
    REQUIRE(made >= 0);
    close(made);
    REQUIRE_OK(loom_map_save(map, path, NULL));
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    uint32_t dirty = 0;
    for (int byte; (byte = fgetc(file)) != EOF;) {
        dirty = byte == DIRT ? dirty + 1 : 0;
        REQUIRE(dirty < 8);
    }
    fclose(file);
    unlink(path);
}

/* Buckets with room behind their values, before and after insertions of the host. */
template <class key, class value> void test_append_leaves_clean_files()
{
    const loom_allocator allocator = {allocate_dirty, release_dirty, NULL};
    chain_fixture<key, value> f(500, {2000, 100000, 7, 1.5, 0}, allocator);
    for (int turn = 0; turn < 3; turn++) {
        f.append(500, 2000, 500);
        require_clean_file(f.map);
        f.insert_by_host(3);
        require_clean_file(f.map);
    }
    REQUIRE_OK(loom_map_reserve_values(f.map, 200000, NULL)); /* other memory */
    f.append(500, 2000, 0);
    require_clean_file(f.map);
    f.check();
}

template <class table_type> __global__ void refused_appends(const loom_map_view view, uint32_t *told)
{
    table_type table(view);
    const loom_status one = table.insert(threadIdx.x, 1), group = table.group_insert(threadIdx.x / LOOM_LANES, 1);
    if (one != table.status() || group != table.status() || table.contains(threadIdx.x))
        atomicAdd(&told[1], 1u);
    told[0] = table.status();
}

template <class table_type> void require_no_appends(const loom_map_view &view)
{
    shared_array<uint32_t> told(2);
    refused_appends<table_type><<<1, 32>>>(view, told.at);
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE(told.at[0] == LOOM_INVALID_ARGUMENT && told.at[1] == 0);
}

/* Accesses that are not lent, calls that may not overlap, views that do not fit the type. */
void test_append_refused()
{
    chain_fixture<uint32_t, uint32_t> f(64, {1000, 1000, 0, 0, 0});
    multi_fixture<uint32_t, uint32_t> open(64);
    const uint32_t one = 1;
    uint32_t found;
    loom_map_view view, another, of_open;
    REQUIRE_OK(loom_supports(f.context, LOOM_TYPE_MULTIMAP, LOOM_ENGINE_CHAIN, LOOM_FEATURE_WRITING_VIEWS));
    for (int access = LOOM_VIEW_ACCUMULATE; access <= LOOM_VIEW_MIXED; access++)
        REQUIRE(loom_map_view_begin(f.map, (loom_view_access)access, &view, NULL) == LOOM_UNSUPPORTED);
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_INSERT, &view, NULL));
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_INSERT, &another, NULL));
    REQUIRE(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &of_open, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_insert(f.map, &one, &one, 1, LOOM_KEEP, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_erase(f.map, &one, 1, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_find(f.map, &one, 1, &found, NULL, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_shrink(f.map, NULL) == LOOM_IN_USE);
    require_no_lists<loom::multi_table<uint32_t, uint32_t>>(view);
    require_no_appends<loom::multi_table<uint64_t, uint32_t, LOOM_VIEW_INSERT>>(view);
    require_no_appends<loom::multi_table<uint32_t, uint64_t, LOOM_VIEW_INSERT>>(view);
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE_OK(loom_map_view_end(f.map, &another, NULL));
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &view, NULL));
    REQUIRE_OK(loom_map_view_begin(open.map, LOOM_VIEW_FIND, &of_open, NULL));
    require_no_appends<loom::multi_table<uint32_t, uint32_t, LOOM_VIEW_INSERT>>(view);
    require_no_appends<loom::multi_table<uint32_t, uint32_t, LOOM_VIEW_INSERT>>(of_open);
    of_open.access = LOOM_VIEW_INSERT; /* which the host never lends */
    require_no_appends<loom::multi_table<uint32_t, uint32_t, LOOM_VIEW_INSERT>>(of_open);
    of_open.access = LOOM_VIEW_FIND;
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE_OK(loom_map_view_end(open.map, &of_open, NULL));
    f.check();
}

/* What the compiler refuses: a value that was meant as `active`. */
template <class number> struct append_refusals {
    using lists = loom::multi_table<uint32_t, number, LOOM_VIEW_INSERT>;
    static_assert(inserts_by<lists, list<uint32_t, number>>::value && inserts_by<lists, list<int, int, bool>>::value);
    static_assert(!inserts_by<lists, list<uint32_t>>::value && !inserts_by<lists, list<uint32_t, bool>>::value);
    static_assert(inserts_by_group<lists, list<uint32_t, number>>::value);
    static_assert(!inserts_by_group<lists, list<uint32_t, bool>>::value);
};
template struct append_refusals<uint32_t>;
template struct append_refusals<uint64_t>;

} // namespace
