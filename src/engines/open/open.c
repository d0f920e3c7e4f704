/* The open engine as a map: tables made, cloned, described, restored. The algorithms are in open_ops.h, the bytes in
 * open_layout.h, the sizes in open_shape.c; bulk work is the machine's (open_kernels.h). */
#include "core/error.h"
#include "core/memory.h"
#include "engines/open/open_kernels.h"

#include <string.h>

struct loom__table {
    loom__machine *machine;
    const loom__open_kernels *kernels;
    loom__open_shape shape;
    loom__open_view view;
    uint64_t capacity, seed;
    double max_load;
    loom_type type;
    uint64_t most; /* keys that the table may hold: as many as were given to it */
    int replayed;  /* a graph may have changed the contents, unseen */
    uint64_t worn; /* keys given to calls that may have left stale filter bits, since the last upkeep */
};

/* Partitions, totals, what views add, marks, stale counts, counts of retired slots. */
static uint64_t table_memory(const loom__open_shape *shape)
{
    return shape->table_bytes + sizeof(loom__open_totals) + OPEN_ADDED_COPIES * sizeof(loom__open_added) +
           shape->partitions * 3 * sizeof(uint32_t);
}

/* Tables that get the same memory one after the other have different ones, if their seeds or capacities differ: a view of
 * the first is then noticed. */
static uint64_t generation_of(const loom__table *table)
{
    return loom__mix64(loom__mix64(table->seed + 4 * 0x9e3779b97f4a7c15u) + table->capacity);
}

/* A table with memory, whose contents are still whatever was there. */
static loom_status make_table(loom__machine *machine, const loom__open_shape *shape, uint64_t capacity, double max_load,
                              uint32_t concurrent_reads, loom_type type, uint64_t seed, loom__table **made,
                              loom_stream stream)
{
    loom__table *table = loom__allocate(&machine->allocator, sizeof *table, LOOM_MEMORY_HOST, NULL);
    if (table == NULL)
        return LOOM_OUT_OF_MEMORY;
    unsigned char *memory = loom__allocate(&machine->allocator, table_memory(shape), LOOM_MEMORY_TABLE, stream);
    if (memory == NULL) {
        loom__release(&machine->allocator, table, sizeof *table, LOOM_MEMORY_HOST, NULL);
        return LOOM_OUT_OF_MEMORY;
    }
    *table = (loom__table){
        .machine = machine,
        .kernels = machine->open,
        .shape = *shape,
        .view = loom__open_view_make(shape, seed),
        .capacity = capacity,
        .seed = seed,
        .max_load = max_load,
        .type = type,
    };
    table->view.base = memory;
    table->view.concurrent_reads = concurrent_reads;
    table->view.totals = (loom__open_totals *)(memory + shape->table_bytes);
    table->view.added = (loom__open_added *)(table->view.totals + 1);
    table->view.marks = (uint32_t *)(table->view.added + OPEN_ADDED_COPIES);
    table->view.stale = table->view.marks + shape->partitions;
    table->view.retired_slots = table->view.stale + shape->partitions;
    *made = table;
    return LOOM_OK;
}

static void destroy(loom__table *table)
{
    const loom_allocator *allocator = &table->machine->allocator;
    loom__release(allocator, table->view.base, table_memory(&table->shape), LOOM_MEMORY_TABLE, NULL);
    loom__release(allocator, table, sizeof *table, LOOM_MEMORY_HOST, NULL);
}

static loom_status check_machine(const loom__machine *machine)
{
    RETURN_ERROR_IF(machine->open == NULL, LOOM_UNSUPPORTED, "the %s machine does not offer the open engine",
                    machine->ops->name);
    return LOOM_OK;
}

