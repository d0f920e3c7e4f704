/* The perfect engine on the cuda machine: what its files share.
 *
 *   cuda_perfect_find.cu    lookups: which kernel, and the L2 cache
 *   cuda_perfect_lanes.cuh  their kernels, for one width of lane groups; compiled by cuda_perfect_{1,2,4,8}.cu
 *   cuda_perfect_write.cu   whatever writes, as long as no code changes
 *   cuda_perfect_items.cuh  items of an insertion, after its first step
 *   cuda_perfect_recode.cu  keys whose buckets were full, by groups beside each other: each moves a cell
 *   cuda_perfect_repair.cu  the same where they are many: all those of a partition at once
 *   cuda_perfect_room.cu    what is left, one after the other
 *   cuda_perfect_codes.cuh  blocks that find or repair the codes of a partition in shared memory: their size
 *   cuda_perfect_bulk.cuh   builds by partition: memory; cuda_perfect_codes.cu, cuda_perfect_place.cu
 *   cuda_perfect_whole.cu   what reads or writes whole tables: clear, survey, refill
 *   cuda_perfect.cu         bulk calls
 *
 * Insertions go in chunks, each in six steps, one kernel after the other in one stream:
 *   1. Groups of lanes insert where there is room. An item whose key is absent and not for them to store is *pending*. Of equal
 *      pending keys of a block one is; the others are *late*.
 *   2. Groups take one pending item after the other, and give its cell another code, or that of another key in its bucket. What that does not
 *      help is *noted* for its partition; all items are, if they are many.
 *   3. Partitions for which several items were noted are *crowded*: blocks own one after the other, and find codes for all of its
 *      items at once. What that cannot do remains noted.
 *   4. Small blocks own one partition after the other that has items noted, insert them, and move cells to make room for one after the
 *      other. Once that fails, in a partition that has room to hope for, the rest becomes the partition's list.
 *   5. A few blocks, with memory for a copy of a partition, reseed what is left: the partition has room again, or is marked
 *      exhausted, and its items are refused.
 *   6. Late items go again as in the first step: their key is there now, or was refused, and stays so (perfect_room.h).
 * So nobody waits for a lock: in the second step a group that cannot have a cell does without, and from the third on a partition
 * has one owner. And a key that makes up a whole batch is not inserted by its owner item after item, but once for each block. Steps of
 * which a chunk has no need cost a launch. */
#ifndef LOOM_CUDA_PERFECT_CUH
#define LOOM_CUDA_PERFECT_CUH

#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_state.cuh"

enum {
    PERFECT_MOST_ITEMS = 1 << 24,  /* of a chunk, which bounds the memory of lists */
    PERFECT_LEAST_ITEMS = 1 << 16, /* smaller chunks are not tried where memory is short */
    PERFECT_MOST_SPARES = 32,      /* partitions that are reseeded at once */
    PERFECT_MOST_BESIDE = 24,      /* pending items to a partition for which the second step pays */
    PERFECT_LEAST_COMING = 6,      /* items that make a partition crowded, usually */
    PERFECT_MOST_COMING = 2048,    /* items of a partition that are inserted at once */
    PERFECT_PENDING = 0xfd         /* instead of a status */
};

#define CUDA_PERFECT_LATE 0xffffffffu /* instead of a list's next item */

/* Switches that leave a way to make room out, to measure what it is worth. Only the last one changes results.
 *   PERFECT_WITHOUT_RECODE=1  step 2 leaves every item to step 3
 *   PERFECT_WITHOUT_REPAIR=1  step 3 is left out; step 4 takes its items
 *   PERFECT_WITHOUT_REPAIR=2  step 3 is left out; step 2 takes any number of items
 *   PERFECT_WITHOUT_RESEED=1  step 5 refuses its items; a table holds fewer keys than it is made for */
#ifndef PERFECT_WITHOUT_RECODE
#define PERFECT_WITHOUT_RECODE 0
#endif
#ifndef PERFECT_WITHOUT_REPAIR
#define PERFECT_WITHOUT_REPAIR 0
#endif
#ifndef PERFECT_WITHOUT_RESEED
#define PERFECT_WITHOUT_RESEED 0
#endif

/* Zero when a chunk begins. */
typedef struct cuda_perfect_counters {
    uint32_t pending;   /* items */
    uint32_t touched;   /* partitions with items */
    uint32_t crowded;   /* those with many */
    uint32_t left_over; /* those with a list, in the fifth step */
    uint32_t late;      /* not zero: there are late items */
    uint32_t recoded;   /* items that groups have taken in the second step, beyond the first ones */
    uint32_t repairs;   /* partitions that blocks have taken in the third step, beyond the first ones … */
    uint32_t rooms;     /* … and in the fourth */
} cuda_perfect_counters;

