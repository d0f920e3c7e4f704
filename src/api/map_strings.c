/* Byte strings are written to the caller's arrays: values that are found, and whole tables. */
#include "api/check.h"
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

enum { PAIRS_AT_ONCE = 1 << 14, PAIRS_AT_ONCE_ON_DEVICE = 1 << 18 /* that are retrieved at once */ };

/* ---- find ---- */

typedef struct string_query {
    const void *keys; /* rows, or a loom_strings */
    uint64_t n;
    uint64_t *offsets;
    void *bytes; /* NULL: offsets only */
    uint64_t room;
    uint8_t *status;
    loom_stream stream;
    loom__string_parts parts; /* the arrays below have room for parts.at_once keys */
    loom__string *found, *references;
    uint64_t *places; /* [at_once + 1] */
} string_query;

/* Looks up keys first .. first + n - 1. Their values lie in the table, which does not change meanwhile. Writes the
 * offsets of their values from *at on, and *at. With `copies` the values are written, too. */
static loom_status find_part(loom_map *map, const string_query *query, uint64_t first, uint64_t n, int copies,
                             uint64_t *at, loom_result *result)
{
    loom__machine *machine = map->handle.context->machine;
    loom__batch batch = {.keys = (const unsigned char *)query->keys + first * map->key_bytes,
                         .found_values = query->found,
                         .status = query->status != NULL ? query->status + first : NULL,
                         .n = n,
                         .result = result,
                         .stream = query->stream};
    loom__places_told told;
    uint64_t in_room = 0, heap_bytes;
    if (map->variable & LOOM__VARIABLE_KEYS) {
        batch.keys = query->references;
        if (n > 0)
            RETURN_IF_FAILED(
                loom__string_part_refer(&query->parts, 0, first, n, query->references, &in_room, &heap_bytes));
    }
    RETURN_IF_FAILED(loom__map_table_find(map->handle.table, &batch));
    RETURN_IF_FAILED(
        machine->ops->place_strings(machine, query->found, n, *at, UINT64_MAX, query->places, &told, query->stream));
    RETURN_IF_FAILED(machine->ops->read_table(machine, query->offsets + first, query->places,
                                              (n + 1) * sizeof *query->offsets, query->stream));
    if (copies && n > 0 && told.end <= query->room)
        RETURN_IF_FAILED(
            machine->ops->copy_strings(machine, query->found, n, query->places, query->bytes, query->stream));
    *at = told.end;
    return LOOM_OK;
}

/* One pass over all keys. An empty batch has a part, too. */
static loom_status find_in_parts(loom_map *map, const string_query *query, int copies, uint64_t *needed,
                                 loom_result *sum)
{
    uint64_t first = 0, n;
    *needed = 0;
    *sum = (loom_result){.status = LOOM_OK, .keys = query->n};
    do {
        loom_result part = {0};
        RETURN_IF_FAILED(loom__string_part_size(&query->parts, first, &n));
        RETURN_IF_FAILED(find_part(map, query, first, n, copies, needed, &part));
        sum->ok += part.ok;
        sum->not_found += part.not_found;
        first += n;
    } while (first < query->n);
    return LOOM_OK;
}

/* Counts the bytes of all values, and writes the values if they fit. One part is looked up once. Several are looked up
 * twice: no value is written unless all fit. */
static loom_status find_strings(loom_map *map, const string_query *query, uint64_t *needed, loom_result *result)
{
    uint64_t n;
    RETURN_IF_FAILED(loom__string_part_size(&query->parts, 0, &n));
    const int in_one = n == query->n;
    RETURN_IF_FAILED(find_in_parts(map, query, in_one && query->bytes != NULL, needed, result));
    if (query->bytes == NULL)
        return LOOM_OK;
    if (*needed > query->room) {
        result->status = LOOM_TOO_SMALL;
        return LOOM_OK;
    }
    return in_one ? LOOM_OK : find_in_parts(map, query, 1, needed, result);
}

