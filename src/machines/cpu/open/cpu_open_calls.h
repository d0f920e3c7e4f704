/* The calls of an engine whose tables are open tables, with or without rows: what such engines have in common of
 * cpu_map_calls.h. Before including this file, define engine_simd, engine_slots, engine_clear_partition,
 * engine_key_bytes and engine_value_bytes, as cpu_map_calls.h says; engine_survey if open_survey_of is not enough. The
 * view is a loom__open_view, or begins with one. */
#include "engines/open/open_survey.h"
#include "machines/cpu/open/cpu_open.h"

typedef loom__open_view engine_view;
typedef open_sums engine_sums;
typedef char engine_scratch; /* insertions need no scratch memory */
#ifndef engine_survey
#define engine_survey open_survey_of
#endif

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
    __atomic_fetch_add(&total->string_bytes, own->string_bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->in_heap, own->in_heap, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&total->heap_end, own->heap_end);
    loom__cpu_keep_larger(&total->fullest, own->size);
    loom__cpu_keep_larger(&total->longest, own->longest);
    loom__cpu_keep_larger(&total->lowest_bad_inverted, own->lowest_bad_inverted);
}

#include "machines/cpu/core/cpu_map_calls.h"

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
