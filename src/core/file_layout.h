/* The bytes of a saved table, format 2 (docs/format.md describes them in prose). All numbers are little-endian.
 *
 *   header        64 bytes
 *   tables        128 bytes each: the description of a table
 *   sections      64 bytes each: where the parts of the tables lie
 *   then for each section, in order:
 *     checksums   8 bytes for each unit of its data: XXH64 of the unit, seeded with the unit's number
 *     padding     zero bytes up to a multiple of 64
 *     data        as the engine's layout header describes it
 *     padding     zero bytes up to a multiple of 64
 *
 * A file has exactly this length. Every byte is covered: header, tables and sections by header_checksum, the checksums
 * by their section's checksums_checksum, the data by its checksums, the padding by being zero. All positions follow
 * from the sizes. A reader computes the positions and compares them with the file: sections neither overlap nor leave
 * gaps.
 *
 * Format 1 (file_format_1.h) is still read. */
#ifndef LOOM_CORE_FILE_LAYOUT_H
#define LOOM_CORE_FILE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define FILE_MAGIC "hashloom"

enum {
    FILE_BYTE_ORDER = 0x01020304,
    FILE_VERSION = 2,    /* of these structs and the hash */
    FILE_ALIGNMENT = 64, /* of a section's checksums and of its data */
    FILE_PARAMETERS = 6
};

typedef struct loom__file_header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t header_bytes; /* of this struct, the tables and the sections */
    uint32_t tables;       /* 1 in this version */
    uint32_t sections;
    uint32_t reserved_4;
    uint64_t file_bytes;
    uint64_t reserved_8[2];
    uint64_t header_checksum; /* XXH64 of header_bytes bytes with zero in this field, seed 0 */
} loom__file_header;

typedef struct loom__file_table {
    uint32_t type;           /* loom_type */
    uint32_t engine;         /* loom_engine */
    uint32_t layout_version; /* of the engine's sections */
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t partitions;
    uint32_t buckets; /* per partition */
    uint32_t reserved_4;
    uint64_t capacity;
    uint64_t size;
    uint64_t seed;
    double max_load;
    uint64_t parameters[FILE_PARAMETERS]; /* the engine's own numbers; unused ones are 0 */
    uint64_t reserved_8[2];
} loom__file_table;

typedef struct loom__file_section {
    uint32_t table; /* index of its table */
    uint32_t id;    /* a loom__section of core/table.h */
    uint64_t checksums_at;
    uint64_t at;
    uint64_t bytes;
    uint64_t unit;               /* bytes per checksum; the last unit may be shorter */
    uint64_t checksums_checksum; /* XXH64 of the checksums, seed 0 */
    uint64_t reserved_8[2];
} loom__file_section;

_Static_assert(sizeof(loom__file_header) == 64 && offsetof(loom__file_header, header_checksum) == 56, "no padding");
_Static_assert(sizeof(loom__file_table) == 128 && offsetof(loom__file_table, capacity) == 32, "no padding");
_Static_assert(sizeof(loom__file_section) == 64 && offsetof(loom__file_section, at) == 16, "no padding");

static inline uint64_t loom__file_aligned(uint64_t at)
{
    return (at + FILE_ALIGNMENT - 1) / FILE_ALIGNMENT * FILE_ALIGNMENT;
}

static inline uint32_t loom__file_header_bytes(uint32_t tables, uint32_t sections)
{
    return (uint32_t)(sizeof(loom__file_header) + tables * sizeof(loom__file_table) +
                      sections * sizeof(loom__file_section));
}

static inline uint64_t loom__file_units(uint64_t bytes, uint64_t unit)
{
    return bytes / unit + (bytes % unit != 0);
}

/* Places a section, whose `bytes` and `unit` are set, at `at`. Returns its end. Exact while bytes and at stay below
 * 2^61. */
static inline uint64_t loom__file_place(loom__file_section *section, uint64_t at)
{
    section->checksums_at = at;
    section->at = loom__file_aligned(at + loom__file_units(section->bytes, section->unit) * sizeof(uint64_t));
    return loom__file_aligned(section->at + section->bytes);
}

#endif
