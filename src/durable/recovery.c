/* Opening a durable map: what is on the disk, and how the table comes back.
 *
 *   1. The snapshot is read, and its pairs go to the table. Its head says where in the ring the records behind it
 *      begin.
 *   2. Records follow as long as each is whole, has the next epoch and the stamp of the one before. A record is checked
 *      from end to end before its first piece is done: it takes effect as a whole or not at all.
 *   3. The first record that is not whole ends it. If any head further on in the ring says that this record had been
 *      synced, it was damaged later: BAD_FILE. Otherwise it was cut short, and nobody was told that it was synced.
 *   4. Records are written again, and journal and directory are synced. After a killed process, or after a sync that
 *      failed, some of what was read may only be in the system's cache, and records that follow depend on it.
 *
 * A directory without a snapshot has no map: the first snapshot is written after the journal, when the map is made. A
 * journal without records may be left from a creation that was cut short, and is made anew. One with records is not:
 * somebody removed the snapshot. */
#define _GNU_SOURCE
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "durable/durable.h"

#include <string.h>
#include <unistd.h>

/* ---- what is on the disk ---- */

static loom_status check_form(const loom__disk *disk, const loom__snapshot_head *head, const loom__durable_form *form)
{
    RETURN_ERROR_IF(
        head->type != (uint32_t)form->type || head->key_bytes != form->key_bytes ||
            head->value_bytes != form->value_bytes,
        LOOM_INVALID_ARGUMENT,
        "%s holds a table of type %u with key_bytes = %u and value_bytes = %u, and the config asks for type "
        "%u with %u and %u; open it with the same ones",
        disk->path, head->type, head->key_bytes, head->value_bytes, (unsigned)form->type, form->key_bytes,
        form->value_bytes);
    return LOOM_OK;
}

/* Opens the journal behind the snapshot. */
static loom_status open_journal(loom__disk *disk, const loom__snapshot_head *head, loom__journal *journal)
{
    const loom_status status = loom__journal_open(disk, journal);
    RETURN_ERROR_IF(status == LOOM_NOT_FOUND, LOOM_BAD_FILE,
                    "%s has a snapshot and no journal: what was committed after the snapshot is lost", disk->path);
    RETURN_IF_FAILED(status);
    if (head->ring_at >= journal->place.ring) {
        loom__journal_close(journal);
        return loom__fail(LOOM_BAD_FILE, "%s: the journal is not the one that the snapshot was made with", disk->path);
    }
    journal->place.at = head->ring_at;
    loom__journal_restart(journal, head->epoch, head->stamp);
    return LOOM_OK;
}

static loom_status damage_of(const loom__disk *disk, const loom__journal *journal, const loom__journal_survey *survey)
{
    return loom__fail(LOOM_BAD_FILE,
                      "%s/journal is damaged from byte %llu on, for at most %llu bytes: commits %llu to %llu are lost, "
                      "which had been synced. loom_durable_config.accept_loss opens the map without them",
                      disk->path, (unsigned long long)survey->damaged_at, (unsigned long long)survey->damaged_bytes,
                      (unsigned long long)journal->epoch + 1, (unsigned long long)survey->newest);
}

/* ---- making and opening ---- */

/* The journal first: a directory with a snapshot is a map. */
static loom_status make_files(loom__durable *durable, const loom_durable_config *config, loom__block_reader *reader)
{
    loom__disk *disk = durable->disk;
    int replaced, has_records;
    RETURN_IF_FAILED(loom__journal_has_records(disk, reader, &has_records));
    RETURN_ERROR_IF(has_records, LOOM_BAD_FILE, "%s has a journal with records, but no snapshot: the map is not whole",
                    disk->path);
    RETURN_IF_FAILED(loom__journal_create(disk, config->journal_bytes / DURABLE_BLOCK, &durable->journal));
    RETURN_IF_FAILED(disk->ops->sync_names(disk)); /* no snapshot without a journal */
    durable->snapshot = (loom__snapshot_head){.type = durable->type,
                                              .key_bytes = durable->pairs.key_bytes,
                                              .value_bytes = durable->pairs.value_bytes,
                                              .life = durable->journal.life};
    RETURN_IF_FAILED(loom__snapshot_write(disk, NULL, &durable->pairs, durable->buffer, LOOM__JOURNAL_BUFFER,
                                          &durable->snapshot, &replaced));
    durable->snapshots_written = loom__snapshot_bytes(&durable->snapshot);
    loom__journal_restart(&durable->journal, 0, durable->snapshot.stamp);
    durable->counts.created = 1;
    return LOOM_OK;
}

