/* The hash of keys that are byte strings: 64 bits, seeded per table, the same on every machine.
 *
 * It is XXH3-64 with a seed, as published in "xxHash fast digest algorithm", version 0.2.0 (doc/xxhash_spec.md of
 * github.com/Cyan4973/xxHash). The code is written from that document; docs/format.md repeats what it needs. Lengths
 * from 0 to 65,536 bytes are tested. The function has no limit.
 *
 * Why this function:
 *   - It has a specification, published vectors and libraries in most languages, so anybody can verify our hashes. Its
 *     results have been frozen since xxHash 0.8.0. wyhash and rapidhash are as short, but their source is their
 *     specification, and their versions differ in their results.
 *   - It needs products of 64 x 64 -> 128 bits up to 240 bytes, and of 32 x 32 -> 64 bits above. CPUs and GPUs have
 *     both.
 *   - Short keys cost one lane few instructions: one wide product for 9 to 16 bytes, two for 17 to 32, four for 33 to
 *     64, and one multiplication at the end. XXH64, which checks our files, has six multiplications for 16 bytes and
 *     two at the end. SipHash-1-3 has six rounds of 14 operations for 16 bytes.
 *   - Its loads begin at any byte and stay within the key. An incomplete last word is read as a whole word that
 *     overlaps the one before.
 * Several lanes could share a key: up to 128 bytes the wide products are terms of one sum, and above 240 bytes there
 * are eight accumulators. This file does not do so. One lane hashes a key.
 *
 * The length enters every formula: beside the key's bytes up to 3 bytes, and before the last multiplication above. Keys
 * that differ in length alone (common prefixes, zero padding) have unrelated hashes.
 *
 * Keys of equal length do not collide up to 8 bytes: there the function is a bijection. Tags of 16 and 32 bits may be
 * taken from any part of the hash: tests/test_core_hash_bytes_spread.c compares them with random numbers.
 *
 * Seeds: up to 8 bytes XXH3 combines the key with the seed by xor. Two seeds that differ in few bits therefore give the
 * same set of hashes to a full range of short keys, and a table that is rebuilt with the next seed would keep its
 * crowded partitions. So tables pass the spread seed, loom__seed.before.
 *
 * The function is not cryptographic: with the seed, colliding keys can be constructed. Keys of 4 and 8 bytes in engines
 * of these widths keep their own hash, core/hash.h, which is shorter.
 *
 * Measured on one core of a Neoverse V1 (gcc 12, -O3), keys in cache, with a literal length and with a variable one, in
 * ns: 8 bytes 1.7, 2.0; 16 bytes 2.1, 2.5; 32 bytes 2.3, 2.9; 64 bytes 3.7, 4.5; 240 bytes 14, 16; 256 bytes 37, 51. On
 * a GPU (sm_90), kernels that load an aligned key, hash it and store the hash have 43, 58 and 98 instructions for 16,
 * 32 and 64 bytes; with loom__hash_key of 8 bytes they have 28. */
#ifndef LOOM_CORE_HASH_BYTES_H
#define LOOM_CORE_HASH_BYTES_H

#include <string.h>

#include "core/hash.h"
#include "core/portable.h"
#include "core/word_loads.h"

/* The primes of the specification: PRIME32_1 .. 3, PRIME64_1 .. 5, PRIME_MX1 and 2. */
#define LOOM__XXH3_P32_1 0x9e3779b1u
#define LOOM__XXH3_P32_2 0x85ebca77u
#define LOOM__XXH3_P32_3 0xc2b2ae3du
#define LOOM__XXH3_P64_1 0x9e3779b185ebca87u
#define LOOM__XXH3_P64_2 0xc2b2ae3d27d4eb4fu
#define LOOM__XXH3_P64_3 0x165667b19e3779f9u
#define LOOM__XXH3_P64_4 0x85ebca77c2b2ae63u
#define LOOM__XXH3_P64_5 0x27d4eb2f165667c5u
#define LOOM__XXH3_MX_1  0x165667919e3779f9u
#define LOOM__XXH3_MX_2  0x9fb21c651e98df25u

/* ---- Parts ---------------------------------------------------------------------------------------------- */

