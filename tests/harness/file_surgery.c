#include "file_surgery.h"

#include <string.h>

#include "../../src/core/checksum.h"

static uint32_t sections_of(const unsigned char *file)
{
    loom__file_header header;
    memcpy(&header, file, sizeof header);
    return header.sections < SURGERY_SECTIONS ? header.sections : SURGERY_SECTIONS;
}

static size_t head_bytes(uint32_t sections)
{
    return loom__file_header_bytes(1, sections);
}

surgery_head surgery_header(const unsigned char *file)
{
    surgery_head head = {0};
    memcpy(&head, file, head_bytes(sections_of(file)));
    return head;
}

void surgery_set_header(unsigned char *file, const surgery_head *head)
{
    memcpy(file, head, head_bytes(sections_of(file)));
}

uint64_t surgery_place(surgery_head *head)
{
    uint64_t at = head_bytes(head->file.sections);
    for (uint32_t i = 0; i < head->file.sections; i++)
        at = loom__file_place(&head->sections[i], at);
    head->file.file_bytes = at;
    return at;
}

/* The file is as long as its header says, so that sections and checksums lie where they should. */
static int is_complete(const unsigned char *file, size_t bytes)
{
    if (bytes < SURGERY_HEAD_BYTES)
        return 0;
    loom__file_header header;
    memcpy(&header, file, sizeof header);
    if (header.sections == 0 || header.sections > SURGERY_SECTIONS || bytes < head_bytes(header.sections))
        return 0;
    surgery_head head = surgery_header(file), placed = head;
    for (uint32_t i = 0; i < header.sections; i++)
        if (head.sections[i].unit == 0 || head.sections[i].unit > INT32_MAX || head.sections[i].bytes > bytes)
            return 0;
    return surgery_place(&placed) == bytes && memcmp(head.sections, placed.sections, sizeof head.sections) == 0;
}

unsigned char *surgery_unit(unsigned char *file, size_t bytes, uint32_t section, uint64_t index)
{
    if (!is_complete(file, bytes) || section >= sections_of(file))
        return NULL;
    const loom__file_section found = surgery_header(file).sections[section];
    if (index >= found.bytes / found.unit)
        return NULL;
    return file + found.at + index * found.unit;
}

unsigned char *surgery_partition(unsigned char *file, size_t bytes, uint64_t index)
{
    return surgery_unit(file, bytes, 0, index);
}

void surgery_sign_header(unsigned char *file)
{
    surgery_head head = surgery_header(file);
    head.file.header_checksum = 0;
    head.file.header_checksum = loom__checksum(&head, head_bytes(sections_of(file)), 0);
    surgery_set_header(file, &head);
}

static void sign_section(unsigned char *file, loom__file_section *section)
{
    const uint64_t units = loom__file_units(section->bytes, section->unit);
    unsigned char *sums = file + section->checksums_at;
    memset(sums, 0, section->at - section->checksums_at);
    for (uint64_t i = 0; i < units; i++) {
        const uint64_t left = section->bytes - i * section->unit;
        uint64_t sum =
            loom__checksum(file + section->at + i * section->unit, left < section->unit ? left : section->unit, i);
        memcpy(sums + i * sizeof sum, &sum, sizeof sum);
    }
    section->checksums_checksum = loom__checksum(sums, units * 8, 0);
    const uint64_t end = section->at + section->bytes;
    memset(file + end, 0, loom__file_aligned(end) - end);
}

void surgery_sign(unsigned char *file, size_t bytes)
{
    if (bytes < SURGERY_HEAD_BYTES)
        return;
    if (is_complete(file, bytes)) {
        surgery_head head = surgery_header(file);
        for (uint32_t i = 0; i < head.file.sections; i++)
            sign_section(file, &head.sections[i]);
        surgery_set_header(file, &head);
    }
    surgery_sign_header(file);
}
