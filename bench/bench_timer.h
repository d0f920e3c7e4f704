/* Time and the median of several. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include <stddef.h>

/* Seconds of a clock that only goes forward. */
double bench_seconds(void);

/* Seconds of processor time that all threads of this process have taken. */
double bench_cpu_seconds(void);

/* Sorts the samples. With an even number the slower of the two in the middle: never a time that was not seen. */
double bench_median(double *samples, size_t count);

#endif
