/* Kernels of filters for groups of CUDA_LANES lanes. The including file sets CUDA_LANES and LAUNCH_NAME.
 *
 * A warp takes a tile of up to 128 keys (cuda_tile.cuh), 32 in each round. First every lane hashes one key of its own.
 * Then each group takes CUDA_LANES of the keys, with all their blocks in flight at once, and each lane handles its
 * share of every block. Then every lane derives the answer for its own key from the votes.
 *
 * A query must move a random block of 64 bytes, and sequentially 4 or 8 bytes of key and 1 of answer. An insertion must
 * move the same block twice: it reads the block and, by atomic ORs, writes it back. The ORs have a result only if the
 * call asks which keys were new.
 *
 * Measured on an H200: 2^27 keys of 4 bytes, 16 bits for each, 8 of them set, in a filter of 268 MB; also queries in a
 * filter of 16 MB, which fits the L2 cache. G keys/s with 1, 2, 4 and 8 lanes. Only in the last row are all blocks of a
 * round in flight at once:
 *     insert, 268 MB        7.2   8.3   12.0   15.0; with the blocks prefetched 15.9 (in the L2 cache a sixth slower)
 *     contains, 268 MB     34.8  44.5   44.7   39.8, on a GPU whose limit of reads is 44.6
 *     contains, 16 MB      52    71     99     68
 *     the same now          -    72    118     94; 135 with 4 lanes since only half of each word is tested (each = 2)
 * With fewer lanes a load or an atomic of a warp touches more lines at once, and the L1 cache handles these lines one
 * after the other. With eight lanes there are more instructions. For a filter larger than the L2 cache, one block in
 * flight per lane is as good as four. Insertions that tell which keys were new have not been measured. */
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/filter/filter_ops.h"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

#include <type_traits>

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32, GROUPS = 32 / CUDA_LANES /* groups of a warp */ };
enum { LOOK, SET, ADD };                    /* what a kernel does; ADD: sets bits and tells which keys are new */
enum { INSERT_BLOCKS = 8, ADD_BLOCKS = 6 }; /* thread blocks per SM; the results of ORs in flight take registers */
enum { CACHED_BYTES = 40 << 20 };           /* smaller filters stay in the L2 cache */

constexpr int blocks_of(int job)
{
    return job == SET ? INSERT_BLOCKS : job == ADD ? ADD_BLOCKS : CUDA_LANES == 4 ? 6 : 5;
}

template <class key> struct filter_tile {
    __align__(16) key keys[TILE_ITEMS];
    uint8_t found[TILE_ITEMS];
};

/* Whether a lane of the group that worked on this lane's key has voted, in the ballot of that group. */
__device__ __forceinline__ bool group_voted(uint32_t votes)
{
    return (votes >> threadIdx.x % 32 % GROUPS * CUDA_LANES & ((1u << CUDA_LANES) - 1)) != 0;
}

/* Tests the 32 keys of one round. Lane i owns the i-th key and returns its answer. Keys behind the end of a batch are
 * zeros; they may be tested, but their bits must not be set. */
template <uint32_t each>
__device__ __forceinline__ bool look_for(const loom__filter_view &view, lane_group group, const filter_key &own)
{
    const uint32_t lane = threadIdx.x % 32;
    lane_line lines[CUDA_LANES];
    uint32_t lower[CUDA_LANES];
#pragma unroll
    for (int i = 0; i < CUDA_LANES; i++) {
        const uint32_t owner = i * GROUPS + lane / CUDA_LANES;
        const uint32_t block = __shfl_sync(CUDA_FULL_MASK, own.block, owner);
        lower[i] = __shfl_sync(CUDA_FULL_MASK, own.lower, owner);
        filter_take(group, &lines[i], filter_block(&view, block), true);
    }
    uint32_t missing = 0; /* the lanes that miss a bit, from the ballot in which a group tested this lane's key */
#pragma unroll
    for (int i = 0; i < CUDA_LANES; i++) {
        const uint32_t votes = __ballot_sync(CUDA_FULL_MASK, !filter_look(each, group, &lines[i], lower[i]));
        missing = lane / GROUPS == (uint32_t)i ? votes : missing;
    }
    return !group_voted(missing);
}

