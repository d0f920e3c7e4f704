/* Time and the median of several. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include <stddef.h>

/* Seconds of a clock that only goes forward. */
double bench_seconds(void);

/* Seconds of processor time that all threads of this process have taken. */
double bench_cpu_seconds(void);

/* A clock that may be stopped while something is done that is not to be timed. Starts at {0}. */
typedef struct bench_clock {
    double wall_begun, cpu_begun; /* when it was started last */
    double wall, cpu;             /* seconds that it ran, and processor time meanwhile */
} bench_clock;

void bench_clock_start(bench_clock *clock);
void bench_clock_stop(bench_clock *clock);

/* Sorts the samples. With an even number the slower of the two in the middle: never a time that was not seen. */
double bench_median(double *samples, size_t count);

#endif
