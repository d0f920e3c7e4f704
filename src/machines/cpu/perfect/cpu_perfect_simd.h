/* Runs ranges of keys through the lane algorithms of perfect_ops.h, for one kind of SIMD. The including file sets
 * LOOM_LANES_HEADER and CPU_PERFECT_SIMD_TABLE. cpu_map_simd.h has the steps that all engines share.
 *
 * A lookup reads a word of codes, which is in a cache unless the table is too large. Then it reads a bucket, which is
 * not in a cache. So a key goes through three stages. The first stage prefetches the key's word of codes. AHEAD groups
 * later, the second stage computes the bucket and prefetches it. AHEAD groups later, the third stage searches the
 * bucket. cpu_open_simd.h gives the reasons for groups and for not branching on what is found.
 *
 * The first two stages take 13 or 14 multiplications a key. With CPU_PERFECT_HAS_FOURS (cpu_perfect_avx2.h) four keys
 * go through each stage at once, and buckets are prefetched into the L2 cache. The prefetches of the first two stages
 * stand between the searches of the third (find_turn).
 *
 * Measured on one core of a Xeon of 2024 in a virtual machine (2 MB of L2 cache), by a trial program, 2^21 lookups,
 * half of them hits, best of five to nine interleaved runs. Room for 2^24 and 2^26 keys at load 0.9, random codes; M
 * lookups a second:
 *                                               4 + 4 bytes, in caches   149 MB   597 MB   keys of 8 bytes, 149 MB
 *     one key at a time, 2 groups of 8 ahead    80                       53       44       55
 *     fours, the same                           203                      78       58       70
 *     fours, buckets into the L2 cache          192                      82       66       74
 *     the same, 3 groups ahead                                           91       71       75
 *     the same, 4 groups ahead                                           94       72       76
 *     groups of 16, 2 ahead                                              84       59       89
 *     4 ahead, prefetches spread among looks                             99       73       77
 *     the loop of cpu_limits.c, copied                                   101      83       104
 * No gain came from these: words of codes, too, into the L2 cache (78, 65, 68); more than 2 groups ahead into the L1
 * cache (76); one key at a time in other groups, at other distances or with BMI2 (all within a tenth of the first line,
 * most of them below). Distances without fours are those from before these measurements; they were not measured
 * again.
 * In these measurements the third stage took one key at a time. Two cores of a Skylake Xeon, 2026-11-19, 2^24 pairs of
 * 4 + 4 bytes at load 0.8, medians of three to five interleaved runs, half hits; on the right 2^12 pairs on one core:
 *     fours in two stages, prefetches in a row                 95    117
 *     prefetches spread among searches                        110    114
 *     the same, arrays prefetched (cpu_arrays.h)              112    111
 *     the same, buckets into the L1 cache                     115    116
 *     arrays prefetched, fours in all stages                  114    138
 * Other kinds gain 8 to 20 %, except for hits whose values lie apart: up to 4 %. */
#include "core/lanes.h"
#include "engines/perfect/perfect_survey.h"
#include "machines/cpu/perfect/cpu_perfect.h"

typedef loom__perfect_view engine_view;

enum { DONE = PERFECT_DONE, WAS_THERE = PERFECT_WAS_THERE, ABSENT = PERFECT_ABSENT, NO_ROOM = PERFECT_NO_ROOM };

static const uint8_t status_of_outcome[] = {
    [PERFECT_AGAIN] = LOOM_INTERNAL,   [PERFECT_DONE] = LOOM_OK,       [PERFECT_WAS_THERE] = LOOM_EXISTS,
    [PERFECT_ABSENT] = LOOM_NOT_FOUND, [PERFECT_OVERFLOW] = LOOM_FULL, [PERFECT_NO_ROOM] = LOOM_FULL,
};

#include "machines/cpu/core/cpu_map_simd.h"

enum {
    GROUP = 8, /* keys that go through a stage together */
#ifdef CPU_PERFECT_HAS_FOURS
    AHEAD = 4, /* groups between stages */
    RING = 8,  /* groups that a ring holds, between stages one and two and between two and three */
#else
    AHEAD = 2,
    RING = 4,
#endif
    BLOCK = 512,      /* keys whose values are fetched together, where values lie outside the line */
    WRITE_AHEAD = 16, /* in writes: keys between prefetch and use */
    WRITE_RING = 32
};

/* ---- find ---- */

#ifdef CPU_PERFECT_HAS_FOURS

typedef uint64_t packed_place; /* hash bits left over in the upper half, the cell in the lower */

LOOM_LANE packed_place pack_place(perfect_place place)
{
    return (uint64_t)place.remainder << 32 | perfect_cell(place);
}

