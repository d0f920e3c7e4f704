/* Tests of the device interface; needs a GPU.
 *
 *   loom_device_tests [--in-place] [LANES...]
 *
 * For groups of LANES lanes; without LANES for all widths, and graphs. --in-place leaves out multimaps, whose tables
 * move.
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

static int run(int lanes)
{
    switch (lanes) {
    case 1:
        return device_tests_1();
    case 2:
        return device_tests_2();
    case 4:
        return device_tests_4();
    case 8:
        return device_tests_8();
    default:
        fprintf(stderr, "groups have 1, 2, 4 or 8 lanes\n");
        exit(2);
    }
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
    for (int lanes = 1; lanes <= 8 && argc == first; lanes *= 2)
        passed += run(lanes);
    if (argc == first)
        passed += graph_tests();
    printf("%d passed, 0 failed, 0 skipped\n", passed);
    return 0;
}
