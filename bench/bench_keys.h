/* Keys and values for checks of answers. Both follow from an index, and the index from the key, so that a check knows
 * the right answer without a second hash table.
 *
 *   key   = a bijection of the index: different indices below 2^(8 * key_bytes) give different keys
 *   value = a hash of the index and a round; a key that is written again gets the value of a later round
 *
 * Sets have values of 0 bytes: these are 0, and their arrays NULL. */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* xor-shift, multiply, twice. Each step can be undone, so the whole is a bijection. */
static inline uint32_t bench_mix32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* The multipliers are the inverses modulo 2^32 of those above. */
static inline uint32_t bench_unmix32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x43021123u;
    x ^= x >> 15 ^ x >> 30;
    x *= 0x1d69e2a5u;
    x ^= x >> 16;
    return x;
}

static inline uint64_t bench_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

static inline uint64_t bench_unmix64(uint64_t x)
{
    x ^= x >> 31 ^ x >> 62;
    x *= UINT64_C(0x319642b2d24d8ec3);
    x ^= x >> 27 ^ x >> 54;
    x *= UINT64_C(0x96de1b173f119089);
    x ^= x >> 30 ^ x >> 60;
    return x;
}

static inline uint64_t bench_key_of(uint64_t index, uint32_t key_bytes)
{
    return key_bytes == 4 ? bench_mix32((uint32_t)index) : bench_mix64(index);
}

static inline uint64_t bench_index_of(uint64_t key, uint32_t key_bytes)
{
    return key_bytes == 4 ? bench_unmix32((uint32_t)key) : bench_unmix64(key);
}

static inline uint64_t bench_value_of(uint64_t index, uint32_t round, uint32_t value_bytes)
{
    const uint64_t value = bench_mix64((index << 8 | round) + UINT64_C(0x9e3779b97f4a7c15));
    return value_bytes == 0 ? 0 : value_bytes == 4 ? value >> 32 : value;
}

/* Elements of arrays whose width, any number of bytes (or 0), is known only at run time. An element of more than 8
 * bytes has the number at its beginning. Behind it are bytes that depend on the number: its multiples by odd factors.
 * An element of fewer than 8 bytes has the lower bytes of the number. Keys have 4 bytes or at least 8: others would not
 * tell their index. */
static inline uint64_t bench_piece_of(uint64_t value, uint32_t piece)
{
    return value * (2 * (uint64_t)piece + 1);
}

static inline void bench_put(void *array, uint64_t at, uint32_t bytes, uint64_t value)
{
    if (bytes == 4) {
        ((uint32_t *)array)[at] = (uint32_t)value;
    } else if (bytes == 8) {
        ((uint64_t *)array)[at] = value;
    } else {
        unsigned char *element = (unsigned char *)array + at * bytes;
        for (uint32_t from = 0; from < bytes; from += 8) {
            const uint64_t piece = bench_piece_of(value, from / 8);
            memcpy(element + from, &piece, bytes - from < 8 ? bytes - from : 8);
        }
    }
}

static inline uint64_t bench_get(const void *array, uint64_t at, uint32_t bytes)
{
    uint64_t value = 0;
    if (bytes == 4)
        return ((const uint32_t *)array)[at];
    if (bytes == 8)
        return ((const uint64_t *)array)[at];
    if (bytes > 0)
        memcpy(&value, (const unsigned char *)array + at * bytes, bytes < 8 ? bytes : 8);
    return value;
}

/* Whether bench_put would store the same bytes. */
static inline bool bench_holds(const void *array, uint64_t at, uint32_t bytes, uint64_t value)
{
    const unsigned char *element = (const unsigned char *)array + at * bytes;
    for (uint32_t from = 0; from < bytes; from += 8) {
        const uint64_t piece = bench_piece_of(value, from / 8);
        if (memcmp(element + from, &piece, bytes - from < 8 ? bytes - from : 8) != 0)
            return false;
    }
    return true;
}

/* Address of element `at`, for calls that work on a part of an array. */
static inline void *bench_at(void *array, uint64_t at, uint32_t bytes)
{
    return array ? (char *)array + at * bytes : NULL;
}

#endif
