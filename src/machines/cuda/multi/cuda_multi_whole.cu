/* Whole multimaps: survey, refill, retrieve. Each works on *slots* of the directory, counted over all partitions and
 * buckets. */
#include "engines/chain/chain_check.h"
#include "machines/cuda/core/cuda_copy_wide.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/multi/cuda_multi.cuh"

#include <cub/device/device_scan.cuh>

namespace
{

/* The slots of a directory. */
struct directory_slots {
    loom__table_slots table;

    __host__ __device__ __forceinline__ uint64_t count() const
    {
        return (uint64_t)table.partitions * table.buckets * table.slots;
    }
    /* Whether the slot holds a key. */
    __device__ __forceinline__ bool holds(uint64_t slot, uint64_t *key, uint64_t *handle) const
    {
        const uint64_t bucket = slot / table.slots;
        return loom__slot_holds(&table, (uint32_t)(bucket / table.buckets), (uint32_t)(bucket % table.buckets),
                                (uint32_t)(slot % table.slots), key, handle) != 0;
    }
    __device__ __forceinline__ uint64_t handle(uint64_t slot) const
    {
        uint64_t key, handle;
        return holds(slot, &key, &handle) ? handle : 0;
    }
    __device__ __forceinline__ void set_handle(uint64_t slot, uint64_t handle) const
    {
        const uint64_t bucket = slot / table.slots;
        loom__slot_put(loom__slot_value_at(&table, (uint32_t)(bucket / table.buckets),
                                           (uint32_t)(bucket % table.buckets), (uint32_t)(slot % table.slots)),
                       sizeof handle, handle);
    }
};

directory_slots slots_of(const loom__multi_view *view)
{
    return {multi_table_slots(view)};
}

/* ---- survey ---- */

struct list_sums {
    uint64_t pairs, in_heap, heap_end, longest, lowest_bad_inverted;
};

/* Marks values as taken; a lane marks every 32nd word. Returns whether one of this lane's was taken before. */
__device__ __forceinline__ bool take_values(uint64_t *taken, uint64_t first, uint64_t count, uint32_t lane)
{
    const uint64_t last_word = (first + count - 1) / 64;
    bool before = false;
    for (uint64_t word = first / 64 + lane; word <= last_word; word += 32) {
        const uint64_t begin = word * 64 > first ? word * 64 : first;
        const uint64_t end = (word + 1) * 64 < first + count ? (word + 1) * 64 : first + count;
        const uint64_t ones = end - begin == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (end - begin)) - 1;
        const uint64_t mask = ones << begin % 64;
        before |= (atomicOr((unsigned long long *)&taken[word], (unsigned long long)mask) & mask) != 0;
    }
    return before;
}

/* What a list takes of the heap at one place. */
struct taken_piece {
    uint64_t first, count; /* 0: nothing */
};

