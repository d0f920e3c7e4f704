/* Perfect tables in kernels, for groups of LOOM_LANES lanes; part of device_tests.cuh. The host fills the tables by
 * bulk calls, which have tests of their own. Kernels look up every key, present and absent, in each form. */
namespace
{

/* Counts of wrong answers in a kernel, by form, and of the pairs that it visited. */
enum { WRONG_FIND, WRONG_CONTAINS, WRONG_IDLE, WRONG_GROUP, WRONG_VISIT, WRONGS, VISITED = WRONGS, FINDINGS };

template <class value> __device__ __forceinline__ bool tells(loom::found<value> one, bool there, uint32_t i)
{
    if (one.status != (there ? LOOM_OK : LOOM_NOT_FOUND))
        return false;
    if constexpr (loom::detail::width<value>::bytes != 0)
        return one.value == (there ? value_of<value>(i) : value{});
    return true;
}

/* Keys from `gone` to `present` are there, and no others. visits[i]: how often key i was visited. */
template <class key, class value>
__global__ void perfect_kernel(const loom_map_view view, const key *keys, uint32_t n, unsigned long long *findings,
                               uint32_t gone, uint32_t present, uint32_t *visits)
{
    loom::perfect_table<key, value> table(view);
    const uint32_t item = own_item();
    const bool active = item < n;
    const uint32_t i = active ? item : 0;
    const bool there = i >= gone && i < present;
    if (active && table.status() != LOOM_OK)
        atomicAdd(&findings[WRONG_FIND], 1ull);
    if (!tells(table.find(keys[i], active), there, i) && active)
        atomicAdd(&findings[WRONG_FIND], 1ull);
    if (table.contains(keys[i], active) != (active && there))
        atomicAdd(&findings[WRONG_CONTAINS], 1ull);

    /* Some lanes idle, in patterns that differ from group to group, and several lanes with one key. */
    const bool asks = active && item * 0x9e3779b9u >> 30 != 0;
    const uint32_t j = i / 3;
    const bool also_there = j >= gone && j < present;
    const auto other = table.find(keys[j], asks);
    if (asks ? !tells(other, also_there, j) : other.status != LOOM_OK)
        atomicAdd(&findings[WRONG_IDLE], 1ull);
    if (table.contains(keys[j], asks) != (asks && also_there))
        atomicAdd(&findings[WRONG_IDLE], 1ull);

    /* Groups apart, each in a loop of its own length. */
    const uint32_t of_group = item / LOOM_LANES;
    for (uint32_t k = of_group; k < n && of_group % 3 != 1; k += n / (1 + of_group % 5) + 1) {
        const bool here = k >= gone && k < present;
        if (!tells(table.group_find(keys[k]), here, k) || table.group_contains(keys[k]) != here)
            atomicAdd(&findings[WRONG_GROUP], 1ull);
    }

    table.for_each([&](key one, value with) {
        atomicAdd(&findings[VISITED], 1ull);
        /* Found by its value, or, in a set, only counted. */
        if constexpr (loom::detail::width<value>::bytes != 0) {
            const uint32_t number = (uint32_t)((with - 1) / 7);
            if (number < gone || number >= present || keys[number] != one || with != value_of<value>(number))
                atomicAdd(&findings[WRONG_VISIT], 1ull);
            else
                atomicAdd(&visits[number], 1u);
        }
    });
}

template <class key, class value> void check_perfect(fixture<key, value> &f, uint32_t gone, uint32_t present)
{
    shared_array<unsigned long long> findings(FINDINGS);
    shared_array<uint32_t> visits(f.n + 1);
    f.run(LOOM_VIEW_FIND, perfect_kernel<key, value>, f.n, findings.at, gone, present, visits.at);
    for (int i = 0; i < WRONGS; i++)
        REQUIRE(findings.at[i] == 0);
    REQUIRE(findings.at[VISITED] == present - gone);
    for (uint32_t i = 0; i < f.n && !fixture<key, value>::is_set; i++)
        REQUIRE(visits.at[i] == (i >= gone && i < present));
}

/* Empty, with some keys, and full. */
template <class key, class value> void test_perfect_find()
{
    const uint32_t n = 30000;
    fixture<key, value> f(n, n, LOOM_ENGINE_PERFECT);
    check_perfect(f, 0, 0);
    f.insert_by_host(1);
    check_perfect(f, 0, 1);
    f.insert_by_host(n / 3);
    check_perfect(f, 0, n / 3);
    f.insert_by_host(n);
    check_perfect(f, 0, n);
    fixture<key, value> built(n, n / 2, LOOM_ENGINE_PERFECT);
    for (uint32_t i = 0; i < n / 2 && !fixture<key, value>::is_set; i++)
        built.array()[i] = value_of<value>(i);
    REQUIRE_OK(loom_map_build(built.map, built.keys.at, built.array(), n / 2, LOOM_KEEP, NULL, NULL, NULL));
    check_perfect(built, 0, n / 2);
}

/* Bulk calls between views: new keys move others and make the table grow, keys are erased, the table is cleared. While
 * a view is out, calls that write are refused and lookups go on. */
template <class key, class value> void test_perfect_after_writes()
{
    const uint32_t n = 30000;
    fixture<key, value> f(n, n / 8, LOOM_ENGINE_PERFECT);
    for (uint32_t present = n / 16; present < n; present *= 2) {
        f.insert_by_host(present);
        check_perfect(f, 0, present);
    }
    f.insert_by_host(n - 100);
    const uint32_t gone = n / 4;
    REQUIRE_OK(loom_map_erase(f.map, f.keys.at, gone, NULL, NULL, NULL));
    check_perfect(f, gone, n - 100);

    loom_map_view view;
    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &view, NULL));
    REQUIRE(loom_map_insert(f.map, f.keys.at, f.array(), 1, LOOM_KEEP, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_erase(f.map, f.keys.at, 1, NULL, NULL, NULL) == LOOM_IN_USE);
    REQUIRE(loom_map_clear(f.map, NULL, NULL) == LOOM_IN_USE);
    REQUIRE_OK(loom_map_find(f.map, f.keys.at, n, f.array(), NULL, f.status.at, NULL, NULL));
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE(f.size() == n - 100 - gone);

    REQUIRE_OK(loom_map_shrink(f.map, NULL));
    check_perfect(f, gone, n - 100);
    REQUIRE_OK(loom_map_clear(f.map, NULL, NULL));
    check_perfect(f, 0, 0);
}

