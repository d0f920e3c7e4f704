/* Lookups of more than a few keys. Part of cpu_open_simd.h, which has the reasons for rings and for not branching on
 * what is found. Five things differ from find_singly there:
 *   - Spread starts: two keys are started, then two are searched for, and so on. A barrier keeps gcc from moving the
 *     prefetches together.
 *   - Two caches: every fourth line is prefetched into the L2 cache only. A prefetch into the L1 cache occupies one of
 *     its few fill buffers until DRAM answers. With all of them occupied, the next prefetch stalls.
 *   - Late keys, which their home bucket does not settle, take one turn after each block of keys. find_singly takes all
 *     their turns at the end of a block, and each round then waits for DRAM.
 *   - Values that lie outside the line are copied one block after they were prefetched.
 *   - Four keys are searched for at once, and outputs are written for four or eight, where the SIMD header supplies
 *     this (CPU_OPEN_HAS_FOURS: cpu_open_neon.h, cpu_open_avx2.h). With CPU_OPEN_HAS_STARTS the addresses of four keys
 *     are computed at once, too; a line is still prefetched before each search. With CPU_OPEN_HAS_LISTS late keys are
 *     listed four at a time.
 *
 * gcc 12 makes 51 instructions per key of this loop for pairs of 4 + 4 bytes, 48 and 50 for sets of 4 and 8 bytes, and
 * 57 to 60 where values lie apart, without copying these.
 *
 * Measured by a trial program on two cores of a Neoverse V1 in a virtual machine without hardware counters, 2^24 pairs,
 * load 0.8, 2^24 lookups with values and statuses, M lookups a second. Medians of five to seven interleaved runs, least
 * and largest of several such runs. Pairs of 4 + 4 bytes, half hits; on the right 2^12 pairs, which fit the caches, on
 * one core:
 *     starts spread by 4, factors made anew, 58 instructions, 4 groups ahead    174 to 182    182
 *     the same, all lines into L2                                               156
 *     factors in registers                                                      168 to 176    198
 *     the same, starts spread by 2                                              173           216
 *     the same, starts spread by 1, 2 groups ahead                              171           219
 *     factors in registers, all lines into L2, 6 groups ahead                   167 to 170    195
 *     the same, and into L1 one or two groups before use                        166 to 172    202
 *     factors in registers, starts spread by 2, every second line into L2       186 to 192
 *     the same, every fourth                                                    194 to 201
 *     the same, every eighth                                                    186
 *     every fourth, 3, 6 and 8 groups ahead                                     189, 196, 197
 *     every fourth, starts spread by 4; by 1                                    189; 195
 *     every fourth into L3                                                      192
 * As long as all lines go into L1, its fill buffers are the likely limit: fewer instructions gain nothing, and up to 16
 * empty instructions per key cost nothing. Lines in L2 have no such limit, but there every instruction counts. A loop
 * that only reads lines does about 98 M/s on one core with prefetches into L1, whether it has 25 or 45 instructions per
 * line, and 85 with 65. With prefetches into L2 it does about 120, 85 and 67. Page walks are a part of this: where 16
 * lines in a row are in one page, these are 150, 107 and 86.
 *
 * Misses, half hits and hits of all kinds, before (find_singly, except for pairs of 4 + 4 bytes) and after. 8 + 4 and
 * 4 + 8 bytes had their values behind the line then:
 *                  before            after                                 before            after
 *     4 + 4    199  177  165    215  193  176            4 + 8    143  103   94    155  126  111
 *     8 + 8    128   98   82    146  119  102            4        194  189  183    257  252  240
 *     8 + 4    145   98   79    178  124   92            8        174  156  146    220  197  180
 * Values prefetched into L2 instead, blocks of 256, and other patterns are within 5 % of this for 8 + 8 and 4 + 8
 * bytes. Calls with 16 keys are 1 % slower than before. Calls with 40 keys are 5 % slower (sets of 8 bytes) to 5 %
 * faster (8 + 8), with 128 keys 5 to 22 % faster. A Neoverse N1 was not measured.
 *
 * On two cores of a Skylake Xeon with AVX2, 2026-11-19, medians of seven interleaved runs; on the right 2^12 pairs on
 * one core. Pairs of 4 + 4 bytes, misses, half hits and hits:
 *     one key at a time                                        98    93    89         102    96    90
 *     fours (39 instructions per key)                          135   127   119        185   162   150
 *     the same, the four lines prefetched in a row             123   117   108        170   143   144
 *     fours, and arrays prefetched (cpu_arrays.h)              147   135   125        183   161   146
 *     the same, all lines into L1; all into L2, 6 groups ahead 150   139   127;       142   132   121
 *     the same, every second line into L2; 6 groups ahead      147   136   124;       146   136   124
 *     AVX-512: eight addresses at once, lines as one vector    153   142   129        227   195   170
 *     the source for AVX2, compiled for AVX-512, without and
 *       with its product of 64 bits                            as for AVX2            178   151   146
 * Not taken: AVX-512 gains 3 to 5 % outside the caches there, and nothing on a newer Xeon (Emerald Rapids, two cores,
 * medians of seven to fifteen interleaved runs). There it had the addresses of eight keys at once, lines as one vector,
 * and values by a compress. Misses, half hits and hits, AVX2 and AVX-512:
 *     4 + 4   2^24 pairs, two cores   154 136 126   154 129 117      3,276, one core   156 147 130   152 136 123
 *     8 + 8   2^24 pairs, two cores    92  84  68    85  84  66      3,276, one core   123 165 152   116 166 156
 *
 * Half hits of other kinds on the Skylake Xeon, one key at a time and now: 8 + 8 69 and 78, 4 + 8 78 and 110, 8 + 4 70
 * and 111. docs/performance.md tells how far the limit is ("Two cores of a Xeon"). */
