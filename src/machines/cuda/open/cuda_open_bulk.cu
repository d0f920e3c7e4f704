/* How a batch is split by partition, and in which waves. */
#include "machines/cuda/open/cuda_open_bulk.cuh"

namespace
{

enum { LEAST_WAVES = 5 /* with little memory; five take 1.7 bytes for a pair of 4 + 4, more are slower */ };

/* The table is written, wave by wave, from its beginning; what is still to be read lies towards its end. */
bool waves_keep_apart(const loom__open_view *view, const bulk_plan *plan)
{
    const uint64_t written_each = (uint64_t)view->partition_bytes << plan->shift;
    for (uint64_t e = plan->per_wave; e < plan->coarse; e += plan->per_wave)
        if (e * written_each > plan->coarse_at + e * plan->coarse_bytes)
            return false;
    return true;
}

/* How many coarse regions go in one wave; false: there are too few of them, or too many records for the table's memory. */
bool choose_waves(const loom__open_view *view, bulk_plan *plan)
{
    if (!plan->coarse_in_spare)
        return false;
    plan->per_wave = plan->coarse / LEAST_WAVES;
    while (plan->per_wave > 0 && !waves_keep_apart(view, plan))
        plan->per_wave--;
    plan->bytes = plan->fine_at + plan->fine_per_wave() * plan->fine_bytes;
    return plan->per_wave > 0;
}

} // namespace

bool cuda_open_bulk_plan(const cuda_state *cuda, const loom__open_view *view, const bulk_request *request,
                         bulk_plan *plan)
{
    const uint64_t table_bytes = (uint64_t)view->partitions * view->partition_bytes;
    split_request split = {};
    *plan = bulk_plan{};
    split.n = request->n;
    split.keys = request->keys;
    split.parts = view->partitions;
    cuda_bulk_columns((loom__slot_kind)view->kind, &split);
    split.with_index = request->with_index;
    split.two_passes = request->low_memory;
    split.spare_bytes = request->replace ? table_bytes : 0;
    return bulk_shared_bytes(view) + BULK_STATIC_BYTES <= (uint32_t)cuda->shared_bytes &&
           split_plan_passes(&split, plan) && (!request->low_memory || choose_waves(view, plan));
}
