/* The ticket engine on the cpu machine: runs ranges of keys through the lane algorithms of ticket_ops.h, and supplies
 * the calls (cpu_map_calls.h). A lane is a thread.
 *
 * A present key costs a ticket, which lies in a cache unless the table is very large, and then its row in DRAM. So a
 * key is hashed and its ticket prefetched AHEAD keys before its turn; LOOK_AHEAD keys before, the home ticket is read,
 * and the row that the turn will probably need is prefetched. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "machines/cpu/tickets/cpu_tickets.h"
#include "core/lanes.h"
#include "engines/tickets/ticket_upkeep.h"
#include "machines/cpu/core/cpu_bulk.h"

#include <string.h>

enum { DONE = TICKET_DONE, WAS_THERE = TICKET_WAS_THERE, ABSENT = TICKET_NOT_THERE, NO_ROOM = TICKET_NO_ROOM };

static const uint8_t status_of_outcome[] = {
    [TICKET_GO_ON] = LOOM_INTERNAL,      [TICKET_DONE] = LOOM_OK,      [TICKET_WAS_THERE] = LOOM_EXISTS,
    [TICKET_NOT_THERE] = LOOM_NOT_FOUND, [TICKET_NO_ROOM] = LOOM_FULL,
};

#include "machines/cpu/core/cpu_map_simd.h"

enum {
    AHEAD = 24,      /* keys between the prefetch of the ticket and the turn */
    LOOK_AHEAD = 12, /* keys between the prefetch of the row and the turn */
    RING = 32        /* a power of two above both */
};

/* ---- keys on their way ---- */

typedef struct ticket_way {
    const unsigned char *keys;
    uint64_t stride, end; /* of the keys */
    uint64_t started, looked;
    ticket_walk ring[RING];
} ticket_way;

static void start(const loom__ticket_view *view, ticket_way *way)
{
    ticket_walk *walk = &way->ring[way->started % RING];
    uint32_t shift;
    *walk = ticket_start(view, way->keys + way->started * way->stride);
    lane_prefetch(ticket_word(view, walk->partition, walk->slot, &shift));
    way->started++;
}

/* A row that holds another key is needed only if the home ticket has the key's info. */
static void look(const loom__ticket_view *view, int writes, ticket_way *way)
{
    const ticket_walk *walk = &way->ring[way->looked % RING];
    const ticket_look seen = ticket_look_at(view, walk);
    if (seen.is_info || (writes && seen.state & TICKET_AVAILABLE)) {
        const open_row_place row = ticket_row(view, walk->partition, walk->slot);
        writes ? lane_prefetch_to_write(row.key) : lane_prefetch(row.key);
        writes ? lane_prefetch_to_write(row.value) : lane_prefetch(row.value);
    }
    way->looked++;
}

/* Runs before key `index` takes its turn. The first call brings all keys that are due. */
static void bring(const loom__ticket_view *view, int writes, uint64_t index, ticket_way *way)
{
    while (way->started < way->end && way->started <= index + AHEAD)
        start(view, way);
    while (way->looked < way->end && way->looked <= index + LOOK_AHEAD)
        look(view, writes, way);
}

/* ---- find ---- */

/* The value of an absent key. */
static void tell_absent(const loom__ticket_view *view, const loom__batch *batch, unsigned char *to)
{
    if (view->value_bytes <= sizeof batch->absent)
        memcpy(to, &batch->absent, view->value_bytes);
    else
        memset(to, 0, view->value_bytes);
}

static void find_range(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                       loom__cpu_counts *counts)
{
    const loom__ticket_view *view = any_view;
    ticket_way way = {.keys = batch->keys, .stride = view->key_bytes, .end = end, .started = begin, .looked = begin};
    const int with_values = batch->found_values != NULL && view->value_bytes > 0;
    uint64_t found = 0;
    (void)shared;
    for (uint64_t i = begin; i < end; i++) {
        bring(view, 0, i, &way);
        ticket_walk walk = way.ring[i % RING];
        unsigned char *to = with_values ? (unsigned char *)batch->found_values + i * view->value_bytes : NULL;
        ticket_outcome outcome;
        do { /* at most `slots` turns: nobody writes beside lookups */
            outcome = ticket_find_turn(TICKET_ALONE, 0, view, &walk, to);
        } while (outcome == TICKET_GO_ON);
        if (outcome != TICKET_DONE && with_values)
            tell_absent(view, batch, to);
        if (batch->status != NULL)
            batch->status[i] = status_of_outcome[outcome];
        if (batch->found != NULL)
            batch->found[i] = outcome == TICKET_DONE;
        found += outcome == TICKET_DONE;
    }
    loom__cpu_add_counts(counts, &(loom__cpu_counts){.ok = found, .not_found = end - begin - found});
}

