#include "durable/journal.h"
#include "core/checksum.h"
#include "core/error.h"

#include <string.h>

static const char JOURNAL_NAME[] = "journal";

/* ---- the file ---- */

static loom_status write_zeros(loom__journal *journal, uint64_t blocks)
{
    loom__disk_file *file = journal->place.file;
    memset(journal->buffer, 0, LOOM__JOURNAL_BUFFER * DURABLE_BLOCK);
    for (uint64_t at = 0; at < blocks; at += LOOM__JOURNAL_BUFFER) {
        const uint64_t left = blocks - at, count = left < LOOM__JOURNAL_BUFFER ? left : LOOM__JOURNAL_BUFFER;
        RETURN_IF_FAILED(
            file->disk->ops->write(file, journal->buffer, count * DURABLE_BLOCK, (1 + at) * DURABLE_BLOCK));
    }
    return LOOM_OK;
}

static loom_status write_head(loom__journal *journal, uint64_t blocks)
{
    loom__disk_file *file = journal->place.file;
    loom__journal_head head = {.byte_order = DURABLE_BYTE_ORDER, .version = DURABLE_VERSION, .ring_blocks = blocks};
    memcpy(head.magic, JOURNAL_MAGIC, sizeof head.magic);
    memset(journal->buffer, 0, DURABLE_BLOCK);
    memcpy(journal->buffer, &head, sizeof head);
    loom__block_seal(journal->buffer, 0);
    return file->disk->ops->write(file, journal->buffer, DURABLE_BLOCK, 0);
}

static loom_status open_file(loom__disk *disk, int create, loom__journal *journal)
{
    journal->place = (loom__block_place){.first = 1};
    journal->used = journal->written = 0;
    return disk->ops->open(disk, JOURNAL_NAME, create, &journal->place.file);
}

loom_status loom__journal_create(loom__disk *disk, uint64_t ring_blocks, loom__journal *journal)
{
    RETURN_IF_FAILED(open_file(disk, 1, journal));
    loom__disk_file *file = journal->place.file;
    journal->place.ring = ring_blocks;
    loom_status status = disk->ops->truncate(file, 0);
    if (status == LOOM_OK)
        status = write_zeros(journal, ring_blocks);
    if (status == LOOM_OK)
        status = write_head(journal, ring_blocks);
    if (status == LOOM_OK)
        status = disk->ops->sync(file);
    if (status != LOOM_OK)
        loom__journal_close(journal);
    journal->written = (1 + ring_blocks) * DURABLE_BLOCK;
    return status;
}

static loom_status read_head(loom__journal *journal)
{
    loom__disk_file *file = journal->place.file;
    const loom__disk *disk = file->disk;
    unsigned char block[DURABLE_BLOCK];
    loom__journal_head head;
    uint64_t bytes;
    RETURN_IF_FAILED(disk->ops->size(file, &bytes));
    RETURN_ERROR_IF(bytes < DURABLE_BLOCK, LOOM_BAD_FILE, "%s/%s has %llu bytes and no head", disk->path, file->name,
                    (unsigned long long)bytes);
    RETURN_IF_FAILED(disk->ops->read(file, block, sizeof block, 0));
    memcpy(&head, block, sizeof head);
    RETURN_ERROR_IF(memcmp(head.magic, JOURNAL_MAGIC, sizeof head.magic) != 0 || head.byte_order != DURABLE_BYTE_ORDER,
                    LOOM_BAD_FILE, "%s/%s does not begin as the journal of a durable map does", disk->path, file->name);
    RETURN_ERROR_IF(head.version != DURABLE_VERSION, LOOM_FOREIGN_VERSION,
                    "%s/%s has version %u of the format, this library reads and writes version %d", disk->path,
                    file->name, head.version, DURABLE_VERSION);
    RETURN_ERROR_IF(
        !loom__block_is_sound(block, 0) || head.ring_blocks < LEAST_RING_BLOCKS || head.ring_blocks > MOST_RING_BLOCKS,
        LOOM_BAD_FILE, "the head of %s/%s is damaged: bytes 0 to %d", disk->path, file->name, DURABLE_BLOCK - 1);
    RETURN_ERROR_IF(bytes != (1 + head.ring_blocks) * DURABLE_BLOCK, LOOM_BAD_FILE,
                    "%s/%s has %llu bytes, and its head says %llu", disk->path, file->name, (unsigned long long)bytes,
                    (unsigned long long)((1 + head.ring_blocks) * DURABLE_BLOCK));
    journal->place.ring = head.ring_blocks;
    return LOOM_OK;
}

