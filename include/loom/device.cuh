/* hashloom inside your own kernels: the tables and filters of loom/loom.h, by the same algorithms, as the library's kernels use
 * them.
 *
 *   loom_map_view view;                                                          // host
 *   loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, stream);
 *   my_kernel<<<blocks, threads, 0, stream>>>(view, rows, n);
 *   loom_map_view_end(map, &view, stream);
 *
 *   __global__ void my_kernel(const loom_map_view view, const row *rows, uint64_t n)
 *   {
 *       loom::table<uint32_t, uint32_t, LOOM_VIEW_INSERT> table(view);
 *       uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
 *       bool wanted = i < n && rows[i].price > 100;
 *       table.insert(wanted ? rows[i].key : 0, wanted ? rows[i].price : 0, wanted);   // by whole warps: no early return above
 *   }
 *
 * Blocks and grids may have any shape. A launch that fails is yours to notice (cudaGetLastError after <<<>>>): the library cannot.
 *
 * A map's insert is insert(key, value, active), a set's insert(key, active). Neither is taken for the other: a bool is no value for
 * any function here, and what is not a bool is no `active` of a set.
 *
 * TWO FORMS. Every function exists for a whole warp and for one lane group.
 *   table.f(key, …, active)      all 32 lanes of the warp are here, converged (blocks are multiples of 32 threads, no lane has
 *                                returned), each with a key of its own; lanes with active = false only help. Each lane gets its
 *                                own answer. This is the fast form: the groups of the warp work side by side. Keys of one
 *                                warp may be equal.
 *   table.group_f(key, …)        the LOOM_LANES lanes of one group, lanes k * LOOM_LANES to k * LOOM_LANES + LOOM_LANES - 1 of
 *                                a warp, are here, all with the same key; other groups may be elsewhere, or nowhere. All of them
 *                                get the answer. Lanes are counted as the hardware does, threadIdx.x first. The hardware runs
 *                                diverged groups one after the other: docs/performance.md has what it costs.
 *
 * LANES. `#define LOOM_LANES 1`, 2, 4 or 8 before including this header: how many lanes look at a bucket together; 2 if you say
 * nothing, which is best for tables in memory and in the L2 cache; for filters the library takes 4 to look, 8 to insert, for
 * lookups in perfect tables 4. With 1 a group is a lane: diverging code needs no thought.
 *
 * WHAT MAY OVERLAP. A view is taken for one access, which is part of the table's type here, so that the compiler refuses what the
 * access does not offer. Whatever a view offers may happen at the same time, in one kernel or in several:
 *   LOOM_VIEW_FIND        find, contains, for_each. Loads are those of read-only memory. (Perfect tables offer no other.)
 *   LOOM_VIEW_INSERT      insert, insert_or_assign, find_or_insert; find, contains
 *   LOOM_VIEW_ACCUMULATE  accumulate; find, contains
 *   LOOM_VIEW_ERASE       erase; find, contains
 *   LOOM_VIEW_MIXED       insert, find_or_insert, erase; find, contains
 * Each key behaves as if the operations on it had come one after the other, each at some time between the beginning and the
 * end of its function: nothing is stored twice, lost, or torn. What a function has stored, a later function of the same
 * thread finds; another thread that learned of it by memory of its own needs the usual fences for that memory.
 * (The lane simulator, docs/simulator.md, runs the algorithms in these combinations, two or three operations at a time.) In a mixed view a slot that was freed is taken
 * again only after the view was given back.
 *
 * FILTERS. loom_filter_view_begin and loom_filter_view_end lend a filter; a kernel has
 *       loom::filter<uint64_t> filter(view);
 *       filter.insert(key, active);                        // in the filter from then on; OK
 *       if (filter.contains(key, active)) …                // true: probably; false: surely not, or not active
 *   and group_insert(key), group_contains(key). All of them may happen at the same time, in kernels and in calls of the host.
 *   A key that was inserted is found by later functions of the same thread; by others, if it was told by memory of their own, with
 *   the usual fences there (__threadfence before telling, and after hearing it), or if a kernel has ended in between. A query that
 *   overlaps an insertion of its key may answer either way.
 *
 * PERFECT TABLES (LOOM_ENGINE_PERFECT) are lent for LOOM_VIEW_FIND alone; a kernel has
 *       loom::perfect_table<uint32_t, uint32_t> table(view);
 *       auto one = table.find(key, active);                // one.status, one.value
 *   and contains, group_find, group_contains, for_each, as a loom::table with that access. Every lookup reads 8 bytes of codes
 *   and one bucket; of the whole warp's, all codes are under way at once, then all the buckets of a group. Neither type takes the
 *   view of the other engine: it does not fit.
 *
 * STATUSES are those of loom.h: insert and the like OK (stored as new), EXISTS or FULL; find, contains, erase OK or NOT_FOUND;
 * lanes that were not active OK, so ask only active lanes. Nothing hangs: every loop ends after at most as many turns as a
 * partition has slots, but for two: with values apart (not 4 + 4 bytes, not a set) who meets a key that is just being stored, or
 * retired, waits for the few instructions of the lane that does so, which must be able to run (they are: sm_80 and later
 * schedule lanes independently); and floats are combined by swaps that fail only when another lane's has succeeded.
 * A view that does not fit (engine, widths, access, another version of the library): every function returns INVALID_ARGUMENT,
 * contains returns false, for_each visits nothing, and nothing is touched; table.status() or filter.status() tells beforehand.
 * CHANGED likewise: the memory now holds another table. (Tables do not move as yet; a view of one that was destroyed is not noticed for
 * certain.)
 *
 * COMPILING. nvcc 12.4 or newer, C++17, -I <prefix>/include -I <prefix>/include/loom/inner (CMake: hashloom::device, and
 * hashloom::loom for the calls of the host;
 * pkg-config --variable=device_cflags hashloom). Names in the namespaces loom and loom_inner, and macros beginning with LOOM_,
 * CUDA_LANES, OPEN_, FILTER_, are taken. */
