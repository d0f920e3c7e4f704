/* Filters in kernels, for groups of LOOM_LANES lanes; part of device_tests.cuh. The answers of kernels are compared
 * with those of the host calls, which have tests of their own, on the same filter. They must be equal, false positives
 * included. */
namespace
{

/* Keys that are byte strings: aligned to 8 bytes, to 4, and to nothing. */
template <class word, uint32_t words> struct filter_string {
    word all[words];
};
typedef filter_string<uint64_t, 2> key_16;
typedef filter_string<uint32_t, 3> key_12;
typedef filter_string<uint8_t, 33> key_33;
typedef filter_string<uint64_t, 32> key_256;

template <class key> struct filter_key_maker {
    static __host__ __device__ key make(uint32_t i)
    {
        return key_of<key>(i);
    }
};
template <class word, uint32_t words> struct filter_key_maker<filter_string<word, words>> {
    static __host__ __device__ filter_string<word, words> make(uint32_t i)
    {
        filter_string<word, words> made = {};
        const uint64_t number = key_of<uint64_t>(i);
        memcpy(&made.all[words - 8 / sizeof(word)], &number, 8); /* keys differ at their end */
        made.all[0] = (word)(made.all[0] ^ 77);
        return made;
    }
};

template <class key> struct filter_fixture {
    loom_context *context = nullptr;
    loom_filter *filter = nullptr;
    uint32_t n;
    shared_array<key> keys;
    shared_array<uint8_t> found, told; /* by a kernel, by the host */

    filter_fixture(uint32_t count, uint32_t probes) : n(count), keys(count + 1), found(count + 1), told(count + 1)
    {
        loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
        with.machine = LOOM_MACHINE_CUDA;
        loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
        config.key_bytes = sizeof(key);
        config.capacity = count;
        config.probes = probes;
        REQUIRE_OK(loom_context_create(&with, &context));
        REQUIRE_OK(loom_filter_create(context, &config, &filter));
        for (uint32_t i = 0; i < n; i++)
            keys.at[i] = filter_key_maker<key>::make(i);
    }
    ~filter_fixture()
    {
        loom_filter_destroy(filter);
        loom_context_destroy(context);
    }
    filter_fixture(const filter_fixture &) = delete;

    void look_up()
    {
        REQUIRE_OK(loom_filter_contains(filter, keys.at, n, told.at, NULL, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
    }
    /* Of all keys but those that `inserted` names few are there. */
    template <class predicate> void check(predicate inserted)
    {
        uint32_t others = 0, wrong = 0;
        look_up();
        for (uint32_t i = 0; i < n; i++) {
            REQUIRE(!inserted(i) || told.at[i] == 1);
            others += !inserted(i);
            wrong += !inserted(i) && told.at[i];
        }
        REQUIRE(wrong <= others / 50); /* a thousandth, with all of them; a fiftieth never */
    }
    uint64_t bits_set()
    {
        loom_filter_report report = LOOM_FILTER_REPORT_INIT;
        REQUIRE_OK(loom_filter_stats(filter, &report, NULL));
        return report.bits_set;
    }
    template <class kernel, class... arguments>
    void launch(const loom_filter_view &view, cudaStream_t stream, kernel launched, uint32_t items, arguments... others)
    {
        uint32_t blocks = (items + BLOCK - 1) / BLOCK, rows = shaped ? (blocks % 5 == 0 ? 5 : blocks) : 1;
        dim3 grid(blocks / rows, rows), block = shaped ? dim3(4, 8, BLOCK / 32) : dim3(BLOCK);
        launched<<<grid, block, 0, stream>>>(view, keys.at, items, others...);
        REQUIRE_CUDA(cudaGetLastError());
    }
    template <class kernel, class... arguments> void run(kernel launched, uint32_t items, arguments... others)
    {
        loom_filter_view view;
        REQUIRE_OK(loom_filter_view_begin(filter, &view, NULL));
        launch(view, NULL, launched, items, others...);
        REQUIRE_OK(loom_filter_view_end(filter, &view, NULL));
        REQUIRE_CUDA(cudaDeviceSynchronize());
    }
};

/* What was meant as something else is not taken for `active`. */
template <class number> struct filter_refusals {
    using filter = loom::filter<number>;
    static_assert(inserts_by<filter, list<number>>::value && inserts_by<filter, list<int, bool &>>::value);
    static_assert(!inserts_by<filter, list<number, number>>::value && !inserts_by<filter, list<number, int>>::value);
    static_assert(inserts_by_group<filter, list<number>>::value && !inserts_by_group<filter, list<int, bool>>::value);
};
template struct filter_refusals<uint32_t>;
template struct filter_refusals<uint64_t>;

/* ---- insert ----
 *
 * Warps insert the first half of the keys; every fifth lane has no key and only helps. Groups insert the other half, in
 * diverging code. */

template <class key>
__global__ void filter_insert_kernel(const loom_filter_view view, const key *keys, uint32_t n,
                                     unsigned long long *wrong)
{
    loom::filter<key> filter(view);
    uint32_t item = own_item(), half = n / 2;
    bool active = item < n && item % 5 != 4;
    uint32_t i = item < n ? item % half : 0;
    bool bad = filter.insert(keys[i], active) != LOOM_OK;
    bool found = filter.contains(keys[i], active); /* a thread finds the key that it has inserted */
    bad = bad || found != active;
    uint32_t of_group = item / LOOM_LANES;
    if (of_group < half && of_group % 3 == 1) {
        bad = filter.group_insert(keys[half + of_group]) != LOOM_OK || bad;
        bad = !filter.group_contains(keys[half + of_group]) || bad;
    }
    if (bad)
        atomicAdd(wrong, 1ull);
}

template <class key>
__global__ void filter_contains_kernel(const loom_filter_view view, const key *keys, uint32_t n, uint8_t *found,
                                       unsigned long long *wrong)
{
    loom::filter<key> filter(view);
    uint32_t item = own_item();
    bool active = item < n;
    bool one = filter.contains(keys[active ? item : 0], active);
    if (active)
        found[item] = one;
    else if (one)
        atomicAdd(wrong, 1ull); /* inactive lanes get no answer */
}

/* The same by groups, in diverging code. All lanes of a group get the same answer. */
template <class key>
__global__ void filter_group_kernel(const loom_filter_view view, const key *keys, uint32_t threads, const uint8_t *told,
                                    unsigned long long *wrong)
{
    loom::filter<key> filter(view);
    uint32_t of_group = own_item() / LOOM_LANES;
    if (of_group >= threads / LOOM_LANES)
        return;
    bool found = false;
    if (of_group % 3 == 0)
        found = filter.group_contains(keys[of_group]);
    else if (of_group % 3 == 1)
        found = filter.group_contains(keys[of_group]);
    else
        found = filter.group_contains(keys[of_group]);
    if (found != (told[of_group] != 0))
        atomicAdd(wrong, 1ull);
}

template <class key> void test_filter_insert(uint32_t probes)
{
    uint32_t n = 40000, half = n / 2, groups = (n + BLOCK - 1) / BLOCK * BLOCK / LOOM_LANES;
    filter_fixture<key> f(n, probes);
    shared_array<unsigned long long> wrong(1);
    f.run(filter_insert_kernel<key>, n, wrong.at);
    REQUIRE(wrong.at[0] == 0);
    f.check([=](uint32_t i) {
        return i < half ? i % 5 != 4 || (i + half) % 5 != 4 : (i - half) % 3 == 1 && i - half < groups;
    });
    f.run(filter_contains_kernel<key>, n, f.found.at, wrong.at);
    REQUIRE(wrong.at[0] == 0);
    REQUIRE(memcmp(f.found.at, f.told.at, n) == 0);
    /* A host's insertion of the same keys adds nothing. */
    uint64_t bits = f.bits_set();
    std::vector<key> inserted;
    for (uint32_t i = 0; i < n; i++)
        if (f.told.at[i])
            inserted.push_back(f.keys.at[i]);
    REQUIRE_OK(loom_filter_insert(f.filter, inserted.data(), inserted.size(), 0, NULL, NULL, NULL));
    REQUIRE(f.bits_set() == bits);
}

template <class key> void test_filter_contains(uint32_t probes)
{
    uint32_t n = 30000, present = n / 3;
    filter_fixture<key> f(n, probes);
    shared_array<unsigned long long> wrong(1);
    REQUIRE_OK(loom_filter_insert(f.filter, f.keys.at, present, 0, NULL, NULL, NULL));
    f.check([=](uint32_t i) { return i < present; });
    f.run(filter_contains_kernel<key>, n, f.found.at, wrong.at);
    REQUIRE(wrong.at[0] == 0);
    REQUIRE(memcmp(f.found.at, f.told.at, n) == 0);
    f.run(filter_group_kernel<key>, n * LOOM_LANES, f.told.at, wrong.at);
    REQUIRE(wrong.at[0] == 0);
}

/* ---- insert and contains at the same time, by kernels with views of their own, beside calls of the host ---- */

/* Each thread inserts its key and sets a flag. Then it looks up the key of another thread, of this kernel or of the
 * other one, if the flag of that thread is set. No thread waits for another. */
template <class key>
__global__ void filter_mixed_kernel(const loom_filter_view view, const key *keys, uint32_t n, uint32_t first,
                                    uint32_t all, unsigned *said, unsigned long long *counts)
{
    loom::filter<key> filter(view);
    uint32_t item = own_item();
    bool active = item < n;
    uint32_t own = first + (active ? item : 0);
    filter.insert(keys[own], active);
    __threadfence();
    if (active)
        atomicExch(&said[own], 1u);
    for (uint32_t turn = 0; turn < 8; turn++) {
        uint32_t other = (own * 7919u + turn * (all / 8) + 1) % all;
        bool heard = active && atomicAdd(&said[other], 0u) != 0;
        __threadfence();
        bool found = filter.contains(keys[other], heard);
        if (heard)
            atomicAdd(&counts[found ? 0 : 1], 1ull);
    }
}

template <class key> void test_filter_mixed(uint32_t probes)
{
    enum { VIEWS = 2 };
    uint32_t n = 60000, third = n / 3;
    filter_fixture<key> f(n, probes);
    shared_array<unsigned> said(n);
    unsigned long long *counts; /* not where the host looks meanwhile */
    loom_filter_view views[VIEWS];
    cudaStream_t streams[VIEWS];
    loom_filter *like;
    REQUIRE_CUDA(cudaMalloc(&counts, 2 * sizeof *counts));
    REQUIRE_CUDA(cudaMemset(counts, 0, 2 * sizeof *counts));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE_OK(loom_filter_create_like(f.filter, &like));
    std::vector<key> hosts(f.keys.at + 2 * third, f.keys.at + n);
    std::vector<uint8_t> found(hosts.size());
    for (int i = 0; i < VIEWS; i++) {
        REQUIRE_CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        REQUIRE_OK(loom_filter_view_begin(f.filter, &views[i], streams[i]));
    }
    for (int i = 0; i < VIEWS; i++)
        f.launch(views[i], streams[i], filter_mixed_kernel<key>, third, (uint32_t)i * third, 2 * third, said.at,
                 counts);
    /* The host goes on with what may overlap, and is refused the rest. */
    REQUIRE_OK(loom_filter_insert(f.filter, hosts.data(), hosts.size(), 0, NULL, NULL, NULL));
    REQUIRE_OK(loom_filter_contains(f.filter, hosts.data(), hosts.size(), found.data(), NULL, NULL));
    REQUIRE_CUDA(cudaStreamSynchronize(NULL));
    for (uint8_t one : found)
        REQUIRE(one == 1);
    REQUIRE(loom_filter_merge(f.filter, like, NULL) == LOOM_IN_USE);
    REQUIRE(loom_filter_clear(f.filter, NULL, NULL) == LOOM_IN_USE);
    REQUIRE_OK(loom_filter_view_end(f.filter, &views[0], streams[0]));
    REQUIRE(loom_filter_view_end(f.filter, &views[0], streams[0]) == LOOM_INVALID_ARGUMENT); /* once is enough */
    REQUIRE(loom_filter_clear(f.filter, NULL, NULL) == LOOM_IN_USE);
    REQUIRE_OK(loom_filter_view_end(f.filter, &views[1], streams[1]));
    REQUIRE(loom_filter_view_end(f.filter, &views[1], streams[1]) == LOOM_INVALID_ARGUMENT);
    f.check([](uint32_t) { return true; }); /* behind the kernels */
    unsigned long long told[2];
    REQUIRE_CUDA(cudaMemcpy(told, counts, sizeof told, cudaMemcpyDefault));
    REQUIRE(told[1] == 0);
    REQUIRE(told[0] > 0); /* somebody has heard something */
    REQUIRE_OK(loom_filter_merge(f.filter, like, NULL));
    REQUIRE_OK(loom_filter_clear(f.filter, NULL, NULL));
    REQUIRE(f.bits_set() == 0);
    loom_filter_destroy(like);
    REQUIRE_CUDA(cudaFree(counts));
    for (int i = 0; i < VIEWS; i++)
        REQUIRE_CUDA(cudaStreamDestroy(streams[i]));
}

/* ---- views that do not fit ---- */

template <class key> __global__ void filter_refused_kernel(const loom_filter_view view, loom_status *told, int *found)
{
    loom::filter<key> filter(view);
    loom_status one = filter.insert(filter_key_maker<key>::make(threadIdx.x)),
                other = filter.group_insert(filter_key_maker<key>::make(threadIdx.x / LOOM_LANES));
    if (filter.contains(filter_key_maker<key>::make(threadIdx.x)) ||
        filter.group_contains(filter_key_maker<key>::make(threadIdx.x / LOOM_LANES)))
        *found = 1;
    if (threadIdx.x == 0) {
        told[0] = filter.status();
        told[1] = one;
        told[2] = other;
    }
}

template <class key, class other_key> void test_filter_refused()
{
    filter_fixture<key> f(1000, 0);
    shared_array<loom_status> told(3);
    shared_array<int> found(1);
    loom_filter_view view, bent;
    for (int fault = 0; fault < 4; fault++) {
        REQUIRE_OK(loom_filter_view_begin(f.filter, &view, NULL));
        bent = view;
        bent.layout += fault == 0;
        bent.key_bytes = fault == 1 ? (uint32_t)sizeof(other_key) : bent.key_bytes;
        if (fault == 2)
            filter_refused_kernel<other_key><<<1, 32>>>(bent, told.at, found.at);
        else
            filter_refused_kernel<key><<<1, 32>>>(bent, told.at, found.at);
        REQUIRE_CUDA(cudaDeviceSynchronize());
        REQUIRE_OK(loom_filter_view_end(f.filter, &view, NULL));
        for (int i = 0; i < 3; i++)
            REQUIRE(told.at[i] == (fault == 3 ? LOOM_OK : LOOM_INVALID_ARGUMENT)); /* as it was lent it fits */
        REQUIRE(found.at[0] == (fault == 3));
        REQUIRE((f.bits_set() > 0) == (fault == 3));
    }
}

/* A new filter is empty for every stream. Clearing this filter takes milliseconds, and a stream that does not wait for
 * the default stream inserts at once. */
inline void test_filter_fresh()
{
    filter_fixture<uint32_t> f(1 << 18, 8);
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    config.key_bytes = 4;
    config.bytes = (uint64_t)8 << 30;
    shared_array<loom_result> result(1);
    cudaStream_t stream;
    loom_filter *large;
    REQUIRE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE_OK(loom_filter_create(f.context, &config, &large));
    REQUIRE_OK(loom_filter_insert(large, f.keys.at, f.n, LOOM_DIRECTLY, NULL, result.at, stream));
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
    REQUIRE_CUDA(cudaDeviceSynchronize());
    REQUIRE(result.at->ok == f.n);
    REQUIRE_OK(loom_filter_contains(large, f.keys.at, f.n, NULL, result.at, stream));
    REQUIRE_CUDA(cudaStreamSynchronize(stream));
    REQUIRE(result.at->ok == f.n);
    loom_filter_destroy(large);
    REQUIRE_CUDA(cudaStreamDestroy(stream));
}

template <class key> void test_filter_strings()
{
    test_filter_insert<key>(8);
    test_filter_contains<key>(12);
}

template <class key> void test_filter()
{
    for (uint32_t probes = 4; probes <= 16; probes += 4) {
        test_filter_insert<key>(probes);
        test_filter_contains<key>(probes);
        test_filter_mixed<key>(probes);
    }
}

} // namespace