static loom_status memory_required(loom__machine *machine, const loom_map_config *config, loom_memory *memory)
{
    loom__open_shape shape;
    RETURN_IF_FAILED(check_machine(machine));
    RETURN_IF_FAILED(loom__open_choose_shape(config, &shape));
    loom__open_view view = loom__open_view_make(&shape, 0);
    memory->table_bytes = sizeof(loom__table) + table_memory(&shape);
    memory->build_bytes = machine->open->bulk_bytes(machine, &view, config->capacity, LOOM_KEEP, 0);
    memory->status_bytes = machine->open->bulk_bytes(machine, &view, config->capacity, LOOM_KEEP, 1);
    memory->order_bytes = machine->open->bulk_bytes(machine, &view, config->capacity, LOOM_IN_ORDER, 1);
    memory->low_memory_bytes = machine->open->bulk_bytes(machine, &view, config->capacity, LOOM_LOW_MEMORY, 0);
    return LOOM_OK;
}

static loom_status create(loom__machine *machine, const loom_map_config *config, uint64_t seed, loom__table **made)
{
    loom__open_shape shape;
    loom__table *table;
    RETURN_IF_FAILED(check_machine(machine));
    RETURN_IF_FAILED(loom__open_choose_shape(config, &shape));
    RETURN_IF_FAILED(make_table(machine, &shape, config->capacity, config->max_load, config->concurrent_reads,
                                config->type, seed, &table, NULL));
    loom_status status = table->kernels->clear(machine, &table->view, NULL);
    loom__open_totals totals = {.generation = generation_of(table)};
    if (status == LOOM_OK) /* waits: the table must be there for every stream */
        status = table->kernels->reset_totals(machine, &table->view, &totals, NULL);
    if (status != LOOM_OK)
        destroy(table);
    else
        *made = table;
    return status;
}

/* What a batch may have done to the filters. Insertions leave stale bits only where they are refused, which does not happen
 * before the table holds what it was made for (by chance; keys that were made to collide wear few partitions, not the
 * table). */
static void note_work(loom__table *table, const loom__batch *batch)
{
    int inserts = batch->write != LOOM__WRITE_ERASE && batch->write != LOOM__WRITE_UPDATE;
    if (inserts)
        table->most = batch->n > UINT64_MAX - table->most ? UINT64_MAX : table->most + batch->n;
    if (batch->write == LOOM__WRITE_ERASE || (inserts && table->most > table->capacity))
        table->worn = batch->n > UINT64_MAX - table->worn ? UINT64_MAX : table->worn + batch->n;
}

/* Looking costs a word for each partition; no partition is worn before a good part of it was erased, or refused. */
static uint64_t most_worn(const loom__table *table)
{
    uint64_t slots = table->shape.slots / table->shape.partitions, partitions = table->shape.partitions;
    return slots / 16 > partitions / 4 ? slots / 16 : partitions / 4;
}

static int wants_upkeep(const loom__table *table)
{
    return table->worn > most_worn(table);
}

static loom_status upkeep(loom__table *table, loom_stream stream)
{
    table->worn = 0;
    return table->kernels->upkeep(table->machine, &table->view, 0, stream);
}

static loom_status lend(loom__table *table, loom_map_view *view)
{
    _Static_assert(sizeof table->view <= sizeof view->table, "a public view holds one of ours");
    RETURN_ERROR_IF(table->kernels->fold_size == NULL, LOOM_UNSUPPORTED,
                    "the %s machine runs no kernels of users; use the bulk calls", table->machine->ops->name);
    RETURN_ERROR_IF(view->access == LOOM_VIEW_ACCUMULATE && table->type == LOOM_TYPE_SET, LOOM_UNSUPPORTED,
                    "a set has no values to accumulate; use a map or a counter");
    view->layout = LOOM_VIEW_LAYOUT;
    view->key_bytes = slot_key_bytes(table->shape.kind);
    view->value_bytes = slot_value_bytes(table->shape.kind);
    view->generation = generation_of(table);
    memset(view->table, 0, sizeof view->table);
    memcpy(view->table, &table->view, sizeof table->view);
    return LOOM_OK;
}

static loom_status take_back(loom__table *table, const loom_map_view *view, loom_stream stream)
{
    if (view->access == LOOM_VIEW_FIND)
        return LOOM_OK;
    RETURN_IF_FAILED(table->kernels->fold_size(table->machine, &table->view, stream));
    table->most = UINT64_MAX; /* nobody counted what came */
    return table->kernels->upkeep(table->machine, &table->view, view->access == LOOM_VIEW_MIXED, stream);
}

