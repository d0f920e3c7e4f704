/* The perfect engine as a map: tables made, cloned, described, restored. The algorithms are in perfect_ops.h, perfect_recode.h and
 * perfect_room.h,
 * the bytes in perfect_layout.h, the sizes in perfect_shape.c; bulk work is the machine's (perfect_kernels.h). */
#include "core/error.h"
#include "core/memory.h"
#include "engines/perfect/perfect_kernels.h"

#include <string.h>

struct loom__table {
    loom__machine *machine;
    const loom__perfect_kernels *kernels;
    loom__perfect_shape shape;
    loom__perfect_view view;
    uint64_t capacity, seed;
    double max_load;
    loom_type type;
    uint64_t most; /* keys that the table may hold: as many as were given to it */
};

/* Partitions, totals, marks. */
static uint64_t table_memory(const loom__perfect_shape *shape)
{
    return shape->table_bytes + sizeof(loom__perfect_totals) + shape->partitions * sizeof(uint32_t);
}

/* Tables that get the same memory one after the other have different ones, if their seeds or capacities differ. */
static uint64_t generation_of(const loom__table *table)
{
    return loom__mix64(loom__mix64(table->seed + 5 * 0x9e3779b97f4a7c15u) + table->capacity);
}

/* A table with memory, whose contents are still whatever was there. */
static loom_status make_table(loom__machine *machine, const loom__perfect_shape *shape, uint64_t capacity,
                              double max_load, loom_type type, uint64_t seed, loom__table **made, loom_stream stream)
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
        .kernels = machine->perfect,
        .shape = *shape,
        .view = loom__perfect_view_make(shape, seed),
        .capacity = capacity,
        .seed = seed,
        .max_load = max_load,
        .type = type,
    };
    table->view.base = memory;
    table->view.codes = (uint64_t *)(memory + shape->partitions * (uint64_t)table->view.partition_bytes);
    table->view.totals = (loom__perfect_totals *)(memory + shape->table_bytes);
    table->view.marks = (uint32_t *)(table->view.totals + 1);
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
    RETURN_ERROR_IF(machine->perfect == NULL, LOOM_UNSUPPORTED,
                    "the %s machine does not offer the perfect engine; use LOOM_ENGINE_OPEN, or the cpu machine",
                    machine->ops->name);
    return LOOM_OK;
}

static loom_status memory_required(loom__machine *machine, const loom_map_config *config, loom_memory *memory)
{
    loom__perfect_shape shape;
    RETURN_IF_FAILED(check_machine(machine));
    RETURN_IF_FAILED(loom__perfect_choose_shape(config, machine->cache_bytes, &shape));
    const loom__perfect_kernels *kernels = machine->perfect;
    loom__perfect_view view = loom__perfect_view_make(&shape, 0);
    memory->table_bytes = sizeof(loom__table) + table_memory(&shape);
    memory->build_bytes = kernels->bulk_bytes(machine, &view, config->capacity, LOOM_KEEP, 0);
    memory->status_bytes = kernels->bulk_bytes(machine, &view, config->capacity, LOOM_KEEP, 1);
    memory->order_bytes = kernels->bulk_bytes(machine, &view, config->capacity, LOOM_IN_ORDER, 1);
    memory->low_memory_bytes = kernels->bulk_bytes(machine, &view, config->capacity, LOOM_LOW_MEMORY, 0);
    return LOOM_OK;
}

static loom_status create(loom__machine *machine, const loom_map_config *config, uint64_t seed, loom__table **made)
{
    loom__perfect_shape shape;
    loom__table *table;
    RETURN_IF_FAILED(check_machine(machine));
    RETURN_ERROR_IF(config->concurrent_reads, LOOM_UNSUPPORTED,
                    "in a perfect table keys move while others are inserted, so lookups wait; concurrent_reads is for "
                    "LOOM_ENGINE_OPEN");
    RETURN_IF_FAILED(loom__perfect_choose_shape(config, machine->cache_bytes, &shape));
    RETURN_IF_FAILED(make_table(machine, &shape, config->capacity, config->max_load, config->type, seed, &table, NULL));
    loom_status status = table->kernels->clear(machine, &table->view, NULL);
    loom__perfect_totals totals = {.generation = generation_of(table)};
    if (status == LOOM_OK) /* waits: the table must be there for every stream */
        status = table->kernels->reset_totals(machine, &table->view, &totals, NULL);
    if (status != LOOM_OK)
        destroy(table);
    else
        *made = table;
    return status;
}

/* Nothing wears out: codes are as good as new after any number of erasures. */
static int wants_upkeep(const loom__table *table)
{
    (void)table;
    return 0;
}

