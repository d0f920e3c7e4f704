/* Files that replace others: written under a temporary name, synced, then renamed. Failures return LOOM_IO and a
 * sentence with the system's reason. */
#ifndef LOOM_CORE_FILE_H
#define LOOM_CORE_FILE_H

#include "loom/loom.h"

enum { LOOM__PATH_ROOM = 4096 };

typedef struct loom__new_file {
    int descriptor;
    int directory;                   /* kept open, so that it can be synced even if its permissions change */
    char path[LOOM__PATH_ROOM];      /* the final path */
    char temporary[LOOM__PATH_ROOM]; /* the path while the file is written, in the same directory */
} loom__new_file;

/* Creates the temporary file. If a file is replaced, the new file gets its permissions. Also removes temporary files
 * that killed saves left in the directory. */
loom_status loom__file_begin(loom__new_file *file, const char *path);
loom_status loom__file_write(loom__new_file *file, const void *data, uint64_t bytes, uint64_t offset);
/* Syncs the file, renames it, syncs the directory. After a failure the temporary file is gone and the old file
 * untouched. One exception: if the directory cannot be synced, the new file is in place but may not survive a power
 * failure. */
loom_status loom__file_commit(loom__new_file *file);
void loom__file_abandon(loom__new_file *file);

/* IO and a sentence with the reason that errno has. */
loom_status loom__file_error(const char *doing, const char *path);

/* Writes all bytes. A full disk and the limit of file sizes are errors, never signals. */
loom_status loom__file_put(int descriptor, const char *path, const void *data, uint64_t bytes, uint64_t offset);

loom_status loom__file_open(const char *path, int *descriptor, uint64_t *bytes);
/* BAD_FILE if the file ends too early. */
loom_status loom__file_read(int descriptor, const char *path, void *data, uint64_t bytes, uint64_t offset);

#endif
