/* Making room in a full bucket of a perfect table: cells get other codes, and their keys move.
 *
 * A team of lanes (core/lanes.h) owns the partition; nobody else is at work on it. For a key whose bucket is full it plans a
 * *walk*, without touching the table:
 *   1. The key's own cell may take any of the 15 codes. One that puts no bucket over its slots settles it; of several, the one
 *      whose buckets are emptiest. (This is the paper's Extended Move; alone it fails at load 0.78.)
 *   2. If there is none the cell takes the code that overfills least, and some bucket now has a key too many. Each other cell
 *      with keys in that bucket is considered with each of its codes; the one that overfills least moves. Again, until no
 *      bucket is too full, or PERFECT_MOST_MOVES cells have moved: then the plan is dropped, and nothing was done.
 *   3. Up to PERFECT_TRIES plans; ties fall differently in each. In the last one a cell may go to the stash.
 *   4. A plan that works out is carried out: the keys of all moved cells are lifted out of their buckets, codes change, the keys
 *      are put back. Every bucket has room for those that come, so no step can fail. It touches some ten keys.
 *   5. Where plans fail the partition is *reseeded*: all keys are dealt anew with another salt, PERFECT_RESEEDS times at most; then
 *      it is as it was before, marked exhausted, and the key is refused. Until something is erased no plans are made there:
 *      a batch that does not fit is refused quickly, and a key that was refused stays so as long as the call lasts (its bucket is
 *      full, and no key leaves it), so that whoever finds keys absent afterwards knows which were refused.
 *
 * So there are no locks and no deadlocks to avoid, which the paper handles by ordering its groups by age (wait-die): a partition
 * has one owner, and partitions do not touch. What it costs: keys of one partition are inserted one after the other once their
 * bucket is full. That a walk ends stands in its bounds; that lookups read one bucket holds before and after (P1).
 *
 * Measured, loads at which the first key was refused by partitions of 1729 buckets, without reseeding, on average and by the
 * hundredth of them: 8 slots to a bucket, 4 keys to a cell 0.980 and 0.972, 3.05 keys 0.996 and 0.993; 16 slots, 5.5 keys 0.988
 * and 0.985, 4.2 keys 0.998 and 0.996; when a plan could move 256 keys. (160, which leave a GPU more partitions at once, lower this where
 * cells have eight keys, from 0.902 to 0.895.) The constants come from a simulation: with 10 moves and 4 tries it had 0.964 and 0.983 for 8 slots. Filling up to 0.9,
 * with 4 keys to a cell, an insertion needs a plan in one of 10 cases, which looks at 1.3 cells and moves 4 keys. */
#ifndef LOOM_PERFECT_ROOM_H
#define LOOM_PERFECT_ROOM_H

#include "engines/perfect/perfect_ops.h"

enum {
    PERFECT_MOST_MOVES = 20, /* cells that one plan moves */
    PERFECT_TRIES = 8,
    PERFECT_RESEEDS = 3,
    PERFECT_MOST_LIFTED = 160, /* keys that one plan moves */
    PERFECT_MOST_TOUCHED =
        2 * PERFECT_SUBRANGES * PERFECT_MOST_MOVES, /* a move takes keys from 8 buckets and brings them to 8 */
    PERFECT_MOST_CANDIDATES = 16,                   /* slots of a bucket */
    PERFECT_NOWHERE = 16                            /* as a code: the cell's keys are planned in no bucket */
};

/* A cell and its keys. */
typedef struct perfect_tally {
    uint32_t cell;
    uint32_t code;         /* where the plan has its keys so far; NOWHERE: in no bucket */
    uint32_t keys;         /* how many it has */
    uint32_t counts[2][2]; /* for each mapping, keys with each turn: a byte each, the turns 0 .. 3 in the first word */
    uint32_t wanted;       /* in a plan: the code that it gets */
    uint32_t considered;   /* as a candidate: is it one? */
} perfect_tally;

