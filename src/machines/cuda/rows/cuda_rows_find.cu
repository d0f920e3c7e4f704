/* Lookups in tables with rows.
 *
 * A key that is found costs two accesses to DRAM, its line of tags and its row, and the second depends on the first. A
 * warp therefore passes over its tile in steps, with many keys in flight in each of them, as the CPU does
 * (cpu_rows_simd.h):
 *   1. Every lane hashes keys of its own.
 *   2. Groups of CUDA_LANES lanes search lines for tags. A key without its tag there is absent, unless its filter bit
 *      is set: then it goes on to its next line. A key with its tag goes on a list.
 *   3. Several lanes compare the row of each listed key, one word each, and copy its value at the same time: a value
 *      that turns out to be another key's is overwritten later. As many lanes as a row has words work on it. A key
 *      whose row was another's goes on to the next slot with its tag.
 *   Steps 2 and 3 are repeated for the few keys that go on.
 *   4. Absent keys get their value.
 *
 * The limit: a key that is found reads two random places, and 24-byte rows lie in two lines of 64 bytes one time in
 * four. On an H200 (2026-11-18, docs/performance.md; 2^26 keys of 16 + 8 bytes, load factor 0.8) random lines alone
 * run at 40 to 44 G/s. Keys that are found run at 17.4 G/s, absent keys at 37.8. With rows of 32 + 128 and 8 + 512
 * bytes the bytes that must move (key, line, row in sectors of 32 bytes, value) run at 79 % and 72 % of the speed of a
 * copy. Registers decided it:
 *   - Only the tile keeps a key's state from one step to the next. Walks (open_ops.h) for the keys that go on, and a
 *     call to hash them again, made the compiler keep lines in local memory: 12 and 22 G/s.
 *   - Tags are compared two at a time, as bits (lane_match_tags). With a predicate for each tag, registers ran out.
 *   - The words of the sought keys are loaded together with those of the rows. Loaded one after the other, they took
 *     40 % of the time: 15.6 G/s.
 * Two lines in flight for each group (cuda_rows_search.cuh) and four rows for each lane are best, with four blocks.
 * Three blocks, five or six with fewer in flight, and groups of four lanes are 1 to 10 % slower. */
#define CUDA_LANES        2
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "core/call_parts.h"
#include "engines/open/open_items.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_item_queue.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"
#include "machines/cuda/rows/cuda_rows_search.cuh"

