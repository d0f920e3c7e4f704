/* The open engine's algorithms: what a lane group does to a bucket. Written once; every machine compiles them.
 *
 * From "WarpCore: A Library for fast Hash Tables on GPUs" (Jünger, Kobus, Müller, Hundt, Xu, Liu, Schmidt, HiPC 2020)
 * come lane groups that probe a bucket together and a chain that jumps by a second hash. We differ in that a chain stays
 * in its partition; in the *overflow filter*, which ends the search for an absent key after 1.03 buckets at load 0.9,
 * full buckets or not; in erasing without tombstones; and in having no forbidden key.
 *
 * The chain of a key: its home bucket, then on by its step, round the partition; `buckets` is prime, so the chain visits
 * every bucket once. Chains are followed in *turns* of one bucket, so that a machine can keep many keys in flight.
 *
 * Invariants, between calls:
 *   I1  A key lies in a bucket of its own partition, on its chain, at most once.
 *   I2  If it lies at depth d, its filter bit is set in the buckets at depth 0 .. d - 1 of its chain.
 *   I3  A slot that holds no key holds the partition's empty key, and zero bytes as its value.
 *   I4  With values outside the line: a slot's ready bit is set if and only if the slot holds a key.
 *   I5  A partition whose no_room is 1 has no free slot. (One without a free slot need not be marked.)
 * Hence a search ends at the first bucket that holds the key or lacks its bit. Bits left behind by erased keys are never
 * wrong, only slow.
 *
 * Within a call, several groups work at the same time (`shared` = 1). Only calls of one kind overlap: the handle's lock
 * sees to it. Slots are then only ever filled (insert) or only ever freed (erase).
 *   Insert looks at the whole chain up to the first bucket without its bit, remembers the first free slot, sets its bit
 *   in all buckets before that slot (I2 holds before the key is visible), and swaps the key in. *Linearisation: the
 *   successful swap* (with values outside the line: setting the ready bit). Two inserts of one key cannot both succeed:
 *   let A have put it into slot s. B's first free slot was before s on the chain: A saw that slot filled, so B's swap
 *   fails. It was s: the swap fails. It was behind s: B saw s filled while A found it free later, yet slots are not
 *   freed. After a failed swap B looks again from that bucket on; all earlier buckets were full, without the key, and
 *   stay so. A failed swap means that somebody filled a slot, so there are at most as many as slots.
 *   With values outside the line an overwrite that meets a key whose first value is still being stored may be overtaken by
 *   it: of equal keys in a batch any one may win.
 *   A refused insert has visited every bucket of its partition and found no free slot; it sets no filter bit but marks the
 *   partition (I5). Who sees the mark looks once more from its home and is refused at the first bucket without its bit:
 *   the partition was full before the mark was set, so by then its key's bits are there if the key is. Erasing removes the
 *   mark.
 *   Erase swaps the pair for an empty one, *its linearisation point*; with values outside the line it is clearing the
 *   ready bit, and whoever cleared it empties the slot. Of two erases of one key exactly one succeeds.
 */
#ifndef LOOM_OPEN_OPS_H
#define LOOM_OPEN_OPS_H

#include "core/lanes.h"
#include "engines/open/open_layout.h"

typedef enum open_outcome {
    OPEN_GO_ON = 0, /* not decided: take another turn */
    OPEN_DONE,      /* found, stored as new, or erased */
    OPEN_WAS_THERE, /* insert: the key existed */
    OPEN_ABSENT,    /* find, erase: the key is not in the table */
    OPEN_NO_ROOM    /* insert: every slot of the partition is taken */
} open_outcome;

#define OPEN_NO_SLOT UINT32_MAX

/* One key on its way along its chain. */
typedef struct open_walk {
    uint64_t key;
    unsigned char *partition; /* its memory */
    uint32_t partition_index;
    uint32_t lower; /* lower half of the hash: home, step and filter bit */
    uint32_t bucket;
    uint32_t depth; /* buckets passed; below view->buckets, which bounds every walk */
    /* insert: the first free slot seen on the chain */
    uint32_t free_bucket, free_depth, free_slot;
    uint32_t knows_full; /* insert: 1 once the partition was seen marked (I5) and the walk began anew */
} open_walk;

