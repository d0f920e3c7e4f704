/* Files that replace others: written under a temporary name, synced, then renamed. Failures are LOOM_IO and a sentence
 * with the system's reason. */
#ifndef LOOM_CORE_FILE_H
#define LOOM_CORE_FILE_H

#include "loom/loom.h"

enum { LOOM__PATH_ROOM = 4096 };

typedef struct loom__new_file {
    int descriptor;
    int directory;                   /* open, so that it can be synced whatever happens to its permissions */
    char path[LOOM__PATH_ROOM];      /* where the file is to be */
    char temporary[LOOM__PATH_ROOM]; /* where it is being written, in the same directory */
} loom__new_file;

/* A file that is replaced passes its permissions on. Removes temporary files in the directory that killed saves have left. */
loom_status loom__file_begin(loom__new_file *file, const char *path);
loom_status loom__file_write(loom__new_file *file, const void *data, uint64_t bytes, uint64_t offset);
/* Syncs, renames, syncs the directory. If it fails the temporary file is gone and the old one untouched, except when the
 * directory cannot be synced: then the new file is in place but may not survive a power failure. */
loom_status loom__file_commit(loom__new_file *file);
void loom__file_abandon(loom__new_file *file);

loom_status loom__file_open(const char *path, int *descriptor, uint64_t *bytes);
/* BAD_FILE if it ends before. */
loom_status loom__file_read(int descriptor, const char *path, void *data, uint64_t bytes, uint64_t offset);

#endif
