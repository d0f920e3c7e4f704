/* The rows engine's calls on the cpu machine. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/open/cpu_open.h"
#include "machines/cpu/rows/cpu_rows_engine.h"

#include <string.h>

#define engine_clear_partition   loom__cpu_rows_clear_partition
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

#include "machines/cpu/open/cpu_open_calls.h"

/* Rows of free slots may hold anything, except memory of others: files hold them, too. */
void loom__cpu_rows_clear_partition(const loom__open_view *view, uint32_t partition)
{
    const loom__rows_view *rows = open_rows_of(view);
    const uint64_t row_bytes = (uint64_t)view->buckets * open_slots(SLOT_TAG) * rows->row_bytes;
    memset(view->base + (uint64_t)partition * view->partition_bytes, 0, view->partition_bytes);
    memset(rows->rows + partition * row_bytes, 0, row_bytes);
    engine_reset_state(view, partition);
}

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