/* A little-endian number of 8 or 4 bytes at `at`, a multiple of `alignment`, which is a literal. A CPU loads words at
 * any address. A GPU needs the alignment to load a word at once; otherwise it takes several loads (core/word_loads.h).
 * The casts tell nvcc the alignment: with memcpy and __builtin_assume_aligned it still loaded the 16 bytes of a key
 * one by one. */
LOOM_BOTH uint64_t loom__xxh3_word(const unsigned char *at, uint32_t alignment)
{
#if defined(__CUDA_ARCH__)
    if (alignment >= 8)
        return *(const uint64_t *)at;
    if (alignment >= 4) {
        const uint32_t *halves = (const uint32_t *)at;
        return halves[0] | (uint64_t)halves[1] << 32;
    }
    return loom__load_word(at);
#else
    uint64_t word;
    (void)alignment;
    memcpy(&word, at, 8);
    return word;
#endif
}

LOOM_BOTH uint32_t loom__xxh3_half_word(const unsigned char *at, uint32_t alignment)
{
#if defined(__CUDA_ARCH__)
    if (alignment >= 4)
        return *(const uint32_t *)at;
    return (uint32_t)loom__load_bytes(at, 4);
#else
    uint32_t word;
    (void)alignment;
    memcpy(&word, at, 4);
    return word;
#endif
}

/* Word i of a seed's secret, counted from byte `from`. The secret has 24 words: the published ones, with the seed added
 * to the even ones and subtracted from the odd ones. The sign is decided for the first word and then for i: in an
 * unrolled loop over i it is a literal. */
LOOM_BOTH uint64_t loom__xxh3_secret(uint32_t from, uint32_t i, uint64_t seed)
{
    static const uint64_t words[24] = {
        0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u, 0x78e5c0cc4ee679cbu,
        0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u, 0xcb00c391bb52283cu, 0xa32e531b8b65d088u,
        0x4ef90da297486471u, 0xd8acdea946ef1938u, 0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au,
        0x647378d9c97e9fc8u, 0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u,
        0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu};
    const uint32_t first = from / 8, shift = from % 8 * 8;
    const uint64_t even = first % 2 ? 0 - seed : seed, this_seed = i % 2 ? 0 - even : even;
    const uint64_t low = words[first + i] + this_seed;
    if (shift == 0)
        return low;
    return low >> shift | (words[first + i + 1] - this_seed) << (64 - shift);
}

/* The product of 128 bits, its halves combined by xor. With x * y ^ __umul64hi(x, y) a hash of 64 bytes would have 16
 * instructions more on a GPU: nvcc would compute both halves from scratch. */
