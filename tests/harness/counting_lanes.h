/* Lane primitives that count what one thread does: lines taken, words loaded one by one, and writes. */
#ifndef LOOM_TESTS_COUNTING_LANES_H
#define LOOM_TESTS_COUNTING_LANES_H

#include "machines/cpu/core/cpu_lanes_scalar.h"

static uint64_t lines_taken, words_loaded;
static const void *last_line, *last_word;

typedef struct lane_writes {
    uint64_t swaps, lost_swaps; /* compare-and-swaps */
    uint64_t ors, idle_ors;     /* idle: the bits were set already */
    uint64_t stores;
    uint64_t fences; /* releases and acquires with `shared` */
} lane_writes;

static lane_writes writes;

LOOM_LANE uint64_t counted_swap_8(uint64_t *at, uint64_t expected, uint64_t wanted, int shared)
{
    const uint64_t old = lane_swap_8(at, expected, wanted, shared);
    writes.swaps++;
    writes.lost_swaps += old != expected;
    return old;
}

LOOM_LANE uint32_t counted_swap_4(uint32_t *at, uint32_t expected, uint32_t wanted, int shared)
{
    const uint32_t old = lane_swap_4(at, expected, wanted, shared);
    writes.swaps++;
    writes.lost_swaps += old != expected;
    return old;
}

LOOM_LANE void counted_or_8(uint64_t *at, uint64_t bits, int shared)
{
    writes.ors++;
    writes.idle_ors += (lane_load_8(at) & bits) == bits;
    lane_or_8(at, bits, shared);
}

LOOM_LANE void counted_or_4(uint32_t *at, uint32_t bits, int shared)
{
    writes.ors++;
    writes.idle_ors += (lane_load_4(at) & bits) == bits;
    lane_or_4(at, bits, shared);
}

#define lane_take(group, line, at, shared, active, span) \
    (lines_taken++, last_line = (at), lane_take(group, line, at, shared, active, span))
#define lane_load_8(at)                           (words_loaded++, last_word = (at), lane_load_8(at))
#define lane_load_4(at)                           (words_loaded++, last_word = (at), lane_load_4(at))
#define lane_swap_8(at, expected, wanted, shared) counted_swap_8(at, expected, wanted, shared)
#define lane_swap_4(at, expected, wanted, shared) counted_swap_4(at, expected, wanted, shared)
#define lane_or_8(at, bits, shared)               counted_or_8(at, bits, shared)
#define lane_or_4(at, bits, shared)               counted_or_4(at, bits, shared)
#define lane_store_8(at, x)                       (writes.stores++, lane_store_8(at, x))
#define lane_store_4(at, x)                       (writes.stores++, lane_store_4(at, x))
#define lane_release(shared)                      (writes.fences += (shared) != 0, lane_release(shared))
#define lane_acquire(shared)                      (writes.fences += (shared) != 0, lane_acquire(shared))

#endif
