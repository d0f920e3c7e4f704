/* Inserts pairs into lists by *runs*; also builds. Large batches go by partition instead, if they can
 * (cuda_multi_partition.cu). By runs, the keys are sorted together with their positions in the batch or, without
 * statuses, with their values (cuda_sort.cuh). So the pairs of a key are one run, in the order of the batch. Then:
 *   1. Number   Each run gets a number. Its key goes to an array of different keys.
 *   2. Fetch    The directory is asked for the handle of each key. New keys are stored there with a handle of zero.
 *   3. Plan     Each run decides for its list: it stays if there is room behind it, or takes a place elsewhere. A chain
 *               takes a bucket there for the values that have no room.
 *   4. Settle   If the heap has room for all places, each run gets its place and writes its new handle and its link.
 *               Lists that move are copied. If there is no room, and the caller can make the heap larger, new keys are
 *               erased again, and the caller learns how much room a packed heap needs. Otherwise lists get what room
 *               there is.
 *   5. Store    Each pair whose place is below the new count is stored. The others are refused.
 *   6. Update   The directory gets the new handles.
 * In a build all lists are new: the directory is built from keys and handles in one piece after step 4.
 *
 * Keys in rows (cuda_multi_rows.cu) are stored in the directory first, with handles of zero, also in a build. Then the
 * batch is sorted by their slots, and a slot takes the part of a key. Pairs whose keys found no room are runs of their
 * own, which are refused. Values that are neither 4 nor 8 bytes wide are never sorted: their positions are.
 *
 * No two lanes ever write to one list's handle, however often a key comes, and the order of the batch is kept. So this
 * way serves every batch: in order, with one key for all pairs, or small.
 *
 * Bytes moved for a pair of k + v bytes, without statuses: 2 (k + v) (k + 1) to copy and sort, 2 k + 8 to number, 8 + 2
 * v to store; with statuses, 32 for a random read of the value. The directory's lines are read or written three times
 * for each key. The call waits for the device before steps 2 and 4, and at the end if keys are erased again or the
 * caller asks how many were refused. Looking whether the batch can go by partition takes up to two waits before.
 *
 * Measured on an H200, a build of 2^26 pairs of 4 + 4 bytes with keys by Zipf's law, 2026-11-18: 1.8 ms to sort, 0.34
 * to number, 0.15 to plan, 0.5 for the directory, 0.27 to store. Threads that take many runs each count the pairs. When
 * every warp added its pairs to one sum, storing took 2.0 ms. */
#include "engines/chain/chain_plan.h"
#include "engines/multi/multi_plan.h"
#include "machines/cuda/core/cuda_copy_wide.cuh"
#include "machines/cuda/core/cuda_sort.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"
#include "machines/cuda/multi/cuda_multi_build.cuh"
#include "machines/cuda/multi/cuda_multi_runs.cuh"

