/* Power failures at every operation of the disk, on the model of a disk (durable/model_disk.h); and that these tests
 * can fail. */
#define _GNU_SOURCE 1
#include "durable/crash_test.h"
#include "durable/model_disk.h"
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(test_durable_every_crash_point, .long_tier = 1, .timeout_seconds = 600)
{
    const crash_plan plan = {.seed = random_u64(&t->random),
                             .histories = (uint32_t)test_scaled(t, 200, 6),
                             .steps = 14,
                             .samples = (uint32_t)test_scaled(t, 12, 5)};
    const crash_outcome outcome = crash_test_run(&plan);
    fprintf(stderr, "%llu crash points, %llu recoveries\n", (unsigned long long)outcome.crash_points,
            (unsigned long long)outcome.recoveries);
    if (outcome.violations > 0)
        FAIL("%llu violations; the first: %s", (unsigned long long)outcome.violations, outcome.first);
    CHECK_GT(outcome.crash_points, 100);
}

/* A disk that forgets what it was told to sync loses something, and the test notices. */
TEST(test_durable_lying_disk_is_noticed)
{
    static const unsigned faults[] = {MODEL_JOURNAL_SYNC_DOES_NOTHING, MODEL_SNAPSHOT_SYNC_DOES_NOTHING,
                                      MODEL_NAMES_SYNC_DOES_NOTHING};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const crash_plan plan = {
            .seed = 1, .histories = 20, .steps = 14, .samples = 6, .faults = faults[i], .stop_at_first = 1};
        test_note("fault %u", faults[i]);
        CHECK_GT(crash_test_run(&plan).violations, 0);
    }
}

#ifdef LOOM_DURABLE_PLANTS
/* Each planted fault of durable/plants.cmake is found by a program of its own. */
static void check_plant(const test_run *t, const char *plant)
{
    char program[4096];
    const char *slash = strrchr(t->program, '/');
    const int folder = slash != NULL ? (int)(slash - t->program) : 0;
    snprintf(program, sizeof program, "%.*s/durable_plant_%s", folder, t->program, plant);
    test_note("plant %s", plant);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(program, program, NULL);
        _exit(2);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(test_durable_plants_are_found, .alone = 1, .timeout_seconds = 300)
{
    char plants[] = LOOM_DURABLE_PLANTS, *rest = plants;
    for (char *plant; (plant = strsep(&rest, " ")) != NULL;)
        check_plant(t, plant);
}
#endif