LOOM_BOTH uint64_t loom__xxh3_fold(uint64_t x, uint64_t y)
{
    const unsigned __int128 product = (unsigned __int128)x * y;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

LOOM_BOTH uint32_t loom__xxh3_reverse_32(uint32_t x)
{
#if defined(__CUDA_ARCH__)
    return __byte_perm(x, 0, 0x0123);
#else
    return __builtin_bswap32(x);
#endif
}

LOOM_BOTH uint64_t loom__xxh3_reverse_64(uint64_t x)
{
    return (uint64_t)loom__xxh3_reverse_32((uint32_t)x) << 32 | loom__xxh3_reverse_32((uint32_t)(x >> 32));
}

LOOM_BOTH uint64_t loom__xxh3_avalanche(uint64_t x)
{
    x = (x ^ x >> 37) * LOOM__XXH3_MX_1;
    return x ^ x >> 32;
}

LOOM_BOTH uint64_t loom__xxh3_avalanche_64(uint64_t x)
{
    x = (x ^ x >> 33) * LOOM__XXH3_P64_2;
    x = (x ^ x >> 29) * LOOM__XXH3_P64_3;
    return x ^ x >> 32;
}

/* 16 bytes of the key with 16 bytes of the secret from byte `secret`. */
LOOM_BOTH uint64_t loom__xxh3_mix(const unsigned char *at, uint32_t secret, uint64_t seed, uint32_t alignment)
{
    return loom__xxh3_fold(loom__xxh3_word(at, alignment) ^ (loom__xxh3_secret(secret, 0, 0) + seed),
                           loom__xxh3_word(at + 8, alignment) ^ (loom__xxh3_secret(secret, 1, 0) - seed));
}

/* ---- By length ------------------------------------------------------------------------------------------ */

LOOM_BOTH uint64_t loom__xxh3_up_to_3(const unsigned char *key, uint32_t length, uint64_t seed)
{
    const uint64_t secret = loom__xxh3_secret(0, 0, 0);
    uint32_t x;
    if (length == 0)
        return loom__xxh3_avalanche_64(seed ^ loom__xxh3_secret(56, 0, 0) ^ loom__xxh3_secret(64, 0, 0));
    x = key[length - 1] | length << 8 | (uint32_t)key[0] << 16 | (uint32_t)key[length >> 1] << 24;
    return loom__xxh3_avalanche_64((((uint32_t)secret ^ secret >> 32) + seed) ^ x);
}

LOOM_BOTH uint64_t loom__xxh3_up_to_8(const unsigned char *key, uint32_t length, uint64_t seed, uint32_t alignment)
{
    const uint64_t whole = alignment >= 8 ? loom__xxh3_word(key, 8) : 0; /* the length is 8 */
    const uint64_t first = alignment >= 8 ? whole & 0xffffffffu : loom__xxh3_half_word(key, alignment);
    const uint64_t last = alignment >= 8 ? whole >> 32 : loom__xxh3_half_word(key + length - 4, alignment);
    uint64_t x = (loom__xxh3_secret(8, 0, 0) ^ loom__xxh3_secret(16, 0, 0)) -
                 (seed ^ (uint64_t)loom__xxh3_reverse_32((uint32_t)seed) << 32);
    x ^= first << 32 | last;
    x ^= (x << 49 | x >> 15) ^ (x << 24 | x >> 40);
    x *= LOOM__XXH3_MX_2;
    x ^= (x >> 35) + length;
    x *= LOOM__XXH3_MX_2;
    return x ^ x >> 28;
}

LOOM_BOTH uint64_t loom__xxh3_up_to_16(const unsigned char *key, uint32_t length, uint64_t seed, uint32_t alignment)
{
    const uint64_t first = (loom__xxh3_secret(24, 0, 0) ^ loom__xxh3_secret(32, 0, 0)) + seed;
    const uint64_t last = (loom__xxh3_secret(40, 0, 0) ^ loom__xxh3_secret(48, 0, 0)) - seed;
    const uint64_t x = first ^ loom__xxh3_word(key, alignment), y = last ^ loom__xxh3_word(key + length - 8, alignment);
    return loom__xxh3_avalanche(length + loom__xxh3_reverse_64(x) + y + loom__xxh3_fold(x, y));
}

/* The loops have constant bounds and a condition, so that a GPU unrolls them and the secret becomes constants. */
LOOM_BOTH uint64_t loom__xxh3_up_to_128(const unsigned char *key, uint32_t length, uint64_t seed, uint32_t alignment)
{
    uint64_t sum = length * LOOM__XXH3_P64_1;
    LOOM_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        if (length > 32 * i) {
            sum += loom__xxh3_mix(key + 16 * i, 32 * i, seed, alignment);
            sum += loom__xxh3_mix(key + length - 16 * (i + 1), 32 * i + 16, seed, alignment);
        }
    return loom__xxh3_avalanche(sum);
}

LOOM_BOTH_STEP uint64_t loom__xxh3_up_to_240(const unsigned char *key, uint32_t length, uint64_t seed,
                                             uint32_t alignment)
{
    uint64_t sum = length * LOOM__XXH3_P64_1;
    LOOM_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        sum += loom__xxh3_mix(key + 16 * i, 16 * i, seed, alignment);
    sum = loom__xxh3_avalanche(sum);
    LOOM_UNROLL
    for (uint32_t i = 8; i < 15; i++)
        if (length >= 16 * (i + 1))
            sum += loom__xxh3_mix(key + 16 * i, 16 * (i - 8) + 3, seed, alignment);
    sum += loom__xxh3_mix(key + length - 16, 119, seed, alignment);
    return loom__xxh3_avalanche(sum);
}

/* One stripe of 64 bytes into the eight accumulators. */
LOOM_BOTH void loom__xxh3_accumulate(uint64_t sums[8], const unsigned char *stripe, uint32_t secret, uint64_t seed,
                                     uint32_t alignment)
{
    LOOM_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint64_t word = loom__xxh3_word(stripe + 8 * i, alignment);
        const uint64_t x = word ^ loom__xxh3_secret(secret, i, seed);
        sums[i ^ 1] += word;
        sums[i] += (x & 0xffffffffu) * (x >> 32);
    }
}

