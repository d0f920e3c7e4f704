/* A range of values: which pairs loom_map_erase_if erases.
 *
 * Values are compared as unsigned numbers of 64 bits, whatever their type is. Such a number follows from the bits of a
 * value, and has the order of the values:
 *   unsigned   the bits themselves
 *   signed     the sign bit inverted
 *   float      the sign bit inverted; in negative values all bits. Zero has two numbers, one for each sign, side by
 *              side. NaNs lie below minus infinity and above infinity, outside of every range */
#ifndef LOOM_CORE_VALUE_RANGE_H
#define LOOM_CORE_VALUE_RANGE_H

#include "core/portable.h"
#include "loom/loom.h"

typedef struct loom__value_range {
    uint64_t least, most; /* as ordered numbers, both included; least > most: the range is empty */
    uint64_t flip;        /* bits to invert in every value */
    uint64_t fold;        /* bits to invert, too, in values whose sign bit is set */
    uint32_t sign;        /* the number of the sign bit: 31 or 63 */
} loom__value_range;

/* The ordered number of a value. Without a branch: signs are hard to predict. */
LOOM_BOTH uint64_t loom__value_ordered(const loom__value_range *range, uint64_t bits)
{
    return bits ^ range->flip ^ ((0 - (bits >> range->sign)) & range->fold);
}

LOOM_BOTH int loom__value_in_range(const loom__value_range *range, uint64_t bits)
{
    const uint64_t ordered = loom__value_ordered(range, bits);
    return (ordered >= range->least) & (ordered <= range->most);
}

/* Makes the range from `least` to `most`, which point to numbers in host memory; NULL: no bound. INVALID_ARGUMENT and a
 * sentence if values of this width are no such numbers, or if a bound is a NaN. */
loom_status loom__value_range_make(loom_number number, uint32_t value_bytes, const void *least, const void *most,
                                   loom__value_range *range);

#endif
