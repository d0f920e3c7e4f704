#include "core/key_sketch.h"

#include <math.h>

/* The two series of the estimator. They end when another term no longer changes the sum. */

/* Registers without a key, as a share of all: x + the sum of x^(2^k) 2^(k - 1) for k = 1, 2, ... */
static double sum_of_unused(double x)
{
    double sum = x, before, factor = 1;
    if (x == 1)
        return INFINITY;
    do {
        x *= x;
        before = sum;
        sum += x * factor;
        factor *= 2;
    } while (sum != before);
    return sum;
}

/* Registers below the largest rank, as a share of all: a third of 1 - x - the sum of (1 - x^(2^-k))^2 2^-k. */
static double sum_of_largest(double x)
{
    double sum = 1 - x, before, factor = 1;
    if (x == 0 || x == 1)
        return 0;
    do {
        x = sqrt(x);
        before = sum;
        factor /= 2;
        sum -= (1 - x) * (1 - x) * factor;
    } while (sum != before);
    return sum / 3;
}

double loom__sketch_estimate(const loom__key_sketch *sketch)
{
    const double m = LOOM__SKETCH_REGISTERS;
    uint32_t with_rank[LOOM__SKETCH_LARGEST_RANK + 1] = {0};
    for (uint32_t i = 0; i < LOOM__SKETCH_REGISTERS; i++)
        with_rank[sketch->ranks[i]]++;
    double sum = m * sum_of_largest(1 - with_rank[LOOM__SKETCH_LARGEST_RANK] / m);
    for (int rank = LOOM__SKETCH_LARGEST_RANK - 1; rank >= 1; rank--)
        sum = (sum + with_rank[rank]) / 2;
    sum += m * sum_of_unused(with_rank[0] / m);
    return m * m / (2 * log(2) * sum);
}
