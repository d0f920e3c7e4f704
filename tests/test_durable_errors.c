/* What a durable map refuses, and what it says of a directory that is not as it was left. */
#define _GNU_SOURCE 1
#include "api/map.h"
#include "harness/durable_fixture.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- arguments ---- */

static void check_open_refused(loom_context *context, const char *path, const loom_map_config *config,
                               const loom_durable_config *durable, loom_status wanted)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    CHECK_REFUSED(loom_map_open(context, path, config, durable, &map), wanted);
    CHECK(map == untouched);
}

TEST(test_durable_wrong_arguments)
{
    loom_context *context = make_context_with(t, 1, 1);
    const char *path = test_path(t, "map");
    const loom_map_config good = durable_map_config();
    const loom_durable_config usual = durable_config(1);
    loom_durable_config durable = usual;
    loom_map_config config = good;
    CHECK_REFUSED(loom_map_open(context, path, &good, &usual, NULL), LOOM_INVALID_ARGUMENT);
    check_open_refused(NULL, path, &good, &usual, LOOM_INVALID_ARGUMENT);
    check_open_refused(context, NULL, &good, &usual, LOOM_INVALID_ARGUMENT);
    check_open_refused(context, "", &good, &usual, LOOM_INVALID_ARGUMENT);
    check_open_refused(context, path, NULL, &usual, LOOM_INVALID_ARGUMENT);
    config.key_bytes = 0;
    check_open_refused(context, path, &config, &usual, LOOM_INVALID_ARGUMENT);
    durable.struct_size = 0;
    check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    durable.struct_size = sizeof durable + 8;
    check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    durable = usual;
    durable.medium = (loom_medium)2;
    check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    durable = usual;
    durable.commit_by_itself = 2;
    check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    durable = usual;
    durable.accept_loss = 2;
    check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    durable = usual;
    durable.reserved = 1;
    check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    static const uint64_t sizes[] = {1, 4096, 65535, 65537, 61440, (uint64_t)1 << 41, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        durable = usual;
        durable.journal_bytes = sizes[i];
        check_open_refused(context, path, &good, &durable, LOOM_INVALID_ARGUMENT);
    }
    CHECK_EQ(test_count_entries(t->directory), 0);
    CHECK_REFUSED(loom_map_commit(NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_sync(NULL, 0), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_checkpoint(NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_durability(NULL, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_durable_check(path, NULL), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}

TEST(test_durable_unsupported_tables)
{
    loom_context *context = make_context_with(t, 1, 1);
    loom_map_config config = durable_map_config();
    config.type = LOOM_TYPE_MULTIMAP;
    check_open_refused(context, test_path(t, "map"), &config, NULL, LOOM_UNSUPPORTED);
    config = durable_map_config();
    config.key_bytes = LOOM_VARIABLE;
    check_open_refused(context, test_path(t, "map"), &config, NULL, LOOM_UNSUPPORTED);
    config = durable_map_config();
    config.value_bytes = LOOM_VARIABLE;
    check_open_refused(context, test_path(t, "map"), &config, NULL, LOOM_UNSUPPORTED);
    CHECK_EQ(test_count_entries(t->directory), 0);
    static const loom_engine engines[] = {LOOM_ENGINE_DEFAULT, LOOM_ENGINE_OPEN, LOOM_ENGINE_PERFECT, LOOM_ENGINE_ROWS,
                                          LOOM_ENGINE_TICKETS};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        CHECK_OK(loom_supports(context, LOOM_TYPE_MAP, engines[i], LOOM_FEATURE_DURABLE));
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_MULTIMAP, LOOM_ENGINE_OPEN, LOOM_FEATURE_DURABLE), LOOM_UNSUPPORTED);
    CHECK_REFUSED(loom_supports(context, LOOM_TYPE_FILTER, LOOM_ENGINE_BLOOM, LOOM_FEATURE_DURABLE), LOOM_UNSUPPORTED);
    loom_context_destroy(context);
}

/* A machine whose calls return before their work has ended. */
static loom_status create_order(loom__machine *machine, int concurrent_reads, loom__order **order)
{
    (void)machine, (void)concurrent_reads, (void)order;
    return LOOM_OK;
}

TEST(test_durable_unsupported_machine)
{
    loom__machine_ops ops = loom__cpu_machine;
    const loom__machine machine = {.ops = &ops};
    CHECK_OK(loom__map_check_durable(&machine, LOOM_TYPE_MAP));
    ops.order_create = create_order;
    CHECK_REFUSED(loom__map_check_durable(&machine, LOOM_TYPE_MAP), LOOM_UNSUPPORTED);
}

/* Nobody would commit what the kernels of a view write. */
TEST(test_durable_lends_no_view_that_writes)
{
    loom_context *context = make_context_with(t, 1, 1);
    loom_map *map = durable_open(context, test_path(t, "map"), 1);
    loom_map_view view;
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_INSERT, &view, NULL), LOOM_UNSUPPORTED);
    CHECK(strstr(loom_last_error(), "durable") != NULL);
    CHECK_REFUSED(loom_map_view_begin(map, LOOM_VIEW_MIXED, &view, NULL), LOOM_UNSUPPORTED);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* The map that lies there must be the one that is asked for. */
TEST(test_durable_other_table_there)
{
    loom_context *context = make_context_with(t, 1, 1);
    const char *path = test_path(t, "map");
    loom_map_config config = durable_map_config();
    loom_map *map = durable_open(context, path, 1);
    put_keys(map, 0, 9, 9);
    loom_map_destroy(map);
    config.key_bytes = 4;
    check_open_refused(context, path, &config, NULL, LOOM_INVALID_ARGUMENT);
    config = durable_map_config();
    config.type = LOOM_TYPE_COUNTER;
    check_open_refused(context, path, &config, NULL, LOOM_INVALID_ARGUMENT);
    config = durable_map_config();
    config.engine = LOOM_ENGINE_PERFECT; /* the engine may differ */
    CHECK_OK(loom_map_open(context, path, &config, NULL, &map));
    check_keys(map, 9, 9);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- processes ---- */

TEST(test_durable_open_once, .alone = 1)
{
    loom_context *context = make_context_with(t, 1, 1);
    const char *path = test_path(t, "map");
    const loom_map_config config = durable_map_config();
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    loom_map *map = durable_open(context, path, 1);
    check_open_refused(context, path, &config, NULL, LOOM_LOCKED);
    CHECK_REFUSED(loom_durable_check(path, &report), LOOM_LOCKED);
    pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        loom_map *mine = NULL;
        const uint64_t key = 1;
        /* Neither may another process open it, nor a child write to the map that it inherited. */
        const int right = loom_map_open(context, path, &config, NULL, &mine) == LOOM_LOCKED &&
                          loom_map_insert(map, &key, &key, 1, LOOM_KEEP, NULL, NULL, NULL) == LOOM_LOCKED &&
                          loom_map_commit(map, NULL) == LOOM_LOCKED && loom_map_sync(map, 0) == LOOM_LOCKED &&
                          loom_map_checkpoint(map) == LOOM_LOCKED && map_size(map) == 0;
        loom_map_destroy(map); /* leaves the files, and the parent's lock, alone */
        _exit(right ? 0 : 1);
    }
    int status = 0;
    CHECK_EQ(waitpid(other, &status, 0), other);
    CHECK_EQ(status, 0);
    check_open_refused(context, path, &config, NULL, LOOM_LOCKED);
    put_keys(map, 0, 5, 5);
    loom_map_destroy(map);
    map = durable_open(context, path, 1);
    check_keys(map, 5, 5);
    loom_map_destroy(map);
    CHECK_OK(loom_durable_check(path, &report));
    CHECK_EQ(report.records, 2); /* the commit, and the note that it was closed */
    loom_context_destroy(context);
}

/* A child of a fork has the lock's file open. The map may be opened again all the same once its owner has closed it. */
TEST(test_durable_lock_goes_with_its_owner, .alone = 1)
{
    loom_context *context = make_context_with(t, 1, 1);
    const char *path = test_path(t, "map");
    loom_map *map = durable_open(context, path, 1);
    int ends[2], status = 0;
    char byte;
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1); /* until the parent closes its end */
    }
    close(ends[0]);
    put_keys(map, 0, 3, 3);
    loom_map_destroy(map);
    map = durable_open(context, path, 1);
    check_keys(map, 3, 3);
    loom_map_destroy(map);
    close(ends[1]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    loom_context_destroy(context);
}

