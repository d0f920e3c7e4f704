/* Lookups of pairs of 4 + 4 bytes where the SIMD header handles the home buckets of four keys together
 * (CPU_OPEN_HAS_FOURS, cpu_open_neon.h). Part of cpu_open_simd.h, which has the reasons for rings and for not branching
 * on what is found. Three things differ from find_singly there:
 *   - Spread starts: four keys are started, then four are searched for, and so on. A barrier keeps gcc from moving the
 *     prefetches together.
 *   - Late keys, which their home bucket does not settle, take one turn after each block of keys. find_singly takes all
 *     their turns at the end of a block, and each round then waits for DRAM.
 *   - Outputs are written for four or eight keys at once.
 *
 * gcc 12 makes 58 instructions per key of this loop, 27 of them for the start. find_singly has 68.
 *
 * Measured by a trial program on two cores of a Neoverse V1 in a virtual machine without hardware counters, 2^24 pairs,
 * load 0.8, 2^24 lookups with values and statuses. Medians of five to nine interleaved runs; lines are from several
 * hours, in which find_singly reached 164 to 174, 149 to 158 and 138 to 146. Two tables of the same code differ by
 * up to 3 %. M lookups a second for misses, half hits and hits; half hits on one core with 2^12 pairs in its caches:
 *                                                           miss   half   hit    in the caches
 *     find_singly                                           169    154    142    144
 *     find_singly, prefetching into the L2 cache            144    133    124
 *     fours, starts of 8 in a row, 4 groups ahead           168    152    141    162
 *     the same, starts spread by 4                          174    159    146    172
 *     the same with the barrier                             184    164    151    183
 *     the same, late turns, no branch on found_values       201    180    168    192
 *     the same, 3 groups ahead                              194    174    159
 *     the same, 6 groups ahead                              190    168    158
 *     the same as 201, starts spread by 2                   195    175    160    218
 * Late keys in blocks of 512 or 256 were 1 to 3 % slower than in blocks of 128, which is no more than two tables of the
 * same code differ.
 *
 * Late turns for other kinds: pairs of 8 + 8 bytes gained 3 % for half hits and 15 % for hits, but calls with 8 to 64
 * keys lost 2 to 5 %, even though these kept their loop. Not kept. */
#ifndef LOOM_CPU_OPEN_FOURS_H
#define LOOM_CPU_OPEN_FOURS_H

enum {
    FOURS_AHEAD = 4,   /* groups between prefetch and search */
    FOURS_RING = 8,    /* groups; a power of two above FOURS_AHEAD */
    FOURS_BLOCK = 128, /* keys between two turns of late keys: their lines are still in the L1 cache */
    FOURS_LATE = 256,  /* most late keys */
    FOURS_LEAST = 33   /* shorter ranges take find_singly. In one function with this loop, one key took 6 % longer */
};

_Static_assert(FOURS_LATE >= FOURS_BLOCK, "the late keys of a block have room");

/* Lines and filter bits as in `sought`. */
typedef struct fours_group {
    uintptr_t line_and_bit[GROUP];
} fours_group;

/* Starts keys first + from .. first + to - 1. */
LOOM_LANE void fours_start(const loom__open_view *view, const void *keys, uint64_t first, uint32_t from, uint32_t to,
                           fours_group *ring)
{
    fours_group *group = &ring[first / GROUP % FOURS_RING];
    for (uint32_t i = from; i < to; i++) {
        open_walk walk = open_start(SLOT_PAIR_4_4, view, key_at(SLOT_PAIR_4_4, keys, first + i));
        const unsigned char *line = open_line(SLOT_PAIR_4_4, &walk, walk.bucket);
        group->line_and_bit[i] = (uintptr_t)line | open_filter_bit(SLOT_PAIR_4_4, walk.lower);
        lane_prefetch(line);
        __asm__ volatile("" ::: "memory"); /* keeps prefetches apart */
    }
}

/* Searches for the group that begins at key `first`, and starts the one that begins at `next`, if `starting`. The
 * places of keys that go on are added to `places`. Returns how many keys were found. */
