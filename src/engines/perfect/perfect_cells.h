/* Reading the cells of a partition and judging codes for them: the common part of perfect_room.h and perfect_recode.h.
 * In perfect_room.h a team of lanes (core/lanes.h) owns the partition, and no other lane works on it. In
 * perfect_recode.h lane groups work on a partition side by side.
 *
 * A group reads a cell: how many of its keys have each rotation (perfect_rotation), and how full its sixteen buckets
 * are, one for each mapping and subrange. From these counts the group judges the cell's codes, without touching the
 * table. The team shares its findings in its *scratch* memory. */
#ifndef LOOM_PERFECT_CELLS_H
#define LOOM_PERFECT_CELLS_H

#include "engines/perfect/perfect_ops.h"

enum {
    PERFECT_MOST_LIFTED = 160, /* keys that one plan moves */
    PERFECT_MOST_TOUCHED =
        2 * PERFECT_SUBRANGES * PERFECT_MOST_MOVES, /* a move takes keys from 8 buckets and brings them to 8 */
    PERFECT_MOST_CANDIDATES = 16,                   /* cells that may leave a bucket: one for each slot */
    PERFECT_NO_HELP = 64, /* penalty, in keys, of a code that does not relieve the overfull bucket */
    PERFECT_WITH_KEY = 1, /* index of a candidate: the new key's own cell, counted with the new key */
    PERFECT_NOWHERE = 16  /* in place of a code: the cell has none to leave */
};

/* A cell and its keys. */
typedef struct perfect_tally {
    uint32_t cell;
    uint32_t code;      /* present code */
    uint32_t keys;      /* number of its keys */
    uint64_t counts[2]; /* as in perfect_reading */
} perfect_tally;

/* A planned move of a cell. */
typedef struct perfect_move {
    uint32_t cell;
    uint32_t keys;   /* of the cell, the new key included */
    uint32_t wanted; /* its new code */
} perfect_move;

/* A team's working memory outside the table, of perfect_scratch_bytes() bytes. Before first use all bytes except
 * `spare` are zero. */
typedef struct perfect_scratch {
    /* Cells of the keys in the overfull bucket; UINT32_MAX: none. This array comes first, so it is aligned, and a load
     * of several entries does not reach into neighbours. */
    uint32_t cells[PERFECT_MOST_CANDIDATES];
    uint32_t touched[PERFECT_MOST_TOUCHED]; /* buckets whose shift may differ from zero */
    uint32_t touches;
    perfect_move plan[PERFECT_MOST_MOVES];
    perfect_tally candidates[PERFECT_MOST_CANDIDATES];
    uint32_t best;     /* the least of all judgements */
    uint32_t overfull; /* the lowest overfull bucket; UINT32_MAX: none */
    uint32_t lifted;
    uint64_t keys[PERFECT_MOST_LIFTED], values[PERFECT_MOST_LIFTED]; /* lifted keys and their values */
    uint32_t stashed;     /* cells that have gone to the stash, until the totals count them */
    uint32_t room;        /* outcome of a step by one lane or group; all lanes read it */
    unsigned char *spare; /* memory for a partition and its words, for reseeding; NULL: none */
    /* Then uint32_t [(buckets + 1) / 2]: keys that the plan adds to each bucket, two to a word; zero between plans. */
} perfect_scratch;

LOOM_STATIC_ASSERT(sizeof(perfect_scratch) % 8 == 0, "what is planned for each bucket lies behind");

LOOM_BOTH uint32_t perfect_scratch_bytes(uint32_t subrange)
{
    return (uint32_t)(sizeof(perfect_scratch) + (perfect_buckets(subrange) + 1) / 2 * sizeof(uint32_t));
}

/* The word with the bucket's planned change. The address is computed, not stored as a pointer, because a GPU compiler
 * could not tell what memory a stored pointer points to. */
LOOM_LANE uint32_t *perfect_shift_word(const perfect_scratch *scratch, uint32_t bucket)
{
    return (uint32_t *)(scratch + 1) + bucket / 2;
}

/* The partition, and the lanes that work on it. */
typedef struct perfect_owner {
    const loom__perfect_view *view;
    uint32_t partition_index;
    unsigned char *partition;
    uint64_t *words; /* its codes */
    uint32_t salt;
    uint64_t empty;
    lane_team team;
    lane_group alone; /* the lane's group, which runs by itself */
    int shared;       /* the team has several lanes */
} perfect_owner;

