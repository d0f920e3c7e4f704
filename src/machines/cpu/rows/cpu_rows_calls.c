/* The rows engine's calls on the cpu machine. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/open/cpu_open.h"
#include "machines/cpu/rows/cpu_rows_engine.h"

#include <string.h>

#define engine_clear_partition   loom__cpu_rows_clear_partition
#define engine_key_bytes(view)   open_rows_of(view)->key_bytes
#define engine_value_bytes(view) open_rows_of(view)->value_bytes
#define engine_strings           strings_of
#define engine_reset_heap        reset_heap
#define engine_survey            survey_of

static void reset_heap(const loom__open_view *view)
{
    if (view->kind == SLOT_STRING)
        memset(open_rows_of(view)->strings, 0, sizeof *open_rows_of(view)->strings);
}

static loom__survey survey_of(const loom__open_view *view, const open_sums *sums)
{
    const loom__rows_view *rows = open_rows_of(view);
    loom__survey survey = open_survey_of(view, sums);
    if (view->kind == SLOT_STRING)
        survey.heap_used = rows->strings->used < rows->heap_room ? rows->strings->used : rows->heap_room;
    return survey;
}

/* Of a batch, or of any batch (NULL). Calls that have shares of the heap (below) copy their strings, which fit into
 * the heap. */
static loom__cpu_strings strings_of(const loom__open_view *view, const loom__batch *batch)
{
    const loom__rows_view *rows = open_rows_of(view);
    if (view->kind != SLOT_STRING)
        return (loom__cpu_strings){0};
    const int copies = batch != NULL && rows->share != NULL && !(batch->flags & LOOM_LOW_MEMORY);
    const uint64_t bytes = batch == NULL ? rows->heap_room : copies ? batch->string_bytes : 0;
    return (loom__cpu_strings){.variable = rows->variable,
                               .most_key_bytes = rows->most_key_bytes,
                               .most_value_bytes = rows->most_value_bytes,
                               .bytes = rows->variable & LOOM__VARIABLE_KEYS ? bytes : 0};
}

static loom__table_slots engine_slots(const void *view)
{
    return open_rows_table_slots(view);
}

static const loom__cpu_map_simd *engine_simd(const loom__machine *machine, const void *view)
{
    const loom__cpu_machine_state *cpu = (const loom__cpu_machine_state *)machine;
    return ((const loom__open_view *)view)->kind == SLOT_STRING ? cpu->strings_simd : cpu->rows_simd;
}

#include "machines/cpu/open/cpu_open_calls.h"

