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
    char has_count; /* `count` elements, not n */
    uint64_t count;
    uint64_t alignment; /* a power of two; 0: elements of 4 and 8 bytes are aligned to their width, others to 1 */
} loom__array;

enum { LOOM__MOST_ARRAYS = 8 };

/* Checks a call's arrays, at most LOOM__MOST_ARRAYS. Every array must be present, unless it is optional or empty. Every
 * array must be aligned and addressable. No array that is written may overlap another. An array has n elements unless
 * it has its own count. */
loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n);

#endif
