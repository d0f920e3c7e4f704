/* One partition in the shared memory of a thread block, for any engine: takes places in buckets, reads lines, and
 * writes the partition to the table. */
#ifndef LOOM_CUDA_PARTITION_CUH
#define LOOM_CUDA_PARTITION_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Takes the next place of a bucket. Each word of `taken` has the counters of two buckets. */
__device__ __forceinline__ uint32_t take_place(uint32_t *taken, uint32_t bucket)
{
    uint32_t half = bucket % 2 * 16;
    return atomicAdd(&taken[bucket / 2], 1u << half) >> half & 0xffff;
}

__device__ __forceinline__ uint32_t places_taken(const uint32_t *taken, uint32_t bucket)
{
    return *((const volatile uint16_t *)taken + bucket);
}

/* Loads a quarter of a line in one access. The compiler would load keys one by one, from few banks. */
__device__ __forceinline__ uint4 load_quarter(const unsigned char *at)
{
    uint4 quarter;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quarter.x), "=r"(quarter.y), "=r"(quarter.z), "=r"(quarter.w)
                 : "r"((uint32_t)__cvta_generic_to_shared(at))
                 : "memory");
    return quarter;
}

/* Writes the partition from shared memory at `from` to the table at `to`. `over`: threads have already written to the
 * memory at `to`. */
template <bool over>
__device__ __forceinline__ void write_partition(unsigned char *to, unsigned char *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
    if (over)
        asm volatile("fence.proxy.async;" ::: "memory"); /* orders all of this thread's writes before the copy */
    else
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* orders its writes to shared memory only */
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"((uint32_t)__cvta_generic_to_shared(from)), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
#else
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

#endif
