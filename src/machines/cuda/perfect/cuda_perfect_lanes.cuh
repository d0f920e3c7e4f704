/* Lookups in perfect tables for groups of CUDA_LANES lanes; the including file sets CUDA_LANES and LAUNCH_NAME.
 *
 * A warp takes a tile of up to 128 keys (cuda_tile.cuh) and goes through it twice: every lane hashes keys of its own, loads their
 * words of codes, and has the one line in which each key can lie; then groups look at those lines. In both there are several
 * loads under way before the first one is looked at. Words of codes are to stay in the L2 cache, lines pass through it: they are
 * the first to leave (CUDA_STREAMED_LINES). Trial kernels on an H200, 10^8 keys at load 0.9: more than 35 G/s, and 28 if lines are
 * loaded like everything else. */
#define CUDA_STREAMED_LINES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/perfect/perfect_ops.h"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/perfect/cuda_perfect.cuh"

namespace
{

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    GROUPS = 32 / CUDA_LANES, /* of a warp */
    WORDS_AT_ONCE = TILE_ITEMS / 32,
    LINES_AT_ONCE = CUDA_LANES < 4 ? CUDA_LANES : 4 /* of a group: a lane has 8 words of them, with 8 lanes 4 */
};

static_assert(32 % (GROUPS * LINES_AT_ONCE) == 0, "a tile has a multiple of 32 items");

/* On one multiprocessor; more would leave too few registers for several keys at once. */
__host__ __device__ constexpr int find_blocks(loom__slot_kind kind)
{
    return CUDA_LANES == 1 || kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8 ? 4 : 5;
}

/* What the L2 cache is told of words of codes; `keeps`: they leave it last. */
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

template <loom__slot_kind kind>
__global__ void __launch_bounds__(THREADS, find_blocks(kind))
    find_kernel(const loom__perfect_view view, const cuda_batch batch, bool keeps_codes)
{
    typedef typename widths<kind>::key key;
    typedef typename widths<kind>::value value;
    __shared__ find_tile<key, value> tiles[WARPS];
    find_tile<key, value> *tile = &tiles[threadIdx.x / 32];
    tile_range range(batch.n, batch.tile);
    lane_group group = lane_own_group();
    const bool wants_values = slot_value_bytes(kind) != 0 && batch.found_values != NULL;
    tile_read(tile->keys, range, (const key *)batch.keys); /* zero behind the last: every item has a line */
    __syncwarp();
    {
        perfect_seek seek[WORDS_AT_ONCE];
        uint64_t word[WORDS_AT_ONCE];
        const uint64_t policy = code_policy(keeps_codes);
#pragma unroll
        for (int i = 0; i < WORDS_AT_ONCE; i++) {
            seek[i] = perfect_start(kind, &view, tile->keys[range.lane + 32 * i]);
            word[i] = load_code_word(perfect_word_of(&view, &seek[i]), policy);
        }
#pragma unroll
        for (int i = 0; i < WORDS_AT_ONCE; i++) {
            perfect_settle(&view, &seek[i], word[i]);
            const unsigned char *line = perfect_line(kind, seek[i].partition, seek[i].bucket);
            tile->lines[range.lane + 32 * i] = (uint32_t)((uint64_t)(line - view.base) / PERFECT_LINE_BYTES);
        }
    }
    __syncwarp();

    for (uint32_t first = range.lane / CUDA_LANES; first < batch.tile; first += GROUPS * LINES_AT_ONCE) {
        key sought[LINES_AT_ONCE];
        const unsigned char *at[LINES_AT_ONCE];
        lane_line line[LINES_AT_ONCE];
        perfect_look look[LINES_AT_ONCE];
        value answer[LINES_AT_ONCE];
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE; i++) {
            const uint32_t item = first + GROUPS * i;
            sought[i] = tile->keys[item];
            at[i] = view.base + loom__multiply_wide(tile->lines[item], PERFECT_LINE_BYTES);
            lane_take(group, &line[i], at[i], 0, true, perfect_span(kind));
        }
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE; i++) {
            look[i] = perfect_look_in(kind, group, &line[i], sought[i], first + GROUPS * i < range.count);
            answer[i] = 0;
            if (kind == SLOT_PAIR_4_4) {
                answer[i] = (value)(look[i].mine ? look[i].pair >> 32 : 0);
            } else if (slot_values_apart(kind) && wants_values && look[i].mine) { /* on one lane at most (P1) */
                const unsigned char *from = at[i] + PERFECT_LINE_BYTES + look[i].slot * slot_value_bytes(kind);
                if (kind == SLOT_KEY_8_VALUE_4) {
                    unsigned char *partition = perfect_start(kind, &view, sought[i]).partition;
                    const uint32_t bucket = (uint32_t)(at[i] - partition) / PERFECT_LINE_BYTES;
                    from = perfect_value(kind, &view, partition, bucket, look[i].slot);
                }
                answer[i] = (value)slot_load_value(kind, from);
            }
        }
        __syncwarp(); /* an answer takes the place of a key that others of the group have read */
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE; i++) {
            const uint32_t item = first + GROUPS * i;
            if (item < range.count && (look[i].found ? look[i].mine : lane_leads(group))) {
                if (slot_value_bytes(kind) != 0)
                    tile->values()[item] = answer[i];
                tile->status[item] = look[i].found ? LOOM_OK : LOOM_NOT_FOUND;
            }
        }
    }
    __syncwarp();

    tell_found<kind>(tile, range, batch, wants_values);
}

} // namespace

/* A grid has at most 2^31 - 1 blocks, which are more keys than any device's memory holds. */
cudaError_t LAUNCH_NAME(const loom__perfect_view *view, const cuda_batch *batch, bool keeps_codes, cudaStream_t stream)
{
    unsigned blocks = (unsigned)((batch->n + batch->tile * WARPS - 1) / (batch->tile * WARPS));
#define CALL(kind) find_kernel<kind><<<blocks, THREADS, 0, stream>>>(*view, *batch, keeps_codes)
    SLOT_FOR_KIND(view->kind, CALL)
#undef CALL
    return cudaGetLastError();
}
