/* Makes room in a full bucket of a perfect table: cells get other codes, and their keys move.
 *
 * A team of lanes (core/lanes.h) owns the partition, and no other lane works on it. For a key whose bucket is full the
 * team plans a *walk*, without touching the table:
 *   1. The key's own cell may take any of the 15 codes. A code that overfills no bucket ends the walk. If several codes
 *      do, the one whose buckets are emptiest wins. This step is the paper's Extended Move; alone it fails at load
 *      0.78.
 *   2. If every code overfills a bucket, the cell takes the code that overfills least, and some bucket has a key too
 *      many. The team considers each other cell with keys in that bucket, with each of the cell's codes. The cell that
 *      overfills least with its best code moves. With another offset, other keys of a cell go to the same bucket; a
 *      code that brings as many is no help. This step repeats until no bucket is overfull or PERFECT_MOST_MOVES cells
 *      have moved. In the latter case the team drops the plan, and the table is unchanged.
 *   3. The team makes up to PERFECT_TRIES plans; ties fall differently in each. In the last plan a cell may go to the
 *      stash. After a search that failed, the next searches make fewer plans (perfect_effort.h).
 *   4. A plan that works is carried out: the team lifts the keys of all moved cells out of their buckets, changes
 *      codes, and puts the keys back. Every bucket has room for the keys that it gets, so no step can fail. This
 *      touches some ten keys.
 *   5. If all plans fail, the team *reseeds* the partition: it *deals* all keys anew with another salt, at most
 *      PERFECT_RESEEDS times. If no deal succeeds, the partition is restored. Then, or if the partition may not be
 *      reseeded now (perfect_effort.h), the partition is marked exhausted, and the key is refused. Until a key is
 *      erased, no plans are made in a marked partition. So a batch that does not fit is refused quickly. A refused key
 *      also stays refused until the call ends, since its bucket is full and no key leaves it. So a key of the batch
 *      that is absent afterwards was refused.
 *
 * A partition has one owner, and partitions are independent, so there are no locks and no deadlocks. The paper avoids
 * deadlocks by ordering its groups by age (wait-die). The cost: once their buckets are full, keys of one partition are
 * inserted one after the other. Where one move is enough, perfect_recode.h handles many keys at once. The bounds above
 * end every walk. Lookups read one bucket before and after a walk (P1).
 *
 * Measured: the load at which partitions of 1729 buckets refused their first key, without reseeding, on average and at
 * the first percentile. With 8 slots to a bucket: 0.980 and 0.972 with 4 keys to a cell, 0.996 and 0.993 with 3.05.
 * With 16 slots: 0.988 and 0.985 with 5.5 keys, 0.998 and 0.996 with 4.2. At the time a plan could move 256 keys. The
 * limit is now 160, so that a GPU can work on more partitions at once. With eight keys to a cell the lower limit
 * reduced the load from 0.902 to 0.895. Since then, codes that are no help are penalised, and the load is 0.904. The
 * constants come from a simulation, which reached 0.964 and 0.983 for 8 slots with 10 moves and 4 tries. While a table
 * fills up to load 0.9, with 4 keys to a cell, one insertion in 10 needs a plan, which looks at 1.3 cells and moves 4
 * keys. Before codes were penalised, one in 10^5 keys that met full buckets at load 0.8 on a GPU found no plan in any
 * of its tries, and its partition was reseeded, in 30 ms. */
#ifndef LOOM_PERFECT_ROOM_H
#define LOOM_PERFECT_ROOM_H

#include "engines/perfect/perfect_cells.h"

/* ---- Plans ---- */

/* The progress of a plan. */
typedef struct perfect_stage {
    uint32_t moves;   /* cells that the plan moves so far … */
    uint32_t lifted;  /* … and how many keys they have */
    uint32_t leaves;  /* the subrange with an overfull bucket; 8: the stash is overfull, or there are no moves yet */
    uint32_t attempt; /* the number of the plan */
    int to_stash;     /* cells may go to the stash */
} perfect_stage;

/* Returns the group's best judgement of a cell's codes in the plan; UINT32_MAX: no code is possible. A move to the
 * stash is worse than any code that overfills nothing. */
