/* The filter's algorithms, for every machine: which bits a key has, and how they are set and tested.
 *
 * Sources: F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (blocks); H. Lang, T.
 * Neumann, A. Kemper, P. Boncz, "Performance-Optimal Filtering: Bloom Overtakes Cuckoo at High Throughput" (sectors);
 * D. Juenger et al., "WarpCore" (a filter on a GPU).
 *
 * WHICH BITS. The upper half of a key's hash chooses the block, by a multiply-high. The lower half gives four numbers,
 * one for each quarter of the block, by one multiplication each. A key has one to four bits in each quarter. The bits
 * of the quarter's number choose them, from the top down:
 *     one bit   (4 in all)   7 bits: the bit, among the quarter's 128
 *     two       (8)          6 bits: a bit in the first half, among 64; 6 bits: a bit in the second half
 *     three     (12)         4 x 5 bits: a bit in each of the four words of 32; 2 bits: the word that has none
 *     four      (16)         4 x 5 bits: a bit in each of the four words
 * Multiplication by an odd number is a bijection, so the choices within one quarter are exactly independent of each
 * other.
 *
 * WHY SECTORS. The classic layout puts a key's bits anywhere in the block. False positives measured for both layouts,
 * with 65,536 blocks, 2 * 10^7 absent keys and the better number of bits at each size:
 *     bits per key   4        8        12        16         20          24
 *     bits set       4        4        8         8          12          12
 *     classic        0.1613   0.0251   0.00412   0.000880   0.000203    0.0000523
 *     sectors        0.1622   0.0253   0.00423   0.000910   0.000211    0.0000556
 *     theory         0.1622   0.0253   0.00422   0.000909   0.000207    0.0000547   (sectors; loom__filter_rate)
 *     one filter, not in blocks, best number of bits
 *                    0.1469   0.0216   0.00314   0.000459   0.0000671   0.0000098
 * Sectors cost 1 to 6 % more false positives. In return, each lane of a group finds the bits of its own quarters
 * independently of the other lanes, and a CPU finds the bits of four words with one vector operation. A classic query
 * computes all positions on every lane and chooses words by them. Numbers of bits other than multiples of four would
 * gain less than 10 %.
 *
 * INVARIANTS. F1: a bit once set stays set until the filter is cleared. F2: when an insertion has ended, all bits of
 * its key are set. F3: of the insertions that set a bit, exactly one finds it clear, the one whose OR comes first. The
 * OR itself must return the old word: a separate load could show the bit clear to several insertions, or to none.
 * Bits are set by atomic ORs, or by the owner of the partition. Words are read once each, in any sequence. Insertions
 * and queries may therefore run at the same time. A query that begins after an insertion of its key has ended finds all
 * bits (F1, F2), if the query learned of the end in a way that orders memory. A query that overlaps an insertion of its
 * key may see some of the bits, and answer either way. Linearisation points: of an insertion, the last of its ORs; of a
 * query of an absent key, the load that misses a bit.
 *
 * NEW KEYS. A key is new to an insertion that finds one of its bits clear. Of equal keys that are inserted at the same
 * time, several may be new, since each may find another bit clear. At least one is new, unless other keys have set all
 * of their bits (F3). */
#ifndef LOOM_FILTER_OPS_H
#define LOOM_FILTER_OPS_H

#include "core/lanes.h"
#include "engines/filter/filter_layout.h"

/* The number of a quarter. The factors are odd, with well spread bits: the first four primes of XXH32 (Y. Collet). */
LOOM_LANE uint32_t filter_number(uint32_t lower, uint32_t quarter)
{
    return lower * (quarter == 0 ? 0x9e3779b1u : quarter == 1 ? 0x85ebca77u : quarter == 2 ? 0xc2b2ae3du : 0x27d4eb2fu);
}

/* 1 << (number >> shift) % 32 */
LOOM_LANE uint32_t filter_bit(uint32_t number, uint32_t shift)
{
#if defined(__CUDACC__)
    return __funnelshift_l(0, 1, number >> shift); /* takes the count modulo 32 */
#else
    return 1u << (number >> shift & 31);
#endif
}

