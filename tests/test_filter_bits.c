/* Which bits a key has. The functions of filter_ops.h agree, with plain words and with vectors, and they agree with
 * docs/format.md, whose rule is written here a second time. */
#include "harness/harness.h"

#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#ifndef LANE_HAS_VECTORS
#define LANE_HAS_VECTORS /* compilers have the four shifts on every processor */
#endif
#include "core/lanes.h"
#include "engines/filter/filter_ops.h"

#include <string.h>

/* The quarter's four words. */
static void bits_as_documented(uint32_t each, uint32_t lower, uint32_t quarter, uint32_t words[4])
{
    static const uint32_t factors[4] = {0x9e3779b1u, 0x85ebca77u, 0xc2b2ae3du, 0x27d4eb2fu};
    const uint32_t number = lower * factors[quarter], none = (number >> 10) % 4;
    memset(words, 0, 4 * sizeof *words);
    if (each == 1) {
        words[number >> 30] = 1u << (number >> 25) % 32;
    } else if (each == 2) {
        words[number >> 31] = 1u << (number >> 26) % 32;
        words[2 + (number >> 25) % 2] = 1u << (number >> 20) % 32;
    } else {
        for (uint32_t word = 0; word < 4; word++)
            words[word] = each == 3 && word == none ? 0 : 1u << (number >> (27 - 5 * word)) % 32;
    }
}

static void check_quarter(uint32_t each, uint32_t lower, uint32_t quarter)
{
    uint32_t wanted[4], chosen[4] = {0, 0, 0, 0}, by_halves[4], count = 0, last = 0;
    const uint32_t number = filter_number(lower, quarter);
    bits_as_documented(each, lower, quarter, wanted);
    for (uint32_t i = 0; i < each; i++) {
        const uint32_t word = filter_chosen_word(each, number, i);
        CHECK_LT(word, 4);
        CHECK(i == 0 || word > last); /* in ascending order */
        last = word;
        chosen[word] = filter_chosen_bit(each, number, i, word);
    }
    for (uint32_t half = 0; half < 2; half++) {
        const uint64_t bits = filter_bits(each, number, half);
        by_halves[2 * half] = (uint32_t)bits;
        by_halves[2 * half + 1] = (uint32_t)(bits >> 32);
        count += (uint32_t)__builtin_popcountll(bits);
    }
    const filter_quarter vector = filter_quarter_bits(each, lower, quarter);
    CHECK_EQ(count, each);
    CHECK_BYTES(chosen, wanted, sizeof wanted);
    CHECK_BYTES(by_halves, wanted, sizeof wanted);
    CHECK_BYTES(&vector, wanted, sizeof wanted);
}

TEST(test_filter_bits_ways_agree, .long_tier = 1)
{
    for (uint64_t i = 0; i < test_scaled(t, 200000, 20000); i++) {
        const uint32_t lower = i < 64 ? 1u << (i % 32) >> (i / 32) : (uint32_t)random_u64(&t->random);
        for (uint32_t each = 1; each <= 4; each++)
            for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++) {
                test_note("%u bits, lower 0x%x, quarter %u", each, lower, quarter);
                check_quarter(each, lower, quarter);
            }
    }
}

/* Sets the bits of a key, with and without atomics, then looks for the key. No other bit is set. */
TEST(test_filter_bits_set_and_look)
{
    static const lane_group group;
    for (uint64_t i = 0; i < test_scaled(t, 20000, 2000); i++)
        for (uint32_t each = 1; each <= 4; each++) {
            _Alignas(64) unsigned char blocks[2][FILTER_BLOCK_BYTES];
            const uint32_t lower = (uint32_t)random_u64(&t->random);
            uint32_t wanted[16];
            for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++)
                bits_as_documented(each, lower, quarter, wanted + 4 * quarter);
            memset(blocks, 0, sizeof blocks);
            for (int shared = 0; shared < 2; shared++) {
                lane_line line;
                line.at = blocks[shared];
                CHECK(!filter_look(each, group, &line, lower));
                filter_set(each, shared, group, blocks[shared], lower);
                CHECK(filter_look(each, group, &line, lower));
                CHECK_BYTES(blocks[shared], wanted, sizeof wanted);
                CHECK(!filter_add(each, group, blocks[shared], lower)); /* all bits were set */
            }
            /* A key that lacks some of its bits is not found. */
            const uint32_t at = (uint32_t)random_below(&t->random, 16);
            if (wanted[at]) {
                lane_line line;
                line.at = blocks[0];
                memset(blocks[0] + 4 * at, 0, 4);
                CHECK(!filter_look(each, group, &line, lower));
                CHECK(filter_add(each, group, blocks[0], lower)); /* one bit is enough to be new */
                CHECK_BYTES(blocks[0], wanted, sizeof wanted);
            }
        }
}

/* filter_survey_block estimates the share of absent keys that the block would report. Random numbers measure this
 * share. */
TEST(test_filter_bits_survey_of_a_block)
{
    for (int round = 0; round < 8; round++)
        for (uint32_t each = 1; each <= 4; each++) {
            uint64_t words[FILTER_BLOCK_WORDS], bits = 0, surveyed = 0;
            for (int i = 0; i < FILTER_BLOCK_WORDS; i++) {
                words[i] = round == 0 ? 0 : round == 1 ? UINT64_MAX : random_u64(&t->random) | random_u64(&t->random);
                bits += (uint64_t)__builtin_popcountll(words[i]);
            }
            /* Quarters are independent: the rate is the product of their rates. */
            double rate = 1;
            for (uint32_t quarter = 0; quarter < FILTER_QUARTERS; quarter++) {
                uint64_t found = 0, tries = test_scaled(t, 1 << 17, 1 << 16);
                for (uint64_t i = 0; i < tries; i++) {
                    const uint32_t number = (uint32_t)random_u64(&t->random);
                    found += !(filter_bits(each, number, 0) & ~words[2 * quarter]) &&
                             !(filter_bits(each, number, 1) & ~words[2 * quarter + 1]);
                }
                rate *= (double)found / (double)tries;
            }
            const double told = filter_survey_block(each, words, &surveyed);
            CHECK_EQ(surveyed, bits);
            test_note("round %d, %u bits", round, each);
            CHECK_NEAR(told, rate, 0.1 * rate + 1e-12); /* more than six standard deviations of the measured rate */
        }
}