#ifndef LOOM_CPU_OPEN_STREAM_H
#define LOOM_CPU_OPEN_STREAM_H

enum {
    STREAM_AHEAD = 4,   /* groups between prefetch and search */
    STREAM_RING = 8,    /* groups; a power of two above STREAM_AHEAD */
    STREAM_SPREAD = 2,  /* keys started together */
    STREAM_FAR = 0x88,  /* which keys of a group are prefetched into the L2 cache: a bit for each */
    STREAM_BLOCK = 128, /* keys between two turns of late keys: their lines are still in the L1 cache */
    STREAM_LATE = 256,  /* most late keys */
    STREAM_LEAST = 33   /* shorter ranges take find_singly. In one function with this loop, one key took 6 % longer */
};

_Static_assert(STREAM_LATE >= STREAM_BLOCK, "the late keys of a block have room");

#ifndef CPU_OPEN_HAS_FOURS

typedef struct open_lines {
    open_look looks[4];
} open_lines;

typedef struct open_four {
    uint32_t found, goes_on; /* a bit for each key */
} open_four;

LOOM_LANE void open_match_line(loom__slot_kind kind, uintptr_t line_and_bit, const void *keys, uint64_t place,
                               open_lines *lines, uint32_t i)
{
    const unsigned char *line = (const unsigned char *)(line_and_bit & ~(uintptr_t)63);
    lines->looks[i] =
        open_look_at(kind, 0, whole_group, line, key_at(kind, keys, place), (uint32_t)line_and_bit & 63, 1);
}

/* Tells what four keys found, from key `index` of the batch on. */
LOOM_LANE open_four open_look_at_four(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent,
                                      const open_lines *lines, const uintptr_t *line_and_bit, uint64_t index,
                                      const unsigned char **value_from)
{
    open_four four = {0, 0};
    for (uint32_t i = 0; i < 4; i++) {
        const open_look look = lines->looks[i];
        const unsigned char *line = (const unsigned char *)(line_and_bit[i] & ~(uintptr_t)63);
        const uint32_t found = (uint32_t)find_record(kind, batch, absent, look, line, index + i, &value_from[i]);
        four.found |= found << i;
        four.goes_on |= (look.further & !found) << i;
    }
    return four;
}

/* The key's answers are written already. Returns how many of eight keys were found. */
LOOM_LANE uint64_t open_tell_eight(const loom__batch *batch, uint64_t first, const open_four fours[2])
{
    (void)batch, (void)first;
    return loom__count_bits(fours[0].found | fours[1].found << 4);
}

/* Which of eight keys go on: 8 bits for each key, of which the lowest counts. Copies of four bits, each 7 bits further
 * up, overlap nowhere. */
LOOM_LANE uint64_t open_eight_go_on(const open_four fours[2])
{
    const uint32_t copies = 0x00204081, lowest = 0x01010101;
    return (fours[0].goes_on * copies & lowest) | (uint64_t)(fours[1].goes_on * copies & lowest) << 32;
}

#endif

#ifndef CPU_OPEN_HAS_LISTS

