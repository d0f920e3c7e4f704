/* Arguments of public calls: a check that fails returns INVALID_ARGUMENT and a sentence that names the argument. */
#ifndef LOOM_API_CHECK_H
#define LOOM_API_CHECK_H

#include "loom/loom.h"

typedef struct loom__array {
    const char *name;
    const void *at;
    uint32_t width; /* bytes per element */
    char optional;
    char written;
} loom__array;

/* An array of any length, with elements of any width. `alignment`, a power of two, divides its address. */
typedef struct loom__sized_array {
    const char *name;
    const void *at;
    uint64_t width;
    uint64_t count;
    uint64_t alignment;
    char optional; /* an array of no elements always is */
    char written;
} loom__sized_array;

enum { LOOM__MOST_ARRAYS = 8 };

/* Checks that every array is present (unless optional), aligned and addressable, and that no written one overlaps
 * another. */
loom_status loom__check_sized_arrays(const loom__sized_array *arrays, int count);

/* At most LOOM__MOST_ARRAYS arrays of n elements each. Elements of 4 and 8 bytes are aligned to their width; others may
 * have any address. */
loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n);

#endif
