/* loom::row_table: maps, sets and counters of the rows engine (LOOM_ENGINE_ROWS) inside kernels.
 * loom/device.cuh has the introduction: the two forms of each function, lanes, accesses, statuses.
 * Tables with byte strings lend no views.
 *
 *   struct digest { uint64_t words[4]; };                    // any type of 1 to 256 bytes
 *   struct row { float numbers[32]; };                       // any type of up to 65,536 bytes
 *   __global__ void gather(const loom_map_view view, const digest *keys, uint32_t n, row *to)
 *   {
 *       loom::row_table<digest, row, LOOM_VIEW_FIND> table(view);
 *       uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *       table.find(i < n ? keys[i] : digest{}, to + i, i < n);   // by whole warps
 *   }
 *
 * KEYS are passed by value. Types are copied as bytes: padding between members is part of the key.
 *
 * VALUES of 4 and 8 bytes are numbers, passed by value as in loom::table. Other values are passed by
 * address. The lanes of a group visit a row together: they store a new row, and copy a value that is
 * found, each a part of it. So these addresses must be in global or shared memory. A lane whose
 * address is in its own local memory (a variable of the kernel) gets INVALID_ARGUMENT, unless
 * LOOM_LANES is 1. Values are aligned to the largest power of two that divides their width, but to
 * no more than 8 bytes.
 *
 * ACCESS. All functions of an access may run at the same time, as in loom::table. Wide values are
 * never torn. In views for LOOM_VIEW_INSERT they are read and overwritten by one group at a time:
 * find, contains, insert_or_assign and find_or_insert of one key wait for each other. */
#ifndef LOOM_DEVICE_ROWS_CUH
#define LOOM_DEVICE_ROWS_CUH

#include <loom/device_map.cuh>

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

/* A map, set or counter with rows.
 *   key_type     1 to 256 bytes
 *   value_type   4 or 8 bytes; other widths up to 65,536; loom::none for a set
 *   access       the access that loom_map_view_begin was given. The compiler refuses functions that
 *                it does not offer */
