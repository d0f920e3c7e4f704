/* Ranges of keys through filter_ops.h, for one kind of SIMD. The including file sets LOOM_LANES_HEADER and
 * CPU_FILTER_SIMD_TABLE.
 *
 * A query costs one DRAM access, so many queries must be in flight. Keys are started in groups: their blocks are
 * prefetched AHEAD groups before they are tested. Nothing branches on an answer. With CPU_FILTER_HAS_PAIRS
 * (cpu_filter_neon.h) two keys are tested together, and the keys of a later group are started in between, pair by pair.
 * With CPU_FILTER_HAS_FOURS (cpu_filter_avx2.h) the blocks of four keys are found together, and prefetched one by one
 * between the tests of four others. Otherwise a group is started as a whole; cpu_open_simd.h gives the reason.
 *
 * Measured by trial programs on two cores of a Neoverse N1: 8 bits set, 16 bits a key, 2^24 to 2^26 queries, best of
 * several runs. docs/performance.md has the benchmark's numbers. Millions of queries per second:
 *                                                      268 MB       32 MB        in the caches
 *     shifted words, groups of 8, two ahead            100 to 107   133          202
 *     the same, other groups and distances             76 to 104
 *     masks by vectors                                 88                        139
 *     pairs, prefetched into the L1 cache              132 to 138   188 to 191   417
 *     the same into the L2 cache                       143 to 145   215 to 218   417
 *     the limit of reads (prefetches into L1)          137 to 139   193 to 200
 * One, two, three and four groups ahead, in 268 MB: 128, 137, 140, 142. If gcc may move prefetches together, pairs
 * (into L1) reach 129 to 138, 173 to 177 and 386. Keys and answers cost nothing: queries were no faster with both in
 * the caches. In a trial, prefetches into L2 also sped up the loop that measures the limit: 143 and 220. The reason is
 * not known; that machine has no hardware counters.
 *
 * The same on two cores of a Skylake Xeon with AVX2, 2026-11-19, medians of three to five interleaved runs; in the
 * caches on one core:
 *                                                      268 MB       32 MB        in the caches   12 bits, in the caches
 *     shifted words, groups of 8, two ahead            107          135          133             100
 *     fours into the L1 cache, 2, 3 and 4 groups ahead 138 143 147  187 188 199  282             190
 *     fours into the L2 cache, 3, 4 and 6              135 139 140  186 193 197  276
 *     4 ahead, and arrays (cpu_arrays.h)               157          223          260
 *     the limit of reads (docs/performance.md)         173
 *
 * Queries may overlap insertions: each word of a block is read once, by a load that does not tear. The thread sanitizer
 * does not know that a vector load equals several loads. In its builds, lines are therefore copied word by word
 * first. */
#include "core/lanes.h"
#include "engines/filter/filter_ops.h"
#include "machines/cpu/core/cpu_arrays.h"
#include "machines/cpu/filter/cpu_filter.h"

enum {
    GROUP = 8, /* keys started together, or between the tests of eight others */
#if defined(CPU_FILTER_HAS_PAIRS)
    AHEAD = 3,    /* groups between prefetch and test */
    RING = 4,     /* groups; a power of two above AHEAD */
    LOCALITY = 2, /* prefetches into the L2 cache */
#elif defined(CPU_FILTER_HAS_FOURS)
    AHEAD = 4,
    RING = 8,
    LOCALITY = 3,
#else
    AHEAD = 2,
    RING = 4,
    LOCALITY = 3,
#endif
    WRITE_AHEAD = 16, /* keys between prefetch and setting bits */
    WRITE_RING = 32,  /* a power of two above WRITE_AHEAD */
    LISTED = 32,      /* keys inserted in order that are prefetched together */
#ifdef LANE_HAS_FENCES
    COPIED = 0
#else
    COPIED = 1
#endif
};

static const lane_group whole_group;

LOOM_LANE uint64_t key_at(uint32_t key_bytes, const void *keys, uint64_t index)
{
    return key_bytes == 4 ? ((const uint32_t *)keys)[index] : ((const uint64_t *)keys)[index];
}

/* A key that was started: its block is prefetched. */
typedef struct sought {
    unsigned char *block;
    uint32_t lower;
} sought;

LOOM_LANE sought start(const loom__filter_view *view, uint32_t key_bytes, const void *keys, uint64_t index)
{
    const filter_key key = filter_start(view, key_bytes, key_at(key_bytes, keys, index));
    return (sought){filter_block(view, key.block), key.lower};
}

LOOM_LANE sought start_to_write(const loom__filter_view *view, uint32_t key_bytes, const void *keys, uint64_t index)
{
    const sought one = start(view, key_bytes, keys, index);
    lane_prefetch_to_write(one.block);
    return one;
}

