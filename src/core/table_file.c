#define _GNU_SOURCE
#include "core/table_file.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/file_format_1.h"
#include "core/file_layout.h"
#include "core/memory.h"

#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 8 << 20 };

/* What files and descriptions tell in the same words, parameters apart. */
#define FIELDS_OF(from)                                                                                   \
    .type = (loom_type)(from)->type, .engine = (from)->engine, .layout_version = (from)->layout_version,  \
    .key_bytes = (from)->key_bytes, .value_bytes = (from)->value_bytes, .partitions = (from)->partitions, \
    .buckets = (from)->buckets, .capacity = (from)->capacity, .size = (from)->size, .seed = (from)->seed, \
    .max_load = (from)->max_load

_Static_assert((int)FILE_PARAMETERS == (int)LOOM__MOST_PARAMETERS, "a file has all of them");

/* ---- the units of one section, in runs that fit a buffer ---- */

typedef struct transfer {
    loom__table *table;
    const loom__region *region;
    loom_stream stream;
    uint64_t bytes, unit; /* of the section */
    uint64_t first_seed;
    unsigned char *buffer;
    uint64_t buffer_bytes;
    uint64_t *checksums; /* [units], then the padding: everything before the data */
    uint64_t checksums_bytes;
    uint64_t first, count; /* units of the run at hand … */
    uint64_t at, length;   /* … and its bytes in the section */
    uint64_t *sums;        /* [count] of the buffer's units */
    uint64_t sums_bytes;
} transfer;

static void sum_unit(void *argument, uint64_t index)
{
    transfer *move = argument;
    const uint64_t at = index * move->unit, left = move->length - at;
    move->sums[index] = loom__checksum(move->buffer + at, left < move->unit ? left : move->unit,
                                       move->first_seed + move->first + index);
}

static void transfer_end(transfer *move)
{
    const loom_allocator *allocator = &move->table->machine->allocator;
    loom__release(allocator, move->sums, move->sums_bytes, LOOM_MEMORY_HOST, NULL);
    loom__release(allocator, move->buffer, move->buffer_bytes, LOOM_MEMORY_HOST, NULL);
    loom__release(allocator, move->checksums, move->checksums_bytes, LOOM_MEMORY_HOST, NULL);
}

