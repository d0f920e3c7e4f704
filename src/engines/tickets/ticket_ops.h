/* The algorithms of tables with a board of tickets: what a lane does to one ticket of its key's probe sequence. The cpu
 * machine, the cuda machine and the lane simulator (cases tickets/…) run them.
 *
 * "Stadium Hashing: Scalable and Flexible Hashing on GPUs" (Khorasani, Belviranli, Gupta, Bhuyan, PACT 2015)
 * contributes the board, a lane for each key, double hashing, tickets that are booked by an atomic on the board alone,
 * and the access bit in both of its meanings. Differences:
 *   - A search compares keys before it stores one, so no key is stored twice.
 *   - Erasing retires a ticket. In the paper it makes the ticket free, and a lookup that ends there misses keys that
 *     were passed on from it.
 *   - A ticket is claimed, and gets its info, by one compare-and-swap.
 *   - Probe sequences stay in a partition, and a search ends at the depth of the partition's deepest key.
 *   - An insertion looks at TICKET_REACH tickets, or as many as the deepest key of its partition needs, so that a full
 *     table refuses keys at a bounded price. All of them are taken with a probability of load ^ 1024: 10^-23 at load
 *     0.95, 10^-9 at 0.98.
 *
 * Invariants, between calls:
 *   T1  A key lies in its own partition, on its probe sequence, at most once.
 *   T2  No ticket before a key on its probe sequence is free.
 *   T3  A key at depth TICKET_NEAR or deeper is no deeper than its partition's depth.
 *   T4  No ticket is busy, and a ready one has the info of its row's key.
 * Hence a search ends at a free ticket, at the partition's depth, or after all slots.
 *
 * Concurrent lanes (`shared` = TICKET_SHARED), as in open tables (open_ops.h). Insertions, find-or-insert and
 * accumulations may overlap; or updates; or erasures. Lookups may overlap erasures, and insertions that keep. The
 * table's handle orders everything else. Loads, stores and swaps are relaxed; the reasons stand beside the fences.
 *
 *   Insert walks to the first free ticket, or to the end of its search, and remembers the first available one: free or
 *   retired. It claims that by a swap, which makes it busy; stores the row; and sets the access bit, *which is its
 *   linearisation point*. Two inserts of one key cannot both succeed, because no ticket becomes available while
 *   insertions run. Let A have claimed slot s. B's first available slot is not before s, since A saw that one taken. If
 *   it is s, B's swap fails, and B looks at s again. If it is behind s, B has seen s taken, with the key's info: either
 *   busy, and then B repeats its turn until the row is there; or ready, and then B compares keys. A stale load can only
 *   show a taken ticket as available, and then the swap fails. A lane that waits holds no ticket, and a lane that holds
 *   one does not wait.
 *   Overwrite, update, accumulate and fetch change or read a value of 4 or 8 bytes by one access, *which is their
 *   linearisation point*. Where values have other widths, and where rows may lie in host memory, which atomics must not
 *   touch, they take a row by clearing its access bit, and give it back by setting the bit, *which is then their
 *   linearisation point*. So values of any width stay whole.
 *   Erase clears the access bit, *which is its linearisation point*, and then retires the ticket. Of two erases of one
 *   key the second finds the access bit clear: the key is absent.
 *   Find reads the row of a ready ticket with its key's info; *linearisation point: the load of the ticket*. The row of
 *   a retired ticket stays as it is while lookups may overlap.
 *
 * Insertions and erasures at the same time (`shared` = TICKET_MIXED), with lookups. Retired tickets are not claimed. So
 * a ticket goes from free to busy to ready to retired and never back, and the argument above holds with "not free" in
 * place of "taken". Nobody writes values of present keys. A lookup or an erasure that meets a busy ticket with its
 * key's info has a choice, the paper's two meanings of the access bit (`waits`). It may ignore the ticket: the key is
 * being stored or erased, and counts as absent. Or it may wait until the ticket is ready or retired. An insertion
 * always waits.
 *
 * Bounds: a walk has at most `slots` turns, except those that wait and those after a lost swap. Each lost claim means
 * that another lane took the slot. */
#ifndef LOOM_TICKET_OPS_H
#define LOOM_TICKET_OPS_H

#include "core/lanes.h"
#include "core/slot_ops.h"
#include "engines/tickets/ticket_layout.h"

#define TICKET_NO_SLOT UINT32_MAX

