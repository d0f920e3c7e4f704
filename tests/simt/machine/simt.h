/* The lane simulator: a GPU under a microscope, for tests only. docs/simulator.md describes how it is used.
 *
 * A *lane* is a coroutine. Lanes form groups (of 1, 2, 4 or 8), warps (of 32, or fewer for exhaustive search), blocks
 * and *calls*. A call is a launched kernel. A *stream* runs its calls one after the other. Streams run at the same
 * time. There is one machine at a time in a process.
 *
 * Every access to shared memory, every fence and every collective (ballot, shuffle, synchronisation of lanes, barrier)
 * is a scheduling point: before it, the *schedule* (simt_schedule.h) may let any other lane go on. Between two points a
 * lane runs undisturbed, and touches no shared memory.
 *
 * Memory is weak (simt_memory.h): a store waits in its lane's buffer, a load may return an old value.
 *
 * Collectives. A lane that arrives waits until all lanes of the mask have arrived at the same collective: the same
 * instruction, at the same place in the source, with the same mask. Other lanes of the warp may be anywhere. As on a
 * GPU, it is an error if two lanes wait for each other at different collectives, or if one of them has left the kernel.
 *
 * Every error (these, an address outside the table, more steps than the limit) ends the run as a *failure*: a sentence,
 * and the last steps of all lanes.
 *
 * Room for a crash mode: every store becomes visible in one function (append, simt_memory.c). There a run would be
 * stopped, and there a line would count as persistent or not. */
#ifndef LOOM_SIMT_H
#define LOOM_SIMT_H

#include "core/combine.h"
#include "simt/machine/simt_fiber.h"
#include "simt/machine/simt_memory.h"
#include "simt/machine/simt_schedule.h"

#include <stdio.h>

enum {
    SIMT_WARP = 32,
    SIMT_MOST_LANES = 512, /* of one run */
    SIMT_MOST_CALLS = 16,
    SIMT_MOST_STREAMS = 2,
    SIMT_TRACE = 4096 /* steps that are remembered */
};

/* A place in the algorithms' source. */
typedef struct simt_site {
    const char *file;
    int line;
    const char *function;
} simt_site;

#define SIMT_HERE                                                           \
    ({                                                                      \
        static const simt_site simt_here_ = {__FILE__, __LINE__, __func__}; \
        &simt_here_;                                                        \
    })

typedef enum simt_op {
    SIMT_START,
    SIMT_LOAD,
    SIMT_STORE,
    SIMT_DRAIN, /* a store leaves its buffer */
    SIMT_SWAP,
    SIMT_OR,
    SIMT_FETCH_OR,
    SIMT_AND,
    SIMT_ADD,
    SIMT_COMBINE,
    SIMT_RELEASE,
    SIMT_ACQUIRE,
    SIMT_BALLOT,
    SIMT_SHUFFLE,
    SIMT_SYNC,
    SIMT_BARRIER,
    SIMT_END
} simt_op;

typedef struct simt_call {
    void (*kernel)(void *argument); /* run by every lane */
    void *argument;
    const char *name;
    uint32_t groups; /* of lanes; the last warp is filled up with idle ones, as on a GPU */
    uint32_t warps_per_block;
    int writes;              /* others must not read without coherent loads while it runs */
    uint64_t began, ended;   /* steps; `ended` is 0 while it runs */
    uint32_t lanes, running; /* running: not yet at their end, or with stores in their buffers */
} simt_call;

typedef enum simt_lane_state { SIMT_UNUSED, SIMT_RUNNABLE, SIMT_WAITING, SIMT_ENDED } simt_lane_state;

typedef struct simt_lane {
    simt_fiber fiber;
    simt_memory_lane memory;
    simt_call *call;
    simt_lane_state state;
    uint32_t index;    /* in the call */
    uint32_t in_warp;  /* lane number */
    uint32_t warp;     /* in the call */
    uint32_t block;    /* in the call */
    uint32_t position; /* in machine.runnable */
    uint32_t item;     /* what it works on, for traces */
    const simt_site *site;
    simt_op op;
    /* at a collective */
    uint32_t mask; /* lanes of its warp; a barrier concerns the block */
    uint64_t given;
    uint64_t taken;         /* a shuffle's source, and then its result; a ballot's result */
    uint64_t priority, ran; /* ran: the step at which it last went on */
    uint64_t age; /* the number of the barrier that it passed last, or of its call's beginning; never the same again */
} simt_lane;

