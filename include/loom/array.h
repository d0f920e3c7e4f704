/* EXPERIMENTAL, may change in any release: arrays in the memory of the context's machine. That is
 * device memory on the cuda machine and host memory on the cpu machine. For callers without a CUDA
 * runtime of their own. */
#ifndef LOOM_LOOM_ARRAY_H
#define LOOM_LOOM_ARRAY_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates an array.
 *   - Status   OUT_OF_MEMORY, DEVICE */
LOOM_API loom_status loom_array_create(loom_context *context, size_t bytes, void **array);

/* Frees an array. Calls that use it must have ended. NULL is fine.
 *   bytes    as they were asked for */
LOOM_API void loom_array_destroy(loom_context *context, void *array, size_t bytes);

/* Copies between two arrays that do not overlap, each on the machine or on the host. Synchronous.
 *   - Status   OUT_OF_MEMORY, DEVICE */
LOOM_API loom_status loom_array_copy(loom_context *context, void *to, const void *from, size_t bytes,
                                     loom_stream stream);

#ifdef __cplusplus
}
#endif
#endif
