/* The hash of byte strings: how it mixes structured keys, on any 16 or 32 of its bits, and how seeds differ. */
#include "harness/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash_bytes.h"

#define MOST_BYTES 256

static void fill_random(test_run *t, unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)random_u64(&t->random);
}

/* ---- Avalanche ------------------------------------------------------------------------------------------ */

/* `flips` of `trials` fair coins, in standard deviations. */
static double unfairness(uint64_t flips, uint64_t trials)
{
    return fabs(2 * (double)flips - (double)trials) / sqrt((double)trials);
}

/* All lengths together make 320,512 pairs of an input bit and an output bit. With a fair coin for each trial, one of
 * them is beyond 8 standard deviations once in 10^9 runs. With 4096 trials the bound is a probability of 0.5 +- 0.0625.
 * The sums over all input bits have up to 2^23 trials: there the bound is 0.5 +- 0.0014. */
#define MOST_UNFAIR 8.0

TEST(test_core_hash_bytes_avalanche, .long_tier = 1)
{
    static const uint32_t lengths[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 128, 256};
    uint64_t trials = test_scaled(t, 4096, 512);
    uint32_t(*flips)[64] = test_allocate(8 * MOST_BYTES * sizeof *flips);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        uint32_t length = lengths[l], bits = 8 * length;
        loom__seed seed = loom__seed_expand(random_u64(&t->random));
        unsigned char key[MOST_BYTES];
        memset(flips, 0, bits * sizeof *flips);
        for (uint64_t trial = 0; trial < trials; trial++) {
            fill_random(t, key, length);
            if (length < 4) /* there are too few keys: take a new seed for each */
                seed = loom__seed_expand(random_u64(&t->random));
            uint64_t hash = loom__hash_bytes(key, length, seed);
            for (uint32_t bit = 0; bit < bits; bit++) {
                key[bit / 8] = (unsigned char)(key[bit / 8] ^ 1u << bit % 8);
                uint64_t change = hash ^ loom__hash_bytes(key, length, seed);
                key[bit / 8] = (unsigned char)(key[bit / 8] ^ 1u << bit % 8);
                for (uint32_t out = 0; out < 64; out++)
                    flips[bit][out] += change >> out & 1;
            }
        }
        uint64_t of_output[64] = {0};
        for (uint32_t bit = 0; bit < bits; bit++) {
            uint64_t of_input = 0;
            for (uint32_t out = 0; out < 64; out++) {
                if (!(unfairness(flips[bit][out], trials) < MOST_UNFAIR))
                    FAIL("%u bytes: bit %u flips bit %u %u times in %llu", length, bit, out, flips[bit][out],
                         (unsigned long long)trials);
                of_input += flips[bit][out];
                of_output[out] += flips[bit][out];
            }
            if (!(unfairness(of_input, 64 * trials) < MOST_UNFAIR))
                FAIL("%u bytes: bit %u flips %.3f bits", length, bit, (double)of_input / (double)trials);
        }
        for (uint32_t out = 0; out < 64; out++)
            if (!(unfairness(of_output[out], bits * trials) < MOST_UNFAIR))
                FAIL("%u bytes: bit %u is flipped with probability %.5f", length, out,
                     (double)of_output[out] / (double)(bits * trials));
    }
    free(flips);
}

/* ---- Collisions ----------------------------------------------------------------------------------------- */

/* Sorts by the lowest 11 * passes bits. */
static void sort_numbers(uint64_t *numbers, uint64_t *room, uint64_t n, int passes)
{
    for (int pass = 0; pass < passes; pass++) {
        uint32_t start[2048] = {0}, sum = 0;
        for (uint64_t i = 0; i < n; i++)
            start[numbers[i] >> 11 * pass & 2047]++;
        for (int digit = 0; digit < 2048; digit++) {
            uint32_t count = start[digit];
            start[digit] = sum;
            sum += count;
        }
        for (uint64_t i = 0; i < n; i++)
            room[start[numbers[i] >> 11 * pass & 2047]++] = numbers[i];
        memcpy(numbers, room, n * sizeof *numbers);
    }
}

/* Pairs of equal numbers among sorted ones, without their lowest `drop` bits. */
static uint64_t equal_pairs(const uint64_t *sorted, uint64_t n, uint32_t drop)
{
    uint64_t pairs = 0, run = 0;
    for (uint64_t i = 1; i < n; i++) {
        run = sorted[i] >> drop == sorted[i - 1] >> drop ? run + 1 : 0;
        pairs += run;
    }
    return pairs;
}

