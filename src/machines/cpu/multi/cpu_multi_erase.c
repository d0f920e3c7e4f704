/* Erases keys with all their values, and single pairs. */
#include "machines/cpu/multi/cpu_multi.h"

#include <string.h>

/* Keys that are looked up or erased together. */
typedef struct chunk {
    uint64_t keys[MULTI_CHUNK]; /* as an array of key_bytes each */
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
    work->simd->find(&work->view->directory, &look, 0, some->count, 0, &ignored);
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
    work->simd->write(&work->view->directory, &erase, 0, count, 0, &counts);
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
    for (uint64_t first = 0; first < records.n; first += MULTI_CHUNK)
        erase_chunk(work, &records, first, records.n - first < MULTI_CHUNK ? records.n - first : MULTI_CHUNK);
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

/* The number of the first value in the list that is equal to `value`; the list's length if there is none. */
static uint64_t find_value(const loom__multi_view *view, uint64_t handle, uint64_t value)
{
    const uint64_t count = list_count(handle);
    uint64_t i = 0;
    if (!list_in_heap(handle))
        return count > 0 && list_one_value(handle) == value ? 0 : count;
    const void *values = multi_value_at(view, list_first(handle));
    if (view->value_bytes == 4)
        while (i < count && ((const uint32_t *)values)[i] != value)
            i++;
    else
        while (i < count && ((const uint64_t *)values)[i] != value)
            i++;
    return i;
}

/* Erases value `at` of the key's list. */
static void erase_value(loom__cpu_lists *work, chunk *one, uint64_t at)
{
    const loom__multi_view *view = work->view;
    const uint64_t bytes = view->value_bytes, count = list_count(one->handles[0]) - 1;
    loom__batch write = {.keys = one->keys, .values = one->handles, .n = 1, .write = LOOM__WRITE_UPDATE};
    loom__cpu_counts ignored = {0};
    if (list_in_heap(one->handles[0])) {
        unsigned char *hole = multi_value_at(view, list_first(one->handles[0]) + at);
        memmove(hole, hole + bytes, (count - at) * bytes);
        loom__cpu_lists_add(&work->in_heap, UINT64_MAX);
    }
    one->handles[0] = list_with_count(one->handles[0], count);
    if (count == 0) {
        write.write = LOOM__WRITE_ERASE;
        loom__cpu_lists_add(&work->keys, UINT64_MAX);
    }
    work->simd->write(&view->directory, &write, 0, 1, 0, &ignored);
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
        const uint64_t at = find_value(work->view, one.handles[0], loom__cpu_lists_value(work, &records, row));
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
