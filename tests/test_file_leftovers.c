/* Temporary files of saves that were killed. The next save into the directory removes these files and no others. */
#define _GNU_SOURCE 1
#include "core/file.h"
#include "harness/map_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TAG_AT = 14, NAME_LENGTH = 31 }; /* .hashloom-new-tttttttt-xxxxxxxx */

static void save_anything(test_run *t, const char *path)
{
    loom_context *context = make_context_with(t, 1, 1);
    loom_map *map = make_map(t, context, 10), *loaded = NULL;
    CHECK_OK(loom_map_save(map, path, NULL));
    CHECK_OK(loom_map_load(context, path, &loaded, NULL));
    loom_map_destroy(loaded);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

static int exists(const test_run *t, const char *name)
{
    struct stat there;
    return lstat(test_path(t, name), &there) == 0;
}

static int ended_by(pid_t child)
{
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* A save in a process of its own: it begins, waits, and continues when the test says so. */
typedef struct saving {
    pid_t process;
    int begun[2], go_on[2];
    char temporary[LOOM__PATH_ROOM];
} saving;

static void save_in_steps(saving *s, const char *path)
{
    loom__new_file file;
    char byte = 0;
    if (loom__file_begin(&file, path) != LOOM_OK || loom__file_write(&file, "table", 5, 0) != LOOM_OK)
        _exit(1);
    if (write(s->begun[1], file.temporary, sizeof file.temporary) != sizeof file.temporary)
        _exit(1);
    if (read(s->go_on[0], &byte, 1) != 1 || loom__file_commit(&file) != LOOM_OK)
        _exit(1);
    _exit(0);
}

static void begin_saving(saving *s, const char *path)
{
    CHECK_EQ(pipe(s->begun), 0);
    CHECK_EQ(pipe(s->go_on), 0);
    s->process = fork();
    CHECK(s->process >= 0);
    if (s->process == 0)
        save_in_steps(s, path);
    CHECK_EQ(read(s->begun[0], s->temporary, sizeof s->temporary), sizeof s->temporary); /* a page: in one piece */
    CHECK_EQ(access(s->temporary, F_OK), 0);
}

static int end_saving(saving *s, int killed)
{
    if (killed)
        CHECK_EQ(kill(s->process, SIGKILL), 0);
    else
        CHECK_EQ(write(s->go_on[1], "", 1), 1);
    int how = ended_by(s->process);
    for (int i = 0; i < 2; i++) {
        close(s->begun[i]);
        close(s->go_on[i]);
    }
    return how;
}

TEST(test_file_killed_save_is_removed_by_the_next)
{
    saving s[3];
    for (int i = 0; i < 3; i++)
        begin_saving(&s[i], test_path(t, i == 2 ? "other" : "file"));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(end_saving(&s[i], 1), SIGKILL);
    CHECK_EQ(test_count_entries(t->directory), 3);
    save_anything(t, test_path(t, "file"));
    CHECK_EQ(test_count_entries(t->directory), 1);
    CHECK(exists(t, "file"));
}

/* The save was to replace a read-only file. Its temporary file has the same permissions, and is removed all the
 * same. */
TEST(test_file_killed_save_over_a_read_only_file_is_removed)
{
    saving s;
    test_write_file(test_path(t, "file"), "old", 3);
    CHECK_EQ(chmod(test_path(t, "file"), 0444), 0);
    begin_saving(&s, test_path(t, "file"));
    CHECK_EQ(end_saving(&s, 1), SIGKILL);
    CHECK_EQ(test_count_entries(t->directory), 2);
    save_anything(t, test_path(t, "file"));
    CHECK_EQ(test_count_entries(t->directory), 1);
}

TEST(test_file_running_save_is_not_removed)
{
    saving s;
    begin_saving(&s, test_path(t, "file"));
    save_anything(t, test_path(t, "file"));
    save_anything(t, test_path(t, "other"));
    CHECK_EQ(access(s.temporary, F_OK), 0);
    CHECK_EQ(end_saving(&s, 0), 0);
    size_t bytes;
    char *now = test_read_file(test_path(t, "file"), &bytes);
    CHECK_EQ(bytes, 5);
    CHECK_BYTES(now, "table", 5);
    free(now);
    CHECK_EQ(test_count_entries(t->directory), 2);
}

/* The same with several processes that save as often as they can. Some of them are killed. No process removes another's
 * file. */
TEST(test_file_saves_of_many_processes, .timeout_seconds = 120)
{
    enum { SAVERS = 6, KILLED = 2 };
    uint64_t rounds = test_scaled(t, 300, 60);
    pid_t savers[SAVERS];
    loom__new_file file;
    const char *path = test_path(t, "file");
    for (int i = 0; i < SAVERS; i++) {
        savers[i] = fork();
        CHECK(savers[i] >= 0);
        for (uint64_t round = 0; savers[i] == 0 && (i < KILLED || round < rounds);
             round++) /* savers 0 .. KILLED - 1: until killed */
            if (loom__file_begin(&file, path) != LOOM_OK || loom__file_write(&file, "table", 5, 0) != LOOM_OK ||
                loom__file_commit(&file) != LOOM_OK) {
                fprintf(stderr, "%s\n", loom_last_error());
                _exit(1);
            }
        if (savers[i] == 0)
            _exit(0);
    }
    for (int i = KILLED; i < SAVERS; i++)
        CHECK_EQ(ended_by(savers[i]), 0);
    for (int i = 0; i < KILLED; i++) {
        CHECK_EQ(kill(savers[i], SIGKILL), 0);
        CHECK_EQ(ended_by(savers[i]), SIGKILL);
    }
    save_anything(t, path);
    CHECK_EQ(test_count_entries(t->directory), 1);
}

/* A child inherits the descriptors of the process that saves. While the child lives, the save looks unfinished. */
TEST(test_file_killed_save_stays_while_a_child_lives)
{
    int to_test[2], stop[2];
    char temporary[LOOM__PATH_ROOM], byte = 0;
    CHECK_EQ(pipe(to_test), 0);
    CHECK_EQ(pipe(stop), 0);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) /* the child of a killed process then becomes ours */
        SKIP("this system, or its emulator, has no subreapers");
    pid_t saver = fork();
    CHECK(saver >= 0);
    if (saver == 0) {
        loom__new_file file;
        if (loom__file_begin(&file, test_path(t, "file")) != LOOM_OK)
            _exit(1);
        if (fork() == 0) { /* ends when the test closes its end of the pipe */
            close(stop[1]);
            ssize_t told = write(to_test[1], file.temporary, sizeof file.temporary);
            _exit(told < 0 || read(stop[0], &byte, 1) != 0);
        }
        for (;;)
            pause();
    }
    CHECK_EQ(read(to_test[0], temporary, sizeof temporary), sizeof temporary);
    CHECK_EQ(kill(saver, SIGKILL), 0);
    CHECK_EQ(ended_by(saver), SIGKILL);
    save_anything(t, test_path(t, "file"));
    CHECK_EQ(access(temporary, F_OK), 0);
    close(stop[1]);
    CHECK(waitpid(-1, NULL, 0) > 0);
    save_anything(t, test_path(t, "file"));
    CHECK_EQ(test_count_entries(t->directory), 1);
}

/* ---- Names ---- */

/* Gets the name of the temporary file that a save makes here. */
static void name_of_temporary(test_run *t, char name[NAME_LENGTH + 1])
{
    loom__new_file file;
    CHECK_OK(loom__file_begin(&file, test_path(t, "file")));
    const char *last = strrchr(file.temporary, '/') + 1;
    CHECK_EQ(strlen(last), NAME_LENGTH);
    memcpy(name, last, NAME_LENGTH + 1);
    loom__file_abandon(&file);
    CHECK_EQ(test_count_entries(t->directory), 0);
}

static void write_in(const test_run *t, const char *name)
{
    test_write_file(test_path(t, name), "mine", 4);
}

TEST(test_file_names_like_leftovers_stay)
{
    static const char *const others[] = {".hashloom-new-",         ".hashloom-new-0123abcd", ".hashloom-new-mine",
                                         ".hashloom-new-notes.md", "hashloom-new-0123abcd",  ".hashloom-new-0123abcd-"};
    enum { OTHERS = sizeof others / sizeof others[0], CHANGED = 4, KEPT = OTHERS + CHANGED + 2 };
    char name[NAME_LENGTH + 1], changed[CHANGED][NAME_LENGTH + 3];
    name_of_temporary(t, name);
    for (int i = 0; i < CHANGED; i++)
        snprintf(changed[i], sizeof changed[i], "%s", name);
    changed[0][NAME_LENGTH - 1] = 'g';
    changed[1][NAME_LENGTH - 1] = 'A';
    snprintf(changed[2], sizeof changed[2], "%s0", name);
    changed[3][NAME_LENGTH - 1] = 0;
    for (int i = 0; i < OTHERS; i++)
        write_in(t, others[i]);
    for (int i = 0; i < CHANGED; i++)
        write_in(t, changed[i]);
    /* A directory or a symbolic link with the name of a leftover stays, too. */
    name[NAME_LENGTH - 1] = '0';
    CHECK_EQ(mkdir(test_path(t, name), 0755), 0);
    name[NAME_LENGTH - 1] = '1';
    CHECK_EQ(symlink(others[0], test_path(t, name)), 0);
    name[NAME_LENGTH - 1] = '2';
    write_in(t, name); /* this is a leftover */
    save_anything(t, test_path(t, "file"));
    CHECK(!exists(t, name));
    CHECK_EQ(test_count_entries(t->directory), KEPT + 1);
}

/* Some file systems do not show the locks of other hosts. A file of another host may be in use: it is removed only if
 * nobody has written to it for days. */
TEST(test_file_leftovers_of_other_hosts_go_when_they_are_old)
{
    char name[NAME_LENGTH + 1];
    name_of_temporary(t, name);
    name[TAG_AT] = name[TAG_AT] == '0' ? '1' : '0';
    write_in(t, name);
    save_anything(t, test_path(t, "file"));
    CHECK(exists(t, name));
    struct timespec old[2];
    CHECK_EQ(clock_gettime(CLOCK_REALTIME, &old[0]), 0);
    old[0].tv_sec -= 3 * 24 * 3600;
    old[1] = old[0];
    CHECK_EQ(utimensat(AT_FDCWD, test_path(t, name), old, 0), 0);
    save_anything(t, test_path(t, "file"));
    CHECK(!exists(t, name));
    CHECK_EQ(test_count_entries(t->directory), 1);
}
