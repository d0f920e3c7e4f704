/* What a save keeps of the file that it replaces, and what can prevent a save. */
#define _GNU_SOURCE 1
#include "harness/map_fixture.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static loom_map *small_map(test_run *t, loom_context *context, uint64_t n)
{
    loom_map *map = make_map(t, context, n);
    batch b = make_batch(t, n);
    fill_distinct(&b, 11, 0);
    checked_build(map, &b, LOOM_KEEP);
    free_batch(&b);
    return map;
}

TEST_EACH(test_open_save_keeps_permissions)
{
    static const mode_t modes[] = {0600, 0640, 0644, 0666};
    loom_context *context = make_context(t);
    loom_map *map = small_map(t, context, 100);
    const char *path = test_path(t, "kept");
    struct stat now;
    for (size_t i = 0; i < 4; i++) {
        test_write_file(path, "old", 3);
        CHECK_EQ(chmod(path, modes[i]), 0);
        CHECK_OK(loom_map_save(map, path, NULL));
        CHECK_EQ(stat(path, &now), 0);
        CHECK_EQ(now.st_mode & 07777, modes[i]);
    }
    CHECK_EQ(unlink(path), 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

TEST_EACH(test_open_save_longest_name)
{
    loom_context *context = make_context(t);
    loom_map *map = small_map(t, context, 100), *loaded = NULL;
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    const char *path = test_path(t, name);
    CHECK_OK(loom_map_save(map, path, NULL));
    CHECK_OK(loom_map_load(context, path, &loaded, NULL));
    CHECK_EQ(map_size(loaded), 100);
    CHECK_EQ(unlink(path), 0);
    loom_map_destroy(loaded);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A write beyond the file-size limit raises a signal that would end the process. The library must not let the signal
 * through. */
TEST_EACH(test_open_save_size_limit_without_signal, .alone = 1)
{
    loom_context *context = make_context(t);
    loom_map *map = small_map(t, context, 20000);
    struct rlimit before, low;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 4096;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    loom_status status = loom_map_save(map, test_path(t, "limited"), NULL);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0); /* before anything is printed */
    CHECK_STATUS(status, LOOM_IO);
    CHECK_EQ(test_count_entries(t->directory), 0);
    CHECK_OK(loom_map_save(map, test_path(t, "limited"), NULL));
    CHECK_EQ(unlink(test_path(t, "limited")), 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}
