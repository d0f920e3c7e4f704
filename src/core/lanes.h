/* The primitives that an engine's algorithms are written against, and that every machine supplies.
 *
 * A *lane group* works on one key. On the cpu machine a thread is the whole group; on a GPU it is 1, 2, 4 or 8 lanes,
 * each holding its share of a bucket's line in registers; in the lane simulator each lane is a coroutine. The including
 * file names the machine's header in LOOM_LANES_HEADER; that header defines:
 *
 *   lane_group                         which lane of which group this is; nothing on a CPU
 *   lane_line                          this lane's share of one 64-byte line, as it was when it was taken
 *   lane_slots                         a set of this lane's slots
 *
 *   lane_prefetch(at), lane_prefetch_to_write(at)
 *                                      say that the line will be taken soon
 *   lane_take(group, line, at, shared) copies the line: each aligned 8-byte word once, never re-read. With shared = 0
 *                                      nobody writes the line meanwhile and the copy may be put off
 *   lane_match(line, key_bytes, stride, slots, key)
 *                                      this lane's slots whose key (key_bytes wide, stride apart) equals `key`
 *   lane_any(set)                      is there one?
 *   lane_first(set, stride)            the number, in the bucket, of the first one; anything within the line if there is none
 *   lane_word(line, index)             8-byte word `index` of the line, which this lane holds
 *   lane_filter(group, line)           the line's last word; 0 on lanes that do not hold it
 *
 *   lane_vote(group, mine)             is `mine` true on any lane of the group? All lanes must arrive
 *   lane_elect(group, mine)            true on the lowest lane of the group for which `mine` is true. All must arrive
 *
 *   lane_load_8 / lane_load_4(at)      relaxed load
 *   lane_store_8 / lane_store_4(at, x) relaxed store
 *   lane_swap_8 / lane_swap_4(at, expected, wanted, shared)
 *                                      compare and swap, acquire and release; returns what was there
 *   lane_or_8 / lane_and_8(at, bits, shared)
 *                                      atomic, acquire and release; returns what was there
 *   lane_fence(shared)                 what this lane read and wrote before comes before what it reads and writes after
 *   With shared = 0 the group owns what it touches and these are plain loads and stores.
 *
 * Votes and elections never stand inside a branch that lanes of one group may take differently. */
#ifndef LOOM_CORE_LANES_H
#define LOOM_CORE_LANES_H

#include "core/portable.h"

#ifndef LOOM_LANES_HEADER
#error "define LOOM_LANES_HEADER: the machine's primitives"
#endif
#include LOOM_LANES_HEADER

#endif