static void count_range(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                        loom__cpu_counts *counts)
{
    const loom__ticket_view *view = any_view;
    loom__cpu_counts local = {0};
    (void)shared;
    for (uint64_t i = begin; i < end; i++) {
        ticket_walk walk = ticket_start(view, (const unsigned char *)batch->keys + i * view->key_bytes);
        while (ticket_find_turn(TICKET_ALONE, 0, view, &walk, NULL) == TICKET_GO_ON)
            ;
        local.accesses += walk.depth + 1;
    }
    loom__cpu_add_counts(counts, &local);
}

/* ---- writes ---- */

/* One turn of a key. `value` is the address of the given one. */
static ticket_outcome write_turn(int shared, const loom__ticket_view *view, const loom__batch *batch, ticket_walk *walk,
                                 const unsigned char *given, unsigned char *to)
{
    const uint64_t value[2] = {(uint64_t)(uintptr_t)given, (uint64_t)(uintptr_t)to};
    if (batch->write == LOOM__WRITE_ERASE)
        return ticket_erase_turn(shared, 0, view, walk);
    if (batch->write == LOOM__WRITE_UPDATE)
        return ticket_update_turn(shared, view, walk, value);
    return ticket_insert_turn(mode_of(batch->write), batch->rule, shared, view, walk, value);
}

/* Takes the turns of a key. They may wait for a thread that holds a ticket, which does not wait itself. */
static void write_key(int shared, const loom__ticket_view *view, const loom__batch *batch, ticket_walk walk,
                      const unsigned char *given, uint64_t index, loom__cpu_counts *counts)
{
    const int fetches = batch->write == LOOM__WRITE_FETCH && batch->found_values != NULL;
    unsigned char *to = fetches ? (unsigned char *)batch->found_values + index * view->value_bytes : NULL;
    ticket_outcome outcome;
    do {
        outcome = write_turn(shared, view, batch, &walk, given, to);
    } while (outcome == TICKET_GO_ON);
    if (fetches) {
        const uint64_t value[2] = {(uint64_t)(uintptr_t)given, (uint64_t)(uintptr_t)to};
        slot_tell_fetched(view->value_bytes, outcome == TICKET_DONE, outcome == TICKET_NO_ROOM, value);
    }
    tell_outcome(batch, index, outcome, counts);
}

static void write_range(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                        loom__cpu_counts *counts)
{
    const loom__ticket_view *view = any_view;
    ticket_way way = {.keys = batch->keys, .stride = view->key_bytes, .end = end, .started = begin, .looked = begin};
    loom__cpu_counts local = {0};
    for (uint64_t i = begin; i < end; i++) {
        bring(view, 1, i, &way);
        const uint64_t number = batch->write == LOOM__WRITE_COMBINE
                                    ? slot_number_at(view->value_bytes, batch->values, batch->widening, i)
                                    : 0;
        const unsigned char *given = batch->write == LOOM__WRITE_COMBINE ? (const unsigned char *)&number
                                     : batch->values != NULL
                                         ? (const unsigned char *)batch->values + i * view->value_bytes
                                         : NULL;
        write_key(shared ? TICKET_SHARED : TICKET_ALONE, view, batch, way.ring[i % RING], given, i, &local);
    }
    loom__cpu_add_counts(counts, &local);
}

static void insert_of_owner(const void *any_view, const loom__batch *batch, const loom__cpu_records *records,
                            void *scratch, loom__cpu_counts *counts)
{
    const loom__ticket_view *view = any_view;
    ticket_way way = {.keys = records->keys, .stride = records->key_stride, .end = records->n};
    loom__cpu_counts local = {0};
    (void)scratch;
    for (uint64_t i = 0; i < records->n; i++) {
        bring(view, 1, i, &way);
        const unsigned char *given = records->values != NULL ? records->values + i * records->value_stride : NULL;
        write_key(TICKET_ALONE, view, batch, way.ring[i % RING], given, records->index != NULL ? records->index[i] : i,
                  &local);
    }
    loom__cpu_add_counts(counts, &local);
}

