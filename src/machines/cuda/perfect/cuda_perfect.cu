/* Bulk calls on a perfect table: they bring arrays to the device, launch kernels, and return results.
 *
 * Lookups, updates and erasures do not change codes, so chunks of host arrays may overlap. If the device can reach the
 * arrays and the result, these calls return before the work is done. Insertions run in chunks, one after the other
 * (cuda_perfect.cuh); the size of a chunk bounds their memory. Insertions in order hold whole arrays in device memory
 * (cuda_in_order.cu). */
#include "machines/cuda/core/cuda_map_call.cuh"
#include "machines/cuda/core/cuda_whole.cuh"
#include "machines/cuda/perfect/cuda_perfect.cuh"
#include "machines/cuda/perfect/cuda_perfect_bulk.cuh"

#include <math.h>

namespace
{

const loom__perfect_view *view_of(const cuda_map_call *call)
{
    return static_cast<const loom__perfect_view *>(call->view);
}

/* ---- find, update, erase ---- */

cudaError_t launch(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    if (call->op == OP_FIND)
        return cuda_perfect_launch_find(call->cuda, view_of(call), batch, call->finish, stream);
    const cuda_perfect_chunk chunk = {*view_of(call), *batch, call->op, {}};
    return cuda_perfect_launch_write(&chunk, stream);
}

cudaError_t launch_parts(const cuda_map_call *call, cuda_parts *parts, cudaStream_t stream)
{
    return cuda_perfect_launch_parts(view_of(call), parts, stream);
}

loom_status run(loom__machine *machine, const void *any_view, const loom__batch *batch, cuda_op op)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    cuda_map_call call = cuda_map_call_on(machine, view, batch, op, launch);
    call.may_finish = op == OP_FIND;
    call.launch_parts = call.cuda->lanes == 0 ? launch_parts : NULL;
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call));
    return cuda_run_call(&call);
}

loom_status find(loom__machine *machine, const void *view, const loom__batch *batch)
{
    return run(machine, view, batch, OP_FIND);
}

/* A lookup reads one bucket, whether or not it finds the key: there is nothing to count. Tests verify this by counting
 * on the simulator and on the cpu machine. */
loom_status count_accesses(loom__machine *, const void *, const void *, uint64_t n, uint64_t *accesses, loom_stream)
{
    *accesses = n;
    return LOOM_OK;
}

/* ---- insertions ---- */

struct insert_call : cuda_map_call {
    const cuda_perfect_lists *lists;
};

cudaError_t launch_insert(const cuda_map_call *call, const cuda_batch *batch, cudaStream_t stream)
{
    return cuda_perfect_insert(view_of(call), batch, call->op, static_cast<const insert_call *>(call)->lists, stream);
}

/* Inserts all items of a call that has a ticket, without a split by partition. A build clears its table first. */
loom_status insert_items(const cuda_map_call *call, const cuda_perfect_plan *plan, unsigned char *memory)
{
    cuda_perfect_lists lists;
    insert_call own = {*call, &lists};
    own.launch = launch_insert;
    own.most = plan->items;
    if (call->batch.n > 0)
        CUDA_TRY(cuda_perfect_open_lists(call->cuda, view_of(call), plan, memory, &lists, call->stream));
    if (call->batch.replace)
        RETURN_IF_FAILED(cuda_perfect_clear(&call->cuda->base, call->view, call->stream));
    return cuda_run_items(&own, true);
}

/* Items per chunk, if there is memory for them. Entries of lists have 31 bits for an item (CUDA_PERFECT_LISTED). */
uint64_t most_at_once(uint64_t n, uint32_t flags)
{
    enum { LOW_MEMORY_ITEMS = 1 << 20, MOST_ITEMS = 1 << 30 };
    const uint64_t most = flags & LOOM_LOW_MEMORY ? LOW_MEMORY_ITEMS : MOST_ITEMS;
    return n < most ? n : most;
}

