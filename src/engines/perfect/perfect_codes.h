/* The codes of a partition's cells in a team's memory, and their repair: the common part of building a table and
 * inserting many keys at once. The team owns the partition.
 *
 * To choose codes, a team needs only the rotations of a cell's keys (perfect_layout.h): for each mapping Φ one word of
 * eight 4-bit counters. So it reads keys once, and neither sorts nor keeps them. A change of the offset Δ rotates the
 * counters by as many places. A partition with more than 15 keys of one cell and rotation cannot be counted this way.
 * In practice those keys are equal.
 *
 * Codes that overfill some buckets are repaired in rounds; perfect_repair.h has the loop. The team lists all cells with
 * keys in overfull buckets, the *suspects*. A round has two half rounds: one for the buckets of the lower four
 * subranges, one for those of the upper four. In each half round, a suspect considers its 14 other codes and bids for
 * the bucket that it would leave. For each bucket the bid with the least new overflow wins, and its cell moves if the
 * move adds no overflow. A cell that has moved waits two half rounds. Once few overfull buckets are left, a moved cell
 * waits six half rounds, moves may add some overflow, and random numbers blur bids. Without these rules, a few cells
 * would move in circles, or two large cells in one bucket would never separate. All cells choose at once, from slightly
 * stale counts. The next round sees and repairs the errors. */
#ifndef LOOM_PERFECT_CODES_H
#define LOOM_PERFECT_CODES_H

#include "core/lanes.h"
#include "engines/perfect/perfect_layout.h"

enum {
    PERFECT_STUBBORN = 6, /* bids are blurred once at most this many lanes see an overfull bucket */
    PERFECT_BEARABLE = 4  /* overflow that a move may add while bids are blurred */
};

#define PERFECT_NO_BID UINT32_MAX

/* ---- The team's memory ---- */

/* A cell bids for the bucket that it would leave. */
typedef struct perfect_bid {
    uint32_t bucket; /* PERFECT_NO_BID: none */
    uint32_t value;  /* names the cell, even without a bid */
} perfect_bid;

/* The counters of a round. */
typedef struct perfect_round {
    uint32_t listed[2]; /* suspects for each half */
    uint32_t wanted;    /* a bit for each subrange with overfull buckets */
} perfect_round;

typedef struct perfect_codes {
    uint32_t *counts; /* [2][words * 16], for each Φ: keys of a cell by rotation, 4 bits each */
    uint8_t *codes;   /* [words * 16]: code, and above it the half round of the last move, 1 .. 15; 0: never moved */
    uint32_t *fills;  /* keys of each bucket of the subranges, a byte each */
    uint32_t *bids;   /* for each bucket of the subranges: the best bid of a cell that would leave it */
    perfect_bid *suspects; /* [2][most_suspects], behind the bids */
    perfect_round *round;
    uint32_t subrange, words, salt;
    uint32_t most_suspects; /* cells listed for a half round, at most; others wait for the next round */
    lane_team team;
} perfect_codes;

