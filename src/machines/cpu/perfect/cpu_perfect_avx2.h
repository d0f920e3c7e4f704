/* The stages of a lookup (cpu_perfect_simd.h) for four keys at once, one key in each 64-bit lane of an AVX2 register.
 * The results equal those of perfect_start, perfect_settle and perfect_look_at. All factors except the hash's have 32
 * bits. So a product takes one instruction, which ignores the upper half of a lane.
 *
 * Words of codes are loaded one by one. Gathers were not tried: microcode is known to slow them down on many
 * processors. */
#ifndef LOOM_CPU_PERFECT_AVX2_H
#define LOOM_CPU_PERFECT_AVX2_H

#include "core/lanes.h"
#include "engines/perfect/perfect_layout.h"
#include "machines/cpu/core/cpu_fours_avx2.h"

#define CPU_PERFECT_HAS_FOURS

/* Prefetches into the L2 cache; cpu_perfect_simd.h has the measurements. */
LOOM_LANE void fours_prefetch(const void *at)
{
    __builtin_prefetch(at, 0, 2);
}

/* First stage: the addresses of four partitions and four words of codes, and places packed as in cpu_perfect_simd.h. */
LOOM_LANE void fours_start(loom__slot_kind kind, const loom__perfect_view *view, const void *keys,
                           unsigned char **partition, const uint64_t **word, uint64_t *place)
{
    const __m256i hash = fours_hash(fours_keys(keys, slot_key_bytes(kind)), slot_key_bytes(kind), view->seed);
    const __m256i index = _mm256_srli_epi64(fours_times(_mm256_srli_epi64(hash, 32), view->partitions), 32);
    const __m256i words = fours_times(hash, view->words), number = _mm256_srli_epi64(words, 32);
    const __m256i cells = fours_times(words, PERFECT_CELLS_PER_WORD);
    const __m256i cell = _mm256_or_si256(_mm256_slli_epi64(number, 4), _mm256_srli_epi64(cells, 32));
    fours_store(place, _mm256_or_si256(_mm256_slli_epi64(cells, 32), cell));
    fours_store(partition, _mm256_add_epi64(_mm256_set1_epi64x((long long)(uintptr_t)view->base),
                                            fours_times(index, view->partition_bytes)));
    fours_store(word,
                _mm256_add_epi64(_mm256_set1_epi64x((long long)(uintptr_t)view->codes),
                                 _mm256_slli_epi64(_mm256_add_epi64(fours_times(index, view->words), number), 3)));
}

/* Second stage: perfect_bucket for four words of codes. */
LOOM_LANE __m256i fours_bucket(const loom__perfect_view *view, const uint64_t *const *word, const uint64_t *place)
{
    const __m256i seven = _mm256_set1_epi64x(7), fifteen = _mm256_set1_epi64x(15);
    const __m256i codes =
        _mm256_set_epi64x((long long)*word[3], (long long)*word[2], (long long)*word[1], (long long)*word[0]);
    const __m256i places = _mm256_loadu_si256((const __m256i *)(const void *)place);
    const __m256i which = _mm256_and_si256(places, fifteen), remainder = _mm256_srli_epi64(places, 32);
    const __m256i code = _mm256_and_si256(_mm256_srlv_epi64(codes, _mm256_slli_epi64(which, 2)), fifteen);
    const __m256i salt = _mm256_srli_epi64(codes, 60), mapping = _mm256_srli_epi64(code, 3);

    /* perfect_rotation: bits 29 and up with one mapping, bits 26 and up with the other. */
    const __m256i spread = fours_times(_mm256_xor_si256(remainder, fours_times(salt, 0x9e3779b9u)), 0x85ebca6bu);
    const __m256i thrice = _mm256_add_epi64(mapping, _mm256_slli_epi64(mapping, 1));
    const __m256i rotation = _mm256_srlv_epi64(spread, _mm256_sub_epi64(_mm256_set1_epi64x(29), thrice));
    const __m256i number = _mm256_and_si256(_mm256_add_epi64(rotation, code), seven);

    /* perfect_bucket_in */
    const __m256i low =
        _mm256_or_si256(_mm256_slli_epi64(salt, 4), _mm256_or_si256(_mm256_andnot_si256(seven, code), number));
    __m256i x = fours_times(_mm256_or_si256(_mm256_slli_epi64(places, 8), low), 0x9e3779b1u);
    x = fours_times(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), 0x85ebca77u);
    const __m256i bucket =
        _mm256_add_epi64(fours_times(number, view->subrange), _mm256_srli_epi64(fours_times(x, view->subrange), 32));
    return _mm256_blendv_epi8(bucket, _mm256_set1_epi64x((long long)PERFECT_SUBRANGES * view->subrange),
                              _mm256_cmpeq_epi64(code, _mm256_set1_epi64x(PERFECT_STASHED)));
}

