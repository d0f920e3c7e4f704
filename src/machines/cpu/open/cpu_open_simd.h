/* Runs ranges of keys through the lane algorithms of open_ops.h, for one kind of SIMD. The including file sets
 * LOOM_LANES_HEADER and CPU_OPEN_SIMD_TABLE. cpu_map_simd.h has the steps that all engines share.
 *
 * A lookup costs one DRAM access of some 100 ns and about 10 ns of work, so many accesses must be in flight. Three
 * measures keep them in flight:
 *   - Ring: keys are started, and their home lines prefetched, AHEAD groups before they are searched for.
 *   - Groups: GROUP keys are started in a row, then GROUP keys are searched for. A prefetch whose page is not in the
 *     TLB delays everything behind it until the page walk ends. A processor sees a limited number of instructions
 *     ahead, 128 on a Neoverse N1. Page walks overlap only if their prefetches stand that close together.
 *   - Deferral: a key that its home bucket does not settle is put aside until the end of the block. Waiting for its
 *     next bucket at once would stall all keys behind it.
 * Lookups do not branch on what they find. If half of the keys are present, a branch would be mispredicted for every
 * second key.
 *
 * Measured on one core of a Neoverse N1 in a virtual machine, 2^24 pairs of 4 + 4 bytes, load 0.8, half hits: 28 M/s
 * with a branch on `found`, 37 without, 41 with one word per key in the ring, 48 with groups of 8 two ahead and 32-bit
 * products. Groups of 4: 44, of 16: 43. Computing all addresses of a block first and spreading the prefetches among the
 * searches: 47. The same lookups in a table that fits the L1 cache: 86. The limit (cpu_limits.c) is 75: its loop has 25
 * instructions per iteration, so five page walks overlap. The host seems to back that machine with 4 KiB pages; this is
 * inferred from timings, without hardware counters. The TLB then reaches 5 MB however large the guest's pages are, and
 * nearly every lookup in a larger table takes a page walk of some 20 ns. docs/notes/open.md has the numbers.
 *
 * Unless they are few, lookups take another loop: cpu_open_stream.h.
 *
 * Insertions find home lines for four keys at once where SIMD can (records_locate). One line is announced before each
 * key, 20 keys ahead, and a new key whose home bucket has room takes one short turn. docs/performance.md, "Direct
 * inserts", has the rates before and after, and what was tried.
 *
 * Accumulations of rows that repeat their keys keep sums (cpu_kept_sums.h). */
#include "core/lanes.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/core/cpu_kept_sums.h"
#include "machines/cpu/open/cpu_open.h"

typedef loom__open_view engine_view;

enum { DONE = OPEN_DONE, WAS_THERE = OPEN_WAS_THERE, ABSENT = OPEN_ABSENT, NO_ROOM = OPEN_NO_ROOM };

static const uint8_t status_of_outcome[] = {
    [OPEN_GO_ON] = LOOM_INTERNAL,   [OPEN_DONE] = LOOM_OK,      [OPEN_WAS_THERE] = LOOM_EXISTS,
    [OPEN_ABSENT] = LOOM_NOT_FOUND, [OPEN_NO_ROOM] = LOOM_FULL,
};

#include "machines/cpu/core/cpu_map_simd.h"

enum {
    GROUP = 8,          /* keys started together */
    AHEAD = 2,          /* groups between prefetch and search */
    RING = 4,           /* groups; a power of two above AHEAD */
    BLOCK = 512,        /* keys between two passes over the deferred keys, whose state stays in the L1 cache */
    WRITE_AHEAD = 16,   /* writers: keys between prefetch and the first turn */
    WRITE_RING = 32,    /* a power of two above WRITE_AHEAD */
    RECORDS_AHEAD = 20, /* insertions: keys between prefetch and the first turn */
    RECORDS_RING = 32   /* a multiple of 4, at least RECORDS_AHEAD + 4 */
};

/* ---- find ---- */

/* Keys that were started but not searched for yet. Lines are aligned, so the lowest bits of a line's address can carry
 * the number of the filter bit. A key then costs one word to store and load. */
