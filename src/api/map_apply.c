/* Batches that mix operations, in any order.
 *
 * Some order is asked for, and the library is free to choose it: all rows of one kind, then all of the next. Rows of a
 * kind are copied side by side and go to the table as any batch of that kind. So every engine and every machine has
 * mixed batches, each kind goes the way that is fastest for it, and tables grow as for any insertion. What it costs
 * beside the calls themselves are the copies: for n rows, their kinds are read twice, and 4 bytes written for each; then
 * keys, and the values of rows that store some, are read and written once more, as are the answers.
 *
 * Erasures come first, since they make room, and lookups last. */
#include "api/map_apply.h"

#include "api/check.h"
#include "core/error.h"
#include "core/memory.h"

#include <stdio.h>

static const uint64_t MOST_AT_ONCE = (uint64_t)1 << 31; /* row numbers have 32 bits */
static const uint64_t MOST_BROUGHT = (uint64_t)1 << 24; /* rows of arrays that the machine does not reach */
static const uint64_t MOST_IN_ORDER = (uint64_t)1 << 24;

/* ---- kinds ---- */

typedef struct kind_of_call {
    const char *name;
    loom__map_work work;
    loom__write write;
    loom__access access;
    int takes_values;
} kind_of_call;

static const kind_of_call kinds[LOOM__OPERATIONS] = {
    [LOOM_APPLY_FIND] = {"FIND", loom__map_table_find, LOOM__WRITE_KEEP, LOOM__ACCESS_FIND, 0},
    [LOOM_APPLY_INSERT] = {"INSERT", loom__map_table_write, LOOM__WRITE_KEEP, LOOM__ACCESS_INSERT, 1},
    [LOOM_APPLY_OVERWRITE] = {"OVERWRITE", loom__map_table_write, LOOM__WRITE_OVERWRITE, LOOM__ACCESS_INSERT, 1},
    [LOOM_APPLY_UPDATE] = {"UPDATE", loom__map_table_write, LOOM__WRITE_UPDATE, LOOM__ACCESS_UPDATE, 1},
    [LOOM_APPLY_ERASE] = {"ERASE", loom__map_table_write, LOOM__WRITE_ERASE, LOOM__ACCESS_ERASE, 0},
    [LOOM_APPLY_ADD] = {"ADD", loom__map_table_write, LOOM__WRITE_COMBINE, LOOM__ACCESS_ACCUMULATE, 1},
};

static const uint8_t sequence[LOOM__OPERATIONS] = {LOOM_APPLY_ERASE,     LOOM_APPLY_UPDATE, LOOM_APPLY_INSERT,
                                                   LOOM_APPLY_OVERWRITE, LOOM_APPLY_ADD,    LOOM_APPLY_FIND};

/* The rows of a part by kind, and room to copy the rows of one kind. */
typedef struct sorted_part {
    const loom__application *part;
    uint32_t *rows; /* [n]; those of kind k from firsts[k] on */
    uint64_t counts[LOOM__OPERATIONS + 1];
    uint64_t firsts[LOOM__OPERATIONS + 1];
    const unsigned char *keys, *values; /* where the machine reaches them */
    unsigned char *memory;
    uint64_t bytes;
    unsigned char *own_keys, *own_values, *own_status; /* of one kind; own_values: also those that are found */
} sorted_part;

int loom__apply_brings(const loom__application *part, const void *array)
{
    loom__machine *machine = part->map->handle.context->machine;
    return array != NULL && machine->ops->reaches != NULL && !machine->ops->reaches(machine, array);
}

loom_status loom__apply_bring(const loom__application *part, const unsigned char **array, uint64_t width,
                              unsigned char *room)
{
    loom__machine *machine = part->map->handle.context->machine;
    if (!loom__apply_brings(part, *array))
        return LOOM_OK;
    RETURN_IF_FAILED(machine->ops->write_table(machine, room, *array, part->n * width, part->stream));
    *array = room;
    return LOOM_OK;
}

/* Rows of the most frequent kind that takes values (or of any kind). */
static uint64_t most_of(const sorted_part *sorted, int takes_values)
{
    uint64_t most = 0;
    for (uint32_t kind = 0; kind < LOOM__OPERATIONS; kind++)
        if (sorted->counts[kind] > most && (!takes_values || kinds[kind].takes_values))
            most = sorted->counts[kind];
    return most;
}

static int is_one_kind(const sorted_part *sorted)
{
    return most_of(sorted, 0) == sorted->part->n;
}

