/* Lane primitives in plain C, for every processor. */
#ifndef LOOM_CPU_LANES_SCALAR_H
#define LOOM_CPU_LANES_SCALAR_H

#include "machines/cpu/core/cpu_lanes_common.h"

LOOM_LANE void lane_copy_vectors(lane_line *line, const unsigned char *at)
{
    lane_copy_words(line, at);
}

LOOM_LANE lane_slots lane_match(const lane_line *line, uint32_t key_bytes, uint32_t stride, uint32_t slots,
                                uint64_t key)
{
    lane_slots set = {0};
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t there = 0;
        memcpy(&there, line->at + slot * stride, key_bytes); /* little-endian: asserted in cpu_machine.c */
        set.bits |= (uint64_t)(there == key) << slot;
    }
    return set;
}

LOOM_LANE uint32_t lane_first(lane_slots set, uint32_t stride)
{
    (void)stride;
    return set.bits ? (uint32_t)__builtin_ctzll(set.bits) : 7;
}

LOOM_LANE lane_slots lane_rest(lane_slots set, uint32_t stride)
{
    (void)stride;
    set.bits &= set.bits - 1;
    return set;
}

#endif