template <class key_type, class value_type, loom_view_access access> class row_table
{
    static constexpr uint32_t value_bytes = detail::width<value_type>::bytes;
    static constexpr bool is_set = value_bytes == 0, is_number = value_bytes == 4 || value_bytes == 8;
    static_assert(sizeof(key_type) <= 256, "keys have at most 256 bytes");
    static_assert(value_bytes <= 65536, "values have at most 65,536 bytes");
    static_assert(__is_trivially_copyable(key_type) && __is_trivially_copyable(value_type),
                  "types are copied as bytes");
    static_assert(access >= LOOM_VIEW_FIND && access <= LOOM_VIEW_MIXED, "an access of loom_map_view_begin");
    static_assert(access != LOOM_VIEW_ACCUMULATE || is_number, "numbers of 4 or 8 bytes are accumulated");

    static constexpr loom_inner::loom__slot_kind kind = loom_inner::SLOT_TAG;
    static constexpr int shared = access == LOOM_VIEW_FIND    ? loom_inner::OPEN_ALONE
                                  : access == LOOM_VIEW_MIXED ? loom_inner::OPEN_MIXED
                                                              : loom_inner::OPEN_SHARED;
    static constexpr bool inserts = access == LOOM_VIEW_INSERT || access == LOOM_VIEW_MIXED;
    static constexpr bool erases = access == LOOM_VIEW_ERASE || access == LOOM_VIEW_MIXED;
    /* Other groups may take rows, so lookups do, too (open_find_taking). */
    static constexpr bool takes = access == LOOM_VIEW_INSERT && !is_set && !is_number;
    static constexpr uint32_t key_words = (sizeof(key_type) + 7) / 8;

    loom_inner::loom__rows_view view_;
    loom_status status_;

  public:
    /* Made in a kernel, from the view that the host passed to the kernel. */
    __device__ __forceinline__ explicit row_table(const loom_map_view &view)
    {
        static_assert(offsetof(loom_inner::loom__rows_view, heap) <= sizeof view.table, "a view of the same version");
        memset(&view_, 0, sizeof view_);
        memcpy(&view_, view.table, offsetof(loom_inner::loom__rows_view, heap));
        bool fits = view.layout == LOOM_ROWS_VIEW_LAYOUT && view.access == access &&
                    view.key_bytes == sizeof(key_type) && view.value_bytes == value_bytes;
        status_ = !fits                                               ? LOOM_INVALID_ARGUMENT
                  : view_.lines.totals->generation != view.generation ? LOOM_CHANGED
                                                                      : LOOM_OK;
    }

    /* OK, or the reason why no function does anything. All threads get the same status. */
    __device__ __forceinline__ loom_status status() const
    {
        return status_;
    }

    /* ---- By a whole warp ---- */

    /* Values of 4 and 8 bytes, and sets. */
    __device__ __forceinline__ found<value_type> find(const key_type &key, bool active = true) const
    {
        static_assert(is_set || is_number, "pass where the value is to go: find(key, to, active)");
        return told(warp<false>(key, request{}, active, 0, look()));
    }

    /* Copies the value of a key that is found. */
    __device__ __forceinline__ loom_status find(const key_type &key, value_type *to, bool active = true) const
    {
        static_assert(!is_set, "a set has no values");
        return warp<false>(key, request{0, (uint64_t)to, 0}, active, 0, look()).status;
    }

    __device__ __forceinline__ bool contains(const key_type &key, bool active = true) const
    {
        return warp<false>(key, request{}, active, 0, look()).status == LOOM_OK && active;
    }

    /* Where the value of a key lies in the table, or NULL. Nothing writes it before the view ends. */
    __device__ __forceinline__ const void *value_of(const key_type &key, bool active = true) const
    {
        static_assert(access == LOOM_VIEW_FIND && !is_set,
                      "for a table that nothing writes: LOOM_VIEW_FIND, not a set");
        const answer one = warp<false>(key, request{}, active, 0, locate());
        return one.status == LOOM_OK && active ? (const void *)one.value : NULL;
    }

    /* A key that exists keeps its value. Numbers; sets: loom::none{} is the value. */
    __device__ __forceinline__ loom_status insert(const key_type &key, value_type value, bool active = true) const
    {
        static_assert(inserts, "the view is not for insertions: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED");
        static_assert(is_set || is_number, "pass the address of the value: insert(key, &value, active)");
        return warp<true>(key, request{0, 0, detail::to_bits(value)}, active, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    __device__ __forceinline__ loom_status insert(const key_type &key, const value_type *value,
                                                  bool active = true) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return warp<true>(key, request{(uint64_t)value, 0, 0}, active, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    /* For sets: insert(key, active). `active` must be a bool. */
    template <class flag = bool, typename detail::if_bool<flag, is_set>::type = 0>
    __device__ __forceinline__ loom_status insert(const key_type &key, flag active = true) const
    {
        return insert(key, value_type{}, active);
    }

    /* A key that exists gets the new value. */
    __device__ __forceinline__ loom_status insert_or_assign(const key_type &key, value_type value,
                                                            bool active = true) const
    {
        static_assert(access == LOOM_VIEW_INSERT, "the view is not for that: LOOM_VIEW_INSERT");
        static_assert(is_number, "pass the address of the value: insert_or_assign(key, &value, active)");
        return warp<true>(key, request{0, 0, detail::to_bits(value)}, active, 1, put<loom_inner::SLOT_OVERWRITE>())
            .status;
    }

    __device__ __forceinline__ loom_status insert_or_assign(const key_type &key, const value_type *value,
                                                            bool active = true) const
    {
        static_assert(access == LOOM_VIEW_INSERT && !is_set, "the view is not for that: LOOM_VIEW_INSERT, not a set");
        return warp<true>(key, request{(uint64_t)value, 0, 0}, active, 1, put<loom_inner::SLOT_OVERWRITE>()).status;
    }

    /* Returns the value that the key has afterwards. Status: OK (stored as new), EXISTS or FULL. */
    __device__ __forceinline__ found<value_type> find_or_insert(const key_type &key, value_type value,
                                                                bool active = true) const
    {
        static_assert(inserts, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED");
        static_assert(is_number, "pass addresses: find_or_insert(key, &value, to, active)");
        return told(warp<true>(key, request{0, 0, detail::to_bits(value)}, active, 1, put<loom_inner::SLOT_FETCH>()));
    }

    /* The same; the value that the key has afterwards goes to `to`. */
    __device__ __forceinline__ loom_status find_or_insert(const key_type &key, const value_type *value, value_type *to,
                                                          bool active = true) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return warp<true>(key, request{(uint64_t)value, (uint64_t)to, 0}, active, 1, put<loom_inner::SLOT_FETCH>())
            .status;
    }

    /* Combines the value with the stored value of the key, as numbers of value_type. An absent key
     * is stored with the value. */
    template <loom_combine combine = LOOM_COMBINE_ADD>
    __device__ __forceinline__ loom_status accumulate(const key_type &key, value_type value, bool active = true) const
    {
        static_assert(access == LOOM_VIEW_ACCUMULATE, "the view is not for accumulations: LOOM_VIEW_ACCUMULATE");
        return warp<true>(key, request{0, 0, detail::to_bits(value)}, active, 1,
                          put<loom_inner::SLOT_COMBINE, detail::how_to_combine<value_type, combine>()>())
            .status;
    }

    __device__ __forceinline__ loom_status erase(const key_type &key, bool active = true) const
    {
        static_assert(erases, "the view is not for erasures: LOOM_VIEW_ERASE or LOOM_VIEW_MIXED");
        return warp<true>(key, request{}, active, (uint64_t)-1, take_out()).status;
    }

    /* ---- By one lane group, in divergent code. Addresses are the same on all lanes ---- */

    __device__ __forceinline__ found<value_type> group_find(const key_type &key) const
    {
        static_assert(is_set || is_number, "pass where the value is to go: group_find(key, to)");
        return told(group(key, request{}, 0, look()));
    }

    __device__ __forceinline__ loom_status group_find(const key_type &key, value_type *to) const
    {
        static_assert(!is_set, "a set has no values");
        return group(key, request{0, (uint64_t)to, 0}, 0, look()).status;
    }

    __device__ __forceinline__ bool group_contains(const key_type &key) const
    {
        return group(key, request{}, 0, look()).status == LOOM_OK;
    }

    __device__ __forceinline__ const void *group_value_of(const key_type &key) const
    {
        static_assert(access == LOOM_VIEW_FIND && !is_set,
                      "for a table that nothing writes: LOOM_VIEW_FIND, not a set");
        const answer one = group(key, request{}, 0, locate());
        return one.status == LOOM_OK ? (const void *)one.value : NULL;
    }

    __device__ __forceinline__ loom_status group_insert(const key_type &key, value_type value) const
    {
        static_assert(inserts, "the view is not for insertions: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED");
        static_assert(is_set || is_number, "pass the address of the value: group_insert(key, &value)");
        return group(key, request{0, 0, detail::to_bits(value)}, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    __device__ __forceinline__ loom_status group_insert(const key_type &key, const value_type *value) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return group(key, request{(uint64_t)value, 0, 0}, 1, put<loom_inner::SLOT_KEEP>()).status;
    }

    __device__ __forceinline__ loom_status group_insert_or_assign(const key_type &key, value_type value) const
    {
        static_assert(access == LOOM_VIEW_INSERT && is_number, "the view is not for that, or the value is no number");
        return group(key, request{0, 0, detail::to_bits(value)}, 1, put<loom_inner::SLOT_OVERWRITE>()).status;
    }

    __device__ __forceinline__ loom_status group_insert_or_assign(const key_type &key, const value_type *value) const
    {
        static_assert(access == LOOM_VIEW_INSERT && !is_set, "the view is not for that: LOOM_VIEW_INSERT, not a set");
        return group(key, request{(uint64_t)value, 0, 0}, 1, put<loom_inner::SLOT_OVERWRITE>()).status;
    }

    __device__ __forceinline__ found<value_type> group_find_or_insert(const key_type &key, value_type value) const
    {
        static_assert(inserts && is_number, "the view is not for that, or the value is no number");
        return told(group(key, request{0, 0, detail::to_bits(value)}, 1, put<loom_inner::SLOT_FETCH>()));
    }

    __device__ __forceinline__ loom_status group_find_or_insert(const key_type &key, const value_type *value,
                                                                value_type *to) const
    {
        static_assert(inserts && !is_set, "the view is not for that: LOOM_VIEW_INSERT or LOOM_VIEW_MIXED, not a set");
        return group(key, request{(uint64_t)value, (uint64_t)to, 0}, 1, put<loom_inner::SLOT_FETCH>()).status;
    }

    template <loom_combine combine = LOOM_COMBINE_ADD>
    __device__ __forceinline__ loom_status group_accumulate(const key_type &key, value_type value) const
    {
        static_assert(access == LOOM_VIEW_ACCUMULATE, "the view is not for accumulations: LOOM_VIEW_ACCUMULATE");
        return group(key, request{0, 0, detail::to_bits(value)}, 1,
                     put<loom_inner::SLOT_COMBINE, detail::how_to_combine<value_type, combine>()>())
            .status;
    }

    __device__ __forceinline__ loom_status group_erase(const key_type &key) const
    {
        static_assert(erases, "the view is not for erasures: LOOM_VIEW_ERASE or LOOM_VIEW_MIXED");
        return group(key, request{}, (uint64_t)-1, take_out()).status;
    }

    /* ---- By all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair: a number, or the address of a wide value, a
     * const void *. A set calls visit(key, loom::none). The threads of the grid share the buckets. */
    template <class visitor> __device__ __forceinline__ void for_each(visitor visit) const
    {
        static_assert(access == LOOM_VIEW_FIND, "visits need a table that nothing writes: LOOM_VIEW_FIND");
        scan([&](const key_type &key, const unsigned char *value, const loom_inner::open_walk &, uint32_t) {
            visit(key, value_at(value));
        });
    }

    /* Erases every pair for which wanted(key, value) is true, with arguments as for_each has. The
     * threads of the grid share the buckets. Returns the number of pairs that this thread erased.
     * Other functions of the view may run at the same time: a pair that is stored meanwhile may or
     * may not be visited. */
    template <class predicate> __device__ __forceinline__ uint64_t erase_if(predicate wanted) const
    {
        static_assert(erases, "the view is not for erasures: LOOM_VIEW_ERASE or LOOM_VIEW_MIXED");
        uint64_t erased = 0;
        scan([&](const key_type &key, const unsigned char *value, const loom_inner::open_walk &here, uint32_t slot) {
            if (wanted(key, value_at(value)))
                erased += loom_inner::open_erase_slot(kind, shared, &view_.lines, &here, slot, (uint64_t)&key, 0);
        });
        if (erased > 0)
            add_to_size((uint64_t)0 - erased);
        return erased;
    }

  private:
    /* Addresses of the given value and of where a found one goes; 0: a number, in `bits`, or none. */
    struct request {
        uint64_t value, to, bits;
    };
    using answer = detail::answer;

    /* A lane's part of a group's work: addresses that the lane may use. */
    struct job {
        request asked;
        uint64_t bits, told; /* a given and a found number, in this lane's memory */
        __device__ __forceinline__ uint64_t given() const
        {
            return asked.value != 0 ? asked.value : (uint64_t)&bits;
        }
        __device__ __forceinline__ uint64_t found() const
        {
            return asked.to != 0 ? asked.to : is_number ? (uint64_t)&told : 0;
        }
    };

    static __device__ __forceinline__ found<value_type> told(answer one)
    {
        return found<value_type>{one.status, detail::from_bits<value_type>(one.value)};
    }

    static __device__ __forceinline__ auto value_at(const unsigned char *at)
    {
        if constexpr (is_set)
            return value_type{};
        else if constexpr (is_number)
            return detail::from_bits<value_type>(number_at(at));
        else
            return (const void *)at;
    }

    static __device__ __forceinline__ uint64_t number_at(const unsigned char *at)
    {
        return value_bytes == 8 ? loom_inner::lane_load_8((const uint64_t *)at)
                                : loom_inner::lane_load_4((const uint32_t *)at);
    }

    /* Other lanes of the group cannot use an address in this lane's local memory. */
    static __device__ __forceinline__ bool is_usable(const request &asked, bool puts)
    {
        if (puts && !is_set && !is_number && asked.value == 0)
            return false;
        return LOOM_LANES == 1 || ((asked.value == 0 || !__isLocal((const void *)asked.value)) &&
                                   (asked.to == 0 || !__isLocal((const void *)asked.to)));
    }

    /* One turn of each kind of operation. */
    __device__ __forceinline__ auto look() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, job *own, bool active) {
            using namespace loom_inner;
            open_found one;
            if constexpr (takes) {
                one = open_find_taking(shared, lanes, &view_.lines, walk, (unsigned char *)own->asked.to, active);
            } else if constexpr (is_set || is_number) {
                const open_look seen = open_find_turn(kind, shared, lanes, &view_.lines, walk, active);
                one =
                    open_found{seen.found || !seen.further, seen.found, seen.found ? seen.mine : lane_leads(lanes), 0};
                if (is_number && seen.mine) {
                    own->told = number_at(open_row_at(&view_.lines, walk, seen.slot).value);
                    if (own->asked.to != 0)
                        memcpy((void *)own->asked.to, &own->told, value_bytes);
                }
                if (!one.settled)
                    open_advance(&view_.lines, walk);
            } else {
                one = open_find_together(shared, lanes, &view_.lines, walk, (unsigned char *)own->asked.to, active);
            }
            return detail::stepped{!one.settled ? OPEN_GO_ON
                                   : one.found  ? OPEN_DONE
                                                : OPEN_ABSENT,
                                   (bool)one.reports, one.found ? own->told : 0};
        };
    }

    __device__ __forceinline__ auto locate() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, job *, bool active) {
            using namespace loom_inner;
            const open_look seen = open_find_turn(kind, shared, lanes, &view_.lines, walk, active);
            uint64_t at = 0;
            if (seen.mine)
                at = (uint64_t)open_row_at(&view_.lines, walk, seen.slot).value;
            const bool further = !seen.found && seen.further;
            if (further)
                open_advance(&view_.lines, walk);
            return detail::stepped{further      ? OPEN_GO_ON
                                   : seen.found ? OPEN_DONE
                                                : OPEN_ABSENT,
                                   seen.found ? (bool)seen.mine : (bool)lane_leads(lanes), at};
        };
    }

    template <loom_inner::slot_mode mode, loom_inner::loom__combine_rule rule = loom_inner::LOOM__ADD>
    __device__ __forceinline__ auto put() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, job *own, bool active) {
            using namespace loom_inner;
            uint64_t value[2] = {own->given(), mode == SLOT_FETCH ? own->found() : 0};
            walk->staged = 1;
            const open_answer one =
                open_insert_item(kind, mode, rule, shared, lanes, &view_.lines, walk, value, active);
            open_store_together(SLOT_TAG, shared, lanes, &view_.lines, walk, value[0],
                                active ? one.outcome : OPEN_GO_ON);
            if (mode == SLOT_FETCH && active && one.reports)
                tell_fetched(one.outcome, value);
            return detail::stepped{one.outcome, (bool)one.reports, mode == SLOT_FETCH ? own->told : 0};
        };
    }

    /* After find_or_insert: the value of a new key, or zeros if the key was refused. Of a key that
     * was there, the turn has read it. */
    static __device__ __forceinline__ void tell_fetched(loom_inner::open_outcome outcome, const uint64_t *value)
    {
        if constexpr (!is_set) {
            if (value[1] != 0 && outcome == loom_inner::OPEN_DONE)
                *(value_type *)value[1] = *(const value_type *)value[0];
            else if (value[1] != 0 && outcome == loom_inner::OPEN_NO_ROOM)
                memset((void *)value[1], 0, value_bytes);
        }
    }

    __device__ __forceinline__ auto take_out() const
    {
        return [this](loom_inner::lane_group lanes, loom_inner::open_walk *walk, job *, bool active) {
            const loom_inner::open_answer one =
                loom_inner::open_erase_item(kind, shared, lanes, &view_.lines, walk, active);
            return detail::stepped{one.outcome, (bool)one.reports, 0};
        };
    }

    __device__ __forceinline__ void add_to_size(uint64_t keys) const
    {
        atomicAdd((unsigned long long *)&view_.lines
                      .added[(blockIdx.x + blockIdx.y + blockIdx.z) % loom_inner::OPEN_ADDED_COPIES]
                      .keys,
                  (unsigned long long)keys);
    }

    /* Calls work(key, address of the value, where, slot) for each key of the table that is ready. */
    template <class work_type> __device__ __forceinline__ void scan(work_type work) const
    {
        using namespace loom_inner;
        const loom__open_view *lines = &view_.lines;
        if (status_ != LOOM_OK)
            return;
        detail::share_out((uint64_t)lines->partitions * lines->buckets, [&](uint64_t at) {
            const open_walk here =
                open_stand_at(kind, lines, (uint32_t)(at / lines->buckets), (uint32_t)(at % lines->buckets));
            const unsigned char *line = open_line(kind, &here, here.bucket);
            for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
                if (!open_is_ready(kind, line, slot)) /* ready bits are those of slots with keys (I4) */
                    continue;
                lane_acquire(shared); /* the row came before its ready bit */
                const open_row_place row = open_row_at(lines, &here, slot);
                key_type key;
                lane_read_bytes((unsigned char *)&key, row.key, sizeof key);
                work(key, row.value, here, slot);
            }
        });
    }

    __device__ __forceinline__ loom_inner::open_walk start(const uint64_t *key) const
    {
        return loom_inner::open_start(kind, &view_.lines, (uint64_t)key);
    }

    template <bool writes, class step_type>
    __device__ __forceinline__ answer warp(const key_type &key, const request &asked, bool active, uint64_t stored_adds,
                                           step_type step) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return answer{status_, 0};
        const bool usable = !active || is_usable(asked, stored_adds == 1);
        uint64_t own_key[key_words] = {}, group_key[key_words] = {};
        memcpy(own_key, &key, sizeof key);
        job now{request{}, 0, 0};
        open_walk walk = start(group_key);
        const auto begin = [&](uint32_t from, bool begins) {
            if (!__any_sync(CUDA_FULL_MASK, begins))
                return;
            for (uint32_t w = 0; w < key_words; w++) {
                const uint64_t next = __shfl_sync(CUDA_FULL_MASK, own_key[w], (int)from);
                if (begins)
                    group_key[w] = next;
            }
            const request next{__shfl_sync(CUDA_FULL_MASK, asked.value, (int)from),
                               __shfl_sync(CUDA_FULL_MASK, asked.to, (int)from),
                               __shfl_sync(CUDA_FULL_MASK, asked.bits, (int)from)};
            if (begins) {
                now = job{next, next.bits, 0};
                walk = start(group_key);
            }
        };
        answer mine = detail::by_warp<true>(
            active && usable, begin, [&](lane_group lanes, bool acts) { return step(lanes, &walk, &now, acts); });
        const uint32_t changed = writes ? detail::count_ok(active && usable, mine.status) : 0;
        if (changed != 0)
            add_to_size(stored_adds * changed);
        if (!usable)
            mine.status = LOOM_INVALID_ARGUMENT;
        __syncwarp(); /* what other lanes copied for this lane is there */
        return mine;
    }

    template <class step_type>
    __device__ __forceinline__ answer group(const key_type &key, const request &asked, uint64_t stored_adds,
                                            step_type step) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return answer{status_, 0};
        if (!is_usable(asked, stored_adds == 1))
            return answer{LOOM_INVALID_ARGUMENT, 0};
        const lane_group lanes = lane_group_apart(lane_in_warp());
        uint64_t group_key[key_words] = {};
        memcpy(group_key, &key, sizeof key);
        job now{asked, asked.bits, 0};
        open_walk walk = start(group_key);
        const answer all = detail::by_group(lanes, [&]() { return step(lanes, &walk, &now, true); });
        if (stored_adds != 0 && all.status == LOOM_OK && lane_leads(lanes))
            add_to_size(stored_adds);
        __syncwarp(lanes.mask); /* what other lanes copied is there */
        return all;
    }
};

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
