/* The open engine's algorithms: what a lane group does to a bucket. Every machine compiles this one source.
 *
 * "WarpCore: A Library for fast Hash Tables on GPUs" (Jünger, Kobus, Müller, Hundt, Xu, Liu, Schmidt, HiPC 2020)
 * contributes lane groups that probe a bucket together, and double hashing. Four things differ:
 *   - A probe sequence stays in its partition.
 *   - An *overflow filter* in each bucket ends the search for an absent key after 1.03 buckets at load 0.9, even if
 *     buckets are full.
 *   - Erasing leaves no tombstones.
 *   - No key is reserved.
 *
 * A key's probe sequence starts at its home bucket and advances by the key's step, modulo the number of buckets.
 * `buckets` is prime, so the sequence visits every bucket of the partition once. A *turn* handles one bucket of one
 * key's sequence, so a machine can keep many keys in flight.
 *
 * Invariants, between calls:
 *   I1  A key lies in a bucket of its own partition, on its probe sequence, at most once.
 *   I2  If a key lies at depth d of its sequence, its filter bit is set in the buckets at depth 0 .. d - 1.
 *   I3  A slot without a key holds the partition's empty key and a value whose bytes are all zero. SLOT_TAG: it holds
 *       tag 0, and its row may hold anything.
 *   I4  With values apart from keys: a slot's ready bit is set if and only if the slot holds a key.
 *   I5  A partition marked OPEN_FULL has no free slot. A partition without a free slot need not be marked.
 * Hence a search ends at the first bucket that holds the key or lacks its filter bit. Filter bits left by erased keys
 * never cause a wrong answer; they only make searches longer. Partitions count them, and open_upkeep.h rebuilds
 * partitions that have too many.
 *
 * Concurrent groups (`shared` = OPEN_SHARED). There are four kinds of writers: insertions, which include
 * find-or-insert; accumulations; updates; erasures. Writers of one kind may overlap with each other and with lookups.
 * The table's handle ensures that two kinds never overlap. Hence, while one operation lasts, slots are only filled or
 * only freed. A lookup must not overlap an erasure and then an insertion either: the insertion could put another key
 * into the slot whose value the lookup is about to read (simulator case find+writers). Loads, stores and
 * compare-and-swaps (CAS, lane_swap_*) are relaxed. Only fences order them. The reason stands beside each fence. One
 * fence in open_meet_in_line and one join in open_store_together have no test. For each of the others, a test in the
 * lane simulator fails if the fence is removed (tests/simt/plants.cmake). The fence in open_mark_path is tested for keys
 * deeper than open_near_depth only: in 400,000 runs the simulator found no lookup that misses a nearer key.
 *
 *   Insert searches the sequence up to the first bucket without its filter bit, remembers the first free slot, and
 *   stores the key there by a CAS. *Linearisation point: the successful CAS*; with values apart from keys: setting the
 *   ready bit. Before the CAS, the key's filter bit is set in all buckets before that slot, so I2 holds before the key
 *   is visible. Insert sets the bit as it leaves a full bucket, long before the fence that precedes the CAS. Setting
 *   all bits right before the CAS made that fence wait and cost a GPU 4 % of its insertion rate at load 0.95.
 *   Two inserts of one key cannot both succeed. Let A have stored the key in slot s. If B's first free slot was before
 *   s on the sequence: A saw that slot filled, so B's CAS fails. If B's first free slot was s: B's CAS fails. If it was
 *   behind s: B saw s filled, and A found s free later. This is impossible, because slots are not freed. A stale load
 *   can only show a filled slot as free, and then the CAS fails. After a failed CAS, B searches again from that slot's
 *   bucket on; all earlier buckets were full, without the key, and stay so. Each failed CAS means that another group
 *   filled a slot, so there are at most as many failures as slots.
 *   With values apart from keys, a group that finds a key whose value is still being stored repeats its turn until the
 *   value is ready. The storing group is three instructions away from making it ready. No other step makes one group
 *   wait for another. Without the wait, an insert could report a key as existing before any lookup can find it, or the
 *   first store of the value could undo an overwrite.
 *   An insert that has visited every bucket of its partition and found no free slot is refused. It marks the partition
 *   OPEN_FULL (I5). An insert reads the mark before its key leaves a bucket without the key's filter bit. If the mark
 *   is OPEN_FULL, the insert reads that bucket once more, and is then refused at the first bucket without its bit from
 *   depth open_near_depth on. The partition was full before the mark was set. If the key is in the table, it is
 *   therefore visible by then; and so are its bits, if it lies deeper than open_near_depth. Erasing removes the mark.
 *   A refused insert must not leave its filter bit in the whole partition. An insert deeper than view->eager_depth
 *   marks the partition OPEN_CROWDED, which is only a hint, and goes on *carefully*: it sets its remaining bits after
 *   it has found a slot. Inserts that see either mark go on carefully, too.
 *   Find-or-insert and accumulate insert an absent key. If the key is present, find-or-insert returns its value,
 *   *linearisation point: the load of the pair or value*; accumulate combines the values, *linearisation point: the
 *   atomic, or the successful CAS*.
 *   Update gives a new value to a present key, *linearisation point: the store or CAS*. If the CAS fails, it has met
 *   another update of the key. The failed update counts as having come just before the other one.
 *   Erase replaces the pair, or a set's key, by the empty one, *linearisation point: the successful CAS*. With values
 *   apart from keys the linearisation point is clearing the ready bit, and the group that cleared the bit empties the
 *   slot. Of two erases of one key exactly one succeeds. A scan (open_erase_slot) erases a key where it finds the key,
 *   with the same linearisation point.
 *   Find reads each word once. With values apart from keys, find reads the ready bit before and after the value, and
 *   the key counts as present only if both readings are set: *linearisation point: the second reading*.
 *
 * Without lookups (`shared` = OPEN_UNREAD: bulk insertions and accumulations, unless lookups may overlap them) a key
 * down to depth open_near_depth may be visible before its filter bits. The fence before its CAS is left out. Only two
 * readers need the order: lookups; and inserts that see OPEN_FULL, which look that far without bits. No other insert
 * relies on a bit that was set while insertions run. Let K lie in slot s. If K was stored since they began, all slots
 * before s on K's sequence were filled then, and stay so: another insert of K takes no slot before s, whatever bits it
 * sees. If K is older, its bits are visible to all. OPEN_SHARED and OPEN_UNREAD inserts may overlap. On an H200 a trial
 * kernel without this fence at any depth was 3 to 4 % faster at loads of 0.8 to 0.95, and 9 to 11 % where only the last
 * hundredth of the keys came.
 *
 * Insertions and erasures at the same time (`shared` = OPEN_MIXED; device views in users' kernels). The rules above
 * would store a key twice: T1 sees slot 5 free, slot 2 is erased, T2 puts the same key into slot 2, and T1's CAS on
 * slot 5 succeeds. Therefore an erasure leaves the *retired* key in the slot. The retired key is neither the empty key
 * nor a key of any user. A slot goes from free to taken to retired and never back while the batch lasts, so the
 * argument of Insert holds with "not free" in place of "filled". Between batches a sweep makes retired slots free (I3).
 * Other differences:
 *   - A refused insertion does not mark the partition full, because the sweep will make room (I5). An older mark is
 *     still right: no slot has become free since.
 *   - A group that copies a line while a key is erased and inserted again may see the key in two slots. One of the
 *     slots counts. The key was absent for a moment in between, so either answer is right.
 *   - A group that finds a key being retired waits for it, as for a key being stored.
 *   - Find-or-insert reads the ready bit once more after it has read the value, as lookups do.
 *   - Overwriting, accumulating and updating are not offered: their CAS could meet a slot that was just retired.
 * A lookup may overlap all of these operations: no slot gets another key, so the value that the lookup reads is its
 * key's.
 *
 * Rows (SLOT_TAG; open_rows.h). A line holds tags, and a tag alone does not say which key a slot holds. Therefore:
 *   - A lane that finds the tag loads the ready bits, and compares the row of each ready slot that has the tag.
 *   - An insertion or an update that finds the tag in a slot that is not ready, and the key in no other slot of the
 *     line, repeats its turn: the slot may hold its key. The other group is about to store a row or a value. An erasure
 *     or a lookup passes over the slot: it is being stored or erased, and its key counts as absent.
 *   - An insertion claims a slot by a swap of its tag, stores the row, and sets the ready bit. The argument of Insert
 *     holds with tags in place of keys, since a slot with a tag is not free. Other lanes may store parts of the row
 *     (walk->staged); they join the lane that claimed the slot before it sets the bit.
 *   - Values of 4 and 8 bytes are stored and combined by one access. Other values take several. A group that writes or
 *     fetches one takes the slot by clearing its ready bit, and sets the bit afterwards; the group that cleared the bit
 *     is the only owner. *Linearisation point of an overwrite, an update and a fetch: setting the bit*. Other lanes may
 *     store parts of a new value (walk->staged). They join the lane that took the slot before they store, because it
 *     alone has acquired what the former owner wrote, and once more before it sets the bit. They store right after the
 *     turn, before any lane that takes turns with them begins another one. A turn itself never waits: it ends and is
 *     repeated. So no group waits for a slot while it, or a group that takes turns with it, holds another one.
 *   - An erasure clears the ready bit, *which is its linearisation point*, and then the tag. The row stays.
 * Lookups may overlap erasures, and insertions that keep (simulator cases rows/erase+find and rows/keep+find). They
 * must not overlap groups that take rows: writers of wide values would tear what they read, and a row that is taken
 * looks absent. Lookups that take rows themselves (open_find_taking) may: they wait for a slot with their tag that is
 * not ready, as insertions do (case rows/insert+find).
 *   OPEN_MIXED (case rows/mixed). An erasure leaves the retired tag, which no key has. Nobody writes a value, so
 *   find-or-insert reads a wide value without taking the row: the row of a retired slot stays as it is until the view
 *   ends. *Linearisation point of a fetch: the load of the ready bit*.
 *
 * Strings (SLOT_STRING; open_string_ops.h) are rows that refer to a heap. All of the above holds for them: the strings
 * are stored before the row's ready bit, and only the owner of a row writes its pieces. An insertion needs a piece of
 * the heap before it claims a slot, and an overwrite may need one while it owns the row. Without one the key is refused
 * (OPEN_NO_BYTES). Such a refusal says nothing about the partition's slots, and leaves no mark.
 *
 * Groups of several lanes. The lanes of a group vote on every decision that steers a walk, so all of them walk alike.
 * Two lanes may read different values of a mark or a ready bit, so a group votes before a mark or a ready bit steers
 * it. A machine may let all groups of a warp take their turns together. Votes then span the warp and stand outside
 * branches, and a group whose key is settled takes part with `active` = 0.
 */
