/* The open engine's calls on the cpu machine.
 *
 * Memory traffic for n pairs of p bytes and a table of t bytes: an insertion by partition (cpu_map_calls.h) moves 3 n p
 * bytes to scatter the pairs, because pairs are read and written, and the written lines are fetched first. Filling the
 * partitions moves n p + 2 t bytes: pairs are read, and the table is fetched and written. Direct insertion moves 128 n
 * bytes in random accesses.
 *
 * Measured with 2^24 pairs of 4 + 4 bytes at load 0.8 (1,715 partitions) on two cores of a Neoverse N1: 60 M pairs/s by
 * partition, 46 by direct insertion. Filling takes two thirds of the time, scattering a quarter. Collecting a line of
 * records for each partition before writing it was 8 % slower. On 16 cores of a Xeon with 300 MB of L3 cache, direct
 * insertion of 2^27 pairs wins with 510 M pairs/s against 350: with that many partitions the split would need two
 * passes. */
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

/* With a literal kind the stores of a line have literal lengths. */
LOOM_LANE void clear_partition(loom__slot_kind kind, const loom__open_view *view, uint32_t partition)
{
    const uint64_t empty = open_empty(view, partition), line_stride = open_line_stride(kind);
    const uint64_t pattern = slot_stride(kind) == 4 ? empty << 32 | empty : empty;
    const uint32_t slots_end = open_slots(kind) * slot_stride(kind);
    unsigned char *base = view->base + (uint64_t)partition * view->partition_bytes;
    unsigned char *lines_end = base + view->buckets * line_stride;
    for (unsigned char *line = base; line < lines_end; line += line_stride) {
        for (uint32_t at = 0; at < slots_end; at += 8)
            memcpy(line + at, &pattern, slots_end - at < 8 ? slots_end - at : 8);
        memset(line + slots_end, 0, line_stride - slots_end);
    }
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
