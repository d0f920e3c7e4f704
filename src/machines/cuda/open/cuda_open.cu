/* Bulk calls on an open table: arrays where kernels can reach them, kernels, results.
 *
 * A call whose arrays are in device or managed memory goes in the caller's stream, and returns before the work is done if its
 * result, too, is where the device can write it. One with host arrays waits for its end; they come in chunks (cuda_call.cu).
 * Only those of a call in order come whole (cuda_in_order.cu).
 *
 * Batches go by partition, are sorted, and have their rows combined, in turns of cuda_state.turn_keys keys at most: the first turn of a
 * build replaces the table's contents, the others insert. Turns follow each other in the stream and use the same memory; counts
 * add up until the last one tells them. A key that was refused in one turn is refused in those behind it: its partition is full. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/open/cuda_open_bulk.cuh"

namespace
{

enum {
    /* From here on going by partition is faster, measured on an H200 (docs/performance.md): this many keys, and into tables
     * that hold keys one for so many slots (at load 0.8 from one for 16 on, at 0.53 from one for 10). */
    LEAST_BY_PARTITION = 1 << 18,
    SLOTS_BY_PARTITION = 10
};

cuda_launch *launcher(const cuda_state *cuda)
{
    switch (cuda->lanes) {
    case 1:
        return cuda_open_launch_1;
    case 4:
        return cuda_open_launch_4;
    case 8:
        return cuda_open_launch_8;
    default:
        return cuda_open_launch_2;
    }
}

/* ---- arrays ---- */

loom_status locate_arrays(const cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                          cuda_call_arrays *arrays)
{
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    return cuda_locate_arrays(cuda, slot_key_bytes(kind), slot_value_bytes(kind), batch, arrays);
}

/* A call whose arrays are staged, for its chunks. */
struct chunked_call {
    const cuda_state *cuda;
    const loom__open_view *view;
    const loom__batch *batch;
    cuda_op op;
    cuda_counts *counts;
    const bulk_plan *plan; /* of a split */
    unsigned char *workspace;
};

cudaError_t work_on_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                          cudaStream_t stream)
{
    const chunked_call *call = (const chunked_call *)argument;
    const cuda_batch batch = cuda_batch_of(call->cuda, at, count, call->batch, call->counts);
    (void)first;
    return launcher(call->cuda)(call->view, &batch, call->op, stream);
}

cudaError_t split_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                        cudaStream_t stream)
{
    const chunked_call *call = (const chunked_call *)argument;
    const cuda_batch batch = cuda_batch_of(call->cuda, at, count, call->batch, NULL);
    const bulk_target target = open_bulk_target(call->view);
    return cuda_bulk_split(&target, &batch, first, call->plan, call->workspace, stream);
}

loom_status run_staged(cuda_state *cuda, const loom__open_view *view, const cuda_call_arrays *arrays,
                       const loom__batch *batch, cuda_op op, cuda_counts *counts, cudaStream_t stream)
{
    chunked_call call = {cuda, view, batch, op, counts, NULL, NULL};
    return cuda_run_staged(cuda, arrays, batch->n, work_on_chunk, &call, true, stream);
}

/* Chunks are split as they arrive, and that is all: there is nothing to bring home. */
loom_status split_staged(cuda_state *cuda, const loom__open_view *view, const cuda_call_arrays *arrays,
                         const loom__batch *batch, const bulk_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    chunked_call call = {cuda, view, batch, (cuda_op)batch->write, NULL, plan, workspace};
    return cuda_run_staged(cuda, arrays, batch->n, split_chunk, &call, false, stream);
}

/* ---- calls ---- */

cuda_batch whole_batch(const cuda_state *cuda, const cuda_call_arrays *arrays, const loom__batch *batch,
                       cuda_counts *counts)
{
    void *at[CALL_ARRAYS];
    arrays->addresses(at);
    return cuda_batch_of(cuda, at, batch->n, batch, counts);
}

cuda_finish finish_of(const loom__open_view *view, const loom__batch *batch, cuda_op op, const cuda_slot *slot,
                      cuda_place place)
{
    return {
        slot->counts, &view->totals->size, place == PLACE_PAGEABLE ? slot->result : batch->result, batch->n, op, false,
        NULL};
}

