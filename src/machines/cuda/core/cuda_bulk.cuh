/* For any engine: splits a batch of a map, set or filter by partition, and describes the columns of its records. */
#ifndef LOOM_CUDA_BULK_CUH
#define LOOM_CUDA_BULK_CUH

#include "core/hash.h"
#include "core/slot_kind.h"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/core/cuda_split_passes.cuh"

typedef split_plan bulk_plan;

/* A head is what goes into a slot: the key, or the pair. */
template <loom__slot_kind kind> struct bulk_columns {
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    static constexpr bool wide_key = sizeof(key) == 8, wide_value = sizeof(value) == 8;
    static constexpr bool packed = kind == SLOT_PAIR_4_4;
    static constexpr bool has_tail =
        kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8;
    static constexpr int slot_stride = wide_key || packed ? 8 : 4; /* sizeof(head), too */
    /* Records that a thread reads at once: 16 bytes of the widest column. In a batch, pairs are not packed yet. */
    static constexpr int neighbours = slot_stride == 8 || (has_tail && wide_value) ? 2 : 4;
    static constexpr int batch_neighbours = wide_key || (has_tail && wide_value) ? 2 : 4;
    typedef std::conditional_t<packed, uint64_t, key> head;
    typedef std::conditional_t<has_tail, value, no_column> tail;
    typedef split_columns<head, tail> arrays;

    static __device__ __forceinline__ uint64_t key_of(head one)
    {
        return packed ? (uint64_t)(uint32_t)one : (uint64_t)one;
    }
    static __device__ __forceinline__ uint64_t value_of(head one, const arrays &from, size_t at)
    {
        if constexpr (has_tail)
            return from.tails[at];
        else
            return packed ? (uint64_t)one >> 32 : 0;
    }
    static __device__ __forceinline__ void set_tail(const arrays &to, size_t at, uint64_t value)
    {
        if constexpr (has_tail)
            to.tails[at] = (tail)value;
    }
};

template <loom__slot_kind kind> using bulk_regions = split_regions_of<bulk_columns<kind>>;

/* Loads 16 bytes of heads, from head `first` on. `first` is a multiple of the number of heads in 16 bytes. Zeros stand
 * for heads behind the last one. */
template <class head>
__device__ __forceinline__ uint4 bulk_load_heads(const head *heads, uint32_t first, uint32_t count)
{
    constexpr uint32_t at_once = 16 / sizeof(head);
    if (first + at_once <= count)
        return __ldcs((const uint4 *)(heads + first));
    head some[at_once] = {};
#pragma unroll
    for (uint32_t i = 0; i < at_once; i++)
        if (first + i < count)
            some[i] = heads[first + i];
    return *(const uint4 *)some;
}

/* The table that records go to. */
struct bulk_target {
    unsigned char *base; /* the table's partitions; spare memory, if the plan uses any */
    loom__seed seed;
    uint32_t partitions;
    loom__slot_kind kind;
};

/* Sets the columns of a request to those of the kind's records. */
void cuda_bulk_columns(loom__slot_kind kind, split_request *request);

/* Call these functions in one stream and in this sequence: split_begin; cuda_bulk_split, once or piece by piece; then,
 * in each wave, cuda_bulk_split_further. `first` is the place of the piece in the batch. If the plan has one pass,
 * cuda_bulk_split_further does nothing. The arrays are on the device. */
cudaError_t cuda_bulk_split(const bulk_target *target, const cuda_batch *batch, uint64_t first, const bulk_plan *plan,
                            unsigned char *workspace, cudaStream_t stream);
cudaError_t cuda_bulk_split_further(const bulk_target *target, const bulk_plan *plan, unsigned char *workspace,
                                    uint32_t wave, cudaStream_t stream);

/* The records that found no room in their regions. */
cuda_spill cuda_bulk_spill(loom__slot_kind kind, const bulk_plan *plan, unsigned char *workspace);

#endif
