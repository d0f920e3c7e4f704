/* Lane primitives with NEON, which every 64-bit Arm processor has. A set of slots is the narrowed compare result: 8
 * bits for each slot of 8 bytes, 4 bits for each slot of 4. Of slots of 2 bytes it is one bit for each slot. */
#ifndef LOOM_CPU_LANES_NEON_H
#define LOOM_CPU_LANES_NEON_H

#define LANE_HAS_VECTORS /* one instruction shifts four words by four distances */

#include "machines/cpu/core/cpu_lanes_common.h"

#include <arm_neon.h>

/* Each 8-byte element of an aligned vector load is read atomically (Arm Architecture Reference Manual, B2.2.1). */
LOOM_LANE void lane_copy_vectors(lane_line *line, const unsigned char *at)
{
    for (int part = 0; part < 64; part += 16)
        vst1q_u64((uint64_t *)(line->copy + part), vld1q_u64((const uint64_t *)(at + part)));
}

LOOM_LANE uint32x4_t lane_quarter(const lane_line *line, int part)
{
    return vreinterpretq_u32_u8(vld1q_u8(line->at + 16 * part));
}

/* 8 compare results of 32 bits each, narrowed to 8 bytes. */
LOOM_LANE uint64_t lane_narrow(uint32x4_t low, uint32x4_t high)
{
    uint8x8_t bytes = vmovn_u16(vcombine_u16(vmovn_u32(low), vmovn_u32(high)));
    return vget_lane_u64(vreinterpret_u64_u8(bytes), 0);
}

/* Slots of 2 bytes: each match leaves the bit of its slot in a byte, and pairwise additions collect the bytes. */
LOOM_LANE uint64_t lane_match_2(const lane_line *line, uint16_t wanted_2)
{
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t wanted = vdupq_n_u16(wanted_2);
    const uint8x16_t bit = vld1q_u8(bits);
    uint16x8_t same[4];
    for (int part = 0; part < 4; part++)
        same[part] = vceqq_u16(vreinterpretq_u16_u32(lane_quarter(line, part)), wanted);
    const uint8x16_t low = vandq_u8(vcombine_u8(vmovn_u16(same[0]), vmovn_u16(same[1])), bit);
    const uint8x16_t high = vandq_u8(vcombine_u8(vmovn_u16(same[2]), vmovn_u16(same[3])), bit);
    uint8x16_t sums = vpaddq_u8(low, high);
    sums = vpaddq_u8(sums, sums);
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(sums), 0);
}

LOOM_LANE lane_slots lane_match(const lane_line *line, uint32_t key_bytes, uint32_t stride, uint32_t slots,
                                uint64_t key)
{
    uint32x4_t a = lane_quarter(line, 0), b = lane_quarter(line, 1), c = lane_quarter(line, 2),
               d = lane_quarter(line, 3);
    lane_slots set;
    if (key_bytes == 2) {
        set.bits = lane_match_2(line, (uint16_t)key);
        if (slots * stride < 64)
            set.bits &= 0x0fffffffu;
        return set;
    }
    if (key_bytes == 8) {
        uint64x2_t wanted = vdupq_n_u64(key);
        a = vreinterpretq_u32_u64(vceqq_u64(vreinterpretq_u64_u32(a), wanted));
        b = vreinterpretq_u32_u64(vceqq_u64(vreinterpretq_u64_u32(b), wanted));
        c = vreinterpretq_u32_u64(vceqq_u64(vreinterpretq_u64_u32(c), wanted));
        d = vreinterpretq_u32_u64(vceqq_u64(vreinterpretq_u64_u32(d), wanted));
        set.bits = lane_narrow(vuzp1q_u32(a, b), vuzp1q_u32(c, d));
    } else if (stride == 8) {
        uint32x4_t wanted = vdupq_n_u32((uint32_t)key);
        set.bits = lane_narrow(vceqq_u32(vuzp1q_u32(a, b), wanted), vceqq_u32(vuzp1q_u32(c, d), wanted));
    } else {
        uint32x4_t wanted = vdupq_n_u32((uint32_t)key);
        uint16x8_t low = vcombine_u16(vmovn_u32(vceqq_u32(a, wanted)), vmovn_u32(vceqq_u32(b, wanted)));
        uint16x8_t high = vcombine_u16(vmovn_u32(vceqq_u32(c, wanted)), vmovn_u32(vceqq_u32(d, wanted)));
        uint8x16_t bytes = vcombine_u8(vmovn_u16(low), vmovn_u16(high));
        uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(bytes), 4);
        set.bits = vget_lane_u64(vreinterpret_u64_u8(nibbles), 0);
    }
    if (slots * stride < 64) /* as many bits as the slots have bytes */
        set.bits &= ((uint64_t)1 << slots * stride % 64) - 1;
    return set;
}

LOOM_LANE uint32_t lane_first(lane_slots set, uint32_t stride)
{
    uint32_t bit = (uint32_t)__builtin_ctzll(set.bits | (uint64_t)1 << 63);
    return stride == 8 ? bit >> 3 : stride == 4 ? bit >> 2 : bit & 31;
}

LOOM_LANE lane_slots lane_rest(lane_slots set, uint32_t stride)
{
    const uint32_t bits = stride == 2 ? 1 : stride; /* of a slot */
    set.bits &= ~((((uint64_t)1 << bits) - 1) << lane_first(set, stride) * bits);
    return set;
}

#endif