/* Adds the places of those of eight keys that go on to a list. The first key has this `place`. Returns how many. */
LOOM_LANE uint64_t open_list_eight(const open_four fours[2], uint64_t place, uint16_t *list)
{
    const uint64_t go_on = open_eight_go_on(fours);
    uint64_t listed = 0;
    for (uint32_t i = 0; i < 8; i++) {
        list[listed] = (uint16_t)(place + i);
        listed += go_on >> 8 * i & 1;
    }
    return listed;
}

#endif

/* Prefetches the line of key i of a group. */
LOOM_LANE void stream_prefetch(const sought *group, uint32_t i)
{
    const void *line = (const void *)group->line_and_bit[i]; /* the bit's number stays within the line */
    if (STREAM_FAR >> i & 1)
        lane_prefetch_far(line);
    else
        lane_prefetch(line);
    __asm__ volatile("" ::: "memory"); /* keeps prefetches apart */
}

/* Starts what is due of the group that begins at key `first` when its key i comes. */
LOOM_LANE void stream_start(loom__slot_kind kind, const loom__open_view *view, loom__hash_factors factors,
                            const void *keys, uint64_t first, uint32_t i, sought *ring)
{
    sought *group = &ring[first / GROUP % STREAM_RING];
#ifdef CPU_OPEN_HAS_STARTS
    (void)factors;
    const uint32_t bytes = slot_key_bytes(kind);
    if (i % 4 == 0) {
        const __m256i four = fours_keys((const unsigned char *)keys + (first + i) * bytes, bytes);
        fours_store(group->line_and_bit + i, open_lines_of_four(kind, view, four));
    }
    stream_prefetch(group, i);
#else
    if (i % STREAM_SPREAD != 0)
        return;
    for (uint32_t j = i; j < i + STREAM_SPREAD; j++) {
        const uint64_t key = key_at(kind, keys, first + j);
        const uint64_t hash = loom__hash_key_by(factors, key, slot_key_bytes(kind), view->seed);
        const open_walk walk = open_start_at(kind, view, key, hash);
        group->line_and_bit[j] = (uintptr_t)open_line(kind, &walk, walk.bucket) | open_filter_bit(kind, walk.lower);
        stream_prefetch(group, j);
    }
#endif
}

/* What a range of lookups has in hand. The places of a block's keys that go on are in `places`. Each block has its own
 * addresses of values, until the next block ends. */
typedef struct stream {
    sought ring[STREAM_RING];
    uint16_t places[STREAM_BLOCK];
    uint64_t going_on;
    const unsigned char *value_from[2][STREAM_BLOCK];
} stream;

LOOM_LANE const unsigned char **stream_values(stream *own, uint64_t block)
{
    return own->value_from[block / STREAM_BLOCK % 2];
}

/* Searches for the group that begins at key `first`, and starts the one that begins at `next`, if `starting`. The range
 * ends at key `end`. Returns how many keys were found. */
LOOM_LANE uint64_t stream_turn(loom__slot_kind kind, int starting, const loom__open_view *view,
                               loom__hash_factors factors, const loom__batch *batch, const uint64_t *absent,
                               uint64_t next, uint64_t first, uint64_t block, uint64_t end, stream *own)
{
    const sought *group = &own->ring[first / GROUP % STREAM_RING];
    const unsigned char **value_from = stream_values(own, block) + (first - block);
    open_four fours[GROUP / 4];
    if (starting)
        prefetch_arrays(kind, batch, first, end);
#pragma GCC unroll 2
    for (uint32_t at = 0; at < GROUP; at += 4) {
        open_lines lines;
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++) {
            if (starting)
                stream_start(kind, view, factors, batch->keys, next, at + i, own->ring);
            open_match_line(kind, group->line_and_bit[at + i], batch->keys, first + at + i, &lines, i);
        }
        fours[at / 4] =
            open_look_at_four(kind, batch, absent, &lines, group->line_and_bit + at, first + at, value_from + at);
    }
    own->going_on += open_list_eight(fours, first - block, own->places + own->going_on);
    return open_tell_eight(batch, first, fours);
}

/* Keys that their home buckets did not settle. Their next lines are prefetched. Values outside the line that they found
 * are prefetched, too, and copied in the next turn. */
typedef struct late_keys {
    uint64_t waiting, held;
    open_walk walks[STREAM_LATE];
    uint64_t index[STREAM_LATE];
    const unsigned char *value_from[STREAM_LATE];
    uint64_t value_index[STREAM_LATE];
} late_keys;

