/* Ranges of keys through the lane algorithms of open_ops.h, for one kind of SIMD. The including file sets
 * LOOM_LANES_HEADER and CPU_OPEN_SIMD_TABLE.
 *
 * A lookup costs one DRAM access of some 100 ns and a dozen nanoseconds of work, so many accesses must be under way at
 * once. Two measures see to that:
 *   - a ring: keys are started, and their home lines prefetched, DISTANCE keys before they are looked at;
 *   - deferral: a key that its home bucket does not settle is put aside, its next line prefetched, and taken up again
 *     after the block; waiting for it in place would stall everything behind it.
 * Lookups do not branch on what they find: half-hit batches would mispredict every second key.
 */
#include "core/lanes.h"
#include "engines/open/open_ops.h"
#include "machines/cpu/cpu_open.h"

enum {
    RING = 64,     /* a power of two above DISTANCE */
    DISTANCE = 32, /* keys between prefetch and look: 24 to 48 differ by 2 % on a Neoverse N1 */
    BLOCK = 512    /* keys between two passes over the deferred ones: their state stays in the L1 cache */
};

typedef struct started {
    unsigned char *partition;
    uint32_t partition_index, lower, bucket, unused;
} started;

typedef struct deferred {
    open_walk walk;
    uint64_t index;
} deferred;

static const unsigned char zero_value[8];
static const lane_group whole_group;

LOOM_LANE uint64_t key_at(loom__open_kind kind, const void *keys, uint64_t index)
{
    if (open_key_bytes(kind) == 4)
        return ((const uint32_t *)keys)[index];
    return ((const uint64_t *)keys)[index];
}

LOOM_LANE uint64_t value_at(loom__open_kind kind, const void *values, uint64_t index)
{
    if (open_value_bytes(kind) == 4)
        return ((const uint32_t *)values)[index];
    return ((const uint64_t *)values)[index];
}

LOOM_LANE void ring_start(loom__open_kind kind, int to_write, const loom__open_view *view, const void *keys,
                          uint64_t index, started *ring)
{
    open_walk walk = open_start(view, key_at(kind, keys, index));
    started *entry = &ring[index % RING];
    entry->partition = walk.partition;
    entry->partition_index = walk.partition_index;
    entry->lower = walk.lower;
    entry->bucket = walk.bucket;
    if (to_write)
        lane_prefetch_to_write(open_line(kind, &walk, walk.bucket));
    else
        lane_prefetch(open_line(kind, &walk, walk.bucket));
}

LOOM_LANE open_walk ring_take(loom__open_kind kind, const void *keys, uint64_t index, const started *ring)
{
    const started *entry = &ring[index % RING];
    open_walk walk;
    walk.key = key_at(kind, keys, index);
    walk.partition = entry->partition;
    walk.partition_index = entry->partition_index;
    walk.lower = entry->lower;
    walk.bucket = entry->bucket;
    walk.depth = 0;
    walk.free_bucket = walk.free_depth = 0;
    walk.free_slot = OPEN_NO_SLOT;
    return walk;
}

/* ---- find ---- */

