/* Tables to and from files, partition by partition, through a buffer of the host: the same for every machine and every type of
 * table. What a header's fields mean to a type, and whether they make sense, is its own to know. */
#ifndef LOOM_CORE_TABLE_FILE_H
#define LOOM_CORE_TABLE_FILE_H

#include "core/file_layout.h"
#include "core/machine.h"

/* The caller fills in what tells of the table, from `type` to `reserved`; the rest of the header is filled in here. Partitions
 * lie one behind the other in table memory. The file replaces the old one, or that stays as it was (core/file.h). */
loom_status loom__table_file_save(loom__machine *machine, const loom__file_header *described,
                                  const unsigned char *partitions, /* [described->partitions] */
                                  const char *path, loom_stream stream);

typedef struct loom__table_file {
    const char *path; /* the caller's */
    int descriptor;
    loom__file_header header;
} loom__table_file;

/* Reads the header, and checks what holds for every table: it is sound, of this version, and speaks of as many bytes as the
 * file has. After a failure nothing is open: INVALID_ARGUMENT, IO, BAD_FILE or FOREIGN_VERSION, and a sentence. */
loom_status loom__table_file_open(const char *path, loom__table_file *file);

/* The partitions into table memory, which has room for all that the header tells of; waits. If it fails they hold anything:
 * BAD_FILE if one is damaged, or IO, OUT_OF_MEMORY, DEVICE. Checksums tell damage, not malice: whether the contents are a table
 * is the caller's to check. */
loom_status loom__table_file_read(loom__table_file *file, loom__machine *machine, unsigned char *partitions,
                                  loom_stream stream);

void loom__table_file_close(loom__table_file *file);

#endif
