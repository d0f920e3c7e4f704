/* Maps to and from files, partition by partition, through a buffer of the host: the same for every machine. */
#define _GNU_SOURCE
#include "api/map.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/file_layout.h"
#include "core/memory.h"

#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 8 << 20 };

/* What saving and loading share: a run of partitions in the buffer, and the checksums of all. */
typedef struct transfer {
    loom__machine *machine;
    loom_stream stream;
    const loom__map_engine *engine;
    loom__table *table;
    uint64_t partitions, partition_bytes;
    uint64_t partitions_at; /* their offset in the file */
    uint64_t run;           /* partitions that the buffer holds */
    unsigned char *buffer;
    uint64_t buffer_bytes;
    uint64_t *checksums; /* [partitions], then the padding: everything between header and partition 0 */
    uint64_t checksums_bytes;
    /* the run at hand */
    uint64_t first, count;
    uint64_t *sums; /* [run]: checksums of the buffer's partitions */
    uint64_t sums_bytes;
} transfer;

static uint64_t checksum_of_table(const transfer *move)
{
    return loom__checksum(move->checksums, move->partitions * sizeof *move->checksums, 0);
}

static uint64_t checksum_of_header(const loom__file_header *header)
{
    return loom__checksum(header, offsetof(loom__file_header, header_checksum), 0);
}

static void sum_partition(void *argument, uint64_t index)
{
    transfer *move = argument;
    move->sums[index] =
        loom__checksum(move->buffer + index * move->partition_bytes, move->partition_bytes, move->first + index);
}

static void transfer_end(transfer *move)
{
    const loom_allocator *allocator = &move->machine->allocator;
    loom__release(allocator, move->sums, move->sums_bytes, LOOM_MEMORY_HOST, NULL);
    loom__release(allocator, move->buffer, move->buffer_bytes, LOOM_MEMORY_HOST, NULL);
    loom__release(allocator, move->checksums, move->checksums_bytes, LOOM_MEMORY_HOST, NULL);
}

static loom_status transfer_begin(transfer *move, loom__machine *machine, const loom__map_image *image,
                                  loom_stream stream)
{
    const loom_allocator *allocator = &machine->allocator;
    memset(move, 0, sizeof *move);
    move->machine = machine;
    move->stream = stream;
    move->partitions = image->partitions;
    move->partition_bytes = image->partition_bytes;
    move->partitions_at = loom__file_partitions_at(image->partitions);
    move->run = BUFFER_BYTES / image->partition_bytes + 1;
    move->run = move->run < image->partitions ? move->run : image->partitions;
    move->buffer_bytes = move->run * image->partition_bytes;
    move->sums_bytes = move->run * sizeof *move->sums;
    move->checksums_bytes = move->partitions_at - sizeof(loom__file_header);
    move->checksums = loom__allocate(allocator, move->checksums_bytes, LOOM_MEMORY_HOST, NULL);
    if (move->checksums != NULL)
        move->buffer = loom__allocate(allocator, move->buffer_bytes, LOOM_MEMORY_HOST, NULL);
    if (move->buffer != NULL)
        move->sums = loom__allocate(allocator, move->sums_bytes, LOOM_MEMORY_HOST, NULL);
    if (move->sums != NULL) {
        memset(move->checksums, 0, move->checksums_bytes);
        return LOOM_OK;
    }
    transfer_end(move);
    return LOOM_OUT_OF_MEMORY;
}

/* Chooses the next run of partitions; false at the end. */
static int next_run(transfer *move)
{
    move->first += move->count;
    uint64_t left = move->partitions - move->first;
    move->count = left < move->run ? left : move->run;
    return move->count > 0;
}

/* ---- save ---- */

