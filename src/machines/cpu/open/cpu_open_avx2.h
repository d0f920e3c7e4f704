/* Lookups in an open table with AVX2: the home buckets of four keys at a time, first their addresses, later their
 * lines.
 *
 * A key's hash and the address of its line take about 20 instructions one by one, and 8 for each key if four keys share
 * a register (cpu_fours_avx2.h). Lines are searched as with NEON (cpu_open_neon.h): I1 (open_ops.h) says that a key is
 * in at most one slot, so elements can be united by OR.
 *   - Pairs of 4 + 4 bytes: the compare chooses the value. A line becomes a vector of pairs that are zero except in the
 *     slot of the key, where the key is replaced by ones.
 *   - Other kinds: the compare chooses the number of the slot, from 1 on. The number leads to the value.
 *
 * The loads are plain, as those of open_look_at without `shared`: no writer runs beside these lookups. */
#ifndef LOOM_CPU_OPEN_AVX2_H
#define LOOM_CPU_OPEN_AVX2_H

#include "core/kernels.h"
#include "core/lanes.h"
#include "engines/open/open_ops.h"
#include "machines/cpu/core/cpu_fours_avx2.h"

#define CPU_OPEN_HAS_FOURS
#define CPU_OPEN_HAS_STARTS
#define CPU_OPEN_HAS_LISTS

/* The lines of four keys. */
typedef struct open_lines {
    __m256i hits[4]; /* PAIR_4_4: the pair with the key. Otherwise the number of the key's slot, an element as wide as
                        a key */
    __m256i word[4]; /* the half of the line that has its word */
} open_lines;

/* What four keys found in their home buckets. */
typedef struct open_four {
    __m128i found;    /* an element for each key, all ones: the key is there */
    uint32_t goes_on; /* a bit for each key: it is not there, and its filter bit is set */
} open_four;

/* The addresses of four keys' home lines, with the numbers of their filter bits in the lowest 6 bits. */
LOOM_LANE __m256i open_lines_of_four(loom__slot_kind kind, const loom__open_view *view, __m256i keys)
{
    const uint32_t bits = open_filter_bits(kind);
    const __m256i hash = fours_hash(keys, slot_key_bytes(kind), view->seed);
    const __m256i index = _mm256_srli_epi64(fours_times(_mm256_srli_epi64(hash, 32), view->partitions), 32);
    const __m256i bucket = _mm256_srli_epi64(fours_times(hash, view->buckets), 32);
    const __m256i partition = _mm256_add_epi64(_mm256_set1_epi64x((long long)(uintptr_t)view->base),
                                               fours_times(index, view->partition_bytes));
    const __m256i line = open_line_stride(kind) == 64 ? _mm256_slli_epi64(bucket, 6) : _mm256_slli_epi64(bucket, 7);
    const __m256i lowest = _mm256_and_si256(hash, _mm256_set1_epi64x(0xffff)),
                  ready = _mm256_set1_epi64x(open_ready_bits(kind));
    const __m256i bit = bits == 64 ? _mm256_srli_epi64(lowest, 10)
                                   : _mm256_add_epi64(_mm256_srli_epi64(fours_times(lowest, bits), 16), ready);
    return _mm256_or_si256(_mm256_add_epi64(partition, line), bit);
}

LOOM_LANE __m256i open_half_line(const unsigned char *line, uint32_t half)
{
    return _mm256_load_si256((const __m256i *)(const void *)(line + 32 * half));
}

LOOM_LANE void open_match_pairs(const unsigned char *line, uint32_t key, open_lines *lines, uint32_t i)
{
    const __m256i slots = _mm256_set_epi64x(0, -1, -1, -1); /* the last 8 bytes of a line hold no slot */
    const __m256i low = open_half_line(line, 0), high = open_half_line(line, 1), wanted = _mm256_set1_epi32((int)key);
    const __m256i in_low = _mm256_shuffle_epi32(_mm256_cmpeq_epi32(low, wanted), _MM_SHUFFLE(2, 2, 0, 0));
    const __m256i in_high =
        _mm256_and_si256(_mm256_shuffle_epi32(_mm256_cmpeq_epi32(high, wanted), _MM_SHUFFLE(2, 2, 0, 0)), slots);
    const __m256i pair = _mm256_or_si256(_mm256_and_si256(low, in_low), _mm256_and_si256(high, in_high));
    lines->hits[i] = _mm256_blend_epi32(pair, _mm256_or_si256(in_low, in_high), 0x55);
    lines->word[i] = high;
}

LOOM_LANE void open_match_4(const unsigned char *line, uint32_t key, open_lines *lines, uint32_t i)
{
    const __m256i low_numbers = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8);
    const __m256i high_numbers = _mm256_setr_epi32(9, 10, 11, 12, 13, 14, 0, 0);
    const __m256i low = open_half_line(line, 0), high = open_half_line(line, 1), wanted = _mm256_set1_epi32((int)key);
    lines->hits[i] = _mm256_or_si256(_mm256_and_si256(_mm256_cmpeq_epi32(low, wanted), low_numbers),
                                     _mm256_and_si256(_mm256_cmpeq_epi32(high, wanted), high_numbers));
    lines->word[i] = high;
}

