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

enum { AT_ONCE = 256 /* keys inserted together, so that their lines are prefetched */ };

typedef struct refill_work {
    const loom__cpu_perfect_simd *simd;
    const loom_allocator *allocator;
    const loom__perfect_view *from, *to;
    loom__table_slots slots; /* of `from` */
    loom__cpu_counts counts;
} refill_work;

typedef struct refill_pair {
    uint64_t key, value;
} refill_pair;

static void insert_pairs(refill_work *work, const refill_pair *pairs, uint64_t n, loom__cpu_perfect_desk *desk)
{
    const loom__batch keep = {.write = LOOM__WRITE_KEEP};
    const loom__cpu_perfect_records records = {
        .keys = (const unsigned char *)&pairs->key,
        .values = (const unsigned char *)&pairs->value,
        .key_stride = sizeof *pairs,
        .value_stride = sizeof *pairs,
        .n = n,
    };
    work->simd->insert(work->to, &keep, &records, desk, &work->counts);
}

static void move_keys(refill_work *work, uint32_t source, uint32_t partition, loom__cpu_perfect_desk *desk)
{
    const loom__table_slots *slots = &work->slots;
    const uint32_t key_bytes = slot_key_bytes(slots->kind), partitions = work->to->partitions;
    refill_pair pairs[AT_ONCE], pair;
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < slots->buckets; bucket++)
        for (uint32_t slot = 0; slot < slots->slots; slot++) {
            if (!loom__slot_holds(slots, source, bucket, slot, &pair.key, &pair.value) ||
                loom__hash_partition(loom__hash_key(pair.key, key_bytes, work->from->seed), partitions) != partition)
                continue;
            pairs[count++] = pair;
            if (count == AT_ONCE) {
                insert_pairs(work, pairs, count, desk);
                count = 0;
            }
        }
    insert_pairs(work, pairs, count, desk);
}

static void refill_partition(void *argument, uint64_t index)
{
    refill_work *work = argument;
    uint32_t first, last, partition = (uint32_t)index;
    loom__hash_sources(partition, work->to->partitions, work->from->partitions, &first, &last);
    loom__cpu_perfect_desk desk;
    loom__cpu_perfect_desk_open(&desk, work->allocator, work->to, partition, partition + 1);
    loom__cpu_perfect_clear_partition(work->to, partition);
    for (uint32_t source = first; source <= last; source++)
        move_keys(work, source, partition, &desk);
    loom__cpu_perfect_desk_close(&desk);
}

loom_status loom__cpu_perfect_refill(loom__machine *machine, const void *any_from, const void *any_to,
                                     uint64_t *refused, loom_stream stream)
{
    const loom__perfect_view *from = any_from;
    const loom__perfect_view *to = any_to;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    refill_work work = {.simd = cpu->perfect_simd,
                        .allocator = &machine->allocator,
                        .from = from,
                        .to = to,
                        .slots = perfect_table_slots(from)};
    (void)stream;
    loom__pool_run(cpu->pool, to->partitions, refill_partition, &work);
    *refused = work.counts.full;
    return LOOM_OK;
}
