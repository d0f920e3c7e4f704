/* Bulk calls on tables with rows in host memory.
 *
 * The lines of tags lie on the device, so they decide without the host: a key whose tag is nowhere on its probe
 * sequence is absent, and a new key takes a slot. Rows are reached by one of four routes (core/row_plan.h). A lookup
 * first asks the tags alone (cuda_rows_seek) and plans for the rows of the keys that they did not answer.
 *
 *   direct    the kernels of tables on the device, which reach over the link
 *   ordered   the items are sorted by granule, some partitions that lie together: as precisely as 1 / MOST_GRANULES of
 *             the table. Their keys and values are taken out in this order, pass through the same kernels, and the
 *             answers are put back
 *   streamed  a granule is a window: partitions whose rows fit a buffer. The window's rows are copied to the buffer;
 *             the same kernels run with a view whose rows lie there; if they change rows, the rows are copied back. A
 *             window without keys is not copied in. ROW_STREAMS windows are under way at once, so copies in both
 *             directions and kernels overlap
 *   gathered  cuda_row_gather.cu
 *
 * A batch is sorted in groups of neighbouring granules, each of about GROUP_ITEMS items. So memory for sorting is
 * bounded, and while the rows of one group are on their way the next group is sorted. Each group costs a pass over the
 * granules of all items, 2 bytes each.
 *
 * Kernels of one call that run at the same time treat each other as thread blocks of one kernel do (open_ops.h). No
 * copy moves rows on which a kernel works: a window comes, is worked on and goes one after the other
 * (row_pipeline_pass). Host threads read rows only for lookups, beside which no call writes.
 *
 * A route that finds no temporary memory takes fewer items at once, and in the end goes directly.
 *
 * All temporary memory on the device comes from route_call.staging, which may have a bound (row_plan.h tells how it is
 * shared out). A call with a bound goes in parts of so many items that their lists fit, and each part has a plan of its
 * own. */
#include "machines/cuda/core/cuda_measure.cuh"
#include "machines/cuda/rows/cuda_row_groups.cuh"

#include <stdlib.h>

namespace
{

enum { GROUP_ITEMS = 1 << 25 };

const uint64_t MOST_ITEMS = UINT32_MAX; /* of a call: their numbers have 32 bits */

/* ---- one call ---- */

/* Arrays for the items that pass through a kernel at once, and a buffer for a window's rows. */
struct item_set {
    unsigned char *keys, *values, *found_values, *found, *status, *rows[2];
    cudaStream_t stream;
};

struct route_call {
    cuda_state *cuda;
    const cuda_map_call *call;
    const loom__rows_view *view;
    const cuda_batch *batch; /* of lookups: the part that is under way */
    cuda_op op;
    cudaStream_t stream;
    row_arrays arrays;
    uint32_t value_bytes;           /* of the values that are given */
    uint32_t per_window, windows;   /* partitions of a window */
    uint32_t per_granule, granules; /* likewise; sorting by them is enough for the ordered route */
    uint64_t window_bytes[2];       /* of the buffers; 0 without windows */
    uint64_t least_items;           /* that pass through a kernel at once, if arrays are taken out */
    uint64_t most_items;            /* of a set */
    item_set sets[ROW_STREAMS];
    row_pipeline pipeline;
    cuda_row_staging staging;
    bool has_windows; /* the smallest ones fit the staging */
    bool all_windows; /* of a build: rows that stay free become zero */
    bool may_stream;  /* there is memory for windows; and a call that changes rows has the table alone */
    bool replaces;    /* a build whose rows are not cleared yet */
    bool first;       /* no part of a call that writes came before */

