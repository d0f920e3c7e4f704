/* The bulk calls: they check arguments, take the handle's lock and report the outcome. */
#include "api/check.h"
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/row_plan.h"

#include <stdio.h>
#include <string.h>

/* ---- running a batch ---- */

static void use_workspace(const loom_map *map, loom__batch *batch)
{
    batch->workspace = map->workspace;
    batch->workspace_bytes = map->workspace_bytes;
}

/* Prepares a batch that is inserted, or from which the table is built. The call is inside the gate. If the keys might
 * not fit and the table may grow, *access becomes ALONE and *grows 1. Lists of a multimap may have to move for any
 * batch. If the batch is faster by partition, *access also becomes ALONE, and batch->by_partition is set. No other
 * insertion comes in between: an inserting call is alone among the host's threads until it leaves, and its keys are
 * counted by then. While device views are lent, the table must not move: the call then refuses keys that do not fit, as
 * it does without growth. */
static void prepare_inserting(loom_map *map, loom__access *access, int builds, loom__batch *batch, int *grows)
{
    loom__handle *handle = &map->handle;
    const int multimap = map->type == LOOM_TYPE_MULTIMAP;
    const loom__room room = loom__map_table_room(handle->table);
    const int strings = map->variable != 0;
    int fits = builds ? batch->n <= room.capacity && (!multimap || batch->n <= room.values) &&
                            (!strings || batch->string_bytes <= room.values)
                      : !multimap && loom__map_table_surely_fits(handle->table, batch->n, batch->string_bytes);
    *grows = (map->growth > 0 || multimap || strings) && handle->lent == 0 && !fits;
    use_workspace(map, batch);
    batch->read_beside = handle->table->concurrent_reads || handle->lent > 0; /* kernels with a view may look keys up */
    batch->row_route = map->row_route;
    if (map->has_routes && handle->lent == 0 && loom__row_may_stream(batch->row_route, batch->n))
        *access = LOOM__ACCESS_ALONE;
    if (!builds && handle->lent == 0)
        *access = loom__map_table_access(handle->table, batch, *access);
    if (*grows || multimap || map->durable != NULL)
        *access = LOOM__ACCESS_ALONE;
    batch->alone = *access == LOOM__ACCESS_ALONE;
}

static loom_status enter_inserting(loom_map *map, loom__access *access, int builds, loom__batch *batch, int *grows)
{
    loom__handle_enter_gate(&map->handle, *access);
    prepare_inserting(map, access, builds, batch, grows);
    return loom__handle_admit(&map->handle, *access, batch->stream);
}

/* Leaves after a call that wrote. If upkeep is due, it is ordered behind the call and has the table alone; the host
 * does not wait for it. While device views are lent, upkeep is left to a later call. A failed upkeep is not a failure
 * of this call: the call is done, and a lost device will fail again. */
static void leave_written(loom_map *map, loom__access access, loom_stream stream)
{
    loom__handle *handle = &map->handle;
    loom__handle_order_end(handle, 0, stream);
    if (handle->lent == 0 && loom__map_table_wants_upkeep(handle->table) &&
        loom__handle_order_begin(handle, LOOM__ACCESS_ALONE, stream) == LOOM_OK) {
        map->upkeeps += loom__map_table_upkeep(handle->table, stream) == LOOM_OK;
        loom__handle_order_end(handle, 0, stream);
    }
    loom__handle_leave_gate(handle, access);
}

int loom__map_inserts(loom__access access)
{
    return access == LOOM__ACCESS_INSERT || access == LOOM__ACCESS_ACCUMULATE || access == LOOM__ACCESS_ALONE;
}

/* Whether a call may need slots or bytes. */
static int takes_room(const loom_map *map, loom__access access)
{
    return loom__map_inserts(access) || (access == LOOM__ACCESS_UPDATE && map->variable & LOOM__VARIABLE_VALUES);
}

/* Runs a batch that might not fit. The call has the table alone. */
static loom_status run_with_growth(loom_map *map, loom__map_work work, loom__batch *batch)
{
    loom_result outcome;
    uint64_t stored = 0;
    if (map->growth == 0 && map->variable == 0) /* a multimap that may only move its lists */
        return loom__map_run_with_values(map, work, batch);
    if (work != loom__map_table_build) {
        RETURN_IF_FAILED(loom__map_table_recount(map->handle.table, &stored, batch->stream));
        if (loom__map_table_surely_fits(map->handle.table, batch->n, batch->string_bytes)) /* it fits after all */
            return loom__map_run_with_values(map, work, batch);
    }
    RETURN_IF_FAILED(loom__map_run_growing(map, work, stored, batch, &outcome));
    return loom__handle_tell(&map->handle, &outcome, batch->result, batch->stream);
}

