/* Runs ranges of keys through the lane algorithms of open_ops.h, in tables with rows, for one kind of SIMD. The
 * including file sets LOOM_LANES_HEADER and CPU_ROWS_SIMD_TABLE, for strings (cpu_strings_simd.h) also CPU_ROWS_KIND.
 * cpu_map_simd.h has the steps that all engines share.
 *
 * A present key costs two accesses to DRAM, its line of tags and its row, and the second depends on the first. So a key
 * passes three stages, and many keys are in each of them:
 *   1. start    Hashes the key and prefetches its home line, AHEAD keys before stage 2.
 *   2. look     Finds the first slot with the key's tag, and prefetches its row.
 *   3. settle   Compares the key and copies the value, at the end of a block.
 * Keys whose tag is not in the home line are absent, unless their filter bit is set. Those, and the few whose first row
 * holds another key, walk their probe sequence at the end of the block.
 *
 * Insertions and other writes pass the same stages with a look that prefetches the row of the first slot with the tag,
 * or else of the first free slot. The turn itself then finds both in the cache.
 *
 * Strings (SLOT_STRING) cost a third access, which depends on the second. A further stage between 2 and 3 reads the
 * reference in the row, compares its length and 32 bits of the hash with the key's, and prefetches the string. */
#include "core/lanes.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/rows/cpu_rows_engine.h"

#ifndef CPU_ROWS_KIND
#define CPU_ROWS_KIND SLOT_TAG
#endif

typedef loom__open_view engine_view; /* the first member of a loom__rows_view */

enum { DONE = OPEN_DONE, WAS_THERE = OPEN_WAS_THERE, ABSENT = OPEN_ABSENT, NO_ROOM = OPEN_NO_ROOM };

static const uint8_t status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL, [OPEN_NO_BYTES] = LOOM_FULL,
};

#include "machines/cpu/core/cpu_map_simd.h"

enum {
    AHEAD = 16, /* find: keys between stages 1 and 2 */
    BLOCK = 64, /* find: keys between stages 2 and 3; their rows stay in the L1 cache */
    RING = 128, /* a power of two, at least BLOCK + AHEAD */
    BYTES_AHEAD =
        16, /* strings: keys between the prefetch of their bytes and stage 1; those of a split batch lie anywhere */
    WRITE_AHEAD = 24, /* writes: keys between stage 1 and the turn, */
    LOOK_AHEAD = 8,   /*   and between stage 2 and the turn */
    REFER_AHEAD = 4,  /*   and, for strings, between a look at the row and the turn */
    WRITE_RING = 32,  /* a power of two above all */
    WRITE_BLOCK = 256 /* writes: keys between two passes over those that go on */
};

LOOM_LANE uint64_t address_of(const void *array, uint64_t width, uint64_t i)
{
    return (uint64_t)(uintptr_t)((const unsigned char *)array + i * width);
}

/* ---- widths ---- */

/* The usual widths take a load or two. A branch that always goes the same way costs little. */
LOOM_LANE int same_key(const unsigned char *a, const unsigned char *b, uint32_t bytes)
{
    uint64_t x[2], y[2];
    if (bytes != 8 && bytes != 16)
        return memcmp(a, b, bytes) == 0;
    memcpy(x, a, 8);
    memcpy(y, b, 8);
    if (bytes == 8)
        return x[0] == y[0];
    memcpy(x + 1, a + 8, 8);
    memcpy(y + 1, b + 8, 8);
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

LOOM_LANE void copy_value(unsigned char *to, const unsigned char *from, uint32_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, bytes);
}

LOOM_LANE void prefetch_bytes_at(const unsigned char *at, const unsigned char *end, int to_write)
{
    for (; at < end; at += 64)
        to_write ? lane_prefetch_to_write(at) : lane_prefetch(at);
    to_write ? lane_prefetch_to_write(end - 1) : lane_prefetch(end - 1);
}

/* The lines of a row's key and, unless only the key is wanted, the first line of its value. The processor fetches what
 * follows. Apart, key and value are two places. */