static loom_status size(loom__table *table, uint64_t *keys, loom_stream stream)
{
    return table->machine->ops->read_table(table->machine, keys, &table->view.totals->size, sizeof *keys, stream);
}

static int surely_fits(const loom__table *table, uint64_t n)
{
    return !table->replayed && table->most <= table->capacity && n <= table->capacity - table->most;
}

static loom_status recount(loom__table *table, uint64_t *keys, loom_stream stream)
{
    RETURN_IF_FAILED(size(table, keys, stream));
    table->most = *keys;
    return LOOM_OK;
}

/* Where partitions cannot be filled whole: through arrays. */
static loom_status refill_directly(loom__table *from, loom__table *to, loom_stream stream)
{
    enum { AT_ONCE = 1 << 20 };
    const loom_allocator *allocator = &from->machine->allocator;
    const uint32_t key_bytes = slot_key_bytes(from->shape.kind), value_bytes = slot_value_bytes(from->shape.kind);
    const size_t bytes = (size_t)AT_ONCE * (key_bytes + value_bytes);
    unsigned char *pairs = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (pairs == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom__position position = {0};
    loom_result result = {0};
    loom__batch batch = {.keys = pairs,
                         .values = value_bytes != 0 ? pairs + (size_t)AT_ONCE * key_bytes : NULL,
                         .write = LOOM__WRITE_KEEP,
                         .result = &result,
                         .stream = stream};
    loom_status status = to->kernels->clear(to->machine, &to->view, stream);
    do {
        if (status == LOOM_OK)
            status = from->kernels->retrieve(from->machine, &from->view, &position, pairs, (void *)batch.values,
                                             AT_ONCE, &batch.n, stream);
        if (status == LOOM_OK && batch.n > 0)
            status = to->kernels->write(to->machine, &to->view, &batch);
    } while (status == LOOM_OK && batch.n > 0 && result.full == 0);
    loom__release(allocator, pairs, bytes, LOOM_MEMORY_TEMPORARY, stream);
    RETURN_ERROR_IF(status == LOOM_OK && result.full > 0, LOOM_FULL, "the keys do not fit");
    return status;
}

static loom_status refill(loom__table *from, loom__table *to, uint64_t keys, loom_stream stream)
{
    uint64_t refused = 0;
    loom_status status = from->kernels->refill(from->machine, &from->view, &to->view, &refused, stream);
    if (status == LOOM_UNSUPPORTED)
        status = refill_directly(from, to, stream);
    RETURN_ERROR_IF(
        status == LOOM_FULL || (status == LOOM_OK && refused > 0), LOOM_FULL,
        "%llu keys did not fit a table for %llu, since too many fell into one partition (their hashes are very "
        "unlucky, or made so); make it larger",
        (unsigned long long)keys, (unsigned long long)to->capacity);
    RETURN_IF_FAILED(status);
    loom__open_totals totals = {.size = keys, .generation = generation_of(to)};
    return to->kernels->reset_totals(to->machine, &to->view, &totals, stream);
}

static loom_status resize(loom__table *table, uint64_t capacity, loom_stream stream)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom__open_shape shape;
    loom__table *made;
    uint64_t keys;
    config.key_bytes = slot_key_bytes(table->shape.kind);
    config.value_bytes = slot_value_bytes(table->shape.kind);
    config.max_load = table->max_load;
    config.type = table->type;
    config.capacity = capacity;
    RETURN_IF_FAILED(loom__open_choose_shape(&config, &shape));
    RETURN_IF_FAILED(size(table, &keys, stream));
    RETURN_IF_FAILED(make_table(table->machine, &shape, capacity, table->max_load, table->view.concurrent_reads,
                                table->type, table->seed, &made, stream));
    made->most = keys;
    loom_status status = refill(table, made, keys, stream);
    if (status == LOOM_OK) {
        loom__table old = *table;
        *table = *made;
        *made = old;
    }
    destroy(made);
    return status;
}

