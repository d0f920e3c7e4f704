#include "machines/cpu/core/cpu_bulk.h"
#include "core/hash_bytes.h"
#include "core/memory.h"

enum {
    RANGE = 1 << 14, /* keys that a thread draws at once: 1 % of them are spent filling and draining its ring */
    LEAST_KEYS_PER_PARTITION = 4
};

/* ---- ranges ---- */

typedef struct range_work {
    loom__cpu_range *run;
    const void *view;
    const loom__batch *batch;
    int shared;
    loom__cpu_counts counts;
} range_work;

static void run_range(void *argument, uint64_t index)
{
    range_work *work = argument;
    const uint64_t begin = index * RANGE, left = work->batch->n - begin;
    work->run(work->view, work->batch, begin, begin + (left < RANGE ? left : RANGE), work->shared, &work->counts);
}

loom__cpu_counts loom__cpu_run_ranges(loom__machine *machine, loom__cpu_range *run, const void *view,
                                      const loom__batch *batch)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    if (batch->n <= RANGE) { /* one range: no threads to ask */
        loom__cpu_counts counts = {0};
        if (batch->n > 0)
            run(view, batch, 0, batch->n, 0, &counts);
        return counts;
    }
    range_work work = {.run = run, .view = view, .batch = batch, .shared = cpu->threads > 1};
    loom__pool_run(cpu->pool, batch->n / RANGE + (batch->n % RANGE != 0), run_range, &work);
    return work.counts;
}

/* ---- by partition ---- */

typedef struct split_work {
    loom__split split;
    loom__seed seed;
    uint32_t key_bytes, value_bytes;
} split_work;

LOOM_LANE uint32_t partition_of(const split_work *work, uint64_t key, uint32_t key_bytes)
{
    return loom__hash_partition(loom__hash_key(key, key_bytes, work->seed), work->split.bins);
}

LOOM_LANE uint32_t partition_of_4(const void *work, uint64_t key)
{
    return partition_of(work, key, 4);
}

LOOM_LANE uint32_t partition_of_8(const void *work, uint64_t key)
{
    return partition_of(work, key, 8);
}

/* Keys of any width; those of 4 and 8 bytes are numbers (split.h). */
LOOM_LANE uint32_t partition_of_any(const void *any_work, uint64_t key)
{
    const split_work *work = any_work;
    if (work->key_bytes == 4 || work->key_bytes == 8)
        return partition_of(work, key, work->key_bytes);
    const uint64_t hash = loom__hash_bytes((const void *)(uintptr_t)key, work->key_bytes, work->seed);
    return loom__hash_partition(hash, work->split.bins);
}

static void count_chunk(void *argument, uint64_t chunk)
{
    const split_work work = *(const split_work *)argument; /* in registers: stores to the counts cannot alias it */
    if (work.key_bytes == 4)
        loom__split_count(&work.split, chunk, 4, partition_of_4, &work);
    else if (work.key_bytes == 8)
        loom__split_count(&work.split, chunk, 8, partition_of_8, &work);
    else
        loom__split_count(&work.split, chunk, work.key_bytes, partition_of_any, &work);
}

