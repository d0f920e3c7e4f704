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
    uint32_t brings; /* which of the arrays the machine must be brought: 1 << loom__applied_array */
} loom__application;

typedef enum loom__applied_array {
    LOOM__APPLIED_OPERATIONS,
    LOOM__APPLIED_KEYS,
    LOOM__APPLIED_VALUES,
    LOOM__APPLIED_FOUND,
    LOOM__APPLIED_STATUS
} loom__applied_array;

/* Both run a part of fewer than 2^32 rows, whose arrays lie wherever a call's arrays may, and add its outcome to *sum;
 * sum->keys counts the rows that are done. OUT_OF_MEMORY without a row that is done: the table is unchanged, and a
 * smaller part may succeed.
 *   loom__apply_by_kind   one kind of operation after the other. `status` may be the array of operations
 *   loom__apply_in_order  as the rows come */
loom_status loom__apply_by_kind(const loom__application *part, loom_result *sum);
loom_status loom__apply_in_order(const loom__application *part, loom_result *sum);

/* ---- Temporary memory of a part ---- */

/* Where an array lies in the memory that follows. */
static inline uint64_t loom__apply_place(uint64_t *bytes, uint64_t n, uint64_t width)
{
    const uint64_t at = *bytes;
    *bytes = (at + n * width + 255) / 256 * 256;
    return at;
}

static inline int loom__apply_brings(const loom__application *part, loom__applied_array which)
{
    return part->brings >> which & 1;
}

/* If the machine must be brought the array, copies n elements to `room`, and points to where they lie now. */
loom_status loom__apply_bring(const loom__application *part, loom__applied_array which, const unsigned char **array,
                              uint64_t width, unsigned char *room);

#endif
