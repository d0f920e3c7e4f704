/* Batches that mix operations, in their own order (LOOM_IN_ORDER).
 *
 * Rows with equal keys are brought together by sorting their hashes, and each key is looked up once. Then the sequence
 * of a key's operations is worked out without the table (core/operations.h), which answers all rows. What remains to do
 * is at most one write for each key. These writes are a batch without equal keys, and go by kind.
 *
 * If the table has no room for a key, its net effect is refused: then the rows are answered once more, as if the key
 * had never been stored. */
#include "api/map_apply.h"

#include "core/error.h"
#include "core/memory.h"

enum { SEEDS = 4 /* that are tried until no two keys have the same hash */ };

/* Arrays of a part: for each row, and then for each key. */
typedef struct ordered_part {
    const loom__application *part;
    loom__machine *machine;
    const unsigned char *operations, *keys, *values; /* where the machine reaches them */
    int brings_status, brings_found;                 /* the answers are copied to the caller at the end */
    unsigned char *memory[2];
    uint64_t bytes[2];
    uint64_t *hashes;
    uint32_t *firsts;
    unsigned char *distinct_keys, *stays;
    loom__sequences sequences;
} ordered_part;

static void *take_memory(ordered_part *own, int i, uint64_t bytes)
{
    own->memory[i] = loom__allocate(&own->machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, own->part->stream);
    own->bytes[i] = bytes;
    return own->memory[i];
}

/* What each row needs; and brings what must be brought. */
static loom_status prepare_rows(ordered_part *own)
{
    const loom__application *part = own->part;
    const loom_map *map = part->map;
    const uint64_t n = part->n;
    const int multimap = map->type == LOOM_TYPE_MULTIMAP;
    uint64_t bytes = 0;
    own->brings_status = part->status == NULL || loom__apply_brings(part, LOOM__APPLIED_STATUS);
    own->brings_found = loom__apply_brings(part, LOOM__APPLIED_FOUND);
    const uint64_t hashes = loom__place_array(&bytes, n, sizeof(uint64_t)),
                   rows = loom__place_array(&bytes, n, sizeof(uint32_t)),
                   groups = loom__place_array(&bytes, n, sizeof(uint32_t)),
                   firsts = loom__place_array(&bytes, n, sizeof(uint32_t)),
                   status = loom__place_array(&bytes, own->brings_status ? n : 0, 1),
                   found = loom__place_array(&bytes, own->brings_found ? n : 0, map->value_bytes),
                   stays = loom__place_array(&bytes, multimap ? n : 0, 1),
                   operations =
                       loom__place_array(&bytes, loom__apply_brings(part, LOOM__APPLIED_OPERATIONS) ? n : 0, 1),
                   keys =
                       loom__place_array(&bytes, loom__apply_brings(part, LOOM__APPLIED_KEYS) ? n : 0, map->key_bytes),
                   values = loom__place_array(&bytes, loom__apply_brings(part, LOOM__APPLIED_VALUES) ? n : 0,
                                              map->value_bytes);
    unsigned char *memory = take_memory(own, 0, bytes);
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    own->hashes = (uint64_t *)(void *)(memory + hashes);
    own->firsts = (uint32_t *)(void *)(memory + firsts);
    own->stays = multimap ? memory + stays : NULL;
    own->operations = part->operations;
    own->keys = part->keys;
    own->values = part->values;
    RETURN_IF_FAILED(loom__apply_bring(part, LOOM__APPLIED_OPERATIONS, &own->operations, 1, memory + operations));
    RETURN_IF_FAILED(loom__apply_bring(part, LOOM__APPLIED_KEYS, &own->keys, map->key_bytes, memory + keys));
    RETURN_IF_FAILED(loom__apply_bring(part, LOOM__APPLIED_VALUES, &own->values, map->value_bytes, memory + values));
    if (own->brings_found) /* rows that are no lookups keep what is there */
        RETURN_IF_FAILED(own->machine->ops->write_table(own->machine, memory + found, part->found, n * map->value_bytes,
                                                        part->stream));
    own->sequences = (loom__sequences){.operations = own->operations,
                                       .values = own->values,
                                       .value_bytes = map->value_bytes,
                                       .multimap = (uint32_t)multimap,
                                       .n = n,
                                       .rows = (uint32_t *)(void *)(memory + rows),
                                       .groups = (uint32_t *)(void *)(memory + groups),
                                       .status = own->brings_status ? memory + status : part->status,
                                       .found = own->brings_found ? memory + found : part->found,
                                       .stays = own->stays};
    return LOOM_OK;
}

