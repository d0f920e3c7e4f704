/* Draws of key indices: each key once in a scattered order, or at random by Zipf's law.
 *
 * Zipf: rejection-inversion after Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone
 * discrete distributions" (1996). It needs no table, works for every exponent above 0 (1 included) and rejects less
 * than one draw in four, so 2^24 draws take a few seconds. */
#ifndef BENCH_ZIPF_H
#define BENCH_ZIPF_H

#include <stdint.h>

typedef struct bench_draw {
    uint64_t n;
    double skew;
    uint64_t seed;
    uint64_t random; /* state of the generator */
    uint64_t next;   /* skew 0: the next index */
    uint64_t step;   /* skew 0: distance to the index after it; coprime to n, so that all are visited */
    double area_first, area_last, squeeze;
} bench_draw;

/* n at least 1, skew at least 0. The same arguments give the same draws. */
void bench_draw_init(bench_draw *draw, uint64_t n, double skew, uint64_t seed);

/* Continues as if the draws began at number `at`, so that several threads can share them. With skew 0 these are the
 * draws that would follow `at` others. Otherwise they are separate draws, which depend on `at` alone. */
void bench_draw_from(bench_draw *draw, uint64_t at);

/* An index below n. With skew 0 the first n draws are all different. Otherwise the probability of index i is
 * proportional to (i + 1)^-skew. */
uint64_t bench_draw_index(bench_draw *draw);

/* Uniform in [0, 1), from the same generator. */
double bench_draw_unit(bench_draw *draw);

#endif
