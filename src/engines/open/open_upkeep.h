/* Upkeep: rebuilds partitions so that lookups stay about as fast as in a fresh table, however often keys come and go.
 *
 * An erasure and a refused insertion leave filter bits behind. A key inserted while its home bucket was full stays away
 * from home, even after the home bucket has room again. At load 0.9, after ten turnovers in batches of a hundredth of
 * the table, a miss would read 3.2 buckets instead of 1.03 and a hit 2.2 instead of 1.25. Therefore each partition has
 * a stale count (view->stale). The count is the sum of two numbers: an upper bound on the number of stale filter bits,
 * and an estimate of the number of freed slots (open_wear_of). When the stale count passes one per OPEN_STALE_SHARE
 * filter bits, a team of lanes (core/lanes.h) rebuilds the partition. No other operation touches the partition
 * meanwhile. The steps:
 *   1. lift   Slots with the retired key become free, keys away from home move to a list, all filter bits are cleared.
 *             Every bucket belongs to one lane, which reads the line once and writes only what changes.
 *   2. mark   If the list was too short: keys that stayed away from home set their filter bits again.
 *   3. home   Each key of the list goes to its home bucket if that has room. The empty key then replaces it in the
 *             list.
 *   4. chain  The other keys of the list are inserted as any key is. This cannot fail: the slots that they came from
 *             are free.
 * The team waits before step 1, after step 1 and before step 4. No wait is needed between steps 2 and 3: keys at home
 * need no filter bits, and step 2 sets none for a key that it finds at home. The list is the only extra memory. A list
 * of half the partition's slots is long enough unless keys were chosen to collide. With a shorter list, or on a CPU
 * that has no memory for one, more keys stay away from home; the result is still correct. The lane simulator runs all
 * steps (case `upkeep`). It fails if any of the waits is left out.
 *
 * Retired keys (OPEN_MIXED in open_ops.h) must go after every mixed batch, even from partitions with a low stale count.
 * They have a count of their own, view->retired_slots. In a partition with retired keys and a low stale count, step 1
 * only frees retired slots, and steps 2 to 4 do not run (order = 0).
 *
 * Measured by counting on a CPU: 19 partitions of 1699 buckets of 7 slots, load 0.9, ten samples in each of ten
 * turnovers. Batches were a tenth or a hundredth of the table. If keys are erased at random, hits read 1.25 buckets on
 * average with tenths and 1.30 with hundredths. If the oldest keys go first, hits read 1.28 and 1.33, at worst 1.37.
 * Misses read at most 1.04. In a fresh table hits read 1.25 and misses 1.03. At load 0.8, with hundredths, oldest
 * first, hits read 1.16, in a fresh table 1.12. At load 0.95, in partitions of 3499 buckets, hits read 1.40 to 1.53, in
 * a fresh table 1.40. Without counting freed slots, upkeep would hardly run when the oldest keys go first, since the
 * oldest keys lie at home and leave no filter bits. Hits would then read 1.45 to 1.51, and 2.1 at worst. Setting filter
 * bits again without moving keys leaves hits at 1.83. With batches of a hundredth, upkeep reads a partition about 12
 * times in a turnover, and 22 times with 14 keys per line and values behind it. For each erased key this is 110 to 130
 * sequential bytes. Erasing the key itself costs one random line. */
#ifndef LOOM_OPEN_UPKEEP_H
#define LOOM_OPEN_UPKEEP_H

#include "engines/open/open_ops.h"

/* A key of the list and its value. Rows: the address of a copy of the row (open_lifted_row), and the tag; a tag of 0:
 * the key is home. */
typedef struct open_lifted {
    uint64_t key, value;
} open_lifted;

/* A team's own memory, apart from the table. */
typedef struct open_scratch {
    uint64_t *list; /* [room * open_list_words(kind)] keys or pairs; then values that lie apart from keys */
    uint32_t room;  /* keys that fit the list */
    uint32_t *away; /* keys found away from home; may exceed `room` */
} open_scratch;

/* Words of the list for each key. Rows: a word that is the tag of the key while the key waits, then 0; then its key and
 * its value. */
LOOM_BOTH uint32_t open_list_words(loom__slot_kind kind, const loom__open_view *view)
{
    if (slot_has_tag(kind))
        return 1 + (open_rows_of(view)->key_bytes + 7) / 8 + (open_rows_of(view)->value_bytes + 7) / 8;
    return slot_values_apart(kind) ? 2 : 1;
}