    bool finds() const
    {
        return op == OP_FIND;
    }
    bool writes_rows() const
    {
        return op != OP_FIND && op != OP_ERASE;
    }
};

/* Which items of the batch a route has to bring to their rows. */
struct route_items {
    uint32_t *items; /* [count]; NULL: all items of the batch */
    uint64_t *rows;  /* [count] numbers of their rows, of lookups */
    uint64_t count;
};

/* Memory of a lookup that asks the tags. */
struct sought_memory {
    cuda_sought_rows sought, left; /* `left`: keys whose rows hold other keys */
};

uint64_t lay_out_sought(uint64_t n, unsigned char *at, sought_memory *memory)
{
    cuda_layout layout = {0};
    for (cuda_sought_rows *rows : {&memory->sought, &memory->left}) {
        rows->count = (unsigned long long *)(at + layout.add(sizeof *rows->count));
        rows->items = (uint32_t *)(at + layout.add(n * sizeof *rows->items));
        rows->rows = (uint64_t *)(at + layout.add(n * sizeof *rows->rows));
    }
    return layout.bytes;
}

/* Lays the sets out. Returns their bytes. */
uint64_t lay_out_sets(route_call *call, unsigned char *at)
{
    const cuda_batch *batch = call->batch;
    const uint64_t n = call->most_items;
    cuda_layout layout = {0};
    for (item_set &set : call->sets) {
        set.keys = at + layout.add(n * call->view->key_bytes);
        set.values = at + layout.add(batch->values != NULL ? n * call->value_bytes : 0);
        set.found_values = at + layout.add(batch->found_values != NULL ? n * call->view->value_bytes : 0);
        set.found = at + layout.add(batch->found != NULL ? n : 0);
        set.status = at + layout.add(batch->status != NULL ? n : 0);
        for (int i = 0; i < call->arrays.count; i++)
            set.rows[i] = at + layout.add(call->window_bytes[i]);
    }
    return layout.bytes;
}

/* ---- some items ---- */

/* Runs the call's work on `count` items, in stream set.stream. */
cudaError_t run_items(const route_call &call, const loom__rows_view &view, const item_set &set, const uint32_t *items,
                      uint64_t count)
{
    const cuda_batch *batch = call.batch;
    const uint32_t key_bytes = view.key_bytes, value_bytes = view.value_bytes;
    cuda_batch own = *batch;
    RETURN_IF_CUDA_FAILED(cuda_move_items<false>(set.keys, batch->keys, key_bytes, items, count, set.stream));
    RETURN_IF_CUDA_FAILED(
        cuda_move_items<false>(set.values, batch->values, call.value_bytes, items, count, set.stream));
    own.keys = set.keys;
    own.values = batch->values != NULL ? set.values : NULL;
    own.found_values = batch->found_values != NULL ? set.found_values : NULL;
    own.found = batch->found != NULL ? set.found : NULL;
    own.status = batch->status != NULL ? set.status : NULL;
    own.n = count;
    own.tile = cuda_tile_of(call.cuda, count);
    RETURN_IF_CUDA_FAILED(call.finds() ? cuda_rows_find(&view, &own, NULL, set.stream)
                                       : cuda_rows_write(&view, &own, call.op, NULL, set.stream));
    RETURN_IF_CUDA_FAILED(
        cuda_move_items<true>(batch->found_values, own.found_values, value_bytes, items, count, set.stream));
    RETURN_IF_CUDA_FAILED(cuda_move_items<true>(batch->found, own.found, 1, items, count, set.stream));
    return cuda_move_items<true>(batch->status, own.status, 1, items, count, set.stream);
}

/* The same for any number of items. */
cudaError_t run_many(const route_call &call, const loom__rows_view &view, const item_set &set, const uint32_t *items,
                     uint64_t count)
{
    for (uint64_t done = 0; done < count; done += call.most_items) {
        const uint64_t some = count - done < call.most_items ? count - done : call.most_items;
        RETURN_IF_CUDA_FAILED(run_items(call, view, set, items + done, some));
    }
    return cudaSuccess;
}

/* Runs all items, each set with a part of them in turn. Lookups and writes of different items may overlap as in one
 * kernel. */
cudaError_t run_in_turns(const route_call &call, const uint32_t *items, uint64_t count, uint32_t *turn)
{
    for (uint64_t done = 0; done < count; done += call.most_items) {
        const uint64_t some = count - done < call.most_items ? count - done : call.most_items;
        RETURN_IF_CUDA_FAILED(run_items(call, *call.view, call.sets[(*turn)++ % ROW_STREAMS], items + done, some));
    }
    return cudaSuccess;
}

/* ---- streaming ---- */

/* One window: brings its rows, runs the items, and takes the rows home. */
cudaError_t run_window(const route_call &call, uint32_t k, uint32_t window, bool used, const uint32_t *items,
                       uint64_t count)
{
    const uint64_t first = (uint64_t)window * call.per_window, left = call.view->lines.partitions - first;
    item_set set = call.sets[k];
    const row_window rows =
        row_window_of(call.view, call.arrays, first, left < call.per_window ? left : call.per_window, set.rows);
    return row_pipeline_pass(
        call.pipeline, k,
        [&](cudaStream_t stream) { return used ? window_bring(rows, stream) : window_zero(rows, stream); },
        [&](cudaStream_t stream) {
            set.stream = stream;
            return run_many(call, rows.view, set, items, count);
        },
        [&](cudaStream_t stream) { return call.writes_rows() ? window_take_home(rows, stream) : cudaSuccess; });
}

cudaError_t begin_sets(route_call *call)
{
    const cudaError_t error = row_pipeline_begin(&call->pipeline, call->stream);
    for (int i = 0; i < ROW_STREAMS; i++)
        call->sets[i].stream = call->pipeline.streams[i];
    return error;
}

/* ---- the plan ---- */

/* Chooses the sizes of windows and sets. Without a bound the smallest of both are taken in any case. */
void plan_sizes(route_call *call)
{
    const uint32_t partitions = call->view->lines.partitions;
    const uint64_t item_bytes = loom__row_item_bytes(call->view->key_bytes, call->view->value_bytes);
    const uint64_t sets = call->staging.bounded() ? call->staging.most / 2 : call->cuda->row_staging_bytes;
    const uint64_t each = sets / 2 / ROW_STREAMS; /* for a window, and for the items of a set */
    const uint64_t window = each / call->arrays.partition_bytes, items = each / item_bytes;
    call->per_granule = (partitions + MOST_GRANULES - 1) / MOST_GRANULES;
    call->granules = (partitions + call->per_granule - 1) / call->per_granule;
    call->per_window =
        window < call->per_granule ? call->per_granule : (uint32_t)(window < partitions ? window : partitions);
    call->windows = (partitions + call->per_window - 1) / call->per_window;
    call->has_windows = window >= call->per_granule || !call->staging.bounded();
    call->least_items = loom__row_least_step(item_bytes);
    call->most_items = items < call->least_items ? call->least_items : items < 512 ? items : items / 512 * 512;
}

loom__row_work work_of(const route_call &call, uint64_t rows)
{
    const uint64_t table_bytes = call.arrays.partition_bytes * call.view->lines.partitions;
    const uint64_t row_bytes = call.view->key_stride + (call.view->apart ? call.view->value_stride : 0);
    const bool empty = call.first && (call.call->batch.replace || (call.writes_rows() && call.call->batch.fresh));
    loom__row_work work = {rows, row_bytes, table_bytes, !empty, call.writes_rows(), 0, call.may_stream};
    /* A call with staged arrays has a stage already. */
    work.gathers = call.finds() && !call.call->arrays.staged && cuda_rows_may_gather(call.staging);
    return work;
}

/* Chooses the route of `rows` rows, and tells the caller's explanation what it expects. */
loom_row_route choose_route(route_call *given, uint64_t rows)
{
    const route_call &call = *given;
    const loom__row_rates rates = cuda_row_rates(&given->staging, call.arrays.all[0].at,
                                                 call.arrays.partition_bytes * call.view->lines.partitions);
    const loom__row_work work = work_of(call, rows);
    double seconds[LOOM__ROW_ROUTES];
    loom__row_estimate(&rates, &work, seconds);
    const loom_row_route asked = call.call->batch.row_route;
    const loom_row_route route = asked == LOOM_ROW_ROUTE_NONE ? loom__row_choose(seconds)
                                 : seconds[asked] > 0         ? asked
                                                              : LOOM_ROW_ROUTE_DIRECT;
    loom_explanation *told = call.call->batch.explained;
    if (told != NULL) {
        *told = loom_explanation{sizeof *told, route, 0, call.call->batch.n, rows, {}, 0, 0};
        for (int i = 0; i < LOOM__ROW_ROUTES; i++)
            told->estimate[i] = seconds[i];
    }
    return route;
}

/* ---- sorted routes ---- */

/* The granules of a group, once they are sorted: window by window, or all in order. */
cudaError_t run_granules(const route_call &call, const granule_counts &counts, bool streams, uint32_t first,
                         uint32_t end, const uint32_t *items, uint64_t count, uint32_t *turn)
{
    if (!streams)
        return run_in_turns(call, items, count, turn);
    for (uint32_t w = first; w < end; w++) {
        if (counts.items[w] > 0 || call.all_windows)
            RETURN_IF_CUDA_FAILED(
                run_window(call, (*turn)++ % ROW_STREAMS, w, counts.used[w] != 0, items, counts.items[w]));
        items += counts.items[w];
    }
    return cudaSuccess;
}

/* Sorts and runs group after group. `sorted` is an event. */
cudaError_t run_groups(route_call *call, const granule_rule &rule, const granule_counts &counts, bool streams,
                       uint64_t most, group_memory groups[GROUPS_UNDER_WAY], cudaEvent_t sorted)
{
    uint32_t turn = 0, group = 0;
    uint64_t count;
    for (uint32_t first = 0, end; first < counts.granules; first = end, group++) {
        const group_memory &memory = groups[group % GROUPS_UNDER_WAY];
        const uint32_t *items = NULL;
        end = end_of_group(counts, first, most, &count);
        for (int i = 0; i < ROW_STREAMS; i++) /* an event that was never recorded counts as reached */
            RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(call->stream, memory.read[i], 0));
        if (count > 0)
            RETURN_IF_CUDA_FAILED(sort_group(rule, memory, first, end, count, call->stream, &items));
        RETURN_IF_CUDA_FAILED(cudaEventRecord(sorted, call->stream));
        for (int i = 0; i < ROW_STREAMS; i++)
            RETURN_IF_CUDA_FAILED(cudaStreamWaitEvent(call->pipeline.streams[i], sorted, 0));
        RETURN_IF_CUDA_FAILED(run_granules(*call, counts, streams, first, end, items, count, &turn));
        for (int i = 0; i < ROW_STREAMS; i++)
            RETURN_IF_CUDA_FAILED(cudaEventRecord(memory.read[i], call->pipeline.streams[i]));
    }
    return cudaSuccess;
}