#ifndef LOOM_DEVICE_CUH
#define LOOM_DEVICE_CUH

#include <loom/loom.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef LOOM_LANES
#define LOOM_LANES 2
#endif
#if LOOM_LANES != 1 && LOOM_LANES != 2 && LOOM_LANES != 4 && LOOM_LANES != 8
#error "LOOM_LANES is 1, 2, 4 or 8"
#endif
#if !__has_include("engines/open/open_upkeep.h")
#error "add <prefix>/include/loom/inner to the include path: the algorithms behind this header lie there"
#endif

#define CUDA_LANES        LOOM_LANES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
namespace loom_inner
{
#include "engines/filter/filter_ops.h"
#include "engines/open/open_items.h"
#include "engines/open/open_upkeep.h"
#include "engines/perfect/perfect_ops.h"
} // namespace loom_inner
#undef LOOM_LANES_HEADER
#undef CUDA_LANES

#define LOOM_LANES_NAME_2_(lanes) lanes_##lanes
#define LOOM_LANES_NAME_(lanes)   LOOM_LANES_NAME_2_(lanes)
#define LOOM_LANES_NAMESPACE      LOOM_LANES_NAME_(LOOM_LANES)

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

/* The values of a set. */
struct none {
};

template <class value_type> struct found {
    loom_status status;
    value_type value; /* value_type{} where there is none */
};

