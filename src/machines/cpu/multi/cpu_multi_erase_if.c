/* Erases all pairs whose values lie in a range. A thread takes a partition of the directory at a time and goes over the
 * lists of its keys. The values that stay move up within their list, in order. Keys without values are erased by a
 * second pass over the directory. Nothing is allocated, and no list is read more than twice. */
#include "core/error.h"
#include "engines/chain/chain_layout.h"
#include "machines/cpu/multi/cpu_multi.h"

typedef struct erase_work {
    const loom__multi_view *view;
    const loom__cpu_map_simd *simd; /* for the directory */
    loom__table_slots slots;
    loom__value_range range;
    uint64_t erased, in_heap, emptied; /* pairs, those of them in the heap, and lists; all threads add to it */
} erase_work;

LOOM_LANE uint64_t load(uint64_t bytes, const loom__multi_view *view, uint64_t place)
{
    return loom__slot_number(multi_value_at(view, place), (uint32_t)bytes);
}

LOOM_LANE void store(uint64_t bytes, const loom__multi_view *view, uint64_t place, uint64_t value)
{
    loom__slot_put(multi_value_at(view, place), (uint32_t)bytes, value);
}

/* How many of the piece's values stay in front of the first that goes. */
LOOM_LANE uint64_t count_first(uint64_t bytes, const erase_work *work, uint64_t place, uint64_t count)
{
    uint64_t i = 0;
    while (i < count && !loom__value_in_range(&work->range, load(bytes, work->view, place + i)))
        i++;
    return i;
}

/* ---- lists in one piece ---- */

/* Returns how many values stay. Values in front of the first that goes are only read. */
LOOM_LANE uint64_t keep_in_piece(uint64_t bytes, const erase_work *work, uint64_t place, uint64_t count)
{
    uint64_t kept = count_first(bytes, work, place, count);
    for (uint64_t i = kept; i < count; i++) {
        const uint64_t value = load(bytes, work->view, place + i);
        store(bytes, work->view, place + kept, value);
        kept += !loom__value_in_range(&work->range, value);
    }
    return kept;
}

/* ---- chains ----
 *
 * Values move to older pieces, but links lead from newer pieces to older ones. So the links are turned first: each
 * leads to the next newer piece. Then one walk reads values from the oldest piece on. A second walk follows it, stores
 * the values that stay, and turns the links back. It enters a piece only when it stores there, so the first walk has
 * entered the piece before and needs its link no more. */

typedef struct walk {
    uint64_t place, before, end; /* of the piece: its first value, values before it, and these with its own */
    uint64_t newer, older;       /* the neighbours' places */
    int has_newer, has_older, older_has_older;
} walk;

static void put_link(const loom__multi_view *view, uint64_t place, uint64_t link)
{
    list_link_put(view->heap, view->value_bytes, place, link);
}

static uint64_t link_at(const loom__multi_view *view, uint64_t place)
{
    return list_link_at(view->heap, view->value_bytes, place);
}

/* Turns the links of a chain. Returns a walk at the oldest piece, which has no link. */
static walk turn_links(const loom__multi_view *view, uint64_t handle)
{
    loom__list_piece piece = list_newest_piece(view->heap, view->value_bytes, handle);
    uint64_t newer = 0;
    int has_newer = 0;
    while (piece.linked) { /* ends at the oldest piece */
        const loom__list_piece older = list_older_piece(view->heap, view->value_bytes, &piece);
        put_link(view, piece.place, list_link_make(has_newer, newer, piece.before));
        newer = piece.place;
        has_newer = 1;
        piece = older;
    }
    return (walk){.place = piece.place, .end = piece.count, .newer = newer, .has_newer = has_newer};
}

/* Goes to the next newer piece, whose link is turned. `all`: values of the chain. */
static void go_on(const loom__multi_view *view, walk *at, uint64_t all)
{
    const uint64_t link = link_at(view, at->newer);
    at->older = at->place;
    at->older_has_older = at->has_older;
    at->place = at->newer;
    at->before = list_link_before(link);
    at->newer = list_link_place(link);
    at->has_newer = list_link_linked(link);
    at->has_older = 1;
    at->end = at->has_newer ? list_link_before(link_at(view, at->newer)) : all;
}

/* Whether a value of the chain goes. */
LOOM_LANE int chain_changes(uint64_t bytes, const erase_work *work, uint64_t handle)
{
    const loom__multi_view *view = work->view;
    loom__list_piece piece = list_newest_piece(view->heap, bytes, handle);
    for (;; piece = list_older_piece(view->heap, bytes, &piece)) { /* ends at the oldest one */
        if (count_first(bytes, work, piece.place, piece.count) < piece.count)
            return 1;
        if (!piece.linked)
            return 0;
    }
}