static loom_status build(loom__table *table, const loom__batch *batch)
{
    loom__batch whole = *batch;
    whole.replace = 1;
    RETURN_IF_FAILED(table->kernels->insert_bulk(table->machine, &table->view, &whole));
    table->replayed |= batch->captured != 0;
    table->most = table->worn = 0;
    note_work(table, batch);
    return LOOM_OK;
}

/* A partition is filled by counters if it surely has slots for all that is there and comes; otherwise key by key, which is no
 * faster than directly. */
static int goes_by_partition(const loom__table *table, const loom__batch *batch)
{
    const uint32_t ways = LOOM_BY_PARTITION | LOOM_IN_ORDER | LOOM_DIRECTLY;
    if ((batch->write != LOOM__WRITE_KEEP && batch->write != LOOM__WRITE_OVERWRITE) || batch->flags & ways ||
        batch->status != NULL || table->replayed || table->most > table->shape.slots ||
        batch->n > table->shape.slots - table->most)
        return 0;
    return table->kernels->bulk_pays != NULL && table->kernels->bulk_pays(table->machine, &table->view, batch->n);
}

static loom_status write(loom__table *table, const loom__batch *batch)
{
    int by_partition = (batch->flags & (LOOM_IN_ORDER | LOOM_BY_PARTITION)) != 0 || batch->by_partition;
    RETURN_IF_FAILED(
        (by_partition ? table->kernels->insert_bulk : table->kernels->write)(table->machine, &table->view, batch));
    note_work(table, batch);
    return LOOM_OK;
}

static loom_status find(loom__table *table, const loom__batch *batch)
{
    return table->kernels->find(table->machine, &table->view, batch);
}

static loom_status clear(loom__table *table, loom_stream stream)
{
    table->most = table->worn = 0;
    return table->kernels->clear(table->machine, &table->view, stream);
}

static loom_status clone(loom__table *table, loom__table **made, loom_stream stream)
{
    loom__table *twin;
    RETURN_IF_FAILED(make_table(table->machine, &table->shape, table->capacity, table->max_load,
                                table->view.concurrent_reads, table->type, table->seed, &twin, stream));
    loom_status status = table->machine->ops->copy_table(table->machine, twin->view.base, table->view.base,
                                                         table_memory(&table->shape), stream);
    twin->most = table->replayed ? UINT64_MAX : table->most; /* until somebody counts */
    twin->worn = table->worn;
    if (status != LOOM_OK)
        destroy(twin);
    else
        *made = twin;
    return status;
}

static loom_status retrieve(loom__table *table, loom__position *position, void *keys, void *values, uint64_t room,
                            uint64_t *got, loom_stream stream)
{
    return table->kernels->retrieve(table->machine, &table->view, position, keys, values, room, got, stream);
}

static loom_status survey(loom__table *table, loom__survey *result, loom_stream stream)
{
    return table->kernels->survey(table->machine, &table->view, result, stream);
}

static loom_status count_accesses(loom__table *table, const void *keys, uint64_t n, uint64_t *accesses,
                                  loom_stream stream)
{
    return table->kernels->count_accesses(table->machine, &table->view, keys, n, accesses, stream);
}

static void describe(const loom__table *table, loom__map_image *image, uint32_t *slots_per_bucket,
                     uint64_t *memory_bytes)
{
    *image = (loom__map_image){
        .engine = LOOM_ENGINE_OPEN,
        .layout_version = OPEN_LAYOUT_VERSION,
        .key_bytes = slot_key_bytes(table->shape.kind),
        .value_bytes = slot_value_bytes(table->shape.kind),
        .partitions = table->shape.partitions,
        .buckets = table->shape.buckets,
        .partition_bytes = table->view.partition_bytes,
        .capacity = table->capacity,
        .seed = table->seed,
        .max_load = table->max_load,
        .concurrent_reads = table->view.concurrent_reads,
        .type = table->type,
    };
    *slots_per_bucket = open_slots(table->shape.kind);
    *memory_bytes = sizeof *table + table_memory(&table->shape);
}

