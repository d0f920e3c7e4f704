/* Inserts a batch into a table with rows, of any engine, in order (LOOM_IN_ORDER): of equal keys the first one counts
 * (keep) or the last one (overwrite), and the first one of a new key is told OK.
 *
 * Keys of any width are not sorted. Instead the batch is inserted directly, in any order, and then put right:
 *   1. insert   Each key is stored with the value of some item that has it; if values are strings, with an empty one.
 *   2. locate   Each item looks up the slot of its key.
 *   3. rank     The items of a slot find out which of them comes first, and which comes last. The item that stored the
 *               key says that the key is new.
 *   4. settle   Of the items of a new key, or of any key that is overwritten, one stores its value; all get their
 *               statuses.
 * Nobody else uses the table meanwhile. Memory: 9 bytes for each item and 8.1 for each slot of the table; 8.3 if values
 * are strings.
 *
 * Values that are strings. In step 4 the heap may have no room for a value. Then all items of its key are refused, and
 * a new key is erased again: the caller sends them once more, in their order. Later launches of the call insert
 * nothing then: an item must not come before one with the same key that was refused. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "core/call_parts.h"
#include "engines/open/open_ops.h"
#include "machines/cuda/core/cuda_outcomes.cuh"
#include "machines/cuda/rows/cuda_rows_order.cuh"

namespace
{

enum { THREADS = 256, BLOCKS = 1 << 16 /* of a kernel with a grid-stride loop, at most */ };

struct order_memory {
    uint32_t *stalled;                  /* a value found no room in the heap: for the whole call */
    uint64_t *slots;                    /* [n] of the items' keys */
    uint8_t *status;                    /* [n] of step 1 */
    uint32_t *before_first, *last_plus; /* [slots of the table] UINT32_MAX - number of the first item; last item + 1 */
    uint32_t *is_new, *failed;          /* one bit for each slot of the table */
    uint64_t zeroed;                    /* bytes from before_first on that are zero at first */
    uint64_t bytes;
};

order_memory lay_out(const cuda_ordered_table *table, uint64_t n, unsigned char *memory)
{
    const uint64_t slots = table->slots;
    cuda_layout all = {0};
    order_memory order;
    order.stalled = (uint32_t *)(memory + all.add(sizeof *order.stalled));
    order.slots = (uint64_t *)(memory + all.add(n * sizeof *order.slots));
    order.status = memory + all.add(n);
    const uint64_t begin = all.bytes;
    order.before_first = (uint32_t *)(memory + all.add(slots * sizeof(uint32_t)));
    order.last_plus = (uint32_t *)(memory + all.add(slots * sizeof(uint32_t)));
    order.is_new = (uint32_t *)(memory + all.add(slots / 8 + sizeof(uint32_t)));
    order.failed = (uint32_t *)(memory + all.add(table->strings != NULL ? slots / 8 + sizeof(uint32_t) : 0));
    order.zeroed = all.bytes - begin;
    order.bytes = all.bytes;
    return order;
}

__device__ __forceinline__ bool bit_of(const uint32_t *bits, uint64_t slot)
{
    return bits[slot / 32] >> slot % 32 & 1;
}

__global__ void __launch_bounds__(THREADS) rank_kernel(const order_memory order, uint64_t n)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t slot = order.slots[i];
        if (slot == CUDA_NO_SLOT || order.status[i] == LOOM_TOO_LONG)
            continue;
        atomicMax(&order.before_first[slot], UINT32_MAX - (uint32_t)i);
        atomicMax(&order.last_plus[slot], (uint32_t)i + 1);
        if (order.status[i] == LOOM_OK)
            atomicOr(&order.is_new[slot / 32], 1u << slot % 32);
    }
}

/* How an item of a slot came out. */
struct ranked {
    bool is_new, first, stores;
};

__device__ __forceinline__ ranked rank_of(const order_memory &order, uint64_t slot, uint64_t i, bool overwrite)
{
    const bool is_new = bit_of(order.is_new, slot), first = order.before_first[slot] == UINT32_MAX - (uint32_t)i;
    return {is_new, first, overwrite ? order.last_plus[slot] == (uint32_t)i + 1 : is_new && first};
}

/* ---- values that are strings ---- */

/* The walk of a key that lies in a slot. */
__device__ __forceinline__ open_walk walk_at(const loom__rows_view &view, uint64_t key, uint64_t slot)
{
    const uint64_t bucket = slot / open_slots(SLOT_TAG);
    return open_walk_to(SLOT_STRING, &view.lines, key, (uint32_t)(bucket % view.lines.buckets));
}

