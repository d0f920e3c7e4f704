/* Saving and loading: round trips, replacement of old files, and every failure of a disk. */
#define _GNU_SOURCE 1
#include "harness/map_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static loom_map *make_filled(test_run *t, loom_context *context, uint64_t n, uint64_t salt, batch *b)
{
    loom_map *map = make_map(t, context, n);
    *b = make_batch(t, n);
    fill_distinct(b, salt, 0);
    CHECK_EQ(checked_build(map, b, LOOM_KEEP).ok, n);
    return map;
}

static loom_map *load(loom_context *context, const char *path)
{
    loom_map *map = NULL;
    CHECK_OK(loom_map_load(context, path, &map, NULL));
    CHECK(map != NULL);
    return map;
}

/* ---- Round trips ---------------------------------------------------------------------------------------- */

TEST_EACH_KIND(test_open_save_round_trip, .long_tier = 1, .every_engine = 1)
{
    static const uint64_t sizes[] = {0, 1, 2, 7, 8, 100, 1000, 60000};
    loom_context *context = make_context(t), *other = make_context(t);
    for (size_t i = 0; i < test_scaled(t, 8, 7); i++)
        for (int churned = 0; churned < 2; churned++) {
            uint64_t n = sizes[i];
            batch b;
            loom_map *map = make_filled(t, context, n, random_u64(&t->random), &b);
            const char *path = test_path(t, "round");
            if (churned) { /* erased keys leave traces in the file */
                uint64_t kept = n / 2;
                b.n = kept;
                checked_erase(map, &b);
                checked_insert(map, &b, LOOM_KEEP);
                b.n = n;
            }
            test_note("%llu keys", (unsigned long long)n);
            CHECK_OK(loom_map_save(map, path, NULL));
            check_contents(map, &b); /* saving changes nothing */
            loom_map *loaded = load(other, path);
            check_contents(loaded, &b);
            loom_stats x = map_stats(map), y = map_stats(loaded);
            CHECK_EQ(x.slots, y.slots);
            CHECK_EQ(x.seed, y.seed);
            CHECK_EQ(x.capacity, y.capacity);
            CHECK_EQ(x.partitions, y.partitions);
            CHECK_EQ(x.displaced, y.displaced);
            CHECK_NEAR(x.accesses_per_miss, y.accesses_per_miss, 1e-12);
            loom_map_config config = LOOM_MAP_CONFIG_INIT, again = LOOM_MAP_CONFIG_INIT;
            CHECK_OK(loom_map_get_config(map, &config));
            CHECK_OK(loom_map_set_growth(loaded, config.growth)); /* the file does not store growth */
            CHECK_OK(loom_map_get_config(loaded, &again));
            CHECK_BYTES(&again, &config, sizeof config);
            CHECK_EQ(test_count_entries(t->directory), 1);
            loom_map_destroy(map);
            loom_map_destroy(loaded);
            free_batch(&b);
        }
    loom_context_destroy(context);
    loom_context_destroy(other);
}

/* A loaded table is a table like any other. */
TEST_EACH_KIND(test_open_load_then_write, .every_engine = 1)
{
    loom_context *context = make_context(t);
    uint64_t n = 3000;
    batch b, more = make_batch(t, n);
    loom_map *map = make_filled(t, context, n, 5, &b);
    fill_distinct(&more, 5, n);
    CHECK_OK(loom_map_save(map, test_path(t, "file"), NULL));
    loom_map_destroy(map);
    map = load(context, test_path(t, "file"));
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).exists, n);
    CHECK_EQ(checked_erase(map, &b).ok, n);
    CHECK_EQ(checked_insert(map, &more, LOOM_KEEP).ok, n);
    check_contents(map, &more);
    CHECK_EQ(checked_build(map, &b, LOOM_OVERWRITE | LOOM_IN_ORDER).ok, n);
    check_contents(map, &b);
    CHECK_OK(loom_map_clear(map, NULL, NULL));
    checked_verify(map);
    loom_map_destroy(map);
    free_batch(&b);
    free_batch(&more);
    loom_context_destroy(context);
}