/* The word of the quarter that holds the key's i-th bit, 0 <= i < each, in ascending order. */
LOOM_LANE uint32_t filter_chosen_word(uint32_t each, uint32_t number, uint32_t i)
{
    return each == 1   ? number >> 30
           : each == 2 ? 2 * i + (number >> (31 - 6 * i) & 1)
           : each == 3 ? i + (i >= (number >> 10 & 3))
                       : i;
}

/* The mask of the key's i-th bit within `word`, the word that filter_chosen_word returned. */
LOOM_LANE uint32_t filter_chosen_bit(uint32_t each, uint32_t number, uint32_t i, uint32_t word)
{
    return filter_bit(number, each == 1 ? 25 : each == 2 ? 26 - 6 * i : 27 - 5 * word);
}

/* The mask of the key's bits in half 0 or 1 of a quarter, a word of 64 bits, from the quarter's number. */
LOOM_LANE uint64_t filter_bits(uint32_t each, uint32_t number, uint32_t half)
{
    if (each <= 2) {
        const uint64_t bit = filter_bit(number, each == 1 ? 25 : 26 - 6 * half);
        const uint32_t upper = number >> (each == 1 ? 30 : 31 - 6 * half) & 1;
        return each == 1 && number >> 31 != half ? 0 : upper ? bit << 32 : bit;
    }
    const uint32_t none = each == 3 ? number >> 10 & 3 : 4;
    const uint32_t low = none == 2 * half ? 0 : filter_bit(number, 27 - 10 * half);
    const uint32_t high = none == 2 * half + 1 ? 0 : filter_bit(number, 22 - 10 * half);
    return low | (uint64_t)high << 32;
}

#ifdef LANE_HAS_VECTORS

/* The mask of the key's bits in a whole quarter, on a machine with vectors whose group is one lane. */
typedef uint32_t filter_quarter __attribute__((vector_size(16)));

LOOM_LANE filter_quarter filter_quarter_bits(uint32_t each, uint32_t lower, uint32_t quarter)
{
    const uint32_t number = filter_number(lower, quarter);
    const filter_quarter all = {number, number, number, number}, ones = {1, 1, 1, 1}, words = {0, 1, 2, 3};
    if (each == 1)
        return ones << (all >> 25 & 31) & (filter_quarter)(all >> 30 == words);
    if (each == 2) {
        const filter_quarter down = {26, 26, 20, 20}, halves = {31, 31, 25, 25}, second = {0, 1, 0, 1};
        return ones << (all >> down & 31) & (filter_quarter)((all >> halves & 1) == second);
    }
    const filter_quarter down = {27, 22, 17, 12}, bits = ones << (all >> down & 31);
    return each == 3 ? bits & (filter_quarter)((all >> 10 & 3) != words) : bits;
}

#endif

/* Sets the key's bits in this lane's words of the block at `at`, word by word. Returns the bits that were clear before
 * (F3), with `tells`; otherwise 0. */
LOOM_LANE uint64_t filter_or(uint32_t each, int shared, int tells, lane_group group, unsigned char *at, uint32_t lower)
{
    uint64_t clear = 0;
    LOOM_UNROLL
    for (uint32_t i = 0; i < lane_words(group); i++) {
        const uint32_t word = lane_first_word(group) + i;
        const uint64_t bits = filter_bits(each, filter_number(lower, word / 2), word % 2);
        if (each == 1 && bits == 0)
            continue;
        if (tells)
            clear |= bits & ~lane_fetch_or_8((uint64_t *)at + word, bits, shared);
        else
            lane_or_8((uint64_t *)at + word, bits, shared);
    }
    return clear;
}

/* Sets the key's bits in this lane's words of the block at `at`. With `shared`, other lanes or threads may set bits
 * there at the same time. */
LOOM_LANE void filter_set(uint32_t each, int shared, lane_group group, unsigned char *at, uint32_t lower)
{
#ifdef LANE_HAS_VECTORS
    if (!shared) {
        for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++)
            ((filter_quarter *)at)[quarter] |= filter_quarter_bits(each, lower, quarter);
        return;
    }
#endif
    filter_or(each, shared, 0, group, at, lower);
}

