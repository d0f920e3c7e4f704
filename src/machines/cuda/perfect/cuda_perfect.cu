/* Bulk calls on a perfect table: arrays where kernels can reach them, kernels, results.
 *
 * Lookups, updates and erasures leave codes alone: chunks of host arrays may overlap, and a call whose arrays and result the device
 * can reach returns before the work is done. Insertions go in chunks that follow each other (cuda_perfect.cuh), in memory that a
 * chunk of them bounds. Only those in order have their arrays whole in memory (cuda_in_order.cu). */
#include "core/call_parts.h"
#include "machines/cuda/perfect/cuda_perfect.cuh"
#include "machines/cuda/perfect/cuda_perfect_bulk.cuh"

#include <math.h>

namespace
{

uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

bool inserts(cuda_op op)
{
    return op != OP_FIND && op != OP_UPDATE && op != OP_ERASE;
}

/* ---- chunks ---- */

struct perfect_call {
    const cuda_state *cuda;
    const loom__perfect_view *view;
    const loom__batch *batch;
    const cuda_call_arrays *arrays;
    cuda_op op;
    cuda_counts *counts;
    const cuda_perfect_lists *lists; /* of insertions … */
    uint64_t most;                   /* … which have so many items at once; else all that come */
};

cudaError_t work_on_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                          cudaStream_t stream)
{
    const perfect_call *call = (const perfect_call *)argument;
    cudaError_t error = cudaSuccess;
    (void)first;
    if (call->lists == NULL) {
        const cuda_batch batch = cuda_batch_of(call->cuda, at, count, call->batch, call->counts);
        return call->op == OP_FIND ? cuda_perfect_launch_find(call->cuda, call->view, &batch, stream)
                                   : cuda_perfect_launch_write(call->view, &batch, call->op, NULL, stream);
    }
    for (uint64_t done = 0; done < count && error == cudaSuccess; done += call->most) {
        void *here[CALL_ARRAYS];
        for (int i = 0; i < CALL_ARRAYS; i++)
            here[i] = at[i] != NULL ? (unsigned char *)at[i] + done * call->arrays->all[i].width : NULL;
        const uint64_t now = count - done < call->most ? count - done : call->most;
        const cuda_batch batch = cuda_batch_of(call->cuda, here, now, call->batch, call->counts);
        error = cuda_perfect_insert(call->view, &batch, call->op, call->lists, stream);
    }
    return error;
}

/* All items of a call. */
loom_status run_chunks(cuda_state *cuda, perfect_call *call, cudaStream_t stream)
{
    void *at[CALL_ARRAYS];
    if (call->arrays->staged)
        return cuda_run_staged(cuda, call->arrays, call->batch->n, work_on_chunk, call, true, stream,
                               call->lists != NULL);
    call->arrays->addresses(at);
    if (call->batch->n > 0) /* a grid has blocks */
        CUDA_TRY(work_on_chunk(call, at, 0, call->batch->n, stream));
    return LOOM_OK;
}

/* ---- results ---- */

/* What was counted becomes the result, where the caller wants it; waits if it must. */
loom_status finish(const loom__perfect_view *view, const loom__batch *batch, cuda_op op, const cuda_call_arrays *arrays,
                   const cuda_slot *slot, cuda_place place, bool replaced = false)
{
    const cuda_finish how = {slot->counts,
                             &view->totals->size,
                             place == PLACE_PAGEABLE ? slot->result : batch->result,
                             batch->n,
                             op,
                             replaced,
                             NULL};
    CUDA_TRY(cuda_launch_finish(how, (cudaStream_t)batch->stream));
    return cuda_hand_over(batch, arrays, slot, place);
}

loom_status locate_arrays(const cuda_state *cuda, const loom__perfect_view *view, const loom__batch *batch,
                          cuda_call_arrays *arrays)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    return cuda_locate_arrays(cuda, slot_key_bytes(kind), slot_value_bytes(kind), batch, arrays);
}

/* ---- find, update, erase ---- */

