/* Putting a partition in order: what keeps lookups about as fast as in a fresh table, however often keys come and go.
 *
 * Erasing a key leaves its filter bits behind, and so does an insertion that is refused; keys that came while their home
 * bucket was full stay away when it has room again. At load 0.9, after ten turnovers in batches of a hundredth of the
 * table, a miss would read 3.2 buckets instead of 1.03 and a hit 2.2 instead of 1.25. So each partition counts how worn it
 * is (view->stale): one for each filter bit that may be stale, an upper bound, and one for each slot that was freed, an
 * estimate (open_wear_of). When that makes one for every OPEN_STALE_SHARE of its filter bits the partition is put in order,
 * by a team of lanes (core/lanes.h), alone:
 *   1. lift   retired keys become free slots; keys away from home are taken out into a list; all filter bits go. Every
 *             bucket belongs to one lane, which reads its line once and writes what changes.
 *   2. mark   if the list was too short: keys that stayed away from home set their bits anew.
 *   3. home   keys of the list go home where there is room, and are marked in it by the empty key.
 *   4. chain  the others are inserted as any key is: it cannot fail, since the slots that they came from are free.
 * All wait for each other before the first step, after it, and before the last. Between 2 and 3 nobody need wait: keys that
 * go home need no bits, and who meets one there sets none. Nothing but the list needs memory; a list of half a partition's
 * slots is long enough unless keys were made to collide. Then, or where a CPU has no memory for it, the order is less good,
 * never wrong. The lane simulator runs all of it (case `upkeep`), and finds each wait left out.
 *
 * Retired keys (open_ops.h: insertions beside erasures) are counted apart, view->retired_slots, since they must go after
 * every mixed batch, from partitions that are hardly worn, too: then step 1 does that alone (order = 0).
 *
 * Measured, by a CPU's counts, 19 partitions of 1699 buckets of 7 slots, ten moments in each of ten turnovers, load 0.9: in
 * batches of a tenth and of a hundredth hits read 1.25 and 1.30 buckets on average if keys are erased at random, 1.28 and
 * 1.33 if the oldest go first (1.37 at worst), misses at most 1.04; a fresh table 1.25 and 1.03. At load 0.8 hits read 1.16
 * (hundredths, the oldest first; fresh 1.12); at 0.95, in partitions of 3499, 1.40 to 1.53 (fresh 1.40). If freed slots did
 * not count, the oldest leaving first would hardly be noticed, since they lie at home and leave no bits: 1.45 to 1.51, and
 * 2.1 at worst. Setting filter bits anew without moving keys leaves hits at 1.83. With batches of a hundredth a partition is
 * read some 12 times in a turnover, with 14 slots to a bucket 22 times: 110 to 130 bytes in order for each key erased, which
 * itself cost a line at random. */
#ifndef LOOM_OPEN_UPKEEP_H
#define LOOM_OPEN_UPKEEP_H

#include "engines/open/open_ops.h"

typedef struct open_lifted {
    uint64_t key, value;
} open_lifted;

/* What a team works with beside the table, in memory of its own. */
typedef struct open_desk {
    uint64_t *list; /* [room * open_list_words(kind)] all keys, or pairs; then all values that lie apart */
    uint32_t room;  /* keys that the list takes */
    uint32_t *away; /* keys found away from home, more perhaps than the list takes */
} open_desk;

/* Words of the list for each key. */
LOOM_BOTH uint32_t open_list_words(loom__slot_kind kind)
{
    return slot_values_apart(kind) ? 2 : 1;
}

/* A list of so many keys is long enough, unless keys were made to collide. */
LOOM_BOTH uint32_t open_list_room(loom__slot_kind kind, uint32_t buckets)
{
    return buckets * open_slots(kind) / 2 + 1;
}

