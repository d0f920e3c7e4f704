/* Kernels of filters for groups of CUDA_LANES lanes. The including file sets CUDA_LANES and LAUNCH_NAME.
 *
 * A warp takes 32 keys in each round. First every lane hashes one key of its own. Then each group takes CUDA_LANES of
 * the keys, with all their blocks in flight at once, and each lane handles its share of every block. Where the call
 * asks for answers, every lane then derives the answer for its own key from the votes, and the keys come in tiles of up
 * to 128 (cuda_tile.cuh).
 *
 * Keys of other widths than 4 and 8 bytes are read straight from the batch. The lane that reads a key hashes it, and
 * the tile holds the stand-in (filter_layout.h). The hash is a function that is called, not inlined: it is long, and
 * all kernels of a file share its three copies. These kernels have not been measured.
 *
 * A query must move a random block of 64 bytes, and sequentially 4 or 8 bytes of key and 1 of answer. An insertion must
 * move the same block twice: it reads the block and, by atomic ORs, writes it back. The ORs have a result only if the
 * call asks which keys were new.
 *
 * Measured on an H200: 2^27 keys of 4 bytes, 16 bits for each, 8 of them set, in a filter of 268 MB; also queries in a
 * filter of 16 MB, which fits the L2 cache. G keys/s with 1, 2, 4 and 8 lanes. Only in the last row are all blocks of a
 * round in flight at once:
 *     insert, 268 MB        7.2   8.3   12.0   15.0
 *     contains, 268 MB     34.8  44.5   44.7   39.8, on a GPU whose limit of reads is 44.6
 *     contains, 16 MB      52    71     99     68
 *     the same now          -    72    118     94; 135 with 4 lanes since only half of each word is tested (each = 2)
 * With fewer lanes a load or an atomic of a warp touches more lines at once, and the L1 cache handles these lines one
 * after the other. With eight lanes there are more instructions. For a filter larger than the L2 cache, one block in
 * flight per lane is as good as four.
 *
 * Insertions into 268 MB, 8 lanes, G keys/s. Random ORs to one word of each block reach 19.2 there; to one word in each
 * of its two sectors, 12.9 (15.3 with a prefetch), since the sectors are fetched one by one:
 *     15.0   ORs alone
 *     15.9   each round prefetches its own blocks
 *     13.5   a tile's four rounds are prefetched first, with all warps an SM can have
 *     16.9   the same with 10 warps per SM: a block in flight can push another out of the cache before its bits are set
 *     17.4   each round prefetches the next one's blocks; 8 warps per SM; prefetched blocks leave the cache last, and
 *            first once their bits are set (16 warps per SM: 16.7; 32: 16.0; two rounds ahead: 16.8)
 * Also tried: loads instead of prefetches, and ORs of clear bits only: 15.8. One bulk OR of 64 bytes per key
 * (cp.reduce.async.bulk): 15.2. In a filter of 16 MB, prefetches cost a sixth. Insertions that tell which keys were new
 * have not been measured. */
#define CUDA_PASSING_ORS
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/filter/filter_ops.h"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/filter/cuda_filter.cuh"

#include <type_traits>

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32, GROUPS = 32 / CUDA_LANES /* groups of a warp */ };
enum { LOOK, ADD }; /* what the kernel of a tile does; ADD: sets bits, and tells which keys are new */
enum { LOOK_BLOCKS = CUDA_LANES == 4 ? 6 : 5, ADD_BLOCKS = 6 }; /* thread blocks per SM */
enum { CACHED_BYTES = 40 << 20 };                               /* smaller filters stay in the L2 cache */

/* Insertions that tell nothing: thread blocks per SM if the filter is in the L2 cache, and if blocks are fetched. */
enum { SET_THREADS = 128, SET_BLOCKS = 16, FETCH_BLOCKS = 2 };

enum { ANY_WIDTH = 0 }; /* key_bytes of a kernel: keys have stand-ins */

/* A key as kernels take it: the number itself, or the stand-in. */
template <uint32_t key_bytes> using key_of = std::conditional_t<key_bytes == 4, uint32_t, uint64_t>;

