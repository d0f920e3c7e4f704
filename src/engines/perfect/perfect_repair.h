/* Inserts many keys, whose buckets are full, into a partition at once. A team of lanes (core/lanes.h) owns the
 * partition. In its own memory the team plans where every key will lie, without touching the table. Then it rewrites
 * only what changes:
 *   1. count     the table's keys, by cell and rotation, and the keys in each bucket; then the new keys, as if their
 *                buckets had room.
 *   2. repair    codes, in rounds, as in a build (perfect_codes.h), starting from the table's codes.
 *   3. withdraw  a new key whose bucket is still too full: it is left to later steps. If a bucket is too full even
 *                then, or something exceeds the team's memory, the team drops the plan. The table is then unchanged,
 *                and all new keys are left.
 *   4. move      keys of cells whose codes changed: the team lifts them out of their buckets, writes the codes, and
 *                puts the keys back, where each has room. Then it inserts the new keys.
 * So no key is lost: the team starts no change that it has not planned in full. Cells in the stash stay there, and
 * their new keys are left.
 *
 * Only some cells can be suspects: those with keys in a bucket that is too full, those that have moved, and those that
 * get keys. The team looks at no others, unless a list overflows.
 *
 * Lanes wait for each other between steps. Within a step they touch the same bytes only by atomic draws. They claim the
 * table's slots by swaps (perfect_ops.h). There are at most PERFECT_REPAIR_ROUNDS rounds. */
#ifndef LOOM_PERFECT_REPAIR_H
#define LOOM_PERFECT_REPAIR_H

#include "engines/perfect/perfect_cells.h"
#include "engines/perfect/perfect_codes.h"

enum {
    PERFECT_REPAIR_ROUNDS = 20,
    PERFECT_LINES_AT_ONCE = 4, /* loads of a group, while it counts the table's keys */
    PERFECT_COMES = 0,         /* state of a new key: it will be inserted … */
    PERFECT_LEFT = 1           /* … or is left to later steps */
};

/* A key that was lifted out of its bucket, with its value. Lifted keys reuse the memory of the counters. */
typedef struct perfect_lifted {
    uint64_t key, value;
} perfect_lifted;

typedef struct perfect_repair_counters {
    perfect_round round;
    uint32_t moves, troubles, changes, lifted, room, sum;
    uint32_t unused[3]; /* pads to a multiple of 16 bytes */
} perfect_repair_counters;

/* Capacities of the lists. Beyond them all cells are considered, or the plan is dropped. */
typedef struct perfect_repair_limits {
    uint32_t suspects, moves, troubles;
} perfect_repair_limits;

typedef struct perfect_repair {
    perfect_codes codes;
    perfect_owner owner;
    lane_group together; /* the lane's group, in code that the whole warp runs together */
    perfect_repair_limits most;
    perfect_repair_counters *own;
    /* [most.moves] cells that have moved, some of them listed twice. At the end: the cells whose codes change, each
     * with its former code, as cell << 4 | code */
    uint32_t *moved;
    uint32_t *troubled; /* [most.troubles] buckets that are too full */
    uint32_t *bits;     /* one bit for each cell */
    uint8_t *states;    /* of each new key; in the memory of the suspects */
    const void *keys;   /* keys of the batch */
    uint32_t *coming;   /* [count] indices of the new keys in the batch */
    uint32_t count;     /* at most the slots of the subranges; all states fit the memory of the suspects */
} perfect_repair;

LOOM_BOTH perfect_repair_limits perfect_most_repaired(uint32_t subrange)
{
    const int small = subrange <= PERFECT_PREFERRED_SUBRANGE;
    perfect_repair_limits most;
    most.suspects = small ? 256 : 384;
    most.moves = small ? 384 : 768;
    most.troubles = most.moves / 3;
    return most;
}

LOOM_BOTH uint32_t perfect_repair_bytes(uint32_t subrange, uint32_t words, perfect_repair_limits most)
{
    return perfect_codes_bytes(subrange, words, most.suspects) + (uint32_t)sizeof(perfect_repair_counters) +
           4 * (most.moves + most.troubles) + (words + 1) / 2 * 4;
}