/* What a team works with beside the table, in memory of its own; all zero, `spare` excepted, before first use. */
typedef struct perfect_desk {
    uint32_t *shift; /* [(buckets + 1) / 2] keys that the plan adds to each bucket, two to a word; zero between plans */
    uint32_t touched[PERFECT_MOST_TOUCHED]; /* buckets whose shift may differ from zero */
    uint32_t touches;
    perfect_tally plan[PERFECT_MOST_MOVES];
    perfect_tally candidates[PERFECT_MOST_CANDIDATES];
    uint32_t cells[PERFECT_MOST_CANDIDATES]; /* of the keys in the overfull bucket */
    uint32_t fills[PERFECT_MOST_CANDIDATES]
                  [16]; /* of each candidate's buckets, its own keys not counted: mapping * 8 + subrange */
    uint32_t best;      /* of all judgements, the least */
    uint32_t overfull;  /* the lowest such bucket; UINT32_MAX: none */
    uint32_t lifted;
    uint64_t keys[PERFECT_MOST_LIFTED], values[PERFECT_MOST_LIFTED];
    uint32_t room;        /* outcome of a step that one lane did, for all */
    unsigned char *spare; /* memory for a partition and its words, for reseeding; NULL: none */
} perfect_desk;

/* Whose partition it is, and where the team works. */
typedef struct perfect_owner {
    uint32_t partition_index;
    unsigned char *partition;
    uint64_t *words; /* its codes */
    uint32_t salt;
    uint64_t empty;
    lane_team team;
    lane_group alone; /* each lane is a group of its own */
    int shared;       /* the team has several lanes */
} perfect_owner;

LOOM_LANE perfect_owner perfect_own(const loom__perfect_view *view, uint32_t partition_index, lane_team team,
                                    lane_group alone, int shared)
{
    perfect_owner owner;
    owner.partition_index = partition_index;
    owner.partition = view->base + loom__multiply_wide(partition_index, view->partition_bytes);
    owner.words = view->codes + loom__multiply_wide(partition_index, view->words);
    owner.salt = perfect_salt(lane_load_8(owner.words));
    owner.empty = perfect_empty(view, partition_index);
    owner.team = team;
    owner.alone = alone;
    owner.shared = shared;
    return owner;
}

LOOM_LANE uint32_t perfect_code_of(const perfect_owner *owner, uint32_t cell)
{
    return perfect_code(lane_load_8(owner->words + (cell >> 4)), cell & 15);
}

LOOM_LANE uint32_t perfect_stash(const loom__perfect_view *view)
{
    return PERFECT_SUBRANGES * view->subrange;
}

LOOM_LANE perfect_place perfect_place_of_key(loom__slot_kind kind, const loom__perfect_view *view, uint64_t key)
{
    return perfect_place_of((uint32_t)loom__hash_key(key, slot_key_bytes(kind), view->seed), view->words);
}

/* Is this a key, and of that cell? Nearly all others fail the first comparison. */
LOOM_LANE int perfect_is_of_cell(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                 uint64_t key, uint32_t cell, uint32_t *rest)
{
    const uint32_t lower = (uint32_t)loom__hash_key(key, slot_key_bytes(kind), view->seed);
    if (loom__multiply_high(lower, view->words) != cell >> 4 || key == owner->empty)
        return 0;
    const perfect_place place = perfect_place_of(lower, view->words);
    *rest = place.rest;
    return perfect_cell(place) == cell;
}

/* Of the slots in which a cell's keys may lie: bucket and slot of the i-th, i < perfect_reach(). */
LOOM_LANE uint32_t perfect_reach(loom__slot_kind kind, uint32_t code)
{
    return (code == PERFECT_STASHED ? 1 : PERFECT_SUBRANGES) * perfect_slots(kind);
}

LOOM_LANE uint32_t perfect_reached(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                   uint32_t cell, uint32_t code, uint32_t i)
{
    if (code == PERFECT_STASHED)
        return perfect_stash(view);
    return perfect_bucket_in(cell, owner->salt, code >> 3, i / perfect_slots(kind), view->subrange);
}

/* Keys in a bucket, as the table stands. */
LOOM_LANE uint32_t perfect_used(loom__slot_kind kind, const perfect_owner *owner, uint32_t bucket)
{
    const unsigned char *line = perfect_line(kind, owner->partition, bucket);
    uint32_t used = 0;
    for (uint32_t slot = 0; slot < perfect_slots(kind); slot++)
        used += slot_key(kind, line, slot) != owner->empty;
    return used;
}

/* ---- Tallies ---- */