/* The log tells the range that was erased, though the result has taken the place of its bounds. */
TEST(test_durable_result_over_the_bounds)
{
    loom_context *context = make_context_with(t, 1, 1);
    const char *path = test_path(t, "map");
    loom_map *map = durable_open(context, path, 1);
    union {
        loom_result result;
        uint64_t least;
    } both = {.least = 5};
    put_keys(map, 0, 3, 3);
    put_keys(map, 100, 7, 7);
    CHECK_OK(loom_map_erase_if(map, LOOM_NUMBER_U64, &both.least, NULL, &both.result, NULL));
    CHECK_EQ(both.result.ok, 7);
    loom_map_destroy(map);
    map = durable_open(context, path, 1);
    check_keys(map, 3, 3);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* ---- disks ---- */

TEST(test_durable_directory_that_cannot_be_used)
{
    loom_context *context = make_context_with(t, 1, 1);
    const loom_map_config config = durable_map_config();
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    check_open_refused(context, test_path(t, "no/such/place"), &config, NULL, LOOM_IO);
    CHECK_REFUSED(loom_durable_check(test_path(t, "nothing"), &report), LOOM_IO);
    test_write_file(test_path(t, "file"), "x", 1);
    check_open_refused(context, test_path(t, "file"), &config, NULL, LOOM_IO);
    CHECK_EQ(mkdir(test_path(t, "empty"), 0755), 0);
    CHECK_REFUSED(loom_durable_check(test_path(t, "empty"), &report), LOOM_BAD_FILE);
    CHECK_EQ(test_count_entries(test_path(t, "empty")), 0);
    loom_context_destroy(context);
}

/* Mounts a file system in a name space of this process, which ends with the process. */
static void mount_small(const char *folder, const char *options)
{
    CHECK_EQ(mkdir(folder, 0755), 0);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, options) != 0)
        SKIP("no file system can be mounted here: %s", strerror(errno));
}

