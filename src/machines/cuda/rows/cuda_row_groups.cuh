/* The items of a batch by their places in the table: counts them by granule, selects those of neighbouring granules,
 * and sorts these. A granule is some partitions that lie together. cuda_row_routes.cu tells what that is for. */
#ifndef LOOM_CUDA_ROW_GROUPS_CUH
#define LOOM_CUDA_ROW_GROUPS_CUH

#include "machines/cuda/rows/cuda_row_windows.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace
{

enum {
    GROUP_THREADS = 256,
    MOST_GRANULES = 12288,            /* a thread block counts them in its shared memory; their numbers have 16 bits */
    FEWEST_ITEMS = LOOM__LEAST_LISTED /* of a group, or of a part of a call, for lack of memory */
};

/* ---- on the device ---- */

/* How kernels find the granule of an item: by its row, or by its key. count_kernel stores it for the passes that
 * follow. */
struct granule_rule {
    const unsigned char *keys;
    const uint64_t *rows;  /* NULL: by keys */
    const uint32_t *items; /* NULL: item i is i */
    uint64_t count;
    uint64_t rows_of_granule;
    uint32_t partitions_of_granule;
    uint16_t *granules; /* [count], and room for SELECTED_BY_THREAD more */
};

__device__ __forceinline__ uint32_t granule_of(const loom__rows_view &view, const granule_rule &rule, uint64_t i)
{
    if (rule.rows != NULL)
        return (uint32_t)(rule.rows[i] / rule.rows_of_granule);
    const bool is_word = view.key_bytes == 8 && (uintptr_t)rule.keys % 8 == 0; /* the same for all */
    const uint64_t hash = is_word
                              ? loom__hash_key(((const uint64_t *)rule.keys)[i], 8, view.lines.seed)
                              : open_row_hash_called(rule.keys + i * view.key_bytes, view.key_bytes, view.lines.seed);
    return loom__hash_partition(hash, view.lines.partitions) / rule.partitions_of_granule;
}

enum {
    COUNTED_AT_ONCE = 4, /* items of a thread */
    SELECTED_BY_THREAD = 8
};

/* counts[g] = items of granule g; zero at first. Also stores the granules. */
__global__ void __launch_bounds__(GROUP_THREADS)
    count_kernel(const __grid_constant__ loom__rows_view view, const granule_rule rule, uint32_t granules,
                 uint32_t *counts)
{
    __shared__ uint32_t own[MOST_GRANULES]; /* several copies: warps would wait for each other at few granules */
    const uint32_t fitting = MOST_GRANULES / granules,
                   copies = fitting < GROUP_THREADS / 32 ? fitting : GROUP_THREADS / 32;
    uint32_t *to = own + threadIdx.x / 32 % copies * granules;
    for (uint32_t g = threadIdx.x; g < copies * granules; g += GROUP_THREADS)
        own[g] = 0;
    __syncthreads();
    for (uint64_t first = (uint64_t)blockIdx.x * (GROUP_THREADS * COUNTED_AT_ONCE) + threadIdx.x; first < rule.count;
         first += (uint64_t)gridDim.x * (GROUP_THREADS * COUNTED_AT_ONCE)) {
        uint32_t granule[COUNTED_AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < COUNTED_AT_ONCE; k++)
            granule[k] = first + k * GROUP_THREADS < rule.count ? granule_of(view, rule, first + k * GROUP_THREADS) : 0;
#pragma unroll
        for (uint32_t k = 0; k < COUNTED_AT_ONCE; k++) {
            if (first + k * GROUP_THREADS >= rule.count)
                break;
            rule.granules[first + k * GROUP_THREADS] = (uint16_t)granule[k];
            atomicAdd(to + granule[k], 1u);
        }
    }
    __syncthreads();
    for (uint32_t g = threadIdx.x; g < copies * granules; g += GROUP_THREADS)
        if (own[g] > 0)
            atomicAdd(counts + g % granules, own[g]);
}

/* Stores the items of granules first .. end - 1, and their granules, counted from `first`. *count is zero at first. A
 * thread looks at SELECTED_BY_THREAD items, and a block adds to *count once: with an addition for each warp, 10^9 items
 * waited for that one address longer than for their rows. */
__global__ void __launch_bounds__(GROUP_THREADS)
    select_kernel(const granule_rule rule, uint32_t first, uint32_t end, unsigned long long *count, uint16_t *granules,
                  uint32_t *items)
{
    __shared__ uint32_t selected;
    __shared__ unsigned long long base;
    const uint64_t begin = ((uint64_t)blockIdx.x * GROUP_THREADS + threadIdx.x) * SELECTED_BY_THREAD;
    uint16_t granule[SELECTED_BY_THREAD];
    uint32_t mine = 0;
    if (threadIdx.x == 0)
        selected = 0;
    __syncthreads();
    static_assert(SELECTED_BY_THREAD * sizeof *granule == sizeof(uint4),
                  "one load; there is room behind the last item");
    const uint4 loaded = begin < rule.count ? *(const uint4 *)(rule.granules + begin) : uint4{};
    memcpy(granule, &loaded, sizeof granule);
#pragma unroll
    for (uint32_t k = 0; k < SELECTED_BY_THREAD; k++)
        mine |= (uint32_t)(begin + k < rule.count && granule[k] - first < end - first) << k;
    uint32_t place = mine != 0 ? atomicAdd(&selected, (uint32_t)__popc(mine)) : 0;
    __syncthreads();
    if (threadIdx.x == 0)
        base = selected > 0 ? atomicAdd(count, (unsigned long long)selected) : 0;
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < SELECTED_BY_THREAD; k++) {
        if (!(mine >> k & 1))
            continue;
        granules[base + place] = (uint16_t)(granule[k] - first);
        items[base + place++] = rule.items != NULL ? rule.items[begin + k] : (uint32_t)(begin + k);
    }
}

