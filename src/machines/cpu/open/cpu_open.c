#include "machines/cpu/open/cpu_open.h"

static const loom__cpu_ranges *ranges_of(const loom__machine *machine)
{
    return &((const loom__cpu_machine_state *)machine)->open_simd->ranges;
}

static loom_status find(loom__machine *machine, const void *view, const loom__batch *batch)
{
    loom__cpu_run_ranges(machine, ranges_of(machine), view, batch, 1);
    return LOOM_OK;
}

loom_status loom__cpu_open_write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = any_view;
    loom__cpu_run_ranges(machine, ranges_of(machine), view, batch, 0);
    if (batch->write == LOOM__WRITE_ERASE)
        view->totals->size -= batch->result->ok;
    else if (batch->write != LOOM__WRITE_UPDATE)
        view->totals->size += batch->result->ok;
    return LOOM_OK;
}

static loom_status count_accesses(loom__machine *machine, const void *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream)
{
    (void)stream;
    *accesses = loom__cpu_count_accesses(machine, ranges_of(machine), view, keys, n);
    return LOOM_OK;
}

const loom__map_kernels loom__cpu_open_kernels = {
    .reset_totals = loom__cpu_open_reset_totals,
    .clear = loom__cpu_open_clear,
    .find = find,
    .write = loom__cpu_open_write,
    .insert_bulk = loom__cpu_open_insert_bulk,
    .bulk_bytes = loom__cpu_open_bulk_bytes,
    .retrieve = loom__cpu_open_retrieve,
    .survey = loom__cpu_open_survey,
    .refill = loom__cpu_open_refill,
    .upkeep = loom__cpu_open_upkeep,
    .count_accesses = count_accesses,
};