TEST(test_durable_read_only_directory, .alone = 1)
{
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", test_path(t, "disk"));
    snprintf(path, sizeof path, "%s/map", folder);
    mount_small(folder, "size=4m");
    loom_context *context = make_context_with(t, 1, 1);
    const loom_map_config config = durable_map_config();
    loom_map *map = durable_open(context, path, 1);
    put_keys(map, 0, 10, 2);
    loom_map_destroy(map);
    CHECK_EQ(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    check_open_refused(context, path, &config, NULL, LOOM_IO);
    CHECK(strstr(loom_last_error(), "ead-only") != NULL);
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    CHECK_OK(loom_durable_check(path, &report));
    CHECK_EQ(report.epoch, 2);
    loom_context_destroy(context);
    CHECK_EQ(umount2(folder, MNT_DETACH), 0);
}

/* On a full disk the journal goes on, since its blocks are there, but no snapshot can be written. The map then refuses
 * writes, answers lookups, and takes writes again when there is room. */
TEST(test_durable_full_disk, .alone = 1)
{
    char folder[512], path[600], ballast[600];
    snprintf(folder, sizeof folder, "%s", test_path(t, "disk"));
    snprintf(path, sizeof path, "%s/map", folder);
    snprintf(ballast, sizeof ballast, "%s/ballast", folder);
    mount_small(folder, "size=1m");
    loom_context *context = make_context_with(t, 1, 1);
    loom_map *map = durable_open(context, path, 1);
    uint64_t n = 0, last = 0;
    put_keys(map, 0, 1000, 1);
    void *filling = calloc(1, 860 * 1024);
    test_write_file(ballast, filling, 860 * 1024);
    free(filling);
    loom_status status = LOOM_OK;
    while (status == LOOM_OK && n < 100) { /* 17 blocks of journal hold four such batches */
        uint64_t keys[1000], values[1000];
        for (uint64_t i = 0; i < 1000; i++) {
            keys[i] = 10000 * n + i;
            values[i] = n;
        }
        status = loom_map_insert(map, keys, values, 1000, LOOM_OVERWRITE, NULL, NULL, NULL);
        last = keys[0];
        n += status == LOOM_OK;
    }
    CHECK_STATUS(status, LOOM_IO);
    CHECK_GT(n, 2);
    CHECK_LT(n, 100);
    CHECK_EQ(durability_of(map).refuses, 1);
    const uint64_t key = 5;
    CHECK_REFUSED(loom_map_erase(map, &key, 1, NULL, NULL, NULL), LOOM_IO);
    CHECK_REFUSED(loom_map_clear(map, NULL, NULL), LOOM_IO);
    CHECK_REFUSED(loom_map_commit(map, NULL), LOOM_IO);
    CHECK_REFUSED(loom_map_checkpoint(map), LOOM_IO);
    CHECK_OK(loom_map_contains(map, &last, 1, NULL, NULL, NULL, NULL));
    const uint64_t size = map_size(map);
    CHECK_EQ(unlink(ballast), 0);
    CHECK_OK(loom_map_checkpoint(map)); /* with the batch that failed */
    CHECK_EQ(durability_of(map).refuses, 0);
    CHECK_OK(loom_map_erase(map, &last, 1, NULL, NULL, NULL));
    loom_map_destroy(map);
    map = durable_open(context, path, 1);
    CHECK_EQ(map_size(map), size - 1);
    loom_map_destroy(map);
    loom_context_destroy(context);
    CHECK_EQ(umount2(folder, MNT_DETACH), 0);
}

/* ---- damage ---- */

enum { LONGEST_PATH = 4096 };

typedef struct files {
    unsigned char *journal, *snapshot;
    size_t journal_bytes, snapshot_bytes;
} files;

static files read_files(const char *path)
{
    char name[LONGEST_PATH + 16];
    files f;
    snprintf(name, sizeof name, "%s/journal", path);
    f.journal = test_read_file(name, &f.journal_bytes);
    snprintf(name, sizeof name, "%s/snapshot", path);
    f.snapshot = test_read_file(name, &f.snapshot_bytes);
    return f;
}

static void write_files(const char *path, const files *f)
{
    char name[LONGEST_PATH + 16];
    snprintf(name, sizeof name, "%s/journal", path);
    test_write_file(name, f->journal, f->journal_bytes);
    snprintf(name, sizeof name, "%s/snapshot", path);
    test_write_file(name, f->snapshot, f->snapshot_bytes);
}

static void free_files(files *f)
{
    free(f->journal);
    free(f->snapshot);
}

/* Opens a map whose journal is so large that no checkpoint comes by itself. */
static loom_map *open_calm(loom_context *context, const char *path)
{
    const loom_map_config config = durable_map_config();
    loom_durable_config durable = durable_config(1);
    loom_map *map = NULL;
    durable.journal_bytes = 2 * LEAST_JOURNAL;
    CHECK_OK(loom_map_open(context, path, &config, &durable, &map));
    return map;
}

/* Commits 1 to `commits`: key i has the value i from commit i on. Then the map is closed, or its process is killed. */
static void make_commits(loom_context *context, const char *path, uint64_t commits, int killed)
{
    pid_t child = killed ? fork() : 0;
    CHECK(child >= 0);
    if (child == 0) {
        loom_map *map = open_calm(context, path);
        for (uint64_t i = 1; i <= commits; i++)
            CHECK_OK(loom_map_insert(map, &i, &i, 1, LOOM_KEEP, NULL, NULL, NULL));
        if (killed)
            raise(SIGKILL);
        loom_map_destroy(map);
        return;
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
}

static loom_status try_open(loom_context *context, const char *path, uint32_t accept_loss, loom_map **map)
{
    const loom_map_config config = durable_map_config();
    loom_durable_config durable = durable_config(1);
    durable.accept_loss = accept_loss;
    return loom_map_open(context, path, &config, &durable, map);
}

/* What a change of the files may lead to: the map is refused as damaged, or it is the one after `least` to `commits`
 * commits. Returns 1 if it was opened, and how many commits it has. */
static int check_changed(loom_context *context, const char *path, uint64_t least, uint64_t commits, uint64_t *has)
{
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    loom_map *map = NULL;
    const loom_status checked = loom_durable_check(path, &report), status = try_open(context, path, 0, &map);
    if (status != LOOM_OK) {
        CHECK(status == LOOM_BAD_FILE || status == LOOM_FOREIGN_VERSION);
        CHECK_STATUS(checked, status);
        return 0;
    }
    CHECK_STATUS(checked, LOOM_OK);
    *has = map_size(map);
    CHECK_GE(*has, least);
    CHECK_LE(*has, commits);
    for (uint64_t key = 1; key <= *has; key++) {
        uint64_t value = 0;
        CHECK_OK(loom_map_find(map, &key, 1, &value, NULL, NULL, NULL, NULL));
        CHECK_EQ(value, key);
    }
    loom_map_destroy(map);
    return 1;
}

/* The last record is cut at every byte: it is dropped as a whole, or it is whole. */
TEST(test_durable_last_record_torn_at_every_byte, .long_tier = 1, .alone = 1, .timeout_seconds = 180)
{
    enum { COMMITS = 3, BLOCK = 4096, LAST_AT = BLOCK * COMMITS };
    loom_context *context = make_context_with(t, 1, 1);
    char path[512];
    snprintf(path, sizeof path, "%s", test_path(t, "map"));
    make_commits(context, path, COMMITS, 1);
    const files whole = read_files(path);
    const int step = (int)test_scaled(t, 1, 157);
    for (int cut = 0; cut <= BLOCK; cut += cut < 110 || cut > BLOCK - 10 ? 1 : step) {
        files torn = whole;
        uint64_t has;
        torn.journal = test_allocate(whole.journal_bytes);
        memcpy(torn.journal, whole.journal, whole.journal_bytes);
        memset(torn.journal + LAST_AT + cut, 0, (size_t)(BLOCK - cut));
        const int same = memcmp(torn.journal, whole.journal, whole.journal_bytes) == 0;
        write_files(path, &torn);
        test_note("cut at %d", cut);
        CHECK(check_changed(context, path, COMMITS - 1, COMMITS, &has));
        CHECK_EQ(has, same ? COMMITS : COMMITS - 1);
        free(torn.journal);
    }
    files f = whole;
    free_files(&f);
    loom_context_destroy(context);
}

/* Any bit flips, in either file: the damage is noticed, or it is in the last record, or where nothing is. */
TEST(test_durable_any_bit_flips, .long_tier = 1, .alone = 1)
{
    enum { COMMITS = 4, BLOCK = 4096 };
    loom_context *context = make_context_with(t, 1, 1);
    char path[512];
    uint64_t refused = 0, has = 0;
    snprintf(path, sizeof path, "%s", test_path(t, "map"));
    make_commits(context, path, COMMITS, 1);
    const files whole = read_files(path);
    const uint64_t flips = test_scaled(t, 3000, 400);
    for (uint64_t i = 0; i < flips; i++) {
        const int in_journal = random_below(&t->random, 4) > 0;
        const uint64_t bits = 8 * (in_journal ? BLOCK * (COMMITS + 2) : whole.snapshot_bytes),
                       bit = random_below(&t->random, bits), byte = bit / 8;
        unsigned char *at = (in_journal ? whole.journal : whole.snapshot) + byte;
        *at ^= (unsigned char)(1 << bit % 8);
        write_files(path, &whole);
        test_note("bit %llu of %s", (unsigned long long)bit, in_journal ? "the journal" : "the snapshot");
        const uint64_t block = byte / BLOCK;
        if (!check_changed(context, path, COMMITS - 1, COMMITS, &has))
            refused++;
        else
            CHECK(in_journal && (block == COMMITS ? has == COMMITS - 1 : has == COMMITS && block > COMMITS));
        *at ^= (unsigned char)(1 << bit % 8);
    }
    CHECK_GT(refused, 0);
    files f = whole;
    free_files(&f);
    loom_context_destroy(context);
}

/* A record in the middle is damaged. The report tells where and what, and accept_loss opens the map up to there. */
TEST(test_durable_damage_in_the_middle, .alone = 1)
{
    enum { COMMITS = 6, DAMAGED = 3, BLOCK = 4096 };
    loom_context *context = make_context_with(t, 1, 1);
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    char path[512];
    uint64_t has;
    loom_map *map = NULL;
    snprintf(path, sizeof path, "%s", test_path(t, "map"));
    make_commits(context, path, COMMITS, 1);
    files f = read_files(path);
    f.journal[DAMAGED * BLOCK + 90] ^= 1;
    write_files(path, &f);
    CHECK_REFUSED(try_open(context, path, 0, &map), LOOM_BAD_FILE);
    CHECK(strstr(loom_last_error(), "byte 12288") != NULL && strstr(loom_last_error(), "commits 3 to 6") != NULL);
    CHECK_REFUSED(loom_durable_check(path, &report), LOOM_BAD_FILE);
    CHECK_EQ(report.damaged, 1);
    CHECK_EQ(report.damaged_at, DAMAGED * BLOCK);
    CHECK_GE(report.damaged_bytes, BLOCK);
    CHECK_EQ(report.lost_commits, COMMITS - DAMAGED + 1);
    CHECK_EQ(report.epoch, DAMAGED - 1);
    CHECK_OK(try_open(context, path, 1, &map));
    CHECK_EQ(map_size(map), DAMAGED - 1);
    CHECK_EQ(durability_of(map).lost_commits, COMMITS - DAMAGED + 1);
    CHECK_EQ(durability_of(map).committed, COMMITS); /* epochs are not used again */
    put_keys(map, DAMAGED, 1, DAMAGED);
    loom_map_destroy(map);
    CHECK(check_changed(context, path, DAMAGED, DAMAGED, &has)); /* the lost records do not come back */
    free_files(&f);
    loom_context_destroy(context);
}

/* After a map was closed, damage of its last record is no torn write. */
TEST(test_durable_damage_of_the_last_record_after_closing)
{
    enum { COMMITS = 2, BLOCK = 4096 };
    loom_context *context = make_context_with(t, 1, 1);
    char path[512];
    loom_map *map = NULL;
    snprintf(path, sizeof path, "%s", test_path(t, "map"));
    make_commits(context, path, COMMITS, 0);
    files f = read_files(path);
    f.journal[COMMITS * BLOCK + 2000] ^= 16;
    write_files(path, &f);
    CHECK_REFUSED(try_open(context, path, 0, &map), LOOM_BAD_FILE);
    free_files(&f);
    loom_context_destroy(context);
}

static void check_files_refused(loom_context *context, const char *path, const files *f, loom_status wanted)
{
    loom_map *map = NULL;
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    write_files(path, f);
    CHECK_REFUSED(try_open(context, path, 0, &map), wanted);
    CHECK_REFUSED(loom_durable_check(path, &report), wanted);
}

TEST(test_durable_files_that_are_not_whole)
{
    enum { BLOCK = 4096 };
    loom_context *context = make_context_with(t, 1, 1);
    char path[512], name[600];
    loom_map *map = NULL;
    snprintf(path, sizeof path, "%s", test_path(t, "map"));
    map = durable_open(context, path, 1);
    put_keys(map, 0, 1000, 1);
    CHECK_OK(loom_map_checkpoint(map));
    put_keys(map, 0, 10, 2);
    loom_map_destroy(map);
    const files whole = read_files(path);
    static const size_t lengths[] = {0, 1, 4095, 4096, 8191};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        files f = whole;
        f.snapshot_bytes = lengths[i];
        check_files_refused(context, path, &f, LOOM_BAD_FILE);
        f = whole;
        f.journal_bytes = lengths[i];
        check_files_refused(context, path, &f, LOOM_BAD_FILE);
    }
    whole.snapshot[12] ^= 2; /* version 3 */
    check_files_refused(context, path, &whole, LOOM_FOREIGN_VERSION);
    whole.snapshot[12] ^= 2;
    whole.journal[12] ^= 2;
    check_files_refused(context, path, &whole, LOOM_FOREIGN_VERSION);
    whole.journal[12] ^= 2;
    whole.snapshot[BLOCK + 100] ^= 1; /* in the pairs */
    check_files_refused(context, path, &whole, LOOM_BAD_FILE);
    CHECK(strstr(loom_last_error(), "bytes 4096 to 8191") != NULL);
    whole.snapshot[BLOCK + 100] ^= 1;
    write_files(path, &whole);
    snprintf(name, sizeof name, "%s/snapshot", path);
    CHECK_EQ(unlink(name), 0);
    CHECK_REFUSED(try_open(context, path, 0, &map), LOOM_BAD_FILE); /* the journal has records: this is no new map */
    write_files(path, &whole);
    snprintf(name, sizeof name, "%s/journal", path);
    CHECK_EQ(unlink(name), 0);
    CHECK_REFUSED(try_open(context, path, 0, &map), LOOM_BAD_FILE);
    write_files(path, &whole);
    CHECK_OK(try_open(context, path, 0, &map));
    CHECK_EQ(map_size(map), 1000);
    loom_map_destroy(map);
    files f = whole;
    free_files(&f);
    loom_context_destroy(context);
}

/* ---- the format ---- */

/* What the stored directory holds: a snapshot of keys 0 .. 99, and records behind it. */
static void make_golden(loom_map *map)
{
    const uint64_t erased = 50, least = 7, most = 8;
    put_keys(map, 0, 100, 1);
    CHECK_OK(loom_map_checkpoint(map));
    put_keys(map, 100, 10, 7);
    CHECK_OK(loom_map_erase(map, &erased, 1, NULL, NULL, NULL));
    CHECK_OK(loom_map_erase_if(map, LOOM_NUMBER_U64, &least, &most, NULL, NULL));
    put_keys(map, 50, 1, 1);
}

/* loom_tests --write-golden-durable DIR writes the directory that is stored in tests/data. */
TEST_MODE(write_golden_durable, "--write-golden-durable")
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    CHECK_OK(loom_context_create(&config, &context));
    loom_map *map = open_calm(context, argument);
    make_golden(map);
    loom_map_destroy(map);
    loom_context_destroy(context);
    return 0;
}

/* A directory that was written long ago is read, and holds what it did. */
TEST(test_durable_golden_directory)
{
    loom_context *context = make_context_with(t, 1, 1);
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    char stored[LONGEST_PATH], path[512];
    snprintf(stored, sizeof stored, "%s/golden_durable_map_8_8", t->data);
    snprintf(path, sizeof path, "%s", test_path(t, "map"));
    CHECK_OK(loom_durable_check(stored, &report));
    CHECK_EQ(report.records, 5); /* four calls, and the note that the map was closed */
    CHECK_EQ(report.snapshot_pairs, 100);
    files f = read_files(stored);
    CHECK_EQ(mkdir(path, 0755), 0);
    write_files(path, &f);
    loom_map *map = durable_open(context, path, 1);
    check_keys(map, 100, 1);
    loom_map_destroy(map);
    free_files(&f);
    loom_context_destroy(context);
}