loom_status run(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch, cuda_op op)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_call_arrays arrays;
    perfect_call call = {cuda, view, batch, &arrays, op, NULL, NULL, 0};
    cuda_slot *slot;
    cuda_place place;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(locate_arrays(cuda, view, batch, &arrays));
    if (op == OP_FIND && batch->uncounted) { /* `result` is the library's own, and only its status is looked at */
        RETURN_IF_FAILED(run_chunks(cuda, &call, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
        batch->result->status = LOOM_OK;
        return LOOM_OK;
    }
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    RETURN_IF_FAILED(cuda_take_slot(cuda, stream, &slot));
    call.counts = slot->counts;
    loom_status status = run_chunks(cuda, &call, stream);
    if (status == LOOM_OK)
        status = finish(view, batch, op, &arrays, slot, place);
    cuda_give_slot(cuda, stream, slot, status == LOOM_OK);
    return status;
}

loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    return run(machine, view, batch, OP_FIND);
}

/* ---- insertions ---- */

/* An insertion that has all it needs: memory, a slot, a result's place. */
loom_status insert_with(cuda_state *cuda, const loom__perfect_view *view, const loom__batch *batch,
                        const cuda_call_arrays *arrays, const cuda_perfect_plan *plan, unsigned char *memory,
                        cuda_slot *slot, cuda_place place)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const cuda_op op = (cuda_op)batch->write;
    cuda_perfect_lists lists;
    perfect_call call = {cuda, view, batch, arrays, op, slot->counts, &lists, plan->items};
    if (batch->n > 0)
        CUDA_TRY(cuda_perfect_open_lists(plan, memory, &lists, stream));
    if (batch->replace)
        RETURN_IF_FAILED(cuda_perfect_clear(&cuda->base, view, batch->stream));
    if (batch->n > 0)
        RETURN_IF_FAILED(run_chunks(cuda, &call, stream));
    return finish(view, batch, op, arrays, slot, place);
}

/* Items of a chunk, if there is memory for them. */
uint64_t most_at_once(uint64_t n, uint32_t flags)
{
    enum { LOW_MEMORY_ITEMS = 1 << 20 };
    return flags & LOOM_LOW_MEMORY && n > LOW_MEMORY_ITEMS ? (uint64_t)LOW_MEMORY_ITEMS : n;
}

/* One by one, whatever the table holds; a build's is cleared first. */
loom_status insert_directly(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch,
                            const cuda_call_arrays *arrays)
{
    cuda_state *cuda = (cuda_state *)machine;
    const uint64_t items = most_at_once(batch->n, batch->flags);
    cuda_perfect_plan plan = {};
    cuda_workspace own = {};
    cuda_slot *slot;
    cuda_place place; /* what may fail comes before the table is cleared */
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    if (arrays->staged) {
        RETURN_IF_FAILED(cuda_stage_enter(cuda));
        cuda_stage_leave(cuda);
    }
    if (batch->n > 0)
        RETURN_IF_FAILED(cuda_perfect_take_lists(machine, view, items, 0, 0, batch, batch->stream, &plan, &own));
    loom_status status = cuda_take_slot(cuda, (cudaStream_t)batch->stream, &slot);
    if (status == LOOM_OK) {
        status = insert_with(cuda, view, batch, arrays, &plan, own.at, slot, place);
        cuda_give_slot(cuda, (cudaStream_t)batch->stream, slot, status == LOOM_OK);
    }
    cuda_give_workspace(machine, &own, batch->stream);
    return status;
}

/* ---- by partition ---- */

enum { LEAST_BY_PARTITION = 1 << 16 };

/* What a build by partition has: memory for the split and what is left over, behind it for lists; or for lists alone, if it gives
 * up, or has keys beyond those of one turn: codes are found for a partition's keys together, so there is no other turn, and further
 * keys are inserted. */
struct build_plan {
    uint64_t keys; /* of the turn */
    perfect_bulk_plan bulk;
    cuda_perfect_plan left, all;
    uint64_t lists_at, bytes;
};

bool plan_build(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n, bool with_status, build_plan *plan)
{
    plan->keys = n < cuda->turn_keys ? n : cuda->turn_keys;
    if (!cuda_perfect_bulk_plan(cuda, view, plan->keys, with_status, &plan->bulk))
        return false;
    const uint32_t spilled = plan->bulk.split.spill_room, left = plan->bulk.leftover_room;
    plan->left = cuda_perfect_plan_lists(cuda, view, spilled > left ? spilled : left, PERFECT_MOST_SPARES);
    plan->all = cuda_perfect_plan_lists(cuda, view, n, PERFECT_MOST_SPARES);
    plan->lists_at = aligned(plan->bulk.bytes);
    plan->bytes = plan->lists_at + plan->left.bytes;
    plan->bytes = plan->bytes > plan->all.bytes ? plan->bytes : plan->all.bytes;
    return true;
}

