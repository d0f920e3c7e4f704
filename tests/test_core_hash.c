/* The hash: pinned values, since files depend on them, and how evenly it spreads structured keys. */
#include "harness/harness.h"
#include "harness/hash_vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

/* ---- Pinned values -------------------------------------------------------------------------------------- */

/* A change of these values changes the file format. */
TEST(test_core_hash_pinned_values)
{
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4)
        for (size_t s = 0; s < VECTOR_SEEDS; s++)
            for (size_t k = 0; k < VECTOR_KEYS; k++) {
                uint64_t key = key_bytes == 4 ? (uint32_t)vector_keys[k] : vector_keys[k];
                test_note("%u bytes, seed 0x%llx, key 0x%llx", key_bytes, (unsigned long long)vector_seeds[s],
                          (unsigned long long)key);
                CHECK_EQ(loom__hash_key(key, key_bytes, loom__seed_expand(vector_seeds[s])),
                         vector_hashes[key_bytes / 4 - 1][s][k]);
            }
}

TEST(test_core_hash_of_8_bytes_is_inverted)
{
    for (uint64_t i = 0; i < 100000; i++) {
        const loom__seed seed = loom__seed_expand(random_u64(&t->random));
        const uint64_t key = i < 64 ? UINT64_C(1) << i : i < 100 ? i - 64 : random_u64(&t->random);
        CHECK_EQ(loom__key_of_hash(loom__hash_key(key, 8, seed), seed), key);
        CHECK_EQ(loom__hash_key(loom__key_of_hash(key, seed), 8, seed), key);
    }
}

TEST(test_core_hash_pinned_choices)
{
    static const struct {
        uint64_t hash;
        uint32_t partitions, buckets, filter_bits;
        uint32_t partition, bucket, step, bit;
    } vectors[] = {
        {UINT64_C(0x0000000000000000), 2, 7, 64, 0, 0, 1, 0},
        {UINT64_C(0x0000000000000000), 857, 1747, 57, 0, 0, 1, 0},
        {UINT64_C(0x0000000000000000), 100003, 3499, 50, 0, 0, 1, 0},
        {UINT64_C(0xffffffffffffffff), 2, 7, 64, 1, 6, 6, 63},
        {UINT64_C(0xffffffffffffffff), 857, 1747, 57, 856, 1746, 1746, 56},
        {UINT64_C(0xffffffffffffffff), 100003, 3499, 50, 100002, 3498, 3498, 49},
        {UINT64_C(0x0123456789abcdef), 2, 7, 64, 0, 3, 5, 51},
        {UINT64_C(0x0123456789abcdef), 857, 1747, 57, 3, 939, 870, 45},
        {UINT64_C(0x0123456789abcdef), 100003, 3499, 50, 444, 1881, 2395, 40},
        {UINT64_C(0x8000000080000000), 2, 7, 64, 1, 3, 4, 0},
        {UINT64_C(0x8000000080000000), 857, 1747, 57, 428, 873, 874, 0},
        {UINT64_C(0x8000000080000000), 100003, 3499, 50, 50001, 1749, 1750, 0},
        {UINT64_C(0xfedcba9876543210), 2, 7, 64, 1, 3, 2, 12},
        {UINT64_C(0xfedcba9876543210), 857, 1747, 57, 853, 807, 877, 11},
        {UINT64_C(0xfedcba9876543210), 100003, 3499, 50, 99558, 1617, 1104, 9},
        {UINT64_C(0x5555aaaa3333cccc), 2, 7, 64, 0, 1, 3, 51},
        {UINT64_C(0x5555aaaa3333cccc), 857, 1747, 57, 285, 349, 727, 45},
        {UINT64_C(0x5555aaaa3333cccc), 100003, 3499, 50, 33334, 699, 2911, 39},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t lower = (uint32_t)vectors[i].hash;
        test_note("hash 0x%llx", (unsigned long long)vectors[i].hash);
        CHECK_EQ(loom__hash_partition(vectors[i].hash, vectors[i].partitions), vectors[i].partition);
        CHECK_EQ(loom__hash_bucket(lower, vectors[i].buckets), vectors[i].bucket);
        CHECK_EQ(loom__hash_step(lower, vectors[i].buckets), vectors[i].step);
        CHECK_EQ(loom__hash_filter_bit(lower, vectors[i].filter_bits), vectors[i].bit);
    }
}

