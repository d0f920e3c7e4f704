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
    int string_keys;
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
    if (work->string_keys) {
        const loom__string *string = (const loom__string *)(uintptr_t)key;
        return loom__hash_partition(loom__hash_bytes((const void *)(uintptr_t)string->at, string->length, work->seed),
                                    work->split.bins);
    }
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
    split_work work = {*split, seed, bulk->key_bytes, bulk->value_bytes, bulk->string_keys};
    loom__pool_run(pool, split->chunks, count_chunk, &work);
    loom__split_sum_up(split);
    loom__pool_run(pool, split->chunks, scatter_chunk, &work);
}

loom__cpu_records loom__cpu_bulk_records(const loom__cpu_bulk *bulk, uint64_t partition)
{
    const loom__split *split = &bulk->split;
    const uint32_t record = bulk->key_bytes + bulk->value_bytes;
    const uint64_t first = split->region[partition];
    const unsigned char *records = split->records + first * record;
    return (loom__cpu_records){
        .keys = records,
        .values = bulk->value_bytes > 0 ? records + bulk->key_bytes : NULL,
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

uint64_t loom__cpu_bulk_bytes(const loom__machine *machine, uint32_t partitions, uint32_t record_bytes, uint64_t n,
                              int with_index)
{
    const loom__cpu_machine_state *cpu = (const loom__cpu_machine_state *)machine;
    loom__split split = {.n = n, .bins = partitions, .chunks = cpu->threads};
    return loom__split_lay_out(&split, NULL, record_bytes, with_index);
}

loom_status loom__cpu_bulk_begin(loom__machine *machine, uint32_t partitions, loom__seed seed, int with_index,
                                 loom__cpu_bulk *bulk)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    const loom__batch *batch = bulk->batch;
    const uint32_t record = bulk->key_bytes + bulk->value_bytes;
    unsigned char *memory = batch->workspace;
    bulk->bytes = loom__cpu_bulk_bytes(machine, partitions, record, batch->n, with_index);
    bulk->memory = NULL;
    if (memory == NULL || batch->workspace_bytes < bulk->bytes)
        memory = bulk->memory = loom__allocate(&machine->allocator, bulk->bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    bulk->split = (loom__split){
        .keys = batch->keys, .values = batch->values, .n = batch->n, .bins = partitions, .chunks = cpu->threads};
    loom__split_lay_out(&bulk->split, memory, record, with_index);
    split_batch(cpu->pool, bulk, seed);
    return LOOM_OK;
}

void loom__cpu_bulk_end(loom__machine *machine, loom__cpu_bulk *bulk)
{
    loom__release(&machine->allocator, bulk->memory, bulk->bytes, LOOM_MEMORY_TEMPORARY, bulk->batch->stream);
}