/* The number of equal pairs among n random numbers of `bits` bits has mean and variance n(n - 1) / 2^(bits + 1). The
 * bound of mean + 8 standard deviations + 4 holds for small means, too, where the number has a Poisson distribution:
 * random numbers exceed it less than once in 10^10. Fewer pairs than expected are no error. */
static void check_pairs(const char *which, uint64_t pairs, uint64_t n, int bits)
{
    double mean = ldexp((double)n * (double)(n - 1), -bits - 1), most = mean + 8 * sqrt(mean) + 4;
    if (!((double)pairs <= most))
        FAIL("%s: %llu equal pairs, %.2f are expected, %.2f is the bound", which, (unsigned long long)pairs, mean,
             most);
}

typedef struct collisions {
    uint64_t most;    /* hashes that fit */
    uint64_t *hashes; /* [most] */
    uint64_t *numbers, *room;
    uint32_t *counts; /* [65536] */
} collisions;

static collisions collisions_for(uint64_t most)
{
    return (collisions){.most = most,
                        .hashes = test_allocate(most * sizeof(uint64_t)),
                        .numbers = test_allocate(most * sizeof(uint64_t)),
                        .room = test_allocate(most * sizeof(uint64_t)),
                        .counts = test_allocate(65536 * sizeof(uint32_t))};
}

static void collisions_free(collisions *c)
{
    free(c->hashes);
    free(c->numbers);
    free(c->room);
    free(c->counts);
}

/* n hashes of different keys: no two are equal, and the truncations that tables use are as even as random numbers. */
static void check_collisions(collisions *c, uint64_t n)
{
    static const char *const tags[4] = {"bits 0 .. 15", "bits 16 .. 31", "bits 32 .. 47", "bits 48 .. 63"};
    CHECK_LE(n, c->most);
    for (int tag = 0; tag < 4; tag++) {
        uint64_t pairs = 0;
        memset(c->counts, 0, 65536 * sizeof(uint32_t));
        for (uint64_t i = 0; i < n; i++)
            pairs += c->counts[c->hashes[i] >> 16 * tag & 0xffff]++;
        check_pairs(tags[tag], pairs, n, 16);
    }
    for (uint64_t i = 0; i < n; i++)
        c->numbers[i] = c->hashes[i] & 0xffffffffu;
    sort_numbers(c->numbers, c->room, n, 3);
    check_pairs("the lower half", equal_pairs(c->numbers, n, 0), n, 32);
    for (uint64_t i = 0; i < n; i++)
        c->numbers[i] = c->hashes[i] >> 16 & 0xffffffffu;
    sort_numbers(c->numbers, c->room, n, 3);
    check_pairs("the middle half", equal_pairs(c->numbers, n, 0), n, 32);
    for (uint64_t i = 0; i < n; i++)
        c->numbers[i] = c->hashes[i] >> 48 << 16 | (c->hashes[i] & 0xffff);
    sort_numbers(c->numbers, c->room, n, 3);
    check_pairs("the first and last quarter", equal_pairs(c->numbers, n, 0), n, 32);
    memcpy(c->numbers, c->hashes, n * sizeof(uint64_t));
    sort_numbers(c->numbers, c->room, n, 6);
    check_pairs("the upper half", equal_pairs(c->numbers, n, 32), n, 32);
    CHECK_EQ(equal_pairs(c->numbers, n, 0), 0); /* 2^19 keys: expected once in 10^8 sets */
}

/* ---- Families of keys ----------------------------------------------------------------------------------- */

/* Key i of a family. Different i give different keys, below the number that the family has. */
typedef struct key_family {
    const char *name;
    uint32_t least_length;
    void (*make)(unsigned char *key, uint32_t length, uint64_t i);
    uint64_t (*number)(uint32_t length); /* NULL: at least 2^20 */
} key_family;

static void put_number(unsigned char *at, uint64_t number, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> 8 * i);
}

static void counter_first(unsigned char *key, uint32_t length, uint64_t i)
{
    memset(key, 0, length);
    put_number(key, i, 4);
}

static void counter_in_the_middle(unsigned char *key, uint32_t length, uint64_t i)
{
    memset(key, 0xff, length);
    put_number(key + (length - 4) / 2, i, 4);
}

