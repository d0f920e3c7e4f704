/* Lookups in perfect tables for groups of CUDA_LANES lanes. The including file sets CUDA_LANES and LAUNCH_NAME.
 *
 * A warp takes a tile of up to 128 keys (cuda_tile.cuh) and processes it in rounds of 32. Each lane hashes one key of
 * the next round and starts the load of its word of codes. Then groups look at the lines of this round, with several
 * loads in flight per group. So the first lines are in flight after the load of one word of codes, and later words
 * arrive at the same time as lines. The word of a key names the one line in which the key can lie. tile->lines passes
 * the line from the lane that hashed the key to the group that looks.
 *
 * Words of codes should stay in the L2 cache. Lines pass through it: they are the first to be evicted
 * (CUDA_STREAMED_LINES). Trial kernels on an H200, with 10^8 keys at load 0.9, ran at more than 35 G/s, and at 28 with
 * ordinary loads of lines.
 *
 * With 8 + 8 bytes the values of a line follow it. If they come with it, a hit takes one access to memory instead of
 * two. For an absent key they would be fetched in vain. So a warp fetches them as long as it found one key in four in
 * the step before. Measured on an H200, 10^8 keys, load 0.8, 2026-11-18, G/s: hits 23.6, half 26.5, misses 32.5. Values
 * always fetched: hits 23.8, misses 27.2. Never (commit d48e983): 16.6, 21.6, 28.0.
 *
 * Measured on an H200, 4 + 4 bytes, load 0.9, half hits, G/s, 2026-11-17, medians of four runs. The comparison is with
 * a kernel that loaded the words of the whole tile first. Calls of 2^20 lookups among 10^8 keys: 21.3 instead of 20.1.
 * 2^20 keys in the L2 cache: 68.9 instead of 67.4. One call of 10^8 lookups: the same, 34.3 to 34.7, but at load 0.95
 * misses were 1 % slower. So calls of CODES_FIRST lookups load the words of a whole tile first. Two lines per group and
 * 8 blocks per multiprocessor beat four lines and 5 blocks (65.0 in the L2 cache, where more warps hide more latency).
 * One line is as fast there and slower in short calls. */
#define CUDA_STREAMED_LINES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_ops.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/perfect/cuda_perfect.cuh"

namespace
{

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    GROUPS = 32 / CUDA_LANES,                        /* per warp */
    ROUND = 32,                                      /* items per round, one for each lane */
    LINES_AT_ONCE = CUDA_LANES < 2 ? CUDA_LANES : 2, /* per group */
    STEP = GROUPS * LINES_AT_ONCE                    /* items that a warp looks at together */
};

const uint64_t CODES_FIRST = 1 << 24; /* from so many pairs of 4 + 4 bytes on */

static_assert(ROUND % STEP == 0 && TILE_ITEMS % ROUND == 0, "a tile has a multiple of 32 items");

/* Blocks per multiprocessor: as many as fit without spilled registers. */
__host__ __device__ constexpr int find_blocks(loom__slot_kind kind)
{
    return CUDA_LANES >= 4 && (kind == SLOT_PAIR_4_4 || kind == SLOT_KEY_4 || kind == SLOT_KEY_8) ? 8 : 6;
}

/* The L2 cache policy for words of codes. With `keeps` they are evicted last. */
__device__ __forceinline__ uint64_t code_policy(bool keeps)
{
    uint64_t last, normal;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
    return keeps ? last : normal;
}

__device__ __forceinline__ uint64_t load_code_word(const uint64_t *at, uint64_t policy)
{
    uint64_t word;
    asm volatile("ld.global.nc.L2::cache_hint.u64 %0, [%1], %2;" : "=l"(word) : "l"(at), "l"(policy));
    return word;
}

/* A key, and the word with its cell's code, whose load may be in flight. */
struct coming_key {
    perfect_seek seek;
    uint64_t word;
};

template <loom__slot_kind kind, class tile_type>
__device__ __forceinline__ coming_key load_code(const loom__perfect_view &view, const tile_type *tile, uint32_t item,
                                                uint64_t policy)
{
    coming_key coming;
    coming.seek = perfect_start(kind, &view, tile->keys[item]);
    coming.word = load_code_word(perfect_word_of(&view, &coming.seek), policy);
    return coming;
}

