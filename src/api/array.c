/* Arrays in the memory of a context's machine. */
#include "api/context.h"
#include "core/error.h"
#include "core/memory.h"

loom_status loom_array_create(loom_context *context, size_t bytes, void **array)
{
    RETURN_ERROR_IF(context == NULL || array == NULL, LOOM_INVALID_ARGUMENT, "context or array is NULL");
    RETURN_ERROR_IF(bytes == 0, LOOM_INVALID_ARGUMENT, "bytes is 0; an array has at least one");
    void *memory = loom__allocate(&context->machine->allocator, bytes, LOOM_MEMORY_TABLE, NULL);
    if (memory == NULL)
        return LOOM_OUT_OF_MEMORY;
    *array = memory;
    return LOOM_OK;
}

void loom_array_destroy(loom_context *context, void *array, size_t bytes)
{
    if (context != NULL)
        loom__release(&context->machine->allocator, array, bytes, LOOM_MEMORY_TABLE, NULL);
}

loom_status loom_array_copy(loom_context *context, void *to, const void *from, size_t bytes, loom_stream stream)
{
    RETURN_ERROR_IF(context == NULL, LOOM_INVALID_ARGUMENT, "context is NULL");
    RETURN_ERROR_IF(bytes > 0 && (to == NULL || from == NULL), LOOM_INVALID_ARGUMENT, "to or from is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    return bytes > 0 ? context->machine->ops->copy_table(context->machine, to, from, bytes, stream) : LOOM_OK;
}
