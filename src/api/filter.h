/* The filter behind its handle. */
#ifndef LOOM_API_FILTER_H
#define LOOM_API_FILTER_H

#include "api/handle.h"

#include <stdatomic.h>

struct loom_filter {
    loom__handle handle;
    /* Only a count of its bits shows whether a filter is overfilled. A count reads the whole filter, so counts are
     * rare. Inserts may run at the same time: the call that finds a count due replaces `next_count` by UINT64_MAX,
     * counts, and stores the next one. */
    _Atomic uint64_t given;      /* the last estimate of the keys, plus all keys given since */
    _Atomic uint64_t next_count; /* bits are counted when `given` passes this; UINT64_MAX: never */
    _Atomic uint32_t overfilled; /* at the last count */
};

/* Makes a filter of a table to which `given` keys were given. After a failure the table is destroyed. */
loom_status loom__filter_wrap(loom_context *context, loom__table *table, uint64_t given, loom_filter **made);

/* Every call on a filter begins with this check of the handle and the stream. */
loom_status loom__filter_check(loom_filter *filter, loom_stream stream);

#endif
