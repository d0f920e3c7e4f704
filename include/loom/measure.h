/* EXPERIMENTAL: may change in any release. Checks of a table, the cost of its lookups, and the
 * limits of the hardware. */
#ifndef LOOM_LOOM_MEASURE_H
#define LOOM_LOOM_MEASURE_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checks every invariant of the table's layout: each key is in its own partition, is reachable by
 * its probe sequence and is stored once, no two lists of a multimap overlap, and the counts agree.
 *   - Memory   allocates nothing; multimaps: a bit for each value for which there is space
 *   - Runs     synchronous; reader
 *   - Status   INTERNAL: an invariant is violated, by a fault of the library or by damaged memory;
 *              the sentence names the first bad bucket, or the two counts; OUT_OF_MEMORY:
 *              multimaps; all is sound, but lists may overlap */
LOOM_API loom_status loom_map_verify(loom_map *map, loom_stream stream);

/* Counts the buckets that lookups of these keys read: *accesses / n is the cost of one lookup. If
 * the keys were just inserted into a table without erasures, their insertions read as many buckets.
 *   keys     [n] of key_bytes
 *   - Memory   allocates nothing
 *   - Runs     synchronous; reader */
LOOM_API loom_status loom_map_count_accesses(loom_map *map, const void *keys, uint64_t n, uint64_t *accesses,
                                             loom_stream stream);

/* How a bulk call reaches rows in host memory (LOOM_ROWS_IN_HOST_MEMORY). docs/guide.md tells when
 * which one pays. */
typedef enum loom_row_route {
    LOOM_ROW_ROUTE_NONE = 0,
    LOOM_ROW_ROUTE_DIRECT = 1,   /* the device reads and writes each row where it lies */
    LOOM_ROW_ROUTE_ORDERED = 2,  /* the same, in ascending order of addresses: sorts the batch first */
    LOOM_ROW_ROUTE_GATHERED = 3, /* lookups: host threads copy the rows to a buffer for the device */
    LOOM_ROW_ROUTE_STREAMED = 4  /* whole partitions go to the device, and back if the call changes rows */
} loom_row_route;

/* What the last bulk call did that reached rows in host memory. */
typedef struct loom_explanation {
    size_t struct_size;   /* set by LOOM_EXPLANATION_INIT before the call */
    loom_row_route route; /* that the call took; NONE: there was no such call */
    uint32_t reserved;
    uint64_t keys; /* of the call */
    uint64_t rows; /* that it had to reach, as far as the plan knew: lookups: keys whose tag was found */
    /* Seconds, by route: what the plan expected of each; 0: not possible for this call. Batches of
     * less than 32,768 keys go directly, without a plan. */
    double estimate[5];
    double seconds; /* that the call took, from the plan on; 0: it went directly, and nobody waited for it */
    /* Temporary memory on the device that the call had at most at once, to reach the rows
     * (loom_map_set_row_staging). */
    uint64_t staging_bytes;
} loom_explanation;

#define LOOM_EXPLANATION_INIT                                                                     \
    {                                                                                             \
        sizeof(loom_explanation), LOOM_ROW_ROUTE_NONE, 0, 0, 0, {0.0, 0.0, 0.0, 0.0, 0.0}, 0.0, 0 \
    }

/* Explains the last bulk call that reached rows in host memory. A call that passed its arrays in
 * chunks, as pageable arrays are, or went in parts (loom_map_set_row_staging), is told by its last
 * one.
 *   - Memory   allocates nothing
 *   - Runs     reader
 *   - Status   UNSUPPORTED: the rows lie where the machine works, or the engine is tickets, whose
 *              calls go directly */
LOOM_API loom_status loom_map_explain(loom_map *map, loom_explanation *explanation);

/* From now on, calls reach rows in host memory by this route, if it is possible for them; otherwise
 * directly. LOOM_ROW_ROUTE_NONE: the library chooses again.
 *   - Runs     waits for calls of other host threads; writer
 *   - Status   INVALID_ARGUMENT; UNSUPPORTED: as loom_map_explain */
