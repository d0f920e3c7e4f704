/* Kernels of the open engine for groups of CUDA_LANES lanes. The including file sets CUDA_LANES, and either LAUNCH_NAME
 * or CUDA_SPILL.
 *
 * A warp takes a tile of up to 128 keys (cuda_tile.cuh). In writes, a group that is done with a key begins its next key
 * while the other groups of the warp continue. Otherwise, at high loads, most groups would wait for the longest probe
 * sequence. Lookups pass over the tile three times, as on the CPU. First every lane hashes keys of its own, so that a
 * key is hashed once and not by each lane of its group. Then groups search one home line after the other, and only the
 * tile keeps state from one line to the next. Last, groups follow the probe sequences of the keys that were not settled
 * at home.
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
 * Insertions read a line for each bucket, and write a sector for the key and for each filter bit. They reach 0.88 of
 * the rate of random CAS operations. They wait for DRAM. Two passes as in lookups, fewer or more blocks, and loads
 * through the L1 cache make no difference. Only accesses that wait for other accesses do. For this reason filter bits
 * are set on leaving a bucket (open_ops.h).
 *
 * The machine code of a lookup (2 lanes, 4 + 4 bytes, sm_90, nvcc 13.0): 564 instructions in all, 37 registers, no
 * local memory. A warp executes 38 to hash 32 keys; 71 to search the home lines of 16 keys, with two loads of 16 bytes
 * per lane (LDG.E.128) and three votes; 115 for a further turn. Including the code before and after, a key that is
 * settled at home takes 7. An insertion has 726 instructions in all, 48 registers, no local memory and five votes a
 * turn. */
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/open/open_items.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/core/cuda_merge.cuh"
#include "machines/cuda/core/cuda_state.cuh"
#include "machines/cuda/core/cuda_tile.cuh"

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32, GROUPS = 32 / CUDA_LANES /* groups of a warp */ };
enum { FIND_BLOCKS = CUDA_LANES == 1 ? 4 : 6, WRITE_BLOCKS = CUDA_LANES == 1 ? 4 : 5 }; /* thread blocks per SM */

template <loom__slot_kind kind, cuda_op op> struct write_tile {
    __align__(16) typename widths<kind>::key keys[TILE_ITEMS];
    typename widths<kind>::value values[takes_values(kind, op) ? TILE_ITEMS : 16];
    uint8_t status[TILE_ITEMS];
    uint16_t owner[merges(op) ? TILE_ITEMS : 8]; /* owners of merged items */
};

template <loom__slot_kind kind, int shared>
__global__ void __launch_bounds__(THREADS, FIND_BLOCKS) find_kernel(const loom__open_view view, const cuda_batch batch)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ find_tile<key, value> tiles[WARPS];
    find_tile<key, value> *tile = &tiles[threadIdx.x / 32];
    tile_range range(batch.n, batch.tile);
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
        unsigned char *partition = kind == SLOT_KEY_8_VALUE_4 ? open_start(kind, &view, sought).partition : view.base;
        open_found answer =
            open_find_in_line(kind, shared, group, &view, partition, line, sought, tile->status[item], active);
        answer.settled |= view.buckets == 1;
        __syncwarp(); /* all lanes of the group have read what an answer overwrites */
        if (active & answer.settled & answer.reports)
            tell(item, answer);
        uint32_t adding = __ballot_sync(CUDA_FULL_MASK, active & !answer.settled & lane_leads(group));
        if (adding & group.own)
            tile->late[late + __popc(adding & (group.own - 1))] = (uint8_t)item;
        late += __popc(adding);
    }

    /* Third pass: groups follow the probe sequences of late items, one item after the other. */
    open_walk walk;
    uint32_t item, at = threadIdx.x % 32 / CUDA_LANES;
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
        if (active & begins)
            at += GROUPS;
    }
    __syncwarp();

    tell_found<kind>(tile, range, batch, slot_value_bytes(kind) != 0 && batch.found_values != NULL);
}

