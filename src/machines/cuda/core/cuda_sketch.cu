/* Sketches the keys of a batch (core/key_sketch.h).
 *
 * Each thread block keeps all registers in its shared memory and merges them into global memory at its end. A key
 * raises a register by an atomic operation only if its rank is larger than the one it reads; after the first few
 * thousand keys of a block that is rare. So a key costs its load, about 40 instructions and one read of shared memory.
 * By these counts 10^8 keys of 4 bytes take at least 0.1 ms for reading and 0.14 ms for instructions.
 *
 * The host sketches keys in host memory: it reads them faster than they pass over the link. References to strings are
 * always on the device, as their bytes are. */
#include "machines/cuda/core/cuda_call.cuh"
#include "machines/cuda/core/cuda_string_hash.cuh"

namespace
{

enum { THREADS = 1024, BLOCKS_PER_MULTIPROCESSOR = 2, AT_ONCE = 4 /* loads in flight per thread */ };

__device__ __forceinline__ void add_key(uint32_t *ranks, uint64_t number, uint64_t seed)
{
    const uint64_t hash = loom__sketch_hash(number, seed);
    uint32_t *at = ranks + loom__sketch_register(hash);
    const uint32_t rank = loom__sketch_rank(hash);
    if (rank > *(volatile uint32_t *)at)
        atomicMax(at, rank);
}

__device__ __forceinline__ void merge_ranks(const uint32_t *ranks, uint32_t *whole)
{
    for (uint32_t i = threadIdx.x; i < LOOM__SKETCH_REGISTERS; i += THREADS)
        if (ranks[i] > *(volatile uint32_t *)(whole + i))
            atomicMax(whole + i, ranks[i]);
}

/* Adds all keys. Each thread loads several keys before it adds the first one. */
template <class word>
__device__ __forceinline__ void add_words(uint32_t *ranks, const word *keys, uint64_t n, uint64_t seed)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += AT_ONCE * stride) {
        word some[AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++)
            some[k] = i + k * stride < n ? keys[i + k * stride] : keys[i]; /* a key more often changes nothing */
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++)
            add_key(ranks, some[k], seed);
    }
}

/* Strings: equal strings have equal numbers. */
__device__ __forceinline__ void add_strings(uint32_t *ranks, const loom__string *strings, uint64_t n, uint64_t seed,
                                            loom__seed expanded)
{
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS)
        add_key(ranks, hash_string(strings[i], expanded), seed);
}

__global__ void __launch_bounds__(THREADS)
    sketch_strings_kernel(const loom__string *strings, uint64_t n, uint64_t seed, loom__seed expanded, uint32_t *whole)
{
    __shared__ uint32_t ranks[LOOM__SKETCH_REGISTERS];
    for (uint32_t i = threadIdx.x; i < LOOM__SKETCH_REGISTERS; i += THREADS)
        ranks[i] = 0;
    __syncthreads();
    add_strings(ranks, strings, n, seed, expanded);
    __syncthreads();
    merge_ranks(ranks, whole);
}

/* `aligned`: keys of 4 or 8 bytes lie at multiples of their width. */
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_MULTIPROCESSOR)
    sketch_kernel(const unsigned char *keys, uint32_t key_bytes, uint64_t n, uint64_t seed, bool aligned,
                  uint32_t *whole)
{
    __shared__ uint32_t ranks[LOOM__SKETCH_REGISTERS];
    for (uint32_t i = threadIdx.x; i < LOOM__SKETCH_REGISTERS; i += THREADS)
        ranks[i] = 0;
    __syncthreads();
    if (aligned && key_bytes == 4)
        add_words(ranks, (const uint32_t *)keys, n, seed);
    else if (aligned)
        add_words(ranks, (const uint64_t *)keys, n, seed);
    else
        for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (uint64_t)gridDim.x * THREADS)
            add_key(ranks, loom__sketch_number(keys + i * key_bytes, key_bytes), seed);
    __syncthreads();
    merge_ranks(ranks, whole);
}

cudaError_t sketch(const cuda_state *cuda, const unsigned char *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                   uint32_t *whole, uint32_t *read, cudaStream_t stream)
{
    const uint64_t bytes = LOOM__SKETCH_REGISTERS * sizeof *whole;
    const uint64_t most = (uint64_t)cuda->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    const uint64_t useful = n / (AT_ONCE * THREADS) + 1;
    const bool aligned = (key_bytes == 4 || key_bytes == 8) && (uintptr_t)keys % key_bytes == 0;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(whole, 0, bytes, stream));
    const unsigned blocks = (unsigned)(useful < most ? useful : most);
    if (key_bytes == LOOM_VARIABLE)
        sketch_strings_kernel<<<blocks, THREADS, 0, stream>>>((const loom__string *)keys, n, seed,
                                                              loom__seed_expand(seed), whole);
    else
        sketch_kernel<<<blocks, THREADS, 0, stream>>>(keys, key_bytes, n, seed, aligned, whole);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(cudaMemcpyAsync(read, whole, bytes, cudaMemcpyDeviceToHost, stream));
    return cudaStreamSynchronize(stream);
}

} // namespace

loom_status cuda_sketch_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                             loom__key_sketch *made, loom_stream given)
{
    cuda_state *cuda = (cuda_state *)machine;
    const uint64_t bytes = LOOM__SKETCH_REGISTERS * sizeof(uint32_t);
    cuda_place place;
    uint32_t read[LOOM__SKETCH_REGISTERS];
    ON_DEVICE(cuda);
    RETURN_IF_FAILED(cuda_locate(cuda, "keys", keys, &place));
    if (place != PLACE_DEVICE) { /* the calls before in the stream may write the keys */
        CUDA_TRY(cudaStreamSynchronize((cudaStream_t)given));
        return cuda->host->ops->sketch_keys(cuda->host, keys, key_bytes, n, seed, made, NULL);
    }
    const cuda_workspace own = cuda_take_workspace(machine, bytes, given, NULL);
    RETURN_ERROR_IF(own.at == NULL, LOOM_OUT_OF_MEMORY, "%llu bytes of temporary memory could not be had",
                    (unsigned long long)bytes);
    const cudaError_t error = cuda_step(
        sketch(cuda, (const unsigned char *)keys, key_bytes, n, seed, (uint32_t *)own.at, read, (cudaStream_t)given));
    cuda_give_workspace(machine, &own, given);
    for (uint32_t i = 0; i < LOOM__SKETCH_REGISTERS && error == cudaSuccess; i++)
        made->ranks[i] = (uint8_t)read[i];
    return cuda_status(error, "sketching the keys of a batch");
}