namespace detail
{

template <class value_type> struct width {
    static constexpr uint32_t bytes = sizeof(value_type);
};
template <> struct width<none> {
    static constexpr uint32_t bytes = 0;
};

template <class key_type, class value_type> struct slots_of {
    static constexpr loom_inner::loom__slot_kind kind =
        width<value_type>::bytes == 0 ? (sizeof(key_type) == 4 ? loom_inner::SLOT_KEY_4 : loom_inner::SLOT_KEY_8)
        : sizeof(key_type) == 4
            ? (sizeof(value_type) == 4 ? loom_inner::SLOT_PAIR_4_4 : loom_inner::SLOT_KEY_4_VALUE_8)
            : (sizeof(value_type) == 4 ? loom_inner::SLOT_KEY_8_VALUE_4 : loom_inner::SLOT_KEY_8_VALUE_8);
};

template <class type> __device__ __forceinline__ uint64_t to_bits(const type &value)
{
    if constexpr (sizeof(type) == 8) {
        uint64_t bits;
        memcpy(&bits, &value, 8);
        return bits;
    } else if constexpr (sizeof(type) == 4) {
        uint32_t bits;
        memcpy(&bits, &value, 4);
        return bits;
    } else {
        return 0;
    }
}

template <class type> __device__ __forceinline__ type from_bits(uint64_t bits)
{
    type value{};
    if constexpr (sizeof(type) == 8) {
        memcpy(&value, &bits, 8);
    } else if constexpr (sizeof(type) == 4) {
        uint32_t narrow = (uint32_t)bits;
        memcpy(&value, &narrow, 4);
    }
    return value;
}

template <uint32_t number> struct literal {
    static constexpr uint32_t value = number;
};

/* Has a member for bool itself, and for nothing that converts to or from it. */
template <class type, bool wanted = true> struct if_bool {
};
template <> struct if_bool<bool, true> {
    typedef int type;
};

template <class type> struct is_real {
    static constexpr bool value = false;
};
template <> struct is_real<float> {
    static constexpr bool value = true;
};
template <> struct is_real<double> {
    static constexpr bool value = true;
};

template <class number, loom_combine combine> __host__ __device__ constexpr loom_inner::loom__how how_to_combine()
{
    static_assert(combine != LOOM_COMBINE_ADD_AND_COUNT, "add LOOM_COUNTED(number) with LOOM_COMBINE_ADD");
    using namespace loom_inner;
    constexpr bool is_signed = (number)-1 < (number)0;
    if (is_real<number>::value)
        return combine == LOOM_COMBINE_ADD   ? LOOM__ADD_FLOAT
               : combine == LOOM_COMBINE_MIN ? LOOM__MIN_FLOAT
                                             : LOOM__MAX_FLOAT;
    return combine == LOOM_COMBINE_ADD   ? LOOM__ADD
           : combine == LOOM_COMBINE_MIN ? (is_signed ? LOOM__MIN_SIGNED : LOOM__MIN_UNSIGNED)
                                         : (is_signed ? LOOM__MAX_SIGNED : LOOM__MAX_UNSIGNED);
}

/* Calls `work` with every number below n, once in the whole grid: each thread has its share. */
template <class work_type> __device__ __forceinline__ void share_out(uint64_t n, work_type work)
{
    uint64_t block = ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    for (uint64_t at = block * threads + thread; at < n; at += blocks * threads)
        work(at);
}

/* By a whole warp: which lanes of the group bring a key; bit 0 is the first. */
__device__ __forceinline__ uint32_t actives(loom_inner::lane_group lanes, bool active)
{
    return LOOM_LANES == 1 ? active : __ballot_sync(CUDA_FULL_MASK, active) >> (__ffs((int)lanes.mask) - 1);
}

/* By a whole warp: what lane `from` of the own group brings. */
template <class type> __device__ __forceinline__ type of_lane(loom_inner::lane_group lanes, type own, uint32_t from)
{
    return LOOM_LANES == 1 ? own : __shfl_sync(CUDA_FULL_MASK, own, __ffs((int)lanes.mask) - 1 + (int)from);
}

/* What one turn of an operation brought. */
struct turned {
    loom_inner::open_outcome outcome;
    bool reports;
    uint64_t value; /* on the lane that reports */
};

__device__ __forceinline__ loom_status status_of(loom_inner::open_outcome outcome)
{
    using namespace loom_inner;
    return outcome == OPEN_DONE        ? LOOM_OK
           : outcome == OPEN_WAS_THERE ? LOOM_EXISTS
           : outcome == OPEN_ABSENT    ? LOOM_NOT_FOUND
                                       : LOOM_FULL;
}

} // namespace detail