static loom_status upkeep(loom__table *table, loom_stream stream)
{
    (void)table;
    (void)stream;
    return LOOM_OK;
}

/* For lookups alone: an insertion may have to move any key of its partition, which needs the partition's owner and memory that
 * kernels of users do not have. */
static loom_status lend(loom__table *table, loom_map_view *view)
{
    _Static_assert(sizeof table->view <= sizeof view->table, "a public view holds one of ours");
    loom__machine *machine = table->machine;
    RETURN_IF_FAILED(machine->ops->supports(machine, LOOM_FEATURE_VIEWS));
    RETURN_ERROR_IF(view->access != LOOM_VIEW_FIND, LOOM_UNSUPPORTED,
                    "kernels may look keys up in a perfect table (LOOM_VIEW_FIND), not insert: keys move when others "
                    "come; insert with the bulk calls, or use LOOM_ENGINE_OPEN");
    view->layout = LOOM_PERFECT_VIEW_LAYOUT;
    view->key_bytes = slot_key_bytes(table->shape.kind);
    view->value_bytes = slot_value_bytes(table->shape.kind);
    view->generation = generation_of(table);
    memset(view->table, 0, sizeof view->table);
    memcpy(view->table, &table->view, sizeof table->view);
    return LOOM_OK;
}

/* Lookups leave nothing behind. */
static loom_status take_back(loom__table *table, const loom_map_view *view, loom_stream stream)
{
    (void)table;
    (void)view;
    (void)stream;
    return LOOM_OK;
}

static loom_status size(loom__table *table, uint64_t *keys, loom_stream stream)
{
    return table->machine->ops->read_table(table->machine, keys, &table->view.totals->size, sizeof *keys, stream);
}

static int surely_fits(const loom__table *table, uint64_t n)
{
    return table->most <= table->capacity && n <= table->capacity - table->most;
}

static loom_status recount(loom__table *table, uint64_t *keys, loom_stream stream)
{
    RETURN_IF_FAILED(size(table, keys, stream));
    table->most = *keys;
    return LOOM_OK;
}

static loom_status refill(loom__table *from, loom__table *to, uint64_t keys, loom_stream stream)
{
    uint64_t refused = 0;
    RETURN_IF_FAILED(from->kernels->refill(from->machine, &from->view, &to->view, &refused, stream));
    RETURN_ERROR_IF(
        refused > 0, LOOM_FULL,
        "%llu keys did not fit a table for %llu, since too many fell into one partition (their hashes are very "
        "unlucky, or made so); make it larger",
        (unsigned long long)keys, (unsigned long long)to->capacity);
    loom__perfect_totals totals = {.size = keys, .generation = generation_of(to)};
    return to->kernels->reset_totals(to->machine, &to->view, &totals, stream);
}

static loom_status resize(loom__table *table, uint64_t capacity, loom_stream stream)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom__perfect_shape shape;
    loom__table *made;
    uint64_t keys;
    config.key_bytes = slot_key_bytes(table->shape.kind);
    config.value_bytes = slot_value_bytes(table->shape.kind);
    config.max_load = table->max_load;
    config.type = table->type;
    config.capacity = capacity;
    RETURN_IF_FAILED(loom__perfect_choose_shape(&config, table->machine->cache_bytes, &shape));
    RETURN_IF_FAILED(size(table, &keys, stream));
    RETURN_IF_FAILED(
        make_table(table->machine, &shape, capacity, table->max_load, table->type, table->seed, &made, stream));
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

static void note_work(loom__table *table, const loom__batch *batch)
{
    if (batch->write != LOOM__WRITE_ERASE && batch->write != LOOM__WRITE_UPDATE)
        table->most = batch->n > UINT64_MAX - table->most ? UINT64_MAX : table->most + batch->n;
}

static loom_status build(loom__table *table, const loom__batch *batch)
{
    loom__batch whole = *batch;
    whole.replace = 1;
    RETURN_ERROR_IF(batch->captured, LOOM_UNSUPPORTED,
                    "a perfect table cannot be built in a captured stream; build outside of the graph");
    RETURN_IF_FAILED(table->kernels->write(table->machine, &table->view, &whole));
    table->most = 0;
    note_work(table, batch);
    return LOOM_OK;
}

/* Insertions may move any key of a partition, so each has the table alone. */
static int goes_by_partition(const loom__table *table, const loom__batch *batch)
{
    (void)table;
    (void)batch;
    return 1;
}

