/* Kernels of the open engine for groups of CUDA_LANES lanes. The including file sets CUDA_LANES, and either LAUNCH_NAME
 * or CUDA_SPILL.
 *
 * A warp takes a tile of up to 128 keys (cuda_tile.cuh). A group that is done with a key gets the warp's next key while
 * the other groups continue. Otherwise, at high loads, most groups would wait for the longest probe sequence. Lookups
 * pass over the tile three times, as on the CPU. First every lane hashes keys of its own, so that a key is hashed once
 * and not by each lane of its group. Then groups search one home line after the other, and only the tile keeps state
 * from one line to the next. Last, groups follow the probe sequences of the keys that were not settled at home.
 *
 * The limit of lookups, on an H200 with tables in memory: a lookup reads a random line of 64 bytes for each bucket, and
 * moves 4 bytes of key, 4 of value and 1 of status sequentially. Random lines alone run at 39.6 to 44.5 G/s, depending
 * on the GPU. A loop that moves all of these bytes, with the same tiles and no table, reaches 0.89 of that rate. Keys
 * cost 2 %, values and statuses together 9 %. Any write at all costs 6 %, since DRAM switches between reading and
 * writing. Lookups reach 0.98 of the loop's rate. docs/performance.md and docs/notes/open.md have figures, commands and
 * dates. Nothing else between the L2 cache and DRAM is near its limit: DRAM is busy 58 % of the time, with opening
 * rows; the link between the halves of the L2 cache 85 %.
 *
 * Measured with 100 M pairs of 4 + 4 bytes: a lookup kernel written for the GPU alone is at most 1 % faster. With a
 * table in the L2 cache it is 4 % faster for hits and 1 % for misses. Groups of 2 lanes are best: hits at load 0.8 run
 * at 25.5 G/s with 1 lane, 34.9 with 2, 34.6 with 4, 27 to 30 with 8. With the table in the L2 cache they run at 53,
 * 84, 59 and 35. Loads of a line may stay in the L1 cache, because a lane's two vector loads fall into one 32-byte
 * sector. Five to seven thread blocks per SM make no difference for tables in memory; six are best for tables in the L2
 * cache. Coherent loads, for tables that are read while they are written, cost nothing for tables in memory and a
 * quarter for tables in the L2 cache.
 *
 * Insertions read a line for each bucket, and write a sector for the key and for each filter bit. They wait for DRAM,
 * which opens a row for each of these and moves only a third of the bytes that it could. Measured on an H200 on
 * 2026-11-17, over 1.1 GB: a loop of random CAS operations runs at 16.3 to 16.6 G/s; a loop that first reads the line
 * runs at 15.6; a loop that reads a line and sets a bit in it, without waiting, at 14.0. Insertions of 10^8 pairs of
 * 4 + 4 bytes reach 0.98 to 0.99 of the second rate, divided by the writes per key. Three things helped:
 *   - Lines that will be written leave the L2 cache last (CUDA_KEPT_LINES): 2 to 3 %. Otherwise some are gone before
 *     their CAS. Reads of other data in the cache take some percent longer for a few calls afterwards.
 *   - Groups get keys one by one, and blocks have 64 threads. At loads of 0.8 to 0.95 the last hundredth of the keys
 *     goes in 9 to 12 % faster.
 *   - Keys near home need no fence if nothing looks keys up meanwhile (OPEN_UNREAD in open_ops.h).
 * No gain, or a loss: fetching the next line, or the next two, when a key leaves a bucket; fetching the home lines of
 * the whole tile; probe sequences that go to the neighbouring line first, so that both lines lie in 128 bytes; a fence
 * that overlaps the load of the next line; atomics that return the filter word; groups of 1 and 4 lanes; more blocks.
 * With 8 + 8 bytes a key makes three writes, to two or three sectors: key, value and ready bit. A loop that does only
 * that runs at 11.4 G/s, and at 10.9 with the fence between value and ready bit. With 4 + 8 and 8 + 4 bytes all three
 * lie in one line, and insertions run at 11.2.
 *
 * The machine code (2 lanes, 4 + 4 bytes, sm_90, nvcc 13.0): a lookup has 40 registers, an insertion 46, neither has
 * local memory. In a lookup a warp executes 38 instructions to hash 32 keys, and 71 to search the home lines of 16
 * keys, with two loads of 16 bytes per lane (LDG.E.128) and three votes. Including the code before and after, a key
 * that is settled at home takes 7. */
#define CUDA_KEPT_LINES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/open/open_items.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_item_queue.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/core/cuda_merge.cuh"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

