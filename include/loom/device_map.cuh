/* loom::table: maps, sets and counters of the open engine inside kernels. loom/device.cuh has the
 * introduction: the two forms of each function, lanes, accesses, statuses. */
#ifndef LOOM_DEVICE_MAP_CUH
#define LOOM_DEVICE_MAP_CUH

#include <loom/device_base.cuh>

namespace loom_inner
{
#include "engines/open/open_items.h"
#include "engines/open/open_upkeep.h"
} // namespace loom_inner

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

namespace detail
{

template <class type> struct is_real {
    static constexpr bool value = false;
};
template <> struct is_real<float> {
    static constexpr bool value = true;
};
template <> struct is_real<double> {
    static constexpr bool value = true;
};

template <class number, loom_combine combine>
__host__ __device__ constexpr loom_inner::loom__combine_rule how_to_combine()
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

/* The outcome of one turn of an operation: one bucket of one key. */
struct stepped {
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

struct answer {
    loom_status status;
    uint64_t value;
};

/* A whole warp calls this; every lane brings a key. A group works on the keys of its own lanes, one
 * after the other. A group that is done with a key begins its next key while the other groups go
 * on.
 *   begin   (uint32_t from, bool begins): the group takes the key of lane `from`, if it begins one
 *   step    (lane_group lanes, bool active): one turn of the group's key
 *   with_values   whether a turn has a value to report */
template <bool with_values, class begin_type, class step_type>
__device__ __forceinline__ answer by_warp(bool active, begin_type begin, step_type step)
{
    using namespace loom_inner;
    const uint32_t in_warp = lane_in_warp();
    const lane_group lanes = lane_group_at(in_warp);
    answer mine{LOOM_OK, 0};
    uint32_t waiting = __ballot_sync(CUDA_FULL_MASK, active) & lanes.mask;
    for (bool begins = true; lane_going(lanes, waiting != 0);) {
        const uint32_t from = waiting != 0 ? (uint32_t)__ffs((int)waiting) - 1 : in_warp;
        begin(from, begins);
        const stepped one = step(lanes, waiting != 0);
        begins = waiting != 0 && one.outcome != OPEN_GO_ON;
        const uint32_t teller = __ballot_sync(CUDA_FULL_MASK, one.reports) & lanes.mask;
        const uint64_t told =
            with_values ? __shfl_sync(CUDA_FULL_MASK, one.value, teller != 0 ? __ffs((int)teller) - 1 : 0) : 0;
        if (begins) {
            if (in_warp == from)
                mine = answer{status_of(one.outcome), told};
            waiting &= waiting - 1;
        }
    }
    return mine;
}

/* How many active lanes of the warp got OK; 0 on other lanes than the first. */
__device__ __forceinline__ uint32_t count_ok(bool active, loom_status status)
{
    const uint32_t ok = __ballot_sync(CUDA_FULL_MASK, active && status == LOOM_OK);
    return loom_inner::lane_in_warp() == 0 ? (uint32_t)__popc(ok) : 0;
}

/* The lanes of a group call this; all have the same key. */
template <class step_type> __device__ __forceinline__ answer by_group(loom_inner::lane_group lanes, step_type step)
{
    stepped one;
    do
        one = step();
    while (one.outcome == loom_inner::OPEN_GO_ON);
    const uint32_t teller = __ballot_sync(lanes.mask, one.reports);
    return answer{status_of(one.outcome), __shfl_sync(lanes.mask, one.value, teller != 0 ? __ffs((int)teller) - 1 : 0)};
}

} // namespace detail

/* A map, set or counter.
 *   key_type     4 or 8 bytes
 *   value_type   4 or 8 bytes; loom::none for a set
 *   access       the access that loom_map_view_begin was given. The compiler refuses functions that
 *                it does not offer */
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
    /* Made in a kernel, from the view that the host passed to the kernel. */
    __device__ __forceinline__ explicit table(const loom_map_view &view)
    {
        static_assert(sizeof view_ <= sizeof view.table, "a view of the same version");
        memcpy(&view_, view.table, sizeof view_);
        bool fits = view.layout == LOOM_VIEW_LAYOUT && view.access == access && view.key_bytes == sizeof(key_type) &&
                    view.value_bytes == detail::width<value_type>::bytes;
        status_ = !fits ? LOOM_INVALID_ARGUMENT : view_.totals->generation != view.generation ? LOOM_CHANGED : LOOM_OK;
    }

