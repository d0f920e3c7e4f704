/* The calls of an engine of maps and sets on the cpu machine, compiled once for each engine. Before including this
 * file, define:
 *
 *   engine_view, engine_sums, engine_scratch      types. A scratch is a thread's working memory for insertions
 *   engine_simd(machine, view)                    the engine's loops (cpu_bulk.h)
 *   engine_slots(view)                            the table's slots (core/table_slots.h)
 *   engine_splits(flags, builds)                  whether the flags permit splitting a batch by partition
 *   engine_clear_partition(view, partition)       empties the partition and resets its state
 *   engine_reset_state(view, partition)           resets only the partition's state, which is neither contents nor
 *                                                 totals
 *   engine_scratch_open(scratch, allocator, view, first, end), engine_scratch_close(scratch)
 *                                                 scratch for inserting keys of partitions first .. end - 1
 *   engine_add_sums(total, own)                   adds the sums of one partition; many threads may do so at once
 *   engine_survey(view, sums)                     the survey that follows from the sums over all partitions
 *   engine_key_bytes(view), engine_value_bytes(view)
 *                                                 widths of keys and values; values of sets have 0 bytes
 *   engine_strings(view, batch)                   the strings of a batch, or with NULL of any: a loom__cpu_strings; may
 *                                                 be left out: there are none
 *   engine_reset_heap(view)                       empties what lies outside of partitions; optional
 *   ENGINE_HAS_OWN_SCANS                          optional: the engine has its own reset_totals and retrieve, and needs
 *                                                 no engine_slots and no engine_reset_state
 *
 * Why insertion by partition: a direct insertion reads and writes one random line of DRAM per key. Insertion by
 * partition first scatters the batch into its partitions (core/split.h), which is a streaming access: a partition's
 * current output line stays in the cache until it is full. Then one thread owns each partition and fills it within the
 * L2 cache: no atomics, no DRAM latency. The split counts first, so no batch, however skewed, can overflow anything.
 * The split keeps the order of the batch within each partition, so equal keys are inserted in their order. */
#include "core/error.h"
#include "core/kernels.h"
#include "machines/cpu/core/cpu_bulk.h"
#include "machines/cpu/core/cpu_retrieve.h"

#ifndef engine_strings
#define engine_strings(view, batch) ((loom__cpu_strings){0})
#endif
#ifndef engine_reset_heap
#define engine_reset_heap(view) ((void)(view))
#endif

typedef struct map_work {
    loom__cpu_machine_state *cpu;
    const loom__cpu_map_simd *simd;
    const engine_view *view;
    loom__cpu_bulk bulk;     /* insertions */
    loom__table_slots from;  /* refill: the old table; erase_if: the table itself */
    loom__value_range range; /* erase_if */
    loom__cpu_counts counts;
    engine_sums sums; /* survey */
} map_work;

static map_work work_on(loom__machine *machine, const void *view)
{
    return (map_work){.cpu = (loom__cpu_machine_state *)machine, .simd = engine_simd(machine, view), .view = view};
}

static void for_each_partition(map_work *work, loom__task task)
{
    loom__pool_run(work->cpu->pool, work->view->partitions, task, work);
}

static void tell_counts(const loom__batch *batch, const loom__cpu_counts *counts)
{
    loom__cpu_write_result(batch->result, batch->n, counts);
    if (batch->no_bytes != NULL)
        *batch->no_bytes = counts->no_bytes;
}

/* ---- ranges ---- */

static loom_status find(loom__machine *machine, const void *view, const loom__batch *batch)
{
    const loom__cpu_counts counts = loom__cpu_run_ranges(machine, engine_simd(machine, view)->find, view, batch);
    loom__cpu_write_result(batch->result, batch->n, &counts);
    return LOOM_OK;
}

static loom_status write_ranges(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const engine_view *view = any_view;
    const loom__cpu_counts counts = loom__cpu_run_ranges(machine, engine_simd(machine, view)->write, view, batch);
    tell_counts(batch, &counts);
    if (batch->write == LOOM__WRITE_ERASE)
        view->totals->size -= counts.ok;
    else if (batch->write != LOOM__WRITE_UPDATE)
        view->totals->size += counts.ok;
    return LOOM_OK;
}

static loom_status count_accesses(loom__machine *machine, const void *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream)
{
    const loom__batch batch = {.keys = keys, .n = n};
    (void)stream;
    *accesses = loom__cpu_run_ranges(machine, engine_simd(machine, view)->count_accesses, view, &batch).accesses;
    return LOOM_OK;
}

/* ---- whole tables ---- */

static void clear_task(void *argument, uint64_t partition)
{
    engine_clear_partition(((map_work *)argument)->view, (uint32_t)partition);
}

static loom_status clear(loom__machine *machine, const void *view, loom_stream stream)
{
    map_work work = work_on(machine, view);
    (void)stream;
    engine_reset_heap(work.view);
    for_each_partition(&work, clear_task);
    work.view->totals->size = 0;
    return LOOM_OK;
}

