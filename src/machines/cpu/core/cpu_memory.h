/* The cpu machine's own allocator: huge pages for tables where the system offers them, the C library for the rest. */
#ifndef LOOM_CPU_MEMORY_H
#define LOOM_CPU_MEMORY_H

#include "loom/loom.h"

extern const loom_allocator loom__cpu_allocator;

/* Size of the huge pages that tables get; 0: no huge pages. */
uint64_t loom__cpu_huge_page_bytes(void);

/* New zeroed pages, huge or ordinary as asked, for measuring both. NULL: out of memory. */
void *loom__cpu_map_pages(size_t bytes, int huge);
void loom__cpu_unmap_pages(void *memory, size_t bytes);

#endif
