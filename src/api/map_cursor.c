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

/* Where a column is strings, checks what the caller's struct says of it. */
static loom_status check_out(const loom_strings_out *out, uint64_t room, loom__array *offsets, loom__array *bytes)
{
    if (out == NULL) {
        offsets->optional = offsets->optional || room == 0;
        return LOOM_OK;
    }
    RETURN_ERROR_IF((uintptr_t)out % _Alignof(loom_strings_out) != 0, LOOM_INVALID_ARGUMENT,
                    "%s is not aligned as a loom_strings_out is", offsets->name);
    RETURN_ERROR_IF(room == UINT64_MAX, LOOM_INVALID_ARGUMENT, "room = %llu: offsets would run past the end of memory",
                    (unsigned long long)room);
    offsets->at = out->offsets;
    offsets->width = sizeof(uint64_t);
    offsets->has_count = 1;
    offsets->count = room > 0 ? room + 1 : 0;
    offsets->optional = 0;
    bytes->at = out->bytes;
    bytes->count = out->byte_room;
    bytes->optional = 0;
    return LOOM_OK;
}

static loom_status check_pairs(const loom_map *map, void *keys, void *values, uint64_t room)
{
    RETURN_IF_FAILED(loom__map_check_values(map, values));
    loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = map->key_bytes, .written = 1},
        {.name = "values", .at = values, .width = map->value_bytes, .optional = 1, .written = 1},
        {.name = "bytes of keys", .width = 1, .optional = 1, .written = 1, .has_count = 1},
        {.name = "bytes of values", .width = 1, .optional = 1, .written = 1, .has_count = 1},
    };
    for (int i = 0; i < 2; i++)
        if (map->variable & (i == 0 ? LOOM__VARIABLE_KEYS : LOOM__VARIABLE_VALUES))
            RETURN_IF_FAILED(check_out(i == 0 ? keys : values, room, &arrays[i], &arrays[i + 2]));
    return loom__check_arrays(arrays, 4, room);
}

/* No strings are asked for. */
static void set_none_needed(const loom_map *map, void *keys, void *values)
{
    if (map->variable & LOOM__VARIABLE_KEYS && keys != NULL)
        ((loom_strings_out *)keys)->needed = 0;
    if (map->variable & LOOM__VARIABLE_VALUES && values != NULL)
        ((loom_strings_out *)values)->needed = 0;
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
    if (room == 0)
        set_none_needed(map, keys, values);
    else if (status == LOOM_OK)
        status = loom__map_retrieve(map, &start, keys, values, room, 1, &got, stream);
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
        status = loom__map_retrieve(map, &cursor->position, keys, values, room, 0, got, stream);
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

/* A column of the pairs that a visit gets: rows, or strings. */
typedef struct visited {
    unsigned char *memory; /* rows; or offsets, then bytes; NULL: there is no column */
    uint64_t bytes;
    int is_strings;
    loom_strings_out out;
    loom_strings strings;
} visited;

static void release_visited(const loom_map *map, visited *one)
{
    loom__release(&map->handle.context->machine->allocator, one->memory, one->bytes, LOOM_MEMORY_HOST, NULL);
    *one = (visited){0};
}

/* Memory for `at_once` elements of a column: rows of this width, or strings with that many bytes in all. */
static loom_status take_visited(const loom_map *map, uint32_t column, uint64_t at_once, uint64_t width, visited *one)
{
    const uint64_t offsets = (at_once + 1) * sizeof(uint64_t);
    release_visited(map, one);
    one->is_strings = (map->variable & column) != 0;
    one->bytes = one->is_strings ? offsets + width : at_once * width;
    if (one->bytes == 0)
        return LOOM_OK;
    one->memory = loom__allocate(&map->handle.context->machine->allocator, one->bytes, LOOM_MEMORY_HOST, NULL);
    if (one->memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    if (one->is_strings) {
        one->out = (loom_strings_out){
            .offsets = (uint64_t *)(void *)one->memory, .bytes = one->memory + offsets, .byte_room = width};
        one->strings = (loom_strings){one->out.offsets, one->out.bytes};
    }
    return LOOM_OK;
}

/* What a retrieval writes to, and what a visit reads. */
static void *to_visited(visited *one)
{
    return one->is_strings ? (void *)&one->out : one->memory;
}

static const void *from_visited(const visited *one)
{
    return one->is_strings ? (const void *)&one->strings : one->memory;
}

/* The next pairs. A string that is longer than the memory for all gets more: a table may allow far longer strings than
 * it has. */
static loom_status next_visited(loom_cursor *cursor, visited *keys, visited *values, uint64_t at_once, uint64_t *got,
                                loom_stream stream)
{
    const loom_map *map = cursor->map;
    const loom_status status = loom_cursor_next(cursor, to_visited(keys), to_visited(values), at_once, got, stream);
    if (status != LOOM_TOO_SMALL)
        return status;
    if (keys->is_strings && keys->out.needed > keys->out.byte_room)
        RETURN_IF_FAILED(take_visited(map, LOOM__VARIABLE_KEYS, at_once, keys->out.needed, keys));
    if (values->is_strings && values->out.needed > values->out.byte_room)
        RETURN_IF_FAILED(take_visited(map, LOOM__VARIABLE_VALUES, at_once, values->out.needed, values));
    return loom_cursor_next(cursor, to_visited(keys), to_visited(values), at_once, got, stream);
}

static loom_status visit_all(loom_cursor *cursor, visited *keys, visited *values, uint64_t at_once, loom_visit visit,
                             void *user, int *stopped, loom_stream stream)
{
    uint64_t got;
    do { /* ends: each round brings pairs or is the last */
        RETURN_IF_FAILED(next_visited(cursor, keys, values, at_once, &got, stream));
        if (got > 0)
            *stopped = visit(user, from_visited(keys), from_visited(values), got);
    } while (got > 0 && *stopped == 0);
    return LOOM_OK;
}

loom_status loom_map_for_each(loom_map *map, loom_visit visit, void *user, int *stopped, loom_stream stream)
{
    loom_cursor *cursor;
    visited keys = {0}, values = {0};
    int last = 0;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(visit == NULL, LOOM_INVALID_ARGUMENT, "visit is NULL");
    const uint64_t fit = VISITED_BYTES / ((uint64_t)map->key_bytes + map->value_bytes);
    const uint64_t at_once = fit < 1 ? 1 : fit < VISITED_AT_ONCE ? fit : VISITED_AT_ONCE;
    RETURN_IF_FAILED(loom_map_cursor_open(map, &cursor, NULL, stream));
    loom_status status = take_visited(map, LOOM__VARIABLE_KEYS, at_once,
                                      map->variable & LOOM__VARIABLE_KEYS ? VISITED_BYTES : map->key_bytes, &keys);
    if (status == LOOM_OK)
        status = take_visited(map, LOOM__VARIABLE_VALUES, at_once,
                              map->variable & LOOM__VARIABLE_VALUES ? VISITED_BYTES : map->value_bytes, &values);
    if (status == LOOM_OK)
        status = visit_all(cursor, &keys, &values, at_once, visit, user, &last, stream);
    release_visited(map, &keys);
    release_visited(map, &values);
    loom_cursor_close(cursor);
    if (stopped != NULL)
        *stopped = last;
    return status;
}
