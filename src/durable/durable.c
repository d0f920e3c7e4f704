#define _GNU_SOURCE
#include "durable/durable.h"
#include "core/error.h"
#include "core/memory.h"

#include <stdio.h>
#include <unistd.h>

/* ---- what may be done ---- */

/* After a fork both processes have the files open, and neither would know of the other's records. */
static loom_status check_owner(const loom__durable *durable)
{
    RETURN_ERROR_IF(getpid() != durable->owner, LOOM_LOCKED,
                    "the durable map %s was opened by another process, before a fork; only that process writes to it",
                    durable->disk->path);
    return LOOM_OK;
}

/* The caller has the lock. */
static loom_status check_failed(const loom__durable *durable)
{
    RETURN_ERROR_IF(durable->failed, LOOM_IO,
                    "the durable map refuses writes until loom_map_checkpoint succeeds, since a commit failed: %s",
                    durable->why);
    return LOOM_OK;
}

loom_status loom__durable_check_writes(loom__durable *durable)
{
    RETURN_IF_FAILED(check_owner(durable));
    pthread_mutex_lock(&durable->lock);
    const loom_status status = check_failed(durable);
    pthread_mutex_unlock(&durable->lock);
    return status;
}

/* Keeps the sentence of this thread's failure, and refuses writes from now on. The caller has the lock. */
static void note_failure(loom__durable *durable)
{
    if (!durable->failed)
        snprintf(durable->why, sizeof durable->why, "%s", loom_last_error());
    durable->failed = 1;
    pthread_cond_broadcast(&durable->moved);
}

/* ---- syncing ---- */

/* Syncs the journal for all commits so far. The caller has the lock, and nobody else syncs. */
static void sync_journal(loom__durable *durable)
{
    const uint64_t target = durable->committed;
    loom__disk_file *file = durable->journal.place.file;
    durable->syncing = 1;
    pthread_mutex_unlock(&durable->lock);
    const loom_status status = durable->disk->ops->sync(file);
    pthread_mutex_lock(&durable->lock);
    durable->syncing = 0;
    durable->counts.syncs++;
    if (status == LOOM_OK && target > durable->synced)
        durable->synced = target;
    if (status != LOOM_OK) /* what was written since the last sync may be gone, and no later sync tells */
        note_failure(durable);
    pthread_cond_broadcast(&durable->moved);
}

void loom__durable_hold(loom__durable *durable)
{
    pthread_mutex_lock(&durable->lock);
    durable->waiting++;
    pthread_mutex_unlock(&durable->lock);
}

/* Ends: a sync, or a checkpoint, that begins after the record was written reaches it or fails. */
loom_status loom__durable_wait(loom__durable *durable, uint64_t epoch)
{
    loom_status status = check_owner(durable);
    pthread_mutex_lock(&durable->lock);
    if (epoch == UINT64_MAX)
        epoch = durable->committed;
    if (status == LOOM_OK && epoch > durable->committed)
        status = loom__fail(LOOM_INVALID_ARGUMENT, "epoch = %llu: the newest commit is %llu", (unsigned long long)epoch,
                            (unsigned long long)durable->committed);
    while (status == LOOM_OK && durable->synced < epoch) {
        status = check_failed(durable);
        if (status == LOOM_OK && durable->syncing)
            pthread_cond_wait(&durable->moved, &durable->lock);
        else if (status == LOOM_OK)
            sync_journal(durable);
    }
    durable->waiting--;
    pthread_cond_broadcast(&durable->moved);
    pthread_mutex_unlock(&durable->lock);
    return status;
}

/* ---- checkpoints ---- */

/* When the journal has three times the bytes of all pairs, but not before a quarter of it is used: recovery reads at
 * most four times as much as it must, and a small map is not written again and again. */
void loom__durable_plan_checkpoint(loom__durable *durable)
{
    const uint64_t ring = durable->journal.place.ring,
                   thrice = 3 * loom__snapshot_bytes(&durable->snapshot) / DURABLE_BLOCK;
    durable->checkpoint_at = thrice > ring / 4 ? thrice : ring / 4;
}

/* Writes the snapshot of this epoch. *replaced: as loom__snapshot_write tells it. */
static loom_status write_snapshot(loom__durable *durable, loom__table *table, uint64_t epoch, int *replaced)
{
    loom__snapshot_head head = {.type = durable->type,
                                .key_bytes = durable->pairs.key_bytes,
                                .value_bytes = durable->pairs.value_bytes,
                                .life = durable->journal.life,
                                .epoch = epoch,
                                .ring_at = durable->journal.place.at};
    *replaced = 0;
    if (table != NULL)
        RETURN_IF_FAILED(loom__map_table_size(table, &head.pairs, NULL));
    RETURN_IF_FAILED(loom__snapshot_write(durable->disk, table, &durable->pairs, durable->buffer, LOOM__JOURNAL_BUFFER,
                                          &head, replaced));
    durable->snapshot = head;
    durable->snapshots_written += loom__snapshot_bytes(&head);
    loom__journal_restart(&durable->journal, epoch, head.stamp);
    loom__effects_reset(&durable->effects);
    loom__durable_plan_checkpoint(durable);
    return LOOM_OK;
}

/* No sync of the journal runs meanwhile: one that fails must not be taken for a failure after the checkpoint. `needed`:
 * the commit depends on it. */