LOOM_LANE sought start_to_look(const loom__filter_view *view, uint32_t key_bytes, const void *keys, uint64_t index)
{
    const sought one = start(view, key_bytes, keys, index);
    __builtin_prefetch(one.block, 0, LOCALITY);
    return one;
}

LOOM_LANE uint8_t look(uint32_t each, const sought *one)
{
    lane_line line;
    lane_take(whole_group, &line, one->block, COPIED, 1, FILTER_BLOCK_BYTES);
    return (uint8_t)filter_look(each, whole_group, &line, one->lower);
}

/* Tests the keys of `group` and, with `starting`, starts the group that begins at key `next`. Returns how many keys of
 * `group` may be present. */
#if defined(CPU_FILTER_HAS_PAIRS)

LOOM_LANE void turn_pair(uint32_t key_bytes, uint32_t each, int starting, const loom__filter_view *view,
                         const void *keys, uint64_t next, const sought group[GROUP], sought started[GROUP],
                         uint32_t pair, filter_pair *missing)
{
    lane_line lines[2];
    for (uint32_t i = 2 * pair; starting && i < 2 * pair + 2; i++) {
        started[i] = start_to_look(view, key_bytes, keys, next + i);
        __asm__ volatile("" ::: "memory"); /* keeps the compiler from moving prefetches together */
    }
    for (uint32_t i = 0; i < 2; i++)
        lane_take(whole_group, &lines[i], group[2 * pair + i].block, COPIED, 1, FILTER_BLOCK_BYTES);
    const unsigned char *const at[2] = {lines[0].at, lines[1].at};
    const uint32_t lower[2] = {group[2 * pair].lower, group[2 * pair + 1].lower};
    *missing = filter_missing_of_pair(each, at, lower);
}

LOOM_LANE uint64_t turn(uint32_t key_bytes, uint32_t each, int starting, const loom__filter_view *view,
                        const void *keys, uint64_t next, const sought group[GROUP], sought started[GROUP],
                        uint8_t answers[GROUP])
{
    filter_pair missing[GROUP / 2];
    /* Not a loop: gcc would not unroll it. In the caches a loop does 338 M queries a second, this code 389, both
     * without the barrier. */
    turn_pair(key_bytes, each, starting, view, keys, next, group, started, 0, &missing[0]);
    turn_pair(key_bytes, each, starting, view, keys, next, group, started, 1, &missing[1]);
    turn_pair(key_bytes, each, starting, view, keys, next, group, started, 2, &missing[2]);
    turn_pair(key_bytes, each, starting, view, keys, next, group, started, 3, &missing[3]);
    return filter_answer_pairs(missing, answers);
}

#elif defined(CPU_FILTER_HAS_FOURS)

/* Starts four keys, from key `next` on, without prefetches. */
LOOM_LANE void start_four(uint32_t key_bytes, const loom__filter_view *view, const void *keys, uint64_t next,
                          sought started[4])
{
    __m256i block, hash;
    filter_start_four(view, key_bytes, (const unsigned char *)keys + next * key_bytes, &block, &hash);
    const __m256i even = _mm256_unpacklo_epi64(block, hash), odd = _mm256_unpackhi_epi64(block, hash);
    _mm_storeu_si128((__m128i *)(void *)&started[0], _mm256_castsi256_si128(even));
    _mm_storeu_si128((__m128i *)(void *)&started[1], _mm256_castsi256_si128(odd));
    _mm_storeu_si128((__m128i *)(void *)&started[2], _mm256_extracti128_si256(even, 1));
    _mm_storeu_si128((__m128i *)(void *)&started[3], _mm256_extracti128_si256(odd, 1));
}

_Static_assert(sizeof(sought) == 16 && offsetof(sought, lower) == 8, "an address and a hash");

LOOM_LANE uint64_t turn_four(uint32_t each, const sought group[4], const sought *started, uint8_t answers[4])
{
    __m256i there[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++) {
        lane_line line;
        if (started != NULL) {
            __builtin_prefetch(started[i].block, 0, LOCALITY);
            __asm__ volatile("" ::: "memory"); /* keeps the compiler from moving prefetches together */
        }
        lane_take(whole_group, &line, group[i].block, COPIED, 1, FILTER_BLOCK_BYTES);
        there[i] = filter_there(each, line.at, group[i].lower);
    }
    return filter_answer_four(there, answers);
}