static loom_status check_find(loom_map *map, const void *keys, const string_query *query)
{
    RETURN_IF_FAILED(loom__map_check(map, query->stream));
    RETURN_ERROR_IF(!(map->variable & LOOM__VARIABLE_VALUES), LOOM_UNSUPPORTED,
                    "the values of this table are no strings: they have %u bytes each; use loom_map_find",
                    map->value_bytes);
    RETURN_ERROR_IF(query->n == UINT64_MAX, LOOM_INVALID_ARGUMENT, "n = %llu: offsets would run past the end of memory",
                    (unsigned long long)query->n);
    const int strings = (map->variable & LOOM__VARIABLE_KEYS) != 0;
    RETURN_ERROR_IF(keys == NULL && query->n > 0, LOOM_INVALID_ARGUMENT, "keys is NULL while n is %llu",
                    (unsigned long long)query->n);
    const uint64_t *offsets = strings && query->n > 0 ? ((const loom_strings *)keys)->offsets : NULL;
    const loom__array arrays[] = {
        {.name = "keys",
         .at = strings ? offsets : keys,
         .width = strings ? sizeof *offsets : map->key_bytes,
         .has_count = 1,
         .count = query->n + (uint64_t)(strings && query->n > 0)},
        {.name = "offsets",
         .at = query->offsets,
         .width = sizeof *offsets,
         .has_count = 1,
         .count = query->n + 1,
         .written = 1},
        {.name = "bytes", .at = query->bytes, .width = 1, .has_count = 1, .count = query->room, .written = 1},
        {.name = "status", .at = query->status, .width = 1, .optional = 1, .written = 1},
    };
    return loom__check_arrays(arrays, 4, query->n);
}

/* Takes memory for references and places, and enters the table. */
static loom_status find_with_memory(loom_map *map, string_query *query, uint64_t *needed, loom_result *result)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    const uint64_t at_once = query->parts.at_once;
    const uint64_t references = at_once * (map->variable & LOOM__VARIABLE_KEYS ? 2 : 1);
    const uint64_t bytes = references * sizeof(loom__string) + (at_once + 1) * sizeof *query->places;
    query->found = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, query->stream);
    if (query->found == NULL)
        return LOOM_OUT_OF_MEMORY;
    query->references = query->found + at_once;
    query->places = (uint64_t *)(void *)(query->found + references);
    loom_status status = loom__handle_enter(&map->handle, LOOM__ACCESS_FIND, query->stream);
    if (status == LOOM_OK) {
        status = find_strings(map, query, needed, result);
        if (status == LOOM_OK)
            loom__map_note_call(map, LOOM__ACCESS_FIND, query->n, LOOM_ROUTE_NONE);
        loom__handle_leave(&map->handle, LOOM__ACCESS_FIND, query->stream);
    }
    loom__release(allocator, query->found, bytes, LOOM_MEMORY_TEMPORARY, query->stream);
    return status;
}

loom_status loom_map_find_strings(loom_map *map, const void *keys, uint64_t n, uint64_t *offsets, void *bytes,
                                  uint64_t room, uint64_t *needed, uint8_t *status, loom_result *result,
                                  loom_stream stream)
{
    string_query query = {.keys = keys,
                          .n = n,
                          .offsets = offsets,
                          .bytes = room > 0 ? bytes : NULL,
                          .room = room,
                          .status = status,
                          .stream = stream};
    RETURN_IF_FAILED(check_find(map, keys, &query));
    const int strings = (map->variable & LOOM__VARIABLE_KEYS) != 0;
    loom_result own = {0};
    uint64_t in_all = 0;
    query.parts = (loom__string_parts){.map = map,
                                       .n = n,
                                       .at_once = loom__strings_at_once(map),
                                       .written = {{offsets, (n + 1) * sizeof *offsets}, {bytes, room}, {status, n}},
                                       .stream = stream};
    RETURN_IF_FAILED(loom__string_parts_prepare(&query.parts, strings && n > 0 ? keys : NULL, NULL));
    loom_context *context = map->handle.context;
    loom__context_hold(context); /* behind its gate, the map may be destroyed */
    loom_status outcome = find_with_memory(map, &query, &in_all, &own);
    loom__string_parts_give_back(&query.parts, context);
    if (outcome == LOOM_OK && result != NULL)
        outcome = context->machine->ops->write_table(context->machine, result, &own, sizeof own, stream);
    loom__context_release(context);
    RETURN_IF_FAILED(outcome);
    if (needed != NULL)
        *needed = in_all;
    RETURN_ERROR_IF(result == NULL && own.status == LOOM_TOO_SMALL, LOOM_TOO_SMALL,
                    "room = %llu: the values have %llu bytes; no value was written", (unsigned long long)room,
                    (unsigned long long)in_all);
    return LOOM_OK;
}