/* The item that stores its value replaces the one in the row. */
__global__ void __launch_bounds__(THREADS)
    replace_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                   const order_memory order, bool overwrite)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < batch.n; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t slot = order.slots[i];
        if (slot == CUDA_NO_SLOT || order.status[i] == LOOM_TOO_LONG || !rank_of(order, slot, i, overwrite).stores)
            continue;
        open_walk walk;
        walk.key = 0;
        walk.piece = OPEN_NO_PIECE;
        walk.partition_index = (uint32_t)(slot / open_slots(SLOT_TAG) / view.lines.buckets);
        const uint64_t value = (uint64_t)(uintptr_t)((const loom__string *)batch.values + i);
        if (!open_replace_string(&view, &walk, open_row_of_number(&view, slot).value, value)) {
            atomicOr(&order.failed[slot / 32], 1u << slot % 32);
            *order.stalled = 1;
        }
    }
}

/* Erases a new key for whose value there was no room. */
__device__ __noinline__ void erase_slot(const loom__rows_view &view, uint64_t key, uint64_t slot)
{
    const open_walk walk = walk_at(view, key, slot);
    if (open_free_slot(SLOT_STRING, OPEN_SHARED, &view.lines, &walk, (uint32_t)(slot % open_slots(SLOT_TAG)), 0))
        open_note_erased(OPEN_SHARED, &view.lines, &walk);
}

/* Counts a row that was refused for lack of bytes. */
__device__ __forceinline__ void note_refused(const loom__rows_view &view, uint64_t key, uint64_t value)
{
    const unsigned long long bytes = open_piece_bytes(&view, key, value);
    atomicAdd((unsigned long long *)&view.strings->refused_rows, 1ull);
    atomicAdd((unsigned long long *)&view.strings->refused_bytes, bytes);
    atomicMax((unsigned long long *)&view.strings->refused_most, bytes);
}

/* ---- settling ---- */

/* Values that are no strings. */
struct plain_values {
    unsigned char *values; /* of the row of slot 0 */
    uint32_t stride, bytes;
};

__device__ __forceinline__ uint8_t settle(const plain_values &rows, const cuda_batch &batch, const order_memory &order,
                                          bool overwrite, uint64_t slot, uint64_t i)
{
    const ranked rank = rank_of(order, slot, i, overwrite);
    if (rank.stores && batch.values != NULL) {
        const unsigned char *from = (const unsigned char *)batch.values + i * rows.bytes;
        unsigned char *to = rows.values + slot * rows.stride;
        for (uint32_t b = 0; b < rows.bytes; b++)
            to[b] = from[b];
    }
    return rank.is_new && rank.first ? LOOM_OK : LOOM_EXISTS;
}

/* Values that are strings: replace_kernel has stored them. */
__device__ __forceinline__ uint8_t settle(const loom__rows_view &view, const cuda_batch &batch,
                                          const order_memory &order, bool overwrite, uint64_t slot, uint64_t i)
{
    const ranked rank = rank_of(order, slot, i, overwrite);
    if (bit_of(order.failed, slot)) {
        const uint64_t key = (uint64_t)(uintptr_t)((const unsigned char *)batch.keys + i * view.key_bytes);
        if (rank.is_new && rank.stores)
            erase_slot(view, key, slot);
        note_refused(view, key, (uint64_t)(uintptr_t)((const loom__string *)batch.values + i));
        return LOOM_FULL;
    }
    return rank.is_new && rank.first ? LOOM_OK : LOOM_EXISTS;
}

__device__ __forceinline__ void tell_item(const cuda_batch &batch, uint64_t i, uint8_t told, outcome_counts *counts,
                                          uint32_t *too_long)
{
    counts->ok += told == LOOM_OK;
    counts->exists += told == LOOM_EXISTS;
    counts->full += told == LOOM_FULL;
    *too_long += told == LOOM_TOO_LONG;
    if (batch.status != NULL)
        batch.status[i] = told;
}

__device__ __forceinline__ void tell_all(const cuda_batch &batch, const outcome_counts &counts, uint32_t too_long)
{
    if (batch.counts == NULL)
        return;
    tell_counts(batch.counts, counts);
    add_count(&batch.counts[blockIdx.x % COUNT_COPIES].too_long, too_long);
}

template <class rows_type>
__global__ void __launch_bounds__(THREADS)
    settle_kernel(const __grid_constant__ rows_type rows, const __grid_constant__ cuda_batch batch,
                  const order_memory order, bool overwrite)
{
    outcome_counts counts = {};
    uint32_t too_long = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < batch.n; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t slot = order.slots[i];
        uint8_t told = LOOM_FULL;
        if (order.status[i] == LOOM_TOO_LONG)
            told = LOOM_TOO_LONG;
        else if (slot != CUDA_NO_SLOT)
            told = settle(rows, batch, order, overwrite, slot, i);
        tell_item(batch, i, told, &counts, &too_long);
    }
    __syncwarp();
    tell_all(batch, counts, too_long);
}

