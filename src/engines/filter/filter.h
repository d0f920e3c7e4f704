/* A filter's memory and what belongs to it, behind the handle of `api`. */
#ifndef LOOM_FILTER_H
#define LOOM_FILTER_H

#include "engines/filter/filter_kernels.h"

typedef struct loom__filter {
    loom__machine *machine;
    const loom__filter_kernels *kernels;
    loom__filter_shape shape;
    uint64_t seed;
    loom__filter_view view;
} loom__filter;

/* With no key in it, unless `uncleared`: then its blocks are to be written next. UNSUPPORTED where the machine has no filters. */
loom_status loom__filter_make(loom__machine *machine, const loom__filter_shape *shape, uint64_t seed, int uncleared,
                              loom_stream stream, loom__filter *filter);
void loom__filter_free(loom__filter *filter);

/* A view without its memory. */
loom__filter_view loom__filter_view_make(const loom__filter_shape *shape, uint64_t seed);

#endif
