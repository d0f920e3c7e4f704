/* Makes room for keys whose buckets are full. Lane groups work side by side, also in one partition. A group gives a
 * cell another code, with which all keys of the cell have room. This is the first move of a plan (perfect_room.h), and
 * most keys need no more.
 *
 * A group *holds* the cells that it works on. A held cell has the code of a stashed cell, and groups here never move
 * stashed cells. One atomic OR takes a cell and returns the code that the cell had. One atomic AND gives the cell back,
 * with that code or another. No group waits for a cell: if the cell is taken, the group does without it.
 *   1. The group holds the cell of its key. If it cannot, it leaves the key to the owner of the partition. If the key
 *      exists by now, the group handles it as the call's mode says. If the bucket has room again, it stores the key.
 *   2. Otherwise the group looks for a code of the cell that overfills no bucket, the key included; of several, the one
 *      whose buckets are emptiest. The cell moves, and the group stores the key.
 *   3. If no code fits, the group tries the cells of the other keys in the full bucket, one after the other. It moves
 *      the first cell that it can hold and that has a code with fewer of its keys in that bucket and none too many
 *      elsewhere. Then the group stores the key.
 *   4. If no cell can move, the group leaves the key to the owner, whose plans move several cells for one key. The
 *      group also leaves the key if other groups fill the bucket to which the key's own cell has moved.
 * A cell moves by copies. The group stores the cell's keys where the new code puts them, each by a swap of an empty
 * slot, as all keys are stored. When all copies are stored, the group clears the old slots and gives the cell back with
 * the new code. If a swap finds no empty slot, because other groups were faster, the group clears the copies instead.
 * So stale readings of other cells cost a move, never a key. A plan of perfect_room.h lifts keys before it puts them
 * back, so it may use slots that the cell itself leaves. Here those slots count as taken.
 *
 * Why this is correct:
 *   R1  Only its holder changes a cell's code, stores its keys, or clears slots that hold them. So the keys do not move
 *       under the holder. The next holder sees what the last one did: taking a cell acquires what giving it back
 *       released.
 *   R2  A slot is claimed by a swap for the empty key, and cleared only by the holder of its key's cell. So no key is
 *       overwritten.
 *   R3  P1 to P3 (perfect_ops.h) hold again for a cell's keys when the cell is given back, moved or not. So a group may
 *       stop after any move.
 *   R4  Every loop ends: a group tries the cell of each slot of a bucket once, and tries to store a key once for each
 *       slot.
 * No lookup runs at the same time, and no team owns the partition: here a perfect_owner only says where the partition
 * lies. In a marked partition nothing moves, because a key that was refused there must stay refused (perfect_room.h).
 *
 * In the paper, groups lock the cells and buckets of a move, and age decides which group waits, so that none waits
 * forever (wait-die). Here no bucket is locked, and no group waits for a lock.
 *
 * Cost: a lookup, and 16 lines read for each cell that is tried, two of each subrange. A cell that moves also costs a
 * load, a scan of a bucket, a swap and a store for each of its keys, most of them by different lanes at the same
 * time. */
#ifndef LOOM_PERFECT_RECODE_H
#define LOOM_PERFECT_RECODE_H

#include "engines/perfect/perfect_cells.h"

enum { PERFECT_MOST_COPIES = 16 /* keys of a cell that moves: a lane records the slots of their copies in 8 bytes */ };

/* The state of one key's insertion between turns. Before the first turn, `seek` is as perfect_start makes it, and
 * `turn` is 0. */
typedef struct perfect_beside {
    perfect_seek seek; /* its bucket follows the cell's code, once the cell is held */
    uint32_t code;     /* of the key's cell: giving the cell back stores it */
    uint32_t turn;     /* number of cells tried */
    lane_line line;    /* of the bucket, as read in the first turn */
} perfect_beside;

/* ---- Holding a cell ---- */