enum {
    TICKET_ALONE = 0,  /* no other lane is at work, or the caller owns the partition */
    TICKET_SHARED = 1, /* one kind of writers, and lookups */
    TICKET_MIXED = 2   /* insertions that keep, find-or-insert, erasures and lookups */
};

typedef enum ticket_outcome {
    TICKET_GO_ON = 0, /* not decided: take another turn */
    TICKET_DONE,      /* found, stored as new, updated or erased */
    TICKET_WAS_THERE, /* insert: the key existed */
    TICKET_NOT_THERE, /* find, update, erase: the key is not in the table */
    TICKET_NO_ROOM    /* insert: no ticket within reach is available */
} ticket_outcome;

/* One key on its probe sequence. */
typedef struct ticket_walk {
    const unsigned char *key;
    uint32_t partition, slot, step;
    uint32_t depth;                 /* slots passed */
    uint32_t info;                  /* in its place in a ticket */
    uint32_t open_slot, open_depth; /* insert: the first available ticket that was seen */
} ticket_walk;

LOOM_LANE ticket_walk ticket_start(const loom__ticket_view *view, const unsigned char *key)
{
    const uint64_t hash = open_row_hash(key, view->key_bytes, view->seed);
    ticket_walk walk;
    walk.key = key;
    walk.partition = loom__hash_partition(hash, view->partitions);
    walk.slot = loom__hash_bucket((uint32_t)hash, view->slots);
    walk.step = loom__hash_step((uint32_t)hash, view->slots);
    walk.depth = 0;
    walk.info = ticket_info_of(view, hash);
    walk.open_slot = TICKET_NO_SLOT;
    walk.open_depth = 0;
    return walk;
}

LOOM_LANE void ticket_advance(const loom__ticket_view *view, ticket_walk *walk)
{
    walk->slot += walk->step;
    walk->slot -= walk->slot >= view->slots ? view->slots : 0;
    walk->depth++;
}

/* What a lane sees in the ticket where its walk stands. */
typedef struct ticket_look {
    uint64_t *word;
    uint32_t shift;
    uint32_t state; /* TICKET_AVAILABLE and TICKET_ACCESS */
    int is_info;    /* taken, with the key's info */
} ticket_look;

LOOM_LANE ticket_look ticket_look_at(const loom__ticket_view *view, const ticket_walk *walk)
{
    ticket_look look;
    look.word = ticket_word(view, walk->partition, walk->slot, &look.shift);
    const uint32_t ticket = ticket_in(view, lane_load_8(look.word), look.shift);
    look.state = ticket & TICKET_STATE;
    look.is_info = !(ticket & TICKET_AVAILABLE) && ticket >> TICKET_INFO_SHIFT == walk->info >> TICKET_INFO_SHIFT;
    return look;
}

LOOM_LANE uint64_t ticket_bit(const ticket_look *look, uint32_t bit)
{
    return (uint64_t)bit << look->shift;
}

/* Whether the row of a ready ticket has the walk's key. */
LOOM_LANE lane_truth ticket_same_key(int shared, const loom__ticket_view *view, const ticket_walk *walk)
{
    lane_acquire(shared); /* the row was stored before the access bit that this lane saw */
    return lane_same_bytes(ticket_row(view, walk->partition, walk->slot).key, walk->key, view->key_bytes);
}

/* Whether the search for a key ends here: no key lies deeper (T3), or all slots were seen. */
LOOM_LANE lane_truth ticket_is_deepest(const loom__ticket_view *view, const ticket_walk *walk)
{
    return walk->depth + 1 >= view->slots ||
           (walk->depth >= TICKET_NEAR && walk->depth >= lane_load_4(&view->depths[walk->partition]));
}

/* ---- find ---- */

/* One turn of a search for a key that may be there. DONE: the walk stands at the key's ticket, and *look has what it
 * was when the keys were compared. `waits`: busy tickets with the key's info are waited for. */
LOOM_LANE ticket_outcome ticket_seek_turn(int shared, int waits, const loom__ticket_view *view, ticket_walk *walk,
                                          ticket_look *look)
{
    *look = ticket_look_at(view, walk);
    if (look->state == TICKET_STATE)
        return TICKET_NOT_THERE;
    if (look->is_info && look->state == 0 && waits)
        return TICKET_GO_ON;
    if (look->is_info && look->state == TICKET_ACCESS && ticket_same_key(shared, view, walk))
        return TICKET_DONE;
    if (ticket_is_deepest(view, walk))
        return TICKET_NOT_THERE;
    ticket_advance(view, walk);
    return TICKET_GO_ON;
}

