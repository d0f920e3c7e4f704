/* What measurements of the link share (cuda_limits.cu, cuda_row_rates.cu): random places, and a gather by the host's
 * threads. Also the clock. */
#ifndef LOOM_CUDA_MEASURE_CUH
#define LOOM_CUDA_MEASURE_CUH

#include <stdint.h>
#include <string.h>
#include <time.h>

inline double cuda_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A number below `range`, which looks random; the same on both sides. */
__host__ __device__ __forceinline__ uint64_t cuda_random_place(uint64_t index, uint64_t range)
{
    uint64_t x = (index ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xa0761d6478bd642fu;
    x ^= x >> 32;
#if defined(__CUDA_ARCH__)
    return __umul64hi(x, range);
#else
    return (uint64_t)((unsigned __int128)x * range >> 64);
#endif
}

/* Rows that the host's threads copy from random places of `from` into one array. */
struct cuda_random_gather {
    const unsigned char *from;
    unsigned char *to;
    uint64_t places, each; /* rows in `from`; rows of a task */
    uint32_t bytes, ahead; /* of a row; rows ahead that a thread prefetches */
};

/* A task for host_parallel. */
inline void cuda_gather_at_random(void *argument, uint64_t task)
{
    const cuda_random_gather *gather = (const cuda_random_gather *)argument;
    for (uint64_t i = task * gather->each; i < (task + 1) * gather->each; i++) {
        const uint64_t ahead = cuda_random_place(i + gather->ahead, gather->places);
        __builtin_prefetch(gather->from + ahead * gather->bytes, 0, 0);
        memcpy(gather->to + i * gather->bytes, gather->from + cuda_random_place(i, gather->places) * gather->bytes,
               gather->bytes);
    }
}

#endif
