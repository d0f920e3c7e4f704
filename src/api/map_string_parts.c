/* The strings of a batch: they are checked, cut into parts, brought to where the machine reads them, and become
 * references. */
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

/* ---- where strings lie ---- */

int loom__strings_on_host(const loom_map *map)
{
    return map->handle.context->machine->ops->reaches == NULL;
}

static int machine_reaches(const loom_map *map, const void *array)
{
    loom__machine *machine = map->handle.context->machine;
    int reached = 0;
    /* An array that no call may have is not for the host to read. refer_strings tells the error. */
    return machine->ops->reaches(machine, "an array", array, &reached) != LOOM_OK || reached;
}

static int is_reached(const loom_map *map, const loom_strings *given)
{
    return given->bytes == NULL || loom__strings_on_host(map) || machine_reaches(map, given->bytes);
}

/* An offset of a batch. It may lie where only the machine reads. */
static loom_status read_offset(const loom_map *map, const uint64_t *at, uint64_t *offset, loom_stream stream)
{
    loom__machine *machine = map->handle.context->machine;
    if (!loom__strings_on_host(map) && machine_reaches(map, at))
        return machine->ops->read_table(machine, offset, at, sizeof *offset, stream);
    *offset = *at;
    return LOOM_OK;
}

/* ---- references ---- */

static uint64_t most_of_column(const loom_map *map, int column)
{
    return column == 0 ? map->most_key_bytes : map->most_value_bytes;
}

/* Whether an array that the call writes overlaps the bytes of the strings. */
static int is_written(const loom_strings *given, const loom__strings_told *told, const loom__written *array)
{
    const uintptr_t begin = (uintptr_t)given->bytes + told->begin, end = (uintptr_t)given->bytes + told->end;
    const uintptr_t from = (uintptr_t)array->at;
    return array->at != NULL && array->bytes > 0 && begin < end && from < end && begin < from + array->bytes;
}

/* Makes references of strings first .. first + n - 1, where `base` is the address of offset 0; NULL: checks them. */
static loom_status refer(const loom__string_parts *parts, int column, uint64_t first, uint64_t n, uint64_t base,
                         loom__string *to, uint64_t *heap_bytes)
{
    const loom_strings *given = parts->columns[column];
    const char *name = column == 0 ? "keys" : "values";
    loom__machine *machine = parts->map->handle.context->machine;
    loom__strings_told told;
    RETURN_IF_FAILED(machine->ops->refer_strings(machine, given->offsets + first, base, n,
                                                 most_of_column(parts->map, column), to, &told, parts->stream));
    RETURN_ERROR_IF(told.falling != UINT64_MAX, LOOM_INVALID_ARGUMENT,
                    "%s: string %llu ends before it begins; offsets must ascend", name,
                    (unsigned long long)(first + told.falling));
    RETURN_ERROR_IF(given->bytes == NULL && told.end != told.begin, LOOM_INVALID_ARGUMENT,
                    "%s: bytes is NULL, and not all strings are empty", name);
    for (int i = 0; i < LOOM__MOST_WRITTEN; i++)
        RETURN_ERROR_IF(
            is_written(given, &told, &parts->written[i]), LOOM_INVALID_ARGUMENT,
            "%s: an array that the call writes lies in the bytes of the strings; it needs memory of its own", name);
    *heap_bytes = told.bytes;
    return LOOM_OK;
}

/* The bytes of strings first .. first + n - 1 that must be brought; they begin at offset *begin. Of a single string
 * that is too long they are no more than show that: it may be longer than the machine's memory. */
static loom_status bytes_to_bring(const loom__string_parts *parts, int column, uint64_t first, uint64_t n,
                                  uint64_t *begin, uint64_t *bytes, int *cut)
{
    const loom_strings *given = parts->columns[column];
    const uint64_t most = most_of_column(parts->map, column);
    uint64_t end;
    *begin = *bytes = 0;
    *cut = 0;
    if (given == NULL || is_reached(parts->map, given))
        return LOOM_OK;
    RETURN_IF_FAILED(read_offset(parts->map, given->offsets + first, begin, parts->stream));
    RETURN_IF_FAILED(read_offset(parts->map, given->offsets + first + n, &end, parts->stream));
    *cut = n == 1 && end - *begin > most;
    *bytes = *cut ? most + 1 : end - *begin;
    return LOOM_OK;
}

loom_status loom__string_part_refer(const loom__string_parts *parts, int column, uint64_t first, uint64_t n,
                                    loom__string *to, uint64_t *room_used, uint64_t *heap_bytes)
{
    static const unsigned char nothing; /* empty strings have an address, too */
    const loom_strings *given = parts->columns[column];
    loom__machine *machine = parts->map->handle.context->machine;
    uint64_t begin, bytes;
    int cut;
    RETURN_IF_FAILED(bytes_to_bring(parts, column, first, n, &begin, &bytes, &cut));
    if (bytes == 0) {
        const void *base = given->bytes != NULL ? given->bytes : &nothing;
        return refer(parts, column, first, n, (uint64_t)(uintptr_t)base, to, heap_bytes);
    }
    unsigned char *here = parts->room + *room_used;
    *room_used += loom__string_room(bytes);
    RETURN_IF_FAILED(
        machine->ops->write_table(machine, here, (const unsigned char *)given->bytes + begin, bytes, parts->stream));
    RETURN_IF_FAILED(refer(parts, column, first, n, (uint64_t)(uintptr_t)here - begin, to, heap_bytes));
    const loom__string lone = {(uint64_t)(uintptr_t)here, bytes};
    return cut ? machine->ops->write_table(machine, to, &lone, sizeof lone, parts->stream) : LOOM_OK;
}

