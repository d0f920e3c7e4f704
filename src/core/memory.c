#include "core/memory.h"
#include "core/error.h"

void *loom__allocate(const loom_allocator *allocator, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    void *memory = allocator->allocate(allocator->user, bytes, LOOM__LINE, kind, stream);
    if (memory == NULL && kind == LOOM_MEMORY_PINNED)
        loom__fail(
            LOOM_OUT_OF_MEMORY,
            "%zu bytes of host memory for rows could not be had, or could not be pinned for the device; make the "
            "table for fewer keys, or free other host memory",
            bytes);
    else if (memory == NULL)
        loom__fail(LOOM_OUT_OF_MEMORY,
                   "%zu bytes of memory could not be had; make the table for fewer keys or free other memory", bytes);
    return memory;
}

void loom__release(const loom_allocator *allocator, void *memory, size_t bytes, loom_memory_kind kind,
                   loom_stream stream)
{
    if (memory != NULL)
        allocator->release(allocator->user, memory, bytes, kind, stream);
}
