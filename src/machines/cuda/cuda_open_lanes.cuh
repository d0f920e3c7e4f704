/* Kernels of the open engine for groups of CUDA_LANES lanes; the including file sets CUDA_LANES and LAUNCH_NAME.
 *
 * A block has THREADS threads and takes ITEMS keys for each of its groups. A group that is done with a key begins the next
 * while the others of its warp go on: otherwise, at high loads, most groups of a warp would wait for the one with the
 * longest chain (insertions at load 0.95: 7.7 G/s instead of 9.8; lookups 24.7 instead of 25.2). The next key is read one
 * ahead.
 *
 * Measured on an H200 with trial kernels of the same loop, 100 M pairs of 4 + 4 bytes: groups of 2 lanes are best for tables in memory (lookups at load 0.8,
 * all hits: 1 lane 25.0 G/s, 2 lanes 31.4, 4 lanes 30.3, 8 lanes 20). Loads of a line may stay in the L1 cache: a lane's
 * two vector loads fall into one 32-byte sector, and without the L1 each asks for it (2 lanes: 34.5 with, 32.3 without; 1
 * lane: 25.6 and 12.9). Many short blocks beat few long ones: 4 to 8 keys to a group. Registers are held to what lets 8
 * blocks of 256 threads onto an SM for lookups, 6 for insertions, which would spill.
 *
 * The machine code of a lookup (2 lanes, 4 + 4 bytes, sm_90, nvcc 13.0): 280 instructions in all, 30 registers, no local
 * memory; a lane takes its half of the line by two loads of 16 bytes (LDG.E.128); four votes. An insertion: 536, 40
 * registers, none spilled, six votes. */
#define LOOM_LANES_HEADER "machines/cuda/cuda_lanes.cuh"
#include "engines/open/open_items.h"
#include "machines/cuda/cuda_state.cuh"

namespace {

enum { THREADS = 256, GROUPS = THREADS / CUDA_LANES, ITEMS = 4 };
enum { FIND_BLOCKS = CUDA_LANES == 1 ? 5 : 8, WRITE_BLOCKS = CUDA_LANES == 1 ? 4 : 6 };

/* Keys and values as wide as they are: a register less for each that waits. */
template <bool wide> struct word {
    typedef uint32_t type;
};
template <> struct word<true> {
    typedef uint64_t type;
};
template <loom__open_kind kind> struct widths {
    typedef typename word<kind == OPEN_KEY_8_VALUE_4 || kind == OPEN_KEY_8_VALUE_8>::type key;
    typedef typename word<kind == OPEN_KEY_4_VALUE_8 || kind == OPEN_KEY_8_VALUE_8>::type value;
};

/* The items of one group: every GROUPS-th of the block's. */
struct item_range {
    uint64_t at, end;

    __device__ __forceinline__ explicit item_range(uint64_t n)
    {
        uint64_t first = (uint64_t)blockIdx.x * (GROUPS * ITEMS);
        at = first + threadIdx.x / CUDA_LANES;
        end = first + GROUPS * ITEMS < n ? first + GROUPS * ITEMS : n;
    }
};

/* Adds up what the lanes of a block counted, each at most a few. */
__device__ __forceinline__ void add_counts(cuda_counts *counts, uint32_t done, uint32_t other, uint32_t full, cuda_op op)
{
    __shared__ uint32_t sums[3][THREADS / 32];
    uint32_t warp = threadIdx.x / 32;
    done = __reduce_add_sync(CUDA_FULL_MASK, done);
    other = __reduce_add_sync(CUDA_FULL_MASK, other);
    full = __reduce_add_sync(CUDA_FULL_MASK, full);
    if (threadIdx.x % 32 == 0) {
        sums[0][warp] = done;
        sums[1][warp] = other;
        sums[2][warp] = full;
    }
    __syncthreads();
    if (threadIdx.x >= 3)
        return;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < THREADS / 32; i++)
        sum += sums[threadIdx.x][i];
    cuda_counts *own = counts + blockIdx.x % COUNT_COPIES;
    unsigned long long *to = threadIdx.x == 0                             ? &own->ok
                             : threadIdx.x == 2                           ? &own->full
                             : op == OP_KEEP || op == OP_OVERWRITE ? &own->exists
                                                                          : &own->not_found;
    if (sum > 0)
        atomicAdd(to, (unsigned long long)sum);
}

