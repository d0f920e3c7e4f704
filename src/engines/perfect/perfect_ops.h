/* The perfect engine's algorithms that change no code: what a lane group does to the one bucket of a key. They are
 * written once; every machine compiles them. perfect_recode.h, perfect_repair.h and perfect_room.h change codes to make
 * room in a full bucket.
 *
 * From "GPH: An Efficient and Effective Perfect Hashing Scheme for GPU Architectures" (Cao, Xu, Yiu, Qin and others,
 * SIGMOD 2025) come cells with a mapping Φ and an offset Δ, R = 8 virtual buckets for each cell, and insertion in two
 * steps: first without a change of codes, where there is room, then with moves of cells. We differ:
 *   - Buckets have 64 bytes, the price of one access, instead of 128.
 *   - A cell's eight buckets lie in eight disjoint subranges of one partition. So a cell never collides with itself,
 *     and its keys are never in other partitions.
 *   - A code has 4 bits instead of a byte. A cell has 3 to 6 keys; with 16 slots to a bucket, 4 to 8. So codes take 0.5
 *     to 1.4 bits a key and stay in a GPU's L2 cache. The paper spreads its codes over the GPU's shared memories.
 *   - A stash bucket takes cells that no code places. Their keys cost a lookup one bucket, as all others do.
 *
 * Invariants, between calls:
 *   P1  A key lies in the bucket that its cell's code names, and nowhere else, at most once.
 *   P2  A slot that holds no key holds the partition's empty key, and zero bytes as its value.
 *   P3  All words of a partition carry the same salt. A cell without keys may have any code.
 * Hence a lookup reads one word of codes and one bucket, whether or not it finds the key.
 *
 * Several groups may write at the same time (`shared` = 1). The table's handle lets one kind of write run at a time,
 * and no reads at the same time. Codes do not change during these writes, so equal keys have the same bucket. This
 * bucket is a chain of length one, and the argument of open_ops.h holds for it. By a swap, an insertion claims the
 * lowest free slot that it sees. The swap is *its linearisation point*. While insertions run, slots are only filled, so
 * two insertions of one key cannot both succeed. A swap fails only if another group filled the slot, so an insertion
 * loses at most as many swaps as there are slots. An insertion that finds the bucket full gets OVERFLOW. The bucket
 * stays full until room is made. No call makes room while these insertions run.
 *   Values outside the line are stored after their key. This is soon enough for the modes that keep or overwrite,
 *   because any one of equal keys in a batch may win. Modes that must see the first value (find-or-insert, accumulate)
 *   do not store absent keys here. The code that makes room stores them, while it holds the key's cell or owns its
 *   partition.
 *   Erase swaps the pair, or the key, for the empty one. The swap is *its linearisation point*. Of two erases of a key
 *   one succeeds. */
#ifndef LOOM_PERFECT_OPS_H
#define LOOM_PERFECT_OPS_H

#include "core/slot_ops.h"
#include "engines/perfect/perfect_effort.h"

typedef enum perfect_outcome {
    PERFECT_AGAIN = 0, /* not decided: try again */
    PERFECT_DONE,      /* found, stored as new, updated or erased */
    PERFECT_WAS_THERE, /* insert: the key existed */
    PERFECT_ABSENT,    /* find, update, erase: the key is not in the table */
    PERFECT_OVERFLOW,  /* insert: not stored here, left to code that makes room; the key is absent or may exist */
    PERFECT_NO_ROOM    /* insert: room cannot be made */
} perfect_outcome;

enum { PERFECT_NO_SLOT = 16 }; /* more than the number of any slot */