#ifndef LOOM_OPEN_OPS_H
#define LOOM_OPEN_OPS_H

#include "engines/open/open_row_ops.h"

typedef enum open_outcome {
    OPEN_GO_ON = 0, /* not decided: take another turn */
    OPEN_DONE,      /* found, stored as new, updated or erased */
    OPEN_WAS_THERE, /* insert: the key existed */
    OPEN_ABSENT,    /* find, update, erase: the key is not in the table */
    OPEN_NO_ROOM,   /* insert: the partition has no free slot */
    OPEN_NO_BYTES   /* insert, update, SLOT_STRING: the heap has no room for the strings */
} open_outcome;

/* ---- find ---- */

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
    /* A key that is erased and inserted again while this group copies the line can appear in two slots. The first slot
     * counts. If it is the older one, the key was absent at some moment of this look. */
    if (shared == OPEN_MIXED)
        look.mine = lane_chosen(group, holders);
    look.further = lane_some(lane_poll(group, active & lane_filter(group, &line, open_word_offset(kind), filter_bit)));
    look.waits = 0;
    return look;
}

/* One turn of a lookup. Does not advance. `further` is 0 at the end of the probe sequence. */
LOOM_LANE open_look open_find_turn(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                   const open_walk *walk, lane_truth active)
{
    open_look look = slot_has_tag(kind) ? open_look_at_tags(kind, shared, group, view, walk, active)
                                        : open_look_at(kind, shared, group, open_line(kind, walk, walk->bucket),
                                                       walk->key, open_filter_bit(kind, walk->lower), active);
    look.further &= walk->depth + 1 < view->buckets;
    return look;
}

