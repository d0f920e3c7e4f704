/* What reads or writes whole tables, bucket after bucket: clear, retrieve, survey. */
#define LOOM_LANES_HEADER "machines/cpu/cpu_lanes_scalar.h"
#include "engines/open/open_survey.h"
#include "engines/open/open_upkeep.h"
#include "machines/cpu/cpu_open.h"

#include <string.h>

/* ---- clear ---- */

void loom__cpu_open_clear_partition(const loom__open_view *view, uint64_t partition)
{
    loom__slot_kind kind = (loom__slot_kind)view->kind;
    uint64_t empty = open_empty(view, (uint32_t)partition);
    uint64_t pattern = slot_stride(kind) == 4 ? empty << 32 | empty : empty;
    unsigned char *base = view->base + partition * view->partition_bytes;
    uint64_t lines_end = (uint64_t)view->buckets * open_line_stride(kind);
    for (uint32_t bucket = 0; bucket < view->buckets; bucket++) {
        unsigned char *line = base + (uint64_t)bucket * open_line_stride(kind);
        for (int word = 0; word < 7; word++)
            memcpy(line + 8 * word, &pattern, 8);
        memset(line + OPEN_WORD_OFFSET, 0, open_line_stride(kind) - OPEN_WORD_OFFSET);
    }
    memset(base + lines_end, 0, view->partition_bytes - lines_end);
    view->marks[partition] = OPEN_UNMARKED;
    view->stale[partition] = 0;
    view->retired_slots[partition] = 0;
}

loom_status loom__cpu_open_reset_totals(loom__machine *machine, const loom__open_view *view,
                                        const loom__open_totals *totals, loom_stream stream)
{
    (void)machine;
    (void)stream;
    *view->totals = *totals;
    memset(view->marks, OPEN_UNMARKED, view->partitions * sizeof *view->marks);
    memset(view->stale, 0, view->partitions * sizeof *view->stale);
    memset(view->retired_slots, 0, view->partitions * sizeof *view->retired_slots);
    return LOOM_OK;
}

static void clear_task(void *argument, uint64_t partition)
{
    loom__cpu_open_clear_partition(argument, partition);
}

loom_status loom__cpu_open_clear(loom__machine *machine, const loom__open_view *view, loom_stream stream)
{
    (void)stream;
    loom__open_view copy = *view;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view->partitions, clear_task, &copy);
    view->totals->size = 0;
    return LOOM_OK;
}

/* ---- retrieve ---- */

enum { SEGMENT = 256, WINDOW = 512 /* segments counted at once; their counts stand on the stack */ };

typedef struct retrieve_work {
    const loom__open_view *view;
    loom__position from;
    uint64_t buckets; /* in the table */
    unsigned char *keys, *values;
    uint64_t counts[WINDOW]; /* pairs in each segment; then where the segment's first pair goes */
} retrieve_work;

/* Copies the pairs of one bucket from slot `first` on, at most `room`; returns the slot after the last one looked at.
 * With keys == NULL it only counts. */
static uint32_t copy_bucket(const retrieve_work *work, uint64_t bucket, uint32_t first, uint64_t at, uint64_t room,
                            uint64_t *copied)
{
    const loom__open_view *view = work->view;
    loom__slot_kind kind = (loom__slot_kind)view->kind;
    open_bucket one =
        open_bucket_of(kind, view, (uint32_t)(bucket / view->buckets), (uint32_t)(bucket % view->buckets));
    uint32_t key_bytes = slot_key_bytes(kind), value_bytes = slot_value_bytes(kind), slot = first;
    uint64_t done = 0;
    for (; slot < open_slots(kind); slot++) {
        uint64_t key = open_bucket_key(kind, &one, slot);
        if (key == one.empty)
            continue;
        if (done == room)
            break;
        if (work->keys != NULL)
            memcpy(work->keys + (at + done) * key_bytes, &key, key_bytes);
        uint64_t value = open_bucket_value(kind, &one, slot);
        if (work->values != NULL)
            memcpy(work->values + (at + done) * value_bytes, &value, value_bytes);
        done++;
    }
    *copied = done;
    return slot;
}