/* `memory` has perfect_repair_bytes() bytes of any content, aligned to 16. The caller sets keys, coming and count. */
LOOM_LANE perfect_repair perfect_begin_repair(perfect_owner owner, lane_group together, unsigned char *memory,
                                              perfect_repair_limits most)
{
    const uint32_t subrange = owner.view->subrange, words = owner.view->words;
    perfect_repair repair;
    repair.own = (perfect_repair_counters *)(void *)(memory + perfect_codes_bytes(subrange, words, most.suspects));
    repair.codes =
        perfect_lay_out_codes(memory, &repair.own->round, subrange, words, owner.salt, most.suspects, owner.team);
    repair.owner = owner;
    repair.together = together;
    repair.most = most;
    repair.moved = (uint32_t *)(repair.own + 1);
    repair.troubled = repair.moved + most.moves;
    repair.bits = repair.troubled + most.troubles;
    repair.states = (uint8_t *)repair.codes.suspects;
    return repair;
}

LOOM_LANE uint32_t perfect_rank(const perfect_repair *repair)
{
    return lane_team_rank(repair->owner.team);
}

LOOM_LANE uint32_t perfect_size(const perfect_repair *repair)
{
    return lane_team_size(repair->owner.team);
}

/* ---- 1: count ---- */

/* All lanes: read the table's codes. */
LOOM_LANE void perfect_read_codes(const perfect_repair *repair)
{
    for (uint32_t i = perfect_rank(repair); i < repair->codes.words; i += perfect_size(repair)) {
        const uint64_t word = lane_load_8(repair->owner.words + i) & ~(uint64_t)0 >> 4; /* without the salt */
        uint64_t *bytes = (uint64_t *)(void *)(repair->codes.codes + 16 * i);
        LOOM_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            lane_team_store(bytes + k, perfect_lower_bytes((uint32_t)(word >> 32 * k)) |
                                           (uint64_t)perfect_lower_bytes((uint32_t)(word >> (32 * k + 16))) << 32);
    }
}

/* All lanes: count the table's keys, except those in the stash, whose cells stay there. Returns how many keys this lane
 * has counted. */
LOOM_LANE uint32_t perfect_count_table(loom__slot_kind kind, const perfect_repair *repair)
{
    const perfect_owner *owner = &repair->owner;
    const uint32_t buckets = PERFECT_SUBRANGES * owner->view->subrange, groups = perfect_groups(owner);
    uint32_t counted = 0;
    for (uint32_t first = 0; first < buckets; first += PERFECT_LINES_AT_ONCE * groups) { /* same on all lanes */
        lane_line lines[PERFECT_LINES_AT_ONCE];
        LOOM_UNROLL
        for (uint32_t k = 0; k < PERFECT_LINES_AT_ONCE; k++) {
            const uint32_t bucket = first + k * groups + perfect_group(owner);
            perfect_take_line(kind, owner, bucket, &lines[k], bucket < buckets);
        }
        LOOM_UNROLL
        for (uint32_t k = 0; k < PERFECT_LINES_AT_ONCE; k++) {
            const uint32_t bucket = first + k * groups + perfect_group(owner);
            uint32_t used = 0;
            LOOM_UNROLL
            for (uint32_t i = 0; i < perfect_own_slots(kind, owner); i++) {
                const uint64_t key = perfect_own_key(kind, &lines[k], i);
                used += lane_count(lane_poll(repair->together, bucket < buckets && key != owner->empty));
            }
            LOOM_UNROLL
            for (uint32_t i = 0; i < perfect_own_slots(kind, owner); i++) {
                const uint64_t key = perfect_own_key(kind, &lines[k], i);
                if (bucket < buckets && key != owner->empty) {
                    perfect_count_key(&repair->codes, perfect_place_of_key(kind, owner->view, key));
                    counted++;
                }
            }
            if (bucket < buckets && lane_leads(owner->alone))
                lane_team_store_1((uint8_t *)repair->codes.fills + bucket, used);
        }
    }
    return counted;
}

/* The place of a new key. */
LOOM_LANE perfect_place perfect_coming_place(loom__slot_kind kind, const perfect_repair *repair, uint32_t i)
{
    const uint32_t index = lane_load_4(repair->coming + i);
    return perfect_place_of_key(kind, repair->owner.view,
                                slot_key_bytes(kind) == 4 ? ((const uint32_t *)repair->keys)[index]
                                                          : ((const uint64_t *)repair->keys)[index]);
}

