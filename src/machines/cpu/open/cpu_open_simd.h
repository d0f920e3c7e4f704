/* Ranges of keys through the lane algorithms of open_ops.h, for one kind of SIMD. The including file sets
 * LOOM_LANES_HEADER and CPU_OPEN_SIMD_TABLE.
 *
 * A lookup costs one DRAM access of some 100 ns and about ten nanoseconds of work, so many accesses must be in flight.
 * Three measures achieve that:
 *   - Ring: keys are started, and their home lines prefetched, AHEAD groups before they are searched for.
 *   - Groups: GROUP keys are started in a row, then GROUP keys are searched for. A prefetch whose page is not in the
 *     TLB delays everything behind it until the page walk ends. A processor sees only so many instructions ahead (128
 *     on a Neoverse N1), so prefetches that stand close together overlap their walks.
 *   - Deferral: a key that its home bucket does not settle is put aside until the end of the block. Waiting for it in
 *     place would stall everything behind it.
 * Lookups do not branch on what they find: with half hits every second key would be mispredicted.
 *
 * Measured on one core of a Neoverse N1 in a virtual machine, 2^24 pairs of 4 + 4 bytes, load 0.8, half hits: 28 M/s
 * with a branch on `found`, 37 without, 41 with one word per key in the ring, 48 with groups of 8 two ahead and 32-bit
 * products. Groups of 4: 44, of 16: 43. All addresses of a block first, with prefetches spread among the searches: 47.
 * The same lookups in a table that fits the L1 cache: 86. The limit (cpu_limits.c) is 75: its loop has 25 instructions
 * per iteration, so five page walks overlap. Inferred from timings, without hardware counters: the host seems to back
 * that machine with 4 KiB pages. The TLB then reaches 5 MB however large the guest's pages are, and nearly every lookup
 * in a larger table takes a page walk of some 20 ns. docs/notes/open.md has the numbers.
 */
#include "core/lanes.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/open/cpu_open.h"

enum {
    GROUP = 8,         /* keys started together */
    AHEAD = 2,         /* groups between prefetch and search */
    RING = 4,          /* groups; a power of two above AHEAD */
    BLOCK = 512,       /* keys between two passes over the deferred keys, whose state stays in the L1 cache */
    WRITE_AHEAD = 16,  /* writers: keys between prefetch and the first turn */
    RECORDS_AHEAD = 8, /* the same for a partition that is in the L2 cache, or soon will be */
    WRITE_RING = 32    /* a power of two above both */
};

static const unsigned char zero_value[8];
static const lane_group whole_group;

LOOM_LANE uint64_t key_at(loom__slot_kind kind, const void *keys, uint64_t index)
{
    if (slot_key_bytes(kind) == 4)
        return ((const uint32_t *)keys)[index];
    return ((const uint64_t *)keys)[index];
}

/* Without values every key counts as a one, which counters add up. */
LOOM_LANE uint64_t value_at(loom__slot_kind kind, const void *values, uint64_t index)
{
    if (slot_value_bytes(kind) == 0 || values == NULL)
        return 1;
    if (slot_value_bytes(kind) == 4)
        return ((const uint32_t *)values)[index];
    return ((const uint64_t *)values)[index];
}

/* ---- find ---- */

/* Keys that were started but not searched for yet. A line is aligned, so the lowest bits of its address can carry the
 * filter bit: one word per key to store and load. */
typedef struct sought {
    uintptr_t line_and_bit[GROUP];
    unsigned char *partition[GROUP]; /* used only where values lie at the partition's end */
} sought;

_Static_assert(OPEN_LINE_BYTES == 64, "six bits for the number of a filter bit");

LOOM_LANE void find_start(loom__slot_kind kind, const loom__open_view *view, const void *keys, uint64_t first,
                          uint32_t count, sought *ring)
{
    sought *group = &ring[first / GROUP % RING];
    for (uint32_t i = 0; i < count; i++) {
        open_walk walk = open_start(kind, view, key_at(kind, keys, first + i));
        const unsigned char *line = open_line(kind, &walk, walk.bucket);
        group->line_and_bit[i] = (uintptr_t)line | open_filter_bit(kind, walk.lower);
        if (kind == SLOT_KEY_8_VALUE_4)
            group->partition[i] = walk.partition;
        lane_prefetch(line);
    }
}

