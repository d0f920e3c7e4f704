/* How much work a search for room in a partition may take (perfect_room.h), and the word that remembers what earlier
 * searches took (loom__perfect_view.marks).
 *
 *   bits 0..1    the partition's mark
 *   bits 2..7    *fewer*: PERFECT_RETURNED times this number of moves are missing from the next search
 *   bits 8..31   *debt*: keys that must leave the partition to pay for the deals that it has had. A deal inserts all
 *                keys of the partition with another salt
 *
 * The word of a partition without trouble is 0. Words are not in files: a loaded table has no debts.
 *
 * Without bounds, each erased key would buy the next insertion the whole search again: 8 plans of 20 moves, which read
 * 20,000 lines, then a count of the keys, then three deals. The bounds:
 *   E1  A search may make PERFECT_MOST_EFFORT moves, until one fails. The next search then makes one move, and 3 more
 *       for each key that has left the partition. There is no search before a key has left, so the next one makes at
 *       least 4 moves. At load 0.8 these are too few for one key in 10^5.
 *   E2  A deal costs as much debt as 1/16 of the keys that the partition is made for. A partition has PERFECT_DEALS
 *       deals on credit. After these, keys that leave must pay for each deal. Deals that succeed cost the same:
 *       otherwise keys chosen for the present salt could ask for one deal after the other. A partition without debt
 *       may have PERFECT_RESEEDS deals in one search, others one.
 *   E3  A partition with more keys than it is made for is not reseeded. Its keys were counted to find that out. They
 *       are not counted again before that excess, and 1/64 of the keys that the partition is made for, have left.
 * So, in the long run, a key that leaves pays for 4 moves that fail and for 1/16 of a deal's work on one key. None of
 * these bounds applies before the first search that fails: a partition gets as full as without them.
 *
 * Measured on 2026-11-17 on one core of a Neoverse V1, by a program that is not in the tree: 4 + 4 bytes, growth = 0,
 * room for 10^5 keys at load 0.8 and 0.95; thread time of one erased key and one inserted key, mean and longest of
 * 2,000 pairs, in µs. "Brim": random keys, after 20,000 random keys were offered to the full table. "One cell": keys of
 * one cell, in a partition that is nearly as full as it is made for. "Jammed cell": a random key leaves the partition,
 * and one of that cell comes.
 *                  0.8: before     now            0.95: before      now
 *     usual              0.9         0.9                  2.4           2.4
 *     brim               168,  530   12.6,   236          122,    553   26.4,   513
 *     one cell           209, 9637    9.7,  3304          508,  20366   16.0,  7116
 *     jammed cell       4226, 6951   11.1,  3191         5361,   8359   11.9,  2384
 * At the brim 626 and 1354 of 2,000 keys were stored; before, 919 and 1645. With 4 moves in place of 3 for each key
 * that has left, the brim took 20.1 and 35.3 µs, and stored 754 and 1461. With whole plans in place of moves, one for
 * each key that has left, it took 85 and 83 µs. With 10^6 keys (usual 2.0 and 5.8) the brim took 23.5 and 51.9 instead
 * of 174 and 166 µs. What remains above a millisecond is one deal. A deal takes 4 ms in a partition of 12,616 slots at
 * load 0.94, and 13 ms in one of 26,632 at 0.99. */
#ifndef LOOM_PERFECT_EFFORT_H
#define LOOM_PERFECT_EFFORT_H

#include "engines/perfect/perfect_layout.h"

enum {
    PERFECT_MOST_MOVES = 20, /* cells that one plan moves */
    PERFECT_TRIES = 8,       /* plans of a search that may take all the effort */
    PERFECT_MOST_EFFORT = PERFECT_TRIES * PERFECT_MOST_MOVES,
    PERFECT_RETURNED = 3,                                              /* moves that a key that leaves returns */
    PERFECT_MOST_FEWER = (PERFECT_MOST_EFFORT - 1) / PERFECT_RETURNED, /* at least one move remains */
    PERFECT_RESEEDS = 3,      /* deals of a search in a partition without debt; later one at a time */
    PERFECT_DEALS = 8,        /* deals on credit */
    PERFECT_DEAL_SHARE = 16,  /* a deal costs this share of the keys that the partition is made for */
    PERFECT_COUNT_SHARE = 64, /* this share of them must leave before a partition's keys are counted again */
    PERFECT_MARK_BITS = 2,
    PERFECT_DEBT_SHIFT = 8
};

