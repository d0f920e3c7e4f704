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

typedef loom__open_view engine_view;
typedef open_sums engine_sums;
typedef char engine_scratch; /* insertions need no scratch memory */
#define engine_clear_partition   loom__cpu_open_clear_partition
#define engine_slots             open_table_slots
#define engine_bucket_slots      open_slots
#define engine_survey            open_survey_of
#define engine_key_bytes(view)   slot_key_bytes((loom__slot_kind)(view)->kind)
#define engine_value_bytes(view) slot_value_bytes((loom__slot_kind)(view)->kind)

static const loom__cpu_map_simd *engine_simd(const loom__machine *machine)
{
    return ((const loom__cpu_machine_state *)machine)->open_simd;
}

/* Whether insertions go by partition. With LOOM_LOW_MEMORY a build inserts directly, unless it has LOOM_IN_ORDER,
 * too. */
static int engine_splits(uint32_t flags, int builds)
{
    return !(flags & LOOM_DIRECTLY || (builds && flags & LOOM_LOW_MEMORY && !(flags & LOOM_IN_ORDER)));
}

static void engine_reset_state(const loom__open_view *view, uint32_t partition)
{
    view->marks[partition] = OPEN_UNMARKED;
    view->stale[partition] = 0;
    view->retired_slots[partition] = 0;
}

/* With a literal kind the stores of a line have literal lengths. */
LOOM_LANE void clear_partition(loom__slot_kind kind, const loom__open_view *view, uint32_t partition)
{
    const uint64_t empty = open_empty(view, partition), line_stride = open_line_stride(kind);
    const uint64_t pattern = slot_stride(kind) == 4 ? empty << 32 | empty : empty;
    unsigned char *base = view->base + (uint64_t)partition * view->partition_bytes;
    unsigned char *lines_end = base + view->buckets * line_stride;
    for (unsigned char *line = base; line < lines_end; line += line_stride) {
        for (int word = 0; word < 7; word++)
            memcpy(line + 8 * word, &pattern, 8);
        memset(line + OPEN_WORD_OFFSET, 0, line_stride - OPEN_WORD_OFFSET);
    }
    memset(lines_end, 0, (uint64_t)(base + view->partition_bytes - lines_end));
}

void loom__cpu_open_clear_partition(const loom__open_view *view, uint32_t partition)
{
#define CALL(kind) clear_partition(kind, view, partition)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    engine_reset_state(view, partition);
}

static void engine_scratch_open(engine_scratch *scratch, const loom_allocator *allocator, const loom__open_view *view,
                                uint32_t first, uint32_t end)
{
    (void)scratch, (void)allocator, (void)view, (void)first, (void)end;
}

static void engine_scratch_close(engine_scratch *scratch)
{
    (void)scratch;
}

static void engine_add_sums(open_sums *total, const open_sums *own)
{
    __atomic_fetch_add(&total->size, own->size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->accesses, own->accesses, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->displaced, own->displaced, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->filter_bits, own->filter_bits, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&total->fullest, own->size);
    loom__cpu_keep_larger(&total->longest, own->longest);
    loom__cpu_keep_larger(&total->lowest_bad_inverted, own->lowest_bad_inverted);
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

#include "machines/cpu/core/cpu_map_calls.h"
#include "machines/cpu/core/cpu_map_erase_if.h"
#include "machines/cpu/open/cpu_open_refill.h"

#include "machines/cpu/core/cpu_map_refill.h"

static loom_status insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = any_view;
    if (engine_splits(batch->flags, batch->replace != 0))
        return loom__cpu_is_small(view->partitions, batch->n) ? insert_alone(machine, view, batch)
                                                              : insert_by_partition(machine, view, batch);
    if (batch->replace)
        clear(machine, view, batch->stream);
    return write_ranges(machine, view, batch);
}

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
