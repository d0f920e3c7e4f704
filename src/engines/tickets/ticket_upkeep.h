/* What a lane that owns a partition of tickets does to the whole of it: it surveys it, finds out how deep its keys lie,
 * and puts it in order. */
#ifndef LOOM_TICKET_UPKEEP_H
#define LOOM_TICKET_UPKEEP_H

#include "core/batch.h"
#include "engines/tickets/ticket_ops.h"

/* What a lane saw in a partition, or the sum over several. */
typedef struct ticket_sums {
    uint64_t size, displaced, accesses;
    uint64_t fullest, longest; /* size of the fullest partition; tickets that the search for the deepest key reads */
    uint64_t
        lowest_bad_inverted; /* ~ the lowest slot, counted over all partitions, that breaks an invariant; 0: none */
    uint64_t miss_1024ths;   /* of the tickets that a search for a random absent key reads, summed over partitions */
} ticket_sums;

LOOM_LANE uint32_t ticket_load(const loom__ticket_view *view, uint32_t partition, uint32_t slot)
{
    uint32_t shift;
    const uint64_t *word = ticket_word(view, partition, slot, &shift);
    return ticket_in(view, lane_load_8(word), shift);
}

/* Changes a ticket that this lane owns, as it does the whole word. */
LOOM_LANE void ticket_store(const loom__ticket_view *view, uint32_t partition, uint32_t slot, uint32_t ticket)
{
    uint32_t shift;
    uint64_t *word = ticket_word(view, partition, slot, &shift);
    const uint64_t all = (uint64_t)((1u << view->field) - 1) << shift;
    lane_store_8(word, (lane_load_8(word) & ~all) | (uint64_t)ticket << shift);
}

/* The tickets of a state in some words: with both bits of a state side by side, a word tells in a few steps. Tickets behind
 * the last slot are free. */
LOOM_LANE uint64_t ticket_count(const loom__ticket_view *view, uint32_t partition, uint32_t first_word, uint32_t state)
{
    const uint64_t *words = view->board + partition * view->partition_words;
    uint64_t lowest = 0, count = 0; /* bit 0 of each ticket */
    for (uint32_t i = 0; i < view->per_word; i++)
        lowest |= (uint64_t)1 << i * view->field;
    for (uint64_t i = first_word; i < view->partition_words; i++) {
        const uint64_t word = lane_load_8(&words[i]);
        const uint64_t available = state & TICKET_AVAILABLE ? word : ~word;
        const uint64_t access = state & TICKET_ACCESS ? word >> 1 : ~(word >> 1);
        count += loom__count_bits(available & access & lowest);
    }
    return count;
}

LOOM_LANE uint32_t ticket_all_ones(const loom__ticket_view *view)
{
    return (1u << view->field) - 1;
}

/* ---- survey ---- */

/* Whether lookups find the row of a ready ticket where it is, which they do if T1, T2, T3 and T4 hold for it. *tickets:
 * how many they read. */
LOOM_LANE lane_truth ticket_is_sound(const loom__ticket_view *view, uint32_t partition, uint32_t slot,
                                     uint32_t *tickets)
{
    ticket_walk walk = ticket_start(view, ticket_row(view, partition, slot).key);
    ticket_outcome outcome;
    do { /* at most `slots` turns: nobody writes */
        ticket_look look;
        outcome = ticket_seek_turn(TICKET_ALONE, 0, view, &walk, &look);
    } while (outcome == TICKET_GO_ON);
    *tickets = walk.depth + 1;
    return outcome == TICKET_DONE && walk.partition == partition && walk.slot == slot;
}

/* Tickets that a search for an absent key reads: it ends at a free one, or at the partition's depth. */
LOOM_LANE double ticket_miss_accesses(const loom__ticket_view *view, uint32_t partition, uint32_t free_tickets)
{
    const uint32_t depth = view->depths[partition] > TICKET_NEAR ? view->depths[partition] : TICKET_NEAR;
    const double passed = 1 - (double)free_tickets / view->slots;
    double reached = 1, sum = 0; /* the share of searches that read a ticket at this depth */
    for (uint32_t i = 0; i <= depth && i < view->slots && reached > 1e-9; i++, reached *= passed)
        sum += reached;
    return sum;
}