template <loom__slot_kind kind, class tile_type>
__device__ __forceinline__ void settle_line(const loom__perfect_view &view, tile_type *tile, uint32_t item,
                                            coming_key coming)
{
    perfect_settle(&view, &coming.seek, coming.word);
    const unsigned char *line = perfect_line(kind, coming.seek.partition, coming.seek.bucket);
    tile->lines[item] = (uint32_t)((uint64_t)(line - view.base) / PERFECT_LINE_BYTES);
}

/* The lines of all items of a whole tile. */
template <loom__slot_kind kind, class tile_type>
__device__ __forceinline__ void settle_tile(const loom__perfect_view &view, tile_type *tile, uint32_t lane,
                                            uint64_t policy)
{
    coming_key coming[TILE_ITEMS / ROUND];
#pragma unroll
    for (uint32_t i = 0; i < TILE_ITEMS / ROUND; i++)
        coming[i] = load_code<kind>(view, tile, lane + i * ROUND, policy);
#pragma unroll
    for (uint32_t i = 0; i < TILE_ITEMS / ROUND; i++)
        settle_line<kind>(view, tile, lane + i * ROUND, coming[i]);
}

template <class tile_type>
__device__ __forceinline__ const unsigned char *line_of(const loom__perfect_view &view, const tile_type *tile,
                                                        uint32_t item)
{
    return view.base + loom__multiply_wide(tile->lines[item], PERFECT_LINE_BYTES);
}

/* Starts the loads of the group's lines of a step whose first item is `first`, each with so many bytes of its line and
 * of what follows it. */
template <class tile_type>
__device__ __forceinline__ void take_lines(lane_group group, const loom__perfect_view &view, const tile_type *tile,
                                           uint32_t first, uint32_t span, lane_line line[LINES_AT_ONCE])
{
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; i++) {
        const uint32_t item = first + threadIdx.x % 32 / CUDA_LANES + GROUPS * i;
        lane_take(group, &line[i], line_of(view, tile, item), 0, true, span);
    }
}

/* Looks for the keys in these lines, and puts the answers into the tile. Returns how many keys the group found. */
template <loom__slot_kind kind, class tile_type>
__device__ __forceinline__ uint32_t answer_lines(lane_group group, const loom__perfect_view &view, tile_type *tile,
                                                 const tile_range &range, bool wants_values, uint64_t absent,
                                                 uint32_t first, const lane_line line[LINES_AT_ONCE])
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    perfect_look look[LINES_AT_ONCE];
    value answer[LINES_AT_ONCE];
    first += range.lane / CUDA_LANES;
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; i++) {
        const uint32_t item = first + GROUPS * i;
        const key sought = tile->keys[item];
        look[i] = perfect_look_in(kind, group, &line[i], sought, item < range.count);
        answer[i] = (value)absent;
        if (kind == SLOT_PAIR_4_4) {
            answer[i] = (value)(look[i].mine ? look[i].pair >> 32 : absent);
        } else if (slot_values_apart(kind) && wants_values && look[i].mine) { /* on one lane at most (P1) */
            const unsigned char *at = line_of(view, tile, item);
            const unsigned char *from = at + PERFECT_LINE_BYTES + look[i].slot * slot_value_bytes(kind);
            if (kind == SLOT_KEY_8_VALUE_4) {
                unsigned char *partition = perfect_start(kind, &view, sought).partition;
                const uint32_t bucket = (uint32_t)(at - partition) / PERFECT_LINE_BYTES;
                from = perfect_value(kind, &view, partition, bucket, look[i].slot);
            }
            answer[i] = (value)slot_load_value(kind, from);
        }
    }
    __syncwarp(); /* an answer overwrites a key; all lanes of the group have read it */
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; i++) {
        const uint32_t item = first + GROUPS * i;
        if (item < range.count && (look[i].found ? look[i].mine : lane_leads(group))) {
            if (slot_value_bytes(kind) != 0)
                tile->values()[item] = answer[i];
            tile->status[item] = look[i].found ? LOOM_OK : LOOM_NOT_FOUND;
        }
    }
    uint32_t found = 0;
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; i++)
        found += look[i].found != 0;
    return found;
}

/* Whether the values that follow a line should come with it: if one key in four was found in the step before. */
__device__ __forceinline__ bool expects_hits(uint32_t found)
{
    return __reduce_add_sync(0xffffffffu, found) * 4 >= STEP * CUDA_LANES;
}

/* Looks up the tiles of thread block `block` of the batch. Returns how many of this lane's keys were found.
 * `codes_first`: the words of codes of a whole tile come before its first line. Then tiles have TILE_ITEMS items. */
