/* Tests of the harness and the reference map. A harness that cannot fail proves nothing. */
#define _GNU_SOURCE 1
#include "harness/harness.h"
#include "harness/reference_map.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Tests that go wrong, run only by the test below ----------------------------------------------------------- */

TEST(test_harness_example_passes, .hidden = 1)
{
    CHECK_EQ(2 + 2, 4);
}

TEST(test_harness_example_fails, .hidden = 1)
{
    test_note("adding");
    CHECK_EQ(2 + 2, 5);
}

TEST(test_harness_example_crashes, .hidden = 1)
{
    raise(SIGKILL); /* sanitizers do not intercept this signal */
}

TEST(test_harness_example_hangs, .hidden = 1, .timeout_seconds = 1)
{
    for (;;)
        pause();
}

TEST(test_harness_example_skips, .hidden = 1)
{
    SKIP("there is %s here", "nothing");
}

TEST(test_harness_example_random, .hidden = 1)
{
    FAIL("drew %llu", (unsigned long long)random_u64(&t->random));
}

/* In the order of their names: passes, fails, crashes, passes. */
TEST_EACH(test_harness_several_widths, .hidden = 1)
{
    if (t->key_bytes == 4 && t->value_bytes == 8)
        FAIL("of %d widths", 4);
    if (t->key_bytes == 8 && t->value_bytes == 4)
        raise(SIGKILL);
}

/* Runs this program and returns its output. */
static char *run_self(const test_run *t, const char *arguments, int *status)
{
    char command[2048];
    size_t bytes;
    const char *output = test_path(t, "output");
    snprintf(command, sizeof command, "'%s' %s %s >'%s' 2>&1 </dev/null", t->program, t->extra[0], arguments, output);
    int result = system(command);
    if (WIFEXITED(result) && (WEXITSTATUS(result) == 126 || WEXITSTATUS(result) == 127))
        SKIP("this program cannot start itself; it is being emulated");
    *status = WIFEXITED(result) ? WEXITSTATUS(result) : -1;
    char *text = test_read_file(output, &bytes);
    text = realloc(text, bytes + 1);
    CHECK(text != NULL);
    text[bytes] = 0;
    return text;
}

#define CHECK_HAS(text, part)                                 \
    do {                                                      \
        if (!strstr(text, part))                              \
            FAIL("the output lacks \"%s\":\n%s", part, text); \
    } while (0)

TEST(test_harness_reports_every_outcome)
{
    int status;
    char *text = run_self(t, "--hidden --filter test_harness_example_ --seed 77 --timeout-scale 1 --verbose", &status);
    CHECK_EQ(status, 1);
    CHECK_HAS(text, "\n1 passed, 4 failed, 1 skipped\n");
    CHECK_HAS(text, "PASS test_harness_example_passes");
    CHECK_HAS(text, "FAIL test_harness_example_fails: exit status 1");
    CHECK_HAS(text, "2 + 2 == 5 does not hold");
    CHECK_HAS(text, "left  4 (0x4)");
    CHECK_HAS(text, "while: adding");
    CHECK_HAS(text, "FAIL test_harness_example_crashes: killed by signal 9");
    CHECK_HAS(text, "FAIL test_harness_example_hangs: no end after 1 s");
    CHECK_HAS(text, "SKIP test_harness_example_skips (there is nothing here)");
    CHECK_HAS(text, "--run test_harness_example_fails --seed 0x4d");
    free(text);
}

/* With --together one process runs several tests. A test that does not pass ends its process, and the others still
 * run. */