/* The bucket of a new key under the planned codes; UINT32_MAX: the stash. */
LOOM_LANE uint32_t perfect_planned_bucket(const perfect_repair *repair, perfect_place place)
{
    const uint32_t code = perfect_planned_code(&repair->codes, perfect_cell(place));
    if (code == PERFECT_STASHED)
        return UINT32_MAX;
    return perfect_bucket(place, code, repair->codes.salt, repair->codes.subrange);
}

/* All lanes: count the new keys, as if there were room. Returns how many keys this lane has counted. */
LOOM_LANE uint32_t perfect_count_coming(loom__slot_kind kind, const perfect_repair *repair)
{
    uint32_t counted = 0;
    for (uint32_t i = perfect_rank(repair); i < repair->count; i += perfect_size(repair)) {
        const perfect_place place = perfect_coming_place(kind, repair, i);
        const uint32_t bucket = perfect_planned_bucket(repair, place);
        if (bucket == UINT32_MAX)
            continue;
        perfect_count_key(&repair->codes, place);
        counted++;
        (void)perfect_add_fill(&repair->codes, bucket, 1);
    }
    return counted;
}

/* ---- 2: repair ---- */

/* All lanes: clear the marks of all cells. */
LOOM_LANE void perfect_clear_bits(const perfect_repair *repair)
{
    for (uint32_t i = perfect_rank(repair); i < (repair->codes.words + 1) / 2; i += perfect_size(repair))
        lane_team_store_4(&repair->bits[i], 0);
}

/* Marks a cell. True: it was unmarked before. */
LOOM_LANE int perfect_mark_cell(const perfect_repair *repair, uint32_t cell)
{
    const uint32_t bit = 1u << cell % 32;
    return (lane_team_or(&repair->bits[cell / 32], bit) & bit) == 0;
}

LOOM_LANE void perfect_consider_near(loom__slot_kind kind, const perfect_repair *repair, uint32_t cell, uint32_t wanted)
{
    if (perfect_mark_cell(repair, cell))
        perfect_consider_cell(&repair->codes, perfect_slots(kind), cell, wanted);
}

/* All lanes: list the buckets that are too full. */
LOOM_LANE void perfect_list_troubles(loom__slot_kind kind, const perfect_repair *repair)
{
    const perfect_codes *codes = &repair->codes;
    for (uint32_t four = perfect_rank(repair); four < perfect_whole_16(PERFECT_SUBRANGES * codes->subrange) / 4;
         four += perfect_size(repair))
        for (uint32_t above = perfect_above_of(lane_team_load_4(&codes->fills[four]), perfect_slots(kind)); above != 0;
             above &= above - 1) {
            const uint32_t at = lane_team_draw(&repair->own->troubles, 1);
            if (at < repair->most.troubles)
                lane_team_store_4(&repair->troubled[at], 4 * four + loom__lowest_bit(above) / 8);
        }
}

/* All lanes: consider every cell that can be a suspect. These are the cells with keys in a bucket of the table that is
 * too full in the plan, the cells that have moved, and the cells that get a key. Other cells have no keys in a bucket
 * that is too full. */
LOOM_LANE void perfect_list_near(loom__slot_kind kind, const perfect_repair *repair)
{
    const uint32_t slots = perfect_slots(kind), wanted = lane_team_load_4(&repair->codes.round->wanted);
    if (perfect_rank(repair) == 0)
        lane_team_store_4(&repair->own->troubles, 0);
    perfect_clear_bits(repair);
    lane_team_wait(repair->owner.team);
    perfect_list_troubles(kind, repair);
    lane_team_wait(repair->owner.team);
    const uint32_t troubles = lane_team_load_4(&repair->own->troubles), moves = lane_team_load_4(&repair->own->moves);
    if (troubles > repair->most.troubles || moves > repair->most.moves) {
        perfect_consider_all(&repair->codes, slots, repair->together);
        return;
    }
    for (uint32_t i = perfect_rank(repair); i < troubles * slots; i += perfect_size(repair)) {
        const uint32_t bucket = lane_team_load_4(&repair->troubled[i / slots]);
        const uint64_t key = slot_key(kind, perfect_line(kind, repair->owner.partition, bucket), i % slots);
        if (key != repair->owner.empty)
            perfect_consider_near(kind, repair, perfect_cell(perfect_place_of_key(kind, repair->owner.view, key)),
                                  wanted);
    }
    for (uint32_t i = perfect_rank(repair); i < moves; i += perfect_size(repair))
        perfect_consider_near(kind, repair, lane_team_load_4(&repair->moved[i]), wanted);
    for (uint32_t i = perfect_rank(repair); i < repair->count; i += perfect_size(repair))
        perfect_consider_near(kind, repair, perfect_cell(perfect_coming_place(kind, repair, i)), wanted);
    lane_team_wait(repair->owner.team);
}

