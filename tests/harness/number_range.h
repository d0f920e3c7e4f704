/* Ranges of numbers for erase_if, without code of the library. Numbers are given by their bits. */
#ifndef LOOM_TESTS_NUMBER_RANGE_H
#define LOOM_TESTS_NUMBER_RANGE_H

#include "harness.h"

typedef struct number_range {
    loom_number number;
    int has_least, has_most;
    uint64_t least, most;
} number_range;

/* NaNs lie in no range. */
int number_in_range(const number_range *range, uint64_t value);

/* A range of random kind. It ends at a and b, which may be NaNs: then at zero. One in five ends is open, and one range
 * in eight may be empty. */
number_range random_range(test_random *random, uint32_t value_bytes, uint64_t a, uint64_t b);

#endif
