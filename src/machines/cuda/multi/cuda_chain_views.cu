/* The begin and the end of views through which users' kernels append to a chain multimap.
 *
 * A bucket that an append takes has room behind its values, and gaps around it if it is LARGE. Both go into files, and
 * appends do not write them. So the free part of the heap is zeroed before.
 *
 * Kernels count in view->directory.added what they add: keys, pairs, values in the heap. These counts go to the totals.
 * `used` may be beyond the end of the heap, and becomes what is used (chain_used). A key whose first value found no
 * room stays in the directory without values, and lists->bare says that there is one. The host does not know, so the
 * kernel that erases such keys is always launched. It ends at once if there are none. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "core/lanes.h"

#include "engines/chain/chain_layout.h"
#include "engines/open/open_items.h"
#include "engines/open/open_upkeep.h"
#include "machines/cuda/multi/cuda_chain_views.cuh"

namespace
{

/* A thread looks at all slots of a bucket. Nobody else uses the table. Two threads may erase keys of one partition at
 * the same time, so the erasures are shared ones. */
template <loom__slot_kind kind>
__global__ void __launch_bounds__(MULTI_THREADS) erase_bare_kernel(const loom__multi_view view)
{
    const loom__open_view *directory = &view.directory;
    if (view.lists->bare == 0)
        return;
    uint64_t erased = 0;
    for (uint64_t at = multi_item(); at < (uint64_t)directory->partitions * directory->buckets; at += multi_items()) {
        const open_walk here =
            open_stand_at(kind, directory, (uint32_t)(at / directory->buckets), (uint32_t)(at % directory->buckets));
        for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
            uint64_t key, handle = 0, pair;
            if (open_read_slot(kind, OPEN_SHARED, directory, &here, slot, &key, &handle, &pair) &&
                list_count(handle) == 0)
                erased += open_erase_slot(kind, OPEN_SHARED, directory, &here, slot, key, pair);
        }
    }
    if (erased > 0)
        atomicAdd((unsigned long long *)&directory->totals->size, 0ull - (unsigned long long)erased);
}

/* Runs as one warp, behind erase_bare_kernel. */
__global__ void fold_kernel(const loom__multi_view view)
{
    loom__open_added *own = &view.directory.added[threadIdx.x];
    multi_add(&view.directory.totals->size, own->keys);
    multi_add(&view.lists->pairs, own->pairs);
    multi_add(&view.lists->in_heap, own->in_heap);
    own->keys = own->pairs = own->in_heap = 0;
    if (threadIdx.x == 0)
        view.lists->used = chain_used(&view);
}

static_assert(OPEN_ADDED_COPIES == 32, "one lane for each");

/* Values have 4 or 8 bytes. */
__global__ void __launch_bounds__(MULTI_THREADS) zero_free_kernel(const loom__multi_view view)
{
    uint32_t *heap = (uint32_t *)(void *)view.heap;
    const uint64_t words = view.value_bytes / sizeof *heap, end = view.room * words;
    for (uint64_t at = view.lists->used * words + multi_item(); at < end; at += multi_items())
        heap[at] = 0;
}

const loom__multi_view *view_of(const void *any_view)
{
    return static_cast<const loom__multi_view *>(any_view);
}

} // namespace

loom_status cuda_chain_zero_free(loom__machine *machine, const void *any_view, loom_stream given)
{
    const loom__multi_view *view = view_of(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    ON_DEVICE(cuda);
    if (view->room == 0)
        return LOOM_OK;
    zero_free_kernel<<<multi_sum_blocks(cuda, view->room), MULTI_THREADS, 0, (cudaStream_t)given>>>(*view);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

loom_status cuda_chain_erase_bare(loom__machine *machine, const void *any_view, loom_stream given)
{
    const loom__multi_view *view = view_of(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    const unsigned blocks = multi_sum_blocks(cuda, (uint64_t)view->directory.partitions * view->directory.buckets);
    cudaStream_t stream = (cudaStream_t)given;
    ON_DEVICE(cuda);
    if (view->directory.kind == SLOT_KEY_4_VALUE_8)
        erase_bare_kernel<SLOT_KEY_4_VALUE_8><<<blocks, MULTI_THREADS, 0, stream>>>(*view);
    else
        erase_bare_kernel<SLOT_KEY_8_VALUE_8><<<blocks, MULTI_THREADS, 0, stream>>>(*view);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemsetAsync(&view->lists->bare, 0, sizeof view->lists->bare, stream));
    return LOOM_OK;
}

loom_status cuda_chain_fold_size(loom__machine *machine, const void *any_view, loom_stream given)
{
    const loom__multi_view *view = view_of(any_view);
    RETURN_IF_FAILED(cuda_chain_erase_bare(machine, any_view, given));
    ON_DEVICE((cuda_state *)machine);
    fold_kernel<<<1, OPEN_ADDED_COPIES, 0, (cudaStream_t)given>>>(*view);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}