LOOM_LANE lane_truth open_is_ready(loom__slot_kind kind, const unsigned char *line, uint32_t slot)
{
    return (lane_truth)(open_load_word(kind, line) >> slot & 1);
}

/* Reads the value of a key that this lane saw in `slot`. False, which only happens beside writers: the key is being
 * stored or erased at this moment and counts as absent. */
LOOM_LANE lane_truth open_read_value(loom__slot_kind kind, int shared, const unsigned char *line, uint32_t slot,
                                     uint64_t pair, uint64_t *value)
{
    if (!slot_values_apart(kind)) {
        *value = kind == SLOT_PAIR_4_4 ? pair >> 32 : 0;
        return 1;
    }
    if (shared && !open_is_ready(kind, line, slot))
        return 0;
    lane_acquire(shared); /* the value was stored before its ready bit */
    *value = open_load_value(kind, shared, line, slot);
    lane_acquire(shared); /* an erase clears the bit first: a lane that read a cleared value sees the bit clear */
    return !shared || open_is_ready(kind, line, slot);
}

/* ---- insert ---- */

LOOM_LANE void open_set_bit(loom__slot_kind kind, int shared, const open_walk *walk, uint32_t bucket)
{
    open_set_in_word(kind, open_line(kind, walk, bucket), open_filter_bit(kind, walk->lower), shared);
}

/* Sets the key's filter bit in the buckets at depth 0 .. depth - 1 that lack it, before the key is stored (I2). At most
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
    if (depth > (shared == OPEN_UNREAD ? open_near_depth(view) : 0))
        lane_release(shared); /* the bits come before the key (I2) */
}

/* Says whether the key may leave its bucket, which is full and lacks the key's filter bit. An eager walk that may leave
 * sets the bit. Runs on one lane. */
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

/* SLOT_TAG: the row of a claimed slot is complete. If other lanes stored parts of it, they have joined this one. */
LOOM_LANE void open_publish(int shared, unsigned char *line, uint32_t slot)
{
    lane_release(shared); /* the row comes before its ready bit (I4) */
    open_set_in_word(SLOT_TAG, line, slot, shared);
}

