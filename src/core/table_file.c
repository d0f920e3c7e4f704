#define _GNU_SOURCE
#include "core/table_file.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"

#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 8 << 20 };

/* What saving and loading share: a run of partitions in the buffer, and the checksums of all. */
typedef struct transfer {
    loom__machine *machine;
    loom_stream stream;
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

static loom_status transfer_begin(transfer *move, loom__machine *machine, const loom__file_header *header,
                                  loom_stream stream)
{
    const loom_allocator *allocator = &machine->allocator;
    memset(move, 0, sizeof *move);
    move->machine = machine;
    move->stream = stream;
    move->partitions = loom__file_pieces(header);
    move->partition_bytes = header->partition_bytes;
    move->partitions_at = loom__file_partitions_at(move->partitions);
    move->run = BUFFER_BYTES / header->partition_bytes + 1;
    move->run = move->run < move->partitions ? move->run : move->partitions;
    move->buffer_bytes = move->run * header->partition_bytes;
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

static loom_status write_contents(transfer *move, const loom__file_header *described, const unsigned char *partitions,
                                  loom__new_file *file)
{
    while (next_run(move)) {
        uint64_t at = move->first * move->partition_bytes, bytes = move->count * move->partition_bytes;
        RETURN_IF_FAILED(
            move->machine->ops->read_table(move->machine, move->buffer, partitions + at, bytes, move->stream));
        move->machine->ops->host_parallel(move->machine, move->count, sum_partition, move);
        memcpy(move->checksums + move->first, move->sums, move->count * sizeof *move->sums);
        RETURN_IF_FAILED(loom__file_write(file, move->buffer, bytes, move->partitions_at + at));
    }
    RETURN_IF_FAILED(loom__file_write(file, move->checksums, move->checksums_bytes, sizeof(loom__file_header)));
    loom__file_header header = *described;
    memcpy(header.magic, FILE_MAGIC, sizeof header.magic);
    header.byte_order = FILE_BYTE_ORDER;
    header.version = FILE_VERSION;
    header.header_bytes = sizeof header;
    header.checksums_checksum = checksum_of_table(move);
    header.header_checksum = checksum_of_header(&header);
    return loom__file_write(file, &header, sizeof header, 0);
}

loom_status loom__table_file_save(loom__machine *machine, const loom__file_header *described,
                                  const unsigned char *partitions, const char *path, loom_stream stream)
{
    loom__new_file file;
    transfer move;
    RETURN_IF_FAILED(loom__file_begin(&file, path));
    loom_status status = transfer_begin(&move, machine, described, stream);
    if (status == LOOM_OK) {
        status = write_contents(&move, described, partitions, &file);
        transfer_end(&move);
    }
    if (status == LOOM_OK)
        return loom__file_commit(&file);
    loom__file_abandon(&file);
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
    RETURN_ERROR_IF(header->header_bytes != sizeof *header || header->partitions == 0 || header->partition_bytes == 0 ||
                        header->partition_bytes > INT32_MAX ||
                        header->reserved[1] > INT32_MAX, /* the sum has 64 bits */
                    LOOM_BAD_FILE, "the header of %s holds values that no table has", path);
    const uint64_t pieces = loom__file_pieces(header);
    uint64_t expected = loom__file_partitions_at(pieces) + pieces * header->partition_bytes;
    RETURN_ERROR_IF(file_bytes != expected, LOOM_BAD_FILE, "%s has %llu bytes, its header speaks of %llu", path,
                    (unsigned long long)file_bytes, (unsigned long long)expected);
    return LOOM_OK;
}

loom_status loom__table_file_open(const char *path, loom__table_file *file)
{
    uint64_t bytes;
    file->path = path;
    RETURN_IF_FAILED(loom__file_open(path, &file->descriptor, &bytes));
    loom_status status = loom__file_read(file->descriptor, path, &file->header, sizeof file->header, 0);
    if (status == LOOM_OK)
        status = check_header(&file->header, bytes, path);
    if (status != LOOM_OK)
        loom__table_file_close(file);
    return status;
}

static loom_status check_checksums(const transfer *move, const loom__table_file *file)
{
    const unsigned char *bytes = (const unsigned char *)move->checksums;
    int sound = checksum_of_table(move) == file->header.checksums_checksum;
    for (uint64_t at = move->partitions * sizeof(uint64_t); at < move->checksums_bytes; at++)
        sound &= bytes[at] == 0;
    RETURN_ERROR_IF(!sound, LOOM_BAD_FILE, "the checksums of %s are damaged", file->path);
    return LOOM_OK;
}

static loom_status read_contents(transfer *move, const loom__table_file *file, unsigned char *partitions)
{
    RETURN_IF_FAILED(loom__file_read(file->descriptor, file->path, move->checksums, move->checksums_bytes,
                                     sizeof(loom__file_header)));
    RETURN_IF_FAILED(check_checksums(move, file));
    while (next_run(move)) {
        uint64_t at = move->first * move->partition_bytes, bytes = move->count * move->partition_bytes;
        RETURN_IF_FAILED(loom__file_read(file->descriptor, file->path, move->buffer, bytes, move->partitions_at + at));
        move->machine->ops->host_parallel(move->machine, move->count, sum_partition, move);
        for (uint64_t i = 0; i < move->count; i++)
            RETURN_ERROR_IF(move->sums[i] != move->checksums[move->first + i], LOOM_BAD_FILE,
                            "partition %llu of %s is damaged", (unsigned long long)(move->first + i), file->path);
        RETURN_IF_FAILED(
            move->machine->ops->write_table(move->machine, partitions + at, move->buffer, bytes, move->stream));
    }
    return LOOM_OK;
}

loom_status loom__table_file_read(loom__table_file *file, loom__machine *machine, unsigned char *partitions,
                                  loom_stream stream)
{
    transfer move;
    RETURN_IF_FAILED(transfer_begin(&move, machine, &file->header, stream));
    loom_status status = read_contents(&move, file, partitions);
    transfer_end(&move);
    return status;
}

void loom__table_file_close(loom__table_file *file)
{
    close(file->descriptor);
    file->descriptor = -1;
}
