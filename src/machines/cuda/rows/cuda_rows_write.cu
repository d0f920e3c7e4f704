/* Writes to tables with rows: insertions, updates, accumulations and erasures, key by key; and the places of keys.
 *
 * A group that has claimed a slot does not store the row itself. Once in each turn the lanes of the warp store the rows
 * of all its groups, several lanes for each row, one word each, and then every group sets its ready bit. A single lane
 * would write a row word by word, and each word would be an access to the L2 cache of its own.
 *
 * Measured on an H200 on 2026-11-18 (docs/performance.md), 2^26 keys of 16 + 8 bytes, load factor 0.8: 6.6 G/s; with
 * one lane storing a row 4.8, and with 32 + 128 and 8 + 512 bytes 2.0 and 0.5 instead of 4.1 and 1.9. An insertion
 * reads a line, and writes the tag, the row and the ready bit, with a fence before the last: a fifth of the time waits
 * for that fence, as much for the words to store. More blocks with fewer registers are slower (20 instead of 16: 5.9),
 * and fetching values ahead changes nothing.
 *
 * One lane overwrites, reads or combines the value of a key that is present. Equal keys of a thread block are not
 * merged. */
#define CUDA_LANES 2
#define CUDA_KEPT_LINES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "core/call_parts.h"
#include "engines/open/open_items.h"
#include "engines/open/open_survey.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_item_queue.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"