/* A walk that stands at bucket `number` of a partition, as the first one of a key that lies there would. */
LOOM_LANE open_walk open_stand_at(loom__slot_kind kind, const loom__open_view *view, uint32_t partition,
                                  uint32_t number)
{
    open_walk walk = open_start(kind, view, 0);
    walk.partition_index = partition;
    walk.partition = view->base + loom__multiply_wide(partition, view->partition_bytes);
    walk.bucket = number;
    return walk;
}

/* The key in a slot of a line that one lane has taken whole. */
LOOM_LANE uint64_t open_taken_key(loom__slot_kind kind, const lane_line *line, uint32_t slot)
{
    uint32_t stride = slot_stride(kind);
    uint64_t word = lane_line_word(line, slot * stride / 8);
    return slot_key_bytes(kind) == 8 ? word : (uint32_t)(word >> slot * stride % 8 * 8);
}

/* Step 1, a key of this lane's bucket: from its slot to place `place` of the list. */
LOOM_LANE void open_lift_slot(loom__slot_kind kind, const loom__open_view *view, const open_walk *here,
                              const lane_line *line, uint32_t slot, const open_desk *desk, uint32_t place)
{
    unsigned char *at = open_line(kind, here, here->bucket);
    uint64_t empty = open_empty(view, here->partition_index);
    if (kind == SLOT_PAIR_4_4) {
        lane_team_store(&desk->list[place], lane_line_word(line, slot));
        lane_store_8((uint64_t *)(at + slot * 8), slot_pair(empty, 0));
        return;
    }
    lane_team_store(&desk->list[place], open_taken_key(kind, line, slot));
    if (slot_values_apart(kind)) {
        unsigned char *value = open_value(kind, view, here->partition, at, slot);
        lane_team_store(&desk->list[desk->room + place], slot_load_value(kind, value));
        slot_store_value(kind, value, 0);
    }
    slot_store_key(kind, at, slot, empty);
}

/* Step 1, a bucket, which belongs to this lane: its line is read once, and only what changes is written. With order = 0
 * retired keys go, and that is all. */
LOOM_LANE void open_lift_bucket(loom__slot_kind kind, const loom__open_view *view, uint32_t partition, uint32_t number,
                                int order, lane_group alone, const open_desk *desk)
{
    open_walk here = open_stand_at(kind, view, partition, number);
    unsigned char *at = open_line(kind, &here, number);
    uint64_t empty = open_empty(view, partition), retired = open_retired(view, partition);
    uint32_t gone = 0, holders = 0, away = 0; /* slots */
    lane_line line;
    lane_take(alone, &line, at, 1, 1, OPEN_LINE_BYTES);
    LOOM_UNROLL
    for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
        uint64_t key = open_taken_key(kind, &line, slot);
        uint32_t lower = (uint32_t)loom__hash_key(key, slot_key_bytes(kind), view->seed);
        uint32_t holds = key != empty && key != retired;
        gone |= (uint32_t)(key == retired) << slot;
        holders |= holds << slot;
        away |= (holds & (loom__hash_bucket(lower, view->buckets) != number)) << slot;
    }
    for (; gone != 0; gone &= gone - 1)
        slot_store_key(kind, at, loom__lowest_bit(gone), empty); /* its value is zero already */
    if (!order)
        return;
    uint32_t place = away != 0 ? lane_team_draw(desk->away, loom__count_bits(away)) : 0;
    for (; away != 0 && place < desk->room; away &= away - 1) {
        uint32_t slot = loom__lowest_bit(away);
        open_lift_slot(kind, view, &here, &line, slot, desk, place++);
        holders &= ~((uint32_t)1 << slot);
    }
    uint64_t word = slot_values_apart(kind) ? holders : 0;
    if (word != lane_line_word(&line, 7))
        lane_store_8((uint64_t *)(at + OPEN_WORD_OFFSET), word);
}

/* Step 2, a bucket. At most `buckets` rounds for each slot. */
LOOM_LANE void open_mark_bucket(loom__slot_kind kind, int shared, const loom__open_view *view, uint32_t partition,
                                uint32_t number)
{
    open_walk here = open_stand_at(kind, view, partition, number);
    for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
        uint64_t key = slot_key(kind, open_line(kind, &here, number), slot);
        if (key == open_empty(view, partition))
            continue;
        for (open_walk walk = open_start(kind, view, key); walk.bucket != number; open_advance(view, &walk))
            open_set_bit(kind, shared, &walk, walk.bucket);
    }
}