LOOM_LANE perfect_owner perfect_own(const loom__perfect_view *view, uint32_t partition_index, lane_team team,
                                    lane_group alone, int shared)
{
    unsigned char *partition = view->base + loom__multiply_wide(partition_index, view->partition_bytes);
    uint64_t *words = view->codes + loom__multiply_wide(partition_index, view->words);
    const uint32_t salt = perfect_salt(lane_load_8(words));
    const uint64_t empty = perfect_empty(view, partition_index);
    const perfect_owner owner = {view, partition_index, partition, words, salt, empty, team, alone, shared};
    return owner;
}

/* The group's number in the team, and the number of groups. */
LOOM_LANE uint32_t perfect_group(const perfect_owner *owner)
{
    return lane_team_rank(owner->team) * lane_words(owner->alone) / 8; /* a group's lanes share the 8 words of a line */
}

LOOM_LANE uint32_t perfect_groups(const perfect_owner *owner)
{
    return lane_team_size(owner->team) * lane_words(owner->alone) / 8;
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

/* Whether `key` is a key of this cell, not the empty key. Nearly all other keys fail the first comparison. */
LOOM_LANE int perfect_is_of_cell(loom__slot_kind kind, const perfect_owner *owner, uint64_t key, uint32_t cell,
                                 uint32_t *remainder)
{
    const uint32_t lower = (uint32_t)loom__hash_key(key, slot_key_bytes(kind), owner->view->seed);
    if (loom__multiply_high(lower, owner->view->words) != cell >> 4 || key == owner->empty)
        return 0;
    const perfect_place place = perfect_place_of(lower, owner->view->words);
    *remainder = place.remainder;
    return perfect_cell(place) == cell;
}

/* ---- Lines ---- */

/* Loads a line from the table. `active`: as in lane_take. */
LOOM_LANE void perfect_take_line(loom__slot_kind kind, const perfect_owner *owner, uint32_t bucket, lane_line *line,
                                 lane_truth active)
{
    lane_take(owner->alone, line, perfect_line(kind, owner->partition, bucket), owner->shared, active,
              PERFECT_LINE_BYTES);
}

/* The number of slots of a line that this lane holds, and the number of its first slot in the bucket. */
LOOM_LANE uint32_t perfect_own_slots(loom__slot_kind kind, const perfect_owner *owner)
{
    return lane_words(owner->alone) * (8 / slot_stride(kind));
}

LOOM_LANE uint32_t perfect_first_slot(loom__slot_kind kind, const perfect_owner *owner)
{
    return lane_first_word(owner->alone) * (8 / slot_stride(kind));
}

/* The word of the lane's i-th slot, and the key in that slot. `i` is the counter of an unrolled loop. */
LOOM_LANE uint64_t perfect_own_word(loom__slot_kind kind, const lane_line *line, uint32_t i)
{
    return lane_own_word(line, i * slot_stride(kind) / 8);
}

LOOM_LANE uint64_t perfect_own_key(loom__slot_kind kind, const lane_line *line, uint32_t i)
{
    const uint64_t word = perfect_own_word(kind, line, i);
    return slot_key_bytes(kind) == 8 ? word : (uint32_t)(word >> 8 * (i * slot_stride(kind) % 8));
}

/* Returns the number of keys in a line, to the whole group. */
LOOM_LANE uint32_t perfect_used_in(loom__slot_kind kind, const perfect_owner *owner, const lane_line *line)
{
    uint32_t used = 0;
    LOOM_UNROLL
    for (uint32_t i = 0; i < perfect_own_slots(kind, owner); i++)
        used += lane_count(lane_poll(owner->alone, perfect_own_key(kind, line, i) != owner->empty));
    return used;
}

/* Returns the number of keys in a bucket of the table, to the whole group. */
LOOM_LANE uint32_t perfect_used(loom__slot_kind kind, const perfect_owner *owner, uint32_t bucket)
{
    lane_line line;
    perfect_take_line(kind, owner, bucket, &line, 1);
    return perfect_used_in(kind, owner, &line);
}

/* ---- Cells ---- */

/* What a group has read of a cell. All lanes have the same contents, except `mine`. A word of `counts` or `fills` has a
 * byte for each rotation or subrange; number 0 is the lowest byte. */
typedef struct perfect_reading {
    uint32_t keys;      /* of the cell */
    uint64_t counts[2]; /* for each mapping: keys with each rotation */
    uint64_t fills[2];  /* for each mapping: keys in the bucket of each subrange; in a plan, without the cell's own */
    uint64_t mine[2];   /* this lane's slots that hold keys of the cell, 16 bits for each subrange; 0 if stashed */
} perfect_reading;

LOOM_LANE uint32_t perfect_byte(uint64_t bytes, uint32_t i)
{
    return (uint32_t)(bytes >> 8 * i) & 255;
}

/* Byte i goes to (i + by) mod 8. */
LOOM_LANE uint64_t perfect_rotated(uint64_t bytes, uint32_t by)
{
    const uint32_t bits = 8 * (by % 8);
    return bytes << bits | bytes >> ((64 - bits) & 63);
}

#define PERFECT_EACH_BYTE 0x0101010101010101u

LOOM_LANE uint32_t perfect_sum_of_bytes(uint64_t bytes)
{
    uint64_t pairs = (bytes & 0x00ff00ff00ff00ffu) + (bytes >> 8 & 0x00ff00ff00ff00ffu);
    return (uint32_t)(pairs * 0x0001000100010001u >> 48);
}

/* Counts one more key of the cell. */
LOOM_LANE void perfect_add_key(uint64_t counts[2], uint32_t remainder, uint32_t salt)
{
    counts[0] += (uint64_t)1 << 8 * perfect_rotation(remainder, salt, 0);
    counts[1] += (uint64_t)1 << 8 * perfect_rotation(remainder, salt, 1);
}

/* Counts the cell's keys in the lane's slots of a line. Returns a bit for each of these keys' slots. */
LOOM_LANE uint32_t perfect_count_own(loom__slot_kind kind, const perfect_owner *owner, uint32_t cell,
                                     const lane_line *line, uint64_t counts[2])
{
    uint32_t which = 0;
    LOOM_UNROLL
    for (uint32_t i = 0; i < perfect_own_slots(kind, owner); i++) {
        uint32_t remainder;
        if (perfect_is_of_cell(kind, owner, perfect_own_key(kind, line, i), cell, &remainder)) {
            perfect_add_key(counts, remainder, owner->salt);
            which |= 1u << i;
        }
    }
    return which;
}

/* The group stores its reading of a cell where the whole team sees it. */
LOOM_LANE void perfect_tell_cell(const perfect_owner *owner, perfect_tally *tally, uint32_t cell, uint32_t code,
                                 const perfect_reading *reading)
{
    if (!lane_leads(owner->alone))
        return;
    lane_team_store_4(&tally->cell, cell);
    lane_team_store_4(&tally->code, code);
    lane_team_store_4(&tally->keys, reading->keys);
    lane_team_store(&tally->counts[0], reading->counts[0]);
    lane_team_store(&tally->counts[1], reading->counts[1]);
}

/* Keys that the plan adds to a bucket; may be negative. A word is low + 65536 * high, both signed. So one addition
 * changes one half, whatever the other half is. */
LOOM_LANE int32_t perfect_shift_of(const perfect_scratch *scratch, uint32_t bucket)
{
    const uint32_t word = lane_team_load_4(perfect_shift_word(scratch, bucket));
    const int32_t low = (int16_t)(word & 0xffff);
    return bucket % 2 == 0 ? low : (int16_t)((word - (uint32_t)low) >> 16);
}

LOOM_LANE void perfect_touch(perfect_scratch *scratch, uint32_t bucket, uint32_t keys)
{
    (void)lane_team_draw(perfect_shift_word(scratch, bucket), keys << (16 * (bucket % 2)));
    const uint32_t at = lane_team_draw(&scratch->touches, 1); /* < MOST_TOUCHED: at most MOST_MOVES moves */
    lane_team_store_4(&scratch->touched[at], bucket);
}

/* Adds a cell's keys to the plan, in the buckets where `code` puts them. With `times` = -1 it subtracts them. Each lane
 * does its share. Together the lanes touch at most one bucket of each subrange, or the stash. A move calls this
 * function twice. */
LOOM_LANE void perfect_shift_cell(const perfect_owner *owner, perfect_scratch *scratch, const perfect_tally *tally,
                                  uint32_t code, uint32_t times)
{
    uint32_t cell = lane_team_load_4(&tally->cell), mapping = code >> 3;
    if (code == PERFECT_STASHED) {
        if (lane_team_rank(owner->team) == 0)
            perfect_touch(scratch, perfect_stash(owner->view), times * lane_team_load_4(&tally->keys));
        return;
    }
    const uint64_t counts = perfect_rotated(lane_team_load(&tally->counts[mapping]), code); /* by subrange */
    for (uint32_t i = lane_team_rank(owner->team); i < PERFECT_SUBRANGES; i += lane_team_size(owner->team))
        if (perfect_byte(counts, i) > 0)
            perfect_touch(scratch, perfect_bucket_in(cell, owner->salt, mapping, i, owner->view->subrange),
                          times * perfect_byte(counts, i));
}

/* The group reads a cell's sixteen buckets. Without `active` it reads nothing. With `planned`, fills are those of the
 * plan in the scratch, without the cell's keys. Without `planned`, fills are those of the table, with the cell's keys,
 * and there is no scratch. `planned` is a literal: with a test of `scratch` for NULL, a GPU would test the pointer each
 * time. Loads of four subranges are in flight before the first line is used. More loads would take more registers, and
 * fewer teams would fit on a GPU. */
LOOM_LANE perfect_reading perfect_read_cell(loom__slot_kind kind, const perfect_owner *owner,
                                            const perfect_scratch *scratch, uint32_t cell, uint32_t code, int planned,
                                            lane_truth active)
{
    const uint32_t mapping = code >> 3;
    uint64_t counts[2] = {0, 0}, fills = 0, other_fills = 0, same = 0; /* where both mappings have the same bucket */
    perfect_reading reading;
    reading.mine[0] = 0;
    for (uint32_t half = 0; half < 8; half += 4) {
        uint32_t here[4], there[4];
        lane_line lines[4], others[4];
        uint64_t mine = 0;
        LOOM_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            here[i] = perfect_bucket_in(cell, owner->salt, mapping, half + i, owner->view->subrange);
            there[i] = perfect_bucket_in(cell, owner->salt, mapping ^ 1, half + i, owner->view->subrange);
            perfect_take_line(kind, owner, here[i], &lines[i], active);
            perfect_take_line(kind, owner, there[i], &others[i], active);
        }
        LOOM_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t fill = perfect_used_in(kind, owner, &lines[i]);
            uint32_t other_fill = perfect_used_in(kind, owner, &others[i]);
            if (planned) {
                fill += (uint32_t)perfect_shift_of(scratch, here[i]);
                other_fill += (uint32_t)perfect_shift_of(scratch, there[i]);
            }
            fills |= (uint64_t)fill << 8 * (half + i);
            other_fills |= (uint64_t)other_fill << 8 * (half + i);
            if (here[i] == there[i]) /* happens in small subranges */
                same |= (uint64_t)255 << 8 * (half + i);
            if (active && code != PERFECT_STASHED)
                mine |= (uint64_t)perfect_count_own(kind, owner, cell, &lines[i], counts) << 16 * i;
        }
        if (half == 0) /* not a computed index, which would put the array into local memory on a GPU */
            reading.mine[0] = mine;
        reading.mine[1] = mine;
    }
    if (active && code == PERFECT_STASHED) {
        lane_line stash;
        perfect_take_line(kind, owner, perfect_stash(owner->view), &stash, 1);
        (void)perfect_count_own(kind, owner, cell, &stash, counts);
    }
    for (uint32_t i = 0; i < 2; i++)
        reading.counts[i] = lane_sum(owner->alone, counts[i]);
    reading.keys = perfect_sum_of_bytes(reading.counts[0]);
    if (planned && code != PERFECT_STASHED) {
        const uint64_t own = perfect_rotated(mapping ? reading.counts[1] : reading.counts[0], code);
        fills -= own; /* no byte becomes negative */
        other_fills -= own & same;
    }
    reading.fills[0] = mapping ? other_fills : fills;
    reading.fills[1] = mapping ? fills : other_fills;
    return reading;
}