struct split_call {
    const cuda_state *cuda;
    const loom__batch *batch;
    bulk_target target;
    const bulk_plan *plan;
    unsigned char *workspace;
};

cudaError_t split_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                        cudaStream_t stream)
{
    const split_call *call = (const split_call *)argument;
    const cuda_batch batch = cuda_batch_of(call->cuda, at, count, call->batch, NULL);
    return cuda_bulk_split(&call->target, &batch, first, call->plan, call->workspace, stream);
}

__global__ void scatter_status_kernel(uint8_t *to, const uint8_t *from, const uint32_t *index, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[index[i]] = from[i];
}

/* Inserts records that were left over; `index`, and room for as many statuses: where their places are told. */
loom_status insert_rest(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *whole, bool overwrite,
                        const void *keys, const void *values, uint32_t n, const uint32_t *index, uint8_t *status,
                        const cuda_perfect_lists *lists, cudaStream_t stream)
{
    enum { THREADS = 256 };
    if (n == 0)
        return LOOM_OK;
    cuda_batch rest = {};
    rest.keys = keys;
    rest.values = whole->values != NULL ? values : NULL;
    rest.status = index != NULL ? status : NULL;
    rest.n = n;
    rest.tile = cuda_tile_of(cuda, n);
    rest.counts = whole->counts;
    CUDA_TRY(cuda_perfect_insert(view, &rest, overwrite ? OP_OVERWRITE : OP_KEEP, lists, stream));
    if (index != NULL) {
        scatter_status_kernel<<<(n + THREADS - 1) / THREADS, THREADS, 0, stream>>>(whole->status, status, index, n);
        CUDA_TRY(cudaGetLastError());
    }
    return LOOM_OK;
}

/* All that is launched before the device has told how much is left over. */
loom_status launch_build(cuda_state *cuda, const loom__perfect_view *view, const loom__batch *batch,
                         const cuda_call_arrays *arrays, const cuda_batch *whole, const build_plan *plan,
                         unsigned char *workspace, cudaStream_t stream)
{
    split_call call = {cuda, batch, perfect_bulk_target(view), &plan->bulk.split, workspace};
    CUDA_TRY(cuda_perfect_bulk_begin(&plan->bulk, workspace, stream));
    if (arrays->staged)
        RETURN_IF_FAILED(cuda_run_staged(cuda, arrays, batch->n, split_chunk, &call, false, stream, false));
    else
        CUDA_TRY(cuda_bulk_split(&call.target, whole, 0, call.plan, workspace, stream));
    CUDA_TRY(cuda_bulk_split_further(&call.target, call.plan, workspace, 0, stream));
    CUDA_TRY(cuda_perfect_bulk_codes(cuda, view, &plan->bulk, workspace, stream));
    CUDA_TRY(cuda_perfect_bulk_place(cuda, view, whole, &plan->bulk, workspace, batch->write == LOOM__WRITE_OVERWRITE,
                                     stream));
    return LOOM_OK;
}

/* Keys from `first` on, one by one, into what was built. */
loom_status insert_further(cuda_state *cuda, const loom__perfect_view *view, const loom__batch *batch,
                           const cuda_call_arrays *arrays, uint64_t first, const cuda_perfect_plan *plan,
                           unsigned char *memory, cuda_counts *counts, cudaStream_t stream)
{
    loom__batch further = *batch;
    cuda_perfect_lists lists;
    further.n = batch->n - first;
    const cuda_call_arrays here = arrays->part(batch->n, first, further.n);
    perfect_call call = {cuda, view, &further, &here, (cuda_op)batch->write, counts, &lists, plan->items};
    CUDA_TRY(cuda_perfect_open_lists(plan, memory, &lists, stream));
    return run_chunks(cuda, &call, stream);
}

