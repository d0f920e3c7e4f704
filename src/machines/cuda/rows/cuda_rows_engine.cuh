/* The rows engine on the cuda machine: declarations that its files share.
 *
 *   cuda_rows_calls.cu     bulk calls: launches kernels, writes results
 *   cuda_rows_find.cu      lookups
 *   cuda_rows_search.cuh   lookups: the step that searches lines
 *   cuda_strings_find.cu   lookups of keys that are byte strings
 *   cuda_rows_write.cuh    writes key by key; moves all rows to another table. cuda_rows_write.cu compiles it for rows,
 *                          cuda_strings_write.cu for byte strings
 *   cuda_rows_in_order.cu  inserts batches in order (cuda_rows_order.cuh)
 *   cuda_row_routes.cu     calls on tables with rows in host memory: four ways to reach them
 *   cuda_row_groups.cuh    sorts the items of a batch by their places
 *   cuda_row_gather.cu     the way that host threads gather rows
 *   cuda_row_moves.cu      moves such tables into others
 *   cuda_row_windows.cuh   parts of such tables on the device
 * Whole tables are read and put in order by the open engine's files (cuda_open_scan.cu, cuda_open_upkeep.cu). */
#ifndef LOOM_CUDA_ROWS_ENGINE_CUH
#define LOOM_CUDA_ROWS_ENGINE_CUH

#include "engines/open/open_rows.h"
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_row_staging.cuh"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/rows/cuda_rows_order.cuh"

/* Launches the batch, which has at least one key: a lookup, or a write. If `finish` is not NULL, the kernel also
 * finishes the call. */
cudaError_t cuda_rows_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                           cudaStream_t stream);
cudaError_t cuda_strings_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                              cudaStream_t stream);
/* SLOT_STRING, `empty_values`: a new key gets the empty string as its value. */
cudaError_t cuda_rows_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op, const cuda_finish *finish,
                            cudaStream_t stream, bool empty_values = false);

/* Keys of a lookup whose tags were found, in any order: their items in the batch, and the numbers of their rows. */
struct cuda_sought_rows {
    uint32_t *items;           /* [n] */
    uint64_t *rows;            /* [n] */
    unsigned long long *count; /* zero at first */
};

/* Answers a lookup of at least one key by the tags alone. The answers of keys in *sought are preliminary: OK, and no
 * value. Counts nothing. */
cudaError_t cuda_rows_seek(const loom__rows_view *view, const cuda_batch *batch, const cuda_sought_rows *sought,
                           cudaStream_t stream);

/* Goes on with `count` keys, at least one, whose rows turned out to be those of other keys. Answers and counts them. */
cudaError_t cuda_rows_find_on(const loom__rows_view *view, const cuda_batch *batch, const cuda_sought_rows *from,
                              uint64_t count, cudaStream_t stream);

/* Zeroes all rows. */
cudaError_t cuda_rows_clear(const loom__rows_view *view, cudaStream_t stream);

/* ---- Rows in host memory ---- */

/* The work of a call on the items of `batch`, for cuda_map_call.launch. The table's rows lie in host memory, and have a
 * fixed width. With batch.replace of the call, `batch` is all of it, and the tags are cleared, but not the rows. Waits
 * for the device, unless the batch goes directly. */
cudaError_t cuda_rows_by_route(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream);

/* Part of it: copies the rows of `count` keys whose tags were found to the device, compares keys, and writes values and
 * counts. *left gets the keys whose rows hold other keys. *begun is false if there was no staging memory: nothing has
 * happened. Waits. */
cudaError_t cuda_rows_gather(cuda_row_staging *staging, const loom__rows_view *view, const cuda_batch *batch,
                             const cuda_sought_rows *sought, uint64_t count, const cuda_sought_rows *left, bool *begun,
                             cudaStream_t stream);

/* Whether what is left of the call's memory is enough for that. */
bool cuda_rows_may_gather(const cuda_row_staging &staging);

/* Stores the number of each key's slot, counted over the table; CUDA_NO_SLOT: the key is absent. */
cudaError_t cuda_rows_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                             cudaStream_t stream);

/* Erases the keys of so many slots, all different. The size of the table stays as it is. */
cudaError_t cuda_rows_erase_slots(const loom__rows_view *view, const uint64_t *slots, uint64_t n, cudaStream_t stream);

/* Stores all keys of `from` in `to`, an empty table. *refused counts keys that found no room. */
cudaError_t cuda_rows_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                           cudaStream_t stream);

/* The same for the keys of some lines of `from` that belong to some partitions of `to`. No byte strings. */
struct cuda_moved_range {
    uint64_t first_line, end_line;
    uint32_t first_partition, end_partition;
};
cudaError_t cuda_rows_move_range(const loom__rows_view *from, const loom__rows_view *to, const cuda_moved_range &range,
                                 unsigned long long *refused, cudaStream_t stream);

/* The range that is all keys. */
inline cuda_moved_range cuda_moved_whole(const loom__rows_view *from, const loom__rows_view *to)
{
    return {0, (uint64_t)from->lines.partitions * from->lines.buckets, 0, to->lines.partitions};
}

/* cuda_rows_move for tables with rows in host memory, window by window: rows pass the link in whole partitions. The
 * rows of `to` need not be cleared. *taken is false if there was no memory for that: nothing has happened. Waits. */
cudaError_t cuda_rows_move_by_window(cuda_state *cuda, const loom__rows_view *from, const loom__rows_view *to,
                                     unsigned long long *refused, bool *taken, cudaStream_t stream);

/* The same three for tables with byte strings. */
cudaError_t cuda_strings_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op,
                               const cuda_finish *finish, bool empty_values, cudaStream_t stream);
cudaError_t cuda_strings_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                                cudaStream_t stream);
cudaError_t cuda_strings_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                              cudaStream_t stream);

#endif