LOOM_LANE unsigned char *open_line(loom__open_kind kind, const open_walk *walk, uint32_t bucket)
{
    return walk->partition + (uint64_t)bucket * open_line_stride(kind);
}

/* The value of a slot; `line` is its bucket's. */
LOOM_LANE unsigned char *open_value(loom__open_kind kind, const loom__open_view *view, unsigned char *partition,
                                    const unsigned char *line, uint32_t slot)
{
    uint64_t lines = (uint64_t)(line - partition) / open_line_stride(kind) * open_value_stride(kind);
    return partition + open_value_offset(kind, view->buckets) + lines + slot * open_value_bytes(kind);
}

/* Keys lie this far apart in a line. */
LOOM_LANE uint32_t open_slot_stride(loom__open_kind kind)
{
    return kind == OPEN_PAIR_4_4 ? 8 : open_key_bytes(kind);
}

/* The key's bit in the word of every bucket it leaves. */
LOOM_LANE uint32_t open_filter_bit(loom__open_kind kind, uint32_t lower)
{
    uint32_t ready = open_ready_bits(kind);
    return ready + loom__hash_filter_bit(lower, 64 - ready);
}

LOOM_LANE uint64_t open_pair(uint64_t key, uint64_t value)
{
    return (uint32_t)key | value << 32;
}

LOOM_LANE open_walk open_start(loom__open_kind kind, const loom__open_view *view, uint64_t key)
{
    open_walk walk;
    uint64_t hash = loom__hash_key(key, open_key_bytes(kind), view->seed);
    walk.key = key;
    walk.partition_index = loom__hash_partition(hash, view->partitions);
    walk.partition = view->base + loom__multiply_wide(walk.partition_index, view->partition_bytes);
    walk.lower = (uint32_t)hash;
    walk.bucket = loom__hash_bucket(walk.lower, view->buckets);
    walk.depth = 0;
    walk.free_bucket = walk.free_depth = 0;
    walk.free_slot = OPEN_NO_SLOT;
    walk.knows_full = 0;
    return walk;
}

LOOM_LANE uint32_t open_next_bucket(const loom__open_view *view, uint32_t lower, uint32_t bucket)
{
    uint32_t next = bucket + loom__hash_step(lower, view->buckets);
    return next >= view->buckets ? next - view->buckets : next;
}

LOOM_LANE void open_advance(const loom__open_view *view, open_walk *walk)
{
    walk->bucket = open_next_bucket(view, walk->lower, walk->bucket);
    walk->depth++;
}

/* ---- find ---- */

/* Numbers, not an outcome: a CPU must not branch on whether a key was found. */
typedef struct open_look {
    uint32_t found;   /* 1: a lane of this group holds the key */
    uint32_t further; /* 1: its filter bit is set here */
    uint32_t mine;    /* 1: this lane holds the key … */
    uint32_t slot;    /* … in this slot */
    uint64_t pair;    /* PAIR_4_4: the pair itself */
} open_look;

LOOM_LANE open_look open_look_at(loom__open_kind kind, int shared, lane_group group, const unsigned char *at,
                                 uint64_t key, uint32_t filter_bit)
{
    lane_line line;
    open_look look;
    lane_take(group, &line, at, shared);
    lane_slots hits = lane_match(&line, open_key_bytes(kind), open_slot_stride(kind), open_slots(kind), key);
    look.mine = (uint32_t)lane_any(hits);
    look.slot = lane_first(hits, open_slot_stride(kind));
    look.pair = kind == OPEN_PAIR_4_4 ? lane_word(&line, look.slot) : 0;
    look.found = (uint32_t)lane_vote(group, (int)look.mine);
    look.further = (uint32_t)lane_vote(group, (int)(lane_filter(group, &line) >> filter_bit & 1));
    return look;
}