granule_rule rule_of(const route_call &call, const route_items &items, uint32_t per_granule)
{
    return {(const unsigned char *)call.batch->keys,
            items.rows,
            items.items,
            items.count,
            (uint64_t)per_granule * call.view->lines.buckets * open_slots(SLOT_TAG),
            per_granule,
            NULL};
}

/* The ordered route, and the streamed one. *begun: work on the items was launched. Otherwise nothing has happened, and
 * a failure may be a lack of memory. */
cudaError_t run_sorted(route_call *call, const route_items &items, bool streams, bool *begun)
{
    *begun = false;
    granule_counts counts = {streams ? call->windows : call->granules, NULL, NULL};
    granule_rule rule = rule_of(*call, items, streams ? call->per_window : call->per_granule);
    const cuda_workspace granules =
        call->staging.take((items.count + SELECTED_BY_THREAD) * sizeof *rule.granules, call->stream);
    if (granules.at == NULL)
        return cudaErrorMemoryAllocation;
    rule.granules = (uint16_t *)granules.at;
    counts.items = (uint32_t *)malloc(2ull * counts.granules * sizeof *counts.items);
    counts.used = counts.items != NULL ? counts.items + counts.granules : NULL;
    group_memory groups[GROUPS_UNDER_WAY] = {};
    cuda_workspace own = {};
    cudaEvent_t sorted = NULL;
    uint64_t most = call->cuda->row_chunk < GROUP_ITEMS ? call->cuda->row_chunk : (uint64_t)GROUP_ITEMS;
    most = most < FEWEST_ITEMS ? (uint64_t)FEWEST_ITEMS : most;
    /* Parts, and chunks of host arrays, add to the size when all have passed. */
    const uint64_t *size = call->first && !call->call->arrays.staged ? &call->view->lines.totals->size : NULL;
    cudaError_t error = counts.items != NULL
                            ? count_granules(&call->staging, *call->view, rule, streams ? call->per_window : 0, size,
                                             &counts, call->stream)
                            : cudaErrorMemoryAllocation;
    if (error == cudaSuccess && !take_groups(&call->staging, counts, &most, &own, groups, call->stream))
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess)
        error = make_events(groups, &sorted);
    if (error == cudaSuccess) {
        error = begin_sets(call);
        *begun = error == cudaSuccess;
        if (error == cudaSuccess)
            error = run_groups(call, rule, counts, streams, most, groups, sorted);
        error = row_pipeline_end(&call->pipeline, error);
    }
    destroy_events(groups, sorted);
    call->staging.give(own, call->stream);
    call->staging.give(granules, call->stream);
    free(counts.items);
    return error;
}

