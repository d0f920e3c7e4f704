/* Multimaps on the cuda machine: the open engine, whose lists lie in one piece, and the chain engine. Both share all
 * calls. Kernels that differ are compiled for each: `chain` is multi_is_chain(view).
 *
 *   cuda_multi.cu         the list of calls; lookups of one value
 *   cuda_multi_find.cu    find_counts, find_all
 *   cuda_multi_insert.cu  inserts and builds by runs: the batch is sorted, and each run of equal keys is one step;
 *                         cuda_multi_runs.cuh has its arrays, and stores the values
 *   cuda_multi_build.cuh  builds and large inserts by partition: cuda_multi_partition.cu, which the host runs, and the
 *                         kernels in cuda_multi_build.cu
 *   cuda_multi_erase.cu   erase, erase_pairs
 *   cuda_multi_whole.cu   whole tables: survey, refill, retrieve
 *   cuda_multi_rows.cu    directories with rows
 *   cuda_chain_views.cuh  the end of views through which users' kernels appended; cuda_chain_views.cu
 *
 * The directory is an open table, with rows if keys have neither 4 nor 8 bytes. All steps on the directory are the
 * kernels of its engine, with handles for values. Where a batch is sorted by its keys, keys in rows are sorted by their
 * slots.
 *
 * Values of 4 and 8 bytes are a type of the kernels. Of all others the width is a number, and several lanes copy a
 * value, a word each. */
#ifndef LOOM_CUDA_MULTI_CUH
#define LOOM_CUDA_MULTI_CUH

#include "core/call_parts.h"
#include "engines/multi/multi_layout.h"
#include "machines/cuda/core/cuda_map_call.cuh"

extern const loom__map_kernels cuda_multi_kernels;

loom_status cuda_multi_find_all(loom__machine *machine, const void *any_view, const loom__list_query *query);
loom_status cuda_multi_insert(loom__machine *machine, const void *any_view, const loom__batch *batch);
uint64_t cuda_multi_bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags,
                               int with_status);
uint64_t cuda_multi_host_array_bytes(loom__machine *machine, const void *any_view, uint64_t n);
loom_status cuda_multi_erase(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status cuda_multi_erase_pairs(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status cuda_multi_survey(loom__machine *machine, const void *any_view, loom__survey *found, loom_stream stream);
loom_status cuda_multi_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                              loom_stream stream);
loom_status cuda_multi_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                void *values, uint64_t room, uint64_t *got, loom_stream stream);

/* Whether keys or values have neither 4 nor 8 bytes. */
inline bool cuda_multi_is_wide(const loom__multi_view *view)
{
    return multi_has_rows(view) || !multi_has_numbers(view);
}

/* Bytes of what a batch is sorted by: keys, or the slots of keys in rows. */
inline uint32_t cuda_run_key_bytes(const loom__multi_view *view)
{
    return multi_has_rows(view) ? (uint32_t)sizeof(uint64_t) : slot_key_bytes((loom__slot_kind)view->directory.kind);
}

/* A call on a multimap, before its first step. The widths of its arrays are those of the pairs. `kind` tells the widths
 * of what is sorted. */
inline cuda_map_call cuda_multi_call_on(loom__machine *machine, const loom__multi_view *view, const loom__batch *batch,
                                        cuda_op op, cuda_map_launch *launch)
{
    cuda_map_call call = cuda_map_call_on(machine, &view->directory, batch, op, launch);
    call.view = view;
    call.kind = slot_kind_of(cuda_run_key_bytes(view), (uint32_t)view->value_bytes);
    if (cuda_multi_is_wide(view)) {
        call.row_key_bytes = multi_key_bytes(view);
        call.row_value_bytes = (uint32_t)view->value_bytes;
    }
    return call;
}

/* A batch for the directory. Members that it does not set are zero. */
inline cuda_batch cuda_directory_batch(const cuda_state *cuda, const void *keys, uint64_t n)
{
    cuda_batch batch = {};
    batch.keys = keys;
    batch.n = n;
    batch.tile = cuda_tile_of(cuda, n);
    return batch;
}

/* ---- The directory (cuda_multi_rows.cu) ---- */

/* Launches a batch, which has at least one key. */
cudaError_t cuda_directory_launch(const cuda_state *cuda, const loom__multi_view *view, const cuda_batch *batch,
                                  cuda_op op, cudaStream_t stream);

/* The calls of its engine. They take multi_directory(view). */
const loom__map_kernels *cuda_directory_kernels(const loom__multi_view *view);

