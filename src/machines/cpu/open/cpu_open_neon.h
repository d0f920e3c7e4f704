/* Lookups in an open table with NEON: the home buckets of four keys at a time.
 *
 * For a single key (open_look_at) the compare becomes a number, the number a slot, and the slot an address. Here all
 * steps stay in vectors. I1 (open_ops.h) says that a key is in at most one slot, so the elements can be added up:
 *   - Pairs of 4 + 4 bytes: the compare chooses the value. A line becomes a vector of hits and a vector of values that
 *     are zero except in the slot of the key.
 *   - Other kinds: the compare chooses the number of the slot, from 1 on. The sum is 0 if the key is not there. The
 *     number leads to the value.
 * Pairwise additions then sum up the vectors of four keys. cpu_open_stream.h has the loop and the measurements.
 *
 * The loads are plain, as those of open_look_at without `shared`: no writer runs beside these lookups. */
#ifndef LOOM_CPU_OPEN_NEON_H
#define LOOM_CPU_OPEN_NEON_H

#include "core/kernels.h"
#include "core/lanes.h"
#include "engines/open/open_ops.h"

#include <arm_neon.h>

#define CPU_OPEN_HAS_FOURS

/* The lines of four keys. Hits and numbers of keys of 8 bytes are vectors of two elements. */
typedef struct open_lines {
    uint32x4_t hits[4];   /* PAIR_4_4: all ones in the slot of the key. Otherwise the number of that slot, from 1 on */
    uint32x4_t values[4]; /* PAIR_4_4: the value in that slot; otherwise 0 */
    uint32x4_t word[4];   /* the quarter of the line that has its word */
} open_lines;

/* What four keys found in their home buckets: an element for each key. */
typedef struct open_four {
    uint32x4_t found;   /* all ones: the key is there */
    uint32x4_t goes_on; /* all ones: the key is not there, and its filter bit is set */
} open_four;

LOOM_LANE void open_match_pairs(const uint32_t *line, const uint32_t *key, open_lines *lines, uint32_t i)
{
    const uint32x4_t slots = {~0u, ~0u, ~0u, 0}; /* the last word of a line holds no slot */
    const uint32x4_t a = vld1q_u32(line), b = vld1q_u32(line + 4), c = vld1q_u32(line + 8), d = vld1q_u32(line + 12);
    const uint32x4_t wanted = vld1q_dup_u32(key);
    const uint32x4_t low = vceqq_u32(vuzp1q_u32(a, b), wanted);
    const uint32x4_t high = vandq_u32(vceqq_u32(vuzp1q_u32(c, d), wanted), slots);
    lines->hits[i] = vorrq_u32(low, high);
    lines->values[i] = vbslq_u32(high, vuzp2q_u32(c, d), vandq_u32(low, vuzp2q_u32(a, b)));
    lines->word[i] = d;
}

/* The line's last quarter comes first: the numbers of its last word, which holds no slot, are 0. */
LOOM_LANE void open_match_4(const uint32_t *line, const uint32_t *key, open_lines *lines, uint32_t i)
{
    const uint32x4_t numbers[4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 0, 0}};
    const uint32x4_t d = vld1q_u32(line + 12), wanted = vld1q_dup_u32(key);
    uint32x4_t number = vandq_u32(vceqq_u32(d, wanted), numbers[3]);
    number = vbslq_u32(vceqq_u32(vld1q_u32(line), wanted), numbers[0], number);
    number = vbslq_u32(vceqq_u32(vld1q_u32(line + 4), wanted), numbers[1], number);
    lines->hits[i] = vbslq_u32(vceqq_u32(vld1q_u32(line + 8), wanted), numbers[2], number);
    lines->word[i] = d;
}