/* Lookups run beside each other. Writers have the gate alone, so they need no atomic addition. */
static void add_to(atomic_uint_least64_t *counter, uint64_t n, int beside_others)
{
    if (beside_others)
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    else
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

void loom__map_note_call(loom_map *map, loom__access access, uint64_t n, loom_route route)
{
    const int finds = access == LOOM__ACCESS_FIND;
    if (n == 1) {
        add_to(&map->single_calls, 1, finds);
    } else {
        add_to(&map->calls, 1, finds);
        add_to(&map->keys, n, finds);
    }
    if (loom__map_inserts(access) && route != LOOM_ROUTE_NONE)
        map->last_route = route;
}

/* How a call that inserts nothing is ordered with others. Calls that change lists run alone, and updates of rows in
 * host memory, which may stream them, and writes of durable maps, which look up what they wrote. */
static loom__access order_of(const loom_map *map, loom__access access)
{
    const int alone = (access == LOOM__ACCESS_ERASE && map->type == LOOM_TYPE_MULTIMAP) ||
                      (access == LOOM__ACCESS_UPDATE && map->has_routes) ||
                      (access != LOOM__ACCESS_FIND && map->durable != NULL);
    return alone ? LOOM__ACCESS_ALONE : access;
}

loom_status loom__map_status_of(loom_type type, const loom_result *outcome, const char *why)
{
    RETURN_ERROR_IF(outcome->status == LOOM_FULL && type == LOOM_TYPE_MULTIMAP, LOOM_FULL,
                    "%llu of %llu pairs were refused, the others are stored (the status array tells which): there is "
                    "no room for their keys or values and the table could not grow, or their keys have as many values "
                    "as they may (most_values_per_key)",
                    (unsigned long long)outcome->full, (unsigned long long)outcome->keys);
    RETURN_ERROR_IF(outcome->status == LOOM_FULL, LOOM_FULL,
                    "%llu of %llu keys did not fit, the others are stored (the status array tells which); make the "
                    "table for more keys%s",
                    (unsigned long long)outcome->full, (unsigned long long)outcome->keys, why);
    RETURN_ERROR_IF(outcome->status == LOOM_TOO_LONG, LOOM_TOO_LONG,
                    "%llu of %llu keys or values are longer than the table allows (most_key_bytes, most_value_bytes), "
                    "the others are stored (the status array tells which)",
                    (unsigned long long)outcome->too_long, (unsigned long long)outcome->keys);
    return (loom_status)outcome->status;
}

loom_status loom__map_run_rows(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access)
{
    const loom_type type = map->type; /* behind its gate, the map may be destroyed */
    int grows = 0;
    loom_result own = {0};
    loom_result *given = batch->result;
    if (given == NULL) {
        batch->result = &own;
        batch->uncounted = access == LOOM__ACCESS_FIND;
    }
    if (takes_room(map, access)) {
        RETURN_IF_FAILED(enter_inserting(map, &access, work == loom__map_table_build, batch, &grows));
    } else {
        const loom__access order = order_of(map, access);
        RETURN_IF_FAILED(loom__handle_enter(&map->handle, order, batch->stream));
        batch->row_route = map->row_route;
        batch->alone = order == LOOM__ACCESS_ALONE;
    }
    loom_route route = LOOM_ROUTE_DIRECTLY;
    loom_explanation explained;
    const int explains = map->has_routes;
    batch->route = &route;
    if (explains) { /* other tables have nothing to explain, and calls with one key would pay for the zeroing */
        explained = (loom_explanation)LOOM_EXPLANATION_INIT;
        batch->explained = &explained;
    }
    loom__logged logged = {0};
    const loom_status admitted = access == LOOM__ACCESS_FIND ? LOOM_OK : loom__map_check_writes(map);
    loom_status status = admitted;
    if (admitted == LOOM_OK)
        status = grows ? run_with_growth(map, work, batch) : work(map->handle.table, batch);
    if (status == LOOM_OK)
        loom__map_note_call(map, access, batch->n, route);
    if (explains && explained.route != LOOM_ROW_ROUTE_NONE)
        loom__map_note_explanation(map, &explained);
    if (access == LOOM__ACCESS_FIND) { /* a lookup without a result was waited for */
        if (given == NULL && status == LOOM_OK && batch->n > 0)
            loom__handle_leave_ended(&map->handle, access, batch->stream);
        else
            loom__handle_leave(&map->handle, access, batch->stream);
    } else { /* A batch that did not begin leaves cursors valid. An empty batch changes the table only in a build. */
        const int builds = work == loom__map_table_build;
        const int changed = admitted == LOOM_OK && (status == LOOM_OK || grows) && (batch->n > 0 || builds);
        map->handle.generation += (uint64_t)changed;
        if (changed && map->durable != NULL)
            loom__map_log_batch(map, builds, status, batch, &logged);
        leave_written(map, access, batch->stream);
        status = loom__logged_end(&logged, status);
    }
    if (status != LOOM_OK || given != NULL)
        return status;
    char why[200] = "";
    if (grows && own.status == LOOM_FULL)
        snprintf(why, sizeof why, "; the table could not grow: %s", loom_last_error());
    return loom__map_status_of(type, &own, why);
}

/* ---- a call in parts ---- */

void loom__add_result(loom_result *sum, const loom_result *part)
{
    sum->keys += part->keys;
    sum->ok += part->ok;
    sum->exists += part->exists;
    sum->not_found += part->not_found;
    sum->full += part->full;
    sum->too_long += part->too_long;
    sum->status = sum->full > 0 ? LOOM_FULL : sum->too_long > 0 ? LOOM_TOO_LONG : LOOM_OK;
}

loom_status loom__parts_begin(loom__parts *parts, loom_stream stream)
{
    const int alone = takes_room(parts->map, parts->access);
    parts->entered = alone ? LOOM__ACCESS_ALONE : order_of(parts->map, parts->access);
    return loom__handle_enter(&parts->map->handle, parts->entered, stream);
}

loom_status loom__parts_run(loom__parts *parts, loom__map_work work, loom__batch *batch)
{
    loom_map *map = parts->map;
    loom__access access = parts->entered;
    loom_route route = LOOM_ROUTE_DIRECTLY;
    int grows = 0;
    if (takes_room(map, parts->access)) {
        prepare_inserting(map, &access, work == loom__map_table_build, batch, &grows);
    } else {
        batch->row_route = map->row_route;
        batch->alone = parts->entered == LOOM__ACCESS_ALONE;
    }
    batch->route = &route;
    const loom_status status = grows ? run_with_growth(map, work, batch) : work(map->handle.table, batch);
    if (status == LOOM_OK && loom__map_inserts(parts->access))
        parts->route = route;
    const int writes = parts->access != LOOM__ACCESS_FIND;
    parts->wrote |= writes && (status == LOOM_OK || grows);
    parts->tried |= writes;
    return status;
}

void loom__parts_end(loom__parts *parts, uint64_t done, loom_stream stream)
{
    loom_map *map = parts->map;
    if (done > 0)
        loom__map_note_call(map, parts->access, done, parts->route);
    if (parts->access == LOOM__ACCESS_FIND) {
        loom__handle_leave(&map->handle, parts->entered, stream);
    } else {
        map->handle.generation += (uint64_t)parts->wrote;
        leave_written(map, parts->entered, stream);
    }
}

/* Runs a batch, whose keys or values may be strings. */
static loom_status run_batch(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access)
{
    if (map->variable != 0 && batch->n > 0)
        return loom__map_run_strings(map, work, batch, access);
    return loom__map_run_rows(map, work, batch, access);
}

/* ---- checks ---- */

/* What a call needs beside keys and statuses. */
enum {
    TAKES_VALUES = 1,
    GIVES_VALUES = 2, /* in an array that the caller must pass */
    NEEDS_MAP = 4     /* or a counter: the call reads or changes values */
};

static const char NO_VALUES[] = "a set has no values; use a map or a counter";

static loom_status check_has_values(loom_map *map, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET, LOOM_UNSUPPORTED, "%s", NO_VALUES);
    RETURN_ERROR_IF(map->type == LOOM_TYPE_MULTIMAP, LOOM_UNSUPPORTED,
                    "a key of a multimap has many values, and the call is about one; use a map, or insert, find_all, "
                    "erase and erase_pairs");
    return LOOM_OK;
}