/* The group takes a cell and returns its code. PERFECT_STASHED: the group cannot have the cell. */
LOOM_LANE uint32_t perfect_hold(const perfect_owner *owner, uint32_t cell, lane_truth active)
{
    uint64_t word = 0;
    if (active && lane_leads(owner->alone)) {
        word = lane_fetch_or_8(owner->words + (cell >> 4), (uint64_t)PERFECT_STASHED << 4 * (cell & 15), owner->shared);
        lane_acquire(owner->shared); /* what the last holder did */
    }
    lane_join(owner->alone, owner->shared);
    word = lane_sum(owner->alone, word);
    return active ? perfect_code(word, cell & 15) : (uint32_t)PERFECT_STASHED;
}

/* One lane gives the cell back with this code, after a lane_release for the whole group's work. */
LOOM_LANE void perfect_give_back(const perfect_owner *owner, uint32_t cell, uint32_t code)
{
    const uint64_t gone = (uint64_t)(PERFECT_STASHED ^ code) << 4 * (cell & 15);
    (void)lane_and_8(owner->words + (cell >> 4), ~gone, owner->shared);
}

/* ---- Moving a cell that is held ---- */

/* A move of a cell. */
typedef struct perfect_recoding {
    uint32_t cell, from, to;
    uint64_t mine[2]; /* this lane's slots with the cell's keys, as in perfect_reading */
} perfect_recoding;

typedef struct perfect_spot {
    uint32_t bucket, slot;
} perfect_spot;

/* Removes the lane's next slot from `mine` and returns it. */
LOOM_LANE perfect_spot perfect_next_spot(loom__slot_kind kind, const perfect_owner *owner,
                                         const perfect_recoding *recoding, uint64_t mine[2])
{
    const uint32_t upper = mine[0] == 0;
    const uint64_t bits = upper ? mine[1] : mine[0];
    const uint32_t low = (uint32_t)bits, high = (uint32_t)(bits >> 32);
    const uint32_t at = low ? loom__lowest_bit(low) : 32 + loom__lowest_bit(high);
    if (upper)
        mine[1] &= mine[1] - 1;
    else
        mine[0] &= mine[0] - 1;
    perfect_spot spot;
    spot.bucket =
        perfect_bucket_in(recoding->cell, owner->salt, recoding->from >> 3, 4 * upper + at / 16, owner->view->subrange);
    spot.slot = perfect_first_slot(kind, owner) + at % 16;
    return spot;
}

/* The key in a spot, its value, and the bucket that it moves to. */
LOOM_LANE perfect_seek perfect_seek_spot(loom__slot_kind kind, const perfect_owner *owner,
                                         const perfect_recoding *recoding, perfect_spot spot, uint64_t *value)
{
    uint64_t pair;
    const uint64_t key = perfect_load_slot(kind, perfect_line(kind, owner->partition, spot.bucket), spot.slot, &pair);
    const perfect_place place = perfect_place_of_key(kind, owner->view, key);
    const uint32_t bucket = perfect_bucket(place, recoding->to, owner->salt, owner->view->subrange);
    const perfect_seek seek = {key, owner->partition, owner->partition_index, bucket, place};
    *value = perfect_value_in(kind, owner->view, owner->partition, spot.bucket, spot.slot, pair);
    return seek;
}

/* The lane copies its keys of the cell. Returns the number of copies; *slots gets 4 bits for the slot of each copy.
 * *failed is set if there was no room for a copy. */
LOOM_LANE uint32_t perfect_copy_keys(loom__slot_kind kind, const perfect_owner *owner, const perfect_recoding *recoding,
                                     uint64_t *slots, lane_truth *failed)
{
    uint64_t mine[2] = {recoding->mine[0], recoding->mine[1]}, value;
    uint32_t copies = 0;
    while ((mine[0] | mine[1]) != 0) {
        const perfect_spot spot = perfect_next_spot(kind, owner, recoding, mine);
        const perfect_seek seek = perfect_seek_spot(kind, owner, recoding, spot, &value);
        const uint32_t slot = perfect_store(kind, owner->shared, owner->view, &seek, value);
        if (slot == PERFECT_NO_SLOT) {
            *failed = 1;
            break;
        }
        *slots |= (uint64_t)slot << 4 * copies++;
    }
    return copies;
}

