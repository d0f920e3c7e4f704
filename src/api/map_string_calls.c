/* Bulk calls on tables with byte strings. The strings of a batch become an array of references in temporary memory,
 * and the call goes on with rows of 16 bytes.
 *
 * Parts. Lookups and erasures go in parts, which take little memory. Other calls go whole, unless the bytes of their
 * strings must be brought to the machine and are many: then part after part, each of which keeps the order of the
 * batch. The whole batch is checked before the first part changes anything. */
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

enum {
    FEW_STRINGS = 16, /* references on the stack */
    STRINGS_AT_ONCE = 1 << 18,
    STRINGS_AT_ONCE_ON_DEVICE = 1 << 24
};

uint64_t loom__strings_at_once(const loom_map *map)
{
    return loom__strings_on_host(map) ? STRINGS_AT_ONCE : STRINGS_AT_ONCE_ON_DEVICE;
}

typedef struct string_call {
    loom_map *map;
    loom__map_work work;
    const loom__batch *given;
    loom__access access;
    uint64_t most_bytes;      /* that are brought at once */
    uint64_t at_once;         /* rows of a part */
    loom__string *references; /* [at_once] for each column that the call takes */
} string_call;

static int takes_string_keys(const string_call *call)
{
    return (call->map->variable & LOOM__VARIABLE_KEYS) != 0;
}

static int takes_string_values(const string_call *call)
{
    return call->given->values != NULL && (call->map->variable & LOOM__VARIABLE_VALUES) != 0;
}

/* Makes references of rows first .. first + n - 1, and points the batch to them. */
static loom_status refer_columns(const string_call *call, uint64_t first, uint64_t n, loom__batch *batch,
                                 loom__brought brought[2])
{
    const loom_map *map = call->map;
    uint64_t bytes;
    if (takes_string_keys(call)) {
        RETURN_IF_FAILED(loom__strings_refer(map, LOOM__VARIABLE_KEYS, call->given->keys, first, n, call->references,
                                             &brought[0], &bytes, batch->stream));
        batch->keys = call->references;
        batch->string_bytes += loom__map_inserts(call->access) ? bytes : 0;
    }
    if (takes_string_values(call)) {
        loom__string *references = call->references + (takes_string_keys(call) ? call->at_once : 0);
        RETURN_IF_FAILED(loom__strings_refer(map, LOOM__VARIABLE_VALUES, call->given->values, first, n, references,
                                             &brought[1], &bytes, batch->stream));
        batch->values = references;
        batch->string_bytes += bytes;
    }
    return LOOM_OK;
}

/* Runs rows first .. first + n - 1. *short_of: there was no memory to bring their bytes, and nothing was done. */
static loom_status run_part(const string_call *call, uint64_t first, uint64_t n, loom_result *result, int *short_of)
{
    loom_map *map = call->map;
    const loom__batch *given = call->given;
    const uint32_t number_bytes = loom__number_bytes(given->widening, map->value_bytes);
    loom__batch batch = *given;
    loom__brought brought[2] = {{0}, {0}};
    loom__map_work work = call->work;
    loom__access access = call->access;
    batch.n = n;
    batch.result = result;
    if (!takes_string_keys(call))
        batch.keys = (const unsigned char *)given->keys + first * map->key_bytes;
    if (given->values != NULL && !takes_string_values(call))
        batch.values = (const unsigned char *)given->values + first * number_bytes;
    if (given->found_values != NULL)
        batch.found_values = (unsigned char *)given->found_values + first * map->value_bytes;
    if (given->found != NULL)
        batch.found = given->found + first;
    if (given->status != NULL)
        batch.status = given->status + first;
    if (work == loom__map_table_build && first > 0) { /* the rest of a build */
        work = loom__map_table_write;
        access = batch.flags & (LOOM_IN_ORDER | LOOM_BY_PARTITION) ? LOOM__ACCESS_ALONE : LOOM__ACCESS_INSERT;
        batch.flags &= ~(uint32_t)LOOM_LOW_MEMORY;
    }
    loom_status status = refer_columns(call, first, n, &batch, brought);
    *short_of = brought[0].failed || brought[1].failed;
    if (status == LOOM_OK)
        status = loom__map_run_rows(map, work, &batch, access);
    for (int i = 0; i < 2; i++)
        loom__strings_give_back(map, &brought[i], batch.stream);
    return status;
}