/* Where a column is strings, the array to check is that of their offsets. */
static loom_status offsets_of(const char *name, const void *given, uint64_t n, loom__array *array)
{
    if (n == 0 || (given == NULL && array->optional)) {
        array->at = NULL;
        array->optional = 1;
        return LOOM_OK;
    }
    RETURN_ERROR_IF(given == NULL, LOOM_INVALID_ARGUMENT, "%s is NULL while n is %llu; pass a loom_strings", name,
                    (unsigned long long)n);
    RETURN_ERROR_IF((uintptr_t)given % _Alignof(loom_strings) != 0, LOOM_INVALID_ARGUMENT,
                    "%s is not aligned as a loom_strings is", name);
    RETURN_ERROR_IF(n == UINT64_MAX, LOOM_INVALID_ARGUMENT, "n = %llu: offsets would run past the end of memory",
                    (unsigned long long)n);
    array->at = ((const loom_strings *)given)->offsets;
    array->width = sizeof(uint64_t);
    array->has_count = 1;
    array->count = n + 1;
    array->optional = 0;
    return LOOM_OK;
}

static loom_status check_strings(const loom_map *map, const loom__batch *batch, int wants, loom__array *keys,
                                 loom__array *values)
{
    if (map->variable & LOOM__VARIABLE_KEYS)
        RETURN_IF_FAILED(offsets_of("keys", batch->keys, batch->n, keys));
    if (!(map->variable & LOOM__VARIABLE_VALUES))
        return LOOM_OK;
    RETURN_ERROR_IF(wants & GIVES_VALUES && batch->found_values != NULL, LOOM_UNSUPPORTED,
                    "values of this table are byte strings: use loom_map_find_strings, or loom_map_contains");
    RETURN_ERROR_IF(batch->write == LOOM__WRITE_FETCH, LOOM_UNSUPPORTED,
                    "values of this table are byte strings: insert the keys (LOOM_KEEP), then find them with "
                    "loom_map_find_strings");
    return offsets_of("values", batch->values, batch->n, values);
}

