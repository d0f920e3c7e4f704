/* Multimaps on the cuda machine: the open engine, whose lists lie in one piece, and the chain engine. Both share all
 * calls. Kernels that differ are compiled for each: `chain` is multi_is_chain(view).
 *
 *   cuda_multi.cu         the list of calls; lookups of one value
 *   cuda_multi_find.cu    find_counts, find_all
 *   cuda_multi_insert.cu  inserts and builds by runs: the batch is sorted, and each run of equal keys is one step
 *   cuda_multi_build.cuh  builds and large inserts by partition: cuda_multi_partition.cu, which the host runs, and the
 *                         kernels in cuda_multi_build.cu
 *   cuda_multi_erase.cu   erase, erase_pairs
 *   cuda_multi_whole.cu   whole tables: survey, refill, retrieve
 *   cuda_chain_views.cuh  the end of views through which users' kernels appended; cuda_chain_views.cu
 *
 * The directory is an open table. All steps on the directory are the open engine's own kernels, with handles for
 * values. */
#ifndef LOOM_CUDA_MULTI_CUH
#define LOOM_CUDA_MULTI_CUH

#include "engines/multi/multi_layout.h"
#include "machines/cuda/core/cuda_map_call.cuh"

extern const loom__map_kernels cuda_multi_kernels;

loom_status cuda_multi_find_all(loom__machine *machine, const void *any_view, const loom__list_query *query);
loom_status cuda_multi_insert(loom__machine *machine, const void *any_view, const loom__batch *batch);
uint64_t cuda_multi_bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags,
                               int with_status);
loom_status cuda_multi_erase(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status cuda_multi_erase_pairs(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status cuda_multi_survey(loom__machine *machine, const void *any_view, loom__survey *found, loom_stream stream);
loom_status cuda_multi_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                              loom_stream stream);
loom_status cuda_multi_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                void *values, uint64_t room, uint64_t *got, loom_stream stream);

/* A call on a multimap, before its first step. The widths of its arrays are those of the pairs. */
inline cuda_map_call cuda_multi_call_on(loom__machine *machine, const loom__multi_view *view, const loom__batch *batch,
                                        cuda_op op, cuda_map_launch *launch)
{
    cuda_map_call call = cuda_map_call_on(machine, &view->directory, batch, op, launch);
    call.view = view;
    call.kind = slot_kind_of(slot_key_bytes((loom__slot_kind)view->directory.kind), (uint32_t)view->value_bytes);
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

__device__ __forceinline__ uint64_t multi_load_value(const void *values, uint64_t i, uint32_t bytes)
{
    return bytes == 4 ? ((const uint32_t *)values)[i] : ((const uint64_t *)values)[i];
}

#endif
