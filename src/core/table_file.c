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

enum { BUFFER_BYTES = 8 << 20, MOST_HEADER_BYTES = 1 << 20 };

/* The fields that files and descriptions have in common, except the parameters. */
#define FIELDS_OF(from)                                                                                   \
    .type = (loom_type)(from)->type, .engine = (from)->engine, .layout_version = (from)->layout_version,  \
    .key_bytes = (from)->key_bytes, .value_bytes = (from)->value_bytes, .partitions = (from)->partitions, \
    .buckets = (from)->buckets, .capacity = (from)->capacity, .size = (from)->size, .seed = (from)->seed, \
    .max_load = (from)->max_load

_Static_assert((int)FILE_PARAMETERS == (int)LOOM__MOST_PARAMETERS, "a file has all of them");

/* ---- the units of one section, in runs that fit a buffer ---- */

typedef struct transfer {
    loom__table *table;
    const loom__file_section *section;
    uint64_t first_seed;
    uint64_t *checksums; /* [units], then padding; in format 1 of all parts. The buffer follows */
    uint64_t checksums_bytes;
    unsigned char *buffer;
    uint64_t buffer_bytes;
    uint64_t first, count; /* the current run: its first unit and number of units */
    uint64_t at, length;   /* the current run: its offset in the section and its bytes */
} transfer;

static uint64_t units_of(const loom__file_section *section)
{
    return loom__file_units(section->bytes, section->unit);
}

/* XORs the unit's checksum into its entry. Before a save the entry is 0. Before a load it is the checksum from the
 * file; afterwards it is 0, or the unit is damaged. */
static void sum_unit(void *argument, uint64_t index)
{
    transfer *move = argument;
    const uint64_t unit = move->section->unit, at = index * unit, left = move->length - at;
    const uint64_t number = move->first + index;
    move->checksums[number] ^= loom__checksum(move->buffer + at, left < unit ? left : unit, move->first_seed + number);
}

static void sum_run(transfer *move)
{
    move->table->machine->ops->host_parallel(move->table->machine, move->count, sum_unit, move);
}

static loom_status transfer_begin(transfer *move, uint64_t checksums_bytes)
{
    const loom__file_section *section = move->section;
    const uint64_t units = units_of(section), most = BUFFER_BYTES / section->unit + 1;
    move->checksums_bytes = checksums_bytes;
    move->buffer_bytes = (most < units ? most : units) * section->unit;
    move->checksums =
        loom__allocate(&move->table->machine->allocator, checksums_bytes + move->buffer_bytes, LOOM_MEMORY_HOST, NULL);
    if (move->checksums == NULL)
        return LOOM_OUT_OF_MEMORY;
    memset(move->checksums, 0, checksums_bytes);
    move->buffer = (unsigned char *)move->checksums + checksums_bytes;
    return LOOM_OK;
}

static void transfer_end(transfer *move)
{
    loom__release(&move->table->machine->allocator, move->checksums, move->checksums_bytes + move->buffer_bytes,
                  LOOM_MEMORY_HOST, NULL);
}