LOOM_BOTH uint32_t perfect_whole_16(uint32_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* The first function returns the bytes of counts, codes and fills, the second those of the team's whole memory. A
 * build's sorted list of cells shares the memory of bids and suspects. */
LOOM_BOTH uint32_t perfect_counters_bytes(uint32_t subrange, uint32_t words)
{
    return words * 16 * (4 + 4 + 1) + perfect_whole_16(PERFECT_SUBRANGES * subrange);
}

LOOM_BOTH uint32_t perfect_codes_bytes(uint32_t subrange, uint32_t words, uint32_t suspects)
{
    const uint32_t bids = (uint32_t)PERFECT_SUBRANGES * subrange * 4 + 2 * suspects * (uint32_t)sizeof(perfect_bid);
    const uint32_t order = words * 16 * 2;
    return perfect_counters_bytes(subrange, words) + perfect_whole_16(bids > order ? bids : order);
}

/* `memory` is aligned to 16 bytes; `round` may lie anywhere. */
LOOM_LANE perfect_codes perfect_lay_out_codes(unsigned char *memory, perfect_round *round, uint32_t subrange,
                                              uint32_t words, uint32_t salt, uint32_t suspects, lane_team team)
{
    uint32_t *counts = (uint32_t *)(void *)memory;
    uint8_t *bytes = (uint8_t *)(counts + 2 * words * 16);
    uint32_t *fills = (uint32_t *)(void *)(bytes + words * 16);
    uint32_t *bids = fills + perfect_whole_16(PERFECT_SUBRANGES * subrange) / 4;
    perfect_bid *listed = (perfect_bid *)(void *)(bids + PERFECT_SUBRANGES * subrange);
    const perfect_codes codes = {counts, bytes, fills, bids, listed, round, subrange, words, salt, suspects, team};
    return codes;
}

/* All lanes: clear counts, codes and fills. */
LOOM_LANE void perfect_clear_counters(const perfect_codes *codes)
{
    const uint32_t words = perfect_counters_bytes(codes->subrange, codes->words) / 8;
    for (uint32_t i = lane_team_rank(codes->team); i < words; i += lane_team_size(codes->team))
        lane_team_store((uint64_t *)(void *)codes->counts + i, 0);
}

LOOM_LANE uint32_t *perfect_counts_of(const perfect_codes *codes, uint32_t mapping, uint32_t cell)
{
    return &codes->counts[mapping * (codes->words * 16) + cell];
}

LOOM_LANE uint32_t perfect_load_counts(const perfect_codes *codes, uint32_t mapping, uint32_t cell)
{
    return lane_team_load_4(perfect_counts_of(codes, mapping, cell));
}

LOOM_LANE uint32_t perfect_planned_code(const perfect_codes *codes, uint32_t cell)
{
    return lane_team_load_1(&codes->codes[cell]) & 15;
}

/* Keys of a bucket, while no lane changes the count. */
LOOM_LANE uint32_t perfect_fill(const perfect_codes *codes, uint32_t bucket)
{
    return lane_team_load_1((const uint8_t *)codes->fills + bucket);
}

/* Returns the bucket's former number of keys. */
LOOM_LANE uint32_t perfect_add_fill(const perfect_codes *codes, uint32_t bucket, uint32_t keys)
{
    const uint32_t at = 8 * (bucket % 4);
    return lane_team_draw(&codes->fills[bucket / 4], keys << at) >> at & 255; /* modulo 2^32: also subtracts */
}

/* Packs 15 codes into a word whose salt is zero. */
LOOM_LANE uint64_t perfect_packed_codes(const perfect_codes *codes, uint32_t word)
{
    const uint64_t *bytes = (const uint64_t *)(const void *)(codes->codes + 16 * word);
    uint64_t packed = 0;
    LOOM_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        uint64_t x = lane_team_load(bytes + k) & 0x0f0f0f0f0f0f0f0fu;
        x = k == 1 ? x & 0x00ffffffffffffffu : x;
        x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
        x = (x | x >> 8) & 0x0000ffff0000ffffu;
        packed |= (uint64_t)(uint32_t)(x | x >> 16) << 32 * k;
    }
    return packed;
}

/* ---- Counters of 4 bits, and of a byte ---- */

/* Turns counts by rotation into counts by subrange, for this code. */
LOOM_LANE uint32_t perfect_rotated_counts(uint32_t counts, uint32_t code)
{
    return loom__funnel_left(counts, counts, 4 * (code & 7));
}

LOOM_LANE uint32_t perfect_nibble(uint32_t counts, uint32_t i)
{
    return counts >> 4 * i & 15;
}

/* Expands the lower four counters to a byte each. */
LOOM_LANE uint32_t perfect_lower_bytes(uint32_t counts)
{
    uint32_t x = counts & 0xffff;
    x = (x | x << 8) & 0x00ff00ff;
    return (x | x << 4) & 0x0f0f0f0f;
}

/* Eight bytes in two words: a GPU shifts and adds 32 bits. */
typedef struct perfect_eight {
    uint32_t low, high;
} perfect_eight;

LOOM_LANE perfect_eight perfect_eight_of(uint32_t counts)
{
    const perfect_eight eight = {perfect_lower_bytes(counts), perfect_lower_bytes(counts >> 16)};
    return eight;
}

