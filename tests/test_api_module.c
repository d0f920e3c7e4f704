/* The module of the cuda machine: what is said when it is not there, or not ours. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library looks for a module once in a process; each test has one. */
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
    /* The best machine is then the cpu. */
    config.machine = LOOM_MACHINE_BEST;
    CHECK_REFUSED(loom_context_create(&config, NULL), LOOM_INVALID_ARGUMENT);
    CHECK_OK(loom_context_create(&config, &context));
    CHECK(strstr(loom_last_error(), sentence) == NULL); /* and that is no failure */
    CHECK_OK(loom_context_describe(context, &info));
    CHECK_EQ(info.machine, LOOM_MACHINE_CPU);
    loom_context_destroy(context);
}

TEST(test_api_module_of_another_version_is_refused)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", t->program);
    snprintf(strrchr(path, '/'), 64, "/../lib/libloom_foreign.so");
    check_refused(path, "another version");
}

TEST(test_api_module_that_is_missing_is_told)
{
    check_refused(test_path(t, "no_such_module.so"), "could not be loaded");
}