static loom_status restore(loom__machine *machine, const loom__map_image *image, loom__table **table,
                           loom_stream stream)
{
    RETURN_IF_FAILED(check_machine(machine));
    RETURN_ERROR_IF(image->layout_version != OPEN_LAYOUT_VERSION, LOOM_FOREIGN_VERSION,
                    "the file holds an open table of layout %u, this library knows layout %d; load it with the version "
                    "that wrote it",
                    image->layout_version, OPEN_LAYOUT_VERSION);
    RETURN_ERROR_IF(image->partitions < OPEN_LEAST_PARTITIONS || image->partitions > OPEN_MOST_PARTITIONS ||
                        image->buckets > OPEN_MOST_BUCKETS || !loom__open_is_prime(image->buckets),
                    LOOM_BAD_FILE, "the file speaks of %u partitions of %u buckets, which no open table has",
                    image->partitions, image->buckets);
    loom__open_shape shape = {
        .kind = slot_kind_of(image->key_bytes, image->value_bytes),
        .partitions = image->partitions,
        .buckets = image->buckets,
    };
    uint64_t partition_bytes = open_partition_bytes(shape.kind, shape.buckets);
    shape.table_bytes = shape.partitions * partition_bytes;
    shape.slots = (uint64_t)shape.partitions * shape.buckets * open_slots(shape.kind);
    RETURN_ERROR_IF(
        image->partition_bytes != partition_bytes || image->size > shape.slots || image->capacity > shape.slots,
        LOOM_BAD_FILE, "the file's sizes contradict each other: %llu bytes per partition, %llu keys of %llu",
        (unsigned long long)image->partition_bytes, (unsigned long long)image->size,
        (unsigned long long)image->capacity);
    return make_table(machine, &shape, image->capacity, image->max_load, image->concurrent_reads, image->type,
                      image->seed, table, stream);
}

static unsigned char *partition(loom__table *table, uint64_t index)
{
    return table->view.base + index * (uint64_t)table->view.partition_bytes;
}

/* A file does not tell how many filter bits are stale. They are taken for as many as there may be: the next one has its
 * partition put in order, which reads no more than loading did. Otherwise a table that is loaded, changed a little and saved,
 * time and again, would wear out. */
static loom_status restored(loom__table *table, uint64_t keys, loom_stream stream)
{
    enum { AT_ONCE = 1024 };
    loom__open_totals totals = {.size = keys, .generation = generation_of(table)};
    uint32_t stale[AT_ONCE];
    RETURN_IF_FAILED(table->kernels->reset_totals(table->machine, &table->view, &totals, stream));
    for (uint32_t i = 0; i < AT_ONCE; i++)
        stale[i] = open_most_stale(&table->view);
    for (uint64_t first = 0; first < table->shape.partitions; first += AT_ONCE) {
        uint64_t left = table->shape.partitions - first, count = left < AT_ONCE ? left : AT_ONCE;
        RETURN_IF_FAILED(table->machine->ops->write_table(table->machine, table->view.stale + first, stale,
                                                          count * sizeof *stale, stream));
    }
    table->most = keys;
    table->worn = most_worn(table);
    return LOOM_OK;
}

const loom__map_engine loom__open_map = {
    .id = LOOM_ENGINE_OPEN,
    .name = "open",
    .memory_required = memory_required,
    .create = create,
    .destroy = destroy,
    .build = build,
    .find = find,
    .write = write,
    .wants_upkeep = wants_upkeep,
    .upkeep = upkeep,
    .lend = lend,
    .take_back = take_back,
    .goes_by_partition = goes_by_partition,
    .surely_fits = surely_fits,
    .recount = recount,
    .resize = resize,
    .clear = clear,
    .clone = clone,
    .size = size,
    .retrieve = retrieve,
    .survey = survey,
    .count_accesses = count_accesses,
    .describe = describe,
    .restore = restore,
    .partition = partition,
    .restored = restored,
};
