/* Arrays in any memory of a CUDA device or of the host, and maps, for tests of the cuda machine. */
#ifndef LOOM_TESTS_CUDA_ARRAYS_H
#define LOOM_TESTS_CUDA_ARRAYS_H

#include "cuda_driver.h"
#include "map_fixture.h"

enum { PLAIN_HOST = CUDA_PINNED + 1 }; /* a kind of memory besides those of cuda_memory */

typedef struct placed {
    int kind;
    void *at;
    size_t bytes;
} placed;

/* A copy of `from` in memory of this kind. */
placed place(loom_context *context, int kind, const void *from, size_t bytes);
/* Copies the array to `to`, unless that is NULL, and frees it. */
void take_back(loom_context *context, placed *p, void *to);

/* A map that does not grow, or without values a set. */
loom_map *map_of(loom_context *context, uint32_t key_bytes, uint32_t value_bytes, uint64_t capacity,
                 uint32_t concurrent_reads);

#endif
