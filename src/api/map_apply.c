/* Batches that mix operations, in any order.
 *
 * Some order is asked for, and the library is free to choose it: all rows of one kind, then all of the next. Rows of a
 * kind are copied side by side and go to the table as any batch of that kind. So every engine and every machine has
 * mixed batches, each kind goes the way that is fastest for it, and tables grow as for any insertion.
 *
 * What it costs beside the calls themselves are the copies. The operations are read three times: to check and count
 * them, to bring rows together, and to bring answers back. Keys and values are read and written once more, as are the
 * answers. For pairs of 4 + 4 bytes, half of them insertions and half lookups, this makes 21 bytes for each row, in
 * order of addresses.
 *
 * Erasures come first, since they make room, and lookups last. */
#include "api/map_apply.h"

#include "api/check.h"
#include "core/error.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

static const uint64_t MOST_AT_ONCE = (uint64_t)1 << 31; /* row numbers have 32 bits */
static const uint64_t MOST_BROUGHT = (uint64_t)1 << 24; /* rows of arrays that the machine does not reach */
static const uint64_t MOST_IN_ORDER = (uint64_t)1 << 24;

/* The rows of a kind begin at a multiple of this, so that kernels read them in pieces of 16 bytes. */
enum { KIND_ALIGNMENT = 64 };

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

/* The rows of a part in the order of their kinds. Rows of kind k are order.firsts[k] and those behind it. */
typedef struct sorted_part {
    const loom__application *part;
    loom__kind_order order;
    uint64_t counts[LOOM__KINDS];
    uint32_t *places; /* taken for this part; NULL: it was counted before */
    unsigned char *memory;
    uint64_t bytes;
    const unsigned char *from_keys, *from_values; /* as they come, where the machine reaches them */
    unsigned char *keys, *values, *status;        /* in order. `values`: also those that are found; NULL: nobody asks */
    unsigned char *to_status, *to_found;          /* answers as they go, where the machine reaches them */
} sorted_part;

loom_status loom__apply_bring(const loom__application *part, loom__applied_array which, const unsigned char **array,
                              uint64_t width, unsigned char *room)
{
    loom__machine *machine = part->map->handle.context->machine;
    if (!loom__apply_brings(part, which))
        return LOOM_OK;
    RETURN_IF_FAILED(machine->ops->write_table(machine, room, *array, part->n * width, part->stream));
    *array = room;
    return LOOM_OK;
}

/* The kind that all rows have, or LOOM__KINDS if they differ. */
static uint32_t only_kind(const uint64_t counts[LOOM__KINDS], uint64_t n)
{
    uint32_t kind = 0;
    while (kind < LOOM__KINDS && counts[kind] < n)
        kind++;
    return kind;
}

static uint64_t bytes_of_places(uint64_t n)
{
    return loom__kind_places(n) * sizeof(uint32_t);
}

static uint32_t *take_places(const loom__application *part)
{
    return loom__allocate(&part->map->handle.context->machine->allocator, bytes_of_places(part->n),
                          LOOM_MEMORY_TEMPORARY, part->stream);
}

static void release_places(loom_context *context, const loom__application *part, uint32_t *places)
{
    loom__release(&context->machine->allocator, places, bytes_of_places(part->n), LOOM_MEMORY_TEMPORARY, part->stream);
}

/* Counts the rows of each kind, and finds out where they go. */
static loom_status count_rows(sorted_part *sorted)
{
    const loom__application *part = sorted->part;
    loom__machine *machine = part->map->handle.context->machine;
    if (part->counts != NULL && part->places != NULL) {
        memcpy(sorted->counts, part->counts, sizeof sorted->counts);
        sorted->order.places = part->places;
        return LOOM_OK;
    }
    sorted->places = sorted->order.places = take_places(part);
    if (sorted->places == NULL)
        return LOOM_OUT_OF_MEMORY;
    return machine->ops->count_operations(machine, part->operations, part->n, sorted->places, sorted->counts,
                                          part->stream);
}

/* Where the rows of each kind begin. Returns how many places there are. */
static uint64_t lay_out(sorted_part *sorted)
{
    uint64_t rows = 0;
    for (uint32_t kind = 0; kind < LOOM__OPERATIONS; kind++) {
        sorted->order.firsts[kind] = rows;
        rows += (sorted->counts[kind] + KIND_ALIGNMENT - 1) / KIND_ALIGNMENT * KIND_ALIGNMENT;
    }
    sorted->order.firsts[LOOM__OPERATIONS] = rows; /* nobody moves these */
    return rows;
}