/* The lane clears its keys of the cell. If the move failed, it clears the copies instead. */
LOOM_LANE void perfect_clear_keys(loom__slot_kind kind, const perfect_owner *owner, const perfect_recoding *recoding,
                                  uint64_t slots, uint32_t copies, lane_truth failed)
{
    uint64_t mine[2] = {recoding->mine[0], recoding->mine[1]}, value;
    for (; copies > 0; copies--, slots >>= 4) {
        perfect_spot spot = perfect_next_spot(kind, owner, recoding, mine);
        if (failed) {
            spot.bucket = perfect_seek_spot(kind, owner, recoding, spot, &value).bucket;
            spot.slot = (uint32_t)slots & 15;
        }
        perfect_clear_slot(kind, owner->shared, owner->view, owner->partition, spot.bucket, spot.slot, owner->empty);
    }
}

/* The group moves all keys of the cell. False: there was no room, and nothing has changed. */
LOOM_LANE lane_truth perfect_recode_cell(loom__slot_kind kind, const perfect_owner *owner,
                                         const perfect_recoding *recoding, lane_truth active)
{
    uint64_t slots = 0;
    uint32_t copies = 0;
    lane_truth failed = 0;
    if (active)
        copies = perfect_copy_keys(kind, owner, recoding, &slots, &failed);
    failed = lane_some(lane_poll(owner->alone, failed));
    perfect_clear_keys(kind, owner, recoding, slots, copies, failed);
    lane_join(owner->alone, owner->shared); /* the first lane, which continues, sees what all lanes cleared */
    return active && !failed;
}

/* ---- Insertion ---- */

/* Whether a slot of the line is empty; the same on all lanes of the group. */
LOOM_LANE lane_truth perfect_has_room(loom__slot_kind kind, const perfect_owner *owner, const lane_line *line,
                                      lane_truth active)
{
    const lane_slots frees =
        lane_match(line, slot_key_bytes(kind), slot_stride(kind), perfect_slots(kind), owner->empty);
    return lane_some(lane_poll(owner->alone, active & lane_any(frees)));
}

/* The cell of the key in this slot of a line, on all lanes of the group; UINT32_MAX: the slot is empty. */
LOOM_LANE uint32_t perfect_cell_in(loom__slot_kind kind, const perfect_owner *owner, const lane_line *line,
                                   uint32_t slot)
{
    uint64_t cell = 0; /* cell number plus one */
    LOOM_UNROLL
    for (uint32_t i = 0; i < perfect_own_slots(kind, owner); i++) {
        const uint64_t key = perfect_own_key(kind, line, i);
        if (perfect_first_slot(kind, owner) + i == slot && key != owner->empty)
            cell = perfect_cell(perfect_place_of_key(kind, owner->view, key)) + (uint64_t)1;
    }
    return (uint32_t)lane_sum(owner->alone, cell) - 1;
}

/* The group looks for a code of the cell that makes room, and moves the cell to it. In the first turn the new key
 * belongs to the cell, and the code must have room for it, too. In later turns the code must make room in the new key's
 * bucket. True: the cell has moved. */
LOOM_LANE lane_truth perfect_try_cell(loom__slot_kind kind, const perfect_owner *owner, const perfect_beside *beside,
                                      uint32_t cell, uint32_t *code, lane_truth active)
{
    const int other = beside->turn > 0;
    perfect_reading reading = perfect_read_cell(kind, owner, NULL, cell, *code, 0, active);
    if (!other) {
        perfect_add_key(reading.counts, beside->seek.place.remainder, owner->salt);
        reading.keys++;
    }
    const uint32_t leaves = other ? beside->seek.bucket / owner->view->subrange : (uint32_t)PERFECT_SUBRANGES;
    const uint32_t best = perfect_judge(kind, owner, &reading, cell, 0, *code, leaves, 0);
    const perfect_recoding recoding = {cell, *code, best & 15, {reading.mine[0], reading.mine[1]}};
    const lane_truth can = active && best >> 24 == 0 && reading.keys <= PERFECT_MOST_COPIES;
    const lane_truth moved = perfect_recode_cell(kind, owner, &recoding, can);
    *code = moved ? recoding.to : *code;
    return moved;
}