/* One lane: adds a cell to the list of moves. */
LOOM_LANE void perfect_note_move(const perfect_repair *repair, uint32_t cell)
{
    const uint32_t at = lane_team_draw(&repair->own->moves, 1);
    if (at < repair->most.moves)
        lane_team_store_4(&repair->moved[at], cell);
}

/* All lanes: suspects bid, and the cells with winning bids move. `near` is a literal. With `near`, moved cells are
 * listed in `repair`; otherwise `repair` is NULL. */
LOOM_LANE void perfect_half_round(uint32_t slots, const perfect_codes *codes, const perfect_repair *repair, int near,
                                  uint32_t number, int stubborn)
{
    const uint32_t half = number % 2, now = number % 15 + 1, salt = number * 0xc2b2ae35u;
    const uint32_t count = perfect_lesser(lane_team_load_4(&codes->round->listed[half]), codes->most_suspects);
    perfect_bid *suspects = codes->suspects + half * codes->most_suspects;
    if (count == 0) {
        lane_team_wait(codes->team); /* all lanes have read the count before it is reset */
        return;
    }
    for (uint32_t i = lane_team_rank(codes->team); i < count; i += lane_team_size(codes->team)) {
        const uint32_t cell = perfect_bidder(lane_team_load_4(&suspects[i].value));
        const perfect_bid own = perfect_bid_for(codes, slots, cell, half, now, salt, stubborn);
        lane_team_store_4(&suspects[i].bucket, own.bucket);
        lane_team_store_4(&suspects[i].value, own.value);
        if (own.bucket != PERFECT_NO_BID)
            lane_team_least(&codes->bids[own.bucket], own.value);
    }
    lane_team_wait(codes->team);
    for (uint32_t i = lane_team_rank(codes->team); i < count; i += lane_team_size(codes->team)) {
        const uint32_t bucket = lane_team_load_4(&suspects[i].bucket), value = lane_team_load_4(&suspects[i].value);
        if (bucket == PERFECT_NO_BID || lane_team_swap(&codes->bids[bucket], value, PERFECT_NO_BID) != value)
            continue; /* another cell's bid was better; that cell may have moved already */
        perfect_move_planned(codes, perfect_bidder(value), value & 15, now);
        if (near)
            perfect_note_move(repair, perfect_bidder(value));
    }
    lane_team_wait(codes->team);
}

/* All lanes: repair codes. Returns how many lanes see buckets that are still too full; 0: no bucket is. `near` is a
 * literal. With `near`, only cells that can be suspects are considered. Without it all cells are, `repair` is NULL, and
 * only the slots of `kind` matter. */
LOOM_LANE uint32_t perfect_repair_codes(loom__slot_kind kind, const perfect_codes *codes, lane_group together,
                                        const perfect_repair *repair, int near, uint32_t rounds)
{
    for (uint32_t i = lane_team_rank(codes->team); i < PERFECT_SUBRANGES * codes->subrange;
         i += lane_team_size(codes->team))
        lane_team_store_4(&codes->bids[i], PERFECT_NO_BID);
    for (uint32_t round = 0;; round++) {
        const uint32_t seen = perfect_look_for_trouble(codes, perfect_slots(kind));
        if (seen == 0 || round == rounds)
            return seen;
        if (near)
            perfect_list_near(kind, repair);
        else
            perfect_consider_all(codes, perfect_slots(kind), together);
        for (uint32_t half = 0; half < 2; half++)
            perfect_half_round(perfect_slots(kind), codes, repair, near, 2 * round + half, seen <= PERFECT_STUBBORN);
    }
}

