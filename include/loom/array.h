/* EXPERIMENTAL: may change in any release. Arrays in the memory of the context's machine, or in host
 * memory that the machine reaches fast. They are for callers without a CUDA runtime of their own. */
#ifndef LOOM_LOOM_ARRAY_H
#define LOOM_LOOM_ARRAY_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where an array lies. On the cpu machine both are host memory. */
typedef enum loom_array_place {
    LOOM_ARRAY_MACHINE = 0, /* the machine's memory: device memory on the cuda machine */
    /* Host memory. On the cuda machine it is pinned: copies to and from the device skip a buffer of
     * the library. Allocating it takes long, so reuse it. */
    LOOM_ARRAY_PINNED = 1
} loom_array_place;

/* Allocates an array.
 *   - Memory   MACHINE: as tables; PINNED: from CUDA itself on the cuda machine, otherwise as handles
 *   - Status   OUT_OF_MEMORY; DEVICE; INVALID_ARGUMENT: also bytes = 0 */
LOOM_API loom_status loom_array_create(loom_context *context, loom_array_place place, size_t bytes, void **array);

/* Frees an array. Calls that use the array must have ended. NULL is fine.
 *   place, bytes    as given to loom_array_create */
LOOM_API void loom_array_destroy(loom_context *context, loom_array_place place, void *array, size_t bytes);

/* Copies between two arrays that do not overlap. Each may be in the machine's memory or in any host
 * memory.
 *   - Runs     synchronous
 *   - Status   OUT_OF_MEMORY, DEVICE */
LOOM_API loom_status loom_array_copy(loom_context *context, void *to, const void *from, size_t bytes,
                                     loom_stream stream);

#ifdef __cplusplus
}
#endif
#endif