/* ---- whole tables ---- */

/* A column of retrieved pairs: rows of the caller's array, or strings. */
typedef struct column {
    loom_strings_out *out; /* NULL: not strings, or not wanted */
    unsigned char *rows;   /* not strings: the caller's array; NULL: not wanted */
    uint32_t width;
    loom__string *references; /* [at_once] with `out` */
    uint64_t bytes;           /* of the strings so far */
} column;

typedef struct retrieval {
    loom_map *map;
    uint64_t at_once; /* pairs */
    uint64_t *places; /* [at_once + 1] */
    loom_stream stream;
} retrieval;

static void *rows_of(const column *c, uint64_t done)
{
    if (c->out != NULL)
        return c->references;
    return c->rows != NULL ? c->rows + done * c->width : NULL;
}

/* How many of the first n strings fit the caller's bytes. */
static loom_status count_fitting(const retrieval *all, const column *c, uint64_t n, uint64_t *fitting)
{
    loom__machine *machine = all->map->handle.context->machine;
    loom__places_told told = {.fitting = n};
    if (c->out != NULL && c->out->byte_room > 0)
        RETURN_IF_FAILED(machine->ops->place_strings(machine, c->references, n, c->bytes, c->out->byte_room,
                                                     all->places, &told, all->stream));
    *fitting = told.fitting;
    return LOOM_OK;
}

/* Tells the bytes of a pair that does not fit, the first of the references. */
static loom_status tell_needed(const retrieval *all, column columns[2])
{
    loom__machine *machine = all->map->handle.context->machine;
    loom__places_told told;
    for (int i = 0; i < 2; i++)
        if (columns[i].out != NULL) {
            RETURN_IF_FAILED(machine->ops->place_strings(machine, columns[i].references, 1, 0, UINT64_MAX, all->places,
                                                         &told, all->stream));
            columns[i].out->needed = told.end;
        }
    return LOOM_OK;
}

/* Takes n references: places the strings behind those before, and copies them if `fills`. */
static loom_status take_strings(const retrieval *all, column *c, uint64_t done, uint64_t n, int fills)
{
    loom__machine *machine = all->map->handle.context->machine;
    loom__places_told told;
    if (c->out == NULL)
        return LOOM_OK;
    RETURN_IF_FAILED(
        machine->ops->place_strings(machine, c->references, n, c->bytes, UINT64_MAX, all->places, &told, all->stream));
    if (c->out->offsets != NULL)
        RETURN_IF_FAILED(machine->ops->read_table(machine, c->out->offsets + done, all->places,
                                                  (n + 1) * sizeof *all->places, all->stream));
    c->out->needed = c->bytes = told.end;
    if (!fills || c->out->byte_room == 0 || n == 0)
        return LOOM_OK;
    return machine->ops->copy_strings(machine, c->references, n, all->places, c->out->bytes, all->stream);
}

/* Both columns begin anew. */
static loom_status rewind_columns(const retrieval *all, column columns[2])
{
    static const uint64_t zero = 0;
    loom__machine *machine = all->map->handle.context->machine;
    for (int i = 0; i < 2; i++) {
        columns[i].bytes = 0;
        if (columns[i].out == NULL)
            continue;
        columns[i].out->needed = 0;
        if (columns[i].out->offsets != NULL)
            RETURN_IF_FAILED(
                machine->ops->write_table(machine, columns[i].out->offsets, &zero, sizeof zero, all->stream));
    }
    return LOOM_OK;
}

/* One pass over the pairs from *position on. With `fills` strings are copied, as far as they fit; otherwise offsets are
 * written and bytes counted. */
