/* The perfect engine's algorithms, as long as no code changes: what a lane group does to the one bucket of a key. Written once;
 * every machine compiles them. How room is made in a full bucket, which changes codes: perfect_recode.h, perfect_repair.h,
 * perfect_room.h.
 *
 * From "GPH: An Efficient and Effective Perfect Hashing Scheme for GPU Architectures" (Cao, Xu, Yiu, Qin and others, SIGMOD
 * 2025) come cells with a mapping Φ and an offset Δ, R = 8 virtual buckets for each cell, and insertion in two steps: where there
 * is room first, without a change of codes, then moves of cells. We differ: buckets of 64 bytes, the price of one access, instead
 * of 128; a cell's eight buckets lie in eight disjoint subranges of a partition, so that it never meets itself and its keys need
 * not be looked for in other partitions; a code has 4 bits instead of a byte, and a cell 3 to 6 keys (with 16 slots to a bucket 4
 * to 8), so that codes take 0.5 to 1.4 bits a key and stay in a GPU's L2 cache instead of being spread over its shared
 * memories; and a stash bucket takes cells that no code places, at the price of one bucket to a lookup, as for all others.
 *
 * Invariants, between calls:
 *   P1  A key lies in the bucket that its cell's code names, and nowhere else, at most once.
 *   P2  A slot that holds no key holds the partition's empty key, and zero bytes as its value.
 *   P3  All words of a partition carry the same salt; codes of cells without keys may be any.
 * Hence a lookup reads one word of codes and one bucket, whatever it finds.
 *
 * Several groups work at the same time (`shared` = 1), each kind of writers with itself alone; the handle sees to it. Nothing
 * reads the table meanwhile. Codes stand still, so equal keys have one and the same bucket, as chains of one bucket in
 * open_ops.h, whose argument holds here: an insertion takes the lowest free slot that it sees, by a swap, *its linearisation point*;
 * slots are only ever filled while insertions run, so two insertions of one key cannot both succeed. A swap that fails means
 * that somebody filled a slot: there are at most as many as slots. Who finds the bucket full is told so (OVERFLOW); its bucket
 * stays full until somebody makes room, which no other call does meanwhile.
 *   Values outside the line are stored after their key was. That is soon enough for those who keep and those who overwrite: of
 *   equal keys in one batch any one wins. Who must see the first value (find-or-insert, accumulate) leaves absent keys to
 *   those who make room, and hold the key's cell or own its partition.
 *   Erase swaps the pair, or the key, for the empty one, *its linearisation point*. Of two erases of a key one succeeds. */
#ifndef LOOM_PERFECT_OPS_H
#define LOOM_PERFECT_OPS_H

#include "core/slot_ops.h"
#include "engines/perfect/perfect_layout.h"

typedef enum perfect_outcome {
    PERFECT_AGAIN = 0, /* not decided: take another turn */
    PERFECT_DONE,      /* found, stored as new, updated or erased */
    PERFECT_WAS_THERE, /* insert: the key existed */
    PERFECT_ABSENT,    /* find, update, erase: the key is not in the table */
    PERFECT_OVERFLOW,  /* insert: the key is not in the table, or not known to be, and not for this lane to store */
    PERFECT_NO_ROOM    /* insert: room cannot be made */
} perfect_outcome;

enum { PERFECT_NO_SLOT = 16 }; /* more than there are in any bucket */

/* A key and its one bucket. */
typedef struct perfect_seek {
    uint64_t key;
    unsigned char *partition; /* its memory */
    uint32_t partition_index;
    uint32_t bucket; /* from perfect_settle on */
    perfect_place place;
} perfect_seek;

LOOM_LANE unsigned char *perfect_line(loom__slot_kind kind, unsigned char *partition, uint32_t bucket)
{
    return partition + (uint64_t)bucket * perfect_line_stride(kind);
}

LOOM_LANE unsigned char *perfect_value(loom__slot_kind kind, const loom__perfect_view *view, unsigned char *partition,
                                       uint32_t bucket, uint32_t slot)
{
    return partition + perfect_value_offset(kind, perfect_buckets(view->subrange)) +
           (uint64_t)bucket * perfect_value_stride(kind) + slot * slot_value_bytes(kind);
}

LOOM_LANE perfect_seek perfect_start(loom__slot_kind kind, const loom__perfect_view *view, uint64_t key)
{
    perfect_seek seek;
    uint64_t hash = loom__hash_key(key, slot_key_bytes(kind), view->seed);
    seek.key = key;
    seek.partition_index = loom__hash_partition(hash, view->partitions);
    seek.partition = view->base + loom__multiply_wide(seek.partition_index, view->partition_bytes);
    seek.place = perfect_place_of((uint32_t)hash, view->words);
    seek.bucket = 0;
    return seek;
}

