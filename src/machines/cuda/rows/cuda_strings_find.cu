/* Lookups in tables whose keys are byte strings. Tables with other keys, whose values alone are strings, are searched
 * by cuda_rows_find.cu.
 *
 * The steps are those of cuda_rows_find.cu, with one more access that depends on the one before:
 *   1. Every lane hashes strings of its own. Strings of neighbouring lanes lie beside each other, and the L1 cache
 *      joins their loads. A string that is longer than any key of the table is absent.
 *   2. Groups of CUDA_LANES lanes search lines for tags (cuda_rows_search.cuh).
 *   3. A lane reads the reference in the row of each listed key, and the value if that is a word. The reference has the
 *      length and half of the hash: nearly all other keys end here. A key whose row was another's goes on to the next
 *      slot with its tag.
 *   4. COMPARE_LANES lanes compare the bytes of a string with those in the heap, one word each.
 *   Steps 2 to 4 are repeated for the few keys that go on.
 *   5. Absent keys get their value. Wide values are copied.
 *
 * The limit, for keys of 16 to 64 bytes, 40 on average, and values of 8: a lookup streams 81 bytes (an offset, a
 * reference that is written and read, the string, value and status) and reads three random places, a line of 64 bytes,
 * a row of 24 in 1.5 sectors and a string in 2.2. On an H200 (2026-11-18, docs/performance.md; 2^24 keys, load factor
 * 0.8) keys that are found run at 5.1 G/s, absent keys at 11.1. */
#define CUDA_LANES        2
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "core/call_parts.h"
#include "core/word_loads.h"
#include "engines/open/open_items.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_string_hash.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"
#include "machines/cuda/rows/cuda_rows_search.cuh"