/* Writes the result of one turn, without a branch. A key that goes on is written again when it is settled. */
LOOM_LANE uint64_t find_record(loom__slot_kind kind, const loom__open_view *view, const loom__batch *batch,
                               open_look look, unsigned char *partition, const unsigned char *line, uint64_t index,
                               const unsigned char **value_from)
{
    uint64_t found = look.found;
    if (slot_value_bytes(kind) != 0 && batch->found_values != NULL) {
        if (kind == SLOT_PAIR_4_4) {
            ((uint32_t *)batch->found_values)[index] = (uint32_t)((look.pair >> 32) & (0 - found));
        } else {
            const unsigned char *at = kind == SLOT_KEY_8_VALUE_4
                                          ? open_value(kind, view, partition, line, look.slot)
                                          : line + OPEN_LINE_BYTES + look.slot * slot_value_bytes(kind);
            *value_from = found ? at : zero_value;
            lane_prefetch(*value_from);
        }
    }
    if (batch->status != NULL)
        batch->status[index] = (uint8_t)(found ^ 1);
    if (batch->found != NULL)
        batch->found[index] = (uint8_t)found;
    return found;
}

_Static_assert(LOOM_OK == 0 && LOOM_NOT_FOUND == 1, "find_record writes these");

/* Continues with the keys of a block that their home bucket did not settle. Returns how many of them were found. */
LOOM_LANE uint64_t find_late(loom__slot_kind kind, const loom__open_view *view, const loom__batch *batch,
                             uint64_t block, const uint16_t *late, uint64_t waiting, const unsigned char **value_from)
{
    open_walk walks[BLOCK];
    uint16_t places[BLOCK];
    uint64_t found = 0;
    for (uint64_t i = 0; i < waiting; i++) {
        places[i] = late[i];
        walks[i] = open_start(kind, view, key_at(kind, batch->keys, block + late[i]));
        open_advance(view, &walks[i]);
        lane_prefetch(open_line(kind, &walks[i], walks[i].bucket));
    }
    while (waiting > 0) { /* at most view->buckets rounds: each advances by one bucket */
        uint64_t still = 0;
        for (uint64_t i = 0; i < waiting; i++) {
            open_walk walk = walks[i];
            uint16_t place = places[i];
            open_look look = open_find_turn(kind, 0, whole_group, view, &walk, 1);
            found += find_record(kind, view, batch, look, walk.partition, open_line(kind, &walk, walk.bucket),
                                 block + place, &value_from[place]);
            if (look.further & !look.found) {
                open_advance(view, &walk);
                lane_prefetch(open_line(kind, &walk, walk.bucket));
                walks[still] = walk;
                places[still++] = place;
            }
        }
        waiting = still;
    }
    return found;
}

/* The first turn of `count` keys that were started before. Adds those that go on to `late`. */
LOOM_LANE uint64_t find_group(loom__slot_kind kind, const loom__open_view *view, const loom__batch *batch,
                              uint64_t first, uint32_t count, const sought *ring, uint64_t block, uint16_t *late,
                              uint64_t *waiting, const unsigned char **value_from)
{
    const sought *group = &ring[first / GROUP % RING];
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        const unsigned char *line = (const unsigned char *)(group->line_and_bit[i] & ~(uintptr_t)63);
        uint32_t bit = (uint32_t)group->line_and_bit[i] & 63;
        open_look look = open_look_at(kind, 0, whole_group, line, key_at(kind, batch->keys, index), bit, 1);
        found += find_record(kind, view, batch, look, kind == SLOT_KEY_8_VALUE_4 ? group->partition[i] : NULL, line,
                             index, &value_from[index - block]);
        late[*waiting] = (uint16_t)(index - block);
        *waiting += look.further & !look.found;
    }
    return found;
}

