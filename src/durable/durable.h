/* The durable side of a map: its journal, its snapshot, and what waits for a commit. The map itself is any map; `api`
 * calls these functions around what it does to the table.
 *
 * Locks. Functions marked (gate) are called inside the map's gate, as a writer: they alone touch the journal, the
 * effects and the buffers. `lock` guards the state that waiting threads share. Syncs happen outside of the gate: while
 * one thread syncs, others write further records, and the next sync takes all of them (group commit).
 *
 * Order. A batch goes to the table, then its record to the journal, before another writer enters. So what survives is
 * a prefix of the commits. */
#ifndef LOOM_DURABLE_DURABLE_H
#define LOOM_DURABLE_DURABLE_H

#include "durable/journal.h"
#include "durable/snapshot.h"

#include <pthread.h>
#include <sys/types.h>

typedef struct loom__durable {
    loom__disk *disk; /* owned */
    const loom_allocator *allocator;
    loom_type type;
    uint32_t commit_by_itself;
    pid_t owner; /* the process that opened it */

    /* (gate) */
    loom__journal journal;
    loom__effects effects;
    loom__pairs pairs;
    unsigned char *buffer; /* LOOM__JOURNAL_BUFFER blocks: of what is written */
    loom__snapshot_head snapshot;
    uint64_t checkpoint_at; /* blocks of the journal at which a checkpoint is due; UINT64_MAX: the last one failed */
    uint64_t snapshots_written; /* bytes */

    pthread_mutex_t lock;
    pthread_cond_t moved;
    /* Guarded by `lock`. */
    uint64_t committed, synced;
    uint64_t waiting; /* threads between loom__durable_hold and the end of loom__durable_wait */
    int syncing;      /* a thread syncs the journal, or makes a checkpoint */
    int failed;       /* a commit or a sync failed: no writes before a checkpoint succeeded */
    char why[256];    /* the sentence of that failure */
    loom_durability counts;
} loom__durable;

/* ---- Opening (recovery.c) ---- */

typedef struct loom__durable_form {
    loom_type type;
    uint32_t key_bytes, value_bytes;
} loom__durable_form;

/* Opens what is on the disk, or makes an empty map there. Takes the disk, after a failure too. The config is complete.
 * Then snapshot.pairs tells how large a table must be. */
loom_status loom__durable_open(const loom_allocator *allocator, loom__disk *disk, const loom__durable_form *form,
                               const loom_durable_config *config, loom__durable **made);

/* Brings the target, which is empty, to the state of the newest commit that survived. `accept_loss`: damage in the
 * journal is no failure; counts.lost_commits is above 0 then, and a checkpoint must come before the next commit. */
loom_status loom__durable_recover(loom__durable *durable, const loom__replay_target *target, int accept_loss);

/* Reads all of the disk and fills in the report; changes nothing. */
loom_status loom__durable_survey(loom__disk *disk, loom_durable_report *report);

/* Waits for threads in loom__durable_wait, then closes all. Notes in the journal that it was closed. */
void loom__durable_close(loom__durable *durable);

/* ---- Commits (durable.c) ---- */

/* OK if the map may be written to. (gate) */
loom_status loom__durable_check_writes(loom__durable *durable);

/* Commits the effects, if there are any, by a record or by a checkpoint. *epoch: the newest commit. (gate) */
loom_status loom__durable_commit(loom__durable *durable, loom__table *table, uint64_t *epoch);

/* Commits the effects and writes all pairs to a new snapshot. (gate) */
loom_status loom__durable_checkpoint(loom__durable *durable, loom__table *table);

/* Sets when the next checkpoint is due. (gate) */
void loom__durable_plan_checkpoint(loom__durable *durable);

/* Two halves of a wait for a sync. The first is called inside the gate, so that closing waits for the second. */
void loom__durable_hold(loom__durable *durable);
loom_status loom__durable_wait(loom__durable *durable, uint64_t epoch);

/* (gate, as a reader at least) */
void loom__durable_tell(loom__durable *durable, loom_durability *told);

#endif
