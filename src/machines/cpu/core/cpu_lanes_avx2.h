/* Lane primitives with AVX2. A set of slots is the sign mask of a compare: 1 bit for each slot of 4 bytes, 2 bits for
 * each slot of 8 bytes. Only the lower one of two bits counts. Slots of 2 bytes: 1 bit for each slot. */
#ifndef LOOM_CPU_LANES_AVX2_H
#define LOOM_CPU_LANES_AVX2_H

#define LANE_HAS_VECTORS /* one instruction shifts four words by four distances */

#include "machines/cpu/core/cpu_lanes_common.h"

#include <immintrin.h>

/* Aligned vector loads do not tear 8-byte words on any processor with AVX2. */
LOOM_LANE void lane_copy_vectors(lane_line *line, const unsigned char *at)
{
    for (int half = 0; half < 64; half += 32)
        _mm256_store_si256((__m256i *)(void *)(line->copy + half),
                           _mm256_load_si256((const __m256i *)(const void *)(at + half)));
}

/* Slots of 2 bytes. Packing works in halves of a register, so the four quarters are put in order afterwards. */
LOOM_LANE uint64_t lane_match_2(const lane_line *line, uint16_t key)
{
    const __m256i wanted = _mm256_set1_epi16((short)key);
    const __m256i low = _mm256_cmpeq_epi16(_mm256_load_si256((const __m256i *)(const void *)line->at), wanted);
    const __m256i high = _mm256_cmpeq_epi16(_mm256_load_si256((const __m256i *)(const void *)(line->at + 32)), wanted);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), _MM_SHUFFLE(3, 1, 2, 0));
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

LOOM_LANE lane_slots lane_match(const lane_line *line, uint32_t key_bytes, uint32_t stride, uint32_t slots,
                                uint64_t key)
{
    lane_slots set;
    if (key_bytes == 2) {
        set.bits = lane_match_2(line, (uint16_t)key);
        if (slots * stride < 64)
            set.bits &= 0x0fffffffu;
        return set;
    }
    const uint32_t four_bytes = slots * stride / 4; /* of the line: a bit for each */
    __m256i low = _mm256_load_si256((const __m256i *)(const void *)line->at);
    __m256i high = _mm256_load_si256((const __m256i *)(const void *)(line->at + 32));
    if (key_bytes == 8) {
        __m256i wanted = _mm256_set1_epi64x((long long)key);
        low = _mm256_cmpeq_epi64(low, wanted);
        high = _mm256_cmpeq_epi64(high, wanted);
    } else {
        __m256i wanted = _mm256_set1_epi32((int)(uint32_t)key);
        low = _mm256_cmpeq_epi32(low, wanted);
        high = _mm256_cmpeq_epi32(high, wanted);
    }
    uint32_t both = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(low)) |
                    (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8;
    both &= stride == 8 ? 0x5555u : 0xffffu;
    set.bits = both & ((1u << four_bytes) - 1);
    return set;
}

LOOM_LANE uint32_t lane_first(lane_slots set, uint32_t stride)
{
    if (stride == 2)
        return (uint32_t)__builtin_ctzll(set.bits | (uint64_t)1 << 31);
    uint32_t bit = (uint32_t)__builtin_ctzll(set.bits | (uint64_t)1 << 15);
    return stride == 8 ? bit >> 1 : bit;
}

LOOM_LANE lane_slots lane_rest(lane_slots set, uint32_t stride)
{
    (void)stride;
    set.bits &= set.bits - 1; /* one bit counts for each slot */
    return set;
}

#endif