/* Processes the tiles of thread block `block` of the batch. */
template <loom__slot_kind kind, cuda_op op>
__device__ __forceinline__ void write_tiles(const loom__open_view &view, const cuda_batch &batch, uint64_t block)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ write_tile<kind, op> tiles[WARPS];
    write_tile<kind, op> *tile = &tiles[threadIdx.x / 32];
    const slot_mode mode = op == OP_OVERWRITE ? SLOT_OVERWRITE
                           : op == OP_FETCH   ? SLOT_FETCH
                           : op == OP_COMBINE ? SLOT_COMBINE
                                              : SLOT_KEEP;
    tile_range range(batch.n, batch.tile, block);
    lane_group group = lane_own_group();
    tile_read(tile->keys, range, (const key *)batch.keys);
    if constexpr (takes_values(kind, op))
        read_values<kind, op>(tile, range, batch);
    __syncwarp();
    if constexpr (merges(op)) {
        __shared__ merge_table merged;
        merge_equal<op == OP_COMBINE>(tiles, &merged, range, batch.tile, batch.rule);
    }
    auto unmerged_from = [&](uint32_t next) {
        while (merges(op) && next < range.count && tile->status[next] == MERGED)
            next += GROUPS;
        return next;
    };

    uint32_t item = unmerged_from(range.lane / CUDA_LANES);
    open_walk walk = open_start(kind, &view, tile->keys[item % TILE_ITEMS]);
    for (lane_truth active; lane_going(group, active = item < range.count);) {
        uint64_t own_value = takes_values(kind, op) ? tile->values[item % TILE_ITEMS] : 0;
        open_answer answer =
            op == OP_ERASE ? open_erase_item(kind, OPEN_SHARED, group, &view, &walk, active)
            : op == OP_UPDATE
                ? open_update_item(kind, OPEN_SHARED, group, &view, &walk, own_value, active)
                : open_insert_item(kind, mode, batch.rule, OPEN_SHARED, group, &view, &walk, &own_value, active);
        if (op == OP_FETCH)
            __syncwarp(); /* the value found overwrites the given one, which other lanes of the group have read */
        if (active && answer.outcome != OPEN_GO_ON) {
            if (op == OP_FETCH && answer.reports)
                tile->values[item] = (value)(answer.outcome == OPEN_NO_ROOM ? 0 : own_value);
            if (answer.reports)
                tile->status[item] = answer.outcome == OPEN_DONE        ? LOOM_OK
                                     : answer.outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                     : answer.outcome == OPEN_ABSENT    ? LOOM_NOT_FOUND
                                                                        : LOOM_FULL;
            item = unmerged_from(item + GROUPS);
            if (item < range.count)
                walk = open_start(kind, &view, tile->keys[item]);
        }
    }
    __syncwarp();
    if constexpr (merges(op))
        merge_tell(tiles, range, batch.tile, op == OP_UPDATE ? LOOM_OK : LOOM_EXISTS);
    if (op == OP_FETCH && batch.found_values != NULL)
        tile_write(tile->values, range, (value *)batch.found_values);
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    if (batch.counts != NULL) {
        cuda_counts *counts = own_counts(batch);
        add_count(&counts->ok, tile_count(tile->status, range, LOOM_OK));
        if (op == OP_ERASE || op == OP_UPDATE) {
            add_count(&counts->not_found, tile_count(tile->status, range, LOOM_NOT_FOUND));
        } else {
            add_count(&counts->exists, tile_count(tile->status, range, LOOM_EXISTS));
            add_count(&counts->full, tile_count(tile->status, range, LOOM_FULL));
        }
    }
}

#ifndef CUDA_SPILL

template <loom__slot_kind kind, cuda_op op>
__global__ void __launch_bounds__(THREADS, WRITE_BLOCKS)
    write_kernel(const loom__open_view view, const cuda_batch batch)
{
    write_tiles<kind, op>(view, batch, blockIdx.x);
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

/* The limit of a grid, 2^31 - 1 blocks, covers more keys than any device's memory holds. */
cudaError_t LAUNCH_NAME(const loom__open_view *view, const cuda_batch *batch, cuda_op op, cudaStream_t stream)
{
    unsigned blocks = (unsigned)((batch->n + batch->tile * WARPS - 1) / (batch->tile * WARPS));
#define CALL(kind) kernel_for<kind>(op, view->concurrent_reads)<<<blocks, THREADS, 0, stream>>>(*view, *batch)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return cudaGetLastError();
}

#else

/* Inserts the spill of a split, or the whole batch if the split gave up. Only the device knows which. */
template <loom__slot_kind kind, cuda_op op>
__global__ void __launch_bounds__(THREADS, WRITE_BLOCKS)
    spill_kernel(const loom__open_view view, const cuda_batch whole, const cuda_spill spill, const cuda_finish finish)
{
    cuda_batch batch = whole;
    uint32_t spilled = *spill.spilled;
    if (spilled <= spill.room) {
        batch.keys = spill.keys;
        batch.values = spill.values;
        batch.n = spilled;
    }
    for (uint64_t block = blockIdx.x; block * (batch.tile * WARPS) < batch.n; block += gridDim.x) {
        write_tiles<kind, op>(view, batch, block);
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
    const uint64_t most = (batch->n + batch->tile * WARPS - 1) / (batch->tile * WARPS);
    const unsigned all = (unsigned)cuda->multiprocessors * WRITE_BLOCKS, blocks = most < all ? (unsigned)most : all;
    if (blocks == 0)
        return cudaSuccess;
#define CALL(kind) kernel_for<kind>(overwrite)<<<blocks, THREADS, 0, stream>>>(*view, *batch, *spill, last)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return cudaGetLastError();
}

#endif