/* `begin` is a multiple of GROUP. */
LOOM_LANE void find_range(loom__slot_kind kind, const loom__open_view *const view_given,
                          const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given; /* a copy in registers: stores to the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    sought ring[RING];
    uint16_t late[BLOCK];
    const unsigned char *value_from[BLOCK];
    uint64_t found = 0, next = begin;

    for (; next < end && next < begin + AHEAD * GROUP; next += GROUP)
        find_start(kind, &view, batch.keys, next, end - next < GROUP ? (uint32_t)(end - next) : GROUP, ring);
    for (uint64_t block = begin; block < end; block += BLOCK) {
        uint64_t block_end = end - block < BLOCK ? end : block + BLOCK, waiting = 0;
        for (uint64_t first = block; first < block_end; first += GROUP, next += GROUP) {
            if (end >= next + GROUP) /* nearly always; the counts are then literals */
                find_start(kind, &view, batch.keys, next, GROUP, ring);
            else if (end > next)
                find_start(kind, &view, batch.keys, next, (uint32_t)(end - next), ring);
            if (block_end >= first + GROUP)
                found += find_group(kind, &view, &batch, first, GROUP, ring, block, late, &waiting, value_from);
            else
                found += find_group(kind, &view, &batch, first, (uint32_t)(block_end - first), ring, block, late,
                                    &waiting, value_from);
        }
        found += find_late(kind, &view, &batch, block, late, waiting, value_from);
        if (slot_values_apart(kind) && batch.found_values != NULL) {
            uint32_t bytes = slot_value_bytes(kind);
            for (uint64_t index = block; index < block_end; index++)
                memcpy((unsigned char *)batch.found_values + index * bytes, value_from[index - block], bytes);
        }
    }
    loom__cpu_counts local = {.ok = found, .not_found = end - begin - found};
    loom__cpu_add_counts(counts, &local);
}

/* ---- insert and erase ---- */

/* Holds the key, so that it is read once: if the caller's array changes meanwhile, the key still goes to its own
 * bucket. */
typedef struct started {
    uint64_t key;
    unsigned char *partition;
    uint32_t partition_index, lower, bucket;
} started;

typedef struct deferred {
    open_walk walk;
    uint64_t index;
} deferred;

/* `far`: the partition is not in a cache, so the value's line is prefetched as well. */
LOOM_LANE void ring_start(loom__slot_kind kind, const loom__open_view *view, uint64_t key, uint64_t index,
                          started *ring, int far)
{
    open_walk walk = open_start(kind, view, key);
    started *entry = &ring[index % WRITE_RING];
    entry->key = key;
    entry->partition = walk.partition;
    entry->partition_index = walk.partition_index;
    entry->lower = walk.lower;
    entry->bucket = walk.bucket;
    unsigned char *line = open_line(kind, &walk, walk.bucket);
    lane_prefetch_to_write(line);
    if (far && slot_values_apart(kind)) /* the row of values, or its first line: the slot is not known yet */
        lane_prefetch_to_write(open_value(kind, view, walk.partition, line, 0));
}

LOOM_LANE open_walk ring_take(uint64_t index, const started *ring)
{
    const started *entry = &ring[index % WRITE_RING];
    open_walk walk;
    walk.key = entry->key;
    walk.partition = entry->partition;
    walk.partition_index = entry->partition_index;
    walk.lower = entry->lower;
    walk.bucket = entry->bucket;
    walk.depth = 0;
    walk.free_bucket = walk.free_depth = 0;
    walk.free_slot = OPEN_NO_SLOT;
    walk.marked_to = OPEN_EAGERLY;
    walk.knows_full = 0;
    return walk;
}

static const uint8_t status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL,
};

LOOM_LANE void count_outcome(loom__cpu_counts *counts, open_outcome outcome)
{
    counts->ok += outcome == OPEN_DONE;
    counts->exists += outcome == OPEN_WAS_THERE;
    counts->not_found += outcome == OPEN_ABSENT;
    counts->full += outcome == OPEN_NO_ROOM;
}

LOOM_LANE slot_mode mode_of(loom__write op)
{
    return op == LOOM__WRITE_OVERWRITE ? SLOT_OVERWRITE
           : op == LOOM__WRITE_FETCH   ? SLOT_FETCH
           : op == LOOM__WRITE_COMBINE ? SLOT_COMBINE
                                       : SLOT_KEEP;
}