LOOM_LANE uint64_t fours_turn(int starting, const loom__open_view *view, const loom__batch *batch, uint64_t next,
                              uint64_t first, fours_group *ring, uint64_t block, uint16_t *places, uint64_t *waiting)
{
    const uintptr_t *group = ring[first / GROUP % FOURS_RING].line_and_bit;
    const uint32_t *keys = (const uint32_t *)batch->keys + first;
    /* With a branch on found_values, gcc would sink the sums behind it and keep eight lines on the stack. */
    uint32_t unasked[GROUP], *values = batch->found_values != NULL ? (uint32_t *)batch->found_values + first : unasked;
    open_four fours[GROUP / 4];
#pragma GCC unroll 2
    for (uint32_t at = 0; at < GROUP; at += 4) {
        open_lines lines;
        if (starting)
            fours_start(view, batch->keys, next, at, at + 4, ring);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++)
            open_match_line((const unsigned char *)(group[at + i] & ~(uintptr_t)63), keys + at + i, &lines, i);
        fours[at / 4] = open_look_at_four(&lines, group + at, (uint32_t)batch->absent, values + at);
    }
    const uint64_t go_on = open_eight_go_on(fours);
    for (uint32_t i = 0; i < GROUP; i++) {
        places[*waiting] = (uint16_t)(first - block + i);
        *waiting += go_on >> 8 * i & 1;
    }
    return open_tell_eight(batch, first, fours);
}

/* Keys that their home buckets did not settle. Their next lines are prefetched. */
typedef struct late_keys {
    uint64_t waiting;
    open_walk walks[FOURS_LATE];
    uint64_t index[FOURS_LATE];
} late_keys;

/* One turn of each late key. Returns how many of them were found. */
LOOM_LANE uint64_t late_turn(const loom__open_view *view, const loom__batch *batch, late_keys *late)
{
    uint64_t found = 0, still = 0;
    for (uint64_t i = 0; i < late->waiting; i++) {
        open_walk walk = late->walks[i];
        const uint64_t index = late->index[i];
        const open_look look = open_find_turn(SLOT_PAIR_4_4, 0, whole_group, view, &walk, 1);
        tell_look(SLOT_PAIR_4_4, batch, NULL, index, look.found, look.pair, NULL, NULL);
        found += look.found;
        if (look.further & !look.found) {
            open_advance(view, &walk);
            lane_prefetch(open_line(SLOT_PAIR_4_4, &walk, walk.bucket));
            late->walks[still] = walk;
            late->index[still++] = index;
        }
    }
    late->waiting = still;
    return found;
}

/* Adds keys of a block, by their places in it. */
LOOM_LANE void late_add(const loom__open_view *view, const void *keys, uint64_t block, const uint16_t *places,
                        uint64_t count, late_keys *late)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = block + places[i];
        open_walk *walk = &late->walks[late->waiting];
        *walk = open_start(SLOT_PAIR_4_4, view, key_at(SLOT_PAIR_4_4, keys, index));
        open_advance(view, walk);
        lane_prefetch(open_line(SLOT_PAIR_4_4, walk, walk->bucket));
        late->index[late->waiting++] = index;
    }
}

/* Searches for whole groups: keys begin .. end - 1. Returns how many keys were found. */
LOOM_LANE uint64_t fours_range(const loom__open_view *const view_given, const loom__batch *const batch_given,
                               uint64_t begin, uint64_t end)
{
    const loom__open_view view = *view_given; /* a copy in registers: stores to the outputs cannot alias it */
    const loom__batch batch = *batch_given;
    fours_group ring[FOURS_RING];
    uint16_t places[FOURS_BLOCK];
    late_keys late;
    uint64_t found = 0, next = begin;

    late.waiting = 0;
    for (; next < end && next < begin + FOURS_AHEAD * GROUP; next += GROUP)
        fours_start(&view, batch.keys, next, 0, GROUP, ring);
    /* Behind the last block: at most view.buckets rounds, each of which advances the late keys by one bucket. */
    for (uint64_t block = begin; block < end || late.waiting > 0; block += FOURS_BLOCK) {
        const uint64_t block_end = end < block + FOURS_BLOCK ? end : block + FOURS_BLOCK;
        uint64_t waiting = 0;
        for (uint64_t first = block; first < block_end; first += GROUP, next += GROUP)
            if (next < end)
                found += fours_turn(1, &view, &batch, next, first, ring, block, places, &waiting);
            else
                found += fours_turn(0, &view, &batch, 0, first, ring, block, places, &waiting);
        do /* nearly always once; at most view.buckets times */
            found += late_turn(&view, &batch, &late);
        while (late.waiting + waiting > FOURS_LATE);
        late_add(&view, batch.keys, block, places, waiting, &late);
    }
    return found;
}

/* A function of its own: inlined, it would take registers from find_singly, which serves short ranges. */
static __attribute__((noinline)) void find_in_fours(const loom__open_view *view, const loom__batch *batch,
                                                    uint64_t begin, uint64_t end, loom__cpu_counts *counts)
{
    const uint64_t rest = begin + (end - begin) / GROUP * GROUP;
    const uint64_t found = fours_range(view, batch, begin, rest);
    const loom__cpu_counts local = {.ok = found, .not_found = rest - begin - found};
    loom__cpu_add_counts(counts, &local);
    if (rest < end)
        find_singly(SLOT_PAIR_4_4, view, batch, rest, end, counts);
}

#endif