typedef struct simt_event {
    uint64_t step;
    const simt_call *call;
    uint32_t lane, item;
    simt_op op;
    const simt_site *site;
    int64_t word; /* of shared memory; -1: none */
    uint64_t value, wanted;
    int stale; /* a load that did not return the newest value; a swap that failed */
} simt_event;

typedef struct simt_config {
    uint32_t group_lanes; /* 1, 2, 4 or 8 */
    uint32_t warp_lanes;  /* at most SIMT_WARP, a multiple of group_lanes */
    int turn_together;    /* votes are the warp's, not the group's */
    int weak_memory;
    uint64_t step_limit;
} simt_config;

typedef struct simt_machine {
    simt_config config;
    simt_memory memory;
    simt_schedule *schedule;
    simt_call calls[SIMT_MOST_CALLS];
    uint32_t call_count;
    simt_call *stream[SIMT_MOST_STREAMS][SIMT_MOST_CALLS];
    uint32_t stream_length[SIMT_MOST_STREAMS], stream_next[SIMT_MOST_STREAMS];
    simt_lane *lanes; /* [SIMT_MOST_LANES] */
    uint32_t used_lanes;
    uint32_t runnable[SIMT_MOST_LANES], runnable_count;
    simt_lane *current; /* NULL: outside all lanes */
    simt_fiber outside;
    uint64_t steps;
    uint64_t points; /* accesses and fences; the others are collectives */
    uint64_t ages;   /* that were given to lanes, in all runs */
    simt_event trace[SIMT_TRACE];
    uint64_t traced;
    char failure[512]; /* "" while all is well */
    /* For traces; both may be NULL. The first names a word of shared memory, the second says which steps matter. */
    void (*name_word)(const void *at, char *text, size_t bytes);
    int (*matters)(const simt_event *event);
} simt_machine;

extern simt_machine simt;

/* Makes the machine, once; then for every run: begin, launch …, run. `shared` is what lanes may touch; aligned to 8. */
void simt_begin(const simt_config *config, simt_schedule *schedule, void *shared, size_t bytes);
/* Appends a call to a stream. */
simt_call *simt_launch(uint32_t stream, const simt_call *call);
/* Until all calls have ended or something failed. Returns 1 if all is well. */
int simt_run(void);
void simt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The last `steps` steps that matter, and where the lanes stand. */
void simt_print(FILE *out, uint32_t steps);

/* How lanes touch the memory of their team. */
typedef enum simt_use { SIMT_LOADS, SIMT_STORES, SIMT_DRAWS /* atomics */ } simt_use;

/* ---- What lanes do; simt_lanes.h makes the primitives of core/lanes.h of it ---- */

uint64_t simt_load(const void *at, uint32_t bytes, int shared, const simt_site *site);
void simt_store(void *at, uint32_t bytes, uint64_t value, const simt_site *site);
uint64_t simt_swap(void *at, uint32_t bytes, uint64_t expected, uint64_t wanted, const simt_site *site);
void simt_or(void *at, uint32_t bytes, uint64_t bits, const simt_site *site);
uint64_t simt_fetch_or(void *at, uint32_t bytes, uint64_t bits, const simt_site *site); /* at once */
uint64_t simt_and(void *at, uint32_t bytes, uint64_t bits, const simt_site *site);
uint64_t simt_add(void *at, uint64_t addend, const simt_site *site);
uint64_t simt_combine(void *at, uint32_t bytes, loom__combine_rule rule, uint64_t value, const simt_site *site);
/* Before an access to the memory of a team: it is an error if another lane has touched it since the last barrier,
 * unless both load, both draw, or both store the same value. */
void simt_touch(const void *at, uint32_t bytes, simt_use use, uint64_t value, const simt_site *site);
void simt_release(const simt_site *site);
void simt_acquire(const simt_site *site);
/* Bit i of the result: what lane i of the warp gave; 0 for lanes outside the mask. */
uint32_t simt_ballot(uint32_t mask, int mine, const simt_site *site);
/* What lane `source` of the warp, which is in the mask, gave. */
uint64_t simt_shuffle(uint32_t mask, uint64_t mine, uint32_t source, const simt_site *site);
/* What any lane of the mask saw or wrote before, all of them see after. */
void simt_sync(uint32_t mask, const simt_site *site);
/* The same for a block; returns how many of its lanes gave `mine`. */
uint32_t simt_barrier(int mine, const simt_site *site);
/* The lanes of the running lane's group, of its warp, and of what turns together with it. */
uint32_t simt_group_mask(void);
uint32_t simt_warp_mask(void);
uint32_t simt_turn_mask(void);

/* A number below n, chosen by the schedule, for the order of things that have none. */
uint32_t simt_any_below(uint32_t n);

#endif