/* ---- routes ---- */

/* The items as they come. */
cudaError_t run_unsorted(route_call *call, const uint32_t *items, uint64_t count)
{
    uint32_t turn = 0;
    if (count <= call->most_items) { /* one set is enough, and a stream to make is not worth while */
        call->sets[0].stream = call->stream;
        RETURN_IF_CUDA_FAILED(run_items(*call, *call->view, call->sets[0], items, count));
        return cudaStreamSynchronize(call->stream);
    }
    const cudaError_t error = begin_sets(call);
    return row_pipeline_end(&call->pipeline, error == cudaSuccess ? run_in_turns(*call, items, count, &turn) : error);
}

cudaError_t fetch_count(const route_call &call, const cuda_sought_rows &rows, uint64_t *count)
{
    unsigned long long told;
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(&told, rows.count, sizeof told, cudaMemcpyDeviceToHost, call.stream));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(call.stream));
    *count = told;
    return cudaSuccess;
}

/* In place of a route for which there is no memory. */
cudaError_t run_instead(route_call *call, const uint32_t *items, uint64_t count)
{
    if (call->call->batch.explained != NULL)
        call->call->batch.explained->route = LOOM_ROW_ROUTE_DIRECT;
    cudaGetLastError(); /* of the allocation */
    return run_unsorted(call, items, count);
}

