/* loom::multi_table: lookups in multimaps inside kernels. loom/device.cuh has the introduction. The
 * host lends the view with LOOM_VIEW_FIND (loom_map_view_begin). */
#ifndef LOOM_DEVICE_MULTI_CUH
#define LOOM_DEVICE_MULTI_CUH

#include <loom/device_map.cuh>

namespace loom_inner
{
#include "engines/multi/multi_layout.h"
} // namespace loom_inner

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

/* A multimap (LOOM_ENGINE_OPEN).
 *   key_type     4 or 8 bytes
 *   value_type   4 or 8 bytes */
template <class key_type, class value_type> class multi_table
{
    static_assert(sizeof(value_type) == 4 || sizeof(value_type) == 8, "values have 4 or 8 bytes");

    table<key_type, uint64_t, LOOM_VIEW_FIND> directory_; /* its values are handles of lists */
    const unsigned char *heap_;

  public:
    /* Made in a kernel, from the view that the host passed to the kernel. */
    __device__ __forceinline__ explicit multi_table(const loom_map_view &view) : directory_(directory_of(view))
    {
        loom_inner::loom__multi_view own;
        static_assert(sizeof own <= sizeof view.table, "a view of the same version");
        memcpy(&own, view.table, sizeof own);
        heap_ = own.heap;
    }

    /* OK, or the reason why no function does anything. All threads get the same status. */
    __device__ __forceinline__ loom_status status() const
    {
        return directory_.status();
    }

    /* ---- By a whole warp ---- */

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        return directory_.contains(key, active);
    }

    /* How many values the key has; 0 for an absent key. */
    __device__ __forceinline__ uint64_t count(key_type key, bool active = true) const
    {
        return loom_inner::list_count(handle_of(directory_.find(key, active)));
    }

    /* One of the key's values: the first, as by loom_map_find. */
    __device__ __forceinline__ found<value_type> find(key_type key, bool active = true) const
    {
        return first_of(directory_.find(key, active));
    }

    /* Calls visit(number, key, value) for every value of the key. `number` is yours: it tells visit
     * which query the value answers. The lanes of the warp share the values of all their keys, so
     * any lane may call visit, and visit must not wait for other lanes. */
    template <class visitor>
    __device__ __forceinline__ void for_each_of(key_type key, uint64_t number, visitor visit, bool active = true) const
    {
        using namespace loom_inner;
        const uint64_t own = handle_of(directory_.find(key, active)), count = list_count(own);
        const uint64_t key_bits = detail::to_bits(key);
        const uint32_t lane = lane_in_warp();
        uint64_t sum = count; /* of this lane and those below */
        for (uint32_t distance = 1; distance < 32; distance *= 2) {
            const uint64_t other = __shfl_up_sync(CUDA_FULL_MASK, sum, distance);
            sum += lane >= distance ? other : 0;
        }
        const uint64_t all = __shfl_sync(CUDA_FULL_MASK, sum, 31), before = sum - count;
        for (uint64_t begin = 0; begin < all; begin += 32) {
            const uint64_t at = begin + lane;
            uint32_t from = 0; /* the last lane whose values begin at or before `at` */
            for (uint32_t step = 16; step > 0; step /= 2)
                from += __shfl_sync(CUDA_FULL_MASK, before, (int)(from + step)) <= at ? step : 0;
            const uint64_t handle = __shfl_sync(CUDA_FULL_MASK, own, (int)from);
            const uint64_t first = __shfl_sync(CUDA_FULL_MASK, before, (int)from);
            const uint64_t its_number = __shfl_sync(CUDA_FULL_MASK, number, (int)from);
            const uint64_t its_key = __shfl_sync(CUDA_FULL_MASK, key_bits, (int)from);
            if (at < all)
                visit(its_number, detail::from_bits<key_type>(its_key), value_at(handle, at - first));
        }
    }

    /* ---- By one lane group, in divergent code ---- */

    __device__ __forceinline__ bool group_contains(key_type key) const
    {
        return directory_.group_contains(key);
    }

    __device__ __forceinline__ uint64_t group_count(key_type key) const
    {
        return loom_inner::list_count(handle_of(directory_.group_find(key)));
    }

    __device__ __forceinline__ found<value_type> group_find(key_type key) const
    {
        return first_of(directory_.group_find(key));
    }

    /* Calls visit(value) for every value of the key. The lanes of the group share the values. */
    template <class visitor> __device__ __forceinline__ void group_for_each_of(key_type key, visitor visit) const
    {
        const uint64_t handle = handle_of(directory_.group_find(key)), count = loom_inner::list_count(handle);
        const uint32_t own = loom_inner::lane_in_warp() % LOOM_LANES;
        for (uint64_t at = own; at < count; at += LOOM_LANES)
            visit(value_at(handle, at));
    }

    /* ---- By all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair. The threads of the grid share the keys: all values
     * of a key are visited by one thread. */
    template <class visitor> __device__ __forceinline__ void for_each(visitor visit) const
    {
        directory_.for_each([&](key_type key, uint64_t handle) {
            for (uint64_t at = 0; at < loom_inner::list_count(handle); at++)
                visit(key, value_at(handle, at));
        });
    }

  private:
    /* The view as one of an open table. A view that does not fit gets a layout that no table has. */
    static __device__ __forceinline__ loom_map_view directory_of(const loom_map_view &view)
    {
        loom_map_view directory = view;
        const bool fits = view.layout == LOOM_MULTI_VIEW_LAYOUT && view.value_bytes == sizeof(value_type);
        directory.layout = fits ? LOOM_VIEW_LAYOUT : 0;
        directory.value_bytes = sizeof(uint64_t);
        return directory;
    }

    /* 0: the key is absent. */
    static __device__ __forceinline__ uint64_t handle_of(const found<uint64_t> &one)
    {
        return one.status == LOOM_OK ? one.value : 0;
    }

    __device__ __forceinline__ value_type value_at(uint64_t handle, uint64_t at) const
    {
        using namespace loom_inner;
        if (!list_in_heap(handle))
            return detail::from_bits<value_type>(list_one_value(handle));
        if constexpr (sizeof(value_type) == 4)
            return detail::from_bits<value_type>(__ldg((const uint32_t *)heap_ + list_first(handle) + at));
        else
            return detail::from_bits<value_type>(__ldg((const unsigned long long *)heap_ + list_first(handle) + at));
    }

    __device__ __forceinline__ found<value_type> first_of(const found<uint64_t> &one) const
    {
        const bool has = handle_of(one) != 0; /* a lane that is not active has status OK, and no handle */
        return found<value_type>{one.status, has ? value_at(one.value, 0) : value_type{}};
    }
};

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