template <uint32_t alignment>
__device__ __noinline__ uint64_t stand_in_of(const unsigned char *key, uint32_t key_bytes, loom__seed seed)
{
    return filter_stand_in(key, key_bytes, alignment, seed);
}

/* The keys of a batch. */
template <uint32_t key_bytes> struct batch_keys {
    const key_of<key_bytes> *keys;
    __device__ __forceinline__ batch_keys(const loom__filter_view &, const void *at)
        : keys((const key_of<key_bytes> *)at)
    {
    }
    __device__ __forceinline__ key_of<key_bytes> operator[](uint64_t i) const
    {
        return keys[i];
    }
    __device__ __forceinline__ void read(key_of<key_bytes> *tile, const tile_range &range) const
    {
        tile_read(tile, range, keys);
    }
};

template <> struct batch_keys<ANY_WIDTH> {
    const unsigned char *keys;
    uint32_t width;
    loom__seed seed;
    __device__ __forceinline__ batch_keys(const loom__filter_view &view, const void *at)
        : keys((const unsigned char *)at), width(view.key_bytes), seed(view.seed)
    {
    }
    __device__ __forceinline__ uint64_t operator[](uint64_t i) const
    {
        const uint64_t together = (uintptr_t)keys | width;
        const unsigned char *key = keys + i * width;
        return together % 8 == 0   ? stand_in_of<8>(key, width, seed)
               : together % 4 == 0 ? stand_in_of<4>(key, width, seed)
                                   : stand_in_of<1>(key, width, seed);
    }
    __device__ __forceinline__ void read(uint64_t *tile, const tile_range &range) const
    {
#pragma unroll 1
        for (uint32_t i = range.lane; i < TILE_ITEMS; i += 32)
            tile[i] = i < range.count ? (*this)[range.first + i] : 0;
    }
};

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
                                        uint32_t count)
{
    const uint32_t lane = threadIdx.x % 32;
    bool clear[CUDA_LANES];
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

/* Prefetches the whole block: atomics would fetch its two sectors one by one. The block leaves the L2 cache last, until
 * its bits are set. */
__device__ __forceinline__ void prefetch_to_set(const loom__filter_view &view, const filter_key &own)
{
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(filter_block(&view, own.block)));
}

/* Inserts n keys, 32 per warp and round. While the bits of one round are set, the blocks of the next come from memory
 * if the filter `fetches` them, and the keys of the one after it. */
template <uint32_t key_bytes, uint32_t each>
__device__ __forceinline__ void set_stream(const loom__filter_view &view, const batch_keys<key_bytes> &keys, uint64_t n,
                                           bool fetches)
{
    typedef key_of<key_bytes> key;
    const lane_group group = lane_own_group();
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x - lane; /* of the warp's keys */
    filter_key next = filter_start(&view, sizeof(key), first + lane < n ? keys[first + lane] : 0);
    if (fetches && first + lane < n)
        prefetch_to_set(view, next);
    key ahead = first + step + lane < n ? keys[first + step + lane] : 0;
    for (; first < n; first += step) {
        const filter_key own = next;
        next = filter_start(&view, sizeof(key), ahead);
        if (fetches && first + step + lane < n)
            prefetch_to_set(view, next);
        ahead = first + 2 * step + lane < n ? keys[first + 2 * step + lane] : 0;
        set_all<each, false>(view, group, own, n - first < 32 ? (uint32_t)(n - first) : 32);
    }
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
    typedef key_of<key_bytes> key;
    __shared__ filter_tile<key> tiles[WARPS];
    filter_tile<key> *tile = &tiles[threadIdx.x / 32];
    const tile_range range(batch.n, batch.tile, block);
    const lane_group group = lane_own_group();
    batch_keys<key_bytes>(view, batch.keys).read(tile->keys, range);
    __syncwarp();
    for (uint32_t first = 0; first < range.count; first += 32) {
        const filter_key own = filter_start(&view, sizeof(key), tile->keys[first + range.lane]);
        if (job == LOOK)
            tile->found[first + range.lane] = look_for<each>(view, group, own);
        else {
            if (fetches && first + range.lane < range.count)
                prefetch_to_set(view, own);
            tile->found[first + range.lane] = set_all<each, true>(view, group, own, range.count - first);
        }
    }
    __syncwarp();
    if (job == ADD)
        tell_added(tile, range, batch);
    else
        tell_looked(tile, range, batch);
}