static loom_status checkpoint(loom__durable *durable, loom__table *table, int needed)
{
    int replaced = 0;
    pthread_mutex_lock(&durable->lock);
    while (durable->syncing)
        pthread_cond_wait(&durable->moved, &durable->lock);
    durable->syncing = 1;
    const int changed = durable->failed || !loom__effects_are_none(&durable->effects);
    pthread_mutex_unlock(&durable->lock);
    const uint64_t epoch = durable->journal.epoch + (changed ? 1 : 0);
    const loom_status status = write_snapshot(durable, table, epoch, &replaced);
    pthread_mutex_lock(&durable->lock);
    durable->syncing = 0;
    if (status == LOOM_OK) {
        durable->counts.commits += (uint64_t)changed;
        durable->counts.checkpoints++;
        durable->committed = durable->synced = epoch;
        durable->failed = 0;
    } else if (needed || replaced) {
        note_failure(durable);
    }
    pthread_cond_broadcast(&durable->moved);
    pthread_mutex_unlock(&durable->lock);
    if (status != LOOM_OK)
        durable->checkpoint_at = UINT64_MAX;
    return status;
}

loom_status loom__durable_checkpoint(loom__durable *durable, loom__table *table)
{
    RETURN_IF_FAILED(check_owner(durable));
    return checkpoint(durable, table, 0);
}

/* ---- commits ---- */

/* Writes the effects as a record. */
static loom_status append(loom__durable *durable)
{
    pthread_mutex_lock(&durable->lock);
    const uint64_t synced = durable->synced;
    pthread_mutex_unlock(&durable->lock);
    const loom_status status =
        loom__journal_append(&durable->journal, durable->effects.bytes, durable->effects.used, synced);
    loom__effects_reset(&durable->effects);
    pthread_mutex_lock(&durable->lock);
    if (status == LOOM_OK) {
        durable->committed = durable->journal.epoch;
        durable->counts.commits++;
    } else {
        note_failure(durable);
    }
    pthread_mutex_unlock(&durable->lock);
    return status;
}

static loom_status commit_effects(loom__durable *durable, loom__table *table)
{
    RETURN_IF_FAILED(loom__durable_check_writes(durable));
    if (loom__effects_are_none(&durable->effects))
        return LOOM_OK;
    if (durable->effects.incomplete || !loom__journal_fits(&durable->journal, durable->effects.used))
        return checkpoint(durable, table, 1);
    RETURN_IF_FAILED(append(durable));
    if (durable->journal.used >= durable->checkpoint_at)
        (void)checkpoint(durable, table, 0); /* the commit is in the journal: a failure loses nothing */
    return LOOM_OK;
}

loom_status loom__durable_commit(loom__durable *durable, loom__table *table, uint64_t *epoch)
{
    RETURN_IF_FAILED(check_owner(durable));
    const loom_status status = commit_effects(durable, table);
    pthread_mutex_lock(&durable->lock);
    *epoch = durable->committed;
    pthread_mutex_unlock(&durable->lock);
    return status;
}

/* ---- closing, telling ---- */

/* An empty record behind the others says that they were synced. Without it the damage of the last one could not be told
 * from a write that a power failure cut short. It is no commit: a failure loses nothing. */
static void note_end(loom__durable *durable)
{
    const uint64_t end = durable->committed;
    if (getpid() != durable->owner || durable->failed || durable->counts.commits == 0 ||
        end == durable->snapshot.epoch || !loom__journal_fits(&durable->journal, 0))
        return;
    if (end > durable->synced && durable->disk->ops->sync(durable->journal.place.file) != LOOM_OK)
        return;
    if (loom__journal_append(&durable->journal, NULL, 0, end) == LOOM_OK)
        (void)durable->disk->ops->sync(durable->journal.place.file);
}

void loom__durable_close(loom__durable *durable)
{
    /* In the child of a fork the threads that wait, or have the lock, are not there: it would wait for ever. */
    const int is_owner = getpid() == durable->owner;
    if (is_owner) {
        pthread_mutex_lock(&durable->lock);
        while (durable->waiting > 0)
            pthread_cond_wait(&durable->moved, &durable->lock);
        pthread_mutex_unlock(&durable->lock);
    }
    if (durable->journal.place.file != NULL) {
        note_end(durable);
        loom__journal_close(&durable->journal);
    }
    if (is_owner) {
        pthread_cond_destroy(&durable->moved);
        pthread_mutex_destroy(&durable->lock);
    }
    const loom_allocator *allocator = durable->allocator;
    loom__effects_destroy(&durable->effects);
    loom__pairs_destroy(allocator, &durable->pairs);
    loom__release(allocator, durable->buffer, LOOM__JOURNAL_BUFFER * DURABLE_BLOCK, LOOM_MEMORY_HOST, NULL);
    durable->disk->ops->destroy(durable->disk);
    loom__release(allocator, durable, sizeof *durable, LOOM_MEMORY_HOST, NULL);
}

void loom__durable_tell(loom__durable *durable, loom_durability *told)
{
    pthread_mutex_lock(&durable->lock);
    *told = durable->counts;
    told->committed = durable->committed;
    told->synced = durable->synced;
    told->refuses = durable->failed != 0;
    pthread_mutex_unlock(&durable->lock);
    told->snapshot = durable->snapshot.epoch;
    told->snapshot_bytes = loom__snapshot_bytes(&durable->snapshot);
    told->journal_bytes = durable->journal.place.ring * DURABLE_BLOCK;
    told->journal_used = durable->journal.used * DURABLE_BLOCK;
    told->waiting_bytes = durable->effects.used;
    told->written_bytes = durable->journal.written + durable->snapshots_written;
}
