/* The bulk calls: they check arguments, take the handle's lock and report the outcome. */
#include "api/check.h"
#include "api/map.h"
#include "core/error.h"

#include <stdio.h>

static int inserts(loom__access access)
{
    return access == LOOM__ACCESS_INSERT || access == LOOM__ACCESS_ACCUMULATE || access == LOOM__ACCESS_ALONE;
}

/* The call has the table alone. */
static loom_status run_with_growth(loom_map *map, loom__map_work work, loom__batch *batch)
{
    const loom__machine_ops *ops = map->handle.context->machine->ops;
    loom_result outcome, *given = batch->result;
    uint64_t keys;
    if (work != loom__map_table_build) {
        RETURN_IF_FAILED(loom__map_table_recount(map->table, &keys, batch->stream));
        if (loom__map_table_surely_fits(map->table, batch->n)) /* it fits after all */
            return work(map->table, batch);
    }
    RETURN_IF_FAILED(loom__map_run_growing(map, work, batch, &outcome));
    return ops->write_table(map->handle.context->machine, given, &outcome, sizeof outcome, batch->stream);
}

/* Runs a batch and reports its outcome: in the caller's result if there is one, otherwise as the return value. */
static loom_status run_batch(loom_map *map, loom__map_work work, loom__batch *batch, loom__access access)
{
    int grows = 0;
    loom_result own = {0};
    loom_result *given = batch->result;
    if (given == NULL) {
        batch->result = &own;
        batch->uncounted = access == LOOM__ACCESS_FIND;
    }
    if (inserts(access))
        RETURN_IF_FAILED(loom__map_enter_inserting(map, &access, work == loom__map_table_build, batch, &grows));
    else
        RETURN_IF_FAILED(loom__handle_enter(&map->handle, access, batch->stream));
    loom_status status = grows ? run_with_growth(map, work, batch) : work(map->table, batch);
    if (access == LOOM__ACCESS_FIND) {
        loom__handle_leave(&map->handle, access, batch->stream);
    } else { /* A batch that did not begin leaves cursors valid; an empty one changes the table only as a build. */
        map->generation += (status == LOOM_OK || grows) && (batch->n > 0 || work == loom__map_table_build);
        loom__map_leave_written(map, access, batch->stream);
    }
    if (status != LOOM_OK || given != NULL)
        return status;
    char why[200] = "";
    if (grows && own.status == LOOM_FULL)
        snprintf(why, sizeof why, "; the table could not grow: %s", loom_last_error());
    RETURN_ERROR_IF(own.status == LOOM_FULL, LOOM_FULL,
                    "%llu of %llu keys did not fit, the others are stored (the status array tells which); make the "
                    "table for more keys%s",
                    (unsigned long long)own.full, (unsigned long long)own.keys, why);
    return (loom_status)own.status;
}

/* Checks the arrays of a call that takes pairs. */
static loom_status check_pairs(loom_map *map, const loom__batch *batch)
{
    if (!batch->captured)
        RETURN_IF_FAILED(loom__map_check(map, batch->stream));
    RETURN_IF_FAILED(loom__map_check_values(map, "values", batch->values));
    const loom__array arrays[] = {
        {"keys", batch->keys, map->key_bytes, 0, 0},
        {"values", batch->values, loom__number_bytes(batch->widening, map->value_bytes), map->type == LOOM_TYPE_SET, 0},
        {"found", batch->found_values, map->value_bytes, 1, 1},
        {"status", batch->status, 1, 1, 1},
    };
    return loom__check_arrays(arrays, 4, batch->n);
}

/* For calls that read or change values. */
static loom_status check_has_values(loom_map *map, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(map->type == LOOM_TYPE_SET, LOOM_UNSUPPORTED, "a set has no values; use a map or a counter");
    return LOOM_OK;
}

static loom_status check_insert(loom_map *map, const loom__batch *batch)
{
    const uint32_t known = LOOM_OVERWRITE | LOOM_IN_ORDER | LOOM_BY_PARTITION | LOOM_DIRECTLY | LOOM_LOW_MEMORY;
    RETURN_ERROR_IF(batch->flags & ~known, LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: only LOOM_KEEP, LOOM_OVERWRITE, LOOM_IN_ORDER, LOOM_BY_PARTITION, LOOM_DIRECTLY and "
                    "LOOM_LOW_MEMORY are known",
                    batch->flags);
    RETURN_ERROR_IF(
        batch->flags & LOOM_DIRECTLY && batch->flags & (LOOM_BY_PARTITION | LOOM_IN_ORDER), LOOM_INVALID_ARGUMENT,
        "flags = 0x%x: LOOM_DIRECTLY goes with neither LOOM_BY_PARTITION nor LOOM_IN_ORDER, which sort the batch "
        "first",
        batch->flags);
    return check_pairs(map, batch);
}

