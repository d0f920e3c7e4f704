/* Erases keys with all their values, and single pairs. */
#include "engines/chain/chain_layout.h"
#include "machines/cpu/multi/cpu_multi.h"

#include <string.h>

enum {
    CHUNK_WORDS = 2048, /* of keys: MULTI_CHUNK of 64 bytes, or 64 of 256 */
    SLICE = 4096        /* bytes of a wide value that close_gap carries from piece to piece */
};

/* Keys that are looked up or erased together. */
typedef struct chunk {
    uint64_t keys[CHUNK_WORDS]; /* as an array of key_bytes each */
    uint64_t handles[MULTI_CHUNK];
    uint64_t count;
} chunk;

static void take_key(const loom__cpu_lists *work, const loom__cpu_records *records, uint64_t row, chunk *some)
{
    memcpy((unsigned char *)some->keys + some->count++ * work->key_bytes, records->keys + row * records->key_stride,
           work->key_bytes);
}

static void find_handles(const loom__cpu_lists *work, chunk *some)
{
    loom__cpu_counts ignored = {0};
    const loom__batch look = {.keys = some->keys, .found_values = some->handles, .n = some->count};
    work->simd->find(multi_directory(work->view), &look, 0, some->count, 0, &ignored);
}

/* ---- keys ---- */

/* Erases the keys of records first .. first + count - 1. */
static void erase_chunk(loom__cpu_lists *work, const loom__cpu_records *records, uint64_t first, uint64_t count)
{
    loom__cpu_counts counts = {0};
    uint8_t status[MULTI_CHUNK];
    uint64_t pairs = 0, in_heap = 0;
    chunk some;
    some.count = 0;
    for (uint64_t i = 0; i < count; i++)
        take_key(work, records, first + i, &some);
    find_handles(work, &some);
    const loom__batch erase = {.keys = some.keys, .status = status, .n = count, .write = LOOM__WRITE_ERASE};
    work->simd->write(multi_directory(work->view), &erase, 0, count, 0, &counts);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t erased = status[i] == LOOM_OK ? list_count(some.handles[i]) : 0;
        pairs += erased;
        in_heap += list_in_heap(some.handles[i]) ? erased : 0;
        loom__cpu_lists_tell(work, records, first + i, (loom_status)status[i]);
    }
    loom__cpu_lists_add(&work->keys, 0 - counts.ok);
    loom__cpu_lists_add(&work->pairs, 0 - pairs);
    loom__cpu_lists_add(&work->in_heap, 0 - in_heap);
    loom__cpu_add_counts(&work->counts, &counts);
}

static void erase_keys_of_part(void *argument, uint64_t part)
{
    loom__cpu_lists *work = argument;
    const loom__cpu_records records = loom__cpu_lists_part(work, part);
    const uint64_t fitting = CHUNK_WORDS * sizeof(uint64_t) / work->key_bytes;
    const uint64_t most = fitting < MULTI_CHUNK ? fitting : MULTI_CHUNK;
    for (uint64_t first = 0; first < records.n; first += most)
        erase_chunk(work, &records, first, records.n - first < most ? records.n - first : most);
}

/* Without memory for a split the calling thread erases all keys. */
loom_status loom__cpu_multi_erase(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    loom__cpu_lists work;
    (void)loom__cpu_lists_begin(machine, any_view, batch, MULTI_RESERVES_NOT, &work);
    loom__cpu_lists_run(&work, erase_keys_of_part);
    loom__cpu_lists_count(&work);
    loom__cpu_lists_end(&work);
    return LOOM_OK;
}

/* ---- pairs ---- */

/* A value that is looked for. */
typedef struct sought {
    uint64_t number; /* of 4 or 8 bytes */
    const unsigned char *at;
} sought;

/* The number of the first value in the piece that is equal to `value`; the piece's length if there is none. */
static uint64_t find_in_piece(const loom__multi_view *view, const loom__list_piece *piece, const sought *value)
{
    const unsigned char *values = multi_value_at(view, piece->place);
    const uint64_t number = value->number;
    uint64_t i = 0;
    if (view->value_bytes == 4)
        while (i < piece->count && ((const uint32_t *)(const void *)values)[i] != number)
            i++;
    else if (view->value_bytes == 8)
        while (i < piece->count && ((const uint64_t *)(const void *)values)[i] != number)
            i++;
    else
        while (i < piece->count && memcmp(values + i * view->value_bytes, value->at, view->value_bytes) != 0)
            i++;
    return i;
}

