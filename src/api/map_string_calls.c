/* Bulk calls on tables with byte strings. The strings of a batch become an array of references in temporary memory, and
 * the call goes on with rows of 16 bytes.
 *
 * Parts. Lookups and erasures go in parts, which take little memory. Other calls go whole, unless the bytes of their
 * strings must be brought to the machine and are many: then part after part, each of which keeps the order of the
 * batch. A call in parts is one call to others: it is inside the gate from the first part to the last. Before it
 * enters, the whole batch is checked, and the memory for references and bytes of the largest part is taken. What a part
 * may still lack is memory that the machine itself takes. The call then tells how many of its rows are done. */
#include "api/map.h"
#include "core/error.h"
#include "core/memory.h"

#include <stdio.h>

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
    loom__string_parts strings;
    loom__string *references; /* [strings.at_once] for each column of strings */
    loom__parts *parts;       /* NULL: the call goes whole */
} string_call;

/* Makes references of rows first .. first + n - 1, and points the batch to them. */
static loom_status refer_columns(const string_call *call, uint64_t first, uint64_t n, loom__batch *batch)
{
    const loom__string_parts *strings = &call->strings;
    loom__string *to = call->references;
    uint64_t in_room = 0, bytes;
    if (strings->columns[0] != NULL) {
        RETURN_IF_FAILED(loom__string_part_refer(strings, 0, first, n, to, &in_room, &bytes));
        batch->keys = to;
        batch->string_bytes += loom__map_inserts(call->access) ? bytes : 0;
        to += strings->at_once;
    }
    if (strings->columns[1] != NULL) {
        RETURN_IF_FAILED(loom__string_part_refer(strings, 1, first, n, to, &in_room, &bytes));
        batch->values = to;
        batch->string_bytes += bytes;
    }
    return LOOM_OK;
}

static const void *rows_from(const void *rows, uint64_t first, uint32_t width)
{
    return rows != NULL ? (const unsigned char *)rows + first * width : NULL;
}

/* Runs rows first .. first + n - 1. */
static loom_status run_part(const string_call *call, uint64_t first, uint64_t n, loom_result *result)
{
    loom_map *map = call->map;
    const loom__batch *given = call->given;
    loom__batch batch = *given;
    loom__map_work work = call->work;
    batch.n = n;
    batch.result = result;
    if (call->strings.columns[0] == NULL)
        batch.keys = rows_from(given->keys, first, map->key_bytes);
    if (call->strings.columns[1] == NULL)
        batch.values = rows_from(given->values, first, loom__number_bytes(given->widening, map->value_bytes));
    batch.found_values = (void *)(uintptr_t)rows_from(given->found_values, first, map->value_bytes);
    batch.found = (void *)(uintptr_t)rows_from(given->found, first, 1);
    batch.status = (void *)(uintptr_t)rows_from(given->status, first, 1);
    if (work == loom__map_table_build && first > 0) { /* the rest of a build */
        work = loom__map_table_write;
        batch.flags &= ~(uint32_t)LOOM_LOW_MEMORY;
    }
    RETURN_IF_FAILED(refer_columns(call, first, n, &batch));
    return call->parts != NULL ? loom__parts_run(call->parts, work, &batch)
                               : loom__map_run_rows(map, work, &batch, call->access);
}

/* Runs part after part. sum->keys: rows of those that did not fail. */
static loom_status run_each_part(const string_call *call, loom_result *sum)
{
    uint64_t n;
    for (uint64_t first = 0; first < call->given->n; first += n) {
        loom_result part = {0};
        RETURN_IF_FAILED(loom__string_part_size(&call->strings, first, &n));
        RETURN_IF_FAILED(run_part(call, first, n, &part));
        loom__add_result(sum, &part);
    }
    return LOOM_OK;
}

/* A later part failed: tells what is done. The caller's result has the counts of the parts before. */
static loom_status tell_done(const string_call *call, loom_status status, loom_result *sum)
{
    char why[200];
    snprintf(why, sizeof why, "%s", loom_last_error());
    sum->status = (int32_t)status;
    if (call->given->result != NULL)
        (void)loom__handle_tell(&call->map->handle, sum, call->given->result, call->given->stream);
    return loom__fail(status, "the first %llu of %llu keys are done, and the others are not: %s",
                      (unsigned long long)sum->keys, (unsigned long long)call->given->n, why);
}

static loom_status run_parts(string_call *call)
{
    const loom__batch *given = call->given;
    loom__parts parts = {.map = call->map, .access = call->access};
    loom_result sum = {0};
    call->parts = &parts;
    RETURN_IF_FAILED(loom__parts_begin(&parts, given->stream));
    loom_status status = run_each_part(call, &sum);
    if (status != LOOM_OK && sum.keys > 0 && call->access != LOOM__ACCESS_FIND)
        status = tell_done(call, status, &sum);
    else if (status == LOOM_OK && given->result != NULL)
        status = loom__handle_tell(&call->map->handle, &sum, given->result, given->stream);
    else if (status == LOOM_OK)
        status = loom__map_status_of(call->map->type, &sum, "");
    loom__parts_end(&parts, sum.keys, given->stream); /* afterwards the map may be destroyed */
    return status;
}

/* Runs the call whole if it is one part. */
static loom_status run_call(string_call *call)
{
    uint64_t n;
    RETURN_IF_FAILED(loom__string_part_size(&call->strings, 0, &n));
    return n == call->given->n ? run_part(call, 0, n, call->given->result) : run_parts(call);
}

static loom_status run_with_references(string_call *call)
{
    const loom_allocator *allocator = &call->map->handle.context->machine->allocator;
    const uint64_t columns = (uint64_t)(call->strings.columns[0] != NULL) + (call->strings.columns[1] != NULL);
    const uint64_t bytes = (call->strings.at_once * columns + 1) * sizeof(loom__string);
    loom__string few[2 * FEW_STRINGS];
    if (loom__strings_on_host(call->map) && call->given->n <= FEW_STRINGS) {
        call->references = few;
        return run_call(call);
    }
    call->references = loom__allocate(allocator, bytes, LOOM_MEMORY_TEMPORARY, call->given->stream);
    if (call->references == NULL)
        return LOOM_OUT_OF_MEMORY;
    const loom_status status = run_call(call);
    loom__release(allocator, call->references, bytes, LOOM_MEMORY_TEMPORARY, call->given->stream);
    return status;
}

loom_status loom__map_run_strings(loom_map *map, loom__map_work work, const loom__batch *batch, loom__access access)
{
    const int in_parts = access == LOOM__ACCESS_FIND || access == LOOM__ACCESS_ERASE;
    string_call call = {.map = map, .work = work, .given = batch, .access = access};
    call.strings = (loom__string_parts){.map = map,
                                        .n = batch->n,
                                        .at_once = in_parts ? loom__strings_at_once(map) : UINT64_MAX,
                                        .written = {{batch->found_values, batch->n * map->value_bytes},
                                                    {batch->found, batch->n},
                                                    {batch->status, batch->n}},
                                        .stream = batch->stream};
    RETURN_IF_FAILED(loom__string_parts_prepare(&call.strings, map->variable & LOOM__VARIABLE_KEYS ? batch->keys : NULL,
                                                map->variable & LOOM__VARIABLE_VALUES ? batch->values : NULL));
    loom_context *context = map->handle.context;
    loom__context_hold(context); /* behind its gate, the map may be destroyed */
    const loom_status status = run_with_references(&call);
    loom__string_parts_give_back(&call.strings, context);
    loom__context_release(context);
    return status;
}