loom_status loom__journal_open(loom__disk *disk, loom__journal *journal)
{
    RETURN_IF_FAILED(open_file(disk, 0, journal));
    const loom_status status = read_head(journal);
    if (status != LOOM_OK)
        loom__journal_close(journal);
    return status;
}

void loom__journal_close(loom__journal *journal)
{
    journal->place.file->disk->ops->close(journal->place.file);
    journal->place.file = NULL;
}

void loom__journal_restart(loom__journal *journal, uint64_t epoch, uint64_t stamp)
{
    journal->used = 0;
    journal->epoch = epoch;
    journal->stamp = stamp;
}

/* ---- appending ---- */

static uint64_t record_blocks(uint64_t bytes)
{
    return loom__blocks_of(sizeof(loom__record_head) + bytes);
}

int loom__journal_fits(const loom__journal *journal, uint64_t bytes)
{
    return bytes <= journal->place.ring * DURABLE_CONTENTS &&
           record_blocks(bytes) <= journal->place.ring - journal->used;
}

static uint64_t stamp_of(const loom__record_head *head)
{
    return loom__checksum(head, offsetof(loom__record_head, stamp), 0);
}

static void advance(loom__journal *journal, const loom__record_head *head)
{
    const uint64_t blocks = record_blocks(head->bytes);
    journal->place.at = (journal->place.at + blocks) % journal->place.ring;
    journal->used += blocks;
    journal->epoch = head->epoch;
    journal->stamp = head->stamp;
}

loom_status loom__journal_append(loom__journal *journal, const void *payload, uint64_t bytes, uint64_t synced)
{
    loom__record_head head = {.life = journal->life,
                              .epoch = journal->epoch + 1,
                              .synced = synced,
                              .previous = journal->stamp,
                              .bytes = bytes};
    memcpy(head.magic, RECORD_MAGIC, sizeof head.magic);
    head.stamp = stamp_of(&head);
    loom__block_writer writer = {
        .place = journal->place, .seed = head.stamp, .buffer = journal->buffer, .room = LOOM__JOURNAL_BUFFER};
    journal->epoch = head.epoch; /* spent, whatever follows (J3) */
    RETURN_IF_FAILED(loom__block_put(&writer, &head, sizeof head));
    RETURN_IF_FAILED(loom__block_put(&writer, payload, bytes));
    RETURN_IF_FAILED(loom__block_end(&writer));
    journal->written += record_blocks(bytes) * DURABLE_BLOCK;
    advance(journal, &head);
    return LOOM_OK;
}

/* ---- reading ---- */

/* Whether a record begins with this block. Checks the head and the block. */
static int begins_record(const unsigned char *block, loom__record_head *head)
{
    memcpy(head, block, sizeof *head);
    return memcmp(head->magic, RECORD_MAGIC, sizeof head->magic) == 0 && head->stamp == stamp_of(head) &&
           loom__block_is_sound(block, head->stamp);
}

/* Calls `visit` with the head of every record that begins in the ring, from block `place.at` on. */
typedef void visit_head(void *user, const loom__record_head *head, uint64_t blocks_behind);

static loom_status visit_heads(const loom__journal *journal, loom__block_reader *reader, visit_head *visit, void *user)
{
    const uint64_t ring = journal->place.ring;
    for (uint64_t at = 0, count; at < ring; at += count) {
        count = ring - at < LOOM__READER_BLOCKS ? ring - at : LOOM__READER_BLOCKS;
        RETURN_IF_FAILED(loom__block_load(&journal->place, at, count, reader->buffer));
        for (uint64_t i = 0; i < count; i++) {
            loom__record_head head;
            if (begins_record(reader->buffer + i * DURABLE_BLOCK, &head))
                visit(user, &head, at + i);
        }
    }
    return LOOM_OK;
}

/* A record that is no successor of the last whole one, but was written when the missing one was synced. */
typedef struct damage_search {
    uint64_t epoch;  /* of the last whole record */
    uint64_t newest; /* of all heads */
    uint64_t behind; /* blocks up to the nearest proof of damage; UINT64_MAX: there is none */
} damage_search;

static void look_for_damage(void *user, const loom__record_head *head, uint64_t blocks_behind)
{
    damage_search *search = user;
    if (head->epoch > search->newest)
        search->newest = head->epoch;
    if (head->epoch > search->epoch && head->synced > search->epoch && blocks_behind < search->behind)
        search->behind = blocks_behind;
}