/* Five keys, then the word. */
LOOM_LANE void open_match_five_4(const uint32_t *line, const uint32_t *key, open_lines *lines, uint32_t i)
{
    const uint32x4_t first = {1, 2, 3, 4}, fifth = {5, 0, 0, 0};
    const uint32x4_t b = vld1q_u32(line + 4), wanted = vld1q_dup_u32(key);
    const uint32x4_t number = vandq_u32(vceqq_u32(b, wanted), fifth);
    lines->hits[i] = vbslq_u32(vceqq_u32(vld1q_u32(line), wanted), first, number);
    lines->word[i] = b;
}

LOOM_LANE void open_match_8(const uint64_t *line, const uint64_t *key, open_lines *lines, uint32_t i)
{
    const uint64x2_t numbers[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 0}};
    const uint64x2_t d = vld1q_u64(line + 6), wanted = vld1q_dup_u64(key);
    uint64x2_t number = vandq_u64(vceqq_u64(d, wanted), numbers[3]);
    number = vbslq_u64(vceqq_u64(vld1q_u64(line), wanted), numbers[0], number);
    number = vbslq_u64(vceqq_u64(vld1q_u64(line + 2), wanted), numbers[1], number);
    number = vbslq_u64(vceqq_u64(vld1q_u64(line + 4), wanted), numbers[2], number);
    lines->hits[i] = vreinterpretq_u32_u64(number);
    lines->word[i] = vreinterpretq_u32_u64(d);
}

/* Five keys. The word is in the last quarter. */
LOOM_LANE void open_match_five_8(const uint64_t *line, const uint64_t *key, open_lines *lines, uint32_t i)
{
    const uint64x2_t numbers[3] = {{1, 2}, {3, 4}, {5, 0}};
    const uint64x2_t wanted = vld1q_dup_u64(key);
    uint64x2_t number = vandq_u64(vceqq_u64(vld1q_u64(line + 4), wanted), numbers[2]);
    number = vbslq_u64(vceqq_u64(vld1q_u64(line), wanted), numbers[0], number);
    number = vbslq_u64(vceqq_u64(vld1q_u64(line + 2), wanted), numbers[1], number);
    lines->hits[i] = vreinterpretq_u32_u64(number);
    lines->word[i] = vreinterpretq_u32_u64(vld1q_u64(line + 6));
}

/* Looks for key `place` in its line, which becomes line i of four. */
LOOM_LANE void open_match_line(loom__slot_kind kind, uintptr_t line_and_bit, const void *keys, uint64_t place,
                               open_lines *lines, uint32_t i)
{
    const void *line = (const void *)(line_and_bit & ~(uintptr_t)63);
    if (kind == SLOT_PAIR_4_4)
        open_match_pairs(line, (const uint32_t *)keys + place, lines, i);
    else if (kind == SLOT_KEY_4_VALUE_8)
        open_match_five_4(line, (const uint32_t *)keys + place, lines, i);
    else if (kind == SLOT_KEY_8_VALUE_4)
        open_match_five_8(line, (const uint64_t *)keys + place, lines, i);
    else if (slot_key_bytes(kind) == 4)
        open_match_4(line, (const uint32_t *)keys + place, lines, i);
    else
        open_match_8(line, (const uint64_t *)keys + place, lines, i);
}

LOOM_LANE uint32x4_t open_sum_up(const uint32x4_t of[4])
{
    return vpaddq_u32(vpaddq_u32(of[0], of[1]), vpaddq_u32(of[2], of[3]));
}

LOOM_LANE uint64x2_t open_sum_up_two(const uint32x4_t of[2])
{
    return vpaddq_u64(vreinterpretq_u64_u32(of[0]), vreinterpretq_u64_u32(of[1]));
}

