#include "core/error.h"
#include "core/memory.h"

#include "machines/cpu/multi/cpu_multi.h"
#include <sched.h>

void loom__cpu_lists_add(uint64_t *total, uint64_t own)
{
    __atomic_fetch_add(total, own, __ATOMIC_RELAXED);
}

/* ---- memory for reservations ---- */

/* The records of the largest part. */
static uint64_t largest_part(const loom__cpu_lists *work)
{
    uint64_t largest = 0;
    for (uint32_t part = 0; part < work->view->directory.partitions; part++) {
        const uint64_t records = work->bulk.split.region[part + 1] - work->bulk.split.region[part];
        largest = records > largest ? records : largest;
    }
    return largest;
}

/* If all parts must remember their reservations, there is room for n of them. Otherwise each thread has room for those
 * of one part, in memory that stays in its cache, unless that would be more. */
static void choose_room(loom__cpu_lists *work, int remembers)
{
    const uint64_t threads = work->cpu->threads < MULTI_MOST_THREADS ? work->cpu->threads : MULTI_MOST_THREADS;
    work->room_records = work->batch->n;
    if (!work->splits || remembers)
        return;
    const uint64_t largest = largest_part(work);
    if (largest * threads < work->batch->n) {
        work->rooms = threads;
        work->room_records = largest;
    }
}

static uint64_t reserved_bytes(const loom__cpu_lists *work)
{
    return (work->rooms > 0 ? work->rooms : 1) * work->room_records * sizeof *work->reserved;
}

/* There is a room for each thread that runs parts of the call, up to MULTI_MOST_THREADS. Further threads wait until
 * another one has ended its part. */
loom__cpu_reserved *loom__cpu_lists_enter(loom__cpu_lists *work, uint64_t part)
{
    if (work->rooms == 0)
        return work->splits ? work->reserved + work->bulk.split.region[part] : work->reserved;
    for (;;) {
        const uint64_t taken = __atomic_load_n(&work->rooms_taken, __ATOMIC_RELAXED);
        for (uint64_t room = 0; room < work->rooms; room++) {
            const uint64_t bit = (uint64_t)1 << room;
            if (!(taken & bit) && !(__atomic_fetch_or(&work->rooms_taken, bit, __ATOMIC_ACQUIRE) & bit))
                return work->reserved + room * work->room_records;
        }
        sched_yield();
    }
}

void loom__cpu_lists_leave(loom__cpu_lists *work, const loom__cpu_reserved *reserved)
{
    if (work->rooms > 0)
        __atomic_fetch_and(&work->rooms_taken,
                           ~((uint64_t)1 << (uint64_t)(reserved - work->reserved) / work->room_records),
                           __ATOMIC_RELEASE);
}

/* ---- begin and end ---- */

static loom_status split(loom__machine *machine, loom__cpu_lists *work)
{
    const loom__open_view *directory = &work->view->directory;
    const loom__batch *batch = work->batch;
    if (loom__cpu_is_small(directory->partitions, batch->n))
        return LOOM_OK;
    RETURN_IF_FAILED(
        loom__cpu_bulk_begin(machine, directory->partitions, directory->seed, batch->status != NULL, &work->bulk));
    work->splits = 1;
    loom__batch_goes(batch, LOOM_ROUTE_BY_PARTITION);
    return LOOM_OK;
}

loom_status loom__cpu_lists_begin(loom__machine *machine, const void *any_view, const loom__batch *batch,
                                  loom__cpu_reserves reserves, loom__cpu_lists *work)
{
    const loom__multi_view *view = any_view;
    *work = (loom__cpu_lists){.cpu = (loom__cpu_machine_state *)machine, .view = view, .batch = batch};
    work->simd = loom__cpu_directory_simd(machine, view);
    work->key_bytes = multi_key_bytes(view);
    work->bulk = (loom__cpu_bulk){.batch = batch,
                                  .key_bytes = work->key_bytes,
                                  .value_bytes = batch->values != NULL ? (uint32_t)view->value_bytes : 0};
    RETURN_IF_FAILED(split(machine, work));
    if (reserves == MULTI_RESERVES_NOT || batch->n == 0)
        return LOOM_OK;
    choose_room(work, reserves == MULTI_REMEMBERS);
    const uint64_t split_bytes = work->splits ? work->bulk.bytes : 0, bytes = reserved_bytes(work);
    work->reserved_is_lent = batch->workspace != NULL && batch->workspace_bytes >= split_bytes + bytes;
    work->reserved = work->reserved_is_lent
                         ? (loom__cpu_reserved *)(void *)((unsigned char *)batch->workspace + split_bytes)
                         : loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, NULL);
    if (work->reserved != NULL)
        return LOOM_OK;
    loom__cpu_lists_end(work);
    return LOOM_OUT_OF_MEMORY;
}

void loom__cpu_lists_end(loom__cpu_lists *work)
{
    loom__machine *machine = &work->cpu->base;
    if (work->splits)
        loom__cpu_bulk_end(machine, &work->bulk);
    if (!work->reserved_is_lent)
        loom__release(&machine->allocator, work->reserved, reserved_bytes(work), LOOM_MEMORY_TEMPORARY, NULL);
    work->reserved = NULL;
    work->splits = 0;
}

void loom__cpu_lists_count(const loom__cpu_lists *work)
{
    const loom__multi_view *view = work->view;
    view->directory.totals->size += work->keys;
    view->lists->pairs += work->pairs;
    view->lists->in_heap += work->in_heap;
    loom__cpu_write_result(work->batch->result, work->batch->n, &work->counts);
}

void loom__cpu_lists_run(loom__cpu_lists *work, loom__task task)
{
    if (work->splits)
        loom__pool_run(work->cpu->pool, work->view->directory.partitions, task, work);
    else
        task(work, 0);
}

loom__cpu_records loom__cpu_lists_part(const loom__cpu_lists *work, uint64_t part)
{
    const loom__batch *batch = work->batch;
    if (work->splits)
        return loom__cpu_bulk_records(&work->bulk, part);
    return (loom__cpu_records){.keys = batch->keys,
                               .values = batch->values,
                               .key_stride = work->key_bytes,
                               .value_stride = (uint32_t)work->view->value_bytes,
                               .n = batch->n};
}

uint64_t loom__cpu_multi_take(const loom__multi_view *view, loom__list_kind kind, uint64_t link, uint64_t least,
                              uint64_t *values)
{
    uint64_t used = __atomic_load_n(&view->lists->used, __ATOMIC_RELAXED), place, got;
    do {
        place = used + link + multi_padding(kind, used + link);
        if (place > view->room || least > view->room - place)
            return MULTI_NO_PLACE;
        got = *values < view->room - place ? *values : view->room - place;
    } while (
        !__atomic_compare_exchange_n(&view->lists->used, &used, place + got, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *values = got;
    memset(multi_value_at(view, used), 0, (place - used) * view->value_bytes); /* it goes into files */
    return place;
}