namespace
{

enum {
    THREADS = 64, /* in a small block fewer warps wait for the longest probe sequence */
    BLOCKS = 16,  /* per SM */
    MOVED_LINES = 4,
    SMALL = 1 << 15 /* keys of a batch that has one for each group of lanes */
};

/* Rows that the groups of a warp have claimed in one turn. */
struct claimed_rows {
    uint64_t row[GROUPS]; /* its number */
    const unsigned char *key[GROUPS], *value[GROUPS];
};

struct write_tile {
    uint64_t hashes[TILE_ITEMS];
    __align__(4) uint8_t status[TILE_ITEMS];
    claimed_rows claimed;
};

/* How lanes store a row. */
struct store_words {
    uint32_t word;  /* bytes of a word: it divides all widths and addresses */
    uint32_t shift; /* 1 << shift lanes store a row */
};

/* The lanes of a warp store `count` rows. */
template <class word>
__device__ __forceinline__ void store_by_words(const loom__rows_view &view, const claimed_rows &claimed, uint32_t count,
                                               uint32_t shift, uint32_t lane)
{
    const uint32_t lanes = 1u << shift, keys = view.key_bytes / sizeof(word);
    const uint32_t end = keys + view.value_bytes / sizeof(word);
    for (uint32_t i = lane >> shift; i < count; i += 32 >> shift) {
        const open_row_place row = open_row_of_number(&view, claimed.row[i]);
        const word *key = (const word *)claimed.key[i], *value = (const word *)claimed.value[i] - keys;
        word *to_key = (word *)row.key, *to_value = (word *)row.value - keys;
#pragma unroll 4
        for (uint32_t w = lane & (lanes - 1); w < end; w += lanes)
            (w < keys ? to_key : to_value)[w] = (w < keys ? key : value)[w];
    }
}

/* Stores the rows that groups of the warp have claimed, and makes them ready. All lanes call this. `mine`: this lane
 * has claimed the slot in walk.free_slot. */
__device__ __forceinline__ void store_claimed(const loom__rows_view &view, int shared, claimed_rows *claimed,
                                              const store_words &words, lane_group group, const open_walk &walk,
                                              uint64_t value, bool mine)
{
    const uint32_t lane = threadIdx.x % 32, all = __ballot_sync(CUDA_FULL_MASK, mine);
    if (all == 0)
        return;
    if (mine) {
        const uint32_t at = __popc(all & (group.own - 1));
        claimed->row[at] = open_row_number(&view, walk.partition_index, walk.free_bucket, walk.free_slot);
        claimed->key[at] = (const unsigned char *)(uintptr_t)walk.key;
        claimed->value[at] = (const unsigned char *)(uintptr_t)value;
    }
    __syncwarp();
    if (words.word == 16)
        store_by_words<uint4>(view, *claimed, __popc(all), words.shift, lane);
    else if (words.word == 8)
        store_by_words<uint64_t>(view, *claimed, __popc(all), words.shift, lane);
    else if (words.word == 4)
        store_by_words<uint32_t>(view, *claimed, __popc(all), words.shift, lane);
    else
        store_by_words<uint8_t>(view, *claimed, __popc(all), words.shift, lane);
    __syncwarp(); /* the lanes that stored a row have joined the one that makes it ready */
    if (mine)
        open_publish(shared, open_line(SLOT_TAG, &walk, walk.free_bucket), walk.free_slot);
}

/* `together`: the addresses of keys and values, combined by OR. */
store_words words_for(const loom__rows_view *view, uint64_t together)
{
    if (view->value_bytes > 0)
        together |= (uintptr_t)view->values | view->value_stride | view->value_bytes;
    store_words words = {loom__widest_word(together | (uintptr_t)view->rows | view->key_stride | view->key_bytes), 0};
    while (1u << words.shift < loom__row_lanes((view->key_bytes + view->value_bytes) / words.word))
        words.shift++;
    return words;
}

/* The places of a table's rows, combined by OR. */
uint64_t from_places(const loom__rows_view *from)
{
    const uint64_t keys = (uintptr_t)from->rows | from->key_stride;
    return from->value_bytes > 0 ? keys | (uintptr_t)from->values | from->value_stride : keys;
}

__device__ __forceinline__ uint64_t address_of(const void *array, uint64_t width, uint64_t i)
{
    return (uint64_t)(uintptr_t)((const unsigned char *)array + i * width);
}

template <cuda_op op>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    write_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                 const cuda_finish finish, const store_words words)
{
    __shared__ write_tile tiles[THREADS / 32];
    write_tile *tile = &tiles[threadIdx.x / 32];
    const slot_mode mode = op == OP_OVERWRITE ? SLOT_OVERWRITE
                           : op == OP_FETCH   ? SLOT_FETCH
                           : op == OP_COMBINE ? SLOT_COMBINE
                                              : SLOT_KEEP;
    const tile_range range(batch.n, batch.tile);
    const lane_group group = lane_own_group();
    const loom__open_view *lines = &view.lines;
    const int shared = batch.read_beside ? OPEN_SHARED : OPEN_UNREAD;
    const bool fetches = op == OP_FETCH && batch.found_values != NULL;
    for (uint32_t item = range.lane; item < range.count; item += 32)
        tile->hashes[item] =
            open_row_hash((const unsigned char *)(uintptr_t)address_of(batch.keys, view.key_bytes, range.first + item),
                          view.key_bytes, lines->seed);
    __syncwarp();
    item_queue queue;
    uint32_t item = queue.first();
    open_walk walk;
    bool begins = true;
    for (bool active; lane_going(group, active = item < range.count);) {
        const uint64_t index = range.first + item;
        if (active && begins) {
            walk = open_start_at(SLOT_TAG, lines, address_of(batch.keys, view.key_bytes, index), tile->hashes[item]);
            walk.staged = op != OP_COMBINE; /* whose value is no array element */
        }
        uint64_t value[2] = {0, 0}, number; /* addresses; open_meet_row */
        if (op == OP_COMBINE) {
            number = active ? open_number_at(&view, batch.values, batch.widening, index) : 0;
            value[0] = (uint64_t)(uintptr_t)&number;
        } else if (op != OP_ERASE && batch.values != NULL) {
            value[0] = address_of(batch.values, view.value_bytes, index);
        }
        if (fetches)
            value[1] = address_of(batch.found_values, view.value_bytes, index);
        const open_answer answer =
            op == OP_ERASE ? open_erase_item(SLOT_TAG, shared, group, lines, &walk, active)
            : op == OP_UPDATE
                ? open_update_item(SLOT_TAG, shared, group, lines, &walk, value[0], active)
                : open_insert_item(SLOT_TAG, mode, batch.rule, shared, group, lines, &walk, value, active);
        begins = active && answer.outcome != OPEN_GO_ON;
        if (op != OP_ERASE && op != OP_UPDATE && op != OP_COMBINE)
            store_claimed(view, shared, &tile->claimed, words, group, walk, value[0],
                          begins && answer.outcome == OPEN_DONE && walk.free_slot < open_slots(SLOT_TAG));
        if (begins && answer.reports) {
            tile->status[item] = answer.outcome == OPEN_DONE        ? LOOM_OK
                                 : answer.outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                 : answer.outcome == OPEN_ABSENT    ? LOOM_NOT_FOUND
                                                                    : LOOM_FULL;
            if (fetches)
                open_tell_fetched(&view, answer.outcome == OPEN_DONE, answer.outcome == OPEN_NO_ROOM, value);
        }
        item = queue.next(group, item, begins);
    }
    __syncwarp();
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    const lane_counts counts = {tile_count(tile->status, range, LOOM_OK),
                                tile_count(tile->status, range, counts_not_found(op) ? LOOM_NOT_FOUND : LOOM_EXISTS),
                                counts_not_found(op) ? 0 : tile_count(tile->status, range, LOOM_FULL)};
    count_and_finish<op>(batch, finish, counts);
}