/* ---- calls ---- */

static void survey_partition(const void *any_view, uint32_t partition, void *sums)
{
    const loom__ticket_view *view = any_view;
    uint32_t free_tickets = 0;
    for (uint32_t slot = 0; slot < view->slots; slot++)
        free_tickets += (uint32_t)ticket_survey_slot(view, partition, slot, sums);
    ticket_survey_end(view, partition, free_tickets, sums);
}

static const loom__cpu_map_simd loops = {find_range, write_range, count_range, insert_of_owner, survey_partition};

typedef loom__ticket_view engine_view;
typedef ticket_sums engine_sums;
typedef char engine_scratch; /* insertions need no scratch memory */

#define engine_key_bytes(view)     (view)->key_bytes
#define engine_value_bytes(view)   (view)->value_bytes
#define engine_simd(machine, view) (&loops)

static int engine_splits(uint32_t flags, int builds)
{
    return !(flags & LOOM_DIRECTLY || (builds && flags & LOOM_LOW_MEMORY && !(flags & LOOM_IN_ORDER)));
}

static void engine_scratch_open(engine_scratch *scratch, const loom_allocator *allocator, const engine_view *view,
                                uint32_t first, uint32_t end)
{
    (void)scratch, (void)allocator, (void)view, (void)first, (void)end;
}

static void engine_scratch_close(engine_scratch *scratch)
{
    (void)scratch;
}

/* Rows of free tickets may hold anything, except memory of others: files hold them, too. */
static void engine_clear_partition(const engine_view *view, uint32_t partition)
{
    memset(view->board + partition * view->partition_words, 0xff, view->partition_words * sizeof *view->board);
    memset(ticket_row(view, partition, 0).key, 0, (uint64_t)view->slots * view->stride);
    view->depths[partition] = 0;
}

static void engine_add_sums(ticket_sums *total, const ticket_sums *own)
{
    __atomic_fetch_add(&total->size, own->size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->displaced, own->displaced, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->accesses, own->accesses, __ATOMIC_RELAXED);
    loom__cpu_keep_larger(&total->fullest, own->fullest);
    loom__cpu_keep_larger(&total->longest, own->longest);
    loom__cpu_keep_larger(&total->lowest_bad_inverted, own->lowest_bad_inverted);
    __atomic_fetch_add(&total->miss_1024ths, own->miss_1024ths, __ATOMIC_RELAXED);
}

static loom__survey engine_survey(const engine_view *view, const ticket_sums *sums)
{
    return ticket_survey_of(view, sums);
}

#define ENGINE_HAS_OWN_SCANS
#include "machines/cpu/core/cpu_map_calls.h"

static loom_status insert_bulk(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__ticket_view *view = any_view;
    if (engine_splits(batch->flags, batch->replace != 0))
        return loom__cpu_is_small(view->partitions, batch->n) ? insert_alone(machine, view, batch)
                                                              : insert_by_partition(machine, view, batch);
    if (batch->replace)
        clear(machine, view, batch->stream);
    return write_ranges(machine, view, batch);
}

/* ---- whole tables ---- */

static void reset_task(void *any_view, uint64_t partition)
{
    const loom__ticket_view *view = any_view;
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        const uint32_t depth = ticket_depth_of(view, (uint32_t)partition, slot);
        if (depth > view->depths[partition])
            view->depths[partition] = depth;
    }
}

/* Depths follow from the rows. A table without keys may have memory that nobody has written yet. */
static loom_status reset_depths(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                loom_stream stream)
{
    loom__ticket_view view = *(const loom__ticket_view *)any_view;
    (void)stream;
    *view.totals = *totals;
    memset(view.depths, 0, view.partitions * sizeof *view.depths);
    if (totals->size > 0)
        loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view.partitions, reset_task, &view);
    return LOOM_OK;
}

static void upkeep_task(void *any_view, uint64_t partition)
{
    const loom__ticket_view *view = any_view;
    if (ticket_is_worn(view, ticket_count(view, (uint32_t)partition, 0, 1, TICKET_AVAILABLE)))
        ticket_put_in_order(view, (uint32_t)partition);
}

static loom_status upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream)
{
    loom__ticket_view view = *(const loom__ticket_view *)any_view;
    (void)sweep, (void)stream;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view.partitions, upkeep_task, &view);
    return LOOM_OK;
}

