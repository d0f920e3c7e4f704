/* The module of the cuda machine: the messages when it is missing, is of another version, or finds no device. */
#include "harness/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library looks for a module once in a process. Every test runs in a process of its own. */
static void check_refused(const char *module, const char *sentence)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    CHECK_EQ(setenv("LOOM_CUDA_MODULE", module, 1), 0);
    CHECK_REFUSED(loom_machine_present(LOOM_MACHINE_CUDA), LOOM_NO_MACHINE);
    CHECK(strstr(loom_last_error(), sentence) != NULL);
    config.machine = LOOM_MACHINE_CUDA;
    CHECK_REFUSED(loom_context_create(&config, &context), LOOM_NO_MACHINE);
    /* LOOM_MACHINE_BEST then chooses the cpu machine. */
    config.machine = LOOM_MACHINE_BEST;
    CHECK_REFUSED(loom_context_create(&config, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_context_create(&config, &context));
    CHECK(strstr(loom_last_error(), sentence) == NULL); /* the missing module is not an error here */
    CHECK_OK(loom_context_describe(context, &info));
    CHECK_EQ(info.machine, LOOM_MACHINE_CPU);
    loom_context_destroy(context);
}

/* The path of a module that was built with the tests. */
static const char *built_module(const test_run *t, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", t->program);
    snprintf(strrchr(path, '/'), 64, "/../lib/libloom_%s.so", name);
    return path;
}

TEST(test_api_module_of_another_version_is_refused)
{
    check_refused(built_module(t, "foreign"), "another version");
}

TEST(test_api_module_without_a_device_is_told)
{
    check_refused(built_module(t, "absent"), "no device can be used here");
}

TEST(test_api_module_that_is_missing_is_told)
{
    check_refused(test_path(t, "no_such_module.so"), "could not be loaded");
}

/* Without a GPU, LOOM_MACHINE_BEST succeeds with the cpu machine. loom_last_error stays the sentence of the last call
 * that failed, or "" if none did. */
static void *make_best_contexts(void *unused)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    loom_map_config small = LOOM_MAP_CONFIG_INIT;
    loom_map *map = NULL;
    small.key_bytes = small.value_bytes = 4;
    CHECK_TEXT(loom_last_error(), "");
    CHECK_OK(loom_machine_present(LOOM_MACHINE_BEST));
    CHECK_TEXT(loom_last_error(), "");
    for (int i = 0; i < 2; i++) { /* the module is looked for once */
        CHECK_OK(loom_context_create(i == 0 ? NULL : &config, &context));
        CHECK_TEXT(loom_last_error(), "");
        CHECK_OK(loom_map_create(context, &small, &map));
        CHECK_TEXT(loom_last_error(), "");
        loom_map_destroy(map);
        loom_context_destroy(context);
        CHECK_TEXT(loom_last_error(), "");
    }
    CHECK_REFUSED(loom_map_create(NULL, &small, &map), LOOM_INVALID_ARGUMENT);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", loom_last_error());
    CHECK_OK(loom_context_create(NULL, &context));
    CHECK_TEXT(loom_last_error(), sentence);
    loom_context_destroy(context);
    return unused;
}

static void check_nothing_is_said(const char *module)
{
    pthread_t thread;
    CHECK_EQ(setenv("LOOM_CUDA_MODULE", module, 1), 0);
    CHECK_EQ(pthread_create(&thread, NULL, make_best_contexts, NULL), 0); /* where nothing has failed yet */
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(test_api_context_best_says_nothing_of_a_missing_module)
{
    check_nothing_is_said(test_path(t, "no_such_module.so"));
}

TEST(test_api_context_best_says_nothing_of_a_foreign_module)
{
    check_nothing_is_said(built_module(t, "foreign"));
}

TEST(test_api_context_best_says_nothing_of_a_missing_device)
{
    check_nothing_is_said(built_module(t, "absent"));
}