static loom_status write_contents(transfer *move, const loom__map_image *image, loom__new_file *file)
{
    while (next_run(move)) {
        RETURN_IF_FAILED(move->machine->ops->read_table(move->machine, move->buffer,
                                                        move->engine->partition(move->table, move->first),
                                                        move->count * move->partition_bytes, move->stream));
        move->machine->ops->host_parallel(move->machine, move->count, sum_partition, move);
        memcpy(move->checksums + move->first, move->sums, move->count * sizeof *move->sums);
        RETURN_IF_FAILED(loom__file_write(file, move->buffer, move->count * move->partition_bytes,
                                          move->partitions_at + move->first * move->partition_bytes));
    }
    RETURN_IF_FAILED(loom__file_write(file, move->checksums, move->checksums_bytes, sizeof(loom__file_header)));
    loom__file_header header = {
        .magic = {'h', 'a', 's', 'h', 'l', 'o', 'o', 'm'},
        .byte_order = FILE_BYTE_ORDER,
        .version = FILE_VERSION,
        .header_bytes = sizeof header,
        .type = image->type,
        .engine = image->engine,
        .layout_version = image->layout_version,
        .key_bytes = image->key_bytes,
        .value_bytes = image->value_bytes,
        .partitions = image->partitions,
        .buckets = image->buckets,
        .partition_bytes = image->partition_bytes,
        .capacity = image->capacity,
        .size = image->size,
        .seed = image->seed,
        .max_load = image->max_load,
        .checksums_checksum = checksum_of_table(move),
    };
    header.header_checksum = checksum_of_header(&header);
    return loom__file_write(file, &header, sizeof header, 0);
}

static loom_status save_table(loom_map *map, loom__new_file *file, loom_stream stream)
{
    loom__map_image image;
    transfer move;
    uint32_t slots;
    uint64_t bytes;
    map->engine->describe(map->table, &image, &slots, &bytes);
    RETURN_IF_FAILED(map->engine->size(map->table, &image.size, stream));
    RETURN_IF_FAILED(transfer_begin(&move, map->handle.context->machine, &image, stream));
    move.engine = map->engine;
    move.table = map->table;
    loom_status status = write_contents(&move, &image, file);
    transfer_end(&move);
    return status;
}