/* A warp looks at 32 slots. Its lanes follow their chains together, and the warp marks one piece after the other. */
__global__ void __launch_bounds__(MULTI_THREADS)
    survey_kernel(const loom__multi_view view, const directory_slots slots, uint64_t *taken, list_sums *sums)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t slot = multi_item(), used = view.lists->used;
    const uint64_t handle = slot < slots.count() ? slots.handle(slot) : 0;
    uint64_t key, unused;
    const bool holds = slot < slots.count() && slots.holds(slot, &key, &unused);
    const bool chain = multi_is_chain(&view) && list_in_heap(handle);
    bool bad = holds && !(chain ? multi_is_sound_kind(&view, handle) && list_count(handle) <= view.most
                                : multi_is_sound(&view, used, handle));
    const bool counts = holds && !bad, in_heap = counts && list_in_heap(handle);
    const uint64_t count = counts ? list_count(handle) : 0;
    chain_check walk = {};
    taken_piece piece = {};
    if (in_heap && chain)
        walk = chain_check_begin(handle);
    else if (in_heap)
        piece = {list_first(handle), list_capacity(handle, count)};
    uint64_t heap_end = piece.first + piece.count;
    do { /* as often as the longest chain of the warp has pieces */
        if (walk.end > 0 && !chain_check_piece(&view, used, handle, &walk, &piece.first, &piece.count)) {
            bad = true;
            piece = {};
            walk.end = 0;
        }
        heap_end = heap_end > piece.first + piece.count ? heap_end : piece.first + piece.count;
        uint32_t with_pieces = __ballot_sync(0xffffffffu, taken != NULL && piece.count > 0);
        for (; with_pieces != 0; with_pieces &= with_pieces - 1) {
            const int owner = __ffs(with_pieces) - 1;
            const uint64_t begin = __shfl_sync(0xffffffffu, piece.first, owner),
                           all = __shfl_sync(0xffffffffu, piece.count, owner);
            const bool overlaps = __any_sync(0xffffffffu, take_values(taken, begin, all, lane));
            bad |= overlaps && lane == owner;
        }
        piece = {};
        walk.end = bad ? 0 : walk.end;
    } while (__any_sync(0xffffffffu, walk.end > 0));
    multi_add(&sums->pairs, count);
    multi_add(&sums->in_heap, in_heap ? count : 0);
    if (in_heap)
        keep_larger(&sums->heap_end, heap_end);
    if (counts)
        keep_larger(&sums->longest, count);
    if (bad)
        keep_larger(&sums->lowest_bad_inverted, ~(slot / slots.table.slots));
}

/* ---- refill ---- */

/* places[slot]: what the list takes in a packed heap. A LARGE list begins at a multiple of a unit. */
__global__ void __launch_bounds__(MULTI_THREADS)
    measure_kernel(const directory_slots slots, uint64_t *places, uint64_t *large)
{
    const uint64_t slot = multi_item();
    if (slot > slots.count())
        return;
    const uint64_t handle = slot < slots.count() ? slots.handle(slot) : 0;
    const uint64_t count = list_in_heap(handle) ? list_count(handle) : 0;
    const bool is_large = list_kind_for(count) == LIST_LARGE;
    places[slot] = count + (is_large ? LIST_LARGE_UNIT - 1 : 0);
    if (is_large)
        *large = 1;
}

template <class value_type> struct packed_lists {
    typedef value_type value;
    directory_slots slots;     /* of the new table, with handles of the old one */
    const uint64_t *places;    /* in the new heap */
    const unsigned char *heap; /* the old one */
    value *to;

    __device__ __forceinline__ uint64_t place(uint64_t slot, uint64_t handle) const
    {
        return places[slot] + multi_padding(list_kind_for(list_count(handle)), places[slot]);
    }
    __device__ __forceinline__ copied_list list(uint64_t slot) const
    {
        const uint64_t handle = slots.handle(slot);
        if (!list_in_heap(handle))
            return {};
        return {handle, 0, list_count(handle), place(slot, handle)};
    }
    __device__ __forceinline__ void put(uint64_t, uint64_t at, value one) const
    {
        to[at] = one;
    }
};

/* The same for values that are neither 4 nor 8 bytes wide. */
struct packed_wide_lists {
    packed_lists<uint32_t> lists; /* its `to` is not used */
    const unsigned char *heap;
    unsigned char *to;

    __device__ __forceinline__ copied_list list(uint64_t slot) const
    {
        return lists.list(slot);
    }
};

template <class value> __global__ void __launch_bounds__(MULTI_THREADS) rewrite_kernel(const packed_lists<value> lists)
{
    const uint64_t slot = multi_item();
    if (slot >= lists.slots.count())
        return;
    const uint64_t handle = lists.slots.handle(slot), count = list_count(handle);
    if (list_in_heap(handle))
        lists.slots.set_handle(slot, list_make(list_kind_for(count), lists.place(slot, handle), count, 1));
}

struct pack_work {
    cuda_state *cuda;
    const loom__multi_view *from, *to;
    directory_slots slots;
    cuda_workspace own;
    uint64_t large_at, queue_at, scan_at, scan_bytes;
    cudaStream_t stream;
};