/* ---- places ---- */

/* A group of lanes looks for one key. Nobody writes meanwhile. */
__global__ void __launch_bounds__(THREADS)
    locate_kernel(const __grid_constant__ loom__rows_view view, const void *keys, uint64_t n, uint64_t *slots)
{
    const lane_group group = lane_own_group();
    const uint64_t index = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / CUDA_LANES;
    bool active = index < n;
    open_walk walk = open_start(SLOT_TAG, &view.lines, address_of(keys, view.key_bytes, active ? index : 0));
    while (lane_going(group, active)) {
        const open_look look = open_find_turn(SLOT_TAG, 0, group, &view.lines, &walk, active);
        const uint64_t bucket = loom__multiply_wide(walk.partition_index, view.lines.buckets) + walk.bucket;
        if (active && look.mine)
            slots[index] = bucket * open_slots(SLOT_TAG) + look.slot;
        if (active && !look.found && !look.further && lane_leads(group))
            slots[index] = CUDA_NO_SLOT;
        active = active && !look.found && look.further;
        if (active)
            open_advance(&view.lines, &walk);
    }
}

/* A lane erases one key. Others may erase keys of the same line. */
__global__ void __launch_bounds__(THREADS)
    erase_slots_kernel(const __grid_constant__ loom__rows_view view, const uint64_t *slots, uint64_t n)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        (void)open_erase_located(OPEN_SHARED, &view.lines, slots[i]);
}

/* ---- moving ---- */

struct move_tile {
    claimed_rows claimed;
    uint64_t hashes[MOVED_LINES * 28];
    uint8_t listed[MOVED_LINES * 28]; /* slots with keys, counted from the warp's first line */
};

static_assert(MOVED_LINES * 28 <= 255, "a slot's number has 8 bits");