namespace
{

enum {
    THREADS = 256,
    BLOCKS = 4,          /* per SM */
    ROWS_AT_ONCE = 4,    /* rows that a lane has in flight */
    COMPARE_LANES = 8,   /* compare a string */
    STRINGS_AT_ONCE = 4, /* strings that they have in flight */
    SMALL = 1 << 15      /* keys of a batch that has one for each group of lanes */
};

/* How values are copied. */
enum { NO_VALUE, VALUE_4, VALUE_8, VALUE_STRING, VALUE_WIDE };

struct strings_tile {
    uint64_t heap[TILE_ITEMS]; /* of keys in `same`: where their string lies */
    search_tile search;
    uint8_t same[TILE_ITEMS]; /* keys whose length and hash a row has */
};

__device__ __forceinline__ open_row_place row_of(const loom__rows_view &view, const search_tile *tile, uint32_t item)
{
    return open_row_of_number(&view, loom__multiply_wide(tile->lines[item], open_slots(SLOT_TAG)) + tile->slots[item]);
}

/* Step 1. Returns the number of keys that may be present. */
__device__ __forceinline__ uint32_t hash_strings(const loom__rows_view &view, const loom__string *strings,
                                                 const tile_range &range, search_tile *tile, lane_group group)
{
    uint32_t pending = 0;
    for (uint32_t first = 0; first < range.count; first += 32) {
        const uint32_t item = first + range.lane;
        bool mine = item < range.count;
        if (mine) {
            const loom__string string = strings[item];
            mine = string.length <= view.most_key_bytes;
            tile->status[item] = LOOM_NOT_FOUND;
            tile->lines[item] = 0; /* lanes without a key load the line of any item */
            if (mine)
                put_hash(view.lines, hash_string(string, view.lines.seed), tile, item);
        }
        append(tile->pending, &pending, group, item, mine);
    }
    __syncwarp();
    return pending;
}

/* Step 3. Returns the number of keys whose strings are to be compared. */
template <int value>
__device__ __forceinline__ uint32_t read_references(const loom__rows_view &view, const cuda_batch &batch,
                                                    const tile_range &range, strings_tile *tile, uint32_t listed,
                                                    uint32_t *pending, lane_group group)
{
    const loom__string *strings = (const loom__string *)batch.keys + range.first;
    search_tile *search = &tile->search;
    uint32_t same = 0;
    for (uint32_t first = 0; first < listed; first += 32 * ROWS_AT_ONCE) {
        uint64_t place[ROWS_AT_ONCE], length_and_mark[ROWS_AT_ONCE], wanted[ROWS_AT_ONCE], number[ROWS_AT_ONCE];
        uint64_t value_length[ROWS_AT_ONCE];
        uint32_t item[ROWS_AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < ROWS_AT_ONCE; k++) {
            const uint32_t at = first + k * 32 + range.lane;
            item[k] = search->listed[at < listed ? at : 0]; /* reads any row rather than none */
            const open_row_place row = row_of(view, search, item[k]);
            place[k] = __ldg((const uint64_t *)row.key);
            length_and_mark[k] = __ldg((const uint64_t *)row.key + 1);
            wanted[k] = __ldg(&strings[item[k]].length);
            number[k] = value_length[k] = 0;
            if (value == VALUE_4)
                number[k] = __ldg((const uint32_t *)row.value);
            if (value == VALUE_8 || value == VALUE_STRING)
                number[k] = __ldg((const uint64_t *)row.value);
            if (value == VALUE_STRING)
                value_length[k] = (uint32_t)__ldg((const uint64_t *)row.value + 1);
        }
#pragma unroll
        for (uint32_t k = 0; k < ROWS_AT_ONCE; k++) {
            const bool mine = first + k * 32 + range.lane < listed;
            const bool is_same = mine && (uint32_t)length_and_mark[k] == wanted[k] &&
                                 (uint32_t)(length_and_mark[k] >> 32) == search->lower[item[k]];
            const uint64_t index = range.first + item[k];
            if (is_same) { /* the value may turn out to be another key's: then it is written again later */
                tile->heap[item[k]] = place[k];
                if (value == VALUE_4)
                    ((uint32_t *)batch.found_values)[index] = (uint32_t)number[k];
                if (value == VALUE_8)
                    ((uint64_t *)batch.found_values)[index] = number[k];
                if (value == VALUE_STRING)
                    ((loom__string *)batch.found_values)[index] = {(uintptr_t)view.heap + number[k], value_length[k]};
            }
            if (mine && !is_same)
                search->from[item[k]] = search->slots[item[k]] + 1;
            append(tile->same, &same, group, item[k], is_same);
            append(search->pending, pending, group, item[k], mine && !is_same);
        }
    }
    __syncwarp();
    return same;
}

/* Whether a word of the heap differs from the string's, of which `some` bytes are left from there on, 8 at most. */
__device__ __forceinline__ bool differs(uint64_t in_heap, uint64_t given, uint32_t some)
{
    return (in_heap ^ given) << (64 - 8 * some) != 0;
}

__device__ __forceinline__ uint32_t word_bytes(uint64_t rest)
{
    return rest < 8 ? (uint32_t)rest : 8;
}

/* Step 4. The first words of several strings are in flight at the same time. */
__device__ __forceinline__ void compare_strings(const loom__rows_view &view, const cuda_batch &batch,
                                                const tile_range &range, strings_tile *tile, uint32_t same,
                                                uint32_t *pending, lane_group group)
{
    const loom__string *strings = (const loom__string *)batch.keys + range.first;
    const uint32_t own = range.lane / COMPARE_LANES, begin = range.lane % COMPARE_LANES * 8, all = 32 / COMPARE_LANES;
    const uint32_t together = ((1u << COMPARE_LANES) - 1) << own * COMPARE_LANES;
    search_tile *search = &tile->search;
    for (uint32_t first = 0; first < same; first += all * STRINGS_AT_ONCE) {
        uint64_t in_heap[STRINGS_AT_ONCE], given[STRINGS_AT_ONCE];
        uint32_t item[STRINGS_AT_ONCE], length[STRINGS_AT_ONCE]; /* a key of the table has less than 2^32 bytes */
        bool other[STRINGS_AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < STRINGS_AT_ONCE; k++) {
            const uint32_t at = first + k * all + own;
            item[k] = tile->same[at < same ? at : 0];
            length[k] = (uint32_t)__ldg(&strings[item[k]].length);
            in_heap[k] = given[k] = 0;
            if (begin < length[k])
                in_heap[k] = __ldg((const uint64_t *)(view.heap + tile->heap[item[k]] + begin));
        }
#pragma unroll
        for (uint32_t k = 0; k < STRINGS_AT_ONCE; k++)
            if (begin < length[k])
                given[k] = loom__load_bytes((const unsigned char *)__ldg(&strings[item[k]].at) + begin,
                                            word_bytes(length[k] - begin));
#pragma unroll
        for (uint32_t k = 0; k < STRINGS_AT_ONCE; k++) {
            other[k] = begin < length[k] && differs(in_heap[k], given[k], word_bytes(length[k] - begin));
            for (uint64_t b = begin + 8 * COMPARE_LANES; b < length[k]; b += 8 * COMPARE_LANES)
                other[k] =
                    differs(__ldg((const uint64_t *)(view.heap + tile->heap[item[k]] + b)),
                            loom__load_bytes((const unsigned char *)strings[item[k]].at + b, word_bytes(length[k] - b)),
                            word_bytes(length[k] - b)) ||
                    other[k];
        }
#pragma unroll
        for (uint32_t k = 0; k < STRINGS_AT_ONCE; k++) {
            const bool is_other = (__ballot_sync(CUDA_FULL_MASK, other[k]) & together) != 0;
            const bool tells = first + k * all + own < same && begin == 0;
            if (tells && !is_other)
                search->status[item[k]] = LOOM_OK;
            if (tells && is_other)
                search->from[item[k]] = search->slots[item[k]] + 1;
            append(search->pending, pending, group, item[k], tells && is_other);
        }
    }
}

/* Step 5. */
template <int value>
__device__ __forceinline__ void complete_values(const loom__rows_view &view, const cuda_batch &batch,
                                                const tile_range &range, const search_tile *tile)
{
    for (uint32_t item = range.lane; item < range.count && value != VALUE_WIDE; item += 32) {
        if (tile->status[item] == LOOM_OK)
            continue;
        if (value == VALUE_4)
            ((uint32_t *)batch.found_values)[range.first + item] = (uint32_t)batch.absent;
        if (value == VALUE_8)
            ((uint64_t *)batch.found_values)[range.first + item] = batch.absent;
        if (value == VALUE_STRING)
            ((loom__string *)batch.found_values)[range.first + item] = {0, 0};
    }
    if (value != VALUE_WIDE)
        return;
    unsigned char *values = (unsigned char *)batch.found_values + range.first * view.value_bytes;
    for (uint32_t item = 0; item < range.count; item++) {
        const bool found = tile->status[item] == LOOM_OK;
        const unsigned char *from = found ? row_of(view, tile, item).value : NULL;
        for (uint32_t i = range.lane; i < view.value_bytes; i += 32)
            values[(uint64_t)item * view.value_bytes + i] = found ? from[i]
                                                            : i < sizeof batch.absent
                                                                ? (unsigned char)(batch.absent >> 8 * i)
                                                                : 0;
    }
}

template <int value>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    find_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                const cuda_finish finish)
{
    __shared__ strings_tile tiles[THREADS / 32];
    strings_tile *tile = &tiles[threadIdx.x / 32];
    const tile_range range(batch.n, batch.tile);
    const lane_group group = lane_own_group();
    uint32_t listed;
    uint32_t pending = hash_strings(view, (const loom__string *)batch.keys + range.first, range, &tile->search, group);
    while (pending > 0) { /* each round passes a line or a slot with the key's tag */
        pending = search_lines(view.lines, range, &tile->search, pending, false, &listed, group);
        const uint32_t same = read_references<value>(view, batch, range, tile, listed, &pending, group);
        compare_strings(view, batch, range, tile, same, &pending, group);
        __syncwarp();
    }
    if (value != NO_VALUE)
        complete_values<value>(view, batch, range, &tile->search);
    __syncwarp();
    count_and_finish<OP_FIND>(batch, finish, {tell_statuses(&tile->search, range, batch), 0, 0});
}

} // namespace

cudaError_t cuda_strings_find(const loom__rows_view *view, const cuda_batch *batch, const cuda_finish *finish,
                              cudaStream_t stream)
{
    const uintptr_t values = (uintptr_t)batch->found_values;
    const bool strings = (view->variable & LOOM__VARIABLE_VALUES) != 0;
    auto kernel = values == 0 || view->value_bytes == 0       ? find_kernel<NO_VALUE>
                  : strings                                   ? find_kernel<VALUE_STRING>
                  : view->value_bytes == 8 && values % 8 == 0 ? find_kernel<VALUE_8>
                  : view->value_bytes == 4 && values % 4 == 0 ? find_kernel<VALUE_4>
                                                              : find_kernel<VALUE_WIDE>;
    cuda_batch own = *batch;
    own.tile = own.n <= SMALL ? (uint32_t)GROUPS : own.tile;
    const unsigned items = own.tile * (THREADS / 32);
    kernel<<<(unsigned)((own.n + items - 1) / items), THREADS, 0, stream>>>(*view, own,
                                                                            finish != NULL ? *finish : cuda_finish{});
    return cudaGetLastError();
}
