/* The primitives that engines' algorithms are written against. Every machine supplies them.
 *
 * A *lane group* works on one key. On the cpu machine a thread is the whole group. On a GPU a group is 1, 2, 4 or 8
 * lanes, each with its share of a bucket's line in registers. In the lane simulator each lane is a coroutine. The
 * including file names the machine's header in LOOM_LANES_HEADER; that header defines the names below.
 *
 * A *team* works on one partition: a thread block on a GPU, a thread on a CPU, all lanes of a call in the simulator.
 * Its lanes form groups, and each group runs by itself. A team has some memory of its own beside the table: shared
 * memory on a GPU.
 *
 * [poll] marks a primitive at which all lanes must arrive; lane_poll states the rule.
 *
 *   lane_group                         which lane of which group this is; nothing on a CPU
 *   lane_line                          this lane's share of one 64-byte line, as the line was when it was taken
 *   lane_slots                         a set of this lane's slots
 *   lane_votes                         how the lanes of a group voted
 *   lane_truth                         0 or 1: on a CPU a number that must not become a branch, on a GPU a predicate
 *
 *   lane_prefetch(at), lane_prefetch_to_write(at)
 *                                      announce that the line will be taken soon
 *   lane_take(group, line, at, shared, active, span)
 *                                      copies the line: each aligned 8-byte word once, in any order, never re-read.
 *                                      With shared = 0 nobody writes the line meanwhile, and the copy may be deferred.
 *                                      With active = 0 nothing is read, and the contents of the line are meaningless.
 *                                      Hint: the `span` bytes from `at` on, 64 or 128, will probably be needed
 *   lane_match(line, key_bytes, stride, slots, key)
 *                                      this lane's slots whose key equals `key`. Keys are key_bytes wide, 8, 4 or 2,
 *                                      and `stride` bytes apart, from the beginning of the line on. Slots of 2 bytes
 *                                      fill the line, or all of it except its last word
 *   lane_any(set)                      whether the set has a slot
 *   lane_first(set, stride)            the number in the bucket of the set's first slot. If the set is empty: any
 *                                      number within the line
 *   lane_rest(set, stride)             the set without its first slot
 *   lane_word(line, set, slot)         the 8-byte word of the set's first slot, whose number is `slot`. If the set is
 *                                      empty: any word
 *   lane_filter(group, line, at, bit)  whether this bit of the word at byte `at` of the line is set; 0 on lanes without
 *                                      the word. The word has 8 bytes, or 4 if `at` is no multiple of 8
 *
 *   lane_words(group), lane_first_word(group)
 *                                      how many words of a line this lane holds, and the number of the first
 *   lane_own_word(line, i)             the i-th word that this lane holds; `i` is a literal or counts an unrolled loop
 *   lane_line_word(line, i)            word i of the line, in a group of one lane; cheapest where `i` is a literal or
 *                                      counts an unrolled loop
 *   lane_four_bytes(group, line, at)   the 4 bytes at byte `at` of the line, on all lanes [poll]
 *
 *   lane_poll(group, mine)             the votes of the group's lanes. All lanes must arrive: those of the group or, on
 *                                      a machine whose groups run in lockstep, those of the whole warp. Orders no
 *                                      memory access
 *   lane_some(votes)                   whether any lane voted 1
 *   lane_chosen(group, votes)          whether this is the lowest lane that voted 1
 *   lane_count(votes)                  how many lanes voted 1
 *   lane_sum(group, x)                 8 bytes: the sum of x over the lanes of the group [poll]
 *   lane_least(group, x)               4 bytes: the least x of the group [poll]
 *   lane_leads(group)                  whether this is the lowest lane of the group
 *   lane_going(group, mine)            whether `mine` is true on any lane that runs in lockstep with this one [poll]
 *   lane_join(group, shared)           what any lane of the group saw or wrote before, all of them see after [poll]
 *   lane_sync(group, shared)           all lanes of the group arrive; what one saw or wrote before, all see after
 *
 *   lane_load_8 / lane_load_4(at)      relaxed load
 *   lane_reload_8 / lane_reload_4(at, shared)
 *                                      relaxed load from a line that this group has taken, with the same `shared`
 *   lane_store_8 / lane_store_4(at, x) relaxed store
 *   lane_swap_8 / lane_swap_4(at, expected, wanted, shared)
 *                                      compare and swap, relaxed; returns the old value
 *   lane_or_8 / lane_or_4(at, bits, shared)
 *                                      atomic OR, relaxed
 *   lane_fetch_or_8 / lane_and_8 / lane_and_4(at, bits, shared)
 *                                      atomic OR / AND, relaxed; returns the old value
 *   lane_draw_8(at, n, shared)         atomic addition, relaxed; returns the old value. On a GPU the additions of a
 *                                      warp are one: the old value may be one that was never in memory
 *   lane_combine_8 / lane_combine_4(at, rule, value, shared)
 *                                      atomic, relaxed: stores loom__combine_8/4 of the old value and `value`
 *   lane_same_bytes(at, bytes, n)      whether n bytes of the table equal those at `bytes`. Nobody writes them
 *   lane_read_bytes(to, at, n), lane_write_bytes(at, from, n)
 *                                      copy n bytes out of the table or into it. Others may do the same; what is read
 *                                      may then be a mixture
 *   lane_same_string(at, bytes, n), lane_write_string(at, from, n)
 *                                      the same for a string of the table: `at` is a multiple of 8, the other address
 *                                      is any. Writing makes the rest of the last 8 bytes zero
 *   lane_release(shared)               what this lane read and wrote before comes before what it writes after
 *   lane_acquire(shared)               what this lane read before comes before what it reads and writes after
 *   The caller passes shared = 0 if nobody writes what is read, or if the group has one lane and owns what it touches.
 *   These primitives are then plain loads and stores.
 *
 *   lane_team                          which lane of which team this is; nothing on a CPU
 *   lane_team_rank(team), lane_team_size(team)
 *                                      this lane's number, and the number of lanes
 *   lane_team_wait(team)               all lanes of the team arrive; what any of them saw or wrote before, in the table
 *                                      or in the team's memory, all see after
 *   lane_team_load / lane_team_store(at[, x]), lane_team_load_4 / lane_team_store_4(at[, x])
 *                                      8 or 4 bytes of the team's memory; lanes that touch the same bytes wait in
 *                                      between
 *   lane_team_load_1 / lane_team_store_1(at[, x])
 *                                      1 byte of the team's memory
 *   The next four work on 4 bytes of the team's memory. Many lanes may call them on the same bytes at once.
 *   lane_team_draw(at, n)              adds n and returns the old value
 *   lane_team_least(at, x)             stores x if it is less than the old value
 *   lane_team_or(at, bits)             sets bits and returns the old value
 *   lane_team_swap(at, expected, wanted)
 *                                      compares and swaps; returns the old value
 *   lane_team_add(team, at, x)         all lanes of a warp arrive. Each adds its x to the same 4 bytes of the team's
 *                                      memory, as lane_team_draw does
 *   lane_team_count(team, mine)        waits like lane_team_wait; returns on how many lanes `mine` is true
 *
 * Polls, sums and joins never stand inside a branch that lanes of one warp may take differently. Exception: a group
 * that runs by itself, as a team's groups do. lane_sync may stand in a branch that a group takes as a whole. */
#ifndef LOOM_CORE_LANES_H
#define LOOM_CORE_LANES_H

#include "core/combine.h"
#include "core/portable.h"

#ifndef LOOM_LANES_HEADER
#error "define LOOM_LANES_HEADER: the machine's primitives"
#endif
#include LOOM_LANES_HEADER

#ifndef LANE_HAS_STRINGS /* a machine may have better ones */
LOOM_LANE lane_truth lane_same_string(const unsigned char *at, const unsigned char *bytes, uint32_t n)
{
    return lane_same_bytes(at, bytes, n);
}

LOOM_LANE void lane_write_string(unsigned char *at, const unsigned char *from, uint32_t n)
{
    if (n % 8 != 0)
        lane_store_8((uint64_t *)(at + n / 8 * 8), 0);
    lane_write_bytes(at, from, n);
}
#endif

#endif