/* Stores key and value in a slot of a line that was free. False: another group took the slot first. Not for rows. */
LOOM_LANE lane_truth open_claim_in_line(loom__slot_kind kind, int shared, unsigned char *line, uint32_t slot,
                                        uint64_t empty, uint64_t key, uint64_t value)
{
    unsigned char *at = line + slot * slot_stride(kind);
    if (kind == SLOT_PAIR_4_4) {
        uint64_t free_pair = slot_pair(empty, 0);
        return lane_swap_8((uint64_t *)at, free_pair, slot_pair(key, value), shared) == free_pair;
    }
    if (!slot_swap_key(kind, shared, at, empty, key))
        return 0;
    if (!slot_values_apart(kind))
        return 1;
    slot_store_value(kind, line + open_value_place(kind, slot), value);
    lane_release(shared); /* the value comes before its ready bit (I4) */
    open_set_in_word(kind, line, slot, shared);
    return 1;
}

/* The same in a bucket of the walk's partition. */
LOOM_LANE lane_truth open_claim(loom__slot_kind kind, int shared, const loom__open_view *view, const open_walk *walk,
                                uint32_t bucket, uint32_t slot, uint64_t value)
{
    unsigned char *line = open_line(kind, walk, bucket);
    if (!slot_has_tag(kind))
        return open_claim_in_line(kind, shared, line, slot, open_empty(view, walk->partition_index), walk->key, value);
    if (!slot_swap_tag(shared, line, slot, walk->tag))
        return 0;
    if (!walk->staged) {
        open_store_row(kind, view, walk, bucket, slot, value);
        open_publish(shared, line, slot);
    }
    return 1;
}

/* Applies the mode to a key that is present in `slot` of a line with its value complete; not for rows. FETCH and
 * RESERVE store the value in *value, or return false if this lane does not see the value complete yet. LOCATE leaves
 * this to the caller. A failed CAS has met another overwrite of the same key, which then counts as the later one; the
 * key itself cannot disappear while insertions run. */
LOOM_LANE lane_truth open_meet_in_line(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                                       unsigned char *line, uint32_t slot, uint64_t pair, uint64_t key, uint64_t *value)
{
    if (kind == SLOT_PAIR_4_4) {
        uint64_t *there = (uint64_t *)(line + slot * 8);
        if (mode == SLOT_OVERWRITE)
            (void)lane_swap_8(there, pair, slot_pair(key, *value), shared);
        else if (mode == SLOT_COMBINE)
            slot_combine_pair(shared, there, pair, rule, key, *value);
        else if (mode == SLOT_FETCH)
            *value = pair >> 32;
        return 1;
    }
    if (!slot_values_apart(kind))
        return 1;
    if (mode == SLOT_FETCH && shared == OPEN_MIXED)
        return open_read_value(kind, shared, line, slot, pair, value);
    if (mode != SLOT_KEEP && mode != SLOT_LOCATE) {
        unsigned char *at = line + open_value_place(kind, slot);
        if (mode == SLOT_FETCH || mode == SLOT_RESERVE) {
            if (shared && !open_is_ready(kind, line, slot)) /* loaded by this lane: the fence orders no other's loads */
                return 0;
            lane_acquire(shared); /* the value came before that bit */
            *value = mode == SLOT_RESERVE ? slot_reserve(shared, (uint64_t *)at) : slot_load_value(kind, at);
            return 1;
        }
        /* The key's first value was stored before its ready bit and must stay before this store. The memory models
         * require this fence. Real machines and the simulator do not need it: there a store waits for the load that its
         * branch depends on. */
        lane_acquire(shared);
        if (mode == SLOT_OVERWRITE)
            slot_store_value(kind, at, *value);
        else if (slot_value_bytes(kind) == 8)
            lane_combine_8((uint64_t *)at, rule, *value, shared);
        else
            lane_combine_4((uint32_t *)at, rule, (uint32_t)*value, shared);
    }
    return 1;
}

/* The same in the bucket where the walk stands; also for rows. */
LOOM_LANE lane_truth open_meet(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                               const loom__open_view *view, open_walk *walk, uint32_t slot, uint64_t pair,
                               uint64_t *value)
{
    if (slot_has_tag(kind))
        return open_meet_row(kind, mode, rule, shared, view, walk, slot, value);
    return open_meet_in_line(kind, mode, rule, shared, open_line(kind, walk, walk->bucket), slot, pair, walk->key,
                             value);
}

/* Adds to the partition's stale count; open_upkeep.h. */
LOOM_LANE void open_add_stale(int shared, const loom__open_view *view, const open_walk *walk, uint32_t wear)
{
    lane_combine_4(&view->stale[walk->partition_index], LOOM__ADD, wear, shared);
}

/* Counts the filter bits that a refused key leaves behind. */
LOOM_LANE void open_note_refused(int shared, lane_group group, const loom__open_view *view, const open_walk *walk)
{
    if (lane_leads(group) && (walk->marked_to == OPEN_EAGERLY ? walk->depth : walk->marked_to) > 0)
        open_add_stale(shared, view, walk, walk->marked_to == OPEN_EAGERLY ? walk->depth : walk->marked_to);
}

/* What a group does in one turn of an insertion. */
typedef enum open_step {
    OPEN_REST,    /* nothing: the key is settled, or may be in a row that another group is storing */
    OPEN_MEET,    /* the key is here */
    OPEN_ADVANCE, /* the key may be further on */
    OPEN_CLAIM,   /* the key is not in the table: take the first free slot */
    OPEN_ASK,     /* the key is not in the table and no free slot was seen: may it leave this bucket? */
    OPEN_REFUSE   /* the key is not in the table and there is no room for it */
} open_step;