LOOM_LANE uint32_t perfect_count(const perfect_tally *tally, uint32_t mapping, uint32_t turn)
{
    return lane_team_load_4(&tally->counts[mapping][turn >> 2]) >> (8 * (turn & 3)) & 255;
}

LOOM_LANE void perfect_count_key(perfect_tally *tally, uint32_t rest, uint32_t salt)
{
    lane_team_draw(&tally->keys, 1);
    for (uint32_t mapping = 0; mapping < 2; mapping++) {
        uint32_t turn = perfect_turn(rest, salt, mapping);
        lane_team_draw(&tally->counts[mapping][turn >> 2], (uint32_t)1 << (8 * (turn & 3)));
    }
}

/* By one lane, before the others count. */
LOOM_LANE void perfect_open_tally(perfect_tally *tally, uint32_t cell, uint32_t code, uint32_t considered)
{
    lane_team_store_4(&tally->cell, cell);
    lane_team_store_4(&tally->code, code);
    lane_team_store_4(&tally->keys, 0);
    for (uint32_t i = 0; i < 4; i++)
        lane_team_store_4(&tally->counts[i >> 1][i & 1], 0);
    lane_team_store_4(&tally->considered, considered);
}

/* Counts the cell's keys in this lane's share of the slots in which they may lie. */
LOOM_LANE void perfect_tally_up(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                perfect_tally *tally)
{
    const uint32_t slots = perfect_slots(kind), size = lane_team_size(owner->team);
    uint32_t cell = lane_team_load_4(&tally->cell), code = lane_team_load_4(&tally->code), bucket = 0;
    for (uint32_t i = lane_team_rank(owner->team); i < perfect_reach(kind, code); i += size) {
        if (i % slots < size) /* another bucket than before */
            bucket = perfect_reached(kind, view, owner, cell, code, i);
        uint64_t key = slot_key(kind, perfect_line(kind, owner->partition, bucket), i % slots);
        uint32_t rest;
        if (perfect_is_of_cell(kind, view, owner, key, cell, &rest))
            perfect_count_key(tally, rest, owner->salt);
    }
}

/* ---- Plans ---- */

/* Keys that the plan adds to a bucket; they may be fewer than none. A word is low + 65536 * high, both of them signed: so both change
 * by one addition, whatever the other one is. */
LOOM_LANE int32_t perfect_shift_of(const perfect_desk *desk, uint32_t bucket)
{
    const uint32_t word = lane_team_load_4(&desk->shift[bucket / 2]);
    const int32_t low = (int16_t)(word & 0xffff);
    return bucket % 2 == 0 ? low : (int16_t)((word - (uint32_t)low) >> 16);
}

LOOM_LANE void perfect_touch(perfect_desk *desk, uint32_t bucket, uint32_t keys)
{
    lane_team_draw(&desk->shift[bucket / 2], keys << (16 * (bucket % 2)));
    uint32_t at = lane_team_draw(&desk->touches, 1); /* < MOST_TOUCHED: perfect_plan() has at most MOST_MOVES moves */
    lane_team_store_4(&desk->touched[at], bucket);
}

/* Adds a cell's keys, where `code` puts them, to the plan; `times` -1 takes them away. Each lane does its share. All of them
 * together touch at most one bucket of each subrange, or the stash; a move does this twice. */
LOOM_LANE void perfect_shift_cell(const loom__perfect_view *view, const perfect_owner *owner, perfect_desk *desk,
                                  const perfect_tally *tally, uint32_t code, uint32_t times)
{
    uint32_t cell = lane_team_load_4(&tally->cell), mapping = code >> 3;
    if (code == PERFECT_STASHED) {
        if (lane_team_rank(owner->team) == 0)
            perfect_touch(desk, perfect_stash(view), times * lane_team_load_4(&tally->keys));
        return;
    }
    for (uint32_t turn = lane_team_rank(owner->team); turn < 8; turn += lane_team_size(owner->team)) {
        uint32_t count = perfect_count(tally, mapping, turn), number = (turn + code) % PERFECT_SUBRANGES;
        if (count > 0)
            perfect_touch(desk, perfect_bucket_in(cell, owner->salt, mapping, number, view->subrange), times * count);
    }
}

