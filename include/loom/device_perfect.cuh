/* loom::perfect_table: lookups in tables of the perfect engine inside kernels. loom/device.cuh has
 * the introduction. The host lends the view with LOOM_VIEW_FIND (loom_map_view_begin).
 *
 * Every lookup reads 8 bytes of codes and one bucket. All lanes of a warp load their codes at once.
 * Then each group loads all buckets of its lanes at once. */
#ifndef LOOM_DEVICE_PERFECT_CUH
#define LOOM_DEVICE_PERFECT_CUH

#include <loom/device_base.cuh>

namespace loom_inner
{
#include "engines/perfect/perfect_ops.h"
} // namespace loom_inner

namespace loom
{
inline namespace LOOM_LANES_NAMESPACE
{

/* A perfect table.
 *   key_type     4 or 8 bytes
 *   value_type   4 or 8 bytes; loom::none for a set */
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
    /* Made in a kernel, from the view that the host passed to the kernel. */
    __device__ __forceinline__ explicit perfect_table(const loom_map_view &view)
    {
        static_assert(sizeof view_ <= sizeof view.table, "a view of the same version");
        memcpy(&view_, view.table, sizeof view_);
        bool fits = view.layout == LOOM_PERFECT_VIEW_LAYOUT && view.access == LOOM_VIEW_FIND &&
                    view.key_bytes == sizeof(key_type) && view.value_bytes == detail::width<value_type>::bytes;
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
        return warp<!is_set>(key, active);
    }

    __device__ __forceinline__ bool contains(key_type key, bool active = true) const
    {
        return warp<false>(key, active).status == LOOM_OK && active;
    }

    /* ---- By one lane group, in divergent code ---- */

    __device__ __forceinline__ found<value_type> group_find(key_type key) const
    {
        return group<!is_set>(key);
    }

    __device__ __forceinline__ bool group_contains(key_type key) const
    {
        return group<false>(key).status == LOOM_OK;
    }

    /* ---- By all threads of the grid ---- */

    /* Calls visit(key, value) once for every pair. A set calls visit(key, loom::none). The threads
     * of the grid share the buckets. */
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
    /* Computes the bucket of a key. An inactive lane reads nothing, and its bucket means
     * nothing. */
    __device__ __forceinline__ loom_inner::perfect_seek settled(key_type key, bool active) const
    {
        using namespace loom_inner;
        perfect_seek seek = perfect_start(kind, &view_, detail::to_bits(key));
        const unsigned long long *word = (const unsigned long long *)perfect_word_of(&view_, &seek);
        perfect_settle(&view_, &seek, active ? __ldg(word) : 0); /* read-only while lent */
        return seek;
    }

    /* What the lane that found the key tells the other lanes. */
    static __device__ __forceinline__ uint32_t hint(const loom_inner::perfect_look &look)
    {
        return kind == loom_inner::SLOT_PAIR_4_4 ? (uint32_t)(look.pair >> 32) : look.slot;
    }

    /* The answer for a key that was found. With the hint any lane can load the value. */
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

    /* Every lane brings a key and computes its bucket. Then each group probes the buckets of its
     * lanes' keys. Then every lane loads the value of its own key. */
    template <bool wants_value> __device__ __forceinline__ found<value_type> warp(key_type key, bool active) const
    {
        using namespace loom_inner;
        if (status_ != LOOM_OK)
            return found<value_type>{status_, value_type{}};
        const lane_group lanes = lane_group_at(lane_in_warp());
        const perfect_seek own = settled(key, active);
        const uint64_t own_line = (uint64_t)perfect_line(kind, own.partition, own.bucket);
        const uint32_t wanted = detail::actives(lanes, active);
        lane_line lines[LOOM_LANES] = {}; /* all in flight at once */
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

    /* The hint of the lane that found the key. At most one lane did, since a key is stored once
     * (P1). All lanes that vote together call this. If no lane found the key, the result means
     * nothing. */
    static __device__ __forceinline__ uint32_t of_holder(loom_inner::lane_group lanes,
                                                         const loom_inner::perfect_look &look)
    {
        if (LOOM_LANES == 1)
            return hint(look);
        const uint32_t holder = __ballot_sync(lanes.together, look.mine) & lanes.mask;
        return __shfl_sync(lanes.together, hint(look), __ffs((int)(holder != 0 ? holder : lanes.mask)) - 1);
    }
};

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