/* A table, its clone and its loaded copy give files with the same bytes, with any number of threads and any kind of
 * SIMD. */
TEST_EACH_KIND(test_open_save_same_bytes, .every_engine = 1, .cpu_only = 1)
{
    loom_context *context = make_context(t);
    batch b;
    uint64_t n = test_scaled(t, 20000, 3000);
    loom_map *map = make_filled(t, context, n, 5, &b), *clone = NULL;
    size_t wanted_bytes, bytes;
    CHECK_OK(loom_map_save(map, test_path(t, "first"), NULL));
    void *wanted = test_read_file(test_path(t, "first"), &wanted_bytes);
    CHECK_OK(loom_map_save(map, test_path(t, "again"), NULL));
    CHECK_OK(loom_map_clone(map, &clone, NULL));
    CHECK_OK(loom_map_save(clone, test_path(t, "clone"), NULL));
    loom_map *loaded = load(context, test_path(t, "first"));
    CHECK_OK(loom_map_save(loaded, test_path(t, "loaded"), NULL));
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        char name[32];
        loom_context *other = make_context_with(t, threads, map_stats(map).seed);
        loom_map *built = make_map(t, other, n);
        checked_build(built, &b, LOOM_KEEP);
        snprintf(name, sizeof name, "built_%u", threads);
        CHECK_OK(loom_map_save(built, test_path(t, name), NULL));
        loom_map_destroy(built);
        loom_context_destroy(other);
    }
    static const char *const names[] = {"again", "clone", "loaded", "built_1", "built_2", "built_4", "built_8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *got = test_read_file(test_path(t, names[i]), &bytes);
        test_note("file %s", names[i]);
        CHECK_EQ(bytes, wanted_bytes);
        CHECK_BYTES(got, wanted, bytes);
        free(got);
    }
    free(wanted);
    loom_map_destroy(map);
    loom_map_destroy(clone);
    loom_map_destroy(loaded);
    free_batch(&b);
    loom_context_destroy(context);
}

TEST(test_open_save_replaces_existing_file)
{
    loom_context *context = make_context(t);
    batch a, b;
    loom_map *first = make_filled(t, context, 500, 1, &a), *second = make_filled(t, context, 100, 2, &b);
    const char *path = test_path(t, "file");
    test_write_file(path, "something else entirely", 23);
    CHECK_OK(loom_map_save(first, path, NULL));
    loom_map *loaded = load(context, path);
    check_contents(loaded, &a);
    loom_map_destroy(loaded);
    CHECK_OK(loom_map_save(second, path, NULL));
    loaded = load(context, path);
    check_contents(loaded, &b);
    loom_map_destroy(loaded);
    CHECK_EQ(test_count_entries(t->directory), 1);
    loom_map_destroy(first);
    loom_map_destroy(second);
    free_batch(&a);
    free_batch(&b);
    loom_context_destroy(context);
}