/* One turn of each late key. Returns how many of them were found. */
LOOM_LANE uint64_t late_turn(loom__slot_kind kind, const loom__open_view *view, const loom__batch *batch,
                             const uint64_t *absent, late_keys *late)
{
    const uint32_t bytes = slot_value_bytes(kind);
    uint64_t found = 0, still = 0;
    for (uint64_t i = 0; i < late->held; i++)
        memcpy((unsigned char *)batch->found_values + late->value_index[i] * bytes, late->value_from[i], bytes);
    late->held = 0;
    for (uint64_t i = 0; i < late->waiting; i++) {
        open_walk walk = late->walks[i];
        const uint64_t index = late->index[i];
        const open_look look = open_find_turn(kind, 0, whole_group, view, &walk, 1);
        found += find_record(kind, batch, absent, look, open_line(kind, &walk, walk.bucket), index,
                             &late->value_from[late->held]);
        if (!has_values_at_hand(kind) && batch->found_values != NULL) {
            late->value_index[late->held] = index;
            late->held += look.found;
        }
        if (look.further & !look.found) {
            open_advance(view, &walk);
            lane_prefetch(open_line(kind, &walk, walk.bucket));
            late->walks[still] = walk;
            late->index[still++] = index;
        }
    }
    late->waiting = still;
    return found;
}

/* Adds the keys of a block that go on. */
LOOM_LANE void late_add(loom__slot_kind kind, const loom__open_view *view, const void *keys, uint64_t block,
                        const stream *own, late_keys *late)
{
    for (uint64_t i = 0; i < own->going_on; i++) {
        const uint64_t index = block + own->places[i];
        open_walk *walk = &late->walks[late->waiting];
        *walk = open_start(kind, view, key_at(kind, keys, index));
        open_advance(view, walk);
        lane_prefetch(open_line(kind, walk, walk->bucket));
        late->index[late->waiting++] = index;
    }
}

/* Searches for whole groups: keys begin .. end - 1. Returns how many keys were found. A late key's first value is
 * `absent`: a block's values are copied before its late keys take their first turn. */
LOOM_LANE uint64_t stream_range(loom__slot_kind kind, const loom__open_view *const view_given,
                                const loom__batch *const batch_given, uint64_t begin, uint64_t end)
{
    const loom__open_view view = *view_given; /* a copy in registers: stores to the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    const uint64_t *const absent = &batch_given->absent;
    loom__hash_factors factors = loom__hash_factors_of_keys();
    stream own;
    late_keys late;
    uint64_t found = 0, next = begin, block = begin;

    /* Hides that the factors are literals: gcc would make each of them anew for each key, in four instructions. */
    __asm__("" : "+r"(factors.first), "+r"(factors.second), "+r"(factors.third));
    late.waiting = late.held = 0;
    for (; next < end && next < begin + STREAM_AHEAD * GROUP; next += GROUP)
        for (uint32_t i = 0; i < GROUP; i++)
            stream_start(kind, &view, factors, batch.keys, next, i, own.ring);
    for (; block < end; block += STREAM_BLOCK) {
        const uint64_t block_end = end < block + STREAM_BLOCK ? end : block + STREAM_BLOCK;
        own.going_on = 0;
        for (uint64_t first = block; first < block_end; first += GROUP, next += GROUP)
            if (next < end)
                found += stream_turn(kind, 1, &view, factors, &batch, absent, next, first, block, end, &own);
            else
                found += stream_turn(kind, 0, &view, factors, &batch, absent, 0, first, block, end, &own);
        if (block > begin)
            store_values(kind, has_values_at_hand(kind), &batch, block - STREAM_BLOCK, block,
                         stream_values(&own, block - STREAM_BLOCK));
        do /* nearly always once; at most view.buckets times */
            found += late_turn(kind, &view, &batch, absent, &late);
        while (late.waiting + own.going_on > STREAM_LATE);
        late_add(kind, &view, batch.keys, block, &own, &late);
    }
    store_values(kind, has_values_at_hand(kind), &batch, block - STREAM_BLOCK, end,
                 stream_values(&own, block - STREAM_BLOCK));
    while (late.waiting + late.held > 0) /* at most view.buckets + 1 times: each advances the late keys by one bucket */
        found += late_turn(kind, &view, &batch, absent, &late);
    return found;
}

/* A function of its own: inlined, it would take registers from find_singly, which serves short ranges. `begin` and
 * `end` are multiples of GROUP. */
LOOM_STEP uint64_t stream_any(const loom__open_view *view, const loom__batch *batch, uint64_t begin, uint64_t end)
{
    uint64_t found = 0;
#define CALL(kind) found = stream_range(kind, view, batch, begin, end)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return found;
}

#endif