/* Five keys, then the word. */
LOOM_LANE void open_match_five_4(const unsigned char *line, uint32_t key, open_lines *lines, uint32_t i)
{
    const __m256i low = open_half_line(line, 0), numbers = _mm256_setr_epi32(1, 2, 3, 4, 5, 0, 0, 0);
    lines->hits[i] = _mm256_and_si256(_mm256_cmpeq_epi32(low, _mm256_set1_epi32((int)key)), numbers);
    lines->word[i] = low;
}

/* `slots`: 7, or 5 */
LOOM_LANE void open_match_8(const unsigned char *line, uint64_t key, uint32_t slots, open_lines *lines, uint32_t i)
{
    const __m256i low_numbers = _mm256_setr_epi64x(1, 2, 3, 4);
    const __m256i high_numbers = slots == 7 ? _mm256_setr_epi64x(5, 6, 7, 0) : _mm256_setr_epi64x(5, 0, 0, 0);
    const __m256i low = open_half_line(line, 0), high = open_half_line(line, 1);
    const __m256i wanted = _mm256_set1_epi64x((long long)key);
    lines->hits[i] = _mm256_or_si256(_mm256_and_si256(_mm256_cmpeq_epi64(low, wanted), low_numbers),
                                     _mm256_and_si256(_mm256_cmpeq_epi64(high, wanted), high_numbers));
    lines->word[i] = high;
}

/* Looks for key `place` in its line, which becomes line i of four. */
LOOM_LANE void open_match_line(loom__slot_kind kind, uintptr_t line_and_bit, const void *keys, uint64_t place,
                               open_lines *lines, uint32_t i)
{
    const unsigned char *line = (const unsigned char *)(line_and_bit & ~(uintptr_t)63);
    if (slot_key_bytes(kind) == 8)
        open_match_8(line, ((const uint64_t *)keys)[place], open_slots(kind), lines, i);
    else if (kind == SLOT_PAIR_4_4)
        open_match_pairs(line, ((const uint32_t *)keys)[place], lines, i);
    else if (kind == SLOT_KEY_4_VALUE_8)
        open_match_five_4(line, ((const uint32_t *)keys)[place], lines, i);
    else
        open_match_4(line, ((const uint32_t *)keys)[place], lines, i);
}

