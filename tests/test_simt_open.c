/* The open engine's algorithms in the lane simulator: every pair of operations that the header lets overlap. */
#include "simt/sim_test.h"

#include <string.h>

TEST(test_simt_open_find_beside_find, .timeout_seconds = 240)
{
    run_case(t, "find+find", RUNS);
}
TEST(test_simt_open_insert_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "insert+insert", RUNS);
}
TEST(test_simt_open_insert_beside_insert_full, .timeout_seconds = 240)
{
    run_case(t, "insert+insert/full", RUNS);
}
TEST(test_simt_open_erase_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "erase+erase", RUNS);
}
TEST(test_simt_open_find_beside_insert, .timeout_seconds = 240)
{
    run_case(t, "find+insert", RUNS);
}
TEST(test_simt_open_find_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "find+erase", RUNS);
}
TEST(test_simt_open_find_beside_inserts, .timeout_seconds = 240)
{
    run_case(t, "insert+insert+find", RUNS);
}
TEST(test_simt_open_find_beside_erases, .timeout_seconds = 240)
{
    run_case(t, "erase+erase+find", RUNS);
}

TEST(test_simt_open_fetch_beside_fetch, .timeout_seconds = 240)
{
    run_case(t, "fetch+fetch", RUNS);
}
TEST(test_simt_open_fetch_beside_fetch_full, .timeout_seconds = 240)
{
    run_case(t, "fetch+fetch/full", RUNS);
}
TEST(test_simt_open_find_beside_fetch, .timeout_seconds = 240)
{
    run_case(t, "fetch+find", RUNS);
}
TEST(test_simt_open_accumulate_beside_accumulate, .timeout_seconds = 240)
{
    run_case(t, "accumulate+accumulate", RUNS);
}
TEST(test_simt_open_accumulate_beside_accumulate_full, .timeout_seconds = 240)
{
    run_case(t, "accumulate+accumulate/full", RUNS);
}
TEST(test_simt_open_find_beside_accumulate, .timeout_seconds = 240)
{
    run_case(t, "accumulate+find", RUNS);
}
TEST(test_simt_open_reserve_beside_reserve, .timeout_seconds = 240)
{
    run_case(t, "reserve+reserve", RUNS);
}
TEST(test_simt_open_reserve_beside_reserve_full, .timeout_seconds = 240)
{
    run_case(t, "reserve+reserve/full", RUNS);
}
TEST(test_simt_open_reserve_beside_reserve_large, .timeout_seconds = 240)
{
    run_case(t, "reserve+reserve/large", RUNS / 2);
}
TEST(test_simt_open_update_beside_update, .timeout_seconds = 240)
{
    run_case(t, "update+update", RUNS);
}
TEST(test_simt_open_find_beside_update, .timeout_seconds = 240)
{
    run_case(t, "update+find", RUNS);
}

TEST(test_simt_open_mixed, .timeout_seconds = 240)
{
    run_case(t, "mixed/insert+erase", RUNS);
}
TEST(test_simt_open_find_beside_mixed, .timeout_seconds = 240)
{
    run_case(t, "mixed/find", RUNS);
}
TEST(test_simt_open_mixed_find, .timeout_seconds = 240)
{
    run_case(t, "mixed/insert+erase+find", RUNS);
}
TEST(test_simt_open_mixed_full, .timeout_seconds = 240)
{
    run_case(t, "mixed/full", RUNS);
}
TEST(test_simt_open_erase_if_beside_erase, .timeout_seconds = 240)
{
    run_case(t, "erase_if+erase", RUNS);
}
TEST(test_simt_open_erase_if_beside_find, .timeout_seconds = 240)
{
    run_case(t, "erase_if+find", RUNS);
}
TEST(test_simt_open_mixed_erase_if, .timeout_seconds = 240)
{
    run_case(t, "mixed/erase_if", RUNS);
}
TEST(test_simt_open_unread, .timeout_seconds = 240)
{
    run_case(t, "unread/insert+insert", RUNS);
}
TEST(test_simt_open_unread_full, .timeout_seconds = 240)
{
    run_case(t, "unread/insert+insert/full", RUNS);
}
TEST(test_simt_open_unread_fetch_full, .timeout_seconds = 240)
{
    run_case(t, "unread/fetch+fetch/full", RUNS);
}
TEST(test_simt_open_unread_accumulate_full, .timeout_seconds = 240)
{
    run_case(t, "unread/accumulate/full", RUNS);
}
TEST(test_simt_open_upkeep, .timeout_seconds = 240)
{
    run_case(t, "upkeep", RUNS);
}

/* Explores all schedules of small scenarios of every case: open tables, filters, perfect tables and multimaps. A
 * schedule runs one lane after the other, with up to three detours. Exceptions: two detours in cases with three calls,
 * with strings, in upkeep, in scans and in appends, which take more steps; one detour where a team makes room or
 * repairs codes, and where four appends meet at the end of the heap. */
TEST(test_simt_open_exhaustive, .timeout_seconds = 600)
{
    sim_options options = {.tiny = 1, .report = stderr};
    const uint64_t most = test_scaled(t, t->short_tier ? 1000 : 400000, 300);
    for (uint32_t i = 0; i < sim_case_count; i++) {
        if (sim_cases[i].forbidden)
            continue;
        /* Every width twice, and six times in mixed cases, whose calls draw different operations. */
        uint64_t seeds = sim_cases[i].mixed ? 36 : sim_cases[i].sets ? 12 : 8;
        if (t->short_tier && t->quick)
            seeds /= 4;
        for (uint64_t seed = 0; seed < seeds; seed++) {
            char replay[100];
            uint64_t runs;
            int complete;
            int longer = sim_cases[i].crowded || sim_cases[i].mixed || sim_cases[i].strings ||
                         sim_cases[i].streams[0] & (SIM_UPKEEP | SIM_ERASE_IF | SIM_APPEND);
            int longest = sim_cases[i].brim || sim_cases[i].streams[0] & (SIM_MOVES | SIM_REPAIR);
            uint32_t detours = longest ? 1 : longer ? 2 : 3;
            snprintf(replay, sizeof replay, "--case %s --seed %llu --exhaustive %u", sim_cases[i].name,
                     (unsigned long long)seed, detours);
            options.replay = replay;
            if (!sim_explore(&sim_cases[i], seed, detours, most, &options, &runs, &complete))
                FAIL("run %llu of %s; see above", (unsigned long long)runs, replay);
            if (!complete && !t->quick && !t->short_tier)
                FAIL("%s has more than %llu schedules", replay, (unsigned long long)most);
        }
    }
}

/* The same seed gives the same run, step by step. */
TEST(test_simt_open_replay)
{
    sim_options options = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        static simt_event first[SIMT_TRACE];
        const sim_case *c = &sim_cases[seed % sim_case_count];
        sim_run(c, seed, &options);
        uint64_t steps = simt.steps, traced = simt.traced;
        memcpy(first, simt.trace, sizeof first);
        sim_run(&sim_cases[(seed + 1) % sim_case_count], seed + 1, &options);
        sim_run(c, seed, &options);
        CHECK_EQ(simt.steps, steps);
        CHECK_EQ(simt.traced, traced);
        for (uint64_t i = 0; i < (traced < SIMT_TRACE ? traced : SIMT_TRACE); i++) {
            CHECK_EQ(simt.trace[i].step, first[i].step);
            CHECK_EQ(simt.trace[i].lane, first[i].lane);
            CHECK_EQ(simt.trace[i].word, first[i].word);
            CHECK_EQ(simt.trace[i].value, first[i].value);
        }
    }
}
