/* Measures the highest rates that the device can reach. The benchmark compares operations with these rates. Each rate
 * is the best of several shapes (lanes, items in flight, cache hints), so that nothing built on the same accesses can
 * exceed it. */
#include "core/memory.h"
#include "machines/cuda/core/cuda_measure.cuh"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

#include <stdio.h>
#include <stdlib.h>

namespace
{

enum { THREADS = 256, REPEATS = 5 };

/* The cache hint of an access. */
enum cache_hint {
    HINT_NONE,
    HINT_PASS_L1, /* not kept in the L1 cache */
    HINT_FIRST,   /* the same, and first to leave the L2 cache */
    HINT_LAST,    /* the same, and last to leave the L2 cache */
    CACHE_HINTS
};

const char *const HINT_NAMES[CACHE_HINTS] = {"", ", not in L1", ", first out of L2", ", last out of L2"};

__device__ __forceinline__ uint64_t l2_policy(cache_hint hint)
{
    uint64_t policy;
    if (hint == HINT_FIRST)
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    else if (hint == HINT_LAST)
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    else
        asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

template <bool hinted>
__device__ __forceinline__ void read_16(ulonglong2 *got, const unsigned char *at, uint64_t policy)
{
    if (hinted)
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v2.u64 {%0, %1}, [%2], %3;"
                     : "=l"(got->x), "=l"(got->y)
                     : "l"(at), "l"(policy));
    else
        asm volatile("ld.global.nc.v2.u64 {%0, %1}, [%2];" : "=l"(got->x), "=l"(got->y) : "l"(at));
}

template <bool hinted> __device__ __forceinline__ void read_8(ulonglong2 *got, const unsigned char *at, uint64_t policy)
{
    if (hinted)
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.u64 %0, [%1], %2;"
                     : "=l"(got->x)
                     : "l"(at), "l"(policy));
    else
        asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(got->x) : "l"(at));
}

/* `lanes` lanes read one place of `bytes` bytes together, 8 or 16 bytes per load. `items` places are in flight at
 * once. */
template <int bytes, int lanes, int items, bool hinted>
__global__ void __launch_bounds__(THREADS)
    read_kernel(const unsigned char *memory, uint64_t places, uint64_t n, uint32_t *out, cache_hint hint)
{
    const uint64_t policy = l2_policy(hint);
    constexpr int share = bytes / lanes, loads = share > 16 ? share / 16 : 1;
    uint32_t lane = threadIdx.x % lanes, sum = 0;
    uint64_t first = (uint64_t)blockIdx.x * (THREADS / lanes * items) + threadIdx.x / lanes;
    ulonglong2 got[items][loads];
#pragma unroll
    for (int i = 0; i < items; i++) {
        uint64_t index = first + (uint64_t)i * (THREADS / lanes);
        const unsigned char *at = memory + cuda_random_place(index, places) * bytes + lane * share;
#pragma unroll
        for (int j = 0; j < loads; j++) {
            if (index < n && share >= 16)
                read_16<hinted>(&got[i][j], at + 16 * j, policy);
            else if (index < n)
                read_8<hinted>(&got[i][j], at, policy);
        }
    }
#pragma unroll
    for (int i = 0; i < items; i++)
#pragma unroll
        for (int j = 0; j < loads; j++)
            sum ^= (uint32_t)(got[i][j].x + (share >= 16 ? got[i][j].y : 0));
    if (sum == 0x12345678u)
        *out = sum; /* never happens; keeps the loads alive */
}

/* Moves what a lookup moves and does nothing else: a warp reads 128 keys and a random line for each, and writes a value
 * and a status for each. A lane moves keys and answers in pieces of 16 bytes. */
