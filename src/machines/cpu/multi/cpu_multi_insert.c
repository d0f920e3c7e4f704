/* Inserts pairs into lists; also builds. The pairs of a part (cpu_multi.h) take three steps:
 *   1. Reserve. Each pair reserves a place in its key's list: the count of the handle is raised. The pair remembers the
 *      old handle and where the directory has the new one. A new key is stored in the directory.
 *   2. Settle. The pair that came first to a key decides for the list: its values stay where they are if there is room
 *      behind them, or they move to the end of the heap. A chain gets a bucket there for the values that have no room.
 *      The handle's count becomes what there is room for.
 *   3. Store. Each pair whose place is below the count is written to its place. The others are refused.
 * If the heap is at its end, and the caller can make it larger, all reservations are taken back, and the caller learns
 * how much room a packed heap needs. Values that were stored or moved by then are behind the counts that are restored,
 * where nobody reads them.
 *
 * Memory traffic for a pair of p bytes with a value of v bytes: 3 p to split, p + 16 to reserve, p + 16 + 2 v to store.
 * The partition of the directory stays in the L2 cache. */
#include "engines/chain/chain_plan.h"
#include "engines/multi/multi_plan.h"
#include "machines/cpu/multi/cpu_multi.h"

#include <string.h>

enum { STORE_AHEAD = 16 /* pairs between the prefetch of a place and the store */, MULTI_MOST_KEY_WORDS = 256 / 8 };

/* ---- 1. reserve ---- */

static void reserve(loom__cpu_lists *work, const loom__cpu_records *records, loom__cpu_reserved *reserved)
{
    loom__cpu_counts counts = {0};
    const loom__batch batch = {.found_values = reserved, .n = records->n, .write = LOOM__WRITE_RESERVE};
    work->simd->insert(multi_directory(work->view), &batch, records, NULL, &counts);
    loom__cpu_lists_add(&work->keys, counts.ok);
}

/* ---- 2. settle ---- */

typedef struct list_plan {
    uint64_t row; /* the pair that came first */
    loom__list_plan list;
} list_plan;

static int is_chain(const loom__cpu_lists *work)
{
    return multi_is_chain(work->view);
}

/* A build leaves no room behind lists. */
static loom__list_plan plan_list(const loom__cpu_lists *work, uint64_t old, uint64_t wanted)
{
    const int tight = work->batch->values_needed == NULL || work->batch->replace;
    return list_plan_for(is_chain(work), work->view, old, wanted, tight);
}

/* Takes a place for a list. If there is none, and no larger heap can be had, the list gets what is left of the heap, if
 * that is more than it has. */
static uint64_t take_place(loom__cpu_lists *work, loom__list_plan *plan)
{
    const loom__list_kind kind = multi_place_kind(plan);
    uint64_t place = loom__cpu_multi_take(work->view, kind, plan->link, plan->moves, &plan->moves);
    if (place != MULTI_NO_PLACE)
        return place;
    loom__cpu_lists_add(&work->short_of_room, 1);
    if (work->batch->values_needed != NULL && !work->batch->replace)
        return MULTI_NO_PLACE;
    uint64_t values = plan->wanted - plan->before;
    place = loom__cpu_multi_take(work->view, kind, plan->link, multi_least_place(plan), &values);
    if (place != MULTI_NO_PLACE)
        multi_cut_plan(plan, values);
    return place;
}

/* Moves a list to its new place, or gives a chain the bucket there. Returns its handle. */
static uint64_t move_list(const loom__multi_view *view, loom__list_kind kind, uint64_t old, const loom__list_plan *plan,
                          uint64_t place)
{
    const uint64_t bytes = view->value_bytes, used = plan->wanted - plan->before;
    const uint32_t one = list_one_value(old);
    unsigned char *to = multi_value_at(view, place);
    if (plan->link > 0) {
        memset(to - plan->link * bytes, 0, plan->link * bytes - LIST_LINK_BYTES); /* it goes into files */
        list_link_put(view->heap, bytes, place, chain_link_of(old, plan));
    } else if (list_in_heap(old)) {
        memcpy(to, multi_value_at(view, list_first(old)), plan->stored * bytes);
    } else if (plan->stored > 0) {
        memcpy(to, &one, sizeof one);
    }
    memset(to + used * bytes, 0, (plan->moves - used) * bytes);
    return multi_placed_list(plan, kind, place);
}

/* Erases a key that has got no value. Its slot then holds a handle of zero. */
static void erase_key(loom__cpu_lists *work, const loom__cpu_records *records, uint64_t row)
{
    loom__cpu_counts ignored = {0};
    uint64_t key[MULTI_MOST_KEY_WORDS] = {0}; /* aligned, which records are not */
    const loom__batch erase = {.keys = key, .n = 1, .write = LOOM__WRITE_ERASE};
    memcpy(key, records->keys + row * records->key_stride, work->key_bytes);
    work->simd->write(multi_directory(work->view), &erase, 0, 1, 0, &ignored);
    loom__cpu_lists_add(&work->keys, UINT64_MAX);
}