LOOM_LANE uint32_t perfect_judge_planned(loom__slot_kind kind, const perfect_owner *owner,
                                         const perfect_scratch *scratch, const perfect_reading *reading, uint32_t cell,
                                         uint32_t candidate, uint32_t present, const perfect_stage *stage)
{
    if (reading->keys + stage->lifted > PERFECT_MOST_LIFTED)
        return UINT32_MAX;
    const uint32_t best = perfect_judge(kind, owner, reading, cell, candidate, present, stage->leaves, stage->attempt);
    if (!stage->to_stash || present == PERFECT_STASHED)
        return best;
    const uint32_t stash = perfect_stash(owner->view), to_stash = 0xffffu << 8 | candidate << 4 | PERFECT_STASHED;
    const uint32_t fill = perfect_used(kind, owner, stash) + (uint32_t)perfect_shift_of(scratch, stash);
    return fill + reading->keys <= perfect_slots(kind) && to_stash < best ? to_stash : best;
}

/* All lanes: find the lowest bucket that the plan overfills, and put it into scratch->overfull. */
LOOM_LANE uint32_t perfect_find_overfull(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch)
{
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&scratch->overfull, UINT32_MAX);
    lane_team_wait(owner->team);
    for (uint32_t i = perfect_group(owner); i < lane_team_load_4(&scratch->touches); i += perfect_groups(owner)) {
        const uint32_t bucket = lane_team_load_4(&scratch->touched[i]);
        const int32_t shift = perfect_shift_of(scratch, bucket);
        if (shift <= 0)
            continue;
        const uint32_t used = perfect_used(kind, owner, bucket);
        if (used + (uint32_t)shift > perfect_slots(kind) && lane_leads(owner->alone))
            lane_team_least(&scratch->overfull, bucket);
    }
    lane_team_wait(owner->team);
    return lane_team_load_4(&scratch->overfull);
}

/* All lanes: list the cells of the keys in a bucket in scratch->cells. */
LOOM_LANE void perfect_list_cells(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                  uint32_t bucket)
{
    const unsigned char *line = perfect_line(kind, owner->partition, bucket);
    for (uint32_t slot = lane_team_rank(owner->team); slot < perfect_slots(kind); slot += lane_team_size(owner->team)) {
        uint64_t key = slot_key(kind, line, slot);
        uint32_t cell = perfect_cell(perfect_place_of_key(kind, owner->view, key));
        lane_team_store_4(&scratch->cells[slot], key != owner->empty ? cell : UINT32_MAX);
    }
}

/* Whether scratch->cells[i] is a candidate: it names a cell, no earlier entry names the same cell, and the plan has not
 * moved that cell yet. */
LOOM_LANE int perfect_is_candidate(const perfect_scratch *scratch, uint32_t i, uint32_t moves)
{
    const uint32_t cell = lane_team_load_4(&scratch->cells[i]);
    uint32_t fresh = cell != UINT32_MAX;
    for (uint32_t other = 0; other < i; other++)
        fresh &= lane_team_load_4(&scratch->cells[other]) != cell;
    for (uint32_t move = 0; move < moves; move++)
        fresh &= lane_team_load_4(&scratch->plan[move].cell) != cell;
    return fresh != 0;
}

/* All lanes: plan the best move of one of the cells in scratch->cells. False: no move is possible. The first move is
 * that of the key's own cell, with the key included; this cell may keep its code. The cells of later moves leave the
 * overfull bucket. */