/* How full one of the cell's sixteen buckets is in the plan, its own keys not counted. */
LOOM_LANE uint32_t perfect_fill(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                const perfect_desk *desk, const perfect_tally *tally, uint32_t which)
{
    uint32_t cell = lane_team_load_4(&tally->cell), code = lane_team_load_4(&tally->code), number = which & 7;
    uint32_t bucket = perfect_bucket_in(cell, owner->salt, which >> 3, number, view->subrange);
    uint32_t fill = perfect_used(kind, owner, bucket) + (uint32_t)perfect_shift_of(desk, bucket);
    /* Its keys lie in buckets of its present mapping; in a small subrange that may be the same bucket. */
    if (code < PERFECT_CODES && perfect_bucket_in(cell, owner->salt, code >> 3, number, view->subrange) == bucket)
        fill -= perfect_count(tally, code >> 3, (number - code) % PERFECT_SUBRANGES);
    return fill;
}

/* How bad a code is for a cell, in the upper 24 bits: first the keys too many, then how full its buckets are, by the square, so
 * that they fill evenly. What makes ties fall differently each time is a hash. The lower bits say which cell and code it is. */
LOOM_LANE uint32_t perfect_judge(loom__slot_kind kind, const perfect_tally *tally, const uint32_t *fills,
                                 uint32_t candidate, uint32_t code, uint32_t attempt)
{
    uint32_t mapping = code >> 3, over = 0, cost = 0;
    for (uint32_t turn = 0; turn < 8; turn++) {
        uint32_t count = perfect_count(tally, mapping, turn);
        uint32_t fill = lane_team_load_4(&fills[mapping * 8 + (turn + code) % PERFECT_SUBRANGES]);
        if (count > 0 && fill + count > perfect_slots(kind))
            over += fill + count - perfect_slots(kind);
        cost += count * fill * fill;
    }
    uint32_t noise = ((lane_team_load_4(&tally->cell) << 8 | code << 4 | attempt) * 0x9e3779b1u) >> 28;
    cost += noise;
    over = over < 255 ? over : 255;
    cost = cost < 0xfffe ? cost : 0xfffe;
    return over << 24 | cost << 8 | candidate << 4 | code;
}

LOOM_STATIC_ASSERT(PERFECT_MOST_CANDIDATES == 16 && PERFECT_CODES < 16, "four bits for each in a judgement");

/* Considers this lane's share of the codes of a cell. A cell that is somewhere must leave it. */
LOOM_LANE void perfect_judge_cell(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                  perfect_desk *desk, const perfect_tally *tally, uint32_t candidate, uint32_t attempt,
                                  int to_stash)
{
    uint32_t present = lane_team_load_4(&tally->code);
    for (uint32_t code = lane_team_rank(owner->team); code < 16; code += lane_team_size(owner->team)) {
        if (code == present)
            continue;
        if (code != PERFECT_STASHED) {
            lane_team_least(&desk->best, perfect_judge(kind, tally, desk->fills[candidate], candidate, code, attempt));
        } else if (to_stash) {
            uint32_t stash = perfect_stash(view);
            uint32_t fill = perfect_used(kind, owner, stash) + (uint32_t)perfect_shift_of(desk, stash);
            if (fill + lane_team_load_4(&tally->keys) <=
                perfect_slots(kind)) /* it fits, but only if no other code does */
                lane_team_least(&desk->best, 0xffffu << 8 | candidate << 4 | code);
        }
    }
}

LOOM_LANE void perfect_take_fills(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                  perfect_desk *desk, const perfect_tally *tally, uint32_t candidate)
{
    for (uint32_t i = lane_team_rank(owner->team); i < 16; i += lane_team_size(owner->team))
        lane_team_store_4(&desk->fills[candidate][i], perfect_fill(kind, view, owner, desk, tally, i));
}

/* All lanes: puts the lowest bucket that the plan has overfilled into desk->overfull. */
LOOM_LANE uint32_t perfect_find_overfull(loom__slot_kind kind, const perfect_owner *owner, perfect_desk *desk)
{
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&desk->overfull, UINT32_MAX);
    lane_team_wait(owner->team);
    for (uint32_t i = lane_team_rank(owner->team); i < lane_team_load_4(&desk->touches);
         i += lane_team_size(owner->team)) {
        const uint32_t bucket = lane_team_load_4(&desk->touched[i]);
        const int32_t shift = perfect_shift_of(desk, bucket);
        if (shift != 0 && (int32_t)perfect_used(kind, owner, bucket) + shift > (int32_t)perfect_slots(kind))
            lane_team_least(&desk->overfull, bucket);
    }
    lane_team_wait(owner->team);
    return lane_team_load_4(&desk->overfull);
}