LOOM_LANE void ticket_survey(const loom__ticket_view *view, uint32_t partition, ticket_sums *sums)
{
    const uint32_t all = ticket_all_ones(view);
    uint32_t free_tickets = 0;
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        const uint32_t ticket = ticket_load(view, partition, slot);
        uint32_t tickets = 0;
        lane_truth sound = ticket == all || ticket == (all & ~(uint32_t)TICKET_ACCESS);
        free_tickets += ticket == all;
        if ((ticket & TICKET_STATE) == TICKET_ACCESS) {
            sound = ticket_is_sound(view, partition, slot, &tickets);
            sums->size++;
            sums->accesses += tickets;
            sums->displaced += tickets > 1;
            sums->longest = tickets > sums->longest ? tickets : sums->longest;
        }
        const uint64_t bad = ~((uint64_t)partition * view->slots + slot);
        if (!sound && bad > sums->lowest_bad_inverted)
            sums->lowest_bad_inverted = bad;
    }
    sums->fullest = sums->size;
    sums->miss_1024ths = (uint64_t)(ticket_miss_accesses(view, partition, free_tickets) * 1024);
}

/* ---- depth ---- */

/* Sets the partition's depth from its rows. They may come from a file, and their keys may lie anywhere: the search for
 * a key that is not where it should be ends early, and the survey finds it. */
LOOM_LANE void ticket_find_depth(const loom__ticket_view *view, uint32_t partition)
{
    const uint32_t all = ticket_all_ones(view);
    uint32_t depth = 0;
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        const uint32_t ticket = ticket_load(view, partition, slot);
        if ((ticket & TICKET_STATE) != TICKET_ACCESS)
            continue;
        ticket_walk walk = ticket_start(view, ticket_row(view, partition, slot).key);
        if (walk.partition != partition || ticket >> TICKET_INFO_SHIFT != walk.info >> TICKET_INFO_SHIFT)
            continue;
        while (walk.slot != slot && walk.depth + 1 < view->slots && ticket_load(view, partition, walk.slot) != all)
            ticket_advance(view, &walk);
        depth = walk.depth > depth ? walk.depth : depth;
    }
    view->depths[partition] = depth >= TICKET_NEAR ? depth : 0;
}

/* ---- order ---- */

/* Exchanges two rows. */
LOOM_LANE void ticket_exchange(const loom__ticket_view *view, uint32_t partition, uint32_t a, uint32_t b)
{
    unsigned char *from = ticket_row(view, partition, a).key, *to = ticket_row(view, partition, b).key;
    for (uint32_t i = 0; i < view->stride; i++) {
        const unsigned char byte = from[i];
        from[i] = to[i];
        to[i] = byte;
    }
}

/* Gives the row in `slot` its final place: the first ticket of its key's probe sequence that is not ready. That ticket
 * is free, and the row moves there; or busy, and the two rows change places, after which `slot` has the other one. Or
 * it is the row's own. Returns whether `slot` is settled; then it is free or ready. */
LOOM_LANE lane_truth ticket_settle(const loom__ticket_view *view, uint32_t partition, uint32_t slot, uint32_t *depth)
{
    const uint32_t all = ticket_all_ones(view);
    ticket_walk walk = ticket_start(view, ticket_row(view, partition, slot).key);
    while ((ticket_load(view, partition, walk.slot) & TICKET_STATE) == TICKET_ACCESS)
        ticket_advance(view, &walk); /* ends: `slot` itself is busy, and lies on every probe sequence */
    const int is_free = ticket_load(view, partition, walk.slot) == all;
    *depth = walk.depth > *depth ? walk.depth : *depth;
    if (walk.slot != slot)
        ticket_exchange(view, partition, slot, walk.slot);
    const uint32_t left =
        is_free ? all : ticket_load(view, partition, walk.slot); /* of the row that is now in `slot` */
    ticket_store(view, partition, slot, left);
    ticket_store(view, partition, walk.slot, walk.info | TICKET_ACCESS);
    return walk.slot == slot || is_free;
}

/* Puts the keys of a partition where insertions into an empty one would, so that no ticket is retired and the depth is
 * no larger than it must be. The caller owns the table. Retired tickets become free, and the others busy: not settled.
 * Then row after row is settled, and each step settles one.
 *
 * T2 holds afterwards: when a row was settled, all tickets before it on its probe sequence were ready, and settled
 * tickets stay ready. */
LOOM_LANE void ticket_put_in_order(const loom__ticket_view *view, uint32_t partition)
{
    const uint32_t all = ticket_all_ones(view);
    uint32_t depth = 0;
    for (uint32_t slot = 0; slot < view->slots; slot++) {
        const uint32_t ticket = ticket_load(view, partition, slot);
        ticket_store(view, partition, slot, ticket & TICKET_AVAILABLE ? all : ticket & ~(uint32_t)TICKET_ACCESS);
    }
    for (uint32_t slot = 0; slot < view->slots; slot++)
        while ((ticket_load(view, partition, slot) & TICKET_STATE) == 0)
            if (ticket_settle(view, partition, slot, &depth))
                break;
    view->depths[partition] = depth >= TICKET_NEAR ? depth : 0;
}

#endif