LOOM_LANE int perfect_plan_move(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                perfect_place place, const perfect_stage *stage)
{
    const uint32_t moves = stage->moves, count = moves == 0 ? 1 : perfect_slots(kind);
    for (uint32_t i = perfect_group(owner); i < count; i += perfect_groups(owner)) {
        if (!perfect_is_candidate(scratch, i, moves))
            continue;
        const uint32_t cell = lane_team_load_4(&scratch->cells[i]), code = perfect_code_of(owner, cell);
        perfect_reading reading = perfect_read_cell(kind, owner, scratch, cell, code, 1, 1);
        perfect_tell_cell(owner, &scratch->candidates[i], cell, code, &reading);
        if (moves == 0) {
            perfect_add_key(reading.counts, place.remainder, owner->salt);
            reading.keys++;
            perfect_tell_cell(owner, &scratch->candidates[PERFECT_WITH_KEY], cell, code, &reading);
        }
        const uint32_t best =
            perfect_judge_planned(kind, owner, scratch, &reading, cell, i, moves == 0 ? PERFECT_NOWHERE : code, stage);
        if (lane_leads(owner->alone))
            lane_team_least(&scratch->best, best);
    }
    lane_team_wait(owner->team);
    const uint32_t best = lane_team_load_4(&scratch->best);
    if (best == UINT32_MAX)
        return 0;
    const perfect_tally *leaves = &scratch->candidates[best >> 4 & 15];
    const perfect_tally *comes = moves == 0 ? &scratch->candidates[PERFECT_WITH_KEY] : leaves;
    perfect_shift_cell(owner, scratch, leaves, lane_team_load_4(&leaves->code), UINT32_MAX);
    perfect_shift_cell(owner, scratch, comes, best & 15, 1);
    if (lane_team_rank(owner->team) == 0) {
        lane_team_store_4(&scratch->plan[moves].cell, lane_team_load_4(&comes->cell));
        lane_team_store_4(&scratch->plan[moves].keys, lane_team_load_4(&comes->keys));
        lane_team_store_4(&scratch->plan[moves].wanted, best & 15);
    }
    return 1; /* lanes wait before they read the plan (perfect_find_overfull) */
}

/* All lanes: plan room for the key. Returns how many cells must move, at most `most` and PERFECT_MOST_MOVES. 0: the
 * plan failed. */
LOOM_LANE uint32_t perfect_plan(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                uint64_t key, uint32_t most, uint32_t attempt, int to_stash)
{
    const perfect_place place = perfect_place_of_key(kind, owner->view, key);
    perfect_stage stage = {0, 0, PERFECT_SUBRANGES, attempt, to_stash};
    for (;; stage.moves++) {
        if (stage.moves > 0) {
            const uint32_t bucket = perfect_find_overfull(kind, owner, scratch);
            if (bucket == UINT32_MAX)
                return stage.moves;
            if (stage.moves >= most || stage.moves == PERFECT_MOST_MOVES)
                return 0;
            stage.lifted += lane_team_load_4(&scratch->plan[stage.moves - 1].keys);
            stage.leaves = bucket / owner->view->subrange;
            perfect_list_cells(kind, owner, scratch, bucket);
        }
        if (lane_team_rank(owner->team) == 0) {
            lane_team_store_4(&scratch->best, UINT32_MAX);
            if (stage.moves == 0)
                lane_team_store_4(&scratch->cells[0], perfect_cell(place));
        }
        lane_team_wait(owner->team);
        if (!perfect_plan_move(kind, owner, scratch, place, &stage))
            return 0;
    }
}

/* All lanes: clear the plan from the scratch. */
LOOM_LANE void perfect_drop_plan(const perfect_owner *owner, perfect_scratch *scratch)
{
    lane_team_wait(owner->team);
    for (uint32_t i = lane_team_rank(owner->team); i < lane_team_load_4(&scratch->touches);
         i += lane_team_size(owner->team))
        lane_team_store_4(perfect_shift_word(scratch, lane_team_load_4(&scratch->touched[i])), 0);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0) {
        lane_team_store_4(&scratch->touches, 0);
        lane_team_store_4(&scratch->lifted, 0);
    }
    lane_team_wait(owner->team);
}

/* ---- Carrying a plan out ---- */

/* Lifts the cell's keys out of a line. Each lane lifts those in its own slots. */
LOOM_LANE void perfect_lift_from(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                 uint32_t cell, uint32_t bucket, const lane_line *line)
{
    LOOM_UNROLL
    for (uint32_t i = 0; i < perfect_own_slots(kind, owner); i++) {
        const uint64_t key = perfect_own_key(kind, line, i), word = perfect_own_word(kind, line, i);
        uint32_t remainder;
        if (!perfect_is_of_cell(kind, owner, key, cell, &remainder))
            continue;
        const uint32_t at = lane_team_draw(&scratch->lifted, 1), slot = perfect_first_slot(kind, owner) + i;
        const uint64_t value = perfect_take_slot(kind, owner->view, owner->partition, bucket, slot, word, owner->empty);
        lane_team_store(&scratch->keys[at], key); /* at < MOST_LIFTED: the plan counted the keys */
        lane_team_store(&scratch->values[at], value);
    }
}

