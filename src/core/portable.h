/* What C11 and CUDA C spell differently, and the arithmetic that both share. */
#ifndef LOOM_CORE_PORTABLE_H
#define LOOM_CORE_PORTABLE_H

#include <stddef.h>
#include <stdint.h>

/* LOOM_LANE: a function of the lane algorithms. Always inlined, so that a literal argument (a layout kind, a mode)
 * specialises it: this is our template mechanism, the same on every machine. */
#if defined(__CUDACC__)
#define LOOM_LANE static __host__ __device__ __forceinline__
#else
#define LOOM_LANE static inline __attribute__((always_inline, unused))
#endif

/* The upper half of a 32 x 32 bit product: maps a uniform 32-bit x to 0 .. range - 1 without a division. */
LOOM_LANE uint32_t loom__multiply_high(uint32_t x, uint32_t range)
{
    return (uint32_t)(((uint64_t)x * range) >> 32);
}

LOOM_LANE uint32_t loom__multiply_low(uint32_t x, uint32_t range)
{
    return x * range;
}

#endif
