/* Writes that change no code of a perfect table: lane groups write into the buckets. Insertions that need more are left
 * in lists (cuda_perfect.cuh).
 *
 * A warp takes a tile of up to 128 keys (cuda_tile.cuh). First every lane finds the buckets of its own keys. Then a
 * group that has finished a key begins its next one while the others of the warp continue. */
#define CUDA_LANES        4
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_ops.h"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/core/cuda_merge.cuh"
#include "machines/cuda/perfect/cuda_perfect_items.cuh"

namespace
{

enum { WARPS = PERFECT_WRITE_WARPS, THREADS = 32 * WARPS, GROUPS = 32 / CUDA_LANES /* of a warp */ };
enum { WRITE_BLOCKS = 4, WORDS_AT_ONCE = TILE_ITEMS / 32 };

template <loom__slot_kind kind, cuda_op op> struct write_tile {
    __align__(16) typename widths<kind>::key keys[TILE_ITEMS];
    typename widths<kind>::value values[takes_values(kind, op) ? TILE_ITEMS : 16];
    uint8_t status[TILE_ITEMS];
    uint32_t partitions[TILE_ITEMS];
    uint16_t buckets[TILE_ITEMS];
    uint16_t owner[merges(op) ? TILE_ITEMS : 8]; /* for merged items */
};

static_assert(PERFECT_MOST_SUBRANGE * PERFECT_SUBRANGES < 1 << 16, "a bucket's number has 16 bits");

/* All threads of the block, when all statuses are known: list pending and late items. If the owner of merged items is
 * pending, the merged items are pending, too. Each of them then has its own value from the batch. */
template <class tile_type>
__device__ __forceinline__ void list_pending(tile_type *tiles, merge_table *table, const tile_range &range,
                                             const cuda_perfect_lists &lists)
{
    const uint32_t warp = threadIdx.x / 32;
    const tile_type *tile = &tiles[warp];
    bool pending = false, late = false;
    for (uint32_t item = range.lane; item < range.count; item += 32)
        pending |= tile->status[item] == PERFECT_PENDING;
    if (!__syncthreads_or(pending)) {
        if (threadIdx.x == 0)
            lists.late_blocks[blockIdx.x] = 0;
        return;
    }
    for (uint32_t i = threadIdx.x; i < MERGE_PLACES; i += THREADS)
        table->owners[i] = merge_table::NOBODY;
    __syncthreads();
    for (uint32_t item = range.lane; item < range.count; item += 32) {
        const uint32_t index = (uint32_t)(range.first + item), mine = warp * TILE_ITEMS + item;
        lists.next[index] = 0; /* not late */
        if (tile->status[item] != PERFECT_PENDING)
            continue;
        uint32_t *place = &table->owners[(uint64_t)tile->keys[item] * 0x9e3779b97f4a7c15u >> MERGE_SHIFT];
        const uint32_t owner = atomicCAS(place, (uint32_t)merge_table::NOBODY, mine);
        if (owner != merge_table::NOBODY && tiles[owner / TILE_ITEMS].keys[owner % TILE_ITEMS] == tile->keys[item]) {
            lists.next[index] = CUDA_PERFECT_LATE;
            late = true;
        } else {
            lists.pending[atomicAdd(&lists.counters->pending, 1u)] = index;
        }
    }
    late = __syncthreads_or(late) != 0;
    if (threadIdx.x == 0) {
        lists.late_blocks[blockIdx.x] = late;
        if (late)
            lists.counters->late = 1;
    }
}

template <loom__slot_kind kind, cuda_op op>
__global__ void __launch_bounds__(THREADS, WRITE_BLOCKS)
    write_kernel(const loom__perfect_view view, const cuda_batch given, const cuda_perfect_lists lists)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ write_tile<kind, op> tiles[WARPS];
    __shared__ merge_table merged; /* unused by erasures: the compiler then drops it */
    write_tile<kind, op> *tile = &tiles[threadIdx.x / 32];
    cuda_batch batch = given;
    if (perfect_inserts(op))
        batch.n = perfect_chunk_items(given, lists);
    tile_range range(batch.n, batch.tile);
    lane_group group = lane_own_group();
    tile_read(tile->keys, range, (const key *)batch.keys); /* zero after the last: every item has a bucket */
    if constexpr (takes_values(kind, op))
        read_values<kind, op>(tile, range, batch);
    __syncwarp();
    if constexpr (merges(op))
        merge_equal<op == OP_COMBINE>(tiles, &merged, range, batch.tile, batch.rule);
    {
        perfect_seek seek[WORDS_AT_ONCE];
        unsigned long long word[WORDS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < WORDS_AT_ONCE; i++) {
            seek[i] = perfect_start(kind, &view, tile->keys[range.lane + 32 * i]);
            word[i] = __ldg((const unsigned long long *)perfect_word_of(&view, &seek[i])); /* codes do not change */
        }
#pragma unroll
        for (int i = 0; i < WORDS_AT_ONCE; i++) {
            perfect_settle(&view, &seek[i], word[i]);
            tile->partitions[range.lane + 32 * i] = seek[i].partition_index;
            tile->buckets[range.lane + 32 * i] = (uint16_t)seek[i].bucket;
        }
    }
    __syncwarp();
    auto unmerged_from = [&](uint32_t next) {
        while (merges(op) && next < range.count && tile->status[next] == MERGED)
            next += GROUPS;
        return next;
    };

