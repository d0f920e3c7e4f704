/* Erases keys with all their values, and single pairs.
 *
 * Keys: the handles are looked up first. The directory then erases the keys; of equal keys of the batch one gets OK,
 * and its handle tells how many pairs have gone.
 *
 * Pairs: the batch is sorted by key (cuda_sort.cuh). One thread block takes each run of equal keys, and erases its
 * pairs one after the other: all threads look for the first equal value, then move the values behind it, in a chain
 * piece by piece. So the values that stay keep their order, and of equal pairs the first one goes. Other runs have
 * other lists. Of values that are neither 4 nor 8 bytes wide, a thread compares whole values, and moves one byte of
 * each. Keys in rows are sorted by their slots. */
#include "engines/chain/chain_layout.h"
#include "machines/cuda/core/cuda_sort.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"

namespace
{

loom_status no_memory(uint64_t bytes)
{
    return loom__fail(LOOM_OUT_OF_MEMORY,
                      "%llu bytes of temporary memory could not be had; erase fewer keys at once, or free other memory",
                      (unsigned long long)bytes);
}

/* ---- keys ---- */

__global__ void __launch_bounds__(MULTI_THREADS)
    count_erased_kernel(const loom__multi_view view, const uint64_t *handles, const uint8_t *status, uint64_t n)
{
    uint64_t pairs = 0, in_heap = 0;
    for (uint64_t i = multi_item(); i < n; i += multi_items()) {
        const uint64_t count = status[i] == LOOM_OK ? list_count(handles[i]) : 0;
        pairs += count;
        in_heap += list_in_heap(handles[i]) ? count : 0;
    }
    multi_add(&view.lists->pairs, 0 - pairs);
    multi_add(&view.lists->in_heap, 0 - in_heap);
}

/* A call with memory for the handles and statuses of one launch. The work of two launches does not overlap. */
struct erase_call : cuda_map_call {
    unsigned char *memory; /* [most] handles, then [most] statuses */
};

cudaError_t launch_erase(const cuda_map_call *any_call, const cuda_batch *batch, cudaStream_t stream)
{
    const erase_call *call = static_cast<const erase_call *>(any_call);
    const loom__multi_view *view = static_cast<const loom__multi_view *>(call->view);
    cuda_batch look = cuda_directory_batch(call->cuda, batch->keys, batch->n), erase = *batch;
    look.found_values = call->memory;
    erase.status = batch->status != NULL ? batch->status : call->memory + call->most * sizeof(uint64_t);
    RETURN_IF_CUDA_FAILED(cuda_directory_launch(call->cuda, view, &look, OP_FIND, stream));
    RETURN_IF_CUDA_FAILED(cuda_directory_launch(call->cuda, view, &erase, OP_ERASE, stream));
    count_erased_kernel<<<multi_sum_blocks(call->cuda, batch->n), MULTI_THREADS, 0, stream>>>(
        *view, (const uint64_t *)call->memory, erase.status, batch->n);
    return cudaGetLastError();
}

/* ---- pairs ---- */

/* Different keys of the batch, with their handles. */
template <class key> struct pair_runs {
    const key *keys; /* [n] sorted */
    const uint32_t *positions;
    uint64_t n;
    key *run_keys;     /* [n] */
    uint32_t *begin;   /* [n] the first row of each run */
    uint64_t *handles; /* [n] of the runs */
    uint64_t *emptied; /* how many keys have no value any more; their keys follow each other in... */
    key *emptied_keys; /* ... [n] */
    uint32_t *runs;    /* how many there are */
};

/* Lists the runs, in no particular order. */
template <class key> __global__ void __launch_bounds__(MULTI_THREADS) list_runs_kernel(const pair_runs<key> work)
{
    const uint64_t i = multi_item();
    if (i >= work.n || !begins_run(work.keys, i))
        return;
    const uint32_t run = atomicAdd(work.runs, 1u);
    work.run_keys[run] = work.keys[i];
    work.begin[run] = (uint32_t)i;
}

/* The first number below `count` for which same(number) holds; `count` if there is none. All threads of the block call
 * this. */
template <class same_type> __device__ __forceinline__ uint64_t find_first(uint64_t count, same_type same)
{
    __shared__ uint32_t first;
    for (uint64_t begin = 0; begin < count; begin += MULTI_THREADS) {
        if (threadIdx.x == 0)
            first = UINT32_MAX;
        __syncthreads();
        if (begin + threadIdx.x < count && same(begin + threadIdx.x))
            atomicMin(&first, threadIdx.x);
        __syncthreads();
        const uint32_t found = first;
        __syncthreads();
        if (found != UINT32_MAX)
            return begin + found;
    }
    return count;
}

template <class value> __device__ __forceinline__ uint64_t find_value(const value *values, uint64_t count, value sought)
{
    return find_first(count, [&](uint64_t i) { return values[i] == sought; });
}

/* Moves the values behind `at` one place forward. All threads of the block call this. */
template <class value> __device__ __forceinline__ void close_gap(value *values, uint64_t count, uint64_t at)
{
    for (uint64_t begin = at; begin + 1 < count; begin += MULTI_THREADS) {
        const uint64_t to = begin + threadIdx.x;
        value moved = {};
        if (to + 1 < count)
            moved = values[to + 1];
        __syncthreads();
        if (to + 1 < count)
            values[to] = moved;
        __syncthreads();
    }
}

/* The two functions above, for lists of either engine. These take a list in the heap. Values of a chain are counted
 * from its oldest piece on. */
template <class value, bool chain>
__device__ __forceinline__ uint64_t find_in_list(const loom__multi_view &view, uint64_t handle, value sought)
{
    const value *heap = (const value *)view.heap;
    const uint64_t count = list_count(handle);
    if (!chain)
        return find_value(heap + list_first(handle), count, sought);
    uint64_t found = count;
    loom__list_piece piece = list_newest_piece(view.heap, sizeof(value), handle);
    for (;; piece = list_older_piece(view.heap, sizeof(value), &piece)) { /* ends at the oldest one */
        const uint64_t at = find_value(heap + piece.place, piece.count, sought);
        if (at < piece.count)
            found = piece.before + at;
        if (!piece.linked)
            return found;
    }
}

/* Returns the handle of the list without value `at`. In a chain the first value of each newer piece moves to the end of
 * the piece before. A newest piece without values leaves the chain. */
template <class value, bool chain>
__device__ __forceinline__ uint64_t remove_value(const loom__multi_view &view, uint64_t handle, uint64_t at)
{
    value *heap = (value *)view.heap;
    const uint64_t count = list_count(handle);
    if (!chain) {
        close_gap(heap + list_first(handle), count, at);
        return list_with_count(handle, count - 1);
    }
    loom__list_piece piece = list_newest_piece(view.heap, sizeof(value), handle);
    const loom__list_piece newest = piece;
    value first_of_newer = {};
    for (bool is_newest = true;; is_newest = false) { /* ends at the piece that has value `at` */
        value *values = heap + piece.place;
        const value first = values[0];
        __syncthreads();
        close_gap(values, piece.count, at > piece.before ? at - piece.before : 0);
        if (!is_newest && threadIdx.x == 0)
            values[piece.count - 1] = first_of_newer;
        __syncthreads();
        if (at >= piece.before)
            break;
        first_of_newer = first;
        piece = list_older_piece(view.heap, sizeof(value), &piece);
    }
    if (newest.count > 1 || !newest.linked)
        return list_with_count(handle, count - 1);
    piece = list_older_piece(view.heap, sizeof(value), &newest);
    return chain_handle_of_full(&piece);
}

/* What a list loses, for each width of its values. All threads of the block call these functions. */
template <class value, bool chain> struct narrow_pairs {
    const value *given; /* [n] of the batch */

    /* The number of the first value that is equal to the given one; the list's length if there is none. */
    __device__ __forceinline__ uint64_t find(const loom__multi_view &view, uint64_t handle, uint64_t position) const
    {
        const value sought = given[position];
        const uint64_t count = list_count(handle);
        if (list_in_heap(handle))
            return find_in_list<value, chain>(view, handle, sought);
        return count > 0 && (value)list_one_value(handle) == sought ? 0 : count;
    }
    __device__ __forceinline__ uint64_t remove(const loom__multi_view &view, uint64_t handle, uint64_t at) const
    {
        return remove_value<value, chain>(view, handle, at);
    }
};

/* Values that are neither 4 nor 8 bytes wide. They all lie in the heap. */
struct wide_pairs {
    const unsigned char *given;