/* Pending items of a chunk, as kernels see them. Items are told by their place in the chunk. */
typedef struct cuda_perfect_lists {
    cuda_perfect_counters *counters;
    uint32_t *pending;    /* [items] which they are, after the first step */
    uint32_t *counts;     /* [partitions] items that were noted, or wanted to be; 0 between chunks */
    uint32_t *items;      /* [partitions][room] which they are; those beyond go into the list at once */
    uint32_t *heads;      /* [partitions] the first item of each list, plus one; 0: none, as between chunks */
    uint32_t *next;       /* [items] of items in a list: the next one, plus one, or 0. CUDA_PERFECT_LATE: it is late */
    uint32_t *touched;    /* [partitions] which they are: the first counters->touched of them */
    uint32_t *crowded;    /* [partitions] */
    uint32_t *left_over;  /* [partitions] */
    uint8_t *late_blocks; /* [blocks of the first step] has it late items? Then `next` is set for all of its items */
    uint32_t room;
    uint32_t most_pending; /* items for which the second step makes room; if there are more, it leaves all of them */
    uint32_t least;        /* items that make a partition crowded */
    uint32_t repair_bytes; /* shared memory of a block in the third step; 0: the device has less, and there is none */
    uint32_t most_bytes;   /* that a block may have */
    unsigned char *spare;  /* [spares] memory for a partition and its words */
    uint64_t spare_bytes;
    uint32_t spares;
    const uint32_t
        *length;    /* NULL: the chunk has as many items as its batch says; else so many from the first chunk on … */
    uint64_t first; /* … and this chunk begins here */
} cuda_perfect_lists;

/* How many items the chunk has. */
__device__ __forceinline__ uint64_t perfect_chunk_items(const cuda_batch &batch, const cuda_perfect_lists &lists)
{
    if (lists.length == NULL)
        return batch.n;
    const uint64_t all = *lists.length, left = all > lists.first ? all - lists.first : 0;
    return left < batch.n ? left : batch.n;
}

/* Where the lists lie in their memory. */
typedef struct cuda_perfect_plan {
    uint64_t items; /* of a chunk, at most */
    uint32_t spares;
    uint32_t room, most_pending;
    uint32_t repair_bytes, most_bytes;
    uint64_t counts_at, heads_at, touched_at, crowded_at, left_over_at, items_at, pending_at, next_at, late_blocks_at,
        spare_at, spare_bytes;
    uint64_t bytes;
} cuda_perfect_plan;

/* For chunks of n items at most. */
cuda_perfect_plan cuda_perfect_plan_lists(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n,
                                          uint32_t spares);

/* Memory for lists, for chunks of n items, of fewer where there is less, and behind `before` other bytes and `each` for an item.
 * OUT_OF_MEMORY, with a sentence, if there is none. `batch`: as in cuda_take_workspace. */
loom_status cuda_perfect_take_lists(loom__machine *machine, const loom__perfect_view *view, uint64_t n, uint64_t before,
                                    uint64_t each, const loom__batch *batch, loom_stream stream,
                                    cuda_perfect_plan *plan, cuda_workspace *own);

/* Lists that are empty; `memory` is aligned to 256 bytes. */
cudaError_t cuda_perfect_open_lists(const cuda_perfect_plan *plan, unsigned char *memory, cuda_perfect_lists *lists,
                                    cudaStream_t stream);

/* Inserts the items of one chunk, all six steps; chunks with the same lists go one after the other. */
cudaError_t cuda_perfect_insert(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                const cuda_perfect_lists *lists, cudaStream_t stream);

/* The first step, or an update or erasure, which has no lists. */
cudaError_t cuda_perfect_launch_write(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                      const cuda_perfect_lists *lists, cudaStream_t stream);

/* The second step. */
cudaError_t cuda_perfect_launch_recode(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                       const cuda_perfect_lists *lists, cudaStream_t stream);

/* The shared memory that a block of the third step takes, and the step itself. */
uint32_t cuda_perfect_repair_bytes(const loom__perfect_view *view);
cudaError_t cuda_perfect_launch_repair(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                       const cuda_perfect_lists *lists, cudaStream_t stream);

/* The steps after that. */
cudaError_t cuda_perfect_launch_room(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                     const cuda_perfect_lists *lists, cudaStream_t stream);

enum { PERFECT_WRITE_WARPS = 8 }; /* of a block in the first step: what batch.tile items each make up a block's items */

cudaError_t cuda_perfect_launch_find(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *batch,
                                     cudaStream_t stream);

/* The same for one width of lane groups. `keeps_codes`: they are the last to leave the L2 cache, until somebody says otherwise. */
typedef cudaError_t cuda_perfect_launch(const loom__perfect_view *view, const cuda_batch *batch, bool keeps_codes,
                                        cudaStream_t stream);
cuda_perfect_launch cuda_perfect_launch_1, cuda_perfect_launch_2, cuda_perfect_launch_4, cuda_perfect_launch_8;

loom_status cuda_perfect_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                      loom_stream stream);
loom_status cuda_perfect_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status cuda_perfect_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                                loom_stream stream);
loom_status cuda_perfect_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream);
loom_status cuda_perfect_count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                                        uint64_t *accesses, loom_stream stream);

#endif