/* Keys whose rows hold other keys, one of some thousand, go on directly. */
cudaError_t run_gathered(route_call *call, const sought_memory &memory, uint64_t n)
{
    bool begun;
    RETURN_IF_CUDA_FAILED(cuda_rows_gather(&call->staging, call->view, call->batch, &memory.sought, n, &memory.left,
                                           &begun, call->stream));
    if (!begun)
        return run_instead(call, memory.sought.items, n);
    RETURN_IF_CUDA_FAILED(fetch_count(*call, memory.left, &n));
    if (n > 0)
        RETURN_IF_CUDA_FAILED(cuda_rows_find_on(call->view, call->batch, &memory.left, n, call->stream));
    return cudaStreamSynchronize(call->stream);
}

/* A lookup: asks the tags, then plans for what is left. */
cudaError_t run_find(route_call *call, const sought_memory &memory)
{
    const cuda_sought_rows &sought = memory.sought;
    uint64_t rows;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(sought.count, 0, sizeof *sought.count, call->stream));
    RETURN_IF_CUDA_FAILED(cuda_rows_seek(call->view, call->batch, &sought, call->stream));
    RETURN_IF_CUDA_FAILED(fetch_count(*call, sought, &rows));
    const loom_row_route route = choose_route(call, rows);
    if (rows == 0)
        return cudaSuccess;
    if (route == LOOM_ROW_ROUTE_GATHERED)
        return run_gathered(call, memory, rows);
    if (route == LOOM_ROW_ROUTE_DIRECT)
        return run_unsorted(call, sought.items, rows);
    bool begun;
    const cudaError_t error =
        run_sorted(call, {sought.items, sought.rows, rows}, route == LOOM_ROW_ROUTE_STREAMED, &begun);
    return error == cudaErrorMemoryAllocation && !begun ? run_instead(call, sought.items, rows) : error;
}