LOOM_LANE perfect_place unpack_place(packed_place packed)
{
    return (perfect_place){(uint32_t)packed >> 4, (uint32_t)packed & 15, (uint32_t)(packed >> 32)};
}

#else

typedef perfect_place packed_place;

LOOM_LANE packed_place pack_place(perfect_place place)
{
    return place;
}

LOOM_LANE perfect_place unpack_place(packed_place packed)
{
    return packed;
}

#endif

typedef struct sought {
    unsigned char *partition[GROUP];
    const uint64_t *word[GROUP];
    packed_place place[GROUP];
} sought;

typedef struct settled {
    const unsigned char *line[GROUP];
    const unsigned char *values[GROUP]; /* used only where values lie behind all lines */
} settled;

/* First stage. */
LOOM_LANE void find_start(loom__slot_kind kind, const loom__perfect_view *view, const void *keys, uint64_t first,
                          uint32_t count, sought *ring)
{
    sought *group = &ring[first / GROUP % RING];
#ifdef CPU_PERFECT_HAS_FOURS
    if (count == GROUP) {
        const unsigned char *at = (const unsigned char *)keys + first * slot_key_bytes(kind);
        for (uint32_t i = 0; i < GROUP; i += 4)
            fours_start(kind, view, at + i * slot_key_bytes(kind), group->partition + i, group->word + i,
                        group->place + i);
        for (uint32_t i = 0; i < GROUP; i++)
            lane_prefetch(group->word[i]);
        return;
    }
#endif
    for (uint32_t i = 0; i < count; i++) {
        perfect_seek seek = perfect_start(kind, view, key_at(kind, keys, first + i));
        group->partition[i] = seek.partition;
        group->place[i] = pack_place(seek.place);
        group->word[i] = perfect_word_of(view, &seek);
        lane_prefetch(group->word[i]);
    }
}

/* Second stage. */
LOOM_LANE void find_settle(loom__slot_kind kind, const loom__perfect_view *view, uint64_t first, uint32_t count,
                           const sought *ring, settled *next_ring)
{
    const sought *group = &ring[first / GROUP % RING];
    settled *next = &next_ring[first / GROUP % RING];
#ifdef CPU_PERFECT_HAS_FOURS
    if (count == GROUP) {
        for (uint32_t i = 0; i < GROUP; i += 4)
            fours_settle(kind, view, group->partition + i, group->word + i, group->place + i, next->line + i,
                         next->values + i);
        for (uint32_t i = 0; i < GROUP; i++)
            fours_prefetch(next->line[i]);
        return;
    }
#endif
    for (uint32_t i = 0; i < count; i++) {
        perfect_seek seek;
        seek.partition = group->partition[i];
        seek.place = unpack_place(group->place[i]);
        perfect_settle(view, &seek, lane_load_8(group->word[i]));
        next->line[i] = perfect_line(kind, seek.partition, seek.bucket);
        if (kind == SLOT_KEY_8_VALUE_4)
            next->values[i] = perfect_value(kind, view, seek.partition, seek.bucket, 0);
        lane_prefetch(next->line[i]);
    }
}

/* Third stage. Returns how many keys were found. */
LOOM_LANE uint64_t find_look(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent, uint64_t first,
                             uint32_t count, const settled *ring, uint64_t block, const unsigned char **value_from)
{
    const settled *group = &ring[first / GROUP % RING];
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        perfect_look look = perfect_look_at(kind, 0, whole_group, group->line[i], key_at(kind, batch->keys, index), 1);
        const unsigned char *row = kind == SLOT_KEY_8_VALUE_4 ? group->values[i] : group->line[i] + PERFECT_LINE_BYTES;
        tell_look(kind, !slot_values_apart(kind), batch, absent, index, look.found, look.pair >> 32,
                  row + look.slot * slot_value_bytes(kind), &value_from[index - block]);
        found += look.found;
    }
    return found;
}

/* A turn amid a range: a whole group passes each stage, from keys `started`, `placed` and `first` on. Returns how many
 * keys were found. */