loom_status loom_map_save(loom_map *map, const char *path, loom_stream stream)
{
    loom__new_file file;
    RETURN_IF_FAILED(loom__map_check(map, stream));
    RETURN_IF_FAILED(loom__handle_enter(&map->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__file_begin(&file, path);
    if (status == LOOM_OK) {
        status = save_table(map, &file, stream);
        if (status != LOOM_OK)
            loom__file_abandon(&file);
        else
            status = loom__file_commit(&file);
    }
    loom__handle_leave(&map->handle, LOOM__ACCESS_READ, stream);
    return status;
}

/* ---- load ---- */

static loom_status check_header(const loom__file_header *header, uint64_t file_bytes, const char *path)
{
    RETURN_ERROR_IF(memcmp(header->magic, FILE_MAGIC, sizeof header->magic) != 0, LOOM_BAD_FILE,
                    "%s is not a hashloom file", path);
    RETURN_ERROR_IF(header->byte_order != FILE_BYTE_ORDER, LOOM_BAD_FILE,
                    "%s has a damaged byte-order mark, or was written by a machine with another byte order", path);
    RETURN_ERROR_IF(header->version != FILE_VERSION, LOOM_FOREIGN_VERSION,
                    "%s is of format version %u, this library reads version %d; load it with the version that wrote it",
                    path, header->version, FILE_VERSION);
    RETURN_ERROR_IF(header->header_checksum != checksum_of_header(header), LOOM_BAD_FILE, "the header of %s is damaged",
                    path);
    RETURN_ERROR_IF(header->header_bytes != sizeof *header || header->type < 1 || header->type > FILE_MOST_TYPES ||
                        (header->key_bytes != 4 && header->key_bytes != 8) ||
                        (header->type == LOOM_TYPE_SET) != (header->value_bytes == 0) ||
                        (header->value_bytes != 0 && header->value_bytes != 4 && header->value_bytes != 8) ||
                        !(header->max_load > 0 && header->max_load <= LOOM__LARGEST_LOAD) || header->reserved[0] != 0 ||
                        header->reserved[1] != 0 || header->reserved[2] != 0 || header->partitions == 0 ||
                        header->partition_bytes == 0 || header->partition_bytes > UINT32_MAX,
                    LOOM_BAD_FILE, "the header of %s holds values that no map has", path);
    uint64_t expected = loom__file_partitions_at(header->partitions) + header->partitions * header->partition_bytes;
    RETURN_ERROR_IF(file_bytes != expected, LOOM_BAD_FILE, "%s has %llu bytes, its header speaks of %llu", path,
                    (unsigned long long)file_bytes, (unsigned long long)expected);
    return LOOM_OK;
}

static loom_status check_checksums(const transfer *move, const loom__file_header *header, const char *path)
{
    const unsigned char *bytes = (const unsigned char *)move->checksums;
    int sound = checksum_of_table(move) == header->checksums_checksum;
    for (uint64_t at = move->partitions * sizeof(uint64_t); at < move->checksums_bytes; at++)
        sound &= bytes[at] == 0;
    RETURN_ERROR_IF(!sound, LOOM_BAD_FILE, "the checksums of %s are damaged", path);
    return LOOM_OK;
}

static loom_status read_contents(transfer *move, const loom__file_header *header, int descriptor, const char *path)
{
    RETURN_IF_FAILED(
        loom__file_read(descriptor, path, move->checksums, move->checksums_bytes, sizeof(loom__file_header)));
    RETURN_IF_FAILED(check_checksums(move, header, path));
    while (next_run(move)) {
        RETURN_IF_FAILED(loom__file_read(descriptor, path, move->buffer, move->count * move->partition_bytes,
                                         move->partitions_at + move->first * move->partition_bytes));
        move->machine->ops->host_parallel(move->machine, move->count, sum_partition, move);
        for (uint64_t i = 0; i < move->count; i++)
            RETURN_ERROR_IF(move->sums[i] != move->checksums[move->first + i], LOOM_BAD_FILE,
                            "partition %llu of %s is damaged", (unsigned long long)(move->first + i), path);
        RETURN_IF_FAILED(
            move->machine->ops->write_table(move->machine, move->engine->partition(move->table, move->first),
                                            move->buffer, move->count * move->partition_bytes, move->stream));
    }
    return move->engine->restored(move->table, header->size, move->stream);
}

/* Checksums tell damage, not malice: a table that was loaded must also keep the layout's invariants, or lookups in it
 * would quietly be wrong. */
static loom_status check_contents(const transfer *move, uint64_t size, const char *path)
{
    loom__survey survey;
    RETURN_IF_FAILED(move->engine->survey(move->table, &survey, move->stream));
    RETURN_ERROR_IF(survey.first_bad != UINT64_MAX || survey.size != size, LOOM_BAD_FILE,
                    "the contents of %s are not a table: %llu keys instead of %llu, or keys out of place", path,
                    (unsigned long long)survey.size, (unsigned long long)size);
    return LOOM_OK;
}

static loom_status load_table(loom_context *context, int descriptor, uint64_t file_bytes, const char *path,
                              loom__table **table, loom_stream stream)
{
    loom__file_header header;
    transfer move;
    RETURN_IF_FAILED(loom__file_read(descriptor, path, &header, sizeof header, 0));
    RETURN_IF_FAILED(check_header(&header, file_bytes, path));
    RETURN_ERROR_IF(header.engine != LOOM_ENGINE_OPEN, LOOM_UNSUPPORTED,
                    "%s holds a table of engine %u, which this version does not have", path, header.engine);
    loom__map_image image = {
        .engine = header.engine,
        .layout_version = header.layout_version,
        .key_bytes = header.key_bytes,
        .value_bytes = header.value_bytes,
        .partitions = header.partitions,
        .buckets = header.buckets,
        .partition_bytes = header.partition_bytes,
        .capacity = header.capacity,
        .size = header.size,
        .seed = header.seed,
        .max_load = header.max_load,
        .type = (loom_type)header.type,
    };
    RETURN_IF_FAILED(loom__open_map.restore(context->machine, &image, table, stream));
    loom_status status = transfer_begin(&move, context->machine, &image, stream);
    if (status == LOOM_OK) {
        move.engine = &loom__open_map;
        move.table = *table;
        status = read_contents(&move, &header, descriptor, path);
        if (status == LOOM_OK)
            status = check_contents(&move, header.size, path);
        transfer_end(&move);
    }
    if (status != LOOM_OK)
        loom__open_map.destroy(*table);
    return status;
}

loom_status loom_map_load(loom_context *context, const char *path, loom_map **map, loom_stream stream)
{
    int descriptor;
    uint64_t bytes;
    loom__table *table;
    RETURN_ERROR_IF(context == NULL || map == NULL, LOOM_INVALID_ARGUMENT, "context or map is NULL");
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    RETURN_IF_FAILED(loom__file_open(path, &descriptor, &bytes));
    loom_status status = load_table(context, descriptor, bytes, path, &table, stream);
    close(descriptor);
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(loom__map_wrap(context, &loom__open_map, table, map));
    static const loom_map_config defaults = LOOM_MAP_CONFIG_INIT;
    (*map)->growth = defaults.growth; /* files do not tell it */
    return LOOM_OK;
}