#ifndef ENGINE_HAS_OWN_SCANS
static loom_status reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                loom_stream stream)
{
    const engine_view *view = any_view;
    (void)machine;
    (void)stream;
    *view->totals = *totals;
    for (uint32_t partition = 0; partition < view->partitions; partition++)
        engine_reset_state(view, partition);
    return LOOM_OK;
}

static loom_status retrieve(loom__machine *machine, const void *view, loom__position *position, void *keys,
                            void *values, uint64_t room, uint64_t *got, loom_stream stream)
{
    const loom__table_slots slots = engine_slots(view);
    (void)stream;
    loom__cpu_retrieve(((loom__cpu_machine_state *)machine)->pool, &slots, position, keys, values, room, got);
    return LOOM_OK;
}
#endif

static void survey_task(void *argument, uint64_t partition)
{
    map_work *work = argument;
    engine_sums own = {0};
    work->simd->survey_partition(work->view, (uint32_t)partition, &own);
    engine_add_sums(&work->sums, &own);
}

static loom_status survey(loom__machine *machine, const void *view, loom__survey *found, loom_stream stream)
{
    map_work work = work_on(machine, view);
    (void)stream;
    for_each_partition(&work, survey_task);
    *found = engine_survey(view, &work.sums);
    return LOOM_OK;
}

/* ---- insertions ---- */

static map_work insertion(loom__machine *machine, const void *view, const loom__batch *batch)
{
    map_work work = work_on(machine, view);
    uint32_t value_bytes = batch->values != NULL ? engine_value_bytes(work.view) : 0;
    if (value_bytes != 0 && batch->write == LOOM__WRITE_COMBINE)
        value_bytes = loom__number_bytes(batch->widening, value_bytes);
    work.bulk = (loom__cpu_bulk){.batch = batch,
                                 .key_bytes = engine_key_bytes(work.view),
                                 .value_bytes = value_bytes,
                                 .strings = engine_strings(work.view, batch)};
    return work;
}

/* Inserts records whose keys belong to partitions first .. end - 1. */
static void insert_records(map_work *work, const loom__cpu_records *records, uint32_t first, uint32_t end)
{
    engine_scratch scratch;
    engine_scratch_open(&scratch, &work->cpu->base.allocator, work->view, first, end);
    work->simd->insert(work->view, work->bulk.batch, records, &scratch, &work->counts);
    engine_scratch_close(&scratch);
}

static loom_status end_insertion(map_work *work)
{
    const loom__batch *batch = work->bulk.batch;
    loom__totals *totals = work->view->totals;
    totals->size = (batch->replace ? 0 : totals->size) + work->counts.ok;
    tell_counts(batch, &work->counts);
    return LOOM_OK;
}

/* Inserts the whole batch on the calling thread. Needs no memory for a split. */
static loom_status insert_alone(loom__machine *machine, const void *view, const loom__batch *batch)
{
    map_work work = insertion(machine, view, batch);
    const loom__cpu_records all = {.keys = batch->keys,
                                   .values = batch->values,
                                   .key_stride = work.bulk.key_bytes,
                                   .value_stride = work.bulk.value_bytes,
                                   .n = batch->n};
    if (batch->replace)
        clear(machine, view, batch->stream);
    insert_records(&work, &all, 0, work.view->partitions);
    return end_insertion(&work);
}

static void fill_task(void *argument, uint64_t partition)
{
    map_work *work = argument;
    const loom__cpu_records own = loom__cpu_bulk_records(&work->bulk, partition);
    if (work->bulk.batch->replace)
        engine_clear_partition(work->view, (uint32_t)partition);
    insert_records(work, &own, (uint32_t)partition, (uint32_t)partition + 1);
}

/* Splits the batch, then fills each partition by one thread. OUT_OF_MEMORY leaves the table as it was. */
static loom_status insert_by_partition(loom__machine *machine, const void *view, const loom__batch *batch)
{
    map_work work = insertion(machine, view, batch);
    const int with_index = batch->status != NULL || batch->found_values != NULL;
    RETURN_IF_FAILED(loom__cpu_bulk_begin(machine, work.view->partitions, work.view->seed, with_index, &work.bulk));
    loom__batch_goes(batch, LOOM_ROUTE_BY_PARTITION);
    if (batch->replace)
        engine_reset_heap(work.view);
    for_each_partition(&work, fill_task);
    loom__cpu_bulk_end(machine, &work.bulk);
    return end_insertion(&work);
}

static uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const engine_view *view = any_view;
    if (loom__cpu_is_small(view->partitions, n) || !engine_splits(flags, 1))
        return 0;
    const loom__cpu_bulk bulk = {.key_bytes = engine_key_bytes(view),
                                 .value_bytes = engine_value_bytes(view),
                                 .strings = engine_strings(view, NULL)};
    return loom__cpu_bulk_bytes(machine, view->partitions, &bulk, n, with_status);
}