static loom_status transfer_begin(transfer *move, uint64_t checksums_bytes)
{
    const loom_allocator *allocator = &move->table->machine->allocator;
    const uint64_t units = loom__file_units(move->bytes, move->unit), most = BUFFER_BYTES / move->unit + 1;
    const uint64_t run = most < units ? most : units;
    move->buffer_bytes = run * move->unit;
    move->sums_bytes = run * sizeof *move->sums;
    move->checksums_bytes = checksums_bytes;
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

/* Chooses the next run of units; false at the end. */
static int next_run(transfer *move)
{
    const uint64_t run = move->buffer_bytes / move->unit;
    move->first += move->count;
    move->at = move->first * move->unit;
    if (move->at >= move->bytes)
        return 0;
    move->length = move->bytes - move->at < move->buffer_bytes ? move->bytes - move->at : move->buffer_bytes;
    move->count = loom__file_units(move->length, move->unit);
    return move->count <= run;
}

static void sum_run(transfer *move)
{
    loom__machine *machine = move->table->machine;
    machine->ops->host_parallel(machine, move->count, sum_unit, move);
}

static int is_zero(const void *memory, uint64_t bytes)
{
    const unsigned char *at = memory;
    unsigned char seen = 0;
    for (uint64_t i = 0; i < bytes; i++)
        seen |= at[i];
    return seen == 0;
}

/* ---- save ---- */

/* All that stands before the first section's checksums. */
typedef struct head {
    loom__file_header header;
    loom__file_table table;
    loom__file_section sections[LOOM__MOST_REGIONS];
} head;

static loom_status write_section(loom__table *table, const loom__region *region, loom__file_section *section,
                                 loom__new_file *file, loom_stream stream)
{
    static const unsigned char zeros[FILE_ALIGNMENT];
    transfer move = {.table = table, .region = region, .stream = stream, .bytes = region->bytes, .unit = region->unit};
    RETURN_IF_FAILED(transfer_begin(&move, section->at - section->checksums_at));
    loom_status status = LOOM_OK;
    while (status == LOOM_OK && next_run(&move)) {
        status = loom__region_read(table, region, move.at, move.buffer, move.length, stream);
        if (status != LOOM_OK)
            break;
        sum_run(&move);
        memcpy(move.checksums + move.first, move.sums, move.count * sizeof *move.sums);
        status = loom__file_write(file, move.buffer, move.length, section->at + move.at);
    }
    if (status == LOOM_OK)
        status = loom__file_write(file, move.checksums, move.checksums_bytes, section->checksums_at);
    const uint64_t end = section->at + section->bytes;
    if (status == LOOM_OK)
        status = loom__file_write(file, zeros, loom__file_aligned(end) - end, end);
    section->checksums_checksum =
        loom__checksum(move.checksums, loom__file_units(move.bytes, move.unit) * sizeof(uint64_t), 0);
    transfer_end(&move);
    return status;
}

static loom_status write_contents(loom__table *table, uint64_t size, loom__new_file *file, loom_stream stream)
{
    const loom__description *is = &table->is;
    head all = {
        .header = {.byte_order = FILE_BYTE_ORDER, .version = FILE_VERSION, .tables = 1},
        .table = {FIELDS_OF(is)},
    };
    all.table.size = size;
    memcpy(all.header.magic, FILE_MAGIC, sizeof all.header.magic);
    memcpy(all.table.parameters, is->parameters, sizeof all.table.parameters);
    for (uint32_t i = 0; i < table->region_count; i++)
        all.header.sections += table->regions[i].section != LOOM__SECTION_NONE;
    all.header.header_bytes = loom__file_header_bytes(1, all.header.sections);
    uint64_t at = all.header.header_bytes;
    for (uint32_t i = 0, count = 0; i < table->region_count; i++) {
        const loom__region *region = &table->regions[i];
        if (region->section == LOOM__SECTION_NONE)
            continue;
        loom__file_section *section = &all.sections[count++];
        *section = (loom__file_section){.id = region->section, .bytes = region->bytes, .unit = region->unit};
        at = loom__file_place(section, at);
        RETURN_IF_FAILED(write_section(table, region, section, file, stream));
    }
    all.header.file_bytes = at;
    all.header.header_checksum = loom__checksum(&all, all.header.header_bytes, 0);
    return loom__file_write(file, &all, all.header.header_bytes, 0);
}

loom_status loom__table_file_save(loom__table *table, uint64_t size, const char *path, loom_stream stream)
{
    loom__new_file file;
    RETURN_IF_FAILED(loom__file_begin(&file, path));
    loom_status status = write_contents(table, size, &file, stream);
    if (status == LOOM_OK)
        return loom__file_commit(&file);
    loom__file_abandon(&file);
    return status;
}

/* ---- open: format 2 ---- */

/* Do the sections lie where they should, one behind the other? */
static loom_status check_head(const head *all, const loom__table_file *file)
{
    const char *path = file->path;
    const loom__file_header header = all->header;
    const loom__file_table *table = &all->table;
    int sound = header.reserved_4 == 0 && header.reserved_8[0] == 0 && header.reserved_8[1] == 0 &&
                table->reserved_4 == 0 && table->reserved_8[0] == 0 && table->reserved_8[1] == 0;
    uint64_t at = header.header_bytes;
    for (uint32_t i = 0; i < header.sections; i++) {
        const loom__file_section *section = &all->sections[i];
        loom__file_section placed = *section;
        sound &= section->table == 0 && section->id != LOOM__SECTION_NONE && section->reserved_8[0] == 0 &&
                 section->reserved_8[1] == 0 && section->bytes > 0 && section->unit > 0 && section->unit <= INT32_MAX &&
                 section->bytes <= file->bytes && at <= file->bytes;
        for (uint32_t j = 0; j < i; j++)
            sound &= section->id != all->sections[j].id;
        if (!sound)
            break;
        at = loom__file_place(&placed, at);
        sound &= placed.checksums_at == section->checksums_at && placed.at == section->at;
    }
    RETURN_ERROR_IF(!sound, LOOM_BAD_FILE, "the header of %s holds values that no table has", path);
    RETURN_ERROR_IF(file->bytes != header.file_bytes || file->bytes != at, LOOM_BAD_FILE,
                    "%s has %llu bytes, its header speaks of %llu", path, (unsigned long long)file->bytes,
                    (unsigned long long)at);
    return LOOM_OK;
}

/* Everything before the first section's checksums, whole: its checksum comes before all else that it says. */
static loom_status read_records(const loom__table_file *file, loom__machine *machine, loom__file_header header,
                                head *all)
{
    enum { MOST_BYTES = 1 << 20 };
    const uint64_t bytes = header.header_bytes;
    const char *path = file->path;
    RETURN_ERROR_IF(bytes < sizeof header || bytes > MOST_BYTES || bytes > file->bytes, LOOM_BAD_FILE,
                    "the header of %s is damaged", path);
    unsigned char *records = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_HOST, NULL);
    if (records == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status = loom__file_read(file->descriptor, path, records, bytes, 0);
    uint64_t sum = 0;
    if (status == LOOM_OK) {
        memcpy(&header, records, sizeof header); /* somebody may have written to the file since it was read first */
        memcpy(&sum, records + offsetof(loom__file_header, header_checksum), sizeof sum);
        memset(records + offsetof(loom__file_header, header_checksum), 0, sizeof sum);
        if (sum != loom__checksum(records, bytes, 0))
            status = loom__fail(LOOM_BAD_FILE, "the header of %s is damaged", path);
        else if (header.tables == 0 || header.tables > MOST_BYTES || header.sections > MOST_BYTES ||
                 bytes != header.header_bytes ||
                 bytes != sizeof header + header.tables * sizeof(loom__file_table) +
                              header.sections * sizeof(loom__file_section))
            status = loom__fail(LOOM_BAD_FILE, "the header of %s holds values that no table has", path);
        else if (header.tables > 1)
            status = loom__fail(LOOM_UNSUPPORTED, "%s holds %u tables, this version reads files of one", path,
                                header.tables);
        else if (header.sections == 0 || header.sections > LOOM__MOST_REGIONS)
            status = loom__fail(LOOM_BAD_FILE, "the header of %s holds values that no table has", path);
        else
            memcpy(all, records, bytes);
    }
    loom__release(&machine->allocator, records, bytes, LOOM_MEMORY_HOST, NULL);
    return status;
}

static loom_status open_format_2(loom__table_file *file, loom__machine *machine, loom__file_header header)
{
    head all = {0};
    RETURN_IF_FAILED(read_records(file, machine, header, &all));
    RETURN_IF_FAILED(check_head(&all, file));
    const loom__file_table *table = &all.table;
    file->is = (loom__description){FIELDS_OF(table)};
    memcpy(file->is.parameters, table->parameters, sizeof file->is.parameters);
    file->part_count = all.header.sections;
    for (uint32_t i = 0; i < file->part_count; i++) {
        const loom__file_section *section = &all.sections[i];
        file->parts[i] = (loom__file_part){.id = section->id,
                                           .checksums_at = section->checksums_at,
                                           .at = section->at,
                                           .bytes = section->bytes,
                                           .unit = section->unit,
                                           .sums_checksum = section->checksums_checksum};
    }
    return LOOM_OK;
}

/* ---- open: format 1 ---- */

static loom_status check_header_1(const loom__file_header_1 *header, const loom__table_file *file)
{
    RETURN_ERROR_IF(header->header_checksum !=
                        loom__checksum(header, offsetof(loom__file_header_1, header_checksum), 0),
                    LOOM_BAD_FILE, "the header of %s is damaged", file->path);
    RETURN_ERROR_IF(header->header_bytes != sizeof *header || header->partitions == 0 || header->partition_bytes == 0 ||
                        header->partition_bytes > INT32_MAX || header->reserved != 0 ||
                        header->code_pieces > INT32_MAX, /* the sum has 64 bits */
                    LOOM_BAD_FILE, "the header of %s holds values that no table has", file->path);
    const uint64_t pieces = loom__file_1_pieces(header);
    const uint64_t expected = loom__file_1_pieces_at(pieces) + pieces * header->partition_bytes;
    RETURN_ERROR_IF(file->bytes != expected, LOOM_BAD_FILE, "%s has %llu bytes, its header speaks of %llu", file->path,
                    (unsigned long long)file->bytes, (unsigned long long)expected);
    return LOOM_OK;
}

static loom_status open_format_1(loom__table_file *file)
{
    loom__file_header_1 header;
    RETURN_IF_FAILED(loom__file_read(file->descriptor, file->path, &header, sizeof header, 0));
    RETURN_IF_FAILED(check_header_1(&header, file));
    file->is = (loom__description){FIELDS_OF(&header), .parameters = {header.parameter}};
    const uint64_t pieces_at = loom__file_1_pieces_at(loom__file_1_pieces(&header));
    const uint64_t partitions_bytes = header.partitions * header.partition_bytes;
    file->part_count = header.code_pieces > 0 ? 2 : 1;
    file->parts[0] = (loom__file_part){.id = LOOM__SECTION_PARTITIONS,
                                       .checksums_at = sizeof header,
                                       .at = pieces_at,
                                       .bytes = partitions_bytes,
                                       .unit = header.partition_bytes,
                                       .sums_checksum = header.checksums_checksum}; /* of both parts */
    if (header.code_pieces > 0)
        file->parts[1] = (loom__file_part){.id = LOOM__SECTION_CODES,
                                           .checksums_at = sizeof header + header.partitions * sizeof(uint64_t),
                                           .at = pieces_at + partitions_bytes,
                                           .bytes = header.code_pieces * header.partition_bytes,
                                           .unit = header.partition_bytes,
                                           .first_seed = header.partitions};
    return LOOM_OK;
}

/* ---- open ---- */

static loom_status read_head(loom__table_file *file, loom__machine *machine)
{
    const char *path = file->path;
    loom__file_header header;
    RETURN_IF_FAILED(loom__file_read(file->descriptor, path, &header, sizeof header, 0));
    RETURN_ERROR_IF(memcmp(header.magic, FILE_MAGIC, sizeof header.magic) != 0, LOOM_BAD_FILE,
                    "%s is not a hashloom file", path);
    RETURN_ERROR_IF(header.byte_order != FILE_BYTE_ORDER, LOOM_BAD_FILE,
                    "%s has a damaged byte-order mark, or was written by a machine with another byte order", path);
    file->version = header.version;
    if (header.version == 1)
        return open_format_1(file);
    RETURN_ERROR_IF(header.version != FILE_VERSION, LOOM_FOREIGN_VERSION,
                    "%s is of format version %u, this library reads versions 1 and %d; load it with the version that "
                    "wrote it",
                    path, header.version, FILE_VERSION);
    return open_format_2(file, machine, header);
}

loom_status loom__table_file_open(loom__machine *machine, const char *path, loom__table_file *file)
{
    memset(file, 0, sizeof *file);
    file->path = path;
    RETURN_IF_FAILED(loom__file_open(path, &file->descriptor, &file->bytes));
    loom_status status = read_head(file, machine);
    if (status != LOOM_OK)
        loom__table_file_close(file);
    return status;
}

void loom__table_file_close(loom__table_file *file)
{
    close(file->descriptor);
    file->descriptor = -1;
}

/* ---- load ---- */

/* What holds for the tables of every engine. */
static loom_status check_description(const loom__table_file *file, const loom__engine *engine)
{
    const loom__description *is = &file->is;
    RETURN_ERROR_IF(is->layout_version != engine->layout_version, LOOM_FOREIGN_VERSION,
                    "%s has a table of the %s engine of layout %u, this library reads layout %u; load it with the "
                    "version that wrote it",
                    file->path, engine->name, is->layout_version, engine->layout_version);
    for (uint32_t i = engine->parameters; i < LOOM__MOST_PARAMETERS; i++)
        RETURN_ERROR_IF(is->parameters[i] != 0, LOOM_BAD_FILE, "the header of %s holds values that no table has",
                        file->path);
    return engine->check(is);
}

/* Do the file's sections have the sizes of the table's regions? Those of format 1 may be padded to whole units. */
static loom_status match_parts(const loom__table_file *file, const loom__table *table, const loom__file_part **parts)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < table->region_count; i++) {
        const loom__region *region = &table->regions[i];
        parts[i] = NULL;
        for (uint32_t j = 0; j < file->part_count; j++)
            if (region->section != LOOM__SECTION_NONE && file->parts[j].id == (uint32_t)region->section)
                parts[i] = &file->parts[j];
        if (region->section == LOOM__SECTION_NONE)
            continue;
        const loom__file_part *part = parts[i];
        const int fits =
            part != NULL &&
            (file->version == 1 ? part->bytes >= region->bytes && part->bytes - region->bytes < part->unit &&
                                      (part->unit == region->unit || part->first_seed > 0)
                                : part->bytes == region->bytes && part->unit == region->unit);
        RETURN_ERROR_IF(!fits, LOOM_BAD_FILE,
                        "the sizes in %s contradict each other: section %d has %llu bytes, its table needs %llu",
                        file->path, (int)region->section, part != NULL ? (unsigned long long)part->bytes : 0,
                        (unsigned long long)region->bytes);
        found++;
    }
    RETURN_ERROR_IF(found != file->part_count, LOOM_BAD_FILE, "%s has sections that its table does not have",
                    file->path);
    return LOOM_OK;
}