/* A set has nothing to overwrite. */
static loom__write write_of(const loom_map *map, uint32_t flags)
{
    return flags & LOOM_OVERWRITE && map->type != LOOM_TYPE_SET ? LOOM__WRITE_OVERWRITE : LOOM__WRITE_KEEP;
}

/* The build becomes part of a graph and does not run now, so it is not ordered with other calls. */
static loom_status capture_build(loom_map *map, loom__batch *batch)
{
    RETURN_ERROR_IF(batch->result == NULL, LOOM_INVALID_ARGUMENT,
                    "result is NULL: the stream is being captured into a graph, and nobody can wait for the outcome; "
                    "give a result where the device can write it");
    loom__gate_enter_writer(&map->handle.gate);
    batch->workspace = map->workspace;
    batch->workspace_bytes = map->workspace_bytes;
    loom_status status = loom__handle_check_views(&map->handle, LOOM__ACCESS_ALONE);
    if (status == LOOM_OK)
        status = loom__map_table_build(map->table, batch);
    map->generation += status == LOOM_OK;
    loom__gate_leave_writer(&map->handle.gate);
    return status;
}

loom_status loom_map_build(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                           uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = {
        .keys = keys, .values = values, .status = status, .n = n, .flags = flags, .result = result, .stream = stream};
    batch.captured = map != NULL && loom__handle_is_captured(&map->handle, stream);
    RETURN_IF_FAILED(check_insert(map, &batch));
    batch.write = write_of(map, flags);
    return batch.captured ? capture_build(map, &batch)
                          : run_batch(map, loom__map_table_build, &batch, LOOM__ACCESS_ALONE);
}

loom_status loom_map_insert(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                            uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = {
        .keys = keys, .values = values, .status = status, .n = n, .flags = flags, .result = result, .stream = stream};
    RETURN_IF_FAILED(check_insert(map, &batch));
    batch.write = write_of(map, flags);
    return run_batch(map, loom__map_table_write, &batch,
                     flags & (LOOM_IN_ORDER | LOOM_BY_PARTITION) ? LOOM__ACCESS_ALONE : LOOM__ACCESS_INSERT);
}

loom_status loom_map_find_or_insert(loom_map *map, const void *keys, const void *values, uint64_t n, void *found,
                                    uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = {.keys = keys,
                         .values = values,
                         .found_values = found,
                         .status = status,
                         .n = n,
                         .write = LOOM__WRITE_FETCH,
                         .result = result,
                         .stream = stream};
    RETURN_IF_FAILED(check_has_values(map, stream));
    RETURN_IF_FAILED(check_pairs(map, &batch));
    return run_batch(map, loom__map_table_write, &batch, LOOM__ACCESS_INSERT);
}

loom_status loom_map_update(loom_map *map, const void *keys, const void *values, uint64_t n, uint8_t *status,
                            loom_result *result, loom_stream stream)
{
    loom__batch batch = {.keys = keys,
                         .values = values,
                         .status = status,
                         .n = n,
                         .write = LOOM__WRITE_UPDATE,
                         .result = result,
                         .stream = stream};
    RETURN_IF_FAILED(check_has_values(map, stream));
    RETURN_IF_FAILED(check_pairs(map, &batch));
    return run_batch(map, loom__map_table_write, &batch, LOOM__ACCESS_UPDATE);
}