/* Settles some lists. Short ones that move take their places together. */
static void settle_some(loom__cpu_lists *work, const loom__cpu_records *records, const loom__cpu_reserved *reserved,
                        list_plan *plans, uint32_t count)
{
    const loom__multi_view *view = work->view;
    uint64_t together = 0, needed = 0, in_heap = 0;
    for (uint32_t i = 0; i < count; i++) {
        const loom__list_plan *plan = &plans[i].list;
        together += multi_place_kind(plan) == LIST_SHORT ? plan->link + plan->moves : 0;
        needed += list_needed_when_packed(is_chain(work), view, reserved[plans[i].row].old, plan);
    }
    uint64_t shared = together > 0 ? loom__cpu_multi_take(view, LIST_SHORT, 0, together, &together) : MULTI_NO_PLACE;
    for (uint32_t i = 0; i < count; i++) {
        loom__list_plan *plan = &plans[i].list;
        const uint64_t row = plans[i].row;
        const loom__cpu_reserved *first = &reserved[row];
        const loom__list_kind kind = multi_place_kind(plan);
        uint64_t place = MULTI_NO_PLACE;
        if (plan->moves > 0 && kind == LIST_SHORT && shared != MULTI_NO_PLACE) {
            place = shared + plan->link;
            shared = place + plan->moves;
        } else if (plan->moves > 0) {
            place = take_place(work, plan);
        }
        *first->handle = place != MULTI_NO_PLACE ? move_list(view, kind, first->old, plan, place)
                                                 : list_kept(is_chain(work), view, first->old, plan,
                                                             loom__cpu_lists_value(work, records, row));
        in_heap += list_in_heap(*first->handle) ? list_count(*first->handle) : 0;
        in_heap -= list_in_heap(first->old) ? plan->stored : 0;
        if (*first->handle == 0)
            erase_key(work, records, row);
    }
    loom__cpu_lists_add(&work->in_heap, in_heap);
    loom__cpu_lists_add(&work->needed, needed);
}

static int came_first(const loom__cpu_reserved *reserved)
{
    return reserved->old != LIST_REFUSED && !list_is_touched(reserved->old);
}

static void settle(loom__cpu_lists *work, const loom__cpu_records *records, const loom__cpu_reserved *reserved)
{
    list_plan plans[MULTI_CHUNK];
    uint32_t count = 0;
    for (uint64_t row = 0; row < records->n; row++) {
        if (!came_first(&reserved[row]))
            continue;
        plans[count++] = (list_plan){row, plan_list(work, reserved[row].old, list_count(*reserved[row].handle))};
        if (count == MULTI_CHUNK) {
            settle_some(work, records, reserved, plans, count);
            count = 0;
        }
    }
    settle_some(work, records, reserved, plans, count);
}

/* ---- 3. store ---- */

/* Whether the pair has got a place. */
static inline int has_place(const loom__cpu_reserved *reserved)
{
    return reserved->handle != NULL && list_count(reserved->old) < list_count(*reserved->handle);
}

/* Where the pair's place is, if it has one in the heap. A call gives a chain one bucket at most, so the place is in the
 * newest piece or in the one before. */
LOOM_LANE uint64_t place_of(int chain, uint64_t bytes, const unsigned char *heap, const loom__cpu_reserved *reserved)
{
    const uint64_t handle = *reserved->handle, number = list_count(reserved->old);
    return chain ? list_place_of(heap, bytes, handle, number) : list_first(handle) + number;
}

/* A line near that place, without reading a link. */
LOOM_LANE uint64_t near_place_of(int chain, const loom__cpu_reserved *reserved)
{
    return list_first(*reserved->handle) + (chain ? 0 : list_count(reserved->old));
}

/* `bytes` of a value, `tells`, whether there are statuses, and `chain` are literals. */
LOOM_LANE void store_values(uint64_t bytes, int tells, int chain, loom__cpu_lists *work, const loom__cpu_records *given,
                            const loom__cpu_reserved *reserved)
{
    const loom__cpu_records records = *given;
    unsigned char *const heap = work->view->heap;
    uint64_t ok = 0, keys_refused = 0;
    for (uint64_t row = 0; row < records.n; row++) {
        if (row + STORE_AHEAD < records.n && reserved[row + STORE_AHEAD].handle != NULL)
            __builtin_prefetch(heap + near_place_of(chain, &reserved[row + STORE_AHEAD]) * bytes, 1);
        const int stored = has_place(&reserved[row]);
        if (stored && list_in_heap(*reserved[row].handle))
            memcpy(heap + place_of(chain, bytes, heap, &reserved[row]) * bytes,
                   records.values + row * records.value_stride, bytes);
        ok += (uint64_t)stored;
        keys_refused += reserved[row].handle == NULL;
        if (tells)
            loom__cpu_lists_tell(work, &records, row, stored ? LOOM_OK : LOOM_FULL);
    }
    const loom__cpu_counts counts = {.ok = ok, .full = records.n - ok};
    loom__cpu_lists_add(&work->pairs, ok);
    loom__cpu_lists_add(&work->keys_refused, keys_refused);
    loom__cpu_add_counts(&work->counts, &counts);
}