/* The checksums of both parts, which format 1 covers by one checksum. */
static loom_status check_sums_1(const loom__table_file *file, loom__machine *machine)
{
    const loom__file_part *first = &file->parts[0];
    uint64_t own = 0;
    for (uint32_t i = 0; i < file->part_count; i++)
        own += loom__file_units(file->parts[i].bytes, file->parts[i].unit) * sizeof(uint64_t);
    const uint64_t bytes = first->at - first->checksums_at;
    unsigned char *sums = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_HOST, NULL);
    if (sums == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status = loom__file_read(file->descriptor, file->path, sums, bytes, first->checksums_at);
    if (status == LOOM_OK &&
        (loom__checksum(sums, own, 0) != first->sums_checksum || !is_zero(sums + own, bytes - own)))
        status = loom__fail(LOOM_BAD_FILE, "the checksums of %s are damaged", file->path);
    loom__release(&machine->allocator, sums, bytes, LOOM_MEMORY_HOST, NULL);
    return status;
}

static loom_status check_sums(const transfer *move, const loom__table_file *file, const loom__file_part *part)
{
    const uint64_t own = loom__file_units(move->bytes, move->unit) * sizeof(uint64_t);
    if (file->version == 1)
        return LOOM_OK; /* check_sums_1 did */
    RETURN_ERROR_IF(loom__checksum(move->checksums, own, 0) != part->sums_checksum ||
                        !is_zero((const unsigned char *)move->checksums + own, move->checksums_bytes - own),
                    LOOM_BAD_FILE, "the checksums of %s are damaged", file->path);
    return LOOM_OK;
}

