/* How a batch is split by part, in one pass or two: bins, regions, memory. The cuda machine splits by these plans
 * (machines/cuda/core/cuda_split_passes.cuh). Arithmetic only, so tests need no GPU and no memory.
 *
 * One pass splits up to LOOM__SPLIT_MOST_BINS parts. With more parts, the first pass splits into coarse regions of
 * 1 << shift parts each, and the second pass splits each coarse region into the regions of its parts. Both passes then
 * have about the same number of bins, so 2^20 parts are the most that two passes can split.
 *
 * Limits in 32 bits, all of them checked: a region and the spill list count records in 32 bits, and records that carry
 * their places in the batch have 32 bits for them. Hence the limit LOOM__SPLIT_MOST_RECORDS; a larger batch goes in
 * slices (core/call_parts.h). Offsets in memory have 64 bits. */
#ifndef LOOM_CORE_SPLIT_PLAN_H
#define LOOM_CORE_SPLIT_PLAN_H

#include "core/portable.h"

#include <math.h>
#include <string.h>

enum {
    LOOM__SPLIT_MOST_BINS = 1024,      /* of one pass */
    LOOM__SPLIT_WANTED_BINS = 512,     /* of the second pass, if the first one can have as many as that needs */
    LOOM__SPLIT_FILL_STRIDE = 8,       /* 4-byte words from counter to counter: each has a sector of its own */
    LOOM__SPLIT_SPILL_SHARE = 256,     /* one record in this many may spill */
    LOOM__SPLIT_REGION_ALIGNMENT = 256 /* of each column, in bytes */
};

/* The most records of a split. When the spill list is full, the split gives up, but running thread blocks still add
 * their tiles to the count of spilled records. The margin of 2^24 is more than the running blocks of any device
 * hold. */
#define LOOM__SPLIT_MOST_RECORDS (((uint64_t)1 << 32) - ((uint64_t)1 << 24))

/* The request for a plan. */
typedef struct loom__split_request {
    uint64_t n;    /* records */
    uint64_t keys; /* estimated number of different keys */
    uint32_t parts;
    uint32_t head_bytes, tail_bytes; /* tail_bytes = 0: no tails */
    uint32_t with_index;             /* records carry their places in the batch; no record may spill then */
    uint32_t two_passes;             /* two passes even where one would do */
    uint64_t spare_bytes;            /* memory besides the workspace that may hold coarse regions; 0: none */
} loom__split_request;

/* How a batch is split, and the layout of the workspace: counters, the spill list, regions of parts, and coarse
 * regions. Coarse regions may lie in the spare memory instead, at its end.
 *
 * The second pass may run in several *waves*. Each wave splits some coarse regions, and all waves use the same memory
 * for the regions of parts. A caller that wants waves sets `per_wave` and `bytes`. */
typedef struct loom__split_plan {
    uint32_t fine;                   /* regions of parts; with two passes possibly more than parts */
    uint32_t coarse;                 /* regions of the first of two passes; 0: one pass */
    uint32_t shift;                  /* a coarse region has 1 << shift parts */
    uint32_t per_wave;               /* coarse regions per wave; 1 if there are none */
    uint32_t fine_room, coarse_room; /* records */
    uint32_t spill_room;
    uint32_t with_index, coarse_in_spare;
    uint64_t fine_bytes, coarse_bytes; /* bytes of one region */
    uint64_t counter_bytes, spill_at, fine_at, coarse_at, bytes;
} loom__split_plan;

LOOM_BOTH uint32_t loom__split_waves(const loom__split_plan *plan)
{
    return plan->coarse > 0 ? (plan->coarse + plan->per_wave - 1) / plan->per_wave : 1;
}

LOOM_BOTH uint32_t loom__split_fine_per_wave(const loom__split_plan *plan)
{
    return plan->coarse > 0 ? plan->per_wave << plan->shift : plan->fine;
}

/* Bytes of a column. Columns follow each other, each aligned. */
LOOM_BOTH uint64_t loom__split_column_bytes(uint64_t records, uint32_t width)
{
    return (records * width + LOOM__SPLIT_REGION_ALIGNMENT - 1) / LOOM__SPLIT_REGION_ALIGNMENT *
           LOOM__SPLIT_REGION_ALIGNMENT;
}