/* A launch after one in which a value found no room: inserts nothing. */
__global__ void __launch_bounds__(THREADS)
    stalled_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                   const order_memory order, bool overwrite)
{
    outcome_counts counts = {};
    uint32_t too_long = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < batch.n; i += (uint64_t)gridDim.x * THREADS) {
        const uint64_t key = (uint64_t)(uintptr_t)((const unsigned char *)batch.keys + i * view.key_bytes);
        const uint64_t value = (uint64_t)(uintptr_t)((const loom__string *)batch.values + i);
        uint8_t told = LOOM_FULL;
        if (open_is_too_long(SLOT_STRING, &view, key, value))
            told = LOOM_TOO_LONG;
        else if (!overwrite && order.slots[i] != CUDA_NO_SLOT)
            told = LOOM_EXISTS;
        else
            note_refused(view, key, value);
        tell_item(batch, i, told, &counts, &too_long);
    }
    __syncwarp();
    tell_all(batch, counts, too_long);
}

/* ---- the call ---- */

struct order_call {
    cuda_map_call call; /* first: `launch` gets its address */
    const cuda_ordered_table *table;
    unsigned char *memory;
    bool launched; /* a part of the batch */
};

unsigned blocks_for(uint64_t n)
{
    const uint64_t wanted = (n + THREADS - 1) / THREADS;
    return wanted < BLOCKS ? (unsigned)wanted : (unsigned)BLOCKS;
}

/* Whether a value found no room in an earlier launch of the call. The first launch begins with "no". */
cudaError_t is_stalled(const order_memory &order, bool first, bool *stalled, cudaStream_t stream)
{
    uint32_t seen = 0;
    *stalled = false;
    if (first)
        return cudaMemsetAsync(order.stalled, 0, sizeof *order.stalled, stream);
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(&seen, order.stalled, sizeof seen, cudaMemcpyDefault, stream));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(stream));
    *stalled = seen != 0;
    return cudaSuccess;
}

cudaError_t launch_in_order(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    order_call *own = (order_call *)(void *)call;
    const cuda_ordered_table *table = own->table;
    const order_memory order = lay_out(table, batch->n, own->memory);
    const unsigned blocks = blocks_for(batch->n);
    const bool overwrite = call->overwrites(), first = !own->launched;
    cuda_batch directly = *batch;
    directly.status = order.status;
    directly.counts = NULL;
    own->launched = true;
    if (table->strings != NULL) {
        bool stalled;
        RETURN_IF_CUDA_FAILED(is_stalled(order, first, &stalled, stream));
        if (stalled) {
            RETURN_IF_CUDA_FAILED(table->locate(table->view, batch->keys, batch->n, order.slots, stream));
            stalled_kernel<<<blocks, THREADS, 0, stream>>>(*table->strings, *batch, order, overwrite);
            return cudaGetLastError();
        }
    }
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(order.before_first, 0, order.zeroed, stream));
    RETURN_IF_CUDA_FAILED(table->insert(table->view, &directly, stream));
    RETURN_IF_CUDA_FAILED(table->locate(table->view, batch->keys, batch->n, order.slots, stream));
    rank_kernel<<<blocks, THREADS, 0, stream>>>(order, batch->n);
    if (table->strings != NULL) {
        replace_kernel<<<blocks, THREADS, 0, stream>>>(*table->strings, *batch, order, overwrite);
        settle_kernel<<<blocks, THREADS, 0, stream>>>(*table->strings, *batch, order, overwrite);
    } else {
        const plain_values values = {table->values, table->value_stride, table->value_bytes};
        settle_kernel<<<blocks, THREADS, 0, stream>>>(values, *batch, order, overwrite);
    }
    return cudaGetLastError();
}

/* Items of one launch. A later launch finds equal keys of an earlier one in the table, and keeps or overwrites them:
 * the order of the batch is kept. */
uint64_t order_slice(const cuda_state *cuda, uint64_t n)
{
    const uint64_t most = (uint64_t)1 << 31; /* items have numbers of 32 bits */
    const uint64_t each = loom__slice_items(n, cuda->slice_keys < most ? cuda->slice_keys : most);
    return each > 0 ? each : 1;
}

} // namespace

uint64_t cuda_rows_order_bytes(const cuda_state *cuda, const cuda_ordered_table *table, uint64_t n)
{
    return lay_out(table, order_slice(cuda, n), NULL).bytes;
}

loom_status cuda_rows_insert_in_order(const cuda_map_call *given, const cuda_ordered_table *table)
{
    order_call order = {*given, table, NULL, false};
    cuda_map_call *call = &order.call;
    call->launch = launch_in_order;
    call->may_finish = false;
    call->most = order_slice(call->cuda, call->batch.n);
    const uint64_t bytes = lay_out(table, call->most, NULL).bytes;
    const cuda_workspace own = cuda_take_workspace(&call->cuda->base, bytes, call->stream, &call->batch);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    order.memory = own.at;
    loom__batch_goes(&call->batch, LOOM_ROUTE_IN_ORDER);
    return cuda_with_ticket(call, &own, [&]() -> loom_status {
        RETURN_IF_FAILED(cuda_try_stage(call));
        if (call->batch.replace)
            RETURN_IF_FAILED(table->clear(&call->cuda->base, call->view, call->stream));
        RETURN_IF_FAILED(cuda_run_items(call, true));
        return cuda_finish_call(call, call->batch.replace != 0);
    });
}