/* Rows of the part that begins at `first`. */
static loom_status size_of_part(const string_call *call, uint64_t first, uint64_t *n)
{
    const loom__batch *given = call->given;
    *n = given->n - first < call->at_once ? given->n - first : call->at_once;
    if (takes_string_keys(call))
        RETURN_IF_FAILED(loom__strings_fit(call->map, given->keys, first, call->most_bytes, n, given->stream));
    if (takes_string_values(call))
        RETURN_IF_FAILED(loom__strings_fit(call->map, given->values, first, call->most_bytes, n, given->stream));
    return LOOM_OK;
}

static void add_result(loom_result *sum, const loom_result *part)
{
    sum->keys += part->keys;
    sum->ok += part->ok;
    sum->exists += part->exists;
    sum->not_found += part->not_found;
    sum->full += part->full;
    sum->too_long += part->too_long;
    sum->status = sum->full > 0 ? LOOM_FULL : sum->too_long > 0 ? LOOM_TOO_LONG : LOOM_OK;
}

static loom_status check_columns(const string_call *call)
{
    const loom__batch *given = call->given;
    uint64_t bytes;
    if (takes_string_keys(call))
        RETURN_IF_FAILED(loom__strings_refer(call->map, LOOM__VARIABLE_KEYS, given->keys, 0, given->n, NULL, NULL,
                                             &bytes, given->stream));
    if (takes_string_values(call))
        RETURN_IF_FAILED(loom__strings_refer(call->map, LOOM__VARIABLE_VALUES, given->values, 0, given->n, NULL, NULL,
                                             &bytes, given->stream));
    return LOOM_OK;
}

static loom_status run_parts(string_call *call)
{
    const loom__batch *given = call->given;
    loom_result sum = {0};
    uint64_t n;
    int short_of = 0;
    RETURN_IF_FAILED(size_of_part(call, 0, &n));
    if (n == given->n) {
        const loom_status status = run_part(call, 0, n, given->result, &short_of);
        if (!short_of || n == 1)
            return status;
        call->most_bytes /= 2;
    }
    RETURN_IF_FAILED(check_columns(call));
    for (uint64_t first = 0; first < given->n;) { /* ends: a part is done, or the next one has fewer bytes */
        loom_result part = {0};
        RETURN_IF_FAILED(size_of_part(call, first, &n));
        const loom_status status = run_part(call, first, n, &part, &short_of);
        if (short_of && n > 1) {
            call->most_bytes /= 2;
            continue;
        }
        RETURN_IF_FAILED(status);
        add_result(&sum, &part);
        first += n;
    }
    if (given->result != NULL)
        return loom__handle_tell(&call->map->handle, &sum, given->result, given->stream);
    return loom__map_status_of(call->map, &sum, "");
}

loom_status loom__map_run_strings(loom_map *map, loom__map_work work, const loom__batch *batch, loom__access access)
{
    const loom_allocator *allocator = &map->handle.context->machine->allocator;
    const int in_parts = access == LOOM__ACCESS_FIND || access == LOOM__ACCESS_ERASE;
    const uint64_t most = in_parts ? loom__strings_at_once(map) : UINT64_MAX;
    loom__string few[2 * FEW_STRINGS];
    string_call call = {.map = map,
                        .work = work,
                        .given = batch,
                        .access = access,
                        .most_bytes = LOOM__BROUGHT_AT_ONCE,
                        .at_once = batch->n < most ? batch->n : most};
    if (loom__strings_on_host(map) && batch->n <= FEW_STRINGS) {
        call.references = few;
        return run_parts(&call);
    }
    RETURN_IF_FAILED(size_of_part(&call, 0, &call.at_once)); /* later parts have no more rows */
    const uint64_t columns = (uint64_t)takes_string_keys(&call) + (uint64_t)takes_string_values(&call);
    const uint64_t bytes = (call.at_once * columns + 1) * sizeof(loom__string);
    call.references = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    if (call.references == NULL)
        return LOOM_OUT_OF_MEMORY;
    const loom_status status = run_parts(&call);
    loom__release(allocator, call.references, bytes, LOOM_MEMORY_TEMPORARY, batch->stream);
    return status;
}
