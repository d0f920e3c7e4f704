/* Arguments of public calls: each check that fails returns INVALID_ARGUMENT and a sentence that names the argument. */
#ifndef LOOM_API_CHECK_H
#define LOOM_API_CHECK_H

#include "loom/loom.h"

typedef struct loom__array {
    const char *name;
    const void *at;
    uint32_t width; /* bytes of an element */
    char optional;
    char written;
} loom__array;

/* Every array is there (unless optional or n is 0), aligned, addressable, and no written one overlaps another. */
loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n);

#endif
