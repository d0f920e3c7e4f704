/* Snapshots: all pairs of a map after a commit, as PUT pieces. A snapshot replaces the one before as a whole.
 *
 * Persist point: the sync of the directory's names, behind the rename, behind the sync of the file. The journal is
 * overwritten only afterwards (J2). If a step from the rename on fails, nobody knows which of both snapshots a power
 * failure leaves, and each expects other records to follow: nothing may be appended to the journal then. */
#ifndef LOOM_DURABLE_SNAPSHOT_H
#define LOOM_DURABLE_SNAPSHOT_H

#include "durable/effects.h"

/* Fills in what only the caller knows: type, widths, life, epoch, pairs, ring_at. `table` may be NULL if there are no
 * pairs. Sets head->bytes and head->stamp. `buffer`: [room] blocks. *replaced: 0 if it failed before the old snapshot
 * was touched. */
loom_status loom__snapshot_write(loom__disk *disk, loom__table *table, loom__pairs *pairs, unsigned char *buffer,
                                 uint64_t room, loom__snapshot_head *head, int *replaced);

/* Opens the snapshot and reads its head. NOT_FOUND, without a sentence: there is none. BAD_FILE, FOREIGN_VERSION:
 * nothing is open. The pieces of the payload are read by `reader`. */
loom_status loom__snapshot_open(loom__disk *disk, loom__snapshot_head *head, loom__block_reader *reader);
void loom__snapshot_close(loom__block_reader *reader);

/* Bytes of the file. */
uint64_t loom__snapshot_bytes(const loom__snapshot_head *head);

/* BAD_FILE and a sentence: a block of the payload, at which the reader stands, is damaged. */
loom_status loom__snapshot_damaged(const loom__block_reader *reader);

#endif