LOOM_LANE uint64_t find_turn(loom__slot_kind kind, const loom__perfect_view *view, const loom__batch *batch,
                             const uint64_t *absent, uint64_t started, uint64_t placed, uint64_t first,
                             sought *sought_ring, settled *settled_ring, uint64_t block,
                             const unsigned char **value_from)
{
#ifdef CPU_PERFECT_HAS_FOURS
    const uint32_t bytes = slot_key_bytes(kind);
    const sought *from = &sought_ring[placed / GROUP % RING];
    const settled *group = &settled_ring[first / GROUP % RING];
    sought *next = &sought_ring[started / GROUP % RING];
    settled *to = &settled_ring[placed / GROUP % RING];
    __m128i found[GROUP / 4];
#pragma GCC unroll 2
    for (uint32_t at = 0; at < GROUP; at += 4) {
        __m256i hits[4];
        fours_settle(kind, view, from->partition + at, from->word + at, from->place + at, to->line + at,
                     to->values + at);
        fours_start(kind, view, (const unsigned char *)batch->keys + (started + at) * bytes, next->partition + at,
                    next->word + at, next->place + at);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++) {
            lane_prefetch(next->word[at + i]);
            fours_prefetch(to->line[at + i]);
            __asm__ volatile("" ::: "memory"); /* keeps prefetches apart */
            hits[i] = fours_find(kind, group->line[at + i], batch->keys, first + at + i);
        }
        found[at / 4] = fours_tell(kind, batch, absent, hits, group->line + at, group->values + at, first + at,
                                   value_from + (first + at - block));
    }
    return fours_tell_found(batch, first, found[0], found[1]);
#else
    find_settle(kind, view, placed, GROUP, sought_ring, settled_ring);
    find_start(kind, view, batch->keys, started, GROUP, sought_ring);
    return find_look(kind, batch, absent, first, GROUP, settled_ring, block, value_from);
#endif
}

LOOM_LANE uint32_t group_at(uint64_t first, uint64_t end)
{
    return end - first < GROUP ? (uint32_t)(end - first) : GROUP;
}

/* `begin` is a multiple of GROUP. */
LOOM_LANE void find_range(loom__slot_kind kind, const loom__perfect_view *const view_given,
                          const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__perfect_view view = *view_given; /* a copy in registers: stores to the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    const uint64_t *const absent = &batch_given->absent;
    sought sought_ring[RING];
    settled settled_ring[RING];
    const unsigned char *value_from[BLOCK];
    uint64_t found = 0, started = begin, placed = begin;

    for (; started < end && started < begin + 2 * AHEAD * GROUP; started += GROUP) {
        if (started >= begin + AHEAD * GROUP) { /* keys started AHEAD groups before */
            find_settle(kind, &view, placed, group_at(placed, end), sought_ring, settled_ring);
            placed += GROUP;
        }
        find_start(kind, &view, batch.keys, started, group_at(started, end), sought_ring);
    }
    for (uint64_t block = begin; block < end; block += BLOCK) {
        uint64_t block_end = end - block < BLOCK ? end : block + BLOCK;
        for (uint64_t first = block; first < block_end; first += GROUP) {
            if (end >= started + GROUP) { /* nearly always */
                prefetch_arrays(kind, &batch, first, end);
                found += find_turn(kind, &view, &batch, absent, started, placed, first, sought_ring, settled_ring,
                                   block, value_from);
            } else {
                if (placed < end)
                    find_settle(kind, &view, placed, group_at(placed, end), sought_ring, settled_ring);
                if (started < end)
                    find_start(kind, &view, batch.keys, started, group_at(started, end), sought_ring);
                found +=
                    find_look(kind, &batch, absent, first, group_at(first, block_end), settled_ring, block, value_from);
            }
            placed += GROUP;
            started += GROUP;
        }
        store_values(kind, !slot_values_apart(kind), &batch, block, block_end, value_from);
    }
    loom__cpu_counts local = {.ok = found, .not_found = end - begin - found};
    loom__cpu_add_counts(counts, &local);
}

_Static_assert(RING > AHEAD, "a group is read before it is written again");

/* ---- writes ---- */

/* A key is read once: if the caller's array changes meanwhile, the key still goes to its own bucket. */
LOOM_LANE void ring_start(loom__slot_kind kind, const loom__perfect_view *view, uint64_t key, uint64_t index,
                          perfect_seek *ring)
{
    perfect_seek seek = perfect_start(kind, view, key);
    ring[index % WRITE_RING] = seek;
    lane_prefetch(perfect_word_of(view, &seek));
}

/* Half way between start and use, prefetches the key's bucket. Insertions may change codes before the key is used, so
 * they compute its bucket again. */
LOOM_LANE void ring_prefetch(loom__slot_kind kind, const loom__perfect_view *view, uint64_t index, perfect_seek *ring)
{
    perfect_seek *seek = &ring[index % WRITE_RING];
    perfect_settle(view, seek, lane_load_8(perfect_word_of(view, seek)));
    lane_prefetch_to_write(perfect_line(kind, seek->partition, seek->bucket));
    if (slot_values_apart(kind))
        lane_prefetch_to_write(perfect_value(kind, view, seek->partition, seek->bucket, 0));
}