static loom_status write(loom__table *table, const loom__batch *batch)
{
    RETURN_IF_FAILED(table->kernels->write(table->machine, &table->view, batch));
    note_work(table, batch);
    return LOOM_OK;
}

static loom_status find(loom__table *table, const loom__batch *batch)
{
    return table->kernels->find(table->machine, &table->view, batch);
}

static loom_status clear(loom__table *table, loom_stream stream)
{
    table->most = 0;
    return table->kernels->clear(table->machine, &table->view, stream);
}

static loom_status clone(loom__table *table, loom__table **made, loom_stream stream)
{
    loom__table *twin;
    RETURN_IF_FAILED(make_table(table->machine, &table->shape, table->capacity, table->max_load, table->type,
                                table->seed, &twin, stream));
    loom_status status = table->machine->ops->copy_table(table->machine, twin->view.base, table->view.base,
                                                         table_memory(&table->shape), stream);
    twin->most = table->most;
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
        .engine = LOOM_ENGINE_PERFECT,
        .layout_version = PERFECT_LAYOUT_VERSION,
        .key_bytes = slot_key_bytes(table->shape.kind),
        .value_bytes = slot_value_bytes(table->shape.kind),
        .partitions = table->shape.partitions,
        .buckets = perfect_buckets(table->shape.subrange),
        .partition_bytes = table->view.partition_bytes,
        .capacity = table->capacity,
        .seed = table->seed,
        .max_load = table->max_load,
        .type = table->type,
        .keys_per_cell = loom__perfect_keys_per_cell(&table->shape, table->max_load),
        .words = table->shape.words,
        .further_pieces = perfect_code_pieces(table->view.partition_bytes, table->shape.partitions, table->shape.words),
    };
    *slots_per_bucket = perfect_slots(table->shape.kind);
    *memory_bytes = sizeof *table + table_memory(&table->shape);
}

static loom_status restore(loom__machine *machine, const loom__map_image *image, loom__table **table,
                           loom_stream stream)
{
    RETURN_IF_FAILED(check_machine(machine));
    RETURN_ERROR_IF(
        image->layout_version != PERFECT_LAYOUT_VERSION, LOOM_FOREIGN_VERSION,
        "the file holds a perfect table of layout %u, this library knows layout %d; load it with the version "
        "that wrote it",
        image->layout_version, PERFECT_LAYOUT_VERSION);
    RETURN_ERROR_IF(image->partitions < PERFECT_LEAST_PARTITIONS || image->partitions > PERFECT_MOST_PARTITIONS ||
                        image->buckets < perfect_buckets(1) ||
                        image->buckets > perfect_buckets(PERFECT_MOST_SUBRANGE) ||
                        image->buckets % PERFECT_SUBRANGES != 1,
                    LOOM_BAD_FILE, "the file speaks of %u partitions of %u buckets, which no perfect table has",
                    image->partitions, image->buckets);
    loom__perfect_shape shape = {
        .kind = slot_kind_of(image->key_bytes, image->value_bytes),
        .partitions = image->partitions,
        .subrange = image->buckets / PERFECT_SUBRANGES,
    };
    const uint64_t bytes = perfect_partition_bytes(shape.kind, shape.subrange);
    shape.slots = (uint64_t)shape.partitions * image->buckets * perfect_slots(shape.kind);
    RETURN_ERROR_IF(
        image->words == 0 || image->words > PERFECT_MOST_WORDS || image->partition_bytes != bytes ||
            image->further_pieces != perfect_code_pieces(bytes, shape.partitions, (uint32_t)image->words) ||
            image->size > shape.slots || image->capacity > shape.slots,
        LOOM_BAD_FILE,
        "the file's sizes contradict each other: %llu bytes per partition, %llu words of codes, %llu keys of %llu",
        (unsigned long long)image->partition_bytes, (unsigned long long)image->words, (unsigned long long)image->size,
        (unsigned long long)image->capacity);
    shape.words = (uint32_t)image->words;
    shape.table_bytes = (shape.partitions + image->further_pieces) * bytes;
    return make_table(machine, &shape, image->capacity, image->max_load, image->type, image->seed, table, stream);
}

static unsigned char *partition(loom__table *table, uint64_t index)
{
    return table->view.base + index * (uint64_t)table->view.partition_bytes;
}

static loom_status restored(loom__table *table, uint64_t keys, loom_stream stream)
{
    loom__perfect_totals totals = {.size = keys, .generation = generation_of(table)};
    table->most = keys;
    return table->kernels->reset_totals(table->machine, &table->view, &totals, stream);
}

const loom__map_engine loom__perfect_map = {
    .id = LOOM_ENGINE_PERFECT,
    .name = "perfect",
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
