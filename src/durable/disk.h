/* What a durable map asks of the disk: a directory with a few files. The library has one implementation, for real
 * directories (disk_file.c). The tests have another, which loses, tears and reorders what was not synced.
 *
 * What the durable map relies on:
 *   - After `sync` of a file returned OK, its length and all that was written to it before survive a power failure.
 *   - After `sync_names` returned OK, all files that were created, and all renames before, survive.
 *   - A rename replaces the target as a whole.
 * Nothing else. Without a sync any part of a write may be on the disk or not, in pieces of 512 bytes, whatever the
 * order of the writes was.
 *
 * A failure is IO, BAD_FILE (a read beyond the end) or OUT_OF_MEMORY, and a sentence. */
#ifndef LOOM_DURABLE_DISK_H
#define LOOM_DURABLE_DISK_H

#include "loom/loom.h"

typedef struct loom__disk {
    const struct loom__disk_ops *ops;
    const char *path; /* for sentences */
} loom__disk;

typedef struct loom__disk_file {
    loom__disk *disk;
    const char *name;
} loom__disk_file;

typedef struct loom__disk_ops {
    /* Opens a file, for writing too unless the disk was opened for reading. `create`: makes an empty one if there is
     * none. NOT_FOUND: there is none. `name` must live as long as the file is open. */
    loom_status (*open)(loom__disk *disk, const char *name, int create, loom__disk_file **file);
    void (*close)(loom__disk_file *file);
    loom_status (*size)(loom__disk_file *file, uint64_t *bytes);
    loom_status (*read)(loom__disk_file *file, void *data, uint64_t bytes, uint64_t offset);
    loom_status (*write)(loom__disk_file *file, const void *data, uint64_t bytes, uint64_t offset);
    loom_status (*truncate)(loom__disk_file *file, uint64_t bytes);
    loom_status (*sync)(loom__disk_file *file);
    loom_status (*rename)(loom__disk *disk, const char *from, const char *to);
    loom_status (*sync_names)(loom__disk *disk);
    void (*destroy)(loom__disk *disk); /* all files are closed */
} loom__disk_ops;

/* ---- A directory (disk_file.c) ---- */

enum { LOOM__DIRECTORY_FILES = 3, LOOM__DIRECTORY_PATH = 4096 };

typedef struct loom__directory_file {
    loom__disk_file file;
    int descriptor; /* below 0: this place is free */
} loom__directory_file;

typedef struct loom__directory {
    loom__disk disk;
    const loom_allocator *allocator; /* `destroy` releases the struct by it; NULL: it does not */
    char path[LOOM__DIRECTORY_PATH];
    int descriptor;
    int lock; /* descriptor of the locked file; below 0: none */
    int reads_only;
    int64_t owner; /* the process that opened it */
    loom__directory_file files[LOOM__DIRECTORY_FILES];
} loom__directory;

/* Opens a directory and locks it against other openings, here and in other processes, until `destroy`. The struct is
 * the caller's, who may then give it to `destroy` by setting `allocator`.
 *   reads_only   changes nothing. A directory without a lock file is not locked
 *   otherwise    the directory and the lock file are made if they are missing
 * LOCKED: it is open elsewhere. */
loom_status loom__directory_open(loom__directory *directory, const char *path, int reads_only);

#endif
