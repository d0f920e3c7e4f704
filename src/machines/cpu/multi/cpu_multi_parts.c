#include "core/error.h"
#include "core/memory.h"
#include "machines/cpu/multi/cpu_multi.h"

void loom__cpu_lists_add(uint64_t *total, uint64_t own)
{
    __atomic_fetch_add(total, own, __ATOMIC_RELAXED);
}

static uint64_t reserved_bytes(const loom__cpu_lists *work)
{
    return work->batch->n * sizeof *work->reserved;
}

loom_status loom__cpu_lists_begin(loom__machine *machine, const void *any_view, const loom__batch *batch, int reserves,
                                  loom__cpu_lists *work)
{
    const loom__multi_view *view = any_view;
    const uint32_t partitions = view->directory.partitions;
    *work = (loom__cpu_lists){.cpu = (loom__cpu_machine_state *)machine, .view = view, .batch = batch};
    work->simd = work->cpu->open_simd;
    work->key_bytes = slot_key_bytes((loom__slot_kind)view->directory.kind);
    work->bulk = (loom__cpu_bulk){.batch = batch,
                                  .key_bytes = work->key_bytes,
                                  .value_bytes = batch->values != NULL ? (uint32_t)view->value_bytes : 0};
    if (reserves && batch->n > 0) {
        work->reserved = loom__allocate(&machine->allocator, reserved_bytes(work), LOOM_MEMORY_TEMPORARY, NULL);
        if (work->reserved == NULL)
            return LOOM_OUT_OF_MEMORY;
    }
    if (loom__cpu_is_small(partitions, batch->n))
        return LOOM_OK;
    const loom_status status =
        loom__cpu_bulk_begin(machine, partitions, view->directory.seed, batch->status != NULL, &work->bulk);
    work->splits = status == LOOM_OK;
    if (status == LOOM_OK)
        loom__batch_goes(batch, LOOM_ROUTE_BY_PARTITION);
    else
        loom__cpu_lists_end(work);
    return status;
}

void loom__cpu_lists_end(loom__cpu_lists *work)
{
    loom__machine *machine = &work->cpu->base;
    if (work->splits)
        loom__cpu_bulk_end(machine, &work->bulk);
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

uint64_t loom__cpu_multi_take(const loom__multi_view *view, loom__list_kind kind, uint64_t least, uint64_t *values)
{
    uint64_t used = __atomic_load_n(&view->lists->used, __ATOMIC_RELAXED), place, got;
    do {
        place = used + multi_padding(kind, used);
        if (place > view->room || least > view->room - place)
            return MULTI_NO_PLACE;
        got = *values < view->room - place ? *values : view->room - place;
    } while (
        !__atomic_compare_exchange_n(&view->lists->used, &used, place + got, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *values = got;
    return place;
}