/* Room of a list that is long enough, unless keys were chosen to collide. */
LOOM_BOTH uint32_t open_list_room(loom__slot_kind kind, uint32_t buckets)
{
    return buckets * open_slots(kind) / 2 + 1;
}

/* Rows: the place of a row in the list. The list is then in the memory of one thread. */
LOOM_LANE uint64_t *open_listed_row(const loom__open_view *view, const open_scratch *scratch, uint32_t place)
{
    return scratch->list + (uint64_t)place * open_list_words(SLOT_TAG, view);
}

/* Rows: the copy of a row whose key is at `key`, in the list. */
LOOM_LANE open_row_place open_lifted_row(const loom__open_view *view, uint64_t key)
{
    open_row_place row;
    row.key = (unsigned char *)(uintptr_t)key;
    row.value = row.key + (open_rows_of(view)->key_bytes + 7) / 8 * 8;
    return row;
}

/* A walk that stands at bucket `number` of a partition, at depth 0, with no key of its own. */
LOOM_LANE open_walk open_stand_at(loom__slot_kind kind, const loom__open_view *view, uint32_t partition,
                                  uint32_t number)
{
    open_walk walk = open_start_at(kind, view, 0, 0);
    walk.partition_index = partition;
    walk.partition = view->base + loom__multiply_wide(partition, view->partition_bytes);
    walk.bucket = number;
    return walk;
}

/* The key in a slot of a line that one lane has copied whole, or its tag. */
LOOM_LANE uint64_t open_taken_key(loom__slot_kind kind, const lane_line *line, uint32_t slot)
{
    uint32_t stride = slot_stride(kind);
    uint64_t word = lane_line_word(line, slot * stride / 8);
    if (slot_has_tag(kind))
        return word >> slot * stride % 8 * 8 & 0xffff;
    return slot_key_bytes(kind) == 8 ? word : (uint32_t)(word >> slot * stride % 8 * 8);
}

/* Step 1 for one key of this lane's bucket: moves the key from its slot to place `place` of the list. */
LOOM_LANE void open_lift_slot(loom__slot_kind kind, const loom__open_view *view, const open_walk *here,
                              const lane_line *line, uint32_t slot, const open_scratch *scratch, uint32_t place)
{
    unsigned char *at = open_line(kind, here, here->bucket);
    uint64_t empty = open_empty(view, here->partition_index);
    if (kind == SLOT_PAIR_4_4) {
        lane_team_store(&scratch->list[place], lane_line_word(line, slot));
        lane_store_8((uint64_t *)(at + slot * 8), slot_pair(empty, 0));
        return;
    }
    if (slot_has_tag(kind)) {
        uint64_t *listed = open_listed_row(view, scratch, place);
        listed[0] = open_taken_key(kind, line, slot);
        const open_row_place row = open_row_at(view, here, slot);
        const open_row_place copy = open_lifted_row(view, (uint64_t)(uintptr_t)(listed + 1));
        lane_read_bytes(copy.key, row.key, open_rows_of(view)->key_bytes);
        if (open_rows_of(view)->value_bytes > 0)
            lane_read_bytes(copy.value, row.value, open_rows_of(view)->value_bytes);
        slot_clear_tag(OPEN_ALONE, at, slot);
        return;
    }
    lane_team_store(&scratch->list[place], open_taken_key(kind, line, slot));
    if (slot_values_apart(kind)) {
        unsigned char *value = at + open_value_place(kind, slot);
        lane_team_store(&scratch->list[scratch->room + place], slot_load_value(kind, value));
        slot_store_value(kind, value, 0);
    }
    slot_store_key(kind, at, slot, empty);
}

/* Rows: the walk of the key of a slot that has this tag. */
LOOM_LANE open_walk open_start_slot(loom__slot_kind kind, const loom__open_view *view, const open_walk *here,
                                    uint32_t slot, uint32_t tag)
{
    const unsigned char *key = open_row_at(view, here, slot).key;
    return open_start_row(kind, view, here->partition_index, tag, key, open_mark_of(kind, view, key));
}

/* Step 1 for one bucket, which belongs to this lane: reads its line once and writes only what changes. With order = 0
 * this step only frees retired slots. */