/* A common prefix, then a big-endian counter. */
static void counter_last(unsigned char *key, uint32_t length, uint64_t i)
{
    for (uint32_t at = 0; at < length; at++)
        key[at] = (unsigned char)('a' + at % 26);
    for (uint32_t at = 0; at < 4; at++)
        key[length - 1 - at] = (unsigned char)(i >> 8 * at);
}

/* Two bytes count at one position, all others are zero. The counting bytes are not, so keys differ. */
static void counter_anywhere(unsigned char *key, uint32_t length, uint64_t i)
{
    uint64_t position = i % (length - 1), count = i / (length - 1);
    memset(key, 0, length);
    key[position] = (unsigned char)(1 + count % 255);
    key[position + 1] = (unsigned char)(1 + count / 255);
}

static uint64_t counters_anywhere(uint32_t length)
{
    return (uint64_t)(length - 1) * 255 * 255;
}

static uint64_t triples_below(uint64_t n)
{
    return n * (n - 1) / 2 * (n - 2) / 3;
}

static uint64_t triples(uint32_t length)
{
    return triples_below(8 * (uint64_t)length);
}

/* Three bits set. Triples are numbered by their highest bit, then by the next. The prime, which divides none of the
 * numbers of triples, spreads them over the key. */
static void three_bits(unsigned char *key, uint32_t length, uint64_t i)
{
    uint64_t number = i * 1000003 % triples(length), high = 2, middle = 1;
    memset(key, 0, length);
    high += (uint64_t)cbrt(6 * (double)number);
    while (high > 2 && triples_below(high) > number)
        high--;
    number -= triples_below(high);
    middle += (uint64_t)sqrt(2 * (double)number);
    while (middle > 1 && middle * (middle - 1) / 2 > number)
        middle--;
    number -= middle * (middle - 1) / 2;
    key[high / 8] = (unsigned char)(key[high / 8] | 1u << high % 8);
    key[middle / 8] = (unsigned char)(key[middle / 8] | 1u << middle % 8);
    key[number / 8] = (unsigned char)(key[number / 8] | 1u << number % 8);
}

/* Pseudo-random keys, each with all keys that differ from it in one bit. */
static void one_bit_differs(unsigned char *key, uint32_t length, uint64_t i)
{
    uint64_t base = i / (8 * length + 1), bit = i % (8 * length + 1);
    for (uint32_t at = 0; at < length; at++)
        key[at] = (unsigned char)(mix_u64(base << 8 | at / 8) >> 8 * (at % 8));
    if (bit > 0)
        key[(bit - 1) / 8] = (unsigned char)(key[(bit - 1) / 8] ^ 1u << (bit - 1) % 8);
}

static void put_digits(unsigned char *at, uint64_t number, uint32_t digits, uint32_t base)
{
    for (uint32_t i = digits; i-- > 0; number /= base)
        at[i] = (unsigned char)"0123456789abcdefghijklmnopqrstuvwxyz"[number % base];
}

static void put_text(unsigned char *key, uint32_t length, const char *text)
{
    for (uint32_t at = 0; at < length; at++)
        key[at] = (unsigned char)text[at % strlen(text)];
}

static void decimal_name(unsigned char *key, uint32_t length, uint64_t i)
{
    put_text(key, length, "user-0000000@mail.example.org/");
    put_digits(key + (length < 12 ? 0 : 5), i, 7, 10);
}

static void address_with_number(unsigned char *key, uint32_t length, uint64_t i)
{
    put_text(key, length, "https://www.example.org/catalogue/item?colour=green&id=");
    put_digits(key + length - 7, i, 7, 10);
}

static void short_words(unsigned char *key, uint32_t length, uint64_t i)
{
    put_text(key, length, " ");
    put_digits(key, i, 5, 36);
}

/* Two words of hexadecimal digits that change together. */
static void hexadecimal_pair(unsigned char *key, uint32_t length, uint64_t i)
{
    put_text(key, length, "00000000-");
    put_digits(key, i, 6, 16);
    put_digits(key + length - 6, i, 6, 16);
}

/* Word w of the key is i, its complement, or i + w. */
static void equal_words(unsigned char *key, uint32_t length, uint64_t i)
{
    for (uint32_t at = 0; at < length; at += 8)
        put_number(key + at, i, length - at < 8 ? length - at : 8);
}

static void opposite_words(unsigned char *key, uint32_t length, uint64_t i)
{
    for (uint32_t at = 0; at < length; at += 8)
        put_number(key + at, at % 16 ? ~i : i, length - at < 8 ? length - at : 8);
}