cudaError_t go_directly(const route_call &call, const cuda_batch *batch)
{
    loom_explanation *told = call.call->batch.explained;
    if (told != NULL && told->keys == 0) /* no plan was made */
        *told = loom_explanation{sizeof *told, LOOM_ROW_ROUTE_DIRECT, 0, call.call->batch.n, batch->n, {}, 0, 0};
    if (told != NULL)
        told->route = LOOM_ROW_ROUTE_DIRECT;
    cudaGetLastError(); /* of an allocation that failed */
    if (call.replaces)
        RETURN_IF_CUDA_FAILED(cuda_rows_clear(call.view, call.stream));
    return call.finds() ? cuda_rows_find(call.view, batch, NULL, call.stream)
                        : cuda_rows_write(call.view, batch, call.op, NULL, call.stream);
}

/* Takes memory for the sets, with windows if the call may stream. If memory is short, without windows, and then for
 * fewer items. *own has none if there is not even that. */
void take_sets(route_call *call, cuda_workspace *own)
{
    if (call->most_items > call->batch->n)
        call->most_items = call->batch->n;
    for (;;) {
        for (int i = 0; i < call->arrays.count; i++)
            call->window_bytes[i] = call->may_stream ? window_buffer_bytes(call->arrays, i, call->per_window) : 0;
        *own = call->staging.take(lay_out_sets(call, NULL), call->stream);
        if (own->at != NULL) {
            lay_out_sets(call, own->at);
            return;
        }
        if (call->may_stream)
            call->may_stream = false;
        else if (call->most_items > call->least_items)
            call->most_items = call->most_items / 2 > call->least_items ? call->most_items / 2 : call->least_items;
        else
            return;
    }
}

/* A part of a call that writes. *too_large: nothing has happened, for lack of memory; it may be less for fewer items.
 * NULL: the part is not to be smaller. */
cudaError_t write_part(route_call *call, bool *too_large)
{
    const cuda_batch *batch = call->batch;
    cuda_workspace own = {};
    bool begun;
    call->may_stream = call->has_windows && (call->call->batch.alone != 0 || !call->writes_rows());
    loom_row_route route = choose_route(call, batch->n);
    call->may_stream = route == LOOM_ROW_ROUTE_STREAMED;
    if (route != LOOM_ROW_ROUTE_DIRECT && batch->n <= MOST_ITEMS)
        take_sets(call, &own);
    if (own.at == NULL)
        return go_directly(*call, batch);
    if (route == LOOM_ROW_ROUTE_STREAMED && !call->may_stream) {
        route = LOOM_ROW_ROUTE_ORDERED;
        if (call->call->batch.explained != NULL)
            call->call->batch.explained->route = route;
    }
    call->all_windows = call->replaces && call->may_stream;
    cudaError_t error = cudaSuccess;
    if (call->replaces && !call->may_stream) {
        error = cuda_rows_clear(call->view, call->stream);
        call->replaces = error != cudaSuccess;
    }
    if (error == cudaSuccess)
        error = run_sorted(call, {NULL, NULL, batch->n}, call->may_stream, &begun);
    else
        begun = true;
    call->staging.give(own, call->stream);
    if (error != cudaErrorMemoryAllocation || begun)
        return error;
    if (too_large == NULL)
        return go_directly(*call, batch);
    cudaGetLastError(); /* of the allocation */
    *too_large = true;
    return cudaSuccess;
}

/* The items of a batch from `first` on, as a batch. */
cuda_batch part_of(const cuda_batch *batch, const route_call &call, uint64_t first, uint64_t count)
{
    cuda_batch part = *batch;
    auto behind = [&](const void *array, uint64_t width) {
        return array != NULL ? (unsigned char *)array + first * width : NULL;
    };
    part.keys = behind(batch->keys, call.view->key_bytes);
    part.values = behind(batch->values, call.value_bytes);
    part.found_values = behind(batch->found_values, call.view->value_bytes);
    part.found = behind(batch->found, 1);
    part.status = behind(batch->status, 1);
    part.n = count;
    part.tile = cuda_tile_of(call.cuda, count);
    return part;
}