/* One bucket of a lookup. Does not advance; `further` is 0 at the end of the chain. */
LOOM_LANE open_look open_find_turn(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                   const open_walk *walk)
{
    open_look look = open_look_at(kind, shared, group, open_line(kind, walk, walk->bucket), walk->key,
                                  open_filter_bit(kind, walk->lower));
    look.further &= walk->depth + 1 < view->buckets;
    return look;
}

/* ---- insert ---- */

/* Sets the key's bit in the buckets at depth 0 .. depth - 1 (I2). At most `buckets` rounds. */
LOOM_LANE void open_mark_path(loom__open_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                              uint32_t depth)
{
    uint64_t mask = (uint64_t)1 << open_filter_bit(kind, walk->lower);
    uint32_t bucket = loom__hash_bucket(walk->lower, view->buckets);
    for (uint32_t passed = 0; passed < depth; passed++) {
        uint64_t *word = (uint64_t *)(open_line(kind, walk, bucket) + OPEN_WORD_OFFSET);
        if (!(lane_load_8(word) & mask))
            lane_or_8(word, mask, shared);
        bucket = open_next_bucket(view, walk->lower, bucket);
    }
}

LOOM_LANE void open_store_value(loom__open_kind kind, unsigned char *at, uint64_t value)
{
    if (open_value_bytes(kind) == 8)
        lane_store_8((uint64_t *)at, value);
    else
        lane_store_4((uint32_t *)at, (uint32_t)value);
}

/* Puts key and value into a slot that was free. False: somebody else took it. */
LOOM_LANE int open_claim(loom__open_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                         uint32_t bucket, uint32_t slot, uint64_t value)
{
    unsigned char *line = open_line(kind, walk, bucket), *at = line + slot * open_slot_stride(kind);
    uint64_t empty = open_empty(view, walk->partition_index);
    if (kind == OPEN_PAIR_4_4) {
        uint64_t free_pair = open_pair(empty, 0);
        return lane_swap_8((uint64_t *)at, free_pair, open_pair(walk->key, value), shared) == free_pair;
    }
    if (open_key_bytes(kind) == 4
            ? lane_swap_4((uint32_t *)at, (uint32_t)empty, (uint32_t)walk->key, shared) != (uint32_t)empty
            : lane_swap_8((uint64_t *)at, empty, walk->key, shared) != empty)
        return 0;
    open_store_value(kind, open_value(kind, view, walk->partition, line, slot), value);
    lane_or_8((uint64_t *)(line + OPEN_WORD_OFFSET), (uint64_t)1 << slot, shared); /* releases the value (I4) */
    return 1;
}

/* Gives a key that is there a new value. A swap that fails has met another overwrite of the same key, which then counts
 * as the later one; the key itself cannot go while inserts run. */
LOOM_LANE void open_replace(loom__open_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                            uint32_t slot, uint64_t pair, uint64_t value)
{
    unsigned char *line = open_line(kind, walk, walk->bucket);
    if (kind == OPEN_PAIR_4_4)
        lane_swap_8((uint64_t *)(line + slot * 8), pair, open_pair(walk->key, value), shared);
    else
        open_store_value(kind, open_value(kind, view, walk->partition, line, slot), value);
}