static loom_status open_files(loom__durable *durable, const loom__durable_form *form, const loom_durable_config *config)
{
    loom__block_reader reader;
    const loom_status status = loom__snapshot_open(durable->disk, &durable->snapshot, &reader);
    if (status == LOOM_NOT_FOUND)
        return make_files(durable, config, &reader);
    RETURN_IF_FAILED(status);
    loom__snapshot_close(&reader);
    RETURN_IF_FAILED(check_form(durable->disk, &durable->snapshot, form));
    return open_journal(durable->disk, &durable->snapshot, &durable->journal);
}

static loom_status take_memory(loom__durable *durable, const loom__durable_form *form)
{
    RETURN_IF_FAILED(loom__pairs_create(durable->allocator, form->key_bytes, form->value_bytes, &durable->pairs));
    durable->buffer = loom__allocate(durable->allocator, LOOM__JOURNAL_BUFFER * DURABLE_BLOCK, LOOM_MEMORY_HOST, NULL);
    durable->journal.buffer = durable->buffer;
    return durable->buffer != NULL ? LOOM_OK : LOOM_OUT_OF_MEMORY;
}

loom_status loom__durable_open(const loom_allocator *allocator, loom__disk *disk, const loom__durable_form *form,
                               const loom_durable_config *config, loom__durable **made)
{
    loom__durable *durable = loom__allocate(allocator, sizeof *durable, LOOM_MEMORY_HOST, NULL);
    if (durable == NULL) {
        disk->ops->destroy(disk);
        return LOOM_OUT_OF_MEMORY;
    }
    *durable = (loom__durable){.disk = disk,
                               .allocator = allocator,
                               .type = form->type,
                               .commit_by_itself = config->commit_by_itself,
                               .owner = getpid(),
                               .effects.allocator = allocator,
                               .journal.life = loom__random_number()};
    pthread_mutex_init(&durable->lock, NULL);
    pthread_cond_init(&durable->moved, NULL);
    loom_status status = take_memory(durable, form);
    if (status == LOOM_OK)
        status = open_files(durable, form, config);
    if (status != LOOM_OK) {
        loom__durable_close(durable);
        return status;
    }
    durable->effects.most = durable->journal.place.ring * DURABLE_CONTENTS - sizeof(loom__record_head);
    *made = durable;
    return LOOM_OK;
}

/* ---- recovery ---- */

static loom_status restore_snapshot(loom__durable *durable, const loom__replay_target *target)
{
    loom__snapshot_head head;
    loom__block_reader reader;
    uint64_t put = 0;
    loom_status status = loom__snapshot_open(durable->disk, &head, &reader);
    RETURN_ERROR_IF(status == LOOM_NOT_FOUND, LOOM_IO, "%s/snapshot was there and is gone", durable->disk->path);
    RETURN_IF_FAILED(status);
    status = loom__effects_replay(&reader, head.bytes, &durable->pairs, target, &put);
    if (status == LOOM_NOT_FOUND)
        status = loom__snapshot_damaged(&reader);
    else if (status == LOOM_OK && put != head.pairs)
        status = loom__fail(LOOM_BAD_FILE, "%s/snapshot holds %llu pairs, and its head says %llu", durable->disk->path,
                            (unsigned long long)put, (unsigned long long)head.pairs);
    loom__snapshot_close(&reader);
    durable->counts.recovered_pairs = put;
    return status;
}

typedef struct replay {
    loom__durable *durable;
    const loom__replay_target *target;
} replay;

