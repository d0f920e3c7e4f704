/* The begin and the end of views through which users' kernels append to a chain multimap
 * (loom::multi_table::insert). */
#ifndef LOOM_CUDA_CHAIN_VIEWS_CUH
#define LOOM_CUDA_CHAIN_VIEWS_CUH

#include "machines/cuda/multi/cuda_multi.cuh"

/* The member zero_free of multimaps: zeroes the heap behind its used part. */
loom_status cuda_chain_zero_free(loom__machine *machine, const void *any_view, loom_stream stream);

/* Erases the keys without values, if appends by lanes left some (loom__multi_totals.bare), and takes them from the
 * table's size. The caller has the table alone. Does not wait. */
loom_status cuda_chain_erase_bare(loom__machine *machine, const void *any_view, loom_stream stream);

/* The member fold_size of multimaps: adds the counts of users' kernels to the totals, and erases keys without
 * values. */
loom_status cuda_chain_fold_size(loom__machine *machine, const void *any_view, loom_stream stream);

#endif