/* Waits: how much was left over, the device alone knows. */
loom_status run_build(cuda_state *cuda, const loom__perfect_view *view, const loom__batch *batch,
                      const cuda_call_arrays *arrays, const build_plan *plan, unsigned char *workspace, cuda_slot *slot,
                      cuda_place place)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const cuda_op op = (cuda_op)batch->write;
    const cuda_rest spill = cuda_bulk_rest((loom__slot_kind)view->kind, &plan->bulk.split, workspace);
    const perfect_leftovers left = cuda_perfect_leftovers(&plan->bulk, workspace);
    uint32_t spilled = 0, over = 0;
    void *at[CALL_ARRAYS];
    cuda_perfect_lists lists;
    loom__batch turn = *batch;
    turn.n = plan->keys;
    const cuda_call_arrays here = arrays->part(batch->n, 0, turn.n);
    here.addresses(at);
    const cuda_batch whole = cuda_batch_of(cuda, at, turn.n, &turn, slot->counts);
    RETURN_IF_FAILED(launch_build(cuda, view, &turn, &here, &whole, plan, workspace, stream));
    CUDA_TRY(cudaMemcpyAsync(&spilled, spill.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaMemcpyAsync(&over, left.count, sizeof over, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    if (spilled > spill.room || over > left.room) { /* it gives up: skewed keys, or the same ones again and again */
        CUDA_TRY(cudaMemsetAsync(slot->counts, 0, COUNT_BYTES, stream));
        return insert_with(cuda, view, batch, arrays, &plan->all, workspace, slot, place);
    }
    if (spilled + over > 0) {
        CUDA_TRY(cuda_perfect_open_lists(&plan->left, workspace + plan->lists_at, &lists, stream));
        lists.most_pending = 0; /* what a build could not place is hard to place one by one, too */
        lists.least = 1;
        RETURN_IF_FAILED(insert_rest(cuda, view, &whole, op == OP_OVERWRITE, spill.keys, spill.values, spilled, NULL,
                                     NULL, &lists, stream));
        RETURN_IF_FAILED(insert_rest(cuda, view, &whole, op == OP_OVERWRITE, left.keys, left.values, over, left.index,
                                     left.status, &lists, stream));
    }
    if (turn.n < batch->n)
        RETURN_IF_FAILED(
            insert_further(cuda, view, batch, arrays, turn.n, &plan->all, workspace, slot->counts, stream));
    return finish(view, batch, op, arrays, slot, place, true);
}

/* *done: it went that way. Otherwise nothing has happened. */
loom_status build_by_partition(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch,
                               const cuda_call_arrays *arrays, bool *done)
{
    cuda_state *cuda = (cuda_state *)machine;
    const bool asked = (batch->flags & LOOM_BY_PARTITION) != 0;
    const bool staged_status = batch->status != NULL && arrays->all[CALL_STATUS].staged();
    build_plan plan;
    cuda_place place;
    cuda_slot *slot;
    *done = false;
    if (batch->flags & (LOOM_DIRECTLY | LOOM_LOW_MEMORY) || batch->n == 0 || (!asked && batch->n < LEAST_BY_PARTITION))
        return LOOM_OK;
    const bool possible = !staged_status && plan_build(cuda, view, batch->n, batch->status != NULL, &plan);
    RETURN_ERROR_IF(
        asked && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): it has a status array in host memory, or the table has "
        "too many partitions, or larger ones than the device's shared memory; build directly");
    if (!possible)
        return LOOM_OK;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    const cuda_workspace own = cuda_take_workspace(machine, plan.bytes, batch->stream, batch);
    RETURN_ERROR_IF(own.at == NULL && asked, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; build directly, or free other memory",
                    (unsigned long long)plan.bytes);
    if (own.at == NULL)
        return LOOM_OK;
    *done = true;
    loom_status status = cuda_take_slot(cuda, (cudaStream_t)batch->stream, &slot);
    if (status == LOOM_OK) {
        status = run_build(cuda, view, batch, arrays, &plan, own.at, slot, place);
        cuda_give_slot(cuda, (cudaStream_t)batch->stream, slot, status == LOOM_OK);
    }
    cuda_give_workspace(machine, &own, batch->stream);
    return status;
}

/* ---- in order ---- */

struct perfect_winners {
    cuda_state *cuda;
    const loom__perfect_view *view;
    const cuda_perfect_plan *plan;
    unsigned char *memory; /* for lists */
};

loom_status clear_for_winners(const void *argument, cudaStream_t stream)
{
    const perfect_winners *into = (const perfect_winners *)argument;
    return cuda_perfect_clear(&into->cuda->base, into->view, stream);
}

/* There are as many chunks as for all records: only the device knows how many winners there are. */
loom_status insert_winners(const void *argument, const cuda_batch *batch, const cuda_rest *winners, bool overwrite,
                           cudaStream_t stream)
{
    const perfect_winners *into = (const perfect_winners *)argument;
    const loom__slot_kind kind = (loom__slot_kind)into->view->kind;
    cuda_perfect_lists lists;
    CUDA_TRY(cuda_perfect_open_lists(into->plan, into->memory, &lists, stream));
    lists.length = winners->spilled;
    for (uint64_t first = 0; first < batch->n; first += into->plan->items) {
        cuda_batch chunk = *batch;
        chunk.keys = (const unsigned char *)winners->keys + first * slot_key_bytes(kind);
        if (winners->values != NULL)
            chunk.values = (const unsigned char *)winners->values + first * slot_value_bytes(kind);
        chunk.status = batch->status + first;
        chunk.found = NULL;
        chunk.found_values = NULL;
        chunk.n = batch->n - first < into->plan->items ? batch->n - first : into->plan->items;
        chunk.tile = cuda_tile_of(into->cuda, chunk.n);
        lists.first = first;
        CUDA_TRY(cuda_perfect_insert(into->view, &chunk, overwrite ? OP_OVERWRITE : OP_KEEP, &lists, stream));
    }
    return LOOM_OK;
}

/* Keys of a turn in order: positions have fewer bits there. */
uint64_t order_turn(const cuda_state *cuda, uint64_t n)
{
    return loom__turn_items(n, cuda->turn_keys < CUDA_ORDER_MOST ? cuda->turn_keys : CUDA_ORDER_MOST);
}

/* Turns in their order are what one in order would be: who comes in a later turn finds the key there, and keeps or overwrites it. */
loom_status run_in_order(cuda_state *cuda, const loom__perfect_view *view, const loom__batch *batch,
                         const cuda_call_arrays *arrays, const cuda_order_plan *order, const cuda_perfect_plan *plan,
                         unsigned char *workspace, cuda_slot *slot, cuda_place place)
{
    const cuda_op op = (cuda_op)batch->write;
    const uint64_t each = order_turn(cuda, batch->n);
    const perfect_winners into = {cuda, view, plan, workspace + aligned(order->bytes)};
    for (uint64_t first = 0; first < batch->n; first += each) {
        const uint64_t count = batch->n - first < each ? batch->n - first : each;
        const cuda_order_table table = {(loom__slot_kind)view->kind,
                                        batch->replace && first == 0 ? clear_for_winners : NULL, insert_winners, &into};
        void *at[CALL_ARRAYS];
        arrays->part(batch->n, first, count).addresses(at);
        const cuda_batch whole = cuda_batch_of(cuda, at, count, batch, slot->counts);
        RETURN_IF_FAILED(cuda_insert_in_order(cuda, &table, &whole, order, workspace, op == OP_OVERWRITE,
                                              (cudaStream_t)batch->stream));
    }
    return finish(view, batch, op, arrays, slot, place);
}

loom_status insert_in_order(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch,
                            const cuda_call_arrays *arrays)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const uint64_t each = order_turn(cuda, batch->n);
    cuda_order_plan order;
    cuda_perfect_plan plan;
    cuda_workspace own;
    cuda_slot *slot;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    CUDA_TRY(cuda_plan_in_order((loom__slot_kind)view->kind, each, arrays->all[CALL_VALUES].staged(),
                                arrays->all[CALL_STATUS].staged(), &order));
    RETURN_IF_FAILED(cuda_perfect_take_lists(machine, view, each, aligned(order.bytes), 0, batch, stream, &plan, &own));
    loom_status status = cuda_take_slot(cuda, stream, &slot);
    if (status == LOOM_OK) {
        status = run_in_order(cuda, view, batch, arrays, &order, &plan, own.at, slot, place);
        cuda_give_slot(cuda, stream, slot, status == LOOM_OK);
    }
    if (status != LOOM_OK && arrays->staged)
        cudaStreamSynchronize(stream); /* a copy of the caller's arrays may be under way */
    cuda_give_workspace(machine, &own, stream);
    return status;
}