LOOM_LANE uint64_t turn(uint32_t key_bytes, uint32_t each, int starting, const loom__filter_view *view,
                        const void *keys, uint64_t next, const sought group[GROUP], sought started[GROUP],
                        uint8_t answers[GROUP])
{
    uint64_t count = 0;
    for (uint32_t at = 0; at < GROUP; at += 4) {
        if (starting)
            start_four(key_bytes, view, keys, next + at, started + at);
        count += turn_four(each, group + at, starting ? started + at : NULL, answers + at);
    }
    return count;
}

#else

LOOM_LANE uint64_t turn(uint32_t key_bytes, uint32_t each, int starting, const loom__filter_view *view,
                        const void *keys, uint64_t next, const sought group[GROUP], sought started[GROUP],
                        uint8_t answers[GROUP])
{
    uint64_t count = 0;
    for (uint32_t i = 0; starting && i < GROUP; i++)
        started[i] = start_to_look(view, key_bytes, keys, next + i);
    for (uint32_t i = 0; i < GROUP; i++)
        count += answers[i] = look(each, &group[i]);
    return count;
}

#endif

LOOM_LANE uint64_t contains_range(uint32_t key_bytes, uint32_t each, const loom__filter_view *given, const void *keys,
                                  uint8_t *found, uint64_t begin, uint64_t end)
{
    const loom__filter_view view = *given; /* a copy in registers: stores to the output cannot alias it */
    const uint64_t groups = (end - begin) / GROUP, rest = begin + groups * GROUP;
    sought ring[RING][GROUP];
    uint8_t unasked[GROUP];
    uint64_t count = 0;
    for (uint64_t i = 0; i < groups * GROUP && i < AHEAD * GROUP; i++)
        ring[i / GROUP][i % GROUP] = start_to_look(&view, key_bytes, keys, begin + i);
    for (uint64_t i = 0; i < groups; i++) {
        const uint64_t at = begin + i * GROUP;
        uint8_t *answers = found != NULL ? found + at : unasked;
        const sought *group = ring[i % RING];
        sought *started = ring[(i + AHEAD) % RING];
        if (ARRAYS_AHEAD > 0 && at + ARRAYS_AHEAD < end) {
            prefetch_to_read(keys, at + ARRAYS_AHEAD, key_bytes);
            prefetch_to_write(found, at + ARRAYS_AHEAD, 1);
        }
        if (i + AHEAD < groups)
            count += turn(key_bytes, each, 1, &view, keys, at + AHEAD * GROUP, group, started, answers);
        else
            count += turn(key_bytes, each, 0, &view, keys, 0, group, NULL, answers);
    }
    for (uint64_t i = rest; i < end; i++) /* fewer than GROUP */
        ring[0][i - rest] = start_to_look(&view, key_bytes, keys, i);
    for (uint64_t i = rest; i < end; i++) {
        const uint8_t there = look(each, &ring[0][i - rest]);
        if (found != NULL)
            found[i] = there;
        count += there;
    }
    return count;
}

/* Unless `added` is NULL, tells there which keys were new, and returns their number. Otherwise returns 0. */
LOOM_LANE uint64_t insert_range(uint32_t key_bytes, uint32_t each, int shared, const loom__filter_view *given,
                                const void *keys, uint8_t *added, uint64_t begin, uint64_t end)
{
    const loom__filter_view view = *given;
    sought ring[WRITE_RING];
    uint64_t next = begin, count = 0;
    for (; next < end && next < begin + WRITE_AHEAD; next++)
        ring[next % WRITE_RING] = start_to_write(&view, key_bytes, keys, next);
    for (uint64_t i = begin; i < end; i++, next++) {
        if (next < end)
            ring[next % WRITE_RING] = start_to_write(&view, key_bytes, keys, next);
        const sought *one = &ring[i % WRITE_RING];
        if (added != NULL)
            count += added[i] = (uint8_t)filter_add(each, whole_group, one->block, one->lower);
        else
            filter_set(each, shared, whole_group, one->block, one->lower);
    }
    return count;
}

/* Inserts the listed keys one after the other. rows[i] is the place of listed key i in `added`. */
LOOM_LANE uint64_t add_listed(uint32_t each, const sought *list, const uint64_t *rows, uint32_t listed, uint8_t *added)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < listed; i++)
        lane_prefetch_to_write(list[i].block);
    for (uint32_t i = 0; i < listed; i++)
        count += added[rows[i]] = (uint8_t)filter_add(each, whole_group, list[i].block, list[i].lower);
    return count;
}

/* Returns how many keys belong to blocks first .. end - 1, and the number of new ones in *ok. Reads the whole batch:
 * hashing a key costs much less than fetching its block, and the call needs no memory. */
