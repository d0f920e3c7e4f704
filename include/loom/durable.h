/* Durable maps: maps whose contents survive a killed process and a power failure.
 *
 * A durable map is a loom_map. It lives in memory, with any engine, and all calls of map.h work as
 * they do on other maps. Beside it, in a directory of its own, lie a journal and a snapshot. What a
 * writing call changed goes to the journal as a record: each key of the batch with its final value,
 * or the fact that the key is absent. A commit writes one record, and a sync brings it to the disk.
 * When the journal has grown long, a checkpoint writes all pairs to a new snapshot, and the journal
 * begins anew. loom_map_open reads the snapshot and then the records behind it.
 *
 * GUARANTEES
 *   - What survives is the map after a whole number of commits. It is never a part of a batch.
 *   - Every synced commit survives if the process is killed.
 *   - Every synced commit survives a power failure, or a crash of the system, if the disk honours
 *     flushes: what fdatasync returned for is there afterwards.
 *   - With commit_by_itself = 1, the default, a writing call has committed and synced its batch
 *     when it returns LOOM_OK or LOOM_FULL.
 *   - Damage is found by checksums. A record that is damaged while later records prove that it had
 *     been synced is reported (BAD_FILE), never skipped in silence. What the last sync of a
 *     killed process took has no such proof: if it is damaged later, it looks like a write that was
 *     cut short, and recovery drops it.
 *   - One process at a time has a durable map open. Another one gets LOCKED.
 *   - The journal is never overwritten before its contents are in a snapshot that is synced.
 *   docs/durability.md has the same as a table, and tells how it is tested.
 *
 * COSTS
 *   - A commit writes its keys and values, 16 bytes for each 65,536 of them, and a header, rounded
 *     up to blocks of 4 KiB; then one fdatasync. Threads that write at the same time share a sync.
 *   - After each batch its keys are looked up once, and copied twice in host memory.
 *   - The directory takes journal_bytes and one snapshot; during a checkpoint two of them.
 *   - A checkpoint holds back all writers, and readers, while it writes the map to the disk.
 *
 * CAVEATS
 *   - Not yet here: multimaps, byte strings, the cuda machine (each is UNSUPPORTED), other media
 *     than files, snapshots while work goes on.
 *   - A reader may see a batch before it is synced.
 *   - loom_map_destroy commits nothing. With commit_by_itself = 0, what was written since the last
 *     commit is gone.
 *   - If a commit fails, the map in memory has the batch and the disk has not. The map then refuses
 *     writes (IO) until loom_map_checkpoint succeeds. Lookups go on.
 *   - A clone, and a map that is loaded from a file, is not durable.
 *   - After fork() the child must not write to the map: it gets LOCKED.
 *   - A call's `result` must not overlap its keys or operations: they are read again after it was
 *     written.
 *
 * EXAMPLE
 *   loom_map_config config = LOOM_MAP_CONFIG_INIT;
 *   config.key_bytes = config.value_bytes = 8;
 *   config.type = LOOM_TYPE_COUNTER;
 *   if (loom_map_open(context, "visits", &config, NULL, &map))       // creates it, or reads it
 *       fprintf(stderr, "%s\n", loom_last_error());
 *   loom_map_count(map, visitors, n, NULL, NULL, NULL);              // on the disk when it returns
 *   loom_map_destroy(map);
 */
#ifndef LOOM_LOOM_DURABLE_H
#define LOOM_LOOM_DURABLE_H

#include <loom/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What holds journal and snapshot. */
typedef enum loom_medium {
    LOOM_MEDIUM_DEFAULT = 0, /* files */
    LOOM_MEDIUM_FILE = 1     /* two files in a directory, on any file system with flock */
} loom_medium;

typedef struct loom_durable_config {
    size_t struct_size; /* set by LOOM_DURABLE_CONFIG_INIT */
    loom_medium medium; /* LOOM_MEDIUM_DEFAULT */
    /* 1: each writing call commits its batch, and syncs it before it returns. 0: batches wait in
     * host memory for loom_map_commit, which makes all of them one commit. */
    uint32_t commit_by_itself;
    /* Bytes of the journal, a multiple of 4096, from 65536 to 2^40; 0: 64 MiB. A journal that
     * exists keeps its size. A batch that does not fit is written as a checkpoint. */
    uint64_t journal_bytes;
    /* 1: if the journal is damaged, open the map with what lies before the damage. The later
     * records are lost then: a checkpoint takes their place at once. 0: loom_map_open returns
     * BAD_FILE. */
    uint32_t accept_loss;
    uint32_t reserved; /* 0 */
} loom_durable_config;

#define LOOM_DURABLE_CONFIG_INIT                                     \
    {                                                                \
        sizeof(loom_durable_config), LOOM_MEDIUM_DEFAULT, 1, 0, 0, 0 \
    }

/* Opens the durable map in the directory `path`. Creates the directory, if it is missing, and an
 * empty map, if the directory has none.
 *   config   as for loom_map_create. For a map that exists, type, key_bytes and value_bytes must be
 *            the same; all other fields may differ from those of the last time. The table gets a
 *            capacity for at least the keys of the snapshot. Recovery may exceed capacity and
 *            memory_limit
 *   durable  optional: LOOM_DURABLE_CONFIG_INIT
 *   map      set only on success; loom_map_destroy closes it
 *   - Memory   as loom_map_create, and as the insertions that recovery makes; about 3 MiB of host
 *              memory, and for each batch its net effects
 *   - Runs     synchronous
 *   - Status   as loom_map_create; LOCKED: it is open, here or in another process; IO: the sentence
 *              has the system's reason, for example a directory that must not be written;
 *              BAD_FILE: damage, and the sentence tells which bytes and what is lost;
 *              FOREIGN_VERSION; INVALID_ARGUMENT: also if the map there has another type or other
 *              widths; UNSUPPORTED: a multimap, byte strings, or the cuda machine */