/* One turn of a lookup. The value is copied to `to`, unless that is NULL. */
LOOM_LANE ticket_outcome ticket_find_turn(int shared, int waits, const loom__ticket_view *view, ticket_walk *walk,
                                          unsigned char *to)
{
    ticket_look look;
    const ticket_outcome outcome = ticket_seek_turn(shared, waits, view, walk, &look);
    if (outcome == TICKET_DONE && to != NULL)
        lane_read_bytes(to, ticket_row(view, walk->partition, walk->slot).value, view->value_bytes);
    return outcome;
}

/* ---- insert, update ---- */

/* The same as ticket_meet for a value of one word: others may change it at the same time. */
LOOM_LANE void ticket_meet_word(slot_mode mode, loom__combine_rule rule, int shared, uint32_t value_bytes,
                                unsigned char *at, const unsigned char *from, unsigned char *to)
{
    uint64_t number = 0;
    uint32_t half = 0;
    if (mode == SLOT_FETCH) {
        number = value_bytes == 8 ? lane_load_8((const uint64_t *)(const void *)at)
                                  : lane_load_4((const uint32_t *)(const void *)at);
        half = (uint32_t)number;
        memcpy(to, value_bytes == 8 ? (const void *)&number : (const void *)&half, value_bytes);
        return;
    }
    if (value_bytes == 8) {
        memcpy(&number, from, 8);
        if (mode == SLOT_OVERWRITE)
            lane_store_8((uint64_t *)(void *)at, number);
        else
            lane_combine_8((uint64_t *)(void *)at, rule, number, shared);
    } else {
        memcpy(&half, from, 4);
        if (mode == SLOT_OVERWRITE)
            lane_store_4((uint32_t *)(void *)at, half);
        else
            lane_combine_4((uint32_t *)(void *)at, rule, half, shared);
    }
}

/* Applies a mode to a present key. value[0] is the address of the given value, value[1] where FETCH stores the found
 * one; 0: nowhere. COMBINE: values of 4 or 8 bytes. False: another lane has the row. */
LOOM_LANE lane_truth ticket_meet(slot_mode mode, loom__combine_rule rule, int shared, const loom__ticket_view *view,
                                 const ticket_walk *walk, const ticket_look *look, const uint64_t *value)
{
    unsigned char *const at = ticket_row(view, walk->partition, walk->slot).value;
    unsigned char *const to = (unsigned char *)(uintptr_t)value[1];
    const unsigned char *const from = (const unsigned char *)(uintptr_t)value[0];
    if (mode == SLOT_KEEP || view->value_bytes == 0 || (mode == SLOT_FETCH && to == NULL))
        return 1;
    if (mode == SLOT_FETCH && shared == TICKET_MIXED) { /* nobody writes the values of present keys */
        lane_read_bytes(to, at, view->value_bytes);
        return 1;
    }
    if (view->word_values) {
        ticket_meet_word(mode, rule, shared, view->value_bytes, at, from, to);
        return 1;
    }
    const uint64_t access = ticket_bit(look, TICKET_ACCESS);
    if (shared && !(lane_and_8(look->word, ~access, shared) & access))
        return 0;
    lane_acquire(shared); /* what the former owner wrote comes before what this lane reads and writes */
    if (mode == SLOT_FETCH) {
        lane_read_bytes(to, at, view->value_bytes);
    } else if (mode == SLOT_OVERWRITE) {
        lane_write_bytes(at, from, view->value_bytes);
    } else {
        uint64_t old = 0, number = 0;
        lane_read_bytes((unsigned char *)&old, at, view->value_bytes);
        memcpy(&number, from, view->value_bytes);
        number = view->value_bytes == 8 ? loom__combine_8(rule, old, number)
                                        : loom__combine_4(rule, (uint32_t)old, (uint32_t)number);
        lane_write_bytes(at, (const unsigned char *)&number, view->value_bytes);
    }
    lane_release(shared); /* what this lane read and wrote comes before the access bit */
    if (shared)
        lane_or_8(look->word, access, shared);
    return 1;
}

/* Claims the remembered ticket and stores the row. False: another lane took it first. The swap also fails if another
 * ticket of the word has changed; then it is tried again. */