/* Sets the batch's `how` and `widening`. */
static loom_status how_to_combine(const loom_map *map, loom_combine combine, loom_number number, loom__batch *batch)
{
    static const loom__combine_rule hows[][4] = {
        [LOOM_NUMBER_U32] = {LOOM__ADD, LOOM__MIN_UNSIGNED, LOOM__MAX_UNSIGNED, LOOM__ADD},
        [LOOM_NUMBER_I32] = {LOOM__ADD, LOOM__MIN_SIGNED, LOOM__MAX_SIGNED},
        [LOOM_NUMBER_F32] = {LOOM__ADD_FLOAT, LOOM__MIN_FLOAT, LOOM__MAX_FLOAT},
        [LOOM_NUMBER_U64] = {LOOM__ADD, LOOM__MIN_UNSIGNED, LOOM__MAX_UNSIGNED},
        [LOOM_NUMBER_I64] = {LOOM__ADD, LOOM__MIN_SIGNED, LOOM__MAX_SIGNED},
        [LOOM_NUMBER_F64] = {LOOM__ADD_FLOAT, LOOM__MIN_FLOAT, LOOM__MAX_FLOAT},
    };
    static const loom__widening widenings[] = {
        [LOOM_NUMBER_U32] = LOOM__WIDEN_U32,
        [LOOM_NUMBER_I32] = LOOM__WIDEN_I32,
        [LOOM_NUMBER_F32] = LOOM__WIDEN_F32,
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
    batch->how = hows[number][combine];
    if (combine == LOOM_COMBINE_ADD_AND_COUNT)
        batch->widening = LOOM__WIDEN_COUNTED;
    else if (narrow && map->value_bytes == 8)
        batch->widening = widenings[number];
    return LOOM_OK;
}

loom_status loom_map_accumulate(loom_map *map, const void *keys, const void *values, uint64_t n, loom_combine combine,
                                loom_number number, uint8_t *status, loom_result *result, loom_stream stream)
{
    loom__batch batch = {.keys = keys,
                         .values = values,
                         .status = status,
                         .n = n,
                         .write = LOOM__WRITE_COMBINE,
                         .result = result,
                         .stream = stream};
    RETURN_IF_FAILED(check_has_values(map, stream));
    RETURN_IF_FAILED(how_to_combine(map, combine, number, &batch)); /* tells how wide the numbers are */
    RETURN_IF_FAILED(check_pairs(map, &batch));
    return run_batch(map, loom__map_table_write, &batch, LOOM__ACCESS_ACCUMULATE);
}

/* Without values an accumulation adds ones. */
loom_status loom_map_count(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                           loom_stream stream)
{
    loom__batch batch = {.keys = keys,
                         .status = status,
                         .n = n,
                         .write = LOOM__WRITE_COMBINE,
                         .how = LOOM__ADD,
                         .result = result,
                         .stream = stream};
    RETURN_IF_FAILED(check_has_values(map, stream));
    const loom__array arrays[] = {
        {"keys", keys, map->key_bytes, 0, 0},
        {"status", status, 1, 1, 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 2, n));
    return run_batch(map, loom__map_table_write, &batch, LOOM__ACCESS_ACCUMULATE);
}

loom_status loom_map_find(loom_map *map, const void *keys, uint64_t n, void *values, uint8_t *status,
                          loom_result *result, loom_stream stream)
{
    loom__batch batch = {
        .keys = keys, .found_values = values, .status = status, .n = n, .result = result, .stream = stream};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__map_check_values(map, "values", values));
    const loom__array arrays[] = {
        {"keys", keys, map->key_bytes, 0, 0},
        {"values", values, map->value_bytes, map->type == LOOM_TYPE_SET, 1},
        {"status", status, 1, 1, 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 3, n));
    return run_batch(map, loom__map_table_find, &batch, LOOM__ACCESS_FIND);
}

loom_status loom_map_contains(loom_map *map, const void *keys, uint64_t n, uint8_t *found, uint8_t *status,
                              loom_result *result, loom_stream stream)
{
    loom__batch batch = {.keys = keys, .found = found, .status = status, .n = n, .result = result, .stream = stream};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    const loom__array arrays[] = {
        {"keys", keys, map->key_bytes, 0, 0},
        {"found", found, 1, 1, 1},
        {"status", status, 1, 1, 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 3, n));
    return run_batch(map, loom__map_table_find, &batch, LOOM__ACCESS_FIND);
}

loom_status loom_map_erase(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                           loom_stream stream)
{
    loom__batch batch = {
        .keys = keys, .status = status, .n = n, .write = LOOM__WRITE_ERASE, .result = result, .stream = stream};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    const loom__array arrays[] = {
        {"keys", keys, map->key_bytes, 0, 0},
        {"status", status, 1, 1, 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 2, n));
    return run_batch(map, loom__map_table_write, &batch, LOOM__ACCESS_ERASE);
}

loom_status loom_map_clear(loom_map *map, loom_result *result, loom_stream stream)
{
    static const loom_result cleared = {.status = LOOM_OK};
    RETURN_IF_FAILED(loom__map_check(map, stream));
    loom__machine *machine = map->handle.context->machine;
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = loom__map_table_clear(map->table, stream);
    map->generation++;
    uint64_t none;
    if (status == LOOM_OK && result != NULL) /* it may lie anywhere that the machine can write */
        status = machine->ops->write_table(machine, result, &cleared, sizeof cleared, stream);
    else if (status == LOOM_OK) /* waits */
        status = loom__map_table_size(map->table, &none, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_map_count_accesses(loom_map *map, const void *keys, uint64_t n, uint64_t *accesses, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(accesses == NULL, LOOM_INVALID_ARGUMENT, "accesses is NULL");
    const loom__array arrays[] = {{"keys", keys, map->key_bytes, 0, 0}};
    RETURN_IF_FAILED(loom__check_arrays(arrays, 1, n));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__map_table_count_accesses(map->table, keys, n, accesses, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}
