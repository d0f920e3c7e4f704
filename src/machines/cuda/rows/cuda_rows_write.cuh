/* Writes to tables with rows: insertions, updates, accumulations and erasures, key by key; and the places of keys. Two
 * units compile this file: cuda_rows_write.cu for rows of any width, SLOT_TAG, and cuda_strings_write.cu for byte
 * strings, SLOT_STRING. The including file defines CUDA_ROWS_KIND.
 *
 * A group that has claimed a slot does not store the row itself. Once in each turn the lanes of the warp store the rows
 * of all its groups, several lanes for each row, one word each, and then every group sets its ready bit. A single lane
 * would write a row word by word, and each word would be an access to the L2 cache of its own. A group that overwrites
 * or updates a key which is present takes the slot (open_meet_wide), and the lanes of the warp store the value in the
 * same way. A value of 4 or 8 bytes is one access of one lane. A warp gives back all slots that its groups hold before
 * its next turn, so no warp waits for a slot while it holds another one.
 *
 * Measured on an H200 on 2026-11-18 (docs/performance.md), 2^26 keys of 16 + 8 bytes, load factor 0.8: 6.6 G/s; with
 * one lane storing a row 4.8, and with 32 + 128 and 8 + 512 bytes 2.0 and 0.5 instead of 4.1 and 1.9. An insertion
 * reads a line, and writes the tag, the row and the ready bit, with a fence before the last: a fifth of the time waits
 * for that fence, as much for the words to store. More blocks with fewer registers are slower (20 instead of 16: 5.9),
 * and fetching values ahead changes nothing.
 *
 * Strings. The groups of a warp that claim slots in the same turn take their pieces of the heap by one atomic addition
 * (lane_draw_8), so the pieces lie beside each other. Then STRING_LANES lanes copy each string, one word each. The
 * words of STORED_TOGETHER strings are loaded before the first of them is stored. Rows that were refused for lack of
 * bytes are counted in the table (loom__string_totals).
 *
 * One lane reads or combines the value of a key that is present. In tables with strings one lane overwrites it, too.
 * Equal keys of a thread block are not merged. */
#define CUDA_LANES 2
#define CUDA_KEPT_LINES
#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "core/call_parts.h"
#include "engines/open/open_items.h"
#include "engines/open/open_survey.h"
#include "machines/cuda/core/cuda_finish.cuh"
#include "machines/cuda/core/cuda_item_queue.cuh"
#include "machines/cuda/core/cuda_items.cuh"
#include "machines/cuda/core/cuda_string_hash.cuh"
#include "machines/cuda/rows/cuda_rows_engine.cuh"

