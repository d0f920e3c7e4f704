/* The bulk calls of perfect tables.
 *
 * Lookups, updates and erasures do not change codes: threads share the ranges of a batch. An insertion may move any key
 * of its partition, so one thread owns each partition: a batch is first split by partition (core/split.h), which is a
 * streaming access. The owner then works on its partition within a cache, without atomics. The split keeps the order of
 * the batch within a partition, so every insertion is in the order of equal keys. The calling thread alone inserts a
 * batch that is too small to split, a batch that must not allocate (LOOM_DIRECTLY, LOOM_LOW_MEMORY), and a batch for
 * whose split there is no memory. */
#include "machines/cpu/perfect/cpu_perfect.h"
#include "core/error.h"

/* ---- ranges ---- */

static const loom__cpu_ranges *ranges_of(const loom__machine *machine)
{
    return &((const loom__cpu_machine_state *)machine)->perfect_simd->ranges;
}

static loom_status find(loom__machine *machine, const void *view, const loom__batch *batch)
{
    loom__cpu_run_ranges(machine, ranges_of(machine), view, batch, 1);
    return LOOM_OK;
}

static loom_status count_accesses(loom__machine *machine, const void *view, const void *keys, uint64_t n,
                                  uint64_t *accesses, loom_stream stream)
{
    (void)stream;
    *accesses = loom__cpu_count_accesses(machine, ranges_of(machine), view, keys, n);
    return LOOM_OK;
}

/* ---- insertions ---- */

typedef struct insert_work {
    const loom__cpu_perfect_simd *simd;
    const loom_allocator *allocator;
    const loom__perfect_view *view;
    loom__cpu_bulk bulk; /* values may be missing */
    loom__cpu_counts counts;
} insert_work;

static uint32_t value_bytes_of(const loom__perfect_view *view, const loom__batch *batch)
{
    uint32_t bytes = slot_value_bytes((loom__slot_kind)view->kind);
    if (batch->values == NULL)
        return 0;
    return batch->write == LOOM__WRITE_COMBINE ? loom__number_bytes(batch->widening, bytes) : bytes;
}

/* Keys of partitions first .. end - 1. */
static void insert_records(insert_work *work, const loom__cpu_records *records, uint32_t first, uint32_t end)
{
    loom__cpu_perfect_scratch scratch;
    loom__cpu_perfect_scratch_open(&scratch, work->allocator, work->view, first, end);
    work->simd->insert(work->view, work->bulk.batch, records, &scratch, &work->counts);
    loom__cpu_perfect_scratch_close(&scratch);
}

static void fill_partition(void *argument, uint64_t partition)
{
    insert_work *work = argument;
    const loom__cpu_records own = loom__cpu_bulk_records(&work->bulk, partition);
    if (work->bulk.batch->replace)
        loom__cpu_perfect_clear_partition(work->view, (uint32_t)partition);
    if (own.n > 0)
        insert_records(work, &own, (uint32_t)partition, (uint32_t)partition + 1);
}

static int goes_alone(const loom__perfect_view *view, uint64_t n, uint32_t flags)
{
    return loom__cpu_is_small(view->partitions, n) || flags & (LOOM_DIRECTLY | LOOM_LOW_MEMORY);
}

static uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__perfect_view *view = any_view;
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    if (goes_alone(view, n, flags))
        return 0;
    return loom__cpu_bulk_bytes(machine, view->partitions, slot_key_bytes(kind) + slot_value_bytes(kind), n,
                                with_status);
}

static loom_status insert(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch)
{
    const int with_index = batch->status != NULL || batch->found_values != NULL;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    insert_work work = {.simd = cpu->perfect_simd,
                        .allocator = &machine->allocator,
                        .view = view,
                        .bulk = {.batch = batch,
                                 .key_bytes = slot_key_bytes((loom__slot_kind)view->kind),
                                 .value_bytes = value_bytes_of(view, batch)}};
    int alone = goes_alone(view, batch->n, batch->flags);
    if (!alone) {
        loom_status status = loom__cpu_bulk_begin(machine, view->partitions, view->seed, with_index, &work.bulk);
        if (status != LOOM_OK && batch->replace)
            return status;
        alone = status != LOOM_OK;
    }
    if (alone) {
        const loom__cpu_records all = loom__cpu_batch_records(batch, work.bulk.key_bytes, work.bulk.value_bytes);
        if (batch->replace)
            RETURN_IF_FAILED(loom__cpu_perfect_clear(machine, view, batch->stream));
        if (all.n > 0)
            insert_records(&work, &all, 0, view->partitions);
    } else {
        loom__pool_run(cpu->pool, view->partitions, fill_partition, &work);
        loom__cpu_bulk_end(machine, &work.bulk);
    }
    view->totals->size = (batch->replace ? 0 : view->totals->size) + work.counts.ok;
    loom__cpu_write_result(batch->result, batch->n, &work.counts);
    return LOOM_OK;
}

static loom_status write(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__perfect_view *view = any_view;
    if (batch->write != LOOM__WRITE_ERASE && batch->write != LOOM__WRITE_UPDATE)
        return insert(machine, view, batch);
    loom__cpu_run_ranges(machine, ranges_of(machine), view, batch, 0);
    if (batch->write == LOOM__WRITE_ERASE)
        view->totals->size -= batch->result->ok;
    return LOOM_OK;
}

const loom__map_kernels loom__cpu_perfect_kernels = {
    .reset_totals = loom__cpu_perfect_reset_totals,
    .clear = loom__cpu_perfect_clear,
    .find = find,
    .write = write,
    .bulk_bytes = bulk_bytes,
    .refill = loom__cpu_perfect_refill,
    .retrieve = loom__cpu_perfect_retrieve,
    .survey = loom__cpu_perfect_survey,
    .count_accesses = count_accesses,
};
