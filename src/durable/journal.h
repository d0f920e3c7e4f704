/* The journal: a ring of blocks in a file whose blocks were all written before, so that a sync of a record changes no
 * metadata of the file system.
 *
 * Invariants
 *   J1  The records behind the snapshot lie one after the other from the block on that the snapshot names. Their epochs
 *       ascend by one. Each has the stamp of the one before.
 *   J2  A record never overwrites a block of another record behind the snapshot: the snapshot that replaces them is
 *       synced, and has its name, before the journal begins anew.
 *   J3  No two records have the same life and epoch. So a block of one never passes for a block of the other.
 * Persist point of a record: the first sync of the file that begins after loom__journal_append returned. */
#ifndef LOOM_DURABLE_JOURNAL_H
#define LOOM_DURABLE_JOURNAL_H

#include "durable/blocks.h"

typedef struct loom__journal {
    loom__block_place place; /* of the next record */
    uint64_t used;           /* blocks of the ring that hold records behind the snapshot */
    uint64_t life;           /* of this opening */
    uint64_t epoch;          /* of the newest record or snapshot */
    uint64_t stamp;          /* likewise */
    unsigned char *buffer;   /* [LOOM__JOURNAL_BUFFER] blocks; the caller's */
    uint64_t written;        /* bytes, since it was opened */
} loom__journal;

enum { LOOM__JOURNAL_BUFFER = 256 /* 1 MiB: what a batch of 60,000 pairs of 8 + 8 bytes needs, in one write */ };

/* Makes the file, or makes it anew, with so many blocks, all of them written and synced. The file's name is not. */
loom_status loom__journal_create(loom__disk *disk, uint64_t ring_blocks, loom__journal *journal);

/* Opens the file and checks its head. NOT_FOUND, without a sentence: there is none. BAD_FILE or FOREIGN_VERSION:
 * nothing is open. */
loom_status loom__journal_open(loom__disk *disk, loom__journal *journal);
void loom__journal_close(loom__journal *journal);

/* The journal begins anew behind a snapshot. */
void loom__journal_restart(loom__journal *journal, uint64_t epoch, uint64_t stamp);

/* Whether a record with so many bytes of payload fits. */
int loom__journal_fits(const loom__journal *journal, uint64_t bytes);

/* Writes a record that fits, with an epoch above that of the newest one. `synced`: commits up to this one are synced.
 * After a failure parts of the record may be in the file, and its epoch is spent: nothing more may be appended before
 * the journal was restarted behind a snapshot with a later epoch. */
loom_status loom__journal_append(loom__journal *journal, const void *payload, uint64_t bytes, uint64_t synced);

/* ---- Reading ---- */

typedef struct loom__journal_survey {
    uint64_t records;
    uint64_t torn_bytes; /* of a last record whose head is sound and whose payload is not */
    uint64_t damaged_at; /* in the file; UINT64_MAX: no damage */
    uint64_t damaged_bytes;
    uint64_t newest;       /* the highest epoch of a sound head in the ring; may be of a lost record */
    uint64_t lost_commits; /* from damaged_at on */
} loom__journal_survey;

/* What to do with a record that is whole. The reader stands at the beginning of its payload. */
typedef loom_status loom__journal_visit(void *user, loom__block_reader *reader, uint64_t bytes);

/* Goes over all records behind the snapshot, up to the first one that is not whole, and looks for damage behind them.
 * The journal, which was restarted as the snapshot says, stands behind the last record then. `visit` may be NULL.
 * Records that are visited are written again, so that the next sync surely reaches them. */
loom_status loom__journal_read(loom__journal *journal, loom__block_reader *reader, loom__journal_visit *visit,
                               void *user, loom__journal_survey *survey);

/* Whether the file has any sound record, whatever its head is. No file has none. */
loom_status loom__journal_has_records(loom__disk *disk, loom__block_reader *reader, int *has);

#endif