LOOM_LANE void perfect_put_byte(perfect_eight *eight, uint32_t i, uint32_t byte)
{
    if (i < 4)
        eight->low |= byte << 8 * i;
    else
        eight->high |= byte << 8 * (i - 4);
}

/* Byte t of the result is byte (t + by) mod 8 of `eight`. */
LOOM_LANE perfect_eight perfect_rotated_back(perfect_eight eight, uint32_t by)
{
    const uint32_t bits = 8 * (by & 3), first = by & 4 ? eight.high : eight.low,
                   second = by & 4 ? eight.low : eight.high;
    const perfect_eight rotated = {loom__funnel_right(first, second, bits), loom__funnel_right(second, first, bits)};
    return rotated;
}

LOOM_LANE perfect_eight perfect_sum_of_eights(perfect_eight one, perfect_eight other)
{
    const perfect_eight sum = {one.low + other.low, one.high + other.high};
    return sum;
}

LOOM_LANE uint32_t perfect_sum_of_four(uint32_t four)
{
    return loom__dot_4(four, 0x01010101u, 0);
}

/* Returns 1 in each byte whose counterpart in `four` is above `slots`, and 0 in the others. No byte of `four` may be
 * above 128. */
LOOM_LANE uint32_t perfect_above_of(uint32_t four, uint32_t slots)
{
    return ((four + (127 - slots) * 0x01010101u) & 0x80808080u) >> 7;
}

/* The sum, over the bytes above `slots`, of what exceeds it. */
LOOM_LANE uint32_t perfect_overflow_of_four(uint32_t four, uint32_t slots)
{
    const uint32_t above = perfect_above_of(four, slots);
    return loom__dot_4((four + (127 - slots) * 0x01010101u) & 0x7f7f7f7fu, above, perfect_sum_of_four(above));
}

LOOM_LANE uint32_t perfect_overflow_of(perfect_eight all, uint32_t slots)
{
    return perfect_overflow_of_four(all.low, slots) + perfect_overflow_of_four(all.high, slots);
}

/* Counts a key of the partition. */
LOOM_LANE void perfect_count_key(const perfect_codes *codes, perfect_place place)
{
    const uint32_t cell = perfect_cell(place);
    (void)lane_team_draw(perfect_counts_of(codes, 0, cell),
                         1u << 4 * perfect_rotation(place.remainder, codes->salt, 0));
    (void)lane_team_draw(perfect_counts_of(codes, 1, cell),
                         1u << 4 * perfect_rotation(place.remainder, codes->salt, 1));
}

LOOM_LANE uint32_t perfect_sum_of_counters(uint32_t counts)
{
    return perfect_sum_of_four((counts & 0x0f0f0f0fu) + (counts >> 4 & 0x0f0f0f0fu));
}

/* All lanes, after each has counted `mine` keys: return whether no counter has overflowed. An overflow lowers the sum
 * of all counters by 15 or 16, and nothing raises it. `sum` is a word of the team's memory. */
LOOM_LANE int perfect_all_counted(const perfect_codes *codes, uint32_t mine, uint32_t *sum)
{
    if (lane_team_rank(codes->team) == 0)
        lane_team_store_4(sum, 0);
    lane_team_wait(codes->team);
    uint32_t missing = 2 * mine;
    for (uint32_t i = lane_team_rank(codes->team); i < 2 * codes->words * 16; i += lane_team_size(codes->team))
        missing -= perfect_sum_of_counters(lane_team_load_4(&codes->counts[i]));
    lane_team_add(codes->team, sum, missing);
    lane_team_wait(codes->team);
    return lane_team_load_4(sum) == 0;
}

/* ---- Suspects ---- */

/* A bid's value, from the top: new overflow relative to NO_WORSE, a random number, cell, code. */
enum { PERFECT_NO_WORSE = 16, PERFECT_WORSE_AT = 23, PERFECT_CHANCE_AT = 20, PERFECT_CELL_AT = 4 };

LOOM_LANE uint32_t perfect_bidder(uint32_t value)
{
    return value >> PERFECT_CELL_AT & 0xffff;
}

