/* loom::filter: Bloom filters inside kernels. loom/device.cuh has the introduction.
 *
 *   __global__ void my_kernel(const loom_filter_view view, ...)
 *   {
 *       loom::filter<uint64_t> filter(view);
 *       filter.insert(key, active);               // OK: the key is stored
 *       if (filter.contains(key, active)) ...     // true: probably present
 *   }                                             // false: certainly absent, or not active
 *
 * All functions may run at the same time, in kernels and in calls of the host. An inserted key is
 * found
 *   - by later functions of the same thread;
 *   - by another thread that learned of the insertion through memory of yours, with the usual
 *     fences: the inserting thread calls __threadfence before it writes to that memory, the other
 *     thread calls it after it has read from there;
 *   - by every kernel and call that begins after the inserting kernel has ended.
 * A query that overlaps the insertion of its key may answer either way. */
#ifndef LOOM_DEVICE_FILTER_CUH
#define LOOM_DEVICE_FILTER_CUH

#include <loom/device_base.cuh>

namespace loom_inner
{
#include "engines/filter/filter_ops.h"
} // namespace loom_inner

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

namespace detail
{

template <uint32_t number> struct literal {
    static constexpr uint32_t value = number;
};

/* The number that the algorithms take: a key of 4 or 8 bytes, or the stand-in of any other key. */
template <class key_type>
__device__ __forceinline__ uint64_t filter_number_of(const key_type &key, const loom_inner::loom__seed &seed)
{
    if constexpr (sizeof(key_type) == 4 || sizeof(key_type) == 8)
        return to_bits(key);
    else
        return loom_inner::filter_stand_in(&key, sizeof(key_type),
                                           alignof(key_type) >= 8   ? 8
                                           : alignof(key_type) >= 4 ? 4
                                                                    : 1,
                                           seed);
}

} // namespace detail

/* A filter.
 *   key_type     1 to 256 bytes, any trivially copyable type. All bytes of a key count: the type has
 *                no padding */
template <class key_type> class filter
{
    static_assert(sizeof(key_type) <= loom_inner::FILTER_MOST_KEY_BYTES, "keys have 1 to 256 bytes");
    static constexpr uint32_t number_bytes = sizeof(key_type) == 4 ? 4 : 8;

    loom_inner::loom__filter_view view_;
    loom_status status_;

  public:
    /* Made in a kernel, from the view that the host passed to the kernel. */
    __device__ __forceinline__ explicit filter(const loom_filter_view &view)
    {
        static_assert(sizeof view_ <= sizeof view.filter, "a view of the same version");
        memcpy(&view_, view.filter, sizeof view_);
        bool fits = view.layout == LOOM_FILTER_VIEW_LAYOUT && view.key_bytes == sizeof(key_type);
        status_ = fits ? LOOM_OK : LOOM_INVALID_ARGUMENT;
    }

    /* OK, or the reason why no function does anything. All threads get the same status. */
    __device__ __forceinline__ loom_status status() const
    {
        return status_;
    }

    /* ---- By a whole warp ---- */

    /* `active` must be a bool. */
    template <class flag = bool, typename detail::if_bool<flag>::type = 0>
    __device__ __forceinline__ loom_status insert(key_type key, flag active = true) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return status_;
        const lane_group lanes = lane_group_at(lane_in_warp());
        const filter_key own = filter_start(&view_, number_bytes, detail::filter_number_of(key, view_.seed));
        const uint32_t wanted = detail::actives(lanes, active);
        by_each([&](auto each) {
#pragma unroll
            for (uint32_t from = 0; from < LOOM_LANES; from++) {
                const filter_key sought = key_of_lane(lanes, own, from);
                if (wanted >> from & 1)
                    filter_set(decltype(each)::value, 1, lanes, filter_block(&view_, sought.block), sought.lower);
            }
        });
        /* Bits that other lanes set for this key come before later stores of this thread. */
        lane_join(lanes, 1);
        return LOOM_OK;
    }

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return false;
        const lane_group lanes = lane_group_at(lane_in_warp());
        const filter_key own = filter_start(&view_, number_bytes, detail::filter_number_of(key, view_.seed));
        const uint32_t wanted = detail::actives(lanes, active);
        bool found = false;
        /* The lanes that probe for this thread see what this thread has read. */
        lane_join(lanes, 1);
        by_each([&](auto each) {
            lane_line lines[LOOM_LANES] = {}; /* all in flight at once */
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

    /* ---- By one lane group, in divergent code ---- */

    __device__ __forceinline__ loom_status group_insert(key_type key) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return status_;
        const lane_group lanes = lane_group_apart(lane_in_warp());
        const filter_key sought = filter_start(&view_, number_bytes, detail::filter_number_of(key, view_.seed));
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
        const filter_key sought = filter_start(&view_, number_bytes, detail::filter_number_of(key, view_.seed));
        bool found = false;
        lane_join(lanes, 1);
        by_each([&](auto each) {
            lane_line line = {};
            filter_take(lanes, &line, filter_block(&view_, sought.block), true);
            found = filter_agree(decltype(each)::value, lanes, &line, sought.lower);
        });
        return found;
    }

    /* Deleted: all lanes of a group are active, so there is no argument `active`. */
    template <class flag, typename detail::if_bool<flag>::type = 0>
    loom_status group_insert(key_type, flag) const = delete;
    template <class flag, typename detail::if_bool<flag>::type = 0> bool group_contains(key_type, flag) const = delete;

  private:
    static __device__ __forceinline__ loom_inner::filter_key key_of_lane(loom_inner::lane_group lanes,
                                                                         loom_inner::filter_key own, uint32_t from)
    {
        return loom_inner::filter_key{detail::of_lane(lanes, own.block, from), detail::of_lane(lanes, own.lower, from)};
    }

    /* Calls `work` with the number of bits that a key sets in each quarter of a block, as a type.
     * All threads take the same branch: the number comes from the view. */
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