namespace
{

enum { FIND_THREADS = 256, FIND_BLOCKS = CUDA_LANES == 1 ? 4 : 6 /* thread blocks per SM */ };

/* Threads of a thread block that writes. In a small block fewer warps wait for the longest probe sequence. A block that
 * merges equal keys is large, because it merges only its own keys. */
__host__ __device__ constexpr int write_threads(cuda_op op)
{
    return merges(op) ? 256 : 64;
}

/* Thread blocks per SM. */
__host__ __device__ constexpr int write_blocks(cuda_op op)
{
    return merges(op) && CUDA_LANES > 1 ? 5 : 1024 / write_threads(op);
}

template <loom__slot_kind kind, cuda_op op> struct write_tile {
    __align__(16) typename widths<kind>::key keys[TILE_ITEMS];
    typename widths<kind>::value values[takes_values(kind, op) ? TILE_ITEMS : 16];
    uint8_t status[TILE_ITEMS];
    uint16_t owner[merges(op) ? TILE_ITEMS : 8]; /* owners of merged items */
};

/* Looks up the tiles of thread block `block` of the batch. Returns how many of this lane's keys were found. */
template <loom__slot_kind kind, int shared>
__device__ __forceinline__ uint32_t find_tiles(const loom__open_view &view, const cuda_batch &batch, uint64_t block)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ find_tile<key, value> tiles[FIND_THREADS / 32];
    find_tile<key, value> *tile = &tiles[threadIdx.x / 32];
    tile_range range(batch.n, batch.tile, block);
    lane_group group = lane_own_group();
    auto tell = [&](uint32_t item, const open_found &answer) {
        if (slot_value_bytes(kind) != 0)
            tile->values()[item] = (value)(answer.found ? answer.value : batch.absent);
        tile->status[item] = answer.found ? LOOM_OK : LOOM_NOT_FOUND;
    };
    tile_read(tile->keys, range, (const key *)batch.keys);
    __syncwarp();
    /* First pass: every lane hashes keys of its own. */
    for (uint32_t first = 0; first < batch.tile; first += 32) {
        uint32_t item = first + range.lane;
        open_walk walk = open_start(kind, &view, tile->keys[item]);
        tile->lines[item] = (uint32_t)((open_line(kind, &walk, walk.bucket) - view.base) / OPEN_LINE_BYTES);
        tile->status[item] = (uint8_t)open_filter_bit(kind, walk.lower);
    }
    __syncwarp();

    /* Second pass: groups search home lines. Items that are not settled there become late items. */
    uint32_t late = 0;
    for (uint32_t first = 0; first < batch.tile; first += GROUPS) {
        uint32_t item = first + range.lane / CUDA_LANES;
        lane_truth active = item < range.count;
        key sought = tile->keys[item];
        const unsigned char *line = view.base + loom__multiply_wide(tile->lines[item], OPEN_LINE_BYTES);
        open_found answer = open_find_in_line(kind, shared, group, line, sought, tile->status[item], active);
        answer.settled |= view.buckets == 1;
        __syncwarp(); /* all lanes of the group have read what an answer overwrites */
        if (active & answer.settled & answer.reports)
            tell(item, answer);
        uint32_t adding = __ballot_sync(CUDA_FULL_MASK, active & !answer.settled & lane_leads(group));
        if (adding & group.own)
            tile->late[late + __popc(adding & (group.own - 1))] = (uint8_t)item;
        late += __popc(adding);
    }

    /* Third pass: groups follow the probe sequences of late items. */
    open_walk walk;
    item_queue queue;
    uint32_t item, at = queue.first();
    lane_truth begins = true;
    __syncwarp();
    for (lane_truth active; lane_going(group, active = at < late);) {
        if (active & begins) {
            item = tile->late[at];
            walk = open_start(kind, &view, tile->keys[item]);
            open_advance(&view, &walk);
        }
        open_found answer = open_find_item(kind, shared, group, &view, &walk, active);
        __syncwarp();
        if (active & answer.settled & answer.reports)
            tell(item, answer);
        begins = answer.settled;
        at = queue.next(group, at, active & begins);
    }
    __syncwarp();

    return tell_found<kind>(tile, range, batch, slot_value_bytes(kind) != 0 && batch.found_values != NULL);
}

template <loom__slot_kind kind, int shared>
__global__ void __launch_bounds__(FIND_THREADS, FIND_BLOCKS)
    find_kernel(const loom__open_view view, const cuda_batch batch, const cuda_finish finish)
{
    const uint32_t found = find_tiles<kind, shared>(view, batch, blockIdx.x);
    count_and_finish<OP_FIND>(batch, finish, {found, 0, 0});
}

