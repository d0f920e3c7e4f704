/* Calls on a filter.
 *
 * Direct insertion fetches a random line for each key. It sets the key's bits by atomic ORs, since other threads may
 * set bits in the same line. Insertion by partition splits the keys first (core/split.h). A bin is a few neighbouring
 * partitions that fit the L2 cache together. One thread owns the bin and fills it with vector operations.
 *
 * Insertion in order gives each thread a range of blocks. Equal keys belong to the same block, so one thread inserts
 * all of them, in the order of the batch. Other calls may set bits at the same time. */
#include "machines/cpu/filter/cpu_filter.h"
#include "core/memory.h"

#include <pthread.h>
#include <string.h>

enum {
    BIN_SHIFT = 13, /* log2 of the blocks in a bin: 512 KiB */
    LEAST_KEYS_PER_BIN = 256,
    LEAST_IN_PARTS = 1 << 14 /* keys that are worth several threads, if they go in order */
};

static loom__cpu_machine_state *state_of(loom__machine *machine)
{
    return (loom__cpu_machine_state *)machine;
}

void loom__cpu_take_stand_ins(const loom__filter_view *view, const loom__batch *batch, uint64_t begin, uint64_t end,
                              loom__cpu_stand_ins *some)
{
    const uint64_t n = end - begin < LOOM__CPU_STAND_INS ? end - begin : LOOM__CPU_STAND_INS;
    const unsigned char *keys = (const unsigned char *)batch->keys + begin * view->key_bytes;
    const uint32_t key_bytes = view->key_bytes; /* copies: stores to the stand-ins cannot alias them */
    const loom__seed seed = view->seed;
    some->view = filter_view_of_stand_ins(view);
    some->batch = *batch;
    some->batch.keys = some->keys;
    some->batch.n = n;
    some->batch.found = batch->found != NULL ? batch->found + begin : NULL;
    some->batch.added = batch->added != NULL ? batch->added + begin : NULL;
    for (uint64_t i = 0; i < n; i++)
        some->keys[i] = filter_stand_in(keys + i * key_bytes, key_bytes, 1, seed);
}

static loom_status contains(loom__machine *machine, const void *view, const loom__batch *batch)
{
    const loom__cpu_counts counts = loom__cpu_run_ranges(machine, state_of(machine)->filter_simd->find, view, batch);
    loom__cpu_write_result(batch->result, batch->n, &counts);
    return LOOM_OK;
}

/* ---- by partition ---- */

typedef struct bulk_work {
    const loom__cpu_filter_simd *simd;
    loom__filter_view view; /* of stand-ins, if the keys have them */
    loom__split split;
    const unsigned char *wide; /* [n] keys that have stand-ins */
    uint32_t wide_bytes;
    uint64_t *stand_ins; /* [n] */
} bulk_work;

static void replace_chunk(void *argument, uint64_t chunk)
{
    const bulk_work work = *(const bulk_work *)argument;
    const uint64_t end = loom__split_chunk_begin(&work.split, chunk + 1);
    for (uint64_t i = loom__split_chunk_begin(&work.split, chunk); i < end; i++)
        work.stand_ins[i] = filter_stand_in(work.wide + i * work.wide_bytes, work.wide_bytes, 1, work.view.seed);
}

LOOM_LANE uint32_t bin_of_4(const void *view, uint64_t key)
{
    return filter_start(view, 4, key).block >> BIN_SHIFT;
}

LOOM_LANE uint32_t bin_of_8(const void *view, uint64_t key)
{
    return filter_start(view, 8, key).block >> BIN_SHIFT;
}

static void count_chunk(void *argument, uint64_t chunk)
{
    const bulk_work work = *(const bulk_work *)argument; /* in registers: stores to the counts cannot alias it */
    if (work.view.key_bytes == 4)
        loom__split_count(&work.split, chunk, 4, bin_of_4, &work.view);
    else
        loom__split_count(&work.split, chunk, 8, bin_of_8, &work.view);
}

