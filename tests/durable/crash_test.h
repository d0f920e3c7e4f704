/* Every crash point of short histories on the model disk: the map that comes back must be the one after some commit,
 * and not an older one than the last that was synced. */
#ifndef LOOM_TESTS_CRASH_TEST_H
#define LOOM_TESTS_CRASH_TEST_H

#include <stdint.h>

typedef struct crash_plan {
    uint64_t seed;
    uint32_t histories;
    uint32_t steps;    /* of a history */
    uint32_t samples;  /* power failures tried at each crash point */
    unsigned faults;   /* of the disk: model_fault */
    int stop_at_first; /* violation */
} crash_plan;

typedef struct crash_outcome {
    uint64_t crash_points, recoveries, violations;
    char first[256]; /* what was violated first */
} crash_outcome;

crash_outcome crash_test_run(const crash_plan *plan);

#endif
