/* Steps of lookups for four keys at once, with AVX2: hashes, one in each 64-bit lane of a register, and searches of
 * lines.
 *
 * The wanted key is in at most one slot of a line and is never the empty key of its partition. So what a search finds
 * can be united by OR:
 *   - Pairs of 4 + 4 bytes: the compare chooses the value. A line becomes a vector of pairs that are zero except in the
 *     slot of the key, where the key is replaced by ones.
 *   - Other kinds: the compare chooses the number of the slot, from 1 on. The number leads to the value.
 *
 * Loads of lines are plain: no writer runs beside these lookups. */
#ifndef LOOM_CPU_FOURS_AVX2_H
#define LOOM_CPU_FOURS_AVX2_H

#include "core/batch.h"
#include "core/hash.h"

#include <immintrin.h>

/* The lower 64 bits of four products of 64-bit numbers. */
LOOM_LANE __m256i fours_multiply(__m256i x, uint64_t by)
{
    const __m256i low = _mm256_set1_epi64x((long long)by), high = _mm256_set1_epi64x((long long)(by >> 32));
    const __m256i crossed =
        _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), low), _mm256_mul_epu32(x, high));
    return _mm256_add_epi64(_mm256_mul_epu32(x, low), _mm256_slli_epi64(crossed, 32));
}

LOOM_LANE __m256i fours_round(__m256i x, uint64_t multiplier)
{
    x = fours_multiply(x, multiplier);
    return _mm256_xor_si256(x, _mm256_srli_epi64(x, 32));
}

/* Four keys of a batch, widened with zeros. */
LOOM_LANE __m256i fours_keys(const void *keys, uint32_t key_bytes)
{
    return key_bytes == 4 ? _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)keys))
                          : _mm256_loadu_si256((const __m256i *)keys);
}

/* loom__hash_key of four keys. */
LOOM_LANE __m256i fours_hash(__m256i keys, uint32_t key_bytes, loom__seed seed)
{
    const loom__hash_factors factors = loom__hash_factors_of_keys();
    __m256i x = fours_round(_mm256_xor_si256(keys, _mm256_set1_epi64x((long long)seed.before)), factors.first);
    x = fours_round(_mm256_xor_si256(x, _mm256_set1_epi64x((long long)seed.between)), factors.second);
    return key_bytes == 4 ? x : fours_round(x, factors.third);
}

/* Multiplies the lower half of each lane. */
LOOM_LANE __m256i fours_times(__m256i x, uint32_t by)
{
    return _mm256_mul_epu32(x, _mm256_set1_epi64x((long long)(uint64_t)by));
}

LOOM_LANE void fours_store(void *at, __m256i x)
{
    _mm256_storeu_si256((__m256i *)at, x);
}

_Static_assert(sizeof(void *) == 8, "an address to a lane");

/* ---- searches of lines ---- */

LOOM_LANE __m256i fours_half_line(const unsigned char *line, uint32_t half)
{
    return _mm256_load_si256((const __m256i *)(const void *)(line + 32 * half));
}

/* Pairs of 4 + 4 bytes: the pair with the key. `high_slots` has ones where the line's second half has
 * slots. */
LOOM_LANE __m256i fours_find_pair(const unsigned char *line, uint32_t key, __m256i high_slots)
{
    const __m256i low = fours_half_line(line, 0), high = fours_half_line(line, 1), wanted = _mm256_set1_epi32((int)key);
    const __m256i in_low = _mm256_shuffle_epi32(_mm256_cmpeq_epi32(low, wanted), _MM_SHUFFLE(2, 2, 0, 0));
    const __m256i in_high =
        _mm256_and_si256(_mm256_shuffle_epi32(_mm256_cmpeq_epi32(high, wanted), _MM_SHUFFLE(2, 2, 0, 0)), high_slots);
    const __m256i pair = _mm256_or_si256(_mm256_and_si256(low, in_low), _mm256_and_si256(high, in_high));
    return _mm256_blend_epi32(pair, _mm256_or_si256(in_low, in_high), 0x55);
}

/* Keys of 4 bytes: the number of the key's slot, in one element of 4 bytes. Each slot has its number in `low` or
 * `high`; other elements have 0. */
LOOM_LANE __m256i fours_find_4(const unsigned char *line, uint32_t key, __m256i low, __m256i high)
{
    const __m256i wanted = _mm256_set1_epi32((int)key);
    return _mm256_or_si256(_mm256_and_si256(_mm256_cmpeq_epi32(fours_half_line(line, 0), wanted), low),
                           _mm256_and_si256(_mm256_cmpeq_epi32(fours_half_line(line, 1), wanted), high));
}

/* The same for keys and elements of 8 bytes. */
LOOM_LANE __m256i fours_find_8(const unsigned char *line, uint64_t key, __m256i low, __m256i high)
{
    const __m256i wanted = _mm256_set1_epi64x((long long)key);
    return _mm256_or_si256(_mm256_and_si256(_mm256_cmpeq_epi64(fours_half_line(line, 0), wanted), low),
                           _mm256_and_si256(_mm256_cmpeq_epi64(fours_half_line(line, 1), wanted), high));
}

