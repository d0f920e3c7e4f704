/* What the device headers share: lane groups, bits of keys and values, answers, and the hash of a
 * key. The header of each type includes it. loom/device.cuh has the introduction. */
#ifndef LOOM_DEVICE_BASE_CUH
#define LOOM_DEVICE_BASE_CUH

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
#if !__has_include("core/lanes.h")
#error "add <prefix>/include/loom/inner to the include path: the algorithms behind this header lie there"
#endif

/* The primitives of the algorithms, for groups of LOOM_LANES lanes. */
#define CUDA_LANES        LOOM_LANES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
namespace loom_inner
{
#include "core/hash.h"
#include "core/lanes.h"
#include "core/slot_kind.h"
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

/* The value type of a set. */
struct none {
};

template <class value_type> struct found {
    loom_status status;
    value_type value; /* value_type{} if there is none */
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

/* Has a member `type` for bool only, not for types that convert to or from bool. */
template <class type, bool wanted = true> struct if_bool {
};
template <> struct if_bool<bool, true> {
    typedef int type;
};

/* Calls `work` once with every number below n. The threads of the grid share the numbers. */
template <class work_type> __device__ __forceinline__ void share_out(uint64_t n, work_type work)
{
    uint64_t block = ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    for (uint64_t at = block * threads + thread; at < n; at += blocks * threads)
        work(at);
}

/* A whole warp calls this. Returns the lanes of the group that bring a key; bit 0 is the first
 * lane of the group. */
__device__ __forceinline__ uint32_t actives(loom_inner::lane_group lanes, bool active)
{
    return LOOM_LANES == 1 ? active : __ballot_sync(CUDA_FULL_MASK, active) >> (__ffs((int)lanes.mask) - 1);
}

/* A whole warp calls this. Returns `own` of lane `from` of the group. */
template <class type> __device__ __forceinline__ type of_lane(loom_inner::lane_group lanes, type own, uint32_t from)
{
    return LOOM_LANES == 1 ? own : __shfl_sync(CUDA_FULL_MASK, own, __ffs((int)lanes.mask) - 1 + (int)from);
}

} // namespace detail

/* The hash of a key of 4 or 8 bytes under a seed: the number that loom_hash (loom/base.h) writes.
 * loom_stats.seed is the seed of a table. Any thread may call this, alone. */
template <class key_type> __device__ __forceinline__ uint64_t hash(key_type key, uint64_t seed)
{
    static_assert(sizeof(key_type) == 4 || sizeof(key_type) == 8, "keys have 4 or 8 bytes");
    return loom_inner::loom__hash_key(detail::to_bits(key), sizeof(key_type), loom_inner::loom__seed_expand(seed));
}

} // namespace LOOM_LANES_NAMESPACE
} // namespace loom

#endif