    __device__ __forceinline__ uint64_t find(const loom__multi_view &view, uint64_t handle, uint64_t position) const
    {
        const uint64_t bytes = view.value_bytes, count = list_count(handle);
        const unsigned char *sought = given + position * bytes;
        uint64_t found = count;
        if (count == 0)
            return 0;
        loom__list_piece piece = list_newest_piece(view.heap, bytes, handle);
        for (;; piece = list_older_piece(view.heap, bytes, &piece)) { /* ends at the oldest one */
            const uint64_t at = find_first(piece.count, [&](uint64_t i) {
                const unsigned char *value = multi_value_at(&view, piece.place + i);
                uint64_t same = 0;
                while (same < bytes && value[same] == sought[same])
                    same++;
                return same == bytes;
            });
            if (at < piece.count)
                found = piece.before + at;
            if (!piece.linked)
                return found;
        }
    }

    /* Moves one byte of each value behind `at` one place forward; in a chain, into older pieces. */
    static __device__ __forceinline__ void close_column(const loom__multi_view &view, loom__list_piece piece,
                                                        uint64_t at, uint64_t column)
    {
        const uint64_t bytes = view.value_bytes;
        unsigned char first_of_newer = 0;
        for (bool is_newest = true;; is_newest = false) { /* ends at the piece that has value `at` */
            unsigned char *values = multi_value_at(&view, piece.place) + column;
            const unsigned char first = values[0];
            for (uint64_t i = at > piece.before ? at - piece.before : 0; i + 1 < piece.count; i++)
                values[i * bytes] = values[(i + 1) * bytes];
            if (!is_newest)
                values[(piece.count - 1) * bytes] = first_of_newer;
            if (at >= piece.before)
                return;
            first_of_newer = first;
            piece = list_older_piece(view.heap, bytes, &piece);
        }
    }