LOOM_LANE void prefetch_row(const loom__rows_view *rows, open_row_place row, int with_value, int to_write)
{
    const unsigned char *value_end = row.value + (rows->value_bytes > 64 ? 64 : rows->value_bytes);
    if (with_value && !rows->apart) {
        prefetch_bytes_at(row.key, value_end, to_write);
        return;
    }
    prefetch_bytes_at(row.key, row.key + rows->key_bytes, to_write);
    if (with_value)
        prefetch_bytes_at(row.value, value_end, to_write);
}

/* The first lines of a string. */
LOOM_LANE void prefetch_string(const loom__rows_view *rows, uint64_t place, uint32_t length)
{
    enum { LINES = 4 };
    const uintptr_t at = (uintptr_t)rows->heap + place;
    lane_prefetch((const void *)at);
    for (uintptr_t line = (at | 63) + 1; line < at + length && line < at + LINES * 64; line += 64)
        lane_prefetch((const void *)line);
}

/* Whether the row's key is the walk's. */
LOOM_LANE int is_key_of(loom__slot_kind kind, const loom__rows_view *rows, const open_walk *walk,
                        const unsigned char *key)
{
    if (open_has_string_keys(kind, rows))
        return (int)open_same_string(rows, walk, key);
    return same_key(key, (const unsigned char *)(uintptr_t)walk->key, rows->key_bytes);
}

/* ---- find ---- */

/* A key between two stages. */
typedef struct sought {
    open_walk walk;
    open_row_place row; /* that may hold the key; row.key is NULL: none */
    uint32_t further;   /* the key may be in another bucket or in another row */
} sought;

LOOM_LANE void find_start(loom__slot_kind kind, const loom__rows_view *rows, const loom__batch *batch, uint64_t index,
                          sought *ring)
{
    open_walk *walk = &ring[index % RING].walk;
    *walk = open_start(kind, &rows->lines, address_of(batch->keys, rows->key_bytes, index));
    lane_prefetch(open_line(kind, walk, walk->bucket));
}

LOOM_LANE void find_look(loom__slot_kind kind, const loom__rows_view *rows, int with_value, sought *one)
{
    const open_walk *walk = &one->walk;
    lane_line line;
    lane_take(whole_group, &line, open_line(kind, walk, walk->bucket), 0, 1, open_span(kind));
    const lane_slots tagged = lane_match(&line, slot_key_bytes(kind), slot_stride(kind), open_slots(kind), walk->tag);
    one->row.key = NULL;
    one->further = lane_filter(whole_group, &line, open_word_offset(kind), open_filter_bit(kind, walk->lower)) |
                   lane_any(lane_rest(tagged, slot_stride(kind)));
    if (lane_any(tagged)) {
        one->row = open_row_at(&rows->lines, walk, lane_first(tagged, slot_stride(kind)));
        prefetch_row(rows, one->row, with_value, 0);
    }
}

/* Strings: drops a row whose reference cannot be the key's, and prefetches the string of the others. */
LOOM_LANE void find_refer(const loom__rows_view *rows, sought *one)
{
    open_stored stored;
    if (one->row.key == NULL)
        return;
    memcpy(&stored, one->row.key, sizeof stored);
    if (stored.mark == one->walk.lower && stored.length == open_string_at(one->walk.key).length)
        prefetch_string(rows, stored.at, stored.length);
    else
        one->row.key = NULL;
}

/* The rest of the probe sequence, from the home bucket on. Returns the row of the key; without a key: there is none. */
LOOM_STEP open_row_place find_late(const loom__rows_view *rows, open_walk walk)
{
    const open_look look = rows->lines.kind == SLOT_STRING ? open_search(SLOT_STRING, whole_group, &rows->lines, &walk)
                                                           : open_search(SLOT_TAG, whole_group, &rows->lines, &walk);
    const open_row_place none = {NULL, NULL};
    return look.found ? open_row_at(&rows->lines, &walk, look.slot) : none;
}

