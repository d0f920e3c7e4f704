/* Version, statuses, the last error, and silence. */
#define _GNU_SOURCE 1
#include "harness/map_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Version and statuses ------------------------------------------------------------------------------- */

TEST(test_api_version_matches_header)
{
    CHECK_EQ(loom_version(), LOOM_VERSION);
    CHECK_EQ(LOOM_VERSION, LOOM_VERSION_MAJOR * 10000 + LOOM_VERSION_MINOR * 100 + LOOM_VERSION_PATCH);
}

TEST(test_api_status_names_and_texts)
{
#define CHECK_ONE(name, value, text)                                   \
    CHECK_EQ(LOOM_##name, value);                                      \
    CHECK_TEXT(loom_status_name((loom_status)(value)), "LOOM_" #name); \
    CHECK_TEXT(loom_status_text((loom_status)(value)), text);
    LOOM_STATUS_LIST(CHECK_ONE)
#undef CHECK_ONE
}

/* Status values are part of the ABI. They are written out here a second time: a change in the header fails the test. */
TEST(test_api_status_values_pinned)
{
    CHECK_EQ(LOOM_OK, 0);
    CHECK_EQ(LOOM_NOT_FOUND, 1);
    CHECK_EQ(LOOM_EXISTS, 2);
    CHECK_EQ(LOOM_FULL, 3);
    CHECK_EQ(LOOM_INVALID_ARGUMENT, 16);
    CHECK_EQ(LOOM_OUT_OF_MEMORY, 17);
    CHECK_EQ(LOOM_UNSUPPORTED, 18);
    CHECK_EQ(LOOM_CHANGED, 19);
    CHECK_EQ(LOOM_TOO_SMALL, 20);
    CHECK_EQ(LOOM_NO_MACHINE, 21);
    CHECK_EQ(LOOM_DEVICE, 22);
    CHECK_EQ(LOOM_IN_USE, 23);
    CHECK_EQ(LOOM_OVERFILLED, 24);
    CHECK_EQ(LOOM_IO, 32);
    CHECK_EQ(LOOM_BAD_FILE, 33);
    CHECK_EQ(LOOM_FOREIGN_VERSION, 34);
    CHECK_EQ(LOOM_LOCKED, 35);
    CHECK_EQ(LOOM_INTERNAL, 64);
    CHECK_EQ(sizeof(loom_result), 64);
    CHECK_EQ(sizeof(loom_status), 4);
}

TEST(test_api_status_unknown_values)
{
    static const int values[] = {-1, 5, 15, 25, 31, 36, 63, 65, 1000000, 0x7fffffff, -0x7fffffff - 1};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const char *name = loom_status_name((loom_status)values[i]), *text = loom_status_text((loom_status)values[i]);
        test_note("status %d", values[i]);
        CHECK(name != NULL && name[0]);
        CHECK(text != NULL && text[0]);
#define DIFFERS(known, value, known_text)     \
    CHECK(strcmp(name, "LOOM_" #known) != 0); \
    CHECK(strcmp(text, known_text) != 0);
        LOOM_STATUS_LIST(DIFFERS)
#undef DIFFERS
    }
}

/* ---- The last error ------------------------------------------------------------------------------------- */

static void *fail_elsewhere(void *argument)
{
    char *copy = argument;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    CHECK_TEXT(loom_last_error(), "");
    config.simd = (loom_simd)99;
    CHECK_STATUS(loom_context_create(&config, &context), LOOM_INVALID_ARGUMENT);
    snprintf(copy, 512, "%s", loom_last_error());
    return NULL;
}

TEST(test_api_last_error_per_thread, .threads = 1)
{
    char here[512], there[512];
    pthread_t thread;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.fixed_seed = 7;
    CHECK_STATUS(loom_context_create(&config, &context), LOOM_INVALID_ARGUMENT);
    snprintf(here, sizeof here, "%s", loom_last_error());
    CHECK(here[0] != 0);
    CHECK_EQ(pthread_create(&thread, NULL, fail_elsewhere, there), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_TEXT(loom_last_error(), here);
    CHECK(there[0] != 0);
    CHECK(strcmp(here, there) != 0);
}

static void *read_last_error(void *argument)
{
    CHECK_TEXT(loom_last_error(), "");
    return argument;
}

TEST(test_api_last_error_empty_at_first)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, read_last_error, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(test_api_last_error_survives_success)
{
    char before[512];
    loom_context *context = make_context(t);
    loom_map *map = NULL;
    loom_map_config config = make_config(t, 10);
    config.key_bytes = 300;
    CHECK_STATUS(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    snprintf(before, sizeof before, "%s", loom_last_error());
    config.key_bytes = 8;
    CHECK_OK(loom_map_create(context, &config, &map));
    CHECK_EQ(map_size(map), 0);
    CHECK_TEXT(loom_last_error(), before);
    config.value_bytes = 70000;
    CHECK_STATUS(loom_map_create(context, &config, &map), LOOM_INVALID_ARGUMENT);
    CHECK(strcmp(loom_last_error(), before) != 0);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* The library prints nothing: after failures of many kinds, stdout and stderr are empty. */
TEST(test_api_nothing_is_printed)
{
    const char *path = test_path(t, "output");
    FILE *output = fopen(path, "w+");
    CHECK(output != NULL);
    fflush(stdout);
    fflush(stderr);
    int old_stdout = dup(1), old_stderr = dup(2);
    dup2(fileno(output), 1);
    dup2(fileno(output), 2);

    loom_context *context = make_context_with(t, 2, 9);
    loom_map *map = make_map(t, context, 10), *other = NULL;
    batch b = make_batch(t, 10000);
    fill_distinct(&b, 3, 0);
    loom_status full = loom_map_insert(map, b.keys, b.values, b.n, LOOM_KEEP, NULL, NULL, NULL);
    loom_status null = loom_map_insert(map, NULL, NULL, 5, LOOM_KEEP, NULL, NULL, NULL);
    loom_status load = loom_map_load(context, test_path(t, "absent"), &other, NULL);
    loom_status save = loom_map_save(map, test_path(t, "no/such/directory"), NULL);
    loom_map_config config = make_config(t, UINT64_MAX);
    loom_status huge = loom_map_create(context, &config, &other);
    loom_map_destroy(map);
    loom_context_destroy(context);
    free_batch(&b);

    fflush(stdout);
    fflush(stderr);
    dup2(old_stdout, 1);
    dup2(old_stderr, 2);
    CHECK_STATUS(full, LOOM_FULL);
    CHECK_STATUS(null, LOOM_INVALID_ARGUMENT);
    CHECK_STATUS(load, LOOM_IO);
    CHECK_STATUS(save, LOOM_IO);
    CHECK(huge == LOOM_INVALID_ARGUMENT || huge == LOOM_OUT_OF_MEMORY);
    CHECK_EQ(lseek(fileno(output), 0, SEEK_END), 0);
    fclose(output);
    close(old_stdout);
    close(old_stderr);
}
