/* Room for many keys of a partition at once, each by another code of its own cell: the first move of a plan (perfect_room.h), which
 * is all that most keys need, without the ones that follow.
 *
 * A team owns the partition, and has keys that are not in it and whose buckets are full. Its groups do a step for all of the keys, then
 * the next step:
 *   1. A key's cell is counted, the key included, and how full its sixteen buckets are without it. Of two keys of one cell the
 *      first one counts.
 *   2. The cell *claims* the code that overfills no bucket, of several the one whose buckets are emptiest. If there is none, it
 *      stays; and so do cells in the stash, and those with more keys than there is memory for.
 *   3. What all claims bring to a bucket is added up. A cell that claims a bucket which would be too full then stays, too.
 *   4. The keys of cells that move are lifted out of their buckets, codes change, the keys are put back.
 * So no step can fail: to a bucket come at most the keys that were claimed for it, those of cells that stay included, and what
 * leaves it on other cells' behalf counts for nothing. Two cells that want a last slot may both stay. What is not helped is as it was
 * before, and for others: plans, which move other cells, too.
 *
 * What it costs: 16 lines read for each key, two of each subrange, and 8 again for a cell that moves; and one wait for each step
 * instead of one for each step and key. Of keys that met a full bucket, 1 % more into tables of 10^8 pairs of 4 + 4 bytes, a trial on a
 * GPU, which tried it in all partitions, counted 94 % that it helped at load 0.53, 84 % at 0.8 (12 % had no code, 4 % were in each other's
 * way), 50 % at 0.9. */
#ifndef LOOM_PERFECT_RECODE_H
#define LOOM_PERFECT_RECODE_H

#include "engines/perfect/perfect_room.h"

enum {
    PERFECT_MOST_RECODED = PERFECT_MOST_CANDIDATES,                          /* keys at once */
    PERFECT_MOST_OF_RECODED = PERFECT_MOST_LIFTED / PERFECT_MOST_RECODED + 1 /* keys of a cell, the new one included */
};

LOOM_STATIC_ASSERT(PERFECT_MOST_RECODED *(PERFECT_MOST_OF_RECODED - 1) <= PERFECT_MOST_LIFTED, "a place for each");

/* The bucket that a claim brings the cell's keys of this turn to, and how many they are; 0: none. */
LOOM_LANE uint32_t perfect_claimed(const loom__perfect_view *view, const perfect_owner *owner, const perfect_desk *desk,
                                   uint32_t which, uint32_t turn, uint32_t *bucket)
{
    const perfect_tally *tally = &desk->candidates[which];
    const uint32_t code = lane_team_load_4(&desk->wishes[which].code);
    if (code == PERFECT_NOWHERE)
        return 0;
    *bucket = perfect_bucket_in(lane_team_load_4(&tally->cell), owner->salt, code >> 3,
                                (turn + code) % PERFECT_SUBRANGES, view->subrange);
    return perfect_count(tally, code >> 3, turn);
}

/* The group: a key's cell claims a code. */
LOOM_LANE void perfect_claim_code(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                  perfect_desk *desk, uint32_t which)
{
    const perfect_place place = perfect_place_of_key(kind, view, lane_team_load(&desk->keys[which]));
    const uint32_t cell = perfect_cell(place), present = perfect_code_of(owner, cell);
    uint32_t code = PERFECT_NOWHERE;
    uint64_t fills = 0;
    if (present != PERFECT_STASHED && perfect_is_candidate(desk, which, 0)) {
        perfect_reading reading = perfect_read_cell(kind, view, owner, desk, cell, present, 0);
        perfect_add_key(reading.counts, place.rest, owner->salt);
        reading.keys++;
        perfect_tell_cell(owner, &desk->candidates[which], cell, present, &reading);
        const uint32_t best = perfect_judge(kind, owner, &reading, cell, 0, present, PERFECT_SUBRANGES, 0);
        if (best >> 24 == 0 && reading.keys <= PERFECT_MOST_OF_RECODED) {
            code = best & 15;
            fills = code >> 3 ? reading.fills[1] : reading.fills[0];
        }
    }
    if (!lane_leads(owner->alone))
        return;
    lane_team_store_4(&desk->wishes[which].code, code);
    lane_team_store_4(&desk->wishes[which].fills[0], (uint32_t)fills);
    lane_team_store_4(&desk->wishes[which].fills[1], (uint32_t)(fills >> 32));
}

/* All lanes: what all claims bring to each bucket. */
LOOM_LANE void perfect_add_claims(const loom__perfect_view *view, const perfect_owner *owner, perfect_desk *desk,
                                  uint32_t count)
{
    for (uint32_t i = lane_team_rank(owner->team); i < count * 8; i += lane_team_size(owner->team)) {
        uint32_t bucket, keys = perfect_claimed(view, owner, desk, i / 8, i % 8, &bucket);
        if (keys > 0)
            perfect_add_shift(desk, bucket, keys);
    }
    lane_team_wait(owner->team);
}

