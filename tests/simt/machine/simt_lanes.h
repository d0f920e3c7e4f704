/* The lane primitives of core/lanes.h in the simulator. A lane of a group of w holds 8 / w words of a line. The
 * primitives are macros around simt.h's functions, so that a trace shows the line of the algorithm that called them. */
#ifndef LOOM_SIMT_LANES_H
#define LOOM_SIMT_LANES_H

#include "core/combine.h"
#include "core/portable.h"
#include "simt/machine/simt.h"

#include <string.h>

typedef uint32_t lane_truth;

typedef struct lane_group {
    uint32_t lane, lanes; /* this lane, and the lanes of its group */
    uint32_t mask;        /* of the group, in its warp */
} lane_group;

typedef struct lane_line {
    uint64_t words[8];
    uint32_t first, count; /* the words that this lane holds */
} lane_line;

typedef struct lane_slots {
    uint32_t bits; /* numbered as in the bucket */
} lane_slots;

typedef uint32_t lane_votes; /* of the group, lane 0 first */

LOOM_LANE lane_group lane_own_group(void)
{
    lane_group group = {simt.current->in_warp % simt.config.group_lanes, simt.config.group_lanes, simt_group_mask()};
    return group;
}

#define lane_prefetch(at)          ((void)(at))
#define lane_prefetch_to_write(at) ((void)(at))

LOOM_LANE void lane_take_at(lane_group group, lane_line *line, const unsigned char *at, int shared, lane_truth active,
                            const simt_site *site)
{
    line->count = 8 / group.lanes;
    line->first = group.lane * line->count;
    memset(line->words, 0, sizeof line->words);
    if (!active)
        return;
    /* The words of a vector load come in any order. */
    uint32_t start = simt_any_below(line->count), down = simt_any_below(2);
    for (uint32_t i = 0; i < line->count; i++) {
        uint32_t word = line->first + (start + (down ? line->count - i : i)) % line->count;
        line->words[word] = simt_load(at + 8 * word, 8, shared, site);
    }
}
#define lane_take(group, line, at, shared, active, span) \
    ((void)(span), lane_take_at(group, line, at, shared, active, SIMT_HERE))

LOOM_LANE lane_slots lane_match(const lane_line *line, uint32_t key_bytes, uint32_t stride, uint32_t slots,
                                uint64_t key)
{
    lane_slots set = {0};
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint32_t word = slot * stride / 8;
        if (word < line->first || word >= line->first + line->count)
            continue;
        uint64_t there = line->words[word] >> slot * stride % 8 * 8;
        if (key_bytes < 8)
            there &= ((uint64_t)1 << key_bytes * 8) - 1;
        set.bits |= (uint32_t)(there == key) << slot;
    }
    return set;
}

LOOM_LANE lane_truth lane_any(lane_slots set)
{
    return set.bits != 0;
}

LOOM_LANE uint32_t lane_first(lane_slots set, uint32_t stride)
{
    (void)stride;
    return set.bits ? (uint32_t)__builtin_ctz(set.bits) : 0;
}

LOOM_LANE lane_slots lane_rest(lane_slots set, uint32_t stride)
{
    (void)stride;
    set.bits &= set.bits - 1;
    return set;
}

LOOM_LANE uint64_t lane_word(const lane_line *line, lane_slots set, uint32_t slot)
{
    (void)set;
    return line->words[slot];
}

LOOM_LANE uint32_t lane_words(lane_group group)
{
    return 8 / group.lanes;
}

LOOM_LANE uint32_t lane_first_word(lane_group group)
{
    return group.lane * lane_words(group);
}

LOOM_LANE uint64_t lane_own_word(const lane_line *line, uint32_t i)
{
    return line->words[line->first + i];
}

LOOM_LANE uint64_t lane_line_word(const lane_line *line, uint32_t i)
{
    return line->words[i];
}

/* The lane of the group that holds byte `at` of the line. */
LOOM_LANE uint32_t lane_holder(lane_group group, uint32_t at)
{
    return at / 8 / (8 / group.lanes);
}

LOOM_LANE lane_truth lane_filter(lane_group group, const lane_line *line, uint32_t at, uint32_t bit)
{
    return group.lane == lane_holder(group, at) && (line->words[at / 8] >> (at % 8 * 8 + bit) & 1);
}

LOOM_LANE uint32_t lane_four_bytes_at(lane_group group, const lane_line *line, uint32_t at, const simt_site *site)
{
    const uint32_t holder = lane_holder(group, at);
    const uint64_t own = group.lane == holder ? line->words[at / 8] >> at % 8 * 8 : 0;
    return (uint32_t)simt_shuffle(simt_turn_mask(), own, (uint32_t)__builtin_ctz(group.mask) + holder, site);
}
#define lane_four_bytes(group, line, at) lane_four_bytes_at(group, line, at, SIMT_HERE)