/* ---- all of them ---- */

loom_status insert(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch)
{
    const cuda_op op = (cuda_op)batch->write;
    cuda_call_arrays arrays;
    ON_DEVICE((cuda_state *)machine);
    RETURN_IF_FAILED(locate_arrays((cuda_state *)machine, view, batch, &arrays)); /* before anything is cleared */
    const bool ordered = batch->values != NULL || batch->status != NULL;          /* of a set, only statuses tell */
    if (batch->flags & LOOM_IN_ORDER && ordered && batch->n > 0 && (op == OP_KEEP || op == OP_OVERWRITE))
        return insert_in_order(machine, view, batch, &arrays);
    bool done =
        false; /* a build goes by partition if that pays; otherwise the table is cleared, and keys are inserted */
    if (batch->replace)
        RETURN_IF_FAILED(build_by_partition(machine, view, batch, &arrays, &done));
    return done ? LOOM_OK : insert_directly(machine, view, batch, &arrays);
}

loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    const cuda_op op = (cuda_op)batch->write;
    RETURN_ERROR_IF(batch->captured, LOOM_UNSUPPORTED,
                    "a perfect table cannot be built in a captured stream; build outside of the graph");
    return inserts(op) ? insert(machine, view, batch) : run(machine, view, batch, op);
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    const uint64_t items = flags & LOOM_IN_ORDER ? order_turn((cuda_state *)machine, n) : most_at_once(n, flags);
    const uint64_t lists =
        n > 0 ? cuda_perfect_plan_lists((cuda_state *)machine, view, items, PERFECT_MOST_SPARES).bytes : 0;
    cuda_order_plan order = {};
    build_plan build;
    if (!(flags & (LOOM_IN_ORDER | LOOM_LOW_MEMORY)) && n > 0 &&
        plan_build((cuda_state *)machine, view, n, with_status != 0, &build))
        return build.bytes;
    if (!(flags & LOOM_IN_ORDER))
        return lists;
    const cuda_device_scope scope((cuda_state *)machine);
    if (scope.status != LOOM_OK || n == 0)
        return 0;
    if (cuda_plan_in_order((loom__slot_kind)view->kind, items, false, false, &order) != cudaSuccess)
        cudaGetLastError(); /* the call that needs the memory will tell */
    return aligned(order.bytes) + lists;
}

} // namespace