static loom_status check_batch(loom_map *map, const loom__batch *batch, int wants)
{
    if (wants & NEEDS_MAP)
        RETURN_IF_FAILED(check_has_values(map, batch->stream));
    else if (!batch->captured)
        RETURN_IF_FAILED(loom__map_check(map, batch->stream));
    RETURN_IF_FAILED(loom__map_check_values(map, wants & GIVES_VALUES ? batch->found_values : batch->values));
    const char is_set = map->type == LOOM_TYPE_SET;
    loom__array arrays[] = {
        {.name = "keys", .at = batch->keys, .width = map->key_bytes},
        {.name = "values",
         .at = batch->values,
         .width = loom__number_bytes(batch->widening, map->value_bytes),
         .optional = is_set || !(wants & TAKES_VALUES)},
        {.name = wants & GIVES_VALUES ? "values" : "found",
         .at = batch->found_values,
         .width = map->value_bytes,
         .optional = is_set || !(wants & GIVES_VALUES) || (map->variable & LOOM__VARIABLE_VALUES) != 0,
         .written = 1},
        {.name = "found", .at = batch->found, .width = 1, .optional = 1, .written = 1},
        {.name = "status", .at = batch->status, .width = 1, .optional = 1, .written = 1},
    };
    if (map->variable != 0)
        RETURN_IF_FAILED(check_strings(map, batch, wants, &arrays[0], &arrays[1]));
    return loom__check_arrays(arrays, sizeof arrays / sizeof *arrays, batch->n);
}

static int is_captured(const loom_map *map, loom_stream stream)
{
    loom__machine *machine = map->handle.context->machine;
    return machine->ops->is_captured != NULL && machine->ops->is_captured(machine, stream);
}

/* For calls that can become part of a graph. Sets batch->captured. */
static loom_status check_or_capture(loom_map *map, loom__batch *batch, int wants)
{
    const loom_status status = check_batch(map, batch, wants);
    if (status != LOOM_UNSUPPORTED || !is_captured(map, batch->stream))
        return status;
    RETURN_ERROR_IF(map->variable != 0, LOOM_UNSUPPORTED,
                    "the stream is being captured into a graph, which cannot hold calls on tables with byte strings; "
                    "make the call outside of the capture");
    batch->captured = 1;
    return check_batch(map, batch, wants);
}