static void scatter_chunk(void *argument, uint64_t chunk)
{
    const bulk_work work = *(const bulk_work *)argument;
    if (work.view.key_bytes == 4)
        loom__split_scatter(&work.split, chunk, 4, 0, bin_of_4, &work.view);
    else
        loom__split_scatter(&work.split, chunk, 8, 0, bin_of_8, &work.view);
}

static void fill_bin(void *argument, uint64_t bin)
{
    const bulk_work *work = argument;
    const loom__batch records = {.keys = work->split.records, .by_partition = 1};
    work->simd->write(&work->view, &records, work->split.region[bin], work->split.region[bin + 1], 0, NULL);
}

static uint32_t bins_of(const loom__filter_view *view)
{
    return ((view->blocks - 1) >> BIN_SHIFT) + 1;
}

/* A multiple of a line: the split's memory begins behind the stand-ins. */
static uint64_t stand_in_bytes(uint64_t n)
{
    uint64_t bytes = 0;
    loom__split_place(&bytes, n * sizeof(uint64_t));
    return bytes;
}

static uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__filter_view *view = any_view;
    const int has_stand_ins = filter_has_stand_ins(view->key_bytes);
    const loom__cpu_bulk bulk = {.key_bytes = has_stand_ins ? sizeof(uint64_t) : view->key_bytes};
    return (has_stand_ins ? stand_in_bytes(n) : 0) + loom__cpu_bulk_bytes(machine, bins_of(view), &bulk, n, 0);
}

/* A filter that fits the caches gains nothing by splitting. */
static int bulk_pays(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__filter_view *view = any_view;
    (void)machine;
    return bins_of(view) >= 8 && n >= (uint64_t)bins_of(view) * LEAST_KEYS_PER_BIN;
}

