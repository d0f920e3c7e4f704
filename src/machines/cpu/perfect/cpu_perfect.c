/* The perfect engine's calls.
 *
 * Lookups, updates and erasures do not change codes, so threads take ranges of a batch. An insertion may move any key
 * of its partition, so one thread owns each partition: a batch is split by partition (cpu_map_calls.h). The calling
 * thread alone inserts a batch that is too small to split, a batch that must not allocate (LOOM_DIRECTLY,
 * LOOM_LOW_MEMORY), and a batch for whose split there is no memory. So equal keys are always inserted in the order of
 * the batch. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "machines/cpu/perfect/cpu_perfect.h"
#include "engines/perfect/perfect_room.h"
#include "engines/perfect/perfect_survey.h"

typedef loom__perfect_view engine_view;
typedef perfect_sums engine_sums;
typedef loom__cpu_perfect_scratch engine_scratch;
#define engine_scratch_open      loom__cpu_perfect_scratch_open
#define engine_scratch_close     loom__cpu_perfect_scratch_close
#define engine_clear_partition   loom__cpu_perfect_clear_partition
#define engine_slots             perfect_table_slots
#define engine_bucket_slots      perfect_slots
#define engine_key_bytes(view)   slot_key_bytes((loom__slot_kind)(view)->kind)
#define engine_value_bytes(view) slot_value_bytes((loom__slot_kind)(view)->kind)

static const loom__cpu_map_simd *engine_simd(const loom__machine *machine, const void *view)
{
    (void)view;
    return ((const loom__cpu_machine_state *)machine)->perfect_simd;
}

static int engine_splits(uint32_t flags, int builds)
{
    (void)builds;
    return !(flags & (LOOM_DIRECTLY | LOOM_LOW_MEMORY));
}

static void engine_reset_state(const loom__perfect_view *view, uint32_t partition)
{
    view->marks[partition] = PERFECT_UNMARKED;
}

void loom__cpu_perfect_clear_partition(const loom__perfect_view *view, uint32_t partition)
{
    const lane_team team = {0};
    const lane_group alone = {0};
    const perfect_owner owner = perfect_own(view, partition, team, alone, 0);
#define CALL(kind) perfect_empty_partition(kind, &owner, 0)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    engine_reset_state(view, partition);
}

static void engine_add_sums(perfect_sums *total, const perfect_sums *own)
{
    __atomic_fetch_add(&total->size, own->size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->stashed, own->stashed, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&total->fullest, own->size);
    loom__cpu_keep_larger(&total->lowest_bad_inverted, own->lowest_bad_inverted);
}

static loom__survey engine_survey(const loom__perfect_view *view, const perfect_sums *sums)
{
    (void)view;
    return perfect_survey_of(sums);
}

/* Erasures leave codes as they are (P3). The wear is the number of erased keys. */
LOOM_LANE uint32_t engine_slot_emptied(loom__slot_kind kind, const loom__perfect_view *view, uint32_t partition,
                                       uint32_t bucket, uint32_t slot, uint64_t key)
{
    (void)kind, (void)view, (void)partition, (void)bucket, (void)slot, (void)key;
    return 1;
}

static void engine_partition_emptied(const loom__perfect_view *view, uint32_t partition, uint32_t wear)
{
    perfect_repay(0, view, partition, wear);
}

#include "machines/cpu/core/cpu_map_calls.h"
#include "machines/cpu/core/cpu_map_erase_if.h"
#include "machines/cpu/perfect/cpu_perfect_refill.h"

#include "machines/cpu/core/cpu_map_refill.h"

static loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__perfect_view *view = any_view;
    if (batch->write == LOOM__WRITE_ERASE || batch->write == LOOM__WRITE_UPDATE)
        return write_ranges(machine, view, batch);
    if (!loom__cpu_is_small(view->partitions, batch->n) && engine_splits(batch->flags, batch->replace != 0)) {
        loom_status status = insert_by_partition(machine, view, batch);
        if (status == LOOM_OK || batch->replace)
            return status;
    }
    return insert_alone(machine, view, batch);
}

const loom__map_kernels loom__cpu_perfect_kernels = {
    .reset_totals = reset_totals,
    .clear = clear,
    .find = find,
    .write = write,
    .bulk_bytes = bulk_bytes,
    .refill = refill,
    .retrieve = retrieve,
    .survey = survey,
    .count_accesses = count_accesses,
    .erase_if = erase_if,
};