/* All lanes: lift the keys of all moving cells out of the table. Each group takes one cell at a time. */
LOOM_LANE void perfect_lift(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch, uint32_t moves)
{
    for (uint32_t move = perfect_group(owner); move < moves; move += perfect_groups(owner)) {
        const uint32_t cell = lane_team_load_4(&scratch->plan[move].cell), code = perfect_code_of(owner, cell);
        const uint32_t reach = code == PERFECT_STASHED ? 1 : PERFECT_SUBRANGES;
        uint32_t buckets[8];
        lane_line lines[8];
        LOOM_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            if (i < reach) {
                buckets[i] = perfect_bucket_in(cell, owner->salt, code >> 3, i, owner->view->subrange);
                buckets[i] = code == PERFECT_STASHED ? perfect_stash(owner->view) : buckets[i];
                perfect_take_line(kind, owner, buckets[i], &lines[i], 1);
            }
        LOOM_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            if (i < reach)
                perfect_lift_from(kind, owner, scratch, cell, buckets[i], &lines[i]);
    }
}

/* All lanes: put the lifted keys where codes place them now, one key per lane. There is room for all of them. */
LOOM_LANE void perfect_put_back(loom__slot_kind kind, const perfect_owner *owner, const perfect_scratch *scratch)
{
    for (uint32_t i = lane_team_rank(owner->team); i < lane_team_load_4(&scratch->lifted);
         i += lane_team_size(owner->team)) {
        const perfect_seek seek = perfect_seek_key(kind, owner->view, lane_team_load(&scratch->keys[i]));
        (void)perfect_store(kind, owner->shared, owner->view, &seek, lane_team_load(&scratch->values[i]));
    }
    lane_team_wait(owner->team);
}

/* All lanes: move the keys of the plan's cells and change the cells' codes. */
LOOM_LANE void perfect_carry_out(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                 uint32_t moves)
{
    perfect_lift(kind, owner, scratch, moves);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0)
        for (uint32_t move = 0; move < moves; move++) {
            uint32_t cell = lane_team_load_4(&scratch->plan[move].cell), at = 4 * (cell & 15);
            uint64_t *word = owner->words + (cell >> 4);
            uint64_t wanted = lane_team_load_4(&scratch->plan[move].wanted);
            if (wanted == PERFECT_STASHED)
                (void)lane_team_draw(&scratch->stashed, 1);
            lane_store_8(word, (lane_load_8(word) & ~((uint64_t)15 << at)) | wanted << at);
        }
    lane_team_wait(owner->team);
    perfect_put_back(kind, owner, scratch);
}

/* All lanes: add the cells that have gone to the stash to the table's totals if they stay there, and forget them.
 * Owners of other partitions may do the same. */
LOOM_LANE void perfect_tell_stashed(const perfect_owner *owner, perfect_scratch *scratch, int stay)
{
    if (lane_team_rank(owner->team) != 0) /* no other lane counts */
        return;
    const uint32_t cells = lane_team_load_4(&scratch->stashed);
    lane_team_store_4(&scratch->stashed, 0);
    if (cells > 0 && stay)
        lane_combine_8(&owner->view->totals->stashed, LOOM__ADD, cells, 1);
}

/* All lanes: make room for the key by moving cells. A plan makes up to `most` moves, and all plans together make up to
 * `effort`. False: no plan worked, and nothing has changed. */
LOOM_STEP int perfect_move_cells(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                 uint64_t key, uint32_t most, uint32_t effort)
{
    uint32_t moves = 0;
    for (uint32_t attempt = 0; effort > 0 && moves == 0; attempt++) {
        const uint32_t now = effort < most ? effort : most;
        effort -= now;
        moves = perfect_plan(kind, owner, scratch, key, now, attempt, effort == 0);
        if (moves > 0)
            perfect_carry_out(kind, owner, scratch, moves);
        perfect_drop_plan(owner, scratch);
    }
    return moves > 0;
}

/* ---- Reseeding ---- */

