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
 *              the sentence names the first bad bucket, or the two counts; OUT_OF_MEMORY: multimaps;
 *              all is sound, but lists may overlap */
LOOM_API loom_status loom_map_verify(loom_map *map, loom_stream stream);

/* Counts the buckets that lookups of these keys read: *accesses / n is the cost of one lookup. If
 * the keys were just inserted into a table without erasures, their insertions read as many buckets.
 *   keys     [n] of key_bytes
 *   - Memory   allocates nothing
 *   - Runs     synchronous; reader */
LOOM_API loom_status loom_map_count_accesses(loom_map *map, const void *keys, uint64_t n, uint64_t *accesses,
                                             loom_stream stream);

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
    LOOM_LIMIT_ANSWERED_READ = 6
} loom_limit_kind;

typedef struct loom_limit {
    size_t struct_size;       /* set by LOOM_LIMIT_INIT before the call */
    loom_limit_kind kind;     /* in */
    uint32_t access_bytes;    /* in, for RANDOM_READ and HOST_RANDOM_READ: 8 to 128, a power of 2 */
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