/* Takes memory for the rows of one kind after the other, and brings what must be brought. */
static loom_status make_room(sorted_part *sorted)
{
    const loom__application *part = sorted->part;
    const loom_map *map = part->map;
    const uint64_t most = most_of(sorted, 0), stored = most_of(sorted, 1);
    const uint64_t finds = part->found != NULL ? sorted->counts[LOOM_APPLY_FIND] : 0;
    const int brings_keys = loom__apply_brings(part, part->keys);
    const int brings_values = stored > 0 && loom__apply_brings(part, part->values);
    uint64_t bytes = 0;
    const uint64_t keys = loom__apply_place(&bytes, most, map->key_bytes),
                   values = loom__apply_place(&bytes, part->values != NULL && stored > finds ? stored : finds,
                                              map->value_bytes),
                   status = loom__apply_place(&bytes, part->status != NULL ? most : 0, 1),
                   brought_keys = loom__apply_place(&bytes, brings_keys ? part->n : 0, map->key_bytes),
                   brought_values = loom__apply_place(&bytes, brings_values ? part->n : 0, map->value_bytes);
    sorted->memory =
        loom__allocate(&map->handle.context->machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, part->stream);
    if (sorted->memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    sorted->bytes = bytes;
    sorted->own_keys = sorted->memory + keys;
    sorted->own_values = sorted->memory + values;
    sorted->own_status = sorted->memory + status;
    RETURN_IF_FAILED(loom__apply_bring(part, &sorted->keys, map->key_bytes, sorted->memory + brought_keys));
    if (brings_values)
        RETURN_IF_FAILED(loom__apply_bring(part, &sorted->values, map->value_bytes, sorted->memory + brought_values));
    return LOOM_OK;
}

/* Copies the rows of a kind side by side, and points the batch to them. */
static loom_status take_kind(const sorted_part *sorted, uint32_t kind, loom__batch *batch)
{
    const loom__application *part = sorted->part;
    const loom_map *map = part->map;
    loom__machine *machine = map->handle.context->machine;
    const uint32_t *rows = sorted->rows + sorted->firsts[kind];
    const uint32_t number_bytes = sizeof *rows;
    RETURN_IF_FAILED(machine->ops->take_rows(machine, sorted->own_keys, sorted->keys, map->key_bytes, rows,
                                             number_bytes, batch->n, part->stream));
    batch->keys = sorted->own_keys;
    if (batch->values != NULL) {
        RETURN_IF_FAILED(machine->ops->take_rows(machine, sorted->own_values, sorted->values, map->value_bytes, rows,
                                                 number_bytes, batch->n, part->stream));
        batch->values = sorted->own_values;
    }
    if (batch->found_values != NULL)
        batch->found_values = sorted->own_values;
    if (batch->status != NULL)
        batch->status = sorted->own_status;
    return LOOM_OK;
}

/* Copies the answers of a kind to where the caller wants them. */
static loom_status put_answers(const sorted_part *sorted, uint32_t kind, const loom__batch *batch)
{
    const loom__application *part = sorted->part;
    loom__machine *machine = part->map->handle.context->machine;
    const uint32_t *rows = sorted->rows + sorted->firsts[kind];
    if (batch->status != NULL)
        RETURN_IF_FAILED(machine->ops->put_rows(machine, part->status, batch->status, 1, rows, sizeof *rows, batch->n,
                                                part->stream));
    if (batch->found_values != NULL)
        RETURN_IF_FAILED(machine->ops->put_rows(machine, part->found, batch->found_values, part->map->value_bytes, rows,
                                                sizeof *rows, batch->n, part->stream));
    return LOOM_OK;
}

static void add_result(loom_result *sum, const loom_result *part)
{
    sum->keys += part->keys;
    sum->ok += part->ok;
    sum->exists += part->exists;
    sum->not_found += part->not_found;
    sum->full += part->full;
    sum->status = sum->full > 0 ? LOOM_FULL : LOOM_OK;
}

/* `copied`: the rows of the kind lie between those of others. */
static loom_status run_kind(const sorted_part *sorted, uint32_t kind, int copied, loom_result *sum)
{
    const loom__application *part = sorted->part;
    const kind_of_call *call = &kinds[kind];
    loom_result result = {0};
    loom__batch batch = {.keys = part->keys,
                         .values = call->takes_values ? part->values : NULL,
                         .found_values = kind == LOOM_APPLY_FIND ? part->found : NULL,
                         .status = part->status,
                         .n = sorted->counts[kind],
                         .write = call->write,
                         .rule = LOOM__ADD,
                         .result = &result,
                         .stream = part->stream};
    if (part->map->type == LOOM_TYPE_SET && call->write == LOOM__WRITE_OVERWRITE)
        batch.write = LOOM__WRITE_KEEP; /* nothing to overwrite */
    if (batch.write == LOOM__WRITE_OVERWRITE)
        batch.flags = LOOM_OVERWRITE;
    if (copied)
        RETURN_IF_FAILED(take_kind(sorted, kind, &batch));
    const loom__access access = part->parts->access;
    part->parts->access = call->access;
    const loom_status status = loom__parts_run(part->parts, call->work, &batch);
    part->parts->access = access;
    RETURN_IF_FAILED(status);
    add_result(sum, &result);
    return copied ? put_answers(sorted, kind, &batch) : LOOM_OK;
}

static loom_status run_kinds(sorted_part *sorted, loom_result *sum)
{
    const loom__application *part = sorted->part;
    loom__machine *machine = part->map->handle.context->machine;
    uint64_t before = 0;
    RETURN_IF_FAILED(
        machine->ops->sort_operations(machine, part->operations, part->n, sorted->rows, sorted->counts, part->stream));
    for (uint32_t kind = 0; kind <= LOOM__OPERATIONS; kind++) {
        sorted->firsts[kind] = before;
        before += sorted->counts[kind];
    }
    const int copied = !is_one_kind(sorted);
    if (copied && sorted->counts[LOOM__OPERATIONS] < part->n)
        RETURN_IF_FAILED(make_room(sorted));
    for (uint32_t i = 0; i < LOOM__OPERATIONS; i++)
        if (sorted->counts[sequence[i]] > 0)
            RETURN_IF_FAILED(run_kind(sorted, sequence[i], copied, sum));
    return LOOM_OK;
}

loom_status loom__apply_by_kind(const loom__application *part, loom_result *sum)
{
    const loom_allocator *allocator = &part->map->handle.context->machine->allocator;
    sorted_part sorted = {.part = part, .keys = part->keys, .values = part->values};
    const uint64_t bytes = part->n * sizeof *sorted.rows;
    sorted.rows = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, part->stream);
    if (sorted.rows == NULL)
        return LOOM_OUT_OF_MEMORY;
    const loom_status status = run_kinds(&sorted, sum);
    loom__release(allocator, sorted.memory, sorted.bytes, LOOM_MEMORY_TEMPORARY, part->stream);
    loom__release(allocator, sorted.rows, bytes, LOOM_MEMORY_TEMPORARY, part->stream);
    return status;
}

