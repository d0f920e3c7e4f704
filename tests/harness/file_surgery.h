/* Saved tables, taken apart and put together again: the header and the partitions of a file in memory, and its
 * checksums made right after a change. Shared by the tests of damaged files, the stored fuzz corpus and the fuzz target. */
#ifndef LOOM_TESTS_FILE_SURGERY_H
#define LOOM_TESTS_FILE_SURGERY_H

#include <stddef.h>
#include <stdint.h>

#include "../../src/core/file_layout.h"

/* The header of a file of at least 128 bytes, copied out and in. */
loom__file_header surgery_header(const unsigned char *file);
void surgery_set_header(unsigned char *file, const loom__file_header *header);

/* Where partition `index` lies, or NULL if the file has no such partition whole. Codes of perfect tables lie behind the last one, as
 * if they were further partitions. */
unsigned char *surgery_partition(unsigned char *file, size_t bytes, uint64_t index);

/* Makes the header's own checksum right. */
void surgery_sign_header(unsigned char *file);
/* Makes all checksums right, as far as the file is as long as its header says; otherwise only the header's. */
void surgery_sign(unsigned char *file, size_t bytes);

#endif