/* What one look brought, written without a branch; a key that goes on is written again when it is settled. */
LOOM_LANE uint64_t find_record(loom__open_kind kind, const loom__open_view *view, const loom__batch *batch,
                               const open_walk *walk, open_look look, uint64_t index, const unsigned char **value_from)
{
    uint64_t found = look.outcome == OPEN_DONE;
    if (batch->found_values != NULL) {
        if (kind == OPEN_PAIR_4_4) {
            ((uint32_t *)batch->found_values)[index] = (uint32_t)((look.pair >> 32) & (0 - found));
        } else {
            const unsigned char *at = open_value(kind, view, walk, walk->bucket, look.slot);
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

LOOM_LANE void find_range(loom__open_kind kind, const loom__open_view *const view_given,
                          const loom__batch *const batch_given, uint64_t begin, uint64_t end,
                          loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given; /* in registers: the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    started ring[RING];
    deferred aside[BLOCK];
    const unsigned char *value_from[BLOCK];
    uint64_t found = 0, next = begin;

    for (; next < end && next < begin + DISTANCE; next++)
        ring_start(kind, 0, &view, batch.keys, next, ring);
    for (uint64_t block = begin; block < end; block += BLOCK) {
        uint64_t block_end = end - block < BLOCK ? end : block + BLOCK;
        uint64_t waiting = 0;
        for (uint64_t index = block; index < block_end; index++) {
            if (next < end)
                ring_start(kind, 0, &view, batch.keys, next++, ring);
            open_walk walk = ring_take(kind, batch.keys, index, ring);
            open_look look = open_find_turn(kind, 0, whole_group, &view, &walk);
            found += find_record(kind, &view, &batch, &walk, look, index, &value_from[index - block]);
            aside[waiting].walk = walk;
            aside[waiting].index = index;
            waiting += look.outcome == OPEN_GO_ON;
        }
        for (uint64_t i = 0; i < waiting; i++) {
            open_advance(&view, &aside[i].walk);
            lane_prefetch(open_line(kind, &aside[i].walk, aside[i].walk.bucket));
        }
        while (waiting > 0) { /* at most view.buckets rounds: each goes one bucket further */
            uint64_t still = 0;
            for (uint64_t i = 0; i < waiting; i++) {
                deferred one = aside[i];
                open_look look = open_find_turn(kind, 0, whole_group, &view, &one.walk);
                found += find_record(kind, &view, &batch, &one.walk, look, one.index, &value_from[one.index - block]);
                if (look.outcome == OPEN_GO_ON) {
                    open_advance(&view, &one.walk);
                    lane_prefetch(open_line(kind, &one.walk, one.walk.bucket));
                    aside[still++] = one;
                }
            }
            waiting = still;
        }
        if (kind != OPEN_PAIR_4_4 && batch.found_values != NULL) {
            uint32_t bytes = open_value_bytes(kind);
            for (uint64_t index = block; index < block_end; index++)
                memcpy((unsigned char *)batch.found_values + index * bytes, value_from[index - block], bytes);
        }
    }
    loom__cpu_counts local = {.ok = found, .not_found = end - begin - found};
    loom__cpu_add_counts(counts, &local);
}

/* ---- insert and erase ---- */

typedef enum write_op { WRITE_KEEP, WRITE_OVERWRITE, WRITE_ERASE } write_op;

static const uint8_t status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL, [OPEN_DONE] = LOOM_OK,     [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL,
};

LOOM_LANE void count_outcome(loom__cpu_counts *counts, open_outcome outcome)
{
    counts->ok += outcome == OPEN_DONE;
    counts->exists += outcome == OPEN_WAS_THERE;
    counts->not_found += outcome == OPEN_ABSENT;
    counts->full += outcome == OPEN_NO_ROOM;
}

LOOM_LANE open_outcome write_turn(loom__open_kind kind, write_op op, int shared, const loom__open_view *view,
                                  const loom__batch *batch, open_walk *walk, uint64_t index)
{
    if (op == WRITE_ERASE)
        return open_erase_turn(kind, shared, whole_group, view, walk);
    return open_insert_turn(kind, op == WRITE_OVERWRITE, shared, whole_group, view, walk,
                            value_at(kind, batch->values, index));
}

LOOM_LANE void write_range(loom__open_kind kind, write_op op, int shared, const loom__open_view *const view_given,
                           const loom__batch *const batch_given, uint64_t begin, uint64_t end,
                           loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__batch batch = *batch_given;
    started ring[RING];
    deferred aside[BLOCK];
    loom__cpu_counts local = {0};
    uint64_t next = begin;

    for (; next < end && next < begin + DISTANCE; next++)
        ring_start(kind, 1, &view, batch.keys, next, ring);
    for (uint64_t block = begin; block < end; block += BLOCK) {
        uint64_t block_end = end - block < BLOCK ? end : block + BLOCK;
        uint64_t waiting = 0;
        for (uint64_t index = block; index < block_end; index++) {
            if (next < end)
                ring_start(kind, 1, &view, batch.keys, next++, ring);
            open_walk walk = ring_take(kind, batch.keys, index, ring);
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
        while (waiting > 0) { /* each round goes one bucket further or follows a slot that somebody else filled */
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

LOOM_LANE uint64_t read_narrow(const unsigned char *at, uint32_t bytes)
{
    uint64_t x = 0;
    memcpy(&x, at, bytes);
    return x;
}

LOOM_LANE void insert_records(loom__open_kind kind, int overwrite, const loom__open_view *const view_given,
                              const loom__cpu_records *const records_given, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__cpu_records records = *records_given;
    const uint64_t near = 8; /* the partition is in the L2 cache, or soon will be */
    loom__cpu_counts local = {0};
    for (uint64_t i = 0; i < records.n; i++) {
        if (i + near < records.n) {
            uint64_t coming = read_narrow(records.keys + (i + near) * records.key_stride, open_key_bytes(kind));
            open_walk ahead = open_start(&view, coming);
            lane_prefetch_to_write(open_line(kind, &ahead, ahead.bucket));
        }
        open_walk walk = open_start(&view, read_narrow(records.keys + i * records.key_stride, open_key_bytes(kind)));
        uint64_t value = read_narrow(records.values + i * records.value_stride, open_value_bytes(kind));
        open_outcome outcome;
        do { /* an owner's swap never fails: at most view.buckets turns */
            outcome = open_insert_turn(kind, overwrite, 0, whole_group, &view, &walk, value);
        } while (outcome == OPEN_GO_ON);
        count_outcome(&local, outcome);
        if (records.status != NULL)
            records.status[records.index != NULL ? records.index[i] : i] = status_of_outcome[outcome];
    }
    loom__cpu_add_counts(counts, &local);
}

LOOM_LANE uint64_t accesses_of_range(loom__open_kind kind, const loom__open_view *view, const void *keys, uint64_t begin,
                                     uint64_t end)
{
    uint64_t accesses = 0;
    for (uint64_t index = begin; index < end; index++) {
        open_walk walk = open_start(view, key_at(kind, keys, index));
        for (;;) { /* at most view->buckets turns */
            accesses++;
            if (open_find_turn(kind, 0, whole_group, view, &walk).outcome != OPEN_GO_ON)
                break;
            open_advance(view, &walk);
        }
    }
    return accesses;
}

/* ---- the table: one literal kind for each call, so that the compiler specialises everything above ---- */

#define FOR_EACH_KIND(view, call)       \
    switch ((view)->kind) {             \
    case OPEN_PAIR_4_4:                 \
        call(OPEN_PAIR_4_4);            \
        break;                          \
    case OPEN_KEY_4_VALUE_8:            \
        call(OPEN_KEY_4_VALUE_8);       \
        break;                          \
    case OPEN_KEY_8_VALUE_4:            \
        call(OPEN_KEY_8_VALUE_4);       \
        break;                          \
    default:                            \
        call(OPEN_KEY_8_VALUE_8);       \
        break;                          \
    }

static void find(const loom__open_view *view, const loom__batch *batch, uint64_t begin, uint64_t end,
                 loom__cpu_counts *counts)
{
#define CALL(kind) find_range(kind, view, batch, begin, end, counts)
    FOR_EACH_KIND(view, CALL)
#undef CALL
}

static void insert(const loom__open_view *view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                   loom__cpu_counts *counts)
{
    int overwrite = (batch->flags & LOOM_OVERWRITE) != 0;
#define CALL(kind)                                                                  \
    if (shared && overwrite)                                                        \
        write_range(kind, WRITE_OVERWRITE, 1, view, batch, begin, end, counts);     \
    else if (shared)                                                                \
        write_range(kind, WRITE_KEEP, 1, view, batch, begin, end, counts);          \
    else if (overwrite)                                                             \
        write_range(kind, WRITE_OVERWRITE, 0, view, batch, begin, end, counts);     \
    else                                                                            \
        write_range(kind, WRITE_KEEP, 0, view, batch, begin, end, counts)
    FOR_EACH_KIND(view, CALL)
#undef CALL
}

static void erase(const loom__open_view *view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                  loom__cpu_counts *counts)
{
#define CALL(kind)                                                              \
    if (shared)                                                                 \
        write_range(kind, WRITE_ERASE, 1, view, batch, begin, end, counts);     \
    else                                                                        \
        write_range(kind, WRITE_ERASE, 0, view, batch, begin, end, counts)
    FOR_EACH_KIND(view, CALL)
#undef CALL
}

static void insert_in_order(const loom__open_view *view, const loom__cpu_records *records, int overwrite,
                            loom__cpu_counts *counts)
{
#define CALL(kind)                                        \
    if (overwrite)                                        \
        insert_records(kind, 1, view, records, counts);   \
    else                                                  \
        insert_records(kind, 0, view, records, counts)
    FOR_EACH_KIND(view, CALL)
#undef CALL
}

static uint64_t count_accesses(const loom__open_view *view, const void *keys, uint64_t begin, uint64_t end)
{
    uint64_t accesses = 0;
#define CALL(kind) accesses = accesses_of_range(kind, view, keys, begin, end)
    FOR_EACH_KIND(view, CALL)
#undef CALL
    return accesses;
}

const loom__cpu_open_simd CPU_OPEN_SIMD_TABLE = {find, insert, erase, insert_in_order, count_accesses};