template <loom__slot_kind kind, int shared>
__global__ void __launch_bounds__(FIND_THREADS, FIND_BLOCKS)
    find_parts_kernel(const loom__open_view view, const __grid_constant__ cuda_parts parts)
{
    const uint32_t i = part_of_block(parts);
    find_tiles<kind, shared>(view, parts.part[i].batch, blockIdx.x - parts.first_block[i]);
    ring_last(parts.part[i], parts.first_block[i + 1] - parts.first_block[i]);
}

/* Processes the tiles of thread block `block` of the batch. Returns the counts of this lane. */
template <loom__slot_kind kind, cuda_op op>
__device__ __forceinline__ lane_counts write_tiles(const loom__open_view &view, const cuda_batch &batch, uint64_t block)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ write_tile<kind, op> tiles[write_threads(op) / 32];
    write_tile<kind, op> *tile = &tiles[threadIdx.x / 32];
    const slot_mode mode = op == OP_OVERWRITE ? SLOT_OVERWRITE
                           : op == OP_FETCH   ? SLOT_FETCH
                           : op == OP_COMBINE ? SLOT_COMBINE
                                              : SLOT_KEEP;
    tile_range range(batch.n, batch.tile, block);
    lane_group group = lane_own_group();
    const int shared = batch.read_beside ? OPEN_SHARED : OPEN_UNREAD; /* never 0: the compiler knows */
    tile_read(tile->keys, range, (const key *)batch.keys);
    if constexpr (takes_values(kind, op))
        read_values<kind, op>(tile, range, batch);
    __syncwarp();
    if constexpr (merges(op)) {
        __shared__ merge_table merged;
        merge_equal<op == OP_COMBINE>(tiles, &merged, range, batch.tile, batch.rule);
    }
    item_queue queue;
    uint32_t item = queue.first();
    open_walk walk = open_start(kind, &view, tile->keys[item]);
    for (lane_truth present; lane_going(group, present = item < range.count);) {
        const lane_truth merged = merges(op) && present && tile->status[item] == MERGED, active = present && !merged;
        uint64_t own_value = takes_values(kind, op) ? tile->values[item % TILE_ITEMS] : 0;
        open_answer answer = op == OP_ERASE    ? open_erase_item(kind, shared, group, &view, &walk, active)
                             : op == OP_UPDATE ? open_update_item(kind, shared, group, &view, &walk, own_value, active)
                                               : open_insert_item(kind, mode, batch.rule, shared, group, &view, &walk,
                                                                  &own_value, active);
        if (op == OP_FETCH || merges(op))
            __syncwarp(); /* the other lanes of the group have read the value or status that this one overwrites */
        const lane_truth done = active && answer.outcome != OPEN_GO_ON;
        if (done) {
            if (op == OP_FETCH && answer.reports)
                tile->values[item] = (value)(answer.outcome == OPEN_NO_ROOM ? 0 : own_value);
            if (answer.reports)
                tile->status[item] = answer.outcome == OPEN_DONE        ? LOOM_OK
                                     : answer.outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                     : answer.outcome == OPEN_ABSENT    ? LOOM_NOT_FOUND
                                                                        : LOOM_FULL;
        }
        item = queue.next(group, item, done | merged);
        if ((done | merged) && item < range.count)
            walk = open_start(kind, &view, tile->keys[item]);
    }
    __syncwarp();
    if constexpr (merges(op))
        merge_tell(tiles, range, batch.tile, op == OP_UPDATE ? LOOM_OK : LOOM_EXISTS);
    if (op == OP_FETCH && batch.found_values != NULL)
        tile_write(tile->values, range, (value *)batch.found_values);
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    return {tile_count(tile->status, range, LOOM_OK),
            tile_count(tile->status, range, counts_not_found(op) ? LOOM_NOT_FOUND : LOOM_EXISTS),
            counts_not_found(op) ? 0 : tile_count(tile->status, range, LOOM_FULL)};
}

#ifndef CUDA_SPILL

template <loom__slot_kind kind, cuda_op op>
__global__ void __launch_bounds__(write_threads(op), write_blocks(op))
    write_kernel(const loom__open_view view, const cuda_batch batch, const cuda_finish finish)
{
    const lane_counts counts = write_tiles<kind, op>(view, batch, blockIdx.x);
    count_and_finish<op>(batch, finish, counts);
}