/* A lane that turns by itself asks no other lane, and no other lane has a turn meanwhile. */
LOOM_LANE int lane_is_alone(void)
{
    return (simt_turn_mask() & (simt_turn_mask() - 1)) == 0;
}

LOOM_LANE lane_votes lane_poll_at(lane_group group, lane_truth mine, const simt_site *site)
{
    if (lane_is_alone())
        return mine;
    return (simt_ballot(simt_turn_mask(), (int)mine, site) & group.mask) >> __builtin_ctz(group.mask);
}
#define lane_poll(group, mine)  lane_poll_at(group, mine, SIMT_HERE)
#define lane_going(group, mine) ((void)(group), simt_ballot(simt_turn_mask(), (int)(mine), SIMT_HERE) != 0)

LOOM_LANE lane_truth lane_some(lane_votes votes)
{
    return votes != 0;
}

LOOM_LANE lane_truth lane_chosen(lane_group group, lane_votes votes)
{
    return votes != 0 && (uint32_t)__builtin_ctz(votes) == group.lane;
}

LOOM_LANE uint32_t lane_count(lane_votes votes)
{
    return (uint32_t)__builtin_popcount(votes);
}

/* One lane's after the other's. */
LOOM_LANE uint64_t lane_sum_at(lane_group group, uint64_t mine, const simt_site *site)
{
    const uint32_t first = (uint32_t)__builtin_ctz(group.mask);
    uint64_t sum = 0;
    if (lane_is_alone())
        return mine;
    for (uint32_t i = 0; i < group.lanes; i++)
        sum += simt_shuffle(simt_turn_mask(), mine, first + i, site);
    return sum;
}
#define lane_sum(group, mine) lane_sum_at(group, mine, SIMT_HERE)

LOOM_LANE uint32_t lane_least_at(lane_group group, uint32_t mine, const simt_site *site)
{
    const uint32_t first = (uint32_t)__builtin_ctz(group.mask);
    uint64_t least = mine;
    if (lane_is_alone())
        return mine;
    for (uint32_t i = 0; i < group.lanes; i++) {
        const uint64_t other = simt_shuffle(simt_turn_mask(), mine, first + i, site);
        least = other < least ? other : least;
    }
    return (uint32_t)least;
}
#define lane_least(group, mine) lane_least_at(group, mine, SIMT_HERE)

LOOM_LANE lane_truth lane_leads(lane_group group)
{
    return group.lane == 0;
}

#define lane_join(group, shared) ((void)(group), (void)(shared), simt_sync(simt_turn_mask(), SIMT_HERE))
#define lane_sync(group, shared) ((void)(shared), simt_sync((group).mask, SIMT_HERE))

#define lane_load_8(at)                           simt_load(at, 8, 1, SIMT_HERE)
#define lane_load_4(at)                           ((uint32_t)simt_load(at, 4, 1, SIMT_HERE))
#define lane_reload_8(at, shared)                 simt_load(at, 8, shared, SIMT_HERE)
#define lane_reload_4(at, shared)                 ((uint32_t)simt_load(at, 4, shared, SIMT_HERE))
#define lane_store_8(at, value)                   simt_store(at, 8, value, SIMT_HERE)
#define lane_store_4(at, value)                   simt_store(at, 4, value, SIMT_HERE)
#define lane_swap_8(at, expected, wanted, shared) ((void)(shared), simt_swap(at, 8, expected, wanted, SIMT_HERE))
#define lane_swap_4(at, expected, wanted, shared) \
    ((void)(shared), (uint32_t)simt_swap(at, 4, expected, wanted, SIMT_HERE))
#define lane_or_8(at, bits, shared)             ((void)(shared), simt_or(at, 8, bits, SIMT_HERE))
#define lane_or_4(at, bits, shared)             ((void)(shared), simt_or(at, 4, bits, SIMT_HERE))
#define lane_fetch_or_8(at, bits, shared)       ((void)(shared), simt_fetch_or(at, 8, bits, SIMT_HERE))
#define lane_draw_8(at, n, shared)              ((void)(shared), simt_add(at, n, SIMT_HERE))
#define lane_and_8(at, bits, shared)            ((void)(shared), simt_and(at, 8, bits, SIMT_HERE))
#define lane_and_4(at, bits, shared)            ((void)(shared), (uint32_t)simt_and(at, 4, bits, SIMT_HERE))
#define lane_combine_8(at, rule, value, shared) ((void)(shared), (void)simt_combine(at, 8, rule, value, SIMT_HERE))
#define lane_combine_4(at, rule, value, shared) ((void)(shared), (void)simt_combine(at, 4, rule, value, SIMT_HERE))
#define lane_release(shared)                    ((shared) ? simt_release(SIMT_HERE) : (void)0)
#define lane_acquire(shared)                    ((shared) ? simt_acquire(SIMT_HERE) : (void)0)

