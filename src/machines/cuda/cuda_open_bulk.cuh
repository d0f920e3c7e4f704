/* Records of the open engine on their way into a table by partition: their columns, and the memory that they take. */
#ifndef LOOM_CUDA_OPEN_BULK_CUH
#define LOOM_CUDA_OPEN_BULK_CUH

#include "engines/open/open_layout.h"
#include "machines/cuda/cuda_split.cuh"
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
    return (uint64_t)view->partitions * view->buckets * open_slots((loom__open_kind)view->kind);
}

/* The most that any launch asks for: so host threads may set it at the same time. */
template <class kernel_type> cudaError_t allow_shared(kernel_type kernel, size_t most)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
}

template <class wide, class narrow, bool is_wide> struct either {
    typedef wide type;
};
template <class wide, class narrow> struct either<wide, narrow, false> {
    typedef narrow type;
};

/* A head is what goes into a slot: the key, or the pair. */
template <loom__open_kind kind> struct bulk_columns {
    static constexpr bool wide_key = kind == OPEN_KEY_8_VALUE_4 || kind == OPEN_KEY_8_VALUE_8 || kind == OPEN_KEY_8;
    static constexpr bool packed = kind == OPEN_PAIR_4_4;
    static constexpr bool has_tail =
        kind == OPEN_KEY_4_VALUE_8 || kind == OPEN_KEY_8_VALUE_4 || kind == OPEN_KEY_8_VALUE_8;
    static constexpr bool wide_value = kind == OPEN_KEY_4_VALUE_8 || kind == OPEN_KEY_8_VALUE_8;
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

template <loom__open_kind kind>
using bulk_regions =
    split_regions<typename bulk_columns<kind>::head, typename bulk_columns<kind>::tail, bulk_columns<kind>::packed>;

/* How a batch is split, and what lies where in the workspace: counters, the spill list, regions of partitions, and, unless
 * they go into the table's memory, coarse regions.
 *
 * With little memory the second pass and the build take turns: each takes some coarse regions, splits them into the same
 * regions of partitions, and builds those partitions. Coarse regions lie at the end of the table's memory. When turns have
 * been taken up to coarse region e, the table is written up to its partition e << shift, and what has not been read begins with
 * coarse region e: cuda_open_bulk_plan sees to it that the one is not behind the other. */
struct bulk_plan {
    uint32_t fine;                   /* regions of partitions */
    uint32_t coarse;                 /* regions of the first of two passes; 0: there is one pass */
    uint32_t shift;                  /* a coarse region is so many partitions: 1 << shift */
    uint32_t per_turn;               /* coarse regions; 1 without any */
    uint32_t fine_room, coarse_room; /* records */
    uint32_t spill_room;
    bool with_index, coarse_in_table;
    uint64_t fine_bytes, coarse_bytes; /* of one region */
    uint64_t counter_bytes, spill_at, fine_at, coarse_at, bytes;

    uint32_t turns() const
    {
        return coarse > 0 ? (coarse + per_turn - 1) / per_turn : 1;
    }
    uint32_t fine_per_turn() const
    {
        return coarse > 0 ? per_turn << shift : fine;
    }
};

/* Columns one after the other, each aligned. */
inline uint64_t bulk_column_bytes(uint64_t records, uint32_t width)
{
    return (records * width + 255) / 256 * 256;
}

template <loom__open_kind kind>
typename bulk_columns<kind>::arrays bulk_arrays(unsigned char *at, uint64_t records, bool with_index)
{
    typedef bulk_columns<kind> columns;
    typename columns::arrays arrays = {(typename columns::head *)at, NULL, NULL};
    at += bulk_column_bytes(records, sizeof(typename columns::head));
    if constexpr (columns::has_tail) {
        arrays.tails = (typename columns::tail *)at;
        at += bulk_column_bytes(records, sizeof(typename columns::tail));
    }
    if (with_index)
        arrays.index = (uint32_t *)at;
    return arrays;
}

/* The regions of a plan: of partitions, in one turn, and of the first of two passes. */
template <loom__open_kind kind>
bulk_regions<kind> bulk_fine_regions(const bulk_plan *plan, unsigned char *workspace, uint32_t turn)
{
    uint32_t *spilled = (uint32_t *)workspace, *fill = spilled + SPLIT_FILL_STRIDE;
    return bulk_regions<kind>{bulk_arrays<kind>(workspace + plan->fine_at, plan->fine_room, plan->with_index),
                              plan->fine_bytes,
                              fill + (size_t)turn * plan->fine_per_turn() * SPLIT_FILL_STRIDE,
                              plan->fine_room,
                              bulk_arrays<kind>(workspace + plan->spill_at, plan->spill_room, false),
                              spilled,
                              plan->spill_room};
}

template <loom__open_kind kind>
bulk_regions<kind> bulk_coarse_regions(const bulk_plan *plan, unsigned char *workspace, unsigned char *table)
{
    bulk_regions<kind> regions = bulk_fine_regions<kind>(plan, workspace, 0);
    unsigned char *base = (plan->coarse_in_table ? table : workspace) + plan->coarse_at;
    regions.to = bulk_arrays<kind>(base, plan->coarse_room, plan->with_index);
    regions.stride = plan->coarse_bytes;
    regions.fill += (size_t)plan->fine * SPLIT_FILL_STRIDE;
    regions.room = plan->coarse_room;
    return regions;
}

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

/* In this order, in one stream: begin; split, once or for each piece of the batch (`first` is its place there); build, which
 * splits further where there are two passes. The arrays are on the device; build counts. What has spilled is left to
 * cuda_open_launch_rest; in order, a build may find that it has to give up. */
cudaError_t cuda_open_bulk_begin(const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);
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

/* A counter of the workspace for whoever comes last, zero since cuda_open_bulk_begin: it lies beside the one of spilled records. */
inline uint32_t *cuda_open_bulk_arrived(unsigned char *workspace)
{
    static_assert(SPLIT_FILL_STRIDE > 1, "room beside it");
    return (uint32_t *)workspace + 1;
}

/* What is left over. */
cuda_rest cuda_open_bulk_rest(const loom__open_view *view, const bulk_plan *plan, unsigned char *workspace);

#endif
