/* Hashes of four keys at once, one in each 64-bit lane of an AVX2 register. */
#ifndef LOOM_CPU_FOURS_AVX2_H
#define LOOM_CPU_FOURS_AVX2_H

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

#endif