/* key_type: 4 or 8 bytes; value_type: 4 or 8 bytes, or loom::none for a set. */
template <class key_type, class value_type, loom_view_access access> class table
{
    static_assert(sizeof(key_type) == 4 || sizeof(key_type) == 8, "keys have 4 or 8 bytes");
    static_assert(detail::width<value_type>::bytes == 0 || sizeof(value_type) == 4 || sizeof(value_type) == 8,
                  "values have 4 or 8 bytes, or are loom::none");
    static_assert(access >= LOOM_VIEW_FIND && access <= LOOM_VIEW_MIXED, "an access of loom_map_view_begin");

    static constexpr bool is_set = detail::width<value_type>::bytes == 0;
    static constexpr loom_inner::loom__slot_kind kind = detail::slots_of<key_type, value_type>::kind;
    static constexpr int shared = access == LOOM_VIEW_FIND    ? loom_inner::OPEN_ALONE
                                  : access == LOOM_VIEW_MIXED ? loom_inner::OPEN_MIXED
                                                              : loom_inner::OPEN_SHARED;
    static constexpr bool inserts = access == LOOM_VIEW_INSERT || access == LOOM_VIEW_MIXED;
    static constexpr bool erases = access == LOOM_VIEW_ERASE || access == LOOM_VIEW_MIXED;
    static constexpr bool accumulates = access == LOOM_VIEW_ACCUMULATE;

    loom_inner::loom__open_view view_;
    loom_status status_;

  public:
    /* In a kernel, from the view that it was given. */
    __device__ __forceinline__ explicit table(const loom_map_view &view)
    {
        static_assert(sizeof view_ <= sizeof view.table, "a view of the same version");
        memcpy(&view_, view.table, sizeof view_);
        bool fits = view.layout == LOOM_VIEW_LAYOUT && view.access == access && view.key_bytes == sizeof(key_type) &&
                    view.value_bytes == detail::width<value_type>::bytes;
        status_ = !fits ? LOOM_INVALID_ARGUMENT : view_.totals->generation != view.generation ? LOOM_CHANGED : LOOM_OK;
    }

    /* OK, or why no function will do anything. The same for all threads. */
    __device__ __forceinline__ loom_status status() const
    {
        return status_;
    }

    /* ---- by a whole warp ---- */

    __device__ __forceinline__ found<value_type> find(key_type key, bool active = true) const
    {
        return told(warp<false>(key, value_type{}, active, 0, look()));
    }

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        return warp<false>(key, value_type{}, active, 0, look()).status == LOOM_OK && active;
    }

    /* A key that is there keeps its value. In templates a set may be given the value loom::none{}. */
    __device__ __forceinline__ loom_status insert(key_type key, value_type value, bool active = true) const
    {
        static_assert(inserts, "the view is not for insertions: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED");
        return warp<true>(key, value, active, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    /* A set: insert(key, active), where nothing but a bool is taken for one. */
    template <class flag = bool, typename detail::if_bool<flag, is_set>::type = 0>
    __device__ __forceinline__ loom_status insert(key_type key, flag active = true) const
    {
        return insert(key, value_type{}, active);
    }

    /* A bool that is given as a value was meant as `active`. If not, convert it. */
    template <class flag, typename detail::if_bool<flag, !is_set>::type = 0>
    loom_status insert(key_type, flag, bool = true) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status insert_or_assign(key_type, flag, bool = true) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0>
    found<value_type> find_or_insert(key_type, flag, bool = true) const = delete;
    template <loom_combine combine = LOOM_COMBINE_ADD, class flag, typename detail::if_bool<flag>::type = 0>
    loom_status accumulate(key_type, flag, bool = true) const = delete;

    /* A key that is there gets the new value. */
    __device__ __forceinline__ loom_status insert_or_assign(key_type key, value_type value, bool active = true) const
    {
        static_assert(access == LOOM_VIEW_INSERT && !is_set, "the view is not for that: LOOM_VIEW_INSERT, not a set");
        return warp<true>(key, value, active, 1, put<loom_inner::SLOT_OVERWRITE>()).status;
    }

    /* The value that the key has afterwards; OK if it was stored as new. */
    __device__ __forceinline__ found<value_type> find_or_insert(key_type key, value_type value,
                                                                bool active = true) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return told(warp<true>(key, value, active, 1, put<loom_inner::SLOT_FETCH>()));
    }

    /* Combines the value with the one that the key has, as numbers of value_type; an absent key is stored with it. */
    template <loom_combine combine = LOOM_COMBINE_ADD>
    __device__ __forceinline__ loom_status accumulate(key_type key, value_type value, bool active = true) const
    {
        static_assert(accumulates && !is_set, "the view is not for accumulations: LOOM_VIEW_ACCUMULATE, not a set");
        return warp<true>(key, value, active, 1,
                          put<loom_inner::SLOT_COMBINE, detail::how_to_combine<value_type, combine>()>())
            .status;
    }

    __device__ __forceinline__ loom_status erase(key_type key, bool active = true) const
    {
        static_assert(erases, "the view is not for erasures: LOOM_VIEW_ERASE or LOOM_VIEW_MIXED");
        return warp<true>(key, value_type{}, active, (uint64_t)-1, take_out()).status;
    }

    /* ---- by one lane group, inside diverging code ---- */

    __device__ __forceinline__ found<value_type> group_find(key_type key) const
    {
        return told(group(key, value_type{}, 0, look()));
    }

    __device__ __forceinline__ bool group_contains(key_type key) const
    {
        return group(key, value_type{}, 0, look()).status == LOOM_OK;
    }

    __device__ __forceinline__ loom_status group_insert(key_type key, value_type value) const
    {
        static_assert(inserts, "the view is not for insertions: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED");
        return group(key, value, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    /* A set. */
    template <class flag = bool, typename detail::if_bool<flag, is_set>::type = 0>
    __device__ __forceinline__ loom_status group_insert(key_type key) const
    {
        return group_insert(key, value_type{});
    }

    /* All lanes of a group are active. */
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status group_insert(key_type, flag) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status group_insert_or_assign(key_type, flag) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0>
    found<value_type> group_find_or_insert(key_type, flag) const = delete;
    template <loom_combine combine = LOOM_COMBINE_ADD, class flag, typename detail::if_bool<flag>::type = 0>
    loom_status group_accumulate(key_type, flag) const = delete;

    __device__ __forceinline__ loom_status group_insert_or_assign(key_type key, value_type value) const
    {
        static_assert(access == LOOM_VIEW_INSERT && !is_set, "the view is not for that: LOOM_VIEW_INSERT, not a set");
        return group(key, value, 1, put<loom_inner::SLOT_OVERWRITE>()).status;
    }

    __device__ __forceinline__ found<value_type> group_find_or_insert(key_type key, value_type value) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return told(group(key, value, 1, put<loom_inner::SLOT_FETCH>()));
    }

    template <loom_combine combine = LOOM_COMBINE_ADD>
    __device__ __forceinline__ loom_status group_accumulate(key_type key, value_type value) const
    {
        static_assert(accumulates && !is_set, "the view is not for accumulations: LOOM_VIEW_ACCUMULATE, not a set");
        return group(key, value, 1, put<loom_inner::SLOT_COMBINE, detail::how_to_combine<value_type, combine>()>())
            .status;
    }

    __device__ __forceinline__ loom_status group_erase(key_type key) const
    {
        static_assert(erases, "the view is not for erasures: LOOM_VIEW_ERASE or LOOM_VIEW_MIXED");
        return group(key, value_type{}, (uint64_t)-1, take_out()).status;
    }

    /* ---- by all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair, a set visit(key, loom::none): each thread for its share of the buckets. */
    template <class visitor> __device__ __forceinline__ void for_each(visitor visit) const
    {
        using namespace loom_inner;
        static_assert(access == LOOM_VIEW_FIND, "visits need a table that nobody writes: LOOM_VIEW_FIND");
        if (status_ != LOOM_OK)
            return;
        detail::share_out((uint64_t)view_.partitions * view_.buckets, [&](uint64_t at) {
            open_walk here =
                open_stand_at(kind, &view_, (uint32_t)(at / view_.buckets), (uint32_t)(at % view_.buckets));
            const unsigned char *line = open_line(kind, &here, here.bucket);
            uint64_t empty = open_empty(&view_, here.partition_index);
            for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
                uint64_t key = slot_key(kind, line, slot), value = 0;
                if (key == empty)
                    continue;
                if (kind == SLOT_PAIR_4_4)
                    value = lane_load_4((const uint32_t *)(line + 8 * slot + 4));
                else if (!is_set)
                    value = slot_load_value(kind, open_value(kind, &view_, here.partition, line, slot));
                visit(detail::from_bits<key_type>(key), detail::from_bits<value_type>(value));
            }
        });
    }

  private:
    struct answer {
        loom_status status;
        uint64_t value;
    };

    /* One turn of each kind of operation. */
    __device__ __forceinline__ auto look() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, uint64_t, bool active) {
            loom_inner::open_found one = loom_inner::open_find_item(kind, shared, lanes, &view_, walk, active);
            return detail::turned{!one.settled ? loom_inner::OPEN_GO_ON
                                  : one.found  ? loom_inner::OPEN_DONE
                                               : loom_inner::OPEN_ABSENT,
                                  one.reports, one.value};
        };
    }

    template <loom_inner::slot_mode mode, loom_inner::loom__how how = loom_inner::LOOM__ADD>
    __device__ __forceinline__ auto put() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, uint64_t value, bool active) {
            loom_inner::open_answer one =
                loom_inner::open_insert_item(kind, mode, how, shared, lanes, &view_, walk, &value, active);
            return detail::turned{one.outcome, one.reports, one.outcome == loom_inner::OPEN_NO_ROOM ? 0 : value};
        };
    }

    __device__ __forceinline__ auto take_out() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, uint64_t, bool active) {
            loom_inner::open_answer one = loom_inner::open_erase_item(kind, shared, lanes, &view_, walk, active);
            return detail::turned{one.outcome, one.reports, 0};
        };
    }

    __device__ __forceinline__ void add_to_size(uint64_t keys) const
    {
        atomicAdd(
            (unsigned long long *)&view_.added[(blockIdx.x + blockIdx.y + blockIdx.z) % loom_inner::OPEN_ADDED_COPIES]
                .keys,
            (unsigned long long)keys);
    }

    static __device__ __forceinline__ found<value_type> told(answer one)
    {
        return found<value_type>{one.status, detail::from_bits<value_type>(one.value)};
    }

    /* Every lane brings a key. A group takes those of its own lanes one after the other; one that is done with a key begins
     * its next while the other groups go on. */
    template <bool writes, class take_turn>
    __device__ __forceinline__ answer warp(key_type key, value_type value, bool active, uint64_t stored_adds,
                                           take_turn turn) const
    {
        using namespace loom_inner;
        answer mine{LOOM_OK, 0};
        if (status_ != LOOM_OK) {
            mine.status = status_;
            return mine;
        }
        uint32_t in_warp = lane_in_warp();
        lane_group lanes = lane_group_at(in_warp);
        uint64_t own_key = detail::to_bits(key), own_value = detail::to_bits(value), key_bits = 0, value_bits = 0;
        uint32_t waiting = __ballot_sync(CUDA_FULL_MASK, active) & lanes.mask;
        open_walk walk = open_start(kind, &view_, 0);
        for (bool begins = true; lane_going(lanes, waiting != 0);) {
            uint32_t from = waiting != 0 ? (uint32_t)__ffs((int)waiting) - 1 : in_warp;
            uint64_t next_key = __shfl_sync(CUDA_FULL_MASK, own_key, (int)from);
            uint64_t next_value = is_set ? 0 : __shfl_sync(CUDA_FULL_MASK, own_value, (int)from);
            if (begins) {
                key_bits = next_key;
                value_bits = next_value;
                walk = open_start(kind, &view_, key_bits);
            }
            detail::turned one = turn(lanes, &walk, value_bits, waiting != 0);
            begins = waiting != 0 && one.outcome != OPEN_GO_ON;
            uint32_t teller = __ballot_sync(CUDA_FULL_MASK, one.reports) & lanes.mask;
            uint64_t told_value =
                is_set ? 0 : __shfl_sync(CUDA_FULL_MASK, one.value, teller != 0 ? __ffs((int)teller) - 1 : 0);
            if (begins) {
                if (in_warp == from) {
                    mine.status = detail::status_of(one.outcome);
                    mine.value = told_value;
                }
                waiting &= waiting - 1;
            }
        }
        if (writes) {
            uint32_t changed = __ballot_sync(CUDA_FULL_MASK, active && mine.status == LOOM_OK);
            if (in_warp == 0 && changed != 0)
                add_to_size(stored_adds * (uint64_t)__popc(changed));
        }
        return mine;
    }

    template <class take_turn>
    __device__ __forceinline__ answer group(key_type key, value_type value, uint64_t stored_adds, take_turn turn) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return answer{status_, 0};
        lane_group lanes = lane_group_apart(lane_in_warp());
        open_walk walk = open_start(kind, &view_, detail::to_bits(key));
        detail::turned one;
        do
            one = turn(lanes, &walk, detail::to_bits(value), true);
        while (one.outcome == OPEN_GO_ON);
        uint32_t teller = __ballot_sync(lanes.mask, one.reports);
        answer all{detail::status_of(one.outcome), 0};
        all.value = __shfl_sync(lanes.mask, one.value, teller != 0 ? __ffs((int)teller) - 1 : 0);
        if (stored_adds != 0 && all.status == LOOM_OK && lane_leads(lanes))
            add_to_size(stored_adds);
        return all;
    }
};