/* All lanes: empty every slot and set every code to 0, with this salt. */
LOOM_LANE void perfect_empty_partition(loom__slot_kind kind, const perfect_owner *owner, uint32_t salt)
{
    const uint32_t rank = lane_team_rank(owner->team), size = lane_team_size(owner->team);
    uint64_t *memory = (uint64_t *)owner->partition, stride = perfect_line_stride(kind) / 8;
    uint64_t lines = perfect_buckets(owner->view->subrange) * stride;
    uint64_t pattern = slot_stride(kind) == 4 ? owner->empty << 32 | owner->empty : owner->empty;
    for (uint64_t i = rank; i < owner->view->partition_bytes / 8; i += size)
        lane_store_8(&memory[i], i < lines && i % stride < PERFECT_LINE_BYTES / 8 ? pattern : 0);
    for (uint32_t i = rank; i < owner->view->words; i += size)
        lane_store_8(&owner->words[i], (uint64_t)salt << 60);
    lane_team_wait(owner->team);
}

/* All lanes: copy 8-byte words between the partition, or its codes, and the spare memory. In the spare memory the codes
 * follow the partition. */
LOOM_LANE void perfect_copy_words(const perfect_owner *owner, uint64_t *to, const uint64_t *from, uint64_t words)
{
    for (uint64_t i = lane_team_rank(owner->team); i < words; i += lane_team_size(owner->team))
        lane_store_8(to + i, lane_load_8(from + i));
}

/* All lanes: put one key into the owned partition; without `stores`, only make room for it. 0: there is no room. */
LOOM_LANE int perfect_put(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch, uint64_t key,
                          uint64_t value, int stores)
{
    for (uint32_t round = 0;; round++) {
        const perfect_seek seek = perfect_seek_key(kind, owner->view, key);
        if (stores) {
            if (lane_team_rank(owner->team) == 0)
                lane_team_store_4(&scratch->room,
                                  perfect_store(kind, owner->shared, owner->view, &seek, value) != PERFECT_NO_SLOT);
        } else if (perfect_group(owner) == 0) {
            const uint32_t used = perfect_used(kind, owner, seek.bucket);
            if (lane_leads(owner->alone))
                lane_team_store_4(&scratch->room, used < perfect_slots(kind));
        }
        lane_team_wait(owner->team);
        uint32_t done = lane_team_load_4(&scratch->room);
        lane_team_wait(owner->team);
        if (done || round == 1)
            return done != 0;
        if (!perfect_move_cells(kind, owner, scratch, key, PERFECT_MOST_MOVES, PERFECT_MOST_EFFORT))
            return 0;
    }
}

/* All lanes: insert all keys of the spare copy into the emptied partition, and make room for one more key. The caller
 * stores that key, since it has the value and reports the result. */
LOOM_STEP int perfect_deal_anew(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                uint64_t key)
{
    const uint32_t slots = perfect_buckets(owner->view->subrange) * perfect_slots(kind);
    for (uint32_t i = 0; i <= slots; i++) { /* one loop for all keys, so that the long body is compiled once */
        const uint32_t bucket = i / perfect_slots(kind), slot = i % perfect_slots(kind);
        uint64_t other = key, value = 0, pair;
        if (i < slots) {
            const unsigned char *line = perfect_line(kind, scratch->spare, bucket);
            other = perfect_load_slot(kind, line, slot, &pair);
            if (other == owner->empty)
                continue;
            value = perfect_value_in(kind, owner->view, scratch->spare, bucket, slot, pair);
        }
        if (!perfect_put(kind, owner, scratch, other, value, i < slots))
            return 0;
    }
    return 1;
}

/* All lanes: count the partition's keys. */
LOOM_LANE uint32_t perfect_count_keys(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch)
{
    const uint32_t buckets = perfect_buckets(owner->view->subrange);
    for (uint32_t i = perfect_group(owner); i < buckets; i += perfect_groups(owner)) {
        const uint32_t used = perfect_used(kind, owner, i);
        if (lane_leads(owner->alone))
            (void)lane_team_draw(&scratch->lifted, used); /* a counter that is unused now, and zero */
    }
    lane_team_wait(owner->team);
    uint32_t used = lane_team_load_4(&scratch->lifted);
    lane_team_wait(owner->team);
    if (lane_team_rank(owner->team) == 0)
        lane_team_store_4(&scratch->lifted, 0);
    lane_team_wait(owner->team);
    return used;
}

/* All lanes: reseed the partition, with room for the key. False: the partition is as before. Each deal is charged to
 * *word (perfect_effort.h). */
