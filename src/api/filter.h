/* The filter behind its handle. */
#ifndef LOOM_API_FILTER_H
#define LOOM_API_FILTER_H

#include "api/handle.h"
#include "core/table.h"

#include <stdatomic.h>

struct loom_filter {
    loom__handle handle;
    loom__table *table;
    /* Whether it is overfilled can be told only by counting its bits, so that is done seldom. Inserts may run at the same time:
     * who finds that it is time takes `next_count` away, and puts another one there. */
    _Atomic uint64_t given;      /* keys: as many as were counted last, and all that came since */
    _Atomic uint64_t next_count; /* of bits, when so many were given; UINT64_MAX: never */
    _Atomic uint32_t overfilled; /* as counted last */
};

/* Wraps a table in a handle; takes the table over in any case. */
loom_status loom__filter_wrap(loom_context *context, loom__table *table, uint64_t given, loom_filter **made);

static inline const loom__filter_kernels *loom__filter_kernels_of(const loom_filter *filter)
{
    return filter->table->kernels;
}

/* Every call on a filter begins with this: the handle and the stream. */
loom_status loom__filter_check(loom_filter *filter, loom_stream stream);

#endif