/* ---- parts ---- */

static loom__application part_of(const loom__application *whole, uint64_t first, uint64_t n)
{
    loom__application part = *whole;
    part.operations += first;
    part.keys += first * whole->map->key_bytes;
    part.values = whole->values != NULL ? whole->values + first * whole->map->value_bytes : NULL;
    part.found = whole->found != NULL ? whole->found + first * whole->map->value_bytes : NULL;
    part.status = whole->status != NULL ? whole->status + first : NULL;
    part.n = n;
    return part;
}

/* Runs part after part. sum->keys: rows that are done. */
static loom_status run_parts(const loom__application *whole, int in_order, loom_result *sum)
{
    uint64_t most = in_order ? MOST_IN_ORDER : MOST_AT_ONCE;
    if (most > MOST_BROUGHT && (loom__apply_brings(whole, whole->keys) || loom__apply_brings(whole, whole->values)))
        most = MOST_BROUGHT;
    for (uint64_t first = 0, n; first < whole->n; first += n) {
        loom_result done = {0};
        n = whole->n - first < most ? whole->n - first : most;
        const loom__application part = part_of(whole, first, n);
        const loom_status status = (in_order ? loom__apply_in_order : loom__apply_by_kind)(&part, &done);
        if (status == LOOM_OUT_OF_MEMORY && done.keys == 0 && n > 1) {
            most = n / 2;
            n = 0;
            continue;
        }
        add_result(sum, &done);
        RETURN_IF_FAILED(status);
    }
    return LOOM_OK;
}

/* ---- checks ---- */

loom_status loom__apply_check_engine(const loom__engine *engine)
{
    const int has_lists = (engine->options & LOOM__OPTION_LISTS) != 0; /* it moves lists, which is no hindrance */
    RETURN_ERROR_IF(
        engine->moves_keys && !has_lists, LOOM_UNSUPPORTED,
        "tables of the %s engine take no mixed batches; call insert, find and erase one after the other, or "
        "use another engine",
        engine->name);
    return LOOM_OK;
}

static loom_status check_table(loom_map *map, uint32_t flags, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__apply_check_engine(map->handle.table->engine));
    RETURN_ERROR_IF(map->variable != 0, LOOM_UNSUPPORTED,
                    "tables with byte strings take no mixed batches; call insert, find and erase one after the other");
    RETURN_ERROR_IF(flags & ~(uint32_t)LOOM_IN_ORDER, LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: only LOOM_IN_ORDER is known to loom_map_apply", flags);
    return LOOM_OK;
}