template <loom__slot_kind kind> auto kernel_for(cuda_op op, bool concurrent_reads)
{
    if (op == OP_FIND)
        return concurrent_reads ? find_kernel<kind, 1> : find_kernel<kind, 0>;
    if constexpr (takes_values(kind, OP_OVERWRITE)) { /* the API refuses these operations on sets */
        switch (op) {
        case OP_OVERWRITE:
            return write_kernel<kind, OP_OVERWRITE>;
        case OP_FETCH:
            return write_kernel<kind, OP_FETCH>;
        case OP_COMBINE:
            return write_kernel<kind, OP_COMBINE>;
        case OP_UPDATE:
            return write_kernel<kind, OP_UPDATE>;
        default:
            break;
        }
    }
    return op == OP_ERASE ? write_kernel<kind, OP_ERASE> : write_kernel<kind, OP_KEEP>;
}

} // namespace

/* The groups of a warp take one item each if the batch is so small that this leaves no warp waiting: its last answer
 * then comes after one probe sequence. */
static cuda_batch with_small_tiles(cuda_batch batch)
{
    enum { SMALL = 1 << 15 };
    batch.tile = batch.n <= SMALL ? (uint32_t)GROUPS : batch.tile;
    return batch;
}

/* The limit of a grid, 2^31 - 1 blocks, covers more keys than any device's memory holds. */
cudaError_t LAUNCH_NAME(const loom__open_view *view, const cuda_batch *batch, cuda_op op, const cuda_finish *finish,
                        cudaStream_t stream)
{
    const cuda_finish last = finish != NULL ? *finish : cuda_finish{};
    const cuda_batch own = with_small_tiles(*batch);
    const unsigned threads = op == OP_FIND ? FIND_THREADS : write_threads(op), items = own.tile * (threads / 32);
    const unsigned blocks = (unsigned)((own.n + items - 1) / items);
#define CALL(kind) kernel_for<kind>(op, view->concurrent_reads)<<<blocks, threads, 0, stream>>>(*view, own, last)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return cudaGetLastError();
}

#if CUDA_LANES == 2

template <loom__slot_kind kind> static auto parts_kernel_for(bool concurrent_reads)
{
    return concurrent_reads ? find_parts_kernel<kind, 1> : find_parts_kernel<kind, 0>;
}

cudaError_t cuda_open_launch_parts(const loom__open_view *view, cuda_parts *parts, cudaStream_t stream)
{
    for (uint32_t i = 0; i < parts->count; i++)
        parts->part[i].batch = with_small_tiles(parts->part[i].batch);
    const cudaLaunchConfig_t shape = cuda_parts_place(parts, FIND_THREADS, stream);
    return cuda_for_kind((loom__slot_kind)view->kind, [&](auto kind) {
        return cudaLaunchKernelEx(&shape, parts_kernel_for<kind()>(view->concurrent_reads), *view, *parts);
    });
}

#endif

#else

/* Inserts the spill of a split, or the whole batch if the split gave up. Only the device knows which. */
template <loom__slot_kind kind, cuda_op op>
__global__ void __launch_bounds__(write_threads(op), write_blocks(op))
    spill_kernel(const loom__open_view view, const cuda_batch whole, const cuda_spill spill, const cuda_finish finish)
{
    cuda_batch batch = whole;
    uint32_t spilled = *spill.spilled;
    if (spilled <= spill.room) {
        batch.keys = spill.keys;
        batch.values = spill.values;
        batch.n = spilled;
    }
    for (uint64_t block = blockIdx.x; block * (batch.tile * blockDim.x / 32) < batch.n; block += gridDim.x) {
        const lane_counts counts = write_tiles<kind, op>(view, batch, block);
        if (batch.counts != NULL)
            add_counts<op>(batch, counts);
        __syncthreads();
    }
    if (finish.counts != NULL)
        finish_last(finish);
}

template <loom__slot_kind kind> auto kernel_for(bool overwrite)
{
    if constexpr (takes_values(kind, OP_OVERWRITE))
        if (overwrite)
            return spill_kernel<kind, OP_OVERWRITE>;
    return spill_kernel<kind, OP_KEEP>;
}

} // namespace

cudaError_t cuda_open_launch_spill(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                   const cuda_spill *spill, bool overwrite, const cuda_finish *finish,
                                   cudaStream_t stream)
{
    const cuda_finish last = finish != NULL ? *finish : cuda_finish{};
    const cuda_op op = overwrite ? OP_OVERWRITE : OP_KEEP;
    const unsigned threads = write_threads(op), items = batch->tile * (threads / 32);
    const uint64_t most = (batch->n + items - 1) / items;
    const unsigned all = (unsigned)(cuda->multiprocessors * write_blocks(op));
    const unsigned blocks = most < all ? (unsigned)most : all;
    if (blocks == 0)
        return cudaSuccess;
#define CALL(kind) kernel_for<kind>(overwrite)<<<blocks, threads, 0, stream>>>(*view, *batch, *spill, last)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return cudaGetLastError();
}

#endif
