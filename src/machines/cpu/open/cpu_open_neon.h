/* Lookups in an open table of 4 + 4 bytes with NEON: the home buckets of four keys at a time.
 *
 * For a single key (open_look_at) the compare becomes a number, the number a slot, and the slot a load of the pair.
 * Here the compare itself chooses the value. A line becomes a vector of hits and a vector of values that are zero
 * except in the slot of the key; I1 (open_ops.h) says that there is at most one. Three pairwise additions then sum up
 * the vectors of four keys. cpu_open_fours.h has the loop and the measurements.
 *
 * The loads are plain, as those of open_look_at without `shared`: no writer runs beside these lookups. */
#ifndef LOOM_CPU_OPEN_NEON_H
#define LOOM_CPU_OPEN_NEON_H

#include "core/kernels.h"
#include "core/lanes.h"
#include "engines/open/open_ops.h"

#include <arm_neon.h>

#define CPU_OPEN_HAS_FOURS

/* The lines of four keys. */
typedef struct open_lines {
    uint32x4_t hits[4];   /* all ones in the slot of the key */
    uint32x4_t values[4]; /* the value in that slot; otherwise 0 */
    uint32x4_t last[4];   /* the last quarter of the line */
} open_lines;

/* What four keys found in their home buckets: an element for each key. */
typedef struct open_four {
    uint32x4_t found;   /* all ones: the key is there */
    uint32x4_t goes_on; /* all ones: the key is not there, and its filter bit is set */
} open_four;

LOOM_LANE void open_match_line(const unsigned char *at, const uint32_t *key, open_lines *lines, uint32_t i)
{
    const uint32x4_t slots = {~0u, ~0u, ~0u, 0}; /* the last word of a line holds no slot */
    const uint32_t *line = (const uint32_t *)(const void *)at;
    const uint32x4_t a = vld1q_u32(line), b = vld1q_u32(line + 4), c = vld1q_u32(line + 8), d = vld1q_u32(line + 12);
    const uint32x4_t wanted = vld1q_dup_u32(key);
    const uint32x4_t low = vceqq_u32(vuzp1q_u32(a, b), wanted);
    const uint32x4_t high = vandq_u32(vceqq_u32(vuzp1q_u32(c, d), wanted), slots);
    lines->hits[i] = vorrq_u32(low, high);
    lines->values[i] = vbslq_u32(high, vuzp2q_u32(c, d), vandq_u32(low, vuzp2q_u32(a, b)));
    lines->last[i] = d;
}

LOOM_LANE uint32x4_t open_sum_up(const uint32x4_t of[4])
{
    return vpaddq_u32(vpaddq_u32(of[0], of[1]), vpaddq_u32(of[2], of[3]));
}

/* The filter bits of two keys, all ones or 0. The lowest 6 bits of line_and_bit are the number of the bit. */
LOOM_LANE uint32x4_t open_two_filters(const uint32x4_t last[2], const uintptr_t line_and_bit[2])
{
    const uint64x2_t words = vzip2q_u64(vreinterpretq_u64_u32(last[0]), vreinterpretq_u64_u32(last[1]));
    const uint64x2_t number = vandq_u64(vld1q_u64((const uint64_t *)line_and_bit), vdupq_n_u64(63));
    const uint64x2_t bit = vshlq_u64(vdupq_n_u64(1), vreinterpretq_s64_u64(number));
    return vreinterpretq_u32_u64(vtstq_u64(words, bit));
}

/* Writes the values of four keys: `absent` for those that were not found. */
LOOM_LANE open_four open_look_at_four(const open_lines *lines, const uintptr_t line_and_bit[4], uint32_t absent,
                                      uint32_t values[4])
{
    open_four four;
    const uint32x4_t further =
        vuzp1q_u32(open_two_filters(lines->last, line_and_bit), open_two_filters(lines->last + 2, line_and_bit + 2));
    four.found = open_sum_up(lines->hits);
    four.goes_on = vbicq_u32(further, four.found);
    vst1q_u32(values, vbslq_u32(four.found, open_sum_up(lines->values), vdupq_n_u32(absent)));
    return four;
}

/* Writes which of eight keys were found, from key `first` of the batch on. Returns how many. */
LOOM_LANE uint64_t open_tell_eight(const loom__batch *batch, uint64_t first, const open_four fours[2])
{
    const uint16x8_t both = vcombine_u16(vmovn_u32(fours[0].found), vmovn_u32(fours[1].found));
    const uint8x8_t found = vand_u8(vmovn_u16(both), vdup_n_u8(1));
    if (batch->status != NULL)
        vst1_u8(batch->status + first, veor_u8(found, vdup_n_u8(1)));
    if (batch->found != NULL)
        vst1_u8(batch->found + first, found);
    return vaddv_u8(found);
}

_Static_assert(LOOM_OK == 0 && LOOM_NOT_FOUND == 1, "open_tell_eight writes these");

/* Which of eight keys go on: 8 bits for each key, all set or none. */
LOOM_LANE uint64_t open_eight_go_on(const open_four fours[2])
{
    return lane_narrow(fours[0].goes_on, fours[1].goes_on);
}

#endif