/* Returns the chain's handle; one that counts no values if all go. A piece that keeps no value leaves the chain. */
LOOM_LANE uint64_t keep_in_chain(uint64_t bytes, const erase_work *work, uint64_t handle)
{
    const loom__multi_view *view = work->view;
    const uint64_t all = list_count(handle);
    if (!chain_changes(bytes, work, handle))
        return handle;
    walk from = turn_links(view, handle), to = from;
    uint64_t kept = 0;
    for (;; go_on(view, &from, all)) { /* ends at the newest piece */
        for (uint64_t i = from.before; i < from.end; i++) {
            const uint64_t value = load(bytes, view, from.place + i - from.before);
            if (loom__value_in_range(&work->range, value))
                continue;
            if (kept == to.end) {
                go_on(view, &to, all);
                put_link(view, to.place, list_link_make(to.older_has_older, to.older, to.before));
            }
            store(bytes, view, to.place + kept++ - to.before, value);
        }
        if (!from.has_newer)
            break;
    }
    if (kept == 0)
        return 0;
    if (to.place == list_first(handle))
        return list_with_count(handle, kept);
    const loom__list_piece newest = {to.place, to.before, kept - to.before, to.has_older};
    return chain_handle_of_full(&newest);
}

/* ---- the table ---- */

LOOM_LANE uint64_t keep_in_list(uint64_t bytes, const erase_work *work, uint64_t handle)
{
    if (!list_in_heap(handle))
        return loom__value_in_range(&work->range, list_one_value(handle)) ? 0 : handle;
    if (list_is_linked(handle))
        return keep_in_chain(bytes, work, handle);
    const uint64_t kept = keep_in_piece(bytes, work, list_first(handle), list_count(handle));
    return kept > 0 ? list_with_count(handle, kept) : 0;
}

LOOM_LANE void erase_in_partition(uint64_t bytes, erase_work *work, uint32_t partition)
{
    const loom__table_slots *slots = &work->slots;
    uint64_t erased = 0, in_heap = 0, emptied = 0, key, handle;
    for (uint32_t bucket = 0; bucket < slots->buckets; bucket++)
        for (uint32_t slot = 0; slot < slots->slots; slot++) {
            if (!loom__slot_holds(slots, partition, bucket, slot, &key, &handle))
                continue;
            const uint64_t kept = keep_in_list(bytes, work, handle), gone = list_count(handle) - list_count(kept);
            if (gone == 0)
                continue;
            loom__slot_put(loom__slot_value_at(slots, partition, bucket, slot), sizeof kept, kept);
            erased += gone;
            in_heap += list_in_heap(handle) ? gone : 0;
            emptied += kept == 0;
        }
    loom__cpu_lists_add(&work->erased, erased);
    loom__cpu_lists_add(&work->in_heap, in_heap);
    loom__cpu_lists_add(&work->emptied, emptied);
}

static void erase_task(void *argument, uint64_t partition)
{
    erase_work *work = argument;
    if (work->view->value_bytes == 4)
        erase_in_partition(4, work, (uint32_t)partition);
    else
        erase_in_partition(8, work, (uint32_t)partition);
}

/* Erases the keys without values of a partition whose keys lie in rows. */
static void erase_rows_task(void *argument, uint64_t partition)
{
    const erase_work *work = argument;
    const loom__table_slots *slots = &work->slots;
    uint64_t tag, handle;
    for (uint32_t bucket = 0; bucket < slots->buckets; bucket++)
        for (uint32_t slot = 0; slot < slots->slots; slot++) {
            if (!loom__slot_holds(slots, (uint32_t)partition, bucket, slot, &tag, &handle) || handle != 0)
                continue;
            loom__cpu_counts ignored = {0};
            const loom__batch erase = {.keys = loom__slot_row_key(slots, (uint32_t)partition, bucket, slot),
                                       .n = 1,
                                       .write = LOOM__WRITE_ERASE}; /* the row stays as it is */
            work->simd->write(multi_directory(work->view), &erase, 0, 1, 0, &ignored);
        }
}

loom_status loom__cpu_multi_erase_if(loom__machine *machine, const void *any_view, const loom__value_range *range,
                                     loom_result *result, loom_stream stream)
{
    static const loom__value_range no_list = {.sign = 63}; /* a handle of 0 */
    const loom__multi_view *view = any_view;
    const uint64_t pairs = view->lists->pairs;
    erase_work work = {.view = view,
                       .simd = loom__cpu_directory_simd(machine, view),
                       .slots = multi_table_slots(view),
                       .range = *range};
    loom_result ignored;
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view->directory.partitions, erase_task, &work);
    view->lists->pairs -= work.erased;
    view->lists->in_heap -= work.in_heap;
    if (work.emptied > 0 && multi_has_rows(view)) {
        loom__pool_run(((loom__cpu_machine_state *)machine)->pool, view->directory.partitions, erase_rows_task, &work);
        view->directory.totals->size -= work.emptied;
    } else if (work.emptied > 0) {
        RETURN_IF_FAILED(loom__cpu_open_kernels.erase_if(machine, &view->directory, &no_list, &ignored, stream));
    }
    const loom__cpu_counts counts = {.ok = work.erased, .exists = pairs - work.erased};
    loom__cpu_write_result(result, pairs, &counts);
    return LOOM_OK;
}