/* ---- Codes ---- */

/* Returns all ones in each byte that is greater than `limit`, else 0; bytes and limit are less than 128. */
LOOM_LANE uint64_t perfect_above(uint64_t bytes, uint32_t limit)
{
    const uint64_t high = (bytes + PERFECT_EACH_BYTE * (127 - limit)) & PERFECT_EACH_BYTE * 128;
    return (high >> 7) * 255;
}

/* Each byte's square, at most 255. */
LOOM_LANE uint64_t perfect_squares(uint64_t bytes)
{
    uint64_t squares = 0;
    LOOM_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t square = perfect_byte(bytes, i) * perfect_byte(bytes, i);
        squares |= (uint64_t)(square < 255 ? square : 255) << 8 * i;
    }
    return squares;
}

/* The number of keys by which a code would overfill buckets. `counts`: the cell's keys that go to each bucket; `met`:
 * the keys already there. If one count alone exceeds a bucket's slots, the code can never work, and the result is 255
 * more. The other mapping may separate those keys. */
LOOM_LANE uint32_t perfect_too_many(loom__slot_kind kind, uint64_t counts, uint64_t met)
{
    const uint32_t slots = perfect_slots(kind);
    const uint64_t all = met + counts, over = perfect_above(all, slots) & perfect_above(counts, 0);
    const uint64_t excess = (all & over) - (PERFECT_EACH_BYTE * slots & over);
    return perfect_sum_of_bytes(excess) + (perfect_above(counts, slots) != 0 ? 255 : 0);
}