/* ---- views that do not fit ---- */

enum { TOLD_STATUS, TOLD_FIND, TOLD_GROUP_FIND, TOLD_STATUSES, TOLD_FALSE = TOLD_STATUSES, TOLD };

template <class table_type> __global__ void refused_lookups(const loom_map_view view, loom_status *told)
{
    table_type table(view);
    const uint32_t key = threadIdx.x, of_group = threadIdx.x / LOOM_LANES;
    const loom_status one = table.find(key).status, other = table.group_find(of_group).status;
    bool any = table.contains(key);
    any = table.group_contains(of_group) || any;
    table.for_each([&](auto, auto) { any = true; });
    any = __any_sync(0xffffffffu, any);
    if (threadIdx.x == 0) {
        told[TOLD_STATUS] = table.status();
        told[TOLD_FIND] = one;
        told[TOLD_GROUP_FIND] = other;
        told[TOLD_FALSE] = any ? LOOM_INTERNAL : LOOM_OK;
    }
}

template <class table_type> void require_refused(const loom_map_view &view, loom_status why)
{
    shared_array<loom_status> told(TOLD);
    told.at[TOLD_FALSE] = LOOM_INTERNAL;
    refused_lookups<table_type><<<1, 32>>>(view, told.at);
    REQUIRE_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < TOLD_STATUSES; i++)
        REQUIRE(told.at[i] == why);
    REQUIRE(told.at[TOLD_FALSE] == LOOM_OK);
}

/* Tables that hold the keys: what answered them would be seen. */
void test_perfect_refused()
{
    typedef loom::perfect_table<uint32_t, uint32_t> perfect;
    typedef loom::table<uint32_t, uint32_t, LOOM_VIEW_FIND> open;
    fixture<uint32_t, uint32_t> f(64, 1000, LOOM_ENGINE_PERFECT), other(64, 1000);
    for (uint32_t i = 0; i < 64; i++)
        f.keys.at[i] = other.keys.at[i] = i;
    f.insert_by_host(64);
    other.insert_by_host(64);
    loom_map_view view, of_open;
    for (int access = LOOM_VIEW_INSERT; access <= LOOM_VIEW_MIXED; access++)
        REQUIRE(loom_map_view_begin(f.map, (loom_view_access)access, &view, NULL) == LOOM_UNSUPPORTED);
    REQUIRE_OK(loom_supports(f.context, LOOM_TYPE_MAP, LOOM_ENGINE_PERFECT, LOOM_FEATURE_VIEWS));
    REQUIRE(loom_supports(f.context, LOOM_TYPE_MAP, LOOM_ENGINE_PERFECT, LOOM_FEATURE_WRITING_VIEWS) ==
            LOOM_UNSUPPORTED);
    REQUIRE_OK(loom_supports(f.context, LOOM_TYPE_MAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_WRITING_VIEWS));

    REQUIRE_OK(loom_map_view_begin(f.map, LOOM_VIEW_FIND, &view, NULL));
    REQUIRE_OK(loom_map_view_begin(other.map, LOOM_VIEW_FIND, &of_open, NULL));
    require_refused<open>(view, LOOM_INVALID_ARGUMENT);
    require_refused<perfect>(of_open, LOOM_INVALID_ARGUMENT);
    require_refused<loom::perfect_table<uint32_t, uint64_t>>(view, LOOM_INVALID_ARGUMENT);
    require_refused<loom::perfect_table<uint64_t, uint32_t>>(view, LOOM_INVALID_ARGUMENT);
    require_refused<loom::perfect_table<uint32_t, loom::none>>(view, LOOM_INVALID_ARGUMENT);
    for (int fault = 0; fault < 3; fault++) {
        loom_map_view bent = view;
        bent.layout += fault == 0;
        bent.access = fault == 1 ? LOOM_VIEW_INSERT : bent.access;
        bent.generation += fault == 2;
        require_refused<perfect>(bent, fault == 2 ? LOOM_CHANGED : LOOM_INVALID_ARGUMENT);
    }
    REQUIRE_OK(loom_map_view_end(f.map, &view, NULL));
    REQUIRE_OK(loom_map_view_end(other.map, &of_open, NULL));
}

} // namespace
