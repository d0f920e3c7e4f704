/* All pairs of a map: at once, in chunks, or through a callback. */
#include "api/check.h"
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

struct loom_cursor {
    loom_map *map;
    uint64_t generation; /* of the map when the cursor was opened */
    loom__position position;
};

static loom_status check_pairs(const loom_map *map, void *keys, void *values, uint64_t room)
{
    RETURN_IF_FAILED(loom__map_check_values(map, values));
    const loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = map->key_bytes, .written = 1},
        {.name = "values", .at = values, .width = map->value_bytes, .optional = 1, .written = 1},
    };
    return loom__check_arrays(arrays, 2, room);
}

loom_status loom_map_retrieve_all(loom_map *map, void *keys, void *values, uint64_t room, uint64_t *count,
                                  loom_result *result, loom_stream stream)
{
    loom__position start = {0};
    uint64_t got = 0;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(count == NULL, LOOM_INVALID_ARGUMENT, "count is NULL");
    RETURN_IF_FAILED(check_pairs(map, keys, values, room));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__map_table_pairs(map->handle.table, count, stream);
    if (status == LOOM_OK && keys != NULL && room < *count)
        status = loom__fail(LOOM_TOO_SMALL, "the arrays have room for %llu pairs, the table holds %llu",
                            (unsigned long long)room, (unsigned long long)*count);
    if (status == LOOM_OK && room > 0)
        status = loom__map_table_retrieve(map->handle.table, &start, keys, values, room, &got, stream);
    if (status == LOOM_OK && result != NULL)
        status = loom__handle_tell(&map->handle, &(loom_result){.keys = got, .ok = got}, result, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_cursor_open(loom_map *map, loom_cursor **made, uint64_t *count, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "cursor is NULL; pass where the new handle is to go");
    uint64_t size;
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__map_table_pairs(map->handle.table, &size, stream);
    loom_cursor *cursor = NULL;
    if (status == LOOM_OK) {
        cursor = loom__allocate(&map->handle.context->machine->allocator, sizeof *cursor, LOOM_MEMORY_HOST, NULL);
        status = cursor != NULL ? LOOM_OK : LOOM_OUT_OF_MEMORY;
    }
    if (status == LOOM_OK) {
        *cursor = (loom_cursor){.map = map, .generation = map->handle.generation};
        *made = cursor;
        if (count != NULL)
            *count = size;
    }
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_cursor_next(loom_cursor *cursor, void *keys, void *values, uint64_t room, uint64_t *got,
                             loom_stream stream)
{
    RETURN_ERROR_IF(cursor == NULL || got == NULL, LOOM_INVALID_ARGUMENT, "cursor or got is NULL");
    loom_map *map = cursor->map;
    *got = 0;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(room == 0, LOOM_INVALID_ARGUMENT, "room is 0: no pair could be given out");
    RETURN_IF_FAILED(check_pairs(map, keys, values, room));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status;
    if (map->handle.generation != cursor->generation)
        status = loom__fail(LOOM_CHANGED, "the table was written since the cursor was opened; open another");
    else
        status = loom__map_table_retrieve(map->handle.table, &cursor->position, keys, values, room, got, stream);
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

void loom_cursor_close(loom_cursor *cursor)
{
    if (cursor != NULL)
        loom__release(&cursor->map->handle.context->machine->allocator, cursor, sizeof *cursor, LOOM_MEMORY_HOST, NULL);
}

/* ---- visits ---- */

/* Pairs that a visit gets at once: at most VISITED_AT_ONCE, and about VISITED_BYTES unless a single one has more. */
enum { VISITED_AT_ONCE = 4096, VISITED_BYTES = 1 << 20 };

static loom_status visit_all(loom_cursor *cursor, unsigned char *keys, unsigned char *values, uint64_t at_once,
                             loom_visit visit, void *user, int *stopped, loom_stream stream)
{
    uint64_t got;
    do { /* ends: each round brings pairs or is the last */
        RETURN_IF_FAILED(loom_cursor_next(cursor, keys, values, at_once, &got, stream));
        if (got > 0)
            *stopped = visit(user, keys, values, got);
    } while (got > 0 && *stopped == 0);
    return LOOM_OK;
}

loom_status loom_map_for_each(loom_map *map, loom_visit visit, void *user, int *stopped, loom_stream stream)
{
    loom_cursor *cursor;
    int last = 0;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(visit == NULL, LOOM_INVALID_ARGUMENT, "visit is NULL");
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    const uint64_t fit = VISITED_BYTES / ((uint64_t)map->key_bytes + map->value_bytes);
    const uint64_t at_once = fit < 1 ? 1 : fit < VISITED_AT_ONCE ? fit : VISITED_AT_ONCE;
    const uint64_t keys_bytes = at_once * map->key_bytes, bytes = keys_bytes + at_once * map->value_bytes;
    RETURN_IF_FAILED(loom_map_cursor_open(map, &cursor, NULL, stream));
    unsigned char *buffer = loom__allocate(allocator, bytes, LOOM_MEMORY_HOST, NULL);
    loom_status status = LOOM_OUT_OF_MEMORY;
    if (buffer != NULL)
        status = visit_all(cursor, buffer, map->value_bytes > 0 ? buffer + keys_bytes : NULL, at_once, visit, user,
                           &last, stream);
    loom__release(allocator, buffer, bytes, LOOM_MEMORY_HOST, NULL);
    loom_cursor_close(cursor);
    if (stopped != NULL)
        *stopped = last;
    return status;
}
