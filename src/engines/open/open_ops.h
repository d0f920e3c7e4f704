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
 *   I5  A partition that is marked OPEN_FULL has no free slot. (One without a free slot need not be marked.)
 * Hence a search ends at the first bucket that holds the key or lacks its bit. Bits left behind by erased keys are never
 * wrong, only slow; they are counted, and open_upkeep.h puts worn partitions in order.
 *
 * Several groups work at the same time (`shared` = OPEN_SHARED). What may overlap: each kind of writers with itself (insertions, with
 * find-or-insert among them; accumulations; updates; erasures), and lookups with one kind, never two kinds; the handle sees to
 * it. So slots are only ever filled,
 * or only ever freed, as long as any one operation lasts: a lookup, too, must not overlap an erasure and then an insertion,
 * which could put another key into the slot whose value it is about to read (the simulator shows it: find+writers). Loads,
 * stores and swaps are relaxed; order comes from the fences alone, each of which has its reason beside it and a test in the
 * lane simulator that fails without it (tests/simt/plants.cmake).
 *
 *   Insert looks at the whole chain up to the first bucket without its bit, remembers the first free slot, and swaps the
 *   key in; before that its bit is set in all buckets before that slot (I2 holds before the key is visible): it sets the
 *   bit as it leaves a full bucket, so that the fence before the swap finds the bit long set. (Setting all bits right
 *   before the swap cost a GPU 4 % of its insertions at load 0.95, waiting.) *Linearisation: the
 *   successful swap* (with values outside the line: setting the ready bit). Two inserts of one key cannot both succeed:
 *   let A have put it into slot s. B's first free slot was before s on the chain: A saw that slot filled, so B's swap
 *   fails. It was s: the swap fails. It was behind s: B saw s filled while A found it free later, yet slots are not
 *   freed. (A load that returns an old value can only show a filled slot free, and the swap then fails.) After a failed
 *   swap B looks again from that bucket on; all earlier buckets were full, without the key, and stay so. A failed swap
 *   means that somebody filled a slot, so there are at most as many as slots.
 *   With values outside the line, who meets a key whose value is still being stored looks again until it is ready: three
 *   instructions of another group away, and the only place where one group waits for another. Without it a key could be
 *   reported as existing before any lookup can find it, or an overwrite be undone by the first store.
 *   A refused insert has visited every bucket of its partition and found no free slot; it marks the partition (I5). Before
 *   a key leaves a bucket without its bit it asks for the mark. Who sees it looks at its bucket once more and is then
 *   refused at the first bucket without its bit: the partition was full before the mark was set, so by then its key's
 *   bits are there if the key is. Erasing removes the mark.
 *   A refused insert must not leave its bit all over the partition: once it is deeper than view->eager_depth it marks the
 *   partition crowded, which is a hint and no more, and goes on *carefully*: its remaining bits are set when it
 *   has found a slot. So do all who see a mark.
 *   Find-or-insert and accumulate insert a key that is absent. One that is there: find-or-insert tells its value, *its
 *   linearisation point is the load of the pair or value*; accumulate combines, *by an atomic, or by the swap that succeeds*.
 *   Update gives a value to a key that is there, *by a store or a swap*; a swap that fails has met another update of the key,
 *   and counts as having come just before it.
 *   Erase swaps the pair, or a set's key, for an empty one, *its linearisation point*; with values outside the line it is clearing the
 *   ready bit, and whoever cleared it empties the slot. Of two erases of one key exactly one succeeds.
 *   Find reads each word once. With values outside the line a key counts only while its ready bit is set, before and
 *   after the value was read: *its linearisation point is the second reading*.
 *
 * Insertions beside erasures (`shared` = OPEN_MIXED; views of users' kernels). With what stands above they would store keys
 * twice: one sees slot 5 free, slot 2 is erased, another puts the same key into 2, the first one's swap on 5 succeeds. So an
 * erasure leaves the *retired* key in the slot, which is neither empty nor anybody's: a slot goes from free to taken to
 * retired and never back while the batch lasts, and the argument of Insert holds as it is, with "not free" for "filled".
 * Between batches a sweep makes retired slots free (I3). What else differs:
 *   - A refused insertion does not mark the partition full: the sweep will make room (I5). A mark from before is
 *     still right: nothing has become free since.
 *   - Who takes a line while its key goes and comes back may see it in two slots; one of them counts. The key was absent
 *     for a moment in between, so either answer is right.
 *   - Who meets a key that is being retired waits for it, as for one that is being stored.
 *   - Find-or-insert looks at the ready bit once more after it has read the value, as lookups do.
 *   - Overwriting, accumulating and updating are not offered: their swap could meet a slot that was just retired.
 * A lookup may overlap all of it: no slot gets another key, so the value that it reads is its key's.
 *
 * Groups of several lanes: every decision that a walk depends on is voted, so that all lanes of a group walk alike; what
 * one lane reads for itself and others could read differently (a mark, a ready bit) never steers a group unvoted. A
 * machine may have all groups of a warp take their turns together: then votes are the warp's, stand outside branches, and
 * a group that is settled comes along with `active` = 0.
 */
#ifndef LOOM_OPEN_OPS_H
#define LOOM_OPEN_OPS_H

#include "core/slot_ops.h"
#include "engines/open/open_layout.h"

typedef enum open_outcome {
    OPEN_GO_ON = 0, /* not decided: take another turn */
    OPEN_DONE,      /* found, stored as new, updated or erased */
    OPEN_WAS_THERE, /* insert: the key existed */
    OPEN_ABSENT,    /* find, update, erase: the key is not in the table */
    OPEN_NO_ROOM    /* insert: every slot of the partition is taken */
} open_outcome;

/* `shared`: who else is at work on the table. */
enum {
    OPEN_ALONE = 0,  /* nobody writes; or the caller owns the partition */
    OPEN_SHARED = 1, /* one kind of writers, and lookups */
    OPEN_MIXED = 2   /* insertions that keep, find-or-insert, erasures and lookups */
};

#define OPEN_NO_SLOT UINT32_MAX
#define OPEN_EAGERLY UINT32_MAX

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
    uint32_t marked_to;  /* insert: its bit is set in the buckets before this depth; EAGERLY: in all that it leaves */
    uint32_t knows_full; /* insert: 1 once the partition was seen full (I5): what is read since then is final */
} open_walk;