/* Directories with rows. Keys are known by their slots. A key that is not there has some other number, which no other
 * item of the batch has. n is at least 1. */

/* Stores the keys that are absent, with handles of zero, and tells the slots of all. The size of the table stays as it
 * is. */
cudaError_t cuda_insert_keys(const cuda_state *cuda, const loom__multi_view *view, const void *keys, uint64_t n,
                             uint64_t *slots, cudaStream_t stream);
cudaError_t cuda_locate_keys(const loom__multi_view *view, const void *keys, uint64_t n, uint64_t *slots,
                             cudaStream_t stream);
/* status: OK of a key with a handle of zero, FULL of one that is not there, otherwise EXISTS; may be NULL. */
cudaError_t cuda_read_handles(const loom__multi_view *view, const uint64_t *slots, uint64_t n, uint64_t *handles,
                              uint8_t *status, cudaStream_t stream);
cudaError_t cuda_write_handles(const loom__multi_view *view, const uint64_t *slots, uint64_t n, const uint64_t *handles,
                               cudaStream_t stream);
/* Erases keys, all different. The size of the table stays as it is. */
cudaError_t cuda_erase_located(const loom__multi_view *view, const uint64_t *slots, uint64_t n, cudaStream_t stream);

/* ---- Arrays as a whole ---- */

/* One array of a call that needs its arrays whole on the device: the caller's own, or a copy. */
struct cuda_device_array {
    void *at; /* on the device; NULL: the call has no such array */
    void *home;
    uint64_t bytes;
    cuda_workspace own;
};

/* Copies the array to the device if it lies in host memory and `comes`; otherwise makes room there. */
loom_status cuda_bring_array(cuda_state *cuda, const char *name, const void *array, uint64_t bytes, bool comes,
                             cudaStream_t stream, cuda_device_array *brought);
/* Copies the array back to host memory, if it lies there. Waits for pageable memory. */
loom_status cuda_take_array_home(const cuda_device_array *array, cudaStream_t stream);
void cuda_drop_array(cuda_state *cuda, cuda_device_array *array, cudaStream_t stream);

/* ---- Kernels ---- */

enum { MULTI_THREADS = 256 };

/* Thread blocks for one item per thread. */
inline unsigned multi_blocks(uint64_t n)
{
    return (unsigned)((n + MULTI_THREADS - 1) / MULTI_THREADS);
}

__device__ __forceinline__ uint64_t multi_item()
{
    return (uint64_t)blockIdx.x * MULTI_THREADS + threadIdx.x;
}

/* Thread blocks for a kernel whose threads take many items, multi_items() apart, and then add to sums. */
inline unsigned multi_sum_blocks(const cuda_state *cuda, uint64_t n)
{
    enum { BLOCKS = 8 /* on one multiprocessor */ };
    const unsigned most = (unsigned)cuda->multiprocessors * BLOCKS;
    return multi_blocks(n) < most ? multi_blocks(n) : most;
}

__device__ __forceinline__ uint64_t multi_items()
{
    return (uint64_t)gridDim.x * MULTI_THREADS;
}

/* Adds the numbers of all threads of a warp to *sum, modulo 2^64, with one atomic addition. All lanes call this. */
__device__ __forceinline__ void multi_add(uint64_t *sum, uint64_t mine)
{
    for (int distance = 16; distance > 0; distance /= 2)
        mine += __shfl_xor_sync(0xffffffffu, mine, distance);
    if (threadIdx.x % 32 == 0 && mine != 0)
        atomicAdd((unsigned long long *)sum, (unsigned long long)mine);
}

/* Lanes for an element that is moved in words: 1 << shift of them. `together`: all addresses and widths, by OR. */
struct multi_words {
    uint32_t word, shift;
};

inline multi_words multi_words_for(uint64_t together, uint64_t bytes)
{
    multi_words words = {loom__widest_word(together | bytes), 0};
    while (1u << words.shift < loom__row_lanes(bytes / words.word))
        words.shift++;
    return words;
}

/* This lane's share of a copy of one element. */
template <class word>
__device__ __forceinline__ void multi_copy_words(void *to, const void *from, uint64_t bytes, uint32_t lane,
                                                 uint32_t lanes)
{
    for (uint32_t at = lane; at < bytes / sizeof(word); at += lanes)
        ((word *)to)[at] = ((const word *)from)[at];
}

__device__ __forceinline__ uint64_t multi_load_value(const void *values, uint64_t i, uint32_t bytes)
{
    return bytes == 4 ? ((const uint32_t *)values)[i] : ((const uint64_t *)values)[i];
}

#endif
