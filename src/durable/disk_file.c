/* The disk of durable maps: a directory of a file system. */
#define _GNU_SOURCE
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "durable/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lock is on a file of its own, which is never renamed or removed: whoever opens it gets the same one. */
static const char LOCK_NAME[] = "lock";

enum { WHOLE_PATH = LOOM__DIRECTORY_PATH + 32 };

static loom__directory *directory_of(loom__disk *disk)
{
    return (loom__directory *)disk;
}

static int descriptor_of(const loom__disk_file *file)
{
    return ((const loom__directory_file *)file)->descriptor;
}

/* The path of a file in the directory, for sentences. */
static const char *path_of(const loom__disk *disk, const char *name, char path[WHOLE_PATH])
{
    snprintf(path, WHOLE_PATH, "%s/%s", disk->path, name);
    return path;
}

static loom_status failed(const char *doing, const loom__disk *disk, const char *name)
{
    const int error = errno;
    char path[WHOLE_PATH];
    path_of(disk, name, path);
    errno = error;
    return loom__file_error(doing, path);
}

static loom_status directory_open_file(loom__disk *disk, const char *name, int create, loom__disk_file **file)
{
    loom__directory *directory = directory_of(disk);
    loom__directory_file *free_place = NULL;
    for (int i = 0; i < LOOM__DIRECTORY_FILES; i++)
        if (directory->files[i].descriptor < 0)
            free_place = &directory->files[i];
    RETURN_ERROR_IF(free_place == NULL, LOOM_INTERNAL, "more than %d files of a durable map are open; report it",
                    LOOM__DIRECTORY_FILES);
    const int access = directory->reads_only ? O_RDONLY : O_RDWR;
    /* O_NONBLOCK: a pipe of this name must not block us. */
    const int descriptor =
        openat(directory->descriptor, name, access | (create ? O_CREAT : 0) | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor < 0 && errno == ENOENT)
        return LOOM_NOT_FOUND;
    if (descriptor < 0)
        return failed("opening", disk, name);
    *free_place = (loom__directory_file){{disk, name}, descriptor};
    *file = &free_place->file;
    return LOOM_OK;
}

static void directory_close_file(loom__disk_file *file)
{
    close(descriptor_of(file));
    ((loom__directory_file *)file)->descriptor = -1;
}

static loom_status directory_size(loom__disk_file *file, uint64_t *bytes)
{
    struct stat information;
    if (fstat(descriptor_of(file), &information) != 0)
        return failed("examining", file->disk, file->name);
    RETURN_ERROR_IF(!S_ISREG(information.st_mode), LOOM_IO, "%s/%s is not an ordinary file", file->disk->path,
                    file->name);
    *bytes = (uint64_t)information.st_size;
    return LOOM_OK;
}

static loom_status directory_read(loom__disk_file *file, void *data, uint64_t bytes, uint64_t offset)
{
    char path[WHOLE_PATH];
    return loom__file_read(descriptor_of(file), path_of(file->disk, file->name, path), data, bytes, offset);
}

static loom_status directory_write(loom__disk_file *file, const void *data, uint64_t bytes, uint64_t offset)
{
    char path[WHOLE_PATH];
    return loom__file_put(descriptor_of(file), path_of(file->disk, file->name, path), data, bytes, offset);
}

static loom_status directory_truncate(loom__disk_file *file, uint64_t bytes)
{
    return ftruncate(descriptor_of(file), (off_t)bytes) == 0 ? LOOM_OK : failed("truncating", file->disk, file->name);
}

static loom_status directory_sync(loom__disk_file *file)
{
    return fdatasync(descriptor_of(file)) == 0 ? LOOM_OK : failed("syncing", file->disk, file->name);
}

static loom_status directory_rename(loom__disk *disk, const char *from, const char *to)
{
    const int descriptor = directory_of(disk)->descriptor;
    return renameat(descriptor, from, descriptor, to) == 0 ? LOOM_OK : failed("renaming to", disk, to);
}

