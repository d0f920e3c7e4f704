#include "machines/cpu/core/cpu_bulk.h"
#include "core/memory.h"
#include "machines/cpu/core/cpu_split.h"

enum {
    RANGE = 1 << 14, /* keys that a thread draws at once: 1 % of them are spent filling and draining its ring */
    LEAST_KEYS_PER_PARTITION = 4,
    AT_ONCE = 256 /* keys that are moved together, so that their lines are fetched ahead */
};

/* ---- ranges ---- */

typedef struct range_work {
    const loom__cpu_ranges *ranges;
    const void *view;
    const loom__batch *batch;
    int reads, shared;
    loom__cpu_counts counts;
    uint64_t accesses;
} range_work;

static uint64_t range_end(uint64_t index, uint64_t n)
{
    return n - index * RANGE < RANGE ? n : (index + 1) * RANGE;
}

static void run_range(void *argument, uint64_t index)
{
    range_work *work = argument;
    const uint64_t begin = index * RANGE, end = range_end(index, work->batch->n);
    if (work->reads)
        work->ranges->find(work->view, work->batch, begin, end, &work->counts);
    else
        work->ranges->write(work->view, work->batch, begin, end, work->shared, &work->counts);
}

void loom__cpu_run_ranges(loom__machine *machine, const loom__cpu_ranges *ranges, const void *view,
                          const loom__batch *batch, int reads)
{
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    range_work work = {.ranges = ranges, .view = view, .batch = batch, .reads = reads};
    work.shared = batch->n > RANGE && cpu->threads > 1;
    loom__pool_run(cpu->pool, batch->n / RANGE + (batch->n % RANGE != 0), run_range, &work);
    loom__cpu_write_result(batch->result, batch->n, &work.counts);
}

static void count_range(void *argument, uint64_t index)
{
    range_work *work = argument;
    uint64_t accesses =
        work->ranges->count_accesses(work->view, work->batch->keys, index * RANGE, range_end(index, work->batch->n));
    __atomic_fetch_add(&work->accesses, accesses, __ATOMIC_RELAXED);
}

uint64_t loom__cpu_count_accesses(loom__machine *machine, const loom__cpu_ranges *ranges, const void *view,
                                  const void *keys, uint64_t n)
{
    const loom__batch batch = {.keys = keys, .n = n};
    range_work work = {.ranges = ranges, .view = view, .batch = &batch};
    loom__pool_run(((loom__cpu_machine_state *)machine)->pool, n / RANGE + (n % RANGE != 0), count_range, &work);
    return work.accesses;
}

/* ---- records ---- */

loom__cpu_records loom__cpu_batch_records(const loom__batch *batch, uint32_t key_bytes, uint32_t value_bytes)
{
    return (loom__cpu_records){
        .keys = batch->keys,
        .values = batch->values,
        .key_stride = key_bytes,
        .value_stride = value_bytes,
        .status = batch->status,
        .n = batch->n,
    };
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
        .status = bulk->batch->status,
        .n = split->region[partition + 1] - first,
    };
}

/* ---- by partition ---- */

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
    loom__cpu_split(cpu->pool, &bulk->split, seed, bulk->key_bytes, bulk->value_bytes);
    return LOOM_OK;
}

void loom__cpu_bulk_end(loom__machine *machine, loom__cpu_bulk *bulk)
{
    loom__release(&machine->allocator, bulk->memory, bulk->bytes, LOOM_MEMORY_TEMPORARY, bulk->batch->stream);
}

/* ---- from table to table ---- */

typedef struct pair {
    uint64_t key, value;
} pair;

static void give(const pair *pairs, uint64_t n, loom__cpu_take *take, void *argument)
{
    const loom__cpu_records records = {
        .keys = (const unsigned char *)&pairs->key,
        .values = (const unsigned char *)&pairs->value,
        .key_stride = sizeof *pairs,
        .value_stride = sizeof *pairs,
        .n = n,
    };
    take(argument, &records);
}

LOOM_LANE void move_source(loom__slot_kind kind, const loom__table_slots *from, loom__seed seed, uint32_t source,
                           uint32_t partitions, uint32_t partition, loom__cpu_take *take, void *argument)
{
    loom__table_slots table = *from;
    table.kind = kind; /* which the compiler knows */
    pair pairs[AT_ONCE], one;
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < table.buckets; bucket++)
        for (uint32_t slot = 0; slot < table.slots; slot++) {
            if (!loom__slot_holds(&table, source, bucket, slot, &one.key, &one.value))
                continue;
            const uint64_t hash = loom__hash_key(one.key, slot_key_bytes(kind), seed);
            pairs[count] = one; /* it stays if it belongs there, without a branch that nobody could foretell */
            count += loom__hash_partition(hash, partitions) == partition;
            if (count == AT_ONCE) {
                give(pairs, count, take, argument);
                count = 0;
            }
        }
    give(pairs, count, take, argument);
}

void loom__cpu_move_keys(const loom__table_slots *from, loom__seed seed, uint32_t partitions, uint32_t partition,
                         loom__cpu_take *take, void *argument)
{
    uint32_t first, last;
    loom__hash_sources(partition, partitions, from->partitions, &first, &last);
    for (uint32_t source = first; source <= last; source++) {
#define CALL(kind) move_source(kind, from, seed, source, partitions, partition, take, argument)
        SLOT_FOR_KIND(from->kind, CALL)
#undef CALL
    }
}
