#include "bench_zipf.h"

#include "bench_keys.h"

#include <math.h>

static double log1p_over_x(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x * (0.5 - x * (1.0 / 3));
}

static double expm1_over_x(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x * 0.5 * (1 + x * (1.0 / 3));
}

/* The density x^-skew, its integral and the inverse of that, in forms that pass smoothly through skew = 1. */
static double density(const bench_draw *draw, double x)
{
    return exp(-draw->skew * log(x));
}

static double area(const bench_draw *draw, double x)
{
    const double log_x = log(x);
    return expm1_over_x((1 - draw->skew) * log_x) * log_x;
}

static double area_inverse(const bench_draw *draw, double y)
{
    const double t = fmax(y * (1 - draw->skew), -1); /* rounding may push it below its lowest possible value */
    return exp(log1p_over_x(t) * y);
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void bench_draw_init(bench_draw *draw, uint64_t n, double skew, uint64_t seed)
{
    *draw = (bench_draw){.n = n, .skew = skew, .seed = seed, .random = seed};
    if (skew > 0) {
        draw->area_first = area(draw, 1.5) - 1;
        draw->area_last = area(draw, (double)n + 0.5);
        draw->squeeze = 2 - area_inverse(draw, area(draw, 2.5) - density(draw, 2));
        return;
    }
    /* The golden section of n keeps successive indices far apart. */
    draw->step = (uint64_t)((double)n * 0.6180339887498949);
    if (draw->step == 0)
        draw->step = 1;
    while (greatest_common_divisor(draw->step, n) != 1)
        draw->step++;
}

void bench_draw_from(bench_draw *draw, uint64_t at)
{
    draw->random = draw->seed + bench_mix64(at);
    if (draw->skew == 0)
        draw->next = (uint64_t)((unsigned __int128)at * draw->step % draw->n);
}

double bench_draw_unit(bench_draw *draw)
{
    draw->random += UINT64_C(0x9e3779b97f4a7c15);
    return (double)(bench_mix64(draw->random) >> 11) * 0x1p-53;
}

static uint64_t draw_zipf(bench_draw *draw)
{
    for (;;) { /* ends: each round accepts with a probability above three quarters */
        const double y = draw->area_last + bench_draw_unit(draw) * (draw->area_first - draw->area_last);
        const double x = area_inverse(draw, y);
        const double rank = fmin(fmax(floor(x + 0.5), 1), (double)draw->n);
        if (rank - x <= draw->squeeze || y >= area(draw, rank + 0.5) - density(draw, rank))
            return (uint64_t)rank - 1;
    }
}

uint64_t bench_draw_index(bench_draw *draw)
{
    if (draw->skew > 0)
        return draw_zipf(draw);
    const uint64_t index = draw->next;
    draw->next = index >= draw->n - draw->step ? index - (draw->n - draw->step) : index + draw->step;
    return index;
}