LOOM_LANE void store_of(int chain, loom__cpu_lists *work, const loom__cpu_records *records,
                        const loom__cpu_reserved *reserved)
{
    const int tells = work->batch->status != NULL;
    if (work->view->value_bytes == 4 && tells)
        store_values(4, 1, chain, work, records, reserved);
    else if (work->view->value_bytes == 4)
        store_values(4, 0, chain, work, records, reserved);
    else if (work->view->value_bytes == 8 && tells)
        store_values(8, 1, chain, work, records, reserved);
    else if (work->view->value_bytes == 8)
        store_values(8, 0, chain, work, records, reserved);
    else
        store_values(work->view->value_bytes, tells, chain, work, records, reserved);
}

static void store(loom__cpu_lists *work, const loom__cpu_records *records, const loom__cpu_reserved *reserved)
{
    if (is_chain(work))
        store_of(1, work, records, reserved);
    else
        store_of(0, work, records, reserved);
}

/* ---- parts ---- */

static void insert_part(void *argument, uint64_t part)
{
    loom__cpu_lists *work = argument;
    const loom__cpu_records records = loom__cpu_lists_part(work, part);
    loom__cpu_reserved *reserved = loom__cpu_lists_enter(work, part);
    if (work->splits && work->batch->replace && multi_has_rows(work->view))
        loom__cpu_rows_clear_partition(multi_directory(work->view), (uint32_t)part);
    else if (work->splits && work->batch->replace)
        loom__cpu_open_clear_partition(&work->view->directory, (uint32_t)part);
    reserve(work, &records, reserved);
    settle(work, &records, reserved);
    store(work, &records, reserved);
    loom__cpu_lists_leave(work, reserved);
}

/* Takes all reservations back. */
static void cancel_part(void *argument, uint64_t part)
{
    loom__cpu_lists *work = argument;
    const loom__cpu_records records = loom__cpu_lists_part(work, part);
    const loom__cpu_reserved *reserved = loom__cpu_lists_enter(work, part); /* as they were remembered */
    for (uint64_t row = 0; row < records.n; row++) {
        if (!came_first(&reserved[row]) || *reserved[row].handle == 0) /* zero: the key was erased already */
            continue;
        *reserved[row].handle = reserved[row].old;
        if (reserved[row].old == 0)
            erase_key(work, &records, row);
    }
}

loom_status loom__cpu_multi_insert(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__multi_view *view = any_view;
    loom__cpu_lists work;
    const uint64_t needed = batch->replace && batch->n > view->room ? batch->n : 0;
    if (batch->values_needed != NULL)
        *batch->values_needed = needed;
    if (batch->values_needed != NULL && needed > 0)
        return LOOM_OK;
    const int may_be_cancelled = batch->values_needed != NULL && !batch->replace;
    const loom_status status =
        loom__cpu_lists_begin(machine, view, batch, may_be_cancelled ? MULTI_REMEMBERS : MULTI_RESERVES, &work);
    if (status != LOOM_OK)
        return status;
    if (batch->replace && !work.splits)
        loom__cpu_multi_kernels.clear(machine, view, batch->stream);
    if (batch->replace) {
        *view->lists = (loom__multi_totals){0};
        view->directory.totals->size = 0;
    }
    const uint64_t used = view->lists->used;
    loom__cpu_lists_run(&work, insert_part);
    if (may_be_cancelled && work.short_of_room > 0) {
        loom__cpu_lists_run(&work, cancel_part);
        view->lists->used = used; /* all places that the call took lie behind it */
        *batch->values_needed = view->lists->in_heap + work.needed;
    } else {
        loom__cpu_lists_count(&work);
        if (batch->keys_refused != NULL)
            *batch->keys_refused = work.keys_refused;
    }
    loom__cpu_lists_end(&work);
    return LOOM_OK;
}

uint64_t loom__cpu_multi_bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags,
                                    int with_status)
{
    const loom__multi_view *view = any_view;
    const uint32_t partitions = view->directory.partitions;
    const loom__cpu_bulk bulk = {.key_bytes = multi_key_bytes(view), .value_bytes = (uint32_t)view->value_bytes};
    (void)flags;
    return n * sizeof(loom__cpu_reserved) +
           (loom__cpu_is_small(partitions, n) ? 0 : loom__cpu_bulk_bytes(machine, partitions, &bulk, n, with_status));
}
