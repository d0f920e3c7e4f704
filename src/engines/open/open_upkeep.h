/* Putting a partition in order: what keeps lookups as fast as in a fresh table, however often keys come and go.
 *
 * Erasing a key leaves its filter bits behind, and so does an insertion that is refused; keys that came while their home
 * bucket was full stay away when it has room again. At load 0.9, after ten turnovers in batches of a hundredth of the table,
 * a miss would read 3.2 buckets instead of 1.03 and a hit 2.2 instead of 1.26. So each partition counts the bits that may be
 * stale (view->stale, an upper bound), and when one of OPEN_STALE_SHARE may be, the partition is put in order, alone:
 *   1. lift   retired keys become free slots; keys away from home are taken out into a list; all filter bits go. Every
 *             bucket belongs to one lane.
 *   2. mark   if the list was too short: keys that stayed away from home set their bits anew.
 *   3. home   keys of the list go home where there is room.
 *   4. chain  the others are inserted as any key is: it cannot fail, since the slots that they came from are free.
 * Each step is over for the whole partition before the next begins. Nothing but the list needs memory; a list of half a
 * partition's slots is long enough unless keys were made to collide, and then the order is less good, never wrong. (On a CPU it has 4,096 places,
 * too few for partitions of 3499 buckets at load 0.95.)
 *
 * Erasing the oldest keys first is hardly noticed, since they lie at home and leave no bits: hits then settle at 1.35 to 1.5 at
 * load 0.9. Counting each freed slot as well, and a share of 1/100, gives 1.27 to 1.34 (measured on a GPU: 1.28), and has the
 * whole table put in order when half of it is erased at once, which as it stands takes as long as the erasing; a
 * faster first step should come before that.
 *
 * Simulated, partitions of 1747 buckets of 7 slots, ten turnovers, load 0.9: with a share of 1/200 hits read 1.28 buckets
 * (batches of a tenth) to 1.36 (a hundredth) and misses 1.03 to 1.04; with 1/50 1.40 to 1.48 and 1.05 to 1.06. Setting
 * filter bits anew without moving keys leaves hits at 1.83. A partition is read 5 to 7 times in a turnover: some 70 bytes in
 * order for each key erased, which itself cost a line at random. */
#ifndef LOOM_OPEN_UPKEEP_H
#define LOOM_OPEN_UPKEEP_H

#include "engines/open/open_ops.h"

typedef struct open_lifted {
    uint64_t key, value;
} open_lifted;

LOOM_LANE uint64_t open_slot_key(loom__open_kind kind, const unsigned char *line, uint32_t slot)
{
    const unsigned char *at = line + slot * open_slot_stride(kind);
    return open_key_bytes(kind) == 4 ? lane_load_4((const uint32_t *)at) : lane_load_8((const uint64_t *)at);
}

LOOM_LANE void open_store_key(loom__open_kind kind, unsigned char *line, uint32_t slot, uint64_t key)
{
    unsigned char *at = line + slot * open_slot_stride(kind);
    if (open_key_bytes(kind) == 4)
        lane_store_4((uint32_t *)at, (uint32_t)key);
    else
        lane_store_8((uint64_t *)at, key);
}

/* A walk that stands at bucket `number` of a partition, as the first one of a key that lies there would. */
LOOM_LANE open_walk open_stand_at(loom__open_kind kind, const loom__open_view *view, uint32_t partition,
                                  uint32_t number)
{
    open_walk walk = open_start(kind, view, 0);
    walk.partition_index = partition;
    walk.partition = view->base + loom__multiply_wide(partition, view->partition_bytes);
    walk.bucket = number;
    return walk;
}

/* Step 1, one slot of a bucket that belongs to this lane: where its key lies. A retired one is gone afterwards. */
typedef enum open_lies { OPEN_LIES_NOWHERE, OPEN_LIES_HOME, OPEN_LIES_AWAY } open_lies;

