/* Runs a case with its first seeds: `normal` of them in the long tier, a quarter in the short tier. A failing run
 * prints its seed and how to replay it. The seeds are the same every time, so that a run that passes here passes
 * everywhere. */
#ifndef LOOM_SIM_TEST_H
#define LOOM_SIM_TEST_H

#include "harness/harness.h"
#include "simt/sim_case.h"

enum { RUNS = 12000 };

static inline void run_case(test_run *t, const char *name, uint64_t normal)
{
    const sim_case *c = sim_case_named(name);
    CHECK(c != NULL);
    char replay[100];
    sim_options options = {.report = stderr, .replay = replay};
    const uint64_t runs = test_scaled(t, t->short_tier ? normal / 4 : normal, normal / 20);
    for (uint64_t seed = 0; seed < runs; seed++) {
        snprintf(replay, sizeof replay, "--case %s --seed %llu", name, (unsigned long long)seed);
        if (!sim_run(c, seed, &options))
            FAIL("seed %llu of %s; see above", (unsigned long long)seed, name);
    }
}

#endif