/* Each warp stores the keys of MOVED_LINES lines in another table. All keys are different. */
__global__ void __launch_bounds__(THREADS)
    move_kernel(const __grid_constant__ loom__rows_view from, const __grid_constant__ loom__rows_view to,
                unsigned long long *refused, const store_words words)
{
    __shared__ move_tile tiles[THREADS / 32];
    move_tile *tile = &tiles[threadIdx.x / 32];
    const lane_group group = lane_own_group();
    const uint32_t lane = threadIdx.x % 32, slots = open_slots(SLOT_TAG);
    const uint64_t first = ((uint64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32) * MOVED_LINES;
    const uint64_t all = loom__multiply_wide(from.lines.partitions, from.lines.buckets);
    uint32_t count = 0, full = 0;
    for (uint32_t i = 0; i < MOVED_LINES; i++) {
        const uint16_t *tags = (const uint16_t *)(from.lines.base + (first + i) * OPEN_LINE_BYTES);
        const bool holds = first + i < all && lane < slots && tags[lane < slots ? lane : 0] != 0;
        const uint32_t holders = __ballot_sync(CUDA_FULL_MASK, holds);
        if (holds) {
            const uint32_t slot = i * slots + lane, at = count + __popc(holders & (group.own - 1));
            tile->listed[at] = (uint8_t)slot;
            tile->hashes[at] =
                open_row_hash(open_row_of_number(&from, first * slots + slot).key, from.key_bytes, to.lines.seed);
        }
        count += __popc(holders);
    }
    __syncwarp();
    item_queue queue;
    uint32_t item = queue.first();
    open_walk walk;
    bool begins = true;
    for (bool active; lane_going(group, active = item < count);) {
        const open_row_place row = open_row_of_number(&from, first * slots + (active ? tile->listed[item] : 0));
        if (active && begins) {
            walk = open_start_at(SLOT_TAG, &to.lines, (uint64_t)(uintptr_t)row.key, tile->hashes[item]);
            walk.staged = 1;
        }
        uint64_t value[2] = {(uint64_t)(uintptr_t)row.value, 0};
        const open_answer answer =
            open_insert_item(SLOT_TAG, SLOT_KEEP, LOOM__ADD, OPEN_UNREAD, group, &to.lines, &walk, value, active);
        begins = active && answer.outcome != OPEN_GO_ON;
        store_claimed(to, OPEN_UNREAD, &tile->claimed, words, group, walk, value[0],
                      begins && answer.outcome == OPEN_DONE && walk.free_slot < slots);
        full += begins && answer.reports && answer.outcome == OPEN_NO_ROOM;
        item = queue.next(group, item, begins);
    }
    if (full > 0)
        atomicAdd(refused, (unsigned long long)full);
}

} // namespace

cudaError_t cuda_rows_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op, const cuda_finish *finish,
                            cudaStream_t stream)
{
    cuda_batch own = *batch;
    own.tile = own.n <= SMALL ? (uint32_t)GROUPS : own.tile;
    const unsigned items = own.tile * (THREADS / 32);
    auto kernel = op == OP_OVERWRITE ? write_kernel<OP_OVERWRITE>
                  : op == OP_FETCH   ? write_kernel<OP_FETCH>
                  : op == OP_COMBINE ? write_kernel<OP_COMBINE>
                  : op == OP_UPDATE  ? write_kernel<OP_UPDATE>
                  : op == OP_ERASE   ? write_kernel<OP_ERASE>
                                     : write_kernel<OP_KEEP>;
    kernel<<<(unsigned)((own.n + items - 1) / items), THREADS, 0, stream>>>(
        *view, own, finish != NULL ? *finish : cuda_finish{},
        words_for(view, (uintptr_t)batch->keys | (uintptr_t)batch->values));
    return cudaGetLastError();
}

cudaError_t cuda_rows_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                             cudaStream_t stream)
{
    const uint64_t items = THREADS / CUDA_LANES;
    locate_kernel<<<(unsigned)((n + items - 1) / items), THREADS, 0, stream>>>(*view, keys, n, slots);
    return cudaGetLastError();
}

cudaError_t cuda_rows_erase_slots(const loom__rows_view *view, const uint64_t *slots, uint64_t n, cudaStream_t stream)
{
    erase_slots_kernel<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*view, slots, n);
    return cudaGetLastError();
}

cudaError_t cuda_rows_move(const loom__rows_view *from, const loom__rows_view *to, unsigned long long *refused,
                           cudaStream_t stream)
{
    const uint64_t lines = (uint64_t)from->lines.partitions * from->lines.buckets;
    const uint64_t each = THREADS / 32 * MOVED_LINES;
    move_kernel<<<(unsigned)((lines + each - 1) / each), THREADS, 0, stream>>>(*from, *to, refused,
                                                                               words_for(to, from_places(from)));
    return cudaGetLastError();
}