/* Inserts the first `count` of the 32 keys of one round. With `tells`, lane i returns whether the i-th key was new. All
 * votes come after the last OR, so that no OR waits for a vote. */
template <uint32_t each, bool tells>
__device__ __forceinline__ bool set_all(const loom__filter_view &view, lane_group group, const filter_key &own,
                                        uint32_t count, bool fetches)
{
    const uint32_t lane = threadIdx.x % 32;
    bool clear[CUDA_LANES];
    if (fetches) /* the whole block at once: atomics would fetch its two sectors one by one */
        asm volatile("prefetch.global.L2 [%0];" ::"l"(filter_block(&view, own.block)));
#pragma unroll
    for (int i = 0; i < CUDA_LANES; i++) {
        const uint32_t owner = i * GROUPS + lane / CUDA_LANES;
        const uint32_t block = __shfl_sync(CUDA_FULL_MASK, own.block, owner);
        const uint32_t lower = __shfl_sync(CUDA_FULL_MASK, own.lower, owner);
        clear[i] = false;
        if (owner < count && tells)
            clear[i] = filter_add(each, group, filter_block(&view, block), lower);
        else if (owner < count)
            filter_set(each, 1, group, filter_block(&view, block), lower);
    }
    if (!tells)
        return false;
    uint32_t added = 0; /* as `missing` in look_for */
#pragma unroll
    for (int i = 0; i < CUDA_LANES; i++) {
        const uint32_t votes = __ballot_sync(CUDA_FULL_MASK, clear[i]);
        added = lane / GROUPS == (uint32_t)i ? votes : added;
    }
    return group_voted(added);
}

/* One warp writes the answers of its queries, and counts the keys that may be present. */
template <class tile_type>
__device__ __forceinline__ void tell_looked(tile_type *tile, const tile_range &range, const cuda_batch &batch)
{
    if (batch.found != NULL)
        tile_write(tile->found, range, batch.found);
    if (batch.counts != NULL)
        add_count(&own_counts(batch)->ok, tile_count(tile->found, range, 1));
}

/* The same for its insertions: which keys were new, as flags or as statuses. */
template <class tile_type>
__device__ __forceinline__ void tell_added(tile_type *tile, const tile_range &range, const cuda_batch &batch)
{
    if (batch.found != NULL)
        tile_write(tile->found, range, batch.found);
    if (batch.counts != NULL) {
        add_count(&own_counts(batch)->ok, tile_count(tile->found, range, 1));
        add_count(&own_counts(batch)->exists, tile_count(tile->found, range, 0));
    }
    if (batch.status != NULL) {
        __syncwarp();
        uint32_t *four = (uint32_t *)tile->found + range.lane;
        *four = (*four ^ 0x01010101u) * LOOM_EXISTS; /* 1 becomes OK, 0 EXISTS */
        __syncwarp();
        tile_write(tile->found, range, batch.status);
    }
}

template <uint32_t key_bytes, uint32_t each, int job>
__device__ __forceinline__ void run_tile(const loom__filter_view &view, const cuda_batch &batch, uint64_t block,
                                         bool fetches)
{
    typedef std::conditional_t<key_bytes == 8, uint64_t, uint32_t> key;
    __shared__ filter_tile<key> tiles[WARPS];
    filter_tile<key> *tile = &tiles[threadIdx.x / 32];
    const tile_range range(batch.n, batch.tile, block);
    const lane_group group = lane_own_group();
    tile_read(tile->keys, range, (const key *)batch.keys);
    __syncwarp();
    for (uint32_t first = 0; first < range.count; first += 32) {
        const filter_key own = filter_start(&view, key_bytes, tile->keys[first + range.lane]);
        if (job == LOOK)
            tile->found[first + range.lane] = look_for<each>(view, group, own);
        else if (job == ADD)
            tile->found[first + range.lane] = set_all<each, true>(view, group, own, range.count - first, fetches);
        else
            set_all<each, false>(view, group, own, range.count - first, fetches);
    }
    if (job == SET)
        return;
    __syncwarp();
    if (job == ADD)
        tell_added(tile, range, batch);
    else
        tell_looked(tile, range, batch);
}

