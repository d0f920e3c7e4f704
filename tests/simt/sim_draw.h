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

/* What the seed says about groups, warps and memory. Lanes go round, so that no run of seeds leaves a number out. */
static inline simt_config sim_drawn_config(uint64_t seed, int tiny)
{
    return (simt_config){
        .group_lanes = tiny ? 1 : 1u << seed / 4 % 4,
        .warp_lanes = tiny                  ? 1
                      : seed / 128 % 4 == 0 ? SIMT_WARP
                                            : 8, /* small warps spend fewer steps on idle lanes */
        .turn_together = seed / 16 % 2 == 0,
        .weak_memory = tiny || seed / 32 % 4 != 0,
        .step_limit = SIM_STEP_LIMIT,
    };
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
