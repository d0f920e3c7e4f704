/* What C11 and CUDA C spell differently, and the arithmetic that both share. */
#ifndef LOOM_CORE_PORTABLE_H
#define LOOM_CORE_PORTABLE_H

#include <stddef.h>
#include <stdint.h>

/*   LOOM_LANE    a function of the lane algorithms. It is always inlined, so a literal argument (a layout kind, a mode)
 *                specialises it: this is our template mechanism on every machine
 *   LOOM_BOTH    the same, but host code calls it, too
 *   LOOM_STEP    a long function that is seldom called. A CPU does not inline it. A GPU inlines it, because otherwise
 *                one copy would serve all kinds. LOOM_BOTH_STEP: the same, but host code calls it, too
 *   LOOM_LANE_CALL  a long function of the lane algorithms without literal arguments. A GPU calls it, so that a kernel
 *                has one copy
 *   LOOM_UNROLL  unrolls the next loop. It runs over the words of a line, which a GPU holds in registers; a register
 *                cannot be addressed by a computed index
 *
 * LOOM_ONE_COPY is defined in builds that test and do not measure (the lane simulator, sanitizers). Lane functions are
 * then ordinary functions, and SLOT_FOR_KIND passes the kind as a variable. The source is the same, and each algorithm
 * is compiled once instead of once for each kind and mode. gcc 12 with -O1 -fsanitize=address,undefined compiles
 * cpu_perfect_avx2.c in 1.2 s instead of 10 minutes, and a planted fault of simt_open.c in 0.3 s instead of 4.7. */
#if defined(__CUDACC__)
#define LOOM_LANE               static __device__ __forceinline__
#define LOOM_BOTH               static __host__ __device__ __forceinline__
#define LOOM_STEP               static __device__ __forceinline__
#define LOOM_BOTH_STEP          LOOM_BOTH
#define LOOM_LANE_CALL          static inline __device__ __noinline__
#define LOOM_STATIC_ASSERT(...) static_assert(__VA_ARGS__)
#else
#if defined(LOOM_ONE_COPY)
#define LOOM_LANE static inline __attribute__((unused))
#else
#define LOOM_LANE static inline __attribute__((always_inline, unused))
#endif
#define LOOM_BOTH               LOOM_LANE
#define LOOM_STEP               static __attribute__((noinline, unused))
#define LOOM_BOTH_STEP          LOOM_STEP
#define LOOM_LANE_CALL          LOOM_LANE
#define LOOM_STATIC_ASSERT(...) _Static_assert(__VA_ARGS__)
#endif
/* nvcc compiles a file once for the device and once for the host. The host compiler does not know the pragma, which it
 * would see in functions of both. */
#if defined(__CUDA_ARCH__)
#define LOOM_UNROLL _Pragma("unroll")
#else
#define LOOM_UNROLL
#endif

/* 32 x 32 -> 64 bits. On Arm the code names the instruction. gcc knows that both factors are zero-extended and would
 * choose the 64-bit multiplication. On a Neoverse N1 this occupies the multiplier three times as long, which costs 11 %
 * of a lookup. */
LOOM_LANE uint64_t loom__multiply_wide(uint32_t x, uint32_t y)
{
#if defined(__aarch64__) && !defined(__CUDACC__)
    uint64_t product;
    __asm__("umull %x0, %w1, %w2" : "=r"(product) : "r"(x), "r"(y));
    return product;
#else
    return (uint64_t)x * y;
#endif
}

LOOM_LANE uint32_t loom__count_bits(uint64_t word)
{
#if defined(__CUDACC__)
    return (uint32_t)__popcll(word);
#else
    return (uint32_t)__builtin_popcountll(word);
#endif
}

/* The number of the lowest set bit; `bits` is not 0. */
LOOM_LANE uint32_t loom__lowest_bit(uint32_t bits)
{
#if defined(__CUDACC__)
    return (uint32_t)__ffs((int)bits) - 1;
#else
    return (uint32_t)__builtin_ctz(bits);
#endif
}

/* The number of zeros above the highest set bit; `word` is not 0. */
LOOM_LANE uint32_t loom__leading_zeros(uint64_t word)
{
#if defined(__CUDACC__)
    return (uint32_t)__clzll((long long)word);
#else
    return (uint32_t)__builtin_clzll(word);
#endif
}

/* The dot product of the bytes of a and b. */
LOOM_LANE uint32_t loom__dot_bytes(uint64_t a, uint64_t b)
{
    uint32_t sum = 0;
#if defined(__CUDA_ARCH__)
    sum = __dp4a((uint32_t)a, (uint32_t)b, __dp4a((uint32_t)(a >> 32), (uint32_t)(b >> 32), 0u));
#else
    for (uint32_t at = 0; at < 64; at += 8)
        sum += (uint32_t)(a >> at & 255) * (uint32_t)(b >> at & 255);
#endif
    return sum;
}

/* The dot product of the 4 bytes of a and the 4 bytes of b, plus `more`. */
LOOM_LANE uint32_t loom__dot_4(uint32_t a, uint32_t b, uint32_t more)
{
#if defined(__CUDA_ARCH__)
    return __dp4a(a, b, more);
#else
    return more + loom__dot_bytes(a, b);
#endif
}

/* Shift the 64-bit number high:low by less than 32 bits. A left shift returns the upper half, a right shift the lower
 * half. */
LOOM_LANE uint32_t loom__funnel_left(uint32_t low, uint32_t high, uint32_t bits)
{
#if defined(__CUDA_ARCH__)
    return __funnelshift_l(low, high, bits);
#else
    return (uint32_t)((((uint64_t)high << 32 | low) << bits) >> 32);
#endif
}

LOOM_LANE uint32_t loom__funnel_right(uint32_t low, uint32_t high, uint32_t bits)
{
#if defined(__CUDA_ARCH__)
    return __funnelshift_r(low, high, bits);
#else
    return (uint32_t)(((uint64_t)high << 32 | low) >> bits);
#endif
}

/* The upper half of the product maps a uniform 32-bit x to 0 .. range - 1 without a division. */
LOOM_LANE uint32_t loom__multiply_high(uint32_t x, uint32_t range)
{
    return (uint32_t)(loom__multiply_wide(x, range) >> 32);
}

#endif
