/* All pairs of a map, at once or in chunks. */
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
    const loom__array arrays[] = {
        {"keys", keys, map->key_bytes, 0, 1},
        {"values", values, map->value_bytes, 1, 1},
    };
    return loom__check_arrays(arrays, 2, room);
}

loom_status loom_map_retrieve_all(loom_map *map, void *keys, void *values, uint64_t room, uint64_t *count,
                                  loom_result *result, loom_stream stream)
{
    loom__position start = {0, 0};
    uint64_t got = 0;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(count == NULL, LOOM_INVALID_ARGUMENT, "count is NULL");
    RETURN_IF_FAILED(check_pairs(map, keys, values, room));
    RETURN_IF_FAILED(loom__map_enter(map, LOOM__ACCESS_READ, stream));
    loom_status status = map->engine->size(map->table, count, stream);
    if (status == LOOM_OK && keys != NULL && room < *count)
        status = loom__fail(LOOM_TOO_SMALL, "the arrays have room for %llu pairs, the table holds %llu",
                            (unsigned long long)room, (unsigned long long)*count);
    if (status == LOOM_OK && room > 0)
        status = map->engine->retrieve(map->table, &start, keys, values, room, &got, stream);
    if (status == LOOM_OK && result != NULL) { /* it may lie anywhere that the machine can write */
        loom__machine *machine = map->context->machine;
        loom_result told = {.status = LOOM_OK, .keys = got, .ok = got};
        status = machine->ops->write_table(machine, result, &told, sizeof told, stream);
    }
    loom__map_leave(map, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_map_cursor_open(loom_map *map, loom_cursor **made, uint64_t *count, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "cursor is NULL; pass where the new handle is to go");
    uint64_t size;
    RETURN_IF_FAILED(loom__map_enter(map, LOOM__ACCESS_READ, stream));
    loom_status status = map->engine->size(map->table, &size, stream);
    loom_cursor *cursor = NULL;
    if (status == LOOM_OK) {
        cursor = loom__allocate(&map->context->machine->allocator, sizeof *cursor, LOOM_MEMORY_HOST, NULL);
        status = cursor != NULL ? LOOM_OK : LOOM_OUT_OF_MEMORY;
    }
    if (status == LOOM_OK) {
        *cursor = (loom_cursor){.map = map, .generation = map->generation};
        *made = cursor;
        if (count != NULL)
            *count = size;
    }
    loom__map_leave(map, LOOM__ACCESS_READ, stream);
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
    RETURN_IF_FAILED(loom__map_enter(map, LOOM__ACCESS_READ, stream));
    loom_status status;
    if (map->generation != cursor->generation)
        status = loom__fail(LOOM_CHANGED, "the table was written since the cursor was opened; open another");
    else
        status = map->engine->retrieve(map->table, &cursor->position, keys, values, room, got, stream);
    loom__map_leave(map, LOOM__ACCESS_READ, stream);
    return status;
}

void loom_cursor_close(loom_cursor *cursor)
{
    if (cursor != NULL)
        loom__release(&cursor->map->context->machine->allocator, cursor, sizeof *cursor, LOOM_MEMORY_HOST, NULL);
}
