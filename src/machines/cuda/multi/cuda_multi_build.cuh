/* Builds of multimaps by partition, and inserts into them: cuda_multi_partition.cu has the host's part,
 * cuda_multi_build.cu the kernels. */
#ifndef LOOM_CUDA_MULTI_BUILD_CUH
#define LOOM_CUDA_MULTI_BUILD_CUH

#include "engines/multi/multi_layout.h"
#include "machines/cuda/core/cuda_bulk.cuh"
#include "machines/cuda/core/cuda_map_call.cuh"

/* Builds or inserts by partition. *done = false: the table is unchanged, and the batch has to go by runs. The batch is
 * too small, asks for statuses or for its order; or the heap might be too small, a key comes too often, there is no
 * memory for the split, or it gave up. */
loom_status cuda_multi_try_partition(cuda_map_call *call, const loom__multi_view *view, bool *done);

/* Bytes of temporary memory that n pairs take; 0: they cannot go by partition. */
uint64_t cuda_multi_partition_bytes(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                                    uint64_t n);

/* ---- kernels ---- */

/* Plans the split of n pairs of this kind by partition of the directory. False: the kernels cannot do it. */
bool cuda_multi_plan_build(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs, uint64_t n,
                           bulk_plan *plan);

/* Builds directory and lists from the split records, and adds to all totals and counts. The heap has room for n values.
 * Call this after the whole split. If records have spilled, the kernels do nothing. */
cudaError_t cuda_multi_build(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                             const bulk_plan *plan, unsigned char *workspace, cuda_counts *counts, cudaStream_t stream);

/* A piece of a list that moves. */
enum { MOVED_PIECE = 1 << 12 };

struct moved_piece {
    uint64_t from, to; /* places of its first value in the heap */
    uint32_t count;    /* at most MOVED_PIECE */
};

struct moved_pieces {
    uint32_t count;
    moved_piece pieces[1]; /* one more than view->room / MOVED_PIECE */
};

/* Bytes of a queue that is never full. Queued lists are longer than a piece, so their last pieces at most double the
 * number of pieces. Such lists take at most half of the heap, since there is room for them twice. */
uint64_t cuda_multi_moved_bytes(const loom__multi_view *view);

/* Adds the split records to directory and lists, and to all totals and counts. The table has `stored` pairs, and n
 * come, together at most LIST_MOST_VALUES. Behind its used part the heap has room for all of them. Call this
 * after the whole split. If records have spilled, the kernels do nothing. A key either gets all its pairs or, if the
 * directory has no slot for it, none. */
cudaError_t cuda_multi_add(const cuda_state *cuda, const loom__multi_view *view, loom__slot_kind pairs,
                           const bulk_plan *plan, unsigned char *workspace, uint64_t n, uint64_t stored,
                           moved_pieces *moved, cuda_counts *counts, cudaStream_t stream);

#endif