LOOM_LANE uint64_t *perfect_word_of(const loom__perfect_view *view, const perfect_seek *seek)
{
    return view->codes + (loom__multiply_wide(seek->partition_index, view->words) + seek->place.word);
}

/* With the word that holds the code of its cell a key has a bucket. */
LOOM_LANE void perfect_settle(const loom__perfect_view *view, perfect_seek *seek, uint64_t word)
{
    seek->bucket =
        perfect_bucket(seek->place, perfect_code(word, seek->place.which), perfect_salt(word), view->subrange);
}

LOOM_LANE perfect_seek perfect_seek_key(loom__slot_kind kind, const loom__perfect_view *view, uint64_t key)
{
    perfect_seek seek = perfect_start(kind, view, key);
    perfect_settle(view, &seek, lane_load_8(perfect_word_of(view, &seek)));
    return seek;
}

/* Bytes that a hit reads, if they lie together. */
LOOM_LANE uint32_t perfect_span(loom__slot_kind kind)
{
    return kind == SLOT_KEY_8_VALUE_8 ? 128 : 64;
}

/* ---- find ---- */

/* Numbers, not an outcome: a CPU must not branch on whether a key was found. */
typedef struct perfect_look {
    lane_truth found; /* a lane of this group holds the key */
    lane_truth mine;  /* this lane holds it … */
    uint32_t slot;    /* … in this slot */
    uint64_t pair;    /* PAIR_4_4: the pair itself */
} perfect_look;

/* Looks for the key in a line that was taken. */
LOOM_LANE perfect_look perfect_look_in(loom__slot_kind kind, lane_group group, const lane_line *line, uint64_t key,
                                       lane_truth active)
{
    perfect_look look;
    lane_slots hits = lane_match(line, slot_key_bytes(kind), slot_stride(kind), perfect_slots(kind), key);
    look.mine = active & lane_any(hits);
    look.slot = lane_first(hits, slot_stride(kind));
    look.pair = kind == SLOT_PAIR_4_4 ? lane_word(line, hits, look.slot) : 0;
    look.found = lane_some(lane_poll(group, look.mine));
    return look;
}

LOOM_LANE perfect_look perfect_look_at(loom__slot_kind kind, int shared, lane_group group, const unsigned char *at,
                                       uint64_t key, lane_truth active)
{
    lane_line line;
    lane_take(group, &line, at, shared, active, perfect_span(kind));
    return perfect_look_in(kind, group, &line, key, active);
}

LOOM_LANE perfect_look perfect_find(loom__slot_kind kind, int shared, lane_group group, const perfect_seek *seek,
                                    lane_truth active)
{
    return perfect_look_at(kind, shared, group, perfect_line(kind, seek->partition, seek->bucket), seek->key, active);
}

/* ---- insert ---- */

/* Puts the key into a slot that was free, and the value, where it lies beside it. False: somebody else took it. */
LOOM_LANE lane_truth perfect_claim_slot(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                        const perfect_seek *seek, uint32_t slot, uint64_t value)
{
    unsigned char *at = perfect_line(kind, seek->partition, seek->bucket) + slot * slot_stride(kind);
    uint64_t empty = perfect_empty(view, seek->partition_index);
    if (kind == SLOT_PAIR_4_4) {
        uint64_t free_pair = slot_pair(empty, 0);
        return lane_swap_8((uint64_t *)at, free_pair, slot_pair(seek->key, value), shared) == free_pair;
    }
    return slot_swap_key(kind, shared, at, empty, seek->key);
}

/* The same, and the value wherever it lies. No slot becomes free while this goes on. */
LOOM_LANE lane_truth perfect_claim(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                   const perfect_seek *seek, uint32_t slot, uint64_t value)
{
    if (!perfect_claim_slot(kind, shared, view, seek, slot, value))
        return 0;
    if (slot_values_apart(kind))
        slot_store_value(kind, perfect_value(kind, view, seek->partition, seek->bucket, slot), value);
    return 1;
}

/* Meets a key that is there, in `slot`, and does with it as the mode says; FETCH puts its value into *value. A swap that
 * fails has met another overwrite of the same key, which then counts as the later one. */