/* The specification has blocks of 16 stripes, each followed by a scramble, and a last block without. The last stripe is
 * the key's last 64 bytes. Both come to this: a stripe counts as full if at least one byte follows it. */
LOOM_BOTH_STEP uint64_t loom__xxh3_long(const unsigned char *key, uint64_t length, uint64_t seed, uint32_t alignment)
{
    uint64_t sums[8] = {LOOM__XXH3_P32_3, LOOM__XXH3_P64_1, LOOM__XXH3_P64_2, LOOM__XXH3_P64_3,
                        LOOM__XXH3_P64_4, LOOM__XXH3_P32_2, LOOM__XXH3_P64_5, LOOM__XXH3_P32_1};
    uint64_t hash = length * LOOM__XXH3_P64_1;
    for (uint64_t stripe = 0; stripe < (length - 1) / 64; stripe++) {
        loom__xxh3_accumulate(sums, key + 64 * stripe, 8 * (uint32_t)(stripe % 16), seed, alignment);
        if (stripe % 16 == 15) {
            LOOM_UNROLL
            for (uint32_t i = 0; i < 8; i++)
                sums[i] = (sums[i] ^ sums[i] >> 47 ^ loom__xxh3_secret(128, i, seed)) * LOOM__XXH3_P32_1;
        }
    }
    loom__xxh3_accumulate(sums, key + length - 64, 121, seed, alignment);
    LOOM_UNROLL
    for (uint32_t i = 0; i < 8; i += 2)
        hash +=
            loom__xxh3_fold(sums[i] ^ loom__xxh3_secret(11, i, seed), sums[i + 1] ^ loom__xxh3_secret(11, i + 1, seed));
    return loom__xxh3_avalanche(hash);
}

/* ---- The function --------------------------------------------------------------------------------------- */

/* XXH3-64 as published, with a seed as published. `alignment` is a literal, 1, 4 or 8; the key's address and its length
 * are multiples of it. A CPU loads words at any address and takes 1. */
LOOM_BOTH uint64_t loom__xxh3(const void *key, uint64_t length, uint64_t seed, uint32_t alignment)
{
    const unsigned char *bytes = (const unsigned char *)key;
    if (length > 240)
        return loom__xxh3_long(bytes, length, seed, alignment);
    if (length > 128)
        return loom__xxh3_up_to_240(bytes, (uint32_t)length, seed, alignment);
    if (length > 16)
        return loom__xxh3_up_to_128(bytes, (uint32_t)length, seed, alignment);
    if (length > 8)
        return loom__xxh3_up_to_16(bytes, (uint32_t)length, seed, alignment);
    if (length >= 4)
        return loom__xxh3_up_to_8(bytes, (uint32_t)length, seed, alignment);
    return loom__xxh3_up_to_3(bytes, (uint32_t)length, seed);
}

/* The hash of a key under a table's seed. A literal length leaves one branch-free formula up to 240 bytes. The key may
 * be NULL if the length is 0. */
LOOM_BOTH uint64_t loom__hash_bytes(const void *key, uint64_t length, loom__seed seed)
{
    return loom__xxh3(key, length, seed.before, 1);
}

/* The same hash, for callers that know an alignment, as loom__xxh3 takes it. A GPU then loads words. A key that already
 * lies in registers, an array of 64-bit words with literal length and alignment 8, stays there. */
LOOM_BOTH uint64_t loom__hash_bytes_aligned(const void *key, uint64_t length, uint32_t alignment, loom__seed seed)
{
    return loom__xxh3(key, length, seed.before, alignment);
}

#endif