/* All lanes: return how many lanes see overfull buckets. round->wanted gets the subranges of these buckets. */
LOOM_LANE uint32_t perfect_look_for_trouble(const perfect_codes *codes, uint32_t slots)
{
    uint32_t wanted = 0;
    if (lane_team_rank(codes->team) == 0) {
        lane_team_store_4(&codes->round->listed[0], 0);
        lane_team_store_4(&codes->round->listed[1], 0);
        lane_team_store_4(&codes->round->wanted, 0);
    }
    lane_team_wait(codes->team);
    for (uint32_t four = lane_team_rank(codes->team); four < perfect_whole_16(PERFECT_SUBRANGES * codes->subrange) / 4;
         four += lane_team_size(codes->team))
        for (uint32_t above = perfect_above_of(lane_team_load_4(&codes->fills[four]), slots); above != 0;
             above &= above - 1)
            wanted |= 1u << (4 * four + loom__lowest_bit(above) / 8) / codes->subrange;
    if (wanted != 0)
        (void)lane_team_or(&codes->round->wanted, wanted);
    return lane_team_count(codes->team, wanted != 0);
}

/* Lists a cell with keys in overfull buckets as a suspect, for the half rounds of these buckets. Considers only the
 * subranges in `wanted`, which is the same on all lanes. */
LOOM_LANE void perfect_consider_cell(const perfect_codes *codes, uint32_t slots, uint32_t cell, uint32_t wanted)
{
    const uint32_t code = perfect_planned_code(codes, cell), mapping = code >> 3;
    const uint32_t placed = perfect_rotated_counts(perfect_load_counts(codes, mapping, cell), code);
    uint32_t trouble = 0; /* a bit for each subrange */
    LOOM_UNROLL
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++)
        if (wanted >> i & 1) {
            const uint32_t fill =
                perfect_fill(codes, perfect_bucket_in(cell, codes->salt, mapping, i, codes->subrange));
            trouble |= (uint32_t)((perfect_nibble(placed, i) != 0) & (fill > slots)) << i; /* branches would diverge */
        }
    LOOM_UNROLL
    for (uint32_t half = 0; half < 2; half++)
        if (trouble >> 4 * half & 15) {
            const uint32_t at = lane_team_draw(&codes->round->listed[half], 1);
            if (at < codes->most_suspects)
                lane_team_store_4(&codes->suspects[half * codes->most_suspects + at].value, cell << PERFECT_CELL_AT);
        }
}

/* All lanes: consider all cells. `together`: the lane's group, which runs with its warp. */
LOOM_LANE void perfect_consider_all(const perfect_codes *codes, uint32_t slots, lane_group together)
{
    const uint32_t wanted = lane_team_load_4(&codes->round->wanted), cells = codes->words * 16;
    for (uint32_t first = 0; first < cells; first += lane_team_size(codes->team)) {
        const uint32_t cell = first + lane_team_rank(codes->team);
        if (cell < cells)
            perfect_consider_cell(codes, slots, cell, wanted);
        lane_join(together, 1); /* otherwise lanes without suspects run ahead, each part of a warp by itself */
    }
    lane_team_wait(codes->team);
}

/* ---- Bids ---- */

/* Whether a cell that moved in half round `moved` must still wait. Half rounds count from 1 to 15 and then from 1
 * again, so that the number fits beside a code. */
LOOM_LANE int perfect_moved_lately(uint32_t moved, uint32_t now, uint32_t cooling)
{
    return moved != 0 && (now - moved + 15) % 15 <= cooling;
}

