/* Filters to and from files (core/table_file.h): their blocks are the partitions. */
#include "api/filter.h"
#include "core/error.h"
#include "core/table_file.h"

static loom__file_header header_of(const loom_filter *filter)
{
    const loom__filter_shape *shape = &filter->filter.shape;
    const uint32_t partitions = filter_partitions(shape->blocks);
    const uint64_t given = atomic_load(&filter->given);
    return (loom__file_header){
        .type = LOOM_TYPE_FILTER,
        .engine = LOOM_ENGINE_BLOOM,
        .layout_version = FILTER_LAYOUT_VERSION,
        .key_bytes = shape->key_bytes,
        .partitions = partitions,
        .buckets = shape->blocks / partitions,
        .partition_bytes = filter_bytes(shape->blocks / partitions),
        .capacity = shape->capacity,
        .size = given < INT64_MAX ? given : INT64_MAX,
        .seed = filter->filter.seed,
        .reserved = {shape->probes},
    };
}

loom_status loom_filter_save(loom_filter *filter, const char *path, loom_stream stream)
{
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    const loom__file_header header = header_of(filter);
    loom_status status = loom__table_file_save(filter->filter.machine, &header, filter->filter.view.base, path, stream);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

/* Any bits are a filter's; what tells of them must be such as a filter could have. */
static loom_status shape_of(const loom__file_header *header, const char *path, loom__filter_shape *shape)
{
    RETURN_ERROR_IF(header->type >= LOOM_TYPE_MAP && header->type < LOOM_TYPE_FILTER, LOOM_UNSUPPORTED,
                    "%s holds a map, a set or a counter; load it with loom_map_load", path);
    RETURN_ERROR_IF(header->type != LOOM_TYPE_FILTER, LOOM_BAD_FILE, "the header of %s holds values that no filter has",
                    path);
    RETURN_ERROR_IF(header->engine != LOOM_ENGINE_BLOOM, LOOM_UNSUPPORTED,
                    "%s holds a filter of engine %u, which this version does not have", path, header->engine);
    RETURN_ERROR_IF(header->layout_version != FILTER_LAYOUT_VERSION, LOOM_FOREIGN_VERSION,
                    "%s has layout version %u, this library reads version %d; load it with the version that wrote it",
                    path, header->layout_version, FILTER_LAYOUT_VERSION);
    const uint64_t blocks = (uint64_t)header->partitions * header->buckets, probes = header->reserved[0];
    RETURN_ERROR_IF((header->key_bytes != 4 && header->key_bytes != 8) || header->value_bytes != 0 ||
                        header->max_load != 0 || header->reserved[1] != 0 || header->reserved[2] != 0 ||
                        !loom__filter_is_shape(blocks, probes) ||
                        header->partitions != filter_partitions((uint32_t)blocks) ||
                        header->partition_bytes != filter_bytes(header->buckets),
                    LOOM_BAD_FILE, "the header of %s holds values that no filter has", path);
    *shape = (loom__filter_shape){.key_bytes = header->key_bytes,
                                  .probes = (uint32_t)probes,
                                  .blocks = (uint32_t)blocks,
                                  .capacity = header->capacity};
    shape->designed_rate = loom__filter_rate((double)shape->capacity, (double)blocks, shape->probes);
    return LOOM_OK;
}

static loom_status load(loom_context *context, loom__table_file *file, loom_filter **filter, loom_stream stream)
{
    loom__filter_shape shape;
    loom__filter inner;
    RETURN_IF_FAILED(shape_of(&file->header, file->path, &shape));
    RETURN_IF_FAILED(loom__filter_make(context->machine, &shape, file->header.seed, 1, stream, &inner));
    loom_status status = loom__table_file_read(file, context->machine, inner.view.base, stream);
    if (status != LOOM_OK) {
        loom__filter_free(&inner);
        return status;
    }
    const uint64_t given = file->header.size < INT64_MAX ? file->header.size : INT64_MAX; /* more may be added to it */
    return loom__filter_wrap(context, &inner, given, filter);
}

loom_status loom_filter_load(loom_context *context, const char *path, loom_filter **filter, loom_stream stream)
{
    loom__table_file file;
    RETURN_ERROR_IF(context == NULL || filter == NULL, LOOM_INVALID_ARGUMENT, "context or filter is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    RETURN_IF_FAILED(loom__table_file_open(path, &file));
    loom_status status = load(context, &file, filter, stream);
    loom__table_file_close(&file);
    return status;
}