/* Rows of free slots may hold anything, except memory of others: files hold them, too. */
void loom__cpu_rows_clear_partition(const loom__open_view *view, uint32_t partition)
{
    const loom__rows_view *rows = open_rows_of(view);
    const uint64_t count = (uint64_t)view->buckets * open_slots(SLOT_TAG);
    const open_row_place first = open_row_of_number(rows, partition * count);
    memset(view->base + (uint64_t)partition * view->partition_bytes, 0, view->partition_bytes);
    memset(first.key, 0, count * rows->key_stride);
    if (rows->apart)
        memset(first.value, 0, count * rows->value_stride);
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

/* Copies a string to the new heap, and changes its reference. */
static void move_string(const loom__rows_view *to, const loom__table_slots *from, uint64_t place, unsigned char *at,
                        int is_value)
{
    open_stored stored;
    memcpy(&stored, at, sizeof stored);
    const uint64_t piece = open_piece_of(stored.length);
    memcpy(to->heap + place, from->heap + stored.at, piece);
    stored.at = place;
    if (is_value)
        stored.mark = (uint32_t)piece;
    memcpy(at, &stored, sizeof stored);
}

static uint64_t piece_of_reference(const unsigned char *at)
{
    open_stored stored;
    memcpy(&stored, at, sizeof stored);
    return open_piece_of(stored.length);
}

/* Stores a row of the old table. False: the new one has no room; nobody will use it. The strings of a row go to one
 * piece of the new heap, the value behind the key. */
static int store_new(const loom__open_view *view, open_walk *walk, open_row_place row, const loom__table_slots *from)
{
    const loom__rows_view *to = open_rows_of(view);
    const lane_group alone = {0};
    if (!open_place_row(SLOT_TAG, OPEN_ALONE, alone, view, walk, row))
        return 0;
    if (view->kind != SLOT_STRING)
        return 1;
    const open_row_place copy = open_row(to, walk->partition_index, walk->bucket, walk->free_slot);
    const uint64_t key_piece = to->variable & LOOM__VARIABLE_KEYS ? piece_of_reference(row.key) : 0;
    const uint64_t value_piece = to->variable & LOOM__VARIABLE_VALUES ? piece_of_reference(row.value) : 0;
    const uint64_t place = open_take_bytes(to, key_piece + value_piece);
    if (place == OPEN_NO_BYTES_LEFT)
        return 0;
    if (to->variable & LOOM__VARIABLE_KEYS)
        move_string(to, from, place, copy.key, 0);
    if (to->variable & LOOM__VARIABLE_VALUES)
        move_string(to, from, place + key_piece, copy.value, 1);
    return 1;
}

/* Announces the string of a row, which a hash will read. */
static void announce_string(const loom__table_slots *from, const unsigned char *row)
{
    open_stored stored;
    memcpy(&stored, row, sizeof stored); /* of a free slot: any bytes, and a prefetch of any address does no harm */
    lane_prefetch((const void *)((uintptr_t)from->heap + stored.at));
}

static open_walk start_from(const loom__open_view *to, const loom__table_slots *from, const unsigned char *row)
{
    open_stored stored;
    if (!(from->row_variable & LOOM__VARIABLE_KEYS))
        return open_start(SLOT_TAG, to, (uint64_t)(uintptr_t)row);
    memcpy(&stored, row, sizeof stored);
    return open_start_at(SLOT_TAG, to, 0, loom__hash_bytes(from->heap + stored.at, stored.length, to->seed));
}

static void engine_fill_from(engine_filling *filling, uint32_t source)
{
    const loom__open_view *to = filling->work->view;
    const loom__table_slots *from = &filling->work->from;
    const uint32_t slots = from->buckets * from->slots;
    uint64_t refused = 0;
    for (uint32_t i = 0; i < slots; i++) {
        const uint32_t ahead = i + ROWS_AHEAD < slots ? i + ROWS_AHEAD : i;
        const uint64_t number = loom__slot_row(from, source, 0, i), next = loom__slot_row(from, source, 0, ahead);
        const open_row_place row = {from->rows + number * from->row_key_stride,
                                    from->row_values + number * from->row_value_stride};
        lane_prefetch(from->rows + next * from->row_key_stride);
        if (from->row_variable & LOOM__VARIABLE_KEYS)
            announce_string(from, from->rows + next * from->row_key_stride);
        if (slot_key(SLOT_TAG, loom__slot_key_at(from, source, i / from->slots, 0), i % from->slots) == 0)
            continue;
        open_walk walk = start_from(to, from, row.key);
        if (walk.partition_index >= filling->first && walk.partition_index < filling->end)
            refused += !store_new(to, &walk, row, from);
    }
    if (refused > 0)
        loom__cpu_add_counts(&filling->work->counts, &(loom__cpu_counts){.full = refused});
}

#include "machines/cpu/core/cpu_map_refill.h"

static loom_status refill_rows(loom__machine *machine, const void *from, const void *to, uint64_t *refused,
                               loom_stream stream)
{
    reset_heap(to);
    return refill(machine, from, to, refused, stream);
}

/* ---- shares of the heap ---- */

/* Whether the threads of an insertion have shares (open_take_of_share): the heap surely has room for all its strings.
 * Repeated keys may leave a part of a share unused, so an insertion that is no build needs twice the room: what later
 * calls may need is not taken. */
static int has_shares(const loom__rows_view *rows, const loom__batch *batch)
{
    if (rows->lines.kind != SLOT_STRING || !engine_splits(batch->flags, batch->replace != 0))
        return 0;
    const uint64_t used = batch->replace ? 0 : rows->strings->used;
    return used <= rows->heap_room && batch->string_bytes <= (rows->heap_room - used) / (batch->replace ? 1 : 2);
}

static loom_status insert_rows(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    static open_share of_call; /* says that there are shares; each thread has its own */
    loom__rows_view view = *open_rows_of(any_view);
    if (has_shares(&view, batch))
        view.share = &of_call;
    return insert_bulk(machine, &view, batch);
}

const loom__map_kernels loom__cpu_rows_kernels = {
    .reset_totals = reset_totals,
    .clear = clear,
    .find = find,
    .write = write_ranges,
    .insert_bulk = insert_rows,
    .bulk_bytes = bulk_bytes,
    .retrieve = retrieve,
    .survey = survey,
    .refill = refill_rows,
    .upkeep = loom__cpu_open_upkeep,
    .count_accesses = count_accesses,
};
