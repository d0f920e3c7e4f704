#include "core/checksum.h"

#include <string.h>

#define PRIME_1 0x9e3779b185ebca87u
#define PRIME_2 0xc2b2ae3d27d4eb4fu
#define PRIME_3 0x165667b19e3779f9u
#define PRIME_4 0x85ebca77c2b2ae63u
#define PRIME_5 0x27d4eb2f165667c5u

static uint64_t rotate(uint64_t x, unsigned by)
{
    return (x << by) | (x >> (64 - by));
}

/* A little-endian number of 4 or 8 bytes. */
static uint64_t number_at(const unsigned char *p, size_t bytes)
{
    uint64_t x = 0;
    memcpy(&x, p, bytes);
    return x;
}

static uint64_t lane_round(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

static uint64_t merge_lane(uint64_t hash, uint64_t lane)
{
    return (hash ^ lane_round(0, lane)) * PRIME_1 + PRIME_4;
}

uint64_t loom__checksum(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *p = data;
    size_t left = bytes;
    uint64_t hash;
    if (left >= 32) {
        uint64_t a = seed + PRIME_1 + PRIME_2, b = seed + PRIME_2, c = seed, d = seed - PRIME_1;
        for (; left >= 32; left -= 32, p += 32) {
            a = lane_round(a, number_at(p, 8));
            b = lane_round(b, number_at(p + 8, 8));
            c = lane_round(c, number_at(p + 16, 8));
            d = lane_round(d, number_at(p + 24, 8));
        }
        hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        hash = merge_lane(merge_lane(merge_lane(merge_lane(hash, a), b), c), d);
    } else {
        hash = seed + PRIME_5;
    }
    hash += bytes;
    for (; left >= 8; left -= 8, p += 8)
        hash = rotate(hash ^ lane_round(0, number_at(p, 8)), 27) * PRIME_1 + PRIME_4;
    for (; left >= 4; left -= 4, p += 4)
        hash = rotate(hash ^ (number_at(p, 4) * PRIME_1), 23) * PRIME_2 + PRIME_3;
    for (; left > 0; left--, p++)
        hash = rotate(hash ^ (*p * PRIME_5), 11) * PRIME_1;
    hash = (hash ^ (hash >> 33)) * PRIME_2;
    hash = (hash ^ (hash >> 29)) * PRIME_3;
    return hash ^ (hash >> 32);
}