/* Rows. The widest word that divides the address and the length moves at once: other lanes may come in between. */
LOOM_LANE uint32_t lane_word_of(const void *at, uint32_t n)
{
    const uint32_t bits = (uint32_t)(uintptr_t)at | n | 8;
    return bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 1;
}

LOOM_LANE void lane_read_bytes_at(unsigned char *to, const unsigned char *at, uint32_t n, const simt_site *site)
{
    for (uint32_t i = 0, word = lane_word_of(at, n); i < n; i += word) {
        const uint64_t value = simt_load(at + i, word, 1, site);
        memcpy(to + i, &value, word);
    }
}

LOOM_LANE lane_truth lane_same_bytes_at(const unsigned char *at, const unsigned char *bytes, uint32_t n,
                                        const simt_site *site)
{
    unsigned char there[256];
    lane_read_bytes_at(there, at, n, site);
    return memcmp(there, bytes, n) == 0;
}

LOOM_LANE void lane_write_bytes_at(unsigned char *at, const unsigned char *from, uint32_t n, const simt_site *site)
{
    for (uint32_t i = 0, word = lane_word_of(at, n); i < n; i += word) {
        uint64_t value = 0;
        memcpy(&value, from + i, word);
        simt_store(at + i, word, value, site);
    }
}

#define lane_same_bytes(at, bytes, n) lane_same_bytes_at(at, bytes, n, SIMT_HERE)
#define lane_read_bytes(to, at, n)    lane_read_bytes_at(to, at, n, SIMT_HERE)
#define lane_write_bytes(at, from, n) lane_write_bytes_at(at, from, n, SIMT_HERE)

/* ---- Teams: all lanes of a call, which has one block. Their memory is part of the simulator's, and as weak ---- */

typedef struct lane_team {
    uint32_t rank, size;
} lane_team;

LOOM_LANE lane_team lane_own_team(void)
{
    lane_team team = {simt.current->index, simt.current->call->lanes};
    return team;
}

LOOM_LANE uint32_t lane_team_rank(lane_team team)
{
    return team.rank;
}

LOOM_LANE uint32_t lane_team_size(lane_team team)
{
    return team.size;
}

LOOM_LANE uint64_t lane_team_load_at(const void *at, uint32_t bytes, const simt_site *site)
{
    simt_touch(at, bytes, SIMT_LOADS, 0, site);
    return simt_load(at, bytes, 1, site);
}

LOOM_LANE void lane_team_store_at(void *at, uint32_t bytes, uint64_t value, const simt_site *site)
{
    simt_touch(at, bytes, SIMT_STORES, value, site);
    simt_store(at, bytes, value, site);
}

LOOM_LANE uint32_t lane_team_combine_at(uint32_t *at, loom__combine_rule rule, uint32_t value, const simt_site *site)
{
    simt_touch(at, 4, SIMT_DRAWS, 0, site);
    return (uint32_t)simt_combine(at, 4, rule, value, site);
}

LOOM_LANE uint32_t lane_team_or_at(uint32_t *at, uint32_t bits, const simt_site *site)
{
    simt_touch(at, 4, SIMT_DRAWS, 0, site);
    return (uint32_t)simt_fetch_or(at, 4, bits, site);
}

LOOM_LANE uint32_t lane_team_swap_at(uint32_t *at, uint32_t expected, uint32_t wanted, const simt_site *site)
{
    simt_touch(at, 4, SIMT_DRAWS, 0, site);
    return (uint32_t)simt_swap(at, 4, expected, wanted, site);
}

#define lane_team_wait(team)                 ((void)(team), (void)simt_barrier(0, SIMT_HERE))
#define lane_team_load(at)                   lane_team_load_at(at, 8, SIMT_HERE)
#define lane_team_store(at, value)           lane_team_store_at(at, 8, value, SIMT_HERE)
#define lane_team_load_4(at)                 ((uint32_t)lane_team_load_at(at, 4, SIMT_HERE))
#define lane_team_store_4(at, value)         lane_team_store_at(at, 4, value, SIMT_HERE)
#define lane_team_draw(at, n)                lane_team_combine_at(at, LOOM__ADD, n, SIMT_HERE)
#define lane_team_least(at, value)           ((void)lane_team_combine_at(at, LOOM__MIN_UNSIGNED, value, SIMT_HERE))
#define lane_team_or(at, bits)               lane_team_or_at(at, bits, SIMT_HERE)
#define lane_team_swap(at, expected, wanted) lane_team_swap_at(at, expected, wanted, SIMT_HERE)
#define lane_team_load_1(at)                 ((uint32_t)lane_team_load_at(at, 1, SIMT_HERE))
#define lane_team_store_1(at, value)         lane_team_store_at(at, 1, (uint8_t)(value), SIMT_HERE)
#define lane_team_add(team, at, n)           ((void)(team), (void)lane_team_draw(at, n))
#define lane_team_count(team, mine)          ((void)(team), simt_barrier((int)(mine), SIMT_HERE))

#endif
