/* The filter behind its handle. */
#ifndef LOOM_API_FILTER_H
#define LOOM_API_FILTER_H

#include "api/handle.h"

#include <stdatomic.h>

struct loom_filter {
    loom__handle handle;
    /* Only counting its bits tells whether a filter is overfilled, so bits are counted seldom. Inserts may run at the
     * same time: the call that finds a count due takes `next_count` away, counts, and stores another. */
    _Atomic uint64_t given;      /* keys: the last estimate plus all keys given since */
    _Atomic uint64_t next_count; /* bits are counted when `given` passes this; UINT64_MAX: never */
    _Atomic uint32_t overfilled; /* at the last count */
};

/* Makes a filter of a table. After a failure the table is destroyed. `given`: keys. */
loom_status loom__filter_wrap(loom_context *context, loom__table *table, uint64_t given, loom_filter **made);

/* Every call on a filter begins with this check of the handle and the stream. */
loom_status loom__filter_check(loom_filter *filter, loom_stream stream);

#endif