unsigned group_blocks(uint64_t threads)
{
    return (unsigned)((threads + GROUP_THREADS - 1) / GROUP_THREADS);
}

/* used[w] = whether window w has keys. A thread block looks at the lines of a partition. *size: the keys of the table;
 * if it has none, nothing is to be done. NULL: nobody knows their number. */
__global__ void __launch_bounds__(GROUP_THREADS)
    used_kernel(const __grid_constant__ loom__rows_view view, uint32_t per_window, const uint64_t *size, uint32_t *used)
{
    if (size != NULL && *size == 0)
        return;
    const unsigned char *lines = view.lines.base + (uint64_t)blockIdx.x * view.lines.partition_bytes;
    const uint32_t words = OPEN_WORD_OFFSET / 8; /* of a line's tags */
    bool any = false;
    for (uint32_t i = threadIdx.x; i < view.lines.buckets * words && !any; i += GROUP_THREADS)
        any = ((const uint64_t *)(lines + i / words * OPEN_LINE_BYTES))[i % words] != 0;
    if (any)
        used[blockIdx.x / per_window] = 1;
}

/* ---- memory ---- */

/* Memory in which a group of items is sorted. */
struct group_memory {
    uint32_t *items[2];
    uint16_t *granules[2];
    void *scratch;
    size_t scratch_bytes;
    unsigned long long *count;
    cudaEvent_t read[ROW_STREAMS]; /* the streams have read what was sorted here */
};

enum { GROUPS_UNDER_WAY = 2 };

cudaError_t sort_bytes(uint64_t n, size_t *bytes)
{
    cub::DoubleBuffer<uint16_t> keys;
    cub::DoubleBuffer<uint32_t> items;
    return cub::DeviceRadixSort::SortPairs(NULL, *bytes, keys, items, (uint32_t)n);
}

uint64_t lay_out_groups(uint64_t n, size_t scratch_bytes, unsigned char *at, group_memory groups[GROUPS_UNDER_WAY])
{
    cuda_layout layout = {0};
    for (int g = 0; g < GROUPS_UNDER_WAY; g++) {
        for (int i = 0; i < 2; i++) {
            groups[g].items[i] = (uint32_t *)(at + layout.add(n * sizeof(uint32_t)));
            groups[g].granules[i] = (uint16_t *)(at + layout.add(n * sizeof(uint16_t)));
        }
        groups[g].scratch = at + layout.add(scratch_bytes);
        groups[g].scratch_bytes = scratch_bytes;
        groups[g].count = (unsigned long long *)(at + layout.add(sizeof *groups[g].count));
    }
    return layout.bytes;
}

cudaError_t make_events(group_memory groups[GROUPS_UNDER_WAY], cudaEvent_t *sorted)
{
    RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(sorted, cudaEventDisableTiming));
    for (int g = 0; g < GROUPS_UNDER_WAY; g++)
        for (cudaEvent_t &event : groups[g].read)
            RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return cudaSuccess;
}

void destroy_events(group_memory groups[GROUPS_UNDER_WAY], cudaEvent_t sorted)
{
    if (sorted != NULL)
        cudaEventDestroy(sorted);
    for (int g = 0; g < GROUPS_UNDER_WAY; g++)
        for (cudaEvent_t event : groups[g].read)
            if (event != NULL)
                cudaEventDestroy(event);
}

