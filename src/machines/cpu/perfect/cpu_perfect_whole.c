/* Operations that read or write whole perfect tables: clear, retrieve, survey, refill. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/perfect/perfect_room.h"
#include "engines/perfect/perfect_survey.h"
#include "machines/cpu/core/cpu_retrieve.h"
#include "machines/cpu/perfect/cpu_perfect.h"

#include <string.h>

/* ---- clear ---- */

void loom__cpu_perfect_clear_partition(const loom__perfect_view *view, uint32_t partition)
{
    const lane_team team = {0};
    const lane_group alone = {0};
    const perfect_owner owner = perfect_own(view, partition, team, alone, 0);
#define CALL(kind) perfect_empty_partition(kind, view, &owner, 0)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    view->marks[partition] = PERFECT_UNMARKED;
}

loom_status loom__cpu_perfect_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                           loom_stream stream)
{
    const loom__perfect_view *view = any_view;
    (void)machine;
    (void)stream;
    *view->totals = *totals;
    memset(view->marks, PERFECT_UNMARKED, view->partitions * sizeof *view->marks);
    return LOOM_OK;
}

static void clear_task(void *argument, uint64_t partition)
{
    loom__cpu_perfect_clear_partition(argument, (uint32_t)partition);
}

loom_status loom__cpu_perfect_clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__perfect_view *view = any_view;
    (void)stream;
    loom__perfect_view copy = *view;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view->partitions, clear_task, &copy);
    view->totals->size = 0;
    return LOOM_OK;
}

/* ---- retrieve ---- */

loom_status loom__cpu_perfect_retrieve(loom__machine *machine, const void *any_view, loom__position *position,
                                       void *keys, void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__perfect_view *view = any_view;
    (void)stream;
    const loom__table_slots slots = perfect_table_slots(view);
    loom__cpu_retrieve(((loom__cpu_machine_state *)machine)->pool, &slots, position, keys, values, room, got);
    return LOOM_OK;
}

/* ---- survey ---- */

typedef struct survey_work {
    const loom__cpu_perfect_simd *simd;
    const loom__perfect_view *view;
    perfect_sums sums;
} survey_work;

static void survey_partition(void *argument, uint64_t partition)
{
    survey_work *work = argument;
    perfect_sums own = {0}, *total = &work->sums;
    work->simd->survey_partition(work->view, (uint32_t)partition, &own);
    __atomic_fetch_add(&total->size, own.size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->stashed, own.stashed, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&total->fullest, own.size);
    loom__cpu_keep_larger(&total->lowest_bad_inverted, own.lowest_bad_inverted);
}

loom_status loom__cpu_perfect_survey(loom__machine *machine, const void *any_view, loom__survey *survey,
                                     loom_stream stream)
{
    const loom__perfect_view *view = any_view;
    (void)stream;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    survey_work work = {.simd = cpu->perfect_simd, .view = view};
    loom__pool_run(cpu->pool, view->partitions, survey_partition, &work);
    *survey = perfect_survey_of(&work.sums);
    return LOOM_OK;
}

/* ---- refill ---- */

typedef struct refill_work {
    const loom__cpu_perfect_simd *simd;
    const loom_allocator *allocator;
    const loom__perfect_view *to;
    loom__table_slots from;
    loom__cpu_counts counts;
} refill_work;

/* One partition's. */
typedef struct refill_part {
    refill_work *work;
    loom__cpu_perfect_scratch scratch;
} refill_part;

static void insert_records(void *argument, const loom__cpu_records *records)
{
    const loom__batch keep = {.write = LOOM__WRITE_KEEP};
    refill_part *part = argument;
    part->work->simd->insert(part->work->to, &keep, records, &part->scratch, &part->work->counts);
}

static void refill_partition(void *argument, uint64_t index)
{
    const uint32_t partition = (uint32_t)index;
    refill_part part;
    part.work = argument;
    const loom__perfect_view *to = part.work->to;
    loom__cpu_perfect_scratch_open(&part.scratch, part.work->allocator, to, partition, partition + 1);
    loom__cpu_perfect_clear_partition(to, partition);
    loom__cpu_move_keys(&part.work->from, to->seed, to->partitions, partition, insert_records, &part);
    loom__cpu_perfect_scratch_close(&part.scratch);
}

loom_status loom__cpu_perfect_refill(loom__machine *machine, const void *any_from, const void *any_to,
                                     uint64_t *refused, loom_stream stream)
{
    const loom__perfect_view *to = any_to;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    refill_work work = {
        .simd = cpu->perfect_simd, .allocator = &machine->allocator, .to = to, .from = perfect_table_slots(any_from)};
    (void)stream;
    loom__pool_run(cpu->pool, to->partitions, refill_partition, &work);
    *refused = work.counts.full;
    return LOOM_OK;
}