template <class value> loom_status copy_packed(const pack_work *work)
{
    const packed_lists<value> lists = {work->slots, (const uint64_t *)work->own.at, work->from->heap,
                                       (value *)work->to->heap};
    const uint64_t slots = work->slots.count();
    CUDA_TRY(copy_lists(work->cuda, lists, multi_is_chain(work->from) != 0, slots,
                        (long_lists *)(work->own.at + work->queue_at), work->stream));
    rewrite_kernel<<<multi_blocks(slots), MULTI_THREADS, 0, work->stream>>>(lists);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

loom_status copy_wide_packed(const pack_work *work)
{
    const packed_lists<uint32_t> lists = {work->slots, (const uint64_t *)work->own.at, work->from->heap, NULL};
    const packed_wide_lists wide = {lists, work->from->heap, work->to->heap};
    const uint64_t slots = work->slots.count();
    CUDA_TRY(copy_wide_lists(work->cuda, wide, slots, (uint32_t)work->to->value_bytes,
                             (long_lists *)(work->own.at + work->queue_at), work->stream));
    rewrite_kernel<<<multi_blocks(slots), MULTI_THREADS, 0, work->stream>>>(lists);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

loom_status pack(pack_work *work, uint64_t *refused)
{
    const loom__multi_view *to = work->to;
    const uint64_t slots = work->slots.count();
    uint64_t *places = (uint64_t *)work->own.at, *large = (uint64_t *)(work->own.at + work->large_at);
    loom__multi_totals totals;
    uint64_t used, has_large;
    size_t bytes = work->scan_bytes;
    cudaStream_t stream = work->stream;
    CUDA_TRY(cudaMemsetAsync(large, 0, sizeof *large, stream));
    measure_kernel<<<multi_blocks(slots + 1), MULTI_THREADS, 0, stream>>>(work->slots, places, large);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cub::DeviceScan::ExclusiveSum(work->own.at + work->scan_at, bytes, places, places, slots + 1, stream));
    CUDA_TRY(cudaMemcpyAsync(&used, places + slots, sizeof used, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaMemcpyAsync(&has_large, large, sizeof has_large, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaMemcpyAsync(&totals, work->from->lists, sizeof totals, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    *refused = used > to->room;
    if (*refused)
        return LOOM_OK;
    if (has_large) /* space between lists goes into files */
        CUDA_TRY(cudaMemsetAsync(to->heap, 0, used * to->value_bytes, stream));
    RETURN_IF_FAILED(to->value_bytes == 4   ? copy_packed<uint32_t>(work)
                     : to->value_bytes == 8 ? copy_packed<uint64_t>(work)
                                            : copy_wide_packed(work));
    totals.used = used;
    CUDA_TRY(cudaMemcpyAsync(to->lists, &totals, sizeof totals, cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

/* ---- retrieve ---- */

/* Some slots of a directory, from `begin` on. The first list begins with its value `skipped`. */
struct slot_window {
    directory_slots slots;
    uint64_t begin, count, skipped;

    __device__ __forceinline__ uint64_t left_of(uint64_t i, uint64_t handle) const
    {
        const uint64_t all = list_count(handle), skips = i == 0 ? skipped : 0;
        return all > skips ? all - skips : 0;
    }
};

/* offsets[i]: pairs of slot i of the window; offsets[count] = 0. */
__global__ void __launch_bounds__(MULTI_THREADS) count_kernel(const slot_window window, uint64_t *offsets)
{
    const uint64_t i = multi_item();
    if (i <= window.count)
        offsets[i] = i < window.count ? window.left_of(i, window.slots.handle(window.begin + i)) : 0;
}

template <class key, class value_type> struct retrieved_lists {
    typedef value_type value;
    slot_window window;
    const unsigned char *heap;
    const uint64_t *offsets;
    uint64_t room;
    key *keys;     /* NULL: not wanted */
    value *values; /* likewise */

    __device__ __forceinline__ copied_list list(uint64_t i) const
    {
        const uint64_t handle = window.slots.handle(window.begin + i), first = offsets[i];
        const uint64_t left = window.left_of(i, handle), fits = first < room ? room - first : 0;
        return {handle, i == 0 ? window.skipped : 0, left < fits ? left : fits, first};
    }
    __device__ __forceinline__ void put(uint64_t i, uint64_t at, value one) const
    {
        uint64_t own, handle;
        if (keys != NULL && window.slots.holds(window.begin + i, &own, &handle))
            keys[at] = (key)own;
        if (values != NULL)
            values[at] = one;
    }
};

/* The same for values that are neither 4 nor 8 bytes wide, without keys. */
struct retrieved_wide_lists {
    retrieved_lists<uint32_t, uint32_t> lists; /* its arrays are not used */
    const unsigned char *heap;
    unsigned char *to;

    __device__ __forceinline__ copied_list list(uint64_t i) const
    {
        return lists.list(i);
    }
};

/* Keys of retrieved lists, of any width, as often as their values come. They lie in rows, or are numbers. */
struct retrieved_keys {
    retrieved_lists<uint32_t, uint32_t> lists; /* its arrays are not used */
    unsigned char *to;
    uint32_t bytes;
    bool in_rows;

    /* One of `lanes` lanes copies its share of the key of list i. Word j of the copies is word j % words of the key. */
    template <class word> __device__ __forceinline__ void copy(uint64_t i, uint64_t lane, uint64_t lanes) const
    {
        const loom__table_slots *table = &lists.window.slots.table;
        const uint64_t slot = lists.window.begin + i, bucket = slot / table->slots;
        const uint32_t words = bytes / sizeof(word), step = (uint32_t)(lanes % words);
        uint64_t number, handle;
        if (!lists.window.slots.holds(slot, &number, &handle))
            return;
        const copied_list list = lists.list(i);
        const word *row =
            (const word *)loom__slot_row_key(table, (uint32_t)(bucket / table->buckets),
                                             (uint32_t)(bucket % table->buckets), (uint32_t)(slot % table->slots));
        word *copies = (word *)to + list.to * words, own = {};
        if constexpr (sizeof(word) == 4 || sizeof(word) == 8)
            own = (word)number;
        uint32_t part = (uint32_t)(lane % words);
        for (uint64_t at = lane; at < list.count * words; at += lanes) {
            copies[at] = in_rows ? row[part] : own;
            part += step;
            part -= part >= words ? words : 0;
        }
    }
};

/* A warp has one list. Those with long copies are queued, and copied by all thread blocks then. */
template <class word>
__global__ void __launch_bounds__(MULTI_THREADS) copy_keys_kernel(const retrieved_keys keys, long_lists *queue)
{
    const uint64_t i = multi_item() / 32, lane = threadIdx.x % 32;
    uint32_t place = long_lists::ROOM;
    if (i >= keys.lists.window.count)
        return;
    if (keys.lists.list(i).count * keys.bytes > WIDE_LONG) {
        if (lane == 0)
            place = atomicAdd(&queue->count, 1u);
        place = __shfl_sync(0xffffffffu, place, 0);
    }
    if (place >= long_lists::ROOM)
        keys.copy<word>(i, lane, 32);
    else if (lane == 0)
        queue->list[place] = i;
}

template <class word>
__global__ void __launch_bounds__(MULTI_THREADS)
    copy_long_keys_kernel(const retrieved_keys keys, const long_lists *queue)
{
    const uint32_t room = long_lists::ROOM, count = queue->count < room ? queue->count : room;
    for (uint32_t i = 0; i < count; i++)
        keys.copy<word>(queue->list[i], multi_item(), (uint64_t)gridDim.x * MULTI_THREADS);
}

template <class word>
cudaError_t copy_keys_by(const cuda_state *cuda, const retrieved_keys &keys, long_lists *queue, cudaStream_t stream)
{
    const unsigned blocks = multi_blocks(keys.lists.window.count * 32);
    copy_keys_kernel<word><<<blocks, MULTI_THREADS, 0, stream>>>(keys, queue);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    copy_long_keys_kernel<word>
        <<<(unsigned)cuda->multiprocessors * WIDE_BLOCKS, MULTI_THREADS, 0, stream>>>(keys, queue);
    return cudaGetLastError();
}

/* `queue` is on the device, and need not be empty. */
cudaError_t copy_keys(const cuda_state *cuda, const retrieved_keys &keys, long_lists *queue, cudaStream_t stream)
{
    const loom__table_slots *table = &keys.lists.window.slots.table;
    const uint64_t together = (uintptr_t)keys.to | (uintptr_t)table->rows | table->row_key_stride | keys.bytes;
    const uint32_t word = keys.in_rows ? loom__widest_word(together) : keys.bytes; /* numbers are aligned */
    RETURN_IF_CUDA_FAILED(empty_queue(queue, stream));
    auto copy = word == 16  ? copy_keys_by<uint4>
                : word == 8 ? copy_keys_by<uint64_t>
                : word == 4 ? copy_keys_by<uint32_t>
                            : copy_keys_by<uint8_t>;
    return copy(cuda, keys, queue, stream);
}

struct retrieve_end {
    uint64_t slot, value; /* of the window: where the pairs without room begin */
};

__global__ void __launch_bounds__(MULTI_THREADS)
    find_end_kernel(const slot_window window, const uint64_t *offsets, uint64_t room, retrieve_end *end)
{
    const uint64_t i = multi_item();
    if (i < window.count && offsets[i] <= room && room < offsets[i + 1])
        *end = {i, room - offsets[i] + (i == 0 ? window.skipped : 0)};
}

cudaError_t scan_bytes_for(uint64_t n, uint64_t *bytes)
{
    size_t needed = 0;
    const cudaError_t error = cub::DeviceScan::ExclusiveSum(NULL, needed, (uint64_t *)NULL, (uint64_t *)NULL, n + 1);
    *bytes = needed;
    return error;
}

struct retrieve_work {
    cuda_state *cuda;
    const loom__multi_view *view;
    directory_slots slots;
    cuda_workspace own;
    uint64_t window; /* slots for which `own` has room */
    uint64_t end_at, queue_at, scan_at, scan_bytes;
    cudaStream_t stream;
};

template <class key, class value>
cudaError_t copy_window(const retrieve_work *work, const slot_window &window, void *keys, void *values, uint64_t room)
{
    const retrieved_lists<key, value> lists = {window, work->view->heap, (const uint64_t *)work->own.at,
                                               room,   (key *)keys,      (value *)values};
    return copy_lists(work->cuda, lists, multi_is_chain(work->view) != 0, window.count,
                      (long_lists *)(work->own.at + work->queue_at), work->stream);
}

/* The same for tables whose keys or values are neither 4 nor 8 bytes wide. */
cudaError_t copy_wide_window(const retrieve_work *work, const slot_window &window, void *keys, void *values,
                             uint64_t room)
{
    const loom__multi_view *view = work->view;
    const retrieved_lists<uint32_t, uint32_t> lists = {window, view->heap, (const uint64_t *)work->own.at,
                                                       room,   NULL,       NULL};
    const retrieved_wide_lists wide = {lists, view->heap, (unsigned char *)values};
    long_lists *queue = (long_lists *)(work->own.at + work->queue_at);
    const loom__table_slots *table = &window.slots.table;
    const retrieved_keys all_keys = {lists, (unsigned char *)keys, loom__slots_key_bytes(table),
                                     loom__slots_have_handles_in_rows(table) != 0};
    if (keys != NULL)
        RETURN_IF_CUDA_FAILED(copy_keys(work->cuda, all_keys, queue, work->stream));
    if (values == NULL)
        return cudaSuccess;
    return view->value_bytes == 4 ? copy_window<uint32_t, uint32_t>(work, window, NULL, values, room)
           : view->value_bytes == 8
               ? copy_window<uint32_t, uint64_t>(work, window, NULL, values, room)
               : copy_wide_lists(work->cuda, wide, window.count, (uint32_t)view->value_bytes, queue, work->stream);
}

/* Takes memory for a window of slots. */
loom_status take_window(retrieve_work *work, uint64_t slots)
{
    work->end_at = cuda_aligned((slots + 1) * sizeof(uint64_t));
    work->queue_at = work->end_at + cuda_aligned(sizeof(retrieve_end));
    work->scan_at = work->queue_at + cuda_aligned(sizeof(long_lists));
    CUDA_TRY(scan_bytes_for(slots, &work->scan_bytes));
    const uint64_t bytes = work->scan_at + work->scan_bytes;
    work->window = slots;
    work->own = cuda_take_workspace(&work->cuda->base, bytes, (loom_stream)work->stream, NULL);
    RETURN_ERROR_IF(work->own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; free other memory", (unsigned long long)bytes);
    return LOOM_OK;
}

/* Copies pairs of one window into arrays on the device, and moves the position on. */
loom_status retrieve_window(const retrieve_work *work, loom__position *position, void *keys, void *values,
                            uint64_t room, uint64_t *got)
{
    cudaStream_t stream = work->stream;
    const uint32_t slots = work->slots.table.slots;
    const uint64_t begin = position->bucket * slots + position->slot, left = work->slots.count() - begin;
    const slot_window window = {work->slots, begin, left < work->window ? left : work->window, position->value};
    uint64_t *offsets = (uint64_t *)work->own.at, total;
    retrieve_end *end = (retrieve_end *)(work->own.at + work->end_at), reached = {window.count, 0};
    size_t bytes = work->scan_bytes;
    count_kernel<<<multi_blocks(window.count + 1), MULTI_THREADS, 0, stream>>>(window, offsets);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(
        cub::DeviceScan::ExclusiveSum(work->own.at + work->scan_at, bytes, offsets, offsets, window.count + 1, stream));
    const bool narrow_key = slot_key_bytes(work->slots.table.kind) == 4, narrow = work->view->value_bytes == 4;
    auto copy = narrow_key ? (narrow ? copy_window<uint32_t, uint32_t> : copy_window<uint32_t, uint64_t>)
                           : (narrow ? copy_window<uint64_t, uint32_t> : copy_window<uint64_t, uint64_t>);
    if (cuda_multi_is_wide(work->view))
        copy = copy_wide_window;
    CUDA_TRY(copy(work, window, keys, values, room));
    CUDA_TRY(cudaMemcpyAsync(&total, offsets + window.count, sizeof total, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    if (total > room) {
        find_end_kernel<<<multi_blocks(window.count), MULTI_THREADS, 0, stream>>>(window, offsets, room, end);
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cudaMemcpyAsync(&reached, end, sizeof reached, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    *got = total < room ? total : room;
    position->bucket = (begin + reached.slot) / slots;
    position->slot = (uint32_t)((begin + reached.slot) % slots);
    position->value = reached.value;
    return LOOM_OK;
}

/* Copies into arrays on the device. */
loom_status retrieve_here(retrieve_work *work, loom__position *position, void *keys, void *values, uint64_t room,
                          uint64_t *got)
{
    const uint64_t key_bytes = loom__slots_key_bytes(&work->slots.table), value_bytes = work->view->value_bytes;
    const uint64_t buckets = (uint64_t)work->slots.table.partitions * work->slots.table.buckets;
    *got = 0;
    while (position->bucket < buckets && *got < room) { /* each round passes a window or ends */
        uint64_t now;
        RETURN_IF_FAILED(retrieve_window(work, position, cuda_element(keys, *got, key_bytes),
                                         cuda_element(values, *got, value_bytes), room - *got, &now));
        *got += now;
    }
    return LOOM_OK;
}

} // namespace

loom_status cuda_multi_survey(loom__machine *machine, const void *any_view, loom__survey *found, loom_stream stream)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    const directory_slots slots = slots_of(view);
    loom__multi_totals totals;
    list_sums sums;
    RETURN_IF_FAILED(cuda_open_survey(machine, multi_directory(view), found, stream));
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(&totals, view->lists, sizeof totals, cudaMemcpyDeviceToHost, (cudaStream_t)stream));
    CUDA_TRY(cudaStreamSynchronize((cudaStream_t)stream));
    const uint64_t bytes = (totals.used / 64 + 1) * sizeof(uint64_t);
    const cuda_workspace taken = cuda_take_workspace(machine, bytes, stream, NULL); /* NULL: lists may overlap */
    const loom_status status =
        cuda_sum_up(machine, &sums, stream, [&](const cuda_stage *, list_sums *on_device, cudaStream_t in) {
            if (taken.at != NULL)
                CUDA_TRY(cudaMemsetAsync(taken.at, 0, bytes, in));
            survey_kernel<<<multi_blocks(slots.count()), MULTI_THREADS, 0, in>>>(*view, slots, (uint64_t *)taken.at,
                                                                                 on_device);
            return LOOM_OK;
        });
    cuda_give_workspace(machine, &taken, stream);
    RETURN_IF_FAILED(status);
    found->overlaps_unknown = taken.at == NULL;
    found->pairs = sums.pairs;
    found->in_heap = sums.in_heap;
    found->heap_used = totals.used;
    found->heap_end = sums.heap_end;
    found->longest_list = sums.longest;
    if (~sums.lowest_bad_inverted < found->first_bad)
        found->first_bad = ~sums.lowest_bad_inverted;
    if (found->in_heap != totals.in_heap) /* counted wrong: no bucket in particular */
        found->first_bad = 0;
    return LOOM_OK;
}

loom_status cuda_multi_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                              loom_stream stream)
{
    const loom__multi_view *from = static_cast<const loom__multi_view *>(any_from);
    const loom__multi_view *to = static_cast<const loom__multi_view *>(any_to);
    pack_work work = {(cuda_state *)machine, from, to, slots_of(to), {}, 0, 0, 0, 0, (cudaStream_t)stream};
    RETURN_IF_FAILED(
        cuda_directory_kernels(to)->refill(machine, multi_directory(from), multi_directory(to), refused, stream));
    if (*refused > 0)
        return LOOM_OK;
    ON_DEVICE(work.cuda);
    const uint64_t slots = work.slots.count();
    CUDA_TRY(scan_bytes_for(slots, &work.scan_bytes));
    work.large_at = cuda_aligned((slots + 1) * sizeof(uint64_t));
    work.queue_at = work.large_at + cuda_aligned(sizeof(uint64_t));
    work.scan_at = work.queue_at + cuda_aligned(sizeof(long_lists));
    const uint64_t bytes = work.scan_at + work.scan_bytes;
    work.own = cuda_take_workspace(machine, bytes, stream, NULL);
    RETURN_ERROR_IF(work.own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; free other memory", (unsigned long long)bytes);
    const loom_status status = pack(&work, refused);
    cuda_give_workspace(machine, &work.own, stream);
    return status;
}

loom_status cuda_multi_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__multi_view *view = static_cast<const loom__multi_view *>(any_view);
    const uint64_t most = 1 << 22, margin = 1 << 12;
    retrieve_work work = {(cuda_state *)machine, view, slots_of(view), {}, 0, 0, 0, 0, 0, (cudaStream_t)stream};
    uint64_t window = room < most / 2 ? 2 * room + margin : most;
    window = window < work.slots.count() ? window : work.slots.count();
    ON_DEVICE(work.cuda);
    loom_status status = take_window(&work, window);
    if (status == LOOM_OK)
        status = cuda_retrieve_chunks(
            work.cuda, loom__slots_key_bytes(&work.slots.table), (uint32_t)view->value_bytes, keys, values, room, got,
            work.stream, [&](const cuda_stage *, void *to_keys, void *to_values, uint64_t left, uint64_t *now) {
                return retrieve_here(&work, position, to_keys, to_values, left, now);
            });
    cuda_give_workspace(machine, &work.own, stream);
    return status;
}
