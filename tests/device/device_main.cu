/* Tests of the device interface; needs a GPU.
 *
 *   loom_device_tests [--in-place] [LANES...]
 *
 * For groups of LANES lanes; without LANES for all widths it was compiled for, and graphs. --in-place leaves out
 * multimaps, whose tables move.
 *
 * One line for each group of tests, then the counts. The first fault ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tables_may_move = true;
int device_tests_1();
int device_tests_2();
int device_tests_4();
int device_tests_8();
int graph_tests();

struct width {
    int lanes;
    int (*run)();
};

static const width widths[] = {
#ifdef LOOM_DEVICE_TESTS_1
    {1, device_tests_1},
#endif
#ifdef LOOM_DEVICE_TESTS_2
    {2, device_tests_2},
#endif
#ifdef LOOM_DEVICE_TESTS_4
    {4, device_tests_4},
#endif
#ifdef LOOM_DEVICE_TESTS_8
    {8, device_tests_8},
#endif
};

static int run(int lanes)
{
    for (const width &one : widths)
        if (one.lanes == lanes)
            return one.run();
    fprintf(stderr, "there are no tests for groups of %d lanes (LOOM_DEVICE_TEST_LANES)\n", lanes);
    exit(2);
}

int main(int argc, char **argv)
{
    int passed = 0, first = 1;
    if (argc > 1 && strcmp(argv[1], "--in-place") == 0) {
        tables_may_move = false;
        first = 2;
    }
    for (int i = first; i < argc; i++)
        passed += run(atoi(argv[i]));
    if (argc == first) {
        for (const width &one : widths)
            passed += one.run();
        passed += graph_tests();
    }
    printf("%d passed, 0 failed, 0 skipped\n", passed);
    return 0;
}