/* All lanes: the cells with keys in the overfull bucket that have not moved yet become candidates, each once. */
LOOM_LANE void perfect_choose_candidates(loom__slot_kind kind, const loom__perfect_view *view,
                                         const perfect_owner *owner, perfect_desk *desk, uint32_t moves)
{
    const uint32_t slots = perfect_slots(kind), rank = lane_team_rank(owner->team), size = lane_team_size(owner->team);
    const unsigned char *line = perfect_line(kind, owner->partition, lane_team_load_4(&desk->overfull));
    for (uint32_t slot = rank; slot < slots; slot += size) {
        uint64_t key = slot_key(kind, line, slot);
        uint32_t cell = perfect_cell(perfect_place_of_key(kind, view, key));
        lane_team_store_4(&desk->cells[slot], key != owner->empty ? cell : UINT32_MAX);
    }
    lane_team_wait(owner->team);
    for (uint32_t slot = rank; slot < slots; slot += size) {
        uint32_t cell = lane_team_load_4(&desk->cells[slot]), fresh = cell != UINT32_MAX;
        for (uint32_t other = 0; other < slot; other++)
            fresh &= lane_team_load_4(&desk->cells[other]) != cell;
        for (uint32_t move = 0; move < moves; move++)
            fresh &= lane_team_load_4(&desk->plan[move].cell) != cell;
        perfect_open_tally(&desk->candidates[slot], cell, fresh ? perfect_code_of(owner, cell) : 0, fresh);
    }
    lane_team_wait(owner->team);
}

/* All lanes: one more move of the plan, out of the overfull bucket. False: no cell there may move. */
LOOM_LANE int perfect_plan_move(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                perfect_desk *desk, uint32_t moves, uint32_t lifted, uint32_t attempt, int to_stash)
{
    const uint32_t slots = perfect_slots(kind);
    perfect_choose_candidates(kind, view, owner, desk, moves);
    for (uint32_t i = 0; i < slots; i++)
        if (lane_team_load_4(&desk->candidates[i].considered))
            perfect_tally_up(kind, view, owner, &desk->candidates[i]);
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&desk->best, UINT32_MAX);
    lane_team_wait(owner->team);
    for (uint32_t i = 0; i < slots; i++)
        if (lane_team_load_4(&desk->candidates[i].considered))
            perfect_take_fills(kind, view, owner, desk, &desk->candidates[i], i);
    lane_team_wait(owner->team);
    for (uint32_t i = 0; i < slots; i++)
        if (lane_team_load_4(&desk->candidates[i].considered) &&
            lane_team_load_4(&desk->candidates[i].keys) + lifted <= PERFECT_MOST_LIFTED)
            perfect_judge_cell(kind, view, owner, desk, &desk->candidates[i], i, attempt, to_stash);
    lane_team_wait(owner->team);
    uint32_t best = lane_team_load_4(&desk->best);
    if (best == UINT32_MAX)
        return 0;
    const perfect_tally *chosen = &desk->candidates[best >> 4 & 15];
    perfect_shift_cell(view, owner, desk, chosen, lane_team_load_4(&chosen->code), UINT32_MAX);
    perfect_shift_cell(view, owner, desk, chosen, best & 15, 1);
    if (lane_team_rank(owner->team) == 0) {
        lane_team_store_4(&desk->plan[moves].cell, lane_team_load_4(&chosen->cell));
        lane_team_store_4(&desk->plan[moves].keys, lane_team_load_4(&chosen->keys));
        lane_team_store_4(&desk->plan[moves].wanted, best & 15);
    }
    lane_team_wait(owner->team);
    return 1;
}

