/* The hash: one 64-bit number per key, seeded per table, the same on every machine.
 *
 * For keys of up to 8 bytes the hash is a bijection of 64-bit words. Keys of 4 bytes take two rounds, keys of 8 bytes
 * three. Each round is a multiplication, which carries the lower bits up, and a fold, which brings the upper half down.
 * A fold by 32 costs one instruction on a GPU; a shift by another distance costs three. A four-round Feistel network of
 * 32-bit products was as good. It was one or two instructions shorter on a GPU and a tenth slower on a CPU, even
 * vectorised.
 *
 * Measured on 2^20 keys, 857 partitions of 1747 buckets, 24 families of structured keys (sequences, strides, shifts by
 * 8 to 44, reversed bits, pointers, grids, equal halves, floats, doubles): the chi-square values of partition, bucket,
 * step and filter bit stay within 4.5 sigma of uniform, which is the largest of 800 values. With two rounds, keys of 8
 * bytes that differ only in their upper half miss by 64 sigma. tests/test_core_hash.c repeats the measurement.
 *
 * The hash is not cryptographic: the seed is enough to invert it.
 *
 * In open tables the hash chooses, from the top:
 *   bits 63..32  the partition                   multiply_high(upper, partitions)
 *   bits 31..0   the bucket in it                multiply_high(lower, buckets)
 *                the step of the probe sequence  from the lower half of the bucket's product
 *                the filter bit                  from the lowest 16 bits
 * The *_layout.h of each other engine says what the lower half chooses there. */
#ifndef LOOM_CORE_HASH_H
#define LOOM_CORE_HASH_H

#include "core/portable.h"

typedef struct loom__seed {
    uint64_t before;  /* mixed in before the first round */
    uint64_t between; /* mixed in before the second round, so that no two keys collide under every seed */
} loom__seed;

/* The finaliser of a counter-based generator: spreads a user's seed, small or large, over 64 bits. */
LOOM_BOTH uint64_t loom__mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

LOOM_BOTH loom__seed loom__seed_expand(uint64_t seed)
{
    loom__seed s;
    s.before = loom__mix64(seed + 0x9e3779b97f4a7c15u);
    s.between = loom__mix64(seed + 2 * 0x9e3779b97f4a7c15u);
    return s;
}

LOOM_LANE uint64_t loom__hash_round(uint64_t x, uint64_t multiplier)
{
    x *= multiplier;
    return x ^ (x >> 32);
}

/* The multipliers of the three rounds. */
typedef struct loom__hash_factors {
    uint64_t first, second, third;
} loom__hash_factors;

LOOM_LANE loom__hash_factors loom__hash_factors_of_keys(void)
{
    loom__hash_factors factors;
    factors.first = 0xd6e8feb86659fd93u;
    factors.second = 0xa0761d6478bd642fu;
    factors.third = 0xe7037ed1a0b428dbu;
    return factors;
}

/* loom__hash_key for a caller that holds the factors in registers. */
LOOM_LANE uint64_t loom__hash_key_by(loom__hash_factors factors, uint64_t key, uint32_t key_bytes, loom__seed seed)
{
    uint64_t x = loom__hash_round(key ^ seed.before, factors.first);
    x = loom__hash_round(x ^ seed.between, factors.second);
    return key_bytes == 4 ? x : loom__hash_round(x, factors.third);
}

/* Keys of 4 bytes are widened with zeros. */
LOOM_LANE uint64_t loom__hash_key(uint64_t key, uint32_t key_bytes, loom__seed seed)
{
    return loom__hash_key_by(loom__hash_factors_of_keys(), key, key_bytes, seed);
}

/* The key of 8 bytes that has this hash. The multipliers are the inverses of those above, modulo 2^64. A fold by 32 is
 * its own inverse. */
LOOM_LANE uint64_t loom__key_of_hash(uint64_t hash, loom__seed seed)
{
    uint64_t x = (hash ^ (hash >> 32)) * 0x2e1b9953f3b39353u;
    x = (x ^ (x >> 32)) * 0x939c72e4af1e62cfu;
    x ^= seed.between;
    return (x ^ (x >> 32)) * 0xcfee444d8b59a89bu ^ seed.before;
}

LOOM_LANE uint32_t loom__hash_partition(uint64_t hash, uint32_t partitions)
{
    return loom__multiply_high((uint32_t)(hash >> 32), partitions);
}

/* Which partitions of a table with `from` partitions have keys that may fall into partition `index` of a table with
 * `to` partitions and the same seed: partitions *first to *last. They are adjacent because a partition is a range of
 * hashes. */
LOOM_BOTH void loom__hash_sources(uint32_t index, uint32_t to, uint32_t from, uint32_t *first, uint32_t *last)
{
    uint64_t begin = (((uint64_t)index << 32) + to - 1) / to, end = (((uint64_t)(index + 1) << 32) + to - 1) / to;
    *first = (uint32_t)(begin * from >> 32);
    *last = (uint32_t)((end - 1) * from >> 32);
}

LOOM_LANE uint32_t loom__hash_bucket(uint32_t lower, uint32_t buckets)
{
    return loom__multiply_high(lower, buckets);
}

/* The step of a probe sequence: 1 .. buckets - 1. If the number of buckets is prime, a probe sequence with any step
 * visits all buckets. With one bucket the step is 1, and the probe sequence ends after its first bucket. */
LOOM_LANE uint32_t loom__hash_step(uint32_t lower, uint32_t buckets)
{
    return 1 + loom__multiply_high(lower * buckets, buckets - 1);
}

/* The filter bit: 0 .. bits - 1. */
LOOM_LANE uint32_t loom__hash_filter_bit(uint32_t lower, uint32_t bits)
{
    return ((lower & 0xffffu) * bits) >> 16;
}

#endif