/* The group takes the cell that it tries in this turn, and puts the number of the cell into *cell. The first cell is
 * the key's own; then come the cells of the keys in the line. Returns the cell's code, as perfect_hold does. */
LOOM_LANE uint32_t perfect_hold_next(loom__slot_kind kind, const perfect_owner *owner, const perfect_beside *beside,
                                     lane_truth active, uint32_t *cell)
{
    const int first = beside->turn == 0;
    const uint32_t other = perfect_cell_in(kind, owner, &beside->line, beside->turn - 1);
    *cell = first ? perfect_cell(beside->seek.place) : other;
    lane_truth wanted = active && *cell != UINT32_MAX;
    if (first && wanted)
        wanted = perfect_mark_in(lane_load_4(&owner->view->marks[owner->partition_index])) == PERFECT_UNMARKED;
    return perfect_hold(owner, *cell, wanted);
}

/* Called when the group holds the key's cell and has looked for the key: handles the key, if it exists. With FETCH all
 * lanes get the value. */
LOOM_LANE void perfect_meet_found(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule,
                                  const perfect_owner *owner, const perfect_beside *beside, const perfect_look *look,
                                  uint64_t *value)
{
    if (look->mine)
        perfect_meet(kind, mode, rule, owner->shared, owner->view, &beside->seek, look->slot, look->pair, value);
    if (mode == SLOT_FETCH) {
        const uint64_t met = lane_sum(owner->alone, look->mine ? *value : 0);
        *value = look->found ? met : *value;
    }
}

/* One turn of an insertion by the group: tries one more cell. `beside` has the key, which belongs to the owner's
 * partition. AGAIN: the caller takes another turn. There are at most as many turns as slots in a bucket, plus one.
 * OVERFLOW: the key is left to the owner; it may exist, if another group holds its cell. With FETCH all lanes get the
 * value. */
LOOM_LANE perfect_outcome perfect_insert_beside(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule,
                                                const perfect_owner *owner, perfect_beside *beside, uint64_t *value,
                                                lane_truth active)
{
    const int first = beside->turn == 0;
    uint32_t cell;
    const uint32_t from = perfect_hold_next(kind, owner, beside, active, &cell);
    const lane_truth held = from != PERFECT_STASHED;
    if (first) {
        beside->code = from;
        beside->seek.bucket = perfect_bucket(beside->seek.place, from, owner->salt, owner->view->subrange);
    }
    if (first && held)
        perfect_take_line(kind, owner, beside->seek.bucket, &beside->line, 1);
    const perfect_look look = perfect_look_in(kind, owner->alone, &beside->line, beside->seek.key, first && held);
    const lane_truth there = look.found, room = perfect_has_room(kind, owner, &beside->line, first && held);
    perfect_meet_found(kind, mode, rule, owner, beside, &look, value);
    uint32_t to = from;
    const lane_truth moved = perfect_try_cell(kind, owner, beside, cell, &to, held && !there && !room);
    if (first) {
        beside->code = to;
        beside->seek.bucket = perfect_bucket(beside->seek.place, to, owner->salt, owner->view->subrange);
    }
    lane_truth stored = 0;
    if ((moved || room) && !there && lane_leads(owner->alone)) /* another group may still be faster */
        stored = perfect_store(kind, owner->shared, owner->view, &beside->seek, *value) != PERFECT_NO_SLOT;
    stored = lane_some(lane_poll(owner->alone, stored));
    beside->turn++;
    /* Once the key's own cell has moved, the line is no longer the key's bucket. If there was no room in the new
     * bucket, the group gives up. */
    const lane_truth over = beside->turn > perfect_slots(kind) || (first && (!held || moved));
    const lane_truth ends = stored || there || over;
    if (active && lane_leads(owner->alone)) {
        lane_release(owner->shared); /* what the whole group did: its lanes have joined since */
        if (held && !first)
            perfect_give_back(owner, cell, to);
        if (ends && beside->code != PERFECT_STASHED)
            perfect_give_back(owner, perfect_cell(beside->seek.place), beside->code);
    }
    return there ? PERFECT_WAS_THERE : stored ? PERFECT_DONE : over ? PERFECT_OVERFLOW : PERFECT_AGAIN;
}

#endif