/* Sets the batch's flags and what it writes. A set has nothing to overwrite. */
static loom_status prepare_insert(loom_map *map, uint32_t flags, loom__batch *batch)
{
    const uint32_t known = LOOM_OVERWRITE | LOOM_IN_ORDER | LOOM_BY_PARTITION | LOOM_DIRECTLY | LOOM_LOW_MEMORY;
    RETURN_ERROR_IF(flags & ~known, LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: only LOOM_KEEP, LOOM_OVERWRITE, LOOM_IN_ORDER, LOOM_BY_PARTITION, LOOM_DIRECTLY and "
                    "LOOM_LOW_MEMORY are known",
                    flags);
    RETURN_ERROR_IF(
        flags & LOOM_DIRECTLY && flags & (LOOM_BY_PARTITION | LOOM_IN_ORDER), LOOM_INVALID_ARGUMENT,
        "flags = 0x%x: LOOM_DIRECTLY goes with neither LOOM_BY_PARTITION nor LOOM_IN_ORDER, which sort the batch "
        "first",
        flags);
    RETURN_IF_FAILED(check_or_capture(map, batch, TAKES_VALUES));
    RETURN_ERROR_IF(flags & LOOM_OVERWRITE && map->type == LOOM_TYPE_MULTIMAP, LOOM_UNSUPPORTED,
                    "LOOM_OVERWRITE: a multimap keeps all values of a key; erase the key first");
    batch->flags = flags;
    batch->write = flags & LOOM_OVERWRITE && map->type != LOOM_TYPE_SET ? LOOM__WRITE_OVERWRITE : LOOM__WRITE_KEEP;
    return LOOM_OK;
}

/* ---- calls ---- */

static loom__batch batch_of(const void *keys, const void *values, uint64_t n, uint8_t *status, loom_result *result,
                            loom_stream stream)
{
    return (loom__batch){.keys = keys, .values = values, .status = status, .n = n, .result = result, .stream = stream};
}

static loom_status check_and_run(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access, int wants)
{
    RETURN_IF_FAILED(check_batch(map, batch, wants));
    return run_batch(map, work, batch, access);
}

/* The call becomes part of a graph and does not run now, so it is not ordered with other calls, and a table does not
 * grow for it. */
static loom_status capture(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access)
{
    const int finds = access == LOOM__ACCESS_FIND;
    loom_result nobodys;
    RETURN_ERROR_IF(batch->result == NULL && !finds, LOOM_INVALID_ARGUMENT,
                    "result is NULL: the stream is being captured into a graph, and nobody can wait for the outcome; "
                    "give a result where the device can write it");
    RETURN_ERROR_IF(access == LOOM__ACCESS_INSERT && batch->flags & (LOOM_IN_ORDER | LOOM_BY_PARTITION),
                    LOOM_UNSUPPORTED,
                    "flags = 0x%x: the stream is being captured into a graph, where inserts go directly; leave out "
                    "LOOM_IN_ORDER and LOOM_BY_PARTITION, or insert outside of the capture",
                    batch->flags);
    if (batch->result == NULL) {
        batch->result = &nobodys;
        batch->uncounted = 1;
    }
    loom__gate_enter(&map->handle.gate, 1);
    use_workspace(map, batch);
    batch->read_beside = 1; /* nobody knows what runs beside a replay */
    loom_status status = loom__handle_check_views(&map->handle, access);
    if (status == LOOM_OK)
        status = work(map->handle.table, batch);
    map->handle.generation += status == LOOM_OK && !finds;
    loom__gate_leave(&map->handle.gate, 1);
    return status;
}

loom_status loom_map_build(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                           uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, values, n, status, result, stream);
    RETURN_IF_FAILED(prepare_insert(map, flags, &batch));
    return (batch.captured ? capture : run_batch)(map, loom__map_table_build, &batch, LOOM__ACCESS_ALONE);
}

loom_status loom_map_insert(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                            uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, values, n, status, result, stream);
    RETURN_IF_FAILED(prepare_insert(map, flags, &batch));
    if (batch.captured)
        return capture(map, loom__map_table_write, &batch, LOOM__ACCESS_INSERT);
    return run_batch(map, loom__map_table_write, &batch,
                     flags & (LOOM_IN_ORDER | LOOM_BY_PARTITION) ? LOOM__ACCESS_ALONE : LOOM__ACCESS_INSERT);
}

loom_status loom_map_find_or_insert(loom_map *map, const void *keys, const void *values, uint64_t n, void *found,
                                    uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, values, n, status, result, stream);
    batch.found_values = found;
    batch.write = LOOM__WRITE_FETCH;
    return check_and_run(map, loom__map_table_write, &batch, LOOM__ACCESS_INSERT, NEEDS_MAP | TAKES_VALUES);
}

