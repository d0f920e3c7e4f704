#include "durable/snapshot.h"
#include "core/checksum.h"
#include "core/error.h"

#include <string.h>

static const char SNAPSHOT_NAME[] = "snapshot", TEMPORARY_NAME[] = "snapshot.new";

uint64_t loom__snapshot_bytes(const loom__snapshot_head *head)
{
    return (1 + loom__blocks_of(head->bytes)) * DURABLE_BLOCK;
}

/* The seed of the payload's blocks. Blocks of another snapshot do not pass. */
static uint64_t seed_of(const loom__snapshot_head *head)
{
    return head->life + (head->epoch << 32);
}

static uint64_t stamp_of(const loom__snapshot_head *head)
{
    return loom__checksum(head, offsetof(loom__snapshot_head, stamp), 0);
}

/* ---- writing ---- */

/* Writes the next pairs of the table as a piece; *got: how many. */
static loom_status write_piece(loom__table *table, loom__pairs *pairs, loom__position *position,
                               loom__block_writer *writer, uint64_t *got)
{
    void *values = pairs->value_bytes > 0 ? pairs->values : NULL;
    RETURN_IF_FAILED(loom__map_table_retrieve(table, position, pairs->keys, values, pairs->room, got, NULL));
    if (*got == 0)
        return LOOM_OK;
    const loom__piece_head head = {.kind = LOOM__PIECE_PUT, .count = (uint32_t)*got};
    RETURN_IF_FAILED(loom__block_put(writer, &head, sizeof head));
    RETURN_IF_FAILED(loom__block_put(writer, pairs->keys, *got * pairs->key_bytes));
    return loom__block_put(writer, pairs->values, *got * pairs->value_bytes);
}

static loom_status write_pairs(loom__table *table, loom__pairs *pairs, loom__block_writer *writer,
                               loom__snapshot_head *head)
{
    const uint64_t pair_bytes = (uint64_t)pairs->key_bytes + pairs->value_bytes;
    loom__position position = {0};
    uint64_t got = 0, written = 0;
    head->bytes = 0;
    do { /* ends with the table */
        if (table != NULL)
            RETURN_IF_FAILED(write_piece(table, pairs, &position, writer, &got));
        written += got;
        head->bytes += got > 0 ? sizeof(loom__piece_head) + got * pair_bytes : 0;
    } while (got > 0);
    RETURN_ERROR_IF(written != head->pairs, LOOM_INTERNAL,
                    "the table counts %llu pairs and holds %llu; keep it (loom_map_save) and report it",
                    (unsigned long long)head->pairs, (unsigned long long)written);
    return loom__block_end(writer);
}

/* The payload, then the head before it, then a sync. */
static loom_status write_file(loom__disk_file *file, loom__table *table, loom__pairs *pairs, unsigned char *buffer,
                              uint64_t room, loom__snapshot_head *head)
{
    const loom__disk_ops *ops = file->disk->ops;
    loom__block_writer writer = {
        .place = {.file = file, .first = 1, .ring = UINT64_MAX}, .seed = seed_of(head), .buffer = buffer, .room = room};
    memcpy(head->magic, SNAPSHOT_MAGIC, sizeof head->magic);
    head->byte_order = DURABLE_BYTE_ORDER;
    head->version = DURABLE_VERSION;
    RETURN_IF_FAILED(ops->truncate(file, 0)); /* a killed process may have left one */
    RETURN_IF_FAILED(write_pairs(table, pairs, &writer, head));
    head->stamp = stamp_of(head);
    memset(buffer, 0, DURABLE_BLOCK);
    memcpy(buffer, head, sizeof *head);
    loom__block_seal(buffer, 0);
    RETURN_IF_FAILED(ops->write(file, buffer, DURABLE_BLOCK, 0));
    return ops->sync(file);
}

