/* Memory of a context: tables, temporary arrays and handles all pass through here, so that a caller's allocator sees them
 * and a test can refuse the n-th request. (Thread stacks, and what measuring limits maps for its moment, do not.) */
#ifndef LOOM_CORE_MEMORY_H
#define LOOM_CORE_MEMORY_H

#include "loom/loom.h"

enum {
    LOOM__LINE = 64 /* bytes of a bucket, of a cache line, of a DRAM access: everything that is shared aligns to it */
};

/* NULL and a sentence when there is none. Table memory is aligned to at least a line. */
void *loom__allocate(const loom_allocator *allocator, size_t bytes, loom_memory_kind kind, loom_stream stream);
void loom__release(const loom_allocator *allocator, void *memory, size_t bytes, loom_memory_kind kind,
                   loom_stream stream);

#endif