#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace
{

/* The heap before the call. */
struct heap_space {
    uint64_t used, room;
    int tight;
};

/* ---- 1. number ---- */

template <class key> struct run_begins {
    const key *keys;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const
    {
        return begins_run(keys, i);
    }
};

template <class key> auto begins_of(const key *keys)
{
    return thrust::make_transform_iterator(thrust::counting_iterator<uint32_t>(0), run_begins<key>{keys});
}

/* Gets the number of each pair's run from the scan that adds up the beginnings of runs. */
template <class key> struct run_numbers {
    const key *keys;
    uint64_t n;
    uint32_t *run_of;
    key *run_keys;
    uint32_t *begin;
    run_sums *sums;
    __device__ __forceinline__ void operator()(uint64_t i, uint32_t number) const
    {
        const uint32_t run = number - 1;
        run_of[i] = number;
        if (begins_run(keys, i)) {
            run_keys[run] = keys[i];
            begin[run] = (uint32_t)i;
        }
        if (i == n - 1) {
            begin[run + 1] = (uint32_t)n;
            sums->runs = run + 1;
        }
    }
};

template <class key> auto numbers_to(const run_numbers<key> &numbers)
{
    return thrust::make_tabulate_output_iterator(numbers);
}

/* ---- 3. plan ---- */

template <bool chain>
__device__ __forceinline__ loom__list_plan plan_run(const loom__multi_view &view, const run_arrays &work, uint64_t run,
                                                    int tight)
{
    const uint64_t old = work.old[run], more = work.status[run] == LOOM_FULL ? 0 : work.length(run);
    return list_plan_for(chain, &view, old, list_count(old) + more, tight);
}

template <bool chain>
__global__ void __launch_bounds__(MULTI_THREADS)
    plan_kernel(const loom__multi_view view, const run_arrays work, int tight)
{
    uint64_t taken = 0, large = 0, moving = 0, needed = 0, refused = 0;
    for (uint64_t run = multi_item(); run < work.runs; run += multi_items()) {
        const loom__list_plan plan = plan_run<chain>(view, work, run, tight);
        const bool is_large = plan.moves > 0 && multi_place_kind(&plan) == LIST_LARGE;
        const uint64_t padding = is_large ? LIST_LARGE_UNIT - 1 : 0; /* it begins at a multiple of a unit */
        const uint64_t takes = plan.link + plan.moves + padding;
        work.places[run] = takes;
        taken += takes;
        large += is_large;
        moving += !chain && plan.moves > 0 && list_in_heap(work.old[run]);
        needed += list_needed_when_packed(chain, &view, work.old[run], &plan);
        refused += work.status[run] == LOOM_FULL ? work.length(run) : 0;
    }
    multi_add(&work.sums->taken, taken);
    multi_add(&work.sums->large, large);
    multi_add(&work.sums->moving, moving);
    multi_add(&work.sums->needed, needed);
    multi_add(&work.sums->rows_refused, refused);
}

/* ---- 4. settle ---- */

template <bool chain>
__global__ void __launch_bounds__(MULTI_THREADS)
    settle_kernel(const loom__multi_view view, const run_arrays work, const heap_space space)
{
    const uint64_t run = multi_item();
    if (run >= work.runs)
        return;
    const uint32_t bytes = (uint32_t)view.value_bytes;
    const uint64_t old = work.old[run];
    loom__list_plan plan = plan_run<chain>(view, work, run, space.tight);
    const loom__list_kind kind = multi_place_kind(&plan);
    uint64_t place = space.used + work.places[run] + plan.link;
    place += multi_padding(kind, place);
    if (plan.moves > 0 && (place > space.room || plan.moves > space.room - place)) { /* as much as there is room for */
        const uint64_t left = place < space.room ? space.room - place : 0, most = plan.wanted - plan.before;
        multi_cut_plan(&plan, left < multi_least_place(&plan) ? 0 : left < most ? left : most);
    }
    if (plan.moves > 0) {
        work.handles[run] = multi_placed_list(&plan, kind, place);
        if (chain && plan.link > 0)
            list_link_put(view.heap, bytes, place, chain_link_of(old, &plan));
        else if (plan.stored > 0 && !list_in_heap(old))
            put_number(bytes, view.heap, place, list_one_value(old));
    } else {
        const uint64_t first = plan.stored == 0 && plan.wanted > 0 && multi_has_ones(&view)
                                   ? multi_load_value(work.values, work.position(work.begin[run]), bytes)
                                   : 0;
        work.handles[run] = list_kept(chain, &view, old, &plan, first);
    }
}

template <class value_type> struct moving_lists {
    typedef value_type value;
    unsigned char *heap;
    const uint64_t *old, *handles;
    __device__ __forceinline__ copied_list list(uint64_t run) const
    {
        const uint64_t from = old[run], to = handles[run];
        if (!list_in_heap(from) || !list_in_heap(to) || list_first(from) == list_first(to))
            return {};
        return {from, 0, list_count(from), list_first(to)};
    }
    __device__ __forceinline__ void put(uint64_t, uint64_t at, value one) const
    {
        ((value *)heap)[at] = one;
    }
};

/* The same for values that are neither 4 nor 8 bytes wide. */
struct moving_wide_lists {
    const unsigned char *heap;
    unsigned char *to;
    const uint64_t *old, *handles;
    __device__ __forceinline__ copied_list list(uint64_t run) const
    {
        return moving_lists<uint32_t>{to, old, handles}.list(run);
    }
};

/* Adds up what changes. A run that the directory refused gets no handle. Lists the new keys that get no value, in no
 * particular order. `built`: the directory counts its keys itself. */
template <class key>
__global__ void __launch_bounds__(MULTI_THREADS)
    conclude_kernel(const run_arrays work, const key *run_keys, key *without_value, int built)
{
    uint64_t stored = 0, in_heap = 0, keys = 0, refused = 0;
    for (uint64_t run = multi_item(); run < work.runs; run += multi_items()) {
        const uint8_t status = work.status[run];
        const uint64_t handle = status == LOOM_FULL ? 0 : work.handles[run], old = work.old[run];
        work.handles[run] = handle;
        stored += status == LOOM_FULL ? 0 : list_count(handle) - list_count(old);
        in_heap += (list_in_heap(handle) ? list_count(handle) : 0) - (list_in_heap(old) ? list_count(old) : 0);
        refused += built && status == LOOM_FULL ? work.length(run) : 0;
        if (status == LOOM_OK && handle == 0) {
            without_value[atomicAdd((unsigned long long *)&work.sums->without_value, 1ull)] = run_keys[run];
            keys -= built; /* the directory has counted it */
        } else if (status == LOOM_OK && !built) {
            keys++;
        }
    }
    multi_add(&work.sums->stored, stored);
    multi_add(&work.sums->in_heap, in_heap);
    multi_add(&work.sums->keys, keys);
    multi_add(&work.sums->rows_refused, refused);
}

/* Lists the keys that the directory did not have before the call. */
template <class key>
__global__ void __launch_bounds__(MULTI_THREADS)
    list_new_kernel(const run_arrays work, const key *run_keys, key *without_value)
{
    const uint64_t run = multi_item();
    if (run < work.runs && work.status[run] == LOOM_OK)
        without_value[atomicAdd((unsigned long long *)&work.sums->without_value, 1ull)] = run_keys[run];
}

/* ---- 5. store: cuda_multi_runs.cuh ---- */

/* One thread runs this. */
__global__ void add_up_kernel(const loom__multi_view view, const run_sums *sums, uint64_t n, uint64_t used,
                              cuda_counts *counts)
{
    counts->ok += sums->stored;
    counts->full += n - sums->stored;
    view.lists->pairs += sums->stored;
    view.lists->used = used;
    view.lists->in_heap += sums->in_heap;
    view.directory.totals->size += sums->keys;
}

/* ---- the call ---- */

/* The workspace: one part for the pairs, and one for the runs, of which only the device knows how many there are. */
struct run_layout {
    uint64_t keys_at[2], mates_at[2], begin_at, slots_at, scratch_at, scratch_bytes, pair_bytes;
    uint64_t old_at, handles_at, places_at, status_at, queue_at, run_bytes;
};

template <class key> cudaError_t lay_out_pairs(uint64_t n, uint32_t mate_bytes, bool has_rows, run_layout *layout)
{
    size_t sort = 0, number = 0, place = 0;
    RETURN_IF_CUDA_FAILED(cuda_sort_bytes(sizeof(key), mate_bytes, n, &sort));
    RETURN_IF_CUDA_FAILED(
        cub::DeviceScan::InclusiveSum(NULL, number, begins_of<key>(NULL), numbers_to(run_numbers<key>{}), (uint32_t)n));
    RETURN_IF_CUDA_FAILED(cub::DeviceScan::ExclusiveSum(NULL, place, (uint64_t *)NULL, (uint64_t *)NULL, (uint32_t)n));
    cuda_layout all = {cuda_aligned(sizeof(run_sums))};
    for (int i = 0; i < 2; i++) {
        layout->keys_at[i] = all.add(n * sizeof(key));
        layout->mates_at[i] = all.add(n * mate_bytes);
    }
    layout->begin_at = all.add((n + 1) * sizeof(uint32_t));
    layout->slots_at = all.add(has_rows ? n * sizeof(uint64_t) : 0);
    layout->scratch_bytes = sort > number ? sort : number;
    layout->scratch_bytes = layout->scratch_bytes > place ? layout->scratch_bytes : place;
    layout->scratch_at = all.add(layout->scratch_bytes);
    layout->pair_bytes = all.bytes;
    return cudaSuccess;
}

void lay_out_runs(uint64_t runs, run_layout *layout)
{
    cuda_layout all = {0};
    layout->old_at = all.add(runs * sizeof(uint64_t));
    layout->handles_at = all.add(runs * sizeof(uint64_t));
    layout->places_at = all.add(runs * sizeof(uint64_t));
    layout->status_at = all.add(runs);
    layout->queue_at = all.add(sizeof(long_lists));
    layout->run_bytes = all.bytes;
}

struct insert_work {
    cuda_map_call *call;
    const loom__multi_view *view;
    run_layout layout;
    cuda_device_array keys, values, status; /* keys: those in rows */
    cuda_workspace for_pairs, for_runs;
    run_arrays arrays;
    loom__multi_totals totals; /* before the call */
    run_sums sums;             /* as the host last saw them */

    uint64_t n() const
    {
        return call->batch.n;
    }
    cudaStream_t stream() const
    {
        return call->stream;
    }
    bool has_rows() const
    {
        return multi_has_rows(view) != 0;
    }
    /* Of keys in rows. */
    uint64_t *slots() const
    {
        return (uint64_t *)(for_pairs.at + layout.slots_at);
    }
};

loom_status read_sums(insert_work *work)
{
    CUDA_TRY(
        cudaMemcpyAsync(&work->sums, work->arrays.sums, sizeof work->sums, cudaMemcpyDeviceToHost, work->stream()));
    CUDA_TRY(cudaStreamSynchronize(work->stream()));
    return LOOM_OK;
}

loom_status no_memory(uint64_t bytes)
{
    return loom__fail(
        LOOM_OUT_OF_MEMORY,
        "%llu bytes of temporary memory could not be had; insert fewer pairs at once, or free other memory",
        (unsigned long long)bytes);
}

/* Erases the keys in the list from the directory. */
template <class key> loom_status erase_without_value(insert_work *work)
{
    RETURN_IF_FAILED(read_sums(work));
    const uint64_t n = work->sums.without_value;
    const cuda_batch batch = cuda_directory_batch(work->call->cuda, work->arrays.places, n);
    if (n > 0 && work->has_rows())
        CUDA_TRY(cuda_erase_located(work->view, work->arrays.places, n, work->stream()));
    else if (n > 0)
        CUDA_TRY(cuda_open_launch(work->call->cuda, &work->view->directory, &batch, OP_ERASE, NULL, work->stream()));
    return LOOM_OK;
}

/* The heap is too small, and the caller makes it larger. */
template <class key> loom_status cancel(insert_work *work, const key *run_keys)
{
    const run_arrays arrays = work->arrays;
    *work->call->batch.values_needed = work->totals.in_heap + work->sums.needed;
    list_new_kernel<<<multi_blocks(arrays.runs), MULTI_THREADS, 0, work->stream()>>>(arrays, run_keys,
                                                                                     (key *)arrays.places);
    CUDA_TRY(cudaGetLastError());
    return erase_without_value<key>(work);
}

template <class value> cudaError_t move_lists(const insert_work *work)
{
    const moving_lists<value> lists = {work->view->heap, work->arrays.old, work->arrays.handles};
    long_lists *queue = (long_lists *)(work->for_runs.at + work->layout.queue_at);
    return copy_lists(work->call->cuda, lists, false, work->arrays.runs, queue, work->stream());
}

template <> cudaError_t move_lists<wide_value>(const insert_work *work)
{
    const moving_wide_lists lists = {work->view->heap, work->view->heap, work->arrays.old, work->arrays.handles};
    long_lists *queue = (long_lists *)(work->for_runs.at + work->layout.queue_at);
    return copy_wide_lists(work->call->cuda, lists, work->arrays.runs, (uint32_t)work->view->value_bytes, queue,
                           work->stream());
}

/* Stores the runs' keys and handles in an empty directory, and writes a status for each. */
loom_status build_directory(const insert_work *work, const void *run_keys, bool *refused)
{
    loom_result result = {};
    loom__batch batch = {};
    batch.keys = run_keys;
    batch.values = work->arrays.handles;
    batch.status = work->arrays.status;
    batch.n = work->arrays.runs;
    batch.replace = 1;
    batch.result = &result;
    batch.stream = (loom_stream)work->stream();
    RETURN_IF_FAILED(cuda_open_kernels.insert_bulk(&work->call->cuda->base, &work->view->directory, &batch));
    *refused = result.full > 0;
    return LOOM_OK;
}

cudaError_t fetch_handles(const insert_work *work, const void *run_keys)
{
    const run_arrays *arrays = &work->arrays;
    if (work->has_rows())
        return cuda_read_handles(work->view, (const uint64_t *)run_keys, arrays->runs, arrays->old, arrays->status,
                                 work->stream());
    cuda_batch batch = cuda_directory_batch(work->call->cuda, run_keys, arrays->runs);
    batch.values = arrays->handles; /* zeros */
    batch.found_values = arrays->old;
    batch.status = arrays->status;
    return cuda_open_launch(work->call->cuda, &work->view->directory, &batch, OP_FETCH, NULL, work->stream());
}

cudaError_t update_handles(const insert_work *work, const void *run_keys)
{
    if (work->has_rows())
        return cuda_write_handles(work->view, (const uint64_t *)run_keys, work->arrays.runs, work->arrays.handles,
                                  work->stream());
    cuda_batch batch = cuda_directory_batch(work->call->cuda, run_keys, work->arrays.runs);
    batch.values = work->arrays.handles;
    return cuda_open_launch(work->call->cuda, &work->view->directory, &batch, OP_UPDATE, NULL, work->stream());
}

/* Makes room for so many runs. */
loom_status take_runs(insert_work *work, uint64_t runs)
{
    const run_layout *layout = &work->layout;
    lay_out_runs(runs, &work->layout);
    if (work->for_pairs.callers && work->for_pairs.bytes >= layout->pair_bytes + layout->run_bytes)
        work->for_runs = {work->for_pairs.at + layout->pair_bytes, layout->run_bytes, true};
    else
        work->for_runs =
            cuda_take_workspace(&work->call->cuda->base, layout->run_bytes, (loom_stream)work->stream(), NULL);
    return work->for_runs.at != NULL ? LOOM_OK : no_memory(layout->run_bytes);
}

/* Stores keys in the rows of the directory, and finds their slots. There is room for all runs before, so nothing that
 * can be refused comes between keys with handles of zero and their lists. */
loom_status place_keys(insert_work *work)
{
    RETURN_IF_FAILED(take_runs(work, work->n()));
    if (work->call->batch.replace)
        RETURN_IF_FAILED(cuda_multi_kernels.clear(&work->call->cuda->base, work->view, (loom_stream)work->stream()));
    CUDA_TRY(cuda_insert_keys(work->call->cuda, work->view, work->keys.at, work->n(), work->slots(), work->stream()));
    return LOOM_OK;
}

/* Finds the runs, and makes room for them. `by_position`: pairs are sorted with their positions. */
template <class key, class mate> loom_status number_runs(insert_work *work, bool by_position, const key **run_keys)
{
    const uint64_t n = work->n();
    const run_layout *layout = &work->layout;
    unsigned char *at = work->for_pairs.at;
    cudaStream_t stream = work->stream();
    const cuda_sort_buffers<key, mate> buffers = {
        {(key *)(at + layout->keys_at[0]), (key *)(at + layout->keys_at[1])},
        {(mate *)(at + layout->mates_at[0]), (mate *)(at + layout->mates_at[1])},
        at + layout->scratch_at,
        (size_t)layout->scratch_bytes};
    const void *keys = work->has_rows() ? work->slots() : work->call->batch.keys;
    cuda_sorted<key, mate> sorted;
    run_arrays *arrays = &work->arrays;
    uint32_t *begin = (uint32_t *)(at + layout->begin_at);
    arrays->sums = (run_sums *)at;
    CUDA_TRY(cudaMemsetAsync(arrays->sums, 0, sizeof *arrays->sums, stream));
    RETURN_IF_FAILED(cuda_sort_keys(keys, by_position ? NULL : work->call->batch.values, n, buffers, stream, &sorted));
    uint32_t *run_of = (uint32_t *)sorted.free_mates;
    size_t bytes = layout->scratch_bytes;
    const run_numbers<key> numbers = {sorted.keys, n, run_of, sorted.free_keys, begin, arrays->sums};
    CUDA_TRY(cub::DeviceScan::InclusiveSum(buffers.scratch, bytes, begins_of<key>(sorted.keys), numbers_to(numbers),
                                           (uint32_t)n, stream));
    RETURN_IF_FAILED(read_sums(work));
    *run_keys = sorted.free_keys;
    arrays->positions = by_position ? (const uint32_t *)sorted.mates : NULL;
    arrays->run_of = run_of;
    arrays->begin = begin;
    arrays->values = by_position ? work->values.at : sorted.mates;
    arrays->runs = work->sums.runs;
    arrays->n = n;
    if (work->for_runs.at == NULL)
        RETURN_IF_FAILED(take_runs(work, arrays->runs));
    arrays->old = (uint64_t *)(work->for_runs.at + layout->old_at);
    arrays->handles = (uint64_t *)(work->for_runs.at + layout->handles_at);
    arrays->places = (uint64_t *)(work->for_runs.at + layout->places_at);
    arrays->status = work->for_runs.at + layout->status_at;
    CUDA_TRY(cudaMemsetAsync(arrays->handles, 0, arrays->runs * sizeof(uint64_t), stream));
    return LOOM_OK;
}

/* Plans all lists. */
loom_status plan_lists(insert_work *work, int tight)
{
    const run_arrays *arrays = &work->arrays;
    size_t bytes = work->layout.scratch_bytes;
    auto plan = multi_is_chain(work->view) ? plan_kernel<true> : plan_kernel<false>;
    plan<<<multi_sum_blocks(work->call->cuda, arrays->runs), MULTI_THREADS, 0, work->stream()>>>(*work->view, *arrays,
                                                                                                 tight);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cub::DeviceScan::ExclusiveSum(work->for_pairs.at + work->layout.scratch_at, bytes, arrays->places,
                                           arrays->places, (uint32_t)arrays->runs, work->stream()));
    return read_sums(work);
}

