#define _POSIX_C_SOURCE 200809L
#include "bench_timer.h"

#include <stdlib.h>
#include <time.h>

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double bench_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double bench_cpu_seconds(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_clock_start(bench_clock *clock)
{
    clock->cpu_begun = bench_cpu_seconds();
    clock->wall_begun = bench_seconds();
}

void bench_clock_stop(bench_clock *clock)
{
    clock->wall += bench_seconds() - clock->wall_begun;
    clock->cpu += bench_cpu_seconds() - clock->cpu_begun;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, by_size);
    return samples[count / 2];
}