/* Erase and update: codes do not change. */
LOOM_LANE void write_range(loom__slot_kind kind, loom__write op, int shared, const loom__perfect_view *const view_given,
                           const loom__batch *const batch_given, uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const loom__perfect_view view = *view_given;
    const loom__batch batch = *batch_given;
    perfect_seek ring[WRITE_RING];
    loom__cpu_counts local = {0};
    uint64_t next = begin, near = begin;
    for (uint64_t index = begin; index < end; index++) {
        for (; next < end && next < index + WRITE_AHEAD; next++)
            ring_start(kind, &view, key_at(kind, batch.keys, next), next, ring);
        for (; near < end && near < index + WRITE_AHEAD / 2; near++)
            ring_prefetch(kind, &view, near, ring);
        const perfect_seek *seek = &ring[index % WRITE_RING];
        perfect_outcome outcome;
        if (op == LOOM__WRITE_ERASE)
            outcome = perfect_erase(kind, shared, whole_group, &view, seek, 1);
        else
            outcome =
                perfect_update(kind, shared, whole_group, &view, seek,
                               value_at(kind, op, LOOM__WIDEN_NOT, batch.values, slot_value_bytes(kind), index), 1);
        tell_outcome(&batch, index, outcome, &local);
    }
    loom__cpu_add_counts(counts, &local);
}

LOOM_LANE void insert_records(loom__slot_kind kind, loom__write op, const loom__perfect_view *const view_given,
                              const loom__batch *const batch_given, const loom__cpu_records *const records_given,
                              loom__cpu_perfect_scratch *scratch, loom__cpu_counts *counts)
{
    const loom__perfect_view view = *view_given;
    const loom__batch batch = *batch_given;
    const loom__cpu_records records = *records_given;
    perfect_seek ring[WRITE_RING];
    loom__cpu_counts local = {0};
    uint64_t next = 0, near = 0;
    for (uint64_t i = 0; i < records.n; i++) {
        for (; next < records.n && next < i + WRITE_AHEAD; next++)
            ring_start(kind, &view, record_key(kind, &records, next), next, ring);
        for (; near < records.n && near < i + WRITE_AHEAD / 2; near++)
            ring_prefetch(kind, &view, near, ring);
        perfect_seek seek = ring[i % WRITE_RING];
        uint64_t value = value_at(kind, op, batch.widening, records.values, records.value_stride, i);
        perfect_settle(&view, &seek, lane_load_8(perfect_word_of(&view, &seek)));
        perfect_outcome outcome =
            perfect_insert_alone(kind, mode_of(op), batch.rule, 0, whole_group, &view, &seek, &value);
        if (outcome == PERFECT_OVERFLOW) {
            outcome = PERFECT_NO_ROOM;
            if (loom__cpu_perfect_make_room(scratch, seek.key)) {
                seek = perfect_seek_key(kind, &view, seek.key);
                outcome = perfect_insert_alone(kind, mode_of(op), batch.rule, 0, whole_group, &view, &seek, &value);
            }
        }
        const uint64_t place = records.index != NULL ? records.index[i] : i;
        tell_value(kind, op, &batch, place, outcome == PERFECT_NO_ROOM ? 0 : value);
        tell_outcome(&batch, place, outcome, &local);
    }
    loom__cpu_add_counts(counts, &local);
}

/* A lookup reads one bucket. */
LOOM_LANE uint64_t accesses_of(loom__slot_kind kind, const loom__perfect_view *view, const void *keys, uint64_t i)
{
    const perfect_seek seek = perfect_seek_key(kind, view, key_at(kind, keys, i));
    (void)perfect_find(kind, 0, whole_group, &seek, 1);
    return 1;
}

LOOM_LANE void survey_buckets(loom__slot_kind kind, const loom__perfect_view *view, uint32_t partition,
                              perfect_sums *sums)
{
    for (uint32_t number = 0; number < perfect_buckets(view->subrange); number++)
        perfect_survey_bucket(kind, whole_group, view, partition, number, sums);
    uint64_t first = ~((uint64_t)partition * perfect_buckets(view->subrange));
    if (!perfect_salts_agree(view, partition) && first > sums->lowest_bad_inverted)
        sums->lowest_bad_inverted = first;
}

enum {
    RANGE_OPS = 1 << LOOM__WRITE_UPDATE | 1 << LOOM__WRITE_ERASE,
    RECORD_OPS = 1 << LOOM__WRITE_KEEP | 1 << LOOM__WRITE_OVERWRITE | 1 << LOOM__WRITE_FETCH | 1 << LOOM__WRITE_COMBINE
};

#include "machines/cpu/core/cpu_map_simd_table.h"

const loom__cpu_map_simd CPU_PERFECT_SIMD_TABLE = {find, write, count_accesses, insert, survey_partition};
