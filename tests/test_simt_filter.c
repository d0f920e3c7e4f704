/* The filter's algorithms in the lane simulator: insertions and queries, which all may overlap. */
#include "harness/harness.h"
#include "simt/sim_case.h"

/* A failing run tells its seed and how to replay it. */
static void run_case(test_run *t, const char *name, uint64_t normal)
{
    const sim_case *c = sim_case_named(name);
    CHECK(c != NULL);
    char replay[100];
    sim_options options = {.report = stderr, .replay = replay};
    for (uint64_t seed = 0; seed < test_scaled(t, normal, normal / 20); seed++) {
        snprintf(replay, sizeof replay, "--case %s --seed %llu", name, (unsigned long long)seed);
        if (!sim_run(c, seed, &options))
            FAIL("seed %llu of %s; see above", (unsigned long long)seed, name);
    }
}

enum { RUNS = 12000 };

TEST(test_simt_filter_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "filter/insert+insert", RUNS);
}
TEST(test_simt_filter_contains_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "filter/insert+contains", RUNS);
}
TEST(test_simt_filter_mixed, .timeout_seconds = 240)
{
    run_case(t, "filter/mixed", RUNS);
}
