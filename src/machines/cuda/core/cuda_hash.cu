/* Hashes of keys (core/machine.h). Neighbouring threads hash neighbouring keys, so that a warp reads and writes whole
 * sectors. The kernel moves 12 or 16 bytes per key and does little else. Keys of other widths: one thread reads one
 * key, in words if all keys are aligned to them, and the L1 cache joins the accesses of a warp. */
#include "core/hash_bytes.h"
#include "machines/cuda/core/cuda_call.cuh"

namespace
{

enum {
    THREADS = 256,
    MOST_BLOCKS = 1 << 20 /* a thread takes several keys of a larger batch */
};

/* The call's arrays stand where a lookup has keys and values. */
enum { HASH_KEYS = CALL_KEYS, HASH_HASHES = CALL_FOUND_VALUES };

struct hash_call {
    uint32_t key_bytes;
    loom__seed seed;
};

template <class key>
__global__ void __launch_bounds__(THREADS)
    hash_kernel(const key *__restrict__ keys, uint64_t n, loom__seed seed, uint64_t *__restrict__ hashes)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += stride)
        hashes[i] = loom__hash_key(keys[i], sizeof(key), seed);
}

/* `alignment` of the array and of the width. */
template <uint32_t alignment>
__global__ void __launch_bounds__(THREADS) hash_bytes_kernel(const unsigned char *__restrict__ keys, uint32_t key_bytes,
                                                             uint64_t n, loom__seed seed, uint64_t *__restrict__ hashes)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += stride)
        hashes[i] = loom__hash_bytes_aligned(keys + i * key_bytes, key_bytes, alignment, seed);
}

cudaError_t hash_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count, cudaStream_t stream)
{
    const hash_call *call = (const hash_call *)argument;
    const uint64_t all = count / THREADS + (count % THREADS != 0);
    const unsigned blocks = all < MOST_BLOCKS ? (unsigned)all : (unsigned)MOST_BLOCKS;
    uint64_t *hashes = (uint64_t *)at[HASH_HASHES];
    (void)first;
    if (call->key_bytes == 4) {
        hash_kernel<<<blocks, THREADS, 0, stream>>>((const uint32_t *)at[HASH_KEYS], count, call->seed, hashes);
    } else if (call->key_bytes == 8) {
        hash_kernel<<<blocks, THREADS, 0, stream>>>((const uint64_t *)at[HASH_KEYS], count, call->seed, hashes);
    } else {
        const uint64_t together = (uintptr_t)at[HASH_KEYS] | call->key_bytes;
        auto kernel = together % 8 == 0   ? hash_bytes_kernel<8>
                      : together % 4 == 0 ? hash_bytes_kernel<4>
                                          : hash_bytes_kernel<1>;
        kernel<<<blocks, THREADS, 0, stream>>>((const unsigned char *)at[HASH_KEYS], call->key_bytes, count, call->seed,
                                               hashes);
    }
    return cudaGetLastError();
}

} // namespace

loom_status cuda_hash_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                           uint64_t *hashes, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaStream_t stream = (cudaStream_t)given;
    hash_call call = {key_bytes, loom__seed_expand(seed)};
    cuda_call_arrays arrays = {};
    arrays.all[HASH_KEYS] = {"keys", (void *)keys, key_bytes, n, false, false, PLACE_NONE};
    arrays.all[HASH_HASHES] = {"hashes", hashes, sizeof *hashes, n, true, false, PLACE_NONE};
    if (n == 0)
        return LOOM_OK;
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate_all(cuda, &arrays));
    RETURN_IF_FAILED(cuda_run_arrays(cuda, &arrays, n, hash_chunk, &call, true, stream));
    if (!arrays.staged)
        CUDA_TRY(cudaStreamSynchronize(stream));
    return LOOM_OK;
}
