/* Work on many elements, by as many threads as there are cores. On a fast machine making keys and checking answers
 * would otherwise take most of a run. The library's own threads are not for its callers. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <stdint.h>

/* Keys are made and answers checked in ranges of at most this many. */
#define BENCH_GRAIN (UINT64_C(1) << 16)

/* Works on the elements from `begin` to `end` - 1. */
typedef void (*bench_range_function)(void *work, uint64_t begin, uint64_t end);

/* Runs `function` on the elements 0 to n - 1, in parallel ranges; returns when all are done. Ranges have `grain`
 * elements, except the last, and begin at multiples of `grain`. What a range makes may therefore depend on where it
 * begins, and is the same with any number of threads. Without other threads the calling one does it all. */
void bench_in_parallel(uint64_t n, uint64_t grain, bench_range_function function, void *work);

/* memset, in parallel. An `array` of NULL is left alone. */
void bench_fill(void *array, uint8_t byte, uint64_t bytes);

#endif