LOOM_LANE void open_lift_bucket(loom__slot_kind kind, const loom__open_view *view, uint32_t partition, uint32_t number,
                                int order, lane_group alone, const open_scratch *scratch)
{
    open_walk here = open_stand_at(kind, view, partition, number);
    unsigned char *at = open_line(kind, &here, number);
    uint64_t empty = open_empty(view, partition), retired = open_retired(view, partition);
    uint32_t gone = 0, holders = 0, away = 0; /* sets of slots */
    lane_line line;
    lane_take(alone, &line, at, 1, 1, OPEN_LINE_BYTES);
    LOOM_UNROLL
    for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
        uint64_t key = open_taken_key(kind, &line, slot);
        uint32_t holds = key != empty && key != retired;
        gone |= (uint32_t)(key == retired) << slot;
        if (slot_has_tag(kind) && !holds)
            continue;
        uint32_t lower = slot_has_tag(kind) ? open_start_slot(kind, view, &here, slot, (uint32_t)key).lower
                                            : (uint32_t)open_hash(kind, view, key);
        holders |= holds << slot;
        away |= (holds & (loom__hash_bucket(lower, view->buckets) != number)) << slot;
    }
    for (; gone != 0; gone &= gone - 1) {
        if (slot_has_tag(kind))
            slot_clear_tag(OPEN_ALONE, at, loom__lowest_bit(gone));
        else
            slot_store_key(kind, at, loom__lowest_bit(gone), empty); /* the slot's value is zero already */
    }
    if (!order)
        return;
    uint32_t place = away != 0 ? lane_team_draw(scratch->away, loom__count_bits(away)) : 0;
    for (; away != 0 && place < scratch->room; away &= away - 1) {
        uint32_t slot = loom__lowest_bit(away);
        open_lift_slot(kind, view, &here, &line, slot, scratch, place++);
        holders &= ~((uint32_t)1 << slot);
    }
    const uint64_t word = slot_values_apart(kind) ? holders : 0;
    const uint64_t taken = lane_line_word(&line, open_word_offset(kind) / 8);
    if (word != (open_has_narrow_word(kind) ? taken >> 32 : taken))
        open_store_word(kind, at, word);
}

/* Step 2 for one bucket. At most `buckets` rounds for each slot. */
LOOM_LANE void open_mark_bucket(loom__slot_kind kind, int shared, const loom__open_view *view, uint32_t partition,
                                uint32_t number)
{
    open_walk here = open_stand_at(kind, view, partition, number);
    for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
        uint64_t key = slot_key(kind, open_line(kind, &here, number), slot);
        if (key == open_empty(view, partition))
            continue;
        if (slot_has_tag(kind)) { /* another lane may be bringing a row home, which needs no bits */
            if (!open_is_ready(kind, open_line(kind, &here, number), slot))
                continue;
            lane_acquire(shared); /* the row came before its ready bit */
        }
        open_walk walk =
            slot_has_tag(kind) ? open_start_slot(kind, view, &here, slot, (uint32_t)key) : open_start(kind, view, key);
        for (; walk.bucket != number; open_advance(view, &walk))
            open_set_bit(kind, shared, &walk, walk.bucket);
    }
}

/* The walk of a key of the list. */
LOOM_LANE open_walk open_start_lifted(loom__slot_kind kind, const loom__open_view *view, uint32_t partition,
                                      const open_lifted *lifted)
{
    const unsigned char *key = (const unsigned char *)(uintptr_t)lifted->key;
    open_stored copy = {0, 0, 0};
    if (!slot_has_tag(kind))
        return open_start(kind, view, lifted->key);
    if (open_has_string_keys(kind, open_rows_of(view))) /* the copy is no memory of the table: a lane may load it */
        memcpy(&copy, __builtin_assume_aligned(key, 8), sizeof copy);
    return open_start_row(kind, view, partition, (uint32_t)lifted->value, key, copy.mark);
}

/* open_claim for a key of the list. A row is copied as it is: its strings stay where they are. */
LOOM_LANE lane_truth open_claim_lifted(loom__slot_kind kind, int shared, const loom__open_view *view,
                                       const open_walk *walk, uint32_t bucket, uint32_t slot, const open_lifted *lifted)
{
    if (slot_has_tag(kind))
        return open_put_row(shared, view, walk, bucket, slot, open_lifted_row(view, lifted->key));
    return open_claim(kind, shared, view, walk, bucket, slot, lifted->value);
}

/* Step 3 for one key. False: the home bucket has no room, or other lanes took the room first. `alone` has one lane. At
 * most as many rounds as a bucket has slots, because each failed claim means that another lane filled a slot. */