loom_status loom__snapshot_write(loom__disk *disk, loom__table *table, loom__pairs *pairs, unsigned char *buffer,
                                 uint64_t room, loom__snapshot_head *head, int *replaced)
{
    loom__disk_file *file;
    *replaced = 0;
    RETURN_IF_FAILED(disk->ops->open(disk, TEMPORARY_NAME, 1, &file));
    const loom_status status = write_file(file, table, pairs, buffer, room, head);
    disk->ops->close(file);
    RETURN_IF_FAILED(status);
    *replaced = 1;
    RETURN_IF_FAILED(disk->ops->rename(disk, TEMPORARY_NAME, SNAPSHOT_NAME));
    return disk->ops->sync_names(disk);
}

/* ---- reading ---- */

static loom_status read_head(loom__disk_file *file, loom__snapshot_head *head)
{
    const loom__disk *disk = file->disk;
    unsigned char block[DURABLE_BLOCK];
    uint64_t bytes;
    RETURN_IF_FAILED(disk->ops->size(file, &bytes));
    RETURN_ERROR_IF(bytes < DURABLE_BLOCK, LOOM_BAD_FILE, "%s/%s has %llu bytes and no head", disk->path, file->name,
                    (unsigned long long)bytes);
    RETURN_IF_FAILED(disk->ops->read(file, block, sizeof block, 0));
    memcpy(head, block, sizeof *head);
    RETURN_ERROR_IF(
        memcmp(head->magic, SNAPSHOT_MAGIC, sizeof head->magic) != 0 || head->byte_order != DURABLE_BYTE_ORDER,
        LOOM_BAD_FILE, "%s/%s does not begin as the snapshot of a durable map does", disk->path, file->name);
    RETURN_ERROR_IF(head->version != DURABLE_VERSION, LOOM_FOREIGN_VERSION,
                    "%s/%s has version %u of the format, this library reads and writes version %d", disk->path,
                    file->name, head->version, DURABLE_VERSION);
    RETURN_ERROR_IF(!loom__block_is_sound(block, 0) || head->stamp != stamp_of(head), LOOM_BAD_FILE,
                    "the head of %s/%s is damaged: bytes 0 to %d", disk->path, file->name, DURABLE_BLOCK - 1);
    const uint64_t pair_bytes = (uint64_t)head->key_bytes + head->value_bytes;
    RETURN_ERROR_IF(pair_bytes == 0 || head->pairs > head->bytes / pair_bytes, LOOM_BAD_FILE,
                    "the head of %s/%s says that %llu pairs lie in %llu bytes", disk->path, file->name,
                    (unsigned long long)head->pairs, (unsigned long long)head->bytes);
    RETURN_ERROR_IF(head->bytes >= (uint64_t)1 << 62 || bytes != loom__snapshot_bytes(head), LOOM_BAD_FILE,
                    "%s/%s has %llu bytes, and its head says %llu", disk->path, file->name, (unsigned long long)bytes,
                    (unsigned long long)loom__snapshot_bytes(head));
    return LOOM_OK;
}

loom_status loom__snapshot_open(loom__disk *disk, loom__snapshot_head *head, loom__block_reader *reader)
{
    loom__disk_file *file;
    RETURN_IF_FAILED(disk->ops->open(disk, SNAPSHOT_NAME, 0, &file));
    const loom_status status = read_head(file, head);
    if (status != LOOM_OK) {
        disk->ops->close(file);
        return status;
    }
    const loom__block_place place = {.file = file, .first = 1, .ring = UINT64_MAX};
    loom__block_open(reader, &place, seed_of(head), loom__blocks_of(head->bytes));
    return LOOM_OK;
}

void loom__snapshot_close(loom__block_reader *reader)
{
    reader->place.file->disk->ops->close(reader->place.file);
}

loom_status loom__snapshot_damaged(const loom__block_reader *reader)
{
    const loom__disk_file *file = reader->place.file;
    const uint64_t at = (reader->place.first + reader->index) * DURABLE_BLOCK;
    return loom__fail(
        LOOM_BAD_FILE,
        "%s/%s is damaged: bytes %llu to %llu. Records of the journal are only what changed since: the map "
        "cannot be restored from this directory",
        file->disk->path, file->name, (unsigned long long)at, (unsigned long long)(at + DURABLE_BLOCK - 1));
}
