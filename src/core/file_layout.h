/* The bytes of a saved table (docs/format.md tells the same in prose). All numbers are little-endian.
 *
 *   header        128 bytes
 *   checksums     8 bytes for each partition: XXH64 of its bytes, seeded with its number
 *   padding       zero bytes up to a multiple of 64
 *   partitions    each partition_bytes long, as the engine's layout header describes them
 *
 * A file is exactly that long. Every byte is covered: the header by header_checksum, the checksums by
 * checksums_checksum, the padding by being zero, the partitions by their checksums. */
#ifndef LOOM_CORE_FILE_LAYOUT_H
#define LOOM_CORE_FILE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define FILE_MAGIC "hashloom"

enum {
    FILE_BYTE_ORDER = 0x01020304,
    FILE_VERSION = 1,    /* of this header and the hash */
    FILE_ALIGNMENT = 64, /* of the first partition */
    FILE_MOST_TYPES = 3  /* loom_type: map, set, counter */
};

typedef struct loom__file_header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t type;           /* loom_type */
    uint32_t engine;         /* loom_engine */
    uint32_t layout_version; /* of that engine's partitions */
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t partitions;
    uint32_t buckets; /* in a partition */
    uint64_t partition_bytes;
    uint64_t capacity;
    uint64_t size;
    uint64_t seed;
    double max_load;
    uint64_t
        reserved[3]; /* filters: the bits that a key sets, 0, 0; perfect tables: words of codes in a partition, further
                             pieces behind the partitions, 0; others: 0 */
    uint64_t checksums_checksum;
    uint64_t header_checksum; /* XXH64 of all bytes before it, seed 0 */
} loom__file_header;

_Static_assert(sizeof(loom__file_header) == 128, "the header is 128 bytes");
_Static_assert(offsetof(loom__file_header, partition_bytes) == 48, "no padding");
_Static_assert(offsetof(loom__file_header, header_checksum) == 120, "the header's checksum comes last");

/* Pieces of partition_bytes each, with a checksum each: the partitions, and what lies behind them. */
static inline uint64_t loom__file_pieces(const loom__file_header *header)
{
    return header->partitions + header->reserved[1];
}

/* Where partition 0 begins, in a file of so many pieces. */
static inline uint64_t loom__file_partitions_at(uint64_t pieces)
{
    uint64_t bytes = sizeof(loom__file_header) + pieces * sizeof(uint64_t);
    return (bytes + FILE_ALIGNMENT - 1) / FILE_ALIGNMENT * FILE_ALIGNMENT;
}

#endif