/* Some file systems cannot sync a directory and return EINVAL. */
static loom_status directory_sync_names(loom__disk *disk)
{
    const int descriptor = directory_of(disk)->descriptor;
    return fsync(descriptor) == 0 || errno == EINVAL ? LOOM_OK : loom__file_error("syncing directory", disk->path);
}

static void directory_destroy(loom__disk *disk)
{
    loom__directory *directory = directory_of(disk);
    if (directory->lock >= 0 && getpid() == directory->owner)
        flock(directory->lock, LOCK_UN); /* also where a child of a fork has the file open */
    if (directory->lock >= 0)
        close(directory->lock);
    close(directory->descriptor);
    if (directory->allocator != NULL)
        loom__release(directory->allocator, directory, sizeof *directory, LOOM_MEMORY_HOST, NULL);
}

static const loom__disk_ops directory_ops = {
    .open = directory_open_file,
    .close = directory_close_file,
    .size = directory_size,
    .read = directory_read,
    .write = directory_write,
    .truncate = directory_truncate,
    .sync = directory_sync,
    .rename = directory_rename,
    .sync_names = directory_sync_names,
    .destroy = directory_destroy,
};

/* Makes the directory if it is missing, and syncs the one that it lies in: also if the directory was there, since whoever
 * made it may have been killed before the sync. Then the other one may be one that must not be read. */
static loom_status make_directory(const char *path)
{
    char parent[LOOM__DIRECTORY_PATH];
    const int made = mkdir(path, 0777) == 0;
    if (!made && errno != EEXIST)
        return loom__file_error("making directory", path);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    snprintf(parent, sizeof parent, "%.*s", length > 0 ? (int)length : 1, length > 0 ? path : ".");
    const int descriptor = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return made ? loom__file_error("opening directory", parent) : LOOM_OK;
    const int synced = fsync(descriptor) == 0 || errno == EINVAL;
    const loom_status status = synced ? LOOM_OK : loom__file_error("syncing directory", parent);
    close(descriptor);
    return status;
}

static loom_status take_lock(loom__directory *directory)
{
    const int access = directory->reads_only ? O_RDONLY : O_RDWR | O_CREAT;
    int outcome;
    directory->lock = openat(directory->descriptor, LOCK_NAME, access | O_CLOEXEC | O_NONBLOCK, 0666);
    if (directory->lock < 0 && directory->reads_only && errno == ENOENT)
        return LOOM_OK;
    if (directory->lock < 0)
        return failed("opening", &directory->disk, LOCK_NAME);
    do {
        outcome = flock(directory->lock, (directory->reads_only ? LOCK_SH : LOCK_EX) | LOCK_NB);
    } while (outcome != 0 && errno == EINTR); /* ends: flock does not block, and signals cease */
    RETURN_ERROR_IF(outcome != 0 && errno == EWOULDBLOCK, LOOM_LOCKED,
                    "%s is open, in another process or in this one; a durable map is open once at a time",
                    directory->path);
    return outcome == 0 ? LOOM_OK : failed("locking", &directory->disk, LOCK_NAME);
}

loom_status loom__directory_open(loom__directory *directory, const char *path, int reads_only)
{
    RETURN_ERROR_IF(path == NULL || path[0] == 0, LOOM_INVALID_ARGUMENT, "path is NULL or empty");
    RETURN_ERROR_IF(strlen(path) >= sizeof directory->path, LOOM_INVALID_ARGUMENT, "path has more than %zu characters",
                    sizeof directory->path - 1);
    if (!reads_only)
        RETURN_IF_FAILED(make_directory(path));
    *directory = (loom__directory){.disk.ops = &directory_ops, .lock = -1, .reads_only = reads_only, .owner = getpid()};
    snprintf(directory->path, sizeof directory->path, "%s", path);
    directory->disk.path = directory->path;
    for (int i = 0; i < LOOM__DIRECTORY_FILES; i++)
        directory->files[i].descriptor = -1;
    directory->descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->descriptor < 0)
        return loom__file_error("opening directory", path);
    const loom_status status = take_lock(directory);
    if (status != LOOM_OK)
        directory_destroy(&directory->disk);
    return status;
}