LOOM_LANE lane_truth open_bring_home(loom__slot_kind kind, int shared, lane_group alone, const loom__open_view *view,
                                     uint32_t partition, const open_lifted *lifted)
{
    uint32_t stride = slot_stride(kind), slots = open_slots(kind);
    const open_walk walk = open_start_lifted(kind, view, partition, lifted);
    for (uint32_t tries = 0; tries < slots; tries++) {
        lane_line line;
        lane_take(alone, &line, open_line(kind, &walk, walk.bucket), 1, 1, OPEN_LINE_BYTES);
        lane_slots frees =
            lane_match(&line, slot_key_bytes(kind), stride, slots, open_empty(view, walk.partition_index));
        if (!lane_any(frees))
            return 0;
        if (open_claim_lifted(kind, shared, view, &walk, walk.bucket, lane_first(frees, stride), lifted))
            return 1;
    }
    return 0;
}

LOOM_LANE open_lifted open_listed(loom__slot_kind kind, const loom__open_view *view, const open_scratch *scratch,
                                  uint32_t place)
{
    open_lifted one;
    if (slot_has_tag(kind)) {
        const uint64_t *listed = open_listed_row(view, scratch, place);
        one.key = (uint64_t)(uintptr_t)(listed + 1);
        one.value = listed[0];
        return one;
    }
    one.key = lane_team_load(&scratch->list[place]);
    one.value = slot_values_apart(kind) ? lane_team_load(&scratch->list[scratch->room + place]) : 0;
    if (kind == SLOT_PAIR_4_4) {
        one.value = one.key >> 32;
        one.key = (uint32_t)one.key;
    }
    return one;
}

/* Removes a key that came home from the list. */
LOOM_LANE void open_strike(loom__slot_kind kind, const loom__open_view *view, const open_scratch *scratch,
                           uint32_t place, uint64_t empty)
{
    if (slot_has_tag(kind))
        *open_listed_row(view, scratch, place) = 0;
    else
        lane_team_store(&scratch->list[place], empty);
}

/* Step 4 for one key. The slots that the keys came from are free, so it ends: each round takes a slot, loses one to
 * another lane, or leaves a full bucket. */
LOOM_LANE void open_chain_lifted(loom__slot_kind kind, int shared, lane_group alone, const loom__open_view *view,
                                 uint32_t partition, const open_lifted *lifted)
{
    if (!slot_has_tag(kind)) {
        (void)open_insert_alone(kind, SLOT_KEEP, LOOM__ADD, shared, alone, view, lifted->key, lifted->value);
        return;
    }
    open_walk walk = open_start_lifted(kind, view, partition, lifted);
    (void)open_place_row(kind, shared, alone, view, &walk, open_lifted_row(view, lifted->key));
}

/* All lanes of a team call this for one partition, which no other operation touches. `alone` is a group of this lane.
 * Returns when this lane's part is done. The first wait of the next call keeps this lane from touching what other lanes
 * still use. */
LOOM_LANE void open_put_in_order(loom__slot_kind kind, int shared, const loom__open_view *view, uint32_t partition,
                                 int order, lane_team team, lane_group alone, const open_scratch *scratch)
{
    uint32_t first = lane_team_rank(team), lanes = lane_team_size(team);
    if (first == 0) {
        lane_team_store_4(scratch->away, 0);
        if (order)
            lane_store_4(&view->marks[partition], OPEN_UNMARKED); /* slots will be free for a while */
    }
    lane_team_wait(team); /* places are drawn from 0 on, in a list that no lane reads any more */
    for (uint32_t number = first; number < view->buckets; number += lanes)
        open_lift_bucket(kind, view, partition, number, order, alone, scratch);
    lane_team_wait(team); /* all keys are lifted, all bits are gone */
    if (order) {
        uint32_t away = lane_team_load_4(scratch->away), count = away < scratch->room ? away : scratch->room;
        uint64_t empty = open_empty(view, partition);
        if (away > scratch->room)
            for (uint32_t number = first; number < view->buckets; number += lanes)
                open_mark_bucket(kind, shared, view, partition, number);
        for (uint32_t place = first; place < count; place += lanes) {
            open_lifted one = open_listed(kind, view, scratch, place);
            if (open_bring_home(kind, shared, alone, view, partition, &one))
                open_strike(kind, view, scratch, place, empty);
        }
        /* After this wait, all keys that find room at home are there, and the other keys may take the slots that are
         * left. All lanes have also read `away` by then: this is the last wait before the next partition resets
         * `away`. */
        lane_team_wait(team);
        for (uint32_t place = first; place < count; place += lanes) {
            open_lifted one = open_listed(kind, view, scratch, place);
            if (slot_has_tag(kind) ? one.value != 0 : one.key != empty)
                open_chain_lifted(kind, shared, alone, view, partition, &one);
        }
    }
    if (first == 0) {
        lane_store_4(&view->retired_slots[partition], 0);
        if (order)
            lane_store_4(&view->stale[partition], 0);
    }
}

#endif
