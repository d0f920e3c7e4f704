/* The rows engine on the cuda machine: declarations that its files share.
 *
 *   cuda_rows_calls.cu     bulk calls: launches kernels, writes results
 *   cuda_rows_find.cu      lookups
 *   cuda_rows_search.cuh   lookups: the step that searches lines
 *   cuda_strings_find.cu   lookups of keys that are byte strings
 *   cuda_rows_write.cuh    writes key by key; moves all rows to another table. cuda_rows_write.cu compiles it for rows,
 *                          cuda_strings_write.cu for byte strings
 *   cuda_rows_in_order.cu  inserts batches in order (LOOM_IN_ORDER)
 * Whole tables are read and put in order by the open engine's files (cuda_open_scan.cu, cuda_open_upkeep.cu). */
#ifndef LOOM_CUDA_ROWS_ENGINE_CUH
#define LOOM_CUDA_ROWS_ENGINE_CUH

#include "engines/open/open_rows.h"
#include "machines/cuda/core/cuda_state.cuh"

/* Launches the batch, which has at least one key: a lookup, or a write. If `finish` is not NULL, the kernel also
 * finishes the call. */
cudaError_t cuda_rows_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                           cudaStream_t stream);
cudaError_t cuda_strings_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                              cudaStream_t stream);
/* SLOT_STRING, `empty_values`: a new key gets the empty string as its value. */
cudaError_t cuda_rows_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op, const cuda_finish *finish,
                            cudaStream_t stream, bool empty_values = false);

/* Stores the number of each key's slot, counted over the table; CUDA_NO_SLOT: the key is absent. */
#define CUDA_NO_SLOT UINT64_MAX
cudaError_t cuda_rows_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                             cudaStream_t stream);

/* Erases the keys of so many slots, all different. The size of the table stays as it is. */
cudaError_t cuda_rows_erase_slots(const loom__rows_view *view, const uint64_t *slots, uint64_t n, cudaStream_t stream);

/* Stores all keys of `from` in `to`, an empty table. *refused counts keys that found no room. */
cudaError_t cuda_rows_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                           cudaStream_t stream);

/* The same three for tables with byte strings. */
cudaError_t cuda_strings_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op,
                               const cuda_finish *finish, bool empty_values, cudaStream_t stream);
cudaError_t cuda_strings_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                                cudaStream_t stream);
cudaError_t cuda_strings_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                              cudaStream_t stream);

/* Inserts a batch, or a part of it, in order (cuda_rows_in_order.cu). `memory` has cuda_rows_order_bytes(view, n)
 * bytes, and is the same for all parts. */
uint64_t cuda_rows_order_bytes(const loom__rows_view *view, uint64_t n);
cudaError_t cuda_rows_in_order(const loom__rows_view *view, const cuda_batch *batch, bool overwrite, bool first_launch,
                               unsigned char *memory, cudaStream_t stream);

#endif