namespace
{

enum {
    ANY_WIDTH = 0,
    THREADS = 256,
    BLOCKS = 4,     /* per SM */
    AT_ONCE = 4,    /* rows that a lane has in flight */
    SMALL = 1 << 15 /* keys of a batch that has one for each group of lanes */
};

/* What step 3 needs, in words. */
struct row_words {
    const unsigned char *values; /* word 0 of a row, as if its key lay right in front of its value */
    uint32_t key;                /* of a key */
    uint32_t value;              /* of a value; 0: nobody asks for values */
    uint32_t all;                /* of what is read of a row: its key, then its value */
    uint32_t shift;              /* 1 << shift lanes read a row */
};

/* Word w of what is read of a row. */
template <class word>
__device__ __forceinline__ const word *word_of_row(const loom__rows_view &view, const row_words &words, uint64_t number,
                                                   uint32_t w)
{
    const bool of_value = w >= words.key;
    const unsigned char *first = of_value ? words.values : view.rows;
    return (const word *)(first + number * (of_value ? view.value_stride : view.key_stride)) + w;
}

__device__ __forceinline__ bool same_word(const uint4 &a, const uint4 &b)
{
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

template <class word> __device__ __forceinline__ bool same_word(const word &a, const word &b)
{
    return a == b;
}

/* Hashes keys of `bytes` aligned bytes, a literal. A lane first loads all its keys. */
template <uint32_t bytes>
__device__ __forceinline__ void hash_aligned(const loom__open_view &lines, const unsigned char *keys,
                                             const tile_range &range, search_tile *tile)
{
    uint64_t words[TILE_ITEMS / 32][bytes / 8];
#pragma unroll
    for (uint32_t i = 0; i < TILE_ITEMS / 32; i++)
#pragma unroll
        for (uint32_t w = 0; w < bytes / 8; w++)
            if (i * 32 + range.lane < range.count)
                words[i][w] = __ldg((const uint64_t *)(keys + (i * 32 + range.lane) * bytes) + w);
#pragma unroll
    for (uint32_t i = 0; i < TILE_ITEMS / 32; i++)
        if (i * 32 + range.lane < range.count)
            put_hash(lines,
                     bytes == 8 ? loom__hash_key(words[i][0], 8, lines.seed)
                                : loom__hash_bytes_aligned(words[i], bytes, 8, lines.seed),
                     tile, i * 32 + range.lane);
}

/* Step 1. */
template <uint32_t key_bytes>
__device__ __forceinline__ void hash_keys(const loom__rows_view &view, const unsigned char *keys,
                                          const tile_range &range, search_tile *tile)
{
    if constexpr (key_bytes != ANY_WIDTH)
        hash_aligned<key_bytes>(view.lines, keys, range, tile);
    else
        for (uint32_t item = range.lane; item < range.count; item += 32)
            put_hash(view.lines, open_row_hash_called(keys + item * view.key_bytes, view.key_bytes, view.lines.seed),
                     tile, item);
}

/* Step 3. */
template <class word>
__device__ __forceinline__ void compare_rows(const loom__rows_view &view, const cuda_batch &batch,
                                             const row_words &words, const tile_range &range, search_tile *tile,
                                             uint32_t listed, uint32_t *pending, lane_group group)
{
    const uint32_t lanes = 1u << words.shift, rows = 32 >> words.shift, own = range.lane >> words.shift;
    const uint32_t lane = range.lane & (lanes - 1);
    const uint32_t together = (lanes == 32 ? CUDA_FULL_MASK : (1u << lanes) - 1)
                              << (own << words.shift); /* of one row */
    const word *keys = (const word *)batch.keys + range.first * words.key;
    word *values = (word *)batch.found_values + range.first * words.value;
    for (uint32_t first = 0; first < listed; first += rows * AT_ONCE) {
        uint64_t row[AT_ONCE]; /* its number */
        word read[AT_ONCE], sought[AT_ONCE];
        uint32_t item[AT_ONCE];
        bool differs[AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t at = first + k * rows + own;
            item[k] = tile->listed[at < listed ? at : 0]; /* reads any row rather than none */
            const uint32_t line = tile->lines[item[k]], slot = tile->slots[item[k]];
            row[k] = loom__multiply_wide(line, open_slots(SLOT_TAG)) + slot;
            read[k] = __ldg(word_of_row<word>(view, words, row[k], lane < words.all ? lane : 0));
            sought[k] = __ldg(keys + item[k] * words.key + (lane < words.key ? lane : 0));
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            differs[k] = lane < words.key && !same_word(read[k], sought[k]);
            if (lane >= words.key && lane < words.all)
                values[item[k] * words.value + (lane - words.key)] = read[k];
        }
        for (uint32_t w = lane + lanes; w < words.all; w += lanes) {
#pragma unroll
            for (uint32_t k = 0; k < AT_ONCE; k++)
                read[k] = __ldg(word_of_row<word>(view, words, row[k], w));
#pragma unroll
            for (uint32_t k = 0; k < AT_ONCE; k++) {
                if (w < words.key)
                    differs[k] = differs[k] || !same_word(read[k], __ldg(keys + item[k] * words.key + w));
                else
                    values[item[k] * words.value + (w - words.key)] = read[k];
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const bool other = (__ballot_sync(CUDA_FULL_MASK, differs[k]) & together) != 0;
            const bool tells = first + k * rows + own < listed && lane == 0;
            if (tells && !other)
                tile->status[item[k]] = LOOM_OK;
            if (tells && other)
                tile->from[item[k]] = tile->slots[item[k]] + 1;
            append(tile->pending, pending, group, item[k], tells && other);
        }
    }
}

/* Step 4. */
__device__ __forceinline__ void fill_absent(const loom__rows_view &view, const cuda_batch &batch,
                                            const tile_range &range, const search_tile *tile)
{
    unsigned char *values = (unsigned char *)batch.found_values + range.first * view.value_bytes;
    if (open_row_has_number(&view)) {
        for (uint32_t item = range.lane; item < range.count; item += 32)
            if (tile->status[item] != LOOM_OK)
                view.value_bytes == 8 ? (void)(((uint64_t *)values)[item] = batch.absent)
                                      : (void)(((uint32_t *)values)[item] = (uint32_t)batch.absent);
        return;
    }
    for (uint32_t item = 0; item < range.count; item++)
        if (tile->status[item] != LOOM_OK)
            for (uint32_t i = range.lane; i < view.value_bytes; i += 32)
                values[(uint64_t)item * view.value_bytes + i] =
                    i < sizeof batch.absent ? (unsigned char)(batch.absent >> 8 * i) : 0;
}

/* `key_bytes` is a literal, 8, 16 or 32, and keys are aligned to 8 bytes; or it is ANY_WIDTH. */
template <class word, uint32_t key_bytes>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    find_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                const cuda_finish finish, const row_words words)
{
    __shared__ search_tile tiles[THREADS / 32];
    search_tile *tile = &tiles[threadIdx.x / 32];
    const tile_range range(batch.n, batch.tile);
    const lane_group group = lane_own_group();
    const unsigned char *keys = (const unsigned char *)batch.keys;
    unsigned char *values = words.value > 0 ? (unsigned char *)batch.found_values : NULL;
    hash_keys<key_bytes>(view, keys + range.first * view.key_bytes, range, tile);
    __syncwarp();

    uint32_t pending = range.count, listed;
    for (bool first = true; pending > 0; first = false) { /* each round passes a line or a slot with the key's tag */
        pending = search_lines(view.lines, range, tile, pending, first, &listed, group);
        compare_rows<word>(view, batch, words, range, tile, listed, &pending, group);
        __syncwarp();
    }
    if (values != NULL)
        fill_absent(view, batch, range, tile);
    __syncwarp();
    count_and_finish<OP_FIND>(batch, finish, {tell_statuses(tile, range, batch), 0, 0});
}

/* Steps 1, 2 and 4 without step 3: rows are not read. A key whose tag is found is stored in `sought` with the number of
 * its row, and is told as found until somebody has compared the row. */
template <uint32_t key_bytes>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    seek_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                const cuda_sought_rows sought)
{
    __shared__ search_tile tiles[THREADS / 32];
    search_tile *tile = &tiles[threadIdx.x / 32];
    const tile_range range(batch.n, batch.tile);
    const lane_group group = lane_own_group();
    hash_keys<key_bytes>(view, (const unsigned char *)batch.keys + range.first * view.key_bytes, range, tile);
    __syncwarp();

    uint32_t pending = range.count, listed;
    for (bool first = true; pending > 0; first = false) { /* each round passes a line */
        pending = search_lines(view.lines, range, tile, pending, first, &listed, group);
        unsigned long long at = 0;
        if (range.lane == 0 && listed > 0)
            at = atomicAdd(sought.count, (unsigned long long)listed);
        at = __shfl_sync(CUDA_FULL_MASK, at, 0);
        for (uint32_t i = range.lane; i < listed; i += 32) {
            const uint32_t item = tile->listed[i];
            tile->status[item] = LOOM_OK;
            sought.items[at + i] = (uint32_t)(range.first + item);
            sought.rows[at + i] = loom__multiply_wide(tile->lines[item], open_slots(SLOT_TAG)) + tile->slots[item];
        }
        __syncwarp();
    }
    if (batch.found_values != NULL && view.value_bytes > 0)
        fill_absent(view, batch, range, tile);
    __syncwarp();
    (void)tell_statuses(tile, range, batch);
}

/* Goes on behind rows that were those of other keys, and answers the keys. They are few: a lane compares a row by
 * itself, and writes the answers of a key one by one. */
__global__ void __launch_bounds__(THREADS, BLOCKS)
    find_on_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                   const cuda_sought_rows from, uint64_t count)
{
    __shared__ search_tile tiles[THREADS / 32];
    search_tile *tile = &tiles[threadIdx.x / 32];
    const tile_range range(count, TILE_ITEMS);
    const lane_group group = lane_own_group();
    const unsigned char *keys = (const unsigned char *)batch.keys;
    unsigned char *values = view.value_bytes > 0 ? (unsigned char *)batch.found_values : NULL;
    for (uint32_t i = range.lane; i < range.count; i += 32) {
        const uint64_t row = from.rows[range.first + i], line = row / open_slots(SLOT_TAG);
        const unsigned char *key = keys + (uint64_t)from.items[range.first + i] * view.key_bytes;
        put_hash(view.lines, open_row_hash_called(key, view.key_bytes, view.lines.seed), tile, i);
        /* The depth bounds the search: without it a key could go round a full partition for ever. */
        uint32_t bucket = tile->lines[i] % view.lines.buckets, depth = 0;
        const uint32_t last = (uint32_t)(line % view.lines.buckets);
        for (; bucket != last && depth < view.lines.buckets; depth++)
            bucket = open_next_bucket(&view.lines, tile->lower[i], bucket);
        tile->lines[i] = (uint32_t)line;
        tile->depths[i] = (uint16_t)depth;
        tile->from[i] = (uint8_t)(row - line * open_slots(SLOT_TAG) + 1);
    }
    __syncwarp();
    uint32_t pending = range.count, listed;
    for (bool first = true; pending > 0; first = false) { /* each round passes a line or a slot with the key's tag */
        pending = search_lines(view.lines, range, tile, pending, first, &listed, group);
        for (uint32_t begin = 0; begin < listed; begin += 32) {
            const uint32_t i = tile->listed[begin + range.lane < listed ? begin + range.lane : 0];
            const uint64_t item = from.items[range.first + i];
            bool other = false;
            if (begin + range.lane < listed) {
                const open_row_place row = open_row_of_number(
                    &view, loom__multiply_wide(tile->lines[i], open_slots(SLOT_TAG)) + tile->slots[i]);
                other = !lane_same_bytes(row.key, keys + item * view.key_bytes, view.key_bytes);
                if (other)
                    tile->from[i] = tile->slots[i] + 1;
                else
                    tile->status[i] = LOOM_OK;
                if (!other && values != NULL)
                    lane_read_bytes(values + item * view.value_bytes, row.value, view.value_bytes);
            }
            append(tile->pending, &pending, group, i, other);
        }
        __syncwarp();
    }
    for (uint32_t i = range.lane; i < range.count; i += 32) {
        const uint64_t item = from.items[range.first + i];
        if (tile->status[i] == LOOM_OK)
            continue;
        if (batch.status != NULL)
            batch.status[item] = LOOM_NOT_FOUND;
        if (batch.found != NULL)
            batch.found[item] = 0;
        for (uint32_t b = 0; b < view.value_bytes && values != NULL; b++)
            values[item * view.value_bytes + b] = b < sizeof batch.absent ? (unsigned char)(batch.absent >> 8 * b) : 0;
    }
    if (batch.counts != NULL)
        add_count(&own_counts(batch)->ok, tile_count(tile->status, range, LOOM_OK));
}

