/* Arrays in the memory of a context's machine, and in pinned host memory. */
#include "api/context.h"
#include "core/error.h"
#include "core/memory.h"

/* The allocator's kind of memory for the place. Allocators know no pinned memory: on a machine that pins, this is about
 * LOOM_ARRAY_MACHINE alone. */
static loom_memory_kind kind_of(loom_array_place place)
{
    return place == LOOM_ARRAY_PINNED ? LOOM_MEMORY_HOST : LOOM_MEMORY_TABLE;
}

static int is_pinned(const loom_context *context, loom_array_place place)
{
    return place == LOOM_ARRAY_PINNED && context->machine->ops->pinned_create != NULL;
}

loom_status loom_array_create(loom_context *context, loom_array_place place, size_t bytes, void **array)
{
    RETURN_ERROR_IF(context == NULL || array == NULL, LOOM_INVALID_ARGUMENT, "context or array is NULL");
    RETURN_ERROR_IF((unsigned)place > LOOM_ARRAY_PINNED, LOOM_INVALID_ARGUMENT,
                    "place = %d: LOOM_ARRAY_MACHINE and LOOM_ARRAY_PINNED are known", (int)place);
    RETURN_ERROR_IF(bytes == 0, LOOM_INVALID_ARGUMENT, "bytes is 0; an array has at least one");
    if (is_pinned(context, place))
        return context->machine->ops->pinned_create(context->machine, bytes, array);
    void *memory = loom__allocate(&context->machine->allocator, bytes, kind_of(place), NULL);
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    *array = memory;
    return LOOM_OK;
}

void loom_array_destroy(loom_context *context, loom_array_place place, void *array, size_t bytes)
{
    if (context == NULL || array == NULL)
        return;
    if (is_pinned(context, place))
        context->machine->ops->pinned_destroy(context->machine, array);
    else
        loom__release(&context->machine->allocator, array, bytes, kind_of(place), NULL);
}

loom_status loom_array_copy(loom_context *context, void *to, const void *from, size_t bytes, loom_stream stream)
{
    RETURN_ERROR_IF(context == NULL, LOOM_INVALID_ARGUMENT, "context is NULL");
    RETURN_ERROR_IF(bytes > 0 && (to == NULL || from == NULL), LOOM_INVALID_ARGUMENT, "to or from is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    return bytes > 0 ? context->machine->ops->copy_table(context->machine, to, from, bytes, stream) : LOOM_OK;
}