loom_status loom_map_update(loom_map *map, const void *keys, const void *values, uint64_t n, uint8_t *status,
                            loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, values, n, status, result, stream);
    batch.write = LOOM__WRITE_UPDATE;
    return check_and_run(map, loom__map_table_write, &batch, LOOM__ACCESS_UPDATE, NEEDS_MAP | TAKES_VALUES);
}

static loom_status check_has_numbers(const loom_map *map)
{
    RETURN_ERROR_IF(map->variable & LOOM__VARIABLE_VALUES, LOOM_UNSUPPORTED,
                    "byte strings are no numbers: accumulate and count need values of 4 or 8 bytes");
    RETURN_ERROR_IF(map->value_bytes != 4 && map->value_bytes != 8, LOOM_UNSUPPORTED,
                    "values of %u bytes are no numbers: accumulate and count need values of 4 or 8", map->value_bytes);
    return LOOM_OK;
}

/* Sets the batch's rule and its widening. */
static loom_status choose_rule(const loom_map *map, loom_combine combine, loom_number number, loom__batch *batch)
{
    static const struct {
        loom__combine_rule rules[4];
        loom__widening widening;
    } kinds[] = {
        [LOOM_NUMBER_U32] = {{LOOM__ADD, LOOM__MIN_UNSIGNED, LOOM__MAX_UNSIGNED, LOOM__ADD}, LOOM__WIDEN_U32},
        [LOOM_NUMBER_I32] = {{LOOM__ADD, LOOM__MIN_SIGNED, LOOM__MAX_SIGNED}, LOOM__WIDEN_I32},
        [LOOM_NUMBER_F32] = {{LOOM__ADD_FLOAT, LOOM__MIN_FLOAT, LOOM__MAX_FLOAT}, LOOM__WIDEN_F32},
    };
    RETURN_ERROR_IF((unsigned)combine > LOOM_COMBINE_ADD_AND_COUNT, LOOM_INVALID_ARGUMENT,
                    "combine = %d: LOOM_COMBINE_ADD, LOOM_COMBINE_MIN, LOOM_COMBINE_MAX and LOOM_COMBINE_ADD_AND_COUNT "
                    "are known",
                    (int)combine);
    RETURN_ERROR_IF((unsigned)number > LOOM_NUMBER_F64, LOOM_INVALID_ARGUMENT,
                    "number = %d: LOOM_NUMBER_U32, I32, F32, U64, I64 and F64 are known", (int)number);
    RETURN_ERROR_IF(
        combine == LOOM_COMBINE_ADD_AND_COUNT && (number != LOOM_NUMBER_U32 || map->value_bytes != 8),
        LOOM_INVALID_ARGUMENT,
        "LOOM_COMBINE_ADD_AND_COUNT takes LOOM_NUMBER_U32 and a map with values of 8 bytes; for other numbers "
        "add up in one map and count in another");
    const int narrow = number < LOOM_NUMBER_U64;
    RETURN_ERROR_IF(
        !narrow && map->value_bytes == 4, LOOM_INVALID_ARGUMENT,
        "numbers of 8 bytes do not fit a map with values of 4; make the map with values of 8, or give numbers "
        "of 4");
    const unsigned kind = (unsigned)number % LOOM_NUMBER_U64; /* unsigned, signed or float */
    batch->rule = kinds[kind].rules[combine];
    if (combine == LOOM_COMBINE_ADD_AND_COUNT)
        batch->widening = LOOM__WIDEN_COUNTED;
    else if (narrow && map->value_bytes == 8)
        batch->widening = kinds[kind].widening;
    return LOOM_OK;
}

loom_status loom_map_accumulate(loom_map *map, const void *keys, const void *values, uint64_t n, loom_combine combine,
                                loom_number number, uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, values, n, status, result, stream);
    batch.write = LOOM__WRITE_COMBINE;
    RETURN_IF_FAILED(check_has_values(map, stream));
    RETURN_IF_FAILED(check_has_numbers(map));
    RETURN_IF_FAILED(choose_rule(map, combine, number, &batch)); /* first: it sets how wide the numbers are */
    return check_and_run(map, loom__map_table_write, &batch, LOOM__ACCESS_ACCUMULATE, TAKES_VALUES);
}

/* Without values an accumulation adds ones. */
loom_status loom_map_count(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                           loom_stream stream)
{
    loom__batch batch = batch_of(keys, NULL, n, status, result, stream);
    batch.write = LOOM__WRITE_COMBINE;
    batch.rule = LOOM__ADD;
    RETURN_IF_FAILED(check_has_values(map, stream));
    RETURN_IF_FAILED(check_has_numbers(map));
    return check_and_run(map, loom__map_table_write, &batch, LOOM__ACCESS_ACCUMULATE, NEEDS_MAP);
}