/* ---- parts ---- */

/* Lowers *n to the strings from `first` on that have at most most_bytes bytes, but at least 1, if their bytes must be
 * brought. */
static loom_status lower_to_fit(const loom__string_parts *parts, int column, uint64_t first, uint64_t *n)
{
    const loom_strings *given = parts->columns[column];
    uint64_t begin, end, least = 1, most = *n;
    if (given == NULL || *n <= 1 || is_reached(parts->map, given))
        return LOOM_OK;
    RETURN_IF_FAILED(read_offset(parts->map, given->offsets + first, &begin, parts->stream));
    RETURN_IF_FAILED(read_offset(parts->map, given->offsets + first + *n, &end, parts->stream));
    if (end - begin <= parts->most_bytes)
        return LOOM_OK;
    while (least < most - 1) { /* `most` strings have more bytes; ends: the distance becomes less */
        const uint64_t middle = least + (most - least) / 2;
        RETURN_IF_FAILED(read_offset(parts->map, given->offsets + first + middle, &end, parts->stream));
        if (end - begin <= parts->most_bytes)
            least = middle;
        else
            most = middle;
    }
    *n = least;
    return LOOM_OK;
}

loom_status loom__string_part_size(const loom__string_parts *parts, uint64_t first, uint64_t *n)
{
    *n = parts->n - first < parts->at_once ? parts->n - first : parts->at_once;
    for (int column = 0; column < 2; column++)
        RETURN_IF_FAILED(lower_to_fit(parts, column, first, n));
    return LOOM_OK;
}

/* The room that the largest part needs, and the rows of that part. */
static loom_status measure_parts(const loom__string_parts *parts, uint64_t *most, uint64_t *rows)
{
    uint64_t n, begin, bytes;
    int cut;
    *most = *rows = 0;
    for (uint64_t first = 0; first < parts->n; first += n) {
        uint64_t room = 0;
        RETURN_IF_FAILED(loom__string_part_size(parts, first, &n));
        for (int column = 0; column < 2; column++) {
            RETURN_IF_FAILED(bytes_to_bring(parts, column, first, n, &begin, &bytes, &cut));
            room += loom__string_room(bytes);
        }
        *rows = room > *most ? n : *rows;
        *most = room > *most ? room : *most;
    }
    return LOOM_OK;
}

/* Takes room for the bytes that a part brings. While there is no memory for it, parts become smaller. */
static loom_status take_room(loom__string_parts *parts)
{
    const loom_allocator *allocator = &parts->map->handle.context->machine->allocator;
    for (;;) { /* ends: the bytes of a part are halved, until the largest part is one row */
        uint64_t rows;
        RETURN_IF_FAILED(loom__string_part_size(parts, 0, &parts->at_once)); /* later parts have no more rows */
        RETURN_IF_FAILED(measure_parts(parts, &parts->room_bytes, &rows));
        if (parts->room_bytes == 0)
            return LOOM_OK;
        parts->room = loom__allocate(allocator, parts->room_bytes, LOOM_MEMORY_TEMPORARY, parts->stream);
        if (parts->room != NULL)
            return LOOM_OK;
        if (rows == 1)
            return LOOM_OUT_OF_MEMORY;
        parts->most_bytes = (parts->room_bytes < parts->most_bytes ? parts->room_bytes : parts->most_bytes) / 2;
    }
}

loom_status loom__string_parts_prepare(loom__string_parts *parts, const loom_strings *keys, const loom_strings *values)
{
    uint64_t heap_bytes;
    int brings = 0;
    parts->columns[0] = keys;
    parts->columns[1] = values;
    parts->most_bytes = LOOM__BROUGHT_AT_ONCE;
    parts->at_once = parts->n < parts->at_once ? parts->n : parts->at_once;
    for (int column = 0; column < 2; column++)
        brings |= parts->columns[column] != NULL && !is_reached(parts->map, parts->columns[column]);
    if (!brings && parts->at_once == parts->n) /* references will be made of all strings at once */
        return LOOM_OK;
    for (int column = 0; column < 2; column++)
        if (parts->columns[column] != NULL)
            RETURN_IF_FAILED(refer(parts, column, 0, parts->n, 0, NULL, &heap_bytes));
    return brings ? take_room(parts) : LOOM_OK;
}

void loom__string_parts_give_back(loom__string_parts *parts, loom_context *context)
{
    loom__release(&context->machine->allocator, parts->room, parts->room_bytes, LOOM_MEMORY_TEMPORARY, parts->stream);
    parts->room = NULL;
}