/* Unites the four elements of 8 bytes of each of four vectors. */
LOOM_LANE __m256i fours_unite_8(const __m256i of[4])
{
    const __m256i a = _mm256_or_si256(_mm256_unpacklo_epi64(of[0], of[1]), _mm256_unpackhi_epi64(of[0], of[1]));
    const __m256i b = _mm256_or_si256(_mm256_unpacklo_epi64(of[2], of[3]), _mm256_unpackhi_epi64(of[2], of[3]));
    return _mm256_or_si256(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* The same for the eight elements of 4 bytes. */
LOOM_LANE __m128i fours_unite_4(const __m256i of[4])
{
    const __m256i a = _mm256_or_si256(_mm256_unpacklo_epi32(of[0], of[1]), _mm256_unpackhi_epi32(of[0], of[1]));
    const __m256i b = _mm256_or_si256(_mm256_unpacklo_epi32(of[2], of[3]), _mm256_unpackhi_epi32(of[2], of[3]));
    const __m256i both = _mm256_or_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    return _mm_or_si128(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

/* The lower and the upper halves of four elements of 8 bytes. */
LOOM_LANE __m128i fours_lower_halves(__m256i x)
{
    const __m128 a = _mm_castsi128_ps(_mm256_castsi256_si128(x)), b = _mm_castsi128_ps(_mm256_extracti128_si256(x, 1));
    return _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
}

LOOM_LANE __m128i fours_upper_halves(__m256i x)
{
    const __m128 a = _mm_castsi128_ps(_mm256_castsi256_si128(x)), b = _mm_castsi128_ps(_mm256_extracti128_si256(x, 1));
    return _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* What four searches by fours_find_4 or fours_find_8 have found. */
typedef struct fours_slots {
    __m256i numbers; /* elements of 8 bytes: the number of the slot; 0: none */
    __m128i found;   /* elements of 4 bytes, all ones: the key is there */
} fours_slots;

LOOM_LANE fours_slots fours_slots_of(uint32_t key_bytes, const __m256i hits[4])
{
    fours_slots slots;
    __m128i narrow;
    if (key_bytes == 4) {
        narrow = fours_unite_4(hits);
        slots.numbers = _mm256_cvtepu32_epi64(narrow);
    } else {
        slots.numbers = fours_unite_8(hits);
        narrow = fours_lower_halves(slots.numbers);
    }
    slots.found = _mm_cmpgt_epi32(narrow, _mm_setzero_si128());
    return slots;
}

/* ---- answers ---- */

/* Writes the values of four pairs, from key `index` of the batch on. Returns which keys were found: all ones. */
LOOM_LANE __m128i fours_tell_pairs(const loom__batch *batch, __m256i pairs, uint64_t index)
{
    /* With a branch on found_values, gcc would sink the unions behind it and keep eight lines on the stack. */
    uint32_t unasked[4], *values = batch->found_values != NULL ? (uint32_t *)batch->found_values + index : unasked;
    const __m128i found = fours_lower_halves(pairs), absent = _mm_set1_epi32((int)(uint32_t)batch->absent);
    _mm_storeu_si128((__m128i *)(void *)values, _mm_blendv_epi8(absent, fours_upper_halves(pairs), found));
    return found;
}

/* Writes where the values of four keys lie, or `absent` where the slot's number is 0. Slot 1 of key i has its value at
 * first[i]. */
LOOM_LANE void fours_tell_places(uint32_t value_bytes, const uint64_t *absent, __m256i numbers, __m256i first,
                                 const unsigned char **value_from)
{
    const __m256i before = _mm256_sub_epi64(first, _mm256_set1_epi64x(value_bytes));
    const __m256i distance = value_bytes == 8 ? _mm256_slli_epi64(numbers, 3) : _mm256_slli_epi64(numbers, 2);
    fours_store(value_from,
                _mm256_blendv_epi8(_mm256_add_epi64(before, distance), _mm256_set1_epi64x((long long)(uintptr_t)absent),
                                   _mm256_cmpeq_epi64(numbers, _mm256_setzero_si256())));
}

/* Writes which of eight keys were found, from key `first` of the batch on. Returns how many. */
LOOM_LANE uint64_t fours_tell_found(const loom__batch *batch, uint64_t first, __m128i low, __m128i high)
{
    const __m128i both = _mm_packs_epi32(low, high), bytes = _mm_packs_epi16(both, both), ones = _mm_set1_epi8(1);
    if (batch->status != NULL)
        _mm_storel_epi64((__m128i *)(void *)(batch->status + first), _mm_add_epi8(bytes, ones));
    if (batch->found != NULL)
        _mm_storel_epi64((__m128i *)(void *)(batch->found + first), _mm_and_si128(bytes, ones));
    return (uint64_t)__builtin_popcount((uint32_t)_mm_movemask_epi8(bytes) & 0xff);
}

_Static_assert(LOOM_OK == 0 && LOOM_NOT_FOUND == 1, "fours_tell_found writes these");

#endif