template <int lanes, bool hinted>
__global__ void __launch_bounds__(THREADS, 6)
    answer_kernel(const unsigned char *memory, uint64_t places, uint64_t n, const uint32_t *keys, uint32_t *values,
                  uint8_t *status, cache_hint hint)
{
    const uint64_t policy = l2_policy(hint);
    __shared__ __align__(16) uint32_t tiles[THREADS / 32][TILE_ITEMS];
    uint32_t *tile = tiles[threadIdx.x / 32];
    tile_range range(n, TILE_ITEMS);
    tile_read(tile, range, keys);
    __syncwarp();
    for (uint32_t first = 0; first < TILE_ITEMS; first += 32 / lanes) {
        uint32_t item = first + range.lane / lanes, share = 64 / lanes;
        uint64_t index = range.first + item + ((uint64_t)tile[item] << 40);
        const unsigned char *at = memory + cuda_random_place(index, places) * 64 + range.lane % lanes * share;
        uint64_t sum = 0;
#pragma unroll
        for (uint32_t part = 0; part < share; part += 16) {
            ulonglong2 got;
            read_16<hinted>(&got, at + part, policy);
            sum += got.x ^ got.y;
        }
        __syncwarp();
        if (range.lane % lanes == 0)
            tile[item] = (uint32_t)sum;
    }
    __syncwarp();
    tile_write(tile, range, values);
    tile_write((const uint8_t *)tile, range, status); /* any bytes do */
}

/* A CAS takes no hints. */
template <int items>
__global__ void __launch_bounds__(THREADS) swap_kernel(unsigned char *memory, uint64_t places, uint64_t n)
{
    uint64_t index = (uint64_t)blockIdx.x * (THREADS * items) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < items; i++, index += THREADS)
        if (index < n)
            atomicCAS((unsigned long long *)memory + cuda_random_place(index, places), 0ull, 0ull);
}