/* What was counted becomes the result, where the caller wants it; waits if it must. */
loom_status finish(const loom__open_view *view, const loom__batch *batch, cuda_op op, const cuda_call_arrays *arrays,
                   cuda_slot *slot, cuda_place place, bool replaced = false)
{
    cuda_finish how = finish_of(view, batch, op, slot, place);
    how.replaced = replaced;
    CUDA_TRY(cuda_launch_finish(how, (cudaStream_t)batch->stream));
    return cuda_hand_over(batch, arrays, slot, place);
}

/* Items first .. first + count - 1 of a batch on the device, whose arrays are those of `call`. */
cuda_batch part_of_batch(const cuda_state *cuda, const cuda_call_arrays *arrays, const loom__batch *call,
                         uint64_t first, uint64_t count, cuda_counts *counts)
{
    void *at[CALL_ARRAYS];
    arrays->part(call->n, first, count).addresses(at);
    return cuda_batch_of(cuda, at, count, call, counts);
}

/* Rows with many equal keys; not done: they had better go to the table one by one. */
loom_status combine(cuda_state *cuda, const loom__open_view *view, const cuda_call_arrays *arrays,
                    const loom__batch *call, cuda_counts *counts, cudaStream_t stream, bool *done)
{
    const uint64_t each = loom__turn_items(call->n, cuda->turn_keys);
    bulk_plan plan;
    cuda_workspace own = {};
    cudaError_t error = cudaSuccess;
    cuda_batch batch = part_of_batch(cuda, arrays, call, 0, each, counts);
    cuda_combine_way way = batch.status != NULL ? COMBINE_NOT : cuda_open_combine_way(cuda, view, &batch, &plan);
    if (way == COMBINE_SPLIT)
        own = cuda_take_workspace(&cuda->base, plan.bytes, stream, NULL); /* calls that accumulate may overlap */
    *done = way == COMBINE_SLICES || own.at != NULL;
    if (!*done)
        return LOOM_OK;
    for (uint64_t first = 0; first < call->n && error == cudaSuccess; first += each) {
        batch = part_of_batch(cuda, arrays, call, first, call->n - first < each ? call->n - first : each, counts);
        error = cuda_step(cuda_open_combine(cuda, view, &batch, own.at != NULL ? &plan : NULL, own.at, stream));
    }
    cuda_give_workspace(&cuda->base, &own, stream);
    return error == cudaSuccess ? LOOM_OK : cuda_failed(error, "combining rows");
}

loom_status run_counted(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch, cuda_op op,
                        const cuda_call_arrays *arrays, cuda_slot *slot)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    if (arrays->staged) {
        RETURN_IF_FAILED(run_staged(cuda, view, arrays, batch, op, slot->counts, stream));
    } else if (batch->n > 0) {
        cuda_batch whole = whole_batch(cuda, arrays, batch, slot->counts);
        bool done = false;
        if (op == OP_COMBINE)
            RETURN_IF_FAILED(combine(cuda, view, arrays, batch, slot->counts, stream, &done));
        if (!done)
            CUDA_TRY(launcher(cuda)(view, &whole, op, stream));
    }
    return finish(view, batch, op, arrays, slot, place);
}

loom_status run(loom__machine *machine, const loom__open_view *view, const loom__batch *batch, cuda_op op)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    cuda_call_arrays arrays;
    cuda_slot *slot;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(locate_arrays(cuda, view, batch, &arrays));
    if (op == OP_FIND && batch->uncounted) { /* `result` is the library's own, and only its status is looked at */
        if (arrays.staged) {
            RETURN_IF_FAILED(run_staged(cuda, view, &arrays, batch, op, NULL, stream));
        } else if (batch->n > 0) {
            cuda_batch whole = whole_batch(cuda, &arrays, batch, NULL);
            CUDA_TRY(launcher(cuda)(view, &whole, op, stream));
            CUDA_TRY(cudaStreamSynchronize(stream));
        }
        batch->result->status = LOOM_OK;
        return LOOM_OK;
    }
    RETURN_IF_FAILED(cuda_take_slot(cuda, stream, &slot));
    loom_status status = run_counted(cuda, view, batch, op, &arrays, slot);
    cuda_give_slot(cuda, stream, slot, status == LOOM_OK);
    return status;
}

loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    return run(machine, view, batch, OP_FIND);
}

loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    return run(machine, view, batch, (cuda_op)batch->write);
}

/* ---- by partition ---- */