static uint64_t brought_rows(const loom__application *part, loom__applied_array which)
{
    return loom__apply_brings(part, which) ? part->n : 0;
}

/* Takes memory for rows in order, and brings what must be brought. */
static loom_status make_room(sorted_part *sorted)
{
    const loom__application *part = sorted->part;
    const loom_map *map = part->map;
    const uint64_t rows = lay_out(sorted);
    const int has_values = part->values != NULL || part->found != NULL;
    uint64_t bytes = 0;
    const uint64_t keys = loom__place_array(&bytes, rows, map->key_bytes),
                   values = loom__place_array(&bytes, has_values ? rows : 0, map->value_bytes),
                   status = loom__place_array(&bytes, part->status != NULL ? rows : 0, 1),
                   brought_keys = loom__place_array(&bytes, brought_rows(part, LOOM__APPLIED_KEYS), map->key_bytes),
                   brought_values =
                       loom__place_array(&bytes, brought_rows(part, LOOM__APPLIED_VALUES), map->value_bytes),
                   brought_status = loom__place_array(&bytes, brought_rows(part, LOOM__APPLIED_STATUS), 1),
                   brought_found = loom__place_array(&bytes, brought_rows(part, LOOM__APPLIED_FOUND), map->value_bytes),
                   brought_operations = loom__place_array(&bytes, brought_rows(part, LOOM__APPLIED_OPERATIONS), 1);
    unsigned char *memory =
        loom__allocate(&map->handle.context->machine->allocator, bytes, LOOM_MEMORY_TEMPORARY, part->stream);
    const unsigned char *to_status = part->status, *to_found = part->found;
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    sorted->memory = memory;
    sorted->bytes = bytes;
    sorted->keys = memory + keys;
    sorted->values = has_values ? memory + values : NULL;
    sorted->status = part->status != NULL ? memory + status : NULL;
    RETURN_IF_FAILED(
        loom__apply_bring(part, LOOM__APPLIED_KEYS, &sorted->from_keys, map->key_bytes, memory + brought_keys));
    RETURN_IF_FAILED(
        loom__apply_bring(part, LOOM__APPLIED_VALUES, &sorted->from_values, map->value_bytes, memory + brought_values));
    RETURN_IF_FAILED(loom__apply_bring(part, LOOM__APPLIED_STATUS, &to_status, 1, memory + brought_status));
    RETURN_IF_FAILED(loom__apply_bring(part, LOOM__APPLIED_FOUND, &to_found, map->value_bytes, memory + brought_found));
    RETURN_IF_FAILED(
        loom__apply_bring(part, LOOM__APPLIED_OPERATIONS, &sorted->order.operations, 1, memory + brought_operations));
    sorted->to_status = (unsigned char *)(uintptr_t)to_status;
    sorted->to_found = (unsigned char *)(uintptr_t)to_found;
    return LOOM_OK;
}

/* Copies keys and values side by side, kind by kind. */
static loom_status take_rows(const sorted_part *sorted)
{
    const loom__application *part = sorted->part;
    loom__machine *machine = part->map->handle.context->machine;
    uint32_t rows = 0, stored = 0;
    for (uint32_t kind = 0; kind < LOOM__OPERATIONS; kind++) {
        rows |= 1u << kind;
        stored |= (uint32_t)kinds[kind].takes_values << kind;
    }
    const loom__kind_column columns[] = {
        {sorted->keys, sorted->from_keys, part->map->key_bytes, rows},
        {sorted->values, sorted->from_values, part->map->value_bytes, stored},
    };
    return machine->ops->move_by_kind(machine, &sorted->order, columns, part->values != NULL ? 2 : 1, 0, part->stream);
}

/* Copies the answers of the kinds that are done to where the caller wants them. */
static loom_status put_answers(const sorted_part *sorted, uint32_t done)
{
    const loom__application *part = sorted->part;
    loom__machine *machine = part->map->handle.context->machine;
    const uint64_t found_bytes = part->n * part->map->value_bytes;
    loom__kind_column columns[2];
    uint32_t count = 0;
    if (part->status != NULL)
        columns[count++] = (loom__kind_column){sorted->to_status, sorted->status, 1, done};
    if (part->found != NULL && (done >> LOOM_APPLY_FIND & 1))
        columns[count++] =
            (loom__kind_column){sorted->to_found, sorted->values, part->map->value_bytes, 1u << LOOM_APPLY_FIND};
    if (count > 0)
        RETURN_IF_FAILED(machine->ops->move_by_kind(machine, &sorted->order, columns, count, 1, part->stream));
    if (sorted->to_status != part->status)
        RETURN_IF_FAILED(machine->ops->read_table(machine, part->status, sorted->to_status, part->n, part->stream));
    if (sorted->to_found != part->found)
        RETURN_IF_FAILED(machine->ops->read_table(machine, part->found, sorted->to_found, found_bytes, part->stream));
    return LOOM_OK;
}