/* All lanes of the group get the same step. */
LOOM_LANE open_step open_insert_step(int shared, const loom__open_view *view, const open_walk *walk, lane_truth present,
                                     lane_truth further)
{
    lane_truth last = walk->depth + 1 >= view->buckets;
    if (present)
        return OPEN_MEET;
    if (further && !last)
        return OPEN_ADVANCE;
    if (walk->free_slot != OPEN_NO_SLOT)
        return OPEN_CLAIM;
    if (last || (walk->knows_full && (!shared || walk->depth >= open_near_depth(view))))
        return OPEN_REFUSE;
    return walk->knows_full ? OPEN_ADVANCE : OPEN_ASK;
}

/* One turn of an insertion. GO_ON: `walk` stands at the bucket of the next turn. `rule` is for COMBINE. FETCH,
 * RESERVE and LOCATE: *tells is true on exactly one lane; for FETCH and RESERVE *value is there the key's value, found
 * or stored. RESERVE and LOCATE: the key is then in slot walk->free_slot of bucket walk->free_bucket. */
LOOM_LANE open_outcome open_insert_turn(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                                        lane_group group, const loom__open_view *view, open_walk *walk, uint64_t *value,
                                        lane_truth active, lane_truth *tells)
{
    lane_line line;
    uint32_t stride = slot_stride(kind), slots = open_slots(kind);
    lane_join(group, shared); /* bits that one lane set or saw come before the key that another stores */
    lane_take(group, &line, open_line(kind, walk, walk->bucket), shared, active, open_span(kind));
    lane_slots hits = lane_match(&line, slot_key_bytes(kind), stride, slots, open_wanted(kind, walk));
    lane_truth waits = 0;
    if (slot_has_tag(kind) && active)
        hits = open_verify(kind, shared, view, walk, hits, &waits);
    lane_slots frees = lane_match(&line, slot_key_bytes(kind), stride, slots, open_empty(view, walk->partition_index));
    lane_truth bit = lane_filter(group, &line, open_word_offset(kind), open_filter_bit(kind, walk->lower));
    lane_votes holders = lane_poll(group, active & lane_any(hits));
    lane_votes offers = lane_poll(group, active & lane_any(frees));
    lane_truth further = lane_some(lane_poll(group, active & bit));
    uint32_t ready = shared && slot_values_apart(kind) && !slot_has_tag(kind)
                         ? lane_four_bytes(group, &line, open_word_offset(kind))
                         : UINT32_MAX;

    if (lane_some(offers) && walk->free_slot == OPEN_NO_SLOT) {
        walk->free_bucket = walk->bucket;
        walk->free_depth = walk->depth;
        walk->free_slot = lane_chosen(group, offers) ? lane_first(frees, stride) : slots; /* `slots`: another lane's */
    }
    open_step step = active ? open_insert_step(shared, view, walk, lane_some(holders), further) : OPEN_REST;
    if (slot_has_tag(kind) && shared && lane_some(lane_poll(group, waits)) && step != OPEN_MEET)
        step = OPEN_REST;

    /* The result of each single-lane step reaches the group by a vote. */
    lane_truth done = 0;
    const uint64_t piece = kind == SLOT_STRING ? walk->piece : 0;
    if (step == OPEN_MEET && lane_chosen(group, holders)) {
        uint32_t slot = lane_first(hits, stride);
        uint64_t pair = kind == SLOT_PAIR_4_4 ? lane_word(&line, hits, slot) : 0;
        if (ready >> slot & 1)
            done = open_meet(kind, mode, rule, shared, view, walk, slot, pair, value);
        if (mode == SLOT_RESERVE || mode == SLOT_LOCATE) {
            walk->free_bucket = walk->bucket;
            walk->free_slot = slot;
        }
    } else if (step == OPEN_CLAIM && walk->free_slot != slots && open_has_piece(kind, view, walk, *value)) {
        open_mark_path(kind, shared, view, walk, walk->free_depth);
        done = open_claim(kind, shared, view, walk, walk->free_bucket, walk->free_slot, *value);
    } else if (step == OPEN_ASK && lane_leads(group)) {
        done = open_leave(kind, shared, view, walk);
    }
    *tells = done & (step == OPEN_MEET || step == OPEN_CLAIM);
    done = lane_some(lane_poll(group, done));
    if (kind == SLOT_STRING) {
        open_tell_piece(group, walk, piece);
        const lane_truth no_bytes = active & (walk->piece == OPEN_NO_BYTES_LEFT);
        const lane_truth stored = done & (step == OPEN_CLAIM);
        const lane_truth settled = no_bytes || step == OPEN_REFUSE || (done && step != OPEN_ASK);
        if (settled && !stored && lane_leads(group))
            open_drop_piece(view, walk, *value);
        if (no_bytes && step == OPEN_CLAIM)
            open_note_refused(shared, group, view, walk);
        if (no_bytes)
            return OPEN_NO_BYTES;
    }

    switch (step) {
    case OPEN_REST:
        return OPEN_GO_ON;
    case OPEN_MEET: /* not done: the first value is still being stored, or a row is taken; repeat the turn */
        return done ? OPEN_WAS_THERE : OPEN_GO_ON;
    case OPEN_CLAIM:
        if (done)
            return OPEN_DONE;
        /* Everything before the lost slot was full, without the key. Search again from the slot's bucket on. */
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
        open_note_refused(shared, group, view, walk);
        return OPEN_NO_ROOM;
    case OPEN_ASK:
        if (done)
            break;
        if (walk->marked_to == OPEN_EAGERLY) {
            walk->marked_to = walk->depth;
            return OPEN_GO_ON;
        }
        /* This line may have been read before the key came into the partition's last free slot. From the next turn on
         * the group sees everything that was written before the mark, filter bits included. Therefore it looks at this
         * bucket once more. The buckets before this one were full, without the key, and stay so. */
        lane_acquire(shared);
        walk->knows_full = 1;
        return OPEN_GO_ON;
    case OPEN_ADVANCE:
        break;
    }
    open_advance(view, walk);
    return OPEN_GO_ON;
}