typedef struct sought {
    uintptr_t line_and_bit[GROUP];
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
        lane_prefetch(line);
    }
}

/* Whether the line that is searched also holds the value, or there are no values. */
LOOM_LANE int has_values_at_hand(loom__slot_kind kind)
{
    return !slot_values_apart(kind) || open_has_narrow_word(kind);
}

/* Writes the result of one turn. The result of a key that goes on is overwritten when the key is settled. */
LOOM_LANE uint64_t find_record(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent, open_look look,
                               const unsigned char *line, uint64_t index, const unsigned char **value_from)
{
    uint64_t value = look.pair >> 32;
    if (open_has_narrow_word(kind)) /* the first slot's stands for the value of a key that is not there */
        value = open_load_value(kind, 0, line, look.slot * look.found);
    tell_look(kind, has_values_at_hand(kind), batch, absent, index, look.found, value,
              line + open_value_place(kind, look.slot), value_from);
    return look.found;
}

/* Continues with the keys of a block that their home bucket did not settle. Returns how many of them were found. */
LOOM_LANE uint64_t find_late(loom__slot_kind kind, const loom__open_view *view, const loom__batch *batch,
                             const uint64_t *absent, uint64_t block, const uint16_t *late, uint64_t waiting,
                             const unsigned char **value_from)
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
            found += find_record(kind, batch, absent, look, open_line(kind, &walk, walk.bucket), block + place,
                                 &value_from[place]);
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

/* The first turn of `count` keys that were started before. Keys that go on are added to `late`. */
LOOM_LANE uint64_t find_group(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent, uint64_t first,
                              uint32_t count, const sought *ring, uint64_t block, uint16_t *late, uint64_t *waiting,
                              const unsigned char **value_from)
{
    const sought *group = &ring[first / GROUP % RING];
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        const unsigned char *line = (const unsigned char *)(group->line_and_bit[i] & ~(uintptr_t)63);
        uint32_t bit = (uint32_t)group->line_and_bit[i] & 63;
        open_look look = open_look_at(kind, 0, whole_group, line, key_at(kind, batch->keys, index), bit, 1);
        found += find_record(kind, batch, absent, look, line, index, &value_from[index - block]);
        late[*waiting] = (uint16_t)(index - block);
        *waiting += look.further & !look.found;
    }
    return found;
}

