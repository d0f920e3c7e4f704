/* Upkeep of partitions (open_upkeep.h). A thread block works on one partition at a time, a lane on one bucket or key.
 * The host does not synchronise: the kernel reads the counts itself, and mostly finds nothing to do. */
#define CUDA_LANES        1
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/open/open_upkeep.h"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/open/cuda_open_views.cuh"

namespace
{

enum {
    THREADS = 512,
    BLOCKS = 4,                                                        /* per SM */
    STATIC_BYTES = (THREADS + 64) * static_cast<int>(sizeof(uint32_t)) /* shared memory without the list, at most */
};

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS)
    upkeep_kernel(const __grid_constant__ typename open_view_of<kind>::type given, int sweep, uint32_t room)
{
    const loom__open_view &view = *open_lines(&given);
    extern __shared__ uint64_t list[];
    __shared__ uint32_t away, found;
    __shared__ uint32_t worn[THREADS];
    const open_scratch scratch = {list, room, &away};
    /* Each lane checks one partition; then the block works on the partitions that need upkeep. */
    for (uint64_t first = blockIdx.x; first < view.partitions; first += (uint64_t)gridDim.x * THREADS) {
        uint64_t partition = first + (uint64_t)threadIdx.x * gridDim.x;
        bool is_one = partition < view.partitions;
        bool wanted =
            is_one && (open_is_worn(&view, view.stale[partition]) || (sweep && view.retired_slots[partition] > 0));
        if (threadIdx.x == 0)
            found = 0;
        __syncthreads();
        if (wanted)
            worn[atomicAdd(&found, 1u)] = (uint32_t)partition;
        __syncthreads();
        for (uint32_t i = 0; i < found; i++)
            open_put_in_order(kind, OPEN_SHARED, &view, worn[i], open_is_worn(&view, view.stale[worn[i]]),
                              lane_own_team(), lane_own_group(), &scratch);
        __syncthreads();
    }
}

template <loom__slot_kind kind>
cudaError_t launch(const cuda_state *cuda, const loom__open_view *view, int sweep, cudaStream_t stream)
{
    uint32_t bytes = (uint32_t)(cuda->shared_bytes - STATIC_BYTES), key_bytes = 8 * open_list_words(kind, view);
    uint32_t room = open_list_room(kind, view->buckets);
    room = room < bytes / key_bytes ? room : bytes / key_bytes;
    /* The value is always the same, because the attribute belongs to the kernel, and other threads may be launching the
     * kernel for other tables. */
    cudaError_t error =
        cudaFuncSetAttribute(upkeep_kernel<kind>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    uint32_t blocks = (uint32_t)cuda->multiprocessors * BLOCKS;
    blocks = view->partitions < blocks ? view->partitions : blocks;
    upkeep_kernel<kind><<<blocks, THREADS, room * key_bytes, stream>>>(*open_view_as<kind>(view), sweep, room);
    return cudaGetLastError();
}

} // namespace

loom_status cuda_open_upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream)
{
    const loom__open_view *view = static_cast<const loom__open_view *>(any_view);
    cuda_state *cuda = (cuda_state *)machine;
    cudaError_t error = cudaSuccess;
    ON_DEVICE(cuda);
#define CALL(kind) error = launch<kind>(cuda, view, sweep, (cudaStream_t)stream)
    OPEN_FOR_KIND(view->kind, CALL)
#undef CALL
    CUDA_TRY(error);
    return LOOM_OK;
}