/* Lookups in a perfect table. key_type: 4 or 8 bytes; value_type: 4 or 8 bytes, or loom::none for a set. */
template <class key_type, class value_type> class perfect_table
{
    static_assert(sizeof(key_type) == 4 || sizeof(key_type) == 8, "keys have 4 or 8 bytes");
    static_assert(detail::width<value_type>::bytes == 0 || sizeof(value_type) == 4 || sizeof(value_type) == 8,
                  "values have 4 or 8 bytes, or are loom::none");

    static constexpr bool is_set = detail::width<value_type>::bytes == 0;
    static constexpr loom_inner::loom__slot_kind kind = detail::slots_of<key_type, value_type>::kind;

    loom_inner::loom__perfect_view view_;
    loom_status status_;

  public:
    /* In a kernel, from the view that it was given. */
    __device__ __forceinline__ explicit perfect_table(const loom_map_view &view)
    {
        static_assert(sizeof view_ <= sizeof view.table, "a view of the same version");
        memcpy(&view_, view.table, sizeof view_);
        bool fits = view.layout == LOOM_PERFECT_VIEW_LAYOUT && view.access == LOOM_VIEW_FIND &&
                    view.key_bytes == sizeof(key_type) && view.value_bytes == detail::width<value_type>::bytes;
        status_ = !fits ? LOOM_INVALID_ARGUMENT : view_.totals->generation != view.generation ? LOOM_CHANGED : LOOM_OK;
    }

    /* OK, or why no function will do anything. The same for all threads. */
    __device__ __forceinline__ loom_status status() const
    {
        return status_;
    }

    /* ---- by a whole warp ---- */

    __device__ __forceinline__ found<value_type> find(key_type key, bool active = true) const
    {
        return warp<!is_set>(key, active);
    }

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        return warp<false>(key, active).status == LOOM_OK && active;
    }

    /* ---- by one lane group, inside diverging code ---- */

    __device__ __forceinline__ found<value_type> group_find(key_type key) const
    {
        return group<!is_set>(key);
    }

    __device__ __forceinline__ bool group_contains(key_type key) const
    {
        return group<false>(key).status == LOOM_OK;
    }

    /* ---- by all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair, a set visit(key, loom::none): each thread for its share of the buckets. */
    template <class visitor> __device__ __forceinline__ void for_each(visitor visit) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return;
        const uint32_t buckets = perfect_buckets(view_.subrange);
        detail::share_out((uint64_t)view_.partitions * buckets, [&](uint64_t at) {
            const uint32_t index = (uint32_t)(at / buckets), bucket = (uint32_t)(at % buckets);
            unsigned char *partition = view_.base + loom__multiply_wide(index, view_.partition_bytes);
            const unsigned char *line = perfect_line(kind, partition, bucket);
            const uint64_t empty = perfect_empty(&view_, index);
            for (uint32_t slot = 0; slot < perfect_slots(kind); slot++) {
                uint64_t key = slot_key(kind, line, slot), value = 0;
                if (key == empty)
                    continue;
                if (kind == SLOT_PAIR_4_4)
                    value = lane_load_4((const uint32_t *)(line + 8 * slot + 4));
                else if (!is_set)
                    value = slot_load_value(kind, perfect_value(kind, &view_, partition, bucket, slot));
                visit(detail::from_bits<key_type>(key), detail::from_bits<value_type>(value));
            }
        });
    }

  private:
    /* A key with its bucket; where nobody asks, some bucket, and nothing is read. */
    __device__ __forceinline__ loom_inner::perfect_seek settled(key_type key, bool active) const
    {
        using namespace loom_inner;
        perfect_seek seek = perfect_start(kind, &view_, detail::to_bits(key));
        const unsigned long long *word = (const unsigned long long *)perfect_word_of(&view_, &seek);
        perfect_settle(&view_, &seek, active ? __ldg(word) : 0); /* nobody writes while the view is out */
        return seek;
    }

    /* What the lane that holds a key tells the others of it. */
    static __device__ __forceinline__ uint32_t hint(const loom_inner::perfect_look &look)
    {
        return kind == loom_inner::SLOT_PAIR_4_4 ? (uint32_t)(look.pair >> 32) : look.slot;
    }

    /* Of a key that was found: with a hint any lane has the value. */
    template <bool wants_value>
    __device__ __forceinline__ found<value_type> hit(const loom_inner::perfect_seek &seek, uint32_t hinted) const
    {
        using namespace loom_inner;
        uint64_t value = 0;
        if (wants_value && kind == SLOT_PAIR_4_4)
            value = hinted;
        else if (wants_value)
            value = slot_load_value(kind, perfect_value(kind, &view_, seek.partition, seek.bucket, hinted));
        return found<value_type>{LOOM_OK, detail::from_bits<value_type>(value)};
    }

    /* Every lane brings a key and finds out where it lies; then each group looks at the buckets of its lanes' keys; then every
     * lane reads the value of its own. */
    template <bool wants_value> __device__ __forceinline__ found<value_type> warp(key_type key, bool active) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return found<value_type>{status_, value_type{}};
        const lane_group lanes = lane_group_at(lane_in_warp());
        const perfect_seek own = settled(key, active);
        const uint64_t own_line = (uint64_t)perfect_line(kind, own.partition, own.bucket);
        const uint32_t wanted = detail::actives(lanes, active);
        lane_line lines[LOOM_LANES] = {}; /* all under way at once */
        bool holds = false;
        uint32_t hinted = 0;