TEST(test_harness_runs_tests_together)
{
    int status;
    const char *arguments = "--hidden --filter test_harness_several_ --simd scalar --together 3 --jobs 1 --verbose";
    char *text = run_self(t, arguments, &status);
    CHECK_EQ(status, 1);
    CHECK_HAS(text, "\n2 passed, 2 failed, 0 skipped\n");
    CHECK_HAS(text, "PASS test_harness_several_widths_4_4");
    CHECK_HAS(text, "FAIL test_harness_several_widths_4_8: exit status 1");
    CHECK_HAS(text, "FAIL test_harness_several_widths_8_4: killed by signal 9");
    CHECK_HAS(text, "PASS test_harness_several_widths_8_8");
    free(text);
    text = run_self(t, "--run test_harness_example_passes,test_harness_example_fails", &status);
    CHECK_EQ(status, 1);
    CHECK_HAS(text, "2 + 2 == 5 does not hold");
    free(text);
    free(run_self(t, "--run test_harness_example_passes,test_harness_example_passes", &status));
    CHECK_EQ(status, 0);
}

/* The command that a failing test names draws the same numbers. */
TEST(test_harness_replays_a_seed)
{
    int status;
    char *all = run_self(t, "--hidden --filter test_harness_example_random --seed 123456789", &status);
    CHECK_EQ(status, 1);
    char *one = run_self(t, "--run test_harness_example_random --seed 0x75bcd15", &status);
    CHECK_EQ(status, 1);
    char *drew = strstr(one, "drew ");
    CHECK(drew != NULL);
    drew[strcspn(drew, "\n")] = 0;
    CHECK_HAS(all, drew);
    char *other = run_self(t, "--run test_harness_example_random --seed 5", &status);
    CHECK(strstr(other, drew) == NULL);
    free(all);
    free(one);
    free(other);
}

TEST(test_harness_refuses_wrong_options)
{
    int status;
    static const char *const wrong[] = {"--no-such-option", "--seed x",           "--jobs 0",
                                        "--together 0",     "--run no_such_test", "--seed"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        free(run_self(t, wrong[i], &status));
        test_note("%s", wrong[i]);
        CHECK_EQ(status, 2);
    }
    free(run_self(t, "--filter no_test_has_this_name", &status));
    CHECK_EQ(status, 1); /* a run without tests is a failure */
    char *list = run_self(t, "--list", &status);
    CHECK_EQ(status, 0);
    CHECK_HAS(list, "test_harness_replays_a_seed\n");
    CHECK_HAS(list, "test_open_model_random_operations_8_4\n");
    CHECK(strstr(list, "example") == NULL);
    free(list);
}

/* ---- The reference map ------------------------------------------------------------------------------------- */

/* Compares the reference map with an array that has one element for each key of a small range. */
TEST(test_reference_map_against_an_array)
{
    enum { RANGE = 2000 };
    static uint64_t values[RANGE];
    static unsigned char there[RANGE];
    reference_map *map = reference_create();
    uint64_t size = 0;
    memset(there, 0, sizeof there);
    for (uint64_t i = 0; i < test_scaled(t, 400000, 60000); i++) {
        uint64_t which = random_below(&t->random, RANGE), key = which * UINT64_C(0x100000000), value = 0;
        switch (random_below(&t->random, 5)) {
        case 0:
        case 1:
            CHECK_EQ(reference_put(map, key, i), !there[which]);
            size += !there[which];
            there[which] = 1;
            values[which] = i;
            break;
        case 2:
            CHECK_EQ(reference_remove(map, key), there[which]);
            size -= there[which];
            there[which] = 0;
            break;
        default:
            CHECK_EQ(reference_get(map, key, &value), there[which]);
            if (there[which])
                CHECK_EQ(value, values[which]);
        }
        if (random_below(&t->random, 20000) == 0) {
            reference_clear(map);
            memset(there, 0, sizeof there);
            size = 0;
        }
        if (random_below(&t->random, 5000) == 0) {
            reference_map *copy = reference_copy(map);
            reference_destroy(map);
            map = copy;
        }
        CHECK_EQ(reference_size(map), size);
    }
    uint64_t position = 0, key, value, seen = 0;
    while (reference_next(map, &position, &key, &value)) {
        CHECK(there[key >> 32]);
        CHECK_EQ(values[key >> 32], value);
        seen++;
    }
    CHECK_EQ(seen, size);
    reference_destroy(map);
}
