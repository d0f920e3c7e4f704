/* Heavy keys: those that make up much of a batch. A split gives each part about the same room, so it gives up when the
 * records of one key alone are more. A sample shows that before the split. */
#ifndef LOOM_CUDA_HEAVY_CUH
#define LOOM_CUDA_HEAVY_CUH

#include "machines/cuda/core/cuda_call.cuh"

/* Whether some key very probably comes at least `least` times among the n keys. Keys that come less often than one time
 * in 512 are not seen. *found is false if the keys lie in host memory. Waits. */
loom_status cuda_has_heavy_keys(cuda_state *cuda, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t least,
                                cudaStream_t stream, bool *found);

#endif
