/* What the hardware can do at most, measured in the same run as the rows that are compared with it.
 *
 * A limit is kept for the rest of the run, by kind, access and footprint. An old one is measured again, and the better
 * of the two stays: a limit is what the machine can do, not what it did at a bad moment. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <loom/loom.h>
#include <stddef.h>

typedef struct bench_limits {
    struct bench_known_limit *known;
    size_t count;
} bench_limits;

/* Returns the limit, measured at most BENCH_LIMIT_FRESH_SECONDS ago.
 *   access_bytes   for reads and gathers; 0 for the others
 * Status: that of loom_measure_limit, or OUT_OF_MEMORY. */
loom_status bench_limits_get(bench_limits *limits, loom_context *context, loom_limit_kind kind, uint32_t access_bytes,
                             uint64_t footprint_bytes, loom_limit *limit);
void bench_limits_free(bench_limits *limits);

/* "copy", "random_read_64", "random_cas": the names in the files. */
void bench_limit_name(loom_limit_kind kind, uint32_t access_bytes, char name[32]);

#endif