static void ascending_words(unsigned char *key, uint32_t length, uint64_t i)
{
    for (uint32_t at = 0; at < length; at += 8)
        put_number(key + at, i + at / 8, length - at < 8 ? length - at : 8);
}

/* Points of a grid: doubles, and zeros after them. */
static void grid_of_doubles(unsigned char *key, uint32_t length, uint64_t i)
{
    double point[2] = {(double)(i % 1024), (double)(i / 1024)};
    memset(key, 0, length);
    memcpy(key, point, sizeof point);
}

/* Two words of 8 bytes, each a small number in its upper bits: factors with many zeros. */
static void high_bits(unsigned char *key, uint32_t length, uint64_t i)
{
    memset(key, 0, length);
    put_number(key, (i & 1023) << 54, 8);
    put_number(key + 8, i >> 10 << 54, 8);
}

static void check_families(test_run *t, const key_family *families, size_t count)
{
    static const uint32_t lengths[] = {8, 12, 16, 17, 24, 32, 48, 64, 100, 128, 129, 200, 240, 241, 256};
    collisions c = collisions_for(test_scaled(t, 1 << 19, 1 << 16));
    for (size_t f = 0; f < count; f++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            uint32_t length = lengths[l];
            uint64_t n = c.most, user_seed = random_u64(&t->random);
            if (length < families[f].least_length)
                continue;
            if (families[f].number != NULL && families[f].number(length) < n)
                n = families[f].number(length);
            test_note("%s, %u bytes, table seed 0x%llx", families[f].name, length, (unsigned long long)user_seed);
            loom__seed seed = loom__seed_expand(user_seed);
            for (uint64_t i = 0; i < n; i++) {
                unsigned char key[MOST_BYTES];
                families[f].make(key, length, i);
                c.hashes[i] = loom__hash_bytes(key, length, seed);
            }
            check_collisions(&c, n);
        }
    collisions_free(&c);
}

#define CHECK_FAMILIES(families) check_families(t, families, sizeof families / sizeof families[0])

TEST(test_core_hash_bytes_counters_spread, .long_tier = 1)
{
    static const key_family families[] = {
        {"counter at the start", 4, counter_first, NULL},
        {"counter in the middle", 4, counter_in_the_middle, NULL},
        {"counter after a common prefix", 4, counter_last, NULL},
    };
    CHECK_FAMILIES(families);
}

TEST(test_core_hash_bytes_counters_anywhere_spread, .long_tier = 1)
{
    static const key_family families[] = {{"two bytes that count anywhere", 2, counter_anywhere, counters_anywhere}};
    CHECK_FAMILIES(families);
}

TEST(test_core_hash_bytes_one_differing_bit_spreads, .long_tier = 1)
{
    static const key_family families[] = {{"one bit differs", 1, one_bit_differs, NULL}};
    CHECK_FAMILIES(families);
}

TEST(test_core_hash_bytes_sparse_keys_spread, .long_tier = 1)
{
    static const key_family families[] = {
        {"three bits", 1, three_bits, triples},
        {"high bits of two words", 16, high_bits, NULL},
    };
    CHECK_FAMILIES(families);
}

TEST(test_core_hash_bytes_text_spreads, .long_tier = 1)
{
    static const key_family families[] = {
        {"decimal name", 8, decimal_name, NULL},
        {"address with a number", 8, address_with_number, NULL},
        {"short words", 8, short_words, NULL},
        {"pair of hexadecimal numbers", 12, hexadecimal_pair, NULL},
    };
    CHECK_FAMILIES(families);
}

TEST(test_core_hash_bytes_related_words_spread, .long_tier = 1)
{
    static const key_family families[] = {
        {"equal words", 8, equal_words, NULL},
        {"opposite words", 12, opposite_words, NULL},
        {"ascending words", 12, ascending_words, NULL},
        {"grid of doubles", 16, grid_of_doubles, NULL},
    };
    CHECK_FAMILIES(families);
}

/* ---- Lengths -------------------------------------------------------------------------------------------- */

/* All prefixes of one string: of zeros, of equal bytes, of random bytes. */
TEST(test_core_hash_bytes_prefixes_differ, .long_tier = 1)
{
    const uint64_t longest = test_scaled(t, 16384, 2048);
    unsigned char *string = test_allocate(longest);
    collisions c = collisions_for(longest + 1);
    for (int kind = 0; kind < 3; kind++) {
        loom__seed seed = loom__seed_expand(random_u64(&t->random));
        test_note("prefixes of %s", kind == 0 ? "zeros" : kind == 1 ? "ones" : "random bytes");
        memset(string, kind == 0 ? 0 : 0xff, longest);
        if (kind == 2)
            fill_random(t, string, longest);
        for (uint64_t length = 0; length <= longest; length++)
            c.hashes[length] = loom__hash_bytes(string, length, seed);
        check_collisions(&c, longest + 1);
    }
    free(string);
    collisions_free(&c);
}