LOOM_LANE open_lies open_tidy_slot(loom__open_kind kind, const loom__open_view *view, const open_walk *here,
                                   uint32_t slot)
{
    unsigned char *line = open_line(kind, here, here->bucket);
    uint64_t empty = open_empty(view, here->partition_index), key = open_slot_key(kind, line, slot);
    if (key == open_retired(view, here->partition_index)) {
        open_store_key(kind, line, slot, empty); /* its value is zero already */
        key = empty;
    }
    if (key == empty)
        return OPEN_LIES_NOWHERE;
    uint32_t lower = (uint32_t)loom__hash_key(key, open_key_bytes(kind), view->seed);
    return loom__hash_bucket(lower, view->buckets) == here->bucket ? OPEN_LIES_HOME : OPEN_LIES_AWAY;
}

/* Step 1, a slot whose key lies away from home and has a place in the list. */
LOOM_LANE open_lifted open_lift_slot(loom__open_kind kind, const loom__open_view *view, const open_walk *here,
                                     uint32_t slot)
{
    unsigned char *line = open_line(kind, here, here->bucket);
    open_lifted lifted;
    lifted.key = open_slot_key(kind, line, slot);
    lifted.value = 0;
    if (open_value_bytes(kind) != 0) {
        unsigned char *at =
            kind == OPEN_PAIR_4_4 ? line + slot * 8 + 4 : open_value(kind, view, here->partition, line, slot);
        lifted.value = open_load_value(kind, at);
        open_store_value(kind, at, 0);
    }
    open_store_key(kind, line, slot, open_empty(view, here->partition_index));
    return lifted;
}

/* Step 1, after the slots of a bucket: `holders` is the set of those that still hold keys. */
LOOM_LANE void open_wipe_word(loom__open_kind kind, const open_walk *here, uint32_t holders)
{
    uint64_t *word = (uint64_t *)(open_line(kind, here, here->bucket) + OPEN_WORD_OFFSET);
    lane_store_8(word, open_values_apart(kind) ? holders : 0);
}

/* Step 2, one slot. At most `buckets` rounds. */
LOOM_LANE void open_mark_slot(loom__open_kind kind, int shared, const loom__open_view *view, const open_walk *here,
                              uint32_t slot)
{
    uint64_t key = open_slot_key(kind, open_line(kind, here, here->bucket), slot);
    if (key == open_empty(view, here->partition_index))
        return;
    for (open_walk walk = open_start(kind, view, key); walk.bucket != here->bucket; open_advance(view, &walk))
        open_set_bit(kind, shared, &walk, walk.bucket);
}

/* Step 3. False: there is no room at home, or others took it. `group` has one lane. At most as many rounds as a bucket has
 * slots: a claim that fails has seen one filled. */
LOOM_LANE lane_truth open_bring_home(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                     const open_lifted *lifted)
{
    uint32_t stride = open_slot_stride(kind), slots = open_slots(kind);
    open_walk walk = open_start(kind, view, lifted->key);
    for (uint32_t tries = 0; tries < slots; tries++) {
        lane_line line;
        lane_take(group, &line, open_line(kind, &walk, walk.bucket), 1, 1, OPEN_LINE_BYTES);
        lane_slots frees =
            lane_match(&line, open_key_bytes(kind), stride, slots, open_empty(view, walk.partition_index));
        if (!lane_any(frees))
            return 0;
        if (open_claim(kind, shared, view, &walk, walk.bucket, lane_first(frees, stride), lifted->value))
            return 1;
    }
    return 0;
}

/* Step 4. `group` has one lane. False: there was no room, which cannot be. */
LOOM_LANE lane_truth open_put_back(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                   const open_lifted *lifted)
{
    open_walk walk = open_start(kind, view, lifted->key);
    uint64_t value = lifted->value;
    lane_truth tells;
    for (;;) { /* bounded as every insertion is */
        open_outcome outcome =
            open_insert_turn(kind, OPEN_KEEP, LOOM__ADD, shared, group, view, &walk, &value, 1, &tells);
        if (outcome != OPEN_GO_ON)
            return outcome == OPEN_DONE;
    }
}

#endif