/* Second stage, second half: the addresses of the lines and, in kinds whose values lie behind all lines, of the rows of
 * values. */
LOOM_LANE void fours_settle(loom__slot_kind kind, const loom__perfect_view *view, unsigned char *const *partition,
                            const uint64_t *const *word, const uint64_t *place, const unsigned char **line,
                            const unsigned char **values)
{
    const __m256i bucket = fours_bucket(view, word, place);
    const __m256i base = _mm256_loadu_si256((const __m256i *)(const void *)partition);
    fours_store(line, _mm256_add_epi64(base, fours_times(bucket, perfect_line_stride(kind))));
    if (kind == SLOT_KEY_8_VALUE_4) {
        const uint32_t offset = perfect_value_offset(kind, perfect_buckets(view->subrange));
        fours_store(values, _mm256_add_epi64(_mm256_add_epi64(base, _mm256_set1_epi64x((long long)offset)),
                                             fours_times(bucket, perfect_value_stride(kind))));
    }
}

/* Third stage: looks for key `place` of the batch in its line. */
LOOM_LANE __m256i fours_find(loom__slot_kind kind, const unsigned char *line, const void *keys, uint64_t place)
{
    if (slot_key_bytes(kind) == 8)
        return fours_find_8(line, ((const uint64_t *)keys)[place], _mm256_setr_epi64x(1, 2, 3, 4),
                            _mm256_setr_epi64x(5, 6, 7, 8));
    if (kind == SLOT_PAIR_4_4)
        return fours_find_pair(line, ((const uint32_t *)keys)[place], _mm256_set1_epi64x(-1));
    return fours_find_4(line, ((const uint32_t *)keys)[place], _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8),
                        _mm256_setr_epi32(9, 10, 11, 12, 13, 14, 15, 16));
}

/* Writes the values of four keys, or where they lie, and then prefetches them. `values` is used only where values lie
 * behind all lines. Returns which keys were found: all ones. */
LOOM_LANE __m128i fours_tell(loom__slot_kind kind, const loom__batch *batch, const uint64_t *absent,
                             const __m256i hits[4], const unsigned char *const *line,
                             const unsigned char *const *values, uint64_t index, const unsigned char **value_from)
{
    if (kind == SLOT_PAIR_4_4)
        return fours_tell_pairs(batch, fours_unite_8(hits), index);
    const fours_slots slots = fours_slots_of(slot_key_bytes(kind), hits);
    if (slot_values_apart(kind) && batch->found_values != NULL) {
        __m256i first;
        if (kind == SLOT_KEY_8_VALUE_4)
            first = _mm256_loadu_si256((const __m256i *)(const void *)values);
        else
            first = _mm256_add_epi64(_mm256_loadu_si256((const __m256i *)(const void *)line),
                                     _mm256_set1_epi64x(PERFECT_LINE_BYTES));
        fours_tell_places(slot_value_bytes(kind), absent, slots.numbers, first, value_from);
        for (uint32_t i = 0; i < 4; i++)
            lane_prefetch(value_from[i]);
    }
    return slots.found;
}

#endif
