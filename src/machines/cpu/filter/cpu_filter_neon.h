/* Queries of a filter with NEON: two keys at a time, byte by byte.
 *
 * A key's bits lie in 4, 8 or 16 bytes of its block (filter_ops.h), at most one in each. A key therefore becomes two
 * vectors: the numbers of these bytes, and the bits wanted in them. One table-lookup instruction, with the block as its
 * table, fetches the bytes. Bits that are wanted but not set are missing. A key with 8 bits takes about 11
 * instructions; shifting the block's 8 words by 8 distances takes 32. The bytes come in this sequence: the first byte
 * of each quarter, then the second byte of each quarter, and so on.
 *
 * Insertions may run at the same time. A bit lies in one byte, and loads do not tear bytes. Some bits of a block may be
 * read before an insertion and others after it. Queries that read words allow the same (filter_ops.h). */
#ifndef LOOM_CPU_FILTER_NEON_H
#define LOOM_CPU_FILTER_NEON_H

#include "core/lanes.h"
#include "engines/filter/filter_ops.h"

#include <arm_neon.h>

#define CPU_FILTER_HAS_PAIRS

/* Missing bits, 8 bytes for each of two keys. Zero: the key may be present. */
typedef uint64x2_t filter_pair;

/* The upper bytes of 4 x 4 words of 32 bits. */
LOOM_LANE uint8x16_t filter_upper_bytes(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d)
{
    const uint16x8_t low = vuzp2q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
    const uint16x8_t high = vuzp2q_u16(vreinterpretq_u16_u32(c), vreinterpretq_u16_u32(d));
    return vuzp2q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high));
}

/* The numbers of a key's four quarters, as filter_number computes them. */
LOOM_LANE uint32x4_t filter_numbers(uint32_t lower)
{
    const uint32x4_t factors = {filter_number(1, 0), filter_number(1, 1), filter_number(1, 2), filter_number(1, 3)};
    return vmulq_n_u32(factors, lower);
}

/* The upper `width` bits of each byte of `upper` are the number of a bit within a piece of the block. The piece begins
 * at the byte given by `starts`. Returns the number of the byte in the block that holds the bit. */
LOOM_LANE uint8x16_t filter_byte_numbers(uint32_t width, uint8x16_t upper, uint8x16_t starts)
{
    return width == 5   ? vsriq_n_u8(starts, upper, 6)
           : width == 6 ? vsriq_n_u8(starts, upper, 5)
                        : vsriq_n_u8(starts, upper, 4);
}

/* The mask of the same bit within its byte. The last three of the `width` bits choose it. */
LOOM_LANE uint8x16_t filter_byte_bits(uint32_t width, uint8x16_t upper)
{
    const uint8x16_t powers = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t behind = width == 5   ? vshlq_n_u8(upper, 2)
                              : width == 6 ? vshlq_n_u8(upper, 3)
                                           : vshlq_n_u8(upper, 4);
    return vqtbl1q_u8(powers, vshrq_n_u8(behind, 5));
}

/* Missing bits of two keys with one or two bits in each quarter: 8 bytes of each key. With one bit, each byte appears
 * twice. */
LOOM_LANE filter_pair filter_missing_in_8(uint32_t each, const unsigned char *const at[2], const uint32_t lower[2])
{
    const uint8x16_t starts = each == 1 ? (uint8x16_t){0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48, 0, 16, 32, 48}
                                        : (uint8x16_t){0, 16, 32, 48, 8, 24, 40, 56, 0, 16, 32, 48, 8, 24, 40, 56};
    const uint32_t width = each == 1 ? 7 : 6;
    const uint32x4_t a = filter_numbers(lower[0]), b = filter_numbers(lower[1]);
    const uint8x16_t upper =
        each == 1 ? filter_upper_bytes(a, a, b, b) : filter_upper_bytes(a, vshlq_n_u32(a, 6), b, vshlq_n_u32(b, 6));
    const uint8x16_t numbers = filter_byte_numbers(width, upper, starts), bits = filter_byte_bits(width, upper);
    const uint8x8_t first = vqtbl4_u8(vld1q_u8_x4(at[0]), vget_low_u8(numbers));
    const uint8x8_t second = vqtbl4_u8(vld1q_u8_x4(at[1]), vget_high_u8(numbers));
    return vreinterpretq_u64_u8(vbicq_u8(bits, vcombine_u8(first, second)));
}

/* Missing bits of a key with three or four bits in each quarter: 16 bytes, one in each word. With three bits, one word
 * of each quarter has no bit. */
LOOM_LANE uint64x2_t filter_missing_in_16(uint32_t each, const unsigned char *at, uint32_t lower)
{
    const uint8x16_t starts = {0, 16, 32, 48, 4, 20, 36, 52, 8, 24, 40, 56, 12, 28, 44, 60};
    const uint32x4_t all = filter_numbers(lower);
    const uint8x16_t upper = filter_upper_bytes(all, vshlq_n_u32(all, 5), vshlq_n_u32(all, 10), vshlq_n_u32(all, 15));
    uint8x16_t bits = filter_byte_bits(5, upper);
    if (each == 3) {
        const uint8x16_t words = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
        const uint32x4_t none = vshlq_n_u32(all, 20);
        bits = vbicq_u8(bits, vceqq_u8(vshrq_n_u8(filter_upper_bytes(none, none, none, none), 6), words));
    }
    const uint8x16_t there = vqtbl4q_u8(vld1q_u8_x4(at), filter_byte_numbers(5, upper, starts));
    return vreinterpretq_u64_u8(vbicq_u8(bits, there));
}

LOOM_LANE filter_pair filter_missing_of_pair(uint32_t each, const unsigned char *const at[2], const uint32_t lower[2])
{
    if (each <= 2)
        return filter_missing_in_8(each, at, lower);
    const uint64x2_t a = filter_missing_in_16(each, at[0], lower[0]), b = filter_missing_in_16(each, at[1], lower[1]);
    return vorrq_u64(vzip1q_u64(a, b), vzip2q_u64(a, b));
}

/* Writes the answers for eight keys, a byte each. Returns how many of the keys may be present. */
LOOM_LANE uint64_t filter_answer_pairs(const filter_pair missing[4], uint8_t answers[8])
{
    uint32x4_t there[4];
    for (uint32_t pair = 0; pair < 4; pair++)
        there[pair] = vreinterpretq_u32_u64(vceqzq_u64(missing[pair]));
    const uint16x8_t low = vreinterpretq_u16_u32(vuzp1q_u32(there[0], there[1]));
    const uint16x8_t high = vreinterpretq_u16_u32(vuzp1q_u32(there[2], there[3]));
    const uint8x8_t ones = vand_u8(vmovn_u16(vuzp1q_u16(low, high)), vdup_n_u8(1));
    vst1_u8(answers, ones);
    return vaddv_u8(ones);
}

#endif
