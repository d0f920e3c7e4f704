/* What reads or writes whole tables: clear, retrieve, survey; and the count of accesses. One block works on one partition
 * or on one run of buckets, one lane on one bucket or key. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/cuda_lanes.cuh"
#include "engines/open/open_survey.h"
#include "machines/cuda/cuda_state.cuh"

#include <cub/block/block_scan.cuh>
#include <string.h>

namespace
{

enum { THREADS = 256 };

/* ---- clear ---- */

template <loom__slot_kind kind> __global__ void clear_kernel(const loom__open_view view)
{
    uint32_t partition = blockIdx.x, stride = open_line_stride(kind) / 8;
    uint64_t empty = open_empty(&view, partition);
    uint64_t pattern = slot_stride(kind) == 4 ? empty << 32 | empty : empty;
    uint64_t *words = (uint64_t *)(view.base + (uint64_t)partition * view.partition_bytes);
    uint32_t lines_end = view.buckets * stride, count = view.partition_bytes / 8;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS)
        words[i] = i < lines_end && i % stride < 7 ? pattern : 0;
    if (threadIdx.x == 0) {
        view.marks[partition] = OPEN_UNMARKED;
        view.stale[partition] = 0;
        view.retired_slots[partition] = 0;
    }
}

/* ---- retrieve ---- */

const uint64_t SEGMENT = THREADS, WINDOW = 1 << 15; /* WINDOW: segments counted at once */

struct retrieve_end { /* where the first pair lies for which there was no room */
    unsigned long long bucket;
    uint32_t slot, reached;
};

static_assert(WINDOW * sizeof(unsigned long long) + sizeof(retrieve_end) <= SCRATCH_BYTES, "they share the scratch");