LOOM_LANE lane_truth ticket_claim(int shared, const loom__ticket_view *view, const ticket_walk *walk,
                                  const unsigned char *value)
{
    ticket_look look;
    const uint32_t all = (1u << view->field) - 1;
    look.word = ticket_word(view, walk->partition, walk->open_slot, &look.shift);
    for (uint64_t seen = lane_load_8(look.word);;) {
        const uint32_t state = ticket_in(view, seen, look.shift) & TICKET_STATE;
        if (!(state & TICKET_AVAILABLE) || (shared == TICKET_MIXED && state != TICKET_STATE))
            return 0;
        const uint64_t busy = (seen & ~ticket_bit(&look, all)) | ticket_bit(&look, walk->info);
        const uint64_t old = lane_swap_8(look.word, seen, busy, shared);
        if (old == seen)
            break;
        seen = old;
    }
    if (walk->open_depth >= TICKET_NEAR)
        lane_combine_4(&view->depths[walk->partition], LOOM__MAX_UNSIGNED, walk->open_depth, shared); /* T3 */
    const open_row_place row = ticket_row(view, walk->partition, walk->open_slot);
    lane_write_bytes(row.key, walk->key, view->key_bytes);
    if (view->value_bytes > 0)
        lane_write_bytes(row.value, value, view->value_bytes);
    lane_release(shared); /* the row, and the depth, come before the access bit */
    lane_or_8(look.word, ticket_bit(&look, TICKET_ACCESS), shared);
    return 1;
}

/* One turn of an insertion. `value` as in ticket_meet. */
LOOM_LANE ticket_outcome ticket_insert_turn(slot_mode mode, loom__combine_rule rule, int shared,
                                            const loom__ticket_view *view, ticket_walk *walk, const uint64_t *value)
{
    const ticket_look look = ticket_look_at(view, walk);
    if (look.is_info && look.state == 0)
        return TICKET_GO_ON; /* it may be the key: wait */
    if (look.is_info && ticket_same_key(shared, view, walk))
        return ticket_meet(mode, rule, shared, view, walk, &look, value) ? TICKET_WAS_THERE : TICKET_GO_ON;
    const int is_free = look.state == TICKET_STATE;
    const int is_open = is_free || (look.state == TICKET_AVAILABLE && shared != TICKET_MIXED);
    if (is_open && walk->open_slot == TICKET_NO_SLOT) {
        walk->open_slot = walk->slot;
        walk->open_depth = walk->depth;
    }
    const int was_open = walk->open_slot != TICKET_NO_SLOT;
    const int may_end = was_open || walk->depth + 1 >= view->reach;
    if (!is_free && !(may_end && ticket_is_deepest(view, walk))) {
        ticket_advance(view, walk);
        return TICKET_GO_ON;
    }
    if (!was_open)
        return TICKET_NO_ROOM;
    if (ticket_claim(shared, view, walk, (const unsigned char *)(uintptr_t)value[0]))
        return TICKET_DONE;
    /* All slots before the lost one were taken, without the key, and stay so. Go on from it. */
    walk->slot = walk->open_slot;
    walk->depth = walk->open_depth;
    walk->open_slot = TICKET_NO_SLOT;
    return TICKET_GO_ON;
}

/* One turn of an update, which gives a new value to a present key. It waits while another update has the row. */
LOOM_LANE ticket_outcome ticket_update_turn(int shared, const loom__ticket_view *view, ticket_walk *walk,
                                            const uint64_t *value)
{
    ticket_look look;
    const ticket_outcome outcome = ticket_seek_turn(shared, 1, view, walk, &look);
    if (outcome == TICKET_DONE && !ticket_meet(SLOT_OVERWRITE, LOOM__ADD, shared, view, walk, &look, value))
        return TICKET_GO_ON;
    return outcome;
}

/* ---- erase ---- */

/* One turn of an erasure. */
LOOM_LANE ticket_outcome ticket_erase_turn(int shared, int waits, const loom__ticket_view *view, ticket_walk *walk)
{
    ticket_look look;
    const ticket_outcome outcome = ticket_seek_turn(shared, waits, view, walk, &look);
    if (outcome != TICKET_DONE)
        return outcome;
    const uint64_t access = ticket_bit(&look, TICKET_ACCESS), all = ticket_bit(&look, (1u << view->field) - 1);
    if (!(lane_and_8(look.word, ~access, shared) & access))
        return TICKET_NOT_THERE; /* another erasure was first (T1) */
    lane_or_8(look.word, all & ~access, shared);
    return TICKET_DONE;
}

#endif
