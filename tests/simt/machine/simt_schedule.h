/* The random decisions of a run: which lane goes next, which old value a load returns, when a buffered store
 * becomes visible.
 *
 *   random      any runnable lane, at every point. The seed also chooses how often a lane continues, how often a
 *               load is stale and how fast buffers drain.
 *   priority    lanes have random priorities, and the highest one goes. At a few random accesses the running lane
 *               drops to the bottom: few switches at the right places find most bugs ("A Randomized Scheduler with
 *               Probabilistic Guarantees of Finding Bugs", Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS
 *               2010).
 *   exhaustive  every run with a bounded number of *detours*: switches away from a lane that could go on, stale
 *               loads, stores that stay in their buffer. One run after the other, in depth-first order, until none
 *               is left.
 *
 * In all of them the lane that waited longest runs every now and then, so that a lane that another one waits for
 * gets its turn. The same seed, or the same path, gives the same run. */
#ifndef LOOM_SIMT_SCHEDULE_H
#define LOOM_SIMT_SCHEDULE_H

#include <stdint.h>

enum { SIMT_LONGEST_PATH = 1 << 14, SIMT_MOST_DROPS = 4 };

/* Priorities that lanes begin with: this and 32 random bits. */
#define SIMT_MIDDLE_PRIORITY ((uint64_t)1 << 33)

typedef enum simt_schedule_kind { SIMT_RANDOM, SIMT_PRIORITY, SIMT_EXHAUSTIVE } simt_schedule_kind;

typedef struct simt_schedule {
    simt_schedule_kind kind;
    uint64_t state; /* of the generator */
    /* random */
    uint32_t stay, stale, drain; /* in 256ths */
    /* priority */
    uint64_t drops[SIMT_MOST_DROPS]; /* at these accesses to memory */
    uint64_t lowest, highest;        /* beyond all priorities in use */
    /* exhaustive: the choices made so far, and how many there were of each */
    uint32_t most_detours, detours;
    uint32_t length, at;
    uint16_t chosen[SIMT_LONGEST_PATH], choices[SIMT_LONGEST_PATH];
} simt_schedule;

void simt_schedule_random(simt_schedule *schedule, uint64_t seed);
/* Drops are spread over the first `span` accesses to memory. */
void simt_schedule_priority(simt_schedule *schedule, uint64_t seed, uint32_t span);
/* The first run; then simt_schedule_next until it returns 0. */
void simt_schedule_exhaustive(simt_schedule *schedule, uint32_t most_detours);
int simt_schedule_next(simt_schedule *schedule);

/* A number below n (at least 1). With `detour`, anything but 0 is one, and 0 is taken when no more are allowed. */
uint32_t simt_schedule_choose(simt_schedule *schedule, uint32_t n, int detour);
uint64_t simt_schedule_number(simt_schedule *schedule);
/* True in `in_256` of 256 cases. */
int simt_schedule_chance(simt_schedule *schedule, uint32_t in_256);

#endif
