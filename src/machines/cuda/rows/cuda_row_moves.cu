/* Moves a table with rows in host memory into another one, window by window.
 *
 * Partitions are ranges of hashes, so the keys of neighbouring partitions of the new table come from neighbouring
 * partitions of the old one. A window of the new table is made in a buffer on the device, from those partitions of the
 * old table, which are copied to another buffer. Both tables pass the link once. A partition at the border of two
 * windows is copied for both of them, and each takes the keys that are its own.
 *
 * Both buffers of all windows under way keep to the bound of the table's calls. If the smallest windows are too large
 * for a bound that the user chose, rows are moved one by one. */
#include "machines/cuda/rows/cuda_row_windows.cuh"

namespace
{

struct move_plan {
    row_arrays from, to;
    uint32_t per_window;  /* partitions of the new table */
    uint64_t most_source; /* partitions of the old one that a window needs */
};

/* The partitions of the old table from which those from `first` to `end` - 1 of the new one come. */
void sources_of(const loom__rows_view *from, const loom__rows_view *to, uint32_t first, uint32_t end, uint32_t *source,
                uint32_t *count)
{
    uint32_t last, unused;
    loom__hash_sources(first, to->lines.partitions, from->lines.partitions, source, &unused);
    loom__hash_sources(end - 1, to->lines.partitions, from->lines.partitions, &unused, &last);
    *count = last - *source + 1;
}

uint32_t end_of_window(const move_plan &plan, const loom__rows_view *to, uint32_t first)
{
    const uint32_t left = to->lines.partitions - first;
    return first + (left < plan.per_window ? left : plan.per_window);
}

struct move_buffers {
    unsigned char *from[2], *to[2];
};

uint64_t lay_out(const move_plan &plan, unsigned char *at, move_buffers buffers[ROW_STREAMS])
{
    cuda_layout layout = {0};
    for (int s = 0; s < ROW_STREAMS; s++)
        for (int i = 0; i < 2; i++) {
            buffers[s].from[i] = at + layout.add(window_buffer_bytes(plan.from, i, plan.most_source));
            buffers[s].to[i] = at + layout.add(window_buffer_bytes(plan.to, i, plan.per_window));
        }
    return layout.bytes;
}

void count_sources(move_plan *plan, const loom__rows_view *from, const loom__rows_view *to)
{
    plan->most_source = 0;
    for (uint32_t first = 0; first < to->lines.partitions; first = end_of_window(*plan, to, first)) {
        uint32_t source, count;
        sources_of(from, to, first, end_of_window(*plan, to, first), &source, &count);
        plan->most_source = plan->most_source < count ? count : plan->most_source;
    }
}

/* Windows whose buffers have together at most `bound` bytes, or windows of one partition. */
move_plan plan_move(uint64_t bound, const loom__rows_view *from, const loom__rows_view *to)
{
    move_plan plan = {row_arrays_of(from), row_arrays_of(to), 1, 0};
    move_buffers unused[ROW_STREAMS];
    const uint64_t each = bound / ROW_STREAMS / 2, partitions = to->lines.partitions;
    const uint64_t fit = each / plan.to.partition_bytes;
    plan.per_window = (uint32_t)(fit < 1 ? 1 : fit < partitions ? fit : partitions);
    for (;; plan.per_window /= 2) { /* a table that shrinks has larger windows of the old one */
        count_sources(&plan, from, to);
        if (plan.per_window == 1 || lay_out(plan, NULL, unused) <= bound)
            return plan;
    }
}

cudaError_t move_window(const move_plan &plan, const loom__rows_view *from, const loom__rows_view *to, uint32_t first,
                        uint32_t end, const move_buffers &buffers, unsigned long long *refused,
                        const row_pipeline &pipeline, uint32_t k)
{
    uint32_t source, count;
    sources_of(from, to, first, end, &source, &count);
    const row_window old = row_window_of(from, plan.from, source, count, buffers.from);
    const row_window made = row_window_of(to, plan.to, first, end - first, buffers.to);
    const uint64_t buckets = from->lines.buckets;
    const cuda_moved_range range = {source * buckets, (source + (uint64_t)count) * buckets, first, end};
    return row_pipeline_pass(
        pipeline, k, [&](cudaStream_t stream) { return window_bring(old, stream); },
        [&](cudaStream_t stream) {
            RETURN_IF_CUDA_FAILED(window_zero(made, stream));
            return cuda_rows_move_range(&old.view, &made.view, range, refused, stream);
        },
        [&](cudaStream_t stream) { return window_take_home(made, stream); });
}

} // namespace

cudaError_t cuda_rows_move_by_window(cuda_state *cuda, const loom__rows_view *from, const loom__rows_view *to,
                                     unsigned long long *refused, bool *taken, cudaStream_t stream)
{
    cuda_row_staging staging = cuda_row_staging_of(cuda, from->staging_bytes);
    const move_plan plan = plan_move(staging.bounded() ? staging.most : cuda->row_staging_bytes, from, to);
    move_buffers buffers[ROW_STREAMS];
    row_pipeline pipeline = {};
    const cuda_workspace own = staging.take(lay_out(plan, NULL, buffers), stream);
    *taken = own.at != NULL;
    if (!*taken)
        return cudaSuccess;
    lay_out(plan, own.at, buffers);
    cudaError_t error = row_pipeline_begin(&pipeline, stream);
    uint32_t turn = 0;
    for (uint32_t first = 0; first < to->lines.partitions && error == cudaSuccess; turn = (turn + 1) % ROW_STREAMS) {
        const uint32_t end = end_of_window(plan, to, first);
        error = move_window(plan, from, to, first, end, buffers[turn], refused, pipeline, turn);
        first = end;
    }
    error = row_pipeline_end(&pipeline, error);
    staging.give(own, stream);
    return error;
}
