#include "machines/cpu/open/cpu_open.h"

enum {
    RANGE = 1 << 14 /* keys that a thread draws at once: filling and draining its ring costs 1 % of them */
};

typedef struct range_work {
    const loom__cpu_open_simd *simd;
    const loom__open_view *view;
    const loom__batch *batch;
    int reads;
    int shared;
    loom__cpu_counts counts;
} range_work;

static void run_range(void *argument, uint64_t index)
{
    range_work *work = argument;
    uint64_t begin = index * RANGE, left = work->batch->n - begin, end = begin + (left < RANGE ? left : RANGE);
    if (work->reads)
        work->simd->find(work->view, work->batch, begin, end, &work->counts);
    else
        work->simd->write(work->view, work->batch, begin, end, work->shared, &work->counts);
}

static loom_status run_ranges(loom__machine *machine, const loom__open_view *view, const loom__batch *batch, int reads)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    uint64_t ranges = batch->n / RANGE + (batch->n % RANGE != 0);
    range_work work = {.simd = cpu->open_simd, .view = view, .batch = batch, .reads = reads};
    work.shared = ranges > 1 && cpu->threads > 1;
    loom__pool_run(cpu->pool, ranges, run_range, &work);
    loom__cpu_write_result(batch->result, batch->n, &work.counts);
    return LOOM_OK;
}

static loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = any_view;
    return run_ranges(machine, view, batch, 1);
}

loom_status loom__cpu_open_write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__open_view *view = any_view;
    loom_status status = run_ranges(machine, view, batch, 0);
    if (batch->write == LOOM__WRITE_ERASE)
        view->totals->size -= batch->result->ok;
    else if (batch->write != LOOM__WRITE_UPDATE)
        view->totals->size += batch->result->ok;
    return status;
}

typedef struct access_work {
    const loom__cpu_open_simd *simd;
    const loom__open_view *view;
    const void *keys;
    uint64_t n, accesses;
} access_work;

static void count_range(void *argument, uint64_t index)
{
    access_work *work = argument;
    uint64_t begin = index * RANGE, left = work->n - begin, end = begin + (left < RANGE ? left : RANGE);
    uint64_t accesses = work->simd->count_accesses(work->view, work->keys, begin, end);
    __atomic_fetch_add(&work->accesses, accesses, __ATOMIC_RELAXED);
}

static loom_status count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream)
{
    const loom__open_view *view = any_view;
    (void)stream;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    access_work work = {cpu->open_simd, view, keys, n, 0};
    loom__pool_run(cpu->pool, n / RANGE + (n % RANGE != 0), count_range, &work);
    *accesses = work.accesses;
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