/* Step 3. False: there is no room at home, or others took it. `alone` has one lane. At most as many rounds as a bucket has
 * slots: a claim that fails has seen one filled. */
LOOM_LANE lane_truth open_bring_home(loom__slot_kind kind, int shared, lane_group alone, const loom__open_view *view,
                                     const open_lifted *lifted)
{
    uint32_t stride = slot_stride(kind), slots = open_slots(kind);
    open_walk walk = open_start(kind, view, lifted->key);
    for (uint32_t tries = 0; tries < slots; tries++) {
        lane_line line;
        lane_take(alone, &line, open_line(kind, &walk, walk.bucket), 1, 1, OPEN_LINE_BYTES);
        lane_slots frees =
            lane_match(&line, slot_key_bytes(kind), stride, slots, open_empty(view, walk.partition_index));
        if (!lane_any(frees))
            return 0;
        if (open_claim(kind, shared, view, &walk, walk.bucket, lane_first(frees, stride), lifted->value))
            return 1;
    }
    return 0;
}

LOOM_LANE open_lifted open_listed(loom__slot_kind kind, const open_desk *desk, uint32_t place)
{
    open_lifted one;
    one.key = lane_team_load(&desk->list[place]);
    one.value = slot_values_apart(kind) ? lane_team_load(&desk->list[desk->room + place]) : 0;
    if (kind == SLOT_PAIR_4_4) {
        one.value = one.key >> 32;
        one.key = (uint32_t)one.key;
    }
    return one;
}

/* By all lanes of a team, for one partition, on which nobody else is at work. `alone` is a group of this lane. Returns when
 * this lane's part is done: before it touches what others may still be at, it waits for them in the next partition. */
LOOM_LANE void open_put_in_order(loom__slot_kind kind, int shared, const loom__open_view *view, uint32_t partition,
                                 int order, lane_team team, lane_group alone, const open_desk *desk)
{
    uint32_t first = lane_team_rank(team), lanes = lane_team_size(team);
    if (first == 0) {
        lane_team_store_4(desk->away, 0);
        if (order)
            lane_store_4(&view->marks[partition], OPEN_UNMARKED); /* slots will be free for a while */
    }
    lane_team_wait(team); /* places are drawn from 0 on, in a list that nobody reads any more */
    for (uint32_t number = first; number < view->buckets; number += lanes)
        open_lift_bucket(kind, view, partition, number, order, alone, desk);
    lane_team_wait(team); /* all keys are lifted, all bits are gone */
    if (order) {
        uint32_t away = lane_team_load_4(desk->away), count = away < desk->room ? away : desk->room;
        uint64_t empty = open_empty(view, partition);
        if (away > desk->room)
            for (uint32_t number = first; number < view->buckets; number += lanes)
                open_mark_bucket(kind, shared, view, partition, number);
        for (uint32_t place = first; place < count; place += lanes) {
            open_lifted one = open_listed(kind, desk, place);
            if (open_bring_home(kind, shared, alone, view, &one))
                lane_team_store(&desk->list[place], empty);
        }
        /* Who belongs into a bucket has gone there before others take what is left. And all know how many are away: this is
         * the last wait before the next partition's counting begins. */
        lane_team_wait(team);
        for (uint32_t place = first; place < count; place += lanes) {
            open_lifted one = open_listed(kind, desk, place);
            if (one.key != empty)
                (void)open_insert_alone(kind, SLOT_KEEP, LOOM__ADD, shared, alone, view, one.key, one.value);
        }
    }
    if (first == 0) {
        lane_store_4(&view->retired_slots[partition], 0);
        if (order)
            lane_store_4(&view->stale[partition], 0);
    }
}

#endif