/* All lanes: the first move, of the key's own cell, the key included. Its keys leave their buckets first. */
LOOM_LANE void perfect_plan_own(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                perfect_desk *desk, uint64_t key, uint32_t attempt, int to_stash)
{
    perfect_tally *own = &desk->plan[0];
    perfect_place place = perfect_place_of_key(kind, view, key);
    uint32_t code = perfect_code_of(owner, perfect_cell(place));
    if (lane_team_rank(owner->team) == 0) {
        perfect_open_tally(own, perfect_cell(place), code, 1);
        lane_team_store_4(&desk->best, UINT32_MAX);
    }
    lane_team_wait(owner->team);
    perfect_tally_up(kind, view, owner, own);
    lane_team_wait(owner->team);
    perfect_shift_cell(view, owner, desk, own, code, UINT32_MAX);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0) {
        perfect_count_key(own, place.rest, owner->salt);
        lane_team_store_4(&own->code, PERFECT_NOWHERE);
    }
    lane_team_wait(owner->team);
    perfect_take_fills(kind, view, owner, desk, own, 0);
    lane_team_wait(owner->team);
    perfect_judge_cell(kind, view, owner, desk, own, 0, attempt, to_stash);
    lane_team_wait(owner->team);
    uint32_t wanted = lane_team_load_4(&desk->best) & 15;
    perfect_shift_cell(view, owner, desk, own, wanted, 1);
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&own->wanted, wanted);
    lane_team_wait(owner->team);
}

/* All lanes: plans room for the key. Returns how many cells are to move, `most` and PERFECT_MOST_MOVES at most; 0: the plan
 * failed. */
LOOM_LANE uint32_t perfect_plan(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                perfect_desk *desk, uint64_t key, uint32_t most, uint32_t attempt, int to_stash)
{
    perfect_plan_own(kind, view, owner, desk, key, attempt, to_stash);
    uint32_t lifted = lane_team_load_4(&desk->plan[0].keys);
    for (uint32_t moves = 1;; moves++) {
        if (perfect_find_overfull(kind, owner, desk) == UINT32_MAX)
            return moves;
        if (moves >= most || moves == PERFECT_MOST_MOVES ||
            !perfect_plan_move(kind, view, owner, desk, moves, lifted, attempt, to_stash))
            return 0;
        lifted += lane_team_load_4(&desk->plan[moves].keys);
    }
}

/* All lanes: nothing is planned any more. */
LOOM_LANE void perfect_drop_plan(const perfect_owner *owner, perfect_desk *desk)
{
    lane_team_wait(owner->team);
    for (uint32_t i = lane_team_rank(owner->team); i < lane_team_load_4(&desk->touches);
         i += lane_team_size(owner->team))
        lane_team_store_4(&desk->shift[lane_team_load_4(&desk->touched[i]) / 2], 0);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0) {
        lane_team_store_4(&desk->touches, 0);
        lane_team_store_4(&desk->lifted, 0);
    }
    lane_team_wait(owner->team);
}

/* ---- Carrying a plan out ---- */

/* All lanes: takes the keys of the cells that move out of the table. */
LOOM_LANE void perfect_lift(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                            perfect_desk *desk, uint32_t moves)
{
    const uint32_t slots = perfect_slots(kind), size = lane_team_size(owner->team);
    for (uint32_t move = 0; move < moves; move++) {
        uint32_t cell = lane_team_load_4(&desk->plan[move].cell), code = perfect_code_of(owner, cell), bucket = 0;
        for (uint32_t i = lane_team_rank(owner->team); i < perfect_reach(kind, code); i += size) {
            const uint32_t slot = i % slots;
            if (slot < size) /* another bucket than before */
                bucket = perfect_reached(kind, view, owner, cell, code, i);
            unsigned char *line = perfect_line(kind, owner->partition, bucket);
            uint64_t key = slot_key(kind, line, slot);
            uint32_t rest;
            if (!perfect_is_of_cell(kind, view, owner, key, cell, &rest))
                continue;
            uint32_t at = lane_team_draw(&desk->lifted, 1);
            uint64_t value = perfect_take_slot(kind, view, owner->partition, bucket, slot, owner->empty);
            lane_team_store(&desk->keys[at], key); /* at < MOST_LIFTED: the plan counted them */
            lane_team_store(&desk->values[at], value);
        }
    }
}

