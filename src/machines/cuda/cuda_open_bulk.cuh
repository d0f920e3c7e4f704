/* Records of the open engine on their way into a table by partition: their columns, and the memory that they take. */
#ifndef LOOM_CUDA_OPEN_BULK_CUH
#define LOOM_CUDA_OPEN_BULK_CUH

#include "engines/open/open_layout.h"
#include "machines/cuda/cuda_split_passes.cuh"
#include "machines/cuda/cuda_state.cuh"

enum {
    BULK_STATIC_BYTES = 1024, /* shared memory that kernels have besides a partition and its counters, at most */
    BULK_HALF_BYTES = 113 * 1024 - 256 /* what one of two blocks on a Hopper multiprocessor may take */
};

/* What a block takes that has a partition in shared memory, and a counter of 16 bits for each bucket. */
inline uint32_t bulk_shared_bytes(const loom__open_view *view)
{
    return view->partition_bytes + (view->buckets + 1) / 2 * 4;
}

inline uint64_t bulk_slots(const loom__open_view *view)
{
    return (uint64_t)view->partitions * view->buckets * open_slots((loom__slot_kind)view->kind);
}

template <class wide, class narrow, bool is_wide> struct either {
    typedef wide type;
};
template <class wide, class narrow> struct either<wide, narrow, false> {
    typedef narrow type;
};

/* A head is what goes into a slot: the key, or the pair. */
template <loom__slot_kind kind> struct bulk_columns {
    static constexpr bool wide_key = kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8 || kind == SLOT_KEY_8;
    static constexpr bool packed = kind == SLOT_PAIR_4_4;
    static constexpr bool has_tail =
        kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8;
    static constexpr bool wide_value = kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_8;
    static constexpr int slot_stride = wide_key || packed ? 8 : 4; /* sizeof(head), too */
    /* Records that a thread reads at once: 16 bytes of the widest column; in a batch pairs are not packed yet. */
    static constexpr int neighbours = slot_stride == 8 || (has_tail && wide_value) ? 2 : 4;
    static constexpr int batch_neighbours = wide_key || (has_tail && wide_value) ? 2 : 4;
    typedef typename either<uint64_t, uint32_t, wide_key>::type key;
    typedef typename either<uint64_t, uint32_t, wide_key || packed>::type head;
    typedef typename either<uint64_t, uint32_t, wide_value>::type value;
    typedef typename either<value, no_column, has_tail>::type tail;
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

/* Parts are partitions, spare memory is the table's where its contents go.
 *
 * With little memory the second pass and the build take turns: each takes some coarse regions, splits them into the same
 * regions of partitions, and builds those partitions. Coarse regions lie at the end of the table's memory. When turns have
 * been taken up to coarse region e, the table is written up to its partition e << shift, and what has not been read begins with
 * coarse region e: cuda_open_bulk_plan sees to it that the one is not behind the other. */
typedef split_plan bulk_plan;

/* What a plan is to be for. */
struct bulk_wish {
    uint64_t n;    /* records */
    uint64_t keys; /* different ones, about */
    bool with_index;
    bool replace;    /* the table's contents go, and its memory may be used */
    bool in_order;   /* with `replace` and `with_index` alone */
    bool low_memory; /* in turns; with `replace` alone */
};

/* How records are split by partition; false if that is beyond the kernels. */
bool cuda_open_bulk_plan(const cuda_state *cuda, const loom__open_view *view, const bulk_wish *wish, bulk_plan *plan);

/* In this order, in one stream: split_begin; split, once or for each piece of the batch (`first` is its place there); build,
 * which splits further where there are two passes. The arrays are on the device; build counts. What has spilled is left to
 * cuda_open_launch_rest; in order, a build may find that it has to give up. */
cudaError_t cuda_open_bulk_split(const loom__open_view *view, const cuda_batch *batch, uint64_t first,
                                 const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);
cudaError_t cuda_open_bulk_split_further(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace,
                                         uint32_t turn, cudaStream_t stream);
cudaError_t cuda_open_bulk_build(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                 const bulk_plan *plan, unsigned char *workspace, const bulk_wish *wish, bool overwrite,
                                 cudaStream_t stream);

/* Accumulating rows with many equal keys: not so; without a split; with one, for which there is a plan. */
typedef enum cuda_combine_way { COMBINE_NOT, COMBINE_SLICES, COMBINE_SPLIT } cuda_combine_way;
cuda_combine_way cuda_open_combine_way(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                       bulk_plan *plan);

/* `plan` and `workspace`: NULL without a split. Arrays are on the device; counts are counted. */
cudaError_t cuda_open_combine(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                              const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);

/* What is left over. */
cuda_rest cuda_open_bulk_rest(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace);

#endif