/* A whole insertion by a group of one lane that takes its turns by itself, not together with the other groups of its
 * warp. The number of turns is bounded as in every insertion. */
LOOM_LANE open_outcome open_insert_alone(loom__slot_kind kind, slot_mode mode, loom__combine_rule rule, int shared,
                                         lane_group alone, const loom__open_view *view, uint64_t key, uint64_t value)
{
    open_walk walk = open_start(kind, view, key);
    open_outcome outcome;
    lane_truth tells;
    do
        outcome = open_insert_turn(kind, mode, rule, shared, alone, view, &walk, &value, 1, &tells);
    while (outcome == OPEN_GO_ON);
    return outcome;
}

/* Stores a copy of a row whose key is not in the table, by a group of one lane, in a partition that no lookup reads. It
 * is then in slot walk->free_slot of bucket walk->bucket. False: the partition is full. Each round leaves a bucket,
 * takes a slot, or loses one to another lane. */
LOOM_LANE lane_truth open_place_row(loom__slot_kind kind, int shared, lane_group alone, const loom__open_view *view,
                                    open_walk *walk, open_row_place row)
{
    const uint32_t stride = slot_stride(kind);
    while (walk->depth < view->buckets) {
        lane_line line;
        lane_take(alone, &line, open_line(kind, walk, walk->bucket), shared, 1, open_span(kind));
        const lane_slots frees = lane_match(&line, slot_key_bytes(kind), stride, open_slots(kind), 0);
        if (lane_any(frees)) {
            walk->free_slot = lane_first(frees, stride);
            if (open_put_row(shared, view, walk, walk->bucket, walk->free_slot, row))
                return 1;
            continue;
        }
        open_set_bit(kind, shared, walk, walk->bucket);
        open_advance(view, walk);
    }
    return 0;
}

/* Stores a new key and its value in a free slot of a partition that the caller owns. Not for rows. */
LOOM_LANE void open_fill(loom__slot_kind kind, unsigned char *line, uint32_t slot, uint64_t key, uint64_t value)
{
    if (kind == SLOT_PAIR_4_4)
        lane_store_8((uint64_t *)(line + slot * slot_stride(kind)), slot_pair(key, value));
    else
        slot_store_key(kind, line, slot, key);
    if (slot_values_apart(kind)) {
        slot_store_value(kind, line + open_value_place(kind, slot), value);
        open_set_in_word(kind, line, slot, OPEN_ALONE); /* I4 */
    }
}

/* The first turn of an insertion, in fewer instructions; most keys end here. For groups of one lane, and not for rows.
 * With shared = OPEN_ALONE the caller owns the key's partition. The key's home line is at `line`, and `empty` is the
 * empty key of its partition.
 *   DONE: the key was stored in *slot.
 *   WAS_THERE: it is in *slot already, and nothing was changed. With values apart from keys and with `shared`, its
 *   value may still be on its way.
 *   GO_ON: nothing was changed; the key needs turns, from its home bucket on. */
LOOM_LANE open_outcome open_insert_at_home(loom__slot_kind kind, int shared, lane_group group, unsigned char *line,
                                           uint64_t empty, uint64_t key, uint32_t filter_bit, uint64_t value,
                                           uint32_t *slot)
{
    const uint32_t bytes = slot_key_bytes(kind), stride = slot_stride(kind), slots = open_slots(kind);
    lane_line seen;
    lane_take(group, &seen, line, shared, 1, open_span(kind));
    /* Free slots are looked for only if the key is not there. Where keys have several values, most pairs find their
     * key: on two cores of a Neoverse V1, 2^24 pairs with 8 values per key were built at 74 M/s, and at 62 by turns,
     * which look for both. */
    const lane_slots hits = lane_match(&seen, bytes, stride, slots, key);
    if (lane_any(hits)) {
        *slot = lane_first(hits, stride);
        return OPEN_WAS_THERE;
    }
    const lane_slots frees = lane_match(&seen, bytes, stride, slots, empty);
    if (lane_filter(group, &seen, open_word_offset(kind), filter_bit) || !lane_any(frees))
        return OPEN_GO_ON;
    *slot = lane_first(frees, stride);
    if (!shared)
        open_fill(kind, line, *slot, key, value);
    else if (!open_claim_in_line(kind, shared, line, *slot, empty, key, value)) /* no bit comes before a key at home */
        return OPEN_GO_ON;
    return OPEN_DONE;
}