/* ---- Properties ----------------------------------------------------------------------------------------- */

/* The inverse of an odd number modulo 2^64, by Newton's iteration. Each step doubles the number of correct bits. */
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

/* Inverts one round of the hash: fold, then multiply by the inverse. */
static uint64_t undo_round(uint64_t x, uint64_t multiplier)
{
    return (x ^ x >> 32) * inverse_of(multiplier);
}

/* Inverts the hash step by step. A hash that can be inverted has no two keys with the same value. */
TEST(test_core_hash_is_a_bijection)
{
    CHECK_EQ(inverse_of(UINT64_C(0xd6e8feb86659fd93)) * UINT64_C(0xd6e8feb86659fd93), 1);
    for (int i = 0; i < 100000; i++) {
        uint32_t key_bytes = i & 1 ? 8 : 4;
        loom__seed seed = loom__seed_expand(random_u64(&t->random));
        uint64_t key = random_u64(&t->random), x = loom__hash_key(key, key_bytes, seed);
        if (key_bytes == 8)
            x = undo_round(x, UINT64_C(0xe7037ed1a0b428db));
        x = undo_round(x, UINT64_C(0xa0761d6478bd642f)) ^ seed.between;
        x = undo_round(x, UINT64_C(0xd6e8feb86659fd93)) ^ seed.before;
        CHECK_EQ(x, key);
    }
}

TEST(test_core_hash_choices_in_range)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 7, 11, 13, 127, 1747, 3499};
    for (int i = 0; i < 200000; i++) {
        uint64_t hash = random_u64(&t->random);
        uint32_t buckets = sizes[random_below(&t->random, 10)];
        uint32_t partitions = 1 + (uint32_t)random_below(&t->random, UINT32_MAX);
        if (i < 4)
            hash = i & 1 ? UINT64_MAX : 0;
        CHECK_LT(loom__hash_partition(hash, partitions), partitions);
        CHECK_LT(loom__hash_bucket((uint32_t)hash, buckets), buckets);
        CHECK_GE(loom__hash_step((uint32_t)hash, buckets), 1);
        if (buckets > 1)
            CHECK_LT(loom__hash_step((uint32_t)hash, buckets), buckets);
        CHECK_LT(loom__hash_filter_bit((uint32_t)hash, 64), 64);
        CHECK_LT(loom__hash_filter_bit((uint32_t)hash, 57), 57);
        CHECK_LT(loom__hash_filter_bit((uint32_t)hash, 50), 50);
    }
}

/* ---- Spreading ------------------------------------------------------------------------------------------ */

/* Key i of a family: structured 8-byte keys as programs make them. */
static uint64_t family_of_8(int family, uint64_t i)
{
    uint64_t x;
    switch (family) {
    case 0:
        return i;
    case 1:
        return i << 4;
    case 2:
        return i << 8;
    case 3:
        return i << 12;
    case 4:
        return i << 16;
    case 5:
        return i << 20;
    case 6:
        return i << 32;
    case 7:
        return i << 44;
    case 8: /* reversed bits */
        x = 0;
        for (int bit = 0; bit < 64; bit++)
            x |= (i >> bit & 1) << (63 - bit);
        return x;
    case 9: /* pointers to 48-byte objects */
        return UINT64_C(0x7f3a5c001010) + 48 * i;
    case 10: { /* floats */
        float f = (float)i;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        return bits;
    }
    case 11: { /* doubles */
        double d = (double)i;
        memcpy(&x, &d, sizeof x);
        return x;
    }
    case 12: /* the same number in both halves */
        return i << 32 | i;
    case 13: /* counting down from the top */
        return UINT64_MAX - i;
    case 14: /* decimal digits as text */
        x = 0;
        for (int digit = 0; digit < 8; digit++, i /= 10)
            x |= (uint64_t)('0' + i % 10) << 8 * digit;
        return x;
    case 15: /* multiples of the number of buckets */
        return i * 1747;
    case 16: /* grid cells: row and column in 16 bits each */
        return (i >> 9) << 16 | (i & 511);
    case 17: /* negative 32-bit numbers, sign-extended */
        return (uint64_t)(-(int64_t)i);
    case 18: /* multiples of a well-known multiplier */
        return i * UINT64_C(0x9e3779b97f4a7c15);
    case 19: /* pairs of neighbours: edges of a path, rows of a band matrix */
        return i << 32 | (i + 1);
    case 20:
        return i << 32 | (uint32_t)~i;
    case 21:
        return i << 32 | (i ^ 0x12345);
    case 22:
        return i << 32 | i / 2;
    case 23: /* one byte pattern, repeated */
        return i * UINT64_C(0x0101010101010101);
    default: /* multiples of 2^32 + 1 */
        return i * UINT64_C(0x700000007);
    }
}

