/* The perfect engine on the cuda machine: declarations that its files share.
 *
 *   cuda_perfect_find.cu    lookups: chooses the kernel, manages the L2 cache
 *   cuda_perfect_lanes.cuh  lookup kernels for one width of lane groups; compiled by cuda_perfect_{1,2,4,8}.cu
 *   cuda_perfect_write.cu   writes that change no code
 *   cuda_perfect_items.cuh  items of an insertion, after its first step
 *   cuda_perfect_recode.cu  keys whose buckets were full: groups work side by side, and each moves a cell
 *   cuda_perfect_repair.cu  many keys whose buckets were full: all keys of a partition at once
 *   cuda_perfect_room.cu    the remaining keys, one after the other
 *   cuda_perfect_bulk.cuh   builds by partition, in cuda_perfect_codes.cu and cuda_perfect_place.cu: memory, launches
 *   cuda_perfect_whole.cu   reads or writes whole tables: clear, erase_if, survey, refill
 *   cuda_perfect.cu         bulk calls
 *
 * A call splits its insertions into chunks. Each chunk takes six steps, one kernel after the other in one stream:
 *   1. Lane groups insert where there is room. An item is *pending* if its key is absent and the group must not store
 *      it. If several items of a thread block have the same key and would be pending, one is pending, and nearly always
 *      the others are *late*.
 *   2. Groups take pending items one by one. A group changes the code of the item's cell, or of another cell in its
 *      bucket. An item for which this makes no room is *noted* for its partition. If many items are pending, all are
 *      noted.
 *   3. Partitions with several noted items are *crowded*. A block owns one crowded partition after the other, and finds
 *      codes for all of its items at once. The items that do not fit remain noted.
 *   4. Small blocks own one partition with noted items after the other. They insert the items, and move cells to make
 *      room for one item at a time. Once that fails in a partition with fewer keys than it is made for, the remaining
 *      items become the partition's list.
 *   5. A few blocks, each with memory for a copy of a partition, reseed the partitions with a list. Either the
 *      partition has room again, or it is marked exhausted and its items are refused. In steps 4 and 5, the items that
 *      are still in the list of an exhausted partition are *abandoned*, if groups side by side may store their keys.
 *   6. Late and abandoned items repeat the first step. The key of a late item exists now, or was refused and stays
 *      refused (perfect_room.h). The bucket of an abandoned item has room, or the item is refused.
 * So no group waits for a lock. In step 2 a group does without a cell that is taken, and from step 3 on a partition has
 * one owner. If a whole batch has one key, the owner of its partition inserts the key once for each block, not once for
 * each item. A step that a chunk does not need still costs a launch. */
#ifndef LOOM_CUDA_PERFECT_CUH
#define LOOM_CUDA_PERFECT_CUH

#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_state.cuh"

enum {
    PERFECT_MOST_ITEMS = 1 << 24,  /* of a chunk; bounds the memory of lists */
    PERFECT_LEAST_ITEMS = 1 << 16, /* of a chunk, when memory is short */
    PERFECT_MOST_SPARES = 32,      /* partitions that are reseeded at once */
    PERFECT_MOST_BESIDE = 24,      /* average pending items per partition up to which step 2 pays */
    PERFECT_LEAST_COMING = 6,      /* items that usually make a partition crowded */
    PERFECT_MOST_COMING = 2048,    /* items of a partition that step 3 inserts at once */
    PERFECT_WRITE_WARPS = 8,       /* per block in step 1; with batch.tile items for each warp */
    PERFECT_PENDING = 0xfd         /* in place of a status code */
};

#define CUDA_PERFECT_LATE   0xffffffffu /* in place of the next item of a list: the item is late */
#define CUDA_PERFECT_LISTED 0x80000000u /* set in the next item: the item is in a list, and nobody has taken it */

/* All are zero when a chunk begins. */
typedef struct cuda_perfect_counters {
    uint32_t pending;   /* pending items */
    uint32_t touched;   /* partitions with items */
    uint32_t crowded;   /* crowded partitions */
    uint32_t left_over; /* partitions with a list, for step 5 */
    uint32_t late;      /* nonzero: there are late items */
    uint32_t abandoned; /* nonzero: there are abandoned items */
    uint32_t recoded;   /* items that groups have taken in step 2, after their first */
    uint32_t repairs;   /* partitions that blocks have taken in step 3, after their first … */
    uint32_t rooms;     /* … and in step 4 */
} cuda_perfect_counters;