/* `streams`: loads and stores carry the hint that the data will not be needed again. */
template <bool streams> __global__ void __launch_bounds__(THREADS) copy_kernel(uint4 *to, const uint4 *from, uint64_t n)
{
    uint64_t index = (uint64_t)blockIdx.x * (THREADS * 4) + threadIdx.x;
    uint4 got[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (index + i * THREADS < n)
            got[i] = streams ? __ldcs(from + index + i * THREADS) : from[index + i * THREADS];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (index + i * THREADS < n && streams)
            __stcs(to + index + i * THREADS, got[i]);
        else if (index + i * THREADS < n)
            to[index + i * THREADS] = got[i];
}

struct measurement {
    cuda_state *cuda;
    loom__machine *host;
    unsigned char *memory; /* on the device, or pinned on the host if the limit is that of the link */
    unsigned char *device; /* HOST_COPY: the destination. ANSWERED_READ: keys, values and statuses */
    uint64_t bytes;
    uint32_t *out;
    loom_limit *limit;
    cudaEvent_t from, to;
};

/* Measures a shape, and keeps it if it is the best so far. `work` is what one launch does, in the unit of the limit. */
template <class launch_function>
cudaError_t try_shape(measurement *m, const char *shape, double work, launch_function launch)
{
    float best = 0, milliseconds;
    for (int i = 0; i <= REPEATS; i++) { /* the first one warms up */
        RETURN_IF_CUDA_FAILED(cudaEventRecord(m->from));
        launch();
        RETURN_IF_CUDA_FAILED(cudaGetLastError()); /* of the launch or the copy */
        RETURN_IF_CUDA_FAILED(cudaEventRecord(m->to));
        RETURN_IF_CUDA_FAILED(cudaEventSynchronize(m->to));
        RETURN_IF_CUDA_FAILED(cudaEventElapsedTime(&milliseconds, m->from, m->to));
        if (i > 0 && (best == 0 || milliseconds < best))
            best = milliseconds;
    }
    double rate = work / (best * 1e-3);
    if (rate > m->limit->rate) {
        m->limit->rate = rate;
        snprintf(m->limit->shape, sizeof m->limit->shape, "%s", shape);
    }
    return cudaSuccess;
}

/* Tries a shape with each cache hint. launch(hint) launches it. */
template <class launch_function>
cudaError_t try_hints(measurement *m, const char *shape, double work, launch_function launch)
{
    char hinted[64];
    for (int hint = HINT_NONE; hint < CACHE_HINTS; hint++) {
        snprintf(hinted, sizeof hinted, "%s%s", shape, HINT_NAMES[hint]);
        RETURN_IF_CUDA_FAILED(try_shape(m, hinted, work, [=] { launch((cache_hint)hint); }));
    }
    return cudaSuccess;
}

unsigned blocks_for(uint64_t n, uint64_t per_block)
{
    return (unsigned)((n + per_block - 1) / per_block);
}

template <int bytes, int lanes, int items> cudaError_t try_reads(measurement *m, uint64_t n)
{
    char shape[32];
    snprintf(shape, sizeof shape, "%d lanes, %d in flight", lanes, items);
    return try_hints(m, shape, (double)n, [=](cache_hint hint) {
        auto kernel =
            hint == HINT_NONE ? read_kernel<bytes, lanes, items, false> : read_kernel<bytes, lanes, items, true>;
        kernel<<<blocks_for(n, THREADS / lanes * items), THREADS>>>(m->memory, m->bytes / bytes, n, m->out, hint);
    });
}

/* Tries `lanes`, then twice as many, up to 8, as long as each lane reads at least 8 bytes. */
template <int bytes, int lanes = 1> cudaError_t try_lanes(measurement *m, uint64_t n)
{
    RETURN_IF_CUDA_FAILED((try_reads<bytes, lanes, 1>(m, n)));
    RETURN_IF_CUDA_FAILED((try_reads<bytes, lanes, 2>(m, n)));
    RETURN_IF_CUDA_FAILED((try_reads<bytes, lanes, 4>(m, n)));
    if constexpr (lanes < 8 && bytes / lanes > 8)
        return try_lanes<bytes, 2 * lanes>(m, n);
    return cudaSuccess;
}

template <int items> cudaError_t try_swaps(measurement *m, uint64_t n)
{
    char shape[64];
    snprintf(shape, sizeof shape, "1 lane, %d in flight", items);
    return try_shape(m, shape, (double)n, [=] {
        swap_kernel<items><<<blocks_for(n, THREADS * items), THREADS>>>(m->memory, m->bytes / 8, n);
    });
}

template <int lanes> cudaError_t try_answers(measurement *m, uint64_t n)
{
    char shape[32];
    uint32_t *keys = (uint32_t *)m->device, *values = keys + n;
    uint8_t *status = (uint8_t *)(values + n);
    const unsigned blocks = (unsigned)(n / TILE_ITEMS / (THREADS / 32));
    snprintf(shape, sizeof shape, "%d lanes, tiles of %d", lanes, TILE_ITEMS);
    return try_hints(m, shape, (double)n, [=](cache_hint hint) {
        auto kernel = hint == HINT_NONE ? answer_kernel<lanes, false> : answer_kernel<lanes, true>;
        kernel<<<blocks, THREADS>>>(m->memory, m->bytes / 64, n, keys, values, status, hint);
    });
}

/* Reads in ascending order: read i lies in the i-th of n equal parts of the memory. */
template <int bytes, int items>
__global__ void __launch_bounds__(THREADS)
    ordered_kernel(const unsigned char *memory, uint64_t apart, uint64_t n, uint32_t *out)
{
    const uint64_t first = (uint64_t)blockIdx.x * (THREADS * items) + threadIdx.x;
    uint64_t sum = 0;
#pragma unroll
    for (int k = 0; k < items; k++) {
        const uint64_t i = first + (uint64_t)k * THREADS;
        const unsigned char *at = memory + (i * apart + cuda_random_place(i, apart)) * bytes;
#pragma unroll
        for (int from = 0; from < bytes && i < n; from += 8)
            sum += *(const uint64_t *)(at + from);
    }
    if (sum == 0x123456789abcdefull)
        *out = 1; /* never happens; keeps the loads alive */
}

enum { ORDERED_BYTES = 512 }; /* from one read to the next */

template <int bytes> cudaError_t try_ordered(measurement *m)
{
    const uint64_t apart = ORDERED_BYTES / bytes, n = m->bytes / ORDERED_BYTES;
    RETURN_IF_CUDA_FAILED(try_shape(m, "1 in flight", (double)n, [=] {
        ordered_kernel<bytes, 1><<<blocks_for(n, THREADS), THREADS>>>(m->memory, apart, n, m->out);
    }));
    return try_shape(m, "4 in flight", (double)n, [=] {
        ordered_kernel<bytes, 4><<<blocks_for(n, THREADS * 4), THREADS>>>(m->memory, apart, n, m->out);
    });
}

cudaError_t try_gathers(measurement *m)
{
    const uint64_t n = (uint64_t)1 << 24, each = 1 << 14;
    unsigned char *to = (unsigned char *)malloc(n * m->limit->access_bytes);
    if (to == NULL)
        return cudaErrorMemoryAllocation;
    for (uint32_t ahead = 16; ahead <= 64; ahead *= 2) {
        cuda_random_gather work = {m->memory, to, m->bytes / m->limit->access_bytes, each, m->limit->access_bytes,
                                   ahead};
        for (int i = 0; i <= REPEATS / 2; i++) {
            const double begin = cuda_seconds();
            m->host->ops->host_parallel(m->host, n / each, cuda_gather_at_random, &work);
            const double rate = (double)n / (cuda_seconds() - begin);
            if (i > 0 && rate > m->limit->rate) {
                m->limit->rate = rate;
                snprintf(m->limit->shape, sizeof m->limit->shape, "all host threads, distance %u", (unsigned)ahead);
            }
        }
    }
    free(to);
    return cudaSuccess;
}

/* Enough accesses to take a few milliseconds. */
uint64_t accesses_of(const loom_limit *limit)
{
    return limit->kind == LOOM_LIMIT_HOST_RANDOM_READ ? (uint64_t)1 << 21 : (uint64_t)1 << 26;
}

cudaError_t measure(measurement *m)
{
    const uint64_t n = accesses_of(m->limit);
    const uint64_t bytes = m->limit->access_bytes;
    auto try_width = bytes == 8    ? try_lanes<8>
                     : bytes == 16 ? try_lanes<16>
                     : bytes == 32 ? try_lanes<32>
                     : bytes == 64 ? try_lanes<64>
                                   : try_lanes<128>;
    switch (m->limit->kind) {
    case LOOM_LIMIT_RANDOM_READ:
    case LOOM_LIMIT_HOST_RANDOM_READ:
        return try_width(m, n);
    case LOOM_LIMIT_RANDOM_CAS:
        RETURN_IF_CUDA_FAILED(try_swaps<1>(m, n));
        RETURN_IF_CUDA_FAILED(try_swaps<2>(m, n));
        return try_swaps<4>(m, n);
    case LOOM_LIMIT_ANSWERED_READ:
        RETURN_IF_CUDA_FAILED(try_answers<2>(m, n));
        return try_answers<4>(m, n);
    case LOOM_LIMIT_HOST_ORDERED_READ:
        return bytes == 8    ? try_ordered<8>(m)
               : bytes == 16 ? try_ordered<16>(m)
               : bytes == 32 ? try_ordered<32>(m)
               : bytes == 64 ? try_ordered<64>(m)
                             : try_ordered<128>(m);
    case LOOM_LIMIT_HOST_GATHER:
        return try_gathers(m);
    case LOOM_LIMIT_TO_HOST_COPY:
        return try_shape(m, "cudaMemcpy to pinned memory", (double)m->bytes,
                         [=] { cudaMemcpyAsync(m->memory, m->device, m->bytes, cudaMemcpyDeviceToHost, 0); });
    case LOOM_LIMIT_HOST_COPY:
        return try_shape(m, "cudaMemcpy from pinned memory", (double)m->bytes,
                         [=] { cudaMemcpyAsync(m->device, m->memory, m->bytes, cudaMemcpyHostToDevice, 0); });
    default:
        const uint64_t half = m->bytes / 2 / 16;
        const unsigned blocks = blocks_for(half, THREADS * 4);
        const double moved = (double)half * 32;
        uint4 *to = (uint4 *)m->memory;
        RETURN_IF_CUDA_FAILED(try_shape(
            m, "cudaMemcpy", moved, [=] { cudaMemcpyAsync(to, to + half, half * 16, cudaMemcpyDeviceToDevice, 0); }));
        RETURN_IF_CUDA_FAILED(try_shape(m, "kernel, 4 x 16 bytes a thread", moved,
                                        [=] { copy_kernel<false><<<blocks, THREADS>>>(to, to + half, half); }));
        return try_shape(m, "kernel, 4 x 16 bytes a thread, streaming", moved,
                         [=] { copy_kernel<true><<<blocks, THREADS>>>(to, to + half, half); });
    }
}

bool copies_over_link(const measurement *m)
{
    return m->limit->kind == LOOM_LIMIT_HOST_COPY || m->limit->kind == LOOM_LIMIT_TO_HOST_COPY;
}

/* Whether the memory lies on the host. */
bool uses_link(const measurement *m)
{
    return copies_over_link(m) || m->limit->kind == LOOM_LIMIT_HOST_RANDOM_READ ||
           m->limit->kind == LOOM_LIMIT_HOST_ORDERED_READ || m->limit->kind == LOOM_LIMIT_HOST_GATHER;
}

cudaError_t allocate(measurement *m)
{
    const uint64_t device_bytes = copies_over_link(m)                          ? m->bytes
                                  : m->limit->kind == LOOM_LIMIT_ANSWERED_READ ? accesses_of(m->limit) * 9
                                                                               : 0;
    if (uses_link(m)) { /* as rows are allocated */
        m->memory =
            (unsigned char *)cuda_own_allocator.allocate(m->cuda, m->bytes, LOOM__LINE, LOOM_MEMORY_PINNED, NULL);
        if (m->memory == NULL)
            return cudaErrorMemoryAllocation;
        RETURN_IF_CUDA_FAILED(cudaMemset(m->memory, 0, m->bytes));
    } else {
        RETURN_IF_CUDA_FAILED(cudaMalloc(&m->memory, m->bytes));
        RETURN_IF_CUDA_FAILED(cudaMemset(m->memory, 0, m->bytes));
    }
    if (device_bytes > 0) {
        RETURN_IF_CUDA_FAILED(cudaMalloc(&m->device, device_bytes));
        RETURN_IF_CUDA_FAILED(cudaMemset(m->device, 0, device_bytes));
    }
    RETURN_IF_CUDA_FAILED(cudaMalloc(&m->out, sizeof *m->out));
    RETURN_IF_CUDA_FAILED(cudaEventCreate(&m->from));
    return cudaEventCreate(&m->to);
}

void release(measurement *m)
{
    if (!uses_link(m))
        cudaFree(m->memory);
    else if (m->memory != NULL)
        cuda_own_allocator.release(m->cuda, m->memory, m->bytes, LOOM_MEMORY_PINNED, NULL);
    cudaFree(m->device);
    cudaFree(m->out);
    if (m->from != NULL)
        cudaEventDestroy(m->from);
    if (m->to != NULL)
        cudaEventDestroy(m->to);
}

} // namespace

loom_status cuda_measure_limit(loom__machine *machine, loom_limit *limit)
{
    measurement m = {};
    ON_DEVICE((cuda_state *)machine);
    m.cuda = (cuda_state *)machine;
    m.host = m.cuda->host;
    m.bytes = limit->footprint_bytes / 256 * 256;
    m.limit = limit;
    limit->rate = 0;
    cudaError_t error = allocate(&m);
    if (error == cudaSuccess)
        error = measure(&m);
    release(&m);
    return cuda_status(error, "measuring a limit");
}
