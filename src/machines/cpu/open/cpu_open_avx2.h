/* Lookups in an open table with AVX2: the home buckets of four keys at a time, first their addresses, later their
 * lines. A key's hash and the address of its line take about 20 instructions one by one, and 8 for each key if four
 * keys share a register. cpu_fours_avx2.h has the steps; I1 (open_ops.h) says that a key is in at most one slot. */
#ifndef LOOM_CPU_OPEN_AVX2_H
#define LOOM_CPU_OPEN_AVX2_H

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
    const __m256i lowest = _mm256_and_si256(hash, _mm256_set1_epi64x(0xffff));
    const __m256i ready = _mm256_set1_epi64x(open_ready_bits(kind));
    const __m256i bit = bits == 64 ? _mm256_srli_epi64(lowest, 10)
                                   : _mm256_add_epi64(_mm256_srli_epi64(fours_times(lowest, bits), 16), ready);
    return _mm256_or_si256(_mm256_add_epi64(partition, line), bit);
}

/* Looks for key `place` in its line, which becomes line i of four. */
LOOM_LANE void open_match_line(loom__slot_kind kind, uintptr_t line_and_bit, const void *keys, uint64_t place,
                               open_lines *lines, uint32_t i)
{
    const unsigned char *line = (const unsigned char *)(line_and_bit & ~(uintptr_t)63);
    const __m256i none = _mm256_setzero_si256();
    const uint32_t key_4 = slot_key_bytes(kind) == 4 ? ((const uint32_t *)keys)[place] : 0;
    const uint64_t key_8 = slot_key_bytes(kind) == 8 ? ((const uint64_t *)keys)[place] : 0;
    lines->word[i] = fours_half_line(line, kind == SLOT_KEY_4_VALUE_8 ? 0 : 1);
    if (kind == SLOT_PAIR_4_4) /* the last 8 bytes of a line hold no slot */
        lines->hits[i] = fours_find_pair(line, key_4, _mm256_setr_epi64x(-1, -1, -1, 0));
    else if (kind == SLOT_KEY_4_VALUE_8)
        lines->hits[i] = fours_find_4(line, key_4, _mm256_setr_epi32(1, 2, 3, 4, 5, 0, 0, 0), none);
    else if (kind == SLOT_KEY_8_VALUE_4)
        lines->hits[i] = fours_find_8(line, key_8, _mm256_setr_epi64x(1, 2, 3, 4), _mm256_setr_epi64x(5, 0, 0, 0));
    else if (slot_key_bytes(kind) == 4)
        lines->hits[i] = fours_find_4(line, key_4, _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8),
                                      _mm256_setr_epi32(9, 10, 11, 12, 13, 14, 0, 0));
    else
        lines->hits[i] = fours_find_8(line, key_8, _mm256_setr_epi64x(1, 2, 3, 4), _mm256_setr_epi64x(5, 6, 7, 0));
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

/* Writes the values of four keys, or where they lie, from key `index` of the batch on. */
LOOM_LANE open_four open_look_at_four(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent,
                                      const open_lines *lines, const uintptr_t *line_and_bit, uint64_t index,
                                      const unsigned char **value_from)
{
    const uint32_t bytes = slot_value_bytes(kind);
    const __m256i places = _mm256_loadu_si256((const __m256i *)(const void *)line_and_bit);
    const uint32_t further = open_four_filters(kind, lines->word, places);
    open_four four;
    if (kind == SLOT_PAIR_4_4) {
        four.found = fours_tell_pairs(batch, fours_unite_8(lines->hits), index);
    } else {
        const fours_slots slots = fours_slots_of(slot_key_bytes(kind), lines->hits);
        four.found = slots.found;
        if (slot_values_apart(kind) && batch->found_values != NULL) {
            const __m256i line = _mm256_andnot_si256(_mm256_set1_epi64x(63), places);
            fours_tell_places(bytes, absent, slots.numbers,
                              _mm256_add_epi64(line, _mm256_set1_epi64x(open_value_offset(kind))), value_from);
            for (uint32_t i = 0; i < 4; i++)
                if (open_has_narrow_word(kind)) /* the value is in the line */
                    memcpy((unsigned char *)batch->found_values + (index + i) * bytes, value_from[i], bytes);
                else
                    lane_prefetch(value_from[i]);
        }
    }
    four.goes_on = further & ~(uint32_t)_mm_movemask_ps(_mm_castsi128_ps(four.found));
    return four;
}

LOOM_LANE uint64_t open_tell_eight(const loom__batch *batch, uint64_t first, const open_four fours[2])
{
    return fours_tell_found(batch, first, fours[0].found, fours[1].found);
}

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