/* `begin` is a multiple of GROUP. */
LOOM_LANE void find_singly(loom__slot_kind kind, const loom__open_view *const view_given,
                           const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given; /* a copy in registers: stores to the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    const uint64_t *const absent = &batch_given->absent;
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
                found += find_group(kind, &batch, absent, first, GROUP, ring, block, late, &waiting, value_from);
            else
                found += find_group(kind, &batch, absent, first, (uint32_t)(block_end - first), ring, block, late,
                                    &waiting, value_from);
        }
        found += find_late(kind, &view, &batch, absent, block, late, waiting, value_from);
        store_values(kind, has_values_at_hand(kind), &batch, block, block_end, value_from);
    }
    loom__cpu_counts local = {.ok = found, .not_found = end - begin - found};
    loom__cpu_add_counts(counts, &local);
}

#include "machines/cpu/open/cpu_open_stream.h"

LOOM_LANE void find_range(loom__slot_kind kind, const loom__open_view *view, const loom__batch *batch, uint64_t begin,
                          uint64_t end, loom__cpu_counts *counts)
{
    if (end - begin >= STREAM_LEAST) {
        const uint64_t rest = begin + (end - begin) / GROUP * GROUP, found = stream_any(view, batch, begin, rest);
        const loom__cpu_counts local = {.ok = found, .not_found = rest - begin - found};
        loom__cpu_add_counts(counts, &local);
        begin = rest;
    }
    if (begin < end)
        find_singly(kind, view, batch, begin, end, counts);
}

/* ---- insert and erase ---- */

/* A key that was started. The key is read from the batch only once. Even if the caller's array changes meanwhile, the
 * key goes to its own bucket. */
typedef struct started {
    uint64_t key;
    unsigned char *partition;
    uint32_t partition_index, lower, bucket;
} started;

typedef struct deferred {
    open_walk walk;
    uint64_t index;
} deferred;

LOOM_LANE void ring_start(loom__slot_kind kind, const loom__open_view *view, uint64_t key, uint64_t index,
                          started *ring)
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
    if (open_span(kind) > OPEN_LINE_BYTES)
        lane_prefetch_to_write(line + OPEN_LINE_BYTES);
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

LOOM_LANE open_outcome write_turn(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                                  const loom__batch *batch, open_walk *walk, uint64_t index)
{
    if (op == LOOM__WRITE_ERASE)
        return open_erase_turn(kind, shared, whole_group, view, walk, 1);
    const uint32_t bytes = slot_value_bytes(kind);
    const uint32_t stride = op == LOOM__WRITE_COMBINE ? loom__number_bytes(batch->widening, bytes) : bytes;
    uint64_t value = value_at(kind, op, batch->widening, batch->values, stride, index);
    if (op == LOOM__WRITE_UPDATE)
        return open_update_turn(kind, shared, whole_group, view, walk, value, 1);
    lane_truth tells;
    open_outcome outcome =
        open_insert_turn(kind, mode_of(op), batch->rule, shared, whole_group, view, walk, &value, 1, &tells);
    if (outcome != OPEN_GO_ON)
        tell_value(kind, op, batch, index, tells ? value : 0);
    return outcome;
}

/* One turn of a key. True: the key is not settled, and its next bucket is prefetched. */
LOOM_LANE int write_goes_on(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                            const loom__batch *batch, deferred *one, loom__cpu_counts *counts)
{
    const open_outcome outcome = write_turn(kind, op, shared, view, batch, &one->walk, one->index);
    if (outcome == OPEN_GO_ON)
        lane_prefetch_to_write(open_line(kind, &one->walk, one->walk.bucket));
    else
        tell_outcome(batch, one->index, outcome, counts);
    return outcome == OPEN_GO_ON;
}

/* The same for a key that was put aside. A copy would be read as a whole, in wide loads that wait for the narrow stores
 * before them. Measured on two cores of a Neoverse V1, 10^7 pairs of 4 + 4 bytes, load 0.72 to 0.8: 19 ns per key
 * without a copy, 22 with one. Accumulations, however, lose 8 % without a copy. */
LOOM_LANE int aside_goes_on(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                            const loom__batch *batch, deferred *one, loom__cpu_counts *counts)
{
    if (op != LOOM__WRITE_COMBINE)
        return write_goes_on(kind, op, shared, view, batch, one, counts);
    deferred copy = *one;
    const int goes_on = write_goes_on(kind, op, shared, view, batch, &copy, counts);
    if (goes_on)
        *one = copy;
    return goes_on;
}

/* Takes the turns of the keys that were put aside. In each round a key advances by one bucket, reads a bucket again, or
 * waits for a value that another thread is storing. A key reads a bucket again after it saw a mark or lost a slot. The
 * bounds are in open_ops.h. */
LOOM_LANE void settle_aside(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                            const loom__batch *batch, deferred *aside, uint64_t waiting, loom__cpu_counts *counts)
{
    while (waiting > 0) {
        uint64_t still = 0;
        for (uint64_t i = 0; i < waiting; i++) {
            if (!aside_goes_on(kind, op, shared, view, batch, &aside[i], counts))
                continue;
            if (still != i)
                aside[still] = aside[i];
            still++;
        }
        waiting = still;
    }
}

LOOM_LANE void turn_range(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *const view_given,
                          const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__batch batch = *batch_given;
    started ring[WRITE_RING];
    deferred aside[BLOCK];
    loom__cpu_counts local = {0};
    uint64_t next = begin;

    for (; next < end && next < begin + WRITE_AHEAD; next++)
        ring_start(kind, &view, key_at(kind, batch.keys, next), next, ring);
    for (uint64_t block = begin; block < end; block += BLOCK) {
        uint64_t block_end = end - block < BLOCK ? end : block + BLOCK;
        uint64_t waiting = 0;
        for (uint64_t index = block; index < block_end; index++) {
            if (index % GROUP == 0)
                for (uint32_t i = 0; i < GROUP && next < end; i++, next++)
                    ring_start(kind, &view, key_at(kind, batch.keys, next), next, ring);
            deferred one = {ring_take(index, ring), index};
            if (write_goes_on(kind, op, shared, &view, &batch, &one, &local))
                aside[waiting++] = one;
        }
        settle_aside(kind, op, shared, &view, &batch, aside, waiting, &local);
    }
    loom__cpu_add_counts(counts, &local);
}

/* ---- accumulation of rows that repeat their keys ---- */

LOOM_LANE int rows_repeat(loom__slot_kind kind, const loom__batch *batch, uint64_t begin, uint64_t end, kept_sums *sums)
{
    uint64_t repeated = 0;
    if (end - begin < 2 * KEPT_TRIAL || !kept_has_rule(batch->rule))
        return 0;
    kept_clear(sums);
    for (uint64_t index = begin; index < begin + KEPT_TRIAL; index++)
        if (kept_try(sums, key_at(kind, batch->keys, index)))
            repeated += index >= begin + KEPT_TRIAL / 2;
    kept_clear(sums);
    return repeated >= KEPT_REPEATS;
}

/* Gives a sum to its key, which is in the table. */
LOOM_LANE void give_sum(loom__slot_kind kind, int shared, const loom__open_view *view, const loom__batch *batch,
                        uint64_t key, uint64_t sum)
{
    open_walk walk = open_start(kind, view, key);
    lane_truth tells;
    while (open_insert_turn(kind, SLOT_COMBINE, batch->rule, shared, whole_group, view, &walk, &sum, 1, &tells) ==
           OPEN_GO_ON)
        ; /* as many turns as an insertion takes (open_ops.h) */
}

/* turn_range for accumulations of rows that repeat their keys: nothing is prefetched, since most rows need no bucket. Ends
 * early if this turns out not to be so, and returns where. */
LOOM_LANE uint64_t keep_range(loom__slot_kind kind, int shared, const loom__open_view *const view_given,
                              const loom__batch *const batch_given, uint64_t begin, uint64_t end, kept_sums *sums,
                              loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__batch batch = *batch_given;
    const uint32_t bytes = slot_value_bytes(kind), stride = loom__number_bytes(batch.widening, bytes);
    loom__cpu_counts local = {0};
    uint64_t index = begin, others = 0; /* rows of the block that were not kept */
    for (; index < end; index++) {
        if ((index - begin) % KEPT_BLOCK == 0) {
            if (index - begin > KEPT_BLOCK && others > KEPT_OTHERS)
                break;
            others = 0;
        }
        const uint64_t key = key_at(kind, batch.keys, index);
        const uint64_t number = value_at(kind, LOOM__WRITE_COMBINE, batch.widening, batch.values, stride, index);
        if (kept_take(sums, batch.rule, bytes, key, number)) {
            local.exists++;
            if (batch.status != NULL)
                batch.status[index] = LOOM_EXISTS;
            continue;
        }
        const uint64_t full = local.full;
        deferred one = {open_start(kind, &view, key), index};
        while (write_goes_on(kind, LOOM__WRITE_COMBINE, shared, &view, &batch, &one, &local))
            ;
        if (local.full == full)
            kept_add(sums, key);
        others++;
    }
    for (uint32_t i = 0; i < KEPT_SUMS; i++)
        if (sums->states[i] == KEPT_SUM)
            give_sum(kind, shared, &view, &batch, sums->keys[i], sums->numbers[i]);
    loom__cpu_add_counts(counts, &local);
    return index;
}

LOOM_LANE void combine_range(loom__slot_kind kind, int shared, const loom__open_view *view, const loom__batch *batch,
                             uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    kept_sums sums;
    if (rows_repeat(kind, batch, begin, end, &sums))
        begin = keep_range(kind, shared, view, batch, begin, end, &sums, counts);
    if (begin < end)
        turn_range(kind, LOOM__WRITE_COMBINE, shared, view, batch, begin, end, counts);
}

/* ---- insertion of records, one after the other, by the thread that owns the partition ---- */

/* Records that were started: keys, and their home lines with the numbers of their filter bits. */
typedef struct records_started {
    uint64_t key[RECORDS_RING];
    uintptr_t line_and_bit[RECORDS_RING];
} records_started;

_Static_assert(RECORDS_RING % 4 == 0 && RECORDS_RING >= RECORDS_AHEAD + 4, "four records are located at a time");

/* Finds the home lines of records `first` to first + count - 1, at most four; `first` is a multiple of 4. */
LOOM_LANE void records_locate(loom__slot_kind kind, const loom__open_view *view, const loom__cpu_records *records,
                              uint64_t first, uint32_t count, records_started *ring)
{
    uint64_t *const key = ring->key + first % RECORDS_RING;
    uintptr_t *const line_and_bit = ring->line_and_bit + first % RECORDS_RING;
#ifdef CPU_OPEN_HAS_STARTS
    if (count == 4) {
        const __m256i keys = _mm256_setr_epi64x(
            (long long)record_key(kind, records, first), (long long)record_key(kind, records, first + 1),
            (long long)record_key(kind, records, first + 2), (long long)record_key(kind, records, first + 3));
        fours_store(key, keys);
        fours_store(line_and_bit, open_lines_of_four(kind, view, keys));
        return;
    }
#endif
    for (uint32_t i = 0; i < count; i++) {
        key[i] = record_key(kind, records, first + i);
        const open_walk walk = open_start(kind, view, key[i]);
        line_and_bit[i] = (uintptr_t)open_line(kind, &walk, walk.bucket) | open_filter_bit(kind, walk.lower);
    }
}

/* Announces the home line of a record that was located, and the values behind it. Reading is announced, not writing:
 * other cores seldom have the line, so it comes in a state in which it may be written. */
LOOM_LANE void records_announce(loom__slot_kind kind, uint64_t index, const records_started *ring)
{
    const uintptr_t line_and_bit = ring->line_and_bit[index % RECORDS_RING]; /* the bit stays within the line */
    lane_prefetch((const void *)line_and_bit);
    if (open_span(kind) > OPEN_LINE_BYTES)
        lane_prefetch((const void *)(line_and_bit + OPEN_LINE_BYTES));
    __asm__ volatile("" ::: "memory"); /* keeps prefetches apart, as in cpu_open_stream.h */
}

/* How far records are on their way: `located` and `announced` are numbers of the next ones. */
typedef struct records_way {
    uint64_t located, announced, end;
} records_way;

/* Runs before record `index` takes its turn: every fourth call locates four records, and each call announces one. The
 * first call locates and announces all that are due. */
LOOM_LANE void records_bring(loom__slot_kind kind, const loom__open_view *view, const loom__cpu_records *records,
                             uint64_t index, records_way *way, records_started *ring)
{
    for (; index % 4 == 0 && way->located < way->end && way->located <= index + RECORDS_AHEAD; way->located += 4)
        if (way->end - way->located >= 4) /* nearly always; the count is then a literal */
            records_locate(kind, view, records, way->located, 4, ring);
        else
            records_locate(kind, view, records, way->located, (uint32_t)(way->end - way->located), ring);
    for (; way->announced < way->end && way->announced < index + RECORDS_AHEAD; way->announced++)
        records_announce(kind, way->announced, ring);
}

/* The empty key of the partition that has this line. */
LOOM_LANE uint64_t empty_at(const loom__open_view *view, const unsigned char *line)
{
    const unsigned char *exception = view->base + (uint64_t)view->empty_exception * view->partition_bytes;
    return (uintptr_t)line - (uintptr_t)exception < view->partition_bytes ? view->empty[1] : view->empty[0];
}

/* What a reservation tells about a key that is in this slot. */
LOOM_LANE loom__cpu_reserved reserved_in(loom__slot_kind kind, unsigned char *line, uint32_t slot, uint64_t old)
{
    return (loom__cpu_reserved){old, (uint64_t *)(void *)(line + open_value_place(kind, slot))};
}

/* Takes the turns of a key that is not settled in its home bucket. */
LOOM_LANE open_outcome insert_further(loom__slot_kind kind, loom__write op, const loom__open_view *view, uint64_t key,
                                      uint64_t value, loom__cpu_reserved *reserved)
{
    open_walk walk = open_start(kind, view, key);
    open_outcome outcome;
    lane_truth tells;
    do { /* the CAS of an owner never fails: at most twice view->buckets turns */
        outcome = open_insert_turn(kind, mode_of(op), LOOM__ADD, 0, whole_group, view, &walk, &value, 1, &tells);
    } while (outcome == OPEN_GO_ON);
    if (op == LOOM__WRITE_RESERVE && outcome == OPEN_NO_ROOM)
        *reserved = (loom__cpu_reserved){LIST_REFUSED, NULL};
    else if (op == LOOM__WRITE_RESERVE)
        *reserved = reserved_in(kind, open_line(kind, &walk, walk.free_bucket), walk.free_slot,
                                outcome == OPEN_DONE ? 0 : value);
    return outcome;
}

/* Inserts a record that was started. */
LOOM_LANE open_outcome insert_record(loom__slot_kind kind, loom__write op, const loom__open_view *view, uint64_t key,
                                     uintptr_t line_and_bit, uint64_t value, loom__cpu_reserved *reserved)
{
    unsigned char *const line = (unsigned char *)(line_and_bit & ~(uintptr_t)63);
    uint32_t slot = 0;
    const open_outcome outcome = open_insert_at_home(kind, OPEN_ALONE, whole_group, line, empty_at(view, line), key,
                                                     (uint32_t)line_and_bit & 63, value, &slot);
    if (outcome == OPEN_GO_ON)
        return insert_further(kind, op, view, key, value, reserved);
    if (op == LOOM__WRITE_RESERVE) {
        *reserved = reserved_in(kind, line, slot,
                                outcome == OPEN_DONE ? 0 : slot_load_value(kind, line + open_value_place(kind, slot)));
        if (outcome == OPEN_WAS_THERE)
            *reserved->handle = list_reserve(reserved->old);
    } else if (outcome == OPEN_WAS_THERE) {
        (void)open_meet_at_home(kind, mode_of(op), OPEN_ALONE, line, slot, key, &value);
    }
    return outcome;
}

LOOM_LANE void insert_records(loom__slot_kind kind, loom__write op, const loom__open_view *const view_given,
                              const loom__batch *const batch_given, const loom__cpu_records *const records_given,
                              const void *scratch, loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__batch batch = *batch_given;
    const loom__cpu_records records = *records_given;
    records_started ring;
    loom__cpu_counts local = {0};
    records_way way = {0, 0, records.n};
    (void)scratch;
    for (uint64_t i = 0; i < records.n; i++) {
        records_bring(kind, &view, &records, i, &way, &ring);
        loom__cpu_reserved reserved = {0, NULL};
        const uint64_t value = op == LOOM__WRITE_RESERVE
                                   ? list_reserve(0)
                                   : value_at(kind, op, LOOM__WIDEN_NOT, records.values, records.value_stride, i);
        const open_outcome outcome = insert_record(kind, op, &view, ring.key[i % RECORDS_RING],
                                                   ring.line_and_bit[i % RECORDS_RING], value, &reserved);
        if (op == LOOM__WRITE_RESERVE)
            ((loom__cpu_reserved *)batch.found_values)[i] = reserved;
        const uint64_t index = records.index != NULL ? records.index[i] : i;
        if (outcome != OPEN_DONE)
            tell_outcome(&batch, index, outcome, &local);
        else if (batch.status != NULL)
            batch.status[index] = LOOM_OK;
    }
    local.ok = records.n - local.exists - local.full;
    loom__cpu_add_counts(counts, &local);
}

/* ---- direct insertion ---- */

/* The first turn of a key that was located. GO_ON: it needs others, from its home bucket on. */
LOOM_LANE open_outcome insert_directly(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                                       uint64_t key, uintptr_t line_and_bit, uint64_t *value)
{
    unsigned char *const line = (unsigned char *)(line_and_bit & ~(uintptr_t)63);
    return open_settle_at_home(kind, mode_of(op), shared ? OPEN_SHARED : OPEN_ALONE, whole_group, line,
                               empty_at(view, line), key, (uint32_t)line_and_bit & 63, value);
}

/* turn_range for insertions: keys are located by fours, one line is announced before each key, and most keys end at
 * home. */
LOOM_LANE void insert_range(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *const view_given,
                            const loom__batch *const batch_given, uint64_t begin, uint64_t end,
                            loom__cpu_counts *counts)
{
    const loom__open_view view = *view_given;
    const loom__batch batch = *batch_given;
    const loom__cpu_records keys = {.keys = batch.keys, .key_stride = slot_key_bytes(kind), .n = end};
    records_started ring;
    deferred aside[BLOCK];
    loom__cpu_counts local = {0};
    records_way way = {begin, begin, end};
    for (uint64_t block = begin; block < end; block += BLOCK) {
        const uint64_t block_end = end - block < BLOCK ? end : block + BLOCK;
        uint64_t waiting = 0;
        for (uint64_t index = block; index < block_end; index++) {
            records_bring(kind, &view, &keys, index, &way, &ring);
            const uint64_t key = ring.key[index % RECORDS_RING];
            uint64_t value = value_at(kind, op, batch.widening, batch.values, slot_value_bytes(kind), index);
            const open_outcome outcome =
                insert_directly(kind, op, shared, &view, key, ring.line_and_bit[index % RECORDS_RING], &value);
            if (outcome != OPEN_GO_ON) {
                tell_value(kind, op, &batch, index, value);
                tell_outcome(&batch, index, outcome, &local);
                continue;
            }
            deferred one = {open_start(kind, &view, key), index};
            if (write_goes_on(kind, op, shared, &view, &batch, &one, &local))
                aside[waiting++] = one;
        }
        settle_aside(kind, op, shared, &view, &batch, aside, waiting, &local);
    }
    loom__cpu_add_counts(counts, &local);
}

LOOM_LANE uint64_t accesses_of(loom__slot_kind kind, const loom__open_view *view, const void *keys, uint64_t i)
{
    return open_count_accesses(kind, whole_group, view, key_at(kind, keys, i));
}

LOOM_LANE void survey_buckets(loom__slot_kind kind, const loom__open_view *view, uint32_t partition, open_sums *sums)
{
    for (uint32_t number = 0; number < view->buckets; number++)
        open_survey_bucket(kind, whole_group, view, partition, number, sums);
}

LOOM_LANE void write_range(loom__slot_kind kind, loom__write op, int shared, const loom__open_view *view,
                           const loom__batch *batch, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    if (op == LOOM__WRITE_KEEP || op == LOOM__WRITE_OVERWRITE || op == LOOM__WRITE_FETCH)
        insert_range(kind, op, shared, view, batch, begin, end, counts);
    else if (op == LOOM__WRITE_COMBINE)
        combine_range(kind, shared, view, batch, begin, end, counts);
    else
        turn_range(kind, op, shared, view, batch, begin, end, counts);
}

enum {
    RANGE_OPS = 1 << LOOM__WRITE_KEEP | 1 << LOOM__WRITE_OVERWRITE | 1 << LOOM__WRITE_FETCH | 1 << LOOM__WRITE_COMBINE |
                1 << LOOM__WRITE_UPDATE | 1 << LOOM__WRITE_ERASE,
    RECORD_OPS = 1 << LOOM__WRITE_KEEP | 1 << LOOM__WRITE_OVERWRITE | 1 << LOOM__WRITE_RESERVE
};

#include "machines/cpu/core/cpu_map_simd_table.h"

const loom__cpu_map_simd CPU_OPEN_SIMD_TABLE = {find, write, count_accesses, insert, survey_partition};