/* Pending items of a chunk, as kernels see them. An item is identified by its index in the chunk. */
typedef struct cuda_perfect_lists {
    cuda_perfect_counters *counters;
    uint32_t *pending; /* [items] indices of pending items, after step 1 */
    uint32_t *counts;  /* [partitions] items noted, including those beyond `room`; 0 between chunks */
    uint32_t *items;   /* [partitions][room] indices of noted items; further ones go directly into the list */
    uint32_t *heads;   /* [partitions] the first item of each list, plus one; 0: none. All are 0 between chunks */
    uint32_t *next;    /* [items] CUDA_PERFECT_LISTED and the next item, plus one, or 0; CUDA_PERFECT_LATE: the item is
                            late; 0: neither */
    uint32_t *touched; /* [partitions] partitions with noted items: counters->touched of them */
    uint32_t *crowded; /* [partitions] */
    uint32_t *left_over; /* [partitions] */
    uint8_t
        *late_blocks; /* [blocks of step 1] whether the block has late items; if so, `next` is set for all its items */
    uint32_t room;
    uint32_t most_pending; /* step 2 handles at most this many items; if more are pending, it notes all of them */
    uint32_t least;        /* noted items that make a partition crowded */
    uint32_t repair_bytes; /* shared memory of a block in step 3; 0: the device has less, and there is no step 3 */
    uint32_t most_bytes;   /* shared memory that a block may have */
    unsigned char *spare;  /* [spares] each holds a partition and its words */
    uint64_t spare_bytes;
    uint32_t spares;
    const uint32_t *length; /* NULL: the chunk has batch.n items. Else: the number of items of all chunks … */
    uint64_t first;         /* … and the first item of this chunk among them */
} cuda_perfect_lists;

/* The insertion of one chunk, as kernels see it. An update or erasure also has this form, without lists. */
typedef struct cuda_perfect_chunk {
    loom__perfect_view view;
    cuda_batch batch;
    cuda_op op;
    cuda_perfect_lists lists;
} cuda_perfect_chunk;

/* Number of items in the chunk. */
__device__ __forceinline__ uint64_t perfect_chunk_items(const cuda_batch &batch, const cuda_perfect_lists &lists)
{
    if (lists.length == NULL)
        return batch.n;
    const uint64_t all = *lists.length, left = all > lists.first ? all - lists.first : 0;
    return left < batch.n ? left : batch.n;
}

/* Whether the operation may store keys. */
__host__ __device__ constexpr bool perfect_inserts(cuda_op op)
{
    return op != OP_FIND && op != OP_UPDATE && op != OP_ERASE;
}

/* The size of the lists. cuda_perfect_open_lists lays them out. */
typedef struct cuda_perfect_plan {
    uint64_t items; /* of a chunk, at most */
    uint32_t spares;
    uint64_t bytes;
} cuda_perfect_plan;

/* Plans lists for chunks of at most n items. */
cuda_perfect_plan cuda_perfect_plan_lists(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n,
                                          uint32_t spares);

/* Allocates memory for lists of chunks of n items, or of fewer items where memory is short. Before the lists come
 * `before` other bytes, and `each` bytes per item. Returns OUT_OF_MEMORY, with an error message, if even the smallest
 * lists do not fit. `batch`: as in cuda_take_workspace. */
loom_status cuda_perfect_take_lists(loom__machine *machine, const loom__perfect_view *view, uint64_t n, uint64_t before,
                                    uint64_t each, const loom__batch *batch, loom_stream stream,
                                    cuda_perfect_plan *plan, cuda_workspace *own);

/* Makes empty lists. `memory` is aligned to 256 bytes, and `view` is the one that the plan was made for. */
cudaError_t cuda_perfect_open_lists(const cuda_state *cuda, const loom__perfect_view *view,
                                    const cuda_perfect_plan *plan, unsigned char *memory, cuda_perfect_lists *lists,
                                    cudaStream_t stream);

/* Inserts the items of one chunk, in all six steps. Chunks with the same lists run one after the other. */
cudaError_t cuda_perfect_insert(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                const cuda_perfect_lists *lists, cudaStream_t stream);

/* These launch step 1, which also updates and erases; step 2; step 3; and steps 4 to 6. */
typedef cudaError_t cuda_perfect_step(const cuda_perfect_chunk *chunk, cudaStream_t stream);
cuda_perfect_step cuda_perfect_launch_write, cuda_perfect_launch_recode, cuda_perfect_launch_repair,
    cuda_perfect_launch_room;

/* The shared memory of a block in step 3. */
uint32_t cuda_perfect_repair_bytes(const loom__perfect_view *view);

cudaError_t cuda_perfect_launch_find(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *batch,
                                     const cuda_finish *finish, cudaStream_t stream);

/* Looks up several batches, by groups of the width that the library chooses. Places the parts. */
cudaError_t cuda_perfect_launch_parts(const loom__perfect_view *view, cuda_parts *parts, cudaStream_t stream);

/* Lookups with one width of lane groups. `keeps_codes`: codes leave the L2 cache last, until their priority is
 * reset. */
typedef cudaError_t cuda_perfect_launch(const loom__perfect_view *view, const cuda_batch *batch, bool keeps_codes,
                                        const cuda_finish *finish, cudaStream_t stream);
cuda_perfect_launch cuda_perfect_launch_1, cuda_perfect_launch_2, cuda_perfect_launch_4, cuda_perfect_launch_8;

loom_status cuda_perfect_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                      loom_stream stream);
loom_status cuda_perfect_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status cuda_perfect_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                                loom_stream stream);
loom_status cuda_perfect_erase_if(loom__machine *machine, const void *any_view, const loom__value_range *range,
                                  loom_result *result, loom_stream stream);
loom_status cuda_perfect_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream);

#endif