template <class key, class value> loom_status insert_runs(insert_work *work)
{
    cuda_map_call *call = work->call;
    const loom__batch *batch = &call->batch;
    const loom__multi_view *view = work->view;
    cudaStream_t stream = work->stream();
    run_arrays *arrays = &work->arrays;
    const bool replace = batch->replace != 0;
    const int tight = replace || batch->values_needed == NULL; /* a build leaves no room behind lists */
    const bool builds = replace && !work->has_rows();          /* the directory, from keys and handles */
    auto settle = multi_is_chain(view) ? settle_kernel<true> : settle_kernel<false>;
    const key *run_keys;
    if (work->has_rows())
        RETURN_IF_FAILED(place_keys(work));
    if constexpr (is_wide<value>())
        RETURN_IF_FAILED((number_runs<key, uint32_t>(work, true, &run_keys)));
    else if (batch->status != NULL)
        RETURN_IF_FAILED((number_runs<key, uint32_t>(work, true, &run_keys)));
    else
        RETURN_IF_FAILED((number_runs<key, value>(work, false, &run_keys)));
    const unsigned blocks = multi_blocks(arrays->runs);
    if (builds) {
        work->totals = {};
        CUDA_TRY(cudaMemsetAsync(arrays->old, 0, arrays->runs * sizeof(uint64_t), stream));
        CUDA_TRY(cudaMemsetAsync(arrays->status, LOOM_OK, arrays->runs, stream));
    } else { /* a build of keys in rows has cleared the table */
        CUDA_TRY(cudaMemcpyAsync(&work->totals, view->lists, sizeof work->totals, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(fetch_handles(work, run_keys));
    }
    RETURN_IF_FAILED(plan_lists(work, tight));
    const heap_space space = {work->totals.used, view->room, tight};
    const bool fits = work->sums.taken <= view->room - space.used;
    if (!fits && !tight)
        return cancel<key>(work, run_keys);
    const uint64_t taken = fits ? work->sums.taken : view->room - space.used;
    bool refused = false; /* by the directory of a build: the places of these lists stay unused */
    if (builds) {
        settle<<<blocks, MULTI_THREADS, 0, stream>>>(*view, *arrays, space);
        CUDA_TRY(cudaGetLastError());
        RETURN_IF_FAILED(build_directory(work, run_keys, &refused));
        CUDA_TRY(cudaMemsetAsync(view->lists, 0, sizeof *view->lists, stream));
    }
    if (!builds || !fits || refused || work->sums.large > 0) /* room behind lists, or between them, goes into files */
        CUDA_TRY(cudaMemsetAsync(multi_value_at(view, space.used), 0, taken * view->value_bytes, stream));
    if (!builds) {
        settle<<<blocks, MULTI_THREADS, 0, stream>>>(*view, *arrays, space);
        CUDA_TRY(cudaGetLastError());
        if (work->sums.moving > 0)
            CUDA_TRY(move_lists<value>(work));
    }
    conclude_kernel<<<multi_sum_blocks(call->cuda, arrays->runs), MULTI_THREADS, 0, stream>>>(
        *arrays, run_keys, (key *)arrays->places, builds);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(store_pairs<value>(view, arrays, (uint8_t *)work->status.at, stream));
    if (!builds)
        CUDA_TRY(update_handles(work, run_keys));
    if (!fits)
        RETURN_IF_FAILED(erase_without_value<key>(work));
    if (batch->keys_refused != NULL) {
        RETURN_IF_FAILED(read_sums(work));
        *batch->keys_refused = work->sums.rows_refused;
    }
    /* The ticket comes last: a thread has at most one, and build_directory takes its own. */
    const cuda_workspace none = {};
    return cuda_with_ticket(call, &none, [&] {
        add_up_kernel<<<1, 1, 0, stream>>>(*view, arrays->sums, arrays->n, space.used + taken, call->counts());
        CUDA_TRY(cudaGetLastError());
        RETURN_IF_FAILED(cuda_take_array_home(&work->status, stream));
        return cuda_finish_call(call);
    });
}

loom_status insert_any(insert_work *work)
{
    const bool narrow_key = cuda_run_key_bytes(work->view) == 4, narrow_value = work->view->value_bytes == 4;
    if (!multi_has_numbers(work->view))
        return narrow_key ? insert_runs<uint32_t, wide_value>(work) : insert_runs<uint64_t, wide_value>(work);
    return narrow_key ? (narrow_value ? insert_runs<uint32_t, uint32_t>(work) : insert_runs<uint32_t, uint64_t>(work))
                      : (narrow_value ? insert_runs<uint64_t, uint32_t>(work) : insert_runs<uint64_t, uint64_t>(work));
}

cudaError_t lay_out(const loom__multi_view *view, uint64_t n, bool with_status, run_layout *layout)
{
    const bool by_position = with_status || !multi_has_numbers(view), has_rows = multi_has_rows(view) != 0;
    const uint32_t mate_bytes = by_position ? (uint32_t)sizeof(uint32_t) : (uint32_t)view->value_bytes;
    lay_out_runs(n, layout);
    return cuda_run_key_bytes(view) == 4 ? lay_out_pairs<uint32_t>(n, mate_bytes, has_rows, layout)
                                         : lay_out_pairs<uint64_t>(n, mate_bytes, has_rows, layout);
}

loom_status bring_arrays(insert_work *work)
{
    cuda_map_call *call = work->call;
    const uint64_t n = work->n();
    if (work->has_rows())
        RETURN_IF_FAILED(cuda_bring_array(call->cuda, "keys", call->batch.keys, n * call->key_bytes(), true,
                                          call->stream, &work->keys));
    if (call->batch.status == NULL && multi_has_numbers(work->view)) /* the sort copies the values */
        return LOOM_OK;
    RETURN_IF_FAILED(cuda_bring_array(call->cuda, "values", call->batch.values, n * work->view->value_bytes, true,
                                      call->stream, &work->values));
    return cuda_bring_array(call->cuda, "status", call->batch.status, n, false, call->stream, &work->status);
}

/* ---- calls ---- */

/* A batch without pairs. */
loom_status insert_nothing(cuda_map_call *call, const loom__multi_view *view)
{
    if (call->batch.replace)
        RETURN_IF_FAILED(cuda_multi_kernels.clear(&call->cuda->base, view, call->batch.stream));
    const cuda_workspace none = {};
    return cuda_with_ticket(call, &none, [&] { return cuda_finish_call(call); });
}

} // namespace

loom_status cuda_multi_insert(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    cuda_map_call call = cuda_multi_call_on(machine, view, batch, OP_KEEP, NULL);
    insert_work work = {};
    const uint64_t n = batch->n;
    work.call = &call;
    work.view = view;
    call.size = NULL; /* the directory's keys are counted here */
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    RETURN_ERROR_IF(n > CUDA_SORT_MOST, LOOM_UNSUPPORTED,
                    "n = %llu: the cuda machine inserts at most %llu pairs at once; cut the batch",
                    (unsigned long long)n, (unsigned long long)CUDA_SORT_MOST);
    if (batch->values_needed != NULL) {
        *batch->values_needed = batch->replace && n > view->room ? n : 0;
        if (*batch->values_needed > 0)
            return LOOM_OK;
    }
    if (batch->keys_refused != NULL)
        *batch->keys_refused = 0;
    if (n == 0)
        return insert_nothing(&call, view);
    bool done = false;
    if (!cuda_multi_is_wide(view))
        RETURN_IF_FAILED(cuda_multi_try_partition(&call, view, &done));
    if (done)
        return LOOM_OK;
    CUDA_TRY(lay_out(view, n, batch->status != NULL, &work.layout));
    const uint64_t most = work.layout.pair_bytes + work.layout.run_bytes;
    const bool lent = batch->workspace != NULL && batch->workspace_bytes >= most;
    work.for_pairs = cuda_take_workspace(machine, lent ? most : work.layout.pair_bytes, batch->stream, batch);
    loom_status status = work.for_pairs.at != NULL ? bring_arrays(&work) : no_memory(work.layout.pair_bytes);
    if (status == LOOM_OK) {
        loom__batch_goes(batch, LOOM_ROUTE_IN_ORDER);
        status = insert_any(&work);
    }
    if (status != LOOM_OK)
        cudaStreamSynchronize(call.stream); /* a copy of the caller's arrays may still run */
    cuda_give_workspace(machine, &work.for_pairs, batch->stream);
    cuda_give_workspace(machine, &work.for_runs, batch->stream);
    cuda_drop_array(call.cuda, &work.keys, call.stream);
    cuda_drop_array(call.cuda, &work.values, call.stream);
    cuda_drop_array(call.cuda, &work.status, call.stream);
    return status;
}

uint64_t cuda_multi_bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags,
                               int with_status)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    run_layout layout;
    cuda_device_scope scope((cuda_state *)machine);
    const loom__slot_kind pairs = slot_kind_of(cuda_run_key_bytes(view), (uint32_t)view->value_bytes);
    (void)flags;
    if (n == 0 || n > CUDA_SORT_MOST || scope.status != LOOM_OK ||
        lay_out(view, n, with_status != 0, &layout) != cudaSuccess)
        return 0;
    const uint64_t by_runs = layout.pair_bytes + layout.run_bytes;
    if (cuda_multi_is_wide(view))
        return by_runs;
    const uint64_t by_partition = cuda_multi_partition_bytes((const cuda_state *)machine, view, pairs, n);
    return by_runs > by_partition ? by_runs : by_partition;
}

/* As bring_arrays, with a status array. */
uint64_t cuda_multi_host_array_bytes(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    (void)machine;
    return n > CUDA_SORT_MOST ? 0 : n * ((multi_has_rows(view) ? multi_key_bytes(view) : 0) + view->value_bytes + 1);
}