LOOM_LANE void perfect_meet(loom__slot_kind kind, slot_mode mode, loom__how how, int shared,
                            const loom__perfect_view *view, const perfect_seek *seek, uint32_t slot, uint64_t pair,
                            uint64_t *value)
{
    if (kind == SLOT_PAIR_4_4) {
        uint64_t *there = (uint64_t *)(perfect_line(kind, seek->partition, seek->bucket) + slot * 8);
        if (mode == SLOT_OVERWRITE)
            (void)lane_swap_8(there, pair, slot_pair(seek->key, *value), shared);
        else if (mode == SLOT_COMBINE)
            slot_combine_pair(shared, there, pair, how, seek->key, *value);
        else if (mode == SLOT_FETCH)
            *value = pair >> 32;
    } else if (slot_values_apart(kind) && mode != SLOT_KEEP) {
        unsigned char *at = perfect_value(kind, view, seek->partition, seek->bucket, slot);
        if (mode == SLOT_FETCH)
            *value = slot_load_value(kind, at);
        else if (mode == SLOT_OVERWRITE)
            slot_store_value(kind, at, *value);
        else if (slot_value_bytes(kind) == 8)
            lane_combine_8((uint64_t *)at, how, *value, shared);
        else
            lane_combine_4((uint32_t *)at, how, (uint32_t)*value, shared);
    }
}

/* May a group store an absent key while others do the same? */
LOOM_LANE lane_truth perfect_may_claim(loom__slot_kind kind, slot_mode mode, int shared)
{
    return !shared || !slot_values_apart(kind) || mode == SLOT_KEEP || mode == SLOT_OVERWRITE;
}

/* One look of an insertion at its bucket. AGAIN: a slot was lost to another group; at most as often as there are slots. *tells:
 * this lane has met or stored the key, and *value is, with FETCH, what the table holds. */
LOOM_LANE perfect_outcome perfect_insert_turn(loom__slot_kind kind, slot_mode mode, loom__how how, int shared,
                                              lane_group group, const loom__perfect_view *view,
                                              const perfect_seek *seek, uint64_t *value, lane_truth active,
                                              lane_truth *tells)
{
    const uint32_t stride = slot_stride(kind), slots = perfect_slots(kind), key_bytes = slot_key_bytes(kind);
    lane_line line;
    lane_take(group, &line, perfect_line(kind, seek->partition, seek->bucket), shared, active, PERFECT_LINE_BYTES);
    lane_slots hits = lane_match(&line, key_bytes, stride, slots, seek->key);
    lane_slots frees = lane_match(&line, key_bytes, stride, slots, perfect_empty(view, seek->partition_index));
    lane_votes holders = lane_poll(group, active & lane_any(hits));
    lane_votes offers = lane_poll(group, active & lane_any(frees));
    lane_truth there = lane_some(holders), room = perfect_may_claim(kind, mode, shared) & lane_some(offers);

    /* What a lane does by itself comes back to the group as a vote. */
    lane_truth done = 0;
    if (there) {
        if (lane_chosen(group, holders)) {
            uint32_t slot = lane_first(hits, stride);
            perfect_meet(kind, mode, how, shared, view, seek, slot,
                         kind == SLOT_PAIR_4_4 ? lane_word(&line, hits, slot) : 0, value);
            done = 1;
        }
    } else if (room && lane_chosen(group, offers)) {
        done = perfect_claim(kind, shared, view, seek, lane_first(frees, stride), *value);
    }
    *tells = done;
    done = lane_some(lane_poll(group, done));
    if (there)
        return PERFECT_WAS_THERE;
    if (!room)
        return PERFECT_OVERFLOW;
    return done ? PERFECT_DONE : PERFECT_AGAIN;
}

/* A whole insertion, by a group that turns by itself. With FETCH all of its lanes have the value. */
LOOM_LANE perfect_outcome perfect_insert_alone(loom__slot_kind kind, slot_mode mode, loom__how how, int shared,
                                               lane_group alone, const loom__perfect_view *view,
                                               const perfect_seek *seek, uint64_t *value)
{
    perfect_outcome outcome;
    lane_truth tells;
    do
        outcome = perfect_insert_turn(kind, mode, how, shared, alone, view, seek, value, 1, &tells);
    while (outcome == PERFECT_AGAIN);
    if (mode == SLOT_FETCH && outcome != PERFECT_OVERFLOW)
        *value = lane_sum(alone, tells ? *value : 0);
    return outcome;
}

/* One lane stores a key that is absent; several do so at the same time, and others may empty slots. Returns its slot, or
 * PERFECT_NO_SLOT: there was none to be had. */