/* ---- groups ---- */

/* Selects the `count` items of some granules, and sorts them by granule. *sorted: where they lie. */
cudaError_t sort_group(const granule_rule &rule, const group_memory &memory, uint32_t first, uint32_t end,
                       uint64_t count, cudaStream_t stream, const uint32_t **sorted)
{
    int bits = 1;
    while ((uint64_t)1 << bits < end - first)
        bits++;
    cub::DoubleBuffer<uint16_t> keys(memory.granules[0], memory.granules[1]);
    cub::DoubleBuffer<uint32_t> items(memory.items[0], memory.items[1]);
    size_t bytes = memory.scratch_bytes;
    RETURN_IF_CUDA_FAILED(cudaMemsetAsync(memory.count, 0, sizeof *memory.count, stream));
    select_kernel<<<group_blocks((rule.count + SELECTED_BY_THREAD - 1) / SELECTED_BY_THREAD), GROUP_THREADS, 0,
                    stream>>>(rule, first, end, memory.count, memory.granules[0], memory.items[0]);
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(
        cub::DeviceRadixSort::SortPairs(memory.scratch, bytes, keys, items, (uint32_t)count, 0, bits, stream));
    *sorted = items.Current();
    return cudaSuccess;
}

/* What is known of the granules of a batch; on the host. */
struct granule_counts {
    uint32_t granules;
    uint32_t *items; /* [granules] */
    uint32_t *used;  /* [granules]: whether the table has keys there; streamed */
};

/* Counts the items of each granule, and waits. `counts` is in memory of the C library. per_window: partitions of a
 * granule whose keys are asked for; 0: nobody asks. `size`: of used_kernel. */
inline cudaError_t count_granules(cuda_row_staging *staging, const loom__rows_view &view, const granule_rule &rule,
                                  uint32_t per_window, const uint64_t *size, granule_counts *counts,
                                  cudaStream_t stream)
{
    const size_t bytes = counts->granules * sizeof(uint32_t);
    const uint64_t wanted = group_blocks(rule.count), most = (uint64_t)staging->cuda->multiprocessors * 8;
    const cuda_workspace own = staging->take(2 * bytes, stream);
    uint32_t *items = (uint32_t *)own.at, *used = items + counts->granules;
    if (own.at == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = cudaMemsetAsync(items, 0, 2 * bytes, stream);
    if (error == cudaSuccess) /* select_kernel loads them, and looks at none of them */
        error = cudaMemsetAsync(rule.granules + rule.count, 0, SELECTED_BY_THREAD * sizeof *rule.granules, stream);
    if (error == cudaSuccess) {
        count_kernel<<<(unsigned)(wanted < most ? wanted : most), GROUP_THREADS, 0, stream>>>(view, rule,
                                                                                              counts->granules, items);
        if (per_window > 0)
            used_kernel<<<view.lines.partitions, GROUP_THREADS, 0, stream>>>(view, per_window, size, used);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess) /* `used` lies behind `items`, there as here */
        error = cudaMemcpyAsync(counts->items, items, 2 * bytes, cudaMemcpyDeviceToHost, stream);
    staging->give(own, stream);
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

/* The end of the group of granules that begins at `first`: as many as have together at most `most` items, at least
 * one. *items: of the group. */
uint32_t end_of_group(const granule_counts &counts, uint32_t first, uint64_t most, uint64_t *items)
{
    uint32_t end = first;
    *items = 0;
    while (end < counts.granules && (end == first || *items + counts.items[end] <= most))
        *items += counts.items[end++];
    return end;
}

uint64_t largest_group(const granule_counts &counts, uint64_t most)
{
    uint64_t largest = 0, items;
    for (uint32_t first = 0; first < counts.granules;) {
        first = end_of_group(counts, first, most, &items);
        largest = largest < items ? items : largest;
    }
    return largest;
}

/* Takes memory for groups of about `*most` items, or of fewer if memory is short. False: there is none. */
bool take_groups(cuda_row_staging *staging, const granule_counts &counts, uint64_t *most, cuda_workspace *own,
                 group_memory groups[GROUPS_UNDER_WAY], cudaStream_t stream)
{
    for (; *most >= FEWEST_ITEMS; *most /= 2) {
        const uint64_t items = largest_group(counts, *most);
        size_t scratch;
        if (sort_bytes(items, &scratch) != cudaSuccess)
            return false;
        *own = staging->take(lay_out_groups(items, scratch, NULL, groups), stream);
        if (own->at != NULL) {
            lay_out_groups(items, scratch, own->at, groups);
            return true;
        }
    }
    return false;
}

} // namespace

#endif