/* A key and its one bucket. */
typedef struct perfect_seek {
    uint64_t key;
    unsigned char *partition; /* its memory */
    uint32_t partition_index;
    uint32_t bucket; /* set by perfect_settle */
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

/* Computes the key's bucket from the word that holds its cell's code. */
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

/* Bytes from the start of a line that a hit will probably need: the hint for lane_take. */
LOOM_LANE uint32_t perfect_span(loom__slot_kind kind)
{
    return kind == SLOT_KEY_8_VALUE_8 ? 128 : 64;
}

/* ---- find ---- */

/* The result of a search. Its fields are numbers, not an outcome, because a CPU must not branch on whether a key was
 * found. */
typedef struct perfect_look {
    lane_truth found; /* a lane of this group holds the key */
    lane_truth mine;  /* this lane holds it … */
    uint32_t slot;    /* … in this slot */
    uint64_t pair;    /* PAIR_4_4: the pair itself */
} perfect_look;

/* Looks for the key in a line that is already loaded. */
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

/* Puts the key into a slot that was free; in PAIR_4_4 the value goes with it. False: another group took the slot. */
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

/* Does the same as perfect_claim_slot, and stores the value wherever it lies. No slot becomes free while this runs. */
LOOM_LANE lane_truth perfect_claim(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                   const perfect_seek *seek, uint32_t slot, uint64_t value)
{
    if (!perfect_claim_slot(kind, shared, view, seek, slot, value))
        return 0;
    if (slot_values_apart(kind))
        slot_store_value(kind, perfect_value(kind, view, seek->partition, seek->bucket, slot), value);
    return 1;
}

/* Handles a key that exists, in `slot`, as the mode says. FETCH puts the key's value into *value. If the swap of an
 * overwrite fails, another overwrite of the same key came between, and counts as the later one. */
LOOM_LANE void perfect_meet(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                            const loom__perfect_view *view, const perfect_seek *seek, uint32_t slot, uint64_t pair,
                            uint64_t *value)
{
    if (kind == SLOT_PAIR_4_4) {
        uint64_t *there = (uint64_t *)(perfect_line(kind, seek->partition, seek->bucket) + slot * 8);
        if (mode == SLOT_OVERWRITE)
            (void)lane_swap_8(there, pair, slot_pair(seek->key, *value), shared);
        else if (mode == SLOT_COMBINE)
            slot_combine_pair(shared, there, pair, rule, seek->key, *value);
        else if (mode == SLOT_FETCH)
            *value = pair >> 32;
    } else if (slot_values_apart(kind) && mode != SLOT_KEEP) {
        unsigned char *at = perfect_value(kind, view, seek->partition, seek->bucket, slot);
        if (mode == SLOT_FETCH)
            *value = slot_load_value(kind, at);
        else if (mode == SLOT_OVERWRITE)
            slot_store_value(kind, at, *value);
        else if (slot_value_bytes(kind) == 8)
            lane_combine_8((uint64_t *)at, rule, *value, shared);
        else
            lane_combine_4((uint32_t *)at, rule, (uint32_t)*value, shared);
    }
}

/* May a group store an absent key while others do the same? */
LOOM_LANE lane_truth perfect_may_claim(loom__slot_kind kind, slot_mode mode, int shared)
{
    return !shared || !slot_values_apart(kind) || mode == SLOT_KEEP || mode == SLOT_OVERWRITE;
}

/* One attempt of an insertion at its bucket. AGAIN: another group took the slot first; at most once for each slot.
 * *tells is set on the lane that found or stored the key. With FETCH, *value on that lane is what the table holds. */
LOOM_LANE perfect_outcome perfect_insert_turn(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
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

    /* One lane acts; a vote tells the group the result. */
    lane_truth done = 0;
    if (there) {
        if (lane_chosen(group, holders)) {
            uint32_t slot = lane_first(hits, stride);
            perfect_meet(kind, mode, rule, shared, view, seek, slot,
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

/* A whole insertion, by a group that runs by itself. With FETCH all of its lanes get the value. */
LOOM_LANE perfect_outcome perfect_insert_alone(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule,
                                               int shared, lane_group alone, const loom__perfect_view *view,
                                               const perfect_seek *seek, uint64_t *value)
{
    perfect_outcome outcome;
    lane_truth tells;
    do
        outcome = perfect_insert_turn(kind, mode, rule, shared, alone, view, seek, value, 1, &tells);
    while (outcome == PERFECT_AGAIN);
    if (mode == SLOT_FETCH && outcome != PERFECT_OVERFLOW)
        *value = lane_sum(alone, tells ? *value : 0);
    return outcome;
}

/* One lane stores an absent key. Other lanes may store keys or empty slots at the same time. Returns the slot, or
 * PERFECT_NO_SLOT if the lane could claim none. */
LOOM_LANE uint32_t perfect_store(loom__slot_kind kind, int shared, const loom__perfect_view *view,
                                 const perfect_seek *seek, uint64_t value)
{
    const unsigned char *line = perfect_line(kind, seek->partition, seek->bucket);
    const uint64_t empty = perfect_empty(view, seek->partition_index);
    for (uint32_t turn = 0; turn < perfect_slots(kind); turn++) { /* each lost swap means a filled slot */
        uint32_t free_slots = 0;
        LOOM_UNROLL
        for (uint32_t slot = 0; slot < perfect_slots(kind); slot++)
            free_slots |= (uint32_t)(slot_key(kind, line, slot) == empty) << slot;
        if (free_slots == 0)
            break;
        const uint32_t slot = loom__lowest_bit(free_slots);
        if (perfect_claim_slot(kind, shared, view, seek, slot, value)) {
            if (slot_values_apart(kind)) {
                lane_acquire(shared); /* the lane that emptied the slot wrote zero there (perfect_clear_slot) */
                slot_store_value(kind, perfect_value(kind, view, seek->partition, seek->bucket, slot), value);
            }
            return slot;
        }
    }
    return PERFECT_NO_SLOT;
}

/* ---- update ---- */

/* Gives an existing key a new value. No key is inserted or erased while updates run. */
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

/* Empties a slot whose key no other lane may touch. With `shared`, other lanes may claim the slot as soon as it is
 * empty. */
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
        lane_release(shared); /* zero first: the lane that claims the slot stores its own value */
    }
    slot_store_key(kind, line, slot, empty);
}

/* Returns the key in a slot. In PAIR_4_4, *pair gets the whole content of the slot. */
LOOM_LANE uint64_t perfect_load_slot(loom__slot_kind kind, const unsigned char *line, uint32_t slot, uint64_t *pair)
{
    *pair = kind == SLOT_PAIR_4_4 ? lane_load_8((const uint64_t *)line + slot) : 0;
    return kind == SLOT_PAIR_4_4 ? (uint32_t)*pair : slot_key(kind, line, slot);
}

/* The value in a slot that no other lane touches. `pair` is what perfect_load_slot stored in *pair. */
LOOM_LANE uint64_t perfect_value_in(loom__slot_kind kind, const loom__perfect_view *view, unsigned char *partition,
                                    uint32_t bucket, uint32_t slot, uint64_t pair)
{
    if (kind == SLOT_PAIR_4_4)
        return pair >> 32;
    return slot_values_apart(kind) ? slot_load_value(kind, perfect_value(kind, view, partition, bucket, slot)) : 0;
}

/* Empties a slot that no other lane touches, and returns its value. */
LOOM_LANE uint64_t perfect_take_slot(loom__slot_kind kind, const loom__perfect_view *view, unsigned char *partition,
                                     uint32_t bucket, uint32_t slot, uint64_t pair, uint64_t empty)
{
    const uint64_t value = perfect_value_in(kind, view, partition, bucket, slot, pair);
    perfect_clear_slot(kind, 0, view, partition, bucket, slot, empty);
    return value;
}

/* One lane reports that so many keys have left the partition. Other lanes may do the same. */
LOOM_LANE void perfect_repay(int shared, const loom__perfect_view *view, uint32_t partition, uint32_t keys)
{
    uint32_t *at = &view->marks[partition], word = lane_load_4(at);
    while (word != 0) { /* a lost swap means that other keys were reported */
        const uint32_t old = lane_swap_4(at, word, perfect_repaid(word, keys), shared);
        if (old == word)
            break;
        word = old;
    }
}

LOOM_LANE perfect_outcome perfect_erase(loom__slot_kind kind, int shared, lane_group group,
                                        const loom__perfect_view *view, const perfect_seek *seek, lane_truth active)
{
    perfect_look look = perfect_find(kind, shared, group, seek, active);
    lane_truth erased = 0;
    if (look.mine) { /* on one lane at most (P1) */
        erased = perfect_free_slot(kind, shared, view, seek, look.slot, look.pair);
        if (erased)
            perfect_repay(shared, view, seek->partition_index, 1);
    }
    erased = lane_some(lane_poll(group, erased));
    return erased ? PERFECT_DONE : PERFECT_ABSENT;
}

#endif