template <loom__open_kind kind, int shared>
__global__ void __launch_bounds__(THREADS, FIND_BLOCKS) find_kernel(const loom__open_view view, const cuda_batch batch)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    const key *keys = (const key *)batch.keys;
    lane_group group = lane_own_group();
    item_range items(batch.n);
    uint32_t found = 0, absent = 0;
    int active = items.at < items.end;
    open_walk walk = open_start(kind, &view, active ? keys[items.at] : 0);
    key next_key = items.at + GROUPS < items.end ? keys[items.at + GROUPS] : 0;
    while (lane_going(group, active)) {
        open_answer answer = open_find_item(kind, shared, group, &view, &walk, active);
        if (active && answer.outcome != OPEN_GO_ON) {
            int hit = answer.outcome == OPEN_DONE;
            if (answer.reports) {
                if (batch.found_values != NULL)
                    ((value *)batch.found_values)[items.at] = (value)answer.value;
                if (batch.status != NULL)
                    batch.status[items.at] = hit ? LOOM_OK : LOOM_NOT_FOUND;
                if (batch.found != NULL)
                    batch.found[items.at] = (uint8_t)hit;
                found += hit;
                absent += !hit;
            }
            items.at += GROUPS;
            active = items.at < items.end;
            walk = open_start(kind, &view, next_key);
            if (items.at + GROUPS < items.end)
                next_key = keys[items.at + GROUPS];
        }
    }
    if (batch.counts != NULL)
        add_counts(batch.counts, found, absent, 0, OP_FIND);
}

template <loom__open_kind kind, cuda_op op>
__global__ void __launch_bounds__(THREADS, WRITE_BLOCKS) write_kernel(const loom__open_view view, const cuda_batch batch)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    const key *keys = (const key *)batch.keys;
    const value *values = (const value *)batch.values;
    lane_group group = lane_own_group();
    item_range items(batch.n);
    uint32_t done = 0, other = 0, full = 0;
    int active = items.at < items.end;
    open_walk walk = open_start(kind, &view, active ? keys[items.at] : 0);
    value own_value = op != OP_ERASE && active ? values[items.at] : 0;
    key next_key = 0;
    value next_value = 0;
    if (items.at + GROUPS < items.end) {
        next_key = keys[items.at + GROUPS];
        next_value = op != OP_ERASE ? values[items.at + GROUPS] : 0;
    }
    while (lane_going(group, active)) {
        open_answer answer = op == OP_ERASE ? open_erase_item(kind, 1, group, &view, &walk, active)
                                            : open_insert_item(kind, op == OP_OVERWRITE, 1, group, &view, &walk, own_value,
                                                               active);
        if (active && answer.outcome != OPEN_GO_ON) {
            if (answer.reports) {
                done += answer.outcome == OPEN_DONE;
                full += answer.outcome == OPEN_NO_ROOM;
                other += answer.outcome == OPEN_WAS_THERE || answer.outcome == OPEN_ABSENT;
                if (batch.status != NULL)
                    batch.status[items.at] = answer.outcome == OPEN_DONE        ? LOOM_OK
                                             : answer.outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                             : answer.outcome == OPEN_ABSENT    ? LOOM_NOT_FOUND
                                                                                : LOOM_FULL;
            }
            items.at += GROUPS;
            active = items.at < items.end;
            walk = open_start(kind, &view, next_key);
            own_value = next_value;
            if (items.at + GROUPS < items.end) {
                next_key = keys[items.at + GROUPS];
                next_value = op != OP_ERASE ? values[items.at + GROUPS] : 0;
            }
        }
    }
    if (batch.counts != NULL)
        add_counts(batch.counts, done, other, full, op);
}

template <loom__open_kind kind>
void launch_kind(const loom__open_view *view, const cuda_batch *batch, cuda_op op, unsigned blocks, cudaStream_t stream)
{
    switch (op) {
    case OP_FIND:
        if (view->concurrent_reads)
            find_kernel<kind, 1><<<blocks, THREADS, 0, stream>>>(*view, *batch);
        else
            find_kernel<kind, 0><<<blocks, THREADS, 0, stream>>>(*view, *batch);
        break;
    case OP_KEEP:
        write_kernel<kind, OP_KEEP><<<blocks, THREADS, 0, stream>>>(*view, *batch);
        break;
    case OP_OVERWRITE:
        write_kernel<kind, OP_OVERWRITE><<<blocks, THREADS, 0, stream>>>(*view, *batch);
        break;
    case OP_ERASE:
        write_kernel<kind, OP_ERASE><<<blocks, THREADS, 0, stream>>>(*view, *batch);
        break;
    }
}

} // namespace

/* A grid has at most 2^31 - 1 blocks, which are more keys than any device's memory holds. */
cudaError_t LAUNCH_NAME(const loom__open_view *view, const cuda_batch *batch, cuda_op op, cudaStream_t stream)
{
    unsigned blocks = (unsigned)((batch->n + GROUPS * ITEMS - 1) / (GROUPS * ITEMS));
    switch (view->kind) {
    case OPEN_PAIR_4_4:
        launch_kind<OPEN_PAIR_4_4>(view, batch, op, blocks, stream);
        break;
    case OPEN_KEY_4_VALUE_8:
        launch_kind<OPEN_KEY_4_VALUE_8>(view, batch, op, blocks, stream);
        break;
    case OPEN_KEY_8_VALUE_4:
        launch_kind<OPEN_KEY_8_VALUE_4>(view, batch, op, blocks, stream);
        break;
    default:
        launch_kind<OPEN_KEY_8_VALUE_8>(view, batch, op, blocks, stream);
        break;
    }
    return cudaGetLastError();
}