LOOM_LANE uint32_t perfect_store(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                 const perfect_seek *seek, uint64_t value)
{
    const unsigned char *line = perfect_line(kind, seek->partition, seek->bucket);
    const uint64_t empty = perfect_empty(view, seek->partition_index);
    for (uint32_t turn = 0; turn < perfect_slots(kind); turn++) { /* a slot that is lost is filled */
        uint32_t free_slots = 0;
        LOOM_UNROLL
        for (uint32_t slot = 0; slot < perfect_slots(kind); slot++)
            free_slots |= (uint32_t)(slot_key(kind, line, slot) == empty) << slot;
        if (free_slots == 0)
            break;
        const uint32_t slot = loom__lowest_bit(free_slots);
        if (perfect_claim_slot(kind, shared, view, seek, slot, value)) {
            if (slot_values_apart(kind)) {
                lane_acquire(shared); /* who emptied the slot has written zero there (perfect_clear_slot) */
                slot_store_value(kind, perfect_value(kind, view, seek->partition, seek->bucket, slot), value);
            }
            return slot;
        }
    }
    return PERFECT_NO_SLOT;
}

/* ---- update ---- */

/* Gives a new value to a key that is there. Keys do not come or go while updates run. */
LOOM_LANE perfect_outcome perfect_update(loom__slot_kind kind, int shared, lane_group group,
                                         const loom__perfect_view *view, const perfect_seek *seek, uint64_t value,
                                         lane_truth active)
{
    perfect_look look = perfect_find(kind, shared, group, seek, active);
    if (look.mine) /* on one lane at most (P1) */
        perfect_meet(kind, SLOT_OVERWRITE, LOOM__ADD, shared, view, seek, look.slot, look.pair, &value);
    return look.found ? PERFECT_DONE : PERFECT_ABSENT;
}

/* ---- erase ---- */

/* Empties a slot that holds the key. False: another erase was first. */
LOOM_LANE lane_truth perfect_free_slot(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                       const perfect_seek *seek, uint32_t slot, uint64_t pair)
{
    unsigned char *at = perfect_line(kind, seek->partition, seek->bucket) + slot * slot_stride(kind);
    uint64_t empty = perfect_empty(view, seek->partition_index);
    if (kind == SLOT_PAIR_4_4)
        return lane_swap_8((uint64_t *)at, pair, slot_pair(empty, 0), shared) == pair;
    if (!slot_swap_key(kind, shared, at, seek->key, empty))
        return 0;
    if (slot_values_apart(kind))
        slot_store_value(kind, perfect_value(kind, view, seek->partition, seek->bucket, slot), 0); /* P2 */
    return 1;
}

/* Empties a slot whose key is for nobody else to touch. With `shared` others may take it as soon as it is empty. */
LOOM_LANE void perfect_clear_slot(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                  unsigned char *partition, uint32_t bucket, uint32_t slot, uint64_t empty)
{
    unsigned char *line = perfect_line(kind, partition, bucket);
    if (kind == SLOT_PAIR_4_4) {
        lane_store_8((uint64_t *)line + slot, slot_pair(empty, 0));
        return;
    }
    if (slot_values_apart(kind)) {
        slot_store_value(kind, perfect_value(kind, view, partition, bucket, slot), 0);
        lane_release(shared); /* zero first: who takes the slot stores a value of its own */
    }
    slot_store_key(kind, line, slot, empty);
}

/* The value in a slot of a partition that the lane owns, or of which nobody else touches the slot. `pair`, of PAIR_4_4: what the slot
 * holds. */
LOOM_LANE uint64_t perfect_value_in(loom__slot_kind kind, const loom__perfect_view *view, unsigned char *partition,
                                    uint32_t bucket, uint32_t slot, uint64_t pair)
{
    if (kind == SLOT_PAIR_4_4)
        return pair >> 32;
    return slot_values_apart(kind) ? slot_load_value(kind, perfect_value(kind, view, partition, bucket, slot)) : 0;
}

/* Empties such a slot; tells the value that was there. */
LOOM_LANE uint64_t perfect_take_slot(loom__slot_kind kind, const loom__perfect_view *view, unsigned char *partition,
                                     uint32_t bucket, uint32_t slot, uint64_t pair, uint64_t empty)
{
    const uint64_t value = perfect_value_in(kind, view, partition, bucket, slot, pair);
    perfect_clear_slot(kind, 0, view, partition, bucket, slot, empty);
    return value;
}

LOOM_LANE perfect_outcome perfect_erase(loom__slot_kind kind, int shared, lane_group group,
                                        const loom__perfect_view *view, const perfect_seek *seek, lane_truth active)
{
    perfect_look look = perfect_find(kind, shared, group, seek, active);
    lane_truth erased = 0;
    if (look.mine) { /* on one lane at most (P1) */
        erased = perfect_free_slot(kind, shared, view, seek, look.slot, look.pair);
        uint32_t *mark = &view->marks[seek->partition_index];
        if (erased && lane_load_4(mark) != PERFECT_UNMARKED)
            lane_store_4(mark, PERFECT_UNMARKED);
    }
    erased = lane_some(lane_poll(group, erased));
    return erased ? PERFECT_DONE : PERFECT_ABSENT;
}

#endif