/* The group: is there room for all that a claim brings, and for what others bring to the same buckets? */
LOOM_LANE void perfect_grant(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                             perfect_desk *desk, uint32_t which)
{
    perfect_wish *wish = &desk->wishes[which];
    const uint32_t code = lane_team_load_4(&wish->code);
    uint32_t refused = code == PERFECT_NOWHERE;
    LOOM_UNROLL
    for (uint32_t i = 0; i < lane_words(owner->alone); i++) {
        const uint32_t turn = lane_first_word(owner->alone) + i, number = (turn + code) % PERFECT_SUBRANGES;
        uint32_t bucket, keys = perfect_claimed(view, owner, desk, which, turn, &bucket);
        if (keys > 0)
            refused |= (lane_team_load_4(&wish->fills[number / 4]) >> 8 * (number % 4) & 255) +
                           (uint32_t)perfect_shift_of(desk, bucket) >
                       perfect_slots(kind);
    }
    refused = lane_some(lane_poll(owner->alone, refused != 0));
    if (lane_leads(owner->alone))
        lane_team_store_4(&wish->granted, !refused);
}

/* Was room made for the i-th key? To be asked behind perfect_recode(). */
LOOM_LANE int perfect_is_recoded(const perfect_desk *desk, uint32_t i)
{
    return lane_team_load_4(&desk->wishes[i].granted) != 0;
}

/* All lanes: nothing is claimed any more. */
LOOM_LANE void perfect_drop_claims(const loom__perfect_view *view, const perfect_owner *owner, perfect_desk *desk,
                                   uint32_t count)
{
    for (uint32_t i = lane_team_rank(owner->team); i < count * 8; i += lane_team_size(owner->team)) {
        uint32_t bucket;
        if (perfect_claimed(view, owner, desk, i / 8, i % 8, &bucket) > 0)
            lane_team_store_4(perfect_shift_word(desk, bucket), 0);
    }
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&desk->lifted, 0);
    lane_team_wait(owner->team);
}

/* All lanes: the cells move, and their keys with them. Cells of one word change it at the same time: each adds what makes its own code
 * the new one, and no other bit has changed when all of them have. */
LOOM_LANE void perfect_change_codes(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                    perfect_desk *desk, uint32_t count)
{
    for (uint32_t i = perfect_group(owner); i < count; i += perfect_groups(owner))
        if (perfect_is_recoded(desk, i))
            perfect_lift_cell(kind, view, owner, desk, lane_team_load_4(&desk->candidates[i].cell),
                              lane_team_load_4(&desk->candidates[i].code));
    for (uint32_t i = lane_team_rank(owner->team); i < count; i += lane_team_size(owner->team)) {
        const uint32_t cell = lane_team_load_4(&desk->candidates[i].cell);
        const uint64_t change =
            (uint64_t)lane_team_load_4(&desk->wishes[i].code) - lane_team_load_4(&desk->candidates[i].code);
        if (perfect_is_recoded(desk, i))
            lane_combine_8(owner->words + (cell >> 4), LOOM__ADD, change << 4 * (cell & 15), owner->shared);
    }
    lane_team_wait(owner->team);
    perfect_put_back(kind, view, owner, desk);
}

/* All lanes: makes room for as many as it can of the keys in desk->keys, PERFECT_MOST_RECODED at most, all of this partition, absent, and
 * different. Their buckets were full; where one is no more, by what moved since, its cell moves without need. There will be room for
 * those that perfect_is_recoded() tells of, as long as nothing else is stored; the others may still find room elsewhere. */
LOOM_LANE void perfect_recode(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                              perfect_desk *desk, uint32_t count)
{
    for (uint32_t i = lane_team_rank(owner->team); i < count; i += lane_team_size(owner->team))
        lane_team_store_4(&desk->cells[i],
                          perfect_cell(perfect_place_of_key(kind, view, lane_team_load(&desk->keys[i]))));
    lane_team_wait(owner->team);
    for (uint32_t i = perfect_group(owner); i < count; i += perfect_groups(owner))
        perfect_claim_code(kind, view, owner, desk, i);
    lane_team_wait(owner->team);
    perfect_add_claims(view, owner, desk, count);
    for (uint32_t i = perfect_group(owner); i < count; i += perfect_groups(owner))
        perfect_grant(kind, view, owner, desk, i);
    lane_team_wait(owner->team);
    perfect_change_codes(kind, view, owner, desk, count);
    perfect_drop_claims(view, owner, desk, count);
}

#endif
