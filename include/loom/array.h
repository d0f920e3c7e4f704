/* EXPERIMENTAL: may change in any release. Arrays in the memory of the context's machine: device
 * memory on the cuda machine, host memory on the cpu machine. They are for callers without a CUDA
 * runtime of their own. */
#ifndef LOOM_LOOM_ARRAY_H
#define LOOM_LOOM_ARRAY_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates an array.
 *   - Status   OUT_OF_MEMORY; DEVICE; INVALID_ARGUMENT: also bytes = 0 */
LOOM_API loom_status loom_array_create(loom_context *context, size_t bytes, void **array);

/* Frees an array. Calls that use the array must have ended. NULL is fine.
 *   bytes    the size that was given to loom_array_create */
LOOM_API void loom_array_destroy(loom_context *context, void *array, size_t bytes);

/* Copies between two arrays that do not overlap. Each may be in the machine's memory or in host
 * memory.
 *   - Runs     synchronous
 *   - Status   OUT_OF_MEMORY, DEVICE */
LOOM_API loom_status loom_array_copy(loom_context *context, void *to, const void *from, size_t bytes,
                                     loom_stream stream);

#ifdef __cplusplus
}
#endif
#endif