/* Bytes of one region or list, with all its columns. */
LOOM_BOTH uint64_t loom__split_region_bytes(const loom__split_request *request, uint64_t records, uint32_t with_index)
{
    return loom__split_column_bytes(records, request->head_bytes) +
           loom__split_column_bytes(records, request->tail_bytes) +
           (with_index ? loom__split_column_bytes(records, sizeof(uint32_t)) : 0);
}

/* Room for a region's share of n records: the mean and six standard deviations. The deviation is that of a region whose
 * different keys are all equally frequent. */
static inline uint64_t loom__split_room(uint64_t n, uint64_t keys, double regions)
{
    const double mean = (double)n / regions, different = (double)(keys < n ? keys : n) / regions;
    return ((uint64_t)ceil(mean + 6 * mean / sqrt(different > 1 ? different : 1) + 16) + 31) / 32 * 32;
}

/* The parts of a coarse region, as a power of two: the smallest with no more coarse regions than parts in each.
 * Beyond LOOM__SPLIT_WANTED_BINS parts, half of them if the first pass has enough bins: the more bins, the shorter are
 * the runs that a tile writes to each of them. 3 * 10^9 pairs of 4 + 4 bytes at load 0.9 have 272,600 parts: 533 coarse
 * regions of 512 parts give runs of 16 records in both passes, 267 regions of 1024 would give runs of 8 in the
 * second. */
LOOM_BOTH uint32_t loom__split_shift(uint32_t parts)
{
    uint32_t shift = 0;
    while (((uint64_t)1 << 2 * shift) < parts)
        shift++;
    if (((uint32_t)1 << shift) > LOOM__SPLIT_WANTED_BINS &&
        (uint64_t)parts <= ((uint64_t)LOOM__SPLIT_MOST_BINS << (shift - 1)))
        shift--;
    return shift;
}

/* Makes a plan with one wave. Returns 0 if the kernels cannot split the batch: it has more than
 * LOOM__SPLIT_MOST_RECORDS records, there are more than 2^20 parts, or a region would have 2^31 records or more. */
static inline int loom__split_make_plan(const loom__split_request *request, loom__split_plan *plan)
{
    const uint64_t n = request->n;
    const uint32_t parts = request->parts;
    memset(plan, 0, sizeof *plan);
    if (n > LOOM__SPLIT_MOST_RECORDS || parts > LOOM__SPLIT_MOST_BINS * LOOM__SPLIT_MOST_BINS)
        return 0;
    uint64_t coarse_room = 0;
    plan->with_index = request->with_index;
    plan->fine = parts;
    plan->per_wave = 1;
    if (parts > LOOM__SPLIT_MOST_BINS || request->two_passes) {
        plan->shift = loom__split_shift(parts);
        plan->coarse = (parts + (1u << plan->shift) - 1) >> plan->shift;
        plan->fine = plan->coarse << plan->shift;
        coarse_room = loom__split_room(n, request->keys, (double)parts / (1u << plan->shift));
        plan->coarse_room = (uint32_t)coarse_room;
        plan->coarse_bytes = loom__split_region_bytes(request, coarse_room, request->with_index);
        plan->per_wave = plan->coarse;
    }
    const uint64_t fine_room = loom__split_room(n, request->keys, parts);
    if (fine_room > INT32_MAX || coarse_room > INT32_MAX)
        return 0;
    plan->fine_room = (uint32_t)fine_room;
    plan->fine_bytes = loom__split_region_bytes(request, fine_room, request->with_index);
    plan->spill_room = request->with_index ? 0 : (uint32_t)(n / LOOM__SPLIT_SPILL_SHARE + 1024) / 1024 * 1024;
    const uint64_t counters = (uint64_t)plan->fine + plan->coarse + 1, all_coarse = plan->coarse * plan->coarse_bytes;
    plan->counter_bytes = loom__split_column_bytes(counters, LOOM__SPLIT_FILL_STRIDE * sizeof(uint32_t));
    plan->spill_at = plan->counter_bytes;
    plan->fine_at = plan->spill_at + loom__split_region_bytes(request, plan->spill_room, 0);
    plan->bytes = plan->fine_at + plan->fine * plan->fine_bytes;
    plan->coarse_in_spare = plan->coarse > 0 && all_coarse <= request->spare_bytes;
    if (plan->coarse_in_spare) {
        plan->coarse_at =
            (request->spare_bytes - all_coarse) / LOOM__SPLIT_REGION_ALIGNMENT * LOOM__SPLIT_REGION_ALIGNMENT;
    } else {
        plan->coarse_at = plan->bytes;
        plan->bytes += all_coarse;
    }
    return 1;
}

#endif
