/* Combine rules: how an accumulation combines two values. All machines agree, with one exception: the addition of
 * floats that a GPU does in hardware treats subnormal numbers as zero. */
#ifndef LOOM_CORE_COMBINE_H
#define LOOM_CORE_COMBINE_H

#include "core/portable.h"

typedef enum loom__combine_rule {
    LOOM__ADD = 0, /* integers, signed or unsigned: modulo 2^32 or 2^64 */
    LOOM__MIN_UNSIGNED,
    LOOM__MAX_UNSIGNED,
    LOOM__MIN_SIGNED,
    LOOM__MAX_SIGNED,
    LOOM__ADD_FLOAT,
    LOOM__MIN_FLOAT,
    LOOM__MAX_FLOAT
} loom__combine_rule;

typedef union loom__bits_4 {
    uint32_t bits;
    int32_t whole;
    float real;
} loom__bits_4;

typedef union loom__bits_8 {
    uint64_t bits;
    int64_t whole;
    double real;
} loom__bits_8;

/* How a number of 4 bytes is widened to a value of 8. */
typedef enum loom__widening {
    LOOM__WIDEN_NOT = 0, /* numbers are as wide as values */
    LOOM__WIDEN_U32,
    LOOM__WIDEN_I32,
    LOOM__WIDEN_F32,
    LOOM__WIDEN_COUNTED /* LOOM_COMBINE_ADD_AND_COUNT: also adds 1 to the upper 24 bits */
} loom__widening;

/* Bytes of one input number, given the width of the stored value. */
LOOM_BOTH uint32_t loom__number_bytes(loom__widening widening, uint32_t value_bytes)
{
    return widening == LOOM__WIDEN_NOT ? value_bytes : 4;
}

/* For integers only. Compiles without branches. */
LOOM_BOTH uint64_t loom__widen_whole(loom__widening widening, uint32_t number)
{
    loom__bits_4 narrow;
    loom__bits_8 wide;
    narrow.bits = number;
    wide.whole = narrow.whole;
    return (widening == LOOM__WIDEN_I32 ? wide.bits : number) +
           (widening == LOOM__WIDEN_COUNTED ? (uint64_t)1 << 40 : 0);
}

LOOM_BOTH uint64_t loom__widen(loom__widening widening, uint32_t number)
{
    loom__bits_4 narrow;
    loom__bits_8 wide;
    if (widening != LOOM__WIDEN_F32)
        return loom__widen_whole(widening, number);
    narrow.bits = number;
    wide.real = narrow.real;
    return wide.bits;
}

/* Combines the stored value a with the new value b, both as bits. Minima and maxima keep a unless b is strictly smaller
 * or larger: a new NaN is ignored, a stored NaN stays. */
#define LOOM__COMBINE(bits_of)            \
    bits_of x, y;                         \
    x.bits = a;                           \
    y.bits = b;                           \
    switch (rule) {                       \
    case LOOM__ADD:                       \
        return a + b;                     \
    case LOOM__MIN_UNSIGNED:              \
        return b < a ? b : a;             \
    case LOOM__MAX_UNSIGNED:              \
        return b > a ? b : a;             \
    case LOOM__MIN_SIGNED:                \
        return y.whole < x.whole ? b : a; \
    case LOOM__MAX_SIGNED:                \
        return y.whole > x.whole ? b : a; \
    case LOOM__MIN_FLOAT:                 \
        return y.real < x.real ? b : a;   \
    case LOOM__MAX_FLOAT:                 \
        return y.real > x.real ? b : a;   \
    case LOOM__ADD_FLOAT:                 \
        x.real += y.real;                 \
    }                                     \
    return x.bits

LOOM_BOTH uint32_t loom__combine_4(loom__combine_rule rule, uint32_t a, uint32_t b)
{
    LOOM__COMBINE(loom__bits_4);
}

LOOM_BOTH uint64_t loom__combine_8(loom__combine_rule rule, uint64_t a, uint64_t b)
{
    LOOM__COMBINE(loom__bits_8);
}

#undef LOOM__COMBINE

#endif