/* Unites the four elements of 8 bytes of each of four vectors. */
LOOM_LANE __m256i open_unite_8(const __m256i of[4])
{
    const __m256i a = _mm256_or_si256(_mm256_unpacklo_epi64(of[0], of[1]), _mm256_unpackhi_epi64(of[0], of[1]));
    const __m256i b = _mm256_or_si256(_mm256_unpacklo_epi64(of[2], of[3]), _mm256_unpackhi_epi64(of[2], of[3]));
    return _mm256_or_si256(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* The same for the eight elements of 4 bytes. */
LOOM_LANE __m128i open_unite_4(const __m256i of[4])
{
    const __m256i a = _mm256_or_si256(_mm256_unpacklo_epi32(of[0], of[1]), _mm256_unpackhi_epi32(of[0], of[1]));
    const __m256i b = _mm256_or_si256(_mm256_unpacklo_epi32(of[2], of[3]), _mm256_unpackhi_epi32(of[2], of[3]));
    const __m256i both = _mm256_or_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    return _mm_or_si128(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

/* The lower and the upper halves of four elements of 8 bytes. */
LOOM_LANE __m128i open_lower_halves(__m256i x)
{
    const __m128 a = _mm_castsi128_ps(_mm256_castsi256_si128(x)), b = _mm_castsi128_ps(_mm256_extracti128_si256(x, 1));
    return _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
}

LOOM_LANE __m128i open_upper_halves(__m256i x)
{
    const __m128 a = _mm_castsi128_ps(_mm256_castsi256_si128(x)), b = _mm_castsi128_ps(_mm256_extracti128_si256(x, 1));
    return _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* The filter bits of four keys, a bit for each. The bit is shifted to the end of an element. */
LOOM_LANE uint32_t open_four_filters(loom__slot_kind kind, const __m256i word[4], __m256i line_and_bit)
{
    const __m256i number = _mm256_and_si256(line_and_bit, _mm256_set1_epi64x(63));
    /* A narrow word is the upper half of its 8 bytes. */
    const __m256i distance = _mm256_sub_epi64(_mm256_set1_epi64x(open_has_narrow_word(kind) ? 31 : 63), number);
    const int third = open_word_offset(kind) == 20; /* of the 8 bytes of a half line; otherwise the fourth */
    const __m256i a = third ? _mm256_unpacklo_epi64(word[0], word[1]) : _mm256_unpackhi_epi64(word[0], word[1]);
    const __m256i b = third ? _mm256_unpacklo_epi64(word[2], word[3]) : _mm256_unpackhi_epi64(word[2], word[3]);
    const __m256i words = _mm256_permute2x128_si256(a, b, 0x31);
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_sllv_epi64(words, distance)));
}

/* The values of four keys, from key `index` of the batch on, or `absent` where the slot's number is 0. Writes them if
 * they are in the line. Otherwise writes where they lie, and prefetches them. */
LOOM_LANE void open_four_values(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent, __m256i numbers,
                                __m256i line_and_bit, uint64_t index, const unsigned char **value_from)
{
    const uint32_t bytes = slot_value_bytes(kind);
    const __m256i line = _mm256_andnot_si256(_mm256_set1_epi64x(63), line_and_bit);
    const __m256i before = /* slots count from 1 on */
        _mm256_add_epi64(line, _mm256_set1_epi64x((long long)open_value_offset(kind) - bytes));
    const __m256i there =
        _mm256_add_epi64(before, bytes == 8 ? _mm256_slli_epi64(numbers, 3) : _mm256_slli_epi64(numbers, 2));
    const __m256i at = _mm256_blendv_epi8(there, _mm256_set1_epi64x((long long)(uintptr_t)absent),
                                          _mm256_cmpeq_epi64(numbers, _mm256_setzero_si256()));
    fours_store(value_from, at);
    if (open_has_narrow_word(kind)) {
        unsigned char *const to = (unsigned char *)batch->found_values + index * bytes;
        for (uint32_t i = 0; i < 4; i++)
            memcpy(to + i * bytes, value_from[i], bytes);
    } else {
        for (uint32_t i = 0; i < 4; i++)
            lane_prefetch(value_from[i]);
    }
}

/* Writes the values of four keys, or where they lie, from key `index` of the batch on. */
LOOM_LANE open_four open_look_at_four(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent,
                                      const open_lines *lines, const uintptr_t *line_and_bit, uint64_t index,
                                      const unsigned char **value_from)
{
    open_four four;
    const __m256i places = _mm256_loadu_si256((const __m256i *)(const void *)line_and_bit);
    const uint32_t further = open_four_filters(kind, lines->word, places);
    if (kind == SLOT_PAIR_4_4) {
        uint32_t unasked[4], *values = batch->found_values != NULL ? (uint32_t *)batch->found_values + index : unasked;
        const __m256i pairs = open_unite_8(lines->hits);
        four.found = open_lower_halves(pairs);
        _mm_storeu_si128((__m128i *)(void *)values, _mm_blendv_epi8(_mm_set1_epi32((int)(uint32_t)batch->absent),
                                                                    open_upper_halves(pairs), four.found));
    } else {
        __m256i wide;
        __m128i numbers;
        if (slot_key_bytes(kind) == 4) {
            numbers = open_unite_4(lines->hits);
            wide = _mm256_cvtepu32_epi64(numbers);
        } else {
            wide = open_unite_8(lines->hits);
            numbers = open_lower_halves(wide);
        }
        four.found = _mm_cmpgt_epi32(numbers, _mm_setzero_si128());
        if (slot_values_apart(kind) && batch->found_values != NULL)
            open_four_values(kind, batch, absent, wide, places, index, value_from);
    }
    four.goes_on = further & ~(uint32_t)_mm_movemask_ps(_mm_castsi128_ps(four.found));
    return four;
}

/* Writes which of eight keys were found, from key `first` of the batch on. Returns how many. */
LOOM_LANE uint64_t open_tell_eight(const loom__batch *batch, uint64_t first, const open_four fours[2])
{
    const __m128i both = _mm_packs_epi32(fours[0].found, fours[1].found), bytes = _mm_packs_epi16(both, both);
    const __m128i ones = _mm_set1_epi8(1);
    if (batch->status != NULL)
        _mm_storel_epi64((__m128i *)(void *)(batch->status + first), _mm_add_epi8(bytes, ones));
    if (batch->found != NULL)
        _mm_storel_epi64((__m128i *)(void *)(batch->found + first), _mm_and_si128(bytes, ones));
    return (uint64_t)__builtin_popcount((uint32_t)_mm_movemask_epi8(bytes) & 0xff);
}

_Static_assert(LOOM_OK == 0 && LOOM_NOT_FOUND == 1, "open_tell_eight writes these");

/* Adds the places of those of eight keys that go on to a list. The first key has this `place`. Returns how many. Writes
 * four places for each four keys, of which those that go on come first. */
LOOM_LANE uint64_t open_list_eight(const open_four fours[2], uint64_t place, uint16_t *list)
{
    /* for each set of four keys: which are in it, a byte each */
    static const uint32_t members[16] = {0, 0,      1,      0x0100,   2,      0x0200,   0x0201,   0x020100,
                                         3, 0x0300, 0x0301, 0x030100, 0x0302, 0x030200, 0x030201, 0x03020100};
    uint64_t listed = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const __m128i four = _mm_cvtepu8_epi16(_mm_cvtsi32_si128((int)members[fours[i].goes_on]));
        _mm_storel_epi64((__m128i *)(void *)(list + listed),
                         _mm_add_epi16(four, _mm_set1_epi16((short)(place + 4 * i))));
        listed += (uint64_t)__builtin_popcount(fours[i].goes_on);
    }
    return listed;
}

#endif
