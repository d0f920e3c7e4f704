/* How a batch is split by partition: passes, regions, memory. */
#include "machines/cuda/cuda_open_bulk.cuh"

#include <math.h>

namespace
{

enum {
    ONE_PASS = 1024,        /* partitions that one pass splits well */
    LEAST_TURNS = 5,        /* with little memory; five take 1.7 bytes for a pair of 4 + 4, more are slower */
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

/* Of one region, or one list, with all its columns. */
uint64_t region_bytes(loom__open_kind kind, uint64_t records, bool with_index)
{
    uint64_t bytes = 0;
#define CALL(kind)                                                         \
    bytes = bulk_column_bytes(records, sizeof(bulk_columns<kind>::head)) + \
            (bulk_columns<kind>::has_tail ? bulk_column_bytes(records, sizeof(bulk_columns<kind>::value)) : 0)
    OPEN_FOR_KIND(kind, CALL)
#undef CALL
    return bytes + (with_index ? bulk_column_bytes(records, sizeof(uint32_t)) : 0);
}

/* The table is written, turn by turn, from its beginning; what is still to be read lies towards its end. */
bool turns_keep_apart(const loom__open_view *view, const bulk_plan *plan)
{
    const uint64_t written_each = (uint64_t)view->partition_bytes << plan->shift;
    for (uint64_t e = plan->per_turn; e < plan->coarse; e += plan->per_turn)
        if (e * written_each > plan->coarse_at + e * plan->coarse_bytes)
            return false;
    return true;
}

/* How many coarse regions go in one turn; false: there are too few of them, or too many records for the table's memory. */
bool choose_turns(const loom__open_view *view, bulk_plan *plan)
{
    if (!plan->coarse_in_table)
        return false;
    for (plan->per_turn = plan->coarse / LEAST_TURNS; plan->per_turn > 0; plan->per_turn--)
        if (turns_keep_apart(view, plan))
            return true;
    return false;
}

} // namespace

bool cuda_open_bulk_plan(const cuda_state *cuda, const loom__open_view *view, const bulk_wish *wish, bulk_plan *plan)
{
    const loom__open_kind kind = (loom__open_kind)view->kind;
    const uint64_t n = wish->n, table_bytes = (uint64_t)view->partitions * view->partition_bytes;
    *plan = bulk_plan{};
    if (n > LARGEST_BATCH || bulk_shared_bytes(view) + BULK_STATIC_BYTES > (uint32_t)cuda->shared_bytes)
        return false;
    plan->with_index = wish->with_index;
    plan->fine = view->partitions;
    plan->per_turn = 1;
    if (view->partitions > ONE_PASS || wish->low_memory) { /* both passes have about as many bins */
        while (((uint64_t)1 << 2 * plan->shift) < view->partitions)
            plan->shift++;
        plan->coarse = (view->partitions + (1u << plan->shift) - 1) >> plan->shift;
        plan->fine = plan->coarse << plan->shift;
        plan->coarse_room = room_for(n, wish->keys, (double)view->partitions / (1u << plan->shift));
        plan->coarse_bytes = region_bytes(kind, plan->coarse_room, wish->with_index);
        plan->per_turn = plan->coarse;
    }
    plan->fine_room = room_for(n, wish->keys, view->partitions);
    plan->fine_bytes = region_bytes(kind, plan->fine_room, wish->with_index);
    plan->spill_room = wish->with_index ? 0 : (uint32_t)(n / SPILL_SHARE + 1024) / 1024 * 1024;
    if (plan->coarse > SPLIT_MOST_BINS || (1u << plan->shift) > SPLIT_MOST_BINS ||
        (uint64_t)plan->fine * plan->fine_room > INT32_MAX || (uint64_t)plan->coarse * plan->coarse_room > INT32_MAX)
        return false;
    const uint64_t counters = (uint64_t)plan->fine + plan->coarse + 1, all_coarse = plan->coarse * plan->coarse_bytes;
    plan->counter_bytes = (counters * SPLIT_FILL_STRIDE * sizeof(uint32_t) + 255) / 256 * 256;
    plan->spill_at = plan->counter_bytes;
    plan->fine_at = plan->spill_at + region_bytes(kind, plan->spill_room, false);
    plan->coarse_in_table = wish->replace && plan->coarse > 0 && all_coarse <= table_bytes;
    if (plan->coarse_in_table)
        plan->coarse_at = (table_bytes - all_coarse) / 256 * 256;
    if (wish->low_memory && !choose_turns(view, plan))
        return false;
    plan->bytes = plan->fine_at + plan->fine_per_turn() * plan->fine_bytes;
    if (!plan->coarse_in_table) {
        plan->coarse_at = plan->bytes;
        plan->bytes += all_coarse;
    }
    return true;
}
