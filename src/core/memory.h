/* Memory of a context. Tables, temporary arrays and handles are all allocated here: a caller's allocator sees every
 * request, and a test can refuse the n-th one. Exceptions: thread stacks, and the memory that a measurement of limits
 * maps while it runs. */
#ifndef LOOM_CORE_MEMORY_H
#define LOOM_CORE_MEMORY_H

#include "loom/loom.h"

enum {
    LOOM__LINE = 64 /* bytes of a bucket, a cache line, a DRAM access: all shared data aligns to it */
};

/* NULL and a sentence if there is no memory. Table memory is aligned to at least a line. */
void *loom__allocate(const loom_allocator *allocator, size_t bytes, loom_memory_kind kind, loom_stream stream);
void loom__release(const loom_allocator *allocator, void *memory, size_t bytes, loom_memory_kind kind,
                   loom_stream stream);

/* Where an array of n elements lies in memory that is allocated at once: behind *bytes, which it adds to. */
static inline uint64_t loom__place_array(uint64_t *bytes, uint64_t n, uint64_t width)
{
    const uint64_t at = *bytes;
    *bytes = (at + n * width + 255) / 256 * 256;
    return at;
}

#endif
