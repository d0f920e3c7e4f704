/* Insertion into a filter by partition: split the batch (cuda_split_passes.cuh), then give each partition to one thread
 * block, which sets its keys' bits in shared memory.
 *
 * Bytes to move, for n keys of w bytes and a filter of b bytes: 2 n w for each pass of the split, n w + 2 b to fill.
 * For 2^27 keys of 4 bytes with 16 bits each and two passes this is 3.2 GB: 0.8 ms at the speed of a copy, 167 G
 * keys/s. A direct insertion reads and writes a random line of 64 bytes for each key.
 *
 * Measured on an H200: 70 G keys/s. The passes take 0.48 and 0.49 ms. Filling takes 0.88 ms and is bound by
 * instructions (84 %). Filling took 1.53 ms when all lanes of a warp set bits of the same quarter at once: the words of
 * a quarter lie in four banks. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/filter/filter_ops.h"
#include "machines/cuda/core/cuda_bulk.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

namespace
{

enum {
    THREADS = 512,
    UNROLLED = 4,        /* keys that a thread reads at once */
    PARTITION_BLOCKS = 3 /* thread blocks per SM */
};

/* Sets a key's bits in a block in shared memory, by atomic ORs of 32 bits. Lanes begin with different words, because
 * the words of one half of a quarter lie in four banks, whatever the block. */
template <uint32_t each> __device__ __forceinline__ void set_bits(uint32_t *block, uint32_t lower)
{
#pragma unroll
    for (uint32_t i = 0; i < FILTER_QUARTERS; i++) {
        const uint32_t quarter = (threadIdx.x + i) % FILTER_QUARTERS, number = filter_number(lower, quarter);
#pragma unroll
        for (uint32_t j = 0; j < each; j++) {
            const uint32_t which = (threadIdx.x / FILTER_QUARTERS + j) % each;
            const uint32_t word = filter_chosen_word(each, number, which);
            atomicOr(block + 4 * quarter + word, filter_chosen_bit(each, number, which, word));
        }
    }
}

/* One thread block per partition. Does nothing if the split gave up. */
template <class key, uint32_t each>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
    fill_kernel(const loom__filter_view view, const split_regions<key, no_column, false> records)
{
    extern __shared__ __align__(16) uint32_t words[];
    const uint32_t first = blockIdx.x << FILTER_PARTITION_SHIFT, left = view.blocks - first;
    const uint32_t blocks = left < FILTER_PARTITION_BLOCKS ? left : FILTER_PARTITION_BLOCKS;
    const uint32_t count = records.gave_up() ? 0 : records.count(blockIdx.x);
    const key *keys = records.at(blockIdx.x).heads;
    uint4 *there = (uint4 *)filter_block(&view, first);
    if (count == 0)
        return;
    for (uint32_t i = threadIdx.x; i < blocks * (FILTER_BLOCK_BYTES / 16); i += THREADS)
        ((uint4 *)words)[i] = there[i];
    __syncthreads();
    for (uint32_t next = threadIdx.x; next < count; next += THREADS * UNROLLED) {
        key some[UNROLLED];
#pragma unroll
        for (int k = 0; k < UNROLLED; k++)
            some[k] = next + k * THREADS < count ? __ldcs(keys + next + k * THREADS) : 0;
#pragma unroll
        for (int k = 0; k < UNROLLED; k++) {
            const filter_key sought = filter_start(&view, sizeof(key), some[k]);
            if (next + k * THREADS < count)
                set_bits<each>(words + (sought.block - first) * (FILTER_BLOCK_BYTES / 4), sought.lower);
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < blocks * (FILTER_BLOCK_BYTES / 16); i += THREADS)
        there[i] = ((const uint4 *)words)[i];
}

template <loom__slot_kind kind, uint32_t each>
cudaError_t fill(const loom__filter_view *view, const split_plan *plan, unsigned char *workspace, cudaStream_t stream)
{
    auto kernel = fill_kernel<typename bulk_columns<kind>::key, each>;
    cudaError_t error = allow_shared(kernel, FILTER_PARTITION_BYTES);
    if (error != cudaSuccess)
        return error;
    const size_t bytes = filter_bytes(filter_partition_blocks(view->blocks));
    kernel<<<filter_partitions(view->blocks), THREADS, bytes, stream>>>(
        *view, split_fine_regions<bulk_columns<kind>>(plan, workspace, 0));
    return cudaGetLastError();
}

} // namespace

cudaError_t cuda_filter_fill(const loom__filter_view *view, const split_plan *plan, unsigned char *workspace,
                             cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
#define CALL(key_bytes, each) \
    error = fill < key_bytes == 4 ? SLOT_KEY_4 : SLOT_KEY_8, each > (view, plan, workspace, stream)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
    return error;
}