/* Inserts items into a table with any contents, without a split by partition. A build clears its table first. */
loom_status insert_directly(cuda_map_call *call)
{
    const uint64_t items = most_at_once(call->batch.n, call->batch.flags);
    cuda_perfect_plan plan = {};
    cuda_workspace own = {};
    RETURN_IF_FAILED(cuda_try_stage(call));
    if (call->batch.n > 0)
        RETURN_IF_FAILED(cuda_perfect_take_lists(&call->cuda->base, view_of(call), items, 0, 0, &call->batch,
                                                 call->stream, &plan, &own));
    return cuda_with_ticket(call, &own, [&] {
        RETURN_IF_FAILED(insert_items(call, &plan, own.at));
        return cuda_finish_call(call);
    });
}

/* ---- by partition ---- */

enum { LEAST_BY_PARTITION = 1 << 16 };

/* The memory of a build by partition: the split and the leftovers, then lists for the insertion of the leftovers. If
 * the build gives up, or has more keys than the first slice, the same memory is used for lists alone. A build finds the
 * codes of a partition for all of its keys together. So only the first slice is built, and all further keys are
 * inserted. */
struct build_plan {
    uint64_t keys; /* of the slice */
    perfect_bulk_plan bulk;
    cuda_perfect_plan left, all;
    uint64_t lists_at, bytes;
};

bool plan_build(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n, bool with_status, build_plan *plan)
{
    plan->keys = n < cuda->slice_keys ? n : cuda->slice_keys;
    if (!cuda_perfect_bulk_plan(cuda, view, plan->keys, with_status, &plan->bulk))
        return false;
    plan->left = cuda_perfect_plan_lists(cuda, view, max(plan->bulk.split.spill_room, plan->bulk.leftover_room),
                                         PERFECT_MOST_SPARES);
    plan->all = cuda_perfect_plan_lists(cuda, view, n, PERFECT_MOST_SPARES);
    plan->lists_at = cuda_aligned(plan->bulk.bytes);
    plan->bytes = max(plan->lists_at + plan->left.bytes, plan->all.bytes);
    return true;
}

__global__ void scatter_status_kernel(uint8_t *to, const uint8_t *from, const uint32_t *index, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[index[i]] = from[i];
}

/* Inserts records that were left over, `most` at a time. `index`: their places in the batch; NULL: statuses are not
 * wanted. With an index, `status` has room for n statuses. */
loom_status insert_leftover(const cuda_map_call *slice, const void *keys, const void *values, uint32_t n,
                            const uint32_t *index, uint8_t *status, const cuda_perfect_lists *lists, uint64_t most)
{
    enum { THREADS = 256 };
    const cuda_batch whole = slice->whole();
    for (uint64_t first = 0; first < n; first += most) {
        cuda_batch leftover = {};
        leftover.keys = (const unsigned char *)keys + first * slot_key_bytes(slice->kind);
        if (whole.values != NULL)
            leftover.values = (const unsigned char *)values + first * slot_value_bytes(slice->kind);
        leftover.status = index != NULL ? status + first : NULL;
        leftover.n = n - first < most ? n - first : most;
        leftover.tile = cuda_tile_of(slice->cuda, leftover.n);
        leftover.counts = whole.counts;
        CUDA_TRY(cuda_perfect_insert(view_of(slice), &leftover, slice->overwrites() ? OP_OVERWRITE : OP_KEEP, lists,
                                     slice->stream));
    }
    if (index != NULL && n > 0) {
        scatter_status_kernel<<<(n + THREADS - 1) / THREADS, THREADS, 0, slice->stream>>>(whole.status, status, index,
                                                                                          n);
        CUDA_TRY(cudaGetLastError());
    }
    return LOOM_OK;
}

