/* Operations that read or write whole tables, bucket by bucket: clear, retrieve, survey. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/open/open_survey.h"
#include "engines/open/open_upkeep.h"
#include "machines/cpu/core/cpu_retrieve.h"
#include "machines/cpu/open/cpu_open.h"

#include <string.h>

/* ---- clear ---- */

void loom__cpu_open_clear_partition(const loom__open_view *view, uint64_t partition)
{
    loom__slot_kind kind = (loom__slot_kind)view->kind;
    uint64_t empty = open_empty(view, (uint32_t)partition);
    uint64_t pattern = slot_stride(kind) == 4 ? empty << 32 | empty : empty;
    unsigned char *base = view->base + partition * view->partition_bytes;
    uint64_t lines_end = (uint64_t)view->buckets * open_line_stride(kind);
    for (uint32_t bucket = 0; bucket < view->buckets; bucket++) {
        unsigned char *line = base + (uint64_t)bucket * open_line_stride(kind);
        for (int word = 0; word < 7; word++)
            memcpy(line + 8 * word, &pattern, 8);
        memset(line + OPEN_WORD_OFFSET, 0, open_line_stride(kind) - OPEN_WORD_OFFSET);
    }
    memset(base + lines_end, 0, view->partition_bytes - lines_end);
    view->marks[partition] = OPEN_UNMARKED;
    view->stale[partition] = 0;
    view->retired_slots[partition] = 0;
}

loom_status loom__cpu_open_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                        loom_stream stream)
{
    const loom__open_view *view = any_view;
    (void)machine;
    (void)stream;
    *view->totals = *totals;
    memset(view->marks, OPEN_UNMARKED, view->partitions * sizeof *view->marks);
    memset(view->stale, 0, view->partitions * sizeof *view->stale);
    memset(view->retired_slots, 0, view->partitions * sizeof *view->retired_slots);
    return LOOM_OK;
}

static void clear_task(void *argument, uint64_t partition)
{
    loom__cpu_open_clear_partition(argument, partition);
}

loom_status loom__cpu_open_clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__open_view *view = any_view;
    (void)stream;
    loom__open_view copy = *view;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view->partitions, clear_task, &copy);
    view->totals->size = 0;
    return LOOM_OK;
}

/* ---- retrieve ---- */

loom_status loom__cpu_open_retrieve(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                    void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__open_view *view = any_view;
    (void)stream;
    const loom__table_slots slots = open_table_slots(view);
    loom__cpu_retrieve(((loom__cpu_machine_state *)machine)->pool, &slots, position, keys, values, room, got);
    return LOOM_OK;
}

/* ---- survey ---- */

typedef struct survey_work {
    const loom__cpu_open_simd *simd;
    const loom__open_view *view;
    open_sums sums;
} survey_work;

static void survey_partition(void *argument, uint64_t partition)
{
    survey_work *work = argument;
    open_sums own = {0}, *total = &work->sums;
    work->simd->survey_partition(work->view, (uint32_t)partition, &own);
    __atomic_fetch_add(&total->size, own.size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->accesses, own.accesses, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->displaced, own.displaced, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->filter_bits, own.filter_bits, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&total->fullest, own.size);
    loom__cpu_keep_larger(&total->longest, own.longest);
    loom__cpu_keep_larger(&total->lowest_bad_inverted, own.lowest_bad_inverted);
}

loom_status loom__cpu_open_survey(loom__machine *machine, const void *any_view, loom__survey *survey,
                                  loom_stream stream)
{
    const loom__open_view *view = any_view;
    (void)stream;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    survey_work work = {.simd = cpu->open_simd, .view = view};
    loom__pool_run(cpu->pool, view->partitions, survey_partition, &work);
    *survey = open_survey_of(view, &work.sums);
    return LOOM_OK;
}