LOOM_LANE uint64_t add_range_in_order(uint32_t key_bytes, uint32_t each, const loom__filter_view *given,
                                      const loom__batch *batch, uint32_t first, uint32_t end, uint64_t *ok)
{
    const loom__filter_view view = *given;
    const void *keys = batch->keys;
    uint8_t *added = batch->added;
    const uint64_t n = batch->n;
    sought list[LISTED];
    uint64_t rows[LISTED], all = 0;
    uint32_t listed = 0;
    *ok = 0;
    for (uint64_t i = 0; i < n; i++) {
        const filter_key key = filter_start(&view, key_bytes, key_at(key_bytes, keys, i));
        list[listed] = (sought){filter_block(&view, key.block), key.lower};
        rows[listed] = i;
        listed += key.block - first < end - first; /* if not, the next key takes its place; no branch to mispredict */
        if (listed == LISTED || i + 1 == n) {
            *ok += add_listed(each, list, rows, listed, added);
            all += listed;
            listed = 0;
        }
    }
    return all;
}

/* Runs keys of other widths than 4 and 8 bytes through `run`, by their stand-ins. Each piece of them fills and drains
 * the ring. */
static void run_stand_ins(loom__cpu_range *run, const loom__filter_view *view, const loom__batch *batch, uint64_t begin,
                          uint64_t end, int shared, loom__cpu_counts *counts)
{
    loom__cpu_stand_ins some;
    for (uint64_t at = begin; at < end; at += some.batch.n) {
        loom__cpu_take_stand_ins(view, batch, at, end, &some);
        run(&some.view, &some.batch, 0, some.batch.n, shared, counts);
    }
}

static void contains(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                     loom__cpu_counts *counts)
{
    const loom__filter_view *view = any_view;
    loom__cpu_counts own = {0};
    if (filter_has_stand_ins(view->key_bytes)) {
        run_stand_ins(contains, view, batch, begin, end, shared, counts);
        return;
    }
#define CALL(key_bytes, each) own.ok = contains_range(key_bytes, each, view, batch->keys, batch->found, begin, end)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
    own.not_found = end - begin - own.ok;
    loom__cpu_add_counts(counts, &own);
}

/* Without batch->by_partition, other calls may insert at the same time. */
static void insert(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                   loom__cpu_counts *counts)
{
    const loom__filter_view *view = any_view;
    const int owns = batch->by_partition && !shared;
    loom__cpu_counts own = {0};
    if (filter_has_stand_ins(view->key_bytes)) {
        run_stand_ins(insert, view, batch, begin, end, shared, counts);
        return;
    }
#define CALL(key_bytes, each)                                                                                     \
    own.ok = batch->added != NULL ? insert_range(key_bytes, each, 1, view, batch->keys, batch->added, begin, end) \
             : owns               ? insert_range(key_bytes, each, 0, view, batch->keys, NULL, begin, end)         \
                                  : insert_range(key_bytes, each, 1, view, batch->keys, NULL, begin, end)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
    if (batch->added == NULL)
        return;
    own.exists = end - begin - own.ok;
    loom__cpu_add_counts(counts, &own);
}

static void add_in_order(const loom__filter_view *view, const loom__batch *batch, uint32_t first, uint32_t end,
                         loom__cpu_counts *counts)
{
    loom__cpu_counts own = {0};
    uint64_t all = 0;
    if (filter_has_stand_ins(view->key_bytes)) {
        loom__cpu_stand_ins some;
        for (uint64_t at = 0; at < batch->n; at += some.batch.n) {
            loom__cpu_take_stand_ins(view, batch, at, batch->n, &some);
            add_in_order(&some.view, &some.batch, first, end, counts);
        }
        return;
    }
#define CALL(key_bytes, each) all = add_range_in_order(key_bytes, each, view, batch, first, end, &own.ok)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
    own.exists = all - own.ok;
    loom__cpu_add_counts(counts, &own);
}

/* Insertions may run at the same time: each word is read once. */
static void survey(const loom__filter_view *view, uint64_t partition, loom__filter_survey *told)
{
    const uint32_t blocks = filter_partition_blocks(view->blocks);
    uint64_t words[FILTER_BLOCK_WORDS];
    loom__filter_survey own = {0};
    for (uint32_t i = 0; i < blocks; i++) {
        const uint64_t *at = (const uint64_t *)filter_block(view, (uint32_t)partition * blocks + i);
        for (int word = 0; word < FILTER_BLOCK_WORDS; word++)
            words[word] = lane_load_8(at + word);
        own.false_positive_rate += filter_survey_block(view->each, words, &own.bits_set);
    }
    *told = own;
}

const loom__cpu_filter_simd CPU_FILTER_SIMD_TABLE = {contains, insert, add_in_order, survey};