/* The record's checksums are right: what does not read as pieces was not written by this library. */
static loom_status replay_record(void *user, loom__block_reader *reader, uint64_t bytes)
{
    const replay *all = user;
    uint64_t put = 0;
    const loom_status status = loom__effects_replay(reader, bytes, &all->durable->pairs, all->target, &put);
    RETURN_ERROR_IF(status == LOOM_NOT_FOUND || status == LOOM_INVALID_ARGUMENT, LOOM_BAD_FILE,
                    "%s/journal: the record of commit %llu has right checksums and contents that no record has",
                    all->durable->disk->path, (unsigned long long)all->durable->journal.epoch + 1);
    return status;
}

static loom_status restore_journal(loom__durable *durable, const loom__replay_target *target, int accept_loss)
{
    loom__block_reader reader;
    loom__journal_survey survey;
    replay all = {durable, target};
    RETURN_IF_FAILED(loom__journal_read(&durable->journal, &reader, replay_record, &all, &survey));
    durable->counts.recovered_records = survey.records;
    durable->counts.torn_bytes = survey.torn_bytes;
    if (survey.damaged_at == UINT64_MAX)
        return LOOM_OK;
    if (!accept_loss)
        return damage_of(durable->disk, &durable->journal, &survey);
    durable->counts.lost_commits = survey.lost_commits;
    durable->journal.epoch = survey.newest; /* later commits have later epochs than all that is lost */
    return LOOM_OK;
}

loom_status loom__durable_recover(loom__durable *durable, const loom__replay_target *target, int accept_loss)
{
    const loom__disk_ops *ops = durable->disk->ops;
    if (!durable->counts.created) {
        RETURN_IF_FAILED(restore_snapshot(durable, target));
        RETURN_IF_FAILED(restore_journal(durable, target, accept_loss));
        RETURN_IF_FAILED(ops->sync(durable->journal.place.file));
        RETURN_IF_FAILED(ops->sync_names(durable->disk));
    }
    durable->committed = durable->synced = durable->journal.epoch;
    loom__durable_plan_checkpoint(durable);
    return LOOM_OK;
}

/* ---- checking ---- */

static loom_status survey_journal(loom__disk *disk, const loom__snapshot_head *head, loom__block_reader *reader,
                                  loom_durable_report *report)
{
    loom__journal journal;
    loom__journal_survey survey;
    RETURN_IF_FAILED(open_journal(disk, head, &journal));
    loom_status status = loom__journal_read(&journal, reader, NULL, NULL, &survey);
    if (status == LOOM_OK) {
        report->epoch = journal.epoch;
        report->journal_bytes = journal.place.ring * DURABLE_BLOCK;
        report->journal_used = journal.used * DURABLE_BLOCK;
        report->records = survey.records;
        report->torn_bytes = survey.torn_bytes;
        if (survey.damaged_at != UINT64_MAX) {
            report->damaged = 1;
            report->damaged_at = survey.damaged_at;
            report->damaged_bytes = survey.damaged_bytes;
            report->lost_commits = survey.lost_commits;
            status = damage_of(disk, &journal, &survey);
        }
    }
    loom__journal_close(&journal);
    return status;
}

loom_status loom__durable_survey(loom__disk *disk, loom_durable_report *report)
{
    loom__block_reader reader;
    loom__snapshot_head head;
    loom_status status = loom__snapshot_open(disk, &head, &reader);
    RETURN_ERROR_IF(status == LOOM_NOT_FOUND, LOOM_BAD_FILE, "%s has no durable map: it has no file `snapshot`",
                    disk->path);
    RETURN_IF_FAILED(status);
    report->type = (loom_type)head.type;
    report->key_bytes = head.key_bytes;
    report->value_bytes = head.value_bytes;
    report->epoch = report->snapshot = head.epoch;
    report->snapshot_bytes = loom__snapshot_bytes(&head);
    report->snapshot_pairs = head.pairs;
    status = loom__block_get(&reader, NULL, head.bytes);
    if (status == LOOM_NOT_FOUND) {
        report->damaged = 1;
        status = loom__snapshot_damaged(&reader);
    }
    loom__snapshot_close(&reader);
    RETURN_IF_FAILED(status);
    return survey_journal(disk, &head, &reader, report);
}
