/* Large arrays for the benchmark's own keys, values and statuses: in huge pages where the system gives them and
 * touched, so that neither page faults nor misses of the address cache end up in what is measured. */
#ifndef BENCH_ARRAY_H
#define BENCH_ARRAY_H

#include <stdint.h>

/* Room for n elements of `bytes` each, zeroed; NULL if there is none. n = 0 gives an array of one element. */
void *bench_array_new(uint64_t n, uint64_t bytes);
void bench_array_free(void *array);

#endif