LOOM_API loom_status loom_map_set_row_route(loom_map *map, loom_row_route route);

/* Bounds the temporary memory on the device that one call takes to reach rows in host memory:
 * buffers for rows on their way, lists of keys, their sort. 0: the library chooses, by the size of
 * the batch (docs/guide.md, "Rows in host memory").
 *   bytes   at least 9 to 13 MB, by the width of rows: the sentence of a refusal tells
 *   - With less memory windows and steps are smaller, and large batches go in parts. A route that
 *     does not fit is not taken. In the end a call goes directly, which takes none.
 *   - Growth keeps to the bound, too. What else a call takes is not counted: the new table,
 *     LOOM_IN_ORDER, buffers for arrays in host memory.
 *   - Clones have the bound of their table. Files do not store it.
 *   - The cpu machine checks and keeps the bound. Its calls take no such memory.
 *   - Memory   allocates nothing
 *   - Runs     waits for calls of other host threads, not for work on the device; writer
 *   - Status   after each of these the bound is unchanged. INVALID_ARGUMENT: too few bytes;
 *              UNSUPPORTED: bytes is not 0, and the table has no rows in host memory */
LOOM_API loom_status loom_map_set_row_staging(loom_map *map, uint64_t bytes);

/* What loom_measure_limit measures: the most that the hardware can do. */
typedef enum loom_limit_kind {
    LOOM_LIMIT_COPY = 1,        /* sequential copy; bytes per second, read plus written */
    LOOM_LIMIT_RANDOM_READ = 2, /* independent aligned reads of access_bytes; reads per second */
    LOOM_LIMIT_RANDOM_CAS = 3,  /* independent 64-bit compare-and-swaps; swaps per second */
    /* The following are UNSUPPORTED on a machine without memory of its own. */
    LOOM_LIMIT_HOST_COPY = 4,        /* copy from pinned host memory to the device; bytes/s */
    LOOM_LIMIT_HOST_RANDOM_READ = 5, /* RANDOM_READ by the device from pinned host memory */
    /* RANDOM_READ of 64 bytes, with the other accesses of a lookup: for each read the kernel also
     * reads 4 bytes of one array and writes 5 bytes of others, sequentially; reads per second. */
    LOOM_LIMIT_ANSWERED_READ = 6,
    LOOM_LIMIT_TO_HOST_COPY = 7, /* copy from the device to pinned host memory; bytes/s */
    /* HOST_RANDOM_READ in ascending order of addresses, at most 512 bytes from one read to the
     * next. */
    LOOM_LIMIT_HOST_ORDERED_READ = 8,
    LOOM_LIMIT_HOST_GATHER = 9 /* the host's threads copy access_bytes at random places into one array */
} loom_limit_kind;

typedef struct loom_limit {
    size_t struct_size;       /* set by LOOM_LIMIT_INIT before the call */
    loom_limit_kind kind;     /* in */
    uint32_t access_bytes;    /* in, for reads and gathers: 8 to 128, a power of 2 */
    uint64_t footprint_bytes; /* in: size of the array; at least 4096 */
    double rate;              /* out: the best of several shapes */
    char shape[64];           /* out: which one, e.g. "2 threads, distance 32, huge pages" */
} loom_limit;

#define LOOM_LIMIT_INIT                                 \
    {                                                   \
        sizeof(loom_limit), LOOM_LIMIT_COPY, 0, 0, 0.0, \
        {                                               \
            0                                           \
        }                                               \
    }

/* Measures one limit of the context's machine. The call tries several shapes: threads, prefetch
 * distances, page sizes. Other load on the machine lowers the rate.
 *   - Memory   allocates footprint_bytes (COPY: source and target together)
 *   - Runs     synchronous; about a second
 *   - Status   UNSUPPORTED, OUT_OF_MEMORY */
LOOM_API loom_status loom_measure_limit(loom_context *context, loom_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