/* Points to the rows of a kind in the order of kinds. */
static void take_sorted(const sorted_part *sorted, uint32_t kind, loom__batch *batch)
{
    const loom_map *map = sorted->part->map;
    const uint64_t first = sorted->order.firsts[kind];
    batch->keys = sorted->keys + first * map->key_bytes;
    if (batch->values != NULL)
        batch->values = sorted->values + first * map->value_bytes;
    if (batch->found_values != NULL)
        batch->found_values = sorted->values + first * map->value_bytes;
    if (batch->status != NULL)
        batch->status = sorted->status + first;
}

static void *element(const void *array, uint64_t first, uint32_t width)
{
    return array != NULL ? (unsigned char *)(uintptr_t)array + first * width : NULL;
}

/* Runs rows first .. first + n - 1 of a batch. */
static loom_status run_rows(const loom__application *part, const loom__batch *whole, loom__map_work work,
                            uint64_t first, uint64_t n, loom_result *result)
{
    const loom_map *map = part->map;
    loom__batch batch = *whole;
    batch.keys = element(whole->keys, first, map->key_bytes);
    batch.values = element(whole->values, first, map->value_bytes);
    batch.found_values = element(whole->found_values, first, map->value_bytes);
    batch.status = element(whole->status, first, 1);
    batch.n = n;
    batch.result = result;
    return loom__parts_run(part->parts, work, &batch);
}

/* Runs all rows of a kind, in parts if memory is short. `sorted`: NULL if all rows of the part are of this kind. *sum
 * counts them if none of the parts fails. */
static loom_status run_kind(const loom__application *part, const sorted_part *sorted, uint32_t kind, loom_result *sum)
{
    const kind_of_call *call = &kinds[kind];
    loom__batch batch = {.keys = part->keys,
                         .values = call->takes_values ? part->values : NULL,
                         .found_values = kind == LOOM_APPLY_FIND ? part->found : NULL,
                         .status = part->status,
                         .n = sorted != NULL ? sorted->counts[kind] : part->n,
                         .write = call->write,
                         .rule = LOOM__ADD,
                         .stream = part->stream};
    if (part->map->type == LOOM_TYPE_SET && call->write == LOOM__WRITE_OVERWRITE)
        batch.write = LOOM__WRITE_KEEP; /* nothing to overwrite */
    if (batch.write == LOOM__WRITE_OVERWRITE)
        batch.flags = LOOM_OVERWRITE;
    if (part->equal_in_order && part->map->type == LOOM_TYPE_MULTIMAP && kind == LOOM_APPLY_INSERT)
        batch.flags |= LOOM_IN_ORDER;
    if (sorted != NULL)
        take_sorted(sorted, kind, &batch);
    const loom__access access = part->parts->access;
    loom_result done = {0};
    loom_status status = LOOM_OK;
    uint64_t most = batch.n, n;
    part->parts->access = call->access;
    for (uint64_t first = 0; first < batch.n && status == LOOM_OK; first += n) {
        loom_result result = {0};
        n = batch.n - first < most ? batch.n - first : most;
        status = run_rows(part, &batch, call->work, first, n, &result);
        if (status == LOOM_OK) {
            loom__add_result(&done, &result);
        } else if (status == LOOM_OUT_OF_MEMORY && n > 1) { /* none of these rows was stored */
            most = n / 2;
            n = 0;
            status = LOOM_OK;
        }
    }
    part->parts->access = access;
    if (status == LOOM_OK)
        loom__add_result(sum, &done);
    return status;
}

static loom_status run_kinds(const sorted_part *sorted, loom_result *sum)
{
    loom_status status = LOOM_OK;
    uint32_t done = 0;
    RETURN_IF_FAILED(take_rows(sorted));
    for (uint32_t i = 0; i < LOOM__OPERATIONS && status == LOOM_OK; i++) {
        const uint32_t kind = sequence[i];
        if (sorted->counts[kind] == 0)
            continue;
        status = run_kind(sorted->part, sorted, kind, sum);
        if (status == LOOM_OK)
            done |= 1u << kind;
    }
    const loom_status put = put_answers(sorted, done);
    return status != LOOM_OK ? status : put;
}