/* The lane's bucket, and how many pairs it has from the position on. */
template <loom__slot_kind kind>
__device__ uint32_t pairs_of_lane(const loom__open_view &view, const loom__position &from, uint32_t *first_slot,
                                  uint64_t *number)
{
    *number = from.bucket + (uint64_t)blockIdx.x * SEGMENT + threadIdx.x;
    *first_slot = *number == from.bucket ? from.slot : 0;
    if (*number >= (uint64_t)view.partitions * view.buckets)
        return 0;
    open_bucket b = open_bucket_of(kind, &view, (uint32_t)(*number / view.buckets), (uint32_t)(*number % view.buckets));
    uint32_t count = 0;
    for (uint32_t slot = *first_slot; slot < open_slots(kind); slot++)
        count += open_bucket_key(kind, &b, slot) != b.empty;
    return count;
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    count_kernel(const loom__open_view view, const loom__position from, unsigned long long *counts)
{
    __shared__ uint32_t total;
    uint32_t first_slot;
    uint64_t number;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    atomicAdd(&total, pairs_of_lane<kind>(view, from, &first_slot, &number));
    __syncthreads();
    if (threadIdx.x == 0)
        counts[blockIdx.x] = total;
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    copy_kernel(const loom__open_view view, const loom__position from, const unsigned long long *offsets, void *keys,
                void *values, uint64_t room, retrieve_end *end)
{
    typedef cub::BlockScan<uint32_t, THREADS> scan;
    __shared__ typename scan::TempStorage storage;
    uint32_t first_slot, before;
    uint64_t number;
    uint32_t count = pairs_of_lane<kind>(view, from, &first_slot, &number);
    scan(storage).ExclusiveSum(count, before);
    if (count == 0)
        return;
    open_bucket b = open_bucket_of(kind, &view, (uint32_t)(number / view.buckets), (uint32_t)(number % view.buckets));
    uint64_t rank = offsets[blockIdx.x] + before;
    for (uint32_t slot = first_slot; slot < open_slots(kind); slot++) {
        uint64_t key = open_bucket_key(kind, &b, slot);
        if (key == b.empty)
            continue;
        if (rank < room) {
            if (slot_key_bytes(kind) == 4)
                ((uint32_t *)keys)[rank] = (uint32_t)key;
            else
                ((uint64_t *)keys)[rank] = key;
            if (slot_value_bytes(kind) == 0)
                ; /* a set */
            else if (values != NULL && slot_value_bytes(kind) == 4)
                ((uint32_t *)values)[rank] = (uint32_t)open_bucket_value(kind, &b, slot);
            else if (values != NULL)
                ((uint64_t *)values)[rank] = open_bucket_value(kind, &b, slot);
        } else if (rank == room) {
            end->bucket = number;
            end->slot = slot;
            end->reached = 1;
        }
        rank++;
    }
}

/* Into arrays on the device. Under the staging lock. Waits. */
loom_status retrieve_here(cuda_state *cuda, const loom__open_view *view, loom__position *position, void *keys,
                          void *values, uint32_t key_bytes, uint32_t value_bytes, uint64_t room, uint64_t *got,
                          cudaStream_t stream)
{
    unsigned long long *counts = (unsigned long long *)cuda->stage.scratch;
    retrieve_end *end = (retrieve_end *)(counts + WINDOW), reached;
    unsigned long long *on_host = (unsigned long long *)cuda->stage.pinned[0]; /* free: output chunks use the other */
    uint64_t buckets = (uint64_t)view->partitions * view->buckets, slots = open_slots((loom__slot_kind)view->kind);
    *got = 0;
    while (position->bucket < buckets && *got < room) { /* each round passes a window or ends */
        uint64_t left = room - *got, segments = (buckets - position->bucket + SEGMENT - 1) / SEGMENT;
        uint64_t useful = left / slots / SEGMENT * 2 + 1; /* do not count far beyond what fits */
        segments = segments < WINDOW ? segments : WINDOW;
        segments = segments < useful ? segments : useful;
        uint64_t bytes = segments * sizeof *counts, total = 0;
#define CALL(kind) count_kernel<kind><<<(unsigned)segments, THREADS, 0, stream>>>(*view, *position, counts)
        SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cudaMemcpyAsync(on_host, counts, bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        for (uint64_t i = 0; i < segments; i++) {
            uint64_t count = on_host[i];
            on_host[i] = total;
            total += count;
        }
        CUDA_TRY(cudaMemcpyAsync(counts, on_host, bytes, cudaMemcpyHostToDevice, stream));
        CUDA_TRY(cudaMemsetAsync(end, 0, sizeof *end, stream));
        unsigned char *to_keys = (unsigned char *)keys + *got * key_bytes;
        unsigned char *to_values = values != NULL ? (unsigned char *)values + *got * value_bytes : NULL;
#define CALL(kind)    \
    copy_kernel<kind> \
        <<<(unsigned)segments, THREADS, 0, stream>>>(*view, *position, counts, to_keys, to_values, left, end)
        SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
        CUDA_TRY(cudaGetLastError());
        CUDA_TRY(cudaMemcpyAsync(on_host, end, sizeof *end, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        memcpy(&reached, on_host, sizeof reached);
        *got += total < left ? total : left;
        if (reached.reached) {
            position->bucket = reached.bucket;
            position->slot = reached.slot;
        } else {
            position->bucket += segments * SEGMENT;
            position->bucket = position->bucket < buckets ? position->bucket : buckets;
            position->slot = 0;
        }
    }
    return LOOM_OK;
}

loom_status retrieve_to_host(cuda_state *cuda, const loom__open_view *view, loom__position *position, void *keys,
                             void *values, cuda_place keys_at, cuda_place values_at, uint32_t key_bytes,
                             uint32_t value_bytes, uint64_t room, uint64_t *got, cudaStream_t stream)
{
    uint64_t per_chunk = STAGE_BYTES / 16, got_now; /* keys in one buffer, values in the other */
    *got = 0;
    do { /* each round brings pairs, or is the last */
        uint64_t left = room - *got < per_chunk ? room - *got : per_chunk;
        unsigned char *to_keys = (unsigned char *)keys + *got * key_bytes;
        unsigned char *to_values = values != NULL ? (unsigned char *)values + *got * value_bytes : NULL;
        void *device_keys = keys_at == PLACE_DEVICE ? to_keys : cuda->stage.device[0];
        void *device_values = values == NULL              ? NULL
                              : values_at == PLACE_DEVICE ? (void *)to_values
                                                          : (void *)cuda->stage.device[1];
        RETURN_IF_FAILED(retrieve_here(cuda, view, position, device_keys, device_values, key_bytes, value_bytes, left,
                                       &got_now, stream));
        if (keys_at != PLACE_DEVICE)
            CUDA_TRY(cudaMemcpyAsync(to_keys, device_keys, got_now * key_bytes, cudaMemcpyDeviceToHost, stream));
        if (values != NULL && values_at != PLACE_DEVICE)
            CUDA_TRY(cudaMemcpyAsync(to_values, device_values, got_now * value_bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        *got += got_now;
    } while (got_now > 0 && *got < room);
    return LOOM_OK;
}

/* ---- survey ---- */

__device__ void add_to(uint64_t *sum, uint64_t mine)
{
    atomicAdd((unsigned long long *)sum, (unsigned long long)mine);
}

__device__ void keep_larger(uint64_t *largest, uint64_t mine)
{
    atomicMax((unsigned long long *)largest, (unsigned long long)mine);
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS) survey_kernel(const loom__open_view view, open_sums *total)
{
    __shared__ open_sums block;
    open_sums own = {};
    lane_group alone = lane_own_group();
    if (threadIdx.x == 0)
        block = open_sums{};
    __syncthreads();
    for (uint32_t number = threadIdx.x; number < view.buckets; number += THREADS)
        open_survey_bucket(kind, alone, &view, blockIdx.x, number, &own);
    add_to(&block.size, own.size);
    add_to(&block.displaced, own.displaced);
    add_to(&block.accesses, own.accesses);
    add_to(&block.filter_bits, own.filter_bits);
    keep_larger(&block.longest, own.longest);
    keep_larger(&block.lowest_bad_inverted, own.lowest_bad_inverted);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    add_to(&total->size, block.size);
    add_to(&total->displaced, block.displaced);
    add_to(&total->accesses, block.accesses);
    add_to(&total->filter_bits, block.filter_bits);
    keep_larger(&total->fullest, block.size);
    keep_larger(&total->longest, block.longest);
    keep_larger(&total->lowest_bad_inverted, block.lowest_bad_inverted);
}

loom_status survey_sum(cuda_state *cuda, const loom__open_view *view, open_sums *sums, cudaStream_t stream)
{
    open_sums *on_device = (open_sums *)cuda->stage.scratch;
    CUDA_TRY(cudaMemsetAsync(on_device, 0, sizeof *on_device, stream));
#define CALL(kind) survey_kernel<kind><<<view->partitions, THREADS, 0, stream>>>(*view, on_device)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemcpyAsync(sums, on_device, sizeof *sums, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

/* ---- accesses ---- */

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    accesses_kernel(const loom__open_view view, const void *keys, uint64_t n, unsigned long long *sum)
{
    uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t accesses = 0;
    if (index < n) {
        lane_group alone = lane_own_group();
        uint64_t key = slot_key_bytes(kind) == 4 ? ((const uint32_t *)keys)[index] : ((const uint64_t *)keys)[index];
        accesses = open_count_accesses(kind, alone, &view, key);
    }
    accesses = __reduce_add_sync(CUDA_FULL_MASK, accesses);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, (unsigned long long)accesses);
}

loom_status count_here(cuda_state *cuda, const loom__open_view *view, const void *keys, cuda_place place, uint64_t n,
                       uint64_t *accesses, cudaStream_t stream)
{
    unsigned long long *sum = (unsigned long long *)cuda->stage.scratch;
    uint64_t key_bytes = slot_key_bytes((loom__slot_kind)view->kind);
    uint64_t per_chunk = place == PLACE_DEVICE ? n : STAGE_BYTES / key_bytes;
    CUDA_TRY(cudaMemsetAsync(sum, 0, sizeof *sum, stream));
    for (uint64_t first = 0; first < n; first += per_chunk) {
        uint64_t count = n - first < per_chunk ? n - first : per_chunk;
        const void *at = (const unsigned char *)keys + first * key_bytes;
        if (place != PLACE_DEVICE) {
            CUDA_TRY(cudaMemcpyAsync(cuda->stage.device[0], at, count * key_bytes, cudaMemcpyHostToDevice, stream));
            at = cuda->stage.device[0];
        }
        unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
#define CALL(kind) accesses_kernel<kind><<<blocks, THREADS, 0, stream>>>(*view, at, count, sum)
        SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
        CUDA_TRY(cudaGetLastError());
    }
    CUDA_TRY(cudaMemcpyAsync(accesses, sum, sizeof *sum, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

} // namespace

/* Kernels number lines with 32 bits. */
static loom_status check_bytes(const loom__open_view *view)
{
    RETURN_ERROR_IF((uint64_t)view->partitions * view->partition_bytes / OPEN_LINE_BYTES > UINT32_MAX, LOOM_UNSUPPORTED,
                    "the cuda machine has tables of up to 256 GiB; make several");
    return LOOM_OK;
}

loom_status cuda_open_reset_totals(loom__machine *machine, const loom__open_view *view, const loom__open_totals *totals,
                                   loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(check_bytes(view));
    ON_DEVICE((cuda_state *)machine);
    CUDA_TRY(cudaMemcpyAsync(view->totals, totals, sizeof *totals, cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaMemsetAsync(view->marks, OPEN_UNMARKED, view->partitions * sizeof *view->marks, stream));
    CUDA_TRY(cudaMemsetAsync(view->stale, 0, view->partitions * sizeof *view->stale, stream));
    CUDA_TRY(cudaMemsetAsync(view->retired_slots, 0, view->partitions * sizeof *view->retired_slots, stream));
    CUDA_TRY(cudaMemsetAsync(view->added, 0, OPEN_ADDED_COPIES * sizeof *view->added, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}

loom_status cuda_open_clear(loom__machine *machine, const loom__open_view *view, loom_stream given)
{
    cudaStream_t stream = (cudaStream_t)given;
    RETURN_IF_FAILED(check_bytes(view));
    ON_DEVICE((cuda_state *)machine);
#define CALL(kind) clear_kernel<kind><<<view->partitions, THREADS, 0, stream>>>(*view)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaMemsetAsync(&view->totals->size, 0, sizeof view->totals->size, stream));
    return LOOM_OK;
}

loom_status cuda_open_retrieve(loom__machine *machine, const loom__open_view *view, loom__position *position,
                               void *keys, void *values, uint64_t room, uint64_t *got, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    cuda_place keys_at, values_at;
    uint32_t key_bytes = slot_key_bytes((loom__slot_kind)view->kind);
    uint32_t value_bytes = slot_value_bytes((loom__slot_kind)view->kind);
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &keys_at));
    RETURN_IF_FAILED(cuda_locate(cuda, "values", values, &values_at));
    RETURN_IF_FAILED(cuda_stage_enter(cuda));
    int here = keys_at == PLACE_DEVICE && (values_at == PLACE_DEVICE || values_at == PLACE_NONE);
    loom_status status =
        here ? retrieve_here(cuda, view, position, keys, values, key_bytes, value_bytes, room, got, stream)
             : retrieve_to_host(cuda, view, position, keys, values, keys_at, values_at, key_bytes, value_bytes, room,
                                got, stream);
    cuda_stage_leave(cuda);
    return status;
}

loom_status cuda_open_survey(loom__machine *machine, const loom__open_view *view, loom__survey *survey,
                             loom_stream stream)
{
    cuda_state *cuda = (cuda_state *)machine;
    open_sums sums;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_stage_enter(cuda));
    loom_status status = survey_sum(cuda, view, &sums, (cudaStream_t)stream);
    cuda_stage_leave(cuda);
    if (status != LOOM_OK)
        return status;
    *survey = open_survey_of(view, &sums);
    return LOOM_OK;
}

loom_status cuda_open_count_accesses(loom__machine *machine, const loom__open_view *view, const void *keys, uint64_t n,
                                     uint64_t *accesses, loom_stream stream)
{
    cuda_state *cuda = (cuda_state *)machine;
    cuda_place place;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &place));
    RETURN_IF_FAILED(cuda_stage_enter(cuda));
    loom_status status = count_here(cuda, view, keys, place, n, accesses, (cudaStream_t)stream);
    cuda_stage_leave(cuda);
    return status;
}