/* open_meet_in_line for a key that is in this slot of its home line. Not beside erasures: a pair is loaded again. */
LOOM_LANE lane_truth open_meet_at_home(loom__slot_kind kind, slot_mode mode, int shared, unsigned char *line,
                                       uint32_t slot, uint64_t key, uint64_t *value)
{
    const uint64_t pair = kind == SLOT_PAIR_4_4 ? lane_load_8((const uint64_t *)(void *)(line + slot * 8)) : 0;
    return open_meet_in_line(kind, mode, LOOM__ADD, shared, line, slot, pair, key, value);
}

/* open_insert_at_home with what follows if the key is there. Not beside erasures. GO_ON: the key needs turns, from its
 * home bucket on; so does a key whose value another lane is storing. */
LOOM_LANE open_outcome open_settle_at_home(loom__slot_kind kind, slot_mode mode, int shared, lane_group group,
                                           unsigned char *line, uint64_t empty, uint64_t key, uint32_t filter_bit,
                                           uint64_t *value)
{
    uint32_t slot;
    const open_outcome outcome = open_insert_at_home(kind, shared, group, line, empty, key, filter_bit, *value, &slot);
    if (outcome != OPEN_WAS_THERE)
        return outcome;
    if (shared && slot_values_apart(kind) && !open_is_ready(kind, line, slot))
        return OPEN_GO_ON;
    return open_meet_at_home(kind, mode, shared, line, slot, key, value) ? OPEN_WAS_THERE : OPEN_GO_ON;
}

/* ---- update ---- */

/* One turn that applies a mode to a present key: SLOT_OVERWRITE, which is an update; rows: also SLOT_FETCH and
 * SLOT_KEEP, which are lookups beside groups that take rows (open_find_taking). GO_ON: `walk` stands at the bucket of
 * the next turn, or repeats this one. *met is true on the lane that met the key. */
LOOM_LANE open_outcome open_meet_turn(loom__slot_kind kind, slot_mode mode, int shared, lane_group group,
                                      const loom__open_view *view, open_walk *walk, uint64_t *value, lane_truth active,
                                      lane_truth *met)
{
    open_look look = open_find_turn(kind, shared, group, view, walk, active);
    lane_truth done = 0;
    if (look.mine) /* on one lane at most (I1) */
        done = open_meet(kind, mode, LOOM__ADD, shared, view, walk, look.slot, look.pair, value);
    *met = done;
    lane_truth no_bytes = 0;
    if (kind == SLOT_STRING)
        no_bytes = lane_some(lane_poll(group, active & (walk->piece == OPEN_NO_BYTES_LEFT)));
    if (slot_has_tag(kind) && shared && !lane_some(lane_poll(group, done)) && (look.found | look.waits))
        return OPEN_GO_ON; /* another group has the row: repeat the turn */
    if (no_bytes)
        return OPEN_NO_BYTES;
    if (look.found)
        return OPEN_DONE;
    if (!look.further)
        return OPEN_ABSENT;
    open_advance(view, walk);
    return OPEN_GO_ON;
}

/* One turn of an update, which gives a new value to a present key. Keys neither appear nor disappear while updates
 * run. */
LOOM_LANE open_outcome open_update_turn(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                        open_walk *walk, uint64_t value, lane_truth active)
{
    lane_truth met;
    return open_meet_turn(kind, SLOT_OVERWRITE, shared, group, view, walk, &value, active, &met);
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
    if (!open_clear_in_word(kind, line, slot, shared))
        return 0;
    if (kind == SLOT_STRING)
        open_drop_strings(view, walk, open_row_at(view, walk, slot));
    if (slot_has_tag(kind)) { /* the row stays as it is */
        if (shared == OPEN_MIXED)
            slot_retire_tag(shared, line, slot);
        else
            slot_clear_tag(shared, line, slot);
        return 1;
    }
    lane_release(shared); /* the bit is cleared before the value is */
    slot_store_value(kind, line + open_value_place(kind, slot), 0);
    slot_store_key(kind, line, slot, empty);
    return 1;
}

/* What one erasure adds to the stale count: the key's filter bits, and the freed slot, to which a key away from home
 * could return. Only one freed slot in OPEN_WEAR_SAMPLE is counted, with that weight: counting each would cost as much
 * as erasing. */
LOOM_LANE uint32_t open_wear_of(const open_walk *walk)
{
    return walk->depth + (walk->lower % OPEN_WEAR_SAMPLE == 0 ? OPEN_WEAR_SAMPLE : 0);
}

