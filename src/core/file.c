#define _GNU_SOURCE
#include "core/file.h"
#include "core/checksum.h"
#include "core/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_TO_TRY = 100, LARGEST_TRANSFER = 1 << 30 };

loom_status loom__file_error(const char *doing, const char *path)
{
    char reason[128];
    int error = errno;
    const char *text = strerror_r(error, reason, sizeof reason); /* the GNU version: thread-safe, returns the text */
    return loom__fail(LOOM_IO, "%s %s failed: %s", doing, path, text);
}

/* ---- temporary files ----
 *
 * A save locks its temporary file before the first byte, and holds the lock until the file has its final name or is
 * gone. A temporary file whose lock can be taken is therefore a leftover of a killed process. Three cases need care:
 *   - A new file has no lock for a moment. Another process may take the lock in this moment and remove the file. The
 *     creator then cannot take the lock, or finds that the file has lost its name, and tries the next name.
 *   - Between opening a file and locking it, the file may get its final name, and its old name may go to another save.
 *     The name is therefore looked up again under the lock; it does not change while the lock is held.
 *   - Hosts that share a file system do not always see each other's locks. Names carry a tag of the host, and files of
 *     other hosts must also be old. */

#define TEMPORARY_PREFIX ".hashloom-new-"
enum {
    PREFIX_LENGTH = sizeof TEMPORARY_PREFIX - 1,
    NAME_LENGTH = PREFIX_LENGTH + 8 + 1 + 8, /* host tag, dash, number */
    OLD_SECONDS = 24 * 3600                  /* no save pauses this long between writes */
};

/* Distinguishes this host from others in file names. */
static unsigned own_tag(void)
{
    struct utsname host;
    if (uname(&host) != 0)
        host.nodename[0] = 0;
    return (unsigned)loom__checksum(host.nodename, strlen(host.nodename), 0);
}

static int is_temporary_name(const char *name)
{
    static const char digits[] = "0123456789abcdef";
    return strlen(name) == NAME_LENGTH && strncmp(name, TEMPORARY_PREFIX, PREFIX_LENGTH) == 0 &&
           strspn(name + PREFIX_LENGTH, digits) == 8 && name[PREFIX_LENGTH + 8] == '-' &&
           strspn(name + PREFIX_LENGTH + 9, digits) == 8;
}

static int try_lock(int descriptor)
{
    int outcome;
    do {
        outcome = flock(descriptor, LOCK_EX | LOCK_NB);
    } while (outcome != 0 && errno == EINTR); /* ends: flock does not block, and signals cease */
    return outcome;
}

static int has_name(int descriptor, int directory, const char *name)
{
    struct stat open_file, named;
    return fstat(descriptor, &open_file) == 0 && fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

static void remove_if_left(int directory, const char *name, int own)
{
    struct stat found;
    if (fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(found.st_mode) ||
        (!own && time(NULL) - found.st_mtime < OLD_SECONDS))
        return;
    /* Some file systems lock only files opened for writing; some files cannot be opened for writing. */
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int descriptor = openat(directory, name, O_WRONLY | flags);
    if (descriptor < 0)
        descriptor = openat(directory, name, O_RDONLY | flags);
    if (descriptor < 0)
        return;
    if (try_lock(descriptor) == 0 && has_name(descriptor, directory, name))
        unlinkat(directory, name, 0);
    close(descriptor);
}

/* A file that cannot be removed stays; it does no harm. */
static void remove_leftovers(const char *directory)
{
    const unsigned own = own_tag();
    DIR *entries = opendir(directory);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) /* ends with the directory */
        if (is_temporary_name(entry->d_name))
            remove_if_left(dirfd(entries), entry->d_name, strtoul(entry->d_name + PREFIX_LENGTH, NULL, 16) == own);
    closedir(entries);
}

/* Creates the temporary file under an unused name and locks it. The temporary name is short and does not contain the
 * final one, so a file can be saved under every legal name. */
