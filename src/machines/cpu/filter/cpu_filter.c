/* Calls on a filter.
 *
 * Direct insertion: each key fetches a random line and sets its bits by atomic ORs, since other threads may do the
 * same. Insertion by partition: keys are split first (core/split.h). A bin is a few neighbouring partitions that fit
 * the L2 cache together. One thread owns the bin and fills it with vector operations. */
#include "machines/cpu/filter/cpu_filter.h"
#include "core/memory.h"
#include "core/split.h"
#include "machines/cpu/open/cpu_open.h"

#include <pthread.h>
#include <string.h>

enum {
    RANGE = 1 << 14, /* keys that a thread draws at once */
    BIN_SHIFT = 13,  /* log2 of the blocks in a bin: 512 KiB */
    LEAST_KEYS_PER_BIN = 256,
    PIECE_BYTES = 1 << 20 /* bytes of a filter that a thread clears or merges at once */
};

typedef struct range_work {
    const loom__cpu_filter_simd *simd;
    const loom__filter_view *view;
    const loom__batch *batch;
    uint64_t found;
} range_work;

static loom__cpu_machine_state *state_of(loom__machine *machine)
{
    return (loom__cpu_machine_state *)machine;
}

static uint64_t ranges_of(uint64_t n)
{
    return n / RANGE + (n % RANGE != 0);
}

static uint64_t range_end(uint64_t index, uint64_t n)
{
    return n - index * RANGE < RANGE ? n : (index + 1) * RANGE;
}

static void contains_range(void *argument, uint64_t index)
{
    range_work *work = argument;
    const uint64_t found = work->simd->contains(work->view, work->batch->keys, work->batch->found, index * RANGE,
                                                range_end(index, work->batch->n));
    __atomic_fetch_add(&work->found, found, __ATOMIC_RELAXED);
}

static loom_status contains(loom__machine *machine, const void *any_view, const loom__batch *batch)
{
    const loom__filter_view *view = any_view;
    range_work work = {state_of(machine)->filter_simd, view, batch, 0};
    loom__pool_run(state_of(machine)->pool, ranges_of(batch->n), contains_range, &work);
    *batch->result =
        (loom_result){.status = LOOM_OK, .keys = batch->n, .ok = work.found, .not_found = batch->n - work.found};
    return LOOM_OK;
}

/* Always `shared`: even a call with a single thread may overlap other calls that insert. */
static void insert_range(void *argument, uint64_t index)
{
    const range_work *work = argument;
    work->simd->insert(work->view, work->batch->keys, index * RANGE, range_end(index, work->batch->n), 1);
}

/* ---- by partition ---- */

typedef struct bulk_work {
    const loom__cpu_filter_simd *simd;
    const loom__filter_view *view;
    loom__split split;
} bulk_work;

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
    const bulk_work *work = argument;
    const loom__filter_view view = *work->view;
    const loom__split split = work->split;
    if (view.key_bytes == 4)
        loom__split_count(&split, chunk, 4, bin_of_4, &view);
    else
        loom__split_count(&split, chunk, 8, bin_of_8, &view);
}

static void scatter_chunk(void *argument, uint64_t chunk)
{
    const bulk_work *work = argument;
    const loom__filter_view view = *work->view;
    const loom__split split = work->split;
    if (view.key_bytes == 4)
        loom__split_scatter(&split, chunk, 4, 0, bin_of_4, &view);
    else
        loom__split_scatter(&split, chunk, 8, 0, bin_of_8, &view);
}

static void fill_bin(void *argument, uint64_t bin)
{
    const bulk_work *work = argument;
    work->simd->insert(work->view, work->split.records, work->split.region[bin], work->split.region[bin + 1], 0);
}

static uint32_t bins_of(const loom__filter_view *view)
{
    return ((view->blocks - 1) >> BIN_SHIFT) + 1;
}

static loom__split split_of(loom__machine *machine, const loom__filter_view *view, const void *keys, uint64_t n)
{
    return (loom__split){.keys = keys, .n = n, .bins = bins_of(view), .chunks = state_of(machine)->threads};
}

