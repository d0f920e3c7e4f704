/* Batches that mix operations (loom_map_apply). */
#ifndef LOOM_API_MAP_APPLY_H
#define LOOM_API_MAP_APPLY_H

#include "api/map.h"
#include "core/engine.h"
#include "core/operations.h"

/* UNSUPPORTED and a sentence: tables of this engine take no such batches. */
loom_status loom__apply_check_engine(const loom__engine *engine);

/* Operations, or a part of them, inside the gate. */
typedef struct loom__application {
    loom_map *map;
    loom__parts *parts;
    const uint8_t *operations; /* [n]; those that are none change nothing and get no status */
    const uint64_t *counts;    /* [LOOM__KINDS] rows of each kind; NULL: not known */
    uint32_t *places;          /* of a loom__kind_order, if counts are known; NULL: there was no memory */
    const unsigned char *keys, *values;
    unsigned char *found;
    uint8_t *status;
    uint64_t n;
    loom_stream stream;
    uint32_t brings;    /* which of the arrays the machine must be brought: 1 << loom__applied_array */
    int equal_in_order; /* multimaps: values of equal keys are stored in the order of their rows */
} loom__application;

typedef enum loom__applied_array {
    LOOM__APPLIED_OPERATIONS,
    LOOM__APPLIED_KEYS,
    LOOM__APPLIED_VALUES,
    LOOM__APPLIED_FOUND,
    LOOM__APPLIED_STATUS
} loom__applied_array;

/* Both add the outcome of what is done to *sum.
 *   loom__apply_by_kind   any number of rows, one kind of operation after the other, in parts if memory is short.
 *                         `status` may be the array of operations
 *   loom__apply_in_order  a part of at most 2^24 rows, as the rows come. OUT_OF_MEMORY without `tried` of
 *                         loom__parts: nothing is done, and a smaller part may succeed */
loom_status loom__apply_by_kind(const loom__application *rows, loom_result *sum);
loom_status loom__apply_in_order(const loom__application *part, loom_result *sum);

/* ---- Temporary memory of a part ---- */

static inline int loom__apply_brings(const loom__application *part, loom__applied_array which)
{
    return part->brings >> which & 1;
}

/* If the machine must be brought the array, copies n elements to `room`, and points to where they lie now. */
loom_status loom__apply_bring(const loom__application *part, loom__applied_array which, const unsigned char **array,
                              uint64_t width, unsigned char *room);

#endif