#pragma unroll
        for (uint32_t from = 0; from < LOOM_LANES; from++) {
            const unsigned char *line = (const unsigned char *)detail::of_lane(lanes, own_line, from);
            lane_take(lanes, &lines[from], line, 0, wanted >> from & 1, perfect_span(kind));
        }
#pragma unroll
        for (uint32_t from = 0; from < LOOM_LANES; from++) {
            const uint64_t sought = sizeof(key_type) == 4 ? detail::of_lane(lanes, (uint32_t)own.key, from)
                                                          : detail::of_lane(lanes, own.key, from);
            const perfect_look look = perfect_look_in(kind, lanes, &lines[from], sought, wanted >> from & 1);
            const uint32_t told = wants_value ? of_holder(lanes, look) : 0;
            if (lanes.lane == from) {
                holds = look.found;
                hinted = told;
            }
        }
        if (holds)
            return hit<wants_value>(own, hinted);
        return found<value_type>{active ? LOOM_NOT_FOUND : LOOM_OK, value_type{}};
    }

    template <bool wants_value> __device__ __forceinline__ found<value_type> group(key_type key) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return found<value_type>{status_, value_type{}};
        const lane_group lanes = lane_group_apart(lane_in_warp());
        const perfect_seek seek = settled(key, true);
        const perfect_look look = perfect_find(kind, 0, lanes, &seek, true);
        const uint32_t told = wants_value ? of_holder(lanes, look) : 0;
        return look.found ? hit<wants_value>(seek, told) : found<value_type>{LOOM_NOT_FOUND, value_type{}};
    }

    /* The hint of the lane that holds the key: one at most, since the key is there once (P1). All lanes that turn together call
     * this; without a holder it means nothing. */
    static __device__ __forceinline__ uint32_t of_holder(loom_inner::lane_group lanes,
                                                         const loom_inner::perfect_look &look)
    {
        if (LOOM_LANES == 1)
            return hint(look);
        const uint32_t holder = __ballot_sync(lanes.together, look.mine) & lanes.mask;
        return __shfl_sync(lanes.together, hint(look), __ffs((int)(holder != 0 ? holder : lanes.mask)) - 1);
    }
};