/* The usual widths are literals: the compiler specialises the loop for each pair of them. */
static void scatter_chunk(void *argument, uint64_t chunk)
{
    const split_work work = *(const split_work *)argument;
#define SCATTER(key_width, value_width)                                                                   \
    if (work.key_bytes == key_width && work.value_bytes == value_width) {                                 \
        loom__split_scatter(&work.split, chunk, key_width, value_width, partition_of_##key_width, &work); \
        return;                                                                                           \
    }
    SCATTER(4, 0)
    SCATTER(4, 4)
    SCATTER(4, 8)
    SCATTER(8, 0)
    SCATTER(8, 4)
    SCATTER(8, 8)
#undef SCATTER
    loom__split_scatter(&work.split, chunk, work.key_bytes, work.value_bytes, partition_of_any, &work);
}

/* Scatters the batch into one bin for each partition. Each thread takes a chunk of the batch. */
static void split_batch(loom__pool *pool, const loom__cpu_bulk *bulk, loom__seed seed)
{
    const loom__split *split = &bulk->split;
    split_work work = {*split, seed, bulk->key_bytes, bulk->value_bytes};
    if (split->hashes != NULL) {
        loom__cpu_split_strings(pool, split, &bulk->strings, bulk->value_bytes, seed);
        return;
    }
    loom__pool_run(pool, split->chunks, count_chunk, &work);
    loom__split_sum_up(split);
    loom__pool_run(pool, split->chunks, scatter_chunk, &work);
}

loom__cpu_records loom__cpu_bulk_records(const loom__cpu_bulk *bulk, uint64_t partition)
{
    const loom__split *split = &bulk->split;
    const uint32_t columns = bulk->key_bytes + bulk->value_bytes;
    const uint32_t record = loom__split_record_bytes(bulk->key_bytes, bulk->value_bytes, split->hashes != NULL);
    const uint64_t first = split->region[partition];
    const unsigned char *records = split->records + first * record;
    return (loom__cpu_records){
        .keys = records,
        .values = bulk->value_bytes > 0 ? records + bulk->key_bytes : NULL,
        .hashes = split->hashes != NULL ? records + columns : NULL,
        .key_stride = record,
        .value_stride = record,
        .index = split->index != NULL ? split->index + first : NULL,
        .n = split->region[partition + 1] - first,
    };
}

int loom__cpu_is_small(uint32_t partitions, uint64_t n)
{
    return n / LEAST_KEYS_PER_PARTITION < partitions;
}

static int has_string_keys(const loom__cpu_bulk *bulk)
{
    return (bulk->strings.variable & LOOM__VARIABLE_KEYS) != 0;
}

/* Lays out the split and, if `copies` is true, copies of strings in `memory`. NULL: only returns the bytes. */
static uint64_t lay_out(loom__cpu_bulk *bulk, unsigned char *memory, int with_index, int copies)
{
    const int with_hashes = has_string_keys(bulk);
    const uint32_t record = loom__split_record_bytes(bulk->key_bytes, bulk->value_bytes, with_hashes);
    const uint64_t bytes = loom__split_lay_out(&bulk->split, memory, record, with_index, with_hashes);
    if (!copies)
        return bytes;
    return bytes + loom__cpu_lay_out_copies(&bulk->split, &bulk->strings, memory != NULL ? memory + bytes : NULL);
}

uint64_t loom__cpu_bulk_bytes(const loom__machine *machine, uint32_t partitions, const loom__cpu_bulk *bulk, uint64_t n,
                              int with_index)
{
    const loom__cpu_machine_state *cpu = (const loom__cpu_machine_state *)machine;
    loom__cpu_bulk own = *bulk;
    own.split = (loom__split){.n = n, .bins = partitions, .chunks = cpu->threads};
    return lay_out(&own, NULL, with_index, 1);
}

/* The batch's workspace if it is large enough, otherwise memory of the call's own. NULL: there is none. */
static unsigned char *take_memory(loom__machine *machine, loom__cpu_bulk *bulk, uint64_t bytes)
{
    const loom__batch *batch = bulk->batch;
    bulk->bytes = bytes;
    if (batch->workspace != NULL && batch->workspace_bytes >= bytes)
        return batch->workspace;
    return bulk->memory = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
}

loom_status loom__cpu_bulk_begin(loom__machine *machine, uint32_t partitions, loom__seed seed, int with_index,
                                 loom__cpu_bulk *bulk)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    const loom__batch *batch = bulk->batch;
    bulk->split = (loom__split){
        .keys = batch->keys, .values = batch->values, .n = batch->n, .bins = partitions, .chunks = cpu->threads};
    const uint64_t least = lay_out(bulk, NULL, with_index, 0), all = lay_out(bulk, NULL, with_index, 1);
    const int is_lent = batch->workspace != NULL && batch->workspace_bytes >= least;
    int copies = all > least && !(is_lent && batch->workspace_bytes < all);
    bulk->memory = NULL;
    unsigned char *memory = take_memory(machine, bulk, copies ? all : least);
    if (memory == NULL && copies) {
        copies = 0;
        memory = take_memory(machine, bulk, least);
    }
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    lay_out(bulk, memory, with_index, copies);
    split_batch(cpu->pool, bulk, seed);
    return LOOM_OK;
}

void loom__cpu_bulk_end(loom__machine *machine, loom__cpu_bulk *bulk)
{
    loom__release(&machine->allocator, bulk->memory, bulk->bytes, LOOM_MEMORY_TEMPORARY, bulk->batch->stream);
}