LOOM_LANE uint32_t perfect_lesser(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* The bid of a suspect in the half round `now`. */
LOOM_LANE perfect_bid perfect_bid_for(const perfect_codes *codes, uint32_t slots, uint32_t cell, uint32_t half,
                                      uint32_t now, uint32_t salt, int stubborn)
{
    const uint32_t byte = lane_team_load_1(&codes->codes[cell]), code = byte & 15, mapping = code >> 3;
    const uint32_t placed = perfect_rotated_counts(perfect_load_counts(codes, mapping, cell), code);
    const perfect_bid none = {PERFECT_NO_BID, cell << PERFECT_CELL_AT};
    if (perfect_moved_lately(byte >> 4, now, stubborn ? 6 : 2) || (half ? placed >> 16 : placed & 0xffff) == 0)
        return none;
    /* `others`: keys in the cell's sixteen buckets, without its own. `best.bucket`: the fullest bucket that it should
     * leave. */
    perfect_eight others[2] = {{0, 0}, {0, 0}};
    uint32_t fullest = slots;
    perfect_bid best = {PERFECT_NO_BID, UINT32_MAX};
    LOOM_UNROLL
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++) {
        const uint32_t a = perfect_bucket_in(cell, codes->salt, 0, i, codes->subrange);
        const uint32_t b = perfect_bucket_in(cell, codes->salt, 1, i, codes->subrange);
        const uint32_t own = perfect_nibble(placed, i), here = mapping ? b : a;
        const uint32_t fill_a = perfect_lesser(perfect_fill(codes, a), 100);
        const uint32_t fill_b = perfect_lesser(perfect_fill(codes, b), 100);
        const uint32_t fill = mapping ? fill_b : fill_a;
        if (i / 4 == half && own != 0 && fill > fullest) {
            fullest = fill;
            best.bucket = here;
        }
        perfect_put_byte(&others[0], i, a == here ? fill_a - perfect_lesser(own, fill_a) : fill_a);
        perfect_put_byte(&others[1], i, b == here ? fill_b - perfect_lesser(own, fill_b) : fill_b);
    }
    if (best.bucket == PERFECT_NO_BID)
        return none;
    const perfect_eight mine = mapping ? others[1] : others[0];
    const uint32_t now_over = perfect_overflow_of(perfect_sum_of_eights(mine, perfect_eight_of(placed)), slots) -
                              perfect_overflow_of(mine, slots);
    LOOM_UNROLL
    for (uint32_t phi = 0; phi < 2; phi++) {
        const perfect_eight keys = perfect_eight_of(perfect_load_counts(codes, phi, cell));
        const uint32_t without = perfect_overflow_of(others[phi], slots);
        LOOM_UNROLL
        for (uint32_t offset = 0; offset < PERFECT_SUBRANGES; offset++) {
            const uint32_t other = phi << 3 | offset;
            if (other == PERFECT_STASHED || other == code)
                continue;
            const perfect_eight met = perfect_rotated_back(others[phi], offset);
            const uint32_t over = perfect_overflow_of(perfect_sum_of_eights(met, keys), slots) - without;
            const uint32_t chance = (cell << 4 | other) * 0x9e3779b1u ^ salt;
            const uint32_t drawn = chance * 0x85ebca77u;
            int worse = (int)over - (int)now_over + PERFECT_NO_WORSE + (stubborn && drawn >> 30 == 0);
            worse = worse < 0 ? 0 : worse > 2 * PERFECT_NO_WORSE - 1 ? 2 * PERFECT_NO_WORSE - 1 : worse;
            best.value = perfect_lesser(best.value, (uint32_t)worse << PERFECT_WORSE_AT |
                                                        (drawn >> 27 & 7) << PERFECT_CHANCE_AT |
                                                        cell << PERFECT_CELL_AT | other);
        }
    }
    return best.value >> PERFECT_WORSE_AT > (uint32_t)PERFECT_NO_WORSE + (stubborn ? PERFECT_BEARABLE : 0) ? none
                                                                                                           : best;
}

/* One lane: gives the cell another code, in the plan. */
LOOM_LANE void perfect_move_planned(const perfect_codes *codes, uint32_t cell, uint32_t code, uint32_t now)
{
    const uint32_t before = perfect_planned_code(codes, cell);
    const uint32_t leaving = perfect_rotated_counts(perfect_load_counts(codes, before >> 3, cell), before);
    const uint32_t coming = perfect_rotated_counts(perfect_load_counts(codes, code >> 3, cell), code);
    LOOM_UNROLL
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++) {
        if (perfect_nibble(leaving, i) != 0)
            (void)perfect_add_fill(codes, perfect_bucket_in(cell, codes->salt, before >> 3, i, codes->subrange),
                                   0 - perfect_nibble(leaving, i));
        if (perfect_nibble(coming, i) != 0)
            (void)perfect_add_fill(codes, perfect_bucket_in(cell, codes->salt, code >> 3, i, codes->subrange),
                                   perfect_nibble(coming, i));
    }
    lane_team_store_1(&codes->codes[cell], now << 4 | code);
}

#endif
