/* loom::multi_table: multimaps inside kernels. loom/device.cuh has the introduction.
 *   LOOM_VIEW_FIND     lookups, in multimaps of both engines
 *   LOOM_VIEW_INSERT   insert, contains and count, in multimaps of LOOM_ENGINE_CHAIN
 *
 *   loom::multi_table<uint32_t, uint32_t> table(view); // LOOM_VIEW_FIND
 *   table.for_each_of(key, row, [&](uint64_t row, uint32_t key, uint32_t value) { ... }, active);
 *
 * An insert reads a bucket and a handle, swaps the handle and stores the value: 8 G/s on an H200
 * (docs/performance.md, "Multimaps"). Inserts of one key run one after the other. */
#ifndef LOOM_DEVICE_MULTI_CUH
#define LOOM_DEVICE_MULTI_CUH

#include <loom/device_map.cuh>

namespace loom_inner
{
#include "engines/chain/chain_ops.h"
} // namespace loom_inner

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

/* A multimap.
 *   key_type     4 or 8 bytes
 *   value_type   4 or 8 bytes
 *   access       the access that loom_map_view_begin was given. The compiler refuses functions that
 *                it does not offer */
template <class key_type, class value_type, loom_view_access access = LOOM_VIEW_FIND> class multi_table
{
    static_assert(sizeof(value_type) == 4 || sizeof(value_type) == 8, "values have 4 or 8 bytes");
    static_assert(access == LOOM_VIEW_FIND || access == LOOM_VIEW_INSERT,
                  "views of multimaps are LOOM_VIEW_FIND or LOOM_VIEW_INSERT");

    static constexpr loom_inner::loom__slot_kind kind = detail::slots_of<key_type, uint64_t>::kind;

    table<key_type, uint64_t, access> directory_; /* its values are handles of lists */
    loom_inner::loom__multi_view view_;

  public:
    /* Made in a kernel, from the view that the host passed to the kernel. */
    __device__ __forceinline__ explicit multi_table(const loom_map_view &view) : directory_(directory_of(view))
    {
        static_assert(sizeof view_ <= sizeof view.table, "a view of the same version");
        memcpy(&view_, view.table, sizeof view_);
        view_.value_bytes = sizeof(value_type); /* a literal for the compiler */
    }

    /* OK, or the reason why no function does anything. All threads get the same status. */
    __device__ __forceinline__ loom_status status() const
    {
        return directory_.status();
    }

    /* ---- By a whole warp ---- */

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        if constexpr (access == LOOM_VIEW_INSERT)
            return count(key, active) > 0; /* a key whose values were all refused is absent */
        else
            return directory_.contains(key, active);
    }

    /* How many values the key has; 0 for an absent key. Beside insertions, the count includes those
     * that have ended, and may include some that have not. */
    __device__ __forceinline__ uint64_t count(key_type key, bool active = true) const
    {
        return loom_inner::list_count(handle_of(directory_.find(key, active)));
    }

    /* Adds a value to the values of the key. Status: OK, or FULL if there is no room for a new key,
     * no room for the value, or the key has most_values_per_key values. */
    __device__ __forceinline__ loom_status insert(key_type key, value_type value, bool active = true) const
    {
        using namespace loom_inner;
        static_assert(access == LOOM_VIEW_INSERT, "the view is not for insertions: LOOM_VIEW_INSERT");
        if (status() != LOOM_OK)
            return status();
        const uint32_t in_warp = lane_in_warp();
        const lane_group lanes = lane_group_at(in_warp);
        const uint64_t own_key = detail::to_bits(key), own_value = detail::to_bits(value);
        uint64_t value_bits = 0;
        uint32_t waiting = __ballot_sync(CUDA_FULL_MASK, active) & lanes.mask;
        uint32_t added = 0; /* by this lane: new keys, and values in the heap times 2^16; both are below 2^16 */
        uint32_t stalls = 0;
        loom_status mine = LOOM_OK;
        chain_walk walk = chain_start(kind, &view_, 0);
        bool begins = true;
        /* A group works on the keys of its own lanes, one after the other. A turn never waits
         * (chain_ops.h). It is repeated only if the key is further on, if another lane's append
         * came first, or while another lane takes a bucket for the list. The last two *stall* a
         * group. If all groups of the warp stall, many warps append to few keys. Then the warp
         * pauses, and only its first group takes turns until turns succeed again. */
        for (uint32_t going; (going = __ballot_sync(CUDA_FULL_MASK, waiting != 0)) != 0;) {
            const uint32_t from = waiting != 0 ? (uint32_t)__ffs((int)waiting) - 1 : in_warp;
            const uint64_t next_key = bits_of_lane<key_type>(own_key, from);
            const uint64_t next_value = bits_of_lane<value_type>(own_value, from);
            if (begins) {
                value_bits = next_value;
                walk = chain_start(kind, &view_, next_key);
            }
            const bool acts = waiting != 0 && (stalls == 0 || (going & (0 - going) & lanes.mask) != 0);
            const chain_answer one = chain_append_item(kind, OPEN_SHARED, lanes, &view_, &walk, value_bits, acts);
            begins = acts && one.outcome != CHAIN_GO_ON;
            added += changed_by(one);
            if (begins) {
                if (in_warp == from)
                    mine = one.outcome == CHAIN_DONE ? LOOM_OK : LOOM_FULL;
                waiting &= waiting - 1;
            }
            if (__any_sync(CUDA_FULL_MASK, acts && (begins || !walk.located)))
                stalls -= stalls > 0;
            else
                stalls = pause_after(stalls);
        }
        const uint32_t pairs = (uint32_t)__popc(__ballot_sync(CUDA_FULL_MASK, active && mine == LOOM_OK));
        added = warp_sum(added);
        const uint32_t more = in_warp == 0 ? added & 0xffff : in_warp == 1 ? pairs : added >> 16;
        if (in_warp < 3 && more != 0) /* three neighbouring words: one request */
            atomicAdd((unsigned long long *)own_counters() + in_warp, (unsigned long long)more);
        return mine;
    }

    /* Deleted: a bool in the place of the value was probably meant as `active`. If it is the value,
     * convert it to value_type. */
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status insert(key_type, flag, bool = true) const = delete;

    /* One of the key's values. In LOOM_ENGINE_OPEN it is the first, as by loom_map_find. */
    __device__ __forceinline__ found<value_type> find(key_type key, bool active = true) const
    {
        needs_values_at_rest();
        return first_of(directory_.find(key, active));
    }

    /* Calls visit(number, key, value) for every value of the key. `number` is yours: it tells visit
     * which query the value answers. The lanes of the warp share the values of all their keys, so
     * any lane may call visit, and visit must not wait for other lanes. */
    template <class visitor>
    __device__ __forceinline__ void for_each_of(key_type key, uint64_t number, visitor visit, bool active = true) const
    {
        using namespace loom_inner;
        needs_values_at_rest();
        const uint64_t handle = handle_of(directory_.find(key, active)), key_bits = detail::to_bits(key);
        const uint32_t lane = lane_in_warp();
        loom__list_piece piece = newest_piece(handle);
        /* Each lane brings one piece of its list at a time, the newest first. Lists in one piece
         * take one round. */
        for (bool goes_on = true; goes_on;) {
            const uint64_t source = source_of(handle, piece);
            uint64_t sum = piece.count; /* of this lane and those below */
            for (uint32_t distance = 1; distance < 32; distance *= 2) {
                const uint64_t other = __shfl_up_sync(CUDA_FULL_MASK, sum, distance);
                sum += lane >= distance ? other : 0;
            }
            const uint64_t all = __shfl_sync(CUDA_FULL_MASK, sum, 31), before = sum - piece.count;
            for (uint64_t begin = 0; begin < all; begin += 32) {
                const uint64_t at = begin + lane;
                uint32_t from = 0; /* the last lane whose values begin at or before `at` */
                for (uint32_t step = 16; step > 0; step /= 2)
                    from += __shfl_sync(CUDA_FULL_MASK, before, (int)(from + step)) <= at ? step : 0;
                const uint64_t its_source = __shfl_sync(CUDA_FULL_MASK, source, (int)from);
                const uint64_t first = __shfl_sync(CUDA_FULL_MASK, before, (int)from);
                const uint64_t its_number = __shfl_sync(CUDA_FULL_MASK, number, (int)from);
                const uint64_t its_key = __shfl_sync(CUDA_FULL_MASK, key_bits, (int)from);
                if (at < all)
                    visit(its_number, detail::from_bits<key_type>(its_key), value_at(its_source, at - first));
            }
            goes_on = __any_sync(CUDA_FULL_MASK, piece.linked != 0);
            if (goes_on)
                piece = piece.linked ? chain_older_piece(&view_, &piece) : loom__list_piece{0, 0, 0, 0};
        }
    }

    /* ---- By one lane group, in divergent code ---- */

    __device__ __forceinline__ bool group_contains(key_type key) const
    {
        if constexpr (access == LOOM_VIEW_INSERT)
            return group_count(key) > 0;
        else
            return directory_.group_contains(key);
    }

    __device__ __forceinline__ uint64_t group_count(key_type key) const
    {
        return loom_inner::list_count(handle_of(directory_.group_find(key)));
    }

    __device__ __forceinline__ loom_status group_insert(key_type key, value_type value) const
    {
        using namespace loom_inner;
        static_assert(access == LOOM_VIEW_INSERT, "the view is not for insertions: LOOM_VIEW_INSERT");
        if (status() != LOOM_OK)
            return status();
        const lane_group lanes = lane_group_apart(lane_in_warp());
        chain_walk walk = chain_start(kind, &view_, detail::to_bits(key));
        chain_answer one;
        uint32_t added = 0, stalls = 0; /* as in `insert`; `added` on the lane that stores the value */
        do {
            one = chain_append_item(kind, OPEN_SHARED, lanes, &view_, &walk, detail::to_bits(value), true);
            added += changed_by(one);
            if (one.outcome == CHAIN_GO_ON && walk.located)
                stalls = pause_after(stalls);
        } while (one.outcome == CHAIN_GO_ON);
        loom_inner::loom__open_added *counters = own_counters();
        if ((added & 0xffff) != 0)
            atomicAdd((unsigned long long *)&counters->keys, (unsigned long long)(added & 0xffff));
        if (added >> 16 != 0)
            atomicAdd((unsigned long long *)&counters->in_heap, (unsigned long long)(added >> 16));
        if (one.outcome == CHAIN_DONE && lane_leads(lanes))
            atomicAdd((unsigned long long *)&counters->pairs, 1ull);
        return one.outcome == CHAIN_DONE ? LOOM_OK : LOOM_FULL;
    }

    /* Deleted: all lanes of a group are active, so there is no argument `active`. */
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status group_insert(key_type, flag) const = delete;

    __device__ __forceinline__ found<value_type> group_find(key_type key) const
    {
        needs_values_at_rest();
        return first_of(directory_.group_find(key));
    }

    /* Calls visit(value) for every value of the key. The lanes of the group share the values. */
    template <class visitor> __device__ __forceinline__ void group_for_each_of(key_type key, visitor visit) const
    {
        needs_values_at_rest();
        visit_list(handle_of(directory_.group_find(key)), loom_inner::lane_in_warp() % LOOM_LANES, LOOM_LANES, visit);
    }

    /* ---- By all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair. The threads of the grid share the keys: all
     * values of a key are visited by one thread. */
    template <class visitor> __device__ __forceinline__ void for_each(visitor visit) const
    {
        needs_values_at_rest();
        directory_.for_each([&](key_type key, uint64_t handle) {
            visit_list(handle, 0, 1, [&](value_type value) { visit(key, value); });
        });
    }

  private:
    static constexpr uint64_t in_handle = (uint64_t)1 << 63; /* of a source (source_of) */

    /* The view as one of an open table. A view that does not fit gets a layout that no table
     * has. */
    static __device__ __forceinline__ loom_map_view directory_of(const loom_map_view &view)
    {
        loom_map_view directory = view;
        const bool fits = (view.layout == LOOM_CHAIN_VIEW_LAYOUT ||
                           (view.layout == LOOM_MULTI_VIEW_LAYOUT && access == LOOM_VIEW_FIND)) &&
                          view.value_bytes == sizeof(value_type);
        directory.layout = fits ? LOOM_VIEW_LAYOUT : 0;
        directory.value_bytes = sizeof(uint64_t);
        return directory;
    }

    static __device__ __forceinline__ void needs_values_at_rest()
    {
        static_assert(access == LOOM_VIEW_FIND, "values are read while nothing is inserted: LOOM_VIEW_FIND");
    }

    /* 0: the key is absent. */
    static __device__ __forceinline__ uint64_t handle_of(const found<uint64_t> &one)
    {
        return one.status == LOOM_OK ? one.value : 0;
    }

    /* ---- Lists ---- */

    /* A list without values in the heap counts as one piece, too. */
    __device__ __forceinline__ loom_inner::loom__list_piece newest_piece(uint64_t handle) const
    {
        using namespace loom_inner;
        return list_in_heap(handle) ? chain_newest_piece(&view_, handle)
                                    : loom__list_piece{0, 0, list_count(handle), 0};
    }

    /* Where the values of a piece are: their place in the heap, or the value itself and
     * `in_handle`. */
    static __device__ __forceinline__ uint64_t source_of(uint64_t handle, const loom_inner::loom__list_piece &piece)
    {
        if (sizeof(value_type) == 4 && !loom_inner::list_in_heap(handle))
            return loom_inner::list_one_value(handle) | in_handle;
        return piece.place;
    }

    __device__ __forceinline__ value_type value_at(uint64_t source, uint64_t at) const
    {
        if constexpr (sizeof(value_type) == 4)
            return detail::from_bits<value_type>(
                (source & in_handle) != 0 ? (uint32_t)source : __ldg((const uint32_t *)view_.heap + source + at));
        else
            return detail::from_bits<value_type>(__ldg((const unsigned long long *)view_.heap + source + at));
    }

    __device__ __forceinline__ found<value_type> first_of(const found<uint64_t> &one) const
    {
        const uint64_t handle = handle_of(one); /* 0 on a lane that is not active, whose status is OK */
        loom_inner::loom__list_piece piece{0, 0, 0, 0};
        piece.place = loom_inner::list_first(handle);
        return found<value_type>{one.status, handle != 0 ? value_at(source_of(handle, piece), 0) : value_type{}};
    }

    /* Visits values first, first + step, ... of each piece. The numbers in links decrease, so the
     * walk ends. */
    template <class visitor>
    __device__ __forceinline__ void visit_list(uint64_t handle, uint32_t first, uint32_t step, visitor visit) const
    {
        using namespace loom_inner;
        for (loom__list_piece piece = newest_piece(handle);; piece = chain_older_piece(&view_, &piece)) {
            const uint64_t source = source_of(handle, piece);
            for (uint64_t at = first; at < piece.count; at += step)
                visit(value_at(source, at));
            if (!piece.linked)
                return;
        }
    }

    /* ---- Insertions ---- */

    /* Pauses after another stall: for a random time of up to 64 ns after the first, twice as long
     * after each further one, up to 0.13 ms. Returns the number of stalls, as far as it matters.
     * Without pauses, each append to the only key of a full GPU would make all other lanes try in
     * vain. */
    static __device__ __forceinline__ uint32_t pause_after(uint32_t stalls)
    {
        enum { LEAST = 32 /* ns */, MOST_STALLS = 12 };
        const uint32_t warp = blockIdx.x * 31 + blockIdx.y * 17 + threadIdx.x / 32 + threadIdx.y + threadIdx.z * 7;
        stalls = stalls < MOST_STALLS ? stalls + 1 : MOST_STALLS;
        __nanosleep(__umulhi(((uint32_t)clock() + warp * 0x85ebca6bu) * 0x9e3779b9u, (uint32_t)LEAST << stalls));
        return stalls;
    }

    /* A whole warp calls this. Returns the bits of lane `from`, which are those of a number of this
     * type. */
    template <class type> static __device__ __forceinline__ uint64_t bits_of_lane(uint64_t own, uint32_t from)
    {
        if constexpr (sizeof(type) == 4)
            return __shfl_sync(CUDA_FULL_MASK, (uint32_t)own, (int)from);
        else
            return __shfl_sync(CUDA_FULL_MASK, own, (int)from);
    }

    /* What one turn added, on this lane: a new key, and values in the heap times 2^16. */
    static __device__ __forceinline__ uint32_t changed_by(const loom_inner::chain_answer &one)
    {
        const bool stored = one.reports && one.outcome == loom_inner::CHAIN_DONE;
        return (one.new_key ? 1 : 0) + (stored ? (uint32_t)one.told.in_heap << 16 : 0);
    }

    /* A whole warp calls this. */
    static __device__ __forceinline__ uint32_t warp_sum(uint32_t mine)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        for (int distance = 16; distance > 0; distance /= 2)
            mine += __shfl_xor_sync(CUDA_FULL_MASK, mine, distance);
        return mine;
#else
        return __reduce_add_sync(CUDA_FULL_MASK, mine);
#endif
    }

    /* The counters that this thread block adds to. */
    __device__ __forceinline__ loom_inner::loom__open_added *own_counters() const
    {
        using namespace loom_inner;
        static_assert(offsetof(loom__open_added, keys) == 0 && offsetof(loom__open_added, pairs) == 8 &&
                          offsetof(loom__open_added, in_heap) == 16,
                      "lanes 0, 1 and 2 of a warp add to these");
        return &view_.directory.added[(blockIdx.x + blockIdx.y + blockIdx.z) % OPEN_ADDED_COPIES];
    }
};

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
