/* Saves and loads filters. The bytes: core/table_file.c. */
#include "api/filter.h"
#include "core/error.h"
#include "core/table_file.h"

loom_status loom_filter_save(loom_filter *filter, const char *path, loom_stream stream)
{
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    const uint64_t given = atomic_load(&filter->given);
    loom_status status = loom__table_file_save(filter->table, given < INT64_MAX ? given : INT64_MAX, path, stream);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

static loom_status check_is_filter(const loom__description *is, const char *path, const loom__engine **engine)
{
    RETURN_ERROR_IF(is->type >= LOOM_TYPE_MAP && is->type < LOOM_TYPE_FILTER, LOOM_UNSUPPORTED,
                    "%s holds a map, a set or a counter; load it with loom_map_load", path);
    RETURN_ERROR_IF(is->type != LOOM_TYPE_FILTER, LOOM_BAD_FILE, "the header of %s holds values that no filter has",
                    path);
    *engine = is->engine == LOOM_ENGINE_DEFAULT ? NULL : loom__engine_of(is->type, is->engine);
    RETURN_ERROR_IF(*engine == NULL, LOOM_UNSUPPORTED,
                    "%s holds a filter of engine %u, which this version does not have", path, is->engine);
    return LOOM_OK;
}

static loom_status load(loom_context *context, loom__table_file *file, loom_filter **filter, loom_stream stream)
{
    const loom__engine *engine = NULL;
    loom__table *table;
    RETURN_IF_FAILED(check_is_filter(&file->is, file->path, &engine));
    RETURN_IF_FAILED(loom__table_file_load(file, context->machine, engine, 1, &table, stream));
    const uint64_t given = file->is.size < INT64_MAX ? file->is.size : INT64_MAX; /* further keys are added to it */
    return loom__filter_wrap(context, table, given, filter);
}

loom_status loom_filter_load(loom_context *context, const char *path, loom_filter **filter, loom_stream stream)
{
    loom__table_file file;
    RETURN_ERROR_IF(context == NULL || filter == NULL, LOOM_INVALID_ARGUMENT, "context or filter is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    RETURN_IF_FAILED(loom__table_file_open(context->machine, path, &file));
    loom_status status = load(context, &file, filter, stream);
    loom__table_file_close(&file);
    return status;
}