/* Whether this type of table has the operation. */
static loom_status check_kind(const loom_map *map, uint32_t kind, const void *values)
{
    const int of_set = kind != LOOM_APPLY_UPDATE && kind != LOOM_APPLY_ADD;
    const int of_multimap = kind == LOOM_APPLY_FIND || kind == LOOM_APPLY_INSERT || kind == LOOM_APPLY_ERASE;
    const int is_number = map->value_bytes == 4 || map->value_bytes == 8;
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET && !of_set, LOOM_UNSUPPORTED,
                    "LOOM_APPLY_%s: a set has no values; use a map or a counter", kinds[kind].name);
    RETURN_ERROR_IF(map->type == LOOM_TYPE_MULTIMAP && !of_multimap, LOOM_UNSUPPORTED,
                    "LOOM_APPLY_%s: a key of a multimap has many values, and the operation is about one; use a map, or "
                    "FIND, INSERT and ERASE",
                    kinds[kind].name);
    RETURN_ERROR_IF(kind == LOOM_APPLY_ADD && !is_number, LOOM_UNSUPPORTED,
                    "LOOM_APPLY_ADD: values of %u bytes are no numbers; it needs values of 4 or 8", map->value_bytes);
    RETURN_ERROR_IF(kinds[kind].takes_values && map->type != LOOM_TYPE_SET && values == NULL, LOOM_INVALID_ARGUMENT,
                    "values is NULL, but the batch has rows with LOOM_APPLY_%s, which take values", kinds[kind].name);
    return LOOM_OK;
}

/* Every row asks for something that the table can do. Waits. */
static loom_status check_operations(const loom__application *whole)
{
    loom__machine *machine = whole->map->handle.context->machine;
    uint64_t counts[LOOM__OPERATIONS + 1], n;
    for (uint64_t first = 0; first < whole->n; first += n) {
        n = whole->n - first < MOST_AT_ONCE ? whole->n - first : MOST_AT_ONCE;
        RETURN_IF_FAILED(
            machine->ops->sort_operations(machine, whole->operations + first, n, NULL, counts, whole->stream));
        RETURN_ERROR_IF(counts[LOOM__OPERATIONS] > 0, LOOM_INVALID_ARGUMENT,
                        "%llu of the operations are none of LOOM_APPLY_FIND, INSERT, OVERWRITE, UPDATE, ERASE and ADD",
                        (unsigned long long)counts[LOOM__OPERATIONS]);
        for (uint32_t kind = 0; kind < LOOM__OPERATIONS; kind++)
            if (counts[kind] > 0)
                RETURN_IF_FAILED(check_kind(whole->map, kind, whole->values));
    }
    return LOOM_OK;
}

/* ---- the call ---- */

/* A part failed: tells what is done. */
static loom_status tell_done(const loom__application *whole, loom_status status, loom_result *sum, loom_result *result)
{
    char why[200];
    snprintf(why, sizeof why, "%s", loom_last_error());
    sum->status = (int32_t)status;
    if (result != NULL)
        (void)loom__handle_tell(&whole->map->handle, sum, result, whole->stream);
    return loom__fail(status, "%llu of %llu operations are done, and the others are not: %s",
                      (unsigned long long)sum->keys, (unsigned long long)whole->n, why);
}

loom_status loom_map_apply(loom_map *map, const uint8_t *operations, const void *keys, const void *values, uint64_t n,
                           uint32_t flags, void *found, uint8_t *status, loom_result *result, loom_stream stream)
{
    RETURN_IF_FAILED(check_table(map, flags, stream));
    RETURN_IF_FAILED(loom__map_check_values(map, values));
    RETURN_IF_FAILED(loom__map_check_values(map, found));
    const loom__array arrays[] = {
        {.name = "operations", .at = operations, .width = 1},
        {.name = "keys", .at = keys, .width = map->key_bytes},
        {.name = "values", .at = values, .width = map->value_bytes, .optional = 1},
        {.name = "found", .at = found, .width = map->value_bytes, .optional = 1, .written = 1},
        {.name = "status", .at = status, .width = 1, .optional = 1, .written = 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, sizeof arrays / sizeof *arrays, n));
    loom__parts parts = {.map = map, .access = LOOM__ACCESS_ALONE};
    const loom__application whole = {map, &parts, operations, keys, values, found, status, n, stream};
    loom_result sum = {0};
    RETURN_IF_FAILED(check_operations(&whole));
    RETURN_IF_FAILED(loom__parts_begin(&parts, stream));
    const loom_status outcome = run_parts(&whole, (flags & LOOM_IN_ORDER) != 0, &sum);
    loom__parts_end(&parts, sum.keys, stream);
    if (outcome != LOOM_OK && (sum.keys > 0 || parts.wrote))
        return tell_done(&whole, outcome, &sum, result);
    RETURN_IF_FAILED(outcome);
    if (result != NULL)
        return loom__handle_tell(&map->handle, &sum, result, stream);
    return loom__map_status_of(map, &sum, "");
}