static uint64_t walk_segment(const retrieve_work *work, uint64_t segment, uint64_t at)
{
    uint64_t begin = work->from.bucket + segment * SEGMENT, total = 0, copied;
    for (uint64_t bucket = begin; bucket < begin + SEGMENT && bucket < work->buckets; bucket++) {
        uint32_t first = bucket == work->from.bucket ? work->from.slot : 0;
        copy_bucket(work, bucket, first, at + total, UINT64_MAX, &copied);
        total += copied;
    }
    return total;
}

static void count_segment(void *argument, uint64_t segment)
{
    retrieve_work *work = argument;
    retrieve_work counting = {.view = work->view, .from = work->from, .buckets = work->buckets};
    work->counts[segment] = walk_segment(&counting, segment, 0);
}

static void copy_segment(void *argument, uint64_t segment)
{
    retrieve_work *work = argument;
    walk_segment(work, segment, work->counts[segment]);
}

loom_status loom__cpu_open_retrieve(loom__machine *machine, const loom__open_view *view, loom__position *position,
                                    void *keys, void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    (void)stream;
    loom__pool *pool = ((loom__cpu_machine_state *)machine)->pool;
    retrieve_work work = {.view = view, .from = *position, .keys = keys, .values = values};
    work.buckets = (uint64_t)view->partitions * view->buckets;
    uint64_t done = 0, slots = open_slots((loom__slot_kind)view->kind);
    int out_of_room = 0;
    while (work.from.bucket < work.buckets && done < room && !out_of_room) { /* each round passes a segment or ends */
        uint64_t left = work.buckets - work.from.bucket, segments = (left + SEGMENT - 1) / SEGMENT;
        uint64_t useful = (room - done) / slots / SEGMENT * 2 + 1; /* do not count far beyond what fits */
        segments = segments < WINDOW ? segments : WINDOW;
        segments = segments < useful ? segments : useful;
        loom__pool_run(pool, segments, count_segment, &work);
        uint64_t whole = 0, at = done;
        while (whole < segments && work.counts[whole] <= room - at) {
            uint64_t count = work.counts[whole];
            work.counts[whole++] = at;
            at += count;
        }
        loom__pool_run(pool, whole, copy_segment, &work);
        done = at;
        out_of_room = whole < segments;
        work.from.bucket += whole * SEGMENT;
        if (whole > 0)
            work.from.slot = 0;
    }
    /* Part of a segment: bucket by bucket, until the room is used. */
    while (work.from.bucket < work.buckets && done < room) {
        uint64_t copied;
        work.from.slot = copy_bucket(&work, work.from.bucket, work.from.slot, done, room - done, &copied);
        done += copied;
        if (work.from.slot == slots) {
            work.from.bucket++;
            work.from.slot = 0;
        }
    }
    *position = work.from;
    *got = done;
    return LOOM_OK;
}

/* ---- survey ---- */

typedef struct survey_work {
    const loom__cpu_open_simd *simd;
    const loom__open_view *view;
    open_sums sums;
} survey_work;

/* Ends: a swap fails only when somebody else made *field larger. */
static void keep_larger(uint64_t *field, uint64_t mine)
{
    uint64_t seen = __atomic_load_n(field, __ATOMIC_RELAXED);
    while (mine > seen && !__atomic_compare_exchange_n(field, &seen, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static void survey_partition(void *argument, uint64_t partition)
{
    survey_work *work = argument;
    open_sums own = {0}, *total = &work->sums;
    work->simd->survey_partition(work->view, (uint32_t)partition, &own);
    __atomic_fetch_add(&total->size, own.size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->accesses, own.accesses, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->displaced, own.displaced, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->filter_bits, own.filter_bits, __ATOMIC_RELAXED);
    keep_larger(&total->fullest, own.size);
    keep_larger(&total->longest, own.longest);
    keep_larger(&total->lowest_bad_inverted, own.lowest_bad_inverted);
}

loom_status loom__cpu_open_survey(loom__machine *machine, const loom__open_view *view, loom__survey *survey,
                                  loom_stream stream)
{
    (void)stream;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    survey_work work = {.simd = cpu->open_simd, .view = view};
    loom__pool_run(cpu->pool, view->partitions, survey_partition, &work);
    *survey = open_survey_of(view, &work.sums);
    return LOOM_OK;
}