    uint32_t item = unmerged_from(range.lane / CUDA_LANES);
    for (lane_truth active; lane_going(group, active = item < range.count);) { /* each lost turn means a filled slot */
        const uint32_t at = item % TILE_ITEMS;
        perfect_seek seek = {};
        seek.key = tile->keys[at];
        seek.partition_index = tile->partitions[at];
        seek.partition = view.base + loom__multiply_wide(seek.partition_index, view.partition_bytes);
        seek.bucket = tile->buckets[at];
        uint64_t own_value = takes_values(kind, op) ? tile->values[at] : 0;
        lane_truth tells = false;
        perfect_outcome outcome = op == OP_ERASE    ? perfect_erase(kind, 1, group, &view, &seek, active)
                                  : op == OP_UPDATE ? perfect_update(kind, 1, group, &view, &seek, own_value, active)
                                                    : perfect_insert_turn(kind, mode_of(op), batch.rule, 1, group,
                                                                          &view, &seek, &own_value, active, &tells);
        if (op == OP_FETCH)
            __syncwarp(); /* the found value overwrites the given one, which all lanes of the group have read */
        if (active && outcome != PERFECT_AGAIN) {
            if (op == OP_FETCH && tells)
                tile->values[item] = (value)own_value;
            if (lane_leads(group))
                tile->status[item] = outcome == PERFECT_DONE        ? LOOM_OK
                                     : outcome == PERFECT_WAS_THERE ? LOOM_EXISTS
                                     : outcome == PERFECT_ABSENT    ? LOOM_NOT_FOUND
                                                                    : PERFECT_PENDING;
            item = unmerged_from(item + GROUPS);
        }
    }
    __syncwarp();
    if constexpr (merges(op))
        merge_tell(tiles, range, batch.tile, op == OP_UPDATE ? LOOM_OK : LOOM_EXISTS);
    if constexpr (perfect_inserts(op))
        list_pending(tiles, &merged, range, lists);
    if (op == OP_FETCH && batch.found_values != NULL)
        tile_write(tile->values, range, (value *)batch.found_values); /* pending items keep the given value */
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    if (batch.counts != NULL) {
        cuda_counts *counts = own_counts(batch);
        add_count(&counts->ok, tile_count(tile->status, range, LOOM_OK));
        if (perfect_inserts(op))
            add_count(&counts->exists, tile_count(tile->status, range, LOOM_EXISTS));
        else
            add_count(&counts->not_found, tile_count(tile->status, range, LOOM_NOT_FOUND));
    }
}

template <loom__slot_kind kind> void launch(const cuda_perfect_chunk &chunk, unsigned blocks, cudaStream_t stream)
{
    const cuda_op op = chunk.op;
    auto kernel = op == OP_ERASE ? write_kernel<kind, OP_ERASE> : write_kernel<kind, OP_KEEP>;
    if constexpr (takes_values(kind, OP_OVERWRITE))
        kernel = op == OP_OVERWRITE ? write_kernel<kind, OP_OVERWRITE>
                 : op == OP_FETCH   ? write_kernel<kind, OP_FETCH>
                 : op == OP_COMBINE ? write_kernel<kind, OP_COMBINE>
                 : op == OP_UPDATE  ? write_kernel<kind, OP_UPDATE>
                                    : kernel;
    kernel<<<blocks, THREADS, 0, stream>>>(chunk.view, chunk.batch, chunk.lists);
}

} // namespace

cudaError_t cuda_perfect_launch_write(const cuda_perfect_chunk *chunk, cudaStream_t stream)
{
    const uint32_t items = chunk->batch.tile * WARPS;
    const unsigned blocks = (unsigned)((chunk->batch.n + items - 1) / items);
#define CALL(kind) launch<kind>(*chunk, blocks, stream)
    SLOT_FOR_KIND(chunk->view.kind, CALL)
#undef CALL
    return cudaGetLastError();
}