/* The filter bits of two keys, all ones or 0. The lowest 6 bits of line_and_bit are the number of the bit. */
LOOM_LANE uint32x4_t open_two_filters(loom__slot_kind kind, const uint32x4_t word[2], const uintptr_t line_and_bit[2])
{
    const uint64x2_t a = vreinterpretq_u64_u32(word[0]), b = vreinterpretq_u64_u32(word[1]);
    const uint64x2_t words = open_word_offset(kind) % 16 < 8 ? vzip1q_u64(a, b) : vzip2q_u64(a, b);
    const uint64x2_t number = vandq_u64(vld1q_u64((const uint64_t *)line_and_bit), vdupq_n_u64(63));
    /* A narrow word is the upper half of its 8 bytes. */
    const uint64x2_t lowest = vdupq_n_u64(open_has_narrow_word(kind) ? (uint64_t)1 << 32 : 1);
    const uint64x2_t bit = vshlq_u64(lowest, vreinterpretq_s64_u64(number));
    return vreinterpretq_u32_u64(vtstq_u64(words, bit));
}

/* The values of two keys, from key `index` of the batch on, or `absent` where the slot's number is 0. Writes them if
 * they are in the line. Otherwise writes where they lie, and prefetches them. */
LOOM_LANE void open_two_values(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent,
                               uint64x2_t numbers, const uintptr_t line_and_bit[2], uint64_t index,
                               const unsigned char *value_from[2])
{
    const uint32_t bytes = slot_value_bytes(kind);
    const uint64x2_t line = vbicq_u64(vld1q_u64((const uint64_t *)line_and_bit), vdupq_n_u64(63));
    const uint64x2_t before = vaddq_u64(line, vdupq_n_u64(open_value_offset(kind) - bytes)); /* slots count from 1 on */
    uint64x2_t at = vaddq_u64(before, bytes == 8 ? vshlq_n_u64(numbers, 3) : vshlq_n_u64(numbers, 2));
    at = vbslq_u64(vtstq_u64(numbers, numbers), at, vdupq_n_u64((uintptr_t)absent));
    const void *const first = (const void *)vgetq_lane_u64(at, 0), *const second = (const void *)vgetq_lane_u64(at, 1);
    if (open_has_narrow_word(kind)) {
        unsigned char *const to = (unsigned char *)batch->found_values + index * bytes;
        memcpy(to, first, bytes);
        memcpy(to + bytes, second, bytes);
        return;
    }
    vst1q_u64((uint64_t *)(void *)value_from, at);
    lane_prefetch(first);
    lane_prefetch(second);
}

/* Writes the values of four keys, or where they lie, from key `index` of the batch on. */
LOOM_LANE open_four open_look_at_four(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent,
                                      const open_lines *lines, const uintptr_t *line_and_bit, uint64_t index,
                                      const unsigned char **value_from)
{
    open_four four;
    const uint32x4_t further = vuzp1q_u32(open_two_filters(kind, lines->word, line_and_bit),
                                          open_two_filters(kind, lines->word + 2, line_and_bit + 2));
    if (kind == SLOT_PAIR_4_4) {
        /* With a branch on found_values, gcc would sink the sums behind it and keep eight lines on the stack. */
        uint32_t unasked[4], *values = batch->found_values != NULL ? (uint32_t *)batch->found_values + index : unasked;
        four.found = open_sum_up(lines->hits);
        vst1q_u32(values, vbslq_u32(four.found, open_sum_up(lines->values), vdupq_n_u32((uint32_t)batch->absent)));
    } else {
        uint64x2_t low, high;
        if (slot_key_bytes(kind) == 4) {
            const uint32x4_t numbers = open_sum_up(lines->hits);
            four.found = vtstq_u32(numbers, numbers);
            low = vmovl_u32(vget_low_u32(numbers));
            high = vmovl_high_u32(numbers);
        } else {
            low = open_sum_up_two(lines->hits);
            high = open_sum_up_two(lines->hits + 2);
            const uint32x4_t numbers = vuzp1q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high));
            four.found = vtstq_u32(numbers, numbers);
        }
        if (slot_values_apart(kind) && batch->found_values != NULL) {
            open_two_values(kind, batch, absent, low, line_and_bit, index, value_from);
            open_two_values(kind, batch, absent, high, line_and_bit + 2, index + 2, value_from + 2);
        }
    }
    four.goes_on = vbicq_u32(further, four.found);
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