/* The number of the first value in the list that is equal to `value`; the list's length if there is none. */
static uint64_t find_value(const loom__multi_view *view, uint64_t handle, const sought *value)
{
    uint64_t found = list_count(handle);
    if (!list_in_heap(handle))
        return found > 0 && list_one_value(handle) == value->number ? 0 : found;
    loom__list_piece piece = list_newest_piece(view->heap, view->value_bytes, handle);
    for (;; piece = list_older_piece(view->heap, view->value_bytes, &piece)) { /* ends at the oldest one */
        const uint64_t at = find_in_piece(view, &piece, value);
        if (at < piece.count)
            found = piece.before + at;
        if (!piece.linked)
            return found;
    }
}

/* Moves up `width` bytes of each value behind `at`, those of newer pieces into older ones. `from` is where these bytes
 * lie in a value. */
static void close_slice(const loom__multi_view *view, loom__list_piece piece, uint64_t at, uint64_t from,
                        uint64_t width)
{
    const uint64_t bytes = view->value_bytes;
    unsigned char carried[2][SLICE]; /* of a newer piece's first value, and of this one's */
    for (int turn = 0, is_newest = 1;; turn ^= 1, is_newest = 0) { /* ends at the piece that has value `at` */
        unsigned char *values = multi_value_at(view, piece.place) + from;
        const uint64_t gap = at > piece.before ? at - piece.before : 0, last = piece.count - 1;
        memcpy(carried[turn], values, width);
        if (width == bytes)
            memmove(values + gap * bytes, values + (gap + 1) * bytes, (last - gap) * bytes);
        else
            for (uint64_t i = gap; i < last; i++)
                memcpy(values + i * bytes, values + (i + 1) * bytes, width);
        if (!is_newest)
            memcpy(values + last * bytes, carried[turn ^ 1], width);
        if (at >= piece.before)
            return;
        piece = list_older_piece(view->heap, bytes, &piece);
    }
}

/* Closes the gap that value `at` of a list in the heap leaves. Returns the list's handle. A newest piece without values
 * leaves the chain. */
static uint64_t close_gap(const loom__multi_view *view, uint64_t handle, uint64_t at)
{
    const uint64_t bytes = view->value_bytes;
    loom__list_piece piece = list_newest_piece(view->heap, bytes, handle);
    const loom__list_piece newest = piece;
    for (uint64_t from = 0; from < bytes; from += SLICE)
        close_slice(view, newest, at, from, bytes - from < SLICE ? bytes - from : SLICE);
    if (newest.count > 1 || !newest.linked)
        return list_with_count(handle, list_count(handle) - 1);
    piece = list_older_piece(view->heap, bytes, &newest);
    return chain_handle_of_full(&piece);
}

/* Erases value `at` of the key's list. */
static void erase_value(loom__cpu_lists *work, chunk *one, uint64_t at)
{
    loom__batch write = {.keys = one->keys, .values = one->handles, .n = 1, .write = LOOM__WRITE_UPDATE};
    loom__cpu_counts ignored = {0};
    if (list_in_heap(one->handles[0])) {
        one->handles[0] = close_gap(work->view, one->handles[0], at);
        loom__cpu_lists_add(&work->in_heap, UINT64_MAX);
    } else {
        one->handles[0] = 0;
    }
    if (list_count(one->handles[0]) == 0) {
        write.write = LOOM__WRITE_ERASE;
        loom__cpu_lists_add(&work->keys, UINT64_MAX);
    }
    work->simd->write(multi_directory(work->view), &write, 0, 1, 0, &ignored);
}

static void erase_pairs_of_part(void *argument, uint64_t part)
{
    loom__cpu_lists *work = argument;
    loom__cpu_counts counts = {0};
    const loom__cpu_records records = loom__cpu_lists_part(work, part);
    chunk one;
    for (uint64_t row = 0; row < records.n; row++) {
        one.count = 0;
        take_key(work, &records, row, &one);
        find_handles(work, &one);
        const sought value = {loom__cpu_lists_value(work, &records, row), loom__cpu_lists_value_at(&records, row)};
        const uint64_t at = find_value(work->view, one.handles[0], &value);
        const int is_there = at < list_count(one.handles[0]);
        if (is_there)
            erase_value(work, &one, at);
        counts.ok += (uint64_t)is_there;
        counts.not_found += (uint64_t)!is_there;
        loom__cpu_lists_tell(work, &records, row, is_there ? LOOM_OK : LOOM_NOT_FOUND);
    }
    loom__cpu_lists_add(&work->pairs, 0 - counts.ok);
    loom__cpu_add_counts(&work->counts, &counts);
}

loom_status loom__cpu_multi_erase_pairs(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    loom__cpu_lists work;
    const loom_status status = loom__cpu_lists_begin(machine, any_view, batch, MULTI_RESERVES_NOT, &work);
    if (status != LOOM_OK)
        return status;
    loom__cpu_lists_run(&work, erase_pairs_of_part);
    loom__cpu_lists_count(&work);
    loom__cpu_lists_end(&work);
    return LOOM_OK;
}
