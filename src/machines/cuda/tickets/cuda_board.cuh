/* The ticket engine on the cuda machine: declarations that its files share. They have their names from the board, since
 * a cuda_ticket is something else: the counts of a call.
 *
 *   cuda_board_calls.cu  bulk calls: launches kernels, writes results
 *   cuda_board_keys.cu   lookups and writes, key by key; moves all rows to another table
 *   cuda_board_whole.cu  reads and writes whole tables: clear, survey, depths, upkeep, retrieve
 *
 * Kernels reach rows in host memory directly, row by row: tables of the rows engine have better ways
 * (cuda_row_routes.cu). */
#ifndef LOOM_CUDA_BOARD_CUH
#define LOOM_CUDA_BOARD_CUH

#include "engines/tickets/ticket_layout.h"
#include "machines/cuda/core/cuda_map_call.cuh"

inline const loom__ticket_view *board_of(const void *view)
{
    return static_cast<const loom__ticket_view *>(view);
}

/* Launches the batch, which has at least one key: a lookup, or a write. If `finish` is not NULL, the kernel also
 * finishes the call. */
cudaError_t cuda_board_run(const loom__ticket_view *view, const cuda_batch *batch, cuda_op op,
                           const cuda_finish *finish, cudaStream_t stream);

/* Stores the number of each key's slot, counted over the table; CUDA_NO_SLOT: the key is absent. */
cudaError_t cuda_board_locate(const loom__ticket_view *view, const void *keys, uint64_t n, uint64_t *slots,
                              cudaStream_t stream);

/* Adds the tickets that lookups of the keys read to *sum. */
cudaError_t cuda_board_accesses(const loom__ticket_view *view, const void *keys, uint64_t n, unsigned long long *sum,
                                cudaStream_t stream);

/* Stores all keys of `from` in `to`, an empty table. *refused counts keys that found no room. */
cudaError_t cuda_board_move(const loom__ticket_view *from, const loom__ticket_view *to, unsigned long long *refused,
                            cudaStream_t stream);

loom_status cuda_board_clear(loom__machine *machine, const void *view, loom_stream stream);
loom_status cuda_board_reset_totals(loom__machine *machine, const void *view, const loom__totals *totals,
                                    loom_stream stream);
loom_status cuda_board_survey(loom__machine *machine, const void *view, loom__survey *survey, loom_stream stream);
loom_status cuda_board_upkeep(loom__machine *machine, const void *view, int sweep, loom_stream stream);
loom_status cuda_board_retrieve(loom__machine *machine, const void *view, loom__position *position, void *keys,
                                void *values, uint64_t room, uint64_t *got, loom_stream stream);
loom_status cuda_board_count_accesses(loom__machine *machine, const void *view, const void *keys, uint64_t n,
                                      uint64_t *accesses, loom_stream stream);

#endif