    /* OK, or the reason why no function does anything. All threads get the same status. */
    __device__ __forceinline__ loom_status status() const
    {
        return status_;
    }

    /* ---- By a whole warp ---- */

    __device__ __forceinline__ found<value_type> find(key_type key, bool active = true) const
    {
        return told(warp<false>(key, value_type{}, active, 0, look()));
    }

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        return warp<false>(key, value_type{}, active, 0, look()).status == LOOM_OK && active;
    }

    /* A key that exists keeps its value. Generic code may pass loom::none{} as the value of a
     * set. */
    __device__ __forceinline__ loom_status insert(key_type key, value_type value, bool active = true) const
    {
        static_assert(inserts, "the view is not for insertions: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED");
        return warp<true>(key, value, active, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    /* For sets: insert(key, active). `active` must be a bool. */
    template <class flag = bool, typename detail::if_bool<flag, is_set>::type = 0>
    __device__ __forceinline__ loom_status insert(key_type key, flag active = true) const
    {
        return insert(key, value_type{}, active);
    }

    /* Deleted: a bool in the place of the value was probably meant as `active`. If it is the value,
     * convert it to value_type. */
    template <class flag, typename detail::if_bool<flag, !is_set>::type = 0>
    loom_status insert(key_type, flag, bool = true) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status insert_or_assign(key_type, flag, bool = true) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0>
    found<value_type> find_or_insert(key_type, flag, bool = true) const = delete;
    template <loom_combine combine = LOOM_COMBINE_ADD, class flag, typename detail::if_bool<flag>::type = 0>
    loom_status accumulate(key_type, flag, bool = true) const = delete;

    /* A key that exists gets the new value. */
    __device__ __forceinline__ loom_status insert_or_assign(key_type key, value_type value, bool active = true) const
    {
        static_assert(access == LOOM_VIEW_INSERT && !is_set, "the view is not for that: LOOM_VIEW_INSERT, not a set");
        return warp<true>(key, value, active, 1, put<loom_inner::SLOT_OVERWRITE>()).status;
    }

    /* Returns the value that the key has afterwards. Status: OK (stored as new), EXISTS or FULL. */
    __device__ __forceinline__ found<value_type> find_or_insert(key_type key, value_type value,
                                                                bool active = true) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return told(warp<true>(key, value, active, 1, put<loom_inner::SLOT_FETCH>()));
    }

    /* Combines the value with the stored value of the key, as numbers of value_type. An absent key
     * is stored with the value. */
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

    /* ---- By one lane group, in divergent code ---- */

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

    /* For sets. */
    template <class flag = bool, typename detail::if_bool<flag, is_set>::type = 0>
    __device__ __forceinline__ loom_status group_insert(key_type key) const
    {
        return group_insert(key, value_type{});
    }

    /* Deleted: all lanes of a group are active, so there is no argument `active`. */
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

    /* ---- By all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair. A set calls visit(key, loom::none). The threads
     * of the grid share the buckets. */
    template <class visitor> __device__ __forceinline__ void for_each(visitor visit) const
    {
        using namespace loom_inner;
        static_assert(access == LOOM_VIEW_FIND, "visits need a table that nothing writes: LOOM_VIEW_FIND");
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
                    value = slot_load_value(kind, line + open_value_place(kind, slot));
                visit(detail::from_bits<key_type>(key), detail::from_bits<value_type>(value));
            }
        });
    }

    /* Erases every pair for which wanted(key, value) is true. A set calls wanted(key, loom::none).
     * The threads of the grid share the buckets. Returns the number of pairs that this thread
     * erased. Other functions of the view may run at the same time: a pair that is stored
     * meanwhile may or may not be visited. */
    template <class predicate> __device__ __forceinline__ uint64_t erase_if(predicate wanted) const
    {
        using namespace loom_inner;
        static_assert(erases, "the view is not for erasures: LOOM_VIEW_ERASE or LOOM_VIEW_MIXED");
        uint64_t erased = 0;
        if (status_ != LOOM_OK)
            return 0;
        detail::share_out((uint64_t)view_.partitions * view_.buckets, [&](uint64_t at) {
            open_walk here =
                open_stand_at(kind, &view_, (uint32_t)(at / view_.buckets), (uint32_t)(at % view_.buckets));
            for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
                uint64_t key, value = 0, pair;
                if (open_read_slot(kind, shared, &view_, &here, slot, &key, &value, &pair) &&
                    wanted(detail::from_bits<key_type>(key), detail::from_bits<value_type>(value)))
                    erased += open_erase_slot(kind, shared, &view_, &here, slot, key, pair);
            }
        });
        if (erased > 0)
            add_to_size((uint64_t)0 - erased);
        return erased;
    }

  private:
    using answer = detail::answer;

    /* One turn of each kind of operation. */
    __device__ __forceinline__ auto look() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, uint64_t, bool active) {
            loom_inner::open_found one = loom_inner::open_find_item(kind, shared, lanes, &view_, walk, active);
            return detail::stepped{!one.settled ? loom_inner::OPEN_GO_ON
                                   : one.found  ? loom_inner::OPEN_DONE
                                                : loom_inner::OPEN_ABSENT,
                                   one.reports, one.value};
        };
    }

    template <loom_inner::slot_mode mode, loom_inner::loom__combine_rule rule = loom_inner::LOOM__ADD>
    __device__ __forceinline__ auto put() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, uint64_t value, bool active) {
            loom_inner::open_answer one =
                loom_inner::open_insert_item(kind, mode, rule, shared, lanes, &view_, walk, &value, active);
            return detail::stepped{one.outcome, one.reports, one.outcome == loom_inner::OPEN_NO_ROOM ? 0 : value};
        };
    }

    __device__ __forceinline__ auto take_out() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, uint64_t, bool active) {
            loom_inner::open_answer one = loom_inner::open_erase_item(kind, shared, lanes, &view_, walk, active);
            return detail::stepped{one.outcome, one.reports, 0};
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

    template <bool writes, class step_type>
    __device__ __forceinline__ answer warp(key_type key, value_type value, bool active, uint64_t stored_adds,
                                           step_type step) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return answer{status_, 0};
        const uint64_t own_key = detail::to_bits(key), own_value = detail::to_bits(value);
        uint64_t value_bits = 0;
        open_walk walk = open_start(kind, &view_, 0);
        const auto begin = [&](uint32_t from, bool begins) {
            const uint64_t next_key = __shfl_sync(CUDA_FULL_MASK, own_key, (int)from);
            const uint64_t next_value = is_set ? 0 : __shfl_sync(CUDA_FULL_MASK, own_value, (int)from);
            if (begins) {
                value_bits = next_value;
                walk = open_start(kind, &view_, next_key);
            }
        };
        const answer mine = detail::by_warp<!is_set>(
            active, begin, [&](lane_group lanes, bool acts) { return step(lanes, &walk, value_bits, acts); });
        const uint32_t changed = writes ? detail::count_ok(active, mine.status) : 0;
        if (changed != 0)
            add_to_size(stored_adds * changed);
        return mine;
    }

    template <class step_type>
    __device__ __forceinline__ answer group(key_type key, value_type value, uint64_t stored_adds, step_type step) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return answer{status_, 0};
        const lane_group lanes = lane_group_apart(lane_in_warp());
        open_walk walk = open_start(kind, &view_, detail::to_bits(key));
        const answer all = detail::by_group(lanes, [&]() { return step(lanes, &walk, detail::to_bits(value), true); });
        if (stored_adds != 0 && all.status == LOOM_OK && lane_leads(lanes))
            add_to_size(stored_adds);
        return all;
    }
};

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
