/* Many elements, worked on by as many threads as there are cores: on a fast machine making keys and checking answers would
 * otherwise take most of a run. The library's own threads are not for its callers. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <stdint.h>

/* Keys are made and answers checked in ranges of at most so many. */
#define BENCH_GRAIN (UINT64_C(1) << 16)

/* Works on the elements from `begin` to `end`, the latter not included. */
typedef void (*bench_range_function)(void *work, uint64_t begin, uint64_t end);

/* Has `function` work on the elements 0 to n - 1, in ranges of `grain` elements (the last one may be shorter) that begin at
 * multiples of it, several at the same time; returns when all are done. So what a range makes may depend on where it begins,
 * and yet be the same with any number of threads. Where threads cannot be had the calling one does it all. */
void bench_in_parallel(uint64_t n, uint64_t grain, bench_range_function function, void *work);

/* memset, in parallel. An `array` of NULL is left alone. */
void bench_fill(void *array, uint8_t byte, uint64_t bytes);

#endif