/* key_type: 4 or 8 bytes. */
template <class key_type> class filter
{
    static_assert(sizeof(key_type) == 4 || sizeof(key_type) == 8, "keys have 4 or 8 bytes");

    loom_inner::loom__filter_view view_;
    loom_status status_;

  public:
    /* In a kernel, from the view that it was given. */
    __device__ __forceinline__ explicit filter(const loom_filter_view &view)
    {
        static_assert(sizeof view_ <= sizeof view.filter, "a view of the same version");
        memcpy(&view_, view.filter, sizeof view_);
        bool fits = view.layout == LOOM_FILTER_VIEW_LAYOUT && view.key_bytes == sizeof(key_type);
        status_ = fits ? LOOM_OK : LOOM_INVALID_ARGUMENT;
    }

    /* OK, or why no function will do anything. The same for all threads. */
    __device__ __forceinline__ loom_status status() const
    {
        return status_;
    }

    /* ---- by a whole warp ---- */

    /* Nothing but a bool is taken for `active`. */
    template <class flag = bool, typename detail::if_bool<flag>::type = 0>
    __device__ __forceinline__ loom_status insert(key_type key, flag active = true) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return status_;
        const lane_group lanes = lane_group_at(lane_in_warp());
        const filter_key own = filter_start(&view_, sizeof(key_type), detail::to_bits(key));
        const uint32_t wanted = detail::actives(lanes, active);
        by_each([&](auto each) {
#pragma unroll
            for (uint32_t from = 0; from < LOOM_LANES; from++) {
                const filter_key sought = key_of_lane(lanes, own, from);
                if (wanted >> from & 1)
                    filter_set(decltype(each)::value, 1, lanes, filter_block(&view_, sought.block), sought.lower);
            }
        });
        lane_join(lanes, 1); /* what the others have set for this thread comes before what it tells */
        return LOOM_OK;
    }

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return false;
        const lane_group lanes = lane_group_at(lane_in_warp());
        const filter_key own = filter_start(&view_, sizeof(key_type), detail::to_bits(key));
        const uint32_t wanted = detail::actives(lanes, active);
        bool found = false;
        lane_join(lanes, 1); /* what this thread has heard holds for those that look for it */
        by_each([&](auto each) {
            lane_line lines[LOOM_LANES] = {}; /* all under way at once */
            uint32_t lower[LOOM_LANES];
#pragma unroll
            for (uint32_t from = 0; from < LOOM_LANES; from++) {
                const filter_key sought = key_of_lane(lanes, own, from);
                lower[from] = sought.lower;
                filter_take(lanes, &lines[from], filter_block(&view_, sought.block), wanted >> from & 1);
            }
#pragma unroll
            for (uint32_t from = 0; from < LOOM_LANES; from++) {
                const bool one = filter_agree(decltype(each)::value, lanes, &lines[from], lower[from]);
                found = lanes.lane == from ? one : found;
            }
        });
        return found && active;
    }

    /* ---- by one lane group, inside diverging code ---- */

    __device__ __forceinline__ loom_status group_insert(key_type key) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return status_;
        const lane_group lanes = lane_group_apart(lane_in_warp());
        const filter_key sought = filter_start(&view_, sizeof(key_type), detail::to_bits(key));
        by_each([&](auto each) {
            filter_set(decltype(each)::value, 1, lanes, filter_block(&view_, sought.block), sought.lower);
        });
        lane_join(lanes, 1);
        return LOOM_OK;
    }

    __device__ __forceinline__ bool group_contains(key_type key) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return false;
        const lane_group lanes = lane_group_apart(lane_in_warp());
        const filter_key sought = filter_start(&view_, sizeof(key_type), detail::to_bits(key));
        bool found = false;
        lane_join(lanes, 1);
        by_each([&](auto each) {
            lane_line line = {};
            filter_take(lanes, &line, filter_block(&view_, sought.block), true);
            found = filter_agree(decltype(each)::value, lanes, &line, sought.lower);
        });
        return found;
    }

    /* All lanes of a group are active. */
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status group_insert(key_type, flag) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0> bool group_contains(key_type, flag) const = delete;

  private:
    static __device__ __forceinline__ loom_inner::filter_key key_of_lane(loom_inner::lane_group lanes,
                                                                         loom_inner::filter_key own, uint32_t from)
    {
        return loom_inner::filter_key{detail::of_lane(lanes, own.block, from), detail::of_lane(lanes, own.lower, from)};
    }

    /* Calls `work` with how many bits a key has in each quarter, as a type. All threads go the same way: the view says so. */
    template <class work_type> __device__ __forceinline__ void by_each(work_type work) const
    {
        switch (view_.each) {
        case 1:
            work(detail::literal<1>{});
            break;
        case 2:
            work(detail::literal<2>{});
            break;
        case 3:
            work(detail::literal<3>{});
            break;
        default:
            work(detail::literal<4>{});
            break;
        }
    }
};

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
