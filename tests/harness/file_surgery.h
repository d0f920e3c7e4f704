/* Reads and changes files of saved tables in memory: the header, the sections, and the checksums, which can be made
 * right after a change. The tests of damaged files, the stored fuzz corpus and the fuzz target use it. Only for files
 * of format 2 with one table. */
#ifndef LOOM_TESTS_FILE_SURGERY_H
#define LOOM_TESTS_FILE_SURGERY_H

#include <stddef.h>
#include <stdint.h>

#include "../../src/core/file_layout.h"

enum { SURGERY_SECTIONS = 4, SURGERY_HEAD_BYTES = 64 + 128 + 64 /* of a file with one section */ };

/* All that stands before the first section's checksums. Sections that the file does not have are zero. */
typedef struct surgery_head {
    loom__file_header file;
    loom__file_table table;
    loom__file_section sections[SURGERY_SECTIONS];
} surgery_head;

/* Copies the head out of a file of at least SURGERY_HEAD_BYTES, and back. The head that is copied back has as many
 * sections as the file. */
surgery_head surgery_header(const unsigned char *file);
void surgery_set_header(unsigned char *file, const surgery_head *head);

/* Where unit `index` of a section (from 0 on) lies, or NULL if the file does not contain the whole unit. The units of
 * section 0 are partitions. */
unsigned char *surgery_unit(unsigned char *file, size_t bytes, uint32_t section, uint64_t index);
unsigned char *surgery_partition(unsigned char *file, size_t bytes, uint64_t index);

/* Sets the offsets of the sections from their sizes. Returns the length of the file. */
uint64_t surgery_place(surgery_head *head);

/* Makes the header's own checksum right. */
void surgery_sign_header(unsigned char *file);
/* Makes all checksums right if the file is as long as its header says, otherwise only that of the header. */
void surgery_sign(unsigned char *file, size_t bytes);

#endif