bulk_wish wish_for(const loom__open_view *view, uint64_t n, uint32_t flags, bool replace, bool with_status)
{
    bulk_wish wish = {};
    wish.n = n;
    wish.keys = bulk_slots(view);
    wish.in_order = (flags & LOOM_IN_ORDER) != 0;
    wish.with_index = with_status || wish.in_order;
    wish.replace = replace;
    wish.low_memory = replace && (flags & LOOM_LOW_MEMORY) != 0 && !wish.in_order;
    return wish;
}

/* A batch by partition, not in order: the first turn, and what further ones have in common. */
struct bulk_turns {
    uint64_t each; /* keys of a turn, the last one excepted */
    bulk_wish wish[2];
    bulk_plan plan[2];
    uint64_t bytes; /* of the workspace, which all turns use */
};

/* False if that is beyond the kernels. With little memory there is one turn: the table's own memory, which is free then, is free but once. */
bool plan_turns(const cuda_state *cuda, const loom__open_view *view, uint64_t n, uint32_t flags, bool replace,
                bool with_status, bulk_turns *turns)
{
    turns->each = loom__turn_items(n, cuda->turn_keys);
    for (int i = 0; i < 2; i++) {
        turns->wish[i] = wish_for(view, turns->each, flags & ~(uint32_t)LOOM_IN_ORDER, replace && i == 0, with_status);
        turns->plan[i] = bulk_plan{};
    }
    if (!cuda_open_bulk_plan(cuda, view, &turns->wish[0], &turns->plan[0]))
        return false;
    turns->bytes = turns->plan[0].bytes;
    if (turns->each == n)
        return true;
    if (turns->wish[0].low_memory || !cuda_open_bulk_plan(cuda, view, &turns->wish[1], &turns->plan[1]))
        return false;
    turns->bytes = turns->plan[1].bytes > turns->bytes ? turns->plan[1].bytes : turns->bytes;
    return true;
}

/* One turn: `batch` and `arrays` are the turn's. Tells nothing, unless `how` is there: the last block of the last kernel does. In
 * order, the turn may turn out not to be one for this way: *gave_up, then the table has no keys. */
