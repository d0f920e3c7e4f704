#include "number_range.h"

#include <string.h>

/* Whether number a is at most number b, both given by their bits. Without code of the library. */
static int at_most(loom_number number, uint64_t a, uint64_t b)
{
    float f, g;
    double d, e;
    int64_t i, j;
    const uint32_t lower_a = (uint32_t)a, lower_b = (uint32_t)b;
    switch (number) {
    case LOOM_NUMBER_F32:
        memcpy(&f, &lower_a, sizeof f);
        memcpy(&g, &lower_b, sizeof g);
        return f <= g;
    case LOOM_NUMBER_F64:
        memcpy(&d, &a, sizeof d);
        memcpy(&e, &b, sizeof e);
        return d <= e;
    case LOOM_NUMBER_I32:
        return (int32_t)lower_a <= (int32_t)lower_b;
    case LOOM_NUMBER_I64:
        memcpy(&i, &a, sizeof i);
        memcpy(&j, &b, sizeof j);
        return i <= j;
    default:
        return a <= b;
    }
}

static int is_nan(loom_number number, uint64_t a)
{
    return !at_most(number, a, a);
}

int number_in_range(const number_range *range, uint64_t value)
{
    return !is_nan(range->number, value) && (!range->has_least || at_most(range->number, range->least, value)) &&
           (!range->has_most || at_most(range->number, value, range->most));
}

number_range random_range(test_random *random, uint32_t value_bytes, uint64_t a, uint64_t b)
{
    const unsigned kind = (unsigned)random_below(random, 3); /* unsigned, signed, float */
    const uint64_t bits = value_bytes == 8 ? UINT64_MAX : UINT32_MAX;
    const loom_number number = (loom_number)((value_bytes == 8 ? LOOM_NUMBER_U64 : LOOM_NUMBER_U32) + kind);
    number_range range = {number, random_below(random, 5) != 0, random_below(random, 5) != 0,
                          is_nan(number, a) ? 0 : a & bits, is_nan(number, b) ? 0 : b & bits};
    if (random_below(random, 8) != 0 && !at_most(number, range.least, range.most)) {
        const uint64_t swapped = range.least;
        range.least = range.most;
        range.most = swapped;
    }
    return range;
}
