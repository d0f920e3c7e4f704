/* Insertions in order (LOOM_IN_ORDER) into tables with rows, of any engine (cuda_rows_in_order.cu). */
#ifndef LOOM_CUDA_ROWS_ORDER_CUH
#define LOOM_CUDA_ROWS_ORDER_CUH

#include "engines/open/open_rows.h"
#include "machines/cuda/core/cuda_map_call.cuh"

#define CUDA_NO_SLOT UINT64_MAX

/* A table with rows, as insertions in order see it. */
struct cuda_ordered_table {
    const void *view; /* the engine's view struct */
    uint64_t slots;   /* in all */
    /* Values that are no strings: of the row of slot 0, from row to row, and their width. */
    unsigned char *values;
    uint32_t value_stride, value_bytes;
    const loom__rows_view *strings; /* the table, if its values are byte strings; NULL: they are not */

    /* Inserts a batch in any order, and keeps values that are there. String values: stores empty ones. */
    cudaError_t (*insert)(const void *view, const cuda_batch *batch, cudaStream_t stream);
    /* Stores the number of each key's slot, counted over the table; CUDA_NO_SLOT: the key is absent. */
    cudaError_t (*locate)(const void *view, const void *keys, uint64_t n, uint64_t *slots, cudaStream_t stream);
    loom_status (*clear)(loom__machine *machine, const void *view, loom_stream stream);
};

/* Bytes of temporary memory for n keys. */
uint64_t cuda_rows_order_bytes(const cuda_state *cuda, const cuda_ordered_table *table, uint64_t n);

/* The call, after it was located. Takes a ticket. */
loom_status cuda_rows_insert_in_order(const cuda_map_call *call, const cuda_ordered_table *table);

#endif
