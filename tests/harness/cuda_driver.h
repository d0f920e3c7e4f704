/* Contexts, streams and memory of a CUDA device for tests. They use the driver's own library: the tests need no CUDA
 * toolkit. */
#ifndef LOOM_TESTS_CUDA_DRIVER_H
#define LOOM_TESTS_CUDA_DRIVER_H

#include "harness.h"

/* Skips the test where the cuda machine is not present; afterwards the functions below work. */
void need_cuda(void);

/* With a seed from t->random. `lanes`: of a group; 0: chosen by the library. */
loom_context *cuda_context_create(test_run *t, uint32_t lanes);

loom_stream cuda_stream_create(void);
void cuda_stream_destroy(loom_stream stream);
void cuda_stream_wait(loom_stream stream);

typedef enum cuda_memory { CUDA_DEVICE, CUDA_MANAGED, CUDA_PINNED } cuda_memory;
void *cuda_memory_create(cuda_memory kind, size_t bytes);
void cuda_memory_destroy(cuda_memory kind, void *memory);

/* Launches a kernel that fails, as a user's might: the device is of no use to this process afterwards. */
void cuda_run_faulty_kernel(void);

/* From the n-th step on, every step of the cuda machine fails, as if the device were lost. 0: the device works
 * again. */
void cuda_lose_device(uint64_t steps);

/* The most keys of a slice, for batches that go by partition on the cuda machine. 0: as many as the machine can
 * take. */
void cuda_set_slice(loom_context *context, uint64_t keys);

/* Tables with rows in host memory: the bytes of buffers for rows on their way, and how many keys' rows the host gathers
 * at a time. 0: as usual. */
void cuda_set_row_buffers(loom_context *context, uint64_t bytes, uint64_t keys);

/* A function that the cuda machine's module has for tests (machines/cuda/core/cuda_trial.h). */
void *cuda_module_function(const char *name);

#endif
