/* How much work a search for room in a partition may take, and the word that remembers it (loom__perfect_view.marks).
 *
 *   bits 0..1    the partition's mark
 *   bits 2..4    *fewer*: by so many plans the next search makes fewer than PERFECT_TRIES
 *   bits 8..31   *debt*: keys that must leave the partition to pay for the deals that it has had. A deal inserts all
 *                keys of the partition with another salt (perfect_room.h)
 *
 * The word of a partition without trouble is 0. Words are not in files: a loaded table has no debts.
 *
 * Without a bound, each erased key would buy the next insertion the whole search again: 8 plans, which read thousands
 * of lines, then up to three deals, which take milliseconds each. The bounds:
 *   E1  A search that fails leaves *fewer* at 7, so the next search makes one plan. Each key that leaves the partition
 *       returns one plan. A key for which the first plan finds room is therefore never refused for lack of effort.
 *   E2  A deal costs as much debt as 1/16 of the keys that the partition is made for. A partition has PERFECT_DEALS
 *       deals on credit. After that, a deal must be paid for by keys that leave. Deals that succeed cost the same:
 *       otherwise keys chosen for the present salt could ask for a deal each.
 *   E3  A partition with more keys than it is made for is not reseeded. Its keys were counted to find that out. They
 *       are not counted again before enough keys have left.
 * So a key that leaves pays for two failed plans and for 1/16 of the work of inserting each key of the partition. */
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
