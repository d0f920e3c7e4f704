/* Lane primitives that are the same for every kind of SIMD. A thread is the whole group and the whole team, so most
 * primitives ignore some of their arguments. */
#ifndef LOOM_CPU_LANES_COMMON_H
#define LOOM_CPU_LANES_COMMON_H

#include "core/combine.h"
#include "core/portable.h"

#include <string.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define LANE_INDEXES /* a line lies in memory: an index into it may be computed */

typedef uint32_t lane_truth;

typedef struct lane_group {
    char whole; /* unused */
} lane_group;

/* With `shared`, a thread reads its own copy of the line. Otherwise it owns the line, or only readers run beside it,
 * and it reads the line in the table. */
typedef struct lane_line {
    const unsigned char *at;
    _Alignas(64) unsigned char copy[64];
} lane_line;

typedef struct lane_slots {
    uint64_t bits; /* one or several bits for each slot, lowest slot first, as the SIMD compare yields them */
} lane_slots;

LOOM_LANE void lane_prefetch(const void *at)
{
    __builtin_prefetch(at, 0, 3);
}

/* Into the L2 cache only. */
LOOM_LANE void lane_prefetch_far(const void *at)
{
    __builtin_prefetch(at, 0, 2);
}

LOOM_LANE void lane_prefetch_to_write(const void *at)
{
    __builtin_prefetch(at, 1, 3);
}

LOOM_LANE lane_truth lane_any(lane_slots set)
{
    return set.bits != 0;
}

LOOM_LANE uint32_t lane_words(lane_group group)
{
    return 8;
}

LOOM_LANE uint32_t lane_first_word(lane_group group)
{
    return 0;
}

LOOM_LANE uint64_t lane_line_word(const lane_line *line, uint32_t i)
{
    uint64_t word;
    memcpy(&word, line->at + 8 * i, 8);
    return word;
}

LOOM_LANE uint64_t lane_word(const lane_line *line, lane_slots set, uint32_t slot)
{
    return lane_line_word(line, slot);
}

LOOM_LANE uint64_t lane_own_word(const lane_line *line, uint32_t i)
{
    return lane_line_word(line, i);
}

LOOM_LANE uint32_t lane_four_bytes(lane_group group, const lane_line *line, uint32_t at)
{
    uint32_t bytes;
    memcpy(&bytes, line->at + at, sizeof bytes);
    return bytes;
}

LOOM_LANE lane_truth lane_filter(lane_group group, const lane_line *line, uint32_t at, uint32_t bit)
{
    const uint64_t word = at % 8 == 0 ? lane_line_word(line, at / 8) : lane_four_bytes(group, line, at);
    return (lane_truth)(word >> bit & 1);
}

typedef lane_truth lane_votes;

LOOM_LANE lane_votes lane_poll(lane_group group, lane_truth mine)
{
    return mine;
}

LOOM_LANE lane_truth lane_some(lane_votes votes)
{
    return votes;
}

LOOM_LANE lane_truth lane_chosen(lane_group group, lane_votes votes)
{
    return votes;
}

LOOM_LANE uint32_t lane_count(lane_votes votes)
{
    return votes;
}

LOOM_LANE uint64_t lane_sum(lane_group group, uint64_t mine)
{
    return mine;
}

LOOM_LANE uint32_t lane_least(lane_group group, uint32_t mine)
{
    return mine;
}

LOOM_LANE lane_truth lane_leads(lane_group group)
{
    return 1;
}

LOOM_LANE lane_truth lane_going(lane_group group, lane_truth mine)
{
    return mine;
}

LOOM_LANE void lane_join(lane_group group, int shared) {}

LOOM_LANE void lane_sync(lane_group group, int shared) {}

