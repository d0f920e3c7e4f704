/* Copies pairs out of a table of any engine, in the sequence of its slots. Threads first count the pairs of each
 * segment of buckets, then copy the segments. */
#include "machines/cpu/core/cpu_retrieve.h"

enum { SEGMENT = 256, WINDOW = 512 /* segments counted at once; their counts are on the stack */ };

typedef struct retrieve_work {
    const loom__table_slots *table;
    loom__position from;
    uint64_t buckets; /* buckets in the table */
    unsigned char *keys, *values;
    uint64_t counts[WINDOW]; /* pairs in each segment; then where the segment's first pair goes */
} retrieve_work;

/* Copies the pairs of one bucket from slot `first` on, at most `room`, to position `at` of the arrays. Without arrays
 * it only counts. *copied is the number of pairs. Returns the slot at which it stopped. */
static uint32_t copy_bucket(const retrieve_work *work, uint64_t bucket, uint32_t first, uint64_t at, uint64_t room,
                            uint64_t *copied)
{
    const loom__table_slots *table = work->table;
    const uint64_t key_bytes = loom__slots_key_bytes(table), value_bytes = loom__slots_value_bytes(table);
    const uint32_t partition = (uint32_t)(bucket / table->buckets), in_partition = (uint32_t)(bucket % table->buckets);
    const int rows = loom__slots_have_rows(table);
    uint32_t slot = first;
    uint64_t done = 0, key, value;
    for (; slot < table->slots; slot++) {
        if (!loom__slot_holds(table, partition, in_partition, slot, &key, &value))
            continue;
        if (done == room)
            break;
        const unsigned char *from_key = (const unsigned char *)&key, *from_value = (const unsigned char *)&value;
        if (rows) {
            const unsigned char *row = table->base + loom__slot_row(table, partition, in_partition, slot);
            from_key = table->row_key_bytes != 0 ? row : from_key;
            from_value = row + table->row_key_bytes;
        }
        if (work->keys != NULL)
            memcpy(work->keys + (at + done) * key_bytes, from_key, key_bytes);
        if (work->values != NULL)
            memcpy(work->values + (at + done) * value_bytes, from_value, value_bytes);
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
    retrieve_work counting = {.table = work->table, .from = work->from, .buckets = work->buckets};
    work->counts[segment] = walk_segment(&counting, segment, 0);
}

static void copy_segment(void *argument, uint64_t segment)
{
    retrieve_work *work = argument;
    walk_segment(work, segment, work->counts[segment]);
}

void loom__cpu_retrieve(loom__pool *pool, const loom__table_slots *table, loom__position *position, void *keys,
                        void *values, uint64_t room, uint64_t *got)
{
    retrieve_work work = {.table = table, .from = *position, .keys = keys, .values = values};
    work.buckets = (uint64_t)table->partitions * table->buckets;
    uint64_t done = 0, slots = table->slots;
    int out_of_room = 0;
    while (work.from.bucket < work.buckets && done < room && !out_of_room) { /* each round passes a segment or ends */
        uint64_t left = work.buckets - work.from.bucket, segments = (left + SEGMENT - 1) / SEGMENT;
        uint64_t useful = (room - done) / slots / SEGMENT * 2 + 1; /* avoids counting many segments that do not fit */
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
    /* Part of a segment still fits: copies bucket by bucket, until the room is used. */
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
}