/* Rates a code for a cell; the least judgement is the best. Bits 24 to 31 hold the keys too many. Bits 8 to 23 hold the
 * cost, which tells how full the receiving buckets are; a hash added to it breaks ties differently in each attempt.
 * Bits 4 to 7 name the candidate, and bits 0 to 3 the code. */
LOOM_LANE uint32_t perfect_judgement(uint32_t cell, uint32_t candidate, uint32_t code, uint32_t attempt, uint32_t over,
                                     uint32_t cost)
{
    cost += ((cell << 8 | code << 4 | attempt) * 0x9e3779b1u) >> 28;
    over = over < 255 ? over : 255;
    cost = cost < 0xfffe ? cost : 0xfffe;
    return over << 24 | cost << 8 | candidate << 4 | code;
}

LOOM_STATIC_ASSERT(PERFECT_MOST_CANDIDATES == 16 && PERFECT_CODES < 16, "four bits for each in a judgement");

/* Returns the least judgement of a cell's codes, to the whole group. Each lane considers one offset or several.
 * `present`: the code that the cell must leave. `leaves`: the subrange of the bucket to relieve; 8: none. With another
 * offset of the same mapping, other keys of the cell go to that bucket. If the code puts at least as many keys there as
 * the present code, it does not help, and gets the penalty PERFECT_NO_HELP. */