static loom_status pass_over(const retrieval *all, loom__position *position, column columns[2], uint64_t room,
                             int fills, uint64_t *got)
{
    loom__table *table = all->map->handle.table;
    *got = 0;
    RETURN_IF_FAILED(rewind_columns(all, columns));
    while (*got < room) { /* ends: each round passes a pair or is the last */
        loom__position next = *position;
        uint64_t some, wanted = room - *got < all->at_once ? room - *got : all->at_once;
        RETURN_IF_FAILED(loom__map_table_retrieve(table, &next, rows_of(&columns[0], *got), rows_of(&columns[1], *got),
                                                  wanted, &some, all->stream));
        if (some == 0)
            return LOOM_OK;
        uint64_t fit = some;
        for (int i = 0; i < 2 && fills; i++) {
            uint64_t of_column;
            RETURN_IF_FAILED(count_fitting(all, &columns[i], some, &of_column));
            fit = of_column < fit ? of_column : fit;
        }
        if (fit == 0)
            return *got == 0 ? tell_needed(all, columns) : LOOM_OK;
        if (fit < some) { /* only the first ones: once more, so that the position is right */
            next = *position;
            RETURN_IF_FAILED(loom__map_table_retrieve(table, &next, rows_of(&columns[0], *got),
                                                      rows_of(&columns[1], *got), fit, &some, all->stream));
        }
        for (int i = 0; i < 2; i++)
            RETURN_IF_FAILED(take_strings(all, &columns[i], *got, fit, fills));
        *position = next;
        *got += fit;
        if (fit < wanted)
            return LOOM_OK;
    }
    return LOOM_OK;
}

static loom_status retrieve_columns(const retrieval *all, loom__position *position, column columns[2], uint64_t room,
                                    int whole, uint64_t *got)
{
    loom__position start = *position;
    if (whole) {
        int short_of_bytes = 0;
        RETURN_IF_FAILED(pass_over(all, &start, columns, room, 0, got));
        for (int i = 0; i < 2; i++)
            short_of_bytes |= columns[i].out != NULL && columns[i].out->byte_room > 0 &&
                              columns[i].out->byte_room < columns[i].out->needed;
        RETURN_ERROR_IF(short_of_bytes, LOOM_TOO_SMALL,
                        "byte_room is less than the bytes of the strings (`needed` tells them); no string was written");
    }
    RETURN_IF_FAILED(pass_over(all, position, columns, room, 1, got));
    uint64_t left = 0;
    if (!whole && *got == 0)
        for (int i = 0; i < 2; i++)
            left += columns[i].out != NULL ? columns[i].out->needed : 0;
    RETURN_ERROR_IF(left > 0, LOOM_TOO_SMALL,
                    "byte_room is less than the bytes of the next pair (`needed` tells them); no pair was written");
    return LOOM_OK;
}

loom_status loom__map_retrieve(loom_map *map, loom__position *position, void *keys, void *values, uint64_t room,
                               int whole, uint64_t *got, loom_stream stream)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    if (map->variable == 0)
        return loom__map_table_retrieve(map->handle.table, position, keys, values, room, got, stream);
    const uint64_t most = loom__strings_on_host(map) ? PAIRS_AT_ONCE : PAIRS_AT_ONCE_ON_DEVICE;
    retrieval all = {.map = map, .at_once = room < most ? room + (room == 0) : most, .stream = stream};
    const uint64_t bytes = 2 * all.at_once * sizeof(loom__string) + (all.at_once + 1) * sizeof *all.places;
    loom__string *references = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (references == NULL)
        return LOOM_OUT_OF_MEMORY;
    all.places = (uint64_t *)(void *)(references + 2 * all.at_once);
    column columns[2] = {{.width = map->key_bytes, .references = references},
                         {.width = map->value_bytes, .references = references + all.at_once}};
    if (map->variable & LOOM__VARIABLE_KEYS)
        columns[0].out = keys;
    else
        columns[0].rows = keys;
    if (map->variable & LOOM__VARIABLE_VALUES)
        columns[1].out = values;
    else
        columns[1].rows = values;
    const loom_status status = retrieve_columns(&all, position, columns, room, whole, got);
    loom__release(allocator, references, bytes, LOOM_MEMORY_TEMPORARY, stream);
    return status;
}

loom_status loom_map_reserve_strings(loom_map *map, uint64_t bytes, loom_stream stream)
{
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_ERROR_IF(map->variable == 0, LOOM_UNSUPPORTED,
                    "neither keys nor values of this table are byte strings (LOOM_VARIABLE)");
    return loom__map_reserve_room(map, bytes, stream);
}