static loom_status find_damage(const loom__journal *journal, loom__block_reader *reader, loom__journal_survey *survey)
{
    damage_search search = {journal->epoch, journal->epoch, UINT64_MAX};
    RETURN_IF_FAILED(visit_heads(journal, reader, look_for_damage, &search));
    survey->newest = search.newest;
    if (search.behind == UINT64_MAX)
        return LOOM_OK;
    survey->damaged_at = (journal->place.first + journal->place.at) * DURABLE_BLOCK;
    survey->damaged_bytes = search.behind * DURABLE_BLOCK;
    survey->lost_commits = search.newest - journal->epoch;
    survey->torn_bytes = 0; /* it was whole once */
    return LOOM_OK;
}

/* Finds out whether the record that follows is whole. If its head is sound and the rest is not, it is torn. */
static loom_status next_record(const loom__journal *journal, loom__block_reader *reader, loom__record_head *head,
                               int *whole, uint64_t *torn_bytes)
{
    *whole = 0;
    *torn_bytes = 0;
    if (journal->used == journal->place.ring)
        return LOOM_OK;
    RETURN_IF_FAILED(loom__block_load(&journal->place, 0, 1, reader->buffer));
    memcpy(head, reader->buffer, sizeof *head);
    if (memcmp(head->magic, RECORD_MAGIC, sizeof head->magic) != 0 || head->stamp != stamp_of(head) ||
        head->epoch != journal->epoch + 1 || head->previous != journal->stamp ||
        !loom__journal_fits(journal, head->bytes))
        return LOOM_OK;
    loom__block_open(reader, &journal->place, head->stamp, record_blocks(head->bytes));
    const loom_status status = loom__block_get(reader, NULL, sizeof *head + head->bytes);
    *whole = status == LOOM_OK;
    if (status == LOOM_NOT_FOUND)
        *torn_bytes = record_blocks(head->bytes) * DURABLE_BLOCK;
    return status == LOOM_NOT_FOUND ? LOOM_OK : status;
}

/* Writes the blocks of the next record again, as they are. After a sync that failed they may lie in the system's cache
 * alone, which takes them for synced: no later sync would write them, and records that follow depend on them. */
static loom_status write_again(const loom__journal *journal, loom__block_reader *reader, uint64_t blocks)
{
    loom__disk_file *file = journal->place.file;
    const uint64_t ring = journal->place.ring;
    for (uint64_t done = 0, count; done < blocks; done += count) {
        const uint64_t first = (journal->place.at + done) % ring, left = blocks - done;
        count = left < LOOM__READER_BLOCKS ? left : LOOM__READER_BLOCKS;
        count = count < ring - first ? count : ring - first;
        RETURN_IF_FAILED(loom__block_load(&journal->place, done, count, reader->buffer));
        RETURN_IF_FAILED(file->disk->ops->write(file, reader->buffer, count * DURABLE_BLOCK,
                                                (journal->place.first + first) * DURABLE_BLOCK));
    }
    return LOOM_OK;
}

loom_status loom__journal_read(loom__journal *journal, loom__block_reader *reader, loom__journal_visit *visit,
                               void *user, loom__journal_survey *survey)
{
    *survey = (loom__journal_survey){.damaged_at = UINT64_MAX};
    for (;;) { /* ends: each round uses blocks of the ring */
        loom__record_head head;
        int whole;
        RETURN_IF_FAILED(next_record(journal, reader, &head, &whole, &survey->torn_bytes));
        if (!whole)
            return find_damage(journal, reader, survey);
        if (visit != NULL) {
            loom__block_open(reader, &journal->place, head.stamp, record_blocks(head.bytes));
            RETURN_IF_FAILED(loom__block_get(reader, NULL, sizeof head));
            RETURN_IF_FAILED(visit(user, reader, head.bytes));
            RETURN_IF_FAILED(write_again(journal, reader, record_blocks(head.bytes)));
        }
        survey->records++;
        advance(journal, &head);
    }
}

static void note_head(void *user, const loom__record_head *head, uint64_t blocks_behind)
{
    (void)head, (void)blocks_behind;
    *(int *)user = 1;
}

loom_status loom__journal_has_records(loom__disk *disk, loom__block_reader *reader, int *has)
{
    loom__journal journal;
    uint64_t bytes;
    *has = 0;
    loom_status status = open_file(disk, 0, &journal);
    if (status != LOOM_OK)
        return status == LOOM_NOT_FOUND ? LOOM_OK : status;
    status = disk->ops->size(journal.place.file, &bytes);
    if (status == LOOM_OK && bytes >= 2 * DURABLE_BLOCK) {
        journal.place.ring = bytes / DURABLE_BLOCK - 1;
        status = visit_heads(&journal, reader, note_head, has);
    }
    loom__journal_close(&journal);
    return status;
}
