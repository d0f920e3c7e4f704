/* Plans how a batch is split: passes, regions, memory. */
#include "machines/cuda/core/cuda_split_passes.cuh"

#include <math.h>

namespace
{

enum {
    ONE_PASS = 1024,  /* most parts that one pass splits well */
    SPILL_SHARE = 256 /* one record in this many may spill */
};

static_assert((int)ONE_PASS <= (int)SPLIT_MOST_BINS, "a bin for each part");

/* Room for a region's share of n records: the mean and six standard deviations. The deviation is that of a region whose
 * different keys are all equally frequent. */
uint64_t room_for(uint64_t n, uint64_t keys, double regions)
{
    double mean = (double)n / regions, different = (double)(keys < n ? keys : n) / regions;
    return ((uint64_t)ceil(mean + 6 * mean / sqrt(different > 1 ? different : 1) + 16) + 31) / 32 * 32;
}

/* Bytes of one region or list, with all its columns. */
uint64_t region_bytes(const split_request *request, uint64_t records, bool with_index)
{
    return split_column_bytes(records, request->head_bytes) + split_column_bytes(records, request->tail_bytes) +
           (with_index ? split_column_bytes(records, sizeof(uint32_t)) : 0);
}

} // namespace

bool split_plan_passes(const split_request *request, split_plan *plan)
{
    const uint64_t n = request->n;
    const uint32_t parts = request->parts;
    uint64_t coarse_room = 0;
    *plan = split_plan{};
    if (n > SPLIT_MOST_RECORDS)
        return false;
    plan->with_index = request->with_index;
    plan->fine = parts;
    plan->per_wave = 1;
    if (parts > ONE_PASS || request->two_passes) { /* both passes have about the same number of bins */
        while (((uint64_t)1 << 2 * plan->shift) < parts)
            plan->shift++;
        plan->coarse = (parts + (1u << plan->shift) - 1) >> plan->shift;
        plan->fine = plan->coarse << plan->shift;
        coarse_room = room_for(n, request->keys, (double)parts / (1u << plan->shift));
        plan->coarse_room = (uint32_t)coarse_room;
        plan->coarse_bytes = region_bytes(request, plan->coarse_room, request->with_index);
        plan->per_wave = plan->coarse;
    }
    const uint64_t fine_room = room_for(n, request->keys, parts);
    plan->fine_room = (uint32_t)fine_room;
    plan->fine_bytes = region_bytes(request, plan->fine_room, request->with_index);
    plan->spill_room = request->with_index ? 0 : (uint32_t)(n / SPILL_SHARE + 1024) / 1024 * 1024;
    if (plan->coarse > SPLIT_MOST_BINS || (1u << plan->shift) > SPLIT_MOST_BINS || fine_room > INT32_MAX ||
        coarse_room > INT32_MAX)
        return false;
    const uint64_t counters = (uint64_t)plan->fine + plan->coarse + 1, all_coarse = plan->coarse * plan->coarse_bytes;
    plan->counter_bytes = (counters * SPLIT_FILL_STRIDE * sizeof(uint32_t) + 255) / 256 * 256;
    plan->spill_at = plan->counter_bytes;
    plan->fine_at = plan->spill_at + region_bytes(request, plan->spill_room, false);
    plan->bytes = plan->fine_at + plan->fine * plan->fine_bytes;
    plan->coarse_in_spare = plan->coarse > 0 && all_coarse <= request->spare_bytes;
    if (plan->coarse_in_spare) {
        plan->coarse_at = (request->spare_bytes - all_coarse) / 256 * 256;
    } else {
        plan->coarse_at = plan->bytes;
        plan->bytes += all_coarse;
    }
    return true;
}

cudaError_t split_begin(const split_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    return cudaMemsetAsync(workspace, 0, plan->counter_bytes, stream);
}