/* Saves to paths without a directory, and to names up to the longest that a directory takes. */
TEST(test_open_save_relative_and_long_names)
{
    loom_context *context = make_context(t);
    batch b;
    loom_map *map = make_filled(t, context, 50, 1, &b);
    CHECK_EQ(chdir(t->directory), 0);
    CHECK_OK(loom_map_save(map, "plain", NULL));
    CHECK_OK(loom_map_save(map, "./dotted", NULL));
    loom_map *loaded = load(context, "plain");
    check_contents(loaded, &b);
    loom_map_destroy(loaded);
    CHECK_EQ(test_count_entries(t->directory), 2);
    for (size_t length = 200; length <= 256; length++) {
        char name[300];
        memset(name, 'n', length);
        name[length] = 0;
        test_note("name of %zu characters", length);
        loom_status status = loom_map_save(map, name, NULL);
        CHECK_STATUS(status, length <= 255 ? LOOM_OK : LOOM_IO);
        if (status == LOOM_OK) {
            loaded = load(context, name);
            check_contents(loaded, &b);
            loom_map_destroy(loaded);
            CHECK_EQ(unlink(name), 0);
        }
        CHECK_EQ(test_count_entries(t->directory), 2);
    }
    size_t length = 100000;
    char *endless = test_allocate(length + 1);
    memset(endless, 'x', length);
    endless[length] = 0;
    CHECK_REFUSED_EITHER(loom_map_save(map, endless, NULL), LOOM_IO, LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED_EITHER(loom_map_load(context, endless, &loaded, NULL), LOOM_IO, LOOM_INVALID_ARGUMENT);
    free(endless);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- What cannot be opened --------------------------------------------------------------------------------- */

TEST(test_open_save_wrong_paths, .leak_check = 1)
{
    loom_context *context = make_context(t);
    batch b;
    loom_map *map = make_filled(t, context, 50, 1, &b);
    CHECK_REFUSED(loom_map_save(map, NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_save(map, "", NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_save(map, test_path(t, "no/such/file"), NULL), LOOM_IO);
    CHECK(strstr(loom_last_error(), strerror(ENOENT)) != NULL); /* the sentence has the system's reason */
    CHECK_REFUSED(loom_map_save(map, t->directory, NULL), LOOM_IO);
    CHECK_EQ(mkdir(test_path(t, "folder"), 0755), 0);
    CHECK_REFUSED(loom_map_save(map, test_path(t, "folder"), NULL), LOOM_IO);
    CHECK_REFUSED(loom_map_save(map, test_path(t, "folder/"), NULL), LOOM_IO);
    CHECK_REFUSED(loom_map_save(map, "/proc/no_such_file", NULL), LOOM_IO);
    CHECK_EQ(test_count_entries(t->directory), 1);
    CHECK_EQ(test_count_entries(test_path(t, "folder")), 0);
    check_contents(map, &b);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}

TEST(test_open_load_wrong_paths, .leak_check = 1)
{
    loom_context *context = make_context(t);
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    CHECK_REFUSED(loom_map_load(context, NULL, &map, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_load(context, "", &map, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "absent"), &map, NULL), LOOM_IO);
    CHECK(strstr(loom_last_error(), strerror(ENOENT)) != NULL);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "no/such/file"), &map, NULL), LOOM_IO);
    CHECK_REFUSED_EITHER(loom_map_load(context, t->directory, &map, NULL), LOOM_IO, LOOM_BAD_FILE);
    CHECK_REFUSED_EITHER(loom_map_load(context, "/dev/null", &map, NULL), LOOM_IO, LOOM_BAD_FILE);
    CHECK_REFUSED_EITHER(loom_map_load(context, "/dev/zero", &map, NULL), LOOM_IO, LOOM_BAD_FILE);
    CHECK_EQ(mkfifo(test_path(t, "pipe"), 0600), 0);
    CHECK_REFUSED_EITHER(loom_map_load(context, test_path(t, "pipe"), &map, NULL), LOOM_IO, LOOM_BAD_FILE);
    test_write_file(test_path(t, "empty"), "", 0);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "empty"), &map, NULL), LOOM_BAD_FILE);
    test_write_file(test_path(t, "text"), "This is not a table.\n", 21);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "text"), &map, NULL), LOOM_BAD_FILE);
    CHECK_REFUSED(loom_map_load(context, test_path(t, "text"), NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK(map == untouched);
    loom_context_destroy(context);
}

/* Saves and loads as a user who may not read the file or write to the directory. */
TEST(test_open_save_and_load_without_permission)
{
    loom_context *context = make_context_with(t, 1, 1);
    batch b;
    loom_map *map = make_filled(t, context, 50, 1, &b), *loaded = NULL;
    const char *path = test_path(t, "file"), *folder = test_path(t, "folder"), *inside = test_path(t, "folder/file");
    CHECK_OK(loom_map_save(map, path, NULL));
    CHECK_EQ(mkdir(folder, 0755), 0);
    CHECK_OK(loom_map_save(map, inside, NULL));
    CHECK_EQ(chmod(path, 0), 0);
    CHECK_EQ(chmod(folder, 0555), 0);
    CHECK_EQ(chmod(t->directory, 0755), 0);
    int root = geteuid() == 0;
    if (root && seteuid(65534) != 0)
        SKIP("root's rights cannot be given up here");
    if (root &&
        faccessat(AT_FDCWD, t->directory, X_OK, AT_EACCESS) != 0) { /* the directory above may be closed to others */
        CHECK_EQ(seteuid(0), 0);
        prctl(PR_SET_DUMPABLE, 1);
        SKIP("%s cannot be reached without root's rights", t->directory);
    }
    int readable = open(path, O_RDONLY);
    loom_status load_status = loom_map_load(context, path, &loaded, NULL);
    loom_status save_status = loom_map_save(map, inside, NULL);
    if (root) {
        CHECK_EQ(seteuid(0), 0);
        prctl(PR_SET_DUMPABLE, 1);
    }
    CHECK_EQ(readable, -1);
    CHECK_STATUS(load_status, LOOM_IO);
    CHECK_STATUS(save_status, LOOM_IO);
    CHECK(loaded == NULL);
    CHECK_EQ(test_count_entries(folder), 1);
    loaded = load(context, inside);
    check_contents(loaded, &b);
    loom_map_destroy(loaded);
    loom_map_destroy(map);
    free_batch(&b);
    loom_context_destroy(context);
}

/* ---- A disk that is full ------------------------------------------------------------------------------------ */

/* Saves a larger table over the file of a smaller one on a disk where it does not fit. The save returns LOOM_IO, the
 * old file stays as it was, and no other file is left. */
static void check_save_does_not_fit(test_run *t, const char *directory, void (*before)(uint64_t), uint64_t argument)
{
    char path[512];
    loom_context *context = make_context(t);
    batch a, b;
    loom_map *small = make_filled(t, context, 20, 1, &a), *large = make_filled(t, context, 50000, 2, &b);
    size_t old_bytes, bytes;
    snprintf(path, sizeof path, "%s/file", directory);
    CHECK_OK(loom_map_save(small, path, NULL));
    void *old = test_read_file(path, &old_bytes);
    before(argument);
    CHECK_REFUSED(loom_map_save(large, path, NULL), LOOM_IO);
    CHECK(strstr(loom_last_error(), strerror(ENOSPC)) || strstr(loom_last_error(), strerror(EFBIG)));
    void *now = test_read_file(path, &bytes);
    CHECK_EQ(bytes, old_bytes);
    CHECK_BYTES(now, old, bytes);
    CHECK_EQ(test_count_entries(directory), 1);
    check_contents(large, &b);
    CHECK_OK(loom_map_save(small, path, NULL)); /* the smaller table still fits */
    loom_map *loaded = load(context, path);
    check_contents(loaded, &a);
    loom_map_destroy(loaded);
    free(old);
    free(now);
    loom_map_destroy(small);
    loom_map_destroy(large);
    free_batch(&a);
    free_batch(&b);
    loom_context_destroy(context);
}

static void limit_file_size(uint64_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(test_open_save_file_size_limit)
{
    static const uint64_t limits[] = {32768, 100000, 400000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "limit_%zu", i);
        CHECK_EQ(mkdir(test_path(t, name), 0755), 0);
        check_save_does_not_fit(t, test_path(t, name), limit_file_size, limits[i]);
        struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    }
}

static void do_nothing(uint64_t argument)
{
    (void)argument;
}

TEST(test_open_save_full_disk)
{
    const char *folder = test_path(t, "disk");
    CHECK_EQ(mkdir(folder, 0755), 0);
    /* Mounts a file system in a name space of this process. It ends with the process. */
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=256k") != 0)
        SKIP("no file system can be mounted here: %s", strerror(errno));
    check_save_does_not_fit(t, folder, do_nothing, 0);
    CHECK_EQ(umount2(folder, MNT_DETACH), 0);
}

/* ---- Interruption ------------------------------------------------------------------------------------------- */

/* A process saves two tables in turn under one name, and is killed at any moment. The file always holds one of the two
 * tables. */
TEST(test_open_save_killed_at_any_moment, .timeout_seconds = 120)
{
    loom_context *context = make_context_with(t, 1, 3);
    batch a, b;
    loom_map *first = make_filled(t, context, 3000, 1, &a), *second = make_filled(t, context, 5000, 2, &b);
    const char *path = test_path(t, "file");
    uint64_t seen[2] = {0, 0};
    CHECK_OK(loom_map_save(first, path, NULL));
    for (uint64_t round = 0; round < test_scaled(t, 40, 8); round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            for (;;)
                if (loom_map_save(second, path, NULL) != LOOM_OK || loom_map_save(first, path, NULL) != LOOM_OK)
                    _exit(1);
        struct timespec wait = {0, (long)random_below(&t->random, 8 * 1000 * 1000)};
        nanosleep(&wait, NULL);
        CHECK_EQ(kill(child, SIGKILL), 0);
        int status = 0;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status));
        loom_map *loaded = load(context, path);
        int which = map_size(loaded) == a.n ? 0 : 1;
        check_contents(loaded, which ? &b : &a);
        seen[which]++;
        loom_map_destroy(loaded);
    }
    fprintf(stderr, "%d times the first, %d times the second\n", (int)seen[0], (int)seen[1]);
    CHECK_OK(loom_map_save(first, path, NULL));
    CHECK_EQ(test_count_entries(t->directory), 1); /* the later saves removed the temporary files of killed ones */
    loom_map_destroy(first);
    loom_map_destroy(second);
    free_batch(&a);
    free_batch(&b);
    loom_context_destroy(context);
}