/* Brings the rows of each key together. *collide: several keys have the same hash, with every seed that was tried. */
static loom_status group_keys(ordered_part *own, int *collide)
{
    const loom__application *part = own->part;
    loom__machine *machine = own->machine;
    const uint32_t key_bytes = part->map->key_bytes;
    const uint64_t seed = part->map->handle.table->is.seed;
    uint32_t *rows = (uint32_t *)(uintptr_t)own->sequences.rows, *groups = (uint32_t *)(uintptr_t)own->sequences.groups;
    *collide = 1;
    for (uint64_t i = 0; i < SEEDS && *collide; i++) {
        RETURN_IF_FAILED(
            machine->ops->hash_keys(machine, own->keys, key_bytes, part->n, seed + i, own->hashes, part->stream));
        RETURN_IF_FAILED(machine->ops->sort_hashes(machine, own->hashes, part->n, rows, part->stream));
        RETURN_IF_FAILED(machine->ops->group_rows(machine, own->hashes, rows, own->keys, key_bytes, part->n, groups,
                                                  own->firsts, &own->sequences.keys, collide, part->stream));
    }
    return LOOM_OK;
}

/* Machines that do not work in host memory join effects there. The memory is taken before the table changes;
 * what a scan takes besides is little. */
static uint64_t effect_rows(const ordered_part *own)
{
    return own->machine->ops->reaches != NULL ? own->part->n : 0;
}

/* What each key needs. */
static loom_status prepare_keys(ordered_part *own)
{
    const loom_map *map = own->part->map;
    const uint64_t keys = own->sequences.keys;
    const int multimap = map->type == LOOM_TYPE_MULTIMAP;
    uint64_t bytes = 0;
    const uint64_t distinct = loom__place_array(&bytes, keys, map->key_bytes),
                   held = loom__place_array(&bytes, keys, 1),
                   held_values = loom__place_array(&bytes, keys, map->value_bytes),
                   net = loom__place_array(&bytes, keys, 1),
                   net_values = loom__place_array(&bytes, multimap ? 0 : keys, map->value_bytes),
                   erased = loom__place_array(&bytes, multimap ? keys : 0, sizeof(uint32_t)),
                   effects = loom__place_array(&bytes, effect_rows(own), sizeof(loom__effect));
    unsigned char *memory = take_memory(own, 1, bytes);
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    own->distinct_keys = memory + distinct;
    own->sequences.held = memory + held;
    own->sequences.held_values = map->value_bytes > 0 ? memory + held_values : NULL;
    own->sequences.net = memory + net;
    own->sequences.net_values = map->value_bytes > 0 && !multimap ? memory + net_values : NULL;
    own->sequences.effects = (loom__effect *)(void *)(memory + effects);
    own->sequences.erased = multimap ? (uint32_t *)(void *)(memory + erased) : NULL;
    return LOOM_OK;
}

/* Looks each key up. */
static loom_status find_keys(ordered_part *own)
{
    const loom__application *part = own->part;
    const loom_map *map = part->map;
    loom_result result = {0};
    RETURN_IF_FAILED(own->machine->ops->take_rows(own->machine, own->distinct_keys, own->keys, map->key_bytes,
                                                  own->firsts, sizeof *own->firsts, own->sequences.keys, part->stream));
    loom__batch batch = {.keys = own->distinct_keys,
                         .found_values = (void *)(uintptr_t)own->sequences.held_values,
                         .status = (uint8_t *)(uintptr_t)own->sequences.held,
                         .n = own->sequences.keys,
                         .result = &result,
                         .stream = part->stream};
    const loom__access access = part->parts->access;
    part->parts->access = LOOM__ACCESS_FIND;
    const loom_status status = loom__parts_run(part->parts, loom__map_table_find, &batch);
    part->parts->access = access;
    return status;
}