template <uint32_t key_bytes, uint32_t each, int job>
__global__ void __launch_bounds__(THREADS, blocks_of(job))
    batch_kernel(const loom__filter_view view, const cuda_batch batch, bool fetches)
{
    run_tile<key_bytes, each, job>(view, batch, blockIdx.x, fetches);
}

/* Inserts what a split had no room for, or the whole batch if the split gave up. Only the device knows which. Also
 * inserts the winners of a call in order. */
template <uint32_t key_bytes, uint32_t each, int job>
__global__ void __launch_bounds__(THREADS, blocks_of(job))
    spill_kernel(const loom__filter_view view, const cuda_batch whole, const cuda_spill spill, bool fetches)
{
    cuda_batch batch = whole;
    const uint32_t spilled = *spill.spilled;
    if (spilled <= spill.room) {
        batch.keys = spill.keys;
        batch.n = spilled;
    }
    for (uint64_t block = blockIdx.x; block * (batch.tile * WARPS) < batch.n; block += gridDim.x) {
        run_tile<key_bytes, each, job>(view, batch, block, fetches);
        __syncthreads();
    }
}

template <uint32_t key_bytes, uint32_t each, int job>
void launch_job(const loom__filter_view *view, const cuda_batch *batch, const cuda_spill *spill, unsigned blocks,
                cudaStream_t stream)
{
    const bool fetches = filter_bytes(view->blocks) > CACHED_BYTES;
    if (spill != NULL)
        spill_kernel<key_bytes, each, job><<<blocks, THREADS, 0, stream>>>(*view, *batch, *spill, fetches);
    else
        batch_kernel<key_bytes, each, job><<<blocks, THREADS, 0, stream>>>(*view, *batch, fetches);
}

template <uint32_t key_bytes, uint32_t each>
void launch(const loom__filter_view *view, const cuda_batch *batch, cuda_op op, const cuda_spill *spill,
            unsigned blocks, cudaStream_t stream)
{
    if (op == OP_FIND)
        batch_kernel<key_bytes, each, LOOK><<<blocks, THREADS, 0, stream>>>(*view, *batch, false);
    else if (batch->found != NULL || batch->status != NULL)
        launch_job<key_bytes, each, ADD>(view, batch, spill, blocks, stream);
    else
        launch_job<key_bytes, each, SET>(view, batch, spill, blocks, stream);
}

} // namespace

/* A grid has at most 2^31 - 1 blocks: more keys than any device's memory holds. */
cudaError_t LAUNCH_NAME(const cuda_state *cuda, const loom__filter_view *view, const cuda_batch *batch, cuda_op op,
                        const cuda_spill *spill, cudaStream_t stream)
{
    const uint64_t needed = (batch->n + batch->tile * WARPS - 1) / (batch->tile * WARPS);
    const uint64_t most = spill != NULL ? (uint64_t)cuda->multiprocessors * INSERT_BLOCKS : UINT32_MAX / 2;
    const unsigned blocks = (unsigned)(needed < most ? needed : most);
#define CALL(key_bytes, each) launch<key_bytes, each>(view, batch, op, spill, blocks, stream)
    FILTER_FOR_EACH(view->key_bytes, view->each, CALL);
#undef CALL
    return cudaGetLastError();
}