/* Chooses the next run of units; false at the end. */
static int next_run(transfer *move)
{
    move->first += move->count;
    move->at = move->first * move->section->unit;
    if (move->at >= move->section->bytes)
        return 0;
    const uint64_t left = move->section->bytes - move->at;
    move->length = left < move->buffer_bytes ? left : move->buffer_bytes;
    move->count = loom__file_units(move->length, move->section->unit);
    return 1;
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

/* All bytes of a file before the first section's checksums. */
typedef struct head {
    loom__file_header header;
    loom__file_table table;
    loom__file_section sections[LOOM__MOST_REGIONS];
} head;

static loom_status write_runs(transfer *move, const loom__region *region, loom__new_file *file, loom_stream stream)
{
    static const unsigned char zeros[FILE_ALIGNMENT];
    const loom__file_section *section = move->section;
    const uint64_t end = section->at + section->bytes;
    uint64_t used = region->bytes;
    if (move->table->engine->used_bytes != NULL)
        RETURN_IF_FAILED(move->table->engine->used_bytes(move->table, region, &used, stream));
    while (next_run(move)) {
        const uint64_t left = move->at < used ? used - move->at : 0, length = left < move->length ? left : move->length;
        if (length > 0)
            RETURN_IF_FAILED(loom__region_read(move->table, region, move->at, move->buffer, length, stream));
        memset(move->buffer + length, 0, move->length - length);
        sum_run(move);
        RETURN_IF_FAILED(loom__file_write(file, move->buffer, move->length, section->at + move->at));
    }
    RETURN_IF_FAILED(loom__file_write(file, move->checksums, move->checksums_bytes, section->checksums_at));
    return loom__file_write(file, zeros, loom__file_aligned(end) - end, end);
}

static loom_status write_section(loom__table *table, const loom__region *region, loom__file_section *section,
                                 loom__new_file *file, loom_stream stream)
{
    transfer move = {.table = table, .section = section};
    RETURN_IF_FAILED(transfer_begin(&move, section->at - section->checksums_at));
    loom_status status = write_runs(&move, region, file, stream);
    section->checksums_checksum = loom__checksum(move.checksums, units_of(section) * sizeof(uint64_t), 0);
    transfer_end(&move);
    return status;
}

static loom_status write_contents(loom__table *table, uint64_t size, loom__new_file *file, loom_stream stream)
{
    const loom__description *is = &table->is;
    head all = {
        .header = {.byte_order = FILE_BYTE_ORDER, .version = FILE_VERSION, .tables = 1, .sections = table->sections},
        .table = {FIELDS_OF(is)},
    };
    all.table.size = size;
    memcpy(all.header.magic, FILE_MAGIC, sizeof all.header.magic);
    memcpy(all.table.parameters, is->parameters, sizeof all.table.parameters);
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

static loom_status read_at(const loom__table_file *file, void *data, uint64_t bytes, uint64_t offset)
{
    return loom__file_read(file->descriptor, file->path, data, bytes, offset);
}

/* Checks the reserved fields, and that the sections lie back to back up to the end of the file. */
static loom_status check_head(const head *all, const loom__table_file *file)
{
    const char *path = file->path;
    const loom__file_header header = all->header;
    const loom__file_table *table = &all->table;
    int sound = header.reserved_4 == 0 && is_zero(header.reserved_8, sizeof header.reserved_8) &&
                table->reserved_4 == 0 && is_zero(table->reserved_8, sizeof table->reserved_8);
    uint64_t at = header.header_bytes;
    for (uint32_t i = 0; i < header.sections; i++) {
        const loom__file_section *section = &all->sections[i];
        loom__file_section placed = *section;
        sound &= section->table == 0 && section->id != LOOM__SECTION_NONE &&
                 is_zero(section->reserved_8, sizeof section->reserved_8) && section->bytes > 0 && section->unit > 0 &&
                 section->unit <= INT32_MAX && section->bytes <= file->bytes && at <= file->bytes;
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

/* Checks all bytes before the first section's checksums: first their checksum, then the numbers of tables and
 * sections. */
static loom_status check_records(const char *path, unsigned char *records, uint64_t bytes)
{
    loom__file_header header;
    memcpy(&header, records, sizeof header);
    memset(records + offsetof(loom__file_header, header_checksum), 0, sizeof header.header_checksum);
    RETURN_ERROR_IF(header.header_checksum != loom__checksum(records, bytes, 0), LOOM_BAD_FILE,
                    "the header of %s is damaged", path);
    RETURN_ERROR_IF(header.tables == 0 || header.tables > MOST_HEADER_BYTES || header.sections > MOST_HEADER_BYTES ||
                        bytes != header.header_bytes ||
                        bytes != loom__file_header_bytes(header.tables, header.sections) ||
                        (header.tables == 1 && (header.sections == 0 || header.sections > LOOM__MOST_REGIONS)),
                    LOOM_BAD_FILE, "the header of %s holds values that no table has", path);
    RETURN_ERROR_IF(header.tables > 1, LOOM_UNSUPPORTED, "%s holds %u tables, this version reads files of one", path,
                    header.tables);
    return LOOM_OK;
}

static loom_status read_records(const loom__table_file *file, loom__machine *machine, uint64_t bytes, head *all)
{
    RETURN_ERROR_IF(bytes < sizeof all->header || bytes > MOST_HEADER_BYTES || bytes > file->bytes, LOOM_BAD_FILE,
                    "the header of %s is damaged", file->path);
    unsigned char *records = loom__allocate(&machine->allocator, bytes, LOOM_MEMORY_HOST, NULL);
    if (records == NULL)
        return LOOM_OUT_OF_MEMORY;
    loom_status status = read_at(file, records, bytes, 0);
    if (status == LOOM_OK)
        status = check_records(file->path, records, bytes);
    if (status == LOOM_OK)
        memcpy(all, records, bytes);
    loom__release(&machine->allocator, records, bytes, LOOM_MEMORY_HOST, NULL);
    return status;
}

static loom_status open_format_2(loom__table_file *file, loom__machine *machine, uint64_t header_bytes)
{
    head all = {0};
    RETURN_IF_FAILED(read_records(file, machine, header_bytes, &all));
    RETURN_IF_FAILED(check_head(&all, file));
    const loom__file_table *table = &all.table;
    file->is = (loom__description){FIELDS_OF(table)};
    memcpy(file->is.parameters, table->parameters, sizeof file->is.parameters);
    file->part_count = all.header.sections;
    for (uint32_t i = 0; i < file->part_count; i++)
        file->parts[i] = (loom__file_part){.is = all.sections[i], .covered = units_of(&all.sections[i])};
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
    RETURN_IF_FAILED(read_at(file, &header, sizeof header, 0));
    RETURN_IF_FAILED(check_header_1(&header, file));
    file->is = (loom__description){FIELDS_OF(&header), .parameters = {header.parameter}};
    const uint64_t pieces = loom__file_1_pieces(&header), at = loom__file_1_pieces_at(pieces);
    const uint64_t bytes = header.partitions * header.partition_bytes;
    file->part_count = header.code_pieces > 0 ? 2 : 1;
    file->parts[0] = (loom__file_part){.is = {.id = LOOM__SECTION_PARTITIONS,
                                              .checksums_at = sizeof header,
                                              .at = at,
                                              .bytes = bytes,
                                              .unit = header.partition_bytes,
                                              .checksums_checksum = header.checksums_checksum},
                                       .covered = pieces};
    file->parts[1] = (loom__file_part){.is = {.id = LOOM__SECTION_CODES,
                                              .checksums_at = sizeof header + header.partitions * sizeof(uint64_t),
                                              .at = at + bytes,
                                              .bytes = header.code_pieces * header.partition_bytes,
                                              .unit = header.partition_bytes},
                                       .first_seed = header.partitions};
    return LOOM_OK;
}

/* ---- open ---- */

static loom_status read_head(loom__table_file *file, loom__machine *machine)
{
    const char *path = file->path;
    loom__file_header header;
    RETURN_IF_FAILED(read_at(file, &header, sizeof header, 0));
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
    return open_format_2(file, machine, header.header_bytes);
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
}

/* ---- load ---- */

/* Checks the rules that hold for the tables of every engine, then the engine's own rules. */
static loom_status check_description(const loom__table_file *file, const loom__engine *engine)
{
    const loom__description *is = &file->is;
    const uint32_t own = loom__engine_layout_of(engine, is);
    RETURN_ERROR_IF(is->layout_version != own, LOOM_FOREIGN_VERSION,
                    "%s has a table of the %s engine of layout %u, this library reads layout %u of such tables; load "
                    "it with the version that wrote it",
                    file->path, engine->name, is->layout_version, own);
    for (uint32_t i = engine->parameters; i < LOOM__MOST_PARAMETERS; i++)
        RETURN_ERROR_IF(is->parameters[i] != 0, LOOM_BAD_FILE, "the header of %s holds values that no table has",
                        file->path);
    return engine->check(is);
}

/* The file's section of a region; NULL if the file has none. */
static const loom__file_part *part_of(const loom__table_file *file, const loom__region *region)
{
    for (uint32_t i = 0; i < file->part_count; i++)
        if (file->parts[i].is.id == (uint32_t)region->section)
            return &file->parts[i];
    return NULL;
}

/* Whether a section has the size of its region. Format 1 pads the second section to whole units of the first. */
static int part_fits(const loom__table_file *file, const loom__file_part *part, const loom__region *region)
{
    if (part == NULL)
        return 0;
    const loom__file_section *section = &part->is;
    if (file->version != 1)
        return section->bytes == region->bytes && section->unit == region->unit;
    return section->bytes >= region->bytes && section->bytes - region->bytes < section->unit &&
           (section->unit == region->unit || part->first_seed > 0);
}

/* Checks that the file has one section for each saved region, of the same size, and no others. */
static loom_status check_parts(const loom__table_file *file, const loom__table *table)
{
    for (uint32_t i = 0; i < table->region_count; i++) {
        const loom__region *region = &table->regions[i];
        const loom__file_part *part = part_of(file, region);
        if (region->section == LOOM__SECTION_NONE)
            continue;
        RETURN_ERROR_IF(!part_fits(file, part, region), LOOM_BAD_FILE,
                        "the sizes in %s contradict each other: section %d has %llu bytes, its table needs %llu",
                        file->path, (int)region->section, part != NULL ? (unsigned long long)part->is.bytes : 0,
                        (unsigned long long)region->bytes);
    }
    RETURN_ERROR_IF(table->sections != file->part_count, LOOM_BAD_FILE, "%s has sections that its table does not have",
                    file->path);
    return LOOM_OK;
}

/* Copies a run of units into the region. Bytes beyond the end of the region must be zero. */
static loom_status put_run(transfer *move, const loom__table_file *file, const loom__region *region, loom_stream stream)
{
    const uint64_t left = move->at < region->bytes ? region->bytes - move->at : 0;
    const uint64_t bytes = left < move->length ? left : move->length;
    RETURN_ERROR_IF(!is_zero(move->buffer + bytes, move->length - bytes), LOOM_BAD_FILE,
                    "%s has bytes behind a section that are not zero", file->path);
    if (bytes == 0)
        return LOOM_OK;
    return loom__region_write(move->table, region, move->at, move->buffer, bytes, stream);
}

static loom_status read_runs(transfer *move, const loom__table_file *file, const loom__file_part *part,
                             const loom__region *region, loom_stream stream)
{
    unsigned char behind[FILE_ALIGNMENT];
    const loom__file_section *section = &part->is;
    const uint64_t own = part->covered * sizeof(uint64_t), end = section->at + section->bytes;
    const uint64_t padding = file->version == 1 ? 0 : loom__file_aligned(end) - end;
    RETURN_IF_FAILED(read_at(file, move->checksums, move->checksums_bytes, section->checksums_at));
    RETURN_ERROR_IF(own > 0 && (loom__checksum(move->checksums, own, 0) != section->checksums_checksum ||
                                !is_zero((unsigned char *)move->checksums + own, move->checksums_bytes - own)),
                    LOOM_BAD_FILE, "the checksums of %s are damaged", file->path);
    while (next_run(move)) {
        RETURN_IF_FAILED(read_at(file, move->buffer, move->length, section->at + move->at));
        sum_run(move);
        for (uint64_t i = move->first; i < move->first + move->count; i++)
            RETURN_ERROR_IF(move->checksums[i] != 0, LOOM_BAD_FILE, "unit %llu of section %u of %s is damaged",
                            (unsigned long long)i, section->id, file->path);
        RETURN_IF_FAILED(put_run(move, file, region, stream));
    }
    RETURN_IF_FAILED(read_at(file, behind, padding, end));
    RETURN_ERROR_IF(!is_zero(behind, padding), LOOM_BAD_FILE, "%s has bytes behind a section that are not zero",
                    file->path);
    return LOOM_OK;
}

static loom_status read_part(const loom__table_file *file, const loom__file_part *part, loom__table *table,
                             const loom__region *region, loom_stream stream)
{
    const loom__file_section *section = &part->is;
    transfer move = {.table = table, .section = section, .first_seed = part->first_seed};
    RETURN_IF_FAILED(transfer_begin(&move, part->covered > 0 ? section->at - section->checksums_at
                                                             : units_of(section) * sizeof(uint64_t)));
    loom_status status = read_runs(&move, file, part, region, stream);
    transfer_end(&move);
    return status;
}

loom_status loom__table_file_load(loom__table_file *file, loom__machine *machine, const loom__engine *engine,
                                  uint32_t concurrent_reads, loom__table **made, loom_stream stream)
{
    loom__table planned, *table;
    RETURN_IF_FAILED(loom__table_offered(machine, engine));
    RETURN_IF_FAILED(check_description(file, engine));
    RETURN_IF_FAILED(loom__table_plan(machine, engine, &file->is, concurrent_reads, &planned));
    RETURN_IF_FAILED(check_parts(file, &planned));
    const uint64_t slots = loom__table_slots_in_all(&planned);
    RETURN_ERROR_IF(slots > 0 && (file->is.size > slots || file->is.capacity > slots), LOOM_BAD_FILE,
                    "%s speaks of %llu keys of %llu, and has %llu slots", file->path, (unsigned long long)file->is.size,
                    (unsigned long long)file->is.capacity, (unsigned long long)slots);
    RETURN_IF_FAILED(loom__table_make(machine, engine, &file->is, concurrent_reads, &table, stream));
    loom_status status = LOOM_OK;
    for (uint32_t i = 0; i < table->region_count && status == LOOM_OK; i++) {
        const loom__file_part *part = part_of(file, &table->regions[i]);
        if (part != NULL)
            status = read_part(file, part, table, &table->regions[i], stream);
    }
    if (status != LOOM_OK)
        loom__table_destroy(table);
    else
        *made = table;
    return status;
}