/* All lanes. */
LOOM_LANE void perfect_carry_out(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                 perfect_desk *desk, uint32_t moves)
{
    perfect_lift(kind, view, owner, desk, moves);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0)
        for (uint32_t move = 0; move < moves; move++) {
            uint32_t cell = lane_team_load_4(&desk->plan[move].cell), at = 4 * (cell & 15);
            uint64_t *word = owner->words + (cell >> 4);
            uint64_t wanted = lane_team_load_4(&desk->plan[move].wanted);
            lane_store_8(word, (lane_load_8(word) & ~((uint64_t)15 << at)) | wanted << at);
        }
    lane_team_wait(owner->team);
    for (uint32_t i = lane_team_rank(owner->team); i < lane_team_load_4(&desk->lifted);
         i += lane_team_size(owner->team)) {
        perfect_seek seek = perfect_seek_key(kind, view, lane_team_load(&desk->keys[i]));
        uint64_t value = lane_team_load(&desk->values[i]);
        (void)perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, owner->shared, owner->alone, view, &seek, &value);
    }
    lane_team_wait(owner->team);
}

/* All lanes: makes room for the key by moving cells. False: no plan worked out, and nothing was changed. */
LOOM_STEP int perfect_move_cells(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                 perfect_desk *desk, uint64_t key, uint32_t most, uint32_t tries)
{
    uint32_t moves = 0;
    for (uint32_t attempt = 0; attempt < tries && moves == 0; attempt++) {
        moves = perfect_plan(kind, view, owner, desk, key, most, attempt, attempt + 1 == tries);
        if (moves > 0)
            perfect_carry_out(kind, view, owner, desk, moves);
        perfect_drop_plan(owner, desk);
    }
    return moves > 0;
}

/* ---- Reseeding ---- */

/* All lanes: every slot empty, every code 0, with this salt. */
LOOM_LANE void perfect_empty_partition(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                       uint32_t salt)
{
    const uint32_t rank = lane_team_rank(owner->team), size = lane_team_size(owner->team);
    uint64_t *memory = (uint64_t *)owner->partition, stride = perfect_line_stride(kind) / 8;
    uint64_t lines = perfect_buckets(view->subrange) * stride;
    uint64_t pattern = slot_stride(kind) == 4 ? owner->empty << 32 | owner->empty : owner->empty;
    for (uint64_t i = rank; i < view->partition_bytes / 8; i += size)
        lane_store_8(&memory[i], i < lines && i % stride < PERFECT_LINE_BYTES / 8 ? pattern : 0);
    for (uint32_t i = rank; i < view->words; i += size)
        lane_store_8(&owner->words[i], (uint64_t)salt << 60);
    lane_team_wait(owner->team);
}

/* All lanes: a partition's lines, and its words behind them, into the spare memory or back. */
LOOM_LANE void perfect_copy_words(const perfect_owner *owner, uint64_t *to, const uint64_t *from, uint64_t words)
{
    for (uint64_t i = lane_team_rank(owner->team); i < words; i += lane_team_size(owner->team))
        lane_store_8(to + i, lane_load_8(from + i));
}

/* All lanes: puts one key into an owned partition; 0: there is no room, and it was not in it. */
LOOM_LANE int perfect_put(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                          perfect_desk *desk, uint64_t key, uint64_t value)
{
    for (uint32_t round = 0;; round++) {
        if (lane_team_rank(owner->team) == 0) {
            perfect_seek seek = perfect_seek_key(kind, view, key);
            lane_team_store_4(&desk->room, perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, owner->shared, owner->alone,
                                                                view, &seek, &value) != PERFECT_OVERFLOW);
        }
        lane_team_wait(owner->team);
        uint32_t done = lane_team_load_4(&desk->room);
        lane_team_wait(owner->team);
        if (done || round == 1)
            return done != 0;
        if (!perfect_move_cells(kind, view, owner, desk, key, PERFECT_MOST_MOVES, PERFECT_TRIES))
            return 0;
    }
}