static int create_temporary(loom__new_file *file, const char *directory, mode_t mode)
{
    const unsigned own = own_tag();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long salt = (unsigned long)now.tv_nsec ^ (unsigned long)getpid() << 20;
    for (int attempt = 0; attempt < NAMES_TO_TRY; attempt++) {
        snprintf(file->temporary, sizeof file->temporary, "%.*s" TEMPORARY_PREFIX "%08x-%08lx", LOOM__PATH_ROOM - 32,
                 directory, own, (salt + (unsigned long)attempt) & 0xffffffff);
        int descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor < 0 && errno != EEXIST)
            return -1;
        /* If the file system has no locks, no process can take this one, and no process removes the file. */
        if (descriptor >= 0 && (try_lock(descriptor) == 0 || errno != EWOULDBLOCK) &&
            has_name(descriptor, AT_FDCWD, file->temporary))
            return descriptor;
        if (descriptor >= 0)
            close(descriptor);
        errno = EEXIST;
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
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash == NULL ? 2 : (int)(slash - path) + 1,
             slash == NULL ? "./" : path);
    file->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->directory < 0)
        return loom__file_error("opening directory", directory);
    remove_leftovers(directory); /* first: leftovers may fill the disk */
    file->descriptor = create_temporary(file, directory, replaces ? 0600 : 0666);
    if (file->descriptor < 0) {
        loom_status status = loom__file_error("creating", file->temporary);
        close(file->directory);
        return status;
    }
    if (replaces && fchmod(file->descriptor, there.st_mode & 07777) != 0) {
        loom_status status = loom__file_error("setting the permissions of", file->temporary);
        loom__file_abandon(file);
        return status;
    }
    return LOOM_OK;
}

/* pwrite, with two differences. Writing no byte is the error ENOSPC. The file-size limit causes an error and not a
 * signal that ends the process. */
static ssize_t write_without_signal(int descriptor, void *from, size_t bytes, off_t offset)
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
        sigtimedwait(&limit, NULL, &at_once); /* removes our signal; there is none if the program ignores it */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = wrote == 0 ? ENOSPC : error;
    return wrote == 0 ? -1 : wrote;
}

/* Reads or writes all bytes: `move` is pread or write_without_signal. */
static loom_status transfer(ssize_t (*move)(int, void *, size_t, off_t), int descriptor, const char *doing,
                            const char *path, char *data, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) { /* ends: each round moves something or fails */
        size_t part = bytes < LARGEST_TRANSFER ? (size_t)bytes : LARGEST_TRANSFER;
        ssize_t moved = move(descriptor, data, part, (off_t)offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return loom__file_error(doing, path);
        RETURN_ERROR_IF(moved == 0, LOOM_BAD_FILE, "%s ends at byte %llu, before its contents do", path,
                        (unsigned long long)offset);
        data += moved;
        offset += (uint64_t)moved;
        bytes -= (uint64_t)moved;
    }
    return LOOM_OK;
}

loom_status loom__file_put(int descriptor, const char *path, const void *data, uint64_t bytes, uint64_t offset)
{
    return transfer(write_without_signal, descriptor, "writing", path, (char *)(uintptr_t)data, bytes, offset);
}

loom_status loom__file_write(loom__new_file *file, const void *data, uint64_t bytes, uint64_t offset)
{
    return loom__file_put(file->descriptor, file->temporary, data, bytes, offset);
}

loom_status loom__file_read(int descriptor, const char *path, void *data, uint64_t bytes, uint64_t offset)
{
    return transfer(pread, descriptor, "reading", path, data, bytes, offset);
}

/* Unlinks before it closes: closing releases the lock, and then another save may take the name. */
void loom__file_abandon(loom__new_file *file)
{
    unlink(file->temporary);
    close(file->descriptor);
    close(file->directory);
}

loom_status loom__file_commit(loom__new_file *file)
{
    loom_status status = LOOM_OK;
    if (fsync(file->descriptor) != 0)
        status = loom__file_error("syncing", file->temporary);
    if (status == LOOM_OK && rename(file->temporary, file->path) != 0)
        status = loom__file_error("renaming to", file->path);
    if (status != LOOM_OK) {
        loom__file_abandon(file);
        return status;
    }
    close(file->descriptor); /* after the rename: closing releases the lock. Synced data cannot be lost */
    /* Some file systems cannot sync a directory and return EINVAL. */
    if (fsync(file->directory) != 0 && errno != EINVAL)
        status = loom__file_error("the new file is in place, but syncing the directory of", file->path);
    close(file->directory);
    return status;
}

loom_status loom__file_open(const char *path, int *descriptor, uint64_t *bytes)
{
    RETURN_ERROR_IF(path == NULL || path[0] == 0, LOOM_INVALID_ARGUMENT, "path is NULL or empty");
    struct stat information;
    /* O_NONBLOCK: a pipe at this path must not block us. */
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0)
        return loom__file_error("opening", path);
    loom_status status = LOOM_OK;
    if (fstat(*descriptor, &information) != 0)
        status = loom__file_error("examining", path);
    else if (!S_ISREG(information.st_mode))
        status = loom__fail(LOOM_IO, "%s is not an ordinary file", path);
    if (status != LOOM_OK) {
        close(*descriptor);
        return status;
    }
    *bytes = (uint64_t)information.st_size;
    return LOOM_OK;
}