loom_status run_turn(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                     const cuda_call_arrays *arrays, const bulk_wish *wish, const bulk_plan *plan,
                     unsigned char *workspace, cuda_slot *slot, const cuda_finish *how, bool *gave_up)
{
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const cuda_op op = (cuda_op)batch->write;
    cuda_batch whole = whole_batch(cuda, arrays, batch, slot->counts);
    const bulk_target target = open_bulk_target(view);
    cuda_rest rest = cuda_bulk_rest(target.kind, plan, workspace);
    uint32_t spilled = 0;
    CUDA_TRY(split_begin(plan, workspace, stream));
    if (arrays->staged)
        RETURN_IF_FAILED(split_staged(cuda, view, arrays, batch, plan, workspace, stream));
    else if (batch->n > 0) /* a grid has blocks */
        CUDA_TRY(cuda_bulk_split(&target, &whole, 0, plan, workspace, stream));
    CUDA_TRY(cuda_open_bulk_build(cuda, view, &whole, plan, workspace, wish, op == OP_OVERWRITE, stream));
    if (arrays->staged || wish->in_order) {
        CUDA_TRY(cudaMemcpyAsync(&spilled, rest.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    }
    *gave_up = wish->in_order && spilled > rest.room;
    if (wish->in_order)
        return LOOM_OK;
    if (arrays->staged && spilled > rest.room) /* the split gave up */
        return run_staged(cuda, view, arrays, batch, op, slot->counts, stream);
    CUDA_TRY(cuda_open_launch_rest(cuda, view, &whole, &rest, op == OP_OVERWRITE, how, stream));
    return LOOM_OK;
}

loom_status run_by_partition(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                             const cuda_call_arrays *arrays, const bulk_turns *turns, unsigned char *workspace,
                             cuda_slot *slot)
{
    const cuda_op op = (cuda_op)batch->write;
    const bool at_last = !arrays->staged && batch->n > 0; /* the last kernel tells: one launch less */
    cuda_place place;
    bool gave_up;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    cuda_finish how = finish_of(view, batch, op, slot, place);
    how.replaced = batch->replace != 0;
    how.arrived = split_arrived(workspace);
    uint64_t first = 0;
    do { /* a build of no keys has a turn, too */
        loom__batch turn = *batch;
        turn.n = batch->n - first < turns->each ? batch->n - first : turns->each;
        turn.replace = batch->replace && first == 0;
        const cuda_call_arrays here = arrays->part(batch->n, first, turn.n);
        const bool last = first + turn.n == batch->n;
        const int which = first > 0;
        RETURN_IF_FAILED(run_turn(cuda, view, &turn, &here, &turns->wish[which], &turns->plan[which], workspace, slot,
                                  last && at_last ? &how : NULL, &gave_up));
        first += turn.n;
    } while (first < batch->n);
    return at_last ? cuda_hand_over(batch, arrays, slot, place)
                   : finish(view, batch, op, arrays, slot, place, batch->replace != 0);
}

/* As direct insertion, but for the way: the table is cleared, and the keys are inserted one by one. */
loom_status insert_directly(loom__machine *machine, const loom__open_view *view, const loom__batch *batch, bool staged)
{
    cuda_place place; /* what may fail comes before the table is cleared */
    RETURN_IF_FAILED(cuda_locate((cuda_state *)machine, "result", batch->result, &place));
    if (batch->replace && staged) {
        RETURN_IF_FAILED(cuda_stage_enter((cuda_state *)machine));
        cuda_stage_leave((cuda_state *)machine);
    }
    if (batch->replace)
        RETURN_IF_FAILED(cuda_open_clear(machine, view, batch->stream));
    return write(machine, view, batch);
}

/* ---- in order ---- */

struct open_winners {
    cuda_state *cuda;
    const loom__open_view *view;
};

loom_status clear_for_winners(const void *argument, cudaStream_t stream)
{
    const open_winners *into = (const open_winners *)argument;
    return cuda_open_clear(&into->cuda->base, into->view, stream);
}

loom_status insert_winners(const void *argument, const cuda_batch *batch, const cuda_rest *winners, bool overwrite,
                           cudaStream_t stream)
{
    const open_winners *into = (const open_winners *)argument;
    CUDA_TRY(cuda_open_launch_rest(into->cuda, into->view, batch, winners, overwrite, NULL, stream));
    return LOOM_OK;
}

/* One turn, sorted: `batch` and `arrays` are the turn's. Tells nothing. */
loom_status run_sorted(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                       const cuda_call_arrays *arrays, const cuda_order_plan *plan, unsigned char *workspace,
                       cuda_slot *slot)
{
    cuda_batch whole = whole_batch(cuda, arrays, batch, slot->counts);
    const open_winners into = {cuda, view};
    const cuda_order_table table = {(loom__slot_kind)view->kind, batch->replace ? clear_for_winners : NULL,
                                    insert_winners, &into};
    return cuda_insert_in_order(cuda, &table, &whole, plan, workspace, batch->write == LOOM__WRITE_OVERWRITE,
                                (cudaStream_t)batch->stream);
}

loom_status clear_counts(const cuda_slot *slot, cudaStream_t stream)
{
    CUDA_TRY(cudaMemsetAsync(slot->counts, 0, COUNT_BYTES, stream));
    return LOOM_OK;
}

/* Keys of a turn in order: positions have fewer bits there. */
uint64_t order_turn(const cuda_state *cuda, uint64_t n)
{
    return loom__turn_items(n, cuda->turn_keys < CUDA_ORDER_MOST ? cuda->turn_keys : CUDA_ORDER_MOST);
}

/* `fast`: how the first turn goes by partition; NULL: it does not. Turns in their order are what one in order would be: who comes in a
 * later turn finds the key there, and keeps or overwrites it. */
loom_status run_in_order(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                         const cuda_call_arrays *arrays, const bulk_wish *wish, const bulk_plan *fast,
                         const cuda_order_plan *plan, unsigned char *workspace, cuda_slot *slot)
{
    const uint64_t each = order_turn(cuda, batch->n);
    cuda_place place;
    bool built = false;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    for (uint64_t first = 0; first < batch->n; first += each) {
        loom__batch turn = *batch;
        turn.n = batch->n - first < each ? batch->n - first : each;
        turn.replace = batch->replace && first == 0;
        const cuda_call_arrays here = arrays->part(batch->n, first, turn.n);
        bool sorts = fast == NULL || first > 0;
        if (!sorts) {
            RETURN_IF_FAILED(run_turn(cuda, view, &turn, &here, wish, fast, workspace, slot, NULL, &sorts));
            built = !sorts;
            if (sorts) /* what was counted by then is counted again */
                RETURN_IF_FAILED(clear_counts(slot, (cudaStream_t)batch->stream));
        }
        if (sorts)
            RETURN_IF_FAILED(run_sorted(cuda, view, &turn, &here, plan, workspace, slot));
    }
    return finish(view, batch, (cuda_op)batch->write, arrays, slot, place, built);
}

/* By partition if that can be, otherwise sorted. There is memory for both: after giving up one cannot go back. */
loom_status insert_in_order(loom__machine *machine, const loom__open_view *view, const loom__batch *batch,
                            const cuda_call_arrays *arrays)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)batch->stream;
    const bool asked = (batch->flags & LOOM_BY_PARTITION) != 0;
    const uint64_t each = order_turn(cuda, batch->n);
    const bulk_wish wish = wish_for(view, each, batch->flags, batch->replace != 0, false);
    bulk_plan fast;
    cuda_order_plan plan;
    cuda_slot *slot;
    if (batch->n == 0)
        return insert_directly(machine, view, batch, arrays->staged);
    bool by_partition = batch->replace && batch->status == NULL && batch->values != NULL && each <= wish.keys &&
                        (asked || batch->n >= LEAST_BY_PARTITION) && cuda_open_bulk_plan(cuda, view, &wish, &fast);
    CUDA_TRY(cuda_plan_in_order((loom__slot_kind)view->kind, each, arrays->all[CALL_VALUES].staged(),
                                arrays->all[CALL_STATUS].staged(), &plan));
    const uint64_t bytes = by_partition && fast.bytes > plan.bytes ? fast.bytes : plan.bytes;
    const cuda_workspace own = cuda_take_workspace(machine, bytes, stream, batch);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
                    (unsigned long long)bytes);
    loom_status status = cuda_take_slot(cuda, stream, &slot);
    if (status == LOOM_OK) {
        status = run_in_order(cuda, view, batch, arrays, &wish, by_partition ? &fast : NULL, &plan, own.at, slot);
        cuda_give_slot(cuda, stream, slot, status == LOOM_OK);
    }
    if (status != LOOM_OK && arrays->staged)
        cudaStreamSynchronize(stream); /* a copy of the caller's arrays may be under way */
    cuda_give_workspace(machine, &own, stream);
    return status;
}