/* ---- 3: withdraw ---- */

/* All lanes: leave new keys whose bucket is too full. Lanes that see the same bucket at the same time may leave more
 * keys than necessary. All lanes must wait for each other before they read fills again. */
LOOM_LANE void perfect_withdraw(loom__slot_kind kind, const perfect_repair *repair)
{
    for (uint32_t i = perfect_rank(repair); i < repair->count; i += perfect_size(repair)) {
        const uint32_t bucket = perfect_planned_bucket(repair, perfect_coming_place(kind, repair, i));
        const int left =
            bucket == UINT32_MAX || perfect_add_fill(&repair->codes, bucket, 0) > perfect_slots(kind); /* atomic */
        lane_team_store_1(&repair->states[i], left ? PERFECT_LEFT : PERFECT_COMES);
        if (left && bucket != UINT32_MAX)
            (void)perfect_add_fill(&repair->codes, bucket, UINT32_MAX);
    }
}

/* All lanes: list those moved cells whose codes change. False: there were too many moves, or the team's memory has no
 * room for the keys of these cells. */
LOOM_LANE int perfect_list_changes(const perfect_repair *repair)
{
    const perfect_codes *codes = &repair->codes;
    const uint32_t moves = lane_team_load_4(&repair->own->moves);
    if (moves > repair->most.moves)
        return 0;
    perfect_clear_bits(repair);
    for (uint32_t first = 0; first < moves; first += perfect_size(repair)) {
        const uint32_t i = first + perfect_rank(repair), cell = i < moves ? lane_team_load_4(&repair->moved[i]) : 0;
        lane_team_wait(codes->team); /* bits are cleared, and entries that may be overwritten are read */
        if (i >= moves || !perfect_mark_cell(repair, cell))
            continue;
        const uint32_t before = perfect_code_of(&repair->owner, cell);
        if (before == perfect_planned_code(codes, cell))
            continue;
        (void)lane_team_draw(&repair->own->room, perfect_sum_of_counters(perfect_load_counts(codes, 0, cell)));
        lane_team_store_4(&repair->moved[lane_team_draw(&repair->own->changes, 1)], cell << 4 | before);
    }
    lane_team_wait(codes->team);
    return lane_team_load_4(&repair->own->room) * sizeof(perfect_lifted) <= 2 * codes->words * 16 * sizeof(uint32_t);
}

/* All lanes: steps 1 to 3 for the new keys of `repair`. False: nothing has changed, and all of these keys are left. */
LOOM_LANE int perfect_plan_repair(loom__slot_kind kind, const perfect_repair *repair, uint32_t rounds)
{
    if (perfect_mark_in(lane_load_4(&repair->owner.view->marks[repair->owner.partition_index])) != PERFECT_UNMARKED)
        return 0; /* a key that was refused there must stay refused (perfect_room.h) */
    perfect_clear_counters(&repair->codes);
    if (perfect_rank(repair) == 0) {
        lane_team_store_4(&repair->own->moves, 0);
        lane_team_store_4(&repair->own->changes, 0);
        lane_team_store_4(&repair->own->lifted, 0);
        lane_team_store_4(&repair->own->room, 0);
    }
    lane_team_wait(repair->owner.team);
    perfect_read_codes(repair);
    uint32_t mine = perfect_count_table(kind, repair);
    lane_team_wait(repair->owner.team);
    mine += perfect_count_coming(kind, repair);
    if (!perfect_all_counted(&repair->codes, mine, &repair->own->sum))
        return 0;
    (void)perfect_repair_codes(kind, &repair->codes, repair->together, repair, 1, rounds);
    perfect_withdraw(kind, repair);
    if (perfect_look_for_trouble(&repair->codes, perfect_slots(kind)) != 0)
        return 0;
    return perfect_list_changes(repair);
}

/* ---- 4: move ---- */

