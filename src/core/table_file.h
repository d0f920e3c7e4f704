/* Saves and loads tables, unit by unit, through a host buffer. The same for every machine, type and engine. */
#ifndef LOOM_CORE_TABLE_FILE_H
#define LOOM_CORE_TABLE_FILE_H

#include "core/file_layout.h"
#include "core/table.h"

/* Saves the regions that have sections. `size` is the number of keys. The file replaces the old one, or the old one
 * stays as it was (core/file.h). */
loom_status loom__table_file_save(loom__table *table, uint64_t size, const char *path, loom_stream stream);

/* A section of an open file. */
typedef struct loom__file_part {
    loom__file_section is; /* format 1: filled in from its header */
    uint64_t first_seed;   /* seed of its first unit's checksum */
    /* How many checksums, from checksums_at on, the section's checksums_checksum covers. Format 1 has one
     * checksums_checksum for all parts: the first part has it, and the second part covers none. */
    uint64_t covered;
} loom__file_part;

typedef struct loom__table_file {
    const char *path; /* the caller's */
    int descriptor;
    uint32_t version;
    uint64_t bytes;
    loom__description is;
    uint32_t part_count;
    loom__file_part parts[LOOM__MOST_REGIONS];
} loom__table_file;

/* Reads the file's description of its table, and checks what holds for every file: the header is intact, its version is
 * known, and it gives the file's number of bytes. After a failure nothing is open: INVALID_ARGUMENT, IO, BAD_FILE,
 * UNSUPPORTED or FOREIGN_VERSION, and a sentence. */
loom_status loom__table_file_open(loom__machine *machine, const char *path, loom__table_file *file);

/* Makes the table of an open file, with its contents; waits. BAD_FILE: the file is damaged, or its numbers describe no
 * table. UNSUPPORTED: the machine does not offer its engine. Checksums detect damage, not malice: the caller checks
 * whether the contents are a table (loom__map_table_restored). */
loom_status loom__table_file_load(loom__table_file *file, loom__machine *machine, const loom__engine *engine,
                                  uint32_t concurrent_reads, loom__table **made, loom_stream stream);

void loom__table_file_close(loom__table_file *file);

#endif