/* Does what is left to do. Statuses take the place of operations. *refused: a key, or a value of a multimap, found no
 * room. */
static loom_status write_net(ordered_part *own, int *refused)
{
    const loom__application *part = own->part;
    const loom__sequences *all = &own->sequences;
    loom_result of_keys = {0}, of_rows = {0};
    loom__application net = *part;
    net.operations = net.status = all->net;
    net.keys = own->distinct_keys;
    net.values = all->net_values;
    net.found = NULL;
    net.counts = NULL;
    net.brings = 0;
    net.equal_in_order = 1;
    net.n = all->keys;
    RETURN_IF_FAILED(loom__apply_by_kind(&net, &of_keys));
    if (all->multimap) {
        net.operations = net.status = own->stays;
        net.keys = own->keys;
        net.values = own->values;
        net.n = all->n;
        RETURN_IF_FAILED(loom__apply_by_kind(&net, &of_rows));
    }
    *refused = of_keys.full + of_rows.full > 0;
    return LOOM_OK;
}

static loom_status give_answers(const ordered_part *own)
{
    const loom__application *part = own->part;
    loom__machine *machine = own->machine;
    if (own->brings_status && part->status != NULL)
        RETURN_IF_FAILED(machine->ops->read_table(machine, part->status, own->sequences.status, part->n, part->stream));
    if (own->brings_found)
        RETURN_IF_FAILED(machine->ops->read_table(machine, part->found, own->sequences.found,
                                                  part->n * part->map->value_bytes, part->stream));
    return LOOM_OK;
}

static loom_status run_sequences(ordered_part *own, loom_result *sum)
{
    loom__machine *machine = own->machine;
    loom_stream stream = own->part->stream;
    uint64_t counts[LOOM__APPLIED_STATUSES];
    int refused = 0;
    RETURN_IF_FAILED(machine->ops->run_sequences(machine, &own->sequences, counts, stream));
    RETURN_IF_FAILED(write_net(own, &refused));
    if (refused) {
        own->sequences.refused = own->sequences.multimap ? own->stays : own->sequences.net;
        RETURN_IF_FAILED(machine->ops->run_sequences(machine, &own->sequences, counts, stream));
    }
    sum->keys += own->part->n;
    sum->ok += counts[LOOM_OK];
    sum->exists += counts[LOOM_EXISTS];
    sum->not_found += counts[LOOM_NOT_FOUND];
    sum->full += counts[LOOM_FULL];
    return give_answers(own);
}

/* *collide: nothing was done, since several keys have the same hash. */
static loom_status run_part(ordered_part *own, int *collide, loom_result *sum)
{
    RETURN_IF_FAILED(prepare_rows(own));
    RETURN_IF_FAILED(group_keys(own, collide));
    if (*collide)
        return LOOM_OK;
    RETURN_IF_FAILED(prepare_keys(own));
    RETURN_IF_FAILED(find_keys(own));
    return run_sequences(own, sum);
}

loom_status loom__apply_in_order(const loom__application *part, loom_result *sum)
{
    ordered_part own = {.part = part, .machine = part->map->handle.context->machine};
    int collide = 0;
    loom_status status = run_part(&own, &collide, sum);
    for (int i = 0; i < 2; i++)
        loom__release(&own.machine->allocator, own.memory[i], own.bytes[i], LOOM_MEMORY_TEMPORARY, part->stream);
    /* OUT_OF_MEMORY without a row that is done: half of the rows have fewer keys. One row has no other beside it. */
    return status == LOOM_OK && collide ? loom__fail(LOOM_OUT_OF_MEMORY, "several keys have the same hash") : status;
}