/* All lanes: lift the keys of cells whose codes change out of their buckets. No lane reads the table's codes here. */
LOOM_LANE void perfect_lift_changes(loom__slot_kind kind, const perfect_repair *repair, perfect_lifted *lifted)
{
    const perfect_owner *owner = &repair->owner;
    const uint32_t slots = perfect_slots(kind), reach = PERFECT_SUBRANGES * slots;
    const uint32_t all = lane_team_load_4(&repair->own->changes) * reach;
    for (uint32_t i = perfect_rank(repair); i < all; i += perfect_size(repair)) {
        const uint32_t change = lane_team_load_4(&repair->moved[i / reach]), cell = change >> 4;
        const uint32_t number = i % reach / slots, slot = i % slots;
        const uint32_t bucket = perfect_bucket_in(cell, owner->salt, change >> 3 & 1, number, owner->view->subrange);
        const unsigned char *line = perfect_line(kind, owner->partition, bucket);
        uint64_t pair;
        const uint64_t key = perfect_load_slot(kind, line, slot, &pair);
        if (key == owner->empty || perfect_cell(perfect_place_of_key(kind, owner->view, key)) != cell)
            continue;
        const uint32_t at = lane_team_draw(&repair->own->lifted, 1); /* below `room`: the keys were counted */
        lane_team_store(&lifted[at].key, key);
        lane_team_store(&lifted[at].value,
                        perfect_take_slot(kind, owner->view, owner->partition, bucket, slot, pair, owner->empty));
    }
}

/* All lanes: write the planned codes to the table. */
LOOM_LANE void perfect_write_codes(const perfect_repair *repair)
{
    for (uint32_t i = perfect_rank(repair); i < repair->codes.words; i += perfect_size(repair))
        lane_store_8(repair->owner.words + i,
                     perfect_packed_codes(&repair->codes, i) | (uint64_t)repair->owner.salt << 60);
    lane_team_wait(repair->owner.team);
}

/* All lanes, after a plan that works: move cells. Afterwards groups insert the new keys that are not left. */
LOOM_LANE void perfect_carry_out_repair(loom__slot_kind kind, const perfect_repair *repair)
{
    const perfect_owner *owner = &repair->owner;
    perfect_lifted *lifted = (perfect_lifted *)(void *)repair->codes.counts;
    perfect_lift_changes(kind, repair, lifted);
    perfect_write_codes(repair);
    for (uint32_t i = perfect_group(owner); i < lane_team_load_4(&repair->own->lifted); i += perfect_groups(owner)) {
        const perfect_seek seek = perfect_seek_key(kind, owner->view, lane_team_load(&lifted[i].key));
        uint64_t value = lane_team_load(&lifted[i].value);
        (void)perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, 1, owner->alone, owner->view, &seek, &value);
    }
    lane_team_wait(owner->team);
}

/* Whether the i-th new key is left, on all lanes of the group. Only the first lane reads the state, since that lane may
 * also write it (perfect_leave). */
LOOM_LANE lane_truth perfect_is_left(const perfect_repair *repair, uint32_t i)
{
    lane_truth left = 0;
    if (lane_leads(repair->owner.alone))
        left = lane_team_load_1(&repair->states[i]) == PERFECT_LEFT;
    return lane_some(lane_poll(repair->owner.alone, left));
}

/* The group leaves the i-th new key to later steps, because groups that run side by side must not store it
 * (perfect_may_claim). */
LOOM_LANE void perfect_leave(const perfect_repair *repair, uint32_t i)
{
    if (lane_leads(repair->owner.alone))
        lane_team_store_1(&repair->states[i], PERFECT_LEFT);
}

/* All lanes, after the insertions: move the keys left to the front of repair->coming. Returns their number. */
LOOM_LANE uint32_t perfect_keep_left(const perfect_repair *repair)
{
    const lane_team team = repair->owner.team;
    if (perfect_rank(repair) == 0)
        lane_team_store_4(&repair->own->lifted, 0);
    lane_team_wait(team);
    for (uint32_t first = 0; first < repair->count; first += perfect_size(repair)) {
        const uint32_t i = first + perfect_rank(repair);
        const uint32_t index = i < repair->count ? lane_load_4(repair->coming + i) : 0;
        const int left = i < repair->count && lane_team_load_1(&repair->states[i]) == PERFECT_LEFT;
        lane_team_wait(team); /* entries that may be overwritten are read */
        if (left)
            lane_store_4(repair->coming + lane_team_draw(&repair->own->lifted, 1), index);
    }
    lane_team_wait(team);
    return lane_team_load_4(&repair->own->lifted);
}

#endif