#define FAMILIES_OF_8 25

/* The same for 4-byte keys. A family has up to 2^20 different keys. */
static uint64_t family_of_4(int family, uint64_t i)
{
    uint32_t x = (uint32_t)i, bits = 0;
    switch (family) {
    case 0:
        return x;
    case 1:
        return x << 4;
    case 2:
        return x << 8;
    case 3:
        return x << 12; /* the upper bits only */
    case 4:
        for (int bit = 0; bit < 32; bit++)
            bits |= (x >> bit & 1) << (31 - bit);
        return bits;
    case 5: {
        float f = (float)x;
        memcpy(&bits, &f, sizeof bits);
        return bits;
    }
    case 6:
        return UINT32_MAX - x;
    case 7:
        return (uint32_t)(x * 1747u);
    case 8:
        return (uint32_t)(x * 0x9e3779b1u);
    case 9:
        return (x >> 10) << 16 | (x & 1023); /* grid cells */
    case 10:
        return (uint32_t)(x * 48u + 0x10101010u);
    case 11:
        return (uint32_t)(x * 0xfffu);
    case 12:
        return x << 11 | (x & 1);
    default:
        return (uint32_t)(x * 0x01010101u);
    }
}

#define FAMILIES_OF_4 14

/* By how many standard deviations the counts are less even than those of random keys: a chi-square test. */
static double unevenness(const uint32_t *counts, uint64_t cells, uint64_t n)
{
    double mean = (double)n / (double)cells, chi_square = 0;
    for (uint64_t i = 0; i < cells; i++)
        chi_square += ((double)counts[i] - mean) * ((double)counts[i] - mean) / mean;
    double freedom = (double)(cells - 1);
    return (chi_square - freedom) / sqrt(2 * freedom);
}

/* The bound of eight standard deviations: random keys exceed it less than once in 10^8 runs, and a hash without its
 * first fold is off by 60. Counts that are too even are not an error. */
#define MOST_UNEVEN 8.0
#define CHECK_EVEN(deviations)                                                       \
    do {                                                                             \
        double deviations_ = (deviations);                                           \
        if (!(deviations_ < MOST_UNEVEN))                                            \
            FAIL("%s is %.1f standard deviations uneven", #deviations, deviations_); \
    } while (0)

typedef struct spread {
    uint32_t partition[857];
    uint32_t bucket[1747];
    uint32_t step[1746];
    uint32_t bit[64];
    uint32_t place[256][256]; /* partition and bucket together */
} spread;

static void check_spread(test_run *t, uint32_t key_bytes, int family, spread *counts)
{
    enum { PARTITIONS = 857, BUCKETS = 1747, BITS = 64 };
    uint64_t n = test_scaled(t, 1 << 20, 1 << 17), user_seed = random_u64(&t->random);
    loom__seed seed = loom__seed_expand(user_seed);
    test_note("family %d of %u bytes, table seed 0x%llx", family, key_bytes, (unsigned long long)user_seed);
    memset(counts, 0, sizeof *counts);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = key_bytes == 4 ? family_of_4(family, i) : family_of_8(family, i);
        uint64_t hash = loom__hash_key(key, key_bytes, seed);
        uint32_t lower = (uint32_t)hash;
        counts->partition[loom__hash_partition(hash, PARTITIONS)]++;
        counts->bucket[loom__hash_bucket(lower, BUCKETS)]++;
        counts->step[loom__hash_step(lower, BUCKETS) - 1]++;
        counts->bit[loom__hash_filter_bit(lower, BITS)]++;
        counts->place[loom__hash_partition(hash, 256)][loom__hash_bucket(lower, 256)]++;
    }
    CHECK_EVEN(unevenness(counts->partition, PARTITIONS, n));
    CHECK_EVEN(unevenness(counts->bucket, BUCKETS, n));
    CHECK_EVEN(unevenness(counts->step, BUCKETS - 1, n));
    CHECK_EVEN(unevenness(counts->bit, BITS, n));
    CHECK_EVEN(unevenness(&counts->place[0][0], 256 * 256, n));
}