namespace
{

const loom__slot_kind KIND = CUDA_ROWS_KIND;
const bool STRINGS = KIND == SLOT_STRING;

enum {
    THREADS = 64,               /* in a small block fewer warps wait for the longest probe sequence */
    BLOCKS = STRINGS ? 10 : 16, /* per SM; strings need more registers */
    MOVED_LINES = 4,
    STRING_LANES = 8,    /* lanes that copy a string */
    STORED_TOGETHER = 4, /* strings that they copy at a time */
    SMALL = 1 << 15      /* keys of a batch that has one for each group of lanes */
};

/* Rows that the groups of a warp have claimed or taken in one turn. */
struct claimed_rows {
    uint64_t row[GROUPS];                             /* its number */
    const unsigned char *key[GROUPS], *value[GROUPS]; /* key: NULL if the row has it already */
};

/* The same for rows with strings. A column that is no string has an address and a width, too. */
struct claimed_strings {
    uint64_t row[GROUPS]; /* its number */
    uint64_t piece[GROUPS];
    loom__string key[GROUPS], value[GROUPS];
    uint64_t number[GROUPS]; /* values of accumulations */
    uint32_t lower[GROUPS];
};

struct write_tile {
    uint64_t hashes[TILE_ITEMS];
    std::conditional_t<STRINGS, claimed_strings, claimed_rows> claimed;
    __align__(4) uint8_t status[TILE_ITEMS];
    uint8_t wanted[STRINGS ? TILE_ITEMS : 1]; /* strings: items that are not too long */
};

/* Where the strings of a batch end, each column in its own piece of memory: all bytes between a string and this address
 * may be read. */
struct string_ends {
    uint64_t keys, values;
};

/* How lanes store a row. */
struct store_words {
    uint32_t word;     /* bytes of a word: it divides all widths and addresses of what is stored */
    uint32_t shift;    /* 1 << shift lanes store a row */
    bool empty_values; /* strings: a new key gets the empty string as its value */
    string_ends ends;
};

/* The lanes of a warp store `count` rows; of an update the values alone. */
template <class word>
__device__ __forceinline__ void store_by_words(const loom__rows_view &view, const claimed_rows &claimed, uint32_t count,
                                               uint32_t shift, cuda_op op)
{
    const uint32_t lane = threadIdx.x % 32, lanes = 1u << shift;
    const uint32_t keys = op == OP_UPDATE ? 0 : view.key_bytes / sizeof(word);
    const uint32_t end = keys + view.value_bytes / sizeof(word);
    for (uint32_t i = lane >> shift; i < count; i += 32 >> shift) {
        const open_row_place row = open_row_of_number(&view, claimed.row[i]);
        const word *key = (const word *)claimed.key[i], *value = (const word *)claimed.value[i] - keys;
        word *to_key = (word *)row.key, *to_value = (word *)row.value - keys;
        const uint32_t begin = op == OP_OVERWRITE && key == NULL ? keys : 0;
#pragma unroll 4
        for (uint32_t w = begin + (lane & (lanes - 1)); w < end; w += lanes)
            (w < keys ? to_key : to_value)[w] = (w < keys ? key : value)[w];
    }
}

/* One lane's 8 bytes of a string or another column, or as many as are left. load() loads whole aligned words and does
 * not branch, so the loads of several rows are in flight together. If these words may reach behind readable memory, as
 * the last word of a batch's last string does, finish() loads the bytes instead. */
struct column_word {
    uint64_t low, high;
    const unsigned char *at;
    uint32_t bytes;
    bool whole;

