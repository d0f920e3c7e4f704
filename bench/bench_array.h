/* Large arrays for the benchmark's own keys, values and statuses. They are touched, and in huge pages where the system
 * provides them, so that neither page faults nor TLB misses are measured. */
#ifndef BENCH_ARRAY_H
#define BENCH_ARRAY_H

#include <stdint.h>

/* n zeroed elements of `bytes` each; NULL: no memory. n = 0 gives an array of one element. */
void *bench_array_new(uint64_t n, uint64_t bytes);
void bench_array_free(void *array);

#endif