/* ---- retrieve ---- */

enum { WINDOW = 512 /* partitions that are counted at once */ };

typedef struct retrieve_work {
    const loom__ticket_view *view;
    uint64_t first;          /* partition */
    uint32_t from;           /* slot of the first partition */
    uint64_t counts[WINDOW]; /* rows in each partition; then where they go */
    uint64_t room;           /* rows in all */
    uint64_t behind;         /* the slot behind the last row that was copied, counted over all partitions */
    unsigned char *keys, *values;
} retrieve_work;

static int is_ready(const loom__ticket_view *view, uint64_t partition, uint32_t slot)
{
    return (ticket_load(view, (uint32_t)partition, slot) & TICKET_STATE) == TICKET_ACCESS;
}

/* Rows of a partition from a slot on. */
static uint64_t count_rows(const loom__ticket_view *view, uint64_t partition, uint32_t from)
{
    uint64_t count = 0;
    for (; from % view->per_word != 0 && from < view->slots; from++)
        count += (uint64_t)is_ready(view, partition, from);
    return count + ticket_count(view, (uint32_t)partition, from / view->per_word + (from % view->per_word != 0), 1,
                                TICKET_ACCESS);
}

static void count_task(void *argument, uint64_t index)
{
    retrieve_work *work = argument;
    work->counts[index] = count_rows(work->view, work->first + index, index == 0 ? work->from : 0);
}

/* Copies the rows of a partition to counts[index] and behind, as far as there is room. Then counts[index] is where the
 * next row would go. */
static void copy_task(void *argument, uint64_t index)
{
    retrieve_work *work = argument;
    const loom__ticket_view *view = work->view;
    uint64_t at = work->counts[index];
    uint32_t slot = index == 0 ? work->from : 0;
    for (; slot < view->slots && at < work->room; slot++) {
        if (!is_ready(view, work->first + index, slot))
            continue;
        const open_row_place row = ticket_row(view, (uint32_t)(work->first + index), slot);
        if (work->keys != NULL)
            memcpy(work->keys + at * view->key_bytes, row.key, view->key_bytes);
        if (work->values != NULL)
            memcpy(work->values + at * view->value_bytes, row.value, view->value_bytes);
        at++;
    }
    work->counts[index] = at;
    if (at >= work->room || slot == view->slots)
        loom__cpu_keep_larger(&work->behind, (work->first + index) * view->slots + slot);
}

/* Partitions that are worth counting for so many rows. One is copied without being counted. */
static uint64_t window_for(const loom__ticket_view *view, uint64_t first, uint64_t rows)
{
    const uint64_t left = view->partitions - first, useful = rows / view->slots * 2 + 1;
    return useful < WINDOW ? (useful < left ? useful : left) : WINDOW < left ? WINDOW : left;
}

static loom_status retrieve_rows(loom__machine *machine, const void *any_view, loom__position *position, void *keys,
                                 void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__ticket_view *view = any_view;
    loom__pool *pool = ((loom__cpu_machine_state *)machine)->pool;
    (void)stream;
    for (*got = 0; *got < room && position->bucket / view->slots < view->partitions;) {
        retrieve_work work = {.view = view,
                              .first = position->bucket / view->slots,
                              .from = (uint32_t)(position->bucket % view->slots),
                              .room = room,
                              .keys = keys,
                              .values = values};
        const uint64_t window = window_for(view, work.first, room - *got);
        uint64_t at = *got, used = 0;
        if (window == 1) {
            work.counts[0] = at;
            copy_task(&work, 0);
            at = work.counts[0];
        } else {
            loom__pool_run(pool, window, count_task, &work);
            for (; used < window && at < room; used++) {
                const uint64_t count = work.counts[used];
                work.counts[used] = at;
                at += count;
            }
            loom__pool_run(pool, used, copy_task, &work);
        }
        *got = at < room ? at : room;
        position->bucket = work.behind;
    }
    return LOOM_OK;
}

const loom__map_kernels loom__cpu_tickets_kernels = {
    .reset_totals = reset_depths,
    .clear = clear,
    .find = find,
    .write = write_ranges,
    .insert_bulk = insert_bulk,
    .bulk_bytes = bulk_bytes,
    .retrieve = retrieve_rows,
    .survey = survey,
    .upkeep = upkeep,
    .count_accesses = count_accesses,
};
