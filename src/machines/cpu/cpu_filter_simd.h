/* Ranges of keys through filter_ops.h, for one kind of SIMD. The including file sets LOOM_LANES_HEADER and
 * CPU_FILTER_SIMD_TABLE.
 *
 * A query costs one DRAM access, so many must be under way at once: keys are started in groups, and their blocks prefetched,
 * AHEAD groups before they are looked at (cpu_open_simd.h tells why in groups). Nothing branches on an answer.
 *
 * Measured on two cores of a Neoverse N1, 2^27 keys, 8 bits set, a filter of 268 MB, 2^24 queries (a trial program; docs/performance.md
 * has the benchmark's, 0.66 of the limit of reads): 100 M queries a second; in the caches 202. Masks by vectors instead of shifted words: 88 and 139. Groups of 4, 8 and 16, one to six of them
 * ahead: 79 to 93, 83 to 100, 76 to 85; prefetches of a group behind all its hashes: no difference with 8, 104 with 12, 80 with
 * 16. What is left is what lookups in tables wait for there, too: page walks, of which five overlap in the limit's loop, whose reads stand
 * 25 instructions apart.
 *
 * Queries may run beside insertions: each word of a block is read once, by a load that does not tear. The thread sanitizer
 * does not know that a vector load is several such loads, so there lines are copied word by word first. */
#include "core/lanes.h"
#include "engines/filter/filter_ops.h"
#include "machines/cpu/cpu_filter.h"

enum {
    GROUP = 8,        /* keys started together */
    AHEAD = 2,        /* groups between prefetch and look */
    RING = 4,         /* groups; a power of two above AHEAD */
    WRITE_AHEAD = 16, /* keys between prefetch and setting bits */
    WRITE_RING = 32,  /* a power of two above that */
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

/* A key on its way. */
typedef struct sought {
    unsigned char *block;
    uint32_t lower;
} sought;

LOOM_LANE sought start(const loom__filter_view *view, uint32_t key_bytes, const void *keys, uint64_t index, int writes)
{
    const filter_key key = filter_start(view, key_bytes, key_at(key_bytes, keys, index));
    const sought one = {filter_block(view, key.block), key.lower};
    if (writes)
        lane_prefetch_to_write(one.block);
    else
        lane_prefetch(one.block);
    return one;
}

LOOM_LANE void start_group(const loom__filter_view *view, uint32_t key_bytes, const void *keys, uint64_t first,
                           uint64_t end, sought ring[RING][GROUP])
{
    sought *group = ring[first / GROUP % RING];
    if (end >= first + GROUP) /* nearly always, and then the count is literal */
        for (uint32_t i = 0; i < GROUP; i++)
            group[i] = start(view, key_bytes, keys, first + i, 0);
    else
        for (uint32_t i = 0; first + i < end; i++)
            group[i] = start(view, key_bytes, keys, first + i, 0);
}

LOOM_LANE uint64_t look(uint32_t each, const sought *one)
{
    lane_line line;
    lane_take(whole_group, &line, one->block, COPIED, 1, FILTER_BLOCK_BYTES);
    return filter_look(each, whole_group, &line, one->lower);
}

/* `begin` is a multiple of GROUP. */
LOOM_LANE uint64_t contains_range(uint32_t key_bytes, uint32_t each, const loom__filter_view *given, const void *keys,
                                  uint8_t *found, uint64_t begin, uint64_t end)
{
    const loom__filter_view view = *given; /* in registers: the output cannot alias it */
    sought ring[RING][GROUP];
    uint64_t count = 0, next = begin;
    for (; next < end && next < begin + AHEAD * GROUP; next += GROUP)
        start_group(&view, key_bytes, keys, next, end, ring);
    for (uint64_t first = begin; first < end; first += GROUP, next += GROUP) {
        const sought *group = ring[first / GROUP % RING];
        if (next < end)
            start_group(&view, key_bytes, keys, next, end, ring);
        for (uint32_t i = 0; i < GROUP && first + i < end; i++) {
            const uint64_t there = look(each, &group[i]);
            if (found != NULL)
                found[first + i] = (uint8_t)there;
            count += there;
        }
    }
    return count;
}

LOOM_LANE void insert_range(uint32_t key_bytes, uint32_t each, int shared, const loom__filter_view *given,
                            const void *keys, uint64_t begin, uint64_t end)
{
    const loom__filter_view view = *given;
    sought ring[WRITE_RING];
    uint64_t next = begin;
    for (; next < end && next < begin + WRITE_AHEAD; next++)
        ring[next % WRITE_RING] = start(&view, key_bytes, keys, next, 1);
    for (uint64_t i = begin; i < end; i++, next++) {
        if (next < end)
            ring[next % WRITE_RING] = start(&view, key_bytes, keys, next, 1);
        filter_set(each, shared, whole_group, ring[i % WRITE_RING].block, ring[i % WRITE_RING].lower);
    }
}

static uint64_t contains(const loom__filter_view *view, const void *keys, uint8_t *found, uint64_t begin, uint64_t end)
{
    uint64_t count = 0;
#define CALL(key_bytes, each) count = contains_range(key_bytes, each, view, keys, found, begin, end)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
    return count;
}

static void insert(const loom__filter_view *view, const void *keys, uint64_t begin, uint64_t end, int shared)
{
#define CALL(key_bytes, each)                                         \
    shared ? insert_range(key_bytes, each, 1, view, keys, begin, end) \
           : insert_range(key_bytes, each, 0, view, keys, begin, end)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
}

/* Insertions may be at work: words are read as they are, once. */
static void survey(const loom__filter_view *view, uint64_t partition, loom__filter_survey *told)
{
    const uint64_t first = partition * FILTER_PARTITION_BLOCKS, left = view->blocks - first;
    const uint64_t blocks = left < FILTER_PARTITION_BLOCKS ? left : FILTER_PARTITION_BLOCKS;
    filter_sums sums = {0, 0};
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t words[FILTER_BLOCK_WORDS];
        const uint64_t *at = (const uint64_t *)filter_block(view, (uint32_t)(first + i));
        for (int word = 0; word < FILTER_BLOCK_WORDS; word++)
            words[word] = lane_load_8(at + word);
        filter_survey_block(view->each, words, &sums);
    }
    told->bits_set = sums.bits;
    told->false_positive_rate = sums.rate;
}

const loom__cpu_filter_simd CPU_FILTER_SIMD_TABLE = {contains, insert, survey};