LOOM_LANE uint32_t perfect_judge(loom__slot_kind kind, const perfect_owner *owner, const perfect_reading *reading,
                                 uint32_t cell, uint32_t candidate, uint32_t present, uint32_t leaves, uint32_t attempt)
{
    const uint64_t placed = perfect_rotated(present >> 3 & 1 ? reading->counts[1] : reading->counts[0], present);
    const uint32_t there = leaves < 8 ? perfect_byte(placed, leaves) : 0;
    const uint64_t squares[2] = {perfect_squares(reading->fills[0]), perfect_squares(reading->fills[1])};
    uint32_t best = UINT32_MAX;
    LOOM_UNROLL
    for (uint32_t i = 0; i < 2 * lane_words(owner->alone); i++) {
        const uint32_t mapping = i % 2, offset = lane_first_word(owner->alone) + i / 2, code = mapping << 3 | offset;
        const uint64_t come = perfect_rotated(reading->counts[mapping], offset);
        uint32_t over = perfect_too_many(kind, come, reading->fills[mapping]);
        if (leaves < 8 && mapping == present >> 3 && perfect_byte(come, leaves) >= there)
            over += PERFECT_NO_HELP;
        const uint32_t cost = loom__dot_bytes(come, squares[mapping]); /* squares favour even filling */
        const uint32_t judgement = perfect_judgement(cell, candidate, code, attempt, over, cost);
        if (code != PERFECT_STASHED && code != present && judgement < best)
            best = judgement;
    }
    return lane_least(owner->alone, best);
}

#endif
