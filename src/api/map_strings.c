/* Byte strings at the API: batches of strings become references, and strings are written to the caller's arrays. */
#include "api/check.h"
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

enum {
    PIECE = 1 << 14,        /* strings that a thread refers to at once */
    PAIRS_AT_ONCE = 1 << 14 /* that are retrieved at once */
};

/* ---- references ---- */

typedef struct referring {
    const loom_strings *given;
    uint64_t first, n, most;
    loom__string *to;
    atomic_uint_least64_t bytes;   /* what the heap needs for them */
    atomic_uint_least64_t falling; /* the least number of a string that ends before it begins; UINT64_MAX: none */
} referring;

static void refer_piece(void *argument, uint64_t piece)
{
    referring *all = argument;
    const uint64_t begin = piece * PIECE, end = all->n - begin < PIECE ? all->n : begin + PIECE;
    const uint64_t *offsets = all->given->offsets + all->first;
    static const unsigned char nothing; /* empty strings have an address, too */
    const uint64_t base = (uint64_t)(uintptr_t)(all->given->bytes != NULL ? all->given->bytes : &nothing);
    uint64_t bytes = 0, falling = UINT64_MAX;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t length = offsets[i + 1] - offsets[i];
        if (offsets[i + 1] < offsets[i] && falling == UINT64_MAX)
            falling = i;
        if (all->to != NULL)
            all->to[i] = (loom__string){base + offsets[i], length};
        bytes += length <= all->most ? (length + 7) / 8 * 8 : 0;
    }
    atomic_fetch_add_explicit(&all->bytes, bytes, memory_order_relaxed);
    uint64_t seen = atomic_load_explicit(&all->falling, memory_order_relaxed);
    while (falling < seen && !atomic_compare_exchange_weak_explicit(&all->falling, &seen, falling, memory_order_relaxed,
                                                                    memory_order_relaxed))
        continue; /* ends: each failure means that another thread made it less */
}

loom_status loom__strings_refer(const loom_map *map, uint32_t column, const loom_strings *given, uint64_t first,
                                uint64_t n, loom__string *to, uint64_t *bytes)
{
    const int keys = column == LOOM__VARIABLE_KEYS;
    const char *name = keys ? "keys" : "values";
    loom__machine *machine = map->handle.context->machine;
    referring all = {
        .given = given, .first = first, .n = n, .most = keys ? map->most_key_bytes : map->most_value_bytes, .to = to};
    atomic_init(&all.bytes, 0);
    atomic_init(&all.falling, UINT64_MAX);
    if (n <= PIECE)
        refer_piece(&all, 0);
    else
        machine->ops->host_parallel(machine, (n + PIECE - 1) / PIECE, refer_piece, &all);
    const uint64_t falling = atomic_load(&all.falling);
    RETURN_ERROR_IF(falling != UINT64_MAX, LOOM_INVALID_ARGUMENT,
                    "%s: string %llu ends before it begins; offsets must ascend", name,
                    (unsigned long long)(first + falling));
    RETURN_ERROR_IF(given->bytes == NULL && given->offsets[first + n] != given->offsets[first], LOOM_INVALID_ARGUMENT,
                    "%s: bytes is NULL, and not all strings are empty", name);
    *bytes = atomic_load(&all.bytes);
    return LOOM_OK;
}

/* ---- find ---- */

/* Writes where strings begin, one behind the other from *at on; *at becomes the end of the last. */
static void place_strings(const loom__string *strings, uint64_t n, uint64_t *offsets, uint64_t *at)
{
    for (uint64_t i = 0; i < n; i++) {
        offsets[i] = *at;
        *at += strings[i].length;
    }
    offsets[n] = *at;
}

typedef struct string_query {
    const void *keys; /* rows, or references */
    loom__string *found;
    uint64_t n;
    uint64_t *offsets;
    void *bytes;
    uint64_t room;
    uint8_t *status;
    loom_stream stream;
} string_query;

