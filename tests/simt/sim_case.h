/* What runs in the lane simulator on an open table: cases, scenarios, and the verdict on a run. For filters:
 * sim_filter.h. For perfect tables: sim_perfect.h, sim_perfect_room.h, sim_perfect_repair.h. For multimaps:
 * sim_chain.h. For tables with rows: sim_rows.h. For boards of tickets: sim_tickets.h.
 *
 * A *case* names the operations of two streams that may overlap. A seed draws a *scenario* from a case: widths, lanes
 * of a group, buckets, the contents of the table, the items of each call. The table is small and the keys are few, so
 * that calls get into each other's way. A *run* is a scenario under one schedule. */
#ifndef LOOM_SIM_CASE_H
#define LOOM_SIM_CASE_H

#include "simt/machine/simt.h"
#include "simt/machine/simt_open.h"

enum {
    SIM_MOST_KEYS = 160,
    SIM_MOST_ITEMS = 4, /* of a call */
    SIM_MOST_CALLS = 6,
    SIM_HOT_KEYS = 4, /* calls use only these keys */
    SIM_STEP_LIMIT = 30000
};

/* Which operations the calls of a stream are drawn from. */
enum {
    SIM_FIND = 1 << SIMT_MAP_FIND,
    SIM_KEEP = 1 << SIMT_MAP_KEEP,
    SIM_OVERWRITE = 1 << SIMT_MAP_OVERWRITE,
    SIM_FETCH = 1 << SIMT_MAP_FETCH,
    SIM_COMBINE = 1 << SIMT_MAP_COMBINE,
    SIM_RESERVE = 1 << SIMT_MAP_RESERVE,
    SIM_APPEND = 1 << SIMT_MAP_APPEND, /* these three of multimaps, whose keys SIM_ERASE erases */
    SIM_COUNT = 1 << SIMT_MAP_COUNT,
    SIM_FIND_ALL = 1 << SIMT_MAP_FIND_ALL,
    SIM_UPDATE = 1 << SIMT_MAP_UPDATE,
    SIM_ERASE = 1 << SIMT_MAP_ERASE,
    SIM_ERASE_IF = 1 << SIMT_MAP_ERASE_IF,
    SIM_UPKEEP = 1 << SIMT_MAP_UPKEEP, /* alone, in a stream of its own */
    SIM_ROOM = 1 << SIMT_MAP_ROOM,     /* of perfect tables; alone, too */
    SIM_RECODE = 1 << SIMT_MAP_RECODE, /* the same */
    SIM_REPAIR = 1 << SIMT_MAP_REPAIR, /* the same */
    SIM_MOVES = SIM_ROOM | SIM_RECODE, /* cells move: sim_perfect_room.h */
    SIM_INSERT = SIM_KEEP | SIM_OVERWRITE,
    SIM_MIXED = SIM_KEEP | SIM_FETCH | SIM_ERASE, /* may run at the same time if keys are retired */
    SIM_OF_SETS = SIM_FIND | SIM_KEEP | SIM_ERASE | SIM_ERASE_IF | SIM_UPKEEP /* what makes sense without values */
};

typedef struct sim_case {
    const char *name;
    const char *about;
    uint32_t streams[SIMT_MOST_STREAMS]; /* SIM_… */
    int crowded;                         /* two free slots at most, for more keys */
    int at_rest;                         /* nothing writes: finds use loads that are not coherent */
    int mixed;                           /* insertions and erasures at once: keys are retired, and swept afterwards */
    int unread;                          /* without lookups: most calls leave out what only lookups need */
    int sets;                            /* also for sets, which get only the operations of SIM_OF_SETS */
    int handles;                         /* of values of 8 bytes: handles of lists */
    int filter;                          /* of a filter: SIM_KEEP inserts, SIM_FIND asks, items of a call do either */
    int tells_new;                       /* of a filter: insertions tell which keys were new */
    int perfect;                         /* of a perfect table */
    int chain;                           /* of a multimap of the chain engine */
    int rows;                            /* of a table with rows */
    int tickets;                         /* of a table with a board of tickets */
    int large;                           /* lists are LARGE, or become so (core/list_handle.h) */
    int brim;                            /* the heap has room for one large bucket or some small ones */
    int counts;                          /* groups count the values of a key after they have appended to it */
    int takes;                           /* of a table with rows: lookups take rows, as writers of wide values do */
    int strings;                         /* of a table with rows: keys, values or both are byte strings */
    int forbidden;                       /* the header does not allow it; here to see what goes wrong */
    int by_slot;                         /* of a table with rows: the first stream erases by numbers of slots */
} sim_case;

extern const sim_case sim_cases[];
extern const uint32_t sim_case_count;

/* The machine that sets tables up before a run and surveys them afterwards. */
struct loom__machine *sim_cpu(void);
const sim_case *sim_case_named(const char *name); /* NULL: there is none */

typedef struct sim_options {
    simt_open_kernel
        *kernel;        /* NULL: as it is in the library; kernels of filters and perfect tables are of the same type */
    int tiny;           /* one lane to a warp, one item to a call, two calls: for exhaustive search */
    FILE *report;       /* where a failure is reported; NULL: nowhere */
    const char *replay; /* how to replay it, for the report: "--seed 5 --case …" */
    uint32_t trace;     /* steps shown; 0: 60 */
    int tell_always;    /* also runs without a failure */
} sim_options;

/* One run; the scenario and the schedule, random or by priority, follow from the seed. 1: all is well. */
int sim_run(const sim_case *c, uint64_t seed, const sim_options *options);

/* All runs of the scenario with up to `detours` detours, but at most `most_runs`. *runs is their number. *complete is 1
 * if no run was left out. Returns 1 if all is well. */
int sim_explore(const sim_case *c, uint64_t seed, uint32_t detours, uint64_t most_runs, const sim_options *options,
                uint64_t *runs, int *complete);

/* ---- Plants: the algorithms with one fault each, listed in plants.cmake ---- */

typedef struct sim_plant {
    const char *name;
    const char *case_name; /* where it shows */
    simt_open_kernel *kernel;
} sim_plant;

extern const sim_plant sim_plants[];
extern const uint32_t sim_plant_count;

#endif
