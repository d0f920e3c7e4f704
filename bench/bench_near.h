/* Copies of arrays in the machine's memory or in pinned memory, for timed calls. On the cpu machine an array is its own
 * copy. */
#ifndef BENCH_NEAR_H
#define BENCH_NEAR_H

#include "bench_case.h"

/* False: no memory. With 0 bytes *near is `host`. */
bool bench_near_new(const bench_session *session, loom_array_place place, void *host, uint64_t bytes, void **near);

/* `near` may be NULL: it could not be made. */
void bench_near_free(const bench_session *session, loom_array_place place, void *host, void *near, uint64_t bytes);

/* Copies either way, and waits. Does nothing where both are one array. */
loom_status bench_near_copy(const bench_session *session, void *to, const void *from, uint64_t bytes);

#endif
