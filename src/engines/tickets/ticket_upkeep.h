/* What is done to whole partitions of tickets: surveys, slot by slot; the depths of their keys; and their order, which a
 * lane restores that owns the partition. */
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

/* The tickets of a state in every `step`th word: with both bits of a state side by side, a word tells in a few steps.
 * Tickets behind the last slot are free. */
LOOM_LANE uint64_t ticket_count(const loom__ticket_view *view, uint32_t partition, uint32_t first_word, uint32_t step,
                                uint32_t state)
{
    const uint64_t *words = view->board + partition * view->partition_words;
    uint64_t lowest = 0, count = 0; /* bit 0 of each ticket */
    for (uint32_t i = 0; i < view->per_word; i++)
        lowest |= (uint64_t)1 << i * view->field;
    for (uint64_t i = first_word; i < view->partition_words; i += step) {
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

/* Whether the bits of a word that belong to no slot are ones: ticket_count counts on it. `slot` is the word's first. */
LOOM_LANE lane_truth ticket_rest_is_ones(const loom__ticket_view *view, uint32_t partition, uint32_t slot)
{
    uint32_t shift;
    const uint64_t *word = ticket_word(view, partition, slot, &shift);
    const uint32_t left = view->slots - slot, tickets = left < view->per_word ? left : view->per_word;
    const uint32_t used = tickets * view->field; /* bits */
    return used == 64 || lane_load_8(word) >> used == UINT64_MAX >> used;
}

/* Adds a slot to the sums. Returns whether it is free. */
LOOM_LANE lane_truth ticket_survey_slot(const loom__ticket_view *view, uint32_t partition, uint32_t slot,
                                        ticket_sums *sums)
{
    const uint32_t all = ticket_all_ones(view), ticket = ticket_load(view, partition, slot);
    uint32_t tickets = 0;
    lane_truth sound = ticket == all || ticket == (all & ~(uint32_t)TICKET_ACCESS);
    if ((ticket & TICKET_STATE) == TICKET_ACCESS) {
        sound = ticket_is_sound(view, partition, slot, &tickets);
        sums->size++;
        sums->accesses += tickets;
        sums->displaced += tickets > 1;
        sums->longest = tickets > sums->longest ? tickets : sums->longest;
    }
    if (slot % view->per_word == 0)
        sound = sound && ticket_rest_is_ones(view, partition, slot);
    const uint64_t bad = ~((uint64_t)partition * view->slots + slot);
    if (!sound && bad > sums->lowest_bad_inverted)
        sums->lowest_bad_inverted = bad;
    return ticket == all;
}

/* Completes the sums of a partition. */
LOOM_LANE void ticket_survey_end(const loom__ticket_view *view, uint32_t partition, uint32_t free_tickets,
                                 ticket_sums *sums)
{
    sums->fullest = sums->size;
    sums->miss_1024ths = (uint64_t)(ticket_miss_accesses(view, partition, free_tickets) * 1024);
}

/* The sums of all slots together. */
LOOM_BOTH loom__survey ticket_survey_of(const loom__ticket_view *view, const ticket_sums *sums)
{
    loom__survey survey;
    memset(&survey, 0, sizeof survey);
    survey.size = survey.pairs = sums->size;
    survey.fullest_partition = sums->fullest;
    survey.displaced = sums->displaced;
    survey.longest_chain = sums->longest;
    survey.hit_accesses = sums->accesses;
    survey.miss_accesses = (double)sums->miss_1024ths / 1024 / view->partitions;
    survey.first_bad = ~sums->lowest_bad_inverted;
    return survey;
}

/* ---- depth ---- */

/* How deep the key of a slot lies, if its depth counts (T3); otherwise 0. Rows may come from a file, and their keys may
 * lie anywhere: then the search for a key that is not where it should be ends early, and the survey finds it. */
LOOM_LANE uint32_t ticket_depth_of(const loom__ticket_view *view, uint32_t partition, uint32_t slot)
{
    const uint32_t all = ticket_all_ones(view), ticket = ticket_load(view, partition, slot);
    if ((ticket & TICKET_STATE) != TICKET_ACCESS)
        return 0;
    ticket_walk walk = ticket_start(view, ticket_row(view, partition, slot).key);
    if (walk.partition != partition || ticket >> TICKET_INFO_SHIFT != walk.info >> TICKET_INFO_SHIFT)
        return 0;
    while (walk.slot != slot && walk.depth + 1 < view->slots && ticket_load(view, partition, walk.slot) != all)
        ticket_advance(view, &walk);
    return walk.depth >= TICKET_NEAR ? walk.depth : 0;
}

/* ---- order ---- */

enum { TICKET_WORN_SHARE = 32 /* of a partition's tickets: so many that are retired make it worn */ };

LOOM_LANE lane_truth ticket_is_worn(const loom__ticket_view *view, uint64_t retired)
{
    return retired > view->slots / TICKET_WORN_SHARE;
}

/* Exchanges two rows: several words at a time, since a row in host memory is far away. */
LOOM_LANE void ticket_exchange(const loom__ticket_view *view, uint32_t partition, uint32_t a, uint32_t b)
{
    unsigned char *at_a = ticket_row(view, partition, a).key, *at_b = ticket_row(view, partition, b).key;
    uint32_t done = 0;
    if (view->stride % 8 == 0) {
        uint64_t *words_a = (uint64_t *)(void *)at_a, *words_b = (uint64_t *)(void *)at_b;
        for (; done + 32 <= view->stride; done += 32) {
            uint64_t from_a[4], from_b[4];
            for (uint32_t i = 0; i < 4; i++) {
                from_a[i] = lane_load_8(&words_a[done / 8 + i]);
                from_b[i] = lane_load_8(&words_b[done / 8 + i]);
            }
            for (uint32_t i = 0; i < 4; i++) {
                lane_store_8(&words_a[done / 8 + i], from_b[i]);
                lane_store_8(&words_b[done / 8 + i], from_a[i]);
            }
        }
        for (; done < view->stride; done += 8) {
            const uint64_t from_a = lane_load_8(&words_a[done / 8]), from_b = lane_load_8(&words_b[done / 8]);
            lane_store_8(&words_a[done / 8], from_b);
            lane_store_8(&words_b[done / 8], from_a);
        }
    }
    for (; done < view->stride; done++) {
        const unsigned char byte = at_a[done];
        at_a[done] = at_b[done];
        at_b[done] = byte;
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
