/* Clocks, and the median of several times. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include <stddef.h>

/* Seconds of a clock that only goes forward. */
double bench_seconds(void);

/* Seconds of processor time that all threads of this process have used. */
double bench_cpu_seconds(void);

/* A clock that may be stopped during untimed work. Starts at {0}. */
typedef struct bench_clock {
    double wall_begun, cpu_begun; /* at the last start */
    double wall, cpu;             /* seconds that it ran, and processor time meanwhile */
} bench_clock;

void bench_clock_start(bench_clock *clock);
void bench_clock_stop(bench_clock *clock);

/* Sorts the samples. Of an even number returns the slower of the two in the middle: never a time that was not seen. */
double bench_median(double *samples, size_t count);

#endif