LOOM_API loom_status loom_map_open(loom_context *context, const char *path, const loom_map_config *config,
                                   const loom_durable_config *durable, loom_map **map);

/* Commits what was written since the last commit. It survives as a whole or not at all.
 *   epoch    optional: the number of the newest commit; 0: there was none. If nothing was written,
 *            the call only tells the number. Numbers ascend, not always by one: closing the map and
 *            commits that fail may take one
 *   - The commit is not yet synced: see loom_map_sync.
 *   - With commit_by_itself = 1 there is never anything to commit.
 *   - Memory   as loom_map_checkpoint, if the journal is full
 *   - Runs     synchronous; alone
 *   - Status   IO: the commit failed, or an earlier one did: see CAVEATS; LOCKED: after fork();
 *              UNSUPPORTED: the map is not durable */
LOOM_API loom_status loom_map_commit(loom_map *map, uint64_t *epoch);

/* Waits until all commits up to `epoch` are on the disk. Threads that wait share one fdatasync.
 *   epoch    as loom_map_commit told it; UINT64_MAX: all commits so far
 *   - Memory   allocates nothing
 *   - Runs     synchronous; other calls may run meanwhile
 *   - Status   IO: see CAVEATS; INVALID_ARGUMENT: there was no such commit; LOCKED: after fork();
 *              UNSUPPORTED: the map is not durable */
LOOM_API loom_status loom_map_sync(loom_map *map, uint64_t epoch);

/* Commits what was written, and writes all pairs to a new snapshot, which replaces the old one as a
 * whole. Everything is synced afterwards, and the journal is empty. After a failed commit this is
 * the call that makes the map take writes again.
 *   - The library makes checkpoints by itself: when the journal has three times the bytes of all
 *     pairs and at least a quarter of its size, and when a commit does not fit.
 *   - Memory   allocates nothing
 *   - Runs     synchronous; alone
 *   - Status   IO: what was synced before is still on the disk; the map may refuse writes
 *              (loom_durability.refuses). LOCKED: after fork(); UNSUPPORTED: the map is not durable */
LOOM_API loom_status loom_map_checkpoint(loom_map *map);

typedef struct loom_durability {
    size_t struct_size;      /* set by LOOM_DURABILITY_INIT before the call */
    uint64_t committed;      /* the newest commit; 0: none */
    uint64_t synced;         /* all commits up to this one survive a power failure */
    uint64_t snapshot;       /* the commit of which the snapshot was made */
    uint64_t snapshot_bytes; /* of its file */
    uint64_t journal_bytes;  /* room of the journal */
    uint64_t journal_used;   /* records behind the snapshot */
    uint64_t waiting_bytes;  /* net effects that were not committed yet, in host memory */
    uint64_t written_bytes;  /* to both files since the map was opened */
    uint64_t commits;        /* since then, checkpoints that took the place of a record included */
    uint64_t syncs;          /* of the journal, since then */
    uint64_t checkpoints;    /* since then */
    uint32_t refuses;        /* 1: a commit failed, and the map refuses writes */
    uint32_t created;        /* 1: opening found no map and made an empty one */
    /* What opening found. */
    uint64_t recovered_pairs;   /* in the snapshot */
    uint64_t recovered_records; /* in the journal */
    uint64_t torn_bytes;        /* of a record at the end that was never written whole; 0: none seen */
    uint64_t lost_commits;      /* with accept_loss: those that the damage took */
} loom_durability;

#define LOOM_DURABILITY_INIT                                                       \
    {                                                                              \
        sizeof(loom_durability), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Reports on the map's journal and snapshot. Allocates nothing; reader.
 *   - Status   UNSUPPORTED: the map is not durable */
LOOM_API loom_status loom_map_durability(loom_map *map, loom_durability *durability);

typedef struct loom_durable_report {
    size_t struct_size; /* set by LOOM_DURABLE_REPORT_INIT before the call */
    loom_type type;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t damaged; /* 1: recovery would lose commits that had been synced */
    uint64_t epoch;   /* the newest commit that recovery would restore */
    uint64_t snapshot;
    uint64_t snapshot_bytes;
    uint64_t snapshot_pairs;
    uint64_t journal_bytes;
    uint64_t journal_used;
    uint64_t records;
    uint64_t torn_bytes;
    uint64_t damaged_at;    /* first damaged byte of the journal's file */
    uint64_t damaged_bytes; /* up to the next sound record */
    uint64_t lost_commits;
} loom_durable_report;

#define LOOM_DURABLE_REPORT_INIT                                                                 \
    {                                                                                            \
        sizeof(loom_durable_report), LOOM_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Reads the durable map in a directory from end to end and checks every checksum. Changes nothing
 * there, and works in a directory that must not be written.
 *   report   filled in as far as the files could be read, after BAD_FILE, too
 *   - Memory   allocates nothing; some 70 KiB of stack
 *   - Runs     synchronous
 *   - Status   OK: sound; a torn last record is no damage. BAD_FILE: damage, or no durable map, and
 *              the sentence tells which; LOCKED: a process has it open; IO; FOREIGN_VERSION */
LOOM_API loom_status loom_durable_check(const char *path, loom_durable_report *report);

#ifdef __cplusplus
}
#endif
#endif
