#include "file_surgery.h"

#include <string.h>

#include "../../src/core/checksum.h"

loom__file_header surgery_header(const unsigned char *file)
{
    loom__file_header header;
    memcpy(&header, file, sizeof header);
    return header;
}

void surgery_set_header(unsigned char *file, const loom__file_header *header)
{
    memcpy(file, header, sizeof *header);
}

/* The file is as long as its header says, so that partitions and checksums lie where they should. */
static int is_complete(const unsigned char *file, size_t bytes)
{
    if (bytes < sizeof(loom__file_header))
        return 0;
    loom__file_header header = surgery_header(file);
    const uint64_t pieces = loom__file_pieces(&header);
    if (header.partitions == 0 || header.partition_bytes == 0 || header.partition_bytes > bytes || pieces > bytes)
        return 0;
    return loom__file_partitions_at(pieces) + pieces * header.partition_bytes == bytes;
}

unsigned char *surgery_partition(unsigned char *file, size_t bytes, uint64_t index)
{
    if (!is_complete(file, bytes))
        return NULL;
    loom__file_header header = surgery_header(file);
    if (index >= loom__file_pieces(&header))
        return NULL;
    return file + loom__file_partitions_at(loom__file_pieces(&header)) + index * header.partition_bytes;
}

void surgery_sign_header(unsigned char *file)
{
    loom__file_header header = surgery_header(file);
    header.header_checksum = loom__checksum(file, offsetof(loom__file_header, header_checksum), 0);
    surgery_set_header(file, &header);
}

void surgery_sign(unsigned char *file, size_t bytes)
{
    if (bytes < sizeof(loom__file_header))
        return;
    if (is_complete(file, bytes)) {
        loom__file_header header = surgery_header(file);
        unsigned char *sums = file + sizeof header;
        const uint64_t pieces = loom__file_pieces(&header);
        for (uint64_t i = 0; i < pieces; i++) {
            uint64_t sum = loom__checksum(surgery_partition(file, bytes, i), header.partition_bytes, i);
            memcpy(sums + i * sizeof sum, &sum, sizeof sum);
        }
        memset(sums + pieces * 8, 0, loom__file_partitions_at(pieces) - sizeof header - pieces * 8);
        header.checksums_checksum = loom__checksum(sums, pieces * 8, 0);
        surgery_set_header(file, &header);
    }
    surgery_sign_header(file);
}