/* Returns 0 if there is no memory. */
static int insert_by_partition(loom__machine *machine, const loom__filter_view *view, const loom__batch *batch)
{
    const loom__cpu_machine_state *cpu = state_of(machine);
    bulk_work work = {
        .simd = cpu->filter_simd,
        .view = *view,
        .split = {.keys = batch->keys, .n = batch->n, .bins = bins_of(view), .chunks = cpu->threads},
    };
    const uint64_t bytes = bulk_bytes(machine, view, batch->n);
    unsigned char *memory = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    if (memory == NULL)
        return 0;
    if (filter_has_stand_ins(view->key_bytes)) {
        work.view = filter_view_of_stand_ins(view);
        work.wide = batch->keys;
        work.wide_bytes = view->key_bytes;
        work.split.keys = work.stand_ins = (uint64_t *)memory;
        loom__split_lay_out(&work.split, memory + stand_in_bytes(batch->n), sizeof(uint64_t), 0, 0);
        loom__pool_run(cpu->pool, work.split.chunks, replace_chunk, &work);
    } else
        loom__split_lay_out(&work.split, memory, view->key_bytes, 0, 0);
    loom__pool_run(cpu->pool, work.split.chunks, count_chunk, &work);
    loom__split_sum_up(&work.split);
    loom__pool_run(cpu->pool, work.split.chunks, scatter_chunk, &work);
    loom__pool_run(cpu->pool, work.split.bins, fill_bin, &work);
    loom__release(&machine->allocator, memory, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    return 1;
}

/* ---- in order ---- */

typedef struct order_work {
    const loom__cpu_filter_simd *simd;
    const loom__filter_view *view;
    const loom__batch *batch;
    uint64_t parts;
    loom__cpu_counts counts;
} order_work;

static void add_part(void *argument, uint64_t part)
{
    order_work *work = argument;
    const uint64_t blocks = work->view->blocks;
    work->simd->add_in_order(work->view, work->batch, (uint32_t)(blocks * part / work->parts),
                             (uint32_t)(blocks * (part + 1) / work->parts), &work->counts);
}

static loom__cpu_counts add_in_order(loom__machine *machine, const void *view, const loom__batch *batch)
{
    const loom__cpu_machine_state *cpu = state_of(machine);
    order_work work = {
        .simd = cpu->filter_simd, .view = view, .batch = batch, .parts = batch->n < LEAST_IN_PARTS ? 1 : cpu->threads};
    loom__pool_run(cpu->pool, work.parts, add_part, &work);
    return work.counts;
}

/* ---- all insertions ---- */

static void insert_and_tell(loom__machine *machine, const void *view, const loom__batch *batch, loom_status outcome)
{
    const loom__cpu_counts counts =
        batch->flags & LOOM_IN_ORDER
            ? add_in_order(machine, view, batch)
            : loom__cpu_run_ranges(machine, state_of(machine)->filter_simd->write, view, batch);
    loom__cpu_write_result(batch->result, batch->n, &counts);
    batch->result->status = (int32_t)outcome;
}

static loom_status insert(loom__machine *machine, const void *view, const loom__batch *batch, loom_status outcome)
{
    if (batch->added != NULL) {
        insert_and_tell(machine, view, batch, outcome);
        return LOOM_OK;
    }
    const int done = batch->by_partition && insert_by_partition(machine, view, batch);
    if (!done && batch->flags & LOOM_BY_PARTITION)
        return LOOM_OUT_OF_MEMORY;
    if (!done)
        loom__cpu_run_ranges(machine, state_of(machine)->filter_simd->write, view, batch);
    *batch->result = (loom_result){.status = (int32_t)outcome, .keys = batch->n, .ok = batch->n};
    return LOOM_OK;
}

/* ---- whole filters, partition by partition ---- */

typedef struct whole_work {
    const loom__cpu_filter_simd *simd;
    const loom__filter_view *view, *other;
    pthread_mutex_t lock; /* guards the sums */
    loom__filter_survey sums;
} whole_work;

static loom_status run_partitions(loom__machine *machine, whole_work *work, loom__task task)
{
    work->simd = state_of(machine)->filter_simd;
    loom__pool_run(state_of(machine)->pool, filter_partitions(work->view->blocks), task, work);
    return LOOM_OK;
}

static void clear_partition(void *argument, uint64_t partition)
{
    const whole_work *work = argument;
    const uint64_t bytes = filter_bytes(filter_partition_blocks(work->view->blocks));
    memset(work->view->base + partition * bytes, 0, bytes);
}

static loom_status clear(loom__machine *machine, const void *view, loom_stream stream)
{
    whole_work work = {.view = view};
    (void)stream;
    return run_partitions(machine, &work, clear_partition);
}

static void merge_partition(void *argument, uint64_t partition)
{
    const whole_work *work = argument;
    const uint64_t bytes = filter_bytes(filter_partition_blocks(work->view->blocks));
    uint64_t *to = (uint64_t *)(work->view->base + partition * bytes);
    const uint64_t *from = (const uint64_t *)(work->other->base + partition * bytes);
    for (uint64_t i = 0; i < bytes / sizeof *to; i++)
        to[i] |= from[i];
}

static loom_status merge(loom__machine *machine, const void *to, const void *from, loom_stream stream)
{
    whole_work work = {.view = to, .other = from};
    (void)stream;
    return run_partitions(machine, &work, merge_partition);
}

static void survey_partition(void *argument, uint64_t partition)
{
    whole_work *work = argument;
    loom__filter_survey one;
    work->simd->survey(work->view, partition, &one);
    pthread_mutex_lock(&work->lock);
    work->sums.bits_set += one.bits_set;
    work->sums.false_positive_rate += one.false_positive_rate;
    pthread_mutex_unlock(&work->lock);
}

static loom_status survey(loom__machine *machine, const void *view, loom__filter_survey *told, loom_stream stream)
{
    whole_work work = {.view = view, .lock = PTHREAD_MUTEX_INITIALIZER};
    (void)stream;
    run_partitions(machine, &work, survey_partition);
    *told = work.sums;
    told->false_positive_rate /= work.view->blocks;
    return LOOM_OK;
}

const loom__filter_kernels loom__cpu_filter_kernels = {
    .clear = clear,
    .insert = insert,
    .contains = contains,
    .bulk_pays = bulk_pays,
    .bulk_bytes = bulk_bytes,
    .merge = merge,
    .survey = survey,
};