TEST(test_core_hash_structured_keys_of_8_bytes_spread)
{
    spread *counts = test_allocate(sizeof *counts);
    for (int family = 0; family < FAMILIES_OF_8; family++)
        check_spread(t, 8, family, counts);
    free(counts);
}

TEST(test_core_hash_structured_keys_of_4_bytes_spread)
{
    spread *counts = test_allocate(sizeof *counts);
    for (int family = 0; family < FAMILIES_OF_4; family++)
        check_spread(t, 4, family, counts);
    free(counts);
}

/* Keys with the same home bucket must not share a probe sequence: their steps and filter bits spread evenly, too. */
TEST(test_core_hash_step_and_bit_independent_of_bucket)
{
    enum { BUCKETS = 127, BITS = 64 };
    uint64_t n = test_scaled(t, 1 << 21, 1 << 18);
    uint32_t *steps = test_allocate(BUCKETS * (BUCKETS - 1) * sizeof(uint32_t)),
             *bits = test_allocate(BUCKETS * BITS * sizeof(uint32_t));
    for (uint32_t key_bytes = 4; key_bytes <= 8; key_bytes += 4) {
        loom__seed seed = loom__seed_expand(random_u64(&t->random));
        memset(steps, 0, BUCKETS * (BUCKETS - 1) * sizeof(uint32_t));
        memset(bits, 0, BUCKETS * BITS * sizeof(uint32_t));
        for (uint64_t i = 0; i < n; i++) {
            uint32_t lower = (uint32_t)loom__hash_key(i, key_bytes, seed), b = loom__hash_bucket(lower, BUCKETS);
            steps[b * (BUCKETS - 1) + loom__hash_step(lower, BUCKETS) - 1]++;
            bits[b * BITS + loom__hash_filter_bit(lower, BITS)]++;
        }
        CHECK_EVEN(unevenness(steps, BUCKETS * (BUCKETS - 1), n));
        CHECK_EVEN(unevenness(bits, BUCKETS * BITS, n));
    }
    free(steps);
    free(bits);
}

/* Two seeds give the same keys unrelated partitions. */
TEST(test_core_hash_seeds_are_independent)
{
    enum { CELLS = 64 };
    uint64_t n = test_scaled(t, 1 << 20, 1 << 17);
    uint32_t *pairs = test_allocate(CELLS * CELLS * sizeof(uint32_t));
    for (int round = 0; round < 4; round++) {
        uint32_t key_bytes = round & 1 ? 8 : 4;
        uint64_t user_seed = round == 0 ? 0 : random_u64(&t->random);
        loom__seed a = loom__seed_expand(user_seed), b = loom__seed_expand(user_seed + 1);
        memset(pairs, 0, CELLS * CELLS * sizeof(uint32_t));
        for (uint64_t i = 0; i < n; i++)
            pairs[loom__hash_partition(loom__hash_key(i, key_bytes, a), CELLS) * CELLS +
                  loom__hash_partition(loom__hash_key(i, key_bytes, b), CELLS)]++;
        test_note("seeds 0x%llx and the next", (unsigned long long)user_seed);
        CHECK_EVEN(unevenness(pairs, CELLS * CELLS, n));
    }
    free(pairs);
}