/* Some threads save different tables under one name, while others load it. Every load finds a whole table, and no
 * temporary file stays. */
typedef struct saver {
    test_run *t;
    loom_map *map;
    loom_context *context;
    const batch *tables[2];
    const char *path;
    uint64_t rounds;
} saver;

static void *save_again_and_again(void *argument)
{
    saver *s = argument;
    for (uint64_t i = 0; i < s->rounds; i++)
        CHECK_OK(loom_map_save(s->map, s->path, NULL));
    return NULL;
}

static void *load_again_and_again(void *argument)
{
    saver *s = argument;
    for (uint64_t i = 0; i < s->rounds; i++) {
        loom_map *loaded = load(s->context, s->path);
        check_contents(loaded, map_size(loaded) == s->tables[0]->n ? s->tables[0] : s->tables[1]);
        loom_map_destroy(loaded);
    }
    return NULL;
}

TEST(test_open_save_threads_same_path, .threads = 1, .leak_check = 1)
{
    loom_context *context = make_context_with(t, 2, 3);
    batch a, b;
    loom_map *first = make_filled(t, context, 300, 1, &a), *second = make_filled(t, context, 500, 2, &b);
    const char *path = test_path(t, "file");
    saver savers[4];
    pthread_t threads[4];
    CHECK_OK(loom_map_save(first, path, NULL));
    for (int i = 0; i < 4; i++) {
        savers[i] = (saver){t, i & 1 ? first : second, context, {&a, &b}, path, test_scaled(t, 30, 8)};
        CHECK_EQ(pthread_create(&threads[i], NULL, i == 3 ? load_again_and_again : save_again_and_again, &savers[i]),
                 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(test_count_entries(t->directory), 1);
    load_again_and_again(&savers[0]);
    loom_map_destroy(first);
    loom_map_destroy(second);
    free_batch(&a);
    free_batch(&b);
    loom_context_destroy(context);
}