    __device__ __forceinline__ uint64_t remove(const loom__multi_view &view, uint64_t handle, uint64_t at) const
    {
        const loom__list_piece newest = list_newest_piece(view.heap, view.value_bytes, handle);
        for (uint64_t column = threadIdx.x; column < view.value_bytes; column += MULTI_THREADS)
            close_column(view, newest, at, column);
        __syncthreads();
        if (newest.count > 1 || !newest.linked)
            return list_with_count(handle, list_count(handle) - 1);
        const loom__list_piece piece = list_older_piece(view.heap, view.value_bytes, &newest);
        return chain_handle_of_full(&piece);
    }
};

template <class key, class pairs>
__global__ void __launch_bounds__(MULTI_THREADS)
    erase_pairs_kernel(const loom__multi_view view, const pair_runs<key> work, const pairs lists, uint8_t *status,
                       cuda_counts *counts)
{
    for (uint32_t run = blockIdx.x; run < *work.runs; run += gridDim.x) {
        uint64_t handle = work.handles[run], erased = 0, missed = 0;
        const uint64_t before = list_count(handle), begin = work.begin[run];
        for (uint64_t i = begin; i < work.n && work.keys[i] == work.keys[begin]; i++) {
            const uint32_t position = work.positions[i];
            const uint64_t count = list_count(handle), at = lists.find(view, handle, position);
            if (at < count)
                handle = list_in_heap(handle) ? lists.remove(view, handle, at) : list_with_count(handle, count - 1);
            erased += at < count;
            missed += at >= count;
            if (threadIdx.x == 0 && status != NULL)
                status[position] = at < count ? LOOM_OK : LOOM_NOT_FOUND;
        }
        if (threadIdx.x == 0) {
            cuda_counts *to = counts + blockIdx.x % COUNT_COPIES;
            atomicAdd(&to->ok, (unsigned long long)erased);
            atomicAdd(&to->not_found, (unsigned long long)missed);
            atomicAdd((unsigned long long *)&view.lists->pairs, 0 - (unsigned long long)erased);
            if (list_in_heap(handle))
                atomicAdd((unsigned long long *)&view.lists->in_heap, 0 - (unsigned long long)erased);
            work.handles[run] = handle;
            if (before > 0 && erased == before) {
                work.emptied_keys[atomicAdd((unsigned long long *)work.emptied, 1ull)] = work.run_keys[run];
                atomicAdd((unsigned long long *)&view.directory.totals->size, ~0ull); /* minus one */
            }
        }
        __syncthreads();
    }
}

struct pairs_work {
    cuda_map_call *call;
    const loom__multi_view *view;
    cuda_device_array keys, values, status; /* keys: those in rows */
    cuda_workspace own;
    uint64_t keys_at[2], positions_at[2], run_keys_at, begin_at, handles_at, slots_at, scratch_at, scratch_bytes;
};

enum { COUNTERS_BYTES = 256 };

loom_status lay_out(pairs_work *work, uint64_t *bytes)
{
    const uint64_t n = work->call->batch.n, key_bytes = cuda_run_key_bytes(work->view);
    size_t sort = 0;
    cuda_layout all = {COUNTERS_BYTES};
    CUDA_TRY(cuda_sort_bytes((uint32_t)key_bytes, sizeof(uint32_t), n, &sort));
    for (int i = 0; i < 2; i++) {
        work->keys_at[i] = all.add(n * key_bytes);
        work->positions_at[i] = all.add(n * sizeof(uint32_t));
    }
    work->run_keys_at = all.add(n * key_bytes);
    work->begin_at = all.add(n * sizeof(uint32_t));
    work->handles_at = all.add(n * sizeof(uint64_t));
    work->slots_at = all.add(multi_has_rows(work->view) ? n * sizeof(uint64_t) : 0);
    work->scratch_bytes = sort;
    work->scratch_at = all.add(sort);
    *bytes = all.bytes;
    return LOOM_OK;
}

/* Steps on the directory, for the keys of runs or, if they lie in rows, for their slots. */
cudaError_t find_handles(const pairs_work *work, const void *keys, uint64_t n, uint64_t *handles)
{
    const cuda_map_call *call = work->call;
    cuda_batch batch = cuda_directory_batch(call->cuda, keys, n);
    batch.found_values = handles;
    if (multi_has_rows(work->view))
        return cuda_read_handles(work->view, (const uint64_t *)keys, n, handles, NULL, call->stream);
    return cuda_open_launch(call->cuda, &work->view->directory, &batch, OP_FIND, NULL, call->stream);
}

cudaError_t update_handles(const pairs_work *work, const void *keys, uint64_t n, const uint64_t *handles)
{
    const cuda_map_call *call = work->call;
    cuda_batch batch = cuda_directory_batch(call->cuda, keys, n);
    batch.values = handles;
    if (multi_has_rows(work->view))
        return cuda_write_handles(work->view, (const uint64_t *)keys, n, handles, call->stream);
    return cuda_open_launch(call->cuda, &work->view->directory, &batch, OP_UPDATE, NULL, call->stream);
}

cudaError_t erase_emptied(const pairs_work *work, const void *keys, uint64_t n)
{
    const cuda_map_call *call = work->call;
    const cuda_batch batch = cuda_directory_batch(call->cuda, keys, n);
    if (multi_has_rows(work->view))
        return cuda_erase_located(work->view, (const uint64_t *)keys, n, call->stream);
    return cuda_open_launch(call->cuda, &work->view->directory, &batch, OP_ERASE, NULL, call->stream);
}

template <class key, class pairs> loom_status erase_runs(pairs_work *work)
{
    cuda_map_call *call = work->call;
    const loom__multi_view *view = work->view;
    cudaStream_t stream = call->stream;
    const uint64_t n = call->batch.n;
    unsigned char *at = work->own.at;
    const cuda_sort_buffers<key, uint32_t> buffers = {
        {(key *)(at + work->keys_at[0]), (key *)(at + work->keys_at[1])},
        {(uint32_t *)(at + work->positions_at[0]), (uint32_t *)(at + work->positions_at[1])},
        at + work->scratch_at,
        (size_t)work->scratch_bytes};
    cuda_sorted<key, uint32_t> sorted;
    uint64_t counters[2]; /* runs, emptied */
    const void *keys = call->batch.keys;
    CUDA_TRY(cudaMemsetAsync(at, 0, COUNTERS_BYTES, stream));
    if (multi_has_rows(view)) {
        keys = at + work->slots_at;
        CUDA_TRY(cuda_locate_keys(view, work->keys.at, n, (uint64_t *)(at + work->slots_at), stream));
    }
    RETURN_IF_FAILED(cuda_sort_keys(keys, NULL, n, buffers, stream, &sorted));
    const pair_runs<key> runs = {sorted.keys,
                                 sorted.mates,
                                 n,
                                 (key *)(at + work->run_keys_at),
                                 (uint32_t *)(at + work->begin_at),
                                 (uint64_t *)(at + work->handles_at),
                                 (uint64_t *)at + 1,
                                 sorted.free_keys,
                                 (uint32_t *)at};
    list_runs_kernel<<<multi_blocks(n), MULTI_THREADS, 0, stream>>>(runs);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemcpyAsync(counters, at, sizeof counters, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    CUDA_TRY(find_handles(work, runs.run_keys, counters[0], runs.handles));
    const uint64_t most = (uint64_t)call->cuda->multiprocessors * 8;
    erase_pairs_kernel<key, pairs><<<(unsigned)(counters[0] < most ? counters[0] : most), MULTI_THREADS, 0, stream>>>(
        *view, runs, pairs{static_cast<decltype(pairs::given)>(work->values.at)}, (uint8_t *)work->status.at,
        call->counts());
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(update_handles(work, runs.run_keys, counters[0], runs.handles));
    CUDA_TRY(cudaMemcpyAsync(counters, at, sizeof counters, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    if (counters[1] > 0)
        CUDA_TRY(erase_emptied(work, runs.emptied_keys, counters[1]));
    RETURN_IF_FAILED(cuda_take_array_home(&work->status, stream));
    return cuda_finish_call(call);
}

template <class key, class value> loom_status erase_narrow(pairs_work *work)
{
    return multi_is_chain(work->view) ? erase_runs<key, narrow_pairs<value, true>>(work)
                                      : erase_runs<key, narrow_pairs<value, false>>(work);
}

loom_status erase_pairs(pairs_work *work)
{
    const bool narrow_key = cuda_run_key_bytes(work->view) == 4, narrow_value = work->view->value_bytes == 4;
    if (!multi_has_numbers(work->view))
        return narrow_key ? erase_runs<uint32_t, wide_pairs>(work) : erase_runs<uint64_t, wide_pairs>(work);
    return narrow_key
               ? (narrow_value ? erase_narrow<uint32_t, uint32_t>(work) : erase_narrow<uint32_t, uint64_t>(work))
               : (narrow_value ? erase_narrow<uint64_t, uint32_t>(work) : erase_narrow<uint64_t, uint64_t>(work));
}

loom_status bring_arrays(pairs_work *work)
{
    cuda_map_call *call = work->call;
    const uint64_t n = call->batch.n;
    if (multi_has_rows(work->view))
        RETURN_IF_FAILED(cuda_bring_array(call->cuda, "keys", call->batch.keys, n * call->key_bytes(), true,
                                          call->stream, &work->keys));
    RETURN_IF_FAILED(cuda_bring_array(call->cuda, "values", call->batch.values, n * work->view->value_bytes, true,
                                      call->stream, &work->values));
    return cuda_bring_array(call->cuda, "status", call->batch.status, n, false, call->stream, &work->status);
}

} // namespace

loom_status cuda_multi_erase(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    const uint64_t most = 1 << 22; /* keys of one launch */
    erase_call call = {cuda_multi_call_on(machine, view, batch, OP_ERASE, launch_erase), NULL};
    call.most = batch->n < most ? batch->n : most;
    call.most += call.most == 0;
    const uint64_t bytes = call.most * (sizeof(uint64_t) + 1);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    const cuda_workspace own = cuda_take_workspace(machine, bytes, batch->stream, batch);
    if (own.at == NULL)
        return no_memory(bytes);
    call.memory = own.at;
    return cuda_with_ticket(&call, &own, [&] {
        RETURN_IF_FAILED(cuda_run_items(&call, true));
        return cuda_finish_call(&call);
    });
}

loom_status cuda_multi_erase_pairs(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    cuda_map_call call = cuda_multi_call_on(machine, view, batch, OP_ERASE, NULL);
    pairs_work work = {};
    uint64_t bytes = 0;
    work.call = &call;
    work.view = view;
    call.size = NULL; /* the directory's keys are counted here */
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    RETURN_ERROR_IF(batch->n > CUDA_SORT_MOST, LOOM_UNSUPPORTED,
                    "n = %llu: the cuda machine erases at most %llu pairs at once; cut the batch",
                    (unsigned long long)batch->n, (unsigned long long)CUDA_SORT_MOST);
    if (batch->n == 0)
        return cuda_with_ticket(&call, &work.own, [&] { return cuda_finish_call(&call); });
    RETURN_IF_FAILED(lay_out(&work, &bytes));
    work.own = cuda_take_workspace(machine, bytes, batch->stream, batch);
    loom_status status = work.own.at != NULL ? bring_arrays(&work) : no_memory(bytes);
    if (status == LOOM_OK)
        status = cuda_with_ticket(&call, &work.own, [&] { return erase_pairs(&work); });
    else
        cuda_give_workspace(machine, &work.own, batch->stream);
    cuda_drop_array(call.cuda, &work.keys, call.stream);
    cuda_drop_array(call.cuda, &work.values, call.stream);
    cuda_drop_array(call.cuda, &work.status, call.stream);
    return status;
}