/* ---- into a graph ---- */

/* A build whose stream is being captured: nothing waits, nothing is allocated, and all that it changes lies in the table, the
 * caller's workspace and the result, so that the graph may be replayed. What calls share between them is not used: counts lie
 * at the end of the workspace. */
loom_status capture_build(cuda_state *cuda, const loom__open_view *view, const loom__batch *batch,
                          const cuda_call_arrays *arrays)
{
    bulk_turns turns;
    cuda_place place;
    RETURN_IF_FAILED(cuda_locate(cuda, "result", batch->result, &place));
    RETURN_ERROR_IF(arrays->staged || place == PLACE_PAGEABLE || batch->flags & (LOOM_IN_ORDER | LOOM_DIRECTLY) ||
                        !plan_turns(cuda, view, batch->n, batch->flags, true, batch->status != NULL, &turns),
                    LOOM_UNSUPPORTED,
                    "the stream is being captured into a graph: there a build goes by partition, neither in order nor "
                    "directly, and has its arrays and its result where the device reaches them; change that, or build "
                    "outside of the capture");
    const uint64_t bytes = turns.bytes + COUNT_BYTES;
    RETURN_ERROR_IF(
        batch->workspace == NULL || batch->workspace_bytes < bytes, LOOM_OUT_OF_MEMORY,
        "the stream is being captured into a graph, which needs a workspace of %llu bytes; give the table one "
        "(loom_map_set_workspace)",
        (unsigned long long)bytes);
    cuda_slot slot = {};
    slot.counts = (cuda_counts *)((unsigned char *)batch->workspace + turns.bytes);
    RETURN_IF_FAILED(clear_counts(&slot, (cudaStream_t)batch->stream));
    return run_by_partition(cuda, view, batch, arrays, &turns, (unsigned char *)batch->workspace, &slot);
}

/* ---- all of them ---- */

