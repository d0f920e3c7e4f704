/* Random choices for the scenarios of the lane simulator. A case and a seed decide all choices of a scenario. */
#ifndef LOOM_SIM_DRAW_H
#define LOOM_SIM_DRAW_H

#include "core/hash.h"
#include "simt/sim_case.h"

extern uint64_t sim_random; /* the state of the generator; there is one scenario at a time */

static inline void sim_begin_drawing(const sim_case *c, uint64_t seed)
{
    sim_random = loom__mix64(seed ^ (uint64_t)(c - sim_cases) << 56);
}

/* A number from 0 to n - 1. */
static inline uint32_t below(uint32_t n)
{
    sim_random += 0x9e3779b97f4a7c15u;
    return (uint32_t)((loom__mix64(sim_random) >> 32) * n >> 32);
}

static inline uint64_t any_key(uint32_t key_bytes)
{
    const uint64_t high = (uint64_t)below(UINT32_MAX) << 32, key = high | below(UINT32_MAX);
    return key_bytes == 4 ? key & 0xffffffffu : key;
}

#endif