/* The keys that a split had no room for, or the whole batch if the split gave up. Only the device knows which. Also the
 * winners of a call in order. */
__device__ __forceinline__ cuda_batch spilled_of(const cuda_batch &whole, const cuda_spill &spill)
{
    cuda_batch batch = whole;
    if (spill.spilled != NULL && *spill.spilled <= spill.room) {
        batch.keys = spill.keys;
        batch.n = *spill.spilled;
    }
    return batch;
}

template <uint32_t key_bytes, uint32_t each>
__global__ void __launch_bounds__(THREADS, LOOK_BLOCKS)
    look_kernel(const loom__filter_view view, const cuda_batch batch)
{
    run_tile<key_bytes, each, LOOK>(view, batch, blockIdx.x, false);
}

template <uint32_t key_bytes, uint32_t each>
__global__ void __launch_bounds__(THREADS, ADD_BLOCKS)
    add_kernel(const loom__filter_view view, const cuda_batch whole, const cuda_spill spill, bool fetches)
{
    const cuda_batch batch = spilled_of(whole, spill);
    for (uint64_t block = blockIdx.x; block * (batch.tile * WARPS) < batch.n; block += gridDim.x) {
        run_tile<key_bytes, each, ADD>(view, batch, block, fetches);
        __syncthreads();
    }
}

template <uint32_t key_bytes, uint32_t each>
__global__ void __launch_bounds__(SET_THREADS, SET_BLOCKS)
    set_kernel(const loom__filter_view view, const cuda_batch whole, const cuda_spill spill, bool fetches)
{
    const cuda_batch batch = spilled_of(whole, spill);
    set_stream<key_bytes, each>(view, batch_keys<key_bytes>(view, batch.keys), batch.n, fetches);
}

/* The thread blocks for n keys, `each` per block: at most `most`. */
unsigned blocks_for(uint64_t n, uint64_t each, uint64_t most)
{
    const uint64_t needed = (n + each - 1) / each;
    return (unsigned)(needed < most ? needed : most);
}

/* A grid has at most 2^31 - 1 blocks: more keys than any device's memory holds. */
template <uint32_t key_bytes, uint32_t each>
void launch(const cuda_state *cuda, const loom__filter_view *view, const cuda_batch *batch, cuda_op op,
            const cuda_spill &spill, cudaStream_t stream)
{
    const bool fetches = filter_bytes(view->blocks) > CACHED_BYTES;
    const uint64_t n = batch->n, tile = (uint64_t)batch->tile * WARPS, sms = cuda->multiprocessors;
    if (op == OP_FIND)
        look_kernel<key_bytes, each><<<blocks_for(n, tile, UINT32_MAX / 2), THREADS, 0, stream>>>(*view, *batch);
    else if (batch->found != NULL || batch->status != NULL)
        add_kernel<key_bytes, each>
            <<<blocks_for(n, tile, spill.spilled != NULL ? sms * ADD_BLOCKS : UINT32_MAX / 2), THREADS, 0, stream>>>(
                *view, *batch, spill, fetches);
    else
        set_kernel<key_bytes, each>
            <<<blocks_for(n, SET_THREADS, sms * (fetches ? FETCH_BLOCKS : SET_BLOCKS)), SET_THREADS, 0, stream>>>(
                *view, *batch, spill, fetches);
}

} // namespace

cudaError_t LAUNCH_NAME(const cuda_state *cuda, const loom__filter_view *view, const cuda_batch *batch, cuda_op op,
                        const cuda_spill *spill, cudaStream_t stream)
{
    const cuda_spill none = {};
#define CALL(key_bytes, each)     launch<key_bytes, each>(cuda, view, batch, op, spill != NULL ? *spill : none, stream)
#define CALL_ANY(key_bytes, each) CALL(ANY_WIDTH, each)
    if (filter_has_stand_ins(view->key_bytes))
        FILTER_FOR_EACH(8, view->each, CALL_ANY)
    else
        FILTER_FOR_EACH(view->key_bytes, view->each, CALL)
#undef CALL_ANY
#undef CALL
    return cudaGetLastError();
}
