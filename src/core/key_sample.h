/* Counts the distinct keys of a sample. From the count a growing table estimates how many keys it needs room for. */
#ifndef LOOM_CORE_KEY_SAMPLE_H
#define LOOM_CORE_KEY_SAMPLE_H

#include "core/hash.h"

#include <string.h>

/* A number for a key of any width. A key of up to 8 bytes is its own number; a wider key gets a hash of all its bytes.
 * Among 32,768 distinct keys two have the same number once in 2^35 samples. */
static inline uint64_t loom__sample_number(const unsigned char *key, uint64_t key_bytes)
{
    uint64_t number = 0;
    if (key_bytes <= sizeof number) {
        memcpy(&number, key, key_bytes);
        return number;
    }
    for (uint64_t at = 0; at < key_bytes; at += sizeof number) {
        uint64_t word = 0;
        memcpy(&word, key + at, key_bytes - at < sizeof word ? key_bytes - at : sizeof word);
        number = loom__mix64(number + 0x9e3779b97f4a7c15u) ^ word;
    }
    return loom__mix64(number);
}

/* Counts the distinct keys among n. The keys lie back to back at any address. `seats` is scratch memory for seat_count
 * numbers, more than n. */
static inline uint64_t loom__count_different(const unsigned char *keys, uint64_t key_bytes, uint64_t n, uint64_t *seats,
                                             uint64_t seat_count)
{
    uint64_t different = 0, zero = 0; /* the number 0 takes no seat: 0 marks a free seat */
    memset(seats, 0, seat_count * sizeof *seats);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t number = loom__sample_number(keys + i * key_bytes, key_bytes);
        uint64_t at = loom__mix64(number) % seat_count;
        while (seats[at] != 0 && seats[at] != number) /* ends: there are more seats than keys */
            at = (at + 1) % seat_count;
        different += seats[at] != number;
        seats[at] = number;
        zero |= number == 0;
    }
    return different + zero;
}

#endif
