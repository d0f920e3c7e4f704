/* The map behind its handle. */
#ifndef LOOM_API_MAP_H
#define LOOM_API_MAP_H

#include "api/handle.h"
#include "core/table.h"

typedef loom_status (*loom__map_work)(loom__table *table, const loom__batch *batch); /* core/table.h */

struct loom_map {
    loom__handle handle;
    loom__table *table;
    void *workspace; /* the caller's; NULL: none. Changes, with its bytes, only inside the gate, as a writer */
    uint64_t workspace_bytes;
    double growth;         /* 0: none. Changes only inside the gate, as a writer */
    uint64_t memory_limit; /* of the table, in bytes; 0: none. Changes only inside the gate, as a writer */
    /* A capacity from which the table cannot grow within its limit; UINT64_MAX: none is known. Changes when it is a call's alone. */
    uint64_t limited_at;
    uint64_t generation; /* one more after each call that may have written; cursors compare it */
};

/* Wraps a table in a handle; takes the table over in any case. */
loom_status loom__map_wrap(loom_context *context, loom__table *table, loom_map **map);

/* Every call on a map begins with this: the handle and the stream. */
loom_status loom__map_check(loom_map *map, loom_stream stream);

/* A set has no arrays of values. */
loom_status loom__map_check_values(const loom_map *map, const char *name, const void *values);

/* ---- How much memory (map_limit.c) ---- */

#define LOOM__DEFAULT_LOAD 0.8

/* What a table would take, its handle included. `config` is complete. */
loom_status loom__map_measure(loom_context *context, const loom_map_config *config, loom_memory *memory);

/* Sees to it that the table stays within its limit: makes it fuller, if its load is open. OUT_OF_MEMORY and a sentence, if that cannot be. */
loom_status loom__map_limit_config(loom_context *context, int load_is_open, loom_map_config *config);

/* What a table takes, its handle included. */
uint64_t loom__map_table_bytes(const loom_map *map);

/* These ask about the table as it would be with another capacity. */

/* OUT_OF_MEMORY and a sentence, if it would take more than its limit. */
loom_status loom__map_check_limit(const loom_map *map, uint64_t capacity);

/* Would it take less than now? */
int loom__map_is_smaller(const loom_map *map, uint64_t capacity);

/* Is it known that it cannot grow? */
int loom__map_is_limited(const loom_map *map);

/* Lowers *capacity to what the limit allows. OUT_OF_MEMORY and a sentence, if that is not `least` keys. */
loom_status loom__map_limit_growth(loom_map *map, uint64_t least, uint64_t *capacity);

/* OK, or INVALID_ARGUMENT and a sentence. */
loom_status loom__map_check_growth(double growth);

/* A batch that might not fit, put into a table that grows. The table is the caller's alone. *outcome tells what became of the
 * batch in the end. */
loom_status loom__map_run_growing(loom_map *map, loom__map_work work, const loom__batch *batch, loom_result *outcome);

/* Enters for a call that gives a batch to the table, or, as a build, makes it its contents. If the keys might not fit, and the
 * table may grow, *access becomes ALONE and *grows 1. It becomes ALONE, too, if the batch had better go by partition, which
 * then stands in the batch. Nobody comes in between: whoever inserts is alone among the host's threads from here until it
 * leaves, and what it brings is noted by then. */
loom_status loom__map_enter_inserting(loom_map *map, loom__access *access, int builds, loom__batch *batch, int *grows);

/* Leaves after a call that wrote: if the table wants upkeep it gets it, alone, behind the call; nobody waits for it. */
void loom__map_leave_written(loom_map *map, loom__access access, loom_stream stream);

#endif