loom_status insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    cuda_call_arrays arrays;
    bulk_turns turns;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(locate_arrays(cuda, view, batch, &arrays)); /* before anything is cleared */
    if (batch->captured)
        return capture_build(cuda, view, batch, &arrays);
    const bool ordered = batch->values != NULL || batch->status != NULL; /* of a set, only statuses tell */
    if (batch->flags & LOOM_IN_ORDER && ordered)
        return insert_in_order(machine, view, batch, &arrays);
    const bool asked = batch->flags & LOOM_BY_PARTITION,
               staged_status = batch->status != NULL && arrays.all[CALL_STATUS].staged();
    const bool possible =
        plan_turns(cuda, view, batch->n, batch->flags, batch->replace != 0, batch->status != NULL, &turns) &&
        !staged_status;
    RETURN_ERROR_IF(
        asked && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): it has a status array in host memory, too many keys "
        "for little memory, or the table has too many partitions, or larger ones than the device's shared memory; "
        "insert directly");
    if (!possible || batch->flags & LOOM_DIRECTLY || (!asked && batch->n < LEAST_BY_PARTITION))
        return insert_directly(machine, view, batch, arrays.staged);
    const cuda_workspace own = cuda_take_workspace(machine, turns.bytes, batch->stream, batch);
    RETURN_ERROR_IF(own.at == NULL && asked, LOOM_OUT_OF_MEMORY,
                    "%llu bytes of temporary memory could not be had; insert directly, or free other memory",
                    (unsigned long long)turns.bytes);
    if (own.at == NULL)
        return insert_directly(machine, view, batch, arrays.staged);
    cuda_slot *slot;
    loom_status status = cuda_take_slot(cuda, (cudaStream_t)batch->stream, &slot);
    if (status == LOOM_OK) {
        status = run_by_partition(cuda, view, batch, &arrays, &turns, own.at, slot);
        cuda_give_slot(cuda, (cudaStream_t)batch->stream, slot, status == LOOM_OK);
    }
    cuda_give_workspace(machine, &own, batch->stream);
    return status;
}

/* One warp: what kernels of users have added. */
__global__ void fold_kernel(loom__totals *totals, loom__open_added *added)
{
    unsigned long long keys = added[threadIdx.x].keys;
    added[threadIdx.x].keys = 0;
    if (keys != 0)
        atomicAdd((unsigned long long *)&totals->size, keys);
}

static_assert(OPEN_ADDED_COPIES == 32, "one lane for each");

loom_status fold_size(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    ON_DEVICE((cuda_state *)machine);
    fold_kernel<<<1, OPEN_ADDED_COPIES, 0, (cudaStream_t)stream>>>(view->totals, view->added);
    CUDA_TRY(cudaGetLastError());
    return LOOM_OK;
}

int bulk_pays(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    const uint64_t each =
        loom__turn_items(n, ((cuda_state *)machine)->turn_keys); /* each turn goes through the table */
    return n >= LEAST_BY_PARTITION && each >= bulk_slots(view) / SLOTS_BY_PARTITION;
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    bulk_turns turns; /* of small batches, too: LOOM_BY_PARTITION may be asked for */
    bulk_plan fast;
    cuda_order_plan order = {};
    const cuda_device_scope scope(cuda);
    if (!(flags & LOOM_IN_ORDER)) /* COUNT_BYTES: of builds that are captured */
        return plan_turns(cuda, view, n, flags, true, with_status != 0, &turns) ? turns.bytes + COUNT_BYTES : 0;
    if (scope.status != LOOM_OK || n == 0)
        return 0;
    const uint64_t each = order_turn(cuda, n);
    const bulk_wish wish = wish_for(view, each, flags, true, with_status != 0);
    const uint64_t bytes = cuda_open_bulk_plan(cuda, view, &wish, &fast) ? fast.bytes + COUNT_BYTES : 0;
    if (cuda_plan_in_order((loom__slot_kind)view->kind, each, false, false, &order) != cudaSuccess)
        cudaGetLastError(); /* the call that needs the memory will tell */
    return order.bytes > bytes ? order.bytes : bytes;
}

} // namespace

const loom__map_kernels cuda_open_kernels = {
    cuda_open_clear,
    cuda_open_reset_totals,
    find,
    write,
    insert_bulk,
    bulk_bytes,
    bulk_pays,
    cuda_open_refill,
    cuda_open_retrieve,
    cuda_open_survey,
    cuda_open_upkeep,
    fold_size,
    cuda_open_count_accesses,
};