LOOM_LANE open_outcome write_turn(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                                  const loom__batch *batch, open_walk *walk, uint64_t index)
{
    if (op == LOOM__WRITE_ERASE)
        return open_erase_turn(kind, shared, whole_group, view, walk, 1);
    uint64_t value = op == LOOM__WRITE_COMBINE && slot_value_bytes(kind) == 8 && batch->widening != LOOM__WIDEN_NOT
                         ? loom__widen(batch->widening, ((const uint32_t *)batch->values)[index])
                         : value_at(kind, batch->values, index);
    if (op == LOOM__WRITE_UPDATE)
        return open_update_turn(kind, shared, whole_group, view, walk, value, 1);
    lane_truth tells;
    open_outcome outcome =
        open_insert_turn(kind, mode_of(op), batch->how, shared, whole_group, view, walk, &value, 1, &tells);
    if (slot_value_bytes(kind) != 0 && op == LOOM__WRITE_FETCH && outcome != OPEN_GO_ON &&
        batch->found_values != NULL) {
        value = tells ? value : 0;
        memcpy((unsigned char *)batch->found_values + index * slot_value_bytes(kind), &value, slot_value_bytes(kind));
    }
    return outcome;
}

LOOM_LANE void write_range(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *const view_given,
                           const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__batch batch = *batch_given;
    started ring[WRITE_RING];
    deferred aside[BLOCK];
    loom__cpu_counts local = {0};
    uint64_t next = begin;

    for (; next < end && next < begin + WRITE_AHEAD; next++)
        ring_start(kind, &view, key_at(kind, batch.keys, next), next, ring, 1);
    for (uint64_t block = begin; block < end; block += BLOCK) {
        uint64_t block_end = end - block < BLOCK ? end : block + BLOCK;
        uint64_t waiting = 0;
        for (uint64_t index = block; index < block_end; index++) {
            if (index % GROUP == 0)
                for (uint32_t i = 0; i < GROUP && next < end; i++, next++)
                    ring_start(kind, &view, key_at(kind, batch.keys, next), next, ring, 1);
            open_walk walk = ring_take(index, ring);
            open_outcome outcome = write_turn(kind, op, shared, &view, &batch, &walk, index);
            if (outcome == OPEN_GO_ON) {
                lane_prefetch_to_write(open_line(kind, &walk, walk.bucket));
                aside[waiting].walk = walk;
                aside[waiting++].index = index;
                continue;
            }
            count_outcome(&local, outcome);
            if (batch.status != NULL)
                batch.status[index] = status_of_outcome[outcome];
        }
        /* In each round a key advances by one bucket, reads a bucket again, or waits for a value that another thread is
         * storing. It reads a bucket again after it saw a mark or lost a slot. */
        while (waiting > 0) {
            uint64_t still = 0;
            for (uint64_t i = 0; i < waiting; i++) {
                deferred one = aside[i];
                open_outcome outcome = write_turn(kind, op, shared, &view, &batch, &one.walk, one.index);
                if (outcome == OPEN_GO_ON) {
                    lane_prefetch_to_write(open_line(kind, &one.walk, one.walk.bucket));
                    aside[still++] = one;
                    continue;
                }
                count_outcome(&local, outcome);
                if (batch.status != NULL)
                    batch.status[one.index] = status_of_outcome[outcome];
            }
            waiting = still;
        }
    }
    loom__cpu_add_counts(counts, &local);
}

/* ---- one after the other, by an owner ---- */

LOOM_LANE uint64_t record_key(loom__slot_kind kind, const loom__cpu_records *records, uint64_t i)
{
    uint64_t key = 0;
    memcpy(&key, records->keys + i * records->key_stride, slot_key_bytes(kind));
    return key;
}

LOOM_LANE uint64_t record_value(loom__slot_kind kind, const loom__cpu_records *records, uint64_t i)
{
    uint64_t value = 0;
    if (slot_value_bytes(kind) == 0)
        return value;
    memcpy(&value, records->values + i * records->value_stride, slot_value_bytes(kind));
    return value;
}

