#define _GNU_SOURCE
#include "core/file.h"
#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_TO_TRY = 100, LARGEST_TRANSFER = 1 << 30 };

static loom_status io_error(const char *what, const char *path)
{
    char reason[128];
    int error = errno;
    const char *text = strerror_r(error, reason, sizeof reason); /* the GNU one: thread-safe, returns the text */
    return loom__fail(LOOM_IO, "%s %s failed: %s", what, path, text);
}

/* The directory part of a path, with its slash; "./" if it has none. */
static void directory_of(const char *path, char *directory, size_t room)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(directory, room, "./");
    else
        snprintf(directory, room, "%.*s", (int)(slash - path) + 1, path);
}

/* Creates the temporary file under a name that nobody has; short, so that every legal name can be saved. */
static int create_temporary(loom__new_file *file, const char *directory, mode_t mode)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long salt = (unsigned long)now.tv_nsec ^ (unsigned long)getpid() << 20;
    for (int attempt = 0; attempt < NAMES_TO_TRY; attempt++) {
        snprintf(file->temporary, sizeof file->temporary, "%.*s.hashloom-new-%08lx", LOOM__PATH_ROOM - 32, directory,
                 (salt + (unsigned long)attempt) & 0xffffffff);
        int descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
    }
    return -1;
}

loom_status loom__file_begin(loom__new_file *file, const char *path)
{
    char directory[LOOM__PATH_ROOM];
    struct stat there;
    RETURN_ERROR_IF(path == NULL || path[0] == 0, LOOM_INVALID_ARGUMENT, "path is NULL or empty");
    RETURN_ERROR_IF(strlen(path) + 32 > LOOM__PATH_ROOM, LOOM_INVALID_ARGUMENT, "path has more than %d characters",
                    LOOM__PATH_ROOM - 32);
    int replaces = stat(path, &there) == 0;
    RETURN_ERROR_IF(replaces && !S_ISREG(there.st_mode), LOOM_IO,
                    "%s exists and is not an ordinary file; choose another name", path);
    snprintf(file->path, sizeof file->path, "%s", path);
    directory_of(path, directory, sizeof directory);
    file->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->directory < 0)
        return io_error("opening directory", directory);
    file->descriptor = create_temporary(file, directory, replaces ? 0600 : 0666);
    if (file->descriptor < 0) {
        loom_status status = io_error("creating", file->temporary);
        close(file->directory);
        return status;
    }
    if (replaces && fchmod(file->descriptor, there.st_mode & 07777) != 0) {
        loom_status status = io_error("setting the permissions of", file->temporary);
        loom__file_abandon(file);
        return status;
    }
    return LOOM_OK;
}

/* pwrite, except that a file-size limit is an error like any other and no signal that ends the process. */
static ssize_t write_without_signal(int descriptor, const void *from, size_t bytes, off_t offset)
{
    sigset_t limit, before, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    ssize_t wrote = pwrite(descriptor, from, bytes, offset);
    int error = errno;
    if (wrote < 0 && error == EFBIG && !sigismember(&pending, SIGXFSZ)) {
        const struct timespec at_once = {0, 0};
        sigtimedwait(&limit, NULL, &at_once); /* takes ours back; there is none where the program ignores it */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return wrote;
}

loom_status loom__file_write(loom__new_file *file, const void *data, uint64_t bytes, uint64_t offset)
{
    const char *from = data;
    while (bytes > 0) { /* ends: each round writes something or fails */
        size_t part = bytes < LARGEST_TRANSFER ? (size_t)bytes : LARGEST_TRANSFER;
        ssize_t wrote = write_without_signal(file->descriptor, from, part, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote == 0)
            errno = ENOSPC;
        if (wrote <= 0)
            return io_error("writing", file->temporary);
        from += wrote;
        offset += (uint64_t)wrote;
        bytes -= (uint64_t)wrote;
    }
    return LOOM_OK;
}

void loom__file_abandon(loom__new_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
    unlink(file->temporary);
    close(file->directory);
}

loom_status loom__file_commit(loom__new_file *file)
{
    loom_status status = LOOM_OK;
    if (fsync(file->descriptor) != 0)
        status = io_error("syncing", file->temporary);
    if (close(file->descriptor) != 0 && status == LOOM_OK)
        status = io_error("closing", file->temporary);
    file->descriptor = -1;
    if (status == LOOM_OK && rename(file->temporary, file->path) != 0)
        status = io_error("renaming to", file->path);
    if (status != LOOM_OK) {
        loom__file_abandon(file);
        return status;
    }
    /* Some file systems have nothing to sync in a directory and say so with EINVAL. */
    if (fsync(file->directory) != 0 && errno != EINVAL)
        status = io_error("the new file is in place, but syncing the directory of", file->path);
    close(file->directory);
    return status;
}

loom_status loom__file_open(const char *path, int *descriptor, uint64_t *bytes)
{
    RETURN_ERROR_IF(path == NULL || path[0] == 0, LOOM_INVALID_ARGUMENT, "path is NULL or empty");
    struct stat information;
    /* O_NONBLOCK: a pipe in the place of a file must not make us wait. */
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0)
        return io_error("opening", path);
    loom_status status = LOOM_OK;
    if (fstat(*descriptor, &information) != 0)
        status = io_error("examining", path);
    else if (!S_ISREG(information.st_mode))
        status = loom__fail(LOOM_IO, "%s is not an ordinary file", path);
    if (status != LOOM_OK) {
        close(*descriptor);
        *descriptor = -1;
        return status;
    }
    *bytes = (uint64_t)information.st_size;
    return LOOM_OK;
}

loom_status loom__file_read(int descriptor, const char *path, void *data, uint64_t bytes, uint64_t offset)
{
    char *to = data;
    while (bytes > 0) { /* ends: each round reads something or fails */
        size_t part = bytes < LARGEST_TRANSFER ? (size_t)bytes : LARGEST_TRANSFER;
        ssize_t got = pread(descriptor, to, part, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_error("reading", path);
        RETURN_ERROR_IF(got == 0, LOOM_BAD_FILE, "%s ends at byte %llu, before its contents do", path,
                        (unsigned long long)offset);
        to += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return LOOM_OK;
}