static loom_status sort_and_run(sorted_part *sorted, loom_result *sum)
{
    const loom__application *part = sorted->part;
    RETURN_IF_FAILED(count_rows(sorted));
    const uint32_t only = only_kind(sorted->counts, part->n);
    if (only == LOOM__OPERATIONS)
        return LOOM_OK;
    if (only < LOOM__OPERATIONS)
        return run_kind(part, NULL, only, sum);
    RETURN_IF_FAILED(make_room(sorted));
    return run_kinds(sorted, sum);
}

/* A part of fewer than 2^32 rows. */
static loom_status run_any_order(const loom__application *part, loom_result *sum)
{
    const loom_allocator *allocator = &part->map->handle.context->machine->allocator;
    sorted_part sorted = {.part = part,
                          .order.operations = part->operations,
                          .order.n = part->n,
                          .from_keys = part->keys,
                          .from_values = part->values};
    if (part->counts != NULL && only_kind(part->counts, part->n) < LOOM__OPERATIONS)
        return run_kind(part, NULL, only_kind(part->counts, part->n), sum);
    const loom_status status = sort_and_run(&sorted, sum);
    loom__release(allocator, sorted.memory, sorted.bytes, LOOM_MEMORY_TEMPORARY, part->stream);
    release_places(part->map->handle.context, part, sorted.places);
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
    part.counts = n == whole->n ? whole->counts : NULL;
    part.places = n == whole->n ? whole->places : NULL;
    part.n = n;
    return part;
}

/* Runs part after part, of at most `most` rows. sum->keys: rows that are done. */
static loom_status run_parts(const loom__application *whole, uint64_t most,
                             loom_status (*run)(const loom__application *part, loom_result *sum), loom_result *sum)
{
    int *tried = &whole->parts->tried;
    for (uint64_t first = 0, n; first < whole->n; first += n) {
        loom_result done = {0};
        n = whole->n - first < most ? whole->n - first : most;
        const loom__application part = part_of(whole, first, n);
        const int tried_before = *tried;
        *tried = 0;
        const loom_status status = run(&part, &done);
        const int tried_now = *tried;
        *tried |= tried_before;
        /* After rows were tried a smaller part brings nothing: run_kind went down to single rows. And their statuses
         * may lie where the operations were. */
        if (status == LOOM_OUT_OF_MEMORY && !tried_now && n > 1) {
            most = n / 2;
            n = 0;
            continue;
        }
        loom__add_result(sum, &done);
        RETURN_IF_FAILED(status);
    }
    return LOOM_OK;
}