/* Sets the key's bits like filter_set with `shared`. Returns whether one of them was clear in this lane's words. The
 * key was new if this holds on any lane of the group. */
LOOM_LANE lane_truth filter_add(uint32_t each, lane_group group, unsigned char *at, uint32_t lower)
{
    return filter_or(each, 1, 1, group, at, lower) != 0;
}

/* The key's bits that are not set in `word`, one half of a quarter. */
LOOM_LANE uint64_t filter_missing(uint32_t each, uint32_t number, uint32_t half, uint64_t word)
{
    if (each == 2) { /* only one 32-bit half of the word is tested */
        const uint32_t there = (uint32_t)(number >> (31 - 6 * half) & 1 ? word >> 32 : word);
        return filter_bit(number, 26 - 6 * half) & ~there;
    }
    return filter_bits(each, number, half) & ~word;
}

/* Whether all of the key's bits are set in this lane's words. The key may be present if this holds on all lanes of the
 * group. */
LOOM_LANE lane_truth filter_look(uint32_t each, lane_group group, const lane_line *line, uint32_t lower)
{
#ifdef LANE_INDEXES /* shifts each word by a bit's number, taken modulo 64 */
    if (each <= 2) {
        uint64_t there = 1;
        for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++) {
            const uint32_t number = filter_number(lower, quarter);
            if (each == 1)
                there &= lane_line_word(line, 2 * quarter + (number >> 31)) >> (number >> 25 & 63);
            else
                there &= lane_line_word(line, 2 * quarter) >> (number >> 26) &
                         lane_line_word(line, 2 * quarter + 1) >> (number >> 20 & 63);
        }
        return (lane_truth)there;
    }
#endif
#ifdef LANE_HAS_VECTORS
    filter_quarter missing = {0, 0, 0, 0};
    (void)group;
    for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++)
        missing |= filter_quarter_bits(each, lower, quarter) & ~((const filter_quarter *)line->at)[quarter];
    const uint64_t *halves = (const uint64_t *)&missing;
    return (halves[0] | halves[1]) == 0;
#else
    uint64_t missing = 0;
    LOOM_UNROLL
    for (uint32_t i = 0; i < lane_words(group); i++) {
        const uint32_t own = lane_first_word(group) + i;
        missing |= filter_missing(each, filter_number(lower, own / 2), own % 2, lane_own_word(line, i));
    }
    return missing == 0;
#endif
}

/* A group queries in two steps, so that a kernel can have several queries in flight. First, each lane copies its words
 * of the block. The load is coherent, since insertions may be running: F2 does not help a query that reads stale
 * bits. */
LOOM_LANE void filter_take(lane_group group, lane_line *line, const unsigned char *at, lane_truth active)
{
    lane_take(group, line, at, 1, active, FILTER_BLOCK_BYTES);
}

/* Second, the lanes vote on whether the key may be present. All lanes must arrive, as for a poll. */
LOOM_LANE lane_truth filter_agree(uint32_t each, lane_group group, const lane_line *line, uint32_t lower)
{
    return !lane_some(lane_poll(group, !filter_look(each, group, line, lower)));
}

/* ---- What a block tells about the filter ---- */

/* Adds the bits that are set to *bits. Returns the probability that a random key of this block has all its bits set. */
LOOM_LANE double filter_survey_block(uint32_t each, const uint64_t *words, uint64_t *bits)
{
    double rate = 1;
    for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++) {
        double full[4];
        LOOM_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t set = loom__count_bits((uint32_t)(words[2 * quarter + i / 2] >> 32 * (i % 2)));
            *bits += set;
            full[i] = (double)set / 32;
        }
        if (each == 1)
            rate *= (full[0] + full[1] + full[2] + full[3]) / 4;
        else if (each == 2)
            rate *= (full[0] + full[1]) * (full[2] + full[3]) / 4;
        else if (each == 3)
            rate *= (full[0] * full[1] * (full[2] + full[3]) + (full[0] + full[1]) * full[2] * full[3]) / 4;
        else
            rate *= full[0] * full[1] * full[2] * full[3];
    }
    return rate;
}

#endif
