/* Calls on a filter: arrays where kernels can reach them, kernels, results. As in cuda_open.cu, arrays on the device are used as
 * they are, and the call returns before the work is done if its result, too, is where the device can write it. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

namespace
{

enum {
    /* From here on going by partition is faster, measured on an H200 (docs/performance.md): so many keys, and one for each block,
     * since all of the filter is read and written. */
    LEAST_BY_PARTITION = 1 << 22,
    CACHED_BYTES = 40 << 20 /* smaller filters stay in the L2 cache */
};

bool beyond_cache(const loom__filter_view *view)
{
    return filter_bytes(view->blocks) > CACHED_BYTES;
}

/* Four lanes look at a block together, eight set its bits. */
cuda_filter_launch *launcher(const cuda_state *cuda, cuda_filter_op op)
{
    const uint32_t chosen = op == FILTER_CONTAINS ? 4 : 8;
    switch (cuda->lanes != 0 ? cuda->lanes : chosen) {
    case 1:
        return cuda_filter_launch_1;
    case 2:
        return cuda_filter_launch_2;
    case 4:
        return cuda_filter_launch_4;
    default:
        return cuda_filter_launch_8;
    }
}

__global__ void tell_kernel(loom_result *result, const loom_result told)
{
    *result = told;
}

static_assert(COUNT_COPIES == 32, "one lane for each");

/* One warp: sums what was found, and clears the counts for the next call. */
__global__ void tell_found_kernel(cuda_counts *counts, loom_result *result, uint64_t n)
{
    unsigned long long found = counts[threadIdx.x].ok;
    counts[threadIdx.x] = cuda_counts{};
    for (int distance = COUNT_COPIES / 2; distance > 0; distance /= 2)
        found += __shfl_xor_sync(0xffffffffu, found, distance);
    loom_result told = {};
    told.status = LOOM_OK;
    told.keys = n;
    told.ok = found;
    told.not_found = n - found;
    if (threadIdx.x == 0)
        *result = told;
}

/* ---- kernels, for arrays on the device ---- */

struct filter_call {
    cuda_state *cuda;
    const loom__filter_view *view;
    cuda_filter_op op;
    cuda_counts *counts;
    const split_plan *plan; /* not NULL: keys are split, and that is all */
    unsigned char *workspace;
};

cudaError_t launch_call(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                        cudaStream_t stream)
{
    const filter_call *call = (const filter_call *)argument;
    if (call->plan != NULL)
        return cuda_filter_bulk_split(call->view, call->plan, call->workspace, at[CALL_KEYS], count, first, stream);
    const cuda_filter_batch batch = {at[CALL_KEYS], (uint8_t *)at[CALL_FOUND], count, cuda_tile_of(call->cuda, count),
                                     call->counts,  beyond_cache(call->view)};
    return launcher(call->cuda, call->op)(call->cuda, call->view, &batch, call->op, NULL, stream);
}

/* All of a batch, wherever its arrays lie; waits if any is on the host. */
loom_status run(filter_call *call, const cuda_call_arrays *arrays, uint64_t n, cudaStream_t stream)
{
    return cuda_run_arrays(call->cuda, arrays, n, launch_call, call, call->plan == NULL, stream);
}

/* ---- contains ---- */

loom_status contains_counted(filter_call *call, const loom__batch *batch, const cuda_call_arrays *arrays,
                             cuda_ticket *slot)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(call->cuda, "result", batch->result, &place));
    call->counts = slot->counts;
    RETURN_IF_FAILED(run(call, arrays, batch->n, stream));
    loom_result *result = place == PLACE_PAGEABLE ? slot->result : batch->result;
    tell_found_kernel<<<1, COUNT_COPIES, 0, stream>>>(slot->counts, result, batch->n);
    CUDA_TRY(cudaGetLastError());
    return cuda_hand_over(batch, arrays, slot, place);
}

