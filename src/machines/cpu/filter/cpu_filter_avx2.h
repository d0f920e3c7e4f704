/* Queries of a filter with AVX2: four keys at a time. Their blocks are found together (cpu_fours_avx2.h). Then each key
 * is tested by itself: every word of its block is shifted so that the wanted bit comes to the end of an element. A key
 * with 8 bits takes 9 instructions this way. One word after the other, it takes about 36.
 *
 * Insertions may run at the same time. Elements do not tear. Some bits of a block may be read before an insertion and
 * others after it. Queries that read words allow the same (filter_ops.h). */
#ifndef LOOM_CPU_FILTER_AVX2_H
#define LOOM_CPU_FILTER_AVX2_H

#include "core/lanes.h"
#include "engines/filter/filter_ops.h"
#include "machines/cpu/core/cpu_fours_avx2.h"

#define CPU_FILTER_HAS_FOURS

/* The addresses of four keys' blocks, and their hashes. */
LOOM_LANE void filter_start_four(const loom__filter_view *view, uint32_t key_bytes, const void *keys, __m256i *block,
                                 __m256i *hash)
{
    *hash = fours_hash(fours_keys(keys, key_bytes), key_bytes, view->seed);
    const __m256i number = _mm256_srli_epi64(fours_times(_mm256_srli_epi64(*hash, 32), view->blocks), 32);
    *block = _mm256_add_epi64(_mm256_set1_epi64x((long long)(uintptr_t)view->base), _mm256_slli_epi64(number, 6));
}

_Static_assert(FILTER_BLOCK_BYTES == 64, "filter_start_four shifts by 6");

/* Half 0 or 1 of a block. */
LOOM_LANE __m256i filter_half_block(const unsigned char *at, uint32_t half)
{
    return _mm256_load_si256((const __m256i *)(const void *)(at + 32 * half));
}

/* The numbers of two quarters, each twice, in the lower halves of elements of 8 bytes. */
LOOM_LANE __m256i filter_numbers(uint32_t lower, uint32_t half)
{
    const long long first = filter_number(1, 2 * half), second = filter_number(1, 2 * half + 1);
    return _mm256_mul_epu32(_mm256_set1_epi32((int)lower), _mm256_setr_epi64x(first, first, second, second));
}

/* Elements of 8 bytes. The last bit of each is set if the part of half a block that it stands for lacks nothing. */
LOOM_LANE __m256i filter_there_in_half(uint32_t each, const unsigned char *at, uint32_t lower, uint32_t half)
{
    const __m256i block = filter_half_block(at, half), numbers = filter_numbers(lower, half);
    if (each <= 2) { /* a distance of 63 - the number of a bit brings this bit to the end */
        const __m256i down = each == 1 ? _mm256_set1_epi64x(25) : _mm256_setr_epi64x(26, 20, 26, 20);
        const __m256i distance = _mm256_andnot_si256(_mm256_srlv_epi64(numbers, down), _mm256_set1_epi64x(63));
        const __m256i there = _mm256_sllv_epi64(block, distance);
        if (each == 2)
            return there;
        /* The number's last bit chooses one of two words. The other one lacks nothing. */
        const __m256i seconds = _mm256_setr_epi64x(0, INT64_MIN, 0, INT64_MIN);
        return _mm256_or_si256(there, _mm256_xor_si256(_mm256_slli_epi64(numbers, 32), seconds));
    }
    const __m256i down = _mm256_setr_epi32(27, 22, 17, 12, 27, 22, 17, 12);
    const __m256i all = _mm256_shuffle_epi32(numbers, _MM_SHUFFLE(2, 2, 0, 0));
    const __m256i distance = _mm256_andnot_si256(_mm256_srlv_epi32(all, down), _mm256_set1_epi32(31));
    __m256i there = _mm256_sllv_epi32(block, distance);
    if (each == 3) {
        const __m256i words = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
        const __m256i none = _mm256_and_si256(_mm256_srli_epi32(all, 10), _mm256_set1_epi32(3));
        there = _mm256_or_si256(there, _mm256_cmpeq_epi32(none, words));
    }
    return _mm256_and_si256(there, _mm256_slli_epi64(there, 32));
}

LOOM_LANE __m256i filter_there(uint32_t each, const unsigned char *at, uint32_t lower)
{
    return _mm256_and_si256(filter_there_in_half(each, at, lower, 0), filter_there_in_half(each, at, lower, 1));
}

/* Writes the answers for four keys, a byte each. Returns how many of the keys may be present. */
LOOM_LANE uint32_t filter_answer_four(const __m256i there[4], uint8_t answers[4])
{
    const __m256i a =
        _mm256_and_si256(_mm256_unpacklo_epi64(there[0], there[1]), _mm256_unpackhi_epi64(there[0], there[1]));
    const __m256i b =
        _mm256_and_si256(_mm256_unpacklo_epi64(there[2], there[3]), _mm256_unpackhi_epi64(there[2], there[3]));
    const __m256i all = _mm256_and_si256(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
    const uint32_t bits = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(all));
    const uint32_t bytes = bits * 0x00204081 & 0x01010101; /* copies of four bits, each 7 bits further up */
    memcpy(answers, &bytes, 4);
    return loom__count_bits(bits);
}

#endif
