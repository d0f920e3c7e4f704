/* Runs the crash test with a planted fault in the library: exits with 0 if the test finds it. */
#include "durable/crash_test.h"

#include <stdio.h>

int main(void)
{
    const crash_plan plan = {.seed = 1, .histories = 40, .steps = 14, .samples = 8, .stop_at_first = 1};
    const crash_outcome outcome = crash_test_run(&plan);
    printf("%llu crash points, %llu recoveries, %llu violations: %s\n", (unsigned long long)outcome.crash_points,
           (unsigned long long)outcome.recoveries, (unsigned long long)outcome.violations, outcome.first);
    return outcome.violations > 0 ? 0 : 1;
}