loom_status contains(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_call_arrays arrays;
    cuda_ticket *slot;
    filter_call call = {cuda, view, FILTER_CONTAINS, NULL, NULL, NULL};
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate_arrays(cuda, view->key_bytes, 0, batch, &arrays));
    if (batch->uncounted) { /* `result` is the library's own, and only its status is looked at */
        RETURN_IF_FAILED(run(&call, &arrays, batch->n, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        batch->result->status = LOOM_OK;
        return LOOM_OK;
    }
    RETURN_IF_FAILED(cuda_take_ticket(cuda, stream, &slot));
    loom_status status = contains_counted(&call, batch, &arrays, slot);
    cuda_give_ticket(cuda, stream, slot, status == LOOM_OK);
    return status;
}

/* ---- insert ---- */

/* One slice: n keys, `arrays` are the slice's. */
loom_status insert_slice(filter_call *call, uint64_t n, const cuda_call_arrays *arrays, const split_plan *plan,
                         unsigned char *workspace, cudaStream_t stream)
{
    const cuda_spill rest = cuda_filter_bulk_rest(call->view, plan, workspace);
    filter_call splitting = *call;
    splitting.plan = plan;
    splitting.workspace = workspace;
    CUDA_TRY(split_begin(plan, workspace, stream));
    RETURN_IF_FAILED(run(&splitting, arrays, n, stream));
    CUDA_TRY(cuda_filter_bulk_fill(call->view, plan, workspace, stream));
    if (arrays->staged) { /* the batch is not here any more */
        uint32_t spilled = 0;
        CUDA_TRY(cudaMemcpyAsync(&spilled, rest.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        if (spilled > rest.room)
            return run(call, arrays, n, stream);
    }
    const cuda_filter_batch whole = {arrays->all[CALL_KEYS].at,   NULL, n,
                                     cuda_tile_of(call->cuda, n), NULL, beyond_cache(call->view)};
    CUDA_TRY(launcher(call->cuda, FILTER_INSERT)(call->cuda, call->view, &whole, FILTER_INSERT, &rest, stream));
    return LOOM_OK;
}

/* *done: it went by partition. */
loom_status try_by_partition(filter_call *call, const loom__batch *batch, const cuda_call_arrays *arrays, bool *done)
{
    loom__machine *machine = &call->cuda->base;
    const bool asked = (batch->flags & LOOM_BY_PARTITION) != 0;
    split_plan plan;
    *done = false;
    if (batch->n == 0)
        return LOOM_OK;
    const uint64_t each = loom__slice_items(batch->n, call->cuda->slice_keys);
    const bool possible = cuda_filter_bulk_plan(call->cuda, call->view, each, &plan);
    RETURN_ERROR_IF(
        asked && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): the filter has too many partitions, or a block of the "
        "device has less than 64 KiB of shared memory; insert directly");
    if (!possible)
        return LOOM_OK;
    const cuda_workspace own = cuda_take_workspace(machine, plan.bytes, batch->stream, NULL);
    RETURN_ERROR_IF(own.at == NULL && asked, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert directly, or free other memory",
                    (unsigned long long)plan.bytes);
    if (own.at == NULL)
        return LOOM_OK;
    loom_status status = LOOM_OK;
    for (uint64_t first = 0; first < batch->n && status == LOOM_OK; first += each) { /* slices, in the same memory */
        const uint64_t count = batch->n - first < each ? batch->n - first : each;
        const cuda_call_arrays here = arrays->part(batch->n, first, count);
        status = insert_slice(call, count, &here, &plan, own.at, (cudaStream_t)batch->stream);
    }
    if (status != LOOM_OK && arrays->staged)
        cudaStreamSynchronize((cudaStream_t)batch->stream);
    cuda_give_workspace(machine, &own, batch->stream);
    *done = true;
    return status;
}

loom_status insert(loom__machine *machine, const void *any_view, const loom__batch *batch, loom_status outcome)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_call_arrays arrays;
    cuda_place place;
    bool done = false;
    filter_call call = {cuda, view, FILTER_INSERT, NULL, NULL, NULL};
    loom_result told = {};
    told.status = outcome;
    told.keys = told.ok = batch->n;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate_arrays(cuda, view->key_bytes, 0, batch, &arrays));
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    if (batch->by_partition)
        RETURN_IF_FAILED(try_by_partition(&call, batch, &arrays, &done));
    if (!done)
        RETURN_IF_FAILED(run(&call, &arrays, batch->n, stream));
    if (place == PLACE_PAGEABLE) {
        CUDA_TRY(cudaStreamSynchronize(stream));
        *batch->result = told;
        return LOOM_OK;
    }
    tell_kernel<<<1, 1, 0, stream>>>(batch->result, told);
    CUDA_TRY(cudaGetLastError());
    if (arrays.staged)
        CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

int bulk_pays(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    const uint64_t each =
        loom__slice_items(n, ((cuda_state *)machine)->slice_keys); /* each slice goes through the filter */
    return n >= LEAST_BY_PARTITION && each >= view->blocks;
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__filter_view *view = static_cast<const loom__filter_view *>(any_view);
    split_plan plan;
    const uint64_t each = loom__slice_items(n, ((cuda_state *)machine)->slice_keys);
    return cuda_filter_bulk_plan((cuda_state *)machine, view, each, &plan) ? plan.bytes : 0;
}

} // namespace

const loom__filter_kernels cuda_filter_kernels = {
    cuda_filter_clear, insert, contains, bulk_pays, bulk_bytes, cuda_filter_merge, cuda_filter_survey,
};