template <class word>
cudaError_t launch(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish, cudaStream_t stream)
{
    const bool asked = batch->found_values != NULL && view->value_bytes > 0;
    row_words words = {view->values - view->key_bytes, (uint32_t)(view->key_bytes / sizeof(word)),
                       asked ? (uint32_t)(view->value_bytes / sizeof(word)) : 0, 0, 0};
    words.all = words.key + words.value;
    while (1u << words.shift < loom__row_lanes(words.all))
        words.shift++;
    cuda_batch own = *batch;
    own.tile = own.n <= SMALL ? (uint32_t)GROUPS : own.tile;
    const unsigned items = own.tile * (THREADS / 32);
    auto kernel = find_kernel<word, ANY_WIDTH>;
    if constexpr (sizeof(word) >= 8)
        kernel = view->key_bytes == 8    ? find_kernel<word, 8>
                 : view->key_bytes == 16 ? find_kernel<word, 16>
                 : view->key_bytes == 32 ? find_kernel<word, 32>
                                         : kernel;
    kernel<<<(unsigned)((own.n + items - 1) / items), THREADS, 0, stream>>>(
        *view, own, finish != NULL ? *finish : cuda_finish{}, words);
    return cudaGetLastError();
}

} // namespace

cudaError_t cuda_rows_seek(const loom__rows_view *view, const cuda_batch *batch, const cuda_sought_rows *sought,
                           cudaStream_t stream)
{
    const unsigned items = batch->tile * (THREADS / 32);
    auto kernel = seek_kernel<ANY_WIDTH>;
    if (((uintptr_t)batch->keys | view->key_bytes) % 8 == 0)
        kernel = view->key_bytes == 8    ? seek_kernel<8>
                 : view->key_bytes == 16 ? seek_kernel<16>
                 : view->key_bytes == 32 ? seek_kernel<32>
                                         : kernel;
    kernel<<<(unsigned)((batch->n + items - 1) / items), THREADS, 0, stream>>>(*view, *batch, *sought);
    return cudaGetLastError();
}

cudaError_t cuda_rows_find_on(const loom__rows_view *view, const cuda_batch *batch, const cuda_sought_rows *from,
                              uint64_t count, cudaStream_t stream)
{
    const unsigned items = TILE_ITEMS * (THREADS / 32);
    find_on_kernel<<<(unsigned)((count + items - 1) / items), THREADS, 0, stream>>>(*view, *batch, *from, count);
    return cudaGetLastError();
}

cudaError_t cuda_rows_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                           cudaStream_t stream)
{
    uint64_t together = (uintptr_t)view->rows | view->key_stride | (uintptr_t)batch->keys | view->key_bytes;
    if (batch->found_values != NULL && view->value_bytes > 0)
        together |= (uintptr_t)batch->found_values | view->value_bytes | (uintptr_t)view->values | view->value_stride;
    const uint32_t word = loom__widest_word(together);
    auto launch_words = word == 16  ? launch<uint4>
                        : word == 8 ? launch<uint64_t>
                        : word == 4 ? launch<uint32_t>
                                    : launch<uint8_t>;
    return launch_words(view, batch, finish, stream);
}