/* Copies the value of absent keys into the batch. */
static loom_status take_absent(const loom_map *map, const void *absent, loom__batch *batch)
{
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET, LOOM_INVALID_ARGUMENT, "a set has no values; pass NULL for absent");
    RETURN_ERROR_IF(map->variable & LOOM__VARIABLE_VALUES, LOOM_UNSUPPORTED,
                    "absent: values of this table are byte strings; pass NULL");
    RETURN_ERROR_IF(map->value_bytes > sizeof batch->absent, LOOM_UNSUPPORTED,
                    "absent: a value for absent keys has at most %zu bytes, and the values of this table have %u; pass "
                    "NULL for zeros",
                    sizeof batch->absent, map->value_bytes);
    memcpy(&batch->absent, absent, map->value_bytes);
    return LOOM_OK;
}

loom_status loom_map_find(loom_map *map, const void *keys, uint64_t n, void *values, const void *absent,
                          uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, NULL, n, status, result, stream);
    batch.found_values = values;
    RETURN_IF_FAILED(check_or_capture(map, &batch, GIVES_VALUES));
    if (absent != NULL)
        RETURN_IF_FAILED(take_absent(map, absent, &batch));
    return (batch.captured ? capture : run_batch)(map, loom__map_table_find, &batch, LOOM__ACCESS_FIND);
}

loom_status loom_map_contains(loom_map *map, const void *keys, uint64_t n, uint8_t *found, uint8_t *status,
                              loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, NULL, n, status, result, stream);
    batch.found = found;
    RETURN_IF_FAILED(check_or_capture(map, &batch, 0));
    return (batch.captured ? capture : run_batch)(map, loom__map_table_find, &batch, LOOM__ACCESS_FIND);
}

loom_status loom_map_erase(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                           loom_stream stream)
{
    loom__batch batch = batch_of(keys, NULL, n, status, result, stream);
    batch.write = LOOM__WRITE_ERASE;
    return check_and_run(map, loom__map_table_write, &batch, LOOM__ACCESS_ERASE, 0);
}

/* ---- lists ---- */

static loom_status check_lists(loom_map *map, const loom__array *arrays, int count, uint64_t n, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__map_check_has_lists(map));
    return loom__check_arrays(arrays, count, n);
}

static loom_status run_query(loom_map *map, loom__list_query *query)
{
    loom_result own = {0}, *given = query->result;
    query->result = given != NULL ? given : &own;
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_FIND, query->stream));
    const loom_status status = loom__map_table_find_all(map->handle.table, query);
    if (status == LOOM_OK)
        loom__map_note_call(map, LOOM__ACCESS_FIND, query->n, LOOM_ROUTE_NONE);
    loom__handle_leave(&map->handle, LOOM__ACCESS_FIND, query->stream);
    RETURN_IF_FAILED(status);
    RETURN_ERROR_IF(given == NULL && own.status == LOOM_TOO_SMALL, LOOM_TOO_SMALL,
                    "room = %llu: the keys have more values (needed, or the last offset, tells how many); no value was "
                    "written",
                    (unsigned long long)query->room);
    return LOOM_OK;
}

loom_status loom_map_find_counts(loom_map *map, const void *keys, uint64_t n, uint64_t *counts, uint8_t *status,
                                 loom_result *result, loom_stream stream)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    const loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = map->key_bytes},
        {.name = "counts", .at = counts, .width = sizeof *counts, .written = 1},
        {.name = "status", .at = status, .width = 1, .optional = 1, .written = 1},
    };
    loom__list_query query = {.keys = keys,
                              .n = n,
                              .limit = UINT64_MAX,
                              .counts = counts,
                              .status = status,
                              .result = result,
                              .stream = stream};
    RETURN_IF_FAILED(check_lists(map, arrays, 3, n, stream));
    return run_query(map, &query);
}