/* A call that writes. With a bound it goes in parts. A part takes 2 bytes for each item, which may be half of the
 * lists, and memory to sort the items of a group. If many items lie in one granule, parts become smaller, down to those
 * that surely fit. */
cudaError_t write_by_route(route_call *call)
{
    const cuda_batch *batch = call->batch;
    uint64_t each = batch->n, surely = batch->n;
    if (call->staging.bounded()) {
        const uint64_t half = (call->staging.most / 2 - LOOM__LISTS_BYTES) / 2 / sizeof(uint16_t);
        each = half < MOST_ITEMS ? half : MOST_ITEMS;
        surely = loom__row_listed(call->staging.most);
    }
    cudaError_t error = cudaSuccess;
    for (uint64_t first = 0; first < batch->n && error == cudaSuccess;) {
        const cuda_batch part = part_of(batch, *call, first, batch->n - first < each ? batch->n - first : each);
        bool too_large = false;
        call->batch = &part;
        error = write_part(call, part.n > surely ? &too_large : NULL);
        if (too_large) {
            each = part.n / 2 > surely ? part.n / 2 : surely;
            continue;
        }
        first += part.n;
        call->replaces = call->first = false;
    }
    return error;
}

/* A lookup, in parts if memory is short or has a bound. */
cudaError_t find_by_route(route_call *call)
{
    const cuda_batch *batch = call->batch;
    sought_memory memory;
    cuda_workspace own[2] = {};
    const uint64_t most = call->staging.bounded() ? loom__row_listed(call->staging.most) : (uint64_t)MOST_ITEMS;
    uint64_t each = batch->n < most ? batch->n : most;
    each = each < MOST_ITEMS ? each : MOST_ITEMS;
    call->may_stream = call->has_windows;
    take_sets(call, &own[0]);
    while (own[0].at != NULL && own[1].at == NULL && each > 0) {
        own[1] = call->staging.take(lay_out_sought(each, NULL, &memory), call->stream);
        if (own[1].at == NULL)
            each = each > FEWEST_ITEMS ? each / 2 : 0;
    }
    cudaError_t error = cudaSuccess;
    if (own[1].at == NULL) {
        error = go_directly(*call, batch);
    } else {
        lay_out_sought(each, own[1].at, &memory);
        for (uint64_t first = 0; first < batch->n && error == cudaSuccess; first += each) {
            const cuda_batch part = part_of(batch, *call, first, batch->n - first < each ? batch->n - first : each);
            call->batch = &part;
            error = run_find(call, memory);
        }
    }
    for (int i = 0; i < 2; i++)
        call->staging.give(own[i], call->stream);
    return error;
}

} // namespace

cudaError_t cuda_rows_by_route(const cuda_map_call *given, const cuda_batch *batch, cudaStream_t stream)
{
    const loom__rows_view *view = (const loom__rows_view *)given->view;
    const loom_row_route asked = given->batch.row_route;
    route_call call = {};
    call.cuda = given->cuda;
    call.call = given;
    call.view = view;
    call.batch = batch;
    call.op = given->op;
    call.stream = stream;
    call.arrays = row_arrays_of(view);
    call.staging = cuda_row_staging_of(given->cuda, view->staging_bytes);
    call.replaces = given->batch.replace != 0;
    call.first = true;
    call.value_bytes =
        given->op == OP_COMBINE ? loom__number_bytes(batch->widening, view->value_bytes) : view->value_bytes;
    const double begin = cuda_seconds();
    const bool planned =
        asked == LOOM_ROW_ROUTE_NONE ? batch->n >= LOOM__LEAST_PLANNED : asked != LOOM_ROW_ROUTE_DIRECT;
    if (!planned)
        return go_directly(call, batch);
    plan_sizes(&call);
    const cudaError_t error = call.finds() ? find_by_route(&call) : write_by_route(&call);
    loom_explanation *told = given->batch.explained;
    if (told != NULL && (call.finds() || told->route != LOOM_ROW_ROUTE_DIRECT)) /* nobody waits for direct writes */
        told->seconds = cuda_seconds() - begin;
    if (told != NULL)
        told->staging_bytes = call.staging.peak;
    return error;
}
