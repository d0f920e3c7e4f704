/* Copies pairs out of a table of any engine, in the sequence of its slots. Threads first count the pairs of each
 * segment of buckets, then copy the segments. */
#include "machines/cpu/core/cpu_retrieve.h"
#include "engines/open/open_rows.h"
#include "machines/cpu/core/cpu_lists.h"

enum { SEGMENT = 256, WINDOW = 512 /* segments counted at once; their counts are on the stack */ };

typedef struct retrieve_work {
    const loom__table_slots *table;
    loom__position from;
    uint64_t buckets; /* buckets in the table */
    unsigned char *keys, *values;
    uint64_t counts[WINDOW]; /* pairs in each segment; then where the segment's first pair goes */
} retrieve_work;

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Copies a key or a value to position `at` of an array. With a heap it is a string, and the array gets a reference. */
static void copy_column(unsigned char *array, uint64_t at, const unsigned char *from, uint64_t bytes,
                        const unsigned char *heap)
{
    open_stored stored;
    if (array == NULL)
        return;
    if (heap == NULL) {
        memcpy(array + at * bytes, from, bytes);
        return;
    }
    memcpy(&stored, from, sizeof stored);
    const loom__string string = {(uint64_t)(uintptr_t)(heap + stored.at), stored.length};
    memcpy(array + at * bytes, &string, bytes);
}

/* Copies the pair of a slot that holds a key to position `at` of the arrays. */
static void copy_pair(const retrieve_work *work, const loom__position *slot, uint64_t key, uint64_t value, uint64_t at)
{
    const loom__table_slots *table = work->table;
    const uint64_t key_bytes = loom__slots_key_bytes(table), value_bytes = loom__slots_value_bytes(table);
    const unsigned char *from_key = (const unsigned char *)&key, *from_value = (const unsigned char *)&value;
    if (loom__slots_have_rows(table)) {
        const uint64_t row = slot->bucket * table->slots + slot->slot;
        from_key = table->row_key_bytes != 0 ? table->rows + row * table->row_key_stride : from_key;
        from_value = table->row_values + row * table->row_value_stride;
    }
    copy_column(work->keys, at, from_key, key_bytes, table->row_variable & LOOM__VARIABLE_KEYS ? table->heap : NULL);
    copy_column(work->values, at, from_value, value_bytes,
                table->row_variable & LOOM__VARIABLE_VALUES ? table->heap : NULL);
}

/* The same for `count` pairs of a key with a list, from its value `first` on. */
static void copy_list(const retrieve_work *work, const loom__position *slot, uint64_t number, uint64_t handle,
                      uint64_t first, uint64_t count, uint64_t at)
{
    const loom__table_slots *table = work->table;
    const unsigned char *key = (const unsigned char *)&number;
    if (loom__slots_have_handles_in_rows(table))
        key = loom__slot_row_key(table, (uint32_t)(slot->bucket / table->buckets),
                                 (uint32_t)(slot->bucket % table->buckets), slot->slot);
    const uint64_t key_bytes = loom__slots_key_bytes(table), value_bytes = table->list_value_bytes;
    for (uint64_t i = 0; i < count && work->keys != NULL; i++)
        memcpy(work->keys + (at + i) * key_bytes, key, key_bytes);
    if (work->values != NULL && count > 0)
        loom__cpu_copy_list(table->heap, value_bytes, handle, first, count, work->values + at * value_bytes);
}

/* Copies the pairs of one bucket from position *from on, at most `room`, to position `at` of the arrays. Without arrays
 * it only counts. Returns the number of pairs, and moves *from behind the last of them. */
static uint64_t copy_bucket(const retrieve_work *work, loom__position *from, uint64_t at, uint64_t room)
{
    const loom__table_slots *table = work->table;
    const uint32_t partition = (uint32_t)(from->bucket / table->buckets);
    const uint32_t in_partition = (uint32_t)(from->bucket % table->buckets);
    uint64_t done = 0, key, value;
    for (; from->slot < table->slots; from->slot++, from->value = 0) {
        if (!loom__slot_holds(table, partition, in_partition, from->slot, &key, &value))
            continue;
        const uint64_t there = table->list_value_bytes > 0 ? list_count(value) : 1;
        const uint64_t left = from->value < there ? there - from->value : 0, count = at_most(left, room - done);
        if (table->list_value_bytes > 0)
            copy_list(work, from, key, value, from->value, count, at + done);
        else if (count > 0)
            copy_pair(work, from, key, value, at + done);
        done += count;
        if (count < left) {
            from->value += count;
            return done;
        }
    }
    from->bucket++;
    from->slot = 0;
    return done;
}

static uint64_t walk_segment(const retrieve_work *work, uint64_t segment, uint64_t at)
{
    const uint64_t end = at_most(work->from.bucket + (segment + 1) * SEGMENT, work->buckets);
    loom__position from = segment == 0 ? work->from : (loom__position){.bucket = work->from.bucket + segment * SEGMENT};
    uint64_t total = 0;
    while (from.bucket < end)
        total += copy_bucket(work, &from, at + total, UINT64_MAX - total);
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
        segments = at_most(at_most(segments, WINDOW), useful);
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
            work.from.slot = 0, work.from.value = 0;
    }
    /* Part of a segment still fits: copies bucket by bucket, until the room is used. */
    while (work.from.bucket < work.buckets && done < room)
        done += copy_bucket(&work, &work.from, done, room - done);
    *position = work.from;
    *got = done;
}
