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
#include "core/memory.h"
#include "machines/cpu/core/cpu_split.h"

enum {
    RANGE = 1 << 14,             /* keys that a thread draws at once: filling and draining its ring costs 1 % of them */
    LEAST_KEYS_PER_PARTITION = 4 /* with fewer, splitting costs more than it saves */
};

/* ---- ranges ---- */

typedef struct range_work {
    const loom__cpu_perfect_simd *simd;
    const loom__perfect_view *view;
    const loom__batch *batch;
    int reads, shared;
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

static loom_status run_ranges(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch,
                              int reads)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    uint64_t ranges = batch->n / RANGE + (batch->n % RANGE != 0);
    range_work work = {.simd = cpu->perfect_simd, .view = view, .batch = batch, .reads = reads};
    work.shared = ranges > 1 && cpu->threads > 1;
    loom__pool_run(cpu->pool, ranges, run_range, &work);
    loom__cpu_write_result(batch->result, batch->n, &work.counts);
    return LOOM_OK;
}

static loom_status find(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__perfect_view *view = any_view;
    return run_ranges(machine, view, batch, 1);
}

typedef struct access_work {
    const loom__cpu_perfect_simd *simd;
    const loom__perfect_view *view;
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
    const loom__perfect_view *view = any_view;
    (void)stream;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    access_work work = {cpu->perfect_simd, view, keys, n, 0};
    loom__pool_run(cpu->pool, n / RANGE + (n % RANGE != 0), count_range, &work);
    *accesses = work.accesses;
    return LOOM_OK;
}

/* ---- insertions ---- */

typedef struct insert_work {
    const loom__cpu_perfect_simd *simd;
    const loom_allocator *allocator;
    const loom__perfect_view *view;
    const loom__batch *batch;
    uint32_t key_bytes, value_bytes; /* of a record; values may be absent */
    loom__split split;
    loom__cpu_counts counts;
} insert_work;

static uint32_t value_bytes_of(const loom__perfect_view *view, const loom__batch *batch)
{
    uint32_t bytes = slot_value_bytes((loom__slot_kind)view->kind);
    if (batch->values == NULL)
        return 0;
    return batch->write == LOOM__WRITE_COMBINE ? loom__number_bytes(batch->widening, bytes) : bytes;
}

/* Inserts records whose keys lie in partitions first .. end - 1. */
static void insert_records(insert_work *work, const loom__cpu_perfect_records *records, uint32_t first, uint32_t end)
{
    loom__cpu_perfect_desk desk;
    loom__cpu_perfect_desk_open(&desk, work->allocator, work->view, first, end);
    work->simd->insert(work->view, work->batch, records, &desk, &work->counts);
    loom__cpu_perfect_desk_close(&desk);
}

static void fill_partition(void *argument, uint64_t partition)
{
    insert_work *work = argument;
    const loom__split *split = &work->split;
    const uint32_t record = work->key_bytes + work->value_bytes;
    const uint64_t first = split->region[partition];
    const unsigned char *records = split->records + first * record;
    const loom__cpu_perfect_records own = {
        .keys = records,
        .values = work->value_bytes > 0 ? records + work->key_bytes : NULL,
        .key_stride = record,
        .value_stride = record,
        .index = split->index != NULL ? split->index + first : NULL,
        .n = split->region[partition + 1] - first,
    };
    if (work->batch->replace)
        loom__cpu_perfect_clear_partition(work->view, (uint32_t)partition);
    if (own.n > 0)
        insert_records(work, &own, (uint32_t)partition, (uint32_t)partition + 1);
}

static void insert_all(insert_work *work)
{
    const loom__cpu_perfect_records all = {
        .keys = work->batch->keys,
        .values = work->batch->values,
        .key_stride = work->key_bytes,
        .value_stride = work->value_bytes,
        .n = work->batch->n,
    };
    if (all.n > 0)
        insert_records(work, &all, 0, work->view->partitions);
}

static int is_small(const loom__perfect_view *view, uint64_t n)
{
    return n / LEAST_KEYS_PER_PARTITION < view->partitions;
}

static uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags, int with_status)
{
    const loom__perfect_view *view = any_view;
    const loom__slot_kind kind = (loom__slot_kind)view->kind;
    if (is_small(view, n) || flags & (LOOM_DIRECTLY | LOOM_LOW_MEMORY))
        return 0;
    loom__split split = {.n = n, .bins = view->partitions, .chunks = ((loom__cpu_machine_state *)machine)->threads};
    return loom__split_lay_out(&split, NULL, slot_key_bytes(kind) + slot_value_bytes(kind), with_status);
}

static loom_status insert(loom__machine *machine, const loom__perfect_view *view, const loom__batch *batch)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    const int with_index = batch->status != NULL || batch->found_values != NULL;
    insert_work work = {.simd = cpu->perfect_simd,
                        .allocator = &machine->allocator,
                        .view = view,
                        .batch = batch,
                        .key_bytes = slot_key_bytes((loom__slot_kind)view->kind),
                        .value_bytes = value_bytes_of(view, batch),
                        .split = {.keys = batch->keys,
                                  .values = batch->values,
                                  .n = batch->n,
                                  .bins = view->partitions,
                                  .chunks = cpu->threads}};
    const uint32_t record = work.key_bytes + work.value_bytes;
    int alone = is_small(view, batch->n) || batch->flags & (LOOM_DIRECTLY | LOOM_LOW_MEMORY);
    const uint64_t bytes = alone ? 0 : loom__split_lay_out(&work.split, NULL, record, with_index);
    const int callers = batch->workspace != NULL && batch->workspace_bytes >= bytes;
    unsigned char *memory = alone ? NULL : batch->workspace;
    if (!alone && !callers) {
        memory = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
        if (memory == NULL && batch->replace)
            return LOOM_OUT_OF_MEMORY;
        alone = memory == NULL;
    }
    if (alone) {
        if (batch->replace)
            RETURN_IF_FAILED(loom__cpu_perfect_clear(machine, view, batch->stream));
        insert_all(&work);
    } else {
        loom__split_lay_out(&work.split, memory, record, with_index);
        loom__cpu_split(cpu->pool, &work.split, view->seed, work.key_bytes, work.value_bytes);
        loom__pool_run(cpu->pool, view->partitions, fill_partition, &work);
        if (!callers)
            loom__release(&machine->allocator, memory, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
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
    RETURN_IF_FAILED(run_ranges(machine, view, batch, 0));
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
