/* The open engine's calls on the cpu machine.
 *
 * Memory traffic for n pairs of p bytes and a table of t bytes: an insertion by partition (cpu_map_calls.h) moves 3 n p
 * bytes to scatter the pairs, because pairs are read and written, and the written lines are fetched first. Filling the
 * partitions moves n p + 2 t bytes: pairs are read, and the table is fetched and written. Direct insertion moves 128 n
 * bytes in random accesses.
 *
 * Measured with 2^24 pairs of 4 + 4 bytes at load 0.8 (1,715 partitions), M pairs/s. Two cores of a Neoverse N1, before
 * the changes below: 60 by partition, 46 by direct insertion; collecting a line of records for each partition before
 * writing it was 8 % slower. Sixteen cores of a Xeon with 300 MB of L3 cache, 2^27 pairs, likewise: 350 and 510. A core
 * built 22 there and 28 on a small Xeon, so the split's many open lines explain little of the loss. By partition on two
 * cores of a Skylake Xeon, 2026-11-19, where direct insertion does 72:
 *     before                                                                              56
 *     records start by fours (cpu_open_avx2.h) and end at home (open_insert_at_home)      63
 *     also: only keys that are not new are counted, buckets are cleared by vectors        65
 *     also: the split prefetches each bin's next line (core/split.h)                      76
 * Of the 25 ns that a pair then takes on one core, 14 are the insertion, 5 the scattering, 2 the clearing, 2 the count,
 * and 2 are spent by the system on clearing new pages. No gain: hashes by vectors in the split, lines prefetched while
 * a partition is cleared. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "machines/cpu/open/cpu_open.h"
#include "engines/open/open_survey.h"

#include <string.h>

#define engine_clear_partition   loom__cpu_open_clear_partition
#define engine_slots             open_table_slots
#define engine_bucket_slots      open_slots
#define engine_key_bytes(view)   slot_key_bytes((loom__slot_kind)(view)->kind)
#define engine_value_bytes(view) slot_value_bytes((loom__slot_kind)(view)->kind)

static const loom__cpu_map_simd *engine_simd(const loom__machine *machine, const void *view)
{
    (void)view;
    return ((const loom__cpu_machine_state *)machine)->open_simd;
}

#include "machines/cpu/open/cpu_open_calls.h"

/* With a literal kind a bucket is copied in a few vectors. */
LOOM_LANE void clear_partition(loom__slot_kind kind, const loom__open_view *view, uint32_t partition)
{
    const uint64_t empty = open_empty(view, partition), stride = open_line_stride(kind);
    unsigned char bucket[2 * OPEN_LINE_BYTES] = {0};
    for (uint32_t slot = 0; slot < open_slots(kind); slot++)
        memcpy(bucket + slot * slot_stride(kind), &empty, slot_key_bytes(kind));
    unsigned char *at = view->base + (uint64_t)partition * view->partition_bytes;
    for (uint32_t i = 0; i < view->buckets; i++, at += stride)
        memcpy(at, bucket, stride);
}

void loom__cpu_open_clear_partition(const loom__open_view *view, uint32_t partition)
{
#define CALL(kind) clear_partition(kind, view, partition)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    engine_reset_state(view, partition);
}

LOOM_LANE uint32_t engine_slot_emptied(loom__slot_kind kind, const loom__open_view *view, uint32_t partition,
                                       uint32_t bucket, uint32_t slot, uint64_t key)
{
    return open_slot_emptied(kind, OPEN_ALONE, view, partition, bucket, slot, key);
}

static void engine_partition_emptied(const loom__open_view *view, uint32_t partition, uint32_t wear)
{
    open_partition_emptied(OPEN_ALONE, view, partition, wear);
}

#include "machines/cpu/core/cpu_map_erase_if.h"
#include "machines/cpu/open/cpu_open_refill.h"

#include "machines/cpu/core/cpu_map_refill.h"

const loom__map_kernels loom__cpu_open_kernels = {
    .reset_totals = reset_totals,
    .clear = clear,
    .find = find,
    .write = write_ranges,
    .insert_bulk = insert_bulk,
    .bulk_bytes = bulk_bytes,
    .retrieve = retrieve,
    .survey = survey,
    .refill = refill,
    .upkeep = loom__cpu_open_upkeep,
    .count_accesses = count_accesses,
    .erase_if = erase_if,
};