    __device__ __forceinline__ void load(const loom__string &column, uint64_t from, uint64_t readable_end)
    {
        const uint64_t left = column.length > from ? column.length - from : 0;
        const uint64_t place = column.at + from, first = place & ~(uint64_t)7;
        at = (const unsigned char *)place;
        bytes = left < 8 ? (uint32_t)left : 8;
        const bool two = place - first + bytes > 8;
        whole = bytes > 0 && first + (two ? 16 : 8) <= readable_end;
        low = whole ? *(const uint64_t *)first : 0;
        high = whole && two ? *(const uint64_t *)(first + 8) : 0;
    }
    __device__ __forceinline__ uint64_t finish() const
    {
        const uint32_t shift = (uint32_t)(uintptr_t)at % 8 * 8;
        if (!whole)
            return loom__load_bytes(at, bytes);
        const uint64_t word = shift == 0 ? low : low >> shift | high << (64 - shift);
        return bytes == 8 ? word : word & (((uint64_t)1 << 8 * bytes) - 1);
    }
};

/* Where a column of a claimed row goes. */
__device__ __forceinline__ unsigned char *place_of_column(const loom__rows_view &view, const claimed_strings &claimed,
                                                          uint32_t i, bool values)
{
    const bool after_key = values && view.variable & LOOM__VARIABLE_KEYS;
    if (view.variable & (values ? LOOM__VARIABLE_VALUES : LOOM__VARIABLE_KEYS))
        return view.heap + claimed.piece[i] + (after_key ? open_piece_of(claimed.key[i].length) : 0);
    const open_row_place row = open_row_of_number(&view, claimed.row[i]);
    return values ? row.value : row.key;
}

/* The lanes of a warp store the keys or the values of `count` rows in whole words: STRING_LANES lanes each of them,
 * STORED_TOGETHER at a time. The last word of a string ends with zeros. */
__device__ __forceinline__ void store_columns(const loom__rows_view &view, const claimed_strings &claimed,
                                              uint32_t count, uint64_t readable_end, bool values)
{
    const uint32_t sub = threadIdx.x % 32 / STRING_LANES, rows = 32 / STRING_LANES;
    const uint64_t from = threadIdx.x % STRING_LANES * 8;
    const bool strings = view.variable & (values ? LOOM__VARIABLE_VALUES : LOOM__VARIABLE_KEYS);
    uint64_t longest = 0;
    for (uint32_t first = sub; first < count; first += rows * STORED_TOGETHER) {
        column_word words[STORED_TOGETHER];
#pragma unroll
        for (int k = 0; k < STORED_TOGETHER; k++) {
            const uint32_t i = first + rows * k;
            const loom__string column = i < count ? (values ? claimed.value[i] : claimed.key[i]) : loom__string{0, 0};
            words[k].load(column, from, strings ? readable_end : column.at + column.length);
            longest = longest < column.length ? column.length : longest;
        }
#pragma unroll
        for (int k = 0; k < STORED_TOGETHER; k++)
            if (words[k].bytes > 0)
                *(uint64_t *)(place_of_column(view, claimed, first + rows * k, values) + from) = words[k].finish();
    }
    if (longest <= 8 * STRING_LANES)
        return;
    for (uint32_t i = sub; i < count; i += rows) {
        const loom__string column = values ? claimed.value[i] : claimed.key[i];
        unsigned char *to = place_of_column(view, claimed, i, values);
#pragma unroll 1
        for (uint64_t at = from + 8 * STRING_LANES; at < column.length; at += 8 * STRING_LANES)
            *(uint64_t *)(to + at) = loom__load_bytes((const unsigned char *)column.at + at,
                                                      column.length - at < 8 ? (uint32_t)(column.length - at) : 8);
    }
}

/* The same for columns that are no strings and do not consist of aligned words of 8 bytes. */
__device__ __forceinline__ void store_columns_by_bytes(const loom__rows_view &view, const claimed_strings &claimed,
                                                       uint32_t count, bool values)
{
    for (uint32_t i = threadIdx.x % 32 / STRING_LANES; i < count; i += 32 / STRING_LANES) {
        const loom__string column = values ? claimed.value[i] : claimed.key[i];
        unsigned char *to = place_of_column(view, claimed, i, values);
        for (uint32_t b = threadIdx.x % STRING_LANES; b < column.length; b += STRING_LANES)
            to[b] = ((const unsigned char *)column.at)[b];
    }
}

/* The lanes of a warp store `count` rows and their strings, as open_store_strings does. */
__device__ __forceinline__ void store_strings(const loom__rows_view &view, const claimed_strings &claimed,
                                              uint32_t count, const store_words &words)
{
#pragma unroll
    for (int values = 0; values < 2; values++) {
        const bool strings = view.variable & (values ? LOOM__VARIABLE_VALUES : LOOM__VARIABLE_KEYS);
        if (strings || words.word >= 8)
            store_columns(view, claimed, count, values ? words.ends.values : words.ends.keys, values);
        else
            store_columns_by_bytes(view, claimed, count, values);
        const uint32_t i = threadIdx.x % 32 / 2, half = threadIdx.x % 2; /* two lanes write a reference */
        if (!strings || i >= count)
            continue;
        const open_row_place row = open_row_of_number(&view, claimed.row[i]);
        const loom__string key = claimed.key[i], value = claimed.value[i];
        const uint64_t piece = claimed.piece[i];
        const uint64_t before = values && view.variable & LOOM__VARIABLE_KEYS ? open_piece_of(key.length) : 0;
        const uint64_t lengths =
            values ? value.length | open_piece_of(value.length) << 32 : key.length | (uint64_t)claimed.lower[i] << 32;
        ((uint64_t *)(values ? row.value : row.key))[half] = half == 0 ? piece + before : lengths;
    }
}

static_assert(GROUPS <= 16, "a warp writes all references at once");

/* Notes what is to be stored in a slot that this lane has claimed. */
__device__ __forceinline__ void note_claimed(const loom__rows_view &view, claimed_strings *claimed, uint32_t at,
                                             const open_walk &walk, uint64_t value, bool is_number)
{
    claimed->row[at] = open_row_number(&view, walk.partition_index, walk.free_bucket, walk.free_slot);
    claimed->piece[at] = walk.piece;
    claimed->lower[at] = walk.lower;
    claimed->key[at] =
        view.variable & LOOM__VARIABLE_KEYS ? open_string_at(walk.key) : loom__string{walk.key, view.key_bytes};
    if (is_number) { /* it lies in the lane's own memory */
        claimed->number[at] = *(const uint64_t *)value;
        value = (uint64_t)(uintptr_t)&claimed->number[at];
    }
    claimed->value[at] =
        view.variable & LOOM__VARIABLE_VALUES ? open_string_at(value) : loom__string{value, view.value_bytes};
}

__device__ __forceinline__ void note_claimed(const loom__rows_view &view, claimed_rows *claimed, uint32_t at,
                                             const open_walk &walk, uint64_t value, bool)
{
    claimed->row[at] = open_row_number(&view, walk.partition_index, walk.free_bucket, walk.free_slot);
    claimed->key[at] = walk.taken ? NULL : (const unsigned char *)(uintptr_t)walk.key;
    claimed->value[at] = (const unsigned char *)(uintptr_t)value;
}

/* The lanes of a warp store `count` rows. */
__device__ __forceinline__ void store_noted(const loom__rows_view &view, const claimed_strings &claimed,
                                            const store_words &words, uint32_t count, cuda_op)
{
    store_strings(view, claimed, count, words);
}

__device__ __forceinline__ void store_noted(const loom__rows_view &view, const claimed_rows &claimed,
                                            const store_words &words, uint32_t count, cuda_op op)
{
    if (words.word == 16)
        store_by_words<uint4>(view, claimed, count, words.shift, op);
    else if (words.word == 8)
        store_by_words<uint64_t>(view, claimed, count, words.shift, op);
    else if (words.word == 4)
        store_by_words<uint32_t>(view, claimed, count, words.shift, op);
    else
        store_by_words<uint8_t>(view, claimed, count, words.shift, op);
}

/* Stores the rows that groups of the warp have claimed, and the values of rows that they have taken, and makes them
 * ready. All lanes call this. `mine`: this lane holds a slot (open_holds_slot). The value of an accumulation lies in
 * the lane's own memory. */
template <class claimed_type>
__device__ __forceinline__ void store_claimed(const loom__rows_view &view, int shared, claimed_type *claimed,
                                              const store_words &words, lane_group group, const open_walk &walk,
                                              uint64_t value, bool mine, cuda_op op)
{
    const uint32_t all = __ballot_sync(CUDA_FULL_MASK, mine);
    if (all == 0)
        return;
    if (mine)
        note_claimed(view, claimed, __popc(all & (group.own - 1)), walk, value, op == OP_COMBINE);
    __syncwarp(); /* also: what the former owner of a taken slot stored comes before what all lanes store */
    store_noted(view, *claimed, words, __popc(all), op);
    __syncwarp(); /* the lanes that stored a row have joined the one that makes it ready */
    if (mine)
        open_publish(shared, open_line(SLOT_TAG, &walk, walk.free_bucket), walk.free_slot);
}

/* `keys`: keys are stored, too. `together`: the addresses of what is stored, combined by OR. */
store_words words_for(const loom__rows_view *view, uint64_t together, bool keys)
{
    if (view->value_bytes > 0)
        together |= (uintptr_t)view->values | view->value_stride | view->value_bytes;
    if (keys)
        together |= (uintptr_t)view->rows | view->key_stride | view->key_bytes;
    store_words words = {loom__widest_word(together), 0, false, {0, 0}};
    while (1u << words.shift < loom__row_lanes(((keys ? view->key_bytes : 0) + view->value_bytes) / words.word))
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

/* ---- strings ---- */

/* Rows of a lane that were refused for lack of bytes. */
struct lane_refusals {
    uint32_t rows;
    uint64_t bytes, most;

    __device__ __forceinline__ void add(uint64_t needed)
    {
        rows++;
        bytes += needed;
        most = needed > most ? needed : most;
    }
    /* All lanes of the warp call this. */
    __device__ __forceinline__ void tell(loom__string_totals *totals) const
    {
        if (!__any_sync(CUDA_FULL_MASK, rows > 0)) /* nearly always */
            return;
        if (rows > 0) {
            atomicAdd((unsigned long long *)&totals->refused_rows, (unsigned long long)rows);
            atomicAdd((unsigned long long *)&totals->refused_bytes, (unsigned long long)bytes);
            atomicMax((unsigned long long *)&totals->refused_most, (unsigned long long)most);
        }
    }
};

__device__ __forceinline__ uint64_t hash_at(const loom__rows_view &view, uint64_t key)
{
    if (open_has_string_keys(KIND, &view))
        return hash_string(open_string_at(key), view.lines.seed);
    return open_row_hash((const unsigned char *)(uintptr_t)key, view.key_bytes, view.lines.seed);
}

/* Hashes the items of a tile. Strings: lists those that are not too long, and tells the others; returns how many are
 * listed. */
template <cuda_op op>
__device__ __forceinline__ uint32_t begin_items(const loom__rows_view &view, const cuda_batch &batch,
                                                const tile_range &range, write_tile *tile, lane_group group)
{
    uint32_t listed = 0;
    for (uint32_t first = 0; first < range.count; first += 32) {
        const uint32_t item = first + range.lane;
        const uint64_t index = range.first + item;
        bool mine = item < range.count;
        const uint64_t key = address_of(batch.keys, view.key_bytes, mine ? index : range.first);
        if (STRINGS && mine) {
            const bool takes = op != OP_ERASE && op != OP_COMBINE && batch.values != NULL;
            const uint64_t value = takes ? address_of(batch.values, view.value_bytes, index) : 0;
            if (open_is_too_long(KIND, &view, key, value)) {
                mine = false;
                tile->status[item] = op == OP_ERASE ? LOOM_NOT_FOUND : LOOM_TOO_LONG;
                if (op == OP_FETCH && batch.found_values != NULL)
                    memset((unsigned char *)batch.found_values + index * view.value_bytes, 0, view.value_bytes);
            }
        }
        if (mine)
            tile->hashes[item] = hash_at(view, key);
        if (STRINGS) {
            const uint32_t wanted = __ballot_sync(CUDA_FULL_MASK, mine);
            if (mine)
                tile->wanted[listed + __popc(wanted & (group.own - 1))] = (uint8_t)item;
            listed += __popc(wanted);
        }
    }
    __syncwarp();
    return STRINGS ? listed : range.count;
}

/* The address behind the last string of a batch. The strings of a batch follow each other in memory. */
__device__ __forceinline__ uint64_t end_of_strings(const void *strings, uint64_t n)
{
    if (strings == NULL)
        return 0;
    const loom__string last = ((const loom__string *)strings)[n - 1];
    return last.at + last.length;
}

template <cuda_op op>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    write_kernel(const __grid_constant__ loom__rows_view view, const __grid_constant__ cuda_batch batch,
                 const cuda_finish finish, const store_words given)
{
    store_words words = given;
    if (STRINGS)
        words.ends = {view.variable & LOOM__VARIABLE_KEYS ? end_of_strings(batch.keys, batch.n) : 0,
                      view.variable & LOOM__VARIABLE_VALUES ? end_of_strings(batch.values, batch.n) : 0};
    __shared__ write_tile tiles[THREADS / 32];
    __shared__ loom__string nothing;
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
    const bool staged = op != OP_ERASE && (STRINGS ? op != OP_UPDATE : op != OP_COMBINE);
    if (STRINGS && words.empty_values) {
        if (threadIdx.x == 0)
            nothing = {0, 0};
        __syncthreads();
    }
    const uint32_t count = begin_items<op>(view, batch, range, tile, group);
    lane_refusals refusals = {0, 0, 0};
    item_queue queue;
    uint32_t place = queue.first();
    open_walk walk;
    bool begins = true;
    for (bool active; lane_going(group, active = place < count);) {
        const uint32_t item = STRINGS ? tile->wanted[active ? place : 0] : place;
        const uint64_t index = range.first + item;
        if (active && begins) {
            walk = open_start_at(KIND, lines, address_of(batch.keys, view.key_bytes, index), tile->hashes[item]);
            walk.staged = staged; /* rows: not for accumulations, whose value is no array element */
        }
        uint64_t value[2] = {0, 0}, number; /* addresses; open_meet_row */
        if (op == OP_COMBINE) {
            number = active ? slot_number_at(view.value_bytes, batch.values, batch.widening, index) : 0;
            value[0] = (uint64_t)(uintptr_t)&number;
        } else if (STRINGS && words.empty_values) {
            value[0] = (uint64_t)(uintptr_t)&nothing;
        } else if (op != OP_ERASE && batch.values != NULL) {
            value[0] = address_of(batch.values, view.value_bytes, index);
        }
        if (fetches)
            value[1] = address_of(batch.found_values, view.value_bytes, index);
        const open_answer answer =
            op == OP_ERASE    ? open_erase_item(KIND, shared, group, lines, &walk, active)
            : op == OP_UPDATE ? open_update_item(KIND, shared, group, lines, &walk, value[0], active)
                              : open_insert_item(KIND, mode, batch.rule, shared, group, lines, &walk, value, active);
        begins = active && answer.outcome != OPEN_GO_ON;
        if (staged)
            store_claimed(view, shared, &tile->claimed, words, group, walk, value[0],
                          begins && open_holds_slot(&walk, answer.outcome), op);
        if (begins && answer.reports) {
            tile->status[item] = answer.outcome == OPEN_DONE        ? LOOM_OK
                                 : answer.outcome == OPEN_WAS_THERE ? LOOM_EXISTS
                                 : answer.outcome == OPEN_ABSENT    ? LOOM_NOT_FOUND
                                                                    : LOOM_FULL;
            if (fetches)
                slot_tell_fetched(view.value_bytes, answer.outcome == OPEN_DONE,
                                  answer.outcome == OPEN_NO_ROOM || answer.outcome == OPEN_NO_BYTES, value);
            if (STRINGS && answer.outcome == OPEN_NO_BYTES)
                refusals.add(open_piece_bytes(&view, walk.key, address_of(batch.values, view.value_bytes, index)));
        }
        place = queue.next(group, place, begins);
    }
    __syncwarp();
    if (STRINGS)
        refusals.tell(view.strings);
    if (batch.status != NULL)
        tile_write(tile->status, range, batch.status);
    const lane_counts counts = {tile_count(tile->status, range, LOOM_OK),
                                tile_count(tile->status, range, counts_not_found(op) ? LOOM_NOT_FOUND : LOOM_EXISTS),
                                counts_not_found(op) && !STRINGS ? 0 : tile_count(tile->status, range, LOOM_FULL)};
    if (STRINGS && op != OP_ERASE && batch.counts != NULL)
        add_count(&own_counts(batch)->too_long, tile_count(tile->status, range, LOOM_TOO_LONG));
    count_and_finish<op>(batch, finish, counts);
}

/* ---- places ---- */

/* A group of lanes looks for one key. Nobody writes meanwhile. A string that is too long is nowhere. */
__global__ void __launch_bounds__(THREADS)
    locate_kernel(const __grid_constant__ loom__rows_view view, const void *keys, uint64_t n, uint64_t *slots)
{
    const lane_group group = lane_own_group();
    const uint64_t index = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / CUDA_LANES;
    const uint64_t key = address_of(keys, view.key_bytes, index < n ? index : 0);
    const bool too_long = STRINGS && open_is_too_long(KIND, &view, key, 0);
    bool active = index < n && !too_long;
    if (index < n && too_long && lane_leads(group))
        slots[index] = CUDA_NO_SLOT;
    open_walk walk = open_start_at(KIND, &view.lines, key, too_long ? 0 : hash_at(view, key));
    while (lane_going(group, active)) {
        const open_look look = open_find_turn(KIND, 0, group, &view.lines, &walk, active);
        const uint64_t bucket = loom__multiply_wide(walk.partition_index, view.lines.buckets) + walk.bucket;
        if (active && look.mine)
            slots[index] = bucket * open_slots(KIND) + look.slot;
        if (active && !look.found && !look.further && lane_leads(group))
            slots[index] = CUDA_NO_SLOT;
        active = active && !look.found && look.further;
        if (active)
            open_advance(&view.lines, &walk);
    }
}

/* ---- moving ---- */

struct move_tile {
    uint64_t hashes[MOVED_LINES * 28];
    std::conditional_t<STRINGS, claimed_strings, claimed_rows> claimed;
    loom__string keys[STRINGS ? GROUPS : 1], values[STRINGS ? GROUPS : 1]; /* of the groups' items, in the old heap */
    uint8_t listed[MOVED_LINES * 28]; /* slots with keys, counted from the warp's first line */
};

static_assert(MOVED_LINES * 28 <= 255, "a slot's number has 8 bits");

__device__ __forceinline__ loom__string string_in(const loom__rows_view &view, const unsigned char *reference)
{
    const open_stored stored = *(const open_stored *)reference;
    return {(uintptr_t)view.heap + stored.at, stored.length};
}

/* The hash of a row's key in the new table. */
__device__ __forceinline__ uint64_t hash_moved(const loom__rows_view &from, const loom__rows_view &to,
                                               const unsigned char *row)
{
    if (open_has_string_keys(KIND, &from))
        return hash_string(string_in(from, row), to.lines.seed);
    return open_row_hash(row, from.key_bytes, to.lines.seed);
}

/* Each warp stores the keys of MOVED_LINES lines in another table, if they belong to the range. All keys are
 * different. */
__global__ void __launch_bounds__(THREADS)
    move_kernel(const __grid_constant__ loom__rows_view from, const __grid_constant__ loom__rows_view to,
                const cuda_moved_range range, unsigned long long *refused, const store_words words)
{
    __shared__ move_tile tiles[THREADS / 32];
    move_tile *tile = &tiles[threadIdx.x / 32];
    const lane_group group = lane_own_group();
    const uint32_t lane = threadIdx.x % 32, slots = open_slots(KIND), own = lane / CUDA_LANES;
    const uint64_t first = range.first_line + ((uint64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32) * MOVED_LINES;
    uint32_t count = 0, full = 0;
    for (uint32_t i = 0; i < MOVED_LINES; i++) {
        const uint16_t *tags = (const uint16_t *)(from.lines.base + (first + i) * OPEN_LINE_BYTES);
        bool holds = first + i < range.end_line && lane < slots && tags[lane < slots ? lane : 0] != 0;
        const uint32_t slot = i * slots + lane;
        uint64_t hash = 0;
        if (holds) {
            hash = hash_moved(from, to, open_row_of_number(&from, first * slots + slot).key);
            const uint32_t partition = loom__hash_partition(hash, to.lines.partitions);
            holds = partition >= range.first_partition && partition < range.end_partition;
        }
        const uint32_t holders = __ballot_sync(CUDA_FULL_MASK, holds);
        if (holds) {
            const uint32_t at = count + __popc(holders & (group.own - 1));
            tile->listed[at] = (uint8_t)slot;
            tile->hashes[at] = hash;
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
        uint64_t key = (uint64_t)(uintptr_t)row.key, value[2] = {(uint64_t)(uintptr_t)row.value, 0};
        if (open_has_string_keys(KIND, &from))
            key = (uint64_t)(uintptr_t)&tile->keys[own];
        if (open_has_string_values(KIND, &from))
            value[0] = (uint64_t)(uintptr_t)&tile->values[own];
        if (STRINGS && active && begins && lane_leads(group)) {
            if (open_has_string_keys(KIND, &from))
                tile->keys[own] = string_in(from, row.key);
            if (open_has_string_values(KIND, &from))
                tile->values[own] = string_in(from, row.value);
        }
        if (STRINGS)
            __syncwarp();
        if (active && begins) {
            walk = open_start_at(KIND, &to.lines, key, tile->hashes[item]);
            walk.staged = 1;
        }
        const open_answer answer =
            open_insert_item(KIND, SLOT_KEEP, LOOM__ADD, OPEN_UNREAD, group, &to.lines, &walk, value, active);
        begins = active && answer.outcome != OPEN_GO_ON;
        store_claimed(to, OPEN_UNREAD, &tile->claimed, words, group, walk, value[0],
                      begins && open_holds_slot(&walk, answer.outcome), OP_KEEP);
        full += begins && answer.reports && (answer.outcome == OPEN_NO_ROOM || answer.outcome == OPEN_NO_BYTES);
        item = queue.next(group, item, begins);
    }
    if (full > 0)
        atomicAdd(refused, (unsigned long long)full);
}

} // namespace

namespace
{

cudaError_t launch_write(const loom__rows_view *view, const cuda_batch *batch, cuda_op op, const cuda_finish *finish,
                         bool empty_values, cudaStream_t stream)
{
    cuda_batch own = *batch;
    own.tile = own.n <= SMALL ? (uint32_t)GROUPS : own.tile;
    const unsigned items = own.tile * (THREADS / 32);
    const bool keys = op != OP_UPDATE;
    store_words words = words_for(view, (keys ? (uintptr_t)batch->keys : 0) | (uintptr_t)batch->values, keys);
    words.empty_values = empty_values;
    auto kernel = op == OP_OVERWRITE ? write_kernel<OP_OVERWRITE>
                  : op == OP_FETCH   ? write_kernel<OP_FETCH>
                  : op == OP_COMBINE ? write_kernel<OP_COMBINE>
                  : op == OP_UPDATE  ? write_kernel<OP_UPDATE>
                  : op == OP_ERASE   ? write_kernel<OP_ERASE>
                                     : write_kernel<OP_KEEP>;
    kernel<<<(unsigned)((own.n + items - 1) / items), THREADS, 0, stream>>>(
        *view, own, finish != NULL ? *finish : cuda_finish{}, words);
    return cudaGetLastError();
}

cudaError_t launch_locate(const loom__rows_view *view, const void *keys, uint64_t n, uint64_t *slots,
                          cudaStream_t stream)
{
    const uint64_t items = THREADS / CUDA_LANES;
    locate_kernel<<<(unsigned)((n + items - 1) / items), THREADS, 0, stream>>>(*view, keys, n, slots);
    return cudaGetLastError();
}

cudaError_t launch_move(const loom__rows_view *from, const loom__rows_view *to, const cuda_moved_range &range,
                        unsigned long long *refused, cudaStream_t stream)
{
    const uint64_t lines = range.end_line - range.first_line, each = THREADS / 32 * MOVED_LINES;
    store_words words = words_for(to, from_places(from), true);
    words.ends.keys = words.ends.values = (uintptr_t)from->heap + from->heap_room;
    move_kernel<<<(unsigned)((lines + each - 1) / each), THREADS, 0, stream>>>(*from, *to, range, refused, words);
    return cudaGetLastError();
}

} // namespace