LOOM_STATIC_ASSERT(PERFECT_MOST_FEWER < 1 << (PERFECT_DEBT_SHIFT - PERFECT_MARK_BITS), "*fewer* fits its bits");

LOOM_LANE uint32_t perfect_mark_in(uint32_t word)
{
    return word & ((1u << PERFECT_MARK_BITS) - 1);
}

LOOM_LANE uint32_t perfect_marked(uint32_t word, loom__perfect_mark mark)
{
    return (word - perfect_mark_in(word)) | (uint32_t)mark;
}

LOOM_LANE uint32_t perfect_fewer_in(uint32_t word)
{
    return word >> PERFECT_MARK_BITS & ((1u << (PERFECT_DEBT_SHIFT - PERFECT_MARK_BITS)) - 1);
}

LOOM_LANE uint32_t perfect_debt_in(uint32_t word)
{
    return word >> PERFECT_DEBT_SHIFT;
}

LOOM_LANE uint32_t perfect_effort_word(uint32_t mark, uint32_t fewer, uint32_t debt)
{
    return debt << PERFECT_DEBT_SHIFT | fewer << PERFECT_MARK_BITS | mark;
}

/* ---- Plans ---- */

/* The moves that all plans of the next search may make together. */
LOOM_LANE uint32_t perfect_effort(uint32_t word)
{
    return PERFECT_MOST_EFFORT - PERFECT_RETURNED * perfect_fewer_in(word);
}

/* After a search whose plans have all failed (E1). */
LOOM_LANE uint32_t perfect_tired(uint32_t word)
{
    return perfect_effort_word(perfect_mark_in(word), PERFECT_MOST_FEWER, perfect_debt_in(word));
}

/* After a deal that succeeded: cells lie as in a new partition. */
LOOM_LANE uint32_t perfect_rested(uint32_t word)
{
    return perfect_effort_word(perfect_mark_in(word), 0, perfect_debt_in(word));
}

/* ---- Deals ---- */

/* The debt of one deal (E2). */
LOOM_LANE uint32_t perfect_deal_price(const loom__perfect_view *view)
{
    return view->made_for / PERFECT_DEAL_SHARE + 1;
}

/* The deals that one search may make, if the partition can pay for them. */
LOOM_LANE uint32_t perfect_reseeds(uint32_t word)
{
    return perfect_debt_in(word) == 0 ? PERFECT_RESEEDS : 1;
}

/* Whether the partition may have a deal. */
LOOM_LANE int perfect_can_pay(const loom__perfect_view *view, uint32_t word)
{
    return perfect_debt_in(word) <= (PERFECT_DEALS - 1) * perfect_deal_price(view);
}

LOOM_LANE uint32_t perfect_charged(const loom__perfect_view *view, uint32_t word)
{
    return word + (perfect_deal_price(view) << PERFECT_DEBT_SHIFT);
}

/* When the partition holds `excess` keys more than it may hold to be reseeded (E3). Called if it can pay. */
LOOM_LANE uint32_t perfect_put_off(const loom__perfect_view *view, uint32_t word, uint32_t excess)
{
    const uint32_t debt =
        (PERFECT_DEALS - 1) * perfect_deal_price(view) + excess + view->made_for / PERFECT_COUNT_SHARE + 1;
    return perfect_effort_word(perfect_mark_in(word), perfect_fewer_in(word), debt);
}

/* ---- Keys that leave ---- */

/* After so many keys have left: the mark is gone, since there may be room. */
LOOM_LANE uint32_t perfect_repaid(uint32_t word, uint32_t keys)
{
    const uint32_t fewer = perfect_fewer_in(word), debt = perfect_debt_in(word);
    return perfect_effort_word(PERFECT_UNMARKED, fewer - (keys < fewer ? keys : fewer),
                               debt - (keys < debt ? keys : debt));
}

#endif