/* One bucket of an insertion. GO_ON: `walk` stands at the bucket of the next turn. */
LOOM_LANE open_outcome open_insert_turn(loom__open_kind kind, int overwrite, int shared, lane_group group,
                                        const loom__open_view *view, open_walk *walk, uint64_t value)
{
    lane_line line;
    uint32_t stride = open_slot_stride(kind), slots = open_slots(kind);
    lane_take(group, &line, open_line(kind, walk, walk->bucket), shared);
    lane_slots hits = lane_match(&line, open_key_bytes(kind), stride, slots, walk->key);
    lane_slots frees = lane_match(&line, open_key_bytes(kind), stride, slots, open_empty(view, walk->partition_index));
    int holder = lane_elect(group, lane_any(hits));
    int present = lane_vote(group, holder);
    int offers = lane_elect(group, lane_any(frees));
    int has_free = lane_vote(group, offers);
    int further = lane_vote(group, (int)(lane_filter(group, &line) >> open_filter_bit(kind, walk->lower) & 1));
    int last = walk->depth + 1 >= view->buckets;

    if (holder && overwrite) {
        uint32_t slot = lane_first(hits, stride);
        open_replace(kind, shared, view, walk, slot, kind == OPEN_PAIR_4_4 ? lane_word(&line, slot) : 0, value);
    }
    if (present)
        return OPEN_WAS_THERE;
    int first_free = has_free && walk->free_slot == OPEN_NO_SLOT;
    if (first_free) {
        walk->free_bucket = walk->bucket;
        walk->free_depth = walk->depth;
        walk->free_slot = offers ? lane_first(frees, stride) : slots; /* `slots`: another lane of the group has it */
    }
    int without = walk->free_slot == OPEN_NO_SLOT;
    if (without && !last && !further && !walk->knows_full && lane_load_4(&view->no_room[walk->partition_index])) {
        /* This line may have been read before the key came into the partition's last free slot. What is read from now on
         * was written before the mark, filter bits included: look once more from the start. */
        lane_fence(shared);
        walk->knows_full = 1;
        walk->bucket = loom__hash_bucket(walk->lower, view->buckets);
        walk->depth = 0;
        return OPEN_GO_ON;
    }
    if (!last && (further || (without && !walk->knows_full))) {
        open_advance(view, walk);
        return OPEN_GO_ON;
    }
    if (without) {
        if (last) {
            lane_fence(shared); /* the slots were seen taken before the mark says so */
            lane_store_4(&view->no_room[walk->partition_index], 1);
        }
        return OPEN_NO_ROOM;
    }

    int claimed = 0;
    if (walk->free_slot != slots) {
        open_mark_path(kind, shared, view, walk, walk->free_depth);
        claimed = open_claim(kind, shared, view, walk, walk->free_bucket, walk->free_slot, value);
    }
    if (lane_vote(group, claimed))
        return OPEN_DONE;
    /* Everything before the lost slot was full and without the key; look again from its bucket on. */
    walk->bucket = walk->free_bucket;
    walk->depth = walk->free_depth;
    walk->free_slot = OPEN_NO_SLOT;
    return OPEN_GO_ON;
}

/* ---- erase ---- */

/* Empties a slot that holds the key. False: another erase was first. */
LOOM_LANE int open_free_slot(loom__open_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                             uint32_t slot, uint64_t pair)
{
    unsigned char *line = open_line(kind, walk, walk->bucket), *at = line + slot * open_slot_stride(kind);
    uint64_t empty = open_empty(view, walk->partition_index);
    if (kind == OPEN_PAIR_4_4)
        return lane_swap_8((uint64_t *)at, pair, open_pair(empty, 0), shared) == pair;
    uint64_t ready = (uint64_t)1 << slot;
    if (!(lane_and_8((uint64_t *)(line + OPEN_WORD_OFFSET), ~ready, shared) & ready))
        return 0;
    open_store_value(kind, open_value(kind, view, walk->partition, line, slot), 0);
    if (open_key_bytes(kind) == 4)
        lane_store_4((uint32_t *)at, (uint32_t)empty);
    else
        lane_store_8((uint64_t *)at, empty);
    return 1;
}

/* One bucket of an erasure. GO_ON: `walk` stands at the bucket of the next turn. */
LOOM_LANE open_outcome open_erase_turn(loom__open_kind kind, int shared, lane_group group, const loom__open_view *view,
                                       open_walk *walk)
{
    open_look look = open_find_turn(kind, shared, group, view, walk);
    int erased = 0;
    if (lane_elect(group, (int)look.mine))
        erased = open_free_slot(kind, shared, view, walk, look.slot, look.pair);
    erased = lane_vote(group, erased);
    if (erased && lane_load_4(&view->no_room[walk->partition_index]))
        lane_store_4(&view->no_room[walk->partition_index], 0);
    if (look.found)
        return erased ? OPEN_DONE : OPEN_ABSENT; /* the key was there once (I1): who came second finds it absent */
    if (!look.further)
        return OPEN_ABSENT;
    open_advance(view, walk);
    return OPEN_GO_ON;
}

#endif