/* ---- lists ---- */

cuda_perfect_plan cuda_perfect_plan_lists(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n,
                                          uint32_t spares)
{
    enum { LEAST_TILE = 32 };
    cuda_perfect_plan plan = {};
    plan.items = n < PERFECT_MOST_ITEMS ? n : (uint64_t)PERFECT_MOST_ITEMS;
    plan.spares = spares < view->partitions ? spares : view->partitions;
    plan.spares = plan.spares < plan.items ? plan.spares : (uint32_t)plan.items;
    plan.spare_bytes = aligned(view->partition_bytes + view->words * (uint64_t)8);
    plan.repair_bytes = cuda_perfect_repair_bytes(view);
    plan.most_bytes = (uint32_t)cuda->shared_bytes - PERFECT_STATIC_BYTES;
    if (plan.repair_bytes > plan.most_bytes || PERFECT_WITHOUT_REPAIR)
        plan.repair_bytes = 0;
    /* Items are noted at random: the mean and some deviations; those of a refill come partition by partition. No more than slots: a byte
     * counts the keys that are planned for a bucket. */
    const double mean = (double)plan.items / view->partitions, room = 2 * mean + 8 * sqrt(mean) + 8;
    const double slots = PERFECT_SUBRANGES * view->subrange * perfect_slots((loom__slot_kind)view->kind);
    plan.most_pending = (uint32_t)fmin((double)view->partitions * PERFECT_MOST_BESIDE, PERFECT_MOST_ITEMS);
    if (PERFECT_WITHOUT_REPAIR == 2)
        plan.most_pending = PERFECT_MOST_ITEMS;
    if (PERFECT_WITHOUT_RECODE)
        plan.most_pending = 0;
    plan.room = (uint32_t)fmin(fmin(room, PERFECT_MOST_COMING), slots) / 8 * 8;
    const uint64_t each = aligned(view->partitions * sizeof(uint32_t));
    plan.counts_at = aligned(sizeof(cuda_perfect_counters));
    plan.heads_at = plan.counts_at + each;
    plan.touched_at = plan.heads_at + each;
    plan.crowded_at = plan.touched_at + each;
    plan.left_over_at = plan.crowded_at + each;
    plan.items_at = plan.left_over_at + each;
    plan.pending_at = plan.items_at + aligned((uint64_t)view->partitions * plan.room * sizeof(uint32_t));
    plan.next_at = plan.pending_at + aligned(plan.items * sizeof(uint32_t));
    plan.late_blocks_at = plan.next_at + aligned(plan.items * sizeof(uint32_t));
    plan.spare_at = plan.late_blocks_at + aligned(plan.items / (LEAST_TILE * PERFECT_WRITE_WARPS) + 1);
    plan.bytes = plan.spare_at + plan.spares * plan.spare_bytes;
    return plan;
}