/* What is left to do after open_free_slot has succeeded. Runs on one lane. */
LOOM_LANE void open_note_erased(int shared, const loom__open_view *view, const open_walk *walk)
{
    if (lane_load_4(&view->marks[walk->partition_index]) != OPEN_UNMARKED)
        lane_store_4(&view->marks[walk->partition_index], OPEN_UNMARKED);
    if (open_wear_of(walk) > 0)
        open_add_stale(shared, view, walk, open_wear_of(walk));
    if (shared == OPEN_MIXED) /* for the sweep */
        lane_combine_4(&view->retired_slots[walk->partition_index], LOOM__ADD, 1, shared);
}

/* One turn of an erasure. GO_ON: `walk` stands at the bucket of the next turn. */
LOOM_LANE open_outcome open_erase_turn(loom__slot_kind kind, int shared, lane_group group, const loom__open_view *view,
                                       open_walk *walk, lane_truth active)
{
    open_look look = open_find_turn(kind, shared, group, view, walk, active);
    lane_truth erased = 0;
    if (look.mine) { /* on one lane at most (I1) */
        erased = open_free_slot(kind, shared, view, walk, look.slot, look.pair);
        if (erased)
            open_note_erased(shared, view, walk);
    }
    erased = lane_some(lane_poll(group, erased));
    if (look.found)
        return erased ? OPEN_DONE : OPEN_ABSENT; /* the key was there once (I1): the second erase finds it absent */
    if (!look.further)
        return OPEN_ABSENT;
    open_advance(view, walk);
    return OPEN_GO_ON;
}

/* ---- erase by slot ---- */

/* A scan of the table erases keys where it finds them. One lane works on one slot. */

/* The walk of a key that lies in `bucket` (I1). */
LOOM_LANE open_walk open_walk_to(loom__slot_kind kind, const loom__open_view *view, uint64_t key, uint32_t bucket)
{
    open_walk walk = open_start(kind, view, key);
    while (walk.bucket != bucket && walk.depth + 1 < view->buckets)
        open_advance(view, &walk);
    return walk;
}

/* Reads the slot of the bucket where `here` stands. False: the slot holds no key, or a key that is being stored or
 * erased at this moment. *pair is what open_erase_slot needs. */
LOOM_LANE lane_truth open_read_slot(loom__slot_kind kind, int shared, const loom__open_view *view,
                                    const open_walk *here, uint32_t slot, uint64_t *key, uint64_t *value,
                                    uint64_t *pair)
{
    const unsigned char *line = open_line(kind, here, here->bucket);
    *pair = kind == SLOT_PAIR_4_4 ? lane_load_8((const uint64_t *)line + slot) : 0;
    *key = kind == SLOT_PAIR_4_4 ? (uint32_t)*pair : slot_key(kind, line, slot);
    if (*key == open_empty(view, here->partition_index) ||
        (shared == OPEN_MIXED && *key == open_retired(view, here->partition_index)))
        return 0;
    return open_read_value(kind, shared, line, slot, *pair, value);
}

/* Erases the key that open_read_slot read, as an erasure of the key would: *linearisation point* as there. False:
 * another erasure was first. No slot gets another key while erasures run, and no value changes, so the key and the
 * value are still those that were read. */
LOOM_LANE lane_truth open_erase_slot(loom__slot_kind kind, int shared, const loom__open_view *view,
                                     const open_walk *here, uint32_t slot, uint64_t key, uint64_t pair)
{
    const open_walk walk = open_walk_to(kind, view, key, here->bucket);
    if (!open_free_slot(kind, shared, view, &walk, slot, pair))
        return 0;
    open_note_erased(shared, view, &walk);
    return 1;
}

/* The next two are for a scan that has the table alone. The scan itself makes slots empty (I3), and adds up the wear of
 * a partition: an atomic addition for each key would cost as much as erasing the key. */

/* What is left to do for each slot that the scan made empty. Returns the wear. */
LOOM_LANE uint32_t open_slot_emptied(loom__slot_kind kind, int shared, const loom__open_view *view, uint32_t partition,
                                     uint32_t bucket, uint32_t slot, uint64_t key)
{
    const open_walk walk = open_walk_to(kind, view, key, bucket);
    if (slot_values_apart(kind)) { /* I4; other lanes may empty other slots of the bucket */
        unsigned char *line = view->base + loom__multiply_wide(partition, view->partition_bytes) +
                              (uint64_t)bucket * open_line_stride(kind);
        (void)open_clear_in_word(kind, line, slot, shared);
    }
    return open_wear_of(&walk);
}

/* What is left to do for a partition in which slots became empty. `wear` is the sum over these slots. */
LOOM_LANE void open_partition_emptied(int shared, const loom__open_view *view, uint32_t partition, uint32_t wear)
{
    lane_store_4(&view->marks[partition], OPEN_UNMARKED); /* I5 */
    lane_combine_4(&view->stale[partition], LOOM__ADD, wear, shared);
}

#endif