template <loom__slot_kind kind, bool codes_first>
__device__ __forceinline__ uint32_t find_tiles(const loom__perfect_view &view, const cuda_batch &batch, uint64_t block,
                                               bool keeps_codes)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ find_tile<key, value> tiles[WARPS];
    find_tile<key, value> *tile = &tiles[threadIdx.x / 32];
    tile_range range(batch.n, batch.tile, block);
    lane_group group = lane_own_group();
    const bool wants_values = slot_value_bytes(kind) != 0 && batch.found_values != NULL;
    const uint64_t policy = code_policy(keeps_codes);
    bool with_values = wants_values;
    tile_read(tile->keys, range, (const key *)batch.keys); /* zero after the last key, so that every item has a line */
    __syncwarp();
    coming_key coming;
    if constexpr (codes_first)
        settle_tile<kind>(view, tile, range.lane, policy);
    else
        coming = load_code<kind>(view, tile, range.lane, policy);
    for (uint32_t round = 0; round < batch.tile; round += ROUND) {
        if constexpr (!codes_first) {
            settle_line<kind>(view, tile, round + range.lane, coming);
            if (round + ROUND < batch.tile)
                coming = load_code<kind>(view, tile, round + ROUND + range.lane, policy);
        }
        __syncwarp();
#pragma unroll 1
        for (uint32_t first = 0; first < ROUND; first += STEP) {
            lane_line line[LINES_AT_ONCE];
            if (perfect_span(kind) == PERFECT_LINE_BYTES || with_values)
                take_lines(group, view, tile, round + first, perfect_span(kind), line);
            else
                take_lines(group, view, tile, round + first, PERFECT_LINE_BYTES, line);
            const uint32_t found =
                answer_lines<kind>(group, view, tile, range, wants_values, batch.absent, round + first, line);
            if (perfect_span(kind) != PERFECT_LINE_BYTES)
                with_values = wants_values && expects_hits(found);
        }
    }
    __syncwarp();

    return tell_found<kind>(tile, range, batch, wants_values);
}

template <loom__slot_kind kind, bool codes_first>
__global__ void __launch_bounds__(THREADS, find_blocks(kind))
    find_kernel(const loom__perfect_view view, const cuda_batch batch, bool keeps_codes, const cuda_finish finish)
{
    const uint32_t found = find_tiles<kind, codes_first>(view, batch, blockIdx.x, keeps_codes);
    count_and_finish<OP_FIND>(batch, finish, {found, 0, 0});
}

template <loom__slot_kind kind> auto kernel_for(const cuda_batch *batch)
{
    if constexpr (kind == SLOT_PAIR_4_4)
        if (batch->n >= CODES_FIRST && batch->tile == TILE_ITEMS)
            return find_kernel<kind, true>;
    return find_kernel<kind, false>;
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS, find_blocks(kind))
    find_parts_kernel(const loom__perfect_view view, const __grid_constant__ cuda_parts parts)
{
    const uint32_t i = part_of_block(parts);
    find_tiles<kind, false>(view, parts.part[i].batch, blockIdx.x - parts.first_block[i], false);
    ring_last(parts.part[i], parts.first_block[i + 1] - parts.first_block[i]);
}

} // namespace

/* A grid has at most 2^31 - 1 blocks: enough for more keys than any device's memory holds. */
cudaError_t LAUNCH_NAME(const loom__perfect_view *view, const cuda_batch *batch, bool keeps_codes,
                        const cuda_finish *finish, cudaStream_t stream)
{
    const cuda_finish last = finish != NULL ? *finish : cuda_finish{};
    unsigned blocks = (unsigned)((batch->n + batch->tile * WARPS - 1) / (batch->tile * WARPS));
#define CALL(kind) kernel_for<kind>(batch)<<<blocks, THREADS, 0, stream>>>(*view, *batch, keeps_codes, last)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return cudaGetLastError();
}

#if CUDA_LANES == 4

cudaError_t cuda_perfect_launch_parts(const loom__perfect_view *view, cuda_parts *parts, cudaStream_t stream)
{
    const cudaLaunchConfig_t shape = cuda_parts_place(parts, THREADS, stream);
    return cuda_for_kind((loom__slot_kind)view->kind, [&](auto kind) {
        return cudaLaunchKernelEx(&shape, find_parts_kernel<kind()>, *view, *parts);
    });
}

#endif