/* The table does not change meanwhile: references to its heap stay valid. */
static loom_status find_strings(loom_map *map, const string_query *query, uint64_t *needed, loom_result *result)
{
    loom__machine *machine = map->handle.context->machine;
    const loom__batch batch = {.keys = query->keys,
                               .found_values = query->found,
                               .status = query->status,
                               .n = query->n,
                               .result = result,
                               .stream = query->stream};
    *needed = 0;
    RETURN_IF_FAILED(loom__map_table_find(map->handle.table, &batch));
    place_strings(query->found, query->n, query->offsets, needed);
    if (query->bytes == NULL || query->room == 0)
        return LOOM_OK;
    if (*needed > query->room) {
        result->status = LOOM_TOO_SMALL;
        return LOOM_OK;
    }
    return machine->ops->copy_strings(machine, query->found, query->n, query->offsets, query->bytes, query->stream);
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
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    const int strings = (map->variable & LOOM__VARIABLE_KEYS) != 0;
    const uint64_t memory_bytes = (n > 0 ? n : 1) * sizeof(loom__string) * (strings ? 2 : 1);
    loom_result own = {0};
    uint64_t in_all = 0, in_batch;
    query.found = loom__allocate(allocator, memory_bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (query.found == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status outcome = LOOM_OK;
    if (strings) {
        query.keys = query.found + n;
        if (n > 0)
            outcome = loom__strings_refer(map, LOOM__VARIABLE_KEYS, keys, 0, n, query.found + n, &in_batch);
    }
    if (outcome == LOOM_OK)
        outcome = loom__handle_enter(&map->handle, LOOM__ACCESS_FIND, stream);
    if (outcome == LOOM_OK) {
        outcome = find_strings(map, &query, &in_all, &own);
        loom__handle_leave(&map->handle, LOOM__ACCESS_FIND, stream);
    }
    loom__release(allocator, query.found, memory_bytes, LOOM_MEMORY_TEMPORARY, stream);
    RETURN_IF_FAILED(outcome);
    if (needed != NULL)
        *needed = in_all;
    if (result != NULL)
        *result = own;
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
    loom__string *references; /* [PAIRS_AT_ONCE] with `out` */
    uint64_t bytes;           /* of the strings so far */
} column;

static void *rows_of(const column *c, uint64_t done)
{
    if (c->out != NULL)
        return c->references;
    return c->rows != NULL ? c->rows + done * c->width : NULL;
}

/* How many of the first n strings fit the caller's bytes. */
static uint64_t fitting(const column *c, uint64_t n)
{
    uint64_t bytes = c->bytes;
    if (c->out == NULL || c->out->byte_room == 0)
        return n;
    for (uint64_t i = 0; i < n; i++) {
        bytes += c->references[i].length;
        if (bytes > c->out->byte_room)
            return i;
    }
    return n;
}

/* Takes n references: places the strings behind those before, and copies them if `fills`. */
static loom_status take_strings(loom_map *map, column *c, uint64_t done, uint64_t n, int fills, loom_stream stream)
{
    loom__machine *machine = map->handle.context->machine;
    if (c->out == NULL)
        return LOOM_OK;
    if (c->out->offsets != NULL)
        place_strings(c->references, n, c->out->offsets + done, &c->bytes);
    else
        for (uint64_t i = 0; i < n; i++)
            c->bytes += c->references[i].length;
    c->out->needed = c->bytes;
    if (!fills || c->out->byte_room == 0 || n == 0)
        return LOOM_OK;
    return machine->ops->copy_strings(machine, c->references, n, c->out->offsets + done, c->out->bytes, stream);
}

/* One pass over the pairs from *position on. With `fills` strings are copied, as far as they fit; otherwise offsets are
 * written and bytes counted. */
static loom_status pass_over(loom_map *map, loom__position *position, column columns[2], uint64_t room, int fills,
                             uint64_t *got, loom_stream stream)
{
    loom__table *table = map->handle.table;
    *got = 0;
    columns[0].bytes = columns[1].bytes = 0;
    for (int i = 0; i < 2; i++)
        if (columns[i].out != NULL) {
            columns[i].out->needed = 0;
            if (columns[i].out->offsets != NULL)
                columns[i].out->offsets[0] = 0;
        }
    while (*got < room) { /* ends: each round passes a pair or is the last */
        loom__position next = *position;
        uint64_t some, wanted = room - *got < PAIRS_AT_ONCE ? room - *got : PAIRS_AT_ONCE;
        RETURN_IF_FAILED(loom__map_table_retrieve(table, &next, rows_of(&columns[0], *got), rows_of(&columns[1], *got),
                                                  wanted, &some, stream));
        if (some == 0)
            return LOOM_OK;
        uint64_t fit = some;
        for (int i = 0; i < 2 && fills; i++) {
            const uint64_t of_column = fitting(&columns[i], some);
            fit = of_column < fit ? of_column : fit;
        }
        if (fit < some) { /* only the first ones: once more, so that the position is right */
            next = *position;
            if (fit > 0)
                RETURN_IF_FAILED(loom__map_table_retrieve(table, &next, rows_of(&columns[0], *got),
                                                          rows_of(&columns[1], *got), fit, &some, stream));
            else if (*got == 0)
                for (int i = 0; i < 2; i++)
                    if (columns[i].out != NULL)
                        columns[i].out->needed = columns[i].references[0].length;
        }
        if (fit == 0)
            return LOOM_OK;
        for (int i = 0; i < 2; i++)
            RETURN_IF_FAILED(take_strings(map, &columns[i], *got, fit, fills, stream));
        *position = next;
        *got += fit;
        if (fit < wanted)
            return LOOM_OK;
    }
    return LOOM_OK;
}

static loom_status retrieve_columns(loom_map *map, loom__position *position, column columns[2], uint64_t room,
                                    int whole, uint64_t *got, loom_stream stream)
{
    loom__position start = *position;
    if (whole) {
        int short_of_bytes = 0;
        RETURN_IF_FAILED(pass_over(map, &start, columns, room, 0, got, stream));
        for (int i = 0; i < 2; i++)
            short_of_bytes |= columns[i].out != NULL && columns[i].out->byte_room > 0 &&
                              columns[i].out->byte_room < columns[i].out->needed;
        RETURN_ERROR_IF(short_of_bytes, LOOM_TOO_SMALL,
                        "byte_room is less than the bytes of the strings (`needed` tells them); no string was written");
    }
    RETURN_IF_FAILED(pass_over(map, position, columns, room, 1, got, stream));
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
    const uint64_t bytes = 2 * PAIRS_AT_ONCE * sizeof(loom__string);
    if (map->variable == 0)
        return loom__map_table_retrieve(map->handle.table, position, keys, values, room, got, stream);
    loom__string *references = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, stream);
    if (references == NULL)
        return LOOM_OUT_OF_MEMORY;
    column columns[2] = {{.width = map->key_bytes, .references = references},
                         {.width = map->value_bytes, .references = references + PAIRS_AT_ONCE}};
    if (map->variable & LOOM__VARIABLE_KEYS)
        columns[0].out = keys;
    else
        columns[0].rows = keys;
    if (map->variable & LOOM__VARIABLE_VALUES)
        columns[1].out = values;
    else
        columns[1].rows = values;
    const loom_status status = retrieve_columns(map, position, columns, room, whole, got, stream);
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