/* A run of units into the region; bytes that are beyond it must be zero. */
static loom_status put_run(transfer *move, const loom__table_file *file)
{
    const uint64_t left = move->at < move->region->bytes ? move->region->bytes - move->at : 0;
    const uint64_t bytes = left < move->length ? left : move->length;
    RETURN_ERROR_IF(!is_zero(move->buffer + bytes, move->length - bytes), LOOM_BAD_FILE,
                    "%s has bytes behind a section that are not zero", file->path);
    if (bytes == 0)
        return LOOM_OK;
    return loom__region_write(move->table, move->region, move->at, move->buffer, bytes, move->stream);
}

static loom_status read_runs(transfer *move, const loom__table_file *file, const loom__file_part *part)
{
    unsigned char behind[FILE_ALIGNMENT];
    const uint64_t end = part->at + part->bytes, padding = loom__file_aligned(end) - end;
    RETURN_IF_FAILED(
        loom__file_read(file->descriptor, file->path, move->checksums, move->checksums_bytes, part->checksums_at));
    RETURN_IF_FAILED(check_sums(move, file, part));
    while (next_run(move)) {
        RETURN_IF_FAILED(
            loom__file_read(file->descriptor, file->path, move->buffer, move->length, part->at + move->at));
        sum_run(move);
        for (uint64_t i = 0; i < move->count; i++)
            RETURN_ERROR_IF(move->sums[i] != move->checksums[move->first + i], LOOM_BAD_FILE,
                            "unit %llu of section %u of %s is damaged", (unsigned long long)(move->first + i), part->id,
                            file->path);
        RETURN_IF_FAILED(put_run(move, file));
    }
    if (file->version == 1)
        return LOOM_OK;
    RETURN_IF_FAILED(loom__file_read(file->descriptor, file->path, behind, padding, end));
    RETURN_ERROR_IF(!is_zero(behind, padding), LOOM_BAD_FILE, "%s has bytes behind a section that are not zero",
                    file->path);
    return LOOM_OK;
}

