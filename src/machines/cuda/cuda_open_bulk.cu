/* How a batch is split by partition: passes, regions, memory. */
#include "machines/cuda/cuda_open_bulk.cuh"

#include <math.h>

namespace
{

enum {
    ONE_PASS = 512,         /* partitions that one pass splits well */
    SPILL_SHARE = 256,      /* one record of so many may spill */
    LARGEST_BATCH = 1 << 30 /* records; positions are 31 bits wide */
};

/* Room for what a region gets of n records: the mean and six deviations. They are those of its different keys, which come
 * equally often. */
uint32_t room_for(uint64_t n, uint64_t keys, double regions)
{
    double mean = (double)n / regions, different = (double)(keys < n ? keys : n) / regions;
    return ((uint32_t)ceil(mean + 6 * mean / sqrt(different > 1 ? different : 1) + 16) + 31) / 32 * 32;
}

uint64_t record_bytes(loom__open_kind kind, uint64_t records, bool with_index)
{
    uint64_t bytes = 0;
#define CALL(kind)                                                         \
    bytes = bulk_column_bytes(records, sizeof(bulk_columns<kind>::head)) + \
            (bulk_columns<kind>::has_tail ? bulk_column_bytes(records, sizeof(bulk_columns<kind>::value)) : 0)
    OPEN_FOR_KIND(kind, CALL)
#undef CALL
    return bytes + (with_index ? bulk_column_bytes(records, sizeof(uint32_t)) : 0);
}

} // namespace

bool cuda_open_bulk_plan(const cuda_state *cuda, const loom__open_view *view, uint64_t n, uint64_t keys,
                         bool with_index, bool replace, bulk_plan *plan)
{
    loom__open_kind kind = (loom__open_kind)view->kind;
    *plan = bulk_plan{};
    if (n > LARGEST_BATCH || bulk_shared_bytes(view) + BULK_STATIC_BYTES > (uint32_t)cuda->shared_bytes)
        return false;
    plan->with_index = with_index;
    plan->fine = view->partitions;
    if (view->partitions > ONE_PASS) { /* both passes have about as many bins */
        while (((uint64_t)1 << 2 * plan->shift) < view->partitions)
            plan->shift++;
        plan->coarse = (view->partitions + (1u << plan->shift) - 1) >> plan->shift;
        plan->fine = plan->coarse << plan->shift;
        plan->coarse_room = room_for(n, keys, (double)view->partitions / (1u << plan->shift));
    }
    plan->fine_room = room_for(n, keys, view->partitions);
    plan->spill_room = with_index ? 0 : (uint32_t)(n / SPILL_SHARE + 1024) / 1024 * 1024;
    if (plan->coarse > SPLIT_MOST_BINS || (1u << plan->shift) > SPLIT_MOST_BINS ||
        (uint64_t)plan->fine * plan->fine_room > INT32_MAX || (uint64_t)plan->coarse * plan->coarse_room > INT32_MAX)
        return false;
    const uint64_t counters = (uint64_t)plan->fine + plan->coarse + 1;
    const uint64_t coarse_bytes = record_bytes(kind, (uint64_t)plan->coarse * plan->coarse_room, with_index);
    plan->counter_bytes = (counters * SPLIT_FILL_STRIDE * sizeof(uint32_t) + 255) / 256 * 256;
    plan->spill_at = plan->counter_bytes;
    plan->fine_at = plan->spill_at + record_bytes(kind, plan->spill_room, with_index);
    plan->coarse_at = plan->fine_at + record_bytes(kind, (uint64_t)plan->fine * plan->fine_room, with_index);
    plan->coarse_in_table = replace && coarse_bytes <= (uint64_t)view->partitions * view->partition_bytes;
    plan->bytes = plan->coarse_at + (plan->coarse_in_table ? 0 : coarse_bytes);
    return true;
}
