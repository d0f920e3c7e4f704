/* Partitions whose filters are worn put in order (open_upkeep.h): one block to a partition, one lane to a bucket or a key.
 * Nothing is synchronised: the kernel looks at the counts itself, and mostly finds nothing to do. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/cuda_lanes.cuh"
#include "engines/open/open_upkeep.h"
#include "machines/cuda/cuda_state.cuh"

namespace
{

enum {
    THREADS = 512,
    BLOCKS = 4, /* for each multiprocessor */
    LISTS = 64  /* lists of THREADS keys at most: a lane keeps a bit for each of its keys */
};

template <class key, class value> struct lifted_pair {
    key k;
    value v;
};
template <loom__open_kind kind> struct lifted;
template <> struct lifted<OPEN_PAIR_4_4> : lifted_pair<uint32_t, uint32_t> {
};
template <> struct lifted<OPEN_KEY_4_VALUE_8> : lifted_pair<uint64_t, uint64_t> {
};
template <> struct lifted<OPEN_KEY_8_VALUE_4> : lifted_pair<uint64_t, uint64_t> {
};
template <> struct lifted<OPEN_KEY_8_VALUE_8> : lifted_pair<uint64_t, uint64_t> {
};
template <> struct lifted<OPEN_KEY_4> : lifted_pair<uint32_t, uint32_t> {
};
template <> struct lifted<OPEN_KEY_8> : lifted_pair<uint64_t, uint64_t> {
};

/* All threads of the block. `room` keys fit the list. With order = 0 retired keys go, and that is all. */
template <loom__open_kind kind>
__device__ void put_in_order(const loom__open_view &view, uint32_t partition, bool order, lifted<kind> *list,
                             uint32_t room)
{
    __shared__ uint32_t away, stayed;
    lane_group alone = lane_own_group();
    __syncthreads();
    if (threadIdx.x == 0) {
        away = stayed = 0;
        if (order)
            view.marks[partition] = OPEN_UNMARKED; /* slots will be free for a while */
    }
    __syncthreads();
    for (uint32_t number = threadIdx.x; number < view.buckets; number += THREADS) {
        open_walk here = open_stand_at(kind, &view, partition, number);
        uint32_t holders = 0;
        for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
            open_lies lies = open_tidy_slot(kind, &view, &here, slot);
            uint32_t place = lies == OPEN_LIES_AWAY && order ? atomicAdd(&away, 1u) : room;
            if (place < room) {
                open_lifted one = open_lift_slot(kind, &view, &here, slot);
                list[place].k = one.key;
                list[place].v = one.value;
                continue;
            }
            holders |= (uint32_t)(lies != OPEN_LIES_NOWHERE) << slot;
            if (lies == OPEN_LIES_AWAY)
                stayed = 1;
        }
        if (order)
            open_wipe_word(kind, &here, holders);
    }
    __syncthreads();
    if (!order)
        return;
    if (stayed) {
        for (uint32_t number = threadIdx.x; number < view.buckets; number += THREADS) {
            open_walk here = open_stand_at(kind, &view, partition, number);
            for (uint32_t slot = 0; slot < open_slots(kind); slot++)
                open_mark_slot(kind, OPEN_SHARED, &view, &here, slot);
        }
        __syncthreads();
    }
    uint32_t count = away < room ? away : room;
    uint64_t left = 0; /* this lane's keys for which there was no room at home */
    for (uint32_t i = threadIdx.x, bit = 0; i < count; i += THREADS, bit++) {
        open_lifted one = {list[i].k, list[i].v};
        if (!open_bring_home(kind, OPEN_SHARED, alone, &view, &one))
            left |= 1ull << bit;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; left != 0; i += THREADS, left >>= 1) {
        open_lifted one = {list[i].k, list[i].v};
        if (left & 1)
            (void)open_put_back(kind, OPEN_SHARED, alone, &view, &one);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        view.stale[partition] = 0;
}

template <loom__open_kind kind>
__global__ void __launch_bounds__(THREADS) upkeep_kernel(const loom__open_view view, int sweep, uint32_t room)
{
    extern __shared__ uint64_t list[];
    __shared__ uint32_t found;
    __shared__ uint32_t worn[THREADS];
    /* Each lane looks at one partition; then the block takes those that were found. */
    for (uint64_t first = blockIdx.x; first < view.partitions; first += (uint64_t)gridDim.x * THREADS) {
        uint64_t partition = first + (uint64_t)threadIdx.x * gridDim.x;
        uint32_t stale = partition < view.partitions ? view.stale[partition] : 0;
        if (threadIdx.x == 0)
            found = 0;
        __syncthreads();
        if (open_is_worn(&view, stale) || (sweep && stale > 0))
            worn[atomicAdd(&found, 1u)] = (uint32_t)partition;
        __syncthreads();
        for (uint32_t i = 0; i < found; i++)
            put_in_order<kind>(view, worn[i], open_is_worn(&view, view.stale[worn[i]]), (lifted<kind> *)list, room);
        __syncthreads();
    }
}

template <loom__open_kind kind>
cudaError_t launch(const cuda_state *cuda, const loom__open_view *view, int sweep, cudaStream_t stream)
{
    uint32_t wanted = view->buckets * open_slots(kind) / 2 + 1, most = THREADS * LISTS;
    uint32_t bytes = (uint32_t)cuda->shared_bytes - (THREADS + 64) * (uint32_t)sizeof(uint32_t);
    uint32_t room = wanted < most ? wanted : most;
    room = room < bytes / sizeof(lifted<kind>) ? room : bytes / (uint32_t)sizeof(lifted<kind>);
    /* Always the same: it belongs to the kernel, which other threads may be launching for other tables. */
    cudaError_t error =
        cudaFuncSetAttribute(upkeep_kernel<kind>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    uint32_t blocks = (uint32_t)cuda->multiprocessors * BLOCKS;
    blocks = view->partitions < blocks ? view->partitions : blocks;
    upkeep_kernel<kind><<<blocks, THREADS, room * sizeof(lifted<kind>), stream>>>(*view, sweep, room);
    return cudaGetLastError();
}

} // namespace

loom_status cuda_open_upkeep(loom__machine *machine, const loom__open_view *view, int sweep, loom_stream stream)
{
    cuda_state *cuda = (cuda_state *)machine;
    cudaError_t error = cudaSuccess;
    ON_DEVICE(cuda);
#define CALL(kind) error = launch<kind>(cuda, view, sweep, (cudaStream_t)stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    CUDA_TRY(error);
    return LOOM_OK;
}
