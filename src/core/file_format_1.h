/* The bytes of a saved table in format 1. The library still reads this format and no longer writes it.
 *
 *   header        128 bytes
 *   checksums     8 bytes for each piece: XXH64 of its bytes, seeded with its number
 *   padding       zero bytes up to a multiple of 64
 *   pieces        partition_bytes each: the partitions. In perfect tables the codes follow, padded with zero bytes to
 *                 whole pieces
 *
 * A file has exactly this length. */
#ifndef LOOM_CORE_FILE_FORMAT_1_H
#define LOOM_CORE_FILE_FORMAT_1_H

#include "file_layout.h"

typedef struct loom__file_header_1 {
    char magic[8];
    uint32_t byte_order;
    uint32_t version; /* 1 */
    uint32_t header_bytes;
    uint32_t type;
    uint32_t engine;
    uint32_t layout_version;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t partitions;
    uint32_t buckets;
    uint64_t partition_bytes;
    uint64_t capacity;
    uint64_t size;
    uint64_t seed;
    double max_load;
    /* Filters: the bits that a key sets. Perfect tables: words of codes in a partition. Others: 0. */
    uint64_t parameter;
    uint64_t code_pieces; /* perfect tables: pieces behind the partitions; others: 0 */
    uint64_t reserved;
    uint64_t checksums_checksum; /* XXH64 of the checksums, seed 0 */
    uint64_t header_checksum;    /* XXH64 of all bytes before it, seed 0 */
} loom__file_header_1;

_Static_assert(sizeof(loom__file_header_1) == 128 && offsetof(loom__file_header_1, header_checksum) == 120,
               "no padding");

static inline uint64_t loom__file_1_pieces(const loom__file_header_1 *header)
{
    return header->partitions + header->code_pieces;
}

static inline uint64_t loom__file_1_pieces_at(uint64_t pieces)
{
    return loom__file_aligned(sizeof(loom__file_header_1) + pieces * sizeof(uint64_t));
}

#endif