/* Launches all steps up to the point where the host must know how many records are left over. */
loom_status launch_build(const cuda_map_call *slice, const perfect_bulk_plan *plan, unsigned char *workspace)
{
    const loom__perfect_view *view = view_of(slice);
    const bulk_target target = {view->base, view->seed, view->partitions, slice->kind};
    const cuda_batch whole = slice->whole();
    cudaStream_t stream = slice->stream;
    CUDA_TRY(split_begin(&plan->split, workspace, stream));
    CUDA_TRY(cudaMemsetAsync(cuda_perfect_leftovers(plan, workspace).count, 0, sizeof(uint32_t), stream));
    RETURN_IF_FAILED(cuda_split_items(slice, &target, &plan->split, workspace));
    CUDA_TRY(cuda_bulk_split_further(&target, &plan->split, workspace, 0, stream));
    CUDA_TRY(cuda_perfect_bulk_codes(slice->cuda, view, plan, workspace, stream));
    CUDA_TRY(cuda_perfect_bulk_place(slice->cuda, view, &whole, plan, workspace, slice->overwrites(), stream));
    return LOOM_OK;
}

/* Waits for the device, which alone knows how many records are left over. */
loom_status run_build(const cuda_map_call *call, const build_plan *plan, unsigned char *workspace)
{
    cudaStream_t stream = call->stream;
    const uint64_t n = call->batch.n;
    const cuda_spill spill = cuda_bulk_spill(call->kind, &plan->bulk.split, workspace);
    const perfect_leftovers left = cuda_perfect_leftovers(&plan->bulk, workspace);
    const cuda_map_call slice = cuda_slice_of(call, 0, plan->keys);
    uint32_t spilled = 0, over = 0;
    cuda_perfect_lists lists;
    RETURN_IF_FAILED(launch_build(&slice, &plan->bulk, workspace));
    CUDA_TRY(cudaMemcpyAsync(&spilled, spill.spilled, sizeof spilled, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaMemcpyAsync(&over, left.count, sizeof over, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
    if (spilled > spill.room || over > left.room) { /* gives up: skewed keys, or many equal ones */
        RETURN_IF_FAILED(cuda_clear_counts(call));
        RETURN_IF_FAILED(insert_items(call, &plan->all, workspace));
        return cuda_finish_call(call);
    }
    if (spilled + over > 0) {
        CUDA_TRY(cuda_perfect_open_lists(call->cuda, view_of(call), &plan->left, workspace + plan->lists_at, &lists,
                                         stream));
        lists.most_pending = 0; /* no step 2: keys that a build could not place are hard to place one by one, too */
        lists.least = 1;
        const uint64_t most = plan->left.items;
        RETURN_IF_FAILED(insert_leftover(&slice, spill.keys, spill.values, spilled, NULL, NULL, &lists, most));
        RETURN_IF_FAILED(insert_leftover(&slice, left.keys, left.values, over, left.index, left.status, &lists, most));
    }
    if (slice.batch.n < n) { /* inserts the other keys */
        const cuda_map_call further = cuda_slice_of(call, slice.batch.n, n);
        RETURN_IF_FAILED(insert_items(&further, &plan->all, workspace));
    }
    return cuda_finish_call(call, true);
}

/* *done: whether the batch was built by partition. If not, nothing has happened. */
loom_status build_by_partition(cuda_map_call *call, bool *done)
{
    const loom__batch *batch = &call->batch;
    const bool asked = call->asks(LOOM_BY_PARTITION);
    build_plan plan;
    cuda_workspace own;
    *done = false;
    if (call->asks(LOOM_DIRECTLY | LOOM_LOW_MEMORY) || batch->n == 0 || (!asked && batch->n < LEAST_BY_PARTITION))
        return LOOM_OK;
    const bool possible =
        !call->has_staged_status() && plan_build(call->cuda, view_of(call), batch->n, batch->status != NULL, &plan);
    RETURN_ERROR_IF(
        asked && !possible, LOOM_UNSUPPORTED,
        "the batch cannot go by partition (LOOM_BY_PARTITION): it has a status array in host memory, or the table has "
        "too many partitions, or larger ones than the device's shared memory; build directly");
    if (!possible)
        return LOOM_OK;
    RETURN_IF_FAILED(cuda_take_for_partitions(call, plan.bytes, &own));
    *done = own.at != NULL;
    return *done ? cuda_with_ticket(call, &own, [&] { return run_build(call, &plan, own.at); }) : LOOM_OK;
}

/* ---- in order ---- */

struct order_work {
    const cuda_map_call *call;
    cuda_perfect_plan plan;
    unsigned char *memory; /* for lists */
};

/* Launches chunks for all records, since only the device knows how many winners there are. */
loom_status insert_winners(const void *argument, const cuda_batch *batch, const cuda_spill *winners, bool overwrite,
                           cudaStream_t stream)
{
    const order_work *work = (const order_work *)argument;
    const cuda_map_call *call = work->call;
    const uint64_t most = work->plan.items;
    cuda_perfect_lists lists;
    CUDA_TRY(cuda_perfect_open_lists(call->cuda, view_of(call), &work->plan, work->memory, &lists, stream));
    lists.length = winners->spilled;
    for (uint64_t first = 0; first < batch->n; first += most) {
        cuda_batch chunk = *batch;
        chunk.keys = (const unsigned char *)winners->keys + first * slot_key_bytes(call->kind);
        if (winners->values != NULL)
            chunk.values = (const unsigned char *)winners->values + first * slot_value_bytes(call->kind);
        chunk.status = batch->status + first;
        chunk.found = NULL;
        chunk.found_values = NULL;
        chunk.n = batch->n - first < most ? batch->n - first : most;
        chunk.tile = cuda_tile_of(call->cuda, chunk.n);
        lists.first = first;
        CUDA_TRY(cuda_perfect_insert(view_of(call), &chunk, overwrite ? OP_OVERWRITE : OP_KEEP, &lists, stream));
    }
    return LOOM_OK;
}

loom_status insert_in_order(cuda_map_call *call)
{
    cuda_in_order_plan plan;
    cuda_workspace own;
    order_work work = {call, {}, NULL};
    const cuda_in_order_table table = {cuda_perfect_clear, insert_winners, NULL, &work};
    loom__batch_goes(&call->batch, LOOM_ROUTE_IN_ORDER);
    RETURN_IF_FAILED(cuda_plan_in_order(call, &plan));
    RETURN_IF_FAILED(cuda_perfect_take_lists(&call->cuda->base, view_of(call), plan.each, plan.bytes, 0, &call->batch,
                                             call->stream, &work.plan, &own));
    work.memory = own.at + plan.bytes;
    return cuda_insert_in_order(call, &table, &plan, &own);
}

/* ---- all of them ---- */

/* Whether an insertion into an empty table is done as a build, if there is memory for it. A build waits for the device
 * to count the leftovers, so only a call that waits anyway is a build. A build writes the whole table, so a batch that
 * would fill only a small share of it goes directly. The flags mean what they mean for insertions. */
bool is_like_build(const cuda_map_call *call)
{
    enum { LEAST_SHARE = 8 };
    const loom__perfect_view *view = view_of(call);
    const uint64_t made_for = (uint64_t)view->partitions * view->made_for;
    const bool waits = call->arrays.staged || call->place == PLACE_PAGEABLE;
    return call->batch.fresh && waits && (call->op == OP_KEEP || call->op == OP_OVERWRITE) &&
           call->batch.n >= made_for / LEAST_SHARE;
}

loom_status insert(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    cuda_map_call call = cuda_map_call_on(machine, view, batch, (cuda_op)batch->write, launch_insert);
    ON_DEVICE(call.cuda);
    RETURN_IF_FAILED(cuda_locate_call(&call)); /* before anything is cleared */
    if (call.goes_in_order() && batch->n > 0 && (call.op == OP_KEEP || call.op == OP_OVERWRITE))
        return insert_in_order(&call);
    bool done = false;
    if (is_like_build(&call)) {
        call.batch.replace = 1;
        call.batch.flags &= ~(uint32_t)LOOM_BY_PARTITION; /* an insertion may go directly, whatever it asks for */
    }
    if (call.batch.replace) /* by partition if that pays; otherwise the table is cleared, and keys are inserted */
        RETURN_IF_FAILED(build_by_partition(&call, &done));
    call.batch = *batch;
    if (done)
        loom__batch_goes(batch, LOOM_ROUTE_BY_PARTITION);
    return done ? LOOM_OK : insert_directly(&call);
}

loom_status write(loom__machine *machine, const void *view, const loom__batch *batch)
{
    const cuda_op op = (cuda_op)batch->write;
    RETURN_ERROR_IF(
        batch->captured, LOOM_UNSUPPORTED,
        "the stream is being captured into a graph, where nothing can write to a perfect table; make the call "
        "outside of the capture");
    return perfect_inserts(op) ? insert(machine, view, batch) : run(machine, view, batch, op);
}

uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    const cuda_state *cuda = (const cuda_state *)machine;
    const uint64_t items = flags & LOOM_IN_ORDER ? cuda_in_order_slice(cuda, n) : most_at_once(n, flags);
    const uint64_t lists = n > 0 ? cuda_perfect_plan_lists(cuda, view, items, PERFECT_MOST_SPARES).bytes : 0;
    build_plan build;
    if (!(flags & (LOOM_IN_ORDER | LOOM_LOW_MEMORY)) && n > 0 && plan_build(cuda, view, n, with_status != 0, &build))
        return build.bytes;
    if (!(flags & LOOM_IN_ORDER))
        return lists;
    const uint64_t order = cuda_in_order_bytes(cuda, (loom__slot_kind)view->kind, n);
    return order > 0 ? order + lists : 0;
}

uint64_t host_array_bytes(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__perfect_view *view = static_cast<const loom__perfect_view *>(any_view);
    return cuda_in_order_host_bytes((const cuda_state *)machine, (loom__slot_kind)view->kind, n);
}

} // namespace

/* ---- lists ---- */

/* Lays the lists out for chunks of at most plan->items, and puts the bytes that they need into *plan. Without memory it
 * only computes the bytes. */
static cuda_perfect_lists lay_out_lists(const cuda_state *cuda, const loom__perfect_view *view, cuda_perfect_plan *plan,
                                        unsigned char *memory)
{
    enum { LEAST_TILE = 32 };
    const uint32_t partitions = view->partitions;
    array_cutter cutter = {memory, 0};
    cuda_perfect_lists lists = {};
    lists.repair_bytes = cuda_perfect_repair_bytes(view);
    lists.most_bytes = perfect_most_shared(cuda);
    if (lists.repair_bytes > lists.most_bytes)
        lists.repair_bytes = 0;
    /* Room for the mean and some deviations, since items are noted at random; but items of a refill come partition by
     * partition. The room is not larger than the number of slots, since a byte counts the keys that are planned for a
     * bucket. */
    const double mean = (double)plan->items / partitions, room = 2 * mean + 8 * sqrt(mean) + 8;
    const double slots = PERFECT_SUBRANGES * view->subrange * perfect_slots((loom__slot_kind)view->kind);
    lists.room = (uint32_t)fmin(fmin(room, PERFECT_MOST_COMING), slots) / 8 * 8;
    lists.most_pending = (uint32_t)fmin((double)partitions * PERFECT_MOST_BESIDE, PERFECT_MOST_ITEMS);
    lists.least = PERFECT_LEAST_COMING;
    lists.spares = plan->spares;
    lists.spare_bytes = cuda_aligned(view->partition_bytes + view->words * (uint64_t)8);
    lists.counters = cutter.cut<cuda_perfect_counters>(1);
    lists.counts = cutter.cut<uint32_t>(partitions);
    lists.heads = cutter.cut<uint32_t>(partitions);
    lists.touched = cutter.cut<uint32_t>(partitions);
    lists.crowded = cutter.cut<uint32_t>(partitions);
    lists.left_over = cutter.cut<uint32_t>(partitions);
    lists.items = cutter.cut<uint32_t>((uint64_t)partitions * lists.room);
    lists.pending = cutter.cut<uint32_t>(plan->items);
    lists.next = cutter.cut<uint32_t>(plan->items);
    lists.late_blocks = cutter.cut<uint8_t>(plan->items / (LEAST_TILE * PERFECT_WRITE_WARPS) + 1);
    lists.spare = cutter.cut<unsigned char>(lists.spares * lists.spare_bytes);
    plan->bytes = cutter.bytes;
    return lists;
}

cuda_perfect_plan cuda_perfect_plan_lists(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n,
                                          uint32_t spares)
{
    cuda_perfect_plan plan = {};
    plan.items = min(n, (uint64_t)PERFECT_MOST_ITEMS);
    plan.spares = (uint32_t)min((uint64_t)min(spares, view->partitions), plan.items);
    (void)lay_out_lists(cuda, view, &plan, NULL);
    return plan;
}

loom_status cuda_perfect_take_lists(loom__machine *machine, const loom__perfect_view *view, uint64_t n, uint64_t before,
                                    uint64_t each, const loom__batch *batch, loom_stream stream,
                                    cuda_perfect_plan *plan, cuda_workspace *own)
{
    const cuda_state *cuda = (const cuda_state *)machine;
    *plan = cuda_perfect_plan_lists(cuda, view, n, PERFECT_MOST_SPARES);
    for (;;) { /* asks for less each time */
        const uint64_t bytes = before + each * plan->items + plan->bytes;
        *own = cuda_take_workspace(machine, bytes, stream, batch);
        if (own->at != NULL)
            return LOOM_OK;
        RETURN_ERROR_IF(
            plan->items <= PERFECT_LEAST_ITEMS && plan->spares <= 1, LOOM_OUT_OF_MEMORY,
            "%llu bytes of temporary memory could not be had; insert fewer keys at once, or free other memory",
            (unsigned long long)bytes);
        const uint64_t items = min(plan->items, max(plan->items / 8, (uint64_t)PERFECT_LEAST_ITEMS));
        *plan = cuda_perfect_plan_lists(cuda, view, items, plan->spares > 4 ? plan->spares / 4 : 1);
    }
}

cudaError_t cuda_perfect_open_lists(const cuda_state *cuda, const loom__perfect_view *view,
                                    const cuda_perfect_plan *plan, unsigned char *memory, cuda_perfect_lists *lists,
                                    cudaStream_t stream)
{
    cuda_perfect_plan same = *plan;
    *lists = lay_out_lists(cuda, view, &same, memory);
    return cudaMemsetAsync(lists->counts, 0, (lists->touched - lists->counts) * sizeof(uint32_t),
                           stream); /* counts, and heads behind them */
}

cudaError_t cuda_perfect_insert(const loom__perfect_view *view, const cuda_batch *batch, cuda_op op,
                                const cuda_perfect_lists *lists, cudaStream_t stream)
{
    static cuda_perfect_step *const steps[] = {cuda_perfect_launch_write, cuda_perfect_launch_recode,
                                               cuda_perfect_launch_repair, cuda_perfect_launch_room};
    const cuda_perfect_chunk chunk = {*view, *batch, op, *lists};
    cudaError_t error = cudaMemsetAsync(lists->counters, 0, sizeof *lists->counters, stream);
    for (cuda_perfect_step *step : steps)
        error = error == cudaSuccess ? step(&chunk, stream) : error;
    return error;
}

const loom__map_kernels cuda_perfect_kernels = {
    cuda_perfect_clear,
    cuda_perfect_reset_totals,
    find,
    write,
    NULL, /* insert_bulk: `write` chooses how to insert */
    bulk_bytes,
    NULL, /* bulk_pays */
    cuda_perfect_refill,
    cuda_retrieve_from<loom__perfect_view, perfect_table_slots>,
    cuda_perfect_survey,
    NULL, /* upkeep: erasures do not slow down lookups */
    NULL, /* fold_size: device views only find */
    count_accesses,
    cuda_perfect_erase_if,
    NULL, /* find_all, erase_pairs: multimaps */
    NULL,
    0,
    host_array_bytes,
    NULL, /* zero_free: kernels take no memory */
};