/* Writes a reference to the value of a row; without a row, to the empty string. */
LOOM_LANE void refer_to_value(const loom__rows_view *rows, open_row_place row, unsigned char *to)
{
    loom__string string = {0, 0};
    open_stored stored;
    if (row.key != NULL) {
        memcpy(&stored, row.value, sizeof stored);
        string.at = (uint64_t)(uintptr_t)(rows->heap + stored.at);
        string.length = stored.length;
    }
    memcpy(to, &string, sizeof string);
}

/* Returns whether the key was found. */
LOOM_LANE uint64_t find_settle(loom__slot_kind kind, const loom__rows_view *rows, const loom__batch *batch,
                               const uint64_t *absent, const sought *one, uint64_t index)
{
    open_row_place row = one->row;
    if (row.key != NULL && !is_key_of(kind, rows, &one->walk, row.key))
        row.key = NULL;
    if (row.key == NULL && one->further)
        row = find_late(rows, one->walk);
    if (batch->found_values != NULL && rows->value_bytes > 0) {
        unsigned char *to = (unsigned char *)batch->found_values + index * rows->value_bytes;
        if (open_has_string_values(kind, rows))
            refer_to_value(rows, row, to);
        else if (row.key != NULL)
            copy_value(to, row.value, rows->value_bytes);
        else if (rows->value_bytes <= sizeof *absent)
            memcpy(to, absent, rows->value_bytes);
        else
            memset(to, 0, rows->value_bytes);
    }
    if (batch->status != NULL)
        batch->status[index] = row.key != NULL ? LOOM_OK : LOOM_NOT_FOUND;
    if (batch->found != NULL)
        batch->found[index] = row.key != NULL;
    return row.key != NULL;
}