static uint64_t bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n)
{
    const loom__filter_view *view = any_view;
    loom__split split = split_of(machine, view, NULL, n);
    return loom__split_lay_out(&split, NULL, view->key_bytes, 0);
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
    loom__pool *pool = state_of(machine)->pool;
    bulk_work work = {state_of(machine)->filter_simd, view, split_of(machine, view, batch->keys, batch->n)};
    const uint64_t bytes = loom__split_lay_out(&work.split, NULL, view->key_bytes, 0);
    unsigned char *memory = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    if (memory == NULL)
        return 0;
    loom__split_lay_out(&work.split, memory, view->key_bytes, 0);
    loom__pool_run(pool, work.split.chunks, count_chunk, &work);
    loom__split_sum_up(&work.split);
    loom__pool_run(pool, work.split.chunks, scatter_chunk, &work);
    loom__pool_run(pool, work.split.bins, fill_bin, &work);
    loom__release(&machine->allocator, memory, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    return 1;
}

static loom_status insert(loom__machine *machine, const void *any_view, const loom__batch *batch, loom_status outcome)
{
    const loom__filter_view *view = any_view;
    const int done = batch->by_partition && insert_by_partition(machine, view, batch);
    if (!done && batch->flags & LOOM_BY_PARTITION)
        return LOOM_OUT_OF_MEMORY;
    range_work work = {state_of(machine)->filter_simd, view, batch, 0};
    if (!done)
        loom__pool_run(state_of(machine)->pool, ranges_of(batch->n), insert_range, &work);
    *batch->result = (loom_result){.status = (int32_t)outcome, .keys = batch->n, .ok = batch->n};
    return LOOM_OK;
}

/* ---- whole filters ---- */

typedef struct whole_work {
    const loom__cpu_filter_simd *simd;
    const loom__filter_view *view, *other;
    pthread_mutex_t lock; /* guards the sums */
    loom__filter_survey sums;
} whole_work;

static void piece_of(const loom__filter_view *view, uint64_t piece, uint64_t *at, uint64_t *bytes)
{
    const uint64_t left = filter_bytes(view->blocks) - piece * PIECE_BYTES;
    *at = piece * PIECE_BYTES;
    *bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
}

static void run_pieces(loom__machine *machine, whole_work *work, loom__task task)
{
    const uint64_t pieces = (filter_bytes(work->view->blocks) - 1) / PIECE_BYTES + 1;
    loom__pool_run(state_of(machine)->pool, pieces, task, work);
}

static void clear_piece(void *argument, uint64_t piece)
{
    const whole_work *work = argument;
    uint64_t at, bytes;
    piece_of(work->view, piece, &at, &bytes);
    memset(work->view->base + at, 0, bytes);
}

static loom_status clear(loom__machine *machine, const void *any_view, loom_stream stream)
{
    const loom__filter_view *view = any_view;
    (void)stream;
    whole_work work = {.view = view};
    run_pieces(machine, &work, clear_piece);
    return LOOM_OK;
}

static void merge_piece(void *argument, uint64_t piece)
{
    const whole_work *work = argument;
    uint64_t at, bytes;
    piece_of(work->view, piece, &at, &bytes);
    uint64_t *to = (uint64_t *)(work->view->base + at);
    const uint64_t *from = (const uint64_t *)(work->other->base + at);
    for (uint64_t i = 0; i < bytes / sizeof *to; i++)
        to[i] |= from[i];
}

static loom_status merge(loom__machine *machine, const void *any_to, const void *any_from, loom_stream stream)
{
    const loom__filter_view *to = any_to;
    const loom__filter_view *from = any_from;
    (void)stream;
    whole_work work = {.view = to, .other = from};
    run_pieces(machine, &work, merge_piece);
    return LOOM_OK;
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

static loom_status survey(loom__machine *machine, const void *any_view, loom__filter_survey *told, loom_stream stream)
{
    const loom__filter_view *view = any_view;
    (void)stream;
    whole_work work = {.simd = state_of(machine)->filter_simd, .view = view, .lock = PTHREAD_MUTEX_INITIALIZER};
    loom__pool_run(state_of(machine)->pool, filter_partitions(view->blocks), survey_partition, &work);
    *told = work.sums;
    told->false_positive_rate /= view->blocks;
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
