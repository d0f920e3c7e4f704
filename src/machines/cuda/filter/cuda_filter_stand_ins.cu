/* Stand-ins of keys (filter_layout.h), as cuda_hash.cu makes hashes: one thread reads one key, in words if all keys are
 * aligned to them, and the L1 cache joins the accesses of a warp. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

namespace
{

enum {
    THREADS = 256,
    MOST_BLOCKS = 1 << 20 /* a thread takes several keys of a larger batch */
};

/* The call's arrays stand where a lookup has keys and values. */
enum { WIDE_KEYS = CALL_KEYS, STAND_INS = CALL_FOUND_VALUES };

/* `alignment` of the array and of the width. */
template <uint32_t alignment>
__global__ void __launch_bounds__(THREADS)
    stand_in_kernel(const unsigned char *__restrict__ keys, uint32_t key_bytes, uint64_t n, loom__seed seed,
                    uint64_t *__restrict__ stand_ins)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += stride)
        stand_ins[i] = filter_stand_in(keys + i * key_bytes, key_bytes, alignment, seed);
}

cudaError_t replace_chunk(void *argument, void *const at[CALL_ARRAYS], uint64_t first, uint64_t count,
                          cudaStream_t stream)
{
    const loom__filter_view *view = (const loom__filter_view *)argument;
    const uint64_t all = count / THREADS + (count % THREADS != 0);
    const unsigned blocks = all < MOST_BLOCKS ? (unsigned)all : (unsigned)MOST_BLOCKS;
    const uint64_t together = (uintptr_t)at[WIDE_KEYS] | view->key_bytes;
    auto kernel = together % 8 == 0 ? stand_in_kernel<8> : together % 4 == 0 ? stand_in_kernel<4> : stand_in_kernel<1>;
    (void)first;
    kernel<<<blocks, THREADS, 0, stream>>>((const unsigned char *)at[WIDE_KEYS], view->key_bytes, count, view->seed,
                                           (uint64_t *)at[STAND_INS]);
    return cudaGetLastError();
}

} // namespace

loom_status cuda_filter_stand_ins(cuda_state *cuda, const loom__filter_view *view, const cuda_call_array *keys,
                                  uint64_t *stand_ins, cudaStream_t stream)
{
    cuda_call_arrays arrays = {};
    arrays.all[WIDE_KEYS] = *keys;
    arrays.all[STAND_INS] = {"keys", stand_ins, sizeof *stand_ins, keys->count, true, false, PLACE_DEVICE};
    arrays.staged = keys->staged();
    return cuda_run_arrays(cuda, &arrays, keys->count, replace_chunk, (void *)view, true, stream);
}