LOOM_LANE void find_range(loom__slot_kind kind, const loom__open_view *view, const loom__batch *const batch_given,
                          uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__rows_view rows = *open_rows_of(view); /* a copy: stores to the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    const int with_value = batch.found_values != NULL && rows.value_bytes > 0;
    sought ring[RING];
    uint64_t found = 0, next = begin;
    for (; next < end && next < begin + AHEAD; next++)
        find_start(kind, &rows, &batch, next, ring);
    for (uint64_t first = begin; first < end; first += BLOCK) {
        const uint64_t count = end - first < BLOCK ? end - first : BLOCK;
        for (uint64_t i = 0; i < count; i++, next++) {
            if (next < end)
                find_start(kind, &rows, &batch, next, ring);
            find_look(kind, &rows, with_value, &ring[(first + i) % RING]);
        }
        for (uint64_t i = 0; i < count && open_has_string_keys(kind, &rows); i++)
            find_refer(&rows, &ring[(first + i) % RING]);
        for (uint64_t i = 0; i < count; i++)
            found += find_settle(kind, &rows, &batch, &batch_given->absent, &ring[(first + i) % RING], first + i);
    }
    loom__cpu_add_counts(counts, &(loom__cpu_counts){.ok = found, .not_found = end - begin - found});
}

/* ---- writes ---- */

typedef struct deferred {
    open_walk walk;
    uint64_t index;
} deferred;

/* Keys on their way to the turn. */
typedef struct started {
    open_walk walk[WRITE_RING];
    const unsigned char *row[WRITE_RING]; /* strings: the key of a row that has the key's tag; NULL: none */
} started;

/* Keys before their turn: where they lie, and which of them enters a stage next. */
typedef struct stages {
    const void *keys, *hashes; /* hashes: NULL: not known */
    uint64_t stride, end;
    uint64_t next, looked, referred;
} stages;

LOOM_LANE void write_start(loom__slot_kind kind, const loom__rows_view *rows, const stages *at, started *ring)
{
    open_walk *walk = &ring->walk[at->next % WRITE_RING];
    const uint64_t key = address_of(at->keys, at->stride, at->next);
    if (open_has_string_keys(kind, rows) && at->hashes != NULL) {
        uint64_t hash;
        memcpy(&hash, (const unsigned char *)at->hashes + at->next * at->stride, sizeof hash);
        *walk = open_start_at(kind, &rows->lines, key, hash);
    } else
        *walk = open_start(kind, &rows->lines, key);
    lane_prefetch_to_write(open_line(kind, walk, walk->bucket));
}

/* Prefetches the row that the turn will probably need. Others may write the line meanwhile: a hint. */
LOOM_LANE void write_look(loom__slot_kind kind, const loom__rows_view *rows, int shared, uint64_t index, started *ring)
{
    const open_walk *walk = &ring->walk[index % WRITE_RING];
    lane_line line;
    lane_take(whole_group, &line, open_line(kind, walk, walk->bucket), shared, 1, open_span(kind));
    lane_slots likely = lane_match(&line, slot_key_bytes(kind), slot_stride(kind), open_slots(kind), walk->tag);
    if (open_has_string_keys(kind, rows))
        ring->row[index % WRITE_RING] =
            lane_any(likely) ? open_row_at(&rows->lines, walk, lane_first(likely, slot_stride(kind))).key : NULL;
    if (!lane_any(likely))
        likely = lane_match(&line, slot_key_bytes(kind), slot_stride(kind), open_slots(kind), 0);
    if (lane_any(likely))
        prefetch_row(rows, open_row_at(&rows->lines, walk, lane_first(likely, slot_stride(kind))),
                     rows->value_bytes > 0, 1);
}

/* Strings: prefetches the string of the row that the turn will probably compare. */
LOOM_LANE void write_refer(const loom__rows_view *rows, uint64_t index, const started *ring)
{
    const unsigned char *row = ring->row[index % WRITE_RING];
    if (row == NULL)
        return;
    const open_stored stored = open_load_reference(row); /* others may be writing it: a hint */
    if (stored.mark == ring->walk[index % WRITE_RING].lower)
        prefetch_string(rows, stored.at, stored.length);
}

LOOM_LANE void prefetch_bytes(uint64_t key)
{
    const loom__string string = open_string_at(key);
    lane_prefetch((const void *)(uintptr_t)string.at);
    if (string.length > 0)
        lane_prefetch((const void *)(uintptr_t)(string.at + string.length - 1));
}

/* Brings the first keys on their way. */
LOOM_LANE stages write_begin(loom__slot_kind kind, int shared, const loom__rows_view *rows, const void *keys,
                             const void *hashes, uint64_t stride, uint64_t begin, uint64_t end, started *ring)
{
    stages at = {keys, hashes, stride, end, begin, begin, begin};
    for (; at.next < end && at.next < begin + WRITE_AHEAD; at.next++)
        write_start(kind, rows, &at, ring);
    for (; at.looked < at.next && at.looked < begin + LOOK_AHEAD; at.looked++)
        write_look(kind, rows, shared, at.looked, ring);
    for (; at.referred < at.looked && at.referred < begin + REFER_AHEAD && open_has_string_keys(kind, rows);
         at.referred++)
        write_refer(rows, at.referred, ring);
    return at;
}

/* Brings each stage one key on, before a key takes its turn. */
LOOM_LANE void write_ahead(loom__slot_kind kind, int shared, const loom__rows_view *rows, stages *at, started *ring)
{
    if (open_has_string_keys(kind, rows) && at->next + BYTES_AHEAD < at->end)
        prefetch_bytes(address_of(at->keys, at->stride, at->next + BYTES_AHEAD));
    if (at->next < at->end)
        write_start(kind, rows, at, ring);
    if (at->looked < at->end)
        write_look(kind, rows, shared, at->looked, ring);
    if (open_has_string_keys(kind, rows) && at->referred < at->end)
        write_refer(rows, at->referred, ring);
    at->next++;
    at->looked++;
    at->referred++;
}

/* ---- shares of the heap, for insertions by partition ---- */

/* If the call has shares, gives the thread's copy of the view one of its own, empty at first. `values` are strings or
 * NULL. */
LOOM_LANE void share_open(loom__slot_kind kind, loom__rows_view *rows, open_share *share, const void *keys,
                          uint64_t key_stride, const void *values, uint64_t value_stride, uint64_t n)
{
    if (kind != SLOT_STRING || rows->share == NULL)
        return;
    *share =
        (open_share){.keys = keys, .values = values, .key_stride = key_stride, .value_stride = value_stride, .n = n};
    rows->share = share;
}

/* Gives back what is left, if nobody has taken bytes behind it. */
LOOM_LANE void share_close(loom__slot_kind kind, const loom__rows_view *rows, open_share *share)
{
    if (kind != SLOT_STRING || rows->share == NULL || share->at == share->end)
        return;
    uint64_t end = share->end;
    if (!__atomic_compare_exchange_n(&rows->strings->used, &end, share->at, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        open_drop_share(rows, share);
}

/* The address of the value of row i; 0: the batch has none. */
LOOM_LANE uint64_t value_address(const loom__rows_view *rows, const loom__batch *batch, uint64_t index)
{
    return batch->values != NULL ? address_of(batch->values, rows->value_bytes, index) : 0;
}

/* Writes the outcome of a key. Refused for lack of bytes: `bytes` of them. */
LOOM_LANE void tell_row(loom__slot_kind kind, const loom__batch *batch, uint64_t index, open_outcome outcome,
                        uint64_t bytes, loom__cpu_counts *counts)
{
    tell_outcome(batch, index, outcome, counts);
    if (kind == SLOT_STRING && outcome == OPEN_NO_BYTES) {
        counts->full++;
        counts->no_bytes.rows++;
        counts->no_bytes.bytes += bytes;
        counts->no_bytes.most = bytes > counts->no_bytes.most ? bytes : counts->no_bytes.most;
    }
}

/* Strings that are too long are not stored. Of calls that insert nothing, they are keys like any other. */
LOOM_LANE int tell_too_long(loom__slot_kind kind, loom__write op, const loom__rows_view *rows, const loom__batch *batch,
                            uint64_t key, uint64_t value, uint64_t index, loom__cpu_counts *counts)
{
    if (kind != SLOT_STRING || op == LOOM__WRITE_ERASE || !open_is_too_long(kind, rows, key, value))
        return 0;
    counts->too_long++;
    if (batch->status != NULL)
        batch->status[index] = LOOM_TOO_LONG;
    if (op == LOOM__WRITE_FETCH && batch->found_values != NULL)
        memset((unsigned char *)batch->found_values + index * rows->value_bytes, 0, rows->value_bytes);
    return 1;
}

LOOM_LANE open_outcome write_turn(loom__slot_kind kind, loom__write op, int shared, const loom__rows_view *rows,
                                  const loom__batch *batch, open_walk *walk, uint64_t index)
{
    const loom__open_view *view = &rows->lines;
    if (op == LOOM__WRITE_ERASE)
        return open_erase_turn(kind, shared, whole_group, view, walk, 1);
    /* Two words, as a string has: the compiler does not know that strings are not combined. */
    const uint64_t number[2] = {
        op == LOOM__WRITE_COMBINE ? slot_number_at(rows->value_bytes, batch->values, batch->widening, index) : 0, 0};
    uint64_t value[2] = {0, 0}; /* addresses; open_meet_row */
    if (op == LOOM__WRITE_COMBINE)
        value[0] = (uint64_t)(uintptr_t)number;
    else
        value[0] = value_address(rows, batch, index);
    if (op == LOOM__WRITE_FETCH && batch->found_values != NULL)
        value[1] = address_of(batch->found_values, rows->value_bytes, index);
    if (op == LOOM__WRITE_UPDATE)
        return open_update_turn(kind, shared, whole_group, view, walk, value[0], 1);
    lane_truth tells;
    const open_outcome outcome =
        open_insert_turn(kind, mode_of(op), batch->rule, shared, whole_group, view, walk, value, 1, &tells);
    if (op == LOOM__WRITE_FETCH)
        slot_tell_fetched(rows->value_bytes, outcome == OPEN_DONE, outcome == OPEN_NO_ROOM || outcome == OPEN_NO_BYTES,
                          value);
    return outcome;
}

/* One turn of a key. True: the key is not settled, and its next bucket is prefetched. */
LOOM_LANE int write_goes_on(loom__slot_kind kind, loom__write op, int shared, const loom__rows_view *rows,
                            const loom__batch *batch, deferred *one, loom__cpu_counts *counts)
{
    const open_outcome outcome = write_turn(kind, op, shared, rows, batch, &one->walk, one->index);
    if (outcome == OPEN_GO_ON)
        lane_prefetch_to_write(open_line(kind, &one->walk, one->walk.bucket));
    else
        tell_row(kind, batch, one->index, outcome,
                 outcome == OPEN_NO_BYTES
                     ? open_piece_bytes(rows, one->walk.key, value_address(rows, batch, one->index))
                     : 0,
                 counts);
    return outcome == OPEN_GO_ON;
}

LOOM_LANE void write_range(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                           const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__rows_view rows = *open_rows_of(view);
    const loom__batch batch = *batch_given;
    started ring;
    stages at = write_begin(kind, shared, &rows, batch.keys, NULL, rows.key_bytes, begin, end, &ring);
    deferred aside[WRITE_BLOCK];
    loom__cpu_counts local = {0};
    for (uint64_t first = begin; first < end; first += WRITE_BLOCK) {
        const uint64_t block_end = end - first < WRITE_BLOCK ? end : first + WRITE_BLOCK;
        uint64_t waiting = 0;
        for (uint64_t index = first; index < block_end; index++) {
            write_ahead(kind, shared, &rows, &at, &ring);
            deferred one = {ring.walk[index % WRITE_RING], index};
            if (tell_too_long(kind, op, &rows, &batch, one.walk.key,
                              op == LOOM__WRITE_COMBINE ? 0 : value_address(&rows, &batch, index), index, &local))
                continue;
            if (write_goes_on(kind, op, shared, &rows, &batch, &one, &local))
                aside[waiting++] = one;
        }
        /* In each round a key advances by one bucket, reads a bucket again, or waits for a row that another thread is
         * storing. A key reads a bucket again after it saw a mark or lost a slot. The bounds are in open_ops.h. */
        while (waiting > 0) {
            uint64_t still = 0;
            for (uint64_t i = 0; i < waiting; i++) {
                if (!write_goes_on(kind, op, shared, &rows, &batch, &aside[i], &local))
                    continue;
                if (still != i)
                    aside[still] = aside[i];
                still++;
            }
            waiting = still;
        }
    }
    loom__cpu_add_counts(counts, &local);
}

/* A row that comes after one for which the heap had no room. */
LOOM_STEP open_outcome outcome_of_stalled(loom__slot_kind kind, loom__write op, const loom__open_view *view,
                                          open_walk walk)
{
    const int exists = op == LOOM__WRITE_KEEP && open_search(kind, whole_group, view, &walk).found;
    return exists ? OPEN_WAS_THERE : OPEN_NO_BYTES;
}

/* A reservation: where the handle of a located key is, after its count was raised. The directory of a multimap has rows
 * of a key and a handle. */
LOOM_LANE loom__cpu_reserved reserve_in(const loom__rows_view *rows, const open_walk *walk, open_outcome outcome)
{
    loom__cpu_reserved told = {LIST_REFUSED, NULL};
    if (outcome == OPEN_NO_ROOM)
        return told;
    told.handle = (uint64_t *)(void *)open_row(rows, walk->partition_index, walk->free_bucket, walk->free_slot).value;
    told.old = *told.handle; /* of a new key: 0 */
    *told.handle = list_reserve(told.old);
    return told;
}

/* Insertion of records, one after the other, by the thread that owns the partition. */
LOOM_LANE void insert_records(loom__slot_kind kind, loom__write op, const loom__open_view *view,
                              const loom__batch *const batch_given, const loom__cpu_records *const records_given,
                              const void *scratch, loom__cpu_counts *counts)
{
    loom__rows_view rows = *open_rows_of(view);
    const loom__batch batch = *batch_given;
    const loom__cpu_records records = *records_given;
    started ring;
    open_share share;
    share_open(kind, &rows, &share, records.keys, records.key_stride, records.values, records.value_stride, records.n);
    stages at = write_begin(kind, 0, &rows, records.keys, records.hashes, records.key_stride, 0, records.n, &ring);
    loom__cpu_counts local = {0};
    /* In order, once a value found no room in the heap, later rows are refused, too: a shorter value of the same key
     * must not come first. */
    const int stalls = open_has_string_values(kind, &rows) && batch.flags & LOOM_IN_ORDER;
    int stalled = 0;
    (void)scratch;
    for (uint64_t i = 0; i < records.n; i++) {
        write_ahead(kind, 0, &rows, &at, &ring);
        if (kind == SLOT_STRING)
            share.index = i;
        open_walk walk = ring.walk[i % WRITE_RING];
        const uint64_t index = records.index != NULL ? records.index[i] : i;
        const uint64_t no_list = 0;
        uint64_t value[2] = {records.values != NULL ? address_of(records.values, records.value_stride, i) : 0, 0};
        if (op == LOOM__WRITE_RESERVE)
            value[0] = (uint64_t)(uintptr_t)&no_list;
        if (tell_too_long(kind, op, &rows, &batch, walk.key, value[0], index, &local))
            continue;
        open_outcome outcome = stalled ? outcome_of_stalled(kind, op, &rows.lines, walk) : OPEN_GO_ON;
        lane_truth tells;
        while (outcome == OPEN_GO_ON) /* the swap of an owner never fails: at most twice `buckets` turns */
            outcome = open_insert_turn(kind, op == LOOM__WRITE_RESERVE ? SLOT_LOCATE : mode_of(op), LOOM__ADD, 0,
                                       whole_group, &rows.lines, &walk, value, 1, &tells);
        if (op == LOOM__WRITE_RESERVE)
            ((loom__cpu_reserved *)batch.found_values)[i] = reserve_in(&rows, &walk, outcome);
        stalled |= outcome == OPEN_NO_BYTES && stalls;
        tell_row(kind, &batch, index, outcome,
                 outcome == OPEN_NO_BYTES ? open_piece_bytes(&rows, walk.key, value[0]) : 0, &local);
    }
    share_close(kind, &rows, &share);
    loom__cpu_add_counts(counts, &local);
}

/* ---- whole tables ---- */

LOOM_LANE uint64_t accesses_of(loom__slot_kind kind, const loom__open_view *view, const void *keys, uint64_t i)
{
    return open_count_accesses(kind, whole_group, view, address_of(keys, open_rows_of(view)->key_bytes, i));
}

LOOM_LANE void survey_buckets(loom__slot_kind kind, const loom__open_view *view, uint32_t partition, open_sums *sums)
{
    lane_truth sound = 1;
    for (uint32_t number = 0; number < view->buckets && kind == SLOT_STRING; number++)
        sound &= open_survey_strings(kind, view, partition, number, sums);
    if (!sound)
        return;
    for (uint32_t number = 0; number < view->buckets; number++)
        open_survey_bucket(kind, whole_group, view, partition, number, sums);
}

enum {
    RANGE_OPS = 1 << LOOM__WRITE_KEEP | 1 << LOOM__WRITE_OVERWRITE | 1 << LOOM__WRITE_FETCH | 1 << LOOM__WRITE_COMBINE |
                1 << LOOM__WRITE_UPDATE | 1 << LOOM__WRITE_ERASE,
    RECORD_OPS =
        1 << LOOM__WRITE_KEEP | 1 << LOOM__WRITE_OVERWRITE | (CPU_ROWS_KIND == SLOT_TAG ? 1 << LOOM__WRITE_RESERVE : 0)
};

#define ENGINE_FOR_KIND(kind, call) \
    {                               \
        call(CPU_ROWS_KIND);        \
    }
#include "machines/cpu/core/cpu_map_simd_table.h"

const loom__cpu_map_simd CPU_ROWS_SIMD_TABLE = {find, write, count_accesses, insert, survey_partition};