loom_status loom__apply_by_kind(const loom__application *rows, loom_result *sum)
{
    return run_parts(rows, rows->brings != 0 ? MOST_BROUGHT : MOST_AT_ONCE, run_any_order, sum);
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

/* Counts the rows of each kind, and where they go if one part takes them all. Waits. */
static loom_status count_all(loom__application *whole, uint64_t counts[LOOM__KINDS])
{
    loom__machine *machine = whole->map->handle.context->machine;
    uint64_t most = whole->brings != 0 ? MOST_BROUGHT : MOST_AT_ONCE;
    if (whole->counts != NULL && whole->n > 0 && whole->n <= most)
        whole->places = take_places(whole);
    for (uint64_t first = 0, n; first < whole->n; first += n) {
        uint64_t some[LOOM__KINDS];
        n = whole->n - first < most ? whole->n - first : most;
        const loom_status status =
            machine->ops->count_operations(machine, whole->operations + first, n, whole->places, some, whole->stream);
        if (status == LOOM_OUT_OF_MEMORY && n > 1) {
            release_places(whole->map->handle.context, whole, whole->places);
            whole->places = NULL;
            most = n / 2;
            n = 0;
            continue;
        }
        RETURN_IF_FAILED(status);
        for (uint32_t kind = 0; kind < LOOM__KINDS; kind++)
            counts[kind] += some[kind];
    }
    return LOOM_OK;
}

/* Every row asks for something that the table can do. */
static loom_status check_operations(loom__application *whole, uint64_t counts[LOOM__KINDS])
{
    RETURN_IF_FAILED(count_all(whole, counts));
    RETURN_ERROR_IF(counts[LOOM__OPERATIONS] > 0, LOOM_INVALID_ARGUMENT,
                    "%llu of the operations are none of LOOM_APPLY_FIND, INSERT, OVERWRITE, UPDATE, ERASE and ADD",
                    (unsigned long long)counts[LOOM__OPERATIONS]);
    for (uint32_t kind = 0; kind < LOOM__OPERATIONS; kind++)
        if (counts[kind] > 0)
            RETURN_IF_FAILED(check_kind(whole->map, kind, whole->values));
    return LOOM_OK;
}

/* ---- the call ---- */

/* A part failed: tells what is done. */
static loom_status tell_done(const loom__application *whole, loom_status status, loom_result *sum, loom_result *result)
{
    char why[200];
    snprintf(why, sizeof why, "%s", loom_last_error());
    sum->status = (int32_t)status;
    (void)loom__handle_tell(&whole->map->handle, sum, result, whole->stream); /* waits */
    return loom__fail(status, "%llu of %llu operations are done, and some of the others may be: %s",
                      (unsigned long long)sum->keys, (unsigned long long)whole->n, why);
}

/* Finds out whether the machine must be brought this array. */
static loom_status locate(loom__application *whole, const loom__array *array, loom__applied_array which)
{
    loom__machine *machine = whole->map->handle.context->machine;
    int reached = 1;
    if (machine->ops->reaches != NULL && array->at != NULL)
        RETURN_IF_FAILED(machine->ops->reaches(machine, array->name, array->at, &reached));
    whole->brings |= (uint32_t)!reached << which;
    return LOOM_OK;
}

/* Inside the gate. *sum: what is done. */
static loom_status run_checked(const loom__application *whole, int in_order, loom_result *sum, loom_result *result)
{
    loom_map *map = whole->map;
    RETURN_IF_FAILED(loom__apply_check_engine(map->handle.table->engine));
    const loom_status status =
        in_order ? run_parts(whole, MOST_IN_ORDER, loom__apply_in_order, sum) : loom__apply_by_kind(whole, sum);
    if (status != LOOM_OK && (sum->keys > 0 || whole->parts->wrote))
        return tell_done(whole, status, sum, result);
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(loom__handle_tell(&map->handle, sum, result, whole->stream)); /* waits for the last answers */
    return result != NULL ? LOOM_OK : loom__map_status_of(map->type, sum, "");
}

/* Enters the gate. Behind it, the map may be destroyed. */
static loom_status run_call(loom__application *whole, int in_order, loom_result *result)
{
    loom__parts parts = {.map = whole->map, .access = LOOM__ACCESS_ALONE};
    loom_result sum = {0};
    whole->parts = &parts;
    RETURN_IF_FAILED(loom__parts_begin(&parts, whole->stream));
    loom__logged logged = {0};
    loom_status status = loom__map_check_writes(whole->map);
    if (status == LOOM_OK)
        status = run_checked(whole, in_order, &sum, result);
    if (parts.tried || parts.wrote)
        loom__map_log_operations(whole->map, whole->operations, whole->keys, whole->n, whole->stream, &logged);
    loom__parts_end(&parts, sum.keys, whole->stream);
    return loom__logged_end(&logged, status);
}

loom_status loom_map_apply(loom_map *map, const uint8_t *operations, const void *keys, const void *values, uint64_t n,
                           uint32_t flags, void *found, uint8_t *status, loom_result *result, loom_stream stream)
{
    RETURN_IF_FAILED(check_table(map, flags, stream));
    RETURN_IF_FAILED(loom__map_check_values(map, values));
    RETURN_IF_FAILED(loom__map_check_values(map, found));
    const loom__array arrays[] = {
        /* in the order of loom__applied_array */
        {.name = "operations", .at = operations, .width = 1},
        {.name = "keys", .at = keys, .width = map->key_bytes},
        {.name = "values", .at = values, .width = map->value_bytes, .optional = 1},
        {.name = "found", .at = found, .width = map->value_bytes, .optional = 1, .written = 1},
        {.name = "status", .at = status, .width = 1, .optional = 1, .written = 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, sizeof arrays / sizeof *arrays, n));
    const int in_order = (flags & LOOM_IN_ORDER) != 0;
    uint64_t counts[LOOM__KINDS] = {0};
    loom__application whole = {.map = map,
                               .operations = operations,
                               .counts = in_order ? NULL : counts,
                               .keys = keys,
                               .values = values,
                               .found = found,
                               .status = status,
                               .n = n,
                               .stream = stream};
    for (uint32_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        RETURN_IF_FAILED(locate(&whole, &arrays[i], (loom__applied_array)i));
    loom_context *context = map->handle.context;
    loom__context_hold(context);
    loom_status outcome = check_operations(&whole, counts);
    if (outcome == LOOM_OK)
        outcome = run_call(&whole, in_order, result);
    release_places(context, &whole, whole.places);
    loom__context_release(context);
    return outcome;
}