static loom_status read_part(const loom__table_file *file, const loom__file_part *part, loom__table *table,
                             const loom__region *region, loom_stream stream)
{
    transfer move = {.table = table,
                     .region = region,
                     .stream = stream,
                     .bytes = part->bytes,
                     .unit = part->unit,
                     .first_seed = part->first_seed};
    const uint64_t sums = loom__file_units(part->bytes, part->unit) * sizeof(uint64_t);
    RETURN_IF_FAILED(transfer_begin(&move, file->version == 1 ? sums : part->at - part->checksums_at));
    loom_status status = read_runs(&move, file, part);
    transfer_end(&move);
    return status;
}

loom_status loom__table_file_load(loom__table_file *file, loom__machine *machine, const loom__engine *engine,
                                  uint32_t concurrent_reads, loom__table **made, loom_stream stream)
{
    const loom__file_part *parts[LOOM__MOST_REGIONS];
    loom__table planned, *table;
    RETURN_IF_FAILED(loom__table_offered(machine, engine));
    RETURN_IF_FAILED(check_description(file, engine));
    RETURN_IF_FAILED(loom__table_plan(machine, engine, &file->is, concurrent_reads, &planned));
    RETURN_IF_FAILED(match_parts(file, &planned, parts));
    const uint64_t slots = loom__table_slots_in_all(&planned);
    RETURN_ERROR_IF(slots > 0 && (file->is.size > slots || file->is.capacity > slots), LOOM_BAD_FILE,
                    "%s speaks of %llu keys of %llu, and has %llu slots", file->path, (unsigned long long)file->is.size,
                    (unsigned long long)file->is.capacity, (unsigned long long)slots);
    if (file->version == 1)
        RETURN_IF_FAILED(check_sums_1(file, machine));
    RETURN_IF_FAILED(loom__table_make(machine, engine, &file->is, concurrent_reads, &table, stream));
    loom_status status = LOOM_OK;
    for (uint32_t i = 0; i < table->region_count && status == LOOM_OK; i++)
        if (parts[i] != NULL)
            status = read_part(file, parts[i], table, &table->regions[i], stream);
    if (status != LOOM_OK)
        loom__table_destroy(table);
    else
        *made = table;
    return status;
}