LOOM_LANE int perfect_reseed(loom__slot_kind kind, perfect_owner *owner, perfect_scratch *scratch, uint64_t key,
                             uint32_t *word)
{
    const uint32_t before = owner->salt, most = perfect_reseeds(*word);
    if (scratch->spare == NULL)
        return 0;
    uint64_t *spare = (uint64_t *)scratch->spare, *lines = (uint64_t *)owner->partition,
             count = owner->view->partition_bytes / 8;
    perfect_copy_words(owner, spare, lines, count);
    perfect_copy_words(owner, spare + count, owner->words, owner->view->words);
    lane_team_wait(owner->team);
    for (uint32_t i = 1; i <= most && perfect_can_pay(owner->view, *word); i++) {
        *word = perfect_charged(owner->view, *word);
        owner->salt = (before + i) % PERFECT_SALTS;
        perfect_tell_stashed(owner, scratch, 0); /* those of the last deal */
        perfect_empty_partition(kind, owner, owner->salt);
        if (perfect_deal_anew(kind, owner, scratch, key))
            return 1;
    }
    perfect_copy_words(owner, lines, spare, count);
    perfect_copy_words(owner, owner->words, spare + count, owner->view->words);
    lane_team_wait(owner->team);
    owner->salt = before;
    return 0;
}

/* ---- One key ---- */

LOOM_LANE uint32_t perfect_effort_of(const perfect_owner *owner)
{
    return lane_load_4(&owner->view->marks[owner->partition_index]);
}

/* All lanes: store the partition's word. */
LOOM_LANE void perfect_remember(const perfect_owner *owner, uint32_t word)
{
    lane_team_wait(owner->team); /* all lanes have read the word */
    if (lane_team_rank(owner->team) == 0)
        lane_store_4(&owner->view->marks[owner->partition_index], word);
    lane_team_wait(owner->team);
}

/* All lanes: refuse keys of the partition from now on, until a key leaves. */
LOOM_LANE void perfect_exhaust(const perfect_owner *owner)
{
    perfect_remember(owner, perfect_marked(perfect_effort_of(owner), PERFECT_EXHAUSTED));
}

/* All lanes: make room for a key that is absent and whose bucket is full, so that the next attempt stores it. False:
 * moving cells cannot make room. */
LOOM_LANE int perfect_make_room(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch,
                                uint64_t key)
{
    const uint32_t word = perfect_effort_of(owner);
    if (perfect_mark_in(word) != PERFECT_UNMARKED)
        return 0;
    if (perfect_move_cells(kind, owner, scratch, key, PERFECT_MOST_MOVES, perfect_effort(word))) {
        perfect_tell_stashed(owner, scratch, 1);
        return 1;
    }
    perfect_remember(owner, perfect_tired(word));
    return 0;
}

/* All lanes: whether the partition may be reseeded, after perfect_make_room has failed. Not if it has had its deals, or
 * holds as many keys as it was made for: then reseeding would hardly help, and the table should grow instead. */
LOOM_LANE int perfect_may_reseed(loom__slot_kind kind, const perfect_owner *owner, perfect_scratch *scratch)
{
    const uint32_t word = perfect_effort_of(owner), most = owner->view->made_for;
    if (!perfect_can_pay(owner->view, word))
        return 0;
    const uint32_t used = perfect_count_keys(kind, owner, scratch);
    if (used < most)
        return 1;
    perfect_remember(owner, perfect_put_off(owner->view, word, used - most));
    return 0;
}

/* All lanes: make room by reseeding, after perfect_make_room has failed. False: there is no room for the key, the table
 * is unchanged, and the partition is marked exhausted. A machine without spare memory for a partition that may be
 * reseeded does not call this function, and sets the mark itself. */
LOOM_LANE int perfect_make_room_anew(loom__slot_kind kind, perfect_owner *owner, perfect_scratch *scratch, uint64_t key)
{
    if (perfect_mark_in(perfect_effort_of(owner)) != PERFECT_UNMARKED)
        return 0;
    const int may = perfect_may_reseed(kind, owner, scratch);
    uint32_t word = perfect_effort_of(owner);
    const int room = may && perfect_reseed(kind, owner, scratch, key, &word);
    perfect_tell_stashed(owner, scratch, room);
    perfect_remember(owner, room ? perfect_rested(word) : perfect_marked(word, PERFECT_EXHAUSTED));
    return room;
}

#endif