/* All lanes: all keys of the spare copy, and one more, into the emptied partition. */
LOOM_STEP int perfect_deal_anew(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                perfect_desk *desk, uint64_t key)
{
    int room = 1;
    for (uint32_t bucket = 0; bucket < perfect_buckets(view->subrange) && room; bucket++)
        for (uint32_t slot = 0; slot < perfect_slots(kind) && room; slot++) {
            const unsigned char *line = perfect_line(kind, desk->spare, bucket);
            uint64_t other = slot_key(kind, line, slot), value = 0;
            if (other == owner->empty)
                continue;
            if (kind == SLOT_PAIR_4_4)
                value = lane_load_8((const uint64_t *)line + slot) >> 32;
            else if (slot_values_apart(kind))
                value = slot_load_value(kind, perfect_value(kind, view, desk->spare, bucket, slot));
            room = perfect_put(kind, view, owner, desk, other, value);
        }
    if (!room)
        return 0;
    /* Is there room for the new key? It is not stored here: its value, and what to tell, are its caller's. */
    perfect_seek seek = perfect_seek_key(kind, view, key);
    const uint32_t used = perfect_used(kind, owner, seek.bucket);
    lane_team_wait(owner->team); /* all have counted before one of them stores the key */
    return used < perfect_slots(kind) ||
           perfect_move_cells(kind, view, owner, desk, key, PERFECT_MOST_MOVES, PERFECT_TRIES);
}

/* All lanes: is the partition to hold another key? If not, reseeding would hardly help, and the table had better grow. */
LOOM_LANE int perfect_is_hopeful(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                 perfect_desk *desk)
{
    const uint32_t buckets = perfect_buckets(view->subrange);
    for (uint32_t i = lane_team_rank(owner->team); i < buckets; i += lane_team_size(owner->team))
        lane_team_draw(&desk->lifted, perfect_used(kind, owner, i)); /* a counter that is free now, and zero */
    lane_team_wait(owner->team);
    uint32_t used = lane_team_load_4(&desk->lifted);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&desk->lifted, 0);
    lane_team_wait(owner->team);
    return used < view->made_for;
}

/* All lanes. False: as before. */
LOOM_LANE int perfect_reseed(loom__slot_kind kind, const loom__perfect_view *view, perfect_owner *owner,
                             perfect_desk *desk, uint64_t key)
{
    const uint32_t before = owner->salt;
    if (desk->spare == NULL)
        return 0;
    uint64_t *spare = (uint64_t *)desk->spare, *lines = (uint64_t *)owner->partition, count = view->partition_bytes / 8;
    perfect_copy_words(owner, spare, lines, count);
    perfect_copy_words(owner, spare + count, owner->words, view->words);
    lane_team_wait(owner->team);
    for (uint32_t i = 1; i <= PERFECT_RESEEDS; i++) {
        owner->salt = (before + i) % PERFECT_SALTS;
        perfect_empty_partition(kind, view, owner, owner->salt);
        if (perfect_deal_anew(kind, view, owner, desk, key))
            return 1;
    }
    perfect_copy_words(owner, lines, spare, count);
    perfect_copy_words(owner, owner->words, spare + count, view->words);
    lane_team_wait(owner->team);
    owner->salt = before;
    return 0;
}

/* All lanes: sees to it that the key, which is not in its partition and whose bucket is full, will be stored by the next
 * attempt. False: moving cells does not do. */
LOOM_LANE int perfect_make_room(loom__slot_kind kind, const loom__perfect_view *view, const perfect_owner *owner,
                                perfect_desk *desk, uint64_t key)
{
    if (lane_load_4(&view->marks[owner->partition_index]) != PERFECT_UNMARKED)
        return 0;
    return perfect_move_cells(kind, view, owner, desk, key, PERFECT_MOST_MOVES, PERFECT_TRIES);
}

/* All lanes: the same by reseeding, after that. False: there is no room for the key, the table is as it was, and the partition is
 * marked exhausted. A machine that cannot get spare memory for a hopeful partition does not call this, but marks it itself. */
LOOM_LANE int perfect_make_room_anew(loom__slot_kind kind, const loom__perfect_view *view, perfect_owner *owner,
                                     perfect_desk *desk, uint64_t key)
{
    uint32_t *mark = &view->marks[owner->partition_index];
    if (lane_load_4(mark) != PERFECT_UNMARKED)
        return 0;
    if (perfect_is_hopeful(kind, view, owner, desk) && perfect_reseed(kind, view, owner, desk, key))
        return 1;
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0)
        lane_store_4(mark, PERFECT_EXHAUSTED);
    lane_team_wait(owner->team);
    return 0;
}

#endif