loom_status cuda_perfect_take_lists(loom__machine *machine, const loom__perfect_view *view, uint64_t n, uint64_t before,
                                    uint64_t each, const loom__batch *batch, loom_stream stream,
                                    cuda_perfect_plan *plan, cuda_workspace *own)
{
    const cuda_state *cuda = (const cuda_state *)machine;
    *plan = cuda_perfect_plan_lists(cuda, view, n, PERFECT_MOST_SPARES);
    for (;;) { /* with less each time */
        const uint64_t bytes = before + each * plan->items + plan->bytes;
        *own = cuda_take_workspace(machine, bytes, stream, batch);
        if (own->at != NULL)
            return LOOM_OK;
        RETURN_ERROR_IF(
            plan->items <= PERFECT_LEAST_ITEMS && plan->spares <= 1, LOOM_OUT_OF_MEMORY,
            "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
            (unsigned long long)bytes);
        uint64_t items = plan->items;
        if (items > PERFECT_LEAST_ITEMS)
            items = items / 8 > PERFECT_LEAST_ITEMS ? items / 8 : (uint64_t)PERFECT_LEAST_ITEMS;
        *plan = cuda_perfect_plan_lists(cuda, view, items, plan->spares > 4 ? plan->spares / 4 : 1);
    }
}

cudaError_t cuda_perfect_open_lists(const cuda_perfect_plan *plan, unsigned char *memory, cuda_perfect_lists *lists,
                                    cudaStream_t stream)
{
    *lists = cuda_perfect_lists{};
    lists->counters = (cuda_perfect_counters *)memory;
    lists->counts = (uint32_t *)(memory + plan->counts_at);
    lists->heads = (uint32_t *)(memory + plan->heads_at);
    lists->touched = (uint32_t *)(memory + plan->touched_at);
    lists->crowded = (uint32_t *)(memory + plan->crowded_at);
    lists->left_over = (uint32_t *)(memory + plan->left_over_at);
    lists->items = (uint32_t *)(memory + plan->items_at);
    lists->pending = (uint32_t *)(memory + plan->pending_at);
    lists->next = (uint32_t *)(memory + plan->next_at);
    lists->room = plan->room;
    lists->repair_bytes = plan->repair_bytes;
    lists->most_bytes = plan->most_bytes;
    lists->least = PERFECT_LEAST_COMING;
    lists->most_pending = plan->most_pending;
    lists->late_blocks = memory + plan->late_blocks_at;
    lists->spare = memory + plan->spare_at;
    lists->spare_bytes = plan->spare_bytes;
    lists->spares = plan->spares;
    return cudaMemsetAsync(lists->counts, 0, plan->touched_at - plan->counts_at, stream); /* and heads */
}

cudaError_t cuda_perfect_insert(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                const cuda_perfect_lists *lists, cudaStream_t stream)
{
    cudaError_t error = cudaMemsetAsync(lists->counters, 0, sizeof *lists->counters, stream);
    if (error == cudaSuccess)
        error = cuda_perfect_launch_write(view, batch, op, lists, stream);
    if (error == cudaSuccess)
        error = cuda_perfect_launch_recode(view, batch, op, lists, stream);
    if (error == cudaSuccess && lists->repair_bytes > 0)
        error = cuda_perfect_launch_repair(view, batch, op, lists, stream);
    return error == cudaSuccess ? cuda_perfect_launch_room(view, batch, op, lists, stream) : error;
}

const loom__map_kernels cuda_perfect_kernels = {
    cuda_perfect_clear,
    cuda_perfect_reset_totals,
    find,
    write,
    NULL, /* insert_bulk: `write` chooses the way */
    bulk_bytes,
    NULL, /* bulk_pays */
    cuda_perfect_refill,
    cuda_perfect_retrieve,
    cuda_perfect_survey,
    NULL, /* upkeep: nothing wears out */
    NULL, /* fold_size: views only find */
    cuda_perfect_count_accesses,
};