LOOM_LANE void insert_records(loom__slot_kind kind, int overwrite, const loom__open_view *const view_given,
                              const loom__cpu_records *const records_given, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__cpu_records records = *records_given;
    started ring[WRITE_RING];
    loom__cpu_counts local = {0};
    uint64_t next = 0;
    for (; next < records.n && next < RECORDS_AHEAD; next++)
        ring_start(kind, &view, record_key(kind, &records, next), next, ring, 0);
    for (uint64_t i = 0; i < records.n; i++, next++) {
        if (next < records.n)
            ring_start(kind, &view, record_key(kind, &records, next), next, ring, 0);
        open_walk walk = ring_take(i, ring);
        uint64_t value = record_value(kind, &records, i);
        open_outcome outcome;
        lane_truth tells;
        do { /* an owner's CAS never fails: at most twice view.buckets turns */
            outcome = open_insert_turn(kind, overwrite ? SLOT_OVERWRITE : SLOT_KEEP, LOOM__ADD, 0, whole_group, &view,
                                       &walk, &value, 1, &tells);
        } while (outcome == OPEN_GO_ON);
        count_outcome(&local, outcome);
        if (records.status != NULL)
            records.status[records.index != NULL ? records.index[i] : i] = status_of_outcome[outcome];
    }
    loom__cpu_add_counts(counts, &local);
}

LOOM_LANE uint64_t accesses_of_range(loom__slot_kind kind, const loom__open_view *view, const void *keys,
                                     uint64_t begin, uint64_t end)
{
    uint64_t accesses = 0;
    for (uint64_t index = begin; index < end; index++)
        accesses += open_count_accesses(kind, whole_group, view, key_at(kind, keys, index));
    return accesses;
}

LOOM_LANE void survey_buckets(loom__slot_kind kind, const loom__open_view *view, uint32_t partition, open_sums *sums)
{
    for (uint32_t number = 0; number < view->buckets; number++)
        open_survey_bucket(kind, whole_group, view, partition, number, sums);
}

/* ---- the table: one literal kind for each call, so that the compiler specialises everything above ---- */

static void find(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__open_view *view = any_view;
#define CALL(kind) find_range(kind, view, batch, begin, end, counts)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
}

static void write(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                  loom__cpu_counts *counts)
{
    const loom__open_view *view = any_view;
/* A literal, for the preprocessor's sake: what sets do not do is not compiled for them. */
#define FITS(kind, op) \
    (((kind) != SLOT_KEY_4 && (kind) != SLOT_KEY_8) || (op) == LOOM__WRITE_KEEP || (op) == LOOM__WRITE_ERASE)
#define OP(kind, op)                                                   \
    case op:                                                           \
        if (!FITS(kind, op))                                           \
            break;                                                     \
        if (shared)                                                    \
            write_range(kind, op, 1, view, batch, begin, end, counts); \
        else                                                           \
            write_range(kind, op, 0, view, batch, begin, end, counts); \
        break;
#define CALL(kind)                      \
    switch (batch->write) {             \
        OP(kind, LOOM__WRITE_KEEP)      \
        OP(kind, LOOM__WRITE_OVERWRITE) \
        OP(kind, LOOM__WRITE_FETCH)     \
        OP(kind, LOOM__WRITE_COMBINE)   \
        OP(kind, LOOM__WRITE_UPDATE)    \
        OP(kind, LOOM__WRITE_ERASE)     \
    }
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
#undef OP
#undef FITS
}

static void insert_in_order(const loom__open_view *view, const loom__cpu_records *records, int overwrite,
                            loom__cpu_counts *counts)
{
#define CALL(kind)                                      \
    if (overwrite)                                      \
        insert_records(kind, 1, view, records, counts); \
    else                                                \
        insert_records(kind, 0, view, records, counts)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
}

static uint64_t count_accesses(const void *any_view, const void *keys, uint64_t begin, uint64_t end)
{
    const loom__open_view *view = any_view;
    uint64_t accesses = 0;
#define CALL(kind) accesses = accesses_of_range(kind, view, keys, begin, end)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return accesses;
}

static void survey_partition(const loom__open_view *view, uint32_t partition, open_sums *sums)
{
#define CALL(kind) survey_buckets(kind, view, partition, sums)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
}

const loom__cpu_open_simd CPU_OPEN_SIMD_TABLE = {{find, write, count_accesses}, insert_in_order, survey_partition};