/* A counter of 4 bytes with 0 to 63, or 0 to 255, zeros behind it or before it. */
TEST(test_core_hash_bytes_zero_padding_differs, .long_tier = 1)
{
    const uint64_t n = test_scaled(t, 1 << 19, 1 << 16);
    collisions c = collisions_for(n);
    for (int kind = 0; kind < 4; kind++) {
        const uint64_t zeros = kind & 1 ? 256 : 64, user_seed = random_u64(&t->random);
        const int before = kind >> 1;
        loom__seed seed = loom__seed_expand(user_seed);
        test_note("up to %llu zeros %s a counter, table seed 0x%llx", (unsigned long long)zeros - 1,
                  before ? "before" : "behind", (unsigned long long)user_seed);
        for (uint64_t i = 0; i < n; i++) {
            unsigned char key[260] = {0};
            put_number(key + (before ? i % zeros : 0), i / zeros, 4);
            c.hashes[i] = loom__hash_bytes(key, 4 + i % zeros, seed);
        }
        check_collisions(&c, n);
    }
    collisions_free(&c);
}

/* ---- Seeds ---------------------------------------------------------------------------------------------- */

/* Two seeds give the same keys unrelated places, and give the partitions of a table unrelated loads. The first is a
 * chi-square test of the pairs of places with the bound of 8 standard deviations. The second is a correlation of loads,
 * whose standard deviation is 1 / sqrt(PLACES) for random keys: the bound of 8 is 0.25. */
TEST(test_core_hash_bytes_seeds_are_independent, .long_tier = 1)
{
    enum { CELLS = 64, PLACES = 1024 };
    static const uint32_t lengths[] = {2, 3, 4, 8, 16, 32, 64, 150, 256};
    const uint64_t n = test_scaled(t, 1 << 18, 1 << 16);
    uint32_t *pairs = test_allocate(CELLS * CELLS * sizeof(uint32_t));
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (int round = 0; round < 4; round++) {
            const uint32_t length = lengths[l];
            const uint64_t keys = length == 2 ? 1 << 16 : n;
            const uint64_t user_seed = round == 0 ? 0 : random_u64(&t->random);
            const uint64_t other = round == 3 ? user_seed ^ UINT64_C(1) << 63 : user_seed + 1;
            loom__seed a = loom__seed_expand(user_seed), b = loom__seed_expand(other);
            double loads[2][PLACES] = {{0}}, mean = (double)keys / PLACES, correlation = 0;
            double chi_square = 0, expected = (double)keys / (CELLS * CELLS), freedom = CELLS * CELLS - 1;
            test_note("%u bytes, seeds 0x%llx and 0x%llx", length, (unsigned long long)user_seed,
                      (unsigned long long)other);
            memset(pairs, 0, CELLS * CELLS * sizeof(uint32_t));
            for (uint64_t i = 0; i < keys; i++) {
                unsigned char key[MOST_BYTES] = {0};
                put_number(key, i, length < 4 ? length : 4);
                uint64_t x = loom__hash_bytes(key, length, a), y = loom__hash_bytes(key, length, b);
                pairs[loom__hash_partition(x, CELLS) * CELLS + loom__hash_partition(y, CELLS)]++;
                loads[0][loom__hash_partition(x, PLACES)]++;
                loads[1][loom__hash_partition(y, PLACES)]++;
            }
            for (uint32_t i = 0; i < CELLS * CELLS; i++)
                chi_square += ((double)pairs[i] - expected) * ((double)pairs[i] - expected) / expected;
            for (uint32_t i = 0; i < PLACES; i++)
                correlation += (loads[0][i] - mean) * (loads[1][i] - mean) / (mean * PLACES);
            if (!(chi_square < freedom + 8 * sqrt(2 * freedom)))
                FAIL("pairs of places: chi-square %.0f, expected %.0f", chi_square, freedom);
            if (!(fabs(correlation) < 8 / sqrt(PLACES)))
                FAIL("the loads of partitions have a correlation of %.3f", correlation);
        }
    free(pairs);
}