loom_status loom_map_find_all(loom_map *map, const void *keys, uint64_t n, uint64_t limit, uint64_t *offsets,
                              void *values, uint64_t room, uint64_t *needed, loom_result *result, loom_stream stream)
{
    RETURN_ERROR_IF(map == NULL, LOOM_INVALID_ARGUMENT, "map is NULL");
    const loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = map->key_bytes},
        {.name = "offsets", .at = offsets, .width = sizeof *offsets, .has_count = 1, .count = n + 1, .written = 1},
        {.name = "values", .at = values, .width = map->value_bytes, .has_count = 1, .count = room, .written = 1},
    };
    loom__list_query query = {.keys = keys,
                              .n = n,
                              .limit = limit > 0 ? limit : UINT64_MAX,
                              .offsets = offsets,
                              .values = room > 0 ? values : NULL,
                              .room = room,
                              .needed = needed,
                              .result = result,
                              .stream = stream};
    RETURN_ERROR_IF(n == UINT64_MAX, LOOM_INVALID_ARGUMENT, "n = %llu: offsets would run past the end of memory",
                    (unsigned long long)n);
    RETURN_IF_FAILED(check_lists(map, arrays, 3, n, stream));
    return run_query(map, &query);
}

loom_status loom_map_erase_pairs(loom_map *map, const void *keys, const void *values, uint64_t n, uint8_t *status,
                                 loom_result *result, loom_stream stream)
{
    loom__batch batch = batch_of(keys, values, n, status, result, stream);
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__map_check_has_lists(map));
    RETURN_IF_FAILED(check_batch(map, &batch, TAKES_VALUES));
    batch.write = LOOM__WRITE_ERASE;
    loom_result own = {0};
    if (batch.result == NULL)
        batch.result = &own;
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    const loom_status outcome = loom__map_table_erase_pairs(map->handle.table, &batch);
    if (outcome == LOOM_OK)
        loom__map_note_call(map, LOOM__ACCESS_ERASE, n, LOOM_ROUTE_NONE);
    map->handle.generation += outcome == LOOM_OK && n > 0;
    leave_written(map, LOOM__ACCESS_ALONE, stream);
    return outcome;
}

loom_status loom_map_erase_if(loom_map *map, loom_number number, const void *least, const void *most,
                              loom_result *result, loom_stream stream)
{
    loom__value_range range;
    loom_result own = {0};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET, LOOM_UNSUPPORTED, "%s", NO_VALUES);
    RETURN_ERROR_IF(
        map->variable & LOOM__VARIABLE_VALUES, LOOM_UNSUPPORTED,
        "byte strings lie in no range of numbers; visit the pairs (loom_map_for_each) and erase their keys");
    RETURN_IF_FAILED(loom__value_range_make(number, map->value_bytes, least, most, &range));
    uint64_t bounds[2] = {0, 0}; /* for the log: the result may lie over them */
    if (least != NULL)
        memcpy(&bounds[0], least, map->value_bytes);
    if (most != NULL)
        memcpy(&bounds[1], most, map->value_bytes);
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    loom__logged logged = {0};
    loom_status status = loom__map_check_writes(map);
    if (status == LOOM_OK) {
        status = loom__map_table_erase_if(map->handle.table, &range, result != NULL ? result : &own, stream);
        /* A failure in a multimap may leave some pairs erased. */
        map->handle.generation += status == LOOM_OK || map->type == LOOM_TYPE_MULTIMAP;
        loom__map_log_erase_if(map, status, number, least != NULL ? &bounds[0] : NULL, most != NULL ? &bounds[1] : NULL,
                               &logged);
    }
    leave_written(map, LOOM__ACCESS_ALONE, stream);
    return loom__logged_end(&logged, status);
}

loom_status loom_map_clear(loom_map *map, loom_result *result, loom_stream stream)
{
    static const loom_result cleared = {.status = LOOM_OK};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    loom__logged logged = {0};
    loom_status status = loom__map_check_writes(map);
    if (status == LOOM_OK) {
        status = loom__table_clear(map->handle.table, stream);
        map->handle.generation++;
        if (status == LOOM_OK)
            status = loom__handle_tell(&map->handle, &cleared, result, stream);
        loom__map_log_clear(map, status, &logged);
    }
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, stream);
    return loom__logged_end(&logged, status);
}

loom_status loom_map_count_accesses(loom_map *map, const void *keys, uint64_t n, uint64_t *accesses, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(accesses == NULL, LOOM_INVALID_ARGUMENT, "accesses is NULL");
    RETURN_ERROR_IF(map->variable & LOOM__VARIABLE_KEYS, LOOM_UNSUPPORTED,
                    "accesses are not counted for keys that are byte strings; loom_map_stats has their mean");
    const loom__array arrays[] = {{.name = "keys", .at = keys, .width = map->key_bytes}};
    RETURN_IF_FAILED(loom__check_arrays(arrays, 1, n));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__map_table_count_accesses(map->handle.table, keys, n, accesses, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}