LOOM_LANE unsigned char *open_line(loom__slot_kind kind, const open_walk *walk, uint32_t bucket)
{
    return walk->partition + (uint64_t)bucket * open_line_stride(kind);
}

/* The value of a slot; `line` is its bucket's. */
LOOM_LANE unsigned char *open_value(loom__slot_kind kind, const loom__open_view *view, unsigned char *partition,
                                    const unsigned char *line, uint32_t slot)
{
    uint64_t lines = (uint64_t)(line - partition) / open_line_stride(kind) * open_value_stride(kind);
    return partition + open_value_offset(kind, view->buckets) + lines + slot * slot_value_bytes(kind);
}

/* The key's bit in the word of every bucket it leaves. */
LOOM_LANE uint32_t open_filter_bit(loom__slot_kind kind, uint32_t lower)
{
    uint32_t ready = open_ready_bits(kind);
    return ready + loom__hash_filter_bit(lower, 64 - ready);
}

LOOM_LANE open_walk open_start(loom__slot_kind kind, const loom__open_view *view, uint64_t key)
{
    open_walk walk;
    uint64_t hash = loom__hash_key(key, slot_key_bytes(kind), view->seed);
    walk.key = key;
    walk.partition_index = loom__hash_partition(hash, view->partitions);
    walk.partition = view->base + loom__multiply_wide(walk.partition_index, view->partition_bytes);
    walk.lower = (uint32_t)hash;
    walk.bucket = loom__hash_bucket(walk.lower, view->buckets);
    walk.depth = 0;
    walk.free_bucket = walk.free_depth = 0;
    walk.free_slot = OPEN_NO_SLOT;
    walk.marked_to = OPEN_EAGERLY;
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

/* Bytes that a hit reads, if they lie together: fetched at once they are hardly dearer than one line. */
LOOM_LANE uint32_t open_span(loom__slot_kind kind)
{
    return kind == SLOT_KEY_8_VALUE_8 ? 128 : 64;
}

/* ---- find ---- */

/* Numbers, not an outcome: a CPU must not branch on whether a key was found. */
typedef struct open_look {
    lane_truth found;   /* a lane of this group holds the key */
    lane_truth further; /* its filter bit is set here */
    lane_truth mine;    /* this lane holds the key … */
    uint32_t slot;      /* … in this slot */
    uint64_t pair;      /* PAIR_4_4: the pair itself */
} open_look;

LOOM_LANE open_look open_look_at(loom__slot_kind kind, int shared, lane_group group, const unsigned char *at,
                                 uint64_t key, uint32_t filter_bit, lane_truth active)
{
    lane_line line;
    open_look look;
    lane_take(group, &line, at, shared, active, open_span(kind));
    lane_slots hits = lane_match(&line, slot_key_bytes(kind), slot_stride(kind), open_slots(kind), key);
    look.mine = active & lane_any(hits);
    look.slot = lane_first(hits, slot_stride(kind));
    look.pair = kind == SLOT_PAIR_4_4 ? lane_word(&line, hits, look.slot) : 0;
    lane_votes holders = lane_poll(group, look.mine);
    look.found = lane_some(holders);
    /* A key that is erased and comes back while the line is taken is seen in two slots: the first one counts. (Where it is
     * the older one, the key was absent for a moment of this look.) */
    if (shared == OPEN_MIXED)
        look.mine = lane_chosen(group, holders);
    look.further = lane_some(lane_poll(group, active & lane_filter(group, &line, filter_bit)));
    return look;
}

/* One bucket of a lookup. Does not advance; `further` is 0 at the end of the chain. */
LOOM_LANE open_look open_find_turn(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                   const open_walk *walk, lane_truth active)
{
    open_look look = open_look_at(kind, shared, group, open_line(kind, walk, walk->bucket), walk->key,
                                  open_filter_bit(kind, walk->lower), active);
    look.further &= walk->depth + 1 < view->buckets;
    return look;
}

LOOM_LANE lane_truth open_is_ready(const unsigned char *line, uint32_t slot)
{
    return (lane_truth)(lane_load_8((const uint64_t *)(line + OPEN_WORD_OFFSET)) >> slot & 1);
}

/* The value of a key that this lane saw in `slot`. False, while others write: the key is only just being stored or
 * erased, and so counts as absent. */
LOOM_LANE lane_truth open_read_value(loom__slot_kind kind, int shared, const loom__open_view *view,
                                     unsigned char *partition, const unsigned char *line, uint32_t slot, uint64_t pair,
                                     uint64_t *value)
{
    if (!slot_values_apart(kind)) {
        *value = kind == SLOT_PAIR_4_4 ? pair >> 32 : 0;
        return 1;
    }
    if (shared && !open_is_ready(line, slot))
        return 0;
    lane_acquire(shared); /* the value was stored before its ready bit */
    const unsigned char *at = open_value(kind, view, partition, line, slot);
    *value = slot_load_value(kind, at);
    lane_acquire(shared); /* an erase clears the bit before the value: who read the cleared value sees the bit clear */
    return !shared || open_is_ready(line, slot);
}

/* ---- insert ---- */

/* Sets the key's filter bit in a bucket. */
LOOM_LANE void open_set_bit(loom__slot_kind kind, int shared, const open_walk *walk, uint32_t bucket)
{
    lane_or_8((uint64_t *)(open_line(kind, walk, bucket) + OPEN_WORD_OFFSET),
              (uint64_t)1 << open_filter_bit(kind, walk->lower), shared);
}

/* Sees to it that the key's bit is set in the buckets at depth 0 .. depth - 1 before the key is stored (I2). At most
 * `buckets` rounds. */
LOOM_LANE void open_mark_path(loom__slot_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                              uint32_t depth)
{
    if (walk->marked_to < depth) {
        uint32_t bucket = loom__hash_bucket(walk->lower, view->buckets);
        for (uint32_t passed = 0; passed < depth; passed++) {
            if (passed >= walk->marked_to)
                open_set_bit(kind, shared, walk, bucket);
            bucket = open_next_bucket(view, walk->lower, bucket);
        }
    }
    if (depth > 0)
        lane_release(shared); /* the bits come before the key (I2) */
}

/* Asks, on one lane, whether the key may leave its bucket, which is full and has not got the key's bit; sets the bit if it
 * does so eagerly. */
LOOM_LANE lane_truth open_leave(loom__slot_kind kind, int shared, const loom__open_view *view, const open_walk *walk)
{
    uint32_t *mark = &view->marks[walk->partition_index], seen = lane_load_4(mark);
    if (walk->marked_to != OPEN_EAGERLY)
        return seen != OPEN_FULL;
    if (seen != OPEN_UNMARKED)
        return 0;
    if (walk->depth > view->eager_depth) {
        (void)lane_swap_4(mark, OPEN_UNMARKED, OPEN_CROWDED, shared);
        return 0;
    }
    open_set_bit(kind, shared, walk, walk->bucket);
    return 1;
}

/* Puts key and value into a slot that was free. False: somebody else took it. */
LOOM_LANE lane_truth open_claim(loom__slot_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                                uint32_t bucket, uint32_t slot, uint64_t value)
{
    unsigned char *line = open_line(kind, walk, bucket), *at = line + slot * slot_stride(kind);
    uint64_t empty = open_empty(view, walk->partition_index);
    if (kind == SLOT_PAIR_4_4) {
        uint64_t free_pair = slot_pair(empty, 0);
        return lane_swap_8((uint64_t *)at, free_pair, slot_pair(walk->key, value), shared) == free_pair;
    }
    if (!slot_swap_key(kind, shared, at, empty, walk->key))
        return 0;
    if (!slot_values_apart(kind))
        return 1;
    slot_store_value(kind, open_value(kind, view, walk->partition, line, slot), value);
    lane_release(shared); /* the value comes before its ready bit (I4) */
    lane_or_8((uint64_t *)(line + OPEN_WORD_OFFSET), (uint64_t)1 << slot, shared);
    return 1;
}

/* Meets a key that is there, in `slot`, complete with its value, and does with it as the mode says; FETCH puts its value
 * into *value, or returns false if this lane does not see the value complete yet. A swap that fails has met another overwrite of the same key, which then counts as the
 * later one; the key itself cannot go while insertions run. */
LOOM_LANE lane_truth open_meet(loom__slot_kind kind, slot_mode mode, loom__how how, int shared,
                               const loom__open_view *view, const open_walk *walk, uint32_t slot, uint64_t pair,
                               uint64_t *value)
{
    unsigned char *line = open_line(kind, walk, walk->bucket);
    if (kind == SLOT_PAIR_4_4) {
        uint64_t *there = (uint64_t *)(line + slot * 8);
        if (mode == SLOT_OVERWRITE)
            (void)lane_swap_8(there, pair, slot_pair(walk->key, *value), shared);
        else if (mode == SLOT_COMBINE)
            slot_combine_pair(shared, there, pair, how, walk->key, *value);
        else if (mode == SLOT_FETCH)
            *value = pair >> 32;
        return 1;
    }
    if (!slot_values_apart(kind))
        return 1;
    if (mode == SLOT_FETCH && shared == OPEN_MIXED)
        return open_read_value(kind, shared, view, walk->partition, line, slot, pair, value);
    if (mode != SLOT_KEEP) {
        unsigned char *at = open_value(kind, view, walk->partition, line, slot);
        if (mode == SLOT_FETCH) {
            if (shared && !open_is_ready(line, slot)) /* seen by this very lane, so that its fence counts */
                return 0;
            lane_acquire(shared); /* the value came before that bit */
            *value = slot_load_value(kind, at);
            return 1;
        }
        /* The first value was stored before its ready bit, and stays before this one. (The memory models ask for this fence:
         * on real machines, and in the simulator, a store waits for the load that its branch depends on.) */
        lane_acquire(shared);
        if (mode == SLOT_OVERWRITE)
            slot_store_value(kind, at, *value);
        else if (slot_value_bytes(kind) == 8)
            lane_combine_8((uint64_t *)at, how, *value, shared);
        else
            lane_combine_4((uint32_t *)at, how, (uint32_t)*value, shared);
    }
    return 1;
}

/* Counts what the key has left behind; open_upkeep.h. */
LOOM_LANE void open_add_stale(int shared, const loom__open_view *view, const open_walk *walk, uint32_t wear)
{
    lane_combine_4(&view->stale[walk->partition_index], LOOM__ADD, wear, shared);
}

/* What a group does at a bucket of an insertion. */
typedef enum open_step {
    OPEN_REST,    /* nothing: it is settled */
    OPEN_MEET,    /* the key is here */
    OPEN_ADVANCE, /* the key may be further on */
    OPEN_CLAIM,   /* the key is not in the table: take the first free slot */
    OPEN_ASK,     /* the key is not in the table and no free slot was seen yet: may it leave this bucket? */
    OPEN_REFUSE   /* the key is not in the table and there is no room for it */
} open_step;

/* The same on all lanes of the group. */
LOOM_LANE open_step open_insert_step(const loom__open_view *view, const open_walk *walk, lane_truth present,
                                     lane_truth further)
{
    lane_truth last = walk->depth + 1 >= view->buckets;
    if (present)
        return OPEN_MEET;
    if (further && !last)
        return OPEN_ADVANCE;
    if (walk->free_slot != OPEN_NO_SLOT)
        return OPEN_CLAIM;
    return last || walk->knows_full ? OPEN_REFUSE : OPEN_ASK;
}

/* One bucket of an insertion. GO_ON: `walk` stands at the bucket of the next turn. `how` is for COMBINE. FETCH: on the one
 * lane where *tells comes back true, *value is the key's value, found or stored. */
LOOM_LANE open_outcome open_insert_turn(loom__slot_kind kind, slot_mode mode, loom__how how, int shared,
                                        lane_group group, const loom__open_view *view, open_walk *walk, uint64_t *value,
                                        lane_truth active, lane_truth *tells)
{
    lane_line line;
    uint32_t stride = slot_stride(kind), slots = open_slots(kind);
    lane_join(group, shared); /* bits that one lane set or saw come before the key that another stores */
    lane_take(group, &line, open_line(kind, walk, walk->bucket), shared, active, open_span(kind));
    lane_slots hits = lane_match(&line, slot_key_bytes(kind), stride, slots, walk->key);
    lane_slots frees = lane_match(&line, slot_key_bytes(kind), stride, slots, open_empty(view, walk->partition_index));
    lane_truth bit = lane_filter(group, &line, open_filter_bit(kind, walk->lower));
    lane_votes holders = lane_poll(group, active & lane_any(hits));
    lane_votes offers = lane_poll(group, active & lane_any(frees));
    lane_truth further = lane_some(lane_poll(group, active & bit));
    uint32_t ready = shared && slot_values_apart(kind) ? lane_low_bits(group, &line) : UINT32_MAX;

    if (lane_some(offers) && walk->free_slot == OPEN_NO_SLOT) {
        walk->free_bucket = walk->bucket;
        walk->free_depth = walk->depth;
        walk->free_slot = lane_chosen(group, offers) ? lane_first(frees, stride) : slots; /* `slots`: another lane's */
    }
    open_step step = active ? open_insert_step(view, walk, lane_some(holders), further) : OPEN_REST;

    /* What a lane does and sees by itself comes back to the group as a vote. */
    lane_truth done = 0;
    if (step == OPEN_MEET && lane_chosen(group, holders)) {
        uint32_t slot = lane_first(hits, stride);
        uint64_t pair = kind == SLOT_PAIR_4_4 ? lane_word(&line, hits, slot) : 0;
        if (ready >> slot & 1)
            done = open_meet(kind, mode, how, shared, view, walk, slot, pair, value);
    } else if (step == OPEN_CLAIM && walk->free_slot != slots) {
        open_mark_path(kind, shared, view, walk, walk->free_depth);
        done = open_claim(kind, shared, view, walk, walk->free_bucket, walk->free_slot, *value);
    } else if (step == OPEN_ASK && lane_leads(group)) {
        done = open_leave(kind, shared, view, walk);
    }
    *tells = done & (step == OPEN_MEET || step == OPEN_CLAIM);
    done = lane_some(lane_poll(group, done));

    switch (step) {
    case OPEN_REST:
        return OPEN_GO_ON;
    case OPEN_MEET: /* not done: its first value is still being stored; look again */
        return done ? OPEN_WAS_THERE : OPEN_GO_ON;
    case OPEN_CLAIM:
        if (done)
            return OPEN_DONE;
        /* Everything before the lost slot was full and without the key; look again from its bucket on. */
        walk->bucket = walk->free_bucket;
        walk->depth = walk->free_depth;
        walk->free_slot = OPEN_NO_SLOT;
        if (walk->marked_to < walk->depth)
            walk->marked_to = walk->depth;
        return OPEN_GO_ON;
    case OPEN_REFUSE:
        if (walk->depth + 1 >= view->buckets) {
            lane_acquire(shared);
            lane_sync(group, shared);
            lane_release(shared); /* the slots were seen taken, by all lanes, before the mark says so */
            if (lane_leads(group) && shared != OPEN_MIXED)
                lane_store_4(&view->marks[walk->partition_index], OPEN_FULL);
        }
        if (lane_leads(group) && (walk->marked_to == OPEN_EAGERLY ? walk->depth : walk->marked_to) > 0)
            open_add_stale(shared, view, walk, walk->marked_to == OPEN_EAGERLY ? walk->depth : walk->marked_to);
        return OPEN_NO_ROOM;
    case OPEN_ASK:
        if (done)
            break;
        if (walk->marked_to == OPEN_EAGERLY) {
            walk->marked_to = walk->depth;
            return OPEN_GO_ON;
        }
        /* This line may have been read before the key came into the partition's last free slot. What is read from the
         * next turn on was written before the mark, filter bits included: look at this bucket once more. (Those before
         * it were full and without the key, and stay so.) */
        lane_acquire(shared);
        walk->knows_full = 1;
        return OPEN_GO_ON;
    case OPEN_ADVANCE:
        break;
    }
    open_advance(view, walk);
    return OPEN_GO_ON;
}

/* A whole insertion, by a group of one lane that waits for nobody; bounded as every insertion is. */
LOOM_LANE open_outcome open_insert_alone(loom__slot_kind kind, slot_mode mode, loom__how how, int shared,
                                         lane_group alone, const loom__open_view *view, uint64_t key, uint64_t value)
{
    open_walk walk = open_start(kind, view, key);
    open_outcome outcome;
    lane_truth tells;
    do
        outcome = open_insert_turn(kind, mode, how, shared, alone, view, &walk, &value, 1, &tells);
    while (outcome == OPEN_GO_ON);
    return outcome;
}

/* ---- update ---- */

/* One bucket of an update, which gives a new value to a key that is there. GO_ON: `walk` stands at the bucket of the next
 * turn. Keys do not come or go while updates run. */
LOOM_LANE open_outcome open_update_turn(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                        open_walk *walk, uint64_t value, lane_truth active)
{
    open_look look = open_find_turn(kind, shared, group, view, walk, active);
    if (look.mine) /* on one lane at most (I1) */
        (void)open_meet(kind, SLOT_OVERWRITE, LOOM__ADD, shared, view, walk, look.slot, look.pair, &value);
    if (look.found)
        return OPEN_DONE;
    if (!look.further)
        return OPEN_ABSENT;
    open_advance(view, walk);
    return OPEN_GO_ON;
}

/* ---- erase ---- */

/* Empties a slot that holds the key. False: another erase was first. */
LOOM_LANE lane_truth open_free_slot(loom__slot_kind kind, int shared, const loom__open_view *view,
                                    const open_walk *walk, uint32_t slot, uint64_t pair)
{
    unsigned char *line = open_line(kind, walk, walk->bucket), *at = line + slot * slot_stride(kind);
    uint64_t empty =
        shared == OPEN_MIXED ? open_retired(view, walk->partition_index) : open_empty(view, walk->partition_index);
    if (kind == SLOT_PAIR_4_4)
        return lane_swap_8((uint64_t *)at, pair, slot_pair(empty, 0), shared) == pair;
    if (!slot_values_apart(kind))
        return slot_swap_key(kind, shared, at, walk->key, empty);
    uint64_t ready = (uint64_t)1 << slot;
    if (!(lane_and_8((uint64_t *)(line + OPEN_WORD_OFFSET), ~ready, shared) & ready))
        return 0;
    lane_release(shared); /* the bit is cleared before the value is */
    slot_store_value(kind, open_value(kind, view, walk->partition, line, slot), 0);
    if (slot_key_bytes(kind) == 4)
        lane_store_4((uint32_t *)at, (uint32_t)empty);
    else
        lane_store_8((uint64_t *)at, empty);
    return 1;
}

/* What an erasure leaves behind: the key's filter bits, and a slot that a key away from home might come back to. The slot is
 * counted for one key of some, as many times: counting each would cost as much as erasing. */
LOOM_LANE uint32_t open_wear_of(const open_walk *walk)
{
    return walk->depth + (walk->lower % OPEN_WEAR_SAMPLE == 0 ? OPEN_WEAR_SAMPLE : 0);
}

/* One bucket of an erasure. GO_ON: `walk` stands at the bucket of the next turn. */
LOOM_LANE open_outcome open_erase_turn(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                       open_walk *walk, lane_truth active)
{
    open_look look = open_find_turn(kind, shared, group, view, walk, active);
    lane_truth erased = 0;
    if (look.mine) { /* on one lane at most (I1) */
        erased = open_free_slot(kind, shared, view, walk, look.slot, look.pair);
        if (erased && lane_load_4(&view->marks[walk->partition_index]) != OPEN_UNMARKED)
            lane_store_4(&view->marks[walk->partition_index], OPEN_UNMARKED);
        if (erased && open_wear_of(walk) > 0)
            open_add_stale(shared, view, walk, open_wear_of(walk));
        if (erased && shared == OPEN_MIXED) /* it must be swept */
            lane_combine_4(&view->retired_slots[walk->partition_index], LOOM__ADD, 1, shared);
    }
    erased = lane_some(lane_poll(group, erased));
    if (look.found)
        return erased ? OPEN_DONE : OPEN_ABSENT; /* the key was there once (I1): who came second finds it absent */
    if (!look.further)
        return OPEN_ABSENT;
    open_advance(view, walk);
    return OPEN_GO_ON;
}

#endif