LOOM_LANE uint64_t lane_load_8(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

LOOM_LANE uint32_t lane_load_4(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

LOOM_LANE uint64_t lane_reload_8(const uint64_t *at, int shared)
{
    return lane_load_8(at);
}

LOOM_LANE uint32_t lane_reload_4(const uint32_t *at, int shared)
{
    return lane_load_4(at);
}

LOOM_LANE void lane_store_8(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

LOOM_LANE void lane_store_4(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

LOOM_LANE uint64_t lane_swap_8(uint64_t *at, uint64_t expected, uint64_t wanted, int shared)
{
    if (shared) {
        __atomic_compare_exchange_n(at, &expected, wanted, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return expected;
    }
    const uint64_t old = *at;
    if (old == expected)
        *at = wanted;
    return old;
}

LOOM_LANE uint32_t lane_swap_4(uint32_t *at, uint32_t expected, uint32_t wanted, int shared)
{
    if (shared) {
        __atomic_compare_exchange_n(at, &expected, wanted, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return expected;
    }
    const uint32_t old = *at;
    if (old == expected)
        *at = wanted;
    return old;
}

LOOM_LANE uint64_t lane_fetch_or_8(uint64_t *at, uint64_t bits, int shared)
{
    if (shared)
        return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED);
    const uint64_t old = *at;
    *at = old | bits;
    return old;
}

LOOM_LANE void lane_or_8(uint64_t *at, uint64_t bits, int shared)
{
    (void)lane_fetch_or_8(at, bits, shared);
}

LOOM_LANE void lane_or_4(uint32_t *at, uint32_t bits, int shared)
{
    if (shared)
        (void)__atomic_fetch_or(at, bits, __ATOMIC_RELAXED);
    else
        *at |= bits;
}

LOOM_LANE uint32_t lane_and_4(uint32_t *at, uint32_t bits, int shared)
{
    if (shared)
        return __atomic_fetch_and(at, bits, __ATOMIC_RELAXED);
    const uint32_t old = *at;
    *at = old & bits;
    return old;
}

LOOM_LANE uint64_t lane_draw_8(uint64_t *at, uint64_t n, int shared)
{
    if (shared)
        return __atomic_fetch_add(at, n, __ATOMIC_RELAXED);
    const uint64_t old = *at;
    *at = old + n;
    return old;
}

LOOM_LANE uint64_t lane_and_8(uint64_t *at, uint64_t bits, int shared)
{
    if (shared)
        return __atomic_fetch_and(at, bits, __ATOMIC_RELAXED);
    const uint64_t old = *at;
    *at = old & bits;
    return old;
}

/* Ends: each failed CAS means that another thread has combined. */
LOOM_LANE void lane_combine_8(uint64_t *at, loom__combine_rule rule, uint64_t value, int shared)
{
    uint64_t seen = lane_load_8(at);
    if (!shared)
        *at = loom__combine_8(rule, seen, value);
    else if (rule == LOOM__ADD)
        __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
    else
        while (!__atomic_compare_exchange_n(at, &seen, loom__combine_8(rule, seen, value), 0, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            continue;
}

LOOM_LANE void lane_combine_4(uint32_t *at, loom__combine_rule rule, uint32_t value, int shared)
{
    uint32_t seen = lane_load_4(at);
    if (!shared)
        *at = loom__combine_4(rule, seen, value);
    else if (rule == LOOM__ADD)
        __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
    else
        while (!__atomic_compare_exchange_n(at, &seen, loom__combine_4(rule, seen, value), 0, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            continue;
}

/* Copies a line that other threads may be writing: one atomic load for each word. */
LOOM_LANE void lane_copy_words(lane_line *line, const unsigned char *at)
{
    for (int word = 0; word < 8; word++) {
        uint64_t value = lane_load_8((const uint64_t *)(at + 8 * word));
        memcpy(line->copy + 8 * word, &value, 8);
    }
}

/* Copies a line by vector loads, whose 8-byte elements do not tear. Each SIMD header supplies it. */
LOOM_LANE void lane_copy_vectors(lane_line *line, const unsigned char *at);

/* The thread sanitizer understands atomic loads, but not that a vector load equals several of them. */
#if defined(__SANITIZE_THREAD__)
#define LANE_COPY lane_copy_words
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LANE_COPY lane_copy_words
#endif
#endif
#ifndef LANE_COPY
#define LANE_COPY lane_copy_vectors
#define LANE_HAS_FENCES
#endif

LOOM_LANE void lane_release(int shared)
{
#ifdef LANE_HAS_FENCES /* the thread sanitizer does not understand fences */
    if (shared)
        __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

LOOM_LANE void lane_acquire(int shared)
{
#ifdef LANE_HAS_FENCES
    if (shared)
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Rows. A fence orders what a thread stores in a row before the row's ready bit. */
#ifdef LANE_HAS_FENCES
LOOM_LANE lane_truth lane_same_bytes(const unsigned char *at, const unsigned char *bytes, uint32_t n)
{
    return memcmp(at, bytes, n) == 0;
}

LOOM_LANE void lane_read_bytes(unsigned char *to, const unsigned char *at, uint32_t n)
{
    memcpy(to, at, n);
}

LOOM_LANE void lane_write_bytes(unsigned char *at, const unsigned char *from, uint32_t n)
{
    memcpy(at, from, n);
}
#else
LOOM_LANE lane_truth lane_same_bytes(const unsigned char *at, const unsigned char *bytes, uint32_t n)
{
    lane_truth same = 1;
    for (uint32_t i = 0; i < n; i++)
        same &= __atomic_load_n(at + i, __ATOMIC_RELAXED) == bytes[i];
    return same;
}

LOOM_LANE void lane_read_bytes(unsigned char *to, const unsigned char *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = __atomic_load_n(at + i, __ATOMIC_RELAXED);
}

LOOM_LANE void lane_write_bytes(unsigned char *at, const unsigned char *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        __atomic_store_n(at + i, from[i], __ATOMIC_RELAXED);
}
#endif

/* Ignores `active` and `span`: a thread takes only lines that it needs, and has prefetched the whole span. */
LOOM_LANE void lane_take(lane_group group, lane_line *line, const unsigned char *at, int shared, lane_truth active,
                         uint32_t span)
{
    line->at = at;
    if (shared) {
        LANE_COPY(line, at);
        line->at = line->copy;
    }
}

/* ---- Teams ---- */

typedef struct lane_team {
    char whole; /* unused */
} lane_team;

LOOM_LANE uint32_t lane_team_rank(lane_team team)
{
    return 0;
}

LOOM_LANE uint32_t lane_team_size(lane_team team)
{
    return 1;
}

LOOM_LANE void lane_team_wait(lane_team team) {}

LOOM_LANE uint64_t lane_team_load(const uint64_t *at)
{
    return *at;
}

LOOM_LANE void lane_team_store(uint64_t *at, uint64_t value)
{
    *at = value;
}

LOOM_LANE uint32_t lane_team_load_4(const uint32_t *at)
{
    return *at;
}

LOOM_LANE void lane_team_store_4(uint32_t *at, uint32_t value)
{
    *at = value;
}

LOOM_LANE uint32_t lane_team_draw(uint32_t *at, uint32_t n)
{
    uint32_t old = *at;
    *at = old + n;
    return old;
}

LOOM_LANE void lane_team_least(uint32_t *at, uint32_t value)
{
    *at = value < *at ? value : *at;
}

LOOM_LANE uint32_t lane_team_or(uint32_t *at, uint32_t bits)
{
    uint32_t old = *at;
    *at = old | bits;
    return old;
}

LOOM_LANE uint32_t lane_team_swap(uint32_t *at, uint32_t expected, uint32_t wanted)
{
    uint32_t old = *at;
    *at = old == expected ? wanted : old;
    return old;
}

LOOM_LANE uint32_t lane_team_load_1(const uint8_t *at)
{
    return *at;
}

LOOM_LANE void lane_team_store_1(uint8_t *at, uint32_t value)
{
    *at = (uint8_t)value;
}

LOOM_LANE void lane_team_add(lane_team team, uint32_t *at, uint32_t value)
{
    *at += value;
}

LOOM_LANE uint32_t lane_team_count(lane_team team, lane_truth mine)
{
    return (uint32_t)mine;
}

#pragma GCC diagnostic pop

#endif
