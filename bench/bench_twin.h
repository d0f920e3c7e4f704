/* An array on the host, where keys are made and answers checked, and its copy where the machine works. On the cpu machine
 * both are one array. */
#ifndef BENCH_TWIN_H
#define BENCH_TWIN_H

#include "bench_case.h"

typedef struct bench_twin {
    void *host, *near;
    uint64_t bytes; /* of each */
} bench_twin;

/* Makes zeroed arrays of n elements. False: no memory; bench_twin_free is still fine. */
bool bench_twin_new(const bench_session *session, bench_twin *twin, uint64_t n, uint64_t bytes_of_each);
void bench_twin_free(const bench_session *session, bench_twin *twin);

/* Copies from the host, and to it. */
loom_status bench_twin_send(const bench_session *session, const bench_twin *twin);
loom_status bench_twin_fetch(const bench_session *session, const bench_twin *twin);

/* Fills both with bytes that no answer has, so that a call that writes nothing is noticed. */
loom_status bench_twin_spoil(const bench_session *session, const bench_twin *twin);

#endif
