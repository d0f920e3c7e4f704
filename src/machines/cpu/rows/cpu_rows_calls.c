/* The rows engine's calls on the cpu machine. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/open/cpu_open.h"
#include "machines/cpu/rows/cpu_rows_engine.h"

#include <string.h>

typedef loom__open_view engine_view; /* the first member of a loom__rows_view */
typedef open_sums engine_sums;
typedef char engine_scratch; /* insertions need no scratch memory */
#define engine_clear_partition   loom__cpu_rows_clear_partition
#define engine_survey            open_survey_of
#define engine_key_bytes(view)   open_rows_of(view)->key_bytes
#define engine_value_bytes(view) open_rows_of(view)->value_bytes

static loom__table_slots engine_slots(const void *view)
{
    return open_rows_table_slots(view);
}

static const loom__cpu_map_simd *engine_simd(const loom__machine *machine)
{
    return ((const loom__cpu_machine_state *)machine)->rows_simd;
}

/* Whether insertions go by partition; as in open tables. */
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

/* Rows of free slots may hold anything, except memory of others: files hold them, too. */
void loom__cpu_rows_clear_partition(const loom__open_view *view, uint32_t partition)
{
    const loom__rows_view *rows = open_rows_of(view);
    const uint64_t row_bytes = (uint64_t)view->buckets * open_slots(SLOT_TAG) * rows->row_bytes;
    memset(view->base + (uint64_t)partition * view->partition_bytes, 0, view->partition_bytes);
    memset(rows->rows + partition * row_bytes, 0, row_bytes);
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

#include "machines/cpu/core/cpu_map_calls.h"

/* ---- refill ---- */

/* A thread moves each row once, from its old place to its new one. All keys are different, so none is compared. */

typedef struct engine_filling {
    map_work *work;
    uint32_t first, end; /* partitions */
} engine_filling;

enum {
    MOST_FILLED = 16, /* partitions, for short runs */
    ROWS_AHEAD = 8    /* slots between prefetch and use */
};

static uint32_t engine_most_filled(const loom__open_view *view)
{
    (void)view;
    return MOST_FILLED;
}

static void engine_filling_open(engine_filling *filling, map_work *work, uint32_t first, uint32_t end)
{
    *filling = (engine_filling){work, first, end};
}

static void engine_filling_close(engine_filling *filling)
{
    (void)filling;
}

/* Stores a key that is not in the table. At most `buckets` rounds. False: the partition is full; nobody will use the
 * table. */
static int store_new(const loom__open_view *view, open_walk walk, uint64_t value)
{
    const lane_group alone = {0};
    for (; walk.depth < view->buckets; open_advance(view, &walk)) {
        lane_line line;
        lane_take(alone, &line, open_line(SLOT_TAG, &walk, walk.bucket), OPEN_ALONE, 1, OPEN_LINE_BYTES);
        const lane_slots frees =
            lane_match(&line, slot_key_bytes(SLOT_TAG), slot_stride(SLOT_TAG), open_slots(SLOT_TAG), 0);
        if (lane_any(frees))
            return (int)open_claim(SLOT_TAG, OPEN_ALONE, view, &walk, walk.bucket,
                                   lane_first(frees, slot_stride(SLOT_TAG)), value);
        open_set_bit(SLOT_TAG, OPEN_ALONE, &walk, walk.bucket);
    }
    return 0;
}

static void engine_fill_from(engine_filling *filling, uint32_t source)
{
    const loom__open_view *to = filling->work->view;
    const loom__table_slots *from = &filling->work->from;
    const uint32_t slots = from->buckets * from->slots;
    uint64_t refused = 0;
    for (uint32_t i = 0; i < slots; i++) {
        const uint32_t ahead = i + ROWS_AHEAD < slots ? i + ROWS_AHEAD : i;
        const unsigned char *row = from->rows + loom__slot_row(from, source, 0, i);
        lane_prefetch(from->rows + loom__slot_row(from, source, 0, ahead));
        if (slot_key(SLOT_TAG, loom__slot_key_at(from, source, i / from->slots, 0), i % from->slots) == 0)
            continue;
        const open_walk walk = open_start(SLOT_TAG, to, (uint64_t)(uintptr_t)row);
        if (walk.partition_index >= filling->first && walk.partition_index < filling->end)
            refused += !store_new(to, walk, (uint64_t)(uintptr_t)(row + from->row_value_offset));
    }
    if (refused > 0)
        loom__cpu_add_counts(&filling->work->counts, &(loom__cpu_counts){.full = refused});
}

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

const loom__map_kernels loom__cpu_rows_kernels = {
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
};
